"""Objects and values that are sent to Spark's workers.

Objects of this package record the version that pickled them (`ShippedObject`).  Small values are sent with the function
that uses them, others are broadcast (`ship_value`).  A broadcast of Spark cannot be unpickled in a process that has not
received it, and the driver inspects a stateful processor in a worker to which nothing is broadcast.  A `ShippedValue`
represents the broadcast in such a process, and fetches the value only when it is used.
"""

from __future__ import annotations

import pickle
import platform
import socket
from typing import TYPE_CHECKING, Any, Protocol

import rpq
from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession


class ShippedObject:
    """An object of this package for tasks.  Unpickling it with another version of the package raises `PipelineError`."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed_by": rpq.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed_by = state.pop("_packed_by", "another release")
        if packed_by != rpq.__version__:
            raise PipelineError(version_mismatch("streaming-rpq", rpq.__version__, packed_by))
        self.__dict__.update(state)


def version_mismatch(package: str, executor: str, driver: str) -> str:
    """Return the message for an executor whose version of a package is not the driver's."""
    return (
        f"the executor on {socket.gethostname()} (Python {platform.python_version()}) has {package} {executor}, "
        f"the driver has {driver}: use the same version on both, with one wheel for --py-files, one archived environment, "
        "or one image"
    )


MAX_INLINE_BYTES = 1 << 19
"""The largest number of bytes that are sent with a function.  Spark broadcasts functions of more than twice this size."""


class ShippedValue(Protocol):
    """A value in a worker, fetched when it is first used."""

    @property
    def value(self) -> Any:
        """The value."""


def ship_value(session: SparkSession, value: Any) -> ShippedValue:
    """Return a value in a form that tasks of a session can unpickle and use."""
    if len(pickle.dumps(value)) <= MAX_INLINE_BYTES:
        return _Inline(value)
    return _Broadcast(session.sparkContext.broadcast(value))


class _Inline(ShippedObject):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Broadcast:
    def __init__(self, broadcast: Broadcast[Any]) -> None:
        self._broadcast = broadcast

    @property
    def value(self) -> Any:
        return self._broadcast.value

    def __reduce__(self) -> tuple[Any, ...]:
        _, number = self._broadcast.__reduce__()  # this also registers the broadcast for the tasks
        return _ReceivedBroadcast, number


class _ReceivedBroadcast:
    """A broadcast in a worker, by its number."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def value(self) -> Any:
        from pyspark.core.broadcast import _from_id

        return _from_id(self._number).value

    def __reduce__(self) -> tuple[Any, ...]:
        return _ReceivedBroadcast, (self._number,)
