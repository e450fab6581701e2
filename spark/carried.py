"""A value that goes to tasks together with what they run, when they ask for it.

Small values go along; others are broadcast.  A broadcast of Spark's cannot be unpickled where it has not arrived, and the
driver looks at a stateful processor in a worker to which nothing is broadcast: what stands for one here can.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Protocol

from rpq.spark.shipped import Shipped

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

MOST_ALONG = 1 << 19
"""Bytes that go along with a function: Spark broadcasts one that has more than twice as many."""


class Carried(Protocol):
    """A value that has come, or comes when it is asked for."""

    @property
    def value(self) -> Any:
        """The value."""


def carried(session: SparkSession, value: Any) -> Carried:
    """A value as tasks of a session may have it."""
    if len(pickle.dumps(value)) <= MOST_ALONG:
        return _Along(value)
    return _ByBroadcast(session.sparkContext.broadcast(value))


class _Along(Shipped):
    def __init__(self, value: Any) -> None:
        self.value = value


class _ByBroadcast:
    def __init__(self, broadcast: Broadcast[Any]) -> None:
        self._broadcast = broadcast

    @property
    def value(self) -> Any:
        return self._broadcast.value

    def __reduce__(self) -> tuple[Any, ...]:
        _, number = self._broadcast.__reduce__()  # with this Spark knows that tasks need it
        return _Arrived, number


class _Arrived:
    """A broadcast in a worker."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def value(self) -> Any:
        from pyspark.core.broadcast import _from_id

        return _from_id(self._number).value

    def __reduce__(self) -> tuple[Any, ...]:
        return _Arrived, (self._number,)
