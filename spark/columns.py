"""Columns and time units of data frames of edges, of the rows of queries, and of windows over timestamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

import rpq
from rpq.errors import InputError, QueryError
from rpq.language.edge_variables import Value
from rpq.language.match.column_types import StreamTypes, type_of
from rpq.language.match.query import MatchQuery
from rpq.language.query import EdgeValuesQuery
from rpq.language.readings import (
    is_ordered,
    named_graphs_of,
    properties_of,
    readings_of,
    refuse_edge_values,
    selected_values,
)
from rpq.readers.column_names import OP_AND_DELETE, TUPLE_COLUMNS, ColumnNames
from rpq.rows.typed_columns import kinds_of
from rpq.spark.envelopes import is_numbered_property, numbered_property
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.data_sets import check_deletes, check_op_column
from rpq.spark.shipping import ShippedObject
from rpq.stream.arrays.fields import DELETE, EDGE, STREAM, FieldError
from rpq.stream.arrays.values import BOOLEANS
from rpq.stream.durations import NANOSECONDS
from rpq.stream.stream_time import EARLIEST, windows_of
from rpq.stream.window import INT64_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_REQUIRED = ("source", "target", "label", "timestamp")
UNITS = ("s", "ms", "us")
"""The units in which Spark converts times to numbers."""


Identity = Literal["triple", "parallel", "id"]
"""When two inserts are the same edge, as in `rpq.Engine`."""


class EdgeColumns(NamedTuple):
    """Tuples (source, target, label, timestamp, op and, if there is one, sequence) as rows of a data frame.

    If the place of the tuples is known, there are also the columns `file` (a URI) and, for Parquet, `row` (from 0).
    """

    tuples: DataFrame
    vertex: str  # the type of vertices, as Spark writes it
    is_time: bool  # whether timestamps were dates or times
    properties: Mapping[str, str] = MappingProxyType({})
    """The types that properties, and the ids of edges in `edge`, have in rows, as Spark writes them."""


def parse_column_names(columns: str | None, label: str | None, *, has_ids: bool = False) -> ColumnNames | None:
    """Parse the names of the columns of tuples in the data, of the ids of edges too if they have any, as `rpq run` does.

    Returns None if the columns have their usual names.  Raises `PipelineError` for invalid names.
    """
    try:
        names = ColumnNames.parse(columns, label=label, properties=(EDGE,) if has_ids else ())
    except InputError as error:
        raise PipelineError(f"columns: {error}" if columns else str(error)) from error
    if STREAM in dict(names.renamed):
        raise PipelineError("columns: tuples on Spark have no stream name: leave out stream")
    return names or None


def has_usual_op(names: ColumnNames | None) -> bool:
    """Return whether the columns op and delete, if the data has one of them, have their usual names.

    >>> has_usual_op(parse_column_names("source=user", None)), has_usual_op(parse_column_names("op=kind", None))
    (True, False)
    """
    return names is None or not {"op", DELETE} & dict(names.renamed).keys()


class EdgeExpressions(NamedTuple):
    """The columns of tuples as expressions of SQL over the columns of a table, by their names in the result."""

    columns: Mapping[str, str]
    types: Mapping[str, str]  # the types of these columns, as Spark writes them
    vertex: str
    is_time: bool  # whether timestamps are dates or times
    properties: Mapping[str, str]
    """The types that properties, and the ids of edges in `edge`, have in rows, as Spark writes them."""


_INSERT = "'+'"
"""The op of tuples without the columns op and delete, as an expression of SQL."""


def edge_columns(
    edges: DataFrame,
    *,
    sequence: str | None,
    time_unit: str,
    with_place: bool = True,
    names: ColumnNames | None = None,
    properties: Sequence[str] = (),
    has_ids: bool = False,
) -> EdgeColumns:
    """Return the tuples of a data frame, with columns of these `properties` of edges (`numbered_property`).

    With `has_ids` the ids of edges are one more column, numbered like a property behind the others.
    Raises `PipelineError` if columns are missing or of another type.
    """
    from pyspark.sql import functions as sql

    found = edge_expressions(
        edges.schema, sequence=sequence, time_unit=time_unit, names=names, properties=properties, has_ids=has_ids
    )
    if found.columns["op"] == _INSERT:
        check_op_column(edges)
    columns = [sql.expr(text).alias(name) for name, text in found.columns.items()]
    if with_place:
        columns += places_of(edges)
    return EdgeColumns(edges.select(*columns), found.vertex, found.is_time, found.properties)


def edge_expressions(
    schema: StructType,
    *,
    sequence: str | None,
    time_unit: str,
    names: ColumnNames | None = None,
    properties: Sequence[str] = (),
    has_ids: bool = False,
) -> EdgeExpressions:
    """Return the columns of tuples over a table with this schema; the options are those of `edge_columns`.

    This needs no session.  Raises `PipelineError` if columns are missing or of another type.
    """
    from pyspark.sql import types

    names_in_data = _column_names(schema.names, names, sequence)
    found: dict[str, DataType] = {column: schema[name].dataType for column, name in names_in_data.items()}
    ends = {"bigint" if _is_integer(found[name]) else found[name].simpleString() for name in ("source", "target")}
    if ends not in ({"bigint"}, {"string"}):
        raise PipelineError(
            f"source and target are of type {' and '.join(sorted(ends))}; expected both integers or both text"
        )
    (kind,) = ends
    for name in ("label", "op"):
        if name in found and not isinstance(found[name], types.StringType):
            raise PipelineError(f"column {names_in_data[name]!r} is of type {found[name].simpleString()}; expected text")
    if DELETE in found and not isinstance(found[DELETE], (types.BooleanType, types.StringType)):
        kind_of_delete = found[DELETE].simpleString()
        raise PipelineError(f"column {names_in_data[DELETE]!r} is of type {kind_of_delete}; expected true or false")
    if sequence and not _is_integer(schema[sequence].dataType):
        kind_of_sequence = schema[sequence].dataType.simpleString()
        raise PipelineError(f"column {sequence!r} is of type {kind_of_sequence}; a sequence is an integer")
    is_time = isinstance(found["timestamp"], (types.TimestampType, types.TimestampNTZType, types.DateType))
    if not is_time and not _is_integer(found["timestamp"]):
        raise PipelineError(
            f"column {names_in_data['timestamp']!r} is of type {found['timestamp'].simpleString()}; expected an integer, a "
            "timestamp or a date"
        )
    if is_time and time_unit not in UNITS:
        raise PipelineError(f"time_unit is {time_unit!r}; expected one of {', '.join(UNITS)}")

    def column(name: str) -> str:
        return quote_name(names_in_data[name])

    op = column("op") if "op" in found else _INSERT
    if DELETE in found:
        op = _op_of_delete(column(DELETE), is_text=isinstance(found[DELETE], types.StringType))
    constant = None if names is None else names.constant_label
    stamp = column("timestamp")
    columns = {
        "source": _cast(column("source"), kind),
        "target": _cast(column("target"), kind),
        "label": column("label") if constant is None else _literal(constant),
        "timestamp": _number_of(stamp, found["timestamp"], time_unit) if is_time else _cast(stamp, "bigint"),
        "op": op,
    }
    kinds = {"source": kind, "target": kind, "label": "string", "timestamp": "bigint", "op": "string"}
    if sequence:
        columns["sequence"], kinds["sequence"] = _cast(quote_name(sequence), "bigint"), "bigint"
    kinds_of_properties = {name: _property_type(schema, name) for name in properties}
    for place, (name, kind_of_property) in enumerate(kinds_of_properties.items()):
        numbered = numbered_property(place)
        columns[numbered], kinds[numbered] = _cast(quote_name(name), kind_of_property), kind_of_property
    if has_ids:
        numbered = numbered_property(len(properties))
        name, kinds[numbered] = _id_column(schema, names)
        columns[numbered] = _cast(quote_name(name), kinds[numbered])
        kinds_of_properties[EDGE] = kinds[numbered]
    return EdgeExpressions(columns, kinds, kind, is_time, kinds_of_properties)


_NUMBERS = {"s": "unix_seconds", "ms": "unix_millis", "us": "unix_micros"}
"""The functions of SQL that convert times with a zone to numbers, by unit."""


def _number_of(stamp: str, kind: DataType, unit: str) -> str:
    """Return a time as a number in a unit, as an expression of SQL; a date or a time without a zone counts as UTC.

    A cast to a time with a zone would read such a time in the time zone of the session.
    """
    from pyspark.sql import types

    if isinstance(kind, types.TimestampType):
        return f"{_NUMBERS[unit]}({stamp})"
    since = f"{_cast(stamp, 'timestamp_ntz')} - TIMESTAMP_NTZ '1970-01-01 00:00:00'"
    seconds = _cast(_cast(since, "interval second"), "decimal(20, 6)")
    return _cast(f"floor({seconds} * {NANOSECONDS['s'] // NANOSECONDS[unit]})", "bigint")


def quote_name(name: str) -> str:
    """Return the name of a column as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def _cast(expression: str, kind: str) -> str:
    return f"CAST({expression} AS {kind})"


def _literal(text: str) -> str:
    """Return a text as an expression of SQL, whatever the session's rules of escaping."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _id_column(schema: StructType, names: ColumnNames | None) -> tuple[str, str]:
    """Return the name of the column of the ids of edges, and their type in rows.

    Raises `PipelineError` if there is no such column, or one of another type.
    """
    name = EDGE if names is None else names[EDGE]
    if schema.names.count(name) != 1:
        raise PipelineError(
            f"no column {name!r} with the ids of edges, which edges='id' needs; found {', '.join(schema.names)}; name it "
            "with columns='edge=…'"
        )
    kind = schema[name].dataType
    if not _is_integer(kind) and kind.simpleString() != "string":
        raise PipelineError(f"column {name!r} is of type {kind.simpleString()}; ids of edges are integers or text")
    return name, "bigint" if _is_integer(kind) else "string"


def _property_type(schema: StructType, name: str) -> str:
    """Return the type of the values of a property of edges in rows.  Raises `PipelineError` if it can be none."""
    if schema.names.count(name) != 1:
        raise PipelineError(f"no column {name!r}, a property of edges that a query reads; found {', '.join(schema.names)}")
    return type_in_rows(schema[name].dataType.simpleString(), name)


def type_in_rows(kind: str, name: str) -> str:
    """Return the type in rows of a property whose column `name` has a type, as Spark writes it.

    >>> type_in_rows("int", "amount")
    'bigint'
    """
    if kind.startswith("decimal"):
        return kind
    if kind not in _PROPERTY_TYPES:
        raise PipelineError(
            f"column {name!r} is of type {kind}; properties of edges are of type boolean, integer, float, double, decimal, "
            "string, timestamp or date"
        )
    return _PROPERTY_TYPES[kind]


_PROPERTY_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint"),
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("timestamp_ntz", "date"), "timestamp_ntz"),
    "boolean": "boolean",
    "string": "string",
    "timestamp": "timestamp",
}
_ARROW_TYPES = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_SPARK_TYPES = {kind: name for name, kind in _ARROW_TYPES.items()}


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a property in rows, whose type Spark writes so.

    >>> arrow_type("decimal(5,2)"), arrow_type("bigint")
    (Decimal128Type(decimal128(5, 2)), DataType(int64))
    """
    if not kind.startswith("decimal"):
        return _ARROW_TYPES[kind]
    precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    return pa.decimal128(precision, scale)


def _column_names(in_data: Sequence[str], names: ColumnNames | None, sequence: str | None) -> dict[str, str]:
    """Return the names in the data of the columns of tuples; of op and delete only if present.

    Raises `PipelineError` if another column, or the sequence, is missing.
    """
    if names is not None:
        try:
            places = names.places(in_data)
        except FieldError as error:
            raise PipelineError(("" if error.column is None else f"column {error.column!r} ") + error.message) from error
        found = {column: in_data[place] for column, place in places.items() if column in (*TUPLE_COLUMNS, DELETE)}
    else:
        found = {name: name for name in (*TUPLE_COLUMNS, DELETE) if name in in_data}
        if "op" in found and DELETE in found:
            raise PipelineError(f"column {DELETE!r} {OP_AND_DELETE}")
    check_deletes(in_data, names or ColumnNames())
    required = (*(_REQUIRED if names is None else ()), *([sequence] if sequence else []))
    for name in required:
        if name not in in_data:
            raise PipelineError(
                f"no column {name!r}: expected {', '.join(required)} and optionally op or delete, found {', '.join(in_data)}"
            )
    return found


def _op_of_delete(delete: str, *, is_text: bool) -> str:
    """Return the op of a delete column: `-` for true, `+` for false, null for null, and an invalid op for other text."""
    if not is_text:
        return f"CASE WHEN {delete} THEN '-' WHEN NOT {delete} THEN '+' END"
    word = f"lower(btrim({delete}, {_literal(' ' + chr(9))}))"
    is_true, is_false = (
        f"{word} IN ({', '.join(repr(text) for text, truth in BOOLEANS.items() if truth is one)})" for one in (True, False)
    )
    return f"CASE WHEN {is_true} THEN '-' WHEN {is_false} THEN '+' ELSE concat('delete=', {delete}) END"


def latest_timestamp(queries: Sequence[rpq.Query]) -> int:
    """Return the largest timestamp that an edge may have in the windows of queries, all of them of time.

    >>> latest_timestamp([rpq.Query("a", window=rpq.Window(size=10, slide=1))]) == 2**63 - 11
    True
    """
    return INT64_MAX - max(window.reach for query in queries for window in windows_of(query))


def null_rows(schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Return rows of nulls, in place of records that are no tuples: `drop_bad_tuples` counts and drops them."""
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)


def drop_bad_tuples(tuples: DataFrame, *, latest: int, id_column: str | None = None, counts: str | None = None) -> DataFrame:
    """Return the tuples with a valid op, names that are not empty, text in UTF-8, and nulls only in properties of edges.

    `latest` is the largest timestamp of an edge (`latest_timestamp`).  `id_column` is the column of the ids of edges, which
    deletes need not have.  A delete with an id needs no names.  With `counts`, the number of dropped tuples is observed
    under the name `rejected_metric(counts)`.
    """
    from pyspark.sql import functions as sql

    is_delete = sql.col("op") == "-"
    good = sql.col("op").isin("+", "-") & sql.col("timestamp").between(EARLIEST, latest)
    is_by_id = sql.lit(False)
    if id_column is not None:
        has_id = sql.col(id_column).isNotNull()
        good, is_by_id = good & (has_id | is_delete), has_id & is_delete
    for name, kind in tuples.dtypes:
        if name in ("file", "row"):
            continue
        if kind == "string":
            good = good & sql.coalesce(sql.is_valid_utf8(sql.col(name)), sql.lit(True))
        if is_numbered_property(name):
            continue
        has_value = sql.col(name).isNotNull()
        if name in ("source", "target", "label"):
            has_value = is_by_id | (has_value & (sql.col(name).cast("string") != ""))
        good = good & has_value
    if counts is not None:
        bad = ~sql.coalesce(good, sql.lit(False))
        tuples = tuples.observe(rejected_metric(counts), sql.count_if(bad).alias("rejected"))
    return tuples.where(good)


def rejected_metric(counts: str) -> str:
    """Return the name of the observed metrics of dropped tuples, beside the figures named `counts`."""
    return f"{counts}_rejected"


def timestamps_as_times(unit: str) -> Column:
    """Return the column `timestamp`, numbers in a unit, as times."""
    from pyspark.sql import functions as sql

    return sql.timestamp_micros(sql.col("timestamp") * (NANOSECONDS[unit] // NANOSECONDS["us"]))


def places_of(edges: DataFrame) -> list[Column]:
    """Return the columns `file` and `row`, as far as Spark knows them for these rows."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sql

    if "_metadata" in edges.columns:  # a column of the data with this name
        return []
    try:
        metadata_columns = edges.select("_metadata.*").columns
    except AnalysisException:
        return []
    places = {"file_path": "file", "row_index": "row"}
    return [sql.col(f"_metadata.{name}").alias(alias) for name, alias in places.items() if name in metadata_columns]


def _is_integer(kind: Any) -> bool:
    from pyspark.sql import types

    return isinstance(kind, (types.ByteType, types.ShortType, types.IntegerType, types.LongType))


def row_schema(
    queries: Sequence[rpq.Query], vertex: str, properties: Mapping[str, str] | None = None, *, is_time: bool = False
) -> str:
    """Return the schema of the rows of queries as Spark writes it, with vertices of type `vertex`.

    `properties` are the types of properties and ids, as in `EdgeColumns`, and `is_time` says whether timestamps were times.
    Raises `PipelineError` if the queries have different columns, as one data frame has one schema.

    >>> row_schema([rpq.Query("a", window=rpq.Window(size=1, slide=1))], "bigint")
    'query string, source bigint, target bigint, timestamp bigint, op string'
    >>> row_schema([rpq.Query("?ü a ?y", window=rpq.Window(size=1, slide=1))], "bigint")
    'query string, `ü` bigint, y bigint, timestamp bigint, op string'
    """
    types = row_types(queries, vertex, properties, is_time=is_time)
    is_plain = {name: name.isidentifier() and name.isascii() for name in types}
    return ", ".join(f"{name if is_plain[name] else quote_name(name)} {kind}" for name, kind in types.items())


def row_types(
    queries: Sequence[rpq.Query], vertex: str, properties: Mapping[str, str] | None = None, *, is_time: bool = False
) -> dict[str, str]:
    """Return the types of the columns of `row_schema`, by name."""
    different = {query.columns: query.name for query in queries}
    if len(different) > 1:
        found = "; ".join(f"{name!r} has {', '.join(columns)}" for columns, name in different.items())
        raise PipelineError(f"the queries have different columns: {found}; run those with the same columns together")
    (columns,) = different
    types = {"vertex": vertex, "count": "bigint", "text": "string", "result": vertex}
    values = value_columns(queries, properties or {}, vertex, is_time=is_time)
    typed = {name: values.get(name) or types[kind] for name, kind in zip(columns, kinds_of(columns), strict=True)}
    return {"query": "string", **typed, "timestamp": "bigint", "op": "string"}


def value_columns(
    queries: Sequence[rpq.Query], properties: Mapping[str, str], vertex: str, *, is_time: bool
) -> dict[str, str]:
    """Return the columns of queries with values, ids and timestamps of edges, or aggregates of them, and their types."""
    found = {}
    for query in queries:
        for name, source, value in selected_columns(query):
            if source == "avg":
                found[name] = "double"
            elif value.kind == "property":
                found[name] = _type_of_sum(properties[value.name]) if source == "sum" else properties[value.name]
            elif value.kind == "fact":
                kind = properties.get(value.key, "string")
                found[name] = _type_of_sum(kind) if source == "sum" else kind
            elif value.kind == "timestamp":
                found[name] = "timestamp" if is_time else "bigint"
            elif value.kind == "number":
                found[name] = properties[EDGE]
        if isinstance(query, MatchQuery):
            types = StreamTypes(
                arrow_type(vertex),
                arrow_type("timestamp" if is_time else "bigint"),
                arrow_type(properties.get(EDGE, "bigint")),
                lambda key: arrow_type(properties.get(key, "string")),
            )
            computed = (column for column in query.translation.columns if column.tree is not None)
            found |= {column.name: _spark_type(type_of(column, types)) for column in computed}
    return found


def _spark_type(kind: pa.DataType | None) -> str:
    """Return how Spark writes a type of rows; a type that is not known is a text."""
    if kind is not None and pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if kind is not None and pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "string" if kind is None else _SPARK_TYPES[kind]


def selected_columns(query: rpq.Query) -> list[tuple[str, str, Value]]:
    """Return the columns of a query with values of edges or vertices, or sums, averages or extremes of such values.

    An entry is the name of the column, the aggregate or "value", and the value.  Counts are left out.
    """
    if isinstance(query, EdgeValuesQuery):
        return [(value.column, value.kind, value) for value in query.pattern.values]
    if isinstance(query, MatchQuery):
        columns = query.translation.columns
        return [(one.name, one.source, one.value) for one in columns if one.value is not None and one.source != "count"]
    return []


def _type_of_sum(kind: str) -> str:
    """Return the type of the engine's sums of values of a type."""
    if kind.startswith("decimal"):
        return f"decimal(38,{arrow_type(kind).scale})"
    return {"double": "double", "string": "string", "boolean": "string"}.get(kind, "bigint")


@dataclass(frozen=True, kw_only=True)
class EdgeModel(ShippedObject):
    """When two inserts are the same edge, the properties that edges carry, and the types of columns with their values.

    `time_unit` is the unit of timestamps, if it is known.  `columns` are those of tuples beside source, target, label,
    timestamp and delete: properties of edges that queries read and, where edges have ids, `edge`.
    """

    identity: Identity = "triple"
    time_unit: str | None = None
    columns: tuple[str, ...] = ()
    values: Mapping[str, pa.DataType] = field(default_factory=dict)

    @property
    def has_ids(self) -> bool:
        """True if edges have ids; then an insert with any label may replace an edge with another one."""
        return self.identity == "id"

    @property
    def engine_options(self) -> dict[str, Any]:
        """The options of engines over these edges."""
        return {"edges": self.identity, "time_unit": self.time_unit}

    def cast(self, rows: pa.Table) -> pa.Table:
        """Return rows of queries in which values of edges have the types of their columns."""
        for name, kind in self.values.items():
            place, column = rows.schema.get_field_index(name), rows[name]
            if pa.types.is_timestamp(kind) and pa.types.is_integer(column.type):  # a timestamp of an edge, in its unit
                column = column.cast(pa.timestamp(self.time_unit)).cast(pa.timestamp("us"))
            rows = rows.set_column(place, pa.field(name, kind), column.cast(kind))
        return rows


TRIPLES = EdgeModel()
"""Edges without properties, which replace one another by source, label and target."""


def edge_model(
    queries: Sequence[rpq.Query],
    identity: Identity,
    vertex: str,
    *,
    time_unit: str | None,
    properties: Mapping[str, str],
    is_time: bool = False,
) -> EdgeModel:
    """Return the model of edges for queries; `vertex`, `properties` and `is_time` are those of `row_schema`."""
    columns = (*property_names(queries), *([EDGE] if identity == "id" else []))
    values = {name: arrow_type(kind) for name, kind in value_columns(queries, properties, vertex, is_time=is_time).items()}
    return EdgeModel(identity=identity, time_unit=time_unit, columns=columns, values=values)


def property_names(queries: Sequence[rpq.Query]) -> list[str]:
    """Return the names of the properties of edges that queries read, sorted.

    >>> property_names([rpq.Query("a[n > 1]/b[m < n]", window=rpq.Window(size=10, slide=1))])
    ['m', 'n']
    """
    return sorted(frozenset[str]().union(*map(properties_of, queries)))


def check_supported_values(queries: Sequence[rpq.Query], identity: str) -> None:
    """Raise `QueryError` for queries that cannot be divided where two inserts are the same edge by `identity`."""
    if identity == "triple":
        refuse_edge_values([query for query in queries if is_ordered(query)], "on Spark")
    for query in queries:
        numbers = (value.variable for value in selected_values(query) if value.kind == "number")
        if identity != "id" and (name := next(numbers, None)) is not None:
            shown = f"?{name}" if isinstance(query, EdgeValuesQuery) else name
            raise QueryError(
                f"query {query.name!r} selects {shown}, and on Spark an edge without an id has no number, for no share sees "
                "all inserts in one order: let edges have ids (--edges id; in Python of replays edges='id', of streams "
                "identity='id'), run it with rpq run over files, or leave it out"
            )


def queries_in_unit(queries: Sequence[rpq.Query], unit: str | None, *, has_nodes: bool = False) -> tuple[rpq.Query, ...]:
    """Return the queries with windows in the unit of the timestamps, which is None if these are plain numbers.

    Raises `PipelineError` for windows that are not of time, for durations over plain numbers, for named streams and graphs,
    and for facts of nodes unless there can be records of nodes (`has_nodes`).
    """
    for query in queries:
        for name, length in getattr(query, "time_lengths", ()):
            if unit is None and isinstance(length, str):
                raise PipelineError(
                    f"{name} of query {query.name!r} is a duration ({length}), but timestamps are plain numbers: specify it "
                    "in the unit of these numbers, convert the column to timestamps, or specify time_unit"
                )
        for reading in readings_of(query):
            if not has_nodes and (reading.is_of_facts or reading.labels.has_tests):
                raise PipelineError(
                    f"query {query.name!r} reads facts of nodes, of which streams on Spark have no records: replay it with "
                    "nodes=…, run it with rpq run --nodes, or write the facts as edges"
                )
            if reading.is_of_facts:
                continue
            _check_window(query.name, reading.window, unit)
            if reading.stream is not None:
                raise PipelineError(
                    f"query {query.name!r} reads only the stream {reading.stream!r}, and tuples on Spark have no "
                    "stream name: leave out ON, or distinguish streams by their labels"
                )
        if graphs := sorted(named_graphs_of(query)):
            raise PipelineError(
                f"query {query.name!r} reads GRAPH <{graphs[0]}>, and on Spark there are no edges without time: run it with "
                "rpq run --static, or leave out GRAPH"
            )
    return tuple(_in_unit(query, unit or "ns") for query in queries)


def _check_window(name: str, window: Any, unit: str | None) -> None:
    if window.kind != "time":
        raise PipelineError(
            f"query {name!r} has {window}: Spark supports windows of time, rpq.Window(size=…, slide=…); "
            "run queries with other windows in an rpq.Engine"
        )
    if unit is None and window.unit is not None:
        raise PipelineError(
            f"the window of query {name!r} is in durations ({window}), but timestamps are plain numbers: "
            "specify the window in the unit of these numbers, convert the column to timestamps, or specify time_unit"
        )


def _in_unit(query: Any, unit: str) -> rpq.Query:
    """Return a query with all its windows, including those that its text declares, in a unit."""
    changed: rpq.Query = query.in_unit(unit)
    return changed
