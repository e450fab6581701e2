"""The distinct values of an array of integers."""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit

_LARGEST_TABLE = 1 << 16
"""The number of possible values up to which the distinct ones are found with a table, not by sorting."""


def distinct_values(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, which must be from 0 to below `size`, and the place of each value among them.

    >>> [array.tolist() for array in distinct_values(np.array([7, 2, 7]), 10)]
    [[2, 7], [1, 0, 1]]
    """
    if size > _LARGEST_TABLE:
        return np.unique(values, return_inverse=True)
    place, of_values, used = np.full(size, -1, np.int64), np.empty(len(values), np.int64), np.empty(size, np.int64)
    count = number_values(values, place, used, of_values)
    return used[:count], of_values


@njit(cache=True, nogil=True)
def number_values(values, place, used, of_values):
    """Write the distinct values in ascending order, and the place of each value among them. Return the number of distinct
    values.

    `place` must be -1 for each value.
    """
    for value in values:
        place[value] = 0
    count = np.int64(0)
    for value in range(len(place)):
        if place[value] == 0:
            used[count] = value
            place[value] = count
            count += 1
    for i in range(len(values)):
        of_values[i] = place[values[i]]
    return count
