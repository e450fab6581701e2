"""The engine of a share from micro-batch to micro-batch, and a cache of engines by versions of the state.

`rpq.spark.stream.processor` describes the versions and their tokens.
"""

from __future__ import annotations

import threading
import time as clock
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from weakref import WeakSet

import numpy as np
import pyarrow as pa

import rpq
from rpq.engine.engine import Engine  # this import also registers the kinds of queries
from rpq.engine.state.sealed import damage_error
from rpq.language.hypercube import Share
from rpq.spark.columns import TRIPLES, EdgeModel
from rpq.spark.division import OwnEdges, engine_bytes, set_memory_limit, share_limit
from rpq.spark.envelopes import TUPLES
from rpq.spark.shipping import ShippedObject
from rpq.spark.stream.packed_rows import PackedRows, pack_rows
from rpq.spark.stream.window_log import push_window

PUSHED_ROWS = 1 << 14
"""The number of tuples pushed at once, whose answer changes are in memory together."""

CACHED_ENGINES = 8
"""The largest number of idle engines in a process; the least recently used engine is dropped."""


class EngineCache:
    """Idle engines by stream, each with the token of its version of the state, and a record of the engines in use."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, tuple[str, Engine]] = OrderedDict()
        self._in_use: WeakSet[Engine] = WeakSet()
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """The number of bytes that all engines occupy."""
        with self._lock:
            return sum(map(engine_bytes, self._engines()))

    def make_room(self, engine: Engine, limit: int) -> None:
        """Set the memory limit of an engine in use to what the other engines of this process leave of `limit`.

        Idle engines are dropped, the least recently used first, while all engines occupy more than half of the limit.
        """
        with self._lock:
            while self._idle and self.nbytes > limit // 2:
                self._idle.popitem(last=False)
            set_memory_limit(engine, limit - sum(engine_bytes(other) for other in self._engines() if other is not engine))

    def use(self, engine: Engine) -> None:
        """Record an engine as in use, for as long as it exists."""
        with self._lock:
            self._in_use.add(engine)

    def take(self, stream: str) -> tuple[str, Engine] | None:
        """Remove and return the token and the idle engine of a stream, or None.

        The engine is removed so that no later call gets an engine that failed half-way.
        """
        with self._lock:
            entry = self._idle.pop(stream, None)
            if entry is not None:
                self.use(entry[1])
            return entry

    def put(self, stream: str, token: str, engine: Engine) -> None:
        """Store an engine that is no longer in use."""
        with self._lock:
            self._in_use.discard(engine)
            self._idle[stream] = (token, engine)
            while len(self._idle) > CACHED_ENGINES:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Remove all idle engines."""
        with self._lock:
            self._idle.clear()

    def _engines(self) -> list[Engine]:
        return [*(engine for _, engine in self._idle.values()), *self._in_use]


@dataclass(frozen=True, kw_only=True)
class ShareSpec(ShippedObject):
    """The specification of a share: its queries and edges, its number and the number of shares, and how rows are packed.

    `memory_limit` (bytes) applies to all engines of a process together.
    """

    queries: tuple[rpq.Query, ...]
    share: Share
    threads: int
    memory_limit: int | None
    packing: Callable[[pa.Table], Iterator[PackedRows]] = pack_rows
    edges: EdgeModel = TRIPLES


class BatchOutcome(NamedTuple):
    """The outcome of a micro-batch: the stream time, the indices of late tuples, and the seconds spent."""

    time: int
    late_rows: np.ndarray
    seconds: float


class ShareEngine(Protocol):
    """The engine of a share, in this or another process.

    Call `take`, then `build` or `catch_up` if needed, then `apply` and `store`.
    """

    outcome: BatchOutcome

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        """Take the stored engine of a stream; return the token of its version if it is one of `tokens`, otherwise None."""

    def build(self, window: pa.Table | None, time: int | None) -> None:
        """Build the engine from the tuples that give the window (`WindowLog.window`) at a time; None for a new stream.

        Raises `StateFormatError` if the tuples are damaged.
        """

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        """Apply the tuples that the engine has missed.  Raises `StateFormatError` if they are damaged."""

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[PackedRows]:
        """Yield the rows for the tuples of a micro-batch, followed by a tick, and set `outcome`."""

    def store(self, stream: str, token: str) -> int:
        """Store the engine for a version of a stream; return the number of bytes that all engines of the process occupy."""


class LocalEngine:
    """The engine of a share in this process.

    `shares` is the number of shares with a process on this machine.  `check_caller` is called between the pieces of a
    micro-batch, and raises an exception if the caller has ended.
    """

    outcome: BatchOutcome

    def __init__(
        self, spec: ShareSpec, cache: EngineCache, *, shares: int = 1, check_caller: Callable[[], None] = lambda: None
    ) -> None:
        self._spec = spec
        self._cache = cache
        self._limit = share_limit(spec.memory_limit, threads=spec.threads, shares=shares)
        self._check_caller = check_caller
        self._own = OwnEdges(spec.queries, share=spec.share, whole=spec.edges.has_ids)
        self._engine: Engine | None = None

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        entry = self._cache.take(stream)
        if entry is None or entry[0] not in tokens or entry[1].queries != self._spec.queries:
            return None
        token, self._engine = entry
        return token

    def build(self, window: pa.Table | None, time: int | None) -> None:
        spec = self._spec
        self._engine = Engine(
            *spec.queries, share=spec.share, threads=spec.threads, memory_limit=self._limit, **spec.edges.engine_options
        )
        self._cache.use(self._engine)
        if time is not None:
            with _damage_in_state():
                push_window(self._engine, None if window is None else self._own.select(window), time=time)

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        assert self._engine is not None
        if missed is not None:
            with _damage_in_state():
                self._engine.push(self._own.select(missed), collect=False)
        self._engine.advance(time)

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[PackedRows]:
        engine, own, pack = self._engine, self._own, self._spec.packing
        assert engine is not None
        late = [np.zeros(0, np.int64)]
        seconds = 0.0
        for start in range(0, len(tuples), PUSHED_ROWS):
            self._check_caller()
            self._cache.make_room(engine, self._limit)
            started = clock.perf_counter()
            edges, time = own.select_in_order(tuples.slice(start, PUSHED_ROWS), engine.time)
            changes = engine.push(edges) if len(edges) else None
            seconds += clock.perf_counter() - started
            if changes is not None:
                late.append(changes.late_rows + start)  # if edges are left out, no edge is late
                yield from pack(self._spec.edges.cast(changes.to_arrow()))
            if time is not None and (engine.time is None or time > engine.time):
                yield from pack(self._spec.edges.cast(engine.advance(time).to_arrow()))
        if tick is not None and (engine.time is None or tick > engine.time):
            yield from pack(self._spec.edges.cast(engine.advance(tick).to_arrow()))
        assert engine.time is not None
        self.outcome = BatchOutcome(engine.time, np.concatenate(late), seconds)

    def store(self, stream: str, token: str) -> int:
        assert self._engine is not None
        self._cache.put(stream, token, self._engine)
        return self._cache.nbytes


@contextmanager
def _damage_in_state() -> Iterator[None]:
    """Report an error as a damaged state: in the block, tuples are pushed that were pushed before."""
    try:
        yield
    except rpq.InputError as problem:
        raise damage_error(TUPLES, "the window in the state", str(problem)) from problem
