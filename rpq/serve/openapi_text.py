"""What the server does, in the words of OpenAPI."""

from __future__ import annotations

from rpq import __version__
from rpq.serve.openapi_schemas import SCHEMAS, Json
from rpq.serve.serve_limits import ServeLimits

DESCRIPTION = """Persistent queries over a streaming graph. Tuples (source, target, label, timestamp) are posted, path
expressions, graph patterns and queries in SPARQL are registered, and their answers are read or followed as they change.

`position` is the number of the last thing that was done to the engine: a push, a query that came or went."""


def openapi(limits: ServeLimits) -> Json:
    """The description of a server with these limits.

    >>> sorted(openapi(ServeLimits())["paths"])[:3]
    ['/', '/changes', '/check']
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rpq serve",
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/tuples": {"post": _post_tuples(limits)},
            "/queries": {"get": _get("list_queries", "All queries.", _list_of_queries()), "post": _post_query(limits)},
            "/queries/{name}": {"parameters": [_NAME], "get": _get_query(), "delete": _delete_query()},
            "/queries/{name}/answers": {"parameters": [_NAME], "get": _get_answers()},
            "/queries/{name}/witness": {"parameters": [_NAME], "get": _get_witness()},
            "/queries/{name}/explain": {"parameters": [_NAME], "get": _get_explain()},
            "/check": {"post": _check()},
            "/changes": {"get": _get_changes()},
            "/statistics": {"get": _get("statistics", "What the server has counted.", _ref("Statistics"))},
            "/playback": {"get": _get_playback(), "post": _post_playback()},
            "/healthz": {"get": _open("healthz", "Whether the engine's thread lives.", _status("alive"), "503")},
            "/readyz": {"get": _open("readyz", "Whether it takes tuples, and can save them.", _status("ready"), "503")},
            "/metrics": {"get": _plain("metrics", "Figures for Prometheus.", "text/plain", is_open=False)},
            "/openapi.json": {"get": _open("openapi", "This text.", {"type": "object"})},
            "/": {"get": _plain("page", "The page.", "text/html", is_open=True)},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": SCHEMAS,
            "responses": _RESPONSES,
        },
    }


# --- responses -----------------------------------------------------------------------------------------------------


def _content(schema: Json, type_: str = "application/json") -> Json:
    return {type_: {"schema": schema}}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _error(description: str) -> Json:
    return {"description": description, "content": _content(_ref("Error"))}


_RESPONSES: Json = {
    "Bad": _error("The body is no JSON, or `Origin` is no origin."),
    "Token": _error("The token is missing or wrong."),
    "Origin": _error("Pages of that origin may not ask."),
    "Missing": _error("There is no query of that name, or nothing at that path."),
    "Taken": _error("There is a query of that name, or edges that its window would hold were not kept."),
    "Slow": _error("The body did not come in time."),
    "Large": _error("The body is too large."),
    "Type": _error("The content type, or coding, is none of those that are read."),
    "Host": _error("The server is not called by that name."),
    "Refused": _error("What was asked for is not understood, or cannot be: `line`, `column` and `length` tell where."),
    "Many": _error("There are as many queries, or followers, as may be."),
    "Limit": _error("The engine met its limit of memory or rows."),
    "Away": _error("The engine takes nothing now; `Retry-After` tells when to ask again."),
}

_ALWAYS = {"400": "Bad", "421": "Host", "403": "Origin"}


def _responses(good: Json, *codes: str, is_open: bool = False) -> Json:
    """Responses with those that every request may get."""
    names = {
        "400": "Bad", "401": "Token", "404": "Missing", "408": "Slow", "409": "Taken", "413": "Large", "415": "Type",
        "422": "Refused", "429": "Many", "503": "Away", "507": "Limit", **_ALWAYS,
    }  # fmt: skip
    found = sorted({*codes, *_ALWAYS, *(() if is_open else ("401",))})
    return {**good, **{code: {"$ref": f"#/components/responses/{names[code]}"} for code in found}}


def _get(id: str, summary: str, schema: Json) -> Json:
    """A request without parameters that is answered in JSON."""
    good = {"200": {"description": summary, "content": _content(schema)}}
    return {"operationId": id, "summary": summary, "responses": _responses(good, "422", "503")}


def _open(id: str, summary: str, schema: Json, *codes: str) -> Json:
    """The same, of what everybody may read."""
    good = {"200": {"description": summary, "content": _content(schema)}}
    return {"operationId": id, "summary": summary, "security": [], "responses": _responses(good, *codes, is_open=True)}


def _plain(id: str, summary: str, type_: str, *, is_open: bool) -> Json:
    good = {"200": {"description": summary, "content": _content({"type": "string"}, type_)}}
    return {
        "operationId": id,
        "summary": summary,
        "responses": _responses(good, *([] if is_open else ["422", "503"]), is_open=is_open),
    }


def _status(text: str) -> Json:
    return {"type": "object", "properties": {"status": {"const": text}}, "required": ["status"]}


# --- requests ------------------------------------------------------------------------------------------------------

_NAME: Json = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of a query; a / in it is written as %2F.",
    "schema": {"type": "string", "minLength": 1},
}


def _post_tuples(limits: ServeLimits) -> Json:
    text = {"type": "string", "maxLength": limits.body_bytes}
    return {
        "operationId": "post_tuples",
        "summary": "Apply tuples, in their order.",
        "description": "The response says that they were applied and, of a server with a checkpoint, are on disk. "
        "Where a body is not understood none of it is applied.",
        "parameters": [
            {
                "name": "stream",
                "in": "query",
                "description": "The stream that all belong to.",
                "schema": {"type": "string", "minLength": 1},
            }
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {
                    "schema": {
                        **text,
                        "description": "An object a line: source, target, label, timestamp[, op or delete][, stream].",
                    },
                    "examples": {
                        "one": {"value": '{"source":"x","target":"y","label":"a","timestamp":1}\n'},
                    },
                },
                "text/csv": {
                    "schema": {**text, "description": "Fields in that order, or with a header in any."},
                    "examples": {"one": {"value": "source,target,label,timestamp\nx,y,a,1\n"}},
                },
                "application/vnd.apache.arrow.stream": {
                    "schema": {"description": "A stream of Arrow's IPC format, with these columns."}
                },
            },
        },
        "responses": _responses(
            {"200": {"description": "They were applied.", "content": _content(_ref("Applied"))}},
            "408", "413", "415", "422", "503", "507",
        ),
    }  # fmt: skip


def _list_of_queries() -> Json:
    queries = {"type": "array", "items": _ref("Query")}
    return {"type": "object", "properties": {"queries": queries}, "required": ["queries"]}


def _asked(name: str) -> Json:
    return {"required": True, "content": _content(_ref(name))}


def _post_query(limits: ServeLimits) -> Json:
    return {
        "operationId": "register_query",
        "summary": "Register a query.",
        "description": f"There may be {limits.queries:,}.",
        "requestBody": _asked("QueryEntry"),
        "responses": _responses(
            {"201": {"description": "It runs.", "content": _content(_ref("Query"))}},
            "400", "409", "408", "413", "415", "422", "429", "503", "507",
        ),
    }  # fmt: skip


def _check() -> Json:
    return {
        "operationId": "check_query",
        "summary": "See whether a query is understood; nothing is registered.",
        "requestBody": _asked("CheckedQuery"),
        "responses": _responses(
            {"200": {"description": "It is.", "content": _content(_ref("Understood"))}},
            "400", "408", "413", "415", "422", "503",
        ),
    }


def _get_query() -> Json:
    good = {"200": {"description": "The query.", "content": _content(_ref("Query"))}}
    return {
        "operationId": "get_query",
        "summary": "One query.",
        "responses": _responses(good, "404", "422", "503"),
    }


def _delete_query() -> Json:
    return {
        "operationId": "drop_query",
        "summary": "Take a query away.",
        "responses": _responses({"204": {"description": "It is gone."}}, "404", "422", "503", "507"),
    }


def _get_answers() -> Json:
    good = {
        "description": "The answers.",
        "headers": {
            "X-Rpq-Total": {"description": "How many there are.", "schema": {"type": "integer", "minimum": 0}},
            "X-Rpq-Position": {"description": "When they hold.", "schema": {"type": "integer", "minimum": 0}},
        },
        "content": {
            **_content(_ref("Answers")),
            **_content({"type": "string"}, "text/csv"),
            **_content({}, "application/vnd.apache.arrow.stream"),
        },
    }
    return {
        "operationId": "get_answers",
        "summary": "The answers of a query that hold now.",
        "parameters": [
            {
                "name": "limit",
                "in": "query",
                "description": "So many, at most.",
                "schema": {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 1000},
            },
            {
                "name": "format",
                "in": "query",
                "schema": {"type": "string", "enum": ["json", "csv", "arrow"], "default": "json"},
            },
        ],
        "responses": _responses({"200": good}, "404", "422", "503"),
    }


def _get_witness() -> Json:
    good = {"200": {"description": "Its edges.", "content": _content(_ref("Witness"))}}
    return {
        "operationId": "get_witness",
        "summary": "What makes an answer: the edges of a path, or those behind the atoms of a pattern.",
        "parameters": [
            {
                "name": "value",
                "in": "query",
                "description": "The values of the answer's columns, in their order.",
                "schema": {"type": "array", "items": {"type": "string"}},
                "style": "form",
                "explode": True,
            }
        ],
        "responses": _responses(good, "404", "422", "503"),
    }


def _get_explain() -> Json:
    good = {"200": {"description": "Text, and a drawing.", "content": _content(_ref("Explained"))}}
    return {
        "operationId": "explain_query",
        "summary": "What a query means, and how it is evaluated.",
        "responses": _responses(good, "404", "422", "503"),
    }


def _get_changes() -> Json:
    place = "^[0-9]{1,18}([.][0-9]{1,9})?(-[0-9a-f]+)?$"
    return {
        "operationId": "follow_changes",
        "summary": "Follow changes as server-sent events.",
        "description": "Events `start` (position, time), `changes` (position, time, changes: query, op, timestamp, values), "
        "`gap` (message, from, to: changes that cannot be given any more; read the answers anew) and `end` (reason). The id "
        "of an event, given back, goes on behind it.",
        "parameters": [
            {
                "name": "query",
                "in": "query",
                "description": "Of these queries alone.",
                "schema": {"type": "array", "items": {"type": "string"}},
                "style": "form",
                "explode": True,
            },
            {
                "name": "after",
                "in": "query",
                "description": "Go on behind this position, or event.",
                "schema": {"type": "string", "pattern": place},
            },
            {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string", "pattern": place}},
        ],
        "responses": _responses(
            {"200": {"description": "Events.", "content": _content({"type": "string"}, "text/event-stream")}},
            "404", "422", "429", "503",
        ),
    }  # fmt: skip


def _get_playback() -> Json:
    return {
        "operationId": "get_playback",
        "summary": "How the input is played, where it is files.",
        "responses": _responses(
            {"200": {"description": "How.", "content": _content(_ref("Playback"))}}, "404", "422"
        ),
    }


def _post_playback() -> Json:
    return {
        "operationId": "change_playback",
        "summary": "Let the input play or pause, at a speed.",
        "requestBody": _asked("ChangedPlayback"),
        "responses": _responses(
            {"200": {"description": "How it is played now.", "content": _content(_ref("Playback"))}},
            "400", "404", "408", "413", "415", "422",
        ),
    }  # fmt: skip
