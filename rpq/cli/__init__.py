"""The command `rpq`; `main` is the entry point of the console script.

`group` finds commands by name; `run`, `explain` and `warm_up` are the built-in ones, and `options` has the options that
commands share.  A run is a `request`, checked by `validation`, and executed by `execution`, over files or topics
(Kafka) with `inputs`, `run_outputs` and `outputs`, `checkpoint`, and `reporting`.

The package may import everything but `rpq.serve`, `rpq.workloads` and `rpq.spark`.  Importing it loads click and nothing
heavy (numba, Arrow, pandas): commands import the engine when they run.
"""

from __future__ import annotations

import os

# Arrow's own allocator keeps tens of megabytes more than the readers use at once.  Arrow reads this when it is imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from rpq.cli.group import main

__all__ = ["main"]
