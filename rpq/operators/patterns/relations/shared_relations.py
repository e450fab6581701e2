"""The relations of all patterns of an engine by their content: atoms with equal reads share a relation.

A relation is the edges of one label under one window, of the merged stream or of a named one; or those of all labels, which
are then a third column, as numbers that all such relations share, whatever ids the labels have. These determine its edges,
except for queries that began with an empty window in mid-stream: queries of one such *origin* share relations of their own.
Where paths are simple, no atom joins a vertex with itself: such atoms read a relation without loops.

A label has an id only while the stream has edges with it; the relation remains when the label loses its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from rpq.automata.symbols import LabelSymbol
from rpq.language.readings import LabelSet
from rpq.operators.patterns import tables
from rpq.operators.patterns.relations.relation import LabelReaders, RelationStore
from rpq.stream.chunk import Chunk
from rpq.stream.names.stream_labels import LabelName, StreamLabel, graph_of, label_in, merged_name, name_in
from rpq.stream.window import AnyWindow, CountWindow, Window


class RelationKey(NamedTuple):
    """The content of a relation: the edges of a label under a window."""

    label: LabelSymbol | None
    """None: all labels without conditions, which its edges have."""
    window: AnyWindow
    counted_labels: LabelSet | None = None
    """The labels whose inserts a count window numbers."""
    origin: int = 0
    """0: all edges of its window; others: the edges since some query began with an empty window."""
    loopless: bool = False
    stream: str | None = None
    """The name of the stream; None: the merged stream, which has the edges of all."""
    without_static: bool = False
    """True if it is read without the static edges, as a named window is."""
    graphs: tuple[str, ...] | None = None
    """The graphs of FROM whose static edges it has; None without FROM: those that were loaded without a name."""

    @property
    def name(self) -> LabelName:
        """The name of its label in its stream."""
        assert self.label is not None, "it has the edges of all labels"
        return name_in(self.label, self.stream)

    def has(self, name: LabelName) -> bool:
        """Return whether it has the edges of the graph with a label, as their stream names it.

        >>> one, every = RelationKey("a", Window(size=5, slide=1)), RelationKey(None, Window(size=5, slide=1), stream="s")
        >>> [content.has(name) for content in (one, every) for name in ("a", "b", StreamLabel("a", "s"))]
        [True, False, False, False, False, True]
        """
        label = label_in(name, self.stream)
        return isinstance(label, str) if self.label is None else label == self.label

    @property
    def extent(self) -> Hashable:
        """The key of its window in the store: relations of one extent share a window."""
        # Count windows differ by what they number, and since when; each relation of a label has its own.
        return self.window if self.counted_labels is None else self._replace(label="")


class SharedRelations:
    """The owner of relations, which lends them to queries."""

    def __init__(self, store: RelationStore) -> None:
        self.store = store
        self._numbers: dict[RelationKey, int] = {}
        self._users: Counter[RelationKey] = Counter()
        self._windows: dict[Hashable, int] = {}
        self._with_static: set[RelationKey] = set()
        self._idle_relations: list[int] = []
        self._idle_windows: list[int] = []
        self._label_ids: dict[LabelName, int] = {}
        self._label_names: dict[int, LabelName] = {}
        self._label_room = 0
        self._stored_labels = 0  # label ids from here on have no relations in the store
        self._readers: dict[LabelName, list[int]] = {}  # label to the relations that read it
        self._of_all_labels: list[RelationKey] = []  # the relations of all labels
        self._label_numbers: dict[str, int] = {}  # label to its number in these, for as long as the engine runs
        self._labels_by_number: list[str] = []
        self._extents: Counter[Hashable] = Counter()  # extent to the number of its relations
        self._merged_names: Counter[LabelName] = Counter()  # label of the merged stream to the number of its names with ids
        self.static_graphs: set[str] = set()
        """The names of graphs as which static edges were loaded."""
        self._content_of_count_window: dict[int, RelationKey] = {}  # number of a count window in the store to one relation

    def __getitem__(self, content: RelationKey) -> int:
        return self._numbers[content]

    # --- users -----------------------------------------------------------------------------------------------

    def acquire(self, content: RelationKey) -> None:
        """Acquire a relation for one more user. O(labels) where there was none."""
        if self._acquire(content):
            self._update_labels()

    def _acquire(self, content: RelationKey) -> bool:
        """Acquire a relation; return whether the labels in the store must be updated."""
        self._users[content] += 1
        if content in self._numbers:
            return False
        window, has_labels = self._window(content), content.label is None
        number = self._reuse_relation(has_labels=has_labels)
        if number is not None:
            self.store.reuse_relation(number, window, loopless=content.loopless, has_labels=has_labels)
        else:
            number = self.store.add_relation(window, loopless=content.loopless, has_labels=has_labels)
        self._numbers[content] = number
        self._extents[content.extent] += 1
        if has_labels:
            self._of_all_labels.append(content)
        else:
            self._readers.setdefault(content.name, []).append(number)
        return self._has_edges(content)

    def _reuse_relation(self, *, has_labels: bool) -> int | None:
        """Return a relation to be used again, None without one. O(1), and O(idle relations) for one that has labels."""
        if not has_labels:
            return self._idle_relations.pop() if self._idle_relations else None
        suitable = next((number for number in self._idle_relations if not self.store.has_sides(number)), None)
        if suitable is not None:
            self._idle_relations.remove(suitable)
        return suitable

    def release(self, content: RelationKey) -> None:
        """Release a user's relation, after its plans. O(edges of all relations) where it was the last user."""
        self._users[content] -= 1
        if self._users[content]:
            return
        del self._users[content]
        number = self._numbers.pop(content)
        self._with_static.discard(content)
        if content.label is None:
            self._of_all_labels.remove(content)
        else:
            self._readers[content.name].remove(number)
            if not self._readers[content.name]:
                del self._readers[content.name]
        self.store.empty_relation(number)
        self._idle_relations.append(number)
        extent = content.extent
        self._extents[extent] -= 1
        if not self._extents[extent]:
            del self._extents[extent]
        if content.window.kind != "unbounded" and extent not in self._extents:
            window = self._windows.pop(extent)
            self._content_of_count_window.pop(window, None)
            self.store.rest_window(window)
            self._idle_windows.append(window)
        if self._has_edges(content):
            self._update_labels()

    def _window(self, content: RelationKey) -> int:
        extent = content.extent
        if extent not in self._windows:
            kind, size, slide = _measures(content.window)
            if self._idle_windows and kind != "unbounded":  # there is one unbounded window, which stays
                number = self._idle_windows.pop()
                self.store.reuse_window(number, kind, size=size, slide=slide)
            else:
                number = self.store.add_window(kind, size=size, slide=slide)
            self._windows[extent] = number
            if content.counted_labels is not None:
                self._content_of_count_window[number] = content
        return self._windows[extent]

    def enter_static(self, content: RelationKey, chunk: Chunk, names: Sequence[LabelName]) -> None:
        """Enter all static edges of a chunk with labels of these names into a relation. O(edges), the first time."""
        if content not in self._with_static:
            self._with_static.add(content)
            mine = np.isin(chunk.label, [*map(self.label_id, names)])
            source, target = chunk.source[mine], chunk.target[mine]
            self.store.enter_static(self._numbers[content], source, target, label=self._numbers_of(content, chunk, mine))

    def fill(self, content: RelationKey, chunk: Chunk, is_selected: np.ndarray, expires: np.ndarray) -> None:
        """Fill an empty relation with the selected edges of a chunk; `expires` has their slides. O(edges)."""
        self.store.fill_relation(
            self._numbers[content],
            chunk.source[is_selected],
            chunk.target[is_selected],
            chunk.timestamp[is_selected],
            expires,
            label=self._numbers_of(content, chunk, is_selected),
        )

    def edges_of(self, content: RelationKey, chunk: Chunk) -> np.ndarray:
        """Return which edges of a chunk have labels of a relation, and loops only where these are in it (boolean)."""
        if content.label is not None:
            is_selected = chunk.label == self.label_id(content.name)
        else:
            is_selected = np.isin(chunk.label, [number for name, number in self._label_ids.items() if content.has(name)])
        return is_selected & (chunk.source != chunk.target) if content.loopless else is_selected

    def _numbers_of(self, content: RelationKey, chunk: Chunk, is_selected: np.ndarray) -> np.ndarray | None:
        """Return the numbers of the labels of the selected edges of a chunk if the relation is one of all labels."""
        return self.store.relations.label_number[chunk.label[is_selected]] if content.label is None else None

    def set_number(self, content: RelationKey, number: int) -> None:
        """Set how many inserts the count window of a relation has numbered; with edges, it must be the same number."""
        window = self._windows[content.extent]
        if self.store.number_of(window) != number:
            self.store.set_number(window, number)

    # --- labels ----------------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        """Register label ids with their names. O(labels given), amortised."""
        changed = False
        new_labels: dict[int, LabelName] = {}
        for number, name in zip(labels.tolist(), names, strict=True):
            old = self._label_names.get(number, name)
            if old != name and self._label_ids.get(old) == number:
                del self._label_ids[old]
                self._merged_names -= Counter([merged_name(old)])
                changed |= self._is_read(old) or bool(self._content_of_count_window)
            self._label_names[number] = name
            if (graph := graph_of(name)) is not None:
                self.static_graphs.add(graph)
            earlier_id = self._label_ids.get(name)
            if earlier_id != number:
                if self._is_read(name) or any(_numbers(content, name) for content in self._content_of_count_window.values()):
                    changed |= number < self._stored_labels
                    new_labels[number] = name
                if earlier_id is None:
                    self._merged_names[merged_name(name)] += 1
                self._label_ids[name] = number
            if number >= self._label_room:
                self._label_room = max(number + 1, 2 * self._label_room, 16)
                changed = True
        if changed:
            self._update_labels()
        elif new_labels:
            self._update_new_labels(new_labels)

    def _is_read(self, name: LabelName) -> bool:
        """Return whether any relation reads tuples with a label, as its stream names it."""
        merged = merged_name(name)
        return (bool(self._of_all_labels) and isinstance(merged, str)) or name in self._readers or merged in self._readers

    def _has_edges(self, content: RelationKey) -> bool:
        """Return whether tuples with known labels belong to a relation, or are numbered by its window."""
        if content.counted_labels is not None or content.label is None:
            return True
        return content.name in self._label_ids or self._merged_names[content.name] > 0

    def labels(self) -> tuple[np.ndarray, list[LabelName]]:
        """Return the known label ids, and their names."""
        return np.array([*self._label_names], np.int64), [*self._label_names.values()]

    def label_id(self, label: LabelName) -> int:
        """Return the id of a label, or -1 if it has none."""
        return self._label_ids.get(label, -1)

    def label_of(self, number: int) -> str:
        """Return the label that has a number in relations of all labels."""
        return self._labels_by_number[number]

    def _number_label(self, label: LabelSymbol) -> int:
        """Return the number of a label in relations of all labels, where it gets one if there are any."""
        if not isinstance(label, str) or not (self._of_all_labels or label in self._label_numbers):
            return tables.NO_LABEL
        number = self._label_numbers.setdefault(label, len(self._labels_by_number))
        if number == len(self._labels_by_number):
            self._labels_by_number.append(label)
        return number

    def _update_labels(self) -> None:
        """Update the store's relations of each label. O(labels)."""
        readers = [LabelReaders()] * self._label_room
        everywhere = self._readers_of_merged
        for name, label in self._label_ids.items():
            readers[label] = self._readers_of(name, everywhere)
        self._stored_labels = max(self._label_ids.values(), default=-1) + 1
        self.store.read_labels(readers)

    def _update_new_labels(self, names: Mapping[int, LabelName]) -> None:
        """Update the store's relations of labels that are behind all others, by their ids. O(labels given), and a copy."""
        first, self._stored_labels = self._stored_labels, max(names) + 1
        numbers, everywhere = range(first, self._stored_labels), self._readers_of_merged
        readers = [self._readers_of(names[one], everywhere) if one in names else LabelReaders() for one in numbers]
        self.store.read_labels(readers, first=first)

    @property
    def _readers_of_merged(self) -> list[int]:
        """The relations of all labels of the merged stream, which has the tuples of all streams."""
        return [self._numbers[content] for content in self._of_all_labels if content.stream is None]

    def _readers_of(self, name: LabelName, everywhere: Sequence[int]) -> LabelReaders:
        """Return what reads a label; a tuple of a named stream belongs to relations of both kinds."""
        if isinstance(name, str) and not self._content_of_count_window and name not in self._readers:
            return LabelReaders(everywhere, (), self._number_label(name))  # one of thousands
        merged = merged_name(name)
        readers = self._readers.get(merged, [])
        if isinstance(name, StreamLabel):
            readers = [*readers, *self._readers.get(name, [])]
        if self._of_all_labels:
            readers = [*readers, *[self._numbers[content] for content in self._of_all_labels if _reads(content, name)]]
        numbering = [window for window, content in self._content_of_count_window.items() if _numbers(content, name)]
        return LabelReaders(readers, numbering, self._number_label(merged))


def _reads(content: RelationKey, name: LabelName) -> bool:
    """Return whether a relation of all labels reads tuples with a label, as their stream names it."""
    return (content.stream is None and isinstance(merged_name(name), str)) or content.has(name)


def _numbers(content: RelationKey, name: LabelName) -> bool:
    """Return whether the count window of a relation numbers inserts with a label, as the tuple's stream names it."""
    assert content.counted_labels is not None
    is_of_stream = content.stream is None or (isinstance(name, StreamLabel) and name.stream == content.stream)
    return is_of_stream and content.counted_labels.has(merged_name(name))


def _measures(window: AnyWindow) -> tuple[Literal["time", "count", "unbounded"], int, int]:
    """Return the kind, the size and the slide of a window, as the store has them."""
    if isinstance(window, Window):
        return "time", window.size, window.slide
    if isinstance(window, CountWindow):
        return "count", window.size, window.step
    return "unbounded", 1, 1
