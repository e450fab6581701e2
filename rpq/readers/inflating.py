"""Inflating what is compressed: gzip, bzip2, xz and zstd, recognised by the first bytes.

Whatever precedes the place where a file is cut off or damaged is handed over before the error.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

_NEVER = b"\xff"
"""A byte that UTF-8 does not have: where it stands in a buffer, nothing was written."""


class Damaged(Exception):
    """Compressed bytes that cannot be inflated: the message says why."""


class Truncated(Damaged):
    """Compressed bytes that end too early."""


class _Decoder(Protocol):
    """What `bz2` and `lzma` offer; one member of a file, of which there may be several."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Compression:
    """A way of compressing: what messages call it, how files begin and end their name, and how they are inflated.

    `inflate` takes the chunks of a file and a number of bytes, and yields at most so many at a time; it raises
    `Damaged`.
    """

    name: str
    magic: bytes
    suffix: str
    inflate: Callable[[Iterator[bytes], int], Iterator[bytes]]


def compression_of(begin: bytes) -> Compression | None:
    """The compression of a file that begins with these bytes.

    >>> compression_of(b"BZh91AY").name
    'bzip2'
    """
    return next((one for one in COMPRESSIONS if begin.startswith(one.magic)), None)


def compression_named(path: str) -> Compression | None:
    """The compression that the name of a file speaks of."""
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
                raise Truncated
    except zlib.error as error:
        raise Damaged(str(error)) from error


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
            raise Truncated
    except damaged as error:
        raise Damaged(str(error)) from error


def _inflate_bzip2(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    return _inflate_members(chunks, size, bz2.BZ2Decompressor, OSError)


def _inflate_xz(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    return _inflate_members(chunks, size, lzma.LZMADecompressor, lzma.LZMAError)


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a file for Arrow."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            self._rest = self._rest or next(self._chunks, b"")
        except Exception as error:  # Arrow would make another one of it
            self.error = error
        size = len(self._rest) if size < 0 else size
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _inflate_zstd(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """With Arrow's codec, which fills a buffer: a pipe is passed on only when one is full, or at its end."""
    source = _Chunks(chunks)
    with pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd") as stream:
        buffer = bytearray(size)
        while True:
            buffer[:] = _NEVER * size  # an error does not say how much came before it
            try:
                count = stream.readinto(buffer)
            except OSError as error:
                if text := bytes(buffer).rstrip(_NEVER):
                    yield text
                if source.error is not None:
                    raise source.error from error
                raise (Truncated() if "Truncated" in str(error) else Damaged(str(error))) from error
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
