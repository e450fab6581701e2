"""What a server takes from those who talk to it, and no more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """Limits of a server: `body_bytes` of one request, `queries` that are registered over HTTP, `followers` at once.

    `lag_rows` is how many rows of changes may wait for a follower before it is dropped, `kept_rows` how many are kept for
    those who come back, `waiting_bytes` how many bytes of posted tuples may wait for the engine.

    >>> ServeLimits().queries
    1000
    """

    body_bytes: int = 16 << 20
    queries: int = 1000
    followers: int = 1000
    lag_rows: int = 100_000
    kept_rows: int = 100_000
    waiting_bytes: int = 256 << 20
