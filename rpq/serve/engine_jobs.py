"""What the engine of a server is asked to do, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rpq.errors import RpqError


class ServiceFailed(RpqError):
    """The engine takes nothing more; the message says why."""


class StorageUnavailable(RpqError):
    """What was asked for cannot be saved now, and was not done; the message says why.

    `is_full` tells a disk without room from one that fails otherwise; it is worth asking again after `retry_after` seconds.
    """

    def __init__(self, message: str, *, is_full: bool, retry_after: int) -> None:
        super().__init__(message)
        self.is_full = is_full
        self.retry_after = retry_after


class NameTaken(RpqError):
    """There is a query of that name already."""


class NoSuchQuery(RpqError):
    """There is no query of that name."""


class TooManyQueries(RpqError):
    """As many queries are registered as may be."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What became of posted tuples: `position` is that of the last push."""

    tuples: int
    late: int
    time: Any
    position: int
    warnings: tuple[str, ...] = ()


class NotApplied(RpqError):
    """Posted tuples were not all applied: `applied` of them were, and `cause` says what is wrong with the next."""

    def __init__(self, cause: Exception, *, applied: int, position: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.applied = applied
        self.position = position


Waiter = asyncio.Future[Any] | Future[Any]


@dataclass(eq=False)
class Push:
    """Tuples that wait to be pushed; `progress` tells how far an input is behind so many of them.

    Those of an input wait (`waits_for_storage`) while they cannot be saved; others are refused.
    """

    columns: pa.RecordBatch
    waiter: Waiter
    progress: Callable[[int], Any] | None = None
    waits_for_storage: bool = False
    arrived: float = field(default_factory=time.monotonic)
    done: int = 0
    late: int = 0
    position: int = 0
    error: Exception | None = None
    warnings: list[str] = field(default_factory=list)
    _saved: tuple[int, int, int] = (0, 0, 0)

    def note_saved(self) -> None:
        """What was done is on disk."""
        self._saved = self.done, self.late, self.position

    def take_back(self) -> None:
        """What was done and is not on disk was not done."""
        self.done, self.late, self.position = self._saved
        self.error = None

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)


@dataclass(eq=False)
class Call:
    """Something else to do with the engine."""

    call: Callable[[], Any]
    waiter: Waiter
    even_if_failed: bool = False
    writes: bool = False
    """Whether it does what must be saved."""


class Stop:
    """The last job."""


def settle(waiter: Waiter, result: Any, error: BaseException | None) -> None:
    """Tell who waits, unless it was told or went away."""
    if waiter.done():
        return
    if error is not None:
        # An asyncio future refuses StopIteration, and an event loop ends at what is no Exception.
        is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        waiter.set_exception(error if is_plain else RuntimeError(f"the call raised {error!r}"))
    else:
        waiter.set_result(result)
