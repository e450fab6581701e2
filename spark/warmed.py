"""Kernels ready in a worker process before its first tuple, compiled by one process of a machine while others wait.

Once they are, a mark beside them says so, and workers that only load them do not wait for one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

import rpq
from rpq.cli.reporting import kernels_of
from rpq.compiled import kernel_cache
from rpq.compiled.kernel_sources import digest

_LOCK = "compiling.lock"


def warmed(queries: Sequence[rpq.Query], vertices: str, threads: int) -> tuple[float, str | None]:
    """Compile or load the kernels of queries: the seconds it took, and why something was compiled, if it was."""
    before = kernel_cache.why_compiled()
    needed = (digest("rpq.engine"), vertices, threads, sorted({str(kernels_of(query)) for query in queries}))
    with _one_at_a_time(f"ready-{sha256(repr(needed).encode()).hexdigest()[:20]}"):
        seconds = sum(rpq.warm_up(query, vertices=vertices, threads=threads) for query in queries)
    after = kernel_cache.why_compiled()
    return seconds, after if after != before else None


@contextmanager
def _one_at_a_time(mark: str) -> Iterator[None]:
    """A block that one process of this machine is in until one has left it, where kernels can be kept; else all may be."""
    place = kernel_cache.writable_place(kernel_cache.__file__)
    try:
        import fcntl
    except ImportError:  # not on Windows
        place = None
    if place is None or (place.directory / mark).exists():
        yield
        return
    try:
        place.directory.mkdir(parents=True, exist_ok=True)
        file = open(place.directory / _LOCK, "ab")  # noqa: SIM115
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            (place.directory / mark).write_text("kernels that these were made for are here\n")
