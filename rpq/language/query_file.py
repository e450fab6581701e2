"""Several queries in one file: TOML, or JSON lines with one query per line.

```toml
[defaults]                     # for queries without these fields
window = "30d"                 # or "count:1000" with an optional slide = 10, or "unbounded" without slide
slide = "1d"

[[query]]
name = "experts"               # by default the text of the expression
query = "a2q/c2a*"             # the only required field: a path expression or a pattern
semantics = "explicit"
hold = "10m"                   # answers that have held for this time
sources = ["u1", "u2"]
output = "experts.parquet"     # for `rpq run`

[[query]]
query = "?x a2q ?y . ?y c2q ?z"
select = ["x", "z"]            # of a path source, target and length; for patterns only: distinct, matching, report, filter

[[query]]
query = "MATCH (a:Account)-[:a2q]->(b) RETURN a, b"
language = "cypher"            # by default the notation is detected, and MATCH is read as in GQL
node_label = "is_a"            # for MATCH only: the label of the edges to labels of nodes; "" if records alone have labels

[[query]]
query = "MATCH (a)-[e:a2q]->(b) WHERE e.score > $least RETURN a, b"
parameters = {least = 3}       # for MATCH only: each query takes those of [defaults] that its text names, too
```

The same query as a JSON line: `{"name": "experts", "query": "a2q/c2a*", "window": "30d", "slide": "1d", …}`.

A file is read completely or not at all: the first error raises a `QueryFileError` with its place.  The meaning of a field
can depend on the stream (the number of time units in `30d`, integers or texts as vertices), so reading returns `QueryEntry`
objects, which create a `Query` once the stream is known.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rpq.errors import ExpressionError, QueryError, did_you_mean
from rpq.language.notation import language_of
from rpq.language.options import OPTIONS, Vertex, WrittenOptions, check_word, unsuitable_option
from rpq.language.query import Query
from rpq.language.time_order import hold_length, length_of_text, time_order
from rpq.stream.durations import TIME_UNITS
from rpq.stream.window import AnyWindow, Window, WindowTextError, kind_of_text, length_of, window_of

DEFAULT_FIELDS = (*(name for name in OPTIONS if name != "name"), "output")
"""The fields that can have defaults."""

FIELDS = ("name", "query", *DEFAULT_FIELDS)
"""All fields of a query."""

_OPTION_IN_ERROR = re.compile(rf"({'|'.join(OPTIONS)}): (.*)", re.DOTALL)


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

    def query_error(self, error: QueryError, *, places: Mapping[str, FilePlace], what: str = "query") -> QueryFileError:
        """Return the error of a query that stands here, at the field that it is about: an option, or the text."""
        if isinstance(error, ExpressionError):
            return self.error(f"the {what} is not understood\n{error}", field="query")
        found = _OPTION_IN_ERROR.fullmatch(str(error))
        field, message = ("query", str(error)) if found is None else found.groups()
        return places.get(field, self).error(message, field=field)


@dataclass(frozen=True, kw_only=True)
class ArgumentPlace(FilePlace):
    """A command or a call as the place of a query: an error begins with the name of the argument that it is about."""

    name_of: Callable[[str], str]

    def error(self, message: str, *, field: str | None = None) -> QueryFileError:
        """Return an error of an argument; `query` is the text of the query."""
        separator = " " if message.startswith("is ") else ": "
        text = message if field in (None, "query") else f"{self.name_of(str(field))}{separator}{message}"
        return QueryFileError(text, file=self.file, field=field)


@dataclass(frozen=True, kw_only=True)
class QueryEntry(WrittenOptions):
    """A query in a file; `query` creates the query over a stream.

    `window` and `slide` are None if neither the file nor the defaults contain them.  `parsed` is the query over some window.
    `place` is the place of the query, `places` are those of its fields in the file.
    """

    place: FilePlace
    places: Mapping[str, FilePlace]
    expression: str
    parsed: Query

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows."""
        return self.parsed.columns

    @property
    def shows_removals(self) -> bool:
        """True if its rows show which answers leave; those of ISTREAM and RSTREAM do not."""
        return bool(getattr(self.parsed, "shows_removals", True))

    def place_of(self, field: str) -> FilePlace:
        """Return the place of a field in the file, in the query or in the defaults; without the field, that of the query."""
        return self.places.get(field, self.place)

    def error(self, field: str, message: str) -> QueryFileError:
        """Return an error at the place of a field."""
        return self.place_of(field).error(message, field=field)

    def query(self, *, unit: str | None, durations: bool = False, integers: bool | None = None) -> Query:
        """Return the query over a stream with this time unit, with `integers` or texts as vertices (None: as in the file).

        Without a unit, durations are returned as such if `durations` are allowed, and refused otherwise.
        """
        ends = {name: self._vertices(name, integers) for name in ("sources", "targets")}
        window = self._window(unit, durations)
        try:
            given = {name: value for name, value in self.given_options.items() if name != "slide"}
            query = Query(self.expression, **given | ends | {"window": window})
            return query if unit is None and durations else _in_unit(query, unit)
        except QueryError as error:
            raise self.place.query_error(error, places=self.places) from error

    def _window(self, unit: str | None, durations: bool) -> AnyWindow | None:
        slide = self.slide
        if self.window is None and slide is None and self.parsed.notation == "sparql":
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


def _in_unit(query: Query, unit: str | None) -> Query:
    """Convert windows that the text declares as durations, and bounds of an order in time, to the stream's unit.

    Raises `QueryError`.
    """
    lengths = [one for one in query.time_lengths if isinstance(one.length, str)]
    if not lengths and not getattr(query, "declares_durations", False):  # only SPARQL declares windows
        return query
    if unit is None:
        what = "the text declares windows in durations (RANGE PT2H)"
        if lengths:
            what = f"{lengths[0].name}: {lengths[0].length} is a duration"
        raise QueryError(f"{what}, and the unit of the timestamps is unknown; expected --time-unit")
    return query.in_unit(unit)


_DEFAULTS = FilePlace(file="the defaults")


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
    path: str | os.PathLike[str], defaults: Mapping[str, Any] | None = None, *, default_place: FilePlace = _DEFAULTS
) -> list[QueryEntry]:
    """Read and check a file of queries; at least one, each with a distinct name.

    A query inherits missing fields from the `[defaults]` of a TOML file, and otherwise from `defaults`, which messages call
    `default_place`.  Raises `QueryFileError`.  About 0.2 ms for each expression.
    """
    file = os.fspath(path)
    content = _content(file)
    common = _fields(dict(defaults or {}), default_place, DEFAULT_FIELDS)
    ending = os.path.splitext(file)[1].lower()
    places: dict[str, FilePlace] = dict.fromkeys(common, default_place)
    if ending == ".toml":
        document = _toml(file, content)
        place = FilePlace(file=file, title=", [defaults]")
        in_file = _fields(document.get("defaults", {}), place, DEFAULT_FIELDS)
        common, places = _with_parameters(common, in_file), places | dict.fromkeys(in_file, place)
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


def query_entry(entry: Mapping[str, Any], *, place: FilePlace, defaults: Mapping[str, Any] | None = None) -> QueryEntry:
    """Return one query from its fields, as in a file; `defaults` are used for missing fields.

    Raises `QueryFileError`.

    >>> query_entry({"query": "a/b", "window": 10}, defaults={"slide": 1}, place=FilePlace(file="the query")).slide
    1
    """
    common = _fields(dict(defaults or {}), _DEFAULTS, DEFAULT_FIELDS)
    return _read_entry(place, entry, common, dict.fromkeys(common, _DEFAULTS))


def _read_entry(place: FilePlace, entry: Any, common: dict[str, Any], places: dict[str, FilePlace]) -> QueryEntry:
    """Return one query; `common` contains the defaults of its fields, and `places` their places.

    This is the one place that reads the text of a query that is not created in Python.
    """
    own = _fields(entry, place, FIELDS)
    if "query" not in own:
        raise place.error("has no field query: an expression such as 'a/b*', or a pattern such as '?x a ?y'")
    text = own.pop("query")
    values = _with_parameters(common, own)
    places = places | dict.fromkeys(own, place)
    language = values["language"] = values.get("language") or language_of(text)
    if language not in ("gql", "cypher"):
        for option in {"node_label", "parameters"} - {*own}:
            values.pop(option, None)
    if misfit := unsuitable_option(language, text, values):
        raise places.get(misfit.option, place).error(misfit.reason, field=misfit.option)
    try:
        if "parameters" in values:
            own_names = own.get("parameters", ())
            values["parameters"] = _parameters_of(text, values["parameters"], own=own_names) or None
        options = {name: value for name, value in values.items() if name not in ("window", "slide", "output")}
        parsed = Query(text, **options, window=Window(size=1, slide=1))
    except QueryError as error:
        what = "expression" if language == "path" else "pattern"
        raise place.query_error(error, places=places, what=what) from error
    return QueryEntry(place=place, places=places, expression=text, parsed=parsed, **{"name": parsed.name} | values)


def _with_parameters(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return fields with their defaults; those of parameters are defaults for each parameter."""
    both = common | own
    if "parameters" in common and "parameters" in own:
        both["parameters"] = common["parameters"] | own["parameters"]
    return both


def _parameters_of(text: str, parameters: dict[str, Any], *, own: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a MATCH text: its `own`, and the defaults that it names. Raises `QueryError`."""
    from rpq.language.match.parameters import parameters_in  # queries without parameters do not load MATCH
    from rpq.language.match.syntax import parse

    names = parameters_in(parse(text))
    return {name: value for name, value in parameters.items() if name in own or name in names}


def _content(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise FilePlace(file=file).error(f"cannot be read: {error.strerror or error}") from error


def read_toml(file: str) -> dict[str, Any]:
    """Return the content of a file in TOML.  Raises `QueryFileError`, with the place of the error."""
    return _parse_toml(file, _content(file))


def _parse_toml(file: str, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FilePlace(file=file, line=line).error("is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise FilePlace(file=file).error(f"is not TOML: {error}") from error


def _toml(file: str, content: bytes) -> dict[str, Any]:
    place, document = FilePlace(file=file), _parse_toml(file, content)
    for key in document:
        if key not in ("defaults", "query"):
            hint = " (fields that all queries share belong in [defaults])" if key in FIELDS else ""
            hint = did_you_mean(key, ("defaults", "query")) + hint
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
                f"is not known: expected one of {', '.join(names)}{did_you_mean(field, [*names])}", field=_name(field)
            )
    return {field: _check_field(field, value, place) for field, value in table.items() if value is not None}


def _check_field(field: str, value: Any, place: FilePlace) -> Any:
    """Return the value of a field in the form of `QueryEntry`."""
    kind = OPTIONS[field].kind if field in OPTIONS else "text"
    is_number = isinstance(value, int) and not isinstance(value, bool)
    expected = None
    if kind in ("words", "length"):
        try:
            if kind == "words":
                check_word(field, value)
            elif not is_number and not isinstance(value, str):
                expected = "a number in the stream's unit, or a text such as '6h'"
            else:
                value = length_of_text(value)
                if field == "hold":
                    hold_length(value)
                else:
                    time_order("increasing", **{field: value})
        except QueryError as error:
            raise place.error(str(error).removeprefix(f"{field}: "), field=field) from error
    elif kind == "window":
        _check_length(field, value, place)
    elif kind in ("vertices", "names"):
        if isinstance(value, str) or not isinstance(value, Iterable):
            expected = "a list of vertices" if kind == "vertices" else "a list of variables"
        elif kind == "vertices" and not all(isinstance(one, (int, str)) and not isinstance(one, bool) for one in value):
            expected = "texts or integers as vertices"
        else:
            value = tuple(value)
    elif kind == "flag":
        expected = None if isinstance(value, bool) else "true or false"
    elif kind == "parameters":
        from rpq.language.match.parameters import parameter_values

        try:
            value = parameter_values(value)
        except QueryError as error:
            raise place.error(str(error).removeprefix(f"{field}: "), field=field) from error
    elif kind == "number":
        expected = None if is_number and value > 0 else "a positive number of nodes"
    elif not isinstance(value, str) or (not value and field != "node_label") or (field == "output" and "\0" in value):
        expected = "a text"
    if expected is not None:
        raise place.error(f"expected {expected}, not {_json_text(value)}", field=field)
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


def _name(field: str) -> str:
    """Return the name of a field for a message, on one line."""
    return field if field.isprintable() and field else repr(field)


def _json_text(value: Any) -> str:
    """Return a value for a message, abbreviated if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
