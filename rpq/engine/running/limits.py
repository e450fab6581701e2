"""The limits of an engine: on its memory, on the time of a push, and on the rows that one event may bring to a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rpq.compiled.arrays import reserve
from rpq.compiled.cycle_counter import INTERRUPTED, NEVER, new_deadline, read_cycles, ticks_per_second
from rpq.compiled.stopwatch import compiling_seconds
from rpq.errors import MemoryLimitError, PushLimitError, SumLimitError
from rpq.language.protocol import OUT_OF_TIME, PATH_TOO_LONG, SUM_TOO_LARGE
from rpq.rows.delta import Delta, split_by_query

if TYPE_CHECKING:
    from rpq.language.protocol import Guard


class MemoryGuard:
    """The limits on the memory of everything together, and on the time of a push: `push_limit` seconds, or None.

    Measuring thousands of queries whenever an array grows would dominate the run time. Everything is therefore measured only
    after requests have taken half of the bytes that the last measurement found free.
    """

    def __init__(
        self,
        limit: int,
        *,
        other_bytes: Callable[[], int],
        deadline: np.ndarray | None = None,
    ) -> None:
        self.limit = limit
        self.push_limit: float | None = None
        self.deadline = new_deadline() if deadline is None else deadline
        """The tick after which kernels return and what they compute is refused. Other threads may set `INTERRUPTED`."""
        self._is_extended = False
        self._compiled = 0.0  # seconds for compiling kernels, when the clock was started
        self.row = 0  # of the push, at which the chunk begins
        self.places: np.ndarray | None = None  # the tuple of each edge of the chunk; None if every edge is one
        self.result_bytes = 0  # bytes of the rows of the push so far, which its caller has not received yet
        self._other_bytes = other_bytes  # bytes of what queries share
        self._workers: dict[Any, None] = {}
        self._granted = 0  # bytes that can be requested before everything is measured again

    def change_limit(self, limit: int) -> None:
        """Set another limit, against which everything is measured at the next request."""
        self.limit, self._granted = limit, 0

    @property
    def nbytes(self) -> int:
        """The number of bytes of everything together now. O(workers)."""
        workers: int = sum(worker.nbytes for worker in self._workers)
        return self._other_bytes() + workers

    def add(self, workers: Iterable[Any]) -> None:
        """Add workers, whose bytes count from now on."""
        self._workers |= dict.fromkeys(workers)
        self._granted = 0

    def drop(self, workers: Iterable[Any]) -> None:
        """Drop workers, whose bytes no longer count."""
        for worker in workers:
            self._workers.pop(worker, None)

    def of(self, name: Callable[[], str], workers: Callable[[], Iterable[Any]]) -> Guard:
        """Return the guard of a query, or of a host and a query that it serves."""

        def guard(more: int, place: int) -> None:
            if more in (SUM_TOO_LARGE, PATH_TOO_LONG):
                raise SumLimitError(name(), self.row + self._tuple_of(place), is_length=more == PATH_TOO_LONG)
            if more == OUT_OF_TIME or read_cycles() > self.deadline[0]:
                self._refuse_if_too_late(name(), self.row + self._tuple_of(place))
            if more != OUT_OF_TIME:
                self._refuse_if_too_much(name(), workers(), more, self.row + self._tuple_of(place))

        return guard

    def request(self, query: str, more: int) -> None:
        """Raise `MemoryLimitError`, which names a query, if there is no room for `more` bytes that belong to no worker."""
        self._refuse_if_too_much(query, (), more, self.row)

    def start_clock(self, *, is_limited: bool) -> None:
        """Begin a call of the engine, whose time `push_limit` limits if it `is_limited`."""
        self.deadline[0] = NEVER
        if is_limited and self.push_limit is not None:
            self._is_extended = False
            self._compiled = compiling_seconds()
            self.deadline[0] = _ticks_after(self.push_limit)

    def _refuse_if_too_late(self, query: str, row: int) -> None:
        """Raise `PushLimitError` for a tuple during which the deadline has passed; time for compiling does not count.

        The workers that come after this one get as much time once more, or that until the next interruption, in which they
        reach the tuple.
        """
        if self.deadline[0] == INTERRUPTED:
            self.deadline[0] = NEVER
            raise PushLimitError(
                f"query {query!r}: tuple {row} of the batch was interrupted", query=query, row=row, limit=None
            )
        if self.push_limit is None or read_cycles() <= self.deadline[0]:
            return  # the worker of another thread has been refused
        compiled, self._compiled = compiling_seconds() - self._compiled, compiling_seconds()
        if compiled > 0:
            self.deadline[0] += int(compiled * ticks_per_second())
            return
        if not self._is_extended:
            self._is_extended = True
            self.deadline[0] = _ticks_after(self.push_limit)
        raise PushLimitError(
            f"query {query!r}: tuple {row} of the batch is not done after {self.push_limit:g} s, the limit on a push. "
            "Restrict the query, take a smaller window, or raise push_limit (--push-limit)",
            query=query,
            row=row,
            limit=self.push_limit,
        )

    def _tuple_of(self, place: int) -> int:
        """Return the tuple of the chunk that the edge at a place is of; places behind the chunk are those of its last edge.

        An index that builds supports for a witness, after the chunk, is behind it, or where its last chunk ended.
        """
        if self.places is None or not len(self.places):
            return place
        return int(self.places[min(place, len(self.places) - 1)])

    def _refuse_if_too_much(self, query: str, growing: Iterable[Any], more: int, row: int) -> None:
        """Raise `MemoryLimitError` if everything together would exceed the limit with `more` bytes for growing workers."""
        self._granted -= more
        if self._granted >= 0:
            return
        unknown = sum(worker.nbytes for worker in growing if worker not in self._workers)  # of a query that is starting
        needed = self.nbytes + unknown + self.result_bytes + more
        self._granted = (self.limit - needed) // 2
        if needed + reserve.rows.nbytes > self.limit:
            reserve.rows.release_free()
        if needed > self.limit:
            raise MemoryLimitError(
                f"query {query!r}: tuple {row} of the batch would make the engine grow to "
                f"{needed:,} bytes; the limit is {self.limit:,}. Restrict sources or targets, take a smaller window, "
                "or raise memory_limit (--memory-limit)",
                query=query,
                row=row,
                size=needed,
                limit=self.limit,
            )


def _ticks_after(seconds: float) -> int:
    """Return the tick of the cycle counter after some seconds from now."""
    return int(read_cycles()) + int(seconds * ticks_per_second())


class RowOverflow(NamedTuple):
    """A query to which a tuple of the chunk, `place`, brings too many rows in one event."""

    query: str
    number: int
    place: int


def find_row_overflow(deltas: Sequence[tuple[int, Delta]], names: Sequence[str], limit: int) -> RowOverflow | None:
    """Return the first event that brings more than `limit` rows to one of the queries with these names.

    O(deltas), and where all rows are too many O(events + tuples of the chunk), unless those of one tuple are too many.
    """
    if sum([len(delta) for _, delta in deltas]) <= limit:
        return None
    deltas = split_by_query(deltas)
    found: list[tuple[int, int, RowOverflow]] = []
    by_number: dict[int, list[Delta]] = {}
    for number, delta in deltas:
        by_number.setdefault(number, []).append(delta)
    for number, mine in by_number.items():
        if sum(map(len, mine)) <= limit:
            continue
        orders, times, lengths = (
            np.concatenate(arrays)
            for arrays in ([d.orders for d in mine], [d.times for d in mine], [d.lengths() for d in mine])
        )
        if np.bincount(orders, lengths).max() <= limit:  # all events at a tuple together, which hardly ever are several
            continue
        moments, event = np.unique(np.stack([orders, times]), axis=1, return_inverse=True)
        rows = np.bincount(event, lengths).astype(np.int64)
        for first in np.flatnonzero(rows > limit)[:1].tolist():
            order, time = moments[:, first].tolist()
            found.append((order, time, RowOverflow(names[number], int(rows[first]), order // 2)))
    return min(found)[2] if found else None
