r"""Changes of a table as Debezium writes them: envelopes (`--changes debezium`) or unwrapped rows (`debezium-rows`).

An envelope has the row `before` and `after` a change, the operation `op` (c, r, u, d), and its `source`.  With or without
the schema of Kafka Connect (`{"schema": …, "payload": …}`) it becomes records of edges (`rpq.readers.text.edge_rules`): an
insert of the row after the change, a delete of the row before it, or both.  If edges have ids, an update replaces the edge.
By a rule of nodes the row after the change replaces all facts of its node, and a deleted row, of which the key is enough,
takes them away.
The transformation `ExtractNewRecordState` turns envelopes into plain rows with `__deleted` and `__op` beside their columns.

In both forms, names with two underscores denote facts about the change, under the names that this transformation gives them:
`__op`, `__ts_ms`, `__source_ts_ms`, `__table`.  Other names are columns of the row.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.key_paths import name_of, names_in, path_of, value_at
from rpq.readers.source import LineBlock
from rpq.readers.text.edge_rules import (
    EdgeReader,
    Metadata,
    RecordEdges,
    RecordParser,
    RowChanges,
    concatenate_mixed,
    record_layout,
    texts_of_column,
)
from rpq.readers.text.jsonlines import JsonLines, read_object
from rpq.readers.text.line_layout import INTEGER, check_integer
from rpq.readers.text.parsing import Rows
from rpq.stream.arrays.fields import DEFAULT_UNIT, FieldError, time_kind
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.arrays.values import booleans_of_text
from rpq.stream.durations import NANOSECONDS

ENVELOPES, ROWS = "debezium", "debezium-rows"

FORMS = (ENVELOPES, ROWS)
"""The forms of changes: envelopes, and rows without them."""

SOURCE_TIME = "__source_ts_ms"
"""The time at which the database made a change, which is the timestamp unless the user names a column of the row."""

_SCHEMA = re.compile(rb'[ \t]*\{[ \t]*"schema"[ \t]*:[ \t]*')
_PAYLOAD = re.compile(rb'[ \t]*,[ \t]*"payload"[ \t]*:[ \t]*')
_TIMES = re.compile(r"__(?:source_)?ts_(ms|us|ns)")
_NOTHING = b'{"op":"m"}'
"""An envelope without a change."""

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_UNAVAILABLE = "__debezium_unavailable_value"
_IDENTITY = (
    "lacks the row before the change: expected all its columns, which PostgreSQL sends after ALTER TABLE … REPLICA IDENTITY "
    "FULL; or, if a key names the edge, --edges id with the column of the key (--columns edge=ID, or id in --edges-from)"
)


class ChangeReader:
    """A reader that turns changes of rows into edges, a batch at a time; an `EdgeReader` turns the rows into edges.

    `types` are the schemas of the columns of the row by name, if the changes have a schema.
    """

    def __init__(self, edges: EdgeReader, *, has_ids: bool, unit: str | None) -> None:
        self._edges = edges
        self._has_ids = has_ids
        self._unit = unit
        self._is_row = edges.rules.changes == ROWS
        self.types: Mapping[str, Mapping[str, Any]] = {}
        rules = edges.rules.rules
        self.metadata = edges.metadata
        self._facts = tuple(name for name in edges.names if name.startswith("__") or name in self.metadata)
        self._columns = tuple(name for name in edges.names if name not in self._facts)
        self._ids = {rule.names["id"] for rule in rules if "id" in rule.names}
        self._times = edges.rules.times
        self._number_columns: dict[str, bool] = {}
        of_change = ("__op", "__deleted", SOURCE_TIME, "__ts_ms") if self._is_row else ("__op", SOURCE_TIME, "__ts_ms")
        names = [self._name(name) for name in {*self._facts, *of_change}]
        sides = ("",) if self._is_row else ("before", "after")
        names += [self._row_name(side, name) for side in sides for name in self._columns]
        self.names = tuple(sorted(names))

    @property
    def times(self) -> str | None:
        """The kind of the timestamps of rows in text."""
        return self._edges.times

    @property
    def ends(self) -> frozenset[str]:
        """The names of values that must be neither objects nor lists."""
        of_rules = self._edges.rules.ends - {*self._facts}
        sides = ("",) if self._is_row else ("before", "after")
        return frozenset(self._row_name(side, name) for side in sides for name in of_rules)

    def check_first(self, record: Mapping[str, Any]) -> None:
        """Raise `FieldError` if the first change has another form, or its row lacks a column that each edge needs."""
        is_envelope = "op" in record and ("after" in record or "before" in record or record["op"] in ("m", "t"))
        if self._is_row and is_envelope:
            raise FieldError("is an envelope of Debezium, with before and after; expected a row, or --changes debezium")
        if not self._is_row and "op" not in record:
            hint = ", or --changes debezium-rows" if {"__deleted", "__op", "__ts_ms"} & {*record} else ""
            raise FieldError(f"is missing; expected an envelope of Debezium, with op, before and after{hint}", "op")
        row = record if self._is_row else record.get("after") or record.get("before")
        if not isinstance(row, dict):
            return
        for rule in self._edges.rules.rules:
            missing = [name for name in rule.names.values() if name not in self._facts and value_at(row, name, row) is row]
            if rule.is_required and missing and record.get("op", "c") not in ("d", "u"):
                names_text = ", ".join(name for name in names_in(row) if not name.startswith("__"))
                raise FieldError(
                    f"is not a column of the row, which has {names_text}; give --columns source=COLUMN,target=COLUMN"
                    + (",label=COLUMN, or --label LABEL" if rule.label is None else ""),
                    missing[0],
                )

    def read(
        self, records: Mapping[str, pa.Array], count: int, *, timestamps: Mapping[str, pa.Array] | None = None
    ) -> RecordEdges:
        """Return the edges of `count` changes, whose values are in columns by name.  O(changes · rules).

        A bad change inserts no edges; it deletes those of the row before it, if these are known.
        """
        errors: dict[int, FieldError] = {}
        are_nodes = np.zeros(count, np.bool_)
        if self._is_row and self._edges.rules.nodes:
            are_nodes = self._edges.are_nodes(records, count)
        ops = self._operations(records, count, errors, are_nodes)
        first = np.flatnonzero((ops == "d") | (ops == "u"))
        second = np.flatnonzero((ops == "c") | (ops == "u"))
        order = np.argsort(np.concatenate([first, second]), kind="stable")
        of_change = np.concatenate([first, second])[order]
        deletes = np.concatenate([np.ones(len(first), np.bool_), np.zeros(len(second), np.bool_)])[order]
        replaced = deletes & (ops[of_change] == "u")
        rows = {}
        for name in self._columns:
            before, after = (self._decode_column(name, records[self._row_name(side, name)]) for side in ("before", "after"))
            old = before.take(pa.array(first))
            if name in self._ids:
                # An update may come without the row before it: then its id is that of the row after it.
                new = texts_of_column(after).take(pa.array(first))
                old = pc.coalesce(texts_of_column(old), pc.if_else(pa.array(ops[first] == "u"), new, None))
            rows[name] = concatenate_mixed([old, after.take(pa.array(second))]).take(pa.array(order))
        places = pa.array(of_change)
        facts = {name: self._change_fact(name, records, ops).take(places) for name in self._facts}
        bad = self._unknown_rows(rows, facts, deletes, replaced)
        if self._edges.rules.nodes:
            are_nodes = self._edges.are_nodes({**rows, **facts}, len(of_change))
            are_known = are_nodes | (replaced & np.append(are_nodes[1:], False))
            bad = {row: error for row, error in bad.items() if not (deletes[row] and are_known[row])}
        times = pc.coalesce(*(self._time(name, records[self._name(name)]) for name in (SOURCE_TIME, "__ts_ms")))
        changes = RowChanges(deletes=deletes, replaced=replaced, times=times.take(places))
        in_unit = {name: column.take(places) for name, column in (timestamps or {}).items()}
        for name in self._times:
            if name not in in_unit:
                in_unit[name] = self._timestamps(name, {**rows, **facts}, bad)
        edges = self._edges.read({**rows, **facts}, len(of_change), timestamps=in_unit, changes=changes)
        bad = {**edges.errors, **bad}
        if not bad:
            return replace(edges, records=of_change[edges.records], errors=errors)
        if self._has_ids:
            replaced[[row - 1 for row in bad if row]] = False  # a bad row replaces no edge
            edges = self._edges.read({**rows, **facts}, len(of_change), timestamps=in_unit, changes=changes)
        for row in sorted(bad):
            errors.setdefault(int(of_change[row]), bad[row])
        of_edges = of_change[edges.records]
        is_good = ~np.isin(edges.records, list(bad)) & (deletes[edges.records] | ~np.isin(of_edges, list(errors)))
        columns = {name: column.filter(pa.array(is_good)) for name, column in edges.columns.items()}
        return RecordEdges(columns=columns, records=of_edges[is_good], errors=errors)

    def _operations(
        self, records: Mapping[str, pa.Array], count: int, errors: dict[int, FieldError], are_nodes: np.ndarray
    ) -> np.ndarray:
        """Return c, u or d for each change, and an empty text for those without edges; add errors.

        Rows that are records of nodes alone need no row before an update.
        """
        name = self._name("__op")
        texts = texts_of_column(records[name])
        ops = np.array(texts.fill_null("").to_pylist(), np.object_)
        ops[ops == "r"] = "c"
        if self._is_row:
            deleted = numpy_array(booleans_of_text(texts_of_column(records["__deleted"])).fill_null(False))
            ops[deleted] = "d"
            if self._has_ids:
                ops[(ops == "") | (ops == "c")] = "u"  # an existing row is replaced
            ops[are_nodes & (ops == "")] = "c"
            reason = "is missing, without which an update looks like an insert; let Debezium add it (add.fields=op"
            _add_errors(errors, name, ops == "", f"{reason},source.ts_ms), or give --edges id")
            if not self._has_ids:
                reason = "is u, an update, without the row before it; expected --edges id, or envelopes (--changes debezium)"
                _add_errors(errors, name, (ops == "u") & ~are_nodes, reason)
        else:
            hint = "expected an envelope of Debezium; rows without it are read by --changes debezium-rows"
            _add_errors(errors, name, ops == "", f"is missing; {hint}")
        reason = "is t, a TRUNCATE, whose rows are not known; let Debezium leave it out (skipped.operations=t)"
        _add_errors(errors, name, ops == "t", reason)
        unknown = ~np.isin(ops.astype(np.str_), ["", "c", "u", "d", "t", "m"])
        _add_errors(errors, name, unknown, "is not an operation of Debezium; expected c, r, u or d")
        ops[ops == "m"] = ""  # a message of pg_logical_emit_message is not a change of a row
        if errors:
            ops[list(errors)] = ""
        return ops.astype("U1") if count else np.empty(0, "U1")

    def _unknown_rows(
        self, rows: Mapping[str, pa.Array], facts: Mapping[str, pa.Array], deletes: np.ndarray, replaced: np.ndarray
    ) -> dict[int, FieldError]:
        """Return the errors of deleted rows that are not known, and of rows with values that PostgreSQL did not send."""
        bad: dict[int, FieldError] = {}
        needed = list(rows.values())
        if self._has_ids:
            needed = [values for name, values in {**rows, **facts}.items() if name in self._ids]
        value_count = np.zeros(len(deletes), np.int64)
        for values in needed:
            value_count += numpy_array(texts_of_column(values).is_valid())
        # The row before a delete may have only the key; that before an update is whole, and may lack one end.
        least = np.where(replaced | self._has_ids, 1, min(2, len(needed)))
        where = "__deleted" if self._is_row else "before"
        for row in np.flatnonzero(deletes & (value_count < least)).tolist():
            bad[row] = FieldError(_IDENTITY, where)
        for name, column in rows.items():
            if pa.types.is_string(column.type):
                is_away = numpy_array(pc.equal(column, _UNAVAILABLE).fill_null(False)) & ~(deletes & self._has_ids)
                reason = f"is {_UNAVAILABLE}: PostgreSQL did not send it; expected its value, as with REPLICA IDENTITY FULL"
                for row in np.flatnonzero(is_away).tolist():
                    bad.setdefault(row, FieldError(reason, name))
        return bad

    # --- names and values ------------------------------------------------------------------------------------

    def _row_name(self, side: str, name: str) -> str:
        """Return the name that a column of the row before or after the change has in the change."""
        return name if self._is_row else name_of((side, *(path_of(name) or (name,))))

    def _name(self, name: str) -> str:
        """Return the name that a fact about the change has in the change, given its name in rows."""
        if self._is_row or name in self.metadata:
            return name
        field = name.removeprefix("__")
        if field in ("op", "ts_ms", "ts_us", "ts_ns"):
            return field
        for part in ("source", "transaction"):
            if field.startswith(f"{part}_"):
                return f"{part}.{field.removeprefix(part + '_')}"
        return f"source.{field}" if field != "deleted" else "op"

    def _change_fact(self, name: str, records: Mapping[str, pa.Array], ops: np.ndarray) -> pa.Array:
        if name == "__deleted" and not self._is_row:
            return pa.array(np.where(ops == "d", "true", "false").tolist(), pa.string())
        return records[self._name(name)]

    def _decode_column(self, name: str, column: pa.Array) -> pa.Array:
        """Return a column of the row, with decimals as text if their schema is known."""
        type_ = self.types.get(name, {})
        if type_.get("name") != _DECIMAL:
            return column
        texts = texts_of_column(column).dictionary_encode()
        scale = int(type_.get("parameters", {}).get("scale", 0))
        values = [_decimal(text, scale) for text in texts.dictionary.to_pylist()]
        return pa.array(values, pa.string()).take(texts.indices)

    def _time(self, name: str, column: pa.Array) -> pa.Array:
        """Return a time of the change in the unit of the stream, null where it is missing."""
        found = _TIMES.fullmatch(name)
        return _convert_unit(_integers(column), found[1] if found else "ms", self._unit or DEFAULT_UNIT)

    def _timestamps(self, name: str, rows: Mapping[str, pa.Array], bad: dict[int, FieldError]) -> pa.Array:
        """Return a column of timestamps; integers are converted to Arrow's timestamps in the unit of the stream.

        Adds the errors of rows to `bad`.
        """
        column, unit = rows[name], self._unit or DEFAULT_UNIT
        numbers, texts = _integers(column), texts_of_column(column)
        of_name = _TIMES.fullmatch(name)
        if not of_name and not self._has_numbers(name, texts):
            return column  # times in text
        of_schema = of_name[1] if of_name else _UNITS.get(str(self.types.get(name, {}).get("name")))
        if of_schema is None and self._unit is None:
            reason = "is a number without a unit, which times of deletes have; expected --time-unit"
            for row in np.flatnonzero(numpy_array(numbers.is_valid())).tolist():
                bad.setdefault(row, FieldError(reason, name))
        source_unit = of_schema or unit
        scaled = _convert_unit(numbers, source_unit, unit)
        if scaled.null_count > texts.null_count and self._edges.times in (None, "integers"):
            self._edges.times = "integers"  # a value that is not a time is an error of its record only
            zeros = str(NANOSECONDS[source_unit] // NANOSECONDS[unit])[1:]
            odd = pc.if_else(numbers.is_valid(), pc.binary_join_element_wise(texts, zeros, ""), texts)
            return pc.coalesce(scaled.cast(pa.string()), odd)
        return scaled.cast(pa.timestamp(unit))

    def _has_numbers(self, name: str, texts: pa.Array) -> bool:
        """Return whether the times in a column of the row are numbers, which the first value decides."""
        if name not in self._number_columns:
            for text in texts.drop_null():
                time = text.as_py().strip(" \t")
                is_number = INTEGER.fullmatch(time) is not None
                if is_number or time_kind(time) is not None:
                    self._number_columns[name] = is_number
                    break
        return self._number_columns.get(name, False)


def _add_errors(errors: dict[int, FieldError], name: str, wrong: np.ndarray, reason: str) -> None:
    for place in np.flatnonzero(wrong).tolist():
        errors.setdefault(place, FieldError(reason, name))


def _decimal(text: str | None, scale: int) -> str | None:
    """Return the number that Kafka Connect writes as bytes in base64.

    >>> _decimal("A+g=", 2)
    '10.00'
    """
    if text is None:
        return None
    try:
        number = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    except ValueError:
        return text
    return f"{Decimal(number).scaleb(-scale):f}"


def _integers(column: pa.Array) -> pa.Array:
    """Return integers, including integers in text.  Other values are null."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    texts = texts_of_column(column)
    is_integer = pc.match_substring_regex(texts, f"^(?:{INTEGER.pattern})$")
    digits = pc.utf8_ltrim(pc.if_else(is_integer, texts, pa.scalar(None, pa.string())), "+")
    try:
        return digits.cast(pa.int64())
    except pa.ArrowInvalid:  # some have more than 64 bits
        return pa.array([_within_64_bits(text) for text in digits.to_pylist()], pa.int64())


def _within_64_bits(text: str | None) -> int | None:
    try:
        return None if text is None else check_integer(text, "")
    except FieldError:
        return None


def _convert_unit(times: pa.Array, source_unit: str, target_unit: str) -> pa.Array:
    """Return times in another unit, rounded down; null where they have more than 64 bits."""
    more, fewer = NANOSECONDS[source_unit], NANOSECONDS[target_unit]
    numbers, is_null = numpy_array(times.fill_null(0)), numpy_array(times.is_null())
    if more >= fewer:
        largest = (2**63 - 1) // (more // fewer)
        is_null = is_null | (numbers > largest) | (numbers < -largest)
        return pa.array(np.where(is_null, 0, numbers) * (more // fewer), pa.int64(), mask=is_null)
    return pa.array(numbers // (fewer // more), pa.int64(), mask=is_null)


class ChangeParser(RecordParser):
    """A parser of JSON lines of changes, of which it removes the schemas."""

    reader: ChangeReader

    def __init__(self, edges: EdgeReader, *, has_ids: bool, unit: str | None) -> None:
        reader = ChangeReader(edges, has_ids=has_ids, unit=unit)
        super().__init__(JsonLines(record_layout(reader, reader.ends)), reader)
        self._is_row = edges.rules.changes == ROWS
        self._prefix = b""
        self._types: Mapping[str, Any] = {}

    def parse(self, block: LineBlock, *, stop: bool, metadata: Metadata | None = None) -> Iterator[Rows]:
        """Read a block, in pieces of changes with the same schema."""
        for piece, types in self._pieces(block):
            self.reader.types = types
            of_piece = None if metadata is None else metadata.skip(piece.line - block.line)
            for rows in super().parse(piece, stop=stop, metadata=of_piece):
                yield rows
                if stop and rows.errors:
                    return

    def check_first(self, line: bytes) -> None:
        """Raise `FieldError` if the first change has another form."""
        payload, _ = self._payload(line)
        self.reader.check_first(read_object(payload))

    def _pieces(self, block: LineBlock) -> Iterator[tuple[LineBlock, Mapping[str, Any]]]:
        lines, payloads = block.data.split(b"\n"), list[bytes]()
        if not lines[-1]:
            lines.pop()
        types: Mapping[str, Any] = self._types
        first = block.line
        for number, line in enumerate(lines, block.line):
            payload, found = self._payload(line)
            if found is not types and payloads:
                yield LineBlock(b"\n".join(payloads) + b"\n", first), types
                first, payloads = number, []
            types = found
            payloads.append(payload)
        if payloads:
            yield LineBlock(b"\n".join(payloads) + b"\n", first), types

    def _payload(self, line: bytes) -> tuple[bytes, Mapping[str, Any]]:
        """Return a change without its schema, and the schemas of the columns of its row."""
        line = line.strip(b" \t\r")
        if self._prefix and line.startswith(self._prefix) and line.endswith(b"}"):
            return self._change(line[len(self._prefix) : -1]), self._types
        begin = _SCHEMA.match(line)
        if begin is None:
            return self._change(line), _NO_TYPES
        text = line.decode("utf-8", "surrogateescape")
        start = len(line[: begin.end()].decode("utf-8", "surrogateescape"))
        try:
            schema, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            return line, _NO_TYPES
        prefix = text[:end].encode("utf-8", "surrogateescape")
        payload = _PAYLOAD.match(line, len(prefix))
        if payload is None or not line.endswith(b"}"):
            return line, _NO_TYPES
        self._prefix, self._types = line[: payload.end()], _types_of(schema)
        return self._change(line[payload.end() : -1]), self._types

    def _change(self, payload: bytes) -> bytes:
        """Return a change, which is empty for the tombstone that follows the envelope of a delete."""
        return _NOTHING if payload.strip() == b"null" and not self._is_row else payload


_NO_TYPES: Mapping[str, Any] = {}


def _types_of(schema: Any) -> dict[str, Any]:
    """Return the schemas of the columns of a row by name, from the schema of an envelope or of the row."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    found = {one.get("field"): one for one in fields or () if isinstance(one, dict)}
    for side in ("after", "before"):
        if isinstance(found.get(side), dict) and found[side].get("type") == "struct":
            return _types_of(found[side])
    return {str(name): one for name, one in found.items()}


def tombstone(key: bytes | str | None, milliseconds: int | None, *, form: str) -> bytes:
    """Return the change that a message without a value represents.  Raises `FieldError` if the key does not determine it.

    >>> tombstone(b'{"id": 7}', 1000, form="debezium-rows")
    b'{"id": 7, "__deleted": "true", "__op": "d", "__ts_ms": 1000}'
    """
    if form != ROWS:
        return _NOTHING
    try:
        found = read_object(key.encode() if isinstance(key, str) else key or b"")
    except FieldError as error:
        raise FieldError("there is no value (a tombstone), and the key is not an object; expected a row's key") from error
    found = found["payload"] if {*found} == {"schema", "payload"} else found
    if not isinstance(found, dict):
        raise FieldError("there is no value (a tombstone), and the key is not an object; expected a row's key")
    return json.dumps({**found, "__deleted": "true", "__op": "d", "__ts_ms": milliseconds}).encode()


def unsupported_form(format: str) -> InputError:
    """Return the error for `--changes` with a format that cannot contain changes."""
    return InputError(f"changes of a database are read as JSON: expected JSON lines, or messages in JSON, not {format}")
