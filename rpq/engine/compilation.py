"""Compilation of kernels ahead of time, in several processes: of all of them, or of those of some queries.

Importing this module imports Numba, which then reads from the environment for which processor it compiles, but not the
engine.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

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


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    numbers = iter(map(str, range(count)))  # the threads below take them in turn
    finished: SimpleQueue[str | Future[None]] = SimpleQueue()
    steps = processes = 0
    yield 0.0
    with ThreadPoolExecutor(jobs) as pool:
        try:
            call = f"run_warm_up_steps({slides!r})"
            for _ in range(jobs):
                pool.submit(_compile, call, numbers, finished.put).add_done_callback(finished.put)
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


def _compile(call: str, lines: Iterator[str], report: Callable[[str], object]) -> None:
    """Call a function of `rpq.engine.warmup` in another process, which does what each line says; report the lines done.

    Numba compiles one kernel at a time, and the code may crash here.
    """
    path = os.pathsep.join(filter(None, (str(kernel_cache.PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from rpq.engine.warmup import *; {call}"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with suppress(BrokenPipeError), process:  # which closes its input, too
            assert process.stdin is not None and process.stdout is not None
            for line in lines:
                print(line, file=process.stdin, flush=True)
                if not process.stdout.readline():
                    break
                report(line)
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


# --- queries ---------------------------------------------------------------------------------------------------------


class WarmUp(NamedTuple):
    """The arguments of `rpq.warm_up` for a query."""

    query: Query
    vertices: str = "string"
    threads: int = 1
    witness: bool = False

    def run(self) -> None:
        """Compile or load the kernels in this process."""
        from rpq.engine.warmup import warm_up

        warm_up(self.query, vertices=self.vertices, threads=self.threads, witness=self.witness)


def warm_up_each(warm_ups: Sequence[WarmUp], *, jobs: int) -> Iterator[None]:
    """Run each warm-up, and yield after it. While this process compiles, up to `jobs` - 1 others compile for later ones."""
    has_ended = threading.Event()

    def compile_ahead(one: WarmUp) -> None:
        while why_compiled() is None and not has_ended.wait(0.05):
            pass
        if not has_ended.is_set():
            _compile("run_warm_ups()", iter([b64encode(pickle.dumps(one)).decode()]), lambda line: None)

    if jobs == 1 or len(warm_ups) <= 1 or writable_kernel_folder() is None:
        yield from (one.run() for one in warm_ups)
        return
    with ThreadPoolExecutor(jobs - 1) as pool:
        try:
            ahead = [pool.submit(compile_ahead, one) for one in warm_ups[1:]]
            warm_ups[0].run()
            if why_compiled() is None:
                has_ended.set()
            yield
            for one, process in zip(warm_ups[1:], ahead, strict=True):
                wait([process])  # if it has failed, the error appears here
                one.run()
                yield
        finally:
            has_ended.set()


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
