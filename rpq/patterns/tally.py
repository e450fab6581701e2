"""The outcomes of the tuples of patterns with path atoms: counts, and the slides at which edges leave a window.

The relation of an edge atom counts its own tuples. A path atom reads several labels, which other atoms of its pattern may
read too, and may not know them in advance. So a tally has, for one window, the slide at which each edge of the snapshot
graph leaves: that determines the outcome of a tuple, whatever its label is. *Readers* are sets of labels that patterns read.

A window of count goes by the numbers of inserts in place of time: all its readers read the labels that it numbers. An
unbounded window removes an edge only when it is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.files.json_values import Damage
from rpq.stream.chunk import Chunk
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, Window

NOT_HELD = int(np.iinfo(np.int64).min)
_NEVER = INT64_MAX

# Fields of `TallyArrays.state`.
_SIZE = 0
_SLIDE = 1
_NOW = 2  # the current slide, if _HAS_TIME; of an unbounded window it is before all others
_HAS_TIME = 3
_READERS = 4
_KIND = 5
_NUMBER = 6  # of a count window: of the last insert
_STATE = 7

_TIME, _COUNT, _UNBOUNDED = range(3)

# Of a reader, in `TallyArrays.counts`: the order of `rpq.queries.protocol.COUNTS`, but for the last.
_INSERTED, _REFRESHED, _DELETED, _ABSENT, _LATE = range(5)
_COUNTS = 5


class TallyArrays(NamedTuple):
    """The arrays of a tally."""

    expiry: np.ndarray  # int64 an edge: the slide at which it leaves the window; the smallest int64 where it was deleted
    time: np.ndarray  # int64 an edge of a count window: its largest timestamp since it came in; none for other windows
    is_read: np.ndarray  # uint8, labels × readers
    counts: np.ndarray  # int64, readers × 5
    state: np.ndarray  # int64[_STATE]


class Tally:
    """The counts for the readers of one window. An edge whose slide has come counts as absent."""

    def __init__(self, window: AnyWindow) -> None:
        self.window = window
        state = np.zeros(_STATE, np.int64)
        if isinstance(window, Window):
            state[_SIZE], state[_SLIDE], state[_KIND] = window.size, window.slide, _TIME
        elif isinstance(window, CountWindow):
            state[_SIZE], state[_SLIDE], state[_KIND] = window.size, window.step, _COUNT
        else:
            state[_NOW], state[_KIND] = NOT_HELD, _UNBOUNDED
        self._arrays = TallyArrays(
            expiry=np.zeros(0, np.int64),
            time=np.zeros(0, np.int64),
            is_read=np.zeros(0, np.uint8),
            counts=np.zeros(0, np.int64),
            state=state,
        )
        self._view: Any = None
        self._readers: list[Hashable] = []
        self._users: Counter[Hashable] = Counter()
        self._labels = 0

    # --- readers ---------------------------------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """Whether there are readers."""
        return bool(self._readers)

    def has(self, reader: Hashable) -> bool:
        """Return whether tuples are counted for a reader."""
        return reader in self._users

    def take(self, reader: Hashable) -> None:
        """Count tuples of a reader, a set of labels, for one more query; `read` sets the labels."""
        self._users[reader] += 1
        if self._users[reader] == 1:
            old = len(self._readers)
            self._readers.append(reader)
            self._resize([*range(old), -1])

    def release(self, reader: Hashable) -> None:
        """Remove one query from a reader; a reader without queries is removed."""
        self._users[reader] -= 1
        if not self._users[reader]:
            del self._users[reader]
            gone = self._readers.index(reader)
            del self._readers[gone]
            self._resize([place for place in range(len(self._readers) + 1) if place != gone])

    def _resize(self, places: list[int]) -> None:
        """Set the readers to those at these places; -1 is a new one."""
        old = int(self._arrays.state[_READERS])
        is_read = np.zeros((self._labels, len(places)), np.uint8)
        counts = np.zeros((len(places), _COUNTS), np.int64)
        kept = [(new, place) for new, place in enumerate(places) if place >= 0]
        for new, place in kept:
            is_read[:, new] = self._arrays.is_read.reshape(self._labels, old)[:, place] if old else 0
            counts[new] = self._arrays.counts.reshape(old, _COUNTS)[place]
        self._arrays.state[_READERS] = len(places)
        self._replace(is_read=is_read.reshape(-1), counts=counts.reshape(-1))

    def _replace(self, **arrays: np.ndarray) -> None:
        self._arrays = self._arrays._replace(**arrays)
        self._view = None

    def read(self, reader: Hashable, labels: np.ndarray, is_read: np.ndarray) -> None:
        """Set which label ids a reader reads. O(labels), amortised."""
        readers = len(self._readers)
        if len(labels) and (needed := int(labels.max()) + 1) > self._labels:
            room = max(needed, 2 * self._labels, 16)
            longer = np.zeros(room * readers, np.uint8)
            longer[: len(self._arrays.is_read)] = self._arrays.is_read
            self._labels = room
            self._replace(is_read=longer)
        self._arrays.is_read.reshape(self._labels, readers)[labels, self._readers.index(reader)] = is_read

    def make_room(self, edges: int) -> None:
        """Make room for edge ids below `edges`."""
        more = edges - len(self._arrays.expiry)
        if more > 0:
            self._replace(expiry=np.concatenate([self._arrays.expiry, np.full(more, NOT_HELD, np.int64)]))
            if self._arrays.state[_KIND] == _COUNT:
                self._replace(time=np.concatenate([self._arrays.time, np.zeros(more, np.int64)]))

    def count_from(self, number: int) -> None:
        """Set the number of inserts that a count window has numbered."""
        state = self._arrays.state
        if state[_KIND] == _COUNT:
            state[_NUMBER] = number
            state[_NOW] = number // state[_SLIDE]

    # --- the stream ------------------------------------------------------------------------------------------

    def apply(self, tuples: Any, count: int) -> None:
        """Count the tuples of the view of a chunk."""
        if self._view is None:
            self._view = view(self._arrays)
        count_tuples(self._view, tuples, count)

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple."""
        if not isinstance(self.window, Window):
            return
        state = self._arrays.state
        slide = time // self.window.slide
        state[_NOW] = max(slide, int(state[_NOW])) if state[_HAS_TIME] else slide
        state[_HAS_TIME] = 1

    def load(self, reader: Hashable, chunk: Chunk, slides: np.ndarray, *, is_checked: bool) -> None:
        """Load the edges in the window that have a reader's labels, with the slides at which they leave. Raises `Damage`."""
        expiry, now = self._arrays.expiry, int(self._arrays.state[_NOW])
        mine = self._reads(reader, chunk.label) & (slides > now)
        edges, expires = chunk.edge[mine], slides[mine]
        held = expiry[edges]
        if is_checked and ((held > now) & (held != expires)).any():
            raise Damage("a query holds other edges than one that reads the same labels")
        expiry[edges] = expires
        if len(self._arrays.time):
            self._arrays.time[edges] = chunk.timestamp[mine]

    def _reads(self, reader: Hashable, labels: np.ndarray) -> np.ndarray:
        readers = len(self._readers)
        is_read: np.ndarray = self._arrays.is_read.reshape(self._labels, readers)[labels, self._readers.index(reader)] != 0
        return is_read

    def sweep(self, label_of: np.ndarray) -> None:
        """Forget edges that no reader reads, whose ids may be reused; `label_of` is the label of every edge. O(edges)."""
        if self._labels:
            any_reads = np.asarray(self._arrays.is_read.reshape(self._labels, len(self._readers)).any(axis=1))
            unread = ~any_reads[label_of[: len(self._arrays.expiry)]]
            self._arrays.expiry[: len(unread)][unread] = NOT_HELD

    # --- results ---------------------------------------------------------------------------------------------

    def tuple_counts(self, reader: Hashable) -> np.ndarray:
        """Return how many tuples with a reader's labels were inserted, refreshed, deleted, absent, late."""
        return self._arrays.counts.reshape(-1, _COUNTS)[self._readers.index(reader)].copy()

    def slides(self, reader: Hashable, edges: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the slides at which edges with these labels leave the window; the smallest int64 for labels not read."""
        return np.where(self._reads(reader, labels), self._arrays.expiry[edges], NOT_HELD)

    def time_of(self, edge: int, latest: int) -> int | None:
        """Return the timestamp of an edge, or None where the window lacks it; the graph has the `latest` timestamp."""
        if self._arrays.expiry[edge] <= self._arrays.state[_NOW]:
            return None
        return int(self._arrays.time[edge]) if len(self._arrays.time) else latest

    def edges_live(self, reader: Hashable, label_of: np.ndarray) -> int:
        """Return the number of edges in the window with a reader's labels; `label_of` is the label of every edge.

        O(edges).
        """
        live = np.flatnonzero(self._arrays.expiry > self._arrays.state[_NOW])
        return int(self._reads(reader, label_of[live]).sum()) if len(live) else 0

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays)


@njit(cache=True, nogil=True)
def count_tuples(tally, tuples, count):
    """Determine the outcome of each tuple in the window, and count it for the readers of its label."""
    state = tally.state
    slide, readers, kind = state[_SLIDE], state[_READERS], state[_KIND]
    for i in range(count):
        if kind == _TIME:
            crossed = tuples.timestamp[i] // slide
            if state[_HAS_TIME] == 0 or crossed > state[_NOW]:
                state[_HAS_TIME] = 1
                state[_NOW] = crossed
        first = np.int64(tuples.label[i]) * readers
        outcome = np.int64(-1)
        for reader in range(readers):
            if tally.is_read[first + reader] == 0:
                continue
            if outcome < 0:
                outcome = _outcome(tally, tuples, i)
            tally.counts[reader * _COUNTS + outcome] += 1


@njit(cache=True, nogil=True)
def _outcome(tally, tuples, i):
    """Apply a tuple whose label is read; return its outcome."""
    state, expiry = tally.state, tally.expiry
    edge, time, kind = np.int64(tuples.edge[i]), tuples.timestamp[i], state[_KIND]
    is_held = edge >= 0 and expiry[edge] > state[_NOW]
    if tuples.delete[i] != 0:
        if is_held:
            expiry[edge] = NOT_HELD
        return np.int64(_DELETED if is_held else _ABSENT)
    expires = np.int64(_NEVER)
    if kind == _TIME:
        expires = (time + state[_SIZE] - 1) // state[_SLIDE] + 1
        if edge < 0 or expires <= state[_NOW]:
            return np.int64(_LATE)
    elif kind == _COUNT:
        state[_NUMBER] += 1
        state[_NOW] = state[_NUMBER] // state[_SLIDE]
        expires = (state[_NUMBER] + state[_SIZE] - 1) // state[_SLIDE] + 1
        tally.time[edge] = max(tally.time[edge], time) if is_held else time
    expiry[edge] = max(expiry[edge], expires) if is_held else expires
    return np.int64(_REFRESHED if is_held else _INSERTED)
