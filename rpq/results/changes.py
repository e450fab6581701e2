"""Answer changes: what a push returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.errors import QueryError
from rpq.results import html
from rpq.results.block import Block, FewRows, Schema
from rpq.stream.stream_time import StreamTime, python_values

if TYPE_CHECKING:
    import pandas

_OPS = pa.array(["+", "-"])
_SHOWN = 3  # rows in a repr
_SHOWN_IN_HTML = 10


class Change(NamedTuple):
    """A pair that starts (`op` "+") or ceases ("-") to be an answer of `query` at stream time `timestamp`.

    The timestamp is what those of the tuples were: an integer, a date, or a time with their zone, if they had one.

    >>> change = Change("a", "x", "y", 1, "+")
    >>> change.source, change.op
    ('x', '+')
    """

    query: str
    source: int | str
    target: int | str
    timestamp: Any
    op: str


_PAIR = Change._fields[1:3]


@cache
def change_type(columns: Schema) -> Callable[..., Any]:
    """The type of the rows of queries with these columns: `Change`, or one like it that has them in place of the pair."""
    return Change if columns == _PAIR else namedtuple("Change", ("query", *columns, "timestamp", "op"), rename=True)


class SetAside(NamedTuple):
    """A root whose simple paths took more than the budget of `query`: it answers nothing until its conflicts are gone.

    `row` is the number of the tuple in the pushed batch (None: no tuple, but a time), `size` the nodes expanded.

    >>> SetAside("simple", "x", 7, None, 1001).root
    'x'
    """

    query: str
    root: int | str
    timestamp: Any
    row: int | None
    size: int


class Asked(NamedTuple):
    """Names and columns of the queries of an engine, in the order in which rows number them."""

    names: tuple[str, ...]
    columns: tuple[Schema, ...]

    @property
    def one(self) -> Schema | None:
        """The columns, where all queries have the same."""
        different = {*self.columns} or {_PAIR}
        return different.pop() if len(different) == 1 else None


class Changes:
    """The answer changes of a push, in time order; rows of one tuple come in no particular order.

    - Size: `len`, `added`, `removed`
    - Columns: `to_arrow`, `to_pandas`; `tables` where queries have different ones
    - For polars, DuckDB, pandas and whatever else speaks the Arrow PyCapsule interface: the object itself
    - Rows: `rows`, iteration
    - Beside the rows: `late_rows`, the numbers of the pushed tuples that were dropped because every window had passed
      them; `set_aside`, the roots that went over the budget of simple paths

    Pushed with `collect=False` it has the counts and no rows.

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
    >>> changes = engine.push_rows([("x", "y", "a", 1), ("x", "y", "a", 2, "-"), ("x", "y", "a", -20)])
    >>> len(changes), changes.added, changes.removed, changes.late_rows.tolist()
    (2, 1, 1, [2])
    >>> [change.op for change in changes]
    ['+', '-']
    """

    def __init__(
        self,
        asked: Asked,
        chunks: Sequence[list[Block] | FewRows],
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
        self._asked = asked
        self._chunks = chunks
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
        held = sum(len(block.query) for blocks in self._as_blocks() for block in blocks)
        columns = self._asked.one
        names = ("query", "answer", "timestamp", "op") if columns is None else ("query", *columns, "timestamp", "op")
        shown = [(row[0], row[1:-2], *row[-2:]) for row in rows] if columns is None else rows
        return html.table(caption, names, shown, more=held - len(rows))

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self, query: str | None = None, *, witness: bool = False) -> pa.Table:
        """A table with the columns query, source, target, timestamp, op; vertices and timestamps have the type of the input.

        With the name of a `query` its rows alone. With `witness` there is a column `path`, the JSON of `Path` for `+`,
        empty for `-` (of a pattern the JSON of `Witness`, with times as integers in the unit of the stream); the engine
        must have been made with `witness=True`.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.to_arrow().column_names
        ['query', 'source', 'target', 'timestamp', 'op']
        """
        if query is None:
            schema = self._schema
            blocks = [block for blocks in self._as_blocks() for block in blocks]
        else:
            number = self._number(query)
            schema = self._schema_of(self._asked.columns[number])
            found = (block.of(number) for blocks in self._as_blocks() for block in blocks if number in block.query)
            blocks = list(found)
        return self._table(blocks, schema, witness)

    def tables(self, *, witness: bool = False) -> list[pa.Table]:
        """The rows of all queries, a table for each kind of columns that any of them has; `witness` as in `to_arrow`.

        >>> import rpq
        >>> window = rpq.Window(size=10, slide=1)
        >>> engine = rpq.Engine(rpq.Query("a+", window=window), rpq.Query("?x a ?y . ?y a ?z", window=window))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> [(table.column_names, len(table)) for table in changes.tables()]
        [(['query', 'source', 'target', 'timestamp', 'op'], 3), (['query', 'x', 'y', 'z', 'timestamp', 'op'], 1)]
        """
        found: dict[Schema, list[Block]] = {columns: [] for columns in self._asked.columns}
        for blocks in self._as_blocks():
            for block in blocks:
                found[block.columns].append(block)
        return [self._table(blocks, self._schema_of(columns), witness) for columns, blocks in found.items()]

    def _table(self, blocks: list[Block], schema: pa.Schema, witness: bool) -> pa.Table:
        if witness:
            if "path" in schema.names:
                raise QueryError("the column of witnesses is called path: rename the variable ?path, or select others")
            schema = schema.append(pa.field("path", pa.string()))
        return pa.Table.from_batches([self._batch(block, schema, witness) for block in blocks], schema)

    def to_pandas(self, query: str | None = None, *, witness: bool = False) -> pandas.DataFrame:
        """The same as a pandas frame.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.to_pandas()[["source", "target"]].values.tolist()[0]
        ['x', 'y']
        """
        return self.to_arrow(query, witness=witness).to_pandas()

    def rows(self) -> list[Change]:
        """The changes as a list of tuples.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.rows()[0]
        Change(query='a+', source='x', target='y', timestamp=1, op='+')
        """
        if not self._chunks:  # of most tuples there are none, and an empty table takes longer than the tuple
            return []
        if len(self._chunks) == 1 and isinstance(rows := self._chunks[0], FewRows):  # timestamps are plain numbers
            names, columns = self._asked
            return [
                change_type(columns[query])(names[query], *values, timestamp, "-" if removed else "+")
                for query, values, timestamp, removed in zip(*rows, strict=True)
            ]
        return [row for blocks in self._as_blocks() for row in self._rows_of(blocks)]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows())

    @cached_property
    def _schema(self) -> pa.Schema:
        if self._asked.one is None:
            raise QueryError(
                "the queries of this engine have different columns, and so do their tables: ask for one query's, as in "
                f"changes.to_arrow({self._asked.names[0]!r})"
            )
        return self._schema_of(self._asked.one)

    def _schema_of(self, columns: Schema) -> pa.Schema:
        text, time = pa.string(), self._times.column(np.zeros(0, np.int64)).type
        fields = [("query", text), *((name, self._kind) for name in columns), ("timestamp", time), ("op", text)]
        return pa.schema(fields)

    def _number(self, query: str) -> int:
        if query not in self._asked.names:
            known = ", ".join(map(repr, self._asked.names)) or "none"
            raise QueryError(f"no query named {query!r}; the registered ones are: {known}")
        return self._asked.names.index(query)

    def _as_blocks(self) -> Iterator[list[Block]]:
        return (chunk.blocks(self._asked.columns) if isinstance(chunk, FewRows) else chunk for chunk in self._chunks)

    def _batch(self, block: Block, schema: pa.Schema, witness: bool) -> pa.RecordBatch:
        ids = (np.ascontiguousarray(block.ids.column(number)) for number in range(len(block.columns)))
        columns = [
            pa.array(self._asked.names, pa.string()).take(pa.array(block.query)),
            *(block.names.take(pa.array(column)) for column in ids),
            self._times.column(block.timestamp),
            _OPS.take(pa.array(block.removed)),
        ]
        if witness:
            if block.witness is None:
                raise ValueError("no paths were kept; make the engine with witness=True")
            columns.append(block.witness)
        # Casting to the type that it has takes Arrow ten microseconds.
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.record_batch(typed, schema=schema)

    def _rows_of(self, blocks: list[Block]) -> list[Any]:
        """The rows of one chunk."""
        rows: list[Any] = []
        for block in blocks:
            batch = self._batch(block, self._schema_of(block.columns), False)
            made = change_type(block.columns)
            rows += [made(*row) for row in zip(*(python_values(column) for column in batch.columns), strict=True)]
        if len(blocks) < 2:
            return rows
        places = np.argsort(np.concatenate([block.sequence for block in blocks if block.sequence is not None]))
        return [rows[place] for place in places.tolist()]

    def _first(self, count: int) -> list[Any]:
        """The first rows, without making all of them."""
        found: list[Any] = []
        for blocks in self._as_blocks():
            if len(found) < count:
                found += self._rows_of([block.take(np.arange(min(count, len(block.query)))) for block in blocks])
        return found[:count]
