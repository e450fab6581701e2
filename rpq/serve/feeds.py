"""The inputs of a server: files, played at a chosen speed, and topics of Kafka, each read in a thread of its own.

Files are played at a number of seconds of the stream per second, or as fast as the engine takes them.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal

import click
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from rpq.cli.inputs import RunInput, are_regular, topic_input_of
from rpq.cli.request import RunSettings
from rpq.errors import InputError, RpqError
from rpq.kafka.client import ClientSettings, KafkaError, KafkaUsageError, client, read_settings
from rpq.kafka.message_reader import MessageReader
from rpq.kafka.partition_merge import LEAST, MergedTuples, PartitionMerge, Place
from rpq.kafka.topic_reader import TopicInput, TopicReader
from rpq.readers import WhereError
from rpq.serve import models
from rpq.serve.engine_thread import NotApplied, Push
from rpq.serve.models import FieldsError, to_model
from rpq.serve.service import Service
from rpq.stream.durations import NANOSECONDS

LONGEST_WAIT = 0.05
"""Maximum seconds between two checks whether tuples are due."""

State = Literal["playing", "paused", "ended"]


class Playback:
    """The clock that tells the reading thread how many tuples are due; other threads change its state and speed.

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
        """Return the state for a response; `time` is how far the stream was played."""
        with self._changed:
            now = self._now()
            return models.Playback(state=self.state, speed=self.speed, time=None if now is None else math.floor(now))

    def change(self, fields: Any) -> None:
        """Change state and speed as a request asks.  Raises `FieldsError`."""
        asked = to_model(fields, models.ChangedPlayback)
        if not fields:
            raise FieldsError('expected "state" or "speed", or both')
        with self._changed:
            self._time, self._since = self._now(), time.monotonic()
            if asked.state is not UNSET and self.state != "ended":
                self.state = asked.state
            if asked.speed is not UNSET:
                self.speed = asked.speed
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
        """Wait until the first of some tuples is due, and return how many are; 0 after `stop`.

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
"""Tuples that are posted at once."""

AHEAD = 1
"""Maximum number of parts that wait for the engine besides the one that it processes."""


Progress = Callable[[int], Any] | None
"""A function from a number of tuples of a part to the progress of the input after them."""


def push_without_bad(service: Service, columns: pa.RecordBatch, progress: Progress) -> int:
    """Push tuples without those that the engine rejects; return the number of rejected ones."""
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
    """A thread that reads files and submits their tuples.

    If the inputs are regular files, and the state that the server resumes contains some of their tuples, reading continues
    after these.
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
        except BaseException as error:  # a thread must not end silently
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
        """Return when tuples are due; one too far ahead of the stream time, which will be refused, at the time before it."""
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
        """Return the function that gives the progress after tuples of a part; None if reading cannot be resumed."""
        places = self._places
        return None if places is None else lambda rows: {"files": places, "tuples": before + rows}

    def _parts(self) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of the inputs in parts, without those that the state contains already."""
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


FETCH = 20_000
MOST_ROUND = 4096
"""Tuples that are posted at once."""

QUIET_SECONDS = 0.1

PARTITIONS_SECONDS = 30.0
"""Interval at which new partitions are looked up."""


class _Stopped(Exception):
    """The server is stopping."""


def topic_feed(service: Service, settings: RunSettings) -> TopicFeed:
    """Return the feed of the topics that the options name.  Raises errors of click if they cannot be read."""
    try:
        client()
    except RpqError as error:
        raise click.ClickException(str(error)) from error
    try:
        given = read_settings(settings.kafka_config) if settings.kafka_config is not None else {}
        source = topic_input_of(settings)
        clients = ClientSettings(source.brokers, given)
    except (WhereError, RpqError) as error:
        raise click.UsageError(str(error)) from error
    try:
        return TopicFeed(service, source, clients)
    except KafkaUsageError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:
        raise click.ClickException(str(error)) from error


class TopicFeed:
    """A thread that reads topics and submits their tuples.

    Raises `KafkaError` and `InputError` if it starts with topics that cannot be read.
    """

    def __init__(self, service: Service, source: TopicInput, clients: ClientSettings) -> None:
        self._service = service
        self._source = source
        self._clients = clients
        self._is_stopped = threading.Event()
        self.rejected = 0
        self.error: str | None = None
        progress = service.progress if isinstance(service.progress, dict) else {}
        known = [one for one in progress.get("topics", []) if one[0] in source.topics]
        self._ends = {Place(topic, part): end for topic, part, end, _ in known}
        self._fronts = {Place(topic, part): front for topic, part, _, front in known}
        self._layouts: dict[str, Any] = progress.get("layouts", {})
        self._reader = None if self._ends else self._opened()
        self._thread = threading.Thread(target=self._read, name="rpq-topics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Post nothing more."""
        self._is_stopped.set()
        self._thread.join(10)

    def _check(self) -> None:
        if self._is_stopped.is_set():
            raise _Stopped

    def _read(self) -> None:
        try:
            if self._reader is None:
                self._reader = self._opened()
            self._post_all(self._reader)
        except _Stopped:
            pass
        except (KafkaError, InputError, WhereError, RpqError, OSError) as error:
            self.error = str(error)
            LOG.error("the topics are read no more: %s", error)
        except BaseException as error:  # a thread must not end silently
            self.error = repr(error)
            LOG.exception("the topics are read no more")
        finally:
            if self._reader is not None:
                self._reader.close()

    def _opened(self) -> TopicReader:
        source = self._source
        readers = {
            topic: MessageReader(
                source.columns,
                stream=stream,
                where=source.where,
                only_json=source.only_json,
                layout=self._layouts.get(topic),
            )
            for topic, stream in source.topics.items()
        }
        group = self._clients.named("group.id") or f"rpq-{self._service.run}"
        return TopicReader(self._clients, readers, group=group, check=self._check, waits_forever=bool(self._ends))

    def _post_all(self, reader: TopicReader) -> None:
        starts = reader.places(self._ends)
        self._ends = dict(starts)
        self._fronts = {place: self._fronts.get(place, LEAST) for place in starts}
        merge = PartitionMerge(
            {place: (offset, self._fronts[place]) for place, offset in starts.items()},
            max_delay=self._source.max_delay,
            report=lambda what, place: LOG.info("partition %s is %s", place, what),
            is_at_end=reader.is_at_end,
        )
        reader.begin(starts)
        LOG.info("reading %s", ", ".join(self._source.topics))
        next_look = time.monotonic() + PARTITIONS_SECONDS
        while True:
            self._check()
            if time.monotonic() > next_look:
                self._look_for_partitions(reader, merge)
                next_look = time.monotonic() + PARTITIONS_SECONDS
            reader.fetch(merge, FETCH, QUIET_SECONDS if not merge.waits else 0.01)
            while (released := merge.ready(MOST_ROUND, stop_at_bad=self._source.on_error == "stop")) is not None:
                self._take(reader, released)
                self._check()

    def _look_for_partitions(self, reader: TopicReader, merge: PartitionMerge) -> None:
        for place in reader.new_partitions(merge.places):
            LOG.info("partition %s is new", place)
            merge.join(place)
            self._ends[place], self._fronts[place] = 0, LEAST
            reader.join(place)

    def _take(self, reader: TopicReader, released: MergedTuples) -> None:
        """Submit merged tuples and wait until they are applied; bad messages raise an error or are skipped."""
        if released.columns is not None:
            ends, fronts, layouts = dict(self._ends), dict(self._fronts), reader.layouts

            def progress(rows: int) -> Any:
                is_whole = rows == len(released.lines)
                behind = {**ends, **(released.ends if is_whole else released.ends_before(rows))}
                highest = dict(fronts)
                for place, front in released.fronts.items() if is_whole else ():
                    highest[place] = max(front, highest[place])
                return {"topics": [[*place, end, highest[place]] for place, end in behind.items()], "layouts": layouts}

            if self._source.on_error == "skip":
                self.rejected += push_without_bad(self._service, released.columns, progress)
            else:
                waiter: Future[Any] = Future()
                self._service.submit(Push(released.columns, waiter, progress, waits_for_storage=True))
                waiter.result()
        for bad in released.bad:
            if self._source.on_error == "stop":
                raise InputError(f"{bad.place}: {bad.reason}")
            self.rejected += 1
            LOG.warning("rejected: %s: %s", bad.place, bad.reason)
        self._ends |= released.ends
        self._fronts |= {place: max(front, self._fronts[place]) for place, front in released.fronts.items()}
