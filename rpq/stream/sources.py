"""Inputs that other packages add, by the scheme of a URL: the protocol `Source`, and the entry points that name sources.

A package adds a source by an entry point in the group `rpq.sources`, whose name is the scheme: with
`mqtt = "package:MqttSource"`, `--input mqtt://broker/topic` makes `MqttSource("mqtt://broker/topic")` and reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from rpq.stream.providers import Providers

if TYPE_CHECKING:
    import pyarrow as pa

Guarantee = Literal["rewind", "replay", "none"]

GUARANTEES = {
    "rewind": "can be read again from any position",
    "replay": "can be read again from its beginning",
    "none": "cannot be read again",
}
"""The meaning of each guarantee, for messages."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """Consecutive records of a source, and the position behind the last of them.

    `data` is text with whole records (JSON objects, lines of fields, N-Quads), each of which ends with a line end, or a
    batch of Arrow with a row per edge.  `position` is a value that JSON can have; `Source.read` takes it.  It is needed for
    the guarantee `rewind` only.

    >>> Records(data=b'{"source": "x", "target": "y", "label": "a", "timestamp": 1}\\n', position=17).position
    17
    """

    data: bytes | pa.RecordBatch
    position: Any = None


class Source(Protocol):
    """An input of `rpq run` and `rpq serve` that another package provides, for URLs of a scheme.

    The class is called with the URL; whatever can be set stands in it, such as `?qos=1`.  Raise `rpq.InputError` for a URL
    that is wrong.  A login in the URL is left out of messages and checkpoints.

    `guarantee` says how a run continues after a restart. It decides whether `--checkpoint` loses records:

    - `"rewind"`: `read` begins at any position that it has yielded.  Every record is evaluated once.
    - `"replay"`: `read(None)` yields the same records from the beginning, and those evaluated before are skipped.  Every
      record is evaluated once.
    - `"none"`: `read` yields the records that arrive from then on.  Records between the checkpoint and the restart are lost:
      at most once.

    `delivers` is `"records"` if `Records.data` is text, to which `--format`, `--columns`, `--edges-from` and `--where` apply
    as to a file, or `"edges"` if it is Arrow, to which `--columns`, `--edges-from` and `--where` apply as to Parquet.
    `time_unit` ("s", "ms", "us", "ns") is the unit of the timestamps of edges, or None for plain numbers.

    >>> class Countdown(Source):
    ...     guarantee = "rewind"
    ...     def __init__(self, url: str) -> None:
    ...         self.count = int(url.removeprefix("countdown://"))
    ...     def read(self, position: int | None) -> Iterator[Records]:
    ...         for left in range(self.count if position is None else position, 0, -1):
    ...             yield Records(data=b"%d,%d,next,%d\\n" % (left, left - 1, self.count - left), position=left - 1)
    >>> source = Countdown("countdown://3")
    >>> [records.data for records in source.read(1)]
    [b'1,0,next,2\\n']
    >>> source.close()
    """

    guarantee: ClassVar[Guarantee]
    delivers: ClassVar[Literal["records", "edges"]] = "records"
    time_unit: ClassVar[str | None] = None

    def __init__(self, url: str) -> None: ...

    def read(self, position: Any) -> Iterator[Records]:
        """Yield the records behind a position, or from the beginning if that is None, until the source ends.

        The iteration may wait for records for any time, as it happens in a thread of its own.  Records without data only
        move the position.  Any exception ends the run, after a checkpoint with all records before it.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Disconnect.  This is called once, from another thread than that of `read`, which may be waiting."""
        return


SOURCES = Providers(
    group="rpq.sources",
    noun="source",
    like="rpq.Source",
    method="read",
    attributes={
        "guarantee": (..., *GUARANTEES),
        "delivers": ("records", "edges"),
        "time_unit": (None, "s", "ms", "us", "ns"),
    },
)
"""The sources that are installed."""
