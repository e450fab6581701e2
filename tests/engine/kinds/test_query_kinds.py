"""The protocol of a running query, shown with a second kind beside path queries: the edges of one label (`edge_query`).

What it must give is what a path query for that label gives, put into its own columns; beside it, in one engine, path
queries must give what they give alone.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.language.options import OPTIONS
from rpq.serve.requests import QueryDefaults, parse_query
from tests.engine.kinds.edge_query import EdgesOf
from tests.engine.test_engine_properties import cut, stream
from tests.reference import COUNTS
from tests.twins import Tuple, examples, tiny

SEEDS = st.integers(0, 2**32)
ENDS = ("st", "ts", "t", "sts")
DAY = {"window": "1d", "slide": "1h"}
REQUESTS: tuple[dict[str, Any], ...] = (
    {"expression": "a/b*", "name": "q", **DAY, "paths": "simple", "simple_budget": 99, "on_budget": "set_aside"},
    {"expression": "a+", **DAY, "semantics": "explicit", "sources": ["x", "y"], "targets": ["z"], "language": "path"},
    {"expression": "b+", "window": "unbounded", "select": ["source", "target", "length"]},
    {"expression": "(a|g)+", **DAY, "cost": "n", "hold": "90s"},
    {"expression": "c+", **DAY, "order": "increasing", "max_gap": "6h", "max_span": "2d"},
    {"expression": "d+", "window": 90, "slide": 30, "order": "non_decreasing", "max_gap": 0, "max_span": 60},
    {"expression": "e+", **DAY, "order": "increasing", "max_gap": 60, "max_span": "90s"},
    {"expression": "?x a ?y . ?y b+ ?z", **DAY, "select": ["x", "z"], "distinct": True, "paths": "simple_cycle"},
    {"expression": "?x a ?y . ?y b ?z", **DAY, "matching": "isomorphism", "report": "slide", "hold": "10m"},
    {"expression": "?x ?e:a ?y . ?y (b+ in order within 6h gap 1h) ?z", **DAY, "filter": "?e.n > 3 and ?x <> ?z", "hold": 9},
    {"expression": "SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x", **DAY, "report": "time", "hold": "1h"},
    {
        "expression": "SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT2H STEP PT1M] { WINDOW <w> { ?x <a> ?y } ?y <b> ?z }",
        **DAY,
    },
    {"expression": "MATCH (x:T)-[e:a]->(y) RETURN x, sum(e.n)", **DAY, "language": "cypher", "node_label": "is", "hold": 60},
    {
        "expression": "MATCH (x)-[e:a WHERE e.n > $least]->(y {id: $ends.y[0]}) RETURN x, y.risk",
        **DAY,
        "parameters": {"least": 2.5, "ends": {"y": ["z", True, None]}},
    },
)
"""Requests for queries of every kind, which together have every field."""
COUNTED = {"expression": "?x a ?y . ?y b ?z", "window": "count:9", "slide": 3}


def both_kinds(ends: str, explicit: bool = True, label: str = "a") -> tuple[EdgesOf, rpq.Query]:
    """The same question to both kinds."""
    window = rpq.Window(size=20, slide=3)
    semantics: Any = "explicit" if explicit else "implicit"
    edges = EdgesOf(label=label, window=window, name="edges", ends=ends, explicit=explicit)
    return edges, rpq.Query(label, window=window, name="path", semantics=semantics)


def expected(rows: Iterable[rpq.Change], ends: str) -> list[tuple]:
    """The rows of the path query as the other kind has them."""
    return [(*({"s": row.source, "t": row.target}[end] for end in ends), row.timestamp, row.op) for row in rows]


def without_name(rows: Iterable[Any], query: str = "edges") -> list[tuple]:
    return [tuple(row)[1:] for row in rows if row.query == query]


def per_event(rows: Iterable[tuple]) -> list[tuple[Any, Counter]]:
    """Rows of each moment and operation, in order."""
    grouped: list[tuple[Any, Counter]] = []
    for row in rows:
        if not grouped or grouped[-1][0] != row[-2:]:
            grouped.append((row[-2:], Counter()))
        grouped[-1][1][row] += 1
    return grouped


@examples(60)
@given(SEEDS, st.sampled_from(ENDS), st.booleans(), st.integers(1, 3), st.integers(1, 5), st.sampled_from((2, 16)))
def test_rows_are_those_of_a_path_query(seed, ends, explicit, threads, pieces, capacity):
    edges, path = both_kinds(ends, explicit)
    tuples = stream(seed)
    alone, both = tiny(capacity)(path), tiny(capacity)(edges, path, threads=threads)
    wanted: list[rpq.Change] = []
    found: list[Any] = []
    for part in cut(tuples, random.Random(seed), len(tuples) if pieces == 5 else pieces):
        wanted += alone.push_rows(part).rows()
        changes = both.push_rows(part)
        both._check()
        found += changes.rows()
        assert len(changes) == len(changes.rows()) == sum(changes.to_arrow(name).num_rows for name in ("edges", "path"))
    assert per_event(without_name(found)) == per_event(expected(wanted, ends))
    assert per_event(without_name(found, "path")) == per_event(tuple(row)[1:] for row in wanted)
    assert [row[-2] for row in found] == sorted(row[-2] for row in found)
    pairs = [rpq.Change("", *pair, 0, "+") for pair in alone.answers()]
    assert Counter(both.answers("edges")) == Counter(row[:-2] for row in expected(pairs, ends))
    mine, theirs = both.statistics("edges"), alone.statistics()
    for figure in COUNTS:
        assert getattr(mine, figure) == getattr(theirs, figure), figure


@examples(25)
@given(SEEDS, st.sampled_from(ENDS), st.integers(1, 3), st.integers(1, 3))
def test_saved_and_restored(seed, ends, before, after):
    edges, path = both_kinds(ends)
    tuples = stream(seed)
    half = len(tuples) // 2
    engine, through = tiny(2)(edges, path, threads=before), tiny(2)(edges, path)
    engine.push_rows(tuples[:half])
    through.push_rows(tuples[:half])
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        again = tiny(2).restore(Path(folder) / "state", threads=after)
    assert again.queries == (edges, path)
    assert Counter(again.answers("edges")) == Counter(engine.answers("edges"))
    assert per_event(again.push_rows(tuples[half:]).rows()) == per_event(through.push_rows(tuples[half:]).rows())
    assert again.statistics("edges").tuples == through.statistics("edges").tuples
    again._check()


@examples(25)
@given(SEEDS, st.integers(2, 4))
def test_shares_divide_the_rows(seed, shares):
    edges, _ = both_kinds("sts")
    tuples = stream(seed)
    whole = tiny(2)(edges).push_rows(tuples)
    parts = [tiny(2)(edges, share=(number, shares)).push_rows(tuples).rows() for number in range(shares)]
    assert Counter(whole.rows()) == Counter(row for rows in parts for row in rows)


def test_columns_of_its_own():
    edges, _ = both_kinds("sts")
    engine = rpq.Engine(edges)
    changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2)])
    assert changes.rows() == [("edges", "x", "y", "x", 1, "+")]
    assert changes.rows()[0]._fields == ("query", "from_0", "to_1", "from_2", "timestamp", "op")
    assert changes.to_arrow().column_names == ["query", "from_0", "to_1", "from_2", "timestamp", "op"]
    assert pa.table(changes).to_pylist() == changes.to_pandas().to_dict("records")
    assert engine.answers().to_arrow().to_pylist() == [{"from_0": "x", "to_1": "y", "from_2": "x"}]
    assert repr(engine.answers()) == "<Answers: 1 answer: ('x', 'y', 'x')>"
    assert "<th>from_2</th>" in changes._repr_html_() and "<td>edges</td>" in engine._repr_html_()


def spark_rows(tuples: list[Tuple], *queries: Any, partitions: int) -> Counter:
    """The rows of the stateful processor, in micro-batches, under Spark's tester."""
    processors = pytest.importorskip("tests.spark.state.test_spark_processor", reason="the extra spark is not installed")
    parts = processors.Partitions(*queries, partitions=partitions)
    found: Counter = Counter()
    for begin in range(0, len(tuples), 40):
        # Each micro-batch at a worker that has seen nothing: the engine is built again from the window.
        for key, tester in parts.testers.items():
            processors.processor.cache = processors.EngineCache()
            packed = tester.testInPandas(key, processors.envelopes(tuples[begin : begin + 40]))
            found.update(processors.changes_in(packed))
    return found


def test_on_spark():
    edges, _ = both_kinds("sts")
    tuples = sorted((t for t in stream(7) if t[4] == "+"), key=lambda t: t[3])
    local = rpq.Engine(edges).push_rows(tuples)
    assert spark_rows(tuples, edges, partitions=3) == Counter(map(tuple, local.rows()))


def test_restarts_are_tested_with_every_field():
    assert set().union(*REQUESTS) == {"expression", *OPTIONS}


# --- a restart ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [*REQUESTS, COUNTED], ids=lambda fields: fields["expression"])
@pytest.mark.parametrize("unit", ["s", None])
def test_query_survives_saving(tmp_path, fields, unit):
    """A server compares its queries with the saved ones."""
    query = parse_query(fields, QueryDefaults(fields={}, time_unit=unit))
    try:
        engine = rpq.Engine(query, edges="parallel", time_unit=unit)
    except rpq.QueryError as problem:
        assert unit is None and "give both in durations" in str(problem)
        return
    engine.save(tmp_path / "first")
    restored = rpq.Engine.restore(tmp_path / "first")
    assert restored.queries == (query,)
    restored.save(tmp_path / "second")
    assert rpq.Engine.restore(tmp_path / "second").queries == (query,)


@pytest.mark.parametrize("command", ["run", pytest.param("serve", marks=pytest.mark.ci)])
def test_command_resumes_with_the_same_queries(tmp_path, capfdbinary, command):
    from tests.commands import Caller
    from tests.services.served import Command

    entries = [{"name": str(number), **fields, "query": fields["expression"]} for number, fields in enumerate(REQUESTS)]
    for entry in entries:
        del entry["expression"]
        if command == "run":
            entry["output"] = str(tmp_path / f"{entry['name']}.jsonl")
    queries, edges = tmp_path / "queries.jsonl", tmp_path / "edges.jsonl"
    queries.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    edges.write_text('{"source": "x", "target": "y", "label": "a", "timestamp": 1, "n": 5}\n')
    options = ["--queries", queries, "--edges", "parallel", "--time-unit", "s", "--checkpoint", tmp_path / "state"]
    for _ in range(2):
        if command == "serve":
            with Command(*options, log=tmp_path / "log") as served:
                assert served.end() == 0
        else:
            code, _, stderr = Caller(capfdbinary)("run", *options, "--input", edges)
            assert code == 0, stderr


@pytest.mark.ci
def test_topics_resume_with_the_same_queries(tmp_path, kafka):
    from rpq import run_topics

    read = kafka.new()
    queries = [
        parse_query({"name": str(number), **fields}, QueryDefaults(fields={}, time_unit="s"))
        for number, fields in enumerate(REQUESTS)
    ]
    outputs = {query.name: kafka.uri(kafka.new()) for query in queries}
    for number in range(2):
        kafka.send(read, [{"source": "x", "target": "y", "label": "a", "timestamp": number, "n": 5}])
        options: Any = {"edges": "parallel", "time_unit": "s", "until_end": True, "checkpoint": tmp_path / "state"}
        run_topics(*queries, input=kafka.uri(read), output=outputs, **options)
