"""The variable around which all edges of an answer lie, by which shares can divide a question with all that it reads.

Where a variable stands in every atom, each an edge, an answer in which it has a vertex is made of edges at this vertex.
Whoever has the vertex answers for it, and need not see other edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rpq.queries.pattern_text import Atom, Variable


@dataclass(frozen=True, kw_only=True)
class Centre:
    """A variable that is a column, and the labels of the edges of which it is the source or the target.

    >>> from rpq.queries.pattern_text import parse_pattern
    >>> centre_of(parse_pattern("?x a ?y . ?y b ?z"), ("x", "y", "z")).variable
    'y'
    """

    variable: str
    column: int
    sources: frozenset[str]
    targets: frozenset[str]


def centre_of(atoms: Sequence[Atom], columns: Sequence[str]) -> Centre | None:
    """The first of some columns that stands in all atoms, each an edge; None where none does. O(atoms · columns)."""
    for column, name in enumerate(columns):
        if stands_in_all(atoms, name):
            return centre_at(atoms, name, column)
    return None


def centre_at(atoms: Iterable[Atom], name: str, column: int) -> Centre:
    """A variable as the centre of atoms in all of which it stands."""
    edges = [atom.edge for atom in atoms]
    ends = {
        place: frozenset(edge[1] for edge in edges if edge is not None and edge[place] == Variable(name)) for place in (0, 2)
    }
    return Centre(variable=name, column=column, sources=ends[0], targets=ends[2])


def stands_in_all(atoms: Sequence[Atom], name: str) -> bool:
    """Whether there are atoms, all of them are edges, and a variable stands in each.

    >>> from rpq.queries.pattern_text import parse_pattern
    >>> [stands_in_all(parse_pattern(text), "x") for text in ("?x a ?y . ?z ^b ?x", "?x a ?y . ?y b ?z", "?x a+ ?y")]
    [True, False, False]
    """
    variable = Variable(name)
    return bool(atoms) and all(atom.edge is not None and variable in (atom.subject, atom.object) for atom in atoms)
