"""How a chunk of tuples goes through an engine.

Names become ids (`Intake`), ids become edges (`SnapshotGraph`), each running query's workers take the edges in
(`Crew`), and what they report gets its names back (`rpq.results.blocks`) before any id can be given to another vertex.
What kind a query is of plays no part here: `rpq.queries.protocol` says what one can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.views import view
from rpq.errors import LimitError, MemoryLimitError
from rpq.queries.protocol import Question, Resources, RunningQuery
from rpq.queries.query import Vertex
from rpq.queries.row_guard import RowGuard
from rpq.results.blocks import FEW, Block, FewRows, blocks_of, few_rows_of
from rpq.results.changes import SetAside
from rpq.results.delta import Delta, apart, net_rows_of_events, without_boundaries
from rpq.running.collector import Collector
from rpq.running.crew import Crew
from rpq.running.excess import Excess, excess_of
from rpq.running.intake import Intake, Taken
from rpq.running.memory_guard import MemoryGuard
from rpq.running.running_queries import RunningQueries
from rpq.running.window_contents import WindowContents
from rpq.stream.chunk import NO_DETAILS, ChunkDetails
from rpq.stream.columns import Columns
from rpq.stream.single import SingleTuple
from rpq.stream.snapshot import LATE, SnapshotGraph
from rpq.stream.stream_labels import LabelName
from rpq.stream.window import Window

_LARGEST_CHUNK = 32768
_SMALLEST_CHUNK = 4096

_NO_ROWS = np.zeros(2, np.int64)
_NONE = np.zeros(0, np.int64)
_FIRST = np.zeros(1, np.int64)

ChunkRows = list[Block] | FewRows
"""The rows of one chunk."""


class Applied(NamedTuple):
    """What a chunk of tuples did: rows, how many added and removed, which tuples were late, what ended it, if anything."""

    rows: ChunkRows
    counts: np.ndarray
    late_rows: np.ndarray
    failure: LimitError | None


class Evaluation:
    """Vertex names, snapshot graph, labels and running queries of one stream."""

    def __init__(
        self,
        *,
        threads: int,
        memory_limit: int,
        max_rows: int | None,
        witness: bool,
        share: tuple[int, int],
        capacity: int,
        events: Literal["window", "alone"] | None = None,
        sharing: Literal["auto", "always", "never"] = "auto",
    ) -> None:
        self.events = events
        self.witness = witness
        self._sharing: Literal["auto", "always", "never"] = sharing
        self.share = share
        self.intake = Intake(capacity=capacity, make_room=self._make_room, admit_labels=self._admit_labels)
        self.vertices = self.intake.vertices
        self.labels = self.intake.labels
        self.graph = SnapshotGraph(capacity=capacity)
        self.running = RunningQueries()
        self.overruns: list[SetAside] = []
        self.awaits_first = False  # whether something is told before the first tuple, which has not come
        self.told_time: int | None = None  # where the time of the graph is not to be told
        self.midway = False  # whether the last call began to apply tuples and did not come to their end
        self.guard = MemoryGuard(memory_limit, others=lambda: self.vertices.nbytes + self.graph.nbytes)
        self.row_guard = RowGuard(max_rows)
        self._crew = Crew(threads)
        self._single = SingleTuple()
        self._singles = 0  # since the last look whether to collect, which costs as much as a tuple
        self._look_every = min(64, capacity)
        self._vertex_room = 0  # vertex ids below need no more room, as of the last time when some was made
        self._is_divided = False  # and whether a query must be told of every new one
        self._threads = threads
        self._capacity = capacity
        self.collector = Collector(self.intake, self.graph, self.running)

    # --- tuples ----------------------------------------------------------------------------------------------

    @property
    def chunk_size(self) -> int:
        """Tuples between two chances to collect: about half a window.

        Where each event is alone a window is next to nothing, and looking after each handful of events would cost more than
        the events.
        """
        if self.witness and any(running.witnesses_are_of_now for running in self.running):
            return 1
        if self.events == "alone":
            return _LARGEST_CHUNK
        return int(min(_LARGEST_CHUNK, max(_SMALLEST_CHUNK, self.graph.held // 2)))

    def apply(self, tuples: Columns, first: int, count: int, *, collect: bool) -> Applied:
        """Apply `count` tuples of a push from `first` on; without `collect` rows are counted, not kept."""
        self.guard.row = self.row_guard.row = first
        taken = self.intake.chunk(tuples, first, count, self.graph.wanted)
        chunk = taken.chunk
        view_of_chunk = view(chunk)
        # What can fail for want of room or because of a name has been done: from here to the rows, all or nothing.
        self.midway = True
        outcome, details = self._resolve(taken, view_of_chunk, count, _events_of(tuples, first, count))
        running = self.running
        is_netted = details.first is not None or tuples.told is not None
        for host in running.hosts:
            host.keeps_rows = collect or is_netted
        failure = self._crew.apply(running.jobs, running.hosts, chunk, view_of_chunk, self.graph.edges, first, details)
        before = None if failure is None or failure.row is None else failure.row - first
        if before is not None and details.first is not None:
            before = int(details.first[before])  # nor anything else of its event
        deltas = self._deltas(before)
        for host in running.hosts:
            host.keeps_rows = True
        if is_netted:
            told = None if tuples.told is None else tuples.told[first : first + count]
            deltas = self._of_events(deltas, details.first, told)
        if running.reports:
            try:
                deltas = self._reported(deltas, np.maximum.accumulate(chunk.timestamp[:before]))
            except MemoryLimitError as problem:
                failure, deltas = problem, []
        excess = self._excess(deltas)
        if excess is not None:
            failure = self.row_guard.error(excess.query, excess.number, place=excess.place)
            deltas = [(number, delta.before(2 * excess.place)) for number, delta in deltas]
        counts = sum((delta.counts() for _, delta in deltas), np.zeros(2, np.int64))
        rows = self.rows_of(deltas) if collect else []
        self.note_overruns(first)
        if failure is None:
            self.collector.collect_if_due()
            self.midway = False
        return Applied(rows, counts, np.flatnonzero(outcome == LATE) + first, failure)

    def _resolve(
        self, taken: Taken, view_of_chunk: Any, count: int, events: np.ndarray | None
    ) -> tuple[np.ndarray, ChunkDetails]:
        """Let the graph have the tuples of a chunk: what became of each, and what hosts are told beside the chunk."""
        if len(taken.unread):
            self.graph.lose(taken.unread, taken.chunk)
        if taken.named is None:
            details = NO_DETAILS if events is None else ChunkDetails(first=events)
            return self.graph.resolve(view_of_chunk, count), details
        view_of_named = view(taken.named)
        outcome = self.graph.resolve_with_streams(view_of_chunk, view_of_named, taken.is_named, count)
        return outcome, ChunkDetails(taken.named, view_of_named, events)

    def _of_events(
        self, deltas: list[tuple[int, Delta]], first: np.ndarray | None, told: np.ndarray | None
    ) -> list[tuple[int, Delta]]:
        """Deltas net of events, which begin at these places, and with the times that are to be told, if they are others."""
        found = []
        queries = self.running.by_number
        for number, delta in apart(deltas):
            net = delta if first is None or queries[number].nets_events else net_rows_of_events(delta, first)
            net = net if told is None else without_boundaries(net, told)
            self.running.leave_out(queries[number], delta.counts() - net.counts())
            found.append((number, net))
        return found

    def apply_one(
        self, source: Vertex, target: Vertex, label: str, timestamp: int, delete: bool, *, collect: bool
    ) -> Applied:
        """Apply one tuple, all of whose values are as they should be: what `apply` does, at a small part of its cost."""
        self.guard.row = self.row_guard.row = 0
        intake = self.intake
        number = self.labels.ids.get(label, -1)
        if number < 0:
            number = intake.add_label(label)
        u = v = -1
        if self.graph.horizons.wanted[number]:
            u, v = intake.ends(source, target, self._needs_room)
        single = self._single
        single.fill(u, v, number, timestamp, delete)
        self.midway = True
        self.graph.resolve_one(single.view, single.outcome)
        deltas: list[tuple[int, Delta]] = []
        failure: LimitError | None = None
        for place, worker in self.running.jobs:
            try:
                worker.apply(single.chunk, single.view, self.graph.edges)
            except LimitError as problem:
                failure = failure or problem
            if worker.has_rows:
                if place >= 0:
                    deltas.append((place, worker.delta()))
                else:
                    deltas += worker.deltas()
        if self.running.hosts:
            failure = self._apply_one_in_hosts(deltas) or failure
        if self.running.reports and failure is None:
            try:
                deltas = self._reported(deltas, single.chunk.timestamp)
            except MemoryLimitError as problem:
                failure = problem
        total = sum([len(delta) for _, delta in deltas])
        if total > self.row_guard.most and failure is None and (excess := self._excess(deltas)) is not None:
            failure = self.row_guard.error(excess.query, excess.number, place=excess.place)
        counts = _NO_ROWS
        rows: ChunkRows = []
        if deltas and failure is None:
            if collect and not self.witness and total <= FEW and not self.running.texts:
                rows = few_rows_of(deltas, self.vertices)
                removed = sum(rows.removed)
                counts = np.array([len(rows.removed) - removed, removed])
            else:
                counts = sum((delta.counts() for _, delta in deltas), _NO_ROWS)
                rows = self.rows_of(deltas) if collect else []
        if self.running.overrunning:
            self.note_overruns(0)
        if failure is None:
            self._singles += 1
            if self._singles >= self._look_every:
                self._singles = 0
                self.collector.collect_if_due()
            self.midway = False
        return Applied(rows, counts, _FIRST if single.outcome[0] == LATE else _NONE, failure)

    def _apply_one_in_hosts(self, deltas: list[tuple[int, Delta]]) -> LimitError | None:
        """Let the hosts apply the single tuple; `deltas` gets what they report."""
        single = self._single
        for host in self.running.hosts:
            try:
                host.apply(single.chunk, single.view, self.graph.edges, NO_DETAILS)
            except LimitError as failure:
                return failure
            if host.has_rows:
                deltas += self.running.numbered(host.deltas())
        return None

    def _deltas(self, before: int | None) -> list[tuple[int, Delta]]:
        """What workers and hosts report of the last chunk, or of its tuples `before` one at which something failed."""
        running = self.running
        deltas: list[tuple[int, Delta]] = []
        for number, worker in running.jobs:
            if before is None and not worker.has_rows:
                continue
            if number >= 0:
                deltas.append((number, worker.delta(before=before)))
            else:
                deltas += worker.deltas(before=before)
        for host in running.hosts:
            deltas += running.numbered(host.deltas(before=before))
        return deltas

    # --- static edges ----------------------------------------------------------------------------------------

    def load_static(self, edges: Columns) -> None:
        """Let edges be there for ever; comes before the first tuple. O(edges)."""
        if not len(edges):
            return  # vertices of no kind
        chunk = self.intake.chunk(edges, 0, len(edges), lambda label: np.ones(len(label), np.uint8)).chunk
        self.graph.enter_static(chunk.source, chunk.target, chunk.label)
        self.note_first()

    def note_first(self) -> None:
        """Know whether something comes before the first tuple, with its time: static edges, or answers on an empty graph."""
        self.awaits_first = self.graph.time is None and (bool(self.graph.statics) or self.running.have_first_rows)

    def begin(self, time: int, *, row: int | None) -> Applied:
        """Let static edges come in at the time of the first tuple, before it: what is there then is an event of its own.

        `row` is None where a time comes and no tuple. Raises `LimitError`.
        """
        self.guard.row, self.row_guard.row = 0, row
        self.midway = True
        self.graph.advance(time)
        before = self.running.rows()
        static, nothing = self.graph.chunk_of(self.graph.static_edges()), self.graph.chunk_of(_NONE)
        deltas: list[tuple[int, Delta]] = []
        for number, running in enumerate(self.running):
            if len(static.edge):
                running.load_static(static)
            deltas += [(number, delta) for delta in running.load(time, nothing, *(_NONE for _ in running.windows))]
        deltas = self._at_told_time(deltas)
        if self.running.reports:
            deltas = self._reported(deltas, np.array([time]))
        if (excess := self._excess(deltas)) is not None:
            raise self.row_guard.error(excess.query, excess.number, place=0)
        self.awaits_first = False
        rows = self.rows_of(deltas)
        self.note_overruns(None)
        self.midway = False
        return Applied(rows, self.running.rows() - before, _NONE, None)

    def _reported(self, deltas: list[tuple[int, Delta]], times: np.ndarray) -> list[tuple[int, Delta]]:
        """Deltas with those of queries that report at times replaced by what they tell; `times` as `Reports.take`."""
        reports = self.running.reports
        told = [(number, delta) for number, delta in deltas if number not in reports]
        for number, waiting in reports.items():
            delta = waiting.take([delta for one, delta in deltas if one == number], times)
            if delta is not None:
                told.append((number, delta))
        return sorted(told, key=itemgetter(0))

    def _excess(self, deltas: list[tuple[int, Delta]]) -> Excess | None:
        return excess_of(deltas, self.running.asked.names, self.row_guard.most)

    def _at_told_time(self, deltas: list[tuple[int, Delta]]) -> list[tuple[int, Delta]]:
        if self.told_time is None:
            return deltas
        return [(number, without_boundaries(delta, np.full(1, self.told_time))) for number, delta in deltas]

    def empty_windows(self, time: int) -> None:
        """Move the stream time to one at which nothing is left in any window; what leaves is not told."""
        self.guard.row, self.row_guard.row = 0, None
        self.midway = True
        queries = self.running.by_number
        for number, delta in apart(self._advanced(time)):
            self.running.leave_out(queries[number], delta.counts())
        self.note_overruns(None)
        self.midway = False

    def _advanced(self, time: int) -> list[tuple[int, Delta]]:
        self.graph.advance(time)
        deltas: list[tuple[int, Delta]] = []
        for number, worker in self.running.jobs:
            told = worker.advance(time)
            deltas += [(number, told)] if number >= 0 else told
        for host in self.running.hosts:
            deltas += self.running.numbered(host.advance(time))
        return deltas

    def advance(self, time: int) -> Applied:
        """Move the stream time; what that does."""
        self.guard.row, self.row_guard.row = 0, None
        self.midway = True
        deltas = self._advanced(time)
        if self.running.reports:
            deltas = self._reported(deltas, np.array([time]))
        if (excess := self._excess(deltas)) is not None:
            raise self.row_guard.error(excess.query, excess.number, place=excess.place)
        counts = sum((delta.counts() for _, delta in deltas), np.zeros(2, np.int64))
        rows = self.rows_of(deltas)
        self.note_overruns(None)
        self.collector.collect_if_quiet()
        self.midway = False
        return Applied(rows, counts, _NONE, None)

    def restore_root(self, running: RunningQuery, root: int) -> ChunkRows:
        """Let a root of a query that was set aside answer again; the rows."""
        deltas = self.running.numbered(running.restore_root(root))
        if deltas and self.running.reports:
            deltas = self._reported(deltas, np.array([self.graph.time]))
        return self.rows_of(deltas)

    def _make_room(self, count: int, fresh: np.ndarray) -> None:
        """Let `count` more tuples be applied; `fresh` vertex ids are those of new names."""
        self.graph.make_room(count, self.vertices.count)
        self.running.make_room(self.vertices, fresh, self.graph)
        self._vertex_room = min(self.graph.vertex_room, self.running.vertex_room)
        self._is_divided = self.running.is_divided

    def _needs_room(self, fresh: list[int]) -> bool:
        """Whether one more tuple, which brings these new vertex ids, needs any."""
        return self.graph.is_full or (bool(fresh) and (self._is_divided or max(fresh) >= self._vertex_room))

    def _admit_labels(self, labels: np.ndarray) -> None:
        """Tell queries and graph what label ids stand for."""
        self.running.admit_labels(labels, [self.labels.names[number] for number in labels.tolist()], self.graph)

    def take_labels(
        self, names: Sequence[LabelName], lost: list[int], *, forgotten: int, forgotten_of_streams: int
    ) -> None:
        """Know these labels, the largest timestamp of a lost insert of each, and that of those that were forgotten."""
        labels = np.array([self.labels.add(name) for name in names], np.int64)
        self._admit_labels(labels)
        self.graph.horizons.lost[labels] = lost
        self.labels.forgotten, self.labels.forgotten_of_streams = forgotten, forgotten_of_streams

    # --- queries ---------------------------------------------------------------------------------------------

    def add(self, *questions: Question, is_late: bool = False) -> list[RunningQuery]:
        """Let queries run, from an empty window, all or none. O(labels) for each, and of a host that is new O(vertices).

        `is_late` tells that no window will be loaded, though there is one.
        """
        ids, names = np.fromiter(self.labels.ids.values(), np.int64, len(self.labels)), list(self.labels.ids)
        known = {*self.running.hosts}
        added: list[RunningQuery] = []
        try:
            for question in questions:
                added.append(self._start(question, is_late, (ids, names)))  # noqa: PERF401  some may have begun
        except BaseException:
            for running in reversed(added):
                self.running.drop(running.question.name)
            raise
        self.running.settle_added(added, self.labels, self.graph)
        reports = (self.running.reports_of(running) for running in added)
        self.guard.add(one for one in reports if one is not None)
        self.guard.add([*(worker for running in added for worker in running.workers), *self.running.hosts])
        used = np.arange(self.vertices.count)
        used = used[self.vertices.names.length[: len(used)] >= 0]
        for host in self.running.hosts:
            host.make_room(self.vertices, used if host not in known else used[:0], self.graph)
        for running in added:
            running.make_room(self.vertices, used, self.graph)
        self._vertex_room = 0
        self.note_first()
        return added

    def _start(self, question: Question, is_late: bool, labels: tuple[np.ndarray, Sequence[LabelName]]) -> RunningQuery:
        running: RunningQuery
        resources = Resources(
            threads=self._threads,
            share=self.share,
            witness=self.witness,
            capacity=self._capacity,
            guard=self.guard.of(lambda: question.name, lambda: running.workers),
            rows=self.row_guard,
            sharing=self._sharing,
            is_late=is_late,
            events=self.events,
        )
        running = self.running.start(question, resources, labels, self.guard.of)
        return running

    def load(self, added: Sequence[RunningQuery], *, time: int, empty: bool) -> ChunkRows:
        """Let queries that were added take in what their windows hold, or nothing if they start `empty`; the first rows."""
        contents = WindowContents(self.graph, empty=empty)
        nothing = self.graph.chunk_of(_NONE)
        static = self.graph.chunk_of(self.graph.static_edges()) if self.graph.statics else None
        deltas: list[tuple[int, Delta]] = []
        for running in added:
            keys = self.running.keys(running)
            of_windows = list(zip(running.windows, keys, strict=True))
            running.count_from([0 if key is None else self.graph.counted.number_of(key) for key in keys])
            if static is not None:
                running.load_static(static)
            number = self.running.number_of(running)
            if running.has_content:
                deltas += [(number, delta) for delta in running.load(time, nothing, *(_NONE for _ in of_windows))]
                continue
            chunk, inside = contents.of(of_windows)
            deltas += [(number, delta) for delta in running.load(time, chunk, *inside)]
        deltas = self._at_told_time(deltas)
        deltas = self._reported(deltas, np.array([time])) if self.running.reports else deltas
        if (excess := self._excess(deltas)) is not None:
            raise self.row_guard.refusal(excess.query, excess.number)
        return self.rows_of(deltas)

    def remove(self, *names: str) -> None:
        """Take queries away, with everything that only they needed."""
        holders = {running.holder: running.workers for running in map(self.running.named, names)}
        gone: list[Any] = []
        gone += [reports for name in names if (reports := self.running.reports_of(self.running.named(name)))]
        hosts = self.running.hosts
        is_less_read = self.running.remove(names, self.labels, self.graph)
        gone += [worker for holder, workers in holders.items() if not self.running.is_held(holder) for worker in workers]
        self.guard.drop([*gone, *(host for host in hosts if host not in self.running.hosts)])
        if is_less_read:
            self.collector.collect()

    def keep(self, window: Window) -> None:
        """Keep all edges of a window, in the integers of the stream, from the first tuple on."""
        self.running.keep(window, self.labels, self.graph)

    # --- rows ------------------------------------------------------------------------------------------------

    def rows_of(self, deltas: list[tuple[int, Delta]]) -> list[Block]:
        """The rows of deltas (number of the query, delta) with their names."""
        deltas = [(number, delta) for number, delta in deltas if len(delta)]
        if not deltas:
            return []
        witnesses = None
        if self.witness:
            running = self.running.by_number
            held = self.graph.edges, self.vertices, self.labels.texts
            witnesses = [_witnesses_of(running[number], delta, *held) for number, delta in deltas]
        return blocks_of(deltas, self.running.asked.columns, self.vertices, witnesses, self.running.texts)

    def name_of(self, vertex: int) -> Vertex:
        """The name of a vertex."""
        name: Vertex = self.vertices.names_of(np.array([vertex])).to_pylist()[0]
        return name

    def note_overruns(self, first: int | None) -> None:
        """Remember the roots that went over their budget in the chunk from row `first` on; their names may go soon."""
        for running in self.running.overrunning:
            reports = [
                SetAside(
                    running.question.name,
                    self.name_of(overrun.root),
                    overrun.time if self.told_time is None else self.told_time,
                    None if first is None or overrun.place < 0 else first + overrun.place,
                    overrun.size,
                )
                for overrun in running.take_overruns()
            ]
            self.overruns += sorted(reports, key=lambda r: (r.row or 0, r.timestamp, str(r.root)))

    def check(self) -> None:
        """Assert the invariants of every part."""
        self.vertices._check()
        self.labels._check()
        self.graph._check()
        for worker in self.running.workers:
            worker._check()


def _events_of(tuples: Columns, first: int, count: int) -> np.ndarray | None:
    """For each of `count` tuples from `first` on the place of the first one of its event; None where each is an event."""
    if tuples.first is None:
        return None
    places = tuples.first[first : first + count] - first
    return None if (np.diff(places) == 1).all() else places


def _witnesses_of(running: RunningQuery, delta: Delta, *held: Any) -> pa.Array:
    """The witnesses of rows, empty where the kind of the query has none."""
    return running.witnesses(delta, *held) if running.has_witnesses else pa.array([""] * len(delta), pa.string())
