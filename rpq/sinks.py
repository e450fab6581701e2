"""Where the rows of a result go: CSV files, Parquet files, standard output.

A sink takes tables of answer changes and writes their columns `source,target,timestamp,op` and, with witnesses,
`path`.  Two kinds of sinks go on after a crash: after `commit()` everything written is on disk, and a later sink that
is opened at the position which `commit` returned throws away what was written behind it.

==================  ============================================  ==================================================
sink                 written                                       position
==================  ============================================  ==================================================
`CsvSink`            as rows come; RFC 4180, quotes where needed   the length of the file in bytes
`ParquetSink`        to a temporary file, renamed at the end       none: an unfinished Parquet file is no file
`ResumableParquet`   to `FILE.rows`, turned into FILE at the end   the number of rows
==================  ============================================  ==================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from rpq.errors import RpqError

COLUMNS = ("source", "target", "timestamp", "op")
"""The columns of every output, in this order."""

WITNESS_COLUMN = "path"
"""The further column of outputs with witnesses."""

ROW_GROUP_ROWS = 1 << 20
"""Rows of a Parquet row group, and so about the most that is held back in memory."""

_SPECIAL = b'",\r\n'
_TEXT = {text: pa.scalar(text, pa.large_string()) for text in ('"', ",", "\n", "")}
_FRAME = np.dtype("<u8")
_FRAME_WORDS = 2  # rows, bytes


class SinkError(RpqError):
    """An output that cannot be opened, or not be gone on with."""


class Sink(Protocol):
    """Where rows go."""

    def write(self, rows: pa.Table) -> None:
        """Write the rows of a table that has at least the sink's columns."""

    def commit(self) -> int:
        """Put everything written so far on disk, and return the position behind it."""

    def close(self) -> None:
        """Write what is held back and close the output: from here on it is whole."""


def open_sink(path: str, *, witness: bool = False, resumable: bool = False, position: int | None = None) -> Sink:
    """Open the output for a path that ends in `.csv` or `.parquet`.

    A `resumable` sink goes on at `position`, or begins anew if that is None.  Raises `SinkError` for another ending, a
    file that cannot be written, and one that is shorter than the position.
    """
    columns = (*COLUMNS, WITNESS_COLUMN) if witness else COLUMNS
    suffix = check_suffix(path)
    try:
        if suffix == ".csv":
            return CsvSink.open(path, columns, position=position)
        return ResumableParquet(path, columns, position=position) if resumable else ParquetSink(path, columns)
    except OSError as error:
        raise SinkError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_suffix(path: str) -> str:
    """Return the ending of an output's name, in lower case; raise `SinkError` if it is not a known one."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (".csv", ".parquet"):
        raise SinkError(f"{path}: the ending tells the format: expected a name that ends in .csv or .parquet, or -")
    return suffix


def csv_lines(rows: pa.Table) -> Iterator[pa.Buffer]:
    """Yield the lines of a table as RFC 4180 CSV without header; values are quoted only where they need it.

    >>> rows = pa.table({"source": ["a", "b,c"], "timestamp": [1, 2]})
    >>> b"".join(buffer.to_pybytes() for buffer in csv_lines(rows))
    b'a,1\\n"b,c",2\\n'
    """
    for batch in rows.to_batches():
        texts = [_decoded(column) for column in batch.columns]
        if any(_has_special(column) for column in texts):
            yield _quoted_lines(texts)
            continue
        # Arrow's own "needed" puts quotes around every string; "none" is as fast, and right where nothing is special.
        out = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 14)
        pa.csv.write_csv(pa.RecordBatch.from_arrays(texts, names=batch.schema.names), out, options)
        yield out.getvalue()


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _has_special(column: pa.Array) -> bool:
    """Whether a text column holds a byte that CSV must quote (bytes next to a slice may be looked at too)."""
    if not _is_text(column) or column.buffers()[2] is None:
        return False
    data = np.frombuffer(column.buffers()[2], dtype=np.uint8)
    return any(bool((data == byte).any()) for byte in _SPECIAL)


def _quoted_lines(columns: Sequence[pa.Array]) -> pa.Buffer:
    cells = []
    for column in columns:
        if not _is_text(column):
            cells.append(column.cast(pa.string()))
            continue
        text = column.cast(pa.large_string())
        special = pc.match_substring_regex(text, '[",\r\n]')
        quoted = pc.binary_join_element_wise(_TEXT['"'], pc.replace_substring(text, '"', '""'), _TEXT['"'], _TEXT[""])
        cells.append(pc.if_else(special, quoted, text))
    cells = [pc.fill_null(cell.cast(pa.large_string()), "") for cell in cells]
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, _TEXT[","]), _TEXT["\n"], _TEXT[""])
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


class CsvSink:
    """Rows as CSV with a header; whatever `write` was given has reached the operating system when it returns.

    `position` goes on behind that many bytes of an existing file; None writes a new one.
    """

    def __init__(self, file: IO[bytes], columns: Sequence[str], *, is_new: bool = True, close: bool = True) -> None:
        self._file = file
        self._columns = list(columns)
        self._close = close
        if is_new:
            self._write((",".join(columns) + "\n").encode())
            self._file.flush()

    @classmethod
    def open(cls, path: str, columns: Sequence[str], *, position: int | None = None) -> CsvSink:
        """Open a file: a new one, or an old one cut to `position` bytes; `SinkError` if it has fewer."""
        if position is None:
            return cls(open(path, "wb"), columns)
        return cls(reopen(path, position), columns, is_new=False)

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        for lines in csv_lines(rows.select(self._columns)):
            self._write(lines)
        self._file.flush()

    def _write(self, data: bytes | pa.Buffer) -> None:
        view = memoryview(data)
        while view:  # an unbuffered file may take less than it is given
            written = self._file.write(view)
            view = view[written:] if written else view

    def commit(self) -> int:
        synchronise(self._file)
        return self._file.tell()

    def close(self) -> None:
        self._file.flush()
        if self._close:
            self._file.close()


def reopen(path: str, position: int) -> IO[bytes]:
    """Open a file to write on at `position`; what is behind it is cut off.  Raises `SinkError` if it is shorter."""
    try:
        file = open(path, "r+b")
    except FileNotFoundError as error:
        raise SinkError(f"{path}: is missing, but the checkpoint goes on from what was written to it") from error
    size = file.seek(0, os.SEEK_END)
    if size < position:
        file.close()
        raise SinkError(
            f"{path}: has {size:,} bytes, but the checkpoint goes on behind byte {position:,}; it was changed"
        )
    file.truncate(position)
    file.seek(position)
    return file


def synchronise(file: IO[bytes]) -> None:
    """Put what was written to a file on disk; what is no file on a disk (a pipe) is flushed."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError:  # a pipe, a terminal, a file in memory
        pass


class ParquetSink:
    """Rows as one Parquet file, in row groups of about `ROW_GROUP_ROWS`; the name exists once the file is whole.

    The first rows tell the types of the columns, those of the input's vertices; without any rows they are text.
    """

    def __init__(self, path: str, columns: Sequence[str], *, row_group_rows: int = ROW_GROUP_ROWS) -> None:
        self._path = path
        self._columns = columns
        self._temporary = f"{path}.tmp"
        self._row_group_rows = row_group_rows
        self._file: IO[bytes] = open(self._temporary, "wb")
        self._writer: pq.ParquetWriter | None = None
        self._held = _Held()

    def write(self, rows: pa.Table) -> None:
        self._held.add(plain(rows, self._columns))
        if self._held.rows >= self._row_group_rows:
            self._write_group(self._held.take())

    def _write_group(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, rows.schema, compression="zstd", compression_level=1)
        self._writer.write_table(rows, row_group_size=self._row_group_rows)

    def commit(self) -> int:
        raise SinkError(f"{self._path}: this output cannot be gone on with")

    def close(self) -> None:
        if self._held.rows or self._writer is None:
            self._write_group(self._held.take() if self._held.rows else _no_rows(self._columns))
        assert self._writer is not None
        self._writer.close()
        synchronise(self._file)
        self._file.close()
        os.replace(self._temporary, self._path)


class _Held:
    """Tables that wait to be written together."""

    def __init__(self) -> None:
        self.rows = 0
        self._tables: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables.append(rows)
            self.rows += rows.num_rows

    def take(self) -> pa.Table:
        rows = pa.concat_tables(self._tables)
        self._tables, self.rows = [], 0
        return rows


def _no_rows(columns: Sequence[str]) -> pa.Table:
    return pa.schema([(name, pa.int64() if name == "timestamp" else pa.string()) for name in columns]).empty_table()


class ResumableParquet:
    """Rows that become a Parquet file at the end, and until then stand in `FILE.rows`, which survives a crash.

    A Parquet file without its end cannot be read, and one that is finished cannot be written on.  So the rows are
    collected in a file of frames, each a header (rows, bytes) and an Arrow stream, which can be cut at any frame.
    `close` writes the Parquet file, gives it its name and then removes the frames; opened again at a position, the
    frames are made from the Parquet file where they are gone.  Whenever the process is killed, one of the two holds
    all rows up to the last `commit`.  Costs the rows' compressed size on disk, and one more pass over them.
    """

    def __init__(self, path: str, columns: Sequence[str], *, position: int | None = None) -> None:
        self._path = path
        self._columns = columns
        self._frames_path = f"{path}.rows"
        self._held = _Held()
        self._rows = position or 0
        if position is None:
            self._file: IO[bytes] = open(self._frames_path, "wb")
            return
        if not os.path.exists(self._frames_path):
            self._restore_frames(position)
        self._file = reopen(self._frames_path, self._frames_end(position))

    def write(self, rows: pa.Table) -> None:
        self._held.add(plain(rows, self._columns))
        self._rows += rows.num_rows
        if self._held.rows >= ROW_GROUP_ROWS:
            _write_frame(self._file, self._held.take())

    def commit(self) -> int:
        if self._held.rows:
            _write_frame(self._file, self._held.take())
        synchronise(self._file)
        return self._rows

    def close(self) -> None:
        self.commit()
        self._file.close()
        finished = ParquetSink(self._path, self._columns)
        for rows in _read_frames(self._frames_path):
            finished.write(rows)
        finished.close()
        os.remove(self._frames_path)

    def _restore_frames(self, rows: int) -> None:
        """Write the first rows of the finished file as frames again."""
        if rows and not os.path.exists(self._path):
            raise SinkError(f"{self._path}: is missing, but the checkpoint goes on from {rows:,} rows in it")
        temporary = f"{self._frames_path}.tmp"
        left = rows
        with open(temporary, "wb") as file:
            batches = pq.ParquetFile(self._path).iter_batches(batch_size=ROW_GROUP_ROWS) if rows else ()
            for batch in batches:
                part = batch.slice(0, left)
                _write_frame(file, pa.Table.from_batches([part]))
                left -= part.num_rows
                if not left:
                    break
            synchronise(file)
        if left:
            raise SinkError(
                f"{self._path}: has fewer rows than the {rows:,} that the checkpoint goes on from; it was changed"
            )
        os.replace(temporary, self._frames_path)

    def _frames_end(self, rows: int) -> int:
        """The position in the file of frames behind this many rows."""
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
                f"{self._frames_path}: does not have the {rows:,} rows that the checkpoint goes on from; it was changed"
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


def plain(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return these columns, in this order, without dictionaries."""
    rows = rows.select(list(columns))
    for index, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(index, field.name, rows.column(index).cast(field.type.value_type))
    return rows
