"""What was acknowledged since the last checkpoint, on disk: tuples, and queries that came and went.

The file begins with a line of JSON.  Behind it are records: four bytes with the length of what follows, four with its
checksum, then a kind (a byte) and its content.  What a crash left half written at the end is not there.

    S  the columns of the tuples that follow, as a schema of Arrow
    T  the length of a JSON text, that text (position, progress of an input), tuples as a record batch of Arrow
    Q  a JSON text: a query that was registered, or dropped, with the position
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rpq.errors import RpqError
from rpq.files.destinations import replacing, synchronise_folder

VERSION = 1
_HEAD = struct.Struct("<II")
_LENGTH = struct.Struct("<I")


class JournalError(RpqError):
    """A journal that a server cannot go on from."""


@dataclass(frozen=True)
class Record:
    """What was done at a position: tuples were pushed, or something else was done that `done` tells."""

    position: int
    tuples: pa.RecordBatch | None
    done: dict[str, Any]


class TupleJournal:
    """Appends to a file; what stands in it is on disk when `synchronise` returns."""

    def __init__(self, path: str, *, run: str, after: int) -> None:
        self.path = path
        self.bytes = 0
        self._schema: pa.Schema | None = None
        self._is_synchronised = True
        self._start(run, after)

    def _start(self, run: str, after: int) -> None:
        head = json.dumps({"format": "rpq serve journal", "version": VERSION, "run": run, "after": after}).encode() + b"\n"
        with replacing(self.path, is_private=True) as file:
            file.write(head)
        synchronise_folder(os.path.dirname(self.path))
        self._file = open(self.path, "ab")  # noqa: SIM115 - open as long as the server is
        self.bytes = len(head)
        self._schema = None
        self._is_synchronised = True

    def write_tuples(self, position: int, tuples: pa.RecordBatch, progress: Any = None) -> None:
        """Add tuples that were applied."""
        plain = _plain(tuples)
        if plain.schema != self._schema:
            self._write(b"S", plain.schema.serialize().to_pybytes())
            self._schema = plain.schema
        about = json.dumps({"position": position, "progress": progress}).encode()
        self._write(b"T", _LENGTH.pack(len(about)), about, plain.serialize().to_pybytes())

    def write_done(self, position: int, done: dict[str, Any]) -> None:
        """Add what was done to the queries."""
        self._write(b"Q", json.dumps({**done, "position": position}).encode())

    def _write(self, *parts: bytes) -> None:
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        length = sum(map(len, parts))
        self._file.write(b"".join((_HEAD.pack(length, checksum), *parts)))
        self.bytes += _HEAD.size + length
        self._is_synchronised = False

    def synchronise(self) -> None:
        """Put on disk what was written."""
        if not self._is_synchronised:
            self._file.flush()
            os.fdatasync(self._file.fileno()) if hasattr(os, "fdatasync") else os.fsync(self._file.fileno())
            self._is_synchronised = True

    def restart(self, *, run: str, after: int) -> None:
        """Forget all records: a checkpoint has what they say."""
        self._file.close()
        self._start(run, after)

    def close(self) -> None:
        self._file.close()


def _plain(tuples: pa.RecordBatch) -> pa.RecordBatch:
    """Tuples whose texts need nothing that is written elsewhere."""
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in tuples.columns]
    return pa.RecordBatch.from_arrays(columns, tuples.schema.names)


def read_tuple_journal(path: str, *, run: str, after: int) -> Iterator[Record]:
    """The records of a file behind a position, in their order; none where there is no file, or it is of another run.

    Raises `JournalError` for what is no journal, or misses records that were in the checkpoint's past.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror or error}") from error
    line, _, rest = content.partition(b"\n")
    try:
        head = json.loads(line)
        version, of, begins = head["version"], head["run"], int(head["after"])
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path}: is no journal of `rpq serve`; move it away to start without it") from error
    if version != VERSION:
        raise JournalError(f"{path}: is a journal of another version ({version}) of `rpq serve`")
    if of != run or begins > after:
        raise JournalError(
            f"{path}: does not belong to the checkpoint beside it, which stands at position {after}: one of the two was "
            "changed or taken from elsewhere.  Move both away to start anew"
        )
    schema: pa.Schema | None = None
    for kind, data in _records(rest):
        if kind == b"S":
            schema = pa.ipc.read_schema(pa.BufferReader(data))
            continue
        if kind == b"Q":
            done = json.loads(data)
            if done["position"] > after:
                yield Record(done["position"], None, done)
            continue
        length = _LENGTH.unpack_from(data)[0]
        about = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        if about["position"] > after:
            tuples = pa.ipc.read_record_batch(pa.BufferReader(data[_LENGTH.size + length :]), schema)
            yield Record(about["position"], tuples, about)


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Whole records, up to the first that is not."""
    place = 0
    while place + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, place)
        record = data[place + _HEAD.size : place + _HEAD.size + length]
        if len(record) < length or not record or zlib.crc32(record) != checksum:
            return
        yield record[:1], record[1:]
        place += _HEAD.size + length
