"""The edges that an engine stores for queries that are registered later, and the contents of the windows of these queries.

An edge is stored while some query reads its label over a window that contains it, or while the window `keep` of the engine
contains it. A query is refused in mid-stream if one of its windows would contain an edge that was not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from rpq.errors import QueryError, RegistrationError
from rpq.language.protocol import Question
from rpq.language.readings import Reading, accepted_edges_by, readings_of, without_tests_of
from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import NEVER
from rpq.stream.edges.parallel_edges import ParallelColumns, edge_numbers
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary
from rpq.stream.names.stream_labels import LabelName, StreamLabel, name_in
from rpq.stream.stream_time import EARLIEST
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window


@dataclass(frozen=True)
class KeepOption:
    """The window `keep` of an engine, which has to fit the time of the stream like that of a query."""

    window: Any  # a `Window`; the protocol `WindowedQuery` allows other kinds

    @property
    def name(self) -> str:
        """The name in messages."""
        return "keep"

    def over(self, window: Any) -> Self:
        """Return the option with another window."""
        return replace(self, window=window)


def keep_option(window: Window | UnboundedWindow) -> KeepOption:
    """Return the option `keep` for a window. Raises `QueryError` if it is neither one of time nor unbounded."""
    if not isinstance(window, Window | UnboundedWindow):
        raise QueryError(
            "keep is a window of time, as in keep=rpq.Window(size=…, slide=…), or rpq.UnboundedWindow(), not "
            f"{window!r}"
        )
    return KeepOption(window)


def count_key(reading: Reading, origin: str | None) -> Hashable:
    """Return the key of a count window: windows that number the same inserts have equal keys.

    `origin` is the name of the query that started it empty in mid-stream, None for one that has seen all.
    """
    return reading.window, reading.labels, reading.stream, origin


class _Refusal(NamedTuple):
    """The reason why a window is refused, and the time from which it will be accepted, if that is known."""

    reason: str
    available_from: int | None
    complete_from: int = 0


def refuse_if_lost(
    question: Question,
    labels: LabelDictionary,
    graph: SnapshotGraph,
    *,
    to_timestamp: Callable[[int], Any],
    begins_empty: bool = True,
) -> None:
    """Raise if a window of a new query would contain an edge that was not stored.

    `to_timestamp` turns integers into times of the stream, `begins_empty` is whether the query may begin with empty windows.
    If only windows of time are refused, the error states the latest of the times from which they will be accepted.
    """
    if graph.time is None:
        return
    readings = [reading for reading in readings_of(question) if not reading.is_of_facts]
    lost = [latest_lost_insert(question, reading, labels, graph) for reading in readings]
    found = [
        _refusal(reading, latest, graph, graph.time, to_timestamp, begins_empty=begins_empty)
        for reading, latest in zip(readings, lost, strict=True)
    ]
    refused = [one for one in found if one is not None]
    for why, available, _ in refused:
        if available is None:
            raise RegistrationError(f"query {question.name!r}: {why}", available_from=None)
    if refused:
        latest = max(refused, key=lambda one: one.available_from or 0)
        complete = max(one.complete_from for one in refused)
        available = to_timestamp(latest.available_from or 0)
        at_once = f', or at once with start="empty", which is complete from {to_timestamp(complete)} on'
        raise RegistrationError(
            f"query {question.name!r}: {latest.reason}; it can be registered from {available} on, if no more are lost until "
            f"then{at_once if begins_empty else ''}",
            available_from=available,
        )


def _refusal(
    reading: Reading,
    latest: int,
    graph: SnapshotGraph,
    time: int,
    to_timestamp: Callable[[int], Any],
    *,
    begins_empty: bool,
) -> _Refusal | None:
    window = reading.window
    if isinstance(window, CountWindow):
        if count_key(reading, None) in graph.counted.keys:
            return None
        advice = 'it can be registered with start="empty", which numbers inserts from now on'
        return _Refusal(
            f"the inserts in its window of the last {window.size:,} are not known, as no query that has run since the first "
            "tuple, or that began as a copy of one, counts the same labels in a window of that size and step; "
            f"{advice if begins_empty else 'register it before the first tuple'}",
            None,
        )
    if isinstance(window, UnboundedWindow):
        if latest < EARLIEST:
            return None
        at_once = '; it can be registered with start="empty", without what came before' if begins_empty else ""
        return _Refusal(
            f"its unbounded window would contain edges that were not stored, such as one with timestamp "
            f"{to_timestamp(latest)}{at_once}",
            None,
        )
    if latest < EARLIEST or latest <= window.lower_bound(time):
        return None
    available, complete = (window.expiry_slide(moment) * window.slide for moment in (latest, time))
    return _Refusal("its window would contain edges that were not stored", available, complete)


def latest_lost_insert(question: Question, reading: Reading, labels: LabelDictionary, graph: SnapshotGraph) -> int:
    """Return the largest timestamp of an insert that a question needs for a reading and that was, or may have been, lost."""
    horizons, edges = graph.horizons, graph.filter
    # Edges with tests of their ends follow from others, and are never lost.
    needs = reading.reads if not reading.labels.has_tests else lambda name: _needs(name, reading)
    lost = [int(horizons.lost[number]) for name, number in labels.ids.items() if needs(name)]
    # What was passed by is known of the merged stream alone, where every label has an id.
    for text, merged in ((name, number) for name, number in labels.ids.items() if isinstance(name, str)):
        if not reading.labels.has(text):
            continue
        passed_by = int(horizons.passed_by[merged])
        lost += [edges.passed_before(merged, one, passed_by=passed_by) for one in accepted_edges_by(question, text)]
    named = reading.labels.without_tests
    if reading.labels.has_others or any(name_in(label, reading.stream) not in labels.ids for label in named):
        # A label without an id may be among those that were forgotten.
        lost.append(labels.forgotten if reading.stream is None else labels.forgotten_of_streams)
    return max(lost, default=EARLIEST - 1)


def _needs(name: LabelName, reading: Reading) -> bool:
    """Return whether a query reads a label, or edges with tests of their ends that follow from its edges."""
    if isinstance(name, StreamLabel):
        return reading.reads(name)
    is_own = isinstance(name, str) or without_tests_of(name) == name
    return is_own and (reading.reads(name) or reading.labels.is_tested(name))


class _EdgesByLabel(NamedTuple):
    """Edges in the order of their labels, and for each window the slides at which they leave."""

    chunk: Chunk
    slides: list[np.ndarray]
    labels: np.ndarray
    first: np.ndarray
    """The place of the first edge of each label; at the end the number of edges."""

    def read_by(self, reads: Callable[[np.ndarray], np.ndarray]) -> tuple[Chunk, list[np.ndarray]]:
        """Return the edges whose labels a query reads, and their slides. O(labels + edges returned)."""
        is_read = reads(self.labels).any(axis=1)
        if is_read.all():
            return self.chunk, self.slides
        ranges = (np.arange(self.first[label], self.first[label + 1]) for label in np.flatnonzero(is_read).tolist())
        places = np.concatenate([np.zeros(0, np.int64), *ranges])
        return Chunk(*(column[places] for column in self.chunk)), [mine[places] for mine in self.slides]


class WindowContents:
    """The edges in windows now, collected once for all queries with the same windows.

    If queries start `empty`, there are only those of facts of nodes, which `is_fact` marks by label id.
    """

    def __init__(
        self, graph: SnapshotGraph, *, empty: bool, is_fact: np.ndarray, parallel: ParallelColumns | None = None
    ) -> None:
        self._graph = graph
        self._is_fact = is_fact
        self._parallel = None if empty else parallel
        self._is_empty = empty
        self._live: np.ndarray | None = None
        """The live edges in the order of their labels; of queries that start empty facts of nodes alone, which are there."""
        self._edges: dict[Hashable, _EdgesByLabel] = {}

    def are_facts(self, edges: Chunk) -> np.ndarray:
        """Return which edges follow from facts of nodes (bool)."""
        found: np.ndarray = self._is_fact[edges.label]
        return found

    def of(
        self,
        windows: Sequence[tuple[AnyWindow, Hashable]],
        reads: Callable[[np.ndarray], np.ndarray],
        *,
        is_ordered: bool = False,
        tracked: Hashable = None,
    ) -> tuple[Chunk, list[np.ndarray]]:
        """Return the edges in any window of a query (each with its key), and for each window the slides at which they leave.

        There are those alone whose labels the query `reads` (`RunningQuery.reads`). A query about paths in time order gets
        parallel edges one by one; `tracked` is the key of its content where that does not follow from timestamps. O(edges)
        the first time, then O(labels + edges that it reads).
        """
        if is_ordered and self._parallel is not None:
            return self._parallel_edges(*windows, tracked=tracked)
        key = tuple(windows)
        if key not in self._edges:
            if self._live is None:
                live = self._graph.live_edges()
                if self._is_empty:
                    live = live[self._is_fact[self._graph.edges.label[live]]]
                self._live = live[np.argsort(self._graph.edges.label[live], kind="stable")]
            slides = [self._graph.slides(window, numbered, self._live) for window, numbered in windows]
            is_inside = np.zeros(len(self._live), bool)
            for (window, numbered), mine in zip(windows, slides, strict=True):
                is_inside |= mine > self._graph.current_slide(window, numbered)
            chunk = self._graph.chunk_of(self._live[is_inside])
            labels, first = np.unique(chunk.label, return_index=True)
            self._edges[key] = _EdgesByLabel(
                chunk, [mine[is_inside] for mine in slides], labels, np.append(first, len(chunk.label))
            )
        return self._edges[key].read_by(reads)

    def _parallel_edges(
        self, window_and_key: tuple[AnyWindow, Hashable], *, tracked: Hashable
    ) -> tuple[Chunk, list[np.ndarray]]:
        """Return the edges in a window, parallel ones too, in the order of their timestamps."""
        assert self._parallel is not None
        window, key = window_and_key
        order = np.argsort(self._parallel.timestamp, kind="stable")
        source, label, target, timestamp = (column[order] for column in self._parallel[:4])
        edges, live = self._graph.edges, self._graph.live_edges()
        number = edge_numbers((edges.source[live], edges.label[live], edges.target[live]), (source, label, target))
        if tracked is not None:
            slides = self._parallel.slides[tracked][order]
        elif isinstance(window, Window):
            slides = -(-(timestamp + window.size) // window.slide)
        else:
            slides = np.full(len(timestamp), NEVER)
        inside = (slides > self._graph.current_slide(window, key)) & (number >= 0)
        chunk = Chunk(
            source=source[inside],
            target=target[inside],
            label=label[inside],
            timestamp=timestamp[inside],
            delete=np.zeros(int(inside.sum()), np.uint8),
            edge=live[number[inside]].astype(np.int32),
        )
        return chunk, [slides[inside]]
