"""What is wrong with values of a column, and the column without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.stream.values import EMPTY, MISSING, Misfit, first_empty

NUMBER = pa.int64()


def cast(array: pa.Array, kind: pa.DataType, *, safe: bool = True) -> pa.Array:
    """An array as another type."""
    # Casting to the type that it has takes Arrow ten microseconds.
    return array if array.type == kind else array.cast(kind, safe=safe)


def problem(problems: list[InputError], row: int, column: str, what: str) -> None:
    """Note what is wrong with the value of a row."""
    problems.append(row_error(row, column, what))


def row_error(row: int, column: str, what: str) -> InputError:
    """The error that says what is wrong with the value of a row."""
    return InputError(f"row {row}: column {column!r}: {what}", row=int(row), column=column)


def to_end(taken: tuple[Any, Misfit | None], count: int, name: str, problems: list[InputError]) -> Any:
    """An array of the values before the first misfit, as long as the other columns are."""
    array, misfit = taken
    if misfit is None:
        return array
    problem(problems, misfit.row, name, misfit.reason)
    if isinstance(array, np.ndarray):
        return np.concatenate([array, np.zeros(count - len(array), array.dtype)])
    return pa.concat_arrays([array, pa.nulls(count - len(array), array.type)])


def filled(array: pa.Array, name: str, value: Any, problems: list[InputError]) -> pa.Array:
    """An array without nulls, the first of which is a problem."""
    if not array.null_count:
        return array
    problem(problems, pc.index(pc.is_null(array), pa.scalar(True)).as_py(), name, MISSING)
    return array.fill_null(value)


def named(array: pa.Array, name: str, problems: list[InputError]) -> pa.Array:
    """An array of text without nulls and empty texts, the first of which is a problem."""
    texts = filled(array, name, "", problems)
    place = first_empty(texts)
    if place is not None and array[place].is_valid:
        problem(problems, place, name, EMPTY)
    return texts


def signed(array: pa.Array, name: str, problems: list[InputError]) -> pa.Array:
    """Unsigned integers as int64, the first beyond which is a problem."""
    numbers = array.to_numpy()
    beyond = numbers > np.uint64(2**63 - 1)
    if beyond.any():
        row = int(np.argmax(beyond))
        problem(problems, row, name, f"{numbers[row]} does not fit into 64 bits with a sign")
    return pa.array(numbers.view(np.int64))
