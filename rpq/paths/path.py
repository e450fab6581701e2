"""A path as users see it: the witness of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from rpq.stream.snapshot import Edges
from rpq.stream.vertices import VertexDictionary


@dataclass(frozen=True)
class Path:
    """A path that answers a query: `vertices` v0, v1, … and between them `labels`, `^label` for a step against an edge.

    >>> path = Path(("x", "y", "z"), ("knows", "^likes"))
    >>> path.vertices[-1], len(path.labels)
    ('z', 2)
    """

    vertices: tuple[int | str, ...]
    labels: tuple[str, ...]

    def to_json(self) -> str:
        """The list v0, label, v1, … as JSON.

        >>> Path(("x", "y"), ("^knows",)).to_json()
        '["x", "^knows", "y"]'
        """
        steps: list[int | str] = [self.vertices[0]]
        for label, vertex in zip(self.labels, self.vertices[1:], strict=True):
            steps += [label, vertex]
        return json.dumps(steps, ensure_ascii=False)


def path_of(start: int, steps: np.ndarray, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> Path:
    """A path from its first vertex and its steps (edge << 1 | against)."""
    taken = steps.tolist()
    visited = [start, *(int(edges.source[step >> 1] if step & 1 else edges.target[step >> 1]) for step in taken)]
    names = vertices.names_of(np.array(visited)).to_pylist()
    words = ["^" * (step & 1) + labels[edges.label[step >> 1]] for step in taken]
    return Path(tuple(names), tuple(words))
