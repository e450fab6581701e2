"""From topics of Apache Kafka to topics, exactly once.  Needs the extra `kafka`: `pip install '.[kafka]'` in a checkout.

`run_topics` is the way in.  A stream goes through

    messages (message_tuples, message_columns) → one order (partition_merge) → the engine → rows (row_messages)
    → a transaction that carries the offsets (transactions)

and where it stands is told by three things: a checkpoint with the engine's state (run_position), written rarely; a
journal of the order since then (journal); and the offsets that the last transaction committed.  After a crash the engine
replays the journal from the checkpoint up to those offsets, silently, and goes on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpq.kafka.from_topics import run_topics
    from rpq.kafka.topic_reader import TopicFigures

__all__ = ["TopicFigures", "run_topics"]

_LAZY = {"TopicFigures": "rpq.kafka.topic_reader", "run_topics": "rpq.kafka.from_topics"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
