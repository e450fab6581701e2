"""The protocol that every kind of query implements: what a running query is to the engine.

The evaluation (`rpq.engine.running`) turns names into ids, keeps the snapshot graph, moves the clock, and cuts the stream
into chunks. It knows no kind of query; what it needs of one stands here. Every chunk goes to all *workers*, which report
rows as columns of vertex ids (`rpq.rows.delta`), as many as the query has columns. Workers belong to a *part* of the engine:
a running query, or what several queries share. A part has a worker for each thread, each of which answers for some of the
answers, so that no two report the same row; or a single one.

To add a kind: a question (`Question`) for users to make, a `RunningQuery` with its `Worker`, and a `Kind` that binds
the two (`rpq.language.kinds`). `tests/engine/edge_query.py` is a small one: the edges of one label.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from rpq.automata.symbols import LabelSymbol
from rpq.errors import ConflictBudgetError, RowLimitError
from rpq.files.json_values import JsonValue
from rpq.language.pattern import Centre
from rpq.language.readings import LabelSet
from rpq.rows.changes import SetAside
from rpq.rows.delta import Delta, IdRows
from rpq.rows.typed_columns import Texts
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.snapshot import Edges, SnapshotGraph
from rpq.stream.stream_labels import LabelName
from rpq.stream.stream_time import windows_of
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import AnyWindow


class Division(NamedTuple):
    """A share (number, of how many) of all vertices, divided over threads.

    Vertices are divided by a hash of the name, which is the same in every process.
    """

    threads: int
    share: tuple[int, int]

    @property
    def is_whole(self) -> bool:
        """Whether there is one thread, and it has all vertices."""
        return self.threads * self.share[1] == 1

    def owned(self, hashes: np.ndarray) -> list[np.ndarray]:
        """Return for each thread which vertices are its own (boolean), by the hashes of their names."""
        # First by share, then by thread: what a share answers must not depend on the number of threads.
        rest, share = np.divmod(hashes, np.uint64(self.share[1]))
        thread = rest % np.uint64(self.threads)
        return [(share == self.share[0]) & (thread == number) for number in range(self.threads)]


MOST_ROWS = 10_000_000


class RowGuard:
    """The limit on the rows that one event may bring to one query, and the errors where it brings more.

    The evaluation counts reported rows; a kind of query that can tell earlier that there will be too many raises `error`
    itself, so that they are not all computed first.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.most = sys.maxsize if limit is None else limit
        self.row: int | None = 0
        """The row of the push at which the chunk begins; None while time alone moves."""
        self.places: np.ndarray | None = None
        """For each edge of the chunk the tuple that it is of, if these differ."""

    def error(self, query: str, number: int, *, place: int) -> RowLimitError:
        """Return the error for tuple `place` of the chunk, which brings `number` rows to a query, or more."""
        row = None if self.row is None else self.row + (place if self.places is None else int(self.places[place]))
        return self._error(query, number, row, "moving the time" if row is None else f"tuple {row} of the batch", _GO_ON)

    def refusal(self, query: str, number: int) -> RowLimitError:
        """Return the error for a query that would begin with `number` rows, or more."""
        return self._error(query, number, None, "registering it", "It is not registered; the engine can be used on.")

    def _error(self, query: str, number: int, row: int | None, what: str, afterwards: str) -> RowLimitError:
        assert self.limit is not None
        return RowLimitError(
            f"query {query!r}: {what} would bring {number:,} rows at once, if not more; the limit is {self.limit:,}. "
            f"Restrict the query, take a smaller window, or raise max_rows. {afterwards}",
            query=query,
            row=row,
            number=number,
            limit=self.limit,
        )


_GO_ON = (
    "The rows of all tuples before are delivered, of this one none; the engine takes no further tuples: go on from a saved "
    "state with Engine.restore(…, max_rows=…)"
)


Guard = Callable[[int, int], None]
"""Called with the bytes that a worker is about to need and its place in the chunk; raises where that is too much."""

ReportContent = Literal["changes", "enter", "leave", "whole"]
"""The content of a report: what has changed since the last one, of that what enters or leaves, or the whole answer."""


class Question(Protocol):
    """The question of a user.

    One that reads several windows, or named streams, also has `readings`, a tuple of `Reading` (`rpq.language.readings`), an
    entry a window; the `windows`, `reads` and `slides` of its `RunningQuery` have theirs in the same order. Where one of
    its windows may be in durations it has `in_unit(unit)`, the same question with windows in that unit. Its `label_set`
    is that of no window, and not asked for. One that has no use for some edges of a label that it reads has
    `accepts(label)`, which returns those that it has (`rpq.stream.edge_ends`).
    """

    @property
    def name(self) -> str:
        """The name of the query, by which rows and calls refer to it."""

    @property
    def window(self) -> AnyWindow:
        """The window that it is asked over; of one with `readings` its default one, whose boundaries reports are at."""

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
        """The labels that it reads, those that it does not name too: a count window numbers their inserts."""

    @property
    def centre(self) -> Centre | None:
        """The column around which its rows lie, by which Spark divides it with all that it reads; else by its rows alone."""

    def over(self, window: AnyWindow) -> Self:
        """Return the same question over another window."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a query that starts: how its work is divided, and what it may use."""

    threads: int
    share: tuple[int, int]  # number, of how many
    witness: bool
    capacity: int
    guard: Guard
    rows: RowGuard = field(default_factory=lambda: RowGuard(None))
    host: Any = None  # the part that the kind's `host` made, for all its queries in the engine
    events: Literal["window", "alone"] | None = None  # whether events have several tuples, and each is answered by itself
    sharing: Literal["auto", "always", "never"] = "auto"  # whether queries share work that none needs alone
    is_late: bool = False  # whether it starts with an empty window in mid-stream, where others hold more
    shared: dict[Hashable, Any] = field(default_factory=dict)  # parts that queries share, by keys: theirs to fill


class Overrun(NamedTuple):
    """A root that was set aside: at tuple `place` of the chunk (-1: none), at a stream time, having taken `size` nodes."""

    place: int
    root: int
    time: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The counts of one running query, and what it holds now; `counts` are in the order of `rpq.stream.outcomes.Outcome`."""

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
    """An object that processes the chunks of a stream, for one query or for all queries that share it."""

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        """Apply a chunk, also given as the view `tuples` of it; `deltas` has the rows. Raises `LimitError`.

        The chunk is the merged stream; `details` have what readers of named streams see, and which tuples are one event.
        """

    def advance(self, time: int) -> Any:
        """Move the stream time without a tuple; `deltas` has the rows."""

    @property
    def has_rows(self) -> bool:
        """Whether `deltas` may not be empty."""

    def deltas(self, numbers: Mapping[str, int], *, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows of the last call, or those `before` a tuple of it, each delta with the number of its query.

        `numbers` has the numbers of all queries by name; it is another object if a number has changed. The number beside a
        delta that has numbers of its own (`Delta.numbers`) has no meaning. To be called at most once for each chunk.
        """

    def sweep(self) -> None:
        """Release everything that has left the window: after it no id of an edge that has left is used."""

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""

    def _check(self) -> None:
        """Assert the invariants."""


_NO_VERTICES = np.zeros(0, np.int32)


class Part(Protocol):
    """A part of an engine: a running query, or what several queries share."""

    @property
    def workers(self) -> Sequence[Worker]:
        """Its workers, a part of whose answers each reports."""

    @property
    def vertex_room(self) -> int:
        """The number below which vertex ids can be used."""

    @property
    def needs_room(self) -> bool:
        """Whether `make_room` is called for new vertex ids, after the first time; else another part knows them."""

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Add label ids with their names, some of which are labels of named streams (`StreamLabel`). O(labels)."""

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `fresh` ids are those of new names."""


class RunningQuery(ABC):
    """A registered query while it runs: a `Part`, unless another one does all the work for it."""

    question: Question
    """The query, with its windows in the integers of the stream."""

    workers: Sequence[Worker] = ()
    vertex_room: int = 0
    needs_room: bool = True

    report: Literal["change", "slide", "time"] = "change"
    """When users get the rows of the query: with every change, or net at boundaries of its window, or of each moment. The
    query itself reports every change in any case, from which `rpq.engine.running.reports` forms the others."""

    report_content: ReportContent = "changes"
    """The content of the reports of the query, where users do not get every change."""

    has_first_rows: bool = False
    """Whether there are answers before the first tuple, of an empty graph, which are reported with its time."""

    term_texts: Texts | None = None
    """Returns the terms of ids in rows, where these are not all ids of vertices; the columns are typed then."""

    nets_events: bool = False
    """Whether deltas are net of events of several tuples (`ChunkDetails.first`) already; else the evaluation nets them."""

    holds_vertices: bool = False
    """Whether the query may name vertices that no edge of the graph names, for which it has `retained_vertices`."""

    is_divided: bool = False
    """Whether the query treats vertices differently, so that `make_room` is called for every new one."""

    @property
    def part(self) -> Part:
        """The part that takes labels, vertices and chunks: the query itself, or what it shares with others."""
        return self

    # --- what it reads ---------------------------------------------------------------------------------------

    @property
    def windows(self) -> tuple[AnyWindow, ...]:
        """The windows over which the query reads edges: those of the question."""
        return windows_of(self.question)

    @abstractmethod
    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Add label ids with their names, some of which are labels of named streams (`StreamLabel`). O(labels)."""

    @abstractmethod
    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return which edges the query reads: (label id, window), boolean."""

    @abstractmethod
    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Make room for the ids of the dictionary and the graph; `fresh` ids are those of new names."""

    def count_from(self, numbers: Sequence[int]) -> None:
        """Set the inserts from which count windows go on, a number for each window; comes before `load`."""
        if any(window.kind == "count" for window in self.windows):
            raise NotImplementedError("queries of this kind have no windows of count")

    @abstractmethod
    def load_static(self, chunk: Chunk) -> None:
        """Add edges that never leave, whatever the windows hold; the next `load` reports what they bring as well."""

    @property
    def has_content(self) -> bool:
        """Whether other queries have loaded all that the windows hold, so that `load` needs no edges."""
        return False

    @abstractmethod
    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        """Start at a time with these edges, which leave at absolute slides, an array for each window; return the rows.

        What the edges bring is one event, now; where they were in the window already (`quiet`) there are no rows. The chunk
        is None where there never was a tuple.
        """

    def retained_vertices(self) -> np.ndarray:
        """Return the ids of vertices that the query names, though no edge may; no other vertex gets such an id."""
        return _NO_VERTICES

    def ids_of_terms(self, texts: Sequence[str | None]) -> np.ndarray:
        """Return the ids of terms, None for what is unbound: the inverse of `term_texts`."""
        raise NotImplementedError("its ids are those of vertices")

    def retain(self, waiting: np.ndarray) -> None:
        """Release ids that the query made and no longer holds, unless they are among those that wait for a report."""
        return

    def leave(self) -> None:
        """Release what is held for this query alone, also by parts that it shares."""
        self.workers = ()

    # --- what it reports -------------------------------------------------------------------------------------

    @abstractmethod
    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """Return for each window the absolute slides at which edges expire; at or below the current one where not held."""

    @abstractmethod
    def answers(self) -> list[IdRows]:
        """Return the answers now. O(size of the index)."""

    @abstractmethod
    def rows(self) -> np.ndarray:
        """Return the numbers of rows added and removed so far."""

    @abstractmethod
    def figures(self) -> Figures:
        """Return the counts and sizes of the query. O(size of the index)."""

    has_witnesses: bool = True
    """Whether `witness` and `witnesses` can be called."""

    witnesses_are_of_now: bool = False
    """Whether `witnesses` finds those of the present only, so that it has to be called after each tuple."""

    def witness(self, answer: tuple[int, ...], edges: Edges, vertices: VertexDictionary, labels: list[str]) -> Any:
        """Return one witness of an answer, which is given as ids; None if it is no answer."""
        raise NotImplementedError("queries of this kind have no witnesses")

    def witnesses(self, delta: Delta, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> pa.Array:
        """Return the witnesses of the rows of a delta, as texts; empty for rows that leave."""
        raise NotImplementedError("queries of this kind have no witnesses")

    def explain(self) -> Any:
        """Return how the query is evaluated, and its cost so far; None where the kind has nothing to explain."""
        return None

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        """Whether roots can go over a budget at all."""
        return False

    def take_overruns(self) -> list[Overrun]:
        """Return the roots that went over their budget since the last call."""
        return []

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        """Return the error that a root's going over its budget is, if the question wants one."""
        return None

    def set_aside(self) -> list[int]:
        """Return the roots that are set aside now."""
        return []

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        """Restore a root that was set aside; return the rows by the name of the query, others than this one too."""
        return []

    # --- to go on later --------------------------------------------------------------------------------------

    @abstractmethod
    def saved(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        """Return the counts that cannot be computed again from the window, as JSON values."""

    @abstractmethod
    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        """Go on from what `saved` gave. Calls `load` once, which lets the workers load the window. Raises `Damage`."""
