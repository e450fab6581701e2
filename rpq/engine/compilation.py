"""Compilation of kernels ahead of time: of all of them, in several processes, or of those of some queries once on a machine.

Importing this module imports Numba, which then reads from the environment for which processor it compiles, but not the
engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rpq.compiled import kernel_cache, processors
from rpq.compiled.kernel_sources import digest
from rpq.errors import RpqError
from rpq.language.kinds import kernels_of
from rpq.language.query import Query

if TYPE_CHECKING:
    from rpq.engine.warmup import Variant

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
    """Compile all kernels, for windows of up to `slides` slides or any, in up to `jobs` processes at a time.

    Yield from time to time the part that is done, from 0 to 1. Raises `CompilationError`.

    Simple paths need the kernels of walks over windows of the same length: one process compiles both, in this order.
    """
    from rpq.engine.warmup import variants

    if writable_kernel_folder() is None:
        tried = ", ".join(map(str, kernel_folders()))
        raise CompilationError(f"there is no place for the kernels: none of these folders can be written: {tried}")
    chosen = variants(slides)
    by_length: dict[int, tuple[Variant, ...]] = {}
    for variant in chosen:
        by_length[variant.slides] = (*by_length.get(variant.slides, ()), variant)
    finished = 0
    yield 0.0
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_compile, *some): len(some) for some in by_length.values()}
        try:
            for done in as_completed(running):
                done.result()
                finished += running[done]
                yield finished / len(chosen)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _compile(*some: Variant) -> None:
    """Compile variants in another process: numba compiles one kernel at a time, and the code may crash here."""
    script = "import sys; from rpq.engine.warmup import *\n"
    script += "for slides, paths in zip(sys.argv[1::2], sys.argv[2::2]): warm_up_variant(Variant(int(slides), paths))"
    path = os.pathsep.join(filter(None, (str(kernel_cache.PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *(str(word) for variant in some for word in variant)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        number = signal.Signals(-done.returncode).name
        cpu = os.environ.get("NUMBA_CPU_NAME")
        why = f"this machine cannot run code for {cpu}" if cpu and number == "SIGILL" else "is there enough memory?"
        raise CompilationError(f"a process that compiled kernels was ended by {number}: {why}")
    if done.returncode:
        raise CompilationError(f"kernels cannot be compiled:\n{done.stderr.strip()}")


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
