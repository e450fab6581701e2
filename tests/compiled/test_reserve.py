"""Memory that is used again: never while someone refers to it, and never more than its bound is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.reserve import SMALLEST, Reserve


def place(region: np.ndarray) -> int:
    return region.__array_interface__["data"][0]


def test_what_nobody_holds_is_given_out_again():
    reserve = Reserve(8 * SMALLEST)
    first = reserve.take(2 * SMALLEST - 5)
    assert first.nbytes == 2 * SMALLEST and first.dtype == np.uint8
    where = place(first)
    del first
    again = reserve.take(SMALLEST)
    assert place(again) == where
    assert place(reserve.take(SMALLEST)) != where


def test_views_and_buffers_of_arrow_hold_it():
    reserve = Reserve(8 * SMALLEST)
    where = set()
    held: list[object] = [reserve.take(SMALLEST)[5:9].view(np.int32)]
    held.append(pa.py_buffer(reserve.take(SMALLEST)).slice(8, 8))
    held.append(pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(reserve.take(SMALLEST).view(np.int64))]))
    for _ in range(4):
        where.add(place(reserve.take(SMALLEST)))
    assert len(where) == 1 and reserve.nbytes == 4 * SMALLEST
    held.clear()
    assert len({place(region) for region in [reserve.take(SMALLEST) for _ in range(4)]}) == 4
    assert reserve.nbytes == 4 * SMALLEST


def test_the_bound_holds_and_regions_that_fit_nobody_make_room():
    reserve = Reserve(8 * SMALLEST)
    held = [reserve.take(2 * SMALLEST) for _ in range(6)]
    assert reserve.nbytes == 8 * SMALLEST and len({place(region) for region in held}) == 6
    held.clear()
    large = reserve.take(7 * SMALLEST)
    assert reserve.nbytes <= 8 * SMALLEST
    where = place(large)
    del large
    assert place(reserve.take(6 * SMALLEST)) == where
    small = reserve.take(SMALLEST)
    assert place(small) != where, "a large region stays free for others"
    assert reserve.take(9 * SMALLEST).nbytes == 9 * SMALLEST and reserve.nbytes <= 8 * SMALLEST
    assert reserve.take(7).nbytes == 7


def test_threads_never_get_the_same_region():
    reserve = Reserve(16 * SMALLEST)

    def work(number: int) -> bool:
        for _ in range(300):
            region = reserve.take(SMALLEST)
            region[:64] = number
            if (region[:64] != number).any():
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
