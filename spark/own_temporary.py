"""A folder for all that Spark leaves among temporary files while a command runs, and signals that end it cleanly."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_LOG = "spark.log"
_JAVA = "spark.driver.extraJavaOptions"
_TOLD_BY = ("root", "py4j.clientserver")
"""The loggers with which Py4J says, with a traceback, what comes of an interrupt."""
_OF_INTERRUPTS = ("KeyboardInterrupt while sending command", "Exception occurred while shutting down connection")


class Terminated(KeyboardInterrupt):
    """`kill` has come: a wish to end like Ctrl-C."""


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """What a command ends with that was interrupted so."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def interrupted_by(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt in whose handling an error came: a connection of Py4J that was interrupted answers no more."""
    context = error.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """A block in which SIGTERM raises `Terminated`, as SIGINT raises `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one does what it always does
        raise Terminated

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end), signal.SIGINT: signal.getsignal(signal.SIGINT)}
    for name in _TOLD_BY:
        logging.getLogger(name).addFilter(_is_news)
    try:
        yield
    finally:
        for name in _TOLD_BY:
            logging.getLogger(name).removeFilter(_is_news)
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt_plainly() -> None:
    """Let SIGINT raise `KeyboardInterrupt` and nothing else, in a session that has begun.

    PySpark's own handler asks the JVM to cancel jobs first, on a connection that may be waiting for an answer.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_news(record: logging.LogRecord) -> bool:
    """Not where Py4J, which waits for the JVM, tells with a traceback that it was interrupted."""
    return not record.getMessage().startswith(_OF_INTERRUPTS)


class OwnTemporary:
    """A folder that is there for the time of a command; of one that fails the log stays."""

    def __init__(self, log: str | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rpq-spark-"))
        self._has_own_log = log is None
        self.log = str(self.folder / _LOG) if log is None else log

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Settings with which a JVM has its files here; those that were given stay."""
        java = f"-Djava.io.tmpdir={self.folder} -XX:-UsePerfData {given.get(_JAVA, '')}".strip()
        return {"spark.local.dir": str(self.folder), **given, _JAVA: java}

    def end(self, *, keeps_log: bool) -> None:
        """Remove the folder, or all in it but the log."""
        if not (keeps_log and self._has_own_log and os.path.exists(self.log)):
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for entry in self.folder.iterdir():
            if entry.name != _LOG:
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
