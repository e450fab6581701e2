"""The engine on Spark: preparing data sets, replaying them in batch, and structured streaming.

- `prepare`: raw files of any format → a sorted Parquet data set with statistics
- `replay`: a prepared data set or a DataFrame of edges, and queries → answer changes as a DataFrame
- `replay_to`: the same into a folder of Parquet files, which is faster than writing the DataFrame
- `rpq_changes`: a streaming DataFrame of edges and queries → a streaming DataFrame of answer changes
- `stream_to`: the same as a writer that has its checkpoint, by default into a folder of Parquet files
- `changes`: a step of `DataFrame.transform` that returns answer changes, over streaming and other DataFrames
- `register_functions`: replays in SQL, by the table function `rpq_changes`
- `rescale`: a change of the shares or the queries of an existing stream
- `RpqDataSource`: prepared data sets by `spark.read.format("rpq")`
- `open_session`: a Spark session with the settings that the others need
- `check_workers`: a check that executors have the packages of the driver; it compiles kernels, once per machine

Replays and streams divide the roots of the trees over partitions by a fixed hash of the root's name: every partition
sees all edges that path queries read and answers for its own roots. Of patterns it sees the edges of its cell
(`division`). This needs the extra `spark` and Java 17 or newer; docs/spark-cluster.md describes how executors get
this package.

Batch jobs are in `batch`, streams in `stream`, access to Spark in `jvm`, and the checks of workers' Python in `workers`.  Of
the modules here, `cli` and `benchmark` are commands, and `functions` has functions that use both batch jobs and streams.
Batch jobs and streams share the others: `columns`, `division`, `envelopes`, `line_blocks`, `record_edges`,
`parquet_content`, `shipping` and `errors`, which import `jvm`, but neither `batch` nor `stream`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpq.spark.batch.prepare import prepare
    from rpq.spark.batch.replay import replay, replay_to
    from rpq.spark.functions import changes, register_functions
    from rpq.spark.jvm.data_source import RpqDataSource
    from rpq.spark.jvm.session import open_session
    from rpq.spark.stream.plan import rpq_changes, stream_to
    from rpq.spark.stream.rescale import rescale
    from rpq.spark.workers.check import check_workers

__all__ = [
    "RpqDataSource",
    "changes",
    "check_workers",
    "open_session",
    "prepare",
    "register_functions",
    "replay",
    "replay_to",
    "rescale",
    "rpq_changes",
    "stream_to",
]

_MODULES = {
    "RpqDataSource": "jvm.data_source",
    "changes": "functions",
    "check_workers": "workers.check",
    "open_session": "jvm.session",
    "prepare": "batch.prepare",
    "register_functions": "functions",
    "replay": "batch.replay",
    "replay_to": "batch.replay",
    "rescale": "stream.rescale",
    "rpq_changes": "stream.plan",
    "stream_to": "stream.plan",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use, so that the command line can load this package without PySpark."""
    if name in _MODULES:
        return getattr(import_module(f"rpq.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'rpq.spark' has no attribute {name!r}")
