"""JSON lines: one object per line, with the columns of a tuple as keys.

Vertices are all text or all integers, timestamps all integers or all times as text (`rpq.stream.arrays.fields`); the first
object of a file decides.  Labels are text.  These keys may be missing or null: `op`, which defaults to `+`; `delete`, true
or false or the same as text; `stream`; and `event`, text or an integer, which is read if the reader has events.  Other
keys are read only if a condition uses them; then a key may be missing, and its values may have any type.

As for lines of fields there are several implementations: `JsonLayout.read` is the definition, line by line, with the
place of every error; whole blocks are read by a kernel if all their objects are plain, otherwise by Arrow, and both refuse
a block that they might read differently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rpq.errors import did_you_mean
from rpq.language.predicate import UntypedColumn, WrittenFloat, float_of, texts_of
from rpq.language.where import EXACT
from rpq.readers.column_names import EVENT, OP_AND_DELETE, ColumnNames
from rpq.readers.key_paths import MISSING, column_of, names_in, nested_schema, objects_on_path, path_of, value_at
from rpq.readers.source import LineBlock
from rpq.readers.text.line_layout import FURTHER, LARGEST, NO_ID, SMALLEST, check_text, no_operation
from rpq.readers.text.parsing import EXACT_BYTES, Rows, data_lines, halves, read_exactly
from rpq.stream.arrays.fields import (
    DELETE,
    EDGE,
    EPOCH,
    STREAM,
    FieldError,
    check_time,
    format_hint,
    quote_value,
    time_kind,
    times_of,
)
from rpq.stream.arrays.values import boolean_of_text, booleans_of_text
from rpq.stream.nodes.node_rows import NODE

if TYPE_CHECKING:
    from rpq.stream.arrays.flat_objects import ObjectKey

_VALUE_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_VERTICES = ("source", "target")
_OPTIONAL = ("op", DELETE, STREAM, EVENT)
_TYPES_OF_LOOSE = {
    DELETE: (pa.string(), pa.bool_()),
    **dict.fromkeys(_VERTICES, (pa.string(), pa.int64())),
    "timestamp": (pa.string(), pa.int64(), pa.float64()),
}
"""The types that values of a column may have, where more than one may be read."""

_NAMES = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, kw_only=True)
class JsonLayout:
    """The layout of the objects of a file: `names` maps the keys of a tuple; a condition uses the keys `further`."""

    names: ColumnNames
    further: tuple[str, ...] = ()
    integers: bool = False
    times: str = "integers"
    time_unit: str = "us"
    is_first: bool = False
    """True if the layout reads the first object, so that messages cannot refer to earlier ones."""
    optional: frozenset[str] = frozenset()
    """Keys among the further ones for which a column `NODE + key` says which objects have the key."""

    def __post_init__(self) -> None:
        if self.names.time_format is not None:  # the user has specified the format, so nothing is detected
            object.__setattr__(self, "times", self.names.time_format)

    @cached_property
    def all_keys(self) -> tuple[str, ...]:
        """All keys that are read, each once."""
        return tuple(dict.fromkeys((*(name for _, name in self.columns), *self.further)))

    @cached_property
    def has_escapes(self) -> bool:
        r"""True if a name such as `a\.b` may be a key that is written differently."""
        return any((path := path_of(name)) is not None and len(path) == 1 for name in self.all_keys)

    @cached_property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns that are read, with their keys."""
        return tuple((column, self.names[column]) for column in self.names.accepted_columns)

    @cached_property
    def keys(self) -> tuple[ObjectKey, ...]:
        """The keys of a tuple with the kinds of their values, by column."""
        from rpq.stream.arrays.flat_objects import ObjectKey  # imports Numba, which other formats do not need

        kinds: dict[str, Literal["integer", "boolean"]] = {DELETE: "boolean"}
        for column in (*(_VERTICES if self.integers else ()), *(("timestamp",) if self.times == "integers" else ())):
            kinds[column] = "integer"
        return tuple(ObjectKey(name, kinds.get(column, "text"), column not in _OPTIONAL) for column, name in self.columns)

    def read(self, line: bytes) -> dict[str, Any]:
        """Return the values of one line by column (`op` as `delete`, other keys unchanged); raise `FieldError`.

        >>> JsonLayout(names=ColumnNames()).read(b'{"source": "a", "target": "b", "label": "x", "timestamp": 3}')
        {'source': 'a', 'target': 'b', 'label': 'x', 'timestamp': 3, 'delete': False, 'stream': None}
        """
        record = read_object(line)
        check_duplicates(record, self.all_keys)
        values: dict[str, Any] = {}
        is_by_id = self.names.has_ids and self._is_delete_by_id(record)
        for column, name in self.columns:
            if column == STREAM:
                values[column] = _name_or_none(value_at(record, name), name, "the name of a stream, or null")
                continue
            if column == EVENT:
                value = value_at(record, name)
                value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
                values[column] = _name_or_none(value, name, "the identifier of an event, or null")
                continue
            if column == "op":
                values[DELETE] = _is_minus(value_at(record, name), name)
                continue
            if column == DELETE:
                self._read_delete(record, name, values)
                continue
            value = value_at(record, name)
            if value is None and is_by_id and column != "timestamp":
                values[column] = None
                continue
            if value is None:
                is_there = value_at(record, name, MISSING) is not MISSING
                if not is_there and len(self._missing_columns(record)) > 1:
                    self.check_required(record)
                reason = "is null; expected a value" if is_there else self._describe_missing(column, name, record)
                raise FieldError(reason, name)
            if column == "timestamp":
                values[column] = self._timestamp(value, name)
            elif self.names.text_vertices and column in _VERTICES and isinstance(value, int) and not isinstance(value, bool):
                values[column] = str(value)
            elif self.integers and column in _VERTICES:
                hint = "; --vertices text reads both" if isinstance(value, str) else ""
                values[column] = _integer(value, name, f"an integer, as {self._vertices_before(column)}{hint}")
            elif isinstance(value, str):
                values[column] = check_text(value, name)
            else:
                hint = "; --vertices text reads both" if column in _VERTICES and type(value) is int else ""
                raise FieldError(
                    f"{_quote_json(value)} is not text; expected {self._describe_expected(column)}{hint}", name
                )
        for key in self.further:
            value = value_at(record, key)
            values[FURTHER + key] = check_text(value, key) if isinstance(value, str) and value else value
        for key in self.optional:
            values[NODE + key] = value_at(record, key, MISSING) is not MISSING
        values.setdefault(DELETE, False)
        return values

    def _is_delete_by_id(self, record: Mapping[str, Any]) -> bool:
        """Return whether a tuple is a delete with an id; raise `FieldError` for an insert without one, and for bad ids."""
        name = self.names[EDGE]
        edge, values = value_at(record, name), {}
        if edge is not None and (not isinstance(edge, (str, int)) or isinstance(edge, bool)):
            raise FieldError(f"{_quote_json(edge)} is not the id of an edge; expected text or an integer", name)
        accepted_columns = self.names.accepted_columns
        if "op" in accepted_columns:
            values[DELETE] = _is_minus(value_at(record, self.names["op"]), self.names["op"])
        if DELETE in accepted_columns:
            self._read_delete(record, self.names[DELETE], values)
        is_delete = bool(values.get(DELETE))
        if edge in (None, "") and not is_delete:
            raise FieldError(NO_ID, name)
        return is_delete and edge not in (None, "")

    def _read_delete(self, record: Mapping[str, Any], name: str, values: dict[str, Any]) -> None:
        value = value_at(record, name)
        if value is None:
            return
        if DELETE in values and value_at(record, self.names["op"]) is not None:
            raise FieldError(OP_AND_DELETE, name)
        delete = boolean_of_text(value) if isinstance(value, str) else value
        if not isinstance(delete, bool):
            raise FieldError(f"{_quote_json(value)} is not true or false", name)
        values[DELETE] = delete

    def _describe_expected(self, column: str) -> str:
        """Describe the expected value for a message: a label, or a vertex of a file whose vertices are text."""
        if column not in _VERTICES:
            return "a name in quotes"
        if self.names.text_vertices:
            return "a name in quotes or an integer"
        if self.is_first and column == "source":
            return "a name in quotes or an integer"
        return f"a name in quotes, as {self._vertices_before(column)}"

    def _vertices_before(self, column: str) -> str:
        is_target = self.is_first and column == "target"
        return f"the {self.names['source']} of the same object" if is_target else "the vertices of earlier objects"

    def _timestamp(self, value: Any, name: str) -> int:
        if self.times == EPOCH and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = texts_of([value])[0].as_py() or "null"
        elif self.times == "integers" and isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
            return int(value)  # JSON has one kind of numbers: 1e2 and 100.0 are 100
        elif self.times == "integers" and isinstance(value, (float, str)) and (hint := format_hint(str(value))):
            raise FieldError(f"{_quote_json(value)} is not an integer{hint}", name)
        elif self.times == "integers":
            times = " or a time in quotes such as 2024-05-01T12:00:00Z" if self.is_first else ""
            return _integer(value, name, f"a whole number such as 1254192988{times}")
        if not isinstance(value, str):
            expected = "text, as in earlier objects" if self.names.time_format is None else f"text, as in {self.times}"
            raise FieldError(f"{_quote_json(value)} is not a time; expected {expected}", name)
        return check_time(value, name, kind=self.times, unit=self.time_unit)

    def _describe_missing(self, column: str, name: str, record: Mapping[str, Any]) -> str:
        names = names_in(record)
        message = f"is missing; found {', '.join(map(quote_value, names)) or 'none'}"
        if self.is_first or name == column:
            return message + did_you_mean(name, names)
        others = [one for one in names if one not in {key for _, key in self.columns}]
        return (
            f"{message}{did_you_mean(name, others)}; where records are of several kinds, --edges-from FILE makes edges of "
            "each, and --on-error skip leaves out those without it"
        )

    def check_required(self, record: Mapping[str, Any]) -> None:
        """Raise `MissingColumns` if an object lacks required keys; a delete with an id needs no names."""
        if self.names.has_ids and value_at(record, self.names[EDGE]) is not None and self._is_delete_by_id(record):
            return
        missing = self._missing_columns(record)
        self.names.check_present(names_in(record), present=[column for column, _ in self.columns if column not in missing])

    def _missing_columns(self, record: Mapping[str, Any]) -> list[str]:
        """Return the columns that an object lacks and must have."""
        needed = (one for one in self.columns if one[0] not in _OPTIONAL)
        return [column for column, name in needed if value_at(record, name, MISSING) is MISSING]

    def with_detected_kinds(self, line: bytes) -> JsonLayout:
        """Return the layout with the kinds of the vertices and timestamps in the first object; raise `FieldError`."""
        record = read_object(line)
        self.check_required(record)
        source, time = (value_at(record, self.names[column]) for column in ("source", "timestamp"))
        integers = isinstance(source, int) and not isinstance(source, bool) and not self.names.text_vertices
        kind = time_kind(time.strip(" \t")) if isinstance(time, str) else None
        layout = JsonLayout(
            names=self.names,
            further=self.further,
            integers=integers,
            times=kind or "integers",
            time_unit=self.time_unit,
        )
        replace(layout, is_first=True).read(line)
        return layout


class _Object(dict[str, Any]):
    """An object with duplicate keys."""

    duplicates: frozenset[str]


def check_duplicates(record: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise `FieldError` if a key on the path to the value of one of these names occurs twice in its object."""
    if not _has_duplicates(record):
        return
    for name in sorted(names):
        if any(isinstance(one, _Object) and key in one.duplicates for one, key in objects_on_path(record, name)):
            raise FieldError("occurs twice in the object", name)


def _has_duplicates(value: Any) -> bool:
    """Return whether an object, or an object inside it, has duplicate keys."""
    if isinstance(value, dict):
        return isinstance(value, _Object) or any(map(_has_duplicates, value.values()))
    return isinstance(value, list) and any(map(_has_duplicates, value))


def read_object(line: bytes) -> dict[str, Any]:
    """Parse the object in a line; raise `FieldError` if there is none.  The attribute `duplicates` has duplicate keys."""
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape"), object_pairs_hook=_object, parse_float=float_of)
    except json.JSONDecodeError as error:
        raise FieldError(f"is not JSON: {error.msg} at character {error.pos + 1}; expected one object per line") from error
    except RecursionError as error:
        raise FieldError("cannot be read as JSON: its values are nested too deeply") from error
    except ValueError as error:
        reason = "a number has thousands of digits; write it in quotes if it is a name"
        raise FieldError(f"cannot be read as JSON: {reason}") from error
    if not isinstance(record, dict):
        raise FieldError(f'{_quote_json(record)} is not an object; expected one per line, such as {{"source": …}}')
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    result = _Object(members)
    result.duplicates = frozenset(name for name in names if names.count(name) > 1)
    return result


def _integer(value: Any, name: str, expected: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldError(f"{_quote_json(value)} is not an integer; expected {expected}", name)
    if not SMALLEST <= value <= LARGEST:
        raise FieldError(f"{value} does not fit 64 bits; expected −2⁶³ to 2⁶³ − 1", name)
    return value


def _name_or_none(value: Any, name: str, expected: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise FieldError(f"{_quote_json(value)} is not text; expected {expected}", name)
    return check_text(value, name) if value else None


def _is_minus(value: Any, name: str) -> bool:
    if value not in (None, "+", "-"):
        raise FieldError(no_operation(_quote_json(value), value), name)
    return bool(value == "-")


def _quote_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass
class JsonLines:
    """A parser for blocks of JSON lines: a fast path for plain blocks, otherwise exact, in halves, like `LineParser`."""

    layout: JsonLayout
    _types: dict[str, pa.DataType] = field(default_factory=dict)

    def parse(self, block: LineBlock, *, stop: bool) -> Iterator[Rows]:
        rows = self._parse_plain(block.data)
        middle = block.data.find(b"\n", len(block.data) // 2) + 1
        if rows is not None:
            yield rows
        elif len(block.data) <= EXACT_BYTES or middle in (0, len(block.data)):
            yield parse_exact(block, self.layout, stop=stop)
        else:
            for half in halves(block, middle):
                for rows in self.parse(half, stop=stop):
                    yield rows
                    if stop and rows.errors:
                        return

    def _parse_plain(self, data: bytes) -> Rows | None:
        layout = self.layout
        keys = dict(layout.columns)
        if b"\r" in data:  # white space between the tokens of JSON, and not allowed inside text
            data = data.replace(b"\r\n", b"\n")
        read: dict[str, Any] = {}
        flat_columns = None
        if not layout.further and not layout.has_escapes:
            from rpq.stream.arrays.flat_objects import read_flat_objects

            flat_columns = read_flat_objects(data, layout.keys)
        if flat_columns is not None:
            arrays, count = dict(zip(keys, flat_columns, strict=True)), len(flat_columns[0])
        else:
            count = _objects(data)
            table = self._arrow_table(data) if count else None
            if table is None or table.num_rows != count:
                return None
            by_name = {name: table.column(name).combine_chunks() for name in table.column_names}
            read = {name: column_of(by_name, name, data) for name in layout.all_keys}
            if any(array is None for array in read.values()):
                return None
            arrays = {column: read[name] for column, name in keys.items()}
        deletes = [arrays[column] for column in ("op", DELETE) if column in arrays and _has_values(arrays[column])]
        if len(deletes) == 2 and pc.any(pc.and_(*(array.is_valid() for array in deletes))).as_py():
            return None
        columns: dict[str, pa.Array] = {}
        for column in keys:
            array = _check_column(arrays[column], column, layout)
            if array is None:
                return None
            if column not in ("op", DELETE):
                columns[column] = array
            elif array.true_count:
                columns[DELETE] = pc.or_(columns[DELETE], array) if DELETE in columns else array
        if any(pa.types.is_floating(read[key].type) for key in layout.further) and _loses_digits(data):
            return None
        for key in layout.further:
            further = _untyped_column(read[key])
            if further is None or (layout.names.has_ids and key == layout.names[EDGE] and not _are_ids(further, columns)):
                return None
            columns[FURTHER + key] = further
        for key in layout.optional:
            columns[NODE + key] = read[key].is_valid()
            if read[key].null_count and b"null" in data:  # which is not the same as a missing key
                return None
        return Rows(columns=columns, data_lines=count)

    def _arrow_table(self, data: bytes) -> pa.Table | None:
        """Read with the last types of the additional columns; if that fails, with those of the first objects."""
        types_of_kinds = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}
        schema = {key.name: types_of_kinds[key.kind] for key in self.layout.keys}
        for is_last in (False, True):
            types = {**schema, **dict.fromkeys(self.layout.further, pa.string()), **self._types}
            target_schema = nested_schema(types, self.layout.all_keys)
            if target_schema is None:
                return None
            try:
                return arrow_json.read_json(
                    pa.BufferReader(data),
                    read_options=arrow_json.ReadOptions(block_size=len(data) + 1, use_threads=False),
                    parse_options=arrow_json.ParseOptions(
                        explicit_schema=target_schema, unexpected_field_behavior="ignore"
                    ),
                )
            except pa.ArrowInvalid:
                if is_last or not self._infer_types(data):
                    return None
        return None

    def _infer_types(self, data: bytes) -> bool:
        """Infer the types of additional columns, and of others that may have several; return whether any type is new."""
        loose = {DELETE, *(_VERTICES if self.layout.names.text_vertices else ())}
        loose |= {"timestamp"} if self.layout.times == EPOCH else set()
        of_tuples = {name: column for column, name in self.layout.columns if column in loose}
        before = dict(self._types)
        for line in data.split(b"\n", 50)[:50]:
            try:
                record = read_object(line)
            except FieldError:
                continue
            for key in (*self.layout.further, *of_tuples):
                type_ = _VALUE_TYPES.get(type(value_at(record, key)))
                if key in of_tuples and type_ not in _TYPES_OF_LOOSE[of_tuples[key]]:
                    continue
                if type_ is not None and not (type_ == pa.int64() and self._types.get(key) == pa.float64()):
                    self._types[key] = type_
        if self._types == before:  # integers may continue as floats, but not the reverse
            self._types = {key: pa.float64() if type_ == pa.int64() else type_ for key, type_ in before.items()}
        return self._types != before


def parse_exact(block: LineBlock, layout: JsonLayout, *, stop: bool) -> Rows:
    """Read a block line by line with `JsonLayout.read`; O(bytes), in Python."""
    read = read_exactly(data_lines(block), layout.read, stop=stop)
    vertex = pa.int64() if layout.integers else pa.string()
    types = {"source": vertex, "target": vertex, "label": pa.string(), "timestamp": pa.int64(), "delete": pa.bool_()}
    columns = {
        name: pa.array([values[name] for values in read.values], type_)
        for name, type_ in types.items()
        if name == "delete" or name in layout.names.columns
    }
    for name in (STREAM, EVENT):
        if name in layout.names.accepted_columns:
            columns[name] = pa.array([values[name] for values in read.values], pa.string()).dictionary_encode()
    if "label" in columns:
        columns["label"] = columns["label"].dictionary_encode()
    if not pc.any(columns["delete"]).as_py():
        del columns["delete"]
    for key in layout.further:
        columns[FURTHER + key] = texts_of([values[FURTHER + key] for values in read.values])
    for key in layout.optional:
        columns[NODE + key] = pa.array([values[NODE + key] for values in read.values], pa.bool_())
    return read.rows(columns)


def _objects(data: bytes) -> int:
    """Return the number of lines if each is an object from its first byte to its last, otherwise 0."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(text))
    begins = np.concatenate(([0], ends[:-1] + 1))
    if not len(ends) or (ends == begins).any():
        return 0
    # The lines of an object that spans several lines would begin or end with other characters.
    return len(ends) if (text[begins] == ord("{")).all() and (text[ends - 1] == ord("}")).all() else 0


def _check_column(array: pa.Array, column: str, layout: JsonLayout) -> pa.Array | None:
    """Convert a column to its type in batches; return None if a value is not allowed."""
    if column in _OPTIONAL and not _has_values(array):  # the usual case
        return pa.nulls(len(array), pa.bool_() if column in ("op", DELETE) else _NAMES)
    if pa.types.is_string(array.type) and not _is_text(array):
        return None
    if column == "op":
        if not pc.all(pc.is_in(array.fill_null("+"), pa.array(["+", "-"]))).as_py():
            return None
        return pc.equal(array.fill_null("+"), "-")
    if column == DELETE:
        booleans = booleans_of_text(array) if pa.types.is_string(array.type) else array
        return booleans.fill_null(False) if booleans.null_count == array.null_count else None
    if column in (STREAM, EVENT):
        return _empty_as_none(array)
    if array.null_count:
        return None
    if column == "timestamp" and layout.times == EPOCH:
        numbers = _untyped_column(array)
        if numbers is None or numbers.null_count:
            return None
        return times_of(UntypedColumn(numbers).texts().fill_null(""), kind=layout.times, unit=layout.time_unit)
    if column in _VERTICES and layout.names.text_vertices and pa.types.is_integer(array.type):
        return array.cast(pa.string())
    if column == "timestamp":
        return array if layout.times == "integers" else times_of(array, kind=layout.times, unit=layout.time_unit)
    if column == "label":
        array = array.dictionary_encode()
        return None if pc.any(pc.equal(array.dictionary, "")).as_py() else array
    if pa.types.is_string(array.type) and pc.min(pc.binary_length(array)).as_py() == 0:
        return None
    return array


def _are_ids(values: pa.Array, columns: Mapping[str, pa.Array]) -> bool:
    """Return whether values are ids of edges, and all inserts have one."""
    if not pa.types.is_string(values.type) and not pa.types.is_integer(values.type):
        return False
    is_there = values.is_valid()
    if pa.types.is_string(values.type):
        is_there = pc.fill_null(pc.not_equal(values, ""), False)
    return bool(pc.all(pc.or_(is_there, columns[DELETE]) if DELETE in columns else is_there).as_py())


def _has_values(array: pa.Array) -> bool:
    return bool(array.null_count < len(array))


def _empty_as_none(array: pa.Array) -> pa.Array:
    """Return names of streams or events with nulls for empty names."""
    return pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array).dictionary_encode()


def _untyped_column(array: pa.Array) -> pa.Array | None:
    """Return an additional column, or None if the exact path might read other values."""
    if pa.types.is_string(array.type):
        return array if _is_text(array) else None
    if not pa.types.is_floating(array.type):
        return array
    largest = pc.max(pc.abs(array)).as_py()
    return None if largest is not None and largest >= EXACT else array  # the value may have been an integer


_FRACTION = re.compile(rb"[0-9](?<![0-9.].)[0-9]*+(?:\.[0-9]++(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?=\s*[,}\]])")
"""A number with a fraction or an exponent. It begins with a class of characters, for which the search is fast."""


def _loses_digits(data: bytes) -> bool:
    """Return whether a number of an object may be another one than its nearest float; one of 15 digits never is."""
    long = [text for text in _FRACTION.findall(data) if len(text) > 16 or b"e" in text or b"E" in text]
    texts = pa.array(long, pa.binary()).cast(pa.string())
    others = texts.filter(pc.not_equal(texts.cast(pa.float64()).cast(pa.string()), texts))
    return any(isinstance(float_of(text), WrittenFloat) for text in others.to_pylist())


def _is_text(array: pa.Array) -> bool:
    """Return whether all values are UTF-8, which Arrow does not check for JSON."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
