"""Arrow columns and lines of text that are written by kernels.

A column has a name for each id, or for each row a value of its event.  Arrow's `take` copies text by text, and needs the
ids of a column side by side.  Here names are stored with their lengths in slots, whose size is the multiple of sixteen bytes
that the longest name needs.  A name of up to sixteen bytes is copied by one load and one store, and excess bytes are
overwritten by the next name.  Columns are written for a piece of the rows at a time, whose ids stay in the cache for all
columns; the pieces are in reused regions (`rpq/compiled/arrays/reserve.py`), since new memory costs more than writing to it.

Lines are joined row by row from constants and columns of texts in the same way: all texts are laid side by side first, with
sixteen bytes after the last one, so that most pieces are copied by one load and one store.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

from rpq.automata.symbols import ESCAPES
from rpq.compiled.arrays import reserve
from rpq.compiled.intrinsics import VECTOR, copy_vector
from rpq.compiled.kernel_cache import njit
from rpq.stream.arrays.numpy_arrays import arrow_array, text_array

PIECE = 1 << 16
"""The largest number of rows in a batch."""
_LARGEST_SLOT = 64
"""The size limit of a slot in bytes; the last byte of a slot is the length of its text."""
_ALIGNED = 64
_OFFSETS = np.iinfo(np.int32).max
_MAX_TEXT = np.iinfo(np.int32).max
"""The most bytes of text that 32-bit offsets can address; longer columns have 64-bit offsets."""
_CACHED_BYTES = 1 << 22
_SIGNS = np.frombuffer(b"+-=0", np.uint8)


class Region:
    """Memory from which columns are allocated one after the other."""

    def __init__(self, size: int) -> None:
        self._memory = reserve.rows.take(size)
        self._buffer = pa.py_buffer(self._memory)
        self._offset = 0

    @classmethod
    def of_rows(cls, rows: int, bytes_a_row: int, *, columns: int) -> Region:
        """Create a region for `columns` columns with `bytes_a_row` bytes in all, written a piece at a time."""
        return cls(rows * bytes_a_row + (rows // PIECE + 1) * columns * 4 * _ALIGNED)

    def reserve(self, count: int, kind: type | np.dtype) -> np.ndarray:
        """Return an array of `count` values in free memory, to be filled before `finish` is called."""
        end = self._offset + count * np.dtype(kind).itemsize
        if end > len(self._memory):
            raise AssertionError(f"a region of {len(self._memory)} bytes has no {end}")
        return self._memory[self._offset : end].view(kind)

    def finish(self, written: np.ndarray) -> pa.Buffer:
        """Return the written array as a buffer, whose memory is no longer free."""
        buffer = self._buffer.slice(self._offset, written.nbytes)
        self._offset += -(-written.nbytes // _ALIGNED) * _ALIGNED
        return buffer


class NameColumns:
    """Names by their place, prepared for kernels that write columns."""

    def __init__(self, names: pa.Array) -> None:
        self.array = names
        self._numbers: np.ndarray | None = None
        self._ends: np.ndarray | None = None
        self._slots: np.ndarray | None = None
        self.bytes_a_row = 0  # part of a region; longer texts are allocated separately
        if pa.types.is_int64(names.type) and not names.null_count:
            self._numbers = _read_only(names.buffers()[1], np.int64)[names.offset :]
            self.bytes_a_row = 8
        elif pa.types.is_string(names.type) and not names.null_count:
            _, ends, data = names.buffers()
            self._ends = _read_only(ends, np.int32)[names.offset : names.offset + len(names) + 1]
            self._data = _read_only(data if data is not None and data.size else b"\0", np.uint8)
            longest = int(np.diff(self._ends).max(initial=0))
            if longest < _LARGEST_SLOT:
                self._slot = (longest // VECTOR + 1) * VECTOR
                self._slots = np.empty(len(names) * self._slot, np.uint8)
                _fill_slots(self._ends, self._data, self._slots, self._slot)
                self.bytes_a_row = 4 + longest

    def column(self, values: np.ndarray, place: int, first: int, count: int, region: Region) -> pa.Array:
        """Return the names of the ids at `place` in `count` rows (int32, two dimensions) from `first` on.  O(length)."""
        rows, width = values.reshape(-1), values.shape[1]
        at = first * width + place
        if self._numbers is not None:
            numbers = region.reserve(count, np.int64)
            _fill_numbers(rows, at, width, count, self._numbers, numbers)
            return pa.Array.from_buffers(pa.int64(), count, [None, region.finish(numbers)])
        if self._slots is not None and count * (self.bytes_a_row - 4) <= _MAX_TEXT:
            ends = region.reserve(count + 1, np.int32)
            ends_buffer = region.finish(ends)
            texts = region.reserve(count * (self.bytes_a_row - 4) + _LARGEST_SLOT, np.uint8)
            total = _copy_slots(rows, at, width, count, self._slots, self._slot, ends, texts)
            return pa.StringArray.from_buffers(count, ends_buffer, region.finish(texts[:total]))
        if self._ends is not None:
            ends = np.empty(count + 1, np.int32)
            total = _end_texts(rows, at, width, count, self._ends, ends)
            if total <= _MAX_TEXT:
                texts = np.empty(total + VECTOR, np.uint8)
                _copy_texts(rows, at, width, count, self._ends, self._data, texts)
                return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(texts[:total]))
        large = self.array.cast(pa.large_string()) if pa.types.is_string(self.array.type) else self.array
        return large.take(arrow_array(values[first : first + count, place]))


def spread(values: np.ndarray, ends: np.ndarray, first: int, count: int, rows: np.ndarray) -> None:
    """Write the value of its event for each of `count` rows from `first` on; event i ends before row `ends[i]`."""
    _spread(values, ends, int(np.searchsorted(ends, first, "right")), first, count, rows)


def signs(removed: np.ndarray, ends: np.ndarray, first: int, count: int, region: Region) -> pa.Array:
    """Return the ops of `count` rows from `first` on: "-" if their event removes them, "+"; of whole answers "=" or "0"."""
    texts = region.reserve(count, np.uint8)
    spread(_SIGNS[removed], ends, first, count, texts)
    return pa.StringArray.from_buffers(count, _single_ends(), region.finish(texts))


def repeat_text(text: str, count: int) -> pa.Array:
    """Return a column with the same text `count` times, at most `PIECE` times."""
    if len(text) * PIECE > _CACHED_BYTES:
        return pa.repeat(text_array([text])[0], count)
    return _repeat_cached(text, 1 << max(0, count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=4)
def _repeat_cached(text: str, count: int) -> pa.Array:
    return pa.repeat(text_array([text])[0], count)


@cache
def _single_ends() -> pa.Buffer:
    """Return the offsets of texts of one byte each."""
    return pa.py_buffer(np.arange(PIECE + 1, dtype=np.int32))


def _read_only(data: pa.Buffer | bytes, kind: type) -> np.ndarray:
    """Return data as a read-only array: this is part of its type in numba, and not all buffers are read-only."""
    array: np.ndarray = np.frombuffer(data, kind)
    array.flags.writeable = False
    return array


@njit(cache=True, nogil=True)
def _fill_slots(ends, data, slots, size):
    for name in range(len(ends) - 1):
        start, length = np.int64(ends[name]), np.int64(ends[name + 1]) - np.int64(ends[name])
        slot = np.int64(name) * size
        if start + size <= len(data):
            for i in range(0, size, VECTOR):  # with some of the names behind
                copy_vector(slots, np.uint64(slot + i), data, np.uint64(start + i))
        else:
            for i in range(length):
                slots[slot + i] = data[start + i]
        slots[slot + size - 1] = length


@njit(cache=True, nogil=True)
def _copy_slots(rows, at, width, count, slots, size, ends, texts):
    """Write the names of rows and their ends, and return the number of their bytes."""
    place, step = np.uint64(at), np.uint64(width)  # unsigned: numba lets negative indexes count from the end
    room, vector = np.uint64(size), np.uint64(VECTOR)
    written = np.uint64(0)
    ends[0] = 0
    # The names of the rows before `i` end at `written`; the bytes from there on are excess, which the next name overwrites.
    for i in range(count):
        slot = np.uint64(rows[place]) * room
        place += step
        length = np.uint64(slots[slot + room - np.uint64(1)])
        copy_vector(texts, written, slots, slot)
        copied = vector
        while copied < length:
            copy_vector(texts, written + copied, slots, slot + copied)
            copied += vector
        written += length
        ends[i + 1] = written
    return np.int64(written)


@njit(cache=True, nogil=True)
def _fill_numbers(rows, at, width, count, numbers, column):
    place, step = np.uint64(at), np.uint64(width)
    for i in range(count):
        column[i] = numbers[np.uint64(rows[place])]
        place += step


@njit(cache=True, nogil=True)
def _end_texts(rows, at, width, count, name_ends, ends):
    """Write the ends of the names of rows, and return the number of their bytes, which may exceed the offsets' range."""
    total = np.int64(0)
    ends[0] = 0
    for i in range(count):
        vertex = np.int64(rows[at])
        total += np.int64(name_ends[vertex + 1]) - np.int64(name_ends[vertex])
        ends[i + 1] = total & _OFFSETS
        at += width
    return total


@njit(cache=True, nogil=True)
def _copy_texts(rows, at, width, count, name_ends, data, texts):
    """Write the names of rows; `VECTOR` bytes must follow them."""
    written, last = np.int64(0), np.int64(len(data) - VECTOR)
    for _ in range(count):
        vertex = np.int64(rows[at])
        at += width
        start, end = np.int64(name_ends[vertex]), np.int64(name_ends[vertex + 1])
        if end <= last:
            written = _put(texts, written, data, start, end)
            continue
        for i in range(start, end):
            texts[written] = data[i]
            written += 1


@njit(cache=True, nogil=True)
def _spread(values, ends, event, first, count, rows):
    row = np.uint64(0)
    last = np.uint64(count)
    while row < last:
        end = min(last, np.uint64(ends[event] - first))
        value = values[event]
        for i in range(row, end):
            rows[i] = value
        row = end
        event += 1


_QUOTE, _BACKSLASH, _AT, _CARET, _LESS, _GREATER, _SMALL_U, _GREAT_U = b'"\\@^<>uU'
_ESCAPES = np.array([[*map(ord, pair)] for pair in ESCAPES.items() if pair[0] != pair[1]], np.uint8)
"""The escapes of other characters than themselves."""


def lexical_forms(terms: pa.Array) -> pa.Array | None:
    r"""Return the lexical forms of terms as an array of strings: the text between the quotes of a literal, else the term
    itself.

    None where one may have escapes of code points. O(total length).

    >>> lexical_forms(pa.array(['"30"^^<http://www.w3.org/2001/XMLSchema#integer>', r'"\"a\""@en', None, '<x>'])).to_pylist()
    ['30', '"a"', None, '<x>']
    """
    count = len(terms)
    valid, ends, data = terms.buffers()
    if data is None or not data.size or terms.offset:
        return None
    offsets, texts = np.frombuffer(ends, np.int32)[: count + 1], np.frombuffer(data, np.uint8)
    offsets.flags.writeable = texts.flags.writeable = False  # some buffers are and some are not, which are two types
    written, form_ends = np.empty(offsets[-1] - offsets[0], np.uint8), np.zeros(count + 1, np.int32)
    total = _write_lexical_forms(offsets, texts, form_ends, written)
    if total < 0:
        return None
    return pa.StringArray.from_buffers(count, pa.py_buffer(form_ends), pa.py_buffer(written[:total]), valid)


@njit(cache=True, nogil=True)
def _is_type_or_language(data, at, end):
    """Return whether the bytes after a closing quote are nothing, a language or a datatype."""
    if at == end:
        return True
    if data[at] == _AT:
        for i in range(at + 1, end):
            c = data[i]
            if not (48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c == 45):  # digits, letters, the hyphen
                return False
        return end > at + 1
    if end - at < 4 or data[at] != _CARET or data[at + 1] != _CARET or data[at + 2] != _LESS or data[end - 1] != _GREATER:
        return False
    brackets = 0
    for i in range(np.uint64(at + 3), np.uint64(end - 1)):  # unsigned and without branches, so by vectors
        brackets += (data[i] == _LESS) | (data[i] == _GREATER)
    return brackets == 0


@njit(cache=True, nogil=True)
def _write_lexical_forms(offsets, data, ends, written):
    """Write the lexical forms of terms, one after the other, and where they end.

    Return their length, or -1 if a term may have escapes of code points.
    """
    at = np.int64(0)
    for i in range(len(offsets) - 1):
        start, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        first, j = at, end
        if start < end and data[start] == _QUOTE:
            j = start + 1
            while j < end and data[j] != _QUOTE:
                byte = data[j]
                if byte == _BACKSLASH and j + 1 < end:
                    j += 1
                    byte = data[j]
                    if byte in (_SMALL_U, _GREAT_U):
                        return np.int64(-1)
                    byte = _character(byte)
                written[at] = byte
                at += 1
                j += 1
        if j == end or not _is_type_or_language(data, j + 1, end):
            at = first
            for place in range(start, end):
                written[at] = data[place]
                at += 1
        ends[i + 1] = at
    return at


@njit(cache=True, nogil=True)
def _character(escape):
    """Return the character of an escape, by the character after the backslash."""
    for i in range(len(_ESCAPES)):
        if _ESCAPES[i, 0] == escape:
            return _ESCAPES[i, 1]
    return escape


def joined_lines(pieces: Sequence[str | pa.Array]) -> bytes:
    """Join the pieces of each row in order: constants, and the row's text of columns (text without nulls).  O(bytes).

    >>> joined_lines(["<", pa.array(["a", "b"]), ", ", pa.array(["x", ""]), ">\\n"])
    b'<a, x>\\n<b, >\\n'
    """
    columns = [piece.cast(pa.large_string()) for piece in pieces if not isinstance(piece, str)]
    constants = [""]
    for piece in pieces:
        if isinstance(piece, str):
            constants[-1] += piece
        else:
            constants.append("")
    count = len(columns[0])
    offsets = np.empty((len(columns), count + 1), np.int64)
    texts: list[np.ndarray] = []
    begin = 0
    for number, column in enumerate(columns):
        own = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + count + 1]
        np.add(own, begin - own[0], out=offsets[number])
        if own[-1] > own[0]:
            texts.append(np.frombuffer(column.buffers()[2], np.uint8)[own[0] : own[-1]])
        begin += int(own[-1] - own[0])
    beside, ends = _side_by_side(constants)
    lines = np.empty(begin + count * int(ends[-1]) + VECTOR, np.uint8)
    written = _join(beside, ends, np.concatenate([*texts, np.zeros(VECTOR, np.uint8)]), offsets, lines)
    return lines[:written].tobytes()


def _side_by_side(constants: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return constants as bytes, padded at the end, and where each of them ends."""
    encoded = [constant.encode() for constant in constants]
    return np.frombuffer(b"".join(encoded) + bytes(VECTOR), np.uint8), np.cumsum([0, *map(len, encoded)])


@njit(cache=True, nogil=True)
def _put(target, at, source, start, end):
    """Copy bytes, and some bytes after them; return where the next ones belong."""
    written = at
    while start < end:
        copy_vector(target, np.uint64(written), source, np.uint64(start))
        written += VECTOR
        start += VECTOR
    return written - (start - end)


@njit(cache=True, nogil=True)
def _join(constants, ends, texts, offsets, lines):
    columns = offsets.shape[0]
    written = np.int64(0)
    for row in range(offsets.shape[1] - 1):
        for column in range(columns):
            written = _put(lines, written, constants, ends[column], ends[column + 1])
            written = _put(lines, written, texts, offsets[column, row], offsets[column, row + 1])
        written = _put(lines, written, constants, ends[columns], ends[columns + 1])
    return written
