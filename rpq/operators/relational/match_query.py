"""A registered MATCH text: the network of a query in SPARQL, in which edges are vertices, and columns with their values.

A share computes all rows and returns its own: the first column of vertices decides to which share a row belongs; without
one, or where it is null, the row belongs to the first share.

The witness of a row is one solution of the algebra that gives the row, and the edges behind its atoms. `SolutionSearch` goes
through the algebra from the top: an operator passes on the values that are known and yields the solutions that agree with
them. A conjunction is searched in the current relations (`rpq.operators.patterns.joins.binding_search`), so known vertices
and edges make the search short. The edges of an EXISTS belong to the witness; those that a NOT EXISTS or a missing OPTIONAL
MATCH lacks do not. The edges of a witness alone therefore give the row, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa

from rpq.automata.expressions import Label
from rpq.language.kinds import QueryKind
from rpq.language.match.column_types import StreamTypes, type_of
from rpq.language.match.query import MatchQuery, result_columns
from rpq.language.pattern import Constant, Variable
from rpq.language.protocol import PresentGraph, Resources
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    EdgeCondition,
    EdgeValue,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    ReportTime,
    SemiJoin,
    Slice,
    Union,
    Unwind,
    Values,
    column_of_value,
    formulas_of,
    operators_of,
    possible_variables,
    variables_of,
)
from rpq.language.sparql.algebra_text import atom_texts
from rpq.language.sparql.restriction import accepted_names, restrict
from rpq.language.sparql.rewriting import rewrite
from rpq.operators.patterns.joins.binding_search import Binding
from rpq.operators.patterns.joins.plan import Component, condition_part, plan_pattern
from rpq.operators.patterns.meanings import Meaning, MeaningEdge, NamedVertex, variable
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.witness import AtomWitness, Step, WindowGraph, Witness, bindings_of, steps_of_atom
from rpq.operators.relational.edge_values import BindingCondition, id_of_value, step_of_edge, value_ids
from rpq.operators.relational.planning import RelationRead, atoms_by_window, meanings_in, parts_of, separate_predicates
from rpq.operators.relational.running_query import (
    OperatorPool,
    RunningSparql,
    describe_query,
    read_query,
    start_sparql,
)
from rpq.operators.relational.values.term_ids import FIRST, TermIds
from rpq.rows.typed_columns import ValueColumns
from rpq.rows.weighted_rows import UNBOUND
from rpq.stream.names.stream_labels import EdgeEnd, NodeValue
from rpq.stream.names.vertices import VertexDictionary, as_vertex


class RunningMatch(RunningSparql):
    """A registered MATCH text."""

    question: MatchQuery
    witnesses_are_of_now = True
    _has_aliases = True

    def __init__(self, question: MatchQuery, resources: Resources, *, pool: OperatorPool) -> None:
        self._own_columns = result_columns(question.translation)
        self._body = restrict(rewrite(question.parsed.body), {})
        self.has_witnesses = not any(_has_no_witness(operator) for operator in operators_of(self._body))
        self._planned_parts: dict[Conjunction, tuple[dict[str, int | None], list[tuple[Meaning, list[Component]]]]] = {}
        super().__init__(question, resources, pool=pool)
        self._search = SolutionSearch(self._terms, self._matches)
        if isinstance(self._own_columns, ValueColumns):
            self._own_columns.type_of = self._type_of

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows, those of values of edges with the types that are known so far."""
        return self._own_columns

    def _type_of(self, name: str) -> pa.DataType | None:
        """Return the type of a column with values of edges; None while it is not known."""
        if self._terms.vertices is None:
            return None
        column = next(one for one in self.question.translation.columns if one.name == name)
        return type_of(column, types_of_stream(self._terms.vertices))

    # --- witnesses -------------------------------------------------------------------------------------------

    def ids_of_answer(self, values: Sequence[Any], vertices: VertexDictionary) -> tuple[int, ...] | None:
        found = []
        for column, value in zip(self.question.translation.columns, values, strict=True):
            identity: int | None = UNBOUND
            if value is not None:
                identity = id_of_value(column.source, column.name, value, vertices, self._terms, self._own_columns)
            if identity is None:
                return None
            found.append(identity)
        return tuple(found)

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Witness | None:
        """Return the witness of a row. O(the cost of finding the solutions with its vertices)."""
        edges, vertices, labels, values = graph
        if not (self._host.is_whole or self._are_own(np.array([answer], np.int32))[0]):
            return None
        required = {
            name: self._vertex_of(identity, vertices) if column.source == "vertex" else identity
            for name, column, identity in zip(
                self.question.parsed.columns, self.question.translation.columns, answer, strict=True
            )
        }
        solution = self._search.find(self._body, required)
        if solution is None:
            return None
        window = WindowGraph(edges, vertices.name_of, labels, lambda edge: self._relations.time_of(edge, edges), values)
        writer = WitnessWriter(
            vertices,
            steps_of_atom=lambda found, place: self._steps_of_atom(found, place, window),
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

    def _matches(self, conjunction: Conjunction, required: Mapping[str, int], first: bool) -> Iterator[Match]:
        """Yield the matches of a conjunction with `required` values. With `first`, perhaps only some of them."""
        binding = {variable(name): value for name, value in required.items()}
        for meaning, parts in self._meanings_with_parts(conjunction):
            for one in bindings_of(parts, binding, self._host, first=first):
                yield Match(conjunction, meaning, one)

    def _meanings_with_parts(self, conjunction: Conjunction) -> list[tuple[Meaning, list[Component]]]:
        """Return the meanings of a conjunction that may have matches, each with the parts of its plan."""
        ids = {name: self._host.constants.id_of(name) for name in self._names}
        planned = self._planned_parts.get(conjunction)
        if planned is not None and planned[0] == ids:
            return planned[1]
        found: list[tuple[Meaning, list[Component]]] = []
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
        self._planned_parts[conjunction] = ids, found
        return found

    def _relation_of(self, edge: MeaningEdge) -> int:
        return self._relations.relation(self._window_relation(edge))

    def _steps_of_atom(self, match_: Match, place: int, graph: WindowGraph) -> tuple[Step, ...]:
        source, read, target = match_.meaning.edges[place]
        assert isinstance(read, RelationRead)
        return steps_of_atom(
            atoms_by_window(match_.conjunction)[place].atom,
            (source, read.of, target),
            match_.binding,
            self._host,
            lambda edge: self._relation_of(match_.meaning.edges[place]),
            lambda _: self._relations.path_relation(self._window_relation(match_.meaning.edges[place])).index,
            graph,
        )


def _has_no_witness(operator: Operator) -> bool:
    """Return whether an operator stands for many solutions, computes values, or reads the ends of edges of all labels."""
    if isinstance(operator, Conjunction):
        reads_labels = any(one.predicate is not None for one in operator.atoms)
        return reads_labels or separate_predicates(operator) is not operator
    computes = any(isinstance(formula, FunctionCall) and not accepted_names(formula) for formula in formulas_of(operator))
    return computes or isinstance(operator, (Group, Slice, Unwind))


def types_of_stream(vertices: VertexDictionary) -> StreamTypes:
    """Return the types that are known of a stream."""
    edges = vertices.edges
    vertex = pa.int64() if vertices.kind == "int64" else pa.string()
    time = pa.int64() if edges.unit is None else pa.timestamp(edges.unit)
    return StreamTypes(vertex, time, edges.identity_type, edges.types.by_name.get, edges.types.loose)


def start_match(question: MatchQuery, resources: Resources) -> RunningSparql:
    """Start a MATCH text."""
    return start_sparql(question, resources, RunningMatch)


KIND = QueryKind(
    name="match",
    question=MatchQuery,
    start=start_match,
    to_json=describe_query,
    read=partial(read_query, kind=MatchQuery),
    host=PatternHost,
)


# --- the witness of a row ------------------------------------------------------------------------------------


_NAME = re.compile(r"[^\W\d]\w*")
_FEWEST, _MOST = 16, 1 << 16
"""The least and the greatest number of solutions for which a condition is evaluated at once."""


class Match(NamedTuple):
    """The atoms of a conjunction with vertices and edges for their variables; an edge of the meaning for each atom."""

    conjunction: Conjunction
    meaning: Meaning
    binding: Binding


class Solution(NamedTuple):
    """The values of variables, without those that are unbound, and the matches behind them."""

    values: Mapping[str, int]
    matches: tuple[Match, ...] = ()

    def bind(self, name: str, value: int) -> Solution:
        """Return the solution with one more value."""
        return self if value == UNBOUND else Solution({**self.values, name: value}, self.matches)

    def join(self, other: Solution) -> Solution:
        """Return the solution together with another that agrees with it."""
        return Solution({**self.values, **other.values}, self.matches + other.matches)

    def with_matches_of(self, other: Solution) -> Solution:
        """Return the solution with the matches of another one, which it requires."""
        return Solution(self.values, self.matches + other.matches)


RequiredValues = Mapping[str, int]
"""Values that variables must have; `UNBOUND` for those that must have none."""


class SolutionSearch:
    """The search for solutions of an algebra in the current relations.

    `matches` yields the matches of a conjunction that agree with required values or, if its last argument is true, perhaps
    only the first of them.
    """

    def __init__(self, terms: TermIds, matches: Callable[[Conjunction, RequiredValues, bool], Iterator[Match]]) -> None:
        self._terms = terms
        self._matches = matches
        self._conditions: dict[EdgeCondition, tuple[tuple[str, ...], BindingCondition]] = {}

    def find(self, operator: Operator, required: RequiredValues) -> Solution | None:
        """Return a solution with `required` values of all variables of an operator, or None if there is none."""
        for one in self.solutions(operator, required, first=True):
            if all(one.values.get(name, UNBOUND) == value for name, value in required.items()):
                return one
        return None

    def solutions(self, operator: Operator, required: RequiredValues, *, first: bool = False) -> Iterator[Solution]:
        """Yield the solutions that agree with `required` values. With `first`, perhaps only some of them."""
        match operator:
            case Conjunction():
                yield from self._solve_conjunction(operator, required, first=first)
            case Join(parts):
                yield from self._solve_join(parts, required)
            case Union(branches):
                for branch in branches:
                    yield from self.solutions(branch, required, first=first)
            case LeftJoin():
                yield from self._solve_left_join(operator, required)
            case Filter(inner, condition):
                yield from self._filter_solutions(self.solutions(inner, required), condition, required)
            case SemiJoin(left, right, is_negated):
                for one in self.solutions(left, required):
                    partner = next(self.solutions(right, {**_bound(required), **one.values}, first=True), None)
                    if (partner is None) == is_negated:
                        yield one if partner is None else one.with_matches_of(partner)
            case Extend():
                yield from self._solve_extend(operator, required, first=first)
            case Values(names, rows):
                for row in rows:
                    values = {name: self._vertex(text) for name, text in zip(names, row, strict=True) if text is not None}
                    if all(required.get(name, value) == value for name, value in values.items()):
                        yield Solution(values)
            case Project(inner, columns):
                visible = {name: required[name] for name in columns if name in required}
                for one in self.solutions(inner, visible, first=first):
                    yield Solution({name: one.values[name] for name in columns if name in one.values}, one.matches)
            case Distinct(inner):
                seen = set()
                for one in self.solutions(inner, required, first=first):
                    key = frozenset(one.values.items())
                    if key not in seen:
                        seen.add(key)
                        yield one
            case Minus() | Group() | Slice() | Unwind() | ReportTime():
                raise AssertionError(operator)  # MATCH has none of these, or no witnesses for them
            case _:
                assert_never(operator)

    def _solve_conjunction(self, conjunction: Conjunction, required: RequiredValues, *, first: bool) -> Iterator[Solution]:
        names = possible_variables(conjunction)
        mine = {name: value for name, value in required.items() if name in names}
        if not conjunction.atoms:
            yield Solution({})
        elif UNBOUND not in mine.values():
            for found in self._matches(conjunction, mine, first):
                yield Solution({name: found.binding[variable(name)] for name in names}, (found,))

    def _solve_join(self, parts: Sequence[Operator], required: RequiredValues) -> Iterator[Solution]:
        if not parts:
            yield Solution({})
            return
        for one in self.solutions(parts[0], required):
            for other in self._solve_join(parts[1:], {**required, **one.values}):
                yield one.join(other)

    def _solve_left_join(self, operator: LeftJoin, required: RequiredValues) -> Iterator[Solution]:
        of_right = possible_variables(operator.right) - possible_variables(operator.left)
        fixed = {name: value for name, value in required.items() if name in of_right}
        others = {name: value for name, value in required.items() if name not in of_right}

        def partners(one: Solution, more: RequiredValues) -> Iterator[Solution]:
            joined = map(one.join, self.solutions(operator.right, {**_bound(others), **one.values, **more}))
            return joined if operator.condition is None else self._filter_solutions(joined, operator.condition, required)

        for one in self.solutions(operator.left, others):
            has_partner = False
            if UNBOUND not in fixed.values():
                for joined in partners(one, fixed):
                    has_partner = True
                    yield joined
            else:
                has_partner = next(partners(one, {}), None) is not None
            if not has_partner and all(value == UNBOUND for value in fixed.values()):
                yield one

    def _solve_extend(self, operator: Extend, required: RequiredValues, *, first: bool) -> Iterator[Solution]:
        name, formula = operator.variable, operator.formula
        below = {other: value for other, value in required.items() if other != name}
        if isinstance(formula, EdgeValue):
            for some in _batches(self.solutions(operator.inner, below, first=first and name not in required)):
                edges = [one.values.get(column_of_value(formula.value), UNBOUND) for one in some]
                values = value_ids(formula, np.array(edges, np.int32), self._terms)
                for one, value in zip(some, values.tolist(), strict=True):
                    if required.get(name, value) == value:
                        yield one.bind(name, value)
            return
        if isinstance(formula, Variable) and name in required:
            below[formula.name] = required[name]
        for one in self.solutions(operator.inner, below, first=first):
            if isinstance(formula, Variable):
                yield one.bind(name, one.values.get(formula.name, UNBOUND))
            else:
                assert isinstance(formula, Constant), formula
                yield one.bind(name, self._vertex(formula.name))

    def _filter_solutions(
        self, solutions: Iterator[Solution], condition: Formula, required: RequiredValues
    ) -> Iterator[Solution]:
        """Yield the solutions for which a condition holds. It may also read `required` values of outer operators."""
        if accepted := accepted_names(condition):
            ((name, texts),) = accepted.items()
            vertices = {*map(self._vertex, texts)}
            yield from (one for one in solutions if one.values.get(name, required.get(name, UNBOUND)) in vertices)
            return
        assert isinstance(condition, EdgeCondition), condition
        if condition not in self._conditions:
            names = tuple(sorted(variables_of(condition)))
            self._conditions[condition] = names, BindingCondition(condition, names, self._terms)
        names, bound = self._conditions[condition]
        for some in _batches(solutions):
            values = [[one.values.get(name, required.get(name, UNBOUND)) for name in names] for one in some]
            rows = np.array(values, np.int32).reshape(len(some), len(names))
            holds = bound.are_accepted(rows, self._vertices, self._vertices.edges.unit)
            yield from (one for one, is_accepted in zip(some, holds.tolist(), strict=True) if is_accepted)

    @property
    def _vertices(self) -> VertexDictionary:
        assert self._terms.vertices is not None
        return self._terms.vertices

    def _vertex(self, text: str) -> int:
        """Return the vertex with a name, or the term with this text if there is no such vertex."""
        vertex = self._vertices.id_of(as_vertex(text, self._vertices.kind))
        return vertex if vertex >= 0 else self._terms.intern(text)


def _bound(required: RequiredValues) -> dict[str, int]:
    return {name: value for name, value in required.items() if value != UNBOUND}


def _batches(solutions: Iterator[Solution]) -> Iterator[list[Solution]]:
    """Yield solutions in lists, short ones first, because the first solution often suffices."""
    size = _FEWEST
    while some := [*islice(solutions, size)]:
        yield some
        size = min(4 * size, _MOST)


@dataclass(frozen=True)
class WitnessWriter:
    """The writer of witnesses: the names of vertices, and the edges that atoms and edge variables stand for.

    `steps_of_atom` returns the edges behind an atom that binds no edge, given as one of a match by its place;
    `step_of_edge` the edge that is a vertex, which an expression of one step reads from a vertex.
    """

    vertices: VertexDictionary
    steps_of_atom: Callable[[Match, int], tuple[Step, ...]]
    step_of_edge: Callable[[str, int | str, int], Step]

    def witness(self, solution: Solution) -> Witness:
        """Return the witness of a solution."""
        values: dict[str, Any] = {}
        edges: set[str] = set()
        atoms = [one.atom for found in solution.matches for one in found.conjunction.atoms]
        of_facts = {f"?{atom.object.name}" for atom in atoms if isinstance(atom.fact, NodeValue)}
        bindings = []
        for found in solution.matches:
            ends = [end for source, _, target in found.meaning.edges for end in (source, target) if isinstance(end, str)]
            bindings += [(name, found.binding[name]) for name in ends]
        bindings += [(variable(name), identity) for name, identity in sorted(solution.values.items())]
        self._add_values(values, edges, ((name.removeprefix("?"), one) for name, one in bindings if name not in of_facts))
        witnesses = [atom for found in solution.matches for atom in self._atoms(found)]
        return Witness(binding=tuple(values.items()), atoms=tuple(witnesses), edges=frozenset(edges))

    def _add_values(self, values: dict[str, Any], edges: set[str], binding: Iterable[tuple[str, int]]) -> None:
        """Add the nodes and edges that have names in the text. The values of edges depend on their identity."""
        for internal, identity in binding:
            is_edge = internal.startswith(".")
            name = internal.removeprefix(".").partition(".")[0]
            if _NAME.fullmatch(name) is None or name in values:
                continue
            if not is_edge:
                values[name] = self.vertices.name_of(identity)
            elif self.vertices.edges.have_identities:
                values[name] = self.vertices.edges.identities(np.array([identity]))[0].as_py()
                edges.add(name)

    def _atoms(self, found: Match) -> Iterator[AtomWitness]:
        atoms = atoms_by_window(found.conjunction)
        texts = atom_texts(atoms)
        is_object = False
        for place, one in enumerate(atoms):
            if one.atom.fact is not None:
                next(texts)
                continue
            label = one.atom.expression.name if isinstance(one.atom.expression, Label) else None
            if not isinstance(label, EdgeEnd):
                yield AtomWitness(atom=next(texts), steps=self.steps_of_atom(found, place))
            elif is_object:
                is_object = False
            else:
                is_object = True  # the next atom leads from this edge to its other end
                subject, _, edge = found.meaning.edges[place]
                assert isinstance(edge, str)
                first = subject.name if isinstance(subject, NamedVertex) else self.vertices.name_of(found.binding[subject])
                step = self.step_of_edge(label.label or "", first, found.binding[edge])
                yield AtomWitness(atom=next(texts), steps=(step,))
