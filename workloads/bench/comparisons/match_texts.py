"""MATCH texts beside the same queries in the pattern notation, which have the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import rpq
from rpq.language.readings import Identity
from rpq.workloads.bench.comparisons.bounds import Figure, line
from rpq.workloads.bench.comparisons.edge_properties import with_amounts
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.measure import RowsDifferError, median
from rpq.workloads.bench.streams import Stream


@dataclass(frozen=True)
class _Pair:
    """A query in both notations."""

    what: str
    match: str
    pattern: str
    options: dict[str, Any]
    """The options of the pattern, for what MATCH has in its text."""
    edges: Identity = "parallel"


_PAIRS = {
    "PAIRS": _Pair(
        "two labels at one node, distinct",
        "MATCH (x)-[:a2q]->(y), (x)-[:c2q]->(z) RETURN DISTINCT x",
        "?x a2q ?y . ?x c2q ?z",
        {"select": ["x"], "distinct": True},
        "triple",
    ),
    "PATH": _Pair(
        "an edge behind a quantified path",
        "MATCH ANY (x)-[:a2q]->{1,2}(y), ANY (y)-[:c2a]->(z) RETURN x, y, z",
        "?x a2q{1,2} ?y . ?y c2a ?z",
        {},
        "triple",
    ),
    "EDGE": _Pair(
        "one edge with a condition and a value",
        "MATCH (x)-[e:a2q WHERE e.amount > 500]->(y) RETURN x, y, e.amount",
        "?x ?e:a2q[amount > 500] ?y",
        {"select": ["x", "y", "e.amount"]},
    ),
    "EDGES": _Pair(
        "two edges in the order of time with growing amounts",
        "MATCH (x)-[e:a2q]->(y)-[f:c2a]->(z) WHERE f.timestamp > e.timestamp AND f.amount > e.amount RETURN x, z",
        "?x ?e:a2q ?y . ?y ?f:c2a ?z",
        {"select": ["x", "z"], "filter": "?f.timestamp > ?e.timestamp and ?f.amount > ?e.amount"},
    ),
}


def _seconds(query: rpq.Query, stream: Stream, edges: Identity) -> tuple[float, int, int]:
    """Return the CPU seconds of a fresh engine, and the rows added and removed."""
    engine, seconds = rpq.Engine(query, edges=edges), 0.0
    for batch in stream.batches():
        started = process_time()
        engine.push(batch, collect=False)
        seconds += process_time() - started
    figures = engine.statistics()
    return seconds, figures.rows_added, figures.rows_removed


def _beside_its_pattern(settings: Settings, *, name: str) -> Figure:
    """Return the median over turns of the seconds of a text divided by those of its pattern. Raises `RowsDifferError`."""
    pair = _PAIRS[name]
    stream = with_amounts(stream_of("stackoverflow", settings, lambda text: None), seed=settings.seed)
    match = rpq.Query(pair.match, window=stream.window, name="line")
    pattern = rpq.Query(pair.pattern, window=stream.window, name="line", **pair.options)
    ratios = []
    for turn in range(settings.repeat + 1):
        seconds, *rows = _seconds(match, stream, pair.edges)
        seconds_of_pattern, *rows_of_pattern = _seconds(pattern, stream, pair.edges)
        if rows != rows_of_pattern:
            raise RowsDifferError(f"{pair.match}: {rows} rows, {rows_of_pattern} of the pattern")
        if turn:  # the first one loads kernels
            ratios.append(seconds / seconds_of_pattern)
    return Figure(figure=median(ratios))


for _name, _pair in _PAIRS.items():
    line(f"MATCH-{_name}", f"MATCH: {_pair.what}", unit="× its pattern", sense="at most", bound=1.1)(
        partial(_beside_its_pattern, name=_name)
    )
