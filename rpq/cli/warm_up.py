"""`rpq warm-up`: the compilation of all kernels ahead of time."""

from __future__ import annotations

import os
import sys
import time

import click


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
    help="Leave out the kernels for windows of more than N slides; those for up to 248 slides take half of the time.",
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

    from rpq.engine.compilation import CompilationError, check_processor, cores, writable_kernel_folder

    if config.DISABLE_JIT:
        raise click.UsageError("NUMBA_DISABLE_JIT is set, so nothing can be compiled; unset it")
    if cpu is not None:
        try:
            check_processor(cpu)
        except CompilationError as error:
            raise click.UsageError(f"--cpu {error}") from error
    started = time.perf_counter()
    try:
        _compile_all(jobs or min(4, cores()), slides)
    except CompilationError as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"kernels for {cpu or 'this processor'} are in {writable_kernel_folder() or 'no directory'} "
        f"({time.perf_counter() - started:.0f} s){_how_to_use(cpu)}"
    )


def _how_to_use(cpu: str | None) -> str:
    from rpq.engine.compilation import COMMON_PROCESSORS

    if cpu is None or cpu in COMMON_PROCESSORS:
        return ""
    return f"; to use them elsewhere set NUMBA_CPU_NAME={cpu} and NUMBA_CPU_FEATURES= (empty)"


def _compile_all(jobs: int, slides: int | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from rpq.engine.compilation import compile_all

    columns = (TextColumn("compiling kernels"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=1.0)
        for part in compile_all(slides=slides, jobs=jobs):
            bar.update(task, completed=part)
