"""How many tasks a cluster runs at once, and how many threads each may have: what shares are divided by."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_QUIET_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_warned: set[tuple[str, int]] = set()


def task_threads(session: SparkSession) -> int:
    """The cores of a task (`spark.task.cpus`): so many threads an engine has there."""
    return max(1, int(session.conf.get("spark.task.cpus", "1") or 1))


def task_slots(session: SparkSession) -> int:
    """How many tasks run at once, as far as executors have come up by now."""
    return max(1, int(session.sparkContext.defaultParallelism) // task_threads(session))


def wait_for_executors(session: SparkSession, *, seconds: float = 30.0) -> int:
    """Wait until the executors that were asked for have come up, or no more come for some seconds; how many there are.

    Spark counts slots only as executors register, and shares are divided by them.
    """
    wanted = int(session.sparkContext.getConf().get("spark.executor.instances", "0") or 0)
    end = time.monotonic() + seconds
    found, since = 0, time.monotonic()
    while time.monotonic() < end and not (found and (found == wanted or time.monotonic() - since > _QUIET_SECONDS)):
        # One more than there are: the driver counts as one.
        now = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        if now != found:
            found, since = now, time.monotonic()
        time.sleep(_LOOK_SECONDS)
    return found


def shares_of(session: SparkSession, partitions: int | None) -> int:
    """How many shares there are: as many as were asked for, or one a task slot.  Raises `PipelineError` for none."""
    if partitions is None:
        return task_slots(session)
    if isinstance(partitions, bool) or not hasattr(partitions, "__index__") or partitions < 1:
        raise PipelineError(f"partitions is {partitions!r}; expected a whole number, at least 1")
    return int(partitions)


def warn_of_shuffle_partitions(session: SparkSession, shares: int) -> None:
    """Say once what to write where Spark would make many more tasks, or fewer, for the state than there are shares.

    A stateful operator has as many tasks as shuffle partitions at its first start, each with a state store that is
    committed with every micro-batch: 200, where nobody says anything.
    """
    found = str(session.conf.get(SHUFFLE_PARTITIONS, "200"))
    if found == str(shares) or (found, shares) in _warned:
        return
    _warned.add((found, shares))
    warnings.warn(
        f"{SHUFFLE_PARTITIONS} is {found} and there are {shares} shares: every micro-batch of a new stream will run {found} "
        f"tasks. Write spark.conf.set({SHUFFLE_PARTITIONS!r}, {shares}) before the stream starts for the first time",
        stacklevel=3,
    )
