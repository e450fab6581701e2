"""Compilation of kernels ahead of time: of all of them, in several processes, or of those of some queries once on a machine.

Importing this module imports Numba, which then reads from the environment for which processor it compiles, but not the
engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue

from rpq.compiled import kernel_cache, processors
from rpq.compiled.kernel_sources import digest
from rpq.errors import RpqError
from rpq.language.kinds import kernels_of
from rpq.language.query import Query

COMMON_PROCESSORS = tuple(processors.NEEDS)
"""The names of sets of processors whose kernels are used without settings, the most demanding one first."""

_LOCK = "compiling.lock"


class CompilationError(RpqError):
    """Kernels that cannot be compiled, or compiled and stored; the message says why, and what would be right."""


def kernel_folders() -> tuple[Path, ...]:
    """Return the folders where kernels are looked for, up to the first one that can be written."""
    return tuple(place.known_as for place in kernel_cache.places(kernel_cache.__file__))


def writable_kernel_folder() -> Path | None:
    """Return the folder in which kernels are stored; None if no folder can be written."""
    place = kernel_cache.writable_place(kernel_cache.__file__)
    return None if place is None else place.known_as


def sources_digest() -> str | None:
    """Return a digest of the sources of the engine and its kernels; None if one was replaced after this process started."""
    return digest("rpq.engine.engine")


def why_compiled() -> str | None:
    """Return why kernels were compiled in this process; None if all came from the cache."""
    return kernel_cache.why_compiled()


def check_processor(name: str) -> None:
    """Raise `CompilationError` if kernels for a processor of this name cannot be compiled on this machine."""
    if not processors.is_known(name):
        common = ", ".join(COMMON_PROCESSORS)
        raise CompilationError(f"{name}: LLVM knows no such processor for this kind of machine; common names are {common}")
    missing = processors.NEEDS.get(name, frozenset()) - processors.features_here()
    if missing:
        lacks = ", ".join(sorted(missing))
        raise CompilationError(f"{name}: kernels are run when they are compiled, and this machine lacks {lacks}")


# --- all kernels -----------------------------------------------------------------------------------------------------


def compile_all(*, slides: int | None = None, jobs: int) -> Iterator[float]:
    """Compile all kernels, for windows of up to `slides` slides or any, in `jobs` processes.

    Yield from time to time the part that is done, from 0 to 1. Raises `CompilationError`.
    """
    from rpq.engine.warmup import warm_up_steps

    if writable_kernel_folder() is None:
        tried = ", ".join(map(str, kernel_folders()))
        raise CompilationError(f"there is no place for the kernels: none of these folders can be written: {tried}")
    count = len(warm_up_steps(slides))
    numbers = iter(range(count))  # the threads below take them in turn
    finished: SimpleQueue[int | Future[None]] = SimpleQueue()
    steps = processes = 0
    yield 0.0
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for _ in range(jobs):
                pool.submit(_compile, slides, numbers, finished.put).add_done_callback(finished.put)
            while processes < jobs:
                one = finished.get()
                if isinstance(one, Future):
                    one.result()
                    processes += 1
                else:
                    steps += 1
                    yield steps / count
        finally:
            deque(numbers, maxlen=0)  # nobody begins another one


def _compile(slides: int | None, numbers: Iterator[int], report: Callable[[int], object]) -> None:
    """Run steps of `warm_up_steps(slides)` in another process, and report each number.

    Numba compiles one kernel at a time, and the code may crash here.
    """
    path = os.pathsep.join(filter(None, (str(kernel_cache.PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from rpq.engine.warmup import *; run_warm_up_steps({slides!r})"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with suppress(BrokenPipeError), process:  # which closes its input, too
            assert process.stdin is not None and process.stdout is not None
            for number in numbers:
                print(number, file=process.stdin, flush=True)
                if not process.stdout.readline():
                    break
                report(number)
        errors.seek(0)
        _check_compiler(process.returncode, errors.read())


def _check_compiler(status: int, said: str) -> None:
    """Raise `CompilationError` if a process that compiled kernels ended otherwise than with the status 0."""
    if status < 0:
        name = signal.Signals(-status).name
        cpu = os.environ.get("NUMBA_CPU_NAME")
        why = f"this machine cannot run code for {cpu}" if cpu and name == "SIGILL" else "is there enough memory?"
        raise CompilationError(f"a process that compiled kernels was ended by {name}: {why}")
    if status:
        raise CompilationError(f"kernels cannot be compiled:\n{said.strip()}")


# --- once on a machine -----------------------------------------------------------------------------------------------


def are_compiled(queries: Sequence[Query], *, vertices: str, threads: int) -> bool:
    """Return whether `warm_up_once` has compiled the kernels of queries on this machine."""
    place = kernel_cache.writable_place(kernel_cache.__file__)
    return place is not None and (place.directory / _mark(queries, vertices, threads)).exists()


def warm_up_once(queries: Sequence[Query], *, vertices: str, threads: int) -> tuple[float, str | None]:
    """Compile or load the kernels of queries; return the seconds, and the reason for compiling or None.

    If a process of this machine has done so before, kernels are loaded when they are needed.
    """
    if are_compiled(queries, vertices=vertices, threads=threads):
        return 0.0, None
    from rpq.engine.warmup import warm_up

    before = why_compiled()
    with _one_at_a_time(_mark(queries, vertices, threads)):
        seconds = sum(warm_up(query, vertices=vertices, threads=threads) for query in queries)
    after = why_compiled()
    return seconds, after if after != before else None


def _mark(queries: Sequence[Query], vertices: str, threads: int) -> str:
    """Return the name of the file that exists when the kernels of these queries have been compiled on this machine."""
    needed = (sources_digest(), vertices, threads, sorted({str(kernels_of(query)) for query in queries}))
    return f"ready-{sha256(repr(needed).encode()).hexdigest()[:20]}"


@contextmanager
def _one_at_a_time(mark: str) -> Iterator[None]:
    """Run a block in one process of this machine at a time, until a process has finished it.

    If kernels cannot be stored, each process runs the block without waiting.
    """
    place = kernel_cache.writable_place(kernel_cache.__file__)
    try:
        import fcntl
    except ImportError:  # Windows
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
            (place.directory / mark).write_text("the kernels with this digest have been compiled\n")
