"""A registered MATCH text: the network of a query in SPARQL, in which edges are vertices, and columns with their values.

Threads divide it, as SPARQL, by the values of a column that has vertices. In shares each has all rows and gives its own: the
first column of vertices decides whose a row is, and where there is none, or it is null, all such rows are the first share's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rpq.files.json_values import JsonValue
from rpq.language.kinds import Kind
from rpq.language.match.query import MatchQuery, result_columns
from rpq.language.match.translation import Column
from rpq.language.protocol import Resources
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.relational.running_query import (
    DividedSparql,
    OperatorPool,
    RunningSparql,
    describe_query,
    division_of,
    read_query,
    start_sparql,
)
from rpq.rows.typed_columns import ValueColumns
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.vertices import VertexDictionary


class RunningMatch(RunningSparql):
    """A registered MATCH text whose columns or conditions read values of edges."""

    question: MatchQuery

    def __init__(
        self, question: MatchQuery, resources: Resources, *, pool: OperatorPool, divided_by: str | None = None
    ) -> None:
        self._own_columns = result_columns(question.translation)
        vertices = [place for place, column in enumerate(question.translation.columns) if column.source == "vertex"]
        self._deciding = vertices[0] if vertices else None  # the column that tells whose a row is
        super().__init__(question, resources, pool=pool, divided_by=divided_by)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows, those of values of edges with the types that are known so far."""
        return self._own_columns

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        super().make_room(vertices, fresh, graph)
        if isinstance(self._own_columns, ValueColumns):
            for column in self.question.translation.columns:
                kind = type_of(column, vertices)
                if kind is not None:
                    self._own_columns.types[column.name] = kind

    def _are_own(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows are this share's."""
        own = np.full(len(rows), self._host.division.share[0] == 0)
        if self._deciding is None:
            return own
        ids = self._as_vertices(rows[:, self._deciding])
        is_vertex = ids >= 0
        own[is_vertex] = self._host.is_own[ids[is_vertex]]
        return own


def type_of(column: Column, vertices: VertexDictionary) -> pa.DataType | None:
    """Return the type of a column as far as values of edges determine it, None where they do not, or do not yet."""
    if column.source == "avg":
        return pa.float64()
    edges = vertices.edges
    if column.value is None or column.source in ("count", "vertex", "timestamp"):
        return None
    if column.source == "sum" and column.value.kind == "vertex":
        return pa.int64() if vertices.kind == "int64" else None
    if column.value.kind == "number":
        return edges.identity_type
    kind = edges.types.known.get(column.value.name) if column.value.kind == "property" else None
    if column.source == "sum":
        return _type_of_sum(kind)
    return kind


def _type_of_sum(kind: pa.DataType | None) -> pa.DataType:
    """Return the type of the sum of values of a type. That of loose values is a text.

    Nothing but nulls, which have no type yet, has the sum 0 in Cypher. Times are summed as integers in their unit.
    """
    if kind is None or pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else pa.string()


def start_match(question: MatchQuery, resources: Resources) -> RunningSparql | DividedSparql:
    """Start a MATCH text in the hosts of all threads where they divide it, else in the first."""
    return start_sparql(question, resources, RunningMatch if reads_edges(question) else RunningSparql)


def reads_edges(question: MatchQuery) -> bool:
    """Return whether a query binds edges, or has conditions on bindings."""
    return question.translation.has_edge_variables or bool(question.filters)


def describe_match(query: MatchQuery) -> dict[str, Any]:
    """Return a query as JSON values."""
    content = describe_query(query)
    return {"match": content.pop("sparql"), "language": query.language, "node_label": query.node_label, **content}


def parse_match(content: JsonValue) -> MatchQuery:
    """Return the query that JSON values describe. Raises `Damage`."""
    return read_query(content, MatchQuery, text="match", own=("language", "node_label"))


KIND = Kind(
    name="match",
    question=MatchQuery,
    start=start_match,
    described=describe_match,
    read=parse_match,
    host=PatternHost,
    divides=lambda question: division_of(question) is not None,
)
