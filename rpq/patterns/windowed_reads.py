"""What one query that reads several windows or named streams holds in the host: relations, and verdicts on its tuples.

A running query that is evaluated over `PatternHost` keeps one of these. It says which edges and paths its atoms read, each
over one of its readings, and hands on what the protocol of a running query asks for: `reads`, `slides`, `count_from`,
`load_static`, `fill`, counts and figures. Its plans are its own business: `relation` gives the numbers of relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.errors import QueryError
from rpq.patterns.filled_relations import BYTES_AN_EDGE, fill
from rpq.patterns.path_relations import STATIC_ALONE, Need, PathContent, PathRelation, content_of
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.shared_relations import Content
from rpq.patterns.verdicts import NOT_HELD
from rpq.queries.readings import Reading
from rpq.stream.chunk import Chunk
from rpq.stream.window import UnboundedWindow


class EdgeRead(NamedTuple):
    """The edges of a label over one of the query's readings, by its number; None: the static edges, without a window."""

    label: str
    reading: int | None


class PathRead(NamedTuple):
    """The pairs that a non-empty path of an expression joins over one of the query's readings, and the roots needed.

    None in place of a reading: over the static edges, without a window.
    """

    expression: str
    reading: int | None
    need: Need | None = None


class WindowedReads:
    """The relations of one query, each over one of its `readings`, and what becomes of its tuples.

    `question` has a name and says how paths are meant (`paths`, `simple_budget`); with simple paths no relation of edges
    has loops. `origin` is 0, or what `PatternHost.new_origin` gave for a query that starts empty in mid-stream. `static`
    are the readings that are read beside the static edges: the default graph; others read their window alone.

    `enter` takes the relations, before plans are put in; `leave` gives them back, when plans are out.
    """

    def __init__(
        self,
        host: PatternHost,
        question: Any,
        readings: Sequence[Reading],
        reads: Sequence[EdgeRead | PathRead],
        *,
        origin: int = 0,
        static: Sequence[int] = (0,),
    ) -> None:
        self.readings = tuple(readings)
        self.origin = origin
        self._host = host
        self._question = question
        self._static = frozenset(static)
        self._contents: dict[EdgeRead | PathRead, Content | PathContent] = {
            read: self._content(read) for read in dict.fromkeys(reads)
        }
        self._key = (self.readings, origin)

    def _content(self, read: EdgeRead | PathRead) -> Content | PathContent:
        loopless = self._question.paths == "simple"
        if read.reading is None:
            if isinstance(read, EdgeRead):
                return Content(read.label, UnboundedWindow(), None, self.origin, loopless, STATIC_ALONE)
            return content_of(read.expression, self._question, self.origin, window=UnboundedWindow(), stream=STATIC_ALONE)
        reading = self.readings[read.reading]
        without_static = read.reading not in self._static
        if isinstance(read, EdgeRead):
            numbered = reading.labels if reading.window.kind == "count" else None
            return Content(read.label, reading.window, numbered, self.origin, loopless, reading.stream, without_static)
        return content_of(
            read.expression,
            self._question,
            self.origin,
            window=reading.window,
            numbered=reading.labels if reading.window.kind == "count" else None,
            stream=reading.stream,
            without_static=without_static,
        )

    # --- relations -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Take the relations and begin to judge tuples. O(labels) for those that are new."""
        for content in self._edge_contents:
            self._host.relations.take(content)
        for read, path in self._paths:
            self._host.paths.take(path, read.expression, self._question, read.need)
        self._verdicts = self._host.take_verdicts(self._key, self.readings)
        self._counted_before = self._verdicts.counts

    def leave(self) -> None:
        """Give the relations back."""
        self._host.release_verdicts(self._key)
        for read, path in self._paths:
            self._host.paths.release(path, self._question, read.need)
        for content in self._edge_contents:
            self._host.relations.release(content)

    def relation(self, read: EdgeRead | PathRead) -> int:
        """The number of a relation in the store: what an atom of a plan reads."""
        return self._host.number_of(self._contents[read])

    @property
    def contents(self) -> set[Content | PathContent]:
        """What the relations hold."""
        return {*self._contents.values()}

    @property
    def path_relations(self) -> list[PathRelation]:
        """The relations of paths, in the order in which they were asked for, each once."""
        return [self._host.paths[content] for content in dict.fromkeys(content for _, content in self._paths)]

    @property
    def _edge_contents(self) -> dict[Content, int | None]:
        """The relations of edges, each with one of the readings that it is over."""
        found: dict[Content, int | None] = {}
        for read, content in self._contents.items():
            if isinstance(content, Content):
                found.setdefault(content, read.reading)
        return found

    @property
    def _paths(self) -> list[tuple[PathRead, PathContent]]:
        return [
            (read, content)
            for read, content in self._contents.items()
            if isinstance(read, PathRead) and isinstance(content, PathContent)
        ]

    # --- what it reads ---------------------------------------------------------------------------------------

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Which edges are read: (label id, reading), boolean. It is the host that is told of labels, and tells this."""
        return self._verdicts.reads(labels)

    def count_from(self, numbers: Sequence[int]) -> None:
        """Let windows of count go on from these inserts, a number for each reading; comes before `fill`."""
        self._verdicts.count_from(numbers)
        for content, place in self._edge_contents.items():
            if place is not None and content.window.kind == "count":
                self._host.relations.set_number(content, numbers[place])
        for read, path in self._paths:
            if read.reading is not None:
                self._host.paths.count_from(path, numbers[read.reading])

    def load_static(self, chunk: Chunk) -> None:
        """Let edges be there that never leave, in the relations of the default graph.

        Raises `QueryError` where a path would run across them and the window of a named stream.
        """
        self._host.ask_for(BYTES_AN_EDGE * len(chunk.edge))
        for content, place in self._edge_contents.items():
            if place is None or place in self._static:
                mine = chunk.label == self._host.relations.label_id(content.label)
                self._host.relations.enter_static(content, chunk.source[mine], chunk.target[mine])
        for read, path in self._paths:
            if read.reading is None or read.reading in self._static:
                if read.reading is not None and path.stream is not None:
                    raise QueryError(
                        f"query {self._question.name!r}: the path {read.expression} over the default window, ON the "
                        f"stream {path.stream!r}, does not run across static edges yet: give the stream a window with a name"
                    )
                self._host.paths.load_static(path, chunk)

    def fill(self, chunk: Chunk, slides: Sequence[np.ndarray], *, is_checked: bool) -> None:
        """Let the relations that are empty have the edges that are theirs; others have them, as `is_checked`.

        `slides` are those at which the edges leave the window of each reading. The host's time is that of the stream already
        (`PatternHost.advance`). Nothing is enumerated. Raises `MemoryLimitError`, `Damage`.
        """
        now = self._verdicts.current_slides()
        for content, place in self._edge_contents.items():
            if place is None:
                continue
            mine = slides[place] > now[place]
            fill(self._host, content, chunk, mine, slides[place], is_checked=is_checked, query=self._question.name)
        for read, path in self._paths:
            mine = np.full(len(chunk.edge), NOT_HELD) if read.reading is None else slides[read.reading]
            self._host.paths.load(path, chunk, mine, is_checked=is_checked)
            self._host.settle(path)
        self._verdicts.load(chunk.edge, slides, chunk.label, is_checked=is_checked)

    # --- what it tells ---------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """For each reading the slides at which edges leave its window; one that has come where it does not hold them."""
        return self._verdicts.slides(edges)

    @property
    def counts(self) -> list[int]:
        """What became of the tuples since `enter`, in the order of `rpq.queries.protocol.COUNTS`: once a tuple."""
        counts: list[int] = (self._verdicts.counts - self._counted_before).tolist()
        return counts

    def set_counts(self, counts: Sequence[int]) -> None:
        """Go on counting from these, as a saved engine had them."""
        self._counted_before = self._verdicts.counts - np.array(counts, np.int64)

    @property
    def edges_live(self) -> int:
        """Edges that any of its windows holds, those of each stream apart. O(edges)."""
        return self._verdicts.edges_live()

    @property
    def cells(self) -> int:
        """Edges in its relations, and cells of the indexes of its paths."""
        edges = sum(self._host.store.edges_held(self._host.relations[content]) for content in self._edge_contents)
        return edges + sum(relation.index.live()[0] for relation in self.path_relations)
