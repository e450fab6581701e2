"""A file of appended records in which nearly all damage can be detected.

    bytes   field
    8       magic: the kind of file
    4       version of its content
    …       groups of records, one after the other; the first group contains the head, a JSON object

A group contains the records that were put on disk at once:

    4       mark
    8       number of the group, from 0 on
    8       length of its records in bytes
    4       CRC-32 of the 20 bytes before, and of the head of this very file
    …       records, each behind 8 bytes with its length
    16      BLAKE2b of the group's bytes so far and of this checksum of the group before
    4       mark of the end

Numbers are little-endian.  Every checksum includes the previous one, so a group that is changed, missing, duplicated, moved,
or from another file is detected.  A crash leaves the last group incomplete: the file ends inside the group, or the rest of
the group is zeros (after a loss of power).  Such a group was never completely on disk, so `synchronise` never returned for
it.  Only this counts as a crash.  A file that was truncated exactly after a group looks like one that was never longer: this
is the only kind of damage that cannot be detected.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rpq.errors import RpqError
from rpq.files.destinations import open_replacement, synchronise_folder
from rpq.files.locks import check_in_place, try_lock

_VERSION = struct.Struct("<I")
_HEAD = struct.Struct("<4sQQ")
_CHECK = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_MARK, _END = b"\xf5\xd1\xfc\xa7", b"\xd1\xfa\xf9\x96"  # not valid in UTF-8 text; the last byte is not zero
_HEAD_BYTES = _HEAD.size + _CHECK.size
_DIGEST_BYTES = 16
_AROUND_BYTES = _HEAD_BYTES + _DIGEST_BYTES + len(_END)


@dataclass(frozen=True, kw_only=True)
class LogKind:
    """A kind of file: its `magic` (8 bytes), its name in messages, and the version of its records."""

    magic: bytes
    noun: str
    version: int

    @property
    def header(self) -> bytes:
        """The first bytes of such a file: magic and version."""
        return self.magic + _VERSION.pack(self.version)


class LogError(RpqError):
    """A file of records that cannot be extended."""


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """The end of a file: the offset and the number of the next group, and the checksum of the previous group."""

    offset: int
    number: int
    digest: bytes
    salt: int


@dataclass(frozen=True, kw_only=True)
class LogContent:
    """The head, and the records of all complete groups, each with its offset.

    `dropped_bytes` are those after the end, which a crash left; `damage` is the error if they have another cause.
    """

    head: dict[str, Any]
    records: tuple[tuple[int, memoryview], ...]
    end: LogEnd
    dropped_bytes: int
    damage: LogError | None


class RecordLog:
    """A writer of records. When `synchronise` returns, they are on disk, in one group.

    If `synchronise` fails, the file is unchanged and the records are still pending: call `synchronise` again, or `discard`.
    The file is locked, so that no other process writes to it; raises `LogError` if another one does.
    """

    def __init__(self, path: str, end: LogEnd) -> None:
        self.path = path
        self.end = end
        self._records: list[bytes] = []
        self._waiting_bytes = 0
        self._has_rest = True
        self._descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        if not try_lock(self._descriptor):
            self.close()
            raise LogError(f"{path}: another run or server uses this file; end that one first")

    @classmethod
    def create(cls, path: str, kind: LogKind, head: dict[str, Any], records: Iterable[bytes] = ()) -> RecordLog:
        """Create a file, on disk when this returns.  Raises `OSError`; then a previous file is unchanged."""
        group, end = _group(LogEnd(offset=len(kind.header), number=0, digest=_first_digest(kind), salt=0), [_json(head)])
        end = replace(end, salt=zlib.crc32(end.digest))
        content = kind.header + group
        for record in records:
            group, end = _group(end, [record])
            content += group
        with open_replacement(path, is_private=True) as file:
            file.write(content)
        return cls(path, end)

    @property
    def size(self) -> int:
        """The size of the file in bytes, including pending records."""
        return self.end.offset + self._waiting_bytes

    def add(self, *parts: bytes) -> None:
        """Add a pending record, which `synchronise` writes."""
        length = sum(map(len, parts))
        self._records.append(b"".join((_LENGTH.pack(length), *parts)))
        self._waiting_bytes += _LENGTH.size + length

    def discard(self) -> None:
        """Remove the pending records."""
        self._records, self._waiting_bytes = [], 0

    def synchronise(self) -> None:
        """Put the pending records on disk.  Raises `OSError`: `ReplacedFileError` if the file is no longer at its path."""
        if not self._records:
            return
        group, end = _group(self.end, self._records, has_lengths=True)
        self._write(group)
        check_in_place(self._descriptor, self.path)
        self.end = end
        self._has_rest = False
        self.discard()

    def check_room(self, count: int) -> None:
        """Check that `count` bytes can be put on disk: write zeros after the end, and remove them.  Raises `OSError`."""
        self._write(bytes(count))
        self._truncate()

    def _write(self, data: bytes) -> None:
        """Write after the end; the remains of a failed attempt are removed at once, or before the next attempt."""
        if self._has_rest:
            self._truncate()
        self._has_rest = True
        try:
            write_through(self._descriptor, self.end.offset, data)
        except OSError:
            try:
                self._truncate()
            except OSError:
                self._has_rest = True
            raise

    def _truncate(self) -> None:
        os.ftruncate(self._descriptor, self.end.offset)
        self._has_rest = False

    def rename(self, path: str) -> None:
        """Rename the file within its folder, and replace a file of that name.  Raises `OSError`."""
        os.replace(self.path, path)
        self.path = path
        synchronise_folder(os.path.dirname(path))

    def close(self) -> None:
        os.close(self._descriptor)


def write_through(descriptor: int, offset: int, data: bytes) -> None:
    """Write to an open file; the data is on disk when this returns."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)


def read_log(path: str, kind: LogKind, *, until: int | None = None) -> LogContent:
    """Read a file, or its first `until` bytes.  Raises `OSError`, and `LogError` like `parse_log`."""
    try:
        with open(path, "rb") as file:
            data = file.read() if until is None else file.read(until)
    except FileNotFoundError:
        raise LogError(f"{path}: is missing") from None
    return parse_log(data, kind, path=path)


def parse_log(data: bytes, kind: LogKind, *, path: str) -> LogContent:
    """Parse the content of a file; messages use `path`.  O(bytes).

    Raises `LogError` for other content, or content without a head; other damage is reported in the result.
    """
    start = data[: len(kind.magic)]
    if start != kind.magic:
        what = f"it begins with {start!r}" if start else "it is empty"
        raise LogError(f"{path}: is not a {kind.noun}, or a damaged one (byte 0: {what})")
    if data[: len(kind.header)] != kind.header:
        version = _VERSION.unpack_from(data.ljust(len(kind.header), b"\0"), len(kind.magic))[0]
        message = f"{path}: is a {kind.noun} of version {version}, or damaged at byte {len(kind.magic)}; this release reads"
        raise LogError(f"{message} version {kind.version}")
    end = LogEnd(offset=len(kind.header), number=0, digest=_first_digest(kind), salt=0)
    found: list[tuple[int, memoryview]] = []
    view = memoryview(data)
    problem = None
    while end.offset < len(data) and problem is None:
        following, problem = _group_at(view, end)
        if problem is None:
            first = end.offset + _HEAD_BYTES
            found += _records(view[: following.offset], first, following.offset - _DIGEST_BYTES - len(_END))
            end = following if end.number else replace(following, salt=zlib.crc32(following.digest))
    if end.number == 0:
        place = len(kind.header)
        message = f"{path}: is a damaged {kind.noun}: its head, at byte {place}, is incomplete"
        raise LogError(message)
    damage = None
    if problem is not None and not _is_torn(data, end):
        damage = LogError(f"{path}: is a damaged {kind.noun}: at byte {end.offset:,} of {len(data):,} {problem}")
    return LogContent(
        head=json.loads(bytes(found[0][1])),
        records=tuple(found[1:]),
        end=end,
        dropped_bytes=len(data) - end.offset,
        damage=damage,
    )


def _json(head: dict[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":")).encode()


def _first_digest(kind: LogKind) -> bytes:
    return hashlib.blake2b(kind.header, digest_size=_DIGEST_BYTES).digest()


def _group(end: LogEnd, records: list[bytes], *, has_lengths: bool = False) -> tuple[bytes, LogEnd]:
    """Return the group after `end`, and the end after that group."""
    if not has_lengths:
        records = [_LENGTH.pack(len(record)) + record for record in records]
    length = sum(map(len, records))
    fields = _HEAD.pack(_MARK, end.number, length)
    head = fields + _CHECK.pack(zlib.crc32(fields, end.salt))
    digest = hashlib.blake2b(end.digest + head, digest_size=_DIGEST_BYTES)
    for record in records:
        digest.update(record)
    group = b"".join((head, *records, digest.digest(), _END))
    return group, LogEnd(offset=end.offset + len(group), number=end.number + 1, digest=digest.digest(), salt=end.salt)


def _length_at(data: bytes | memoryview, place: int, salt: int) -> tuple[int, int] | None:
    """Return the number and length of the group whose head is at `place`, or None if there is no head."""
    if place + _HEAD_BYTES > len(data):
        return None
    mark, number, length = _HEAD.unpack_from(data, place)
    check = _CHECK.unpack_from(data, place + _HEAD.size)[0]
    if mark != _MARK or check != zlib.crc32(data[place : place + _HEAD.size], salt):
        return None
    return number, length


def _group_at(data: memoryview, end: LogEnd) -> tuple[LogEnd, str | None]:
    """Return the end after the group at `end`, and the problem with that group, or None."""
    place = end.offset
    found = _length_at(data, place, end.salt)
    if found is None:
        return end, "no record begins"
    number, length = found
    if number != end.number:
        return end, f"record {number} is in the place of record {end.number}"
    behind = place + _AROUND_BYTES + length
    if behind > len(data):
        return end, f"record {number} is incomplete"
    content = data[place : behind - _DIGEST_BYTES - len(_END)]
    digest = hashlib.blake2b(end.digest, digest_size=_DIGEST_BYTES)
    digest.update(content)
    if data[behind - _DIGEST_BYTES - len(_END) : behind] != digest.digest() + _END:
        return end, f"the checksum of record {number} is wrong"
    return LogEnd(offset=behind, number=number + 1, digest=digest.digest(), salt=end.salt), None


def _records(data: memoryview, first: int, last: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the records of a complete group."""
    while first < last:
        length = _LENGTH.unpack_from(data, first)[0]
        yield first, data[first + _LENGTH.size : first + _LENGTH.size + length]
        first += _LENGTH.size + length


def _is_torn(data: bytes, end: LogEnd) -> bool:
    """Return whether the bytes after the end result from a crash: a group that breaks off, or ends in zeros."""
    rest = len(data[end.offset :].rstrip(b"\0"))
    found = _length_at(data, end.offset, end.salt)
    if found is None:
        start = data[end.offset : end.offset + min(rest, len(_MARK))]
        return rest < _HEAD_BYTES and _MARK.startswith(start)
    number, length = found
    if number != end.number or rest >= _AROUND_BYTES + length:
        return False
    place = end.offset
    while (place := data.find(_MARK, place + 1)) >= 0:
        if _length_at(data, place, end.salt) is not None:  # bytes before this group are missing
            return False
    return True
