"""The aggregates of a group, maintained under inserts and deletes in as little memory as their values permit.

An accumulator receives the value of its formula for each solution of the group: a term, or None for an unbound value or an
error. Values can be deleted in any order, and a deleted value has no further effect: sums are exact, so the result depends
neither on the order of the solutions nor on deleted ones. `result` returns a term, or None if the aggregate is unbound.

==========  =========================================  =============================================================
aggregate   state                                      result
==========  =========================================  =============================================================
COUNT       one number                                 the number of bound values
SUM, AVG    two exact sums, and a count for each type  the exact sum or quotient, rounded once
MIN, MAX    a heap of the distinct values              the first or last value in the order of `order_key`, as a term
SAMPLE      as for MIN                                 the MIN of the bound values
GROUP_CONCAT  the distinct values in their order       their texts, as often as they occur, joined by the separator
COLLECT     the distinct values in their order         a list of their items, as often as they occur
DISTINCT    the number of occurrences of each term     the inner aggregate of the distinct terms
==========  =========================================  =============================================================
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction
from functools import lru_cache, total_ordering
from itertools import chain, repeat
from typing import Any

from rpq.language.sparql.algebra import Aggregate
from rpq.language.sparql.values.functions import text_of
from rpq.language.sparql.values.operators import number_of, order_key
from rpq.language.sparql.values.typed_values import (
    DECIMAL_UNIT,
    NUMBER_TYPES,
    NoValue,
    Number,
    integer_term,
    number_term,
    rounded_number,
)
from rpq.stream.names.terms import LIST_TYPE, is_blank, lexical_form, literal_text

_BINARY_UNIT = 1 << 1074
"""Every float is an integer multiple of 1 / `_BINARY_UNIT`."""

_LEAST_DEAD = 16


class Accumulator(ABC):
    """An aggregate of one group.

    - Changes: `insert`, `delete`
    - Value: `result`
    """

    @abstractmethod
    def insert(self, value: Any) -> None:
        """Add the value of a solution that enters the group."""

    @abstractmethod
    def delete(self, value: Any) -> None:
        """Remove a value that was inserted before."""

    @abstractmethod
    def result(self) -> str | None:
        """Return the aggregate of the current values: a term, or None if the aggregate is unbound."""


def accumulator(aggregate: Aggregate) -> Accumulator:
    """Return a new accumulator for an aggregate.

    COUNT(*) counts every value except None. Pass any value that identifies a solution, equal for equal solutions.

    >>> from rpq.language.pattern import Variable
    >>> total = accumulator(Aggregate("SUM", Variable("x"), is_distinct=False))
    >>> for term in ("1e100", "1", "-1e100"):
    ...     total.insert(term)
    >>> total.result()
    '"1"^^<http://www.w3.org/2001/XMLSchema#double>'
    """
    match aggregate.function:
        case "COUNT":
            inner: Accumulator = Count()
        case "SUM":
            inner = Sum(is_lenient=aggregate.skips_unbound)
        case "AVG":
            inner = Sum(is_average=True, is_lenient=aggregate.skips_unbound)
        case "SAMPLE":
            inner = Extremum(is_lenient=True)
        case "MIN" | "MAX":
            inner = Extremum(is_last=aggregate.function == "MAX", is_lenient=aggregate.skips_unbound)
        case "GROUP_CONCAT":
            inner = GroupConcat(aggregate.separator)
        case "COLLECT":
            return Collect(is_distinct=aggregate.is_distinct)
    return DistinctAggregate(inner) if aggregate.is_distinct else inner


class Count(Accumulator):
    """COUNT: the number of bound values. O(1) per change."""

    def __init__(self, bound: int = 0) -> None:
        self._bound = bound

    def insert(self, value: Any) -> None:
        self._bound += value is not None

    def delete(self, value: Any) -> None:
        self._bound -= value is not None

    def result(self) -> str | None:
        return integer_term(self._bound)


class Sum(Accumulator):
    """SUM and AVG: one exact sum for integers and decimals, and one for floats.

    With an unbound or non-numeric value among the inputs, the aggregate is unbound; it may skip unbound values
    (`is_lenient`). Without inputs it is 0. The result has the highest type of the inputs in the order of promotion. O(1) per
    change, on numbers of up to some thousand bits.
    """

    def __init__(self, *, is_average: bool = False, is_lenient: bool = False) -> None:
        self._is_average = is_average
        self._is_lenient = is_lenient
        self._others = 0
        """The number of values that are not numbers."""
        self._counts = [0] * len(NUMBER_TYPES)
        self._decimal_parts = 0
        self._binary_parts = 0
        self._specials = {math.inf: 0, -math.inf: 0}
        self._nans = 0

    def insert(self, value: Any) -> None:
        self._change(value, 1)

    def delete(self, value: Any) -> None:
        self._change(value, -1)

    def _change(self, term: str | None, sign: int) -> None:
        if term is None and self._is_lenient:
            return
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
    """MIN and MAX, and SAMPLE; they may skip unbound values (`is_lenient`).

    A heap contains each current value once. Deleted values are removed when they reach the top, and all together when they
    outnumber the current ones. O(log n) per change, amortised; O(distinct values) memory.
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
        return Backwards(order_key(term)) if self._is_last else order_key(term)

    def _check(self) -> None:
        """Assert that the heap contains every current value once, and not too many deleted ones."""
        terms = [entry.key[-1] if self._is_last else entry[-1] for entry in self._heap]
        assert len(terms) == len(set(terms)) and set(terms) == self._in_heap >= set(self._counts), (terms, self._counts)
        assert len(terms) <= 2 * len(self._counts) + _LEAST_DEAD, (len(terms), len(self._counts))
        assert all(number > 0 for number in self._counts.values()), self._counts


class GroupConcat(Accumulator):
    """GROUP_CONCAT: the texts of the values in the order of `order_key`, each as often as it occurs, with separators.

    With an unbound value, or a blank node, which has no text, the aggregate is unbound. O(log n) per change and O(n) for the
    result; O(distinct values) memory.
    """

    def __init__(self, separator: str) -> None:
        from sortedcontainers import SortedDict

        self._separator = separator
        self._without_text = 0
        self._texts: Any = SortedDict(order_key)
        """The text of each term and the number of its occurrences, in the order of the terms."""

    def insert(self, value: Any) -> None:
        self._change(value, 1)

    def delete(self, value: Any) -> None:
        self._change(value, -1)

    def _change(self, term: str | None, sign: int) -> None:
        if term is None or is_blank(term):
            self._without_text += sign
            return
        text, count = self._texts.get(term) or (text_of(term), 0)
        if count + sign:
            self._texts[term] = text, count + sign
        else:
            del self._texts[term]

    def result(self) -> str | None:
        if self._without_text:
            return None
        return literal_text(self._separator.join(chain.from_iterable(repeat(*one) for one in self._texts.values())))


class Collect(Accumulator):
    """COLLECT: a list of the items of the bound values, in the order of their keys and then of the items.

    A value is a string: keys and an item in JSON, with a character 0 after each key. Distinct items are those at the places
    of their first occurrences. O(log n) per change and O(n) for the result; O(distinct values) memory.
    """

    def __init__(self, *, is_distinct: bool) -> None:
        from sortedcontainers import SortedDict

        self._is_distinct = is_distinct
        self._items: Any = SortedDict()
        """The item of each value and the number of its occurrences, by the sort keys of the values."""

    def insert(self, value: Any) -> None:
        self._change(value, 1)

    def delete(self, value: Any) -> None:
        self._change(value, -1)

    def _change(self, term: str | None, sign: int) -> None:
        if term is None:
            return
        key, item = collected_value(term)
        _, count = self._items.get(key) or (item, 0)
        if count + sign:
            self._items[key] = item, count + sign
        else:
            del self._items[key]

    def result(self) -> str | None:
        items: Iterable[str] = chain.from_iterable(repeat(*one) for one in self._items.values())
        return list_term(dict.fromkeys(items) if self._is_distinct else items)


def collected_value(term: str) -> tuple[str, str]:
    r"""Return the sort key of a value of COLLECT, and its item as it is written in a term.

    >>> collected_value(r'"2\u0000a\u0000\"x\""')
    ('2\x00a\x00"x"', '\\"x\\"')
    """
    text = lexical_form(term)
    return text, literal_text(text.rpartition("\0")[2])[1:-1]


def list_term(items: Iterable[str]) -> str:
    """Return the term of a list of items, as `collected_value` returns these."""
    return f'"[{",".join(items)}]"^^<{LIST_TYPE}>'


class DistinctAggregate(Accumulator):
    """An aggregate of distinct terms: the inner aggregate receives the first insert of a term and its last delete."""

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
class Backwards:
    """A key in reverse order, so that the last key of a heap is at its top."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backwards) and self.key == other.key

    def __lt__(self, other: Backwards) -> bool:
        return other.key < self.key

    __hash__ = None  # type: ignore[assignment]


_FIRST_FLOAT = NUMBER_TYPES.index("float")


@lru_cache(maxsize=65_536)
def _parts(term: str) -> tuple[int, int | float] | None:
    """Return the rank of the type of a number, and the amount in units of the exact sums (a float if it is not finite).

    Return None for a term that is not a number.
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
