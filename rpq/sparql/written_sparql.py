"""Queries in SPARQL as JSON values, and back, as `rpq.queries.kinds` does it for path queries."""

from __future__ import annotations

from typing import Any

from rpq.errors import RpqError
from rpq.files.json_values import Damage, JsonValue
from rpq.patterns.pattern_host import PatternHost
from rpq.queries.kinds import Kind, read_window, window_json
from rpq.sparql.running_sparql import RunningSparql
from rpq.sparql.sparql_query import SparqlQuery
from rpq.stream.durations import TIME_UNITS
from rpq.stream.window import INT64_MAX, Window


def described(query: SparqlQuery) -> dict[str, Any]:
    """A query as JSON values: its windows as they were given, and the unit that they were put into."""
    asked = query.as_asked
    window = asked.window
    is_duration = isinstance(window, Window) and window.unit is not None
    return {
        "sparql": query.expression,
        "window": window_json(window) if asked.has_default else None,
        "nanoseconds": is_duration,
        "unit": query.unit,
        "name": query.name,
        "paths": query.paths,
        "semantics": query.semantics,
        "simple_budget": query.simple_budget,
        "report": query.report,
    }


def read(content: JsonValue) -> SparqlQuery:
    """The query. Raises `Damage`."""
    options: dict[str, Any] = {name: content[name].unicode() for name in ("name", "paths", "semantics", "report")}
    options["simple_budget"] = content["simple_budget"].whole(1)
    if not content["window"].is_none:
        options["window"] = read_window(content["window"])
        if content["nanoseconds"].flag():
            length = {name: content["window"][name].whole(1, INT64_MAX) for name in ("size", "slide")}
            options["window"] = Window(**length, unit="ns")
    try:
        asked = SparqlQuery(content["sparql"].unicode(), **options)
        return asked if content["unit"].is_none else asked.in_unit(content["unit"].one_of(*TIME_UNITS))
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem


KIND = Kind(name="sparql", question=SparqlQuery, start=RunningSparql, described=described, read=read, host=PatternHost)
