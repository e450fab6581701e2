"""The parts of the command's checkpoint besides the engine: the identity of the run, and the position in files.

The identity is the set of options that must be the same for a run to resume from a checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rpq.cli.inputs import digests, rules_of
from rpq.cli.options import NamedInput, output_key, remote_identity
from rpq.cli.request import RunRequest, RunSettings
from rpq.kafka.topic_names import is_topic
from rpq.language.kinds import options_json
from rpq.language.options import OPTIONS
from rpq.readers.open_source import Mark
from rpq.run.checkpoint import Position, PositionFormat
from rpq.stream.durations import length_text
from rpq.stream.json_values import JsonValue
from rpq.stream.providers import without_login
from rpq.stream.sources import SOURCES
from rpq.stream.window import size_and_slide

if TYPE_CHECKING:
    from rpq.language.query import Query

MAX_DIFFERENCES = 10
"""The number of differences between queries that are listed one by one."""

_OPTIONAL = (
    *("rdf_syntax", "rdf_time", "rdf_graph", "rdf_base", "events", "keep", "max_ahead", "time_format", "vertices"),
    *("trim", "changes", "times", "message", "report_empty", "node_properties", "webhook_body"),
)
"""Options that are written only where they are given."""


def identity_of(request: RunRequest, queries: Sequence[Query]) -> dict[str, Any]:
    """Return the identity of a run: JSON values by option name.

    `queries` are those of the request, with vertices as texts.  These options are not part of the identity: `--limit`,
    `--threads`, `--memory-limit`, `--max-rows`, `--stats`, `--quiet`.
    """
    settings = request.settings
    if not request.names_queries:
        given = {OPTIONS[name].flag: value for name, value in _query_identity(queries[0]).items()}
        output = settings.output and input_identity(settings.output)
        return {"EXPRESSION": queries[0].expression, **given, "--output": output, **_option_identity(settings)}
    key_of = cache(output_key)  # thousands of queries may have one output
    by_name = {
        entry.name: {
            "query": entry.expression, **_query_identity(query), "output": entry.output and key_of(entry.output)
        }
        for entry, query in zip(request.entries, queries, strict=True)
    }
    return {"--queries": by_name, **_option_identity(settings)}


def _option_identity(settings: RunSettings) -> dict[str, Any]:
    rules = rules_of(settings) if settings.edges_from or settings.rules else None
    return {
        "--input": [
            str(NamedInput(path if path == "-" else input_identity(path), stream))
            for path, stream in zip_longest(settings.inputs, settings.streams)
        ],
        "--format": settings.format,
        "--columns": settings.columns,
        "--label": settings.label,
        "--where": settings.where,
        "--witness": settings.witness,
        "--drop-self-loops": settings.drop_self_loops,
        "--late": settings.late and os.path.abspath(settings.late),
        "--on-error": settings.on_error,
        **(_static_identity(settings) if settings.static else {}),
        **(_node_identity(settings) if settings.nodes else {}),
        **(_topic_identity(settings) if any(map(is_topic, settings.inputs)) else {}),
        **({} if rules is None else {"--edges-from": rules.identity}),
        **({"--edges": settings.edges} if settings.edges != "triple" else {}),
        **{f"--{name.replace('_', '-')}": value for name in _OPTIONAL if (value := getattr(settings, name))},
    }


def input_identity(path: str) -> str:
    """Return a name of an input that does not depend on the working directory."""
    return remote_identity(path) or (without_login(path) if SOURCES.has(path) else os.path.abspath(path))


def _topic_identity(settings: RunSettings) -> dict[str, Any]:
    """Return the options that matter only to runs over topics; whether bad messages are skipped may change."""
    found: dict[str, Any] = {"--upsert": settings.upsert, "--time-unit": settings.time_unit, "--on-error": None}
    # Another registry may have the same schemas.
    return found | ({} if settings.schema_registry is None else {"--schema-registry": "given"})


def _static_identity(settings: RunSettings) -> dict[str, Any]:
    """Return the files of static edges; digests of their content are computed only where there is a checkpoint."""
    files = digests(settings.static) if settings.checkpoint is not None else []
    if any(settings.static_graphs):
        pairs = zip(settings.static_graphs, files or settings.static, strict=True)
        files = [name if graph is None else f"<{graph}>={name}" for graph, name in pairs]
    return {"--static": files, "--static-format": settings.static_format}


def _node_identity(settings: RunSettings) -> dict[str, Any]:
    """Return the files of nodes, with digests of their content where there is a checkpoint."""
    files = digests(settings.nodes) if settings.checkpoint is not None else list(settings.nodes)
    return {"--nodes": files, "--node-columns": settings.node_columns}


def _query_identity(query: Query) -> dict[str, Any]:
    """Describe a query by the names of its options that are not the default, with lengths of time in the stream's unit."""
    window, slide = size_and_slide(query.window)
    given = {name: value for name, value in options_json(query.given_options).items() if name != "name"}
    return {"window": window, "slide": slide, **given, "select": list(query.columns)}


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, unit: str | None = None) -> list[str]:
    """Describe each difference between the identities of two runs over a stream with this time unit.

    >>> differences({"--window": 86400, "--slide": 60}, {"--window": 3600, "--slide": 60}, unit="s")
    ['--window was 1d, now 1h']
    """
    old, new = _windows_as_durations(old, unit), _windows_as_durations(new, unit)
    before, now = old.get("--queries"), new.get("--queries")
    if (before is None) != (now is None):
        return [f"--queries was {_value_text(before)}, now {_value_text(now)}"]
    found = []
    for name in {**old, **new}:
        value = old.get(name)
        if not _differ(value, new.get(name)):
            continue
        if isinstance(before, dict) and isinstance(now, dict) and name == "--queries":
            found += differences_of_queries(before, now)
        elif name == OPTIONS["parameters"].flag:
            found += _differences_of_parameters(value or {}, new.get(name) or {})
        else:
            found.append(f"{name} was {_value_text(value)}, now {_value_text(new.get(name))}")
    return found


def _differences_of_parameters(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    flag = OPTIONS["parameters"].flag
    texts = [{name: json.dumps(value) for name, value in values.items()} for values in (old, new)]
    return [
        f"{flag} {name} was {_value_text(before)}, now {_value_text(now)}"
        for name in {**old, **new}
        if (before := texts[0].get(name)) != (now := texts[1].get(name))
    ]


def _windows_as_durations(identity: Mapping[str, Any], unit: str | None) -> Mapping[str, Any]:
    """Replace the time windows in an identity, and in its queries, by durations where the stream has a unit."""
    if unit is None:
        return identity
    shown = dict(identity)
    for window, slide in (("--window", "--slide"), ("window", "slide")):
        if isinstance(shown.get(window), int):  # the window of a count, or without bounds, is text
            shown |= {name: length_text(shown[name], unit) for name in (window, slide) if isinstance(shown.get(name), int)}
    if isinstance(queries := shown.get("--queries"), dict):
        shown["--queries"] = {name: _windows_as_durations(fields, unit) for name, fields in queries.items()}
    return shown


def _differ(old: Any, new: Any) -> bool:
    """Return whether two values of an option differ; an option that is not written was not given."""
    return (old or None) != (new or None)


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return "given"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "not given"
    return "not given" if value is None or value is False else str(value)


def differences_of_queries(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe each difference between the queries of two runs, at most `MAX_DIFFERENCES` of them.

    >>> differences_of_queries({"x": {"query": "a"}, "y": {"query": "b"}}, {"x": {"query": "a*"}, "z": {"query": "b"}})
    ["query 'x': query was 'a', now 'a*'", "query 'y' is gone", "query 'z' is new"]
    """
    found = [
        f"query {name!r}: {field} was {_quote(value)}, now {_quote(new[name].get(field))}"
        for name, fields in old.items()
        if name in new
        for field, value in {**dict.fromkeys(new[name]), **fields}.items()
        if _differ(value, new[name].get(field))
    ]
    found += [f"query {name!r} is gone" for name in old if name not in new]
    found += [f"query {name!r} is new" for name in new if name not in old]
    return (
        found if len(found) <= MAX_DIFFERENCES else [*found[:MAX_DIFFERENCES], f"and {len(found) - MAX_DIFFERENCES:,} more"]
    )


def _quote(value: Any) -> str:
    return "not given" if value is None else repr(value)


def _encode_position(position: Position) -> dict[str, Any]:
    of_source = dict(position.source)
    if (mark := of_source.pop("mark", None)) is not None:
        of_source["mark"] = {**asdict(mark), "head": mark.head.decode("latin-1")}  # JSON has no bytes
    return {
        "position": {
            **of_source,
            **position.sink,
            "rejected": position.rejected,
            "total_seconds": position.total_seconds,
        }
    }


def _decode_position(content: JsonValue) -> Position:
    def length(value: JsonValue) -> Any:
        if isinstance(value.value, dict):
            return {name: length(inside) for name, inside in value.items()}
        if isinstance(value.value, str):  # the name of a run, or the position of a sink
            return value.text()
        return None if value.is_none else value.integer(0)

    fields = content["position"]
    last, tuples = fields["last"], fields["tuples"].integer(0)
    source: dict[str, Any] = {"tuples": tuples, "last": None if last.is_none else [part.value for part in last]}
    if "mark" in fields:
        mark = fields["mark"]
        rejected, filtered, undecided = (count.integer(0) for count in mark["counts"])
        source["mark"] = Mark(
            tuples=mark["tuples"].integer(0),
            position=mark["position"].value,
            line=mark["line"].integer(1),
            head=mark["head"].text().encode("latin-1"),
            counts=(rejected, filtered, undecided),
        )
    return Position(
        source=source,
        sink={name: length(fields[name]) for name in ("output", "late_bytes")},
        tuples=tuples,
        rejected=fields["rejected"].integer(0),
        total_seconds=fields["total_seconds"].number(),
    )


POSITION = PositionFormat(key="rpq run", encode=_encode_position, decode=_decode_position)
"""The position of a run over files: the fields of `FileSource.position` and `SinkOutputs.position`, and counts."""
