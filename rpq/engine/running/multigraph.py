"""Edges with an identity and with properties, as edges with derived labels.

The snapshot graph and the queries know edges by source, label and target, and nothing of properties. `Multigraph` prepares
tuples for them: from each tuple it makes the inserts and deletes of its derived labels (`ConditionLabel`), which are one
event, and of its own label where a query reads that without a condition. For them a derived label is like any other label.

`EdgeTable` has the current version of each edge.

- With `triple` an insert replaces the edge that the longest window holds, unless it is older: the derived labels that only
  the version before had are deleted.
- With `parallel` each insert is an edge of its own. A derived label has an edge between two vertices as long as some of the
  parallel edges that satisfy its condition lasts: inserts alone, whose largest timestamp counts. A delete removes them all.
- With `id` an insert replaces the edge with its id, whatever the ends and labels of the two. Several edges with equal ends
  may have a label, and when one is removed those that are left have it still.

Over a count window, and over any window where edges hide the static edges of their identity, what the window has is decided
before the graph (`WindowEdges`), and queries see an unbounded one. Paths in time order number the inserts of their
count windows themselves where each insert is an edge of its own and there are no conditions, and `ParallelEdges` knows when
each edge leaves.

An edge that edge variables may bind is a vertex of its own too, with links to its ends (`edge_vertex_links`).

`edge_readings` knows what queries read, `condition_sets` evaluates conditions, `derived_edges` makes the inserts and
deletes, and `outcome_counts` counts tuples: as they came, by label, whatever the conditions, one each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.views import view
from rpq.engine.running.condition_sets import ConditionSets, misfit
from rpq.engine.running.derived_edges import DerivedChunk, chunk_of_operations
from rpq.engine.running.edge_readings import EdgeReadings
from rpq.engine.running.edge_vertex_links import EdgeVertexLinks, TupleEdges, effects_of
from rpq.engine.running.node_edges import HAS_RECORD, NodeEdges, ParallelKeys, ParallelRows, kind_of_fact
from rpq.engine.running.outcome_counts import NamedTuples, OutcomeCounts, lower_bound, lower_bounds
from rpq.engine.running.retention import count_key
from rpq.errors import InputError, QueryError, WhereError
from rpq.language.conditions import node_test_of
from rpq.language.edge_variables import Value
from rpq.language.predicate import ColumnKind, Predicate
from rpq.language.protocol import Question
from rpq.language.readings import Identity, LabelSet, Reading, has_counted_window, is_ordered, without_tests_of
from rpq.stream.arrays.plain_columns import is_utf8
from rpq.stream.arrays.properties import PropertyTypes
from rpq.stream.chunk import Chunk, SingleTuple
from rpq.stream.columns import EdgeIds
from rpq.stream.edges.edge_store import TIMELESS
from rpq.stream.edges.edge_table import ABSENT_VERSION, EdgeTable, Operations, PriorEdges
from rpq.stream.edges.edge_values import EdgeValues, ValuesOf, values_at
from rpq.stream.edges.parallel_edges import ContentTracker, ParallelColumns, ParallelEdges, edge_numbers
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.edges.static_edges import StaticEdges
from rpq.stream.edges.window_edges import HidingEdge, Link, StaticEdge, Steps, WindowEdges
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import ConditionLabel, EdgeEnd, LabelName, NodeLabel, NodeTest, StepTests
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.nodes.node_table import NodeRecords, NodeTable
from rpq.stream.stream_time import StreamTime
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, UnboundedWindow, Window


class _Tuples(NamedTuple):
    """Tuples, and the facts about them before they are applied to edges."""

    chunk: Chunk
    view: Any
    derived_set: np.ndarray
    """int32: the number of the set of derived labels that each has."""
    properties: Mapping[str, pa.Array]
    timestamp: np.ndarray
    """The times that conditions see."""
    bound: np.ndarray
    """The timestamps up to which edges have left every window."""


class Multigraph:
    """The derived edges of a stream, and counts of its tuples.

    `admit` registers new label ids with the queries; `is_read` returns whether any query reads label ids, derived ones too.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        labels: LabelDictionary,
        vertices: VertexDictionary,
        admit: Callable[[np.ndarray], None],
        is_read: Callable[[np.ndarray], np.ndarray],
        capacity: int,
        nodes: NodeTable,
        keeps_values: bool = False,
        kept_properties: frozenset[str] = frozenset(),
    ) -> None:
        self.identity: Identity = identity
        self.sets = ConditionSets(ids_of=self._ids_of, count_non_numeric=vertices.edges.count_non_numeric)
        self.outcome_counts = OutcomeCounts(labels, keeps_all=identity == "parallel")
        self.table = EdgeTable(identity, capacity=capacity)
        """The versions of edges."""
        self.window_edges: WindowEdges | None = None
        """The window over which all queries read, if that is a count window or edges hide static edges."""
        self.hides = False
        """True if edges of the window hide the static edges of their identity."""
        self.keep_window: Window | UnboundedWindow | None = None
        """The window whose edges are all stored, if there is one."""
        self.inserts = 0
        """The number of well-formed inserts so far, whatever their outcome."""
        self.parallel: ParallelEdges | None = None
        """All edges that queries about paths in time order read; None without such a query, or if versions are all edges."""
        self.kept_properties = kept_properties
        """The properties that are stored for conditions which no query has."""
        self.witness_values: EdgeValues | None = EdgeValues() if keeps_values or kept_properties else None
        """The values of edges by source, label in the graph and target, or by id; None where neither witnesses nor
        `kept_properties` need them."""
        self.statics = StaticEdges()
        """The static edges one by one."""
        self._links = EdgeVertexLinks(vertices=vertices, labels=labels, sets=self.sets, ids_of=self._ids_of)
        self.node_edges = NodeEdges(nodes, vertices=vertices, labels=labels, ids_of=self._ids_of)
        """The edges that follow from facts of nodes."""
        self._nodes = nodes
        self._vertices = vertices
        self._vertices.edges.names = self.edge_names
        self._vertices.edges.label_names = labels.names
        self._vertices.edges.by_number = identity == "id"
        self._vertices.edges.have_identities = identity != "triple"
        self._labels = labels
        self._admit = admit
        self._is_read = is_read
        self.readings = EdgeReadings(labels)
        """The queries and their readings."""
        self._tracker_keys: dict[str, Hashable] = {}
        """The keys of trackers, by the queries about paths in time order whose content does not follow from timestamps."""
        self._capacity = capacity
        self._sets_after_collect = 1024

    @property
    def edge_names(self) -> VertexDictionary | None:
        """The ids of edges; None where edges have none."""
        return self.table.names if self.identity == "id" else None

    def _ids_of(self, names: Sequence[ConditionLabel]) -> list[int]:
        """Return the ids of derived labels, new ones for those that have none."""
        id_of_label = self._labels.ids
        if new := [self._labels.add(name) for name in names if name not in id_of_label]:
            self._admit(np.array(new))
        return [id_of_label[name] for name in names]

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of all queries."""
        return self.readings.conditions | self._links.conditions

    @property
    def _values_of_vertices(self) -> frozenset[str]:
        """The properties whose values are stored for edges that are vertices, including those that witnesses show."""
        return self.readings.values if self.witness_values is None else self.sets.properties

    @property
    def tests_nodes(self) -> bool:
        """True if a path expression of a query has tests of nodes."""
        return any(reading.labels.has_tests for reading in self.readings.all)

    def underived_labels(self, labels: LabelSet) -> list[ConditionLabel]:
        """Return the labels with conditions in a set that are not derived from tuples at present."""
        if labels.conditions:
            of_edges = {StepTests.of(condition).edge for condition in labels.conditions} - {""}
            return [] if self.readings.reads_open(labels) else [ConditionLabel(None, one) for one in sorted(of_edges)]
        conditions = [label for label in labels.without_tests if isinstance(label, ConditionLabel)]
        named = [label for label in conditions if not isinstance(label, NodeLabel)]
        return [
            label
            for label in named
            if label not in self._links.ends and label.condition not in self.readings.conditions_on(label.label or "")
        ]

    def add(
        self, questions: Iterable[Question], readings: Mapping[str, tuple[Reading, ...]], *, is_late: bool = False
    ) -> None:
        """Add queries, each with its readings over its windows. `is_late` is true if they begin empty in mid-stream.

        Raises `QueryError` for a condition that does not fit the properties.
        """
        questions = [*questions]
        self.readings.add(questions, readings)
        try:
            self._set_conditions()
        except (WhereError, QueryError) as error:
            self.readings.remove(readings)
            self._set_conditions()
            if isinstance(error, QueryError):
                raise
            raise QueryError(misfit(error, self.sets.types)) from error
        for question in questions:
            reading, *more = readings[question.name]
            is_counted = has_counted_window(question, reading, self.identity)
            if self.window_edges is None and (is_counted or self.hides):
                self._begin_window(reading.window)
            if is_counted:
                reading = reading._replace(window=UnboundedWindow())
            self.outcome_counts.add(question.name, reading, *more, is_late=is_late)
        if self.identity == "parallel" and self.window_edges is None:
            if self.parallel is None and self.readings.ordered_questions:
                self.parallel = ParallelEdges(capacity=self._capacity)
            for question in filter(is_ordered, questions):
                self._track(question.name, readings[question.name][0], is_late=is_late)

    def _track(self, name: str, reading: Reading, *, is_late: bool) -> None:
        """Track the content of a query about paths in time order unless it follows from timestamps."""
        assert self.parallel is not None
        if not (is_late or isinstance(reading.window, CountWindow)):
            return
        key = self._tracker_keys[name] = count_key(reading, name if is_late else None)
        if key not in self.parallel.trackers:
            labels, readings = reading.labels, self.readings
            is_read = readings.counted_labels if isinstance(reading.window, CountWindow) else readings.read_labels
            self.parallel.track(key, ContentTracker(reading.window, partial(is_read, labels)))

    def tracker_of(self, name: str) -> Hashable | None:
        """Return the key of the tracker of a query, None where its content follows from timestamps."""
        return self._tracker_keys.get(name)

    def tracks(self, key: Hashable) -> bool:
        """Return whether parallel edges have the slides at which they leave a content."""
        return self.parallel is not None and key in self.parallel.trackers

    def parallel_columns(self, graph: SnapshotGraph, *, all_labels: bool = False) -> ParallelColumns:
        """Return the edges that queries about paths in time order read, one by one, or all that are stored in this way.

        O(edges · log edges).
        """
        if not (all_labels or self.readings.ordered_questions):
            return ParallelColumns.none()
        bound = self.lower_bound(graph.time)
        if self.parallel is not None:
            return self.parallel.columns(bound, self._timed_labels())
        source, label, target, timestamp, derived_set = self.table.columns(self.table.live(bound))
        names, links = self._labels.names, graph.live_edges()
        links = links[np.array([isinstance(name, EdgeEnd) for name in names] or [False])[graph.edges.label[links]]]
        derived = [self.sets.labels_of(number) for number in derived_set.tolist()]
        row = np.append(np.arange(len(label)), np.repeat(np.arange(len(label)), [len(one) for one in derived]))
        labels = np.append(label, np.array([number for one in derived for number in one], np.int32))
        made = Operations(source[row], labels, target[row], timestamp[row], np.zeros(len(row), np.uint8), row)
        *versions, _, _ = self.node_edges.extend_tested(made)
        is_read = np.full(len(versions[1]), True) if all_labels else self.readings.ordered_labels()[versions[1]] != 0
        edges = graph.edges
        of_links = edges.source[links], edges.label[links], edges.target[links], edges.timestamp[links]
        columns = (np.append(one[is_read], other) for one, other in zip(versions, of_links, strict=True))
        source, label, target, timestamp = columns
        return ParallelColumns(source, label, target, timestamp, {})

    def _timed_labels(self) -> np.ndarray:
        """Return which label ids queries about paths in time order read over windows of time, or unbounded ones (uint8)."""
        readings = (self.readings[question.name][0] for question in self.readings.ordered_questions)
        labels = {one.labels for one in readings if not isinstance(one.window, CountWindow)}
        return self.readings.flags_of("timed", lambda name: any(one.has(name) or one.is_tested(name) for one in labels))

    def running_form(self, question: Any) -> Any:
        """Return a query with the window over which it runs: an unbounded one where its window is decided here."""
        return question if self.window_edges is None else question.over(UnboundedWindow())

    def retained_form(self, question: Any) -> Any:
        """Return a query with the window that determines which edges it needs: inserts that count are never made up for."""
        is_count = self.window_edges is not None and self.window_edges.counts
        return question.over(UnboundedWindow()) if is_count else question

    def _begin_window(self, window: AnyWindow) -> None:
        """Decide a window before the graph. Each edge then has a number in the table, as if that was its id."""
        self.window_edges = WindowEdges(window, keeps_all=self.identity == "id")
        if self.identity != "id":
            self.table = EdgeTable("id", capacity=self._capacity)
        self._vertices.edges.by_number = True

    def hides_statics(self, labels: Iterable[str], *, have_ids: bool = False) -> bool:
        """Return whether edges of the window may hide static edges with some labels from a query.

        With `triple` the two differ under conditions and for edge variables alone, with `id` where static edges have ids.
        """
        if self.identity != "triple":
            return have_ids
        return any(self.readings.conditions_on(label) or self._links.walk(label) for label in labels)

    @property
    def hides_known_statics(self) -> bool:
        """True if edges of the window may hide static edges that were loaded from a query."""
        names = self._labels.names
        labels = {str(names[label]) for label in np.unique(self.statics.label).tolist()}
        return self.hides_statics(labels, have_ids=bool((self.statics.edge >= 0).any()))

    @property
    def has_ordered_counts(self) -> bool:
        """True if a query about paths in time order has a count window."""
        return self.outcome_counts.has_count_windows

    def remove(self, names: Iterable[str]) -> None:
        """Remove queries."""
        names = [*names]
        self.readings.remove(names)
        for name in names:
            self.outcome_counts.remove(name)
            if (key := self._tracker_keys.pop(name, None)) is not None and key not in self._tracker_keys.values():
                assert self.parallel is not None
                self.parallel.untrack(key)
        self._set_conditions()
        self._vertices.edges.keep_properties(self._values_of_vertices | {f"@{name}" for name in self.node_edges.values})
        if not self.readings.ordered_questions:
            self.parallel = None
        if not self.readings and self.window_edges is not None:
            self.window_edges = None
            if self.identity == "id":  # whose numbers static edges have
                self.table.clear()
            else:
                self.table = EdgeTable(self.identity, capacity=self._capacity)
                self._vertices.edges.by_number = False

    def _set_conditions(self) -> None:
        readings = self.readings
        self._links.set_ends(readings.ends)
        self.sets.set_conditions(
            self.conditions,
            readings.conditions_on,
            filters=readings.filters,
            values=readings.values | self.kept_properties,
        )
        try:
            self.node_edges.set_readings(readings.facts, readings.with_tests, readings.tests_on)
        except WhereError as error:
            raise QueryError(_misfit_of_nodes(error, self._nodes.types)) from error
        self._check_node_types(self._nodes.types)
        self.note_types()

    def keeps_parallel(self, labels: LabelSet) -> bool:
        """Return whether all edges with some labels are in `parallel`, as queries over windows of time need them too."""
        label_sets = [one.label_set for one in self.readings.ordered_questions if one.name not in self._tracker_keys]
        if labels in label_sets or labels.has_others:
            return labels in label_sets
        return all(any(one.has(label) or one.is_tested(label) for one in label_sets) for label in labels.without_tests)

    # --- properties ------------------------------------------------------------------------------------------

    def read_properties(
        self, data: Any, *, count: int, times: StreamTime, problems: list[InputError]
    ) -> Mapping[str, pa.Array]:
        """Return the columns of properties that conditions need and data has. Raises `InputError`."""
        columns = self.sets.read(data, count=count, time_unit=_unit_of(times), problems=problems)
        self.note_types()
        return columns

    def read_static_properties(
        self, data: Any, *, count: int, times: StreamTime, problems: list[InputError]
    ) -> Mapping[str, pa.Array]:
        """Return the columns of properties that queries need and static edges have. Raises `InputError`."""
        more = self.statics.read_properties or ()
        columns = self.sets.read(data, count=count, problems=problems, is_timed=False, more=more)
        self.note_types()
        return columns

    def check_node_types(self, types: PropertyTypes) -> None:
        """Raise `InputError` for types of properties of nodes that do not fit a test or a filter."""
        try:
            self._check_node_types(types)
        except QueryError as error:
            raise InputError(str(error)) from error

    def _check_node_types(self, types: PropertyTypes) -> None:
        """Raise `QueryError` for types of properties of nodes that do not fit a test or a filter."""
        try:
            self.node_edges.check_types(types)
        except WhereError as error:
            raise QueryError(_misfit_of_nodes(error, types)) from error

        if not self.node_edges.values:
            return

        def kind_of(value: Value) -> ColumnKind:
            if value.kind != "fact":
                return self.sets.kind_of(value.key or "timestamp", self.sets.types, key=value.column)
            return replace(kind_of_fact(value.name, types, self._vertices.kind), key=value.column)

        for one in self.readings.filters.values():
            facts = [value.name for value in one.values if value.kind == "fact"]
            if not facts:
                continue
            try:
                Predicate(one.where, one.column_kinds(kind_of))
            except WhereError as error:
                of_types = ", ".join(f"{name!r} is of type {kind}" for name, kind in types.names.items() if name in facts)
                raise QueryError(f"the filter {one.text} does not fit the nodes: {error.message}; {of_types}") from error

    def note_types(self) -> None:
        """Set the types of properties and of timestamps of edges that are vertices."""
        types, read = self.sets.types, self.node_edges.values
        if read:
            of_nodes = {f"@{name}": self.node_edges.type_of(name) for name in read if self.node_edges.has_type(name)}
            loose = {f"@{name}" for name in read if name in self._nodes.types.loose}
            types = PropertyTypes(types.by_name | of_nodes, types.loose | loose)
        self._vertices.edges.types, self._vertices.edges.unit = types, self.sets.time_unit

    def reads(self, label: np.ndarray) -> np.ndarray:
        """Return whether any query reads label ids, plain or with a condition, or the engine keeps them (uint8)."""
        are_read: np.ndarray = self.outcome_counts.reads(label) | self._is_read(label)
        return are_read

    @property
    def edge_ids(self) -> EdgeIds | None:
        """The kind of the ids of edges; None where they have none."""
        return None if self.edge_names is None else EdgeIds(self.edge_names.kind)

    # --- labels ----------------------------------------------------------------------------------------------

    def edges_per_label(self, edges: np.ndarray) -> np.ndarray:
        """Return the number of edges with each label, including versions and derived labels, so that no used label is
        forgotten."""
        versions = np.bincount(self.table.ends()[1], minlength=len(edges))
        found: np.ndarray = np.add(edges, versions.astype(edges.dtype))
        found[self.sets.ids()] += 1
        found[self.statics.label] += 1
        ids = self._labels.ids
        found[[ids[end] for end in self._links.ends if end in ids]] += 1
        found[self.node_edges.labels()] += 1
        return found

    def forget_labels(self) -> None:
        """Note that label ids may have other names now."""
        self._links.forget_labels()
        self.node_edges.forget_labels()
        self.outcome_counts.forget_labels()
        self.readings.forget_labels()

    # --- the stream ------------------------------------------------------------------------------------------

    def derive(
        self,
        chunk: Chunk,
        tuples: Any,
        properties: Mapping[str, pa.Array],
        time: int | None,
        *,
        timestamp: np.ndarray,
        edge: pa.Array | None = None,
        in_streams: np.ndarray | None = None,
    ) -> DerivedChunk:
        """Return the tuples of a chunk, with its view, as edges with derived labels; `time` is the stream time before them.

        `properties` are columns of as many rows, `timestamp` the times that conditions see, and `edge` the ids of edges
        where they have one. `in_streams` are the ids of labels in named streams that queries read there, -1 for other
        tuples; these tuples become edges with their own labels, too. O(tuples + edges).
        """
        now = np.maximum.accumulate(chunk.timestamp)
        now = now if time is None else np.maximum(now, time)
        derived_set = self.sets.sets_of(chunk.label, self._labels.names, properties, timestamp)
        number = self._numbers(chunk, edge)
        if self.window_edges is not None:
            mine, keys, known_by = self._window_numbers(chunk, number)
            is_read = self.outcome_counts.reads(chunk.label)
            steps = self.window_edges.steps(chunk, now, edge=mine, keys=keys, number=known_by, is_read=is_read)
            sets, times = derived_set[steps.row], timestamp[steps.row]
            if self.sets.properties:
                properties = {name: column.take(pa.array(steps.row)) for name, column in properties.items()}
            derived = self._derive_steps(chunk, tuples, now, steps, derived_set=sets, properties=properties, timestamp=times)
        else:
            bounds = {window: lower_bounds(window, now) for window in {*self.outcome_counts.windows}}
            keep_bounds = [] if self.keep_window is None else [lower_bounds(self.keep_window, now)]
            bound_of_all = reduce(np.minimum, [*bounds.values(), *keep_bounds] if bounds else [now, *keep_bounds])
            columns = _Tuples(chunk, tuples, derived_set, properties, timestamp, bound_of_all)
            is_plain = self._label_flags()[chunk.label]
            if in_streams is not None:
                is_plain |= in_streams >= 0
            before, made = self._apply(columns, number, number, is_plain)
            unread: Chunk | None = None
            if self.node_edges.are_read:
                made = self.node_edges.extend(made)
                if in_streams is None:
                    made, unread = self._without_unread(made)
            named = None if in_streams is None else self._apply_named(columns, in_streams)
            outcome = self.outcome_counts.judge(chunk, tuples, before, bounds, named=named)
            derived = chunk_of_operations(made, chunk, tuples, now, outcome=outcome)._replace(unread=unread)
        self._note_parallel(derived)
        return derived

    def _without_unread(self, made: Operations) -> tuple[Operations, Chunk | None]:
        """Divide operations into those that queries read, and edges from which tested ones follow (None for none)."""
        is_read = self.readings.own_labels()[made.label] != 0
        if is_read.all():
            return made, None
        read, unread = (Operations(*(column[some] for column in made)) for some in (is_read, ~is_read))
        return read, unread.as_chunk()

    def _apply(
        self, tuples: _Tuples, edge: np.ndarray, number: np.ndarray, is_plain: np.ndarray
    ) -> tuple[PriorEdges, Operations]:
        """Apply tuples to the edges with these numbers in the table. Return the state of these before, and the operations.

        Edges that are vertices are known by `number`. `is_plain` says whether the graph has edges with the label of a tuple.
        """
        chunk, bound = tuples.chunk, tuples.bound
        all_derived = np.zeros(len(edge), np.int32)
        if self.identity != "triple" and chunk.delete.any():
            is_whole = (chunk.delete != 0) & (edge < 0)
            all_derived[is_whole] = self._whole_sets(chunk.label[is_whole])
        before, made = self.table.apply(
            chunk,
            tuples.view,
            edge,
            derived_set=tuples.derived_set,
            all_derived=all_derived,
            bound=bound,
            is_plain=is_plain,
            is_read=self._label_flags(),
            is_ordered=self.readings.ordered_labels(),
            sets=self.sets.flat(),
        )
        self._store_values(made, tuples, edge)
        if self._links.are_read:
            effects = effects_of(chunk, number, before, bound, identity=self.identity)
            values = self._values_of_vertices
            links = self._links.derive(chunk, tuples.properties, tuples.timestamp, effects, values=values)
            if links is not None:
                of_links = Operations(*links[1:4], chunk.timestamp[links.row], links.delete, links.row)
                made = Operations(*map(np.concatenate, zip(made, of_links, strict=True)))
        return before, made

    def _derive_steps(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        steps: Steps,
        *,
        derived_set: np.ndarray,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
    ) -> DerivedChunk:
        """Apply the tuples of a chunk and what the window adds to them; return the edges with derived labels.

        The sets of derived labels, the properties and the times that conditions see are those of the steps.
        """
        for step, static in steps.statics.items():
            derived_set[step] = static.derived_set
        is_plain = self._label_flags()[steps.chunk.label]
        if self.identity == "triple":  # the graph always has static edges under their own labels
            is_plain[steps.chunk.timestamp == TIMELESS] = 0
        bound = np.full(len(derived_set), ABSENT_VERSION)
        columns = _Tuples(steps.chunk, view(steps.chunk), derived_set, properties, timestamp, bound)
        before, made = self._apply(columns, steps.edge, steps.number, is_plain)
        if self.window_edges is not None and isinstance(self.window_edges.window, Window):
            left = steps.is_evicted[made.row] & (made.delete != 0)
            made.timestamp[left] += self.window_edges.window.size  # the boundary at which edges leave
        if self.identity == "triple":
            is_own = np.array([not isinstance(name, ConditionLabel) for name in self._labels.names] or [False])
            stays = ~((made.timestamp == TIMELESS) & is_own[made.label])
            made = Operations(*(column[stays] for column in made))
        more = [(-1, 0, -1, int(steps.chunk.timestamp[step]), 1, int(step)) for step in np.flatnonzero(steps.is_mover)]
        for step, static in steps.statics.items():
            time, is_delete = int(steps.chunk.timestamp[step]), int(steps.chunk.delete[step])
            more += [(*link, time, is_delete, step) for link in static.links]
        if more:
            made = Operations(*(np.append(one, other) for one, other in zip(made, zip(*more, strict=True), strict=True)))
        kinds = np.int32, np.int32, np.int32, np.int64, np.uint8, np.int64
        if self.node_edges.are_read:
            made = self.node_edges.extend(Operations(*(one.astype(kind) for one, kind in zip(made, kinds, strict=True))))
        order = np.argsort(made[5], kind="stable")
        made = Operations(*(one[order].astype(kind) for one, kind in zip(made, kinds, strict=True)))
        of_steps, made = made.row, made._replace(row=steps.row[made.row])
        outcome = np.zeros(0, np.uint8)
        if len(steps.own):
            bounds = {one: lower_bounds(one, now) for one in {*self.outcome_counts.windows}}
            before = PriorEdges(before.timestamp[steps.own], before.label[steps.own])
            outcome = self.outcome_counts.judge(chunk, tuples, before, bounds)
        return chunk_of_operations(
            made,
            chunk,
            tuples,
            now,
            outcome=outcome,
            is_evicted=steps.is_evicted[of_steps],
            boundary=steps.boundary[of_steps],
        )

    def _window_numbers(self, chunk: Chunk, number: np.ndarray) -> tuple[np.ndarray, list[Any], np.ndarray]:
        """Return the numbers in the table of the edges of tuples, -1 for none, their keys, and their numbers as vertices."""
        names, is_insert = self.table.names, (chunk.delete == 0) & (chunk.source >= 0)
        assert names is not None
        if self.identity == "triple":
            keys: list[Any] = [*zip(chunk.source.tolist(), chunk.label.tolist(), chunk.target.tolist(), strict=True)]
            places = {key: self.table.number_of(*key) for key in {*keys}}
            inserted = (key for key, inserts in zip(keys, is_insert.tolist(), strict=True) if inserts)
            new = [*dict.fromkeys(key for key in inserted if places[key] < 0)]
            places |= zip(new, names.reserve(len(new)).tolist(), strict=True)
            edge = np.array([places[key] for key in keys], np.int64)
            return edge, keys, edge
        edge = number
        if self.identity == "parallel":
            edge = np.full(len(number), -1, np.int64)
            edge[is_insert] = names.reserve(int(np.count_nonzero(is_insert)))
        return edge, [one if one >= 0 else None for one in number.tolist()], number

    def _label_flags(self) -> np.ndarray:
        """Return which label ids the graph has edges with (uint8)."""
        return np.ascontiguousarray(self._is_read(np.arange(len(self._labels.names))))

    def _whole_sets(self, label: np.ndarray) -> np.ndarray:
        """Return for labels the number of the set of all their derived labels (int32)."""
        used, place = np.unique(label, return_inverse=True)
        names = (self._labels.names[one] for one in used.tolist())
        whole = [self.sets.whole_set(name) if isinstance(name, str) else 0 for name in names]
        return np.array(whole, np.int32)[place]

    def _apply_named(self, tuples: _Tuples, in_streams: np.ndarray) -> NamedTuples:
        """Apply tuples to the versions of edges in named streams, with labels as those of `derive`; return them there."""
        rows, labels = np.flatnonzero(in_streams >= 0), np.where(in_streams >= 0, in_streams, tuples.chunk.label)
        named = Chunk(*(column[rows] for column in tuples.chunk._replace(label=in_streams.astype(np.int32))))
        nothing, flags = np.zeros(len(rows), np.int32), np.zeros(len(self._labels.names), np.uint8)
        of_rows, _ = self.table.apply(
            named,
            view(named),
            nothing,
            derived_set=nothing,
            all_derived=nothing,
            bound=tuples.bound[rows],
            is_plain=nothing.astype(np.uint8),
            is_read=flags,
            is_ordered=flags,
            sets=self.sets.flat(),
        )
        before = PriorEdges(np.full(len(in_streams), ABSENT_VERSION, np.int64), labels)
        before.timestamp[rows] = of_rows.timestamp
        return NamedTuples(labels, before)

    def _note_parallel(self, derived: DerivedChunk) -> None:
        """Note the edges that queries about paths in time order read, one by one."""
        if self.parallel is not None:
            for chunk in (derived.chunk, derived.unread):
                if chunk is not None:
                    self.parallel.note(chunk, self.readings.ordered_labels())

    def _numbers(self, chunk: Chunk, edge: pa.Array | None) -> np.ndarray:
        """Return the numbers of the edges of tuples (int64), -1 for deletes without one; count the inserts."""
        is_insert = chunk.delete == 0
        inserts, self.inserts = self.inserts, self.inserts + int(np.count_nonzero(is_insert))
        if self.edge_names is None and self.inserts - inserts == len(is_insert):
            return np.arange(inserts + 1, self.inserts + 1)
        if self.edge_names is None:
            return np.where(is_insert, inserts + np.cumsum(is_insert), -1)
        assert edge is not None
        return self.table.name(edge).astype(np.int64)

    def expire(self, time: int) -> DerivedChunk | None:
        """Advance the time without a tuple. Return the edges that leave a window that is decided before the graph, or
        None."""
        steps = None if self.window_edges is None else self.window_edges.expire(time)
        if steps is None:
            return None
        chunk = Chunk(*(np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32)))
        sets, times = np.zeros(len(steps.row), np.int32), steps.chunk.timestamp
        nothing = np.zeros(0, np.int64)
        return self._derive_steps(chunk, view(chunk), nothing, steps, derived_set=sets, properties={}, timestamp=times)

    def derive_statics(self, *, begins: bool = False) -> tuple[list[Link], list[Link]]:
        """Return the links of static edges under other labels than their own: of edges that are never hidden, and of others.

        Of the others, only those are returned that no edge hides now. There are none before static edges begin, which they
        do with `begins`. O(edges · conditions).
        """
        values, statics = self.statics.values(self.sets.types.by_name), self.statics
        chunk = statics.chunk()
        derived_set = self.sets.sets_of(chunk.label, self._labels.names, values, None)
        derived = map(self.sets.labels_of, derived_set.tolist())
        of_edges = zip(chunk.source.tolist(), derived, chunk.target.tolist(), strict=True)
        links: list[list[Link]] = [[(u, label, v) for label in labels] for u, labels, v in of_edges]
        pieces: list[TupleEdges] = []
        if self._links.are_read and len(statics):
            pieces = self._links.derive_statics(statics, values, names=self._values_of_vertices)
        for piece in pieces:
            columns = (piece.row, piece.source, piece.label, piece.target)
            for row, *link in zip(*(column.tolist() for column in columns), strict=True):
                links[row].append((link[0], link[1], link[2]))
        window = self.window_edges
        if window is None or not self.hides:
            return [link for of_edge in links for link in of_edge], []
        return self._set_hideable(window, links, derived_set, begins=begins)

    def _set_hideable(
        self, window: WindowEdges, links: Sequence[Sequence[Link]], derived_set: np.ndarray, *, begins: bool
    ) -> tuple[list[Link], list[Link]]:
        """Set the static edges that edges of the window may hide; return links like `derive_statics`.

        `links` and `derived_set` are those of the static edges. The last one with a key replaces the others.
        """
        statics, names, has_ids = self.statics, self.table.names, self.identity == "id"
        assert names is not None
        ends: list[Link] = [*zip(statics.source.tolist(), statics.label.tolist(), statics.target.tolist(), strict=True)]
        keyed: dict[Any, StaticEdge] = {}
        never: list[Link] = []
        for edge, mine, of_edge, number in zip(statics.edge.tolist(), ends, links, derived_set.tolist(), strict=True):
            key = edge if has_ids else mine
            if has_ids and edge < 0:
                never += of_edge
                continue
            known = keyed.get(key) or window.statics.get(key)
            place = known.edge if known else int(names.reserve(1)[0])
            more = [link for link in of_edge if isinstance(self._labels.names[link[1]], EdgeEnd)]
            keyed[key] = StaticEdge(place, mine, number, more)
        live = self.table.live(ABSENT_VERSION)
        held: dict[Any, HidingEdge] = {}
        columns = live, *self.table.columns(live)[:4]
        for edge, u, label, v, time in zip(*(column.tolist() for column in columns), strict=True):
            held[edge if has_ids else (u, label, v)] = HidingEdge(edge, (u, label, v), time)
        visible = window.set_statics(keyed, held, begins=begins)
        rows = [(*one.ends, TIMELESS, one.derived_set) for one in visible]
        columns = tuple(np.array(rows, np.int64).reshape(len(rows), 5).T)
        self.table.enter(columns, np.array([one.edge for one in visible], np.int64))
        of_visible: list[Link] = []
        for static in visible:
            u, own, v = static.ends
            labels = self.sets.labels_of(static.derived_set)
            is_plain = has_ids and bool(self._is_read(np.array([own]))[0])
            of_visible += [*([static.ends] if is_plain else []), *((u, label, v) for label in labels), *static.links]
        return never, of_visible

    # --- records of nodes ------------------------------------------------------------------------------------

    def apply_records(
        self, records: NodeRecords, time: np.ndarray, is_moving: np.ndarray, graph: SnapshotGraph
    ) -> Operations:
        """Apply records of different vertices. Return the operations on the graph (`NodeEdges.apply`), in order.

        `time` is the stream time of each, and `is_moving` whether it moves it, which is an operation, too.
        """
        made = self.node_edges.apply(records, time, graph, lambda keys: self._parallel_of(keys, graph))
        movers = np.flatnonzero(is_moving)
        (some_label,) = self._ids_of([NodeTest("node", HAS_RECORD)])
        nowhere, label = np.full(len(movers), -1, np.int32), np.full(len(movers), some_label, np.int32)
        moved = Operations(nowhere, label, nowhere, time[movers], np.ones(len(movers), np.uint8), movers)
        columns = [np.concatenate(one) for one in zip(moved, made, strict=True)]
        order = np.argsort(columns[-1], kind="stable")
        made = Operations(*(column[order] for column in columns))
        if self.parallel is not None:
            self.parallel.note(made.as_chunk(), self.readings.ordered_labels())
        return made

    def _parallel_of(self, keys: ParallelKeys, graph: SnapshotGraph) -> ParallelRows:
        """Return the parallel edges of edges of the graph that a query about paths in time order reads; deletes once.

        O(edges · log edges), of all parallel edges.
        """
        one_by_one = self.readings.ordered_labels()
        if not self.readings.ordered_questions or not one_by_one[keys.variant]:
            return None, np.zeros(0, np.int64)
        parallel = self.parallel_columns(graph)
        wanted = keys.source.astype(np.int64) << 32 | keys.target
        ends = parallel.source.astype(np.int64) << 32 | parallel.target
        mine = np.flatnonzero((parallel.label == keys.label) & np.isin(ends, wanted))
        mine = mine[np.lexsort((parallel.timestamp[mine], ends[mine]))]
        first, end = (np.searchsorted(ends[mine], wanted, side) for side in ("left", "right"))
        first = np.where(keys.delete, np.maximum(first, end - 1), first)
        counts = end - first
        place = np.repeat(np.arange(len(wanted)), counts)
        found = np.arange(len(place)) + np.repeat(end - np.cumsum(counts), counts)
        return place, parallel.timestamp[mine[found]]

    def enter_facts(self, graph: SnapshotGraph, *, facts_only: bool = False) -> Operations:
        """Return the edges that follow from facts of nodes and the edges of the graph, but for labels entered before.

        With `facts_only`, edges with tests of their ends are left out; otherwise parallel ones are noted.
        """
        made, tested = self.node_edges.enter(graph, facts_only=facts_only)
        if self.parallel is not None and tested:
            labels = [one for one in tested if one in {*made.label.tolist()} and self.readings.ordered_labels()[one]]
            for label in labels:
                mine = np.flatnonzero(made.label == label)
                name = self._labels.names[label]
                assert isinstance(name, ConditionLabel)
                own = self._labels.ids[without_tests_of(name)]
                keys = ParallelKeys(made.source[mine], own, made.target[mine], label, made.delete[mine])
                again, times = self._parallel_of(keys, graph)
                assert again is not None
                parallel = Operations(*(column[mine[again]] for column in made))._replace(timestamp=times)
                self.parallel.note(parallel.as_chunk(), self.readings.ordered_labels())
        return made

    # --- one tuple -------------------------------------------------------------------------------------------

    def takes_one(self, times: StreamTime) -> bool:
        """Return whether one tuple of a stream with such times needs no columns; the first one does."""
        return self.window_edges is None and self.sets.is_timed and self.sets.time_unit == _unit_of(times)

    def takes_id(self, edge: int | str | None, *, is_delete: bool) -> bool:
        """Return whether an id is well-formed and needs no conversion, as far as this can be checked quickly."""
        if self.edge_names is None or edge is None:
            return edge is None and (self.edge_names is None or is_delete)
        kind = self.edge_names.kind
        if type(edge) is int:
            return kind != "string" and -(2**63) <= edge < 2**63
        return type(edge) is str and kind != "int64" and bool(edge) and is_utf8(edge)

    @property
    def is_bare(self) -> bool:
        """True if edges have no ids, are no vertices and have no values for witnesses, so that `derive_one` suffices."""
        is_bare = self.edge_names is None and not self._links.are_read and self.witness_values is None
        return is_bare and not self.node_edges.are_read

    def values_of_one(self, properties: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values that conditions need of one tuple; None where one has another type than its property."""
        needed = self.sets.properties
        values = {}
        for name, value in properties.items():
            if value is not None and name in needed:
                values[name] = self.sets.types.value_of_one(name, value)
                if values[name] is None:
                    return None
        return values

    def columns_of_one(self, values: Mapping[str, Any]) -> dict[str, pa.Array]:
        """Return the values of one tuple, from `values_of_one`, as columns."""
        return {name: pa.array([value], self.sets.types.by_name[name]) for name, value in values.items()}

    def derive_one(
        self, single: SingleTuple, values: Mapping[str, Any], time: int | None, *, is_plain: bool
    ) -> tuple[list[int], list[int]]:
        """Return the labels of the edges of one tuple and whether each is deleted, like `derive`; write its outcome.

        `is_plain` says whether a query reads its label without a condition.
        """
        chunk, judge = single.chunk, self.outcome_counts.judge_one
        label, timestamp, is_delete = chunk.label.item(0), chunk.timestamp.item(0), bool(chunk.delete.item(0))
        now = timestamp if time is None else max(time, timestamp)
        bounds = [lower_bound(window, now) for window in self.outcome_counts.windows]
        self.inserts += not is_delete
        if chunk.source.item(0) < 0:  # no query reads the edge
            single.outcome[0] = judge((-1, label, -1), timestamp, is_delete, ABSENT_VERSION, bounds)
            return [label], [int(is_delete)]
        bound = min(bounds, default=now)
        derived_set = 0 if is_delete else self.sets.set_of_one(chunk.label, self._labels.names, values, chunk.timestamp)
        all_derived = 0
        if is_delete and self.identity == "parallel":
            all_derived = self.sets.whole_set(str(self._labels.names[label]))
        before, labels, deletes = self.table.apply_one(
            single, derived_set=derived_set, all_derived=all_derived, lower=bound, is_plain=is_plain, sets=self.sets.flat()
        )
        edge = chunk.source.item(0), label, chunk.target.item(0)
        single.outcome[0] = judge(edge, timestamp, is_delete, before, bounds)
        if not labels:  # the tuple moves the time
            labels, deletes = [label], [int(is_delete)]
        if self.parallel is not None:
            source, target, is_ordered = chunk.source.item(0), chunk.target.item(0), self.readings.ordered_labels()
            for one, deleted in zip(labels, deletes, strict=True):
                if is_ordered.item(one):
                    self.parallel.note_one(source, one, target, timestamp, deleted)
        return labels, deletes

    def satisfied(self, texts: Sequence[str], graph: SnapshotGraph, after: int) -> np.ndarray:
        """Return which edges of the graph satisfy conditions over kept properties: (edge id, condition), uint8.

        With ids, some edge later than `after` between these ends has to. Raises `WhereError` for a condition that does not
        fit the properties. O(edges).
        """
        assert self.witness_values is not None
        edges, found = graph.edges, np.zeros((graph.capacity, len(texts)), np.uint8)
        is_plain = np.array([isinstance(name, str) for name in self._labels.names] or [False])
        live = graph.live_edges()
        live = live[is_plain[edges.label[live]]]
        ends, time = (edges.source[live], edges.label[live], edges.target[live]), edges.timestamp[live]
        keys: list[Any] = [*zip(*(column.tolist() for column in ends), strict=True)]
        if self.edge_names is not None:
            versions = self.table.live(after)
            source, label, target, time, _ = self.table.columns(versions)
            places = edge_numbers(ends, (source, label, target))
            keys, time, live = versions[places >= 0].tolist(), time[places >= 0], live[places[places >= 0]]
        types = self.sets.types.by_name
        is_known, values = self.witness_values.columns(keys, types)
        columns = {name: column.cast(types[name]) for name, column in values.items() if name in types}
        for place, text in enumerate(texts):
            is_mine = (is_known != 0) & self.sets.satisfy(text, columns, time)
            found[live[is_mine], place] = 1
        return found

    # --- values of edges for witnesses -----------------------------------------------------------------------

    @property
    def values(self) -> ValuesOf | None:
        """The function that returns the values of edges; None where none are stored, or no query reads any."""
        return self._values_of if self.witness_values is not None and self.sets.properties else None

    @property
    def _written_values(self) -> EdgeValues | None:
        """The values that tuples change: None where none are stored, and no query reads any."""
        stored = self.witness_values
        return stored if stored is not None and (self.sets.properties or len(stored)) else None

    def _store_values(self, made: Operations, tuples: _Tuples, number: np.ndarray) -> None:
        """Store the values of the edges that tuples become; with ids, of the inserts that are their current versions."""
        if (stored := self._written_values) is None:
            return
        chunk, names = tuples.chunk, sorted(self.sets.properties)
        if self.table.names is not None:
            is_current = self.table.are_held(number, chunk.timestamp) & (chunk.delete == 0) & (chunk.timestamp != TIMELESS)
            for row in np.flatnonzero(is_current).tolist():
                stored.replace(int(number[row]), int(chunk.timestamp[row]), values_at(tuples.properties, names, row))
            return
        for u, label, v, time, is_delete, row in zip(*(column.tolist() for column in made), strict=True):
            if is_delete:
                stored.drop((u, label, v))
            elif time > tuples.bound[row]:
                stored.put((u, label, v), time, values_at(tuples.properties, names, row))

    def _values_of(self, source: int, label: LabelName | int, target: int) -> Mapping[str, Any] | None:
        """Return the values of the edge that the graph has between two vertices with a label, None if unknown."""
        assert self.witness_values is not None
        number = label if isinstance(label, int) else self._labels.ids[label]
        name = self._labels.names[number]
        if isinstance(name, EdgeEnd):
            return None  # the edge is a vertex, which has the values
        found: Mapping[str, Any] | None = None
        if self.window_edges is None and self.edge_names is None:
            found = self.witness_values.of((source, number, target))
        else:
            is_derived = isinstance(name, ConditionLabel)
            ends = source, self._labels.ids[name.label or ""] if isinstance(name, ConditionLabel) else number, target
            for edge in self.table.youngest_first(*ends):
                if not is_derived or number in self.sets.labels_of(self.table.derived_set(edge)):
                    found = self.witness_values.of(edge)
                    break
        return None if found is None else {name: value for name, value in found.items() if name in self.sets.properties}

    # --- memory and collection -------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        values = 0 if self.witness_values is None else self.witness_values.nbytes
        values += 0 if self.parallel is None else self.parallel.nbytes
        values += 0 if self.window_edges is None else self.window_edges.nbytes
        return self.table.nbytes + self._vertices.edges.nbytes + self.statics.nbytes + values + self.node_edges.nbytes

    @property
    def wants_collection(self) -> bool:
        """True if enough edges have arrived since the last collection to make another one worthwhile."""
        return self.table.wants_collection or (self.parallel is not None and self.parallel.wants_collection)

    def lower_bound(self, time: int | None) -> int:
        """Return the timestamp up to which edges have left every window of time at a stream time."""
        if time is None or self.window_edges is not None:
            return ABSENT_VERSION
        windows = [window for window in self.outcome_counts.windows if not isinstance(window, CountWindow)]
        if self.keep_window is not None:
            windows.append(self.keep_window)
        return min((lower_bound(window, time) for window in windows), default=time)

    def collect(self, time: int | None) -> None:
        """Forget versions that have left every window, and sets that no version has. O(versions)."""
        bound, in_use = self.lower_bound(time), self.statics.edge[self.statics.edge >= 0].tolist()
        if self.window_edges is not None:
            live = {*self.table.live(bound).tolist()}
            in_use += self.window_edges.retain(live)
            if self.witness_values is not None:
                self.witness_values.collect(INT64_MAX, live)
        elif self.witness_values is not None:
            self.witness_values.collect(bound, self.outcome_counts.held_by_count())
        self.table.collect(bound, in_use)
        self.outcome_counts.collect()
        if self.parallel is not None:
            self.parallel.collect(bound, self._timed_labels())
        if self.sets.count > self._sets_after_collect:
            used, window = self.table.all_columns()[4], self.window_edges
            if window is not None:
                used = np.append(used, np.array([one.derived_set for one in window.statics.values()], used.dtype))
            numbers = self.sets.retain(used)
            self.table.renumber(numbers)
            if window is not None:
                window.renumber(numbers)
            self._sets_after_collect = 1024 + 2 * self.sets.count

    def restore(
        self, source: np.ndarray, label: np.ndarray, target: np.ndarray, timestamp: np.ndarray, graph: SnapshotGraph
    ) -> None:
        """Set the versions of edges, whose derived labels are those of the edges that the graph holds.

        O(versions + edges).
        """
        derived_set = np.zeros(len(source), np.int32)
        if self.identity == "triple":
            derived: dict[tuple[int, int, int], list[int]] = {}
            live, names, ids = graph.live_edges(), self._labels.names, self._labels.ids
            ends = (graph.edges.source[live], graph.edges.label[live], graph.edges.target[live])
            for u, number, v in zip(*(column.tolist() for column in ends), strict=True):
                name = names[number]
                is_own = isinstance(name, ConditionLabel) and not isinstance(name, (EdgeEnd, NodeLabel))
                if is_own and not StepTests.of(name.condition).are_of_ends and name.label in ids:
                    derived.setdefault((u, ids[name.label], v), []).append(number)
            keys = zip(source.tolist(), label.tolist(), target.tolist(), strict=True)
            derived_set[:] = [self.sets.number_of(derived.get(key, ())) for key in keys]
        self.table.load((source, label, target, timestamp, derived_set))

    def vertices(self) -> np.ndarray:
        """Return the ids of the vertices of versions and static edges, which the graph may lack. O(versions + ids)."""
        source, _, target = self.table.ends()
        ends = [source, target, self.statics.source, self.statics.target]
        if self.hides:  # static edges may be in the graph again
            ends += [self.statics.vertex, self.statics.twin]
        is_there = np.zeros(max(one.max(initial=-1) for one in ends) + 2, bool)
        for one in ends:
            is_there[one] = True  # the last one is that of edges without ends, which are -1
        return np.flatnonzero(is_there[:-1]).astype(np.int32)

    def latest_timestamp(self, labels: LabelSet) -> int:
        """Return the largest timestamp of the versions with a label in a set; `ABSENT_VERSION` for none. O(versions)."""
        _, label, _, timestamp, _ = self.table.all_columns()
        is_mine = np.array([isinstance(name, str) and labels.has(name) for name in self._labels.names], bool)
        return int(timestamp[is_mine[label]].max(initial=ABSENT_VERSION))

    def edges_live(self, time: int | None) -> int:
        """Return the number of edges with a read label in the longest window."""
        source, label, target, _, _ = self.table.columns(self.table.live(self.lower_bound(time)))
        is_read = self.outcome_counts.reads(label) != 0
        if not self.has_ordered_counts:
            return int(np.count_nonzero(is_read))
        columns = (column[is_read].tolist() for column in (source, label, target))
        return len({*zip(*columns, strict=True)} | self.outcome_counts.held_by_count())

    def _check(self) -> None:
        """Assert the invariants."""
        self.table._check()
        if self.window_edges is not None:
            self.window_edges._check(self.table.live(ABSENT_VERSION).tolist())


def _misfit_of_nodes(error: WhereError, types: PropertyTypes) -> str:
    """Return the error of properties of nodes of these types in a test, as text."""
    named = node_test_of(error.text).properties
    of_types = ", ".join(f"{name!r} is of type {kind}" for name, kind in types.names.items() if name in named)
    return f"the test [{error.text}] does not fit the nodes: {error.message}; {of_types}"


def _unit_of(times: StreamTime) -> str | None:
    """Return the unit of the timestamps of a stream, None for plain numbers."""
    has_unit = times.unit is not None or not (times.type is None or times.is_of_numbers)
    return times.inner_unit if has_unit else None
