"""From the tuples of a push to chunks of ids: the dictionaries of vertices and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.running.named_streams import label_ids_in_streams
from rpq.stream.chunk import Chunk
from rpq.stream.columns import Columns
from rpq.stream.labels import LabelDictionary
from rpq.stream.vertices import VertexDictionary

MakeRoom = Callable[[int, np.ndarray], None]
"""Lets so many more tuples be applied, and these new vertex ids be used."""

_NOBODY = np.zeros(0, np.uint8)
_NOTHING = np.zeros(0, np.int32)

AdmitLabels = Callable[[np.ndarray], None]
"""Tells queries and graph what new label ids stand for."""


class Taken(NamedTuple):
    """A chunk, and the same tuples as readers of named streams see them, if there are such readers of any of them."""

    chunk: Chunk
    named: Chunk | None
    is_named: np.ndarray  # uint8 a tuple: `named` has another label than `chunk`
    unread: np.ndarray  # int32 a tuple: the label of its stream that nobody reads there, -1 none


class Intake:
    """Names to ids. A tuple whose label nobody reads leaves no vertex behind: its ends have the id -1."""

    def __init__(self, *, capacity: int, make_room: MakeRoom, admit_labels: AdmitLabels) -> None:
        self.vertices = VertexDictionary(capacity=capacity)
        self.labels = LabelDictionary(remembered=16 * capacity)
        self.interned = 0  # names that came since the last collection
        self._capacity = capacity
        self._make_room = make_room
        self._admit_labels = admit_labels

    def chunk(self, tuples: Columns, first: int, count: int, wanted: Callable[[np.ndarray], np.ndarray]) -> Taken:
        """Tuples of a push with ids for names; there is room for all of them afterwards. O(tuples).

        `wanted` tells of label ids whether anybody reads them.
        """
        label = self._label_ids(tuples.label[first : first + count])
        of_streams = self._of_streams(tuples, first, label)
        is_wanted = wanted(label)
        is_named, unread, edges = _NOBODY, _NOTHING, count
        if of_streams is not None:
            is_named = (of_streams >= 0).astype(np.uint8)
            is_named &= wanted(of_streams)
            unread = np.where(is_named != 0, np.int32(-1), of_streams)
            is_wanted = is_wanted | is_named
            edges += int(is_named.sum())
        fresh = np.zeros(0, np.int32)
        try:
            source, fresh = self.vertices.intern(tuples.source[first : first + count], is_wanted)
            target, more = self.vertices.intern(tuples.target[first : first + count], is_wanted)
            fresh = np.concatenate([fresh, more])
            self._make_room(edges, fresh)
        except BaseException:
            # No worker may have been told about them: they are new again the next time.
            self.vertices.release(fresh)
            raise
        self.interned += len(fresh)
        chunk = Chunk(
            source=source,
            target=target,
            label=label,
            timestamp=tuples.timestamp[first : first + count],
            delete=tuples.delete[first : first + count],
            edge=np.empty(count, np.int32),
        )
        named = None
        if edges > count:
            assert of_streams is not None
            labels = np.where(is_named != 0, of_streams, label)
            named = chunk._replace(label=labels, edge=np.empty(count, np.int32))
        return Taken(chunk, named, is_named, unread)

    def _of_streams(self, tuples: Columns, first: int, label: np.ndarray) -> np.ndarray | None:
        """The ids (int32) of the labels of tuples in their streams, -1 for those without one; None where none has one."""
        if tuples.stream is None:
            return None
        found, new = label_ids_in_streams(tuples.stream[first : first + len(label)], label, self.labels)
        if new:
            self._admit_labels(np.array(new))
        return found

    def add_label(self, label: str) -> int:
        """The id of a label that has none."""
        number = self.labels.add(label)
        self._admit_labels(np.array([number]))
        return number

    def ends(
        self, source: int | str, target: int | str, needs_room: Callable[[list[int]], bool]
    ) -> tuple[int, int]:
        """The ids of the ends of one tuple, for which room is made where the new ones among them need it."""
        fresh: list[int] = []
        try:
            u, is_new = self.vertices.intern_one(source)
            if is_new:
                fresh.append(u)
            v, is_new = self.vertices.intern_one(target)
            if is_new:
                fresh.append(v)
            if needs_room(fresh):
                self._make_room(1, np.array(fresh, np.int32))
        except BaseException:
            self.vertices.release(np.array(fresh, np.int32))
            raise
        self.interned += len(fresh)
        return u, v

    def holds_unused_names(self, edges: int) -> bool:
        """Whether late tuples and deletes of absent edges, which bring names too, may have filled the dictionary."""
        return self.interned > max(4 * self._capacity, edges // 2, self.vertices.live // 2)

    def _label_ids(self, label: pa.DictionaryArray) -> np.ndarray:
        ids, new = self.labels.intern(label)
        if new:
            self._admit_labels(np.array(new))
        return ids
