"""Topics of Kafka as a source of a server's tuples.

How far each partition has come is saved with the tuples, in the journal and the checkpoint: killed at any moment, the server
goes on behind what it has.  Without a checkpoint it begins at the beginning of the topics each time.

A server that begins with topics that cannot be read does not start; one that goes on waits for the broker, and serves what
it has.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import Any

import click

from rpq.cli.request import RunSettings
from rpq.cli.topic_execution import topic_input_of
from rpq.errors import InputError, RpqError
from rpq.kafka.client import ClientSettings, KafkaError, KafkaUsageError, client, read_settings
from rpq.kafka.message_reader import MessageReader
from rpq.kafka.partition_merge import LEAST, MergedTuples, PartitionMerge, Place
from rpq.kafka.topic_reader import TopicInput, TopicReader
from rpq.readers import WhereError
from rpq.serve.engine_jobs import Push
from rpq.serve.file_feed import push_without_bad
from rpq.serve.service import Service

LOG = logging.getLogger("rpq.serve")

FETCH = 20_000
MOST_ROUND = 4096
"""Tuples that are posted at once."""

QUIET_SECONDS = 0.1

PARTITIONS_SECONDS = 30.0
"""How often new partitions are looked for."""


class _Stopped(Exception):
    """The server ends."""


def topic_feed(service: Service, settings: RunSettings) -> TopicFeed:
    """The topics that options name; an error of click's where they cannot be read."""
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
    """Reads topics in a thread of its own, and posts what they hold.

    Raises `KafkaError` and `InputError` where it begins with topics that cannot be read.
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
        except BaseException as error:  # nothing ends a thread without a word
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
        """Post a round, and wait for it; bad messages end it or are left out."""
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
