"""The HTTP server around an engine: clients post tuples, register queries, read answers and follow changes (extra `serve`).

`command` is `rpq serve`.  `AsyncEngine` offers the same to asyncio programs, without HTTP, and needs no extra.  Both run
their engine in an `EngineThread`.

    body (requests) → job (service: the engine in one thread) → journal (storage) → acknowledgement
                                                                   ↘ changes → followers

The decorators in `application` declare the operations and their addresses, and `models` the contents of requests and
responses; routes, validation and the OpenAPI document are derived from them.

The package may import everything but `rpq.workloads` and `rpq.spark`.  Importing it, or `command`, loads neither msgspec nor
starlette.
"""

from rpq.serve.engine_thread import AsyncEngine, FollowerTooSlow

__all__ = ["AsyncEngine", "FollowerTooSlow"]
