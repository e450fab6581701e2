"""The rivals in Python, which evaluate after each slide: `python -m rpq.workloads.rivals.stores NAME CHANGES QUERY [TERMS]`.

pyoxigraph has a store in memory, to which the changes of a slide are added in one call. DuckDB has a table in memory and one
thread; the changes of a slide are one DELETE and one INSERT from Arrow, and the answer is fetched as columns. ladybug has a
database in memory and one thread, with a table of relationships for each label; vertices are created before its seconds
begin, edges enter by COPY from Arrow and leave by one DELETE a label, and the answer is fetched as Arrow.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rpq.workloads.rivals.driver import checksums, totals
from rpq.workloads.rivals.questions import MAX_HOPS
from rpq.workloads.rivals.rdf_changes import NUMBER, NUMBERS, UNBOUND

Edge = tuple[int, ...]
"""Source, label, target, and the graph where there are several."""


class Store(Protocol):
    """A store of the edges of the window, with a query."""

    def prepare(self, edges: Iterable[Edge]) -> None:
        """Create the vertices of later edges, if the store needs them before the edges."""

    def clear(self) -> None:
        """Remove all edges."""

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""

    def evaluate(self) -> Any:
        """Return the answer, with all its rows, in the form of the store."""

    def columns(self, answer: Any) -> tuple[list[np.ndarray], np.ndarray | float]:
        """Return the answer as columns of numbers of terms, and the sum of the other numbers in each row."""


class Pyoxigraph(Store):
    """A store of triples; its answer is a list of solutions. Terms are made while reading, if there is a file of them."""

    def __init__(self, query: str, terms: str = "") -> None:
        import pyoxigraph

        self._package = pyoxigraph
        self._store = pyoxigraph.Store()
        self._query = query
        lines = Path(terms).read_text(encoding="utf-8").splitlines() if terms else []
        self._terms = [self._term(*line.split("\t")) for line in lines]
        self._numbers = {term: number for number, term in enumerate(self._terms)}

    def clear(self) -> None:
        """Remove all edges."""
        self._store.clear()

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""
        for edge in removed:
            self._store.remove(self._quad(edge))
        self._store.extend(map(self._quad, added))

    def evaluate(self) -> list[Any]:
        """Return all solutions."""
        return list(self._store.query(self._query))  # type: ignore[arg-type]

    def columns(self, answer: list[Any]) -> tuple[list[np.ndarray], np.ndarray | float]:
        """Return the solutions as columns of numbers, and the numbers that are no terms of the stream."""
        if self._terms:
            cells = [[self._cell(term) for term in solution] for solution in answer]
            values = np.array([sum(value for _, value in row) for row in cells])
            return list(np.array([[number for number, _ in row] for row in cells], np.uint64).T), values
        prefix = len("urn:v:")
        numbers = np.array([[int(term.value[prefix:]) for term in solution] for solution in answer], np.uint64)
        return list(numbers.T), 0.0

    def _term(self, text: str, datatype: str = "") -> Any:
        node = self._package.NamedNode
        return self._package.Literal(text, datatype=node(datatype)) if datatype else node(text)

    def _cell(self, term: Any) -> tuple[int, float]:
        if term is None:
            return UNBOUND, 0.0
        if isinstance(term, self._package.Literal) and term.datatype.value.rpartition("#")[2] in NUMBERS:
            return NUMBER, float(term.value)
        return self._numbers[term], 0.0

    def _quad(self, edge: Edge) -> Any:
        if self._terms:
            return self._package.Quad(*(self._terms[number] for number in edge))
        source, label, target = edge
        node = self._package.NamedNode
        return self._package.Quad(node(f"urn:v:{source}"), node(f"urn:l:{label}"), node(f"urn:v:{target}"))


class DuckDB(Store):
    """A table of edges; its answer is a mapping of columns."""

    def __init__(self, query: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.execute("CREATE TABLE edges(source UINTEGER, label UINTEGER, target UINTEGER)")
        self._query = query

    def clear(self) -> None:
        """Remove all edges."""
        self._connection.execute("DELETE FROM edges")

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

    def columns(self, answer: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray | float]:
        """Return the answer."""
        return answer, 0.0


class Ladybug(Store):
    """A graph with nodes of one table; its answer is a table of Arrow."""

    def __init__(self, query: str) -> None:
        import ladybug

        self._connection = ladybug.Connection(ladybug.Database(":memory:"), num_threads=1)
        self._connection.execute(f"CALL var_length_extend_max_depth={MAX_HOPS}")
        self._connection.execute("CREATE NODE TABLE V(id INT64, PRIMARY KEY (id))")
        self._query = query

    def prepare(self, edges: Iterable[Edge]) -> None:
        """Create the vertices, and the tables of the labels."""
        sources, labels, targets = (set(column) for column in zip(*edges, strict=True))
        nodes = pa.table({"id": pa.array(sorted(sources | targets), pa.int64())})  # noqa: F841 - COPY reads the variable
        self._connection.execute("COPY V FROM nodes")
        for label in labels:
            self._connection.execute(f"CREATE REL TABLE L{label}(FROM V TO V)")

    def clear(self) -> None:
        """Remove all edges."""
        self._connection.execute("MATCH (:V)-[r]->(:V) DELETE r")

    def change(self, removed: list[Edge], added: list[Edge]) -> None:
        """Remove and add edges."""
        for label, pairs in _by_label(removed).items():
            self._connection.execute(
                f"UNWIND $pairs AS pair MATCH (a:V {{id: pair[1]}})-[r:L{label}]->(b:V {{id: pair[2]}}) DELETE r",
                {"pairs": pairs},
            )
        for label, pairs in _by_label(added).items():
            edges = pa.table([pa.array(column, pa.int64()) for column in zip(*pairs, strict=True)], ["from", "to"])  # noqa: F841
            self._connection.execute(f"COPY L{label} FROM edges")

    def evaluate(self) -> pa.Table:
        """Return the answer."""
        answer: Any = self._connection.execute(self._query)
        return answer.get_as_arrow()

    def columns(self, answer: pa.Table) -> tuple[list[np.ndarray], np.ndarray | float]:
        """Return the columns of the answer."""
        return [column.to_numpy() for column in answer.columns], 0.0


STORES: dict[str, Callable[..., Store]] = {"pyoxigraph": Pyoxigraph, "duckdb": DuckDB, "ladybug": Ladybug}


def _by_label(edges: list[Edge]) -> dict[int, list[list[int]]]:
    """Return the ends of edges by label."""
    found: dict[int, list[list[int]]] = {}
    for source, label, target in edges:
        found.setdefault(label, []).append([source, target])
    return found


def _table(edges: list[Edge]) -> pa.Table:
    source, label, target = (pa.array(column, pa.uint32()) for column in zip(*edges, strict=True))
    return pa.table({"source": source, "label": label, "target": target})


def initial_edges(changes: Path) -> list[Edge]:
    """Return the edges that are in the store before the first slide."""
    lines = (line.split("\t") for line in changes.read_text(encoding="ascii").splitlines())
    return [tuple(map(int, cells[2:])) for cells in lines if cells[1] == "="]


def slides(changes: Path) -> Iterator[tuple[int, list[Edge] | None, list[Edge]]]:
    """Yield the slides of a file of changes: number, edges that leave, None for all of them, edges that enter."""
    lines = (line.split("\t") for line in changes.read_text(encoding="ascii").splitlines())
    for slide, cells in groupby((cells for cells in lines if cells[1] != "="), key=lambda cells: cells[0]):
        edges: dict[str, list[Edge]] = {}
        for _, sign, *numbers in cells:
            edges.setdefault(sign, []).append(tuple(map(int, numbers)))
        yield int(slide), None if "0" in edges else edges.get("-", []), edges.get("+", [])


def main(name: str, changes: str, query: str, terms: str = "") -> None:
    """Run a store over a file of changes."""
    store = STORES[name](query, *([terms] if terms else []))
    initial, read = initial_edges(Path(changes)), list(slides(Path(changes)))
    store.prepare([*initial, *(edge for _, _, added in read for edge in added)])
    before = _resident_bytes()
    store.change([], initial)
    print("ready", *([max(0, _resident_bytes() - before)] if initial else []), sep="\t", flush=True)
    seconds = change_seconds = 0.0
    for slide, removed, added in read:
        started = time.process_time()
        if removed is None:
            store.clear()
        store.change(removed or [], added)
        changed = time.process_time()
        answer = store.evaluate()
        seconds += time.process_time() - started
        change_seconds += changed - started
        columns, values = store.columns(answer)
        rows = len(columns[0]) if columns else 0
        checksum = checksums(columns)
        total = float(totals(checksum, values).sum()) if rows else 0.0
        print(slide, seconds, rows, int(checksum.sum()) if rows else 0, total, change_seconds, sep="\t", flush=True)


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
