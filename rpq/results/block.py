"""Rows that outlive the ids that they were made of: blocks of columns, and few rows as lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.results.delta import IdRows

Schema = tuple[str, ...]
"""The names of a query's columns."""


class Block(NamedTuple):
    """Rows of queries with the same columns, in time order: ids are positions in `names`."""

    columns: Schema
    query: np.ndarray  # int32 a row, in the names of the queries
    ids: IdRows
    timestamp: np.ndarray  # int64
    removed: np.ndarray  # uint8
    names: pa.Array
    witness: pa.Array | None  # of texts
    sequence: np.ndarray | None  # int64: places among the rows of its chunk, where other blocks have some of them

    def of(self, query: int) -> Block:
        """The rows of one query."""
        return self.take(np.flatnonzero(self.query == query))

    def take(self, rows: np.ndarray) -> Block:
        """These rows."""
        return self._replace(
            query=self.query[rows],
            ids=IdRows(self.ids.values[rows], self.ids.order),
            timestamp=self.timestamp[rows],
            removed=self.removed[rows],
            witness=None if self.witness is None else self.witness.take(pa.array(rows)),
            sequence=None if self.sequence is None else self.sequence[rows],
        )


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
                query=np.array([self.query[row] for row in rows], np.int32),
                ids=IdRows(np.arange(len(rows) * len(names), dtype=np.int32).reshape(-1, len(names)), (*range(len(names)),)),
                timestamp=np.array([self.timestamp[row] for row in rows], np.int64),
                removed=np.array([self.removed[row] for row in rows], np.uint8),
                names=pa.array([value for row in rows for value in self.values[row]]),
                witness=None,
                sequence=None if len(groups) == 1 else np.array(rows, np.int64),
            )
            for names, rows in groups.items()
        ]
