"""Webhooks and sinks of other packages in a run: their columns and batches, and their errors with the URL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rpq.cli.inputs import Interrupted
from rpq.cli.outputs.sinks import RowBuffer, RowSink, without_dictionaries
from rpq.errors import RpqError
from rpq.run.loop import OutputError
from rpq.stream.providers import scheme_of, without_login
from rpq.stream.sinks import SINKS, Sink, SinkGuarantee, is_webhook


def guarantee_of(url: str) -> SinkGuarantee:
    """Return the guarantee of the sink for a URL.  Raises `InputError` if it cannot be loaded."""
    return "key" if is_webhook(url) else SINKS.load(scheme_of(url) or "").guarantee


class InstalledSink(RowSink):
    """The sink of a URL, which `make` makes.  Every exception of it becomes an `OutputError`."""

    guarantee = "none"  # that of the class behind it is `guarantee_of(url)`

    def __init__(self, url: str, columns: Sequence[str], make: Callable[[str], Sink] | None = None) -> None:
        self.name = without_login(url)
        self.rows = 0
        self._columns = columns
        self._run = ""
        self._buffer = RowBuffer()
        self._sink: Sink = self._call(lambda: (make or SINKS.load(scheme_of(url) or ""))(url))
        self.batch_rows = self._call(lambda: self._sink.batch_rows)

    def resume(self, saved: Mapping[str, str] | None) -> None:
        """Begin at a value of `position`, or anew if that is None."""
        saved = saved or {"run": uuid.uuid4().hex[:16], "position": "null"}
        self.begin(saved["run"], json.loads(saved["position"]))

    def begin(self, run: str, position: Any) -> None:
        self._run = run
        self._call(lambda: self._sink.begin(run, position))

    def write(self, rows: pa.Table) -> None:
        rows = without_dictionaries(rows, self._columns)
        self.rows += rows.num_rows
        if self._sink.guarantee == "key":
            self._buffer.add(rows)
        elif rows.num_rows:
            self._call(lambda: self._sink.write(rows))

    def take_batches(self) -> list[pa.Table]:
        """Return the rows that wait to be sent with keys, in batches of the size that the sink wants."""
        if not self._buffer.rows:
            return []
        rows, size = self._buffer.take(), self.batch_rows
        return [rows.slice(begin, size) for begin in range(0, rows.num_rows, size)]

    def send(self, rows: pa.Table, number: int) -> None:
        """Send a batch."""
        self._call(lambda: self._sink.write(rows))
        self.commit(number)

    def commit(self, number: int) -> None:
        self._call(lambda: self._sink.commit(number))

    def last_commit(self) -> int:
        return int(self._call(self._sink.last_commit))

    def position(self) -> dict[str, str]:
        return {"run": self._run, "position": self._call(lambda: json.dumps(self._sink.position()))}

    def close(self) -> None:
        self._call(self._sink.close)

    def discard(self) -> None:
        self.close()

    def append(self, part: str) -> None:
        raise OutputError(f"{self.name}: parts cannot be appended")

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Interrupted:
            raise
        except Exception as error:
            if isinstance(error, OutputError) and self.name in str(error):
                raise
            reason = str(error) if isinstance(error, RpqError) else f"{type(error).__name__}: {error}"
            raise OutputError(f"{self.name}: {reason}") from error
