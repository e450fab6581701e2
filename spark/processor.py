"""The stateful processor: one root partition of the queries, from micro-batch to micro-batch.

In the state is the window, as a log (`rpq.spark.window_log`), and a record of figures.  The engine with its index is a
cache, in a process that keeps it (`rpq.spark.engine_host`), or in the Python worker where there is none.  That may never
have seen this partition, or may have missed its last micro-batches, which another machine had, or may hold the outcome of
an attempt that failed.  Therefore each micro-batch writes a new random token into the state and the cache keeps the token
that it belongs to: an engine whose token the state never had is never used.  One whose token the state had some
micro-batches ago catches up with the tuples since; where there is none, the engine is built again from the window.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import rpq
from rpq.files.json_values import Damage, JsonValue
from rpq.queries import kinds
from rpq.spark.carried import Carried
from rpq.spark.engine_call import engine_of
from rpq.spark.envelopes import unpack, without_sequence
from rpq.spark.errors import PipelineError
from rpq.spark.held_back import passed
from rpq.spark.moved_state import MovedState
from rpq.spark.packed_rows import AsStreams, Packed, RowPacker, packed_figures, packed_frames
from rpq.spark.share_engine import EngineCache, Outcome, ShareEngine, ShareOfAnswers
from rpq.spark.shipped import Shipped
from rpq.spark.window_log import MemoryChunks, WindowLog
from rpq.spark.worker_limits import share_limit
from rpq.stream.stream_time import windows_of
from rpq.stream.timestamps import EARLIEST
from rpq.stream.window import INT64_MAX

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

FORMAT = 2
"""Version of what is in the state; a checkpoint of another one is refused.  Before 2 nothing had a checksum."""

REMEMBERED = 64
"""Earlier versions from which an engine can catch up."""

_TOKEN_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Record:
    """The figures of a partition beside the window.

    `stream` tells this state from any other, `token` its versions from one another; the second half of a token is a
    checksum of all that the record says.  `history` (JSON) has the tokens of the versions before and the `order` at which
    the log stood, `parts` (JSON) is that of `WindowLog`.  `hits` counts how often the cache held the engine, `catch_ups`
    how often one of an earlier version, `rebuilds` how often none.
    """

    format: int = FORMAT
    identity: str
    stream: str
    token: str
    version: int = 0
    time: int = 0
    order: int = 0
    tuples: int = 0
    late: int = 0
    hits: int = 0
    catch_ups: int = 0
    rebuilds: int = 0
    catch_up_seconds: float = 0.0
    rebuild_seconds: float = 0.0
    engine_seconds: float = 0.0
    history: str = "[]"
    parts: str = "{}"

    def with_token(self) -> Record:
        """The record with a token of its own: that which goes into the state."""
        return self._with_token(secrets.token_hex(_TOKEN_BYTES))

    @property
    def is_whole(self) -> bool:
        """Whether nothing has changed since it got its token."""
        return self.token == self._with_token(self.token[: 2 * _TOKEN_BYTES]).token

    def _with_token(self, chosen: str) -> Record:
        said = json.dumps(asdict(replace(self, token=chosen)))
        return replace(self, token=chosen + hashlib.blake2b(said.encode(), digest_size=_TOKEN_BYTES).hexdigest())

    def log_parts(self) -> dict[int, list[tuple[int, int]]]:
        """`parts`, read.  Raises `Damage`."""
        found = {}
        for bucket, parts in JsonValue.parsed(self.parts, "parts").items():
            pairs = [part.tuple_of(2) for part in parts]
            try:
                number = int(bucket)
            except ValueError as problem:
                raise Damage(f"parts: {bucket!r} is not the number of a bucket") from problem
            found[number] = [(rows.whole(1), last.whole(0, self.order - 1)) for rows, last in pairs]
        return found

    def orders(self) -> dict[str, int]:
        """`history`, read: the order of the log by token.  Raises `Damage`."""
        pairs = [pair.tuple_of(2) for pair in JsonValue.parsed(self.history, "history")]
        return {token.text(): order.whole(0, self.order) for token, order in pairs}


_COUNTS = ("version", "order", "tuples", "late", "hits", "catch_ups", "rebuilds")
_COUNTED = ("late", "hits", "catch_ups", "rebuilds")
_SECONDS = ("catch_up_seconds", "rebuild_seconds", "engine_seconds")
_SQL_TYPES = {"int": "bigint", "float": "double", "str": "string"}
RECORD_SCHEMA = ", ".join(f"{field.name} {_SQL_TYPES[str(field.type)]}" for field in fields(Record))


cache = EngineCache()
"""Engines in this process, where no other keeps them (`rpq.spark.engine_call`)."""


class AnswerChanges(Shipped, StatefulProcessor):
    """Takes envelopes of edges, gives packed answer changes; the key is that of a root partition.

    `numbers` are the numbers of the partitions by their keys, `threads` those of an engine; `memory_limit` (bytes) is for
    all engines of a process.  With `counts` figures come after the rows (`rpq.spark.stream_counts`).  `packing` begins to
    pack the rows of a micro-batch.  Tuples wait until a `max_delay` has passed, in the integers of timestamps
    (`rpq.spark.held_back`).

    Of a stream that moves from other shares or other queries, `moved` has what shares begin with
    that have no state yet; keys that are none of `numbers` are those of before, the state of which goes.
    """

    def __init__(
        self,
        queries: Sequence[rpq.Query],
        *,
        numbers: Mapping[int, int],
        memory_limit: int | None,
        threads: int = 1,
        counts: bool = False,
        max_delay: int = 0,
        moved: Carried | None = None,
        packing: Callable[[], RowPacker] | None = None,
    ) -> None:
        self._queries = tuple(queries)
        self._numbers = dict(numbers)
        self._threads = threads
        self._counts = counts
        self._max_delay = max_delay
        self._memory_limit = memory_limit
        self._moved = moved
        self._packing = packing or AsStreams()
        self._identity = identity_of(self._queries, len(self._numbers))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._record = handle.getValueState("record", RECORD_SCHEMA)
        self._window = handle.getMapState("window", "bucket bigint, part bigint", "tuples binary")
        if self._max_delay:
            self._waiting = handle.getMapState("waiting", "part bigint", "tuples binary")

    def handleInputRows(self, key: Any, rows: Iterable[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Apply a micro-batch."""
        envelopes = [envelope for frame in rows for envelope in frame["edges"]]
        if not envelopes:
            return
        if int(key[0]) not in self._numbers:
            self._clear()
            return
        yield from packed_frames(self._move_in(self._numbers[int(key[0])]))
        if self._max_delay:
            came, arrived = passed(envelopes, _Waiting(self._waiting), max_delay=self._max_delay)
            if not len(came) and not self._record.exists():
                return  # the stream has no time yet
        else:
            came = unpack(envelopes)
            arrived = len(came)
        tuples = without_sequence(came.table)
        record = self._read_record()
        log = WindowLog(
            chunks=_Chunks(self._window), queries=self._queries, parts=record.log_parts(), order=record.order
        )
        before = record
        with engine_of(self._asked(self._numbers[int(key[0])]), cache) as engine:
            record = self._stand(engine, log, record)
            yield from packed_frames(engine.apply(tuples, came.tick))
            outcome = engine.outcome
            log.append(self._worth_keeping(tuples, outcome.late_rows), time=outcome.time)
            record = self._next_record(record, log, outcome, arrived)
            self._record.update(tuple(asdict(record).values()))
            held = engine.keep(record.stream, record.token)
        if self._counts:
            counted = {
                "tuples": arrived,
                "unread": came.dropped,
                **{name: getattr(record, name) - getattr(before, name) for name in _COUNTED},
                "window": log.rows,
                "memory": held,
            }
            yield packed_figures(counted)

    def close(self) -> None:
        """Nothing to close: what is cached stays."""

    def _clear(self) -> None:
        """Let the state go."""
        if self._record.exists():
            self._record.clear()
            self._window.clear()
            if self._max_delay:
                self._waiting.clear()

    def _move_in(self, number: int) -> Iterator[Packed]:
        """Begin with the state that moved here, if there is none or it is of before; the first rows of new queries."""
        if self._moved is None:
            return
        record = self._found_record()
        if record is not None and record.identity == self._identity:
            return
        moved: MovedState = self._moved.value
        if record is not None and record.identity != moved.identity:
            return  # which is refused
        self._clear()
        parts = MemoryChunks()
        log = moved.log(parts, self._queries)
        for (bucket, part), data in parts.items():
            self._window.updateValue((bucket, part), (data,))
        if self._max_delay:
            _Waiting(self._waiting).replace_all(moved.waiting)
        begun = Record(
            identity=self._identity,
            stream=secrets.token_hex(_TOKEN_BYTES),
            token="",
            version=moved.version,
            time=moved.time,
            order=log.order,
            tuples=moved.came,
            late=moved.late,
            parts=json.dumps(log.parts),
        ).with_token()
        self._record.update(tuple(asdict(begun).values()))
        limit = share_limit(self._memory_limit, threads=self._threads)
        rows = moved.first_rows(share=(number, len(self._numbers)), threads=self._threads, memory_limit=limit)
        if rows is not None:
            packer = self._packing()
            yield from packer.packed(rows)
            yield from packer.rest()

    def _found_record(self) -> Record | None:
        """The record in the state, if there is one.  Raises `PipelineError` and `StateFormatError` if it cannot be read."""
        found = self._record.get() if self._record.exists() else None
        return None if found is None else checked_record(tuple(found))

    def _read_record(self) -> Record:
        record = self._found_record()
        if record is None:
            return Record(identity=self._identity, stream=secrets.token_hex(8), token="")
        latest = INT64_MAX - max(window.reach for query in self._queries for window in windows_of(query))
        if record.time > latest:
            raise _damaged_record(Damage(f"time is {record.time}, not at most {latest}"))
        if record.identity != self._identity:
            raise PipelineError(
                f"the checkpoint belongs to {record.identity}, not to {self._identity}; "
                "start with a new checkpoint, or with the queries and partitions of this one"
            )
        return record

    def _next_record(self, record: Record, log: WindowLog, outcome: Outcome, arrived: int) -> Record:
        """The record after a micro-batch, with a new token."""
        history = record.orders() | ({record.token: record.order} if record.version else {})
        return replace(
            record,
            version=record.version + 1,
            time=outcome.time,
            order=log.order,
            tuples=record.tuples + arrived,
            late=record.late + len(outcome.late_rows),
            engine_seconds=record.engine_seconds + outcome.seconds,
            history=json.dumps(list(history.items())[-REMEMBERED:]),
            parts=json.dumps(log.parts),
        ).with_token()

    def _asked(self, number: int) -> ShareOfAnswers:
        return ShareOfAnswers(
            queries=self._queries,
            share=(number, len(self._numbers)),
            threads=self._threads,
            memory_limit=self._memory_limit,
            packing=self._packing,
        )

    def _stand(self, engine: ShareEngine, log: WindowLog, record: Record) -> Record:
        """Let an engine stand where the state does; the record with how that was come by."""
        started = clock.perf_counter()
        orders = record.orders()
        there = engine.take(record.stream, [record.token, *orders])
        if there is None:
            is_new = not record.version
            engine.build(None if is_new else log.edges(time=record.time), None if is_new else record.time)
            if is_new:
                return record
            seconds = record.rebuild_seconds + clock.perf_counter() - started
            return replace(record, rebuilds=record.rebuilds + 1, rebuild_seconds=seconds)
        if there == record.token:
            return replace(record, hits=record.hits + 1)
        engine.catch_up(log.since(orders[there]), record.time)
        seconds = record.catch_up_seconds + clock.perf_counter() - started
        return replace(record, catch_ups=record.catch_ups + 1, catch_up_seconds=seconds)

    def _worth_keeping(self, tuples: pa.Table, late_rows: np.ndarray) -> pa.Table:
        """The tuples without those that no query knows the label of and those that came too late."""
        labels = tuples["label"].combine_chunks().dictionary_encode()
        relevant = np.array(
            [any(query.reads(label) for query in self._queries) for label in labels.dictionary.to_pylist()], bool
        )
        kept = relevant[labels.indices.to_numpy()]
        kept[late_rows] = False
        return tuples.filter(pa.array(kept))


def checked_record(values: tuple[Any, ...]) -> Record:
    """The record that consists of these values.

    Raises `PipelineError` if another release wrote them, and `StateFormatError` if they are not as they were written.
    """
    if values[0] != FORMAT:
        raise PipelineError(f"the checkpoint has state of format {values[0]}; this release reads format {FORMAT}")
    try:
        content = JsonValue(dict(zip((field.name for field in fields(Record)), values, strict=True)))
        for name in _COUNTS:
            content[name].whole(0)
        for name in _SECONDS:
            content[name].number()
        for name in ("identity", "stream", "token", "history", "parts"):
            content[name].unicode()
        content["time"].whole(EARLIEST)
        record = Record(**content.value)
        if not record.is_whole:
            raise Damage("its checksum is wrong")
        record.log_parts()
        record.orders()
    except ValueError as problem:
        raise _damaged_record(problem) from problem
    return record


def identity_of(queries: Sequence[rpq.Query], partitions: int) -> str:
    """What must be the same for a checkpoint to be gone on with, as text."""
    return json.dumps({"queries": [_identity_of(kinds.described(query)) for query in queries], "partitions": partitions})


def _identity_of(query: Mapping[str, Any]) -> dict[str, Any]:
    """What of a query, as it is written down, decides its rows; of path queries in the words of the first checkpoints."""
    if "kind" in query:
        return dict(query)
    ends = {name: sorted(map(repr, query[name])) for name in ("sources", "targets") if query[name] is not None}
    return {name: query[name] for name in ("name", "expression", "window", "paths", "semantics")} | ends


def _damaged_record(problem: ValueError) -> rpq.StateFormatError:
    return rpq.StateFormatError(f"the record in the state is damaged: {problem}", reason="damaged")


class _Chunks:
    """The parts of a window log in a map state."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def read(self, bucket: int, part: int) -> bytes:
        value = self._state.getValue((bucket, part))
        if value is None:
            raise PipelineError(f"the state lacks part {part} of bucket {bucket} of the window")
        return bytes(value[0])

    def write(self, bucket: int, part: int, data: bytes) -> None:
        self._state.updateValue((bucket, part), (data,))

    def remove(self, bucket: int, part: int) -> None:
        self._state.removeKey((bucket, part))


class _Waiting:
    """Envelopes that wait, in a map state."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._count = 0

    def read_all(self) -> list[bytes]:
        found = [bytes(value[0]) for value in self._state.values()]
        self._count = len(found)
        return found

    def replace_all(self, envelopes: Sequence[bytes]) -> None:
        for number, envelope in enumerate(envelopes):
            self._state.updateValue((number,), (envelope,))
        for number in range(len(envelopes), self._count):
            self._state.removeKey((number,))
