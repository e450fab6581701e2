"""The roots of trees that several queries share: which vertices they are, and which queries read their rows.

`RootReaders` has for each root a list of the queries that named it, one after the other in an array; the rows that an index
reports are dealt out by it, each event cut into one for each query (`deal`). `NamedRoots` maps the names of roots to
vertices. A name may have no vertex yet, and an id that a vertex had may be given to another one when it has left every
window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.language.options import Vertex
from rpq.stream.names.vertices import VertexDictionary

_NOBODY = np.zeros(0, np.int32)


class DealtRows(NamedTuple):
    """The rows of events by reader: part i ends at `end[i]`, and has rows of event `event[i]` for `reader[i]`."""

    pairs: np.ndarray  # int64
    end: np.ndarray  # int64 a part
    event: np.ndarray  # int64 a part: its place among the events
    reader: np.ndarray  # int32 a part


class RootReaders:
    """The readers of each root, which is a vertex id; readers are small numbers."""

    def __init__(self) -> None:
        self._first = np.zeros(0, np.int64)  # a vertex: where its readers begin
        self._count = np.zeros(0, np.int32)  # a vertex
        self._flat = np.zeros(16, np.int32)
        self._used = 0
        self._live = 0  # entries in use, without the ones left over from before a change
        self._scratch = np.full(0, -1, np.int64)  # a reader: the last of its rows in the event

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._first.nbytes + self._count.nbytes + self._flat.nbytes + self._scratch.nbytes

    def make_room(self, vertices: int, readers: int) -> None:
        """Make room for vertex ids and readers up to these numbers. O(vertices) when there are more, amortised."""
        if (more := vertices - len(self._first)) > 0:
            self._first = np.concatenate([self._first, np.zeros(more, np.int64)])
            self._count = np.concatenate([self._count, np.zeros(more, np.int32)])
        if readers > len(self._scratch):
            self._scratch = np.full(max(16, 2 * readers), -1, np.int64)

    def of(self, root: int) -> np.ndarray:
        """Return the readers of a root. O(1)."""
        first = self._first.item(root)
        return self._flat[first : first + self._count.item(root)]

    def has(self, roots: np.ndarray) -> np.ndarray:
        """Return which of some roots have a reader (boolean)."""
        is_read: np.ndarray = self._count[roots] > 0
        return is_read

    @property
    def unread(self) -> np.ndarray:
        """True if a vertex has no reader, for every vertex (boolean). O(vertices)."""
        is_unread: np.ndarray = self._count == 0
        return is_unread

    def add(self, root: int, readers: Iterable[int]) -> None:
        """Add readers of the rows of a root. O(its readers), amortised."""
        self._put(root, np.concatenate([self.of(root), np.fromiter(readers, np.int32)]))

    def remove(self, root: int, reader: int) -> None:
        """Remove a reader of the rows of a root. O(readers of the root)."""
        old = self.of(root)
        old[: len(old) - 1] = old[old != reader]  # the order of registering stays
        self._count[root] -= 1
        self._live -= 1

    def forget(self, root: int) -> None:
        """Forget the readers of an id that is another vertex now."""
        self._live -= self._count.item(root)
        self._count[root] = 0

    def _put(self, root: int, readers: np.ndarray) -> None:
        self.forget(root)
        if self._used + len(readers) > len(self._flat):
            self._compact(len(readers))
        self._flat[self._used : self._used + len(readers)] = readers
        self._first[root], self._count[root] = self._used, len(readers)
        self._used += len(readers)
        self._live += len(readers)

    def _compact(self, more: int) -> None:
        roots = np.flatnonzero(self._count)
        readers = [self.of(root) for root in roots.tolist()]
        counts = self._count[roots].astype(np.int64)
        flat = np.zeros(max(16, 2 * (self._live + more)), np.int32)
        flat[: self._live] = np.concatenate([_NOBODY, *readers])
        self._first[roots] = np.cumsum(counts) - counts
        self._flat, self._used = flat, self._live

    def deal(self, pairs: np.ndarray, ends: np.ndarray, kinds: np.ndarray, counts: np.ndarray) -> DealtRows:
        """Return the rows (root << 32 | end) of events, which end there, by who reads them. O(rows dealt).

        Those that events of a kind (1 added, -1 removed) bring are counted in `counts` (int64, reader × [added, removed]).
        """
        if len(pairs) == 1:  # as of most tuples that come alone
            readers = self.of(int(pairs[0]) >> 32)
            counts[readers, 0 if kinds[0] > 0 else 1] += 1
            count = len(readers)
            return DealtRows(pairs.repeat(count), np.arange(1, count + 1), np.zeros(count, np.int64), readers)
        total, largest = count_dealt(pairs, ends, self._count)
        dealt = DealtRows(
            np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int32)
        )
        chain = np.empty((largest, 2), np.int64)
        read = self._first, self._count, self._flat
        parts = deal_rows(pairs, ends, kinds, *read, self._scratch, chain, dealt, counts)
        return DealtRows(dealt.pairs, dealt.end[:parts], dealt.event[:parts], dealt.reader[:parts])

    def _check(self) -> None:
        """Assert the invariants. O(vertices)."""
        assert self._live == int(self._count.sum()), "readers were not counted well"
        assert (self._first + self._count <= self._used)[self._count > 0].all(), "readers lie outside"
        assert (self._scratch == -1).all(), "an event was not brought to its end"


@njit(cache=True, nogil=True)
def count_dealt(pairs, ends, count):
    """Return the number of rows for all readers together, and the largest number of one event."""
    total, largest, row = np.int64(0), np.int64(0), np.int64(0)
    for event in range(len(ends)):
        before = total
        while row < ends[event]:
            total += np.int64(count[pairs[row] >> 32])
            row += 1
        largest = max(largest, total - before)
    return total, largest


@njit(cache=True, nogil=True)
def deal_rows(pairs, ends, kinds, first, count, flat, last, chain, dealt, counts):
    """Write the rows of each event reader by reader, in the order of their first rows; return the number of parts."""
    parts, out, row = np.int64(0), np.int64(0), np.int64(0)
    for event in range(len(ends)):
        # A list of the rows of each reader, linked through `chain` (pair, next), and with its last entry in `last`; what
        # begins a list is marked by writing its reader to the part that it will be.
        length, begun = np.int64(0), parts
        while row < ends[event]:
            root = pairs[row] >> 32
            for place in range(first[root], first[root] + np.int64(count[root])):
                reader = np.int64(flat[place])
                chain[length, 0] = pairs[row]
                chain[length, 1] = -1
                if last[reader] < 0:
                    dealt.reader[parts] = reader
                    dealt.event[parts] = event
                    dealt.end[parts] = length  # where the list begins, for now
                    parts += 1
                else:
                    chain[last[reader], 1] = length
                last[reader] = length
                length += 1
            row += 1
        sign = 0 if kinds[event] > 0 else 1
        for part in range(begun, parts):
            entry = dealt.end[part]
            before = out
            while entry >= 0:
                dealt.pairs[out] = chain[entry, 0]
                out += 1
                entry = chain[entry, 1]
            dealt.end[part] = out
            last[dealt.reader[part]] = -1
            counts[dealt.reader[part], sign] += out - before
    return parts


class NamedRoots:
    """Names of roots, with their vertices and readers; readers are small numbers."""

    def __init__(self) -> None:
        self.readers = RootReaders()
        """By vertex."""
        self._of_name: dict[Vertex, list[int]] = {}  # readers
        self._id_of: dict[Vertex, int] = {}  # the vertices that names are or were last
        self._name_of: dict[int, Vertex] = {}  # and the other way round

    def __bool__(self) -> bool:
        """Return whether any is named."""
        return bool(self._of_name)

    @property
    def vertex_count(self) -> int:
        """The number of roots that are vertices."""
        return len(self._name_of)

    def ids(self, names: Iterable[Vertex]) -> np.ndarray:
        """Return the vertices (int64) that some of these names are. O(names)."""
        found = [self._id_of[name] for name in names if name in self._id_of]
        return np.array(found, np.int64)

    def name_of(self, root: int) -> Vertex | None:
        """Return the name by which a vertex is a root, if it is one."""
        return self._name_of.get(root)

    def add(self, names: Iterable[Vertex], reader: int) -> None:
        """Add a reader of vertices by their names; `add_vertices` and `set_vertex` assign ids to names without one.

        A name may have the id of a vertex that has left: this has its reader, too, as `remove` expects. O(names, and their
        readers).
        """
        for name in names:
            self._of_name.setdefault(name, []).append(reader)
            if (root := self._id_of.get(name)) is not None:
                self.readers.add(root, [reader])

    def remove(self, names: Iterable[Vertex], reader: int) -> int:
        """Remove a reader of these names; return how many vertices have no reader now. O(names, and their readers)."""
        unread = 0
        for name in names:
            readers = self._of_name[name]
            readers.remove(reader)
            if (root := self._id_of.get(name)) is not None:
                self.readers.remove(root, reader)
            if readers:
                continue
            del self._of_name[name]
            if root is not None:
                del self._name_of[root], self._id_of[name]
                unread += 1
        return unread

    def add_vertices(self, vertices: VertexDictionary, new_ids: np.ndarray) -> np.ndarray:
        """Note which of the vertices `new_ids` are roots. Return these (int64). O(the fewer of the two)."""
        if len(new_ids) < len(self._of_name):
            names = vertices.names_of(new_ids).to_pylist()
            new_roots = [(root, name) for root, name in zip(new_ids.tolist(), names, strict=True) if name in self._of_name]
        else:
            ids = [(vertices.id_of(name), name) for name in self._of_name]
            new_roots = [(root, name) for root, name in ids if root >= 0 and root not in self._name_of]
        for root, name in new_roots:
            self._name(root, name)
        return np.array([root for root, _ in new_roots], np.int64)

    def set_vertex(self, root: int, name: Vertex) -> None:
        """Note that a vertex is a root, by this name."""
        if self._id_of.get(name) != root:
            self._name(root, name)

    def forget(self, ids: np.ndarray) -> None:
        """Forget the roots among these ids, which are other vertices now."""
        for root in ids[self.readers.has(ids)].tolist():
            self._forget(root)

    def _name(self, root: int, name: Vertex) -> None:
        """Note that an id is the vertex of that name now, which is a root."""
        if (before := self._id_of.get(name)) is not None:
            self._forget(before)
        self._id_of[name], self._name_of[root] = root, name
        self.readers.add(root, self._of_name[name])

    def _forget(self, root: int) -> None:
        """Forget a root whose id is another vertex now, or whose vertex has another id."""
        del self._id_of[self._name_of.pop(root)]
        self.readers.forget(root)

    def _check(self, names_of_readers: Mapping[int, Collection[Vertex]]) -> None:
        """Assert the invariants; `names_of_readers` maps each reader to its names."""
        self.readers._check()
        assert {root: name for name, root in self._id_of.items()} == self._name_of, "a root has another name"
        for name, root in self._id_of.items():
            assert sorted(self.readers.of(root).tolist()) == sorted(self._of_name[name]), "a root is read by others"
        pairs = {(name, reader) for reader, names in names_of_readers.items() for name in names}
        assert pairs == {(name, reader) for name, readers in self._of_name.items() for reader in readers}
