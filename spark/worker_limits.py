"""What an engine in one of Spark's Python workers may take of its machine."""

from __future__ import annotations

import os

from rpq.engine import Engine
from rpq.running.limits import default_limit


def share_limit(given: int | None, *, threads: int, shares: int = 1) -> int:
    """The memory limit of a share in bytes: that which was `given`, or what falls to it where all cores have shares.

    Workers do not know of one another, and with as many shares as cores each must take its part of the 70 % of the machine's
    memory that engines take; with more than that (`shares` on this machine) still less.
    """
    if given is not None:
        return given
    return default_limit() * min(threads, _cores()) // max(_cores(), shares * threads)


def bytes_of(engine: Engine) -> int:
    """What an engine holds. O(queries)."""
    return engine._evaluation.guard.held


def grow_within(engine: Engine, limit: int) -> None:
    """Let an engine grow until it holds so many bytes."""
    engine._evaluation.guard.limit = limit


def _cores() -> int:
    return os.cpu_count() or 1
