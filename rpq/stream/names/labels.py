"""The dictionary of labels: names to dense ids and back, holding those of the window and the latest of the others.

A label is needed while an edge in the window bears it. Of a label that none bears the engine would like to remember
when an insert of it was last lost, because a query that is registered later must know; this is done for the `remembered`
labels with the latest losses. Of all others one number is left, `forgotten`: so a stream that never stops
inventing labels takes no more memory than its window, and a new label costs the same whatever came before. Labels of
named streams (`stream_labels.py`) are labels like others, but for these one number of their own is left.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array
from rpq.stream.names.stream_labels import LabelName, StreamLabel, text_of

NEVER_LOST = int(np.iinfo(np.int64).min)


class LabelDictionary:
    """Label names and their ids, which are given out again.

    `forgotten` is the largest timestamp of a lost insert of a label that the dictionary holds no more,
    `forgotten_of_streams` of one of a named stream.
    """

    def __init__(self, *, remembered: int = 4096) -> None:
        self.ids: dict[LabelName, int] = {}
        self.names: list[LabelName] = []  # by id; "" where the id is free
        self.forgotten = NEVER_LOST
        self.forgotten_of_streams = NEVER_LOST
        self._has_others = False
        self._remembered = remembered
        self._free: list[int] = []
        self._count_after_forget = 0  # by the last `forget`

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
        self._has_others |= not isinstance(name, str)
        return number

    @property
    def texts(self) -> list[str]:
        """The labels by id, as the tuples have them. O(1) where none is of a named stream or has a condition."""
        return list(map(text_of, self.names)) if self._has_others else self.names  # type: ignore[return-value]

    def intern(self, column: pa.DictionaryArray) -> tuple[np.ndarray, list[int]]:
        """Return the ids (int32) of a column of names without nulls, and those of them that are new. O(rows)."""
        codes = numpy_array(column.indices)
        dictionary = column.dictionary
        if len(dictionary) > len(codes):
            used, codes = np.unique(codes, return_inverse=True)
            dictionary = dictionary.take(arrow_array(used))
        names = dictionary.to_pylist()
        known = self.ids
        ids = np.fromiter((known.get(name, -1) for name in names), np.int32, len(names))
        new: list[int] = []
        if len(ids) and ids.min() < 0:
            for code in np.unique(codes).tolist():  # a dictionary may hold names that no row has
                if ids[code] < 0:
                    before = len(known)
                    ids[code] = self.add(names[code])
                    if len(known) > before:
                        new.append(int(ids[code]))
        return ids[codes], new

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
        gone = idle[order[self._remembered :]].tolist()
        for number in gone:
            name = self.names[number]
            if isinstance(name, StreamLabel):
                self.forgotten_of_streams = max(self.forgotten_of_streams, int(lost[number]))
            else:
                self.forgotten = max(self.forgotten, int(lost[number]))
            del self.ids[name]
            self.names[number] = ""
        self._free += gone
        self._count_after_forget = len(self.ids)
        return gone

    def _check(self) -> None:
        """Assert that names, ids and free ids agree."""
        assert len(set(self._free)) == len(self._free), "an id is free twice"
        assert sorted([*self.ids.values(), *self._free]) == list(range(len(self.names))), "an id is neither free nor used"
        assert all(self.names[number] == name for name, number in self.ids.items()), "a name and its id differ"
