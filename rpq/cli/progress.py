"""What a person sees on stderr while a run works: a line of figures, and why nothing happens yet."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rpq.engine import Engine

REFRESH_SECONDS = 0.5
"""At most this often the engine is asked for its figures."""


@contextmanager
def notice_after(seconds: float, text: Callable[[], str], *, shown: bool) -> Iterator[None]:
    """A block that, if it takes longer than `seconds` and that may be shown, says on stderr what it is doing by then."""
    if not shown:
        yield
        return
    timer = threading.Timer(seconds, lambda: click.echo(text(), err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def compiling_notice() -> str:
    """That kernels are being compiled, why, and where they will be found the next time."""
    from rpq.compiled.kernel_cache import why_compiled

    why = why_compiled()
    return "loading kernels …" if why is None else f"compiling kernels ({why}) …"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How far the input has been read, in tuples and in bytes; `bytes_total` None where it has no known end."""

    tuples: int
    bytes_read: int
    bytes_total: int | None


class ProgressLine:
    """A line on the terminal: edges/s, edges in the window, index size, answers; none where stderr is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._live = None
        self._next = 0.0
        self._last = (time.perf_counter(), 0)
        if shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            self._text = Text
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()

    def update(self, engine: Engine, reading: Callable[[], Reading]) -> None:
        """Show where the run stands, unless that was shown just now."""
        now = time.perf_counter()
        if self._live is None or now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        figures, read = engine.statistics(), reading()
        before, tuples = self._last
        self._last = (now, read.tuples)
        done = f"{100 * read.bytes_read / read.bytes_total:3.0f} %  " if read.bytes_total else ""
        text = (
            f"{done}{read.tuples:,} tuples  {(read.tuples - tuples) / max(now - before, 1e-9):,.0f} edges/s  "
            f"window {figures.edges_live:,} edges  index {readable_bytes(figures.index_bytes)}  "
            f"{figures.answers_live:,} answers"
        )
        self._live.update(self._text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Take the line away: what follows on the terminal begins where it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def readable_bytes(size: float) -> str:
    """A size for people.

    >>> readable_bytes(512), readable_bytes(3 * 1024**2)
    ('512 B', '3.0 MiB')
    """
    if size < 1024:
        return f"{size:.0f} B"
    power = min(int(math.log2(size)) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"
