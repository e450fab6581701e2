"""A run over topics: the loop from messages through the engine to rows, with its commits and checkpoints.

A round is the set of tuples that are pushed at once.  Its rows go into the open transaction, which is committed with the
offsets of its rounds as soon as no more messages arrive, or after `COMMIT_SECONDS`.  A checkpoint is written more rarely,
after a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rpq.errors import ConflictBudgetError, InputError, LimitError
from rpq.kafka.checkpoint import CheckpointStore, Round, RunPosition
from rpq.kafka.client import ClientSettings, KafkaError, log_event
from rpq.kafka.message_reader import MessageReader
from rpq.kafka.partition_merge import LEAST, MergedTuples, PartitionMerge, Place
from rpq.kafka.rounds import EngineRounds, EngineStopped, RoundSize, RunProgress
from rpq.kafka.row_outputs import RowMessages, RowOutputs, RowSink, Transactions
from rpq.kafka.topic_reader import TopicFigures, TopicInput, TopicReader
from rpq.running.statistics import LatencyCounts

if TYPE_CHECKING:
    from rpq.engine import Engine

COMMIT_SECONDS = 0.1
"""The longest duration of a transaction while messages keep arriving."""

QUIET_COMMIT_SECONDS = 1.0
"""The longest time for which offsets without rows wait to be committed."""

CHECKPOINT_SECONDS = 30.0
CHECKPOINT_SHARE = 0.1
"""The largest share of a run's time that checkpoints may take."""

FETCH = 20_000

PARTITIONS_SECONDS = 30.0
"""The interval in seconds at which new partitions are looked for."""


class TopicRun:
    """A run that is set up; `run` executes it to its end, to an error, or until `check` raises.

    Rows become messages by `rows`, in transactions, or else go to the sink that `open_sink` opens at its saved position.
    `make_engine` creates the engine of a new run, over integers or texts as vertices; `restore` that of a checkpoint.
    """

    def __init__(
        self,
        source: TopicInput,
        *,
        settings: ClientSettings,
        make_engine: Callable[[bool], Engine],
        restore: Callable[[str], Engine] | None = None,
        rows: RowMessages | None = None,
        open_sink: Callable[[Any], RowSink | None] = lambda position: None,
        witness: bool = False,
        checkpoint: str | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        identity: Mapping[str, Any] | None = None,
        differences: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]] = lambda old, new: [],
        check: Callable[[], None] = lambda: None,
        watch: Callable[[pa.RecordBatch], None] = lambda columns: None,
        tick: Callable[[TopicRun], None] = lambda run: None,
    ) -> None:
        self.source = source
        self._settings = settings
        self._make_engine = make_engine
        self._open_sink = open_sink
        self._checkpoint_seconds = checkpoint_seconds
        self._check = check
        self._tick = tick
        self._outputs = RowOutputs(rows, witness=witness, dead_letters=source.dead_letters)
        self._rounds = EngineRounds(
            self._outputs,
            make_engine=lambda: make_engine(self.reader is not None and self.reader.integers),
            stops=source.on_error == "stop",
            watch=watch,
        )
        self._store = CheckpointStore(checkpoint, restore=restore, identity=identity or {}, differences=differences)
        self._progress = RunProgress(0, {}, {})
        self._size = RoundSize()
        self.merge: PartitionMerge | None = None
        self.reader: TopicReader | None = None
        self.latency = LatencyCounts()
        self.started = time.monotonic()
        self._seconds_before = self._seconds = 0.0
        self.is_clean = False
        """Whether engine, offsets and outputs are at the same position."""

    # --- from the beginning to the end -----------------------------------------------------------------------

    def run(self) -> str:
        """Execute the run, with `until_end` to the end of the topics, and return how it ended.

        Raises `InputError` for a message that is no tuple, `LimitError` and `ConflictBudgetError` as the engine does,
        `KafkaError`, and whatever `check` raises.  By then all earlier messages are committed and, except after errors of
        the engine and of Kafka, in the checkpoint.
        """
        self._store.lock()
        try:
            self._begin()
            began = time.monotonic()
            try:
                ended = self._work()
            except KafkaError:
                raise
            except BaseException:
                self._finish()
                raise
            self._finish()
            self._seconds = time.monotonic() - began
            return ended
        finally:
            if self._outputs.transactions is not None:
                self._outputs.transactions.close()
            if self.reader is not None:
                self.reader.close()
            self._store.close()

    def _begin(self) -> None:
        self._rounds.engine = self._store.resume()
        position = self._store.position
        readers = {
            topic: MessageReader(
                self.source.columns,
                stream=stream,
                where=self.source.where,
                only_json=self.source.only_json,
                layout=position.layouts.get(topic),
            )
            for topic, stream in self.source.topics.items()
        }
        group = self._settings.named("group.id") or f"rpq-{position.run}"
        self.reader = TopicReader(self._settings, readers, group=group, check=self._check, waits_forever=self.resumed)
        if self._outputs.rows is not None:
            self._begin_transactions(group)
        starts = self.reader.places(position.ends)
        self._progress = RunProgress(position.round, starts, {place: position.fronts.get(place, LEAST) for place in starts})
        self.merge = PartitionMerge(
            {place: (offset, self._progress.fronts[place]) for place, offset in starts.items()},
            max_delay=self.source.max_delay,
            report=self._log_partition_state,
            is_at_end=self.reader.is_at_end,
        )
        self.reader.begin(starts)
        self._rounds.rejected = position.counts.get("rejected", 0)
        self._rounds.tuples = position.counts.get("tuples", 0)
        self._seconds_before = position.total_seconds
        self._outputs.sink = self._open_sink(position.output if self.resumed else None)
        log_event(
            "goes on from its checkpoint" if self.resumed else "begins",
            topics=[*self.source.topics],
            partitions=len(starts),
            **({"round": self._progress.round} if self.resumed else {}),
        )
        if self._store.path is not None:
            self._begin_checkpoints()
        self.is_clean = True

    def _begin_transactions(self, group: str) -> None:
        assert self.reader is not None
        transactions = Transactions(
            self._settings,
            name=self._settings.named("transactional.id") or group,
            run=self._store.position.run,
            group=self.reader.group_metadata,
            committed_round=self._committed_round,
            check=self._check,
        )
        self._outputs.transactions = transactions
        transactions.begin()
        transactions.check_topics(self._outputs.topics)

    def _committed_round(self) -> int:
        """Return the last round of this run that was committed."""
        assert self.reader is not None
        places = self.reader.places({}) if self.merge is None else self.merge.places
        committed = self.reader.committed(list(places), self._store.position.run)
        return max((number for _, number in committed.values()), default=0)

    def _begin_checkpoints(self) -> None:
        """Write the first checkpoint, or replay the rounds that were committed after the checkpoint of a resumed run."""
        if not self.resumed:
            # From now on the run has a name that survives a crash.
            self._store.begin_journal()
            self._write_checkpoint()
        elif self._outputs.transactions is not None:
            self._replay(self._store.rounds_up_to(max(self._committed_round(), self._progress.round)))

    def _replay(self, rounds: Sequence[Round]) -> None:
        """Push rounds again without sending rows, which are committed already."""
        assert self.reader is not None and self.merge is not None
        began, before = time.monotonic(), self.tuples
        for one in rounds:
            while (released := self.merge.up_to(one.ends)) is None:
                self._check()
                self.reader.fetch(self.merge, FETCH, 0.1)
            self._rounds.rejected += len(released.bad)
            self._rounds.push(released, silently=True)
            self._progress.advance(one.number, released.ends, released.fronts)
        if rounds:
            log_event(
                "replayed", rounds=len(rounds), tuples=self.tuples - before, seconds=round(time.monotonic() - began, 3)
            )

    def _work(self) -> str:
        assert self.reader is not None and self.merge is not None
        merge, reader = self.merge, self.reader
        last_commit = next_save = next_look = time.monotonic()
        next_save += self._checkpoint_seconds
        while True:
            self._check()
            quiet = 0.1 if not merge.waits else min(0.1, max(0.001, self.source.max_delay / 10))
            came = reader.fetch(merge, FETCH, 0 if self._outputs.has_uncommitted else quiet)
            while True:
                released = self._next()
                if released is None:
                    break
                self._push_round(released)
                if self._outputs.age >= COMMIT_SECONDS:
                    self._commit()
                self._check()
            now = time.monotonic()
            if (self._outputs.has_uncommitted and not came) or (
                self._progress.uncommitted and now - last_commit > QUIET_COMMIT_SECONDS
            ):
                self._commit()
                last_commit = now
            if self._store.path is not None and now >= next_save and self._progress.round != self._store.position.round:
                took = self._save()
                next_save = time.monotonic() + max(self._checkpoint_seconds, took / CHECKPOINT_SHARE)
            if now - next_look > PARTITIONS_SECONDS:
                self._look_for_partitions()
                next_look = now
            self._tick(self)
            if self.source.limit is not None and self.tuples >= self.source.limit:
                return "limit"
            if self.source.until_end and reader.finished_partitions >= {*merge.places}:
                self._drain()
                return "end of input"

    def _next(self) -> MergedTuples | None:
        """Return the next round, or None if no tuples can be released."""
        assert self.merge is not None
        most = self._size.most
        if self.source.limit is not None:
            most = min(most, self.source.limit - self.tuples)
            if most <= 0:
                return None
        return self.merge.ready(most, stop_at_bad=self.source.on_error == "stop")

    def _drain(self) -> None:
        """Push all tuples that still wait for partitions that have ended."""
        assert self.merge is not None
        self.merge.release_all()
        while (released := self._next()) is not None:
            self._push_round(released)
            if self._outputs.age >= COMMIT_SECONDS:
                self._commit()
            self._check()

    # --- a round ---------------------------------------------------------------------------------------------

    def _push_round(self, released: MergedTuples) -> None:
        """Push a round, send its rows, and record the new position."""
        self.is_clean = False
        began = time.monotonic()
        stop: InputError | None = None
        bad = released.bad
        if bad and self.source.on_error == "stop":
            one = bad[0]
            stop = InputError(f"{one.place}: {one.reason}", file=one.message.topic(), row=None)
            bad = bad[1:]
        self._outputs.has_sent = False
        try:
            rows = self._rounds.push(released)
            ends = released.ends
        except EngineStopped as stopped:
            stop, rows = stopped.error, stopped.rows
            ends = released.ends_before(stopped.row)
        except (LimitError, ConflictBudgetError):
            if not self._outputs.has_sent:  # the rounds before this one are complete
                self._commit()
                self.is_clean = False  # the engine has a part of this round
            raise
        if stop is not None and released.bad and released.bad[0] not in bad:
            place = Place(released.bad[0].message.topic(), released.bad[0].message.partition())
            ends = {**ends, place: min(ends.get(place, released.bad[0].message.offset()), released.bad[0].message.offset())}
        for one in bad:
            self._rounds.reject(one)
        if moved := self._progress.changed_ends(ends):
            number = self._progress.round + 1
            if self._outputs.transactions is not None:
                self._store.add_round(number, moved)
            whole = {place: front for place, front in released.fronts.items() if ends[place] == released.ends[place]}
            self._progress.advance(number, moved, whole)
            self._progress.uncommitted |= moved
        self._size.update(len(released.lines), rows=rows, seconds=time.monotonic() - began)
        self.latency.note(len(released.lines), began)
        self.is_clean = True
        if stop is not None:
            raise stop

    # --- transactions and checkpoints ------------------------------------------------------------------------

    def _commit(self) -> None:
        """Commit the rounds that were pushed since the last commit."""
        if self._outputs.transactions is not None and self._progress.uncommitted:
            self.is_clean = False
            self._store.synchronise()
            self._outputs.transactions.commit(self._progress.uncommitted, self._progress.round)
            self.is_clean = True
        self._progress.uncommitted = {}
        self.latency.commit()

    def _save(self) -> float:
        """Commit, write the checkpoint, and return the seconds that it took."""
        began = time.monotonic()
        self._commit()
        self._write_checkpoint()
        seconds = time.monotonic() - began
        log_event("checkpoint written", round=self._progress.round, seconds=round(seconds, 3))
        return seconds

    def _write_checkpoint(self) -> None:
        assert self.reader is not None
        sink = self._outputs.sink
        position = RunPosition(
            run=self._store.position.run,
            round=self._progress.round,
            ends=dict(self._progress.ends),
            fronts=dict(self._progress.fronts),
            layouts=self.reader.layouts,
            output=sink.commit() if sink is not None else None,
            counts={"rejected": self._rounds.rejected, "tuples": self.tuples if self.engine is not None else 0},
            total_seconds=self.total_seconds,
        )
        self._store.save(self.engine or self._make_engine(False), position)

    def _finish(self) -> None:
        """Commit what was pushed, and write the checkpoint, if engine and outputs are at the same position."""
        if self.merge is None or not self.is_clean:
            return
        self._commit()
        if self._store.path is not None:
            self._save()

    # --- figures ---------------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine | None:
        """The engine; None before the first tuple."""
        return self._rounds.engine

    @property
    def tuples(self) -> int:
        """The number of tuples pushed into the engine, including those before the checkpoint."""
        return self._rounds.tuples

    @property
    def rejections(self) -> list[str]:
        """The reasons of the first rejected messages."""
        return self._rounds.rejections

    @property
    def set_aside(self) -> list[str]:
        """Messages about the first roots that were set aside."""
        return self._outputs.set_aside

    @property
    def resumed(self) -> bool:
        """Whether the run was resumed from a checkpoint."""
        return self._store.resumed

    @property
    def total_seconds(self) -> float:
        """The seconds that the run took so far, including runs before the checkpoint."""
        return self._seconds_before + time.monotonic() - self.started

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the checkpoint was written; None without one."""
        return self._store.age

    def _log_partition_state(self, what: str, place: Place) -> None:
        if what == "idle":
            log_event("partition is idle, the others go on without it", partition=str(place), after=self.source.max_delay)
        else:
            log_event("partition is back", partition=str(place))

    def _look_for_partitions(self) -> None:
        assert self.reader is not None and self.merge is not None
        for place in self.reader.new_partitions(self.merge.places):
            log_event("partition is new", partition=str(place))
            self.merge.join(place)
            self._progress.add_partition(place)
            self.reader.join(place)

    def lag(self) -> dict[Place, int]:
        """Return how many messages of each partition are not in the engine yet, as far as the broker has reported."""
        assert self.reader is not None and self.merge is not None
        found = {}
        for place in self.merge.places:
            high = self.reader.high(place)
            if high is not None:
                done = self._progress.ends[place] if self.merge.waiting(place) else self.merge.position(place)
                found[place] = max(0, high - done)
        return found

    def figures(self, ended: str) -> TopicFigures:
        """Return the counts of the run."""
        reader, transactions = self.reader, self._outputs.transactions
        return TopicFigures(
            ended=ended,
            messages=reader.messages if reader is not None else 0,
            rejected=self._rounds.rejected,
            rejections=tuple(self.rejections),
            filtered=reader.filtered if reader is not None else 0,
            undecided=reader.undecided if reader is not None else 0,
            rows_sent=transactions.committed if transactions is not None else 0,
            rounds=self._progress.round,
            seconds=self._seconds,
        )
