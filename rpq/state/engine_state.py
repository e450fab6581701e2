"""Saving an engine to a file and restoring it.

The state that is worth keeping is the window, not the index: the file holds the edges with their names, the
slide at which each expires from every query, the queries, the counters, and what was lost of each label. The index
is built anew. How this lies in the file is the business of `state_layout.py`.

A file that was changed since it was written is refused, because its checksum is wrong. One whose checksum somebody made
right again, or of version 1, which has none, is refused unless everything in it could have been saved by some engine, as
far as one can tell without building the index twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import QueryError
from rpq.files.described import Damage, Described
from rpq.files.destinations import replacing
from rpq.files.sealed import damaged
from rpq.queries.protocol import RunningQuery
from rpq.running.evaluation import Evaluation
from rpq.state.state_content import Content, Labels, QueryState
from rpq.state.state_layout import STATE, Edges, read_file, write_file
from rpq.stream.columns import EARLIEST
from rpq.stream.stream_time import StreamTime


def write_state(path: str, evaluation: Evaluation, about: dict[str, Any]) -> None:
    """Write a state, with what the engine adds `about` itself, to a file that appears whole or not at all.

    O(edges in the window).
    """
    graph = evaluation.graph
    evaluation.collect()
    held = graph.live_edges()
    content = Content(
        time=graph.time,
        kind=evaluation.vertices.kind,
        share=evaluation.share,
        labels=_labels_of(evaluation),
        outcomes=graph.outcomes.tolist(),
        queries=[_state_of(running, evaluation) for running in evaluation.running],
        **about,
    )
    with replacing(path) as file:
        write_file(file, content.described(), _edges_of(evaluation, held))


def _edges_of(evaluation: Evaluation, held: np.ndarray) -> Edges:
    edges, vertices = evaluation.graph.edges, evaluation.vertices
    is_named = np.zeros(vertices.count, bool)
    is_named[edges.source[held]] = is_named[edges.target[held]] = True
    number = np.cumsum(is_named, dtype=np.int32) - np.int32(1)
    names = None if vertices.kind is None else pa.chunked_array([vertices.names_of(np.flatnonzero(is_named))])
    return Edges(
        names=names,
        source=number[edges.source[held]],
        target=number[edges.target[held]],
        label=_label_numbers(evaluation)[edges.label[held]],
        timestamp=edges.timestamp[held],
        # Not derived from the timestamp: a query that started empty does not hold every edge.
        slides=[slides for running in evaluation.running for slides in running.slides(held)],
    )


def _state_of(running: RunningQuery, evaluation: Evaluation) -> QueryState:
    return QueryState(question=running.question, saved=Described(running.saved(evaluation.name_of)))


def _labels_of(evaluation: Evaluation) -> Labels:
    labels = evaluation.labels
    lost = evaluation.graph.horizons.lost[list(labels.ids.values())].tolist()
    return Labels(names=list(labels.ids), lost=lost, forgotten=labels.forgotten)


def _label_numbers(evaluation: Evaluation) -> np.ndarray:
    """Of each label id the number in `_labels_of`, which has no gaps."""
    labels = evaluation.labels
    numbers = np.zeros(labels.room, np.int32)
    numbers[list(labels.ids.values())] = np.arange(len(labels))
    return numbers


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a file holds: the edges, and all else as `content`."""

    path: str
    edges: Edges
    content: Content

    def times(self) -> tuple[StreamTime, dict[str, Any]]:
        """What is known of the stream's time, and the queries as they were given, by name."""
        running = [state.question for state in self.content.queries]
        with _damage_named(self.path):
            try:
                if self.content.times is not None:
                    return StreamTime.recalled(self.content.times, running)
                return StreamTime(unit=self.content.time_unit).asked(running), {query.name: query for query in running}
            except (ValueError, QueryError) as problem:
                raise Damage(str(problem)) from problem

    def fill(self, evaluation: Evaluation) -> None:
        """Bring an empty evaluation to where the saved one was. O(window · index).

        Raises `StateFormatError` where the parts do not fit together.
        """
        with _damage_named(self.path):
            try:
                for state in self.content.queries:
                    evaluation.add(state.question)
            except QueryError as problem:
                raise Damage(str(problem)) from problem
            labels = self.content.labels
            evaluation.take_labels(labels.names, labels.lost, forgotten=labels.forgotten)
            evaluation.graph.outcomes[:] = self.content.outcomes
            entered, fresh = self._enter_edges(evaluation)
            slides = iter(self.edges.slides)
            if len(self.edges.slides) != sum(len(running.windows) for running in evaluation.running):
                raise Damage(
                    f"it tells of {len(self.edges.slides)} windows when edges expire from them, which are not the queries'"
                )
            for host in evaluation.running.hosts:
                host.make_room(evaluation.vertices, fresh, evaluation.graph)
            for running, state in zip(evaluation.running, self.content.queries, strict=True):
                mine = [next(slides) for _ in running.windows]
                self._check_slides(running, mine)
                running.make_room(evaluation.vertices, fresh, evaluation.graph)
                running.restore(
                    state.saved, partial(self._load, running, mine, entered, evaluation), evaluation.vertices.id_of
                )

    def _enter_edges(self, evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
        """Let the graph hold the edges; their ids, and those of the vertices."""
        graph, vertices, saved = evaluation.graph, evaluation.vertices, self.edges
        vertices.kind = self.content.kind
        chunks = [] if saved.names is None else saved.names.chunks
        ids = [vertices.intern(names, np.ones(len(names), np.uint8))[0] for names in chunks]
        identity = np.concatenate([np.zeros(0, np.int32), *ids])
        if vertices.live < len(identity):
            raise Damage("a vertex is there twice")
        source, target = identity[saved.source], identity[saved.target]
        entered: np.ndarray = graph.enter(source, target, saved.label, saved.timestamp, vertices.count)
        if graph.held < len(saved):
            raise Damage("an edge is there twice")
        if self.content.time is not None:
            graph.advance(self.content.time)
        if len(graph.live_edges()) < len(saved):
            raise Damage("an edge has left every window that it could be in")
        return entered, identity

    def _load(
        self, running: RunningQuery, slides: list[np.ndarray], entered: np.ndarray, evaluation: Evaluation
    ) -> None:
        """Let a query hold the edges that it held, by the slides at which they expire from its windows."""
        time = self.content.time
        if time is None:
            return
        inside = np.zeros(len(entered), bool)
        for window, mine in zip(running.windows, slides, strict=True):
            inside |= mine > window.slide_number(time)
        chunk = evaluation.graph.chunk_of(entered[inside])
        held = None if self.content.kind is None else chunk
        running.load(time, held, *(mine[inside] for mine in slides), quiet=True)

    def _check_slides(self, running: RunningQuery, slides: list[np.ndarray]) -> None:
        """Raise `Damage` where an edge expires from a window when it cannot."""
        time = self.content.time
        if time is None:
            return
        for window, mine in zip(running.windows, slides, strict=True):
            inside = mine > window.slide_number(time)
            # A query that started empty may hold an edge by an older insert than the graph does, never by a younger one.
            if (mine[inside] > -(-(self.edges.timestamp[inside] + window.size) // window.slide)).any():
                raise Damage(f"query {running.question.name!r}: an edge expires later than its timestamp allows")


def read_state(path: str) -> Saved:
    """Read a state. Raises `StateFormatError`, and `OSError` where there is no file that can be read. O(edges)."""
    file = read_file(path)
    with _damage_named(path):
        content = Content.read(file.described)
        _check_edges(content, file.edges)
    return Saved(path=path, edges=file.edges, content=content)


def _check_edges(content: Content, edges: Edges) -> None:
    """Raise `Damage` unless the edges fit to labels, stream time and windows."""
    kind = None if edges.names is None else "int64" if pa.types.is_integer(edges.names.type) else "string"
    if kind != content.kind:
        raise Damage(f"its vertices are of kind {kind}, not {content.kind}")
    if len(edges) == 0:
        return
    if content.time is None:
        raise Damage("there are edges, but no stream time")
    if edges.label.min() < 0 or edges.label.max() >= len(content.labels.names):
        raise Damage(f"an edge has a label with a number outside of 0 to {len(content.labels.names) - 1}")
    if edges.timestamp.min() < EARLIEST or edges.timestamp.max() > content.time:
        raise Damage(f"an edge has a timestamp outside of {EARLIEST} to the stream time {content.time}")


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Turn `Damage` into an error that names the file."""
    try:
        yield
    except Damage as problem:
        raise damaged(STATE, path, str(problem)) from problem
