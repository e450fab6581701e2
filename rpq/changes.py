"""Answer changes: what a push returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pandas

_OPS = pa.array(["+", "-"])


class Change(NamedTuple):
    """A pair that starts (`op` "+") or ceases ("-") to be an answer of `query` at stream time `timestamp`."""

    query: str
    source: int | str
    target: int | str
    timestamp: int
    op: str


class SetAside(NamedTuple):
    """A root whose simple paths took more than the budget of `query`: it answers nothing until its conflicts are gone.

    `row` is the number of the tuple in the pushed batch (None: no tuple, but a time), `size` the nodes expanded.
    """

    query: str
    root: int | str
    timestamp: int
    row: int | None
    size: int


@dataclass(frozen=True)
class Path:
    """A path that answers a query: `vertices` v0, v1, … and between them `labels`, `^label` for a step against an edge."""

    vertices: tuple[int | str, ...]
    labels: tuple[str, ...]

    def to_json(self) -> str:
        """The list v0, label, v1, … as JSON.

        >>> Path(("x", "y"), ("^knows",)).to_json()
        '["x", "^knows", "y"]'
        """
        steps: list[int | str] = [self.vertices[0]]
        for label, vertex in zip(self.labels, self.vertices[1:], strict=True):
            steps += [label, vertex]
        return json.dumps(steps, ensure_ascii=False)


class Block(NamedTuple):
    """Rows with their names, in time order: ids are positions in `names`."""

    query: np.ndarray  # int32 a row, in the names of the queries
    source: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    removed: np.ndarray  # uint8
    names: pa.Array
    paths: pa.Array | None  # of texts


class Rows(NamedTuple):
    """The few rows of a single tuple, with their names, as lists."""

    query: list[int]
    source: list[int | str]
    target: list[int | str]
    timestamp: list[int]
    removed: list[bool]

    def block(self) -> Block:
        """The same as columns."""
        count = len(self.query)
        return Block(
            query=np.array(self.query, np.int32),
            source=np.arange(count, dtype=np.int32),
            target=np.arange(count, 2 * count, dtype=np.int32),
            timestamp=np.array(self.timestamp, np.int64),
            removed=np.array(self.removed, np.uint8),
            names=pa.array(self.source + self.target),
            paths=None,
        )


class Changes:
    """The answer changes of a push, in time order; rows of one tuple come in no particular order.

    - Size: `len`, `added`, `removed`
    - Columns: `to_arrow`, `to_pandas`
    - Rows: `rows`, iteration
    - Beside the rows: `late_rows`, the numbers of the pushed tuples that were dropped because every window had passed
      them; `set_aside`, the roots that went over the budget of simple paths

    Pushed with `collect=False` it has the counts and no rows.
    """

    def __init__(
        self, queries: list[str], blocks: list[Block | Rows], *, added: int, removed: int, late_rows: np.ndarray, kind: str | None
    ) -> None:
        self.added = added
        self.removed = removed
        self.late_rows = late_rows
        self.set_aside: list[SetAside] = []
        self._queries = queries
        self._blocks = blocks
        self._kind = pa.int64() if kind == "int64" else pa.string()

    def __len__(self) -> int:
        return self.added + self.removed

    def __repr__(self) -> str:
        return f"<Changes: {self.added} added, {self.removed} removed>"

    def to_arrow(self, *, witness: bool = False) -> pa.Table:
        """A table with the columns query, source, target, timestamp, op; vertices have the type of the input.

        With `witness` there is a column `path`, the JSON of `Path` for `+`, empty for `-`; the engine must
        have been made with `witness=True`.
        """
        fields = [("query", pa.string()), ("source", self._kind), ("target", self._kind)]
        fields += [("timestamp", pa.int64()), ("op", pa.string())] + ([("path", pa.string())] if witness else [])
        schema = pa.schema(fields)
        names = pa.array(self._queries, pa.string())
        batches = []
        for block in (block.block() if isinstance(block, Rows) else block for block in self._blocks):
            columns = [
                names.take(pa.array(block.query)),
                block.names.take(pa.array(block.source)),
                block.names.take(pa.array(block.target)),
                pa.array(block.timestamp),
                _OPS.take(pa.array(block.removed)),
            ]
            if witness:
                if block.paths is None:
                    raise ValueError("no paths were kept; make the engine with witness=True")
                columns.append(block.paths)
            batches.append(pa.record_batch([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema))
        return pa.Table.from_batches(batches, schema)

    def to_pandas(self, *, witness: bool = False) -> pandas.DataFrame:
        """The same as a pandas frame."""
        return self.to_arrow(witness=witness).to_pandas()

    def rows(self) -> list[Change]:
        """The changes as a list of tuples."""
        if len(self._blocks) == 1 and isinstance(rows := self._blocks[0], Rows):
            return [
                Change(self._queries[query], source, target, timestamp, "-" if removed else "+")
                for query, source, target, timestamp, removed in zip(*rows, strict=True)
            ]
        table = self.to_arrow()
        return [Change(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows())


class Answers:
    """The pairs that are answers at one moment."""

    def __init__(self, source: pa.Array, target: pa.Array) -> None:
        self._source = source
        self._target = target

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        return f"<Answers: {len(self)} pairs>"

    def to_arrow(self) -> pa.Table:
        """A table with the columns source, target."""
        return pa.table({"source": self._source, "target": self._target})

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame."""
        return self.to_arrow().to_pandas()

    def pairs(self) -> set[tuple[int | str, int | str]]:
        """The answers as a set of pairs."""
        return set(zip(self._source.to_pylist(), self._target.to_pylist(), strict=True))
