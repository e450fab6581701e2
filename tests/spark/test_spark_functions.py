"""Edges of programs and of SQL: a step of `DataFrame.transform` and the table function have the rows of one engine.

Sessions in which a call cannot work refuse it, and say what it needs.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import types
from pyspark.sql.udtf import AnalyzeArgument

import rpq
from rpq.spark import (
    changes,
    check_workers,
    open_session,
    prepare,
    register_functions,
    replay,
    replay_to,
    rescale,
    rpq_changes,
    stream_to,
)
from rpq.spark.batch.table_function import RpqChanges
from rpq.spark.columns import edge_expressions, parse_column_names
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_version

SCHEMA = (
    "source string, target string, label string, timestamp bigint, op string, "
    "n int, d decimal(5,2), at timestamp, seq int"
)
START = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def drawn_edges(size: int) -> list[tuple[Any, ...]]:
    """Draw inserts and deletes with properties, in order of time, deletes before inserts."""
    chance, time, rows = random.Random(5), 0, []
    for number in range(size):
        time += chance.choice((0, 1, 3))
        ends = chance.choice("vwxyz"), chance.choice("vwxyz"), chance.choice("TTS")
        values = chance.choice((None, 0, 1, 2, 3)), Decimal(number % 5) / 4, START + dt.timedelta(hours=number % 7)
        rows.append((*ends, time, "-" if chance.random() < 0.1 else "+", *values, 0))
    rows.sort(key=lambda row: (row[3], row[4] == "+"))
    return [(*row[:-1], place) for place, row in enumerate(rows)]


ROWS = drawn_edges(150)


@pytest.fixture(scope="module")
def edges(session):
    """A view of the edges, out of order and in several partitions."""
    register_functions(session)
    frame = session.createDataFrame(random.Random(1).sample(ROWS, len(ROWS)), SCHEMA).repartition(3)
    frame.createOrReplaceTempView("edges")
    return frame


def rows_of_engine(query: rpq.Query, **options: Any) -> Counter[tuple[Any, ...]]:
    """Return the rows of one engine over all edges in order."""
    properties = [pa.int32(), pa.decimal128(5, 2), pa.timestamp("us", "UTC"), pa.int32()]
    kinds = [pa.string()] * 3 + [pa.int64(), pa.string(), *properties]
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    table = pa.table({name: pa.array([row[place] for row in ROWS], kinds[place]) for place, name in enumerate(names)})
    has_ids = options.get("edges") == "id"
    table = table.rename_columns([*names[:-1], "edge"]) if has_ids else table.drop_columns(["seq"])
    found = rpq.Engine(query, **options).push(table).to_arrow(query.name)
    return Counter(tuple(row.values()) for row in found.to_pylist())


def rows_of(frame) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value for value in row)
        for row in frame.collect()
    )


WINDOW = rpq.Window(size=20, slide=5)
WINDOWED = "SELECT ?x FROM NAMED WINDOW <w> [RANGE PT20S STEP PT5S] { WINDOW <w> { ?x <T> ?y . ?y <S> ?z } }"
MATCH = "MATCH (a)-[e:T]->(b) WHERE NOT EXISTS { (b)-[:S]->() } RETURN a, sum(e.n) AS s"
OVER_LEAST = "MATCH (a)-[e:T]->(b) WHERE e.n > $least.n[0] RETURN a, b"


@pytest.mark.parametrize(
    ("arguments", "query", "options"),
    [
        ("'T/S*', 20, 5", lambda: rpq.Query("T/S*", window=WINDOW), {}),
        (
            "'T+', '20', '5', semantics => 'explicit', sources => array('v', 'w'), name => 'q'",
            lambda: rpq.Query("T+", window=WINDOW, semantics="explicit", sources=["v", "w"], name="q"),
            {},
        ),
        (
            "'T+', 20, 5, identity => 'parallel', order => 'increasing', max_gap => 4",
            lambda: rpq.Query("T+", window=WINDOW, order="increasing", max_gap=4),
            {"edges": "parallel"},
        ),
        (
            "'?x ?e:T ?y . ?y S ?z', 20, 5, select => array('x', 'z', 'e.n', 'e.d', 'e.at'), filter => '?e.n > 0', "
            "sequence => 'seq'",
            lambda: rpq.Query(
                "?x ?e:T ?y . ?y S ?z", window=WINDOW, select=["x", "z", "e.n", "e.d", "e.at"], filter="?e.n > 0"
            ),
            {},
        ),
        (
            "'T/S', 20, 5, identity => 'id', columns => 'edge=seq'",
            lambda: rpq.Query("T/S", window=WINDOW),
            {"edges": "id"},
        ),
        (
            "'SELECT ?x (COUNT(*) AS ?n) { ?x <T> ?y } GROUP BY ?x', 20, 5",
            lambda: rpq.Query("SELECT ?x (COUNT(*) AS ?n) { ?x <T> ?y } GROUP BY ?x", window=WINDOW),
            {},
        ),
        (f"'{WINDOWED}', time_unit => 's'", lambda: rpq.Query(WINDOWED), {"time_unit": "s"}),
        (
            f"'{MATCH}', 20, 5, sequence => 'seq'",
            lambda: rpq.Query(MATCH, window=WINDOW),
            {},
        ),
        (
            f"'{OVER_LEAST}', 20, 5, sequence => 'seq', parameters => named_struct('least', named_struct('n', array(0, 9)))",
            lambda: rpq.Query(OVER_LEAST, window=WINDOW, parameters={"least": {"n": [0, 9]}}),
            {},
        ),
    ],
    ids=["path", "sources", "ordered", "pattern", "ids", "sparql", "declared", "match", "parameters"],
)
def test_the_table_function_has_the_rows_of_the_engine(session, edges, arguments, query, options):
    pytest.importorskip("lark", reason="the extra match is not installed")
    found = rows_of(session.sql(f"SELECT * FROM rpq_changes(TABLE(edges), {arguments})"))
    assert found == rows_of_engine(query(), **options)
    assert found.total() > 20


def test_times_and_names_of_columns_in_sql(session, edges):
    """Windows are texts or intervals, and rows have times again; the input may be any query."""
    source = "SELECT source AS `from`, target AS to, timestamp_seconds(timestamp) AS `at o` FROM edges WHERE op = '+'"
    options = """columns => 'source=from,target=to,timestamp=at o', label => "it's", time_unit => 'ms'"""
    engine = rpq.Engine(rpq.Query("<it's>+", window=WINDOW))
    expected: Counter[tuple[Any, ...]] = Counter()
    for row in ROWS:
        if row[4] == "+":
            for change in engine.insert(row[0], row[1], "it's", row[3]).rows():
                expected[change.source, change.target, dt.datetime.fromtimestamp(change.timestamp, dt.UTC), change.op] += 1
    for window in ("'20s', '5s'", "INTERVAL 20 SECONDS, INTERVAL 5 SECONDS"):
        call = f"""rpq_changes(TABLE({source}), "<it's>+", {window}, {options})"""
        found = session.sql(f"SELECT source, target, timestamp, op FROM {call}")
        assert rows_of(found) == expected
    assert expected.total() > 20


def test_an_empty_table_has_no_rows(session, edges):
    found = session.sql("SELECT * FROM rpq_changes(TABLE(SELECT * FROM edges WHERE false), 'T', 20, 5)")
    assert (found.columns, found.collect()) == (["query", "source", "target", "timestamp", "op"], [])


def test_spark_shows_the_error_of_an_analysis(session, edges):
    with pytest.raises(AnalysisException, match=r"(?s)column 3: unexpected '\('; expected .*\n  T\+\("):
        session.sql("SELECT * FROM rpq_changes(TABLE(edges), 'T+(', 20, 5)")


def test_a_frame_is_transformed_by_a_replay_and_a_stream_by_a_stream(session, edges, tmp_path):
    query = rpq.Query("T/S*", window=WINDOW, semantics="explicit")
    expected = rows_of_engine(query)
    assert rows_of(edges.transform(changes(query, partitions=2))) == expected
    edges.coalesce(1).write.parquet(f"{tmp_path}/in")
    stream = session.readStream.schema(SCHEMA).parquet(f"{tmp_path}/in").transform(changes(query, partitions=2))
    writer = stream.writeStream.option("checkpointLocation", f"{tmp_path}/state").trigger(availableNow=True)
    writer.format("parquet").start(f"{tmp_path}/rows").awaitTermination()
    assert rows_of(session.read.parquet(f"{tmp_path}/rows")) == expected
    with pytest.raises(PipelineError, match="max_delay is an option of streams"):
        edges.transform(changes(query, max_delay=3))


def test_a_motif_is_replayed_with_properties_of_edges(session, edges):
    pytest.importorskip("lark", reason="the extra match is not installed")
    query = rpq.motif("(a)-[e]->(b); !(b)-[]->(a)", window=WINDOW, labels={"e": "T"}, select=["a", "b", "e.n"])
    found = rows_of(edges.transform(changes(query, partitions=2, identity="parallel")))
    assert found == rows_of_engine(query, edges="parallel")
    assert found.total() > 20


def table_of(columns: str) -> AnalyzeArgument:
    """Return a table with these columns, all of text but `timestamp`, as the analysis of a call gets it."""
    kinds = {"timestamp": types.LongType(), "n": types.BinaryType()}
    fields = [types.StructField(name, kinds.get(name, types.StringType())) for name in columns.split()]
    return AnalyzeArgument(types.StructType(fields), None, True, False)


def constant(value: Any) -> AnalyzeArgument:
    return AnalyzeArgument(types.StringType(), value, False, True)


TUPLE = "source target label timestamp"


@pytest.mark.parametrize(
    ("columns", "values", "options", "message"),
    [
        ("source", ["T", "9", "1"], {}, "no column 'target': expected source, target, label, timestamp"),
        (TUPLE, ["T"], {}, "window is missing"),
        (TUPLE, ["T", 9], {}, r"slide is missing: .* rpq_changes\(TABLE\(edges\), 'T', '30d', '1d'\)"),
        (TUPLE, ["T", "9 apples", "1"], {}, "window: "),
        (TUPLE, ["T", "9d", "1d"], {}, "timestamps are plain numbers"),
        (TUPLE, [7, 9, 1], {}, "query is 7; expected text"),
        (TUPLE, ["SELECT ?x { ?x <T> ?y }"], {}, "window is missing: write window and slide"),
        (TUPLE, ["T", 9, 1], {"max_delay": "3"}, "max_delay is not an option of rpq_changes; the options are sequence"),
        (TUPLE, ["T", 9, 1], {"distinct": True}, "distinct is an option of graph patterns"),
        (TUPLE, ["T", 9, 1], {"parameters": {"at": dt.datetime(2024, 3, 1)}}, r"named_struct\('datetime', '2024"),
        (TUPLE, ["T", 9, 1], {"identity": "id"}, "no column 'edge' with the ids of edges"),
        (TUPLE, ["T", 9, 1], {"identity": "ids"}, "identity is 'triple', 'parallel' or 'id', not 'ids'"),
        (TUPLE, ["T", 9, 1], {"sequence": "n"}, "no column 'n'"),
        (f"{TUPLE} n", ["T[n > 1]", 9, 1], {}, "column 'n' is of type binary; properties of edges are of type"),
        (TUPLE, ["?x ?e:T ?y", 9, 1], {"select": ["e"]}, "on Spark an edge without an id has no number"),
    ],
)
def test_an_unsuitable_call_is_an_error_before_any_job(columns, values, options, message):
    with pytest.raises((rpq.QueryError, PipelineError), match=message):
        RpqChanges.analyze(
            table_of(columns), *map(constant, values), **{name: constant(value) for name, value in options.items()}
        )


def test_arguments_are_a_table_and_constants():
    with pytest.raises(PipelineError, match=r"the first argument is a table, as in rpq_changes\(TABLE\(edges\)"):
        RpqChanges.analyze(constant("edges"), constant("T"), constant(9), constant(1))
    with pytest.raises(PipelineError, match="label is not a constant"):
        changing = AnalyzeArgument(types.StringType(), None, False, False)
        RpqChanges.analyze(table_of(TUPLE), constant("T"), constant(9), constant(1), label=changing)


def test_an_analysis_asks_for_one_partition_in_order():
    found = RpqChanges.analyze(table_of(f"{TUPLE} op"), constant("T"), constant(9), constant(1))
    assert found.withSinglePartition
    assert [one.name for one in found.orderBy] == ["CAST(`timestamp` AS bigint)", "(`op`) = '+'"]
    assert found.schema.simpleString() == "struct<query:string,source:string,target:string,timestamp:bigint,op:string>"


def test_an_old_spark_is_refused_by_its_version(monkeypatch):
    query = rpq.Query("a", window=WINDOW)
    monkeypatch.setattr("rpq.spark.jvm.session.check_java", lambda: None)
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    for call in (open_session, lambda: register_functions(None), lambda: replay(None, None, query, partitions=2)):
        with pytest.raises(PipelineError, match=r"PySpark 3\.5\.9 is installed, and Spark 4\.0 or newer is needed"):
            call()
    monkeypatch.setattr(pyspark, "__version__", "10.0.0.dev1")
    check_version()


def test_what_needs_a_jvm_is_refused_in_a_session_of_spark_connect():
    query = rpq.Query("a", window=WINDOW)

    class SparkSession:
        """A stand-in with the name of a Spark Connect session."""

    SparkSession.__module__ = "pyspark.sql.connect.session"

    frame = SimpleNamespace(sparkSession=SparkSession())
    calls = {
        "check_workers": lambda: check_workers(SparkSession(), query),
        "prepare": lambda: prepare(SparkSession(), "data", "prepared", format="edges"),
        "replay_to": lambda: replay_to(SparkSession(), "data", "rows", query),
        "rescale": lambda: rescale(SparkSession(), "state", partitions=2),
        "checkpoint=…": lambda: rpq_changes(frame, query, checkpoint="state"),
        "stream_to": lambda: stream_to(frame, "rows", query, checkpoint="state"),
    }
    for name, call in calls.items():
        with pytest.raises(PipelineError, match=f"^{name} works in the JVM of the driver, .* Spark Connect"):
            call()


def test_a_sequence_may_have_the_name_of_a_column_that_has_another():
    text, number = types.StringType(), types.LongType()
    kinds = {"source": text, "target": text, "label": text, "at": number, "timestamp": number}
    schema = types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])
    names = parse_column_names("timestamp=at", None)
    found = edge_expressions(schema, sequence="timestamp", time_unit="us", names=names).columns
    assert (found["timestamp"], found["sequence"]) == ("CAST(`at` AS bigint)", "CAST(`timestamp` AS bigint)")
    with pytest.raises(PipelineError, match="column 'label' is of type string; a sequence is an integer"):
        edge_expressions(schema, sequence="label", time_unit="us", names=names)
