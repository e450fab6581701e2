"""The host of all pattern queries of an engine: shared relations and plans, and the kernels that run over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from rpq.automata.symbols import LabelSymbol
from rpq.compiled.cycle_counter import read_cycles
from rpq.language.hypercube import Cell
from rpq.language.protocol import OUT_OF_TIME, ROW_COPIES, Resources
from rpq.language.readings import Reading
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.live_patterns import LivePatterns
from rpq.operators.patterns.joins.plan import Component
from rpq.operators.patterns.joins.plan_tables import PlanTables
from rpq.operators.patterns.relations.consistency import check, pairs_of
from rpq.operators.patterns.relations.constants import Constants
from rpq.operators.patterns.relations.path_relations import PathContent, PathRelations
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.relations.shared_relations import RelationKey, SharedRelations
from rpq.operators.patterns.rows.delivered_rows import DeliveredRows
from rpq.operators.patterns.rows.solutions import PartPlace
from rpq.operators.patterns.tables import NO_CHANGES, DerivedChanges
from rpq.rows.delta import Delta
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.edge_ends import Ends
from rpq.stream.edges.outcomes import WindowMembership
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary

_UNREAD = 1 << 20
"""The largest number of values in a piece of rows that are only counted."""
_OPERATOR_COPIES = 6
"""The copies of the rows of parts that exist at once while they are netted, and while operators change them: a ring in MATCH
with conditions and values of its edges has a filter and a column for each, whose rows stay until the operators are done."""
_VALUES_AT_ONCE, _VALUES_A_QUERY = 1 << 20, 1 << 12
"""The number of values from which rows are passed on to operators before the chunk has ended, so that the copies that these
make do not grow with the chunk; and by how much it is larger for each query, whose fixed cost is about that of as many."""
_PIECES = 4
"""The number of pieces of rows for which memory is requested from the guard at once."""


class Member(Protocol):
    """A query that the host evaluates."""

    @property
    def nbytes(self) -> int:
        """The size in memory of this query alone, in bytes."""

    @property
    def contents(self) -> Collection[RelationKey | PathContent]:
        """The contents of its relations."""

    def leave_changed(self) -> None:
        """Leave the parts whose constants have other ids now, before any query joins them again: equal parts are shared."""

    def resolve(self, *, new_names: Container[str] = ()) -> None:
        """Link plans whose constants have ids now, and unlink others. Those with `new_names` have no edges yet."""

    def delta(self, parts: dict[PartPlace, Delta], changed: Mapping[int, Delta]) -> Delta:
        """Return the rows that follow from changes of its parts.

        `changed` are the changes of the parts of all queries by number, one object for all queries that have a part in them.
        """

    def _check(self) -> None:
        """Assert the invariants."""


class _EnoughError(Exception):
    """There are more answers than the caller needs."""


class PatternHost:
    """The relations and plans of all pattern queries of an engine.

    It is its own only worker, and not thread-safe.
    """

    needs_room = True

    def __init__(self, resources: Resources) -> None:
        capacity = resources.capacity
        self.workers = (self,)
        self.store = RelationStore(capacity=capacity)
        self.tables = PlanTables(self.store, sharing=resources.sharing, deadline=resources.deadline)
        self.relations = SharedRelations(self.store)
        self.constants = Constants()
        self.members: dict[str, Member] = {}
        self.readers_of_report_time: dict[str, Member] = {}
        """The queries whose answer changes with the time of the report."""
        self.chunk_times = self._times = np.zeros(0, np.int64)
        """The timestamps of the last chunk, whose rows are still to be returned."""
        self.tuples = 0
        """The number of applied tuples."""
        self.is_delete = np.zeros(0, np.uint8)
        """A flag for each tuple of the last chunk: true for deletes."""
        self.first: np.ndarray | None = None
        """For each tuple of the last chunk the place of the first tuple of its event; None where each tuple is an event."""
        self.vertex_room = 0
        self._counts_only = False  # whether rows are counted and not stored
        self.is_whole = resources.share.total == 1
        """True if there is one share, to which all rows belong."""
        self._hashes = np.zeros(0, np.uint64)  # of the names of vertices, where there are several shares
        self._guard = resources.guard
        self.paths = PathRelations(
            self.store,
            self.relations,
            self.constants,
            capacity=capacity,
            guard=resources.guard,
            deadline=resources.deadline,
            have_coordinate=self._have_coordinate,
        )
        # For queries with paths, by their window, the labels that a count window numbers, and origin; for queries with
        # several windows, by their readings and origin.
        self._memberships: dict[Hashable, WindowMembership] = {}
        self._graph: SnapshotGraph | None = None
        self._delivered_rows = DeliveredRows()
        self._passed_on: list[tuple[str, Delta]] = []  # what follows from the rows of the chunk that were passed on
        self._wait_for_names: Callable[[], object] | None = None
        self._sink = self._delivered_rows
        self._live = LivePatterns(
            self.store,
            self.tables,
            self._store_rows,
            values=256 * capacity,
            runs=16 * capacity,
            fewest=capacity // 2,
            guard=self._request_memory,
        )
        self._rows = resources.rows
        self._most_rows = 0  # an upper bound of the rows that one event has brought to one part
        self._is_by_tuple = True  # whether an event is one tuple, so that its rows can be counted as they are found
        self._most_answers: int | None = None
        self._parts: dict[int, list[tuple[str, PartPlace]]] = {}  # part to the queries that get its rows, with their places
        self._holders: Counter[int] = Counter()  # part to the number of places of queries that have it
        self._equal_parts: dict[tuple[Any, ...], int] = {}  # by everything that makes parts equal
        self._keys: dict[int, tuple[Any, ...]] = {}
        self._member_sizes: dict[str, int] = {}  # bytes of queries, when each was last measured
        self._changed_members: set[str] = set()  # queries that changed since then
        self._result_parts: set[int] = set()  # parts whose rows are rows of the result of their query
        self._other_parts: set[int] = set()  # all other parts
        self._cells: dict[int, Cell] = {}  # part to the cell of this share, which determines its rows
        self._granted_bytes = 0  # bytes of delivered rows that the guard has granted
        self._latency_copy: tuple[int, np.ndarray] | None = None
        self._numbers = 0
        self._origins = 0
        self._advanced_to: int | None = None
        """The time to which all paths and memberships have been advanced; None where some may be new."""

    @property
    def latency(self) -> np.ndarray:
        """The histogram of the ticks that tuples took in all patterns together, int64[LATENCY_BUCKETS].

        It covers the tuples that some pattern reads. The time in the indexes of paths is included.
        """
        return self.tables.plans.latency

    def latency_now(self) -> np.ndarray:
        """Return a copy of `latency`, which all callers before the next tuple share."""
        if self._latency_copy is None or self._latency_copy[0] != self.tuples:
            self._latency_copy = self.tuples, self.latency.copy()
        return self._latency_copy[1]

    # --- queries ---------------------------------------------------------------------------------------------

    def are_own(self, rows: np.ndarray, cell: Cell) -> np.ndarray:
        """Return which rows of vertex ids belong to a cell. O(rows · dimensions)."""
        own = np.ones(len(rows), bool)
        for column, total, number in cell:
            own &= self._have_coordinate(rows[:, column], (number, total))
        return own

    def _have_coordinate(self, vertices: np.ndarray, coordinate: tuple[int, int]) -> np.ndarray:
        """Return which vertices have a coordinate (number, of how many)."""
        number, total = coordinate
        have: np.ndarray = self._hashes[vertices] % np.uint64(total) == number
        return have

    def new_origin(self) -> int:
        """Return a number for a query that starts with an empty window in mid-stream: its relations hold fewer edges."""
        self._origins += 1
        return self._origins

    def membership(self, key: Hashable) -> WindowMembership:
        """Return which edges the windows of some queries hold, and the outcomes of their tuples."""
        return self._memberships[key]

    def acquire_membership(
        self, key: Hashable, readings: Sequence[Reading], reader: Hashable, *, is_fixed: bool
    ) -> WindowMembership:
        """Return the membership in windows with a key for one more query; `readings` say which windows these are.

        The reader is the key of the labels of the query. With `is_fixed` its labels are those of the readings, and the host
        registers them; otherwise the query registers them.
        """
        self._advanced_to = None
        membership = self._memberships.get(key)
        if membership is None:
            named = [reading.stream is not None for reading in readings]
            membership = WindowMembership([reading.window for reading in readings], named=named)
            self._memberships[key] = membership
            if self._graph is not None:
                membership.make_room(self._graph.capacity)
        is_new = not membership.has(reader)
        membership.take(reader, [reading.reads for reading in readings] if is_fixed else None)
        if is_new:
            membership.set_labels(*self.relations.labels())
        return membership

    def release_membership(self, key: Hashable, reader: Hashable) -> None:
        """Release a query's use of the membership in windows for a reader."""
        membership = self._memberships[key]
        membership.release(reader, None if self._graph is None else self._graph.edges.label)
        if not membership.is_used:
            del self._memberships[key]

    def look_up(self, vertices: VertexDictionary, names: Iterable[str]) -> None:
        """Look up the vertices of constants that are newly watched, and bind them in the plans."""
        for constant, vertex in self.constants.look_up(vertices, names).items():
            self.tables.bind(constant, vertex)

    def release_constants(self, query: str, names: Iterable[str]) -> None:
        """Stop watching constants for a query whose parts have all been released."""
        for constant in self.constants.release(query, names):
            self.tables.bind(constant, None)

    def add_part(
        self,
        part: Component,
        *,
        explicit: bool,
        is_reported: bool,
        cell: Cell = (),
        constants: tuple[int, ...] | None = None,
    ) -> int:
        """Add a part of a query's pattern; return its number, which equal parts share.

        Its changes are enumerated once `join_part` is called. With `is_reported` its rows are rows of the query's result:
        the guard on rows counts them as they are found, and where no rows are kept they are only counted; of these, the rows
        in the `cell` are this share's. `constants` are the numbers of the part's constants, or their vertices, where
        these are ranks.
        """
        differ = any(seed.differ or any(step.differs_from for step in seed.steps) for seed in part.seeds)
        key = (part.atoms, part.columns, part.slots, part.comparisons, differ, constants, explicit, is_reported, cell)
        number = self._equal_parts.get(key) if self.shares_parts else None
        if number is not None:
            self._holders[number] += 1
            return number
        number = self._numbers = self._numbers + 1
        (self._result_parts if is_reported else self._other_parts).add(number)
        self._cells[number] = cell
        self.tables.add(number, part, explicit=explicit, constants=constants, is_linked=False)
        self._parts[number] = []
        self._holders[number] = 1
        self._equal_parts[key], self._keys[number] = number, key
        return number

    @property
    def shares_parts(self) -> bool:
        """True if equal parts of queries share one number."""
        return self.tables.sharing != "never"

    def sharing_of(self, number: int) -> str:
        """Return a text on what a part shares with others; it is empty if there are few queries."""
        queries = len({name for name, _ in self._parts[number]}) - 1
        texts = [f"the whole plan with {queries:,} other {'query' if queries == 1 else 'queries'}"] if queries else []
        needed, shared = self.tables.shared_conditions(number)
        if needed:
            texts.append(f"{shared:,} of the {needed:,} conditions that it needs with others")
        return "; ".join(texts)

    def number_of(self, content: RelationKey | PathContent) -> int:
        """Return the number of a relation in the store."""
        return self.paths[content].number if isinstance(content, PathContent) else self.relations[content]

    def accepted_edges(self, label: LabelSymbol) -> Collection[Ends]:
        """Return which edges of a label the queries of the engine accept, by their ends; none before it has a graph."""
        number = self.relations.label_id(label)
        return () if self._graph is None or number < 0 else self._graph.filter.accepted_ends(number).keys()

    def join_part(self, number: int, name: str, place: PartPlace) -> None:
        """Enumerate changes of a part, whose constants are bound, for a query that has it at this place."""
        users = self._parts[number]
        if not users:
            self.tables.link(number)
        users.append((name, place))

    def leave_part(self, number: int, name: str, place: PartPlace) -> None:
        """Stop enumerating changes of a part for a query. O(queries that have it)."""
        users = self._parts[number]
        users.remove((name, place))
        if not users:
            self.tables.unlink(number)

    def release_part(self, number: int) -> None:
        """Release a part that a query has added and left; the last user removes it."""
        self.invalidate_sizes()
        self._holders[number] -= 1
        if self._holders[number]:
            return
        self.tables.remove(number)
        del self._parts[number], self._holders[number], self._cells[number]
        key = self._keys.pop(number)
        if self._equal_parts.get(key) == number:  # where parts are not shared, equal ones have several numbers
            del self._equal_parts[key]
        self._result_parts.discard(number)
        self._other_parts.discard(number)

    def rows_of_part(self, number: int, columns: int, *, row_limit: int | None = None) -> np.ndarray:
        """Return all current rows of a part with `columns` columns, int32 (row, column).

        If there are more than `row_limit`, only somewhat more than `row_limit` are returned. O(edges, and the cost of
        joining them).
        """
        rows = None
        if not self.tables.has_no_solution(number):
            rows = self._collect_separately(lambda: self._live.answers(number), row_limit=row_limit).by_part().get(number)
        return np.zeros((0, columns), np.int32) if rows is None else rows.ids.values

    def _collect_separately(self, call: Callable[[], None], *, row_limit: int | None = None) -> DeliveredRows:
        """Collect the rows of a call separately from those of the stream, and without calling the guard."""
        sink, self._sink, self._live.guard = self._sink, DeliveredRows(), None
        self._most_answers = row_limit
        try:
            with suppress(_EnoughError):
                call()
            rows: DeliveredRows = self._sink
            return rows
        finally:
            self._sink, self._live.guard, self._most_answers = sink, self._request_memory, None

    def why_supports(self, number: int) -> str:
        """Return whether support lists are kept for a part, and why, in words."""
        return self._live.choice.why(number)

    def rows_without_plans(self, part: Component, *, first: bool) -> list[tuple[int, ...]]:
        """Return all rows of a part that no query has, or the `first` one found. O(edges, and the cost of joining them)."""
        number = self._numbers = self._numbers + 1
        self.tables.add(number, part, explicit=False)
        state = self._live.output.state
        room = state.value_room
        try:
            if first:
                state.value_room = len(part.columns)
            return list(map(tuple, self.rows_of_part(number, len(part.columns), row_limit=0 if first else None).tolist()))
        finally:
            state.value_room = room
            self.tables.remove(number)

    @property
    def _unread_values(self) -> int:
        """The number of values in a piece of rows that are only counted; 0 if rows are read."""
        is_countable = self._counts_only and self.is_whole and not self._other_parts
        return min(_UNREAD, self._rows.effective_limit) if is_countable else 0

    def _store_rows(self, live: LivePatterns) -> None:
        """Store the delivered rows. Raises `RowLimitError` where one event has brought too many rows already."""
        output = live.output
        is_of_stream = self._sink is self._delivered_rows
        # Only the values of rows determine which of them belong to a share.
        only_counts = is_of_stream and self._counts_only and self.is_whole
        some = self._other_parts if only_counts and len(self._other_parts) < len(self._parts) else None
        self._sink.append(output, parts=some)
        if not is_of_stream:
            if self._most_answers is not None and self._sink.row_count > self._most_answers:
                raise _EnoughError
            return
        self._most_rows += output.state.values + output.state.overwritten_values
        if self._most_rows > (self._rows.effective_limit if self._is_by_tuple else self._rows.found_limit):
            last = output.state.runs - 1
            self._count_event(output.runs["order"].item(last), output.runs["time"].item(last))
        can_pass_on = self._other_parts and not self.readers_of_report_time
        if can_pass_on and self._delivered_rows.value_count > _VALUES_AT_ONCE + _VALUES_A_QUERY * len(self.members):
            self._pass_on(output.runs["order"].item(output.state.runs - 1))

    def _pass_on(self, order: int) -> None:
        """Compute what follows from the rows of all events before the one that is at a place in the order of the chunk."""
        if self.first is not None:
            order = min(order, 2 * self.first.item(order // 2) + 1)
        changed = self._delivered_rows.take_before(order)
        if changed:
            if self._wait_for_names is not None:
                self._wait_for_names()
            self._passed_on += self._deltas_of(changed)
            self._granted_bytes = 0  # the operators may have taken what was granted

    @property
    def _bytes_passed_on(self) -> int:
        """The bytes of what follows from rows that were passed on."""
        return sum([delta.nbytes for _, delta in self._passed_on])

    def _count_event(self, order: int, time: int) -> None:
        """Count the rows that the last event has brought so far. Raises `RowLimitError` where they are too many."""
        select = None if self.is_whole else lambda part, rows: self.are_own(rows, self._cells[part])
        counts = self._delivered_rows.rows_of_event(order, time, select)
        reported = {part: rows for part, rows in counts.items() if part in self._result_parts}
        self._most_rows = max(reported.values(), default=0)
        if self._most_rows > (self._rows.effective_limit if self._is_by_tuple else self._rows.found_limit):
            part = max(reported, key=reported.__getitem__)
            raise self._rows.error(self._parts[part][0][0], reported[part], place=order // 2)

    def grow_roots(self, content: PathContent) -> None:
        """Add the pairs of all roots that are needed by now to a derived relation. Raises `MemoryLimitError`."""
        self._change_quietly(self.paths.settle(content))

    def _change_quietly(self, changes: DerivedChanges) -> None:
        """Apply changes of derived relations by pairs that no atom can use, either not yet or no longer."""
        if len(changes.order):
            time = self.store.relations.state.stream_time
            self._collect_separately(lambda: self._live.advance(time, changes))

    def restore_root(self, contents: Collection[PathContent], root: int) -> list[tuple[str, Delta]]:
        """Restore the pairs of a root that is set aside in derived relations; return the rows by the name of the query."""
        self.first = None
        changes = self.paths.restore_root(contents, root)
        if not len(changes.order):
            return []
        time = self.store.relations.state.stream_time
        return self._deltas_of(self._collect_separately(lambda: self._live.advance(time, changes)).by_part())

    # --- jobs of the crew ------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Register label ids with their names."""
        for membership in self._memberships.values():
            membership.set_labels(labels, names)
        self.relations.set_labels(labels, names)
        self.paths.set_labels(labels, names)

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `new_ids` are those of new names."""
        if vertices.count > self.vertex_room:
            self.make_room_for_vertices(vertices.count)
        self._graph = graph
        self.tables.edges = vertices.edges
        if not self.is_whole and len(new_ids):
            if more := self.vertex_room - len(self._hashes):
                self._hashes = np.concatenate([self._hashes, np.zeros(more, np.uint64)])
            self._hashes[new_ids] = vertices.hashes(new_ids)
        changed, new_names, vertex_of_constant = self.constants.update(vertices, new_ids)
        if vertex_of_constant:
            for constant, vertex in vertex_of_constant.items():
                self.tables.bind(constant, vertex)
            for name in changed:
                self.members[name].leave_changed()
            for name in sorted(changed):
                self.members[name].resolve(new_names=new_names)
                self._changed_members.add(name)
        self.paths.make_room(self.vertex_room, graph, changed=changed, new_ids=new_ids)
        for membership in self._memberships.values():
            membership.make_room(graph.capacity)

    def make_room_for_vertices(self, count: int) -> None:
        """Make room for `count` vertices in the relations."""
        self.store.make_room_for_vertices(count)
        self.vertex_room = self.store.relations.state.vertices

    @property
    def needs_edge_ids(self) -> bool:
        """True if there are paths, which know edges by their ids in the graph; relations know them by their ends."""
        return bool(self.paths)

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        """Apply the tuples of a chunk (and of its view); `deltas` returns the rows. Raises `LimitError`."""
        self._clear_rows()
        self.chunk_times = self._times = chunk.timestamp
        self.is_delete, self.first, self._wait_for_names = chunk.delete, details.first, details.wait_for_names
        self._most_rows = self._granted_bytes = 0
        self._is_by_tuple, self._counts_only = details.first is None, details.counts_only
        count = len(chunk.timestamp)
        # The relations of a label, which know edges by their ends, read it in the merged stream and in that of the tuple.
        both = tuples if details.named is None else details.named_view
        overwrite_limit = self._unread_values
        if self.paths:
            changes, failure, place = self.paths.apply(chunk, tuples, edges, details)
            changes = changes._replace(ticks=self.paths.ticks[:place])
            self._live.apply_view(both, place, changes, overwrite_limit=overwrite_limit)
            if failure is not None:
                raise failure
        else:
            self._live.apply_view(both, count, overwrite_limit=overwrite_limit)
        if details.has_edge_ids:
            self.judge(tuples, details, count)
        self.tuples += count

    def judge(self, tuples: Any, details: ChunkDetails, count: int) -> None:
        """Count the outcomes of the tuples of a chunk for queries with paths or several windows, by the ids of its edges.

        `apply` calls this or, if the chunk has no ids of edges at that time, the caller that assigns them.
        """
        both = tuples if details.named is None else details.named_view
        for membership in self._memberships.values():
            membership.apply(tuples, both, count)

    def drop_edges(self, chunk: Chunk, tuples: Any, edges: Edges) -> None:
        """Apply deletes of edges on which no row of a query depends, without counting them.

        Rows of parts may leave with them, which operators and products of parts hold.
        """
        counts = (self.store.relations.relation["outcomes"], self.latency)
        before, outcomes = [array.copy() for array in counts], list(self.tables.plans.state.outcomes)
        place, changes = len(chunk.edge), tables.NO_CHANGES
        if self.paths:
            changes, failure, place = self.paths.apply(chunk, tuples, edges, NO_DETAILS)
            if failure is not None:
                raise failure
            changes = changes._replace(ticks=self.paths.ticks[:place])
        rows = self._collect_separately(lambda: self._live.apply_view(tuples, place, changes))
        self.chunk_times = self._times = chunk.timestamp
        self.is_delete, self.first = chunk.delete, None
        self._deltas_of(rows.by_part())
        for array, copied in zip(counts, before, strict=True):
            array[:] = copied
        for outcome, count in enumerate(outcomes):
            self.tables.plans.state.outcomes[outcome] = count
        for membership in self._memberships.values():
            membership.drop(tuples, len(chunk.edge))

    @property
    def has_rows(self) -> bool:
        """True if the last chunk changed rows of parts, or moved the time that a query reads."""
        return bool(len(self._delivered_rows)) or bool(self._passed_on) or bool(self.readers_of_report_time)

    def deltas(self, numbers: Mapping[str, int], *, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows of the last chunk by the number of the query, only those `before` a tuple of it if given.

        To be called once a chunk.
        """
        self.chunk_times = self._times if before is None else self._times[:before]
        changed = self._delivered_rows.by_part()
        deltas = self._passed_on
        if before is not None:
            changed = {number: rows.events_before(2 * before) for number, rows in changed.items()}
            deltas = [(name, delta.events_before(2 * before)) for name, delta in deltas]
        deltas = deltas + self._deltas_of(changed, timed=self.readers_of_report_time)
        self._clear_rows()
        return sorted(((numbers[name], delta) for name, delta in deltas), key=itemgetter(0))

    def is_silent(self, orders: np.ndarray) -> np.ndarray:
        """Return for each event of the last chunk whether answers leave it silently with implicit semantics.

        They do so at boundaries, and in events without a delete. `orders` are the places of the events.
        """
        silent = np.ones(len(orders), bool)
        if len(self.is_delete):
            is_tuple = orders % 2 == 1
            deletes = self.is_delete if self.first is None else np.bincount(self.first, self.is_delete, len(self.first))
            silent[is_tuple] = deletes[orders[is_tuple] // 2] == 0
        return silent

    def _clear_rows(self) -> None:
        self._delivered_rows.clear()
        self._passed_on = []

    def _deltas_of(self, changed: Mapping[int, Delta], *, timed: Iterable[str] = ()) -> list[tuple[str, Delta]]:
        """Return the rows that follow from changes of parts, and those of the `timed` queries, which time may change."""
        parts_of: dict[str, dict[PartPlace, Delta]] = {name: {} for name in timed}
        for number, rows in changed.items():
            for name, place in self._parts[number]:
                parts_of.setdefault(name, {})[place] = rows
        deltas = []
        for name, parts in parts_of.items():
            deltas.append((name, self.members[name].delta(parts, changed)))
            self._changed_members.add(name)
        return [(name, delta) for name, delta in deltas if len(delta)]

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple; `deltas` returns the rows. Raises `LimitError`."""
        self._clear_rows()
        self._times = np.array([time])
        self._most_rows = self._granted_bytes = 0
        self._is_by_tuple, self._counts_only, self.first = True, False, None
        changes = NO_CHANGES
        if time != self._advanced_to:  # each of the queries that load their windows together asks for the same
            changes = self.paths.advance(time)
            for membership in self._memberships.values():
                membership.advance(time)
            self._advanced_to = time
        self._live.advance(time, changes)

    def sweep(self) -> None:
        """Release the pairs of paths that have left their windows; relations release their edges as the time moves."""
        self._change_quietly(self.paths.sweep())

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        shared = self.store.nbytes + self.tables.nbytes + self._live.nbytes + self._hashes.nbytes
        shared += self._delivered_rows.nbytes + self._bytes_passed_on
        of_paths = self.paths.nbytes + sum(membership.nbytes for membership in self._memberships.values())
        return shared + of_paths + self._bytes_of_members()

    def _bytes_of_members(self) -> int:
        """Return the bytes of all queries. O(queries) additions; only those that changed are measured."""
        # Copies, because the guard of another thread may call this meanwhile.
        changed = [*(self._changed_members if self._member_sizes else self.members)]
        self._member_sizes |= {name: self.members[name].nbytes for name in changed}
        self._changed_members.difference_update(changed)
        return sum([*self._member_sizes.values()])

    def invalidate_size(self, name: str) -> None:
        """Record that the size of a query may have changed since rows were last reported, or that it is new."""
        self._changed_members.add(name)

    def invalidate_sizes(self) -> None:
        """Discard the sizes of queries, which may have changed since rows were last reported."""
        self._member_sizes.clear()
        self._changed_members.clear()

    def request_bytes(self, size: int) -> None:
        """Request `size` more bytes from the guard, without a tuple; it may refuse."""
        self._guard(size, 0)

    def _request_memory(self, need: int, more: int) -> None:
        """Request `more` bytes from the guard, which it may refuse; `need` is the code that a kernel returned."""
        if need == tables.NEED_TIME or read_cycles() > self.tables.plans.deadline[0]:
            self._guard(OUT_OF_TIME, self.tables.plans.state.tuple)
        if need == tables.NEED_TIME:
            return
        if need == tables.NEED_OUTPUT:
            # What follows from rows that were passed on gets names, too.
            delivered = self._delivered_rows.nbytes + self._bytes_passed_on
            if delivered + more <= self._granted_bytes:
                return  # adding up the memory in use takes as long as some thousand rows
            more = max(_PIECES * more, delivered // 4)
            self._granted_bytes = delivered + more
            more += self._copies * self._granted_bytes
        self._guard(more, self.tables.plans.state.tuple)

    @property
    def _copies(self) -> int:
        """The copies of delivered rows that exist at once, while operators change them and ids become names."""
        return ROW_COPIES + (_OPERATOR_COPIES if self._other_parts or not self._is_by_tuple else 0)

    def _check(self) -> None:
        """Assert the structural invariants. O(everything)."""
        check(self.store)
        self.paths._check(lambda relation: pairs_of(self.store, relation))
        users = {name for users in self._parts.values() for name, _ in users}
        assert users <= {*self.members}, "a part of a query that was removed"
        self.tables._check()
        self.tables.graph._check()
        joined = sorted(part for part, users in self._parts.items() if users)
        assert sorted(self.tables.queries()) == joined, "parts and plans differ"
        assert all(len(users) <= self._holders[part] for part, users in self._parts.items()), "joined more often than held"
        for member in self.members.values():
            member._check()
