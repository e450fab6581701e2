"""A running pattern with edge variables or a filter: the solutions of its join, filtered, with values in place of edges.

In the join edges are vertices, and all variables are columns (`rpq.language.pattern.Pattern.joined`). Its changes are
filtered, their columns become those that are selected, and what is left is netted or, under DISTINCT, counted. Since what is
known of such a vertex never changes, all this is linear but for the last step. Values of edges are terms of the query
(`TermIds`), so that rows with equal values are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa

from rpq.errors import QueryError
from rpq.language.edge_variables import Filter, Value
from rpq.language.filter_columns import filter_kinds
from rpq.language.kinds import Kind, pattern_query_json, read_pattern_query
from rpq.language.pattern import edge_column
from rpq.language.predicate import ColumnKind, Predicate, kind_of_type
from rpq.language.protocol import Figures, Resources
from rpq.language.query import EdgeValuesQuery
from rpq.language.where import WhereError
from rpq.operators.bags.product import Distinct
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.pattern_query import RunningPattern
from rpq.operators.patterns.rows.solutions import Place
from rpq.operators.relational.term_ids import TermIds
from rpq.rows.delta import Delta, IdRows, ids_of_columns
from rpq.rows.typed_columns import ValueColumns, value_texts
from rpq.rows.weighted_rows import WeightedRows, as_changes
from rpq.stream.chunk import Chunk
from rpq.stream.edge_vertices import EdgeVertices
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.vertices import VertexDictionary

_MOST_ROWS = 1 << 16
"""The number of rows that a filter sees at once."""


class BoundFilter:
    """A filter over the bindings of a join, whose columns these are."""

    def __init__(self, condition: Filter, columns: Sequence[str]) -> None:
        self._condition = condition
        self._place = {name: place for place, name in enumerate(columns)}
        self._predicate: Predicate | None = None
        self._types: object = None

    def are_accepted(self, rows: np.ndarray, vertices: VertexDictionary, unit: str | None) -> np.ndarray:
        """Return for which rows the filter holds. O(rows)."""
        edges = vertices.edges
        if self._predicate is None or self._types != (dict(edges.types.known), unit):
            self._types = dict(edges.types.known), unit
            self._predicate = self._bound(edges, vertices.kind, unit)
        pieces = (rows[first : first + _MOST_ROWS] for first in range(0, len(rows), _MOST_ROWS))
        found = [self._predicate.keep(self._columns(piece, vertices), len(piece))[0] for piece in pieces]
        return np.concatenate([np.zeros(0, bool), *found])

    def _bound(self, edges: EdgeVertices, kind: str | None, unit: str | None) -> Predicate:
        """Return the filter over the types that properties have; integer vertices are numbers where the filter allows it."""

        def kind_of(value: Value) -> ColumnKind:
            if value.kind == "timestamp":
                return ColumnKind(key=value.column, kind="time", unit=unit)
            if value.name in edges.types.loose:
                return ColumnKind(key=value.column, kind="untyped")
            if value.name not in edges.types.known:
                return ColumnKind(key=value.column, kind="unknown")
            of_type, own_unit = kind_of_type(edges.types.known[value.name])
            return ColumnKind(key=value.column, kind=of_type, unit=own_unit)

        where = self._condition.where
        if kind == "int64":
            try:
                return Predicate(where, filter_kinds(self._condition, kind_of, vertex="number"))
            except WhereError:  # an integer is compared with a text, as a loose value
                pass
        return Predicate(where, filter_kinds(self._condition, kind_of))

    def _columns(self, rows: np.ndarray, vertices: VertexDictionary) -> dict[str, pa.Array]:
        edges, found = vertices.edges, {}
        for value in self._condition.values:
            ids = rows[:, self._place[_column_of(value)]]
            if value.kind == "vertex":
                found[value.column] = vertices.names_of(ids)
            elif value.kind == "timestamp":
                found[value.column] = pa.array(edges.timestamps(ids))
            else:
                found[value.column] = edges.values(value.name, ids)
        for same in self._condition.same:
            left, right = (rows[:, self._place[_column_of(one)]] for one in (same.left, same.right))
            if same.left.kind == "number":
                left, right = edges.numbers(left), edges.numbers(right)
            found[same.column] = pa.array(left == right)
        return found


def _column_of(value: Value) -> str:
    """Return the column of a join in which a value is found."""
    return value.variable if value.kind == "vertex" else edge_column(value.variable)


class RunningEdgeValues(RunningPattern):
    """A registered pattern with edge variables or a filter."""

    question: EdgeValuesQuery
    has_witnesses = False
    nets_events = True
    reports_joins = False
    needs_room = True

    def __init__(self, question: EdgeValuesQuery, resources: Resources) -> None:
        pattern, columns = question.pattern, question.join.columns
        self._values = pattern.values
        self._places = [columns.index(_column_of(value)) for value in pattern.values]
        self._filter = None if pattern.filter is None else BoundFilter(pattern.filter, columns)
        self._distinct = Distinct(len(pattern.values)) if question.distinct else None
        self._vertices: VertexDictionary | None = None
        self._terms = TermIds()
        self._own_columns = question.columns
        is_typed = isinstance(self._own_columns, ValueColumns)
        self.term_texts = self._texts if is_typed else None
        self.holds_vertices = is_typed
        of_edges = {edge_column(name) for name in pattern.edge_variables}
        self._differing = [place for place, name in enumerate(columns) if name not in of_edges]
        self._is_isomorphic = question.matching == "isomorphism"
        self._constants = sorted({constant.name for constant in pattern.constants}) if self._is_isomorphic else []
        super().__init__(question, resources)
        self.is_divided = self.is_divided or is_typed

    @property
    def columns(self) -> tuple[str, ...]:
        return self._own_columns

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        super().make_room(vertices, fresh, graph)
        self._vertices = vertices
        if self.term_texts is not None:
            self._terms.add_vertices(vertices, fresh)
        self._note_identity_type()

    def _note_identity_type(self) -> None:
        """Set the type that edges have as values of rows, which the first id of an edge determines."""
        if isinstance(self._own_columns, ValueColumns) and self._vertices is not None:
            for value in self._values:
                if value.kind == "number":
                    self._own_columns.types[value.column] = self._vertices.edges.identity_type

    # --- from bindings to rows -------------------------------------------------------------------------------

    def _select(self, changes: WeightedRows) -> WeightedRows:
        """Return changes of the join that the filter passes, with the columns of rows."""
        assert self._vertices is not None
        if self._is_isomorphic:
            changes = changes.where(self._are_different(changes.rows))
        if self._filter is not None and len(changes):
            changes = changes.where(self._filter.are_accepted(changes.rows, self._vertices, self._unit))
        if not len(changes):
            return WeightedRows.empty(len(self._values))
        if self.term_texts is None:
            return changes.select_columns(self._places)
        rows = np.empty((len(changes), len(self._values)), np.int32)
        for number, (value, place) in enumerate(zip(self._values, self._places, strict=True)):
            ids = changes.rows[:, place]
            rows[:, number] = self._terms.replace_aliases(ids) if value.kind == "vertex" else self._value_ids(value, ids)
        return changes.with_rows(rows)

    def _are_different(self, rows: np.ndarray) -> np.ndarray:
        """Return in which rows all vertices and constants are pairwise different; edges do not matter."""
        found = np.ones(len(rows), bool)
        columns: list[np.ndarray | int | None] = [rows[:, place] for place in self._differing]
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
        if value.kind == "property":
            found = edges.values(value.name, different)
            if value.name in edges.types.known and isinstance(self._own_columns, ValueColumns):
                self._own_columns.types[value.column] = found.type
        elif value.kind == "number":
            found = edges.identities(different)
            self._note_identity_type()
        else:
            found = pa.array(edges.timestamps(different))
        texts = value_texts(found)
        intern = self._terms.intern
        return np.array([intern(text) for text in texts], np.int32)[places.reshape(-1)]

    def _net(self, changes: WeightedRows) -> WeightedRows:
        return changes.net() if self._distinct is None else self._distinct.change(changes)

    def delta(self, parts: dict[Place, Delta], changed: Mapping[int, Delta]) -> Delta:
        events, changes = as_changes(parts.values(), first=self._host.first)
        if self._is_direct:
            (joined,) = changes
        else:
            joined = self._solutions.change(dict(zip(parts, changes, strict=True)))
        change = self._net(self._select(joined))
        if self.question.semantics == "implicit":
            change = change.where((change.weights > 0) | ~self._host.is_silent(events[:, 0])[change.events])
        return self._count_rows(change.delta(events[:, 0], events[:, 1]))

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        self._fill(time, chunk, *slides, quiet=quiet)
        if chunk is None:
            return []
        answers = self._select(WeightedRows.inserted(self._ids_of_answers()))
        if self._distinct is not None:
            self._distinct.clear()
            answers = self._distinct.change(answers)
        return [] if quiet else [self._count_rows(answers.delta(np.array([1]), np.array([time])))]

    def _answer(self) -> np.ndarray:
        if self._vertices is None:
            return np.zeros((0, len(self._values)), np.int32)
        rows = self._select(WeightedRows.inserted(self._ids_of_answers())).rows
        return rows if self._distinct is None else np.unique(rows, axis=0)

    def answers(self) -> list[IdRows]:
        return [ids_of_columns(np.ascontiguousarray(self._answer(), np.int32))]

    def figures(self) -> Figures:
        edges, cells = self._relations.sizes(None if self._graph is None else self._graph.edges)
        return self._figures(answers=len(self._answer()), edges=edges, cells=cells)

    # --- terms -----------------------------------------------------------------------------------------------

    def _texts(self, ids: np.ndarray) -> list[str | None]:
        return self._terms.texts(ids)

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        return np.array([self._terms.intern(text) for text in texts], np.int32)

    def retained_vertices(self) -> np.ndarray:
        return self._terms.pinned_vertices()

    def retain(self, waiting: np.ndarray) -> None:
        stored = np.zeros(0, np.int32) if self._distinct is None else self._distinct.ids()
        self._terms.keep(np.concatenate([stored, waiting]))

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


def start_edge_values(question: EdgeValuesQuery, resources: Resources) -> RunningEdgeValues:
    """Start a pattern with edge variables or a filter, which one thread evaluates. Raises `QueryError` in a share."""
    if resources.share[1] > 1:
        raise QueryError(
            f"query {question.name!r}: a filter does not go with shares: evaluate it in one engine, or write it in SPARQL"
        )
    return RunningEdgeValues(question, resources)


KIND = Kind(
    name="edge values",
    question=EdgeValuesQuery,
    start=start_edge_values,
    described=pattern_query_json,
    read=read_pattern_query,
    host=PatternHost,
    divides=lambda question: False,
)
