"""Graph patterns as JSON values, and back, as `rpq.queries.written` does it for path queries."""

from __future__ import annotations

from typing import Any

from rpq.errors import RpqError
from rpq.files.described import Damage, Described
from rpq.queries.query import PatternQuery
from rpq.stream.window import Window


def described(query: PatternQuery) -> dict[str, Any]:
    """A pattern as JSON values; its window is in the integers of its stream."""
    return {
        "pattern": query.expression,
        "window": {"size": query.window.size, "slide": query.window.slide},
        "name": query.name,
        "select": None if query.select is None else list(query.select),
        "distinct": query.distinct,
        "matching": query.matching,
        "paths": query.paths,
        "semantics": query.semantics,
        "simple_budget": query.simple_budget,
    }


def read(content: Described) -> PatternQuery:
    """The pattern. Raises `Damage`."""
    size, slide = (content["window"][name].whole(1) for name in ("size", "slide"))
    options: dict[str, Any] = {name: content[name].unicode() for name in ("name", "matching", "paths", "semantics")}
    if not content["select"].is_none:
        options["select"] = tuple(name.unicode() for name in content["select"])
    options["distinct"] = content["distinct"].flag()
    if "simple_budget" in content:
        options["simple_budget"] = content["simple_budget"].whole(1)
    try:
        return PatternQuery(content["pattern"].unicode(), window=Window(size=size, slide=slide), **options)
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem
