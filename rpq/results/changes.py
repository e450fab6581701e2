"""Answer changes: what a push returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.results import html
from rpq.stream.stream_time import StreamTime, python_values

if TYPE_CHECKING:
    import pandas

_OPS = pa.array(["+", "-"])
_SHOWN = 3  # rows in a repr
_SHOWN_IN_HTML = 10


class Change(NamedTuple):
    """A pair that starts (`op` "+") or ceases ("-") to be an answer of `query` at stream time `timestamp`.

    The timestamp is what those of the tuples were: an integer, a date, or a time with their zone, if they had one.
    """

    query: str
    source: int | str
    target: int | str
    timestamp: Any
    op: str


class SetAside(NamedTuple):
    """A root whose simple paths took more than the budget of `query`: it answers nothing until its conflicts are gone.

    `row` is the number of the tuple in the pushed batch (None: no tuple, but a time), `size` the nodes expanded.
    """

    query: str
    root: int | str
    timestamp: Any
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
    - For polars, DuckDB, pandas and whatever else speaks the Arrow PyCapsule interface: the object itself
    - Rows: `rows`, iteration
    - Beside the rows: `late_rows`, the numbers of the pushed tuples that were dropped because every window had passed
      them; `set_aside`, the roots that went over the budget of simple paths

    Pushed with `collect=False` it has the counts and no rows.
    """

    def __init__(
        self,
        queries: list[str],
        blocks: list[Block | Rows],
        *,
        added: int,
        removed: int,
        late_rows: np.ndarray,
        kind: str | None,
        times: StreamTime,
    ) -> None:
        self.added = added
        self.removed = removed
        self.late_rows = late_rows
        self.set_aside: list[SetAside] = []
        self._queries = queries
        self._blocks = blocks
        self._kind = pa.int64() if kind == "int64" else pa.string()
        self._times = times

    def __len__(self) -> int:
        return self.added + self.removed

    def __repr__(self) -> str:
        late = f", {len(self.late_rows):,} late" if len(self.late_rows) else ""
        rows = ", ".join(str(tuple(row)) for row in self._first(_SHOWN))
        more = ", …" if rows and len(self) > _SHOWN else ""
        return f"<Changes: {self.added:,} added, {self.removed:,} removed{late}{f': {rows}{more}' if rows else ''}>"

    def _repr_html_(self) -> str:
        rows = self._first(_SHOWN_IN_HTML)
        caption = f"{self.added:,} added, {self.removed:,} removed"
        return html.table(caption, Change._fields, rows, more=sum(len(block.query) for block in self._blocks) - len(rows))

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, witness: bool = False) -> pa.Table:
        """A table with the columns query, source, target, timestamp, op; vertices and timestamps have the type of the input.

        With `witness` there is a column `path`, the JSON of `Path` for `+`, empty for `-`; the engine must
        have been made with `witness=True`.
        """
        schema = self._schema.append(pa.field("path", pa.string())) if witness else self._schema
        return pa.Table.from_batches([self._batch(block, schema, witness) for block in self._whole_blocks()], schema)

    def to_pandas(self, *, witness: bool = False) -> pandas.DataFrame:
        """The same as a pandas frame."""
        return self.to_arrow(witness=witness).to_pandas()

    def rows(self) -> list[Change]:
        """The changes as a list of tuples."""
        if not self._blocks:  # of most tuples there are none, and an empty table takes longer than the tuple
            return []
        if len(self._blocks) == 1 and isinstance(rows := self._blocks[0], Rows):  # of which timestamps are plain numbers
            return [
                Change(self._queries[query], source, target, timestamp, "-" if removed else "+")
                for query, source, target, timestamp, removed in zip(*rows, strict=True)
            ]
        return _rows_of(self.to_arrow())

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows())

    @cached_property
    def _schema(self) -> pa.Schema:
        text, time = pa.string(), self._times.column(np.zeros(0, np.int64)).type
        return pa.schema({"query": text, "source": self._kind, "target": self._kind, "timestamp": time, "op": text})

    def _whole_blocks(self) -> Iterator[Block]:
        return (block.block() if isinstance(block, Rows) else block for block in self._blocks)

    def _batch(self, block: Block, schema: pa.Schema, witness: bool) -> pa.RecordBatch:
        columns = [
            pa.array(self._queries, pa.string()).take(pa.array(block.query)),
            block.names.take(pa.array(block.source)),
            block.names.take(pa.array(block.target)),
            self._times.column(block.timestamp),
            _OPS.take(pa.array(block.removed)),
        ]
        if witness:
            if block.paths is None:
                raise ValueError("no paths were kept; make the engine with witness=True")
            columns.append(block.paths)
        # Casting to the type that it has takes Arrow ten microseconds.
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.record_batch(typed, schema=schema)

    def _first(self, count: int) -> list[Change]:
        """The first rows, without making all of them."""
        found: list[Change] = []
        for block in self._whole_blocks():
            wanted = count - len(found)
            cut = block._replace(**{name: getattr(block, name)[:wanted] for name in _OF_ROWS}, paths=None)
            found += _rows_of(pa.Table.from_batches([self._batch(cut, self._schema, False)])) if wanted > 0 else []
        return found


_OF_ROWS = ("query", "source", "target", "timestamp", "removed")


def _rows_of(table: pa.Table) -> list[Change]:
    return [Change(*row) for row in zip(*(python_values(column) for column in table.columns), strict=True)]


class Answers:
    """The pairs that are answers at one moment.

    - Pairs: iteration, `in` (the first time O(answers), then O(1)), `len`, `pairs`
    - Columns: `to_arrow`, `to_pandas`; polars, DuckDB, pandas and whatever else speaks the Arrow PyCapsule interface
      take the object itself
    """

    def __init__(self, source: pa.Array, target: pa.Array) -> None:
        self._source = source
        self._target = target

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        first = ", ".join(map(str, self._first(_SHOWN)))
        more = ", …" if len(self) > _SHOWN else ""
        return f"<Answers: {len(self):,} pair{'' if len(self) == 1 else 's'}{f': {first}{more}' if first else ''}>"

    def _repr_html_(self) -> str:
        rows = self._first(_SHOWN_IN_HTML)
        return html.table(f"{len(self):,} answers", ["source", "target"], rows, more=len(self) - len(rows))

    def __iter__(self) -> Iterator[tuple[int | str, int | str]]:
        return zip(self._source.to_pylist(), self._target.to_pylist(), strict=True)

    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and all(isinstance(end, (int, str)) for end in pair) and pair in self._pairs

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """A table with the columns source, target."""
        return pa.table({"source": self._source, "target": self._target})

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame."""
        return self.to_arrow().to_pandas()

    def pairs(self) -> set[tuple[int | str, int | str]]:
        """The answers as a set of pairs."""
        return set(self._pairs)

    @cached_property
    def _pairs(self) -> frozenset[tuple[int | str, int | str]]:
        return frozenset(self)

    def _first(self, count: int) -> list[tuple[int | str, int | str]]:
        return list(zip(self._source[:count].to_pylist(), self._target[:count].to_pylist(), strict=True))
