"""Lines that a kernel puts together are those that Arrow puts together, piece by piece."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.kafka.row_outputs import Destination, RowMessages
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


@pytest.mark.parametrize("upsert", [False, True])
def test_messages_of_rows(upsert) -> None:
    rows = pa.table(
        {
            "query": ["q"] * 3, "source": ["a", 'b"', "c\n"], "target": [1, 2, 3],
            "timestamp": [25, 26, 27], "op": ["+", "-", "+"],
        }
    )  # fmt: skip
    chunked = pa.concat_tables([rows.slice(0, 1), rows.slice(1)])
    made = RowMessages(
        destinations={"q": Destination(topic="t", columns=("source", "target", "timestamp", "op"))}, upsert=upsert
    )
    ((topic, messages),) = made.convert(chunked)
    assert topic == "t" and messages.headers is None
    assert messages.keys == [b'["q","a",1]', b'["q","b\\"",2]', b'["q","c\\n",3]']
    values = [
        b'{"source": "a", "target": 1, "timestamp": 25, "op": "+"}',
        b'{"source": "b\\"", "target": 2, "timestamp": 26, "op": "-"}',
        b'{"source": "c\\n", "target": 3, "timestamp": 27, "op": "+"}',
    ]
    assert messages.values == ([values[0], None, values[2]] if upsert else values)
