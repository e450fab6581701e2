"""A registered MATCH text: the network of a query in SPARQL, in which edges are vertices, and columns with their values.

Threads divide it, as SPARQL, by the values of a column that has vertices. In shares each has all rows and gives its own: the
first column of vertices decides whose a row is, and where there is none, or it is null, all such rows are the first share's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.files.json_values import JsonValue
from rpq.language.kinds import Kind
from rpq.language.match.query import MatchQuery, result_columns
from rpq.language.match.result import Column
from rpq.language.protocol import Resources
from rpq.language.sparql.algebra import Conjunction, possible_variables
from rpq.language.sparql.rewriting import rewrite
from rpq.operators.patterns.joins.plan import Part, condition_part, plan_pattern
from rpq.operators.patterns.meanings import Meaning, MeaningEdge, variable
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.witness import Step, WindowGraph, Witness, bindings_of, steps_of_atom
from rpq.operators.relational.edge_values import id_of_value, step_of_edge
from rpq.operators.relational.match_witness import Match, SolutionSearch, WitnessWriter
from rpq.operators.relational.planning import Read, meanings_in, parts_of
from rpq.operators.relational.running_query import (
    DividedSparql,
    OperatorPool,
    RunningSparql,
    describe_query,
    division_of,
    read_query,
    start_sparql,
)
from rpq.operators.relational.values.term_ids import FIRST
from rpq.rows.typed_columns import ValueColumns
from rpq.rows.weighted_rows import UNBOUND
from rpq.stream.edges.edge_values import ValuesOf
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.names.vertices import VertexDictionary, as_vertex


class RunningMatch(RunningSparql):
    """A registered MATCH text."""

    question: MatchQuery
    witnesses_are_of_now = True
    _has_aliases = True

    def __init__(
        self, question: MatchQuery, resources: Resources, *, pool: OperatorPool, divided_by: str | None = None
    ) -> None:
        self._own_columns = result_columns(question.translation)
        self.has_witnesses = not any(column.is_aggregate for column in question.translation.columns)
        self._body = rewrite(question.parsed.body)
        self._planned: dict[Conjunction, tuple[dict[str, int | None], list[tuple[Meaning, list[Part]]]]] = {}
        super().__init__(question, resources, pool=pool, divided_by=divided_by)
        self._search = SolutionSearch(self._terms, self._matches)

    def _enter(self) -> None:
        self._planned.clear()  # the numbers of relations may be others
        super()._enter()

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

    # --- witnesses -------------------------------------------------------------------------------------------

    def ids_of_answer(self, values: Sequence[Any], vertices: VertexDictionary) -> tuple[int, ...] | None:
        found = []
        for column, given in zip(self.question.translation.columns, values, strict=True):
            identity: int | None = UNBOUND
            if given is not None:
                identity = id_of_value(column.source, column.name, given, vertices, self._terms, self._own_columns)
            if identity is None:
                return None
            found.append(identity)
        return tuple(found)

    def witness(
        self,
        answer: tuple[int, ...],
        edges: Edges,
        vertices: VertexDictionary,
        labels: list[str],
        values: ValuesOf | None = None,
    ) -> Witness | None:
        """Return the witness of a row. O(the cost of finding the solutions with its vertices)."""
        if not (self._host.is_whole or self._are_own(np.array([answer], np.int32))[0]):
            return None
        known = {
            name: self._vertex_of(identity, vertices) if column.source == "vertex" else identity
            for name, column, identity in zip(
                self.question.parsed.columns, self.question.translation.columns, answer, strict=True
            )
        }
        solution = self._search.find(self._body, known)
        if solution is None:
            return None
        graph = WindowGraph(edges, vertices.name_of, labels, lambda edge: self._relations.time_of(edge, edges), values)
        writer = WitnessWriter(
            vertices,
            steps_of_atom=lambda found, place: self._steps_of_atom(found, place, graph),
            step_of_edge=lambda expression, first, edge: step_of_edge(
                expression, first, edge, vertices, labels, has_values=values is not None
            ),
        )
        return writer.witness(solution)

    def _vertex_of(self, identity: int, vertices: VertexDictionary) -> int:
        """Return the vertex with the id of a value of a row, which may be the id of a term."""
        text = self._terms.text(identity) if identity >= FIRST else None
        vertex = -1 if text is None else vertices.id_of(as_vertex(text, vertices.kind))
        return identity if vertex < 0 else vertex

    def _matches(self, conjunction: Conjunction, known: Mapping[str, int], first: bool) -> Iterator[Match]:
        """Yield the matches of a conjunction that have known values; with `first` perhaps only some of them."""
        binding = {variable(name): value for name, value in known.items()}
        for meaning, parts in self._meanings_with_parts(conjunction):
            for one in bindings_of(parts, binding, self._host, first=first):
                yield Match(conjunction, meaning, one)

    def _meanings_with_parts(self, conjunction: Conjunction) -> list[tuple[Meaning, list[Part]]]:
        """Return the meanings of a conjunction that may have matches, each with the parts of its plan."""
        ids = {name: self._host.constants.id_of(name) for name in self._names}
        known = self._planned.get(conjunction)
        if known is not None and known[0] == ids:
            return known[1]
        found: list[tuple[Meaning, list[Part]]] = []
        names = sorted(possible_variables(conjunction))
        for meaning, parts in zip(meanings_in(conjunction), parts_of(conjunction, names), strict=True):
            vertices = {name: identity for name in meaning.names if (identity := ids[name]) is not None}
            if len(vertices) == len({*meaning.names}):
                plans = [
                    plan_pattern(part.meaning.atoms(self._relation_of, vertices.__getitem__), select=part.select)
                    for part in parts
                ]
                conditions = [condition_part(atom) for plan in plans for atom in plan.conditions]
                found.append((meaning, [*(part for plan in plans for part in plan.parts), *conditions]))
        self._planned[conjunction] = ids, found
        return found

    def _relation_of(self, edge: MeaningEdge) -> int:
        return self._relations.relation(self._window_relation(edge))

    def _steps_of_atom(self, found: Match, place: int, graph: WindowGraph) -> tuple[Step, ...]:
        source, read, target = found.meaning.edges[place]
        assert isinstance(read, Read)
        return steps_of_atom(
            found.conjunction.atoms[place].atom,
            (source, read.of, target),
            found.binding,
            self._host,
            lambda edge: self._relation_of(found.meaning.edges[place]),
            lambda _: self._relations.path_relation(self._window_relation(found.meaning.edges[place])).index,
            graph,
        )


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
    """Return the type of the sum of values of a type. The sum of untyped values is a text.

    In Cypher the sum of nulls alone, which have no type yet, is 0. Times are summed as integers in their unit.
    """
    if kind is None or pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else pa.string()


def start_match(question: MatchQuery, resources: Resources) -> RunningSparql | DividedSparql:
    """Start a MATCH text in the hosts of all threads where they divide it, else in the first."""
    return start_sparql(question, resources, RunningMatch)


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
