"""The check that executors have this package in the driver's version, and its compiled kernels.

Kernels are compiled once per machine: one worker compiles them while the other workers of the machine wait and then load
them.  Afterwards a mark beside the kernels records this, so that workers that only load them do not wait for one another.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import rpq
from rpq.engine.compilation import are_compiled, sources_digest, warm_up_once
from rpq.language.kinds import one_query_of_each_kind
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.session import is_local, task_slots, task_threads
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
    if _run_this_python(session) and (not queries or are_compiled(queries, vertices=vertices, threads=threads)):
        _start_workers(session, KernelLoader(queries, vertices=vertices, threads=threads), slots)
        return Workers(machines=(socket.gethostname(),), workers=slots, compiled={})
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


class KernelLoader(ShippedObject):
    """A function for `mapInArrow` that loads the kernels of queries, and returns nothing."""

    def __init__(self, queries: Sequence[rpq.Query], *, vertices: str, threads: int) -> None:
        self._queries = tuple(queries)
        self._vertices = vertices
        self._threads = threads

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            for query in one_query_of_each_kind(self._queries):
                rpq.warm_up(query, vertices=self._vertices, threads=self._threads)
        yield from ()


def _start_workers(session: SparkSession, loader: KernelLoader, slots: int) -> None:
    """Start workers on this machine, which load kernels while Spark plans the job that needs them."""

    def run() -> None:
        with suppress(Exception):  # the session may end meanwhile, and a worker that cannot start fails the job too
            session.range(0, slots, 1, slots).mapInArrow(loader, "id bigint").collect()

    threading.Thread(target=run, daemon=True).start()


def _run_this_python(session: SparkSession) -> bool:
    """Return whether workers run on this machine, with the Python of this process and without shipped files."""
    context = session.sparkContext
    return is_local(context.master) and context.pythonExec == sys.executable and not context._python_includes


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
