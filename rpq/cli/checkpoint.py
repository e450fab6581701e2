"""What must be the same for a run to go on from another's checkpoint, and what is not, in words.

It is written with a checkpoint, so what stands here is read by later releases.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rpq.cli.inputs import digests
from rpq.cli.options import NamedInput, output_key
from rpq.cli.request import Asked, RunSettings
from rpq.errors import RpqError
from rpq.files.json_values import Damage, Described
from rpq.kafka.topic_names import is_topic, topics_in
from rpq.queries.language import OF_PATTERNS
from rpq.queries.query import PatternQuery
from rpq.queries.row_guard import MOST_ROWS
from rpq.stream.durations import length_text
from rpq.stream.window_text import told

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.queries.query import Query

SHOWN = 10
"""So many differences between queries are told, one by one."""

_OF_QUERIES = (
    *("--window", "--slide", "--paths", "--semantics", "--simple-budget", "--on-budget"),
    *("--source", "--target", "--output"),
)
"""Options that only say what the queries of a file do not say themselves: what matters is what comes of it."""

_LATER = ("rdf_syntax", "rdf_time", "rdf_graph", "events", "keep", "max_ahead")
"""Options that came after the first release: they are written where they are given."""


def identity_of(asked: Asked, queries: Sequence[Query]) -> dict[str, Any]:
    """What a run is as JSON values by option name; `queries` are those that are asked, with vertices as texts.

    Not part of it: `--limit`, `--threads`, `--memory-limit`, `--max-rows`, `--stats`, `--quiet`.
    """
    if not asked.entries:
        (query,) = queries
        of_query = {**_of_window(query), "semantics": query.semantics, **_of_pattern(query)}
        return _of_options(asked.settings) | {f"--{name}": value for name, value in of_query.items()}
    key_of = cache(output_key)  # thousands of queries may have one output
    by_name = {
        query.name: {**_of_query(query), "output": entry.output and key_of(entry.output)}
        for entry, query in zip(asked.entries, queries, strict=True)
    }
    return {**_of_options(asked.settings), **dict.fromkeys(_OF_QUERIES), "--queries": by_name}


def _of_options(settings: RunSettings) -> dict[str, Any]:
    return {
        "EXPRESSION": settings.expression,
        "--input": [
            str(NamedInput(path if path == "-" else _place(path), stream))
            for path, stream in zip_longest(settings.inputs, settings.streams)
        ],
        "--format": settings.format,
        "--columns": settings.columns,
        "--label": settings.label,
        "--where": settings.where,
        "--window": None,  # of the query, in the stream's unit
        "--slide": None,
        "--paths": settings.paths,
        "--simple-budget": settings.simple_budget,
        "--on-budget": settings.on_budget,
        "--semantics": None,
        "--output": settings.output and _place(settings.output),
        "--witness": settings.witness,
        "--source": sorted(settings.sources),
        "--target": sorted(settings.targets),
        "--drop-self-loops": settings.drop_self_loops,
        "--deletes": settings.deletes,
        "--seed": settings.seed if settings.deletes else 0,
        "--late": settings.late and os.path.abspath(settings.late),
        "--on-error": settings.on_error,
        **(_of_static(settings) if settings.static else {}),
        **(_of_topics(settings) if any(map(is_topic, settings.inputs)) else {}),
        **{f"--{name.replace('_', '-')}": value for name in _LATER if (value := getattr(settings, name))},
    }


def _place(path: str) -> str:
    """What an input is, wherever it is named from."""
    if is_topic(path):
        return topics_in(path).identity
    return os.path.abspath(path)


def _of_topics(settings: RunSettings) -> dict[str, Any]:
    """What matters of a run over topics alone; whether bad messages are left out may change."""
    return {"--upsert": settings.upsert, "--time-unit": settings.time_unit, "--on-error": None}


def _of_static(settings: RunSettings) -> dict[str, Any]:
    """Which edges without time there are; their content matters to checkpoints alone."""
    known = digests(settings.static) if settings.checkpoint is not None else []
    return {"--static": known, "--static-format": settings.static_format}


def _of_query(query: Query) -> dict[str, Any]:
    """What a query of a file asks, by the names of the file's fields."""
    ends = {
        end: None if (asked := getattr(query, end)) is None else sorted(map(str, asked)) for end in ("sources", "targets")
    }
    return {
        "query": query.expression,
        **_of_window(query),
        **{field: getattr(query, field) for field in ("paths", "simple_budget", "on_budget", "semantics")},
        **ends,
        **_of_pattern(query),
    }


def _of_window(query: Query) -> dict[str, Any]:
    """Window and slide in the stream's unit."""
    return dict(zip(("window", "slide"), told(query.window), strict=True))


def _of_pattern(query: Query) -> dict[str, Any]:
    """What patterns alone are asked with; nothing for another query."""
    if not isinstance(query, PatternQuery):
        return {}
    return {"select": list(query.columns), **{name: getattr(query, name) for name in OF_PATTERNS if name != "select"}}


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, unit: str | None = None) -> list[str]:
    """What is not the same in the identities of two runs over a stream with this time unit, each in words.

    >>> differences({"--window": 86400, "--slide": 60}, {"--window": 3600, "--slide": 60}, unit="s")
    ['--window was 1d, now 1h']
    """
    old, new = _with_durations(old, unit), _with_durations(new, unit)
    before, now = old.get("--queries"), new.get("--queries")
    if (before is None) != (now is None):
        return [f"--queries was {_shown(before)}, now {_shown(now)}"]
    found = []
    for name in {**old, **new}:
        value = old.get(name)
        if not _differ(value, new.get(name)):
            continue
        if isinstance(before, dict) and isinstance(now, dict) and name == "--queries":
            found += differences_of_queries(before, now)
        else:
            found.append(f"{name} was {_shown(value)}, now {_shown(new.get(name))}")
    return found


def _with_durations(identity: Mapping[str, Any], unit: str | None) -> Mapping[str, Any]:
    """An identity whose windows of time, and those of its queries, are durations where the stream has a unit."""
    if unit is None:
        return identity
    shown = dict(identity)
    for window, slide in (("--window", "--slide"), ("window", "slide")):
        if isinstance(shown.get(window), int):  # the window of a count, or without bounds, is text
            shown |= {name: length_text(shown[name], unit) for name in (window, slide) if isinstance(shown.get(name), int)}
    if isinstance(queries := shown.get("--queries"), dict):
        shown["--queries"] = {name: _with_durations(fields, unit) for name, fields in queries.items()}
    return shown


def _differ(old: Any, new: Any) -> bool:
    """Whether an option was another one; what an older release did not write was not given."""
    return (old or None) != (new or None)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "given"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "not given"
    return "not given" if value is None or value is False else str(value)


def differences_of_queries(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What is different in the queries of two runs, a line each; the first few of many.

    >>> differences_of_queries({"x": {"query": "a"}, "y": {"query": "b"}}, {"x": {"query": "a*"}, "z": {"query": "b"}})
    ["query 'x': query was 'a', now 'a*'", "query 'y' is gone", "query 'z' is new"]
    """
    found = [
        f"query {name!r}: {field} was {_quoted(value)}, now {_quoted(new[name].get(field))}"
        for name, fields in old.items()
        if name in new
        for field, value in {**dict.fromkeys(new[name]), **fields}.items()
        if _differ(value, new[name].get(field))
    ]
    found += [f"query {name!r} is gone" for name in old if name not in new]
    found += [f"query {name!r} is new" for name in new if name not in old]
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN:,} more"]


def _quoted(value: Any) -> str:
    return "not given" if value is None else repr(value)


VERSION = 1
_KEY = "rpq run"


class CheckpointError(RpqError):
    """A checkpoint that a run cannot go on from."""


class AnotherRunError(CheckpointError):
    """A checkpoint of a run with other options, or over another input."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far a run has come: `tuples` of the input are consumed, of which `last` was the last one.

    `output` is the position of the output (see `rpq.cli.outputs.sinks`), by name where there are several, and `late_bytes`
    the length of the file of late tuples, None where there is no such output, or nothing in it yet.  `rejected` counts
    the tuples that the engine, not the reader, rejected.
    """

    tuples: int
    last: list[Any] | None
    output: Any
    late_bytes: int | None
    rejected: int
    total_seconds: float


@dataclass(frozen=True)
class Resumed:
    """A checkpoint that was found: where the run stood, and its engine."""

    position: Position
    engine: Engine


def write_checkpoint(path: str, engine: Engine, identity: dict[str, Any], position: Position) -> None:
    """Write the file, on disk when this returns; until then it is the one before."""
    content = {"version": VERSION, "identity": identity, "position": asdict(position)}
    engine.save(path, extra={_KEY: json.dumps(content)})


def read_checkpoint(
    path: str,
    identity: dict[str, Any],
    *,
    threads: int,
    memory_limit: int | None,
    witness: bool,
    max_rows: int | None = MOST_ROWS,
    unit: str | None = None,
    max_ahead: int | str | None = None,
) -> Resumed | None:
    """Return what stands in the file, None if there is no file; `AnotherRunError` if it is another run's.

    Raises `StateFormatError` for a file that is damaged, truncated, or something else.
    """
    import rpq

    if not os.path.exists(path):
        return None
    try:
        engine = rpq.Engine.restore(
            path, threads=threads, memory_limit=memory_limit, max_rows=max_rows, witness=witness, max_ahead=max_ahead
        )
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        content = Described.parsed(engine.extra.get(_KEY, "{}"), _KEY)
        if "version" not in content or content["version"].whole() != VERSION:
            raise CheckpointError(f"{path}: is no checkpoint of this version of `rpq run`; remove it to start anew")
        before = {name: option.value for name, option in content["identity"].items()}
        position = _position(content["position"])
    except Damage as problem:
        raise CheckpointError(f"{path}: is a damaged checkpoint: {problem}; remove it to start anew") from problem
    found = differences(before, identity, unit=unit)
    if found:
        raise AnotherRunError(
            f"{path}: is the checkpoint of another run: {'; '.join(found)}.  Remove it to start anew."
        )
    return Resumed(position, engine)


def _position(content: Described) -> Position:
    def length(value: Described) -> Any:
        if isinstance(value.value, dict):
            return {name: length(inside) for name, inside in value.items()}
        return None if value.is_none else value.whole(0)

    last = content["last"]
    return Position(
        tuples=content["tuples"].whole(0),
        last=None if last.is_none else [part.value for part in last],
        output=length(content["output"]),
        late_bytes=length(content["late_bytes"]),
        rejected=content["rejected"].whole(0),
        total_seconds=content["total_seconds"].number(),
    )
