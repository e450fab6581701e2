"""What a pattern asks for in terms of relations and vertices.

A literal constant means two vertices: the one with its text, and the one whose whole text is its lexical form. Both
match, as a union, and two places with one literal choose each for themselves. So a pattern with literals has several
*meanings*, whose solutions are added up; others have one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rpq.errors import QueryError
from rpq.patterns.directed_atoms import DirectedAtom, PathRead, vertices_of
from rpq.patterns.plan import Atom
from rpq.queries.pattern import Constant
from rpq.queries.pattern import Term as AskedTerm

MOST_MEANINGS = 64


class Named(NamedTuple):
    """A constant of a meaning: the name of its vertex."""

    name: str


class Meaning(NamedTuple):
    """What is read between terms: variables as `plan` has them (a blank node is one that is not selected), and names."""

    edges: tuple[tuple[str | Named, str | PathRead, str | Named], ...]

    @property
    def names(self) -> set[str]:
        """The names of the constants."""
        return {term.name for source, _, target in self.edges for term in (source, target) if isinstance(term, Named)}

    def shown_by(self, columns: Sequence[str]) -> bool:
        """Whether columns have every variable, so that no two bindings give the same row."""
        ends = {term for source, _, target in self.edges for term in (source, target) if isinstance(term, str)}
        return ends <= {variable(name) for name in columns}

    def atoms(self, relation_of: Callable[[str | PathRead], int], id_of: Callable[[str], int]) -> list[Atom]:
        """The atoms, by relations and ids of vertices."""

        def known(term: str | Named) -> str | int:
            return id_of(term.name) if isinstance(term, Named) else term

        return [Atom(known(source), relation_of(reads), known(target)) for source, reads, target in self.edges]


def name_of_read(reads: str | PathRead) -> str:
    """What is read, as a text: a label, or the expression of a path."""
    return reads if isinstance(reads, str) else reads.expression


def variable(name: str) -> str:
    """A variable as `plan` has it."""
    return f"?{name}"


def meanings_of(atoms: Sequence[DirectedAtom], *, isomorphism: bool) -> list[Meaning]:
    """All meanings of a pattern of these atoms: one for each choice of a vertex for each place with a literal.

    With `isomorphism` different terms stand for different vertices, so choices where they do not are none. Raises
    `QueryError` where there are too many.
    """
    constants = [term for source, _, target in atoms for term in (source, target) if isinstance(term, Constant)]
    choices = [vertices_of(constant) for constant in constants]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_MEANINGS:
        raise QueryError(
            f"the pattern has {sum(len(choice) > 1 for choice in choices)} places with a literal constant, each of which "
            f'means two vertices; at most {MOST_MEANINGS.bit_length() - 1} such places are possible. A constant that does '
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


def _term(term: AskedTerm, waiting: Iterator[str]) -> str | Named:
    if isinstance(term, Constant):
        return Named(next(waiting))
    return variable(str(term) if str(term).startswith("_:") else term.name)
