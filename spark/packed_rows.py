"""Answer changes as Arrow streams in a binary column: how they leave the stateful processor.

What Spark takes from a stateful processor are pandas frames, in which text is Python objects: four of five values of a row.
Packed, tens of thousands of rows are one value, which the next step turns into columns without looking at a row.
Beside it stand how many rows it has and, once a micro-batch, the figures of the share (`rpq.spark.stream_counts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd
import pyarrow as pa

from rpq.spark.shipped import Shipped
from rpq.spark.stream_counts import FIGURES

SCHEMA = ", ".join(["rows binary", "count bigint", *(f"{name} bigint" for name in FIGURES)])

MOST_ROWS = 1 << 16
"""Answer changes in a value: a few megabytes."""


def packed_rows(changes: pa.Table) -> Iterator[pd.DataFrame]:
    """Answer changes as frames of one row each. O(bytes)."""
    for start in range(0, len(changes), MOST_ROWS):
        rows = changes.slice(start, MOST_ROWS).combine_chunks()
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as writer:
            writer.write_table(rows)
        yield _frame(out.getvalue().to_pybytes(), len(rows), {})


def packed_figures(figures: Mapping[str, int]) -> pd.DataFrame:
    """The figures of a share as a frame without rows."""
    return _frame(None, 0, figures)


class RowUnpacker(Shipped):
    """What a task runs: takes packed rows, gives rows.  For `mapInArrow`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch["rows"]:
                if value.is_valid:
                    with pa.ipc.open_stream(value.as_buffer()) as reader:
                        yield from reader


def _frame(rows: bytes | None, count: int, figures: Mapping[str, int]) -> pd.DataFrame:
    told = {name: [figures.get(name, 0)] for name in FIGURES}
    return pd.DataFrame({"rows": pd.Series([rows], dtype=object), "count": [count], **told})
