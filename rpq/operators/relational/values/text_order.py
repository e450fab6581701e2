"""The order of texts and moments, many of which begin alike: kernels sort them by their bytes and assign ranks.

A term has a *key*, the bytes that order it among the terms with an equal `high` (see `value_order`):

- a string or an IRI: its text, in which a byte 0 is followed by 255; two bytes 0; then the bytes that order equal texts
- a moment: the digits of its fraction of a second, a byte 0, and the term

`TextOrder` has a slot for each term, and the slots in order. New terms are sorted, their places are searched, and they get
ranks between those of their neighbours with an equal `high`. If there is no gap, all terms with this `high` get new ranks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.intrinsics import VECTOR, word_at
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.stream.arrays.numpy_arrays import text_offsets
from rpq.stream.names.terms import XSD

OTHER, TEXT, MOMENT = range(3)
"""The kinds of names: texts and moments, which kernels read, and others, which Python reads."""

_COUNT, _USED, _SLOTS, _GARBAGE, _VALUES = range(5)
"""The numbers in `Texts.fields`: terms, bytes of the arena, slots that were ever used, bytes that no term has, and values
that were ever numbered."""

_QUOTE, _COLON, _MINUS, _PLUS, _POINT, _ZERO, _NINE, _T, _Z, _UNDERSCORE = (ord(character) for character in '":-+.09TZ_')
_MOMENT_END = np.frombuffer(f'"^^<{XSD}dateTime>'.encode(), np.uint8)
_DAY = 86_400
_FIRST_BYTES = 6
_BEHIND_TEXT = 3
"""The bytes of a key after the text of an IRI."""

_SMALLER, _GREATER = 1, 255
"""The byte in the key of a term that is its own text: the term is before or after the literals with this text, which begin
with a quote."""


def key_of(order_key: tuple[Any, ...]) -> bytes:
    """Return the key of a string, an IRI or a moment, from its key in the order of all terms.

    >>> key_of((2, "bob", "bob")), key_of((2, "bob", '"bob"@en'))
    (b'bob\\x00\\x00\\xff', b'bob\\x00\\x00"bob"@en')
    """
    match order_key:
        case (2, text, term):
            own = text.encode("utf-8", "surrogatepass")
            behind = bytes([_SMALLER if own[:1] < b'"' else _GREATER]) if text == term else _bytes_of(term)
            return own.replace(b"\0", b"\0\xff") + b"\0\0" + behind
        case (4, _, instant, term):
            digits, rest = b"", instant % 1
            while rest:
                rest *= 10
                digits += b"%d" % (rest // 1)
                rest %= 1
            return digits + b"\0" + _bytes_of(term)
    raise AssertionError(order_key)


def _bytes_of(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


class Keys(NamedTuple):
    """The keys of terms: `data[start[i] : start[i] + length[i]]`."""

    start: np.ndarray  # int64
    length: np.ndarray  # int64
    data: np.ndarray  # uint8

    @classmethod
    def from_list(cls, keys: list[bytes]) -> Keys:
        """Return keys as arrays."""
        length = np.array([len(key) for key in keys], np.int64)
        return cls(np.cumsum(length) - length, length, np.frombuffer(bytearray(b"".join(keys)), np.uint8))

    def select(self, is_selected: np.ndarray) -> Keys:
        """Return some of the keys."""
        return self if is_selected.all() else Keys(self.start[is_selected], self.length[is_selected], self.data)


def read_names(names: pa.Array, first_text: int, first_moment: int) -> tuple[np.ndarray, np.ndarray, Keys]:
    """Return the kinds of names that are not numbers, their `high`, and their keys. O(total length).

    `first_text` and `first_moment` are the `high` of the first string and of the first second of year 1. A name of the kind
    `OTHER` has no key.
    """
    kinds, highs = np.zeros(len(names), np.int8), np.zeros(len(names), np.int64)
    keys = Keys(np.zeros(len(names), np.int64), np.zeros(len(names), np.int64), np.zeros(0, np.uint8))
    if len(names) and pa.types.is_string(names.type):
        where, data = text_offsets(names), names.buffers()[2]
        room = int(where[-1] - where[0])
        if room:
            keys = keys._replace(data=np.empty(2 * room + _BEHIND_TEXT * len(names), np.uint8))
            _read_keys(where, np.frombuffer(data, np.uint8), _MOMENT_END, first_text, first_moment, kinds, highs, *keys)
    return kinds, highs, keys


class Texts(NamedTuple):
    """The terms of a `TextOrder`."""

    order: np.ndarray  # int32: slots, in the order of their terms
    ids: np.ndarray  # int64 a slot
    high: np.ndarray  # int64 a slot
    start: np.ndarray  # int64 a slot: where its key begins in the arena
    length: np.ndarray  # int64 a slot
    rank: np.ndarray  # int64 a slot
    value: np.ndarray  # int64 a slot: the number of its value, which terms with an equal `high` may share
    free: np.ndarray  # int32: slots without a term, of those that were ever used
    arena: np.ndarray  # uint8: keys, and `VECTOR` bytes or more after them
    fields: np.ndarray  # int64: `_COUNT`, …


class TextOrder:
    """Terms with their keys and ranks, in order.

    `insert` adds terms and returns which ranks changed; `insert_slots` returns their slots; `remove` removes terms.
    """

    def __init__(self, first_moment: int) -> None:
        numbers = [np.empty(0, np.int64) for _ in range(6)]
        self._first_moment = first_moment
        self.texts = Texts(
            order=np.empty(0, np.int32),
            ids=numbers[0],
            high=numbers[1],
            start=numbers[2],
            length=numbers[3],
            rank=numbers[4],
            value=numbers[5],
            free=np.empty(0, np.int32),
            arena=np.empty(0, np.uint8),
            fields=np.zeros(5, np.int64),
        )
        """The arrays of terms. Longer ones replace them when there are more terms."""
        self.view = view(self.texts)

    def __len__(self) -> int:
        return int(self.texts.fields[_COUNT])

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.texts)

    def insert(self, ids: np.ndarray, highs: np.ndarray, keys: Keys, gap: int) -> tuple[np.ndarray, ...]:
        """Insert different terms. Return the ids whose ranks are new or have changed, these ranks, and the numbers of
        values.

        O(terms · log terms), plus a move of the slots behind the first new one.
        """
        slots, are_all_ranked = self.insert_slots(ids, highs, keys, gap)
        if are_all_ranked:
            slots = self.texts.order[: len(self)]
        return self.texts.ids[slots], self.texts.rank[slots], self.texts.value[slots]

    def insert_slots(self, ids: np.ndarray, highs: np.ndarray, keys: Keys, gap: int) -> tuple[np.ndarray, bool]:
        """Insert different terms. Return their slots (int64) in order, and whether the ranks of others changed too."""
        count = len(ids)
        self._make_room(count, int(keys.length.sum()))
        slots, places = np.empty((2, count), np.int64)
        return slots, insert_terms(self.view, ids, highs, *keys, slots, places, gap, self._first_moment)

    def remove(self, ids: np.ndarray, highs: np.ndarray, ranks: np.ndarray) -> None:
        """Remove terms with these labels. O(terms · log terms), plus a move of the slots behind the first one."""
        remove_terms(self.view, ids.astype(np.int64), highs, ranks)

    def _make_room(self, terms: int, length: int) -> None:
        texts = self.texts
        fields = texts.fields
        needed, used = int(fields[_COUNT]) + terms, int(fields[_USED]) + length + VECTOR
        if needed <= len(texts.order) and used <= len(texts.arena):
            return
        if needed > len(texts.order):
            more = max(needed, 2 * len(texts.order), 16) - len(texts.order)
            grown = {
                name: np.concatenate([array, np.empty(more, array.dtype)])
                for name, array in zip(texts._fields[:8], texts[:8], strict=True)
            }
            texts = texts._replace(**grown)
        if used > len(texts.arena):
            live = int(fields[_USED] - fields[_GARBAGE])
            arena = np.empty(max(2 * (live + length + VECTOR), 1024), np.uint8)
            copy_keys(view(texts), arena)
            texts = texts._replace(arena=arena)
        self.texts = texts
        self.view = view(texts)

    def _check(self) -> None:
        """Assert that terms are in order, and that their slots are used once."""
        texts = self.texts
        count, used, slots, garbage, _ = texts.fields.tolist()
        order = texts.order[:count].tolist()
        free = texts.free[: slots - count].tolist()
        assert sorted(order + free) == [*range(slots)], (order, free, slots)
        keys = [bytes(texts.arena[texts.start[slot] : texts.start[slot] + texts.length[slot]]) for slot in order]
        sortable = [*zip(texts.high[order].tolist(), keys, strict=True)]
        assert sortable == sorted(sortable), "terms are out of order"
        labels = [*zip(texts.high[order].tolist(), texts.rank[order].tolist(), strict=True)]
        assert all(one < other for one, other in pairwise(labels)), "ranks are out of order"
        values = [(high, key.split(b"\0" if high >= self._first_moment else b"\0\0")[0]) for high, key in sortable]
        for (one, number), (other, other_number) in pairwise(zip(values, texts.value[order].tolist(), strict=True)):
            assert (number == other_number) == (one == other), "equal values have different numbers, or others the same"
        assert used - garbage == sum(map(len, keys)), (used, garbage)


# --- names -----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _read_keys(offsets, data, end_of_moment, first_text, first_moment, kinds, highs, starts, lengths, keys):
    """Read names that are plain texts or usual moments: write their kind, `high` and key."""
    at = np.int64(0)
    # The keys of the names before `i` are side by side and end at `at`. A name that is not read leaves `at` as it is.
    for i in range(len(kinds)):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        starts[i] = at
        if begin == end:
            continue
        if data[begin] == _QUOTE:
            at = _read_moment(data, begin, end, end_of_moment, first_moment, i, kinds, highs, keys, at)
        else:
            at = _read_text(data, begin, end, first_text, i, kinds, highs, keys, at)
        lengths[i] = at - starts[i]


@njit(cache=True, nogil=True)
def _read_text(data, begin, end, first_text, i, kinds, highs, keys, at):
    """Read a name that is neither a literal, a blank node, nor a number in short form. Return the end of its key."""
    first = data[begin]
    if first in (_MINUS, _PLUS, _POINT) or _ZERO <= first <= _NINE:
        return at
    if first == _UNDERSCORE and begin + 1 < end and data[begin + 1] == _COLON:
        return at
    for place in range(begin, end):
        if data[place] == 0:
            return at
        keys[at + place - begin] = data[place]
    high = np.int64(0)
    for place in range(begin, begin + _FIRST_BYTES):
        high = (high << 8) | (np.int64(data[place]) if place < end else 0)
    at += end - begin
    keys[at] = keys[at + 1] = 0
    keys[at + 2] = _SMALLER if first < _QUOTE else _GREATER
    kinds[i], highs[i] = TEXT, first_text + high
    return at + _BEHIND_TEXT


@njit(cache=True, nogil=True, forceinline=True)
def _digits(data, place, count):
    """Return the number that `count` characters represent, or -1 if one of them is not a digit."""
    number = np.int64(0)
    for i in range(place, place + count):
        if data[i] < _ZERO or data[i] > _NINE:
            return np.int64(-1)
        number = 10 * number + np.int64(data[i]) - _ZERO
    return number


@njit(cache=True, nogil=True)
def _read_moment(data, begin, end, behind, first_moment, i, kinds, highs, keys, at):
    """Read a dateTime of a year of four digits, "YYYY-MM-DDThh:mm:ss…; return where its key ends."""
    last = end - len(behind)
    if last < begin + 20:
        return at
    for place in range(len(behind)):
        if data[last + place] != behind[place]:
            return at
    here = begin + 1
    year, month, day = _digits(data, here, 4), _digits(data, here + 5, 2), _digits(data, here + 8, 2)
    hour, minute, second = _digits(data, here + 11, 2), _digits(data, here + 14, 2), _digits(data, here + 17, 2)
    if data[here + 4] != _MINUS or data[here + 7] != _MINUS or data[here + 10] != _T:
        return at
    if data[here + 13] != _COLON or data[here + 16] != _COLON or min(hour, minute, second) < 0:
        return at
    if year < 1 or month < 1 or month > 12 or day < 1 or hour > 23 or minute > 59 or second > 59:
        return at
    is_leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    days = 31
    if month == 2:
        days = 29 if is_leap else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        days = 30
    if day > days:
        return at
    here += 19
    fraction = here
    if data[here] == _POINT:
        here += 1
        fraction = here
        while here < last and _ZERO <= data[here] <= _NINE:
            here += 1
        if here == fraction:
            return at
    end_of_fraction = here
    zone = np.int64(0)  # in minutes
    if here < last and data[here] == _Z:
        here += 1
    elif last - here == 6 and (data[here] == _PLUS or data[here] == _MINUS) and data[here + 3] == _COLON:
        hours, minutes = _digits(data, here + 1, 2), _digits(data, here + 4, 2)
        if hours < 0 or hours > 13 or minutes < 0 or minutes > 59:
            return at
        zone = (60 * hours + minutes) * (-1 if data[here] == _MINUS else 1)
        here += 6
    if here != last:
        return at
    # Days since the first of year 1, which is day 1, by years that begin in March.
    years, months = (year - 1, month + 9) if month <= 2 else (year, month - 3)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day - 1 - 305
    instant = _DAY * days + 3600 * hour + 60 * (minute - zone) + second
    while end_of_fraction > fraction and data[end_of_fraction - 1] == _ZERO:
        end_of_fraction -= 1
    for place in range(fraction, end_of_fraction):
        keys[at] = data[place]
        at += 1
    keys[at] = 0
    at += 1
    for place in range(begin, end):
        keys[at] = data[place]
        at += 1
    kinds[i], highs[i] = MOMENT, first_moment + instant
    return at


# --- the order -------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _is_smaller(texts, one, other):
    """Return whether the term of a slot is before that of another."""
    if texts.high[one] != texts.high[other]:
        return texts.high[one] < texts.high[other]
    begin, begin_other = np.int64(texts.start[one]), np.int64(texts.start[other])
    length, length_other = np.int64(texts.length[one]), np.int64(texts.length[other])
    common, i = min(length, length_other), np.int64(0)
    # The first `i` bytes are equal.
    while i + 8 <= common and word_at(texts.arena, begin + i) == word_at(texts.arena, begin_other + i):
        i += 8
    while i < common:
        if texts.arena[begin + i] != texts.arena[begin_other + i]:
            return texts.arena[begin + i] < texts.arena[begin_other + i]
        i += 1
    return length < length_other


@njit(cache=True, nogil=True)
def _sort(texts, slots, spare):
    """Sort slots by their terms, by merging runs."""
    count, width = len(slots), 1
    # Runs of `width` slots are in order.
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            if middle == end or not _is_smaller(texts, slots[middle], slots[middle - 1]):
                spare[begin:end] = slots[begin:end]
                continue
            left, right = begin, middle
            # `spare` has, from `begin` to before `at`, the slots of both runs before `left` and `right`, in order.
            for at in range(begin, end):
                if right == end or (left < middle and not _is_smaller(texts, slots[right], slots[left])):
                    spare[at] = slots[left]
                    left += 1
                else:
                    spare[at] = slots[right]
                    right += 1
        slots[:] = spare
        width *= 2


@njit(cache=True, nogil=True)
def insert_terms(texts, ids, highs, starts, lengths, keys, slots, places, gap, first_moment):
    """Insert different terms, and write their slots in order. Return whether ranks of other terms changed too."""
    count, new = np.int64(texts.fields[_COUNT]), len(ids)
    # The terms before `i` have slots; `texts.fields[_SLOTS]` - `count` - `i` slots of the stack `free` are left.
    for i in range(new):
        used = np.int64(texts.fields[_SLOTS])
        if used > count + i:
            slot = np.int64(texts.free[used - count - i - 1])
        else:
            slot = used
            texts.fields[_SLOTS] += 1
        at = np.int64(texts.fields[_USED])
        for place in range(lengths[i]):
            texts.arena[at + place] = keys[starts[i] + place]
        texts.ids[slot], texts.high[slot] = ids[i], highs[i]
        texts.start[slot], texts.length[slot] = at, lengths[i]
        texts.fields[_USED] += lengths[i]
        slots[i] = slot
    _sort(texts, slots, places)
    low = np.int64(0)
    for i in range(new):  # a place is that among the terms before
        step = np.int64(1)
        # The terms of `order` before `low` are smaller than new term `i`, since new terms are in order.
        while low + step <= count and _is_smaller(texts, np.int64(texts.order[low + step - 1]), slots[i]):
            low += step
            step *= 2
        high = min(low + step, count)
        # The place is from `low` to `high`.
        while low < high:
            middle = (low + high) // 2
            if _is_smaller(texts, np.int64(texts.order[middle]), slots[i]):
                low = middle + 1
            else:
                high = middle
        places[i] = low
    end = count
    # The earlier terms from place `end` on, and the new terms after `i`, are at their new places.
    for i in range(new - 1, -1, -1):
        for place in range(end - 1, places[i] - 1, -1):
            texts.order[place + i + 1] = texts.order[place]
        end = places[i]
        texts.order[end + i] = slots[i]
    texts.fields[_COUNT] = count + new
    for i in range(new):
        _number_value(texts, slots, places, i, first_moment)
    return _rank_new_terms(texts, slots, places, gap)


@njit(cache=True, nogil=True)
def _number_value(texts, slots, places, i, first_moment):
    """Assign a number to the value of new term `i`: that of a neighbour with an equal value, otherwise a new one."""
    slot, place = slots[i], places[i] + i
    if place > 0 and _has_value_of(texts, slot, np.int64(texts.order[place - 1]), first_moment):
        texts.value[slot] = texts.value[np.int64(texts.order[place - 1])]
        return
    new = i + 1
    place += 1
    # The terms after it, up to before `place`, are new and have an equal value, but no number yet.
    while place < texts.fields[_COUNT]:
        other = np.int64(texts.order[place])
        if not _has_value_of(texts, slot, other, first_moment):
            break
        if new == len(slots) or slots[new] != other:
            texts.value[slot] = texts.value[other]
            return
        new += 1
        place += 1
    texts.fields[_VALUES] += 1
    texts.value[slot] = texts.fields[_VALUES]


@njit(cache=True, nogil=True)
def _has_value_of(texts, one, other, first_moment):
    """Return whether the values of two slots are equal: their keys without the bytes that order equal values."""
    if texts.high[one] != texts.high[other]:
        return False
    begin, begin_other = np.int64(texts.start[one]), np.int64(texts.start[other])
    zeros = 1 if texts.high[one] >= first_moment else 2  # in a row, at the end of a value
    seen, i = 0, np.int64(0)
    # The first `i` bytes are equal and end with `seen` zeros.
    while seen < zeros:
        if texts.arena[begin + i] != texts.arena[begin_other + i]:
            return False
        seen = seen + 1 if texts.arena[begin + i] == 0 else 0
        i += 1
    return True


@njit(cache=True, nogil=True)
def _rank_new_terms(texts, slots, places, gap):
    """Assign ranks to new terms. Return whether ranks of other terms changed."""
    count, new, changes = np.int64(texts.fields[_COUNT]), len(slots), False
    most = np.int64(2**62)
    first = 0
    # The new terms before `first` have ranks. A turn ranks the next ones that are adjacent in order and have one `high`.
    while first < new:
        begin, high = places[first] + first, texts.high[slots[first]]
        last = first + 1
        while last < new and places[last] == places[first] and texts.high[slots[last]] == high:
            last += 1
        end = begin + last - first
        has_below = begin > 0 and texts.high[np.int64(texts.order[begin - 1])] == high
        has_above = end < count and texts.high[np.int64(texts.order[end])] == high
        below = np.int64(texts.rank[np.int64(texts.order[begin - 1])]) if has_below else np.int64(0)
        above = np.int64(texts.rank[np.int64(texts.order[end])]) if has_above else np.int64(0)
        step = np.int64(gap)
        if has_below and has_above:
            step = (above - below) // (end - begin + 1)
        elif has_above:
            below = above - (end - begin + 1) * gap
        elif not has_below:
            below = -(end - begin) // 2 * gap
        if step == 0 or below < -most or below + (end - begin) * step > most:
            changes = True
            _renumber_ranks(texts, begin, high, gap)
        else:
            for i in range(begin, end):
                texts.rank[np.int64(texts.order[i])] = below + (i - begin + 1) * step
        first = last
    return changes


@njit(cache=True, nogil=True)
def _renumber_ranks(texts, place, high, gap):
    """Assign ranks with gaps to all terms with this `high`, one of which is at a place."""
    count = np.int64(texts.fields[_COUNT])
    begin, end = place, place + 1
    while begin > 0 and texts.high[np.int64(texts.order[begin - 1])] == high:
        begin -= 1
    while end < count and texts.high[np.int64(texts.order[end])] == high:
        end += 1
    for i in range(begin, end):
        texts.rank[np.int64(texts.order[i])] = (i - begin - (end - begin) // 2) * gap


@njit(cache=True, nogil=True)
def remove_terms(texts, ids, highs, ranks):
    """Remove terms, which are found by their labels."""
    count, gone = np.int64(texts.fields[_COUNT]), np.int64(0)
    first = count
    for i in range(len(ids)):
        low, high = np.int64(0), count
        while low < high:
            middle = (low + high) // 2
            slot = np.int64(texts.order[middle])
            if texts.high[slot] < highs[i] or (texts.high[slot] == highs[i] and texts.rank[slot] < ranks[i]):
                low = middle + 1
            else:
                high = middle
        slot = np.int64(texts.order[low])
        texts.ids[slot] = -1
        texts.fields[_GARBAGE] += texts.length[slot]
        first = min(first, low)
    slots = np.int64(texts.fields[_SLOTS])
    # Of the terms before `place`, `gone` are removed and their slots free; the others have closed the gaps.
    for place in range(first, count):
        slot = np.int64(texts.order[place])
        if texts.ids[slot] == -1:
            texts.free[slots - count + gone] = slot
            gone += 1
        else:
            texts.order[place - gone] = slot
    texts.fields[_COUNT] = count - gone


@njit(cache=True, nogil=True)
def copy_keys(texts, arena):
    """Copy the keys of all terms, in order, into another arena, which will replace the present one."""
    at = np.int64(0)
    for i in range(texts.fields[_COUNT]):
        slot = np.int64(texts.order[i])
        begin, length = np.int64(texts.start[slot]), np.int64(texts.length[slot])
        for place in range(length):
            arena[at + place] = texts.arena[begin + place]
        texts.start[slot] = at
        at += length
    texts.fields[_USED], texts.fields[_GARBAGE] = at, 0
