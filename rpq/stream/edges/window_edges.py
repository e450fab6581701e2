"""The windows that are decided before the graph, because an edge that leaves them changes other edges.

Where edges have an identity, the effect of an insert depends on the edges in the window. The graph knows these for windows
of time, but not for count windows; and a static edge that an edge of its identity hides comes back when that edge leaves.
In both cases `WindowEdges` adds *steps* to the tuples of a chunk: deletes of edges that the window evicts, and deletes and
inserts of static edges that are hidden and come back. Tuples and steps are applied to `EdgeTable` in their order, as if they
all had come. To the graph and to queries the window is unbounded.

- In a count window each insert with a label that a query reads gets a number; an older one renews the edge that is held. An
  insert with a label that no query reads has no number. Where edges have ids, it removes the edge with its id, unless that
  edge is newer. A window of time holds it like any other edge.
- A static edge is there while the window holds no edge with its key.
- What is evicted follows what the tuple itself and static edges change, so that before it the graph is the one without any
  eviction. Each boundary of a window of time that a tuple crosses is an event of its own before the tuple.

Which edges are held is decided here for hidden static edges alone. An edge that was deleted may be evicted once more,
which changes nothing, and from a window of time an edge is evicted unless it is newer by then.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edges.edge_store import TIMELESS
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, Window

Link = tuple[int, int, int]
"""An edge of the graph: source, label, target."""

_NO_LINK = -1, 0, -1


class StaticEdge(NamedTuple):
    """A static edge that edges of the window may hide."""

    edge: int
    """Its number in the table."""
    ends: Link
    derived_set: int
    links: Sequence[Link]
    """The links from and to the vertices that it is."""


class HidingEdge(NamedTuple):
    """An edge of the window that hides a static one."""

    edge: int
    ends: Link
    timestamp: int


class _Step(NamedTuple):
    """A tuple, or what the window adds before or after it."""

    row: int
    edge: int
    source: int
    label: int
    target: int
    timestamp: int
    delete: int
    number: int
    is_own: int = 0
    is_evicted: int = 0
    boundary: int = 0
    is_mover: int = 0
    static: int = -1


class Steps(NamedTuple):
    """Tuples of a chunk and what the window adds to them, in order; columns with a value a step."""

    chunk: Chunk
    row: np.ndarray  # int64: the tuple
    edge: np.ndarray  # int64: the number of the edge in the table, -1 for none
    number: np.ndarray  # int64: the number by which edges that are vertices are known, -1 for all with its ends
    own: np.ndarray  # int64: for each tuple its own step
    is_evicted: np.ndarray  # bool
    boundary: np.ndarray  # int32: the boundary, below 0, at which it happens before its tuple; 0 for others
    is_mover: np.ndarray  # bool: it moves the time alone
    statics: dict[int, StaticEdge]
    """The static edges that are deleted or inserted, by their steps."""


class EdgeLeave(NamedTuple):
    """An edge of the window, and when it leaves."""

    leaves: int
    """Its number in a count window, the boundary in a window of time."""
    number: int
    """The number of its last insert."""
    edge: int
    known_by: int
    key: Hashable


class WindowEdges:
    """The order in which edges leave a window, and the static edges that they hide.

    With `keeps_all` edges under labels that no query reads are held too, in a window that does not count.
    """

    def __init__(self, window: AnyWindow, *, keeps_all: bool) -> None:
        self.window = window
        self.number = 0
        """The number of the last insert."""
        self.is_begun = False
        """True if static edges are in the graph, where nothing hides them."""
        self._keeps_all = keeps_all
        self._number_of: dict[int, int] = {}
        """The numbers of the last inserts of edges, in a count window."""
        self._entries: list[EdgeLeave] = []
        """A heap of the edges that leave; in a count window those whose number is another one are renewed or gone."""
        self.statics: dict[Hashable, StaticEdge] = {}
        """The static edges by their keys."""
        self._hiding: dict[Hashable, HidingEdge] = {}
        """The edges of the window that hide static edges, by key."""

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return 300 * (len(self._entries) + len(self.statics))

    @property
    def counts(self) -> bool:
        """True if this is a count window."""
        return isinstance(self.window, CountWindow)

    def entries(self) -> list[EdgeLeave]:
        """Return the edges in the order of their numbers, perhaps with some that were deleted. O(edges log edges)."""
        last = {one.edge: one for one in sorted(self._entries, key=lambda one: one.number)}
        return sorted(last.values(), key=lambda one: one.number)

    # --- static edges ----------------------------------------------------------------------------------------

    def set_statics(
        self, statics: Mapping[Hashable, StaticEdge], held: Mapping[Hashable, HidingEdge], *, begins: bool
    ) -> list[StaticEdge]:
        """Set the static edges by their keys, where the window holds the edges `held`. Return those that no edge hides.

        Before static edges begin there are none.
        """
        self.statics = dict(statics)
        self.is_begun |= begins
        self._hiding = {key: edge for key, edge in held.items() if key in statics}
        return [static for key, static in statics.items() if key not in self._hiding] if self.is_begun else []

    def _hide(self, made: list[_Step], row: int, key: Hashable, edge: HidingEdge) -> None:
        """Add the delete of the static edge with a key that an edge of the window hides from now on."""
        before = self._hiding.get(key)
        if key not in self.statics or (before is not None and edge.timestamp < before.timestamp):
            return
        self._hiding[key] = edge
        if before is None and self.is_begun:
            static = self.statics[key].edge
            made.append(_Step(row, static, *_NO_LINK, edge.timestamp, 1, -1, static=static))

    def _reveal(self, made: list[_Step], row: int, key: Hashable, time: int, boundary: int = 0) -> None:
        """Add the insert of the static edge with a key that an edge of the window hides no longer."""
        del self._hiding[key]
        if self.is_begun:
            static = self.statics[key]
            # The insert has no time, so that another step moves it.
            made.append(_Step(row, -1, *_NO_LINK, time, 1, -1, boundary=boundary, is_mover=1))
            step = _Step(row, static.edge, *static.ends, TIMELESS, 0, -1, boundary=boundary, static=static.edge)
            made.append(step)

    # --- tuples ----------------------------------------------------------------------------------------------

    def steps(
        self,
        chunk: Chunk,
        now: np.ndarray,
        *,
        edge: np.ndarray,
        keys: Sequence[Hashable],
        number: np.ndarray,
        is_read: np.ndarray,
    ) -> Steps:
        """Return the tuples of a chunk with what the window adds to them. O(tuples + evictions).

        `now` are the stream times after the tuples, `edge` the numbers of their edges in the table, -1 for none, and `keys`
        the keys, None for deletes of all edges with some ends. Edges that are vertices are known by `number`. `is_read` says
        of each tuple whether a query reads its label.
        """
        made: list[_Step] = []
        columns = chunk.source, chunk.label, chunk.target, chunk.timestamp, chunk.delete, now, edge, number, is_read
        tuples = zip(keys, *(column.tolist() for column in columns), strict=True)
        for row, (key, u, label, v, time, delete, moment, mine, known_by, read) in enumerate(tuples):
            self._expire(made, row, moment)
            ends = u, label, v
            is_late = isinstance(self.window, Window) and time <= self.window.lower_bound(moment)
            if delete or (not is_late and not read and (self.counts or not self._keeps_all)):
                # An insert that the window does not hold removes the edge that it would replace.
                delete = delete or DELETE_UNLESS_NEWER
                deleted: Link = ends if key is None else _NO_LINK
                made.append(_Step(row, mine, *deleted, time, delete, known_by, is_own=1))
                hidden_by = [key] if key in self._hiding else []
                if key is None:
                    hidden_by = [each for each, edge_of in self._hiding.items() if edge_of.ends == ends]
                for each in hidden_by:
                    if delete != DELETE_UNLESS_NEWER or time >= self._hiding[each].timestamp:
                        self._reveal(made, row, each, time)
            elif is_late:
                # A delete of what is older than all edges changes nothing, and what the edge is before the tuple is known.
                made.append(_Step(row, mine, *_NO_LINK, TIMELESS, DELETE_UNLESS_NEWER, -1, is_own=1))
            else:
                made.append(_Step(row, mine, *ends, time, 0, known_by, is_own=1))
                self._hide(made, row, key, HidingEdge(mine, ends, time))
                self._enter(time, mine, known_by, key)
                if isinstance(self.window, CountWindow):
                    self._leave(made, row, self._take(self.window.lower_bound(self.number)), time)
        return self._columns(made)

    def expire(self, time: int) -> Steps | None:
        """Advance the time without a tuple; return the steps, of a tuple 0 that is none, None for none."""
        made: list[_Step] = []
        self._expire(made, 0, time)
        return self._columns(made) if made else None

    def _columns(self, made: Sequence[_Step]) -> Steps:
        columns = np.array(made, np.int64).reshape(len(made), len(_Step._fields)).T
        row, edge, source, label, target, timestamp, delete, number, is_own, is_evicted, boundary, is_mover, static = columns
        kinds = np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32
        of_chunk = zip((source, target, label, timestamp, delete, edge), kinds, strict=True)
        chunk = Chunk(*(np.ascontiguousarray(column, kind) for column, kind in of_chunk))
        of_edges = {one.edge: one for one in self.statics.values()} if (static >= 0).any() else {}
        return Steps(
            chunk,
            row.copy(),
            edge.copy(),
            number.copy(),
            np.flatnonzero(is_own),
            is_evicted != 0,
            boundary.astype(np.int32),
            is_mover != 0,
            {int(step): of_edges[int(static[step])] for step in np.flatnonzero(static >= 0)},
        )

    def _enter(self, time: int, edge: int, known_by: int, key: Hashable) -> None:
        """Give an edge the next number, which makes it the last to leave a count window."""
        self.number += 1
        leaves = INT64_MAX
        if isinstance(self.window, Window):
            leaves = self.window.expiry_slide(time) * self.window.slide
        elif self.counts:
            leaves = self._number_of[edge] = self.number
        heapq.heappush(self._entries, EdgeLeave(leaves, self.number, edge, known_by, key))

    def _expire(self, made: list[_Step], row: int, now: int) -> None:
        """Add the deletes of the edges whose time is over, each boundary in an event of its own."""
        if self.counts or not self._entries or self._entries[0].leaves > now:
            return
        events: dict[int, list[EdgeLeave]] = {}
        for one in self._take(now):
            events.setdefault(one.leaves, []).append(one)
        for place, (boundary, entries) in enumerate(events.items()):
            made.append(_Step(row, -1, *_NO_LINK, boundary, 1, -1, boundary=place - len(events), is_mover=1))
            self._leave(made, row, entries, boundary, place - len(events))

    def _take(self, bound: int) -> list[EdgeLeave]:
        """Remove the edges that may leave up to a bound, in order."""
        taken: list[EdgeLeave] = []
        while self._entries and self._entries[0].leaves <= bound:
            one = heapq.heappop(self._entries)
            if not self.counts or self._number_of.get(one.edge) == one.number:
                taken.append(one)
        return taken

    def _leave(self, made: list[_Step], row: int, entries: Sequence[EdgeLeave], time: int, boundary: int = 0) -> None:
        """Add the deletes of edges that leave in one event, behind the inserts of static edges that they hide no longer.

        In a window of time they have the timestamp up to which edges leave.
        """
        bound, delete = time, 1
        if isinstance(self.window, Window):
            bound, delete = time - self.window.size, DELETE_UNLESS_NEWER
        for one in entries:
            hiding = self._hiding.get(one.key)
            if hiding is not None and hiding.edge == one.edge and (delete == 1 or hiding.timestamp <= bound):
                self._reveal(made, row, one.key, time, boundary)
        made += [
            _Step(row, one.edge, *_NO_LINK, bound, delete, one.known_by, is_evicted=1, boundary=boundary) for one in entries
        ]

    def retain(self, live: Collection[int]) -> list[int]:
        """Forget edges that are not live; return the numbers of static edges in the table. O(edges)."""
        self._number_of = {edge: number for edge, number in self._number_of.items() if edge in live}
        self._entries = [one for one in self._entries if one.edge in live]
        heapq.heapify(self._entries)
        return [static.edge for static in self.statics.values()]

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        self.statics = {key: one._replace(derived_set=int(numbers[one.derived_set])) for key, one in self.statics.items()}

    def load(self, edges: Iterable[tuple[int, int, int, int, Hashable]], number: int) -> None:
        """Set the edges, in the order of their numbers, and the number of the last insert, in a new object.

        Each has its number, its timestamp, its number in the table, that by which it is known as a vertex, and its key.
        """
        for self.number, timestamp, edge, known_by, key in edges:
            self.number -= 1
            self._enter(timestamp, edge, known_by, key)
        self.number = number

    def _check(self, live: Collection[int]) -> None:
        """Assert that the edges that the window holds are to leave, and that none has left a count window."""
        leaving = self.entries()
        assert {*live} <= {one.edge for one in leaving}, "an edge never leaves"
        numbers = [one.number for one in leaving]
        assert len({*numbers}) == len(numbers), "two edges have one number"
        if isinstance(self.window, CountWindow):
            assert all(number > self.window.lower_bound(self.number) for number in numbers), "an edge has left the window"
