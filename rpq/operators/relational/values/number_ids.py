"""Ids for the numbers that a query computes: kernels. The text of a number is written when it is read.

A number is an entry (kind, high, low). Equal numbers of one kind have one id, which a hash table
(`rpq/compiled/arrays/hashing.py`) finds. Averages are decimals, exact and rounded once to 18 digits, whatever the order of
summation. Averages of groups change with every tuple, so most of these numbers are never read, and a Python dictionary
would cost more than everything else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import (
    clear,
    first_candidate,
    id_at,
    mix,
    new_table,
    next_candidate,
    put,
    put_new,
    table_size,
)
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.language.sparql.values.typed_values import DECIMAL_UNIT, NUMBER_TYPES, Number, decimal_text, number_term
from rpq.stream.names.terms import XSD


class NumberCounts(Record):
    """The entries, and the length of the hash table."""

    _fields_ = (
        ("used", int64),  # entries given out so far (high water)
        ("free", int64),  # entries in the stack of free ones
        ("table", int64),  # entries of the hash table
    )


NO_ENTRY = -1
"""The kind of an entry that is free."""

INTEGER, DECIMAL, FLOAT, DOUBLE = range(4)
"""Kinds of numbers: an integer of 64 bits; a decimal, as units of 10⁻¹⁸ in 128 bits; the 64 bits of a float or double."""

_DIGITS = 18
_LONGEST = 2 + 20 + _DIGITS
"""Characters of a number: sign, digits, point."""
_ZERO, _POINT, _MINUS = ord("0"), ord("."), ord("-")
_BILLION = np.uint64(10**9)
_ONE, _ZERO_WORD = np.uint64(1), np.uint64(0)
_HALF = 2**32
_32, _MASK = np.uint64(32), np.uint64(_HALF - 1)
_UNIT_UPPER, _UNIT_LOWER = np.uint64(DECIMAL_UNIT // _HALF), np.uint64(DECIMAL_UNIT % _HALF)
"""The halves of 10¹⁸."""
_LOWEST = -(2**63)
_HIGHEST = 2**58
"""Decimals whose upper half is below this, or above its negative, have a whole part of less than 2⁶³."""


class Numbers(NamedTuple):
    """The arrays."""

    high: np.ndarray  # int64 an entry: the upper half of a decimal; of other kinds 0
    low: np.ndarray  # int64 an entry: the lower half of a decimal, an integer, or the bits of a double
    kinds: np.ndarray  # int8 an entry: INTEGER, …, or NO_ENTRY
    free: np.ndarray  # int32, stack
    table: np.ndarray  # int32
    fields: NumberCounts


class NumberIds:
    """The numbers with ids, by their places 0, 1, … Amortised O(1) for each number."""

    def __init__(self) -> None:
        self._have(16)

    def _have(self, room: int) -> None:
        self._numbers = Numbers(
            high=np.zeros(room, np.int64),
            low=np.zeros(room, np.int64),
            kinds=np.full(room, NO_ENTRY, np.int8),
            free=np.zeros(room, np.int32),
            table=new_table(room),
            fields=NumberCounts(table=table_size(room)),
        )
        self._view = view(self._numbers)

    def __len__(self) -> int:
        return int(self._numbers.fields.used - self._numbers.fields.free)

    @property
    def numbers(self) -> Numbers:
        """The arrays of the numbers, by place. Larger arrays replace them when there are more numbers."""
        return self._numbers

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._numbers)

    def ids(self, kinds: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return the places (int32) of numbers of these kinds (int8); the halves are int64."""
        found = np.empty(len(kinds), np.int32)
        self._make_room(len(found))
        _intern_numbers(self._view, *map(np.ascontiguousarray, (kinds, high, low)), found)
        return found

    def ids_of_quotients(self, dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        """Return the places (int32) of quotients of int64 numbers, which are decimals. A divisor of 0 marks an integer.

        Dividends are above -2⁶³, divisors at most 2³³, so that 10⁹ times a remainder is below 2⁶³.
        """
        found = np.empty(len(dividends), np.int32)
        self._make_room(len(found))
        _intern_quotients(self._view, *map(np.ascontiguousarray, (dividends, divisors)), found)
        return found

    def _make_room(self, more: int) -> None:
        numbers = self._numbers
        if len(self) + more <= len(numbers.kinds):
            return
        more = max(more, len(numbers.kinds) // 2)
        self._numbers = numbers = lengthen_fields(numbers, more, high=0, low=0, kinds=NO_ENTRY, free=0)
        if table_size(len(numbers.kinds)) > len(numbers.table):
            self._numbers = numbers = numbers._replace(table=new_table(len(numbers.kinds)))
            numbers.fields.table = len(numbers.table)
        self._view = view(numbers)
        _fill_table(self._view)

    def retain(self, places: np.ndarray) -> np.ndarray:
        """Remove all numbers except those at `places`. Return the places that became free. O(numbers)."""
        if not len(self):
            return np.zeros(0, np.int64)
        if not len(places):
            free_places = np.flatnonzero(self._numbers.kinds[: self._numbers.fields.used] != NO_ENTRY)
            self._have(16)
            return free_places
        numbers, used = self._numbers, self._numbers.fields.used
        is_gone = numbers.kinds[:used] != NO_ENTRY
        is_gone[places] = False
        free_places = np.flatnonzero(is_gone)
        _release(self._view, free_places)
        return free_places

    def text(self, place: int) -> str:
        """Return the term of the number of a place."""
        numbers = self._numbers
        return computed_text(int(numbers.kinds[place]), int(numbers.high[place]), int(numbers.low[place]))

    def terms(self, places: np.ndarray) -> pa.Array:
        """Return the terms of numbers as literals in N-Triples form. O(places)."""
        high, low, kinds = self._numbers.high[places], self._numbers.low[places], self._numbers.kinds[places]
        is_rare = (kinds > DECIMAL) | (high >= _HIGHEST) | (high <= -_HIGHEST) | (low == _LOWEST)
        if len(places) < _FEW or is_rare.any():
            return pa.array([self.text(place) for place in places.tolist()], pa.string())
        types = np.array([f'"^^<{XSD}{name}>'.encode() for name in ("integer", "decimal")])
        ends = types.view(np.uint8).reshape(len(types), -1)
        offsets = np.empty(len(places) + 1, np.int32)
        data = np.empty(len(places) * (_LONGEST + 1 + ends.shape[1]), np.uint8)
        length = _write(kinds, high, low, ends, offsets, data)
        return pa.StringArray.from_buffers(len(places), pa.py_buffer(offsets), pa.py_buffer(data[:length]))

    def check(self) -> None:
        """Assert that each number is found at its place, and no free place is used."""
        numbers = self._numbers
        used = np.flatnonzero(numbers.kinds != NO_ENTRY)
        free = numbers.free[: numbers.fields.free].tolist()
        assert sorted([*used.tolist(), *free]) == list(range(numbers.fields.used)), "a place is neither free nor used"
        if len(used):
            found = self.ids(numbers.kinds[used], numbers.high[used], numbers.low[used])
            assert (found == used).all(), "a number is not found"


_FEW = 16


def computed_text(kind: int, high: int, low: int) -> str:
    """Return the term of a number of any kind.

    >>> print(computed_text(INTEGER, 0, 7), computed_text(DECIMAL, 0, 5 * 10**17))
    "7"^^<http://www.w3.org/2001/XMLSchema#integer> "0.5"^^<http://www.w3.org/2001/XMLSchema#decimal>
    """
    if kind == INTEGER:
        return f'"{low}"^^<{XSD}integer>'
    if kind == DECIMAL:
        return f'"{decimal_text(high * 2**64 + low % 2**64)}"^^<{XSD}decimal>'
    return number_term(Number(NUMBER_TYPES[kind], np.int64(low).view(np.float64).item()))


def quotients(dividends: np.ndarray, divisors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the kinds and halves of quotients, as arguments of `NumberIds.ids`.

    A divisor of 0 marks an integer. Other quotients are decimals, exact and rounded once to 18 digits, half to even.

    >>> kinds, high, low = quotients(np.array([7, -1, -1]), np.array([0, 3, 4]))
    >>> kinds.tolist(), high.tolist(), low.tolist()
    ([0, 1, 1], [0, -1, -1], [7, -333333333333333333, -250000000000000000])
    """
    high, low = np.empty((2, len(dividends)), np.int64)
    _divide_numbers(*map(np.ascontiguousarray, (dividends, divisors)), high, low)
    return np.where(divisors == 0, INTEGER, DECIMAL).astype(np.int8), high, low


@njit(cache=True, nogil=True, forceinline=True)
def negate(high, low):
    """Return the halves of minus a number of 128 bits."""
    return ~high + (1 if low == 0 else 0), -low


@njit(cache=True, nogil=True, forceinline=True)
def _in_units(whole, fraction):
    """Return the halves of whole · 10¹⁸ + fraction, neither of which is negative, as numbers of 64 bits."""
    upper, lower = np.uint64(whole) >> _32, np.uint64(whole) & _MASK
    lowest = lower * _UNIT_LOWER
    middle = upper * _UNIT_LOWER + (lowest >> _32)
    other_middle = lower * _UNIT_UPPER + (middle & _MASK)
    units = (other_middle << _32) | (lowest & _MASK)
    high = upper * _UNIT_UPPER + (middle >> _32) + (other_middle >> _32)
    low = units + np.uint64(fraction)
    return np.int64(high) + (1 if low < units else 0), np.int64(low)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def integer_in_units(number):
    """Return the halves of number · 10¹⁸. The number is above -2⁶³."""
    high, low = _in_units(abs(number), 0)
    return (high, low) if number >= 0 else negate(high, low)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _quotient_in_units(dividend, divisor):
    """Return the halves of a quotient in units of 10⁻¹⁸, rounded to the nearest unit, ties to even."""
    by = np.uint64(divisor)  # divisions without signs are quicker
    rest = np.uint64(abs(dividend))
    whole = rest // by
    rest = (rest - whole * by) * _BILLION
    upper = rest // by
    rest = (rest - upper * by) * _BILLION
    lower = rest // by
    rest -= lower * by
    fraction = upper * _BILLION + lower
    if rest + rest > by or (rest + rest == by and fraction & _ONE != _ZERO_WORD):
        fraction += _ONE
    high, low = _in_units(whole, fraction)
    return (high, low) if dividend >= 0 else negate(high, low)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(kind, high, low):
    return mix(mix(np.uint64(low)) + np.uint64(high) + np.uint64(kind))


@njit(cache=True, nogil=True, forceinline=True)
def _intern(numbers, kind, high, low):
    """Return the place of a number. The arrays must have room for one more."""
    fields = numbers.fields
    place = first_candidate(numbers.table, fields.table, _hash(kind, high, low))
    while place >= 0:
        entry = id_at(numbers.table, place)
        if numbers.low[entry] == low and numbers.high[entry] == high and numbers.kinds[entry] == kind:
            return entry
        place = next_candidate(numbers.table, fields.table, place)
    if fields.free > 0:
        fields.free -= 1
        entry = np.int64(numbers.free[fields.free])
    else:
        entry = fields.used
        fields.used += 1
    numbers.high[entry] = high
    numbers.low[entry] = low
    numbers.kinds[entry] = kind
    put(numbers.table, place, entry)
    return entry


@njit(cache=True, nogil=True)
def _intern_numbers(numbers, kinds, high, low, found):
    """Write the place of each number to `found`. The arrays must have room for all."""
    for i in range(len(found)):
        found[i] = _intern(numbers, np.int64(kinds[i]), high[i], low[i])


@njit(cache=True, nogil=True)
def _intern_quotients(numbers, dividends, divisors, found):
    """Write the place of each quotient, or of an integer if the divisor is 0, to `found`. There must be room for all."""
    for i in range(len(found)):
        if divisors[i] == 0:
            found[i] = _intern(numbers, np.int64(INTEGER), np.int64(0), dividends[i])
        else:
            high, low = _quotient_in_units(dividends[i], divisors[i])
            found[i] = _intern(numbers, np.int64(DECIMAL), high, low)


@njit(cache=True, nogil=True)
def _divide_numbers(dividends, divisors, high, low):
    """Write the halves of quotients, or of integers where the divisor is 0."""
    for i in range(len(dividends)):
        if divisors[i] == 0:
            high[i], low[i] = 0, dividends[i]
        else:
            high[i], low[i] = _quotient_in_units(dividends[i], divisors[i])


@njit(cache=True, nogil=True)
def _fill_table(numbers):
    clear(numbers.table, numbers.fields.table)
    for entry in range(numbers.fields.used):
        if numbers.kinds[entry] != NO_ENTRY:
            h = _hash(np.int64(numbers.kinds[entry]), numbers.high[entry], numbers.low[entry])
            put_new(numbers.table, numbers.fields.table, h, entry)


@njit(cache=True, nogil=True)
def _release(numbers, places):
    for entry in places:
        numbers.kinds[entry] = NO_ENTRY
        numbers.free[numbers.fields.free] = entry
        numbers.fields.free += 1
    _fill_table(numbers)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _parts(high, low):
    """Return the whole part and the fraction, in units of 10⁻¹⁸, of |decimal|: a division by 10⁹, twice, by halves."""
    if high < 0:
        high, low = negate(high, low)
    upper, lower = np.uint64(high), np.uint64(low)
    fraction = np.uint64(0)
    unit = np.uint64(1)
    # The absolute value of the decimal is (`upper`, `lower`) · `unit` + `fraction`.
    for _ in range(2):
        top, rest = upper // _BILLION, upper % _BILLION
        rest = (rest << _32) | (lower >> _32)
        middle, rest = rest // _BILLION, rest % _BILLION
        rest = (rest << _32) | (lower & _MASK)
        upper, lower = top, (middle << _32) | (rest // _BILLION)
        fraction += rest % _BILLION * unit
        unit = _BILLION
    return np.int64(lower), np.int64(fraction)


@njit(cache=True, nogil=True)
def _write(kinds, high, low, ends, offsets, data):
    """Write the terms of integers and decimals one after the other, with `ends` after the digits. Return the bytes
    written."""
    digits = np.empty(_LONGEST, np.uint8)  # backwards
    top = np.int64(0)
    quote = ends[0, 0]
    for i in range(len(kinds)):
        offsets[i] = top
        data[top] = quote
        top += 1
        if kinds[i] == INTEGER:
            whole, fraction = abs(low[i]), np.int64(0)
            is_negative = low[i] < 0
        else:
            whole, fraction = _parts(high[i], low[i])
            is_negative = high[i] < 0
        if is_negative:
            data[top] = _MINUS
            top += 1
        count = 0
        while whole > 0 or count == 0:
            digits[count] = _ZERO + whole % 10
            whole //= 10
            count += 1
        for place in range(count):
            data[top] = digits[count - 1 - place]
            top += 1
        if fraction > 0:
            data[top] = _POINT
            top += 1
            count = _DIGITS
            while fraction % 10 == 0:
                fraction //= 10
                count -= 1
            for place in range(count):
                data[top + count - 1 - place] = _ZERO + fraction % 10
                fraction //= 10
            top += count
        for place in range(ends.shape[1]):
            data[top] = ends[1 if kinds[i] == DECIMAL else 0, place]
            top += 1
    offsets[len(kinds)] = top
    return top
