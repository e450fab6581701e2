"""The threads of an engine, which divide the work of its workers among themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rpq.errors import LimitError
from rpq.language.protocol import Worker
from rpq.stream.chunk import Chunk, ChunkDetails
from rpq.stream.edges.snapshot import Edges

_T = TypeVar("_T")
_W = TypeVar("_W")


class Crew:
    """The threads of an engine, which work for several workers at a time. Kernels release the GIL."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    @property
    def has_others(self) -> bool:
        """True if there are threads besides the calling one."""
        return self._pool is not None

    def begin(self, task: Callable[[], _T]) -> Future[_T]:
        """Begin a task in another thread."""
        assert self._pool is not None
        return self._pool.submit(task)

    def map(self, workers: Sequence[_W], work: Callable[[_W], _T]) -> list[_T]:
        """Return the results of `work` for all workers, in their order."""
        if self._pool is None or len(workers) < 2:
            return [work(worker) for worker in workers]
        found: dict[int, _T] = {}
        waiting = iter(enumerate(workers))

        def work_on() -> None:
            for place, worker in waiting:
                found[place] = work(worker)

        # The calling thread works as well: waking another takes longer than many a chunk.
        others = [self._pool.submit(work_on) for _ in range(min(self._threads, len(workers)) - 1)]
        try:
            work_on()
        finally:
            for other in others:
                if not other.cancel():
                    other.result()
        return [found[place] for place in range(len(workers))]

    def apply(
        self,
        workers: Sequence[Worker],
        chunk: Chunk,
        tuples: Any,
        edges: Edges,
        details: ChunkDetails,
        *,
        extra_task: Callable[[], object] | None = None,
    ) -> LimitError | None:
        """Apply a chunk in all workers, and run `extra_task` in parallel with them. Return the first failure."""
        if len(workers) == 1 and extra_task is None:
            try:
                workers[0].apply(chunk, tuples, edges, details)
            except LimitError as failure:
                return failure
            return None

        def apply(worker: Worker | None) -> LimitError | None:
            try:
                if worker is not None:
                    worker.apply(chunk, tuples, edges, details)
                elif extra_task is not None:
                    extra_task()
            except LimitError as failure:
                return failure
            return None

        # The extra task is the last one: it is the shortest, so that threads end together.
        tasks = workers if extra_task is None else [*workers, None]
        failures = [failure for failure in self.map(tasks, apply) if failure is not None]
        return min(failures, key=lambda failure: failure.row or 0, default=None)
