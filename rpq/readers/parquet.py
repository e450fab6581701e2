"""Parquet and Arrow files (Feather) as input; columns keep their types.

Columns, by name: `source` and `target` (both text, or both integers, which become int64), `label` (text), `timestamp`
(an integer; an Arrow timestamp, which becomes the int64 of its unit in Parquet: seconds are stored as milliseconds; or a
date, which becomes seconds) and optionally `op` (text, `+` or `-`) or `delete` (boolean, or text that is true or false) and
`stream` (text, null or empty for none), or under the names that `columns` assigns to them.  Every layout of Arrow is
supported: dictionaries, views, run ends (`rpq.stream.arrays.plain_columns`).  Other columns are read only if a condition
uses them.  Names reach into structs and lists (`rpq.readers.key_paths`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError, did_you_mean
from rpq.files import STATISTICS
from rpq.language.predicate import ColumnKind, Predicate, UntypedColumn, kind_of_type, tuple_kinds
from rpq.language.where import Where
from rpq.readers.batch import left_after_condition, node_columns, selection_mask
from rpq.readers.column_names import EVENT, ColumnNames, check_delete_columns
from rpq.readers.inputs import BATCH_ROWS, REJECTION_MESSAGES
from rpq.readers.key_paths import leaves_of, names_of_schema, top_of, with_nested_columns, with_nested_fields
from rpq.readers.open_source import OpenSource
from rpq.readers.text.edge_rules import EdgeReader, EdgeRules
from rpq.readers.text.line_layout import FURTHER, NO_ID, no_operation
from rpq.stream.arrays.fields import (
    DEFAULT_UNIT,
    DELETE,
    EDGE,
    EPOCH,
    STREAM,
    FieldError,
    check_time,
    time_kind,
    times_of,
)
from rpq.stream.arrays.plain_columns import TEXT, TEXTS, is_fit, plain_type, with_plain_columns
from rpq.stream.arrays.values import EMPTY, boolean_of_text, booleans_of_text

if TYPE_CHECKING:
    from pyarrow import parquet as pq

MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
SizedBatches = Iterator[tuple[pa.RecordBatch, float]]
"""Batches of Arrow, each with its share of the bytes of the input."""

_TUPLE = ("source", "target", "label", "timestamp")
_CONTROLS = frozenset({*range(9), *range(14, 32)})
"""Bytes that do not occur in text."""


def is_parquet(path: str) -> bool:
    """Return whether a file begins with the magic bytes of Parquet, and either ends with them or contains non-text bytes.

    Returns False for a path that is not a regular file.
    """
    return _begins_with(path, MAGIC)


def is_typed(path: str) -> bool:
    """Return whether a file is Parquet or Arrow, even if truncated; raise `InputError` if it is empty with such a name."""
    if _begins_with(path, MAGIC) or _begins_with(path, ARROW_MAGIC):
        return True
    if path.endswith((".parquet", ".feather", ".arrow")) and os.path.isfile(path) and not os.path.getsize(path):
        raise InputError(f"{path}: is empty; expected {_kind(path)}, as its name says", file=path)
    return False


def _kind(path: str) -> str:
    is_arrow = path.endswith((".feather", ".arrow")) or _begins_with(path, ARROW_MAGIC)
    return "an Arrow file" if is_arrow else "Parquet"


def _begins_with(path: str, magic: bytes) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            begin = file.read(64)
            file.seek(max(0, os.path.getsize(path) - len(magic)))
            end = file.read()
    except OSError:
        return False
    is_binary = end == magic or not _CONTROLS.isdisjoint(begin) or begin == magic
    return begin.startswith(magic) and is_binary


class TypedInput:
    """The tuples of batches of Arrow, whose columns have types; subclasses say where batches come from.

    A row with a null, an empty name or an unknown op is a bad row: with `on_error="stop"` it raises `InputError` (with
    `row`, counted from 0 in its file) after the rows before it, with `"skip"` it is counted.  `where` is a condition on the
    columns of the files that rows must meet; it raises `WhereError` if it does not fit them.  `time_unit` is that of times
    in text, and of those with a format (`ColumnNames.time_format`), which may be numbers.
    """

    def __init__(
        self,
        name: str,
        *,
        on_error: str = "stop",
        batch_rows: int = BATCH_ROWS,
        columns: ColumnNames | None = None,
        where: Where | None = None,
        rules: EdgeRules | None = None,
        time_unit: str = DEFAULT_UNIT,
    ) -> None:
        self.name = name
        self._text_unit = time_unit
        self.rejected = 0
        self.rejections: list[str] = []
        self.filtered = 0
        self.undecided = 0
        self._columns = columns or ColumnNames()
        self._where = where
        self._rules = rules
        self._stop = on_error == "stop"
        self._batch_rows = batch_rows
        self._bytes_read = 0.0
        self.time_unit: str | None = None
        self._times = self._columns.time_format
        """The kind of times in text, which the first time decides without a format."""
        self.warnings: list[str] = []

    def _raw_schema(self, path: str) -> pa.Schema:
        """Return all columns of a file."""
        raise NotImplementedError

    def _raw_batches(self, path: str, names_read: list[str], names: dict[str, str]) -> SizedBatches:
        """Yield a file in batches of the columns `names_read`; `names` are those of the columns of a tuple."""
        raise NotImplementedError

    def _kinds(self, path: str, schema: pa.Schema) -> tuple[str, str | None]:
        """Return the kind of the vertices and the unit of the timestamps.  Raises `InputError` and `WhereError`."""
        self._edge_reader(schema)
        self._predicate(schema)
        if self._rules is not None:
            return "text", check_records(path, schema, self._rules, self._columns)
        return _check_schema(path, schema, self._columns)

    def _read(self, path: str, row: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of a file; its first row has this number."""
        schema = self._schema(path)
        reader = self._edge_reader(schema)
        if reader is not None:
            yield from self._read_records(path, schema, reader, row)
            return
        names = {column: self._columns[column] for column in self._columns.accepted_columns}
        names = {column: name for column, name in names.items() if name in schema.names}
        predicate = self._predicate(schema)
        of_condition = {key.removeprefix(FURTHER) for key in (predicate.keys if predicate else ()) if key != DELETE}
        properties = {name: self._columns[name] for name in self._columns.properties}
        properties = {name: column for name, column in properties.items() if column in schema.names}
        further = sorted(of_condition.union(properties.values()))
        names_read = list(dict.fromkeys([*names.values(), *further]))
        for raw, size in self._raw_batches(path, names_read, names):
            batch = with_plain_columns(raw)
            self._bytes_read += size
            arrays = [self._as_read(column, batch.column(name)) for column, name in names.items()]
            tuples = pa.RecordBatch.from_arrays(arrays, list(names))
            further_columns = {FURTHER + name: batch.column(name) for name in further}
            yield from self._check(tuples, path, row, predicate, further_columns, properties)
            row += batch.num_rows

    def _as_read(self, column: str, values: pa.Array) -> pa.Array:
        """Return vertices as text if the option `text_vertices` is set, and times in the unit of the input."""
        if column == "timestamp":
            return self._in_unit(values)
        is_number = column in ("source", "target") and pa.types.is_integer(values.type)
        return values.cast(pa.string()) if is_number and self._columns.text_vertices else values

    def _in_unit(self, times: pa.Array) -> pa.Array:
        """Return dates and times in the unit of the input, as several files may have several units."""
        unit = _unit(times.type)
        if unit is None or unit == self.time_unit or self.time_unit is None:
            return times
        zone = times.type.tz if pa.types.is_timestamp(times.type) else None
        return times.cast(pa.timestamp(self.time_unit, zone))

    def _read_records(self, path: str, schema: pa.Schema, reader: EdgeReader, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the edges of the records of a file; columns that it lacks are null."""
        predicate = self._predicate(schema)
        names = [name for name in reader.names if name in schema.names]
        for raw, size in self._raw_batches(path, names, {}):
            batch = with_plain_columns(raw)
            self._bytes_read += size
            count = batch.num_rows
            records = {name: batch.column(name) if name in names else pa.nulls(count, pa.string()) for name in reader.names}
            times = {name: self._in_unit(records[name]) for name in reader.rules.times}
            edges = reader.read(records, count, timestamps=times)
            end = min(edges.errors, default=count) if self._stop else count
            is_before = pa.array(edges.records < end)
            good = _edges({name: column for name, column in edges.columns.items() if not name.startswith(FURTHER)})
            for name in self._columns.properties:
                good = good.append_column(name, edges.columns[FURTHER + name])
            for node_field, column in node_columns(edges.columns, loose=False):
                good = good.append_column(node_field, column)
            good, of_records = good.filter(is_before), edges.records[edges.records < end]
            if predicate is not None:
                places = pa.array(of_records)
                columns = {FURTHER + name: column.take(places) for name, column in records.items()}
                columns |= {name: good.column(name) for name in good.schema.names if name in (*_TUPLE, DELETE, STREAM)}
                keep, undecided = selection_mask(predicate, columns, good)
                self.undecided += undecided
                self.filtered += int(np.count_nonzero(~keep))
                good = good if keep.all() else left_after_condition(good, keep)
            if good.num_rows:
                yield good
            for place, error in sorted(edges.errors.items()):
                message = f"{path}: row {row + place} (counted from 0): column '{error.column}': {error.message}"
                if self._stop:
                    raise InputError(message, file=path, column=error.column, row=row + place)
                self.rejected += 1
                if len(self.rejections) < REJECTION_MESSAGES:
                    self.rejections.append(message)
            row += count

    def _schema(self, path: str) -> pa.Schema:
        """Return the columns of a file, with a column for each nested value that the options name."""
        renamed = (name for _, name in self._columns.renamed)
        of_condition = () if self._where is None else sorted(self._where.names)
        of_rules = () if self._rules is None else self._rules.all_names(self._columns.properties)
        return with_nested_fields(self._raw_schema(path), (*renamed, *self._columns.properties, *of_condition, *of_rules))

    def _edge_reader(self, schema: pa.Schema) -> EdgeReader | None:
        """Return the reader that makes edges of the records of a file, or None without rules."""
        if self._rules is None:
            return None
        further = () if self._where is None else [name for name in self._where.names if name in schema.names]
        return edge_reader(schema, self._rules, self._columns, unit=self._text_unit, further=further)

    def _predicate(self, schema: pa.Schema) -> Predicate | None:
        """Bind the condition to the columns of a file; the input's own names take precedence over those of a tuple."""
        if self._where is None:
            return None
        for name in self._where.names:
            if schema.names.count(name) > 1:
                raise self._where.error(f"column {name!r} occurs twice", 1)
        kinds = {}
        for field in schema:
            kind, unit = kind_of_type(field.type)
            kinds[field.name] = ColumnKind(key=FURTHER + field.name, kind=kind, unit=unit)
        if self._rules is not None:
            return Predicate(self._where, kinds | tuple_kinds(unit=self.time_unit))
        of_tuple = {column: kind for column, kind in tuple_kinds().items() if kind.key == DELETE}
        for column in self._columns.accepted_columns:
            name = self._columns[column]
            if name in kinds:
                kinds[name] = of_tuple.setdefault(column, replace(kinds[name], of_tuple=column != EVENT))
        return Predicate(self._where, kinds | {column: kind for column, kind in of_tuple.items() if column not in kinds})

    def _check(
        self,
        batch: pa.RecordBatch,
        path: str,
        row: int,
        predicate: Predicate | None,
        further: dict[str, pa.Array],
        properties: Mapping[str, str],
    ) -> Iterator[pa.RecordBatch]:
        """Convert a batch and remove bad and filtered rows; the batch begins with row number `row` of the file."""
        bad, columns = np.zeros(batch.num_rows, np.bool_), {}
        wrong: dict[str, np.ndarray] = {}
        for name in batch.schema.names:
            if name == "timestamp" and (self._columns.time_format is not None or _is_text(batch.column(name).type)):
                self._times = self._times or _kind_of_times(batch.column(name))
                columns[name], wrong[name] = _parse_times(batch.column(name), self._times or "naive", self._text_unit)
                continue
            columns[name], wrong[name] = _convert(batch.column(name), name)
        edges = further[FURTHER + self._columns[EDGE]] if self._columns.has_ids else None
        if edges is not None:
            has_id = _mask(edges.is_valid())
            deletes = columns.get("op", columns.get(DELETE))
            is_delete = np.zeros(batch.num_rows, np.bool_) if deletes is None else _mask(deletes)
            wrong[EDGE] = ~has_id & ~is_delete
            for name in ("source", "target", "label"):
                if name in wrong:
                    wrong[name] &= ~(has_id & is_delete)
        for mask in wrong.values():
            bad |= mask
        if self._columns.constant_label is not None:
            indices = pa.array(np.zeros(batch.num_rows, np.int32))
            columns["label"] = pa.DictionaryArray.from_arrays(indices, pa.array([self._columns.constant_label]))
        end = len(bad)
        selected = ~bad
        if bad.any():
            if self._stop:
                end = int(np.argmax(bad))
                selected[end:] = False
            else:
                self.rejected += int(np.count_nonzero(bad))
                for place in np.flatnonzero(bad)[: REJECTION_MESSAGES - len(self.rejections)].tolist():
                    self.rejections.append(str(self._row_error(batch, path, row, place, wrong)))
        if predicate is not None:
            deletes = columns.get("op", columns.get(DELETE))
            read_columns = further if deletes is None else {**further, DELETE: deletes}
            keep, undecided = predicate.mask(read_columns, batch.num_rows)
            self.undecided += undecided
            self.filtered += int(np.count_nonzero(selected & ~keep))
        good = _edges(columns)
        for name, column in properties.items():
            good = good.append_column(name, further[FURTHER + column])
        good = good if selected.all() else good.filter(pa.array(selected))
        if predicate is not None and not (keep := keep[selected]).all():
            good = left_after_condition(good, keep)
        if good.num_rows:
            yield good
        if self._stop and end < len(bad):
            raise self._row_error(batch, path, row, end, wrong)

    def _row_error(
        self, batch: pa.RecordBatch, path: str, row: int, place: int, wrong: Mapping[str, np.ndarray]
    ) -> InputError:
        """Return the error for the row at `place` of the batch, where some column is `wrong`."""
        for name in (name for name, mask in wrong.items() if mask[place]):
            own = self._columns[name]
            problem = NO_ID if name == EDGE else self._problem(name, batch.column(name)[place].as_py())
            if problem is not None:
                message = f"{path}: row {row + place} (counted from 0): column '{own}': {problem}"
                return InputError(message, file=path, column=own, row=row + place)
        raise AssertionError("a row was found bad without a reason")

    def _problem(self, name: str, value: Any) -> str | None:
        """Return what is wrong with a value of a column."""
        if name == "op" and value not in ("+", "-"):
            return no_operation(repr(value), value)
        if name == DELETE and isinstance(value, str) and boolean_of_text(value) is None:
            return f"{value!r} is not true or false; expected true, false, 1 or 0"
        if name in ("stream", "event"):
            return None
        if value is None:
            return "is null; expected a value"
        if value == "":
            return EMPTY
        if name == "timestamp" and isinstance(value, str):
            try:
                check_time(value, name, kind=self._times or "naive", unit=self._text_unit)
            except FieldError as error:
                return error.message
        if name == "timestamp" and self._times is not None:
            return f"{value!r} is not a time of --time-format {self._times}"
        if isinstance(value, int) and value > 2**63 - 1:
            return f"{value} does not fit 64 bits; expected at most 2⁶³ − 1"
        return None


class ParquetInput(TypedInput):
    """The tuples of a Parquet or Arrow file, or of the Parquet files of a folder in the order of their paths.

    In a folder, names that begin with `_` or `.` are ignored, as in Spark and Hive, except that a folder prepared by
    `rpq spark prepare` records the unit of its timestamps in `STATISTICS`.  `vertex_type` is "text" or "integers".
    """

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self._files = _files(path)
        self.bytes_total = sum(os.path.getsize(file) for file in self._files)
        schemas = {file: self._schema(file) for file in self._files}
        kinds = {file: self._kinds(file, schema) for file, schema in schemas.items()}
        self.vertex_type, unit = kinds[self._files[0]]
        self.has_typed_times = all(of_file in _UNITS for _, of_file in kinds.values())
        """True if all timestamps are dates and times, which can be read in any finer unit: that in `time_unit`."""
        if self.has_typed_times:
            unit = finest_unit(of_file for _, of_file in kinds.values())
        self.time_unit = self._text_unit if unit == OF_TEXT else unit or _prepared_unit(path)
        for file, (vertex_type, of_file) in kinds.items():
            if vertex_type != self.vertex_type or (of_file != unit and not self.has_typed_times):
                raise InputError(
                    f"{file}: its columns differ in type from those of {self._files[0]}; files of a folder must agree",
                    file=file,
                )
        warnings = (f"{file}: {one}" for file, schema in schemas.items() for one in self._unread(file, schema))
        self.warnings = [*warnings][:1]

    def _unread(self, file: str, schema: pa.Schema) -> list[str]:
        """Return warnings about deletes that are not read.  Raises `InputError` for Debezium's column of deletes."""
        of_condition = frozenset() if self._where is None else self._where.names
        try:
            if self._rules is None:
                return self._columns.deletes_not_read(schema.names, of_condition)
            read = {*self._rules.all_names(self._columns.properties), *of_condition}
            check_delete_columns(schema.names, read, self._rules.file)
        except FieldError as error:
            raise InputError(f"{file}: column '{error.column}' {error.message}", file=file, column=error.column) from error
        return []

    @property
    def bytes_read(self) -> int:
        return int(self._bytes_read)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            try:
                yield from self._read(file)
            except (pa.ArrowException, OSError) as error:
                raise _read_error(file, error) from error

    def _raw_schema(self, path: str) -> pa.Schema:
        return _schema(path)

    def _raw_batches(self, path: str, names_read: list[str], names: dict[str, str]) -> SizedBatches:
        return _batches(path, names_read, names, self._batch_rows)


class SourceInput(TypedInput):
    """The tuples of an installed source that delivers edges.

    The first batch decides which columns there are.  Raises `InputError` if a batch has other columns, or timestamps of
    another unit than the source declares.
    """

    bytes_total: int | None = None

    def __init__(self, source: OpenSource, **options: Any) -> None:
        super().__init__(source.name, **options)
        self._source = source
        self._first_schema: pa.Schema | None = None
        self._tables: Iterator[pa.RecordBatch] = iter(())
        if self._columns.time_format is None:
            self._text_unit = source.time_unit or self._text_unit
        self.time_unit = source.time_unit if self._columns.time_format is None else self._text_unit

    @property
    def bytes_read(self) -> int:
        return self._source.position

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        tables = self._source.tables()
        first = next(tables, None)
        if first is None:
            return
        self._first_schema, self._tables = first.schema, chain([first], tables)
        _, unit = self._kinds(self.name, self._schema(self.name))
        unit = self._text_unit if unit == OF_TEXT else unit
        if unit is not None and unit != self.time_unit:
            raise InputError(
                f"{self.name}: its timestamps are in {unit}, but its source declares "
                f"{'no unit' if self.time_unit is None else self.time_unit}",
                file=self.name,
                column="timestamp",
            )
        yield from self._read(self.name, self._source.first_row)

    def _raw_schema(self, path: str) -> pa.Schema:
        assert self._first_schema is not None
        return self._first_schema

    def _raw_batches(self, path: str, names_read: list[str], names: dict[str, str]) -> SizedBatches:
        schema = self._first_schema
        assert schema is not None
        tops = list(dict.fromkeys(top_of(name, schema) for name in names_read))
        for table in self._tables:
            if not table.schema.equals(schema):
                now = _columns_of(table.schema)
                raise InputError(f"{path}: its columns were {_columns_of(schema)}, now {now}", file=path)
            yield with_nested_columns(table.select(tops), names_read), 0.0


def _columns_of(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _batches(path: str, names_read: list[str], names: dict[str, str], rows: int) -> SizedBatches:
    """Yield a file in batches of the required columns, each with its share of the file's bytes."""
    size = os.path.getsize(path)
    if _begins_with(path, ARROW_MAGIC):
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
            tops = list(dict.fromkeys(top_of(name, file.schema) for name in names_read))
            for place in range(file.num_record_batches):
                whole = with_nested_columns(file.get_batch(place).select(tops), names_read)
                for start in range(0, whole.num_rows, rows):
                    part = whole.slice(start, rows)
                    yield part, size / file.num_record_batches * part.num_rows / whole.num_rows
        return
    from pyarrow import parquet as pq

    metadata = pq.read_metadata(path)
    repetitive = _dictionary_columns(metadata, [names.get(one, "") for one in ("label", "op", DELETE)], list(names.values()))
    bytes_a_row = size / max(1, metadata.num_rows)
    with pq.ParquetFile(path, read_dictionary=repetitive, metadata=metadata) as file:
        leaves = list(dict.fromkeys(leaves_of(name, file.schema_arrow) for name in names_read))
        for batch in file.iter_batches(rows, columns=leaves):
            yield with_nested_columns(batch, names_read), bytes_a_row * batch.num_rows


def _dictionary_columns(metadata: pq.FileMetaData, few: list[str], names: list[str]) -> list[str]:
    """Return the columns to read as dictionaries: those in `few`, and vertex columns with repeated values.

    Dictionaries read repetitive columns twice as fast, and others five times slower. A text takes four bytes for its
    length in addition to its own bytes, so fewer than five bytes per value imply repeated values.
    """
    bytes_a_value: dict[str, float] = {}
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if column.physical_type == "BYTE_ARRAY" and column.num_values:
                size = column.total_uncompressed_size / column.num_values
                bytes_a_value[column.path_in_schema] = max(size, bytes_a_value.get(column.path_in_schema, 0))
    return [name for name in names if name in few or bytes_a_value.get(name, 9) < 5]


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    root = Path(path)
    found = sorted(
        file
        for file in root.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(root).parts) and file.is_file()
    )
    if not found:
        raise InputError(f"{path}: the folder contains no .parquet file", file=path)
    return [str(file) for file in found]


_UNITS = ("s", "ms", "us", "ns")


def finest_unit(units: Iterable[str | None]) -> str:
    """Return the smallest of some units of time."""
    return max((unit for unit in units if unit is not None), key=_UNITS.index)


def _prepared_unit(path: str) -> str | None:
    """Return the unit that a prepared folder records for its timestamps, or None.  Raises `InputError` if it is damaged."""
    place = os.path.join(path, STATISTICS)
    if not os.path.isfile(place):
        return None
    try:
        with open(place, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{place}: is not readable as JSON: {error}", file=place) from error
    unit = content.get("time_unit") if isinstance(content, dict) else None
    if unit is not None and unit not in _UNITS:
        raise InputError(f"{place}: time_unit is {unit!r}; expected one of {', '.join(_UNITS)}, or null", file=place)
    return unit


def _schema(path: str) -> pa.Schema:
    try:
        schema = _stored_schema(path)
        names_of_schema(schema)
    except (pa.ArrowException, OSError) as error:
        raise _read_error(path, error) from error
    except UnicodeDecodeError as error:
        message = f"is damaged: {error.object!r}, the name of a column, is not UTF-8"
        raise InputError(f"{path}: {message}", file=path) from error
    return schema


def _stored_schema(path: str) -> pa.Schema:
    if _begins_with(path, ARROW_MAGIC):
        with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
            return file.schema
    from pyarrow import parquet as pq

    return pq.read_schema(path)


def names_in_file(path: str) -> list[str]:
    """Return the names of all values in a Parquet or Arrow file, or in the first file of a folder.  Raises `InputError`."""
    return names_of_schema(_schema(_files(path)[0]))


def _read_error(path: str, error: Exception) -> InputError:
    """Return the error for an unreadable file: empty or truncated if that is the case, otherwise the message of Arrow."""
    magic = ARROW_MAGIC if _begins_with(path, ARROW_MAGIC) else MAGIC
    reason = str(error).partition("\n")[0]
    if os.path.isfile(path):
        with open(path, "rb") as file:
            data = file.read(len(magic))
            file.seek(max(0, os.path.getsize(path) - len(magic)))
            end = file.read()
        if not data:
            reason = "it is empty"
        elif data == magic != end:
            reason = "it is truncated: the footer is missing"
    return InputError(f"{path}: cannot be read as {_kind(path)}: {reason}", file=path)


def _check_schema(path: str, schema: pa.Schema, columns: ColumnNames) -> tuple[str, str | None]:
    """Return the kind of the vertices and the unit of the timestamps, or raise `InputError`."""
    try:
        places = columns.places(schema.names, nested=names_of_schema(schema))
    except FieldError as error:
        place = "" if error.column is None else f"column '{error.column}' "
        raise InputError(f"{path}: {place}{error.message}", file=path, column=error.column) from error
    for name in (columns[name] for name in columns.properties):
        if name not in schema.names and columns.fixed:
            continue  # a property that static edges lack is null
        if schema.names.count(name) != 1:
            reason = f"occurs {schema.names.count(name)} times" if name in schema.names else "is missing"
            nested = names_of_schema(schema)
            hint = f"found {', '.join(map(repr, nested))}{did_you_mean(name, nested)}"
            message = f"{path}: column '{name}' {reason}; {columns.use_of(name)}, and {hint}"
            raise InputError(message, file=path, column=name)
    if columns.has_ids and not is_fit(EDGE, plain_type(schema.field(columns[EDGE]).type)):
        name, type_ = columns[EDGE], schema.field(columns[EDGE]).type
        message = f"{path}: column '{name}' has the type {type_}; expected integers or text, the ids of edges"
        raise InputError(message, file=path, column=name)
    types = {column: schema.field(place).type for column, place in places.items()}
    for column, type_ in types.items():
        name, type_ = columns[column], plain_type(type_)
        allowed = {
            "source": _is_text(type_) or pa.types.is_integer(type_),
            "target": _is_text(type_) or pa.types.is_integer(type_),
            "timestamp": _may_be_time(type_, columns),
            "event": _is_text(type_) or pa.types.is_integer(type_),
            DELETE: _is_text(type_) or pa.types.is_boolean(type_),
        }.get(column, _is_text(type_))
        if not allowed:
            time_format = columns.time_format
            expected = {
                "timestamp": f"text for --time-format {time_format}" if time_format else "integers, timestamps or text",
                "label": "text",
                "stream": "text",
                "event": "text or integers",
                "op": "text: + or -",
                DELETE: "true or false",
            }.get(column, "integers or text")
            message = f"{path}: column '{name}' has the type {types[column]}; expected {expected}{_text_hint(type_)}"
            raise InputError(message, file=path, column=name)
    types = {column: plain_type(type_) for column, type_ in types.items()}
    if columns.text_vertices:
        return "text", _unit_of_times(types["timestamp"], columns) if columns.timed else None
    if _is_text(types["source"]) != _is_text(types["target"]):
        raise InputError(
            f"{path}: column '{columns['target']}' is {types['target']}, '{columns['source']}' is {types['source']}; "
            "vertices must be all integers or all text (--vertices text makes numbers texts)",
            file=path,
            column=columns["target"],
        )
    unit = _unit_of_times(types["timestamp"], columns) if columns.timed else None
    return "text" if _is_text(types["source"]) else "integers", unit


def edge_reader(
    schema: pa.Schema,
    rules: EdgeRules,
    columns: ColumnNames,
    *,
    unit: str,
    times: str | None = None,
    further: Iterable[str] = (),
) -> EdgeReader:
    """Return the reader that makes edges of records with typed columns, nested ones included.

    The options are those of `EdgeReader`.

    Raises `InputError` for conditions that do not fit the columns.
    """
    kinds = {name: ColumnKind(key=FURTHER + name, kind="unknown") for name in rules.all_names(columns.properties)}
    for field in schema:
        kind, of_times = kind_of_type(field.type)
        kinds[field.name] = ColumnKind(key=FURTHER + field.name, kind=kind, unit=of_times)
    return EdgeReader(rules, columns, unit=unit, kinds=kinds, times=times, further=further)


def check_records(path: str, schema: pa.Schema, rules: EdgeRules, columns: ColumnNames) -> str | None:
    """Return the unit of the timestamps of records that become edges.  Raises `InputError` for missing columns."""
    units: dict[str | None, str] = {}
    for rule in rules.all_rules:
        for key, name in rule.names.items():
            place = f"{path}: column '{name}', the {key} of {rule} in {rules.file},"
            if schema.names.count(name) != 1:
                reason = f"occurs {schema.names.count(name)} times" if name in schema.names else "is missing"
                nested = names_of_schema(schema)
                found = f"found {', '.join(nested)}{did_you_mean(name, nested)}"
                raise InputError(f"{place} {reason}; {found}", file=path, column=name)
            type_ = plain_type(schema.field(name).type)
            is_wrong = key == "timestamp" and not _may_be_time(type_, columns)
            if (pa.types.is_nested(type_) and key != "labels_from") or is_wrong or _text_hint(type_):
                raise InputError(f"{place} has the type {type_}{_text_hint(type_)}", file=path, column=name)
            if key == "timestamp":
                units[_unit_of_times(type_, columns)] = f"'{name}' of {rule}"
    for name in columns.properties:
        if name != EDGE and all(rules.of_property(rule, name) not in schema.names for rule in rules.rules):
            raise InputError(f"{path}: column '{name}' is missing; {columns.use_of(name)}", file=path, column=name)
    if len(units) > 1:
        described = " and ".join(f"{name} in {unit or 'plain numbers'}" for unit, name in units.items())
        raise InputError(f"{path}: timestamps must have one unit; found {described}", file=path)
    return next(iter(units), None)


def _text_hint(type_: pa.DataType) -> str:
    """Return advice for a column of bytes, such as UUIDs; an empty text for any other."""
    stored = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    is_binary = pa.types.is_binary(stored) or pa.types.is_large_binary(stored) or pa.types.is_fixed_size_binary(stored)
    return "; convert bytes to text, as with CAST(… AS VARCHAR)" if is_binary else ""


OF_TEXT = "of text"
"""A placeholder for the unit of times in text, which the user specifies."""


def _may_be_time(type_: pa.DataType, columns: ColumnNames) -> bool:
    """Return whether a column of this type may contain timestamps: with a time format, text or (for seconds) numbers."""
    if columns.time_format is None:
        is_time = pa.types.is_timestamp(type_) or pa.types.is_date(type_)
        return bool(pa.types.is_integer(type_) or is_time) or _is_text(type_)
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return _is_text(type_) or (columns.time_format == EPOCH and bool(is_number))


def _kind_of_times(column: pa.Array) -> str | None:
    """Return the kind of the first time in a column of text, or None if there is none."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return next((kind for text in values.drop_null() if (kind := time_kind(text.as_py().strip(" \t"))) is not None), None)


def _unit_of_times(type_: pa.DataType, columns: ColumnNames) -> str | None:
    return OF_TEXT if columns.time_format is not None or _is_text(type_) else _unit(type_)


def _parse_times(column: pa.Array, format: str, unit: str) -> tuple[pa.Array, np.ndarray]:
    """Return times in a format as integers, and the mask of values that are not times."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    texts = pc.utf8_trim(UntypedColumn(column).texts(), " \t")
    wrong = _mask(texts.is_null())
    found = times_of(texts.drop_null(), kind=format, unit=unit)
    if found is None:
        rows = (texts.slice(row, 1) for row in range(len(texts)))
        each = [None if row.null_count else times_of(row, kind=format, unit=unit) for row in rows]
        wrong = np.array([one is None for one in each], np.bool_)
        found = pa.array([one[0].as_py() for one in each if one is not None], pa.int64())
    values = np.zeros(len(texts), np.int64)
    values[~wrong] = found.to_numpy()
    return pa.array(values), wrong


def _unit(type_: pa.DataType) -> str | None:
    if pa.types.is_timestamp(type_):
        return str(type_.unit)
    if pa.types.is_date(type_):
        return "s" if pa.types.is_date32(type_) else "ms"
    return None


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (TEXT, TEXTS)


def _convert(column: pa.Array, name: str) -> tuple[pa.Array, np.ndarray]:
    """Convert a column to its type in batches. Return the column and the mask of bad rows, whose values are arbitrary."""
    if name == "timestamp":
        return _integers(column)
    if name == "op":
        text = column.cast(pa.string())
        wrong = pc.invert(pc.is_in(text, pa.array(["+", "-"])))
        return pc.fill_null(pc.equal(text, "-"), False), _mask(wrong)
    if name == DELETE:
        deletes = column if pa.types.is_boolean(column.type) else booleans_of_text(column.cast(pa.string()))
        return deletes.fill_null(False), _mask(deletes.is_null())
    if name in ("stream", "event"):
        text = column.cast(pa.string())
        names = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        return names.dictionary_encode(), np.zeros(len(column), np.bool_)
    if pa.types.is_integer(column.type):
        return _integers(column)
    if name == "label":
        return _label(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.take(column.indices)
    text = column if column.type == pa.string() else column.cast(pa.string())
    return text, _mask(pc.fill_null(pc.equal(pc.binary_length(text), 0), True))


def _integers(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    wrong = _mask(column.is_null()) if column.null_count else np.zeros(len(column), np.bool_)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.timestamp("s"))
    elif pa.types.is_date64(column.type):
        column = column.cast(pa.timestamp("ms"))
    elif column.type == pa.uint64():
        wrong |= _mask(pc.fill_null(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), False))
        column = column.cast(pa.int64(), safe=False)
    column = column.cast(pa.int64())
    return (column.fill_null(0) if column.null_count else column), wrong


def _label(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    if not pa.types.is_dictionary(column.type) or column.dictionary.null_count:
        column = column.cast(pa.string()).dictionary_encode()
    empty = np.append(_mask(pc.equal(pc.binary_length(column.dictionary), 0)), True)
    wrong = empty[column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)]
    return column, wrong


def _mask(flags: pa.Array) -> np.ndarray:
    return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)


def _edges(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    named = {DELETE if name == "op" else name: column for name, column in columns.items()}
    order = [name for name in (*_TUPLE, DELETE, "stream", "event") if name in named]
    return pa.RecordBatch.from_arrays([named[name] for name in order], order)
