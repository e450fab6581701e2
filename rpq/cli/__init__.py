"""The command `rpq`.

`main` is what the console script calls.  Importing this imports click and nothing heavy: commands bring in the engine
when they run.
"""

from __future__ import annotations

from rpq.cli.group import main

__all__ = ["main"]
