"""The journal of a server: what was acknowledged since the last checkpoint, that is tuples and changes of the queries.

It is a file of records (`rpq.files.record_log`), whose head identifies the journal and the position after which it begins.
A record is a kind (a byte) and its content; the positions are consecutive.

    S  the columns of the tuples that follow, as a schema of Arrow
    T  the length of a JSON text, that text (position, progress of an input), tuples as a record batch of Arrow
    Q  a JSON text: a query that was registered, or dropped, with the position
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from rpq.errors import RpqError
from rpq.files.record_log import LogContent, LogEnd, LogError, LogKind, RecordLog, begins_with, read_log

KIND = LogKind(magic=b"rpqserve", noun="journal of `rpq serve`", version=2)
_LENGTH = struct.Struct("<I")
_FIRST_VERSION = b'{"format": "rpq serve journal"'


class JournalError(RpqError):
    """A journal from which a server cannot resume; the file is not changed."""


@dataclass(frozen=True, kw_only=True)
class JournalName:
    """The name of a journal: `identity` is unique, `generation` counts the journals of a server.

    The journal begins after the position `after` of the run `run`.
    """

    generation: int
    after: int
    run: str
    identity: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True)
class Record:
    """The change at a position: pushed tuples, or a change of the queries, which `done` describes."""

    position: int
    tuples: pa.RecordBatch | None
    done: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The records of a journal, up to its end or its `damage`; a crash left `dropped` bytes after the end."""

    name: JournalName
    records: tuple[Record, ...]
    end: LogEnd
    dropped: int
    damage: JournalError | None

    @property
    def position(self) -> int:
        """The position of the last record."""
        return self.name.after + len(self.records)


class TupleJournal:
    """A journal opened for appending; written records are on disk when `synchronise` returns."""

    def __init__(self, log: RecordLog, name: JournalName) -> None:
        self.name = name
        self._log = log
        self._schema: pa.Schema | None = None

    @classmethod
    def create(cls, path: str, name: JournalName) -> TupleJournal:
        """Create a journal without records on disk.  Raises `OSError`."""
        return cls(RecordLog.create(path, KIND, asdict(name)), name)

    @classmethod
    def append(cls, path: str, content: JournalContent) -> TupleJournal:
        """Continue a journal after its content.  Raises `OSError`."""
        return cls(RecordLog(path, content.end), content.name)

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def size(self) -> int:
        """The size in bytes, including those that wait for `synchronise`."""
        return self._log.size

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait for `synchronise`."""
        return self._log.size - self._log.end.offset

    def write_tuples(self, position: int, tuples: pa.RecordBatch, progress: Any = None) -> None:
        """Append applied tuples."""
        plain = _plain(tuples)
        if plain.schema != self._schema:
            self._log.add(b"S", plain.schema.serialize().to_pybytes())
            self._schema = plain.schema
        about = json.dumps({"position": position, "progress": progress}).encode()
        self._log.add(b"T", _LENGTH.pack(len(about)), about, plain.serialize().to_pybytes())

    def write_done(self, position: int, done: dict[str, Any]) -> None:
        """Append a change of the queries."""
        self._log.add(b"Q", json.dumps({**done, "position": position}).encode())

    def synchronise(self) -> None:
        """Put written records on disk.  If this raises `OSError`, they are not on disk and still wait."""
        self._log.synchronise()

    def discard(self) -> None:
        """Discard the waiting records."""
        self._log.discard()
        self._schema = None

    def check_room(self, count: int) -> None:
        """Check that so many bytes can be put on disk.  Raises `OSError`."""
        self._log.check_room(count)

    def read(self) -> JournalContent:
        """Read the records on disk.  Raises `JournalError`."""
        content = read_tuple_journal(self.path, until=self._log.end.offset)
        if content.damage is not None or content.end != self._log.end:
            raise content.damage or JournalError(f"{self.path}: was changed by somebody else while the server ran")
        return content

    def rename(self, path: str) -> None:
        """Rename the file within its folder.  Raises `OSError`."""
        self._log.rename(path)

    def close(self) -> None:
        self._log.close()


def _plain(tuples: pa.RecordBatch) -> pa.RecordBatch:
    """Return tuples with dictionary columns decoded, so that a record is complete in itself."""
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in tuples.columns]
    return pa.RecordBatch.from_arrays(columns, tuples.schema.names)


def read_tuple_journal(path: str, *, until: int | None = None) -> JournalContent:
    """Read a journal, or its first `until` bytes.

    Raises `OSError` if the file cannot be read, and `JournalError` if it is missing or no journal; damage after its head is
    reported in the returned content.
    """
    try:
        log = read_log(path, KIND, until=until)
    except LogError as error:
        if error.reason == "foreign" and begins_with(path, _FIRST_VERSION):
            raise JournalError(
                f"{path}: is a {KIND.noun} of version 1, and this release reads version 2: start the release that wrote it "
                "once more and stop it with SIGTERM, which puts everything into the checkpoint; then start this one"
            ) from error
        raise JournalError(str(error)) from error
    return journal_in(log, path=path)


def journal_in(log: LogContent, *, path: str) -> JournalContent:
    """Decode the records of a log; `path` is its name in messages."""
    try:
        name = JournalName(**log.head)
    except TypeError as error:
        raise JournalError(f"{path}: is a damaged {KIND.noun}: its head says {error}") from error
    records: list[Record] = []
    damage = None if log.damage is None else JournalError(str(log.damage))
    schema: pa.Schema | None = None
    for place, content in log.records:
        try:
            if bytes(content[:1]) == b"S":
                schema = pa.ipc.read_schema(pa.BufferReader(bytes(content[1:])))
                continue
            record = _parsed(content, schema)
            expected = name.after + len(records) + 1
            if record.position != expected:
                raise ValueError(f"it has position {record.position}, and not {expected}")
        except (ValueError, TypeError, KeyError, IndexError, struct.error, pa.ArrowException, OSError) as error:
            message = f"{path}: is a damaged {KIND.noun}: the record at byte {place:,} is not understood: {error}"
            damage = JournalError(message)
            break
        records.append(record)
    return JournalContent(name=name, records=tuple(records), end=log.end, dropped=log.dropped, damage=damage)


def _parsed(content: memoryview, schema: pa.Schema | None) -> Record:
    kind, data = bytes(content[:1]), bytes(content[1:])  # a copy, since Arrow requires alignment
    if kind == b"Q":
        done = json.loads(data)
        return Record(done["position"], None, done)
    if kind != b"T":
        raise ValueError(f"there are no records of kind {kind!r}")
    length = _LENGTH.unpack_from(data)[0]
    about = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    tuples = pa.ipc.read_record_batch(pa.BufferReader(data[_LENGTH.size + length :]), schema)
    return Record(about["position"], tuples, about)


def is_empty_first_version(path: str, *, run: str) -> bool:
    """Whether a file is a journal of version 1 of a run, with a head only, as a server leaves it that ended properly."""
    if not begins_with(path, _FIRST_VERSION) or os.path.getsize(path) > 1 << 12:
        return False
    with open(path, "rb") as file:
        line, _, rest = file.read().partition(b"\n")
    try:
        head = json.loads(line)
        return not rest and head["version"] == 1 and head["run"] == run
    except (ValueError, KeyError, TypeError):
        return False
