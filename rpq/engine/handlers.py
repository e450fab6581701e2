"""Calls of an engine: handlers that are called with the rows of queries, and one calling thread at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from rpq.errors import QueryError, RpqError
from rpq.rows.changes import Change, Changes

Handler = Callable[[list[Change]], object]
"""A function that is called with the rows of one query that a call of the engine brought, at least one, in time order."""


def refuse_unless_callable(handler: Any) -> None:
    """Raise `QueryError` for a handler that is no function, and not None."""
    if handler is not None and not callable(handler):
        raise QueryError(f"a handler is a function that is called with a list of rows, not {handler!r}")


class Handlers:
    """The functions that are called with the rows of queries, and rows that wait for such calls.

    Rows that come during the calls, where a handler itself uses the engine, are passed on by the same `deliver`.
    """

    def __init__(self) -> None:
        self._of_query: dict[str, list[Handler]] = {}
        self._of_all: list[Handler] = []
        self.waiting: deque[Changes] = deque()
        """The rows that wait for `deliver`."""
        self._is_delivering = False

    def __bool__(self) -> bool:
        return bool(self._of_query or self._of_all)

    def add(self, handler: Handler, queries: Iterable[str] | None) -> None:
        """Add a function that is called with the rows of queries, of all for None."""
        if queries is None:
            self._of_all.append(handler)
            return
        for name in queries:
            self._of_query.setdefault(name, []).append(handler)

    def drop(self, queries: Iterable[str]) -> None:
        """Remove the handlers of queries that were unregistered: later queries may have their names."""
        if self._of_query:
            for name in queries:
                self._of_query.pop(name, None)

    def take(self, changes: Changes) -> None:
        """Append rows to those that wait for `deliver`."""
        if len(changes):
            self.waiting.append(changes)

    def deliver(self) -> None:
        """Call all functions, and then raise the first exception that one of them raised. O(rows)."""
        if self._is_delivering:
            return  # a handler called the engine
        problem: Exception | None = None
        self._is_delivering = True
        try:
            while self.waiting:
                for handler, rows in self._calls(self.waiting.popleft()):
                    try:
                        handler(rows)
                    except Exception as raised:
                        problem = problem or raised
        finally:
            self._is_delivering = False
        if problem is not None:
            raise problem

    def _calls(self, changes: Changes) -> list[tuple[Handler, list[Change]]]:
        """Return the calls that deliver rows, query by query."""
        names: Any = self._of_query if not self._of_all else _EVERY
        return [
            (handler, rows)
            for name, rows in changes._of_queries(names).items()
            for handler in (*self._of_query.get(name, ()), *self._of_all)
        ]


class _Everything:
    """A container of everything."""

    def __contains__(self, name: object) -> bool:
        return True


_EVERY = _Everything()


# --- one thread at a time -----------------------------------------------------------------------------------

class TakesTurns(Protocol):
    """The protocol of an object whose calls must not overlap, and whose handlers are called when one is done."""

    _turn: threading.Lock
    _handlers: Handlers


_Self = TypeVar("_Self", bound=TakesTurns)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def one_thread_at_a_time(
    method: Callable[Concatenate[_Self, _Arguments], _Result],
) -> Callable[Concatenate[_Self, _Arguments], _Result]:
    """Refuse a call of a method while another thread is in one, and call handlers when it is done."""

    @wraps(method)
    def call(engine: _Self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if not engine._turn.acquire(False):
            raise RpqError(
                f"{method.__name__}: another thread is calling this engine, which only one thread at a time may use. "
                "Guard it with a lock, or give each thread an engine of its own"
            )
        try:
            return method(engine, *args, **kwargs)
        finally:
            engine._turn.release()
            if engine._handlers.waiting:
                engine._handlers.deliver()

    return call
