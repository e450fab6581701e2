"""Graph patterns as JSON values, and back, as `rpq.queries.written` does it for path queries."""

from __future__ import annotations

from typing import Any

from rpq.errors import RpqError
from rpq.files.json_values import Damage, JsonValue
from rpq.queries import written_windows
from rpq.queries.query import PatternQuery


def described(query: PatternQuery) -> dict[str, Any]:
    """A pattern as JSON values; its window is in the integers of its stream."""
    return {
        "pattern": query.expression,
        "window": written_windows.described(query.window),
        "name": query.name,
        "select": None if query.select is None else list(query.select),
        "distinct": query.distinct,
        "matching": query.matching,
        "paths": query.paths,
        "semantics": query.semantics,
        "simple_budget": query.simple_budget,
        "report": query.report,
    }


def read(content: JsonValue) -> PatternQuery:
    """The pattern. Raises `Damage`."""
    window = written_windows.read(content["window"])
    options: dict[str, Any] = {name: content[name].unicode() for name in ("name", "matching", "paths", "semantics")}
    if not content["select"].is_none:
        options["select"] = tuple(name.unicode() for name in content["select"])
    options["distinct"] = content["distinct"].flag()
    if "simple_budget" in content:
        options["simple_budget"] = content["simple_budget"].whole(1)
    if "report" in content:
        options["report"] = content["report"].unicode()
    try:
        return PatternQuery(content["pattern"].unicode(), window=window, **options)
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem
