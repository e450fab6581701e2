"""The engine of a share from micro-batch to micro-batch: a cache of what the state says (`rpq.spark.processor`)."""

from __future__ import annotations

import time as clock
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

import rpq
from rpq.engine import Engine  # with it come the kinds of queries that there are
from rpq.files.sealed import damaged
from rpq.spark.own_edges import OwnEdges
from rpq.spark.packed import TUPLES
from rpq.spark.packed_rows import Packed, RowPacker
from rpq.spark.shipped import Shipped
from rpq.spark.worker_limits import bytes_of, make_room, share_limit

PUSHED_ROWS = 1 << 14
"""Tuples pushed at once: their answer changes are in memory together."""

CACHED_ENGINES = 8
"""Engines that a process keeps at most; the one used longest ago goes."""


class EngineCache:
    """Engines by stream, each with the token of the state that it stands for."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[str, Engine]] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes that the engines hold."""
        return sum(bytes_of(engine) for _, engine in [*self._held.values()])

    def shrink(self, most: int) -> None:
        """Let engines go, that used longest ago first, until they hold at most so many bytes."""
        while self._held and self.nbytes > most:
            self._held.popitem(last=False)

    def take(self, stream: str) -> tuple[str, Engine] | None:
        """What is kept of a stream; it leaves the cache, so that no one sees an engine that failed half-way."""
        return self._held.pop(stream, None)

    def put(self, stream: str, token: str, engine: Engine) -> None:
        """Keep an engine."""
        self._held[stream] = (token, engine)
        while len(self._held) > CACHED_ENGINES:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()


@dataclass(frozen=True, kw_only=True)
class ShareOfAnswers(Shipped):
    """What a share answers, and how: queries, its number and how many there are, and how its rows are packed.

    `memory_limit` (bytes) is for all engines of a process.
    """

    queries: tuple[rpq.Query, ...]
    share: tuple[int, int]
    threads: int
    memory_limit: int | None
    packing: Callable[[], RowPacker]


class Outcome(NamedTuple):
    """What became of the tuples of a micro-batch: the stream time, those that were late, and the seconds they took."""

    time: int
    late_rows: np.ndarray
    seconds: float


class ShareEngine(Protocol):
    """The engine of a share, wherever it is: first `take`, then `build` or `catch_up` if need be, `apply`, `keep`."""

    outcome: Outcome

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        """The version of a stream at which there is an engine, if it is one of these."""

    def build(self, edges: pa.Table | None, time: int | None) -> None:
        """Make one from the edges of the window, the youngest first, at a stream time; None for a stream that begins.

        Raises `StateFormatError`.
        """

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        """Let it have the tuples since. Raises `StateFormatError`."""

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[Packed]:
        """Its rows for the tuples of a micro-batch, behind which comes a tick; then `outcome` tells of them."""

    def keep(self, stream: str, token: str) -> int:
        """Keep it, as it stands for this version of a stream now; the bytes that all hold."""


class EngineHere:
    """The engine of a share in this process."""

    outcome: Outcome

    def __init__(self, asked: ShareOfAnswers, cache: EngineCache) -> None:
        self._asked = asked
        self._cache = cache
        self._own = OwnEdges(asked.queries, share=asked.share)
        self._engine: Engine | None = None

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        held = self._cache.take(stream)
        if held is None or held[0] not in tokens:
            return None
        self._engine = held[1]
        return held[0]

    def build(self, edges: pa.Table | None, time: int | None) -> None:
        self._engine = Engine(
            *self._asked.queries, share=self._asked.share, threads=self._asked.threads, memory_limit=self._limit
        )
        if time is not None:
            self._engine.advance(time)
        if edges is not None:
            # The youngest first, so that each cell of the index gets its final value at once.
            self._push_again(edges)

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        assert self._engine is not None
        if missed is not None:
            self._push_again(missed)
        self._engine.advance(time)

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[Packed]:
        engine, own, packer = self._engine, self._own, self._asked.packing()
        assert engine is not None
        make_room(engine, self._cache, self._limit)
        late = [np.zeros(0, np.int64)]
        seconds = 0.0
        for start in range(0, len(tuples), PUSHED_ROWS):
            started = clock.perf_counter()
            edges, time = own.in_order(tuples.slice(start, PUSHED_ROWS), engine.time)
            changes = engine.push(edges) if len(edges) else None
            seconds += clock.perf_counter() - started
            if changes is not None:
                late.append(changes.late_rows + start)  # where edges are left out none is late
                yield from packer.packed(changes.to_arrow())
            if time is not None and (engine.time is None or time > engine.time):
                yield from packer.packed(engine.advance(time).to_arrow())
        if tick is not None and (engine.time is None or tick > engine.time):
            yield from packer.packed(engine.advance(tick).to_arrow())
        yield from packer.rest()
        assert engine.time is not None
        self.outcome = Outcome(engine.time, np.concatenate(late), seconds)

    def keep(self, stream: str, token: str) -> int:
        assert self._engine is not None
        self._cache.put(stream, token, self._engine)
        return self._cache.nbytes

    @property
    def _limit(self) -> int:
        return share_limit(self._asked.memory_limit, threads=self._asked.threads)

    def _push_again(self, tuples: pa.Table) -> None:
        """Push what was pushed before, so that nothing can be wrong with it."""
        assert self._engine is not None
        try:
            self._engine.push(self._own.of(tuples), collect=False)
        except rpq.InputError as problem:
            raise damaged(TUPLES, "the window in the state", str(problem)) from problem
