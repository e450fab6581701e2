"""Blocks of tuples: how long they are, and names for the numbers of vertices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK = 1 << 16
"""Tuples that are made at once."""


def blocks(count: int, size: int) -> Iterator[np.ndarray]:
    """The numbers 0 … count − 1 in arrays of at most `size`.

    >>> [block.tolist() for block in blocks(5, 3)]
    [[0, 1, 2], [3, 4]]
    """
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def named(prefix: str | pa.Array, number: np.ndarray) -> pa.Array:
    """Names of vertices: the prefix, one for all or one for each, and the number.

    >>> named("u", np.array([3, 10])).to_pylist()
    ['u3', 'u10']
    """
    first = pa.scalar(prefix) if isinstance(prefix, str) else prefix
    return pc.binary_join_element_wise(first, pa.array(number).cast(pa.string()), "")
