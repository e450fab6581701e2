"""Plans by the shape of a part: parts that differ in the names of variables and in their constants have one.

In a shape variables are numbered as they first appear, and constants too; `Shaped.constants` has what they are. Thousands of
patterns have parts of some hundreds of shapes, and planning takes longer than all else when one is registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rpq.patterns.plan import Atom, Part, Term, condition_part, connected_parts, plan_pattern


class Shaped(NamedTuple):
    """A part of a pattern: its shape, and how its columns are called and which vertices its constants are there."""

    part: Part
    columns: tuple[str, ...]
    constants: tuple[int, ...] | None
    """None: the part has them itself."""


def shaped_parts(atoms: Sequence[Atom], select: Sequence[str], *, isomorphism: bool) -> list[Shaped]:
    """The parts of a pattern, and behind them its conditions as parts without columns. Raises `QueryError`."""
    if isomorphism:
        plan = plan_pattern(atoms, select=select, isomorphism=True)
        if len(plan.parts) > 1:
            # Variables of different parts are compared where their product is formed, so all have to be there.
            everything = [name for part in plan.parts for name in part.variables]
            plan = plan_pattern(atoms, select=everything, isomorphism=True)
        parts = [*plan.parts, *map(condition_part, plan.conditions)]
        return [Shaped(part, part.columns, None) for part in parts]
    return [_shaped(some, select) for some in connected_parts(atoms)]


def _shaped(atoms: Sequence[Atom], select: Sequence[str]) -> Shaped:
    terms = dict.fromkeys(term for source, _, target in atoms for term in (source, target))
    variables = {term: f"?{number}" for number, term in enumerate(t for t in terms if isinstance(t, str))}
    constants = tuple(term for term in terms if not isinstance(term, str))
    shown: dict[Term, Term] = {vertex: rank for rank, vertex in enumerate(constants)}
    shown.update(variables.items())
    columns = tuple(name for name in select if name in variables)
    shape = tuple(Atom(shown[source], relation, shown[target]) for source, relation, target in atoms)
    return Shaped(_part_of(shape, tuple(variables[name] for name in columns)), columns, constants)


@lru_cache(maxsize=1 << 14)
def _part_of(atoms: tuple[Atom, ...], columns: tuple[str, ...]) -> Part:
    plan = plan_pattern(atoms, select=columns)
    return plan.parts[0] if plan.parts else condition_part(plan.conditions[0])
