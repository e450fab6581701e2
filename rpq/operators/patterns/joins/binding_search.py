"""The search for one binding of an answer: values for the variables that are no columns.

Variables with known values become constants. The kernels enumerate the rest of a part up to its first row, in the order of
one of its plans, so every list that they walk is maintained anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from rpq.operators.patterns.joins.plan import Atom, Look, Part, Reach, Seed, Step, Term, Test

Binding = dict[str, int]
"""Values of variables: ids of vertices."""


class Relations(Protocol):
    """The queries about relations that the search needs."""

    def holds(self, relation: int, source: int, target: int) -> bool:
        """Return whether an edge is in a relation."""

    def current_edges(self, relation: int) -> int:
        """Return the number of edges of a relation."""

    def rows(self, part: Part, *, first: bool) -> list[tuple[int, ...]]:
        """Return all rows of a part that has no plans, or only the first row."""


def find_binding(relations: Relations, parts: Sequence[Part], known: Binding, *, isomorphism: bool) -> Binding | None:
    """Find values for all variables of a pattern's parts, given some of them. Returns None if there are none.

    With `isomorphism` different terms have different values. O(atoms) where all variables are known; else O(edges), and the
    cost of finding a row.
    """
    return next(_bindings(relations, parts, known, isomorphism=isomorphism, first=True), None)


def find_bindings(relations: Relations, parts: Sequence[Part], known: Binding, *, first: bool = False) -> Iterator[Binding]:
    """Yield all values for the variables of a pattern's parts, given some of them. O(edges, and the cost of the join).

    With `first` the others are yielded only if they cost nothing more.
    """
    return _bindings(relations, parts, known, isomorphism=False, first=first)


def _bindings(
    relations: Relations, parts: Sequence[Part], known: Binding, *, isomorphism: bool, first: bool
) -> Iterator[Binding]:
    """Yield values for all variables of parts; with `first`, others than the first only if they cost nothing more."""
    atoms = [atom for part in parts for atom in _put(part.atoms, known)]
    for source, relation, target in atoms:
        if not isinstance(source, str) and not isinstance(target, str) and not relations.holds(relation, source, target):
            return
    constants = {term for part in parts for term in part.slots if not isinstance(term, str)}
    if isomorphism and len({*known.values(), *constants}) < len(known) + len(constants):
        return
    apart = tuple(constants | {*known.values()}) if isomorphism else None
    left = [_substitute_known(part, known, apart, relations) for part in parts if not {*part.variables} <= known.keys()]
    combines_parts = isomorphism and len(left) > 1  # then values of different parts must differ too
    found = [
        [dict(zip(part.columns, row, strict=True)) for row in relations.rows(part, first=first and not combines_parts)]
        for part in left
    ]
    for choice in itertools.product(*found):
        binding = known | {name: value for some in choice for name, value in some.items()}
        if not combines_parts or len({*binding.values()}) == len(binding):
            yield binding


def _put(atoms: Sequence[Atom], known: Binding) -> tuple[Atom, ...]:
    values: dict[Term, Term] = dict(known.items())

    def put(term: Term) -> Term:
        return values.get(term, term)

    return tuple(Atom(put(atom.source), atom.relation, put(atom.target)) for atom in atoms)


def _substitute_known(part: Part, known: Binding, apart: tuple[Term, ...] | None, relations: Relations) -> Part:
    """Return a part with one seed in which the known variables are constants; its columns are the other variables.

    `apart` are the constants from which values must differ, in addition to one another.
    """
    values: dict[Term, Term] = dict(known.items())
    atoms = _put(part.atoms, known)

    def cost(seed: Seed) -> tuple[int, int]:
        ends = {term for term in (atoms[seed.atom].source, atoms[seed.atom].target) if isinstance(term, str)}
        return len(ends), relations.current_edges(atoms[seed.atom].relation)

    chosen = min(part.seeds, key=cost)
    columns = tuple(name for name in part.variables if name not in known)
    bound: list[Term] = [
        term for term in dict.fromkeys((atoms[chosen.atom].source, atoms[chosen.atom].target)) if isinstance(term, str)
    ]
    differ: list[tuple[Term, Term]] = []
    if apart is not None:
        differ = [*combinations(bound, 2), *((term, other) for term in bound for other in apart)]
    tests = [Test(atom=test.atom, excludes_change=False) for test in chosen.tests]
    looks = tuple(_look(look, values) for look in chosen.looks)
    steps: list[tuple[Step, list[Test]]] = []
    early_tests = tests  # tests of steps of known variables come as early as possible
    for step in chosen.steps:
        if step.variable in known:
            numbers = [*(reach.atom for reach in step.reaches), *(test.atom for test in step.tests)]
            early_tests += [Test(atom=number, excludes_change=False) for number in numbers]
            continue
        reaches = tuple(
            Reach(atom=one.atom, bound=values.get(one.bound, one.bound), forward=one.forward, excludes_change=False)
            for one in step.reaches
        )
        early_tests = [Test(atom=test.atom, excludes_change=False) for test in step.tests]
        bound_step = Step(
            variable=step.variable,
            reaches=reaches,
            tests=(),
            looks=tuple(_look(look, values) for look in step.looks),
            differs_from=(*bound, *apart) if apart is not None else (),
        )
        steps.append((bound_step, early_tests))
        bound.append(step.variable)
    seed = Seed(
        atom=chosen.atom,
        tests=tuple(tests),
        looks=looks,
        differ=tuple(differ),
        steps=tuple(_add_tests(step, early_tests) for step, early_tests in steps),
    )
    terms = dict.fromkeys(term for atom in atoms for term in (atom.source, atom.target) if not isinstance(term, str))
    others = [term for term in apart or () if term not in terms]
    return Part(atoms=atoms, columns=columns, slots=(*columns, *terms, *others), seeds=(seed,))


def _add_tests(step: Step, tests: Sequence[Test]) -> Step:
    return Step(
        variable=step.variable,
        reaches=step.reaches,
        tests=tuple(tests),
        looks=step.looks,
        differs_from=step.differs_from,
    )


def _look(look: Look, values: Mapping[Term, Term]) -> Look:
    return Look(atom=look.atom, term=values.get(look.term, look.term), relation=look.relation, forward=look.forward)
