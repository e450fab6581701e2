"""What an engine in one of Spark's Python workers may take of its machine."""

from __future__ import annotations

import os
from typing import Protocol

from rpq.engine import Engine
from rpq.running.limits import default_limit


class Others(Protocol):
    """Engines that can be let go."""

    @property
    def nbytes(self) -> int:
        """Bytes that they hold."""

    def shrink(self, most: int) -> None:
        """Let some go until they hold at most so many bytes."""


def share_limit(given: int | None, *, threads: int) -> int:
    """The memory limit of a share in bytes: that which was `given`, or what falls to it where all cores have shares.

    Workers do not know of one another, and with as many shares as cores each must take its part of the 70 % of the machine's
    memory that engines take.
    """
    if given is not None:
        return given
    return default_limit() * min(threads, _cores()) // _cores()


def bytes_of(engine: Engine) -> int:
    """What an engine holds. O(queries)."""
    return engine._evaluation.guard.held


def make_room(engine: Engine, others: Others, limit: int) -> None:
    """Let an engine grow within the limit of its worker, which others are in as well.

    Those go, the one used longest ago first, that leave it less than half of the limit to grow by.
    """
    others.shrink(max(0, limit // 2 - bytes_of(engine)))
    engine._evaluation.guard.limit = limit - others.nbytes


def _cores() -> int:
    return os.cpu_count() or 1
