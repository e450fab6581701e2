"""A kind of query that stands in the tests alone: a connected pattern whose atoms read several windows and named streams.

It is what `rpq.operators.patterns.read_relations` and the host give, and nothing more: its rows are those of one part,
netted for each event in plain Python. It proves what lies below SPARQL: several windows, streams, lateness, registering,
saving, events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rpq import automata
from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.language import kinds
from rpq.language.pattern import accepted_edges, accepted_edges_on_paths, parse_pattern
from rpq.language.protocol import Figures, Resources, RunningQuery
from rpq.language.readings import LabelSet, Reading
from rpq.operators.patterns.joins.plan import EdgeAtom, plan_pattern
from rpq.operators.patterns.meanings import DirectedAtom, direct_atoms
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.read_relations import WindowedEdge, WindowedPath, WindowedReads
from rpq.operators.patterns.rows.solutions import PartPlace
from rpq.rows.delta import Delta, IdRows
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.edges.outcomes import OUTCOMES
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.json_values import JsonValue
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window, size_and_slide, window_of


@dataclass(frozen=True, kw_only=True)
class WindowedPattern:
    """The atoms of a `text`, each over the reading of that number, or None for the static edges alone."""

    text: str
    places: tuple[int | None, ...]
    readings: tuple[Reading, ...]
    default: int | None = 0
    """The reading of the default window, if there is one."""
    name: str = "q"
    explicit: bool = True
    report: Literal["change", "slide", "time"] = "change"
    paths: Literal["walk", "simple", "simple_cycle"] = "walk"
    simple_budget: int = 10**6

    @property
    def window(self) -> AnyWindow | None:
        return None if self.default is None else self.readings[self.default].window

    @property
    def columns(self) -> tuple[str, ...]:
        terms = [term for atom in parse_pattern(self.text) for term in (atom.subject, atom.object)]
        return tuple(dict.fromkeys(term.name for term in terms))

    def over(self, window: AnyWindow) -> WindowedPattern:
        return replace(self, readings=tuple(reading._replace(window=window) for reading in self.readings))

    @property
    def atoms(self) -> list[tuple[DirectedAtom, int | None]]:
        return [(direct_atoms([atom])[0], place) for atom, place in zip(parse_pattern(self.text), self.places, strict=True)]

    def accepts(self, label: str) -> frozenset[Ends]:
        """Return which edges of a label its atoms accept, if a window reads it; a count window numbers all."""
        if not any(reading.labels.has(label) for reading in self.readings):
            return frozenset()
        atoms = parse_pattern(self.text)
        paths = [(atom, automata.compile(str(atom.expression))) for atom in atoms if atom.edge is None]
        found = accepted_edges(atoms).get(label, frozenset()) | accepted_edges_on_paths(paths, label)
        is_counted = any(isinstance(reading.window, CountWindow) for reading in self.readings)
        return frozenset({ALL}) if found and is_counted else found


class RunningWindowed(RunningQuery):
    """The pattern while it runs."""

    question: WindowedPattern
    needs_room = False
    has_witnesses = False

    def __init__(self, question: WindowedPattern, resources: Resources) -> None:
        self.question = question
        self.report = question.report
        self._host: PatternHost = resources.host
        self._atoms = [(atom, self._read(atom, place)) for atom, place in question.atoms]
        self._rows = np.zeros(2, np.int64)
        self._origin = self._host.new_origin() if resources.is_late else 0
        self._host.members[question.name] = self
        self._enter()

    def _read(self, atom: DirectedAtom, place: int | None) -> WindowedEdge | WindowedPath:
        if isinstance(atom.reads, str):
            return WindowedEdge(atom.reads, place)
        return WindowedPath(atom.reads.expression, place)

    def _enter(self) -> None:
        self._reads = WindowedReads(
            self._host,
            self.question,
            self.question.readings,
            [read for _, read in self._atoms],
            origin=self._origin,
            static=() if self.question.default is None else (self.question.default,),
        )
        self._reads.enter()
        atoms = [
            EdgeAtom(f"?{atom.source.name}", self._reads.relation(read), f"?{atom.target.name}")
            for atom, read in self._atoms
        ]
        (self._plan,) = plan_pattern(atoms, select=[f"?{name}" for name in self.question.columns]).parts
        self._part = self._host.add_part(self._plan, explicit=True, is_reported=False)
        self._host.join_part(self._part, self.question.name, PartPlace(0, 0))

    def leave(self) -> None:
        self._withdraw()
        del self._host.members[self.question.name]

    def _withdraw(self) -> None:
        self._host.leave_part(self._part, self.question.name, PartPlace(0, 0))
        self._host.release_part(self._part)
        self._reads.leave()

    @property
    def contents(self) -> set[Any]:
        return self._reads.contents

    def leave_changed(self) -> None:
        """There are no constants."""

    def resolve(self) -> None:
        """There are no constants."""

    # --- what it reads ---------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[Any]) -> None:
        """The host is told."""

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return self._reads.reads(labels)

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        self.vertex_room = self._host.vertex_room

    def count_from(self, numbers: Sequence[int]) -> None:
        self._reads.count_from(numbers)

    def load_static(self, chunk: Chunk) -> None:
        self._reads.load_static(chunk)

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        self._host.advance(time)
        if chunk is not None:
            self._reads.fill(chunk, slides, quiet=quiet)
        if quiet or chunk is None:
            return []
        return [self._told({(1, time): Counter(self._answers())})]

    # --- what it tells ---------------------------------------------------------------------------------------

    def delta(self, parts: dict[PartPlace, Delta], changed: Mapping[int, Delta]) -> Delta:
        (part,) = parts.values()
        rows = part.as_lists()
        events: dict[tuple[int, int], Counter[tuple[int, ...]]] = {}
        moments = zip(part.orders.tolist(), part.times.tolist(), strict=True)
        for (order, time), sign, count in zip(moments, part.kinds.tolist(), part.lengths().tolist(), strict=True):
            if order % 2 and self._host.first is not None:
                order = 2 * int(self._host.first[order // 2]) + 1
            mine = events.setdefault((order, time), Counter())
            for _ in range(count):
                mine[tuple(rows.pop(0))] += sign
        return self._told(events)

    def _told(self, events: dict[tuple[int, int], Counter[tuple[int, ...]]]) -> Delta:
        ids: list[tuple[int, ...]] = []
        runs: list[tuple[int, int, int, int]] = []
        deletes = self._host.is_delete
        if self._host.first is not None:
            deletes = np.bincount(self._host.first, deletes, len(deletes))
        for (order, time), net in sorted(events.items()):
            for sign in (-1, 1):
                rows = [row for row, weight in net.items() for _ in range(sign * weight)]
                if rows and (sign > 0 or self.question.explicit or (order % 2 and deletes[order // 2])):
                    ids += rows
                    runs.append((time, len(ids), sign, order))
        times, ends, kinds, orders = (np.array(column, np.int64) for column in zip(*runs, strict=True)) if runs else [
            np.zeros(0, np.int64)
        ] * 4
        delta = Delta(ids=self._ids(ids), times=times, ends=ends, kinds=kinds.astype(np.int8), orders=orders)
        self._rows += delta.counts()
        return delta

    def _ids(self, rows: Sequence[tuple[int, ...]]) -> IdRows:
        columns = len(self.question.columns)
        return IdRows(np.array(rows, np.int32).reshape(-1, columns), tuple(range(columns)))

    def _answers(self) -> list[tuple[int, ...]]:
        return list(map(tuple, self._host.rows_of_part(self._part, len(self.question.columns)).tolist()))

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        return self._reads.slides(edges)

    def answers(self) -> list[IdRows]:
        return [self._ids(self._answers())]

    def rows(self) -> np.ndarray:
        return self._rows.copy()

    @property
    def nbytes(self) -> int:
        return 0

    def figures(self) -> Figures:
        added, removed = self._rows.tolist()
        return Figures(
            counts=tuple(self._reads.counts),
            added=added,
            removed=removed,
            answers=len(self._answers()),
            edges=self._reads.edges_live,
            cells=self._reads.cells,
            nbytes=0,
            latency=np.zeros(LATENCY_BUCKETS, np.int64),
        )

    def to_state(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        return {"counts": self._reads.counts, "rows": self._rows.tolist()}

    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        load()
        self._reads.set_counts([count.integer(0) for count in saved["counts"].tuple_of(len(OUTCOMES))])
        self._rows[:] = [count.integer(0) for count in saved["rows"].tuple_of(2)]

    def _check(self) -> None:
        """The host checks relations and indexes."""


def _described(question: WindowedPattern) -> dict[str, Any]:
    readings = [
        [*size_and_slide(reading.window), sorted(reading.labels.named), reading.labels.others, reading.stream]
        for reading in question.readings
    ]
    own = {"text": question.text, "places": question.places, "default": question.default, "name": question.name}
    return {**own, "readings": readings, "explicit": question.explicit, "report": question.report, "paths": question.paths}


def _read(content: JsonValue) -> WindowedPattern:
    value = content.value
    readings = [
        Reading(_window(size, slide), LabelSet(frozenset(named), others), stream)
        for size, slide, named, others, stream in value["readings"]
    ]
    plain = {name: value[name] for name in ("text", "default", "name", "explicit", "report", "paths")}
    return WindowedPattern(**plain, places=tuple(value["places"]), readings=tuple(readings))


def _window(size: int | str, slide: int | None) -> Window | CountWindow | UnboundedWindow:
    return window_of(size, slide, unit=None)


kinds.register(
    kinds.QueryKind(
        name="windowed",
        question=WindowedPattern,
        start=RunningWindowed,
        to_json=_described,
        read=_read,
        host=PatternHost,
    )
)
