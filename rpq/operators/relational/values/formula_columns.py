"""Formulas over rows of ids, evaluated once for each combination of the values that they use.

A formula of one variable is evaluated once per id, for any number of rows and chunks, until the id denotes another term.
Comparisons with small integers are evaluated for whole arrays: a kernel reads the integers from the names of vertices. Other
values (decimals, strings, IRIs) are evaluated term by term, but whether two IRIs are equal is decided by their ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.language.pattern import Constant, Variable
from rpq.language.sparql.algebra import Formula, FunctionCall, variables_of
from rpq.language.sparql.values.formula_values import evaluator, holds, value_or_unbound
from rpq.language.sparql.values.operators import number_of
from rpq.language.sparql.values.typed_values import DECIMAL_UNIT, NUMBER_TYPES, NoValue, Number, Text, value_of
from rpq.operators.relational.values.exact_sums import (
    LIMB,
    NEGATIVE,
    NO_AMOUNT,
    ONE,
    POSITIVE,
    TYPES,
    UNDEFINED,
)
from rpq.operators.relational.values.group_sums import LARGEST, NO_NUMBER
from rpq.operators.relational.values.number_ids import DECIMAL, DOUBLE, FLOAT, INTEGER
from rpq.operators.relational.values.term_ids import FIRST, FIRST_NUMBER, TermIds
from rpq.rows.weighted_rows import UNBOUND
from rpq.stream.arrays.numpy_arrays import arrow_array, text_offsets
from rpq.stream.names.terms import XSD, is_blank, is_literal

NO_SMALL_INTEGER = 2**62
"""The placeholder for a value that is not a small integer."""

_LARGEST = 2**31
_BEHIND = np.frombuffer(f'"^^<{XSD}integer>'.encode(), np.uint8)
_MAX_DIGITS = 9
_QUOTE, _MINUS, _ZERO, _NINE = (ord(character) for character in '"-09')

Judge = Callable[[np.ndarray], np.ndarray]
"""A function that returns for each of some numbers (int64) whether a condition holds."""

_COMPARED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": np.not_equal,
}
_BOTH: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"&&": np.logical_and, "||": np.logical_or}


def small_integers(names: pa.Array) -> np.ndarray:
    """Return the integers (int64) of up to nine digits in names, `NO_SMALL_INTEGER` for others. O(total length)."""
    if pa.types.is_integer(names.type):
        numbers = names.to_numpy(zero_copy_only=False)
        return np.where((numbers > -_LARGEST) & (numbers < _LARGEST), numbers, NO_SMALL_INTEGER)
    if not pa.types.is_string(names.type):
        return np.full(len(names), NO_SMALL_INTEGER)
    where, data = text_offsets(names), names.buffers()[2]
    found = np.empty(len(names), np.int64)
    if not len(found) or where[-1] == where[0]:
        return np.full(len(names), NO_SMALL_INTEGER)
    read_integers(where, np.frombuffer(data, np.uint8), _BEHIND, found)
    return found


def integer_condition(condition: Formula) -> Judge | None:
    """Return a vectorized form of a condition on one variable, or None unless it compares only with integers."""
    if not isinstance(condition, FunctionCall) or len(condition.arguments) != 2 or not isinstance(condition.function, str):
        return None
    first, second = condition.arguments
    if condition.function in _BOTH:
        one, other = integer_condition(first), integer_condition(second)
        if one is None or other is None:
            return None
        joined = _BOTH[condition.function]
        return lambda numbers: joined(one(numbers), other(numbers))
    compared = _COMPARED.get(condition.function)
    if compared is None:
        return None
    left, right = _integer(first), _integer(second)
    if isinstance(first, Variable) and right is not None:
        return lambda numbers: compared(numbers, right)
    if isinstance(second, Variable) and left is not None:
        return lambda numbers: compared(left, numbers)
    return None


def _integer(formula: Formula) -> np.ndarray | None:
    """Return the number (0-dimensional) of a constant, or None if it is not a small integer."""
    if not isinstance(formula, Constant):
        return None
    number = small_integers(pa.array([formula.name], pa.string()))[0]
    return None if number == NO_SMALL_INTEGER else np.array(number)


@njit(cache=True, nogil=True)
def read_integers(offsets, data, behind, found):
    """Read names that are whole numbers, or literals of whole numbers, which have the text `behind` after the digits."""
    for i in range(len(found)):
        found[i] = NO_SMALL_INTEGER
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if begin == end:
            continue
        if data[begin] == _QUOTE:
            begin += 1
            end -= len(behind)
            if end <= begin:
                continue
            place = np.int64(0)
            while place < len(behind) and data[end + place] == behind[place]:
                place += 1
            if place < len(behind):
                continue
        is_negative = data[begin] == _MINUS
        if is_negative:
            begin += 1
        if end <= begin or end - begin > _MAX_DIGITS:
            continue
        number = np.int64(0)
        while begin < end and _ZERO <= data[begin] <= _NINE:
            number = 10 * number + np.int64(data[begin]) - _ZERO
            begin += 1
        if begin == end:
            found[i] = -number if is_negative else number


UNFIT = NO_NUMBER + 1
"""The placeholder for a number that is not a small integer."""

FEW = 8
"""The number of values up to which evaluating them one by one is faster than several calls over arrays."""
_MAX_REMEMBERED = 1 << 20
_BYTES_KNOWN = 150
"""The approximate number of bytes of a result in a Python dictionary."""

Result = TypeVar("Result")


def words(records: np.ndarray) -> np.ndarray:
    """Return aligned records as rows of integers, which NumPy copies many times as fast; other arrays unchanged."""
    return records if records.dtype.names is None else records.view(np.int64).reshape(-1, records.dtype.itemsize // 8)


def take_records(records: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the elements at these places of an array, which may have records."""
    return words(records).take(places, axis=0).view(records.dtype).reshape(-1)


class _FormulaColumn(ABC, Generic[Result]):
    """A formula over the columns of rows."""

    def __init__(self, formula: Formula, columns: tuple[str, ...], terms: TermIds) -> None:
        self._names = sorted(variables_of(formula) & frozenset(columns))
        self._places = [columns.index(name) for name in self._names]
        self._terms = terms
        self._formula = formula
        self._evaluate = evaluator(formula)
        self._results: dict[int, Result] = {}  # of a formula of one variable, by the id

    def evaluate(self, rows: np.ndarray) -> list[Result]:
        """Return the result for each row. O(rows), plus the evaluation of new combinations."""
        if len(self._places) == 1:
            return self._evaluate_ids(rows[:, self._places[0]])
        if not self._places:
            return [self._result({})] * len(rows) if len(rows) else []
        found: dict[tuple[int, ...], Result] = {}
        results = []
        for ids in map(tuple, rows[:, self._places].tolist()):
            if ids not in found:
                found[ids] = self._result(self._binding(ids))
            results.append(found[ids])
        return results

    def _evaluate_ids(self, ids: np.ndarray) -> list[Result]:
        results = self._results
        identities = ids.tolist()
        missing = [identity for identity in dict.fromkeys(identities) if identity not in results]
        if missing:
            if len(results) > _MAX_REMEMBERED:
                results.clear()
                missing = [*dict.fromkeys(identities)]
            name = self._names[0]
            for identity, text in zip(missing, self._terms.texts(np.array(missing, np.int64)), strict=True):
                results[identity] = self._result({} if text is None else {name: text})
        return [results[identity] for identity in identities]

    def _binding(self, ids: tuple[int, ...]) -> dict[str, str]:
        binding = {}
        for name, identity in zip(self._names, ids, strict=True):
            if identity != UNBOUND:
                text = self._terms.text(identity)
                assert text is not None
                binding[name] = text
        return binding

    @abstractmethod
    def _result(self, binding: dict[str, str]) -> Any:
        """Return the result of the formula under a binding."""

    def discard_ids(self, new_ids: np.ndarray) -> None:
        """Discard cached values of these ids, which now denote other terms."""
        self._discard_results(new_ids)

    def _discard_results(self, new_ids: np.ndarray) -> None:
        if self._results:
            for identity in self._results.keys() & new_ids.tolist():
                del self._results[identity]

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return _BYTES_KNOWN * len(self._results)


class NumericColumn(_FormulaColumn[int]):
    """A formula whose results are small numbers. For a formula of one variable, an array has them by the ids of vertices."""

    _type: type[np.generic] | np.dtype[np.void]
    _missing: Any

    def __init__(self, formula: Formula, columns: tuple[str, ...], terms: TermIds) -> None:
        super().__init__(formula, columns, terms)
        self._by_vertex = np.zeros(0, self._type)
        is_of_one = variables_of(formula) == {*self._names}  # a variable that is not a column would be an error
        self._by_number = self._integer_function(formula) if is_of_one else None

    @abstractmethod
    def _integer_function(self, formula: Formula) -> Judge | None:
        """Return a function that evaluates the formula over an array of small integers, or None if there is none."""

    def array_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the result for each row. O(rows), plus the evaluation of new values."""
        if len(self._places) != 1 or not len(rows):
            return np.array(self.evaluate(rows), self._type)
        found = np.empty(len(rows), self._type)
        if self._read_cached(rows, found):
            return found
        ids = rows[:, self._places[0]]
        if ids.min() >= 0 and ids.max() < FIRST:
            return self._evaluate_vertices(ids)
        is_vertex = (ids >= 0) & (ids < FIRST)
        found[is_vertex] = self._evaluate_vertices(ids[is_vertex])
        found[~is_vertex] = self._evaluate_ids(ids[~is_vertex])
        return found

    def _read_cached(self, rows: np.ndarray, results: np.ndarray) -> bool:
        """Write the result of each row by a kernel. Return False if a result is not known yet, otherwise True."""
        return bool(read_cached(np.ascontiguousarray(rows), self._places[0], self._by_vertex, self._missing, results))

    def _are_missing(self, results: np.ndarray) -> np.ndarray:
        """Return which results are not known yet."""
        are_unknown: np.ndarray = results == self._missing
        return are_unknown

    def _evaluate_vertices(self, ids: np.ndarray) -> np.ndarray:
        needed = int(ids.max(initial=-1)) + 1
        if needed > len(self._by_vertex):
            more = max(needed, 2 * len(self._by_vertex)) - len(self._by_vertex)
            self._by_vertex = np.concatenate([self._by_vertex, np.full(more, self._missing, self._type)])
        found = take_records(self._by_vertex, ids)
        places = np.flatnonzero(self._are_missing(found))
        if len(places):
            missing = ids[places]
            if len(missing) > 1:
                missing.sort()
                missing = missing[np.diff(missing, prepend=-1) != 0]  # as `unique`, which hashes, at many times its speed
            results = self._evaluate_singly(missing) if len(missing) < FEW else self._vertex_values(missing)
            words(self._by_vertex)[missing] = words(results)
            found = take_records(self._by_vertex, ids)
        return found

    def _evaluate_singly(self, vertices: np.ndarray) -> np.ndarray:
        """Return the results for vertices, evaluated one by one."""
        name, texts = self._names[0], self._terms.texts(vertices)
        return np.array([self._result({name: str(text)}) for text in texts], self._type)

    def _vertex_values(self, vertices: np.ndarray) -> np.ndarray:
        """Return the results for vertices. Small integers are evaluated as an array, others one by one."""
        results = np.empty(len(vertices), self._type)
        others = np.arange(len(vertices))
        if self._by_number is not None:
            numbers = small_integers(self._terms.names(vertices))
            are_small = numbers != NO_SMALL_INTEGER
            results[are_small] = self._by_number(numbers[are_small])
            others = np.flatnonzero(~are_small)
        if len(others):
            results[others] = self._evaluate_singly(vertices[others])
        return results

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._by_vertex.nbytes

    def discard_ids(self, new_ids: np.ndarray) -> None:
        super().discard_ids(new_ids)
        self._by_vertex[new_ids[new_ids < len(self._by_vertex)]] = self._missing


class PlainNames(NumericColumn):
    """Whether a term equals no other one: it is an IRI, which is no number, or a blank node."""

    _type = np.int8
    _missing = -1

    def __init__(self, terms: TermIds) -> None:
        super().__init__(Variable("term"), ("term",), terms)

    def _integer_function(self, formula: Formula) -> Judge | None:
        return None

    def _result(self, binding: dict[str, str]) -> bool:
        term = binding.get("term")
        if term is None or is_literal(term):
            return False
        try:
            return is_blank(term) or isinstance(value_of(term), Text)
        except NoValue:  # a number out of range
            return False


class FormulaCondition(NumericColumn):
    """A condition, with the results true and false; errors are false."""

    _type = np.int8
    _missing = -1

    def __init__(self, formula: Formula, columns: tuple[str, ...], terms: TermIds) -> None:
        super().__init__(formula, columns, terms)
        inner, is_negated = formula, isinstance(formula, FunctionCall) and formula.function == "!"
        if isinstance(formula, FunctionCall) and is_negated:
            inner = formula.arguments[0]
        self._is_equality: bool | None = None  # None: ids do not decide it
        self._plain_names: PlainNames | None = None
        match inner:
            case FunctionCall("SAMETERM" | "=" | "!=" as function, (Variable(), Variable())) if len(self._places) == 2:
                self._is_equality = (function != "!=") != is_negated
                self._plain_names = None if function == "SAMETERM" else PlainNames(terms)

    def array_of(self, rows: np.ndarray) -> np.ndarray:
        if self._is_equality is None or not len(rows):
            return super().array_of(rows)
        ids = rows.take(self._places, axis=1)
        found = ((ids[:, 0] == ids[:, 1]) == self._is_equality).view(np.int8)
        are_decided = self._have_one_id(ids)
        if not are_decided.all():
            found[~are_decided] = super().array_of(rows[~are_decided])
        return found

    def _have_one_id(self, ids: np.ndarray) -> np.ndarray:
        """Return for each row of ids whether they belong to terms that equal no term with another id (bool)."""
        if self._plain_names is None:
            are_they = (ids != UNBOUND) & (ids < FIRST_NUMBER)  # groups compute numbers more than once
        else:
            are_they = self._plain_names.array_of(ids.reshape(-1, 1)).view(bool).reshape(ids.shape)
        found: np.ndarray = are_they.all(axis=1)
        return found

    def discard_ids(self, new_ids: np.ndarray) -> None:
        super().discard_ids(new_ids)
        if self._plain_names is not None:
            self._plain_names.discard_ids(new_ids)

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._plain_names is None else self._plain_names.nbytes)

    def _integer_function(self, formula: Formula) -> Judge | None:
        return integer_condition(formula)

    def mask(self, rows: np.ndarray) -> np.ndarray:
        """Return for each row whether the condition holds (bool)."""
        holding: np.ndarray = self.array_of(rows) == 1
        return holding

    def _result(self, binding: dict[str, str]) -> bool:
        return holds(self._evaluate, binding)


class ValueColumn(_FormulaColumn[str | None]):
    """A formula whose results are values: terms, or None for an error."""

    def _result(self, binding: dict[str, str]) -> str | None:
        return value_or_unbound(self._evaluate, binding)

    def are_bound(self, rows: np.ndarray) -> np.ndarray:
        """Return for each row whether the formula has a value."""
        if isinstance(self._formula, Variable) and self._places:
            bound: np.ndarray = rows[:, self._places[0]] != UNBOUND
            return bound
        return np.array([text is not None for text in self.evaluate(rows)], bool)


class NumberColumn(NumericColumn):
    """A formula whose values are summed: whole numbers below `LARGEST`, `UNFIT` or `NO_NUMBER`."""

    _type = np.int64
    _missing = UNFIT + 1

    def _integer_function(self, formula: Formula) -> Judge | None:
        return (lambda numbers: numbers) if isinstance(formula, Variable) else None

    def _vertex_values(self, vertices: np.ndarray) -> np.ndarray:
        if not isinstance(self._formula, Variable):
            return super()._vertex_values(vertices)
        names = self._terms.names(vertices)
        results = small_integers(names)
        others = np.flatnonzero(results == NO_SMALL_INTEGER)
        if len(others):
            kinds = read_names(names.take(arrow_array(others)))[0]
            is_unfit = (kinds > INTEGER) & (kinds <= DOUBLE)
            results[others[is_unfit]] = UNFIT
            others = others[~is_unfit]
            results[others] = self._evaluate_singly(vertices[others])
        return results

    def _result(self, binding: dict[str, str]) -> int:
        text = value_or_unbound(self._evaluate, binding)
        try:
            number = None if text is None else number_of(text)
        except NoValue:
            return NO_NUMBER
        if number is None:
            return NO_NUMBER
        if isinstance(number.amount, int) and -LARGEST < number.amount < LARGEST:
            return number.amount
        return UNFIT


class AmountColumn(NumericColumn):
    """A formula whose values, numbers of any type, are summed: the records of `exact_sums.Amounts`."""

    _type = np.dtype([("kinds", np.int8), ("high", np.int64), ("low", np.int64)], align=True)
    _missing = np.array((NO_AMOUNT + 1, 0, 0), _type)[()]

    def _integer_function(self, formula: Formula) -> Judge | None:
        return None

    def _read_cached(self, rows: np.ndarray, results: np.ndarray) -> bool:
        return False

    def _are_missing(self, results: np.ndarray) -> np.ndarray:
        are_unknown: np.ndarray = results["kinds"] == NO_AMOUNT + 1
        return are_unknown

    def _vertex_values(self, vertices: np.ndarray) -> np.ndarray:
        if not isinstance(self._formula, Variable):
            return super()._vertex_values(vertices)
        results = np.empty(len(vertices), self._type)
        results["kinds"], results["high"], results["low"] = read_names(self._terms.names(vertices))
        others = np.flatnonzero(self._are_missing(results))
        if len(others):
            results[others] = self._evaluate_singly(vertices[others])
        return results

    def _result(self, binding: dict[str, str]) -> tuple[int, int, int]:
        text = value_or_unbound(self._evaluate, binding)
        try:
            return NO_VALUE if text is None else amount_of(number_of(text))
        except NoValue:
            return NO_VALUE


NO_VALUE = (NO_AMOUNT, 0, 0)


def read_names(names: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return names as numbers: (kinds, high, low) of `exact_sums.Amounts`.

    Unusual numbers, and names that are not numbers, have the kind `NO_AMOUNT` + 1. O(total length).
    """
    kinds, high, low = np.full(len(names), NO_AMOUNT + 1, np.int8), *np.zeros((2, len(names)), np.int64)
    if len(names) and pa.types.is_string(names.type):
        where, data = text_offsets(names), names.buffers()[2]
        if where[-1] > where[0]:
            read_amounts(where, np.frombuffer(data, np.uint8), _TYPE_ENDS, _TENS, kinds, high, low, low.view(np.float64))
    return kinds, high, low


def amount_of(number: Number) -> tuple[int, int, int]:
    """Return a number as (kind, high, low) of `exact_sums.Amounts`.

    >>> amount_of(Number("integer", 2)), amount_of(Number("double", 0.5))
    ((0, 0, 2000000000000000000), (3, 1087, 1))
    """
    type_, amount = NUMBER_TYPES.index(number.type), number.amount
    if not isinstance(amount, float):
        units = amount.numerator * DECIMAL_UNIT // amount.denominator % 2**128
        high, low = (part - 2**64 if part >= 2**63 else part for part in (units >> 64, units % 2**64))
        return type_, high, low
    if not math.isfinite(amount):
        special = UNDEFINED if math.isnan(amount) else POSITIVE if amount > 0 else NEGATIVE
        return type_ + TYPES * special, 0, 0
    mantissa, by = amount.as_integer_ratio()
    zeros = (mantissa & -mantissa).bit_length() - 1 if mantissa and by == 1 else 0
    return type_, LIMB * ONE - (by.bit_length() - 1) + zeros, mantissa >> zeros


_TYPE_ENDS = np.zeros((TYPES, len(f'"^^<{XSD}integer>')), np.uint8)
"""The text after the digits of a literal, by type, padded with zeros."""
for _type, _name in enumerate(NUMBER_TYPES):
    _end = f'"^^<{XSD}{_name}>'.encode()
    _TYPE_ENDS[_type, : len(_end)] = np.frombuffer(_end, np.uint8)
_TENS = 10.0 ** np.arange(23)  # those that are doubles
_POINT, _PLUS, _SMALL_E, _GREAT_E = (ord(character) for character in ".+eE")


@njit(cache=True, nogil=True)
def _type_of(data, begin, end, ends):
    """Return the type of a literal with this text, or -1 if it is not a number, and the end of its lexical form."""
    for type_ in range(len(ends)):
        length = np.int64(ends.shape[1])
        while ends[type_, length - 1] == 0:
            length -= 1
        if end - begin <= length:
            continue
        place = np.int64(0)
        while place < length and data[end - length + place] == ends[type_, place]:
            place += 1
        if place == length:
            return type_, end - length
    return -1, end


@wraps_around
@njit(cache=True, nogil=True)
def _read_number(data, begin, end, ends):
    """Return the type of a number of up to 18 digits, these without their point, the scale, and whether it is negative.

    The type is -1 for an unusual number, and for other text.
    """
    unread = -1, np.int64(0), 0, False
    type_ = -1
    if end > begin and data[begin] == _QUOTE:
        begin += 1
        type_, end = _type_of(data, begin, end, ends)
        if type_ < 0:
            return unread
    is_negative = begin < end and data[begin] == _MINUS
    if begin < end and (is_negative or data[begin] == _PLUS):
        begin += 1
    number, digits, scale = np.int64(0), 0, 0
    has_point = has_exponent = False
    # `number` has the digits before `begin`, without the point: `digits` of them, of which `scale` are after the point.
    while begin < end and digits <= 18:
        character = data[begin]
        if _ZERO <= character <= _NINE:
            number = 10 * number + np.int64(character) - _ZERO
            digits += 1
            scale += 1 if has_point else 0
        elif character == _POINT and not has_point:
            has_point = True
        else:
            break
        begin += 1
    if digits == 0 or digits > 18:
        return unread
    if begin < end and (data[begin] == _SMALL_E or data[begin] == _GREAT_E):
        has_exponent = True
        begin += 1
        sign = 1
        if begin < end and (data[begin] == _MINUS or data[begin] == _PLUS):
            sign = -1 if data[begin] == _MINUS else 1
            begin += 1
        exponent, length = 0, 0
        while begin < end and length < 4 and _ZERO <= data[begin] <= _NINE:
            exponent = 10 * exponent + int(data[begin]) - _ZERO
            length += 1
            begin += 1
        if length == 0:
            return unread
        scale -= sign * exponent
    if begin != end:
        return unread
    if type_ < 0:
        type_ = DOUBLE if has_exponent else DECIMAL if has_point else INTEGER
        if type_ == DECIMAL and scale == 0:
            return unread  # these types require digits after a point
    if type_ <= DECIMAL and (has_exponent or (type_ == INTEGER and has_point)):
        return unread
    return type_, number, scale, is_negative


@njit(cache=True, nogil=True, forceinline=True)
def _nearest(type_, number, scale, tens):
    """Return the double nearest to a number without its sign (of a float, rounded further), or NaN where that is not easy.

    With a mantissa below 2⁵³ and an exponent of up to 22 digits it is one product or quotient, which is rounded once
    (Clinger 1990).
    """
    if number >= 2**53 or scale > 22 or scale < -22:
        return np.nan
    real = np.float64(number)
    real = real / tens[scale] if scale >= 0 else real * tens[-scale]
    if type_ == FLOAT and number != 0:
        if real > 1e38 or real < 1e-37:  # near the ends of 32 bits
            return np.nan
        real = np.float64(np.float32(real))
    return real


@wraps_around
@njit(cache=True, nogil=True)
def read_amounts(offsets, data, ends, tens, kinds, high, low, reals):
    """Read names that are numbers of up to 18 digits. The entries of all other names do not change.

    `reals` is another view of `low`.
    """
    for i in range(len(kinds)):
        type_, number, scale, is_negative = _read_number(data, np.int64(offsets[i]), np.int64(offsets[i + 1]), ends)
        if type_ < 0:
            continue
        if type_ <= DECIMAL:
            units = np.int64(10) ** np.int64(18 - scale)
            # number · units in 128 bits, by halves of 32
            one_low, one_high = number & 0xFFFFFFFF, number >> 32
            two_low, two_high = units & 0xFFFFFFFF, units >> 32
            low_part = one_low * two_low
            first = one_high * two_low + (low_part >> 32 & 0xFFFFFFFF)
            second = one_low * two_high + (first & 0xFFFFFFFF)
            high[i] = one_high * two_high + (first >> 32) + (second >> 32)
            low[i] = (second << 32) | (low_part & 0xFFFFFFFF)
            if is_negative:
                low[i] = -low[i]
                high[i] = -high[i] - (1 if low[i] != 0 else 0)
        elif number == 0:
            high[i], low[i] = 0, 0
        else:
            real = _nearest(type_, number, scale, tens)
            if np.isnan(real):
                continue
            reals[i] = real
            bits = low[i]
            high[i] = ((bits >> 52) & 0x7FF) - 1075 + LIMB * ONE
            mantissa = (bits & (2**52 - 1)) | 2**52
            low[i] = -mantissa if is_negative else mantissa
        kinds[i] = type_


@njit(cache=True, nogil=True)
def _read_reals(offsets, data, ends, tens, reals):
    """Write the doubles nearest to names that are numbers of up to 18 digits, NaN for others and difficult cases."""
    for i in range(len(reals)):
        type_, number, scale, is_negative = _read_number(data, np.int64(offsets[i]), np.int64(offsets[i + 1]), ends)
        reals[i] = np.nan
        if type_ >= 0:
            real = _nearest(type_, number, scale, tens)
            reals[i] = -real if is_negative else real


def nearest_reals(names: pa.Array) -> np.ndarray:
    """Return the doubles nearest to names that are numbers, correctly rounded, NaN for others and for unusual ones."""
    if pa.types.is_integer(names.type):
        return names.to_numpy(zero_copy_only=False).astype(np.float64)
    reals = np.full(len(names), np.nan)
    if pa.types.is_string(names.type) and len(names):
        where, data = text_offsets(names), names.buffers()[2]
        if where[-1] > where[0]:
            _read_reals(where, np.frombuffer(data, np.uint8), _TYPE_ENDS, _TENS, reals)
    return reals


class IdColumn(ValueColumn):
    """A formula whose results are the ids of values."""

    def ids_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the id of the value for each row, `UNBOUND` for an error."""
        if isinstance(self._formula, Variable) and self._places:
            return rows[:, self._places[0]]
        if isinstance(self._formula, Constant):
            return np.full(len(rows), self._terms.intern(self._formula.name), np.int32)
        texts = self.evaluate(rows)
        ids = {text: self._terms.intern(text) for text in dict.fromkeys(texts)}  # each text is looked up once
        return np.array([ids[text] for text in texts], np.int32)


@njit(cache=True, nogil=True)
def read_cached(rows, column, by_vertex, unknown, found):
    """Write the result of each row. Return False if a result is not known yet, or an id is not that of a vertex."""
    for i in range(len(found)):
        identity = np.int64(rows[i, column])
        if identity < 0 or identity >= len(by_vertex):
            return False
        found[i] = by_vertex[identity]
        if found[i] == unknown:
            return False
    return True
