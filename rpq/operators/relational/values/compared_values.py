"""The values of formulas in the form that kernels compare (`rpq.operators.bags.value_trees.TreeValues`).

Numbers are compared as they are. Texts, terms without a value, and the parts of moments and durations that may have any
number of digits have labels: integers in the order of the keys (`value_order.label_between`). A new key gets a label between
those of its neighbours. If there is none, all keys get new labels, and the order of the stored values does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.kernel_cache import njit
from rpq.language.pattern import Variable
from rpq.language.sparql.algebra import Formula
from rpq.language.sparql.values.formula_values import value_or_unbound
from rpq.language.sparql.values.moments import Moment
from rpq.language.sparql.values.typed_values import NUMBER_TYPES, NoValue, Number, Text, promote_amount, value_of
from rpq.operators.bags.value_matching import ValueMatches
from rpq.operators.bags.value_trees import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    EXACT,
    FLOAT,
    MOMENT,
    NO_VALUE,
    TERM,
    TEXT,
    TreeValues,
)
from rpq.operators.relational.values.exact_sums import LIMB, NO_AMOUNT, ONE
from rpq.operators.relational.values.formula_columns import FEW, Judge, NumericColumn, amount_of, read_names
from rpq.operators.relational.values.number_ids import DECIMAL, INTEGER
from rpq.operators.relational.values.term_ids import TermIds
from rpq.operators.relational.values.value_order import label_between, new_labels

_LEAST_GARBAGE = 1_000
"""Keys without a value are removed when they outnumber both the other keys and this number."""

_BYTES_A_KEY = 250
"""The approximate number of bytes of a key."""

_MOMENT_TYPES = ("dateTime", "date", "time")
_KINDS = {"integer": EXACT, "decimal": EXACT, "float": FLOAT, "double": DOUBLE}
_KIND_OF = np.array([_KINDS[name] for name in NUMBER_TYPES], np.int32)

Place = tuple[int, int, int, float]
"""The place of a value: its kind, `high` and `low` (each an integer or the number of a key), and the nearest double."""

_NOWHERE: Place = (NO_VALUE, 0, 0, 0.0)
_NO_VALUES = TreeValues(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of values that has labels."""

    kinds: tuple[int, ...]
    is_high: bool

    def stored_values(self, matches: ValueMatches) -> np.ndarray:
        return np.concatenate([matches.stored_values(kind)[0 if self.is_high else 1] for kind in self.kinds])

    def replace(self, matches: ValueMatches, before: np.ndarray, after: np.ndarray) -> None:
        for kind in self.kinds:
            high, low = matches.stored_values(kind)
            labels = high if self.is_high else low
            labels[:] = after[np.searchsorted(before, labels)]
            matches.replace(kind, high, low)


class _Labels:
    """Keys in order, each with a number and a label. Amortised O(log keys) for each new key."""

    def __init__(self, column: _Column) -> None:
        from sortedcontainers import SortedDict  # of the extra `sparql`

        self.column = column
        self._sorted_dictionary = SortedDict
        self.numbers: Any = SortedDict()  # key -> number
        self.labels = np.zeros(16, np.int64)  # by number
        self.after_removal = 0
        """The number of keys when those without a value were removed."""

    def number_of(self, key: Any, matches: ValueMatches) -> int:
        """Return the number of a key."""
        number = self.numbers.get(key)
        if number is not None:
            return int(number)
        number = len(self.numbers)
        if number == len(self.labels):
            self.labels = lengthen(self.labels, number)
        place = self.numbers.bisect_left(key)
        below = None if place == 0 else int(self.labels[self.numbers.peekitem(place - 1)[1]])
        above = None if place == number else int(self.labels[self.numbers.peekitem(place)[1]])
        label = label_between(below, above)
        if label is None:
            before = self.labels[[*self.numbers.values()]]
            self.numbers[key] = number
            labels = new_labels(number + 1)
            self.labels[[*self.numbers.values()]] = labels
            self.column.replace(matches, before, np.delete(labels, place))
        else:
            self.numbers[key] = number
            self.labels[number] = label
        return number

    def remove_unused(self, stored: np.ndarray) -> None:
        """Remove the keys whose labels are not in `stored`. The others get new numbers."""
        entries = [(key, self.labels[number]) for key, number in self.numbers.items()]
        are_stored = np.isin([label for _, label in entries], stored)
        entries = [one for one, is_stored in zip(entries, are_stored, strict=True) if is_stored]
        self.numbers = self._sorted_dictionary((key, number) for number, (key, _) in enumerate(entries))
        self.labels = np.array([label for _, label in entries] or [0], np.int64)
        self.after_removal = len(entries)

    @property
    def has_garbage(self) -> bool:
        return len(self.numbers) > 2 * self.after_removal + _LEAST_GARBAGE


class ComparedValues:
    """The labels of the values that one operator compares."""

    def __init__(self, matches: ValueMatches, *, is_equality: bool) -> None:
        self._matches = matches
        self._is_equality = is_equality
        self.clear()

    def clear(self) -> None:
        """Remove all keys."""
        self._kind_of_language: dict[str, int] = {}
        moments = tuple(range(MOMENT, BOOLEAN))
        self._fractions = _Labels(_Column(moments, is_high=False))
        self._months, self._seconds = (_Labels(_Column((DURATION,), is_high=is_high)) for is_high in (True, False))
        self._terms = _Labels(_Column((TERM,), is_high=True))
        self._texts: list[_Labels] = []

    def _tables(self) -> list[_Labels]:
        return [self._fractions, self._months, self._seconds, self._terms, *self._texts]

    def place_of(self, term: str | None) -> Place:
        """Return the place of the value of a term. It is `_NOWHERE` for None and for terms that do not compare."""
        if term is None:
            return _NOWHERE
        matches = self._matches
        try:
            value = value_of(term)
        except NoValue:
            return (TERM, self._terms.number_of(term, matches), 0, 0.0) if self._is_equality else _NOWHERE
        if isinstance(value, Number):
            real = float(promote_amount(value, "double"))
            if math.isnan(real):
                return _NOWHERE
            kind = _KINDS[value.type]
            return (kind, *amount_of(value)[1:], real) if kind == EXACT else (kind, 0, 0, real)
        if isinstance(value, Text):
            kind = self._kind_of_language.setdefault(value.language, TEXT + len(self._kind_of_language))
            if kind == TEXT + len(self._texts):
                self._texts.append(_Labels(_Column((kind,), is_high=True)))
            return kind, self._texts[kind - TEXT].number_of(value.text, matches), 0, 0.0
        if isinstance(value, bool):
            return BOOLEAN, int(value), 0, 0.0
        if isinstance(value, Moment):
            kind = MOMENT + 2 * _MOMENT_TYPES.index(value.type) + (value.zone is None)
            seconds = math.floor(value.instant)
            return kind, seconds, self._fractions.number_of(value.instant - seconds, matches), 0.0
        months = self._months.number_of(value.months, matches)
        return DURATION, months, self._seconds.number_of(Fraction(value.seconds), matches), 0.0

    def values(self, places: np.ndarray) -> TreeValues:
        """Return values by their places, which are valid until `remove_unused`. O(places)."""
        if not len(places):
            return _NO_VALUES
        kinds, high, low = (np.ascontiguousarray(places[name]) for name in ("kinds", "high", "low"))
        is_typed = kinds >= MOMENT
        if is_typed.any():
            present = {*np.unique(kinds[is_typed]).tolist()}
            for table in self._tables():
                for kind in present.intersection(table.column.kinds):
                    numbers = high if table.column.is_high else low
                    are_of_kind = kinds == kind
                    numbers[are_of_kind] = table.labels[numbers[are_of_kind]]
        return TreeValues(kinds, high, low, np.ascontiguousarray(places["reals"]))

    def remove_unused(self) -> bool:
        """Remove keys that no row uses any more, if there are many. Return whether places have changed."""
        tables = [table for table in self._tables() if table.has_garbage]
        for table in tables:
            table.remove_unused(table.column.stored_values(self._matches))
        return bool(tables)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return _BYTES_A_KEY * sum(len(table.numbers) for table in self._tables())

    def check(self) -> None:
        """Assert that labels are in the order of keys."""
        for table in self._tables():
            labels = table.labels[[*table.numbers.values()]]
            assert (labels[1:] > labels[:-1]).all(), "labels are out of order"
            assert np.isin(table.column.stored_values(self._matches), labels).all(), "a label has no key"


class PlaceColumn(NumericColumn):
    """A formula whose values are compared: their places in a `ComparedValues`."""

    _type = np.dtype([("kinds", np.int32), ("high", np.int64), ("low", np.int64), ("reals", np.float64)], align=True)
    _missing = np.array((NO_VALUE - 1, 0, 0, 0.0), _type)[()]

    def __init__(self, formula: Formula, columns: tuple[str, ...], terms: TermIds, order: ComparedValues) -> None:
        super().__init__(formula, columns, terms)
        self._order = order

    def _integer_function(self, formula: Formula) -> Judge | None:
        return None

    def _read_cached(self, rows: np.ndarray, results: np.ndarray) -> bool:
        return False

    def _are_missing(self, results: np.ndarray) -> np.ndarray:
        are_unknown: np.ndarray = results["kinds"] == NO_VALUE - 1
        return are_unknown

    def array_of(self, rows: np.ndarray) -> np.ndarray:
        return super().array_of(rows) if len(rows) >= FEW else np.array(self.evaluate(rows), self._type)

    def _vertex_values(self, vertices: np.ndarray) -> np.ndarray:
        if not isinstance(self._formula, Variable):
            return super()._vertex_values(vertices)
        results = np.full(len(vertices), self._missing, self._type)
        names = self._terms.names(vertices)
        types, high, low = read_names(names.cast(pa.string()) if pa.types.is_integer(names.type) else names)
        are_exact = (types == INTEGER) | (types == DECIMAL)
        are_inexact = (types > DECIMAL) & (types < len(NUMBER_TYPES)) & (types != NO_AMOUNT)
        reals = np.zeros(len(names))
        nearest_doubles_of_exact(high, low, are_exact, reals)
        are_exact &= ~np.isnan(reals)
        reals[are_inexact] = np.ldexp(low[are_inexact].astype(np.float64), (high[are_inexact] - LIMB * ONE).astype(np.int32))
        are_read = are_exact | are_inexact
        results["kinds"][are_read] = _KIND_OF[types[are_read]]
        results["high"][are_exact], results["low"][are_exact] = high[are_exact], low[are_exact]
        results["reals"][are_read] = reals[are_read]
        others = np.flatnonzero(~are_read)
        if len(others):
            results[others] = self._evaluate_singly(vertices[others])
        return results

    def _result(self, binding: dict[str, str]) -> Place:
        return self._order.place_of(value_or_unbound(self._evaluate, binding))

    def discard_ids(self, new_ids: np.ndarray) -> None:
        self._discard_results(new_ids)
        kinds = self._by_vertex["kinds"]  # one number is written faster than a record
        kinds[new_ids[new_ids < len(kinds)]] = NO_VALUE - 1

    def clear(self) -> None:
        """Discard everything that is cached."""
        self._results.clear()
        self._by_vertex = np.zeros(0, self._type)


_NO_PLACES = np.zeros(0, PlaceColumn._type)


def values_of(order: ComparedValues, columns: Sequence[PlaceColumn], rows: Sequence[np.ndarray]) -> list[TreeValues]:
    """Return the values of the rows of each side, all in one order. O(rows), plus the evaluation of new values."""
    if order.remove_unused():
        for column in columns:
            column.clear()
    # The places of both sides are found first, because a new key may change the labels of others.
    sides = zip(columns, rows, strict=True)
    places = [column.array_of(of_side) if len(of_side) else _NO_PLACES for column, of_side in sides]
    return [order.values(one) for one in places]


_MASK = 0xFFFFFFFF


@njit(cache=True, nogil=True)
def nearest_doubles_of_exact(high, low, chosen, reals):
    """Write the doubles nearest to some numbers in units of 10⁻¹⁸, NaN for numbers of more than 53 bits.

    The quotient of two integers that are doubles is rounded once.
    """
    for i in range(len(reals)):
        if not chosen[i]:
            continue
        is_negative = high[i] < 0
        one, other = high[i], low[i]
        if is_negative:
            other = -other
            one = -one - (1 if other != 0 else 0)
        a, b, c, d = one >> 32 & _MASK, one & _MASK, other >> 32 & _MASK, other & _MASK
        power = np.int64(10) ** np.int64(18)
        # The absolute value of the number is that of the digits a, b, c, d to the base 2³², divided by `power`.
        while power > 1:
            rest = a % 10 << 32 | b
            by_b, rest = rest // 10, rest % 10 << 32 | c
            by_c, rest = rest // 10, rest % 10 << 32 | d
            if rest % 10 != 0:
                break
            a, b, c, d = a // 10, by_b, by_c, rest // 10
            power //= 10
        if a != 0 or b != 0 or c >= 2**21:
            reals[i] = np.nan
            continue
        real = np.float64(c << 32 | d) / np.float64(power)
        reals[i] = -real if is_negative else real
