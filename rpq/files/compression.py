"""Compressed text as gzip members and Zstandard frames, of which a file can contain several.

Every reader of these formats (`gzip -d`, `zstd -d`, Python, Arrow) reads several frames like one.  A file can therefore be
truncated after any frame, and extended there.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import pyarrow as pa


class ArrowFile:
    """A base class of write-only files for Arrow; subclasses implement `write`."""

    closed = False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


_GZIP = 16 + zlib.MAX_WBITS
_GZIP_LEVEL = 6


class CompressionFrame(Protocol):
    """A gzip member or Zstandard frame that is being written."""

    def compress(self, data: bytes | pa.Buffer) -> bytes:
        """Compress some bytes, and return the output so far, which is often empty."""

    def end(self) -> bytes:
        """End the frame, and return the rest of its output."""


class GzipFrame:
    """A member of a gzip file."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)

    def compress(self, data: bytes | pa.Buffer) -> bytes:
        return self._deflate.compress(memoryview(data))

    def end(self) -> bytes:
        return self._deflate.flush()


class ZstandardFrame:
    """A frame of a Zstandard file."""

    def __init__(self) -> None:
        self._ready = _MemoryFile()
        self._stream = pa.CompressedOutputStream(self._ready, "zstd")

    def compress(self, data: bytes | pa.Buffer) -> bytes:
        self._stream.write(data)
        return self._ready.take()

    def end(self) -> bytes:
        self._stream.close()
        return self._ready.take()


FRAMES: dict[str, type[GzipFrame | ZstandardFrame]] = {".gz": GzipFrame, ".zst": ZstandardFrame}
"""The classes of frames by file suffix."""


class _MemoryFile(ArrowFile):
    """A file in memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data
