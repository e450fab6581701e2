"""The relations of all patterns of an engine, by what they hold: atoms that read the same share one.

A relation is the edges of one label under one window. What it holds follows from these, but for queries that began with
an empty window in mid-stream: those of one such *origin* share relations of their own. Where paths are simple no atom
joins a vertex with itself: such atoms read a relation without loops.

A label has an id while the engine knows it; the relation stays when the id goes, which it does when there is no edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rpq.patterns.relation import RelationStore
from rpq.stream.window import Window


class Content(NamedTuple):
    """What a relation holds."""

    label: str
    size: int
    slide: int
    origin: int = 0
    """0: all that its window does; others: what came since some query began with an empty one."""
    loopless: bool = False


class SharedRelations:
    """Gives relations to queries, and takes them back."""

    def __init__(self, store: RelationStore) -> None:
        self.store = store
        self._numbers: dict[Content, int] = {}
        self._users: Counter[Content] = Counter()
        self._windows: dict[tuple[int, int], int] = {}
        self._idle: list[int] = []
        self._idle_windows: list[int] = []
        self._label_ids: dict[str, int] = {}
        self._label_names: dict[int, str] = {}
        self._label_room = 0
        self._read: Counter[str] = Counter()  # labels, by relations that read them

    def __getitem__(self, content: Content) -> int:
        return self._numbers[content]

    # --- whose they are --------------------------------------------------------------------------------------

    def take(self, content: Content) -> None:
        """Let there be a relation, for one user more. O(labels) where there was none."""
        self._users[content] += 1
        if content in self._numbers:
            return
        window = self._window(Window(size=content.size, slide=content.slide))
        if self._idle:
            number = self._idle.pop()
            self.store.reuse_relation(number, window, loopless=content.loopless)
        else:
            number = self.store.add_relation(window, loopless=content.loopless)
        self._numbers[content] = number
        self._read[content.label] += 1
        self._tell_readers()

    def release(self, content: Content) -> None:
        """Let there be a user less, whose plans are gone. O(edges of all relations) where it was the last."""
        self._users[content] -= 1
        if self._users[content]:
            return
        del self._users[content]
        number = self._numbers.pop(content)
        self._read[content.label] -= 1
        if not self._read[content.label]:
            del self._read[content.label]
        self.store.empty_relation(number)
        self._idle.append(number)
        if not any((other.size, other.slide) == (content.size, content.slide) for other in self._numbers):
            window = self._windows.pop((content.size, content.slide))
            self.store.rest_window(window)
            self._idle_windows.append(window)
        self._tell_readers()

    def _window(self, window: Window) -> int:
        key = window.size, window.slide
        if key not in self._windows:
            if self._idle_windows:
                self._windows[key] = self._idle_windows.pop()
                self.store.reuse_window(self._windows[key], size=window.size, slide=window.slide)
            else:
                self._windows[key] = self.store.add_window("time", size=window.size, slide=window.slide)
        return self._windows[key]

    # --- labels ----------------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[str]) -> None:
        """Take in label ids with their names. O(labels given), amortised."""
        changed = False
        for number, name in zip(labels.tolist(), names, strict=True):
            old = self._label_names.get(number, name)
            if old != name and self._label_ids.get(old) == number:
                del self._label_ids[old]
                changed |= old in self._read
            self._label_names[number] = name
            changed |= name in self._read and self._label_ids.get(name) != number
            self._label_ids[name] = number
            if number >= self._label_room:
                self._label_room = max(number + 1, 2 * self._label_room, 16)
                changed = True
        if changed:
            self._tell_readers()

    def labels(self) -> tuple[np.ndarray, list[str]]:
        """The label ids that there are, and their names."""
        return np.array([*self._label_names], np.int64), [*self._label_names.values()]

    def label_id(self, label: str) -> int:
        """The id of a label, -1 if it has none."""
        return self._label_ids.get(label, -1)

    def _tell_readers(self) -> None:
        readers: list[list[int]] = [[] for _ in range(self._label_room)]
        for content, number in self._numbers.items():
            if content.label in self._label_ids:
                readers[self._label_ids[content.label]].append(number)
        self.store.read_labels(readers)
