"""Memory for rows that is used again.

New memory costs more than writing to it: the system clears each page before it gives it out, 0.3 ns a byte and up to ten
times that where pages are small, and the allocator gives large regions back as soon as they are free. So large regions are
kept here, up to a bound, and given out again once nothing refers to them any more: a region is free
where this list has the only reference to it.
"""

from __future__ import annotations

import sys
from threading import Lock

import numpy as np

SMALLEST = 1 << 20
"""Bytes of a region that is worth keeping; sizes are multiples of it."""
MOST = 1 << 26
"""Bytes that are kept in all, in use or not."""
_TOO_LARGE = 4
"""A region so many times larger than what is asked for stays free for others."""
_REFERENCES = sys.getrefcount(object())  # of the call alone


class Reserve:
    """Regions of at most so many bytes in all that are used again. Threads may share one."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._regions: list[np.ndarray] = []
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of the regions that are kept, in use or not."""
        return sum(region.nbytes for region in self._regions)

    def take(self, size: int) -> np.ndarray:
        """Return a region of at least `size` bytes, of any content, for as long as someone refers to it or to a view of it.

        O(regions kept).
        """
        if size < SMALLEST:
            return np.empty(size, np.uint8)
        with self._lock:
            free = [place for place in range(len(self._regions)) if self._is_free(place)]
            fitting = [place for place in free if size <= self._regions[place].nbytes <= _TOO_LARGE * size]
            if fitting:
                return self._regions[min(fitting, key=lambda place: self._regions[place].nbytes)]
            region = np.empty(-(-size // SMALLEST) * SMALLEST, np.uint8)
            excess = self.nbytes + region.nbytes - self.most
            if region.nbytes <= self.most:
                for place in reversed(free):  # of the free ones none fits
                    if excess > 0:
                        excess -= self._regions.pop(place).nbytes
            if excess <= 0:
                self._regions.append(region)
            return region

    def _is_free(self, place: int) -> bool:
        return sys.getrefcount(self._regions[place]) == _REFERENCES + 1


rows = Reserve()
"""What rows are kept in, of all engines of the process."""
