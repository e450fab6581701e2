"""What makes an answer, as responses tell it."""

from __future__ import annotations

from typing import Any

from rpq.paths.path import Path
from rpq.patterns.witness import Step, Witness
from rpq.serve import models
from rpq.serve.json_values import json_value


def witness_told(found: Path | Witness, *, time: Any, position: int) -> models.Witness:
    """The edges in the order in which they are walked; of a pattern also the binding and the edges of each atom."""
    about: dict[str, Any] = {"time": json_value(time), "position": position}
    if isinstance(found, Path):
        times = found.timestamps or (None,) * len(found.labels)
        steps = zip(found.vertices, found.labels, found.vertices[1:], times, strict=False)
        return models.Witness(edges=[_edge_walked(*step) for step in steps], **about)
    atoms = [models.Atom(atom=atom.atom, edges=[_edge_of(step) for step in atom.steps]) for atom in found.atoms]
    return models.Witness(
        edges=[edge for atom in atoms for edge in atom.edges],
        atoms=atoms,
        binding={name: json_value(value) for name, value in found.binding},
        **about,
    )


def _edge_walked(first: Any, label: str, last: Any, time: Any) -> models.Edge:
    """An edge as it is in the graph: one that is walked against its direction is turned round."""
    against = label.startswith("^")
    source, target = (last, first) if against else (first, last)
    return models.Edge(source=source, target=target, label=label[against:], timestamp=json_value(time))


def _edge_of(step: Step) -> models.Edge:
    return models.Edge(source=step.source, target=step.target, label=step.label, timestamp=json_value(step.timestamp))


def vertex_of(text: str, *, is_integer: bool) -> int | str:
    """The vertex that a text means, in a stream whose vertices are integers or texts.

    >>> vertex_of("7", is_integer=True), vertex_of("7", is_integer=False)
    (7, '7')
    """
    try:
        return int(text) if is_integer else text
    except ValueError:
        return text
