"""The engine: tuples in, answer changes out."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from rpq.changes import Answers, Block, Changes, Path, SetAside
from rpq.clock import ticks_per_second
from rpq.columns import EARLIEST, Columns, columns_of, table_of_rows, time_of
from rpq.errors import (
    ConflictBudgetError,
    InputError,
    MemoryLimitError,
    QueryError,
    RegistrationError,
    RpqError,
)
from rpq.index import layout
from rpq.index.delta import DeltaIndex, Part
from rpq.index.layout import Chunk
from rpq.memory import default_limit
from rpq.query import Query, Vertex
from rpq.running import RunningQuery
from rpq.snapshot import LATE, SnapshotGraph
from rpq.statistics import Statistics, latency_quantile
from rpq.translate import block_of, pairs_as_names, path_of, paths_of
from rpq.vertices import VertexDictionary
from rpq.window import INT64_MAX

_LARGEST_CHUNK = 32768
_SIMPLE_FIGURES = ("conflicts", "conflicted_roots", "pairs_in_doubt", "searches", "roots_set_aside")
_SMALLEST_CHUNK = 1024


class Engine:
    """Evaluates persistent path queries over one stream.

    - Tuples: `push`, `push_rows`, `insert`, `delete`, `advance`, `run`
    - Queries: `queries`, `register`, `unregister`
    - What holds now: `time`, `answers`, `witness`, `statistics`
    - To go on later: `save`, `restore`

    `threads` divide the roots of each query. `memory_limit` (bytes, by default 70 % of the machine's memory)
    ends a push with a `MemoryLimitError` before the engine grows past it. With `witness` every row that adds a pair
    carries a path. Dates and times in the input become integers in `time_unit`. `share` (number, of how many)
    makes it answer only for a part of the roots: several engines over the same tuples divide the work.

    Not thread-safe: one thread at a time may call an engine.

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1)))
    >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2)]).rows()
    [Change(query='a/b*', source='x', target='y', timestamp=1, op='+'), \
Change(query='a/b*', source='x', target='z', timestamp=2, op='+')]
    >>> engine.witness("x", "z")
    Path(vertices=('x', 'y', 'z'), labels=('a', 'b'))
    """

    def __init__(
        self,
        *queries: Query,
        threads: int = 1,
        memory_limit: int | None = None,
        witness: bool = False,
        time_unit: Literal["s", "ms", "us", "ns"] = "us",
        share: tuple[int, int] = (0, 1),
        _capacity: int = 256,
    ) -> None:
        if threads < 1:
            raise QueryError(f"an engine has at least one thread, not {threads}")
        if not 0 <= share[0] < share[1]:
            raise QueryError(f"a share is (number, of how many) with 0 ≤ number < how many, not {share}")
        self._threads = threads
        self._limit = default_limit() if memory_limit is None else memory_limit
        self._witness = witness
        self._time_unit = time_unit
        self._share = share
        self._capacity = _capacity
        self._vertices = VertexDictionary(capacity=_capacity)
        self._graph = SnapshotGraph(capacity=_capacity)
        self._labels: dict[str, int] = {}
        self._running: dict[str, RunningQuery] = {}
        self._row = 0  # of the push, at which the chunk begins
        self._seconds = 0.0
        self._collected_at: int | None = None
        self._interned = 0  # names that came since the last collection
        self._left = np.zeros(2, np.int64)  # rows added and removed of queries that were unregistered
        self._failed = False
        self._overruns: list[SetAside] = []
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self.extra: dict[str, str] = {}
        for query in queries:
            self._add(query)

    # --- tuples ----------------------------------------------------------------------------------------------

    def push(self, data: Any = None, *, collect: bool = True, **columns: Any) -> Changes:
        """Apply tuples in the order given; the answer changes.

        `data` is an Arrow table or record batch, a pandas frame or a mapping of columns; columns may
        also be given by keyword: source, target, label, timestamp and optionally op ("+" or "-") or delete (bool).
        With `collect=False` changes are counted and not kept. Raises `InputError` at the first tuple that is
        not well-formed and `MemoryLimitError`; `changes` of the error are those of the tuples before it.
        """
        started = clock.perf_counter()
        self._usable()
        if data is None:
            data = columns
        elif columns:
            raise InputError("tuples come as one table or as columns by keyword, not as both")
        try:
            tuples = columns_of(data, time_unit=self._time_unit, latest=self._latest, kind=self._vertices.kind)
        except InputError as error:
            error.changes = self._changes([], 0, 0, [])
            raise
        blocks: list[Block] = []
        late: list[np.ndarray] = []
        counts = np.zeros(2, np.int64)
        failure: MemoryLimitError | None = None
        self._row = 0
        while self._row < len(tuples) and failure is None:
            count = min(len(tuples) - self._row, self._chunk_size)
            failure = self._push_chunk(tuples, self._row, count, collect, blocks, late, counts)
            self._row += count
        changes = self._changes(blocks, int(counts[0]), int(counts[1]), late)
        self._seconds += clock.perf_counter() - started
        if failure is not None:
            self._failed = True
            failure.changes = changes
            raise failure
        if tuples.error is not None:
            tuples.error.changes = changes
            raise tuples.error
        self._raise_overrun(changes)
        return changes

    def push_rows(self, rows: Iterable[tuple[Any, ...]], *, collect: bool = True) -> Changes:
        """Apply tuples (source, target, label, timestamp) or, with an op, (source, target, label, timestamp, op)."""
        table, error = table_of_rows(rows)
        changes = self.push(table, collect=collect)
        if error is not None:
            error.changes = changes
            raise error
        return changes

    def insert(self, source: Vertex, target: Vertex, label: str, timestamp: Any) -> Changes:
        """Apply one insert."""
        return self.push_rows([(source, target, label, timestamp)])

    def delete(self, source: Vertex, target: Vertex, label: str, timestamp: Any) -> Changes:
        """Apply one delete."""
        return self.push_rows([(source, target, label, timestamp, "-")])

    def run(self, reader: Iterable[Any], *, collect: bool = True) -> Iterator[Changes]:
        """Push every batch of a reader (or any iterable of tables); yields the changes of each."""
        for batch in reader:
            yield self.push(getattr(batch, "columns", batch) if hasattr(batch, "bytes_read") else batch, collect=collect)

    def advance(self, time: Any) -> Changes:
        """Move the stream time to `time` (an integer, a date or a time) if that is later: a quiet stream expires too."""
        started = clock.perf_counter()
        self._usable()
        time = time_of(time, time_unit=self._time_unit, latest=self._latest)
        added, removed = self._rows()
        self._graph.advance(time)
        try:
            parts = [
                (number, index.advance(time))
                for number, running in enumerate(self._running.values())
                for index in running.indexes
            ]
        except MemoryLimitError:
            self._failed = True
            raise
        blocks = self._blocks(parts)
        self._note_overruns(None)
        self._collect_if_quiet()
        now_added, now_removed = self._rows()
        self._seconds += clock.perf_counter() - started
        changes = self._changes(blocks, now_added - added, now_removed - removed, [])
        self._raise_overrun(changes)
        return changes

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def queries(self) -> tuple[Query, ...]:
        """The registered queries."""
        return tuple(running.query for running in self._running.values())

    def register(self, query: Query, *, start: Literal["window", "empty"] = "window") -> Changes:
        """Add a query; its first rows are its answers over what its window holds, with the present stream time.

        Raises `RegistrationError` if an edge that its window would hold was not kept, because no query needed it
        then; it names the time from which the query can be registered. With start="empty" the query begins with
        an empty window.
        """
        self._usable()
        if start not in ("window", "empty"):
            raise QueryError(f"a query starts from the 'window' or 'empty', not {start!r}")
        if query.name in self._running:
            raise QueryError(f"there is a query named {query.name!r} already; give this one another name")
        time = self._graph.time
        if time is not None and time > INT64_MAX - query.window.size:
            raise InputError(f"the stream time {time} and the size of the window {query.window.size} exceed 64 bits")
        self._collect()
        if start == "window":
            self._refuse_if_lost(query)
        running = self._add(query)
        if time is None:
            return self._changes([], 0, 0, [])
        edges = self._graph.edges
        held = self._graph.live_edges() if start == "window" else np.zeros(0, np.int64)
        held = held[edges.timestamp[held] > query.window.lower_bound(time)]
        slides = -(-(edges.timestamp[held] + query.window.size) // query.window.slide)
        number = len(self._running) - 1
        parts = []
        try:
            for index in running.indexes:
                index.advance(time)
                parts.append((number, index.load(self._chunk_of(held), slides)))
        except MemoryLimitError:
            self._remove(query.name)
            raise
        added = running.total(layout.ADDED)
        self._note_overruns(None)
        changes = self._changes(self._blocks(parts), added, 0, [])
        self._raise_overrun(changes)
        return changes

    def unregister(self, name: str) -> None:
        """Take a query away, with everything that only it needed."""
        running = self._named(name)
        self._collect()
        self._left += running.total(layout.ADDED), running.total(layout.REMOVED)
        self._remove(name)

    def restore_root(self, root: Vertex, query: str | None = None) -> Changes:
        """Let a root answer again that was set aside because its simple paths took more than the budget.

        Its answers come as rows with the present stream time. If they take more than the budget again, it stays set aside,
        as the error or `set_aside` of the changes says. A root that is not set aside changes nothing.
        """
        self._usable()
        running = self._named(query)
        number = list(self._running).index(running.query.name)
        vertex = self._vertices.id_of(root)
        before = running.total(layout.ADDED)
        restored = [index for index in running.simple if vertex >= 0 and index.restore_root(vertex)]
        blocks = self._blocks([(number, index.part()) for index in restored])
        self._note_overruns(None)
        changes = self._changes(blocks, running.total(layout.ADDED) - before, 0, [])
        self._raise_overrun(changes)
        return changes

    def set_aside(self, query: str | None = None) -> list[Vertex]:
        """The roots that are set aside now, because their simple paths took more than the budget."""
        return [self._name_of(root) for index in self._named(query).simple for root in index.aside]

    # --- what holds now --------------------------------------------------------------------------------------

    @property
    def time(self) -> int | None:
        """The stream time: the largest timestamp seen, None before the first tuple."""
        return self._graph.time

    def answers(self, query: str | None = None) -> Answers:
        """The answers at this moment, of the query with that name (or of the only one). O(size of the index)."""
        indexes = self._named(query).indexes
        pairs = np.concatenate([index.answers() for index in indexes])
        return Answers(*pairs_as_names(pairs, self._vertices))

    def witness(self, source: Vertex, target: Vertex, query: str | None = None) -> Path | None:
        """A path that makes (source, target) an answer, one that will last longest; None if it is no answer.

        The first call builds the index anew to keep supports, if it does not yet. O(length × degree)
        in most cases.
        """
        running = self._named(query)
        ends = self._vertices.id_of(source), self._vertices.id_of(target)
        if min(ends) < 0 or (running.query.targets is not None and target not in running.query.targets):
            return None
        for index in running.indexes:
            try:
                steps = index.witness(*ends, self._graph.edges)
            except MemoryLimitError:
                self._failed = True
                raise
            if steps is not None:
                return path_of(ends[0], steps, self._graph.edges, self._vertices, list(self._labels))
        return None

    def statistics(self, query: str | None = None) -> Statistics:
        """Counts and measures of the engine as a whole, or of one query. O(size of the index)."""
        chosen = list(self._running.values()) if query is None else [self._named(query)]
        live = [[index.live() for index in running.indexes] for running in chosen]
        if query is None:
            counts = [int(n) for n in self._graph.outcomes]
            edges_live = len(self._graph.live_edges())
        else:
            fields = (layout.INSERTED, layout.REFRESHED, layout.DELETED, layout.ABSENT, layout.LATE, layout.IRRELEVANT)
            counts = [chosen[0].count(field) for field in fields]
            edges_live = live[0][0][2]
        left = self._left.tolist() if query is None else (0, 0)
        latency = sum((r.indexes[0].index.latency for r in chosen), np.zeros(layout.LATENCY_BUCKETS, np.int64))
        rate = ticks_per_second() or 1.0
        inserted, refreshed, deleted, absent, late, irrelevant = counts
        return Statistics(
            tuples=sum(counts),
            inserted=inserted,
            refreshed=refreshed,
            deleted=deleted,
            absent_deletes=absent,
            late=late,
            irrelevant=irrelevant,
            rows_added=sum(running.total(layout.ADDED) for running in chosen) + left[0],
            rows_removed=sum(running.total(layout.REMOVED) for running in chosen) + left[1],
            answers_live=sum(index[1] for running in live for index in running),
            edges_live=edges_live,
            vertices_live=self._vertices.live,
            index_cells=sum(index[0] for running in live for index in running),
            index_bytes=sum(running.index_bytes for running in chosen),
            engine_seconds=self._seconds,
            latency_p50_us=latency_quantile(latency, 0.5, rate),
            latency_p99_us=latency_quantile(latency, 0.99, rate),
            **{name: sum(r.figures(name) for r in chosen) for name in _SIMPLE_FIGURES},
        )

    # --- to go on later --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> None:
        """Write the state to a file, atomically; `extra` texts come back as `engine.extra` of the restored engine."""
        from rpq.state import save

        self._usable()
        save(self, os.fspath(path), dict(extra or {}))

    @classmethod
    def restore(
        cls, path: str | os.PathLike[str], *, threads: int = 1, memory_limit: int | None = None, witness: bool = False
    ) -> Engine:
        """An engine that goes on as the one saved to `path` would have. Raises `StateFormatError`.

        The index is built anew from the window; threads may differ from those of the engine that was saved.
        """
        from rpq.state import restore

        return restore(cls, os.fspath(path), threads=threads, memory_limit=memory_limit, witness=witness)

    # --- inside ----------------------------------------------------------------------------------------------

    @property
    def _latest(self) -> int:
        """The largest timestamp whose sum with every window's size fits into 64 bits."""
        return INT64_MAX - max((query.window.size for query in self.queries), default=0)

    @property
    def _chunk_size(self) -> int:
        """Tuples between two chances to collect: about half a window."""
        edges = self._graph.edges.fields
        return int(min(_LARGEST_CHUNK, max(_SMALLEST_CHUNK, (edges[0] - edges[1]) // 2)))

    def _usable(self) -> None:
        if self._failed:
            raise RpqError("this engine has met its memory limit in the middle of a tuple and takes no more of them")

    def _named(self, name: str | None) -> RunningQuery:
        if name is None and len(self._running) == 1:
            return next(iter(self._running.values()))
        if name is None or name not in self._running:
            known = ", ".join(map(repr, self._running)) or "none"
            raise QueryError(f"no query named {name!r}; the registered ones are: {known}")
        return self._running[name]

    def _rows(self) -> tuple[int, int]:
        running = self._running.values()
        return sum(r.total(layout.ADDED) for r in running), sum(r.total(layout.REMOVED) for r in running)

    def _add(self, query: Query) -> RunningQuery:
        if not isinstance(query, Query):
            raise QueryError(f"a query is a rpq.Query(expression, window=…), not {query!r}")
        if query.name in self._running:
            raise QueryError(f"there is a query named {query.name!r} already; give this one another name")

        def guard(size: int, place: int) -> None:
            self._guard(running, size, self._row + place)

        running = RunningQuery(
            query,
            threads=self._threads,
            share=self._share,
            witness=self._witness,
            capacity=self._capacity,
            guard=guard,
        )
        self._running[query.name] = running
        self._set_queries()
        used = np.arange(self._vertices.count)
        running.make_room(self._vertices, used[self._vertices.names.length[: len(used)] >= 0], self._graph)
        return running

    def _remove(self, name: str) -> None:
        del self._running[name]
        self._set_queries()
        self._collect()

    def _set_queries(self) -> None:
        """Tell graph and indexes about queries and labels."""
        labels = list(self._labels)
        relevant = np.array([[r.compiled.is_relevant(l) for r in self._running.values()] for l in labels], bool)
        relevant = relevant.reshape(len(labels), len(self._running))
        self._graph.set_queries([query.window for query in self.queries], relevant)
        for running in self._running.values():
            running.set_labels(labels)

    def _guard(self, running: RunningQuery, size: int, row: int) -> None:
        """Refuse to let one index grow to `size` bytes if everything together would pass the limit."""
        needed = self._vertices.nbytes + self._graph.nbytes + size
        needed += sum(index.nbytes for r in self._running.values() for index in r.indexes) - size * 4 // 5
        if needed > self._limit:
            raise MemoryLimitError(
                f"query {running.query.name!r}: tuple {row} of the batch would make the engine grow to "
                f"{needed:,} bytes; the limit is {self._limit:,}. Restrict sources or targets, take a smaller window, "
                "or raise the limit",
                query=running.query.name,
                row=row,
                size=needed,
                limit=self._limit,
            )

    def _label_ids(self, label: pa.DictionaryArray) -> np.ndarray:
        names = label.dictionary.to_pylist()
        used = names if all(name in self._labels for name in names) else label.unique().to_pylist()
        new = [name for name in used if name not in self._labels]
        if new:
            self._labels.update({name: len(self._labels) + i for i, name in enumerate(dict.fromkeys(new))})
            self._set_queries()
        ids = np.array([self._labels.get(name, 0) for name in names] or [0], np.int32)
        return ids[label.indices.to_numpy(zero_copy_only=False)]

    def _push_chunk(
        self,
        tuples: Columns,
        first: int,
        count: int,
        collect: bool,
        blocks: list[Block],
        late: list[np.ndarray],
        counts: np.ndarray,
    ) -> MemoryLimitError | None:
        """Apply `count` tuples from `first` on; the error that ended them, if any."""
        label = self._label_ids(tuples.label[first : first + count])
        horizons = self._graph.horizons
        wanted = horizons.member.any(axis=1)[horizons.group[label]].astype(np.uint8)
        source, fresh_sources = self._vertices.intern(tuples.source[first : first + count], wanted)
        target, fresh_targets = self._vertices.intern(tuples.target[first : first + count], wanted)
        chunk = Chunk(
            source=source,
            target=target,
            label=label,
            timestamp=tuples.timestamp[first : first + count],
            delete=tuples.delete[first : first + count],
            edge=np.empty(count, np.int32),
        )
        outcome = self._graph.resolve(chunk, self._vertices.count)
        fresh = np.concatenate([fresh_sources, fresh_targets])
        jobs: list[tuple[int, DeltaIndex]] = []
        for number, running in enumerate(self._running.values()):
            running.make_room(self._vertices, fresh, self._graph)
            jobs += [(number, index) for index in running.indexes]
        parts, failure = self._apply(jobs, chunk)
        for _, part in parts:
            counts += part.counts()
        if collect:
            blocks += self._blocks(parts)
        self._note_overruns(first)
        if (outcome == LATE).any():
            late.append(np.flatnonzero(outcome == LATE) + first)
        self._interned += len(fresh)
        if failure is None and (self._graph.wants_collection() or self._holds_unused_names()):
            self._collect()
        return failure

    def _apply(
        self, jobs: list[tuple[int, DeltaIndex]], chunk: Chunk
    ) -> tuple[list[tuple[int, Part]], MemoryLimitError | None]:
        """Let every index apply a chunk, in threads if there are any; what they report up to the first failure."""

        met: list[MemoryLimitError] = []
        waiting = iter(jobs)

        def work() -> None:
            for _, index in waiting:
                try:
                    index.apply(chunk, self._graph.edges)
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

    def _blocks(self, parts: list[tuple[int, Part]]) -> list[Block]:
        """The rows of parts with their names, as none or one block."""
        parts = [(number, part) for number, part in parts if len(part.pairs)]
        if not parts:
            return []
        witnesses = None
        if self._witness:
            labels = list(self._labels)
            witnesses = [paths_of(part, self._graph.edges, self._vertices, labels) for _, part in parts]
        return [block_of(parts, self._vertices, witnesses)]

    def _changes(self, blocks: list[Block], added: int, removed: int, late: list[np.ndarray]) -> Changes:
        changes = Changes(
            list(self._running),
            blocks,
            added=added,
            removed=removed,
            late_rows=np.concatenate(late) if late else np.zeros(0, np.int64),
            kind=self._vertices.kind,
        )
        changes.set_aside, self._overruns = self._overruns, []
        return changes

    def _name_of(self, vertex: int) -> Vertex:
        return self._vertices.names_of(np.array([vertex])).to_pylist()[0]

    def _note_overruns(self, first: int | None) -> None:
        """Remember the roots that went over their budget; their names may go with the next collection."""
        for running in self._running.values():
            found = [overrun for index in running.simple for overrun in index.overruns]
            for index in running.simple:
                index.overruns.clear()
            reports = [
                SetAside(
                    running.query.name,
                    self._name_of(overrun.root),
                    overrun.time,
                    None if first is None or overrun.place < 0 else first + overrun.place,
                    overrun.size,
                )
                for overrun in found
            ]
            self._overruns += sorted(reports, key=lambda r: (r.row or 0, r.timestamp, str(r.root)))

    def _raise_overrun(self, changes: Changes) -> None:
        for report in changes.set_aside:
            query = self._running[report.query].query
            if query.on_budget == "error":
                place = "" if report.row is None else f"at tuple {report.row} of the batch, "
                error = ConflictBudgetError(
                    f"query {report.query!r}: {place}at time {report.timestamp}, the simple paths from {report.root!r} took "
                    f"{report.size:,} nodes; the budget is {query.simple_budget:,}. That root is set aside until its "
                    'conflicts have left the window. Raise simple_budget, or accept this with on_budget="set_aside"',
                    query=report.query,
                    root=report.root,
                    row=report.row,
                    size=report.size,
                    budget=query.simple_budget,
                )
                error.changes = changes
                raise error

    def _chunk_of(self, edges: np.ndarray) -> Chunk:
        """Edges of the graph as a chunk."""
        held = self._graph.edges
        return Chunk(
            source=held.source[edges],
            target=held.target[edges],
            label=held.label[edges],
            timestamp=held.timestamp[edges],
            delete=np.zeros(len(edges), np.uint8),
            edge=edges.astype(np.int32),
        )

    def _collect(self) -> None:
        """Let go of everything that has left every window."""
        for running in self._running.values():
            for index in running.indexes:
                index.sweep()
        unused = self._graph.collect()
        unused = unused[unused < self._vertices.count]
        self._vertices.release(unused[self._vertices.names.length[unused] >= 0])
        self._collected_at = self._graph.time
        self._interned = 0

    def _holds_unused_names(self) -> bool:
        """Whether late tuples and deletes of absent edges, which bring names too, may have filled the dictionary."""
        edges = self._graph.edges.fields
        return self._interned > max(768, (edges[0] - edges[1]) // 3, self._vertices.live // 2)

    def _collect_if_quiet(self) -> None:
        """Collect where time alone has emptied a good part of the windows."""
        time = self._graph.time
        if self._collected_at is None:
            self._collected_at = time
        shortest = min((query.window.size for query in self.queries), default=0)
        if time is not None and self._collected_at is not None and time - self._collected_at > shortest // 4:
            self._collect()

    def _refuse_if_lost(self, query: Query) -> None:
        """Raise if the window of a new query would hold an edge that was not kept."""
        time = self._graph.time
        if time is None:
            return
        window = query.window
        dfa = query.dfa
        lost = [
            int(self._graph.horizons.lost[number])
            for label, number in self._labels.items()
            if any((dfa.transitions[:, c] >= 0).any() for c in {dfa.column(label), dfa.column(label, True)} - {-1})
        ]
        latest = max(lost, default=EARLIEST - 1)
        if latest >= EARLIEST and latest > window.lower_bound(time):
            available = window.expiry_slide(latest) * window.slide
            complete = window.expiry_slide(time) * window.slide
            raise RegistrationError(
                f"query {query.name!r}: its window would hold edges that were not kept; it can be registered from "
                f'{available} on, if no more are lost until then, or at once with start="empty", which is '
                f"complete from {complete} on",
                available_from=available,
            )

    def _check(self) -> None:
        """Assert the invariants of every part."""
        self._vertices._check()
        self._graph._check()
        for running in self._running.values():
            for index in running.indexes:
                index._check()
