"""The way of a chunk of tuples through an engine.

Names become ids (`Intake`), for which there is room (`Room`), ids become edges (`SnapshotGraph`), the workers of each
running query apply the edges (`Crew`), and the changes that they report become rows with names (`Output`) before any id can
be given to another vertex (`Collector`). Nothing here depends on the kind of a query: `rpq.language.protocol` defines what a
query can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays import reserve
from rpq.compiled.growth import guarded_growth
from rpq.compiled.views import view
from rpq.engine.running.crew import Crew
from rpq.engine.running.edge_restrictions import (
    readings_in,
    refuse_counted_before,
    refuse_hidden_statics,
    refuse_late_conditions,
    refuse_late_counts,
    refuse_order,
    refuse_other_windows,
    refuse_tested_statics,
    refuse_unkept_facts,
)
from rpq.engine.running.intake import Collector, Intake, IntakeChunk, NamedChunk, NamelessChunk, Room
from rpq.engine.running.limits import MemoryGuard
from rpq.engine.running.output import Output
from rpq.engine.running.retention import WindowContents
from rpq.engine.running.running_queries import RunningQueries
from rpq.errors import LimitError, MemoryLimitError, QueryError, RowLimitError
from rpq.language.hypercube import Share
from rpq.language.options import Vertex
from rpq.language.protocol import Question, Resources, RowGuard, RunningQuery
from rpq.language.readings import (
    Identity,
    for_identity,
    for_nodes,
    from_clauses,
    has_conditions,
    has_values,
    is_ordered,
    over_dataset,
    readings_of,
    static_graphs_of,
)
from rpq.rows.blocks import FEW, FEW_OF_CHUNK, FewRows, RowBlock, few_rows_of
from rpq.rows.delta import Delta, split_by_query
from rpq.stream.arrays.event_grouping import begins_of_events, end_of_event
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails, SingleTuple
from rpq.stream.columns import Columns
from rpq.stream.edges.edge_ends import Ends
from rpq.stream.edges.edge_store import TIMELESS
from rpq.stream.edges.edge_times import EdgeTimes
from rpq.stream.edges.outcomes import LATE, OUTCOME_COUNT
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.gc_pause import gc_paused
from rpq.stream.json_values import Damage
from rpq.stream.names.stream_labels import (
    LabelName,
    StreamLabel,
    graph_of,
    stream_of_graph,
    text_of,
)
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.nodes.node_table import NO_TIME, NodeRecords, NodeTable
from rpq.stream.window import CountWindow, UnboundedWindow, Window

if TYPE_CHECKING:
    from rpq.engine.running.derived_edges import DerivedChunk
    from rpq.engine.running.multigraph import Multigraph
    from rpq.stream.nodes.node_columns import NodeColumns

_LARGEST_CHUNK = 32768
_CHUNK_WITH_THREADS = 16384
"""Several threads divide a push into several chunks: the names of a chunk get ids while its predecessor is applied.

Threads wait for each other at the end of each chunk, so chunks are as large as that allows. Only the first one of a push is
smaller, because nothing is applied while its names get ids. Paths are slower with larger chunks.
"""
_SMALLEST_CHUNK = 8192
"""Where a window has few edges, too: the fixed cost of a chunk is that of two thousand tuples that no query reads.

While chunks of paths bring no more rows than tuples, they have the largest size; with more rows they would be up to twice as
slow. Hosts also make rows that no query reports.
"""
_FIRST_CHUNK_WITH_THREADS = 4096

_BYTES_OF_RECORD, _BYTES_OF_FACT = 16, 20
"""About the size of a record of a node, and of each of its properties."""

_NO_ROWS = np.zeros(2, np.int64)
_NO_COUNTS = (0, 0)
_NONE = np.zeros(0, np.int64)
_FIRST = np.zeros(1, np.int64)

_NAMED_BESIDE_VALUES = (
    "static edges of {} cannot be combined with conditions on edges, edge variables, or edges with an identity: load them "
    "without the name of a graph"
)

ChunkRows = list[RowBlock] | FewRows
"""The rows of one chunk."""


class ChunkResult(NamedTuple):
    """The result of a chunk: its rows, the numbers added and removed, late tuples, and the failure that ended it, if any."""

    rows: ChunkRows
    counts: np.ndarray | tuple[int, int]
    late_rows: np.ndarray
    failure: LimitError | None


class PushResult(NamedTuple):
    """The result of a push: the rows of each chunk, and the other fields of `ChunkResult` over all chunks."""

    rows: list[ChunkRows]
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
        share: Share,
        capacity: int,
        events: Literal["window", "alone"] | None = None,
        sharing: Literal["auto", "always", "never"] = "auto",
        edges: Identity = "triple",
        keeps_values: bool = False,
        report_empty: bool = False,
        deadline: np.ndarray | None = None,
        node_properties: Collection[str] | None = None,
        edge_properties: Collection[str] = (),
    ) -> None:
        self.events = events
        self.identity: Identity = edges
        self.multigraph: Multigraph | None = None
        """The edges with properties; None where edges are triples and no query has a condition."""
        self.static_properties: frozenset[str] | None = frozenset()
        """The names of properties that static edges had; None where they are not known."""
        self.witness = witness
        self.edge_properties = frozenset(edge_properties)
        """The properties of edges whose values are stored, whatever queries read."""
        self.keeps_values = witness or keeps_values
        """True if values of properties are stored for witnesses."""
        self._sharing: Literal["auto", "always", "never"] = sharing
        self.share = share
        self.graph = SnapshotGraph(capacity=capacity)
        self.vertices = VertexDictionary(capacity=capacity)
        self.nodes = NodeTable(node_properties)
        """The facts of nodes."""
        self.has_nodes = False
        """True if there were records of nodes, which queries may have to read beside edges."""
        self.running = RunningQueries(report_empty=report_empty)
        self.report_empty = report_empty
        self.awaits_first = False  # whether rows precede the first tuple, which has not arrived
        self.midway = False  # whether the last call began to apply tuples and did not finish
        self.guard = MemoryGuard(
            memory_limit,
            other_bytes=lambda: self.vertices.nbytes + self.edge_bytes + self.nodes.nbytes,
            deadline=deadline,
        )
        self._crew = Crew(threads)
        self._room = Room(
            self.vertices,
            self.graph,
            self.running,
            crew=self._crew,
            guard=self.guard,
            first_chunk=_FIRST_CHUNK_WITH_THREADS,
        )
        self.intake = Intake(
            self.vertices, capacity=capacity, edges=self.graph.filter, room=self._room, admit_labels=self._admit_labels
        )
        self.labels = self.intake.labels
        self.row_guard = RowGuard(max_rows)
        self.output = Output(
            self.running,
            self.graph,
            self.vertices,
            self.labels,
            guard=self.guard,
            most_rows=self.row_guard.effective_limit,
            witness=witness,
        )
        self._is_graph_only = False  # tuples are applied to the graph, and queries load their windows afterwards
        self._next_chunk: _NextChunk | None = None
        self._ends: np.ndarray | None = None  # the tuples of the push with which chunks end
        self._entered: list[np.ndarray] | None = None  # tuples with rows that need a witness, where they are collected
        self._single = SingleTuple()
        self._uncounted_outcomes = np.zeros(1, np.uint8), np.zeros(OUTCOME_COUNT, np.int64)
        self._has_few_rows = False  # whether the last chunk of paths had no more than tuples
        self._singles = 0  # single tuples since the last check whether to collect, which costs as much as a tuple
        self._check_interval = min(64, capacity)
        self._threads = threads
        self._capacity = capacity
        self.collector = Collector(self.intake, self.graph, self.running, self.nodes)
        self.keep_window: Window | UnboundedWindow | None = None
        """The window whose edges are all stored, if there is one."""
        if edges != "triple" or self.edge_properties:
            self.begin_multigraph()

    @property
    def edge_bytes(self) -> int:
        """The number of bytes that edges take, without the structures of queries."""
        return self.graph.nbytes + (0 if self.multigraph is None else self.multigraph.nbytes)

    @property
    def outcomes(self) -> np.ndarray:
        """The number of tuples with each outcome, for the engine as a whole."""
        return self.graph.outcomes if self.multigraph is None else self.multigraph.outcome_counts.total

    def begin_multigraph(self) -> None:
        """Give edges an identity and properties from now on, before the first tuple. Later calls do nothing."""
        if self.multigraph is not None:
            return
        if graphs := self.static_graphs:
            raise QueryError(_NAMED_BESIDE_VALUES.format(f"the graph <{min(graphs)}>"))
        from rpq.engine.running.multigraph import Multigraph  # with kernels and megabytes that most engines do not need

        self.multigraph = self.collector.multigraph = self.output.multigraph = Multigraph(
            self.identity,
            labels=self.labels,
            vertices=self.vertices,
            admit=self._admit_labels,
            is_read=self.graph.is_read,
            capacity=self._capacity,
            nodes=self.nodes,
            keeps_values=self.keeps_values,
            kept_properties=self.edge_properties,
        )
        self.multigraph.keep_window = self.keep_window
        questions = [running.question for running in self.running]
        self._record_statics(self.multigraph)
        self.multigraph.add(questions, {question.name: readings_in(question, self) for question in questions})
        if self.graph.time is not None:
            self.multigraph.outcome_counts.total[:] = self.graph.outcomes
            self.begin_midway(self.multigraph)

    def begin_midway(self, multigraph: Multigraph) -> None:
        """Enter the edges of the graph, of which none had properties, and the counts of queries. O(edges)."""
        edges, live = self.graph.edges, self.graph.live_edges()
        ends = edges.source[live], edges.label[live], edges.target[live]
        multigraph.restore(*ends, edges.timestamp[live], self.graph)
        for running in self.running:
            multigraph.outcome_counts.set_counts(running.question.name, np.array(self.running.figures_of(running).counts))

    def _record_statics(self, multigraph: Multigraph) -> None:
        """Enter the static edges that were loaded before the multigraph, whose values no query read."""
        edges = self.graph.static_edges()
        if len(edges):
            multigraph.statics.add(self.graph.chunk_of(edges), {}, self.static_properties or ())
            multigraph.statics.read_properties = None if self.static_properties is not None else frozenset()

    # --- tuples ----------------------------------------------------------------------------------------------

    @property
    def chunk_size(self) -> int:
        """The number of tuples after which collection is considered: about half a window.

        Where each event is evaluated alone, a window contains next to nothing, and a check after every few events would cost
        more than the events. Several threads wait for each other at the end of each chunk.
        """
        if self.events == "alone":
            return _LARGEST_CHUNK
        least, most = _LARGEST_CHUNK if self._has_few_rows else _SMALLEST_CHUNK, _LARGEST_CHUNK
        if self._crew.has_others:
            least = min(_CHUNK_WITH_THREADS, most)
            most = most if self.running.are_hosted else least
        return int(min(most, max(least, self.graph.edge_count // 2)))

    @property
    def _schedule(self) -> Any:
        return () if self._is_graph_only else self.running.schedule

    def find_ends(self, tuples: Columns) -> tuple[np.ndarray, LimitError | None]:
        """Apply the tuples of a push. Return the `ends` of its chunks for an engine with witnesses, and the failure, if any.

        From a failure on, each tuple is a chunk.
        """
        self._entered = found = [_NONE]
        try:
            failure = self.push(tuples, collect=False).failure
        finally:
            self._entered = None
        if failure is not None:
            found.append(np.arange(failure.row or 0, len(tuples)))
        ends = np.unique(np.concatenate(found))
        if self._hides_times(tuples):  # of all tuples but single ones
            ends = np.union1d(ends, ends[ends > 0] - 1)
        return ends, failure

    def push(self, tuples: Columns, *, collect: bool, ends: np.ndarray | None = None) -> PushResult:
        """Apply the tuples of a push in chunks, up to a failure.  Return also the rows that precede the first tuple.

        `ends` are tuples with which a chunk has to end, in ascending order: those with rows whose witness is in the graph
        after them (`needs_ends`). Without `ends`, each tuple may be such a one.
        """
        self._ends = ends
        if reserve.rows.nbytes > reserve.KEPT_BYTES:  # few pushes have so many rows, and the call would slow down small ones
            reserve.rows.release_unused()
        rows: list[ChunkRows] = []
        late: list[np.ndarray] = []
        counts = np.zeros(2, np.int64)
        failure: LimitError | None = None
        self.guard.result_bytes = 0
        if self.awaits_first and len(tuples):
            try:
                begun = self.begin(int(tuples.timestamp[0]), row=0)
            except LimitError as error:
                return PushResult(rows, counts, _NONE, error)
            rows.append(begun.rows)
            counts += begun.counts
        first, count, end = 0, self._length_of_chunk(tuples, 0), len(tuples)
        try:
            while first < end and failure is None:
                try:
                    for told in self.advance_to_full(int(tuples.timestamp[first])):
                        rows.append(told.rows)
                        counts += told.counts
                except LimitError as error:
                    failure = error
                    break
                applied = self.apply(tuples, first, count, collect=collect)
                rows.append(applied.rows)
                if isinstance(applied.rows, list):
                    self.guard.result_bytes += sum([block.nbytes for block in applied.rows])
                if applied.counts is not _NO_COUNTS:
                    counts += applied.counts
                if len(applied.late_rows):
                    late.append(applied.late_rows)
                failure = applied.failure
                first += count
                if first < end:
                    count = self._length_of_chunk(tuples, first) if self._next_chunk is None else self._next_chunk.tuples
        except BaseException:
            self._room.abandon_chunk()
            raise
        finally:
            self.guard.result_bytes = 0
            if self._next_chunk is not None:
                self._next_chunk.drop(self.intake)
                self._next_chunk = None
        failed = None if failure is None else failure.row
        if failed is not None and (failed if tuples.first is None else tuples.first[failed]) == 0:
            rows, counts = [], np.zeros(2, np.int64)  # the rows before the first tuple came with it
        return PushResult(rows, counts, np.concatenate(late) if late else _NONE, failure)

    def _length_of_chunk(self, tuples: Columns, first: int) -> int:
        """Return the number of tuples of the chunk that begins at `first`."""
        size, ends = self.chunk_size, self._ends
        if ends is None:
            size = 1 if self.needs_ends(tuples) else size
        elif (place := int(np.searchsorted(ends, first))) < len(ends):
            size = min(size, int(ends[place]) + 1 - first)
        if self._crew.has_others and not first:
            size = min(size, _FIRST_CHUNK_WITH_THREADS)
        count = min(len(tuples) - first, size)
        return count if tuples.first is None or not count else end_of_event(tuples.first, first + count - 1) - first

    def needs_ends(self, tuples: Columns) -> bool:
        """Return whether witnesses are found in the graph after a chunk, which has to end where rows enter."""
        return self.witness and (self._hides_times(tuples) or any(map(self._is_of_now, self.running)))

    def _is_of_now(self, running: RunningQuery) -> bool:
        is_of_now = self.multigraph is not None or running.witnesses_are_of_now or self.running.holds_rows(running)
        return running.has_witnesses and is_of_now

    def _entered_in(
        self, deltas: list[tuple[int, Delta]], tuples: Columns, tuple_of: np.ndarray | None
    ) -> np.ndarray:
        """Return the tuples of a chunk that add rows whose witnesses need the present graph, or that precede such rows.

        `tuple_of` has the tuple of each place in the chunk.
        """
        every = self._hides_times(tuples)
        queries = [number for number, running in enumerate(self.running) if every or self._is_of_now(running)]
        found, held = [_NONE], self.running.held
        for number, delta in deltas:
            is_needed = (delta.kinds > 0) & np.isin(number if delta.numbers is None else delta.numbers, queries)
            places = delta.orders[is_needed] // 2
            is_before = number in held  # rows are full before the tuple
            found.append((places if tuple_of is None else tuple_of[places]) - is_before)
        return np.concatenate(found)

    def _hides_times(self, tuples: Columns) -> bool:
        """Return whether the timestamps of edges in count windows are known only after a chunk."""
        has_count_window = any(isinstance(running.question.window, CountWindow) for running in self.running)
        return has_count_window and (tuples.stream is not None or bool(self.graph.statics))

    def _name_next(self, tuples: Columns, first: int) -> _NextChunk | None:
        """Start another thread that gives ids to the names of the chunk at `first` while its predecessor is applied.

        None where there is no such thread or chunk, and where edges with properties are to be collected first: what their
        chunk derives from its tuples is not known yet.
        """
        if not self._crew.has_others or first >= len(tuples) or (self.multigraph is not None and self.collector.is_due):
            return None
        if self.has_held_witnesses:  # the time may move before the chunk
            return None
        count = self._length_of_chunk(tuples, first)
        begun = self._label_ids(tuples, first, count)
        naming = self._crew.begin(lambda: self.intake.name_ends(begun))
        return _NextChunk(count, naming)

    def _label_ids(self, tuples: Columns, first: int, count: int) -> NamelessChunk:
        """Return the tuples of a chunk with ids for their labels."""
        if self.multigraph is None:
            read = self.graph.horizons.is_read
            return self.intake.begin(tuples, first, count, self.graph.is_read, read=read)
        names = _named_ends(tuples, first, count)
        return self.intake.begin(tuples, first, count, self.multigraph.reads, keeps_all=True, names=names)

    def _take_in(self, tuples: Columns, first: int, count: int) -> IntakeChunk:
        """Return the ids of a chunk, which may be known already."""
        upcoming, self._next_chunk = self._next_chunk, None
        if upcoming is None:
            return self.intake.chunk(self._label_ids(tuples, first, count))
        return self.intake.finish(upcoming.naming.result())

    def apply(self, tuples: Columns, first: int, count: int, *, collect: bool) -> ChunkResult:
        """Apply `count` tuples of a push from `first` on; without `collect` rows are counted, not returned."""
        self.guard.row = self.row_guard.row = first
        interned = self.intake.interned
        self._room.begin_chunk(tuples, first, count)
        try:
            with guarded_growth(self._request_room):
                taken = self._take_in(tuples, first, count)
                # Edges that are vertices get ids before another thread gives some to names.
                derived = None if self.multigraph is None else self._derive(self.multigraph, taken, tuples, first)
        except MemoryLimitError as problem:
            self.midway = True
            return ChunkResult([], _NO_COUNTS, _NONE, problem)
        has_many_new_names = self.intake.interned - interned > count // 4
        self._next_chunk = self._name_next(tuples, first + count)
        tuple_of = None if derived is None else derived.row  # the tuple of each edge, None where each is that of one
        self.guard.places = self.row_guard.places = tuple_of
        chunk = taken.chunk if derived is None else derived.chunk
        view_of_chunk = view(chunk)
        # Everything that can fail for want of room or because of a name is done: what follows is all or nothing.
        self.midway = True
        extra_task: Callable[[], object] | None = None
        if derived is None:
            outcome, events = np.empty(count, np.uint8), _events_of(tuples, first, count)
            edge_times = EdgeTimes(self.graph, chunk, view_of_chunk) if self.witness else None
            details, resolve = self._resolution(taken, view_of_chunk, outcome, events)
            # Where another thread gives names to most of the next chunk, it is the last to end, and the graph comes first.
            runs_in_parallel = self._crew.has_others and edge_times is None and not has_many_new_names
            if runs_in_parallel and not self.running.need_edge_ids:
                details = details._replace(has_edge_ids=False)
                extra_task = partial(self._resolve_and_judge, resolve, view_of_chunk, details, count)
            else:
                resolve()
            if edge_times is not None:
                edge_times.note(outcome if details.named is None else None)
            first_of_event = details.first
        else:
            edge_times = None  # rows with witnesses are those of the last tuple
            events = _events_of(tuples, first, count)
            outcome = derived.outcome
            first_of_event = derived.first if events is None else derived.first_of_events(events)
            details = self._resolve_derived(derived, taken, view_of_chunk, derived.first_of_parts(first_of_event))
        running = self.running
        is_netted = details.first is not None or tuples.reported_time is not None
        if not (collect or is_netted or self._entered is not None or running.reports):
            details = details._replace(counts_only=True)
        if self._next_chunk is not None:
            details = details._replace(wait_for_names=self._next_chunk.wait)
        failure = self._crew.apply(self._schedule, chunk, view_of_chunk, self.graph.edges, details, extra_task=extra_task)
        if self._next_chunk is not None:
            self._next_chunk.wait()  # from here on names are read
        self._room.end_chunk()
        before = None if failure is None or failure.row is None else failure.row - first
        if before is not None and tuple_of is not None:
            before = int(np.searchsorted(tuple_of, before))
        if before is not None and first_of_event is not None:
            before = int(first_of_event[before])  # its whole event fails
        counts: tuple[int, int] | np.ndarray = _NO_COUNTS
        rows: ChunkRows = []
        try:
            deltas = self._deltas(before)
            self._has_few_rows = not running.hosts and sum([len(delta) for _, delta in deltas]) <= count
            if is_netted:
                times = None if tuples.reported_time is None else tuples.reported_time[first : first + count]
                if times is not None and tuple_of is not None:
                    times = times[tuple_of]
                is_evicted = None if derived is None else derived.is_evicted
                deltas = self.output.net(deltas, first_of_event, times, is_evicted=is_evicted)
            if running.reports:
                is_boundary = None if derived is None else derived.are_boundaries(before)
                deltas = self.output.report(deltas, np.maximum.accumulate(chunk.timestamp[:before]), is_boundary)
            if deltas and (overflow := self.output.overflow(deltas)) is not None:
                failure = self.row_guard.error(overflow.query, overflow.number, place=overflow.place)
                deltas = [(number, delta.events_before(2 * overflow.place)) for number, delta in deltas]
            if self._entered is not None and deltas:
                self._entered.append(first + self._entered_in(deltas, tuples, tuple_of))
            if collect and deltas:
                if 0 < sum([len(delta) for _, delta in deltas]) <= FEW_OF_CHUNK and self._has_lists:
                    rows = few_rows_of(deltas, self.vertices, running.texts)
                    counts = rows.counts()
                else:
                    rows = self.output.rows(deltas, edge_times)
            if deltas and counts is _NO_COUNTS:
                counts = sum([delta.counts() for _, delta in deltas], _NO_ROWS)
        except MemoryLimitError as problem:  # for the rows of the chunk, of which there are none then
            failure = problem
        self.guard.places = self.row_guard.places = None
        if running.queries_with_budget:
            self.output.note_overruns(first)
        if failure is None:
            if self._next_chunk is None:
                self.collector.collect_if_due()
            elif self.multigraph is None:
                self.collector.collect_if_due(self._next_chunk.named_chunk)
            self.midway = False
        is_late = outcome == LATE
        late_rows = is_late.nonzero()[0] + first if np.count_nonzero(is_late) else _NONE
        return ChunkResult(rows, counts, late_rows, failure)

    def _request_room(self, more: int) -> None:
        """Raise `MemoryLimitError` if there is no room for `more` bytes of names and edges."""
        names = self.running.schemas.names
        if names:
            self.guard.request(names[0], more)

    def _derive(self, multigraph: Multigraph, taken: IntakeChunk, tuples: Columns, first: int) -> DerivedChunk:
        """Return the tuples of a chunk as edges with derived labels, for which there is room."""
        chunk = taken.chunk
        properties = {name: column.slice(first, len(chunk.label)) for name, column in tuples.properties.items()}
        if len(taken.labels.unread):
            self.graph.lose(taken.labels.unread, chunk)
        self.midway = True  # from here on the versions of edges are those after the chunk
        edge = None if tuples.edge is None else tuples.edge.slice(first, len(chunk.label))
        times = tuples.timestamp if tuples.reported_time is None else tuples.reported_time
        in_streams = None if taken.named is None else np.where(taken.labels.is_named != 0, taken.named.label, -1)
        return self._derive_edges(
            multigraph,
            chunk,
            properties,
            times[first : first + len(chunk.label)],
            edge,
            in_streams=in_streams,
            room=taken.room,
        )

    def _derive_edges(
        self,
        multigraph: Multigraph,
        chunk: Chunk,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        edge: pa.Array | None,
        *,
        in_streams: np.ndarray | None = None,
        room: int = 1,
    ) -> DerivedChunk:
        """Return tuples as edges with derived labels, for which there is room; arguments as those of `Multigraph.derive`.

        There is room for `room` of them already.
        """
        tuples = view(chunk)
        derived = multigraph.derive(
            chunk, tuples, properties, self.graph.time, timestamp=timestamp, edge=edge, in_streams=in_streams
        )
        self.graph.lose_unread(tuples, len(chunk.label))
        needed = len(derived.chunk.label) + (0 if derived.unread is None else len(derived.unread.label))
        if in_streams is not None:
            needed += int(np.count_nonzero(in_streams >= 0))
        if needed > room or not self._room.has_vertices:
            self._room.make(needed)
        return derived

    def _resolve_derived(
        self, derived: DerivedChunk, taken: IntakeChunk, view_of_chunk: Any, first: np.ndarray | None
    ) -> ChunkDetails:
        """Apply edges with derived labels, with the view of their chunk, to the graph; return the details for workers."""
        count = len(derived.chunk.label)
        if taken.named is None:
            self.graph.resolve_uncounted(view_of_chunk, count)
            self._resolve_unread(derived)
            return ChunkDetails(first=first)
        named, is_named = derived.in_streams(taken.chunk, taken.named, taken.labels.is_named)
        view_of_named = view(named)
        self.graph.resolve_uncounted_with_streams(view_of_chunk, view_of_named, is_named, count)
        return ChunkDetails(named, view_of_named, first)

    def _resolve_unread(self, derived: DerivedChunk) -> None:
        """Apply edges that no query reads to the graph, behind the others: those that have left by then are of no use."""
        if derived.unread is not None:
            self.graph.resolve_uncounted(view(derived.unread), len(derived.unread.label))

    def _resolve_and_judge(
        self, resolve: Callable[[], object], view_of_chunk: Any, details: ChunkDetails, count: int
    ) -> None:
        """Apply a chunk to the graph while other threads apply it in hosts, and do what these cannot do before that."""
        resolve()
        for host in self.running.hosts:
            host.judge(view_of_chunk, details, count)

    def _resolution(
        self, taken: IntakeChunk, view_of_chunk: Any, outcome: np.ndarray, events: np.ndarray | None
    ) -> tuple[ChunkDetails, Callable[[], object]]:
        """Return the details of a chunk for workers, and the function that applies its tuples to the graph.

        The function writes the outcome of each tuple, and the ids of edges, which workers may need.
        """
        if len(taken.labels.unread):
            self.graph.lose(taken.labels.unread, taken.chunk)
        count = len(outcome)
        if taken.named is None:
            details = NO_DETAILS if events is None else ChunkDetails(first=events)
            return details, lambda: self.graph.resolve(view_of_chunk, count, outcome)
        view_of_named, is_named = view(taken.named), taken.labels.is_named
        return (
            ChunkDetails(taken.named, view_of_named, events),
            lambda: self.graph.resolve_with_streams(view_of_chunk, view_of_named, is_named, count, outcome),
        )

    def apply_one(
        self,
        source: Vertex,
        target: Vertex,
        label: str,
        timestamp: int,
        delete: bool,
        *,
        collect: bool,
        values: Mapping[str, Any] | None = None,
        edge: int | str | None = None,
    ) -> ChunkResult:
        """Apply one valid tuple like `apply`, at a small fraction of its cost.

        `values` are those of its properties, and `edge` is the id of its edge; a delete with an id needs no ends.
        """
        self.guard.row = self.row_guard.row = 0
        intake, graph, running, single = self.intake, self.graph, self.running, self._single
        number = self.labels.ids.get(label, -1)
        if number < 0:
            number = intake.add_label(label)
        u = v = -1
        edges, multigraph = graph.filter, self.multigraph
        if multigraph is not None:
            if multigraph.edge_names is not None:
                is_read = edge is None or not delete  # see `_named_ends`
            else:
                is_read = graph.horizons.is_read.item(number) or multigraph.outcome_counts.reads_label(number)
        else:
            is_read = graph.horizons.is_read.item(number)
            is_read = is_read and (not edges.filtered_labels or edges.accepts(number, source, target))
        if is_read:
            u, v = intake.ends(source, target)
        single.fill(u, v, number, timestamp, delete)
        self.midway = True
        chunk, tuples, details, edge_times = single.chunk, single.view, NO_DETAILS, None
        if multigraph is None:
            if self.witness:
                edge_times = EdgeTimes(graph, chunk, tuples)
            graph.resolve_one(tuples, single.outcome)
            if edge_times is not None:
                edge_times.note(single.outcome)
        else:
            chunk, tuples, details = self._derive_one(multigraph, values or {}, edge)
        deltas: list[tuple[int, Delta]] = []
        failure: LimitError | None = None
        for worker in () if self._is_graph_only else running.workers:
            try:
                worker.apply(chunk, tuples, graph.edges, details)
            except LimitError as problem:
                failure = failure or problem
                continue
            if worker.has_rows:
                deltas += worker.deltas(running.numbers)
        if details.first is not None and deltas:
            deltas = self.output.net(deltas, details.first, None)
        if running.reports and failure is None:
            try:
                deltas = self.output.report(deltas, chunk.timestamp)
            except MemoryLimitError as problem:
                failure = problem
        counts: tuple[int, int] | np.ndarray = (0, 0)
        rows: ChunkRows = []
        if deltas:
            total = len(deltas[0][1]) if len(deltas) == 1 else sum([len(delta) for _, delta in deltas])
            is_over = total > self.row_guard.effective_limit and failure is None
            if is_over and (overflow := self.output.overflow(deltas)) is not None:
                failure = self.row_guard.error(overflow.query, overflow.number, place=overflow.place)
            if failure is None:
                if collect and total <= FEW and self._has_lists:
                    rows = few_rows_of(deltas, self.vertices, running.texts)
                    counts = rows.counts()
                else:
                    try:
                        rows = self.output.rows(deltas, edge_times) if collect else []
                        counts = sum((delta.counts() for _, delta in deltas), _NO_ROWS)
                    except MemoryLimitError as problem:
                        failure = problem
        if running.queries_with_budget:
            self.output.note_overruns(0)
        self.guard.places = self.row_guard.places = None
        if failure is None:
            self._singles += 1
            if self._singles >= self._check_interval:
                self._singles = 0
                reserve.rows.release_unused()
                self.collector.collect_if_due()
            self.midway = False
        return ChunkResult(rows, counts, _FIRST if single.outcome.item(0) == LATE else _NONE, failure)

    @property
    def _has_lists(self) -> bool:
        """True if rows may be lists: ids of edges and values have types that columns alone know, as have witnesses."""
        is_bare = self.multigraph is None or self.multigraph.is_bare
        return is_bare and not self.witness and not self.running.schemas.have_values

    def _derive_one(
        self, multigraph: Multigraph, values: Mapping[str, Any], edge: int | str | None
    ) -> tuple[Chunk, Any, ChunkDetails]:
        """Apply the edges of the single tuple with derived labels to the graph. Return them, with their view."""
        graph, single = self.graph, self._single
        own = single.chunk
        if not multigraph.is_bare:
            ids = None if multigraph.edge_names is None else pa.array([edge])
            derived = self._derive_edges(multigraph, own, multigraph.columns_of_one(values), own.timestamp, ids)
            single.outcome[0] = derived.outcome[0]
            self.guard.places = self.row_guard.places = derived.row
            view_of_edges = view(derived.chunk)
            graph.resolve_uncounted(view_of_edges, len(derived.chunk.label))
            self._resolve_unread(derived)
            return derived.chunk, view_of_edges, ChunkDetails(first=derived.first)
        number = own.label.item(0)
        is_plain = bool(graph.horizons.is_read.item(number))
        labels, deletes = multigraph.derive_one(single, values, graph.time, is_plain=is_plain)
        if not is_plain and not own.delete.item(0):
            graph.lose_one(number, own.timestamp.item(0))
        count = len(labels)
        if count == 1:
            own.label[0], own.delete[0] = labels[0], deletes[0]
            outcome, counts = self._uncounted_outcomes
            graph.resolve_one(single.view, outcome, counts=counts)
            return own, single.view, NO_DETAILS
        self._room.make(count)
        repeated = [np.repeat(column, count) for column in own]
        chunk = Chunk(*repeated)._replace(label=np.array(labels, np.int32), delete=np.array(deletes, np.uint8))
        tuples, first = view(chunk), np.zeros(count, np.int64)
        self.guard.places = self.row_guard.places = first
        graph.resolve_uncounted(tuples, count)
        return chunk, tuples, ChunkDetails(first=first)

    def _deltas(self, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows that workers report of the last chunk, or of its tuples `before` a failure."""
        workers = [worker for worker in self.running.workers if before is not None or worker.has_rows]
        if not workers:
            return []
        numbers = self.running.numbers
        return [*chain.from_iterable(self._crew.map(workers, lambda worker: worker.deltas(numbers, before=before)))]

    # --- records of nodes ------------------------------------------------------------------------------------

    def apply_records(self, columns: NodeColumns, *, collect: bool) -> PushResult:
        """Apply records of nodes. Return the changes."""
        names = columns.node
        self.guard.row, self.row_guard.row = 0, None
        self.midway = True
        try:
            with guarded_growth(self._request_room):
                self._request_room(len(names) * (_BYTES_OF_RECORD + _BYTES_OF_FACT * len(columns.properties)))
                ids, new_ids = self.vertices.intern(names, np.ones(len(names), np.uint8))
                self._room.make(0, new_ids)
                self.intake.interned += len(new_ids)
        except MemoryLimitError as problem:
            return PushResult([], np.zeros(2, np.int64), _NONE, problem)
        self.collector.upcoming_nodes = ids
        records = NodeRecords(
            ids, columns.op, columns.timestamp, columns.labels, columns.properties, columns.stated
        )
        try:
            applied = self._apply_all(records, collect=collect)
        finally:
            self.collector.upcoming_nodes = ids[:0]
        if applied.failure is None:
            self.collector.collect_if_due()
        return applied

    def _apply_all(self, records: NodeRecords, *, collect: bool) -> PushResult:
        rows: list[ChunkRows] = []
        counts, failure = np.zeros(2, np.int64), None
        first = self._load_records(records) if self.graph.time is None else 0
        if self.graph.time is None and first < len(records.vertex):
            time = int(records.time[first])
            if self.awaits_first:
                begun = self.begin(time, row=0)
                rows.append(begun.rows)
                counts += begun.counts
            else:
                self.advance(time)
        for begin in range(first, len(records.vertex), _LARGEST_CHUNK):
            for place, part in records.slice(begin, begin + _LARGEST_CHUNK).of_different_vertices():
                for applied in self._apply_part(part, begin + place, collect=collect):
                    rows.append(applied.rows)
                    counts += applied.counts
                    failure = applied.failure
                    if failure is not None:
                        return PushResult(rows, counts, _NONE, failure)
        self.midway = False
        return PushResult(rows, counts, _NONE, None)

    def _load_records(self, records: NodeRecords) -> int:
        """Apply records before the first tuple, up to the first one with a time. Return its place."""
        has_time = records.time != NO_TIME
        end = int(np.argmax(has_time)) if has_time.any() else len(has_time)
        if end:
            for _, part in records.slice(0, end).of_different_vertices():
                self._note_facts(part)
        self.note_first()
        return end

    def _apply_part(self, records: NodeRecords, row: int, *, collect: bool) -> Iterator[ChunkResult]:
        """Apply records of different vertices, of which the first one has a place in the push; yield the changes."""
        count, multigraph = len(records.vertex), self.multigraph
        self.midway = True
        assert self.graph.time is not None
        if count == 1:
            yield from self.advance_to_full(int(records.time[0]))
            self.midway = True
        now = np.maximum.accumulate(np.maximum(records.time, self.graph.time))
        is_moving = np.diff(now, prepend=self.graph.time) > 0
        timed = records._replace(time=np.where(records.time == NO_TIME, now, records.time))
        is_decided = multigraph is not None and multigraph.window_edges is not None and bool(is_moving.any())
        if count > 1 and (self.witness or is_decided):  # each with the window, or the graph, of its own moment
            for place in range(count):
                yield from self._apply_part(records.slice(place, place + 1), row + place, collect=collect)
            return
        if multigraph is None or not multigraph.node_edges.are_read:
            places = np.flatnonzero(is_moving)
            if not self.running.reports:
                places = places[-1:]  # rows have the times of the boundaries that are passed
            begin = 0
            for place in places.tolist():
                self._note_facts(timed.slice(begin, place))
                yield self.advance(int(now[place]))
                begin = place
            self._note_facts(timed.slice(begin, count))
            return
        if multigraph.window_edges is not None and is_moving.any():  # its evictions are events of their own
            yield self.advance(int(now[-1]))
            is_moving = np.zeros(count, bool)
        made = multigraph.apply_records(timed, now, is_moving, self.graph)
        if not len(made.row):
            return
        begins = np.flatnonzero(np.diff(made.row, prepend=-1) != 0)
        first = np.repeat(begins, np.diff(begins, append=len(made.row)))
        yield self._apply_facts(made.as_chunk(), first, made.row + row, collect=collect)

    def _note_facts(self, records: NodeRecords) -> None:
        """Apply records that no query reads to the table."""
        if self.multigraph is None:
            self.nodes.apply(records)
        else:
            self.multigraph.node_edges.load(records)

    def _apply_facts(self, chunk: Chunk, first: np.ndarray, row: np.ndarray, *, collect: bool) -> ChunkResult:
        """Apply edges that follow from records; `first` is that of events, and `row` the record of each edge."""
        self.guard.row = self.row_guard.row = 0
        self.guard.places = self.row_guard.places = row
        self.midway = True
        self._room.make(len(row))
        view_of_chunk = view(chunk)
        self.graph.resolve_uncounted(view_of_chunk, len(row))
        details = ChunkDetails(first=first)
        failure = self._crew.apply(self._schedule, chunk, view_of_chunk, self.graph.edges, details)
        before = None if failure is None or failure.row is None else int(first[np.searchsorted(row, failure.row)])
        deltas = [] if self._is_graph_only else self.output.net(self._deltas(before), first, None)
        if self.running.reports:
            deltas = self.output.report(deltas, np.maximum.accumulate(chunk.timestamp[:before]))
        if deltas and (overflow := self.output.overflow(deltas)) is not None:
            failure = self.row_guard.error(overflow.query, overflow.number, place=overflow.place)
            deltas = [(number, delta.events_before(2 * overflow.place)) for number, delta in deltas]
        counts = sum([delta.counts() for _, delta in deltas], np.zeros(2, np.int64))
        rows: ChunkRows = self.output.rows(deltas) if collect and deltas else []
        self.guard.places = self.row_guard.places = None
        if failure is None:
            self.collector.collect_if_due()
            self.midway = False
        return ChunkResult(rows, counts, _NONE, failure)

    # --- static edges ----------------------------------------------------------------------------------------

    @property
    def static_graphs(self) -> frozenset[str]:
        """The names of the graphs of static edges. O(labels)."""
        return frozenset(graph for name in self.labels.names if (graph := graph_of(name)) is not None)

    def load_graph(self, edges: Columns, graph: str) -> None:
        """Add static edges of a named graph; comes before the first tuple. Raises `QueryError`. O(edges)."""
        if self.multigraph is not None:
            raise QueryError(_NAMED_BESIDE_VALUES.format(f"the graph <{graph}>"))
        label_count = len(self.labels)
        mark = self.labels.add(StreamLabel("", stream_of_graph(graph)))  # a graph without edges exists, too
        if len(self.labels) > label_count:
            self._admit_labels(np.array([mark]))
            self._read_dataset()
        if not len(edges):
            return
        stream = pa.DictionaryArray.from_arrays(np.zeros(len(edges), np.int32), pa.array([stream_of_graph(graph)]))
        begun = self.intake.begin(
            replace(edges, stream=stream), 0, len(edges), lambda label: np.ones(len(label), np.uint8), keeps_all=True
        )
        chunk = self.intake.chunk(begun).named
        assert chunk is not None, "its labels are those of the graph"
        self.graph.enter_static(chunk.source, chunk.target, chunk.label)
        self.note_first()

    def _read_dataset(self) -> None:
        """Restart the queries that read all named graphs, because there is a new one. Called before the first tuple."""
        questions = [running.question for running in self.running]
        graphs = self.static_graphs
        if any(over_dataset(question, graphs) is not question for question in questions):
            self.remove(*(question.name for question in questions))  # all, so that they keep their order
            self.add(*(over_dataset(question, graphs) for question in questions))

    def refuse_other_graphs(self, questions: Sequence[Question]) -> None:
        """Raise `QueryError` if static edges without a name would stand for different graphs of FROM in queries."""
        reading = [(question, static_graphs_of(question)) for question in questions]
        reading = [(question, graphs) for question, graphs in reading if graphs]
        if len(reading) < 2:
            return
        (first, expected), *others = ((question, graphs - self.static_graphs) for question, graphs in reading)
        for question, graphs in others:
            if graphs and expected and graphs != expected:
                raise QueryError(
                    f"query {question.name!r} reads {from_clauses(graphs)}, and {first.name!r} {from_clauses(expected)}: "
                    "edges without time that were loaded without a name are one graph: name those of each, with --static "
                    "'<graph>=FILE' or load_static(…, graph=…)"
                )
            expected = expected or graphs

    @property
    def _has_unnamed_statics(self) -> bool:
        """True if static edges were loaded without the name of a graph. O(ids)."""
        labels = np.unique(self.graph.chunk_of(self.graph.static_edges()).label).tolist() if self.graph.statics else []
        is_unnamed = any(graph_of(self.labels.names[label]) is None for label in labels)
        return is_unnamed or (self.multigraph is not None and bool(len(self.multigraph.statics)))

    def load_static(self, edges: Columns, property_names: Iterable[str] = ()) -> None:
        """Add static edges with these properties; comes before the first tuple. Raises `QueryError`. O(edges)."""
        if len(edges):
            self.refuse_other_graphs([running.question for running in self.running])
        if not len(edges):
            return  # without edges the kind of vertices stays open
        self.running.registrations += 1  # what was known of stored edges may not hold of static ones
        multigraph, ids = self.multigraph, None
        refuse_tested_statics(multigraph is not None and multigraph.tests_nodes)
        self.static_properties = (self.static_properties or frozenset()).union(property_names)
        if multigraph is not None:
            labels = [label for label in edges.label.unique().to_pylist() if label is not None]
            if multigraph.hides_statics(labels, have_ids=edges.edge is not None) and not multigraph.hides:
                self._hide_statics(multigraph)
        begun = self.intake.begin(edges, 0, len(edges), lambda label: np.ones(len(label), np.uint8), keeps_all=True)
        chunk = self.intake.chunk(begun).chunk
        if multigraph is not None and multigraph.edge_names is not None and edges.edge is not None:
            ids = multigraph.table.name(edges.edge)
        else:
            self.graph.enter_static(chunk.source, chunk.target, chunk.label)
        if multigraph is not None:
            # A column of nulls that queries read has no values.
            unread = frozenset(property_names) - multigraph.sets.properties
            multigraph.statics.add(chunk, edges.properties, unread, edge=ids)
        self._enter_derived_statics()
        self.note_first()

    def _hide_statics(self, multigraph: Multigraph, more: Sequence[Question] = ()) -> list[RunningQuery]:
        """Make edges of the window hide static edges from now on, and add `more` queries; before the first tuple.

        The queries begin again, over windows that are decided before the graph. Raises `QueryError` for queries that do not
        allow it, and then changes nothing.
        """
        queries = multigraph.readings.questions
        refuse_hidden_statics([*queries, *more], self)
        if queries:
            self.remove(*(question.name for question in queries))
        multigraph.hides = True
        try:
            return self.add(*queries, *more)[len(queries) :]
        except BaseException:
            multigraph.hides = False
            self.add(*queries)
            raise

    def _enter_derived_statics(self, *, begins: bool = False) -> None:
        """Enter static edges under the derived labels whose conditions they satisfy. O(edges · conditions).

        With `begins`, those that edges of the window may hide are there from now on.
        """
        if self.multigraph is None or not len(self.multigraph.statics):
            return
        unhidden, hideable = self.multigraph.derive_statics(begins=begins)
        if unhidden or hideable:
            self._room.make(len(unhidden) + len(hideable))
        if unhidden:
            source, label, target = np.array(unhidden, np.int32).T
            self.graph.enter_static(*map(np.ascontiguousarray, (source, target, label)))
        if hideable:
            source, label, target = map(np.ascontiguousarray, np.array(hideable, np.int32).T)
            times, nothing = np.full(len(hideable), TIMELESS, np.int64), np.zeros(len(hideable), np.uint8)
            chunk = Chunk(source, target, label, times, nothing, np.empty(len(hideable), np.int32))
            self.graph.resolve_uncounted(view(chunk), len(hideable))

    def note_first(self) -> None:
        """Note whether rows come before the first tuple, with its time: of static edges, or of an empty graph."""
        multigraph = self.multigraph
        has_statics = bool(self.graph.statics) or (multigraph is not None and bool(len(multigraph.statics)))
        reads_facts = multigraph is not None and multigraph.node_edges.are_read and len(self.nodes) > 0
        self.awaits_first = self.graph.time is None and (has_statics or reads_facts or self.running.have_first_rows)

    def begin(self, time: int, *, row: int | None) -> ChunkResult:
        """Enter static edges at the time of the first tuple and before it, as an event of their own.

        `row` is None if the time moves without a tuple. Raises `LimitError`.
        """
        self.guard.row, self.row_guard.row = 0, row
        self.midway = True
        self.graph.advance(time)
        before = self.running.rows()
        self._enter_derived_statics(begins=True)
        if self.multigraph is not None:
            self.enter_facts(self.multigraph)
        deltas = [] if self._is_graph_only else self._load_all(time)
        deltas = self._report(self.output.at_reported_time(deltas), time)
        self.awaits_first = False
        rows = self.output.rows(deltas)
        self.output.note_overruns(None)
        self.midway = False
        return ChunkResult(rows, self.running.rows() - before, _NONE, None)

    def _load_all(self, time: int, *, quiet: bool = False) -> list[tuple[int, Delta]]:
        """Load the windows of all queries, none of which has edges. Return the first rows, none if it is `quiet`."""
        static = self.graph.chunk_of(self.graph.static_edges())
        contents = self.window_contents()
        deltas: list[tuple[int, Delta]] = []
        for number, running in enumerate(self.running):
            if len(static.edge):
                running.load_static(static)
            chunk, inside = self.content_of(running, contents)
            try:
                deltas += [(number, delta) for delta in running.load(time, chunk, *inside, quiet=quiet)]
            except RowLimitError as error:  # at an edge that is no tuple
                raise self.row_guard.error(running.question.name, error.number, place=0) from None
        return deltas

    @contextmanager
    def graph_only(self) -> Iterator[None]:
        """Apply tuples to the graph alone in the context, in a new engine. Then queries load their windows, without rows."""
        self._is_graph_only = True
        yield
        self._is_graph_only = False
        time = self.graph.time
        if time is not None:
            deltas = self._load_all(time, quiet=not self.running.reports)
            self._report(self.output.at_reported_time(deltas), time)

    def empty_windows(self, time: int) -> None:
        """Advance the stream time until all windows are empty, without reporting the rows that leave."""
        self.guard.row, self.row_guard.row = 0, None
        self.midway = True
        queries = self.running.by_number
        for number, delta in split_by_query(self._advance_all(time)):
            self.running.count_unreported(queries[number], delta.counts())
        self.output.note_overruns(None)
        self.midway = False

    def _advance_all(self, time: int) -> list[tuple[int, Delta]]:
        self.graph.advance(time)
        if self._is_graph_only:
            return []
        for worker in self.running.workers:
            worker.advance(time)
        return self._deltas()

    def _expire(self, time: int) -> tuple[list[tuple[int, Delta]], int]:
        """Remove edges from a window that is decided before the graph. Return the rows that it reports, and the number of
        their places. Raises `LimitError`."""
        derived = None if self.multigraph is None else self.multigraph.expire(time)
        if derived is None:
            return [], 0
        chunk, view_of_chunk = derived.chunk, view(derived.chunk)
        self._room.make(len(chunk.label))
        self.graph.resolve_uncounted(view_of_chunk, len(chunk.label))
        details = ChunkDetails(first=derived.first_of_parts(derived.first))
        failure = self._crew.apply(self._schedule, chunk, view_of_chunk, self.graph.edges, details)
        if failure is not None:
            raise failure
        deltas = self.output.net(self._deltas(), derived.first, None, is_evicted=derived.is_evicted)
        deltas = self.output.report(deltas, np.maximum.accumulate(chunk.timestamp), derived.are_boundaries(None))
        if (overflow := self.output.overflow(deltas)) is not None:
            raise self.row_guard.error(overflow.query, overflow.number, place=0)
        return deltas, len(chunk.label)

    def _report(self, deltas: list[tuple[int, Delta]], time: int) -> list[tuple[int, Delta]]:
        """Return the reports of changes at a time that no tuple of the current chunk has. Raises `LimitError`."""
        deltas = self.output.report(deltas, np.array([time]))
        if (overflow := self.output.overflow(deltas)) is not None:
            raise self.row_guard.error(overflow.query, overflow.number, place=0)
        return deltas

    def advance(self, time: int) -> ChunkResult:
        """Move the stream time. Return the changes."""
        self.guard.row, self.row_guard.row = 0, None
        self.midway = True
        deltas, places = self._expire(time)
        for number, delta in self._report(self._advance_all(time), time):
            delta.orders = delta.orders + 2 * places  # behind what has left
            deltas.append((number, delta))
        counts = sum((delta.counts() for _, delta in deltas), np.zeros(2, np.int64))
        rows = self.output.rows(deltas)
        self.output.note_overruns(None)
        self.collector.collect_if_quiet()
        self.midway = False
        return ChunkResult(rows, counts, _NONE, None)

    @property
    def has_held_witnesses(self) -> bool:
        """True if rows that are held have witnesses, which are those of the moment at which a row is full."""
        return self.witness and bool(self.running.held)

    def advance_to_full(self, time: int) -> Iterator[ChunkResult]:
        """Move the stream time to each moment up to `time` at which a row with a witness is full. Yield the changes."""
        while self.has_held_witnesses:
            moments = [moment for held in self.running.held.values() if (moment := held.next_time) is not None]
            if min(moments, default=time + 1) > time:
                return
            yield self.advance(min(moments))

    def restore_root(self, running: RunningQuery, root: int) -> ChunkRows:
        """Restore a root of a query that was set aside; return the rows."""
        numbers = self.running.numbers
        deltas = sorted(((numbers[name], delta) for name, delta in running.restore_root(root)), key=itemgetter(0))
        if deltas:
            deltas = self.output.report(deltas, np.array([self.graph.time]))
        return self.output.rows(deltas)

    def _admit_labels(self, labels: np.ndarray) -> None:
        """Register label ids in queries and graph."""
        self.running.admit_labels(labels, self.labels, self.graph)

    def restore_labels(
        self,
        names: Sequence[LabelName],
        lost: list[int],
        *,
        passed_by: list[int],
        accepted: Sequence[Mapping[Ends, int]],
        forgotten: int,
        forgotten_of_streams: int,
    ) -> None:
        """Restore labels, the accepted ends of each, and the largest timestamps of inserts that were lost and passed by.

        `forgotten` is such a timestamp for those labels that were forgotten. Raises `Damage` where a query needs more of a
        label than is accepted.
        """
        labels = np.array([self.labels.add(name) for name in names], np.int64)
        self._admit_labels(labels)
        self.graph.horizons.lost[labels] = lost
        self.graph.horizons.passed_by[labels] = passed_by
        for label, name, of_label in zip(labels.tolist(), names, accepted, strict=True):
            needed = self.graph.filter.accepted_ends(label)
            if not needed:
                continue
            if any(of_label.keys().isdisjoint(one.wider) for one in needed):
                raise Damage(f"a query needs edges with the label {text_of(name)!r} that were not accepted")
            self.graph.filter.restore(label, of_label)
        self.labels.forgotten, self.labels.forgotten_of_streams = forgotten, forgotten_of_streams

    # --- queries ---------------------------------------------------------------------------------------------

    @gc_paused()
    def add(self, *questions: Question, is_late: bool = False) -> list[RunningQuery]:
        """Add queries, with empty windows, all or none. O(labels) for each, and for a host that is new O(vertices).

        With `is_late` the windows stay empty, although the stream has begun.
        """
        questions = tuple(for_nodes(for_identity(question, self.identity), self.has_nodes) for question in questions)
        ids, names = np.fromiter(self.labels.ids.values(), np.int64, len(self.labels)), list(self.labels.ids)
        earlier_hosts = {*self.running.hosts}
        added: list[RunningQuery] = []
        had_multigraph = self.multigraph is not None
        for question in questions:
            refuse_order(question, self.identity)
            refuse_unkept_facts(question, self.nodes.kept)
        if any(map(static_graphs_of, questions)) and self._has_unnamed_statics:
            self.refuse_other_graphs([*(running.question for running in self.running), *questions])
        try:
            if not had_multigraph and any(has_conditions(question) for question in questions):
                if any(has_values(question) for question in questions):
                    refuse_late_conditions(questions, self)
                refuse_counted_before(self.running, next(one for one in questions if has_conditions(one)))
                self.begin_multigraph()
            if self.multigraph is not None:
                readings = {question.name: readings_in(question, self) for question in questions}
                refuse_other_windows(questions, readings, self.identity)
                if is_late:
                    refuse_late_counts(
                        questions, readings, self.identity, is_decided=self.multigraph.window_edges is not None
                    )
                self.multigraph.add(questions, readings, is_late=is_late)
                if self.graph.statics or len(self.multigraph.statics):
                    refuse_tested_statics(self.multigraph.tests_nodes)
                if self.multigraph.hides_known_statics and not self.multigraph.hides:
                    self.multigraph.remove(readings)
                    return self._hide_statics(self.multigraph, questions)
                questions = tuple(self.multigraph.running_form(question) for question in questions)
            for question in questions:
                added.append(self._start(question, is_late, (ids, names)))  # noqa: PERF401  # some may have begun
        except BaseException:
            for running in reversed(added):
                self.running.drop(running.question.name)
            if not had_multigraph:
                self.multigraph = self.collector.multigraph = self.output.multigraph = None
            elif self.multigraph is not None:
                self.multigraph.remove([question.name for question in questions])
            raise
        self.running.settle_added(added, self.labels, self.graph)
        reports = (self.running.reports_of(running) for running in added)
        self.guard.add(one for one in reports if one is not None)
        parts = [part for running in added for part in self.running.parts_of(running)]
        self.guard.add(worker for part in parts for worker in part.workers)
        used = np.arange(self.vertices.count)
        used = used[self.vertices.names.length[: len(used)] >= 0]
        for host in self.running.hosts:
            host.make_room(self.vertices, used if host not in earlier_hosts else used[:0], self.graph)
        for running in added:
            running.make_room(self.vertices, used, self.graph)
        self._room.reset()
        self._enter_derived_statics()  # which may need more room
        if self.multigraph is not None and self.graph.time is not None:
            self.enter_facts(self.multigraph)
        self.note_first()
        return added

    def enter_facts(self, multigraph: Multigraph, *, facts_only: bool = False) -> np.ndarray:
        """Enter edges that follow from facts of nodes into the graph (`Multigraph.enter_facts`). Return their ids."""
        if not multigraph.node_edges.are_read:
            return _NONE
        made = multigraph.enter_facts(self.graph, facts_only=facts_only)
        self._room.make(len(made.row))
        chunk = made.as_chunk()
        self.graph.resolve_uncounted(view(chunk), len(made.row))
        return chunk.edge

    def _start(self, question: Question, is_late: bool, labels: tuple[np.ndarray, Sequence[LabelName]]) -> RunningQuery:
        running: RunningQuery
        resources = Resources(
            threads=self._threads,
            share=self.share,
            witness=self.witness,
            capacity=self._capacity,
            guard=self.guard.of(lambda: question.name, lambda: running.part.workers),
            deadline=self.guard.deadline,
            rows=self.row_guard,
            sharing=self._sharing,
            is_late=is_late,
            events=self.events,
        )
        running = self.running.start(question, resources, labels, self.guard.of)
        return running

    @gc_paused()
    def load(self, added: Sequence[RunningQuery], *, time: int, empty: bool) -> ChunkRows:
        """Load the windows of queries that were added, nothing if they start `empty`; return the first rows."""
        contents = self.window_contents(empty=empty)
        static = self.graph.chunk_of(self.graph.static_edges()) if self.graph.statics else None
        deltas: list[tuple[int, Delta]] = []
        for running in added:
            keys = self.running.keys(running)
            running.count_from([0 if key is None else self.graph.counted.number_of(key) for key in keys])
            if static is not None:
                running.load_static(static)
            number = self.running.number_of(running)
            chunk, inside = self.content_of(running, contents)
            try:
                deltas += [(number, delta) for delta in running.load(time, chunk, *inside)]
            except RowLimitError as error:  # a path query stops early
                raise self.row_guard.refusal(running.question.name, error.number) from None
        deltas = self.output.at_reported_time(deltas)
        deltas = self.output.report(deltas, np.array([time]))
        if (overflow := self.output.overflow(deltas)) is not None:
            raise self.row_guard.refusal(overflow.query, overflow.number)
        return self.output.rows(deltas)

    def content_of(self, running: RunningQuery, contents: WindowContents) -> tuple[Chunk, list[np.ndarray]]:
        """Return the edges that a query has to load, with the slides at which they leave each of its windows.

        These are the edges with labels that it reads, none where other queries have loaded them for it.
        """
        if running.has_content:
            return self.graph.chunk_of(_NONE), [_NONE for _ in running.windows]
        of_windows = list(zip(running.windows, self.running.keys(running), strict=True))
        tracked = None if self.multigraph is None else self.multigraph.tracker_of(running.question.name)
        chunk, slides = contents.of(of_windows, running.reads, is_ordered=is_ordered(running.question), tracked=tracked)
        are_of_facts = [reading.is_of_facts for reading in readings_of(running.question)]
        if not any(are_of_facts):
            return chunk, slides
        # An unbounded window of facts has no edges of the stream.
        is_inside = contents.are_facts(chunk)
        for (window, key), mine, is_of_facts in zip(of_windows, slides, are_of_facts, strict=True):
            is_inside |= (mine > self.graph.current_slide(window, key)) & (not is_of_facts)
        return Chunk(*(column[is_inside] for column in chunk)), [mine[is_inside] for mine in slides]

    def window_contents(self, *, empty: bool = False) -> WindowContents:
        """Return the edges in windows now."""
        parallel = None if self.multigraph is None else self.multigraph.parallel_columns(self.graph)
        is_fact = self.labels.are_facts()
        return WindowContents(self.graph, empty=empty, parallel=parallel, is_fact=is_fact)

    def remove(self, *names: str) -> None:
        """Remove queries, with everything that only they needed."""
        queries = [self.running.find(name) for name in names]
        reports = map(self.running.reports_of, queries)
        dropped: list[Any] = [one for one in reports if one is not None]
        workers = {part: part.workers for running in queries for part in self.running.parts_of(running)}
        questions = [running.question for running in queries]
        is_less_read = self.running.remove(names, self.labels, self.graph)
        if self.multigraph is not None:
            self.multigraph.remove(names)
        self.collector.drop_edges(self.running.narrow(questions, self.labels, self.graph))
        dropped += [worker for part, mine in workers.items() if not self.running.has_part(part) for worker in mine]
        self.guard.drop(dropped)
        if is_less_read:
            self.collector.collect()

    def retain_window(self, window: Window | UnboundedWindow) -> None:
        """Keep all edges of a window, in the integers of the stream, from the first tuple on."""
        self.keep_window = window
        if self.multigraph is not None:
            self.multigraph.keep_window = window
        self.running.retain_window(window, self.labels, self.graph)

    def check(self) -> None:
        """Assert the invariants of every part."""
        self.vertices._check()
        self.labels._check()
        self.graph._check()
        labels = {self.labels.names[number] for number in np.flatnonzero(self.graph.edges.label_degree).tolist()}
        assert labels <= self.labels.ids.keys(), "an edge bears a label that was forgotten"
        if self.multigraph is not None:
            self.multigraph._check()
        for worker in self.running.workers:
            worker._check()


def _named_ends(tuples: Columns, first: int, count: int) -> np.ndarray | None:
    """Return which tuples get ids for their ends whatever their label (uint8); None if only those with labels that are read.

    Where edges have ids, an edge is known under a label that no query reads, too; a delete with an id needs no ends.
    """
    if tuples.edge is None:
        return None
    has_id = np.asarray(tuples.edge.slice(first, count).is_valid())
    names: np.ndarray = (~has_id | (tuples.delete[first : first + count] == 0)).astype(np.uint8)
    return names


def _events_of(tuples: Columns, first: int, count: int) -> np.ndarray | None:
    """Return for each of `count` tuples from `first` on the first one of its event; None where each is an event."""
    if tuples.first is None:
        return None
    places = tuples.first[first : first + count]
    if first:
        places = places - first
    is_last_alone = places[-1] == count - 1  # most often not: then the others need not be compared
    return None if is_last_alone and len(begins_of_events(places)) == count else places


class _NextChunk(NamedTuple):
    """The next chunk of a push, to whose names another thread gives ids."""

    tuples: int
    naming: Future[NamedChunk]

    def wait(self) -> None:
        """Wait until its names have ids. An error in them is raised when the chunk is applied."""
        wait([self.naming])

    @property
    def named_chunk(self) -> NamedChunk | None:
        """The chunk with the ids of its names; None if a name is invalid. Waits for the thread."""
        return self.naming.result() if self.naming.exception() is None else None

    def drop(self, intake: Intake) -> None:
        """Release its new names, since it will not be applied."""
        if (named := self.named_chunk) is not None:
            intake.forget(named)
