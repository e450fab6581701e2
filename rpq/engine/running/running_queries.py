"""The queries that run in one engine, and which labels over which windows each reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from rpq.engine.running.held import HeldRows
from rpq.engine.running.reports import Reports
from rpq.engine.running.retention import count_key
from rpq.errors import QueryError
from rpq.language.kinds import kind_of
from rpq.language.protocol import EnginePart, Figures, Guard, Question, Resources, RunningQuery, Worker
from rpq.language.readings import accepted_edges_by, readings_of, report_windows_of
from rpq.rows.blocks import Schema
from rpq.rows.changes import QueryNames
from rpq.rows.delta import IdRows, Position, ids_of_columns
from rpq.rows.typed_columns import Texts
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import ConditionLabel, LabelName, LabelSymbol, StreamLabel, merged_name, name_in
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.stream_time import report_steps
from rpq.stream.window import INT64_MAX, AnyWindow, UnboundedWindow, Window

_NO_ROWS = np.zeros(2, np.int64)

GuardOfHost = Callable[[Callable[[], str], Callable[[], Iterable[Any]]], Guard]
"""A function that creates the guard of a host, or of waiting rows, from the name of a query."""


class RunningQueries:
    """Running queries by name, in the order in which they were registered, which numbers them."""

    def __init__(self, *, report_empty: bool = False) -> None:
        self._report_empty = report_empty
        self._by_name: dict[str, RunningQuery] = {}
        self._schemas: QueryNames | None = QueryNames()
        self._workers: tuple[Worker, ...] | None = ()  # those of all parts; None after these have changed
        self._schedule: tuple[Worker, ...] = ()  # the same in another order
        self._numbers: dict[str, int] | None = {}  # by name; None after queries were removed
        self._by_number: list[RunningQuery] | None = []
        self._reports: dict[int, Reports | HeldRows] | None = {}  # of queries that do not report every change, by number
        self._reports_of: dict[str, Reports | HeldRows] = {}  # by name
        self._hosts: dict[Any, Any] = {}  # parts of kinds, by the function that makes them: kinds may share one
        self._columns: dict[str, Schema] = {}
        self._texts: dict[str, Texts] = {}  # of queries whose ids are not all those of vertices
        self._texts_by_number: dict[int, Texts] | None = {}
        self._parts: Counter[EnginePart] = Counter()  # the parts of queries and of kinds, each with its number of queries
        self._working_parts: dict[EnginePart, None] = {}  # those with workers
        self._room_users: dict[EnginePart, None] = {}  # those that have to know of new vertices
        self._shared_parts: dict[Hashable, Any] = {}  # parts that queries share, by keys
        self._vertex_holders: dict[str, RunningQuery] = {}  # queries that name vertices though no edge may
        self._overrunning_queries: dict[str, RunningQuery] = {}  # queries with roots that can go over a budget
        self._first_row_queries: set[str] = set()  # queries with answers before the first tuple
        self._divided_queries: set[str] = set()  # queries that have to know of every new vertex
        self._unreported_rows: dict[str, np.ndarray] = {}  # rows that queries counted and that were not reported, by name
        self._late_queries: set[str] = set()  # queries that started empty in mid-stream
        self._queries_of_label: dict[LabelSymbol, dict[str, None]] = {}  # the queries that name a label
        self._queries_with_tests: set[str] = set()  # queries that read edges with tests of their ends
        self._queries_of_other_labels: dict[str, None] = {}  # queries that read labels which they do not name
        self._users_of_edges: dict[LabelSymbol, Counter[Ends]] = {}  # a label that queries name: the edges that they accept
        self.registrations = 0  # how often queries, or static edges, came or went
        self.latest = INT64_MAX  # the largest timestamp whose sum with every window's size fits into 64 bits
        self._keep_window: Window | UnboundedWindow | None = None  # its edges are kept whether a query reads them or not
        self._windows: dict[tuple[AnyWindow, Hashable], int] = {}  # windows of queries, and their numbers
        self._readers: Counter[tuple[AnyWindow, Hashable]] = Counter()  # queries that read over a window
        self._reading = np.zeros((0, 0), np.int32)  # (label, window): how many queries read it

    def __iter__(self) -> Iterator[RunningQuery]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, name: str | None) -> RunningQuery:
        """Return the query of that name, or the only one."""
        if name is None and len(self._by_name) == 1:
            return next(iter(self._by_name.values()))
        if name is None or name not in self._by_name:
            names = ", ".join(map(repr, self._by_name)) or "none"
            raise QueryError(f"no query named {name!r}; the registered ones are: {names}")
        return self._by_name[name]

    def named_by_answer(self, answer: tuple[Any, ...], name: str | None) -> tuple[RunningQuery, tuple[Any, ...]]:
        """Return the query whose answer this is, and the answer; the name may be the last of the values."""
        last = answer[-1] if answer else None
        if name is None and isinstance(last, str) and last in self:
            named = self.find(last)
            if len(named.question.columns) == len(answer) - 1:
                return named, answer[:-1]
        running = self.find(name)
        columns = running.question.columns
        if len(answer) != len(columns):
            if name is None and len(answer) == len(columns) + 1 and isinstance(last, str):
                self.find(last)  # raises that there is none
            raise QueryError(
                f"query {running.question.name!r}: an answer has the values of {', '.join(columns)}, "
                f"{len(columns)} and not {len(answer)}, as in engine.witness({', '.join(columns)})"
            )
        return running, answer

    @property
    def hosts(self) -> tuple[Any, ...]:
        """The parts that all queries of a kind share, each of the type that the kind makes."""
        return tuple(self._hosts.values())

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers of all parts, those of hosts last. O(1), and O(parts) after some came or went."""
        if self._workers is None:
            hosts = self.hosts
            of_kinds = [worker for host in hosts for worker in host.workers]
            others = [worker for part in self._working_parts if part not in hosts for worker in part.workers]
            self._workers, self._schedule = (*others, *of_kinds), (*of_kinds, *others)
        return self._workers

    @property
    def schedule(self) -> tuple[Worker, ...]:
        """The workers in the order in which threads take them: hosts, which take longest, first."""
        return self._schedule if self.workers else ()

    @property
    def are_hosted(self) -> bool:
        """True if all workers are hosts, as of patterns and SPARQL, and none is the index of a path query."""
        return len(self.workers) == sum(len(host.workers) for host in self.hosts)

    @property
    def need_edge_ids(self) -> bool:
        """True unless all workers are hosts that can apply a chunk before its edges have ids in the graph."""
        return not self.are_hosted or any(host.needs_edge_ids for host in self.hosts)

    def parts_of(self, running: RunningQuery) -> list[EnginePart]:
        """Return the parts that evaluate a query: the host of its kind, and its own or one that it shares."""
        make = kind_of(running.question).host
        return [running.part] if make is None else [self._hosts[make], running.part]

    def has_part(self, part: EnginePart) -> bool:
        """Return whether a query needs a part."""
        return part in self._parts

    @property
    def by_number(self) -> Sequence[RunningQuery]:
        """The queries in the order of their numbers. O(1), and O(queries) after some were removed."""
        if self._by_number is None:
            self._by_number = [*self._by_name.values()]
        return self._by_number

    @property
    def reports(self) -> dict[int, Reports | HeldRows]:
        """The rows that wait for reports, or until they have held, by the number of the query; complexity as `by_number`."""
        if self._reports is None:
            numbers = self.numbers if self._reports_of else {}
            self._reports = {numbers[name]: reports for name, reports in self._reports_of.items()}
        return self._reports

    @property
    def held(self) -> dict[int, HeldRows]:
        """The rows that wait until they have held, without those of reports, by the number of the query. O(reports)."""
        held = {number: one for number, one in self.reports.items() if isinstance(one, HeldRows)}
        return {number: one for number, one in held.items() if one.reports is None}

    @property
    def texts(self) -> dict[int, Texts]:
        """The texts of ids by the number of the query, where not all are ids of vertices; complexity as `by_number`."""
        if self._texts_by_number is None:
            numbers = self.numbers if self._texts else {}
            self._texts_by_number = {numbers[name]: texts for name, texts in self._texts.items()}
        return self._texts_by_number

    def number_of(self, running: RunningQuery) -> int:
        """Return the number of a query in rows."""
        return self.numbers[running.question.name]

    @property
    def schemas(self) -> QueryNames:
        """The names and columns of the queries. O(1), and O(queries) after some were removed."""
        if self._schemas is None:
            self._schemas = QueryNames(self._columns, self._columns.values())
        return self._schemas

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of queries by name; another object after some were removed."""
        if self._numbers is None:
            self._numbers = dict(zip(self._columns, range(len(self._columns)), strict=True))
        return self._numbers

    def check_registration(self, question: Any) -> None:
        """Raise if this is no query, or has the name of another."""
        kind_of(question)
        if question.name in self._by_name:
            raise QueryError(f"there is a query named {question.name!r} already; give this one another name")

    def start(
        self,
        question: Question,
        resources: Resources,
        labels: tuple[np.ndarray, Sequence[LabelName]],
        guard_of_host: GuardOfHost,
    ) -> RunningQuery:
        """Start a query with empty windows; `settle_added` activates it. `labels` are the ids and the names."""
        self.check_registration(question)
        kind = kind_of(question)
        if kind.host is not None:
            make = kind.host
            host = self._hosts.get(make)
            if host is None:
                guard = guard_of_host(lambda: self._hosted_by(make), lambda: self._hosts[make].workers)
                host = self._hosts[make] = make(replace(resources, guard=guard))
                host.set_labels(*labels)
            resources = replace(resources, host=host)
        try:
            running = kind.start(question, replace(resources, shared=self._shared_parts))
        except BaseException:
            self._forget_idle_host(kind.host)
            raise
        windows = report_windows_of(question)
        if running.report != "change" and not windows:
            running.leave()
            self._forget_idle_host(kind.host)
            raise QueryError(
                f"query {question.name!r}: report={running.report!r} reports at boundaries of its window, which has to be "
                f"one of time, not {question.window!r}"
            )
        self._parts.update(self.parts_of(running))
        running.set_labels(*labels)
        self._by_name[question.name] = running
        if resources.is_late:
            self._late_queries.add(question.name)
        span: int | None = getattr(question, "hold", None)
        guard = guard_of_host(lambda: question.name, lambda: (self._reports_of[question.name],))
        reports = None
        if running.report != "change":
            reports = self._reports_of[question.name] = Reports(
                report_steps(running.report, windows),
                columns=len(question.columns),
                guard=guard,
                content=running.report_content if span is None else "changes",
                texts=running.term_texts,
                report_empty=self._report_empty,
            )
        if span is not None:
            self._reports_of[question.name] = HeldRows(
                span,
                columns=len(question.columns),
                guard=guard,
                content=running.report_content,
                texts_of=None if running.term_texts is None else running.texts_of_terms,
                reports=reports,
            )
        return running

    def drop(self, name: str) -> None:
        """Remove a query that was started, but not yet added to those that run."""
        running = self._by_name.pop(name)
        parts = self.parts_of(running)
        running.leave()
        self._late_queries.discard(name)
        self._reports_of.pop(name, None)
        self._unreported_rows.pop(name, None)
        for part in parts:
            self._parts[part] -= 1
            if not self._parts[part]:
                del self._parts[part]
                self._room_users.pop(part, None)
                if part in self._working_parts:
                    del self._working_parts[part]
                    self._workers = None
        self._forget_idle_host(kind_of(running.question).host)

    def remove(self, names: Sequence[str], labels: LabelDictionary, graph: SnapshotGraph) -> bool:
        """Remove queries. Return whether fewer edges are read now. O(labels) for each query.

        The remaining queries are renumbered before the next rows are reported, in O(queries).
        """
        self.registrations += 1
        ids, labels_read = np.fromiter(labels.ids.values(), np.int64, len(labels)), [*labels.ids]
        before = self._reading[ids] > 0
        for name in names:
            running = self._by_name[name]
            for key, mine in zip(
                self._windows_with_keys(running), self._needs_of(running, ids, labels_read).T, strict=True
            ):
                self._reading[ids, self._windows[key]] -= mine
                self._readers[key] -= 1
            self._index_labels(running, forget=True)
            self.drop(name)
            del self._columns[name]
            self._texts.pop(name, None)
            self._vertex_holders.pop(name, None)
            self._overrunning_queries.pop(name, None)
            for names_of_some in (self._divided_queries, self._first_row_queries):
                names_of_some.discard(name)
        self._numbers = self._schemas = None
        self._by_number = self._reports = self._texts_by_number = None
        unread = ids[(before & (self._reading[ids] == 0)).any(axis=1)]
        if any(not count for count in self._readers.values()):
            self._drop_unread_windows(graph)
            return True
        if len(unread):
            graph.set_labels(unread, self._reading[unread] > 0)
        return bool(len(unread))

    def _needs(self, text: LabelSymbol) -> set[Ends]:
        """Return which edges of a label, in any stream, queries or the window `keep` need. O(those)."""
        if self._keep_window is not None:
            return {ALL}
        needed = {*self._users_of_edges.get(text, ())}
        for name in self._queries_of_other_labels:
            needed |= accepted_edges_by(self._by_name[name].question, text)
        return needed

    def _accept(self, text: LabelSymbol, ends: Collection[Ends], labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Accept edges of a label; the filter knows labels by their ids in the merged stream."""
        label = labels.ids[text]
        graph.filter.accept(label, ends, passed_by=int(graph.horizons.passed_by[label]))

    def narrow(
        self, removed: Iterable[Question], labels: LabelDictionary, graph: SnapshotGraph
    ) -> list[LabelSymbol]:
        """Stop accepting the edges that only removed queries needed. Return the labels of which fewer are accepted now.

        While all edges of a label are accepted nothing changes. O(edges accepted) where that ends.
        """
        narrowed: set[LabelSymbol] = set()
        if self._keep_window is not None:
            return []
        for question in removed:
            for text in _merge_named_labels(labels, question):
                label, mine = labels.ids[text], accepted_edges_by(question, text)
                accepted = graph.filter.accepted_ends(label)
                if ALL in accepted and (ALL not in mine or ALL in self._needs(text)):
                    continue
                # The needs of queries that read other labels are not counted. Without such, thousands need not be examined.
                users = self._needs(text) if self._queries_of_other_labels else self._users_of_edges.get(text, Counter())
                unneeded = [one for one in (accepted if ALL in accepted else mine) if one in accepted and one not in users]
                if unneeded:
                    graph.filter.retract(label, unneeded)
                    narrowed.add(text)
        return sorted(narrowed)

    def retain_window(self, window: Window | UnboundedWindow, labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Keep all edges of a window in the graph, whether a query reads them or not. Comes before the first tuple."""
        self._keep_window = window
        self._recount_readings(labels, graph)

    @property
    def queries_with_budget(self) -> Collection[RunningQuery]:
        """The queries with roots that can go over a budget."""
        return self._overrunning_queries.values()

    @property
    def have_first_rows(self) -> bool:
        """True if a query has answers before the first tuple."""
        return bool(self._first_row_queries)

    @property
    def is_divided(self) -> bool:
        """True if a query has to be informed of every new vertex."""
        return bool(self._divided_queries)

    @property
    def read_windows(self) -> list[AnyWindow]:
        """The windows over which anything is read or kept."""
        return [window for window, _ in self._windows]

    def _needs_of(self, running: RunningQuery, labels: np.ndarray, names: Sequence[LabelName]) -> np.ndarray:
        """Return which labels a query reads over each window, or needs for those with tests of ends: (label, window)."""
        found = running.reads(labels)
        if running.question.name not in self._queries_with_tests:
            return found
        for place, reading in enumerate(readings_of(running.question)):
            if reading.labels.has_tests and reading.stream is None:
                found = found.copy()
                are_tested = (_is_merged(name) and reading.labels.is_tested(name) for name in names)
                found[:, place] |= np.fromiter(are_tested, bool, len(names))
        return found

    def are_read(self, questions: Iterable[Question], labels: LabelDictionary) -> bool:
        """Return whether running queries read everything that these queries would read over their windows."""
        for reading in (reading for question in questions for reading in readings_of(question)):
            number = None if reading.window.kind == "count" else self._windows.get((reading.window, None))
            if number is None or reading.labels.has_others:
                return False
            ids = [labels.ids.get(name_in(label, reading.stream), -1) for label in reading.labels.named]
            if min(ids, default=0) < 0 or not self._reading[ids, number].all():
                return False
        return True

    def _hosted_by(self, make: Any) -> str:
        """Return the name of a query that a host serves; the first of them."""
        return next(name for name, running in self._by_name.items() if kind_of(running.question).host == make)

    def _forget_idle_host(self, make: Any) -> None:
        if self._hosts.get(make) not in self._parts:
            self._hosts.pop(make, None)

    def _drop_unread_windows(self, graph: SnapshotGraph) -> None:
        """Drop windows over which no query reads any longer, also from the graph. O(windows · labels)."""
        keep = (self._keep_window, None)
        remaining = [(key, number) for key, number in self._windows.items() if self._readers[key] or key == keep]
        self._windows = {key: number for number, (key, _) in enumerate(remaining)}
        self._readers += Counter()  # drops counts of 0
        self._reading = np.ascontiguousarray(self._reading[:, [number for _, number in remaining]])
        self.latest = INT64_MAX - max((window.reach for window, _ in self._windows), default=0)
        self._set_windows(graph)

    def _recount_readings(self, labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Set the labels that are read over each window of the graph, after `keep` was added. O(queries · labels)."""
        self._windows, self._readers = {}, Counter()
        self.latest = INT64_MAX
        self._reading = np.zeros((labels.room, 0), np.int32)
        if self._keep_window is not None:
            self._windows[self._keep_window, None] = 0
            self.latest -= self._keep_window.reach
            self._reading = np.ones((labels.room, 1), np.int32)
            self._reading[[number for name, number in labels.ids.items() if not _is_kept(name)]] = 0
            for text in filter(_is_merged, labels.ids):
                self._accept(text, {ALL}, labels, graph)
        self._count_readings(list(self._by_name.values()), labels)
        self._set_windows(graph)

    def settle_added(self, added: Sequence[RunningQuery], labels: LabelDictionary, graph: SnapshotGraph) -> None:
        """Add started queries to those that run. O(labels) for each; for a new window, O(labels · windows)."""
        self.registrations += 1
        windows = len(self._windows)
        schemas, numbers, first = self.schemas, self.numbers, len(self._columns)
        columns = {running.question.name: running.columns for running in added}
        self._columns |= columns
        numbers |= {running.question.name: first + place for place, running in enumerate(added)}
        for part in chain.from_iterable(map(self.parts_of, added)):
            if part.workers and part not in self._working_parts:
                self._working_parts[part] = self._workers = None
            if part.needs_room:
                self._room_users[part] = None
        self._texts |= {running.question.name: running.term_texts for running in added if running.term_texts is not None}
        self._vertex_holders |= {running.question.name: running for running in added if running.holds_vertices}
        self._overrunning_queries |= {running.question.name: running for running in added if running.may_overrun}
        self._first_row_queries |= {running.question.name for running in added if running.has_first_rows}
        self._divided_queries |= {running.question.name for running in added if running.is_divided}
        for running in added:
            self._index_labels(running)
        if self._by_number is not None:
            self._by_number += added
        if self._reports is not None and self._reports_of:  # otherwise all get new numbers
            self._reports |= {numbers[name]: self._reports_of[name] for name in columns if name in self._reports_of}
        if self._texts_by_number is not None and self._texts:
            self._texts_by_number |= {numbers[name]: self._texts[name] for name in columns if name in self._texts}
        self._schemas = schemas.with_queries([*columns], [*columns.values()])
        changed = self._count_readings(added, labels)
        for running in added:
            for text in _merge_named_labels(labels, running.question):
                self._accept(text, accepted_edges_by(running.question, text), labels, graph)
        if len(self._windows) > windows:
            self._set_windows(graph)
        elif len(changed):
            graph.set_labels(changed, self._reading[changed] > 0)

    def _count_readings(self, added: Sequence[RunningQuery], labels: LabelDictionary) -> np.ndarray:
        """Count the labels that queries read. Return those that no query read before over some of their windows."""
        self.latest = min([self.latest, *(INT64_MAX - window.reach for running in added for window in running.windows)])
        for running in added:
            for key in self._windows_with_keys(running):
                self._windows.setdefault(key, len(self._windows))
                self._readers[key] += 1
        rows, columns = labels.room, len(self._windows)
        before = self._reading
        if before.shape != (max(rows, len(before)), columns):
            self._reading = np.zeros((max(rows, len(before)), columns), np.int32)
            self._reading[: len(before), : before.shape[1]] = before
            if self._keep_window is not None:
                self._reading[len(before) :, 0] = 1
        ids, names = np.fromiter(labels.ids.values(), np.int64, len(labels)), [*labels.ids]
        is_new = np.zeros(len(ids), bool)
        for running in added:
            for key, mine in zip(self._windows_with_keys(running), self._needs_of(running, ids, names).T, strict=True):
                number = self._windows[key]
                is_new |= mine & (self._reading[ids, number] == 0)
                self._reading[ids, number] += mine
        return ids[is_new]

    def _set_windows(self, graph: SnapshotGraph) -> None:
        graph.set_windows([window for window, _ in self._windows], self._reading > 0, [key for _, key in self._windows])

    def _windows_with_keys(self, running: RunningQuery) -> list[tuple[AnyWindow, Hashable]]:
        """Return the windows of a query with their `keys`."""
        return list(zip(running.windows, self.keys(running), strict=True))

    def _index_labels(self, running: RunningQuery, *, forget: bool = False) -> None:
        """Register which labels a query names, so that `reads` is called for these alone when they come; or forget it."""
        name = running.question.name
        named: set[LabelSymbol] = set()
        for reading in readings_of(running.question):
            if reading.labels.has_conditions and reading.labels.has_tests:
                self._queries_with_tests.add(name)
            if not reading.labels.has_others:
                named |= reading.labels.named
                if name in self._queries_with_tests:
                    named |= reading.labels.without_tests
            elif forget:
                self._queries_of_other_labels.pop(name, None)
            else:
                self._queries_of_other_labels[name] = None
        if forget:
            self._queries_with_tests.discard(name)
        for label in named:
            queries, users = self._queries_of_label.setdefault(label, {}), self._users_of_edges.setdefault(label, Counter())
            if not forget:
                queries[name] = None
                users.update(accepted_edges_by(running.question, label))
                continue
            queries.pop(name, None)
            for ends in accepted_edges_by(running.question, label):
                users[ends] -= 1
                if not users[ends]:
                    del users[ends]
            if not queries:
                del self._queries_of_label[label], self._users_of_edges[label]

    def is_late(self, running: RunningQuery) -> bool:
        """Return whether a query started empty in mid-stream, and so may still lack edges of its windows."""
        return running.question.name in self._late_queries

    def keys(self, running: RunningQuery) -> list[Hashable]:
        """Return for each window of a query its `count_key`, None for a window that counts nothing."""
        if not any(window.kind == "count" for window in running.windows):
            return [None] * len(running.windows)
        origin = running.question.name if self.is_late(running) else None
        readings = readings_of(running.question)
        return [count_key(reading, origin) if reading.window.kind == "count" else None for reading in readings]

    def admit_labels(self, labels: np.ndarray, dictionary: LabelDictionary, graph: SnapshotGraph) -> None:
        """Register label ids of a dictionary in all parts and the graph. O(parts · labels given), and their readers."""
        names = [dictionary.names[number] for number in labels.tolist()]
        if len(labels) and (needed := int(labels.max()) + 1) > len(self._reading):
            more = max(needed, 2 * len(self._reading)) - len(self._reading)
            self._reading = np.concatenate([self._reading, np.zeros((more, len(self._windows)), np.int32)])
        self._reading[labels] = 0
        if self._keep_window is not None:
            self._reading[labels, self._windows[self._keep_window, None]] = [_is_kept(name) for name in names]
        for part in self._parts:
            part.set_labels(labels, names)
        readers = dict.fromkeys(self._queries_of_other_labels) if names else {}
        for text in self._queries_of_label.keys() & map(merged_name, names):
            readers |= self._queries_of_label[text]
        for running in map(self._by_name.__getitem__, readers):
            for key, mine in zip(self._windows_with_keys(running), self._needs_of(running, labels, names).T, strict=True):
                self._reading[labels, self._windows[key]] += mine
        graph.set_labels(labels, self._reading[labels] > 0)
        for text in filter(_is_merged, names):
            self._accept(text, self._needs(text), dictionary, graph)

    def growth(self, vertices: int) -> list[Callable[[], None]]:
        """Return the functions that make room in hosts for so many vertices, which different threads can call."""
        return [partial(host.make_room_for_vertices, vertices) for host in self.hosts if vertices > host.vertex_room]

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `new_ids` are those of new names."""
        for part in self._room_users:
            part.make_room(vertices, new_ids, graph)

    @property
    def vertex_room(self) -> int:
        """The number below which all can use vertex ids."""
        return min([part.vertex_room for part in self._room_users], default=INT64_MAX)

    def rows(self) -> np.ndarray:
        """Return the numbers of rows added and removed so far."""
        return sum(map(self.rows_of, self._by_name.values()), np.zeros(2, np.int64))

    def rows_of(self, running: RunningQuery) -> np.ndarray:
        """Return the numbers of reported rows of one query, added and removed, so far."""
        reports = self.reports_of(running)
        return running.rows() - self.unreported_rows(running) if reports is None else reports.rows.copy()

    def count_unreported(self, running: RunningQuery, rows: np.ndarray) -> None:
        """Count rows of a query, added and removed, that are not reported because they cancel out within one event."""
        if rows.any():
            self._unreported_rows[running.question.name] = self.unreported_rows(running) + rows

    def unreported_rows(self, running: RunningQuery) -> np.ndarray:
        """Return the numbers of added and of removed rows that a query has counted but not reported."""
        return self._unreported_rows.get(running.question.name, _NO_ROWS)

    def figures_of(self, running: RunningQuery) -> Figures:
        """Return the counts and sizes of a query; its rows are those that were reported. O(size of the index)."""
        figures, reports = running.figures(), self.reports_of(running)
        if reports is None:
            added, removed = (np.array([figures.added, figures.removed]) - self.unreported_rows(running)).tolist()
            return replace(figures, added=added, removed=removed)
        added, removed = reports.rows.tolist()
        further = figures.further | {"rows_waiting": reports.waiting_count}
        answers = reports.told_count(figures.answers) if isinstance(reports, HeldRows) else figures.answers
        nbytes = figures.nbytes + reports.nbytes
        return replace(figures, added=added, removed=removed, answers=answers, nbytes=nbytes, further=further)

    def reports_of(self, running: RunningQuery) -> Reports | HeldRows | None:
        """Return the rows of a query that wait for a report, or until they have held; None where it reports every change."""
        return self._reports_of.get(running.question.name)

    def holds_rows(self, running: RunningQuery) -> bool:
        """Return whether rows of a query are held for a time."""
        return isinstance(self.reports_of(running), HeldRows)

    def answers_of(self, running: RunningQuery) -> list[IdRows]:
        """Return the present answers of a query, or with `hold` those that were told. O(size of the index)."""
        held = self.reports_of(running)
        if not isinstance(held, HeldRows):
            return running.answers()
        parts = [rows.reorder((*range(len(running.columns)),)).values for rows in running.answers()]
        return [ids_of_columns(held.told(np.concatenate(parts)))]

    def page_of(
        self, running: RunningQuery, after: Position | None, limit: int, **ends: int
    ) -> tuple[IdRows, Position | None]:
        """Return a page of the answers of a query as `RunningQuery.page` does, with `hold` of those that were told."""
        if not isinstance(self.reports_of(running), HeldRows):
            return running.page(after, limit, **ends)
        return running.page_of(self.answers_of(running), after, limit, **ends)

    def retained_vertices(self) -> np.ndarray:
        """Return the ids of vertices that queries name though no edge of the graph may."""
        waiting = {number: reports.vertices() for number, reports in self.reports.items()}
        if self._vertex_holders:  # so that thousands of queries that hold none cost nothing
            numbers = self.numbers
            for name, running in self._vertex_holders.items():
                running.retain(waiting.get(numbers[name], np.zeros(0, np.int32)))
        retained = [*(running.retained_vertices() for running in self._vertex_holders.values()), *waiting.values()]
        return np.concatenate([np.zeros(0, np.int32), *(vertices for vertices in retained if len(vertices))])


def _is_kept(name: LabelName) -> bool:
    """Return whether `keep` applies to a label: not to a derived one, whose edges no tuple removes once it is not read."""
    return not isinstance(merged_name(name), ConditionLabel)


def _is_merged(name: LabelName) -> TypeGuard[LabelSymbol]:
    """Return whether this is a label in the merged stream."""
    return not isinstance(name, StreamLabel)


def _merge_named_labels(labels: LabelDictionary, question: Question) -> list[LabelSymbol]:
    """Return the labels with ids that a question names, or all if it reads others, without those of named streams."""
    sets = [reading.labels for reading in readings_of(question)]
    if any(one.has_others for one in sets):
        return list(filter(_is_merged, labels.ids))
    return [label for label in frozenset().union(*(one.named for one in sets)) if label in labels.ids]
