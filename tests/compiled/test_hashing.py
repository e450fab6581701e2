"""The one hash table, against a dict: few hashes for many keys, so that searches are long and wrap around."""

import random

import numpy as np
import pytest

from rpq.compiled.arrays.hashing import (
    clear,
    first_candidate,
    id_at,
    ids_in,
    new_table,
    next_candidate,
    put,
    put_new,
    table_size,
)
from rpq.compiled.kernel_cache import njit


@njit(cache=False, nogil=True)
def find(table, keys, h, key):
    """Return the place of a key, or the negated place where it belongs, as every user of the table does."""
    place = first_candidate(table, len(table), h)
    while place >= 0 and keys[id_at(table, place)] != key:
        place = next_candidate(table, len(table), place)
    return place


@njit(cache=False, nogil=True)
def enter(table, keys, h, key, number):
    """The id of a key, `number` if it is new."""
    place = find(table, keys, h, key)
    if place >= 0:
        return id_at(table, place)
    keys[number] = key
    put(table, place, number)
    return number


@njit(cache=False, nogil=True)
def build_anew(table, hashes, numbers):
    clear(table, len(table))
    for number in numbers:
        put_new(table, len(table), hashes[number], number)


@pytest.mark.parametrize("hashes", [2, 1 << 62])
def test_the_table_is_a_dict(hashes):
    drawn = random.Random(hashes)
    capacity = 40
    table, keys, hash_of = new_table(capacity), np.full(capacity, -1, np.int64), np.zeros(capacity, np.uint64)
    expected: dict[int, int] = {}
    for _ in range(400):
        key = drawn.randrange(200)
        # Hashes at the end of the table, whose upper halves find their places: searches go on at its beginning.
        place = (key * 0x9E3779B97F4A7C15 % hashes + len(table) - 2) % len(table)
        h = np.uint64((place << 32) // len(table) + 1 << 32)
        if key in expected or len(expected) < capacity:
            number = enter(table, keys, h, key, len(expected))
            assert number == expected.setdefault(key, len(expected))
            hash_of[number] = h
        else:
            assert find(table, keys, h, key) < 0
    assert ids_in(table) == list(range(capacity))
    survivors = np.array([number for number in range(capacity) if drawn.random() < 0.5])
    build_anew(table, hash_of, survivors)
    assert ids_in(table) == survivors.tolist()
    for key, number in expected.items():
        place = find(table, keys, hash_of[number], key)
        assert (id_at(table, place) if place >= 0 else None) == (number if number in survivors else None)


def test_a_table_is_at_most_half_and_at_least_a_third_full():
    for ids in (8, 9, 12, 13, 1000, 1024, 1025, 1536, 1537, 2048):
        size = table_size(ids)
        assert 2 * ids <= size < 3 * ids + 1
        assert len(new_table(ids)) == size
    assert table_size(0) == table_size(1) == 16
