"""Whether executors can do what they will be asked: they have this package, this version of it, and its kernels.

Kernels are compiled once a machine: one worker does it while the others of the machine wait, and these find them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rpq
from rpq.cli.reporting import one_query_of_each_kind
from rpq.compiled.kernel_sources import digest
from rpq.spark import worker_probe
from rpq.spark.classic import check_classic
from rpq.spark.errors import PipelineError
from rpq.spark.shipped import Shipped
from rpq.spark.slots import task_slots, task_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("rpq")

_HOW = (
    "ship the package with --py-files streaming_rpq-….whl, run the executors in an archive of the driver's environment "
    "(--archives), or in an image that has it (docs/spark-cluster.md)"
)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """What `check_workers` found: the machines, how many workers answered, and the seconds of those that compiled."""

    machines: tuple[str, ...]
    workers: int
    compiled: dict[str, float]

    def __str__(self) -> str:
        workers = f"{self.workers} {'worker' if self.workers == 1 else 'workers'}"
        machines = f"{len(self.machines)} {'machine' if len(self.machines) == 1 else 'machines'}"
        compiled = ", ".join(f"{host} in {seconds:.0f} s" for host, seconds in self.compiled.items())
        return f"{workers} on {machines} ready" + (f"; kernels compiled on {compiled}" if compiled else "")


def check_workers(session: SparkSession, *queries: rpq.Query, integers: bool = False) -> Workers:
    """Raise `PipelineError` unless the executors have what the driver has; let them compile what `queries` need.

    `integers` tells that vertices are numbers.  Takes a second or two where kernels are compiled already, else up to a
    minute on each machine.

    >>> import rpq
    >>> from rpq.spark import check_workers, open_session
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> print(check_workers(open_session(), query))  # doctest: +SKIP
    2 workers on 1 machine ready
    """
    check_classic(session)
    reports = _reports(session)
    for report in reports:
        where = f"the executor on {report['host']} (Python {report['python']})"
        if report["problem"] is not None:
            raise PipelineError(f"{where} cannot run queries: {report['problem']}; {_HOW}")
        if report["rpq"] != rpq.__version__:
            raise PipelineError(f"{where} has streaming-rpq {report['rpq']}, the driver {rpq.__version__}; {_HOW}")
        if report["sources"] != digest("rpq.engine"):
            raise PipelineError(
                f"{where} has a streaming-rpq {report['rpq']} in {report['place']} that is not the driver's, though it has "
                f"the same number; {_HOW}"
            )
    compiled: dict[str, float] = {}
    if queries:
        slots = task_slots(session)
        vertices = "int64" if integers else "string"
        task = WarmUp(one_query_of_each_kind(queries), vertices=vertices, threads=task_threads(session))
        warmed = session.sparkContext.parallelize(range(slots), slots).mapPartitions(task).collect()
        for host, seconds, why in warmed:
            if why is not None:
                compiled[host] = max(seconds, compiled.get(host, 0.0))
                _log.info("kernels compiled on %s in %.1f s: %s", host, seconds, why)
    machines = tuple(sorted({report["host"] for report in reports}))
    return Workers(machines=machines, workers=len({(one["host"], one["process"]) for one in reports}), compiled=compiled)


class WarmUp(Shipped):
    """What a task runs: compile, or load, the kernels of queries.  For `mapPartitions`."""

    def __init__(self, queries: Sequence[rpq.Query], *, vertices: str, threads: int) -> None:
        self._queries = tuple(queries)
        self._vertices = vertices
        self._threads = threads

    def __call__(self, tasks: Any) -> list[tuple[str, float, str | None]]:
        import socket

        from rpq.spark.warmed import warmed

        return [(socket.gethostname(), *warmed(self._queries, self._vertices, self._threads)) for _ in tasks]


def _reports(session: SparkSession) -> list[dict[str, Any]]:
    """What the workers of all task slots say."""
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException

    slots = task_slots(session)
    cloudpickle.register_pickle_by_value(worker_probe)
    try:
        tasks = session.sparkContext.parallelize(range(slots), slots)
        return list(tasks.mapPartitions(worker_probe.probe).collect())
    except PySparkException as error:
        if "PYTHON_VERSION_MISMATCH" in str(error):
            found = next((line for line in str(error).splitlines() if "PYTHON_VERSION_MISMATCH" in line), "")
            raise PipelineError(f"{found.strip()}; let PYSPARK_PYTHON name the same Python on all machines") from error
        raise
    finally:
        cloudpickle.unregister_pickle_by_value(worker_probe)
