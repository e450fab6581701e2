"""Rows that outlive the ids that they were made of: blocks of rows with their events, and few rows as lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.results.delta import IdRows

Schema = tuple[str, ...]
"""The names of a query's columns; where not all are of vertices, they are typed (`rpq.results.typed_columns`)."""

WHOLE = 2
"""Of an event that tells a whole answer, in place of whether it removes rows."""


class Block(NamedTuple):
    """Rows of queries with the same columns, in time order: ids are positions in `names`.

    Rows `ends[i - 1] : ends[i]` are those of event i, of which there is a query, a time and whether it removes them.
    """

    columns: Schema
    ids: IdRows
    ends: np.ndarray  # int64 an event
    query: np.ndarray  # int32 an event, in the names of the queries
    timestamp: np.ndarray  # int64 an event
    removed: np.ndarray  # uint8 an event; WHOLE: it is not a change, its rows are all that there are
    names: pa.Array  # of typed columns the terms, null for what is unbound
    witness: pa.Array | None  # of texts, a row
    first: np.ndarray | None  # int64 an event: place of its first row in its chunk, where other blocks have rows of that

    @property
    def row_count(self) -> int:
        """Rows of all events."""
        return len(self.ids.values)

    def of(self, query: int) -> Block:
        """The rows of one query."""
        events = self.query == query
        if events.all():
            return self
        rows = np.flatnonzero(np.repeat(events, self._lengths()))
        return self._replace(
            ids=IdRows(self.ids.values[rows], self.ids.order),
            ends=np.cumsum(self._lengths()[events]),
            query=self.query[events],
            timestamp=self.timestamp[events],
            removed=self.removed[events],
            witness=None if self.witness is None else self.witness.take(pa.array(rows)),
            first=None if self.first is None else self.first[events],
        )

    def head(self, count: int) -> Block:
        """The first `count` rows, or all."""
        if count >= self.row_count:
            return self
        events = int(np.searchsorted(self.ends, count)) + 1
        return self._replace(
            ids=IdRows(self.ids.values[:count], self.ids.order),
            ends=np.minimum(self.ends[:events], count),
            query=self.query[:events],
            timestamp=self.timestamp[:events],
            removed=self.removed[:events],
            witness=None if self.witness is None else self.witness.slice(0, count),
            first=None if self.first is None else self.first[:events],
        )

    def places(self) -> np.ndarray:
        """The places of the rows in their chunk, of which other blocks have rows too."""
        assert self.first is not None
        lengths = self._lengths()
        return np.arange(self.row_count) + np.repeat(self.first - (self.ends - lengths), lengths)

    def _lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)


class FewRows(NamedTuple):
    """The few rows of a single tuple, with their names, as lists."""

    query: list[int]
    values: list[tuple[int | str, ...]]
    timestamp: list[int]
    removed: list[bool]

    def blocks(self, columns: Sequence[Schema]) -> list[Block]:
        """The same as columns, which are given for each query."""
        groups: dict[Schema, list[int]] = {}
        for row, query in enumerate(self.query):
            groups.setdefault(columns[query], []).append(row)
        return [
            Block(
                columns=names,
                ids=IdRows(np.arange(len(rows) * len(names), dtype=np.int32).reshape(-1, len(names)), (*range(len(names)),)),
                ends=np.arange(1, len(rows) + 1),
                query=np.array([self.query[row] for row in rows], np.int32),
                timestamp=np.array([self.timestamp[row] for row in rows], np.int64),
                removed=np.array([self.removed[row] for row in rows], np.uint8),
                names=pa.array([value for row in rows for value in self.values[row]]),
                witness=None,
                first=None if len(groups) == 1 else np.array(rows, np.int64),
            )
            for names, rows in groups.items()
        ]
