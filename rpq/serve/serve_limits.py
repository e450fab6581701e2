"""What a server takes from those who talk to it, and no more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """Limits of a server: `body_bytes` of one request, `queries` that are registered over HTTP, `followers` at once.

    `lag_rows` is how many rows of changes may wait for a follower before it is dropped, `kept_rows` how many are kept for
    those who come back, `waiting_bytes` how many bytes of bodies may wait for the engine, those under way included.

    At most `connections` are open. The head of a request, and each further part of a body, has to come within
    `request_seconds`; a connection without a request, or whose client does not read, is closed after `idle_seconds`.

    The text of a query has at most `expression_bytes`; compiling and explaining it takes `check_seconds` at most.

    >>> ServeLimits().queries
    1000
    """

    body_bytes: int = 16 << 20
    queries: int = 1000
    followers: int = 1000
    lag_rows: int = 100_000
    kept_rows: int = 100_000
    waiting_bytes: int = 256 << 20
    connections: int = 2000
    request_seconds: float = 20.0
    idle_seconds: float = 75.0
    expression_bytes: int = 64 << 10
    check_seconds: float = 5.0
