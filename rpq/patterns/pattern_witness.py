"""The witness of an answer of a pattern that runs: a binding for it, then what is behind each atom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rpq.paths.index.delta_index import DeltaIndex
from rpq.patterns.binding_search import Binding, find_binding
from rpq.patterns.chain_witness import cut
from rpq.patterns.chains import Chain
from rpq.patterns.directed_atoms import PathRead, edge_step
from rpq.patterns.meanings import Meaning, Named
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.plan import Part
from rpq.patterns.witnessed import AtomWitness, Step, Witness
from rpq.queries.pattern import Atom, Constant
from rpq.queries.query import PatternQuery
from rpq.stream.snapshot import Edges
from rpq.stream.vertices import VertexDictionary


def witness_of(
    meanings: Sequence[tuple[Meaning, Sequence[Part]]],
    known: Binding,
    *,
    question: PatternQuery,
    chains: Sequence[Chain],
    host: PatternHost,
    relation_of: Callable[[str], int],
    index_of: Callable[[PathRead], DeltaIndex],
    graph: Held,
) -> Witness | None:
    """Why the values of the columns are an answer, None if they are none.

    `meanings` come with the parts of their plans, one edge for each of the `chains` of atoms of the question that are
    evaluated. O(atoms), and O(edges) where the columns leave variables out.
    """
    held = _Held(host)
    for meaning, parts in meanings:
        binding = find_binding(held, parts, known, differ=question.matching == "isomorphism")
        if binding is not None:
            values = {_written(name): graph.vertices.name_of(value) for name, value in binding.items()}
            steps: dict[int, tuple[Step, ...]] = {}
            for chain, edge in zip(chains, meaning.edges, strict=True):
                walk = _steps(chain.atom, edge, binding, host, relation_of, index_of, graph)
                for link, piece in zip(chain.links, cut(chain, walk) if len(chain.links) > 1 else [walk], strict=True):
                    steps[link.place] = piece
                    atom = question.pattern.atoms[link.place]
                    ends = (atom.subject, piece[0].ends[0]), (atom.object, piece[-1].ends[1])
                    values |= {str(term): value for term, value in ends if not isinstance(term, Constant)}
            atoms = enumerate(question.pattern.atoms)
            return Witness(
                binding=tuple(values.items()),
                atoms=tuple(AtomWitness(atom=str(atom), steps=steps[place]) for place, atom in atoms),
            )
    return None


def _written(variable: str) -> str:
    """A variable or blank node of a plan as the pattern has it."""
    return variable.removeprefix("?") if variable.startswith("?_:") else variable


def _steps(
    atom: Atom,
    edge: tuple[str | Named, str | PathRead, str | Named],
    binding: Binding,
    host: PatternHost,
    relation_of: Callable[[str], int],
    index_of: Callable[[PathRead], DeltaIndex],
    graph: Held,
) -> tuple[Step, ...]:
    """The edge behind an atom, or those of a path from its subject to its object."""
    ends = [host.constants.id_of(end.name) if isinstance(end, Named) else binding[end] for end in (edge[0], edge[2])]
    first, last = ends
    assert first is not None and last is not None, "a meaning without one of its constants has no plan"
    reads = edge[1]
    if isinstance(reads, PathRead):
        return _path(index_of(reads), first, last, graph, turned=reads.turned)
    step = edge_step(atom.expression)
    assert step is not None, "what reads edges takes a step of one label"
    return (
        Step(
            source=graph.vertices.name_of(first),
            label=reads,
            target=graph.vertices.name_of(last),
            timestamp=host.store.time_of(relation_of(reads), first, last),
            against=step.inverse,
        ),
    )


def _path(index: DeltaIndex, first: int, last: int, graph: Held, *, turned: bool) -> tuple[Step, ...]:
    """The edges of a path of an index; `turned`: it is told from its last vertex to its first."""
    found = index.witness(first, last, graph.edges)
    assert found is not None, "a pair that holds has a path"
    steps = found[::-1] ^ 1 if turned else found
    edges = graph.edges
    return tuple(
        Step(
            source=graph.vertices.name_of(int(edges.source[step >> 1])),
            label=graph.labels[int(edges.label[step >> 1])],
            target=graph.vertices.name_of(int(edges.target[step >> 1])),
            timestamp=graph.time_of(step >> 1),
            against=bool(step & 1),
        )
        for step in steps.tolist()
    )


@dataclass(frozen=True)
class Held:
    """The edges of the window by id, the names of what they join, and the times of those behind paths."""

    edges: Edges
    vertices: VertexDictionary
    labels: list[str]
    time_of: Callable[[int], int | None]


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
