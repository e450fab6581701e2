"""The queries that run in one engine, and which labels over which windows each reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from rpq.errors import QueryError
from rpq.queries.kinds import kind_of
from rpq.queries.protocol import Figures, Guard, Question, Resources, RunningQuery
from rpq.queries.readings import readings_of
from rpq.results.blocks import Schema
from rpq.results.changes import QueryNames
from rpq.results.delta import Delta
from rpq.results.typed_columns import Texts
from rpq.running.lost_edges import count_key
from rpq.running.reports import Reports
from rpq.stream.labels import LabelDictionary
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.stream_labels import LabelName, name_in, text_of
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import INT64_MAX, AnyWindow, Window

_NO_ROWS = np.zeros(2, np.int64)

GuardOfHost = Callable[[Callable[[], str], Callable[[], Iterable[Any]]], Guard]
"""Makes the guard of a host, for the name of a query that it serves, and itself; or of what waits for reports."""


class RunningQueries:
    """Running queries by name, in the order in which they were registered, which numbers them."""

    def __init__(self) -> None:
        self._held: dict[str, RunningQuery] = {}
        self._asked: QueryNames | None = QueryNames()
        self._jobs: tuple[tuple[int, Any], ...] | None = ()  # (number of the query, worker); None: not known since some went
        self.hosts: tuple[Any, ...] = ()  # what queries of one kind share
        self._numbers: dict[str, int] | None = {}  # by name; None, as the above: not known since queries went
        self._by_number: list[RunningQuery] | None = []
        self._reports: dict[int, Reports] | None = {}  # of queries that do not tell every change, by number; None: as jobs
        self._reports_of: dict[str, Reports] = {}  # by name
        self._host_of: dict[Any, Any] = {}  # hosts, by what makes them: kinds may share one
        self._hosted: Counter[Any] = Counter()  # queries that each serves
        self._columns: dict[str, Schema] = {}
        self._texts: dict[str, Texts] = {}  # of queries whose ids are not all those of vertices
        self._texts_by_number: dict[int, Texts] | None = {}
        self._holders: Counter[Any] = Counter()  # what holds the workers of queries, and of how many
        self._working: dict[Any, list[tuple[int, Any]]] = {}  # those that have some, and these
        self._common: dict[Hashable, Any] = {}  # what queries share, by what it is
        self._holding: dict[str, RunningQuery] = {}  # queries that name vertices though no edge may
        self._overrunning: dict[str, RunningQuery] = {}  # queries with roots that can go over a budget
        self._beginning: set[str] = set()  # queries with answers before the first tuple
        self._divided: set[str] = set()  # queries that must be told of every new vertex
        self._left_out: dict[str, np.ndarray] = {}  # rows that queries counted and that were not told, by name
        self._late: set[str] = set()  # queries that started empty in mid-stream
        self._naming: dict[str, dict[str, None]] = {}  # the queries that name a label
        self._unnamed: dict[str, None] = {}  # those that read labels which they do not name
        self.latest = INT64_MAX  # the largest timestamp whose sum with every window's size fits into 64 bits
        self._roomy: dict[Any, None] = {}  # holders that must be told of new vertices
        self._kept: Window | None = None  # all edges of it are kept, whoever reads them
        self._windows: dict[tuple[AnyWindow, Hashable], int] = {}  # over which some query reads, and their numbers
        self._readers: Counter[tuple[AnyWindow, Hashable]] = Counter()  # queries that read over a window
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
    def jobs(self) -> tuple[tuple[int, Any], ...]:
        """What takes chunks beside the hosts, each with the number of its query, or SEVERAL. O(1), and O(queries) after some
        went."""
        if self._jobs is None:
            numbers = self._known_numbers()
            self._working = {holder: holder.jobs(numbers) for holder in self._working}
            self._jobs = tuple(chain.from_iterable(self._working.values()))
        return self._jobs

    @property
    def by_number(self) -> Sequence[RunningQuery]:
        """The queries in the order of their numbers. As `jobs`."""
        if self._by_number is None:
            self._by_number = [*self._held.values()]
        return self._by_number

    @property
    def reports(self) -> dict[int, Reports]:
        """What waits for reports of queries that do not tell every change, by number. As `jobs`."""
        if self._reports is None:
            numbers = self._known_numbers() if self._reports_of else {}
            self._reports = {numbers[name]: reports for name, reports in self._reports_of.items()}
        return self._reports

    @property
    def texts(self) -> dict[int, Texts]:
        """What gives the terms of ids, of queries whose ids are not all those of vertices, by number. As `jobs`."""
        if self._texts_by_number is None:
            numbers = self._known_numbers() if self._texts else {}
            self._texts_by_number = {numbers[name]: texts for name, texts in self._texts.items()}
        return self._texts_by_number

    def is_held(self, holder: Any) -> bool:
        """Whether something holds the workers of a query that runs."""
        return holder in self._holders

    @property
    def workers(self) -> list[Any]:
        """All that takes chunks: workers and hosts."""
        return [*(worker for _, worker in self.jobs), *self.hosts]

    def numbered(self, deltas: Iterable[tuple[str, Delta]]) -> list[tuple[int, Delta]]:
        """What hosts report, with the numbers of queries in place of their names, in their order."""
        numbers = self._known_numbers()
        return sorted(((numbers[name], delta) for name, delta in deltas), key=itemgetter(0))

    def number_of(self, running: RunningQuery) -> int:
        """The number that its rows bear."""
        return self._known_numbers()[running.question.name]

    @property
    def asked(self) -> QueryNames:
        """Names and columns of the queries. O(1), and O(queries) after some went."""
        if self._asked is None:
            self._asked = QueryNames(self._columns, self._columns.values())
        return self._asked

    def _known_numbers(self) -> dict[str, int]:
        if self._numbers is None:
            self._numbers = dict(zip(self._columns, range(len(self._columns)), strict=True))
        return self._numbers

    def refuse_if_unfit(self, question: Any) -> None:
        """Raise if this is no query, or has the name of another."""
        kind_of(question)
        if question.name in self._held:
            raise QueryError(f"there is a query named {question.name!r} already; give this one another name")

    def start(
        self,
        question: Question,
        resources: Resources,
        labels: tuple[np.ndarray, Sequence[LabelName]],
        guard_of_host: GuardOfHost,
    ) -> RunningQuery:
        """Let a query begin, from an empty window; `settle_added` lets it run. `labels` are the ids and the names."""
        self.refuse_if_unfit(question)
        kind = kind_of(question)
        if kind.host is not None:
            make = kind.host
            host = self._host_of.get(make)
            if host is None:
                guard = guard_of_host(lambda: self._hosted_by(make), lambda: (self._host_of[make],))
                host = self._host_of[make] = make(replace(resources, guard=guard))
                host.set_labels(*labels)
            resources = replace(resources, host=host)
        try:
            running = kind.start(question, replace(resources, common=self._common))
        except BaseException:
            self._forget_idle_host(kind.host)
            raise
        if running.report != "change" and not isinstance(question.window, Window):
            running.leave()
            self._forget_idle_host(kind.host)
            raise QueryError(
                f"query {question.name!r}: report={running.report!r} tells at boundaries of its default window, which has "
                f"to be one of time, not {question.window!r}"
            )
        self._hosted[kind.host] += 1
        running.set_labels(*labels)
        self._held[question.name] = running
        if resources.is_late:
            self._late.add(question.name)
        if running.report != "change" and isinstance(question.window, Window):
            self._reports_of[question.name] = Reports(
                running.report,
                slide=question.window.slide,
                columns=len(question.columns),
                guard=guard_of_host(lambda: question.name, lambda: (self._reports_of[question.name],)),
                telling=running.telling,
                texts=running.term_texts,
            )
        return running

    def drop(self, name: str) -> None:
        """Take a query away that was started, and did not come among those that run."""
        running = self._held.pop(name)
        running.leave()
        self._late.discard(name)
        self._reports_of.pop(name, None)
        self._left_out.pop(name, None)
        make = kind_of(running.question).host
        self._hosted[make] -= 1
        self._forget_idle_host(make)

    def remove(self, names: Sequence[str], labels: LabelDictionary, graph: SnapshotGraph) -> bool:
        """Take queries away; whether there is less that is read now. O(labels) for each that goes.

        Rows of others are numbered anew before the next are told. O(queries) then, and now where others have workers.
        """
        ids = np.fromiter(labels.ids.values(), np.int64, len(labels))
        before = self._reading[ids] > 0
        for name in names:
            running = self._held[name]
            for key, mine in zip(self._told_apart(running), running.reads(ids).T, strict=True):
                self._reading[ids, self._windows[key]] -= mine
                self._readers[key] -= 1
            holder = running.holder
            self._holders[holder] -= 1
            if not self._holders[holder]:
                for some in (self._holders, self._working, self._roomy):
                    some.pop(holder, None)
            self._name_labels(running, forget=True)
            self.drop(name)
            del self._columns[name]
            self._texts.pop(name, None)
            self._holding.pop(name, None)
            self._overrunning.pop(name, None)
            for names_of_some in (self._divided, self._beginning):
                names_of_some.discard(name)
        self.hosts = tuple(self._host_of.values())
        self._numbers = self._asked = self._jobs = None
        self._by_number = self._reports = self._texts_by_number = None
        if any(not count for count in self._readers.values()):
            self._let_windows_go(graph)
            return True
        gone = ids[(before & (self._reading[ids] == 0)).any(axis=1)]
        if len(gone):
            graph.set_labels(gone, self._reading[gone] > 0)
        return bool(len(gone))

    def keep(self, window: Window, labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Let the graph keep all edges of a window, whether a query reads them or not. Before the first tuple."""
        self._kept = window
        self._settle(labels, graph)

    @property
    def kept(self) -> Window | None:
        """The window all edges of which are kept."""
        return self._kept

    @property
    def overrunning(self) -> Collection[RunningQuery]:
        """The queries with roots that can go over a budget."""
        return self._overrunning.values()

    @property
    def have_first_rows(self) -> bool:
        """Whether one has answers before the first tuple."""
        return bool(self._beginning)

    @property
    def is_divided(self) -> bool:
        """Whether a query must be told of every new vertex."""
        return bool(self._divided)

    @property
    def read_windows(self) -> list[AnyWindow]:
        """The windows over which anything is read or kept."""
        return [window for window, _ in self._windows]

    def are_read(self, questions: Iterable[Question], labels: LabelDictionary) -> bool:
        """Whether all that these read over their windows is read by others now."""
        for reading in (reading for question in questions for reading in readings_of(question)):
            number = None if reading.window.kind == "count" else self._windows.get((reading.window, None))
            if number is None or reading.labels.others:
                return False
            ids = [labels.ids.get(name_in(label, reading.stream), -1) for label in reading.labels.named]
            if min(ids, default=0) < 0 or not self._reading[ids, number].all():
                return False
        return True

    def _hosted_by(self, make: Any) -> str:
        """The name of a query that a host serves; the first of them."""
        return next(name for name, running in self._held.items() if kind_of(running.question).host == make)

    def _forget_idle_host(self, make: Any) -> None:
        if not self._hosted[make]:
            self._host_of.pop(make, None)

    def _let_windows_go(self, graph: SnapshotGraph) -> None:
        """Let go of windows over which nobody reads any more, and tell the graph. O(windows · labels)."""
        kept = [(key, number) for key, number in self._windows.items() if self._readers[key] or key == (self._kept, None)]
        self._windows = {key: number for number, (key, _) in enumerate(kept)}
        self._readers += Counter()  # those that are none any more are forgotten
        self._reading = np.ascontiguousarray(self._reading[:, [number for _, number in kept]])
        self.latest = INT64_MAX - max((window.reach for window, _ in self._windows), default=0)
        self._set_windows(graph)

    def _settle(self, labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Tell the graph what is read over which windows, after one that is kept came. O(queries · labels)."""
        self._windows, self._readers = {}, Counter()
        self.latest = INT64_MAX
        self._reading = np.zeros((labels.room, 0), np.int32)
        if self._kept is not None:
            self._windows[self._kept, None] = 0
            self.latest -= self._kept.reach
            self._reading = np.ones((labels.room, 1), np.int32)
        self._read(list(self._held.values()), labels)
        self._set_windows(graph)

    def settle_added(self, added: Sequence[RunningQuery], labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Let queries be among those that run. O(labels) for each; for a new window, O(labels · windows)."""
        windows = len(self._windows)
        asked, numbers, first = self.asked, self._known_numbers(), len(self._columns)
        columns = {running.question.name: running.question.columns for running in added}
        self._columns |= columns
        numbers |= {running.question.name: first + place for place, running in enumerate(added)}
        self.hosts = tuple(self._host_of.values())
        self._texts |= {running.question.name: running.term_texts for running in added if running.term_texts is not None}
        self._holding |= {running.question.name: running for running in added if running.holds_vertices}
        self._overrunning |= {running.question.name: running for running in added if running.may_overrun}
        self._beginning |= {running.question.name for running in added if running.has_first_rows}
        self._divided |= {running.question.name for running in added if running.is_divided}
        self._hold(added, numbers)
        for running in added:
            self._name_labels(running)
        if self._by_number is not None:
            self._by_number += added
        if self._reports is not None and self._reports_of:  # else others have other numbers too
            self._reports |= {numbers[name]: self._reports_of[name] for name in columns if name in self._reports_of}
        if self._texts_by_number is not None and self._texts:
            self._texts_by_number |= {numbers[name]: self._texts[name] for name in columns if name in self._texts}
        self._asked = asked.with_queries([*columns], [*columns.values()])
        changed = self._read(added, labels)
        if len(self._windows) > windows:
            self._set_windows(graph)
        elif len(changed):
            graph.set_labels(changed, self._reading[changed] > 0)

    def _hold(self, added: Sequence[RunningQuery], numbers: dict[str, int]) -> None:
        """Know what holds the workers of queries that come. O(holders), at the speed of copying."""
        holders = {running.holder: running for running in added}
        self._holders.update(running.holder for running in added)
        self._roomy |= {holder: None for holder in holders if holder.needs_room}
        fresh = {holder: holder.jobs(numbers) for holder in holders if holder.workers}
        if fresh:
            self._working |= fresh
            if self._jobs is not None:  # else others have other numbers too
                self._jobs = tuple(chain.from_iterable(self._working.values()))

    def _read(self, added: Sequence[RunningQuery], labels: LabelDictionary) -> np.ndarray:
        """Count what queries read; the labels that nobody read before over some of their windows."""
        self.latest = min([self.latest, *(INT64_MAX - window.reach for running in added for window in running.windows)])
        for running in added:
            for key in self._told_apart(running):
                self._windows.setdefault(key, len(self._windows))
                self._readers[key] += 1
        rows, columns = labels.room, len(self._windows)
        before = self._reading
        if before.shape != (max(rows, len(before)), columns):
            self._reading = np.zeros((max(rows, len(before)), columns), np.int32)
            self._reading[: len(before), : before.shape[1]] = before
            if self._kept is not None:
                self._reading[len(before) :, 0] = 1
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

    def _name_labels(self, running: RunningQuery, *, forget: bool = False) -> None:
        """Know which labels a query names, so that it is asked about these alone when they come, or forget it."""
        name = running.question.name
        for reading in readings_of(running.question):
            if reading.labels.others:
                if forget:
                    self._unnamed.pop(name, None)
                else:
                    self._unnamed[name] = None
                continue
            for label in reading.labels.named:
                if not forget:
                    self._naming.setdefault(label, {})[name] = None
                elif label in self._naming:
                    self._naming[label].pop(name, None)
                    if not self._naming[label]:
                        del self._naming[label]

    def is_late(self, running: RunningQuery) -> bool:
        """Whether a query started empty in mid-stream, and holds less than one that did not would."""
        return running.question.name in self._late

    def keys(self, running: RunningQuery) -> list[Hashable]:
        """For each window of a query what tells it from others, if it is one of count: those that hold the same are one."""
        if not any(window.kind == "count" for window in running.windows):
            return [None] * len(running.windows)
        origin = running.question.name if self.is_late(running) else None
        readings = readings_of(running.question)
        return [count_key(reading, origin) if reading.window.kind == "count" else None for reading in readings]

    def admit_labels(self, labels: np.ndarray, names: Sequence[LabelName], graph: SnapshotGraph) -> None:
        """Tell queries and graph what label ids stand for. O(holders · labels given), and those that read them."""
        for host in self.hosts:
            host.set_labels(labels, names)
        if len(labels) and (needed := int(labels.max()) + 1) > len(self._reading):
            more = max(needed, 2 * len(self._reading)) - len(self._reading)
            self._reading = np.concatenate([self._reading, np.zeros((more, len(self._windows)), np.int32)])
        self._reading[labels] = 0
        if self._kept is not None:
            self._reading[labels, self._windows[self._kept, None]] = 1
        for holder in self._holders:
            holder.set_labels(labels, names)
        asking: dict[str, None] = dict(self._unnamed)
        for name in names:
            asking |= self._naming.get(text_of(name), {})
        for running in map(self._held.__getitem__, asking):
            for key, mine in zip(self._told_apart(running), running.reads(labels).T, strict=True):
                self._reading[labels, self._windows[key]] += mine
        graph.set_labels(labels, self._reading[labels] > 0)

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used; `fresh` ids are those of new names."""
        for host in self.hosts:
            host.make_room(vertices, fresh, graph)
        for holder in self._roomy:
            holder.make_room(vertices, fresh, graph)

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
        return running.rows() - self.left_out(running) if reports is None else reports.rows.copy()

    def leave_out(self, running: RunningQuery, rows: np.ndarray) -> None:
        """So many rows that a query has counted, added and removed, are not told: within one event they come to nothing."""
        if rows.any():
            self._left_out[running.question.name] = self.left_out(running) + rows

    def left_out(self, running: RunningQuery) -> np.ndarray:
        """How many rows that a query has counted, added and removed, were not told."""
        return self._left_out.get(running.question.name, _NO_ROWS)

    def figures_of(self, running: RunningQuery) -> Figures:
        """What one query has counted and holds; its rows are those that were told. O(size of the index)."""
        figures, reports = running.figures(), self.reports_of(running)
        if reports is None:
            added, removed = (np.array([figures.added, figures.removed]) - self.left_out(running)).tolist()
            return replace(figures, added=added, removed=removed)
        added, removed = reports.rows.tolist()
        further = figures.further | {"rows_waiting": reports.waiting}
        return replace(figures, added=added, removed=removed, nbytes=figures.nbytes + reports.nbytes, further=further)

    def reports_of(self, running: RunningQuery) -> Reports | None:
        """What of a query's rows waits for a report; None where it tells every change."""
        return self._reports_of.get(running.question.name)

    def held_vertices(self) -> np.ndarray:
        """The ids of vertices that queries name though no edge of the graph may."""
        waiting = {number: reports.vertices() for number, reports in self.reports.items()}
        if self._holding:  # else, with thousands of queries, not one is asked
            numbers = self._known_numbers()
            for name, running in self._holding.items():
                running.retain(waiting.get(numbers[name], np.zeros(0, np.int32)))
        held = [*(running.held_vertices() for running in self._holding.values()), *waiting.values()]
        return np.concatenate([np.zeros(0, np.int32), *(vertices for vertices in held if len(vertices))])
