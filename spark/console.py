"""The terminal of a command on Spark: a line of progress, plain error messages, signals, and a folder for temporary files.

Messages of Java are written to a log, in the folder that contains all temporary files of Spark while a command runs.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from rpq.errors import RpqError
from rpq.spark.errors import PipelineError, plain_message, start_problem
from rpq.spark.jvm.session import EXTRA_JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESH_SECONDS = 0.5


class Failure(click.ClickException):
    """An error that ends the command with exit status 1."""

    exit_code = 1


@contextmanager
def command_session(
    master: str | None,
    partitions: int | None,
    settings: Mapping[str, str],
    log: str | None,
    py_files: Sequence[str] = (),
    archives: Sequence[str] = (),
    *,
    end_seconds: float = 30.0,
) -> Iterator[SparkSession]:
    """Open a session, and its JVM, for a block; messages of the JVM and the workers go to the file `log`.

    Missing Java or PySpark is a usage error; an error of this package or of Spark inside the block becomes a `Failure`.
    Without `log`, messages go to a temporary file, which stays if the block fails.  SIGINT and SIGTERM end the block, and
    the process with the status of the signal.  The JVM may take `end_seconds` to end.
    """
    temporary = TemporaryFolder(log)
    failed = True
    try:
        with end_on_signals(), _session(
            master, partitions, settings, temporary, py_files, archives, end_seconds
        ) as session:
            try:
                yield session
            except click.ClickException:
                raise
            except RpqError as error:
                raise Failure(str(error)) from error
            except Exception as error:
                if (interrupt := find_interrupt(error)) is not None:
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
        temporary.close(keeps_log=failed)


@contextmanager
def _session(
    master: str | None,
    partitions: int | None,
    settings: Mapping[str, str],
    temporary: TemporaryFolder,
    py_files: Sequence[str],
    archives: Sequence[str],
    end_seconds: float,
) -> Iterator[SparkSession]:
    from rpq.spark.jvm.session import open_session

    try:
        with _messages_to(temporary.log):
            session = open_session(
                master=master,
                partitions=partitions,
                settings=temporary.settings(settings),
                py_files=py_files,
                archives=archives,
            )
    except PipelineError as error:
        temporary.close(keeps_log=False)  # nothing has started
        raise click.UsageError(str(error)) from error
    except Exception as error:
        problem = start_problem(error, Path(temporary.log).read_text(errors="replace"))
        raise click.UsageError(f"Spark does not start: {problem}; its messages are in {temporary.log}") from error
    restore_interrupts()
    try:
        yield session
    finally:
        _stop(session, end_seconds)


def _stop(session: SparkSession, seconds: float) -> None:
    """End a session, and wait until its JVM has removed its temporary folders."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(Exception):
        session.sparkContext.cancelAllJobs()
    _end_accumulators(session)
    session.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()  # the JVM ends with its input
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    SparkContext._gateway = SparkContext._jvm = None


def _end_accumulators(session: SparkSession) -> None:
    """End the server of PySpark's accumulators in the background: it looks only once a second whether it shall end."""
    context: Any = session.sparkContext
    server = getattr(context, "_accumulatorServer", None)
    if server is None or isinstance(server.server_address, str):
        return  # the end of a server with a socket file removes the file
    context._accumulatorServer = None
    server.handle_error = lambda request, address: None  # the JVM may end first
    threading.Thread(target=server.shutdown, daemon=True).start()


@contextmanager
def _messages_to(log: str) -> Iterator[None]:
    """Redirect the output of child processes that start inside a block to a file: a JVM writes errors to either stream."""
    sys.stdout.flush()
    sys.stderr.flush()
    own = {number: os.dup(number) for number in (1, 2)}
    try:
        with open(log, "ab") as file:
            for number in own:
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in own.items():
            os.dup2(copy, number)
            os.close(copy)


class ProgressLine:
    """A line of progress on the terminal; there is no output if stderr is not a terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._is_visible = shown and sys.stderr.isatty()
        self._width = 0

    @property
    def is_shown(self) -> bool:
        """True if the line is visible."""
        return self._is_visible

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if self._is_visible:
            click.echo(f"\r{text:<{self._width}}", err=True, nl=False)
            self._width = len(text)

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


@contextmanager
def show_tasks(session: SparkSession, progress: ProgressLine, doing: str) -> Iterator[None]:
    """Show what the jobs of a block do, in words, and how many of their tasks are finished, on the progress line.

    `doing` describes jobs for which nothing more specific does (`describe_jobs`).
    """
    from rpq.spark.jvm.session import describe_jobs

    if not progress.is_shown:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        store = session.sparkContext._jsc.sc().statusStore()
        while not ended.wait(REFRESH_SECONDS):
            with suppress(Exception):  # the session may end meanwhile
                stages = store.activeStages()
                if shown := tasks_text([stages.apply(number) for number in range(stages.size())]):
                    progress.show(shown)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        with describe_jobs(session, doing):
            yield
    finally:
        ended.set()
        thread.join()
        progress.clear()


def tasks_text(stages: Sequence[Any]) -> str:
    """Return what active stages, as Spark's status store describes them, do; empty if there are none."""
    if not stages:
        return ""
    description = stages[0].description()
    doing = str(description.get()) if description.isDefined() else "working"
    done, running, total = (
        sum(int(getattr(stage, name)()) for stage in stages) for name in ("numCompleteTasks", "numActiveTasks", "numTasks")
    )
    return f"{doing}: {done} of {total} tasks done, {running} running"


def summary_text(lines: Mapping[str, Any]) -> str:
    """Return a summary of figures, one per line, without empty figures."""
    return "\n".join(f"{name:<12}{text}" for name, text in lines.items() if text)


_LOG = "spark.log"

_PY4J_LOGGERS = ("root", "py4j.clientserver")
"""The loggers to which Py4J writes tracebacks after an interrupt."""
_OF_INTERRUPTS = ("KeyboardInterrupt while sending command", "Exception occurred while shutting down connection")


class Terminated(KeyboardInterrupt):
    """The interrupt by SIGTERM, which ends a command like Ctrl-C."""


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """Return the exit status of a command that ended with an interrupt."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def find_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt during whose handling an error was raised, or None: interrupted connections of Py4J fail."""
    context = error.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context


@contextmanager
def end_on_signals() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM during a block, as SIGINT raises `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second signal has its default effect
        raise Terminated

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end), signal.SIGINT: signal.getsignal(signal.SIGINT)}
    for name in _PY4J_LOGGERS:
        logging.getLogger(name).addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        for name in _PY4J_LOGGERS:
            logging.getLogger(name).removeFilter(_is_no_interrupt)
        for number, handler in before.items():
            signal.signal(number, handler)


def restore_interrupts() -> None:
    """Restore the handler of SIGINT that only raises `KeyboardInterrupt`, after a session has begun.

    PySpark's own handler first asks the JVM to cancel jobs, on a connection that may be waiting for an answer.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return False for the tracebacks that Py4J logs when an interrupt ends its wait for the JVM."""
    return not record.getMessage().startswith(_OF_INTERRUPTS)


_PREFIX = "rpq-spark-"
_OWNER = "driver"
"""The file with the machine and the id of the process whose folder it is."""
_OLD_SECONDS = 600.0
"""The age from which the folder of a process that has ended is removed: its JVM may need a while to end."""


class TemporaryFolder:
    """A temporary folder that exists while a command runs; the log stays if the command fails.

    A new folder removes those of commands that were killed.
    """

    def __init__(self, log: str | None) -> None:
        remove_abandoned_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.folder / _OWNER).write_text(f"{socket.gethostname()} {os.getpid()}")
        self._has_own_log = log is None
        self.log = str(self.folder / _LOG) if log is None else log

    def settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return settings with which a JVM keeps its temporary files in the folder, except as `overrides` specify."""
        java = f"-Djava.io.tmpdir={self.folder} -XX:-UsePerfData {overrides.get(EXTRA_JAVA_OPTIONS, '')}".strip()
        return {"spark.local.dir": str(self.folder), **overrides, EXTRA_JAVA_OPTIONS: java}

    def close(self, *, keeps_log: bool) -> None:
        """Remove the folder, or everything in it except the log."""
        if not (keeps_log and self._has_own_log and os.path.exists(self.log)):
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for entry in self.folder.iterdir():
            if entry.name != _LOG:
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


def remove_abandoned_folders() -> None:
    """Remove old temporary folders of this user's commands on this machine whose processes ended without removing them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError):
            machine, process = (folder / _OWNER).read_text().split()
            status = folder.stat()
            is_own = machine == socket.gethostname() and (not hasattr(os, "getuid") or status.st_uid == os.getuid())
            if is_own and time.time() - status.st_mtime > _OLD_SECONDS and not _is_running(int(process)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether a process is running; True if this cannot be determined."""
    if os.name != "posix":
        return True  # there, a signal of number 0 would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
