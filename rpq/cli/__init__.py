"""The command `rpq`.

`main` is what the console script calls.  Importing this imports click and nothing heavy: commands bring in the engine
when they run.
"""

from __future__ import annotations

import os

# Arrow's own allocator keeps tens of megabytes more than the readers ever use at once; read when Arrow is imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from rpq.cli.group import main

__all__ = ["main"]
