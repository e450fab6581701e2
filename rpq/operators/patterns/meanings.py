"""Patterns in terms of relations and vertices: the directions of atoms, the roots of paths, the meanings of literals.

**Directions.** An edge atom is read along its edge. A path atom is read forward, or against its direction by the reversed
expression: its pairs are found by growing trees from *roots*, and the end with fewer roots is where they begin. A constant
is one root, and a variable of which only some terms are of use (`rpq.language.sparql.restriction`) has these as roots. A
variable at which another edge atom has a constant (`?x role moderator`) can only be a vertex with such an edge: these are
the roots. The same holds for the subject of a path at which another edge atom stands (`?x role ?what`), unless its paths
begin with such edges themselves, when hardly a tree would be avoided. Otherwise every vertex is a root.

This pays however many vertices are bound, so nothing is decided at run time. `?x role ?m . ?x a2q/c2a* ?y` on
MathOverflow, with static edges: 0.5 s in place of 4.0 where 1 % of the vertices are bound, 1.5 for 5.7 at 30 %, 6.5 for 5.8
at 100 %. With edges that come and go, `?x c2q ?z . ?x a2q/c2a* ?y`, 7.4 s for 7.2, and tuple by tuple 12.2 for 11.1; where
these bind fewer, `?z c2q ?x`, 3.2 for 6.0.

**Meanings.** A literal constant means two vertices: the one with its text, and the one whose whole text is its lexical
form. Both match, as a union, and two places with one literal choose each for themselves. So a pattern with literals has
several *meanings*, whose solutions are added up; others have one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import rpq.automata as automata
from rpq.automata.expressions import Expression, Inverse, Label, NegatedSet, SizeError
from rpq.automata.symbols import LabelSymbol, Symbol
from rpq.errors import ExpressionError, QueryError
from rpq.language.edge_variables import BindingFilter, Value
from rpq.language.linear_comparisons import LinearComparison, linear_comparisons
from rpq.language.pattern import Atom, Constant, Term, vertices_of
from rpq.language.pattern import Term as AskedTerm
from rpq.language.query import automaton_of
from rpq.language.time_order import TimeOrder
from rpq.language.where import Node
from rpq.operators.patterns.joins.plan import EdgeAtom
from rpq.stream.names.stream_labels import NodeValue


class Neighbours(NamedTuple):
    """The vertices with an edge of a label to a vertex that has one of these names, or (`inward`) from one.

    Without `names` the edges may lead to or from any vertex.
    """

    label: LabelSymbol
    names: frozenset[str] | None
    inward: bool


Roots = frozenset[str] | Neighbours | None
"""The vertices at which the paths of an atom begin: those with these names, such neighbours, or all (None)."""


class PathRead(NamedTuple):
    """The pairs that a path atom reads: those that a non-empty path of an expression joins, from some roots."""

    expression: str
    roots: Roots
    is_reversed: bool = False
    """True if it is read from the object of its atom to the subject."""
    order: TimeOrder | None = None
    """The order in time of the edges of the paths."""

    @property
    def text(self) -> str:
        """The expression, with the order if there is one."""
        return self.expression if self.order is None else f"({self.expression} {self.order.text})"


class DirectedAtom(NamedTuple):
    """An atom in the direction in which it is read: edges of a label, or pairs."""

    source: Term
    reads: LabelSymbol | PathRead
    target: Term

    @property
    def source_variable(self) -> str | None:
        """The name of the variable at its source, as in plans; None for a constant."""
        return None if isinstance(self.source, Constant) else _name_of(self.source)


def direct_atoms(atoms: Sequence[Atom], restricted: Mapping[Term, frozenset[str]] | None = None) -> list[DirectedAtom]:
    """Return the atoms of a pattern, each in the direction in which it is read. O(atoms²).

    Only these vertices of `restricted` terms are of use.
    """
    found: list[DirectedAtom | Atom] = [_edge(atom) or atom for atom in atoms]
    edges = [atom for atom in found if isinstance(atom, DirectedAtom)]
    return [atom if isinstance(atom, DirectedAtom) else _path(atom, edges, restricted or {}) for atom in found]


def edge_step(expression: Expression) -> Symbol | None:
    """Return the step of an expression whose paths are single edges of one label, or of all, walked one way.

    None for others. The empty path joins nothing, so `a?` is `a` and `(^a)?` is `^a`. The step of `!()` has no label.
    """
    words = _without_empty_word(expression)
    edge = words.inner if isinstance(words, Inverse) else words
    if edge == NegatedSet(()):
        return Symbol(None, inverse=edge is not words)
    return Symbol(edge.name, inverse=edge is not words) if isinstance(edge, Label) else None


def _edge(atom: Atom) -> DirectedAtom | None:
    """Return the directed atom of an atom that reads the edges of one label, or None for others."""
    if atom.order is not None:
        return None
    step = edge_step(atom.expression)
    if step is None or step.label is None:
        return None
    ends = (atom.object, atom.subject) if step.inverse else (atom.subject, atom.object)
    return DirectedAtom(ends[0], step.label, ends[1])


def _path(atom: Atom, edges: Sequence[DirectedAtom], restricted: Mapping[Term, frozenset[str]]) -> DirectedAtom:
    expression = _without_empty_word(atom.expression)
    begin = _roots(atom.subject, edges, restricted) or _bound_roots(atom.subject, edges, expression)
    if atom.order is not None:  # paths in time order are followed in that order
        return DirectedAtom(atom.subject, PathRead(str(expression), begin, order=atom.order), atom.object)
    forward = DirectedAtom(atom.subject, PathRead(str(expression), begin), atom.object)
    roots = _roots(atom.object, edges, restricted)
    if _selectivity(forward.reads.roots) >= _selectivity(roots):  # type: ignore[union-attr]
        return forward
    try:
        reversal = str(automata.reversal(expression))
        automaton_of(reversal)
    except (SizeError, ExpressionError):  # the reversal is nested too deep, or its automaton is much larger
        return forward
    return DirectedAtom(atom.object, PathRead(reversal, roots, is_reversed=True), atom.subject)


def _roots(term: Term, edges: Sequence[DirectedAtom], restricted: Mapping[Term, frozenset[str]]) -> Roots:
    if isinstance(term, Constant):
        return frozenset(vertices_of(term))
    if restricted.get(term):
        return restricted[term]
    for source, label, target in edges:
        assert not isinstance(label, PathRead)
        if source == term and isinstance(target, Constant):
            return Neighbours(label, frozenset(vertices_of(target)), inward=False)
        if target == term and isinstance(source, Constant):
            return Neighbours(label, frozenset(vertices_of(source)), inward=True)
    return None


def _bound_roots(term: Term, edges: Sequence[DirectedAtom], expression: Expression) -> Neighbours | None:
    """Return the vertices with an edge that some atom requires at a variable; None if paths begin with such an edge."""
    dfa = automaton_of(str(expression))
    for source, label, target in edges:
        assert not isinstance(label, PathRead)
        if isinstance(label, NodeValue):
            continue  # every vertex has one
        for end, inward in ((source, False), (target, True)):
            column = dfa.column(label, inward)
            if end == term and (column < 0 or dfa.transitions[0, column] < 0):
                return Neighbours(label, None, inward=inward)
    return None


def _selectivity(roots: Roots) -> int:
    if roots is None or (isinstance(roots, Neighbours) and roots.names is None):
        return 0
    return 1 if isinstance(roots, Neighbours) else 2


def _without_empty_word(expression: Expression) -> Expression:
    """Return an expression with the same pairs, which is the same for `a*` and `a+`."""
    edge = expression.inner if isinstance(expression, Inverse) else expression
    if isinstance(edge, Label) or edge == NegatedSet(()):
        return expression
    try:
        nonempty = automata.nonempty(expression) or expression
        automaton_of(str(nonempty))
    except (SizeError, ExpressionError):
        return expression
    return nonempty


MAX_MEANINGS = 64


class NamedVertex(NamedTuple):
    """A constant of a meaning: the name of its vertex."""

    name: str


MeaningEdge = tuple[str | NamedVertex, LabelSymbol | PathRead, str | NamedVertex]
"""A term, what is read, and the term that it leads to."""


class Meaning(NamedTuple):
    """The relations and paths that are read between terms.

    Variables are written as in `plan` (a blank node is a variable that is not selected), constants as names.
    """

    edges: tuple[MeaningEdge, ...]

    @property
    def names(self) -> set[str]:
        """The names of the constants."""
        return {term.name for source, _, target in self.edges for term in (source, target) if isinstance(term, NamedVertex)}

    def is_covered_by(self, columns: Sequence[str]) -> bool:
        """Return whether columns have every variable, so that no two bindings give the same row."""
        ends = {term for source, _, target in self.edges for term in (source, target) if isinstance(term, str)}
        return ends <= {variable(name) for name in columns}

    def atoms(self, relation_of: Callable[[MeaningEdge], int], id_of: Callable[[str], int]) -> list[EdgeAtom]:
        """Return the atoms, with relations and vertices as numbers."""

        def plan_term(term: str | NamedVertex) -> str | int:
            return id_of(term.name) if isinstance(term, NamedVertex) else term

        return [EdgeAtom(plan_term(edge[0]), relation_of(edge), plan_term(edge[2])) for edge in self.edges]


def name_of_read(reads: LabelSymbol | PathRead) -> str:
    """Return the text of what is read: a label, or the expression of a path."""
    return reads.text if isinstance(reads, PathRead) else str(reads)


def variable(name: str) -> str:
    """Return the name of a variable in a `plan`."""
    return f"?{name}"


def comparisons_in(tree: Node | None, values: Iterable[tuple[str, Value]]) -> list[LinearComparison]:
    """Return the comparisons of values of edges that a condition implies, over variables as plans have them.

    `values` are those that names in the condition stand for.
    """
    return [one.renamed(variable) for one in linear_comparisons(tree, dict(values))]


def comparisons_of(filter: BindingFilter | None) -> list[LinearComparison]:
    """Return the comparisons of values of edges that a filter implies, over variables as plans have them."""
    return [] if filter is None else comparisons_in(filter.where.tree, ((one.column, one) for one in filter.values))


def meanings_of(atoms: Sequence[DirectedAtom], *, isomorphism: bool) -> list[Meaning]:
    """Return all meanings of a pattern: one for each choice of a vertex for each place with a literal.

    With `isomorphism` different terms stand for different vertices, so choices that give two terms one vertex are left out.
    Raises `QueryError` where there are too many meanings.
    """
    constants = [term for source, _, target in atoms for term in (source, target) if isinstance(term, Constant)]
    choices = [vertices_of(constant) for constant in constants]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MAX_MEANINGS:
        raise QueryError(
            f"the pattern has {sum(len(choice) > 1 for choice in choices)} places with a literal constant, each of which "
            f'means two vertices; at most {MAX_MEANINGS.bit_length() - 1} such places are possible. A constant that does '
            'not begin with " means one vertex'
        )
    found = []
    for chosen in itertools.product(*choices):
        stands_for = {(constant.name, name) for constant, name in zip(constants, chosen, strict=True)}
        if isomorphism and len({name for _, name in stands_for}) < len(stands_for):
            continue
        waiting = iter(chosen)
        edges = [(_term(source, waiting), reads, _term(target, waiting)) for source, reads, target in atoms]
        found.append(Meaning(tuple(edges)))
    return found


def _term(term: AskedTerm, waiting: Iterator[str]) -> str | NamedVertex:
    if isinstance(term, Constant):
        return NamedVertex(next(waiting))
    return _name_of(term)


def _name_of(term: AskedTerm) -> str:
    return variable(str(term) if str(term).startswith("_:") else term.name)
