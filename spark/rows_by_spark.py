"""Rows of a data frame, or of Parquet wherever Spark reads it, as staged rows (`rpq.spark.split_reader`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rpq.spark.hadoop_files import place_of
from rpq.spark.shipped import Shipped
from rpq.spark.split_reader import COUNTS, checked_rows, staged, staged_schema
from rpq.spark.splits import split_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rpq.spark.edge_columns import EdgeColumns

_PLACES = ("file", "row")


def staged_rows(columns: EdgeColumns, *, files: Mapping[str, int] | None = None) -> DataFrame:
    """Tuples as staged rows in the order of files (place → number) and of the rows in them; without files, as they come."""
    rows = columns.tuples if files is not None else columns.tuples.drop(*_PLACES)
    return rows.mapInArrow(RowReader(columns.vertex, files), staged_schema(columns.vertex))


class RowReader(Shipped):
    """What a task runs: takes tuples, gives staged rows.  For `mapInArrow`."""

    def __init__(self, vertex: str, files: Mapping[str, int] | None) -> None:
        self._vertex = vertex
        self._files = None if files is None else dict(files)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: Counter[int] = Counter()
        for split, runs in groupby(self._runs(batches, seen), lambda run: run[0]):
            for _, first, rows in runs:
                yield from staged(checked_rows(rows, first), split=split, vertex=self._vertex, first=first)
        for split, count in seen.items():
            counts = {"lines": pa.array([0]), "data_lines": pa.array([count])}
            yield from staged([(COUNTS, counts)], split=split, vertex=self._vertex)

    def _runs(
        self, batches: Iterable[pa.RecordBatch], seen: Counter[int]
    ) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Consecutive rows of one split, with its number and that of the first of them."""
        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            if not batch.num_rows:
                continue
            if self._files is None:
                split = split_number(task.partitionId() if task else 0, 0)
                yield split, seen[split], batch
                seen[split] += batch.num_rows
                continue
            begin = 0
            for end in pc.run_end_encode(batch["file"]).run_ends.to_pylist():
                split = split_number(self._files[place_of(batch["file"][begin].as_py(), is_encoded=True)], 0)
                rows = batch.slice(begin, end - begin)
                yield split, rows["row"][0].as_py(), rows.drop_columns(list(_PLACES))
                seen[split] += end - begin
                begin = end
