"""The dictionary of labels: names to dense ids and back, holding those of the window and the latest of the others.

A label is needed while an edge in the window bears it. For a query that is registered later, the engine has to know when an
insert of a label that no edge bears was last lost. The dictionary remembers this for the `remembered` labels with the latest
losses, and for all others together in one number, `forgotten`. A stream that never stops inventing labels therefore takes no
more memory than its window, and a new label costs the same whatever came before. Labels of named streams
(`stream_labels.py`) are labels like others, but have such a number of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound
from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array
from rpq.stream.names.stream_labels import LabelName, NodeLabel, StreamLabel, text_of
from rpq.stream.names.vertices import VertexDictionary, find_text

NEVER_LOST = int(np.iinfo(np.int64).min)

_UNKNOWN = -2
"""In place of the id of a label in a stream that was not looked up."""
_MAX_KNOWN = 1 << 16
"""The most pairs of a stream and a label whose ids are in a table."""
_FEW_STREAMS = 64
"""Up to this number of streams, all of them are looked up, not only those of a column."""


class _Texts:
    """The different texts of columns so far, in the order in which they came."""

    def __init__(self) -> None:
        self._places: VertexDictionary | None = None
        self.names: list[str] = []

    @property
    def view(self) -> Any:
        """The texts and their places as kernels find them; None before the first text."""
        return None if self._places is None else self._places.view

    def intern(self, column: pa.Array) -> tuple[np.ndarray, list[str]]:
        """Return the places (int32) of the texts of an array of string without nulls, and the new texts. O(length)."""
        if self._places is None:
            self._places = VertexDictionary(capacity=16)
        places, new_ids = self._places.intern(column, np.ones(len(column), np.uint8))
        names = self._places.names_of(new_ids).to_pylist() if len(new_ids) else []
        self.names += names
        return places, names


class ReadLabels(NamedTuple):
    """The labels of tuples, and which of them are read: arrays with an entry for each tuple."""

    label: np.ndarray
    """int32: the id of its label."""
    has_reader: np.ndarray
    """uint8: whether its label is read, in the merged stream or in its own."""
    of_streams: np.ndarray | None
    """int32: the id of its label in its stream, -1 without one; None where no tuple has a stream."""
    is_named: np.ndarray
    """uint8: whether that label is read; empty where no tuple has a stream."""
    unread: np.ndarray
    """int32: that label if it is not read, else -1; empty where there is none."""
    named: int
    """The number of tuples whose label in their stream is read."""


class LabelDictionary:
    """Label names and their ids, which are reused.

    `forgotten` is the largest timestamp of a lost insert of a label that the dictionary no longer contains, and
    `forgotten_of_streams` the same for labels of named streams.
    """

    def __init__(self, *, remembered: int = 4096) -> None:
        self.ids: dict[LabelName, int] = {}
        self.names: list[LabelName] = []  # by id; "" where the id is free
        self.forgotten = NEVER_LOST
        self.forgotten_of_streams = NEVER_LOST
        self.changes = 0
        """The number of times that labels came or went."""
        self._has_others = False
        self._remembered = remembered
        self._free: list[int] = []
        self._count_after_forget = 0  # the number of labels after the last `forget`
        self._streams: dict[str | None, int] = {}  # names of streams to rows of the table
        self._in_streams = np.zeros((0, 0), np.int32)  # ids of labels in streams, by the ids of labels
        self._rows_of_texts = np.zeros(0, np.int64)  # rows of streams by their places in `_texts_of_streams`
        self._read: Any = None
        self._texts, self._texts_of_streams = _Texts(), _Texts()
        self._ids_of_texts = np.zeros(0, np.int32)  # ids of labels by their places in `_texts`

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def room(self) -> int:
        """The number below which every id is."""
        return len(self.names)

    def add(self, name: LabelName) -> int:
        """Return the id of a name, a new one if it has none. O(1)."""
        number = self.ids.get(name, -1)
        if number >= 0:
            return number
        if self._free:
            number = self._free.pop()
            self.names[number] = name
        else:
            number = len(self.names)
            self.names.append(name)
        self.ids[name] = number
        self.changes += 1
        self._has_others |= not isinstance(name, str)
        return number

    def are_facts(self) -> np.ndarray:
        """Return which label ids are those of facts of nodes (bool, at least one entry). O(ids)."""
        return np.array([isinstance(name, NodeLabel) for name in self.names] or [False])

    @property
    def texts(self) -> list[str]:
        """The labels by id, as the tuples have them. O(1) where none is of a named stream or has a condition."""
        return list(map(text_of, self.names)) if self._has_others else self.names  # type: ignore[return-value]

    def intern(self, column: pa.Array) -> tuple[np.ndarray, list[int]]:
        """Return the ids (int32) of a column of names without nulls, and those of them that are new. O(rows).

        The column is an array of string, or a dictionary of these.
        """
        if not pa.types.is_dictionary(column.type):
            return self._intern_texts(column)
        codes = numpy_array(column.indices)
        dictionary = column.dictionary
        if len(dictionary) > len(codes):
            used, codes = np.unique(codes, return_inverse=True)
            dictionary = dictionary.take(arrow_array(used))
        names = dictionary.to_pylist()
        id_of_name = self.ids
        ids = np.fromiter((id_of_name.get(name, -1) for name in names), np.int32, len(names))
        new: list[int] = []
        if len(ids) and ids.min() < 0:
            occurs = np.zeros(len(names), bool)  # a dictionary may hold names that no row has
            occurs[codes] = True
            for code in np.flatnonzero(occurs).tolist():
                if ids[code] < 0:
                    before = len(id_of_name)
                    ids[code] = self.add(names[code])
                    if len(id_of_name) > before:
                        new.append(int(ids[code]))
        return ids[codes], new

    def _intern_texts(self, column: pa.Array) -> tuple[np.ndarray, list[int]]:
        """Intern an array of strings. If all labels are known, which is the usual case, Python examines none of them."""
        places, new_texts = self._texts.intern(column)
        new_labels: list[int] = []
        if new_texts:
            ids_of_texts = []
            for name in new_texts:
                count_before = len(self.ids)
                ids_of_texts.append(self.add(name))
                if len(self.ids) > count_before:
                    new_labels.append(ids_of_texts[-1])
            self._ids_of_texts = np.concatenate([self._ids_of_texts, np.array(ids_of_texts, np.int32)])
        return self._ids_of_texts[places], new_labels

    def read_labels(self, texts: Any, count: int, *, has_streams: bool, is_read: np.ndarray) -> ReadLabels | None:
        """Return the labels of tuples, the view of `TupleTexts`; `is_read` says of a label id whether any query reads it.

        None where a label, or one in a stream, has no id, or where there are many streams.
        """
        of_labels, of_streams = self._texts.view, self._texts_of_streams.view
        if of_labels is None or (has_streams and of_streams is None):
            return None
        label, in_streams, unread = np.empty((3, count), np.int32)
        has_reader, is_named = np.empty((2, count), np.uint8)
        arguments = (
            texts, of_labels, of_streams if has_streams else of_labels, self._ids_of_texts, self._rows_of_texts,
            self._in_streams, has_streams, is_read, label, in_streams, unread, has_reader, is_named,
        )  # fmt: skip
        if self._read is None:
            self._read = bound(_read_labels, *arguments)
        named, others = self._read(*arguments)
        if named < 0:
            return None
        if not has_streams:
            return ReadLabels(label, has_reader, None, is_named[:0], unread[:0], 0)
        return ReadLabels(label, has_reader, in_streams, is_named, unread if others else unread[:0], named)

    def intern_in_streams(self, streams: pa.Array, label: np.ndarray) -> tuple[np.ndarray | None, list[int]]:
        """Return the ids (int32) of labels in the streams of their tuples, -1 where a tuple has none, and the new ones.

        `streams` are texts, null for none; `label` are the ids of the labels in the merged stream. None where no tuple has a
        stream. O(tuples), and O(tuples log tuples) where there are many streams and labels.
        """
        if streams.null_count == len(streams):
            return None, []
        names: list[str | None]
        if not streams.null_count and pa.types.is_string(streams.type) and len(self._texts_of_streams.names) < _FEW_STREAMS:
            codes, _ = self._texts_of_streams.intern(streams)
            names = [*self._texts_of_streams.names]
            are_texts = True
        else:
            are_texts = False
            encoded = streams if pa.types.is_dictionary(streams.type) else streams.dictionary_encode()
            names = [*encoded.dictionary.to_pylist(), None]  # the last one for tuples without a stream
            indices = encoded.indices
            codes = numpy_array(indices.fill_null(len(names) - 1) if indices.null_count else indices)
        if len(names) * self.room > _MAX_KNOWN:
            pairs, places = np.unique(codes.astype(np.int64) * self.room + label, return_inverse=True)
            different, new = self._add_in_streams([names[pair // self.room] for pair in pairs.tolist()], pairs % self.room)
            return different[places], new
        rows_of_names = self._rows_of_streams(names)
        if are_texts:
            self._rows_of_texts = rows_of_names
        rows = rows_of_names[codes]
        ids = self._in_streams[rows, label]
        new = []
        if ids.min() == _UNKNOWN:
            of_rows, unknown = [*self._streams], ids == _UNKNOWN
            pairs = np.unique(np.stack([rows[unknown], label[unknown]]), axis=1)
            found, new = self._add_in_streams([of_rows[row] for row in pairs[0].tolist()], pairs[1])
            self._in_streams[*pairs] = found
            ids = self._in_streams[rows, label]
        return ids, new

    def _rows_of_streams(self, names: Sequence[str | None]) -> np.ndarray:
        """Return the rows of streams in the table, in which there is room for all labels."""
        streams, room = self._streams, self._in_streams.shape[1]
        if room < self.room or not streams.keys() >= {*names}:
            room = max(room, self.room + self.room // 2)
            if len({*streams, *names}) * room > _MAX_KNOWN:
                self._forget_rows()
                room = self.room
            for name in names:
                streams.setdefault(name, len(streams))
            self._in_streams = np.full((len(streams), room), _UNKNOWN, np.int32)
        return np.array([streams[name] for name in names])

    def _forget_rows(self) -> None:
        self._streams.clear()
        self._rows_of_texts = np.zeros(0, np.int64)

    def _add_in_streams(self, streams: Sequence[str | None], labels: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Return the ids (int32) of labels in streams, -1 without a stream, and the new ones of them."""
        ids, new = np.full(len(streams), -1, np.int32), []
        for place, (stream, label) in enumerate(zip(streams, labels.tolist(), strict=True)):
            if stream is not None:
                label_count = len(self.ids)
                ids[place] = self.add(StreamLabel(text_of(self.names[label]), stream))
                if len(self.ids) > label_count:
                    new.append(int(ids[place]))
        return ids, new

    def wants_to_forget(self) -> bool:
        """Return whether enough labels came since the last time to pay for examining all of them."""
        return len(self.ids) > 2 * max(self._remembered, self._count_after_forget)

    def forget(self, edges: np.ndarray, lost: np.ndarray) -> list[int]:
        """Forget labels that no edge bears, but for those with the latest losses; return the ids that are free now.

        `edges` (an id) counts the edges with that label, `lost` is the largest timestamp of a lost insert. O(labels).
        """
        if len(self.ids) <= self._remembered:
            return []
        used = np.fromiter(self.ids.values(), np.int64, len(self.ids))
        idle = used[edges[used] == 0]
        if self._has_others:  # what is known of a label is known by its id in the merged stream
            borne = {text_of(self.names[number]) for number in used[edges[used] > 0].tolist()}
            idle = np.array([number for number in idle.tolist() if self.names[number] not in borne], np.int64)
        order = np.argsort(lost[idle], kind="stable")[::-1]  # the least integer, no loss, cannot be negated
        free_ids = idle[order[self._remembered :]].tolist()
        for number in free_ids:
            name = self.names[number]
            if isinstance(name, StreamLabel):
                self.forgotten_of_streams = max(self.forgotten_of_streams, int(lost[number]))
            else:
                self.forgotten = max(self.forgotten, int(lost[number]))
            del self.ids[name]
            self.names[number] = ""
        self._free += free_ids
        if free_ids:
            self.changes += 1
            self._forget_rows()
            self._texts, self._ids_of_texts = _Texts(), np.zeros(0, np.int32)
        self._count_after_forget = len(self.ids)
        return free_ids

    def _check(self) -> None:
        """Assert that names, ids and free ids agree."""
        assert len(set(self._free)) == len(self._free), "an id is free twice"
        assert sorted([*self.ids.values(), *self._free]) == list(range(len(self.names))), "an id is neither free nor used"
        assert all(self.names[number] == name for name, number in self.ids.items()), "a name and its id differ"
        of_texts = [self.ids.get(name) for name in self._texts.names]
        assert self._ids_of_texts.tolist() == of_texts, "a text has the id of another label"
        for stream, row in self._streams.items():
            labels = np.flatnonzero(self._in_streams[row] != _UNKNOWN).tolist()
            names = [-1 if stream is None else self.ids[StreamLabel(text_of(self.names[label]), stream)] for label in labels]
            assert self._in_streams[row, labels].tolist() == names, "the table has another id of a label in a stream"


@njit(cache=True, nogil=True, forceinline=True)
def _place_of(names, ends, texts, row):
    """Return the place of the text of a row among names, or -1."""
    start = np.int64(ends[row])
    return find_text(names, texts, start, np.int64(ends[row + 1]) - start)


@njit(cache=True, nogil=True)
def _read_labels(
    texts, labels, streams, ids_of_texts, rows_of_texts, table, has_streams, is_read,
    label, in_streams, unread, has_reader, is_named,
):  # fmt: skip
    """Write the fields of `ReadLabels`; return the numbers of named and of unread tuples, (-1, 0) if a label has no id."""
    named, others = 0, 0
    for row in range(len(label)):
        place = _place_of(labels, texts.label_ends, texts.label, row)
        if place < 0:
            return -1, 0
        number = ids_of_texts[place]
        label[row] = number
        has_reader[row] = is_read[number] != 0
        if not has_streams:
            continue
        stream = _place_of(streams, texts.stream_ends, texts.stream, row)
        if stream < 0 or stream >= len(rows_of_texts) or number >= table.shape[1]:
            return -1, 0
        in_stream = table[rows_of_texts[stream], number]
        if in_stream == _UNKNOWN:
            return -1, 0
        in_streams[row] = in_stream
        is_named[row] = in_stream >= 0 and is_read[in_stream] != 0
        unread[row] = -1 if is_named[row] else in_stream
        has_reader[row] |= is_named[row]
        named += is_named[row]
        others += unread[row] >= 0
    return named, others
