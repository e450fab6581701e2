"""The inputs of a server: files, played at a chosen speed, and topics of Kafka, each read in a thread of its own.

Files are played at a number of seconds of the stream per second, or as fast as the engine takes them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from rpq.cli.inputs import FileSlice, tuple_values
from rpq.errors import InputError, RpqError
from rpq.kafka.client import ClientSettings
from rpq.kafka.partition_merge import MergedTuples, TopicPartition
from rpq.kafka.topic_reader import TopicInput
from rpq.kafka.topic_source import TopicPosition, TopicSource
from rpq.readers import Reader
from rpq.readers.open_source import OpenSource
from rpq.run.loop import MAX_MESSAGES, Rejection, SourceSlice, push_slice
from rpq.serve import models
from rpq.serve.models import FieldsError, read_model
from rpq.serve.requests import NotApplied
from rpq.serve.service import Service, TuplePush
from rpq.stream.durations import NANOSECONDS
from rpq.stream.nodes.node_table import NO_TIME

LONGEST_WAIT = 0.05
"""Maximum seconds between two checks whether tuples are due."""

State = Literal["playing", "paused", "ended"]


class Playback:
    """The clock that determines for the reading thread how many tuples are due; other threads change its state and speed.

    `speed` is in seconds of the stream per second, or in its units if `time_unit` is None; None means full speed.

    >>> playback = Playback(speed=None, time_unit="s")
    >>> playback.change({"speed": 60})
    >>> playback.model()
    Playback(state='playing', speed=60.0, time=None)
    """

    def __init__(self, *, speed: float | None, time_unit: str | None) -> None:
        self.state: State = "playing"
        self.speed = speed
        self._units = 1.0 if time_unit is None else NANOSECONDS["s"] / NANOSECONDS[time_unit]
        self._changed = threading.Condition()
        self._is_stopped = False
        self._time: float | None = None  # of the stream, at the moment `_since`
        self._since = 0.0

    def model(self) -> models.Playback:
        """Return the state for a response; its `time` is the stream time that was reached."""
        with self._changed:
            now = self._now()
            return models.Playback(state=self.state, speed=self.speed, time=None if now is None else math.floor(now))

    def change(self, fields: Any) -> None:
        """Change state and speed as a request describes.  Raises `FieldsError`."""
        update = read_model(fields, models.ChangedPlayback)
        if not fields:
            raise FieldsError('expected "state" or "speed", or both')
        with self._changed:
            self._time, self._since = self._now(), time.monotonic()
            if update.state is not UNSET and self.state != "ended":
                self.state = update.state
            if update.speed is not UNSET:
                self.speed = update.speed
            self._changed.notify_all()

    def _now(self) -> float | None:
        """Return the stream time up to which tuples are due; at full speed, that of the last tuples."""
        if self._time is None or self.speed is None or self.state != "playing":
            return self._time
        return self._time + (time.monotonic() - self._since) * self.speed * self._units

    def end(self) -> None:
        """Set the state to ended."""
        with self._changed:
            self._time, self._since = self._now(), time.monotonic()
            self.state = "ended"

    def stop(self) -> None:
        """Wake up the waiting thread for good."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def due(self, times: np.ndarray) -> int:
        """Wait until the first of some tuples is due. Return the number of due tuples; 0 after `stop`.

        A tuple is due at the largest of the times up to its own.
        """
        highest = np.maximum.accumulate(times)
        with self._changed:
            while not self._is_stopped:
                if self.state == "paused":
                    self._changed.wait()
                    continue
                if self.speed is None:
                    self._time, self._since = float(highest[-1]), time.monotonic()
                    return len(times)
                if self._time is None:
                    self._time, self._since = float(highest[0]), time.monotonic()
                now = self._now()
                assert now is not None
                count = int(np.searchsorted(highest, now, side="right"))
                if count:
                    return count
                left = (float(highest[0]) - now) / (self.speed * self._units)
                self._changed.wait(min(LONGEST_WAIT, max(left, 0.001)))
            return 0


LOG = logging.getLogger("rpq.serve")

PART_ROWS = 4096
"""The number of tuples that are submitted together."""


Progress = Callable[[int], Any] | None
"""A function from a number of tuples of a part to the progress of the input after them."""


class _ServerStopping(Exception):
    """The server is stopping."""


class Feed(ABC):
    """A thread that reads an input and submits its tuples.

    `rejected` counts the tuples that were skipped, and `error` is the reason why reading ended, if it is one. The first
    warnings about tuples are logged.
    """

    end_message: str

    def __init__(self, service: Service, *, name: str, on_error: str) -> None:
        self._service = service
        self._skips = on_error == "skip"
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.has_ended = threading.Event()
        self.rejected = 0
        self.error: str | None = None
        self._warnings = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop submitting tuples."""
        self._is_stopped.set()
        self._thread.join(10)

    @abstractmethod
    def _post_all(self) -> None:
        """Read the input and submit its tuples, to its end or until the feed is stopped."""

    @abstractmethod
    def _close(self) -> None:
        """Close all open files, after the last tuple or an error."""

    def _run(self) -> None:
        try:
            self._post_all()
        except _ServerStopping:
            pass
        except (RpqError, OSError) as error:
            self.error = str(error)
            LOG.error("%s: %s", self.end_message, error)
        except BaseException as error:  # a thread must not end silently
            self.error = repr(error)
            LOG.exception("%s", self.end_message)
        finally:
            self._close()
            self.has_ended.set()

    def _check(self) -> None:
        if self._is_stopped.is_set():
            raise _ServerStopping

    def _submit(self, columns: pa.RecordBatch, progress: Progress) -> Future[Any]:
        """Submit tuples; the returned future is done when they are applied."""
        waiter: Future[Any] = Future()
        self._service.submit(TuplePush(columns, waiter, progress, waits_for_storage=True))
        return waiter

    def _result(self, submitted: Future[Any]) -> Any:
        """Return the result of submitted tuples when they are applied."""
        result = submitted.result()
        for warning in result.warnings[: max(0, MAX_MESSAGES - self._warnings)]:
            LOG.warning("%s", warning)
        self._warnings += len(result.warnings)
        return result

    def _push_slice(self, part: SourceSlice, progress: Progress) -> None:
        """Push a slice and wait until it is applied.  Raises `InputError` at rejected input, or leaves it out."""

        def push(rest: pa.RecordBatch) -> Any:
            assert part.columns is not None
            start = part.columns.num_rows - rest.num_rows
            try:
                behind = None if progress is None else partial(_progress_behind, progress, start)
                return self._result(self._submit(rest, behind))
            except NotApplied as error:
                raise error.cause from error

        _, error = push_slice(part, push, stops=not self._skips, divides=False, on_rejected=self._reject)
        if error is not None:
            raise error

    def _reject(self, bad: Rejection, tuples: int) -> None:
        self.rejected += tuples
        LOG.warning("rejected: %s: %s", bad.place, bad.reason)


def _progress_behind(progress: Callable[[int], Any], start: int, rows: int) -> Any:
    return progress(start + rows)


class FileFeed(Feed):
    """A feed of files, whose tuples are submitted when they are due by a playback.

    `paths` are those of files and sources that can be read again: if the state that the server resumes contains some of
    their tuples, reading continues after these, unless they are others now.  `sources` are closed at the end.
    """

    end_message = "reading the input has ended"

    def __init__(
        self,
        service: Service,
        reader: Reader,
        playback: Playback,
        *,
        on_error: str = "stop",
        paths: Sequence[str] | None = None,
        sources: Sequence[OpenSource] = (),
    ) -> None:
        super().__init__(service, name="rpq-input", on_error=on_error)
        self._reader = reader
        self._playback = playback
        self._skipped = 0
        self._last: list[Any] | None = None  # the last tuple that is skipped
        self._time: int | None = None  # the largest timestamp that was read, but for those too far ahead
        self._places = None if paths is None else [*paths]
        self._sources = sources
        progress = service.progress
        if self._places is not None and isinstance(progress, dict) and progress.get("files") == self._places:
            self._skipped, self._last = int(progress["tuples"]), progress["last"]

    def stop(self) -> None:
        """Stop submitting tuples."""
        self._is_stopped.set()
        self._playback.stop()
        self._close_sources()  # whose `read` may be waiting
        super().stop()

    def _close(self) -> None:
        self._close_sources()
        self._playback.end()

    def _close_sources(self) -> None:
        for source in self._sources:
            source.close()

    def _post_all(self) -> None:
        submitted: Future[Any] | None = None  # while the engine applies this part, the next one is read
        done = self._skipped
        for columns in self._parts():
            start = 0
            times = self._due_times(columns.column("timestamp").to_numpy())
            while start < columns.num_rows:
                count = self._playback.due(times[start:])
                self._check()
                part = columns.slice(start, count)
                if self._skips:
                    self._push_slice(FileSlice(columns=part), self._progress(done, part))
                else:
                    if submitted is not None:
                        self._result(submitted)  # nothing behind a rejected tuple may be applied
                    submitted = self._submit(part, self._progress(done, part))
                start += count
                done += count
        if submitted is not None:
            self._result(submitted)
        LOG.info("the input has ended: %s tuples", f"{done:,}")

    def _due_times(self, times: np.ndarray) -> np.ndarray:
        """Return the times at which tuples are due. A tuple too far ahead, which will be rejected, is due with the one
        before it."""
        limit = self._service.ahead_limit
        if (times == NO_TIME).any():  # records of nodes, which are due with what follows or precedes them
            timed = times[times != NO_TIME]
            times = np.where(times == NO_TIME, timed[0] if len(timed) else self._time or 0, times)
        if limit is None:
            return times
        known = [time for time in (limit.time, self._time) if time is not None]
        limit = limit._replace(time=max(known, default=None))
        times = times.copy()
        while (found := limit.first_ahead(times)) is not None:
            times[found[0]] = found[1]
        self._time = max([*known, int(times.max())])
        return times

    def _progress(self, before: int, part: pa.RecordBatch) -> Progress:
        """Return the function that gives the progress after tuples of a part; None if reading cannot be resumed."""
        places = self._places
        if places is None:
            return None
        return lambda rows: {"files": places, "tuples": before + rows, "last": tuple_values(part, rows - 1)}

    def _parts(self) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of the inputs in parts, without those that the state contains already.

        Raises `InputError` if these are not at the beginning of the inputs.
        """
        left = self._skipped
        warned = 0
        for batch in self._reader:
            columns = batch.columns
            for warning in self._reader.warnings[warned:]:
                LOG.warning("%s", warning)
                warned += 1
            if left:
                passed = min(left, columns.num_rows)
                left -= passed
                if not left and (found := tuple_values(columns, passed - 1)) != self._last:
                    raise self._another_input(f"the last one was {self._last}, and tuple {self._skipped:,} is {found}")
                columns = columns.slice(passed)
            for start in range(0, columns.num_rows, PART_ROWS):
                yield columns.slice(start, PART_ROWS)
        if left:
            raise self._another_input(f"it has only {self._skipped - left:,}")

    def _another_input(self, why: str) -> InputError:
        return InputError(
            f"the checkpoint contains {self._skipped:,} tuples of this input, but {why}: it is another input, which is read "
            "from its beginning if it has another name"
        )


class TopicFeed(Feed):
    """A feed of topics.

    Raises `KafkaError` and `InputError` if it starts with topics that cannot be read.
    """

    end_message = "reading the topics has ended"

    def __init__(self, service: Service, topics: TopicInput, clients: ClientSettings) -> None:
        super().__init__(service, name="rpq-topics", on_error=topics.on_error)
        progress = service.progress if isinstance(service.progress, dict) else {}
        entries = [one for one in progress.get("topics", []) if one[0] in topics.topics]
        self._start = TopicPosition(
            run=service.run,
            ends={TopicPartition(topic, part): end for topic, part, end, _ in entries},
            fronts={TopicPartition(topic, part): front for topic, part, _, front in entries},
            layouts=progress.get("layouts", {}),
            inside={TopicPartition(topic, part): count for topic, part, count in progress.get("inside", [])},
        )
        self._source = TopicSource(topics, clients, check=self._check)
        if not entries:
            self._source.begin(self._start)

    def _close(self) -> None:
        self._source.close()

    def _post_all(self) -> None:
        if self._start.ends:
            self._source.begin(self._start)
        for part in self._source.slices(lambda: PART_ROWS):
            if part is not None:
                progress = partial(_progress_within, self._source.position(), part, stops=not self._skips)
                self._push_slice(part, progress)
                self._source.advance(part, None)
            self._check()


def _progress_within(before: TopicPosition, part: MergedTuples, rows: int, *, stops: bool) -> Any:
    """Return the progress after `rows` rows of merged tuples that follow a position; it `stops` at their bad messages."""
    is_whole = rows == len(part.lines)
    moved = part.ends if is_whole else part.ends_before(rows)
    ends = {**before.ends, **(part.ends_before_bad(moved) if stops else moved)}
    fronts = dict(before.fronts)
    for place, front in part.fronts.items() if is_whole else ():
        fronts[place] = max(front, fronts[place])
    inside = {place: count for place, count in before.inside.items() if ends[place] == before.ends[place]}
    if not is_whole:
        inside |= part.inside_before(rows, part.ends_before(rows), before.progress)
    return {
        "topics": [[*place, end, fronts[place]] for place, end in ends.items()],
        "layouts": before.layouts,
        "inside": [[*place, count] for place, count in inside.items()],
    }
