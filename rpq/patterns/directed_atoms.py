"""Which way the atoms of a pattern are read, and from where its paths begin.

An edge atom is read along its edge. A path atom is read forward, or against its direction by the reversed expression:
its pairs are found by growing trees from *roots*, and the end of which there are fewer is where they begin. A constant is
one root. A variable at which another edge atom has a constant (`?x role moderator`) can only be a vertex with such an
edge: these are the roots. So it is for the subject of a path at which another edge atom stands (`?x role ?what`), unless
its paths begin with such edges themselves, when hardly a tree would be spared. Otherwise every vertex is a root.

That pays however many vertices are bound, so nothing decides it while a query runs. `?x role ?m . ?x a2q/c2a* ?y` on
MathOverflow, with static edges: 0.5 s in place of 4.0 where 1 % of the vertices are bound, 1.5 for 5.7 at 30 %, 6.5 for 5.8
at 100 %. By edges that come and go, `?x c2q ?z . ?x a2q/c2a* ?y`, 7.4 s for 7.2, and tuple by tuple 12.2 for 11.1; where
these bind fewer, `?z c2q ?x`, 3.2 for 6.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpq import automata
from rpq.automata.expressions import Expression, Inverse, Label, SizeError
from rpq.automata.symbols import Symbol
from rpq.errors import ExpressionError
from rpq.queries.pattern import Atom, Constant, Term, lexical_form
from rpq.queries.query import compiled


class Neighbours(NamedTuple):
    """The vertices with an edge of a label to a vertex that has one of these names, or (`inward`) from one.

    None: to or from any vertex.
    """

    label: str
    names: frozenset[str] | None
    inward: bool


Roots = frozenset[str] | Neighbours | None
"""Where the paths of an atom begin: at vertices with these names, at such neighbours, or anywhere (None)."""


class PathRead(NamedTuple):
    """What a path atom reads: the pairs that a non-empty path of an expression joins, from some roots."""

    expression: str
    roots: Roots
    turned: bool = False
    """Whether it is read from the object of its atom to the subject."""


class DirectedAtom(NamedTuple):
    """An atom in the direction in which it is read: edges of a label, or pairs."""

    source: Term
    reads: str | PathRead
    target: Term


def vertices_of(constant: Constant) -> list[str]:
    """The names of the vertices that a constant means: of a literal also that of its lexical form."""
    name = constant.name
    return list(dict.fromkeys([name, lexical_form(name)])) if name.startswith('"') else [name]


def directed(atoms: Sequence[Atom]) -> list[DirectedAtom]:
    """The atoms of a pattern, each in its direction. O(atoms²)."""
    found: list[DirectedAtom | Atom] = [_edge(atom) or atom for atom in atoms]
    edges = [atom for atom in found if isinstance(atom, DirectedAtom)]
    return [atom if isinstance(atom, DirectedAtom) else _path(atom, edges) for atom in found]


def edge_step(expression: Expression) -> Symbol | None:
    """The step of an expression whose paths are single edges of one label, walked one way; None for others.

    The empty path joins nothing, so `a?` is `a` and `(^a)?` is `^a`.
    """
    words = _without_empty_word(expression)
    label = words.inner if isinstance(words, Inverse) else words
    return Symbol(label.name, inverse=label is not words) if isinstance(label, Label) else None


def _edge(atom: Atom) -> DirectedAtom | None:
    """An atom that reads the edges of one label; None for others."""
    step = edge_step(atom.expression)
    if step is None or step.label is None:
        return None
    ends = (atom.object, atom.subject) if step.inverse else (atom.subject, atom.object)
    return DirectedAtom(ends[0], step.label, ends[1])


def _path(atom: Atom, edges: Sequence[DirectedAtom]) -> DirectedAtom:
    expression = _without_empty_word(atom.expression)
    begin = _roots(atom.subject, edges) or _bound(atom.subject, edges, expression)
    forward = DirectedAtom(atom.subject, PathRead(str(expression), begin), atom.object)
    roots = _roots(atom.object, edges)
    if _fewness(forward.reads.roots) >= _fewness(roots):  # type: ignore[union-attr]
        return forward
    try:
        reversal = str(automata.reversal(expression))
        compiled(reversal)
    except (SizeError, ExpressionError):  # it would be nested too deep, or its automaton is much larger
        return forward
    return DirectedAtom(atom.object, PathRead(reversal, roots, turned=True), atom.subject)


def _roots(term: Term, edges: Sequence[DirectedAtom]) -> Roots:
    if isinstance(term, Constant):
        return frozenset(vertices_of(term))
    for source, label, target in edges:
        assert isinstance(label, str)
        if source == term and isinstance(target, Constant):
            return Neighbours(label, frozenset(vertices_of(target)), inward=False)
        if target == term and isinstance(source, Constant):
            return Neighbours(label, frozenset(vertices_of(source)), inward=True)
    return None


def _bound(term: Term, edges: Sequence[DirectedAtom], expression: Expression) -> Neighbours | None:
    """The vertices with an edge that some atom asks for at a variable; None where a path begins with one as a rule."""
    dfa = compiled(str(expression))
    for source, label, target in edges:
        assert isinstance(label, str)
        for end, inward in ((source, False), (target, True)):
            column = dfa.column(label, inward)
            if end == term and (column < 0 or dfa.transitions[0, column] < 0):
                return Neighbours(label, None, inward=inward)
    return None


def _fewness(roots: Roots) -> int:
    if roots is None or (isinstance(roots, Neighbours) and roots.names is None):
        return 0
    return 1 if isinstance(roots, Neighbours) else 2


def _without_empty_word(expression: Expression) -> Expression:
    """The same pairs, by an expression that is the same for `a*` and `a+`."""
    if isinstance(expression, Label) or (isinstance(expression, Inverse) and isinstance(expression.inner, Label)):
        return expression
    try:
        nonempty = automata.nonempty(expression) or expression
        compiled(str(nonempty))
    except (SizeError, ExpressionError):
        return expression
    return nonempty
