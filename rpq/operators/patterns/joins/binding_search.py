"""The search for one binding of an answer: values for the variables that are not columns.

Variables with known values become constants. The kernels enumerate the remaining variables of a part up to its first row, in
the order of one of its plans, so every list that they walk is maintained anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Protocol

from rpq.operators.patterns.joins.plan import Component, EdgeAtom, Look, Seed, Step, Term, Test

Binding = dict[str, int]
"""Values of variables: ids of vertices."""


class SearchedRelations(Protocol):
    """The methods of relations that the search calls."""

    def holds(self, relation: int, source: int, target: int) -> bool:
        """Return whether an edge is in a relation."""

    def current_edges(self, relation: int) -> int:
        """Return the number of edges of a relation."""

    def rows(self, part: Component, *, first: bool) -> list[tuple[int, ...]]:
        """Return all rows of a part that has no plans, or only the first row."""


def find_binding(
    relations: SearchedRelations, parts: Sequence[Component], bound: Binding, *, isomorphism: bool
) -> Binding | None:
    """Return values for all variables of a pattern's parts that agree with the `bound` ones, or None.

    With `isomorphism`, different terms have different values. O(atoms) if all variables are bound; otherwise O(edges), plus
    the cost of finding a row.
    """
    return next(_bindings(relations, parts, bound, isomorphism=isomorphism, first=True), None)


def find_bindings(
    relations: SearchedRelations, parts: Sequence[Component], bound: Binding, *, first: bool = False
) -> Iterator[Binding]:
    """Yield all bindings of the variables of a pattern's parts that agree with the `bound` ones. O(edges, and the join).

    With `first`, bindings after the first are yielded only if they cost nothing more.
    """
    return _bindings(relations, parts, bound, isomorphism=False, first=first)


def _bindings(
    relations: SearchedRelations, parts: Sequence[Component], bound: Binding, *, isomorphism: bool, first: bool
) -> Iterator[Binding]:
    """Yield bindings of all variables of parts. With `first`, yield those after the first only if they cost nothing more."""
    atoms = [atom for part in parts for atom in _substitute_in_atoms(part.atoms, bound)]
    for source, relation, target in atoms:
        if not isinstance(source, str) and not isinstance(target, str) and not relations.holds(relation, source, target):
            return
    constants = {term for part in parts for term in part.slots if not isinstance(term, str)}
    if isomorphism and len({*bound.values(), *constants}) < len(bound) + len(constants):
        return
    excluded = tuple(constants | {*bound.values()}) if isomorphism else None
    open_parts = [_substitute(part, bound, excluded, relations) for part in parts if not {*part.variables} <= bound.keys()]
    combines_parts = isomorphism and len(open_parts) > 1  # then values of different parts must differ too
    rows = [
        [dict(zip(part.columns, row, strict=True)) for row in relations.rows(part, first=first and not combines_parts)]
        for part in open_parts
    ]
    for choice in itertools.product(*rows):
        binding = bound | {name: value for row in choice for name, value in row.items()}
        if not combines_parts or len({*binding.values()}) == len(binding):
            yield binding


def _substitute_in_atoms(atoms: Sequence[EdgeAtom], bound: Binding) -> tuple[EdgeAtom, ...]:
    values: dict[Term, Term] = dict(bound.items())

    def value_of(term: Term) -> Term:
        return values.get(term, term)

    return tuple(EdgeAtom(value_of(atom.source), atom.relation, value_of(atom.target)) for atom in atoms)


def _substitute(
    part: Component, bound: Binding, excluded: tuple[Term, ...] | None, relations: SearchedRelations
) -> Component:
    """Return a part with one seed in which the bound variables are constants. Its columns are the other variables.

    Values must differ from the `excluded` constants, and from one another.
    """
    values: dict[Term, Term] = dict(bound.items())
    atoms = _substitute_in_atoms(part.atoms, bound)

    def cost(seed: Seed) -> tuple[int, int]:
        ends = {term for term in (atoms[seed.atom].source, atoms[seed.atom].target) if isinstance(term, str)}
        return len(ends), relations.current_edges(atoms[seed.atom].relation)

    cheapest = min(part.seeds, key=cost)
    columns = tuple(name for name in part.variables if name not in bound)
    ends = dict.fromkeys((atoms[cheapest.atom].source, atoms[cheapest.atom].target))
    bound_terms: list[Term] = [term for term in ends if isinstance(term, str)]
    differ: list[tuple[Term, Term]] = []
    if excluded is not None:
        differ = [*combinations(bound_terms, 2), *((term, other) for term in bound_terms for other in excluded)]
    tests = [Test(atom=test.atom, excludes_change=False) for test in cheapest.tests]
    looks = tuple(_bind_look(look, values) for look in cheapest.looks)
    steps: list[tuple[Step, list[Test]]] = []
    early_tests = tests  # the tests of steps of known variables are made as early as possible
    for step in cheapest.steps:
        if step.variable in bound:
            numbers = [*(reach.atom for reach in step.reaches), *(test.atom for test in step.tests)]
            early_tests += [Test(atom=number, excludes_change=False) for number in numbers]
            continue
        reaches = tuple(
            replace(reach, bound_term=values.get(reach.bound_term, reach.bound_term), excludes_change=False)
            for reach in step.reaches
        )
        early_tests = [Test(atom=test.atom, excludes_change=False) for test in step.tests]
        bound_step = Step(
            variable=step.variable,
            reaches=reaches,
            tests=(),
            looks=tuple(_bind_look(look, values) for look in step.looks),
            differs_from=(*bound_terms, *excluded) if excluded is not None else (),
        )
        steps.append((bound_step, early_tests))
        bound_terms.append(step.variable)
    seed = Seed(
        atom=cheapest.atom,
        tests=tuple(tests),
        looks=looks,
        differ=tuple(differ),
        steps=tuple(replace(step, tests=tuple(early_tests)) for step, early_tests in steps),
    )
    terms = dict.fromkeys(term for atom in atoms for term in (atom.source, atom.target) if not isinstance(term, str))
    others = [term for term in excluded or () if term not in terms]
    return Component(atoms=atoms, columns=columns, slots=(*columns, *terms, *others), seeds=(seed,))


def _bind_look(look: Look, values: Mapping[Term, Term]) -> Look:
    return replace(look, term=values.get(look.term, look.term))
