"""The edges that tuples become: their own labels where these are read, and derived labels, as inserts and deletes.

A tuple becomes an edge with each derived label that its version satisfies, and deletes those that only the version before
it had. All of them are one event. Tuples of one kind become the same edges but for their ends: their kind is the set of
derived labels before and after, whether the own label is read, and whether the tuple is a delete. What a kind becomes (its
template) is determined once for a chunk.

Where the window is decided before the graph, `WindowEdges` knows what it holds. `WindowDerivation` then makes one chunk of
its changes, the links of edges that are vertices, and the outcomes of tuples, ordered by tuples and by the stages of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.distinct_values import distinct_values
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.engine.running.condition_sets import ConditionSets
from rpq.engine.running.edge_vertex_links import EdgeVertexLinks, TupleEdges
from rpq.engine.running.outcome_counts import OutcomeCounts, lower_bounds
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_values import values_at
from rpq.stream.edges.edge_versions import ABSENT_VERSION, PriorVersions
from rpq.stream.edges.edges_by_id import Operations, PriorEdges
from rpq.stream.edges.window_edges import EVICTIONS, STAGES, ChunkEffects, Link, StagedChanges, WindowEdges
from rpq.stream.names.labels import LabelDictionary

_OWN_LABEL = -1
"""In place of a derived label in a template: the label of the tuple."""


class DerivedChunk(NamedTuple):
    """The tuples of a chunk as edges with derived labels."""

    chunk: Chunk
    row: np.ndarray | None
    """int64: for each edge its tuple in the chunk; None where each tuple is one edge."""
    first: np.ndarray | None
    """int64: for each edge the place of the first of its event; None where each is an event of its own."""
    outcome: np.ndarray
    """uint8: the outcome of each tuple."""
    is_evicted: np.ndarray | None = None
    """bool: for each edge whether a window that is decided before the graph evicts it; None where no window is."""
    boundary: np.ndarray | None = None
    """int32: for each edge the boundary, below 0, at which it changes before its tuple; 0 for edges of the tuple itself."""

    def first_of_events(self, events: np.ndarray) -> np.ndarray:
        """Return `first` for events of several tuples, whose first tuples are `events` (int64, a tuple)."""
        of_edges = events if self.row is None else events[self.row]
        is_first = np.diff(of_edges, prepend=-1) != 0
        if self.boundary is not None:
            is_first |= np.diff(self.boundary, prepend=0) != 0
        return _first_of_runs(is_first)

    def first_of_parts(self, first: np.ndarray | None) -> np.ndarray | None:
        """Return `first` of events whose evictions are separate events, for queries that net events themselves.

        Such queries can then distinguish what only evictions remove.
        """
        if first is None or self.is_evicted is None or not self.is_evicted.any():
            return first
        is_first = first == np.arange(len(first))
        is_first[1:] |= self.is_evicted[1:] != self.is_evicted[:-1]
        return _first_of_runs(is_first)

    def in_streams(self, chunk: Chunk, named: Chunk, is_named: np.ndarray) -> tuple[Chunk, np.ndarray]:
        """Return these edges as readers of named streams see them, and which of them have another label there (uint8).

        `chunk` are the tuples, `named` the same tuples as such readers see them, and `is_named` which of them have another
        label there. Of the edges of a tuple, such readers see the one with its own label.
        """
        row = np.arange(len(self.chunk.label)) if self.row is None else self.row
        is_own = is_named[row] & (self.chunk.label == chunk.label[row])
        label = np.where(is_own, named.label[row], self.chunk.label)
        return self.chunk._replace(label=label, edge=np.empty(len(row), np.int32)), is_own.astype(np.uint8)

    def merge(self, more: TupleEdges, timestamp: np.ndarray) -> DerivedChunk:
        """Return these edges and further ones of the same tuples, which are one event with them.

        `timestamp` are those of the tuples.
        """
        before = np.arange(len(self.chunk.label)) if self.row is None else self.row
        row = np.concatenate([before, more.row])
        order = np.argsort(row, kind="stable")
        row = row[order]

        def merge_columns(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            column: np.ndarray = np.concatenate([one, other.astype(one.dtype)])[order]
            return column

        chunk = Chunk(
            source=merge_columns(self.chunk.source, more.source),
            target=merge_columns(self.chunk.target, more.target),
            label=merge_columns(self.chunk.label, more.label),
            timestamp=merge_columns(self.chunk.timestamp, timestamp[more.row]),
            delete=merge_columns(self.chunk.delete, more.delete),
            edge=np.empty(len(row), np.int32),
        )
        return DerivedChunk(chunk, row, _first_of_runs(np.diff(row, prepend=-1) != 0), self.outcome)


def _first_of_runs(is_first: np.ndarray) -> np.ndarray:
    """Return for each place that of the first one of its run, of which the first place is marked."""
    begins = np.flatnonzero(is_first)
    return np.repeat(begins, np.diff(begins, append=len(is_first)))


class _Template(NamedTuple):
    """The edges that tuples of one kind become: a label each, and whether it is deleted."""

    labels: list[int]
    deletes: list[int]


class EdgeDerivation:
    """The derivation of edges from tuples, whose sets of derived labels are numbers in `sets`.

    With `replaces` an insert replaces the edge with its ends and label, and deletes the derived labels that only the
    replaced edge had.
    """

    def __init__(self, sets: ConditionSets, labels: LabelDictionary, *, replaces: bool) -> None:
        self._sets = sets
        self._labels = labels
        self._replaces = replaces

    def derive(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        *,
        derived_set: np.ndarray,
        before: PriorVersions,
        bound: np.ndarray,
        is_plain: np.ndarray,
        outcome: np.ndarray,
        has_more: Sequence[int] | np.ndarray,
    ) -> DerivedChunk:
        """Return the edges of the tuples of a chunk, with its view; late ones too, so that the graph knows what is lost.

        `now` are the stream times after the tuples, `derived_set` the sets of derived labels that they have, `before` the
        versions of their edges before them, `bound` the timestamps up to which edges have left every window, and `is_plain`
        says whether a query reads their label without a condition (uint8). The tuples at the places `has_more` become other
        edges too. O(tuples + edges).
        """
        count, sets = len(derived_set), self._sets.count
        lost = before.derived_set  # by a replacement or a delete
        if not self._replaces and chunk.delete.any():
            lost = np.where(before.timestamp != ABSENT_VERSION, self.whole_sets(chunk), 0).astype(np.int32)
            sets = self._sets.count
        flags = is_plain
        if len(has_more):
            flags = is_plain.copy()
            flags[has_more] |= _HAS_MORE
        kind, is_edge = np.empty(count, np.int64), np.empty(count, np.uint8)
        kinds_of_tuples(
            tuples, bound, derived_set, lost, before.is_effective, flags, self._replaces, sets, count, kind, is_edge
        )
        rows = _rows_to_apply(tuples, is_edge, now)
        used, place = distinct_values(kind, sets * sets * 4)
        templates = [self._template(one, sets) for one in used.tolist()]
        lengths = np.array([len(template.labels) for template in templates], np.int64)
        labels = np.array([label for template in templates for label in template.labels], np.int32)
        deletes = np.array([delete for template in templates for delete in template.deletes], np.uint8)
        ends, is_one_each = np.cumsum(lengths), len(labels) == len(lengths)
        total = len(rows) if is_one_each else int(lengths[place[rows]].sum())
        row, first = np.empty(total, np.int64), np.empty(total, np.int64)
        edges = Chunk(*(np.empty(total, column.dtype) for column in chunk))
        write_edges(tuples, view(edges), rows, place, ends - lengths, ends, labels, deletes, len(rows), row, first)
        if is_one_each:
            return DerivedChunk(edges, None if total == count else rows, None, outcome)
        return DerivedChunk(edges, row, first, outcome)

    def derive_one(
        self,
        label: int,
        *,
        derived_set: int,
        before: PriorVersions,
        is_delete: bool,
        is_late: bool,
        is_plain: bool,
    ) -> tuple[list[int], list[int]]:
        """Return the labels of the edges of one tuple and whether each is deleted, like `derive`."""
        is_effective = bool(before.is_effective.item(0))
        new = derived_set if is_effective or is_late else 0
        old = 0
        if is_effective and self._replaces:
            old = before.derived_set.item(0)
        elif is_effective and is_delete and before.timestamp.item(0) != ABSENT_VERSION:
            old = self._sets.whole_set(str(self._labels.names[label]))
        if not (old or new):
            return [label], [int(is_delete)]
        sets = self._sets.count
        template = self._template(((old * sets + new) * 2 + is_plain) * 2 + is_delete, sets)
        return [label if one == _OWN_LABEL else one for one in template.labels], template.deletes

    def derive_statics(self, chunk: Chunk, values: Mapping[str, pa.Array]) -> TupleEdges:
        """Return static edges with these values under the derived labels that they have. O(edges · conditions)."""
        derived_set = self._sets.sets_of(chunk.label, self._labels.names, values, None)
        many = np.array([len(self._sets.labels_of(number)) for number in derived_set.tolist()], np.int64)
        row = np.repeat(np.arange(len(many)), many)
        label = np.array([one for number in derived_set.tolist() for one in self._sets.labels_of(number)], np.int32)
        return TupleEdges(row, chunk.source[row], label, chunk.target[row], np.zeros(len(row), np.uint8))

    def whole_sets(self, chunk: Chunk) -> np.ndarray:
        """Return for the tuples of a chunk the number of the set of all derived labels of their label (int32)."""
        whole = np.zeros(len(self._labels.names), np.int32)
        for label in np.unique(chunk.label[chunk.delete != 0]).tolist():
            name = self._labels.names[label]
            if isinstance(name, str):
                whole[label] = self._sets.whole_set(name)
        if len(whole) < len(self._labels.names):  # derived labels that are new
            whole = np.concatenate([whole, np.zeros(len(self._labels.names) - len(whole), np.int32)])
        sets: np.ndarray = whole[chunk.label]
        return sets

    def _template(self, code: int, sets: int) -> _Template:
        """Return the edges of tuples of a kind."""
        code, is_delete = divmod(code, 2)
        code, is_plain = divmod(code, 2)
        old, new = divmod(code, sets)
        return _template_of(self._sets.labels_of(old), self._sets.labels_of(new), is_plain, is_delete)


@lru_cache(maxsize=4096)
def _template_of(old: tuple[int, ...], new: tuple[int, ...], is_plain: int, is_delete: int) -> _Template:
    """Return the edges of tuples with these derived labels before and after, deletes first.

    A tuple that becomes no other edge is one with its own label, which moves the time.
    """
    inserted = set(new)
    deleted = [label for label in old if label not in inserted]
    has_own = is_plain or not (inserted or deleted)
    labels = [*([_OWN_LABEL] if has_own else []), *deleted, *new]
    return _Template(labels, [*([is_delete] if has_own else []), *[1] * len(deleted), *[0] * len(new)])


_HAS_MORE = 2
"""The mark of tuples that become other edges, beside 1 for those whose label a query reads without a condition."""


@njit(cache=True, nogil=True)
def kinds_of_tuples(tuples, bound, derived_set, lost, is_effective, flags, replaces, sets, count, kind, is_edge):
    """Write the kind of each tuple, and whether it becomes an edge.

    `lost` are the sets of derived labels that replacements and deletes take.
    """
    for i in range(count):
        is_delete = np.int64(tuples.delete[i] != 0)
        old, new = np.int64(0), np.int64(0)
        if is_effective[i] and (replaces or is_delete):
            old = np.int64(lost[i])
        if not is_delete and tuples.source[i] >= 0 and (is_effective[i] or tuples.timestamp[i] <= bound[i]):
            new = np.int64(derived_set[i])
        kind[i] = ((old * sets + new) * 2 + (flags[i] & 1)) * 2 + is_delete
        is_edge[i] = (old | new) != 0 or flags[i] != 0


@njit(cache=True, nogil=True)
def rows_to_apply(tuples, is_edge, now, count, rows):
    """Write the rows of tuples that become edges or are needed to advance the time. Return their number."""
    following, is_behind, latest = np.int64(0), True, np.int64(-1)
    for i in range(count - 1, -1, -1):
        rows[i] = is_edge[i]
        if is_edge[i]:
            following, is_behind = tuples.timestamp[i], False
        elif not is_behind:
            rows[i] = following < now[i]
        elif latest < 0 or tuples.timestamp[i] >= tuples.timestamp[latest]:
            latest = np.int64(i)
    if latest >= 0:
        rows[latest] = 1
    applied = np.int64(0)
    for i in range(count):
        if rows[i]:
            rows[applied] = i
            applied += 1
    return applied


@njit(cache=True, nogil=True)
def write_edges(tuples, edges, rows, place, begins, ends, labels, deletes, count, row, first):
    """Write the edges of tuples, each with its tuple and the place of the first edge of that."""
    at = np.int64(0)
    for i in range(count):
        one, of_event = rows[i], at
        for j in range(begins[place[one]], ends[place[one]]):
            edges.source[at] = tuples.source[one]
            edges.target[at] = tuples.target[one]
            edges.label[at] = tuples.label[one] if labels[j] == _OWN_LABEL else labels[j]
            edges.timestamp[at] = tuples.timestamp[one]
            edges.delete[at] = deletes[j]
            row[at] = one
            first[at] = of_event
            at += 1


def chunk_of_operations(
    made: Operations,
    chunk: Chunk,
    tuples: Any,
    now: np.ndarray,
    *,
    outcome: np.ndarray,
    has_more: Sequence[int] | np.ndarray = (),
    is_evicted: np.ndarray | None = None,
    boundary: np.ndarray | None = None,
) -> DerivedChunk:
    """Return operations on the graph as edges, with the tuples of a chunk and its view that are needed to move the time.

    `now` are the stream times after the tuples of the chunk. The tuples at the places `has_more` become other edges too.
    `is_evicted` says of each operation whether it is an eviction, and `boundary` is that of `DerivedChunk`.
    """
    own = made.row if boundary is None else made.row[boundary == 0]
    has_operations = np.bincount(own, minlength=len(chunk.label)) > 0
    if len(has_more):
        has_operations[has_more] = True
    rows = _rows_to_apply(tuples, has_operations.view(np.uint8), now)
    idle = rows[~has_operations[rows]]
    nothing = np.full(len(idle), -1, np.int32)
    row = np.concatenate([made.row, idle])
    order = np.argsort(row, kind="stable")
    moved = nothing, chunk.label[idle], nothing, chunk.timestamp[idle], np.ones(len(idle), np.uint8)
    columns = (np.concatenate([one, other])[order] for one, other in zip(made[:5], moved, strict=True))
    source, label, target, timestamp, delete = (np.ascontiguousarray(column) for column in columns)
    row = row[order]
    derived = Chunk(source, target, label, timestamp, delete, np.empty(len(row), np.int32))
    are_evicted = None if is_evicted is None else np.append(is_evicted, np.zeros(len(idle), bool))[order]
    is_first = np.diff(row, prepend=-1) != 0
    boundaries = None if boundary is None else np.append(boundary, np.zeros(len(idle), boundary.dtype))[order]
    if boundaries is not None:
        is_first |= np.diff(boundaries, prepend=0) != 0
    if are_evicted is None and is_first.all():
        return DerivedChunk(derived, row, None, outcome)
    return DerivedChunk(derived, row, _first_of_runs(is_first), outcome, are_evicted, boundaries)


def _rows_to_apply(tuples: Any, is_edge: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the rows of tuples that become edges (uint8) or are needed to move the time. O(tuples).

    A tuple that becomes no edge is left out where the next one that does moves the time as far. Of those behind the last
    edge the one with the largest timestamp stays.
    """
    rows = np.empty(len(is_edge), np.int64)
    return rows[: rows_to_apply(tuples, is_edge, now, len(rows), rows)]


# --- windows that are decided before the graph -----------------------------------------------------------------


class WindowDerivation:
    """The derivation of edges from tuples over a window that is decided before the graph.

    With `keeps_values` edges get the values that witnesses show.
    """

    def __init__(
        self,
        edges: WindowEdges,
        *,
        sets: ConditionSets,
        links: EdgeVertexLinks,
        outcome_counts: OutcomeCounts,
        keeps_values: bool,
    ) -> None:
        self.edges = edges
        """The edges that the window holds."""
        self._sets = sets
        self._links = links
        self._outcome_counts = outcome_counts
        self._keeps_values = keeps_values

    def derive(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        *,
        keys: Sequence[Any],
        number: np.ndarray,
        derived_set: np.ndarray,
        is_plain: np.ndarray,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        values: Iterable[str],
    ) -> DerivedChunk:
        """Return the tuples of a chunk, with its view, as the edges that the window holds and evicts.

        `now` are the times after them, `keys` and `number` those of the edges, `derived_set` their sets of derived labels,
        and `is_plain` says whether a query reads their label without a condition. `properties` and `timestamp` are what
        conditions see, and `values` the properties of edges that are vertices. O(tuples + changes).
        """
        is_read = self._outcome_counts.reads(chunk.label)
        applied = self.edges.apply(chunk, keys, now, derived_set=derived_set, is_read=is_read, is_plain=is_plain)
        outcome = self._judge(chunk, tuples, applied, now)
        if self._keeps_values:
            names = sorted(self._sets.properties)
            for row, one in applied.entered_edges:
                one.values = values_at(properties, names, row)
        links: list[tuple[int, TupleEdges]] = []
        if self._links.are_read:
            links = self._links.derive_in_window(chunk, properties, timestamp, applied, number=number, values=values)
        return self._derive_changes(chunk, tuples, now, applied, links, outcome)

    def expire(self, time: int) -> DerivedChunk | None:
        """Advance the time without a tuple. Return the edges that leave the window, or None if there are none."""
        if self.edges.counts:
            return None
        applied = self.edges.expire(time)
        if not applied.boundaries:
            return None
        links = self._links.departure_links(applied) if self._links.are_read else []
        nothing = Chunk(*(np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32)))
        return self._derive_changes(nothing, view(nothing), np.zeros(0, np.int64), applied, links, np.zeros(0, np.uint8))

    def set_statics(
        self, keys: Sequence[Any], links: Sequence[list[Link]], *, begins: bool
    ) -> tuple[list[Link], list[Link]]:
        """Set the links of static edges. Return those of edges that are never hidden, and of edges that are not hidden now.

        `keys` are those of the edges, None for an edge that is never hidden. The last edge with a key replaces the others.
        """
        keyed = {key: of_edge for key, of_edge in zip(keys, links, strict=True) if key is not None}
        never = [link for key, of_edge in zip(keys, links, strict=True) if key is None for link in of_edge]
        return never, self.edges.set_statics(keyed, begins=begins)

    def values_of(self, ends: Link, derived: int | None) -> Mapping[str, Any] | None:
        """Return the values of the youngest edge with these ends, and with a derived label if given; None if unknown."""
        for edge in self.edges.youngest_first(*ends):
            if derived is None or derived in self._sets.labels_of(edge.derived_set):
                return edge.values
        return None

    def _judge(self, chunk: Chunk, tuples: Any, applied: ChunkEffects, now: np.ndarray) -> np.ndarray:
        """Count the outcomes of tuples; return those for the engine as a whole."""
        if self.edges.counts:
            self._outcome_counts.count(applied.outcome)
            return applied.outcome
        before = PriorEdges(applied.prior_timestamp, applied.prior_label)
        bounds = {self.edges.window: lower_bounds(self.edges.window, now)}
        return self._outcome_counts.judge(chunk, tuples, before, bounds)

    def _derive_changes(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        applied: ChunkEffects,
        links: Iterable[tuple[int, TupleEdges]],
        outcome: np.ndarray,
    ) -> DerivedChunk:
        """Return the changes of the window and links, each with its stage, in the order of tuples and stages."""
        pieces = [applied.changes]
        for stage, (rows, source, label, target, delete) in links:
            begin = stage - stage % STAGES
            boundaries = [applied.boundaries[row, begin] for row in rows.tolist()] if begin else None
            times = chunk.timestamp[rows] if boundaries is None else np.array(boundaries, np.int64)
            stages = np.full(len(rows), stage, np.int32)
            pieces.append(StagedChanges(rows, stages, source, label, target, times, delete))
        changes = StagedChanges(*(np.concatenate([*column]) for column in zip(*pieces, strict=True)))
        order = np.lexsort((changes.stage, changes.row))
        ordered = StagedChanges(*(column[order] for column in changes))
        made = Operations(*ordered[2:], ordered.row)
        is_evicted: np.ndarray = ordered.stage % STAGES == EVICTIONS
        boundary: np.ndarray = ordered.stage // STAGES
        return chunk_of_operations(made, chunk, tuples, now, outcome=outcome, is_evicted=is_evicted, boundary=boundary)
