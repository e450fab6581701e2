"""The checkpoint of a server and its journal: saving, resuming, and waiting for a disk that cannot be written.

A checkpoint is the state of an engine with the fields of `ServedState`. The journal contains the operations that were
acknowledged after it: tuples and changes of the queries. It is a file of records (`rpq.run.record_log`), whose head
identifies the journal and the position after which it begins. A record is a kind (a byte) and its content; the positions are
consecutive.

    S  the columns of the tuples that follow, as a schema of Arrow
    T  the length of a JSON text, that text (position, progress of an input, keyed posts), tuples as an Arrow record batch
    Q  a JSON text: a query that was registered, or dropped, with the position
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import shutil
import struct
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa

from rpq.errors import ConflictBudgetError, RpqError
from rpq.files.destinations import open_replacement
from rpq.files.locks import ReplacedFileError, check_in_place
from rpq.readers.rdf.times import KINDS, Kind
from rpq.run.checkpoint import CheckpointLock
from rpq.run.loop import push_part
from rpq.run.record_log import LogContent, LogEnd, LogError, LogKind, RecordLog, read_log
from rpq.serve.requests import QueryDefaults, parse_query
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.nodes.node_rows import are_records

if TYPE_CHECKING:
    from rpq.engine.engine import Engine

LOG = logging.getLogger("rpq.serve")

FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""Seconds until a disk is tried again: after the first failure, and at most."""

WRITE_RETRY = 0.2
"""Seconds after which a job that writes makes the disk be tried again."""

LEAST_ROOM, MAX_ROOM = 1 << 18, 1 << 24
"""The number of bytes that must fit on a disk before it counts as writable again."""

KEY = "rpq serve"
VERSION = 1
"""The name and the version of the fields of a checkpoint; another version is refused."""

MAX_POSTS = 10_000
"""The number of posts with idempotency keys that a server remembers; a checkpoint contains all of them."""

KIND = LogKind(magic=b"rpqserve", noun="journal of `rpq serve`", version=1)
_LENGTH = struct.Struct("<I")


class JournalError(RpqError):
    """A journal from which a server cannot resume; the file is not changed."""


class KeyedPost(NamedTuple):
    """What is on disk of a post with an idempotency key: the first `applied` of its tuples, of which `late` were late.

    `digest` is that of its request; `position` and `time` are those after the last applied tuple, the time as in JSON.
    """

    digest: str
    applied: int = 0
    late: int = 0
    position: int = 0
    time: Any = None


def note_post(posts: dict[str, KeyedPost], key: str, post: KeyedPost) -> None:
    """Add a post by its key, as the newest; only the newest `MAX_POSTS` are kept."""
    posts.pop(key, None)
    posts[key] = post
    if len(posts) > MAX_POSTS:
        del posts[next(iter(posts))]


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
class JournalRecord:
    """The change at a position: pushed tuples, or a change of the queries, which `details` describe."""

    position: int
    tuples: pa.RecordBatch | None
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The records of a journal, up to its end or its `damage`; a crash left `dropped_bytes` after the end."""

    name: JournalName
    records: tuple[JournalRecord, ...]
    end: LogEnd
    dropped_bytes: int
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
        """Continue a journal after its content.  Raises `OSError`, and `JournalError` if another server uses it."""
        try:
            return cls(RecordLog(path, content.end), content.name)
        except LogError as error:
            raise JournalError(str(error)) from error

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

    def write_tuples(
        self,
        position: int,
        tuples: pa.RecordBatch,
        progress: Any = None,
        rdf_times: Kind | None = None,
        posts: Mapping[str, KeyedPost] = {},
    ) -> None:
        """Append applied tuples, and what is applied now of the `posts` with keys to which they belong."""
        plain = _plain(tuples)
        if self._schema is None or not plain.schema.equals(self._schema, check_metadata=True):
            self._log.add(b"S", plain.schema.serialize().to_pybytes())
            self._schema = plain.schema
        about = {"position": position, "progress": progress, "rdf_times": rdf_times, **({"posts": posts} if posts else {})}
        text = json.dumps(about).encode()
        self._log.add(b"T", _LENGTH.pack(len(text)), text, plain.serialize().to_pybytes())

    def write_query_change(self, position: int, change: dict[str, Any]) -> None:
        """Append a change of the queries."""
        self._log.add(b"Q", json.dumps({**change, "position": position}).encode())

    def synchronise(self) -> None:
        """Put written records on disk.  If this raises `OSError`, they are not on disk and still wait.

        Raises `ReplacedFileError` if the file is no longer at its path.
        """
        self._log.synchronise()

    def discard(self) -> None:
        """Discard the waiting records."""
        self._log.discard()
        self._schema = None

    def check_room(self, count: int) -> None:
        """Check that `count` bytes can be written to disk.  Raises `OSError`."""
        self._log.check_room(count)

    def read(self) -> JournalContent:
        """Read the records on disk.  Raises `JournalError`."""
        content = read_tuple_journal(self.path, until=self._log.end.offset)
        if content.damage is not None or content.end != self._log.end:
            raise content.damage or JournalError(f"{self.path}: was changed by another program while the server ran")
        return content

    def rename(self, path: str) -> None:
        """Rename the file within its folder.  Raises `OSError`."""
        self._log.rename(path)

    def close(self) -> None:
        self._log.close()


def _plain(tuples: pa.RecordBatch) -> pa.RecordBatch:
    """Return tuples with dictionary columns decoded, so that a record is complete in itself."""
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in tuples.columns]
    described_columns = zip(tuples.schema, columns, strict=True)
    fields = [pa.field(field.name, column.type, metadata=field.metadata) for field, column in described_columns]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def read_tuple_journal(path: str, *, until: int | None = None) -> JournalContent:
    """Read a journal, or its first `until` bytes.

    Raises `OSError` if the file cannot be read, and `JournalError` if it is missing or no journal; damage after its head is
    reported in the returned content.
    """
    try:
        log = read_log(path, KIND, until=until)
    except LogError as error:
        raise JournalError(str(error)) from error
    return journal_in(log, path=path)


def journal_in(log: LogContent, *, path: str) -> JournalContent:
    """Decode the records of a log; `path` is its name in messages."""
    try:
        name = JournalName(**log.head)
    except TypeError as error:
        raise JournalError(f"{path}: is a damaged {KIND.noun}: its header is not understood: {error}") from error
    records: list[JournalRecord] = []
    damage = None if log.damage is None else JournalError(str(log.damage))
    schema: pa.Schema | None = None
    for place, content in log.records:
        try:
            if bytes(content[:1]) == b"S":
                schema = pa.ipc.read_schema(pa.BufferReader(bytes(content[1:])))
                continue
            record = _read_record(content, schema)
            expected = name.after + len(records) + 1
            if record.position != expected:
                raise ValueError(f"it has position {record.position}; expected {expected}")
        except (ValueError, TypeError, KeyError, IndexError, struct.error, pa.ArrowException, OSError) as error:
            message = f"{path}: is a damaged {KIND.noun}: the record at byte {place:,} is not understood: {error}"
            damage = JournalError(message)
            break
        records.append(record)
    return JournalContent(name=name, records=tuple(records), end=log.end, dropped_bytes=log.dropped_bytes, damage=damage)


def _read_record(content: memoryview, schema: pa.Schema | None) -> JournalRecord:
    kind, data = bytes(content[:1]), bytes(content[1:])  # a copy, since Arrow requires alignment
    if kind == b"Q":
        about = json.loads(data)
        return JournalRecord(about["position"], None, about)
    if kind != b"T":
        raise ValueError(f"unknown kind of record {kind!r}")
    length = _LENGTH.unpack_from(data)[0]
    about = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    tuples = pa.ipc.read_record_batch(pa.BufferReader(data[_LENGTH.size + length :]), schema)
    return JournalRecord(about["position"], tuples, about)


class ServedStateError(RpqError):
    """A checkpoint from which a server cannot resume."""


@dataclass(frozen=True, kw_only=True)
class ServedState:
    """The content of a checkpoint besides the state of the engine.

    `run` is the run of the server that numbered the positions; `progress` is the progress of an input, in the input's own
    terms. `rdf_times` is the kind of the times of documents of RDF, None before the first one. `posts` are the newest ones
    with keys, in their order. `journal` is the identity of the journal that continues from here, and `generation` its
    number; both are set when the checkpoint is written.
    """

    run: str
    position: int
    progress: Any = None
    tuples: int = 0
    late: int = 0
    rdf_times: Kind | None = None
    posts: Mapping[str, KeyedPost] = field(default_factory=dict)
    journal: str | None = None
    generation: int = 0


def write_served_state(engine: Engine, path: str, state: ServedState) -> None:
    """Write the checkpoint to disk; the file is the previous one until the new one is complete."""
    engine.save(path, extra={KEY: json.dumps({"version": VERSION, **vars(state)})})


def read_served_state(engine: Engine, path: str) -> ServedState:
    """Read the fields of the checkpoint from which an engine was restored.  Raises `ServedStateError`."""
    text = engine.extra.get(KEY)
    if text is None:
        raise ServedStateError(f"{path}: is not a checkpoint of `rpq serve`; name another file, or move it away")
    try:
        content = JsonValue.parse(text, KEY)
        version = content["version"].integer()
        if version != VERSION:
            raise ServedStateError(
                f"{path}: is a checkpoint of version {version}, and this release reads version {VERSION}; move it away to "
                "start anew"
            )
        rdf_times = content["rdf_times"]
        return ServedState(
            run=content["run"].text(),
            position=content["position"].integer(0),
            progress=content["progress"].value,
            tuples=content["tuples"].integer(0),
            late=content["late"].integer(0),
            rdf_times=None if rdf_times.is_none else rdf_times.one_of(*KINDS),
            posts={key: _read_post(post) for key, post in content["posts"].items()},
            journal=content["journal"].text(),
            generation=content["generation"].integer(0),
        )
    except Damage as problem:
        raise ServedStateError(f"{path}: is a damaged checkpoint: {problem}; move it away to start anew") from problem


def copy_checkpoint(checkpoint: BinaryIO, folder: str, *, position: int) -> tuple[str, int]:
    """Copy an open checkpoint into a folder, and close it; return the name of the copy and its bytes.

    The copy gets its name, of the time and the position, when it is complete and on disk.  Raises `OSError`.
    """
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{position}.state"
    with checkpoint, open_replacement(os.path.join(folder, name), is_private=True) as file:
        shutil.copyfileobj(checkpoint, file)
        return name, file.tell()


def _read_post(content: JsonValue) -> KeyedPost:
    digest, applied, late, position, time = content.tuple_of(len(KeyedPost._fields))
    return KeyedPost(digest.text(), applied.integer(1), late.integer(0), position.integer(1), time.value)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The functions that create an engine and restore one from a path, and the limits on timestamps and pushes.

    Both functions pass further options on to the engine. The journal is replayed without those limits: its tuples were
    accepted under the limits of their time.
    """

    make: Callable[..., Engine]
    restore: Callable[..., Engine]
    max_ahead: int | str | None = None
    push_limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedEngine:
    """An engine with its state, which is resumed if there was a checkpoint, and the number of tuples from the journal."""

    engine: Engine
    state: ServedState
    is_resumed: bool = False
    replayed_tuples: int = 0


class Outage:
    """A period in which a file cannot be written; it is tried again at growing intervals."""

    def __init__(self, path: str, error: OSError) -> None:
        # An error of `open_replacement` names the file itself.
        text = str(error) if isinstance(error, RpqError) else f"{path}: cannot be written: {error.strerror or error}"
        self.reason = text
        self.errno = error.errno
        self.began = time.monotonic()
        self._last = self.began
        self._backoff = self._wait = FIRST_RETRY

    def note_failure(self, *, least_wait: float = 0.0) -> None:
        """Note another failure, and double the interval."""
        self._last = time.monotonic()
        self._backoff = min(LAST_RETRY, 2 * self._backoff)
        self._wait = max(self._backoff, least_wait)

    @property
    def seconds(self) -> float:
        """Seconds since the outage began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float:
        """Seconds until it is time to try again."""
        return max(0.0, self._last + self._wait - time.monotonic())

    @property
    def retry_after(self) -> int:
        """Whole seconds after which a client may retry."""
        return max(1, math.ceil(self.seconds_left))

    def is_due(self, *, for_write: bool = False) -> bool:
        """Return whether a retry is due, by its interval or because a job wants to write."""
        return not self.seconds_left or (for_write and time.monotonic() - self._last >= WRITE_RETRY)


class NoStorage:
    """The storage of a server without a checkpoint: nothing is on disk, and nothing fails."""

    path = age = outage = checkpoint_outage = None
    outages = ()
    journal_bytes = 0

    def __init__(self, options: EngineOptions) -> None:
        self._options = options

    def load(self) -> LoadedEngine:
        """Return a new engine."""
        return LoadedEngine(engine=self._options.make(), state=ServedState(run=uuid.uuid4().hex[:8], position=0))

    def reload(self, *, without: Collection[str] = ()) -> LoadedEngine:
        """Raise an error, since nothing was saved."""
        raise ServedStateError("there is no checkpoint")

    def note_tuples(self, *about: Any) -> None:
        """Note nothing, as the other methods do."""

    def note_query_change(self, position: int, change: dict[str, Any]) -> None: ...

    def synchronise(self) -> None: ...

    def discard(self) -> None: ...

    def close(self) -> None: ...


class Storage:
    """The checkpoint at a path and its journal: call `load` once, then `note_…` and `synchronise`, and `save` now and then.

    Raises `CheckpointError` if another process uses the checkpoint.
    """

    def __init__(self, path: str, options: EngineOptions, *, defaults: QueryDefaults) -> None:
        self.path = path
        self.journal_path = f"{path}.journal"
        self.outage: Outage | None = None
        """The outage of the journal; None if it can be written."""
        self.checkpoint_outage: Outage | None = None
        self._options = options
        self._defaults = replace(defaults, fields={})  # the journal has queries with the defaults of their time
        self._journal: TupleJournal | None = None
        self._failed_bytes = 0
        self.saved_position = 0
        self.last_save = time.monotonic()
        self.save_seconds = 0.0
        self._lock = CheckpointLock(path)
        self._checkpoint: int | None = None

    def close(self) -> None:
        """Close the files, and release the lock on the checkpoint."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self._close_checkpoint()
        self._lock.release()

    def _open_checkpoint(self) -> None:
        """Open the checkpoint, so that another file in its place is noticed."""
        self._close_checkpoint()
        with suppress(OSError):
            self._checkpoint = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def _close_checkpoint(self) -> None:
        if self._checkpoint is not None:
            os.close(self._checkpoint)
            self._checkpoint = None

    @property
    def journal(self) -> TupleJournal:
        """The open journal."""
        assert self._journal is not None
        return self._journal

    @property
    def journal_bytes(self) -> int:
        """The size of the journal; 0 once it is closed."""
        return 0 if self._journal is None else self._journal.size

    @property
    def outages(self) -> Sequence[Outage]:
        """The outages that there are now."""
        return [one for one in (self.outage, self.checkpoint_outage) if one is not None]

    @property
    def age(self) -> float:
        """Seconds since the checkpoint was written."""
        return time.monotonic() - self.last_save

    # --- reading ---------------------------------------------------------------------------------------------

    def load(self) -> LoadedEngine:
        """Restore the engine from checkpoint and journal, or make a new one; then open the journal for writing.

        Without a journal, the changes after the checkpoint are lost.  Raises `JournalError`, `ServedStateError`, the errors
        of the engine for a checkpoint, and `OSError`.
        """
        if not os.path.exists(self.path):
            with _journal_advice():
                self._refuse_orphan()
            loaded = LoadedEngine(engine=self._options.make(), state=ServedState(run=uuid.uuid4().hex[:8], position=0))
            return replace(loaded, state=self.save(loaded.engine, loaded.state))
        self._open_checkpoint()
        engine = self._options.restore(self.path)
        state = read_served_state(engine, self.path)
        with _journal_advice():
            content = self._journal_of(state)
        if content is None:
            LOG.warning("%s is missing: changes after position %d, if any, are lost", self.journal_path, state.position)
            state = replace(state, run=uuid.uuid4().hex[:8])  # followers may know positions that are assigned again now
            return LoadedEngine(engine=engine, state=self.save(engine, state), is_resumed=True)
        loaded = self._replay(engine, state, content)
        self._journal = TupleJournal.append(self.journal_path, content)
        self.saved_position = state.position
        if content.dropped_bytes:
            LOG.warning(
                "%s ends at position %d: a crash left %s bytes behind it, of an incomplete record, which are dropped",
                self.journal_path,
                content.position,
                f"{content.dropped_bytes:,}",
            )
        if loaded.state.position != state.position:
            try:
                return replace(loaded, state=self.save(loaded.engine, loaded.state))
            except OSError as error:  # nothing is lost: the journal has it
                self.note_checkpoint_outage(error)
        return loaded

    def reload(self, *, without: Collection[str] = ()) -> LoadedEngine:
        """Restore the engine from disk, without the changes since the last `synchronise` and some queries; write nothing.

        Raises the errors of `load`, and `PushLimitError` if the engine is interrupted.
        """
        engine = self._options.restore(self.path, _without=without)
        state = read_served_state(engine, self.path)
        return self._replay(engine, state, self.journal.read(), without)

    def _refuse_orphan(self) -> None:
        """Refuse a journal without a checkpoint, except a new one without records, which a first start left."""
        new = f"{self.journal_path}.new"
        for path in (new, self.journal_path):
            if os.path.exists(path) and not (path == new and _is_empty(path)):
                raise JournalError(f"{path}: exists, but the checkpoint {self.path} to which it belongs does not")

    def _journal_of(self, state: ServedState) -> JournalContent | None:
        """Read the journal of a checkpoint; return None if it is missing.  Raises `JournalError`."""
        self._adopt_new_journal(state)
        if not os.path.exists(self.journal_path):
            return None
        content = read_tuple_journal(self.journal_path)
        name = content.name
        if name.identity != state.journal:
            raise JournalError(
                f"{self.journal_path}: does not belong to the checkpoint {self.path}, which continues with journal number "
                f"{state.generation}, from position {state.position} on; this is number {name.generation}, from position "
                f"{name.after} on: one of the two is from elsewhere, or older than the other"
            )
        if name.after != state.position:
            message = f"begins after position {name.after}, but its checkpoint is at position {state.position}"
            raise JournalError(f"{self.journal_path}: {message}")
        if content.damage is not None:
            raise content.damage
        return content

    def _adopt_new_journal(self, state: ServedState) -> None:
        """Rename the new journal of the checkpoint if a crash prevented that.  Raises `JournalError`."""
        new = f"{self.journal_path}.new"
        if not os.path.exists(new):
            return
        content = read_tuple_journal(new)
        if content.name.identity != state.journal:
            if content.records or content.damage is not None:
                belongs = f"has records, but belongs to another checkpoint than {self.path}, perhaps a later one"
                raise JournalError(f"{new}: {belongs}")
            return  # of a checkpoint that was not completed
        if os.path.exists(self.journal_path):
            before = read_tuple_journal(self.journal_path)
            if before.damage is not None:
                raise before.damage
            if before.name.generation >= state.generation:
                raise JournalError(f"{self.journal_path}: is not the journal before that of the checkpoint {self.path}")
        os.replace(new, self.journal_path)

    def _replay(
        self, engine: Engine, state: ServedState, content: JournalContent, without: Collection[str] = ()
    ) -> LoadedEngine:
        """Replay the records of the journal after the checkpoint, except for changes of the queries `without`."""
        replayed = 0
        posts = dict(state.posts)
        for record in content.records:
            if _name_in(record) in without:
                state = replace(state, position=record.position)
                continue
            state = self._redo(engine, state, record)
            replayed += 0 if record.tuples is None else record.tuples.num_rows
            for key, post in record.details.get("posts", {}).items():
                note_post(posts, key, KeyedPost(*post))
        return LoadedEngine(
            engine=engine, state=replace(state, posts=posts), is_resumed=True, replayed_tuples=replayed
        )

    def _redo(self, engine: Engine, state: ServedState, record: JournalRecord) -> ServedState:
        if record.tuples is not None:
            try:
                changes = push_part(engine, record.tuples, collect=False)
            except ConflictBudgetError as error:
                changes = error.changes
            progress = record.details["progress"]
            state = replace(
                state,
                tuples=state.tuples + (0 if are_records(record.tuples) else record.tuples.num_rows),
                late=state.late + len(changes.late_rows),
                progress=state.progress if progress is None else progress,
                rdf_times=record.details["rdf_times"] or state.rdf_times,
            )
        elif "registered" in record.details:
            query = parse_query(record.details["registered"], self._defaults)
            with suppress(ConflictBudgetError):  # it is registered, as it was then
                engine.register(query, start=record.details["start"])
        else:
            engine.unregister(record.details["dropped"])
        return replace(state, position=record.position)

    # --- writing ---------------------------------------------------------------------------------------------

    def note_tuples(
        self,
        position: int,
        tuples: pa.RecordBatch,
        progress: Any,
        rdf_times: Kind | None = None,
        posts: Mapping[str, KeyedPost] = {},
    ) -> None:
        """Record applied tuples, which the next `synchronise` writes to disk."""
        self.journal.write_tuples(position, tuples, progress, rdf_times, posts)

    def note_query_change(self, position: int, change: dict[str, Any]) -> None:
        """Record a change of the queries, which the next `synchronise` writes to disk."""
        self.journal.write_query_change(position, change)

    def synchronise(self) -> None:
        """Write the recorded changes to disk.  If this raises `OSError`, none of them is on disk, and they are discarded.

        Raises `JournalError` if journal or checkpoint were removed or replaced, so that what is written is lost.
        """
        try:
            if self.journal.waiting_bytes and self._checkpoint is not None:
                check_in_place(self._checkpoint, self.path)
            self.journal.synchronise()
        except ReplacedFileError as error:
            raise JournalError(str(error)) from error
        except OSError as error:
            self._failed_bytes = self.journal.waiting_bytes
            self.journal.discard()
            if self.outage is None:
                self.outage = Outage(self.journal.path, error)
                LOG.error(
                    "%s; requests that have to be saved are refused until it can be written, others are answered; the "
                    "server keeps trying",
                    self.outage.reason,
                )
            raise

    def discard(self) -> None:
        """Discard the changes recorded since the last `synchronise`."""
        self.journal.discard()

    def check_room(self) -> bool:
        """Return whether the journal can be written again; if so, end the outage."""
        if self.outage is None:
            return True
        try:
            self.journal.check_room(min(MAX_ROOM, max(LEAST_ROOM, 2 * self._failed_bytes)))
        except OSError:
            self.outage.note_failure()
            return False
        LOG.warning("%s can be written again, after %.1f s", self.journal.path, self.outage.seconds)
        self.outage = None
        return True

    def save(self, engine: Engine, state: ServedState) -> ServedState:
        """Write the checkpoint and begin a new journal after it; return the saved state.

        Raises `OSError`, and `ServedStateError` if the lock was removed, so that another server may use the checkpoint.
        """
        began = time.monotonic()
        try:
            self._lock.check()
        except ReplacedFileError as error:
            raise ServedStateError(str(error)) from error
        new = f"{self.journal_path}.new"
        if self._journal is not None and self._journal.path == new:  # it was not renamed the last time
            self._journal.rename(self.journal_path)
        generation = state.generation if self._journal is None else self._journal.name.generation
        name = JournalName(generation=generation + 1, after=state.position, run=state.run)
        following = TupleJournal.create(new, name)
        state = replace(state, journal=name.identity, generation=name.generation)
        try:
            write_served_state(engine, self.path, state)
        except BaseException:
            following.close()
            os.unlink(new)
            raise
        self._open_checkpoint()
        if self._journal is not None:
            self._journal.close()
        self._journal = following
        self.saved_position = state.position
        following.rename(self.journal_path)
        self.last_save = time.monotonic()
        self.save_seconds = self.last_save - began
        if self.checkpoint_outage is not None:
            LOG.warning("%s can be written again, after %.1f s", self.path, self.checkpoint_outage.seconds)
            self.checkpoint_outage = None
        return state

    def note_checkpoint_outage(self, error: OSError, *, least_wait: float = 0.0) -> None:
        """Note that the checkpoint cannot be written now; it is tried again after at least `least_wait` seconds."""
        if self.checkpoint_outage is None:
            self.checkpoint_outage = Outage(self.path, error)
            LOG.error(
                "%s; acknowledged changes are in the journal meanwhile; the server keeps trying",
                self.checkpoint_outage.reason,
            )
        self.checkpoint_outage.note_failure(least_wait=least_wait)


@contextmanager
def _journal_advice() -> Iterator[None]:
    """Add to the error of a journal what the user can do."""
    try:
        yield
    except JournalError as error:
        hint = "It was not changed: restore the right file, or move it away to start without its changes"
        raise JournalError(f"{error}.  {hint}") from error


def _name_in(record: JournalRecord) -> str | None:
    """Return the name of the query that a record registers or drops."""
    registered = record.details.get("registered")
    name: str | None = record.details.get("dropped") if registered is None else registered.get("name")
    return name


def _is_empty(path: str) -> bool:
    """Return whether a file is a journal without records."""
    try:
        content = read_tuple_journal(path)
    except JournalError:
        return False
    return not content.records and content.damage is None
