"""Sealed content: bytes after a header with their kind, version, length and checksum.

A reader can check that the content is complete and unchanged before using it, and can report the problem otherwise.
The header is the same in every version of the content:

    bytes   field
    8       magic: the kind of content
    4       version of the content
    8       length of the content in bytes
    16      checksum of the content: BLAKE2b with 128 bits, at a gigabyte a second
    4       CRC-32 of the 36 bytes before

Numbers are little-endian.  The checksums detect damage; they do not protect against changes with correct checksums, so
readers also check the content.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from rpq.errors import StateFormatError

_FIELDS = struct.Struct("<8sIQ16s")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CHECK.size
_DIGEST_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class SealedKind:
    """A kind of sealed content: its `magic` (8 bytes), its name in messages, and the version of its format."""

    magic: bytes
    noun: str
    version: int


@dataclass(frozen=True, kw_only=True)
class SealedHeader:
    """The fields of an intact header."""

    version: int
    length: int
    digest: bytes


def seal(kind: SealedKind, parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the header for content that consists of these parts.  O(bytes)."""
    digest, length = hashlib.blake2b(digest_size=_DIGEST_BYTES), 0
    for part in parts:
        digest.update(part)
        length += memoryview(part).nbytes
    fields = _FIELDS.pack(kind.magic, kind.version, length, digest.digest())
    return fields + _CHECK.pack(zlib.crc32(fields))


def header_of(kind: SealedKind, data: bytes, size: int, *, name: str) -> SealedHeader:
    """Return the header at the beginning of `data`, where the whole content has `size` bytes with its header.  O(1).

    Raises `StateFormatError` for other content, incomplete content, or another version of the format; messages
    use `name`.
    """
    start = data[: len(kind.magic)]
    if start != kind.magic:
        if start and kind.magic.startswith(start):
            raise _truncation_error(kind, name, size, None)
        if _is_whole(kind.magic + data[len(kind.magic) :]):
            raise damage_error(kind, name, f"it begins with {start!r}")
        problem = f"it begins with {start!r}" if start else "it is empty"
        raise StateFormatError(f"{name} is not a {kind.noun}: {problem}", reason="foreign")
    if len(data) < HEADER_BYTES:
        raise _truncation_error(kind, name, size, None)
    if not _is_whole(data):
        raise damage_error(kind, name, "the checksum of its header is wrong")
    _, version, length, digest = _FIELDS.unpack_from(data)
    if version != kind.version:
        raise StateFormatError(
            f"{name} has version {version} of the format; this release reads version {kind.version}", reason="version"
        )
    if size < HEADER_BYTES + length:
        raise _truncation_error(kind, name, size, HEADER_BYTES + length)
    if size > HEADER_BYTES + length:
        raise damage_error(kind, name, f"{size - HEADER_BYTES - length:,} bytes follow its end")
    return SealedHeader(version=version, length=length, digest=digest)


def verify(kind: SealedKind, header: SealedHeader, parts: Iterable[bytes | memoryview], *, name: str) -> None:
    """Raise `StateFormatError` unless the content, which consists of these parts, matches its header.  O(bytes)."""
    digest, length = hashlib.blake2b(digest_size=_DIGEST_BYTES), 0
    for part in parts:
        digest.update(part)
        length += memoryview(part).nbytes
    if length < header.length:
        raise _truncation_error(kind, name, HEADER_BYTES + length, HEADER_BYTES + header.length)
    if digest.digest() != header.digest:
        raise damage_error(kind, name, "its checksum is wrong")


def unseal(kind: SealedKind, data: bytes, *, name: str) -> memoryview:
    """Return the content after a header.  Raises `StateFormatError` like `header_of` and `verify`.  O(bytes)."""
    header = header_of(kind, data[:HEADER_BYTES], len(data), name=name)
    content = memoryview(data)[HEADER_BYTES:]
    verify(kind, header, [content], name=name)
    return content


def damage_error(kind: SealedKind, name: str, problem: str) -> StateFormatError:
    """Return the error for damaged content of this kind."""
    return StateFormatError(f"{name} is a damaged {kind.noun}: {problem}", reason="damaged")


def _is_whole(data: bytes) -> bool:
    if len(data) < HEADER_BYTES:
        return False
    return bool(_CHECK.unpack_from(data, _FIELDS.size)[0] == zlib.crc32(data[: _FIELDS.size]))


def _truncation_error(kind: SealedKind, name: str, size: int, whole: int | None) -> StateFormatError:
    of = "" if whole is None else f" of {whole:,}"
    return StateFormatError(f"{name} is a truncated {kind.noun}: only {size:,} bytes{of}", reason="truncated")
