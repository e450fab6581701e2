"""Conditions on small whole numbers, judged for all of them at once: a kernel reads them from the names of vertices.

What is no small whole number (a decimal, a string, an IRI that is a name) is judged term by term elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.queries.pattern import Constant, Variable
from rpq.sparql.algebra import Call, Formula
from rpq.sparql.terms import XSD

NO_SMALL_INTEGER = 2**62
"""Stands for what is none."""

_LARGEST = 2**31
_BEHIND = np.frombuffer(f'"^^<{XSD}integer>'.encode(), np.uint8)
_MOST_DIGITS = 9
_QUOTE, _MINUS, _ZERO, _NINE = (ord(character) for character in '"-09')

Judge = Callable[[np.ndarray], np.ndarray]
"""Gives for each of some numbers (int64) whether a condition holds."""

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
    """The values (int64) of names of vertices, `NO_SMALL_INTEGER` for what is none of up to nine digits. O(total length)."""
    if pa.types.is_integer(names.type):
        numbers = names.to_numpy(zero_copy_only=False)
        return np.where((numbers > -_LARGEST) & (numbers < _LARGEST), numbers, NO_SMALL_INTEGER)
    if not pa.types.is_string(names.type):
        return np.full(len(names), NO_SMALL_INTEGER)
    _, offsets, data = names.buffers()
    where = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
    found = np.empty(len(names), np.int64)
    if not len(found) or where[-1] == where[0]:
        return np.full(len(names), NO_SMALL_INTEGER)
    read_integers(where, np.frombuffer(data, np.uint8), _BEHIND, found)
    return found


def by_number(condition: Formula) -> Judge | None:
    """What judges a condition of one variable where that is a number; None where it is no comparison with whole numbers."""
    if not isinstance(condition, Call) or len(condition.arguments) != 2:
        return None
    first, second = condition.arguments
    if condition.function in _BOTH:
        one, other = by_number(first), by_number(second)
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
    """The number that a constant is (of no dimensions); None for what is no small whole number."""
    if not isinstance(formula, Constant):
        return None
    number = small_integers(pa.array([formula.name], pa.string()))[0]
    return None if number == NO_SMALL_INTEGER else np.array(number)


@njit(cache=True, nogil=True)
def read_integers(offsets, data, behind, found):
    """Read names that are whole numbers, or literals that are, which have `behind` behind the digits."""
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
        if end <= begin or end - begin > _MOST_DIGITS:
            continue
        number = np.int64(0)
        while begin < end and _ZERO <= data[begin] <= _NINE:
            number = 10 * number + np.int64(data[begin]) - _ZERO
            begin += 1
        if begin == end:
            found[i] = -number if is_negative else number
