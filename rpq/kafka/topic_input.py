"""What a run over topics reads, and what it counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rpq.kafka.message_columns import MessageColumns
from rpq.kafka.partition_merge import Released
from rpq.readers.column_names import ColumnNames
from rpq.readers.where import Where


@dataclass(frozen=True, kw_only=True)
class TopicFigures:
    """What a run over topics has counted beside its engine.

    `messages` were read, `rejected` of them were no tuples (`rejections` says why of the first), `filtered` and `undecided`
    as with files; `rows_sent` rows were committed in `rounds` rounds.  `seconds` are those from the first look for
    messages to the last commit, 0 where it failed.  `ended` says how it ended.

    >>> TopicFigures(ended="end of input", messages=3, rejected=1, rejections=("t/0 at offset 2: …",)).rejected
    1
    """

    ended: str
    messages: int
    rejected: int
    rejections: tuple[str, ...] = ()
    filtered: int = 0
    undecided: int = 0
    rows_sent: int = 0
    rounds: int = 0
    seconds: float = 0.0


@dataclass(kw_only=True)
class TopicInput:
    """What is read: topics by name, each with the stream that its tuples belong to, and how their messages are read."""

    brokers: str
    topics: Mapping[str, str | None]
    columns: MessageColumns = field(default_factory=lambda: MessageColumns.of(ColumnNames()))
    where: Where | None = None
    only_json: bool = False
    max_delay: float = 1.0
    on_error: str = "stop"
    dead_letters: str | None = None
    until_end: bool = False
    limit: int | None = None


class RejectedTuple:
    """A tuple that the engine does not take, as the message that it came from; its value is the tuple."""

    def __init__(self, released: Released, row: int, tuples: pa.RecordBatch, number: int) -> None:
        self._place = released.places[int(released.lines[row])]
        self._offset = int(released.offsets[row])
        values = {name: tuples.column(name)[number].as_py() for name in tuples.schema.names}
        self._value = json.dumps(values, ensure_ascii=False).encode()

    def topic(self) -> str:
        return self._place.topic

    def partition(self) -> int:
        return self._place.partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None
