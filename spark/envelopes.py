"""A table of tuples as bytes: a compressed Arrow stream under a seal, in the state as well as on the way to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.files.sealed import Kind, damaged, seal, unseal
from rpq.spark.shipping import Shipped
from rpq.stream.timestamps import EARLIEST
from rpq.stream.values import EMPTY
from rpq.stream.window import INT64_MAX

TUPLES = Kind(magic=b"RPQTUPLE", noun="part of a stream", version=1)
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


def pack_table(tuples: pa.Table) -> bytes:
    """The bytes of a table. O(bytes)."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, tuples.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(tuples.combine_chunks())
    content = memoryview(out.getvalue())
    return seal(TUPLES, [content]) + bytes(content)


def unpack_table(data: bytes, *, columns: tuple[str, ...], name: str) -> pa.Table:
    """The table, every value of which was looked at; it has these columns, and perhaps others of those that tuples have.

    Raises `StateFormatError`, which calls the bytes by that name, if they are not what was packed. O(bytes).
    """
    content = unseal(TUPLES, data, name=name)
    try:
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        table.validate(full=True)
        names = table.schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as problem:
        raise damaged(TUPLES, name, str(problem)) from problem
    if len(set(names)) < len(names) or not set(columns) <= set(names):
        raise damaged(TUPLES, name, f"its columns are {', '.join(names)}, not {', '.join(columns)}")
    for column in names:
        if table[column].type not in _TYPES.get(column, ()):
            raise damaged(TUPLES, name, f"it has a column {column!r} of type {table[column].type}")
        if table[column].null_count:
            raise damaged(TUPLES, name, f"column {column!r} has entries without a value")
    return table


ROWS = 1 << 16
"""At most so many tuples in an envelope: some megabytes."""

SCHEMA = "edges binary"
PLACED_SCHEMA = "file string, row bigint, edges binary"
_SEQUENCE = "sequence"
_COLUMNS = ("source", "target", "label", "timestamp", "delete")
_PLACES = ("file", "row")
"""Where a tuple comes from, if that is known: these columns do not travel."""
_KNOWN_LABELS = 1 << 16


class LabelReader(Protocol):
    """What may read labels: a query."""

    def reads(self, label: str) -> bool:
        """Whether edges of a label can matter to it."""


@dataclass(frozen=True, kw_only=True)
class Tuples:
    """Tuples in the order in which they are applied, and what was left out of them: how many, and the latest time.

    The table has the columns of an envelope.  `tick` is None where nothing was left out.
    """

    table: pa.Table
    dropped: int
    tick: int | None

    def __len__(self) -> int:
        """Tuples that came, those that were left out too."""
        return len(self.table) + self.dropped


def pack(batches: Iterable[pa.RecordBatch], queries: Sequence[LabelReader] | None = None) -> Iterator[pa.RecordBatch]:
    """Turn batches with the columns of an edge (op as text) into envelopes; raises `InputError` at what is none.

    Tuples that none of the `queries` reads are left out; None: nothing is.
    """
    labels = _Labels(queries)
    for batch in _pieces(batches):
        envelope, _ = _envelope(batch, labels, keeps_order=False)
        yield pa.record_batch({"edges": pa.array([envelope], pa.binary())})


class Packer(Shipped):
    """What a task runs: tuples become envelopes, without those that none of the queries reads.  For `mapInArrow`."""

    def __init__(self, queries: Sequence[LabelReader] | None) -> None:
        self._queries = None if queries is None else tuple(queries)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pack(batches, self._queries)


class PlacedPacker(Shipped):
    """What a task runs: tuples in an order that is to be kept become envelopes with their places in it.  For `mapInArrow`.

    That is the order of files, by their names, and of the rows in them; or, where the tuples have no file, of tasks.
    """

    def __init__(self, queries: Sequence[LabelReader]) -> None:
        self._queries = tuple(queries)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        name = f"{task.partitionId() if task else 0:010d}"
        count = 0
        labels = _Labels(self._queries)
        for table in _pieces(_by_file(batches)):
            if "row" in table.column_names:
                file, row = table["file"][0].as_py(), table["row"][0].as_py()
                yield _placed_row(_envelope(table, labels, keeps_order=True)[0], file, row)
            else:
                yield _placed_row(_envelope(table, labels, keeps_order=True)[0], name, count)
            count += len(table)


def pack_file(tables: Iterable[pa.Table], file: str, queries: Sequence[LabelReader]) -> Iterator[pa.RecordBatch]:
    """The tuples of one file, in pieces of an envelope each, with their places. Raises `InputError` at what is none."""
    labels = _Labels(queries)
    row = 0
    for table in tables:
        envelope, _ = _envelope(table, labels, keeps_order=True, place=(file, row))
        yield _placed_row(envelope, file, row)
        row += len(table)


def _placed_row(envelope: bytes, file: str, row: int) -> pa.RecordBatch:
    place = {"file": pa.array([file], pa.string()), "row": pa.array([row], pa.int64())}
    return pa.record_batch({**place, "edges": pa.array([envelope], pa.binary())})


def unpack(envelopes: Iterable[bytes], *, keeps_order: bool = False) -> Tuples:
    """The tuples of a micro-batch in the order in which they are applied.

    By timestamp; ties by sequence where there is one, else, and among equal sequences, deletes before inserts; or, with
    `keeps_order`, as they are.  Raises `StateFormatError` for an envelope that is not as it was packed.
    """
    tables = [unpack_table(envelope, columns=_COLUMNS, name="an envelope of edges") for envelope in envelopes]
    dropped, ticks = 0, []
    for table in tables:
        count, tick = _dropped_and_tick(table)
        dropped += count
        ticks += [tick] if count else []
    table = pa.concat_tables([table.replace_schema_metadata() for table in tables])
    if not keeps_order:
        order = _order(table)
        if order is not None:
            table = table.take(pa.array(order))
    return Tuples(table=table, dropped=dropped, tick=max(ticks, default=None))


def engine_columns(table: pa.Table) -> pa.Table:
    """The columns that an engine takes, of those of an envelope."""
    return table.select(list(_COLUMNS))


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of batches, about as many at a time as go into an envelope; never of two files."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_other = "row" in batch.schema.names and held and batch["file"][0] != held[0]["file"][0]
        if rows >= ROWS or is_other:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
        held.append(batch)
        rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches that have rows of one file each."""
    for batch in batches:
        if "row" not in batch.schema.names or not batch.num_rows:
            yield batch
            continue
        begin = 0
        for end in pc.run_end_encode(batch["file"]).run_ends.to_pylist():
            yield batch.slice(begin, end - begin)
            begin = end


class _Labels:
    """Which labels are read."""

    def __init__(self, queries: Sequence[LabelReader] | None) -> None:
        self.are_all_read = queries is None
        self.read = lru_cache(_KNOWN_LABELS)(lambda label: any(query.reads(label) for query in queries or ()))


def _envelope(
    table: pa.Table, labels: _Labels, *, keeps_order: bool, place: tuple[str, int] | None = None
) -> tuple[bytes, int]:
    """The tuples packed, and how many they are; `place` is the file and the row of the first, where no column tells that."""
    _check(table, place)
    table = table.drop_columns([name for name in _PLACES if name in table.column_names]).combine_chunks()
    table = table.append_column("delete", pc.equal(table["op"], "-")).drop_columns(["op"])
    stamps = table["timestamp"].to_numpy()
    if keeps_order:
        is_sorted = bool((np.diff(stamps) >= 0).all())
    else:
        is_sorted = True
        order = _order(table)
        table = table if order is None else table.take(pa.array(order))
        stamps = table["timestamp"].to_numpy()
    if labels.are_all_read or not is_sorted:
        # Out of order one that nothing reads may be what makes the next one late.
        return pack_table(table), len(table)
    texts = table["label"].combine_chunks().dictionary_encode()
    read = np.array([labels.read(label) for label in texts.dictionary.to_pylist()], bool)[texts.indices.to_numpy()]
    dropped = len(table) - int(read.sum())
    if dropped:
        tick = int(stamps[~read].max())
        table = table.filter(pa.array(read)).replace_schema_metadata({"dropped": str(dropped), "tick": str(tick)})
    return pack_table(table), len(table)


def _check(table: pa.Table, place: tuple[str, int] | None) -> None:
    """Raise `InputError` at the first tuple without a value, or with an op that there is not."""
    for name in table.column_names:
        if name not in _PLACES and table[name].null_count:
            row = pc.index(pc.is_null(table[name]), True).as_py()
            lacks = "op, or no delete" if name == "op" else name
            raise _input_error(table, row, name, f"a tuple has no {lacks}; expected a value in every row", place)
    for name in ("source", "target", "label"):
        if pa.types.is_string(table[name].type) and (row := pc.index(pc.equal(table[name], ""), True).as_py()) >= 0:
            raise _input_error(table, row, name, EMPTY, place)
    wrong = pc.invert(pc.is_in(table["op"], pa.array(["+", "-"])))
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        problem = f"{table['op'][row].as_py()!r} is no operation; '+' inserts, '-' deletes, or delete is true or false"
        raise _input_error(table, row, "op", problem, place)


def _input_error(table: pa.Table, row: int, column: str, problem: str, place: tuple[str, int] | None) -> InputError:
    """What is wrong with a tuple, where it is, as far as that is known, and what it says."""
    said = ", ".join(
        f"{name} {value!r}" for name, value in table.slice(row, 1).to_pylist()[0].items() if name not in _PLACES
    )
    file, number = (None, None) if place is None else (place[0], place[1] + row)
    if "file" in table.column_names:
        file = table["file"][row].as_py()
        number = table["row"][row].as_py() if "row" in table.column_names else None
    where = "" if file is None else f"{file}: " if number is None else f"{file}: row {number + 1}: "
    return InputError(f"{where}column {column!r}: {problem} (the tuple: {said})", file=file, column=column)


def _order(table: pa.Table) -> np.ndarray | None:
    """The rows in the order in which they are applied; None if that is how they are."""
    stamps = table["timestamp"].to_numpy()
    keys = [~table["delete"].to_numpy(zero_copy_only=False)]
    if _SEQUENCE in table.column_names:
        keys.append(table[_SEQUENCE].to_numpy())
    steps = np.diff(stamps)
    if (steps > 0).all():
        return None
    order = np.lexsort([*keys, stamps])
    return None if (order == np.arange(len(order))).all() else order


def _dropped_and_tick(table: pa.Table) -> tuple[int, int]:
    """How many tuples an envelope lacks, and the time of the latest."""
    about = table.schema.metadata or {}
    if b"dropped" not in about:
        return 0, 0
    try:
        dropped, tick = int(about[b"dropped"]), int(about[b"tick"])
    except (KeyError, ValueError) as problem:
        raise damaged(TUPLES, "an envelope of edges", f"what it lacks is {about!r}") from problem
    if dropped < 1 or not EARLIEST <= tick <= INT64_MAX:
        raise damaged(TUPLES, "an envelope of edges", f"what it lacks is {about!r}")
    return dropped, tick
