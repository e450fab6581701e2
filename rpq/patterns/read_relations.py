"""The relations that a running pattern reads: of its labels, of its paths, and the tally that counts where it has paths.

`RunningPattern` says what is joined and told; what it is joined from, how that is taken, filled and counted, stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rpq.patterns.directed_atoms import DirectedAtom, Neighbours, PathRead, Roots
from rpq.patterns.filled_relations import BYTES_AN_EDGE, fill
from rpq.patterns.path_relations import Need, PathContent, PathRelation, content_of
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.shared_relations import Content
from rpq.patterns.tally import Tally
from rpq.patterns.verdicts import NOT_HELD
from rpq.queries.protocol import COUNTS
from rpq.queries.query import PatternQuery
from rpq.queries.readings import LabelSet
from rpq.stream.chunk import Chunk
from rpq.stream.snapshot import Edges


class Derived(NamedTuple):
    """A path of a pattern: what is read for it, from where, and the roots that it needs there."""

    read: PathRead
    content: PathContent
    need: Need | None


class ReadRelations:
    """What the atoms of one pattern read from the host. `origin`: the host's number of the edges that it may count from."""

    def __init__(self, question: PatternQuery, atoms: Sequence[DirectedAtom], host: PatternHost, *, origin: int) -> None:
        self._question = question
        self._host = host
        self._labels = sorted({atom.reads for atom in atoms if isinstance(atom.reads, str)})
        self._paths = list(dict.fromkeys(atom.reads for atom in atoms if isinstance(atom.reads, PathRead)))
        self._is_counted = question.window.kind == "count"
        self._derived: list[Derived] = []
        self.begin_at(origin)

    # --- which they are --------------------------------------------------------------------------------------

    def begin_at(self, origin: int) -> None:
        """Read what holds the edges that are counted from this number on; before anything is taken."""
        self.origin = origin
        is_loopless = self._question.paths == "simple"
        self._joined = [self._content(label, loopless=is_loopless) for label in self._labels]
        """For each label the relation that atoms read."""
        self._held = [] if self._paths else [self._content(label, loopless=False) for label in self._labels]
        """For each label the relation with all its edges in the window, which counts; none where a tally does."""
        self._of_edges = {*self._held, *self._joined}

    def _content(self, label: str, *, loopless: bool) -> Content:
        return Content(label, self._question.window, self._numbered, self.origin, loopless)

    @property
    def _numbered(self) -> LabelSet | None:
        """Of a count window: the labels whose inserts it numbers."""
        return self._question.label_set if self._is_counted else None

    @property
    def contents(self) -> set[Content | PathContent]:
        """What the relations hold."""
        return {*self._of_edges, *self.of_paths}

    @property
    def of_paths(self) -> set[PathContent]:
        """What those of paths hold."""
        return {derived.content for derived in self._derived}

    @property
    def by_read(self) -> dict[str | PathRead, Content | PathContent]:
        """Of what an atom reads: the content of its relation."""
        contents: dict[str | PathRead, Content | PathContent] = {content.label: content for content in self._joined}
        return contents | {derived.read: derived.content for derived in self._derived}

    @property
    def paths(self) -> Iterator[PathRelation]:
        """The relations of its paths, in the order in which the pattern has them."""
        return (self._host.paths[derived.content] for derived in self._derived)

    @property
    def by_path(self) -> dict[PathRead, PathRelation]:
        """Of each path that is read: its relation."""
        return {derived.read: self._host.paths[derived.content] for derived in self._derived}

    def numbers(self) -> dict[str | PathRead, int]:
        """Of what an atom reads: the number of its relation in the host."""
        relation: dict[str | PathRead, int] = {content.label: self._host.relations[content] for content in self._joined}
        return relation | {read: relation.number for read, relation in self.by_path.items()}

    def _need(self, roots: Roots) -> Need | None:
        if isinstance(roots, Neighbours):
            content = self._content(roots.label, loopless=self._question.paths == "simple")
            return Need(roots.names, content, roots.inward)
        return None if roots is None else Need(roots)

    @property
    def _tally(self) -> Tally:
        """What counts where there are path atoms."""
        return self._host.tally(self._question.window, self._numbered, self.origin)

    @property
    def _reader(self) -> tuple[object, ...]:
        """Its labels, to the tally."""
        return (*self._labels, *(derived.content.words for derived in self._derived))

    # --- taken and let go ------------------------------------------------------------------------------------

    def take(self) -> None:
        """Have the host hold them."""
        for content in self._of_edges:
            self._host.relations.take(content)
        self._derived = [
            Derived(read, content_of(read.expression, self._question, self.origin), self._need(read.roots))
            for read in self._paths
        ]
        for read, pairs, need in self._derived:
            self._host.paths.take(pairs, read.expression, self._question, need)
        if self._paths:
            self._tally.take(self._reader)
            self.set_labels(self._host.relations.labels()[0])

    def release(self) -> None:
        """Let go of them."""
        if self._paths:
            self._host.release_tally(self._question.window, self._numbered, self.origin, self._reader)
        for _, pairs, need in self._derived:
            self._host.paths.release(pairs, self._question, need)
        for content in self._of_edges:
            self._host.relations.release(content)

    # --- what comes into them --------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray) -> None:
        """Know the ids that labels have now."""
        if self._paths:
            self._tally.read(self._reader, labels, self.reads(labels))

    def reads(self, labels: np.ndarray) -> np.ndarray:
        """Of each label, by its id, whether some atom reads it."""
        read = np.zeros(len(labels), bool)
        for label in self._labels:
            read |= labels == self._host.relations.label_id(label)
        for relation in self.paths:
            read |= relation.reads(labels)
        return read

    def count_from(self, number: int) -> None:
        """Of a count window: the number that the next insert has."""
        if self._is_counted:
            for content in self._of_edges:
                self._host.relations.set_number(content, number)
            for derived in self._derived:
                self._host.paths.count_from(derived.content, number)
            if self._paths:
                self._tally.count_from(number)

    def load_static(self, chunk: Chunk) -> None:
        """Let static edges in."""
        self._host.ask_for(BYTES_AN_EDGE * len(chunk.edge))
        for content in self._of_edges:
            mine = chunk.label == self._host.relations.label_id(content.name)
            self._host.relations.enter_static(content, chunk.source[mine], chunk.target[mine])
        for derived in self._derived:
            self._host.paths.load_static(derived.content, chunk)

    @property
    def has_content(self) -> bool:
        """Whether all hold edges already, which another pattern had loaded."""
        held = self._host.store.edges_held
        return not self._paths and all(held(self._host.relations[content]) for content in self._of_edges)

    def fill(self, chunk: Chunk, slides: np.ndarray, *, is_checked: bool) -> None:
        """Let those that are empty have the edges that are theirs; others have them, which is looked at if `is_checked`.

        Raises `Damage`.
        """
        everything = np.ones(len(chunk.edge), bool)
        for content in self._of_edges:
            fill(self._host, content, chunk, everything, slides, is_checked=is_checked, query=self._question.name)
        for derived in self._derived:
            self._host.paths.load(derived.content, chunk, slides, is_checked=is_checked)
            self._host.settle(derived.content)
        if self._paths:
            self._tally.load(self._reader, chunk, slides, is_checked=is_checked)

    # --- what is in them -------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray, held: Edges) -> np.ndarray:
        """Of edges of the snapshot graph: the slide at which each leaves the window, the least number if not in it."""
        if self._paths:
            return self._tally.slides(self._reader, edges, held.label[edges])
        found = np.full(len(edges), NOT_HELD, np.int64)
        for content in self._held:
            mine = held.label[edges] == self._host.relations.label_id(content.name)
            source, target = held.source[edges][mine], held.target[edges][mine]
            found[mine] = self._host.store.expiries(self._host.relations[content], source, target, NOT_HELD)
        return found

    def time_of(self, edge: int, edges: Edges) -> int | None:
        """When an edge came, as the tally has it; None where the window does not hold it."""
        return self._tally.time_of(edge, int(edges.timestamp[edge]))

    def counted(self) -> np.ndarray:
        """What has been counted, in the order of `COUNTS`."""
        store, relations = self._host.store, self._host.relations
        if self._paths:
            relevant = self._tally.counted(self._reader)
        else:
            none = np.zeros(len(COUNTS) - 1, np.int64)
            relevant = sum((store.counted(relations[content]) for content in self._held), none)
        return np.append(relevant, self._host.tuples - relevant.sum())

    def sizes(self, edges: Edges | None) -> tuple[int, int]:
        """(edges, cells): the edges in the window that some atom reads, and the cells of the indexes that hold them."""
        cells = sum(self._host.store.edges_held(self._host.relations[content]) for content in self._held or self._joined)
        if not self._paths:
            return cells, cells
        assert edges is not None
        return self._tally.edges_live(self._reader, edges.label), cells + sum(
            relation.index.live()[0] for relation in self.paths
        )
