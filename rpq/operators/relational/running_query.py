"""A registered SPARQL query: its network of operators, the leaves of which are parts of the host of patterns.

The conjunctions of the body are parts of `PatternHost`, whose relations and indexes it shares with patterns and other
queries. The changes that the kernels find in a chunk are numbered by event and passed through the network
(`rpq.operators.relational`) once; the output is net within each event. The networks of queries that share operators
(`SharedOperators`) run together, and each query gets and counts the rows that it would have alone. Only queries that started
with an empty window in mid-stream have operators of their own, as their windows contain fewer edges than those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rpq.language.kinds import QueryKind, content_of, read_content, read_window, window_json
from rpq.language.protocol import Figures, ReportContent, Resources
from rpq.language.readings import report_windows_of
from rpq.language.sparql.algebra import Reporting, atoms_of
from rpq.language.sparql.query import SparqlQuery
from rpq.operators.patterns.hosted_query import HostedQuery
from rpq.operators.patterns.joins.plan import shaped_parts, with_label
from rpq.operators.patterns.meanings import MeaningEdge, NamedVertex, Neighbours, PathRead, Roots, variable
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.read_relations import WindowedEdge, WindowedPath, WindowedReads, static_content
from rpq.operators.patterns.relations.path_relations import Need
from rpq.operators.patterns.relations.shared_relations import RelationKey
from rpq.operators.patterns.rows.solutions import PartPlace
from rpq.operators.relational.evaluation import LeafChange, LeafChanges, Network, SharedOperators, ids_in
from rpq.operators.relational.explanation import SparqlExplanation, explain_query
from rpq.operators.relational.nodes import LeafNode, ProjectNode
from rpq.operators.relational.planning import ConjunctionPart, EveryLabel, RelationRead, plan_network
from rpq.operators.relational.report_clock import ReportClock
from rpq.operators.relational.values.term_ids import FIRST, QueryTerms, TermIds
from rpq.rows.delta import Delta, IdRows, ids_of_columns
from rpq.rows.weighted_rows import UNBOUND, WeightedRows, as_changes, concatenate
from rpq.stream.chunk import Chunk
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.json_values import JsonValue
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary, as_vertex
from rpq.stream.stream_time import report_steps, report_times
from rpq.stream.window import INT64_MAX, AnyWindow, UnboundedWindow, Window

AnySparqlQuery = TypeVar("AnySparqlQuery", bound=SparqlQuery)

_CONTENT: dict[Reporting, ReportContent] = {"ISTREAM": "enter", "DSTREAM": "leave", "RSTREAM": "whole"}


class OperatorPool:
    """The operators of queries that share the ids of terms.

    Ids are released when all of these queries have called `retain` with the ids that wait for a report.
    """

    def __init__(self, terms: TermIds, unregister: Callable[[], object]) -> None:
        self.terms = terms
        self._unregister = unregister
        self.operators = SharedOperators(terms)
        self._waiting: list[np.ndarray] = []
        self._new_ids: np.ndarray | None = None

    @classmethod
    def pool_for(cls, resources: Resources, *, is_private: bool) -> OperatorPool:
        """Return the pool for a new query. Other queries may share it unless it `is_private`."""
        if resources.sharing == "never" or resources.is_late or is_private:
            return cls(TermIds(), lambda: None)
        shared, key = resources.shared, cls.__name__
        if key not in shared:
            shared[key] = cls(TermIds(), lambda: shared.pop(key, None))
        pool: OperatorPool = shared[key]
        return pool

    def unregister_if_unused(self) -> None:
        """Make new queries begin another pool if no query has an operator of this one."""
        if not len(self.operators):
            self._unregister()

    def add_vertices(self, vertices: VertexDictionary, new_ids: np.ndarray) -> None:
        """Add new vertices, `new_ids`, unless another query has added the same."""
        if new_ids is not self._new_ids:
            self._new_ids = new_ids
            self.terms.add_vertices(vertices, new_ids)

    def retain(self, waiting: np.ndarray) -> None:
        """Exempt the ids of rows of one query that wait for a report from the next `release`."""
        self._waiting.append(waiting)

    def release(self) -> None:
        """Release the terms that no operator stores and no `retain` has exempted. Call this once after the calls of
        `retain`."""
        if self._waiting and len(self.terms):
            free_ids = self.terms.retain(np.concatenate([ids_in(self.operators), *self._waiting]))
            if len(free_ids):
                for node in self.operators:
                    node.discard_ids(free_ids)
        self._waiting.clear()


class _InstalledPart(NamedTuple):
    """The part of a leaf in the host: the ids of its constants, its number, and the places of the columns in its rows."""

    ids: dict[str, int]
    number: int
    places: tuple[int, ...]


class RunningSparql(HostedQuery):
    """A registered query in SPARQL."""

    question: SparqlQuery
    _relations: WindowedReads
    has_witnesses = False
    holds_vertices = True
    _has_aliases = False  # whether terms stand for vertices in its rows

    def __init__(self, question: SparqlQuery, resources: Resources, *, pool: OperatorPool) -> None:
        super().__init__(question, resources)
        reporting = question.parsed.reporting
        self.report_content = "changes" if reporting is None else _CONTENT[reporting]
        self.is_divided = True  # which vertices terms of its own are
        self._pool = pool
        self._terms = pool.terms
        self.term_texts = QueryTerms(self._terms)
        self._operators = pool.operators
        windows = report_windows_of(question)
        self._report_steps = None if question.report == "change" else report_steps(question.report, windows)
        """The numbers of which the times of reports are multiples, None if every event is reported."""
        self._report_clock: ReportClock | None = None
        network = self._network = self._plan()
        self.has_first_rows = bool(len(network.begin({}).net())) or self._report_clock is not None  # of no edges
        self._is_netted = not network.is_plain or any(window.kind == "count" for window in self.windows)
        self._is_netted &= not network.is_net
        self.nets_events = self._is_netted or network.is_net  # else the rows are those of one join, as of a pattern
        # Rows that expire silently must be known where operators store them, or where they may come back in the same event.
        is_joined_alone = network.is_plain and not self._is_netted and question.report == "change"
        self._is_explicit = question.semantics == "explicit" or not is_joined_alone
        """True if the kernels find rows that expire; otherwise, rows that leave were deleted."""
        self._passed_places = self._places_in_leaf(network) if is_joined_alone else None
        """The places of its columns in those of its only leaf; None if operators change rows."""
        self._names = sorted({name for _, part in self._leaves for name in part.meaning.names.union(*part.roots.values())})
        self._places = {name: place for place, name in enumerate(question.windows)}
        self._reads_every_label = any(part.reads_every_label for _, part in self._leaves)
        self._relation_reads: dict[MeaningEdge, WindowedEdge | WindowedPath] = {}
        self._from_graphs = question.default_graphs
        self._parts: dict[int, _InstalledPart] = {}
        """The parts of leaves."""
        self._label_terms = np.zeros(0, np.int32)
        """The ids of labels as terms, by the numbers of labels in the host; -1 for labels that it has not read."""
        self._start()

    # --- relations and plans ---------------------------------------------------------------------------------

    def _plan(self) -> Network:
        """Plan a network of operators that no other query has."""
        plan = plan_network(self.question.parsed, self._terms)
        self._leaves: list[tuple[LeafNode, ConjunctionPart]] = [*plan.leaves]
        network = Network(plan)
        if plan.report_time is not None:
            assert self._report_steps is not None
            self._report_clock = ReportClock(plan.report_time, self._report_steps, self._terms, self.question.unit)
        if self.question.report == "change" and self.question.hold is None:  # rows that wait are compared with other rows
            network.isolate_groups()
        return network

    def _enter(self) -> None:
        reads = [self._window_relation(edge) for _, part in self._leaves for edge in part.meaning.edges]
        default = [place for name, place in self._places.items() if name is None]
        self._relations = WindowedReads(
            self._host,
            self.question,
            self.question.readings,
            reads,
            origin=self._origin,
            static=default,
            graphs=self._from_graphs,
        )
        self._relations.enter()
        if self._report_clock is not None:
            self._host.readers_of_report_time[self.question.name] = self
        self._begin_latency()
        self.resolve()
        keys = [self._key_of_leaf(part) for _, part in self._leaves]
        self._operators.join(self._network, keys, self._leaf_changes)

    def _withdraw(self) -> None:
        for leaf in [*self._parts]:
            self._remove_part(leaf)
        self._label_terms = self._label_terms[:0]
        self._host.readers_of_report_time.pop(self.question.name, None)
        self._operators.leave(self._network)
        self._relations.leave()

    def leave(self) -> None:
        super().leave()
        self._pool.unregister_if_unused()

    def _key_of_leaf(self, part: ConjunctionPart) -> Hashable:
        """Return everything on which the changes of a leaf depend. It contains no names of variables."""
        places: dict[str, int] = {}

        def place_of(term: str | NamedVertex) -> int | NamedVertex:
            return term if isinstance(term, NamedVertex) else places.setdefault(term, len(places))

        atoms = tuple(
            (place_of(edge[0]), self._relations.relation(self._window_relation(edge)), place_of(edge[2]))
            for edge in part.meaning.edges
        )
        columns = tuple(places[name] for name in part.select)
        compared = tuple(one.renamed(lambda name: str(places[name])) for one in part.comparisons)
        has_label = part.label_column is not None
        return atoms, columns, compared, has_label, self._report_steps, self._is_explicit

    def _window_relation(self, edge: MeaningEdge) -> WindowedEdge | WindowedPath:
        """Return the relation that an atom, an edge of a meaning, requires."""
        if edge not in self._relation_reads:
            self._relation_reads[edge] = self._read_relation(edge)
        return self._relation_reads[edge]

    def _read_relation(self, edge: MeaningEdge) -> WindowedEdge | WindowedPath:
        _, read, _ = edge
        assert isinstance(read, RelationRead)  # the planner makes meanings of these
        place = self._places.get(read.window)  # None: the static edges alone
        graph = self._named_graph(read.window)
        if isinstance(read.of, PathRead):
            return WindowedPath(read.of.expression, place, self._need(read.of.roots, read.window), graph)
        label = None if isinstance(read.of, EveryLabel) else read.of
        return WindowedEdge(label, place, graph)

    def _named_graph(self, window: str | None) -> str | None:
        """Return the named graph of static edges that an atom reads; None if it reads a window, or the default graph."""
        return None if window in self._places else window

    def _need(self, roots: Roots, window: str | None) -> Need | None:
        if roots is None:
            return None
        if not isinstance(roots, Neighbours):
            return Need(roots)
        is_simple = self.question.paths == "simple"
        place = self._places.get(window)
        if place is None:
            stream, graphs = static_content(self._named_graph(window), self._from_graphs)
            content = RelationKey(roots.label, UnboundedWindow(), None, self._origin, is_simple, stream, graphs=graphs)
            return Need(roots.names, content, roots.inward)
        reading = self.question.readings[place]
        counted_labels = reading.labels if reading.window.kind == "count" else None
        without_static = self._places.get(None) != place
        content = RelationKey(
            roots.label,
            reading.window,
            counted_labels,
            self._origin,
            is_simple,
            reading.stream,
            without_static,
            graphs=None if without_static else self._from_graphs,
        )
        return Need(roots.names, content, roots.inward)

    def leave_changed(self) -> None:
        """Do nothing: parts know their constants as vertices, so changes of other queries do not affect them."""

    def resolve(self, *, new_names: Container[str] = ()) -> None:
        """Install the plans of parts whose constants are all vertices now. Remove the plans of other parts.

        A part has no rows if one of its constants has no id, or another one than before: the vertex had no edge left.
        """
        for leaf, (_, part) in enumerate(self._leaves):
            ids = {name: self._host.constants.id_of(name) for name in part.meaning.names}
            id_of_name = {name: identity for name, identity in ids.items() if identity is not None}
            if leaf in self._parts and self._parts[leaf].ids != id_of_name:
                self._remove_part(leaf)
            if leaf not in self._parts and len(id_of_name) == len(ids):
                self._install_part(leaf, part, id_of_name)

    def _install_part(self, leaf: int, part: ConjunctionPart, ids: Mapping[str, int]) -> None:
        def relation_of(edge: MeaningEdge) -> int:
            return self._relations.relation(self._window_relation(edge))

        atoms = part.meaning.atoms(relation_of, ids.__getitem__)
        (shaped,) = shaped_parts(atoms, part.select, isomorphism=False, comparisons=part.comparisons)
        if part.label_column is not None:
            shaped = with_label(shaped, variable(part.label_column))
        number = self._host.add_part(
            shaped.part, explicit=self._is_explicit, is_reported=False, constants=shaped.constants
        )
        self._host.join_part(number, self.question.name, PartPlace(leaf, 0))
        places = tuple(shaped.columns.index(variable(name)) for name in part.leaf_columns)
        self._parts[leaf] = _InstalledPart(dict(ids), number, places)

    def _remove_part(self, leaf: int) -> None:
        number = self._parts.pop(leaf).number
        self._host.leave_part(number, self.question.name, PartPlace(leaf, 0))
        self._host.release_part(number)

    # --- labels and edges ------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Ignore labels, which the host receives."""

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return self._relations.reads(labels)

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        if self._graph is None and len(new_ids):  # it started in mid-stream, and its host knows these vertices already
            self._host.look_up(vertices, self._names)
            self.resolve()
        self._graph = graph
        self.vertex_room = self._host.vertex_room
        self._pool.add_vertices(vertices, new_ids)
        self._network.discard_ids(new_ids)

    def retained_vertices(self) -> np.ndarray:
        self._pool.release()
        return self._terms.pinned_vertices()

    def retain(self, waiting: np.ndarray) -> None:
        labels = self._label_terms[self._label_terms >= 0]
        self._pool.retain(np.concatenate([waiting, labels]) if len(labels) else waiting)

    def count_from(self, numbers: Sequence[int]) -> None:
        self._relations.count_from(numbers)

    def load_static(self, chunk: Chunk) -> None:
        self._relations.load_static(chunk)

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        self._host.advance(time)
        self._host.invalidate_sizes()
        if self._report_clock is not None:
            self._report_clock.set(time)
        if chunk is not None:
            self._relations.fill(chunk, slides, quiet=quiet)
        answer = self._begin()
        if quiet:
            return []
        return [self._to_delta(answer, np.array([1]), np.array([time]))]

    def _begin(self) -> WeightedRows:
        """Initialize the network from the current relations and return the answer."""
        leaves, now = self._network.leaves, self._current_leaves()
        return self._network.begin({id(leaves[leaf]): rows for leaf, rows in now.items()}).net()

    def _current_leaves(self) -> dict[int, WeightedRows]:
        """Return the current rows of the leaves by number. O(edges), plus the cost of joining them."""
        found: dict[int, WeightedRows] = {}
        for leaf, (_, number, places) in self._parts.items():
            rows = WeightedRows.insertion_of(self._host.rows_of_part(number, len(places)))
            found[leaf] = self._rows_of_leaf(rows, places, has_label=self._has_label(leaf))
        return dict(sorted(found.items()))

    # --- results ---------------------------------------------------------------------------------------------

    def _has_label(self, leaf: int) -> bool:
        """Return whether the last column of a leaf has labels."""
        return self._leaves[leaf][1].label_column is not None

    def _rows_of_leaf(self, rows: WeightedRows, places: Sequence[int], *, has_label: bool) -> WeightedRows:
        """Return changes of a part as changes of a leaf, whose columns are at these places."""
        rows = rows.select_columns(places)
        if not has_label:
            return rows.with_rows(self._terms.replace_aliases(rows.rows))
        values = np.empty(rows.rows.shape, np.int32)
        values[:, :-1] = self._terms.replace_aliases(rows.rows[:, :-1])
        values[:, -1] = self._terms_of_labels(rows.rows[:, -1])
        return rows.with_rows(values)

    def _terms_of_labels(self, numbers: np.ndarray) -> np.ndarray:
        """Return the ids of labels as terms, by the numbers of labels in the host. O(numbers)."""
        count = int(numbers.max(initial=-1)) + 1
        if count > len(self._label_terms):
            more = np.full(max(count, 2 * len(self._label_terms)) - len(self._label_terms), UNBOUND, np.int32)
            self._label_terms = np.concatenate([self._label_terms, more])
        found = self._label_terms[numbers]
        if (found == UNBOUND).any():
            for number in np.unique(numbers[found == UNBOUND]).tolist():
                self._label_terms[number] = self._terms.intern(self._host.relations.label_of(number))
            found = self._label_terms[numbers]
        return found

    def _leaf_changes(self, changed: Mapping[int, Delta]) -> LeafChanges:
        """Return the changes of the leaves among those of all parts, by their numbers."""
        leaves = self._network.leaves
        parts = ((leaf, changed.get(number), places) for leaf, (_, number, places) in self._parts.items())
        return {
            id(leaves[leaf]): LeafChange(delta, places, self._has_label(leaf))
            for leaf, delta, places in parts
            if delta is not None
        }

    def _bags(self, changes: LeafChanges) -> tuple[dict[int, WeightedRows], np.ndarray]:
        """Return changes of leaves as bags, and the (order, time) of the events in them."""
        events, of_parts = as_changes([one.delta for one in changes.values()], first=self._host.first)
        leaves = {
            leaf: self._rows_of_leaf(rows, one.places, has_label=one.has_label)
            for (leaf, one), rows in zip(changes.items(), of_parts, strict=True)
        }
        return (leaves, events) if self._report_steps is None else self._net_by_report(leaves, events, self._report_steps)

    def delta(self, parts: dict[PartPlace, Delta], changed: Mapping[int, Delta]) -> Delta:
        """Return the changes of the answer that changes of leaves cause."""
        if self._report_clock is not None:
            leaves, events = self._bags(self._leaf_changes(changed))
            return self._to_delta(*self._change_with_time(self._report_clock, leaves, events[:, 1]))
        connected = self._operators.connected_networks(self._network)
        if self._passed_places is not None and self._host.first is None and len(connected) == 1:
            return self._delta_of_leaf(self._passed_places, changed)
        if len(connected) > 1:
            change, events = connected.change(self._network, changed, self._bags)
        else:
            leaves, events = self._bags(self._leaf_changes(changed))
            change = self._network.change(leaves)
        if self._is_netted:
            change = change.net()
        return self._to_delta(change, events[:, 0], events[:, 1])

    def _places_in_leaf(self, network: Network) -> list[int] | None:
        """Return the places of the columns of the answer in the only leaf, or None if the network does more than select
        them."""
        if not self._host.is_whole or any(part.label_column is not None for _, part in self._leaves):
            return None
        way: list[ProjectNode] = []
        node = network.top
        while isinstance(node, ProjectNode):
            way.append(node)
            (node,) = node.inputs
        if not isinstance(node, LeafNode):
            return None
        places = [*range(node.width)]
        for one in reversed(way):
            places = [places[place] if place >= 0 else UNBOUND for place in one.places]
        return None if UNBOUND in places else places

    def _delta_of_leaf(self, places: Sequence[int], changed: Mapping[int, Delta]) -> Delta:
        """Return the changes of the only leaf as those of the answer, without running the operators."""
        ((_, number, of_leaf),) = self._parts.values()
        delta = changed[number]
        values, order = delta.ids
        at = [order[of_leaf[place]] for place in places]
        rows = values if at == [*range(values.shape[1])] else values.take(at, axis=1)
        rows = self._terms.replace_aliases(rows)
        passed = Delta(
            ids=ids_of_columns(rows),
            times=delta.times,
            ends=delta.ends,
            kinds=delta.kinds,
            orders=delta.orders,
            is_lasting=True,
        )
        return self._count_rows(passed)

    def _change_with_time(
        self, clock: ReportClock, leaves: dict[int, WeightedRows], event_times: np.ndarray
    ) -> tuple[WeightedRows, np.ndarray, np.ndarray]:
        """Return the change of the answer, with an event for each report that has begun, and the orders and times of these.

        The changes of leaves are net by report. All changes of a report, those of leaves and that of its time, are one
        event.
        """
        times = np.maximum.accumulate(self._host.chunk_times)
        of_leaves = report_times(event_times, clock.steps)
        changes, dues = [WeightedRows.empty(self._network.output.width)], [np.zeros(0, np.int64)]
        before = 0
        latest = int(of_leaves[-1]) if len(of_leaves) else -(2**63)
        for passed in clock.advance_to(int(times[-1]) if len(times) else None, latest):
            end = before + int(np.searchsorted(of_leaves[before:], passed.end))
            due = np.union1d(of_leaves[before:end], passed.times)
            number = np.searchsorted(due, of_leaves[before:end])
            now = {}
            for leaf, rows in leaves.items():
                mine = rows.select((rows.events >= before) & (rows.events < end))
                now[leaf] = WeightedRows(mine.rows, mine.weights, number[mine.events - before])
            moved = clock.node.change_at_reports(passed.ids)
            places = np.searchsorted(due, passed.times)
            now[id(clock.node)] = WeightedRows(moved.rows, moved.weights, places[moved.events])
            change = self._network.change(now).net()
            done = sum(map(len, dues))
            changes.append(WeightedRows(change.rows, change.weights, change.events + done))
            dues.append(due)
            before = end
        all_due = np.concatenate(dues)
        orders = np.minimum(2 * np.searchsorted(times, all_due, "right"), max(2 * len(times) - 1, 0))
        return concatenate(changes), orders, all_due

    def _net_by_report(
        self, leaves: dict[int, WeightedRows], events: np.ndarray, steps: Sequence[int]
    ) -> tuple[dict[int, WeightedRows], np.ndarray]:
        """Return net changes of leaves with one event for each report, because changes within a report are not visible."""
        due = report_times(events[:, 1], steps)
        is_last = np.append(due[1:] != due[:-1], True) if len(due) else np.zeros(0, bool)
        number = np.cumsum(is_last) - is_last
        merged = {leaf: WeightedRows(rows.rows, rows.weights, number[rows.events]).net() for leaf, rows in leaves.items()}
        return merged, events[is_last]

    def _to_delta(self, change: WeightedRows, orders: np.ndarray, times: np.ndarray) -> Delta:
        """Return net changes of the answer as a delta; `orders` and `times` are those of events."""
        if self.question.semantics == "implicit" and self._is_explicit:
            change = change.select((change.weights > 0) | ~self._host.is_silent(orders)[change.events])
        if not self._host.is_whole:
            change = change.select(self._are_own(change.rows))
        return self._count_rows(change.delta(orders, times))

    def _are_own(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows belong to this share: those of its cell. Rows with a value that is no vertex belong to the first
        share."""
        is_first = np.full(len(rows), self._is_first_share)
        if self._cell is None:
            return is_first
        ids = rows[:, [one.column for one in self._cell]]
        if self._reads_every_label or self._has_aliases:
            ids = self._as_vertices(ids)
        are_vertices = ((ids >= 0) & (ids < FIRST)).all(axis=1)
        cell = tuple(one._replace(column=place) for place, one in enumerate(self._cell))
        is_first[are_vertices] = self._host.are_own(ids[are_vertices], cell)  # none of them may be known yet
        return is_first

    def _as_vertices(self, ids: np.ndarray) -> np.ndarray:
        """Return ids in which terms are replaced by the vertices with their texts, -1 where there are none.

        A vertex may have the id of a term with its text in one share, and one of its own in another.
        """
        vertices = self._terms.vertices
        for term in np.unique(ids[ids >= FIRST]).tolist():
            text = self._terms.text(term)
            assert text is not None and vertices is not None
            ids = np.where(ids == term, vertices.id_of(as_vertex(text, vertices.kind)), ids)
        return ids

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        return self._relations.slides(edges)

    def answers(self) -> list[IdRows]:
        return [ids_of_columns(np.ascontiguousarray(self._answer(), np.int32))]

    def _answer(self) -> np.ndarray:
        """Compute the answer, (row, column), by a second network. Each row occurs as often as in the bag."""
        if self._graph is None or self._graph.time is None:
            # rows that exist without edges are output with the first tuple
            return np.zeros((0, len(self.question.columns)), np.int32)
        twin = plan_network(self.question.parsed, self._terms)
        if twin.report_time is not None and self._report_clock is not None:
            twin.report_time.set(self._report_clock.id)
        now = self._current_leaves()
        assert self._terms.vertices is not None
        with self._terms.vertices.edges.recomputation():
            answer = Network(twin).begin({id(twin.leaves[leaf][0]): rows for leaf, rows in now.items()}).net()
        if not self._host.is_whole:
            answer = answer.select(self._are_own(answer.rows))
        return np.repeat(answer.rows, answer.weights, axis=0)

    def explain(self) -> SparqlExplanation:
        return explain_query(
            self.question.original,
            self._network.describe(),
            self._host.accepted_edges,
            shared=self._operators.describe_sharing(self._network),
        )

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        return np.array([self._terms.intern(text) for text in texts], np.int32)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes, without those of the host and with its part of shared operators."""
        operators = sum(node.nbytes // self._operators.users(node) for node in self._network.steps)
        return self._terms.nbytes // max(len(self._operators), 1) + operators

    def operator_sizes(self) -> list[tuple[str, int, int]]:
        """Return (description, entries, bytes) of each operator that stores something."""
        return self._network.operator_sizes()

    def figures(self) -> Figures:
        cells = self._relations.cells + self._network.entries
        return self._figures(answers=len(self._answer()), edges=self._relations.edges_live, cells=cells)

    def _check(self) -> None:
        """Assert that the network stores the right rows. O(answers)."""
        self._network._check()
        self._operators._check()


def start_sparql(
    question: SparqlQuery, resources: Resources, running: Callable[..., RunningSparql] = RunningSparql
) -> RunningSparql:
    """Start a query; `running` is its class."""
    is_private = question.reads_report_time or any(one.predicate is not None for one in atoms_of(question.parsed.body))
    pool = OperatorPool.pool_for(resources, is_private=is_private)
    try:
        return running(question, resources, pool=pool)
    finally:
        pool.unregister_if_unused()  # if starting failed


def describe_query(query: SparqlQuery) -> dict[str, Any]:
    """Return a query as JSON values: its original windows, and the unit to which they were converted."""
    original = query.original
    window = window_json(original.window) if original.has_default else None
    if window is not None and isinstance(original.window, Window) and original.window.unit is not None:
        window["unit"] = "ns"
    dataset = {"dataset": list(query.parsed.dataset)} if query.reads_dataset else {}
    return content_of(query) | {"window": window} | dataset


def _read_window(content: JsonValue) -> AnyWindow | None:
    """Return the original default window in JSON values, or None if there is none. Raises `Damage`."""
    if content.is_none:
        return None
    if "unit" in content:
        return Window(size=content["size"].integer(1, INT64_MAX), slide=content["slide"].integer(1, INT64_MAX), unit="ns")
    return read_window(content)


def read_query(content: JsonValue, kind: type[AnySparqlQuery]) -> AnySparqlQuery:
    """Return the query of a kind that JSON values describe. Raises `Damage`."""
    query = read_content(content, kind, window_of=_read_window)
    return query.over_dataset([name.unicode() for name in content["dataset"]]) if "dataset" in content else query


KIND = QueryKind(
    name="sparql",
    question=SparqlQuery,
    start=start_sparql,
    to_json=describe_query,
    read=partial(read_query, kind=SparqlQuery),
    host=PatternHost,
)
