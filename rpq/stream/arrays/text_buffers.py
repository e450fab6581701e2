"""The text columns of a few tuples as one argument of kernels: the addresses of Arrow's buffers.

Arrow checks a column in some microseconds whatever is in it, and NumPy takes one for each array over its memory. For a
hundred tuples that is as much as all kernels take. So the addresses of all columns are in one view: one kernel checks them,
and those that give ids to names read them there.
"""

from __future__ import annotations

from array import array as c_array
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import config

from rpq.compiled.intrinsics import word_at
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import View, bound, view

_NOT_ASCII = np.uint64(0x8080808080808080)
_UNSOUND = -1
_QUOTE, _BACKSLASH, _BLANK, _DELETE, _ANGLE, _LAST_OF_STRING = map(ord, '"\\ \x7f>g')


class TupleTexts(NamedTuple):
    """Columns of texts, none of them empty or null; the text of row i is from `ends[i]` to `ends[i + 1]` of its bytes.

    Where tuples have no stream its two arrays are any.
    """

    source_ends: np.ndarray  # int32
    source: np.ndarray  # uint8
    target_ends: np.ndarray
    target: np.ndarray
    label_ends: np.ndarray
    label: np.ndarray
    stream_ends: np.ndarray
    stream: np.ndarray
    room: np.ndarray  # int64: the lengths of the other arrays


_COLUMNS = 4
_INT32, _UINT8 = np.zeros(1, np.int32), np.zeros(1, np.uint8)
_VIEW: Any = view(TupleTexts._make([*[_INT32, _UINT8] * _COLUMNS, np.zeros(2 * _COLUMNS, np.int64)]))


def view_of_texts(columns: Sequence[pa.Array]) -> Any | None:
    """Return the view of `TupleTexts` of sources, targets, labels and maybe streams, each of them an array of string.

    None where a text is missing, empty or no UTF-8, which is for others to report, where a literal may not be in normal
    form, and where nothing is compiled.
    """
    if config.DISABLE_JIT:
        return None
    addresses: list[int] = []
    room: list[int] = []
    for column in columns:
        _, ends, data = column.buffers()
        if data is None or column.null_count:
            return None
        first = column.offset
        addresses += ends.address + 4 * first, data.address
        room += ends.size // 4 - first, data.size
    if len(columns) < _COLUMNS:
        addresses += addresses[-2:]
        room += room[-2:]
    lengths = c_array("q", room)
    addresses.append(lengths.buffer_info()[0])
    texts = View.at(_VIEW.type, addresses, (columns, lengths))
    found = _bound_check()(texts, len(columns[0]))
    if found == _UNSOUND:
        return None
    if found:
        try:
            for place, column in enumerate(columns):
                if found >> place & 1:
                    column.validate(full=True)
        except pa.ArrowException:
            return None
    return texts


@cache
def _bound_check() -> Any:
    return bound(_check_texts, _VIEW, 1)


@njit(cache=True, nogil=True)
def _may_be_other_form(data, start, end):
    """Return whether a literal has escapes, control characters or a datatype that may be xsd:string."""
    for place in range(start, end):
        if data[place] == _BACKSLASH or data[place] < _BLANK or data[place] == _DELETE:
            return True
    return data[end - 1] == _ANGLE and data[end - 2] == _LAST_OF_STRING


@njit(cache=True, nogil=True)
def _check_column(ends, data, count, places, size):
    """Return 0 for a column of ASCII, 1 for one of other bytes.

    Return `_UNSOUND` for wrong bounds, an empty text, or a literal that may not be in normal form.
    """
    if places < count + 1 or ends[0] < 0 or ends[count] > size:
        return _UNSOUND
    for row in range(count):
        if ends[row] >= ends[row + 1]:
            return _UNSOUND
        if data[ends[row]] == _QUOTE and _may_be_other_form(data, np.int64(ends[row]), np.int64(ends[row + 1])):
            return _UNSOUND
    start, end = np.int64(ends[0]), np.int64(ends[count])
    bits = np.uint64(0)
    while start + 8 <= end:
        bits |= word_at(data, start)
        start += 8
    while start < end:
        bits |= np.uint64(data[start])
        start += 1
    return 1 if bits & _NOT_ASCII else 0


@njit(cache=True, nogil=True)
def _check_texts(texts, count):
    """Return a bit for each column that is not of ASCII, or `_UNSOUND`."""
    room = texts.room
    source = _check_column(texts.source_ends, texts.source, count, room[0], room[1])
    target = _check_column(texts.target_ends, texts.target, count, room[2], room[3])
    label = _check_column(texts.label_ends, texts.label, count, room[4], room[5])
    stream = _check_column(texts.stream_ends, texts.stream, count, room[6], room[7])
    if min(source, target, label, stream) < 0:
        return _UNSOUND
    return source | target << 1 | label << 2 | stream << 3
