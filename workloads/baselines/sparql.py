"""Evaluation anew by a SPARQL store that knows property paths: pyoxigraph, in memory.

The window's edges are triples. For each tuple the store takes in what came, lets go of what left, and evaluates
`SELECT DISTINCT ?x ?y WHERE { ?x path ?y }` over all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from rpq.workloads.baselines.window_edges import Edge

_VERTEX, _LABEL = "urn:v:", "urn:l:"


class SparqlStore:
    """A store that evaluates one path over the edges that it holds.

    `path` is a template over a, b, c and `labels` what they are. Raises `ImportError` where pyoxigraph is not installed.
    """

    def __init__(self, template: str, labels: tuple[str, ...]) -> None:
        import pyoxigraph

        from rpq.workloads.named_queries import bind

        self._package = pyoxigraph
        self._store = pyoxigraph.Store()
        path = bind(template, tuple(f"{_LABEL}{quote(label, safe='')}" for label in labels))
        self._pairs = f"SELECT DISTINCT ?x ?y WHERE {{ ?x {path} ?y }}"
        self._count = f"SELECT (COUNT(*) AS ?n) WHERE {{ {{ {self._pairs} }} }}"

    def change(self, added: Iterable[Edge], removed: Iterable[Edge]) -> None:
        """Take edges out and in."""
        for edge in removed:
            self._store.remove(self._quad(edge))
        for edge in added:
            self._store.add(self._quad(edge))

    def count(self) -> int:
        """How many pairs the path joins, zero-length paths with them. Evaluates anew."""
        (row,) = self._store.query(self._count)  # type: ignore[misc]
        return int(row["n"].value)

    def pairs(self) -> set[tuple[str, str]]:
        """The pairs that the path joins, zero-length paths with them."""
        return {(self._name(row["x"]), self._name(row["y"])) for row in self._rows()}

    def _rows(self):
        return self._store.query(self._pairs)

    def _quad(self, edge: Edge):  # type: ignore[no-untyped-def]
        source, label, target = edge
        node = self._package.NamedNode
        return self._package.Quad(
            node(_VERTEX + quote(source, safe="")),
            node(_LABEL + quote(label, safe="")),
            node(_VERTEX + quote(target, safe="")),
        )

    @staticmethod
    def _name(node) -> str:  # type: ignore[no-untyped-def]
        return unquote(node.value.removeprefix(_VERTEX))
