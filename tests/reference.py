"""The oracle: streaming regular path queries by brute force, as the contract words them.

Nothing here is clever, fast or shared with the engine but the parser. After every tuple and at every slide boundary
the answer is computed anew from the snapshot graph, straight from the expression; the rows are the difference between
two answers. Numbers in brackets, [S6], name the rule of the semantics that a line obeys:

[S1] an answer needs a non-empty path, [S2] walks or simple paths, [S3] time and boundaries, [S4] inserts,
[S5] deletes, [S6] rows, [S9] registering while the stream runs, [S11] counts, [S12] labels and "other" labels.

What the rules leave open is decided here, and so for every engine:

- **Rejected** is a tuple (of either op, of any label), an `advance` or a registration with which a time plus the size
  of a registered window would leave int64, or a timestamp outside int64. It raises and moves and counts nothing.
- **Relevant** to a query is a label that occurs in some word of its language, in either direction: `a{0}/b` has no
  use for `a`; `!(a|^b)` uses every label, `a` too (its inverse step); `!(a|^a)` uses all but `a`.
- **Order of verdicts** on an insert: irrelevant, late (its own timestamp is outside the window, even if a younger
  copy of the edge is inside), refreshed, inserted. A delete is never late.
- **The store** of the engine holds an edge while a registered query to which its label is relevant has its timestamp
  in the window, be it from before a start="empty". The engine's verdict: irrelevant or late if every query (to which
  the label is relevant) says so; otherwise refreshed or deleted if the store held the edge, inserted or
  absent_deletes if not.
- **Lost** are inserts that the store does not hold although nothing deleted them: dropped as irrelevant, dropped as
  late, or evicted, by a boundary or because a query was unregistered. `lost[label]` is the largest timestamp of
  a lost insert of that label: one number a label is all that an engine has to remember.
- **Registering** with start="window" is allowed iff lost[label] ≤ the lower bound of the query's window at τ for every
  label relevant to it: then each edge its window would hold is in the store. Otherwise it is refused, and
  `available_from` is the boundary at which the youngest lost edge leaves its window. From then on it can be
  registered, unless more has been lost by then; where no query keeps the label, every further edge is.
- **start="empty"** is never refused: the query is what a new engine, advanced to τ, would make of it. Edges that came
  before do not count for it: to refresh one is an insert for this query (and a refresh for the engine), with
  the tuple's timestamp; to delete one is absent. From the boundary ⌈(τ + W)/β⌉·β on its answers are complete.
- **Counts** of a query begin when it is registered. The rows of a registration count as added.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from rpq import automata
from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
COUNTS = "tuples inserted refreshed deleted absent_deletes late passed_by irrelevant rows_added rows_removed".split()

Vertex = Hashable
Edge = tuple[Vertex, str, Vertex]  # source, label, target
Path = tuple[Vertex, ...]  # the two ends of a walk, or every vertex of a simple path or cycle
Meaning = tuple[set[Path], bool]  # the non-empty paths of an expression, and whether it has the empty one [S1]


class Rejected(ValueError):
    """A tuple, a time or a query that cannot be; nothing has changed."""


class RegistrationRefused(Exception):
    """The window of a new query reaches back to edges that are gone; `available_from` is when it no longer does."""

    def __init__(self, query: str, available_from: int, complete_from: int) -> None:
        super().__init__(
            f"query {query!r}: its window would hold edges that were not kept; it can be registered from "
            f"{available_from} on, if nothing more is lost until then, or now with start='empty' (complete from "
            f"{complete_from} on)"
        )
        self.available_from = available_from


class Row(NamedTuple):
    """One change of an answer: op "+" where the pair enters, "-" where it leaves, at stream time `timestamp`."""

    query: str
    source: Vertex
    target: Vertex
    timestamp: int
    op: str


def evaluate(expression: str | Expression, edges: Iterable[Edge], paths: str = "walk") -> set[tuple[Vertex, Vertex]]:
    """Return the pairs joined by a non-empty path over `edges` that spells a word of the expression [S1].

    >>> sorted(evaluate("a/b*", [(1, "a", 2), (2, "b", 2), (2, "b", 3)]))
    [(1, 2), (1, 3)]
    """
    found, _has_empty = _meaning(_parse(expression), set(edges), paths)
    return {(path[0], path[-1]) for path in found}


@cache
def is_relevant(expression: str | Expression, label: str) -> bool:
    """Return whether some word of the expression has a step along an edge with this label, in any direction."""
    match _parse(expression):
        case Label(name):
            return label == name
        case NegatedSet() as step:
            return any((label, inverse) not in step.members for inverse in step.directions)
        case Inverse(inner):
            return is_relevant(inner, label)
        case Concatenation(parts) | Alternation(parts):
            return any(is_relevant(part, label) for part in parts)
        case Repetition(inner, _, maximum):
            return maximum != 0 and is_relevant(inner, label)
    raise TypeError(expression)


@cache
def _parse(expression: str | Expression) -> Expression:
    return automata.parse(expression) if isinstance(expression, str) else expression


def _visits_once(path: Path, paths: str) -> bool:
    """Return whether a path visits no vertex twice, but for the last one of a cycle [S2]."""
    if paths == "simple_cycle" and len(path) > 1 and path[0] == path[-1]:
        path = path[1:]
    return len(set(path)) == len(path)


def _meaning(node: Expression, edges: set[Edge], paths: str) -> Meaning:
    def steps(pairs: Iterable[Path]) -> Meaning:
        return {pair for pair in pairs if paths == "walk" or _visits_once(pair, paths)}, False

    def join(left: set[Path], right: set[Path]) -> set[Path]:
        if paths == "walk":
            return {(p[0], q[-1]) for p in left for q in right if p[-1] == q[0]}
        glued = (p + q[1:] for p in left for q in right if p[-1] == q[0])
        return {path for path in glued if _visits_once(path, paths)}

    def concatenate(left: Meaning, right: Meaning) -> Meaning:
        (p, p_empty), (q, q_empty) = left, right
        return join(p, q) | (p if q_empty else set()) | (q if p_empty else set()), p_empty and q_empty

    match node:
        case Label(name):
            return steps((s, t) for s, label, t in edges if label == name)
        case NegatedSet():  # [S12] a step in a direction that the set speaks of, with a label that it does not name
            ahead = {(s, t) for s, label, t in edges if False in node.directions and (label, False) not in node.members}
            back = {(t, s) for s, label, t in edges if True in node.directions and (label, True) not in node.members}
            return steps(ahead | back)
        case Inverse(inner):
            found, empty = _meaning(inner, edges, paths)
            return {path[::-1] for path in found}, empty
        case Alternation(parts):
            meanings = [_meaning(part, edges, paths) for part in parts]
            return set().union(*(found for found, _ in meanings)), any(empty for _, empty in meanings)
        case Concatenation(parts):
            result: Meaning = set(), True
            for part in parts:
                result = concatenate(result, _meaning(part, edges, paths))
            return result
        case Repetition(inner, minimum, maximum):
            found, empty = _meaning(inner, edges, paths)
            result = set(), True
            for _ in range(minimum):
                result = concatenate(result, (found, empty))
            if maximum is not None:
                for _ in range(maximum - minimum):
                    result = concatenate(result, (found, True))
                return result
            closure = set(found)
            while not (longer := join(closure, found)) <= closure:
                closure |= longer
            return concatenate(result, (closure, True))
    raise TypeError(node)


@dataclass(frozen=True, kw_only=True)
class ReferenceQuery:
    """A query over a window of `size` time units that moves at multiples of `slide`.

    `sources` and `targets` restrict the answer to pairs that begin and end there.
    """

    name: str
    expression: str
    size: int
    slide: int
    semantics: Literal["implicit", "explicit"] = "implicit"
    paths: Literal["walk", "simple", "simple_cycle"] = "walk"
    sources: frozenset[Vertex] | None = None
    targets: frozenset[Vertex] | None = None

    def lower_bound(self, time: int) -> int:
        """Return the largest timestamp that is outside the window at stream time `time` [S3]."""
        return time // self.slide * self.slide - self.size

    def leaves_at(self, timestamp: int) -> int:
        """Return the boundary at which an edge with this timestamp leaves the window."""
        return -(-(timestamp + self.size) // self.slide) * self.slide

    def uses(self, label: str) -> bool:
        """Return whether the label is relevant to the query."""
        return is_relevant(self.expression, label)

    def row(self, answer: tuple, time: int, op: str) -> Row:
        """Return the change of an answer as a row."""
        return Row(self.name, *answer, time, op)

    def answer(self, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex]]:
        return {
            (x, y)
            for x, y in evaluate(self.expression, edges, self.paths)
            if (self.sources is None or x in self.sources) and (self.targets is None or y in self.targets)
        }


@dataclass
class _Running:
    """A registered query: its snapshot graph (edge -> timestamp), its answer, its counts."""

    query: ReferenceQuery
    edges: dict[Edge, int] = field(default_factory=dict)
    answer: set[tuple[Vertex, Vertex]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    def process(self, edge: Edge, timestamp: int, op: str, time: int) -> str:
        """Change the snapshot graph by one tuple and return the verdict on it [S11]."""
        if not self.query.uses(edge[1]):
            return "irrelevant"
        if op == "-":  # [S5] whatever its timestamp
            return "absent_deletes" if self.edges.pop(edge, None) is None else "deleted"
        if timestamp <= self.query.lower_bound(time):
            return "late"
        verdict = "refreshed" if edge in self.edges else "inserted"
        self.edges[edge] = max(timestamp, self.edges.get(edge, timestamp))  # [S4]
        return verdict

    def rows(self, time: int, *, silent: bool = False) -> list[Row]:
        """Bring the answer up to date and return what changed; `silent` drops the rows "-" [S6]."""
        before, self.answer = self.answer, self.query.answer(self.edges)
        rows = [self.query.row(answer, time, "+") for answer in self.answer - before]
        if not silent:
            rows += [self.query.row(answer, time, "-") for answer in before - self.answer]
        return sorted(rows, key=repr)


class ReferenceEngine:
    """Registered queries, the stream time τ (None before the first tuple), and the edges some query needs.

    >>> engine = ReferenceEngine(ReferenceQuery(name="q", expression="a/b", size=10, slide=5))
    >>> engine.push("x", "y", "a", 1)
    []
    >>> engine.push("y", "z", "b", 3)
    [Row(query='q', source='x', target='z', timestamp=3, op='+')]
    """

    def __init__(self, *queries: ReferenceQuery) -> None:
        self.time: int | None = None
        self.store: dict[Edge, int] = {}
        self.lost: dict[str, int] = {}
        self._running: dict[str, _Running] = {}
        self._counts = dict.fromkeys(COUNTS, 0)
        for query in queries:
            self.register(query)

    def push(self, source: Vertex, target: Vertex, label: str, timestamp: int, op: str = "+") -> list[Row]:
        """Process one tuple and return its rows, those of the boundaries it crosses first."""
        if op not in ("+", "-"):
            raise Rejected(f"op {op!r}")
        rows = self.advance(timestamp)  # [S3] whatever becomes of the tuple
        edge, known = (source, label, target), (source, label, target) in self.store
        verdicts = []
        for running in self._running.values():
            verdicts.append(running.process(edge, timestamp, op, self.time))
            running.counts["tuples"] += 1
            running.counts[verdicts[-1]] += 1
            if verdicts[-1] in ("inserted", "deleted"):
                rows += self._counted(running, running.rows(self.time))
        used = set(verdicts) - {"irrelevant"}
        if not used or used == {"late"}:
            verdict = "late" if used else "irrelevant"
            if op == "+":
                self._lose(label, timestamp)
        elif op == "-":
            verdict = "deleted" if known else "absent_deletes"
            self.store.pop(edge, None)
        else:
            verdict = "refreshed" if known else "inserted"
            self.store[edge] = max(timestamp, self.store.get(edge, timestamp))
        self._counts["tuples"] += 1
        self._counts[verdict] += 1
        return rows

    def advance(self, time: int) -> list[Row]:
        """Move τ to `time` if that is later, and return the rows of the boundaries crossed, in time order [S3]."""
        if not INT64_MIN <= time <= INT64_MAX or any(time + r.query.size > INT64_MAX for r in self._running.values()):
            raise Rejected(f"time {time}: it, or a window that begins there, is outside int64")
        if self.time is None:
            self.time = time
            return []
        rows: list[Row] = []
        while True:  # only boundaries at which an edge leaves a window; at the others nothing changes
            leaving = [r.query.leaves_at(ts) for r in self._running.values() for ts in r.edges.values()]
            boundary = min(leaving, default=None)
            if boundary is None or boundary > time:
                break
            for running in self._running.values():
                bound = running.query.lower_bound(boundary)
                running.edges = {edge: ts for edge, ts in running.edges.items() if ts > bound}
                changes = running.rows(boundary, silent=running.query.semantics == "implicit")
                rows += self._counted(running, changes)
        self.time = max(self.time, time)
        self._evict()
        return rows

    def register(self, query: ReferenceQuery, start: Literal["window", "empty"] = "window") -> list[Row]:
        """Add a query and return its first rows; raise RegistrationRefused if its window is not in the store [S9]."""
        if query.name in self._running or start not in ("window", "empty"):
            raise ValueError(f"query {query.name!r} is registered already, or there is no start {start!r}")
        running = _Running(query)
        if self.time is None:
            self._running[query.name] = running
            return []
        if self.time + query.size > INT64_MAX:
            raise Rejected(f"a window of {query.size} at {self.time} is outside int64")
        if start == "window":
            bound = query.lower_bound(self.time)
            missing = [ts for label, ts in self.lost.items() if ts > bound and query.uses(label)]
            if missing:
                raise RegistrationRefused(query.name, query.leaves_at(max(missing)), query.leaves_at(self.time))
            running.edges = {edge: ts for edge, ts in self.store.items() if ts > bound and query.uses(edge[1])}
        self._running[query.name] = running
        return self._counted(running, running.rows(self.time))

    def unregister(self, name: str) -> None:
        """Remove a query, silently, and the edges that no other query needs."""
        del self._running[name]
        self._evict()

    @property
    def queries(self) -> tuple[ReferenceQuery, ...]:
        return tuple(running.query for running in self._running.values())

    def answers(self, name: str | None = None) -> set[tuple[Vertex, Vertex]]:
        """Return the answer at τ of a query (of the only one, without a name)."""
        return set(self._named(name).answer)

    def edges(self, name: str | None = None) -> dict[Edge, int]:
        """Return the snapshot graph of a query (of the only one, without a name): edge -> timestamp."""
        return dict(self._named(name).edges)

    def counts(self, name: str | None = None) -> dict[str, int]:
        """Return the counts of a query, or, without a name, of the engine [S11]."""
        if name is None:
            live = sum(len(running.answer) for running in self._running.values())
            return {**self._counts, "answers_live": live, "edges_live": len(self.store)}
        running = self._running[name]
        return {**running.counts, "answers_live": len(running.answer), "edges_live": len(running.edges)}

    def _named(self, name: str | None) -> _Running:
        if name is None:
            (name,) = self._running
        return self._running[name]

    def _counted(self, running: _Running, rows: list[Row]) -> list[Row]:
        for row in rows:
            column = "rows_added" if row.op == "+" else "rows_removed"
            running.counts[column] += 1
            self._counts[column] += 1
        return rows

    def _evict(self) -> None:
        """Drop the edges that no query holds any more; remember how young they were."""
        for (source, label, target), ts in list(self.store.items()):
            users = [r.query for r in self._running.values() if r.query.uses(label)]
            if not any(ts > query.lower_bound(self.time) for query in users):
                del self.store[source, label, target]
                self._lose(label, ts)

    def _lose(self, label: str, timestamp: int) -> None:
        self.lost[label] = max(timestamp, self.lost.get(label, timestamp))
