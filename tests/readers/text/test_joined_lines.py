"""Lines that a kernel puts together are those that Arrow puts together, piece by piece."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rpq.rows.column_kernels import joined_lines
from rpq.rows.table_formats import array_pieces, json_arrays, json_cells, json_lines, object_pieces

TEXTS = ["", "a", 'say "b"', "back\\slash", "new\nline", "é😀", "x" * 15, "y" * 16, "z" * 17, "long " * 50]


@given(
    rows=st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(-(2**63), 2**63 - 1), st.sampled_from([*TEXTS, None]))),
    cut=st.integers(0, 3),
)
def test_lines_of_a_kernel_are_those_of_arrow(rows, cut) -> None:
    rows += [("a", 1, "b")] * (cut + 1)
    source, time, target = zip(*rows, strict=True)
    table = pa.table({"source": source, "timestamp": time, 'say "target"': target}).slice(cut)
    (batch,) = table.to_batches()
    cells = [json_cells(column) for column in batch.columns]
    names = table.column_names
    objects = joined_lines(object_pieces(names, cells))
    assert objects == b"".join(buffer.to_pybytes() for buffer in json_lines(table))
    assert [tuple(json.loads(line).values()) for line in objects.splitlines()] == rows[cut:]
    assert joined_lines(array_pieces(cells)) == b"".join(buffer.to_pybytes() for buffer in json_arrays(table))
