"""A second kind of query, which stands in the tests alone: the edges of one label, as the ends that are asked for.

It proves that the evaluation, saved states, threads, shares and Spark know no kind of query but what
`rpq.language.protocol` says. It is plain Python, and as simple as a kind can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.language import kinds
from rpq.language.protocol import Division, Figures, PresentGraph, Resources, RunningQuery
from rpq.language.readings import LabelSet
from rpq.rows.delta import Delta, IdRows
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.edge_times import EdgeTimes
from rpq.stream.edges.outcomes import OUTCOMES
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.json_values import JsonValue
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.window import Window


@dataclass(frozen=True, kw_only=True)
class EdgesOf:
    """The edges of a label in a window: a row for each, whose columns are its `ends` ("s" source, "t" target)."""

    label: str
    window: Window
    name: str = "edges"
    ends: str = "st"
    explicit: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{'from' if end == 's' else 'to'}_{place}" for place, end in enumerate(self.ends))

    @property
    def labels(self) -> frozenset[str]:
        return frozenset([self.label])

    def reads(self, label: str) -> bool:
        return label == self.label

    @property
    def label_set(self) -> LabelSet:
        return LabelSet(self.labels, others=False)

    @property
    def hypercube(self) -> None:
        return None

    def over(self, window: Window) -> EdgesOf:
        return replace(self, window=window)


class EdgesWorker:
    """Holds all edges of the label; answers with those whose source is its own."""

    def __init__(self, question: EdgesOf) -> None:
        self.question = question
        self.label = -1  # its id, if it is known
        self.is_own = np.ones(0, bool)  # a vertex
        self.edges: dict[int, tuple[int, int, int]] = {}  # an edge: source, target, absolute slide
        self.time: int | None = None
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.rows = np.zeros(2, np.int64)
        self.events: list[tuple[int, int, int, list[tuple[int, int]]]] = []

    @property
    def nbytes(self) -> int:
        return 200 * len(self.edges)

    @property
    def slide(self) -> int:
        assert self.time is not None
        return self.question.window.slide_number(self.time)

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        self.events = []
        window = self.question.window
        for i, (u, v, label, time, delete, edge) in enumerate(zip(*(column.tolist() for column in chunk), strict=True)):
            self._move(time, 2 * i)
            expiry = window.expiry_slide(time)
            if label != self.label:
                self.counts["IRRELEVANT"] += 1
            elif delete and edge in self.edges:
                self.counts["DELETED"] += 1
                del self.edges[edge]
                self._event(-1, 2 * i + 1, [(u, v)])
            elif delete:
                self.counts["ABSENT"] += 1
            elif edge < 0 or expiry <= self.slide:
                self.counts["LATE"] += 1
            elif edge in self.edges:
                self.counts["REFRESHED"] += 1
                self.edges[edge] = (u, v, max(expiry, self.edges[edge][2]))
            else:
                self.counts["INSERTED"] += 1
                self.edges[edge] = (u, v, expiry)
                self._event(1, 2 * i + 1, [(u, v)])

    def advance(self, time: int) -> None:
        self.events = []
        self._move(time, 0)

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> Delta:
        self.events = []
        columns = (chunk.source, chunk.target, chunk.label, chunk.edge, slides[0])
        for u, v, label, edge, slide in zip(*(column.tolist() for column in columns), strict=True):
            if label == self.label and slide > self.slide:
                self.edges[edge] = (u, v, slide)
        if not quiet:
            self._event(1, 1, [(u, v) for u, v, _ in self.edges.values()])
        return self.delta()

    @property
    def has_rows(self) -> bool:
        return bool(self.events)

    def deltas(self, numbers: Mapping[str, int], *, before: int | None = None) -> list[tuple[int, Delta]]:
        return [(numbers[self.question.name], self.delta(before=before))]

    def delta(self, *, before: int | None = None) -> Delta:
        events = [event for event in self.events if before is None or event[2] < 2 * before]
        return Delta(
            ids=self.ids([pair for _, _, _, pairs in events for pair in pairs]),
            times=np.array([time for time, _, _, _ in events], np.int64),
            ends=np.cumsum([len(pairs) for _, _, _, pairs in events], dtype=np.int64),
            kinds=np.array([kind for _, kind, _, _ in events], np.int8),
            orders=np.array([order for _, _, order, _ in events], np.int64),
        )

    def ids(self, pairs: list[tuple[int, int]]) -> IdRows:
        places = ["st".index(end) for end in self.question.ends]
        rows = np.array([[pair[place] for place in places] for pair in pairs], np.int32)
        return IdRows(rows.reshape(-1, len(places)), tuple(range(len(places))))

    def own(self) -> list[tuple[int, int]]:
        return [(u, v) for u, v, _ in self.edges.values() if self.is_own[u]]

    def sweep(self) -> None:
        """Do nothing: edges are removed when they leave the window."""

    def _check(self) -> None:
        assert all(slide > self.slide for _, _, slide in self.edges.values())

    def _move(self, time: int, order: int) -> None:
        if self.time is None:
            self.time = time
        while (slide := self.slide) < self.question.window.slide_number(max(time, self.time)):
            leaving = min((one for _, _, one in self.edges.values()), default=None)
            if leaving is None or leaving > self.question.window.slide_number(time):
                break
            gone = [edge for edge, (_, _, one) in self.edges.items() if one == leaving]
            pairs = [self.edges.pop(edge)[:2] for edge in gone]
            assert leaving > slide
            self.time = leaving * self.question.window.slide
            if self.question.explicit:
                self._event(-1, order, pairs)
        self.time = max(time, self.time)

    def _event(self, kind: int, order: int, pairs: list[tuple[int, int]]) -> None:
        pairs = [pair for pair in pairs if self.is_own[pair[0]]]
        if pairs:
            assert self.time is not None
            self.events.append((self.time, kind, order, pairs))
            self.rows[0 if kind > 0 else 1] += len(pairs)


class RunningEdges(RunningQuery):
    """The edges of one label while they run."""

    def __init__(self, question: EdgesOf, resources: Resources) -> None:
        self.question = question
        self.workers: Sequence[EdgesWorker] = [EdgesWorker(question) for _ in range(resources.threads)]
        self._division = Division(resources.threads, resources.share)
        self.is_divided = not self._division.is_whole

    def set_labels(self, labels: np.ndarray, names: Sequence[str]) -> None:
        known = dict(zip(names, labels.tolist(), strict=True))
        for worker in self.workers:
            worker.label = -1 if worker.label in known.values() else worker.label  # an id that another label has now
            worker.label = known.get(self.question.label, worker.label)

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return (labels == self.workers[0].label)[:, None]

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        self.vertex_room = max(self.vertex_room, vertices.count)
        owned = self._division.ownership(vertices.hashes(new_ids))
        for worker, mine in zip(self.workers, owned, strict=True):
            worker.is_own = np.concatenate([worker.is_own, np.ones(self.vertex_room - len(worker.is_own), bool)])
            worker.is_own[new_ids] = mine

    def load_static(self, chunk: Chunk) -> None:
        raise NotImplementedError

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        for worker in self.workers:
            worker.advance(time)
        return [] if chunk is None else [worker.load(chunk, *slides, quiet=quiet) for worker in self.workers]

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        known = self.workers[0].edges
        return [np.array([known[edge][2] if edge in known else -(2**62) for edge in edges.tolist()], np.int64)]

    def answers(self) -> list[IdRows]:
        return [worker.ids(worker.own()) for worker in self.workers]

    def rows(self) -> np.ndarray:
        return sum((worker.rows for worker in self.workers), np.zeros(2, np.int64))

    def figures(self) -> Figures:
        first = self.workers[0]
        return Figures(
            counts=tuple(first.counts.values()),
            added=int(self.rows()[0]),
            removed=int(self.rows()[1]),
            answers=sum(len(worker.own()) for worker in self.workers),
            edges=len(first.edges),
            cells=len(first.edges),
            nbytes=sum(worker.nbytes for worker in self.workers),
            latency=np.zeros(LATENCY_BUCKETS, np.int64),
        )

    def witnesses(self, delta: Delta, graph: PresentGraph, edge_times: EdgeTimes | None = None) -> pa.Array:
        removed = np.repeat(delta.kinds < 0, delta.lengths())
        texts = pa.array([None if gone else self.question.label for gone in removed], pa.string())
        return pa.StructArray.from_arrays([texts, pa.nulls(len(removed), pa.list_(pa.int64()))], ["path", "times"])

    def to_state(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        return {"counts": self.workers[0].counts, "rows": self.rows().tolist()}

    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        load()
        for worker in self.workers:
            worker.counts = {name: saved["counts"][name].integer(0) for name in OUTCOMES}
        self.workers[0].rows = np.array([count.integer(0) for count in saved["rows"].tuple_of(2)], np.int64)


def _described(question: EdgesOf) -> dict[str, Any]:
    window = {"size": question.window.size, "slide": question.window.slide}
    values = {"label": question.label, "name": question.name, "ends": question.ends, "explicit": question.explicit}
    return {"window": window, **values}


def _read(content: JsonValue) -> EdgesOf:
    size, slide = (content["window"][name].integer(1) for name in ("size", "slide"))
    label, name, ends = (content[field].unicode() for field in ("label", "name", "ends"))
    window = Window(size=size, slide=slide)
    return EdgesOf(label=label, name=name, ends=ends, explicit=content["explicit"].flag(), window=window)


kinds.register(kinds.QueryKind(name="edges", question=EdgesOf, start=RunningEdges, to_json=_described, read=_read))
