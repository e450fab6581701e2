"""The oracle of graph patterns over streams: windows, rows and counts by brute force, as the contract words them.

After every tuple and at every time boundary the solutions are computed anew from the windows' edges; the rows are the
difference of two bags. Numbers in brackets name the rule of the contract for patterns that a line obeys; those of the
contract for paths, which hold here too, begin with "paths":

[2.2] bags and rows, [2.3] windows, [2.4] streams, [2.5] static edges, [2.6] implicit and explicit, [2.7] before the
first tuple, [2.9] reports, [2.15] what holds for path queries holds here; [paths 2.3] time, [paths 2.4] inserts,
[paths 2.5] deletes, [paths 2.9] registering, [paths 2.11] counts.

`tests.reference` decides what the rules for paths leave open; what those for patterns leave open is decided here:

- **Verdict of a query** on a tuple, of the verdicts of its windows: irrelevant if no window reads the label and the
  stream; late if all that do refuse it; of those that do not, refreshed or deleted if one held the edge, else inserted
  or absent_deletes. An atom over a default graph that has no window reads static edges alone: no tuple is relevant to it.
- **Verdict of the engine**: as for path queries, where the store is asked for the edge in the merged stream and in the
  stream that the tuple names.
- **Stores and losses** are kept for each stream and for the merged stream apart: a merged window keeps nothing for a
  window ON a stream. The store holds an edge for a time window while its timestamp is inside, for an unbounded window
  always, for a count window while that window holds it; what a count window evicts is lost.
- **The time of an edge** in any window is the largest timestamp of its inserts since it last came in.
- **Accepted** of a label are the edges that some atom of some query has a use for, whatever window or stream it reads. An
  insert that is not accepted is *passed by*, if it is not late for a window that reads it; a delete of such an edge is
  absent. When a query goes, the edges that it alone accepted are dropped. These and those that were passed by count as
  lost for a query that needs edges which were not accepted all the time since. While a query accepts all edges of a label,
  what others accepted that have gone stays accepted, if the label had come by then.
- **edges_live** counts an edge once for each stream (or the merged one) of the query's windows that hold it, static
  edges not; **answers_live** counts solutions as often as they come.
- **A count window like it** must hold what the new one would: it was there before the first tuple, or began as a copy
  of one that was; one that started empty in mid-stream helps nobody. In mid-stream is: once τ is set, whatever came.
- **A refusal** has a time from which the query can be registered if time windows alone refuse: the latest of theirs.
- **start="empty"** empties all windows; static edges, which have no time, are there.
- **Reports** tell at boundary b of everything up to then, the answer before the first tuple and the rows of a
  registration too: these wait for the first boundary b ≥ τ (for report="time": the moment τ itself) to be passed.
  Boundaries are those of the default window's slide, or without it those of the slide of each window of time with a
  name; other windows of the query are as they are at b.
- **The guard** counts what one event, or report, tells of one query: silent rows are none. Of the tuple, the `advance` or
  the registration that brings too many nothing has happened, the boundaries that it would have crossed included.
- **The answer** is that of this moment, whatever has been reported; before the first tuple it is empty.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, NamedTuple

from tests.reference import COUNTS, INT64_MAX, INT64_MIN, Edge, Rejected, Vertex
from tests.reference_patterns import ALL, Ends, Labels, Pattern

STRONGEST_FIRST = ("refreshed", "deleted", "inserted", "absent_deletes", "passed_by", "late", "irrelevant")


class RegistrationRefused(Exception):
    """A window of a new query would hold edges that are gone; `available_from` is when no longer, if that is known."""

    def __init__(self, query: str, available_from: int | None) -> None:
        since = "now with start='empty'" if available_from is None else f"from {available_from} on, or with start='empty'"
        super().__init__(f"query {query!r}: its windows would hold edges that were not kept; it can be registered {since}")
        self.available_from = available_from


class TooManyRows(Exception):
    """One event would tell more of a query than the guard allows; nothing has happened."""

    def __init__(self, query: str, number: int, limit: int) -> None:
        super().__init__(f"query {query!r}: {number} rows at once, where {limit} are allowed")
        self.number = number


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of a stream that an atom reads: edges younger than `size`, in time or in inserts, or all of them.

    A time window moves at multiples of `slide` units of time, a count window at every `slide`-th insert; an unbounded
    window needs neither. With `stream` it reads the tuples of that name, without the merged stream [2.4].
    """

    kind: Literal["time", "count", "unbounded"] = "time"
    size: int = 0
    slide: int = 1
    stream: str | None = None

    def lower_bound(self, position: int) -> int:
        """Return the largest timestamp, or number of an insert, that is outside when τ, or the last number, is this."""
        return position // self.slide * self.slide - self.size

    def leaves_at(self, timestamp: int) -> int:
        """Return the boundary at which an edge with this timestamp leaves a time window."""
        return next_multiple(timestamp + self.size, self.slide)


@dataclass(frozen=True, kw_only=True)
class PatternQuestion:
    """A pattern over windows: the default one, which may be left out, and those with names.

    Raises Rejected for a window that atoms read and nobody declared, and for reports that cannot be.
    """

    name: str
    pattern: Pattern
    window: Window | None = None
    windows: Mapping[str, Window] = field(default_factory=dict)
    semantics: Literal["implicit", "explicit"] | None = None  # None: explicit for reports, implicit else
    report: Literal["change", "slide", "time"] = "change"

    def __post_init__(self) -> None:
        if missing := self.pattern.windows - {None, *self.windows}:
            raise Rejected(f"windows {missing} are not declared")
        if self.report != "change" and not self.reporting_windows:
            raise Rejected(f"report={self.report!r} needs a time window as the default one, or with a name without that")
        if self.report != "change" and self.semantics == "implicit":
            raise Rejected(f"report={self.report!r} is explicit")

    @property
    def is_implicit(self) -> bool:
        return self.report == "change" and self.semantics != "explicit"

    @property
    def all_windows(self) -> dict[str | None, Window]:
        return {**self.windows} if self.window is None else {None: self.window, **self.windows}

    @property
    def reporting_windows(self) -> list[Window]:
        """The windows of time at whose boundaries there are reports: the default one, or without it all [2.9]."""
        windows = [self.window] if self.window is not None else self.windows.values()
        return [window for window in windows if window.kind == "time"]

    def accepts(self, label: str) -> set[Ends]:
        """Return which edges of a label the query has a use for, if a window reads it; a count window numbers all [2.3]."""
        if not any(label in self.pattern.labels_read(name) for name in self.all_windows):
            return set()
        ends = self.pattern.accepts(label)
        is_counted = any(window.kind == "count" for window in self.all_windows.values())
        return {ALL} if ends and is_counted else ends

    def reports_at(self, time: int) -> int | None:
        """Return the time of the report that tells what happens at `time`; None if it is told at once [2.9]."""
        if self.report == "change":
            return None
        return time if self.report == "time" else min(next_multiple(time, one.slide) for one in self.reporting_windows)


class Row(NamedTuple):
    """One change of an answer: op "+" for a solution that enters, "-" for one that leaves, at stream time `timestamp`."""

    query: str
    values: tuple[Vertex, ...]
    timestamp: int
    op: str


class Held(NamedTuple):
    """An edge in a window: its time, and the number of its last insert."""

    timestamp: int
    number: int


@dataclass
class _Content:
    """The edges that a window of a query holds."""

    window: Window
    labels: Labels
    edges: dict[Edge, Held] = field(default_factory=dict)
    number: int = 0  # of the last insert that it met
    is_whole: bool = False  # it has numbered all inserts since the first tuple

    def process(
        self, edge: Edge, timestamp: int, op: str, stream: str | None, time: int, *, is_passed_by: bool = False
    ) -> str:
        """Change the content by one tuple and return the verdict on it."""
        if edge[1] not in self.labels or self.window.stream not in (None, stream):  # [2.4]
            return "irrelevant"
        if op == "-":  # [paths 2.5]
            return "absent_deletes" if self.edges.pop(edge, None) is None else "deleted"
        if self.window.kind == "time" and timestamp <= self.window.lower_bound(time):
            return "late"
        if is_passed_by:
            return "passed_by"
        verdict = "refreshed" if edge in self.edges else "inserted"
        self.number += 1  # [2.3] a refresh is an insert too
        known = self.edges.get(edge, Held(timestamp, 0))
        self.edges[edge] = Held(max(timestamp, known.timestamp), self.number)
        if self.window.kind == "count":
            bound = self.window.lower_bound(self.number)
            self.edges = {edge: state for edge, state in self.edges.items() if state.number > bound}
        return verdict

    def expire(self, time: int) -> bool:
        """Drop what is outside a time window at `time`; return whether there was something."""
        before = len(self.edges)
        if self.window.kind == "time":
            bound = self.window.lower_bound(time)
            self.edges = {edge: state for edge, state in self.edges.items() if state.timestamp > bound}
        return len(self.edges) < before

    def leaving_times(self) -> set[int]:
        states = self.edges.values() if self.window.kind == "time" else ()
        return {self.window.leaves_at(timestamp) for timestamp, _ in states}

    def wants(self, edge: Edge, timestamp: int, time: int) -> bool:
        """Return whether the store must keep this edge of the window's stream."""
        if self.window.kind == "count":
            return edge in self.edges
        inside = self.window.kind == "unbounded" or timestamp > self.window.lower_bound(time)
        return edge[1] in self.labels and inside


@dataclass
class _Running:
    """A registered query: the content of its windows, the answer that its rows have reported, its counts."""

    question: PatternQuestion
    contents: dict[str | None, _Content]
    reported: Counter[tuple[Vertex, ...]] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    def graphs(self, static: frozenset[Edge]) -> dict[str | None, dict[Edge, int | None]]:
        """Return the graphs that its atoms read, with the time of each edge: None for those that are static alone."""
        graphs: dict[str | None, dict[Edge, int | None]] = {None: dict.fromkeys(static)}  # [2.5]
        for name, content in self.contents.items():
            graphs.setdefault(name, {}).update({edge: state.timestamp for edge, state in content.edges.items()})
        return graphs


def _all_or_nothing(method: Callable[..., list[Row]]) -> Callable[..., list[Row]]:
    """Make a method of the engine leave it as it was where the guard on rows stops it [2.15]."""

    @wraps(method)
    def guarded(self: "PatternReference", *arguments: Any, **options: Any) -> list[Row]:
        before = None if self.row_limit is None else deepcopy(self.__dict__)
        try:
            return method(self, *arguments, **options)
        except TooManyRows:
            self.__dict__ = before
            raise

    return guarded


class PatternReference:
    """Registered queries, the stream time τ (None before the first tuple), static edges, and the edges kept per stream.

    >>> from tests.reference_patterns import Atom, Variable
    >>> x, y, z = map(Variable, "xyz")
    >>> pattern = Pattern(atoms=(Atom(x, "a", y), Atom(y, "b+", z)))
    >>> engine = PatternReference(PatternQuestion(name="q", pattern=pattern, window=Window(size=10, slide=5)))
    >>> engine.push("u", "v", "a", 1)
    []
    >>> engine.push("v", "w", "b", 3)
    [Row(query='q', values=('u', 'v', 'w'), timestamp=3, op='+')]
    """

    def __init__(self, *questions: PatternQuestion, static: Iterable[Edge] = (), row_limit: int | None = None) -> None:
        self.row_limit = row_limit  # how many rows one event may bring to one query
        self.time: int | None = None
        self.static: frozenset[Edge] = frozenset()
        self.stores: dict[str | None, dict[Edge, int]] = defaultdict(dict)  # stream, None the merged one
        self.lost: dict[tuple[str | None, str], int] = {}  # stream, label -> the largest timestamp that was not kept
        self.accepted: dict[str, dict[Ends, int]] = {}  # label -> what is accepted, and up to when something was passed by
        self.passed_by: dict[str, int] = {}  # label -> the largest timestamp that was passed by
        self._running: dict[str, _Running] = {}
        self._counts = dict.fromkeys(COUNTS, 0)
        for question in questions:
            self.register(question)
        self.load_static(static)

    def load_static(self, edges: Iterable[Edge]) -> None:
        """Add edges without time to the default graph of every query; Rejected once there was a tuple [2.5]."""
        if self.time is not None:
            raise Rejected("static edges are loaded before the first tuple")
        self.static |= frozenset(edges)
        for _, label, _ in self.static:
            self._accept(label)

    @_all_or_nothing
    def push(
        self, source: Vertex, target: Vertex, label: str, timestamp: int, op: str = "+", stream: str | None = None
    ) -> list[Row]:
        """Process one tuple and return its rows, those of the boundaries and reports that it passes first."""
        if op not in ("+", "-"):
            raise Rejected(f"op {op!r}")
        rows = self.advance(timestamp)  # [paths 2.3] whatever becomes of the tuple
        edge, streams = (source, label, target), {None, stream}
        known = any(edge in self.stores[name] for name in streams)
        verdicts, kept_for = set(), set()
        self._accept(label)
        is_passed_by = not any(ends.includes(Ends(source, target)) for ends in self.accepted[label])
        for running in self._running.values():
            of_windows = set()
            for content in running.contents.values():
                verdict = content.process(edge, timestamp, op, stream, self.time, is_passed_by=is_passed_by)
                of_windows.add(verdict)
                if verdict in ("refreshed", "inserted", "passed_by"):
                    kept_for.add(content.window.stream)
            verdict = next((strong for strong in STRONGEST_FIRST if strong in of_windows), "irrelevant")
            verdicts.add(verdict)
            running.counts["tuples"] += 1
            running.counts[verdict] += 1
            # [2.6] Patterns are monotone: what an insert takes away, an eviction took.
            rows += self._event(running, self.time, silent=running.question.is_implicit and op == "+")
        for name in streams:
            if op == "-":
                self.stores[name].pop(edge, None)
            elif name in kept_for and is_passed_by:
                self.passed_by[label] = max(timestamp, self.passed_by.get(label, timestamp))
            elif name in kept_for:
                self.stores[name][edge] = max(timestamp, self.stores[name].get(edge, timestamp))
            else:
                self._lose(name, label, timestamp)
        self._evict()
        used = verdicts - {"irrelevant"}
        if not used or used == {"late"}:
            verdict = "late" if used else "irrelevant"
        elif op == "-":
            verdict = "deleted" if known else "absent_deletes"
        else:
            verdict = "passed_by" if is_passed_by else "refreshed" if known else "inserted"
        self._counts["tuples"] += 1
        self._counts[verdict] += 1
        return rows

    @_all_or_nothing
    def advance(self, time: int) -> list[Row]:
        """Move τ to `time` if that is later, and return the rows of boundaries and reports passed, in time order."""
        windows = [content.window for running in self._running.values() for content in running.contents.values()]
        sizes = [window.size for window in windows if window.kind == "time"]
        if not INT64_MIN <= time <= INT64_MAX or any(time + size > INT64_MAX for size in sizes):
            raise Rejected(f"time {time}: it, or a window that begins there, is outside int64")
        if self.time is None:
            self.time = time
            return [row for running in self._running.values() for row in self._event(running, time)]  # [2.7]
        if time <= self.time:
            return []
        # The moments at which an edge leaves a window, and those at which what happened then or now is reported.
        contents = [content for running in self._running.values() for content in running.contents.values()]
        leaving = {moment for content in contents for moment in content.leaving_times() if moment <= time}
        happening = {self.time} | leaving
        questions = [running.question for running in self._running.values()]
        reporting = {question.reports_at(moment) for question in questions for moment in happening} - {None}
        rows: list[Row] = []
        for moment in sorted(leaving | {report for report in reporting if report < time}):
            for running in self._running.values():
                # [2.3] the boundaries of one moment are one event, [2.6] silent in implicit windows
                expired = [content.expire(moment) for content in running.contents.values()]
                if any(expired):
                    rows += self._event(running, moment, silent=running.question.is_implicit)
                if moment < time and running.question.reports_at(moment) == moment:  # [2.9] τ exceeds it now
                    rows += self._tell(running, moment)
        self.time = time
        self._evict()
        return rows

    @_all_or_nothing
    def register(self, question: PatternQuestion, start: Literal["window", "empty"] = "window") -> list[Row]:
        """Add a query and return its first rows; raise RegistrationRefused if its windows are not there [2.15]."""
        if question.name in self._running or start not in ("window", "empty"):
            raise ValueError(f"query {question.name!r} is registered already, or there is no start {start!r}")
        contents = {
            name: _Content(window, question.pattern.labels_read(name)) for name, window in question.all_windows.items()
        }
        running = _Running(question, contents)
        if self.time is None:
            for content in contents.values():
                content.is_whole = True
            self._running[question.name] = running
            for label in self.accepted:
                self._accept(label)
            return []
        sizes = [window.size for window in question.all_windows.values() if window.kind == "time"]
        if any(self.time + size > INT64_MAX for size in sizes):
            raise Rejected(f"a window of {sizes} at {self.time} is outside int64")
        if start == "window":
            refused = [until for content in contents.values() for until in self._fill(content, question)]
            if refused:
                raise RegistrationRefused(question.name, None if None in refused else max(refused))
        self._running[question.name] = running
        for label in self.accepted:
            self._accept(label)
        return self._event(running, self.time)

    def unregister(self, name: str) -> None:
        """Remove a query, silently, and the edges that no other query needs."""
        del self._running[name]
        self._evict()
        for label, known in self.accepted.items():
            needed = {ends for running in self._running.values() for ends in running.question.accepts(label)}
            if ALL not in needed:
                self.accepted[label] = {ends: time for ends, time in known.items() if ends in needed}
                self._pass_by(label)

    def answer(self, name: str | None = None) -> Counter[tuple[Vertex, ...]]:
        """Return the solutions at τ of a query (of the only one, without a name)."""
        return self._answer(self._named(name))

    def graphs(self, name: str | None = None) -> dict[str | None, dict[Edge, int | None]]:
        """Return the graphs that a query reads: window -> edge -> its time, None for those that are static alone."""
        return self._named(name).graphs(self.static)

    def counts(self, name: str | None = None) -> dict[str, int]:
        """Return the counts of a query, or, without a name, of the engine [paths 2.11]."""
        if name is None:
            live = sum(self._answer(running).total() for running in self._running.values())
            return {**self._counts, "answers_live": live, "edges_live": sum(map(len, self.stores.values()))}
        running = self._running[name]
        edges = {(content.window.stream, edge) for content in running.contents.values() for edge in content.edges}
        return {**running.counts, "answers_live": self._answer(running).total(), "edges_live": len(edges)}

    def _named(self, name: str | None) -> _Running:
        if name is None:
            (name,) = self._running
        return self._running[name]

    def _answer(self, running: _Running) -> Counter[tuple[Vertex, ...]]:
        return Counter() if self.time is None else running.question.pattern.solutions(running.graphs(self.static))

    def _event(self, running: _Running, time: int, *, silent: bool = False) -> list[Row]:
        """Return the rows of an event, if the query tells of events as they come; `silent` drops the rows "-"."""
        return self._tell(running, time, silent=silent) if running.question.report == "change" else []

    def _tell(self, running: _Running, time: int, *, silent: bool = False) -> list[Row]:
        """Return how the answer differs from what was told before [2.2]: "-" first, then "+"."""
        before, running.reported = running.reported, self._answer(running)
        name = running.question.name
        removed = [] if silent else [Row(name, values, time, "-") for values in (before - running.reported).elements()]
        added = [Row(name, values, time, "+") for values in (running.reported - before).elements()]
        if self.row_limit is not None and len(removed) + len(added) > self.row_limit:
            raise TooManyRows(name, len(removed) + len(added), self.row_limit)
        for counts in (running.counts, self._counts):
            counts["rows_removed"] += len(removed)
            counts["rows_added"] += len(added)
        return sorted(removed, key=repr) + sorted(added, key=repr)

    def _fill(self, content: _Content, question: PatternQuestion) -> list[int | None]:
        """Give a new window what it would hold; return the times from which it can be had, if it cannot be now."""
        window = content.window
        if window.kind == "count":
            others = [other for running in self._running.values() for other in running.contents.values()]
            for other in others:
                if other.is_whole and (other.window, other.labels) == (window, content.labels):
                    content.edges, content.number, content.is_whole = dict(other.edges), other.number, True
                    return []
            return [None]
        lost = [ts for (stream, label), ts in self.lost.items() if stream == window.stream and label in content.labels]
        for label in self.accepted:
            if label in content.labels:
                lost += [time for ends in question.accepts(label) for time in self._passed_before(label, ends)]
        if window.kind == "unbounded" and lost:
            return [None]
        if window.kind == "time" and lost and max(lost) > window.lower_bound(self.time):
            return [window.leaves_at(max(lost))]
        content.edges = {
            edge: Held(timestamp, 0)
            for edge, timestamp in self.stores[window.stream].items()
            if content.wants(edge, timestamp, self.time)
        }
        return []

    def _evict(self) -> None:
        """Drop the edges that no window wants any more; remember how young they were."""
        for stream, store in self.stores.items():
            contents = [content for running in self._running.values() for content in running.contents.values()]
            users = [content for content in contents if content.window.stream == stream]
            for edge, timestamp in list(store.items()):
                if not any(content.wants(edge, timestamp, self.time) for content in users):
                    del store[edge]
                    self._lose(stream, edge[1], timestamp)

    def _accept(self, label: str) -> None:
        """Accept the edges of a label that some query has a use for from now on."""
        known = self.accepted.setdefault(label, {})
        needed = {ends for running in self._running.values() for ends in running.question.accepts(label)} - known.keys()
        known |= {ends: max(self._passed_before(label, ends), default=INT64_MIN) for ends in needed}

    def _pass_by(self, label: str) -> None:
        """Drop the edges with a label that are not accepted any more."""
        edges = {edge for store in self.stores.values() for edge in store if edge[1] == label}
        for edge in edges:
            if any(ends.includes(Ends(edge[0], edge[2])) for ends in self.accepted[label]):
                continue
            for store in self.stores.values():
                if edge in store:
                    self.passed_by[label] = max(store.pop(edge), self.passed_by.get(label, INT64_MIN))
            for running in self._running.values():
                for content in running.contents.values():
                    content.edges.pop(edge, None)

    def _passed_before(self, label: str, needed: Ends) -> list[int]:
        """Return the largest timestamp of an edge that may have been passed by though a query has a use for it."""
        known = [time for ends, time in self.accepted[label].items() if ends.includes(needed)]
        before = min(known) if known else self.passed_by.get(label, INT64_MIN)
        return [before] if before > INT64_MIN else []

    def _lose(self, stream: str | None, label: str, timestamp: int) -> None:
        self.lost[stream, label] = max(timestamp, self.lost.get((stream, label), timestamp))


def next_multiple(time: int, step: int) -> int:
    """Return the first multiple of `step` that is not before `time`."""
    return -(-time // step) * step
