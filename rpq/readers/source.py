"""Bytes in blocks of whole lines, from a file, a pipe or standard input, decompressed if necessary.

A block always ends at the end of a line, so that blocks can be parsed one by one, and has the number of its first line, so
that an error can be located.  Memory: a block and a line.

Compressed input (gzip, bzip2, xz, zstd) is recognised by its first bytes.  If a file is truncated or damaged, everything
before that place is passed on before the error.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import re
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.providers import scheme_of
from rpq.stream.sources import SOURCES

_NEVER = b"\xff"
"""A byte that does not occur in UTF-8, which marks the unwritten part of a buffer."""


class DamagedError(Exception):
    """Compressed bytes that cannot be inflated; the message is the reason."""


class TruncatedError(DamagedError):
    """Compressed bytes that end too early."""


class _Decoder(Protocol):
    """The interface of the decompressors of `bz2` and `lzma`, for one member of a file."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Compression:
    """A compression: its name in messages, the first bytes and the suffix of its files, and its decompressor.

    `inflate` receives the chunks of a file and a number of bytes, and yields chunks of at most that many bytes; it raises
    `DamagedError`.
    """

    name: str
    magic: bytes
    suffix: str
    inflate: Callable[[Iterator[bytes], int], Iterator[bytes]]


def compression_of(begin: bytes) -> Compression | None:
    """Return the compression of a file that begins with these bytes.

    >>> compression_of(b"BZh91AY").name
    'bzip2'
    """
    return next((one for one in COMPRESSIONS if begin.startswith(one.magic)), None)


def compression_by_suffix(path: str) -> Compression | None:
    """Return the compression by the suffix of a file name."""
    return next((one for one in COMPRESSIONS if path.endswith(one.suffix)), None)


def _inflate_gzip(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    between = False  # after a member: zeros are padding
    try:
        for chunk in chunks:
            while chunk:
                if between:
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        break
                    decoder, between = zlib.decompressobj(wbits=31), False
                text = decoder.decompress(chunk, size)
                if text:
                    yield text
                between = decoder.eof
                chunk = decoder.unused_data if between else decoder.unconsumed_tail
        if not between:
            if text := decoder.flush():
                yield text
            if not decoder.eof:
                raise TruncatedError
    except zlib.error as error:
        raise DamagedError(str(error)) from error


def _inflate_members(
    chunks: Iterator[bytes], size: int, decoder_of: Callable[[], _Decoder], damaged: type[Exception]
) -> Iterator[bytes]:
    decoder = decoder_of()
    between = False
    try:
        for chunk in chunks:
            while chunk or not (between or decoder.needs_input):
                if between:
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        break
                    decoder, between = decoder_of(), False
                text = decoder.decompress(chunk, size)
                if text:
                    yield text
                between = decoder.eof
                chunk = decoder.unused_data if between else b""
        if not between:
            raise TruncatedError
    except damaged as error:
        raise DamagedError(str(error)) from error


def _inflate_bzip2(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    return _inflate_members(chunks, size, bz2.BZ2Decompressor, OSError)


def _inflate_xz(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    return _inflate_members(chunks, size, lzma.LZMADecompressor, lzma.LZMAError)


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a file object for Arrow."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            self._rest = self._rest or next(self._chunks, b"")
        except Exception as error:  # Arrow would replace the exception by one of its own
            self.error = error
        size = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _inflate_zstd(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Inflate with Arrow's codec, which fills a buffer: a pipe is passed on only when the buffer is full, or at its end."""
    source = _Chunks(chunks)
    with pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd") as stream:
        buffer = bytearray(size)
        while True:
            buffer[:] = _NEVER * size  # an error does not report how many bytes came before it
            try:
                count = stream.readinto(buffer)
            except OSError as error:
                if text := bytes(buffer).rstrip(_NEVER):
                    yield text
                if source.error is not None:
                    raise source.error from error
                raise (TruncatedError() if "Truncated" in str(error) else DamagedError(str(error))) from error
            if source.error is not None:
                raise source.error
            if not count:
                return
            yield bytes(memoryview(buffer)[:count])


COMPRESSIONS = (
    Compression(name="gzip", magic=b"\x1f\x8b", suffix=".gz", inflate=_inflate_gzip),
    Compression(name="bzip2", magic=b"BZh", suffix=".bz2", inflate=_inflate_bzip2),
    Compression(name="xz", magic=b"\xfd7zXZ\0", suffix=".xz", inflate=_inflate_xz),
    Compression(name="zstd", magic=b"\x28\xb5\x2f\xfd", suffix=".zst", inflate=_inflate_zstd),
)


STANDARD_INPUT = "-"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

FLUSH_SECONDS = 0.02
"""The longest time for which a line from a pipe waits for its block to fill."""

LONGEST_LINE = 1 << 26
"""In bytes; the limit prevents a line without an end from filling the memory."""


class InputSizeError(InputError):
    """An input from elsewhere is larger, with each of its values written out in full, than may be read at once."""


def check_size(size: int, *, most_bytes: int, name: str) -> None:
    """Raise `InputSizeError` if the values of the input `name`, written out in full, have over `most_bytes`.

    >>> check_size(7, most_bytes=6, name="the body")
    Traceback (most recent call last):
    rpq.readers.source.InputSizeError: the body: its values, each written out in full, have over 6 bytes; send in parts
    """
    if size > most_bytes:
        raise InputSizeError(f"{name}: its values, each written out in full, have over {most_bytes:,} bytes; send in parts")


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines: `data` begins with line number `line`, counted from 1; only the last block may lack a final line end."""

    data: bytes
    line: int


_BROKER_AND_TOPIC = re.compile(r"[\w.-]+:\d+/[\w.,-]+")
_PIPED = {
    "http": "curl -sS {path}",
    "https": "curl -sS {path}",
    "s3": "aws s3 cp {path} -",
    "gs": "gcloud storage cat {path}",
    "hdfs": "hdfs dfs -cat {path}",
    "mqtt": "mosquitto_sub -L {path}",
    "mqtts": "mosquitto_sub -L {path}",
}
"""Commands that write what a URI names to standard output."""


def unsupported_scheme(path: str) -> str | None:
    """Return why a URI is not read as an input, and what to do instead; None for a path of a file.

    >>> unsupported_scheme("ftp://host/edges.csv").split("; ")[:2]
    ['URLs of ftp:// are not read', 'expected the path of a file, - for standard input, or kafka://BROKER/TOPIC']
    >>> unsupported_scheme("edges.csv")
    """
    scheme = scheme_of(path)
    if scheme is None:
        return None
    what = f"URLs of {scheme}:// are not read"
    if scheme == "file":
        return f"{what}; give the path alone, {path[len('file://') :]}"
    if scheme == "kafka":
        return f"{what}; topics are read with --input of rpq run, rpq serve and rpq spark stream"
    if SOURCES.has(path):
        return f"{what}; sources are read with --input of rpq run and rpq serve"
    package = f"; or install a package with a source for {scheme} (entry point {SOURCES.group})"
    if (command := _PIPED.get(scheme)) is not None:
        return f"{what}; copy it to a file, or pipe it in: {command.format(path=path)} | rpq run … --input -{package}"
    return f"{what}; expected the path of a file, - for standard input, or kafka://BROKER/TOPIC{package}"


class ByteSource:
    """The bytes of one input: a path, or `-` for standard input; compression is recognised by the first bytes.

    `name` is the name in messages, `size` the bytes on disk (None for a pipe), `position` the number of bytes read.
    Raises `InputError` at once if there is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = "<stdin>" if self.path == STANDARD_INPUT else self.path
        self.position = 0
        try:
            status = os.fstat(0) if self.path == STANDARD_INPUT else os.stat(self.path)
        except OSError as error:
            raise self._unreadable(error) from error
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{self.name}: is a directory; expected a file", file=self.name)
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None

    def blocks(self, size: int) -> Iterator[LineBlock]:
        """Yield the text in blocks of about `size` bytes; an error is raised after all whole lines before it."""
        pending: list[bytes] = []
        line = 1
        for chunk in self.chunks(size):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                pending.append(chunk)
                if sum(map(len, pending)) > LONGEST_LINE:
                    raise InputError(
                        f"{self.name}:{line}: the line is longer than {LONGEST_LINE:,} bytes; expected one tuple per line",
                        file=self.name,
                        line=line,
                    )
                continue
            pending.append(chunk[:cut])
            data = b"".join(pending)
            pending = [chunk[cut:]] if cut < len(chunk) else []
            yield LineBlock(data, line)
            line += count_lines(data)
        if pending:
            yield LineBlock(b"".join(pending), line)

    def reopen(self) -> ByteSource:
        """Return a source of the same file, which begins anew."""
        return ByteSource(self.path)

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the text in chunks of about `size` bytes, which can end anywhere."""
        for number, chunk in enumerate(self._text(size)):
            yield chunk if number else chunk.removeprefix(BYTE_ORDER_MARK)

    def _text(self, size: int) -> Iterator[bytes]:
        """Yield the bytes, inflated if they are compressed."""
        chunks = self._read(size)
        first = b""
        for chunk in chunks:
            first += chunk
            if not _may_be_compressed(first):
                break
        compression = compression_of(first)
        named = compression_by_suffix(self.path)
        if named is not None and compression is not named:
            found = f", but {compression.name}" if compression is not None else ""
            raise InputError(f"{self.name}: is not a {named.name} file, as its name says{found}", file=self.name)
        rest = _chain(first, chunks)
        yield from self._inflate(rest, size, compression) if compression is not None else rest

    def _read(self, size: int) -> Iterator[bytes]:
        try:
            flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
            descriptor = 0 if self.path == STANDARD_INPUT else os.open(self.path, flags)
            try:
                read = _read_file if stat.S_ISREG(os.fstat(descriptor).st_mode) else _read_pipe
                for chunk in read(descriptor, size):
                    self.position += len(chunk)
                    yield chunk
            finally:
                if descriptor:
                    os.close(descriptor)
        except OSError as error:
            raise self._unreadable(error) from error

    def _inflate(self, chunks: Iterator[bytes], size: int, compression: Compression) -> Iterator[bytes]:
        what = f"{self.name}: the {compression.name} file is"
        try:
            yield from compression.inflate(chunks, size)
        except TruncatedError as error:
            raise InputError(f"{what} truncated: it ends too early", file=self.name) from error
        except DamagedError as error:
            raise InputError(f"{what} damaged: {error}", file=self.name) from error

    def _unreadable(self, error: OSError) -> InputError:
        if (refusal := unsupported_scheme(self.path)) is not None:
            return InputError(f"{self.name}: {refusal}", file=self.name)
        topic = f"; did you mean kafka://{self.path}?" if _BROKER_AND_TOPIC.fullmatch(self.path) else ""
        return InputError(f"{self.name}: cannot be read: {error.strerror or error}{topic}", file=self.name)


def count_lines(data: bytes) -> int:
    """Count the line ends; several times as fast as `bytes.count` for short lines.

    >>> count_lines(b"a\\nb\\n")
    2
    """
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


def _may_be_compressed(begin: bytes) -> bool:
    """Return whether more bytes are needed to detect a compression; a line of text must not wait for them."""
    return any(one.magic.startswith(begin) for one in COMPRESSIONS)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _read_file(descriptor: int, size: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, size):
        yield chunk


def _read_pipe(descriptor: int, size: int) -> Iterator[bytes]:
    """Wait for the first bytes without a timeout, then read more until the block is full or the time is over."""
    while chunk := os.read(descriptor, size):
        parts, length = [chunk], len(chunk)
        deadline = time.monotonic() + FLUSH_SECONDS
        while length < size and (remaining := deadline - time.monotonic()) > 0:
            if os.name == "nt" or not select.select([descriptor], [], [], remaining)[0]:
                break  # Windows cannot wait for a pipe, so one read is a block
            chunk = os.read(descriptor, size - length)
            if not chunk:
                break  # the end, which the outer read detects again
            parts.append(chunk)
            length += len(chunk)
        yield b"".join(parts)
