"""The different values of an array of integers."""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit

_LARGEST_TABLE = 1 << 16
"""The number of possible values up to which the different ones are found in a table rather than by sorting."""


def distinct_values(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the different values, all from 0 to below `size`, and the place of each value among them.

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
    """Write the place of each value among the different ones, by increasing value, and these; return how many there are.

    `place` is -1 for each value.
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
