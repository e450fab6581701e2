"""The witness of an answer of a pattern that runs: a binding for it, then what is behind each atom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rpq.automata.expressions import Inverse
from rpq.patterns.binding_search import Binding, find_binding
from rpq.patterns.meanings import Meaning, Named
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.plan import Part
from rpq.patterns.witnessed import AtomWitness, Step, Witness
from rpq.queries.pattern_text import Atom
from rpq.queries.query import PatternQuery
from rpq.stream.vertices import VertexDictionary


def witness_of(
    meanings: Sequence[tuple[Meaning, Sequence[Part]]],
    known: Binding,
    *,
    question: PatternQuery,
    host: PatternHost,
    relation_of: Callable[[str], int],
    vertices: VertexDictionary,
) -> Witness | None:
    """Why the values of the columns are an answer, None if they are none.

    `meanings` come with the parts of their plans. O(atoms), and O(edges) where the columns leave variables out.
    """
    held = _Held(host)
    for meaning, parts in meanings:
        binding = find_binding(held, parts, known, differ=question.matching == "isomorphism")
        if binding is not None:
            atoms = zip(question.pattern.atoms, meaning.edges, strict=True)
            return Witness(
                binding=tuple((_written(name), vertices.name_of(value)) for name, value in binding.items()),
                atoms=tuple(
                    AtomWitness(atom=str(atom), steps=_steps(atom, edge, binding, host, relation_of, vertices))
                    for atom, edge in atoms
                ),
            )
    return None


def _written(variable: str) -> str:
    """A variable or blank node of a plan as the pattern has it."""
    return variable.removeprefix("?") if variable.startswith("?_:") else variable


def _steps(
    atom: Atom,
    edge: tuple[str | Named, str, str | Named],
    binding: Binding,
    host: PatternHost,
    relation_of: Callable[[str], int],
    vertices: VertexDictionary,
) -> tuple[Step, ...]:
    """The edge behind an atom. A path behind one that is no edge would be found here."""
    source, label, target = (end if isinstance(end, str) else host.constants.id_of(end.name) for end in edge)
    assert isinstance(label, str)
    first, last = (binding[end] if isinstance(end, str) else end for end in (source, target))
    assert first is not None and last is not None, "a meaning without one of its constants has no plan"
    return (
        Step(
            source=vertices.name_of(first),
            label=label,
            target=vertices.name_of(last),
            timestamp=host.store.time_of(relation_of(label), first, last),
            against=isinstance(atom.expression, Inverse),
        ),
    )


@dataclass(frozen=True)
class _Held:
    """The relations of a host, as the search for a binding asks them."""

    host: PatternHost

    def holds(self, relation: int, source: int, target: int) -> bool:
        return self.host.store.holds(relation, source, target)

    def edges_held(self, relation: int) -> int:
        return self.host.store.edges_held(relation)

    def rows(self, part: Part, *, first: bool) -> list[tuple[int, ...]]:
        return self.host.rows_without_plans(part, first=first)
