"""Answer changes, which a push returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.errors import QueryError
from rpq.rows.answers import html_table
from rpq.rows.blocks import EMPTY, WHOLE, FewRows, RowBlock, Schema
from rpq.rows.column_kernels import PIECE, NameColumns, Region, repeat_text, signs, spread
from rpq.rows.typed_columns import (
    WITNESS_COLUMNS,
    ColumnKind,
    TypedColumns,
    ValueColumns,
    field_of,
    holds_terms,
    kinds_of,
    terms_to_values,
    value_type,
    values_of_terms,
)
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.numpy_arrays import integer_array, text_array
from rpq.stream.stream_time import StreamTime, python_values

if TYPE_CHECKING:
    import pandas

_BYTES_OF_TIME_AND_OP = 9  # the time of a row and its op
_OPS = {1: "+", -1: "-", WHOLE: "=", EMPTY: "0"}
_SHOWN = 3  # rows in a repr
_SHOWN_IN_HTML = 10


class Change(NamedTuple):
    """A pair that starts (`op` "+") or ceases ("-") to be an answer of `query` at stream time `timestamp`.

    The timestamp has the type of the tuples' timestamps: an integer, a date, or a time, with their zone if they had one.

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
def row_type(columns: Schema) -> Callable[..., Any]:
    """Return the type of rows with these columns: `Change`, or a similar named tuple with them in place of the pair."""
    return Change if columns == _PAIR else namedtuple("Change", ("query", *columns, "timestamp", "op"), rename=True)


class SetAside(NamedTuple):
    """A root whose simple paths exceeded the budget of `query`: it has no answers until its conflicts have left the window.

    `row` is the number of the tuple in the pushed batch (None at a boundary of time), `size` the number of nodes expanded.

    >>> SetAside("simple", "x", 7, None, 1001).root
    'x'
    """

    query: str
    root: int | str
    timestamp: Any
    row: int | None
    size: int


@lru_cache(maxsize=256)
def _schema_with(
    names: tuple[str, ...],
    kinds: tuple[ColumnKind, ...],
    values: tuple[pa.DataType | None, ...],
    vertex: pa.DataType,
    time: pa.DataType,
    terms: bool,
) -> pa.Schema:
    """Return the schema of rows with these columns. The arguments are those of `field_of`."""
    columns = zip(names, kinds, values, strict=True)
    fields = [field_of(name, kind, vertex, terms=terms, value=value) for name, kind, value in columns]
    return pa.schema([pa.field("query", pa.string()), *fields, pa.field("timestamp", time), pa.field("op", pa.string())])


class QueryNames:
    """Names and columns of the queries of an engine, in the order in which rows number them.

    Instances derived from one another by `with_queries` share their lists; each reads only as many leading items as it has
    queries.
    """

    def __init__(self, names: Iterable[str] = (), columns: Iterable[Schema] = ()) -> None:
        self.names = [*names]
        self.columns = [*columns]
        self._count = len(self.names)
        self._schemas: tuple[Schema, ...] | None = None
        self.known_schema: tuple[tuple[pa.DataType, pa.DataType], pa.Schema] | None = None
        """The types of vertices and times of the last table of all rows, and its schema; None if none was asked for."""

    def __len__(self) -> int:
        return self._count

    def with_queries(self, names: Sequence[str], columns: Sequence[Schema]) -> QueryNames:
        """Return an instance with further queries; only the newest instance may be extended.  O(queries added)."""
        assert len(self.names) == self._count
        after = QueryNames()
        after.names, after.columns, after._count = self.names, self.columns, self._count + len(names)
        if (schemas := self._schemas) is not None:
            after._schemas = tuple(dict.fromkeys([*schemas, *columns]))
        self.names.extend(names)
        self.columns.extend(columns)
        return after

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """The distinct columns that queries have.  O(queries), once."""
        if self._schemas is None:
            self._schemas = tuple(dict.fromkeys(self.columns[: self._count]))
        return self._schemas

    @cached_property
    def have_values(self) -> bool:
        """True if a query has columns of values, whose types its columns know.  O(schemas), once."""
        return any(isinstance(columns, ValueColumns) for columns in self.schemas)

    def number_of(self, name: str) -> int:
        """Return the number of a query.  Raises `QueryError` for an unknown name.  O(queries)."""
        try:
            return self.names.index(name, 0, self._count)
        except ValueError:
            names = ", ".join(map(repr, self.names[: self._count])) or "none"
            raise QueryError(f"no query named {name!r}; the registered ones are: {names}") from None

    @property
    def common_schema(self) -> Schema | None:
        """The columns of the queries if all have the same, otherwise None."""
        return None if len(self.schemas) > 1 else (*self.schemas, _PAIR)[0]

    @cached_property
    def _all_names(self) -> NameColumns:
        return NameColumns(text_array(self.names[: self._count]))

    def names_for(self, queries: np.ndarray) -> tuple[NameColumns, np.ndarray]:
        """Return names, and the place in them of each event's query (int32).  O(events log events), or O(queries) once."""
        if self._count < 8 * len(queries) or "_all_names" in self.__dict__:
            return self._all_names, queries
        used, places = np.unique(queries, return_inverse=True)
        return NameColumns(text_array([self.names[number] for number in used.tolist()])), places.astype(np.int32)


class Changes:
    """The answer changes of a push, in time order; rows of one tuple come in no particular order.

    - Size: `len`, `added`, `removed`
    - Columns: `to_arrow`, `to_pandas`; `tables` if queries have different columns
    - polars, DuckDB, pandas and other libraries with the Arrow PyCapsule interface take the object itself
    - Rows: `rows`, iteration
    - In addition: `late_rows`, the numbers of the pushed tuples that were dropped because every window had passed them;
      `set_aside`, the roots that exceeded the budget of simple paths

    After a push with `collect=False` there are counts and no rows.

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
        queries: QueryNames,
        chunks: Sequence[list[RowBlock] | FewRows],
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
        self._chunks = chunks
        self._kind = kind
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
        count = sum(block.row_count for blocks in self._as_blocks() for block in blocks)
        columns = self._queries.common_schema
        names = ("query", "answer", "timestamp", "op") if columns is None else ("query", *columns, "timestamp", "op")
        shown = [(row[0], row[1:-2], *row[-2:]) for row in rows] if columns is None else rows
        return html_table(caption, names, shown, more=count - len(rows))

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self, query: str | None = None, *, witness: bool = False) -> pa.Table:
        """Return a table with query, source, target, timestamp, op; vertices and timestamps have the type of the input.

        With the name of a `query` the table has its rows only.  With `witness` there are two further columns: `path`, the
        JSON of `Path` for `+`, empty for `-` (for a pattern the JSON of `Witness`, with times as integers in the unit of the
        stream), and `path_times`, a list of the timestamps that its edges have at that moment, in the order of `path`, null
        for an edge without time; the engine must have been created with `witness=True`.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.to_arrow().column_names
        ['query', 'source', 'target', 'timestamp', 'op']
        """
        if query is None:
            schema = self._schema
            if not self._chunks and not witness:
                return pa.Table.from_batches([], schema)
            few = [chunk for chunk in self._chunks if isinstance(chunk, FewRows)]
            if few and len(few) == len(self._chunks) and not witness:
                return pa.Table.from_batches([self._batch_of_few(chunk, schema) for chunk in few], schema)
            blocks = [block for blocks in self._as_blocks() for block in blocks]
        else:
            number = self._queries.number_of(query)
            schema = self._schema_of(self._queries.columns[number])
            every = [block for blocks in self._as_blocks() for block in blocks]
            blocks = [block.select_query(number) for block in every if number in block.query]
        return self._table(blocks, schema, witness)

    def tables(self, *, witness: bool = False, terms: bool = False) -> list[pa.Table]:
        """Return the rows of all queries, in a table for each distinct set of columns; `witness` as in `to_arrow`.

        With `terms` computed values of queries in SPARQL are not texts, but terms: IRIs as they are, literals in N-Triples
        form with datatype or language.

        >>> import rpq
        >>> window = rpq.Window(size=10, slide=1)
        >>> engine = rpq.Engine(rpq.Query("a+", window=window), rpq.Query("?x a ?y . ?y a ?z", window=window))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> [(table.column_names, len(table)) for table in changes.tables()]
        [(['query', 'source', 'target', 'timestamp', 'op'], 3), (['query', 'x', 'y', 'z', 'timestamp', 'op'], 1)]
        """
        schemas = self._queries.schemas
        if len(schemas) == 1 and not witness and not (terms and isinstance(schemas[0], TypedColumns)):
            return [self.to_arrow()]  # which creates a table of few rows without blocks, in half the time
        found: dict[Schema, list[RowBlock]] = {columns: [] for columns in schemas}
        for blocks in self._as_blocks():
            for block in blocks:
                found[block.columns].append(block)
        return [self._table(blocks, self._schema_of(columns, terms=terms), witness) for columns, blocks in found.items()]

    def _table(self, blocks: list[RowBlock], schema: pa.Schema, witness: bool) -> pa.Table:
        if witness:
            if taken := [name for name in WITNESS_COLUMNS if name in schema.names]:
                raise QueryError(
                    f"the columns of witnesses are called {' and '.join(WITNESS_COLUMNS)}: rename the variable ?{taken[0]}, "
                    "or select others"
                )
            times = pa.list_(schema.field("timestamp").type)
            for field in zip(WITNESS_COLUMNS, (pa.string(), times), strict=True):
                schema = schema.append(pa.field(*field))
        return pa.Table.from_batches([batch for block in blocks for batch in self._batches(block, schema, witness)], schema)

    def to_pandas(self, query: str | None = None, *, witness: bool = False) -> pandas.DataFrame:
        """Return the changes as a pandas frame; arguments as in `to_arrow`.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.to_pandas()[["source", "target"]].values.tolist()[0]
        ['x', 'y']
        """
        return self.to_arrow(query, witness=witness).to_pandas()

    def rows(self) -> list[Change]:
        """Return the changes as a list of tuples.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
        >>> changes.rows()[0]
        Change(query='a+', source='x', target='y', timestamp=1, op='+')
        """
        if not self._chunks:  # as after most tuples; creating an empty table would take longer than the push
            return []
        if len(self._chunks) == 1 and isinstance(few := self._chunks[0], FewRows):
            return self._rows_of_few(few)
        parts = (self._rows_of_few(one) if isinstance(one, FewRows) else self._rows_of(one) for one in self._chunks)
        return [*chain.from_iterable(parts)]

    def _rows_of_few(self, rows: FewRows) -> list[Any]:
        """Return the rows of one chunk that has few."""
        names, columns = self._queries.names, self._queries.columns
        if not self._times.is_of_numbers:
            rows = rows._replace(timestamp=python_values(self._times.column(np.array(rows.timestamp, np.int64))))
        made: list[Any] = []
        for query, length, values, timestamp, kind in zip(*rows, strict=True):
            schema = columns[query]
            if isinstance(schema, TypedColumns):
                values = self._values_of(values, schema)
            cells = zip(repeat(names[query], length), *values, repeat(timestamp), repeat(_OPS[kind]))
            made += map(tuple.__new__, repeat(row_type(schema)), cells)  # type: ignore[arg-type]
        return made

    def _values_of(self, terms: Sequence[Sequence[Any]], columns: TypedColumns) -> list[Sequence[Any]]:
        """Return the values of columns of terms."""
        integer_vertices = self._kind == "int64"
        return [
            values_of_terms(one, kind, integer_vertices=integer_vertices)
            for one, kind in zip(terms, columns.kinds, strict=True)
        ]

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows())

    def _of_queries(self, queries: Collection[str]) -> dict[str, list[Change]]:
        """Return the rows of these queries, if they have any, each in time order.  O(rows of the call)."""
        found: dict[str, list[Change]] = {}
        for row in self.rows():
            if row.query in queries:
                found.setdefault(row.query, []).append(row)
        return found

    def _rows_by_query(self) -> dict[str, int]:
        """Return the number of rows of each query that has some.  O(events)."""
        found: dict[str, int] = {}
        for chunk in self._chunks:
            if isinstance(chunk, FewRows):
                counts = [*zip(chunk.query, chunk.lengths, strict=True)]
            else:
                counts = [one for block in chunk for one in block.rows_by_query().items()]
            for number, rows in counts:
                name = self._queries.names[number]
                found[name] = found.get(name, 0) + rows
        return found

    def _without_rows(self) -> Changes:
        """Return the same counts without rows."""
        counted = Changes(
            self._queries,
            [],
            added=self.added,
            removed=self.removed,
            late_rows=self.late_rows,
            kind=self._kind,
            times=self._times,
        )
        counted.set_aside = self.set_aside
        return counted

    @property
    def _vertex_type(self) -> pa.DataType:
        return pa.int64() if self._kind == "int64" else pa.string()

    @cached_property
    def _schema(self) -> pa.Schema:
        latest, kinds = self._queries.known_schema, (self._vertex_type, self._times.column_type)
        if latest is not None and latest[0] == kinds:
            return latest[1]
        columns = self._queries.common_schema
        if columns is None:
            raise QueryError(
                "the queries of this engine have different columns, and so do their tables: ask for one query's, as in "
                f"changes.to_arrow({self._queries.names[0]!r})"
            )
        schema = self._schema_of(columns)
        if not isinstance(columns, ValueColumns):  # whose types are known later
            self._queries.known_schema = kinds, schema
        return schema

    def _schema_of(self, columns: Schema, *, terms: bool = False) -> pa.Schema:
        time, kinds = self._times.column_type, kinds_of(columns)
        values = [time if kind == "time" else value_type(columns, place) for place, kind in enumerate(kinds)]
        return _schema_with(tuple(columns), kinds, tuple(values), self._vertex_type, time, terms)

    def _as_blocks(self) -> Iterator[list[RowBlock]]:
        return (chunk.blocks(self._queries.columns) if isinstance(chunk, FewRows) else chunk for chunk in self._chunks)

    def _batch_of_few(self, rows: FewRows, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of one chunk that has few, of queries with the columns of all.

        The texts of all columns are created at once: creating an array of Arrow takes longer than writing a few texts into
        it.
        """
        columns = self._queries.columns[rows.query[0]]
        values = rows.values[0] if len(rows.query) == 1 else [[*chain(*one)] for one in zip(*rows.values, strict=True)]
        if isinstance(columns, TypedColumns):
            values = self._values_of(values, columns)
        events = rows.lengths, rows.query, rows.timestamp, rows.kinds
        queries: list[str] = []
        times: list[int] = []
        ops: list[str] = []
        for length, query, time, kind in zip(*events, strict=True):
            queries += [self._queries.names[query]] * length
            times += [time] * length
            ops += [_OPS[kind]] * length
        count, kinds = len(ops), kinds_of(columns)
        are_texts = [kind == "text" or (kind == "vertex" and self._kind != "int64") for kind in kinds]
        texts = _texts_of([queries, *[one for one, is_text in zip(values, are_texts, strict=True) if is_text], ops])
        made = [texts.slice(place, count) for place in range(0, len(texts), count)]
        for place, is_text in enumerate(are_texts):
            if not is_text:
                made.insert(place + 1, _integers_of(values[place]))
        stamps = self._times.column(np.array(times, np.int64))
        time_type = self._times.column_type
        made.insert(len(made) - 1, stamps if stamps.type == time_type else stamps.cast(time_type))
        return pa.RecordBatch.from_arrays(made, schema=schema)

    def _batches(self, block: RowBlock, schema: pa.Schema, witness: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block, a piece at a time."""
        if witness and block.witness is None:
            raise ValueError("this engine stores no witnesses; create it with witness=True")
        names = self._names_of(block, terms=any(map(holds_terms, schema)))
        one = self._queries.names[block.query[0]] if (block.query == block.query[0]).all() else None
        queries, places = (None, block.query) if one is not None else self._queries.names_for(block.query)
        bytes_a_row = _BYTES_OF_TIME_AND_OP + sum(column.bytes_a_row for column in names)
        bytes_a_row += 0 if queries is None else 4 + queries.bytes_a_row
        for first in range(0, block.row_count, PIECE):
            count = min(PIECE, block.row_count - first)
            rows = block.ends, first, count
            region = Region.of_rows(count, bytes_a_row, columns=len(block.columns) + 3)
            times = region.reserve(count, np.int64)
            spread(block.timestamp, *rows, times)
            region.finish(times)
            columns = [
                *(
                    column.column(block.ids.values, place, first, count, region)
                    for column, place in zip(names, block.ids.order, strict=True)
                ),
                self._times.column(times),
                signs(block.removed, *rows, region),
            ]
            if queries is None:
                columns.insert(0, repeat_text(str(one), count))
            else:
                numbers = region.reserve(count, np.int32)
                spread(places, *rows, numbers)
                region.finish(numbers)
                columns.insert(0, queries.column(numbers.reshape(-1, 1), 0, 0, count, region))
            if witness:
                columns += self._witness_columns(block.witness.slice(first, count))  # type: ignore[union-attr]
            # Arrow takes ten microseconds even for a cast that changes nothing.
            typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
            yield pa.record_batch(typed, schema=schema)

    def _witness_columns(self, witness: pa.StructArray) -> list[pa.Array]:
        """Return the columns of `witness_array`, with times of the type of the stream."""
        texts, times = witness.flatten()
        flat = times.flatten()
        values = self._times.column(flat.fill_null(0).to_numpy())
        if flat.null_count:
            values = pc.if_else(flat.is_valid(), values, pa.scalar(None, values.type))
        ends = np.zeros(len(times) + 1, np.int64)
        np.cumsum(times.value_lengths().fill_null(0).to_numpy(), out=ends[1:])
        lists = pa.LargeListArray.from_arrays(pa.array(ends), values, mask=times.is_null())
        return [texts, lists.cast(pa.list_(values.type))]

    def _names_of(self, block: RowBlock, *, terms: bool) -> list[NameColumns]:
        """Return the names of each column of a block. Computed values become texts, unless they are to stay terms."""
        if not isinstance(block.columns, TypedColumns):
            return [NameColumns(block.names["vertex"])] * len(block.columns)
        ready: dict[Any, NameColumns] = {}
        found = []
        for place, kind in enumerate(block.columns.kinds):
            value = value_type(block.columns, place)
            if (kind, value) not in ready:
                values = block.names[kind]
                if not terms or kind != "text":
                    values = terms_to_values(values, kind, self._vertex_type, value=value, times=self._times.column)
                ready[kind, value] = NameColumns(values)
            found.append(ready[kind, value])
        return found

    def _rows_of(self, blocks: list[RowBlock]) -> list[Any]:
        """Return the rows of one chunk."""
        rows: list[Any] = []
        for block in blocks:
            made = row_type(block.columns)
            for batch in self._batches(block, self._schema_of(block.columns), False):
                # What `_make` of a named tuple does, without a call of Python for each row.
                cells = zip(*(python_values(column) for column in batch.columns), strict=True)
                rows += map(tuple.__new__, repeat(made), cells)  # type: ignore[arg-type]
        if len(blocks) < 2:
            return rows
        places = np.argsort(np.concatenate([block.places() for block in blocks]))
        return [rows[place] for place in places.tolist()]

    def _first(self, count: int) -> list[Any]:
        """Return the first rows without creating all of them."""
        found: list[Any] = []
        for blocks in self._as_blocks():
            if len(found) < count:
                found += self._rows_of([block.head(count) for block in blocks])
        return found[:count]


def _texts_of(columns: Sequence[Sequence[Any]]) -> pa.Array:
    """Return the texts of columns one behind the other, null for None."""
    texts = [*chain(*columns)]
    return pa.array(texts, pa.string()) if None in texts else text_array(texts)


def _integers_of(column: Sequence[Any]) -> pa.Array:
    """Return integers as an array, null for None."""
    return pa.array(column, pa.int64()) if None in column else integer_array(list(column))
