"""Messages of topics, as Spark's connector gives them, to tuples: read as `rpq run` reads them.

Inside a micro-batch tuples of one timestamp are ordered by topic, partition and offset, which are one integer, `sequence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.kafka.message_reader import MessageColumns, MessageReader, Tuples

SEQUENCE = "sequence"
OFFSET_BITS, PARTITION_BITS, TOPIC_BITS = 44, 13, 6
"""Of a sequence: for how many offsets, partitions and topics there is room in it."""

BESIDE_COLUMNS = ("key", "headers", "time", "time_kind")


class ArrivedMessage:
    """A message with the methods of confluent-kafka's, which is what a reader of messages knows."""

    __slots__ = ("_beside", "_offset", "_partition", "_topic", "_value")

    def __init__(
        self, topic: str, partition: int, offset: int, value: bytes | None, beside: Mapping[str, Any] | None = None
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._value, self._beside = value, beside

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return None if self._beside is None else self._beside["key"]

    def headers(self) -> list[tuple[str, bytes]]:
        given = None if self._beside is None else self._beside["headers"]
        return [(header["key"], header["value"]) for header in given or ()]

    def timestamp(self) -> tuple[int, int]:
        if self._beside is None or self._beside["time"] is None:
            return 0, -1
        return self._beside["time_kind"] + 1, self._beside["time"]


def messages_in(rows: pa.RecordBatch | pa.Table) -> list[ArrivedMessage]:
    """Rows with the columns topic, partition, offset, value and, where they are wanted, those beside them."""
    columns = [rows.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
    if "key" not in rows.schema.names:
        return [ArrivedMessage(*place) for place in zip(*columns, strict=True)]
    columns.append(rows.select(BESIDE_COLUMNS).to_pylist())
    return [ArrivedMessage(*place) for place in zip(*columns, strict=True)]


class TuplesOfMessages:
    """Makes batches of tuples of batches of messages, in a worker; `layouts` tell by topic how its values are laid out.

    With `stops` a message that is no tuple raises `InputError`, else it is left out.
    """

    def __init__(
        self, columns: MessageColumns, layouts: Mapping[str, Mapping[str, Any]], *, integers: bool, stops: bool
    ) -> None:
        self._columns = columns
        self._layouts = dict(layouts)
        self._integers = integers
        self._stops = stops

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = {topic: MessageReader(self._columns, layout=dict(layout)) for topic, layout in self._layouts.items()}
        ranks = {topic: number for number, topic in enumerate(sorted(self._layouts))}
        for batch in batches:
            for topic in pc.unique(batch.column("topic")).to_pylist():
                theirs = batch.filter(pc.equal(batch.column("topic"), topic))
                made = self._made(readers[topic].read(messages_in(theirs)), theirs, ranks[topic])
                if made is not None:
                    yield made

    def _made(self, tuples: Tuples, rows: pa.RecordBatch, rank: int) -> pa.RecordBatch | None:
        if tuples.bad and self._stops:
            bad = tuples.bad[min(tuples.bad)]
            raise InputError(f"{bad.place}: {bad.reason}")
        if tuples.columns is None:
            return None
        found = tuples.columns
        vertex = pa.int64() if self._integers else pa.string()
        deletes = found.column("delete") if "delete" in found.schema.names else pa.nulls(len(found), pa.bool_())
        ops = pc.if_else(pc.fill_null(deletes, False), "-", "+")
        columns = {
            "source": found.column("source").cast(vertex),
            "target": found.column("target").cast(vertex),
            "label": found.column("label").cast(pa.string()),
            "timestamp": found.column("timestamp").cast(pa.int64()),
            "op": ops.cast(pa.string()),
            SEQUENCE: pa.array(sequences(rank, rows, tuples.numbers)),
        }
        return pa.RecordBatch.from_pydict(columns)


def sequences(rank: int, rows: pa.RecordBatch, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """The places of some messages of a topic as integers, in the order of topic (by its rank), partition and offset.

    Raises `InputError` where one is too large for that.
    """
    partitions = rows.column("partition").to_numpy().astype(np.int64)[numbers]
    offsets = rows.column("offset").to_numpy().astype(np.int64)[numbers]
    most = ((rank, TOPIC_BITS), (partitions.max(initial=0), PARTITION_BITS), (offsets.max(initial=0), OFFSET_BITS))
    for what, (largest, bits) in zip(("topics", "partitions", "offsets"), most, strict=True):
        if largest >> bits:
            raise InputError(f"too many {what}: a stream on Spark takes less than 2^{bits} of them, to order tuples by")
    made: np.ndarray = (np.int64(rank) << (PARTITION_BITS + OFFSET_BITS)) | (partitions << OFFSET_BITS) | offsets
    return made
