"""One thread at a time: a call of an engine is refused while another thread is in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from rpq.errors import RpqError
from rpq.running.handlers import Handlers


class TakesTurns(Protocol):
    """What has calls that must not overlap, and handlers that are told what they bring afterwards."""

    _turn: threading.Lock
    _handlers: Handlers


_Self = TypeVar("_Self", bound=TakesTurns)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def alone(method: Callable[Concatenate[_Self, _Arguments], _Result]) -> Callable[Concatenate[_Self, _Arguments], _Result]:
    """Let a method be refused while another thread is in one; when it is done, handlers are told what it brought."""

    @wraps(method)
    def call(engine: _Self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if not engine._turn.acquire(blocking=False):
            raise RpqError(
                f"{method.__name__}: another thread is in a call of this engine; one thread at a time may use it. "
                "Guard it with a lock, or give each thread an engine of its own"
            )
        try:
            return method(engine, *args, **kwargs)
        finally:
            engine._turn.release()
            if engine._handlers.waiting:
                engine._handlers.tell()

    return call
