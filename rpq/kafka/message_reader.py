"""Messages to tuples: values in JSON or CSV, and the metadata of messages.

A message is one tuple.  The first good message of a topic determines the layout of its values: an object means JSON,
anything else is fields in the order source, target, label, timestamp and optionally op, separated as in files; `--columns
source=3,target=1` gives the positions of fields instead.  A message that cannot be read is a `BadMessage` with the reason.

`--columns timestamp=@time,source=@key,label=@header.kind` takes columns of a tuple from the metadata of a message: `@key`,
`@key.NAME` for a value in a key that is an object of JSON, `@time`, `@topic`, `@partition`, `@offset` or `@header.NAME`; the
other columns are in the value.  `@time` is the time of the message, or that of the broker if the topic is configured so, in
the unit of the timestamps (milliseconds if none is given).  With a schema registry, values and keys are decoded to JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError, did_you_mean
from rpq.language.predicate import ColumnKind, Predicate, UntypedColumn, tuple_kinds
from rpq.language.where import Where
from rpq.readers.batch import LABEL_TYPE, left_after_condition, node_columns, selection_mask
from rpq.readers.column_names import TUPLE_COLUMNS, ColumnNames, check_delete_columns
from rpq.readers.inputs import order_rows
from rpq.readers.key_paths import names_in, value_at
from rpq.readers.source import LineBlock, count_lines
from rpq.readers.text.changes import ChangeParser, tombstone
from rpq.readers.text.detection import SEPARATORS
from rpq.readers.text.edge_rules import EdgeReader, EdgeRules, Metadata, RecordParser, json_records
from rpq.readers.text.jsonlines import JsonLayout, JsonLines, read_object
from rpq.readers.text.line_layout import (
    FURTHER,
    LineLayout,
    check_delete,
    check_integer,
    check_op,
    check_text,
    is_ignored,
    split_line,
)
from rpq.readers.text.parsing import BlockParser, LineParser, PaddedValues, Rows
from rpq.stream.arrays.fields import DEFAULT_UNIT, DELETE, EDGE, STREAM, FieldError, check_time, time_kind
from rpq.stream.arrays.properties import LOOSE_METADATA

if TYPE_CHECKING:
    from rpq.kafka.schema_registry import SchemaRegistry

METADATA_NAMES = ("@key", "@time", "@topic", "@partition", "@offset", "@key.NAME", "@header.NAME")
KEYS_WITH_AT = ("@timestamp", "@version", "@metadata")
"""Keys of the values that Logstash and the Elastic Common Schema write with an @."""

MILLISECONDS = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""The factor and the divisor that convert milliseconds to each unit."""


@dataclass(frozen=True, kw_only=True)
class MessageValues(ColumnNames):
    """The columns in the values of messages: those of a tuple except the ones taken from the `metadata`."""

    metadata: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in super().columns if column not in self._elsewhere)

    @property
    def accepted_columns(self) -> tuple[str, ...]:
        return tuple(column for column in super().accepted_columns if column not in self._elsewhere)

    @property
    def _elsewhere(self) -> set[str]:
        """The columns that are not in values.  A column op excludes delete, and the reverse."""
        says_op = {"op", DELETE} & {*self.metadata}
        return {*self.metadata, *(("op", DELETE) if says_op else ())}


@dataclass(frozen=True, kw_only=True)
class MessageColumns:
    """The origin of each column of a tuple: a name in the `values` of messages or in their `metadata`."""

    values: MessageValues
    metadata: tuple[tuple[str, str], ...] = ()
    time_unit: str | None = None

    @classmethod
    def from_names(
        cls, names: ColumnNames, time_unit: str | None = None, *, rules: EdgeRules | None = None
    ) -> MessageColumns:
        """Divide names into those of values and those of metadata.  Raises `InputError` for an unknown name with an @.

        Where `rules` name `@time` as a timestamp, the unit is that of `@time` if none is given.

        >>> MessageColumns.from_names(ColumnNames.parse("source=@key,target=item")).metadata
        (('source', '@key'),)
        """
        metadata = tuple((column, name) for column, name in names.renamed if is_metadata(name))
        for column, name in metadata:
            check_metadata_name(name)
            if name == "@time" and column != "timestamp":
                raise InputError(f"{column}=@time: a time is a timestamp; expected timestamp=@time")
        elsewhere = tuple(column for column, _ in metadata)
        values = MessageValues(
            renamed=tuple(pair for pair in names.renamed if pair not in metadata),
            constant_label=names.constant_label,
            timed=names.timed,
            properties=tuple(name for name in names.properties if name not in elsewhere),
            metadata=elsewhere,
            time_format=names.time_format,
            text_vertices=names.text_vertices,
            trim=names.trim,
        )
        if time_unit is None and rules is not None and "@time" in rules.times:
            time_unit = "ms"
        return cls(values=values, metadata=metadata, time_unit=time_unit)

    @property
    def unit(self) -> str | None:
        """The unit of the timestamps, if these columns determine it."""
        return self.time_unit or ("ms" if ("timestamp", "@time") in self.metadata else None)

    def read(self, message: Any, registry: SchemaRegistry | None = None) -> dict[str, Any]:
        """Return the metadata of a message by column.  Raises `FieldError`."""
        return {column: self._checked_value(column, name, message, registry) for column, name in self.metadata}

    def _checked_value(self, column: str, name: str, message: Any, registry: SchemaRegistry | None) -> Any:
        if name == "@time":
            return self._time(message)
        value = metadata_text(name, message, registry)
        if value is None:
            if column in ("op", DELETE):
                return False
            if column in ("source", "target", "label", "timestamp"):
                raise FieldError("is missing; expected a value", name)
            return None
        if column == "timestamp":
            kind = self.values.time_format or time_kind(value.strip(" \t"))
            return check_integer(value, name) if kind is None else check_time(value, name, kind=kind, unit=self.unit or "us")
        if column not in (*TUPLE_COLUMNS, DELETE, STREAM):
            return value or None
        checks = {"op": check_op, DELETE: check_delete}
        return checks.get(column, check_text)(value, name)

    def _time(self, message: Any) -> int:
        time = time_of(message, self.unit or "ms")
        if time is None:
            raise FieldError("is missing: the message has no time", "@time")
        return time


def time_of(message: Any, unit: str) -> int | None:
    """Return the time of a message in a unit, or None if the message has no time."""
    kind, milliseconds = message.timestamp()
    times, over = MILLISECONDS[unit]
    return int(milliseconds * times // over) if kind else None


def is_metadata(name: str) -> bool:
    """Return whether a name refers to metadata, rather than to a key of the values that begins with @.

    >>> [is_metadata(name) for name in ("@time", "@timestamp", "user")]
    [True, False, False]
    """
    return name.startswith("@") and name.partition(".")[0] not in KEYS_WITH_AT


def check_metadata_name(name: str) -> None:
    """Raise `InputError` for a name with an @ that does not refer to metadata of a message."""
    if name in METADATA_NAMES[:-2] or re.fullmatch(r"@(key|header)\..+", name):
        return
    hint = did_you_mean(name, METADATA_NAMES)
    raise InputError(f"{name!r} is not metadata of a message: expected one of {', '.join(METADATA_NAMES)}{hint}")


def metadata_text(name: str, message: Any, registry: SchemaRegistry | None = None) -> str | None:
    """Return metadata of a message as text, or None if it is missing.  Raises `FieldError` for bytes that are not text.

    A `registry` decodes keys.
    """
    if name == "@time":
        return str(message.timestamp()[1])
    if name in ("@topic", "@partition", "@offset"):
        return str(getattr(message, name[1:])())
    is_key = name == "@key" or name.startswith("@key.")
    raw = message.key() if is_key else _header(message.headers() or (), name.removeprefix("@header."))
    try:
        if is_key and registry is not None:
            raw = registry.decode_key(message)
        text = raw if raw is None or isinstance(raw, str) else str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise FieldError("is not UTF-8 text", name) from error
    except FieldError as error:
        raise FieldError(error.message, name) from error
    return _value_in_key(text, name) if name.startswith("@key.") and text is not None else text


def _value_in_key(key: str, name: str) -> str | None:
    try:
        value = value_at(read_object(key.encode()), name.removeprefix("@key."))
    except FieldError as error:
        raise FieldError(f"is missing: the key {error.message}", name) from error
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _header(headers: Sequence[tuple[str, Any]], name: str) -> Any:
    """Return the last header of this name."""
    return next((value for header, value in reversed(headers) if header == name), None)


UNSUPPORTED_FORMATS = {"protobuf": "Protobuf", "parquet": "Parquet"}
"""Formats of messages that are not supported: their names in options, and in messages to users."""


_PLACE = "place"
"""A column for the positions of rows before a condition removes some of them."""

ORDER = ("source", "target", "label", "timestamp", DELETE, STREAM)

REGISTRY = (
    "begins with the byte 0, as messages of a schema registry do; expected JSON or CSV, or for Avro and JSON Schema the "
    "registry (--schema-registry URL of rpq run and rpq serve)"
)


@dataclass(frozen=True)
class BadMessage:
    """A message that cannot be read as a tuple, and the reason."""

    message: Any
    reason: str

    @property
    def place(self) -> str:
        """The topic, partition and offset as text."""
        return place_of(self.message)


@dataclass(frozen=True)
class MessageEdges:
    """The tuples of some messages: `columns`, the number of the message of each row, and bad messages by their numbers.

    `filtered` counts tuples that a condition removed, `undecided` those among them for which the condition was null.
    """

    columns: pa.RecordBatch | None
    numbers: np.ndarray
    bad: dict[int, BadMessage] = field(default_factory=dict)
    filtered: int = 0
    undecided: int = 0


def place_of(message: Any) -> str:
    """Return topic, partition and offset of a message as text."""
    return f"{message.topic()}/{message.partition()} at offset {message.offset()}"


class MessageReader:
    """A reader of the messages of one topic.  `warnings` are about columns of the first message that may be misread.

    A `registry` decodes values and keys to JSON, which is then read like any other.
    Raises `InputError` or `WhereError` if no message can have the columns.
    """

    def __init__(
        self,
        columns: MessageColumns,
        *,
        stream: str | None = None,
        where: Where | None = None,
        only_json: bool = False,
        layout: dict[str, Any] | None = None,
        rules: EdgeRules | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._rules = rules
        self._registry = registry
        self._columns = columns
        self._stream = stream
        self._where = where
        self._only_json = only_json or registry is not None
        self._parser: BlockParser | None = None
        self._predicate: Predicate | None = None
        self.warnings: list[str] = []
        self._padded = PaddedValues()
        self._metadata = tuple(sorted(name for name in where.names if is_metadata(name))) if where is not None else ()
        for name in self._metadata:
            check_metadata_name(name)
        self._of_rules = () if rules is None else _metadata_of(rules, columns.values.properties)
        if layout is not None and rules is not None:
            self._use_rules(rules, layout["times"])
        elif layout is not None:
            self._use_layout(_layout_of(layout, columns, self._additional_keys))

    @property
    def layout(self) -> dict[str, Any] | None:
        """The layout of values as a JSON object, for a later reader of the same topic; None before the first message."""
        if isinstance(self._parser, RecordParser):
            return {"json": True, "integers": False, "times": self._parser.reader.times}
        if isinstance(self._parser, JsonLines):
            found = self._parser.layout
            return {"json": True, "integers": found.integers, "times": found.times}
        return None if self._parser is None else {"json": False, **asdict(self._parser.layout)}  # type: ignore[attr-defined]

    @property
    def integers(self) -> bool:
        """True if vertices are known to be integers."""
        return isinstance(self._parser, JsonLines) and self._parser.layout.integers

    def read(self, messages: Sequence[Any]) -> MessageEdges:
        """Read messages.  O(bytes), vectorised for values without special cases."""
        values = list(map(type(messages[0]).value, messages))
        bad: dict[int, BadMessage] = {}
        if self._registry is not None:
            values, errors = self._registry.decode_values(messages, values)
            bad = {number: BadMessage(messages[number], error.message) for number, error in errors.items()}
        metadata = self._read_metadata(messages, bad)
        if self._parser is None and not self._choose_layout(messages, values, bad):
            return MessageEdges(None, np.empty(0, np.int64), bad)
        data = b"" if bad else _as_lines(values)
        if count_lines(data) == len(values):
            numbers = np.arange(len(values))
            pieces = self._parse(data, self._metadata_of_lines(messages, numbers, metadata))
            if sum(piece.data_lines for piece in pieces) == len(values):
                return self._tuples(messages, numbers, pieces, metadata, bad)
        message_of_line, lines = [], []
        for number, value in enumerate(values):
            if number in bad:
                continue
            try:
                lines.append(self._line(self._value(messages[number], value)))
            except FieldError as error:
                bad[number] = BadMessage(messages[number], _reason(error, value))
            else:
                message_of_line.append(number)
        numbers = np.array(message_of_line, np.int64)
        of_lines = self._metadata_of_lines(messages, numbers, metadata)
        pieces = self._parse(b"\n".join(lines) + b"\n", of_lines) if lines else []
        return self._tuples(messages, numbers, pieces, metadata, bad)

    def _parse(self, data: bytes, metadata: Metadata) -> list[Rows]:
        assert self._parser is not None
        if isinstance(self._parser, RecordParser):
            return list(self._parser.parse(LineBlock(data, 1), stop=False, metadata=metadata))
        pieces = list(self._parser.parse(LineBlock(data, 1), stop=False))
        if isinstance(self._parser, LineParser) and not self._columns.values.trim and not self._padded.warning:
            for piece in pieces:
                self._padded.count(piece.columns)
            self.warnings += [self._padded.warning] if self._padded.warning else []
        return pieces

    def _metadata_of_lines(self, messages: Sequence[Any], numbers: np.ndarray, metadata: dict[str, list[Any]]) -> Metadata:
        """Return the metadata of the messages with these numbers, as far as the rules read it."""
        values = {
            name: pa.array([metadata[FURTHER + name][number] for number in numbers], pa.string()) for name in self._of_rules
        }
        timestamps = {}
        if "@time" in values:
            unit = self._columns.unit or DEFAULT_UNIT
            times = [time_of(messages[number], unit) for number in numbers]
            timestamps = {"@time": pa.array(times, pa.int64()).cast(pa.timestamp(unit))}
        return Metadata(values=values, timestamps=timestamps)

    def _value(self, message: Any, value: bytes | None) -> bytes | None:
        """Return the value of a message or, for a tombstone of a table, its change.  Raises `FieldError`."""
        if value is not None or self._rules is None or self._rules.changes is None:
            return value
        kind, milliseconds = message.timestamp()
        return tombstone(message.key(), milliseconds if kind else None, form=self._rules.changes)

    def _line(self, value: bytes | None) -> bytes:
        """Return the value as one line.  Raises `FieldError` for a value that cannot be a tuple."""
        if value is None:
            raise FieldError("there is no value (a tombstone); expected a tuple")
        line = value.rstrip(b"\r\n")
        if is_ignored(line):
            raise FieldError("is blank, or a comment; expected a tuple")
        if b"\n" not in line:
            return line
        parser = self._parser.inner if isinstance(self._parser, RecordParser) else self._parser
        if not isinstance(parser, JsonLines):
            raise FieldError("spans several lines; expected the fields of one tuple")
        parser.layout.read(line)
        return line.replace(b"\n", b" ")  # in valid JSON, line breaks occur only between tokens

    # --- the layout of values --------------------------------------------------------------------------------

    @property
    def _additional_keys(self) -> tuple[str, ...]:
        """The keys of objects that a condition or a property uses in addition to the columns of a tuple."""
        keys = {self._columns.values[name] for name in self._columns.values.properties}
        if self._where is not None:
            keys |= {name for name in self._where.names - {*self._kinds("text")} if not is_metadata(name)}
        return tuple(sorted(keys))

    @property
    def _condition_names(self) -> frozenset[str]:
        return frozenset() if self._where is None else self._where.names

    def _choose_layout(self, messages: Sequence[Any], values: Sequence[bytes | None], bad: dict[int, BadMessage]) -> bool:
        """Determine the layout from the first good message; those before it are bad.  Return whether there is a good one."""
        for number, value in enumerate(values):
            if number in bad:
                continue
            try:
                value = self._value(messages[number], value)
                if value is None or is_ignored(value.rstrip(b"\r\n")):
                    self._line(value)
                first = bytes(value or b"").rstrip(b"\r\n")
                if self._rules is None:
                    self._use_layout(self._detect_layout(first))
                else:
                    found = read_object(first)
                    if self._rules.changes is None:
                        read = self._rules.all_names(self._columns.values.properties)
                        check_delete_columns(found, {*read, *self._condition_names}, self._rules.file)
                    self._use_rules(self._rules, None)
                    if isinstance(self._parser, ChangeParser):
                        try:
                            self._parser.check_first(first)
                        except FieldError:
                            self._parser = None
                            raise
            except FieldError as error:
                bad[number] = BadMessage(messages[number], _reason(error, value))
            else:
                return True
        return False

    def _use_layout(self, layout: JsonLayout | LineLayout) -> None:
        self._parser = JsonLines(layout) if isinstance(layout, JsonLayout) else LineParser(layout)
        if self._where is not None:
            is_json = isinstance(layout, JsonLayout)
            kinds = self._kinds("number" if is_json and layout.integers else "text", times=layout.times)
            in_values = {field.removeprefix(FURTHER) for field in getattr(layout, "fields", ()) if field.startswith(FURTHER)}
            further = (*self._metadata, *(layout.further if isinstance(layout, JsonLayout) else in_values))
            columns = {name for _, name in self._columns.metadata}
            untyped = {name: ColumnKind(key=FURTHER + name, kind="untyped", of_tuple=name in columns) for name in further}
            self._predicate = Predicate(self._where, {**kinds, **untyped})

    def _use_rules(self, rules: EdgeRules, times: str | None) -> None:
        kinds = self._kinds("text")
        of_condition = frozenset() if self._where is None else self._where.names - {*kinds, *self._metadata}
        further = tuple(sorted(of_condition))
        names, unit = self._columns.values, self._columns.unit or DEFAULT_UNIT
        reader = EdgeReader(rules, names, unit=unit, times=times, further=further, metadata=self._of_rules)
        if rules.changes is not None:
            self._parser = ChangeParser(reader, has_ids=names.has_ids, unit=self._columns.time_unit)
        else:
            self._parser = RecordParser(json_records(reader), reader)
        if self._where is not None:
            untyped = {name: ColumnKind(key=FURTHER + name, kind="untyped") for name in (*self._metadata, *further)}
            self._predicate = Predicate(self._where, {**kinds, **untyped})

    def _detect_layout(self, value: bytes) -> JsonLayout | LineLayout:
        names, unit = self._columns.values, self._columns.unit or "us"
        if not self._only_json and not value.lstrip(b" \t\r\n").startswith(b"{"):
            return _csv_layout(value, self._columns)
        found = read_object(value)
        self.warnings = names.deletes_not_read(names_in(found), self._condition_names)
        ends = [value_at(found, names[end]) for end in ("source", "target") if end in names.columns]
        layout = JsonLayout(
            names=names,
            further=self._additional_keys,
            integers=len(ends) == 2 and type(ends[0]) is int and not names.text_vertices,
            time_unit=unit,
        )
        time = value_at(found, names["timestamp"])
        if "timestamp" in names.columns and isinstance(time, str):
            layout = replace(layout, times=time_kind(time.strip(" \t")) or "integers")
        layout.check_required(found)
        replace(layout, is_first=True).read(value)
        return layout

    def _kinds(self, vertex: str, *, times: str = "integers") -> dict[str, ColumnKind]:
        """Return the kinds of columns for a condition, by the names of a tuple's columns and by the names in messages."""
        unit = self._columns.unit if times == "integers" else self._columns.unit or "us"
        kinds = tuple_kinds(vertex=vertex, unit=unit)
        renamed = {name: kinds[column] for column, name in self._columns.values.renamed if column in kinds}
        return {**kinds, **renamed}

    # --- from rows to columns --------------------------------------------------------------------------------

    def _read_metadata(self, messages: Sequence[Any], bad: dict[int, BadMessage]) -> dict[str, list[Any]]:
        """Return the metadata of messages by column, with nulls for bad messages."""
        columns: dict[str, list[Any]] = {column: [] for column, _ in self._columns.metadata}
        names = tuple({*self._metadata, *self._of_rules})
        columns |= {FURTHER + name: [] for name in names}
        if not columns:
            return columns
        for number, message in enumerate(messages):
            try:
                values = self._columns.read(message, self._registry)
                values |= {FURTHER + name: metadata_text(name, message, self._registry) for name in names}
            except FieldError as error:
                bad[number] = BadMessage(message, _reason(error, b""))
                values = dict.fromkeys(columns)
            for column, value in values.items():
                columns[column].append(value)
        return columns

    def _tuples(
        self,
        messages: Sequence[Any],
        message_of_line: np.ndarray,
        pieces: Sequence[Rows],
        metadata: dict[str, list[Any]],
        bad: dict[int, BadMessage],
    ) -> MessageEdges:
        wrong = {error.line - 1: error.error for piece in pieces for error in piece.errors}
        for line, error in wrong.items():
            number = int(message_of_line[line])
            bad[number] = BadMessage(messages[number], _reason(error, b"" if self._registry else messages[number].value()))
        batches, of_rows = [], []
        start = filtered = undecided = 0
        for piece in pieces:
            count = _count(piece)
            ordinals = np.arange(count) if piece.ordinals is None else piece.ordinals
            part, start = message_of_line[start + ordinals], start + piece.data_lines
            if not count:
                continue
            batch, part, left_out, doubtful = self._filtered_batch(piece, part, metadata)
            filtered += left_out
            undecided += doubtful
            if len(part):
                batches.append(batch)
                of_rows.append(part)
        if not batches:
            return MessageEdges(None, np.empty(0, np.int64), bad, filtered, undecided)
        numbers = np.concatenate(of_rows)
        columns = batches[0] if len(batches) == 1 else order_rows(batches, np.arange(len(numbers)))
        return MessageEdges(columns, numbers, bad, filtered, undecided)

    def _filtered_batch(
        self, piece: Rows, numbers: np.ndarray, metadata: dict[str, list[Any]]
    ) -> tuple[pa.RecordBatch, np.ndarray, int, int]:
        """Return the rows of a piece that satisfy the condition, their numbers, and the counts of filtered and undecided."""
        columns = dict(piece.columns)
        count = len(numbers)
        for column, values in metadata.items():
            taken = [values[number] for number in numbers] if count < len(values) or self._rules is not None else values
            if column in ("op", DELETE):
                columns[DELETE] = pa.array(taken, pa.bool_())
            elif column == "timestamp":
                columns[column] = pa.array(taken, pa.int64())
            elif column not in (*TUPLE_COLUMNS, STREAM):
                columns[column if column.startswith(FURTHER) else FURTHER + column] = pa.array(taken, pa.string())
            else:
                texts = pa.array(taken, pa.string())
                columns[column] = texts.dictionary_encode() if column in ("label", STREAM) else texts
        constants = {"label": self._columns.values.constant_label, STREAM: self._stream}
        for column, constant in constants.items():
            if constant is not None:
                indices = pa.array(np.zeros(count, np.int32))
                columns[column] = pa.DictionaryArray.from_arrays(indices, pa.array([constant], LABEL_TYPE.value_type))
        names = [name for name in ORDER if name in columns]
        if STREAM in names and columns[STREAM].null_count == count:
            names.remove(STREAM)
        fields = [pa.field(name, columns[name].type) for name in names]
        arrays = [columns[name] for name in names]
        for name, column in self._columns_of_properties.items():
            arrays.append(UntypedColumn(columns[column]).texts())
            fields.append(pa.field(name, pa.string(), metadata=LOOSE_METADATA))
        for node_field, column in node_columns(columns, loose=True):
            arrays.append(column)
            fields.append(node_field)
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        if self._predicate is None:
            return batch, numbers, 0, 0
        is_selected, undecided = selection_mask(self._predicate, columns, batch)
        if is_selected.all():
            return batch, numbers, 0, undecided
        rest = left_after_condition(batch.append_column(_PLACE, pa.array(np.arange(count))), is_selected)
        places = rest.column(_PLACE).to_numpy()
        return rest.drop_columns([_PLACE]), numbers[places], int(np.count_nonzero(~is_selected)), undecided

    @property
    def _columns_of_properties(self) -> dict[str, str]:
        """The columns of rows with properties and ids of edges: objects name them by key, fields by property."""
        values = self._columns.values
        is_json = isinstance(self._parser, JsonLines)  # rules name columns by property
        found = {name: FURTHER + (values[name] if is_json else name) for name in values.properties}
        metadata = (name for name, _ in self._columns.metadata if name not in (*TUPLE_COLUMNS, DELETE, STREAM))
        return {**found, **{name: FURTHER + name for name in metadata}}


def metadata_names(columns: MessageColumns, rules: EdgeRules | None) -> tuple[str, ...]:
    """Return the names of the metadata of messages that columns or rules read.  Raises `InputError` for unknown names.

    >>> metadata_names(MessageColumns.from_names(ColumnNames.parse("source=@key,target=item")), None)
    ('@key',)
    """
    of_rules = () if rules is None else _metadata_of(rules, columns.values.properties)
    return (*(name for _, name in columns.metadata), *of_rules)


def _metadata_of(rules: EdgeRules, properties: Sequence[str]) -> tuple[str, ...]:
    """Return the metadata that rules read, for edges with these properties.  Raises `InputError` for unknown names."""
    found = set()
    for rule in rules.all_rules:
        of_condition = [(key, name) for key, one in rule.conditions.items() for name in sorted(one.names)]
        for key, name in (*rule.names.items(), *rule.properties.items(), *of_condition):
            if not is_metadata(name):
                continue
            try:
                check_metadata_name(name)
            except InputError as error:
                raise InputError(f"{rules.file}: {rule}, key {key!r}: {error}") from None
            if name == "@time" and key not in ("timestamp", *rule.conditions):
                message = 'a time is a timestamp; expected timestamp = "@time"'
                raise InputError(f"{rules.file}: {rule}, key {key!r}: {message}")
            found.add(name)
    return tuple(name for name in rules.all_names(properties) if name in found)


def _as_lines(values: Sequence[bytes | None]) -> bytes:
    """Return the values as lines, or no bytes if one of them is null."""
    try:
        return b"\n".join(values) + b"\n"  # type: ignore[arg-type]
    except TypeError:
        return b""


def _count(piece: Rows) -> int:
    return len(next(iter(piece.columns.values()), ()))


def _reason(error: FieldError, value: bytes | None) -> str:
    if value and value[:1] == b"\0":
        return REGISTRY
    return f"column '{error.column}': {error.message}" if error.column else error.message


def _csv_layout(value: bytes, columns: MessageColumns) -> LineLayout:
    """Return the layout of fields, from the first value.  Raises `FieldError` if it cannot be determined."""
    names = columns.values
    places = places_of(columns)
    expected = ", ".join(names.columns)
    for texts, separator in _cuts(value):
        fields, optional = names.columns, int(names.columns[-1:] == ("op",))
        if places:
            places = {place: FURTHER + column if column in names.properties else column for place, column in places.items()}
            fields, optional = tuple(places.get(place, "") for place in range(1, len(texts) + 1)), 0
            if max(places) > len(texts):
                continue
        if not len(fields) - optional <= len(texts) <= len(fields):
            continue
        edge = FURTHER + EDGE if names.has_ids else ""
        unit = columns.unit or "us"
        layout = LineLayout(separator=separator, fields=fields, optional=optional, quotes=True, edge=edge, time_unit=unit)
        if "timestamp" in fields:
            kind = names.time_format or time_kind(texts[fields.index("timestamp")].strip(" \t"))
            layout = replace(layout, times=kind or "integers")
        layout = replace(layout, trim=names.trim)
        layout.read(value)
        return layout
    lacks_one = any(len(texts) == len(names.columns) - 2 for texts, _ in _cuts(value))  # without op and another one
    hint = "; where values have no label, give --label LABEL" if lacks_one and "label" in names.columns else ""
    raise FieldError(
        f"does not name its columns: expected an object of JSON, or the fields {expected} (op may be missing), separated by "
        f"tabs, commas or blanks{hint}"
    )


def _cuts(value: bytes) -> list[tuple[list[str], str]]:
    """Split a value by each separator; the separators that occur in it come first."""
    found = []
    for separator in SEPARATORS:
        try:
            found.append((split_line(value, separator, quotes=True), separator))
        except FieldError:
            continue
    return sorted(found, key=lambda cut: len(cut[0]) == 1)


def places_of(columns: MessageColumns) -> dict[int, str]:
    """Return the columns by the positions of their fields.  Raises `FieldError` for names that are not positions."""
    renamed, properties = dict(columns.values.renamed), columns.values.properties
    if not renamed and not properties:
        return {}
    place_of_column = {column: int(name) for column, name in renamed.items() if name.isdecimal() and int(name)}
    if len(place_of_column) < len(renamed):
        name = next(name for column, name in renamed.items() if column not in place_of_column)
        raise FieldError("is not a JSON object, whose keys have names; fields are named by their places, from 1", name)
    needed = [column for column in (*columns.values.columns, *properties) if column != "op"]
    missing = [column for column in needed if column not in place_of_column]
    if missing:
        raise FieldError("has no place among the fields; give one to each column, as in source=2", missing[0])
    if len(set(place_of_column.values())) < len(place_of_column):
        raise InputError(f"two columns have the same place among the fields: {place_of_column}")
    return {place: column for column, place in place_of_column.items()}


def _layout_of(described: dict[str, Any], columns: MessageColumns, further: tuple[str, ...]) -> JsonLayout | LineLayout:
    """Return the layout that `MessageReader.layout` described."""
    if described["json"]:
        return JsonLayout(
            names=columns.values,
            further=further,
            integers=bool(described["integers"]),
            times=described["times"],
            time_unit=columns.unit or "us",
        )
    values = {name: value for name, value in described.items() if name != "json"}
    return LineLayout(**{**values, "fields": tuple(values["fields"])})
