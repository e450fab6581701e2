"""Count windows over the edges of the snapshot graph: which edges each holds, and what an insert evicts.

A count window numbers the inserts that it meets, and holds an edge until the slide, in numbers, at which its last insert
leaves. Its edges are a list in the order of their last inserts, which is the order in which they leave: a refresh moves an
edge to the end, an eviction takes from the front, both O(1). A list costs sixteen bytes an edge that the graph has room
for. Queries that number the same inserts share a window here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.stream.edge_store import HOLDERS
from rpq.stream.window import CountWindow

ABSENT = int(np.iinfo(np.int64).min)
"""In place of a slide: the window does not hold the edge."""

COUNTED = 0  # the one field of `Counted.fields`: how many windows there are


class Counted(NamedTuple):
    """All count windows; what is of an edge and a window lies at edge · windows + window."""

    size: np.ndarray  # int64 a window: inserts
    step: np.ndarray  # int64 a window
    number: np.ndarray  # int64 a window: the inserts that it has numbered
    first: np.ndarray  # int32 a window: the edge that leaves first, -1 none
    last: np.ndarray  # int32 a window
    leaves: np.ndarray  # int64 an edge and window: the slide at which it leaves, or ABSENT
    previous: np.ndarray  # int32 an edge and window: the edge before it, -1 none
    next: np.ndarray  # int32 an edge and window
    group_first: np.ndarray  # int32 a group of labels + 1: the windows over which they are read, in `group_window`
    group_window: np.ndarray  # int32
    fields: np.ndarray  # int64[1]


class CountedWindows:
    """The count windows of a graph, by whatever tells them from each other."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.arrays = Counted(
            size=np.zeros(0, np.int64),
            step=np.zeros(0, np.int64),
            number=np.zeros(0, np.int64),
            first=np.zeros(0, np.int32),
            last=np.zeros(0, np.int32),
            leaves=np.zeros(0, np.int64),
            previous=np.zeros(0, np.int32),
            next=np.zeros(0, np.int32),
            group_first=np.zeros(1, np.int32),
            group_window=np.zeros(0, np.int32),
            fields=np.zeros(1, np.int64),
        )

    @property
    def arrays(self) -> Counted:
        """What the kernels work on; to replace some is to replace the whole."""
        return self._arrays

    @arrays.setter
    def arrays(self, arrays: Counted) -> None:
        self._arrays = arrays
        self.view: Any = view(arrays)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.arrays)

    def settle(self, windows: dict[Hashable, CountWindow], edges: int, held: np.ndarray) -> None:
        """Have these windows; those that are new have numbered nothing, and those that are gone hold nothing more.

        `held` is `Edges.held` of the graph, which has room for so many `edges`. O(edges · windows) where some came or went.
        """
        keys = list(windows)
        if keys == self.keys:
            return
        old, width = self.arrays, len(self.keys)
        # A column behind the last stands for a window that is new.
        columns = [self.keys.index(key) if key in self.keys else width for key in keys]

        def with_new(array: np.ndarray, fill: int) -> np.ndarray:
            return np.append(array, np.array(fill, array.dtype))[columns]

        def rearranged(array: np.ndarray, fill: int) -> np.ndarray:
            table = array.reshape(edges, width)
            table = np.concatenate([table, np.full((edges, 1), fill, array.dtype)], axis=1)
            return np.ascontiguousarray(table[:, columns]).ravel()

        leaves = rearranged(old.leaves, ABSENT)
        held &= ~np.int32(HOLDERS)
        held += (leaves.reshape(edges, len(keys)) != ABSENT).sum(axis=1, dtype=np.int32)
        self.keys = keys
        self.arrays = old._replace(
            size=np.array([window.size for window in windows.values()], np.int64),
            step=np.array([window.step for window in windows.values()], np.int64),
            number=with_new(old.number, 0),
            first=with_new(old.first, -1),
            last=with_new(old.last, -1),
            leaves=leaves,
            previous=rearranged(old.previous, -1),
            next=rearranged(old.next, -1),
            fields=np.array([len(keys)], np.int64),
        )

    def set_groups(self, groups: Sequence[Sequence[int]]) -> None:
        """Let the labels of group i be read over the windows `groups[i]`."""
        first = np.zeros(len(groups) + 1, np.int32)
        np.cumsum([len(windows) for windows in groups], out=first[1:])
        windows = np.array([window for some in groups for window in some], np.int32)
        self.arrays = self.arrays._replace(group_first=first, group_window=windows)

    def make_room(self, more: int) -> None:
        """Let there be so many more edges."""
        count, held = more * len(self.keys), self.arrays
        if count:
            self.arrays = held._replace(
                leaves=np.concatenate([held.leaves, np.full(count, ABSENT, np.int64)]),
                previous=np.concatenate([held.previous, np.full(count, -1, np.int32)]),
                next=np.concatenate([held.next, np.full(count, -1, np.int32)]),
            )

    def number_of(self, key: Hashable) -> int:
        """How many inserts a window has numbered."""
        return int(self.arrays.number[self.keys.index(key)])

    def slides(self, key: Hashable, edges: np.ndarray) -> np.ndarray:
        """The slides at which edges leave a window, ABSENT for those that it does not hold."""
        found: np.ndarray = self.arrays.leaves[edges * len(self.keys) + self.keys.index(key)]
        return found

    def fill(self, key: Hashable, number: int, edges: np.ndarray, slides: np.ndarray, held: np.ndarray) -> None:
        """Let an empty window have numbered so many inserts, and hold edges that leave at these slides."""
        window = self.keys.index(key)
        self.arrays.number[window] = number
        order = np.argsort(slides, kind="stable")
        _fill(self.view, window, edges[order].astype(np.int64), slides[order], held)

    def _check(self, held: np.ndarray, live: np.ndarray) -> None:
        """Assert that lists, slides and what the edges say of them go together; `live` are the edges that have an id."""
        arrays, windows = self.arrays, len(self.keys)
        leaves = arrays.leaves.reshape(-1, windows) if windows else np.zeros((len(held), 0), np.int64)
        assert len(leaves) == len(held), "the count windows have room for other edges than the graph"
        assert ((leaves != ABSENT).sum(axis=1) == held & HOLDERS).all(), "an edge is held by more windows, or by fewer"
        for window in range(windows):
            listed, at, before = [], int(arrays.first[window]), -1
            while at >= 0:
                assert arrays.previous[at * windows + window] == before, f"edge {at} comes after {before}"
                listed.append(at)
                before, at = at, int(arrays.next[at * windows + window])
            assert arrays.last[window] == before, "the list of a count window ends elsewhere"
            mine = leaves[:, window]
            assert sorted(listed) == np.flatnonzero(mine != ABSENT).tolist(), "a count window lists other edges"
            assert (np.diff(mine[listed]) >= 0).all(), "a count window lists its edges in another order"
            assert set(listed) <= set(live.tolist()), "a count window holds an edge that has no id"
            bound = int(arrays.number[window]) // int(arrays.step[window])
            assert all(mine[listed] > bound), "a count window holds an edge that has left"
            assert len(listed) < arrays.size[window] + arrays.step[window], "a count window holds too many edges"


@njit(cache=True, nogil=True)
def _append(counted, window, edge):
    windows = counted.fields[COUNTED]
    last = np.int64(counted.last[window])
    counted.previous[edge * windows + window] = last
    counted.next[edge * windows + window] = -1
    if last >= 0:
        counted.next[last * windows + window] = edge
    else:
        counted.first[window] = edge
    counted.last[window] = edge


@njit(cache=True, nogil=True)
def _take_out(counted, window, edge):
    windows = counted.fields[COUNTED]
    before = np.int64(counted.previous[edge * windows + window])
    after = np.int64(counted.next[edge * windows + window])
    if before >= 0:
        counted.next[before * windows + window] = after
    else:
        counted.first[window] = after
    if after >= 0:
        counted.previous[after * windows + window] = before
    else:
        counted.last[window] = before


@njit(cache=True, nogil=True)
def _fill(counted, window, edges, slides, held):
    for i in range(len(edges)):
        counted.leaves[edges[i] * counted.fields[COUNTED] + window] = slides[i]
        held[edges[i]] += 1
        _append(counted, window, edges[i])


@njit(cache=True, nogil=True)
def is_counted(counted, group):
    """Whether the labels of a group are read over any count window."""
    return counted.fields[COUNTED] != 0 and counted.group_first[group] != counted.group_first[group + 1]


@njit(cache=True, nogil=True)
def number_insert(edges, horizons, counted, group, edge):
    """Give an insert its number in each window that reads it, and evict what is too old then."""
    windows = counted.fields[COUNTED]
    for place in range(np.int64(counted.group_first[group]), np.int64(counted.group_first[group + 1])):
        window = np.int64(counted.group_window[place])
        counted.number[window] += 1
        number, step = counted.number[window], counted.step[window]
        if counted.leaves[edge * windows + window] == ABSENT:
            edges.held[edge] += 1
        else:
            _take_out(counted, window, edge)
        _append(counted, window, edge)
        counted.leaves[edge * windows + window] = (number + counted.size[window] - 1) // step + 1
        while True:
            oldest = np.int64(counted.first[window])
            if counted.leaves[oldest * windows + window] > number // step:
                break
            _take_out(counted, window, oldest)
            counted.leaves[oldest * windows + window] = ABSENT
            edges.held[oldest] -= 1
            label = np.int64(edges.label[oldest])
            is_gone = edges.timestamp[oldest] <= horizons.horizon[horizons.group[label]]
            if is_gone and edges.held[oldest] & HOLDERS == 0:
                horizons.lost[label] = max(horizons.lost[label], edges.timestamp[oldest])


@njit(cache=True, nogil=True)
def delete_from_windows(edges, counted, group, edge):
    """Let no count window hold an edge any more."""
    windows = counted.fields[COUNTED]
    for place in range(np.int64(counted.group_first[group]), np.int64(counted.group_first[group + 1])):
        window = np.int64(counted.group_window[place])
        if counted.leaves[edge * windows + window] != ABSENT:
            _take_out(counted, window, edge)
            counted.leaves[edge * windows + window] = ABSENT
            edges.held[edge] -= 1
