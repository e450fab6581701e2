"""The protocol that every kind of query implements: what a running query is to the engine.

The evaluation (`rpq.engine.running`) converts names to ids, maintains the snapshot graph, moves the clock, and cuts the
stream into chunks. It is independent of the kinds of queries and uses them only through this protocol. Every chunk is
applied by all *workers*, which report rows as columns of vertex ids (`rpq.rows.delta`), one for each column of the query.
Workers belong to a *part* of the engine: a running query, or data structures that several queries share. A part has one
worker, or one for each thread; each is responsible for some of the answers, so that no two report the same row.

A kind of query consists of a question (`Question`), which users create, a `RunningQuery` with its `Worker`, and a `Kind`
(`rpq.language.kinds`) that binds the two. `tests/engine/kinds/edge_query.py` is a small example: the edges of one label.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_bytes
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from rpq.automata.symbols import LabelSymbol
from rpq.errors import ConflictBudgetError, QueryError, RowLimitError
from rpq.language.hypercube import Hypercube, Share
from rpq.language.readings import LabelSet
from rpq.rows.blocks import witness_array
from rpq.rows.changes import SetAside
from rpq.rows.delta import Delta, IdRows, Position, rows_after
from rpq.rows.typed_columns import Texts
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.edge_times import EdgeTimes
from rpq.stream.edges.edge_values import ValuesOf
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.json_values import JsonValue
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.stream_time import windows_of
from rpq.stream.window import AnyWindow


class Division(NamedTuple):
    """A share of all vertices (its number, and the number of shares), divided over threads.

    Vertices are divided by a hash of the name, which is the same in every process.
    """

    threads: int
    share: Share

    @property
    def is_whole(self) -> bool:
        """True if a single thread owns all vertices."""
        return self.threads * self.share[1] == 1

    def ownership(self, hashes: np.ndarray) -> list[np.ndarray]:
        """Return a boolean array for each thread: the vertices that it owns, by the hashes of their names."""
        # First by share, then by thread: the answers of a share must not depend on the number of threads.
        rest, share = np.divmod(hashes, np.uint64(self.share[1]))
        thread = rest % np.uint64(self.threads)
        return [(share == self.share[0]) & (thread == number) for number in range(self.threads)]


MAX_ROWS = 10_000_000
_FOUND_ROWS = 4
"""The rows that an event may find before they are netted, as a multiple of the limit."""


class RowGuard:
    """The limit on the rows that one event may bring to one query, and the errors for exceeding it.

    The evaluation counts reported rows. A kind of query that notices an excess earlier raises `error` itself, before it
    computes all rows.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.effective_limit = sys.maxsize if limit is None else limit
        self.found_limit = _FOUND_ROWS * self.effective_limit
        """The number of rows above which a tuple is refused although some of them may cancel out."""
        self.row: int | None = 0
        """The row of the push at which the chunk begins; None while time alone moves."""
        self.places: np.ndarray | None = None
        """The tuple of each edge of the chunk; None if every edge is a tuple of its own."""

    def error(self, query: str, number: int, *, place: int) -> RowLimitError:
        """Return the error for tuple `place` of the chunk, which brings at least `number` rows to a query."""
        row = None if self.row is None else self.row + (place if self.places is None else int(self.places[place]))
        return self._error(query, number, row, "moving the time" if row is None else f"tuple {row} of the batch", _GO_ON)

    def refusal(self, query: str, number: int) -> RowLimitError:
        """Return the error for a query that would begin with at least `number` rows."""
        return self._error(query, number, None, "registering it", "It is not registered; the engine remains usable.")

    def report_error(self, query: str, number: int) -> RowLimitError:
        """Return the error for a report of at least `number` rows that is made before it is due."""
        return self._error(query, number, None, "its next report", "Nothing has changed; the engine remains usable.")

    def _error(self, query: str, number: int, row: int | None, what: str, afterwards: str) -> RowLimitError:
        assert self.limit is not None
        return RowLimitError(
            f"query {query!r}: {what} would bring {number:,} rows or more at once; the limit is {self.limit:,}. "
            f"Restrict the query, take a smaller window, or raise max_rows (--max-rows). {afterwards}",
            query=query,
            row=row,
            number=number,
            limit=self.limit,
        )


_GO_ON = (
    "The rows of all earlier tuples have been delivered, and none of this one; the engine accepts no further tuples: "
    "continue from a saved state with Engine.restore(…, max_rows=…), or a run from its --checkpoint"
)


Guard = Callable[[int, int], None]
"""A function that is called with the bytes that a worker is about to allocate, besides those that it has, and its place in
the chunk. It may raise. It is called with `OUT_OF_TIME` in place of bytes where kernels have returned because the deadline
has passed, and with `SUM_TOO_LARGE` where the sum of an answer does not fit into 64 bits, or `PATH_TOO_LONG` where a path in
order has too many edges to count: then it does raise."""

OUT_OF_TIME = -1
SUM_TOO_LARGE = -2
PATH_TOO_LONG = -3

ROW_COPIES = 2
"""The copies of the rows of a chunk that exist at once, besides those of the worker, while ids become names."""

ReportContent = Literal["changes", "enter", "leave", "whole"]
"""The rows of a report: all changes since the last report, only those that enter or leave, or the whole answer."""


class Question(Protocol):
    """A question of a user.

    A question that reads several windows or named streams also has `readings`, a tuple of `Reading`
    (`rpq.language.readings`) with one entry for each window. The `windows`, `reads` and `slides` of its `RunningQuery` have
    the same order, and its `label_set` is not used. If a window may be in durations, the question has `in_unit(unit)`,
    which returns the same question with windows in that unit. A question that does not need all edges of a label has
    `accepts(label)`, which returns the ends of those that it needs (`rpq.stream.edges.edge_ends`). A question that reports
    at boundaries of other windows than `window` has `report_windows`.
    """

    @property
    def name(self) -> str:
        """The name of the query, which identifies it in rows and calls."""

    @property
    def window(self) -> AnyWindow:
        """The window of the query; with `readings` the default window."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of its rows."""

    @property
    def labels(self) -> frozenset[LabelSymbol] | None:
        """All labels that it can read; None where it reads some that it does not name."""

    def reads(self, label: LabelSymbol) -> bool:
        """Return whether edges of a label can matter to it."""

    @property
    def label_set(self) -> LabelSet:
        """The labels that it reads, named or not; a count window numbers inserts with these labels."""

    @property
    def hypercube(self) -> Hypercube | None:
        """The division of the query among shares by its variables; None if they divide roots, or the first has all rows."""

    def over(self, window: AnyWindow) -> Self:
        """Return the same question over another window."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a new running query: the division of its work, limits, and parts to share."""

    threads: int
    share: Share
    witness: bool
    capacity: int
    guard: Guard
    deadline: np.ndarray | None = None  # the tick after which kernels return, and call the guard
    rows: RowGuard = field(default_factory=lambda: RowGuard(None))
    host: Any = None  # the part that the kind's `host` created for all queries of the kind in the engine
    events: Literal["window", "alone"] | None = None  # the kind of events of several tuples, if there are any
    sharing: Literal["auto", "always", "never"] = "auto"  # whether queries share work that none of them needs alone
    is_late: bool = False  # whether it starts with an empty window while those of other queries hold edges
    shared: dict[Hashable, Any] = field(default_factory=dict)  # parts that queries share, by keys; queries add them


class Overrun(NamedTuple):
    """A root that was set aside: at tuple `place` of the chunk (-1: none), at a time, after expanding `size` nodes."""

    place: int
    root: int
    time: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The counts and present sizes of one running query; `counts` are in the order of `stream.edges.outcomes.Outcome`."""

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
    """An object that applies the chunks of a stream, for one query or for several that share it."""

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        """Apply a chunk, whose view for kernels is `tuples`; `deltas` then returns its rows. Raises `LimitError`.

        The chunk is the merged stream; `details` contain the tuples of named streams, and the events of several tuples.
        """

    def advance(self, time: int) -> Any:
        """Move the stream time without a tuple; `deltas` then returns the rows."""

    @property
    def has_rows(self) -> bool:
        """False if `deltas` is certainly empty."""

    def deltas(self, numbers: Mapping[str, int], *, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows of the last call, or those `before` one of its tuples, each delta with the number of its query.

        `numbers` maps the names of all queries to numbers; it is a new object whenever a number has changed. The number of a
        delta with numbers of its own (`Delta.numbers`) is ignored. Call this at most once for each chunk.
        """

    def sweep(self) -> None:
        """Release everything that has left the window. Afterwards, ids of such edges are no longer used."""

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""

    def _check(self) -> None:
        """Assert the invariants."""


_NO_VERTICES = np.zeros(0, np.int32)


class EnginePart(Protocol):
    """A part of an engine: a running query, or data structures that several queries share."""

    @property
    def workers(self) -> Sequence[Worker]:
        """The workers, each of which reports some of the answers."""

    @property
    def vertex_room(self) -> int:
        """The number of vertex ids for which there is room."""

    @property
    def needs_room(self) -> bool:
        """True if `make_room` is called for all new vertex ids, not only the first time."""

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Add label ids with their names, some of which are labels of named streams (`StreamLabel`). O(labels)."""

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `new_ids` are those of new names."""


class PresentGraph(NamedTuple):
    """The edges of the windows with their names, in which witnesses are found."""

    edges: Edges
    vertices: VertexDictionary
    labels: list[str]
    values: ValuesOf | None = None
    """A function that returns the values of edges; None if witnesses contain none."""


class RunningQuery(ABC):
    """A registered query: a `EnginePart`, unless another part evaluates it."""

    question: Question
    """The query, with its windows in the integers of the stream."""

    workers: Sequence[Worker] = ()
    vertex_room: int = 0
    needs_room: bool = True

    report: Literal["change", "slide", "time"] = "change"
    """The time at which users receive rows: with every change, or net at boundaries of the window, or net at each instant.
    The query always reports every change; `rpq.engine.running.reports` derives the other reports."""

    report_content: ReportContent = "changes"
    """The content of the reports, if `report` is not "change"."""

    has_first_rows: bool = False
    """True if there are answers over an empty graph, which are reported with the time of the first tuple."""

    term_texts: Texts | None = None
    """The terms of ids in rows, if not all of them are ids of vertices; columns then have types."""

    nets_events: bool = False
    """True if deltas are net within events of several tuples (`ChunkDetails.first`); otherwise the evaluation nets them."""

    holds_vertices: bool = False
    """True if the query may name vertices without edges, which `retained_vertices` returns."""

    is_divided: bool = False
    """True if the query distinguishes vertices by their names, so that `make_room` is called for every new one."""

    @property
    def part(self) -> EnginePart:
        """The part that receives labels, vertices and chunks: the query itself, or one that it shares with other queries."""
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows: those of the question, perhaps with types that only the stream determines."""
        columns: tuple[str, ...] = self.question.columns
        return columns

    # --- input -----------------------------------------------------------------------------------------------

    @property
    def windows(self) -> tuple[AnyWindow, ...]:
        """The windows over which the query reads edges: those of the question."""
        return windows_of(self.question)

    @abstractmethod
    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Add label ids with their names, some of which are labels of named streams (`StreamLabel`). O(labels)."""

    @abstractmethod
    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return a boolean array (label, window): the labels whose edges the query reads over each window."""

    @abstractmethod
    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `new_ids` are those of new names."""

    def count_from(self, numbers: Sequence[int]) -> None:
        """Set the number of inserts so far for each count window. Called before `load`."""
        if any(window.kind == "count" for window in self.windows):
            raise NotImplementedError("queries of this kind have no windows of count")

    @abstractmethod
    def load_static(self, chunk: Chunk) -> None:
        """Add edges that never leave. The next `load` also reports the answers that they bring."""

    @property
    def has_content(self) -> bool:
        """True if other queries have loaded all edges of the windows, so that `load` needs none."""
        return False

    @abstractmethod
    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        """Start at a time with the edges of the windows. Return the rows.

        `slides` contain for each window the absolute slides at which the edges leave it. The rows are one event at `time`;
        with `quiet` there are none, because they were reported before. The chunk is None if the stream has had no tuple.
        """

    def retained_vertices(self) -> np.ndarray:
        """Return the ids of vertices that the query needs even if they have no edges; these ids are not reused."""
        return _NO_VERTICES

    def texts_of_terms(self, ids: np.ndarray) -> list[str | None]:
        """Return the terms of ids in saved states, from which `ids_of_terms` returns the ids."""
        assert self.term_texts is not None
        return self.term_texts.texts(ids)

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        """Return the ids of terms, the inverse of `texts_of_terms`; None is an unbound variable. Raises `Damage`."""
        raise NotImplementedError("its ids are those of vertices")

    def retain(self, waiting: np.ndarray) -> None:
        """Release ids of terms that the query created and no longer uses, except those of `waiting` rows."""
        return

    def leave(self) -> None:
        """Release everything that only this query uses, also in parts that it shares."""
        self.workers = ()

    # --- output ----------------------------------------------------------------------------------------------

    @abstractmethod
    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """Return for each window the absolute slides at which edges leave it; a past one if they are outside."""

    @abstractmethod
    def answers(self) -> list[IdRows]:
        """Return the present answers. O(size of the index)."""

    def page(
        self, after: Position | None, limit: int, *, source: int | None = None, target: int | None = None
    ) -> tuple[IdRows, Position | None]:
        """Return the first `limit` answers behind a position, in the order of ids, and the next position; None at the end.

        The ends of paths, if they are given, are vertices, or -1 for a name without a vertex. Only path queries have ends.
        O(answers), without their names, unless a kind of queries finds fewer.
        """
        return self.page_of(self.answers(), after, limit, source=source, target=target)

    def page_of(
        self,
        parts: Sequence[IdRows],
        after: Position | None,
        limit: int,
        *,
        source: int | None = None,
        target: int | None = None,
    ) -> tuple[IdRows, Position | None]:
        """Return a page of some answers, as `page` does of all."""
        if source is not None or target is not None:
            name, columns = self.question.name, ", ".join(self.columns)
            raise QueryError(f"query {name!r}: source and target select answers of path queries; its columns are {columns}")
        rows, position = rows_after(
            np.concatenate([ids_of.reorder(parts[0].order).values for ids_of in parts]), after, limit
        )
        return IdRows(rows, parts[0].order), position

    @cached_property
    def cursor_key(self) -> bytes:
        """A random key that signs positions in the answers of this query, which have a meaning only for it."""
        return token_bytes(16)

    @abstractmethod
    def rows(self) -> np.ndarray:
        """Return the numbers of rows added and removed so far."""

    @abstractmethod
    def figures(self) -> Figures:
        """Return the counts and sizes of the query. O(size of the index)."""

    has_witnesses: bool = True
    """True if `witness` and `witnesses` can be called."""

    def ids_of_answer(self, values: Sequence[Any], vertices: VertexDictionary) -> tuple[int, ...] | None:
        """Return the ids of the values of an answer; None if there cannot be such an answer. Times are integers."""
        ids = tuple(map(vertices.id_of, values))
        return None if min(ids, default=0) < 0 else ids

    witnesses_are_of_now: bool = False
    """True if `witnesses` finds only witnesses in the present graph, so that it has to be called after each tuple."""

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Any:
        """Return one witness of an answer, which is a row of ids (`ids_of_answer`); None if it is no answer."""
        raise NotImplementedError("queries of this kind have no witnesses")

    def witnesses(self, delta: Delta, graph: PresentGraph, edge_times: EdgeTimes | None = None) -> pa.Array:
        """Return the witnesses of the rows of a delta (`witness_array`), none for rows that leave.

        `edge_times` are those of the edges at each tuple; without them they are those of the graph.
        """
        is_added = np.repeat(delta.kinds > 0, delta.lengths()).tolist()
        return witness_array([
            self.witness(row, graph) if added else None
            for row, added in zip(delta.as_lists(), is_added, strict=True)
        ])  # fmt: skip

    def explain(self) -> Any:
        """Return how the query is evaluated, and its cost so far; None if its kind has no explanation."""
        return None

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        """True if roots can exceed a budget."""
        return False

    def pop_overruns(self) -> list[Overrun]:
        """Return the roots that have exceeded their budget since the last call."""
        return []

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        """Return the error for a root that exceeded its budget, or None if the question only sets it aside."""
        return None

    def set_aside(self) -> list[int]:
        """Return the roots that are set aside now."""
        return []

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        """Restore a root that was set aside. Return the rows of this query and of others that share it, by name."""
        return []

    # --- saved states ----------------------------------------------------------------------------------------

    @abstractmethod
    def to_state(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        """Return the counts that cannot be recomputed from the window, as JSON values."""

    @abstractmethod
    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        """Continue from `to_state`. Calls `load` once, so that the workers load the window. Raises `Damage`."""
