"""A running pattern with edge variables or a filter: the solutions of its join, filtered, with values in place of edges.

In the join, edges are vertices, and all variables are columns (`rpq.language.pattern.Pattern.to_join`). Its changes are
filtered, reduced to the selected columns, and then netted or, under DISTINCT, counted. Since the values of such a vertex
never change, all steps except the last are linear. Values of edges are terms of the query
(`TermIds`), so that rows with equal values are equal.

In the network of a MATCH text, `EdgeConditionNode` and `EdgeValueNode` are the operators for such conditions and values.
There, rows may leave a variable unbound, as those of an optional part do: values of an unbound edge are null, and a
condition that compares null does not hold. Both operators are linear.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import WhereError
from rpq.language.edge_variables import ALWAYS, BindingFilter, Value, step_of
from rpq.language.kinds import QueryKind, content_of, read_content
from rpq.language.pattern import edge_column, is_of_vertex
from rpq.language.predicate import ColumnKind, Predicate, UntypedColumn, kind_of_type
from rpq.language.protocol import Figures, PresentGraph, Resources
from rpq.language.query import EdgeValuesQuery
from rpq.language.sparql.algebra import BETWEEN_LABELS, EdgeCondition, EdgeValue, column_of_value
from rpq.language.sparql.values.moments import date_time_of
from rpq.operators.bags.product import DistinctBag
from rpq.operators.patterns.joins.binding_search import Binding
from rpq.operators.patterns.meanings import comparisons_of, variable
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.pattern_query import RunningPattern
from rpq.operators.patterns.rows.solutions import PartPlace
from rpq.operators.patterns.witness import AtomWitness, Step, Vertex, Witness, bindings_of
from rpq.operators.relational.nodes import Node
from rpq.operators.relational.values.term_ids import FIRST, TermIds
from rpq.rows.delta import Delta, IdRows, ids_of_columns
from rpq.rows.typed_columns import ValueColumns, texts_to_values, value_texts
from rpq.rows.weighted_rows import UNBOUND, WeightedRows, as_changes
from rpq.stream.chunk import Chunk
from rpq.stream.durations import NANOSECONDS
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.edge_vertices import NO_VERTEX, EdgeVertices
from rpq.stream.names.list_terms import encode_list
from rpq.stream.names.terms import XSD, lexical_form, literal_text
from rpq.stream.names.vertices import VertexDictionary, as_vertex

_MAX_ROWS = 1 << 16
"""The number of rows for which a filter is evaluated at once."""


class BoundFilter:
    """A filter over the bindings of a join with these columns."""

    def __init__(self, condition: BindingFilter, columns: Sequence[str]) -> None:
        self._condition = condition
        self.text = condition.text
        self._place = {name: place for place, name in enumerate(columns)}
        self._predicate: Predicate | None = None
        self._types: object = None
        self.non_numeric = 0
        """The number of rows of the last call in which the filter needs a number and finds a text that is none."""

    def are_accepted(self, rows: np.ndarray, vertices: VertexDictionary, unit: str | None) -> np.ndarray:
        """Return for which rows the filter holds. O(rows)."""
        edges = vertices.edges
        if self._predicate is None or self._types != (dict(edges.types.by_name), unit):
            self._types = dict(edges.types.by_name), unit
            self._predicate = self._bound(edges, vertices.kind, unit)
        pieces = (rows[first : first + _MAX_ROWS] for first in range(0, len(rows), _MAX_ROWS))
        found = []
        self.non_numeric = 0
        for piece in pieces:
            found.append(self._predicate.mask(self._columns(piece, vertices), len(piece))[0])
            if (non_numeric := self._predicate.non_numeric) is not None:
                self.non_numeric += int(np.count_nonzero(non_numeric))
        return np.concatenate([np.zeros(0, bool), *found])

    def _bound(self, edges: EdgeVertices, kind: str | None, unit: str | None) -> Predicate:
        """Return the filter for the current types of properties. Integer vertices are numbers if the filter allows it."""

        def kind_of(value: Value) -> ColumnKind:
            if value.kind == "timestamp":
                return ColumnKind(key=value.column, kind="time", unit=unit)
            if value.key in edges.types.loose:
                return ColumnKind(key=value.column, kind="untyped")
            if value.key not in edges.types.by_name:
                return ColumnKind(key=value.column, kind="unknown")
            of_type, own_unit = kind_of_type(edges.types.by_name[value.key])
            return ColumnKind(key=value.column, kind=of_type, unit=own_unit)

        where = self._condition.where
        if kind == "int64":
            try:
                return Predicate(where, self._condition.column_kinds(kind_of, vertex="number"))
            except WhereError:  # an integer is compared with a text, as a loose value
                pass
        return Predicate(where, self._condition.column_kinds(kind_of))

    def _columns(self, rows: np.ndarray, vertices: VertexDictionary) -> dict[str, pa.Array]:
        edges, found = vertices.edges, {}
        for value in self._condition.values:
            ids = rows[:, self._place[column_of_value(value)]]
            if value.kind == "vertex":
                found[value.column] = vertices.names_of(ids)
            elif value.kind == "timestamp":
                found[value.column] = edges.timestamps(ids)
            else:
                found[value.column] = edges.values(value.key, ids)
        for same in self._condition.same_terms:
            left, right = (rows[:, self._place[column_of_value(one)]] for one in (same.left, same.right))
            if same.left.kind == "number":
                left, right = edges.numbers(left), edges.numbers(right)
            found[same.column] = pa.array(left == right)
        return found


class RunningEdgeValues(RunningPattern):
    """A registered pattern with edge variables or a filter."""

    question: EdgeValuesQuery
    nets_events = True
    reports_joins = False
    needs_room = True

    def __init__(self, question: EdgeValuesQuery, resources: Resources) -> None:
        pattern, columns = question.pattern, question.join.columns
        self._values = pattern.values
        self._places = [columns.index(column_of_value(value)) for value in pattern.values]
        self._filter = None if pattern.filter is None else BoundFilter(pattern.filter, columns)
        self._comparisons = comparisons_of(pattern.filter)
        self._distinct = DistinctBag(len(pattern.values)) if question.distinct else None
        self._vertices: VertexDictionary | None = None
        self._terms = TermIds()
        self._own_columns = question.columns
        is_typed = isinstance(self._own_columns, ValueColumns)
        if isinstance(self._own_columns, ValueColumns):
            self._own_columns.type_of = self._type_of
        self.term_texts = self._terms if is_typed else None
        self.holds_vertices = is_typed
        self._differing_places = [place for place, name in enumerate(columns) if is_of_vertex(name)]
        self._is_isomorphic = question.matching == "isomorphism"
        self._constants = sorted({constant.name for constant in pattern.constants}) if self._is_isomorphic else []
        super().__init__(question, resources)
        self.is_divided = self.is_divided or is_typed

    @property
    def columns(self) -> tuple[str, ...]:
        return self._own_columns

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        super().make_room(vertices, new_ids, graph)
        self._vertices = vertices
        if self.term_texts is not None:
            self._terms.add_vertices(vertices, new_ids)

    def _type_of(self, column: str) -> pa.DataType | None:
        """Return the type of a column with values of edges; None while it is not known."""
        if self._vertices is None:
            return None
        edges, value = self._vertices.edges, next(one for one in self._values if one.column == column)
        return edges.identity_type if value.kind == "number" else edges.types.by_name.get(value.key)

    # --- from bindings to rows -------------------------------------------------------------------------------

    def _select(self, changes: WeightedRows) -> WeightedRows:
        """Return changes of the join that the filter passes, with the columns of rows."""
        passing = self._solution_mask(changes.rows)
        changes = changes if passing is None else changes.select(passing)
        if not len(changes):
            return WeightedRows.empty(len(self._values))
        return changes.with_rows(self._columns_of_rows(changes.rows))

    def _solution_mask(self, rows: np.ndarray) -> np.ndarray | None:
        """Return which bindings of the join are solutions, or None if all are."""
        assert self._vertices is not None
        found = self._are_different(rows) if self._is_isomorphic else None
        if not self._host.is_whole:
            own = self._are_own(rows)
            found = own if found is None else found & own
        if self._filter is None or not len(rows):
            return found
        if found is None:
            return self._filter.are_accepted(rows, self._vertices, self._unit)
        found[found] = self._filter.are_accepted(rows[found], self._vertices, self._unit)
        return found

    def _columns_of_rows(self, bindings: np.ndarray) -> np.ndarray:
        """Return the rows of solutions of the join: (row, column), the ids of vertices and of values."""
        rows = np.empty((len(bindings), len(self._values)), np.int32)
        for number, (value, place) in enumerate(zip(self._values, self._places, strict=True)):
            ids = bindings[:, place]
            if value.kind != "vertex":
                rows[:, number] = self._value_ids(value, ids)
            else:
                rows[:, number] = ids if self.term_texts is None else self._terms.replace_aliases(ids)
        return rows

    def _are_own(self, rows: np.ndarray) -> np.ndarray:
        """Return which bindings belong to this share. Selected vertices decide; without any, all are the first's."""
        if self._cell is None:
            return np.full(len(rows), self._is_first_share)
        return self._host.are_own(rows, tuple(one._replace(column=self._places[one.column]) for one in self._cell))

    def _are_different(self, rows: np.ndarray) -> np.ndarray:
        """Return in which rows all vertices and constants are pairwise different. Edges do not matter."""
        found = np.ones(len(rows), bool)
        columns: list[np.ndarray | int | None] = [rows[:, place] for place in self._differing_places]
        columns += [self._host.constants.id_of(name) for name in self._constants]
        for one, other in combinations(columns, 2):
            if isinstance(one, np.ndarray):
                found &= one != other
        return found

    @property
    def _unit(self) -> str | None:
        assert self._vertices is not None
        return self._vertices.edges.unit

    def _value_ids(self, value: Value, vertices: np.ndarray) -> np.ndarray:
        """Return the ids of values of edges. O(rows, and the values of different edges)."""
        assert self._vertices is not None
        edges = self._vertices.edges
        different, places = np.unique(vertices, return_inverse=True)
        if value.kind in ("property", "fact"):
            found = edges.values(value.key, different)
        elif value.kind == "number":
            found = edges.identities(different)
        else:
            found = edges.timestamps(different)
        texts = value_texts(found)
        intern = self._terms.intern
        return np.array([intern(text) for text in texts], np.int32)[places.reshape(-1)]

    def _net(self, changes: WeightedRows) -> WeightedRows:
        return changes.net() if self._distinct is None else self._distinct.change(changes)

    def delta(self, parts: dict[PartPlace, Delta], changed: Mapping[int, Delta]) -> Delta:
        events, changes = as_changes(parts.values(), first=self._host.first)
        if self._is_direct:
            (joined,) = changes
        else:
            joined = self._solutions.change(dict(zip(parts, changes, strict=True)))
        change = self._net(self._select(joined))
        if self._filter is not None and self._vertices is not None:
            self._vertices.edges.count_non_numeric(self._filter.text, self._filter.non_numeric)
        if self.question.semantics == "implicit":
            change = change.select((change.weights > 0) | ~self._host.is_silent(events[:, 0])[change.events])
        return self._count_rows(change.delta(events[:, 0], events[:, 1]))

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        self._fill(time, chunk, *slides, quiet=quiet)
        if chunk is None:
            return []
        answers = self._select(WeightedRows.insertion_of(self._ids_of_answers()))
        if self._distinct is not None:
            self._distinct.clear()
            answers = self._distinct.change(answers)
        return [] if quiet else [self._count_rows(answers.delta(np.array([1]), np.array([time])))]

    def _answer(self) -> np.ndarray:
        if self._vertices is None:
            return np.zeros((0, len(self._values)), np.int32)
        rows = self._select(WeightedRows.insertion_of(self._ids_of_answers())).rows
        return rows if self._distinct is None else np.unique(rows, axis=0)

    def answers(self) -> list[IdRows]:
        return [ids_of_columns(np.ascontiguousarray(self._answer(), np.int32))]

    def figures(self) -> Figures:
        edges, cells = self._relations.sizes(None if self._graph is None else self._graph.edges)
        return self._figures(answers=len(self._answer()), edges=edges, cells=cells)

    # --- witnesses -------------------------------------------------------------------------------------------

    def ids_of_answer(self, values: Sequence[Any], vertices: VertexDictionary) -> tuple[int, ...] | None:
        found = []
        for value, answer_value in zip(self._values, values, strict=True):
            identity = id_of_value(value.kind, value.column, answer_value, vertices, self._terms, self._own_columns)
            if identity is None:
                return None
            found.append(identity)
        return tuple(found)

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Witness | None:
        edges, vertices, labels, values = graph
        binding = self._binding_of(answer, vertices)
        if binding is None:
            return None

        def name_of(vertex: int) -> Vertex:
            """Return the name of a vertex, and for an edge, which has none, its id."""
            return vertex if vertices.are_nameless(np.array([vertex]))[0] else vertices.name_of(vertex)

        joined = self._witness_of(binding, edges, name_of, labels, values)
        assert joined is not None, "a binding has a witness"
        of_join, atoms = iter(joined.atoms), []
        for atom in self.question.pattern.atoms:
            if atom.fact is not None:
                continue
            found = next(of_join)
            if atom.variable is not None:
                next(of_join)  # from the edge to its other end
                first = found.steps[0].source
                edge = binding[variable(edge_column(atom.variable))]
                expression = str(atom.expression)
                step = step_of_edge(expression, first, edge, vertices, labels, has_values=values is not None)
                found = AtomWitness(atom=str(atom), steps=(step,))
            atoms.append(replace(found, atom=str(atom)))
        return Witness(
            binding=tuple(self._named_values(binding, vertices)),
            atoms=tuple(atoms),
            edges=frozenset(f"?{name}" for name in self.question.pattern.edge_variables),
        )

    def _binding_of(self, answer: tuple[int, ...], vertices: VertexDictionary) -> Binding | None:
        """Return a solution of the join that gives an answer. O(the cost of finding those with its vertices)."""
        bound: Binding = {}
        for value, identity in zip(self._values, answer, strict=True):
            if value.kind == "vertex":
                text = self._terms.text(identity) if identity >= FIRST else None
                bound[variable(value.variable)] = (
                    identity if text is None else vertices.id_of(as_vertex(text, vertices.kind))
                )
        if any(vertex < 0 for vertex in bound.values()):
            return None
        names = [variable(name) for name in self._joined_pattern.columns]
        for _, parts in self._meanings_with_parts():
            bindings = bindings_of(parts, bound, self._host)
            while some := [*islice(bindings, _MAX_ROWS)]:
                rows = np.array([[binding[name] for name in names] for binding in some], np.int32)
                rows = rows.reshape(len(some), len(names))
                passing = self._solution_mask(rows)
                is_solution = np.ones(len(rows), bool) if passing is None else passing
                is_solution &= (self._columns_of_rows(rows) == np.array(answer, np.int32)).all(axis=1)
                if is_solution.any():
                    return some[int(np.argmax(is_solution))]
        return None

    def _named_values(self, binding: Binding, vertices: VertexDictionary) -> Iterator[tuple[str, Any]]:
        """Yield the variables and blank nodes of a binding with their values. The values of edges depend on their
        identity."""
        of_edges = {edge_column(name): name for name in self.question.pattern.edge_variables}
        for name in self._joined_pattern.columns:
            identity = binding[variable(name)]
            if is_of_vertex(name):
                yield name if name.startswith("_:") else f"?{name}", vertices.name_of(identity)
            elif name in of_edges and vertices.edges.have_identities:
                yield f"?{of_edges[name]}", vertices.edges.identities(np.array([identity]))[0].as_py()

    # --- terms -----------------------------------------------------------------------------------------------

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        return np.array([self._terms.intern(text) for text in texts], np.int32)

    def retained_vertices(self) -> np.ndarray:
        return self._terms.pinned_vertices()

    @property
    def stored_ids(self) -> np.ndarray:
        """The ids of vertices and terms that it stores."""
        return np.zeros(0, np.int32) if self._distinct is None else self._distinct.ids()

    def retain(self, waiting: np.ndarray) -> None:
        self._terms.retain(np.concatenate([self.stored_ids, waiting]))

    @property
    def nbytes(self) -> int:
        stored = 0 if self._distinct is None else self._distinct.nbytes
        return super().nbytes + self._terms.nbytes + stored

    def _check(self) -> None:
        super()._check()
        if self._distinct is not None and self._vertices is not None:
            self._distinct.check()
            stored = {tuple(row) for row in self._distinct.rows().tolist()}
            assert stored == {tuple(row) for row in self._answer().tolist()}, "other rows are stored than there are"


def id_of_value(
    kind: str, column: str, value: Any, vertices: VertexDictionary, terms: TermIds, columns: tuple[str, ...]
) -> int | None:
    """Return the id in rows of a vertex, if that is the `kind`, or of a value of an edge, or None if no row can have it."""
    if kind == "vertex":
        identity = vertices.id_of(value)
        return None if identity < 0 else int(terms.replace_aliases(np.array([identity]))[0])
    text = _text_of_value(kind, column, value, columns)
    return None if text is None and value is not None else terms.intern(text)


def _text_of_value(kind: str, column: str, value: Any, columns: tuple[str, ...]) -> str | None:
    """Return the text for a value of an edge in rows, or None for a null and for values that no edge can have.

    `kind` is that of a `Value`, `column` one of the columns, which know the types of properties and ids. A text may
    stand for a value of another type, as in requests to a server.
    """
    of_type = pa.int64()
    if kind != "timestamp":
        assert isinstance(columns, ValueColumns)
        known = columns.type_of(column)
        of_type = pa.string() if known is None else known
    try:
        is_text = isinstance(value, str) and not pa.types.is_string(of_type)
        array = texts_to_values([value], of_type) if is_text else pa.array([value], of_type, from_pandas=False)
        if is_text and array.null_count and pa.types.is_timestamp(of_type):
            array = pa.array([value]).cast(of_type)  # a date as JSON has it
    except (pa.ArrowException, OverflowError):
        return None
    return value_texts(array)[0]


def step_of_edge(
    expression: str, first: Vertex, edge: int, vertices: VertexDictionary, labels: Sequence[str], *, has_values: bool
) -> Step:
    """Return the edge that is a vertex, in the direction in which an expression of one step walks it from a vertex."""
    edges, ids = vertices.edges, np.array([edge])
    (source, label, target, _, _, _) = (column.item() for column in edges.columns(ids))
    conditions = step_of(expression).conditions_on(labels[label])
    if source != target:
        against = first != vertices.name_of(source)
    elif None in conditions:
        against = conditions[0] is None
    else:  # a loop that may be walked both ways is walked along its direction where it can be
        against = conditions[0] != ALWAYS and not edges.are_current(ids)[0]
    found = {name: edges.values(name, ids)[0].as_py() for name in edges.properties} if has_values else None
    return Step(
        source=vertices.name_of(source),
        label=labels[label],
        target=vertices.name_of(target),
        timestamp=edges.timestamps(ids)[0].as_py(),
        against=against,
        properties=None if found is None else {name: value for name, value in found.items() if value is not None},
    )


KIND = QueryKind(
    name="edge values",
    question=EdgeValuesQuery,
    start=RunningEdgeValues,
    to_json=content_of,
    read=partial(read_content, kind=EdgeValuesQuery),
    host=PatternHost,
)


# --- conditions and values of edges as operators of a network ------------------------------------------------


class BindingCondition(BoundFilter):
    """A filter over rows some of whose variables are unbound, or terms that are no vertices."""

    def __init__(self, condition: EdgeCondition, columns: Sequence[str], terms: TermIds) -> None:
        super().__init__(condition.filter, columns)
        self._terms = terms

    def _columns(self, rows: np.ndarray, vertices: VertexDictionary) -> dict[str, pa.Array]:
        found = {}
        for value in self._condition.values:
            ids = rows[:, self._place[column_of_value(value)]]
            found[value.column] = (
                self._names(ids, vertices) if value.kind == "vertex" else edge_values(vertices.edges, value, ids)
            )
        for same in self._condition.same_terms:
            left, right = (rows[:, self._place[column_of_value(one)]] for one in (same.left, same.right))
            missing = (left == UNBOUND) | (right == UNBOUND)
            if same.left.kind == "number":
                left, right = (vertices.edges.numbers(np.where(ids == UNBOUND, 0, ids)) for ids in (left, right))
            found[same.column] = pa.array(left == right, mask=missing)
        return found

    def _names(self, ids: np.ndarray, vertices: VertexDictionary) -> pa.Array:
        """Return the names of vertices as in the stream, null for unbound ones."""
        if ((ids >= 0) & (ids < FIRST)).all():
            return vertices.names_of(ids)
        texts = self._terms.texts(ids)
        if vertices.kind != "int64":
            return pa.array(texts, pa.string())
        return pa.array([None if text is None else int(text) for text in texts], pa.int64())


def edge_values(edges: EdgeVertices, value: Value, ids: np.ndarray) -> pa.Array:
    """Return a value of edges, null for unbound ones. O(ids)."""
    is_bound = ids != UNBOUND
    bound = ids[is_bound]
    if value.kind == "timestamp":
        found = pa.array(edges.timestamps(bound))
    elif value.kind == "number":
        found = edges.identities(bound)
    elif value.kind == "label":
        found = edges.labels(bound)
    else:
        found = edges.values(value.key, bound)
    if is_bound.all():
        return found
    return found.take(pa.array(np.cumsum(is_bound) - 1, mask=~is_bound))


def value_ids(formula: EdgeValue, ids: np.ndarray, terms: TermIds) -> np.ndarray:
    """Return a value of edges as ids of terms (int32), unbound where the value is null. O(ids)."""
    assert terms.vertices is not None
    edges, value = terms.vertices.edges, formula.value
    different, places = np.unique(ids, return_inverse=True)
    if value.kind in ("source", "target", "edge"):
        return _ends(edges, value, different, terms)[places.reshape(-1)]
    values = edge_values(edges, value, different)
    if formula.is_typed:
        texts = typed_terms(edges, value, values)
        return np.array([terms.intern(text) for text in texts], np.int32)[places.reshape(-1)]
    texts = value_texts(values)
    if formula.is_number and value.key in edges.types.loose:
        loose = UntypedColumn(values)
        non_numeric = pc.and_(loose.is_valid(), loose.numbers().is_null()).to_numpy(zero_copy_only=False)
        edges.count_non_numeric(value.column, int(np.count_nonzero(non_numeric[places])))
    if formula.is_summed and pa.types.is_floating(values.type):
        texts = [None if text is None else literal_text(_FLOATS.get(text, text), XSD + "double") for text in texts]
    if formula.is_summed and pa.types.is_string(values.type) and value.key not in edges.types.loose:
        texts = [None if text is None else literal_text(text) for text in texts]
    return np.array([terms.intern(text) for text in texts], np.int32)[places.reshape(-1)]


def _ends(edges: EdgeVertices, value: Value, ids: np.ndarray, terms: TermIds) -> np.ndarray:
    """Return the vertices from which, or to which, edges lead, or the vertices that stand for them (int32).

    An edge that may be walked both ways is one of two vertices, the lesser one here. Unbound edges stay unbound.
    """
    is_bound = ids != UNBOUND
    columns = edges.columns(ids[is_bound])
    found = np.full(len(ids), UNBOUND, np.int32)
    if value.kind == "edge":
        found[is_bound] = np.where(columns.twin == NO_VERTEX, ids[is_bound], np.minimum(ids[is_bound], columns.twin))
        return found
    found[is_bound] = terms.replace_aliases(columns.source if value.kind == "source" else columns.target)
    return found


def typed_terms(edges: EdgeVertices, value: Value, values: pa.Array) -> list[str | None]:
    """Return a value of edges as terms: literals, plain texts of loose values and identities, None for nulls. O(values)."""
    if value.kind == "number":
        return value_texts(values)
    if value.is_list:
        return [None if labels is None else encode_list(json.loads(labels)) for labels in values.to_pylist()]
    if value.kind == "timestamp" and edges.unit is not None:
        values = values.cast(pa.timestamp(edges.unit, "UTC"))
    elif value.key in edges.types.loose:
        return [_loose_term(text) if text else None for text in values.to_pylist()]
    return literals_of(values)


def literals_of(values: pa.Array) -> list[str | None]:
    """Return values as literals, None for nulls and for times that have no dateTime. O(values)."""
    kind, texts = values.type, value_texts(values)
    if pa.types.is_timestamp(kind):
        return [None if text is None else _time_term(int(text), kind) for text in texts]
    if pa.types.is_floating(kind):
        return [None if text is None else literal_text(_FLOATS.get(text, text), XSD + "double") for text in texts]
    datatype = XSD + next((name for is_of, name in _DATATYPES if is_of(kind)), "string")
    return [None if text is None else literal_text(text, datatype) for text in texts]


_DATATYPES = (
    (pa.types.is_integer, "integer"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_decimal, "decimal"),
)
"""The names of types of XML Schema."""


def _loose_term(text: str) -> str:
    """Return the term of a loose value: a literal if the text would be read as one."""
    return literal_text(text) if text.startswith('"') else text


def _time_term(number: int, kind: pa.DataType) -> str | None:
    """Return a time as a dateTime, in UTC if its type has a zone; None outside of the years that have one."""
    text = date_time_of(number, NANOSECONDS["s"] // NANOSECONDS[kind.unit])
    if text is None:
        return None
    return literal_text(text if kind.tz is not None else text.removesuffix("Z"), XSD + "dateTime")


class EdgeConditionNode(Node):
    """A filter of a pattern: the rows for which a condition holds. Δ Filter(C, Ω) = Filter(C, ΔΩ)."""

    is_linear = True

    def __init__(self, inner: Node, condition: EdgeCondition, terms: TermIds) -> None:
        missing = [
            column_of_value(value) for value in condition.filter.values if column_of_value(value) not in inner.columns
        ]
        assert not missing, (missing, inner.columns)
        super().__init__(inner.columns, inner.sure, inner)
        self._condition = BindingCondition(condition, inner.columns, terms)
        self._terms = terms
        self._text = condition.filter.text

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return change
        vertices = self._terms.vertices or VertexDictionary()  # before the first vertex nothing is bound
        accepted = self._condition.are_accepted(change.rows, vertices, vertices.edges.unit)
        vertices.edges.count_non_numeric(self._text, self._condition.non_numeric)
        return change.select(accepted)

    def describe(self) -> str:
        return f"filter {self._text}"


def label_ids(record: np.ndarray, more: np.ndarray, terms: TermIds, *, is_typed: bool = False) -> np.ndarray:
    """Return the lists of labels of nodes as ids of terms (int32): those of records, and others. O(rows).

    A list is a text in JSON or, if it `is_typed`, a literal.
    """
    assert terms.vertices is not None
    pairs, places = np.unique(np.column_stack([record, more]), axis=0, return_inverse=True)
    of_records = edge_values(terms.vertices.edges, Value("fact", "", "labels"), pairs[:, 0]).to_pylist()
    found = []
    for labels, others in zip(of_records, terms.texts(pairs[:, 1]), strict=True):
        if labels is not None and others is not None:
            merged = sorted({*json.loads(labels), *lexical_form(others).split(BETWEEN_LABELS)})
            labels = json.dumps(merged, ensure_ascii=False)
        found.append(terms.intern(encode_list(json.loads(labels)) if is_typed and labels is not None else labels))
    return np.array(found, np.int32)[places.reshape(-1)]


class EdgeValueNode(Node):
    """The rows with a value of an edge as one more column. Δ Extend(Ω) = Extend(ΔΩ).

    For aggregates, floats and texts are literals, so that no text is taken for a number; loose values are plain.
    """

    is_linear = True

    def __init__(self, inner: Node, name: str, formula: EdgeValue, terms: TermIds) -> None:
        super().__init__((*inner.columns, name), inner.sure, inner)
        self._place_of_edge = inner.columns.index(column_of_value(formula.value))
        self._formula = formula
        self._terms = terms

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        rows = np.full((len(change), self.width), UNBOUND, np.int32)
        rows[:, :-1] = change.rows
        if self._terms.vertices is None:  # then nothing is bound
            return change.with_rows(rows)
        ids = change.rows[:, self._place_of_edge]
        if self._formula.more is None:
            rows[:, -1] = value_ids(self._formula, ids, self._terms)
        else:
            more = change.rows[:, self.columns.index(self._formula.more)]
            rows[:, -1] = label_ids(ids, more, self._terms, is_typed=self._formula.is_typed)
        return change.with_rows(rows)

    def describe(self) -> str:
        return f"bind {self._formula.value.column}"


_FLOATS = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
