"""Windows as JSON values, and back, for every kind of query."""

from __future__ import annotations

from typing import Any

from rpq.errors import QueryError
from rpq.files.json_values import Damage, JsonValue
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window


def described(window: AnyWindow) -> dict[str, Any]:
    """A window as JSON values, in the integers of its stream; that of time bears no kind, as there was no other once."""
    match window:
        case CountWindow(size=size, step=step):
            return {"kind": "count", "size": size, "step": step}
        case UnboundedWindow():
            return {"kind": "unbounded"}
        case _:
            return {"size": window.size, "slide": window.slide}


def read(content: JsonValue) -> AnyWindow:
    """The window. Raises `Damage`."""
    kind = content["kind"].one_of("time", "count", "unbounded") if "kind" in content else "time"
    try:
        match kind:
            case "count":
                return CountWindow(size=content["size"].whole(1), step=content["step"].whole(1))
            case "unbounded":
                return UnboundedWindow()
            case _:
                return Window(size=content["size"].whole(1), slide=content["slide"].whole(1))
    except QueryError as problem:
        raise Damage(f"a window is not understood: {problem}") from problem
