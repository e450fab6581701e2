"""How a path query that runs is evaluated, and with how many others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rpq.queries.query import Query


@dataclass(frozen=True, kw_only=True)
class PathExplanation:
    """How a path query that runs is evaluated. Its text is for people; `to_dict` has the same for programs.

    `states` are those of the automaton by which paths are followed from their sources, or their targets; `roots` how many of
    these it names, None for all vertices. The trees, of so many cells, are those of all queries that share them: it and
    `shared_with` others, whose expressions spell the same words over the same window.

    >>> import rpq
    >>> window = rpq.Window(size=10, slide=1)
    >>> engine = rpq.Engine(*(rpq.Query("a+", window=window, sources=[name], name=name) for name in "xyz"))
    >>> print(engine.explain("x"))
    expression   a+
    language     a path expression
    automaton    2 states
    followed     from sources, of which it names 1
    shared: its trees with 2 other queries
    trees        0, of 0 cells
    """

    query: Query
    states: int
    followed_from: str
    roots: int | None
    shared_with: int
    trees: int
    cells: int

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"expression": self.query.expression, **{name: one for name, one in asdict(self).items() if name != "query"}}

    def __str__(self) -> str:
        whose = "all of them roots" if self.roots is None else f"of which it names {self.roots:,}"
        others = f"{self.shared_with:,} other {'query' if self.shared_with == 1 else 'queries'}"
        return "\n".join(
            [
                f"expression   {self.query.expression}",
                "language     a path expression",
                f"automaton    {self.states:,} {'state' if self.states == 1 else 'states'}",
                f"followed     from {self.followed_from}, {whose}",
                *([f"shared: its trees with {others}"] if self.shared_with else []),
                f"trees        {self.trees:,}, of {self.cells:,} cells",
            ]
        )
