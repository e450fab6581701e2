"""Columns of plain JSON objects, one per line, in a few nanoseconds per value.

A line is plain if it is an object from its first byte to its last, whose values are text, numbers, true, false or null,
without escapes.  Plain objects have only one interpretation.  If any line of a block is not plain, the whole block is
refused, and the caller must read it in another way.

    {"source": "a", "more": null, "timestamp": 3}

Requested keys are expected in the order of the previous line.  The kernel first locates the texts, and copies them once
their lengths are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.intrinsics import VECTOR, copy_vector, trailing_zeros, word_at, wraps_around
from rpq.compiled.kernel_cache import njit

_MAX_BYTES = np.iinfo(np.int32).max - VECTOR
_FEWEST_BYTES = len(b'{"":1}\n')
_MAX_DIGITS = 18
"""The number of digits up to which every integer fits 64 bits."""
_MAX_KEYS = 32
_KINDS = {"text": 0, "integer": 1, "boolean": 2}
_TEXT, _INTEGER, _BOOLEAN = _KINDS.values()
_ABSENT = -1  # in place of the length of a missing text
_UNREAD = -1

_BLANK, _TAB, _LINE_END, _QUOTE, _COMMA, _COLON = (np.uint8(ord(one)) for one in ' \t\n",:')
_BEGIN, _END, _ESCAPE, _MINUS, _PLUS, _POINT, _ZERO, _ONE, _NINE, _EXPONENT = (
    np.uint8(ord(one)) for one in "{}\\-+.019e"
)
_LOWER = np.uint8(ord("a") - ord("A"))  # the bit that distinguishes lowercase from uppercase letters
_CONTROL = np.uint8(0x20)  # smaller bytes must be escaped
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
_WORD = 8
_ONES, _HIGHEST, _QUOTES, _ESCAPES, _CONTROLS = (
    np.uint64(int.from_bytes(bytes([byte] * _WORD))) for byte in (1, 0x80, _QUOTE, _ESCAPE, _CONTROL)
)
"""One byte repeated in a whole word."""


class ObjectKey(NamedTuple):
    """A requested key, whose values are texts, integers, or booleans.

    Booleans are true, false, or one of the texts "true", "false", "1", "0". Unless `required`, values may be missing or
    null.
    """

    name: str
    kind: Literal["text", "integer", "boolean"]
    required: bool = True


def read_flat_objects(data: bytes, keys: Sequence[ObjectKey]) -> list[pa.Array] | None:
    """Return the values of each key, as string, int64 or bool arrays with one entry per line; None if a line is not plain.

    Does not check whether texts are UTF-8.  O(bytes).

    >>> keys = [ObjectKey("x", "text"), ObjectKey("y", "integer")]
    >>> found = read_flat_objects(b'{"x": "a", "y": 1}\\n{"y": -2, "x": "b"}\\n', keys)
    >>> [column.to_pylist() for column in found]
    [['a', 'b'], [1, -2]]
    >>> read_flat_objects(b'{"x": "\\\\u0061"}\\n', [ObjectKey("x", "text")]) is None
    True
    """
    if not data or len(data) > _MAX_BYTES or len(keys) > _MAX_KEYS or len({key.name for key in keys}) < len(keys):
        return None
    names = [key.name.encode("utf-8", "surrogatepass") for key in keys]
    if any(byte < _CONTROL or byte in b'"\\' for name in names for byte in name):  # such a key always contains an escape
        return None
    text = _readable(data)
    count = int(np.count_nonzero(text == _LINE_END)) + (not data.endswith(b"\n"))
    if count * _FEWEST_BYTES > len(data) + 1:
        return None
    ends = np.cumsum([0, *map(len, names)])
    kinds = np.array([_KINDS[key.kind] for key in keys])
    required = np.array([key.required for key in keys], np.uint8)
    values = np.empty((len(keys), count), np.int64)  # an integer, 0 or 1, or the start of a text
    lengths = np.full((len(keys), count), _ABSENT, np.int32)  # the length of a text; 0 for any other value
    if not _read(text, len(data), _readable(b"".join(names) or b" "), ends, kinds, required, values, lengths):
        return None
    found = []
    for number, key in enumerate(keys):
        if key.kind == "integer":
            found.append(pa.array(values[number]))
        else:
            make = _booleans if key.kind == "boolean" else _texts
            found.append(make(text, values[number], lengths[number]))
    return found


def _readable(data: bytes) -> np.ndarray:
    """Return bytes as a read-only array for a kernel."""
    array: np.ndarray = np.frombuffer(data, np.uint8)
    return array


def _booleans(data: np.ndarray, values: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Return values of 0 and 1 as a bool array; negative lengths mark nulls."""
    is_absent = lengths < 0
    return pa.nulls(len(values), pa.bool_()) if is_absent.all() else pa.array(values == 1, mask=is_absent)


def _texts(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Return texts at the given places of `data` as an array; negative lengths mark nulls."""
    is_there = lengths >= 0
    absent = len(lengths) - int(np.count_nonzero(is_there))
    if absent == len(lengths):
        return pa.nulls(absent, pa.string())
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths if not absent else np.where(is_there, lengths, 0), out=ends[1:])
    texts = np.empty(int(ends[-1]) + VECTOR, np.uint8)
    _copy_texts(data, starts, lengths, ends, texts)
    nulls = pa.py_buffer(np.packbits(is_there, bitorder="little")) if absent else None
    buffers = [nulls, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers, absent)


@njit(cache=True, nogil=True)
def _copy_texts(data, starts, lengths, ends, texts):
    last = np.int64(len(data)) - VECTOR
    for row in range(len(lengths)):
        start, length, to = starts[row], np.int64(lengths[row]), np.int64(ends[row])
        if start + length <= last:
            copied = np.int64(0)
            while copied < length:
                copy_vector(texts, np.uint64(to + copied), data, np.uint64(start + copied))
                copied += VECTOR
        else:
            for i in range(length):
                texts[to + i] = data[start + i]


@njit(cache=True, nogil=True)
def _after_blanks(data, place, end):
    while place < end and (data[place] == _BLANK or data[place] == _TAB):
        place += 1
    return place


@wraps_around
@njit(cache=True, nogil=True)
def _text_end(data, place, end):
    """Return the place of the quotation mark that ends the text at `place`; -1 if the text is not plain."""
    while place + _WORD <= end:
        word = word_at(data, place)
        # The highest bit of each byte that matches; a borrow may set more bits, but only above the first match.
        mark = word ^ _QUOTES
        escape = word ^ _ESCAPES
        found = ((mark - _ONES) & ~mark) | ((escape - _ONES) & ~escape) | ((word - _CONTROLS) & ~word)
        found &= _HIGHEST
        if found:
            place += trailing_zeros(found) >> 3
            return place if data[place] == _QUOTE else np.int64(-1)
        place += _WORD
    while place < end:
        one = data[place]
        if one == _QUOTE:
            return place
        if one == _ESCAPE or one < _CONTROL:
            return np.int64(-1)
        place += 1
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _are_equal(data, place, other, length, end):
    """Return whether two ranges of bytes are equal; False if there is no room for whole words."""
    if place + length + _WORD > end:
        return False
    while length >= _WORD:
        if word_at(data, place) != word_at(data, other):
            return False
        place += _WORD
        other += _WORD
        length -= _WORD
    return length == 0 or (word_at(data, place) ^ word_at(data, other)) << np.uint64(8 * (_WORD - length)) == 0


@njit(cache=True, nogil=True)
def _integer(data, place, end):
    """Return the integer at a place and the place after it: -1 if there is none, or it may not fit 64 bits."""
    is_negative = place < end and data[place] == _MINUS
    if is_negative:
        place += 1
    first = place
    value = np.int64(0)
    while place < end and place - first < _MAX_DIGITS and _ZERO <= data[place] <= _NINE:
        value = value * np.int64(10) + np.int64(data[place] - _ZERO)
        place += 1
    digits = place - first
    goes_on = place < end and _ZERO <= data[place] <= _NINE
    if digits == 0 or goes_on or (digits > 1 and data[first] == _ZERO):
        return np.int64(0), np.int64(-1)
    return -value if is_negative else value, place


@njit(cache=True, nogil=True)
def _digits_end(data, place, end):
    """Return the place after the digits at `place`; -1 if there are none."""
    first = place
    while place < end and _ZERO <= data[place] <= _NINE:
        place += 1
    return place if place > first else np.int64(-1)


@njit(cache=True, nogil=True)
def _number_end(data, place, end):
    """Return the place after the number at `place`; -1 if there is none, or a long one."""
    place = _integer(data, place, end)[1]
    if 0 <= place < end and data[place] == _POINT:
        place = _digits_end(data, place + 1, end)
    if 0 <= place < end and (data[place] | _LOWER) == _EXPONENT:
        place += 1
        if place < end and (data[place] == _MINUS or data[place] == _PLUS):
            place += 1
        place = _digits_end(data, place, end)
    return place


@njit(cache=True, nogil=True)
def _is_word(data, place, end, word):
    if place + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 - a kernel
        if data[place + i] != word[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _boolean(data, place, end):
    """Return the boolean at a place, a word or a text, as 0 or 1, and the place after it: -1 if there is none."""
    is_text = data[place] == _QUOTE
    if is_text:
        place += 1
    value = np.int64(1)
    if _is_word(data, place, end, _TRUE):
        place += 4
    elif _is_word(data, place, end, _FALSE):
        value, place = np.int64(0), place + 5
    elif is_text and place < end and (data[place] == _ZERO or data[place] == _ONE):
        value, place = np.int64(data[place] - _ZERO), place + 1
    else:
        return np.int64(0), np.int64(-1)
    if is_text:
        place = place + 1 if place < end and data[place] == _QUOTE else np.int64(-1)
    return value, place


@njit(cache=True, nogil=True)
def _unread_end(data, place, end):
    """Return the place after a value that was not requested; -1 if the value is not plain."""
    if place >= end:
        return np.int64(-1)
    if data[place] == _QUOTE:
        closing = _text_end(data, place + 1, end)
        return closing + 1 if closing >= 0 else closing
    if _is_word(data, place, end, _NULL) or _is_word(data, place, end, _TRUE):
        return place + 4
    if _is_word(data, place, end, _FALSE):
        return place + 5
    return _number_end(data, place, end)


@njit(cache=True, nogil=True)
def _is_key(data, start, end, names, ends, key):
    """Return whether the text at `start` is a key, up to its quotation mark."""
    first, length = ends[key], ends[key + 1] - ends[key]
    if start + length >= end or data[start + length] != _QUOTE:
        return False
    for i in range(length):  # noqa: SIM110
        if data[start + i] != names[first + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _key(data, start, end, names, ends, expected):
    """Return the number of the key at `start`, and the place where it ends: -1 if it is not plain."""
    if expected != _UNREAD and _is_key(data, start, end, names, ends, expected):
        return expected, start + ends[expected + 1] - ends[expected]
    for key in range(len(ends) - 1):
        if _is_key(data, start, end, names, ends, key):
            return np.int64(key), start + ends[key + 1] - ends[key]
    return np.int64(_UNREAD), _text_end(data, start, end)


@njit(cache=True, nogil=True)
def _to_value(data, place, end, names, ends, expected):
    """Advance from before a key to its value; return the number of the key (-1 if not requested), and the place."""
    place = _after_blanks(data, place, end)
    if place >= end or data[place] != _QUOTE:
        return np.int64(_UNREAD), np.int64(-1)
    key, place = _key(data, place + 1, end, names, ends, expected)
    if place < 0:
        return key, place
    place = _after_blanks(data, place + 1, end)
    if place >= end or data[place] != _COLON:
        return key, np.int64(-1)
    place = _after_blanks(data, place + 1, end)
    return key, place if place < end else np.int64(-1)


@njit(cache=True, nogil=True)
def _read(data, end, names, ends, kinds, required, values, lengths):
    """Read all lines; return whether all of them are plain."""
    keys, rows = values.shape
    needed = np.uint64(0)
    for key in range(keys):
        needed |= np.uint64(required[key]) << np.uint64(key)
    # The bytes before each requested value in the previous line, including its key, which usually occur again.
    order = np.full(_MAX_KEYS, np.int64(_UNREAD))
    starts = np.zeros(_MAX_KEYS, np.int64)
    sizes = np.zeros(_MAX_KEYS, np.int64)
    place = np.int64(0)
    for row in range(rows):
        if place >= end or data[place] != _BEGIN:
            return False
        number = 0
        present = np.uint64(0)
        while True:
            is_known = number < _MAX_KEYS and sizes[number] > 0
            if is_known and _are_equal(data, place, starts[number], sizes[number], end):
                key = order[number]
                place += sizes[number]
            else:
                before = place
                expected = order[number] if number < _MAX_KEYS else np.int64(_UNREAD)
                key, place = _to_value(data, place + 1, end, names, ends, expected)
                if place < 0:
                    return False
                if number < _MAX_KEYS:
                    order[number], starts[number] = key, before
                    sizes[number] = place - before if key != _UNREAD else 0
            number += 1
            if key == _UNREAD:
                place = _unread_end(data, place, end)
            else:
                if present & (np.uint64(1) << np.uint64(key)):  # a duplicate key
                    return False
                present |= np.uint64(1) << np.uint64(key)
                if kinds[key] == _INTEGER:
                    values[key, row], place = _integer(data, place, end)
                    lengths[key, row] = 0
                elif kinds[key] == _BOOLEAN and not _is_word(data, place, end, _NULL):
                    values[key, row], place = _boolean(data, place, end)
                    lengths[key, row] = 0
                elif kinds[key] == _TEXT and data[place] == _QUOTE:
                    closing = _text_end(data, place + 1, end)
                    values[key, row] = place + 1
                    lengths[key, row] = closing - place - 1
                    place = closing + 1 if closing >= 0 else closing
                elif not required[key] and _is_word(data, place, end, _NULL):
                    place += 4
                else:
                    return False
            if place < 0:
                return False
            if place < end and data[place] != _COMMA:
                place = _after_blanks(data, place, end)
                if place < end and data[place] == _END:
                    break
            if place >= end or data[place] != _COMMA:
                return False
        if present & needed != needed:
            return False
        place += 1
        if place < end:
            if data[place] != _LINE_END:
                return False
            place += 1
    return place == end
