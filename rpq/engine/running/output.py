"""From the changes that workers report to rows: net of events, at report times, within the limit on rows, and with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.engine.running.limits import MemoryGuard, RowOverflow, find_row_overflow
from rpq.engine.running.running_queries import RunningQueries
from rpq.language.protocol import ROW_COPIES, PresentGraph, RunningQuery
from rpq.rows.blocks import RowBlock, blocks_of, witness_array
from rpq.rows.changes import SetAside
from rpq.rows.delta import Delta, split_by_query, without_boundaries
from rpq.rows.weighted_rows import as_changes, merge, net_delta
from rpq.stream.edges.edge_times import EdgeTimes
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.vertices import VertexDictionary

if TYPE_CHECKING:
    from rpq.engine.running.multigraph import Multigraph

Deltas = list[tuple[int, Delta]]
"""Changes of queries: pairs of the number of a query and a delta."""


_MANY = 1 << 16
"""The number of rows from which the memory guard is asked before they are converted."""


class Output:
    """The last part of an evaluation, which turns the deltas of workers into rows.

    - Deltas: `net`, `at_reported_time` and `report` replace them; `overflow` finds what exceeds `most_rows`
    - Rows: `rows` returns deltas with names, before ids are given to other vertices
    - Roots over their budget: `note_overruns` adds them to `overruns`
    """

    def __init__(
        self,
        running: RunningQueries,
        graph: SnapshotGraph,
        vertices: VertexDictionary,
        labels: LabelDictionary,
        *,
        guard: MemoryGuard,
        most_rows: int,
        witness: bool,
    ) -> None:
        self._running = running
        self._graph = graph
        self._vertices = vertices
        self._labels = labels
        self._guard = guard
        self._most_rows = most_rows
        self._witness = witness
        self.multigraph: Multigraph | None = None
        self.reported_time: int | None = None
        """The time of rows; None if it is that of the graph."""
        self.overruns: list[SetAside] = []
        """The roots that went over their budget and were not reported yet."""

    # --- deltas ----------------------------------------------------------------------------------------------

    def net(
        self,
        deltas: Deltas,
        first: np.ndarray | None,
        times: np.ndarray | None,
        *,
        is_evicted: np.ndarray | None = None,
    ) -> Deltas:
        """Return deltas net of events, which begin at the places `first`, and with `times` for tuples if they are given.

        Rows that a query with implicit windows loses by evictions alone, of edges that `is_evicted` marks, are left out.
        """
        found = []
        queries = self._running.by_number
        deltas_of: dict[int, list[Delta]] = {}  # of several threads
        for number, delta in split_by_query(deltas):
            deltas_of.setdefault(number, []).append(delta)
        for number, some in deltas_of.items():
            net = some
            if first is not None and (is_evicted is not None or not queries[number].nets_events):
                is_implicit = getattr(queries[number].question, "semantics", None) == "implicit"
                if is_evicted is not None and is_implicit:
                    net = [_without_evictions(some, first, is_evicted)]
                else:
                    net = [net_delta(some, first)]
            if times is not None:
                net = [without_boundaries(delta, times) for delta in net]
            self._running.count_unreported(queries[number], _counts_of(some) - _counts_of(net))
            found += [(number, delta) for delta in net]
        return found

    def at_reported_time(self, deltas: Deltas) -> Deltas:
        """Return the deltas of queries that begin, with the time that is reported."""
        if self.reported_time is None:
            return deltas
        return [(number, without_boundaries(delta, np.full(1, self.reported_time))) for number, delta in deltas]

    def report(self, deltas: Deltas, times: np.ndarray, is_boundary: np.ndarray | None = None) -> Deltas:
        """Replace the deltas of queries whose rows wait by what is due; the other arguments are those of `HeldRows.take`.

        Raises `MemoryLimitError` if waiting rows exceed the memory.
        """
        reports = self._running.reports
        if not reports:
            return deltas
        found: Deltas = []
        deltas_of: dict[int, list[Delta]] = {}
        for one in deltas:
            is_waiting = one[1].numbers is not None and np.isin(one[1].numbers, [*reports]).any()
            for number, delta in one[1].split_by_query() if is_waiting else [one]:
                if delta.numbers is None and number in reports:
                    deltas_of.setdefault(number, []).append(delta)
                else:
                    found.append((number, delta))
        for number, waiting in reports.items():
            due = waiting.take(deltas_of.get(number, ()), times, is_boundary)
            if due is not None:
                found.append((number, due))
        return sorted(found, key=itemgetter(0))

    def overflow(self, deltas: Deltas) -> RowOverflow | None:
        """Return the first event that brings more rows to one query than the limit; None if there is none."""
        return find_row_overflow(deltas, self._running.schemas.names, self._most_rows)

    # --- rows ------------------------------------------------------------------------------------------------

    def rows(self, deltas: Deltas, edge_times: EdgeTimes | None = None) -> list[RowBlock]:
        """Return the rows of deltas, with names and, if the engine has them, with witnesses.

        `edge_times` are those of the edges at each tuple; without them they are those of the graph. Raises
        `MemoryLimitError`.
        """
        deltas = [(number, delta) for number, delta in deltas if len(delta)]
        if not deltas:
            return []
        running = self._running
        if sum([len(delta) for _, delta in deltas]) >= _MANY:
            self._request_rows(deltas)
        witnesses = None
        if self._witness:
            witnesses = [self._witnesses(running.by_number[number], delta, edge_times) for number, delta in deltas]
        return blocks_of(deltas, running.schemas.columns, self._vertices, witnesses, running.texts)

    def _request_rows(self, deltas: Deltas) -> None:
        """Request the memory of the copies of rows that become names. Raises `MemoryLimitError`."""
        schemas = self._running.schemas
        sizes = Counter[int]()
        for number, delta in deltas:
            one = number if delta.numbers is None else int(delta.numbers[0])  # queries that share workers have equal columns
            sizes[one] += ROW_COPIES * len(delta) * 4 * len(schemas.columns[one])
        (largest, _), *_ = sizes.most_common(1)
        self._guard.request(schemas.names[largest], sizes.total())

    @property
    def has_present_witnesses(self) -> bool:
        """True if witnesses are searched for in the present graph, since a tuple may be several edges."""
        return self._witness and self.multigraph is not None

    def present_graph(self) -> PresentGraph:
        """Return the graph in which witnesses are found.

        With static edges it has no values: one may be in the place of an edge with its ends that has left the window.
        """
        has_none = self.multigraph is None or self._graph.statics or len(self.multigraph.statics)
        values = None if self.multigraph is None or has_none else self.multigraph.values
        return PresentGraph(self._graph.edges, self._vertices, self._labels.texts, values)

    def _witnesses(self, running: RunningQuery, delta: Delta, edge_times: EdgeTimes | None) -> pa.Array:
        """Return the witness of each row; none for rows that are removed, and for kinds of queries without any."""
        if not running.has_witnesses:
            return witness_array([None] * len(delta))
        graph = self.present_graph()
        if not (self.has_present_witnesses or self._running.holds_rows(running)):
            return running.witnesses(delta, graph, edge_times)
        is_added = np.repeat(delta.kinds, delta.lengths()) >= 0
        rows = delta.as_lists()
        found: list[Any] = [None] * len(delta)
        for place in np.flatnonzero(is_added).tolist():
            found[place] = running.witness(rows[place], graph)
        return witness_array(found)

    # --- roots over their budget -----------------------------------------------------------------------------

    def note_overruns(self, first: int | None) -> None:
        """Add the roots that went over their budget in the chunk from row `first` on to `overruns`, with their names."""
        for running in self._running.queries_with_budget:
            reports = [
                SetAside(
                    running.question.name,
                    self._vertices.name_of(overrun.root),
                    overrun.time if self.reported_time is None else self.reported_time,
                    None if first is None or overrun.place < 0 else first + overrun.place,
                    overrun.size,
                )
                for overrun in running.pop_overruns()
            ]
            self.overruns += sorted(reports, key=lambda r: (r.row or 0, r.timestamp, str(r.root)))

    def pop_overruns(self) -> list[SetAside]:
        """Return the roots that were not reported yet, and clear them."""
        overruns, self.overruns = self.overruns, []
        return overruns


def _counts_of(deltas: Sequence[Delta]) -> np.ndarray:
    """Return the numbers of rows that deltas add and remove."""
    return np.sum([delta.counts() for delta in deltas], axis=0)  # type: ignore[no-any-return]


def _without_evictions(deltas: Sequence[Delta], first: np.ndarray, is_evicted: np.ndarray) -> Delta:
    """Return deltas net of events, without the rows that only evictions remove, of edges that `is_evicted` marks.

    What an event changes without its evictions is netted first; of that, evictions take back what they can.
    """
    by_evictions = [np.repeat(is_evicted[delta.orders // 2], delta.lengths()) for delta in deltas]
    if not any(some.any() for some in by_evictions):
        return net_delta(deltas, first)
    split = [delta.select(chosen) for delta, some in zip(deltas, by_evictions, strict=True) for chosen in (~some, some)]
    events, changes = as_changes(split, first=first)
    others = merge(changes[::2]).net()
    lost = others.select(others.weights < 0)
    gained = merge([others.select(others.weights > 0), *changes[1::2]]).net()
    return merge([lost, gained.select(gained.weights > 0)]).delta(events[:, 0], events[:, 1])
