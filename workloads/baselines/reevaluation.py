"""Baselines that evaluate the query from scratch over the window, and a process that can stop an evaluation.

Two baselines evaluate after each tuple. `ProductSearch` searches the product graph from every vertex, over arrays in numba:
the batch algorithm of Mendelzon and Wood (1995), O(vertices × edges × states) per evaluation, which keeps no state.
`SparqlStore` uses pyoxigraph, an in-memory SPARQL store with property paths. The edges of the window are triples; for each
tuple the store adds new edges, removes expired edges, and evaluates `SELECT DISTINCT ?x ?y WHERE { ?x path ?y }`.

The evaluation of a path inside a store cannot be interrupted, and on dense graphs it can take hours. Such baselines
therefore run in a separate process (`BaselineProcess`), which is killed when its time is up. The process runs this module as
a program; it reads pickled requests from its input and writes pickled answers to its output.

Two baselines evaluate at every slide: `by_pyoxigraph` over a store that follows the window, and `by_duckdb` in SQL. The
tuples are inserts in order of time, with no edge twice within a window. Both raise `ImportError` without their package.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

import rpq
from rpq import automata
from rpq.compiled.kernel_cache import njit

Edge = tuple[str, str, str]
"""Source, label, target."""


AnyEdge = TypeVar("AnyEdge", bound=Hashable)


class InsertedEdges(Generic[AnyEdge]):
    """The edges in the window of an insert-only stream in time order, each with its largest timestamp.

    >>> edges = InsertedEdges(rpq.Window(size=10, slide=1))
    >>> edges.insert(("x", "a", "y"), 1), edges.insert(("y", "a", "z"), 12)
    ((True, []), (True, [('x', 'a', 'y')]))
    """

    def __init__(self, window: rpq.Window) -> None:
        self._window = window
        self._latest: dict[AnyEdge, int] = {}
        self._arrivals: deque[tuple[int, AnyEdge]] = deque()

    def __len__(self) -> int:
        return len(self._latest)

    def __iter__(self) -> Iterator[AnyEdge]:
        return iter(self._latest)

    def insert(self, edge: AnyEdge, timestamp: int) -> tuple[bool, list[AnyEdge]]:
        """Insert an edge; return whether it is new, and the edges that left because time advanced."""
        left = self.advance(timestamp)
        is_new = edge not in self._latest
        self._latest[edge] = timestamp
        self._arrivals.append((timestamp, edge))
        return is_new, left

    def advance(self, time: int) -> list[AnyEdge]:
        """Advance the time; return the edges that left."""
        bound = self._window.lower_bound(time)
        left = []
        while self._arrivals and self._arrivals[0][0] <= bound:
            timestamp, edge = self._arrivals.popleft()
            if self._latest.get(edge) == timestamp:
                del self._latest[edge]
                left.append(edge)
        return left


Pairs = set[tuple[str, str]]


class Baseline(Protocol):
    """An evaluation of a query from scratch over a set of edges."""

    def change(self, added: list[Edge], removed: list[Edge]) -> None:
        """Add and remove edges."""

    def count(self) -> int:
        """Evaluate and return the number of pairs."""

    def pairs(self) -> Pairs:
        """Evaluate and return the pairs."""


class TimeIsUpError(Exception):
    """A baseline did not answer in time and was stopped."""


class BaselineProcess:
    """A baseline in its own process, created by `make`: a function that can be pickled, such as a partial of a class."""

    def __init__(self, make: Callable[[], Baseline]) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", "rpq.workloads.baselines.reevaluation"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._send(make)

    def __enter__(self) -> BaselineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def change(self, added: list[Edge], removed: list[Edge]) -> None:
        """Add and remove edges, without measuring the time."""
        self._request("change", (added, removed), None)

    def evaluate(self, added: list[Edge], removed: list[Edge], *, seconds: float) -> float:
        """Add and remove edges and evaluate; return the seconds of both. Raises `TimeIsUpError` beyond `seconds`."""
        elapsed, _ = self._request("evaluate", (added, removed), seconds)
        return elapsed

    def pairs(self, *, seconds: float) -> Pairs:
        """Evaluate and return the pairs. Raises `TimeIsUpError`."""
        _, found = self._request("pairs", (), seconds)
        return found

    def _request(self, request: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        timer = threading.Timer(seconds, self._process.kill) if seconds is not None else None
        if timer is not None:
            timer.start()
        try:
            self._send((request, arguments))
            assert self._process.stdout is not None
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise TimeIsUpError(f"not done in {seconds:g} s" if seconds is not None else "ended") from error
        finally:
            if timer is not None:
                timer.cancel()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests with (seconds, result) until the end of the input."""
    baseline: Baseline = pickle.load(requests)()
    while True:
        try:
            request, arguments = pickle.load(requests)
        except EOFError:
            return
        result: int | Pairs | None = None
        started = time.perf_counter()
        if request == "pairs":
            result = baseline.pairs()
        else:
            baseline.change(*arguments)
            if request == "evaluate":
                result = baseline.count()
        pickle.dump((time.perf_counter() - started, result), answers)
        answers.flush()


class ProductSearch:
    """A search for answers in the product graph of an automaton and a set of edges."""

    def __init__(self, expression: str) -> None:
        self._dfa = automata.compile(expression)
        self._ids: dict[str, int] = {}
        self._edges: dict[Edge, tuple[int, int, int, int]] = {}
        self.pairs()  # compile now, so that no measured evaluation compiles

    def change(self, added: Iterable[Edge], removed: Iterable[Edge]) -> None:
        """Take edges out and in."""
        for edge in removed:
            self._edges.pop(edge, None)
        for source, label, target in added:
            forward, backward = self._dfa.column(label, False), self._dfa.column(label, True)
            if forward >= 0 or backward >= 0:
                ends = (self._ids.setdefault(source, len(self._ids)), self._ids.setdefault(target, len(self._ids)))
                self._edges[source, label, target] = (*ends, forward, backward)

    def count(self) -> int:
        """Evaluate from scratch and return the number of answers."""
        return self._search(keep=False)[0]

    def pairs(self) -> set[tuple[str, str]]:
        """Evaluate from scratch and return the answers."""
        names = list(self._ids)
        _, pairs, used = self._search(keep=True)
        sources, targets = used[pairs >> 32].tolist(), used[pairs & 0xFFFFFFFF].tolist()
        return {(names[source], names[target]) for source, target in zip(sources, targets, strict=True)}

    def _search(self, *, keep: bool) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the number of answers, with `keep` the answers (as places in the last array), and the ids of vertices."""
        columns = np.array(list(self._edges.values()), np.int64).reshape(-1, 4)
        source, target, forward, backward = columns.T
        ahead, behind = forward >= 0, backward >= 0
        start = np.concatenate([source[ahead], target[behind]])
        end = np.concatenate([target[ahead], source[behind]])
        symbol = np.concatenate([forward[ahead], backward[behind]])
        used, ends = np.unique(np.concatenate([start, end]), return_inverse=True)
        start, end = ends[: len(start)], ends[len(start) :]
        order = np.argsort(start, kind="stable")
        vertices = len(used)
        offsets = np.zeros(vertices + 1, np.int64)
        np.cumsum(np.bincount(start, minlength=vertices), out=offsets[1:])
        transitions = self._dfa.transitions.astype(np.int64)
        found, pairs = _search(offsets, end[order], symbol[order], transitions, self._dfa.accepting, keep)
        return int(found), pairs, used


@njit(cache=True)
def _search(offsets, end, symbol, transitions, accepting, keep):
    """Return (number of answers, with `keep` source << 32 | target of each)."""
    vertices, states = len(offsets) - 1, len(accepting)
    seen = np.zeros(vertices * states, np.int64)  # the latest root that reached a node, counted from 1
    answered = np.zeros(vertices, np.int64)
    stack = np.empty(vertices * states + 1, np.int64)
    pairs = np.empty(1024 if keep else 0, np.int64)
    found = 0
    for root in range(vertices):
        stack[0] = root * states  # not marked as seen: the empty path is not an answer
        height = 1
        while height > 0:
            height -= 1
            vertex, state = stack[height] // states, stack[height] % states
            for place in range(offsets[vertex], offsets[vertex + 1]):
                after = transitions[state, symbol[place]]
                if after < 0:
                    continue
                node = end[place] * states + after
                if seen[node] == root + 1:
                    continue
                seen[node] = root + 1
                stack[height] = node
                height += 1
                if accepting[after] and answered[end[place]] != root + 1:
                    answered[end[place]] = root + 1
                    if keep:
                        if found == len(pairs):
                            grown = np.empty(2 * found, np.int64)
                            grown[:found] = pairs
                            pairs = grown
                        pairs[found] = root << 32 | end[place]
                    found += 1
    return found, pairs[:found] if keep else pairs


_VERTEX, _LABEL = "urn:v:", "urn:l:"


class SparqlStore:
    """A SPARQL store that evaluates one path over a set of edges.

    `template` is a path over a, b, c, and `labels` are their labels. Raises `ImportError` if pyoxigraph is not installed.
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
        """Evaluate from scratch and return the number of pairs, including those of zero-length paths."""
        (row,) = self._store.query(self._count)  # type: ignore[misc]
        return int(row["n"].value)

    def pairs(self) -> set[tuple[str, str]]:
        """Evaluate from scratch and return the pairs, including those of zero-length paths."""
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


_LITERAL = re.compile(r'"(?P<text>[^"\\]*)"(?:\^\^<(?P<type>[^>]*)>)?')


@dataclass(frozen=True, kw_only=True)
class Reevaluation:
    """The CPU seconds of each evaluation, including the update of the window before it, and the rows of the last one."""

    seconds: list[float]
    rows: int
    moment: int
    """The time of the last evaluation."""


def by_pyoxigraph(text: str, table: pa.Table, window: rpq.Window, *, first: int, seconds: float) -> Reevaluation:
    """Evaluate at each slide from the time `first` on, at least once, until the evaluations have taken `seconds`."""
    import pyoxigraph

    names = [table[name].to_pylist() for name in ("source", "label", "target")]
    times = table["timestamp"].to_numpy()

    def node(term: str):  # type: ignore[no-untyped-def]
        literal = _LITERAL.fullmatch(term)
        if literal is None:
            return pyoxigraph.NamedNode(term)
        datatype = None if literal["type"] is None else pyoxigraph.NamedNode(literal["type"])
        return pyoxigraph.Literal(literal["text"], datatype=datatype)

    def quads(start: int, end: int):  # type: ignore[no-untyped-def]
        rows = zip(*(column[start:end] for column in names), strict=True)
        return [pyoxigraph.Quad(node(s), pyoxigraph.NamedNode(p), node(o)) for s, p, o in rows]

    store = pyoxigraph.Store()
    low, high = _bounds(times, window, first)
    store.bulk_extend(quads(low, high))
    seconds_taken: list[float] = []
    moment = first
    while True:
        before, after = _bounds(times, window, moment)
        expired, arrived = quads(low, before), quads(high, after)
        started = time.process_time()
        for quad in expired:
            store.remove(quad)
        store.extend(arrived)
        rows = len(list(store.query(text)))  # type: ignore[arg-type]
        seconds_taken.append(time.process_time() - started)
        low, high = before, after
        if sum(seconds_taken) > seconds or moment + window.slide > times[-1]:
            return Reevaluation(seconds=seconds_taken, rows=rows, moment=moment)
        moment += window.slide


class DuckDBWindow:
    """SQL over `tuples`, the content of the window of a stream, and `nodes`, the records of nodes so far, in one thread."""

    def __init__(self, sql: str, table: pa.Table, window: rpq.Window, *, nodes: pa.Table | None = None) -> None:
        import duckdb

        self._connection, self._sql, self._window = duckdb.connect(), sql, window
        self._connection.execute("SET threads = 1")
        for name, rows in (("stream", table), ("records", nodes)):
            if rows is not None:
                self._connection.register("arrow_table", rows)
                self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_table")
        self._nodes = "" if nodes is None else ", nodes AS (SELECT * FROM records WHERE timestamp <= {moment})"

    def evaluate(self, moment: int) -> tuple[float, dict[str, np.ndarray]]:
        """Return the CPU seconds of an evaluation at a time, and the columns of the answer."""
        bound = self._window.lower_bound(moment)
        started = time.process_time()
        found = self._connection.execute(
            f"WITH tuples AS (SELECT * FROM stream WHERE timestamp > {bound} AND timestamp <= {moment})"
            f"{self._nodes.format(moment=moment)} {self._sql}"
        ).fetchnumpy()
        return time.process_time() - started, found


def by_duckdb(sql: str, table: pa.Table, window: rpq.Window, *, first: int, seconds: float) -> Reevaluation:
    """Evaluate SQL over a table `tuples`, the content of the window, in the same way as `by_pyoxigraph`, with one thread."""
    evaluation = DuckDBWindow(sql, table, window)
    last = table["timestamp"][-1].as_py()
    seconds_taken: list[float] = []
    moment = first
    while True:
        taken, found = evaluation.evaluate(moment)
        seconds_taken.append(taken)
        if sum(seconds_taken) > seconds or moment + window.slide > last:
            return Reevaluation(seconds=seconds_taken, rows=len(next(iter(found.values()))), moment=moment)
        moment += window.slide


def _bounds(times: np.ndarray, window: rpq.Window, moment: int) -> tuple[int, int]:
    """Return the rows of the stream at which the window at a time begins and ends."""
    low, high = np.searchsorted(times, [window.lower_bound(moment), moment], side="right")
    return int(low), int(high)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
