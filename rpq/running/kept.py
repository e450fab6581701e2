"""A window all edges of which an engine keeps, whether any query reads them or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from rpq.errors import QueryError
from rpq.stream.window import Window


@dataclass(frozen=True)
class Kept:
    """The window, as far as the time of the stream is concerned like that of a query."""

    window: Any  # a `Window`: who asks for the windows of queries may meet other kinds

    @property
    def name(self) -> str:
        """What messages call it."""
        return "keep"

    def over(self, window: Any) -> Self:
        """The same over another window."""
        return replace(self, window=window)


def kept(window: Window) -> Kept:
    """What keeps a window. Raises `QueryError` where it is none of time."""
    if not isinstance(window, Window):
        raise QueryError(f"keep is a window of time, as in keep=rpq.Window(size=…, slide=…), not {window!r}")
    return Kept(window)
