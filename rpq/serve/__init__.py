"""The HTTP server around an engine: clients post tuples, register queries, read answers and follow changes (extra `serve`).

`command` is `rpq serve`, and `serving` runs it.  `AsyncEngine` offers the same to asyncio programs, without
HTTP, and needs no extra.  Both run their engine in an `EngineThread` (`engine_thread`).
`mcp_server` offers a running server to agents (`rpq mcp`, extra `mcp`).

    body (requests) or tuples of a file or topic (feeds) → job (service: the engine in one thread) → journal (storage) →
    acknowledgement, and changes → followers

The decorators in `application` declare the `operations` and their addresses, and `models` the contents of requests and
responses; routes, validation and the OpenAPI document are derived from them.  `responses` builds the contents of responses,
`query_checks` compiles queries of clients in a process of its own, and `connections` limits connections.  `logs` has ids of
requests and the formats of the log.  `page` is the web page.

The package may import everything but `rpq.workloads` and `rpq.spark`.  Importing it, or `command`, loads neither asyncio nor
msgspec or starlette.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpq.serve.engine_thread import AsyncEngine, FollowerTooSlow

__all__ = ["AsyncEngine", "FollowerTooSlow"]

# `rpq --help` imports this package for the command; asyncio would be a tenth of its time.
_LAZY = dict.fromkeys(__all__, "rpq.serve.engine_thread")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
