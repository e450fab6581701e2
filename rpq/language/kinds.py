"""The kinds of queries: how a query of each kind starts to run, which kernels it needs, and how it is written as JSON.

A kind is registered where the engine is put together (`rpq.engine.engine`); another package may register its own. Queries
are written as JSON in saved states, in checkpoints of the command, and on the way to Spark's workers.

The modules of a kind can be imported when its first query starts: an engine of path queries alone does without those of
patterns and of SPARQL, which take 20 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from rpq.errors import QueryError, RpqError
from rpq.language.protocol import EnginePart, Question, Resources, RunningQuery
from rpq.language.query import PatternQuery, Query, Vertex
from rpq.language.time_order import LENGTHS
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


# --- options of queries as JSON ------------------------------------------------------------------------------

_TEXTS = ("name", "paths", "semantics", "on_budget", "order", "matching", "filter", "report", "language", "node_label")
_READERS: Mapping[str, Callable[[JsonValue], Any]] = {
    **dict.fromkeys(_TEXTS, JsonValue.unicode),
    **dict.fromkeys(LENGTHS, lambda length: length.integer(0)),
    **dict.fromkeys(("sources", "targets"), lambda vertices: [vertex.vertex() for vertex in vertices]),
    "select": lambda names: tuple(name.unicode() for name in names),
    "simple_budget": lambda budget: budget.integer(1),
    "distinct": JsonValue.flag,
}
"""The functions that read the options of queries."""


def read_options(content: JsonValue, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
    """Return options of a query from JSON values; those that are `optional` may be missing or null. Raises `Damage`."""
    names = [*required, *(name for name in optional if name in content and not content[name].is_none)]
    return {name: _READERS[name](content[name]) for name in names}


def read_question(content: JsonValue, kind: type[AnyQuery], text: str, options: Mapping[str, Any]) -> AnyQuery:
    """Return the query of a kind with options; JSON values have its `text` and perhaps its unit. Raises `Damage`."""
    try:
        query = kind(content[text].unicode(), **options)
        is_plain = "unit" not in content or content["unit"].is_none
        return query if is_plain else query.in_unit(content["unit"].one_of(*TIME_UNITS))
    except (RpqError, RecursionError) as problem:
        raise Damage(f"a query is not understood: {problem}") from problem


# --- path queries as JSON -----------------------------------------------------------------------------------

def path_query_json(query: Query) -> dict[str, Any]:
    """Return a query as JSON values; its window is in the integers of its stream."""
    return {
        "expression": query.expression,
        "window": window_json(query.window),
        "name": query.name,
        "paths": query.paths,
        "semantics": query.semantics,
        "sources": _sort_vertices(query.sources),
        "targets": _sort_vertices(query.targets),
        "simple_budget": query.simple_budget,
        "on_budget": query.on_budget,
        **({} if query.time_order is None else {"order": query.order, **dict(query.time_lengths)}),
        **({} if query.select is None else {"select": list(query.select)}),
    }


def read_path_query(content: JsonValue) -> Query:
    """Return the query of JSON values. Raises `Damage`."""
    texts = "name", "paths", "semantics", "on_budget", "order"
    options = read_options(content, (), (*texts, "sources", "targets", "simple_budget", *LENGTHS, "select"))
    return read_question(content, Query, "expression", options | {"window": read_window(content["window"])})


def _sort_vertices(vertices: Collection[Vertex] | None) -> list[Vertex] | None:
    return None if vertices is None else sorted(vertices, key=lambda v: (isinstance(v, str), v))


# --- graph patterns as JSON ---------------------------------------------------------------------------------

def pattern_query_json(query: PatternQuery) -> dict[str, Any]:
    """Return a pattern as JSON values; its window is in the integers of its stream."""
    return {
        "pattern": query.expression,
        "window": window_json(query.window),
        "name": query.name,
        "select": None if query.select is None else list(query.select),
        "distinct": query.distinct,
        "matching": query.matching,
        "paths": query.paths,
        "semantics": query.semantics,
        "simple_budget": query.simple_budget,
        "report": query.report,
        **({} if query.filter is None else {"filter": query.filter}),
        **({} if query.unit is None else {"unit": query.unit}),
    }


def read_pattern_query(content: JsonValue) -> PatternQuery:
    """Return the pattern of JSON values. Raises `Damage`."""
    required = "name", "matching", "paths", "semantics", "distinct"
    options = read_options(content, required, ("select", "simple_budget", "filter", "report"))
    return read_question(content, PatternQuery, "pattern", options | {"window": read_window(content["window"])})


# --- the kernels of queries ---------------------------------------------------------------------------------

def one_query_of_each_kind(queries: Sequence[Query]) -> list[Query]:
    """Return one query for each set of kernels."""
    return list({kernels_of(query): query for query in reversed(queries)}.values())


def kernels_of(query: Query) -> tuple[object, ...]:
    """Return a key of the kernels that a query needs: notation and window; for paths also semantics and restrictions."""
    window = query.window
    slides = (window.size // window.slide).bit_length() if window.kind == "time" else 0
    if isinstance(query, PatternQuery):
        return ("pattern", window.kind)
    restricted = query.sources is None, query.targets is None
    order = (query.order, *(name for name, _ in query.time_lengths))
    return ("path", window.kind, slides, query.paths, *restricted, *order, query.has_length)
