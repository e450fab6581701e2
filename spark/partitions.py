"""Keys of the root partitions, chosen so that Spark's shuffle puts each into a task of its own.

Spark sends a key to the task hash(key) mod tasks.  With the numbers 0, 1, 2, … some tasks would get two partitions and
others none.  So a partition's key is a number whose hash leads to the task that is wanted, if there are as many
tasks (`rpq.spark.sql.shuffle.partitions`) as partitions; with another number of tasks everything works, less evenly.  The
keys depend on the number of partitions alone: a restart finds its state again.
"""

from __future__ import annotations

_SEED = 42
_WORD = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's hash of an int column: Murmur3 with 32 bits and the seed 42, signed.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    key = _rotated((value & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(_SEED ^ key, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4  # bytes
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def partition_keys(count: int) -> list[int]:
    """A key for each of `count` partitions, the n-th of which goes to the n-th of as many tasks.

    >>> [spark_hash(key) % 3 for key in partition_keys(3)]
    [0, 1, 2]
    """
    keys: dict[int, int] = {}
    value = 0
    while len(keys) < count:
        keys.setdefault(spark_hash(value) % count, value)
        value += 1
    return [keys[task] for task in range(count)]


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
