"""The merging of chains of atoms into one atom: `?x a2q ?m . ?m c2a* ?y` is `?x a2q/c2a+ ?y` where no column shows ?m.

Consider a variable that only two atoms read and no column shows. Under DISTINCT the number of its values has no effect, only
whether there is one: the two atoms hold if there is a walk of the first expression followed by one of the second. This is
a path atom of the concatenation of their non-empty words, since path atoms match non-empty paths. One index answers it, in
place of two and of a join whose rows are mostly repetitions.

An atom that is a single edge takes part where its part of the pattern is one chain: then the pairs that the index finds
are the answers, and never more than the bindings that a join would enumerate (a2q/c2a on MathOverflow: 0.3 s, the join
with DISTINCT 7 s). It also becomes the beginning or the end of a path where that brings it to a constant, or to a variable
that an edge joins to one: then few trees are grown. Elsewhere the join finds only those pairs that other atoms let through,
where the index would hold all.

Chains stay as they are where paths are simple (two simple paths in a row may cross each other) and under isomorphism
(the vertex between them has to differ from others), and where the edges of a path are in an order in time, which would
become that of the whole. Chains whose other ends are one variable are not merged either: all pairs would have to be found
to select those of the form (x, x).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Self

import rpq.automata as automata
from rpq.automata import Concatenation, Expression, ExpressionError
from rpq.automata.expressions import SizeError
from rpq.language.pattern import Atom, Blank, Constant, Term, Variable, merge_overlapping
from rpq.language.query import PatternQuery

_LARGER = 2
"""The automaton of a chain may have at most this many times the states of both automata together."""


class Link(NamedTuple):
    """An atom of a chain: its place in the pattern, and its expression as the chain walks it, possibly reversed."""

    place: int
    expression: Expression
    is_backwards: bool = False


class Chain(NamedTuple):
    """An atom that is evaluated, and the atoms of the pattern that it replaces, in the order of its walks."""

    atom: Atom
    links: tuple[Link, ...]

    @property
    def place(self) -> int:
        """The place of the first of its atoms in the pattern."""
        return min(link.place for link in self.links)

    def backwards(self) -> Self:
        """Return the chain walked from its object to its subject. Raises `SizeError`."""
        links = [
            Link(place, automata.reversal(expression), not is_backwards)
            for place, expression, is_backwards in reversed(self.links)
        ]
        atom = Atom(self.atom.object, automata.reversal(self.atom.expression), self.atom.subject)
        return self._replace(atom=atom, links=tuple(links))


def chains_to_evaluate(query: PatternQuery) -> tuple[Chain, ...]:
    """Return the atoms of a query as chains, merged where the options of the query allow it."""
    pattern = query.pattern
    chains = single_atom_chains(pattern.atoms)
    if query.distinct and query.paths == "walk" and query.matching == "homomorphism":
        return merge_chains(chains, pattern.columns)
    return chains


def single_atom_chains(atoms: Sequence[Atom]) -> tuple[Chain, ...]:
    """Return a chain of its own for each atom."""
    return tuple(Chain(atom, (Link(place, atom.expression),)) for place, atom in enumerate(atoms))


def merge_chains(atoms: Sequence[Chain], columns: Collection[str]) -> tuple[Chain, ...]:
    r"""Return chains with the same distinct solutions in these columns, of which each is one atom.

    An atom made of a chain stands where the first of its atoms stood, and reads in its direction. O(atoms²), and
    compiling what is merged.

    >>> from rpq.language.pattern import parse_pattern
    >>> atoms = single_atom_chains(parse_pattern("?x a* ?m . ?n c+ ?m . ?n b|d ?y . ?y d ?x"))
    >>> print(*(chain.atom for chain in merge_chains(atoms, ["x", "y"])), sep="\n")
    ?x a+/^c+/(b|d) ?y
    ?y d ?x
    """
    found: list[Chain] = []
    for part in _parts(atoms):
        short = _merge_part(part, columns, edges_too=True)
        found += short if len(short) == 1 else _merge_part(part, columns, edges_too=False)
    return tuple(sorted(found, key=lambda chain: chain.place))


def _parts(atoms: Sequence[Chain]) -> list[list[Chain]]:
    """Return the atoms grouped by the parts of the pattern, which have no variable in common."""
    terms = [{term for term in (one.atom.subject, one.atom.object) if not isinstance(term, Constant)} for one in atoms]
    return [[atoms[place] for place in places] for _, places in merge_overlapping(terms)]


def _merge_part(atoms: Sequence[Chain], columns: Collection[str], *, edges_too: bool) -> list[Chain]:
    """Return one part of a pattern with its chains merged; unless `edges_too`, only chains that have path atoms."""
    found = list(atoms)
    few = _selective_terms([chain.atom for chain in atoms])
    refused: set[Term] = set()
    while (joint := _find_joint(found, columns, refused, few, edges_too)) is not None:
        middle, first, second = joint
        merged = _merge_pair(found[first], found[second], middle)
        if merged is None:
            refused.add(middle)
        else:
            found[first] = merged
            del found[second]
    return found


def _selective_terms(atoms: Sequence[Atom]) -> set[Term]:
    """Return the terms that stand for few vertices: constants, and terms that an edge atom joins to a constant."""
    ends = [(atom.subject, atom.object) for atom in atoms if atom.edge is not None]
    constants = {term for atom in atoms for term in (atom.subject, atom.object) if isinstance(term, Constant)}
    return constants.union(*([begin, end] for begin, end in ends if begin in constants or end in constants))


def _find_joint(
    atoms: Sequence[Chain],
    columns: Collection[str],
    refused: Collection[Term],
    few: Collection[Term],
    edges_too: bool,
) -> tuple[Term, int, int] | None:
    """Return a variable that only joins two atoms and was not refused, with the places of these atoms; else None."""
    uses: dict[Term, list[int]] = {}
    for place, chain in enumerate(atoms):
        for term in (chain.atom.subject, chain.atom.object):
            uses.setdefault(term, []).append(place)
    for term, places in uses.items():
        hidden = isinstance(term, Blank) or (isinstance(term, Variable) and term.name not in columns)
        if not hidden or term in refused or len(places) != 2 or places[0] == places[1]:
            continue
        joined = [atoms[place].atom for place in places]
        if any(atom.order is not None for atom in joined):
            continue  # the order would be that of the whole path
        edges = [atom for atom in joined if atom.edge is not None]
        if edges_too or not edges or (len(edges) == 1 and {edges[0].subject, edges[0].object} & {*few} - {term}):
            return term, places[0], places[1]
    return None


def _merge_pair(first: Chain, second: Chain, middle: Term) -> Chain | None:
    """Return the chain that replaces two chains which meet at a variable, or None where it would cost more than they do."""
    if first.atom.subject == middle == second.atom.object:
        first, second = second, first  # ?m R ?y . ?x S ?m reads better as ?x S/R ?y than with two inverses
    try:
        first = first if first.atom.object == middle else first.backwards()
        second = second if second.atom.subject == middle else second.backwards()
        begin, end = first.atom.subject, second.atom.object
        if begin == end and not isinstance(begin, Constant):
            return None
        walks = automata.nonempty(first.atom.expression), automata.nonempty(second.atom.expression)
        if walks[0] is None or walks[1] is None:
            return None
        whole = Concatenation((walks[0], walks[1]))
        of_parts, of_whole = [automata.compile(walk) for walk in (walks[0], walks[1])], automata.compile(whole)
        if len(of_whole.accepting) > _LARGER * sum(len(part.accepting) for part in of_parts):
            return None
        if not of_whole.labels <= of_parts[0].labels | of_parts[1].labels:
            return None  # tests of the vertices would be on other edges than those that the query reads
    except (ExpressionError, SizeError):
        return None
    return Chain(Atom(begin, whole, end), (*first.links, *second.links))
