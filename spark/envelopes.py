"""Packed tuples: tables as bytes, and envelopes, in which tuples travel to the shares.

A packed table is a compressed Arrow stream with a checksum, both in the state and on the way to it.  An envelope is a packed
table in a binary column.  Between Spark and a stateful processor, rows pass through pandas, with text as Python objects,
once per share.  A packed micro-batch is a handful of rows, replicated as bytes.  The columns of an envelope are source and
target (string or int64), label (string), timestamp (int64), delete (bool) and, if the stream has one, sequence (int64).
Properties of edges that queries read, and the ids of edges if they have any, are further columns, whose names begin with
`PROPERTY`; they may be null.

A tuple whose label no query reads only advances the time, so it is left out before replication: an envelope records the
number of tuples left out and the latest time among them, its *tick*.  Tuples are applied in the order of time, and the tick
after them.  The rows are the same, because a tuple after one that was left out advances the time at least as far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.engine.state.sealed import SealedKind, damage_error, seal, unseal
from rpq.errors import InputError
from rpq.spark.shipping import ShippedObject
from rpq.stream.arrays.fields import EDGE
from rpq.stream.arrays.plain_columns import is_text
from rpq.stream.arrays.values import EMPTY
from rpq.stream.stream_time import EARLIEST
from rpq.stream.window import INT64_MAX

TUPLES = SealedKind(magic=b"RPQTUPLE", noun="part of a stream", version=1)
_VERTICES = (pa.int64(), pa.string(), pa.large_string())
_LABELS = (pa.string(), pa.large_string())
_TYPES = {
    "source": _VERTICES,
    "target": _VERTICES,
    "label": _LABELS,
    "timestamp": (pa.int64(),),
    "delete": (pa.bool_(),),
    "sequence": (pa.int64(),),
    "order": (pa.int64(),),
}


PROPERTY = "property."
"""The beginning of the names of columns of properties."""
_ID = PROPERTY + EDGE


def numbered_property(place: int) -> str:
    """Return the name of the column of a property in a data frame, where Spark reads a dot in a name as that of a field."""
    return f"property_{place}"


def is_numbered_property(column: str) -> bool:
    """Return whether a column of a data frame is that of a property (`numbered_property`)."""
    return column.startswith("property_")


def _is_property(kind: pa.DataType) -> bool:
    """Return whether properties of edges may be of a type."""
    tests = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_timestamp,
        pa.types.is_date,
    )
    return any(test(kind) for test in tests)


def pack_table(tuples: pa.Table) -> bytes:
    """Return a table as bytes. O(bytes)."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, tuples.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(tuples.combine_chunks())
    content = memoryview(out.getvalue())
    return seal(TUPLES, [content]) + bytes(content)


def unpack_table(data: bytes, *, columns: tuple[str, ...], name: str) -> pa.Table:
    """Return the table, with all values validated; it has `columns`, and perhaps other columns of tuples.

    Raises `StateFormatError`, which calls the bytes `name`, if they are not those of a packed table. O(bytes).
    """
    content = unseal(TUPLES, data, name=name)
    try:
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        table.validate(full=True)
        names = table.schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as problem:
        raise damage_error(TUPLES, name, str(problem)) from problem
    if len(set(names)) < len(names) or not set(columns) <= set(names):
        raise damage_error(TUPLES, name, f"its columns are {', '.join(names)}, not {', '.join(columns)}")
    for column in names:
        if column.startswith(PROPERTY) and _is_property(table[column].type):
            continue
        if table[column].type not in _TYPES.get(column, ()):
            raise damage_error(TUPLES, name, f"it has a column {column!r} of type {table[column].type}")
        if table[column].null_count:
            raise damage_error(TUPLES, name, f"column {column!r} has entries without a value")
    return table


ROWS = 1 << 16
"""The number of tuples of a full envelope, some megabytes."""
BYTES = 1 << 26
"""The number of bytes in memory of the tuples of a full envelope, if their names are long."""

SCHEMA = "edges binary"
_SEQUENCE = "sequence"
_COLUMNS = ("source", "target", "label", "timestamp", "delete")
_PLACES = ("file", "row")
"""The place of a tuple in the input, if known.  These columns are not packed."""
_KNOWN_LABELS = 1 << 16


class LabelReader(Protocol):
    """The part of a query's interface that concerns labels."""

    def reads(self, label: str) -> bool:
        """Return whether edges with a label can matter to the query."""


@dataclass(frozen=True, kw_only=True)
class PackedTuples:
    """Tuples in the order in which they are applied, and the number and the latest time of the tuples that were left out.

    The table has the columns of an envelope.  `tick` is None if no tuple was left out.
    """

    table: pa.Table
    dropped_count: int
    tick: int | None

    def __len__(self) -> int:
        """Return the number of tuples that arrived, including those that were left out."""
        return len(self.table) + self.dropped_count


def pack(batches: Iterable[pa.RecordBatch], queries: Sequence[LabelReader] | None = None) -> Iterator[pa.RecordBatch]:
    """Turn batches with the columns of an edge (op as text) into envelopes.

    Tuples that none of the `queries` reads are left out; with None, all tuples stay.  Raises `InputError` for an invalid
    tuple.
    """
    labels = _Labels(queries)
    for batch in _pieces(batches):
        yield pa.record_batch({"edges": pa.array([_envelope(batch, labels)], pa.binary())})


class Packer(ShippedObject):
    """A function for `mapInArrow` that turns tuples into envelopes, without those that none of the queries reads.

    The columns of `properties`, among which ids of edges may be, are numbered in this order. With None for `queries` all
    tuples stay.
    """

    def __init__(self, queries: Sequence[LabelReader] | None, properties: Sequence[str] = ()) -> None:
        self._queries = None if queries is None else tuple(queries)
        self._names = _names_of_properties(properties)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        renamed = (batch.rename_columns([self._names.get(name, name) for name in batch.schema.names]) for batch in batches)
        yield from pack(renamed, self._queries)


def _names_of_properties(properties: Sequence[str]) -> dict[str, str]:
    """Return the names of the columns of properties in envelopes by those in data frames."""
    return {numbered_property(place): PROPERTY + name for place, name in enumerate(properties)}


def unpack(envelopes: Iterable[bytes]) -> PackedTuples:
    """Return the tuples of a micro-batch in the order in which they are applied.

    The order is by timestamp, then by sequence if there is one, then deletes before inserts; with properties, tuples of one
    sequence are ordered by their values, so that all shares apply them alike.  Raises `StateFormatError` for a damaged
    envelope.
    """
    tables = [unpack_table(envelope, columns=_COLUMNS, name="an envelope of edges") for envelope in envelopes]
    dropped, ticks = 0, []
    for table in tables:
        count, tick = _dropped_and_tick(table)
        dropped += count
        ticks += [tick] if count else []
    # Tuples that waited while the queries of the stream changed may have other properties.
    table = pa.concat_tables([table.replace_schema_metadata() for table in tables], promote_options="default")
    order = _order(table)
    if order is not None:
        table = table.take(pa.array(order))
    return PackedTuples(table=table, dropped_count=dropped, tick=max(ticks, default=None))


def engine_columns(table: pa.Table) -> pa.Table:
    """Return the columns of an envelope that an engine accepts: all but the sequence, and properties by their names."""
    properties = [name for name in table.column_names if name.startswith(PROPERTY)]
    names = [*_COLUMNS, *(name.removeprefix(PROPERTY) for name in properties)]
    return table.select([*_COLUMNS, *properties]).rename_columns(names)


def engine_tuples(tuples: pa.Table, properties: Sequence[str] = ()) -> pa.Table:
    """Return tuples, with the columns of an edge and numbered ones of properties, in the columns that an engine accepts.

    The tuples stay in their order.  Raises `InputError` for an invalid tuple.
    """
    names = _names_of_properties(properties)
    table = _with_ends(tuples.rename_columns([names.get(name, name) for name in tuples.column_names]))
    _check(table)
    return engine_columns(table.append_column("delete", pc.equal(table["op"], "-")))


def envelope_columns(table: pa.Table, properties: Sequence[str]) -> pa.Table:
    """Return the columns of an engine's tuples as those of an envelope, with only these properties: see `engine_columns`."""
    return table.select([*_COLUMNS, *properties]).rename_columns([*_COLUMNS, *(PROPERTY + name for name in properties)])


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of batches in tables of about `ROWS` rows or `BYTES` bytes."""
    collected: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if rows >= ROWS or size >= BYTES:
            yield pa.Table.from_batches(collected)
            collected, rows, size = [], 0, 0
        collected.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if collected:
        yield pa.Table.from_batches(collected)


class _Labels:
    """The labels that some query reads; results for the latest `_KNOWN_LABELS` labels are cached."""

    def __init__(self, queries: Sequence[LabelReader] | None) -> None:
        self.are_all_read = queries is None
        self.read = lru_cache(_KNOWN_LABELS)(lambda label: any(query.reads(label) for query in queries or ()))


def _envelope(table: pa.Table, labels: _Labels) -> bytes:
    """Return the packed tuples, in the order in which they are applied."""
    table = _with_ends(table)
    _check(table)
    table = table.drop_columns([name for name in _PLACES if name in table.column_names]).combine_chunks()
    table = table.append_column("delete", pc.equal(table["op"], "-")).drop_columns(["op"])
    order = _order(table)
    table = table if order is None else table.take(pa.array(order))
    if labels.are_all_read:
        return pack_table(table)
    texts = table["label"].combine_chunks().dictionary_encode()
    read = np.array([labels.read(label) for label in texts.dictionary.to_pylist()], bool)[texts.indices.to_numpy()]
    dropped = len(table) - int(read.sum())
    if dropped:
        tick = int(table["timestamp"].to_numpy()[~read].max())
        table = table.filter(pa.array(read)).replace_schema_metadata({"dropped": str(dropped), "tick": str(tick)})
    return pack_table(table)


def _with_ends(table: pa.Table) -> pa.Table:
    """Return tuples in which deletes with an id have some ends and some label where they lack them: these do not matter."""
    if _ID not in table.column_names:
        return table
    is_by_id = pc.and_(pc.is_valid(table[_ID]), pc.fill_null(pc.equal(table["op"], "-"), False))
    for name in ("source", "target", "label"):
        column = table[name]
        is_number = pa.types.is_integer(column.type)
        lacks = pc.and_(is_by_id, pc.is_null(column) if is_number else pc.fill_null(pc.equal(column, ""), True))
        if pc.any(lacks).as_py():
            some = pa.scalar(0 if is_number else "-", column.type)
            table = table.set_column(table.column_names.index(name), name, pc.if_else(lacks, some, column))
    return table


def _check(table: pa.Table) -> None:
    """Raise `InputError` for the first tuple that lacks a value, or has an unknown op or text that is not UTF-8."""
    for name in table.column_names:
        if name not in _PLACES and is_text(table[name].type) and (other := _find_other_bytes(table[name])) is not None:
            shown = name.removeprefix(PROPERTY)
            raise _input_error(table, other, shown, f"{_shown(table[name][other])} is not UTF-8 text")
        if name not in _PLACES and not name.startswith(PROPERTY) and table[name].null_count:
            row = pc.index(pc.is_null(table[name]), True).as_py()
            lacks = "op, or no delete" if name == "op" else name
            raise _input_error(table, row, name, f"a tuple has no {lacks}; expected a value in every row")
    for name in ("source", "target", "label"):
        if is_text(table[name].type) and (row := pc.index(pc.equal(table[name], ""), True).as_py()) >= 0:
            raise _input_error(table, row, name, EMPTY)
    wrong = pc.invert(pc.is_in(table["op"], pa.array(["+", "-"])))
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        problem = f"{table['op'][row].as_py()!r} is not an operation; '+' inserts, '-' deletes, or delete is true or false"
        raise _input_error(table, row, "op", problem)


def _find_other_bytes(texts: pa.ChunkedArray) -> int | None:
    """Return the row of the first text that is not UTF-8, which Spark's text need not be, or None. O(bytes)."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, text in enumerate(texts):
            try:
                text.as_py()
            except UnicodeDecodeError:
                return row
    return None


def _shown(value: pa.Scalar) -> str:
    """Return a value as Python writes it, or its bytes if they are not UTF-8."""
    try:
        return repr(value.as_py())
    except UnicodeDecodeError:
        return repr(value.as_buffer().to_pybytes())


def _input_error(table: pa.Table, row: int, column: str, problem: str) -> InputError:
    """Return an error with the problem of a tuple, its place if known, and its values."""
    values = ", ".join(f"{name} {_shown(table[name][row])}" for name in table.column_names if name not in _PLACES)
    file = number = None
    if "file" in table.column_names:
        file = table["file"][row].as_py()
        number = table["row"][row].as_py() if "row" in table.column_names else None
    where = "" if file is None else f"{file}: " if number is None else f"{file}: row {number + 1}: "
    return InputError(f"{where}column {column!r}: {problem} (the tuple: {values})", file=file, column=column)


def _order(table: pa.Table) -> np.ndarray | None:
    """Return the order in which the rows are applied, as indices, or None if the rows are in this order."""
    stamps = table["timestamp"].to_numpy()
    keys = [~table["delete"].to_numpy(zero_copy_only=False)]
    if _SEQUENCE in table.column_names:
        keys.append(table[_SEQUENCE].to_numpy())
    steps = np.diff(stamps)
    if (steps > 0).all():
        return None
    order = np.lexsort([*keys, stamps])
    if _SEQUENCE in table.column_names and any(name.startswith(PROPERTY) for name in table.column_names):
        sorted_keys = [key[order] for key in (*keys, stamps)]
        if np.logical_and.reduce([key[1:] == key[:-1] for key in sorted_keys]).any():
            order = np.lexsort([*_ranks(table), *keys, stamps])
    return None if (order == np.arange(len(order))).all() else order


def _ranks(table: pa.Table) -> list[np.ndarray]:
    """Return the ranks of the values of all columns that do not determine the order of tuples otherwise. O(n log n)."""
    names = [name for name in table.column_names if name not in ("timestamp", "delete", _SEQUENCE)]
    ranks = (pc.rank(table[name], sort_keys="ascending", tiebreaker="dense") for name in names)
    return [rank.to_numpy() for rank in ranks]


def _dropped_and_tick(table: pa.Table) -> tuple[int, int]:
    """Return the number of tuples that were left out of an envelope, and the latest time among them."""
    about = table.schema.metadata or {}
    if b"dropped" not in about:
        return 0, 0
    try:
        dropped, tick = int(about[b"dropped"]), int(about[b"tick"])
    except (KeyError, ValueError) as problem:
        raise damage_error(TUPLES, "an envelope of edges", f"its record of tuples left out is {about!r}") from problem
    if dropped < 1 or not EARLIEST <= tick <= INT64_MAX:
        raise damage_error(TUPLES, "an envelope of edges", f"its record of tuples left out is {about!r}")
    return dropped, tick
