"""Plans of a pattern: the order in which a change of each atom is joined with the other atoms.

A pattern is a set of atoms over variables (text) and constants (ids of vertices). Atoms without variables are *conditions*.
The others form connected *parts*, joined by shared variables; the product of the parts is not formed here. A part has a seed
for each of its atoms. From a seed, the next variable is the one that most atoms reach from bound terms (among equals, the
one that is in most atoms, then the first in the text), so each step intersects as many lists as possible.

Parts that differ only in the names of variables and in their constants have one *shape*. In a shape, variables are numbered
in the order in which they appear, and so are constants; `ShapedPart.constants` has their vertices. Thousands of patterns
have parts of some hundreds of shapes, and planning each part would take longer than the rest of registering a pattern.

This module uses no numba, arrays or streams; `plan_tables.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from rpq.errors import QueryError
from rpq.language.linear_comparisons import LinearComparison
from rpq.language.pattern import merge_overlapping

Term = str | int
"""A variable by its name (a blank node is one whose name begins with `_:`), or a constant by the id of its vertex."""

MAX_ATOMS = 32


class EdgeAtom(NamedTuple):
    """An edge of a relation from one term to another. An inverse atom is written with its ends exchanged."""

    source: Term
    relation: int
    target: Term


@dataclass(frozen=True, kw_only=True)
class Reach:
    """An atom through which a variable is reached from a bound term: forward along its edges, or backward."""

    atom: int
    bound_term: Term
    forward: bool
    excludes_change: bool
    """True if it is before the seed and reads the same relation, so that it must not use the changing edge."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """An atom whose ends are both bound."""

    atom: int
    excludes_change: bool


@dataclass(frozen=True, kw_only=True)
class Look:
    """A condition on a bound vertex: it has an edge of a relation, out of it (forward) or into it."""

    atom: int
    term: Term
    relation: int
    forward: bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """The binding of a variable.

    The shortest of the lists that the `reaches` walk proposes values; the other atoms and the tests filter them.
    """

    variable: str
    reaches: tuple[Reach, ...]
    tests: tuple[Test, ...]
    looks: tuple[Look, ...]
    differs_from: tuple[Term, ...]
    """Under isomorphism: the terms bound before, from which the value must differ."""
    comparisons: tuple[LinearComparison, ...] = ()
    """Those of the part whose last variable is this one."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """The order of binding after a change of an edge of one atom's relation."""

    atom: int
    tests: tuple[Test, ...]
    looks: tuple[Look, ...]
    differ: tuple[tuple[Term, Term], ...]
    """Under isomorphism: pairs of terms that the seed binds, or constants, which must differ."""
    steps: tuple[Step, ...]
    comparisons: tuple[LinearComparison, ...] = ()
    """Those of the part all of whose variables the seed binds."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """Atoms that are connected by shared variables."""

    atoms: tuple[EdgeAtom, ...]
    columns: tuple[str, ...]
    """The selected variables, in the order of a row."""
    slots: tuple[Term, ...]
    """All terms, the columns first, so that a binding begins with the row."""
    seeds: tuple[Seed, ...]
    label: str | None = None
    """The variable for the label of the edge, in a part of one atom whose relation has labels. It is the last column."""
    comparisons: tuple[LinearComparison, ...] = ()
    """Comparisons that hold for all rows that are needed, so that others need not be found."""

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the part."""
        return tuple(term for term in self.slots if isinstance(term, str))

    def sides(self) -> set[tuple[int, bool]]:
        """Return the sides of relations that the plans walk: (relation, whether forward)."""
        sides = set()
        for seed in self.seeds:
            sides |= {(look.relation, look.forward) for look in seed.looks}
            for step in seed.steps:
                sides |= {(self.atoms[reach.atom].relation, reach.forward) for reach in step.reaches}
                sides |= {(look.relation, look.forward) for look in step.looks}
        return sides


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a pattern, which can be written into tables."""

    select: tuple[str, ...]
    conditions: tuple[EdgeAtom, ...]
    parts: tuple[Component, ...]

    def describe(self, relation_name: Callable[[int], str] = str, vertex_name: Callable[[int], str] = str) -> str:
        """Return the order of binding for each seed, a line a step.

        >>> print(plan_pattern([EdgeAtom("?x", 0, "?y"), EdgeAtom("?y", 1, "?z")]).describe("ab".__getitem__))
        ?x a ?y changes (if b from ?y):
          ?z from b from ?y
        ?y b ?z changes (if a into ?y):
          ?x from a into ?y
        """
        lines = [f"if {format_atom(atom, relation_name, vertex_name)}" for atom in self.conditions]
        for number, part in enumerate(self.parts):
            if len(self.parts) > 1:
                lines.append(f"part {number + 1}: {', '.join(part.variables)}")
            for seed in part.seeds:
                lines += describe_seed(part, seed, relation_name, vertex_name)
        return "\n".join(lines)


def plan_pattern(
    atoms: Sequence[EdgeAtom],
    *,
    select: Sequence[str] | None = None,
    isomorphism: bool = False,
    comparisons: Sequence[LinearComparison] = (),
) -> Plan:
    """Return the plan of a pattern. Without `select`, rows have all variables except blank nodes, in order of appearance.

    With `isomorphism`, all variables of a part and the constants of the pattern have pairwise different values. Variables of
    different parts must be compared where the product is formed. A part that binds all variables of one of the `comparisons`
    finds only rows for which it may hold. O(atoms³).
    """
    distinct = _different(atoms)
    variables = list(dict.fromkeys(term for atom in distinct for term in _ends(atom) if isinstance(term, str)))
    columns = tuple(v for v in variables if not v.startswith("_:")) if select is None else tuple(select)
    for name in columns:
        if name not in variables or name.startswith("_:"):
            raise QueryError(f"the pattern selects {name}, which is not one of its variables")
    if len(set(columns)) < len(columns):
        raise QueryError("the pattern selects a variable twice")
    constants = tuple(dict.fromkeys(int(term) for atom in distinct for term in _ends(atom) if not isinstance(term, str)))
    if min(constants, default=0) < 0:
        raise ValueError(f"a constant is the id of a vertex, 0 or more, not {min(constants)}")
    return Plan(
        select=columns,
        conditions=tuple(atom for atom in distinct if not any(isinstance(term, str) for term in _ends(atom))),
        parts=tuple(
            _part(part, columns, constants if isomorphism else None, comparisons) for part in _group_connected(distinct)
        ),
    )


def connected_parts(atoms: Sequence[EdgeAtom]) -> list[tuple[EdgeAtom, ...]]:
    """Return the atoms of each part, followed by each condition by itself. Raises `QueryError`. O(atoms²)."""
    distinct = _different(atoms)
    conditions = [(atom,) for atom in distinct if not any(isinstance(term, str) for term in _ends(atom))]
    return [*_group_connected(distinct), *conditions]


def condition_part(atom: EdgeAtom) -> Component:
    """Return a condition as a part without columns. It has one row while the edge is present."""
    return _part((atom,), (), None, ())


def _ends(atom: EdgeAtom) -> tuple[Term, Term]:
    return atom.source, atom.target


def is_one_part(atoms: Sequence[EdgeAtom]) -> bool:
    """Return whether the plan of a pattern is one part without conditions.

    Raises `QueryError` if there is no plan. O(atoms²).
    """
    different = _different(atoms)
    connected = _group_connected(different)
    return len(connected) == 1 and len(connected[0]) == len(different)


def _different(atoms: Sequence[EdgeAtom]) -> tuple[EdgeAtom, ...]:
    different = tuple(dict.fromkeys(atoms))
    if len(different) > MAX_ATOMS:
        raise QueryError(f"the pattern has {len(different)} atoms; at most {MAX_ATOMS} are possible")
    return different


def _group_connected(atoms: Sequence[EdgeAtom]) -> list[tuple[EdgeAtom, ...]]:
    """Return the atoms with variables, divided into parts that share no variable, in the order of the pattern."""
    variables = [{term for term in _ends(atom) if isinstance(term, str)} for atom in atoms]
    return [tuple(atoms[i] for i in places) for part, places in merge_overlapping(variables) if part]


def _part(
    atoms: tuple[EdgeAtom, ...],
    select: Sequence[str],
    distinct_constants: tuple[Term, ...] | None,
    comparisons: Sequence[LinearComparison],
) -> Component:
    terms = list(dict.fromkeys(term for atom in atoms for term in _ends(atom)))
    columns = tuple(name for name in select if name in terms)
    other_variables = [term for term in terms if isinstance(term, str) and term not in columns]
    constants: list[Term] = [term for term in terms if not isinstance(term, str)]
    if distinct_constants is not None:
        constants += [term for term in distinct_constants if term not in constants]
    mine = tuple(one for one in comparisons if one.variables <= {*terms})
    return Component(
        atoms=atoms,
        columns=columns,
        slots=(*columns, *other_variables, *constants),
        seeds=tuple(
            _seed(atoms, seed, terms, constants, mine, isomorphism=distinct_constants is not None)
            for seed in range(len(atoms))
        ),
        comparisons=mine,
    )


def spanning_tree(part: Component) -> tuple[int, ...]:
    """Return atoms that join all variables of a part without a cycle: each atom whose ends its predecessors do not join."""
    group = {name: name for name in part.variables}
    tree = []
    for number, (source, _, target) in enumerate(part.atoms):
        if isinstance(source, str) and isinstance(target, str) and group[source] != group[target]:
            tree.append(number)
            old, new = group[target], group[source]
            group = {name: new if root == old else root for name, root in group.items()}
    return tuple(tree)


def must_not_use_the_change(atoms: Sequence[EdgeAtom], atom: int, seed: int) -> bool:
    """Return whether an atom reads its relation without the changing edge: the rule of `alt` and `neu`.

    By this rule, a solution that uses the changing edge in several atoms is found once, from the first of them.
    """
    return atom < seed and atoms[atom].relation == atoms[seed].relation


def _seed(
    atoms: tuple[EdgeAtom, ...],
    seed: int,
    terms: list[Term],
    constants: list[Term],
    comparisons: tuple[LinearComparison, ...],
    *,
    isomorphism: bool,
) -> Seed:
    bound: list[Term] = [*constants, *(term for term in dict.fromkeys(_ends(atoms[seed])) if isinstance(term, str))]
    waiting = [number for number in range(len(atoms)) if number != seed]
    tests = _tests(atoms, seed, waiting, bound)
    terms_bound_first = dict.fromkeys([*_ends(atoms[seed]), *constants])
    looks = tuple(look for term in terms_bound_first for look in _looks(atoms, waiting, term))
    pairs = [pair for pair in combinations(bound, 2) if any(isinstance(term, str) for term in pair)]
    differ = tuple(pairs) if isomorphism else ()
    steps = []
    while len(bound) < len({*terms, *constants}):
        candidates = [term for term in terms if isinstance(term, str) and term not in bound]
        variable = max(candidates, key=lambda term: _closeness(atoms, waiting, term, bound, comparisons))
        assert isinstance(variable, str)
        reaches = []
        for number in waiting.copy():
            source, _, target = atoms[number]
            if (source == variable) != (target == variable):
                other = target if source == variable else source
                if other in bound:
                    excludes, forward = must_not_use_the_change(atoms, number, seed), target == variable
                    reaches.append(Reach(atom=number, bound_term=other, forward=forward, excludes_change=excludes))
                    waiting.remove(number)
        earlier_terms = tuple(bound)
        bound.append(variable)
        steps.append(
            Step(
                variable=variable,
                reaches=tuple(reaches),
                tests=_tests(atoms, seed, waiting, bound),
                looks=tuple(_looks(atoms, waiting, variable)),
                differs_from=earlier_terms if isomorphism else (),
                comparisons=_last_bound_by(comparisons, variable, bound),
            )
        )
    of_seed = tuple(one for one in comparisons if one.variables <= {*_ends(atoms[seed])})
    return Seed(atom=seed, tests=tests, looks=looks, differ=differ, steps=tuple(steps), comparisons=of_seed)


def _last_bound_by(
    comparisons: Sequence[LinearComparison], variable: Term, bound: Sequence[Term]
) -> tuple[LinearComparison, ...]:
    """Return the comparisons for which a variable is the last one that is bound."""
    return tuple(one for one in comparisons if variable in one.variables and one.variables <= {variable, *bound})


def _closeness(
    atoms: Sequence[EdgeAtom],
    waiting: Sequence[int],
    variable: Term,
    bound: Sequence[Term],
    comparisons: Sequence[LinearComparison],
) -> tuple[bool, bool, int, int, int]:
    """Return the rank of a variable among those to bind next; the greatest is bound.

    The rank is whether a waiting atom reaches the variable from a bound variable, whether one reaches it from an edge whose
    values are compared, which has one source and one target, how many comparisons of values the variable completes, how many
    atoms reach it from bound terms, and how many contain it. The list of a constant, for example of all members of a
    class, may be as long as the window, so it proposes values only if no other list can.
    """
    ends = [_ends(atoms[number]) for number in waiting]
    others = [b if a == variable else a for a, b in ends if (a == variable) != (b == variable)]
    reached_from = [term for term in others if term in bound]
    contained = sum(variable in _ends(atom) for atom in atoms)
    edges = frozenset().union(*(one.variables for one in comparisons))
    return (
        any(isinstance(term, str) for term in reached_from),
        not edges.isdisjoint(reached_from),
        len(_last_bound_by(comparisons, variable, bound)),
        len(reached_from),
        contained,
    )


def _tests(atoms: Sequence[EdgeAtom], seed: int, waiting: list[int], bound: Sequence[Term]) -> tuple[Test, ...]:
    """Remove the atoms whose ends are both bound from `waiting`. Return them as tests."""
    both = [number for number in waiting if all(term in bound for term in _ends(atoms[number]))]
    waiting[:] = [number for number in waiting if number not in both]
    return tuple(Test(atom=number, excludes_change=must_not_use_the_change(atoms, number, seed)) for number in both)


def _looks(atoms: Sequence[EdgeAtom], waiting: Sequence[int], term: Term) -> list[Look]:
    """Return the looks that the waiting atoms at a term require."""
    found = []
    for number in waiting:
        source, relation, target = atoms[number]
        if source == term:
            found.append(Look(atom=number, term=term, relation=relation, forward=True))
        if target == term:
            found.append(Look(atom=number, term=term, relation=relation, forward=False))
    return found


# --- description -----------------------------------------------------------------------------------------------------


def format_atom(atom: EdgeAtom, relation_name: Callable[[int], str], vertex_name: Callable[[int], str]) -> str:
    """Return an atom as text."""
    source, target = (term if isinstance(term, str) else vertex_name(term) for term in _ends(atom))
    return f"{source} {relation_name(atom.relation)} {target}"


def describe_seed(
    part: Component, seed: Seed, relation_name: Callable[[int], str], vertex_name: Callable[[int], str]
) -> list[str]:
    """Return the order of binding for a seed: a line for the change, which ends with a colon, then a line for each step."""

    def walk(relation: int, term: Term, forward: bool) -> str:
        end = term if isinstance(term, str) else vertex_name(term)
        return f"{relation_name(relation)} {'from' if forward else 'into'} {end}"

    def suffix(one: Reach | Test) -> str:
        return " before" if one.excludes_change else ""

    def clauses(one: Seed | Step) -> list[str]:
        compared = [f"the values of {' and '.join(sorted(comparison.variables))} fit" for comparison in one.comparisons]
        probes = [format_atom(part.atoms[test.atom], relation_name, vertex_name) + suffix(test) for test in one.tests]
        looks = [walk(look.relation, look.term, look.forward) for look in one.looks]
        return list(dict.fromkeys([*compared, *probes, *looks]))

    conditions = clauses(seed)
    head = f"{format_atom(part.atoms[seed.atom], relation_name, vertex_name)} changes"
    lines = [head + (f" (if {', '.join(conditions)})" if conditions else "") + ":"]
    for step in seed.steps:
        lists = [walk(part.atoms[r.atom].relation, r.bound_term, r.forward) + suffix(r) for r in step.reaches]
        origin = lists[0] if len(lists) == 1 else f"the shortest of {', '.join(lists)}"
        conditions = clauses(step)
        lines.append(f"  {step.variable} from {origin}" + (f", if {', '.join(conditions)}" if conditions else ""))
    return lines


class ShapedPart(NamedTuple):
    """A part of a pattern: its shape, the names of its columns, and the vertices of its constants."""

    part: Component
    columns: tuple[str, ...]
    constants: tuple[int, ...] | None
    """The vertices of the constants, or None if the part contains them itself."""


def shaped_parts(
    atoms: Sequence[EdgeAtom],
    select: Sequence[str],
    *,
    isomorphism: bool,
    comparisons: Sequence[LinearComparison] = (),
) -> list[ShapedPart]:
    """Return the parts of a pattern, followed by its conditions as parts without columns. Raises `QueryError`.

    There are no `comparisons` under isomorphism.
    """
    if isomorphism:
        plan = plan_pattern(atoms, select=select, isomorphism=True)
        if len(plan.parts) > 1:
            # Variables of different parts are compared where their product is formed, so all must be columns.
            variables = [name for part in plan.parts for name in part.variables]
            plan = plan_pattern(atoms, select=variables, isomorphism=True)
        parts = [*plan.parts, *map(condition_part, plan.conditions)]
        return [ShapedPart(part, part.columns, None) for part in parts]
    return [_shape_part(part_atoms, select, comparisons) for part_atoms in connected_parts(atoms)]


def _shape_part(
    atoms: Sequence[EdgeAtom], select: Sequence[str], comparisons: Sequence[LinearComparison]
) -> ShapedPart:
    terms = dict.fromkeys(term for source, _, target in atoms for term in (source, target))
    variables = {term: f"?{number}" for number, term in enumerate(t for t in terms if isinstance(t, str))}
    constants = tuple(term for term in terms if not isinstance(term, str))
    in_shape: dict[Term, Term] = {vertex: rank for rank, vertex in enumerate(constants)}
    in_shape.update(variables.items())
    columns = tuple(name for name in select if name in variables)
    shape = tuple(EdgeAtom(in_shape[source], relation, in_shape[target]) for source, relation, target in atoms)
    mine = tuple(one.renamed(variables.__getitem__) for one in comparisons if one.variables <= variables.keys())
    return ShapedPart(_plan_part(shape, tuple(variables[name] for name in columns), mine), columns, constants)


def with_label(shaped: ShapedPart, name: str) -> ShapedPart:
    """Return a part of one atom, whose relation has the labels of its edges, with the label as the variable of a last
    column.

    >>> (part,) = shaped_parts([EdgeAtom("?s", 0, "?o")], ["?o"], isomorphism=False)
    >>> with_label(part, "?p").columns, with_label(part, "?p").part.slots
    (('?o', '?p'), ('?1', '?label', '?0'))
    """
    return shaped._replace(part=_with_label_column(shaped.part), columns=(*shaped.columns, name))


_LABEL = "?label"


@lru_cache(maxsize=1 << 10)
def _with_label_column(part: Component) -> Component:
    if len(part.atoms) > 1:
        raise ValueError("a label is that of the edge of one atom")
    columns = len(part.columns)
    slots = (*part.columns, _LABEL, *part.slots[columns:])
    return replace(part, columns=(*part.columns, _LABEL), slots=slots, label=_LABEL)


@lru_cache(maxsize=1 << 14)
def _plan_part(
    atoms: tuple[EdgeAtom, ...], columns: tuple[str, ...], comparisons: tuple[LinearComparison, ...]
) -> Component:
    plan = plan_pattern(atoms, select=columns, comparisons=comparisons)
    return plan.parts[0] if plan.parts else condition_part(plan.conditions[0])
