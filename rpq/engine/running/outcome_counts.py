"""The outcomes of tuples whose edges have an identity or properties, for the queries that read their labels.

Queries that read the same plain labels, with whatever conditions, over the same windows share their counts. A window of time
holds an edge if its version has a timestamp inside, so the version before a tuple determines the outcome in each window. Of
a count window of paths in time order the edges that it holds are kept, in `_LastInserts`.

A tuple of a named stream is an edge of the merged stream and one of its own. Its outcome for a query is the strongest of
those in the windows of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.language.readings import LabelSet, Reading
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edges.edge_table import ABSENT_VERSION, PriorEdges
from rpq.stream.edges.outcomes import (
    INSERTED,
    IRRELEVANT,
    LATE,
    OUTCOME_COUNT,
    OUTCOME_OF,
    REFRESHED,
    STRONGER,
    outcome_of,
)
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import LabelName, label_in
from rpq.stream.window import AnyWindow, CountWindow, Window

_ReaderKey = tuple[tuple[Reading, ...], str | None]
"""The plain labels that a query reads, with whatever conditions, over its windows; its name if it counts from then on."""

_Ends = tuple[int, int, int]
"""Source, label and target of an edge."""

_STRONGER: list[list[int]] = STRONGER.tolist()
"""For single outcomes, where an access to an array takes ten times as long."""

_NOT_READ = np.iinfo(np.int64).max
"""In place of the timestamp up to which edges have left: no window reads the label."""


class _LastInserts:
    """The edges that a count window holds, each with the slide at which it leaves."""

    def __init__(self, window: CountWindow) -> None:
        self.number = 0
        """The number of inserts so far."""
        self._window = window
        self._leaves: dict[_Ends, int] = {}

    def load(self, number: int, leaves: Mapping[_Ends, int]) -> None:
        """Set the number of inserts so far, and the edges with the slides at which they leave."""
        self.number, self._leaves = number, dict(leaves)

    def edges_in_window(self) -> set[_Ends]:
        """Return the edges that the window holds. O(edges)."""
        self.collect()
        return {*self._leaves}

    def collect(self) -> None:
        """Forget the edges that have left. O(edges)."""
        now = self.number // self._window.step
        self._leaves = {edge: leaves for edge, leaves in self._leaves.items() if leaves > now}

    def apply(self, edge: _Ends, *, is_delete: bool, refreshes: bool) -> int:
        """Apply an insert or a delete and return its outcome; `refreshes` says whether an insert refreshes an edge."""
        size, step = self._window.size, self._window.step
        is_held = self._leaves.pop(edge, 0) > self.number // step
        if not is_delete:
            self.number += 1
            self._leaves[edge] = -(-(self.number + size) // step)
            if len(self._leaves) > 2 * (size + step):
                self.collect()
        return OUTCOME_OF[is_delete][is_held and (is_delete or refreshes)][False]


class NamedTuples(NamedTuple):
    """The tuples of a chunk in their named streams, as far as a query reads these."""

    label: np.ndarray
    """int32: the id of the label in the stream of a tuple, of the plain label where no query reads that."""
    before: PriorEdges
    """The state of the edges in the named streams before the tuples."""


class _Reader:
    """The counts of outcomes for all queries that read the same labels over the same windows."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        window = readings[0].window
        self.last_inserts = _LastInserts(window) if isinstance(window, CountWindow) else None
        self.counts = np.zeros(OUTCOME_COUNT, np.int64)
        self.counts_before: dict[str, np.ndarray] = {}
        """For each query the counts when it was added."""


class OutcomeCounts:
    """The counts of outcomes for each query and for the engine as a whole.

    - Queries: `add`, `remove`, `counts`, `set_counts`
    - Labels: `reads`, `reads_label`, `forget_labels`
    - Windows: `windows`
    - Tuples: `judge`, `judge_one`

    With `keeps_all` each insert is an edge of its own, so none refreshes another one.
    """

    def __init__(self, labels: LabelDictionary, *, keeps_all: bool) -> None:
        self.total = np.zeros(OUTCOME_COUNT, np.int64)
        """The counts for the engine as a whole."""
        self._labels = labels
        self._refreshes = not keeps_all
        self._readers: dict[_ReaderKey, _Reader] = {}
        self._keys: dict[str, _ReaderKey] = {}
        self._masks: dict[tuple[LabelSet, str | None], np.ndarray] = {}
        self._windows: list[AnyWindow] | None = None
        self._room = 0

    # --- queries ---------------------------------------------------------------------------------------------

    def add(self, name: str, *readings: Reading, is_late: bool = False) -> None:
        """Add a query with the labels and the windows that it reads; `is_late` if it begins empty in mid-stream.

        A query with a count window has no other one.
        """
        origin = name if is_late and isinstance(readings[0].window, CountWindow) else None
        key = self._keys[name] = tuple(one._replace(labels=one.labels.plain) for one in readings), origin
        reader = self._readers.setdefault(key, _Reader(readings))
        reader.counts_before[name] = reader.counts.copy()
        self.forget_labels()

    def remove(self, name: str) -> None:
        """Remove a query if it is there."""
        if (key := self._keys.pop(name, None)) is None:
            return
        before = self._readers[key].counts_before
        del before[name]
        if not before:
            del self._readers[key]
        self.forget_labels()

    def counts(self, name: str) -> np.ndarray:
        """Return the number of tuples with each outcome for a query, in the order of `Outcome`."""
        reader = self._readers[self._keys[name]]
        counts: np.ndarray = reader.counts - reader.counts_before[name]
        return counts

    def set_counts(self, name: str, counts: np.ndarray) -> None:
        """Set what `counts` returns for a query at this moment."""
        reader = self._readers[self._keys[name]]
        reader.counts_before[name] = reader.counts - counts

    # --- labels ----------------------------------------------------------------------------------------------

    def reads(self, label: np.ndarray) -> np.ndarray:
        """Return whether any query reads label ids, plain or with a condition (uint8)."""
        are_read = np.zeros(len(label), np.uint8)
        for mask in self._masks_of_labels().values():
            are_read |= mask[label]
        return are_read

    def reads_label(self, label: int) -> bool:
        """Return whether any query reads a label id, plain or with a condition."""
        for mask in self._masks_of_labels().values():  # noqa: SIM110  a generator takes as long as a mask
            if mask.item(label):
                return True
        return False

    def forget_labels(self) -> None:
        """Note that label ids may have other names now, or other readers."""
        self._masks, self._windows = {}, None

    def _masks_of_labels(self) -> dict[tuple[LabelSet, str | None], np.ndarray]:
        """Return for each set of labels that queries read in a stream whether it has a label id, in any form (uint8)."""
        names = self._labels.names
        if not self._masks:
            self._room = 0
            self._masks = {(one.labels, one.stream): np.zeros(0, np.uint8) for one in self._readings()}
        if self._room < len(names):
            for (labels, stream), mask in self._masks.items():
                new = [_has_plain(labels, name, stream) for name in names[self._room :]]
                self._masks[labels, stream] = np.concatenate([mask, np.array(new, np.uint8)])
            self._room = len(names)
        return self._masks

    # --- windows ---------------------------------------------------------------------------------------------

    @property
    def windows(self) -> list[AnyWindow]:
        """The windows of the readers, in their order."""
        if self._windows is None:
            self._windows = [reading.window for reading in self._readings()]
        return self._windows

    def _readings(self) -> list[Reading]:
        return [reading for readings, _ in self._readers for reading in readings]

    @property
    def has_count_windows(self) -> bool:
        """True if a query has a count window."""
        return any(reader.last_inserts is not None for reader in self._readers.values())

    def collect(self) -> None:
        """Forget the edges that have left their count windows; their vertices may get other ids. O(edges)."""
        for reader in self._readers.values():
            if reader.last_inserts is not None:
                reader.last_inserts.collect()

    def held_by_count(self) -> set[_Ends]:
        """Return source, label and target of the edges that count windows hold. O(edges)."""
        windows = (reader.last_inserts for reader in self._readers.values())
        return set().union(*(one.edges_in_window() for one in windows if one is not None))

    def load_counted(self, load: Callable[[Reading, str | None], tuple[int, Mapping[_Ends, int]]]) -> None:
        """Fill the count windows with what `load` returns for each: its number, and the slides at which its edges leave."""
        for (readings, origin), reader in self._readers.items():
            if reader.last_inserts is not None:
                reader.last_inserts.load(*load(readings[0], origin))

    # --- tuples ----------------------------------------------------------------------------------------------

    def judge(
        self,
        chunk: Chunk,
        tuples: Any,
        before: PriorEdges,
        bounds: Mapping[AnyWindow, np.ndarray],
        *,
        named: NamedTuples | None = None,
    ) -> np.ndarray:
        """Count the outcomes of the tuples of a chunk for each reader. Return those for the engine as a whole (uint8).

        `tuples` is the view of the chunk, `before` is the state of their edges before them, and `bounds` the timestamps
        up to which edges have left each window. A tuple is relevant by its label, or by that of the edge with its id, if
        the window holds that. `named` are the tuples in named streams, None where no query reads any of them there.
        """
        masks, count = self._masks_of_labels(), len(chunk.label)
        longest, longest_of_named = np.full(count, _NOT_READ), np.full(count, _NOT_READ)
        outcome, counts = np.zeros(0, np.uint8), np.zeros(OUTCOME_COUNT, np.int64)
        of_counted: list[np.ndarray] = []
        readings_count = len(self._readings())
        for (readings, _), reader in self._readers.items():
            if reader.last_inserts is not None:
                is_mine = masks[readings[0].labels, None][chunk.label]
                of_counted.append(self._outcomes_by_count(chunk, is_mine, reader.last_inserts))
                reader.counts += np.bincount(of_counted[-1], minlength=OUTCOME_COUNT)
                continue
            strongest: np.ndarray | None = None
            for window, labels, stream in readings:
                bound, mask = bounds[window], masks[labels, stream]
                if stream is not None:
                    is_mine = np.zeros(count, np.uint8) if named is None else mask[named.label]
                    outcome, counts = self._outcomes(tuples, is_mine, before if named is None else named.before, bound)
                    longest_of_named = np.where(is_mine, np.minimum(longest_of_named, bound), longest_of_named)
                else:
                    is_mine = mask[chunk.label]
                    if before.label is not chunk.label:
                        is_mine |= mask[before.label] & (before.timestamp > bound)
                    outcome, counts = self._outcomes(tuples, is_mine, before, bound)
                    if readings_count > 1:
                        longest = np.where(is_mine, np.minimum(longest, bound), longest)
                strongest = outcome if strongest is None else STRONGER[strongest, outcome]
            if len(readings) > 1:
                assert strongest is not None
                counts = np.bincount(strongest, minlength=OUTCOME_COUNT)
            reader.counts += counts
        if readings_count != 1 or of_counted:
            outcome, counts = self._outcomes(tuples, _are_read(longest), before, longest)
            if named is not None:
                outcome = self._with_named(tuples, outcome, before.timestamp > longest, named, longest_of_named)
                counts = np.bincount(outcome, minlength=OUTCOME_COUNT)
        for one in of_counted:
            outcome = STRONGER[outcome, one]
        self.total += np.bincount(outcome, minlength=OUTCOME_COUNT) if of_counted else counts
        return outcome

    def _with_named(
        self, tuples: Any, merged: np.ndarray, is_held: np.ndarray, named: NamedTuples, bound: np.ndarray
    ) -> np.ndarray:
        """Return the outcomes of tuples for the engine as a whole from those in the merged stream and the named ones.

        `is_held` says whether the merged stream has their edges, and `bound` is the timestamp up to which edges have left
        the longest window over a named stream that reads the tuple.
        """
        of_named, _ = self._outcomes(tuples, _are_read(bound), named.before, bound)
        outcome = STRONGER[merged, of_named]
        one_refuses = (outcome == INSERTED) & ((merged == LATE) | (of_named == LATE))
        # Which may have a younger edge all the same.
        is_held = np.where(merged == LATE, is_held, named.before.timestamp > bound)
        found: np.ndarray = np.where(one_refuses & is_held & self._refreshes, REFRESHED, outcome).astype(np.uint8)
        return found

    def _outcomes_by_count(self, chunk: Chunk, is_read: np.ndarray, last_inserts: _LastInserts) -> np.ndarray:
        """Return the outcomes of tuples for a count window, and apply them to it."""
        outcome, rows = np.full(len(is_read), IRRELEVANT, np.uint8), np.flatnonzero(is_read)
        columns = (column[rows].tolist() for column in (chunk.source, chunk.label, chunk.target, chunk.delete))
        for row, source, label, target, delete in zip(rows.tolist(), *columns, strict=True):
            is_delete = delete != 0
            outcome[row] = last_inserts.apply((source, label, target), is_delete=is_delete, refreshes=self._refreshes)
        return outcome

    def _outcomes(
        self, tuples: Any, is_read: np.ndarray, before: PriorEdges, bound: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the outcomes of tuples where edges with a timestamp up to a bound have left, and the number of each."""
        outcome, counts = np.empty(len(is_read), np.uint8), np.zeros(OUTCOME_COUNT, np.int64)
        judge_tuples(tuples, is_read, before.timestamp, bound, self._refreshes, len(is_read), outcome, counts)
        return outcome, counts

    def judge_one(self, edge: _Ends, timestamp: int, is_delete: bool, before: int, bounds: Sequence[int]) -> int:
        """Count the outcome of one tuple like `judge`; return that for the engine as a whole.

        `before` is the timestamp of its edge, and `bounds` are in the order of `windows`.
        """
        masks, label = self._masks_of_labels(), edge[1]
        of_counted = IRRELEVANT
        longest, outcome = None, IRRELEVANT

        def outcome_for(bound: int) -> int:
            return OUTCOME_OF[is_delete][before > bound and (is_delete or self._refreshes)][timestamp <= bound]

        bound_of_next = iter(bounds)
        for (readings, _), reader in self._readers.items():
            found = IRRELEVANT
            for _, labels, stream in readings:
                bound = next(bound_of_next)
                if stream is not None or not masks[labels, None].item(label):
                    continue
                if reader.last_inserts is not None:
                    found = reader.last_inserts.apply(edge, is_delete=is_delete, refreshes=self._refreshes)
                    of_counted = _STRONGER[of_counted][found]
                else:
                    longest = bound if longest is None else min(longest, bound)
                    found = _STRONGER[found][outcome_for(bound)]
            reader.counts[found] += 1
        if longest is not None:
            outcome = outcome_for(longest)
        if of_counted != IRRELEVANT:
            outcome = _STRONGER[outcome][of_counted]
        self.total[outcome] += 1
        return outcome


@njit(cache=True, nogil=True)
def judge_tuples(tuples, is_read, before, bound, refreshes, count, outcome, counts):
    """Write the outcome of each tuple, and count them; `before` are the timestamps of their edges."""
    for i in range(count):
        found = np.int64(IRRELEVANT)
        if is_read[i]:
            time, delete = tuples.timestamp[i], tuples.delete[i]
            is_held = before[i] > bound[i] and (refreshes or delete != 0)
            if delete == DELETE_UNLESS_NEWER and time < before[i]:
                is_held = False
            found = outcome_of(delete != 0, is_held, time <= bound[i])
        outcome[i] = found
        counts[found] += 1


def _are_read(longest: np.ndarray) -> np.ndarray:
    """Return which tuples a window reads, by the timestamps up to which edges have left the longest one (uint8)."""
    are_read: np.ndarray = (longest != _NOT_READ).view(np.uint8)
    return are_read


def _has_plain(labels: LabelSet, name: LabelName, stream: str | None) -> bool:
    """Return whether a label without a condition is in a set of labels of a stream."""
    label = label_in(name, stream)
    return isinstance(label, str) and label != "" and labels.has(label)


def lower_bound(window: AnyWindow, time: int) -> int:
    """Return the timestamp up to which edges have left a window at a time, like `lower_bounds`."""
    if not isinstance(window, Window):
        return ABSENT_VERSION
    boundary = time - time % window.slide
    return boundary - window.size if boundary >= ABSENT_VERSION + window.size else ABSENT_VERSION


def lower_bounds(window: AnyWindow, time: np.ndarray) -> np.ndarray:
    """Return the timestamp up to which edges have left a window at each of these times; none leaves an unbounded one."""
    if not isinstance(window, Window):
        return np.full(len(time), ABSENT_VERSION)
    bound = np.empty(len(time), np.int64)
    fill_lower_bounds(time, window.size, window.slide, bound)
    return bound


@njit(cache=True, nogil=True)
def fill_lower_bounds(time, size, slide, bound):
    """Write the timestamp up to which edges have left a window at each of these times, most of which are in one slide."""
    begin, lower, is_known = np.int64(0), np.int64(0), False
    for i in range(len(time)):
        if not is_known or time[i] < begin or np.uint64(time[i]) - np.uint64(begin) >= np.uint64(slide):
            begin, is_known = time[i] - time[i] % slide, True
            lower = begin - size if begin >= ABSENT_VERSION + size else np.int64(ABSENT_VERSION)
        bound[i] = lower
