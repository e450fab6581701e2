"""The kinds of queries: how a query of each kind starts to run, which kernels it needs, and how it is written as JSON.

A kind is registered where the engine is put together (`rpq.engine.engine`); another package may register its own. Queries
are written as JSON in saved states, in checkpoints of the command, and on the way to Spark's workers.

The modules of a kind can be imported when its first query starts: an engine of path queries alone does without those of
patterns and of SPARQL, which take 20 MB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from rpq.errors import QueryError, RpqError
from rpq.language.options import OPTIONS, Vertex
from rpq.language.protocol import EnginePart, Question, Resources, RunningQuery
from rpq.language.query import PatternQuery, Query
from rpq.language.readings import has_conditions
from rpq.stream.durations import TIME_UNITS
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window

AnyQuery = TypeVar("AnyQuery", bound=Query)


@dataclass(frozen=True, kw_only=True)
class QueryKind:
    """A kind of query: the type of its questions, and functions that start a question and convert it to JSON and back.

    `read` raises `Damage` for values that `to_json` cannot have returned. If queries of the kind share a part of the
    engine, `host` creates it once for each engine, and `start` finds it in its resources; one thread evaluates them all.
    """

    name: str
    question: type
    start: Callable[[Any, Resources], RunningQuery]
    to_json: Callable[[Any], dict[str, Any]]
    read: Callable[[JsonValue], Any]
    host: Callable[[Resources], EnginePart] | None = None


class KindModule(NamedTuple):
    """A module with a kind as its `KIND`, and the full name of the class of the kind's questions."""

    module: str
    question: str


_kinds: dict[str, QueryKind | KindModule] = {}
_DEFAULT_KIND = "path"  # the kind that JSON leaves out


def register(kind: QueryKind) -> None:
    """Register a kind of query. It replaces a registered kind of the same name."""
    _kinds[kind.name] = kind


def register_module(name: str, module: str, *, question: str) -> None:
    """Register a kind by name; the module that defines it as `KIND` is imported when the kind is needed.

    `question` is the full name of the class of its questions, as "rpq.language.query.PatternQuery".
    """
    _kinds[name] = KindModule(module, question)


def kind_of(question: Any) -> QueryKind:
    """Return the kind of a question, by the nearest of its classes that has one. Raises `QueryError` if there is none."""
    for one in type(question).__mro__:
        full_name = f"{one.__module__}.{one.__qualname__}"
        for name, kind in _kinds.items():
            if kind.question == full_name if isinstance(kind, KindModule) else kind.question is one:
                return _import_kind(name)
    raise QueryError(f"a query is a rpq.Query(expression, window=…), not {question!r}")


def _import_kind(name: str) -> QueryKind:
    """Return a registered kind, whose module is imported if it has not been yet."""
    kind = _kinds[name]
    if isinstance(kind, KindModule):
        kind = _kinds[name] = import_module(kind.module).KIND
    return kind


def query_json(question: Question) -> dict[str, Any]:
    """Return a question as JSON values, for saved states, checkpoints, and Spark's workers."""
    kind = kind_of(question)
    return {**({} if kind.name == _DEFAULT_KIND else {"kind": kind.name}), **kind.to_json(question)}


def read_query(content: JsonValue) -> Any:
    """Return the question of JSON values, the inverse of `query_json`. Raises `Damage`."""
    name = content["kind"].text() if "kind" in content else _DEFAULT_KIND
    if name not in _kinds:
        raise Damage(f"a query is of kind {name!r}, which this release does not know")
    return _import_kind(name).read(content)


# --- windows as JSON ----------------------------------------------------------------------------------------

def window_json(window: AnyWindow) -> dict[str, Any]:
    """Return a window as JSON values, in the integers of its stream; a time window has no kind."""
    match window:
        case CountWindow(size=size, step=step):
            return {"kind": "count", "size": size, "step": step}
        case UnboundedWindow():
            return {"kind": "unbounded"}
        case _:
            return {"size": window.size, "slide": window.slide}


def read_window(content: JsonValue) -> AnyWindow:
    """Return the window of JSON values. Raises `Damage`."""
    kind = content["kind"].one_of("time", "count", "unbounded") if "kind" in content else "time"
    try:
        match kind:
            case "count":
                return CountWindow(size=content["size"].integer(1), step=content["step"].integer(1))
            case "unbounded":
                return UnboundedWindow()
            case _:
                return Window(size=content["size"].integer(1), slide=content["slide"].integer(1))
    except QueryError as problem:
        raise Damage(f"a window is not understood: {problem}") from problem


# --- queries as JSON ----------------------------------------------------------------------------------------

_READERS: Mapping[str, Callable[[JsonValue], Any]] = {
    "words": JsonValue.unicode,
    "text": JsonValue.unicode,
    "flag": JsonValue.flag,
    "number": lambda number: number.integer(1),
    "length": lambda length: length.integer(0),
    "names": lambda names: tuple(name.unicode() for name in names),
    "vertices": lambda vertices: [vertex.vertex() for vertex in vertices],
    "parameters": lambda parameters: {name: value.value for name, value in parameters.items()},
}
"""The functions that read the values of options, by their kind."""


def options_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name as JSON values, without windows and those that are None."""
    values = {name: value for name, value in options.items() if OPTIONS[name].kind != "window" and value is not None}
    return {
        name: list(value) if isinstance(value, tuple) else _sort_vertices(value) if isinstance(value, frozenset) else value
        for name, value in values.items()
    }


def content_of(query: Query) -> dict[str, Any]:
    """Return a query as JSON values; its window is in the integers of its stream."""
    unit = getattr(query, "unit", None)
    values = {name: getattr(query, name, None) for name in OPTIONS}
    if getattr(query, "node_label", "") is None:
        values["node_label"] = ""  # records alone give labels; without the option edges do, too
    options = options_json(values)
    content = {"expression": query.expression, "window": window_json(query.window), **options}
    return content if unit is None else content | {"unit": unit}


def read_content(
    content: JsonValue, kind: type[AnyQuery], *, window_of: Callable[[JsonValue], AnyWindow | None] = read_window
) -> AnyQuery:
    """Return the query of a kind that JSON values describe; `window_of` reads its window. Raises `Damage`."""
    given = [one for one in OPTIONS.values() if one.kind in _READERS and one.name in content]
    options = {one.name: _READERS[one.kind](content[one.name]) for one in given}
    window = window_of(content["window"])
    try:
        query = kind(content["expression"].unicode(), window=window, **options)
        return query.in_unit(content["unit"].one_of(*TIME_UNITS)) if "unit" in content else query
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem


def _sort_vertices(vertices: Collection[Vertex]) -> list[Vertex]:
    return sorted(vertices, key=lambda v: (isinstance(v, str), v))


# --- the kernels of queries ---------------------------------------------------------------------------------

def one_query_of_each_kind(queries: Sequence[Query]) -> list[Query]:
    """Return one query for each set of kernels."""
    return list({kernels_of(query): query for query in reversed(queries)}.values())


def kernels_of(query: Query) -> tuple[object, ...]:
    """Return a key of the kernels that a query needs: notation, window, conditions, and whether rows are held; for paths
    also their restrictions, for other queries the operators and the words in capitals of their text.

    >>> texts = ("a", "b", "a[n > 1]", "?x a ?y")
    >>> len({kernels_of(Query(text, window=Window(size=1, slide=1))) for text in texts})
    3
    """
    window = query.window
    slides = (window.size // window.slide).bit_length() if window.kind == "time" else 0
    kind = (type(query).__name__, window.kind, has_conditions(query), query.hold is not None)
    if isinstance(query, PatternQuery):
        return (*kind, frozenset(re.findall(r"[A-Z]{2,}|[*+/|^]", query.expression)))
    restricted = query.sources is None, query.targets is None
    order = (query.order, *(name for name, _ in query.time_lengths))
    return (*kind, slides, query.paths, *restricted, *order, query.has_length, query.cost is not None)
