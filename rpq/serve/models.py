"""The models of requests and responses, their validation and JSON, and the limits of a server.

Responses are built from these models, requests are validated against them, and the OpenAPI document has their schemas, so
that the three agree.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from rpq.errors import QueryError, did_you_mean
from rpq.language.options import OPTIONS, Kind, Language, Option, Paths, Report, Semantics

EVENT_ID = "([0-9]{1,18})([.][0-9]{1,9})?(-[0-9a-f]+)?"
"""The pattern of an event id: a position, the number of a part if there are several, and the run of the server."""

Json = dict[str, Any]

Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
Time = Annotated[
    int | str | None,
    Meta(description="A number in the stream's unit, or a date or time as ISO 8601 has it; null before the first tuple."),
]
Value = int | str | float | bool | None
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Bound = Annotated[int, Meta(ge=0, le=2**63 - 1)] | Annotated[str, Meta(min_length=1, examples=["6h"])]
Length = Annotated[int, Meta(ge=1, le=2**63 - 1)] | Annotated[str, Meta(min_length=1, examples=["30d"])]


class RequestFields(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a request; unknown fields are errors."""


# --- queries ---------------------------------------------------------------------------------------------------------


_TYPES: Mapping[Kind, Any] = {
    "window": Length,
    "text": str,
    "names": list[str],
    "vertices": list[Integer | str],
    "number": Size,
    "flag": bool,
    "length": Bound,
    "parameters": dict[str, Any],
}


def _field_of(option: Option) -> tuple[str, Any, None]:
    """Return the field of an option of queries; null means that it is missing."""
    help = option.help + " By default a thirtieth of the window." * (option.name == "slide")
    type_ = Literal[option.words] if option.words else _TYPES[option.kind]
    return option.name, Annotated[type_ | None, Meta(description=help)], None


_TEXT = Annotated[
    str,
    Meta(
        pattern=r"\S",
        description="A path expression, a graph pattern, SPARQL, or MATCH.",
        examples=["a/b*", "?x a ?y . ?y b ?z"],
    ),
]
_START = Annotated[
    Literal["window", "empty"] | None, Meta(description="Begin with the edges in the window, or with none.")
]

QueryRequest = msgspec.defstruct(
    "QueryRequest",
    [("expression", _TEXT), *map(_field_of, OPTIONS.values()), ("start", _START, None)],
    bases=(RequestFields,),
    namespace={"__doc__": "A query in a request; null means that a field is missing."},
    frozen=True,
)


class Query(Struct, frozen=True):
    """A registered query."""

    name: str
    expression: str
    language: Language
    window: int | str | None
    slide: int | str | None
    semantics: Semantics
    paths: Paths
    report: Report
    options: Annotated[dict[str, Any], Meta(description="Further fields of its request that are not the default.")]
    columns: list[str]
    answers: Count


class Queries(Struct, frozen=True):
    queries: list[Query]


class Explained(Struct, frozen=True):
    """The explanation of a query: a text, and a picture if there is something to draw."""

    text: str
    svg: str | None


class Understood(Explained, frozen=True):
    """The explanation of a query that is not registered, with its columns and warnings."""

    language: Language
    columns: list[str]
    warnings: list[str] | UnsetType = UNSET


class AnswersParameters(RequestFields, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1_000_000, description="The maximum number of answers.")] = 1000
    after: Annotated[str | None, Meta(description="The cursor of an earlier response, behind which to continue.")] = None
    source: Annotated[str | None, Meta(description="The source of all answers, for path queries.")] = None
    target: Annotated[str | None, Meta(description="The target of all answers, for path queries.")] = None
    format: Literal["json", "csv", "arrow"] = "json"


class Answers(Struct, frozen=True):
    """Answers of a query, of which it has `total`; `cursor` is the place of the next ones, null if there are none."""

    columns: list[str]
    rows: list[list[Value]]
    cursor: str | None
    total: Count
    time: Time
    position: Count


class FlushParameters(RequestFields, frozen=True):
    query: Annotated[list[str], Meta(description="The names of the queries; by default all.")] = []
    limit: Annotated[int, Meta(ge=0, le=1_000_000, description="The maximum number of rows.")] = 1000


class Change(Struct, frozen=True):
    query: str
    op: str
    timestamp: Time
    values: list[Value]


class Flushed(Struct, frozen=True):
    """The next reports, ahead of their time: `total` rows, of which `changes` contains the first ones up to the limit."""

    changes: list[Change]
    total: Count
    time: Time
    position: Count


class WitnessParameters(RequestFields, frozen=True):
    value: Annotated[list[str], Meta(description="The values of the answer's columns in order; empty for a null.")] = []


class Edge(Struct, frozen=True):
    source: Value
    target: Value
    label: str
    timestamp: Time
    properties: dict[str, Value] | UnsetType = UNSET


class Atom(Struct, frozen=True):
    atom: str
    edges: list[Edge]


class Witness(Struct, frozen=True):
    """The edges behind an answer, in the order of the walk; for a pattern and MATCH also by atom, and the binding."""

    edges: list[Edge]
    time: Time
    position: Count
    atoms: list[Atom] | UnsetType = UNSET
    binding: dict[str, Value] | UnsetType = UNSET


# --- paths that are found once ---------------------------------------------------------------------------------------

MAX_EDGES = 10_000_000
"""The most edges at which a search may look: those take about a second, in which other requests wait."""

_PATH = Annotated[str, Meta(pattern=r"\S", description="A path expression.", examples=["member*/(viewer|editor)"])]
_MAX_EDGES = Annotated[int, Meta(ge=1, le=MAX_EDGES, description="The most edges at which the search may look.")]
_NAMES = Integer | str | list[Integer | str] | None

_SEARCH: list[Any] = [
    *(_field_of(OPTIONS[name]) for name in ("window", "slide", "order", "max_gap", "max_span")),
    ("max_edges", _MAX_EDGES, 1_000_000),
]

FindRequest = msgspec.defstruct(
    "FindRequest",
    [
        ("expression", _PATH),
        ("source", Annotated[_NAMES, Meta(description="One source of paths, or a list; null for any.")], None),
        ("target", Annotated[_NAMES, Meta(description="One target of paths, or a list; null for any.")], None),
        ("limit", Annotated[int, Meta(ge=1, le=1_000_000, description="The maximum number of pairs.")], 1000),
        ("witness", Annotated[bool, Meta(description="Whether to return a path for each pair.")], False),
        *_SEARCH,
    ],
    bases=(RequestFields,),
    namespace={"__doc__": "A path expression and the ends of its paths; the window is by default that of --keep."},
    frozen=True,
)

CheckParameters = msgspec.defstruct(
    "CheckParameters",
    [
        ("expression", _PATH),
        ("source", Annotated[str, Meta(description="The source of the path.")]),
        ("target", Annotated[str, Meta(description="The target of the path.")]),
        *_SEARCH,
    ],
    bases=(RequestFields,),
    frozen=True,
)


class Found(Struct, frozen=True):
    """The pairs that were found; `is_cut` is true if the limit left some out. `paths` has one for each pair, if wanted."""

    pairs: list[list[Value]]
    is_cut: bool
    time: Time
    position: Count
    paths: list[list[Edge]] | UnsetType = UNSET


class Checked(Struct, frozen=True):
    """The edges of a path, in its order; null if there is none."""

    path: list[Edge] | None
    time: Time
    position: Count


# --- tuples and changes ----------------------------------------------------------------------------------------------


class PostedStream(RequestFields, frozen=True):
    stream: Annotated[str | None, Meta(description="The stream of all tuples.")] = None
    timestamp: Annotated[Integer | None, Meta(description="The time of all triples of RDF.")] = None
    columns: Annotated[
        str | None, Meta(description="The names of columns, as in --columns: source=user.id,target=item,timestamp=ts.")
    ] = None
    label: Annotated[str | None, Meta(description="The label of all edges, in place of a column of labels.")] = None


class Applied(Struct, frozen=True):
    tuples: Count
    late: Count
    time: Time
    position: Count
    warnings: list[str] | UnsetType = UNSET


class AppliedNodes(Struct, frozen=True):
    records: Count
    time: Time
    position: Count


class Node(Struct, frozen=True):
    """The facts of a node."""

    name: int | str
    labels: list[str]
    properties: dict[str, Value]
    time: Time
    position: Count


class ChangesParameters(RequestFields, frozen=True):
    query: Annotated[list[str], Meta(description="The names of the queries; by default all.")] = []
    after: Annotated[
        str | None,
        Meta(description="Continue after this position or event.", extra_json_schema={"pattern": f"^{EVENT_ID}$"}),
    ] = None
    message: Annotated[
        str | None,
        Meta(
            description="A text for each row, its `message`, with columns of the one query followed in braces: "
            "`{source} reached {target}`; also query, timestamp and op."
        ),
    ] = None


# --- the server itself -----------------------------------------------------------------------------------------------


class Backup(Struct, frozen=True):
    """A copy of the checkpoint: the name of its file, the size, and the position up to which it has all changes."""

    name: str
    bytes: Count
    position: Count


class QueryFigures(Struct, frozen=True):
    name: str
    answers: Count
    rows: Count
    rows_added: Count
    rows_removed: Count
    index_bytes: Count


class Statistics(Struct, frozen=True):
    time: Time
    time_unit: str | None
    position: Count
    tuples: Count
    late: Count
    seconds: Seconds
    tuples_per_second: Seconds
    latency_ms: Annotated[dict[str, float | None], Meta(description="p50, p99 and max, from arrival to end of posts.")]
    memory_bytes: Count
    edges: Count
    vertices: Count
    followers: Count
    followers_dropped: Count
    failure: str | None
    storage: Annotated[str | None, Meta(description="The reason why the journal or the checkpoint cannot be written now.")]
    queries: list[QueryFigures]


class Playback(Struct, frozen=True):
    """The playback of the input; `time` is the stream time that it has reached."""

    state: Literal["playing", "paused", "ended"]
    speed: float | None
    time: Time


class ChangedPlayback(RequestFields, frozen=True):
    """A change of the playback; a null speed means full speed."""

    state: Literal["playing", "paused"] | UnsetType = UNSET
    speed: Annotated[float, Meta(gt=0, le=1e15)] | UnsetType | None = UNSET


class Status(Struct, frozen=True):
    status: Literal["alive", "ready"]


class ErrorContent(Struct, frozen=True):
    """The description of an error, and its place if it is known."""

    type: str
    message: str
    line: Count | UnsetType = UNSET
    column: Size | UnsetType = UNSET
    length: Size | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    row: Count | UnsetType = UNSET
    applied: Count | UnsetType = UNSET
    position: Count | UnsetType = UNSET
    available_from: Time | UnsetType = UNSET
    query: str | UnsetType = UNSET
    limit: Count | UnsetType = UNSET


class Error(Struct, frozen=True):
    error: ErrorContent


# --- schemas ---------------------------------------------------------------------------------------------------------

Model = TypeVar("Model", bound=Struct)


class FieldsError(QueryError):
    """Invalid fields of a request; `field` is the name of the invalid one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


@functools.cache
def properties_of(model: type[Struct]) -> Json:
    """Return the schemas of the fields of a model.

    >>> properties_of(Status)
    {'status': {'enum': ['alive', 'ready']}}
    """
    found: Json = msgspec.json.schema_components([model])[1][model.__name__]["properties"]
    return found


def read_model(fields: Any, model: type[Model], *, kind: str = "field", are_texts: bool = False) -> Model:
    """Convert a JSON object to a model; with `are_texts`, its values are texts, as in an address.

    Raises `FieldsError`, whose message calls a field `kind`.

    >>> read_model({"state": "pause"}, ChangedPlayback)
    Traceback (most recent call last):
    rpq.serve.models.FieldsError: state: expected 'paused' or 'playing', not "pause"; did you mean 'paused'?
    """
    properties = properties_of(model)
    if not isinstance(fields, dict):
        raise FieldsError(f"expected a JSON object with {', '.join(properties)}, not {_shorten(fields)}")
    for name, value in fields.items():
        if name not in properties:
            expected = f"expected {', '.join(properties)}" if properties else "there are none here"
            name = name.encode(errors="backslashreplace").decode()
            raise FieldsError(f"{name!r} is not a {kind}: {expected}{did_you_mean(name, list(properties))}", field=name)
        try:
            json_text(value)
        except UnicodeEncodeError:
            raise FieldsError(f"{name}: has half of a surrogate pair, which is not valid text", field=name) from None
    try:
        return msgspec.convert(fields, model, strict=not are_texts)
    except msgspec.ValidationError as error:
        found = re.search(r"`(?:[$][.])?(\w+)[^`]*`$", str(error))
        assert found is not None  # of the field that is missing, or the path of the one that is wrong
        field, value = found[1], fields.get(found[1])
        words = [word for one in _kinds(properties[field]) for word in one.get("enum", ())]
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        seen = _shorten(value) if field in fields else "nothing"
        raise FieldsError(f"{field}: expected {_schema_text(properties[field])}, not {seen}{hint}", field=field) from error


def _kinds(schema: Json) -> list[Json]:
    """Return the alternatives of a schema, without null."""
    return [one for one in schema.get("anyOf", [schema]) if one != {"type": "null"}]


def _schema_text(schema: Json) -> str:
    """Return a description of the values that a schema accepts."""
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(map(_schema_text, _kinds(schema)))
    if schema["type"] == "array":
        return f"a list, in which each is {_schema_text(schema['items'])}"
    words = {
        "integer": "a whole number",
        "number": "a number",
        "string": "a text",
        "boolean": "true or false",
        "object": "an object",
    }
    low, above, high = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    least = f" from {low:,}" if low is not None else f" above {above:,}" if above is not None else ""
    most = f" to {high:,}" if high is not None and high < 2**53 else ""
    examples = " such as " + " or ".join(map(repr, schema["examples"])) if "examples" in schema else ""
    return words[schema["type"]] + least + most + examples


def _shorten(value: Any) -> str:
    text = json_text(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def json_value(value: Any) -> Any:
    """Return a vertex, a value of SPARQL or a time as a value of JSON; other types become texts.

    >>> [json_value(value) for value in (1, "x", None, float("nan"), datetime.date(2024, 5, 1))]
    [1, 'x', None, 'NaN', '2024-05-01']
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=json_value)


def json_text(value: Any) -> bytes:
    """Encode a model, or another value, as JSON in UTF-8, on one line without blanks.

    >>> json_text({"name": "ü\\n"}).decode()
    '{"name":"ü\\\\n"}'
    """
    return _ENCODER.encode(value)


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """Limits of a server: `body_bytes` of one request, `queries` registered over HTTP, `followers` at the same time.

    `lag_rows` is the number of rows of changes that may wait for a follower before it is dropped, `history_rows` the number
    stored for returning followers, `waiting_bytes` the number of bytes of bodies that may wait for the engine, including
    those being received and those of the tuples in them, each value written out in full.

    At most `connections` are open. The head of a request, and each further part of a body, must arrive within
    `request_seconds`; a connection without a request, or whose client does not read, is closed after `idle_seconds`.

    The text of a query has at most `expression_bytes`; compiling and explaining it may take `check_seconds`.

    >>> ServeLimits().queries
    1000
    """

    body_bytes: int = 16 << 20
    queries: int = 1000
    followers: int = 1000
    lag_rows: int = 100_000
    history_rows: int = 100_000
    waiting_bytes: int = 256 << 20
    connections: int = 2000
    request_seconds: float = 20.0
    idle_seconds: float = 75.0
    expression_bytes: int = 64 << 10
    check_seconds: float = 5.0
