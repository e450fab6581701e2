"""The queries that run in one engine, and which labels over which windows each reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from rpq.errors import QueryError, RegistrationError
from rpq.queries.kinds import kind_of
from rpq.queries.protocol import Figures, Guard, Question, Resources, RunningQuery
from rpq.results.changes import Asked
from rpq.results.delta import Delta
from rpq.running.reports import Reports
from rpq.stream.labels import LabelDictionary
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.timestamps import EARLIEST
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, UnboundedWindow, Window

GuardOfHost = Callable[[Callable[[], str], Callable[[], Iterable[Any]]], Guard]
"""Makes the guard of a host, for the name of a query that it serves, and itself; or of what waits for reports."""


class RunningQueries:
    """Running queries by name, in the order in which they were registered, which numbers them."""

    def __init__(self) -> None:
        self._held: dict[str, RunningQuery] = {}
        self.asked = Asked((), ())
        self.jobs: tuple[tuple[int, Any], ...] = ()  # (number of the query, worker)
        self.hosts: tuple[Any, ...] = ()  # what queries of one kind share
        self._numbers: dict[str, int] = {}  # by name
        self.reports: dict[int, Reports] = {}  # of queries that do not tell every change, by number
        self._reports_of: dict[str, Reports] = {}  # by name
        self._host_of: dict[str, Any] = {}  # the host of a kind, by its name
        self.may_overrun = False  # whether a query has roots that can go over a budget
        self._late: set[str] = set()  # queries that started empty in mid-stream
        self.latest = INT64_MAX  # the largest timestamp whose sum with every window's size fits into 64 bits
        self.is_divided = False  # whether a query must be told of every new vertex
        self._roomy: list[RunningQuery] = []  # those that must be told of new vertices
        self._windows: dict[tuple[AnyWindow, Hashable], int] = {}  # over which some query reads, and their numbers
        self._reading = np.zeros((0, 0), np.int32)  # (label, window): how many queries read it

    def __iter__(self) -> Iterator[RunningQuery]:
        return iter(self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def named(self, name: str | None) -> RunningQuery:
        """The query of that name, or the only one."""
        if name is None and len(self._held) == 1:
            return next(iter(self._held.values()))
        if name is None or name not in self._held:
            known = ", ".join(map(repr, self._held)) or "none"
            raise QueryError(f"no query named {name!r}; the registered ones are: {known}")
        return self._held[name]

    @property
    def workers(self) -> list[Any]:
        """All that takes chunks: workers and hosts."""
        return [*(worker for _, worker in self.jobs), *self.hosts]

    def numbered(self, deltas: Iterable[tuple[str, Delta]]) -> list[tuple[int, Delta]]:
        """What hosts report, with the numbers of queries in place of their names, in their order."""
        return sorted(((self._numbers[name], delta) for name, delta in deltas), key=itemgetter(0))

    def number_of(self, running: RunningQuery) -> int:
        """The number that its rows bear."""
        return self._numbers[running.question.name]

    def refuse_if_unfit(self, question: Any) -> None:
        """Raise if this is no query, or has the name of another."""
        kind_of(question)
        if question.name in self._held:
            raise QueryError(f"there is a query named {question.name!r} already; give this one another name")

    def start(
        self, question: Question, resources: Resources, labels: LabelDictionary, guard_of_host: GuardOfHost
    ) -> RunningQuery:
        """Let a query begin, from an empty window; `settle` makes it one of those that run."""
        self.refuse_if_unfit(question)
        kind = kind_of(question)
        ids, names = np.fromiter(labels.ids.values(), np.int64, len(labels)), list(labels.ids)
        if kind.host is not None:
            host = self._host_of.get(kind.name)
            if host is None:
                guard = guard_of_host(lambda: self._hosted_by(kind.name), lambda: (self._host_of[kind.name],))
                host = self._host_of[kind.name] = kind.host(replace(resources, guard=guard))
                host.set_labels(ids, names)
            resources = replace(resources, host=host)
        try:
            running = kind.start(question, resources)
        except BaseException:
            self._forget_idle_hosts()
            raise
        running.set_labels(ids, names)
        self._held[question.name] = running
        if resources.is_late:
            self._late.add(question.name)
        if running.report != "change" and isinstance(question.window, Window):
            self._reports_of[question.name] = Reports(
                running.report,
                slide=question.window.slide,
                columns=len(question.columns),
                guard=guard_of_host(lambda: question.name, lambda: (self._reports_of[question.name],)),
            )
        return running

    def remove(self, name: str) -> None:
        """Take a query away."""
        self._held.pop(name).leave()
        self._late.discard(name)
        self._reports_of.pop(name, None)
        self._forget_idle_hosts()

    def _hosted_by(self, kind: str) -> str:
        """The name of a query that a host serves; the first of them."""
        return next(name for name, running in self._held.items() if kind_of(running.question).name == kind)

    def _forget_idle_hosts(self) -> None:
        used = {kind_of(running.question).name for running in self._held.values()}
        self._host_of = {kind: host for kind, host in self._host_of.items() if kind in used}

    def settle(self, labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Tell the graph what is read over which windows, after queries went. O(queries · labels)."""
        held = list(self._held.values())
        self.asked, self.jobs, self._numbers, self._roomy, self._windows = Asked((), ()), (), {}, [], {}
        self.may_overrun = self.is_divided = False
        self.latest = INT64_MAX
        self._reading = np.zeros((labels.room, 0), np.int32)
        self._add(held, labels)
        self._set_windows(graph)

    def settle_added(self, added: Sequence[RunningQuery], labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """As `settle`, after these queries came. O(labels) for each of them; for a new window, O(labels · windows)."""
        windows = len(self._windows)
        changed = self._add(added, labels)
        if len(self._windows) > windows:
            self._set_windows(graph)
        elif len(changed):
            graph.set_labels(changed, self._reading[changed] > 0)

    def _add(self, added: Sequence[RunningQuery], labels: LabelDictionary) -> np.ndarray:
        """Let queries be among those that run; the labels that nobody read before over some of their windows."""
        first = len(self._numbers)
        self._numbers |= {running.question.name: first + i for i, running in enumerate(added)}
        self.asked = Asked(
            (*self.asked.names, *(running.question.name for running in added)),
            (*self.asked.columns, *(running.question.columns for running in added)),
        )
        self.jobs += tuple((first + i, worker) for i, running in enumerate(added) for worker in running.workers)
        self.hosts = tuple(self._host_of.values())
        self.reports = {self._numbers[name]: reports for name, reports in self._reports_of.items()}
        self.may_overrun |= any(running.may_overrun for running in added)
        self.is_divided |= any(running.is_divided for running in added)
        self._roomy += [running for running in added if running.needs_room]
        self.latest = min([self.latest, *(INT64_MAX - window.reach for running in added for window in running.windows)])
        for running in added:
            for key in self._told_apart(running):
                self._windows.setdefault(key, len(self._windows))
        rows, columns = labels.room, len(self._windows)
        before = self._reading
        self._reading = np.zeros((max(rows, len(before)), columns), np.int32)
        self._reading[: len(before), : before.shape[1]] = before
        ids = np.fromiter(labels.ids.values(), np.int64, len(labels))
        fresh = np.zeros(len(ids), bool)
        for running in added:
            for key, mine in zip(self._told_apart(running), running.reads(ids).T, strict=True):
                number = self._windows[key]
                fresh |= mine & (self._reading[ids, number] == 0)
                self._reading[ids, number] += mine
        return ids[fresh]

    def _set_windows(self, graph: SnapshotGraph) -> None:
        graph.set_windows([window for window, _ in self._windows], self._reading > 0, [key for _, key in self._windows])

    def _told_apart(self, running: RunningQuery) -> list[tuple[AnyWindow, Hashable]]:
        """The windows of a query, those of count with what tells them apart."""
        return list(zip(running.windows, self.keys(running), strict=True))

    def is_late(self, running: RunningQuery) -> bool:
        """Whether a query started empty in mid-stream, and holds less than one that did not would."""
        return running.question.name in self._late

    def keys(self, running: RunningQuery) -> list[Hashable]:
        """For each window of a query what tells it from others, if it is one of count: those that hold the same are one."""
        origin = running.question.name if self.is_late(running) else None
        counts = [window.kind == "count" for window in running.windows]
        labels = running.question.label_set if any(counts) else None
        return [(window, labels, origin) if one else None for window, one in zip(running.windows, counts, strict=True)]

    def admit_labels(self, labels: np.ndarray, names: Sequence[str], graph: SnapshotGraph) -> None:
        """Tell queries and graph what label ids stand for. O(queries · labels given)."""
        for host in self.hosts:
            host.set_labels(labels, names)
        if len(labels) and (needed := int(labels.max()) + 1) > len(self._reading):
            more = max(needed, 2 * len(self._reading)) - len(self._reading)
            self._reading = np.concatenate([self._reading, np.zeros((more, len(self._windows)), np.int32)])
        self._reading[labels] = 0
        for running in self._held.values():
            running.set_labels(labels, names)
            for key, mine in zip(self._told_apart(running), running.reads(labels).T, strict=True):
                self._reading[labels, self._windows[key]] += mine
        graph.set_labels(labels, self._reading[labels] > 0)

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used; `fresh` ids are those of new names."""
        for host in self.hosts:
            host.make_room(vertices, fresh, graph)
        for running in self._roomy:
            running.make_room(vertices, fresh, graph)

    @property
    def vertex_room(self) -> int:
        """Vertex ids below can be used by all."""
        return min([part.vertex_room for part in (*self.hosts, *self._roomy)], default=INT64_MAX)

    def rows(self) -> np.ndarray:
        """Rows added and removed so far."""
        return sum(map(self.rows_of, self._held.values()), np.zeros(2, np.int64))

    def rows_of(self, running: RunningQuery) -> np.ndarray:
        """Rows added and removed so far by one query: those that were told."""
        reports = self.reports_of(running)
        return running.rows() if reports is None else reports.rows.copy()

    def figures_of(self, running: RunningQuery) -> Figures:
        """What one query has counted and holds; its rows are those that were told. O(size of the index)."""
        figures, reports = running.figures(), self.reports_of(running)
        if reports is None:
            return figures
        added, removed = reports.rows.tolist()
        further = figures.further | {"rows_waiting": reports.waiting}
        return replace(figures, added=added, removed=removed, nbytes=figures.nbytes + reports.nbytes, further=further)

    def reports_of(self, running: RunningQuery) -> Reports | None:
        """What of a query's rows waits for a report; None where it tells every change."""
        return self._reports_of.get(running.question.name)

    def held_vertices(self) -> np.ndarray:
        """The ids of vertices that queries name though no edge of the graph may."""
        held = [*(running.held_vertices() for running in self), *(reports.vertices() for reports in self.reports.values())]
        return np.concatenate([np.zeros(0, np.int32), *(vertices for vertices in held if len(vertices))])


def refuse_if_lost(
    question: Question, labels: LabelDictionary, graph: SnapshotGraph, *, told: Callable[[int], Any]
) -> None:
    """Raise if the window of a new query would hold an edge that was not kept; times are `told` as the stream's are."""
    time = graph.time
    if time is None:
        return
    window = question.window
    if isinstance(window, CountWindow):
        if (window, question.label_set, None) not in graph.counted.keys:
            raise RegistrationError(
                f"query {question.name!r}: which inserts its window of the last {window.size:,} would hold is not known, as "
                "no query that runs since the first tuple, or began as a copy of one, counts the same labels in a window of "
                'that size and step; it can be registered with start="empty", which numbers inserts from now on',
                available_from=None,
            )
        return
    lost = [int(graph.horizons.lost[number]) for label, number in labels.ids.items() if question.reads(label)]
    if question.labels is None or any(label not in labels.ids for label in question.labels):
        # One that nothing is known of may be among those that were forgotten.
        lost.append(labels.forgotten)
    latest = max(lost, default=EARLIEST - 1)
    if isinstance(window, UnboundedWindow):
        if latest >= EARLIEST:
            raise RegistrationError(
                f"query {question.name!r}: its unbounded window would hold edges that were not kept, one with timestamp "
                f'{told(latest)} among them; it can be registered with start="empty", without what came before',
                available_from=None,
            )
        return
    if latest >= EARLIEST and latest > window.lower_bound(time):
        available = told(window.expiry_slide(latest) * window.slide)
        complete = told(window.expiry_slide(time) * window.slide)
        raise RegistrationError(
            f"query {question.name!r}: its window would hold edges that were not kept; it can be registered from "
            f'{available} on, if no more are lost until then, or at once with start="empty", which is '
            f"complete from {complete} on",
            available_from=available,
        )
