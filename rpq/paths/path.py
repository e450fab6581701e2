"""A path as users see it: the witness of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rpq.stream.edge_store import LONG_AGO
from rpq.stream.snapshot import Edges
from rpq.stream.vertices import VertexDictionary


@dataclass(frozen=True)
class Path:
    """A path that answers a query: `vertices` v0, v1, … and between them `labels`, `^label` for a step against an edge.

    `timestamps` are those of its edges where an engine was asked for it, None for a static edge; they play no part in
    whether two paths are equal.

    >>> path = Path(("x", "y", "z"), ("knows", "^likes"))
    >>> path.vertices[-1], len(path.labels)
    ('z', 2)
    """

    vertices: tuple[int | str, ...]
    labels: tuple[str, ...]
    timestamps: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def told(self, time: Callable[[Any], Any]) -> Path:
        """The same with other words for times.

        >>> Path(("x", "y"), ("knows",), (7,)).told("second {}".format).timestamps
        ('second 7',)
        """
        return replace(self, timestamps=tuple(None if one is None else time(one) for one in self.timestamps))

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
    times = [int(edges.timestamp[step >> 1]) for step in taken]
    return Path(tuple(names), tuple(words), tuple(None if time == LONG_AGO else time for time in times))
