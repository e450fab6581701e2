"""Path queries as JSON values, and back: in saved states, in checkpoints of the command, and on the way to Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rpq.errors import RpqError
from rpq.files.json_values import Damage, JsonValue
from rpq.queries import written_windows
from rpq.queries.query import Query, Vertex


def described(query: Query) -> dict[str, Any]:
    """A query as JSON values; its window is in the integers of its stream."""
    return {
        "expression": query.expression,
        "window": written_windows.described(query.window),
        "name": query.name,
        "paths": query.paths,
        "semantics": query.semantics,
        "sources": _listed(query.sources),
        "targets": _listed(query.targets),
        "simple_budget": query.simple_budget,
        "on_budget": query.on_budget,
    }


def read(content: JsonValue) -> Query:
    """The query. A field that older releases did not write has its default. Raises `Damage`."""
    options: dict[str, Any] = {}
    for name in ("name", "paths", "semantics", "on_budget"):
        if name in content:
            options[name] = content[name].unicode()
    for name in ("sources", "targets"):
        if name in content and not content[name].is_none:
            options[name] = [vertex.vertex() for vertex in content[name]]
    if "simple_budget" in content:
        options["simple_budget"] = content["simple_budget"].whole(1)
    window = written_windows.read(content["window"])
    try:
        return Query(content["expression"].unicode(), window=window, **options)
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem


def _listed(vertices: Collection[Vertex] | None) -> list[Vertex] | None:
    return None if vertices is None else sorted(vertices, key=lambda v: (isinstance(v, str), v))
