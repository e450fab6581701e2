"""The chunks of replays, without a JVM: their rows are those of one engine, wherever a stream is cut.

semantics.md S6, S7, S8
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import rpq
from rpq.errors import QueryError
from rpq.readers import open_reader
from rpq.readers.inputs import merge_by_heads
from rpq.run.loop import push_part
from rpq.run.time_division import TimeDivision
from rpq.spark.batch import chunks
from rpq.spark.batch.chunks import ChunkEngines, Divider, Slicer, plan_chunks
from rpq.spark.columns import check_supported_values, edge_model, property_names
from rpq.spark.division import EdgeDivision
from rpq.spark.envelopes import numbered_property
from rpq.stream.nodes.node_rows import LABELS_TYPE, record_rows, uniform_parts
from rpq.stream.nodes.node_table import NO_TIME
from tests.engine.test_time_division import drawn_queries, streams
from tests.twins import examples


def rows_of_chunks(
    queries: Sequence[rpq.Query], tuples: pa.Table, *, identity: Any, tasks: int, batch: int, types: dict[str, str],
    most: float, nodes: pa.RecordBatch | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each task of a replay of tuples, whose columns after the first five are properties and ids."""
    has_ids = identity == "id"
    names = [*property_names(queries), *(["edge"] if has_ids else [])]
    division = TimeDivision(queries)
    slicer = Slicer(queries, names, division, whole=has_ids)
    columns = {name: tuples[name] for name in ("source", "target", "label", "timestamp", "op")}
    columns |= {numbered_property(place): tuples[name] for place, name in enumerate(names)}
    count = len(tuples)
    placed = pa.table({**columns, "file": pa.nulls(count, pa.string()), "row": pa.array(range(count), pa.int64())})
    slices = pa.Table.from_batches(list(slicer(placed.to_batches(max_chunksize=batch))))
    listed = slices.drop_columns("edges").to_pylist()
    plan = plan_chunks(listed, division, most=tasks, max_taken_in=most)
    shares = tasks // len(plan.chunks)
    model = edge_model(queries, identity, "string", time_unit=None, properties=types)
    options: dict[str, Any] = {"shares": shares, "threads": 1, "memory_limit": None, "sizes": {}}
    engines = ChunkEngines(queries, plan.chunks, edges=model, nodes=nodes, **options)
    parts = {(one["file"], one["row"]): of_slice for one, of_slice in zip(listed, plan.parts, strict=True)}
    divider = Divider(parts, engines.keys, shares, EdgeDivision(queries, shares, whole=has_ids))
    divided = pa.Table.from_batches(list(divider(slices.to_batches())))
    places = [(name, "ascending") for name in ("file", "row", "is_own")]
    for key in engines.keys:
        task = divided.filter(pc.equal(divided["partition"], key)).sort_by(places)
        yield [row for changes in engines.changes(task.to_batches()) for row in engines.rows(changes).to_pylist()]


@examples(1000)
@given(drawn_queries(), streams(), st.integers(1, 8), st.integers(1, 9), st.sampled_from([1, 9]))
def test_chunks_have_the_rows_of_one_engine(drawn, tuples, batch, tasks, most):
    """With late tuples, deletes, ids, properties and reports, in order of arrival, and with shares of roots or without."""
    queries, options = drawn
    identity = options.get("edges", "triple")
    assume(len({query.columns for query in queries}) == 1)
    try:
        check_supported_values(queries, identity)
    except QueryError:
        assume(False)
    for one in tuples:
        one["op"] = "-" if one["delete"] else "+"
    table = pa.Table.from_pylist(tuples)
    table = table.set_column(table.column_names.index("w"), "w", table["w"].cast(pa.int64()))
    whole = rpq.Engine(*queries, **options)
    dropped = ["op"] if identity == "id" else ["op", "edge"]
    expected = [row for one in range(len(table)) for row in whole.push(table.drop_columns(dropped).slice(one, 1)).rows()]
    types = {"w": "bigint", "edge": "string"}
    found = rows_of_chunks(queries, table, identity=identity, tasks=tasks, batch=batch, types=types, most=most)
    assert Counter(str(tuple(row.values())) for rows in found for row in rows) == Counter(map(str, map(tuple, expected)))


@pytest.mark.parametrize("report", ["change", "slide"])
def test_rows_before_the_first_edge_have_the_time_of_a_tuple_that_no_query_reads(report):
    text, window = "SELECT (COUNT(*) AS ?n) { ?x <a> ?y }", rpq.Window(size=5, slide=1)
    query = rpq.Query(text, window=window, semantics="explicit", report=report)
    tuples = {"source": ["u", "u"], "target": ["v", "v"], "label": ["z", "a"], "timestamp": [1, 6], "op": ["+", "+"]}
    found = rows_of_chunks([query], pa.table(tuples), identity="triple", tasks=1, batch=9, types={}, most=9)
    assert [tuple(row.values()) for rows in found for row in rows] == list(map(tuple, rpq.Engine(query).push(tuples).rows()))


VALUE_QUERIES = {
    "paths": ([("a[n > 1]/b*", {}), ("!(b)[n > 0]", {})], "triple"),
    "parallel paths": ([("a[n > 1]/b*", {}), ("a+", {})], "parallel"),
    "patterns with conditions": ([("?x a ?y . ?y b ?z", {"select": ["x", "y"]}), ("?x a[n > 1] ?y", {})], "triple"),
    "a triangle": ([("?x a ?y . ?y a[n > 0] ?z . ?z b ?x", {})], "triple"),
    "a triangle and a path": (
        [
            ("?source a ?y . ?y b ?target . ?target (a|b) ?source", {"select": ["source", "target"]}),
            ("?source a ?target . ?target c+ ?source", {}),
        ],
        "parallel",
    ),
    "edge variables": (
        [("?x ?e:a ?y . ?y ?f:(a|b) ?z", {"select": ["x", "e.n", "f.d"], "filter": "?f.n >= ?e.n and ?x <> ?z"})],
        "parallel",
    ),
    "replaced values": ([("?x ?e:a[n > 0] ?y", {"select": ["x", "e.n"], "distinct": True})], "triple"),
    "labels of nodes": (
        [
            ("MATCH (x:b)-[:a]->(y) RETURN DISTINCT x, y", {"node_label": "c"}),
            ("MATCH (x)-[e:a WHERE e.n > $least]->(y) RETURN x, y", {"parameters": {"least": 1}}),
            ("MATCH ANY (x)-[e:a WHERE e.n > 0]->+(y) RETURN x, y", {}),
        ],
        "parallel",
    ),
    "bound edges": (
        [
            ("MATCH (x)-[e:a]->(y) OPTIONAL MATCH (y)-[f:b]->(z) WHERE f.n >= e.n RETURN e.n, x, z, f.d", {}),
            ("MATCH (x)-[e:a]->(y)-[f:b]->(z) WHERE e.n <> f.n RETURN e.n, x, z, f.d", {}),
        ],
        "parallel",
    ),
    "values alone": ([("?x ?e:a ?y", {"select": ["e.n"]})], "parallel"),
}


@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("name", VALUE_QUERIES)
def test_chunks_have_properties_of_edges(name, tasks):
    """They are further columns of slices; shares of one chunk, of patterns with their edges, have the rows of an engine."""
    described, identity = VALUE_QUERIES[name]
    chance, time, rows = random.Random(8), 0, []
    for number in range(240):
        time += chance.choice((0, 0, 1, 3))
        ends = chance.choice("vwxyz"), chance.choice("vwxyz")
        values = chance.choice((None, 0, 1, 2, 3)), Decimal(number % 5) / 4
        rows.append((*ends, chance.choice("aabbc"), time, chance.choice("++++-"), *values))
    window = rpq.Window(size=20, slide=5)
    queries = [rpq.Query(text, window=window, semantics="explicit", **options) for text, options in described]
    names = ("source", "target", "label", "timestamp", "op", "n", "d")
    types = {"n": pa.int64(), "d": pa.decimal128(7, 2)}
    table = pa.table({one: pa.array(values, types.get(one)) for one, values in zip(names, map(list, zip(*rows)))})
    whole = [tuple(row) for row in rpq.Engine(*queries, edges=identity).push(table).rows()]
    written = {"n": "bigint", "d": "decimal(7,2)"}
    most = -1 if tasks > 1 else 1
    found = list(rows_of_chunks(queries, table, identity=identity, tasks=tasks, batch=70, types=written, most=most))
    assert len([*filter(None, found)]) > 1 or tasks == 1 or name == "values alone"
    assert Counter(tuple(row.values()) for rows in found for row in rows) == Counter(whole)


NODE_QUERIES = {
    "paths": [("(a/@[risk > 2])+", {}), ("@[:A]/a*/b", {})],
    "patterns": [("?x[risk > 1] a ?y . ?y b ?z[:A]", {"select": ["x", "y"]}), ("?x[:A] a ?y[risk is null]", {})],
    "values": [("?x a ?y", {"select": ["x", "y.risk"], "filter": "?x.risk >= ?y.risk"})],
    "match": [("MATCH (x:A)-[:a]->(y WHERE y.risk > 1) RETURN x.risk, y", {})],
}


@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("most", [9, -1])
@pytest.mark.parametrize("name", NODE_QUERIES)
def test_chunks_have_the_facts_of_nodes(name, tasks, most):
    """Records are merged by time, before tuples of the same time; a chunk takes in all before it, and late tuples stay."""
    chance, time, rows = random.Random(3), 0, []
    for _ in range(240):
        time += chance.choice((0, 0, 1, 3))
        ends = chance.choice("vwxyz"), chance.choice("vwxyz")
        rows.append((*ends, chance.choice("aab"), time - chance.choice((0, 0, 0, 9)), chance.choice("++++-")))
    names = ("source", "target", "label", "timestamp", "op")
    table = pa.table(dict(zip(names, map(list, zip(*rows)))))
    times = sorted([NO_TIME] * 3 + [chance.randrange(time + 30) for _ in range(60)])
    labels = pa.array([chance.choice((None, ["A"], ["A", "B"])) for _ in times], LABELS_TYPE)
    of_nodes = {"labels": labels, "ops": pa.array([chance.choice("+++=-") for _ in times])}
    risks = pa.array([chance.choice((None, 0, 1, 2, 3)) for _ in times], pa.int64())
    vertices = pa.array([chance.choice("vwxyz") for _ in times])
    nodes = pa.record_batch(record_rows(vertices, pa.array(times), **of_nodes, values={"risk": risks}))
    window = rpq.Window(size=20, slide=5)
    queries = [rpq.Query(text, window=window, semantics="explicit", **options) for text, options in NODE_QUERIES[name]]
    whole = rpq.Engine(*queries)
    tuples = table.to_batches()[0]
    merged = merge_by_heads([[nodes], [tuples.append_column("delete", pc.equal(tuples["op"], "-")).drop_columns("op")]])
    expected = [
        tuple(row) for one in merged for part in uniform_parts(one) for row in push_part(whole, part).rows()
    ]
    types = {"@risk": "bigint"}
    options = {"identity": "triple", "tasks": tasks, "batch": 70, "types": types, "most": most}
    found = [row for rows in rows_of_chunks(queries, table, nodes=nodes, **options) for row in rows]
    assert len(expected) > 20
    assert Counter(tuple(row.values()) for row in found) == Counter(expected)


def test_as_many_chunks_as_take_in_half_of_the_stream():
    """Of equal size, but at one time there is no cut; what no query reads is left out, except the last of a slice."""
    window, times = rpq.Window(size=100, slide=1), [*range(1000), *[1000] * 1000, *range(1001, 2000)]
    labels = ["other" if n % 2 else "a" for n in range(len(times))]
    queries = [rpq.Query("a", window=window)]
    division = TimeDivision(queries)
    edges = pa.table({"source": ["x"] * len(times), "target": ["y"] * len(times), "label": labels, "timestamp": times})
    edges = edges.append_column("op", pa.array(["+"] * len(times))).append_column("row", pa.array(range(len(times))))
    slicer = Slicer(queries, [], division, whole=False)
    placed = edges.append_column("file", pa.nulls(len(times), pa.string()))
    slices = pa.Table.from_batches(list(slicer(placed.to_batches(max_chunksize=100)))).to_pylist()
    assert sum(one["tuples"] for one in slices) == 1500 + 29 and slices[0]["latest"] == 99
    plan = plan_chunks(slices, division, most=3)
    assert [chunk.begins_at for chunk in plan.chunks] == [None, 999, 1100]
    assert plan.chunks[1] == chunks.Chunk(1, 899, 999, 1100)
    many = plan_chunks(slices, division, most=1000)
    taken_in = sum(part.begin for of_slice in many.parts for part in of_slice if part.takes_in)
    assert 5 < len(many.chunks) < 20 and 0.3 < taken_in / 1529 <= 0.5
    assert plan_chunks(slices, None, most=3).chunks == [chunks.Chunk(0, None, None, None)]


def test_files_are_in_the_order_in_which_a_folder_is_read(tmp_path):
    """Not in that of their URIs, in which some characters have codes, and `-` and `.` come before `/`."""
    names = ["a/1", "a-b/1", "a.b/1", "a b", "a!b", "z", "ä"]
    rows = []
    for name in sorted(names, reverse=True):
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        edge = {"source": [name], "target": ["y"], "label": ["a"], "timestamp": [1], "op": ["+"]}
        pq.write_table(pa.table(edge), file)
        rows.append(pa.record_batch({**edge, "file": [file.as_uri()], "row": [0]}))
    expected = [row["source"] for one in open_reader("edges", str(tmp_path)) for row in one.columns.to_pylist()]
    slicer = Slicer([rpq.Query("a", window=rpq.Window(size=1, slide=1))], [], None, whole=False)
    placed = sorted((row["file"], row["edges"]) for batch in slicer(rows) for row in batch.to_pylist())
    assert [pa.ipc.open_stream(edges).read_all()["source"][0].as_py() for _, edges in placed] == expected
