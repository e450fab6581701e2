"""The HTTP server around an engine: clients post tuples, register queries, read answers and follow changes (extra `serve`).

`command` is `rpq serve`, and `serving` runs it.  `AsyncEngine` (`async_engine`) offers the same to asyncio programs, without
HTTP, and needs no extra.  Both run their engine in an `EngineThread` (`engine_thread`).

    body (requests) or tuples of a file or topic (feeds) → job (service: the engine in one thread) → journal (storage) →
    acknowledgement, and changes → followers

The decorators in `application` declare the `operations` and their addresses, and `models` the contents of requests and
responses; routes, validation and the OpenAPI document are derived from them.  `responses` builds the contents of responses,
`query_checks` compiles queries of clients in a process of its own, and `connections` limits connections.  `page` is the web
page.

The package may import everything but `rpq.workloads` and `rpq.spark`.  Importing it, or `command`, loads neither msgspec nor
starlette.
"""

from rpq.serve.engine_thread import AsyncEngine, FollowerTooSlow

__all__ = ["AsyncEngine", "FollowerTooSlow"]
