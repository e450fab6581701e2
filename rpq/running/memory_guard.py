"""The guard that ends a tuple before the engine grows past its memory limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rpq.errors import MemoryLimitError
from rpq.queries.protocol import Guard


class MemoryGuard:
    """Knows how much the workers of all queries hold, without looking at each of them whenever one grows.

    With thousands of queries to look at all of them would take all the time there is.
    """

    def __init__(self, limit: int, *, others: Callable[[], int]) -> None:
        self.limit = limit
        self.row = 0  # of the push, at which the chunk begins
        self._others = others  # bytes of what queries share
        self._workers: dict[Any, int] = {}  # bytes, as of the last look at each
        self._grown: dict[Any, None] = {}  # and not looked at since

    @property
    def held(self) -> int:
        """Bytes of everything together now. O(workers)."""
        workers: int = sum(worker.nbytes for worker in {**self._workers, **self._grown})
        return self._others() + workers

    def add(self, workers: Iterable[Any]) -> None:
        """Watch these workers too."""
        self._grown |= dict.fromkeys(workers)

    def drop(self, workers: Iterable[Any]) -> None:
        """Watch these workers no more."""
        for worker in workers:
            self._workers.pop(worker, None)
            self._grown.pop(worker, None)

    def of(self, name: Callable[[], str], workers: Callable[[], Iterable[Any]]) -> Guard:
        """The guard of a query, or of a host and a query that it serves."""

        def guard(size: int, place: int) -> None:
            self._refuse_if_too_much(name(), workers(), size, self.row + place)

        return guard

    def _refuse_if_too_much(self, query: str, growing: Iterable[Any], size: int, row: int) -> None:
        """Refuse to let one worker grow to `size` bytes if everything together would pass the limit."""
        now = dict.fromkeys(growing)
        grown, self._grown = self._grown | now, now
        self._workers.update((worker, worker.nbytes) for worker in grown)
        needed = self._bytes_with(size)
        if needed > self.limit:  # unless others have let go of some since
            self._workers = {worker: worker.nbytes for worker in self._workers}
            needed = self._bytes_with(size)
        if needed > self.limit:
            raise MemoryLimitError(
                f"query {query!r}: tuple {row} of the batch would make the engine grow to "
                f"{needed:,} bytes; the limit is {self.limit:,}. Restrict sources or targets, take a smaller window, "
                "or raise the limit",
                query=query,
                row=row,
                size=needed,
                limit=self.limit,
            )

    def _bytes_with(self, size: int) -> int:
        """Bytes of everything together once a worker has grown to `size`. O(workers)."""
        return self._others() + sum(self._workers.values()) + size - size * 4 // 5
