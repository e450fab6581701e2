"""The operators for conditions on values of edges and for these values as columns; edges are vertices among the bindings.

Rows may leave a variable unbound, as those of an optional part do: values of an unbound edge are null, and a condition that
compares null does not hold. Since the values of such a vertex never change, both operators are linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rpq.language.edge_variables import Value
from rpq.language.sparql.algebra import EdgeCondition, EdgeValue, column_of_value
from rpq.language.sparql.values.terms import XSD, literal_text
from rpq.operators.relational.edge_values import BoundFilter
from rpq.operators.relational.nodes import Node
from rpq.operators.relational.values.term_ids import FIRST, TermIds
from rpq.rows.typed_columns import value_texts
from rpq.rows.weighted_rows import UNBOUND, WeightedRows
from rpq.stream.names.edge_vertices import EdgeVertices
from rpq.stream.names.vertices import VertexDictionary


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
        for same in self._condition.same:
            left, right = (rows[:, self._place[column_of_value(one)]] for one in (same.left, same.right))
            missing = (left == UNBOUND) | (right == UNBOUND)
            if same.left.kind == "number":
                left, right = (vertices.edges.numbers(np.where(ids == UNBOUND, 0, ids)) for ids in (left, right))
            found[same.column] = pa.array(left == right, mask=missing)
        return found

    def _names(self, ids: np.ndarray, vertices: VertexDictionary) -> pa.Array:
        """Return the names of vertices, as the stream has them; null for unbound ones."""
        if ((ids >= 0) & (ids < FIRST)).all():
            return vertices.names_of(ids)
        texts = self._terms.texts(ids)
        if vertices.kind != "int64":
            return pa.array(texts, pa.string())
        return pa.array([None if text is None else int(text) for text in texts], pa.int64())


def edge_values(edges: EdgeVertices, value: Value, ids: np.ndarray) -> pa.Array:
    """Return a value of edges; null for unbound ones. O(ids)."""
    is_bound = ids != UNBOUND
    bound = ids[is_bound]
    if value.kind == "timestamp":
        found = pa.array(edges.timestamps(bound))
    elif value.kind == "number":
        found = edges.identities(bound)
    else:
        found = edges.values(value.name, bound)
    if is_bound.all():
        return found
    return found.take(pa.array(np.cumsum(is_bound) - 1, mask=~is_bound))


def value_ids(formula: EdgeValue, ids: np.ndarray, terms: TermIds) -> np.ndarray:
    """Return a value of edges as ids of terms (int32), unbound where the value is null. O(ids)."""
    assert terms.vertices is not None
    edges, value = terms.vertices.edges, formula.value
    different, places = np.unique(ids, return_inverse=True)
    values = edge_values(edges, value, different)
    texts = value_texts(values)
    if formula.is_summed and pa.types.is_floating(values.type):
        texts = [None if text is None else literal_text(_FLOATS.get(text, text), XSD + "double") for text in texts]
    if formula.is_summed and pa.types.is_string(values.type) and value.name not in edges.types.loose:
        texts = [None if text is None else literal_text(text) for text in texts]
    return np.array([terms.intern(text) for text in texts], np.int32)[places.reshape(-1)]


class EdgeConditionNode(Node):
    """A filter of a pattern: the rows for which a condition holds. Δ Filter(C, Ω) = Filter(C, ΔΩ)."""

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
        vertices = self._terms.vertices
        if not len(change) or vertices is None:
            return change
        return change.where(self._condition.are_accepted(change.rows, vertices, vertices.edges.unit))

    def describe(self) -> str:
        return f"filter {self._text}"


class EdgeValueNode(Node):
    """The rows with a value of an edge as one more column. Δ Extend(Ω) = Extend(ΔΩ).

    For aggregates, floats and texts are literals, so that no text is taken for a number; loose values are plain.
    """

    def __init__(self, inner: Node, name: str, formula: EdgeValue, terms: TermIds) -> None:
        super().__init__((*inner.columns, name), inner.sure, inner)
        self._place_of_edge = inner.columns.index(column_of_value(formula.value))
        self._formula = formula
        self._terms = terms

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        vertices = self._terms.vertices
        if not len(change) or vertices is None:
            return WeightedRows.empty(self.width)
        rows = np.empty((len(change), self.width), np.int32)
        rows[:, :-1] = change.rows
        rows[:, -1] = value_ids(self._formula, change.rows[:, self._place_of_edge], self._terms)
        return change.with_rows(rows)

    def describe(self) -> str:
        return f"bind {self._formula.value.column}"


_FLOATS = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
