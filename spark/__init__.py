"""The engine on Spark: preparing data sets, replaying them in batch, and structured streaming.

- `prepare`: raw files of any format → a sorted Parquet data set with statistics
- `replay`: a prepared data set and queries → answer changes as a DataFrame
- `rpq_changes`: a streaming DataFrame of edges and queries → a streaming DataFrame of answer changes
- `open_session`: a Spark session with the settings that these need

All three divide the roots of the trees over partitions by a fixed hash of the root's name: every partition sees all
edges and answers for its own roots.  Needs the extra `spark` and Java 17 or newer, and this package installed on
every node.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpq.spark.preparing import prepare
    from rpq.spark.replaying import replay
    from rpq.spark.spark_session import open_session
    from rpq.spark.streaming import rpq_changes

__all__ = ["open_session", "prepare", "replay", "rpq_changes"]

_HOMES = {"open_session": "spark_session", "prepare": "preparing", "replay": "replaying", "rpq_changes": "streaming"}


def __getattr__(name: str) -> Any:
    """Import PySpark only when something of it is asked for: the command line loads this package for its help."""
    if name in _HOMES:
        return getattr(import_module(f"rpq.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rpq.spark' has no attribute {name!r}")
