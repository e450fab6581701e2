"""Files, or standard input, as a source of a server's tuples."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.cli.inputs import RunInput, are_regular
from rpq.errors import InputError, RpqError
from rpq.readers import WhereError
from rpq.serve.engine_jobs import NotApplied, Push
from rpq.serve.playback import Playback
from rpq.serve.service import Service

LOG = logging.getLogger("rpq.serve")

PART_ROWS = 4096
"""Tuples that are posted at once."""

AHEAD = 1
"""Parts that wait for the engine beside the one that it works on, at most."""


Progress = Callable[[int], Any] | None
"""How far an input has come behind so many tuples of a part."""


def push_without_bad(service: Service, columns: pa.RecordBatch, progress: Progress) -> int:
    """Let tuples be pushed, without those that the engine does not take; how many these are."""
    rejected = start = 0
    while start < columns.num_rows:
        waiter: Future[Any] = Future()
        of_rest = None if progress is None else partial(_behind, progress, start)
        service.submit(Push(columns.slice(start), waiter, of_rest, waits_for_storage=True))
        try:
            waiter.result()
            break
        except NotApplied as error:
            if not isinstance(error.cause, InputError) or error.cause.row is None:
                raise
            rejected += 1
            start += error.applied + 1
            LOG.warning("rejected: %s", error)
    return rejected


def _behind(progress: Callable[[int], Any], start: int, rows: int) -> Any:
    return progress(start + rows)


class FileFeed:
    """Reads inputs in a thread of its own, and posts what they hold.

    Where the inputs are files, and the state that the server goes on from had come so far, they are gone on with behind the
    tuples that it has.
    """

    def __init__(self, service: Service, opened: RunInput, playback: Playback, *, on_error: str) -> None:
        self._service = service
        self._opened = opened
        self._playback = playback
        self._on_error = on_error
        self._is_stopped = threading.Event()
        self._skipped = 0
        self._time: int | None = None  # the largest timestamp that was read, but for those too far ahead
        self.rejected = 0
        self.error: str | None = None
        self.has_ended = threading.Event()
        inputs = opened.settings.inputs
        self._places = [os.path.abspath(path) for path in inputs] if are_regular(inputs) else None
        progress = service.progress
        if self._places is not None and isinstance(progress, dict) and progress.get("files") == self._places:
            self._skipped = int(progress["tuples"])
        self._thread = threading.Thread(target=self._read, name="rpq-input", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Post nothing more."""
        self._is_stopped.set()
        self._playback.stop()
        self._thread.join(5)

    def _read(self) -> None:
        try:
            self._post_all()
        except (InputError, WhereError, OSError) as error:
            self.error = str(error)
            LOG.error("the input ended: %s", error)
        except RpqError as error:
            self.error = str(error)
            LOG.error("the input is not taken any more: %s", error)
        except BaseException as error:  # nothing ends a thread without a word
            self.error = repr(error)
            LOG.exception("the input ended")
        finally:
            self._playback.end()
            self.has_ended.set()

    def _post_all(self) -> None:
        waiting: list[Future[Any]] = []
        done = self._skipped
        for columns in self._parts():
            start = 0
            times = self._played(columns.column("timestamp").to_numpy())
            while start < columns.num_rows:
                count = self._playback.due(times[start:])
                if not count or self._is_stopped.is_set():
                    return
                part = columns.slice(start, count)
                if self._on_error == "skip":
                    self.rejected += push_without_bad(self._service, part, self._progress(done))
                else:
                    waiter: Future[Any] = Future()
                    self._service.submit(Push(part, waiter, self._progress(done), waits_for_storage=True))
                    waiting.append(waiter)
                    while len(waiting) > AHEAD:
                        waiting.pop(0).result()
                start += count
                done += count
        for waiter in waiting:
            waiter.result()
        LOG.info("the input has ended: %s tuples", f"{done:,}")

    def _played(self, times: np.ndarray) -> np.ndarray:
        """When tuples are due: one that will be refused, as too far ahead of the stream's time, at the time before it."""
        limit = self._service.engine._ahead_limit()
        if limit is None:
            return times
        known = [time for time in (limit.now, self._time) if time is not None]
        limit = limit._replace(now=max(known, default=None))
        times = times.copy()
        while (found := limit.first_ahead(times)) is not None:
            times[found[0]] = found[1]
        self._time = max([*known, int(times.max())])
        return times

    def _progress(self, before: int) -> Progress:
        """How far the input is behind so many tuples of a part; nothing where it cannot be gone on with."""
        places = self._places
        return None if places is None else lambda rows: {"files": places, "tuples": before + rows}

    def _parts(self) -> Iterator[pa.RecordBatch]:
        """What the inputs hold, in parts, behind what is there already."""
        left = self._skipped
        warned = 0
        for batch in self._opened.reader:
            columns = batch.columns
            for warning in self._opened.reader.warnings[warned:]:
                LOG.warning("%s", warning)
                warned += 1
            if left:
                passed = min(left, columns.num_rows)
                left -= passed
                columns = columns.slice(passed)
            for start in range(0, columns.num_rows, PART_ROWS):
                yield columns.slice(start, PART_ROWS)
