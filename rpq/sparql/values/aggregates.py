"""The aggregates of a group, maintained under inserts and deletes with as little memory as their values permit.

An accumulator takes the values of its formula, one a solution of the group: terms, or None for one that is unbound or an
error. What goes in can go out again, in any order, and leaves nothing behind: sums are exact, so that neither the order of
the solutions nor what was there and went can be seen in a result. `result` is a term, or None where the aggregate is
unbound.

==========  =========================================  =============================================================
aggregate   what it holds                              its value
==========  =========================================  =============================================================
COUNT       one number                                 how many values are bound
SUM, AVG    two exact sums, and numbers of each type   the exact sum or quotient, rounded once
MIN, MAX    a heap of the different values             the first or last in the order of `order_key`, as a term
SAMPLE      the same                                   the MIN of those that are bound
DISTINCT    how often each term is there               that of the different terms
==========  =========================================  =============================================================
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any

from rpq.sparql.algebra import Aggregate
from rpq.sparql.values.operators import number_of, order_key
from rpq.sparql.values.typed_values import (
    DECIMAL_UNIT,
    NUMBER_TYPES,
    NoValue,
    Number,
    integer_term,
    number_term,
    rounded_number,
)

_BINARY_UNIT = 1 << 1074
"""Every float is a whole number of these parts of one."""

_LEAST_DEAD = 16


class Accumulator(ABC):
    """One aggregate of one group.

    - Change: `insert`, `delete`
    - Ask: `result`
    """

    @abstractmethod
    def insert(self, value: Any) -> None:
        """Add the value of a solution that enters the group."""

    @abstractmethod
    def delete(self, value: Any) -> None:
        """Remove a value that was added before."""

    @abstractmethod
    def result(self) -> str | None:
        """Return the aggregate of the current values: a term, None if it is unbound."""


def accumulator(aggregate: Aggregate) -> Accumulator:
    """Return a new accumulator for an aggregate.

    For COUNT(*) every value counts that is not None: anything that stands for a solution, equal for equal ones.

    >>> from rpq.queries.pattern import Variable
    >>> total = accumulator(Aggregate("SUM", Variable("x"), is_distinct=False))
    >>> for term in ("1e100", "1", "-1e100"):
    ...     total.insert(term)
    >>> total.result()
    '"1"^^<http://www.w3.org/2001/XMLSchema#double>'
    """
    match aggregate.function:
        case "COUNT":
            made: Accumulator = Count()
        case "SUM":
            made = Sum()
        case "AVG":
            made = Sum(is_average=True)
        case "SAMPLE":
            made = Extremum(is_lenient=True)
        case "MIN" | "MAX":
            made = Extremum(is_last=aggregate.function == "MAX")
    return Distinct(made) if aggregate.is_distinct else made


class Count(Accumulator):
    """COUNT: how many values are bound. O(1) each."""

    def __init__(self, bound: int = 0) -> None:
        self._bound = bound

    def insert(self, value: Any) -> None:
        self._bound += value is not None

    def delete(self, value: Any) -> None:
        self._bound -= value is not None

    def result(self) -> str | None:
        return integer_term(self._bound)


class Sum(Accumulator):
    """SUM and AVG: exact sums in whole parts of one, of integers and decimals, and of floats.

    An unbound value, or one that is no number, makes them unbound; of nothing they are 0. The result has the latest type
    that is in, in the order of promotion. O(1) each, on numbers of up to some thousand bits.
    """

    def __init__(self, *, is_average: bool = False) -> None:
        self._is_average = is_average
        self._others = 0
        """Values that are no numbers."""
        self._counts = [0] * len(NUMBER_TYPES)
        self._decimal_parts = 0
        self._binary_parts = 0
        self._specials = {math.inf: 0, -math.inf: 0}
        self._nans = 0

    @classmethod
    def of_integers(cls, total: int, *, numbers: int, others: int, is_average: bool) -> Sum:
        """Return the sum of `numbers` integers whose total is given, and of `others` values that are no numbers."""
        made = cls(is_average=is_average)
        made._decimal_parts = total * DECIMAL_UNIT
        made._counts[0], made._others = numbers, others
        return made

    def insert(self, value: Any) -> None:
        self._change(value, 1)

    def delete(self, value: Any) -> None:
        self._change(value, -1)

    def _change(self, term: str | None, sign: int) -> None:
        parts = None if term is None else _parts(term)
        if parts is None:
            self._others += sign
            return
        rank, amount = parts
        self._counts[rank] += sign
        if isinstance(amount, float):
            if math.isnan(amount):
                self._nans += sign
            else:
                self._specials[amount] += sign
        elif rank < _FIRST_FLOAT:
            self._decimal_parts += sign * amount
        else:
            self._binary_parts += sign * amount

    def result(self) -> str | None:
        if self._others:
            return None
        count = sum(self._counts)
        if not count:
            return integer_term(0)
        type_ = NUMBER_TYPES[max(rank for rank, number in enumerate(self._counts) if number)]
        if self._is_average and type_ == "integer":
            type_ = "decimal"
        positive, negative = self._specials[math.inf], self._specials[-math.inf]
        if self._nans or positive or negative:
            special = math.nan if self._nans or (positive and negative) else math.inf if positive else -math.inf
            return number_term(Number(type_, special))
        total = Fraction(self._decimal_parts, DECIMAL_UNIT) + Fraction(self._binary_parts, _BINARY_UNIT)
        try:
            return number_term(rounded_number(type_, total / count if self._is_average else total))
        except NoValue:
            return None


class Extremum(Accumulator):
    """MIN and MAX, and SAMPLE, which passes over unbound values (`is_lenient`).

    A heap has each value that is there once; those that went are thrown away when they come to the top, all at once when
    they are more than those that are there. O(log n) each, amortised; O(different values) memory.
    """

    def __init__(self, *, is_last: bool = False, is_lenient: bool = False) -> None:
        self._is_last = is_last
        self._is_lenient = is_lenient
        self._unbound = 0
        self._counts: Counter[str] = Counter()
        self._heap: list[Any] = []
        self._in_heap: set[str] = set()

    def insert(self, value: Any) -> None:
        if value is None:
            self._unbound += 1
            return
        self._counts[value] += 1
        if value not in self._in_heap:
            self._in_heap.add(value)
            heapq.heappush(self._heap, self._entry(value))

    def delete(self, value: Any) -> None:
        if value is None:
            self._unbound -= 1
            return
        self._counts[value] -= 1
        if not self._counts[value]:
            del self._counts[value]
            if len(self._heap) > 2 * len(self._counts) + _LEAST_DEAD:
                self._in_heap = set(self._counts)
                self._heap = [self._entry(one) for one in self._counts]
                heapq.heapify(self._heap)

    def result(self) -> str | None:
        if self._unbound and not self._is_lenient:
            return None
        while self._heap:
            entry = self._heap[0]
            term: str = entry.key[-1] if self._is_last else entry[-1]
            if term in self._counts:
                return term
            heapq.heappop(self._heap)
            self._in_heap.discard(term)
        return None

    def _entry(self, term: str) -> Any:
        return _Backwards(order_key(term)) if self._is_last else order_key(term)

    def _check(self) -> None:
        """Assert that the heap has every value that is there once, and not too many others."""
        terms = [entry.key[-1] if self._is_last else entry[-1] for entry in self._heap]
        assert len(terms) == len(set(terms)) and set(terms) == self._in_heap >= set(self._counts), (terms, self._counts)
        assert len(terms) <= 2 * len(self._counts) + _LEAST_DEAD, (len(terms), len(self._counts))
        assert all(number > 0 for number in self._counts.values()), self._counts


class Distinct(Accumulator):
    """An aggregate of the different terms: it hears of the first of equal ones, and of the last that goes."""

    def __init__(self, inner: Accumulator) -> None:
        self._inner = inner
        self._counts: Counter[Hashable] = Counter()

    def insert(self, value: Any) -> None:
        self._counts[value] += 1
        if self._counts[value] == 1:
            self._inner.insert(value)

    def delete(self, value: Any) -> None:
        self._counts[value] -= 1
        if not self._counts[value]:
            del self._counts[value]
            self._inner.delete(value)

    def result(self) -> str | None:
        return self._inner.result()


@total_ordering
class _Backwards:
    """An entry of a heap whose top is its last."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and self.key == other.key

    def __lt__(self, other: _Backwards) -> bool:
        return other.key < self.key

    __hash__ = None  # type: ignore[assignment]


_FIRST_FLOAT = NUMBER_TYPES.index("float")


@lru_cache(maxsize=65_536)
def _parts(term: str) -> tuple[int, int | float] | None:
    """Return the rank of the type of a number, and its amount in units of the exact sums, or a float if not finite.

    None for what is no number.
    """
    try:
        number = number_of(term)
    except NoValue:
        return None
    rank, amount = NUMBER_TYPES.index(number.type), number.amount
    if not isinstance(amount, float):
        return rank, int(amount * DECIMAL_UNIT)
    if not math.isfinite(amount):
        return rank, amount
    numerator, denominator = amount.as_integer_ratio()
    return rank, numerator * (_BINARY_UNIT // denominator)
