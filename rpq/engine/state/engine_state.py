"""Saving an engine to a file and restoring it.

A state is the window, not the index: the file contains the edges with their names and timestamps, the queries, the counters,
and the losses of each label. Windows whose contents do not follow from timestamps have theirs besides, which equal windows
share. The index is rebuilt. `state_layout.py` defines the file layout.

A file that has changed since it was written is refused, because its checksum is wrong. A file with a recomputed checksum is
refused unless an engine could have saved its content, as far as this can be checked without building the index twice.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.engine.running.evaluation import Evaluation
from rpq.engine.running.held import HeldRows
from rpq.engine.running.reports import Reports
from rpq.engine.running.retention import KeepOption, WindowContents, count_key
from rpq.engine.state.sealed import damage_error
from rpq.engine.state.state_content import (
    CountedState,
    EdgesByIdState,
    MultigraphState,
    NodesState,
    QueryState,
    StateContent,
    StateLabels,
)
from rpq.engine.state.state_layout import (
    COUNTED_COLUMNS,
    NODE_COLUMNS,
    STATE,
    STATIC_COLUMNS,
    Content,
    ContentArrays,
    EdgeValueArrays,
    EdgeVertexArrays,
    StateEdges,
    StateFile,
    copy_of,
    read_file,
    table_bytes,
    write_file,
)
from rpq.errors import QueryError, WhereError
from rpq.files.destinations import open_replacement
from rpq.language.protocol import RunningQuery
from rpq.language.readings import Reading, is_ordered, readings_of
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.properties import PropertyTypes
from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import NOT_HELD, OUTCOMES
from rpq.stream.edges.parallel_edges import ParallelColumns, ParallelEdges
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.edges.window_edges import WindowEdges
from rpq.stream.event_clock import query_over_unbounded_window
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.names.edge_vertices import NO_TIME, NO_VERTEX, EdgeVertexColumns
from rpq.stream.names.stream_labels import ConditionLabel, EdgeEnd, LabelName, NodeLabel
from rpq.stream.stream_time import EARLIEST, StreamTime
from rpq.stream.window import INT64_MAX, AnyWindow, CountWindow, Window

if TYPE_CHECKING:
    from rpq.engine.running.multigraph import Multigraph

_LARGEST_COUNT = 2**56
_Places = list[int | None]
"""For each window of a query the place of its content among those of the file, None where that follows from timestamps."""


def write_state(path: str, evaluation: Evaluation, about: dict[str, Any]) -> None:
    """Write a state, with the engine's own data `about`, to a file that appears whole or not at all.

    O(edges in the window).
    """
    described, edges = _content_of(evaluation, about)
    with open_replacement(path, is_private=True) as file:
        write_file(file, described, edges)


def copy_state(evaluation: Evaluation, about: dict[str, Any]) -> SavedState:
    """Return the state that `read_state` would return if it was written, without a file. O(edges in the window)."""
    return _read_content(copy_of(*_content_of(evaluation, about)), "a copy of an engine")


def _content_of(evaluation: Evaluation, about: dict[str, Any]) -> tuple[dict[str, Any], StateEdges]:
    graph = evaluation.graph
    evaluation.collector.collect()
    window_edges = graph.live_edges()
    is_fact = evaluation.labels.are_facts()
    window_edges = window_edges[~is_fact[graph.edges.label[window_edges]]]  # these follow from the facts of nodes
    contents = _SavedContents(evaluation, window_edges)
    content = StateContent(
        time=graph.time,
        kind=evaluation.vertices.kind,
        share=evaluation.share,
        labels=_labels_of(evaluation),
        outcomes=dict(zip(OUTCOMES, evaluation.outcomes.tolist(), strict=True)),
        multigraph=_multigraph_of(evaluation),
        nodes=_nodes_of(evaluation),
        queries=[_state_of(running, evaluation, contents) for running in evaluation.running],
        numbers=contents.numbers,
        **about,
    )
    return content.to_json(), _edges_of(evaluation, window_edges, ContentArrays.of(contents.contents))


class _SavedContents:
    """The contents of windows that do not follow from the timestamps of the edges, each once.

    These are the contents of count windows, and those of queries that started empty in mid-stream and still lack edges.
    """

    def __init__(self, evaluation: Evaluation, window_edges: np.ndarray) -> None:
        self.contents: list[Content] = []
        self.numbers: list[int] = []
        self._evaluation, self._edges = evaluation, window_edges
        self._places: dict[Hashable, int] = {}

    def places(self, running: RunningQuery) -> list[int | None]:
        """Return for each window of a query the place of its content, None where that follows from timestamps.

        Windows of facts, which stand behind the others, are left out.
        """
        graph, own = self._evaluation.graph, _are_of_facts(running).count(False)
        keys = self._evaluation.running.keys(running)[:own]
        found: list[int | None] = [None if key is None else self._of_count_window(key) for key in keys]
        if self._evaluation.running.is_late(running) and not is_ordered(running.question):  # those have a tracker
            slides, reads = running.slides(self._edges), running.reads(graph.edges.label[self._edges])
            for place, key in enumerate(keys):
                if key is None:
                    found[place] = self._of_late_window(running.windows[place], slides[place], reads[:, place])
        return found

    def _of_count_window(self, key: Hashable) -> int:
        if key not in self._places:
            counted = self._evaluation.graph.counted
            self._places[key] = self._place_of(counted.slides(key, self._edges), counted.number_of(key))
        return self._places[key]

    def _of_late_window(self, window: AnyWindow, slides: np.ndarray, is_read: np.ndarray) -> int | None:
        graph = self._evaluation.graph
        now, whole = graph.current_slide(window, None), graph.slides(window, None, self._edges)
        held = np.where(is_read & (slides > now), slides, NOT_HELD)
        if (held == np.where(is_read & (whole > now), whole, NOT_HELD)).all():
            return None
        return self._place_of(held, 0)

    def _place_of(self, slides: np.ndarray, number: int) -> int:
        """Return the place of the content with these slides, which is added unless it is there."""
        edges, leaves = _held(slides)
        key = edges.tobytes(), leaves.tobytes(), number
        if key not in self._places:
            self._places[key] = len(self.contents)
            self.contents.append((edges, leaves))
            self.numbers.append(number)
        return self._places[key]


def _held(slides: np.ndarray) -> Content:
    """Return the places of the edges that a window holds, and the slides at which they leave, from those of all edges."""
    edges = np.flatnonzero(slides != NOT_HELD).astype(np.int32)
    return edges, slides[edges]


def _edges_of(evaluation: Evaluation, window_edges: np.ndarray, contents: ContentArrays) -> StateEdges:
    edges, vertices = evaluation.graph.edges, evaluation.vertices
    static = evaluation.graph.static_edges()
    version_source, version_label, version_target, version_timestamp, version_set = _versions_of(evaluation)
    parallel = _parallel_edges_of(evaluation)
    is_named = np.zeros(vertices.count, bool)
    for selection in (window_edges, static):
        is_named[edges.source[selection]] = is_named[edges.target[selection]] = True
    is_named[version_source] = is_named[version_target] = True
    if evaluation.multigraph is not None:
        statics = evaluation.multigraph.statics
        is_named[statics.source] = is_named[statics.target] = True  # those that edges of the window hide, too
    is_named[evaluation.nodes.vertices] = True
    are_edges = np.zeros(vertices.count, bool)
    is_nameless = vertices.are_nameless(np.arange(vertices.count))  # a collection has left those in use
    if evaluation.multigraph is not None:
        is_nameless[evaluation.multigraph.node_edges.value_vertices()] = False
    edge_ids = np.flatnonzero(is_nameless)
    are_edges[edge_ids] = True
    is_named &= ~are_edges
    number = np.cumsum(is_named, dtype=np.int32) - np.int32(1)
    named = np.flatnonzero(is_named)
    number[edge_ids] = np.arange(len(named), len(named) + len(edge_ids))
    # Among parallel edges are the links of edges that have left the windows of their queries: their ids are free again.
    is_link = np.array([isinstance(name, EdgeEnd) for name in evaluation.labels.names] or [False])[parallel.label]
    from_edge = are_edges[parallel.source] & is_named[parallel.target]
    to_edge = is_named[parallel.source] & are_edges[parallel.target]
    stays = ~is_link | from_edge | to_edge
    labels = _label_numbers(evaluation)
    names = None if vertices.kind is None else pa.chunked_array([vertices.names_of(named)])
    return StateEdges(
        names=names,
        vertices=_edge_vertices_of(evaluation, edge_ids, number, labels),
        source=number[edges.source[window_edges]],
        target=number[edges.target[window_edges]],
        label=labels[edges.label[window_edges]],
        timestamp=edges.timestamp[window_edges],
        contents=contents,
        static_source=number[edges.source[static]],
        static_target=number[edges.target[static]],
        static_label=labels[edges.label[static]],
        version_source=number[version_source],
        version_target=number[version_target],
        version_label=labels[version_label],
        version_timestamp=version_timestamp,
        parallel_source=number[parallel.source[stays]],
        parallel_target=number[parallel.target[stays]],
        parallel_label=labels[parallel.label[stays]],
        parallel_timestamp=parallel.timestamp[stays],
        parallel_contents=ContentArrays.of([_held(slides[stays]) for slides in parallel.slides.values()]),
        version_names=_edge_names_of(evaluation),
        version_set=np.unique(version_set, return_inverse=True)[1].astype(np.int32),
        values=_edge_values_of(evaluation, window_edges),
        statics=_statics_of(evaluation, number, labels),
        counted=_counted_table_of(evaluation),
        nodes=_node_table_of(evaluation, number),
    )


def _are_of_facts(running: RunningQuery) -> list[bool]:
    """Return for each window of a query whether it has only edges that follow from facts of nodes."""
    return [reading.is_of_facts for reading in readings_of(running.question)]


def _nodes_of(evaluation: Evaluation) -> NodesState | None:
    nodes = evaluation.nodes
    if not nodes.counts.any() and nodes.kept is None:
        return None
    kept = None if nodes.kept is None else sorted(nodes.kept)
    return NodesState(
        types=nodes.types.by_name, loose=sorted(nodes.types.loose), kept=kept, counts=nodes.counts.tolist()
    )


def _node_table_of(evaluation: Evaluation, number: np.ndarray) -> np.ndarray:
    """Return the table of the facts of nodes, with the numbers that vertices have in the file."""
    nodes, ids = evaluation.nodes, evaluation.nodes.vertices
    if not len(ids):
        return table_bytes({})
    columns: dict[str, Any] = {
        "vertex": pa.array(number[ids], pa.int32()),
        "labels": pa.array(nodes.label_lists(ids), NODE_COLUMNS["labels"]),
        "times": pa.array(nodes.label_times(ids.tolist()), NODE_COLUMNS["times"]),
    }
    for name in nodes.properties:
        columns[f"value.{name}"] = nodes.column(name, ids)
        columns[f"time.{name}"] = pa.array(nodes.times_of(name, ids))
    return table_bytes(columns)


def _statics_of(evaluation: Evaluation, number: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the table of the static edges one by one, with the numbers that vertices and labels have in the file."""
    multigraph = evaluation.multigraph
    if multigraph is None or not len(multigraph.statics):
        return table_bytes({})
    statics = multigraph.statics
    vertex, twin = (
        np.where(ids == NO_VERTEX, np.int32(-1), number[ids]).astype(np.int32) for ids in (statics.vertex, statics.twin)
    )
    columns = number[statics.source], labels[statics.label], number[statics.target], vertex, twin
    values = {f"value.{name}": column for name, column in statics.values(multigraph.sets.types.by_name).items()}
    saved = {name: pa.array(column) for name, column in zip(STATIC_COLUMNS, columns, strict=True)}
    if multigraph.edge_names is not None and (have_ids := statics.edge >= 0).any():
        ids = multigraph.edge_names.names_of(statics.edge[have_ids])
        places = np.where(have_ids, np.cumsum(have_ids) - 1, 0)
        saved["edge"] = ids.take(pa.array(places, mask=~have_ids))
    return table_bytes(saved | values)


def _counted_table_of(evaluation: Evaluation) -> np.ndarray:
    """Return the table of the edges of a window that is decided before the graph, as `StateEdges.counted`."""
    multigraph = evaluation.multigraph
    if multigraph is None or multigraph.window_edges is None or not len(live := _edge_numbers(evaluation, multigraph)):
        return table_bytes({})
    entries = {one.edge: one for one in multigraph.window_edges.entries()}
    leaving = [entries[edge] for edge in live.tolist()]
    columns = {
        "set": np.unique(multigraph.table.columns(live)[4], return_inverse=True)[1],
        "number": [one.number for one in leaving],
        "insert": [one.known_by if multigraph.identity == "parallel" else 0 for one in leaving],
    }
    return table_bytes({name: pa.array(column, pa.int64()) for name, column in columns.items()})


def _counted_of(evaluation: Evaluation) -> CountedState | None:
    counted = None if evaluation.multigraph is None else evaluation.multigraph.window_edges
    if evaluation.multigraph is None or counted is None:
        return None
    of_sets, hides = _sets_of(evaluation, evaluation.multigraph), evaluation.multigraph.hides
    return CountedState(window=counted.window, number=counted.number, sets=of_sets, hides=hides)


def _sets_of(evaluation: Evaluation, multigraph: Multigraph) -> list[list[int]]:
    """Return the sets of derived labels that versions have."""
    numbers, used = _label_numbers(evaluation), np.unique(_versions_of(evaluation)[4]).tolist()
    return [numbers[list(multigraph.sets.labels_of(number))].tolist() for number in used]


def _edge_numbers(evaluation: Evaluation, multigraph: Multigraph) -> np.ndarray:
    """Return the numbers in the table of the versions that some window holds."""
    live = multigraph.table.live(multigraph.lower_bound(evaluation.graph.time))
    if multigraph.window_edges is None:
        return live
    is_live = {*live.tolist()}
    return np.array([one.edge for one in multigraph.window_edges.entries() if one.edge in is_live], np.int64)


def _edge_vertices_of(
    evaluation: Evaluation, ids: np.ndarray, number: np.ndarray, labels: np.ndarray
) -> EdgeVertexArrays:
    """Return the edges that are vertices, with the numbers that vertices and labels have in the file."""
    if not len(ids):
        return EdgeVertexArrays.none()
    edges = evaluation.vertices.edges
    columns = edges.columns(ids)
    properties = {name: edges.values(name, ids) for name in edges.properties}
    return EdgeVertexArrays(
        source=number[columns.source],
        label=labels[columns.label],
        target=number[columns.target],
        twin=np.where(columns.twin < 0, np.int32(-1), number[columns.twin]).astype(np.int32),
        timestamp=columns.timestamp,
        number=_saved_numbers(evaluation, ids, columns.number),
        current=edges.are_current(ids).astype(np.uint8),
        values=table_bytes(properties),
    )


def _edge_values_of(evaluation: Evaluation, window_edges: np.ndarray) -> EdgeValueArrays | None:
    """Return the values of edges that witnesses show, None where none are kept."""
    multigraph, edges = evaluation.multigraph, evaluation.graph.edges
    if multigraph is None or multigraph.witness_values is None:
        return None
    if multigraph.table.names is not None:
        keys = _edge_numbers(evaluation, multigraph).tolist()
    else:
        ends = (edges.source[window_edges], edges.label[window_edges], edges.target[window_edges])
        keys = [*zip(*(column.tolist() for column in ends), strict=True)]
    is_known, columns = multigraph.witness_values.columns(keys, multigraph.sets.types.by_name)
    return EdgeValueArrays(is_known, table_bytes(columns))


def _saved_numbers(evaluation: Evaluation, ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers of edges that are the vertices `ids`; where edges have ids their places in `_edge_names_of`.

    Those of static edges are -1, -2, … in any case.
    """
    multigraph = evaluation.multigraph
    if multigraph is None or multigraph.table.names is None or multigraph.identity == "parallel":
        return numbers
    static_number = np.zeros(evaluation.vertices.count, np.int64)
    for of_edges in (multigraph.statics.vertex, multigraph.statics.twin):
        is_vertex = of_edges != NO_VERTEX
        static_number[of_edges[is_vertex]] = -1 - np.flatnonzero(is_vertex)
    numbers = np.where(static_number[ids] < 0, static_number[ids], numbers)
    live = _edge_numbers(evaluation, multigraph)
    is_static = numbers < 0
    order = np.argsort(live)
    places = np.append(order, 0)[np.searchsorted(live, numbers, sorter=order)]
    is_held = is_static | (live.take(places, mode="clip") == numbers if len(live) else False)
    assert np.all(is_held), "an edge that is a vertex is in no window"
    return np.where(is_static, numbers, places).astype(np.int64)


def _versions_of(evaluation: Evaluation) -> tuple[np.ndarray, ...]:
    """Return source, label, target, timestamp and set of the versions of edges that some window holds."""
    multigraph = evaluation.multigraph
    if multigraph is None:
        return tuple(np.zeros(0, dtype) for dtype in (np.int32, np.int32, np.int32, np.int64, np.int32))
    return multigraph.table.columns(_edge_numbers(evaluation, multigraph))


def _parallel_edges_of(evaluation: Evaluation) -> ParallelColumns:
    """Return the edges that queries about paths in time order read, where versions are not all of them."""
    multigraph = evaluation.multigraph
    if multigraph is None or multigraph.parallel is None:
        return ParallelColumns.none()
    return multigraph.parallel_columns(evaluation.graph)


def _edge_names_of(evaluation: Evaluation) -> pa.ChunkedArray | None:
    """Return the ids of the edges of `_versions_of`, None where they have none."""
    multigraph = evaluation.multigraph
    if multigraph is None or multigraph.edge_names is None:
        return None
    live = _edge_numbers(evaluation, multigraph)
    return pa.chunked_array([multigraph.edge_names.names_of(live)])


def _edges_by_id_of(evaluation: Evaluation, multigraph: Multigraph) -> EdgesByIdState | None:
    if multigraph.edge_names is None:
        return None
    return EdgesByIdState(
        kind=multigraph.edge_names.kind, sets=_sets_of(evaluation, multigraph), lost=multigraph.table.lost
    )


def _multigraph_of(evaluation: Evaluation) -> MultigraphState | None:
    multigraph = evaluation.multigraph
    if multigraph is None:
        return None
    sets = multigraph.sets
    return MultigraphState(
        identity=multigraph.identity,
        types=sets.types.by_name,
        loose=sorted(sets.types.loose),
        unit=sets.time_unit,
        is_timed=sets.is_timed,
        inserts=multigraph.inserts,
        unread=sorted(multigraph.statics.unread),
        kept=tuple(sorted(multigraph.kept_properties)),
        counts=[multigraph.outcome_counts.counts(running.question.name).tolist() for running in evaluation.running],
        by_id=_edges_by_id_of(evaluation, multigraph),
        counted=_counted_of(evaluation),
    )


def _state_of(running: RunningQuery, evaluation: Evaluation, contents: _SavedContents) -> QueryState:
    saved = running.to_state(evaluation.vertices.name_of)
    reports = evaluation.running.reports_of(running)
    if reports is not None:
        saved["report_state"] = reports.to_state(evaluation.vertices)
    if (unreported_rows := evaluation.running.unreported_rows(running)).any():
        saved["left_out"] = unreported_rows.tolist()
    return QueryState(
        question=running.question,
        content=JsonValue(saved),
        contents=contents.places(running),
        is_late=evaluation.running.is_late(running),
    )


def _saved_stages(
    evaluation: Evaluation, running: RunningQuery, state: QueryState
) -> list[tuple[Reports | HeldRows, JsonValue]]:
    """Return what makes rows of a query wait, each with its saved state."""
    stage = evaluation.running.reports_of(running)
    if stage is None:
        return []
    saved = state.content["report_state"]
    reports = stage.reports if isinstance(stage, HeldRows) else None
    return [(stage, saved), *([] if reports is None else [(reports, saved["report"])])]


def _labels_of(evaluation: Evaluation) -> StateLabels:
    graph, labels, saved = evaluation.graph, evaluation.labels, _saved_labels(evaluation)
    ids = list(saved.values())
    return StateLabels(
        names=list(saved),
        lost=graph.horizons.lost[ids].tolist(),
        passed_by=graph.horizons.passed_by[ids].tolist(),
        accepted=[graph.filter.accepted_ends(label) for label in ids],
        forgotten=labels.forgotten,
        forgotten_of_streams=labels.forgotten_of_streams,
    )


def _label_numbers(evaluation: Evaluation) -> np.ndarray:
    """Return for each label id its number in `_labels_of`, which has no gaps."""
    saved = _saved_labels(evaluation)
    numbers = np.zeros(evaluation.labels.room, np.int32)
    numbers[list(saved.values())] = np.arange(len(saved))
    return numbers


def _saved_labels(evaluation: Evaluation) -> dict[LabelName, int]:
    """Return the ids of labels, without those of facts of nodes."""
    return {name: number for name, number in evaluation.labels.ids.items() if not isinstance(name, NodeLabel)}


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """The content of a file: the edges, and everything else as `content`."""

    path: str
    edges: StateEdges
    content: StateContent

    def times(self) -> tuple[StreamTime, dict[str, Any]]:
        """Return the known properties of the stream's time, and the original queries by name."""
        running = self._questions()
        keep = self.content.keep
        if self.content.events is not None and self.content.events.mode == "alone":
            running = list(map(query_over_unbounded_window, running))
        with _damage_named(self.path):
            try:
                stream_time, queries = StreamTime.from_json(self.content.times, running)
                if keep is not None:
                    stream_time = stream_time.with_queries([KeepOption(keep.original), *queries.values()])
                    if stream_time.resolve(KeepOption(keep.original)).window != keep.window:
                        raise Damage("the stored window differs from the window of `keep` in the stream's unit")
                return stream_time, queries
            except (ValueError, QueryError) as problem:
                raise Damage(str(problem)) from problem

    def _questions(self) -> list[Any]:
        """Return the queries over their windows; a count window of edges with an identity is not theirs in the file."""
        questions: list[Any] = [state.question for state in self.content.queries]
        counted = None if self.content.multigraph is None else self.content.multigraph.counted
        return questions if counted is None else [question.over(counted.window) for question in questions]

    def fill(self, evaluation: Evaluation, *, without: Collection[str] = ()) -> None:
        """Restore the saved state in an empty evaluation. Queries `without` stay empty. O(window · index).

        Queries in an evaluation that `has_nodes` may read facts that they did not read before.

        Raises `StateFormatError` if the parts do not fit together.
        """
        with _damage_named(self.path):
            if self.content.keep is not None:
                evaluation.retain_window(self.content.keep.window)
            if self.content.multigraph is not None:
                evaluation.begin_multigraph()
                counted = self.content.multigraph.counted
                if evaluation.multigraph is not None and counted is not None:
                    evaluation.multigraph.hides = counted.hides
            elif len(self.edges.static_source):
                evaluation.static_properties = None
            evaluation.has_nodes |= self.content.nodes is not None
            try:
                states = zip(self.content.queries, self._questions(), strict=True)
                for is_late, group in groupby(states, lambda one: one[0].is_late):
                    evaluation.add(*(question for _, question in group), is_late=is_late)
            except QueryError as problem:
                raise Damage(str(problem)) from problem
            labels = self.content.labels
            evaluation.restore_labels(
                labels.names,
                labels.lost,
                passed_by=labels.passed_by,
                accepted=labels.accepted,
                forgotten=labels.forgotten,
                forgotten_of_streams=labels.forgotten_of_streams,
            )
            evaluation.outcomes[:] = [self.content.outcomes[name] for name in OUTCOMES]
            contents = self.edges.contents.each()
            places = self._places(evaluation, contents)
            entered, identity = self._enter_edges(evaluation, places, contents)
            self._restore_nodes(evaluation, identity)
            evaluation.note_first()
            if self.content.multigraph is not None and evaluation.multigraph is not None:
                self._restore_multigraph(self.content.multigraph, evaluation.multigraph, evaluation, identity)
            new_ids = identity[~evaluation.vertices.are_nameless(identity)]
            if self.content.time is not None and evaluation.multigraph is not None:
                evaluation.enter_facts(evaluation.multigraph, facts_only=True)
            waiting = self._enter_waiting_rows(evaluation)
            new_ids = np.concatenate([new_ids, *waiting.values()])
            for host in evaluation.running.hosts:
                host.make_room(evaluation.vertices, new_ids, evaluation.graph)
            for running in evaluation.running:
                running.make_room(evaluation.vertices, new_ids, evaluation.graph)
            contents = [(entered[edges], slides) for edges, slides in contents]
            windows = evaluation.window_contents()
            load = partial(self._load, contents=contents, evaluation=evaluation, windows=windows)
            for running, state, mine in zip(evaluation.running, self.content.queries, places, strict=True):
                if running.question.name in without:
                    continue
                running.restore(state.content, partial(load, running, mine), evaluation.vertices.id_of)
                if "left_out" in state.content:
                    unreported_rows = [count.integer(0, _LARGEST_COUNT) for count in state.content["left_out"].tuple_of(2)]
                    evaluation.running.count_unreported(running, np.array(unreported_rows))
                for place, (stage, saved) in enumerate(_saved_stages(evaluation, running, state)):
                    if running.term_texts is not None:
                        ids = running.ids_of_terms(Reports.saved_texts(saved))
                    else:
                        ids = waiting[running.question.name, place]
                    stage.restore(saved, ids, time=self.content.time)
            if self.content.multigraph is None and evaluation.multigraph is not None and self.content.time is not None:
                evaluation.begin_midway(evaluation.multigraph)

    def _enter_edges(
        self, evaluation: Evaluation, places: list[_Places], contents: list[Content]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Insert the edges into the graph and its count windows; return their ids, and the ids of the vertices."""
        graph, vertices, saved = evaluation.graph, evaluation.vertices, self.edges
        vertices.kind = self.content.kind
        chunks = [] if saved.names is None else saved.names.chunks
        ids = [vertices.intern(names, np.ones(len(names), np.uint8))[0] for names in chunks]
        identity = np.concatenate([np.zeros(0, np.int32), *ids])
        named = identity
        if len(saved.vertices.source):
            identity = np.concatenate([identity, vertices.reserve(len(saved.vertices.source))])
        if vertices.live < len(identity):
            raise Damage("a vertex occurs twice")
        self._check_edge_vertices(len(named))
        source, target = identity[saved.source], identity[saved.target]
        entered: np.ndarray = graph.enter(source, target, saved.label, saved.timestamp, vertices.count)
        if graph.edge_count < len(saved):
            raise Damage("an edge occurs twice")
        graph.enter_static(identity[saved.static_source], identity[saved.static_target], saved.static_label)
        if graph.statics < len(saved.static_source):
            raise Damage("a static edge occurs twice")
        self._fill_count_windows(evaluation, places, contents, entered)
        evaluation.note_first()
        if self.content.time is not None:
            graph.advance(self.content.time)
            evaluation.note_first()
        if len(graph.live_edges()) < len(saved):
            raise Damage("an edge has left every window that it could be in")
        return entered, identity

    def _restore_nodes(self, evaluation: Evaluation, identity: np.ndarray) -> None:
        """Restore the facts of nodes, whose vertices have these ids. Raises `Damage`."""
        state, nodes = self.content.nodes, evaluation.nodes
        if state is None:
            return
        nodes.kept = None if state.kept is None else frozenset(state.kept)
        nodes.types = PropertyTypes(state.types, state.loose)
        nodes.counts[:] = state.counts
        table = self.edges.node_table()
        if not len(table):
            return
        properties = {}
        for name in (one.removeprefix("value.") for one in table.column_names if one.startswith("value.")):
            values = table[f"value.{name}"].combine_chunks()
            if state.types.get(name) != values.type or f"time.{name}" not in table.column_names:
                raise Damage(f"the property {name!r} of nodes is of another type, or lacks times")
            properties[name] = values, table[f"time.{name}"].combine_chunks().to_numpy()
        labels, times = table["labels"].to_pylist(), table["times"].to_pylist()
        nodes.restore(identity[table["vertex"].combine_chunks().to_numpy()], labels, times, properties)

    def _check_edge_vertices(self, named: int) -> None:
        """Raise `Damage` unless the edges that are vertices are ends of links, and of no other edges."""
        saved = self.edges
        of_ends = np.array([isinstance(name, EdgeEnd) for name in self.content.labels.names] or [False])
        for source, target, label in (
            (saved.source, saved.target, saved.label),
            (saved.static_source, saved.static_target, saved.static_label),
            (saved.parallel_source, saved.parallel_target, saved.parallel_label),
        ):
            if (((source >= named) | (target >= named)) & ~of_ends[label]).any():
                raise Damage("an edge with a plain label leads to an edge")
            if ((source >= named) == (target >= named))[of_ends[label]].any():
                raise Damage("the end of an edge leads between two vertices, or two edges")
        if any((ends >= named).any() for ends in (saved.version_source, saved.version_target)):
            raise Damage("a version is of an edge from or to an edge")

    def _restore_multigraph(
        self, state: MultigraphState, multigraph: Multigraph, evaluation: Evaluation, identity: np.ndarray
    ) -> None:
        """Restore the versions of edges, which `identity` gives the ids of vertices, and the counts of queries."""
        try:
            multigraph.sets.restore_types(PropertyTypes(state.types, state.loose), state.unit, is_timed=state.is_timed)
        except WhereError as error:
            raise Damage(f"a condition does not fit the properties: {error.message}") from error
        for one, counts in zip(self.content.queries, state.counts, strict=True):
            multigraph.outcome_counts.set_counts(one.question.name, np.array(counts))
        saved = self.edges
        if (state.counted is None) != (multigraph.window_edges is None):
            raise Damage("the edges of a count window are there, or missing, where the queries have another window")
        numbers = None if state.by_id is None else self._restore_edge_ids(state.by_id, multigraph)
        if state.counted is not None and multigraph.window_edges is not None:
            numbers = self._restore_count_windows(state.counted, multigraph.window_edges, multigraph, identity, numbers)
        elif numbers is not None and state.by_id is not None:
            if saved.version_set is not None:
                self._load_versions(multigraph, state.by_id.sets, saved.version_set, identity, numbers)
        else:
            multigraph.restore(
                identity[saved.version_source],
                saved.version_label,
                identity[saved.version_target],
                saved.version_timestamp,
                evaluation.graph,
            )
        multigraph.outcome_counts.load_counted(partial(_counted_edges, evaluation.graph))
        self._restore_edge_values(multigraph, identity, numbers)
        self._restore_statics(multigraph, identity)
        multigraph.statics.unread = frozenset(state.unread)
        multigraph.inserts = state.inserts
        multigraph.note_types()
        if multigraph.parallel is not None:
            multigraph.parallel.load(
                identity[saved.parallel_source],
                saved.parallel_label,
                identity[saved.parallel_target],
                saved.parallel_timestamp,
                self._tracked_slides(multigraph.parallel, evaluation),
            )
        elif len(saved.parallel_source):
            raise Damage("there are parallel edges, and no query about paths in time order")
        known_by = None if state.identity == "parallel" else numbers
        self._restore_edge_vertices(multigraph, evaluation, identity, known_by)
        if multigraph.hides:
            multigraph.derive_statics(begins=self.content.time is not None)  # which the graph has already
            evaluation.note_first()

    def _restore_edge_vertices(
        self, multigraph: Multigraph, evaluation: Evaluation, identity: np.ndarray, numbers: np.ndarray | None
    ) -> None:
        """Restore the edges that are vertices; `numbers` are those of the ids of edges, if any. Raises `Damage`."""
        made = self.edges.vertices
        if not len(made.source):
            return
        if (made.label < 0).any() or (made.label >= len(self.content.labels.names)).any():
            raise Damage("an edge that is a vertex has no label")
        ids = identity[len(identity) - len(made.source) :]
        twin = np.where(made.twin < 0, np.int32(NO_VERTEX), identity[made.twin]).astype(np.int32)
        ends = identity[made.source], made.label, identity[made.target]
        number = made.number
        if numbers is not None:
            is_static = made.timestamp == NO_TIME
            if (((number < 0) != is_static) | (number >= len(numbers))).any():
                raise Damage("an edge that is a vertex has an id that no edge has")
            of_edges = np.append(numbers, 0)[np.where(is_static, len(numbers), number)]
            if (is_static & (number < -len(multigraph.statics))).any():
                raise Damage("an edge that is a vertex is a static edge that does not exist")
            of_statics = np.append(multigraph.statics.number, 0)[np.where(is_static, -1 - number, len(multigraph.statics))]
            number = np.where(is_static, of_statics, of_edges).astype(np.int64)
        columns = EdgeVertexColumns(*ends, made.timestamp, number, twin)
        properties = made.properties()
        edges = evaluation.vertices.edges
        edges.add(ids, columns, {name: properties[name].combine_chunks() for name in properties.column_names})
        edges.make_current(ids[made.current != 0])

    def _tracked_slides(self, parallel: ParallelEdges, evaluation: Evaluation) -> list[np.ndarray]:
        """Return the slides at which parallel edges leave each content that is tracked; set the numbers of count windows."""
        saved, trackers = self.edges, parallel.trackers
        contents = saved.parallel_contents.each()
        if len(contents) != len(trackers):
            raise Damage(f"parallel edges have {len(contents)} contents, not {len(trackers)}")
        found = []
        for (key, tracker), (edges, in_window) in zip(trackers.items(), contents, strict=True):
            found.append(_slides_of(len(saved.parallel_source), edges, in_window))
            if isinstance(tracker.window, CountWindow):
                tracker.number = evaluation.graph.counted.number_of(key)
                last = -(-(tracker.number + tracker.window.size) // tracker.window.step)
                largest_slide = _most_of_one_slide(in_window)
                is_possible = in_window.max(initial=NOT_HELD) <= last and largest_slide <= tracker.window.step
            elif isinstance(tracker.window, Window):
                timestamp = saved.parallel_timestamp[edges]
                is_possible = (in_window <= -(-(timestamp + tracker.window.size) // tracker.window.slide)).all()
            else:
                is_possible = (in_window == INT64_MAX).all()
            if not is_possible:
                raise Damage("a parallel edge expires when it cannot")
        return found

    def _restore_statics(self, multigraph: Multigraph, identity: np.ndarray) -> None:
        """Restore the static edges one by one. Raises `Damage`."""
        saved, names = self.edges, self.content.labels.names
        table = saved.static_table()
        if not table.num_columns:
            return
        source, label, target, vertex, twin = (
            table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in STATIC_COLUMNS
        )
        count = len(identity)
        bounds = (source, 0, count), (target, 0, count), (vertex, -1, count), (twin, -1, count), (label, 0, len(names))
        if any(((column < low) | (column >= bound)).any() for column, low, bound in bounds):
            raise Damage("a static edge has a vertex or a label that does not exist")
        prefix = "value."
        values = {
            name.removeprefix(prefix): table[name].combine_chunks() for name in table.schema.names if name.startswith(prefix)
        }
        vertex, twin = (
            np.where(ids < 0, np.int32(NO_VERTEX), identity[ids]).astype(np.int32) for ids in (vertex, twin)
        )
        edge = np.full(len(source), -1, np.int32)
        if multigraph.edge_names is not None and "edge" in table.schema.names:
            ids = table["edge"].combine_chunks()
            if ("int64" if pa.types.is_integer(ids.type) else "string") != multigraph.edge_names.kind:
                raise Damage(f"the ids of static edges are not of kind {multigraph.edge_names.kind}")
            edge = multigraph.table.name(ids)
        ends = identity[source], label.astype(np.int32), identity[target]
        multigraph.statics.load(ends, vertex, twin, values, edge)

    def _restore_edge_values(self, multigraph: Multigraph, identity: np.ndarray, numbers: np.ndarray | None) -> None:
        """Restore the values that witnesses show, where they are kept; `numbers` are those of the ids of edges, if any."""
        saved = self.edges
        if saved.values is None or multigraph.witness_values is None:
            return
        if numbers is not None:
            keys, timestamps = numbers.tolist(), saved.version_timestamp
        else:
            ends = (identity[saved.source], saved.label, identity[saved.target])
            keys, timestamps = [*zip(*(column.tolist() for column in ends), strict=True)], saved.timestamp
        table = saved.values.properties()
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        multigraph.witness_values.load(keys, timestamps.tolist(), saved.values.known.tolist(), columns)

    def _restore_edge_ids(self, state: EdgesByIdState, multigraph: Multigraph) -> np.ndarray:
        """Restore the ids of edges; return their numbers. Raises `Damage`."""
        saved, edges = self.edges, multigraph.table
        assert edges.names is not None
        edges.names.kind, edges.lost = state.kind, state.lost
        if saved.version_names is None or saved.version_set is None:
            if len(saved.version_source):
                raise Damage("edges have no ids")
            return np.zeros(0, np.int32)
        names = saved.version_names.combine_chunks()
        if ("int64" if pa.types.is_integer(names.type) else "string") != state.kind:
            raise Damage(f"the ids of edges are not of kind {state.kind}")
        if len(pc.unique(names)) < len(names):
            raise Damage("an id of an edge occurs twice")
        return edges.name(names)

    def _load_versions(
        self, multigraph: Multigraph, of_sets: list[list[int]], used: np.ndarray, identity: np.ndarray, numbers: np.ndarray
    ) -> None:
        """Restore the versions of edges with these numbers in the table, and with these sets of labels. Raises `Damage`."""
        saved, names = self.edges, self.content.labels.names
        if len(used) and (used.min() < 0 or used.max() >= len(of_sets)):
            raise Damage(f"an edge has a set of labels with a number outside 0 to {len(of_sets) - 1}")
        in_sets = [number for one in of_sets for number in one]
        if any(number >= len(names) or not isinstance(names[number], ConditionLabel) for number in in_sets):
            raise Damage("a set of labels has one without a condition")
        sets = np.array([multigraph.sets.number_of(one) for one in of_sets], np.int32)
        ends = identity[saved.version_source], saved.version_label, identity[saved.version_target]
        multigraph.table.load((*ends, saved.version_timestamp, sets[used]), numbers)

    def _restore_count_windows(
        self,
        state: CountedState,
        counted: WindowEdges,
        multigraph: Multigraph,
        identity: np.ndarray,
        numbers: np.ndarray | None,
    ) -> np.ndarray:
        """Restore the edges of a window that is decided before the graph; return their numbers. Raises `Damage`.

        `numbers` are those of the ids of edges, if they have any.
        """
        saved, table = self.edges, self.edges.counted_table()
        used, order, insert = (np.array(table[name], np.int64) for name in COUNTED_COLUMNS)
        last = counted.window.lower_bound(state.number) if isinstance(counted.window, CountWindow) else 0
        if len(order) and (order[0] <= last or order[-1] > state.number or (np.diff(order) <= 0).any()):
            raise Damage("an edge of a count window has a number that it cannot have")
        ends = identity[saved.version_source], saved.version_label, identity[saved.version_target]
        keys: list[Any] = insert.tolist() if numbers is None else numbers.tolist()
        if multigraph.identity == "triple":
            keys = [*zip(*(column.tolist() for column in ends), strict=True)]
        if len({*keys}) < len(keys):
            raise Damage("an edge of a count window occurs twice")
        if numbers is None:
            assert multigraph.table.names is not None
            numbers = multigraph.table.names.reserve(len(keys))
        self._load_versions(multigraph, state.sets, used, identity, numbers)
        known_by = insert if multigraph.identity == "parallel" else numbers
        columns = (column.tolist() for column in (order, saved.version_timestamp, numbers, known_by))
        counted.load(zip(*columns, keys, strict=True), state.number)
        return numbers

    def _fill_count_windows(
        self, evaluation: Evaluation, places: list[_Places], contents: list[Content], entered: np.ndarray
    ) -> None:
        """Fill the count windows of the graph. Raises `Damage` if queries with the same one have different contents."""
        filled: dict[Hashable, int] = {}
        for running, mine in zip(evaluation.running, places, strict=True):
            for key, number in zip(evaluation.running.keys(running), mine, strict=True):
                if key is None or number is None:
                    continue
                if key not in filled:
                    edges, slides = contents[number]
                    holders = evaluation.graph.edges.holders
                    evaluation.graph.counted.fill(key, self.content.numbers[number], entered[edges], slides, holders)
                if filled.setdefault(key, number) != number:
                    raise Damage(f"query {running.question.name!r} has another count than a query with the same window")

    def _enter_waiting_rows(self, evaluation: Evaluation) -> dict[tuple[str, int], np.ndarray]:
        """Assign ids to vertices in rows that wait; return the ids by the query and the place among its `_saved_stages`."""
        found: dict[tuple[str, int], np.ndarray] = {}
        vertices = evaluation.vertices
        saved_stages = (
            (running.question.name, place, saved)
            for running, state in zip(evaluation.running, self.content.queries, strict=True)
            for place, (_, saved) in enumerate(_saved_stages(evaluation, running, state))
            if running.term_texts is None
        )
        for query, place, saved in saved_stages:
            names = Reports.saved_names(saved)
            kind = int if self.content.kind == "int64" else str
            if any(not isinstance(name, kind) for name in names) or (names and self.content.kind is None):
                raise Damage(f"a waiting row has a vertex that is not of kind {self.content.kind}")
            try:
                column = pa.array(names, pa.int64() if kind is int else pa.string())
            except (OverflowError, pa.ArrowException) as problem:
                raise Damage(f"a waiting row has an invalid vertex: {problem}") from problem
            found[query, place] = vertices.intern(column, np.ones(len(column), np.uint8))[0]
            if len(np.unique(found[query, place])) < len(names):
                raise Damage("a vertex of waiting rows occurs twice")
        evaluation.graph.make_room(0, vertices.count)
        return found

    def _load(
        self,
        running: RunningQuery,
        places: _Places,
        *,
        contents: list[Content],
        evaluation: Evaluation,
        windows: WindowContents,
    ) -> None:
        """Load the edges of a query: those of its windows by now, `contents` where these do not follow from timestamps."""
        graph, time = evaluation.graph, self.content.time
        if time is None:
            return
        keys = evaluation.running.keys(running)
        running.count_from([0 if key is None else graph.counted.number_of(key) for key in keys])
        if graph.statics:
            running.load_static(graph.chunk_of(graph.static_edges()))
        chunk, slides = evaluation.content_of(running, windows)
        own = [
            None if number is None or key is not None else contents[number]
            for key, number in zip(keys, places, strict=True)
        ]
        if any(content is not None for content in own):
            slides = [
                mine if content is None else _slides_of(graph.capacity, *content)[chunk.edge]
                for mine, content in zip(slides, own, strict=True)
            ]
            now = map(graph.current_slide, running.windows, keys)
            is_inside = np.any([mine > slide for mine, slide in zip(slides, now, strict=True)], axis=0)
            chunk, slides = Chunk(*(column[is_inside] for column in chunk)), [mine[is_inside] for mine in slides]
        running.load(time, None if self.content.kind is None else chunk, *slides, quiet=True)

    def _places(self, evaluation: Evaluation, contents: list[Content]) -> list[_Places]:
        """Return for each window of each query the place of its content, None where that follows from timestamps.

        Raises `Damage` if a window has a content that it cannot have.
        """
        if len(self.content.numbers) != len(contents) or (self.content.time is None and any(self.content.numbers)):
            raise Damage("contents of windows have other numbers of inserts than they can have")
        checked, found = set(), []
        for running, state in zip(evaluation.running, self.content.queries, strict=True):
            name, keys = running.question.name, evaluation.running.keys(running)
            own = _are_of_facts(running).count(False)
            if len(state.contents) != own:
                raise Damage(f"query {name!r} has contents of {len(state.contents)} windows, and {own} windows")
            found.append([*state.contents, *[None] * (len(keys) - own)])
            readings = readings_of(running.question)
            for window, key, number, reading in zip(running.windows, keys, state.contents, readings, strict=False):
                if (number is None) != (key is None) and not (state.is_late and key is None):
                    raise Damage(f"query {name!r}: a window has a content of its own, or lacks one")
                if number is not None and (number, window, key) not in checked:
                    checked.add((number, window, key))
                    if number >= len(contents):
                        raise Damage(f"query {name!r}: a window has a content with a number above {len(contents) - 1}")
                    self._check_content(name, reading, window, self.content.numbers[number], *contents[number])
        return found

    def _check_content(
        self, name: str, reading: Reading, window: AnyWindow, number: int, edges: np.ndarray, slides: np.ndarray
    ) -> None:
        """Raise `Damage` if an edge has a slide at which it cannot leave the window of a query."""
        if isinstance(window, CountWindow):
            labels = np.unique(self.edges.label[edges]).tolist()
            if not all(reading.reads(self.content.labels.names[label]) for label in labels):
                raise Damage(f"query {name!r}: a count window contains an edge with a label that it does not read")
            if (slides <= number // window.step).any() or (slides > (number + window.size - 1) // window.step + 1).any():
                raise Damage(f"query {name!r}: an edge is evicted earlier or later than it can be")
            if _most_of_one_slide(slides) > window.step:
                raise Damage(f"query {name!r}: more edges are evicted at once than there were inserts")
        elif isinstance(window, Window):
            # A query that started empty may have an edge from an older insert than the graph, never from a younger one.
            if (slides > -(-(self.edges.timestamp[edges] + window.size) // window.slide)).any():
                raise Damage(f"query {name!r}: an edge expires later than its timestamp allows")
        elif (slides != INT64_MAX).any():
            raise Damage(f"query {name!r}: an edge expires from an unbounded window")


def _slides_of(count: int, edges: np.ndarray, slides: np.ndarray) -> np.ndarray:
    """Return the slides at which each of all edges leaves a window that holds some `edges`."""
    found = np.full(count, NOT_HELD)
    found[edges] = slides
    return found


def _counted_edges(
    graph: SnapshotGraph, reading: Reading, origin: str | None
) -> tuple[int, dict[tuple[int, int, int], int]]:
    """Return the number of a count window of a graph, and the edges that it holds with the slides at which they leave."""
    key, live, edges = count_key(reading, origin), graph.live_edges(), graph.edges
    slides = graph.counted.slides(key, live)
    live, slides = live[slides != NOT_HELD], slides[slides != NOT_HELD]
    ends = zip(*(column[live].tolist() for column in (edges.source, edges.label, edges.target)), strict=True)
    return graph.counted.number_of(key), dict(zip(ends, slides.tolist(), strict=True))


def _most_of_one_slide(slides: np.ndarray) -> int:
    """Return the number of edges of the most frequent slide."""
    return int(np.unique(slides, return_counts=True)[1].max(initial=0))


def read_state(path: str) -> SavedState:
    """Read a state. Raises `StateFormatError`, and `OSError` for a file that cannot be read. O(edges)."""
    return _read_content(read_file(path), path)


def _read_content(file: StateFile, path: str) -> SavedState:
    with _damage_named(path):
        content = StateContent.read(file.content)
        _check_edges(content, file.edges)
    return SavedState(path=path, edges=file.edges, content=content)


def _check_edges(content: StateContent, edges: StateEdges) -> None:
    """Raise `Damage` unless the edges are consistent with labels, stream time and windows."""
    kind = None if edges.names is None else "int64" if pa.types.is_integer(edges.names.type) else "string"
    if kind != content.kind:
        raise Damage(f"its vertices are of kind {kind}, not {content.kind}")
    for label in (edges.label, edges.static_label, edges.version_label, edges.parallel_label):
        if len(label) and (label.min() < 0 or label.max() >= len(content.labels.names)):
            raise Damage(f"an edge has a label with a number outside 0 to {len(content.labels.names) - 1}")
    if (len(edges.version_source) or len(edges.parallel_source)) and content.multigraph is None:
        raise Damage("there are versions of edges, and no identity of edges")
    for timestamp in (edges.timestamp, edges.version_timestamp, edges.parallel_timestamp):
        if not len(timestamp):
            continue
        if content.time is None:
            raise Damage("there are edges, but no stream time")
        if timestamp.min() < EARLIEST or timestamp.max() > content.time:
            raise Damage(f"an edge has a timestamp outside {EARLIEST} to the stream time {content.time}")


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Convert `Damage` to an error that names the file."""
    try:
        yield
    except Damage as problem:
        raise damage_error(STATE, path, str(problem)) from problem
