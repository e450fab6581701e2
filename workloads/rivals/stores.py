"""The rivals in Python, run as `python -m rpq.workloads.rivals.stores NAME CHANGES QUERY`: they evaluate after each slide.

pyoxigraph has a store in memory, to which the changes of a slide are added in one call. DuckDB has a table in memory and one
thread; the changes of a slide are one DELETE and one INSERT from Arrow, and the answer is fetched as columns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rpq.workloads.rivals.driver import checksums

Edge = tuple[int, int, int]
"""Source, label, target."""


class Store(Protocol):
    """A store of the edges of the window, with a query."""

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""

    def evaluate(self) -> Any:
        """Return the answer, with all its rows, in the form of the store."""

    def columns(self, answer: Any) -> list[np.ndarray]:
        """Return the answer as columns of vertices."""


class Pyoxigraph:
    """A store of triples; its answer is a list of solutions."""

    def __init__(self, query: str) -> None:
        import pyoxigraph

        self._package = pyoxigraph
        self._store = pyoxigraph.Store()
        self._query = query

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""
        for edge in removed:
            self._store.remove(self._quad(edge))
        self._store.extend(map(self._quad, added))

    def evaluate(self) -> list[Any]:
        """Return all solutions."""
        return list(self._store.query(self._query))  # type: ignore[arg-type]

    def columns(self, answer: list[Any]) -> list[np.ndarray]:
        """Return the solutions as columns of vertices."""
        prefix = len("urn:v:")
        numbers = np.array([[int(term.value[prefix:]) for term in solution] for solution in answer], np.uint64)
        return list(numbers.T)

    def _quad(self, edge: Edge) -> Any:
        source, label, target = edge
        node = self._package.NamedNode
        return self._package.Quad(node(f"urn:v:{source}"), node(f"urn:l:{label}"), node(f"urn:v:{target}"))


class DuckDB:
    """A table of edges; its answer is a mapping of columns."""

    def __init__(self, query: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.execute("CREATE TABLE edges(source UINTEGER, label UINTEGER, target UINTEGER)")
        self._query = query

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""
        if removed:
            self._connection.register("removed", _table(removed))
            self._connection.execute(
                "DELETE FROM edges USING removed r WHERE edges.source = r.source AND edges.label = r.label "
                "AND edges.target = r.target"
            )
        if added:
            self._connection.register("added", _table(added))
            self._connection.execute("INSERT INTO edges SELECT source, label, target FROM added")

    def evaluate(self) -> list[np.ndarray]:
        """Return the columns of the answer."""
        return list(self._connection.execute(self._query).fetchnumpy().values())

    def columns(self, answer: list[np.ndarray]) -> list[np.ndarray]:
        """Return the answer."""
        return answer


STORES: dict[str, Callable[[str], Store]] = {"pyoxigraph": Pyoxigraph, "duckdb": DuckDB}


def _table(edges: list[Edge]) -> pa.Table:
    source, label, target = (pa.array(column, pa.uint32()) for column in zip(*edges, strict=True))
    return pa.table({"source": source, "label": label, "target": target})


def slides(changes: Path) -> Iterator[tuple[int, list[Edge], list[Edge]]]:
    """Yield the slides of a file of changes: number, edges that leave, edges that enter."""
    lines = (line.split("\t") for line in changes.read_text(encoding="ascii").splitlines())
    for slide, cells in groupby(lines, key=lambda line: line[0]):
        edges: dict[str, list[Edge]] = {"-": [], "+": []}
        for _, sign, source, label, target in cells:
            edges[sign].append((int(source), int(label), int(target)))
        yield int(slide), edges["-"], edges["+"]


def main(name: str, changes: str, query: str) -> None:
    """Run a store over a file of changes."""
    store = STORES[name](query)
    read = list(slides(Path(changes)))
    print("ready", flush=True)
    seconds = 0.0
    for slide, removed, added in read:
        started = time.process_time()
        store.change(removed, added)
        answer = store.evaluate()
        seconds += time.process_time() - started
        columns = store.columns(answer)
        rows = len(columns[0]) if columns else 0
        print(slide, seconds, rows, int(checksums(columns).sum()) if rows else 0, sep="\t", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
