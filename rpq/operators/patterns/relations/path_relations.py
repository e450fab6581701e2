"""The pairs of path atoms as relations: the Δ indexes that find them, shared by all patterns of an engine.

A path atom reads a *derived relation*. Its edges are the pairs that a path of the atom's expression joins within a window.
An index (`rpq.operators.paths.index`) finds them, with explicit expiry whatever the query's semantics: every pair that
enters or leaves is a row of the index, and the rows of a chunk, in the order of its tuples, are the changes of the relation
(`DerivedChanges`). Atoms whose expressions have the same non-empty words, under one window and for one kind of paths, share
an index and a relation.

An index grows trees for the vertices that some atom needs as *roots* (`meanings.py`). A vertex becomes a root before the
chunk in which an atom may first need it, with the tree that it has by then: pairs that are added too early join with
nothing. Roots that no atom needs are dropped, with their pairs, when the engine collects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.automata.symbols import LabelSymbol
from rpq.errors import LimitError
from rpq.language.protocol import Guard, Overrun
from rpq.language.query import PatternQuery, automaton_of
from rpq.language.readings import LabelSet
from rpq.language.time_order import TimeOrder
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.path_delta import PathDelta
from rpq.operators.paths.path_trees import PathIndexes, words_of
from rpq.operators.patterns.relations.constants import Constants
from rpq.operators.patterns.relations.relation import RelationStore, neighbours
from rpq.operators.patterns.relations.shared_relations import RelationKey, SharedRelations
from rpq.operators.patterns.relations.wheel import NEVER
from rpq.operators.patterns.tables import NO_CHANGES, DerivedChanges
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.names.stream_labels import STATIC_ALONE, LabelName, graph_of, is_static_stream, label_in, merged_name
from rpq.stream.window import AnyWindow


def merge_deltas(deltas: Sequence[tuple[int, PathDelta]], *, before: int | None = None) -> DerivedChanges:
    """Return the rows of indexes, each with the number of its relation, in order; only those `before` a place, if given.

    In an event of several relations the edges that leave precede the edges that enter, one relation after the other.
    O(rows), and O(events log events) where there are several indexes.
    """
    deltas = [(number, delta) for number, delta in deltas if len(delta.ends)]
    if not deltas:
        return NO_CHANGES
    parts = [_changes(number, delta) for number, delta in deltas]
    changes = parts[0] if len(parts) == 1 else _concatenate_changes(parts)
    if before is not None:
        count = int(np.searchsorted(changes.order, before))
        changes = DerivedChanges(
            order=changes.order[:count],
            time=changes.time[:count],
            sign=changes.sign[:count],
            relation=changes.relation[:count],
            first=changes.first[:count],
            end=changes.end[:count],
            pairs=changes.pairs,
            ticks=changes.ticks,
        )
    return changes


def _changes(number: int, delta: PathDelta) -> DerivedChanges:
    first = np.zeros(len(delta.ends), np.int64)
    first[1:] = delta.ends[:-1]
    return DerivedChanges(
        order=delta.orders,
        time=delta.times,
        sign=delta.kinds,
        relation=np.full(len(first), number, np.int32),
        first=first,
        end=delta.ends,
        pairs=delta.pairs,
        ticks=NO_CHANGES.ticks,
    )


def _concatenate_changes(parts: Sequence[DerivedChanges]) -> DerivedChanges:
    begins = np.cumsum([0, *(len(part.pairs) for part in parts)])
    moved = [
        part._replace(first=part.first + begin, end=part.end + begin) for part, begin in zip(parts, begins, strict=False)
    ]
    order, time, sign, relation, first, end, pairs, ticks = (np.concatenate(columns) for columns in zip(*moved, strict=True))
    # The pairs of newly grown trees come first, and nothing leaves before them. In an event what leaves comes first.
    rank = np.lexsort((sign, time, order))
    return DerivedChanges(order[rank], time[rank], sign[rank], relation[rank], first[rank], end[rank], pairs, ticks)


_NO_VERTICES = np.zeros(0, np.int32)
_BYTES_A_PAIR = 100
"""The approximate size of a pair in a relation: its record, and its entries in the hash table and in two lists."""


class PathContent(NamedTuple):
    """The content of a derived relation."""

    words: Hashable
    """The minimal automaton."""
    window: AnyWindow
    counted_labels: LabelSet | None = None
    """The labels whose inserts a count window numbers."""
    origin: int = 0
    """0: all edges of its window; others: the edges since some query began with an empty window."""
    budget: int | None = None
    """For simple paths, how many nodes may be expanded for a root at a time; None for walks."""
    stream: str | None = None
    """The name of the stream; None: the merged stream, which has the edges of all."""
    without_static: bool = False
    """True if it is read without the static edges, as a named window is."""
    order: TimeOrder | None = None
    """The order in time of the edges of its paths."""
    closes: bool = False
    """True if simple paths may end where they begin."""
    graphs: tuple[str, ...] | None = None
    """The graphs of FROM whose static edges it runs across; None without FROM: those that were loaded without a name."""


class Need(NamedTuple):
    """The roots that an atom needs: vertices with these names, or their neighbours in a relation.

    Without names, all vertices that have a neighbour there, and without a relation all vertices. With a `coordinate`
    (number, of how many), only the vertices with this coordinate in a dimension by which shares divide the atom.
    """

    names: frozenset[str] | None
    relation: RelationKey | None = None
    inward: bool = False
    coordinate: tuple[int, int] | None = None

    @property
    def is_of_all(self) -> bool:
        """True if it is for all vertices with a coordinate."""
        return self.names is None and self.relation is None


def content_of(
    expression: str,
    question: PatternQuery,
    origin: int,
    *,
    window: AnyWindow | None = None,
    counted_labels: LabelSet | None = None,
    stream: str | None = None,
    without_static: bool = False,
    order: TimeOrder | None = None,
    graphs: tuple[str, ...] | None = None,
) -> PathContent:
    """Return the content that a path atom of a query reads over its only window, or over another one."""
    words = words_of(automaton_of(expression))
    budget = None if question.paths == "walk" else question.simple_budget
    if window is None:
        window, counted_labels = question.window, question.label_set if question.window.kind == "count" else None
    closes = question.paths == "simple_cycle"
    return PathContent(words, window, counted_labels, origin, budget, stream, without_static, order, closes, graphs)


class PathRelation(PathIndexes):
    """One derived relation: its index, the edges of the store that are its pairs, and the needs for roots."""

    def __init__(
        self,
        content: PathContent,
        expression: str,
        question: PatternQuery,
        number: int,
        **options: Any,
    ) -> None:
        """Create the index with these options."""
        self.number = number
        """The number of its relation in the store."""
        self.stream = content.stream
        self.is_static = is_static_stream(content.stream)
        self._labels_of = None if content.stream == STATIC_ALONE else content.stream
        self._graphs = content.graphs or ()
        super().__init__(
            automaton_of(expression),
            content.window,
            question,
            label_of=self._label_seen,
            counted_labels=content.counted_labels,
            closes=content.closes,
            order=content.order,
            explicit=True,
            **options,
        )
        (self.index,) = self.indexes
        self.needs: Counter[Need | None] = Counter()
        """The number of atoms with each need; the need None is for every vertex."""
        self.neighbour_needs: dict[Need, None] = {}
        """The needs for neighbours in a relation, which edges may change."""
        self.is_loaded = False
        """True if the edges of its window have been loaded, or the stream has begun."""
        self.is_dirty = False
        """True if more vertices may be needed as roots."""
        self.overruns: dict[str, list[Overrun]] = {}
        """The overruns that each of its queries has not taken yet."""
        self._measured: tuple[Any, int] = (None, 0)

    @property
    def nbytes(self) -> int:
        """The bytes without the pairs. It is read often, so arrays are measured only if they were replaced."""
        if self._measured[0] is not self.index.index:
            self._measured = self.index.index, self.index.nbytes - self.index.judge.nbytes
        return self._measured[1] + self.index.judge.nbytes + 2 * self._is_end.nbytes

    # --- labels and edges ------------------------------------------------------------------------------------

    def _label_seen(self, name: LabelName) -> LabelSymbol | None:
        return merged_name(name) if graph_of(name) in self._graphs else label_in(name, self._labels_of)

    # --- roots -----------------------------------------------------------------------------------------------

    def missing_roots(self, vertices: np.ndarray | Iterable[int]) -> np.ndarray:
        """Return the vertices among these that are not roots yet."""
        found = vertices if isinstance(vertices, np.ndarray) else np.fromiter(vertices, np.int64)
        return np.unique(found[self._is_root[0][found] == 0])

    def add_bare_roots(self, vertices: np.ndarray) -> None:
        """Make vertices roots that have no edges yet."""
        self._is_root[0][vertices] = 1

    @property
    def keeps_roots(self) -> bool:
        """True if all vertices are roots, or all with some coordinate of shares."""
        return any(need is None or need.is_of_all for need in self.needs)

    def surplus_roots(self, vertices: Iterable[int]) -> np.ndarray:
        """Return the roots that are not among `vertices`. O(vertices)."""
        is_surplus = self._is_root[0].copy()
        is_surplus[np.fromiter(vertices, np.int64)] = 0
        return np.flatnonzero(is_surplus)

    @property
    def non_roots(self) -> np.ndarray:
        """All vertices that are not roots. O(vertices)."""
        return np.flatnonzero(self._is_root[0] == 0)

    def pop_overruns(self, query: str) -> list[Overrun]:
        """Return the roots that exceeded their budget since this was last called for a query."""
        overruns = self.index.pop_overruns()
        for waiting in self.overruns.values():
            waiting += overruns
        taken, self.overruns[query] = self.overruns[query], []
        return taken


class PathRelations:
    """The derived relations of all patterns, and the application of chunks to their indexes."""

    def __init__(
        self,
        store: RelationStore,
        relations: SharedRelations,
        constants: Constants,
        *,
        capacity: int,
        guard: Guard,
        deadline: np.ndarray | None,
        have_coordinate: Callable[[np.ndarray, tuple[int, int]], np.ndarray],
    ) -> None:
        """`have_coordinate` returns which vertices have a coordinate (number, of how many) of shares."""
        self._have_coordinate = have_coordinate
        self._store = store
        self._relations = relations
        self._constants = constants
        self._options = {"capacity": capacity, "guard": guard, "deadline": deadline}
        self._guard = guard
        self._by_content: dict[PathContent, PathRelation] = {}
        self._users: Counter[PathContent] = Counter()
        self._window: int | None = None
        self._idle_numbers: list[int] = []
        self._vertices = 0
        self._known_vertices = 0  # ids below may belong to vertices
        self._graph: SnapshotGraph | None = None
        self.ticks = np.zeros(1, np.int64)
        """The cycles that each tuple of the last chunk took in all indexes."""

    def __len__(self) -> int:
        return len(self._by_content)

    def __getitem__(self, content: PathContent) -> PathRelation:
        return self._by_content[content]

    # --- users -----------------------------------------------------------------------------------------------

    def take(self, content: PathContent, expression: str, question: PatternQuery, need: Need | None) -> None:
        """Take the relation of an expression with these words for one more atom, which needs these roots.

        Roots that a running index lacks are grown by `settle`. O(labels) where there was no such relation.
        """
        self._users[content] += 1
        if content not in self._by_content:
            relation = PathRelation(content, expression, question, self._new_relation(), **self._options)
            relation.set_labels(*self._relations.labels())
            relation.needs[need] += 1
            if self._graph is not None:
                relation.make_room_for_ids(self._vertices, self._graph.capacity, are_roots=None in relation.needs)
            self._by_content[content] = relation
        else:
            relation = self._by_content[content]
            relation.needs[need] += 1
        if need is not None and need.relation is not None:
            relation.neighbour_needs[need] = None
        relation.overruns.setdefault(question.name, [])
        relation.is_dirty = True

    def _new_relation(self) -> int:
        if self._idle_numbers:
            assert self._window is not None
            number = self._idle_numbers.pop()
            self._store.reuse_relation(number, self._window)
            return number
        if self._window is None:
            self._window = self._store.add_window("unbounded")
        return self._store.add_relation(self._window)

    def release(self, content: PathContent, question: PatternQuery, need: Need | None) -> None:
        """Release an atom's use of a relation, after its plans. O(edges of all relations) where it was the last use."""
        relation = self._by_content[content]
        relation.needs[need] -= 1
        if not relation.needs[need]:
            del relation.needs[need]
            if need is not None:
                relation.neighbour_needs.pop(need, None)
        relation.overruns.pop(question.name, None)
        self._users[content] -= 1
        if not self._users[content]:
            del self._users[content], self._by_content[content]
            self._store.empty_relation(relation.number)
            self._idle_numbers.append(relation.number)

    # --- calls of the host -----------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Register label ids with their names."""
        for relation in self._by_content.values():
            relation.set_labels(labels, names)

    def make_room(
        self, vertices: int, graph: SnapshotGraph, *, changed: Collection[str], new_ids: np.ndarray = _NO_VERTICES
    ) -> None:
        """Make room for vertex ids below a number and for the graph; `new_ids` are the ids of new names.

        In `changed` queries constants have other ids now.
        """
        self._vertices, self._graph = vertices, graph
        if len(new_ids):
            self._known_vertices = max(self._known_vertices, int(new_ids[new_ids.argmax()]) + 1)
        for relation in self._by_content.values():
            relation.make_room_for_ids(vertices, graph.capacity, are_roots=None in relation.needs)
            for need in relation.needs:
                if need is not None and need.is_of_all:
                    relation.add_bare_roots(self._own(need, new_ids))
            relation.is_dirty = relation.is_dirty or not relation.overruns.keys().isdisjoint(changed)

    def advance(self, time: int) -> DerivedChanges:
        """Move the stream time without a tuple; return the changes."""
        found = [(relation.number, relation.index.advance(time)) for relation in self._by_content.values()]
        return merge_deltas(found)

    def apply(
        self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS
    ) -> tuple[DerivedChanges, LimitError | None, int]:
        """Apply a chunk. Return (changes, failure, place).

        After a failure the changes are the ones of the tuples before `place`; else `place` is the length of the chunk.
        """
        named = (chunk, tuples) if details.named is None else (details.named, details.named_view)
        found: list[tuple[int, PathDelta]] = []
        failure, place = None, len(chunk.timestamp)
        if place > len(self.ticks):
            self.ticks = np.zeros(max(place, 2 * len(self.ticks)), np.int64)
        self.ticks[:place] = 0
        for relation in self._by_content.values():
            relation.is_loaded = True
            relation.index.add_ticks_to(self.ticks, place)
            if None not in relation.needs:
                try:
                    found += self._grow(relation, self._candidates(relation, chunk, named[0]))
                except LimitError as problem:
                    return NO_CHANGES, problem, 0
            if relation.is_static:
                continue
            try:
                relation.index.apply(*((chunk, tuples) if relation.stream is None else named), edges)
            except LimitError as problem:
                if relation.index.state.tuple < place:
                    failure, place = problem, relation.index.state.tuple
            found.append((relation.number, relation.index.delta()))
        return merge_deltas(found, before=None if failure is None else 2 * place), failure, place

    # --- roots -----------------------------------------------------------------------------------------------

    def _needed_roots(self, relation: PathRelation) -> Iterator[int]:
        """Return the vertices that are needed as roots, where not all are."""
        for need in relation.needs:
            assert need is not None
            ids = self._ids(need)
            if need.is_of_all:
                yield from self._own(need, np.arange(self._known_vertices)).tolist()
            elif need.relation is None:
                assert ids is not None
                yield from ids
            else:
                near = neighbours(self._store, self._relations[need.relation], ids, inward=need.inward)
                yield from self._own(need, near).tolist()

    def _own(self, need: Need, vertices: np.ndarray) -> np.ndarray:
        """Return the vertices that have the coordinate of a need, if it has one."""
        return vertices if need.coordinate is None else vertices[self._have_coordinate(vertices, need.coordinate)]

    def _candidates(self, relation: PathRelation, chunk: Chunk, named: Chunk) -> np.ndarray:
        """Return the vertices that a chunk may make needed as roots, and that are not roots yet."""
        found = [relation.missing_roots(self._needed_roots(relation))] if relation.is_dirty else []
        relation.is_dirty = False
        for need in relation.neighbour_needs:
            assert need.relation is not None
            labels = chunk.label if need.relation.stream is None else named.label
            of_label = labels == self._relations.label_id(need.relation.name)
            if not of_label.any():
                continue
            near, far = (chunk.source, chunk.target) if need.inward else (chunk.target, chunk.source)
            of_label &= far >= 0  # the names of an edge that is passed by have no ids
            if (ids := self._ids(need)) is not None:
                of_label &= np.isin(near, ids)
            found.append(relation.missing_roots(self._own(need, far[of_label])))
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _ids(self, need: Need) -> list[int] | None:
        """Return the ids of the named vertices of a need, or None where it names none; names without an id are left out."""
        if need.names is None:
            return None
        return [identity for name in need.names if (identity := self._constants.id_of(name)) is not None]

    def _grow(self, relation: PathRelation, roots: np.ndarray) -> list[tuple[int, PathDelta]]:
        """Make vertices roots; return how the relation changes."""
        return [(relation.number, _copy(relation.index.grow(roots)))] if len(roots) else []

    def settle(self, content: PathContent) -> DerivedChanges:
        """Grow the roots that a running index lacks; return how its relation changes. Raises `LimitError`."""
        relation = self._by_content[content]
        relation.is_dirty = False
        missing = relation.non_roots if None in relation.needs else relation.missing_roots(self._needed_roots(relation))
        return merge_deltas(self._grow(relation, missing))

    def restore_root(self, contents: Iterable[PathContent], root: int) -> DerivedChanges:
        """Restore the pairs of a root in the relations where it is set aside; return how they change."""
        found = []
        for relation in (self._by_content[content] for content in contents):
            if relation.index.restore_root(root):
                delta = _copy(relation.index.delta())
                delta.orders[:] = 0  # it belongs to no tuple
                found.append((relation.number, delta))
        return merge_deltas(found)

    def sweep(self) -> DerivedChanges:
        """Drop everything that has left the windows, and roots that no atom needs; return how relations change."""
        found = []
        for relation in self._by_content.values():
            index = relation.index
            index.sweep()
            if relation.keeps_roots or not len(roots := relation.surplus_roots(self._needed_roots(relation))):
                continue
            pairs = index.answers()
            pairs = pairs[np.isin(pairs >> 32, roots)]
            index.drop(roots)
            time = np.array([index.time])
            event: dict[str, Any] = {"times": time, "kinds": np.array([-1], np.int8), "orders": np.array([0])}
            nothing = np.zeros(0, np.int64)
            if len(pairs):
                ends = np.array([len(pairs)])
                found.append((relation.number, PathDelta(pairs=pairs, ends=ends, paths=nothing, path_ends=nothing, **event)))
        return merge_deltas(found)

    # --- loading windows -------------------------------------------------------------------------------------

    def load(self, content: PathContent, chunk: Chunk, slides: np.ndarray, *, quiet: bool) -> None:
        """Load its edges into an index if it is empty; the relation gets the pairs. Raises `LimitError`."""
        relation = self._by_content[content]
        if relation.is_loaded:
            return
        index = relation.index
        is_read = relation.reads(chunk.label)
        is_read &= slides > index.current
        relation.is_loaded = True
        relation.is_dirty = False
        if None not in relation.needs:
            roots = relation.missing_roots(self._needed_roots(relation))
            index.index.table.is_root[roots] = 1
        index.load(Chunk(*(column[is_read] for column in chunk)), slides[is_read], quiet=quiet)
        pairs = index.answers()
        self._guard(_BYTES_A_PAIR * len(pairs), 0)
        nothing = np.zeros(len(pairs), np.int64)
        self._store.fill_relation(relation.number, pairs >> 32, pairs & layout.LOW_HALF, nothing, nothing + NEVER)

    def count_from(self, content: PathContent, number: int) -> None:
        """Set the number of inserts that the count window of an empty index has numbered."""
        relation = self._by_content[content]
        if not relation.is_loaded:
            relation.index.count_from(number)

    def load_static(self, content: PathContent, chunk: Chunk) -> None:
        """Load edges that never leave into an empty index: the next `load` enters them."""
        relation = self._by_content[content]
        if not relation.is_loaded:
            mine = relation.reads(chunk.label)
            relation.index.load_static(Chunk(*(column[mine] for column in chunk)))

    # --- figures ---------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The bytes without the relations."""
        return sum(relation.nbytes for relation in self._by_content.values())

    def _check(self, pairs_of: Callable[[int], set[tuple[int, int]]]) -> None:
        """Assert that each relation has the pairs of its index, and its index the roots that are needed. O(everything)."""
        for relation in self._by_content.values():
            relation.index._check()
            pairs = {(pair >> 32, pair & layout.LOW_HALF) for pair in relation.index.answers().tolist()}
            assert pairs_of(relation.number) == pairs, "a derived relation differs from its index"
            if not relation.is_loaded:
                continue  # the vertices of static edges become roots with the first tuple
            if None in relation.needs:
                assert not len(relation.non_roots), "a vertex is no root"
            elif not relation.is_dirty:
                assert not len(relation.missing_roots(self._needed_roots(relation))), "a root that is needed is missing"


def _copy(delta: PathDelta) -> PathDelta:
    """Copy the rows of a delta, which the next call of the index overwrites."""
    return PathDelta(
        pairs=delta.pairs.copy(),
        times=delta.times.copy(),
        ends=delta.ends.copy(),
        kinds=delta.kinds.copy(),
        orders=delta.orders.copy(),
        paths=delta.paths,
        path_ends=delta.path_ends,
    )
