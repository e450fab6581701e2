"""Outputs that other packages add, by the scheme of a URL: the protocol `Sink`, and the entry points that name sinks.

A package adds a sink by an entry point in the group `rpq.sinks`, whose name is the scheme: with
`nats = "package:NatsSink"`, `--output nats://server/subject` makes `NatsSink("nats://server/subject")` and writes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from rpq.stream.providers import Providers, scheme_of

if TYPE_CHECKING:
    import pyarrow as pa

SinkGuarantee = Literal["commit", "rewind", "key", "none"]

SINK_GUARANTEES = {
    "commit": "stores rows and the position of the input together (exactly once)",
    "rewind": "is cut back to the position of a checkpoint (exactly once)",
    "key": "receives batches with keys, which stay the same when they are sent again (at least once)",
    "none": "cannot take rows back (at least once)",
}
"""The meaning of each guarantee, for messages."""


class Sink(Protocol):
    """An output of `rpq run`: of another package, for URLs of a scheme, or one of the files and tables that are built in.

    The class is called with the URL; whatever can be set stands in it, such as `?durable=1`.  Raise `rpq.InputError` for a
    URL that is wrong.  A login in the URL is left out of messages and checkpoints.  Any exception of a method ends the run;
    if the system behind the sink may be away for a while, try again before.

    `guarantee` says what a run that is resumed from its `--checkpoint` does about rows that it wrote after it:

    - `"commit"`: `commit` stores the rows since the last one and a number together, or neither, and `last_commit` returns
      the number.  The resumed run continues behind it.  Each row is there once.
    - `"rewind"`: `begin` cuts the output back to what `position` returned, and the rows are written again.  Each row is
      there once.
    - `"key"`: `commit` sends the rows since the last one as a batch of at most `batch_rows`.  The resumed run sends the
      batches since the checkpoint again, each with the same rows and number; run and number are its key.  At least once.
    - `"none"`: the rows since the checkpoint are written again, perhaps in another order.  At least once.

    `batch_rows` is also the number of rows that are committed without waiting for more, with `commit` and `key`.
    Numbers grow; only the rows of reports at the end of the input may be committed with the number before, without `key`.

    >>> class Total(Sink):
    ...     guarantee = "commit"
    ...     def __init__(self, url: str) -> None:
    ...         self.stored, self.waiting = (0, 0), 0
    ...     def write(self, rows: pa.Table) -> None:
    ...         self.waiting += rows.num_rows
    ...     def commit(self, number: int) -> None:
    ...         self.stored, self.waiting = (number, self.stored[1] + self.waiting), 0
    ...     def last_commit(self) -> int:
    ...         return self.stored[0]
    """

    guarantee: ClassVar[SinkGuarantee]
    batch_rows: int = 10_000

    def __init__(self, url: str) -> None: ...

    def begin(self, run: str, position: Any) -> None:
        """Open the output, before anything else is called.

        `run` is a name that a run keeps when it is resumed.  `position` is None for a new run, otherwise that of the
        checkpoint: what `position` returned, or, with `commit` and `key`, the number of the last commit before it.
        """
        return

    def write(self, rows: pa.Table) -> None:
        """Write rows, or collect them until `commit` or `position`.

        The columns are those of a file: `query` if queries come from a file, then the columns of the answers, `timestamp`
        and `op`, then those of `--witness` and `--message`.  Computed values are texts.
        """
        raise NotImplementedError

    def commit(self, number: int) -> None:
        """Make the rows since the last commit final.  Only called with the guarantees `commit` and `key`."""
        return

    def last_commit(self) -> int:
        """Return the number of the last commit of this run, 0 if there is none.  Only called with the guarantee `commit`."""
        return 0

    def position(self) -> Any:
        """Put everything written on disk, and return the position behind it, a value that JSON can have.

        Only called with the guarantees `rewind` and `none`, at checkpoints.
        """
        return None

    def close(self) -> None:
        """Write what was not written yet, and disconnect.  This is called once, also after an error.

        With the guarantees `commit` and `key`, rows that were not committed must not be written.
        """
        return


SINKS = Providers(
    group="rpq.sinks", noun="sink", like="rpq.Sink", method="write", attributes={"guarantee": (..., *SINK_GUARANTEES)}
)
"""The sinks that are installed."""


def is_webhook(path: object) -> bool:
    """Return whether a path is a URL to which rows are posted.

    >>> is_webhook("https://example.org/rows"), is_webhook("rows.csv")
    (True, False)
    """
    return scheme_of(path) in ("http", "https")


def is_sink(path: object) -> bool:
    """Return whether a path is a URL of a webhook, or of a sink of another package."""
    return is_webhook(path) or SINKS.has(path)
