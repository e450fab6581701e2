"""Timestamps of any kind as the integers of a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.column_problems import NUMBER, cast, filled, problem, signed, to_end
from rpq.stream.stream_time import StreamTime
from rpq.stream.values import MISSING, kind_of_timestamp, shown, timestamps_of

EARLIEST = -(2**63) + 1
"""The smallest timestamp; the one below it means "never" inside the engine."""

_COARSER = {"ns": "us", "us": "ms", "ms": "s", "s": "s"}


def timestamps_as_integers(
    column: Any, times: StreamTime, latest: int, problems: list[InputError], *, end: int | None = None, alike: bool = False
) -> tuple[np.ndarray, StreamTime]:
    """Timestamps as integers, and what is known of the stream's time with them.

    `end` is where tuples end for other reasons: nothing is learnt of what follows. Values of a list that are `alike` are
    not divided by their kinds. What is wrong is added to `problems`; a column that does not go with the stream at all is an
    `InputError`.
    """
    count, mistakes = len(column), len(problems)
    if isinstance(column, list):
        taken = timestamps_of(column)
        if times.unit is not None and not alike and taken[1] is not None and taken[1].is_of_other_kind:
            return _of_both_kinds(column, times, latest, problems, count if end is None else end)
        array = to_end(taken, count, "timestamp", problems)
    else:
        array = column
    if pa.types.is_null(array.type) and count:
        problem(problems, 0, "timestamp", MISSING)
    if count == 0 or any(one.row == 0 for one in problems[mistakes:]):
        return np.zeros(count, np.int64), times
    times = times.met(array.type)
    if pa.types.is_integer(array.type):
        array = filled(array, "timestamp", 0, problems)
        array = signed(array, "timestamp", problems) if pa.types.is_uint64(array.type) else cast(array, NUMBER)
        numbers = array.to_numpy()
    else:
        epoch = pa.array([0], pa.int32() if pa.types.is_date(array.type) else NUMBER).view(array.type)
        array = filled(array, "timestamp", epoch[0], problems) if array.null_count else array
        numbers, outside = times.integers(array)
        if outside is not None:
            unit = times.inner_unit
            coarser = _COARSER[unit]
            problem(
                problems,
                outside,
                "timestamp",
                f"{array[outside]} does not fit into 64 bits in the unit {unit} of the engine; "
                f"rpq.Engine(…, time_unit={coarser!r}) holds more",
            )
    if numbers.min() < EARLIEST:
        problem(
            problems, int(np.argmin(numbers)), "timestamp", f"{EARLIEST - 1} is too small; at least {EARLIEST} is possible"
        )
    if numbers.max() > latest:
        row = int(np.argmax(numbers > latest))
        time, last = (shown(times.told(int(number))) for number in (numbers[row], latest))
        problem(problems, row, "timestamp", f"{time} and the size of the window exceed 64 bits; at most {last} is possible")
    return np.array(numbers), times  # Arrow's are read-only, which is another type to the kernels


def _of_both_kinds(
    values: list[Any], times: StreamTime, latest: int, problems: list[InputError], end: int
) -> tuple[np.ndarray, StreamTime]:
    """The same of a list of plain numbers and dates or times, which go together where the stream has a unit.

    The result is that of pushing them one by one: what came first tells the type of the rows.
    """
    places: dict[int | None, list[int]] = {}
    for place, value in enumerate(values[:end]):
        places.setdefault(kind_of_timestamp(value), []).append(place)
    numbers = np.zeros(len(values), np.int64)
    for rows in places.values():  # that of the first value first
        rows = [row for row in rows if row < end]
        if not rows:
            continue
        found: list[InputError] = []
        try:
            some, times = timestamps_as_integers([values[row] for row in rows], times, latest, found, alike=True)
        except InputError as misfit:
            if not rows[0]:
                raise
            problem(problems, rows[0], "timestamp", misfit.message.removeprefix("column 'timestamp': "))
            end = rows[0]
            continue
        numbers[rows] = some
        for one in found:
            place = rows[one.row or 0]
            message = one.message.removeprefix(f"row {one.row}: ")
            problems.append(InputError(f"row {place}: {message}", row=place, column="timestamp"))
            end = min(end, place)
    return numbers, times
