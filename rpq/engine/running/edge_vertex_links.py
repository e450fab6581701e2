"""Links: the edges to and from the vertices of edges that edge variables may bind.

Such an edge is a vertex of its own (`rpq.stream.names.edge_vertices`), one for each of its versions. An insert brings the
links from its source to this vertex and on to its target, for each expression of an edge variable that accepts the edge; a
delete or a replacement removes them. An edge that an expression walks both ways has a second vertex, its twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.engine.running.condition_sets import ConditionSets
from rpq.language.edge_variables import ALWAYS, EdgeStep, step_of
from rpq.language.readings import Identity
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edges.edge_store import TIMELESS
from rpq.stream.edges.edge_table import PriorEdges
from rpq.stream.edges.static_edges import StaticEdges
from rpq.stream.names.edge_vertices import NO_TIME, NO_VERTEX, EdgeVertexColumns
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import EDGE_ENDS, ConditionLabel, EdgeEnd
from rpq.stream.names.vertices import VertexDictionary

NO_LABEL = -1
"""In place of a label that no query reads."""


class TupleEdges(NamedTuple):
    """Edges that tuples become, each with the number of its tuple in the chunk."""

    row: np.ndarray  # int64
    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    delete: np.ndarray  # uint8


class EdgeEffects(NamedTuple):
    """The effects of the tuples of a chunk on edges that are vertices."""

    number: np.ndarray  # int64: the number of the edge; -1 for a delete without an id
    reaches_graph: np.ndarray  # bool: inserts that the graph sees, late ones too
    becomes_current: np.ndarray  # bool: inserts whose edges exist from then on
    ends_current: np.ndarray  # bool: tuples that may end edges that existed


def effects_of(
    chunk: Chunk, number: np.ndarray, before: PriorEdges, bound: np.ndarray, *, identity: Identity
) -> EdgeEffects:
    """Return the effects of tuples with edges of these numbers; up to `bound` edges have left every window."""
    is_insert = (chunk.delete == 0) & (chunk.source >= 0) & (chunk.timestamp != TIMELESS)
    is_late = chunk.timestamp <= bound
    was_there, replaces = before.timestamp > bound, identity != "parallel"
    is_older = was_there & (chunk.timestamp < before.timestamp)
    becomes_current = is_insert & ~is_late & ~(is_older & replaces)
    is_deleted = (chunk.delete != 0) & ~(is_older & (chunk.delete == DELETE_UNLESS_NEWER))
    return EdgeEffects(
        number=number.astype(np.int64),
        reaches_graph=becomes_current | (is_insert & is_late),
        becomes_current=becomes_current,
        ends_current=was_there & (is_deleted | (becomes_current & replaces)),
    )


class _Walk(NamedTuple):
    """The walk of an expression of an edge variable over edges with a label, in one direction."""

    from_subject: int
    """The id of the label of links from subjects of steps."""
    to_object: int
    """`NO_LABEL` where paths with a cost alone read the links: they know the objects of edges."""
    inverse: bool
    is_second: bool
    """True if edges are walked the other way too, so that the vertex is the twin."""
    is_loopless: bool
    condition: str

    def links(
        self, rows: np.ndarray, source: np.ndarray, target: np.ndarray, edge: np.ndarray, *, is_deleted: bool
    ) -> list[TupleEdges]:
        """Return the links of edges from `source` to `target` with the vertices `edge`, which may be missing."""
        is_there = edge != NO_VERTEX
        if not is_there.all():
            rows, source, target, edge = (column[is_there] for column in (rows, source, target, edge))
        begin, end = (target, source) if self.inverse else (source, target)
        delete = np.full(len(rows), is_deleted, np.uint8)
        first, second = (np.full(len(rows), label, np.int32) for label in (self.from_subject, self.to_object))
        to_edge, to_object = TupleEdges(rows, begin, first, edge, delete), TupleEdges(rows, edge, second, end, delete)
        return [to_edge, to_object] if self.to_object != NO_LABEL else [to_edge]


class EdgeVertexLinks:
    """The expressions of edge variables, and the links of the edges that they accept.

    `ids_of` returns the ids of derived labels, new ones for those that have none.
    """

    def __init__(
        self,
        *,
        vertices: VertexDictionary,
        labels: LabelDictionary,
        sets: ConditionSets,
        ids_of: Callable[[Sequence[ConditionLabel]], list[int]],
    ) -> None:
        self.ends: frozenset[EdgeEnd] = frozenset()
        """The labels of links that queries read."""
        self._steps: dict[str, EdgeStep] = {}
        """The expressions of edge variables."""
        self._walks_on: dict[int, list[_Walk]] = {}
        self._vertices = vertices
        self._labels = labels
        self._sets = sets
        self._ids_of = ids_of

    def set_ends(self, ends: Iterable[EdgeEnd]) -> None:
        """Set the labels of links that queries read."""
        self.ends = frozenset(ends)
        self._steps = {text: step_of(text) for text in sorted({end.label or "" for end in self.ends})}
        self._walks_on = {}

    def forget_labels(self) -> None:
        """Note that label ids may have other names now."""
        self._walks_on = {}

    @property
    def are_read(self) -> bool:
        """True if any query has an edge variable."""
        return bool(self._steps)

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions in expressions of edge variables."""
        return frozenset().union(*(step.conditions for step in self._steps.values()))

    def derive(
        self,
        chunk: Chunk,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        effects: EdgeEffects,
        *,
        values: Iterable[str],
    ) -> TupleEdges | None:
        """Return the links that tuples bring and remove, None for none. Add the vertices of the edges that are new.

        `timestamp` are the times that conditions see, and `values` the properties that vertices have.
        O(tuples · expressions + links).
        """
        vertex, _, inserts = self._add_vertices(
            chunk, properties, timestamp, effects.reaches_graph, number=effects.number, values=values
        )
        pieces: list[TupleEdges] = []
        old_rows, old = self._replace_current(chunk, vertex, effects)
        if len(old):
            ended = self._vertices.edges.columns(old)
            for label in np.unique(ended.label).tolist():
                for walk in self._walks(label):
                    some = ended.label == label
                    bound = ended.twin[some] if walk.is_second else old[some]
                    pieces += walk.links(old_rows[some], ended.source[some], ended.target[some], bound, is_deleted=True)
        # The versions before leave last: then what followed from them follows from the new ones, where these are as good.
        pieces = [piece for piece in [*inserts, *pieces] if len(piece.row)]
        return TupleEdges(*(np.concatenate(columns) for columns in zip(*pieces, strict=True))) if pieces else None

    def walk(self, label: str) -> bool:
        """Return whether any expression of an edge variable walks edges with a label."""
        return any(set(step.conditions_on(label)) != {None} for step in self._steps.values())

    def derive_statics(
        self, statics: StaticEdges, values: Mapping[str, pa.Array], *, names: Iterable[str]
    ) -> list[TupleEdges]:
        """Return the links of static edges with these values, which become vertices; `names` are the values of vertices."""
        chunk, count = statics.chunk(), len(statics)
        columns = self._sets.complete(values, None, count)
        accepted_by = self._acceptance_masks(chunk, columns, np.ones(count, bool))
        for walk, accepted in accepted_by:
            for ids in (statics.vertex, statics.twin) if walk.is_second else (statics.vertex,):
                new = np.flatnonzero(accepted & (ids == NO_VERTEX))
                ids[new] = self._vertices.reserve(len(new))
        of_vertices = {name: columns[name] for name in names}
        described = chunk.source, chunk.label, chunk.target, np.full(count, NO_TIME, np.int64), statics.number
        for mine, others in ((statics.vertex, statics.twin), (statics.twin, statics.vertex)):
            self._describe(mine, np.flatnonzero(mine != NO_VERTEX), EdgeVertexColumns(*described, others), of_vertices)
        return _links_to(chunk, accepted_by, statics.vertex, statics.twin)

    def _describe(
        self, ids: np.ndarray, rows: np.ndarray, described: EdgeVertexColumns, values: Mapping[str, pa.Array]
    ) -> None:
        """Add the edges at the places `rows` of a chunk to the edges that are vertices."""
        taken = {name: column.take(pa.array(rows)) for name, column in values.items()}
        self._vertices.edges.add(ids[rows], EdgeVertexColumns(*(column[rows] for column in described)), taken)

    def _walks(self, label: int) -> list[_Walk]:
        """Return how expressions of edge variables walk edges with a label."""
        walks = self._walks_on.get(label)
        if walks is None:
            name = self._labels.names[label]
            walks = []
            for text, step in self._steps.items():
                if not isinstance(name, str):
                    break
                for is_loopless, begin in enumerate((0, 2)):
                    ends = [EdgeEnd(text, end) for end in EDGE_ENDS[begin : begin + 2]]
                    if ends[0] not in self.ends:
                        continue
                    ids = self._ids_of(ends) if ends[1] in self.ends else [*self._ids_of(ends[:1]), NO_LABEL]
                    conditions = step.conditions_on(name)
                    is_both = None not in conditions
                    walks += [
                        _Walk(ids[0], ids[1], bool(inverse), bool(inverse) and is_both, bool(is_loopless), condition)
                        for inverse, condition in enumerate(conditions)
                        if condition is not None
                    ]
            self._walks_on[label] = walks
        return walks

    def _acceptance_masks(
        self, chunk: Chunk, columns: Mapping[str, pa.Array], is_there: np.ndarray
    ) -> list[tuple[_Walk, np.ndarray]]:
        """Return for each walk of an expression which of the edges that are there it accepts (bool)."""
        accepted_by: list[tuple[_Walk, np.ndarray]] = []
        verdicts: dict[str, np.ndarray] = {}
        labels = [label for label in np.unique(chunk.label[is_there]).tolist() if self._walks(label)]
        for label in labels:
            mine = chunk.label == label
            counted = set(self._sets.texts_on(str(self._labels.names[label])))  # paths with the same condition count it
            for walk in self._walks(label):
                accepted = mine & is_there
                if walk.condition != ALWAYS:
                    if walk.condition not in verdicts:
                        verdicts[walk.condition] = self._sets.verdicts(walk.condition, columns, len(mine))
                    if walk.condition not in counted:
                        self._sets.count_non_numeric(walk.condition, accepted)
                        counted.add(walk.condition)
                    accepted &= verdicts[walk.condition]
                if walk.is_loopless:
                    accepted &= chunk.source != chunk.target
                elif walk.is_second:
                    accepted &= (chunk.source != chunk.target) | ~_walked_forward(accepted_by, walk, accepted)
                accepted_by.append((walk, accepted))
        return accepted_by

    def _add_vertices(
        self,
        chunk: Chunk,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        is_new: np.ndarray,
        *,
        number: np.ndarray,
        values: Iterable[str],
    ) -> tuple[np.ndarray, np.ndarray, list[TupleEdges]]:
        """Add the vertices and twins of inserts that expressions accept.

        Return them by tuple (int32), `NO_VERTEX` where there is none, and the links to and from them.
        """
        count = len(chunk.label)
        columns = self._sets.complete(properties, timestamp, count)
        accepted_by = self._acceptance_masks(chunk, columns, is_new)
        has_vertex, has_twin = np.zeros(count, bool), np.zeros(count, bool)
        for walk, accepted in accepted_by:
            has_vertex |= accepted
            if walk.is_second:
                has_twin |= accepted
        new, twice = np.flatnonzero(has_vertex), np.flatnonzero(has_twin)
        vertex, twin = np.full(count, NO_VERTEX, np.int32), np.full(count, NO_VERTEX, np.int32)
        ids = self._vertices.reserve(len(new) + len(twice))
        vertex[new], twin[twice] = ids[: len(new)], ids[len(new) :]
        of_vertices = {name: columns[name] for name in values}
        for rows, mine, others in ((new, vertex, twin), (twice, twin, vertex)):
            described = chunk.source, chunk.label, chunk.target, timestamp, number, others
            self._describe(mine, rows, EdgeVertexColumns(*described), of_vertices)
        return vertex, twin, _links_to(chunk, accepted_by, vertex, twin)

    def _replace_current(self, chunk: Chunk, vertex: np.ndarray, effects: EdgeEffects) -> tuple[np.ndarray, np.ndarray]:
        """Make vertices of inserted edges current. Return those that stop being so, each with the tuple that ends it."""
        edges = self._vertices.edges
        rows: list[int] = []
        old: list[int] = []
        is_new = effects.becomes_current & (vertex != NO_VERTEX)
        if not effects.ends_current.any():
            edges.make_current(vertex[is_new])
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        relevant = np.flatnonzero(effects.ends_current | is_new)
        of_rows = (chunk.source, chunk.label, chunk.target, effects.number, vertex, effects.ends_current, is_new)
        for row, u, label, v, number, mine, ends, begins in zip(
            relevant.tolist(), *(column[relevant].tolist() for column in of_rows), strict=True
        ):
            if ends:
                is_numbered = edges.by_number and number >= 0
                ended = edges.take_numbered(number) if is_numbered else edges.take_current((u, label, v))
                old += ended
                rows += [row] * len(ended)
            if begins:
                edges.make_one_current((u, label, v), number, mine)
        return np.array(rows, np.int64), np.array(old, np.int32)


def _links_to(
    chunk: Chunk, accepted_by: Iterable[tuple[_Walk, np.ndarray]], vertex: np.ndarray, twin: np.ndarray
) -> list[TupleEdges]:
    """Return the links of edges that expressions accept, whose vertices and twins these are."""
    pieces: list[TupleEdges] = []
    for walk, accepted in accepted_by:
        rows = np.flatnonzero(accepted)
        bound = (twin if walk.is_second else vertex)[rows]
        pieces += walk.links(rows, chunk.source[rows], chunk.target[rows], bound, is_deleted=False)
    return pieces


def _walked_forward(accepted_by: Sequence[tuple[_Walk, np.ndarray]], second: _Walk, accepted: np.ndarray) -> np.ndarray:
    """Return which edges the expression of `second` walks forward already: a loop is bound once."""
    is_walked = np.zeros_like(accepted)
    for walk, mine in accepted_by:
        if walk.from_subject == second.from_subject and not walk.inverse:
            is_walked |= mine
    return is_walked
