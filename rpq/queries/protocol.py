"""What a query is to the engine while it runs: the protocol that every kind of query implements.

The evaluation (`rpq.running`) turns names into ids, keeps the snapshot graph, moves the clock, and cuts the stream into
chunks. It knows no kind of query; what it needs of one stands here. A running query has *workers*, one for each thread
of the engine: each takes every chunk and answers for a part of the answers, so that no two report the same row. What
workers report are columns of vertex ids (`rpq.results.delta`), as many as the query has columns. Queries that share what
they hold have no workers, but one *host* an engine, which takes every chunk for all of them.

To add a kind: a question (`Question`) for users to make, a `RunningQuery` with its `Worker`, and a `Kind` that binds
the two (`rpq.queries.kinds`). `tests/edge_query.py` is a small one: the edges of one label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from rpq.errors import ConflictBudgetError
from rpq.files.json_values import JsonValue
from rpq.queries.centre import Centre
from rpq.queries.label_set import LabelSet
from rpq.queries.row_guard import RowGuard
from rpq.results.changes import SetAside
from rpq.results.delta import Delta, IdRows
from rpq.results.typed_columns import Texts
from rpq.stream.chunk import Chunk, ChunkDetails
from rpq.stream.snapshot import Edges, SnapshotGraph
from rpq.stream.stream_labels import LabelName
from rpq.stream.stream_time import windows_of
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import AnyWindow

Guard = Callable[[int, int], None]
"""Called with the bytes that a worker is about to need and its place in the chunk; raises where that is too much."""

SEVERAL = -1
"""In place of the number of a query, of a worker that several share, and of a delta whose events have `numbers`."""

Telling = Literal["changes", "enter", "leave", "whole"]
"""What a report tells: what has changed since the last one, of that what enters or leaves, or the whole answer."""

COUNTS = ("INSERTED", "REFRESHED", "DELETED", "ABSENT", "LATE", "IRRELEVANT")
"""What becomes of a tuple, for one query: the names under which it is counted."""


_NO_WITNESS = "has_witnesses says that there are none"


class Question(Protocol):
    """What a user asks.

    One that reads several windows, or named streams, also has `readings`, a tuple of `Reading` (`rpq.queries.readings`), an
    entry a window; the `windows`, `reads` and `slides` of its `RunningQuery` have theirs in the same order. Where one of
    its windows may be in durations it has `in_unit(unit)`, the same question with windows in that unit. Its `label_set`
    is that of no window, and not asked for.
    """

    @property
    def name(self) -> str:
        """What tells it from others."""

    @property
    def window(self) -> AnyWindow:
        """The window that it is asked over; of one with `readings` its default one, whose boundaries reports are at."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of its rows."""

    @property
    def labels(self) -> frozenset[str] | None:
        """All labels that it can read; None where it reads some that it does not name."""

    def reads(self, label: str) -> bool:
        """Whether edges of a label can matter to it."""

    @property
    def label_set(self) -> LabelSet:
        """The labels that it reads, those that it does not name too: a count window numbers their inserts."""

    @property
    def centre(self) -> Centre | None:
        """The column around which its rows lie, by which Spark divides it with all that it reads; else by its rows alone."""

    def over(self, window: AnyWindow) -> Self:
        """The same question over another window."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a query that starts is given: how its work is divided, and what it may use."""

    threads: int
    share: tuple[int, int]  # number, of how many
    witness: bool
    capacity: int
    guard: Guard
    rows: RowGuard = field(default_factory=lambda: RowGuard(None))
    host: Any = None  # what the kind's `host` made, for all its queries in the engine
    events: Literal["window", "alone"] | None = None  # whether events have several tuples, and each is answered by itself
    sharing: Literal["auto", "always", "never"] = "auto"  # whether queries share work that none needs alone
    is_late: bool = False  # whether it starts with an empty window in mid-stream, where others hold more
    common: dict[Hashable, Any] = field(default_factory=dict)  # what queries share, by what it is: theirs to fill


class Overrun(NamedTuple):
    """A root that was set aside: at tuple `place` of the chunk (-1: none), at a stream time, having taken `size` nodes."""

    place: int
    root: int
    time: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one running query has counted, and what it holds now; `counts` are in the order of `COUNTS`."""

    counts: tuple[int, ...]
    added: int
    removed: int
    answers: int
    edges: int
    cells: int
    nbytes: int  # without buffers for rows
    latency: np.ndarray  # int64[LATENCY_BUCKETS]
    further: dict[str, int] = field(default_factory=dict)  # fields of `Statistics` by name


class Worker(Protocol):
    """One part of a running query: it takes every chunk, and answers for its part of the answers."""

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges) -> None:
        """Apply a chunk, also given as the view `tuples` of it; `delta` has the rows. Raises `MemoryLimitError`."""

    @property
    def has_rows(self) -> bool:
        """Whether `delta` is not empty."""

    def delta(self, *, before: int | None = None) -> Delta:
        """The rows of the last call, or those `before` a tuple of it; the next call overwrites them."""

    def advance(self, time: int) -> Delta:
        """Move the stream time without a tuple."""

    def load_static(self, chunk: Chunk) -> None:
        """Let edges be there that never leave, whatever the window holds; the next `load` tells what they bring as well."""

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> Delta:
        """Enter edges that expire at these absolute slides, an array for each window; what they bring is one event, now.

        Where they were in the window already (`quiet`) there are no rows.
        """

    def sweep(self) -> None:
        """Let go of everything that has left the window: after it no id of an edge that has left is used."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def _check(self) -> None:
        """Assert the invariants."""


_NO_VERTICES = np.zeros(0, np.int32)


class Host(Protocol):
    """What all queries of a kind share in one engine: it takes every chunk, once, and answers for all of them."""

    vertex_room: int
    """Vertex ids below can be used."""
    keeps_rows: bool
    """Whether rows are told. Where not, deltas may lack them, and only say how many there are."""

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Take in label ids with their names, before the queries do. O(labels)."""

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used, before the queries do; `fresh` ids are those of new names."""

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails) -> None:
        """Apply a chunk, also given as the view `tuples` of it; `deltas` has the rows. Raises `MemoryLimitError`.

        The chunk is the merged stream; `details` have what readers of named streams see, and which tuples are one event.
        """

    @property
    def has_rows(self) -> bool:
        """Whether `deltas` may not be empty."""

    def deltas(self, *, before: int | None = None) -> list[tuple[str, Delta]]:
        """The rows of the last call by the name of the query, or those `before` a tuple of it; for one call of it."""

    def advance(self, time: int) -> list[tuple[str, Delta]]:
        """Move the stream time without a tuple."""

    def sweep(self) -> None:
        """Let go of everything that has left the window: after it no id of an edge that has left is used."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def _check(self) -> None:
        """Assert the invariants."""


class Holder(Protocol):
    """What holds the workers of a query: the query itself, unless it shares them with others of its kind."""

    @property
    def workers(self) -> Sequence[Worker]:
        """As of `RunningQuery`, as all that follows but `jobs`."""

    @property
    def vertex_room(self) -> int:
        """Vertex ids below can be used."""

    @property
    def needs_room(self) -> bool:
        """Whether new vertex ids are to be told of."""

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Take in label ids with their names."""

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Which edges are read."""

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used."""

    def jobs(self, numbers: Mapping[str, int]) -> list[tuple[int, Any]]:
        """What takes chunks, each with the number of the query that it answers for, by the numbers of all names.

        With SEVERAL it is no `Worker` but like one, with `deltas(before=…)` in place of `delta`, which as its `advance`
        gives deltas behind the numbers of their queries. It is called again where others come, or numbers change.
        """


class RunningQuery(ABC):
    """A registered query while it runs."""

    question: Question
    """With its windows in the integers of the stream."""

    workers: Sequence[Worker]
    """One for each thread; none where there is a host."""

    vertex_room: int = 0
    """Vertex ids below can be used."""

    needs_room: bool = True
    """Whether new vertex ids are to be told of by `make_room` at all, after the first time; else its host is told."""
    report: Literal["change", "slide", "time"] = "change"
    """When its rows are told: with every change, or net at boundaries of its window, or of each moment. What it reports
    is every change in any case, of windows too; `rpq.running.reports` makes the others of that."""

    telling: Telling = "changes"
    """What of a report is told, if it does not tell every change."""

    has_first_rows: bool = False
    """Whether it has answers before the first tuple, of an empty graph: they are told with the time of that."""

    term_texts: Texts | None = None
    """Gives the terms of ids in its rows, where these are not all ids of vertices; its columns are typed then."""

    nets_events: bool = False
    """Whether what it reports is net of events of several tuples (`ChunkDetails.first`) already; else others see to that."""

    holds_vertices: bool = False
    """Whether it names vertices though no edge of the graph may: whether `held_vertices` and `retain` are for it."""

    is_divided: bool = False
    """Whether vertices differ in what they may be, so that every new one must be told of by `make_room`."""

    # --- who holds what it needs -----------------------------------------------------------------------------

    @property
    def holder(self) -> Holder:
        """What holds its workers: itself, or what it shares with others."""
        return self

    def jobs(self, numbers: Mapping[str, int]) -> list[tuple[int, Any]]:
        """Its workers with its number; see `Holder`."""
        return [(numbers[self.question.name], worker) for worker in self.workers]

    # --- what it reads ---------------------------------------------------------------------------------------

    @property
    def windows(self) -> tuple[AnyWindow, ...]:
        """The windows over which it reads edges: those of the question."""
        return windows_of(self.question)

    @abstractmethod
    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Take in label ids with their names, some of which are labels of named streams (`StreamLabel`). O(labels)."""

    @abstractmethod
    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Which edges it reads: (label id, window), boolean."""

    @abstractmethod
    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used; `fresh` ids are those of new names."""

    def count_from(self, numbers: Sequence[int]) -> None:
        """Let windows of count go on from these inserts, a number for each window; comes before `load`."""
        if any(window.kind == "count" for window in self.windows):
            raise NotImplementedError("queries of this kind have no windows of count")

    def load_static(self, chunk: Chunk) -> None:
        """Let edges be there that never leave, whatever the windows hold; the next `load` tells what they bring as well."""
        for worker in self.workers:
            worker.load_static(chunk)

    @property
    def has_content(self) -> bool:
        """Whether others hold all that its windows hold, so that `load` needs none of it."""
        return False

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        """Start at a time with these edges, as `Worker.load` has them; None where there never was one."""
        deltas = []
        for worker in self.workers:
            worker.advance(time)
            if chunk is not None:
                deltas.append(worker.load(chunk, *slides, quiet=quiet))
        return deltas

    def held_vertices(self) -> np.ndarray:
        """The ids of vertices that it names though no edge of the graph may: nobody else is given them."""
        return _NO_VERTICES

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        """The ids of terms, None for what is unbound: the inverse of `term_texts`."""
        raise NotImplementedError("its ids are those of vertices")

    def retain(self, waiting: np.ndarray) -> None:
        """Let go of ids of its own that are in nothing that it holds, nor among those that wait for a report."""
        return

    def leave(self) -> None:
        """Let go of what is held for this query alone, also by the host."""
        self.workers = ()

    # --- what it tells ---------------------------------------------------------------------------------------

    @abstractmethod
    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """For each window the absolute slides at which edges expire; at or below the current one where not held."""

    @abstractmethod
    def answers(self) -> list[IdRows]:
        """The answers now. O(size of the index)."""

    @abstractmethod
    def rows(self) -> np.ndarray:
        """Rows added and removed so far."""

    @abstractmethod
    def figures(self) -> Figures:
        """What was counted, and what is held. O(size of the index)."""

    has_witnesses: bool = True
    """Whether `witness` and `witnesses` can be asked; nobody asks others."""

    witnesses_are_of_now: bool = False
    """Whether `witnesses` looks for them in what holds when it is asked: after each tuple, then."""

    def witness(self, answer: tuple[int, ...], edges: Edges, vertices: VertexDictionary, labels: list[str]) -> Any:
        """What makes an answer, given as ids, one; None if it is none."""
        raise NotImplementedError(_NO_WITNESS)

    def witnesses(self, delta: Delta, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> pa.Array:
        """The witnesses of the rows of a delta, as texts; empty for rows that leave."""
        raise NotImplementedError(_NO_WITNESS)

    def explain(self) -> Any:
        """How it is evaluated, and what that took so far; None where the kind has nothing to tell beside its question."""
        return None

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        """Whether roots can go over a budget at all."""
        return False

    def take_overruns(self) -> list[Overrun]:
        """The roots that went over their budget since the last call."""
        return []

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        """The error that a root's going over its budget is, if the question wants one."""
        return None

    def set_aside(self) -> list[int]:
        """The roots that are set aside now."""
        return []

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        """Let a root that was set aside answer again; the rows by the name of the query, others than this one too."""
        return []

    # --- to go on later --------------------------------------------------------------------------------------

    @abstractmethod
    def saved(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        """What was counted and cannot be found again from the window, for JSON."""

    @abstractmethod
    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        """Go on from what `saved` gave. Calls `load` once, which lets the workers load the window. Raises `Damage`."""
