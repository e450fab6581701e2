"""The stateful processor: one root partition of the queries, from micro-batch to micro-batch.

The state contains the window, as a log (`rpq.spark.stream.window_log`), and figures (`PartitionRecord`).  The engine with
its index is a cache, in a separate process (`rpq.spark.stream.engine_host`) or, if there is none, in the Python worker.  A
cache may never have seen this partition, may have missed its last micro-batches, which ran on another machine, or may
contain the outcome of a failed attempt.  Therefore each micro-batch writes a new random token to the state, and the cache
stores the token of its engine: an engine whose token the state never had is never used.  An engine whose token the state had
some micro-batches ago catches up with the tuples since then; without such an engine, a new one is built from the window.

With a maximal delay, tuples wait for earlier tuples that may still arrive.  The watermark is the latest timestamp that has
arrived, less the delay.  Tuples up to the watermark are applied in the order of time, whichever micro-batch they arrived in;
the others wait in the state, as envelopes.  The latest tuple always waits, so the watermark need not be stored.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import rpq
from rpq.language import kinds
from rpq.language.hypercube import Share
from rpq.spark.columns import TRIPLES, EdgeModel, latest_timestamp
from rpq.spark.division import OwnEdges, label_readers, share_limit
from rpq.spark.envelopes import ROWS, PackedTuples, engine_columns, pack_table, unpack
from rpq.spark.errors import PipelineError
from rpq.spark.shipping import ShippedObject, ShippedValue
from rpq.spark.stream.engine_host import connect_engine
from rpq.spark.stream.inspected import open_states
from rpq.spark.stream.packed_rows import PackedRows, figures_frame, pack_rows, row_frames
from rpq.spark.stream.share_engine import BatchOutcome, EngineCache, ShareEngine, ShareSpec
from rpq.spark.stream.stream_identity import division_of
from rpq.spark.stream.window_log import MemoryChunks, MovedState, WindowLog
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.stream_time import EARLIEST

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, ValueState

FORMAT = 1
"""The version of the state; a checkpoint of another version is refused."""

REMEMBERED = 64
"""The number of earlier versions from which an engine can catch up."""

_TOKEN_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class PartitionRecord:
    """The figures of a partition, which the state contains beside the window.

    `stream` distinguishes this state from any other, and `token` its versions from one another; the second half of a token
    is a checksum of the whole record.  `history` (JSON) maps the tokens of earlier versions to the `order` of the log at
    that version, and `parts` (JSON) is the `parts` of `WindowLog`.  `hits` counts the micro-batches for which the cache had
    the engine of the current version, `catch_ups` those for which it had an earlier version, and `rebuilds` the others.
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

    def with_token(self) -> PartitionRecord:
        """Return the record with a new token, as it is written to the state."""
        return self._with_token(secrets.token_hex(_TOKEN_BYTES))

    @property
    def is_whole(self) -> bool:
        """True if the record is unchanged since it got its token."""
        return self.token == self._with_token(self.token[: 2 * _TOKEN_BYTES]).token

    def _with_token(self, chosen: str) -> PartitionRecord:
        text = json.dumps(asdict(replace(self, token=chosen)))
        return replace(self, token=chosen + hashlib.blake2b(text.encode(), digest_size=_TOKEN_BYTES).hexdigest())

    def log_parts(self) -> dict[int, list[tuple[int, int]]]:
        """Return `parts`, parsed.  Raises `Damage`."""
        found = {}
        for bucket, parts in JsonValue.parse(self.parts, "parts").items():
            pairs = [part.tuple_of(2) for part in parts]
            try:
                number = int(bucket)
            except ValueError as problem:
                raise Damage(f"parts: {bucket!r} is not the number of a bucket") from problem
            found[number] = [(rows.integer(1), last.integer(0, self.order - 1)) for rows, last in pairs]
        return found

    def orders(self) -> dict[str, int]:
        """Return `history`, parsed: the order of the log by token.  Raises `Damage`."""
        pairs = [pair.tuple_of(2) for pair in JsonValue.parse(self.history, "history")]
        return {token.text(): order.integer(0, self.order) for token, order in pairs}


_COUNTS = ("version", "order", "tuples", "late", "hits", "catch_ups", "rebuilds")
_COUNTED = ("late", "hits", "catch_ups", "rebuilds")
_SECONDS = ("catch_up_seconds", "rebuild_seconds", "engine_seconds")
_SQL_TYPES = {"int": "bigint", "float": "double", "str": "string"}
RECORD_SCHEMA = ", ".join(f"{field.name} {_SQL_TYPES[str(field.type)]}" for field in fields(PartitionRecord))


cache = EngineCache()
"""The engines of this process, used if there is no separate process for engines (`rpq.spark.stream.engine_host`)."""


class AnswerChanges(ShippedObject, StatefulProcessor):
    """A stateful processor that turns envelopes of edges into packed answer changes, with root partitions as keys.

    `numbers` maps the keys of the partitions to their numbers, `threads` is the number of threads of an engine, and
    `memory_limit` (bytes) applies to all engines of a process together.  With `counts`, a frame of figures follows the rows
    (`figures_frame`).  Tuples wait until `max_delay`, in the unit of timestamps, has passed.  `edges` is the model of edges:
    their identity, properties and types.  `sizes` are the numbers of edges by label, which shape the division of patterns.

    For a stream that moves from other shares or other queries, `moved` is the initial state of shares that have no state
    yet; the state of keys that are not in `numbers` belongs to the former shares and is removed.
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
        moved: ShippedValue | None = None,
        edges: EdgeModel = TRIPLES,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._queries = tuple(queries)
        self._numbers = dict(numbers)
        self._sizes = dict(sizes or {})
        self._threads = threads
        self._counts = counts
        self._max_delay = max_delay
        self._memory_limit = memory_limit
        self._moved = moved
        self._edges = edges
        self._identity = state_identity(self._queries, len(self._numbers), edges.identity, self._sizes)

    @property
    def states(self) -> dict[str, tuple[str, ...]]:
        """The variables of the state: the schema of a value, or the schemas of the keys and the values of a map."""
        found: dict[str, tuple[str, ...]] = {
            "record": (RECORD_SCHEMA,),
            "window": ("bucket bigint, part bigint", "tuples binary"),
        }
        return found | {"waiting": ("part bigint", "tuples binary")} if self._max_delay else found

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.open_states(open_states(self.states, handle))

    def open_states(self, states: Mapping[str, Any]) -> None:
        """Use these variables of the state, by name."""
        self._record: ValueState = states["record"]
        self._window: MapState = states["window"]
        if self._max_delay:
            self._waiting: MapState = states["waiting"]

    def handleInputRows(self, key: Any, rows: Iterable[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Apply a micro-batch."""
        envelopes = [envelope for frame in rows for envelope in frame["edges"]]
        if not envelopes:
            return
        if int(key[0]) not in self._numbers:
            self._clear_state()
            return
        yield from row_frames(self._adopt_moved_state(self._numbers[int(key[0])]))
        if self._max_delay:
            due, arrived = split_at_watermark(envelopes, _WaitingTuples(self._waiting), max_delay=self._max_delay)
            if not len(due) and not self._record.exists():
                return  # the stream time is not defined yet
        else:
            due = unpack(envelopes)
            arrived = len(due)
        tuples = engine_columns(due.table)
        record = self._read_record()
        log = WindowLog(
            chunks=_Chunks(self._window),
            queries=self._queries,
            model=self._edges,
            parts=record.log_parts(),
            order=record.order,
        )
        before = record
        with connect_engine(self._spec(self._numbers[int(key[0])]), cache) as engine:
            record = self._synchronize(engine, log, record)
            yield from row_frames(engine.apply(tuples, due.tick))
            outcome = engine.outcome
            relevant = self._relevant_tuples(tuples, outcome.late_rows)
            log.append(self._own_edges(self._numbers[int(key[0])]).select(relevant), time=outcome.time)
            record = self._next_record(record, log, outcome, arrived)
            self._record.update(tuple(asdict(record).values()))
            memory = engine.store(record.stream, record.token)
        if self._counts:
            counted = {
                "tuples": arrived,
                "unread": due.dropped_count,
                **{name: getattr(record, name) - getattr(before, name) for name in _COUNTED},
                "window": log.rows,
                "memory": memory,
            }
            yield figures_frame(counted)

    def close(self) -> None:
        """Do nothing: engines stay in the cache."""

    def _clear_state(self) -> None:
        """Remove the state."""
        if self._record.exists():
            self._record.clear()
            self._window.clear()
            if self._max_delay:
                self._waiting.clear()

    def _adopt_moved_state(self, number: int) -> Iterator[PackedRows]:
        """Adopt the moved state, unless the state is that of these queries already; yield the first rows of new queries."""
        if self._moved is None:
            return
        record = self._stored_record()
        if record is not None and record.identity == self._identity:
            return
        moved: MovedState = self._moved.value
        if record is not None and record.identity != moved.identity:
            return  # `_read_record` refuses it
        self._clear_state()
        parts = MemoryChunks()
        log = moved.log(parts, self._queries, self._own_edges(number), self._edges)
        for (bucket, part), data in parts.items():
            self._window.updateValue((bucket, part), (data,))
        if self._max_delay:
            _WaitingTuples(self._waiting).replace_all(moved.waiting)
        begun = PartitionRecord(
            identity=self._identity,
            stream=secrets.token_hex(_TOKEN_BYTES),
            token="",
            version=moved.version,
            time=moved.time,
            order=log.order,
            tuples=moved.tuple_count,
            late=moved.late,
            parts=json.dumps(log.parts),
        ).with_token()
        self._record.update(tuple(asdict(begun).values()))
        limit = share_limit(self._memory_limit, threads=self._threads)
        rows = moved.first_rows(share=self._share(number), threads=self._threads, memory_limit=limit)
        if rows is not None:
            yield from pack_rows(self._edges.cast(rows))

    def _stored_record(self) -> PartitionRecord | None:
        """Return the record in the state, or None.  Raises the errors of `validate_record` if it cannot be read."""
        values = self._record.get() if self._record.exists() else None
        return None if values is None else validate_record(tuple(values))

    def _read_record(self) -> PartitionRecord:
        record = self._stored_record()
        if record is None:
            return PartitionRecord(identity=self._identity, stream=secrets.token_hex(8), token="")
        latest = latest_timestamp(self._queries)
        if record.time > latest:
            raise _damaged_record(Damage(f"time is {record.time}, not at most {latest}"))
        if record.identity != self._identity:
            raise PipelineError(
                f"the checkpoint belongs to {record.identity}, not to {self._identity}; "
                "start with a new checkpoint, or with the queries and partitions of this one"
            )
        return record

    def _next_record(self, record: PartitionRecord, log: WindowLog, outcome: BatchOutcome, arrived: int) -> PartitionRecord:
        """Return the record after a micro-batch, with a new token."""
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

    def _spec(self, number: int) -> ShareSpec:
        return ShareSpec(
            queries=self._queries,
            share=self._share(number),
            threads=self._threads,
            memory_limit=self._memory_limit,
            edges=self._edges,
        )

    def _synchronize(self, engine: ShareEngine, log: WindowLog, record: PartitionRecord) -> PartitionRecord:
        """Bring an engine to the version of the state; return the record with one more hit, catch-up or rebuild."""
        started = clock.perf_counter()
        orders = record.orders()
        token = engine.take(record.stream, [record.token, *orders])
        if token is None:
            is_new = not record.version
            engine.build(None if is_new else log.window(time=record.time), None if is_new else record.time)
            if is_new:
                return record
            seconds = record.rebuild_seconds + clock.perf_counter() - started
            return replace(record, rebuilds=record.rebuilds + 1, rebuild_seconds=seconds)
        if token == record.token:
            return replace(record, hits=record.hits + 1)
        engine.catch_up(log.tuples_since(orders[token]), record.time)
        seconds = record.catch_up_seconds + clock.perf_counter() - started
        return replace(record, catch_ups=record.catch_ups + 1, catch_up_seconds=seconds)

    def _share(self, number: int) -> Share:
        return Share.of(number, len(self._numbers), self._sizes)

    def _own_edges(self, number: int) -> OwnEdges:
        """Return the filter of the edges that a share has in its state."""
        return OwnEdges(self._queries, share=self._share(number), whole=self._edges.has_ids)

    def _relevant_tuples(self, tuples: pa.Table, late_rows: np.ndarray) -> pa.Table:
        """Return the tuples except late ones and, unless edges have ids, those with a label that no query reads."""
        if self._edges.has_ids:
            mask = np.ones(len(tuples), bool)
        else:
            labels, readers = tuples["label"].combine_chunks().dictionary_encode(), label_readers(self._queries)
            is_read = [any(query.reads(label) for query in readers) for label in labels.dictionary.to_pylist()]
            mask = np.array(is_read, bool)[labels.indices.to_numpy()]
        mask[late_rows] = False
        return tuples.filter(pa.array(mask))


def validate_record(values: tuple[Any, ...]) -> PartitionRecord:
    """Return the record with these values.

    Raises `PipelineError` if another release wrote them, and `StateFormatError` if they are damaged.
    """
    if values[0] != FORMAT:
        raise PipelineError(f"the checkpoint has state of format {values[0]}; this release reads format {FORMAT}")
    try:
        content = JsonValue(dict(zip((field.name for field in fields(PartitionRecord)), values, strict=True)))
        for name in _COUNTS:
            content[name].integer(0)
        for name in _SECONDS:
            content[name].number()
        for name in ("identity", "stream", "token", "history", "parts"):
            content[name].unicode()
        content["time"].integer(EARLIEST)
        record = PartitionRecord(**content.value)
        if not record.is_whole:
            raise Damage("its checksum is wrong")
        record.log_parts()
        record.orders()
    except ValueError as problem:
        raise _damaged_record(problem) from problem
    return record


def state_identity(
    queries: Sequence[rpq.Query], partitions: int, edges: str = "triple", sizes: Mapping[str, int] | None = None
) -> str:
    """Return everything on which the state depends as text; a stream continues only from a checkpoint with equal text.

    The text contains the queries, the number of partitions, the division of the edges of patterns, the `sizes` of labels,
    and the identity of edges.
    """
    return json.dumps(
        {
            "queries": [kinds.query_json(query) for query in queries],
            "partitions": partitions,
            "division": division_of(queries, partitions, sizes),
            "sizes": dict(sorted((sizes or {}).items())),
            "edges": edges,
        }
    )


def _damaged_record(problem: ValueError) -> rpq.StateFormatError:
    return rpq.StateFormatError(f"the record in the state is damaged: {problem}", reason="damaged")


class _Chunks:
    """The parts of a window log, in a map state."""

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


class _WaitingTuples:
    """Waiting envelopes, in a map state."""

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


def split_at_watermark(envelopes: Sequence[bytes], waiting: _WaitingTuples, *, max_delay: int) -> tuple[PackedTuples, int]:
    """Return the tuples up to the watermark, and the number of new tuples; store the other tuples. O(waiting tuples)."""
    before = waiting.read_all()
    tuples = unpack([*envelopes, *before])
    arrived = len(tuples) - sum(len(unpack([one])) for one in before)
    stamps = tuples.table["timestamp"].to_numpy()
    cut = int(stamps.searchsorted(stamps[-1] - max_delay, "right"))
    rest = tuples.table.slice(cut)
    waiting.replace_all([pack_table(rest.slice(start, ROWS)) for start in range(0, len(rest), ROWS)])
    return PackedTuples(table=tuples.table.slice(0, cut), dropped_count=tuples.dropped_count, tick=tuples.tick), arrived
