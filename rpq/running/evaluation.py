"""What an engine holds of its stream, and how a chunk of tuples goes through it.

Names become ids (`VertexDictionary`), ids become edges (`SnapshotGraph`), and each query's indexes take the edges in;
what they report gets its names back before any id can be given to another vertex.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.views import view
from rpq.errors import MemoryLimitError, QueryError, RegistrationError
from rpq.paths.index import layout
from rpq.paths.index.delta import DeltaIndex, Part
from rpq.paths.path_query import RunningQuery
from rpq.paths.program import Compiled
from rpq.paths.witness_text import paths_of
from rpq.queries.query import Query, Vertex
from rpq.results.changes import Block, Rows, SetAside
from rpq.results.naming import block_of
from rpq.stream.chunk import Chunk
from rpq.stream.columns import EARLIEST, Columns
from rpq.stream.labels import LabelDictionary
from rpq.stream.single import FEW, SingleTuple, rows_of
from rpq.stream.snapshot import LATE, SnapshotGraph
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import INT64_MAX

_LARGEST_CHUNK = 32768
_SMALLEST_CHUNK = 4096


_NO_ROWS = np.zeros(2, np.int64)
_NONE = np.zeros(0, np.int64)
_FIRST = np.zeros(1, np.int64)


class Applied(NamedTuple):
    """What a chunk of tuples did: rows, how many added and removed, which tuples were late, and what ended it, if anything."""

    blocks: list[Block | Rows]
    counts: np.ndarray
    late_rows: np.ndarray
    failure: MemoryLimitError | None


class Evaluation:
    """Vertex names, snapshot graph, labels and running queries of one stream."""

    def __init__(
        self, *, threads: int, memory_limit: int, witness: bool, share: tuple[int, int], capacity: int
    ) -> None:
        self.limit = memory_limit
        self.witness = witness
        self.share = share
        self.vertices = VertexDictionary(capacity=capacity)
        self.graph = SnapshotGraph(capacity=capacity)
        self.labels = LabelDictionary(remembered=16 * capacity)
        self.running: dict[str, RunningQuery] = {}
        self.overruns: list[SetAside] = []
        self.latest = INT64_MAX  # the largest timestamp whose sum with every window's size fits into 64 bits
        self.midway = False  # whether the last call began to apply tuples and did not come to their end
        self._single = SingleTuple()
        self._singles = 0  # since the last look whether to collect, which costs as much as a tuple
        self._look_every = min(64, capacity)
        self._may_overrun = False  # whether a query has simple paths
        self._vertex_room = 0  # vertex ids below need no more room, as of the last time when some was made
        self._is_divided = False  # and whether a query must be told of every new one
        self._bytes_of: dict[DeltaIndex, int] = {}  # as of the last look at each
        self._grown: list[RunningQuery] = []  # and not looked at since
        self._threads = threads
        self._capacity = capacity
        self._row = 0  # of the push, at which the chunk begins
        self._collected_at: int | None = None
        self._interned = 0  # names that came since the last collection
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    # --- tuples ----------------------------------------------------------------------------------------------

    @property
    def chunk_size(self) -> int:
        """Tuples between two chances to collect: about half a window."""
        return int(min(_LARGEST_CHUNK, max(_SMALLEST_CHUNK, self.graph.held // 2)))

    def apply(self, tuples: Columns, first: int, count: int, *, collect: bool) -> Applied:
        """Apply `count` tuples of a push from `first` on; without `collect` rows are counted, not kept."""
        self._row = first
        chunk, fresh = self._chunk(tuples, first, count)
        view_of_chunk = view(chunk)
        # What can fail for want of room or because of a name has been done: from here to the rows, all or nothing.
        self.midway = True
        outcome = self.graph.resolve(view_of_chunk, count)
        jobs = [(number, index) for number, running in enumerate(self.running.values()) for index in running.indexes]
        parts, failure = self._apply_to_indexes(jobs, chunk, view_of_chunk)
        counts = sum((part.counts() for _, part in parts), np.zeros(2, np.int64))
        blocks = self.blocks(parts) if collect else []
        self.note_overruns(first)
        self._interned += len(fresh)
        if failure is None:
            self.collect_if_due()
            self.midway = False
        return Applied(blocks, counts, np.flatnonzero(outcome == LATE) + first, failure)

    def apply_one(
        self, source: Vertex, target: Vertex, label: str, timestamp: int, delete: bool, *, collect: bool
    ) -> Applied:
        """Apply one tuple, all of whose values are as they should be: what `apply` does, at a small part of its cost."""
        self._row = 0
        number = self.labels.ids.get(label, -1)
        if number < 0:
            number = self.labels.add(label)
            self._admit_labels(np.array([number]))
        u = v = -1
        fresh: list[int] = []
        if self.graph.horizons.wanted[number]:
            try:
                u, is_new = self.vertices.intern_one(source)
                if is_new:
                    fresh.append(u)
                v, is_new = self.vertices.intern_one(target)
                if is_new:
                    fresh.append(v)
                if self.graph.is_full or (fresh and (self._is_divided or max(fresh) >= self._vertex_room)):
                    self.make_room(1, np.array(fresh, np.int32))
            except BaseException:
                self.vertices.release(np.array(fresh, np.int32))
                raise
        single = self._single
        single.fill(u, v, number, timestamp, delete)
        self.midway = True
        self.graph.resolve_one(single.view, single.outcome)
        parts = []
        failure = None
        for place, running in enumerate(self.running.values()):
            for index in running.indexes:
                try:
                    index.apply(single.chunk, single.view, self.graph.edges)
                except MemoryLimitError as problem:
                    failure = failure or problem
                if index.has_rows:
                    parts.append((place, index.part()))
        counts = _NO_ROWS
        blocks: list[Block | Rows] = []
        if parts and failure is None:
            rows = sum(len(part.pairs) for _, part in parts)
            if rows <= FEW and collect and not self.witness:
                block = rows_of(parts, self.vertices)
                removed = sum(block.removed)
                counts, blocks = np.array([rows - removed, removed]), [block]
            else:
                counts = sum((part.counts() for _, part in parts), _NO_ROWS)
                blocks = self.blocks(parts) if collect else []
        if self._may_overrun:
            self.note_overruns(0)
        self._interned += len(fresh)
        if failure is None:
            self._singles += 1
            if self._singles >= self._look_every:
                self._singles = 0
                self.collect_if_due()
            self.midway = False
        return Applied(blocks, counts, _FIRST if single.outcome[0] == LATE else _NONE, failure)

    def _chunk(self, tuples: Columns, first: int, count: int) -> tuple[Chunk, np.ndarray]:
        """Tuples of a push with ids for names, and the new vertex ids; there is room for all of them afterwards."""
        label = self._label_ids(tuples.label[first : first + count])
        wanted = self.graph.wanted(label)
        fresh = np.zeros(0, np.int32)
        try:
            source, fresh = self.vertices.intern(tuples.source[first : first + count], wanted)
            target, more = self.vertices.intern(tuples.target[first : first + count], wanted)
            fresh = np.concatenate([fresh, more])
            self.make_room(count, fresh)
        except BaseException:
            # No index may have been told about them: they are new again the next time.
            self.vertices.release(fresh)
            raise
        chunk = Chunk(
            source=source,
            target=target,
            label=label,
            timestamp=tuples.timestamp[first : first + count],
            delete=tuples.delete[first : first + count],
            edge=np.empty(count, np.int32),
        )
        return chunk, fresh

    def make_room(self, count: int, fresh: np.ndarray) -> None:
        """Let `count` more tuples be applied; `fresh` vertex ids are those of new names."""
        self.graph.make_room(count, self.vertices.count)
        for running in self.running.values():
            running.make_room(self.vertices, fresh, self.graph)
        self._vertex_room = min([self.graph.vertex_room, *(running.vertex_room for running in self.running.values())])
        self._is_divided = any(running.is_divided for running in self.running.values())

    def advance(self, time: int) -> list[Block]:
        """Move the stream time; the rows."""
        self._row = 0
        self.midway = True
        self.graph.advance(time)
        parts = [
            (number, index.advance(time))
            for number, running in enumerate(self.running.values())
            for index in running.indexes
        ]
        blocks = self.blocks(parts)
        self.note_overruns(None)
        self._collect_if_quiet()
        self.midway = False
        return blocks

    def _label_ids(self, label: pa.DictionaryArray) -> np.ndarray:
        ids, new = self.labels.intern(label)
        if new:
            self._admit_labels(np.array(new))
        return ids

    def _admit_labels(self, labels: np.ndarray) -> None:
        """Tell queries and graph what label ids stand for."""
        names = [self.labels.names[number] for number in labels.tolist()]
        for running in self.running.values():
            running.set_labels(labels, names)
        self.graph.set_labels(labels, self._relevant(labels))

    def take_labels(self, names: list[str], lost: list[int], *, forgotten: int) -> None:
        """Know these labels, the largest timestamp of a lost insert of each, and that of those that were forgotten."""
        labels = np.array([self.labels.add(name) for name in names], np.int64)
        self._admit_labels(labels)
        self.graph.horizons.lost[labels] = lost
        self.labels.forgotten = forgotten

    def _relevant(self, labels: np.ndarray) -> np.ndarray:
        """Which queries want which labels: (label, query), boolean."""
        relevant = np.zeros((len(labels), len(self.running)), bool)
        for number, running in enumerate(self.running.values()):
            relevant[:, number] = running.wants(labels)
        return relevant

    def _apply_to_indexes(
        self, jobs: list[tuple[int, DeltaIndex]], chunk: Chunk, view_of_chunk: Any
    ) -> tuple[list[tuple[int, Part]], MemoryLimitError | None]:
        """Let every index apply a chunk, in threads if there are any; what they report up to the first failure."""

        met: list[MemoryLimitError] = []
        waiting = iter(jobs)

        def work() -> None:
            for _, index in waiting:
                try:
                    index.apply(chunk, view_of_chunk, self.graph.edges)
                except MemoryLimitError as failure:
                    met.append(failure)

        # The calling thread works as well: waking another takes longer than many a chunk.
        others = [self._pool.submit(work) for _ in range(self._threads - 1)] if self._pool is not None else []
        try:
            work()
        finally:
            for other in others:
                other.result()
        if not met:
            return [(number, index.part()) for number, index in jobs], None
        first = min(met, key=lambda failure: failure.row)
        return [(number, index.part(before=first.row - self._row)) for number, index in jobs], first

    # --- queries ---------------------------------------------------------------------------------------------

    def named(self, name: str | None) -> RunningQuery:
        """The query of that name, or the only one."""
        if name is None and len(self.running) == 1:
            return next(iter(self.running.values()))
        if name is None or name not in self.running:
            known = ", ".join(map(repr, self.running)) or "none"
            raise QueryError(f"no query named {name!r}; the registered ones are: {known}")
        return self.running[name]

    def refuse_if_unfit(self, query: Query) -> None:
        """Raise if this is no query, or has the name of another."""
        if not isinstance(query, Query):
            raise QueryError(f"a query is a rpq.Query(expression, window=…), not {query!r}")
        if query.name in self.running:
            raise QueryError(f"there is a query named {query.name!r} already; give this one another name")

    def add(self, *queries: Query) -> None:
        """Let queries run, from an empty window. O(labels · queries), those that run already included."""
        added = [self._start(query) for query in queries]
        self.set_queries()
        used = np.arange(self.vertices.count)
        used = used[self.vertices.names.length[: len(used)] >= 0]
        for running in added:
            running.make_room(self.vertices, used, self.graph)
        self._vertex_room = 0
        self._grown += added

    def _start(self, query: Query) -> RunningQuery:
        self.refuse_if_unfit(query)

        def guard(size: int, place: int) -> None:
            self._guard(running, size, self._row + place)

        running = RunningQuery(
            query,
            threads=self._threads,
            share=self.share,
            witness=self.witness,
            capacity=self._capacity,
            guard=guard,
        )
        known = np.fromiter(self.labels.ids.values(), np.int64, len(self.labels))
        running.set_labels(known, list(self.labels.ids))
        self.running[query.name] = running
        return running

    def load(self, running: RunningQuery, *, time: int, empty: bool) -> list[Block]:
        """Let the query that was added last take in what its window holds, or nothing if it starts `empty`; its first rows."""
        window, timestamp = running.query.window, self.graph.edges.timestamp
        held = np.zeros(0, np.int64) if empty else self.graph.live_edges()
        held = held[timestamp[held] > window.lower_bound(time)]
        slides = -(-(timestamp[held] + window.size) // window.slide)
        number = len(self.running) - 1
        parts = []
        for index in running.indexes:
            index.advance(time)
            parts.append((number, index.load(self.graph.chunk_of(held), slides)))
        return self.blocks(parts)

    def remove(self, name: str) -> None:
        """Take a query away, with everything that only it needed."""
        del self.running[name]
        self._bytes_of, self._grown = {}, list(self.running.values())
        self.set_queries()
        self.collect()

    def set_queries(self) -> None:
        """Tell the graph about the queries and which labels each wants. O(labels · queries)."""
        windows = [running.query.window for running in self.running.values()]
        self._may_overrun = any(running.simple for running in self.running.values())
        self.latest = INT64_MAX - max((window.size for window in windows), default=0)
        labels = np.fromiter(self.labels.ids.values(), np.int64, len(self.labels))
        relevant = np.zeros((self.labels.room, len(windows)), bool)
        relevant[labels] = self._relevant(labels)
        self.graph.set_queries(windows, relevant)

    def refuse_if_lost(self, query: Query, *, told: Callable[[int], Any]) -> None:
        """Raise if the window of a new query would hold an edge that was not kept; times are `told` as the stream's are."""
        time = self.graph.time
        if time is None:
            return
        window = query.window
        compiled = Compiled(query.dfa)
        lost = [
            int(self.graph.horizons.lost[number])
            for label, number in self.labels.ids.items()
            if compiled.is_relevant(label)
        ]
        if any(symbol.label not in self.labels.ids for symbol in query.dfa.symbols):
            # One that nothing is known of may be among those that were forgotten.
            lost.append(self.labels.forgotten)
        latest = max(lost, default=EARLIEST - 1)
        if latest >= EARLIEST and latest > window.lower_bound(time):
            available = told(window.expiry_slide(latest) * window.slide)
            complete = told(window.expiry_slide(time) * window.slide)
            raise RegistrationError(
                f"query {query.name!r}: its window would hold edges that were not kept; it can be registered from "
                f'{available} on, if no more are lost until then, or at once with start="empty", which is '
                f"complete from {complete} on",
                available_from=available,
            )

    # --- rows ------------------------------------------------------------------------------------------------

    def rows(self) -> np.ndarray:
        """Rows added and removed so far by the queries that run."""
        running = self.running.values()
        return np.array([sum(r.total(field) for r in running) for field in (layout.ADDED, layout.REMOVED)], np.int64)

    def blocks(self, parts: list[tuple[int, Part]]) -> list[Block]:
        """The rows of parts (number of the query, part) with their names, as none or one block."""
        parts = [(number, part) for number, part in parts if len(part.pairs)]
        if not parts:
            return []
        witnesses = None
        if self.witness:
            labels = self.labels.names
            witnesses = [paths_of(part, self.graph.edges, self.vertices, labels) for _, part in parts]
        return [block_of(parts, self.vertices, witnesses)]

    def name_of(self, vertex: int) -> Vertex:
        """The name of a vertex."""
        return self.vertices.names_of(np.array([vertex])).to_pylist()[0]

    def note_overruns(self, first: int | None) -> None:
        """Remember the roots that went over their budget in the chunk from row `first` on; their names may go soon."""
        for running in self.running.values():
            found = [overrun for index in running.simple for overrun in index.overruns]
            for index in running.simple:
                index.overruns.clear()
            reports = [
                SetAside(
                    running.query.name,
                    self.name_of(overrun.root),
                    overrun.time,
                    None if first is None or overrun.place < 0 else first + overrun.place,
                    overrun.size,
                )
                for overrun in found
            ]
            self.overruns += sorted(reports, key=lambda r: (r.row or 0, r.timestamp, str(r.root)))

    # --- memory ----------------------------------------------------------------------------------------------

    def collect_if_due(self) -> None:
        """Collect where enough tuples have come since the last time to pay for it."""
        if self.graph.wants_collection() or self._holds_unused_names() or self.labels.wants_to_forget():
            self.collect()

    def collect(self) -> None:
        """Let go of everything that has left every window."""
        for running in self.running.values():
            for index in running.indexes:
                index.sweep()
        unused = self.graph.collect()
        unused = unused[unused < self.vertices.count]
        self.vertices.release(unused[self.vertices.names.length[unused] >= 0])
        self.graph.forget_labels(self.labels.forget(self.graph.edges.bearing, self.graph.horizons.lost))
        self._collected_at = self.graph.time
        self._interned = 0

    def _holds_unused_names(self) -> bool:
        """Whether late tuples and deletes of absent edges, which bring names too, may have filled the dictionary."""
        return self._interned > max(4 * self._capacity, self.graph.held // 2, self.vertices.live // 2)

    def _collect_if_quiet(self) -> None:
        """Collect where time alone has emptied a good part of the windows."""
        time = self.graph.time
        if self._collected_at is None:
            self._collected_at = time
        shortest = min((running.query.window.size for running in self.running.values()), default=0)
        if time is not None and self._collected_at is not None and time - self._collected_at > shortest // 4:
            self.collect()

    def _guard(self, running: RunningQuery, size: int, row: int) -> None:
        """Refuse to let one index grow to `size` bytes if everything together would pass the limit."""
        # With thousands of queries, to look at each index whenever one grows would take all the time there is.
        grown, self._grown = [*self._grown, running], [running]
        self._bytes_of.update((index, index.nbytes) for r in grown for index in r.indexes)
        needed = self._bytes_with(size)
        if needed > self.limit:  # unless others have let go of some since
            self._bytes_of = {index: index.nbytes for r in self.running.values() for index in r.indexes}
            needed = self._bytes_with(size)
        if needed > self.limit:
            raise MemoryLimitError(
                f"query {running.query.name!r}: tuple {row} of the batch would make the engine grow to "
                f"{needed:,} bytes; the limit is {self.limit:,}. Restrict sources or targets, take a smaller window, "
                "or raise the limit",
                query=running.query.name,
                row=row,
                size=needed,
                limit=self.limit,
            )

    def _bytes_with(self, size: int) -> int:
        """Bytes of everything together once an index has grown to `size`. O(indexes)."""
        return self.vertices.nbytes + self.graph.nbytes + sum(self._bytes_of.values()) + size - size * 4 // 5

    def check(self) -> None:
        """Assert the invariants of every part."""
        self.vertices._check()
        self.labels._check()
        self.graph._check()
        for running in self.running.values():
            for index in running.indexes:
                index._check()
