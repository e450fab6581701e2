"""What a person sees while Spark works: a line of progress, a plain sentence where something fails, no Java chatter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from rpq.errors import RpqError
from rpq.spark.errors import PipelineError
from rpq.spark.own_temporary import OwnTemporary, ending_on_signals, exit_status, interrupt_plainly, interrupted_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESH_SECONDS = 0.5
_END_SECONDS = 30.0
_OURS = re.compile(r"^(?:rpq|spark|automata)\.[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)
_LONGEST = 600


class Failure(click.ClickException):
    """Ends with exit status 1."""

    exit_code = 1


@contextmanager
def session_for(
    master: str | None,
    partitions: int | None,
    settings: Mapping[str, str],
    log: str | None,
    py_files: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """A session whose JVM and workers write their messages to the file `log`; it ends with the block, JVM and all.

    What is missing (Java, PySpark) is a usage error; what the block raises of ours or of Spark's becomes a `Failure`.
    Without a `log` there is one of its own, which stays if the block fails.  SIGINT and SIGTERM end the block, and the
    process with the status that says so.
    """
    temporary = OwnTemporary(log)
    failed = True
    try:
        with ending_on_signals(), _session(master, partitions, settings, temporary, py_files) as session:
            try:
                yield session
            except click.ClickException:
                raise
            except RpqError as error:
                raise Failure(str(error)) from error
            except Exception as error:
                if (interrupt := interrupted_by(error)) is not None:
                    raise interrupt from None
                if not type(error).__module__.startswith(("pyspark", "py4j")):
                    raise
                raise Failure(f"{plain_message(error)}\nSpark's messages are in {temporary.log}") from error
        failed = False
    except KeyboardInterrupt as interrupt:
        failed = False
        click.echo("interrupted", err=True)
        sys.exit(exit_status(interrupt))
    except SystemExit:
        failed = False
        raise
    finally:
        temporary.end(keeps_log=failed)


@contextmanager
def _session(
    master: str | None,
    partitions: int | None,
    settings: Mapping[str, str],
    temporary: OwnTemporary,
    py_files: Sequence[str],
) -> Iterator[SparkSession]:
    from rpq.spark.spark_session import open_session

    try:
        with _messages_to(temporary.log):
            session = open_session(
                master=master, partitions=partitions, settings=temporary.settings(settings), py_files=py_files
            )
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    except Exception as error:
        raise click.UsageError(f"Spark does not start: {_first_line(error)}; its messages are in {temporary.log}") from error
    interrupt_plainly()
    try:
        yield session
    finally:
        _stop(session)


def _stop(session: SparkSession) -> None:
    """End a session, and wait until its JVM has put away what it had in temporary folders."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(Exception):
        session.sparkContext.cancelAllJobs()
    session.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()  # on which it ends
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _messages_to(log: str) -> Iterator[None]:
    """A block whose child processes have a file for standard error."""
    sys.stderr.flush()
    own = os.dup(2)
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def plain_message(error: BaseException) -> str:
    """What an exception of Spark's says, and where one of ours is its cause, what that says.

    >>> plain_message(Exception("Job aborted\\nrpq.errors.InputError: column 'op': '?' is no operation\\n at java.x"))
    "column 'op': '?' is no operation"
    """
    ours = _OURS.findall(str(error))
    return ours[-1] if ours else _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_LONGEST]


class Progress:
    """A line on the terminal, kept up to date; nothing where stderr is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._width = 0

    @property
    def is_shown(self) -> bool:
        """Whether anyone sees it."""
        return self._shown

    def show(self, text: str) -> None:
        """Put a text in place of the one before."""
        if self._shown:
            click.echo(f"\r{text:<{self._width}}", err=True, nl=False)
            self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


@contextmanager
def tasks_shown(session: SparkSession, progress: Progress, doing: str) -> Iterator[None]:
    """A block during which the progress line counts the tasks that are done."""
    if not progress.is_shown:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        tracker = session.sparkContext.statusTracker()
        while not ended.wait(REFRESH_SECONDS):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                done, running, total = (
                    sum(stage.numCompletedTasks for stage in known),
                    sum(stage.numActiveTasks for stage in known),
                    sum(stage.numTasks for stage in known),
                )
                progress.show(f"{doing}: {known[0].name.split(' at ')[0]}, {done} of {total} tasks done, {running} running")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        progress.clear()


def summary_text(lines: Mapping[str, Any]) -> str:
    """The figures at the end, a line each; empty ones are left out."""
    return "\n".join(f"{name:<12}{text}" for name, text in lines.items() if text)
