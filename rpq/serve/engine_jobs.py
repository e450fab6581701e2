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
    """Tuples that wait to be pushed; `progress` tells how far an input is behind so many of them."""

    columns: pa.RecordBatch
    waiter: Waiter
    progress: Callable[[int], Any] | None = None
    arrived: float = field(default_factory=time.monotonic)
    done: int = 0
    late: int = 0
    position: int = 0
    error: Exception | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)


@dataclass(eq=False)
class Call:
    """Something else to do with the engine."""

    call: Callable[[], Any]
    waiter: Waiter
    even_if_failed: bool = False


class Stop:
    """The last job."""


def settle(waiter: Waiter, result: Any, error: Exception | None) -> None:
    """Tell who waits, unless it was told or went away."""
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(result)
