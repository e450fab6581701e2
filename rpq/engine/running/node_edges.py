"""Facts of nodes as edges that queries read.

No tuple brings these edges. They follow from the table of nodes, the tests and properties that queries read, and the edges
of the stream:

- a *loop* at each vertex that satisfies a test (`NodeTest`), and an edge from each vertex to one that stands for the value
  of a property (`NodeValue`). Queries read both over an unbounded window. Vertices have them while they have a record, or an
  edge in the graph; for those without a record a test sees no labels and nulls.
- the edges of a label, or those with a condition, whose ends satisfy tests inside a path expression (`StepTests`). Such an
  edge is an edge of a label of its own beside the one from which it follows, with the same timestamp.

A record that changes which tests a vertex satisfies inserts and deletes these edges, all in one event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.engine.running.condition_sets import SortedConstants, comparison_of, searched_comparisons
from rpq.language.conditions import node_test_of
from rpq.language.predicate import ColumnKind, Predicate, kind_of_type
from rpq.stream.arrays.properties import PropertyTypes
from rpq.stream.edges.edge_table import Operations
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.edge_vertices import NO_TIME, NO_VERTEX, EdgeVertexColumns
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import ConditionLabel, EdgeEnd, LabelName, NodeLabel, NodeTest, NodeValue, StepTests
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.nodes.node_table import NodeRecords, NodeTable

HAS_RECORD = ""
"""The test that vertices with a record satisfy."""

LABELS = "labels"
"""The property whose value is the list of labels, as JSON."""

_UNKNOWN = -1

_NAN = float("nan")
"""The one NaN, as which it is a key: it does not equal itself."""


class _Variant(NamedTuple):
    """A label whose edges are those of another one with tests of their ends, by the numbers of tests."""

    label: int
    source: tuple[int, ...]
    target: tuple[int, ...]


class _Pieces:
    """Operations on the graph, collected in pieces."""

    def __init__(self) -> None:
        self._pieces: list[Operations] = []

    def add(
        self, row: np.ndarray, source: np.ndarray, label: int, target: np.ndarray, timestamp: np.ndarray, delete: np.ndarray
    ) -> None:
        if len(row):
            labels = np.full(len(row), label, np.int32)
            kinds = source.astype(np.int32), labels, target.astype(np.int32), timestamp, delete.astype(np.uint8), row
            self._pieces.append(Operations(*kinds))

    def all(self) -> Operations:
        empty = (np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int64))
        return Operations(*map(np.concatenate, zip(Operations(*empty), *self._pieces, strict=True)))


def _with(made: Operations, pieces: _Pieces) -> Operations:
    more = pieces.all()
    return Operations(*map(np.concatenate, zip(made, more, strict=True))) if len(more.row) else made


class NodeTests:
    """The tests of queries, and the sets of tests that vertices satisfy, by number."""

    def __init__(self, texts: Sequence[str], table: NodeTable, vertices: VertexDictionary) -> None:
        self.texts = list(texts)
        self.number = {text: number for number, text in enumerate(self.texts)}
        self.reads_id = any("id" in node_test_of(text).where.names for text in self.texts if text)
        self._table, self._vertices = table, vertices
        self._bound: tuple[object, list[Predicate | None], list[tuple[SortedConstants, np.ndarray]]] | None = None
        self._sets: dict[bytes, int] = {}
        self.holds = np.zeros((0, len(self.texts)), bool)
        """Whether a set has a test: (set, test)."""

    def bind(self, types: PropertyTypes, kind: str | None) -> None:
        """Bind tests to the types of properties. Raises `WhereError` for one that does not fit them."""
        key = dict(types.names), kind, len(self.texts)
        if self._bound is not None and self._bound[0] == key:
            return
        predicates: list[Predicate | None] = [self._predicate(text, types, kind) if text else None for text in self.texts]
        comparisons = [comparison_of(node_test_of(text), types) if text else None for text in self.texts]
        self._bound = key, predicates, searched_comparisons(comparisons)

    def _predicate(self, text: str, types: PropertyTypes, kind: str | None) -> Predicate:
        where = node_test_of(text).where
        return Predicate(where, {name: kind_of_fact(name, types, kind) for name in where.names})

    def sets_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of the sets of tests that vertices satisfy (int32). O(vertices · tests)."""
        self.bind(self._table.types, self._vertices.kind)
        assert self._bound is not None
        _, predicates, searched = self._bound
        verdicts = np.zeros((len(ids), len(self.texts)), bool)
        columns = _Facts(self._table, self._vertices, ids)
        found = {number for _, numbers in searched for number in numbers.tolist()}
        for constants, numbers in searched:
            verdicts[:, numbers] = constants.matches(constants.find(columns[constants.name]))
        for number, predicate in enumerate(predicates):
            if number in found:
                continue
            if predicate is None:
                verdicts[:, number] = self._table.are_known(ids)
            else:
                verdicts[:, number] = predicate.mask(columns, len(ids))[0]
        packed = np.packbits(verdicts, axis=1) if len(self.texts) else np.zeros((len(ids), 0), np.uint8)
        if packed.shape[1] <= 8:
            codes = np.zeros((len(ids), 8), np.uint8)
            codes[:, : packed.shape[1]] = packed
            _, first, place = np.unique(codes.view(np.int64).reshape(-1), return_index=True, return_inverse=True)
        else:
            _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        numbers = np.array([self._number_of(verdicts[one]) for one in first.tolist()], np.int32)
        return numbers[place.reshape(-1)] if len(ids) else np.zeros(0, np.int32)

    def _number_of(self, verdicts: np.ndarray) -> int:
        key = verdicts.tobytes()
        number = self._sets.get(key)
        if number is None:
            number = self._sets[key] = len(self._sets)
            self.holds = np.concatenate([self.holds, verdicts[None, :]])
        return number


def kind_of_fact(name: str, types: PropertyTypes, vertices: str | None) -> ColumnKind:
    """Return the kind of a column of facts: a label, the name of a vertex (of a kind), or a property."""
    if name.startswith(":"):
        return ColumnKind(key=name, kind="boolean")
    if name == "id":
        return ColumnKind(key=name, kind="number" if vertices == "int64" else "untyped")
    if name in types.loose:
        return ColumnKind(key=name, kind="untyped")
    if name not in types.by_name:
        return ColumnKind(key=name, kind="unknown")
    kind, unit = kind_of_type(types.by_name[name])
    return ColumnKind(key=name, kind=kind, unit=unit)


class _Facts(dict[str, pa.Array]):
    """The columns of facts of vertices, which are made when they are needed."""

    def __init__(self, table: NodeTable, vertices: VertexDictionary, ids: np.ndarray) -> None:
        super().__init__()
        self._table, self._vertices, self._ids = table, vertices, ids

    def __missing__(self, name: str) -> pa.Array:
        if name.startswith(":"):
            made = pa.array(self._table.have_label(name[1:], self._ids))
        elif name == "id":
            made = self._vertices.names_of(self._ids)
        else:
            made = self._table.column(name, self._ids)
        self[name] = made
        return made


class NodeEdges:
    """The edges of one engine that follow from facts of nodes.

    `ids_of` returns the ids of labels, new ones for those that have none.
    """

    def __init__(
        self,
        table: NodeTable,
        *,
        vertices: VertexDictionary,
        labels: LabelDictionary,
        ids_of: Callable[[Sequence[ConditionLabel]], list[int]],
    ) -> None:
        self._table = table
        self._vertices = vertices
        self._labels = labels
        self._ids_of = ids_of
        self.tests = NodeTests((), table, vertices)
        self.values: tuple[str, ...] = ()
        """The properties whose values queries read."""
        self._loops: tuple[str, ...] = ()
        """The tests that queries read as loops."""
        self._conditions_on: Callable[[Any], Iterable[str]] = lambda label: ()
        self._has_steps = False
        self._variants: dict[int, list[_Variant]] = {}
        self._entered: set[LabelName] = set()
        """The labels of which the graph has all edges."""
        self._is_running = False  # whether the stream has begun
        self._set = np.zeros(0, np.int32)
        self._default = _UNKNOWN
        self._is_attached = np.zeros(0, bool)
        self._value_vertex: dict[str, np.ndarray] = {}
        self._vertex_of_value: dict[str, dict[Any, int]] = {}

    # --- what queries read -----------------------------------------------------------------------------------

    @property
    def are_read(self) -> bool:
        """True if any query reads facts of nodes."""
        return bool(self.tests.texts or self.values)

    def set_readings(
        self, named: Iterable[NodeLabel], conditions: Iterable[str], conditions_on: Callable[[Any], Iterable[str]]
    ) -> None:
        """Set the labels of facts that queries read, and the conditions with tests, in all and on a label.

        Raises `WhereError` for a test that does not fit the types of properties; then nothing has changed.
        """
        labels = sorted({*named}, key=str)
        loops = tuple(label.condition for label in labels if isinstance(label, NodeTest))
        values = tuple(label.condition for label in labels if isinstance(label, NodeValue))
        steps = [step for step in map(StepTests.of, conditions) if step.are_of_ends]
        texts = sorted({*loops, *(test for step in steps for test in (*step.source, *step.target))})
        if texts != self.tests.texts:
            tests = NodeTests(texts, self._table, self._vertices)
            tests.bind(self._table.types, self._vertices.kind)
            self.tests = tests
            self._default = _UNKNOWN
            self._set[:] = _UNKNOWN
        self._note_entered()
        self._loops, self._has_steps, self._conditions_on = loops, bool(steps), conditions_on
        for name in {*self.values} - {*values}:
            del self._value_vertex[name], self._vertex_of_value[name]
        for name in {*values} - {*self.values}:
            self._value_vertex[name] = np.full(len(self._set), NO_VERTEX, np.int32)
            self._vertex_of_value[name] = {}
        self.values = values
        self._variants.clear()
        read = {*map(_loop, loops), *map(_value, values)}
        tested = {step.condition for step in steps}
        self._entered = {name for name in self._entered if name in read or getattr(name, "condition", None) in tested}

    def forget_labels(self) -> None:
        """Note that label ids may have other names now, but for those in use."""
        self._note_entered()
        self._variants.clear()

    def labels(self) -> list[int]:
        """Return the ids of the labels that facts and tested edges have."""
        ids = self._labels.ids
        names = [*map(_loop, self._loops), *map(_value, self.values)]
        of_facts = [ids[name] for name in names if name in ids]
        return of_facts + [variant.label for variants in self._variants.values() for variant in variants]

    def check_types(self, types: PropertyTypes) -> None:
        """Raise `WhereError` for a test that does not fit types of properties."""
        NodeTests(self.tests.texts, self._table, self._vertices).bind(types, self._vertices.kind)

    @property
    def _attaches(self) -> bool:
        """True if vertices without a record have edges."""
        if self.values:
            return True
        return bool(self._loops) and (self.tests.reads_id or bool(self._holds(self._default_set(), self._loops).any()))

    def _default_set(self) -> int:
        """Return the set of tests of vertices without a record, where it is the same for all."""
        if self._default == _UNKNOWN:
            nobody = np.array([max(len(self._set), self._vertices.count)], np.int64)  # an id that nobody has
            self._default = int(self.tests.sets_of(nobody)[0])
        return self._default

    def _holds(self, number: int, texts: Iterable[str]) -> np.ndarray:
        found: np.ndarray = self.tests.holds[number][[self.tests.number[text] for text in texts]]
        return found

    def _make_room(self) -> None:
        room, needed = len(self._set), self._vertices.room
        if needed <= room:
            return
        more = needed - room
        self._set = np.append(self._set, np.full(more, _UNKNOWN, np.int32))
        self._is_attached = np.append(self._is_attached, np.zeros(more, bool))
        for name, mine in self._value_vertex.items():
            self._value_vertex[name] = np.append(mine, np.full(more, NO_VERTEX, np.int32))

    def _sets_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the sets of tests that vertices satisfy, by number (int32)."""
        found: np.ndarray = self._set[ids]
        is_unknown: np.ndarray = found == _UNKNOWN
        if is_unknown.any():
            unknown = np.unique(ids[is_unknown])
            if not self.tests.reads_id:
                is_known = self._table.are_known(unknown)
                self._set[unknown[~is_known]] = self._default_set()
                unknown = unknown[is_known]
            self._set[unknown] = self.tests.sets_of(unknown)
            found = self._set[ids]
        return found

    def _variants_of(self, label: int) -> list[_Variant]:
        """Return the labels of the edges of a label with tests of their ends."""
        found = self._variants.get(label)
        if found is None:
            name = self._labels.names[label]
            found = []
            if isinstance(name, str) or (isinstance(name, ConditionLabel) and not isinstance(name, NodeLabel)):
                own = StepTests.of(name.condition) if isinstance(name, ConditionLabel) else StepTests()
                text = name if isinstance(name, str) else name.label or ""
                is_end = isinstance(name, EdgeEnd)
                steps = [StepTests.of(one) for one in sorted(self._conditions_on(name if is_end else text))]
                steps = [one for one in steps if one.are_of_ends and own == StepTests(one.edge)]
                names = [(EdgeEnd if is_end else ConditionLabel)(text, one.condition) for one in steps]
                ids = self._ids_of(names)
                numbers = self.tests.number
                found = [
                    _Variant(one, *(tuple(numbers[test] for test in tests) for tests in (step.source, step.target)))
                    for one, step in zip(ids, steps, strict=True)
                ]
            self._variants[label] = found
        return found

    def _objects(self, targets: np.ndarray) -> np.ndarray:
        """Return the targets of edges, for links to edges that are vertices the targets of these."""
        is_edge = self._vertices.are_nameless(targets)
        return np.where(is_edge, self._vertices.edges.targets(targets), targets) if is_edge.any() else targets

    # --- edges of the stream ---------------------------------------------------------------------------------

    def extend(self, made: Operations) -> Operations:
        """Return operations of tuples with those that follow from facts of nodes behind them. O(operations)."""
        self._make_room()
        self._is_running = True
        pieces = self._tested(made)
        if self._attaches:
            inserts = np.flatnonzero((made.delete == 0) & (made.source >= 0))
            ends = np.concatenate([made.source[inserts], made.target[inserts]])
            is_new = ~self._is_attached[ends] & ~self._vertices.are_nameless(ends)
            if is_new.any():
                rows = np.concatenate([made.row[inserts]] * 2)[is_new]
                times = np.concatenate([made.timestamp[inserts]] * 2)[is_new]
                order = np.argsort(rows, kind="stable")
                ids, first = np.unique(ends[is_new][order], return_index=True)
                self._attach(ids, rows[order][first], times[order][first], pieces)
        return _with(made, pieces)

    def extend_tested(self, made: Operations) -> Operations:
        """Return operations with those on edges with tests of their ends behind them. O(operations)."""
        self._make_room()
        return _with(made, self._tested(made))

    def _tested(self, made: Operations) -> _Pieces:
        pieces = _Pieces()
        if self._has_steps:
            used = np.flatnonzero(np.bincount(made.label, minlength=1))
            for label in used.tolist():
                if not (variants := self._variants_of(label)):
                    continue
                mine = np.flatnonzero((made.label == label) & (made.source >= 0))
                source, target = made.source[mine], made.target[mine]
                of_source, of_target = self._sets_of(source), self._sets_of(self._objects(target))
                for variant in variants:
                    rows = mine[self._is_there(variant, of_source, of_target)]
                    columns = made.source[rows], variant.label, made.target[rows]
                    pieces.add(made.row[rows], *columns, made.timestamp[rows], made.delete[rows])
        return pieces

    def _is_there(self, variant: _Variant, of_source: np.ndarray, of_target: np.ndarray) -> np.ndarray:
        """Return for pairs of sets whether edges between such vertices have the label of a variant (bool)."""
        holds = self.tests.holds
        source, target = (np.all(holds[:, list(tests)], axis=1) for tests in (variant.source, variant.target))
        found: np.ndarray = np.asarray(source)[of_source] & np.asarray(target)[of_target]
        return found

    def _attach(self, ids: np.ndarray, row: np.ndarray, time: np.ndarray, pieces: _Pieces) -> None:
        """Add the loops and values of vertices that had none."""
        self._is_attached[ids] = True
        sets, inserts = self._sets_of(ids), np.zeros(len(ids), np.uint8)
        for text, label in zip(self._loops, self._ids_of([*map(_loop, self._loops)]), strict=True):
            some = np.flatnonzero(self.tests.holds[sets, self.tests.number[text]])
            pieces.add(row[some], ids[some], label, ids[some], time[some], inserts[some])
        for name, label in zip(self.values, self._ids_of([*map(_value, self.values)]), strict=True):
            self._make_room()
            self._value_vertex[name][ids] = found = self._value_vertices(name, ids)
            pieces.add(row, ids, label, found, time, inserts)

    def _value_vertices(self, name: str, ids: np.ndarray) -> np.ndarray:
        """Return the vertices that stand for the values of a property of vertices (int32)."""
        known, places = self._vertex_of_value[name], {}
        values = self.value_list(name, ids)
        new = [*dict.fromkeys(value for value in values if value not in known)]
        if new:
            reserved = self._vertices.reserve(len(new))
            places = dict(zip(new, reserved.tolist(), strict=True))
            known |= places
            nothing = np.zeros(len(new), np.int32)
            described = EdgeVertexColumns(
                nothing, nothing, nothing, np.full(len(new), NO_TIME), np.full(len(new), -1, np.int64), nothing + NO_VERTEX
            )
            kind = self.type_of(name)
            column = pa.array(new, pa.int64() if pa.types.is_timestamp(kind) else kind, from_pandas=False)
            self._vertices.edges.add(reserved, described, {f"@{name}": column})
            self._make_room()
        return np.array([known[value] for value in values], np.int32)

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a property of nodes."""
        return pa.string() if name == LABELS else self._table.types.by_name.get(name, pa.string())

    def has_type(self, name: str) -> bool:
        """Return whether the type of a property of nodes is known."""
        return name == LABELS or name in self._table.types.by_name

    def value_list(self, name: str, ids: np.ndarray) -> list[Any]:
        """Return the values of a property of vertices, None where they have none; times are integers."""
        if name == LABELS:
            return [json.dumps(labels, ensure_ascii=False) for labels in self._table.label_lists(ids)]
        column = self._table.column(name, ids)
        values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        return [_NAN if value != value else value for value in values] if pa.types.is_floating(column.type) else values

    # --- records ---------------------------------------------------------------------------------------------

    def load(self, records: NodeRecords) -> np.ndarray:
        """Apply records of different vertices before the first tuple, when there are no edges. Return their outcomes."""
        self._make_room()
        self._set[records.vertex] = _UNKNOWN
        return self._table.apply(records)

    def apply(
        self, records: NodeRecords, time: np.ndarray, graph: SnapshotGraph, parallel: Callable[[ParallelKeys], ParallelRows]
    ) -> Operations:
        """Apply records of different vertices to the table. Return the operations on the graph.

        `time` is the stream time of each record, and `row` of an operation its place. `parallel` returns the parallel edges
        that are read one by one. O(records · tests), and O(edges of the graph) where tests of paths change.
        """
        ids = records.vertex
        self._make_room()
        self._is_running = True
        before = self._sets_of(ids)
        was_attached = self._is_attached[ids]
        self._table.apply(records)
        pieces = _Pieces()
        self._set[ids] = after = self.tests.sets_of(ids)
        row = np.arange(len(ids))
        changed = np.flatnonzero(before != after)
        if self._has_steps and len(changed):
            self._flip(ids[changed], changed, before[changed], after[changed], graph, parallel, pieces)
        is_attached = was_attached | self._table.are_known(ids)
        self._is_attached[ids] = is_attached
        holds = self.tests.holds
        for text, label in zip(self._loops, self._ids_of([*map(_loop, self._loops)]), strict=True):
            number = self.tests.number[text]
            old, new = was_attached & holds[before, number], is_attached & holds[after, number]
            some = np.flatnonzero(old != new)
            pieces.add(row[some], ids[some], label, ids[some], time[some], old[some])
        for name, label in zip(self.values, self._ids_of([*map(_value, self.values)]), strict=True):
            some = np.flatnonzero(is_attached)
            new_vertex = self._value_vertices(name, ids[some])
            old_vertex = self._value_vertex[name][ids[some]]
            differs = old_vertex != new_vertex
            some, new_vertex, old_vertex = some[differs], new_vertex[differs], old_vertex[differs]
            leaves = old_vertex != NO_VERTEX
            gone = some[leaves]
            pieces.add(row[gone], ids[gone], label, old_vertex[leaves], time[gone], np.ones(len(gone), np.uint8))
            pieces.add(row[some], ids[some], label, new_vertex, time[some], np.zeros(len(some), np.uint8))
            self._value_vertex[name][ids[some]] = new_vertex
        return pieces.all()

    def _flip(
        self,
        ids: np.ndarray,
        rows: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        graph: SnapshotGraph,
        parallel: Callable[[ParallelKeys], ParallelRows],
        pieces: _Pieces,
    ) -> None:
        """Add the edges that enter or leave because vertices satisfy other tests. O(edges of the graph)."""
        edges, room = graph.edges, len(self._set)
        place = np.full(room, -1, np.int64)
        place[ids] = np.arange(len(ids))
        live = graph.live_edges()
        source, target = edges.source[live], self._objects(edges.target[live])
        touched = live[(place[source] >= 0) | (place[target] >= 0)]
        if not len(touched):
            return
        for label in np.unique(edges.label[touched]).tolist():
            if not (variants := self._variants_of(label)):
                continue
            mine = touched[edges.label[touched] == label]
            u, v = edges.source[mine], edges.target[mine]
            ends = self._objects(v)
            at_u, at_v = place[u], place[ends]
            new_u, new_v = self._sets_of(u), self._sets_of(ends)
            old_u, old_v = np.where(at_u >= 0, before[at_u], new_u), np.where(at_v >= 0, before[at_v], new_v)
            row_u, row_v = (np.where(at >= 0, rows[at], np.iinfo(np.int64).max) for at in (at_u, at_v))
            first, second = np.minimum(row_u, row_v), np.maximum(row_u, row_v)
            half_u = np.where(row_u <= row_v, new_u, old_u)
            half_v = np.where(row_v <= row_u, new_v, old_v)
            for variant in variants:
                states = [
                    self._is_there(variant, old_u, old_v),
                    self._is_there(variant, half_u, half_v),
                    self._is_there(variant, new_u, new_v),
                ]
                for step, row in enumerate((first, second)):
                    some = np.flatnonzero(states[step] != states[step + 1])
                    deletes = states[step][some]
                    times = edges.timestamp[mine[some]]
                    again, youngest = parallel(ParallelKeys(u[some], label, v[some], variant.label, deletes))
                    if again is not None:
                        some, times, deletes = some[again], youngest, deletes[again]
                    pieces.add(row[some], u[some], variant.label, v[some], times, deletes)

    # --- windows ---------------------------------------------------------------------------------------------

    def enter(self, graph: SnapshotGraph, *, facts_only: bool = False) -> tuple[Operations, list[int]]:
        """Return all edges that follow from facts and the edges of the graph, but for labels that have entered before.

        Return also the labels of the edges with tests, of which there are none with `facts_only`. O(edges · tests +
        vertices).
        """
        self._make_room()
        time = graph.time
        assert time is not None
        edges = graph.edges
        live = np.union1d(graph.live_edges(), graph.static_edges()) if self._attaches else graph.live_edges()
        is_fact = self._labels.are_facts()
        of_stream = live[~is_fact[edges.label[live]]]
        is_there = np.zeros(len(self._set), bool)
        is_there[self._table.vertices] = True
        if self._attaches:
            ends = np.concatenate([edges.source[of_stream], edges.target[of_stream]])
            is_there[ends[~self._vertices.are_nameless(ends)]] = True
        is_there |= self._is_attached
        ids = np.flatnonzero(is_there)
        pieces = _Pieces()
        self._attach(ids, np.zeros(len(ids), np.int64), np.full(len(ids), time), pieces)
        tested: list[int] = []
        if self._has_steps and not facts_only:
            live = graph.live_edges()
            for label in np.unique(edges.label[live]).tolist():
                mine = live[edges.label[live] == label]
                u, v = edges.source[mine], edges.target[mine]
                for variant in self._variants_of(label):
                    tested.append(variant.label)
                    some = mine[self._is_there(variant, self._sets_of(u), self._sets_of(self._objects(v)))]
                    columns = edges.source[some], variant.label, edges.target[some], edges.timestamp[some]
                    pieces.add(np.zeros(len(some), np.int64), *columns, np.zeros(len(some), np.uint8))
        made = pieces.all()
        self._is_running = True
        is_new = np.array([name not in self._entered for name in self._labels.names] or [False])
        self._note_entered()
        return Operations(*(column[is_new[made.label]] for column in made)), tested

    def _note_entered(self) -> None:
        """Note that the graph has all edges of the labels that queries read now."""
        if not self._is_running:
            return
        self._entered |= {*map(_loop, self._loops), *map(_value, self.values)}
        names = self._labels.names
        self._entered |= {names[variant.label] for variants in self._variants.values() for variant in variants}

    # --- collection ------------------------------------------------------------------------------------------

    def unused(self, graph: SnapshotGraph) -> Operations:
        """Return the deletes of the edges of vertices that have neither a record nor an edge of the stream. O(edges)."""
        pieces = _Pieces()
        if (self._loops or self.values) and self._is_attached.any():
            self._make_room()
            edges = graph.edges
            is_fact = self._labels.are_facts()
            live = np.union1d(graph.live_edges(), graph.static_edges())
            of_stream = live[~is_fact[edges.label[live]]]
            is_used = np.zeros(len(self._set), bool)
            is_used[edges.source[of_stream]] = is_used[edges.target[of_stream]] = True
            is_used[self._table.vertices] = True
            gone = np.flatnonzero(self._is_attached & ~is_used)
            self._is_attached[gone] = False
            of_gone = live[is_fact[edges.label[live]]]
            is_gone = np.zeros(len(self._set), bool)
            is_gone[gone] = True
            of_gone = of_gone[is_gone[edges.source[of_gone]]]
            for label in np.unique(edges.label[of_gone]).tolist():
                mine = of_gone[edges.label[of_gone] == label]
                time = np.full(len(mine), graph.time, np.int64)
                ends = edges.source[mine], label, edges.target[mine]
                pieces.add(np.zeros(len(mine), np.int64), *ends, time, np.ones(len(mine), np.uint8))
            for mine in self._value_vertex.values():
                mine[gone] = NO_VERTEX
        return pieces.all()

    def release(self, ids: np.ndarray) -> None:
        """Forget vertices whose ids become free."""
        ids = ids[ids < len(self._set)]
        self._set[ids] = _UNKNOWN
        self._is_attached[ids] = False
        if not self.values:
            return
        for mine in self._value_vertex.values():
            mine[ids] = NO_VERTEX
        is_free = np.zeros(len(self._set), bool)
        is_free[ids] = True
        for name, known in self._vertex_of_value.items():
            self._vertex_of_value[name] = {value: vertex for value, vertex in known.items() if not is_free[vertex]}

    def value_vertices(self) -> np.ndarray:
        """Return the vertices that stand for values (int64)."""
        return np.array([vertex for known in self._vertex_of_value.values() for vertex in known.values()], np.int64)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        values = sum(200 * len(known) for known in self._vertex_of_value.values())
        return self._set.nbytes + self._is_attached.nbytes + sum(one.nbytes for one in self._value_vertex.values()) + values


class ParallelKeys(NamedTuple):
    """Edges of the graph, with the label that follows from theirs."""

    source: np.ndarray
    label: int
    target: np.ndarray
    variant: int
    delete: np.ndarray


ParallelRows = tuple[np.ndarray | None, np.ndarray]
"""For each parallel edge the place of its edge among the keys (None if they are not read one by one), and its timestamp."""


def _loop(test: str) -> NodeTest:
    return NodeTest("node", test)


def _value(name: str) -> NodeValue:
    return NodeValue("value", name)
