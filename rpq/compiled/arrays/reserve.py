"""Reused memory for rows.

New memory costs more than writing to it: the system clears each page before it assigns it to a process, at 0.05 ns per byte
in huge pages and 0.3 in small ones, and at up to 2 where a host has to provide it first. The allocator returns a large free
region to the system at once or keeps it, depending on the memory above it. Therefore this module keeps regions, and reuses a
region when nothing else refers to it. The next push may bring as many rows as the last one, so as many bytes are kept as
were in use at once: some of them for good, the others until they have been free for some seconds.

New regions consist of whole huge pages where the system has them. The allocator would place regions at any address, so that
many of their pages would be small.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from threading import Lock
from time import monotonic

import numpy as np

SMALLEST = 1 << 20
"""The size in bytes from which regions are kept."""
HUGE_PAGE = 1 << 21
"""The size in bytes of a huge page; sizes of regions are multiples of it."""
KEPT_BYTES = 1 << 26
"""The bytes of regions that are kept for good, once they were in use at once."""
LIMIT_BYTES = 1 << 30
"""The limit of kept regions in bytes, in use or free."""
IDLE_SECONDS = 10.0
"""The seconds after which a free region is released, if there are more than are kept for good."""
_BETWEEN_LOOKS = 1.0
"""The seconds between two searches for such regions."""
_TOO_LARGE = 4
"""A free region is not used for a request that is more than this factor smaller, unless others would be released for it."""
_REFERENCES = sys.getrefcount(object())  # the reference of the call itself


@dataclass(slots=True, eq=False)
class _Region:
    memory: np.ndarray
    used: float
    """The time when it was last taken or seen in use."""

    @property
    def is_free(self) -> bool:
        return sys.getrefcount(self.memory) == _REFERENCES + 1


def _size(region: _Region) -> int:
    return region.memory.nbytes


class Reserve:
    """Reusable regions of at most `most` bytes in all, of which `least` are kept for good. Threads can share one reserve.

    `clock` returns seconds.
    """

    def __init__(self, *, least: int = KEPT_BYTES, most: int = LIMIT_BYTES, clock: Callable[[], float] = monotonic) -> None:
        self.nbytes = 0
        """The size of the kept regions in bytes, in use or free."""
        self._least = least
        self._most = most
        self._limit = least  # at least the most bytes of kept regions that were in use at once
        self._clock = clock
        self._next_look = 0.0
        self._regions: list[_Region] = []  # by size; of the same size, the one that was taken last comes last
        self._lock = Lock()

    def take(self, size: int) -> np.ndarray:
        """Return a region of at least `size` bytes with arbitrary content, reserved while a reference or a view exists.

        O(log regions), and O(regions) if those that would fit are in use.
        """
        if size < SMALLEST:
            return np.empty(size, np.uint8)
        pages = -(-size // HUGE_PAGE) * HUGE_PAGE
        with self._lock:
            regions = self._regions
            for place in range(bisect_left(regions, size, key=_size), len(regions)):
                if _size(regions[place]) > _TOO_LARGE * size and self.nbytes + pages <= self._limit:
                    break
                if regions[place].is_free:
                    region = regions.pop(place)
                    region.used = self._clock()
                    insort(regions, region, key=_size)
                    return region.memory
            return self._add(pages)

    def release_unused(self) -> None:
        """Release regions that have been free for some seconds. Call it from time to time.

        O(1) unless there are more than are kept for good; then O(regions log regions) once a second.
        """
        if self.nbytes <= self._least or (now := self._clock()) < self._next_look:
            return
        with self._lock:
            self._next_look = now + _BETWEEN_LOOKS
            free = []
            for region in self._regions:
                if not region.is_free:
                    region.used = now
                elif now - region.used > IDLE_SECONDS:
                    free.append(region)
            self._release(sorted(free, key=attrgetter("used")), self._least)
            self._limit = max(self._least, self.nbytes)

    def release_free(self) -> None:
        """Release all free regions. O(regions)."""
        with self._lock:
            self._release([region for region in self._regions if region.is_free], 0)

    def _add(self, size: int) -> np.ndarray:
        """Return a new region. Keep it unless the limit is reached."""
        free = [region for region in self._regions if region.is_free]  # none of which fits the request
        in_use = self.nbytes - sum(map(_size, free)) + size
        if in_use <= self._most:
            self._limit = max(self._limit, in_use)
            # Pushes use regions in turn, so those that were used last are needed last.
            self._release(sorted(free, key=attrgetter("used"), reverse=True), self._limit - size)
        region = _Region(_new_memory(size), self._clock())
        if self.nbytes + size <= self._limit:
            insort(self._regions, region, key=_size)
            self.nbytes += size
        return region.memory

    def _release(self, free: Sequence[_Region], limit: int) -> None:
        """Release free regions, in order, until `limit` bytes are kept."""
        released = set()
        for region in free:
            if self.nbytes <= limit:
                break
            self.nbytes -= _size(region)
            released.add(region)
        self._regions = [region for region in self._regions if region not in released]


def _new_memory(size: int) -> np.ndarray:
    """Return new bytes, in huge pages where the system has them. They return to the system with the array."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(size, np.uint8)
    # Only an address that is a multiple of its size can have a huge page. What nobody writes takes no memory.
    mapped = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without huge pages
        mapped.madvise(mmap.MADV_HUGEPAGE)
    address: int = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    return np.frombuffer(mapped, np.uint8, size, -address % HUGE_PAGE)


rows = Reserve()
"""The reserve for the rows of all engines in the process."""
