"""Numbers as if by chance, each a function of a seed, a purpose and a counter.

So any part of a stream can be made by itself, in blocks of any size, without a state that is carried along: the
author of the millionth message is known without making the others.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, purpose: int, counter: np.ndarray) -> np.ndarray:
    """Floats in [0, 1), one for each counter (splitmix64; Steele, Lea, Flood 2014). About 10 ns each.

    >>> uniform(1, 2, np.arange(3)).shape
    (3,)
    """
    values = counter.astype(np.uint64) * _GOLDEN + _key(seed, purpose)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    values = (values ^ (values >> np.uint64(31))) >> np.uint64(11)
    return values.astype(np.float64) * 2.0**-53


def power_law(chance: np.ndarray, size: np.ndarray | float, *, head: float, exponent: float) -> np.ndarray:
    """Ranks below `size`, by chances in [0, 1): rank r has weight (r + head)^-exponent; int64, exponent > 1.

    >>> power_law(np.array([0.0, 0.5, 0.999]), 1000, head=10, exponent=1.5).tolist()
    [0, 23, 981]
    """
    rest = exponent - 1
    most = 1 - (1 + size / head) ** -rest
    ranks = head * ((1 - chance * most) ** (-1 / rest) - 1)
    return np.minimum(ranks.astype(np.int64), np.asarray(size, np.int64) - 1)


def spread(number: np.ndarray, size: int, seed: int, purpose: int) -> np.ndarray:
    """A permutation of 0 … size − 1, applied to numbers modulo size: each value comes up once in `size` of them.

    >>> sorted(spread(np.arange(10), 10, 1, 2).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    key = int(_key(seed, purpose))
    step = key % size or 1
    while np.gcd(step, size) != 1:
        step += 1
    return (number % size * step + key // size % size) % size


def _key(seed: int, purpose: int) -> np.uint64:
    return np.uint64((seed * 0xD1342543DE82EF95 + (purpose + 1) * 0xA0761D6478BD642F) % 2**64)
