"""Groups whose aggregates are counts, sums and averages of numbers of any type: kernels.

Sums are exact. A number is added to *limbs*: digits to the base 2³², each in 64 bits, of a superaccumulator (Kulisch). A
limb overflows after 2³¹ numbers, so carries are propagated once an event, and more often in an event of more than 2³⁰ rows.
Integers and decimals are summed in units of 10⁻¹⁸ in five limbs, floats and doubles in units of 2⁻¹⁰⁸⁸ in as many limbs as
their exponents require, the same for all groups. Hence the order of the changes, and numbers that left, have no effect. The
result is rounded once: half to even.

`rpq.operators.relational.values.group_sums` is faster. Its sums are continued here once a number is not a small integer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.operators.bags.row_bags import RowBags, add_in_event, end_event
from rpq.operators.relational.values.group_sums import (
    AVERAGED,
    COUNTED,
    FIGURES,
    HAD,
    HAS,
    NUMBERS,
    OTHERS,
    SUM,
    GroupFigures,
    changes_view,
    look_ahead,
)
from rpq.operators.relational.values.number_ids import DECIMAL, DOUBLE, FLOAT, INTEGER

TYPES = 4
"""The number of types of numbers, which are promoted in this order."""

FINITE, POSITIVE, NEGATIVE, UNDEFINED = range(4)
"""The class of a number: finite, infinite, or not a number. The kind of an amount is its type + `TYPES` times this."""

NO_AMOUNT = 4 * TYPES
"""The kind of a value that is unbound or not a number."""

SKIPPED = NO_AMOUNT + 2
"""The kind of a value that is left out."""

NO_RESULT = -1
"""The type of an aggregate that is unbound."""

LIMB = 32
_MASK = 2**LIMB - 1
_MAX_AT_ONCE = 2**30
"""The number of rows whose numbers can be added before carries must be propagated."""
_BILLION = 10**9
_DECIMAL_LIMBS = 5
ONE = 34
"""The limb whose unit is 1, among those of floats: 32 × 34 = 1088."""
_LEAST_BIT = LIMB * ONE - 1074
"""The bit of the smallest double."""
_LARGEST_BIT = LIMB * ONE + 1023
_BELOW = 6
"""Limbs below the lowest, for the fraction of a quotient: 10¹⁸ and a count have less than 122 bits, a double 54."""
_ABOVE = 4
_LEADING = 7
"""Limbs that are divided: their quotient by 10¹⁸ and a count, which have less than 124 bits, has the 54 bits that matter."""
_WORK = _BELOW + _ABOVE + ONE + LIMB + 8

# The figures of a sum or an average of a group; a count has only the first.
_OTHERS = 0
_COUNTS = 1  # of each type
_SPECIALS = _COUNTS + TYPES - 1  # of each of POSITIVE, NEGATIVE, UNDEFINED
_DECIMALS = _COUNTS + TYPES + 3
_BINARY = _DECIMALS + _DECIMAL_LIMBS


class Amounts(NamedTuple):
    """Numbers: finite integers and decimals as units of 10⁻¹⁸ in 128 bits, floats as mantissa and exponent.

    `high` of a finite float is its exponent + 1088, and `low` the mantissa with its sign.
    """

    kinds: np.ndarray  # int8
    high: np.ndarray  # int64
    low: np.ndarray  # int64


class _Sums(NamedTuple):
    """The arrays of the sums for the kernels, passed as a view because counting references to arrays takes too long."""

    figures: np.ndarray  # int64, those of each group
    functions: np.ndarray  # uint8 an aggregate
    starts: np.ndarray  # int64 an aggregate: where its figures begin among those of a group, and the end of all
    work: np.ndarray  # int64


class _Results(NamedTuple):
    """The arrays of the values of aggregates, (aggregate, group), for the kernels."""

    types: np.ndarray  # int8
    high: np.ndarray  # int64
    low: np.ndarray  # int64
    reals: np.ndarray  # float64: the same memory as `low`


class ChangedSums(NamedTuple):
    """Groups that events changed, as in `group_sums.ChangedGroups`, and the values of their aggregates."""

    places: np.ndarray  # int64
    groups: np.ndarray  # int32
    presence: np.ndarray  # uint8
    types: np.ndarray  # int8 (aggregate, group): a type, or NO_RESULT
    high: np.ndarray  # int64 (aggregate, group): of a decimal, the upper half of its units
    low: np.ndarray  # int64 (aggregate, group): an integer, the lower half of units, or the bits of a double


class ExactSums(GroupFigures):
    """The groups of rows with `keys` keys, and their aggregates (`COUNTED`, …). Amortised O(changes)."""

    def __init__(self, keys: int, aggregates: Sequence[int], *, bags: RowBags | None = None) -> None:
        self._functions = np.array(aggregates, np.uint8)
        self._first_limb, self._limbs = ONE, 0
        self._set_starts()
        super().__init__(RowBags([keys]) if bags is None else bags, int(self._starts[-1]))
        self._work = np.zeros(_WORK, np.int64)

    @classmethod
    def of_integers(cls, keys: int, aggregates: Sequence[int], bags: RowBags, figures: np.ndarray) -> ExactSums:
        """Return sums that continue `SummedGroups`, with its groups and figures."""
        sums = cls(keys, aggregates, bags=bags)
        for place, (start, function) in enumerate(zip(sums._starts, aggregates, strict=False)):
            of_aggregate = figures[:, place * FIGURES : (place + 1) * FIGURES]
            if function == COUNTED:
                sums._figures[:, start] = of_aggregate[:, NUMBERS]
                continue
            sums._figures[:, start + _OTHERS] = of_aggregate[:, OTHERS]
            sums._figures[:, start + _COUNTS + INTEGER] = of_aggregate[:, NUMBERS]
            low, high = of_aggregate[:, SUM] & _MASK, of_aggregate[:, SUM] >> LIMB
            # The sign of the upper limb goes up to the top, with carries between two multiplications by 10⁹.
            parts = [low, high, *(np.zeros_like(low) for _ in range(_DECIMAL_LIMBS - 2))]
            for _ in range(2):
                carry = np.zeros_like(low)
                for limb, part in enumerate(parts):
                    product = part * _BILLION + carry
                    is_top = limb == _DECIMAL_LIMBS - 1
                    parts[limb], carry = (product, carry) if is_top else (product & _MASK, product >> LIMB)
            for limb, part in enumerate(parts):
                sums._figures[:, start + _DECIMALS + limb] = part
        return sums

    def _set_starts(self) -> None:
        sizes = [1 if function == COUNTED else _BINARY + self._limbs for function in self._functions]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def change(self, keys: np.ndarray, weights: np.ndarray, events: np.ndarray, amounts: Amounts) -> ChangedSums:
        """Apply changes of rows with these keys. The arrays of `amounts` are (aggregate, row)."""
        self._cover(amounts)
        count = len(weights)
        self._reserve(count)
        shape = len(self._functions), count
        changed = ChangedSums(
            np.empty(count, np.int64),
            np.empty(count, np.int32),
            np.empty(count, np.uint8),
            np.empty(shape, np.int8),
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
        )
        some = change_sums(
            self._bags.view,
            self._view(),
            self._first_limb,
            len(self._functions),
            changes_view(keys, weights, events),
            count,
            view(Amounts(*(np.ascontiguousarray(array).reshape(-1) for array in amounts))),
            *changed[:3],
            _results_view(changed),
        )
        return self._round_singles(ChangedSums(*(array[..., :some] for array in changed)))

    def _view(self) -> Any:
        return view(_Sums(self._figures.reshape(-1), self._functions, self._starts, self._work))

    @staticmethod
    def _round_singles(changed: ChangedSums) -> ChangedSums:
        """Round the results that are floats to 32 bits, as a cast from double does."""
        singles = changed.types == FLOAT
        if singles.any():
            with np.errstate(over="ignore"):
                reals = changed.low[singles].view(np.float64).astype(np.float32).astype(np.float64)
            changed.low[singles] = reals.view(np.int64)
        return changed

    def _cover(self, amounts: Amounts) -> None:
        """Allocate the limbs for the bits of these floats, and one for carries. 0 has no bits, whatever its exponent."""
        are_floats = ((amounts.kinds == FLOAT) | (amounts.kinds == DOUBLE)) & (amounts.low != 0)
        if not are_floats.any():
            return
        positions = amounts.high[are_floats]
        first, end = int(positions.min()) // LIMB, int(positions.max()) // LIMB + 4
        if self._limbs:
            first, end = min(first, self._first_limb), max(end, self._first_limb + self._limbs)
        if (first, end) == (self._first_limb, self._first_limb + self._limbs):
            return
        shift, before, limbs = self._first_limb - first, self._starts, self._limbs
        old = self._figures
        self._first_limb, self._limbs = first, end - first
        self._set_starts()
        self._figures = np.zeros((len(old), int(self._starts[-1])), np.int64)
        for place, function in enumerate(self._functions):
            start, from_ = int(self._starts[place]), int(before[place])
            if function == COUNTED:
                self._figures[:, start] = old[:, from_]
                continue
            self._figures[:, start : start + _BINARY] = old[:, from_ : from_ + _BINARY]
            if not limbs:
                continue
            moved = start + _BINARY + shift
            self._figures[:, moved : moved + limbs] = old[:, from_ + _BINARY : from_ + _BINARY + limbs]
            top = moved + limbs - 1  # it has carries and the sign, which go on above
            for limb in range(top, start + _BINARY + self._limbs - 1):
                self._figures[:, limb + 1] = self._figures[:, limb] >> LIMB
                self._figures[:, limb] &= _MASK

    def results(self) -> ChangedSums:
        """Return the values of the aggregates of every group, by its number. O(groups)."""
        count = len(self._figures)
        shape = len(self._functions), count
        results = ChangedSums(
            np.zeros(count, np.int64),
            np.arange(count, dtype=np.int32),
            np.full(count, HAS, np.uint8),
            np.empty(shape, np.int8),
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
        )
        write_results(self._view(), self._first_limb, len(self._functions), count, _results_view(results))
        return self._round_singles(results)

    def check(self) -> None:
        """Assert that groups without rows have no figures, and that carries are propagated."""
        super().check()
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            if end - start > 1:
                for first, last in ((start + _DECIMALS, start + _BINARY), (start + _BINARY, end)):
                    limbs = self._figures[:, first : max(first, last - 1)]
                    assert (limbs == limbs & _MASK).all(), "a carry was not propagated"


def _results_view(changed: ChangedSums) -> Any:
    arrays = changed.types, changed.high, changed.low, changed.low.view(np.float64)
    return view(_Results(*(array.reshape(-1) for array in arrays)))


@njit(cache=True, nogil=True)
def change_sums(bags, sums, first_limb, aggregates, changes, count, amounts, places, groups, presence, results):
    """Apply changes to groups and return how many changed groups were written."""
    columns = sums.starts[aggregates]
    width = np.int64(bags.width[0])
    written = first = 0
    rows = np.int64(0)  # since carries were propagated
    # The changes before `i` are added. The groups before `first` are written; those from there to `written` are the ones
    # that the present event changed. Their limbs have at most `rows` rows without carries, fewer than `_MAX_AT_ONCE`.
    for i in range(count):
        look_ahead(bags, sums, columns, changes, count, width, i)
        weight = changes.weights[i]
        changed = bags.fields.changed
        entry = add_in_event(bags, 0, changes.keys, i * width, weight)
        if bags.fields.changed != changed:
            places[written] = i
            groups[written] = entry
            written += 1
        rows += abs(weight)
        if rows >= _MAX_AT_ONCE:
            for j in range(first, written):
                _carry_all(sums, aggregates, np.int64(groups[j]))
            rows = abs(weight)
        for aggregate in range(aggregates):
            at = entry * columns + sums.starts[aggregate]
            amount = aggregate * count + i
            kind = np.int64(amounts.kinds[amount])
            if sums.functions[aggregate] == COUNTED:
                if kind != NO_AMOUNT:
                    sums.figures[at] += weight
            elif _count_amount(sums.figures, at, weight, kind):
                type_, high, low = kind % TYPES, amounts.high[amount], amounts.low[amount]
                if rows < _MAX_AT_ONCE:
                    _add_amount(sums.figures, at, 0, first_limb, weight, type_, high, low)
                else:
                    end = entry * columns + sums.starts[aggregate + 1]
                    _add_often(sums.figures, at, end, first_limb, weight, type_, high, low)
        if rows >= _MAX_AT_ONCE:  # the last one was a single row, which left no carries
            rows = np.int64(0)
        if i + 1 < count and changes.events[i + 1] == changes.events[i]:
            continue
        for j in range(first, written):
            entry = np.int64(groups[j])
            presence[j] = (HAD if bags.prior_count[entry] > 0 else 0) | (HAS if bags.counts[entry] > 0 else 0)
            _write_result(sums, first_limb, aggregates, entry, results, j, count)
        end_event(bags)
        first, rows = written, np.int64(0)
    return written


@njit(cache=True, nogil=True)
def write_results(sums, first_limb, aggregates, count, results):
    """Write the results of groups 0 … `count` - 1."""
    for entry in range(count):
        _write_result(sums, first_limb, aggregates, entry, results, entry, count)


@njit(cache=True, nogil=True)
def _write_result(sums, first_limb, aggregates, entry, results, place, count):
    """Write the results of a group to its place among `count` groups."""
    for aggregate in range(aggregates):
        begin = entry * sums.starts[aggregates]
        at, end = begin + sums.starts[aggregate], begin + sums.starts[aggregate + 1]
        function, to = sums.functions[aggregate], aggregate * count + place
        if function == COUNTED:
            results.types[to], results.high[to], results.low[to] = INTEGER, 0, sums.figures[at]
            continue
        _carry_sum(sums.figures, at, end)
        _sum_result(sums, at, end, first_limb, function == AVERAGED, results, to)


@njit(cache=True, nogil=True, forceinline=True)
def _count_amount(figures, at, weight, kind):
    """Count an amount in the figures of a sum, which begin at a place. Return whether its number must be added."""
    if kind >= NO_AMOUNT:
        if kind == NO_AMOUNT:
            figures[at + _OTHERS] += weight
        return False
    special = kind // TYPES
    figures[at + _COUNTS + kind % TYPES] += weight
    if special != FINITE:
        figures[at + _SPECIALS + special] += weight
    return special == FINITE


@njit(cache=True, nogil=True, forceinline=True)
def _add_amount(figures, at, limb, first_limb, weight, type_, high, low):
    """Add `weight` times an amount to a sum, shifted by some limbs. `weight` is at most `_MAX_AT_ONCE`."""
    if type_ <= DECIMAL:
        place = at + _DECIMALS + limb
        figures[place] += weight * (low & _MASK)
        figures[place + 1] += weight * ((low >> LIMB) & _MASK)
        figures[place + 2] += weight * (high & _MASK)
        figures[place + 3] += weight * (high >> LIMB)
    elif low != 0:
        place, shift = at + _BINARY + limb + (high >> 5) - first_limb, high & (LIMB - 1)
        if low < 0:
            weight, low = -weight, -low
        # The mantissa has 53 bits: those shifted out of the first limb go into the second and third.
        figures[place] += weight * ((low << shift) & _MASK)
        figures[place + 1] += weight * ((low >> (LIMB - shift)) & _MASK)
        figures[place + 2] += weight * ((low >> LIMB) >> (LIMB - shift))


@njit(cache=True, nogil=True)
def _add_often(figures, at, end, first_limb, weight, type_, high, low):
    """Add the number of an amount of any weight to a sum whose carries are propagated, and propagate its own.

    The lower half of the weight is that of the number, the upper half that of the number one limb above.
    """
    lower = ((weight + 2**31) & _MASK) - 2**31
    for limb, part in ((0, lower), (1, (weight - lower) >> LIMB)):
        for some in (part >> 1, part - (part >> 1)):
            _add_amount(figures, at, limb, first_limb, some, type_, high, low)
            _carry_sum(figures, at, end)


@njit(cache=True, nogil=True)
def _carry_all(sums, aggregates, entry):
    """Propagate the carries of all sums of a group."""
    begin = entry * sums.starts[aggregates]
    for aggregate in range(aggregates):
        if sums.functions[aggregate] != COUNTED:
            _carry_sum(sums.figures, begin + sums.starts[aggregate], begin + sums.starts[aggregate + 1])


@njit(cache=True, nogil=True, forceinline=True)
def _carry_sum(figures, at, end):
    _carry(figures, at + _DECIMALS, at + _BINARY)
    _carry(figures, at + _BINARY, end)


@njit(cache=True, nogil=True, forceinline=True)
def _carry(limbs, begin, end):
    """Propagate carries, so that all limbs but the last are digits."""
    for i in range(begin, end - 1):
        limbs[i + 1] += limbs[i] >> LIMB
        limbs[i] &= _MASK


@njit(cache=True, nogil=True)
def _negate(limbs, begin, end):
    for i in range(begin, end):
        limbs[i] = -limbs[i]
    _carry(limbs, begin, end)


@njit(cache=True, nogil=True)
def _multiply(limbs, begin, end, factor):
    carry = np.int64(0)
    # The limbs before `i` are digits of the product, and `carry` is to be added to limb `i`.
    for i in range(begin, end - 1):
        product = limbs[i] * factor + carry
        limbs[i] = product & _MASK
        carry = product >> LIMB
    limbs[end - 1] = limbs[end - 1] * factor + carry


@njit(cache=True, nogil=True, forceinline=True)
def _divide_quickly(limbs, begin, end, divisor):
    """Divide digits that are not negative by a divisor below 2³¹. Return the remainder."""
    rest = np.int64(0)
    while end > begin and limbs[end - 1] == 0:
        end -= 1
    # The limbs above `i` are digits of the quotient; `rest`, which is below the divisor, is their remainder.
    for i in range(end - 1, begin - 1, -1):
        rest = (rest << LIMB) | limbs[i]
        limbs[i] = rest // divisor
        rest -= limbs[i] * divisor
    return rest


@njit(cache=True, nogil=True)
def _divide_by_billion(limbs, begin, end):
    """Divide digits that are not negative by 10⁹, a constant by which the compiler multiplies. Return the remainder."""
    return _divide_quickly(limbs, begin, end, np.int64(_BILLION))


@njit(cache=True, nogil=True)
def _divide(limbs, begin, end, divisor):
    """Divide digits that are not negative. Return the remainder."""
    if divisor < 2**31:
        return _divide_quickly(limbs, begin, end, divisor)
    rest = np.int64(0)
    while end > begin and limbs[end - 1] == 0:
        end -= 1
    # The limbs above `i` are digits of the quotient; `rest`, which is below the divisor, is their remainder.
    for i in range(end - 1, begin - 1, -1):
        quotient = np.int64(0)
        # `quotient` has its bits above `bit`; `rest`, which is below the divisor, is the remainder down to there.
        for bit in range(LIMB - 1, -1, -1):
            rest = 2 * rest + ((limbs[i] >> bit) & 1)
            quotient *= 2
            if rest >= divisor:
                rest -= divisor
                quotient += 1
        limbs[i] = quotient
    return rest


@njit(cache=True, nogil=True)
def _sum_result(sums, at, end, first_limb, is_average, results, to):
    """Write the sum or the average that figures with propagated carries represent."""
    row = sums.figures
    results.high[to] = results.low[to] = 0
    type_, numbers = INTEGER, np.int64(0)
    for one in range(TYPES):
        if row[at + _COUNTS + one] > 0:
            type_ = one
            numbers += row[at + _COUNTS + one]
    results.types[to] = type_
    if row[at + _OTHERS] != 0:
        results.types[to] = NO_RESULT
    elif numbers == 0:
        results.types[to] = INTEGER
    elif type_ <= DECIMAL:
        if is_average:
            results.types[to] = DECIMAL
        _decimal_result(sums, at + _DECIMALS, numbers if is_average else 0, results, to)
    else:
        positive, negative = row[at + _SPECIALS + POSITIVE] > 0, row[at + _SPECIALS + NEGATIVE] > 0
        if row[at + _SPECIALS + UNDEFINED] > 0 or (positive and negative):
            results.reals[to] = np.nan
        elif positive or negative:
            results.reals[to] = np.inf if positive else -np.inf
        else:
            results.reals[to] = _real_result(sums, at, end, first_limb, numbers if is_average else 0)


@njit(cache=True, nogil=True)
def _decimal_result(sums, at, divisor, results, to):
    """Write a sum of integers or decimals, or its quotient by a divisor unless that is 0. Write no result if it does not
    fit."""
    work = sums.work
    for i in range(_DECIMAL_LIMBS):
        work[i] = sums.figures[at + i]
    work[_DECIMAL_LIMBS] = 0
    is_negative = work[_DECIMAL_LIMBS - 1] < 0
    if is_negative:
        _negate(work, 0, _DECIMAL_LIMBS)
    if divisor != 0:
        work[_DECIMAL_LIMBS] = work[_DECIMAL_LIMBS - 1] >> LIMB
        work[_DECIMAL_LIMBS - 1] &= _MASK
        rest = _divide(work, 0, _DECIMAL_LIMBS + 1, divisor)
        other = divisor - rest
        if rest > other or (rest == other and work[0] & 1 == 1):
            work[0] += 1
            _carry(work, 0, _DECIMAL_LIMBS + 1)
    elif results.types[to] == INTEGER:
        work[_DECIMAL_LIMBS] = work[_DECIMAL_LIMBS - 1] >> LIMB
        work[_DECIMAL_LIMBS - 1] &= _MASK
        _divide_by_billion(work, 0, _DECIMAL_LIMBS + 1)
        _divide_by_billion(work, 0, _DECIMAL_LIMBS + 1)
    # One bit is the sign; the most negative number has no positive counterpart.
    top = 1 if results.types[to] == INTEGER else 3
    is_least = is_negative and work[top] == 2**31
    for i in range(top):
        is_least &= work[i] == 0
    fits = work[top] < 2**31 or is_least
    for i in range(top + 1, _DECIMAL_LIMBS + 1):
        fits &= work[i] == 0
    if not fits:
        results.types[to] = NO_RESULT
        return
    if is_negative:
        _negate(work, 0, 4)
    results.low[to] = work[0] | (work[1] << LIMB)
    results.high[to] = work[2] | (work[3] << LIMB)
    if results.types[to] == INTEGER:
        results.high[to] = 0


@njit(cache=True, nogil=True)
def _real_result(sums, at, end, first_limb, divisor):
    """Return the double nearest to a sum, or to its quotient by a divisor unless that is 0."""
    row, work = sums.figures, sums.work
    is_mixed = row[at + _COUNTS + INTEGER] > 0 or row[at + _COUNTS + DECIMAL] > 0
    limbs = end - at - _BINARY
    if not is_mixed:
        result = _plain_quotient(row, at + _BINARY, limbs, first_limb, max(divisor, np.int64(1)))
        if result == result:
            return result
    lowest = min(first_limb, np.int64(ONE)) if is_mixed else first_limb
    highest = max(first_limb + limbs, np.int64(ONE + _DECIMAL_LIMBS)) if is_mixed else first_limb + limbs
    lowest -= _BELOW
    count = highest - lowest + _ABOVE
    for i in range(count):
        work[i] = 0
    for i in range(limbs):
        work[first_limb - lowest + i] = row[at + _BINARY + i]
    _carry(work, first_limb - lowest + limbs - 1, count)  # the last limb has more than a digit
    if is_mixed:  # everything in units of 10⁻¹⁸
        for _ in range(2):  # there are zeros below
            _multiply(work, first_limb - lowest, count, _BILLION)
        for i in range(_DECIMAL_LIMBS):
            work[ONE - lowest + i] += row[at + _DECIMALS + i]
        _carry(work, ONE - lowest, count)
    is_negative = work[count - 1] < 0
    if is_negative:
        _negate(work, 0, count)
    has_rest = False
    if is_mixed or divisor != 0:
        while count > 0 and work[count - 1] == 0:
            count -= 1
        last = max(count - _LEADING, 0)  # the digits below are too small to be in the result
        for i in range(last):
            has_rest |= work[i] != 0
            work[i] = 0
        if is_mixed:
            has_rest |= _divide_by_billion(work, last, count) != 0
            has_rest |= _divide_by_billion(work, last, count) != 0
        if divisor != 0:
            has_rest |= _divide(work, last, count, divisor) != 0
    return _nearest(work, count, lowest, is_negative, has_rest)


@njit(cache=True, nogil=True)
def _plain_quotient(row, begin, limbs, first_limb, divisor):
    """Return the double nearest to a quotient of a sum of floats, whose carries are propagated, or NaN if it is not plain.

    Four digits suffice, in words and without a copy, for quotients that are no subnormal and not next to the largest double
    by divisors below 2³¹.
    """
    lowest = np.int64(0)  # of the digits other than 0
    while lowest < limbs and row[begin + lowest] == 0:
        lowest += 1
    if lowest == limbs:
        return 0.0
    is_negative = row[begin + limbs - 1] < 0
    top = limbs - 1
    while _digit(row, begin, top, lowest, limbs, is_negative) == 0:
        top -= 1
    if divisor >= 2**31 or _digit(row, begin, top, lowest, limbs, is_negative) > _MASK:
        return np.nan
    rest, upper, lower = np.int64(0), np.uint64(0), np.uint64(0)
    # (`upper`, `lower`) is the quotient of the digits above `place`, and `rest` the remainder.
    for place in range(top, top - 4, -1):
        part = (rest << LIMB) | _digit(row, begin, place, lowest, limbs, is_negative)
        quotient = part // divisor
        rest = part - quotient * divisor
        upper = (upper << np.uint64(LIMB)) | (lower >> np.uint64(LIMB))
        lower = (lower << np.uint64(LIMB)) | np.uint64(quotient)
    has_rest = rest != 0 or lowest < top - 3
    # The first digit of four is not 0, so the quotient has more than 64 bits, of which `upper` is to have the first 64.
    zeros = np.int64(0)
    # `upper` begins with fewer than 2 · `step` zeros; `zeros` of them have been shifted out before.
    for step in (32, 16, 8, 4, 2, 1):
        if upper >> np.uint64(64 - step) == 0:
            upper = (upper << np.uint64(step)) | (lower >> np.uint64(64 - step))
            lower <<= np.uint64(step)
            zeros += step
    has_rest |= lower != 0
    bit = LIMB * (first_limb + top + 1) - zeros - 1
    if bit - 52 < _LEAST_BIT or bit >= _LARGEST_BIT:
        return np.nan
    mantissa, tail = np.int64(upper >> np.uint64(11)), np.int64(upper & np.uint64(2**11 - 1))
    if tail > 2**10 or (tail == 2**10 and (has_rest or mantissa & 1 == 1)):
        mantissa += 1
    result = math.ldexp(float(mantissa), int(bit - 52 - LIMB * ONE))
    return -result if is_negative else result


@njit(cache=True, nogil=True, forceinline=True)
def _digit(row, begin, place, lowest, limbs, is_negative):
    """Return a digit of the absolute value of a number. Digits below `lowest`, the lowest that is not 0, are zeros."""
    if place < lowest:
        return np.int64(0)
    digit = row[begin + place]
    if is_negative:
        digit = -digit if place == lowest else ~digit
        if place < limbs - 1:
            digit &= _MASK
    return digit


@njit(cache=True, nogil=True)
def _nearest(limbs, count, lowest, is_negative, has_rest):
    """Return the double nearest to digits that are not negative, with ties to even. The first digit is limb `lowest`."""
    top = count - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    length = 0
    while limbs[top] >> length != 0:
        length += 1
    bit = LIMB * (lowest + top) + length - 1
    last = max(bit - 52, np.int64(_LEAST_BIT))  # the bit of the last digit of the mantissa
    place, shift = (last - LIMB * lowest) // LIMB, (last - LIMB * lowest) % LIMB
    mantissa = np.int64(0)
    # `mantissa` has the bits of the limbs above `i`, where bit `last` of the sum is its lowest.
    for i in range(min(place + 2, count - 1), place - 1, -1):
        part = limbs[i] >> shift if i == place else limbs[i]
        if i > place and part != 0:
            mantissa |= part << (LIMB * (i - place) - shift)
        elif i == place:
            mantissa |= part
    half_place, half_shift = (last - 1 - LIMB * lowest) // LIMB, (last - 1 - LIMB * lowest) % LIMB
    is_half = (limbs[half_place] >> half_shift) & 1 == 1
    if is_half:
        has_rest |= limbs[half_place] & ((np.int64(1) << half_shift) - 1) != 0
        for i in range(half_place):
            has_rest |= limbs[i] != 0
        if has_rest or mantissa & 1 == 1:
            mantissa += 1
            if mantissa == 2**53:
                mantissa >>= 1
                last += 1
    if mantissa >= 2**52 and last + 52 > _LARGEST_BIT:
        result = np.inf
    else:
        result = math.ldexp(float(mantissa), int(last - LIMB * ONE))
    return -result if is_negative else result
