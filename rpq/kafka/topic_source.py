"""The source of a run over topics: their messages as one stream of tuples, and the rounds in which they were pushed.

A round is a slice that was pushed.  The division into rounds depends on when messages arrived.  Therefore each round is
written to the journal before the transaction that carries its rows: a record (`rpq.run.record_log`) with its number and
the offsets after it.  Pushing the tuples of each partition up to these offsets, in the order of (timestamp, topic,
partition, offset), replays the round.  A checkpoint removes the rounds before it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rpq.kafka.client import ClientSettings, KafkaError, log_event
from rpq.kafka.partition_merge import LEAST, MergedTuples, PartitionMerge, TopicPartition
from rpq.kafka.topic_reader import TopicInput, TopicReader, reader_of
from rpq.run.loop import SliceSource
from rpq.run.record_log import LogError, LogKind, RecordLog, read_log

if TYPE_CHECKING:
    from rpq.engine.engine import Engine

FETCH = 20_000

SMALL_FETCH = 1_000
"""The number of messages below which a fetch has emptied the queue, so that nothing more waits for a transaction."""

PARTITIONS_SECONDS = 30.0
"""The interval in seconds between searches for new partitions."""


@dataclass(frozen=True, kw_only=True)
class TopicPosition:
    """A position in topics.

    `run` identifies the run, for the broker and in the offsets that it commits; `round` is the number of the last slice.
    `ends` and `fronts` are the offset and the largest timestamp of each partition.  If some tuples of the message at the
    offset were passed on already, `inside` is their number.  `layouts` describe the values of each topic.
    """

    run: str
    round: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    fronts: Mapping[TopicPartition, int] = field(default_factory=dict)
    layouts: Mapping[str, Any] = field(default_factory=dict)
    inside: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def progress(self) -> dict[TopicPartition, tuple[int, int]]:
        """The offset of each partition, and the number of tuples of the message there that were passed on already."""
        return {place: (end, self.inside.get(place, 0)) for place, end in self.ends.items()}


class TopicSource(SliceSource):
    """Topics as a stream of tuples, in the order of (timestamp, topic, partition, offset); `begin` opens them.

    `check` raises an exception if the run must end; `watch` is called with all tuples.  The slices are rounds, each with a
    number; they are written to the `journal`, if there is one.
    """

    has_types = False
    is_caught_up = False
    """True if the last fetch returned few messages: all that there were."""

    def __init__(
        self,
        topics: TopicInput,
        settings: ClientSettings,
        *,
        check: Callable[[], None] = lambda: None,
        watch: Callable[[pa.RecordBatch], None] = lambda columns: None,
    ) -> None:
        self.topics = topics
        self.run = uuid.uuid4().hex[:16]
        self.round = 0
        self.ends: dict[TopicPartition, int] = {}
        self.fronts: dict[TopicPartition, int] = {}
        self.inside: dict[TopicPartition, int] = {}
        self.stops = topics.on_error == "stop"
        self.journal: Journal | None = None
        self._journal_path = ""
        self._settings = settings
        self._check = check
        self._watch = watch
        self._reader: TopicReader | None = None
        self._merge: PartitionMerge | None = None

    def begin(self, position: TopicPosition | None) -> None:
        """Open the topics at a position, or at the beginning of a new run.  Raises `KafkaError` and `InputError`."""
        position = position or TopicPosition(run=self.run)
        self.run, self.round = position.run, position.round
        topics = self.topics
        readers = {
            topic: reader_of(topics, stream, layout=position.layouts.get(topic)) for topic, stream in topics.topics.items()
        }
        is_known = bool(position.ends)
        reader = TopicReader(
            self._settings,
            readers,
            group=self.group,
            check=self._check,
            waits_forever=is_known,
            registry=topics.registry,
        )
        self._reader = reader
        self.ends = reader.places(position.ends)
        self.fronts = {place: position.fronts.get(place, LEAST) for place in self.ends}
        self.inside = {place: count for place, count in position.inside.items() if place in self.ends}
        self._merge = PartitionMerge(
            {place: (offset, self.fronts[place]) for place, offset in self.ends.items()},
            max_delay=topics.max_delay,
            inside=self.inside,
            report=self._log_partition_state,
            is_at_end=reader.is_at_end,
        )
        reader.begin(self.ends)
        log_event(
            "continues from its checkpoint" if is_known else "begins",
            topics=[*topics.topics],
            partitions=len(self.ends),
            **({"round": self.round} if is_known else {}),
        )

    def close(self) -> None:
        """Close the consumer and the journal."""
        if self._reader is not None:
            self._reader.close()
        if self.journal is not None:
            self.journal.close()

    @property
    def group(self) -> str:
        """The name of the consumer group."""
        return self._settings.user_value("group.id") or f"rpq-{self.run}"

    @property
    def reader(self) -> TopicReader:
        """The open reader."""
        assert self._reader is not None
        return self._reader

    @property
    def merge(self) -> PartitionMerge:
        """The merge of the partitions."""
        assert self._merge is not None
        return self._merge

    @property
    def integers(self) -> bool:
        """True if vertices are integers in the messages read so far."""
        return self._reader is not None and self._reader.integers

    # --- slices ----------------------------------------------------------------------------------------------

    def slices(self, slice_limit: Callable[[], int]) -> Iterator[MergedTuples | None]:
        """Yield slices of at most `slice_limit()` tuples, and None after each fetch; end with the topics if `until_end`."""
        reader, merge = self.reader, self.merge
        next_look = time.monotonic() + PARTITIONS_SECONDS
        self._check()
        message_count = 0
        while True:
            wait = 0.1 if not merge.has_waiting else min(0.1, max(0.001, self.topics.max_delay / 10))
            message_count = reader.fetch(merge, FETCH, 0 if message_count else wait)
            self.is_caught_up = message_count < SMALL_FETCH
            yield from self._ready(slice_limit)
            if time.monotonic() > next_look:
                self._add_new_partitions()
                next_look = time.monotonic() + PARTITIONS_SECONDS
            self.is_quiet = not message_count
            yield None
            self.is_quiet = False
            if self.topics.until_end and reader.finished_partitions >= {*merge.places}:
                merge.release_all()
                yield from self._ready(slice_limit)
                return

    def _ready(self, slice_limit: Callable[[], int]) -> Iterator[MergedTuples]:
        """Yield the slices that can be released."""
        while (count := slice_limit()) > 0 and (released := self.merge.ready(count, stop_at_bad=self.stops)) is not None:
            if released.columns is not None:
                self._watch(released.columns)
            yield released

    def open_journal(self, path: str, *, is_new: bool) -> None:
        """Begin a new journal, or open the one from which `replay_until` reads the rounds behind the position."""
        self._journal_path = path
        if is_new:
            self.journal = Journal(path, run=self.run)

    def replay_until(self, last: int) -> Iterator[MergedTuples]:
        """Yield the slices of the rounds up to `last` again, as the journal has them; later rounds are added to it."""
        path, last = self._journal_path, max(last, self.round)
        rounds = rounds_between(path, run=self.run, first=self.round + 1, last=last)
        journal = Journal(path, run=self.run, rounds=rounds)
        yield from self.replay(rounds)
        self.journal = journal

    def replay(self, rounds: Iterable[Round]) -> Iterator[MergedTuples]:
        """Yield the slices of these rounds again."""
        for one in rounds:
            while (released := self.merge.release_before(one.ends, one.inside)) is None:
                self._check()
                self.reader.fetch(self.merge, FETCH, 0.1)
            yield released

    # --- the position ----------------------------------------------------------------------------------------

    def advance(self, part: MergedTuples, until: int | None) -> None:
        """Move the position behind a slice, or to its row `until`, before which the slice has no bad message."""
        ends, inside, before = part.ends, part.inside, self.position().progress
        if until is not None:
            ends = part.ends_before_bad(part.ends_before(until))
            inside = part.inside_before(until, ends, before)
        moved = {place: end for place, end in ends.items() if (end, inside.get(place, 0)) != before[place]}
        if moved:
            self.round += 1
            within = {place: inside[place] for place in moved if place in inside}
            if self.journal is not None:
                self.journal.write(self.round, moved, within)
            is_whole = {place for place, end in part.ends.items() if ends[place] == end and place not in inside}
            whole = {place: front for place, front in part.fronts.items() if place in is_whole}
            self.ends |= moved
            self.inside = {place: count for place, count in self.inside.items() if place not in moved} | within
            self.fronts |= {place: max(front, self.fronts[place]) for place, front in whole.items()}

    def position(self) -> TopicPosition:
        """Return the position behind the last slice."""
        return TopicPosition(
            run=self.run,
            round=self.round,
            ends=dict(self.ends),
            fronts=dict(self.fronts),
            layouts=self.reader.layouts,
            inside=dict(self.inside),
        )

    def milestone(self, engine: Engine | None) -> int:
        """Return the number of the last round."""
        return self.round

    def sequence(self) -> int:
        """Return the number of the last round."""
        return self.round

    def synchronise(self) -> None:
        """Put the rounds of the journal on disk."""
        if self.journal is not None:
            self.journal.synchronise()

    def committed_round(self) -> int:
        """Return the last round of this run that was committed."""
        committed = self.reader.committed_offsets(list(self.merge.places), self.run)
        return max((number for _, number in committed.values()), default=0)

    def lag(self) -> dict[TopicPartition, int]:
        """Return the number of messages of each partition that the engine has not received, as reported by the broker."""
        found = {}
        for place in self.merge.places:
            high = self.reader.high(place)
            if high is not None:
                done = self.ends[place] if self.merge.waiting_count(place) else self.merge.position(place)
                found[place] = max(0, high - done)
        return found

    def _log_partition_state(self, what: str, place: TopicPartition) -> None:
        if what == "idle":
            log_event("partition is idle, the others continue without it", partition=str(place), after=self.topics.max_delay)
        else:
            log_event("partition is back", partition=str(place))

    def _add_new_partitions(self) -> None:
        for place in self.reader.new_partitions(self.merge.places):
            log_event("partition is new", partition=str(place))
            self.merge.join(place)
            self.ends[place], self.fronts[place] = 0, LEAST
            self.reader.join(place)


NOTHING_INSIDE: Mapping[TopicPartition, int] = {}


class Round(NamedTuple):
    """A round: its number, and the offset after it of each partition that it advanced.

    If `inside` has a number for a partition, the round ends behind that many tuples of the message at the offset.
    """

    number: int
    ends: dict[TopicPartition, int]
    inside: Mapping[TopicPartition, int] = NOTHING_INSIDE


KIND = LogKind(magic=b"rpqrun\0\0", noun="journal of `rpq run`", version=1)


class Journal:
    """A file of the rounds of a run, created with the given rounds; its content is on disk when `synchronise` returns."""

    def __init__(self, path: str, *, run: str, rounds: Iterable[Round] = ()) -> None:
        self.path = path
        self._run = run
        self._log = self._create_log(rounds)

    def _create_log(self, rounds: Iterable[Round]) -> RecordLog:
        records = [_record(*one) for one in rounds]
        return RecordLog.create(self.path, KIND, {"run": self._run}, records)

    def write(
        self, number: int, ends: Mapping[TopicPartition, int], inside: Mapping[TopicPartition, int] = NOTHING_INSIDE
    ) -> None:
        """Add a round."""
        self._log.add(_record(number, ends, inside))

    def synchronise(self) -> None:
        """Put all written rounds on disk.  Raises `OSError`."""
        self._log.synchronise()

    def restart(self) -> None:
        """Remove all rounds."""
        following = self._create_log(())
        self._log.close()
        self._log = following

    def close(self) -> None:
        self._log.close()


def _record(number: int, ends: Mapping[TopicPartition, int], inside: Mapping[TopicPartition, int]) -> bytes:
    parts = [[*place, end, *([inside[place]] if place in inside else [])] for place, end in ends.items()]
    return json.dumps([number, parts], separators=(",", ":")).encode()


def read_journal(path: str, *, run: str) -> list[Round]:
    """Return the rounds of a run in a file, in order; none if there is no file.

    Rounds that a crash left incomplete are left out.  Raises `KafkaError` for a file that is damaged, of another run, or of
    another version of the format.
    """
    if not os.path.exists(path):
        return []
    try:
        log = read_log(path, KIND)
        if log.damage is not None:
            raise log.damage
        if log.head.get("run") != run:
            raise KafkaError(f"{path}: is the journal of another run, not of the checkpoint beside it")
        found: list[Round] = []
        for place, record in log.records:
            number, ends = json.loads(bytes(record))
            if found and number != found[-1].number + 1:
                raise KafkaError(f"{path}: at byte {place}: round {number} follows round {found[-1].number}; it was changed")
            of_ends = {TopicPartition(str(topic), int(part)): int(end) for topic, part, end, *_ in ends}
            within = {TopicPartition(str(topic), int(part)): int(rest[0]) for topic, part, _, *rest in ends if rest}
            found.append(Round(int(number), of_ends, within))
    except (ValueError, TypeError) as error:
        raise KafkaError(f"{path}: is a damaged journal of `rpq run`: {error}") from error
    except LogError as error:
        raise KafkaError(f"{error}.  It was not changed") from error
    except OSError as error:
        raise KafkaError(f"{path}: cannot be read: {error.strerror or error}") from error
    return found


def rounds_between(path: str, *, run: str, first: int, last: int) -> list[Round]:
    """Return the rounds `first` to `last` of a run.  Raises `KafkaError` if the journal does not have all of them."""
    rounds = [one for one in read_journal(path, run=run) if first <= one.number <= last]
    if [one.number for one in rounds] != [*range(first, last + 1)]:
        raise KafkaError(
            f"{path}: does not contain the order of the rounds {first} to {last}, which were committed since the "
            "checkpoint; it was lost or changed.  Remove the checkpoint to start anew"
        )
    return rounds
