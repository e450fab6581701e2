"""MATCH on a real Spark: the rows of replays, of the command and of streams are those of one engine.

semantics.md S14
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")
pytest.importorskip("lark", reason="the extra match is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

pytestmark = pytest.mark.ci

WINDOW = rpq.Window(size=20, slide=5)
SCHEMA = "source string, target string, label string, timestamp bigint, op string, n int, d decimal(5,2), x double"


def drawn_edges(size: int) -> list[tuple[Any, ...]]:
    """Draw inserts and deletes in order of time, with properties."""
    chance, time, rows = random.Random(9), 0, []
    for number in range(size):
        time += chance.choice((0, 1, 3))
        ends = chance.choice("vwxyz"), chance.choice("vwxyz"), chance.choice("TTS")
        values = chance.choice((None, 0, 1, 2, 3)), Decimal(number % 5) / 4, number / 8
        rows.append((*ends, time, "-" if chance.random() < 0.1 else "+", *values))
    return rows


def rows_of_engine(query: rpq.Query, rows: list[tuple[Any, ...]], **options: Any) -> Counter[tuple[Any, ...]]:
    """Return the rows of one engine over all edges."""
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    types = [pa.string()] * 3 + [pa.int64(), pa.string(), pa.int32(), pa.decimal128(5, 2), pa.float64()]
    columns = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    changes = rpq.Engine(query, **options).push(pa.table(columns))
    return Counter(tuple(row.values()) for row in changes.to_arrow(query.name).to_pylist())


@pytest.mark.parametrize("edges", ["triple", "parallel"])
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "MATCH (a)-[e:T]->(b) OPTIONAL MATCH (b)-[f:S]->(c) WHERE f.n >= e.n RETURN e.n, a, f.d AS d, c",
            ["bigint", "string", "decimal(5,2)", "string"],
        ),
        (
            "MATCH (a)-[e:T]->(b) WHERE NOT EXISTS { (b)-[:S]->(a) } RETURN count(*) AS k, sum(e.n) AS s, sum(e.d) AS t, "
            "sum(e.x) AS u, avg(e.n) AS m, max(e.d) AS h, a, min(b) AS l",
            ["bigint", "bigint", "decimal(38,2)", "double", "double", "decimal(5,2)", "string", "string"],
        ),
        ("MATCH ANY (a)-[e:T WHERE e.n > 0]->+(b) RETURN a, b", ["string", "string"]),
    ],
)
def test_a_replay_of_a_data_frame_has_the_rows_of_the_engine(session, text, kinds, edges):
    rows = drawn_edges(200)
    query = rpq.Query(text, window=WINDOW, semantics="explicit", name="q")
    changes = pipeline.replay(session, session.createDataFrame(rows, SCHEMA), query, partitions=2, edges=edges)
    assert [kind for _, kind in changes.dtypes[1:-2]] == kinds
    found = Counter(tuple(row) for row in changes.collect())
    assert found == rows_of_engine(query, rows, edges=edges)
    assert found.total() > 100


def test_numbers_of_parallel_edges_are_refused(session):
    frame = session.createDataFrame(drawn_edges(3), SCHEMA)
    query = rpq.Query("MATCH (a)-[e:T]->(b) RETURN a, e", window=WINDOW)
    with pytest.raises(PipelineError, match="selects e, and on Spark an edge without an id has no number"):
        pipeline.replay(session, frame, query, edges="parallel")


PATTERN = {"expression": "?x ?e:T ?y . ?y ?f:S ?z", "select": ["e", "f", "z", "f.timestamp"]}
MATCH = {"expression": "MATCH (x)-[e:T]->(y) RETURN x, y, e AS k, max(e.timestamp) AS latest"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("described", "is_time"),
    [
        pytest.param(PATTERN, True, id="pattern-times"),
        pytest.param(MATCH, False, id="match-numbers"),
        pytest.param(PATTERN, False, id="pattern-numbers"),
        pytest.param(MATCH, True, id="match-times"),
    ],
)
def test_ids_and_timestamps_of_edges_have_the_types_of_an_engine(session, tmp_path, described, is_time):
    """In replays and streams, as data frames and as files."""
    edges = [(*row[:4], number % 70) for number, row in enumerate(drawn_edges(200)) if row[4] == "+"]
    window = rpq.Window(size="20s", slide="5s") if is_time else WINDOW
    query = rpq.Query(**described, window=window, name="q")
    names = ("source", "target", "label", "timestamp", "edge")
    columns = {name: [row[place] for row in edges] for place, name in enumerate(names)}
    columns["sequence"] = [*range(len(edges))]
    table = pa.table(columns)
    if is_time:
        times = pa.array([time * 10**6 for time in columns["timestamp"]], pa.timestamp("us", "UTC"))
        table = table.set_column(3, "timestamp", times)
    pq.write_table(table, tmp_path / "edges.parquet")
    expected = rpq.Engine(query, edges="id").push(table.drop_columns(["sequence"])).to_arrow("q")
    assert len(expected) > 100

    def check(rows: pa.Table) -> None:
        by = [(name, "ascending") for name in expected.column_names]
        assert rows.cast(expected.schema).sort_by(by).to_pylist() == expected.sort_by(by).to_pylist()
        assert [pa.types.is_timestamp(kind) for kind in rows.schema.types] == [
            pa.types.is_timestamp(kind) for kind in expected.schema.types
        ]

    frame = session.read.parquet(str(tmp_path / "edges.parquet"))
    options = {"partitions": 2, "sequence": "sequence"}
    check(pipeline.replay(session, frame, query, edges="id", **options).toArrow())
    pipeline.replay_to(session, frame, str(tmp_path / "replayed"), query, edges="id", **options)
    check(pq.read_table(tmp_path / "replayed"))
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "1.parquet")
    stream = session.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    state, rows = str(tmp_path / "state"), str(tmp_path / "rows")
    writer = pipeline.stream_to(stream, rows, query, checkpoint=state, identity="id", **options)
    writer.trigger(availableNow=True).start().awaitTermination()
    check(session.read.parquet(rows).toArrow())


@pytest.mark.long
def test_the_command_replays_what_binds_edges_without_properties(rpq_on_spark, tmp_path):
    """Data sets that were prepared have no properties, but each insert may be an edge."""
    inserts = [row[:4] for row in drawn_edges(200) if row[4] == "+"]
    (tmp_path / "in.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in inserts))
    text = "MATCH (a)-[e:T]->(b)-[f:S]->(c) WHERE f.timestamp > e.timestamp RETURN a, c, count(*) AS n"

    def call(*args: str) -> None:
        status, _, said = rpq_on_spark("spark", *args)
        assert status == 0, said

    call("prepare", "--input", str(tmp_path / "in.tsv"), "--output", str(tmp_path / "data"))
    options = ["--window", "20", "--slide", "5", "--partitions", "2", "--edges", "parallel"]
    call("replay", text, "--input", str(tmp_path / "data"), *options, "--output", str(tmp_path / "rows"))
    found = Counter(tuple(row.values()) for row in pq.read_table(tmp_path / "rows").to_pylist())
    engine = rpq.Engine(rpq.Query(text, window=WINDOW), edges="parallel")
    assert found == Counter(map(tuple, engine.push_rows(inserts).rows()))
    assert found.total() > 50
