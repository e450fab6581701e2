"""Which nodes a part needs, as far as its shape tells: how to make them from those of its constants.

Thousands of parts have one shape, so what follows from it alone is found once: which of the variables are behind which
atom, and which nodes hold everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from rpq.patterns.plan import Part, Term
from rpq.patterns.support_tables import spanning_tree

ALWAYS = 0
"""The place of the node that holds everywhere, and its number."""

_NOWHERE = -1
"""In place of the atom from which a term is seen."""


class Behind(NamedTuple):
    """A branch to make: the relation, the side at which its vertices stand, and the place of its child."""

    relation: int
    side: int
    child: int


class NeedShape(NamedTuple):
    """How the nodes that parts of a shape need are made, each at a place behind `ALWAYS`.

    - `made`: for each place from 1 on a constant as the part has it, or the branches that make a node together
    - `ends`: of each seed's atom, the places of the nodes at its source and its target
    - `steps`: of each seed, those of its steps in order
    """

    made: tuple[int | tuple[Behind, ...], ...]
    ends: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, ...], ...]


def need_shape(part: Part) -> NeedShape:
    """The shape of what a part needs. O(its atoms²)."""
    tree = {*spanning_tree(part)}
    at: dict[str, list[int]] = {}
    for number, (source, _, target) in enumerate(part.atoms):
        if number in tree or isinstance(source, str) != isinstance(target, str):
            for term in (source, target):
                if isinstance(term, str):
                    at.setdefault(term, []).append(number)
    made: list[int | tuple[Behind, ...]] = []
    places: dict[int | tuple[Behind, ...], int] = {(): ALWAYS}
    known: dict[tuple[str, int], int] = {}

    def place_of(what: int | tuple[Behind, ...]) -> int:
        if what not in places:
            made.append(what)
            places[what] = len(made)
        return places[what]

    def away(term: Term, atom: int) -> int:
        """The place of what is behind a term, seen from an atom."""
        if not isinstance(term, str):
            return place_of(term)
        if (term, atom) not in known:
            behind = set()
            for other in at.get(term, ()):
                if other != atom:
                    source, relation, target = part.atoms[other]
                    child = away(target if source == term else source, other)
                    if child != ALWAYS:
                        behind.add(Behind(relation, 0 if source == term else 1, child))
            known[term, atom] = place_of(tuple(sorted(behind)))
        return known[term, atom]

    ends, steps = [], []
    for seed in part.seeds:
        source, _, target = part.atoms[seed.atom]
        is_cut = isinstance(source, str) and isinstance(target, str) and seed.atom not in tree
        seen_from = _NOWHERE if is_cut else seed.atom
        ends.append((away(source, seen_from), away(target, seen_from)))
        of_steps = []
        for step in seed.steps:
            through = [reach.atom for reach in step.reaches if reach.atom in tree]
            of_steps.append(away(step.variable, through[0]) if through else ALWAYS)
        steps.append(tuple(of_steps))
    return NeedShape(tuple(made), tuple(ends), tuple(steps))
