"""The trees that path queries read: an index for each thread, over one automaton and one window.

A query reads the trees of its roots. Queries whose automata, windows, semantics and ends are the same share the trees
(`shared_key`), so an edge costs what it costs in one index, and each query gets the rows of its own roots (`roots.py`). A
single query gets the rows of its indexes as they are; if there are several, rows are distributed to them.

Each query gets and counts the rows that it would have alone. Therefore some queries have trees of their own: queries with
simple paths that can be in doubt, because a budget belongs to one query; with paths in an order in time, with lengths or
costs; in engines whose rows contain witnesses; and queries that started empty in mid-stream, because their windows contain
less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rpq.automata import DFA
from rpq.automata.symbols import LabelSymbol
from rpq.language.options import Vertex
from rpq.language.protocol import Division, Guard, Resources
from rpq.language.query import Query
from rpq.language.readings import LabelSet
from rpq.language.time_order import TimeOrder
from rpq.operators.paths.closure.closure_index import ClosureIndex
from rpq.operators.paths.costs import Costs
from rpq.operators.paths.direction import Way
from rpq.operators.paths.index.delta_index import NO_LIMIT, DeltaIndex
from rpq.operators.paths.index.path_delta import PathDelta
from rpq.operators.paths.program import CompiledExpression, Program
from rpq.operators.paths.roots import NamedRoots
from rpq.operators.paths.simple.simple_judge import judge_for
from rpq.rows.delta import Delta
from rpq.stream.chunk import Chunk
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.stream_labels import LabelName, label_in
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.window import AnyWindow

_NO_PAIRS = np.zeros(0, np.int64)
_MANY = -1
"""In place of the number of a query, for a delta with numbers of its own."""


def shared_key(query: Query, way: Way, resources: Resources) -> Hashable | None:
    """Return the key of a query's trees, which queries with equal keys share; None where it has trees of its own."""
    if resources.sharing == "never" or resources.witness or resources.is_late or query.is_ordered:
        return None
    if query.has_length or query.cost is not None:
        return None
    if query.paths != "walk" and len(CompiledExpression(way.dfa).program.later_state):
        return None  # in doubt
    ends = None if way.ends is None else frozenset(way.ends)
    numbered = query.label_set if query.window.kind == "count" else None
    return words_of(way.dfa), way.is_reversed, query.window, query.semantics, query.paths, ends, numbered


def words_of(dfa: DFA) -> Hashable:
    """Return the minimal automaton as a value: equal for expressions with the same non-empty words. O(its size).

    Whether the start accepts says something only where a word leads back to it: the empty path is no answer.
    """
    columns = [(*symbol, *dfa.transitions[:, column].tolist()) for column, symbol in enumerate(dfa.symbols)]
    begin = 0 if (dfa.transitions == 0).any() else 1
    return tuple(sorted(columns, key=repr)), begin, tuple(dfa.accepting[begin:].tolist())


@dataclass(eq=False, kw_only=True)
class TreeReader:
    """A query that reads trees."""

    name: str
    place: int
    """Its number among the readers of these trees."""
    roots: Collection[Vertex] | None
    guard: Guard
    counts_before: np.ndarray
    """The counts of the trees when the query was registered, in the order of `Outcome`."""
    latency_before: np.ndarray
    to_load: list[np.ndarray] = field(default_factory=list)
    """The roots whose trees each index has to have when the query is loaded."""


@dataclass(frozen=True, kw_only=True)
class _IndexSize:
    """The sizes of the indexes, valid until they change."""

    states: tuple[bytes, ...]
    cells: np.ndarray
    """By root."""
    answers: np.ndarray
    """By root."""
    edges: int
    pairs: list[np.ndarray] = field(default_factory=list)
    """The answers of each index, sorted, once new queries have read them."""


class PathIndexes:
    """The indexes of an automaton over a window, one for each of the `parts` into which roots are divided.

    `label_of` returns the label that paths see in an edge, given the name of its label; None if they do not see the edge. A
    count window numbers inserts with `counted_labels`, by default the labels of the automaton. `question` has the kind of
    paths, and `options` are passed to `DeltaIndex`.
    """

    def __init__(
        self,
        dfa: DFA,
        window: AnyWindow,
        question: Any,
        *,
        label_of: Callable[[LabelName], LabelSymbol | None],
        counted_labels: LabelSet | None = None,
        closes: bool = False,
        order: TimeOrder | None = None,
        has_length: bool = False,
        costs: Costs | None = None,
        parts: int = 1,
        **options: Any,
    ) -> None:
        self._compiled = CompiledExpression(dfa, closes=closes)
        self._named = dfa.labels
        self._label_of, self._counted_labels = label_of, counted_labels
        options |= {"order": order, "has_length": has_length, "costs": costs}
        index = partial(new_index, self._compiled.program, window, question, **options)
        self.indexes = tuple(index() for _ in range(parts))
        self._forward = np.full(0, -1, np.int16)  # the class of a step along an edge, a label id
        self._inverse = np.full(0, -1, np.int16)
        self._is_numbered = np.zeros(0, np.uint8)
        self._is_root = [np.ones(0, np.uint8) for _ in self.indexes]
        self._is_end = np.ones(0, np.uint8)

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Add label ids with their names. O(labels)."""
        if not len(labels):
            return
        room = len(self._forward)
        if (needed := int(labels.max()) + 1) > room:
            more = np.full(max(needed - room, room, 16), -1, np.int16)
            self._forward = np.concatenate([self._forward, more])
            self._inverse = np.concatenate([self._inverse, more])
            self._is_numbered = np.concatenate([self._is_numbered, np.zeros(len(more), np.uint8)])
            for index in self.indexes:
                index.set_labels(self._forward, self._inverse, self._is_numbered)
        seen, counted = [self._label_of(name) for name in names], self._counted_labels
        is_named = [type(label) is not str or label in self._named for label in seen]
        unnamed = next((label for label, one in zip(seen, is_named, strict=True) if not one), None)
        of_unnamed = self._compiled.classes_of(unnamed)  # the same for all labels that the expression does not name
        classes = [
            self._compiled.classes_of(label) if one else of_unnamed for label, one in zip(seen, is_named, strict=True)
        ]
        self._forward[labels], self._inverse[labels] = np.array(classes, np.int16).T
        if counted is None:
            self._is_numbered[labels] = self.reads(labels)
        else:
            self._is_numbered[labels] = [label is not None and counted.has(label) for label in seen]

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return which labels the steps of paths can have, as booleans."""
        found: np.ndarray = (self._forward[labels] >= 0) | (self._inverse[labels] >= 0)
        return found

    def make_room_for_ids(self, vertices: int, edges: int, *, are_roots: bool) -> None:
        """Make room for vertex and edge ids below these numbers. New vertices are ends, and with `are_roots` also roots."""
        if (more := vertices - len(self._is_end)) > 0:
            flags = np.ones(max(more, len(self._is_end) // 4), np.uint8)
            self._is_end = np.concatenate([self._is_end, flags])
            self._is_root = [np.concatenate([is_root, flags if are_roots else 0 * flags]) for is_root in self._is_root]
        for index, is_root in zip(self.indexes, self._is_root, strict=True):
            index.make_room(len(self._is_end), edges, is_root, self._is_end)

    @property
    def tree_count(self) -> int:
        """The number of roots whose tree is not empty. O(vertices)."""
        return sum(int((index.index.table.slot_of >= 0).sum()) for index in self.indexes)


def new_index(
    program: Program,
    window: AnyWindow,
    question: Any,
    *,
    order: TimeOrder | None = None,
    has_length: bool = False,
    costs: Costs | None = None,
    **options: Any,
) -> DeltaIndex:
    """Return the index of an expression over a window: of the kind that its order, lengths, costs or paths need."""
    if order is not None:
        from rpq.operators.paths.ordered.ordered_index import OrderedIndex  # its kernels take memory

        return OrderedIndex(program, window, order=order, has_length=has_length, **options)
    if has_length:
        from rpq.operators.paths.lengths.length_index import LengthIndex  # as do its own

        return LengthIndex(program, window, **options)
    if costs is not None:
        from rpq.operators.paths.lengths.cost_index import CostIndex

        return CostIndex(program, window, costs=costs, **options)
    judge = judge_for(question, program, room=options["capacity"])
    may_have_bits = judge.walks_return and not judge.doubts and not options.get("witness")
    return (ClosureIndex if may_have_bits else DeltaIndex)(program, window, judge=judge, **options)


class TreesWorker:
    """An index as a worker of the queries that read its trees."""

    def __init__(self, trees: PathTrees, index: DeltaIndex) -> None:
        self._trees = trees
        self._index = index
        self.apply = index.apply
        self.advance = index.advance

    @property
    def has_rows(self) -> bool:
        """True if the indexes have reported rows."""
        return self._index.has_rows

    def deltas(self, numbers: Mapping[str, int], *, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows of the last call, or those `before` a tuple of it, with the numbers of their queries."""
        return self._trees.number_rows(self._index.delta(before=before), numbers)

    def sweep(self) -> None:
        """Release everything that has left the window, or that has no reader."""
        self._trees.drop_unread()
        self._index.sweep()

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._index.nbytes

    def _check(self) -> None:
        """Assert the invariants."""
        self._index._check()
        self._trees._check()


class PathTrees(PathIndexes):
    """Indexes of one automaton over one window, one for each thread, and the queries that read them."""

    needs_room = True

    def __init__(self, query: Query, way: Way, resources: Resources) -> None:
        self.costs: Costs | None = None
        if query.cost is not None:
            # One for all queries of an engine: rows with the same texts are put together in the order of time.
            self.costs = resources.shared.setdefault(("costs", query.cost), Costs(query.cost))
        super().__init__(
            way.dfa,
            query.window,
            query,
            label_of=lambda name: label_in(name, None),
            closes=query.paths == "simple_cycle",
            order=query.time_order,
            has_length=query.has_length,
            costs=self.costs,
            parts=resources.threads,
            explicit=query.semantics == "explicit",
            witness=resources.witness,
            capacity=resources.capacity,
            guard=self._check_memory,
            check_rows=self._check_rows,
            deadline=resources.deadline,
            is_reversed=way.is_reversed,
        )
        self.is_reversed = way.is_reversed
        self._ends = way.ends
        self._row_guard = resources.rows
        self._division = Division(resources.threads, resources.share)
        self.workers = tuple(TreesWorker(self, index) for index in self.indexes)
        self.vertex_room = 0
        self.readers: dict[int, TreeReader] = {}
        self._places = 0
        self._free_places: list[int] = []
        self._whole: list[TreeReader] = []  # readers for which every vertex is a root
        self.is_shared = False
        """True once there were several readers at a time; from then on, rows are distributed to readers."""
        self._named_roots = NamedRoots()
        self._of_root = self._named_roots.readers
        self._rows = np.zeros((16, 2), np.int64)  # of each reader: added, removed
        self._number_of = np.full(16, -1, np.int32)  # of each reader among the queries of the engine
        self._counted_up_to = np.zeros(2, np.int64)  # rows that the indexes have counted, while none are distributed
        self._waiting: dict[int, list[np.ndarray]] = {}  # the first rows of readers, for their next call
        self._unread_trees = 0  # roots without a reader whose trees still exist
        self._last_vertices: np.ndarray | None = None
        self._numbers: Mapping[str, int] | None = None
        self._unnumbered_readers: dict[int, TreeReader] = {}  # by place: readers without a known number
        self._current_size: _IndexSize | None = None
        self._latency_copy: tuple[bytes, np.ndarray] | None = None

    # --- who reads them --------------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """True if the trees have received tuples of the stream or the edges of a window."""
        return bool(self.indexes[0].state.has_time)

    def add_reader(self, name: str, roots: Collection[Vertex] | None, guard: Guard) -> TreeReader:
        """Add a reader of the trees of these roots, of all for None. O(roots)."""
        if self.readers and not self.is_shared:
            self._settle_rows()
            self.is_shared = True
        if self._free_places:
            place = self._free_places.pop()
        else:
            place, self._places = self._places, self._places + 1
        if place >= len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._number_of = np.concatenate([self._number_of, np.full_like(self._number_of, -1)])
        reader = TreeReader(
            name=name,
            place=place,
            roots=roots,
            guard=guard,
            counts_before=self.outcome_counts(),
            latency_before=self.latency(),
        )
        self.readers[place] = reader
        self._unnumbered_readers[place] = reader
        if roots is None:
            self._whole.append(reader)
        else:
            self._named_roots.add(roots, place)
        self._of_root.make_room(self.vertex_room, self._places)
        return reader

    def remove_reader(self, reader: TreeReader) -> None:
        """Remove a reader. O(its roots, and their readers); unread trees are dropped when they are half of all.

        Nothing is done for the last reader, because the trees are removed with it.
        """
        del self.readers[reader.place]
        self._waiting.pop(reader.place, None)
        self._unnumbered_readers.pop(reader.place, None)
        if not self.readers:
            return
        self._rows[reader.place] = 0
        self._free_places.append(reader.place)
        if reader.roots is None:
            self._whole.remove(reader)
            self._unread_trees += 0 if self._whole else self.vertex_room
        else:
            self._unread_trees += self._named_roots.remove(reader.roots, reader.place)
        if not self._whole and self._unread_trees > max(16, self._named_roots.vertex_count):
            self.drop_unread()

    def drop_unread(self) -> None:
        """Drop trees without readers, where there are any. O(size of the indexes) then."""
        if not self._unread_trees:
            return
        self._unread_trees = 0
        if self._whole:
            return
        for index, is_root in zip(self.indexes, self._is_root, strict=True):
            unread = np.flatnonzero(is_root.astype(bool) & self._of_root.unread[: len(is_root)])
            if len(unread):
                index.drop(unread)
        self._current_size = None

    def _check_memory(self, more: int, place: int) -> None:
        next(iter(self.readers.values())).guard(more, place)

    def _check_rows(self, rows: int, place: int) -> None:
        """Raise `RowLimitError` if the rows that an event has so far are too many for one of the readers."""
        if not self._whole:
            rows = 0 if self._unread_trees else rows // len(self.readers)  # each of them is one of some reader
        if rows > self._row_guard.found_limit:
            raise self._row_guard.error(next(iter(self._whole or self.readers.values())).name, rows, place=place)

    # --- input -----------------------------------------------------------------------------------------------

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `new_ids` are the ids of new names."""
        self._make_room(vertices, graph)
        self._add_ends(vertices, new_ids)

    def make_reader_room(
        self, reader: TreeReader, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph
    ) -> None:
        """Make room like `make_room` for a query that was added; `load` makes the trees that it lacks."""
        self._make_room(vertices, graph)
        if not self.is_loaded:
            if new_ids is not self._last_vertices:  # it is the same for all that come in one step
                self._last_vertices = new_ids
                self._add_ends(vertices, new_ids)
        elif reader.roots is None:
            reader.to_load = self._owned_vertices(vertices, new_ids)
        else:
            for name in reader.roots:
                if (root := vertices.id_of(name)) >= 0:
                    self._named_roots.set_vertex(root, name)
            reader.to_load = self._owned_vertices(vertices, self._named_roots.ids(reader.roots))

    def _owned_vertices(self, vertices: VertexDictionary, ids: np.ndarray) -> list[np.ndarray]:
        """Return for each index the vertices among `ids` that it owns."""
        return [ids[mine] for mine in self._division.ownership(vertices.hashes(ids))]

    def _make_room(self, vertices: VertexDictionary, graph: SnapshotGraph) -> None:
        if self.costs is not None:
            self.costs.vertices = vertices
        self.make_room_for_ids(vertices.count, graph.capacity, are_roots=bool(self._whole))
        if len(self._is_end) > self.vertex_room:
            self.vertex_room = len(self._is_end)
            self._of_root.make_room(self.vertex_room, self._places)

    def _add_ends(self, vertices: VertexDictionary, new_ids: np.ndarray) -> None:
        """Note which of the vertices that come are roots or ends of queries."""
        if not len(new_ids):
            return
        if self._named_roots or not self._whole or not self._division.is_whole:
            self._named_roots.forget(new_ids)
            for flags, owned in zip(self._is_root, self._division.ownership(vertices.hashes(new_ids)), strict=True):
                flags[new_ids] = owned & bool(self._whole)
            roots = self._named_roots.add_vertices(vertices, new_ids)
            for flags, owned in zip(self._is_root, self._division.ownership(vertices.hashes(roots)), strict=True):
                flags[roots] = owned
        if self._ends is not None:
            self._is_end[new_ids] = find_named(vertices, new_ids, self._ends)

    # --- existing windows ------------------------------------------------------------------------------------

    def count_from(self, number: int) -> None:
        """Set the insert from which a count window goes on, if none has come to it yet."""
        for index in self.indexes:
            if not self.is_loaded:
                index.count_from(number)

    def load_static(self, chunk: Chunk) -> None:
        """Add edges that never leave, if no window was loaded yet: the next `load` enters them."""
        if not self.is_loaded:
            for index in self.indexes:
                index.load_static(chunk)

    def load(self, reader: TreeReader, time: int, chunk: Chunk | None, slides: np.ndarray, *, quiet: bool) -> list[Delta]:
        """Load the edges of the window for a new query. Return its first rows, as one event.

        The first one loads the window, for all that came with it; for others the trees grow that they lack.
        """
        if self.is_loaded:
            if (waiting := self._waiting.pop(reader.place, None)) is not None:
                return self._first_rows(reader, time, waiting)
            found = [
                self._grow_trees(index, reader, flags, roots)
                for index, flags, roots in zip(self.indexes, self._is_root, reader.to_load, strict=False)
            ]
            reader.to_load = []
            return [] if quiet else self._first_rows(reader, time, found)
        deltas = []
        for index in self.indexes:
            index.advance(time)
            if chunk is not None:
                deltas.append(index.load(chunk, slides, quiet=quiet))
        if not self.is_shared:
            return [*deltas]
        if quiet or chunk is None:
            return []
        self._waiting = {place: [] for place in self.readers}
        for delta in deltas:
            for one in self._whole:
                self._waiting[one.place].append(delta.pairs.copy())
            dealt = self._of_root.deal(delta.pairs, delta.ends, delta.kinds, np.zeros_like(self._rows))
            for place, pairs in zip(dealt.reader.tolist(), np.split(dealt.pairs, dealt.end[:-1]), strict=False):
                self._waiting[place].append(pairs)
        return self._first_rows(reader, time, self._waiting.pop(reader.place))

    def _first_rows(self, reader: TreeReader, time: int, pairs_of_parts: Sequence[np.ndarray]) -> list[Delta]:
        pairs = np.concatenate([_NO_PAIRS, *pairs_of_parts])
        if not len(pairs):
            return []
        self._rows[reader.place, 0] += len(pairs)
        event = {"times": np.array([time]), "kinds": np.array([1], np.int8), "orders": np.array([1])}
        return [self._delta(pairs, np.array([len(pairs)]), **event)]

    def _grow_trees(self, index: DeltaIndex, reader: TreeReader, flags: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """Make the trees of a query's roots that an index lacks. Return the pairs of these roots."""
        has_tree = flags[roots] > 0
        lacking = roots[~has_tree]
        if reader.roots is None:
            if len(lacking):
                index.grow(lacking)
            if self._division.is_whole:
                flags[:] = 1  # new vertices may come without a call
            return index.answers()
        found = [_NO_PAIRS]
        if has_tree.any():
            pairs = self._sorted_pairs()[self.indexes.index(index)]
            found += [_of_root(pairs, root) for root in roots[has_tree].tolist()]
        if len(lacking):
            found.append(index.grow(lacking).pairs.copy())
        return np.concatenate(found)

    # --- output ------------------------------------------------------------------------------------------------

    def number_rows(self, delta: PathDelta, numbers: Mapping[str, int]) -> list[tuple[int, Delta]]:
        """Return the rows of an index with the numbers of queries; `numbers` as in `Worker.deltas`.

        There is one delta for each query that reads everything, and one for all others.
        """
        if not len(delta):
            return []
        if not self.is_shared:
            (reader,) = self.readers.values()
            return [(numbers[reader.name], delta)]
        self._note_numbers(numbers)
        found: list[tuple[int, Delta]] = []
        for reader in self._whole:
            self._rows[reader.place] += delta.counts()
            found.append((int(self._number_of[reader.place]), delta))
        if self._named_roots:
            dealt = self._of_root.deal(delta.pairs, delta.ends, delta.kinds, self._rows)
            if len(dealt.end):
                event = dealt.event
                events = {"times": delta.times[event], "kinds": delta.kinds[event], "orders": delta.orders[event]}
                rows = self._delta(dealt.pairs, dealt.end, **events)
                rows.numbers = self._number_of[dealt.reader]
                found.append((_MANY, rows))
        return found

    def _note_numbers(self, numbers: Mapping[str, int]) -> None:
        if numbers is not self._numbers:
            self._numbers, self._unnumbered_readers = numbers, {**self.readers}
        for place, reader in self._unnumbered_readers.items():
            self._number_of[place] = numbers[reader.name]
        self._unnumbered_readers.clear()

    def _delta(self, pairs: np.ndarray, ends: np.ndarray, **events: np.ndarray) -> PathDelta:
        nothing = np.zeros(0, np.int64)
        return PathDelta(pairs=pairs, ends=ends, paths=nothing, path_ends=nothing, is_reversed=self.is_reversed, **events)

    def answers(
        self, reader: TreeReader, *, root: int | None = None, first: int = 0, end: int = NO_LIMIT, limit: int = NO_LIMIT
    ) -> list[np.ndarray]:
        """Return the pairs that answer a query now, of each index; with the options of `DeltaIndex.answers`."""
        roots = None if root is None else np.array([root])
        if self.is_shared and reader.roots is not None:
            own_roots = self._named_roots.ids(reader.roots)
            roots = own_roots if roots is None else roots[np.isin(roots, own_roots)]
        return [index.answers(roots=roots, first=first, end=end, limit=limit) for index in self.indexes]

    def joins(self, reader: TreeReader, root: int, end: int) -> bool:
        """Return whether a vertex is one of the roots of a query, and another one of the ends."""
        return bool(self._is_end[end]) and (reader.roots is None or self._named_roots.name_of(root) in reader.roots)

    def rows(self, reader: TreeReader) -> np.ndarray:
        """Return the numbers of reported rows of a query: added, removed."""
        rows: np.ndarray = self._rows[reader.place].copy()
        return rows if self.is_shared else rows + self._counted_rows() - self._counted_up_to

    def set_rows(self, reader: TreeReader, rows: Sequence[int]) -> None:
        """Set the numbers of reported rows of a query."""
        self._settle_rows()
        self._rows[reader.place] = rows

    def _settle_rows(self) -> None:
        """Add the counts of the indexes so far to the first reader, if rows are not dealt to several readers."""
        counted = self._counted_rows()
        if not self.is_shared:
            self._rows[next(iter(self.readers))] += counted - self._counted_up_to
        self._counted_up_to = counted

    def _counted_rows(self) -> np.ndarray:
        return np.array([(index.state.added, index.state.removed) for index in self.indexes], np.int64).sum(axis=0)

    def outcome_counts(self) -> np.ndarray:
        """Return the counts of tuples, which all indexes have in common, in the order of `Outcome`."""
        return np.array(self.indexes[0].state.outcomes)

    def latency(self) -> np.ndarray:
        """Return tuples that are read by the ticks that they took, one copy for all that ask before the next tuple."""
        index = self.indexes[0]
        state = bytes(index.state.outcomes)
        if self._latency_copy is None or self._latency_copy[0] != state:
            self._latency_copy = state, index.index.latency.copy()
        return self._latency_copy[1]

    def size(self, reader: TreeReader) -> tuple[int, int, int]:
        """Return the numbers of live cells, answers and edges of a query. O(size of the index), once for all queries."""
        if not self.is_shared:
            live = [index.live() for index in self.indexes]
            return sum(one[0] for one in live), sum(one[1] for one in live), live[0][2]
        size = self._index_size()
        roots = slice(None) if reader.roots is None else self._named_roots.ids(reader.roots)
        return int(size.cells[roots].sum()), int(size.answers[roots].sum()), size.edges

    def nbytes(self, reader: TreeReader) -> int:
        """Return the part of a query in the bytes that all readers hold together, without buffers for rows."""
        total = sum(index.nbytes - index.buffer_bytes for index in self.indexes) + self._of_root.nbytes
        share, rest = divmod(total, len(self.readers))
        return share + (rest if reader is next(iter(self.readers.values())) else 0)

    def _sorted_pairs(self) -> list[np.ndarray]:
        """Return the answers of each index, sorted, which is done once for all queries that are added between two tuples."""
        size = self._index_size()
        if not size.pairs:
            size.pairs.extend(np.sort(index.answers()) for index in self.indexes)
        return size.pairs

    def _index_size(self) -> _IndexSize:
        states = tuple(bytes(index.state) for index in self.indexes)
        if self._current_size is None or self._current_size.states != states:
            cells, answers = np.zeros((2, self.vertex_room), np.int64)
            for index in self.indexes:
                index.count_by_root(cells, answers)
            self._current_size = _IndexSize(states=states, cells=cells, answers=answers, edges=self.indexes[0].live()[2])
        return self._current_size

    def _check(self) -> None:
        """Assert the invariants. O(size of the indexes)."""
        self._named_roots._check({place: reader.roots or () for place, reader in self.readers.items()})


def find_named(vertices: VertexDictionary, ids: np.ndarray, names: Collection[Vertex]) -> np.ndarray:
    """Return which ids have one of these names. O(the fewer of the two)."""
    if len(ids) < len(names):
        return np.array([name in names for name in vertices.names_of(ids).to_pylist()], bool)
    named_ids = {identity for identity in map(vertices.id_of, names) if identity >= 0}
    return np.isin(ids, np.fromiter(named_ids, np.int64, len(named_ids)))


def _of_root(pairs: np.ndarray, root: int) -> np.ndarray:
    """Return the pairs of a root among sorted pairs. O(log pairs)."""
    first, last = np.searchsorted(pairs, [root << 32, (root + 1) << 32])
    return pairs[first:last]
