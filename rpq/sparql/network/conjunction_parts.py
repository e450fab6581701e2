"""The parts of conjunctions: what goes to the kernels of patterns, each as a whole.

A conjunction with literals has several meanings, whose solutions are added up (`rpq.patterns.meanings`). Each falls into
parts without a common variable, which are kept apart, and atoms without variables, each a part without columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpq.patterns.joins.plan import plan_pattern
from rpq.patterns.meanings import DirectedAtom, Meaning, NamedVertex, PathRead, direct_atoms, meanings_of, variable
from rpq.sparql.algebra import Conjunction


class Read(NamedTuple):
    """What an atom reads: edges of a label, or pairs of a path, in a window (None: the default graph)."""

    window: str | None
    of: str | PathRead

    def __str__(self) -> str:
        name = self.of if isinstance(self.of, str) else self.of.expression
        return name if self.window is None else f"{name} in <{self.window}>"


class ConjunctionPart(NamedTuple):
    """Atoms that are connected by shared variables, or one without any; with the variables that are columns."""

    meaning: Meaning
    columns: tuple[str, ...]

    @property
    def reads(self) -> list[Read]:
        """What its atoms read."""
        return [read for _, read, _ in self.meaning.edges]  # type: ignore[misc]  # it is of these that meanings were made

    @property
    def select(self) -> list[str]:
        """The columns, as plans have variables."""
        return [variable(name) for name in self.columns]

    def __str__(self) -> str:
        def told(term: str | NamedVertex) -> str:
            return f"<{term.name}>" if isinstance(term, NamedVertex) else term

        return " . ".join(f"{told(source)} {read} {told(target)}" for source, read, target in self.meaning.edges)


def parts_of(conjunction: Conjunction, needed: frozenset[str]) -> list[list[ConjunctionPart]]:
    """For each meaning its parts, whose columns are the variables that are `needed`. Raises `QueryError`. O(atoms³)."""
    atoms = []
    windows = [*dict.fromkeys(one.window for one in conjunction.atoms)]
    for window in windows:
        mine = [one.atom for one in conjunction.atoms if one.window == window]
        atoms += [DirectedAtom(atom.source, Read(window, atom.reads), atom.target) for atom in direct_atoms(mine)]  # type: ignore[arg-type]
    return [_parts(meaning, needed) for meaning in meanings_of(atoms, isomorphism=False)]


def _parts(meaning: Meaning, needed: frozenset[str]) -> list[ConjunctionPart]:
    groups: list[tuple[set[str], list[int]]] = []
    edges = [*dict.fromkeys(meaning.edges)]
    for number, (source, _, target) in enumerate(edges):
        names = {term for term in (source, target) if isinstance(term, str)}
        numbers, apart = [number], []
        for held in groups:
            if held[0] & names:
                names |= held[0]
                numbers += held[1]
            else:
                apart.append(held)
        groups = [*apart, (names, numbers)]
    wanted = [variable(name) for name in sorted(needed)]
    parts = []
    for names, numbers in sorted(groups, key=lambda group: min(group[1])):
        columns = tuple(name.removeprefix("?") for name in wanted if name in names)
        part = ConjunctionPart(Meaning(tuple(edges[number] for number in sorted(numbers))), columns)
        _see_that_it_can_be_planned(part)
        parts.append(part)
    return parts


def _see_that_it_can_be_planned(part: ConjunctionPart) -> None:
    """Raise `QueryError` for what no plan can be made of."""
    numbers: dict[object, int] = {}

    def number_of(thing: object) -> int:
        return numbers.setdefault(thing, len(numbers))

    plan_pattern(part.meaning.atoms(number_of, number_of), select=part.select)


def all_reads(parts: Sequence[ConjunctionPart]) -> list[Read]:
    """What some parts read, each once."""
    return [*dict.fromkeys(read for part in parts for read in part.reads)]
