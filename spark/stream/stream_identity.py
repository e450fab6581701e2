"""The identity of a stream (everything that its rows depend on beside its tuples), and the queries that it can answer.

The identity is written to the checkpoint as `rpq.json`, beside the files of Spark, and compared before the stream starts.  A
checkpoint without this file is from a program that did not specify its checkpoint; workers then compare the queries and the
number of shares with those in the state.  The part "before" has the queries that the state belongs to until the stream has
moved to new queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import rpq
import rpq.engine.engine  # registers the kinds of queries
from rpq.errors import QueryError
from rpq.language import kinds
from rpq.language.hypercube import Share
from rpq.language.readings import Reading, has_conditions, is_ordered, properties_of, readings_of
from rpq.spark.columns import Identity, check_supported_values
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.stream.names.stream_labels import EdgeEnd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "rpq.json"
FORMAT = 1
_DISPLAY_NAMES = {
    "shares": "the number of shares",
    "division": "the division of patterns",
    "sizes": "the sizes of labels",
    "vertices": "the type of vertices",
    "time_unit": "the time unit",
    "is_time": "whether timestamps are times",
    "sequence": "the column of the sequence",
    "on_error": "on_error",
    "max_delay": "max_delay",
    "columns": "the names of columns",
    "output": "the output",
    "edges": "the identity of edges",
    "properties": "the types of properties",
}
"""The names of the compared values in messages."""


def describe_stream(
    queries: Sequence[rpq.Query],
    *,
    shares: int,
    vertices: str,
    time_unit: str | None,
    sequence: str | None,
    on_error: str,
    sizes: Mapping[str, int],
    **more: Any,
) -> dict[str, Any]:
    """Return the identity as JSON values; queries include budgets, and windows in the unit of timestamps."""
    return {
        "format": FORMAT,
        "queries": {query.name: _as_json(kinds.query_json(query)) for query in queries},
        "shares": shares,
        "division": division_of(queries, shares, sizes),
        "sizes": dict(sorted(sizes.items())),
        "vertices": vertices,
        "time_unit": time_unit,
        "sequence": sequence,
        "on_error": on_error,
        **more,
    }


def division_of(
    queries: Sequence[rpq.Query], shares: int, sizes: Mapping[str, int] | None = None
) -> dict[str, dict[str, int]]:
    """Return, for each query whose edges are divided, the number of coordinates of each of its variables.

    `sizes` are the numbers of edges by label.  A single share has all edges, and the dictionary is empty.

    >>> division_of([rpq.Query("?x a ?y . ?y b ?z", window=rpq.Window(size=10, slide=1), name="q")], 4)
    {'q': {'y': 4}}
    """
    label_sizes = Share.of(0, shares, sizes or {}).sizes
    cubes = {query.name: query.hypercube for query in queries if shares > 1}
    divided = {name: cube for name, cube in cubes.items() if cube is not None and cube.is_divided}
    return {name: cube.grid(shares, label_sizes).dimensions for name, cube in divided.items()}


def read(session: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    """Return the identity in a checkpoint, or None if it has none.  Raises `PipelineError` if it is damaged."""
    path = hadoop_files.join(checkpoint, FILE)
    text = hadoop_files.read_text(session, path)
    if text is None:
        text = hadoop_files.read_text(session, path + hadoop_files.PARTIAL)
        if text is None or not text.endswith("}\n"):  # a partial file that replaced none may be incomplete
            return None
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or not isinstance(content["queries"], dict):
            raise ValueError("it has no queries")
        version = content["format"]
    except (ValueError, KeyError) as problem:
        raise PipelineError(f"{path} is damaged: {problem}") from problem
    if version != FORMAT:
        raise PipelineError(f"{path} is of format {version}; this release reads format {FORMAT}")
    return content


def replace(session: SparkSession, checkpoint: str, content: Mapping[str, Any]) -> None:
    """Write the identity of the stream of a checkpoint, in place of an existing one."""
    written = {key: value for key, value in content.items() if key != "before" or value is not None}
    written["format"] = FORMAT
    hadoop_files.write_text(session, hadoop_files.join(checkpoint, FILE), json.dumps(written, indent=1) + "\n")


def begin(session: SparkSession, checkpoint: str, stream: Mapping[str, Any]) -> dict[str, Any] | None:
    """Compare a stream with the identity in its checkpoint, or write it to a new one; return the identity, or None.

    Raises `PipelineError`, with the differences, if the checkpoint belongs to another stream.
    """
    before = read(session, checkpoint)
    stream = _as_json(dict(stream))
    if before is None:
        if hadoop_files.exists(session, hadoop_files.join(checkpoint, "offsets")):
            return None  # the stream began without an identity: workers compare the values in the state
        replace(session, checkpoint, stream)
        return stream
    differences = [*_differences(before, stream)]
    if differences:
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to another stream: {'; '.join(differences)}. "
            "Continue with the same queries and options (`rpq spark rescale` changes shares, sizes and queries), or begin "
            "with a new checkpoint and a new output"
        )
    return before


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in before["queries"].keys() - now["queries"].keys():
        yield f"it has a query {name!r}, which is missing now"
    for name in now["queries"].keys() - before["queries"].keys():
        yield f"it has no query {name!r}"
    for name in sorted(before["queries"].keys() & now["queries"].keys()):
        former, current = before["queries"][name], now["queries"][name]
        for key in sorted(former.keys() | current.keys()):
            if former.get(key) != current.get(key):
                yield f"{key} of query {name!r} was {_json_text(former.get(key))}, is {_json_text(current.get(key))}"
    for key, words in _DISPLAY_NAMES.items():
        if before.get(key) != now.get(key):
            yield f"{words} was {_json_text(before.get(key))}, is {_json_text(now.get(key))}"


def _json_text(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value as it is after a round trip through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return plain


def check_supported(queries: Sequence[rpq.Query], identity: str = "triple") -> None:
    """Raise `PipelineError` for no query, two queries of one name, and queries that need more than the window to continue.

    `identity` determines when two inserts are the same edge.
    """
    if identity not in get_args(Identity):
        raise PipelineError(f"identity is 'triple', 'parallel' or 'id', not {identity!r}")
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    names = [query.name for query in queries]
    if len(set(names)) < len(names):
        raise PipelineError(f"two queries have the same name: {', '.join(names)}; give them different names")
    if any(query.paths != "walk" and query.on_budget == "set_aside" for query in queries):
        raise PipelineError(
            "on_budget is 'set_aside': a worker that rebuilds its index from the window does not know which roots were set "
            "aside; use 'error', with a larger simple_budget"
        )
    try:
        check_supported_values(queries, identity)
    except QueryError as error:
        raise PipelineError(str(error)) from error
    for query in queries:
        if (report := getattr(query, "report", "change")) != "change":
            raise PipelineError(
                f"query {query.name!r}: report={report!r} is not supported on a stream of Spark, whose state does not "
                "contain the previous report; use report='change'"
            )
        if (hold := getattr(query, "hold", None)) is not None:
            raise PipelineError(
                f"query {query.name!r}: hold={hold!r} is not supported on a stream of Spark, whose state does not contain "
                "since when answers hold; leave out hold"
            )


def check_missing_edges(added: Sequence[rpq.Query], before: Sequence[rpq.Query], *, time: int) -> None:
    """Raise `PipelineError` if a window of an added query would contain edges that the former queries did not keep.

    A stream on Spark does not keep edges that no query reads, so for every label of the added query a former query must have
    read this label, over a window that reaches as far back.  An added query that reads values of edges, or is about paths in
    time order, is refused.
    """
    former = [_without_conditions(reading) for query in before for reading in readings_of(query)]
    for query in added:
        binds = any(isinstance(label, EdgeEnd) for reading in readings_of(query) for label in reading.labels.named)
        if has_conditions(query) or properties_of(query) or is_ordered(query) or binds:
            what = "the order of edges" if is_ordered(query) else "values of edges"
            raise PipelineError(
                f"query {query.name!r} cannot be added here: it reads {what}, which the state may not "
                "have in full. Start a new stream for this query, which reads the data again"
            )
        for reading in map(_without_conditions, readings_of(query)):
            bound = _lower_bound(reading, time)
            for label in _labels([*former, reading]):
                if not reading.labels.has(label):
                    continue
                readers = [one for one in former if one.labels.has(label)]
                if not readers:
                    raise _refusal(query, f"edges that no query has read ({_label_text(label, former, reading)})")
                if min(_lower_bound(one, time) for one in readers) > bound:
                    longest = min(readers, key=lambda one: _lower_bound(one, time))
                    raise _refusal(
                        query,
                        f"edges from {bound + 1} on ({_label_text(label, former, reading)}), and the stream, which reads "
                        f"them over {longest.window}, has them from {_lower_bound(longest, time) + 1} on",
                    )


def _without_conditions(reading: Reading) -> Reading:
    """Return a reading with the labels that tuples have, whatever the conditions on them."""
    return reading._replace(labels=reading.labels.plain)


def _lower_bound(reading: Any, time: int) -> int:
    """Return the timestamp after which edges are in the window of a reading; the smallest for an unbounded window."""
    window = reading.window
    return -(2**63) if isinstance(window, rpq.UnboundedWindow) else int(window.lower_bound(time))


def _labels(readings: Sequence[Any]) -> list[str]:
    """Return all labels that readings name, and one label that no reading names."""
    named = {label for reading in readings for label in reading.labels.named}
    return [*sorted(named), _unnamed_label(named)]


def _unnamed_label(named: set[str]) -> str:
    return max(named, default="") + "?"


def _label_text(label: str, former: Sequence[Any], reading: Any) -> str:
    named = {one for each in (*former, reading) for one in each.labels.named}
    return f"label {label!r}" if label in named else "labels that no query names"


def _refusal(query: rpq.Query, why: str) -> PipelineError:
    return PipelineError(
        f"query {query.name!r} cannot be added here: its window would contain {why}. "
        "Start a new stream for this query, which reads the data again"
    )
