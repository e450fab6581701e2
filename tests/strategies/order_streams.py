"""Long random streams for paths in time order, compared with brute force once for many tuples.

The oracle of `tests.reference_order` evaluates its snapshot behind every tuple, by joins of all walks. Here it is evaluated
behind a batch of tuples, by `pairs_by_time`, which follows walks forward; a test compares the two. What a batch must bring,
whatever came and went in it, is known from three snapshots:

    rows with `+` less rows with `-`  =  solutions behind it - solutions before it + what was lost silently in it

Silently lost, under implicit windows, is what expiry takes and, in a window by count, what the event of an insert takes that
evicts an edge. These events alone are evaluated one by one.

    python -m tests.strategies.order_streams 3000000 --seed 1
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time as clock
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import rpq
from rpq import automata
from tests.engine.edges.edge_streams import as_batch, push_one
from tests.engine.time_order.test_order import EXPRESSIONS, PATTERNS, Described, needs_own_engine
from tests.reference_order import OrderedAtom, OrderEngine, OrderQuery, PathOrder
from tests.reference_properties import COUNTS, CountedRunning, Edge, Running, Solution, labelled
from tests.twins import tiny

Vertex = str


# --- brute force, forward -----------------------------------------------------------------------------------


class Step(NamedTuple):
    """An edge as a path walks it: the column of the automaton that it spells, between two vertices."""

    time: int
    column: int
    source: Vertex
    target: Vertex


class Automaton(NamedTuple):
    """The automaton of an expression, as tables that plain Python reads."""

    transitions: list[list[int]]
    accepting: list[bool]


@cache
def _automaton(expression: str) -> Automaton:
    text, _ = labelled(expression, [])
    dfa = automata.compile(text)
    return Automaton(dfa.transitions.tolist(), dfa.accepting.tolist())


@cache
def _columns(expression: str, label: str, properties: tuple[tuple[str, Any], ...]) -> list[tuple[int, bool]]:
    """Return the columns that an edge spells, and whether it is walked against its direction."""
    text, found = labelled(expression, [Edge(1, "x", label, "y", 0, dict(properties))])
    dfa = automata.compile(text)
    both = [(dfa.column(name, is_inverse), is_inverse) for _, name in found for is_inverse in (False, True)]
    return [(column, is_inverse) for column, is_inverse in both if column >= 0]


def steps_of(expression: str, edges: Iterable[Edge]) -> list[Step]:
    """Return the steps that edges allow, the oldest first. Conditions may read properties, and not the timestamp."""
    steps = []
    for _, source, label, target, timestamp, properties in edges:
        for column, is_inverse in _columns(expression, label, tuple(properties.items())):
            ends = (target, source) if is_inverse else (source, target)
            steps.append(Step(timestamp, column, *ends))
    return sorted(steps)


def pairs_by_time(expression: str, edges: Iterable[Edge], order: PathOrder) -> set[tuple[Vertex, Vertex]]:
    """Return the pairs joined by a walk in time order that spells a word of the expression, as `ordered_pairs` does.

    Steps are taken from the oldest to the youngest, those of one time together. Of walks it is known, for each vertex that
    they reach, the state of the automaton and the time in which they do, which steps they begin with: bits of a number.

    >>> edges = [Edge(1, "x", "a", "y", 2), Edge(2, "y", "a", "z", 3), Edge(3, "z", "a", "x", 1)]
    >>> sorted(pairs_by_time("a/a", edges, PathOrder()))
    [('x', 'z'), ('z', 'y')]
    """
    transitions, accepting = _automaton(expression)
    steps = steps_of(expression, edges)
    walks: defaultdict[Vertex, dict[tuple[int, int], int]] = defaultdict(dict)
    for time, group in itertools.groupby(enumerate(steps), key=lambda each: each[1].time):
        together = list(group)
        oldest = 0 if order.span is None else next(i for i, step in enumerate(steps) if time - step.time <= order.span)
        in_span = -1 << oldest
        while True:
            longer: defaultdict[tuple[Vertex, int], int] = defaultdict(int)
            for number, (_, column, source, target) in together:
                if transitions[0][column] >= 0:
                    longer[target, transitions[0][column]] |= 1 << number
                for (state, last), starts in walks[source].items():
                    following = transitions[state][column]
                    if following >= 0 and order.follows(last, time) and starts & in_span:
                        longer[target, following] |= starts & in_span
            is_new = False
            for (vertex, state), starts in longer.items():
                known = walks[vertex].get((state, time), 0)
                is_new |= known | starts != known
                walks[vertex][state, time] = known | starts
            if order.strict or not is_new:
                break
    found = set()
    for vertex, reached in walks.items():
        starts = 0
        for (state, _), some in reached.items():
            starts |= some if accepting[state] else 0
        found |= {(step.source, vertex) for number, step in enumerate(steps) if starts >> number & 1}
    return found


@dataclass(frozen=True, kw_only=True)
class ForwardQuery(OrderQuery):
    """A query whose paths in time order are found by `pairs_by_time`."""

    @classmethod
    def of(cls, query: OrderQuery) -> ForwardQuery:
        """Return the same query, evaluated forward."""
        return cls(**{each.name: getattr(query, each.name) for each in fields(query)})

    def ordered_pairs(self, atom: OrderedAtom, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex]]:
        return pairs_by_time(atom.expression, edges, atom.order)


# --- a query over a batch -----------------------------------------------------------------------------------


class Tuple(NamedTuple):
    """A tuple of a stream; `edge` is the id, where edges have one."""

    source: Vertex | None
    label: str | None
    target: Vertex | None
    timestamp: int
    properties: dict[str, int | None]
    op: str
    edge: str | None


@dataclass
class Net:
    """The net rows of a query over a batch."""

    running: Running
    before: Counter[Solution] = field(default_factory=Counter)
    lost: Counter[Solution] = field(default_factory=Counter)

    def apply(self, change: Callable[[], Any]) -> Any:
        """Apply an insert or an expiry, and return what it returns: under implicit windows what it takes away is lost."""
        edges_before, running = dict(self.running.edges), self.running
        if isinstance(running, CountedRunning):
            running.unevicted = None
        result = change()
        is_silent = running.query.semantics == "implicit"
        if isinstance(running, CountedRunning):
            is_silent = is_silent and running.unevicted is not None  # else nothing is evicted
        if is_silent and (len(edges_before) > len(running.edges) or any(key not in running.edges for key in edges_before)):
            before, after = self._solutions(edges_before.values()), self._solutions(running.edges.values())
            self.lost += before - after
            if isinstance(running, CountedRunning):
                self.lost -= running.removed(before, after)
        return result

    def end(self) -> Counter[Solution]:
        """End the batch; return how often its rows must add each solution, less than nothing where they remove it."""
        after = self._solutions(self.running.edges.values())
        net = Counter(after)
        net.update(self.lost)
        net.subtract(self.before)
        self.before, self.lost = after, Counter()
        return Counter({solution: count for solution, count in net.items() if count})

    def _solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        return self.running.query.solutions(edges)


class NetEngine(OrderEngine):
    """The oracle with `Net` queries: no tuple has rows, a batch has."""

    def __init__(self, *queries: OrderQuery, identity: Any) -> None:
        super().__init__(*queries, identity=identity)
        self.nets = {running.query.name: Net(running) for running in self._running}

    def apply(self, row: Tuple) -> None:
        """Apply a tuple."""
        self.advance(row.timestamp)
        if row.op == "+":
            self._inserts += 1
            key = row.edge if self.identity == "id" else self._inserts
            edge = Edge(key, row.source, row.label, row.target, row.timestamp, row.properties)
        for net in self.nets.values():
            running = net.running
            if row.op == "+":
                verdict = net.apply(lambda running=running: running.insert(edge, self.time, self.identity))
            else:
                verdict = running.delete(row.source, row.label, row.target, row.edge)
            running.counts["tuples"] += 1
            running.counts[verdict] += 1

    def advance(self, time: int) -> list:
        """Move the time; what leaves the windows leaves them boundary by boundary."""
        if self.time is not None and time <= self.time:
            return []
        for net in self.nets.values():
            while (boundary := net.running.next_boundary()) is not None and boundary <= time:
                net.apply(lambda net=net, boundary=boundary: net.running.expire(boundary))
        self.time = time
        return []


# --- streams ------------------------------------------------------------------------------------------------


class Stream:
    """Random tuples: inserts, deletes, late edges and ties over a few vertices."""

    def __init__(self, draw: random.Random, identity: str) -> None:
        self._draw = draw
        self._identity = identity
        self._vertices = "uvwxyzstpqrk"[: draw.choice((2, 4, 6, 8, 12))]
        self._ids = [f"e{number}" for number in range(draw.choice((3, 20, 60)))]
        self._deletes = draw.choice((0.0, 0.1, 0.3))
        self._steps = (0, 0, 0, 1, 1, 2) + draw.choice(((), (0,) * 6, (-1, -3), (-1, -2, -8, -20), (5,)))
        self.time = 5

    def tuples(self, count: int) -> list[Tuple]:
        """Draw the next tuples."""
        draw, found = self._draw, []
        ends = (draw.choices(self._vertices, k=count) for _ in range(2))
        steps, values = draw.choices(self._steps, k=count), draw.choices((None, 1, 2, 3), k=count)
        columns = (*ends, draw.choices("aaabbc", k=count), steps, values, draw.choices(self._ids, k=count))
        for source, target, label, step, value, name in zip(*columns, strict=True):
            op = "-" if draw.random() < self._deletes else "+"
            timestamp = self.time + (step if draw.random() < 0.995 else 40)
            self.time = max(self.time, timestamp)
            edge = name if self._identity == "id" and (op == "+" or draw.random() < 0.7) else None
            properties = {"n": value} if op == "+" else {}
            has_ends = op == "+" or edge is None or draw.random() < 0.5
            ends = (source, label, target) if has_ends else (None, None, None)
            found.append(Tuple(*ends, timestamp, properties, op, edge))
        return found


def drawn_query(draw: random.Random, name: str) -> Described:
    """Draw a query; it may be a pattern, and its window one by count."""
    what = draw.choice(EXPRESSIONS) if draw.random() < 0.8 else draw.choice(PATTERNS)
    order = PathOrder(draw.random() < 0.5, draw.choice((None, None, 0, 1, 3, 9)), draw.choice((None, None, 0, 2, 6, 20)))
    options: dict[str, Any] = {"semantics": draw.choice(("explicit", "implicit"))}
    if isinstance(what, str):
        ends = (None, None, None, frozenset("u"), frozenset("vw"))
        options |= {"sources": draw.choice(ends), "targets": draw.choice(ends)}
    if draw.random() < 0.3:
        options |= {"window": "count", "size": draw.randint(1, 60), "slide": draw.choice((1, 2, 7, 20))}
    else:
        options |= {"size": draw.choice((2, 6, 12, 25, 40)), "slide": draw.choice((1, 2, 5, 12))}
    return Described(name, what, order, **options)


class Difference(AssertionError):
    """The engine differs from brute force."""


@dataclass
class Run:
    """A stream with an engine and the oracle, all drawn from a seed."""

    seed: int
    tuples: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        draw = self.draw = random.Random(self.seed)
        self.identity = draw.choice(("parallel", "parallel", "id"))
        self.queries = [drawn_query(draw, f"q{number}") for number in range(draw.choice((1, 1, 2)))]
        alone = [one for one in self.queries if needs_own_engine(one, self.identity)]
        self.queries = alone[:1] or self.queries
        self.stream = Stream(draw, self.identity)
        self.oracle = NetEngine(*(ForwardQuery.of(one.oracle) for one in self.queries), identity=self.identity)
        self.threads = (1, 1, 2) if all(isinstance(one.what, str) for one in self.queries) else (1,)
        self.kind = tiny(draw.choice((1, 2, 16)))
        queries = [one.query for one in self.queries]
        self.engine = self.kind(*queries, edges=self.identity, threads=draw.choice(self.threads))
        self.held: dict[str, set[Solution]] = {one.query.name: set() for one in self.queries}
        self.changed = {one.query.name: Counter[str]() for one in self.queries}
        self.log: list[Any] = []

    def batch(self, count: int) -> None:
        """Push tuples, in one piece or in several, and compare what they brought in all."""
        draw, rows, found = self.draw, self.stream.tuples(count), defaultdict(Counter)
        (piece,) = draw.choices((count, 17, 3, 1), (180, 16, 3, 1))
        for first in range(0, count, piece):
            part = rows[first : first + piece]
            self.log.append(part)
            self._take(push_one(self.engine, part[0]) if piece == 1 else self._push(part), found)
        for row in rows:
            self.oracle.apply(row)
        self.tuples += count
        self._compare(found)

    def advance(self) -> None:
        """Advance the time, and compare."""
        found: defaultdict[str, Counter[Solution]] = defaultdict(Counter)
        self.stream.time += self.draw.choice((0, 1, 6, 30))
        self._take(self.engine.advance(self.stream.time), found)
        self.oracle.advance(self.stream.time)
        self._compare(found)

    def restore(self) -> None:
        """Go on with an engine that was read from a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "engine.state"
            self.engine.save(path)
            self.engine = self.kind.restore(path, threads=self.draw.choice(self.threads))
        self.engine._check()

    def _push(self, rows: list[Tuple]) -> rpq.Changes:
        return self.engine.push(as_batch(rows, arrow=self.draw.random() < 0.3))

    def _take(self, changes: rpq.Changes, found: dict[str, Counter[Solution]]) -> None:
        """Add the rows of a piece to those of its batch. What is added is not there, what is removed is."""
        columns = {one.query.name: one.query.columns for one in self.queries}
        is_explicit = {one.query.name: one.query.semantics == "explicit" for one in self.queries}
        for row in changes.rows():
            solution, held = tuple(getattr(row, name) for name in columns[row.query]), self.held[row.query]
            assert (solution in held) == (row.op == "-") or (row.op == "+" and not is_explicit[row.query]), row
            (held.add if row.op == "+" else held.remove)(solution)
            found[row.query][solution] += 1 if row.op == "+" else -1
            self.changed[row.query]["rows_added" if row.op == "+" else "rows_removed"] += 1
            self.rows += 1

    def _compare(self, found: dict[str, Counter[Solution]]) -> None:
        self.engine._check()
        for one in self.queries:
            name = one.query.name
            net = self.oracle.nets[name]
            expected = net.end()
            brought = {solution: count for solution, count in found[name].items() if count}
            assert brought == expected, f"{name}: {brought} is not {dict(expected)}"
            assert set(self.engine.answers(name)) == set(net.before), f"{name} has other answers"
            figures = self.engine.statistics(name)
            counts = {count: getattr(figures, count) for count in COUNTS}
            assert counts == self.oracle.counts(name) | {count: self.changed[name][count] for count in ROWS}, name


ROWS = ("rows_added", "rows_removed")


def run(seed: int, tuples: int, *, sizes: tuple[int, ...] = (20, 60, 200, 200, 200, 200, 200, 200)) -> Run:
    """Compare a stream of that many tuples, or a few more, in batches; raise `Difference` that names the seed."""
    stream = Run(seed)
    try:
        while stream.tuples < tuples:
            stream.batch(stream.draw.choice(sizes))
            if stream.draw.random() < 0.1:
                stream.advance()
            if stream.draw.random() < 0.08:
                stream.restore()
    except Exception as problem:
        queries = [one.query for one in stream.queries]
        raise Difference(f"seed {seed}, behind {stream.tuples:,} tuples, edges={stream.identity}: {queries}") from problem
    return stream


def main(arguments: list[str]) -> None:
    """Compare streams of 2,000 tuples, seed after seed, until there are as many tuples as asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("tuples", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stream", type=int, default=2000, help="the tuples of a stream")
    options = parser.parse_args(arguments)
    begin, tuples, rows, seed = clock.perf_counter(), 0, 0, options.seed
    while tuples < options.tuples:
        done = run(seed, options.stream)
        tuples, rows, seed = tuples + done.tuples, rows + done.rows, seed + 1
        if seed % 10 == 0:
            seconds = clock.perf_counter() - begin
            print(f"seeds {options.seed} to {seed - 1}: {tuples:,} tuples, {rows:,} rows, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
