"""Reading requests: bodies, posted tuples and queries, and the problems that responses report about them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from rpq.cli.options import advice_for_command
from rpq.errors import (
    ExpressionError,
    FindLimitError,
    InputError,
    LimitError,
    PushLimitError,
    QueryError,
    QueryTextError,
    RegistrationError,
    RpqError,
)
from rpq.language.kinds import options_json
from rpq.language.options import OPTIONS
from rpq.language.query import Query
from rpq.language.query_file import FilePlace, QueryEntry, query_entry
from rpq.language.sparql.query import SparqlQuery
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import read_tuples
from rpq.readers.inputs import order_rows
from rpq.readers.node_files import NodeFileColumns, read_nodes
from rpq.readers.rdf.rdf_syntax import SYNTAX_OF_TYPE
from rpq.readers.source import InputSizeError, check_size
from rpq.serve import models
from rpq.serve.models import Error, ErrorContent, FieldsError, ServeLimits, json_text, json_value, read_model
from rpq.stream.arrays.fields import FieldError
from rpq.stream.arrays.plain_columns import plain, plain_column
from rpq.stream.columns import check_stream, columns_by_name
from rpq.stream.durations import DurationError, duration_text, parse_duration
from rpq.stream.window import Window, kind_of_text, size_and_slide

if TYPE_CHECKING:
    from rpq.readers.rdf.rdf_format import RdfDocuments
    from rpq.readers.text.edge_rules import EdgeRules

_WORD = re.compile(r"[\w.:#-]+|\S")


class ServiceFailed(RpqError):
    """The engine accepts no more jobs; the message gives the reason."""


class StorageUnavailable(RpqError):
    """A request cannot be saved now and was not executed; the message gives the reason.

    `number` is that of the system's error, if there is one; a client may retry after `retry_after` seconds.
    """

    def __init__(self, message: str, *, number: int | None = None, retry_after: int) -> None:
        super().__init__(message)
        self.is_full = number in (errno.ENOSPC, errno.EDQUOT)
        self.retry_after = retry_after


class ServiceBusy(RpqError):
    """The engine cannot do something now, because it is busy; it does so later."""


class NameTaken(RpqError):
    """There is a query of that name already."""


class KeyReused(RpqError):
    """The idempotency key of a post is that of an earlier one with another content."""


class NoSuchQuery(RpqError):
    """There is no query of that name."""


class TooManyQueries(RpqError):
    """The limit on registered queries is reached."""


class NotApplied(RpqError):
    """Only the first `applied` of the posted tuples were applied; `cause` is the error of the next one."""

    def __init__(self, cause: Exception, *, applied: int, position: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.applied = applied
        self.position = position


STATUS: tuple[tuple[type[Exception], int], ...] = (
    (ServiceFailed, 503),
    (ServiceBusy, 503),
    (StorageUnavailable, 503),
    (NameTaken, 409),
    (KeyReused, 422),
    (NoSuchQuery, 404),
    (TooManyQueries, 429),
    (RegistrationError, 409),
    (LimitError, 507),
    (FindLimitError, 422),
    (InputSizeError, 413),
    (QueryError, 422),
    (InputError, 422),
)


class Problem(RpqError):
    """The content of an error response; `more` has further fields of it, `headers` those of the response."""

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        more: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.more = more
        self.headers = headers

    def __reduce__(self) -> Any:  # exceptions are pickled by their message alone
        return Problem, (self.status, self.type, self.message, self.more, self.headers)

    def content(self) -> Error:
        """Return the body of the response."""
        more = {name: value for name, value in (self.more or {}).items() if value is not None}
        return Error(error=ErrorContent(type=self.type, message=self.message, **more))


def problem_of(error: Exception, text: str | None = None) -> Problem:
    """Return the problem that reports an error; `text` is the query that the error may refer to."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, NotApplied):
        inner = problem_of(error.cause)
        return Problem(
            inner.status,
            inner.type,
            inner.message,
            {**(inner.more or {}), "applied": error.applied, "position": error.position},
            inner.headers,
        )
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, (ExpressionError, QueryTextError)):
        cause = cause.__cause__
    if isinstance(cause, (ExpressionError, QueryTextError)):
        return _syntax_problem(cause, text)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    if status == 500:
        message = str(error) if isinstance(error, RpqError) else "the server failed; its log says more"
        return Problem(500, type(error).__name__ if isinstance(error, RpqError) else "InternalError", message)
    headers = {"Retry-After": "5"} if status == 503 else None
    if isinstance(error, StorageUnavailable):
        status, headers = 507 if error.is_full else 503, {"Retry-After": str(error.retry_after)}
    if isinstance(error, PushLimitError) and error.limit is None:  # interrupted
        status, headers = 503, {"Retry-After": "1"}
    return Problem(status, type(error).__name__, advice_for_command(str(error), "rpq serve "), _error_fields(error), headers)


def _error_fields(error: Exception) -> dict[str, Any]:
    """Return the fields of an error besides its message."""
    more: dict[str, Any] = {}
    if isinstance(error, InputError):
        more |= {"line": error.line, "row": error.row, "field": error.column}
    if isinstance(error, RegistrationError):
        more["available_from"] = json_value(error.available_from)
    if isinstance(error, LimitError):
        more |= {"query": getattr(error, "query", None), "limit": getattr(error, "limit", None)}
    field = getattr(error, "field", None)
    if field is not None:
        more["field"] = "expression" if field == "query" and not isinstance(error, FieldsError) else field
    return more


def _syntax_problem(error: ExpressionError | QueryTextError, text: str | None) -> Problem:
    """Return the problem of a query that cannot be parsed, with line, column and length of the faulty part."""
    expected = error.expected
    more: dict[str, Any] = {"field": "expression"}
    if isinstance(error, QueryTextError):
        name, written, line, column = type(error).__name__, error.text, error.line, error.column
    else:
        name, written = "ExpressionError", error.expression
        before = written[: error.column - 1]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    if line is not None and column is not None:
        lines = (text if text is not None else written).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
        found = _WORD.match(rest)
        more |= {"line": line, "column": column, "length": len(found[0]) if found else 1}
    if expected:
        more["hint"] = f"expected {expected}"
    return Problem(422, name, error.message, more)


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(json_text(content), status_code=status, media_type="application/json")


def problem_response(problem: Problem) -> Response:
    """Return the response that reports a problem."""
    response = json_response(problem.content(), problem.status)
    response.headers.update(problem.headers or {})
    return response


KEY_HEADER = "Idempotency-Key"
MAX_KEY = 255
"""The largest length of an idempotency key."""


class PostKey(NamedTuple):
    """The idempotency key of a post, and the digest of what it asks for."""

    text: str
    digest: str

    @classmethod
    def of(cls, request: Request, body: bytes) -> PostKey | None:
        """Return the key of a request; None if it has none.  Raises `Problem`.  O(bytes)."""
        texts = request.headers.getlist(KEY_HEADER)
        if not texts:
            return None
        if len(texts) > 1 or not 0 < len(texts[0]) <= MAX_KEY:
            message = f"{KEY_HEADER}: expected one text of 1 to {MAX_KEY} characters, such as a UUID"
            raise Problem(422, "BadParameter", message, {"field": KEY_HEADER})
        about = (request.url.path, request.url.query, content_type(request))
        digest = blake2b(repr(about).encode(), digest_size=16)
        digest.update(body)
        return cls(texts[0], digest.hexdigest())


BODY_SECONDS = 120.0
"""The longest transfer of a body, in seconds."""


class RequestBodies:
    """A reader of request bodies that counts the bytes of those in progress."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self.waiting_bytes = 0

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Read the body of a request, neither too large nor compressed; it counts as waiting within the context."""
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            raise Problem(415, "CodingRefused", f"the content coding {coding} is not supported; send the body as it is")
        limits = self._limits
        message = f"the body has more than {limits.body_bytes:,} bytes (--max-body); send it in parts"
        too_large = Problem(413, "BodyTooLarge", message)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limits.body_bytes:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS), asyncio.timeout(limits.request_seconds) as pause:
                    async for part in request.stream():
                        pause.reschedule(asyncio.get_running_loop().time() + limits.request_seconds)
                        parts.append(part)
                        size += len(part)
                        self.waiting_bytes += len(part)
                        if size > limits.body_bytes:
                            raise too_large
                        self._check_waiting()
            except TimeoutError:
                seconds = f"{BODY_SECONDS:.0f} seconds, or no part of it arrived in {limits.request_seconds:g}"
                message = f"the body was not complete after {seconds}"
                raise Problem(408, "BodyTooSlow", message, None, {"Connection": "close"}) from None
            yield b"".join(parts)
        finally:
            self.waiting_bytes -= size

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Count so many further bytes, of the tuples in a body, as waiting within the context."""
        self.waiting_bytes += size
        try:
            self._check_waiting()
            yield
        finally:
            self.waiting_bytes -= size

    def _check_waiting(self) -> None:
        if self.waiting_bytes > self._limits.waiting_bytes:
            message = "too many tuples wait for the engine; send these again later"
            raise Problem(503, "TooMuchWaits", message, None, {"Retry-After": "1"})

    async def json(self, request: Request) -> Any:
        type_ = content_type(request)
        if type_ != "application/json":
            raise Problem(415, "TypeRefused", f"expected application/json, not {type_ or 'no content type'}")
        async with self.read(request) as body:
            try:
                return loads(body, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                raise Problem(400, "NoJson", f"the body is not JSON: {error}") from error


def content_type(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


NAME = "the body"
"""The name of a request body in messages."""

JSON_LINES = ("application/x-ndjson", "application/jsonl")
CSV = ("text/csv", "text/tab-separated-values")
ARROW = ("application/vnd.apache.arrow.stream",)
JSON = "application/json"
TUPLE_TYPES = (*JSON_LINES, JSON, *CSV, *ARROW, *SYNTAX_OF_TYPE)

TUPLE_SCHEMAS = {
    JSON_LINES[0]: {
        "type": "string",
        "description": "One object per line: source, target, label, timestamp[, op or delete][, stream].",
        "examples": ['{"source":"x","target":"y","label":"a","timestamp":1}\n'],
    },
    JSON: {
        "description": "Such an object, or an array of them.",
        "examples": [[{"source": "x", "target": "y", "label": "a", "timestamp": 1}]],
    },
    CSV[0]: {
        "type": "string",
        "description": "Fields in that order, or in any order with a header.",
        "examples": ["source,target,label,timestamp\nx,y,a,1\n"],
    },
    ARROW[0]: {"description": "A stream of Arrow's IPC format, with these columns."},
    "application/n-quads": {
        "type": "string",
        "description": "Triples, with the time that --rdf-time names, or ?timestamp=; so are text/turtle, application/trig, "
        "application/ld+json, application/n-triples and application/rdf+xml.",
        "examples": ["<http://example.org/x> <http://example.org/a> <http://example.org/y> <urn:rpq:insert:1> .\n"],
    },
    **{type_: {"type": "string"} for type_ in SYNTAX_OF_TYPE if type_ != "application/n-quads"},
}
"""Schemas of the bodies, by content type."""

_NAMES = ("source", "target", "label", "timestamp", "op", "delete", "stream")

MAX_NAME = 1000
"""The length of a label or the name of a stream that the address of a post gives to all of its tuples."""


class PostedTuples(NamedTuple):
    """The tuples of a body, None if there are none, warnings about ambiguous content, and the bytes of all values."""

    columns: pa.RecordBatch | None
    warnings: list[str]
    size: int = 0


def read_tuple_body(
    body: bytes,
    type_: str,
    *,
    stream: str | None,
    time_unit: str | None,
    further: Sequence[str] = (),
    documents: RdfDocuments | None = None,
    timestamp: int | None = None,
    rules: EdgeRules | None = None,
    names: ColumnNames | None = None,
    renamed: str | None = None,
    label: str | None = None,
    key: PostKey | None = None,
    most_bytes: int = ServeLimits.waiting_bytes,
) -> PostedTuples:
    """Read the tuples of a body whose content type is one of `TUPLE_TYPES`, in their order.

    All of them belong to `stream`, unless it is None.  `further` columns are read if they are present: properties of
    edges, and `edge` where edges have ids.  Raises `InputError`, with a line number for formats that have lines;
    then none of the tuples may be applied.  JSON lines and CSV are read as files are.  RDF is read by `documents`, with the
    `timestamp`, if it is not None; bodies with the same `key` have the same blank nodes.  With `rules`, JSON lines and CSV
    are records, from which the rules derive edges; `names` has the format of their times and the kind of their vertices.
    `renamed` and `label` are `--columns` and `--label` for this body.  Raises `InputSizeError` if the body and its tuples,
    each value written out in full, have over `most_bytes`.  O(bytes).
    """
    most_bytes = max(0, most_bytes - len(body))  # the body is kept until its tuples are applied
    if stream is not None:
        check_stream(stream)
    for parameter, text in (("stream", stream), ("label", label)):
        if text is not None and len(text) > MAX_NAME:  # the journal has it in each tuple
            raise InputError(f"?{parameter}= has {len(text):,} characters; expected at most {MAX_NAME:,}")
    if timestamp is not None and type_ not in SYNTAX_OF_TYPE:
        raise InputError("?timestamp= is the time of RDF triples; other tuples have a column 'timestamp'")
    if renamed is not None or label is not None:
        used_parameter = "?columns=" if renamed is not None else "?label="
        if rules is not None or type_ not in (JSON, *JSON_LINES, *CSV):
            reason = "--edges-from names the columns of records" if rules is not None else "its columns have fixed names"
            raise InputError(f"{used_parameter} is for JSON and CSV; {reason}")
        names = _rename_columns(names or ColumnNames(), renamed, label, further)
    if type_ in SYNTAX_OF_TYPE:
        columns, warnings = _read_rdf(body, SYNTAX_OF_TYPE[type_], documents, timestamp, key, most_bytes), list[str]()
    elif type_ in ARROW:
        columns, warnings = _read_arrow(body, further, most_bytes)
    else:
        only_json = type_ in (JSON, *JSON_LINES)
        names = replace(names or ColumnNames(fixed=True), properties=tuple(further))
        batches, warnings = read_tuples(
            _json_lines(body) if type_ == JSON else body,
            name=NAME,
            only_json=only_json,
            time_unit=time_unit,
            columns=names,
            rules=rules,
        )
        columns = concatenate(batches)
    if columns is None:
        return PostedTuples(columns, warnings)
    if stream is not None:
        if "stream" in columns.schema.names:
            raise InputError("the tuples have a column 'stream', and ?stream= names one for all: give one of the two")
        named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(columns.num_rows, np.int32)), pa.array([stream]))
        columns = columns.append_column("stream", named.cast(LABEL_TYPE))
    size = columns.get_total_buffer_size() + sum(map(_written_bytes, columns.columns))
    check_size(size, most_bytes=most_bytes, name=NAME)
    return PostedTuples(columns, warnings, size)


NODE_SCHEMAS = {
    JSON_LINES[0]: {
        "type": "string",
        "description": "One object per line: node[, labels][, op: + = or -][, timestamp], and properties.",
        "examples": ['{"node":"x","labels":["Account"],"risk":4}\n'],
    },
    JSON: {
        "description": "An object, or an array of objects, as in JSON lines.",
        "examples": [{"node": "x", "labels": ["Account"], "risk": 4}],
    },
    CSV[0]: {
        "type": "string",
        "description": "A header and lines of fields; labels are separated by semicolons, and an empty field is null.",
        "examples": ["node,labels,risk\nx,Account,4\n"],
    },
}
NODE_TYPES = (*JSON_LINES, JSON, *CSV)


def read_node_body(
    body: bytes, type_: str, *, time_unit: str | None, names: ColumnNames | None, most_bytes: int
) -> PostedTuples:
    """Read the records of nodes of a body whose content type is one of `NODE_TYPES`, as `read_tuple_body` reads tuples."""
    columns = NodeFileColumns() if names is None else NodeFileColumns(time_format=names.time_format, trim=names.trim)
    only_json = type_ not in CSV
    data = _json_lines(body) if type_ == JSON else body
    rows = concatenate(read_nodes(data, name=NAME, only_json=only_json, time_unit=time_unit, columns=columns))
    size = 0 if rows is None else rows.get_total_buffer_size()
    check_size(size, most_bytes=most_bytes, name=NAME)
    return PostedTuples(rows, [], size)


def _rename_columns(names: ColumnNames, renamed: str | None, label: str | None, further: Sequence[str]) -> ColumnNames:
    parsed = ColumnNames.parse(renamed, label=label, properties=further)
    return replace(parsed, time_format=names.time_format, text_vertices=names.text_vertices, trim=names.trim)


def _json_lines(body: bytes) -> bytes:
    """Return a JSON object, or each of an array of them, as a line of its own, with its numbers as they are written.

    Raises `InputError`. O(bytes).
    """
    try:
        document = msgspec.json.decode(body, type=msgspec.Raw)
        objects = msgspec.json.decode(document, type=list[msgspec.Raw]) if bytes(document).startswith(b"[") else [document]
    except RecursionError as error:
        raise InputError(f"{NAME}: cannot be read as JSON: its values are nested too deeply") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{NAME}: is not JSON: {error}; send several objects, one per line, as {JSON_LINES[0]}") from error
    # Line ends stand between tokens alone: in texts they are escaped.
    return b"".join(bytes(one).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for one in objects)


def _read_rdf(
    body: bytes,
    syntax: str,
    documents: RdfDocuments | None,
    timestamp: int | None,
    key: PostKey | None,
    most_bytes: int,
) -> pa.RecordBatch | None:
    """Read a document of RDF, whose blank nodes are other nodes than those of other documents."""
    from rpq.readers.rdf.rdf_format import RdfDocuments, RdfReading

    documents = documents or RdfDocuments(RdfReading())
    scope = f"p{(uuid4() if key is None else uuid5(NAMESPACE_OID, repr(key))).hex[:16]}"
    return documents.read(body, syntax=syntax, name=NAME, scope=scope, timestamp=timestamp, most_bytes=most_bytes)


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Concatenate batches with the same columns; return None if they have no rows."""
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) < 2:
        return filled[0] if filled else None
    return order_rows(filled, np.zeros(sum(batch.num_rows for batch in filled), np.int8))


def can_concatenate(first: pa.Schema, second: pa.Schema) -> bool:
    """Return whether tuples with these columns may be pushed as one."""
    return first.equals(second, check_metadata=True) and "op" not in first.names


_DAMAGED = (pa.ArrowException, OSError, EOFError, MemoryError, struct.error, UnicodeDecodeError)


def _read_arrow(body: bytes, further: Sequence[str], most_bytes: int) -> tuple[pa.RecordBatch | None, list[str]]:
    """Read tuples from a stream in Arrow's IPC format; its size is known before its values are unpacked and written out."""
    try:
        unpacked = sum(map(_unpacked_bytes, pa.ipc.MessageReader.open_stream(pa.BufferReader(body))))
        check_size(unpacked, most_bytes=most_bytes, name=NAME)
        size = 0
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            _ = reader.schema.names  # which are UTF-8
            batches: list[pa.RecordBatch] = []
            for batch in reader:
                batch.validate()  # lengths from outside may be of more than there is
                size += batch.get_total_buffer_size()  # with its dictionaries, of which each batch may have longer ones
                check_size(size, most_bytes=most_bytes, name=NAME)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
    except _DAMAGED as error:
        raise InputError(f"{NAME}: is not a stream in Arrow's IPC format: {str(error) or 'it is damaged'}") from error
    tuple_columns, other_names = columns_by_name(table)
    try:
        ColumnNames(fixed=True).check_present([*tuple_columns, *map(str, other_names)], present=list(tuple_columns))
        unread = ColumnNames(fixed=True).deletes_not_read(table.schema.names)
    except FieldError as error:
        place = "" if error.column is None else f"column '{error.column}' "
        raise InputError(f"{NAME}: {place}{error.message}", column=error.column) from error
    warnings = [f"{NAME}: {warning}" for warning in unread]
    if not table.num_rows:
        return None, warnings
    there = [name for name in further if table.schema.names.count(name) == 1]
    for name, column in (tuple_columns | {name: table.column(name) for name in there}).items():
        try:
            size += sum(map(_written_bytes, column.chunks))
        except (pa.ArrowException, ValueError, IndexError) as error:
            reason = f"{NAME}: column {name!r} of type {column.type} cannot be read: {error}"
            raise InputError(reason, column=name) from error
        check_size(size, most_bytes=most_bytes, name=NAME)
    # Plain types from here on: the engine gets it together with what others post.
    columns = {name: plain_column(name, tuple_columns[name]) for name in _NAMES if name in tuple_columns}
    columns |= {name: _plain_property(name, table.column(name)) for name in there}
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns]), warnings


def _unpacked_bytes(message: Any) -> int:
    """Return how many bytes the compressed buffers of a message of Arrow's IPC format have once they are unpacked.

    Each buffer begins with that number, which pyarrow does not tell before it unpacks the buffer. The places of buffers are
    in the metadata, a table of FlatBuffers. Raises `struct.error`.
    """
    data = message.metadata.to_pybytes()

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", data, place)[0])

    def field(table: int, number: int) -> int | None:
        """Return the place of a field of a table; None if the table lacks it."""
        vtable = table - struct.unpack_from("<i", data, table)[0]
        place = 4 + 2 * number
        has_place = struct.unpack_from("<H", data, vtable)[0] >= place + 2
        offset = struct.unpack_from("<H", data, vtable + place)[0] if has_place else 0
        return table + offset if offset else None

    header = field(follow(0), 2)
    if header is None or message.type not in ("record batch", "dictionary"):
        return 0
    batch = follow(header)
    if message.type == "dictionary":
        if (content := field(batch, 1)) is None:
            return 0
        batch = follow(content)
    buffers = field(batch, 2)
    is_compressed = field(batch, 3) is not None or b"ARROW:experimental_compression" in data
    if buffers is None or not is_compressed:
        return 0
    first = follow(buffers)
    places = struct.iter_unpack("<qq", data[first + 4 : first + 4 + 16 * struct.unpack_from("<I", data, first)[0]])
    body = message.body or b""
    return sum(max(0, int(struct.unpack_from("<q", body, place)[0])) for place, length in places if length >= 8)


def _written_bytes(array: pa.Array) -> int:
    """Return how many bytes are added when the values that the layout of an array repeats, or leaves out, are written out.

    Raises `ValueError` and `IndexError` for a broken layout, or one that is nested too oddly.  O(rows in memory).
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _written_bytes(array.storage)
    if pa.types.is_null(kind):
        return _NUMBER_BYTES * len(array)
    if pa.types.is_run_end_encoded(kind):
        ends = np.clip(array.run_ends.to_numpy().astype(np.float64) - array.offset, 0, len(array))
        return int(np.diff(ends, prepend=0) @ _value_bytes(array.values))
    return int(_value_bytes(array).sum()) if pa.types.is_dictionary(kind) or _is_view(kind) else 0


_NUMBER_BYTES = 8


def _value_bytes(array: pa.Array) -> np.ndarray:
    """Return about how many bytes each value of an array has."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _value_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        indices = array.indices.drop_null().to_numpy()
        return _value_bytes(array.dictionary)[indices]
    if _is_view(kind):
        views = np.frombuffer(array.buffers()[1] or b"", np.uint32).reshape(-1, 4)
        lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64) + _NUMBER_BYTES
        return np.where(array.is_null().to_numpy(zero_copy_only=False), _NUMBER_BYTES, lengths)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.binary_length(array).fill_null(0).to_numpy().astype(np.int64) + _NUMBER_BYTES
    return np.full(len(array), max(_NUMBER_BYTES, kind.bit_width // 8))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _plain_property(name: str, column: pa.ChunkedArray) -> pa.Array:
    try:
        return plain(column)
    except (pa.ArrowException, ValueError) as problem:
        reason = f"{NAME}: column '{name}' of type {column.type} cannot be read: {problem}"
        raise InputError(reason, column=name) from problem


PLACE = FilePlace(file="the query")
SLIDES = 30
"""The default slide of a time window is its size divided by this."""

UNREACHABLE = (".", "..")
"""Names that browsers and other clients resolve as relative paths in an address, however they are written."""


@dataclass(frozen=True, kw_only=True)
class QueryDefaults:
    """Defaults for the fields of a query, by name, and the unit of the stream's timestamps."""

    fields: Mapping[str, Any]
    time_unit: str | None = None

    def check_budget(self, query: Query) -> None:
        """Raise `QueryError` for a query of a client that has a larger budget than the server gives."""
        given = getattr(query, "simple_budget", 0)
        limit = self.fields.get("simple_budget", OPTIONS["simple_budget"].default)
        if given > limit:
            raise QueryError(f"simple_budget: {given:,} is more than the budget of the server, {limit:,} (--simple-budget)")


def parse_query(fields: Any, defaults: QueryDefaults) -> Query:
    """Return the query that a JSON object describes.  Raises `QueryError`, with its place in the text if it is known."""
    read_model(fields, models.QueryRequest, kind="field of a query")
    entry = {name: value for name, value in fields.items() if name not in ("expression", "start") and value is not None}
    if entry.get("name") == "":
        del entry["name"]
    parsed = query_entry({**entry, "query": fields["expression"]}, defaults=defaults.fields, place=PLACE)
    query = query_of(parsed, defaults.time_unit)
    if query.name in UNREACHABLE:
        message = f"name: a query named {query.name!r} has no address: clients leave it out of paths; give it another"
        raise FieldsError(message, field="name")
    return query


def query_of(entry: QueryEntry, time_unit: str | None) -> Query:
    """Return the query of an entry, with a default slide if it needs one and has none."""
    window = entry.window
    if window is not None and entry.slide is None and kind_of_text(window) == "time":
        entry = replace(entry, slide=_usual_slide(window, time_unit))
    if window is not None and entry.slide is not None and _is_number(window) != _is_number(entry.slide):
        return entry.query(unit=time_unit)  # one in the stream's unit, one in its own
    return entry.query(unit=None, durations=True)


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
        return None  # the error in the window is reported later


def describe_window(query: Query) -> tuple[int | str | None, int | str | None]:
    """Return window and slide of a query as in a request; both are None if a SPARQL text declares all windows."""
    if isinstance(query, SparqlQuery) and not query.has_default:
        return None, None
    window = query.window
    if isinstance(window, Window) and window.unit is not None:
        return duration_text(window.size), duration_text(window.slide)
    return size_and_slide(window)


def describe_query(query: Query, *, answers: int) -> models.Query:
    """Return the description of a query in responses."""
    window, slide = describe_window(query)
    own = ("name", "language", "semantics", "paths", "report")
    return models.Query(
        name=query.name,
        expression=query.expression,
        language=query.notation,
        window=window,
        slide=slide,
        semantics=query.semantics,
        paths=query.paths,
        report=query.report,
        options={name: value for name, value in options_json(query.given_options).items() if name not in own},
        columns=list(query.columns),
        answers=answers,
    )
