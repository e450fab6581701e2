"""Edges of records: rows of a data frame that each have several edges or none, by the rules of `--edges-from`.

A row is read as `rpq run` reads a row of Parquet (`rpq.readers.parquet`): names reach into structs and lists, vertices are
text, and edges have the order of the rules.  The columns of a row are passed to tasks in one struct, beside the place of the
row in its file, so that a column of a record is never mistaken for a column of a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.column_names import ColumnNames, check_delete_columns
from rpq.readers.key_paths import top_of, with_nested_columns, with_nested_fields
from rpq.readers.parquet import OF_TEXT, check_records, edge_reader
from rpq.readers.text.edge_rules import EdgeReader, EdgeRules
from rpq.readers.text.line_layout import FURTHER
from rpq.spark.columns import UNITS, EdgeColumns, arrow_type, null_rows, places_of, quote_name, type_in_rows
from rpq.spark.envelopes import numbered_property
from rpq.spark.errors import PipelineError
from rpq.spark.shipping import ShippedObject
from rpq.stream.arrays.fields import DELETE, EDGE, FieldError
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.arrays.plain_columns import with_plain_columns
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = "record"
_PLACES = ("file", "row")
_SEQUENCE = "sequence"


def rules_of(path: str | None, columns: str | None = None, label: str | None = None) -> EdgeRules | None:
    """Read a file of rules, or return None without a path.

    Raises `PipelineError` for an unreadable file, for rules that name streams, and for names of columns or a label besides.

    >>> rules_of("nothing.toml")
    Traceback (most recent call last):
    rpq.spark.errors.PipelineError: edges_from: nothing.toml: cannot be read: No such file or directory
    """
    if path is None:
        return None
    for name, value in (("columns", columns), ("label", label)):
        if value is not None:
            raise PipelineError(f"{name}: edges_from names the columns and labels of edges; leave out one of the two")
    try:
        rules = EdgeRules.read(path)
    except InputError as error:
        raise PipelineError(f"edges_from: {error}") from error
    if rules.nodes:
        raise PipelineError(f"edges_from: {path}: has rules of nodes; on Spark records of nodes are a data frame, nodes=")
    for rule in rules.rules:
        if "stream" in rule.names:
            raise PipelineError(f"edges_from: {path}: {rule}, key 'stream': on Spark tuples have no stream; leave it out")
    return rules


@dataclass(frozen=True, kw_only=True)
class RecordReader(ShippedObject):
    """A reader that turns records with the columns of `schema`, nested ones included, into tuples.

    `properties` are the types of the properties of edges that queries read.  Times become numbers in `unit`; `times` is the
    kind of those in text, and `typed_unit` the unit of those in columns of times.
    """

    rules: EdgeRules
    schema: pa.Schema
    unit: str
    times: str | None = None
    typed_unit: str | None = None
    properties: Mapping[str, pa.DataType]
    has_ids: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_reader"}

    @cached_property
    def _reader(self) -> EdgeReader:
        columns = ColumnNames(properties=(*self.properties, *([EDGE] if self.has_ids else [])))
        return edge_reader(self.schema, self.rules, columns, unit=self.unit, times=self.times)

    @property
    def is_time(self) -> bool:
        """True if timestamps are times."""
        return self.typed_unit is not None or self.times not in (None, "integers")

    @property
    def times_read(self) -> str | None:
        """The kind of the timestamps in text, or None until a timestamp has been read."""
        return self._reader.times

    @property
    def names(self) -> list[str]:
        """The names of the values that records have.  Raises `InputError` for conditions that do not fit the columns."""
        return [name for name in self._reader.names if name in self.schema.names]

    def tuples(self, records: pa.RecordBatch) -> tuple[dict[str, pa.Array], np.ndarray, dict[int, FieldError]]:
        """Return the columns of tuples, the place of the record of each tuple, and the first error of each bad record."""
        names, count = self.names, records.num_rows
        batch = with_plain_columns(with_nested_columns(records, names))
        values = {name: pa.nulls(count, pa.string()) for name in self._reader.names}
        values |= {name: batch.column(name) for name in names}
        edges = self._reader.read(values, count)
        found = edges.columns
        deletes = found.get(DELETE, pa.nulls(len(edges.records), pa.bool_()))
        columns = {
            "source": found["source"].cast(pa.string()),
            "target": found["target"].cast(pa.string()),
            "label": found["label"].cast(pa.string()),
            "timestamp": self._in_unit(found["timestamp"].cast(pa.int64())),
            "op": pc.if_else(deletes.fill_null(False), "-", "+"),
        }
        for place, (name, type_) in enumerate(self.properties.items()):
            columns[numbered_property(place)] = found[FURTHER + name].cast(type_)
        if self.has_ids:
            columns[numbered_property(len(self.properties))] = found[FURTHER + EDGE].cast(pa.string())
        return columns, edges.records, edges.errors

    def _in_unit(self, stamps: pa.Array) -> pa.Array:
        """Return timestamps of columns of times in `unit`, others unchanged."""
        if self.typed_unit in (None, self.unit):
            return stamps
        nanoseconds, over = NANOSECONDS[str(self.typed_unit)], NANOSECONDS[self.unit]
        values = numpy_array(stamps)
        return pa.array(values * (nanoseconds // over) if nanoseconds >= over else values // (over // nanoseconds))

    @property
    def most_edges(self) -> int:
        """The largest number of edges of a record."""
        return len(self.rules.rules)

    def rows_of(self, rows: np.ndarray, records: np.ndarray) -> np.ndarray:
        """Return numbers that order the tuples of a file, given the rows of its records and the record of each tuple.

        The numbers of consecutive records are further apart than the number of edges of a record.
        """
        places = np.arange(len(records)) - np.searchsorted(records, records)
        numbers: np.ndarray = rows[records] * self.most_edges + places
        return numbers


class RecordTuples(ShippedObject):
    """A function for `mapInArrow` that turns rows with a record into tuples, which keep the row's other columns.

    With `stops` a bad record raises `InputError`; otherwise it is a row of nulls.
    """

    def __init__(self, edges: RecordReader, *, stops: bool) -> None:
        self._edges = edges
        self._stops = stops

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns, records, errors = self._edges.tuples(records_in(batch))
            if errors and self._stops:
                place = min(errors)
                error = errors[place]
                raise InputError(f"{_place_text(batch, place)}column '{error.column}': {error.message}", column=error.column)
            beside = {name: batch[name] for name in (_SEQUENCE, *_PLACES) if name in batch.schema.names}
            columns |= {name: column.take(pa.array(records)) for name, column in beside.items()}
            if "row" in columns:
                columns["row"] = pa.array(self._edges.rows_of(numpy_array(batch["row"]), records))
            tuples = pa.RecordBatch.from_pydict(columns)
            yield tuples
            if errors:
                yield null_rows(tuples.schema, len(errors))


def records_in(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the records in rows (`record_rows`)."""
    return pa.RecordBatch.from_struct_array(batch[RECORD])


def _place_text(batch: pa.RecordBatch, place: int) -> str:
    """Return the file and the row of a record, as far as they are known, as the beginning of a message."""
    if "file" not in batch.schema.names:
        return ""
    row = f"row {batch['row'][place].as_py()} (counted from 0): " if "row" in batch.schema.names else ""
    return f"{batch['file'][place].as_py()}: {row}"


def record_columns(
    frame: DataFrame,
    rules: EdgeRules,
    *,
    sequence: str | None,
    time_unit: str,
    with_place: bool = True,
    properties: Sequence[str] = (),
    has_ids: bool = False,
    stops: bool = True,
) -> EdgeColumns:
    """Return the tuples of a data frame of records, as `edge_columns` does for a data frame of tuples.

    With `stops` a bad record ends the job; otherwise it is a row of nulls.  Raises `PipelineError` if columns are missing
    or of another type.
    """
    edges, types = record_edges(frame, rules, time_unit=time_unit, properties=properties, has_ids=has_ids)
    rows = record_rows(frame, edges, sequence=sequence, with_place=with_place)
    schema = ["source string", "target string", "label string", "timestamp bigint", "op string"]
    schema += [f"{numbered_property(place)} {kind}" for place, kind in enumerate(types.values())]
    schema += [f"{name} {'string' if name == 'file' else 'bigint'}" for name in rows.columns if name != RECORD]
    tuples = rows.mapInArrow(RecordTuples(edges, stops=stops), ", ".join(schema))
    return EdgeColumns(tuples, "string", edges.is_time, types)


def record_rows(frame: DataFrame, edges: RecordReader, *, sequence: str | None, with_place: bool) -> DataFrame:
    """Return the rows of a data frame with the columns that `edges` reads in one struct, `RECORD`."""
    from pyspark.sql import functions as sql

    own = pa.schema([(name, pa.null()) for name in frame.schema.names])
    tops = dict.fromkeys(top_of(name, own) for name in edges.names)
    columns = [sql.struct(*(sql.col(quote_name(name)) for name in tops)).alias(RECORD)]
    if sequence is not None:
        if frame.schema.names.count(sequence) != 1:
            raise PipelineError(f"no column {sequence!r}, the sequence: found {', '.join(frame.schema.names)}")
        columns.append(sql.col(quote_name(sequence)).cast("bigint").alias(_SEQUENCE))
    return frame.select(*columns, *(places_of(frame) if with_place else ()))


def record_edges(
    frame: DataFrame,
    rules: EdgeRules,
    *,
    time_unit: str,
    properties: Sequence[str] = (),
    has_ids: bool = False,
) -> tuple[RecordReader, dict[str, str]]:
    """Return the reader that turns rows into tuples, and the types of properties and ids, as Spark writes them.

    Raises `PipelineError` for rules that do not fit the columns.
    """
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

    columns = ColumnNames(properties=(*properties, *([EDGE] if has_ids else [])))
    schema = with_nested_fields(to_arrow_schema(frame.schema, timezone="UTC"), rules.all_names(columns.properties))
    try:
        unit = check_records("the data", schema, rules, columns)
        check_delete_columns(frame.schema.names, rules.all_names(columns.properties), rules.file)
        types: dict[str, str] = {}
        for name in properties:
            sources = {rules.of_property(rule, name) for rule in rules.rules}
            of_sources = [(source, schema.field(source).type) for source in sources if source in schema.names]
            found = {type_in_rows(from_arrow_type(type_).simpleString(), str(source)) for source, type_ in of_sources}
            types[name] = found.pop() if len(found) == 1 else "string"
        edges = RecordReader(
            rules=rules,
            schema=schema,
            unit=time_unit if time_unit in UNITS else "us",
            typed_unit=None if unit == OF_TEXT else unit,
            properties={name: arrow_type(kind) for name, kind in types.items()},
            has_ids=has_ids,
        )
        assert edges.names
        if unit == OF_TEXT:
            edges = _with_times(frame, edges)
    except InputError as error:
        raise PipelineError(str(error)) from error
    except FieldError as error:
        raise PipelineError(f"column {error.column!r} {error.message}") from error
    return edges, types | ({EDGE: "string"} if has_ids else {})


SAMPLE_RECORDS = 1_000
"""The number of records that are searched for a timestamp in text, which decides whether timestamps are times."""


def _with_times(frame: DataFrame, edges: RecordReader) -> RecordReader:
    """Return `edges` with the kind of the first timestamp in text.  Raises `PipelineError` for a stream."""
    if frame.isStreaming:
        name = edges.rules.rules[0].names["timestamp"]
        raise PipelineError(
            f"column {name!r}: timestamps are text, whose first value decides whether they are times, and a stream has none "
            "yet: convert the column to timestamps or integers"
        )
    first = record_rows(frame, edges, sequence=None, with_place=False).limit(SAMPLE_RECORDS).toArrow()
    for batch in first.to_batches():
        edges.tuples(records_in(batch))
        if edges.times_read is not None:
            break
    return replace(edges, times=edges.times_read or "integers")
