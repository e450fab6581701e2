"""The judge of tuples: what becomes of a tuple in a window, and which edges a window holds.

A tuple whose label a window reads is judged against the edge as the window has it. An insert comes too *late* if the edge
would have left already, *refreshes* an edge that is held, and is *inserted* otherwise; a delete finds its edge or not. A
tuple with a label that nothing reads is *irrelevant*. An insert that no reader of its label accepts (`edge_filter.py`) is
*passed by*, unless it is late. `outcome_of` takes these decisions for the snapshot graph, the indexes of paths, relations of
patterns, `WindowMembership` and edges with an identity; `stronger` combines the outcomes of one tuple in several windows or
streams.

`WindowMembership` has for each edge of the snapshot graph and each of its windows the slide, of time or of inserts, at which
the edge leaves. An edge whose slide has come counts as absent; nothing is searched for or evicted. Edges of named streams
are edges of their own in the graph, so that a window needs one number an edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound, view
from rpq.stream.chunk import Chunk
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, Window


class Outcome(IntEnum):
    """The outcome of a tuple. Figures, saved states and kernels have counts in this order and by these names."""

    INSERTED = 0
    REFRESHED = 1
    DELETED = 2
    ABSENT = 3
    """A delete whose edge is not held."""
    LATE = 4
    PASSED_BY = 5
    """An insert of an edge that no query which reads its label accepts."""
    IRRELEVANT = 6


OUTCOMES = tuple(Outcome.__members__)
"""The names of all outcomes."""
OUTCOME_COUNT = len(OUTCOMES)

# The same as plain integers, which kernels take as constants.
INSERTED, REFRESHED, DELETED, ABSENT, LATE, PASSED_BY, IRRELEVANT = (int(outcome) for outcome in Outcome)

NOT_HELD = int(np.iinfo(np.int64).min)
"""In place of the slide at which an edge leaves a window: the window does not contain it."""
NEVER = INT64_MAX
"""In place of the slide at which an edge leaves a window: it leaves only by a delete."""


@njit(cache=True, nogil=True, forceinline=True)
def outcome_of(is_delete, is_held, is_late):
    """Return the outcome of a tuple whose label a window reads; `is_late` matters only to inserts."""
    if is_delete:
        return np.int64(DELETED if is_held else ABSENT)
    if is_late:
        return np.int64(LATE)
    return np.int64(REFRESHED if is_held else INSERTED)


_decide = getattr(outcome_of, "py_func", outcome_of)
_NO_YES = (False, True)
OUTCOME_OF = [[[int(_decide(delete, held, late)) for late in _NO_YES] for held in _NO_YES] for delete in _NO_YES]
"""The same for single tuples in Python, which calls no kernel: `OUTCOME_OF[is_delete][is_held][is_late]`."""


@njit(cache=True, nogil=True, forceinline=True)
def outcome_without_edge(is_delete, is_late):
    """Return the outcome of a tuple whose label a window reads, and whose edge no reader accepts."""
    if is_delete:
        return np.int64(ABSENT)
    return np.int64(LATE if is_late else PASSED_BY)


@njit(cache=True, nogil=True, forceinline=True)
def stronger(first, second):
    """Return the stronger of two outcomes of one tuple.

    The order is refreshed, inserted, passed by, late, irrelevant for inserts, and deleted, absent, irrelevant for deletes.
    So a tuple is late for a query if every window that reads it refuses it.
    """
    is_weak = first in (IRRELEVANT, LATE, ABSENT) or (first == PASSED_BY and second == INSERTED)
    return np.int64(second if second == REFRESHED or (is_weak and second != IRRELEVANT) else first)


STRONGER = np.array(
    [[getattr(stronger, "py_func", stronger)(one, other) for other in range(OUTCOME_COUNT)] for one in range(OUTCOME_COUNT)],
    np.uint8,
)
"""The stronger of two outcomes, `STRONGER[first, second]`, for arrays of outcomes."""


@njit(cache=True, nogil=True, forceinline=True)
def leaving_slide(time, size, slide):
    """Return the slide at which an edge with a timestamp leaves a window (`Window.expiry_slide`)."""
    return -((-(time + size)) // slide)


# --- which edges windows hold -------------------------------------------------------------------------------

# The offsets of fields are computed by hand. With records (`rpq.compiled.views.Record`) `judge_tuples` takes up to 8 % more
# CPU time, with an array for each field 4 to 14 % more: minima of sixty alternating pairs, of a window of time, one of
# inserts, both kinds together, and three readers.

# Fields of a window, in `MembershipArrays.window`.
_KIND = 0
_SIZE = 1
_SLIDE = 2
_NOW = 3  # the current slide, of time or of inserts; of an unbounded window it is before all others
_NUMBER = 4  # inserts so far, of a count window
_NAMED = 5  # 1: it reads a stream that has a name
_FIELDS = 6
_TIME, _COUNT, _UNBOUNDED = range(3)

# Fields of `MembershipArrays.state`.
_WINDOWS = 0
_READERS = 1
_HAS_TIME = 2
_TIMESTAMPS = 3  # 1: `timestamp` is kept
_STATE = 4


class MembershipArrays(NamedTuple):
    """The arrays of `WindowMembership`."""

    window: np.ndarray  # int64, _FIELDS a window
    leaves: np.ndarray  # int64, edges × windows: the slide at which an edge leaves, NOT_HELD
    timestamp: np.ndarray  # int64 an edge of a single count window: its largest one since it came in; else none
    is_read: np.ndarray  # uint8, labels × readers × windows
    counts: np.ndarray  # int64, readers × OUTCOME_COUNT
    outcome: np.ndarray  # int64 a window: of the current tuple
    state: np.ndarray  # int64[_STATE]


class WindowMembership:
    """The edges that windows hold, and the outcomes of tuples for its *readers*: queries, by the labels that they read.

    Readers are keys that the caller chooses; queries with equal labels have one. A count window goes by the numbers of
    inserts in place of time: all readers read the labels that it numbers. An unbounded window loses an edge when it is
    deleted.

    >>> membership = WindowMembership([Window(size=10, slide=1)])
    >>> membership.take("the labels a and b")
    >>> membership.counts("the labels a and b").tolist()
    [0, 0, 0, 0, 0, 0, 0]
    """

    def __init__(self, windows: Sequence[AnyWindow], *, named: Sequence[bool] | None = None) -> None:
        self._width = len(windows)
        is_named = named or [False] * len(windows)
        fields = [_fields(window, is_one_named) for window, is_one_named in zip(windows, is_named, strict=True)]
        state = np.zeros(_STATE, np.int64)
        state[_WINDOWS] = len(windows)
        state[_TIMESTAMPS] = len(windows) == 1 and windows[0].kind == "count"
        self._arrays = MembershipArrays(
            window=np.array(fields, np.int64).reshape(-1),
            leaves=np.zeros(0, np.int64),
            timestamp=np.zeros(0, np.int64),
            is_read=np.zeros(0, np.uint8),
            counts=np.zeros(0, np.int64),
            outcome=np.zeros(len(windows), np.int64),
            state=state,
        )
        self._view: Any = None
        self._judge: Any = None
        self._readers: list[Hashable] = []
        self._users: Counter[Hashable] = Counter()
        self._reads: dict[Hashable, Sequence[Callable[[LabelName], bool]]] = {}
        self._labels = 0

    def _replace(self, **arrays: np.ndarray) -> None:
        self._arrays = self._arrays._replace(**arrays)
        self._view = None

    # --- readers ---------------------------------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """True if there are readers."""
        return bool(self._readers)

    def has(self, reader: Hashable) -> bool:
        """Return whether tuples are counted for a reader."""
        return reader in self._users

    def take(self, reader: Hashable, reads: Sequence[Callable[[LabelName], bool]] | None = None) -> None:
        """Count tuples of a reader for one more query.

        `reads` has for each window a function that returns whether the reader reads a label there, for `set_labels`;
        without it `read` sets the labels.
        """
        self._users[reader] += 1
        if self._users[reader] == 1:
            old = len(self._readers)
            self._readers.append(reader)
            self._resize([*range(old), -1])
            if reads is not None:
                self._reads[reader] = reads

    def release(self, reader: Hashable, label_of: np.ndarray | None = None) -> None:
        """Remove one query from a reader; a reader without queries is removed. O(edges) then.

        Edges that no other reader reads are forgotten, whose ids may be reused; `label_of` is the label of every edge.
        """
        self._users[reader] -= 1
        if self._users[reader]:
            return
        number = self._readers.index(reader)
        del self._users[reader], self._readers[number]
        self._reads.pop(reader, None)
        self._resize([place for place in range(len(self._readers) + 1) if place != number])
        if self._labels and self._readers and label_of is not None:
            table = self._table()
            unread = ~np.asarray(self._is_read().any(axis=1))[label_of[: len(table)]]
            table[: len(unread)][unread] = NOT_HELD

    def _resize(self, places: list[int]) -> None:
        """Set the readers to those at these places; -1 is a new one."""
        old = int(self._arrays.state[_READERS])
        was_read = self._arrays.is_read.reshape(self._labels, old, self._width)
        is_read = np.zeros((self._labels, len(places), self._width), np.uint8)
        counts = np.zeros((len(places), OUTCOME_COUNT), np.int64)
        for new, place in enumerate(places):
            if place >= 0:
                is_read[:, new] = was_read[:, place]
                counts[new] = self._arrays.counts.reshape(old, OUTCOME_COUNT)[place]
        self._arrays.state[_READERS] = len(places)
        self._replace(is_read=is_read.reshape(-1), counts=counts.reshape(-1))

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Register label ids with their names for the readers that were taken with `reads`. O(labels), amortised."""
        for reader, reads in self._reads.items():
            is_read = np.array([[one(name) for one in reads] for name in names], bool)
            self.read(reader, labels, is_read.reshape(len(labels), self._width))

    def read(self, reader: Hashable, labels: np.ndarray, is_read: np.ndarray) -> None:
        """Set which label ids a reader reads: (label, window), boolean. O(labels), amortised."""
        if len(labels) and (needed := int(labels.max()) + 1) > self._labels:
            room = max(needed, 2 * self._labels, 16)
            longer = np.zeros(room * len(self._readers) * self._width, np.uint8)
            longer[: len(self._arrays.is_read)] = self._arrays.is_read
            self._labels = room
            self._replace(is_read=longer)
        self._is_read()[labels, self._readers.index(reader)] = is_read

    def reads(self, reader: Hashable, labels: np.ndarray) -> np.ndarray:
        """Return which labels a reader reads: (label, window), boolean."""
        found: np.ndarray = self._is_read()[labels, self._readers.index(reader)] != 0
        return found

    def _is_read(self) -> np.ndarray:
        return self._arrays.is_read.reshape(self._labels, len(self._readers), self._width)

    def _table(self) -> np.ndarray:
        return self._arrays.leaves.reshape(-1, self._width)

    def make_room(self, edges: int) -> None:
        """Make room for edge ids below `edges`."""
        more = edges - len(self._arrays.leaves) // self._width
        if more > 0:
            self._replace(leaves=lengthen(self._arrays.leaves, more * self._width, NOT_HELD))
            if self._arrays.state[_TIMESTAMPS]:
                self._replace(timestamp=lengthen(self._arrays.timestamp, more))

    # --- the stream ------------------------------------------------------------------------------------------

    def apply(self, tuples: Any, named: Any, count: int) -> None:
        """Judge the tuples of the view of a chunk; `named` is the view of the same tuples in named streams."""
        if self._view is None:
            self._view = view(self._arrays)
        if self._judge is None:
            self._judge = bound(judge_tuples, self._view, tuples, named, count)
        self._judge(self._view, tuples, named, count)

    def drop(self, tuples: Any, count: int) -> None:
        """Apply deletes without counting them."""
        counts = self._arrays.counts.copy()
        self.apply(tuples, tuples, count)
        self._arrays.counts[:] = counts

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple."""
        state = self._arrays.state
        for fields in self._arrays.window.reshape(-1, _FIELDS):
            if fields[_KIND] == _TIME:
                slide = time // int(fields[_SLIDE])
                fields[_NOW] = max(slide, int(fields[_NOW])) if state[_HAS_TIME] else slide
        state[_HAS_TIME] = 1

    def count_from(self, numbers: Sequence[int]) -> None:
        """Set the number of inserts that each count window has numbered, an entry a window."""
        for fields, number in zip(self._arrays.window.reshape(-1, _FIELDS), numbers, strict=True):
            if fields[_KIND] == _COUNT:
                fields[_NUMBER], fields[_NOW] = number, number // int(fields[_SLIDE])

    def load(self, reader: Hashable, chunk: Chunk, slides: Sequence[np.ndarray]) -> None:
        """Load the edges of a reader with the slides at which they leave, an array for each window."""
        table, is_read = self._table(), self.reads(reader, chunk.label)
        for place, (mine, now) in enumerate(zip(slides, self.current_slides(), strict=True)):
            inside = is_read[:, place] & (mine > now)
            edges, expires = chunk.edge[inside], mine[inside]
            table[edges, place] = expires
            if self._arrays.state[_TIMESTAMPS]:
                self._arrays.timestamp[edges] = chunk.timestamp[inside]

    # --- results ---------------------------------------------------------------------------------------------

    def counts(self, reader: Hashable) -> np.ndarray:
        """Return the number of tuples with each outcome for a reader, in the order of `Outcome`."""
        return self._arrays.counts.reshape(-1, OUTCOME_COUNT)[self._readers.index(reader)].copy()

    def slides(self, reader: Hashable, edges: np.ndarray, labels: np.ndarray | None = None) -> list[np.ndarray]:
        """Return for each window the slides at which a reader's edges leave it.

        `NOT_HELD`, or a past slide, is that of an edge which the window does not hold. `labels` are those of the edges,
        needed where there are several readers.
        """
        found = self._table()[edges]
        return list((found if labels is None else np.where(self.reads(reader, labels), found, NOT_HELD)).T)

    def current_slides(self) -> list[int]:
        """Return for each window the slide up to which edges have left it."""
        now: list[int] = self._arrays.window.reshape(-1, _FIELDS)[:, _NOW].tolist()
        return now

    def timestamp(self, edge: int, latest: int) -> int | None:
        """Return the timestamp of an edge in the first window, None where it is not held.

        `latest` is the one that the snapshot graph has.
        """
        if self._arrays.leaves[edge * self._width] <= self._arrays.window[_NOW]:
            return None
        return int(self._arrays.timestamp[edge]) if self._arrays.state[_TIMESTAMPS] else latest

    def edges_live(self, reader: Hashable, label_of: np.ndarray | None = None) -> int:
        """Return the number of a reader's edges that any window holds. O(edges).

        `label_of` is the label of every edge, needed where there are several readers.
        """
        is_live = self._table() > self._arrays.window.reshape(-1, _FIELDS)[:, _NOW]
        live = np.flatnonzero(is_live.any(axis=1))
        if label_of is None or not len(live):
            return len(live)
        return int((is_live[live] & self.reads(reader, label_of[live])).any(axis=1).sum())

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays)


def _fields(window: AnyWindow, is_named: bool) -> list[int]:
    if isinstance(window, Window):
        return [_TIME, window.size, window.slide, 0, 0, is_named]
    if isinstance(window, CountWindow):
        return [_COUNT, window.size, window.step, 0, 0, is_named]
    return [_UNBOUNDED, 1, 1, NOT_HELD, 0, is_named]


@njit(cache=True, nogil=True)
def judge_tuples(judged, tuples, named, count):
    """Judge each tuple once in each window, and count for each reader the strongest outcome in the windows that it reads."""
    state, fields, outcome = judged.state, judged.window, judged.outcome
    windows, readers = state[_WINDOWS], state[_READERS]
    boundary = np.int64(NOT_HELD)  # the time at which the next slide of any window begins
    for i in range(count):
        time = tuples.timestamp[i]
        if time >= boundary:
            boundary = _cross(fields, windows, time, state[_HAS_TIME] != 0)
            state[_HAS_TIME] = 1
        if readers > 1:  # which share the outcome in a window
            for window in range(windows):
                outcome[window] = -1
        for reader in range(readers):
            strongest = np.int64(IRRELEVANT)
            for window in range(windows):
                is_named = fields[window * _FIELDS + _NAMED] != 0
                label = np.int64(named.label[i]) if is_named else np.int64(tuples.label[i])
                if judged.is_read[(label * readers + reader) * windows + window] != 0:
                    if readers == 1 or outcome[window] < 0:
                        edge = np.int64(named.edge[i]) if is_named else np.int64(tuples.edge[i])
                        source = named.source[i] if is_named else tuples.source[i]
                        is_delete = tuples.delete[i] != 0
                        outcome[window] = _judge(judged, window, edge, time, is_delete, source < 0)
                    strongest = stronger(strongest, outcome[window])
            judged.counts[reader * OUTCOME_COUNT + strongest] += 1


@njit(cache=True, nogil=True)
def _cross(fields, windows, time, has_time):
    """Move the time windows to a time, unless they are beyond it; return the time at which the next slide of one begins."""
    boundary = np.int64(NEVER)
    for window in range(windows):
        base = window * _FIELDS
        if fields[base + _KIND] == _TIME:
            slide = fields[base + _SLIDE]
            crossed = time // slide
            if not has_time or crossed > fields[base + _NOW]:
                fields[base + _NOW] = crossed
            if fields[base + _NOW] < NEVER // slide:
                boundary = min(boundary, (fields[base + _NOW] + 1) * slide)
    return boundary


@njit(cache=True, nogil=True, forceinline=True)
def _judge(judged, window, edge, time, is_delete, is_passed_by):
    """Apply a tuple to a window that reads its label; return its outcome."""
    fields, leaves, base = judged.window, judged.leaves, window * _FIELDS
    kind, size, slide = fields[base + _KIND], fields[base + _SIZE], fields[base + _SLIDE]
    place = edge * judged.state[_WINDOWS] + window
    is_held = edge >= 0 and leaves[place] > fields[base + _NOW]
    expires = leaving_slide(time, size, slide) if kind == _TIME else np.int64(NEVER)
    if is_passed_by:
        return outcome_without_edge(is_delete, expires <= fields[base + _NOW])
    outcome = outcome_of(is_delete, is_held, edge < 0 or expires <= fields[base + _NOW])
    if outcome == DELETED:
        leaves[place] = NOT_HELD
    elif outcome in (INSERTED, REFRESHED):
        if kind == _COUNT:
            fields[base + _NUMBER] += 1
            fields[base + _NOW] = fields[base + _NUMBER] // slide
            expires = leaving_slide(fields[base + _NUMBER], size, slide)
        if judged.state[_TIMESTAMPS] != 0:
            judged.timestamp[edge] = max(judged.timestamp[edge], time) if is_held else time
        leaves[place] = max(leaves[place], expires) if is_held else expires
    return outcome
