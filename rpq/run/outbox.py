"""Batches of rows that a run sends to sinks with keys, on disk before they are sent.

A run that is resumed pushes the tuples after its checkpoint again, but neither its batches nor the order of the rows of one
tuple need be the same.  So it sends the batches of the outbox again, and continues behind them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from rpq.run.loop import OutputError
from rpq.run.record_log import LogError, LogKind, RecordLog, read_log

KIND = LogKind(magic=b"rpqsend\0", noun="outbox of `rpq run`", version=1)


class Batch(NamedTuple):
    """Rows for a sink, whose place among those of the run is given, and their number, which grows with each batch."""

    sink: int
    number: int
    rows: pa.Table


class Sending(NamedTuple):
    """Batches that are sent together, and the position of the input behind them."""

    position: int
    batches: Sequence[Batch]


class Outbox:
    """The file with the batches that a run has sent since its checkpoint.  `create` or `open` it first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log: RecordLog | None = None

    def create(self, run: str) -> None:
        """Create the file without batches, or remove those that it has."""
        log = RecordLog.create(self._path, KIND, {"run": run})
        self.close()
        self._log = log

    def open(self, run: str) -> list[Sending]:
        """Open the file of a run that is resumed, and return what it has.  Raises `OutputError`."""
        try:
            content = read_log(self._path, KIND)
            if content.damage is not None:
                raise content.damage
            if content.head.get("run") != run:
                raise OutputError(f"{self._path}: is the outbox of another run, not of the checkpoint beside it")
            self._log = RecordLog(self._path, content.end)
        except LogError as error:
            raise OutputError(f"{error}.  It has the batches since the checkpoint; remove both to start anew") from error
        return [_decode(record) for _, record in content.records]

    def add(self, sending: Sending) -> None:
        """Add batches, which are on disk when this returns."""
        assert self._log is not None
        self._log.add(_encode(sending))
        self._log.synchronise()

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None


def _encode(sending: Sending) -> bytes:
    tables = []
    for batch in sending.batches:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.rows.schema) as writer:
            writer.write_table(batch.rows)
        tables.append(out.getvalue().to_pybytes())
    sizes = [[batch.sink, batch.number, len(table)] for batch, table in zip(sending.batches, tables, strict=True)]
    return b"".join([json.dumps([sending.position, sizes]).encode(), b"\n", *tables])


def _decode(record: memoryview) -> Sending:
    head, _, _ = bytes(record).partition(b"\n")
    position, sizes = json.loads(head)
    begin, batches = len(head) + 1, []
    for sink, number, size in sizes:
        batches.append(Batch(sink, number, pa.ipc.open_stream(record[begin : begin + size]).read_all()))
        begin += size
    return Sending(position, batches)
