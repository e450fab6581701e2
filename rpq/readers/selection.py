"""Readers that yield a part of another reader's stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.language.predicate import Predicate, tuple_kinds
from rpq.language.where import Where
from rpq.readers.batch import Batch, Reader
from rpq.stream.nodes.node_rows import records_of


class ReaderWrapper:
    """A reader over another reader, with the counters of that reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def time_unit(self) -> str | None:
        return self._reader.time_unit

    @property
    def rejected(self) -> int:
        return self._reader.rejected

    @property
    def rejections(self) -> list[str]:
        return self._reader.rejections

    @property
    def warnings(self) -> list[str]:
        return self._reader.warnings

    @property
    def filtered(self) -> int:
        return self._reader.filtered

    @property
    def undecided(self) -> int:
        return self._reader.undecided

    @property
    def bytes_total(self) -> int | None:
        return self._reader.bytes_total

    @property
    def bytes_read(self) -> int:
        return self._reader.bytes_read


class LimitReader(ReaderWrapper):
    """The first `limit` tuples of a reader, with the records of nodes before them; it is not read any further."""

    def __init__(self, reader: Reader, limit: int) -> None:
        super().__init__(reader)
        if limit < 0:
            raise ValueError(f"limit is {limit}; expected 0 or more tuples")
        self._limit = limit

    def __iter__(self) -> Iterator[Batch]:
        left = self._limit
        if not left:
            return
        for batch in self._reader:
            records = records_of(batch.columns)
            tuples = np.arange(len(batch)) if records is None else np.flatnonzero(~records)
            if len(tuples) >= left:
                yield _replace_columns(batch, batch.columns.slice(0, int(tuples[left - 1]) + 1))
                return
            left -= len(tuples)
            yield batch


class SelfLoopFilter(ReaderWrapper):
    """The tuples of a reader whose source is not their target."""

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._reader:
            different = pc.not_equal(batch.columns.column("source"), batch.columns.column("target"))
            records = records_of(batch.columns)
            different = different if records is None else pc.or_(different, pa.array(records))
            remaining = batch.columns if different.true_count == len(batch) else batch.columns.filter(different)
            if remaining.num_rows:
                yield _replace_columns(batch, remaining)


class FilterReader(ReaderWrapper):
    """The tuples of a reader that meet a condition on the columns of a tuple.

    Raises `WhereError` if the condition uses any other column.
    """

    def __init__(self, reader: Reader, where: Where, *, time_unit: str | None = None) -> None:
        super().__init__(reader)
        unit = reader.time_unit or time_unit
        self._predicate = Predicate(where, tuple_kinds(unit=unit, has_stream=False))
        self._filtered = self._undecided = 0

    @property
    def filtered(self) -> int:
        return self._filtered

    @property
    def undecided(self) -> int:
        return self._undecided

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._reader:
            columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
            mask, undecided = self._predicate.mask(columns, len(batch))
            count = int(np.count_nonzero(mask))
            self._filtered += len(batch) - count
            self._undecided += undecided
            if count:
                yield _replace_columns(batch, batch.columns if count == len(batch) else batch.columns.filter(pa.array(mask)))


def _replace_columns(batch: Batch, columns: pa.RecordBatch) -> Batch:
    return Batch(columns=columns, bytes_read=batch.bytes_read)
