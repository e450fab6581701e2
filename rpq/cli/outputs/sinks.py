"""Sinks for rows (`rpq.Sink`): text files, Parquet files, standard output, and sinks of other packages.

A sink takes tables of answer changes and writes the columns of a query, `timestamp,op` and, with witnesses, `path`.
Files are opened, put in place and discarded by `rpq.files.destinations`.  Two kinds of files can be resumed after a crash:
after `position()` everything written is on disk, and a later sink that is opened at the position which it returned
discards everything written after it.

==================  ============================================  ==================================================
sink                output                                        position
==================  ============================================  ==================================================
`TextSink`           to a file that is put in place at the end,    the length of the file in bytes; of a compressed
                     or as rows come (resumable, growing)          one up to the end of a frame, which `position` ends
`ParquetSink`        to a file that is put in place at the end     none: an unfinished Parquet file is no file
`ResumableParquet`   to `FILE.rows`, turned into FILE at the end   the number of rows
==================  ============================================  ==================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.cli.outputs.formats import (
    COLUMNS,
    ENDINGS,
    FORMS,
    N_QUADS_ENDINGS,
    PAIR,
    QUERY_COLUMN,
    TEXT_FORMS,
    WHOLE_FORMS,
    SinkError,
    check_edges,
    check_end,
    check_suffix,
    columns_of,
    computed_columns,
    with_computed_columns,
)
from rpq.files import destinations
from rpq.files.compression import FRAMES, ArrowFile, CompressionFrame
from rpq.rows.table_formats import CSV, JSON_LINES, MESSAGES, LineFormat, json_lines, parquet_writer
from rpq.rows.typed_columns import WITNESS_COLUMNS
from rpq.stream.sinks import Sink

if TYPE_CHECKING:
    from pyarrow import parquet as pq

__all__ = [
    "COLUMNS",
    "ENDINGS",
    "QUERY_COLUMN",
    "ParquetSink",
    "ResumableParquet",
    "RowSink",
    "SinkError",
    "TextSink",
    "check_edges",
    "check_suffix",
    "columns_of",
    "destination",
    "frames_path",
    "open_sink",
    "with_times",
]

ROW_GROUP_ROWS = 1 << 20
"""The number of rows in a Parquet row group, and so about the most rows buffered in memory."""

_COPIED_BYTES = 1 << 20
_FRAME = np.dtype("<u8")
_FRAME_WORDS = 2  # rows, bytes


class RowSink(Sink, Protocol):
    """A sink that takes tables with at least its columns, and is open already.

    `rows` counts those written; computed values come as terms if it `wants_terms`.
    """

    rows: int
    wants_terms: bool = False

    def append(self, part: str) -> None:
        """Write the rows of a sink that was opened for a part of this one."""

    def close(self) -> None:
        """Write buffered rows and complete the output.

        If a `write` failed or was interrupted, an output that would be put in place at the end is discarded, and one that is
        written in place is cut after the last complete rows.
        """

    def discard(self) -> None:
        """Leave the output as it was before this sink, unless something was written in place already."""


def open_sink(
    path: str,
    answers: Sequence[str] = PAIR,
    *,
    witness: bool = False,
    message: bool = False,
    with_query: bool = False,
    resumable: bool = False,
    grows: bool = False,
    position: int | None = None,
    part: str | None = None,
) -> RowSink:
    """Open the output for a path, whose ending determines the format (`ENDINGS`); `-` is standard output, as CSV.

    `answers` are the columns of a query's answers; `with_query` adds the query's name as the first column.  A `resumable`
    sink resumes at `position`, or begins anew if that is None.  With `grows` the file is written in place where the format
    allows it (text), so that readers can follow it; without either, `close` puts the file in place.  Devices and FIFOs get
    CSV unless their names have another ending.  With a `message` rows have such a column, and standard output has it alone.
    A `part` is a file that gets the rows in place of the output, in the form in which the output appends them (`append`).
    Raises `SinkError` for an unknown ending, a file that cannot be written, and one that is shorter than the position.
    """
    ending = check_suffix(path)
    of_edges = ending in N_QUADS_ENDINGS
    if of_edges:
        check_edges(path, answers)
    of_rows: dict[str, bool] = {"witness": witness and not of_edges, "message": message}
    columns = columns_of(answers, **of_rows, with_query=with_query or of_edges)
    if resumable and (path == destinations.STANDARD_STREAM or not destinations.is_regular(path)):
        raise SinkError(f"{path}: cannot be resumed; expected the name of a regular file")
    if ending == ".parquet":
        with _sink_errors():
            if part is not None:
                return ParquetSink(part, columns)
            return ResumableParquet(path, columns, position=position) if resumable else ParquetSink(path, columns)
    form, packed = os.path.splitext(ending) if ending.endswith(tuple(FRAMES)) else (ending, "")
    if form in WHOLE_FORMS and position is not None:
        check_end(path, position)
    file = destination(part or path, grows=grows or resumable, position=position)
    lines = (TEXT_FORMS | WHOLE_FORMS)[form]
    if message and path == destinations.STANDARD_STREAM:
        lines = MESSAGES
    if lines is JSON_LINES and witness:
        lines = replace(lines, encode=partial(json_lines, json_columns=WITNESS_COLUMNS[:1]))
    written = with_computed_columns(lines, answers)
    if part is not None:
        written, packed = _part_format(written), ""
    sink = TextSink(file, columns, lines=written, packed=packed, position=position)
    sink.wants_terms = lines in FORMS and bool(computed_columns(answers))
    return sink


def _part_format(lines: LineFormat) -> LineFormat:
    return replace(lines, header=lambda columns: b"", footer=b"")


def destination(path: str, *, grows: bool, position: int | None = None) -> destinations.Destination:
    """Open the destination of text for a path, as described for `open_sink`.  Raises `SinkError`."""
    if path == destinations.STANDARD_STREAM:
        return destinations.BorrowedFile(sys.stdout.buffer)
    with _sink_errors():
        if grows and destinations.is_regular(path):
            return destinations.GrowingFile(path, position=position)
        return destinations.Replacement(path)


@contextmanager
def _sink_errors() -> Iterator[None]:
    try:
        yield
    except destinations.WriteError as error:
        raise SinkError(str(error)) from error


class TextSink(RowSink):
    """A sink that writes rows as lines, by default as CSV with a header; compressed if `packed` is an ending such as `.gz`.

    Without compression, rows have reached the operating system when `write` returns; with compression, when `position` or
    `close` ends the frame.  With a `position` the destination already has that many bytes.
    """

    guarantee = "rewind"

    def __init__(
        self,
        destination: destinations.Destination,
        columns: Sequence[str],
        *,
        lines: LineFormat = CSV,
        packed: str = "",
        position: int | None = None,
    ) -> None:
        self.rows = 0
        self._destination = destination
        self._columns = list(columns)
        self._lines = lines
        self._new_frame = FRAMES.get(packed)
        self._frame: CompressionFrame | None = None
        self._is_resumed = self._has_begun = position is not None
        self._bytes = self._complete_bytes = position or 0
        self._has_lines = self._bytes > len(lines.header(self._columns))
        self._is_broken = False
        if destination.begins_at_once:
            try:
                with self._note_failures():
                    self._begin()
            except BaseException:
                self.discard()
                raise

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        with self._note_failures():
            self._begin()
            for lines in self._lines.encode(rows.select(self._columns)):
                if self._has_lines and self._lines.between:
                    self._pack(self._lines.between)
                self._pack(lines)
                self._has_lines = True
            if self._frame is None:
                self._hand_over()
        self.rows += rows.num_rows

    def append(self, part: str) -> None:
        with open(part, "rb") as file, self._note_failures():
            self._begin()
            if os.path.getsize(part) and self._has_lines and self._lines.between:
                self._pack(self._lines.between)
            while data := file.read(_COPIED_BYTES):
                self._pack(data)
                self.rows += data.count(b"\n")
                self._has_lines = True
            if self._frame is None:
                self._hand_over()

    def position(self) -> int | None:
        if not self._has_begun:
            return None
        with self._note_failures():
            self._end_frame()
            destinations.synchronise(self._destination.file)
        return self._bytes

    def close(self) -> None:
        if self._is_broken:
            self.discard()
            return
        try:
            with self._note_failures():
                self._begin()
                if self._lines.footer:
                    self._pack(self._lines.footer)
                self._end_frame()
                self._destination.put_in_place()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        self._destination.discard(whole=self._complete_bytes if self.rows or self._is_resumed else 0)

    @contextmanager
    def _note_failures(self) -> Iterator[None]:
        try:
            with destinations.write_errors(self._destination.path):
                yield
        except BaseException:
            self._is_broken = True
            raise

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._pack(self._lines.header(self._columns))
            if self._frame is None:
                self._hand_over()

    def _pack(self, data: bytes | pa.Buffer) -> None:
        if self._new_frame is None:
            self._put(data)
            return
        self._frame = self._frame or self._new_frame()
        self._put(self._frame.compress(data))

    def _end_frame(self) -> None:
        if self._frame is not None:
            self._put(self._frame.end())
            self._frame = None
        self._hand_over()

    def _put(self, data: bytes | pa.Buffer) -> None:
        view = memoryview(data)
        while view:  # an unbuffered file may write only a part
            written = self._destination.file.write(view)
            view = view[written:] if written else view
        self._bytes += len(memoryview(data))

    def _hand_over(self) -> None:
        self._destination.file.flush()
        self._complete_bytes = self._bytes


class ParquetSink(RowSink):
    """A sink that writes one Parquet file, in row groups of about `ROW_GROUP_ROWS`; its name exists once it is complete.

    The first rows determine the types of the columns, which are those of the input's vertices; without rows they are text.
    """

    guarantee = "none"

    def __init__(self, path: str, columns: Sequence[str], *, row_group_rows: int = ROW_GROUP_ROWS) -> None:
        self.rows = 0
        self._path = path
        self._columns = columns
        self._row_group_rows = row_group_rows
        self._destination = destinations.Replacement(path)
        self._writer: pq.ParquetWriter | None = None
        self._buffer = RowBuffer()
        self._is_broken = False

    def write(self, rows: pa.Table) -> None:
        self._buffer.add(without_dictionaries(rows, self._columns))
        self.rows += rows.num_rows
        if self._buffer.rows >= self._row_group_rows:
            self._write_group(self._buffer.take())

    def append(self, part: str) -> None:
        from pyarrow import parquet

        with parquet.ParquetFile(part) as file:
            for group in range(file.num_row_groups):
                self.write(file.read_row_group(group))

    def _write_group(self, rows: pa.Table) -> None:
        try:
            if self._writer is None:
                file = _CountingFile(self._destination.file)
                self._writer = parquet_writer(file, rows.schema)
            self._writer.write_table(self._cast_rows(rows, self._writer.schema), row_group_size=self._row_group_rows)
        except BaseException as error:
            self._is_broken = True
            if isinstance(error, pa.ArrowInvalid):  # Parquet has no seconds
                raise SinkError(
                    f"{self._path}: cannot store a timestamp: {error}; expected an output in CSV or JSON lines, or numbers "
                    "(without --times)"
                ) from error
            raise

    def _cast_rows(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows in the types of the file, which those of a property may have outgrown. Raises `SinkError`."""
        if rows.schema.equals(schema):
            return rows
        try:
            return rows.cast(schema)
        except (pa.ArrowException, ValueError) as problem:
            raise SinkError(
                f"{self._path}: later rows have values that do not fit the types of its columns: {problem}; expected "
                "inputs with decimals of one type, or an output in CSV or JSON lines"
            ) from problem

    def close(self) -> None:
        try:
            if self._is_broken:
                return
            if self._buffer.rows or self._writer is None:
                self._write_group(self._buffer.take() if self._buffer.rows else _no_rows(self._columns))
            assert self._writer is not None
            self._writer.close()
            self._destination.put_in_place()
        finally:
            self.discard()

    def discard(self) -> None:
        if self._writer is not None and self._writer.is_open:
            with suppress(Exception):  # the footer of a file that is discarded
                self._writer.close()
            self._writer.is_open = False  # otherwise it tries again when it is collected
        self._destination.discard()


class _CountingFile(ArrowFile):
    """A file that counts the bytes written to it, since a FIFO has no position."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._bytes = 0

    def write(self, data: Any) -> int:
        self._bytes += len(memoryview(data))
        return self._file.write(data)

    def tell(self) -> int:
        return self._bytes

    def flush(self) -> None:
        self._file.flush()


class RowBuffer:
    """Tables that are buffered until they are written together."""

    def __init__(self) -> None:
        self.rows = 0
        self._tables: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables.append(rows)
            self.rows += rows.num_rows

    def take(self) -> pa.Table:
        rows = pa.concat_tables(self._tables, promote_options="permissive")  # decimals may have more digits than before
        self._tables, self.rows = [], 0
        return rows


def _no_rows(columns: Sequence[str]) -> pa.Table:
    types = {"timestamp": pa.int64(), WITNESS_COLUMNS[1]: pa.list_(pa.int64())}
    return pa.schema([(name, types.get(name, pa.string())) for name in columns]).empty_table()


class ResumableParquet(RowSink):
    """A sink that collects rows in `FILE.rows`, which survives a crash, and writes the Parquet file at the end.

    A Parquet file without its footer cannot be read, and a finished one cannot be extended.  So the rows are collected in a
    file of frames, each a header (rows, bytes) and an Arrow stream, which can be cut after any frame.  `close` writes the
    Parquet file, gives it its name, and then removes the frames; a sink opened at a position restores missing frames from
    the Parquet file.  Whenever the process is killed, one of the two files has all rows up to the last `position`.  This
    costs the compressed size of the rows on disk, and one more pass over them.
    """

    guarantee = "rewind"

    def __init__(self, path: str, columns: Sequence[str], *, position: int | None = None) -> None:
        destinations.check_writable(path)
        self.rows = 0
        self._path = path
        self._columns = columns
        self._frames_path = frames_path(path)
        self._buffer = RowBuffer()
        self._before = position or 0
        self._is_broken = self._has_position = False
        if not self._before:
            self._frames = destinations.GrowingFile(self._frames_path)
            return
        if not os.path.exists(self._frames_path):
            self._restore_frames(self._before)
        self._frames = destinations.GrowingFile(self._frames_path, position=self._frames_end(self._before))
        self._has_position = True

    def write(self, rows: pa.Table) -> None:
        self._buffer.add(without_dictionaries(rows, self._columns))
        self.rows += rows.num_rows
        if self._buffer.rows >= ROW_GROUP_ROWS:
            self._write_buffer()

    def _write_buffer(self) -> None:
        try:
            _write_frame(self._frames.file, self._buffer.take())
        except BaseException:
            self._is_broken = True
            raise

    def append(self, part: str) -> None:
        raise SinkError(f"{self._path}: parts cannot be appended to an output that can be resumed")

    def position(self) -> int | None:
        if self._buffer.rows:
            self._write_buffer()
        if not self._before + self.rows:
            return None
        try:
            destinations.synchronise(self._frames.file)
        except BaseException:
            self._is_broken = True
            raise
        self._has_position = True
        return self._before + self.rows

    def close(self) -> None:
        if self._is_broken:
            self.discard()
            return
        self.position()
        self._frames.put_in_place()
        finished = ParquetSink(self._path, self._columns)
        try:
            for rows in _read_frames(self._frames_path):
                finished.write(rows)
            finished.close()
        finally:
            finished.discard()
        os.remove(self._frames_path)

    def discard(self) -> None:
        """Keep the frames from which a checkpoint may resume; a sink opened at its position cuts them there."""
        self._frames.discard(whole=os.path.getsize(self._frames_path) if self._has_position else 0)

    def _restore_frames(self, rows: int) -> None:
        """Write the first rows of the finished file as frames again."""
        from pyarrow import parquet as pq

        if not os.path.exists(self._path):
            raise SinkError(f"{self._path}: is missing, but the checkpoint continues after {rows:,} rows in it")
        left = rows
        with destinations.open_replacement(self._frames_path) as file:
            for batch in pq.ParquetFile(self._path).iter_batches(batch_size=ROW_GROUP_ROWS):
                part = batch.slice(0, left)
                _write_frame(file, pa.Table.from_batches([part]))
                left -= part.num_rows
                if not left:
                    break
            else:
                raise SinkError(
                    f"{self._path}: has fewer rows than the {rows:,} after which the checkpoint continues; it was changed"
                )

    def _frames_end(self, rows: int) -> int:
        """Return the offset in the file of frames after this many rows."""
        with open(self._frames_path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            position = counted = 0
            while counted < rows:
                header = np.frombuffer(file.read(_FRAME_WORDS * _FRAME.itemsize), dtype=_FRAME)
                if len(header) < _FRAME_WORDS:
                    break
                counted += int(header[0])
                position = file.seek(int(header[1]), os.SEEK_CUR)
        if counted != rows or position > size:
            raise SinkError(
                f"{self._frames_path}: does not have the {rows:,} rows after which the checkpoint continues; it was changed"
            )
        return position


def _write_frame(file: IO[bytes], rows: pa.Table) -> None:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    data = out.getvalue()
    file.write(np.array([rows.num_rows, data.size], dtype=_FRAME).tobytes())
    file.write(memoryview(data))


def _read_frames(path: str) -> Iterator[pa.Table]:
    with open(path, "rb") as file:
        while header := file.read(_FRAME_WORDS * _FRAME.itemsize):
            yield pa.ipc.open_stream(file.read(int(np.frombuffer(header, dtype=_FRAME)[1]))).read_all()


def frames_path(path: str) -> str:
    """Return the path of the frames of a resumable Parquet output."""
    return f"{path}.rows"


def with_times(tuples: pa.RecordBatch, times: pa.DataType | None) -> pa.RecordBatch:
    """Return tuples whose timestamps are times of a type, at no cost; the same tuples if that is None."""
    if times is None or "timestamp" not in tuples.schema.names:
        return tuples
    place = tuples.schema.names.index("timestamp")
    return tuples.set_column(place, "timestamp", tuples.column(place).view(times))


def without_dictionaries(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns, in this order, without dictionaries."""
    rows = rows.select(list(columns))
    for index, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(index, field.name, rows.column(index).cast(field.type.value_type))
    return rows


LATE_COLUMNS = ("source", "target", "label", "timestamp", "op")


class LateFile:
    """A file of late tuples in the format `edges`: CSV with a header, compressed if the name has such an ending.

    The columns of `properties` follow those of a tuple. Timestamps are written in the type `times` if that is given.
    `grows`, `position` and `part` are those of `open_sink`; `sink` is resumed, closed and discarded like others.
    """

    def __init__(
        self,
        path: str,
        *,
        grows: bool = False,
        position: int | None = None,
        properties: Sequence[str] = (),
        times: pa.DataType | None = None,
        part: str | None = None,
    ) -> None:
        ending = os.path.splitext(path)[1].lower() if part is None else ""
        file = destination(part or path, grows=grows, position=position)
        self._properties = tuple(properties)
        self._times = times
        names = (*LATE_COLUMNS, *self._properties)
        lines = CSV if part is None else _part_format(CSV)
        self.sink = TextSink(file, names, lines=lines, packed=ending if ending in FRAMES else "", position=position)

    def write(self, tuples: pa.RecordBatch, late: np.ndarray) -> None:
        """Write the tuples of a pushed batch with these row numbers."""
        if not len(late):
            return
        rows = with_times(tuples, self._times).take(pa.array(late, pa.int64()))
        deletes = rows.column("delete") if "delete" in rows.schema.names else pa.array([False] * len(late))
        columns = [*(rows.column(name) for name in LATE_COLUMNS[:-1]), pc.if_else(deletes, "-", "+")]
        columns += [rows.column(name) for name in self._properties]
        self.sink.write(pa.Table.from_arrays(columns, names=[*LATE_COLUMNS, *self._properties]))
