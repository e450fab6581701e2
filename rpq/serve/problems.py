"""Errors as responses tell them: a status, and what is wrong, where, and what would be right."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import Response

from rpq.automata.errors import ExpressionError
from rpq.errors import InputError, LimitError, QueryError, RegistrationError, RpqError, SparqlError
from rpq.serve.engine_jobs import NameTaken, NoSuchQuery, NotApplied, ServiceFailed, StorageUnavailable, TooManyQueries
from rpq.serve.json_values import json_text, json_value
from rpq.serve.models import Error, ErrorContent, FieldsError

_WORD = re.compile(r"[\w.:#-]+|\S")

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (ServiceFailed, 503),
    (StorageUnavailable, 503),
    (NameTaken, 409),
    (NoSuchQuery, 404),
    (TooManyQueries, 429),
    (RegistrationError, 409),
    (LimitError, 507),
    (QueryError, 422),
    (ExpressionError, 422),
    (InputError, 422),
)


class Problem(RpqError):
    """What a response with an error says; `more` are further fields of it, `headers` of the response."""

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

    def content(self) -> Error:
        """The response."""
        more = {name: value for name, value in (self.more or {}).items() if value is not None}
        return Error(error=ErrorContent(type=self.type, message=self.message, **more))


def problem_of(error: Exception, text: str | None = None) -> Problem:
    """What to tell of an error; `text` is the query that it may be about."""
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
    while cause is not None and not isinstance(cause, (ExpressionError, SparqlError)):
        cause = cause.__cause__
    if isinstance(cause, (ExpressionError, SparqlError)):
        return _of_text(cause, text)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    if status == 500:
        message = str(error) if isinstance(error, RpqError) else "the server failed; its log says more"
        return Problem(500, type(error).__name__ if isinstance(error, RpqError) else "InternalError", message)
    headers = {"Retry-After": "5"} if status == 503 else None
    if isinstance(error, StorageUnavailable):
        status, headers = 507 if error.is_full else 503, {"Retry-After": str(error.retry_after)}
    return Problem(status, type(error).__name__, _of_server(str(error)), _more(error), headers)


def _of_server(message: str) -> str:
    """A message with what to do here in place of what to do in Python."""
    return message.replace('rpq.Engine(…, time_unit="s")', "rpq serve --time-unit s")


def _more(error: Exception) -> dict[str, Any]:
    """What is known beside the message."""
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


def _of_text(error: ExpressionError | SparqlError, text: str | None) -> Problem:
    """Of a query that is not understood: where, by line and column, and how long that is."""
    expected = error.expected
    more: dict[str, Any] = {"field": "expression"}
    if isinstance(error, SparqlError):
        name, written, line, column = "SparqlError", error.text, error.line, error.column
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


def told(content: Any, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(json_text(content), status_code=status, media_type="application/json")


def refused(problem: Problem) -> Response:
    """A response that tells what is wrong."""
    response = told(problem.content(), problem.status)
    response.headers.update(problem.headers or {})
    return response
