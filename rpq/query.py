"""What a user asks: a path expression, a window, and how paths and answers are to be understood."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from rpq import automata
from rpq.errors import QueryError
from rpq.window import Window

Vertex = int | str


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The keyword-only part of a query."""

    window: Window
    name: str = ""
    paths: Literal["walk", "simple"] = "walk"
    semantics: Literal["implicit", "explicit"] = "implicit"
    sources: Collection[Vertex] | None = None
    targets: Collection[Vertex] | None = None
    simple_budget: int = 10_000_000
    on_budget: Literal["error", "set_aside"] = "error"


@dataclass(frozen=True)
class Query(_Options):
    """A persistent regular path query: `expression` over a sliding `window`.

    - `name` tells its rows from those of other queries; by default the text of the expression
    - `paths`: "walk" (vertices may repeat) or "simple" (no vertex twice)
    - `semantics`: "implicit" (pairs that expire leave silently) or "explicit" (they leave with a `-`)
    - `simple_budget`: with simple paths, how many nodes may be expanded for one root and one tuple or slide
    - `on_budget`: a root that needs more is set aside, its answers leave; "error" raises `ConflictBudgetError` as well
    - `sources`, `targets`: only pairs from and to these vertices (kept as a frozenset); on dense graphs the way to a usable cost

    Raises `rpq.automata.ExpressionError` (a ValueError that points to the column) or `QueryError`.

    >>> query = Query("a2q/c2a*", window=Window(size=30, slide=1))
    >>> query.name, query.dfa.accepts_empty
    ('a2q/c2a*', False)
    """

    expression: str = field(kw_only=False)

    def __post_init__(self) -> None:
        if not isinstance(self.window, Window):
            raise QueryError(f"the window of a query is a rpq.Window(size=…, slide=…), not {self.window!r}")
        if self.paths not in ("walk", "simple"):
            raise QueryError(f"paths are 'walk' or 'simple', not {self.paths!r}")
        if self.semantics not in ("implicit", "explicit"):
            raise QueryError(f"window semantics are 'implicit' or 'explicit', not {self.semantics!r}")
        if self.on_budget not in ("error", "set_aside"):
            raise QueryError(f"on_budget is 'error' or 'set_aside', not {self.on_budget!r}")
        if not isinstance(self.simple_budget, int) or self.simple_budget < 1:
            raise QueryError(f"the budget of simple paths is a positive number of nodes, not {self.simple_budget!r}")
        for ends in ("sources", "targets"):
            value = getattr(self, ends)
            if value is not None:
                object.__setattr__(self, ends, _vertices(ends, value))
        object.__setattr__(self, "_dfa", automata.compile(self.expression))
        if not self.name:
            object.__setattr__(self, "name", self.expression)

    @property
    def dfa(self) -> automata.DFA:
        """The minimal automaton of the expression."""
        return self._dfa  # type: ignore[attr-defined]


def _vertices(ends: str, value: Collection[Vertex]) -> frozenset[Vertex]:
    if isinstance(value, (str, bytes)):
        raise QueryError(f"{ends} are a collection of vertices, not the one text {value!r}")
    vertices: list[Vertex] = []
    for vertex in value:
        if isinstance(vertex, str):
            vertices.append(str(vertex))
        elif hasattr(vertex, "__index__") and not isinstance(vertex, bool):
            vertices.append(vertex.__index__())
        else:
            raise QueryError(f"{ends} are integers or strings, as the vertices of the stream, not {vertex!r}")
    return frozenset(vertices)
