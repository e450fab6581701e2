"""The dictionary of vertex names: it maps names to dense ids and back, and contains only the names in use.

Ids index every array of the engine, so they are dense and used again: a vertex without an edge in the window
gives its id back (`release`). Names are 64-bit integers or text, one of the two for the life of a
dictionary. Text lies as UTF-8 in one arena; a hash table (`rpq/compiled/arrays/hashing.py`) maps names to ids. Nothing is
deleted from table or arena one by one: `release` builds the table anew and closes the gaps of the arena
once half of it is garbage, which is amortised O(1) a name.

The hash by which vertices are divided (`hashes`) is a fixed function of the name, the same in every process and version. The
hash of the table is private to it: that of a text takes eight bytes at a time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import (
    clear,
    first_candidate,
    home_of,
    id_at,
    ids_in,
    mix,
    new_table,
    next_candidate,
    put,
    put_new,
    table_size,
)
from rpq.compiled.arrays.lengthening import lengthen, lengthen_fields
from rpq.compiled.intrinsics import half_word_at, prefetch_at, word_at, wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, bound, int64, view
from rpq.errors import InputError
from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array, text_offsets
from rpq.stream.names.edge_vertices import EdgeVertices


class NameCounts(Record):
    """The ids given out, and the lengths of the arrays."""

    _fields_ = (
        ("count", int64),  # ids given out so far (high water)
        ("free", int64),  # entries in the stack of free ids
        ("arena", int64),  # bytes used in the arena
        ("garbage", int64),  # of them, bytes of names that were released
        ("table", int64),  # entries of the hash table
        ("room", int64),  # ids that there are arrays for
        ("arena_room", int64),
    )


_LARGE = 1 << 18
"""Arrays of more entries grow by a quarter."""

_FNV_OFFSET = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8
"""Bytes."""
FREE = -1
NAMELESS = -2
"""In place of the length of a name: of an id that is free, and of one that is an edge (`rpq.stream.names.edge_vertices`)."""
_TOGETHER = 16
"""Names whose hashes are found together."""
_FEW_NAMES = 16
"""The number of names from which on a column is cheaper than a lookup of each."""
_MAX_REMEMBERED = 1 << 15
"""The limit of names that are held as Python objects too."""


class NameArrays(NamedTuple):
    """The arrays of a dictionary; `number` for integer names, `hash`, `start`, `length` and `arena` for text."""

    hash: np.ndarray  # uint32 an id: the upper half of that of the table; it grows only in a dictionary of text
    number: np.ndarray  # int64 an id; it does not grow in a dictionary of text
    start: np.ndarray  # int64 an id; it grows only in a dictionary of text
    length: np.ndarray  # int32 an id; FREE for an id that is free, NAMELESS for one that has no name
    arena: np.ndarray  # uint8
    table: np.ndarray  # int32: from hashes to ids, see `rpq/compiled/arrays/hashing.py`
    free: np.ndarray  # int32, stack; it grows when names are released
    fields: NameCounts


_MAX_DIGITS = 20
"""The length of the longest text of an integer of 64 bits."""


def as_vertex(name: str, kind: str | None) -> int | str:
    """Return a name as a vertex of a stream: where vertices are of kind "int64", the integer with that text, if it has one.

    >>> as_vertex("7", "int64"), as_vertex("07", "int64"), as_vertex("7", "string")
    (7, '07', '7')
    """
    if kind != "int64" or len(name) > _MAX_DIGITS or not name.removeprefix("-").isdecimal() or str(int(name)) != name:
        return name
    return int(name) if -(1 << 63) <= int(name) < 1 << 63 else name


class VertexDictionary:
    """Vertex names and their ids.

    `kind` is "int64" or "string" once the first name was seen, None before.
    """

    def __init__(self, *, capacity: int = 1024) -> None:
        self.kind: str | None = None
        self.edges = EdgeVertices()
        """The edges whose ids have no name."""
        self._intern_one: Any = None
        self._intern_ends: Any = None
        self._find: Any = None
        # The names of ids in use that were read or given lately, by id; `_is_remembered` says which are there.
        self._objects, self._is_remembered = np.empty(0, object), np.zeros(0, bool)
        self._remembered = 0
        self.names = NameArrays(
            hash=np.zeros(capacity, np.uint32),
            number=np.zeros(capacity, np.int64),
            start=np.zeros(capacity, np.int64),
            length=np.full(capacity, -1, np.int32),
            arena=np.zeros(16 * capacity, np.uint8),
            table=new_table(capacity),
            free=np.zeros(capacity, np.int32),
            fields=NameCounts(),
        )

    @property
    def names(self) -> NameArrays:
        """The arrays of the graph; assigning them replaces all."""
        return self._names

    @names.setter
    def names(self, names: NameArrays) -> None:
        names.fields.table = len(names.table)
        names.fields.room = len(names.length)
        names.fields.arena_room = len(names.arena)
        self._names = names
        self._view = view(names)

    @property
    def view(self) -> Any:
        """The view of `names`."""
        return self._view

    @property
    def count(self) -> int:
        """The number of ids given out so far: every id is below."""
        return self.names.fields.count

    @property
    def room(self) -> int:
        """The number of ids that there is room for: every id is below."""
        return len(self.names.length)

    @property
    def live(self) -> int:
        """The number of names in the dictionary now."""
        return int(self.names.fields.count - self.names.fields.free)

    @property
    def nbytes(self) -> int:
        """The number of bytes held, but for the Python objects of names."""
        return sum(array.nbytes for array in self.names) + self._objects.nbytes + self._is_remembered.nbytes

    def intern(self, column: pa.Array, is_selected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of the names of a column, new ones given to new names.

        `column` is a string or int64 array without nulls; rows where `is_selected` is 0 get id -1. Returns
        the ids (int32) and the ids that are new. An empty column leaves `kind` open. O(total length).
        """
        kind = "int64" if pa.types.is_integer(column.type) else "string"
        if self.kind is None:
            self.kind = kind if len(column) else None
        elif self.kind != kind:
            raise InputError(
                f"vertices of type {kind} in a stream whose vertices are of type {self.kind}; "
                "one engine takes integers or text, not both"
            )
        ids = np.empty(len(column), np.int32)
        new_ids = np.empty(len(column), np.int32)
        row, new = 0, 0
        if kind == "int64":
            numbers = numpy_array(column).astype(np.int64, copy=False)
            while True:
                row, new = _intern_numbers(self._view, numbers, is_selected, ids, new_ids, row, new)
                if row == len(ids):
                    return ids, new_ids[:new]
                self._grow(expected=_estimate_new_names(new, row, len(ids)))
        offsets, data = _text_buffers(column)
        while True:
            row, new = _intern_text(self._view, offsets, data, is_selected, ids, new_ids, row, new)
            if row == len(ids):
                return ids, new_ids[:new]
            now, end = int(offsets[row]), int(offsets[-1])
            self._grow(
                text=int(offsets[row + 1]) - now,
                expected=_estimate_new_names(new, row, len(ids)),
                expected_text=(end - now) * new // max(1, row),
            )

    def intern_ends(self, texts: Any, is_selected: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids of sources and targets, views of `TupleTexts`, and the new ids; rows and ids as of `intern`."""
        count = len(is_selected)
        self.kind = "string"
        source, target, new_ids = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(2 * count, np.int32)
        place, new = 0, 0
        try:
            while True:
                arguments = self._view, texts, is_selected, source, target, new_ids, place, new
                if self._intern_ends is None:
                    self._intern_ends = bound(_intern_ends, *arguments)
                place, new, text = self._intern_ends(*arguments)
                if place == 2 * count:
                    return source, target, new_ids[:new]
                self._grow(text=text)
        except BaseException:
            self.release(new_ids[:new])
            raise

    def intern_one(self, name: int | str) -> tuple[int, bool]:
        """Return the id of a name of the dictionary's kind, and whether it is new. O(its length).

        Raises `UnicodeEncodeError` for a text that UTF-8 cannot hold.
        """
        key = name.encode() if isinstance(name, str) else name
        if self._intern_one is None:
            self.kind = "string" if isinstance(name, str) else "int64"
            self._intern_one = bound(_intern_one_text if isinstance(name, str) else _intern_one_number, self._view, key)
        while (code := self._intern_one(self._view, key)) < 0:
            self._grow(text=len(key) if isinstance(key, bytes) else 0)
        vertex = code >> 1
        if is_new := code & 1:
            self._remember_room(1)
            self._objects[vertex] = name
            self._is_remembered[vertex] = True
            self._remembered += 1
        return vertex, bool(is_new)

    def make_room(self, count: int) -> None:
        """Make room for so many new names of the present average length.

        Arrays that grow while names get ids are copied each time.
        """
        fields = self.names.fields
        if (missing := count - fields.free - self.room + self.count) > 0:
            self._add_ids(missing)
        text = count * int(fields.arena - fields.garbage) // max(1, self.live)
        if (missing := text + fields.arena - len(self.names.arena)) > 0:
            self._add_text(missing)

    def reserve(self, count: int) -> np.ndarray:
        """Return ids (int32) without a name, for edges that are vertices."""
        ids = np.empty(count, np.int32)
        done = 0
        while (done := _reserve(self._view, ids, done)) < count:
            self._grow()
        return ids

    def are_nameless(self, ids: np.ndarray) -> np.ndarray:
        """Return which ids have no name."""
        found: np.ndarray = self.names.length[ids] == NAMELESS
        return found

    def find(self, column: pa.Array, is_selected: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of the names of a column, -1 for names without one and where `is_selected` is 0.

        `column` is an array of the dictionary's kind without nulls. O(total length).
        """
        ids = np.empty(len(column), np.int32)
        if self.kind == "int64":
            numbers = numpy_array(column).astype(np.int64, copy=False)
            _find_numbers(self._view, numbers, is_selected, ids)
        else:
            _find_texts(self._view, *_text_buffers(column), is_selected, ids)
        return ids

    def name_of(self, vertex: int) -> int | str:
        """Return the name of an id."""
        if vertex < len(self._objects) and self._is_remembered.item(vertex):
            name: int | str = self._objects[vertex]
            return name
        if self.kind != "string":
            return int(self.names.number[vertex])
        start = int(self.names.start[vertex])
        return self.names.arena[start : start + int(self.names.length[vertex])].tobytes().decode()

    def names_of_few(self, ids: np.ndarray) -> np.ndarray:
        """Return the names of ids, which are in use, as an array of Python objects.

        O(ids, and the length of names that were not read lately).
        """
        if len(self._objects) < self.count or np.count_nonzero(self._is_remembered.take(ids)) < ids.size:
            self._remember(ids)
        return self._objects.take(ids)

    def _remember(self, ids: np.ndarray) -> None:
        """Remember the names of ids; others may be forgotten for these."""
        self._remember_room(ids.size)
        missing = [*{*ids[~self._is_remembered.take(ids)].tolist()}]
        if len(missing) < _FEW_NAMES:
            for vertex in missing:
                self._objects[vertex] = self.name_of(vertex)
        else:
            self._objects[missing] = self.names_of(np.array(missing)).to_pylist()
        self._is_remembered[missing] = True
        self._remembered += len(missing)

    def _remember_room(self, names: int) -> None:
        """Make room for this number of further names, if they belong to ids that were assigned."""
        if self._remembered + names > _MAX_REMEMBERED:
            self._forget_names(np.flatnonzero(self._is_remembered))
        if (more := len(self.names.length) - len(self._objects)) > 0:
            self._objects = np.concatenate([self._objects, np.empty(more, object)])
            self._is_remembered = lengthen(self._is_remembered, more)

    def _forget_names(self, ids: np.ndarray) -> None:
        """Forget the names of different ids, so far as they are remembered."""
        in_cache = ids[ids < len(self._objects)]
        self._remembered -= int(np.count_nonzero(self._is_remembered[in_cache]))
        self._objects[in_cache] = None
        self._is_remembered[in_cache] = False

    def names_of(self, ids: np.ndarray) -> pa.Array:
        """Return the names of ids, as an array of the type that they came in; any name for an id that is free.

        O(total length).
        """
        if self.kind != "string":
            return arrow_array(self.names.number[ids])
        lengths = np.maximum(self.names.length[ids], 0)
        total = int(lengths.sum(dtype=np.int64))
        # Two gigabytes and more need the wider offsets.
        array, width = (pa.StringArray, np.int32) if total < 1 << 31 else (pa.LargeStringArray, np.int64)
        offsets = np.zeros(len(ids) + 1, width)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(total, np.uint8)
        _gather_text(self._view, ids, offsets, data)
        return array.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(data))

    def hashes(self, ids: np.ndarray) -> np.ndarray:
        """Return the hashes (uint64) of the names of ids, the same in every process. O(total length)."""
        found = np.empty(len(ids), np.uint64)
        if self.kind == "string":
            _hashes_of_text(self._view, ids, found)
        else:
            _hashes_of_numbers(self._view, ids, found)
        return found

    def id_of(self, name: int | str) -> int:
        """Return the id of a name, -1 if it is not in the dictionary."""
        if self.kind == "int64":
            if not isinstance(name, (int, np.integer)) or not -(1 << 63) <= name < 1 << 63:
                return -1
            return self._find_one(_find_number, np.int64(name))
        if not isinstance(name, str):
            return -1
        try:
            data = np.frombuffer(name.encode(), np.uint8)
        except UnicodeEncodeError:  # a lone surrogate, which no name has
            return -1
        return self._find_one(find_text, data, 0, len(data))

    def _find_one(self, kernel: Any, *name: Any) -> int:
        if self._find is None:
            self._find = bound(kernel, self._view, *name)
        return int(self._find(self._view, *name))

    def ids_of(self, column: pa.Array) -> np.ndarray:
        """Return the ids (int32) of the names of a string array, -1 for those that are not in the dictionary, of text."""
        ids = np.empty(len(column), np.int32)
        _find_texts(self._view, *_text_buffers(column), np.ones(len(column), np.uint8), ids)
        return ids

    def release(self, unused: np.ndarray) -> None:
        """Remove ids and their names. O(names in the dictionary)."""
        if len(unused) == 0:
            return
        self._forget_names(unused)
        nameless = unused[self.are_nameless(unused)]
        if len(nameless):
            self.edges.forget(nameless)
        names = self.names
        if (more := names.fields.free + len(unused) - len(names.free)) > 0:
            self.names = lengthen_fields(names, more, free=0)
        _release(self._view, unused.astype(np.int32), self.kind == "string")
        fields = self.names.fields
        if fields.garbage * 2 > fields.arena:
            arena = np.zeros(max(1024, 3 * int(fields.arena - fields.garbage)), np.uint8)
            _pack_arena(self._view, arena)
            self.names = self.names._replace(arena=arena)

    def _grow(self, *, text: int = 0, expected: int = 0, expected_text: int = 0) -> None:
        """Make room for more names, at least one of `text` bytes. The other arguments are the expected numbers of names and
        bytes."""
        names = self.names
        if names.fields.free == 0 and names.fields.count == len(names.length):
            self._add_ids(max(8, expected))
        if names.fields.arena + text > len(names.arena):
            self._add_text(max(2 * text, expected_text))

    def _add_ids(self, needed: int) -> None:
        """Make room for further ids, `needed` or more."""
        names = self.names
        capacity = len(names.length)
        more = max(_growth(capacity), needed)
        of_texts = {} if self.kind == "int64" else {"hash": 0, "start": 0}
        of_numbers = {} if self.kind == "string" else {"number": 0}
        self.names = names = lengthen_fields(names, more, length=0, **of_texts, **of_numbers)
        if table_size(capacity + more) > len(names.table):
            self.names = names._replace(table=new_table(capacity + more))
            _fill_table(self._view, self.kind == "string")

    def _add_text(self, needed: int) -> None:
        """Make room for further bytes of text, `needed` or more."""
        names = self.names
        self.names = lengthen_fields(names, max(_growth(len(names.arena)), needed), arena=0)

    def _check(self) -> None:
        """Assert that table, ids, arena and free stack agree."""
        names, fields = self.names, self.names.fields
        free = names.free[: fields.free].tolist()
        used = sorted(set(range(self.count)) - set(free))
        assert len(set(free)) == len(free), "an id is free twice"
        assert all(names.length[i] == FREE for i in free), "a free id has a name"
        is_nameless = self.are_nameless(np.arange(self.count))
        self.edges._check(is_nameless)
        used = [i for i in used if not is_nameless[i]]
        assert all(names.length[i] >= 0 for i in used), "an id in use has no name"
        assert ids_in(names.table) == used, "the table and the ids in use differ"
        remembered = np.flatnonzero(self._is_remembered)
        assert {*remembered.tolist()} <= {*used}, "the name of a free id is remembered"
        assert len(remembered) == self._remembered, "remembered names are miscounted"
        assert self.names_of(remembered).to_pylist() == self._objects[remembered].tolist(), "another name is remembered"
        if self.kind is not None:
            for i in used:
                assert self.id_of(self.names_of(np.array([i]))[0].as_py()) == i, f"id {i} is not found by its name"


class FixedNames:
    """Names whose ids are asked for again and again, as text or, where vertices are integers, as these."""

    def __init__(self, names: Sequence[str], kind: str | None) -> None:
        vertices = [as_vertex(name, kind) for name in names]
        is_number = kind == "int64"
        self.kind = kind
        """The kind of the vertices."""
        self._is_selected = np.array([isinstance(vertex, int) == is_number for vertex in vertices], np.uint8)
        self._ids = np.full(len(names), -1, np.int32)
        self._find: Any = None
        if is_number:
            numbers = [vertex if isinstance(vertex, int) else 0 for vertex in vertices]
            self._names: tuple[np.ndarray, ...] = (np.array(numbers, np.int64),)
        else:
            texts = [name.encode() for name in names]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
            self._names = ends, np.frombuffer(bytearray(b"".join(texts) or b" "), np.uint8)

    def ids(self, vertices: VertexDictionary) -> np.ndarray:
        """Return the ids in a dictionary of that kind, -1 for names without one; the next call overwrites them."""
        arguments = vertices._view, *self._names, self._is_selected, self._ids
        if self._find is None:
            self._find = bound(_find_numbers if self.kind == "int64" else _find_texts, *arguments)
        self._find(*arguments)
        return self._ids


def _growth(size: int) -> int:
    """Return the number of entries by which arrays of a size grow: by half, or by a quarter if they are large."""
    return size // 2 if size < _LARGE else size // 4


def _estimate_new_names(new: int, rows: int, all_rows: int) -> int:
    """Return an estimate of the number of new names in the rest of a column, from the number in some rows.

    Without it, all arrays would be copied a dozen times in a push of millions.
    """
    return new * (all_rows - rows) // max(1, rows)


def _text_buffers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets (int32, one more than rows) and the bytes of a string array."""
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    data = column.buffers()[2]
    return text_offsets(column), np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash_text(data, start, length):
    """Return the hash of the table: word by word, the last one once more where it is not whole."""
    h, end = _FNV_OFFSET ^ np.uint64(length), start + length
    i = start
    while i + _WORD <= end:
        h = (h ^ word_at(data, i)) * _FACTOR
        h ^= h >> np.uint64(32)
        i += _WORD
    if i < end:
        h = (h ^ _last_word(data, start, end)) * _FACTOR
    return mix(h)


@njit(cache=True, nogil=True, forceinline=True)
def _last_word(data, start, end):
    """Return the last eight bytes, or all bytes if there are fewer."""
    if end - start >= _WORD:
        return word_at(data, end - _WORD)
    if end - start >= _WORD // 2:
        return half_word_at(data, start) << np.uint64(32) | half_word_at(data, end - _WORD // 2)
    word = np.uint64(0)
    for i in range(start, end):
        word = word << np.uint64(8) | np.uint64(data[i])
    return word


@wraps_around
@njit(cache=True, nogil=True)
def _hashes_of_text(names, ids, found):
    """Write the hashes by which vertices are divided: byte by byte (FNV-1a), as states of older releases have them."""
    for i in range(len(ids)):
        start = names.start[ids[i]]
        h = _FNV_OFFSET
        for j in range(start, start + names.length[ids[i]]):
            h = (h ^ np.uint64(names.arena[j])) * _FNV_PRIME
        found[i] = mix(h)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash_number(number):
    return mix(np.uint64(number) + np.uint64(0x9E3779B97F4A7C15))


@njit(cache=True, nogil=True)
def _hashes_of_numbers(names, ids, found):
    for i in range(len(ids)):
        found[i] = _hash_number(names.number[ids[i]])


@njit(cache=True, nogil=True, forceinline=True)
def _upper_half(h):
    """Return the upper half of a hash, which determines its place in the table and is stored."""
    return np.uint32(h >> np.uint64(32))


@njit(cache=True, nogil=True, forceinline=True)
def _is_text(names, candidate, h, data, start, length):
    """Return whether the name of an id is a text whose hash is `h`."""
    if names.hash[candidate] != _upper_half(h) or names.length[candidate] != length:
        return False
    first = names.start[candidate]
    i = np.int64(0)
    while i + _WORD <= length:
        if word_at(names.arena, first + i) != word_at(data, start + i):
            return False
        i += _WORD
    if i == length:
        return True
    return _last_word(names.arena, first, first + length) == _last_word(data, start, start + length)


@njit(cache=True, nogil=True, forceinline=True)
def _probe_text(names, h, data, start, length):
    """Return the place of a text in the table; a negative one, for `put`, if it is not there."""
    entries = names.fields.table
    place = first_candidate(names.table, entries, h)
    while place >= 0 and not _is_text(names, id_at(names.table, place), h, data, start, length):
        place = next_candidate(names.table, entries, place)
    return place


@njit(cache=True, nogil=True, forceinline=True)
def _probe_number(names, h, number):
    entries = names.fields.table
    place = first_candidate(names.table, entries, h)
    while place >= 0 and names.number[id_at(names.table, place)] != number:
        place = next_candidate(names.table, entries, place)
    return place


@njit(cache=True, nogil=True)
def find_text(names, data, start, length):
    place = _probe_text(names, _hash_text(data, start, length), data, start, length)
    return id_at(names.table, place) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def _find_number(names, number):
    place = _probe_number(names, _hash_number(number), number)
    return id_at(names.table, place) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def _find_numbers(names, numbers, is_selected, ids):
    for row in range(len(ids)):
        ids[row] = _find_number(names, numbers[row]) if is_selected[row] else -1


@njit(cache=True, nogil=True)
def _find_texts(names, offsets, data, is_selected, ids):
    for row in range(len(ids)):
        first = np.int64(offsets[row])
        ids[row] = find_text(names, data, first, np.int64(offsets[row + 1]) - first) if is_selected[row] else -1


@njit(cache=True, nogil=True)
def _new_id(names):
    """Return a free id, or -1 if there is none."""
    fields = names.fields
    if fields.free > 0:
        fields.free -= 1
        return np.int64(names.free[fields.free])
    if fields.count < fields.room:
        fields.count += 1
        return fields.count - 1
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _reserve(names, ids, done):
    """Write ids without a name from a place on. Return their number."""
    while done < len(ids):
        found = _new_id(names)
        if found < 0:
            break
        names.length[found] = NAMELESS
        ids[done] = found
        done += 1
    return done


@njit(cache=True, nogil=True, forceinline=True)
def _enter_number(names, number):
    """Return twice the id of a number, plus 1 if it is new. Return -1 and change nothing if there is no room for it."""
    h = _hash_number(number)
    place = _probe_number(names, h, number)
    if place >= 0:
        return id_at(names.table, place) << 1
    found = _new_id(names)
    if found < 0:
        return np.int64(-1)
    names.number[found] = number
    names.length[found] = 0
    put(names.table, place, found)
    return found << 1 | 1


@njit(cache=True, nogil=True, forceinline=True)
def _enter_text(names, h, data, start, length):
    """Enter a text of bytes, whose hash is `h`, as `_enter_number` enters a number."""
    fields = names.fields
    place = _probe_text(names, h, data, start, length)
    if place >= 0:
        return id_at(names.table, place) << 1
    if fields.arena + length > fields.arena_room:
        return np.int64(-1)
    found = _new_id(names)
    if found < 0:
        return np.int64(-1)
    names.hash[found] = _upper_half(h)
    names.start[found] = fields.arena
    names.length[found] = length
    for i in range(length):
        names.arena[fields.arena + i] = data[start + i]
    fields.arena += length
    put(names.table, place, found)
    return found << 1 | 1


@njit(cache=True, nogil=True)
def _intern_one_number(names, number):
    return _enter_number(names, np.int64(number))


@njit(cache=True, nogil=True)
def _intern_one_text(names, data):
    length = np.int64(len(data))
    return _enter_text(names, _hash_text(data, np.int64(0), length), data, np.int64(0), length)


@njit(cache=True, nogil=True)
def _intern_numbers(names, numbers, is_selected, ids, new_ids, row, new):
    while row < len(ids):
        ids[row] = -1
        if is_selected[row]:
            code = _enter_number(names, numbers[row])
            if code < 0:
                break
            ids[row] = code >> 1
            if code & 1:
                new_ids[new] = code >> 1
                new += 1
        row += 1
    return row, new


@njit(cache=True, nogil=True)
def _intern_text(names, offsets, data, is_selected, ids, new_ids, row, new):
    """Write the ids of rows in batches, so that the places of a batch in the table are prefetched together."""
    hashes, rows = np.empty(_TOGETHER, np.uint64), np.empty(_TOGETHER, np.int64)
    entries = names.fields.table
    while row < len(ids):
        count, end = np.int64(0), row
        while count < _TOGETHER and end < len(ids):  # without a branch that depends on the row, which cannot be predicted
            ids[end] = -1
            rows[count] = end
            count += np.int64(is_selected[end] != 0)
            end += 1
        for i in range(count):
            start = np.int64(offsets[rows[i]])
            hashes[i] = _hash_text(data, start, np.int64(offsets[rows[i] + 1]) - start)
            prefetch_at(names.table, home_of(entries, hashes[i]))
        for i in range(count):
            candidate = id_at(names.table, home_of(entries, hashes[i]))
            if candidate >= 0:
                prefetch_at(names.hash, candidate)
                prefetch_at(names.start, candidate)
                prefetch_at(names.length, candidate)
        for i in range(count):
            row = int(rows[i])
            start = np.int64(offsets[row])
            code = _enter_text(names, hashes[i], data, start, np.int64(offsets[row + 1]) - start)
            if code < 0:
                return row, new
            ids[row] = code >> 1
            if code & 1:
                new_ids[new] = code >> 1
                new += 1
        row = end
    return row, new


@njit(cache=True, nogil=True)
def _intern_ends(names, texts, is_selected, source, target, new_ids, place, new):
    """Write the ids of sources and then of targets from a place among both on.

    Returns the place up to which that is done, the number of new ids, and the length of the text for which there is no room.
    """
    count = len(is_selected)
    if place < count:
        place, new = _intern_text(names, texts.source_ends, texts.source, is_selected, source, new_ids, place, new)
        if place < count:
            return place, new, np.int64(texts.source_ends[place + 1]) - np.int64(texts.source_ends[place])
    row, new = _intern_text(names, texts.target_ends, texts.target, is_selected, target, new_ids, place - count, new)
    length = np.int64(texts.target_ends[row + 1]) - np.int64(texts.target_ends[row]) if row < count else np.int64(0)
    return count + row, new, length


@njit(cache=True, nogil=True)
def _fill_table(names, is_text):
    entries = names.fields.table
    clear(names.table, entries)
    for i in range(names.fields.count):
        if names.length[i] >= 0:
            h = np.uint64(names.hash[i]) << np.uint64(32) if is_text else _hash_number(names.number[i])
            put_new(names.table, entries, h, i)


@njit(cache=True, nogil=True)
def _release(names, unused, is_text):
    fields = names.fields
    for i in unused:
        fields.garbage += max(names.length[i], 0)
        names.length[i] = FREE
        names.free[fields.free] = i
        fields.free += 1
    _fill_table(names, is_text)


@njit(cache=True, nogil=True)
def _gather_text(names, ids, offsets, data):
    for i in range(len(ids)):
        start = names.start[ids[i]]
        for j in range(names.length[ids[i]]):
            data[offsets[i] + j] = names.arena[start + j]


@njit(cache=True, nogil=True)
def _pack_arena(names, arena):
    top = np.int64(0)
    for i in range(names.fields.count):
        if names.length[i] >= 0:
            start = names.start[i]
            names.start[i] = top
            for j in range(names.length[i]):
                arena[top] = names.arena[start + j]
                top += 1
    names.fields.arena = top
    names.fields.garbage = 0
