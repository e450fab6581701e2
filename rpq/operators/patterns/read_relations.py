"""Relations that a running query reads: filling them, counting its tuples, and releasing them.

`ReadRelations` serves a pattern, with one window and no streams, `WindowedReads` a query that reads several windows or named
streams. Both take relations of labels and of paths from the host and fill them with the edges of a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.automata.symbols import LabelSymbol
from rpq.errors import QueryError
from rpq.language.query import PatternQuery
from rpq.language.readings import LabelSet, Reading
from rpq.operators.patterns.meanings import DirectedAtom, MeaningEdge, Neighbours, PathRead, Roots
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.relations.path_relations import Need, PathContent, PathRelation, content_of
from rpq.operators.patterns.relations.shared_relations import RelationKey
from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import IRRELEVANT, NOT_HELD, WindowMembership
from rpq.stream.edges.parallel_edges import youngest_of_parallel
from rpq.stream.edges.snapshot import Edges
from rpq.stream.names.stream_labels import (
    STATIC_ALONE,
    LabelName,
    NodeLabel,
    graph_of,
    is_static_stream,
    name_in,
    stream_of_graph,
)
from rpq.stream.window import UnboundedWindow

BYTES_AN_EDGE = 100
"""The approximate size of an edge: its record, and its entries in the hash table and in two lists."""


def fill(
    host: PatternHost,
    content: RelationKey,
    chunk: Chunk,
    is_selected: np.ndarray,
    slides: np.ndarray,
) -> None:
    """Fill an empty relation with those edges of a chunk that have its label and that `is_selected` marks.

    Other patterns have filled a relation that has edges. `slides` are those at which the edges leave. Raises
    `MemoryLimitError`. O(edges).
    """
    if host.store.current_edges(host.relations[content]):
        return
    is_selected = is_selected & host.relations.edges_of(content, chunk)
    expires = slides[is_selected]
    host.request_bytes(BYTES_AN_EDGE * len(expires))
    host.relations.fill(content, chunk, is_selected, expires)


class DerivedPath(NamedTuple):
    """A path of a pattern: the labels that it reads, the content of its relation, and its roots."""

    read: PathRead
    content: PathContent
    need: Need | None


class ReadRelations:
    """The relations that the atoms of one pattern read: over its window, and those of facts of nodes, which have none.

    `RunningPattern` determines what is joined and reported; this class takes the relations from the host, fills them and
    counts tuples. `origin` is the host's number for queries that count edges from the same moment; `coordinates` are those
    of the share (number, of how many) by variable.
    """

    def __init__(
        self,
        question: PatternQuery,
        atoms: Sequence[DirectedAtom],
        host: PatternHost,
        *,
        origin: int,
        coordinates: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self._question = question
        self._host = host
        self._labels = sorted({atom.reads for atom in atoms if not isinstance(atom.reads, PathRead)})
        self._paths = list(dict.fromkeys(atom.reads for atom in atoms if isinstance(atom.reads, PathRead)))
        coordinates = coordinates or {}
        self._coordinates: dict[PathRead, list[tuple[int, int] | None]] = {}
        """For each path the coordinates of its roots in this share, one for each atom; None for an atom that needs all."""
        for atom in atoms:
            if isinstance(atom.reads, PathRead):
                name = atom.source_variable
                coordinates_of_read = self._coordinates.setdefault(atom.reads, [])
                coordinates_of_read.append(None if name is None else coordinates.get(name))
        self._is_counted = question.window.kind == "count"
        self._derived_paths: list[DerivedPath] = []
        self.origin = origin
        is_loopless = question.paths == "simple"
        self._atom_contents = [self._content(label, loopless=is_loopless) for label in self._labels]
        """The contents of the relations that atoms read."""
        labels = [label for label in self._labels if not isinstance(label, NodeLabel)]
        self._counting_contents = [] if self._paths else [self._content(label) for label in labels]
        """For each label the content of the relation that counts tuples, with all edges in the window; none with paths."""
        self._of_edges = {*self._counting_contents, *self._atom_contents}

    # --- contents --------------------------------------------------------------------------------------------

    def _content(self, label: LabelSymbol, *, loopless: bool = False) -> RelationKey:
        if isinstance(label, NodeLabel):
            return RelationKey(label, UnboundedWindow())
        return RelationKey(label, self._question.window, self._numbered_labels, self.origin, loopless)

    @property
    def _numbered_labels(self) -> LabelSet | None:
        """The labels whose inserts a count window numbers; None for other windows."""
        return self._question.label_set if self._is_counted else None

    @property
    def contents(self) -> set[RelationKey | PathContent]:
        """The contents of all relations."""
        return {*self._of_edges, *self.path_contents}

    @property
    def path_contents(self) -> set[PathContent]:
        """The contents of the relations of paths."""
        return {derived.content for derived in self._derived_paths}

    @property
    def contents_by_read(self) -> dict[LabelSymbol | PathRead, RelationKey | PathContent]:
        """The content of the relation for each label or path that an atom reads."""
        contents: dict[LabelSymbol | PathRead, RelationKey | PathContent] = {}
        contents |= {content.label: content for content in self._atom_contents if content.label is not None}
        return contents | {derived.read: derived.content for derived in self._derived_paths}

    @property
    def reads_by_content(self) -> dict[RelationKey | PathContent, LabelSymbol | PathRead]:
        """The label or path of each content."""
        reads: dict[RelationKey | PathContent, LabelSymbol | PathRead] = {}
        reads |= {content: content.label for content in self._atom_contents if content.label is not None}
        return reads | {derived.content: derived.read for derived in self._derived_paths}

    @property
    def path_relations(self) -> list[PathRelation]:
        """The relations of its paths, in the order in which the pattern has them."""
        return [self._host.paths[derived.content] for derived in self._derived_paths]

    @property
    def relations_by_path(self) -> dict[PathRead, PathRelation]:
        """The relation of each path that is read."""
        return {derived.read: self._host.paths[derived.content] for derived in self._derived_paths}

    def relation_of(self, edge: MeaningEdge) -> int:
        """Return the number of the relation in the host that an atom reads, which is given as an edge of a meaning."""
        _, read, _ = edge
        if isinstance(read, PathRead):
            return self.relations_by_path[read].number
        return self._host.relations[self._content(read, loopless=self._question.paths == "simple")]

    def _needs(self, read: PathRead) -> set[Need | None]:
        """Return the roots that the atoms of a path need, less those that other shares have."""
        need, coordinates = self._need(read.roots), self._coordinates[read]
        if None in coordinates:
            return {need}
        return {(need or Need(None))._replace(coordinate=coordinate) for coordinate in coordinates}

    def _need(self, roots: Roots) -> Need | None:
        if isinstance(roots, Neighbours):
            content = self._content(roots.label, loopless=self._question.paths == "simple")
            return Need(roots.names, content, roots.inward)
        return None if roots is None else Need(roots)

    @property
    def _key(self) -> tuple[object, ...]:
        """The key of its window in the host."""
        return self._question.window, self._numbered_labels, self.origin

    @property
    def _membership(self) -> WindowMembership:
        """The membership in its window, which counts tuples where there are path atoms.

        A path atom reads several labels, which other atoms may read too, and may not know them in advance.
        """
        return self._host.membership(self._key)

    @property
    def _reader(self) -> tuple[object, ...]:
        """The key of its labels in the membership."""
        return (*self._labels, *(derived.content.words for derived in self._derived_paths))

    # --- taking and releasing --------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Acquire the relations of the host."""
        for content in self._of_edges:
            self._host.relations.acquire(content)
        self._derived_paths = [
            DerivedPath(read, content_of(read.expression, self._question, self.origin, order=read.order), need)
            for read in self._paths
            for need in self._needs(read)
        ]
        for read, pairs, need in self._derived_paths:
            self._host.paths.take(pairs, read.expression, self._question, need)
        if self._paths:
            reading = Reading(self._question.window, self._question.label_set)
            self._host.acquire_membership(self._key, [reading], self._reader, is_fixed=False)
            self.set_labels(self._host.relations.labels()[0])
        self._counts_before = self._tuple_counts()

    def release(self) -> None:
        """Release the relations of the host."""
        if self._paths:
            self._host.release_membership(self._key, self._reader)
        for _, pairs, need in self._derived_paths:
            self._host.paths.release(pairs, self._question, need)
        for content in self._of_edges:
            self._host.relations.release(content)

    # --- input -----------------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray) -> None:
        """Register the ids that labels have now."""
        if self._paths:
            self._membership.read(self._reader, labels, self.reads(labels)[:, :1])

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return for each label id whether some atom reads the label over its window, and as a fact: (label id, reading)."""
        read = np.zeros((len(labels), 1 + bool(self._fact_contents)), bool)
        for label in self._labels:
            read[:, int(isinstance(label, NodeLabel))] |= labels == self._host.relations.label_id(label)
        for derived in self._derived_paths:
            read[:, 0] |= self._host.paths[derived.content].reads(labels)
        return read

    @property
    def _fact_contents(self) -> list[RelationKey]:
        return [content for content in self._atom_contents if isinstance(content.label, NodeLabel)]

    def count_from(self, number: int) -> None:
        """Set the number of inserts that a count window has numbered."""
        if self._is_counted:
            for content in self._of_edges:
                self._host.relations.set_number(content, number)
            for derived in self._derived_paths:
                self._host.paths.count_from(derived.content, number)
            if self._paths:
                self._membership.count_from([number])

    def load_static(self, chunk: Chunk) -> None:
        """Load static edges."""
        self._host.request_bytes(BYTES_AN_EDGE * len(chunk.edge))
        for content in self._of_edges:
            self._host.relations.enter_static(content, chunk, [content.name])
        for derived in self._derived_paths:
            self._host.paths.load_static(derived.content, chunk)

    @property
    def has_content(self) -> bool:
        """True if other patterns have loaded the edges of all relations."""
        edge_count = self._host.store.current_edges
        return not self._paths and all(edge_count(self._host.relations[content]) for content in self._of_edges)

    def fill(self, chunk: Chunk, slides: np.ndarray, *of_facts: np.ndarray, quiet: bool) -> None:
        """Fill the relations that are empty with their edges."""
        facts = self._fact_contents
        for content in facts:
            (never,), held = of_facts, of_facts[0] > NOT_HELD
            fill(self._host, content, chunk, held, never)
        parallel, their_slides = chunk, slides
        if any(derived.content.order is not None for derived in self._derived_paths):
            youngest = youngest_of_parallel(chunk, slides)
            chunk, slides = Chunk(*(column[youngest] for column in chunk)), slides[youngest]
        everything = np.ones(len(chunk.edge), bool)
        for content in self._of_edges.difference(facts):
            fill(self._host, content, chunk, everything, slides)
        for derived in self._derived_paths:
            edges = (chunk, slides) if derived.content.order is None else (parallel, their_slides)
            self._host.paths.load(derived.content, *edges, quiet=quiet)
            self._host.grow_roots(derived.content)
        if self._paths:
            self._membership.load(self._reader, chunk, [slides])

    # --- figures ---------------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray, graph_edges: Edges) -> list[np.ndarray]:
        """Return for each reading the slide at which edges of the graph leave it; the smallest int64 if outside."""
        facts = self._fact_contents
        of_facts = [self._slides(edges, graph_edges, facts)] if facts else []
        if self._paths:
            return [self._membership.slides(self._reader, edges, graph_edges.label[edges])[0], *of_facts]
        return [self._slides(edges, graph_edges, self._counting_contents), *of_facts]

    def _slides(self, edges: np.ndarray, graph_edges: Edges, contents: Sequence[RelationKey]) -> np.ndarray:
        found = np.full(len(edges), NOT_HELD, np.int64)
        for content in contents:
            mine = graph_edges.label[edges] == self._host.relations.label_id(content.name)
            source, target = graph_edges.source[edges][mine], graph_edges.target[edges][mine]
            found[mine] = self._host.store.expiries(self._host.relations[content], source, target, NOT_HELD)
        return found

    def time_of(self, edge: int, edges: Edges) -> int | None:
        """Return the timestamp of an edge of a query with paths, or None where the window does not hold it."""
        return self._membership.timestamp(edge, int(edges.timestamp[edge]))

    @property
    def counts(self) -> list[int]:
        """The counts of tuples since `take`, in the order of `Outcome`."""
        counts: list[int] = (self._tuple_counts() - self._counts_before).tolist()
        return counts

    def set_counts(self, counts: Sequence[int]) -> None:
        """Continue counting from the counts of a saved engine."""
        self._counts_before = self._tuple_counts() - np.array(counts, np.int64)

    def _tuple_counts(self) -> np.ndarray:
        if self._paths:
            return self._membership.counts(self._reader)
        store, relations = self._host.store, self._host.relations
        none = np.zeros(IRRELEVANT, np.int64)
        relevant = sum((store.tuple_counts(relations[content]) for content in self._counting_contents), none)
        return np.append(relevant, self._host.tuples - relevant.sum())

    def sizes(self, edges: Edges | None) -> tuple[int, int]:
        """Return how many edges in the window some atom reads, and how many cells the indexes have that hold them."""
        contents = self._counting_contents
        if self._paths:
            contents = [content for content in self._atom_contents if not isinstance(content.label, NodeLabel)]
        cells = sum(self._host.store.current_edges(self._host.relations[content]) for content in contents)
        if not self._paths:
            return cells, cells
        assert edges is not None
        return self._membership.edges_live(self._reader, edges.label), cells + sum(
            relation.index.live()[0] for relation in self.path_relations
        )


class WindowedEdge(NamedTuple):
    """The edges of a label, or (None) of all labels with these, over one of the query's readings, by its number.

    Without a reading: static edges, which have no window, those of a named `graph` or else of the default graph.
    """

    label: LabelSymbol | None
    reading: int | None
    graph: str | None = None


class WindowedPath(NamedTuple):
    """The pairs that a non-empty path of an expression joins over one of the query's readings, and the roots needed.

    Without a reading: the pairs over static edges, which have no window, those of a named `graph` or of the default graph.
    """

    expression: str
    reading: int | None
    need: Need | None = None
    graph: str | None = None


def static_content(graph: str | None, graphs: tuple[str, ...] | None) -> tuple[str, tuple[str, ...] | None]:
    """Return the stream and the graphs of a relation of static edges alone: of a named graph, or of the default graph."""
    return (STATIC_ALONE, graphs) if graph is None else (stream_of_graph(graph), None)


class WindowedReads:
    """The relations of one query that reads several windows or named streams, and the outcomes of its tuples.

    A running query that is evaluated over `PatternHost` has one of these. It states which edges and paths its atoms read,
    each over one of its `readings`, and forwards what the protocol of a running query requires: `reads`, `slides`,
    `count_from`, `load_static`, `fill`, counts and figures. It makes its plans itself, with the numbers of relations that
    `relation` returns.

    `question` has a name and the kind of its paths (`paths`, `simple_budget`); with simple paths no relation of edges has
    loops. `origin` is 0, or what `PatternHost.new_origin` returned for a query that starts empty in mid-stream. `static` are
    the readings that include the static edges: the default graph; others read their window alone. `graphs` are those of
    FROM, whose static edges the default graph has, None without FROM.

    `enter` takes the relations before plans are added, and `leave` releases them after plans have been removed.
    """

    def __init__(
        self,
        host: PatternHost,
        question: Any,
        readings: Sequence[Reading],
        reads: Sequence[WindowedEdge | WindowedPath],
        *,
        origin: int = 0,
        static: Sequence[int] = (0,),
        graphs: tuple[str, ...] | None = None,
    ) -> None:
        self.readings = tuple(readings)
        self.origin = origin
        self._host = host
        self._question = question
        self._static = frozenset(static)
        self._graphs = graphs
        self._contents: dict[WindowedEdge | WindowedPath, RelationKey | PathContent] = {
            read: self._content(read) for read in dict.fromkeys(reads)
        }
        self._key = (self.readings, origin)

    def _content(self, read: WindowedEdge | WindowedPath) -> RelationKey | PathContent:
        is_fact = isinstance(read, WindowedEdge) and isinstance(read.label, NodeLabel)
        loopless = self._question.paths == "simple" and not is_fact  # a test is a loop
        if read.reading is None:
            alone, graphs = static_content(read.graph, self._graphs)
            if isinstance(read, WindowedEdge):
                return RelationKey(read.label, UnboundedWindow(), None, self.origin, loopless, alone, graphs=graphs)
            return content_of(
                read.expression, self._question, self.origin, window=UnboundedWindow(), stream=alone, graphs=graphs
            )
        reading = self.readings[read.reading]
        without_static = read.reading not in self._static
        graphs = None if without_static else self._graphs
        if isinstance(read, WindowedEdge):
            counted_labels = reading.labels if reading.window.kind == "count" else None
            stream = reading.stream
            return RelationKey(
                read.label, reading.window, counted_labels, self.origin, loopless, stream, without_static, graphs
            )
        return content_of(
            read.expression,
            self._question,
            self.origin,
            window=reading.window,
            counted_labels=reading.labels if reading.window.kind == "count" else None,
            stream=reading.stream,
            without_static=without_static,
            graphs=graphs,
        )

    # --- relations -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Take the relations and begin to judge tuples. O(labels) for those that are new."""
        for content in self._edge_contents:
            self._host.relations.acquire(content)
        for read, path in self._paths:
            self._host.paths.take(path, read.expression, self._question, read.need)
        self._membership = self._host.acquire_membership(self._key, self.readings, self._key, is_fixed=True)
        self._counts_before = self._membership.counts(self._key)

    def leave(self) -> None:
        """Release the relations."""
        self._host.release_membership(self._key, self._key)
        for read, path in self._paths:
            self._host.paths.release(path, self._question, read.need)
        for content in self._edge_contents:
            self._host.relations.release(content)

    def relation(self, read: WindowedEdge | WindowedPath) -> int:
        """Return the number of a relation in the store, as atoms of plans refer to it."""
        return self._host.number_of(self._contents[read])

    def path_relation(self, read: WindowedPath) -> PathRelation:
        """Return the relation of a path."""
        content = self._contents[read]
        assert isinstance(content, PathContent)
        return self._host.paths[content]

    def time_of(self, edge: int, edges: Edges) -> int | None:
        """Return the timestamp of an edge in the first window, or None where the window does not hold it."""
        return self._membership.timestamp(edge, int(edges.timestamp[edge]))

    @property
    def contents(self) -> set[RelationKey | PathContent]:
        """The contents of its relations."""
        return {*self._contents.values()}

    @property
    def path_relations(self) -> list[PathRelation]:
        """The relations of paths, each once, in the order of the reads."""
        return [self._host.paths[content] for content in dict.fromkeys(content for _, content in self._paths)]

    @property
    def _edge_contents(self) -> dict[RelationKey, int | None]:
        """The contents of relations of edges, each with one of the readings that it is over."""
        found: dict[RelationKey, int | None] = {}
        for read, content in self._contents.items():
            if isinstance(content, RelationKey):
                found.setdefault(content, read.reading)
        return found

    @property
    def _paths(self) -> list[tuple[WindowedPath, PathContent]]:
        return [
            (read, content)
            for read, content in self._contents.items()
            if isinstance(read, WindowedPath) and isinstance(content, PathContent)
        ]

    # --- labels and edges ------------------------------------------------------------------------------------

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Return which edges are read, as booleans (label id, reading). The host registers labels, and calls this."""
        return self._membership.reads(self._key, labels)

    def count_from(self, numbers: Sequence[int]) -> None:
        """Set the number of inserts that each reading's count window has numbered; to be called before `fill`."""
        self._membership.count_from(numbers)
        for content, place in self._edge_contents.items():
            if place is not None and content.window.kind == "count":
                self._host.relations.set_number(content, numbers[place])
        for read, path in self._paths:
            if read.reading is not None:
                self._host.paths.count_from(path, numbers[read.reading])

    def load_static(self, chunk: Chunk) -> None:
        """Load edges that never leave into the relations of the default graph.

        Raises `QueryError` where a path would run across them and the window of a named stream.
        """
        self._host.request_bytes(BYTES_AN_EDGE * len(chunk.edge))
        for content, place in self._edge_contents.items():
            if place is None or place in self._static:
                self._host.relations.enter_static(content, chunk, self._static_labels(content))
        for read, path in self._paths:
            if read.reading is None or read.reading in self._static:
                if read.reading is not None and path.stream is not None:
                    raise QueryError(
                        f"query {self._question.name!r}: the path {read.expression} over the default window, ON the "
                        f"stream {path.stream!r}, does not run across static edges yet: give the stream a window with a name"
                    )
                self._host.paths.load_static(path, chunk if path.graphs is None else self._filter_graphs(chunk, path.graphs))

    def _static_labels(self, content: RelationKey) -> list[LabelName]:
        """Return the names of the labels whose static edges a relation has."""
        streams: list[str | None]
        if content.stream != STATIC_ALONE and is_static_stream(content.stream):
            streams = [content.stream]
        elif content.graphs is None:
            streams = [None]
        else:
            are_known = self._host.relations.static_graphs.issuperset(content.graphs)
            streams = [*map(stream_of_graph, content.graphs), *([] if are_known else [None])]
        if content.label is not None:
            return [name_in(content.label, stream) for stream in streams]
        seen = [content._replace(stream=stream) for stream in streams]
        return [name for name in self._host.relations.labels()[1] if any(one.has(name) for one in seen)]

    def _filter_graphs(self, chunk: Chunk, graphs: tuple[str, ...]) -> Chunk:
        """Return those static edges that graphs of FROM have; for a graph that was not loaded, also those without a name."""
        if not self._host.relations.static_graphs.issuperset(graphs):
            return chunk  # of which paths see no edges of other graphs
        labels = zip(*self._host.relations.labels(), strict=True)
        are_named = [number for number, name in labels if graph_of(name) is not None]
        mine = np.isin(chunk.label, are_named)
        return Chunk(*(column[mine] for column in chunk))

    def fill(self, chunk: Chunk, slides: Sequence[np.ndarray], *, quiet: bool) -> None:
        """Fill the relations that are empty with their edges.

        `slides` are those at which the edges leave the window of each reading. The host's time must be that of the stream
        already (`PatternHost.advance`). Nothing is enumerated. Raises `MemoryLimitError`.
        """
        now = self._membership.current_slides()
        for content, place in self._edge_contents.items():
            if place is None:
                continue
            is_selected = slides[place] > now[place]
            fill(self._host, content, chunk, is_selected, slides[place])
        for read, path in self._paths:
            is_selected = np.full(len(chunk.edge), NOT_HELD) if read.reading is None else slides[read.reading]
            self._host.paths.load(path, chunk, is_selected, quiet=quiet)
            self._host.grow_roots(path)
        self._membership.load(self._key, chunk, slides)

    # --- results ---------------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        """Return for each reading the slides at which edges leave its window; a past slide where it does not hold them."""
        return self._membership.slides(self._key, edges)

    @property
    def counts(self) -> list[int]:
        """The counts of tuples since `enter`, in the order of `Outcome`: each tuple is counted once."""
        counts: list[int] = (self._membership.counts(self._key) - self._counts_before).tolist()
        return counts

    def set_counts(self, counts: Sequence[int]) -> None:
        """Continue counting from the counts of a saved engine."""
        self._counts_before = self._membership.counts(self._key) - np.array(counts, np.int64)

    @property
    def edges_live(self) -> int:
        """The number of edges that any of its windows holds; edges of different streams are different. O(edges)."""
        return self._membership.edges_live(self._key)

    @property
    def cells(self) -> int:
        """The number of edges in its relations, and of cells of the indexes of its paths."""
        edges = sum(self._host.store.current_edges(self._host.relations[content]) for content in self._edge_contents)
        return edges + sum(relation.index.live()[0] for relation in self.path_relations)
