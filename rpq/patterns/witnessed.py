"""The witness of a solution as users see it: a binding, and the edges and paths that make each atom hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

Vertex = int | str


@dataclass(frozen=True, kw_only=True)
class Step:
    """An edge behind an atom, with its time: the largest timestamp since it came in, None for a static edge.

    `against` tells that a path walks it from its target to its source.

    >>> print(Step(source="x", label="knows", target="y", timestamp=7))
    x -knows-> y @7
    >>> print(Step(source="x", label="knows", target="y", timestamp=None, against=True))
    y <-knows- x
    """

    source: Vertex
    label: str
    target: Vertex
    timestamp: Any
    against: bool = False

    @property
    def ends(self) -> tuple[Vertex, Vertex]:
        """From where to where it is walked.

        >>> Step(source="x", label="knows", target="y", timestamp=7, against=True).ends
        ('y', 'x')
        """
        return (self.target, self.source) if self.against else (self.source, self.target)

    @property
    def arrow(self) -> str:
        """Its label, as an arrow in the direction in which it is walked.

        >>> Step(source="x", label="knows", target="y", timestamp=7).arrow
        '-knows->'
        """
        return f"<-{self.label}-" if self.against else f"-{self.label}->"

    def __str__(self) -> str:
        first, last = self.ends
        return f"{first} {self.arrow} {last}" + ("" if self.timestamp is None else f" @{self.timestamp}")


@dataclass(frozen=True, kw_only=True)
class AtomWitness:
    """What makes an atom hold: one edge, or the edges of a path from its subject to its object.

    >>> step = Step(source="b", label="knows", target="a", timestamp=7, against=True)
    >>> print(AtomWitness(atom="?x ^knows ?y", steps=(step,)))
    ?x ^knows ?y: a <-knows- b @7
    """

    atom: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        def told() -> Iterator[str]:
            yield str(self.steps[0].ends[0])
            for step in self.steps:
                yield f" {step.arrow} {step.ends[1]}" + ("" if step.timestamp is None else f" @{step.timestamp}")

        return f"{self.atom}: {''.join(told())}"


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Why a row is an answer of a pattern: a value for each variable and blank node, and what makes each atom hold.

    Of the bindings that give the row it is any one. The text has a line for the values, and one for each atom.

    >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
    >>> witness = Witness(binding=(("?x", "ann"),), atoms=(AtomWitness(atom="?x knows bob", steps=(step,)),))
    >>> print(witness)
    ?x = ann
    ?x knows bob: ann -knows-> bob @7
    """

    binding: tuple[tuple[str, Vertex], ...]
    atoms: tuple[AtomWitness, ...]

    def __getitem__(self, name: str) -> Vertex:
        """The value of a variable, or of a blank node (`_:name`).

        >>> Witness(binding=(("?x", "ann"), ("_:b", "bob")), atoms=())["x"]
        'ann'
        """
        values = dict(self.binding)
        return values[name] if name in values else values[f"?{name}"]

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self.binding)
        return "\n".join([*([values] if values else []), *map(str, self.atoms)])

    def told(self, time: Callable[[Any], Any]) -> Witness:
        """The same with other words for times.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
        >>> witness = Witness(binding=(), atoms=(AtomWitness(atom="ann knows bob", steps=(step,)),))
        >>> print(witness.told("second {}".format))
        ann knows bob: ann -knows-> bob @second 7
        """
        return replace(
            self,
            atoms=tuple(
                replace(atom, steps=tuple(replace(step, timestamp=time(step.timestamp)) for step in atom.steps))
                for atom in self.atoms
            ),
        )

    def to_json(self) -> str:
        """For each atom, in the order of the pattern, a list v0, label, time, v1, …, `^label` for an edge walked against.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7, against=True)
        >>> Witness(binding=(), atoms=(AtomWitness(atom="?x ^knows ann", steps=(step,)),)).to_json()
        '[["bob", "^knows", 7, "ann"]]'
        """
        atoms = []
        for atom in self.atoms:
            walked: list[Any] = [atom.steps[0].ends[0]]
            for step in atom.steps:
                walked += ["^" * step.against + step.label, step.timestamp, step.ends[1]]
            atoms.append(walked)
        return json.dumps(atoms, ensure_ascii=False, default=str)
