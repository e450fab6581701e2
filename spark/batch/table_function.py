"""Replays as a table function of Spark's SQL: `SELECT * FROM rpq_changes(TABLE(edges), 'a2q/c2a*', '30d', '1d')`.

Spark analyzes a call in a Python process without a session: everything about the columns and the query is decided there
(`RpqChanges.analyze`), and errors appear before a job starts.  The analysis requests all rows of the table in one partition,
in the order of a replay, and converts them in SQL.  Spark passes rows to a table function one by one, and the function
pushes them into an engine in batches.

This module and `rpq.spark.jvm.data_source` are the only ones that import PySpark at their top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast, get_args

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types
from pyspark.sql.udtf import AnalyzeResult, OrderingColumn, SelectedColumn

import rpq
from rpq.engine.engine import Engine
from rpq.errors import QueryError
from rpq.language.options import OPTIONS
from rpq.language.query_file import ArgumentPlace, query_entry
from rpq.language.sparql.algebra import reads_default
from rpq.rows.changes import Changes
from rpq.spark.columns import (
    EdgeModel,
    Identity,
    arrow_type,
    check_supported_values,
    edge_expressions,
    edge_model,
    parse_column_names,
    property_names,
    queries_in_unit,
    row_types,
)
from rpq.spark.division import share_limit
from rpq.spark.envelopes import engine_tuples
from rpq.spark.errors import PipelineError
from rpq.spark.shipping import ShippedObject
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql.udtf import AnalyzeArgument

_TABLE_OPTIONS = ("sequence", "time_unit", "memory_limit", "columns", "label", "identity")
"""Options of `rpq.spark.rpq_changes` that a replay has, too."""

_QUERY_OPTIONS = tuple(name for name, option in OPTIONS.items() if option.kind != "window")
"""Options of `rpq.Query`, without its window."""

_CALL = ArgumentPlace(file="", name_of=str)
"""The arguments of a call as the place of a query."""

_TIMES = "us"
_BATCH_ROWS = 1 << 14
"""The number of tuples that are pushed into an engine at once."""

_TYPES: Mapping[str, types.DataType] = {
    "bigint": types.LongType(),
    "boolean": types.BooleanType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "timestamp": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
}


@dataclass
class Analysis(AnalyzeResult):
    """The result of the analysis of a call: the columns and the order for Spark, and the replay."""

    replay: TableReplay | None = None


class TableReplay(ShippedObject):
    """A query over the rows of a table, which arrive in the order of the stream."""

    def __init__(
        self,
        query: rpq.Query,
        *,
        columns: Mapping[str, pa.DataType],
        edges: EdgeModel,
        microseconds: int | None,
        memory_limit: int | None,
    ) -> None:
        """`columns` are the types of the columns of the rows; `microseconds` is the unit of timestamps that are times."""
        self._query = query
        self._columns = dict(columns)
        self._edges = edges
        self._microseconds = microseconds
        self._memory_limit = memory_limit

    def engine(self, *, threads: int) -> Engine:
        """Return a new engine for the query."""
        limit = share_limit(self._memory_limit, threads=threads)
        return Engine(self._query, threads=threads, memory_limit=limit, **self._edges.engine_options)

    def tuples(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Return rows of the table in the columns that the engine accepts.  Raises `InputError` for an invalid tuple."""
        arrays = [_array(values, kind) for values, kind in zip(zip(*rows, strict=True), self._columns.values(), strict=True)]
        return engine_tuples(pa.Table.from_arrays(arrays, list(self._columns)), self._edges.columns)

    def rows(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        """Return answer changes as the rows of the function."""
        table = self._edges.cast(changes.to_arrow())
        if self._microseconds is not None:
            place = table.schema.get_field_index("timestamp")
            stamps = pa.array(table["timestamp"].to_numpy() * self._microseconds)
            table = table.set_column(place, "timestamp", stamps.cast(pa.timestamp("us", "UTC")))
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    # Times are numbers here, since Spark passes them to Python in the time zone of the process.
    return pa.array(values, pa.int64()).cast(kind) if _is_instant(kind) else pa.array(values, kind)


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


class RpqChanges:
    """The table function `rpq_changes`, whose methods Spark calls."""

    def __init__(self, analysis: Analysis) -> None:
        assert analysis.replay is not None
        self._replay = analysis.replay
        self._waiting: list[tuple[Any, ...]] = []
        self._engine: Engine | None = None

    @staticmethod
    def analyze(
        edges: AnalyzeArgument,
        query: AnalyzeArgument,
        window: AnalyzeArgument | None = None,
        slide: AnalyzeArgument | None = None,
        **options: AnalyzeArgument,
    ) -> Analysis:
        """Return the columns of the rows, and the order and partition in which Spark must pass the table.

        Raises `QueryError` for an invalid query or window, and `PipelineError` for unsuitable columns or options.
        """
        if not edges.isTable or not isinstance(edges.dataType, types.StructType):
            raise PipelineError("the first argument is a table, as in rpq_changes(TABLE(edges), 'a2q/c2a*', '30d', '1d')")
        text, size, step = (_constant(name, one) for name, one in (("query", query), ("window", window), ("slide", slide)))
        if not isinstance(text, str):
            raise PipelineError(f"query is {text!r}; expected text, as in 'a2q/c2a*'")
        constants = {name: value for name, one in options.items() if (value := _constant(name, one)) is not None}
        for name in constants:
            if name not in (*_TABLE_OPTIONS, *_QUERY_OPTIONS):
                names = ", ".join((*_TABLE_OPTIONS, *_QUERY_OPTIONS))
                raise PipelineError(f"{name} is not an option of rpq_changes; the options are {names}")
        of_query = {name: constants[name] for name in _QUERY_OPTIONS if name in constants}
        if "parameters" in of_query:
            of_query["parameters"] = _parameter_value(of_query["parameters"])
        return _analysis(
            edges.dataType,
            _query(text, size, step, of_query),
            **{name: constants[name] for name in _TABLE_OPTIONS if name in constants},
        )

    def eval(self, edges: types.Row, *_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
        """Receive a row of the table; return the answer changes whenever a batch is complete."""
        self._waiting.append(edges)
        if len(self._waiting) == _BATCH_ROWS:
            yield from self._push()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows of the last batch."""
        if self._waiting:
            yield from self._push()

    def _push(self) -> Iterator[tuple[Any, ...]]:
        if self._engine is None:
            task = TaskContext.get()
            self._engine = self._replay.engine(threads=1 if task is None else task.cpus())
        tuples, self._waiting = self._replay.tuples(self._waiting), []
        yield from self._replay.rows(self._engine.push(tuples))


def _constant(name: str, argument: AnalyzeArgument | None) -> Any:
    """Return the value of an argument.  Raises `PipelineError` if it is not the same for all rows."""
    if argument is None:
        return None
    if not argument.isConstantExpression:
        raise PipelineError(f"{name} is not a constant; expected a literal, as in {name} => '…'")
    return argument.value


def _parameter_value(value: Any) -> Any:
    """Return a value of SQL as one of parameters, whose mappings are structs or maps. Raises `PipelineError`."""
    match value:
        case types.Row():
            return _parameter_value(value.asDict())
        case dict():
            return {name: _parameter_value(one) for name, one in value.items()}
        case list():
            return [_parameter_value(one) for one in value]
        case datetime():  # in the time zone of the process, or in none
            raise PipelineError(f"parameters: write {value} as text, as in named_struct('datetime', '2024-03-01T10:00:00Z')")
    return value


def _query(text: str, window: Any, slide: Any, options: Mapping[str, Any]) -> rpq.Query:
    """Return the query of a call.  Raises `QueryError`."""
    lengths = {"window": _length(window), "slide": _length(slide)}
    entry = query_entry({"query": text, **lengths, **options}, place=_CALL)
    if entry.parsed.notation != "sparql" or window is not None or reads_default(entry.parsed.parsed.body):  # type: ignore[attr-defined]
        for name, length in lengths.items():
            if length is None:
                example = f"rpq_changes(TABLE(edges), {text!r}, '30d', '1d')"
                raise QueryError(f"{name} is missing: write window and slide behind the query, as in {example}")
    return entry.query(unit=None, durations=True)


def _length(value: Any) -> int | str | None:
    """Return a length of time as a number or a text; it may be a number, a text or an INTERVAL of SQL."""
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    return cast("int | str | None", value)


def _analysis(
    schema: types.StructType,
    query: rpq.Query,
    *,
    sequence: str | None = None,
    time_unit: str | None = None,
    memory_limit: int | None = None,
    columns: str | None = None,
    label: str | None = None,
    identity: Identity = "triple",
) -> Analysis:
    """Return the analysis of a replay of a query over a table."""
    if identity not in get_args(Identity):
        raise PipelineError(f"identity is 'triple', 'parallel' or 'id', not {identity!r}")
    check_supported_values([query], identity)
    has_ids = identity == "id"
    unit = time_unit or _TIMES
    found = edge_expressions(
        schema,
        sequence=sequence,
        time_unit=unit,
        names=parse_column_names(columns, label, has_ids=has_ids),
        properties=property_names([query]),
        has_ids=has_ids,
    )
    timestamp_unit = unit if found.is_time else time_unit
    (resolved_query,) = queries_in_unit([query], timestamp_unit)
    types_of_columns = {name: arrow_type(kind) for name, kind in found.types.items()}
    replay = TableReplay(
        resolved_query,
        columns=types_of_columns,
        edges=edge_model(
            [query], identity, found.vertex, time_unit=timestamp_unit, properties=found.properties, is_time=found.is_time
        ),
        microseconds=NANOSECONDS[unit] // NANOSECONDS["us"] if found.is_time else None,
        memory_limit=memory_limit,
    )
    kinds = row_types([query], found.vertex, found.properties, is_time=found.is_time)
    kinds |= {"timestamp": "timestamp"} if found.is_time else {}
    ties = [found.columns["sequence"]] if sequence else []
    order = [found.columns["timestamp"], *ties, f"({found.columns['op']}) = '+'"]
    return Analysis(
        schema=types.StructType([types.StructField(name, _spark_type(kind)) for name, kind in kinds.items()]),
        withSinglePartition=True,
        orderBy=[OrderingColumn(one) for one in order],
        select=[
            SelectedColumn(f"unix_micros({text})" if _is_instant(types_of_columns[name]) else text, name)
            for name, text in found.columns.items()
        ],
        replay=replay,
    )


def _spark_type(kind: str) -> types.DataType:
    """Return the type for a text in Spark's notation, without a session, which `types.StructType.fromDDL` would need."""
    if not kind.startswith("decimal"):
        return _TYPES[kind]
    decimal = arrow_type(kind)
    return types.DecimalType(decimal.precision, decimal.scale)
