"""Random numbers as functions of a seed, a purpose and a counter, and blocks, names and times based on them.

Any part of a stream can be generated independently, in blocks of any size and without state: the author of the millionth
message can be computed without generating the messages before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, purpose: int, counter: np.ndarray) -> np.ndarray:
    """Return floats in [0, 1), one for each counter (splitmix64; Steele, Lea, Flood 2014). About 10 ns each.

    >>> uniform(1, 2, np.arange(3)).shape
    (3,)
    """
    values = counter.astype(np.uint64) * _GOLDEN + _key(seed, purpose)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    values = (values ^ (values >> np.uint64(31))) >> np.uint64(11)
    return values.astype(np.float64) * 2.0**-53


def power_law(chance: np.ndarray, size: np.ndarray | float, *, head: float, exponent: float) -> np.ndarray:
    """Return ranks below `size` for chances in [0, 1): rank r has weight (r + head)^-exponent; int64, exponent > 1.

    >>> power_law(np.array([0.0, 0.5, 0.999]), 1000, head=10, exponent=1.5).tolist()
    [0, 23, 981]
    """
    rest = exponent - 1
    most = 1 - (1 + size / head) ** -rest
    ranks = head * ((1 - chance * most) ** (-1 / rest) - 1)
    return np.minimum(ranks.astype(np.int64), np.asarray(size, np.int64) - 1)


def permute(number: np.ndarray, size: int, seed: int, purpose: int) -> np.ndarray:
    """Permute 0 … size − 1: map numbers modulo size, so that each value occurs once in `size` consecutive numbers.

    >>> sorted(permute(np.arange(10), 10, 1, 2).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    key = int(_key(seed, purpose))
    step = key % size or 1
    while np.gcd(step, size) != 1:
        step += 1
    return (number % size * step + key // size % size) % size


def shuffle(number: np.ndarray, size: np.ndarray | int, seed: int, purpose: np.ndarray | int) -> np.ndarray:
    """Permute 0 … size − 1 at random: map numbers below `size`, in no order that is visible. About 60 ns each.

    `size` and `purpose` are those of all numbers or of each. Unlike `permute`, two shuffles of the same numbers are not
    linear functions of each other, so pairs of them look drawn at random.

    >>> sorted(shuffle(np.arange(10), 10, 1, 2).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    count = np.broadcast_to(np.asarray(size, np.int64), number.shape)
    key = np.broadcast_to(_keys(seed, np.atleast_1d(purpose)), number.shape)
    bits = np.maximum(np.ceil(np.log2(np.maximum(count, 1))), 1).astype(np.uint64)
    found = number.astype(np.uint64)
    # A permutation of 0 … 2^bits − 1, repeated where it leads beyond `size` (Black and Rogaway 2002, cycle walking).
    rows = np.arange(len(number))
    while len(rows):
        found[rows] = _scramble(found[rows], bits[rows], key[rows])
        rows = rows[found[rows] >= count[rows].astype(np.uint64)]
    return found.astype(np.int64)


def _scramble(value: np.ndarray, bits: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Permute 0 … 2^bits − 1: steps of which each can be undone."""
    mask = (np.uint64(1) << bits) - np.uint64(1)
    shift = bits // np.uint64(2) + np.uint64(1)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15):
        value = (value * np.uint64(factor) + key) & mask
        value = value ^ (value >> shift)
        key = (key >> np.uint64(17)) ^ (key << np.uint64(47))
    return value


def _key(seed: int, purpose: int) -> np.uint64:
    return np.uint64((seed * 0xD1342543DE82EF95 + (purpose + 1) * 0xA0761D6478BD642F) % 2**64)


def _keys(seed: int, purpose: np.ndarray) -> np.ndarray:
    return _key(seed, -1) + (purpose.astype(np.uint64) + np.uint64(1)) * np.uint64(0xA0761D6478BD642F)


BLOCK = 1 << 16
"""The number of tuples that are generated at once."""


def blocks(count: int, size: int) -> Iterator[np.ndarray]:
    """Yield the numbers 0 … count − 1 in arrays of at most `size`.

    >>> [block.tolist() for block in blocks(5, 3)]
    [[0, 1, 2], [3, 4]]
    """
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def vertex_names(prefix: str | pa.Array, number: np.ndarray) -> pa.Array:
    """Return names of vertices: a prefix (one for all vertices, or one for each) followed by the number.

    >>> vertex_names("u", np.array([3, 10])).to_pylist()
    ['u3', 'u10']
    """
    first = pa.scalar(prefix) if isinstance(prefix, str) else prefix
    return pc.binary_join_element_wise(first, pa.array(number).cast(pa.string()), "")


DAY = 86_400
_HOURS = np.array(
    [1.36, 1.35, 1.34, 1.32, 1.26, 1.16, 1.08, 0.95, 0.88, 0.80, 0.75, 0.68]
    + [0.66, 0.66, 0.69, 0.72, 0.75, 0.76, 0.83, 0.99, 1.11, 1.22, 1.34, 1.35]
)
"""Activity by the hour (UTC) of MathOverflow, 1 on average."""

_PASSED = np.concatenate([[0.0], np.cumsum(_HOURS) / _HOURS.sum()])


def daily_times(position: np.ndarray, *, days: float, growth: float, start: int) -> np.ndarray:
    """Return the times in seconds of tuples at positions in [0, 1) of a stream of `days`; int64, ascending with position.

    The rate grows like (time)^growth; with growth 0 it is constant.

    >>> daily_times(np.array([0.0, 0.5]), days=2, growth=0, start=0).tolist()
    [0, 86400]
    """
    passed = days * position ** (1 / (1 + growth))
    day = np.floor(passed)
    hour = np.interp(passed - day, _PASSED, np.arange(25.0))
    seconds = start + day * DAY + np.minimum(hour * 3600, DAY - 1)
    return seconds.astype(np.int64)
