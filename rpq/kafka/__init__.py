"""Runs that read topics of Apache Kafka and write topics, exactly once, with the extra `kafka` (`pip install '.[kafka]'`).

`TopicRun` (of `topic_run`) is the run, which `rpq run` and `rpq.run_topics` set up.  A stream passes through

    messages (topic_reader, message_reader, rdf_messages, schema_registry) → one order (partition_merge, topic_source)
    → the engine (rpq.run) → rows as messages in a transaction that carries the offsets (row_outputs)

Three things record the position of a run: a checkpoint with the engine's state, written rarely; a journal of the order since
then; and the offsets of the last committed transaction.  After a crash the engine replays the journal from the checkpoint up
to those offsets, without sending rows, and continues.

`client` has the clients of Kafka with their settings and logs, and `metrics` the figures of a run for Prometheus.

The package may import everything but `rpq.cli`, `rpq.serve`, `rpq.workloads` and `rpq.spark`.  The help of commands imports
`topic_names`, which therefore imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpq.kafka.schema_registry import SchemaRegistry
    from rpq.kafka.topic_reader import TopicFigures

__all__ = ["SchemaRegistry", "TopicFigures"]

_LAZY = {
    "SchemaRegistry": "rpq.kafka.schema_registry",
    "TopicFigures": "rpq.kafka.topic_reader",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
