"""What requests and responses of the server hold, as schemas of JSON."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

MOST_INTEGER = 2**63 - 1

_COUNT: Json = {"type": "integer", "minimum": 0}
_TEXT: Json = {"type": "string"}
_TIME: Json = {
    "description": "A number in the stream's unit, or a date or time as ISO 8601 has it; null before the first tuple.",
    "type": ["integer", "string", "null"],
}
_VALUE: Json = {"type": ["integer", "string", "number", "boolean", "null"]}
_LENGTH: Json = {
    "description": "A number in the stream's unit, or a text such as 30d; count:1000; unbounded.",
    "oneOf": [{"type": "integer", "minimum": 1, "maximum": MOST_INTEGER}, {"type": "string", "minLength": 1}],
}


def _object(properties: Json, *, required: list[str] | None = None, is_open: bool = True) -> Json:
    found: Json = {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else required,
    }
    return found if is_open else {**found, "additionalProperties": False}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


_VERTICES = {"type": "array", "items": {"type": ["integer", "string"], "minimum": -(2**63), "maximum": MOST_INTEGER}}

_FIELDS: Json = {
    "expression": {
        "type": "string",
        "minLength": 1,
        "description": "A path expression, a graph pattern, or SPARQL.",
        "examples": ["a/b*", "?x a ?y . ?y b ?z"],
    },
    "name": _or_null({**_TEXT, "description": "By default the text of the expression; not . or .., which have no address."}),
    "window": _or_null(_LENGTH),
    "slide": _or_null({**_LENGTH, "description": "By default a thirtieth of the window."}),
    "language": {"enum": ["path", "pattern", "sparql", None]},
    "semantics": {"enum": ["implicit", "explicit", None]},
    "paths": {"enum": ["walk", "simple", None]},
    "report": {"enum": ["change", "slide", "time", None]},
    "select": _or_null({"type": "array", "items": _TEXT}),
    "distinct": {"type": ["boolean", "null"]},
    "matching": {"enum": ["homomorphism", "isomorphism", None]},
    "sources": _or_null(_VERTICES),
    "targets": _or_null(_VERTICES),
    "simple_budget": {"type": ["integer", "null"], "minimum": 1},
    "on_budget": {"enum": ["error", "set_aside", None]},
    "start": {"enum": ["window", "empty", None], "description": "What it begins with: what its window holds, or nothing."},
}

_EDGE = _object({"source": _VALUE, "target": _VALUE, "label": _TEXT, "timestamp": _TIME})
_PLAYBACK = {"state": {"enum": ["playing", "paused", "ended"]}, "speed": {"type": ["number", "null"]}, "time": _TIME}

SCHEMAS: Json = {
    "Error": _object(
        {
            "error": _object(
                {
                    "type": _TEXT,
                    "message": _TEXT,
                    "line": _COUNT,
                    "column": {"type": "integer", "minimum": 1},
                    "length": {"type": "integer", "minimum": 1},
                    "hint": _TEXT,
                    "field": _TEXT,
                    "row": _COUNT,
                    "applied": _COUNT,
                    "position": _COUNT,
                    "available_from": _TIME,
                    "query": _TEXT,
                    "limit": _COUNT,
                },
                required=["type", "message"],
            )
        }
    ),
    "Applied": _object(
        {"tuples": _COUNT, "late": _COUNT, "time": _TIME, "position": _COUNT, "warnings": {"type": "array", "items": _TEXT}},
        required=["tuples", "late", "time", "position"],
    ),
    "QueryEntry": _object(_FIELDS, required=["expression"], is_open=False),
    "CheckedQuery": _object(_FIELDS, required=["expression"], is_open=False),
    "Query": _object(
        {
            "name": _TEXT,
            "expression": _TEXT,
            "language": {"enum": ["path", "pattern", "sparql"]},
            "window": {"type": ["integer", "string", "null"]},
            "slide": {"type": ["integer", "string", "null"]},
            "semantics": {"enum": ["implicit", "explicit"]},
            "paths": {"enum": ["walk", "simple"]},
            "report": {"enum": ["change", "slide", "time"]},
            "columns": {"type": "array", "items": _TEXT},
            "answers": _COUNT,
        }
    ),
    "Understood": _object(
        {
            "language": {"enum": ["path", "pattern", "sparql"]},
            "columns": {"type": "array", "items": _TEXT},
            "text": _TEXT,
            "svg": {"type": ["string", "null"]},
            "warnings": {"type": "array", "items": _TEXT},
        },
        required=["language", "columns", "text", "svg"],
    ),
    "Explained": _object({"text": _TEXT, "svg": {"type": ["string", "null"]}}),
    "Answers": _object(
        {
            "columns": {"type": "array", "items": _TEXT},
            "rows": {"type": "array", "items": {"type": "array", "items": _VALUE}},
            "total": _COUNT,
            "time": _TIME,
            "position": _COUNT,
        }
    ),
    "Witness": _object(
        {
            "edges": {"type": "array", "items": _EDGE},
            "atoms": {"type": "array", "items": _object({"atom": _TEXT, "edges": {"type": "array", "items": _EDGE}})},
            "binding": {"type": "object", "additionalProperties": _VALUE},
            "time": _TIME,
            "position": _COUNT,
        },
        required=["edges", "time", "position"],
    ),
    "Statistics": _object(
        {
            "time": _TIME,
            "time_unit": {"type": ["string", "null"]},
            "position": _COUNT,
            "tuples": _COUNT,
            "late": _COUNT,
            "seconds": {"type": "number", "minimum": 0},
            "tuples_per_second": {"type": "number", "minimum": 0},
            "latency_ms": _object({name: {"type": ["number", "null"]} for name in ("p50", "p99", "max")}),
            "memory_bytes": _COUNT,
            "edges": _COUNT,
            "vertices": _COUNT,
            "followers": _COUNT,
            "followers_dropped": _COUNT,
            "failure": {"type": ["string", "null"]},
            "storage": {"type": ["string", "null"], "description": "Why journal or checkpoint cannot be written now."},
            "queries": {
                "type": "array",
                "items": _object(
                    {
                        "name": _TEXT,
                        **dict.fromkeys(("answers", "rows", "rows_added", "rows_removed", "index_bytes"), _COUNT),
                    }
                ),
            },
        }
    ),
    "Playback": _object(_PLAYBACK),
    "ChangedPlayback": {
        **_object(
            {
                "state": {"enum": ["playing", "paused"]},
                "speed": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1e15},
            },
            required=[],
            is_open=False,
        ),
        "minProperties": 1,
    },
}
