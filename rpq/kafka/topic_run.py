"""A run over topics: `rpq.run` with a checkpoint of offsets, the replay of rounds, and a log.

A slice is a round.  Its rows go into the open transaction, which is committed with the offsets of its rounds.  Checkpoints
are rarer, and are written after a commit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rpq.kafka.client import KafkaError, KafkaUsageError, log_event, log_warning
from rpq.kafka.message_reader import BadMessage
from rpq.kafka.partition_merge import TopicPartition
from rpq.kafka.row_outputs import TopicOutputs
from rpq.kafka.topic_reader import TopicFigures
from rpq.kafka.topic_source import TopicPosition, TopicSource
from rpq.run.checkpoint import AnotherRunError, CheckpointError, Position, PositionFormat
from rpq.run.loop import OutputError, Rejection, Run
from rpq.stream.json_values import JsonValue

if TYPE_CHECKING:
    from rpq.rows.changes import SetAside


def _encode_position(position: Position) -> dict[str, Any]:
    topics: TopicPosition = position.source
    return {
        "run": topics.run,
        "round": topics.round,
        "partitions": [[*place, end, topics.fronts[place]] for place, end in sorted(topics.ends.items())],
        "inside": [[*place, count] for place, count in sorted(topics.inside.items())],
        "layouts": topics.layouts,
        "output": None if position.sink is None else position.sink["output"],
        "counts": {"rejected": position.rejected, "tuples": position.tuples},
        "total_seconds": position.total_seconds,
    }


def _decode_position(content: JsonValue) -> Position:
    parts = [[value.value for value in part] for part in content["partitions"]]
    places = [TopicPartition(str(topic), int(number)) for topic, number, _, _ in parts]
    topics = TopicPosition(
        run=str(content["run"].value),
        round=content["round"].integer(0),
        ends=dict(zip(places, (int(end) for _, _, end, _ in parts), strict=True)),
        fronts=dict(zip(places, (int(front) for *_, front in parts), strict=True)),
        layouts=content["layouts"].value,
        inside={TopicPartition(str(topic), int(number)): int(count) for topic, number, count in content["inside"].value},
    )
    return Position(
        source=topics,
        sink={"output": content["output"].value, "late_bytes": None},
        tuples=content["counts"]["tuples"].integer(0),
        rejected=content["counts"]["rejected"].integer(0),
        total_seconds=content["total_seconds"].number(),
    )


POSITION = PositionFormat(
    key="rpq kafka",
    encode=_encode_position,
    decode=_decode_position,
    foreign="is not a checkpoint of a run over topics of Kafka; name another file, or remove it",
)


class TopicRun(Run):
    """A run from a `TopicSource`; `execute` drives it to its end, with `until_end` to the end of the topics."""

    source: TopicSource
    slice_rows, slice_seconds, most_tuples = 1 << 18, 0.25, 100_000
    # After an error of Kafka, or of the output, nothing can be committed.
    interrupting_errors = (KafkaError, OSError, OutputError)

    def execute(self) -> str:
        """Execute the run as `Run.execute` does.  Raises `KafkaError`, also for a checkpoint that cannot be resumed."""
        try:
            if self.checkpoint is not None:
                self.checkpoint.lock()
            self.restore()
            return super().execute()
        except AnotherRunError as error:
            raise KafkaUsageError(str(error)) from error
        except CheckpointError as error:
            raise KafkaError(str(error)) from error
        finally:
            if self.sink.is_transactional:
                self.sink.close()
            self.source.close()
            if self.checkpoint is not None:
                self.checkpoint.release()

    def _recover(self) -> None:
        """Recover as `Run` does, then replay the journal.  Write a first checkpoint if the sink has no transactions."""
        if self.checkpoint is None:
            return
        source, round_before, tuples_before = self.source, self.source.round, self.tuples
        began = time.monotonic()
        if self.sink.is_transactional:
            source.open_journal(f"{self.checkpoint.path}.journal", is_new=self.resumed is None)
            super()._recover()
        elif self.resumed is None:
            self._write_checkpoint()
        if rounds := source.round - round_before:
            seconds = round(time.monotonic() - began, 3)
            log_event("replayed", rounds=rounds, tuples=self.tuples - tuples_before, seconds=seconds)

    def _write_checkpoint(self) -> None:
        super()._write_checkpoint()
        if self.source.journal is not None:
            self.source.journal.restart()

    def _save(self) -> float:
        seconds = super()._save()
        log_event("checkpoint written", round=self.source.round, seconds=round(seconds, 3))
        return seconds

    def _on_rejected(self, bad: Rejection) -> None:
        """Report and log a bad message, and send it to the topic of dead letters."""
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
