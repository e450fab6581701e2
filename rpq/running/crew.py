"""The threads of an engine: every worker of every query, and every host, gets each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rpq.errors import LimitError
from rpq.queries.protocol import Host
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.snapshot import Edges

Job = tuple[int, Any]
"""The number of a query and one of its workers."""


class Crew:
    """Lets workers apply chunks, several at a time where there are threads. Kernels release the GIL."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def apply(
        self,
        jobs: Sequence[Job],
        hosts: Sequence[Host],
        chunk: Chunk,
        tuples: Any,
        edges: Edges,
        first: int,
        details: ChunkDetails = NO_DETAILS,
    ) -> LimitError | None:
        """Let workers and hosts apply a chunk, which begins at row `first` of the push; the first failure."""
        met: list[LimitError] = []
        of_hosts = [(host, (details,)) for host in hosts]
        waiting: Iterator[tuple[Any, tuple[Any, ...]]] = iter([*of_hosts, *((worker, ()) for _, worker in jobs)])

        def work() -> None:
            for worker, further in waiting:
                try:
                    worker.apply(chunk, tuples, edges, *further)
                except LimitError as failure:
                    met.append(failure)

        # The calling thread works as well: waking another takes longer than many a chunk.
        others = [self._pool.submit(work) for _ in range(self._threads - 1)] if self._pool is not None else []
        try:
            work()
        finally:
            for other in others:
                other.result()
        return min(met, key=lambda failure: failure.row or 0, default=None)
