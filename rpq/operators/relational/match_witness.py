"""The witness of a row of MATCH: one solution of its algebra that gives the row, and the edges behind its atoms.

The search goes through the algebra from the top. An operator passes on the values that are known and yields the solutions
that agree with them. A conjunction is searched in the current relations (`rpq.operators.patterns.joins.binding_search`), so
known vertices and edges make the search short. The edges of an EXISTS belong to the witness; those that a NOT EXISTS or a
missing OPTIONAL MATCH lacks do not. The edges of a witness alone therefore give the row, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, assert_never

import numpy as np

from rpq.automata.expressions import Label
from rpq.language.pattern import Constant, Variable
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    EdgeCondition,
    EdgeValue,
    Extend,
    Filter,
    Formula,
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
    Values,
    column_of_value,
    possible_variables,
    variables_of,
)
from rpq.language.sparql.algebra_text import atom_texts
from rpq.operators.patterns.joins.binding_search import Binding
from rpq.operators.patterns.meanings import Meaning, NamedVertex, variable
from rpq.operators.patterns.witness import AtomWitness, Step, Witness
from rpq.operators.relational.edge_formulas import BindingCondition, value_ids
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND
from rpq.stream.names.stream_labels import EdgeEnd
from rpq.stream.names.vertices import VertexDictionary, as_vertex

_NAME = re.compile(r"[^\W\d]\w*")
_FEWEST, _MOST = 16, 1 << 16
"""The least and the greatest number of solutions that a condition sees at once."""


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


Known = Mapping[str, int]
"""Values that variables must have; `UNBOUND` for those that must have none."""


class SolutionSearch:
    """The search for solutions of an algebra in the current relations.

    `matches` yields the matches of a conjunction that agree with known values, or only some `first` one of them.
    """

    def __init__(self, terms: TermIds, matches: Callable[[Conjunction, Known, bool], Iterator[Match]]) -> None:
        self._terms = terms
        self._matches = matches
        self._conditions: dict[EdgeCondition, tuple[tuple[str, ...], BindingCondition]] = {}

    def find(self, operator: Operator, known: Known) -> Solution | None:
        """Return a solution with known values for all variables of an operator; None if there is none."""
        for one in self.solutions(operator, known, first=True):
            if all(one.values.get(name, UNBOUND) == value for name, value in known.items()):
                return one
        return None

    def solutions(self, operator: Operator, known: Known, *, first: bool = False) -> Iterator[Solution]:
        """Yield the solutions that agree with known values; with `first` perhaps only some of them."""
        match operator:
            case Conjunction():
                yield from self._of_conjunction(operator, known, first=first)
            case Join(parts):
                yield from self._of_join(parts, known)
            case Union(branches):
                for branch in branches:
                    yield from self.solutions(branch, known, first=first)
            case LeftJoin():
                yield from self._of_left_join(operator, known)
            case Filter(inner, condition):
                yield from self._holding(self.solutions(inner, known), condition, known)
            case SemiJoin(left, right, is_negated):
                for one in self.solutions(left, known):
                    partner = next(self.solutions(right, {**_bound(known), **one.values}, first=True), None)
                    if (partner is None) == is_negated:
                        yield one if partner is None else one.with_matches_of(partner)
            case Extend():
                yield from self._of_extend(operator, known, first=first)
            case Values(names, rows):
                for row in rows:
                    values = {name: self._vertex(text) for name, text in zip(names, row, strict=True) if text is not None}
                    if all(known.get(name, value) == value for name, value in values.items()):
                        yield Solution(values)
            case Project(inner, columns):
                visible = {name: known[name] for name in columns if name in known}
                for one in self.solutions(inner, visible, first=first):
                    yield Solution({name: one.values[name] for name in columns if name in one.values}, one.matches)
            case Distinct(inner):
                seen = set()
                for one in self.solutions(inner, known, first=first):
                    key = frozenset(one.values.items())
                    if key not in seen:
                        seen.add(key)
                        yield one
            case Minus() | Group() | Slice() | ReportTime():
                raise AssertionError(operator)  # MATCH has none of these, or no witnesses for them
            case _:
                assert_never(operator)

    def _of_conjunction(self, conjunction: Conjunction, known: Known, *, first: bool) -> Iterator[Solution]:
        names = possible_variables(conjunction)
        mine = {name: value for name, value in known.items() if name in names}
        if not conjunction.atoms:
            yield Solution({})
        elif UNBOUND not in mine.values():
            for found in self._matches(conjunction, mine, first):
                yield Solution({name: found.binding[variable(name)] for name in names}, (found,))

    def _of_join(self, parts: Sequence[Operator], known: Known) -> Iterator[Solution]:
        if not parts:
            yield Solution({})
            return
        for one in self.solutions(parts[0], known):
            for other in self._of_join(parts[1:], {**known, **one.values}):
                yield one.join(other)

    def _of_left_join(self, operator: LeftJoin, known: Known) -> Iterator[Solution]:
        of_right = possible_variables(operator.right) - possible_variables(operator.left)
        fixed = {name: value for name, value in known.items() if name in of_right}
        others = {name: value for name, value in known.items() if name not in of_right}

        def partners(one: Solution, more: Known) -> Iterator[Solution]:
            joined = map(one.join, self.solutions(operator.right, {**_bound(others), **one.values, **more}))
            return joined if operator.condition is None else self._holding(joined, operator.condition, known)

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

    def _of_extend(self, operator: Extend, known: Known, *, first: bool) -> Iterator[Solution]:
        name, formula = operator.variable, operator.formula
        below = {other: value for other, value in known.items() if other != name}
        if isinstance(formula, EdgeValue):
            for some in _batches(self.solutions(operator.inner, below, first=first and name not in known)):
                edges = [one.values.get(column_of_value(formula.value), UNBOUND) for one in some]
                values = value_ids(formula, np.array(edges, np.int32), self._terms)
                for one, value in zip(some, values.tolist(), strict=True):
                    if known.get(name, value) == value:
                        yield one.bind(name, value)
            return
        if isinstance(formula, Variable) and name in known:
            below[formula.name] = known[name]
        for one in self.solutions(operator.inner, below, first=first):
            if isinstance(formula, Variable):
                yield one.bind(name, one.values.get(formula.name, UNBOUND))
            else:
                assert isinstance(formula, Constant), formula
                yield one.bind(name, self._vertex(formula.name))

    def _holding(self, solutions: Iterator[Solution], condition: Formula, known: Known) -> Iterator[Solution]:
        """Yield the solutions for which a condition holds; it may read known values of outer operators, too."""
        assert isinstance(condition, EdgeCondition), condition
        if condition not in self._conditions:
            names = tuple(sorted(variables_of(condition)))
            self._conditions[condition] = names, BindingCondition(condition, names, self._terms)
        names, bound = self._conditions[condition]
        for some in _batches(solutions):
            values = [[one.values.get(name, known.get(name, UNBOUND)) for name in names] for one in some]
            rows = np.array(values, np.int32).reshape(len(some), len(names))
            holds = bound.are_accepted(rows, self._vertices, self._vertices.edges.unit)
            yield from (one for one, is_accepted in zip(some, holds.tolist(), strict=True) if is_accepted)

    @property
    def _vertices(self) -> VertexDictionary:
        assert self._terms.vertices is not None
        return self._terms.vertices

    def _vertex(self, text: str) -> int:
        """Return the vertex with a name; the term with this text if there is no such vertex."""
        vertex = self._vertices.id_of(as_vertex(text, self._vertices.kind))
        return vertex if vertex >= 0 else self._terms.intern(text)


def _bound(known: Known) -> dict[str, int]:
    return {name: value for name, value in known.items() if value != UNBOUND}


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
        for found in solution.matches:
            ends = (end for source, _, target in found.meaning.edges for end in (source, target) if isinstance(end, str))
            self._add_values(values, ((name.removeprefix("?"), found.binding[name]) for name in ends))
        self._add_values(values, sorted(solution.values.items()))
        atoms = [atom for found in solution.matches for atom in self._atoms(found)]
        return Witness(binding=tuple(values.items()), atoms=tuple(atoms))

    def _add_values(self, values: dict[str, Any], binding: Iterable[tuple[str, int]]) -> None:
        """Add the nodes and edges that have names in the text; edges have values by their identity."""
        for internal, identity in binding:
            is_edge = internal.startswith(".")
            name = internal.removeprefix(".").partition(".")[0]
            if _NAME.fullmatch(name) is None or name in values:
                continue
            if not is_edge:
                values[name] = self.vertices.name_of(identity)
            elif self.vertices.edges.have_identities:
                values[name] = self.vertices.edges.identities(np.array([identity]))[0].as_py()

    def _atoms(self, found: Match) -> Iterator[AtomWitness]:
        texts = atom_texts(found.conjunction.atoms)
        is_object = False
        for place, one in enumerate(found.conjunction.atoms):
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
