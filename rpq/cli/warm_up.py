"""`rpq warm-up`: the compilation of all kernels ahead of time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rpq.engine.warmup import Variant


@click.command("warm-up", short_help="Compile the kernels ahead of time.")
@click.option(
    "--cpu",
    metavar="NAME",
    help="Processors to compile for: x86-64-v3 or x86-64-v4 (all with AVX2 or AVX-512), generic, or a name known to LLVM.  "
    "[default: this one]",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: the number of processors, at most four]"
)
@click.option(
    "--slides",
    type=click.IntRange(min=1),
    metavar="N",
    help="Leave out the kernels for windows of more than N slides; those for up to 248 slides take a quarter of the time.",
)
def warm_up(cpu: str | None, jobs: int | None, slides: int | None) -> None:
    """Compile all kernels that queries may need, and store them for later runs.

    This takes some minutes of processor time, once for each version; kernels that are stored already are not compiled again.
    They are stored beside the installed code or, if the user cannot write there, in the user's cache directory;
    NUMBA_CACHE_DIR names another directory.  Users who may only read a cache beside the code or in NUMBA_CACHE_DIR can use
    it as well.
    """
    # numba reads the environment when it is imported, here and in the processes that compile.
    if cpu is not None:
        os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = cpu, ""
    from numba import config

    from rpq.compiled import kernel_cache

    if config.DISABLE_JIT:
        raise click.UsageError("NUMBA_DISABLE_JIT is set: nothing is compiled then")
    if cpu is not None:
        check_processor(cpu)
    if kernel_cache.writable_place(kernel_cache.__file__) is None:
        tried = ", ".join(str(place.known_as) for place in kernel_cache.places(kernel_cache.__file__))
        raise click.ClickException(f"there is no place for the kernels: none of these folders can be written: {tried}")
    started = time.perf_counter()
    jobs = jobs or min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    _compile_all(jobs, slides)
    place = kernel_cache.writable_place(kernel_cache.__file__)
    click.echo(
        f"kernels for {cpu or 'this processor'} are in {place.known_as if place else 'no directory'} "
        f"({time.perf_counter() - started:.0f} s){_how_to_use(cpu)}"
    )


def check_processor(name: str) -> None:
    """Raise `click.UsageError` if kernels for a processor of this name cannot be compiled on this machine."""
    from rpq.compiled.processors import NEEDS, features_here, is_known

    if not is_known(name):
        raise click.UsageError(
            f"--cpu {name}: LLVM knows no such processor for this kind of machine; common names are {', '.join(NEEDS)}"
        )
    missing = NEEDS.get(name, frozenset()) - features_here()
    if missing:
        raise click.UsageError(
            f"--cpu {name}: kernels are run when they are compiled, and this machine lacks {', '.join(sorted(missing))}"
        )


def _how_to_use(cpu: str | None) -> str:
    from rpq.compiled.processors import NEEDS

    if cpu is None or cpu in NEEDS:
        return ""
    return f"; to use them elsewhere set NUMBA_CPU_NAME={cpu} and NUMBA_CPU_FEATURES= (empty)"


def _compile_all(jobs: int, slides: int | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from rpq.engine.warmup import variants

    chosen = variants(slides)
    columns = (TextColumn("compiling kernels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(chosen))
        for done in _compile_variants(chosen, jobs):
            bar.advance(task, len(done))


def _compile_variants(variants: tuple[Variant, ...], jobs: int) -> Iterator[tuple[Variant, ...]]:
    """Compile variants in up to `jobs` processes at a time, and yield those of a process when it is done.

    Simple paths need the kernels of walks over windows of the same length: one process compiles both, in this order.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed

    by_length: dict[int, tuple[Variant, ...]] = {}
    for variant in variants:
        by_length[variant.slides] = (*by_length.get(variant.slides, ()), variant)
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_compile, *some): some for some in by_length.values()}
        try:
            for done in as_completed(running):
                done.result()
                yield running[done]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _compile(*variants: Variant) -> None:
    """Compile variants in another process: numba compiles one kernel at a time, and the code may crash here."""
    from rpq.compiled.kernel_cache import PACKAGE

    script = "import sys; from rpq.engine.warmup import *\n"
    script += "for slides, paths in zip(sys.argv[1::2], sys.argv[2::2]): warm_up_variant(Variant(int(slides), paths))"
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *(str(word) for variant in variants for word in variant)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        number = signal.Signals(-done.returncode).name
        cpu = os.environ.get("NUMBA_CPU_NAME")
        why = f"this machine cannot run code for {cpu}" if cpu and number == "SIGILL" else "is there enough memory?"
        raise click.ClickException(f"a process that compiled kernels was ended by {number}: {why}")
    if done.returncode:
        raise click.ClickException(f"kernels cannot be compiled:\n{done.stderr.strip()}")
