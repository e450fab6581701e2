"""Reused memory for rows.

New memory costs more than writing to it: the system clears each page before it assigns it to a process, at 0.3 ns per byte
and up to ten times as much for small pages, and the allocator returns large regions to the system as soon as they are free.
Therefore this module keeps large regions, up to a limit, and reuses a region when nothing else refers to it.
"""

from __future__ import annotations

import sys
from threading import Lock

import numpy as np

SMALLEST = 1 << 20
"""The size in bytes from which regions are kept; sizes are multiples of it."""
MOST = 1 << 26
"""The limit of kept regions in bytes, in use or free."""
_TOO_LARGE = 4
"""A free region is not used for a request that is more than this factor smaller."""
_REFERENCES = sys.getrefcount(object())  # the reference of the call itself


class Reserve:
    """Reusable regions of at most `most` bytes in all. Threads can share one reserve."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._regions: list[np.ndarray] = []
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """The size of the kept regions in bytes, in use or free."""
        return sum(region.nbytes for region in self._regions)

    def take(self, size: int) -> np.ndarray:
        """Return a region of at least `size` bytes with arbitrary content, reserved while a reference or a view exists.

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
                for place in reversed(free):  # no free region fits the request
                    if excess > 0:
                        excess -= self._regions.pop(place).nbytes
            if excess <= 0:
                self._regions.append(region)
            return region

    def _is_free(self, place: int) -> bool:
        return sys.getrefcount(self._regions[place]) == _REFERENCES + 1


rows = Reserve()
"""The reserve for the rows of all engines in the process."""
