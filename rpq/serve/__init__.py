"""An engine behind HTTP: tuples are posted, queries registered, answers read and changes followed (extra `serve`).

`rpq serve` is the command; `AsyncEngine` is the same for programs of asyncio, without HTTP, and needs no extra.

    body (requests) → job (service: the engine in one thread) → journal (storage) → acknowledgement
                                                                   ↘ changes (changes) → followers

What can be asked, by which addresses, is said by the decorators in `application`, what goes in and out by `models`; routes,
checks and the OpenAPI document are made of these.
"""

from rpq.serve.async_engine import AsyncEngine, FollowerTooSlow

__all__ = ["AsyncEngine", "FollowerTooSlow"]
