"""What Arrow takes for a file that can be written and no more."""

from __future__ import annotations

import zlib
from typing import Protocol

import pyarrow as pa


class ArrowFile:
    """The rest of a file, for a class that has a `write`: nothing to flush or to close, no reading, no going back."""

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


class Frame(Protocol):
    """One member or frame in the making."""

    def compress(self, data: bytes | pa.Buffer) -> bytes:
        """Take some bytes, and return what is ready of the compressed ones, often nothing."""

    def end(self) -> bytes:
        """Return the rest; the frame takes nothing more."""


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
"""What makes the frames of a file, by the ending of its name."""


class _MemoryFile(ArrowFile):
    """A file that keeps what is written to it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken
