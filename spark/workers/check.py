"""The check that executors have this package in the driver's version, and its compiled kernels.

Kernels are compiled once per machine: one worker compiles them while the other workers of the machine wait and then load
them.  Afterwards a mark beside the kernels records this, so that workers that only load them do not wait for one another.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rpq
from rpq.engine.compilation import sources_digest, warm_up_once
from rpq.language.kinds import one_query_of_each_kind
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.session import task_slots, task_threads
from rpq.spark.jvm.shipped_files import equip_driver
from rpq.spark.shipping import ShippedObject
from rpq.spark.workers import probe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("rpq")

_REMEDY = (
    "ship the package with --py-files streaming_rpq-….whl, or run the executors in an archive of the driver's environment "
    "(--archives), or in an image that contains the package (docs/spark-cluster.md)"
)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The result of `check_workers`: the machines, the number of workers, and seconds of compilation by machine."""

    machines: tuple[str, ...]
    workers: int
    compiled: dict[str, float]

    def __str__(self) -> str:
        workers = f"{self.workers} {'worker' if self.workers == 1 else 'workers'}"
        machines = f"{len(self.machines)} {'machine' if len(self.machines) == 1 else 'machines'}"
        compiled = ", ".join(f"{host} in {seconds:.0f} s" for host, seconds in self.compiled.items())
        return f"{workers} on {machines} ready" + (f"; kernels compiled on {compiled}" if compiled else "")


def check_workers(session: SparkSession, *queries: rpq.Query, integers: bool = False) -> Workers:
    """Check that the executors have the packages of the driver, and compile the kernels of `queries` on their machines.

    `integers` is True if vertices are integers.  The call takes one or two seconds if the kernels are compiled already,
    otherwise up to half a minute on each machine.  Raises `PipelineError` if a package is missing or of another version.

    >>> import rpq
    >>> from rpq.spark import check_workers, open_session
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> print(check_workers(open_session(), query))  # doctest: +SKIP
    2 workers on 1 machine ready
    """
    check_classic(session, "check_workers")
    equip_driver(session)
    slots, threads, vertices = task_slots(session), task_threads(session), "int64" if integers else "string"
    reports = _probe_workers(session, slots)
    for report in reports:
        where = f"the executor on {report['host']} (Python {report['python']})"
        if report["problem"] is not None:
            raise PipelineError(f"{where} cannot run queries: {report['problem']}; {_REMEDY}")
        if report["rpq"] != rpq.__version__:
            raise PipelineError(f"{where} has streaming-rpq {report['rpq']}, the driver {rpq.__version__}; {_REMEDY}")
        if report["sources"] != sources_digest():
            raise PipelineError(
                f"{where} has a streaming-rpq {report['rpq']} in {report['place']} that differs from the driver's, though "
                f"the version is the same; {_REMEDY}"
            )
    compiled: dict[str, float] = {}
    if queries:
        task = WarmUp(one_query_of_each_kind(queries), vertices=vertices, threads=threads)
        for host, seconds, reason in session.sparkContext.parallelize(range(slots), slots).mapPartitions(task).collect():
            if reason is not None:
                compiled[host] = max(seconds, compiled.get(host, 0.0))
                _log.info("kernels compiled on %s in %.1f s: %s", host, seconds, reason)
    machines = tuple(sorted({report["host"] for report in reports}))
    return Workers(machines=machines, workers=len({(one["host"], one["process"]) for one in reports}), compiled=compiled)


class WarmUp(ShippedObject):
    """A function for `mapPartitions` that compiles, or loads, the kernels of queries."""

    def __init__(self, queries: Sequence[rpq.Query], *, vertices: str, threads: int) -> None:
        self._queries = tuple(queries)
        self._vertices = vertices
        self._threads = threads

    def __call__(self, tasks: Any) -> list[tuple[str, float, str | None]]:
        return [
            (socket.gethostname(), *warm_up_once(self._queries, vertices=self._vertices, threads=self._threads))
            for _ in tasks
        ]


def _probe_workers(session: SparkSession, slots: int) -> list[dict[str, Any]]:
    """Return the reports of the workers of all task slots (`rpq.spark.workers.probe`)."""
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException

    cloudpickle.register_pickle_by_value(probe)
    try:
        tasks = session.sparkContext.parallelize(range(slots), slots)
        return list(tasks.mapPartitions(probe.probe).collect())
    except PySparkException as error:
        if "PYTHON_VERSION_MISMATCH" in str(error):
            found = next((line for line in str(error).splitlines() if "PYTHON_VERSION_MISMATCH" in line), "")
            raise PipelineError(f"{found.strip()}; set PYSPARK_PYTHON to the same Python on all machines") from error
        raise
    finally:
        cloudpickle.unregister_pickle_by_value(probe)
