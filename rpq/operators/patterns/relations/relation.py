"""The relations of an engine: creating and enlarging their arrays, and filling the lists for a side that a new plan walks.

`tables.py` explains the contents of the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rpq.compiled.growth import request
from rpq.compiled.views import lengthen, view
from rpq.errors import RpqError
from rpq.operators.patterns import tables
from rpq.operators.patterns.relations.adjacency import clear_header
from rpq.operators.patterns.relations.edges import (
    drop_all,
    enter_all,
    enter_edges,
    enter_static,
    fill_side,
    find_edges,
    find_expiries,
)
from rpq.operators.patterns.relations.wheel import NEVER, SLOTS_A_WINDOW
from rpq.operators.patterns.tables import (
    BITS,
    NO_LABEL,
    NONE,
    Relation,
    RelationEdge,
    Relations,
    RelationState,
    Support,
    SupportFrame,
    WindowRecord,
)
from rpq.stream.edges.outcomes import NOT_HELD

_MAX_FRAMES = 34


class LabelReaders(NamedTuple):
    """The readers of the edges of a label."""

    relations: Sequence[int] = ()
    """The relations that have its edges, at most one a window."""
    windows: Sequence[int] = ()
    """The count windows that number its inserts."""
    number: int = NO_LABEL
    """The label of its edges in relations that have labels."""


_SMALL_ROOM = 1 << 14
"""The length from which on arrays grow twofold."""
_LARGE_ROOM = 1 << 18
"""The length from which on arrays grow by a quarter, those of `lists` eight times that: doubled ones would be half empty."""
_KINDS = {"time": tables.TIME_WINDOW, "count": tables.COUNT_WINDOW, "unbounded": tables.UNBOUNDED}


class Sizes(NamedTuple):
    """The numbers of edges with a place, of entries in the arena, and of edges in the table."""

    edges: int
    entries: int
    live: int


NOTHING_EXPECTED = Sizes(0, 0, 0)


class RelationStore:
    """Relations over the vertices 0 … n − 1. Any call may replace most of the arrays `relations`."""

    def __init__(self, *, capacity: int = 1024) -> None:
        state = RelationState(edges=1, next_boundary=NEVER, support_atom=NONE)
        entries = 2
        while entries < 2 * capacity:
            entries *= 2
        self._relation_room = Relation.zeros(1)  # `relation` is its beginning, so that thousands are added in linear time
        self.relations = Relations(
            lists=np.zeros(capacity, np.int64),
            edge=RelationEdge.zeros(max(2, capacity)),
            table=np.zeros(entries, np.int64),
            slots=np.zeros(0, np.int32),
            free=np.full(tables.CLASSES, NONE, np.int64),
            relation=self._relation_room[:0],
            window=WindowRecord.zeros(0),
            reader_first=np.zeros(1, np.int32),
            reader=np.zeros(0, np.int32),
            count_window_first=np.zeros(1, np.int32),
            count_window=np.zeros(0, np.int32),
            label_number=np.zeros(0, np.int32),
            support=Support.zeros(0),
            support_link=np.zeros(1, np.int64),
            support_place=np.zeros(0, np.int32),
            support_stack=SupportFrame.zeros(_MAX_FRAMES),
            state=state,
        )
        self._viewed, self._view = self.relations, view(self.relations)
        self.fills = 0
        """The number of times that edges entered a relation in bulk, not in the order of the stream."""
        self._store_capacities()

    def _store_capacities(self) -> None:
        """Store the lengths of the arrays for the kernels, which see pointers only."""
        relations, state = self.relations, self.relations.state
        state.arena = state.vertices * state.stride
        state.arena_room = len(relations.lists) - state.arena
        state.edge_room = len(relations.edge)
        state.mask = len(relations.table) - 1
        state.windows = len(relations.window)

    @property
    def view(self) -> Any:
        """The argument of kernels for `relations`, renewed where arrays were replaced."""
        if self._viewed is not self.relations:
            self._viewed, self._view = self.relations, view(self.relations)
        return self._view

    @property
    def edge_count(self) -> int:
        """The number of edges in all relations."""
        return self.relations.state.live_edges

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.relations)

    # --- windows, relations, labels --------------------------------------------------------------------------------

    def add_window(self, kind: Literal["time", "count", "unbounded"], *, size: int = 1, slide: int = 1) -> int:
        """Add a window; return its number. `size` and `slide` are in units of the timestamps, or in inserts."""
        relations = self.relations
        row = self._window(kind, size, slide)
        row["first_slot"] = len(relations.slots)
        self.relations = relations._replace(
            window=np.concatenate([relations.window, row]),
            slots=np.concatenate([relations.slots, np.zeros(0 if kind == "unbounded" else SLOTS_A_WINDOW, np.int32)]),
        )
        self._store_capacities()
        return len(relations.window)

    def reuse_window(self, window: int, kind: Literal["time", "count"], *, size: int, slide: int) -> None:
        """Turn a resting window of time or count into another window."""
        first = self.relations.window["first_slot"][window]
        self.relations.window[window : window + 1] = self._window(kind, size, slide)
        self.relations.window["first_slot"][window] = first

    def rest_window(self, window: int) -> None:
        """Stop a window of time or count that has no edges, until it is reused."""
        self.relations.state.count_windows -= self._counts(window)
        self.relations.window["kind"][window] = tables.UNBOUNDED

    def set_number(self, window: int, number: int) -> None:
        """Set how many inserts a count window has numbered; its edges must expire later than that."""
        fields = self.relations.window[window]
        fields["number"] = number
        fields["cursor"] = number // int(fields["slide"]) + 1

    def number_of(self, window: int) -> int:
        """Return how many inserts a count window has numbered."""
        return int(self.relations.window["number"][window])

    def _window(self, kind: str, size: int, slide: int) -> np.ndarray:
        """Return a new window, as an array."""
        state, row = self.relations.state, WindowRecord.zeros(1)
        row["kind"], row["size"], row["slide"] = _KINDS[kind], size, slide
        row["earliest"] = NEVER
        state.count_windows += kind == "count"
        row["reaches_from"], row["reaches_to"], row["reaches"] = 1, 0, np.iinfo(np.int64).min
        if kind == "time" and state.has_time:
            cursor = state.stream_time // slide + 1
            row["cursor"] = cursor
            state.next_boundary = min(state.next_boundary, cursor * slide)
        return row

    def add_relation(self, window: int, *, loopless: bool = False, has_labels: bool = False) -> int:
        """Add an empty relation under a window; return its number.

        With `loopless` it has no edges from a vertex to itself. With `has_labels` it has the labels of its edges, and no
        plan may walk its lists.
        """
        number = len(self.relations.relation)
        if number == len(self._relation_room):
            self._relation_room = lengthen(self._relation_room, 2 * number)
        row = self._relation_room[number : number + 1]
        row["window"] = window
        row["cell"] = row["first_seed"] = row["first_support"] = NONE
        row["is_loopless"] = loopless
        row["has_labels"] = has_labels
        self.relations = self.relations._replace(relation=self._relation_room[: number + 1])
        return number

    def has_sides(self, relation: int) -> bool:
        """Return whether a relation has lists of a side."""
        return bool((self.relations.relation["cell"][relation] != NONE).any())

    def reuse_relation(self, relation: int, window: int, *, loopless: bool = False, has_labels: bool = False) -> None:
        """Turn a relation without readers and edges into another one; the sides that it keeps stay.

        One that keeps sides cannot become one that `has_labels`.
        """
        assert not (has_labels and self.has_sides(relation)), "edges have no room for a label and a place in a list"
        fields = self.relations.relation[relation]
        fields["has_labels"] = has_labels
        fields["window"] = window
        fields["is_loopless"] = loopless
        fields["outcomes"] = 0

    def empty_relation(self, relation: int) -> None:
        """Remove all edges from a relation that no plan reads. O(edges of all relations)."""
        drop_all(self.view, relation)

    def fill_relation(
        self,
        relation: int,
        source: np.ndarray,
        target: np.ndarray,
        time: np.ndarray,
        expires: np.ndarray,
        *,
        label: np.ndarray | None = None,
    ) -> None:
        """Enter edges into an empty relation, with the slides at which they expire; nothing is enumerated.

        Here and below, `label` has the numbers of the labels of edges, for a relation that has them.
        """
        self.fills += 1
        at, label = np.zeros(1, np.int64), _labels(label, source)
        while (code := enter_edges(self.view, relation, source, target, label, time, expires, at)) != tables.DONE:
            self.grow(code)

    def enter_static(
        self, relation: int, source: np.ndarray, target: np.ndarray, *, label: np.ndarray | None = None
    ) -> None:
        """Make edges of a relation static, so that they stay whether its window holds them or not; nothing is enumerated."""
        self.fills += 1
        at, label = np.zeros(1, np.int64), _labels(label, source)
        while (code := enter_static(self.view, relation, source, target, label, at)) != tables.DONE:
            self.grow(code)

    def expiries(self, relation: int, source: np.ndarray, target: np.ndarray, absent: int) -> np.ndarray:
        """Return the slides at which edges expire from a relation's window, or `absent` for edges that it does not have.

        Edges that are only static have `NOT_HELD`.
        """
        found = np.empty(len(source), np.int64)
        find_expiries(self.view, relation, source, target, _labels(None, source), found, absent)
        return found

    def holds(self, relation: int, source: int, target: int) -> bool:
        """Return whether an edge is in a relation."""
        return self._edge(relation, source, target) != 0

    def time_of(self, relation: int, source: int, target: int) -> int | None:
        """Return the timestamp of an edge of a relation, or None for a static one that the window does not hold."""
        time = int(self.relations.edge["time"][self._edge(relation, source, target)])
        return None if time == NOT_HELD else time

    def _edge(self, relation: int, source: int, target: int) -> int:
        found, one, other = np.zeros(1, np.int64), np.array([source]), np.array([target])
        find_edges(self.view, relation, one, other, _labels(None, one), found)
        return int(found[0])

    def current_edges(self, relation: int) -> int:
        """Return the number of edges that a relation's window holds."""
        fields = self.relations.relation[relation]
        return int(fields["edges"] - fields["static_alone"])

    def tuple_counts(self, relation: int) -> np.ndarray:
        """Return how many tuples with its label were inserted, refreshed, deleted, absent, late, passed by."""
        return self.relations.relation["outcomes"][relation].copy()

    def read_labels(self, labels: Sequence[LabelReaders], *, first: int = 0) -> None:
        """Make the edges of label `first` + i be read by `labels[i]`, those of labels behind these by nothing.

        Labels before `first` stay as they are. There is room for as many labels as before. O(labels given), and a copy.
        """
        relations, room = self.relations, max(first + len(labels), len(self.relations.label_number))
        readers = relations.reader_first, relations.reader
        numbering = relations.count_window_first, relations.count_window
        reader_first, reader = _extend_lists(*readers, first, [one.relations for one in labels], room)
        count_window_first, count_window = _extend_lists(*numbering, first, [one.windows for one in labels], room)
        label_number = np.full(room, NO_LABEL, np.int32)
        label_number[:first] = relations.label_number[:first]
        label_number[first : first + len(labels)] = [one.number for one in labels]
        self.relations = relations._replace(
            reader_first=reader_first,
            reader=reader,
            count_window_first=count_window_first,
            count_window=count_window,
            label_number=label_number,
        )

    def _counts(self, window: int) -> bool:
        return bool(self.relations.window["kind"][window] == tables.COUNT_WINDOW)

    def header(self, relation: int, side: int) -> tuple[int, int, int]:
        """Return the place of a side's header in a vertex record: its offset, that of its word of bits, and its bit."""
        fields = self.relations.relation[relation]
        return int(fields["cell"][side]), int(fields["word"][side]), int(fields["bit"][side])

    def add_side(self, relation: int, side: int) -> None:
        """Add lists of the neighbours on one side of a relation. O(vertices + edges) where it has none yet."""
        fields = self.relations.relation[relation]
        if fields["cell"][side] != NONE:
            return
        assert not fields["has_labels"], "edges have no room for a label and a place in a list"
        fields["cell"][side], fields["word"][side], fields["bit"][side] = self.add_headers(1)[0]
        edges = int(fields["edges"])
        if not edges:
            return
        # A list of n edges passes through regions of fewer than 4 n entries in all.
        self._reshape(room=4 * edges)
        if not fill_side(self.view, relation, side):
            raise AssertionError("the arena was too small for a side")

    def add_headers(self, count: int) -> list[tuple[int, int, int]]:
        """Add headers with their bits in one word to the vertex records.

        Returns (offset, offset of the word, bit) of each. O(vertices).
        """
        state = self.relations.state
        first = state.sides_stored
        if first % BITS + count > BITS:
            first += BITS - first % BITS
        state.sides_stored = first + count
        words = [number // BITS * (BITS + 1) for number in range(first, first + count)]
        headers = [(word + 1 + (first + i) % BITS, word, 1 << (first + i) % BITS) for i, word in enumerate(words)]
        self._reshape(stride=headers[-1][0] + 1)
        return headers

    def clear_headers(self, headers: Sequence[tuple[int, int, int]]) -> None:
        """Empty the lists under headers. O(vertices × headers)."""
        records = self.relations.lists[: self.relations.state.arena].reshape(-1, self.relations.state.stride)
        for cell, word, bit in headers:
            clear_header(self.view, cell)
            records[:, word] &= ~np.int64(bit)

    def make_room_for_supports(self, count: int) -> None:
        """Make room for the support lists of atoms 0 … count − 1."""
        relations, state = self.relations, self.relations.state
        edges, old = state.edge_room, state.places
        places = np.zeros((edges, 2 * count), np.int32)
        places[:, :old] = relations.support_place.reshape(edges, old)
        state.places = 2 * count
        self.relations = relations._replace(support=lengthen(relations.support, count), support_place=places.reshape(-1))

    # --- growth ------------------------------------------------------------------------------------------------------

    def make_room_for_vertices(self, count: int) -> None:
        """Make room for the records of vertices 0 … count − 1. Amortised O(1) a vertex."""
        room = self.relations.state.vertices
        if count > room:
            self._reshape(vertices=max(count, room + room // (2 if room < _LARGE_ROOM else 4)))

    def _reshape(self, *, vertices: int | None = None, stride: int | None = None, room: int = 0) -> None:
        """Make vertex records longer or more numerous, or make room for `room` more entries in the arena."""
        relations, state = self.relations, self.relations.state
        old_vertices, old_stride, old_arena = state.vertices, state.stride, state.arena
        vertices = old_vertices if vertices is None else vertices
        stride = old_stride if stride is None else stride
        top = state.arena_top
        room = max(state.arena_room, top + room)
        request(8 * (vertices * stride + room))
        lists = np.zeros(vertices * stride + room, np.int64)
        records = lists[: old_vertices * stride].reshape(old_vertices, stride)
        records[:, :old_stride] = relations.lists[:old_arena].reshape(old_vertices, old_stride)
        lists[vertices * stride : vertices * stride + top] = relations.lists[old_arena : old_arena + top]
        state.vertices, state.stride = vertices, stride
        self.relations = relations._replace(lists=lists)
        self._store_capacities()

    def sizes(self) -> Sizes:
        """Return what is in the arrays that `grow` enlarges."""
        state = self.relations.state
        return Sizes(state.edges, state.arena_top, state.live_edges)

    def grow(self, code: int, *, expected: Sizes = NOTHING_EXPECTED) -> None:
        """Enlarge the array that a kernel named by a `NEED_` code, other than that of the output.

        `expected` is what the rest of the push will add by estimate: in a push of millions an array is copied once or
        twice, not twenty times.
        """
        relations, state = self.relations, self.relations.state
        if code == tables.NEED_ARENA:
            top = state.arena_top
            longest = tables.LENGTH
            if state.arena_room - top > longest:
                raise RpqError(f"a vertex has more than {longest:,} edges of one relation, which is the maximum")
            # The region that is needed is no larger than what is there, or it is the first one; where a quarter is too
            # little for it, the kernel asks again. Records are copied as well, so where the arena is small beside them it
            # grows by more.
            growth = top + 8 if top < 8 * _LARGE_ROOM else top // 4
            self._reshape(room=max(growth, state.arena // 4, expected.entries))
        elif code == tables.NEED_EDGES:
            more = max(8, expected.edges)
            edges = lengthen(relations.edge, max(_next_room(state.edge_room), state.edge_room + more))
            request(4 * len(edges) * state.places)
            places = np.zeros(len(edges) * state.places, np.int32)
            places[: len(relations.support_place)] = relations.support_place
            self.relations = relations._replace(edge=edges, support_place=places)
        elif code == tables.NEED_TABLE:
            entries = (4 if len(relations.table) < _SMALL_ROOM else 2) * len(relations.table)
            while entries < 2 * (state.live_edges + expected.live):
                entries *= 2
            request(8 * entries)
            table = np.zeros(entries, np.int64)
            enter_all(relations.table, table, len(table) - 1)
            self.relations = relations._replace(table=table)
        else:
            raise AssertionError(f"code {code}")
        self._store_capacities()


def _extend_lists(
    firsts: np.ndarray, entries: np.ndarray, begin: int, lists: Sequence[Sequence[int]], room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return lists as (firsts, entries), in int32: list i is firsts[i] : firsts[i + 1] of the entries.

    The first `begin` lists are those that are given in this form; then come `lists`, then empty ones up to `room` lists.
    """
    entry_count, end = int(firsts[begin]), begin + len(lists)
    extended = np.empty(room + 1, np.int32)
    extended[: begin + 1] = firsts[: begin + 1]
    extended[begin + 1 : end + 1] = entry_count + np.cumsum([len(one) for one in lists])
    extended[end + 1 :] = extended[end]
    return extended, np.concatenate([entries[:entry_count], np.array([entry for one in lists for entry in one], np.int32)])


def _next_room(room: int) -> int:
    """Return the length of an array that takes the place of a full one.

    Kernels start again on other views after each, which takes longer than the copies of small arrays.
    """
    if room < _SMALL_ROOM:
        return 4 * room
    return 2 * room if room < _LARGE_ROOM else room + room // 4


def _labels(label: np.ndarray | None, edges: np.ndarray) -> np.ndarray:
    """Return the numbers of the labels of edges (int32)."""
    return np.full(len(edges), NO_LABEL, np.int32) if label is None else label


def neighbours(store: RelationStore, relation: int, vertices: Sequence[int] | None, *, inward: bool) -> np.ndarray:
    """Return the sources of edges into some vertices, or (`inward`) the targets of edges from them.

    Without `vertices`, those of all edges. O(edges of all relations).
    """
    edges = store.relations.edge[1 : store.relations.state.edges]
    mine = edges[edges["relation"] == relation]
    near, far = (mine["source"], mine["target"]) if inward else (mine["target"], mine["source"])
    return np.unique(far if vertices is None else far[np.isin(near, vertices)])
