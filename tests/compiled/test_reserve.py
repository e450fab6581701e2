"""Memory that is used again: never while someone refers to it, and never more than its bound is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.reserve import HUGE_PAGE, IDLE_SECONDS, SMALLEST, Reserve


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def place(region: np.ndarray) -> int:
    return region.__array_interface__["data"][0]


def test_what_nobody_holds_is_given_out_again():
    reserve = Reserve()
    first = reserve.take(2 * HUGE_PAGE - 5)
    assert first.nbytes == 2 * HUGE_PAGE and first.dtype == np.uint8
    where = place(first)
    del first
    again = reserve.take(HUGE_PAGE)
    assert place(again) == where
    assert place(reserve.take(HUGE_PAGE)) != where


def test_views_and_buffers_of_arrow_hold_it():
    reserve = Reserve()
    where = set()
    held: list[object] = [reserve.take(SMALLEST)[5:9].view(np.int32)]
    held.append(pa.py_buffer(reserve.take(SMALLEST)).slice(8, 8))
    held.append(pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(reserve.take(SMALLEST).view(np.int64))]))
    for _ in range(4):
        where.add(place(reserve.take(SMALLEST)))
    assert len(where) == 1 and reserve.nbytes == 4 * HUGE_PAGE
    held.clear()
    assert len({place(region) for region in [reserve.take(SMALLEST) for _ in range(4)]}) == 4
    assert reserve.nbytes == 4 * HUGE_PAGE


def test_what_was_in_use_at_once_is_kept_and_no_more_than_the_most():
    reserve = Reserve(least=2 * HUGE_PAGE, most=8 * HUGE_PAGE)
    held = [reserve.take(2 * HUGE_PAGE) for _ in range(6)]
    assert reserve.nbytes == 8 * HUGE_PAGE and len({place(region) for region in held}) == 6
    held.clear()
    large = reserve.take(7 * HUGE_PAGE)
    assert reserve.nbytes == 7 * HUGE_PAGE, "regions that fit nobody make room"
    where = place(large)
    del large
    assert place(reserve.take(6 * HUGE_PAGE)) == where
    small = reserve.take(SMALLEST)
    assert place(small) != where, "a large region stays free for others"
    assert reserve.take(9 * HUGE_PAGE).nbytes == 9 * HUGE_PAGE and reserve.nbytes <= 8 * HUGE_PAGE
    assert reserve.take(7).nbytes == 7


def test_what_is_free_for_long_is_released_but_for_the_least():
    clock = Clock()
    reserve = Reserve(least=2 * HUGE_PAGE, most=64 * HUGE_PAGE, clock=clock)
    held = [reserve.take(HUGE_PAGE) for _ in range(6)]
    last = held.pop()
    held.clear()
    for _ in range(2):
        clock.now += IDLE_SECONDS / 2
        reserve.release_unused()
        assert reserve.nbytes == 6 * HUGE_PAGE
    again = reserve.take(HUGE_PAGE)
    clock.now += IDLE_SECONDS / 2
    reserve.release_unused()
    assert reserve.nbytes == 2 * HUGE_PAGE, "those in use, or used a short time ago"
    del again
    clock.now += IDLE_SECONDS / 2
    del last
    for _ in range(3):
        clock.now += IDLE_SECONDS
        reserve.release_unused()
    assert reserve.nbytes == 2 * HUGE_PAGE
    assert len({place(region) for region in [reserve.take(HUGE_PAGE) for _ in range(2)]}) == 2


def test_threads_never_get_the_same_region():
    reserve = Reserve(least=16 * SMALLEST)

    def work(number: int) -> bool:
        for _ in range(300):
            region = reserve.take(SMALLEST)
            region[:64] = number
            if (region[:64] != number).any():
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
