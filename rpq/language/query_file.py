"""Several queries in one file: TOML, or JSON lines with one query per line.

```toml
[defaults]                     # for queries without these fields
window = "30d"                 # or "count:1000" with an optional slide = 10, or "unbounded" without slide
slide = "1d"

[[query]]
name = "experts"               # by default the text of the expression
query = "a2q/c2a*"             # the only required field: a path expression or a pattern
semantics = "explicit"
sources = ["u1", "u2"]
output = "experts.parquet"     # for `rpq run`

[[query]]
query = "?x a2q ?y . ?y c2q ?z"
select = ["x", "z"]            # of a path source, target and length; for patterns only: distinct, matching, report, filter

[[query]]
query = "MATCH (a:Account)-[:a2q]->(b) RETURN a, b"
language = "cypher"            # by default the notation is detected, and MATCH is read as in GQL
node_label = "is_a"            # for MATCH only: the label of the edges to labels of nodes
```

The same query as a JSON line: `{"name": "experts", "query": "a2q/c2a*", "window": "30d", "slide": "1d", …}`.

A file is read completely or not at all: the first error raises a `QueryFileError` with its place.  The meaning of a field
can depend on the stream (the number of time units in `30d`, integers or texts as vertices), so reading returns `QueryEntry`
objects, which create a `Query` once the stream is known.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import rpq.automata as automata
from rpq.errors import QueryError
from rpq.language.notation import (
    CHOICES,
    MATCH_OPTIONS,
    ORDER_OPTIONS,
    PATH_OPTIONS,
    PATTERN_OPTIONS,
    REFUSED_PATHS,
    Language,
    Matching,
    OnBudget,
    Paths,
    Report,
    Semantics,
    language_of,
    unsuitable_option,
)
from rpq.language.pattern import Pattern
from rpq.language.query import Query, Vertex, automaton_of, path_columns, query_in, selected_columns
from rpq.language.time_order import LENGTHS, Order, length_of_text, time_order
from rpq.stream.durations import TIME_UNITS
from rpq.stream.window import AnyWindow, Window, WindowTextError, kind_of_text, length_of, window_of

_VALUES = ("sources", "targets", *LENGTHS, "select", "distinct", "filter", *MATCH_OPTIONS)
DEFAULT_FIELDS = ("window", "slide", *CHOICES, "simple_budget", *_VALUES, "output")
"""The fields that can have defaults."""

FIELDS = ("name", "query", *DEFAULT_FIELDS)
"""All fields of a query."""


class QueryFileError(QueryError):
    """A file of queries that cannot be read.

    `file`, `field` and, if known, `line` (of JSON lines) or `entry` (the number of a query in TOML), both counted from 1,
    are the place of the error; the message contains them too.
    """

    def __init__(
        self, message: str, *, file: str, line: int | None = None, entry: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.entry = entry
        self.field = field


@dataclass(frozen=True, kw_only=True)
class FilePlace:
    """A place in a file of queries."""

    file: str
    line: int | None = None
    entry: int | None = None
    title: str = ""

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        entry = f", query {self.entry}" if self.entry else ""
        return f"{self.file}{line}{entry}{self.title}"

    def error(self, message: str, *, field: str | None = None) -> QueryFileError:
        """Return an error at this place."""
        where = f"{self}, field {field}" if field else f"{self}"
        return QueryFileError(f"{where}: {message}", file=self.file, line=self.line, entry=self.entry, field=field)


@dataclass(frozen=True, kw_only=True)
class QueryEntry:
    """A query in a file; `query` creates the query over a stream.

    `window` and `slide` are None if neither the file nor the defaults contain them; `sources` and `targets` are None
    without a restriction, and so are the options of patterns if they are not set.  `columns` are those of its rows, `dfa`
    is None except for a path, `pattern` is None except for a pattern.  `place` is the place of the query, `places` are
    those of its fields in the file.
    """

    place: FilePlace
    places: Mapping[str, FilePlace]
    name: str
    expression: str
    language: Language
    columns: tuple[str, ...]
    dfa: automata.DFA | None
    pattern: Pattern | None = None
    window: int | str | None = None
    slide: int | str | None = None
    paths: Paths = "walk"
    semantics: Semantics | None = None
    simple_budget: int = 10_000_000
    on_budget: OnBudget = "error"
    sources: tuple[Vertex, ...] | None = None
    targets: tuple[Vertex, ...] | None = None
    select: tuple[str, ...] | None = None
    distinct: bool | None = None
    matching: Matching | None = None
    report: Report | None = None
    filter: str | None = None
    order: Order | None = None
    max_gap: int | str | None = None
    max_span: int | str | None = None
    node_label: str | None = None
    output: str | None = None

    def place_of(self, field: str) -> FilePlace:
        """Return the place of a field in the file, in the query or in the defaults; without the field, that of the query."""
        return self.places.get(field, self.place)

    def error(self, field: str, message: str) -> QueryFileError:
        """Return an error at the place of a field."""
        return self.place_of(field).error(message, field=field)

    def query(self, *, unit: str | None, durations: bool = False, integers: bool | None = None) -> Query:
        """Return the query over a stream with this time unit, with `integers` or texts as vertices (None: as in the file).

        Without a unit, windows in durations are returned as such if `durations` are allowed, and refused otherwise.
        """
        try:
            ends = {field: self._vertices(field, integers) for field in PATH_OPTIONS if getattr(self, field) is not None}
            options = ("semantics", *ORDER_OPTIONS, *PATTERN_OPTIONS, *MATCH_OPTIONS)
            query = query_in(
                self.language,
                self.expression,
                name=self.name,
                window=self._window(unit, durations),
                paths=self.paths,
                simple_budget=self.simple_budget,
                on_budget=self.on_budget,
                **ends,
                **{field: value for field in options if (value := getattr(self, field)) is not None},
            )
            return query.in_unit(unit) if unit is not None and query.is_ordered else query
        except QueryFileError:
            raise
        except QueryError as error:
            raise self.place.error(str(error)) from error

    def _window(self, unit: str | None, durations: bool) -> AnyWindow | None:
        slide = self.slide
        if self.window is None and slide is None and self.language == "sparql":
            return None  # the text may declare all windows
        if self.window is not None and kind_of_text(self.window) == "unbounded":
            # A slide from the defaults is for queries with a sliding window.
            slide = slide if self.places.get("slide") == self.places.get("window") else None
        try:
            return window_of(self.window, slide, unit=unit, durations=durations)
        except WindowTextError as error:
            if error.is_missing:
                message = "is missing: set it for this query, or for all queries without one"
                raise self.place.error(message, field=error.field) from error
            raise self.error(error.field, str(error)) from error

    def _vertices(self, field: str, integers: bool | None) -> frozenset[Vertex] | None:
        vertices = getattr(self, field)
        if vertices is None or integers is None:
            return None if vertices is None else frozenset(vertices)
        if not integers:
            return frozenset(map(str, vertices))
        try:
            return frozenset(map(int, vertices))
        except ValueError as error:
            raise self.error(field, f"the vertices of this input are integers: {error}") from error


def read_queries(path: str | os.PathLike[str], *, time_unit: str | None = None, **defaults: Any) -> list[Query]:
    """Read a file of queries, `.toml` or `.jsonl`, for `Engine(*queries)`.

    Windows are plain numbers or durations such as "30d", as in `Window`.  With a `time_unit` ("s", "ms", "us", "ns"), the
    unit of the stream's timestamps, durations are converted to numbers, and one window may have both.
    `defaults` (window, slide, paths, semantics, sources, …) apply to queries without these fields.  The field
    `output` is for `rpq run` and has no effect here.  Raises `QueryFileError`, a `QueryError`, with the place of the error.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "queries.jsonl"), "w") as file:
    ...         _ = file.write('{"name": "reach", "query": "a/b*", "window": "30d", "slide": "1d"}')
    ...     read_queries(file.name)
    [Query('a/b*', window=Window(size='30d', slide='1d'), name='reach')]
    """
    return [entry.query(unit=time_unit, durations=True) for entry in read_query_file(path, defaults)]


def read_query_file(
    path: str | os.PathLike[str], defaults: Mapping[str, Any] | None = None, *, default_place: str = "the defaults"
) -> list[QueryEntry]:
    """Read and check a file of queries; at least one, each with a distinct name.

    A query inherits missing fields from the `[defaults]` of a TOML file, and otherwise from `defaults`, which messages call
    `default_place`.  Raises `QueryFileError`.  About 0.2 ms for each expression.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as opened:
            content = opened.read()
    except OSError as error:
        raise FilePlace(file=file).error(f"cannot be read: {error.strerror or error}") from error
    common = _fields(dict(defaults or {}), FilePlace(file=default_place), DEFAULT_FIELDS)
    ending = os.path.splitext(file)[1].lower()
    places: dict[str, FilePlace] = {}
    if ending == ".toml":
        document = _toml(file, content)
        place = FilePlace(file=file, title=", [defaults]")
        in_file = _fields(document.get("defaults", {}), place, DEFAULT_FIELDS)
        common, places = common | in_file, dict.fromkeys(in_file, place)
        entries = _tables(document, file)
    elif ending in (".jsonl", ".ndjson", ".json"):
        entries = _lines(file, content)
    else:
        raise FilePlace(file=file).error("the suffix determines the format: expected .toml, .jsonl or .ndjson")
    found: dict[str, QueryEntry] = {}
    for place, entry in entries:
        query = _read_entry(place, entry, common, places)
        if query.name in found:
            raise place.error(
                f"there is already a query named {query.name!r}, at {found[query.name].place}; names identify rows",
                field="name",
            )
        found[query.name] = query
    if not found:
        raise FilePlace(file=file).error("has no query")
    return list(found.values())


def query_entry(entry: Mapping[str, Any], *, defaults: Mapping[str, Any], place: FilePlace) -> QueryEntry:
    """Return one query from its fields, as in a file; `defaults` are used for missing fields.

    Raises `QueryFileError`.

    >>> query_entry({"query": "a/b", "window": 10}, defaults={"slide": 1}, place=FilePlace(file="the query")).slide
    1
    """
    return _read_entry(place, entry, _fields(dict(defaults), FilePlace(file="the defaults"), DEFAULT_FIELDS), {})


def _read_entry(place: FilePlace, entry: Any, common: dict[str, Any], places: dict[str, FilePlace]) -> QueryEntry:
    """Return one query; `common` contains the defaults of its fields, and `places` their places in the file."""
    own = _fields(entry, place, FIELDS)
    if "query" not in own:
        raise place.error("has no field query: an expression such as 'a/b*', or a pattern such as '?x a ?y'")
    text = own.pop("query")
    values = common | own
    places = places | dict.fromkeys(own, place)
    if (values.get("language") or language_of(text)) not in ("gql", "cypher"):
        values = {field: value for field, value in values.items() if field in own or field not in MATCH_OPTIONS}
    name, language, columns, dfa, pattern = _parse_text(text, values, place, places)
    values = {"name": name} | values | {"language": language}
    return QueryEntry(place=place, places=places, expression=text, columns=columns, dfa=dfa, pattern=pattern, **values)


def _parse_text(
    text: str, values: Mapping[str, Any], place: FilePlace, places: Mapping[str, FilePlace]
) -> tuple[str, Language, tuple[str, ...], automata.DFA | None, Pattern | None]:
    """Return for a text its default name, its notation, the columns of its rows, and the automaton of a path or the pattern.

    The name is that of REGISTER in SPARQL, and otherwise the text.
    """
    language = values.get("language") or language_of(text)
    try:
        select = values.get("select")
        if language not in ("path", "pattern"):
            if misfit := unsuitable_option(language, text, values):
                raise places.get(misfit.option, place).error(misfit.reason, field=misfit.option)
            options = {name: values[name] for name in ("paths", *MATCH_OPTIONS) if name in values}
            query = query_in(language, text, window=Window(size=1, slide=1), **options)
            return query.name, language, query.columns, None, None
        is_path = language == "path"
        path_select = selected_columns(select, text) if is_path else None
        dfa, pattern = (automaton_of(text), None) if is_path else (None, Pattern.read(text, select, values.get("filter")))
    except automata.ExpressionError as error:
        what = "expression" if language == "path" else "pattern"
        raise place.error(f"the {what} is not understood\n{error}", field="query") from error
    except QueryError as error:
        if str(error).startswith("select"):
            raise places.get("select", place).error(str(error).removeprefix("select: "), field="select") from error
        if str(error).startswith("filter"):
            raise places.get("filter", place).error(str(error).removeprefix("filter: "), field="filter") from error
        raise place.error(str(error), field="query") from error
    if misfit := unsuitable_option(language, text, values):
        raise places.get(misfit.option, place).error(misfit.reason, field=misfit.option)
    if pattern is None:
        return text, language, path_columns(path_select), dfa, None
    if values.get("on_budget") == "set_aside":
        where = places.get("on_budget", place)
        raise where.error("'set_aside' is for path queries: an answer to a pattern must not miss a path", field="on_budget")
    return text, language, pattern.columns, None, pattern


def _toml(file: str, content: bytes) -> dict[str, Any]:
    place = FilePlace(file=file)
    try:
        document = tomllib.loads(content.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FilePlace(file=file, line=line).error("is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise place.error(f"is not TOML: {error}") from error
    for key in document:
        if key not in ("defaults", "query"):
            hint = " (fields that all queries share belong in [defaults])" if key in FIELDS else ""
            hint = _did_you_mean(key, ("defaults", "query")) + hint
            raise place.error(f"{key!r} is not known here: expected [defaults] and [[query]]{hint}")
    return document


def _tables(document: Mapping[str, Any], file: str) -> Iterator[tuple[FilePlace, Any]]:
    """Yield the queries of a TOML document, with their places."""
    tables = document.get("query", [])
    if not isinstance(tables, list):
        raise FilePlace(file=file).error("queries are tables of a list: begin each with [[query]]")
    for number, table in enumerate(tables, 1):
        name = table.get("name") if isinstance(table, dict) else None
        yield FilePlace(file=file, entry=number, title=f" ({name!r})" if isinstance(name, str) else ""), table


def _lines(file: str, content: bytes) -> Iterator[tuple[FilePlace, Any]]:
    """Yield the queries of JSON lines, with their places."""
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        place = FilePlace(file=file, line=number)
        if not line.strip():
            continue
        try:
            entry = json.loads(line.decode(), object_pairs_hook=partial(_object, place=place))
        except UnicodeDecodeError as error:
            raise place.error("is not UTF-8 text") from error
        except json.JSONDecodeError as error:
            raise place.error(f"is not JSON: {error.msg} at column {error.colno}; each line is one query") from error
        except (ValueError, RecursionError) as error:
            raise place.error(f"is not JSON: {error}") from error
        yield place, entry


def _object(pairs: list[tuple[str, Any]], *, place: FilePlace) -> dict[str, Any]:
    """Return a JSON object; raise an error for duplicate fields, of which Python would use the last."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for position, (name, _) in enumerate(pairs) if name in dict(pairs[:position]))
        raise place.error("occurs twice", field=twice)
    return fields


def _fields(table: Any, place: FilePlace, names: Iterable[str]) -> dict[str, Any]:
    """Return the checked fields of a table by name; a null in JSON counts as a missing field."""
    if not isinstance(table, dict):
        raise place.error(f"expected fields with names, such as query, window, slide, not {_json_text(table)}")
    for field in table:
        if field not in names:
            raise place.error(
                f"is not known: expected one of {', '.join(names)}{_did_you_mean(field, names)}", field=_name(field)
            )
    return {field: _check_field(field, value, place) for field, value in table.items() if value is not None}


def _check_field(field: str, value: Any, place: FilePlace) -> Any:
    """Return the value of a field in the form of `QueryEntry`."""
    if field in CHOICES:
        if field == "paths" and isinstance(value, str) and value in REFUSED_PATHS:
            raise place.error(f"{value!r}, {REFUSED_PATHS[value]}", field=field)
        if not isinstance(value, str) or value not in CHOICES[field]:
            hint = _did_you_mean(value, CHOICES[field]) if isinstance(value, str) else ""
            raise place.error(f"expected one of {', '.join(CHOICES[field])}, not {_json_text(value)}{hint}", field=field)
    elif field in ("window", "slide"):
        _check_length(field, value, place)
    elif field in LENGTHS:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            message = f"expected a number in the stream's unit, or a text such as '6h', not {_json_text(value)}"
            raise place.error(message, field=field)
        try:
            time_order("increasing", **{field: length_of_text(value)})
        except QueryError as error:
            raise place.error(str(error).removeprefix(f"{field}: "), field=field) from error
        return length_of_text(value)
    elif field in ("sources", "targets"):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise place.error(f"expected a list of vertices, not {_json_text(value)}", field=field)
        for vertex in value:
            if isinstance(vertex, bool) or not isinstance(vertex, (int, str)):
                raise place.error(f"vertices are texts or integers, not {_json_text(vertex)}", field=field)
        return tuple(value)
    elif field == "select":
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise place.error(f"expected a list of variables, not {_json_text(value)}", field=field)
        return tuple(value)
    elif field == "distinct":
        if not isinstance(value, bool):
            raise place.error(f"expected true or false, not {_json_text(value)}", field=field)
    elif field == "simple_budget":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise place.error(f"expected a positive number of nodes, not {_json_text(value)}", field=field)
    elif not isinstance(value, str) or not value or (field == "output" and "\0" in value):
        raise place.error(f"expected a text, not {_json_text(value)}", field=field)
    return value


def _check_length(field: str, value: Any, place: FilePlace) -> None:
    """Raise an error for a value that is neither a window nor a length of time in any unit."""
    if isinstance(value, str):
        faults = []
        for unit in TIME_UNITS:
            try:
                if field == "window" and kind_of_text(value) != "time":
                    window_of(value, None, unit=unit)
                else:
                    length_of(value, unit=unit, field="window")
                return
            except WindowTextError as error:
                faults.append(str(error))
        raise place.error(faults[0], field=field)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise place.error(
            f"expected a positive whole number in the stream's time unit, or a text such as '30d', not {_json_text(value)}",
            field=field,
        )


def _did_you_mean(word: str, candidates: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _name(field: str) -> str:
    """Return the name of a field for a message, on one line."""
    return field if field.isprintable() and field else repr(field)


def _json_text(value: Any) -> str:
    """Return a value for a message, abbreviated if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
