"""Queries as requests ask for them, and as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rpq.queries.query import PatternQuery, Query
from rpq.queries.query_file import Place, QueryEntry, query_entry
from rpq.serve import models
from rpq.serve.models import FieldsError, converted
from rpq.sparql.query import SparqlQuery
from rpq.stream.durations import DurationError, duration_text, parse_duration
from rpq.stream.window import Window, kind_of_text, size_and_slide

PLACE = Place(file="the query")
SLIDES = 30
"""Without a slide a window of time moves by this part of it."""

FIELDS = tuple(name for name in models.AskedQuery.__struct_fields__ if name != "start")
"""What a query is asked with; from where it starts is asked of the server."""

UNREACHABLE = (".", "..")
"""Names whose addresses browsers, and other clients, resolve to those of folders, however they are written."""


@dataclass(frozen=True, kw_only=True)
class QueryDefaults:
    """What a request need not say: fields by name, and the unit of the stream's timestamps."""

    fields: Mapping[str, Any]
    time_unit: str | None = None


def query_asked(fields: Any, defaults: QueryDefaults) -> Query:
    """The query that an object of JSON asks for.  Raises `QueryError`, which has its place where one is known."""
    expression = converted(fields, models.AskedQuery, kind="field of a query").expression
    entry = {name: value for name, value in fields.items() if name not in ("expression", "start") and value is not None}
    if entry.get("name") == "":
        del entry["name"]
    asked = query_entry({**entry, "query": expression}, defaults=defaults.fields, place=PLACE)
    query = query_of(asked, defaults.time_unit)
    if query.name in UNREACHABLE:
        message = f"name: a query named {query.name!r} has no address: clients leave it out of paths; give it another"
        raise FieldsError(message, field="name")
    return query


def query_of(asked: QueryEntry, time_unit: str | None) -> Query:
    """The query, with a slide where it has none and needs one."""
    window = asked.window
    if window is not None and asked.slide is None and kind_of_text(window) == "time":
        asked = replace(asked, slide=_usual_slide(window, time_unit))
    if window is not None and asked.slide is not None and _is_number(window) != _is_number(asked.slide):
        return asked.query(unit=time_unit)  # one in the stream's unit, one in its own
    return asked.query(unit=None, durations=True)


def _is_number(length: int | str) -> bool:
    return isinstance(length, int) or length.strip().isdigit()


def _usual_slide(window: int | str, time_unit: str | None) -> int | str | None:
    if isinstance(window, int):
        return max(1, window // SLIDES)
    if window.strip().isdigit():
        return max(1, int(window) // SLIDES)
    unit = time_unit or "ns"
    try:
        return f"{max(1, parse_duration(window, unit=unit) // SLIDES)}{unit}"
    except DurationError:
        return None  # what is wrong with the window is told then


def language_told(query: Query) -> models.Language:
    """The notation of a query: path, pattern or sparql."""
    if isinstance(query, SparqlQuery):
        return "sparql"
    return "pattern" if isinstance(query, PatternQuery) else "path"


def window_told(query: Query) -> tuple[int | str | None, int | str | None]:
    """Window and slide of a query as a request says them; None where a text in SPARQL declares all."""
    if isinstance(query, SparqlQuery) and not query.has_default:
        return None, None
    window = query.window
    if isinstance(window, Window) and window.unit is not None:
        return duration_text(window.size), duration_text(window.slide)
    return size_and_slide(window)


def query_told(query: Query, *, answers: int) -> models.Query:
    """A query as responses tell it."""
    window, slide = window_told(query)
    return models.Query(
        name=query.name,
        expression=query.expression,
        language=language_told(query),
        window=window,
        slide=slide,
        semantics=query.semantics,
        paths=query.paths,
        report=getattr(query, "report", "change"),
        columns=list(query.columns),
        answers=answers,
    )
