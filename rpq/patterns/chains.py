"""Chains of atoms as one: `?x a2q ?m . ?m c2a* ?y` is `?x a2q/c2a+ ?y` where nobody asks for ?m.

Under DISTINCT it does not matter how many values a variable has that no other atom reads and no column shows, only
whether there is one. Then the two atoms at it say that there is a walk of the first expression and behind it one of
the second: a path atom of the concatenation of their non-empty words, since no path atom is about empty paths. One index
answers it, in place of two and of a join whose rows are mostly the same ones again.

Chains stay as they are where paths are simple (two simple paths in a row may cross each other), under isomorphism (the
vertex between them has to differ from others), and where both atoms are single edges, which a join does faster than an
index of paths. Nor are those merged whose other ends are one variable: all pairs would have to be found to see which of
them are of the form (x, x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from rpq import automata
from rpq.automata import Concatenation, Expression, ExpressionError
from rpq.automata.expressions import SizeError
from rpq.queries.pattern_text import Atom, Blank, Constant, Term, Variable
from rpq.queries.query import PatternQuery

_LARGER = 2
"""How many times as many states as both automata together that of a chain may have."""


def may_merge_chains(query: PatternQuery) -> bool:
    """Whether a chain of the query's atoms means what its atoms mean, as far as its options go."""
    return query.distinct and query.paths == "walk" and query.matching == "homomorphism"


def with_chains_merged(atoms: Sequence[Atom], columns: Collection[str]) -> tuple[Atom, ...]:
    """Return atoms with the same distinct solutions in these columns, every chain being one of them; the others as they are.

    An atom made of a chain stands where the first of its atoms stood, and reads in its direction. O(atoms²), and
    compiling what is merged.

    >>> from rpq.queries.pattern_text import parse_pattern
    >>> atoms = parse_pattern("?x a* ?m . ?n c+ ?m . ?n b ?y . ?y d bob")
    >>> print(*with_chains_merged(atoms, ["x", "y"]), sep="\\n")
    ?x a+/^c+/b ?y
    ?y d bob
    """
    found = list(atoms)
    refused: set[Term] = set()
    while (middle := _middle_of_a_chain(found, columns, refused)) is not None:
        first, second = (place for place, atom in enumerate(found) if middle in (atom.subject, atom.object))
        merged = _merged(found[first], found[second], middle)
        if merged is None:
            refused.add(middle)
        else:
            found[first] = merged
            del found[second]
    return tuple(found)


def _middle_of_a_chain(atoms: Sequence[Atom], columns: Collection[str], refused: Collection[Term]) -> Term | None:
    """A variable that only joins two atoms, one of them about paths; none of those that were refused."""
    uses = Counter(term for atom in atoms for term in (atom.subject, atom.object))
    for atom in atoms:
        for term in (atom.object, atom.subject):
            hidden = isinstance(term, Blank) or (isinstance(term, Variable) and term.name not in columns)
            if not hidden or uses[term] != 2 or term in refused:
                continue
            joined = [other for other in atoms if term in (other.subject, other.object)]
            if len(joined) == 2 and any(other.edge is None for other in joined):
                return term
    return None


def _merged(first: Atom, second: Atom, middle: Term) -> Atom | None:
    """The atom that says what two atoms at a variable say, or None where it would cost more than they do."""
    if first.subject == middle == second.object:
        first, second = second, first  # ?m R ?y . ?x S ?m reads better as ?x S/R ?y than with two inverses
    try:
        begin, before = _read_towards(first, middle)
        end, after = _read_from(second, middle)
        if begin == end and not isinstance(begin, Constant):
            return None
        walks = automata.nonempty(before), automata.nonempty(after)
        if walks[0] is None or walks[1] is None:
            return None
        whole = Concatenation((walks[0], walks[1]))
        parts = sum(len(automata.compile(walk).accepting) for walk in (walks[0], walks[1]))
        if len(automata.compile(whole).accepting) > _LARGER * parts:
            return None
    except (ExpressionError, SizeError):
        return None
    return Atom(begin, whole, end)


def _read_towards(atom: Atom, term: Term) -> tuple[Term, Expression]:
    """The other end of an atom, and its expression from there to the term."""
    if atom.object == term:
        return atom.subject, atom.expression
    return atom.object, automata.reversal(atom.expression)


def _read_from(atom: Atom, term: Term) -> tuple[Term, Expression]:
    """The other end of an atom, and its expression from the term to there."""
    if atom.subject == term:
        return atom.object, atom.expression
    return atom.subject, automata.reversal(atom.expression)
