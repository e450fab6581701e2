"""A run over topics: a configuration of `rpq.run` with its checkpoint, the replay of rounds, and its log.

A slice is a round.  Its rows go into the open transaction, which is committed with the offsets of its rounds.  A checkpoint
is written more rarely, after a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rpq.files.json_values import JsonValue
from rpq.kafka.client import ClientSettings, KafkaError, KafkaUsageError, log_event, log_warning
from rpq.kafka.message_reader import BadMessage
from rpq.kafka.partition_merge import Place
from rpq.kafka.row_outputs import TopicOutputs
from rpq.kafka.topic_reader import TopicFigures, TopicInput
from rpq.kafka.topic_source import Journal, TopicPosition, TopicSource, rounds_between
from rpq.run.checkpoint import AnotherRunError, Checkpoint, CheckpointError, CheckpointLock, Position, PositionFormat
from rpq.run.loop import Rejected, Run, Sink, SliceSize

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.results.changes import SetAside

CHECKPOINT_SECONDS = 30.0

ROUND_SECONDS, ROUND_ROWS, MOST_ROUND = 0.25, 1 << 18, 100_000
"""The targets for the time of a round and for the number of its rows, and the largest number of its tuples."""


def _encoded(position: Position) -> dict[str, Any]:
    topics: TopicPosition = position.source
    return {
        "run": topics.run,
        "round": topics.round,
        "partitions": [[*place, end, topics.fronts[place]] for place, end in sorted(topics.ends.items())],
        "layouts": topics.layouts,
        "output": None if position.sink is None else position.sink["output"],
        "counts": {"rejected": position.rejected, "tuples": position.tuples},
        "total_seconds": position.total_seconds,
    }


def _decoded(content: JsonValue) -> Position:
    parts = [[value.value for value in part] for part in content["partitions"]]
    places = [Place(str(topic), int(number)) for topic, number, _, _ in parts]
    topics = TopicPosition(
        run=str(content["run"].value),
        round=content["round"].whole(0),
        ends=dict(zip(places, (int(end) for _, _, end, _ in parts), strict=True)),
        fronts=dict(zip(places, (int(front) for *_, front in parts), strict=True)),
        layouts=content["layouts"].value,
    )
    counts = {name: value.whole(0) for name, value in content["counts"].items()}
    return Position(
        source=topics,
        sink={"output": content["output"].value, "late_bytes": None},
        tuples=counts.get("tuples", 0),
        rejected=counts.get("rejected", 0),
        total_seconds=content["total_seconds"].number(),
    )


POSITION = PositionFormat(
    key="rpq kafka",
    encode=_encoded,
    decode=_decoded,
    foreign="is no checkpoint of a run over topics of Kafka; name another file, or remove it",
)


class TopicRun(Run):
    """A run over topics that is set up; `execute` drives it to its end, with `until_end` to the end of the topics.

    `make_engine` makes the engine of a new run, over integers or texts as vertices; `restore` that of a checkpoint.
    """

    source: TopicSource
    # After an error of Kafka nothing can be committed.
    unfinished = (KafkaError, OSError)

    def __init__(
        self,
        topics: TopicInput,
        sink: Sink,
        *,
        settings: ClientSettings,
        make_engine: Callable[[bool], Engine],
        restore: Callable[[str], Engine],
        checkpoint: str | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        identity: Mapping[str, Any],
        differences: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]],
        names_queries: bool = True,
        started: float | None = None,
        check: Callable[[], None] = lambda: None,
        watch: Callable[[pa.RecordBatch], None] = lambda columns: None,
        tick: Callable[[TopicRun], None] = lambda run: None,
    ) -> None:
        source = TopicSource(topics, settings, check=check, watch=watch)
        super().__init__(
            source,
            sink,
            make_engine=lambda: make_engine(source.integers),
            size=SliceSize(rows=ROUND_ROWS, seconds=ROUND_SECONDS, most=MOST_ROUND),
            stops=topics.on_error == "stop",
            names_queries=names_queries,
            limit=topics.limit,
            checkpoint=None
            if checkpoint is None
            else Checkpoint(checkpoint, POSITION, identity=identity, differences=differences, restore=restore),
            checkpoint_seconds=checkpoint_seconds,
            started=started,
            check=check,
            tick=lambda: tick(self),
        )

    def execute(self) -> str:
        """Execute the run as `Run.execute` does; raises `KafkaError` also for a checkpoint that cannot be resumed."""
        lock: CheckpointLock | None = None
        try:
            if self.checkpoint is not None:
                lock = CheckpointLock(self.checkpoint.path)
                if (saved := self.checkpoint.read()) is not None:
                    engine, position = saved
                    self.resume(position)
                    # Before the first tuple the type of vertices is unknown.
                    self.engine = engine if position.tuples else None
            return super().execute()
        except AnotherRunError as error:
            raise KafkaUsageError(str(error)) from error
        except CheckpointError as error:
            raise KafkaError(str(error)) from error
        finally:
            if isinstance(self.sink, TopicOutputs):
                self.sink.close()
            self.source.close()
            if lock is not None:
                lock.release()

    def _recover(self) -> None:
        """Write the first checkpoint, or replay the rounds that were committed after the checkpoint of a resumed run."""
        if self.checkpoint is None:
            return
        source, path = self.source, f"{self.checkpoint.path}.journal"
        if self.resumed is None:
            # From now on the run has a name that survives a crash.
            if self.sink.is_transactional:
                source.journal = Journal(path, run=source.run)
            self._write_checkpoint()
        elif isinstance(self.sink, TopicOutputs):
            last = max(source.committed_round(), source.round)
            rounds = rounds_between(path, run=source.run, first=source.round + 1, last=last)
            journal = Journal(path, run=source.run, rounds=rounds)
            began, before = time.monotonic(), self.tuples
            for part in source.replayed(rounds):
                self._push(part, again=True)
            source.journal = journal
            self.sink.note_committed()
            if rounds:
                seconds = round(time.monotonic() - began, 3)
                log_event("replayed", rounds=len(rounds), tuples=self.tuples - before, seconds=seconds)

    def _write_checkpoint(self) -> None:
        super()._write_checkpoint()
        if self.source.journal is not None:
            self.source.journal.restart()

    def _save(self) -> float:
        seconds = super()._save()
        log_event("checkpoint written", round=self.source.round, seconds=round(seconds, 3))
        return seconds

    def _on_rejected(self, bad: Rejected) -> None:
        """Report and log a message that is no tuple, and send it to the topic of dead letters."""
        super()._on_rejected(bad)
        assert isinstance(bad, BadMessage)
        message = bad.message
        place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        log_warning("rejected", **place, reason=bad.reason)
        if isinstance(self.sink, TopicOutputs):
            self.sink.send_dead_letter(bad)

    def _on_set_aside(self, message: str, report: SetAside) -> None:
        super()._on_set_aside(message, report)
        log_warning(message, time=report.timestamp)

    # --- figures ---------------------------------------------------------------------------------------------

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the checkpoint was written; None without one."""
        return None if self.checkpoint is None else self.checkpoint.age

    def lag(self) -> dict[Place, int]:
        """Return how many messages of each partition are not in the engine yet, as far as the broker has reported."""
        return self.source.lag()

    def figures(self, ended: str) -> TopicFigures:
        """Return the counts of the run."""
        reader = self.source.reader if self.has_begun else None
        transactions = self.sink.transactions if isinstance(self.sink, TopicOutputs) else None
        return TopicFigures(
            ended=ended,
            messages=reader.messages if reader is not None else 0,
            rejected=self.rejected,
            rejections=tuple(self.rejections),
            filtered=reader.filtered if reader is not None else 0,
            undecided=reader.undecided if reader is not None else 0,
            rows_sent=transactions.committed if transactions is not None else 0,
            rounds=self.source.round,
            seconds=self.seconds,
        )
