"""Ids for whole numbers and quotients that a query computes: a kernel. They are written as terms when they are read.

A number is an entry (dividend, divisor): the quotient in lowest terms, or with the divisor 0 a whole number. Equal ones have
one id; the one hash table (`rpq/compiled/arrays/hashing.py`) finds it. Averages of groups change with every tuple, so most
of these numbers are never read, and a dictionary of Python's would cost more than everything else.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import (
    clear,
    first_candidate,
    id_at,
    mixed,
    new_table,
    next_candidate,
    put,
    put_new,
    table_size,
)
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.language.sparql.values.terms import XSD
from rpq.language.sparql.values.typed_values import DECIMAL_UNIT, NUMBER_TYPES, Number, number_term

Quotient = tuple[int, int]
"""A whole number, with 0, or a quotient in lowest terms."""

# Fields of `Quotients.fields`.
USED = 0  # entries given out so far (high water)
FREE = 1  # entries in the stack of free ones
TABLE = 2  # entries of the hash table
FIELDS = 3

NO_ENTRY = -1
"""The kind of an entry that is free."""

QUOTIENT, DECIMAL, FLOAT, DOUBLE = range(4)
"""Kinds of numbers: a quotient or an integer; a decimal, as units of 10⁻¹⁸ in 128 bits; the 64 bits of a float or double."""

_DIGITS = 18
_LONGEST = 2 + 20 + _DIGITS
"""Characters of a number: sign, digits, point."""
_ZERO, _POINT, _MINUS = ord("0"), ord("."), ord("-")
_LARGEST_DIVISOR = 2**59
"""Ten times a rest is below 2⁶³."""


class Quotients(NamedTuple):
    """The arrays."""

    dividends: np.ndarray  # int64 an entry; of other numbers than quotients, the upper half
    divisors: np.ndarray  # int64 an entry; of other numbers than quotients, the lower half
    kinds: np.ndarray  # int8 an entry: QUOTIENT, a type of other numbers, or NO_ENTRY
    free: np.ndarray  # int32, stack
    table: np.ndarray  # int32
    fields: np.ndarray  # int64[FIELDS]


class QuotientIds:
    """The numbers that have ids, which are places 0, 1, … here. Amortised O(1) a number."""

    def __init__(self) -> None:
        self._have(16)

    def _have(self, room: int) -> None:
        self._numbers = Quotients(
            dividends=np.zeros(room, np.int64),
            divisors=np.zeros(room, np.int64),
            kinds=np.full(room, NO_ENTRY, np.int8),
            free=np.zeros(room, np.int32),
            table=new_table(room),
            fields=np.array([0, 0, table_size(room)], np.int64),
        )
        self._view = view(self._numbers)

    def __len__(self) -> int:
        return int(self._numbers.fields[USED] - self._numbers.fields[FREE])

    @property
    def numbers(self) -> Quotients:
        """The arrays of the numbers, by place; new ones replace them when there are more numbers."""
        return self._numbers

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._numbers)

    def ids(self, dividends: np.ndarray, divisors: np.ndarray, kinds: np.ndarray | None = None) -> np.ndarray:
        """Return the places (int32) of quotients of int64 numbers; a divisor of 0 stands for an integer.

        `kinds` (int8) are given if some are other numbers, of which the two are the halves.
        """
        found = np.empty(len(dividends), np.int32)
        numbers = self._numbers
        if len(self) + len(found) > len(numbers.divisors):
            self._grow(max(len(found), len(numbers.divisors) // 2))
        if kinds is None:
            kinds = np.zeros(len(found), np.int8)
        _intern(self._view, *map(np.ascontiguousarray, (dividends, divisors, kinds)), found)
        return found

    def _grow(self, more: int) -> None:
        numbers = self._numbers
        self._numbers = numbers = lengthen_fields(numbers, more, dividends=0, divisors=0, kinds=NO_ENTRY, free=0)
        if table_size(len(numbers.divisors)) > len(numbers.table):
            self._numbers = numbers = numbers._replace(table=new_table(len(numbers.divisors)))
            numbers.fields[TABLE] = len(numbers.table)
        self._view = view(numbers)
        _fill_table(self._view)

    def keep(self, places: np.ndarray) -> np.ndarray:
        """Remove all numbers but those at `places`; return the places that became free. O(numbers)."""
        if not len(self):
            return np.zeros(0, np.int64)
        if not len(places):
            gone = np.flatnonzero(self._numbers.kinds[: self._numbers.fields[USED]] != NO_ENTRY)
            self._have(16)
            return gone
        numbers, used = self._numbers, int(self._numbers.fields[USED])
        is_gone = numbers.kinds[:used] != NO_ENTRY
        is_gone[places] = False
        gone = np.flatnonzero(is_gone)
        _release(self._view, gone)
        return gone

    def text(self, place: int) -> str:
        """Return the term of the number of a place."""
        numbers = self._numbers
        return computed_text(int(numbers.kinds[place]), int(numbers.dividends[place]), int(numbers.divisors[place]))

    def terms(self, places: np.ndarray) -> pa.Array:
        """Return the terms of quotients as literals in N-Triples form. O(places)."""
        dividends, divisors = self._numbers.dividends[places], self._numbers.divisors[places]
        if self._numbers.kinds[places].any():
            return pa.array([self.text(place) for place in places.tolist()], pa.string())
        if len(places) < _FEW or (divisors >= _LARGEST_DIVISOR).any():
            made = zip(dividends.tolist(), divisors.tolist(), strict=True)
            return pa.array([quotient_text(one) for one in made], pa.string())
        types = np.array([f'"^^<{XSD}{name}>'.encode() for name in ("integer", "decimal")])
        ends = types.view(np.uint8).reshape(len(types), -1)
        offsets = np.empty(len(places) + 1, np.int32)
        data = np.empty(len(places) * (_LONGEST + 1 + ends.shape[1]), np.uint8)
        length = _write(dividends, divisors, ends, offsets, data)
        return pa.StringArray.from_buffers(len(places), pa.py_buffer(offsets), pa.py_buffer(data[:length]))

    def check(self) -> None:
        """Assert that each number is found at its place, and no free place is used."""
        numbers = self._numbers
        used = np.flatnonzero(numbers.kinds != NO_ENTRY)
        free = numbers.free[: numbers.fields[FREE]].tolist()
        assert sorted([*used.tolist(), *free]) == list(range(int(numbers.fields[USED]))), "a place is neither free nor used"
        if len(used):
            found = self.ids(numbers.dividends[used], numbers.divisors[used], numbers.kinds[used])
            assert (found == used).all(), "a number is not found"


_FEW = 16


def computed_text(kind: int, high: int, low: int) -> str:
    """Return the term of a number of any kind.

    >>> print(computed_text(DECIMAL, 0, 5 * 10**17))
    "0.5"^^<http://www.w3.org/2001/XMLSchema#decimal>
    """
    if kind == QUOTIENT:
        return quotient_text((high, low))
    if kind == DECIMAL:
        return number_term(Number("decimal", Fraction(high * 2**64 + low % 2**64, DECIMAL_UNIT)))
    return number_term(Number(NUMBER_TYPES[kind], np.int64(low).view(np.float64).item()))


def quotient_text(quotient: Quotient) -> str:
    """Return the term of a number: an integer where the divisor is 0, else a decimal, exact and rounded once to 18 digits.

    >>> print(quotient_text((7, 0)), quotient_text((-1, 3)))
    "7"^^<http://www.w3.org/2001/XMLSchema#integer> "-0.333333333333333333"^^<http://www.w3.org/2001/XMLSchema#decimal>
    """
    dividend, divisor = quotient
    if not divisor:
        return f'"{dividend}"^^<{XSD}integer>'
    units, rest = divmod(dividend * DECIMAL_UNIT, divisor)
    units += 2 * rest > divisor or (2 * rest == divisor and units & 1)
    digits = f"{abs(units):019d}"
    fraction = digits[-18:].rstrip("0")
    sign = "-" if units < 0 else ""
    return f'"{sign}{digits[:-18]}{"." if fraction else ""}{fraction}"^^<{XSD}decimal>'


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(dividend, divisor, kind):
    return mixed(mixed(np.uint64(dividend)) + np.uint64(divisor) + np.uint64(kind))


@njit(cache=True, nogil=True, forceinline=True)
def _common(one, other):
    """Return the greatest common divisor of |one| and `other`, which is not negative."""
    one = abs(one)
    while other != 0:
        one, other = other, one % other
    return one


@njit(cache=True, nogil=True)
def _intern(numbers, dividends, divisors, kinds, found):
    """Write the place of each number to `found`; the arrays have room for all."""
    fields = numbers.fields
    for i in range(len(found)):
        dividend, divisor, kind = dividends[i], divisors[i], np.int64(kinds[i])
        if kind == QUOTIENT and divisor > 1:
            common = _common(dividend, divisor)
            dividend //= common
            divisor //= common
        place = first_candidate(numbers.table, fields[TABLE], _hash(dividend, divisor, kind))
        while place >= 0:
            entry = id_at(numbers.table, place)
            is_same = numbers.dividends[entry] == dividend and numbers.divisors[entry] == divisor
            if is_same and numbers.kinds[entry] == kind:
                break
            place = next_candidate(numbers.table, fields[TABLE], place)
        if place >= 0:
            found[i] = id_at(numbers.table, place)
            continue
        if fields[FREE] > 0:
            fields[FREE] -= 1
            entry = np.int64(numbers.free[fields[FREE]])
        else:
            entry = fields[USED]
            fields[USED] += 1
        numbers.dividends[entry] = dividend
        numbers.divisors[entry] = divisor
        numbers.kinds[entry] = kind
        put(numbers.table, place, entry)
        found[i] = entry


@njit(cache=True, nogil=True)
def _fill_table(numbers):
    clear(numbers.table, numbers.fields[TABLE])
    for entry in range(numbers.fields[USED]):
        if numbers.kinds[entry] != NO_ENTRY:
            h = _hash(numbers.dividends[entry], numbers.divisors[entry], np.int64(numbers.kinds[entry]))
            put_new(numbers.table, numbers.fields[TABLE], h, entry)


@njit(cache=True, nogil=True)
def _release(numbers, gone):
    for entry in gone:
        numbers.kinds[entry] = NO_ENTRY
        numbers.free[numbers.fields[FREE]] = entry
        numbers.fields[FREE] += 1
    _fill_table(numbers)


@njit(cache=True, nogil=True)
def _write(dividends, divisors, ends, offsets, data):
    """Write the terms of numbers one after the other and return their length in bytes; `ends` follow the digits.

    Of a quotient the digits come one after the other, as in a division on paper; the last is rounded to the nearest, to the
    even one of two.
    """
    digits = np.empty(_LONGEST, np.uint8)  # backwards
    top = np.int64(0)
    quote = ends[0, 0]
    for i in range(len(dividends)):
        offsets[i] = top
        dividend, divisor = dividends[i], divisors[i]
        data[top] = quote
        top += 1
        # A whole number is divided by one; what is below zero has the same digits as what is above.
        by = max(divisor, np.int64(1))
        whole, rest = abs(dividend) // by, abs(dividend) % by
        fraction = np.int64(0)
        for _ in range(_DIGITS):
            rest *= 10
            fraction = fraction * 10 + rest // by
            rest %= by
        if 2 * rest > by or (2 * rest == by and fraction & 1 == 1):
            fraction += 1
        if fraction == np.int64(DECIMAL_UNIT):
            fraction = np.int64(0)
            whole += 1
        if dividend < 0 and (whole > 0 or fraction > 0):
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
            data[top] = ends[1 if divisor > 0 else 0, place]
            top += 1
    offsets[len(dividends)] = top
    return top
