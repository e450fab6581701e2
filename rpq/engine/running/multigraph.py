"""Edges with an identity and with properties, as edges with derived labels.

The snapshot graph and the queries know edges by source, label and target, and nothing of properties. `Multigraph` stands
before them: from each tuple it makes the inserts and deletes of its derived labels (`ConditionLabel`), which are one event,
and of its own label where a query reads that without a condition. Behind it a derived label is a label like any other.

- With `triple` an insert replaces the edge that the longest window holds, unless it is older: the derived labels that only
  the version before had are deleted. `EdgeVersions` knows the version of every edge.
- With `parallel` each insert is an edge of its own. A derived label has an edge between two vertices as long as some of the
  parallel edges that satisfy its condition lasts: inserts alone, whose largest timestamp counts. A delete removes them all.
- With `id` an insert replaces the edge with its id, whatever the ends and labels of the two. Several edges with equal ends
  may have a label, and `EdgesById` knows which of them is left when one goes.

An edge that edge variables may bind is a vertex of its own too (`rpq.stream.edge_vertices`), for each version one: an insert
brings the edges from its source to this vertex and on to its target, a delete or a replacement takes them away. Its number
is that of the insert or, with `id`, that of the id.

Counts of tuples go by the tuples as they came: by label, whatever the conditions, one each. A window of time holds an edge
if its version has a timestamp inside, so the versions tell what became of a tuple in each window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.automata.symbols import ConditionLabel
from rpq.engine.running.condition_sets import ConditionSets, misfit
from rpq.errors import InputError, QueryError
from rpq.language.edge_steps import ALWAYS, EdgeStep, step_of
from rpq.language.protocol import Question
from rpq.language.readings import LabelSet, Reading, filters_of, is_ordered, values_read_by
from rpq.language.where import WhereError
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk, SingleTuple
from rpq.stream.columns import EdgeIds
from rpq.stream.edge_values import EdgeValues, ValuesOf, values_at
from rpq.stream.edge_versions import ABSENT_VERSION, EdgeVersions, VersionsBefore
from rpq.stream.edge_vertices import NO_VERTEX, EdgeVertexColumns
from rpq.stream.edges_by_id import EdgesBefore, EdgesById, Operations
from rpq.stream.labels import LabelDictionary
from rpq.stream.numpy_arrays import distinct_values
from rpq.stream.outcomes import ABSENT, DELETED, INSERTED, IRRELEVANT, LATE, OUTCOME_COUNT, REFRESHED
from rpq.stream.parallel_edges import ParallelEdges
from rpq.stream.plain_columns import NUMBER
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.stream_labels import EDGE_ENDS, EdgeEnd, LabelName
from rpq.stream.stream_time import StreamTime
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import AnyWindow, Window

Identity = Literal["triple", "parallel", "id"]
"""When two inserts are the same edge: with equal source, label and target, never, or with equal ids."""

_IDENTITIES: Mapping[Identity, str] = {
    "triple": "triple: an insert replaces the edge with its source, label and target",
    "parallel": "parallel: each insert is an edge of its own",
    "id": "id: an insert replaces the edge with its id, whatever the ends",
}


def describe_identity(identity: Identity) -> str:
    """Return when two inserts are the same edge, in words.

    >>> describe_identity("parallel")
    'parallel: each insert is an edge of its own'
    """
    return _IDENTITIES[identity]


_ReaderKey = tuple[LabelSet, AnyWindow]
"""The plain labels that a query reads, with whatever conditions, and its window."""

_OWN_LABEL = -1
"""In place of a derived label in a template: the label of the tuple."""


class DerivedChunk(NamedTuple):
    """The tuples of a chunk as edges with derived labels."""

    chunk: Chunk
    row: np.ndarray | None
    """int64: for each edge the tuple of the chunk that it is of; None where there is one for each."""
    first: np.ndarray | None
    """int64: for each edge the place of the first of its event; None where each is an event of its own."""
    outcome: np.ndarray
    """uint8: what became of each tuple."""

    def first_of_events(self, events: np.ndarray) -> np.ndarray:
        """Return `first` for events of several tuples, whose first tuples are `events` (int64, a tuple)."""
        of_edges = events if self.row is None else events[self.row]
        begins = np.flatnonzero(np.diff(of_edges, prepend=-1))
        return np.repeat(begins, np.diff(begins, append=len(of_edges)))


class _Reader:
    """The outcomes of tuples for all queries that read the same labels, with whatever conditions, over the same window."""

    def __init__(self) -> None:
        self.counts = np.zeros(OUTCOME_COUNT, np.int64)
        self.counts_before: dict[str, np.ndarray] = {}
        """For each query the counts when it came."""


class _Template(NamedTuple):
    """The edges that tuples of one kind become, as pairs of a label and whether it is deleted."""

    labels: list[int]
    deletes: list[int]


class _Walk(NamedTuple):
    """How an expression of an edge variable walks edges with a label in one direction."""

    from_subject: int
    """The id of the label of edges from subjects of steps."""
    to_object: int
    inverse: bool
    is_second: bool
    """Whether edges are walked the other way too, so that the vertex is the twin."""
    is_loopless: bool
    condition: str


class _Fates(NamedTuple):
    """The effects of the tuples of a chunk on edges that are vertices."""

    number: np.ndarray  # int64: the number of the edge; -1 for a delete without an id
    is_told: np.ndarray  # bool: inserts of which the graph is told, late ones too
    is_held: np.ndarray  # bool: inserts whose edges are there from then on
    takes_away: np.ndarray  # bool: tuples that may end edges that were there


class _EndEdges(NamedTuple):
    """Edges between vertices and edges that are vertices, each with the number of its tuple."""

    row: np.ndarray
    source: np.ndarray
    label: np.ndarray
    target: np.ndarray
    delete: np.ndarray


def _end_edges(
    walk: _Walk, rows: np.ndarray, source: np.ndarray, target: np.ndarray, edge: np.ndarray, *, is_deleted: bool
) -> list[_EndEdges]:
    """Return for edges from `source` to `target` the edges to and from their vertices, which may be missing."""
    is_there = edge != NO_VERTEX
    if not is_there.all():
        rows, source, target, edge = (column[is_there] for column in (rows, source, target, edge))
    begin, end = (target, source) if walk.inverse else (source, target)
    delete = np.full(len(rows), is_deleted, np.uint8)
    first, second = (np.full(len(rows), label, np.int32) for label in (walk.from_subject, walk.to_object))
    return [_EndEdges(rows, begin, first, edge, delete), _EndEdges(rows, edge, second, end, delete)]


def _first_of(walked: Sequence[tuple[_Walk, np.ndarray]], second: _Walk, accepted: np.ndarray) -> np.ndarray:
    """Return which edges an expression walks forward already: a loop is bound once."""
    found = np.zeros_like(accepted)
    for walk, mine in walked:
        if walk.from_subject == second.from_subject and not walk.inverse:
            found |= mine
    return found


def _merged(derived: DerivedChunk, chunk: Chunk, more: _EndEdges) -> DerivedChunk:
    """Return derived edges with further ones of the same tuples, which are one event with them."""
    before = np.arange(len(derived.chunk.label)) if derived.row is None else derived.row
    row = np.concatenate([before, more.row])
    order = np.argsort(row, kind="stable")
    row = row[order]

    def joined(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.concatenate([one, other.astype(one.dtype)])[order]
        return found

    merged = Chunk(
        source=joined(derived.chunk.source, more.source),
        target=joined(derived.chunk.target, more.target),
        label=joined(derived.chunk.label, more.label),
        timestamp=joined(derived.chunk.timestamp, chunk.timestamp[more.row]),
        delete=joined(derived.chunk.delete, more.delete),
        edge=np.empty(len(row), np.int32),
    )
    is_first = np.append(True, row[1:] != row[:-1])
    return DerivedChunk(merged, row, np.flatnonzero(is_first)[np.cumsum(is_first) - 1], derived.outcome)


class Multigraph:
    """The derived edges of a stream, and counts of its tuples.

    `admit` lets queries know of new label ids; `is_read` returns whether any query reads label ids, derived ones too.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        labels: LabelDictionary,
        vertices: VertexDictionary,
        admit: Callable[[np.ndarray], None],
        is_read: Callable[[np.ndarray], np.ndarray],
        capacity: int,
        keeps_values: bool = False,
    ) -> None:
        self.identity: Identity = identity
        self.sets = ConditionSets(ids_of=self._ids_of)
        self.by_id: EdgesById | None = EdgesById(capacity=capacity) if identity == "id" else None
        """The edges by id; None where edges have none."""
        self.versions = self.by_id or EdgeVersions(keeps_all=identity == "parallel", capacity=capacity)
        self.kept_window: Window | None = None
        """The window whose edges are all kept, if there is one."""
        self.outcomes = np.zeros(OUTCOME_COUNT, np.int64)
        """The counts of the outcomes of all tuples for the engine as a whole."""
        self.inserts = 0
        """The number of well-formed inserts so far, whatever became of them."""
        self._steps: dict[str, EdgeStep] = {}
        """The expressions of edge variables."""
        self._ends: frozenset[EdgeEnd] = frozenset()
        self._walks_on: dict[int, list[_Walk]] = {}
        self._reads_values: dict[str, frozenset[str]] = {}
        """The properties that columns and filters of queries read."""
        self._filters: dict[str, Any] = {}
        self._vertices = vertices
        self._vertices.edges.names = None if self.by_id is None else self.by_id.names
        self._labels = labels
        self._admit = admit
        self._is_read = is_read
        self._readers: dict[_ReaderKey, _Reader] = {}
        self._readings: dict[str, Reading] = {}
        self._questions: dict[str, Question] = {}
        self._masks: dict[LabelSet, np.ndarray] = {}
        self.parallel: ParallelEdges | None = None
        """All edges that queries about paths in time order read; None while there is no such query."""
        self._is_ordered = np.zeros(0, np.uint8)
        self._capacity = capacity
        self._room = 0
        self._sets_after_collect = 1024
        self.kept_values: EdgeValues | None = EdgeValues() if keeps_values else None
        """The values of edges by source, label in the graph and target, or by id; None where witnesses do not tell them."""

    def _ids_of(self, names: Sequence[ConditionLabel]) -> list[int]:
        """Return the ids of derived labels, new ones for those that have none."""
        known = self._labels.ids
        if new := [self._labels.add(name) for name in names if name not in known]:
            self._admit(np.array(new))
        return [known[name] for name in names]

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions of all queries."""
        of_labels = (condition for reading in self._readings.values() for condition in _conditions_of(reading))
        return frozenset(of_labels).union(*(step.conditions for step in self._steps.values()))

    @property
    def values_read(self) -> frozenset[str]:
        """The properties that columns and filters of queries read."""
        return frozenset().union(*self._reads_values.values())

    def unevaluated(self, labels: LabelSet) -> list[ConditionLabel]:
        """Return the labels with conditions in a set that are not made from tuples now."""
        if labels.conditions:
            return [] if labels in self._with_others else [ConditionLabel(None, one) for one in labels.conditions]
        named = [label for label in labels.named if isinstance(label, ConditionLabel)]
        return [
            label
            for label in named
            if label not in self._ends and label.condition not in self._conditions_on(label.label or "")
        ]

    def add(self, questions: Iterable[Question], readings: Mapping[str, Reading]) -> None:
        """Add queries, each with what it reads. Raises `QueryError` for a condition that does not fit the properties."""
        before = self._readings, self._reads_values, self._filters
        self._readings = {**self._readings, **readings}
        questions = [*questions]
        for question in questions:
            if (read := values_read_by(question)) is not None:
                self._reads_values = {**self._reads_values, question.name: read}
                self._filters = {**self._filters, question.name: filters_of(question)}
        try:
            self._set_conditions()
        except WhereError as error:
            self._readings, self._reads_values, self._filters = before
            self._set_conditions()
            raise QueryError(misfit(error, self.sets.types)) from error
        for name, reading in readings.items():
            reader = self._readers.setdefault(_key_of(reading), _Reader())
            reader.counts_before[name] = reader.counts.copy()
        self._questions |= {question.name: question for question in questions}
        if self.parallel is None and self._ordered_questions:
            self.parallel = ParallelEdges(capacity=self._capacity)
        self._forget_masks()

    @property
    def questions(self) -> list[Question]:
        """The queries."""
        return [*self._questions.values()]

    def remove(self, names: Iterable[str]) -> None:
        """Remove queries."""
        for name in names:
            if (reading := self._readings.pop(name, None)) is not None:
                key = _key_of(reading)
                del self._readers[key].counts_before[name]
                if not self._readers[key].counts_before:
                    del self._readers[key]
            self._reads_values.pop(name, None)
            self._filters.pop(name, None)
            self._questions.pop(name, None)
        self._set_conditions()
        self._vertices.edges.keep_properties(self.values_read)
        if not self._ordered_questions:
            self.parallel = None
        self._forget_masks()

    def _set_conditions(self) -> None:
        named = (label for reading in self._readings.values() for label in reading.labels.named)
        self._ends = frozenset(label for label in named if isinstance(label, EdgeEnd))
        self._steps = {text: step_of(text) for text in sorted({end.label or "" for end in self._ends})}
        self._walks_on = {}
        self._named: dict[str, set[str]] = {}
        self._with_others: set[LabelSet] = set()
        for reading in self._readings.values():
            if reading.labels.conditions:
                self._with_others.add(reading.labels)
                continue
            for label in reading.labels.named:
                if isinstance(label, ConditionLabel) and not isinstance(label, EdgeEnd):
                    self._named.setdefault(label.label or "", set()).add(label.condition)
        filters = {one.text: one for filters in self._filters.values() for one in filters}
        self.sets.set_conditions(self.conditions, self._conditions_on, filters=filters, values=self.values_read)

    def _conditions_on(self, label: str) -> frozenset[str]:
        """Return the conditions with which queries read a label."""
        return frozenset(self._named.get(label, ())).union(*(labels.conditions_on(label) for labels in self._with_others))

    @property
    def _ordered_questions(self) -> list[Any]:
        return [question for question in self._questions.values() if is_ordered(question)]

    def keeps_parallel(self, labels: LabelSet) -> bool:
        """Return whether all edges with some labels are in `parallel`, as queries that run need them too."""
        known = [question.label_set for question in self._ordered_questions]
        if labels in known or labels.has_others:
            return labels in known
        return all(any(one.has(label) for one in known) for label in labels.named)

    def _ordered_labels(self) -> np.ndarray:
        """Return which label ids queries about paths in time order read (uint8)."""
        names, questions = self._labels.names, self._ordered_questions
        if len(self._is_ordered) < len(names):
            new = names[len(self._is_ordered) :]
            are_read = [
                isinstance(name, (str, ConditionLabel)) and any(question.reads(name) for question in questions)
                for name in new
            ]
            self._is_ordered = np.concatenate([self._is_ordered, np.array(are_read, np.uint8)])
        return self._is_ordered

    def _forget_masks(self) -> None:
        self._is_ordered = np.zeros(0, np.uint8)
        self._masks = {}
        self._room = 0

    def counts(self, query: str) -> np.ndarray:
        """Return how many tuples had each outcome for a query, in the order of `Outcome`."""
        reader = self._readers[_key_of(self._readings[query])]
        found: np.ndarray = reader.counts - reader.counts_before[query]
        return found

    def set_counts(self, query: str, counts: np.ndarray) -> None:
        """Set what `counts` returns of a query now."""
        reader = self._readers[_key_of(self._readings[query])]
        reader.counts_before[query] = reader.counts - counts

    # --- properties ------------------------------------------------------------------------------------------

    def read_properties(
        self, data: Any, *, count: int, times: StreamTime, problems: list[InputError]
    ) -> Mapping[str, pa.Array]:
        """Return the columns of properties that conditions need and data has. Raises `InputError`."""
        columns = self.sets.read(data, count=count, time_unit=_unit_of(times), problems=problems)
        self.note_types()
        return columns

    def note_types(self) -> None:
        """Set the types of properties and of timestamps of edges that are vertices."""
        self._vertices.edges.types, self._vertices.edges.unit = self.sets.types, self.sets.time_unit

    @property
    def edge_ids(self) -> EdgeIds | None:
        """The kind of the ids of edges; None where they have none."""
        return None if self.by_id is None else EdgeIds(self.by_id.names.kind)

    # --- labels ----------------------------------------------------------------------------------------------

    def reads(self, label: np.ndarray) -> np.ndarray:
        """Return whether any query reads label ids, plain or with a condition (uint8)."""
        found = np.zeros(len(label), np.uint8)
        for mask in self._masks_of_labels().values():
            found |= mask[label]
        return found

    def _masks_of_labels(self) -> dict[LabelSet, np.ndarray]:
        """Return for each set of labels that queries read whether it has a label id, in any form (uint8)."""
        names = self._labels.names
        if not self._masks:
            self._room = 0
            self._masks = {labels: np.zeros(0, np.uint8) for labels, _ in self._readers}
        if self._room < len(names):
            for labels, mask in self._masks.items():
                new = [isinstance(name, str) and name != "" and labels.has(name) for name in names[self._room :]]
                self._masks[labels] = np.concatenate([mask, np.array(new, np.uint8)])
            self._room = len(names)
        return self._masks

    def bearing(self, edges: np.ndarray) -> np.ndarray:
        """Return how many edges bear each label, with the versions and derived labels counted, so that none is forgotten."""
        versions = np.bincount(self.versions.all_columns()[1], minlength=len(edges))
        found: np.ndarray = np.add(edges, versions.astype(edges.dtype))
        found[self.sets.ids()] += 1
        ids = self._labels.ids
        found[[ids[end] for end in self._ends if end in ids]] += 1
        return found

    def forget_labels(self) -> None:
        """Note that label ids may have other names now."""
        self._walks_on = {}
        self._forget_masks()

    # --- the stream ------------------------------------------------------------------------------------------

    def derive(
        self,
        chunk: Chunk,
        properties: Mapping[str, pa.Array],
        time: int | None,
        *,
        timestamp: np.ndarray,
        edge: pa.Array | None = None,
    ) -> DerivedChunk:
        """Return the tuples of a chunk as edges with derived labels; `time` is the stream time before them.

        `properties` are columns of as many rows, `timestamp` the times that conditions see, and `edge` the ids of edges
        where they have one. O(tuples + edges).
        """
        now = np.maximum.accumulate(chunk.timestamp)
        now = now if time is None else np.maximum(now, time)
        windows = list({window for _, window in self._readers})
        bounds = {window: lower_bounds(window, now) for window in windows}
        everything = np.minimum.reduce([*bounds.values()]) if bounds else now
        satisfied = self.sets.sets_of(chunk.label, self._labels.names, properties, timestamp)
        if self.by_id is not None:
            assert edge is not None
            if self.kept_window is not None:
                everything = np.minimum(everything, lower_bounds(self.kept_window, now))
            ids = self.by_id.name(edge)
            before, made = self._apply_by_id(self.by_id, chunk, ids, satisfied, everything)
            outcome = self._judge(chunk, before, bounds)
            more = None
            if self._steps:
                more = self._end_edges(chunk, properties, timestamp, _fates_by_id(chunk, ids, before, everything))
            derived = _derived_by_id(made, chunk, now, outcome, () if more is None else more.row)
            self._keep_values_by_id(self.by_id, chunk, ids, properties)
            return self._noted(derived if more is None else _merged(derived, chunk, more))
        assert isinstance(self.versions, EdgeVersions)
        versions_before = self.versions.apply(chunk, satisfied, everything)
        outcome = self._judge(chunk, versions_before, bounds)
        is_late = chunk.timestamp <= everything
        more = None
        if self._steps:
            more = self._end_edges(chunk, properties, timestamp, self._fates(chunk, versions_before, is_late))
        derived = self._derived(chunk, now, satisfied, versions_before, is_late, outcome, () if more is None else more.row)
        self.inserts += int(np.count_nonzero(chunk.delete == 0))
        self._keep_values(derived, properties, everything)
        return self._noted(derived if more is None else _merged(derived, chunk, more))

    def _noted(self, derived: DerivedChunk) -> DerivedChunk:
        """Note the edges that queries about paths in time order read."""
        if self.parallel is not None:
            self.parallel.note(derived.chunk, self._ordered_labels())
        return derived

    # --- one tuple -------------------------------------------------------------------------------------------

    def reads_label(self, label: int) -> bool:
        """Return whether any query reads a label id, plain or with a condition."""
        return any(mask.item(label) for mask in self._masks_of_labels().values())

    def takes_one(self, times: StreamTime) -> bool:
        """Return whether `derive_one` can take the place of `derive` for a tuple of a stream with such times.

        It cannot where edges have ids, are vertices, or have values to tell, nor for the first tuple.
        """
        is_bare = self.by_id is None and not self._steps and self.kept_values is None
        return is_bare and self.sets.is_timed and self.sets.time_unit == _unit_of(times)

    def values_of_one(self, properties: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values that conditions need of one tuple; None where one has another type than its property."""
        needed = self.sets.properties
        given = {name: value for name, value in properties.items() if name in needed and value is not None}
        values = {name: self.sets.types.value_of_one(name, value) for name, value in given.items()}
        return None if None in values.values() else values

    def derive_one(
        self, single: SingleTuple, values: Mapping[str, Any], time: int | None, *, is_plain: bool
    ) -> tuple[list[int], list[int]]:
        """Return the labels of the edges of one tuple and whether each is deleted, as `derive`; write what became of it.

        `is_plain` says whether a query reads its label without a condition.
        """
        assert isinstance(self.versions, EdgeVersions)
        chunk = single.chunk
        label, timestamp, is_delete = chunk.label.item(0), chunk.timestamp.item(0), bool(chunk.delete.item(0))
        now = timestamp if time is None else max(time, timestamp)
        bounds = [_lower_bound(window, now) for _, window in self._readers]
        self.inserts += not is_delete
        if chunk.source.item(0) < 0:  # nobody reads it
            single.outcome[0] = self._judge_one(label, timestamp, is_delete, ABSENT_VERSION, bounds)
            return [label], [int(is_delete)]
        bound = min(bounds, default=now)
        satisfied = 0 if is_delete else self.sets.set_of_one(chunk.label, self._labels.names, values, chunk.timestamp)
        of_one = np.array([satisfied], np.int32), np.array([bound], np.int64)
        before = self.versions.apply(chunk, *of_one, tuples=single.view)
        before_timestamp, is_effective = before.timestamp.item(0), bool(before.is_effective.item(0))
        single.outcome[0] = self._judge_one(label, timestamp, is_delete, before_timestamp, bounds)
        new = satisfied if is_effective or timestamp <= bound else 0
        old = 0
        if is_effective and self.identity == "triple":
            old = before.satisfied.item(0)
        elif is_effective and is_delete and before_timestamp != ABSENT_VERSION:
            old = self.sets.whole_set(str(self._labels.names[label]))
        labels, deletes = [label], [int(is_delete)]
        if old or new:
            sets = self.sets.count
            template = self._template(((old * sets + new) * 2 + is_plain) * 2 + is_delete, sets)
            labels, deletes = [label if one == _OWN_LABEL else one for one in template.labels], template.deletes
        if self.parallel is not None:
            source, target, is_ordered = chunk.source.item(0), chunk.target.item(0), self._ordered_labels()
            for one, deleted in zip(labels, deletes, strict=True):
                if is_ordered.item(one):
                    self.parallel.note_one(source, one, target, timestamp, deleted)
        return labels, deletes

    def _judge_one(
        self, label: int, timestamp: int, is_delete: bool, before: int, bounds: Sequence[int]
    ) -> int:
        """Count what became of one tuple like `_judge`; `before` is the timestamp of its edge, `bounds` one a reader."""
        masks = self._masks_of_labels()
        held = INSERTED if self.identity == "parallel" else REFRESHED
        longest, outcome = None, IRRELEVANT

        def outcome_for(bound: int) -> int:
            if is_delete:
                return DELETED if before > bound else ABSENT
            return LATE if timestamp <= bound else held if before > bound else INSERTED

        for ((labels, _), reader), bound in zip(self._readers.items(), bounds, strict=True):
            if masks[labels].item(label):
                longest = bound if longest is None else min(longest, bound)
                reader.counts[outcome_for(bound)] += 1
            else:
                reader.counts[IRRELEVANT] += 1
        if longest is not None:
            outcome = outcome_for(longest)
        self.outcomes[outcome] += 1
        return outcome

    # --- chunks ----------------------------------------------------------------------------------------------

    def _apply_by_id(
        self, edges: EdgesById, chunk: Chunk, edge: np.ndarray, satisfied: np.ndarray, bound: np.ndarray
    ) -> tuple[EdgesBefore, Operations]:
        """Apply tuples whose edges have ids; return what these were before, and the operations on the graph."""
        is_whole = (chunk.delete != 0) & (edge < 0)
        whole = np.where(is_whole, self._whole_sets(chunk), 0) if is_whole.any() else np.zeros(len(edge), np.int32)
        return edges.apply(
            chunk,
            edge,
            satisfied=satisfied,
            whole=whole.astype(np.int32),
            bound=bound,
            is_read=np.ascontiguousarray(self._is_read(np.arange(len(self._labels.names)))),
            is_ordered=self._ordered_labels(),
            sets=self.sets.flat(),
        )

    def _judge(
        self, chunk: Chunk, before: VersionsBefore | EdgesBefore, bounds: Mapping[AnyWindow, np.ndarray]
    ) -> np.ndarray:
        """Count what became of tuples for each reader, and return it for the engine as a whole.

        A tuple is relevant by its label, or by that of the edge with its id, if the window holds that.
        """
        masks = self._masks_of_labels()
        is_delete = chunk.delete != 0
        longest = np.full(len(is_delete), np.iinfo(np.int64).max)
        is_relevant = np.zeros(len(is_delete), bool)
        outcome = np.full(len(is_delete), IRRELEVANT, np.uint8)
        for (labels, window), reader in self._readers.items():
            is_mine = masks[labels][chunk.label] != 0
            bound = bounds[window]
            if isinstance(before, EdgesBefore):
                is_mine = is_mine | ((masks[labels][before.label] != 0) & (before.timestamp > bound))
            outcome = self._outcomes(chunk, is_delete, is_mine, before, bound)
            reader.counts += np.bincount(outcome, minlength=OUTCOME_COUNT)
            if len(self._readers) > 1:
                longest = np.where(is_mine, np.minimum(longest, bound), longest)
                is_relevant |= is_mine
        if len(self._readers) > 1:
            outcome = self._outcomes(chunk, is_delete, is_relevant, before, longest)
        self.outcomes += np.bincount(outcome, minlength=OUTCOME_COUNT)
        return outcome

    def _outcomes(
        self,
        chunk: Chunk,
        is_delete: np.ndarray,
        is_read: np.ndarray,
        before: VersionsBefore | EdgesBefore,
        bound: np.ndarray,
    ) -> np.ndarray:
        """Return what became of tuples where edges with a timestamp up to a bound have left."""
        is_held = before.timestamp > bound
        if self.by_id is not None:
            is_held &= (chunk.delete != DELETE_UNLESS_NEWER) | (chunk.timestamp >= before.timestamp)
        held = INSERTED if self.identity == "parallel" else REFRESHED
        of_insert = np.where(chunk.timestamp <= bound, LATE, np.where(is_held, held, INSERTED))
        of_delete = np.where(is_held, DELETED, ABSENT)
        return np.where(is_read, np.where(is_delete, of_delete, of_insert), IRRELEVANT).astype(np.uint8)

    def _derived(
        self,
        chunk: Chunk,
        now: np.ndarray,
        satisfied: np.ndarray,
        before: VersionsBefore,
        is_late: np.ndarray,
        outcome: np.ndarray,
        has_more: Sequence[int] | np.ndarray,
    ) -> DerivedChunk:
        """Return the edges of tuples; late ones come too, so that the graph knows what is lost.

        The tuples that have other edges, at the places `has_more`, are among those that have some.
        """
        is_plain = self._is_read(chunk.label) != 0
        is_delete = chunk.delete != 0
        is_effective = before.is_effective != 0
        new = np.where((is_effective | is_late) & ~is_delete & (chunk.source >= 0), satisfied, 0)
        if self.identity == "triple":
            old = np.where(is_effective, before.satisfied, 0)
        else:
            old = np.zeros(len(new), np.int32)
            if is_delete.any():
                is_gone = is_effective & is_delete & (before.timestamp != ABSENT_VERSION)
                old = np.where(is_gone, self._whole_sets(chunk), old)
        is_edge = (old | new != 0) | is_plain
        if len(has_more):
            is_edge[has_more] = True
        rows = _rows_to_apply(is_edge, chunk.timestamp, now)
        if rows is not None:
            chunk = Chunk(*(column[rows] for column in chunk))
            old, new, is_plain, is_delete = (column[rows] for column in (old, new, is_plain, is_delete))
        sets = self.sets.count
        code = ((old.astype(np.int64) * sets + new) * 2 + is_plain) * 2 + is_delete
        used, place = distinct_values(code, sets * sets * 4)
        templates = [self._template(int(one), sets) for one in used.tolist()]
        lengths = np.array([len(template.labels) for template in templates])
        labels = np.array([label for template in templates for label in template.labels], np.int32)
        deletes = np.array([delete for template in templates for delete in template.deletes], np.uint8)
        if (lengths == 1).all():
            label = labels[place]
            own = label == _OWN_LABEL
            label[own] = chunk.label[own]
            return DerivedChunk(chunk._replace(label=label, delete=deletes[place]), rows, None, outcome)
        begins = np.cumsum(lengths) - lengths
        many = lengths[place]
        row = np.repeat(np.arange(len(place)), many)
        first = np.repeat(np.cumsum(many) - many, many)
        inside = np.repeat(begins[place], many) + np.arange(len(row)) - first
        label = labels[inside]
        own = label == _OWN_LABEL
        label[own] = chunk.label[row[own]]
        edges = Chunk(*(column[row] for column in chunk))._replace(label=label, delete=deletes[inside])
        return DerivedChunk(edges, row if rows is None else rows[row], first, outcome)

    def derive_statics(self, chunk: Chunk) -> Chunk:
        """Return static edges under the derived labels that edges without values have. O(edges · conditions)."""
        plain = np.array([isinstance(name, str) for name in self._labels.names], bool)
        chunk = Chunk(*(column[plain[chunk.label]] for column in chunk))
        satisfied = self.sets.sets_of(chunk.label, self._labels.names, {}, None)
        many = np.array([len(self.sets.labels_of(number)) for number in satisfied.tolist()], np.int64)
        row = np.repeat(np.arange(len(many)), many)
        label = [one for number in satisfied.tolist() for one in self.sets.labels_of(number)]
        return Chunk(*(column[row] for column in chunk))._replace(label=np.array(label, np.int32))

    # --- values of edges for witnesses -----------------------------------------------------------------------

    @property
    def values(self) -> ValuesOf | None:
        """The function that returns the values of edges; None where none are kept, or no query reads any."""
        return self._values_of if self.kept_values is not None and self.sets.properties else None

    def _keep_values(self, derived: DerivedChunk, properties: Mapping[str, pa.Array], bound: np.ndarray) -> None:
        """Keep the values of the edges that tuples become, unless they are as old as `bound` (a tuple)."""
        if self.kept_values is None:
            return
        chunk, names = derived.chunk, sorted(self.sets.properties)
        of_tuples = range(len(chunk.label)) if derived.row is None else derived.row.tolist()
        columns = (chunk.source, chunk.label, chunk.target, chunk.timestamp, chunk.delete)
        for row, u, label, v, time, is_delete in zip(of_tuples, *(column.tolist() for column in columns), strict=True):
            if is_delete:
                self.kept_values.drop((u, label, v))
            elif u >= 0 and time > bound[row]:
                self.kept_values.put((u, label, v), time, values_at(properties, names, row))

    def _keep_values_by_id(
        self, edges: EdgesById, chunk: Chunk, edge: np.ndarray, properties: Mapping[str, pa.Array]
    ) -> None:
        """Keep the values of the inserts that are the current versions of their edges; the last of equal age is."""
        if self.kept_values is None:
            return
        names = sorted(self.sets.properties)
        is_current = edges.are_held(edge, chunk.timestamp) & (chunk.delete == 0)
        for row in np.flatnonzero(is_current).tolist():
            self.kept_values.replace(int(edge[row]), int(chunk.timestamp[row]), values_at(properties, names, row))

    def _values_of(self, source: int, label: LabelName | int, target: int) -> Mapping[str, Any] | None:
        """Return the values of the edge that the graph has between two vertices with a label, None if unknown."""
        assert self.kept_values is not None
        number = label if isinstance(label, int) else self._labels.ids[label]
        found = None
        if self.by_id is None:
            found = self.kept_values.of((source, number, target))
        else:
            name = self._labels.names[number]
            is_derived = isinstance(name, ConditionLabel)
            own = self._labels.ids[name.label or ""] if isinstance(name, ConditionLabel) else number
            for edge in self.by_id.youngest_first(source, own, target):
                if not is_derived or number in self.sets.labels_of(self.by_id.satisfied(edge)):
                    found = self.kept_values.of(edge)
                    break
        return None if found is None else {name: value for name, value in found.items() if name in self.sets.properties}

    # --- edges as vertices -----------------------------------------------------------------------------------

    def _walks(self, label: int) -> list[_Walk]:
        """Return how expressions of edge variables walk edges with a label."""
        found = self._walks_on.get(label)
        if found is None:
            name = self._labels.names[label]
            found = []
            for text, step in self._steps.items():
                if not isinstance(name, str):
                    break
                for is_loopless, begin in enumerate((0, 2)):
                    ends = [EdgeEnd(text, end) for end in EDGE_ENDS[begin : begin + 2]]
                    if ends[0] not in self._ends:
                        continue
                    ids = self._ids_of(ends)
                    conditions = step.conditions_on(name)
                    is_both = None not in conditions
                    found += [
                        _Walk(ids[0], ids[1], bool(inverse), bool(inverse) and is_both, bool(is_loopless), condition)
                        for inverse, condition in enumerate(conditions)
                        if condition is not None
                    ]
            self._walks_on[label] = found
        return found

    def _fates(self, chunk: Chunk, before: VersionsBefore, is_late: np.ndarray) -> _Fates:
        """Return what becomes of edges that are vertices, where they have no ids."""
        is_delete = chunk.delete != 0
        is_known = chunk.source >= 0
        is_effective = (before.is_effective != 0) & is_known
        return _Fates(
            number=self.inserts + np.cumsum(~is_delete),
            is_told=(is_effective | is_late) & ~is_delete & is_known,
            is_held=is_effective & ~is_delete,
            takes_away=is_effective if self.identity == "triple" else is_effective & is_delete,
        )

    def _end_edges(
        self, chunk: Chunk, properties: Mapping[str, pa.Array], timestamp: np.ndarray, fates: _Fates
    ) -> _EndEdges | None:
        """Return the edges between vertices and edges that are vertices, None for none."""
        count = len(chunk.label)
        columns = self.sets.complete(properties, timestamp)
        pieces: list[_EndEdges] = []
        entering = np.zeros(count, bool)
        doubled = np.zeros(count, bool)
        walked: list[tuple[_Walk, np.ndarray]] = []
        verdicts: dict[str, np.ndarray] = {}
        labels = [label for label in np.unique(chunk.label[fates.is_told]).tolist() if self._walks(label)]
        for label in labels:
            mine = chunk.label == label
            for walk in self._walks(label):
                accepted = mine & fates.is_told
                if walk.condition != ALWAYS:
                    if walk.condition not in verdicts:
                        verdicts[walk.condition] = self.sets.verdicts(walk.condition, columns, len(mine))
                    accepted &= verdicts[walk.condition]
                if walk.is_loopless:
                    accepted &= chunk.source != chunk.target
                elif walk.is_second:
                    accepted &= (chunk.source != chunk.target) | ~_first_of(walked, walk, accepted)
                entering |= accepted
                if walk.is_second:
                    doubled |= accepted
                walked.append((walk, accepted))
        new = np.flatnonzero(entering)
        vertex, twin = np.full(len(entering), NO_VERTEX, np.int32), np.full(len(entering), NO_VERTEX, np.int32)
        twice = np.flatnonzero(doubled)
        ids = self._vertices.reserve(len(new) + len(twice))
        vertex[new], twin[twice] = ids[: len(new)], ids[len(new) :]
        values = {name: columns[name] for name in self.values_read}
        for rows, mine, others in ((new, vertex, twin), (twice, twin, vertex)):
            of_tuples = chunk.source, chunk.label, chunk.target, timestamp, fates.number, others
            described = EdgeVertexColumns(*(column[rows] for column in of_tuples))
            taken = {name: column.take(pa.array(rows)) for name, column in values.items()}
            self._vertices.edges.add(mine[rows], described, taken)
        old_rows, old = self._replace_current(chunk, vertex, fates)
        if len(old):
            gone = self._vertices.edges.columns(old)
            for label in np.unique(gone.label).tolist():
                for walk in self._walks(label):
                    some = gone.label == label
                    bound = gone.twin[some] if walk.is_second else old[some]
                    ends = gone.source[some], gone.target[some]
                    pieces += _end_edges(walk, old_rows[some], *ends, bound, is_deleted=True)
        for walk, accepted in walked:
            rows = np.flatnonzero(accepted)
            bound = (twin if walk.is_second else vertex)[rows]
            pieces += _end_edges(walk, rows, chunk.source[rows], chunk.target[rows], bound, is_deleted=False)
        pieces = [piece for piece in pieces if len(piece.row)]
        return _EndEdges(*(np.concatenate(columns) for columns in zip(*pieces, strict=True))) if pieces else None

    def _replace_current(self, chunk: Chunk, vertex: np.ndarray, fates: _Fates) -> tuple[np.ndarray, np.ndarray]:
        """Make vertices of inserted edges current; return those that are so no longer, each with the tuple that ends it."""
        edges = self._vertices.edges
        rows: list[int] = []
        old: list[int] = []
        is_new = fates.is_held & (vertex != NO_VERTEX)
        if not fates.takes_away.any():
            edges.make_current(vertex[is_new])
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        relevant = np.flatnonzero(fates.takes_away | is_new)
        of_rows = (chunk.source, chunk.label, chunk.target, fates.number, vertex, fates.takes_away, is_new)
        for row, u, label, v, number, mine, takes, comes in zip(
            relevant.tolist(), *(column[relevant].tolist() for column in of_rows), strict=True
        ):
            if takes:
                is_by_id = self.by_id is not None and number >= 0
                gone = edges.take_numbered(number) if is_by_id else edges.take_current((u, label, v))
                old += gone
                rows += [row] * len(gone)
            if comes:
                edges.make_one_current((u, label, v), number, mine)
        return np.array(rows, np.int64), np.array(old, np.int32)

    def _whole_sets(self, chunk: Chunk) -> np.ndarray:
        """Return for the tuples of a chunk the number of the set of all derived labels of their label."""
        whole = np.zeros(len(self._labels.names), np.int32)
        for label in np.unique(chunk.label[chunk.delete != 0]).tolist():
            name = self._labels.names[label]
            if isinstance(name, str):
                whole[label] = self.sets.whole_set(name)
        if len(whole) < len(self._labels.names):  # derived labels that are new
            whole = np.concatenate([whole, np.zeros(len(self._labels.names) - len(whole), np.int32)])
        found: np.ndarray = whole[chunk.label]
        return found

    def _template(self, code: int, sets: int) -> _Template:
        """Return the edges of tuples, deletes first.

        A tuple that becomes no other edge is one with its own label, which moves the time.
        """
        code, is_delete = divmod(code, 2)
        code, is_plain = divmod(code, 2)
        old, new = divmod(code, sets)
        inserted = self.sets.labels_of(new)
        deleted = [label for label in self.sets.labels_of(old) if label not in set(inserted)]
        is_alone = not inserted and not deleted
        labels = [*([_OWN_LABEL] if is_plain or is_alone else []), *deleted, *inserted]
        own = [is_delete] if is_plain or is_alone else []
        return _Template(labels, [*own, *[1] * len(deleted), *[0] * len(inserted)])

    # --- what is held ----------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        values = 0 if self.kept_values is None else self.kept_values.nbytes
        values += 0 if self.parallel is None else self.parallel.nbytes
        return self.versions.nbytes + self._vertices.edges.nbytes + values

    @property
    def wants_collection(self) -> bool:
        """Whether enough edges came since the last collection to pay for another one."""
        return self.versions.wants_collection or (self.parallel is not None and self.parallel.wants_collection)

    def lower_bound(self, time: int | None) -> int:
        """Return the timestamp up to which edges have left every window at a stream time."""
        if time is None:
            return ABSENT_VERSION
        windows: list[AnyWindow] = [window for _, window in self._readers]
        if self.by_id is not None and self.kept_window is not None:
            windows.append(self.kept_window)
        return min((_lower_bound(window, time) for window in windows), default=time)

    def collect(self, time: int | None) -> None:
        """Forget versions that have left every window, and sets that no version has. O(versions)."""
        bound = self.lower_bound(time)
        self.versions.collect(bound)
        if self.parallel is not None:
            self.parallel.collect(bound, self._ordered_labels())
        if self.kept_values is not None:
            self.kept_values.collect(bound)
        if self.sets.count > self._sets_after_collect:
            self.versions.renumber(self.sets.retain(self.versions.all_columns()[4]))
            self._sets_after_collect = 1024 + 2 * self.sets.count

    def restore(
        self, source: np.ndarray, label: np.ndarray, target: np.ndarray, timestamp: np.ndarray, graph: SnapshotGraph
    ) -> None:
        """Set the versions of edges, whose derived labels are those of the edges that the graph holds.

        O(versions + edges).
        """
        assert isinstance(self.versions, EdgeVersions)
        satisfied = np.zeros(len(source), np.int32)
        if self.identity == "triple":
            derived: dict[tuple[int, int, int], list[int]] = {}
            live, names, ids = graph.live_edges(), self._labels.names, self._labels.ids
            ends = (graph.edges.source[live], graph.edges.label[live], graph.edges.target[live])
            for u, number, v in zip(*(column.tolist() for column in ends), strict=True):
                name = names[number]
                if isinstance(name, ConditionLabel) and not isinstance(name, EdgeEnd) and name.label in ids:
                    derived.setdefault((u, ids[name.label], v), []).append(number)
            keys = zip(source.tolist(), label.tolist(), target.tolist(), strict=True)
            satisfied[:] = [self.sets.number_of(derived.get(key, ())) for key in keys]
        self.versions.load(source, label, target, timestamp, satisfied)

    def vertices(self) -> np.ndarray:
        """Return the ids of the vertices of versions. O(versions + ids)."""
        source, _, target, _, _ = self.versions.all_columns()
        is_there = np.zeros(max(source.max(initial=-1), target.max(initial=-1)) + 1, bool)
        is_there[source] = is_there[target] = True
        return np.flatnonzero(is_there).astype(np.int32)

    def latest_held(self, labels: LabelSet) -> int:
        """Return the largest timestamp of the versions with a label in a set; `ABSENT_VERSION` for none. O(versions)."""
        _, label, _, timestamp, _ = self.versions.all_columns()
        is_mine = np.array([isinstance(name, str) and labels.has(name) for name in self._labels.names], bool)
        return int(timestamp[is_mine[label]].max(initial=ABSENT_VERSION))

    def edges_live(self, time: int | None) -> int:
        """Return how many edges with a label that is read the longest window holds."""
        live = self.versions.live(self.lower_bound(time))
        return int(np.count_nonzero(self.reads(self.versions.columns(live)[1])))

    def _check(self) -> None:
        """Assert the invariants."""
        self.versions._check()


def _fates_by_id(chunk: Chunk, number: np.ndarray, before: EdgesBefore, bound: np.ndarray) -> _Fates:
    """Return what becomes of edges that are vertices and have ids."""
    is_insert = chunk.delete == 0
    was_held = before.timestamp > bound
    is_late = chunk.timestamp <= bound
    is_older = was_held & (chunk.timestamp < before.timestamp)
    is_held = is_insert & ~is_late & ~is_older
    is_deleted = ~is_insert & was_held & ~(is_older & (chunk.delete == DELETE_UNLESS_NEWER))
    return _Fates(
        number=number.astype(np.int64),
        is_told=is_held | (is_insert & is_late),
        is_held=is_held,
        takes_away=is_deleted | (is_held & was_held),
    )


def _derived_by_id(
    made: Operations, chunk: Chunk, now: np.ndarray, outcome: np.ndarray, has_more: Sequence[int] | np.ndarray
) -> DerivedChunk:
    """Return operations on the graph as edges, with the tuples that are needed to move the time.

    The tuples at the places `has_more` become other edges.
    """
    has_operations = np.bincount(made.row, minlength=len(chunk.label)) > 0
    if len(has_more):
        has_operations[has_more] = True
    rows = _rows_to_apply(has_operations, chunk.timestamp, now)
    idle = np.zeros(0, np.int64) if rows is None else rows[~has_operations[rows]]
    nothing = np.full(len(idle), -1, np.int32)
    row = np.concatenate([made.row, idle])
    order = np.argsort(row, kind="stable")
    moved = nothing, chunk.label[idle], nothing, chunk.timestamp[idle], np.ones(len(idle), np.uint8)
    columns = (np.concatenate([one, other])[order] for one, other in zip(made[:5], moved, strict=True))
    source, label, target, timestamp, delete = (np.ascontiguousarray(column) for column in columns)
    row = row[order]
    derived = Chunk(source, target, label, timestamp, delete, np.empty(len(row), np.int32))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    if len(begins) == len(row):
        return DerivedChunk(derived, row, None, outcome)
    first = np.repeat(begins, np.diff(begins, append=len(row)))
    return DerivedChunk(derived, row, first, outcome)


def _key_of(reading: Reading) -> _ReaderKey:
    return reading.labels.plain, reading.window


def _conditions_of(reading: Reading) -> frozenset[str]:
    conditions = (label for label in reading.labels.named if isinstance(label, ConditionLabel))
    named = {label.condition for label in conditions if not isinstance(label, EdgeEnd)}
    return frozenset(named | reading.labels.conditions)


def _rows_to_apply(is_edge: np.ndarray, timestamp: np.ndarray, now: np.ndarray) -> np.ndarray | None:
    """Return the rows of tuples that become edges or are needed to move the time; None for all. O(tuples).

    A tuple that becomes no edge is left out where the next one that does moves the time as far. Of those behind the last
    edge the one with the largest timestamp stays.
    """
    idle = np.flatnonzero(~is_edge)
    if not len(idle):
        return None
    edges = np.flatnonzero(is_edge)
    following = np.searchsorted(edges, idle)
    behind = int(np.searchsorted(following, len(edges)))
    is_applied = is_edge.copy()
    is_needed = timestamp[edges[following[:behind]]] < now[idle[:behind]]
    is_applied[idle[:behind][is_needed]] = True
    if behind < len(idle):
        is_applied[idle[behind + int(np.argmax(timestamp[idle[behind:]]))]] = True
    return np.flatnonzero(is_applied)


def _unit_of(times: StreamTime) -> str | None:
    """Return the unit of the timestamps of a stream, None for plain numbers."""
    has_unit = times.unit is not None or times.type not in (None, NUMBER)
    return times.inner_unit if has_unit else None


def _lower_bound(window: AnyWindow, time: int) -> int:
    """Return what `lower_bounds` does for one time."""
    if not isinstance(window, Window):
        return ABSENT_VERSION
    boundary = time - time % window.slide
    return boundary - window.size if boundary >= ABSENT_VERSION + window.size else ABSENT_VERSION


def lower_bounds(window: AnyWindow, time: np.ndarray) -> np.ndarray:
    """Return the timestamp up to which edges have left a window at each of these times; none leaves an unbounded one."""
    if not isinstance(window, Window):
        return np.full(len(time), ABSENT_VERSION)
    boundary = time - time % window.slide
    lowest = ABSENT_VERSION + window.size
    return np.where(boundary >= lowest, boundary - window.size, ABSENT_VERSION)
