"""Verdicts on the tuples of a query that reads several windows or named streams: one a tuple and query.

Each reading (`rpq.queries.readings`) has a verdict on a tuple: it does not read the tuple, refuses it as too late, has the
edge already, and so on. The verdict of the query is the strongest of these: refreshed, inserted, late, irrelevant for an
insert, deleted, absent, irrelevant for a delete. So a tuple is late for a query when every window that could read it refused
it.

For that, the arrays have for every edge of the snapshot graph and each reading the slide, of time or of inserts, at which
the edge leaves the window. An edge whose slide has come counts as absent; nothing is searched for or evicted. The edges of
named streams are separate edges of the graph, so a reading needs one number an edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.files.json_values import Damage
from rpq.queries.protocol import COUNTS
from rpq.queries.readings import Reading
from rpq.stream.stream_labels import LabelName
from rpq.stream.window import CountWindow, Window

NOT_HELD = int(np.iinfo(np.int64).min)
"""The slide at which an absent edge leaves."""
_NEVER = int(np.iinfo(np.int64).max)

# Fields of a reading, in `VerdictArrays.reading`.
_KIND = 0
_SIZE = 1
_SLIDE = 2
_NOW = 3  # the current slide, of time or of inserts
_NUMBER = 4  # inserts so far
_NAMED = 5  # 1: it reads a stream that has a name
_FIELDS = 6
_TIME_KIND, _COUNT_KIND, _UNBOUNDED_KIND = range(3)

# The verdicts: places in `rpq.queries.protocol.COUNTS`.
_INSERTED, _REFRESHED, _DELETED, _ABSENT, _LATE, _IRRELEVANT = range(6)

# Fields of `VerdictArrays.state`.
_READINGS = 0
_HAS_TIME = 1
_STATE = 2


class VerdictArrays(NamedTuple):
    """The arrays of `Verdicts`."""

    reading: np.ndarray  # int64, _FIELDS a reading
    leaves: np.ndarray  # int64, edges × readings: the slide at which an edge leaves, NOT_HELD
    is_read: np.ndarray  # uint8, labels × readings
    counts: np.ndarray  # int64[6]
    state: np.ndarray  # int64[_STATE]


class Verdicts:
    """The verdicts of one query on its tuples, and which edges its windows hold.

    >>> from rpq.queries.readings import LabelSet
    >>> verdicts = Verdicts([Reading(Window(size=10, slide=1), LabelSet(frozenset("a"), others=False))])
    >>> verdicts.counts.tolist()
    [0, 0, 0, 0, 0, 0]
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = tuple(readings)
        reading = np.array([_fields(one) for one in readings], np.int64)
        self._arrays = VerdictArrays(
            reading=reading.reshape(-1),
            leaves=np.zeros(0, np.int64),
            is_read=np.zeros(0, np.uint8),
            counts=np.zeros(len(COUNTS), np.int64),
            state=np.array([len(readings), 0], np.int64),
        )
        self._view: Any = None
        self.is_loaded = False

    def _replace(self, **arrays: np.ndarray) -> None:
        self._arrays = self._arrays._replace(**arrays)
        self._view = None

    # --- labels and edges ------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Register label ids with their names. O(labels · readings), amortised."""
        width = len(self._readings)
        if len(labels) and (needed := int(labels.max()) + 1) > len(self._arrays.is_read) // width:
            held = len(self._arrays.is_read)
            more = max(needed * width - held, held, 16 * width)
            self._replace(is_read=np.concatenate([self._arrays.is_read, np.zeros(more, np.uint8)]))
        table = self._arrays.is_read.reshape(-1, width)
        for number, name in zip(labels.tolist(), names, strict=True):
            table[number] = [reading.reads(name) for reading in self._readings]

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return which edges are read, as booleans (label id, reading)."""
        table: np.ndarray = self._arrays.is_read.reshape(-1, len(self._readings))[labels] != 0
        return table

    def make_room(self, edges: int) -> None:
        """Make room for edge ids below `edges`."""
        more = edges * len(self._readings) - len(self._arrays.leaves)
        if more > 0:
            self._replace(leaves=np.concatenate([self._arrays.leaves, np.full(more, NOT_HELD, np.int64)]))

    # --- the stream ------------------------------------------------------------------------------------------

    def apply(self, tuples: Any, named: Any, count: int) -> None:
        """Judge the tuples of the view of a chunk; `named` is the view of the same tuples in named streams."""
        if self._view is None:
            self._view = view(self._arrays)
        self.is_loaded = True
        judge_tuples(self._view, tuples, named, count)

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple."""
        state = self._arrays.state
        for fields in self._arrays.reading.reshape(-1, _FIELDS):
            if fields[_KIND] == _TIME_KIND:
                slide = time // int(fields[_SLIDE])
                fields[_NOW] = max(slide, int(fields[_NOW])) if state[_HAS_TIME] else slide
        state[_HAS_TIME] = 1

    def count_from(self, numbers: Sequence[int]) -> None:
        """Set the number of inserts that each reading's count window has numbered."""
        for fields, number in zip(self._arrays.reading.reshape(-1, _FIELDS), numbers, strict=True):
            if fields[_KIND] == _COUNT_KIND:
                fields[_NUMBER], fields[_NOW] = number, number // int(fields[_SLIDE])

    def load(self, edges: np.ndarray, slides: Sequence[np.ndarray], labels: np.ndarray, *, is_checked: bool) -> None:
        """Load edges with these labels and the slides at which they leave the windows, an array for each reading.

        With `is_checked`, raises `Damage` where other edges are loaded already.
        """
        table = self._arrays.leaves.reshape(-1, len(self._readings))
        is_read = self.reads(labels)
        for place, mine in enumerate(slides):
            now = self._arrays.reading[place * _FIELDS + _NOW]
            inside = is_read[:, place] & (mine > now)
            if not self.is_loaded:
                table[edges[inside], place] = mine[inside]
            elif is_checked and (
                (table[edges[inside], place] != mine[inside]).any() or (table[:, place] > now).sum() != inside.sum()
            ):
                raise Damage("a query holds other edges than one that reads the same")
        self.is_loaded = True

    # --- results ---------------------------------------------------------------------------------------------

    @property
    def counts(self) -> np.ndarray:
        """The number of tuples with each verdict, in the order of `COUNTS`."""
        return self._arrays.counts.copy()

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """Return for each reading the slides at which edges leave its window; `NOT_HELD`, or a past slide, if not held."""
        return list(self._arrays.leaves.reshape(-1, len(self._readings))[edges].T)

    def current_slides(self) -> list[int]:
        """Return for each reading the slide up to which edges have left its window."""
        now: list[int] = self._arrays.reading.reshape(-1, _FIELDS)[:, _NOW].tolist()
        return now

    def edges_live(self) -> int:
        """Return the number of edges that any window holds; a named stream has edges of its own. O(edges)."""
        now = self._arrays.reading.reshape(-1, _FIELDS)[:, _NOW]
        return int((self._arrays.leaves.reshape(-1, len(self._readings)) > now).any(axis=1).sum())

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays)


def _fields(reading: Reading) -> list[int]:
    window = reading.window
    is_named = int(reading.stream is not None)
    if isinstance(window, Window):
        return [_TIME_KIND, window.size, window.slide, 0, 0, is_named]
    if isinstance(window, CountWindow):
        return [_COUNT_KIND, window.size, window.step, 0, 0, is_named]
    return [_UNBOUNDED_KIND, 1, 1, NOT_HELD, 0, is_named]


@njit(cache=True, nogil=True)
def judge_tuples(judged, tuples, named, count):
    state, fields, leaves, readings = judged.state, judged.reading, judged.leaves, judged.state[_READINGS]
    for i in range(count):
        time = tuples.timestamp[i]
        strongest = np.int64(_IRRELEVANT)
        for reading in range(readings):
            base = reading * _FIELDS
            kind, slide = fields[base + _KIND], fields[base + _SLIDE]
            if kind == _TIME_KIND:
                crossed = time // slide
                if state[_HAS_TIME] == 0 or crossed > fields[base + _NOW]:
                    fields[base + _NOW] = crossed
            if fields[base + _NAMED] != 0:
                label, edge = np.int64(named.label[i]), np.int64(named.edge[i])
            else:
                label, edge = np.int64(tuples.label[i]), np.int64(tuples.edge[i])
            if judged.is_read[label * readings + reading] == 0:
                continue
            place = edge * readings + reading
            is_held = edge >= 0 and leaves[place] > fields[base + _NOW]
            if tuples.delete[i] != 0:
                verdict = np.int64(_DELETED if is_held else _ABSENT)
                if is_held:
                    leaves[place] = NOT_HELD
            elif kind == _TIME_KIND:
                expires = (time + fields[base + _SIZE] - 1) // slide + 1
                if edge < 0 or expires <= fields[base + _NOW]:
                    verdict = np.int64(_LATE)
                else:
                    verdict = np.int64(_REFRESHED if is_held else _INSERTED)
                    leaves[place] = max(leaves[place], expires) if is_held else expires
            else:
                verdict = np.int64(_REFRESHED if is_held else _INSERTED)
                if kind == _COUNT_KIND:
                    fields[base + _NUMBER] += 1
                    fields[base + _NOW] = fields[base + _NUMBER] // slide
                    leaves[place] = (fields[base + _NUMBER] + fields[base + _SIZE] - 1) // slide + 1
                else:
                    leaves[place] = _NEVER
            if strongest in (_IRRELEVANT, _LATE, _ABSENT) or verdict == _REFRESHED:
                strongest = verdict
        state[_HAS_TIME] = 1
        judged.counts[strongest] += 1
