"""The pipeline on a real Spark: from raw files to rows, the same as the local engine's, and after a crash as well.

semantics.md S7
"""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.readers import open_reader
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from rpq.spark.stream.run import partition_records
from tests.commands import Caller
from tests.real import DATA

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

DAY = 86_400
MATHOVERFLOW = [
    rpq.Query("a2q/c2a*", window=rpq.Window(size=10 * DAY, slide=DAY), semantics="explicit"),
    rpq.Query("a2q/c2a", window=rpq.Window(size=3 * DAY, slide=DAY)),
]
LDBC = [
    rpq.Query("replyOf*/hasCreator*", window=rpq.Window(size=3_600_000, slide=600_000), semantics="explicit"),
    rpq.Query("likes/hasCreator", window=rpq.Window(size=10 * DAY * 1000, slide=DAY * 1000)),
]
QUERIES = {"mathoverflow": MATHOVERFLOW, "ldbc": LDBC}


def files_of(folder: str) -> list[str]:
    """The Parquet files of a prepared data set, in the order of the stream."""
    return [str(path) for path in sorted(Path(folder).glob("*.parquet"))]


def read_statistics(folder: str) -> dict:
    """The statistics of a prepared data set."""
    return json.loads(Path(folder, "_statistics.json").read_text())


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> dict[str, tuple[list[str], str]]:
    """The beginnings of two real data sets, with a bad line in one: format and files by name."""
    if not DATA.is_dir():
        pytest.skip("the real data sets are not here")
    folder = tmp_path_factory.mktemp("raw")
    found = {}
    for name, format, pattern, lines in (
        ("mathoverflow", "stackoverflow", "stackoverflow/*.txt.gz", 2500),
        ("ldbc", "ldbc", "ldbc/*.tsv.gz", 6000),
    ):
        paths = []
        for path in sorted(DATA.glob(pattern)):
            with gzip.open(path, "rb") as file:
                head = list(itertools.islice(file, lines))
            if name == "ldbc":
                head.insert(100, b"a bad line\n")
                path = path.with_suffix("")
            (folder / path.name).write_bytes(gzip.compress(b"".join(head)) if path.suffix == ".gz" else b"".join(head))
            paths.append(str(folder / path.name))
        found[name] = (paths, format)
    return found


@pytest.fixture(scope="module")
def prepared(session, raw, tmp_path_factory) -> dict[str, str]:
    """The folders of the prepared data sets by name."""
    folders = {}
    for name, (paths, format) in raw.items():
        folders[name] = str(tmp_path_factory.mktemp("prepared") / name)
        pipeline.prepare(session, paths, folders[name], format=format, partitions=2, rows_per_file=1900)
    return folders


def table(reader) -> pa.Table:
    tables = []
    for batch in reader:
        columns = {name: batch.columns[name].cast(kind) for name, kind in (("source", pa.string()), ("target", pa.string()))}
        columns |= {"label": batch.columns["label"].cast(pa.string()), "timestamp": batch.columns["timestamp"]}
        if "delete" in batch.columns.schema.names:
            columns["delete"] = batch.columns["delete"]
        else:
            columns["delete"] = pa.array([False] * len(batch))
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def rows_of(frame) -> Counter:
    return Counter(rpq.Change(*row) for row in frame.select("query", "source", "target", "timestamp", "op").collect())


def local_rows(queries: list[rpq.Query], micro_batches: list[pa.Table]) -> Counter:
    """Return the rows of the local engine for micro-batches, each sorted by time, deletes before inserts."""
    engine, found = rpq.Engine(*queries), Counter()
    for batch in micro_batches:
        keyed = batch.append_column("rank", pa.array([0 if delete else 1 for delete in batch["delete"].to_pylist()]))
        ordered = keyed.sort_by([("timestamp", "ascending"), ("rank", "ascending")]).drop_columns(["rank"])
        found.update(engine.push(ordered).rows())
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_prepared_data_set_is_the_sorted_input(raw, prepared, name: str):
    paths, format = raw[name]
    expected = table(open_reader(format, paths, on_error="skip"))
    assert table(open_reader("edges", prepared[name])).equals(expected)
    assert len(files_of(prepared[name])) > 3
    ages = [os.path.getmtime(file) for file in files_of(prepared[name])]
    assert ages == sorted(set(ages))
    figures = read_statistics(prepared[name])
    frame = expected.to_pandas()
    inserts = frame[~frame["delete"]]
    assert figures["tuples"] == len(frame)
    assert figures["deletes"] == int(frame["delete"].sum())
    assert figures["self_loops"] == int((frame["source"] == frame["target"]).sum())
    assert figures["span"] == [int(frame["timestamp"].min()), int(frame["timestamp"].max())]
    assert figures["duplicates"] == int(inserts.duplicated(["source", "target", "label"]).sum())
    assert figures["repeated_tuples"] == int(inserts.duplicated(["source", "target", "label", "timestamp"]).sum())
    assert figures["vertices_count"] == len({*frame["source"], *frame["target"]})
    assert {label: one["tuples"] for label, one in figures["labels"].items()} == Counter(frame["label"])
    if name == "ldbc":
        assert figures["rejected"] == 1 and figures["deletes"] > 0
        kept = [json.loads(line) for path in Path(prepared[name], "_rejected").glob("*.json") for line in path.open()]
        assert [(one["file"], one["line"], one["text"]) for one in kept] == [(paths[0], 101, "a bad line")]


def test_replay_gives_the_rows_of_the_engine(session, prepared):
    engine = rpq.Engine(*LDBC)
    expected = Counter()
    for changes in engine.run(open_reader("edges", prepared["ldbc"])):
        expected.update(changes.rows())
    assert len(expected) > 1000
    assert rows_of(pipeline.replay(session, prepared["ldbc"], *LDBC, partitions=2)) == expected


def test_replay_of_a_data_frame_into_files(session, prepared, tmp_path):
    """Sort rows of any order by time; tasks write the files, and Spark reads them."""
    expected = local_rows(MATHOVERFLOW, [table(open_reader("edges", prepared["mathoverflow"]))])
    shuffled = session.read.parquet(prepared["mathoverflow"]).orderBy("source", "target")
    counts = pipeline.replay_to(session, shuffled, str(tmp_path / "rows"), *MATHOVERFLOW, partitions=2)
    found = session.read.parquet(str(tmp_path / "rows"))
    assert rows_of(found) == expected
    by_query = Counter()
    for change, count in expected.items():
        by_query[change.query, change.op] += count
    assert {key: count for key, count in counts.items() if count} == by_query
    assert len(counts) == 2 * len(MATHOVERFLOW)
    assert {one.suffix for one in (tmp_path / "rows").glob("part*")} == {".parquet"}
    with pytest.raises(PipelineError, match="exists already"):
        pipeline.replay_to(session, shuffled, str(tmp_path / "rows"), *MATHOVERFLOW)


def test_a_replay_without_rows_has_columns(session, tmp_path):
    columns = "source string, target string, label string, timestamp timestamp"
    edges = session.createDataFrame([("x", "y", "b", dt.datetime(2024, 1, 1))], columns)
    query = rpq.Query("a", window=rpq.Window(size="1d", slide="1h"))
    assert pipeline.replay_to(session, edges, str(tmp_path / "rows"), query) == {("a", "+"): 0, ("a", "-"): 0}
    found = session.read.parquet(str(tmp_path / "rows"))
    assert found.count() == 0
    assert found.schema["timestamp"].dataType.simpleString() == "timestamp"
    there = pipeline.replay(session, edges.withColumn("label", edges.source), rpq.Query("x", window=query.window))
    assert there.selectExpr("source", "string(timestamp)").collect() == [("x", "2024-01-01 00:00:00")]


@pytest.mark.parametrize(("kind", "values"), [("boolean", [False, True]), ("string", ["False", " 1"])])
def test_a_column_delete_of_a_data_frame_takes_edges_back(session, kind: str, values: list):
    """The column has the same meaning as in every other input (`test_doors.py`)."""
    schema = f"source string, target string, label string, timestamp bigint, delete {kind}"
    frame = session.createDataFrame([("x", "y", "a", time, value) for time, value in enumerate(values, 1)], schema)
    query = rpq.Query("a", window=rpq.Window(size=10, slide=1))
    found = sorted((row["timestamp"], row["op"]) for row in pipeline.replay(session, frame, query, partitions=1).collect())
    assert found == [(1, "+"), (2, "-")]
    for bad in (frame.withColumn("op", frame["label"]), frame.withColumn("delete", frame["timestamp"])):
        with pytest.raises(PipelineError, match="'delete'"):
            pipeline.replay(session, bad, query)


def test_properties_of_a_data_frame_are_those_of_edges(session, tmp_path):
    """Conditions, edge variables and filters of a replay read them, of a data frame and of Parquet files."""
    schema = "source string, target string, label string, timestamp timestamp, n int, d decimal(5,2), `due by` timestamp"
    first = dt.datetime(2024, 5, 6, 7)
    rows = [
        (*ends, first + dt.timedelta(minutes=minute), n, None if n is None else Decimal(n) / 4, first)
        for minute, (*ends, n) in enumerate(
            (("x", "y", "a", 5), ("y", "z", "b", None), ("x", "y", "a", 1), ("y", "w", "a", 7), ("z", "y", "b", 2))
        )
    ]
    frame = session.createDataFrame(rows, schema)
    frame.write.parquet(f"{tmp_path}/in")
    window = rpq.Window(size="1h", slide="1m")
    path = rpq.Query("a[n > 1 and timestamp - `due by` < '3m']/b", window=window)
    values = rpq.Query(
        "?x ?e:a ?y . ?y ?f:(a|b) ?z",
        window=window,
        filter="?f.timestamp - ?e.timestamp <= '2m'",
        select=["x", "e.n", "f.d"],
        name="values",
    )
    for data in (frame, f"{tmp_path}/in"):
        told = pipeline.replay(session, data, path, partitions=2).collect()
        # The second edge from x to y replaces the first one, which alone satisfied the condition.
        assert sorted((row["source"], row["target"], row["op"]) for row in told) == [("x", "z", "+"), ("x", "z", "-")]
        changes = pipeline.replay(session, data, values, partitions=2, edges="parallel")
        kinds = dict(changes.dtypes)
        assert (kinds["e.n"], kinds["f.d"]) == ("bigint", "decimal(5,2)")
        found = Counter((row["x"], row["e.n"], row["f.d"]) for row in changes.collect())
        assert found == Counter([("x", 5, None), ("x", 1, Decimal("1.75")), ("x", 1, None)])
    counts = pipeline.replay_to(session, frame, f"{tmp_path}/rows", values, edges="parallel")
    assert counts == {("values", "+"): 3, ("values", "-"): 0}
    assert sorted(filter(None, pq.read_table(f"{tmp_path}/rows")["f.d"].to_pylist())) == [Decimal("1.75")]
    with pytest.raises(PipelineError, match="no column 'm', a property of edges that a query reads; found source, target"):
        pipeline.replay(session, frame, rpq.Query("a[m > 1]", window=window))


def test_a_replay_reads_facts_of_nodes_from_a_data_frame(session, tmp_path):
    edges = [(f"v{n % 7}", f"v{n * 3 % 11}", "a", dt.datetime(2024, 5, 1) + dt.timedelta(minutes=n)) for n in range(200)]
    at = [dt.datetime(2024, 5, 1) + dt.timedelta(minutes=n * 5) if n else None for n in range(40)]
    nodes = [(f"v{n % 11}", ["A"] if n % 2 else None, n * 7 % 5, at[n]) for n in range(40)]
    window = rpq.Window(size="30m", slide="5m")
    query = rpq.Query(
        "?x[:A] a ?y[risk > 1]", select=["x", "y.risk"], window=window, semantics="explicit", name="q"
    )
    tuples = session.createDataFrame(edges, "source string, target string, label string, timestamp timestamp")
    records = session.createDataFrame(nodes, "node string, labels array<string>, risk int, timestamp timestamp")
    changes = pipeline.replay(session, tuples, query, nodes=records, partitions=3)
    assert dict(changes.dtypes)["y.risk"] == "bigint"
    engine = rpq.Engine(query, time_unit="us")
    stamps = [(one[-1] or dt.datetime.min, one in edges, one) for one in (*nodes, *edges)]
    expected = Counter()
    for _, is_edge, row in sorted(stamps, key=lambda one: one[:2]):
        if is_edge:
            made = engine.insert(*row)
        else:
            made = engine.set_node(row[0], labels=row[1] or (), properties={"risk": row[2]}, timestamp=row[3])
        expected.update((one.x, one[2], one.op) for one in made.rows())
    assert Counter((row["x"], row["y.risk"], row["op"]) for row in changes.collect()) == expected and len(expected) > 5
    rows = pipeline.replay_to(session, tuples, f"{tmp_path}/rows", query, nodes=records, partitions=2)
    assert sum(rows.values()) == sum(expected.values())
    stepped = tuples.transform(pipeline.changes(query, nodes=records, partitions=1))
    assert stepped.count() == sum(expected.values())
    with pytest.raises(PipelineError, match="column 'timestamp' is of type int32; expected times"):
        pipeline.replay(session, tuples, query, nodes=records.selectExpr("node", "1 AS timestamp"))
    with pytest.raises(PipelineError, match="nodes: streams on Spark have no records of nodes"):
        session.readStream.format("rate").load().transform(pipeline.changes(query, nodes=records))
    (tmp_path / "nodes.toml").write_text("[[node]]\nnode='x'\n")
    with pytest.raises(PipelineError, match="has rules of nodes; on Spark records of nodes are a data frame"):
        pipeline.replay(session, tuples, query, edges_from=str(tmp_path / "nodes.toml"))
    with pytest.raises(PipelineError, match="there is no column node; found risk"):
        pipeline.replay(session, tuples, query, nodes=records.select("risk"))


def test_lengths_and_simple_cycles_are_those_of_one_engine(session, tmp_path):
    chance = random.Random(5)
    rows = [(*(chance.choice("uvwxyz") for _ in range(2)), chance.choice("ab"), time) for time in range(60)]
    frame = session.createDataFrame(rows, "source string, target string, label string, timestamp bigint")
    frame.write.parquet(f"{tmp_path}/in")
    window = rpq.Window(size=20, slide=3)
    lengths = rpq.Query("a/b*", window=window, select=["source", "target", "length"], name="lengths")
    cycles = rpq.Query("(a|b){2,3}", window=window, semantics="explicit", paths="simple_cycle", name="cycles")
    in_order = rpq.Query("(a|b)+", window=window, order="increasing", select=["source", "target", "length"], name="in order")
    for query, edges in ((lengths, "triple"), (cycles, "triple"), (in_order, "parallel")):
        columns = (*query.columns, "timestamp", "op")
        engine = rpq.Engine(query, edges=edges)
        wanted = Counter(tuple(row)[1:] for row in engine.push_rows(rows).rows())
        assert len(wanted) > 40
        for data in (frame, f"{tmp_path}/in"):
            found = pipeline.replay(session, data, query, partitions=3, edges=edges)
            assert Counter(tuple(row[name] for name in columns) for row in found.collect()) == wanted
    assert dict(pipeline.replay(session, frame, lengths, partitions=2).dtypes)["length"] == "bigint"
    pipeline.replay_to(session, frame, f"{tmp_path}/rows", lengths, partitions=2)
    table = pq.read_table(f"{tmp_path}/rows").select(["source", "target", "length", "timestamp", "op"])
    engine = rpq.Engine(lengths)
    wanted = Counter(tuple(row)[1:] for row in engine.push_rows(rows).rows())
    assert Counter(zip(*table.to_pydict().values(), strict=True)) == wanted


@pytest.mark.long
def test_data_may_lie_where_only_spark_reads(session, prepared, tmp_path):
    """Hadoop's viewfs: names that are none of a local file."""
    hadoop = session._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.default.link./data", f"file://{prepared['ldbc']}")
    hadoop.set("fs.viewfs.mounttable.default.link./made", f"file://{tmp_path}")
    data, rows = "viewfs:///data", "viewfs:///made/rows"
    files = [table(open_reader("edges", file)) for file in files_of(prepared["ldbc"])]
    expected = local_rows(LDBC, [pa.concat_tables(files)])
    pipeline.replay_to(session, data, rows, *LDBC)
    assert rows_of(session.read.parquet(rows)) == expected
    # Windows in durations, of which the statistics tell the unit.
    hours = [rpq.Query(one.expression, window=rpq.Window(size="1h", slide="10m"), name=one.name) for one in LDBC]
    assert pipeline.replay(session, data, *hours).count() > 0
    edges = session.readStream.schema(session.read.parquet(data).schema).parquet(data)
    writer = pipeline.stream_to(edges, "viewfs:///made/streamed", *LDBC, checkpoint="viewfs:///made/state")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert (tmp_path / "state" / "rpq.json").is_file()
    assert rows_of(session.read.parquet("viewfs:///made/streamed")) == expected


def test_shares_are_as_many_as_task_slots(session):
    """Never Spark's 200: our session has as many shuffle partitions as slots, and another is told once what to write."""
    from rpq.spark.jvm import session as sessions

    assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    query = rpq.Query("a", window=rpq.Window(size=1, slide=1))
    edges = session.createDataFrame([("x", "y", "a", 1)], "source string, target string, label string, timestamp bigint")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.rpq_changes(edges, query)
    session.conf.set("spark.sql.shuffle.partitions", "200")
    sessions._warned.clear()
    try:
        with pytest.warns(UserWarning, match=r"spark\.conf\.set\('spark\.sql\.shuffle\.partitions', 2\)"):
            plan = pipeline.rpq_changes(edges, query)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pipeline.rpq_changes(edges, query)
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "2")
    assert sessions.share_count(session, None) == 2
    exploded = plan._jdf.queryExecution().analyzed().toString()
    assert "array(cast(" in exploded and exploded.count(" as int)") == 2, exploded


@pytest.mark.long
def test_ids_stand_for_names(session, tmp_path):
    (tmp_path / "in.tsv").write_text("".join(f"{n % 5}\tv{n % 3}\ta\t{n // 3}\n" for n in range(60)))
    folder = str(tmp_path / "ids")
    pipeline.prepare(session, [str(tmp_path / "in.tsv")], folder, vertices="ids")
    query = rpq.Query("a+", window=rpq.Window(size=5, slide=1), semantics="explicit")
    expected = Counter(rpq.Engine(query).push(table(open_reader("edges", str(tmp_path / "in.tsv")))).rows())
    assert rows_of(pipeline.replay(session, folder, query, partitions=2, names=True)) == expected
    numbers = rows_of(pipeline.replay(session, folder, query, partitions=2))
    assert all(isinstance(change.source, int) for change in numbers) and len(numbers) == len(expected)
    lengths = rpq.Query("a+", window=query.window, select=["source", "target", "length"])
    rows = rpq.Engine(lengths).push(table(open_reader("edges", str(tmp_path / "in.tsv")))).rows()
    named = pipeline.replay(session, folder, lengths, partitions=2, names=True)
    assert Counter(tuple(row) for row in named.collect()) == Counter(map(tuple, rows))
    unbound = rpq.Query("SELECT ?x ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }", window=query.window)
    rows = rpq.Engine(unbound).push(table(open_reader("edges", str(tmp_path / "in.tsv")))).rows()
    named = pipeline.replay(session, folder, unbound, partitions=2, names=True)
    assert Counter(tuple(row) for row in named.collect()) == Counter(map(tuple, rows)) != Counter()


def streamed(session, edges, queries, folder: Path, **options) -> Counter:
    """Run a streaming DataFrame to its end; the rows in the sink."""
    changes = pipeline.rpq_changes(edges, *queries, **options)
    writer = changes.writeStream.format("parquet").option("path", str(folder / "rows"))
    query = writer.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True).start()
    query.awaitTermination()
    return session.read.parquet(str(folder / "rows"))


VALUES = {
    "triple": [("a[n > 1]/b*", {}), ("!(b)[n > 0]", {})],
    "parallel": [("(a|b)+", {"order": "increasing", "max_gap": "6m"}), ("a[n > 1]/b", {})],
    "id": [("(a|b)+", {"order": "non_decreasing"}), ("a[n > 1]/b*", {})],
}


@pytest.mark.parametrize(
    "identity", [pytest.param(one, marks=pytest.mark.ci if one == "id" else pytest.mark.long) for one in VALUES]
)
def test_a_stream_of_edges_with_values_goes_on_after_a_restart(session, tmp_path, identity: str):
    """Rows are those of the engine, for each identity of edges; another identity is refused."""
    chance, first = random.Random(7), dt.datetime(2024, 5, 6, 7)
    columns: dict[str, list] = {name: [] for name in ("source", "target", "label", "timestamp", "op", "n", "tx", "place")}
    for place in range(120):
        ends, time = (chance.choice("vwxyz"), chance.choice("vwxyz")), first + dt.timedelta(minutes=place // 2)
        values = chance.choice((None, 0, 1, 2, 3)), f"t{chance.randrange(30)}", place
        for column, value in zip(
            columns.values(), (*ends, chance.choice("aabc"), time, chance.choice("+++++-"), *values), strict=True
        ):
            column.append(value)
    types = {"timestamp": pa.timestamp("us", "UTC"), "n": pa.int32(), "place": pa.int64()}
    table = pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})
    schema = "source string, target string, label string, timestamp timestamp, op string, n int, tx string, place bigint"
    window = rpq.Window(size="20m", slide="3m")

    def run(identity: Any, queries: list[rpq.Query]) -> None:
        edges = session.readStream.schema(schema).parquet(str(tmp_path / "in"))
        options = {"partitions": 2, "sequence": "place", "time_unit": "s", "identity": identity}
        named = {"columns": "edge=tx"} if identity == "id" else {}
        paths = {"checkpoint": str(tmp_path / "state")}
        writer = pipeline.stream_to(edges, str(tmp_path / "rows"), *queries, **paths, **options, **named)
        writer.trigger(availableNow=True).start().awaitTermination()

    queries = [rpq.Query(text, window=window, semantics="explicit", **options) for text, options in VALUES[identity]]
    (tmp_path / "in").mkdir(parents=True)
    for part in range(2):  # the stream ends between two files, and goes on from its checkpoint
        pq.write_table(table.slice(60 * part, 60), tmp_path / "in" / f"{part}.parquet")
        run(identity, queries)
    engine = rpq.Engine(*queries, edges=identity, time_unit="s")
    names = ["edge" if identity == "id" and name == "tx" else name for name in table.column_names]
    pushed = [table.slice(60 * part, 60).rename_columns(names).drop_columns(["place"]) for part in range(2)]
    wanted = Counter(tuple(row) for tuples in pushed for row in engine.push(tuples).rows())
    assert len(wanted) > 40
    rows = session.read.parquet(str(tmp_path / "rows")).toArrow().to_pylist()
    assert Counter(tuple(row.values()) for row in rows) == wanted
    other = "parallel" if identity == "id" else "id"
    with pytest.raises(PipelineError, match=f'the identity of edges was "{identity}", is "{other}"'):
        run(other, queries)


@pytest.mark.long
def test_timestamps_and_watermarks(session, tmp_path):
    """Typed times come back typed; a watermark that would drop everything late drops nothing inside the window."""
    (tmp_path / "in").mkdir()
    for number, lines in enumerate((["x,y,a,2024-01-10T00:00:00Z,2"], ["y,z,b,2024-01-05T00:00:00Z,1", "z,,b,,0"])):
        path = tmp_path / "in" / f"{number}.csv"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (10**9 + number,) * 2)
    schema = "source string, target string, label string, timestamp timestamp, place int"
    edges = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(tmp_path / "in"))
    query = rpq.Query("a/b", window=rpq.Window(size=30 * DAY, slide=DAY))
    changes = streamed(
        session,
        edges.withWatermark("timestamp", "1 day"),
        [query],
        tmp_path,
        partitions=2,
        time_unit="s",
        sequence="place",
        on_error="skip",
    )
    assert changes.selectExpr("source", "target", "string(timestamp)", "op").collect() == [
        ("x", "z", "2024-01-10 00:00:00", "+")
    ]


def test_what_does_not_fit_is_refused(session):
    query = rpq.Query("a", window=rpq.Window(size=1, slide=1))
    good = session.createDataFrame([("x", "y", "a", 1)], "source string, target string, label string, timestamp bigint")
    for frame, options, message in (
        (good.drop("label"), {}, "no column 'label'"),
        (good.withColumn("target", good.timestamp), {}, "both integers or both text"),
        (good.withColumn("timestamp", good.label), {}, "expected an integer, a timestamp or a date"),
        (good, {"sequence": "order"}, "no column 'order'"),
        (good, {"partitions": 0}, "at least 1"),
    ):
        with pytest.raises(PipelineError, match=message):
            pipeline.rpq_changes(frame, query, **options)
    aside = rpq.Query("a", window=query.window, paths="simple", on_budget="set_aside")
    with pytest.raises(PipelineError, match="set_aside"):
        pipeline.rpq_changes(good, aside)
    with pytest.raises(PipelineError, match="same name"):
        pipeline.rpq_changes(good, query, query)


class Job:
    """`rpq spark stream` over a folder, as a process that can be killed with all that belongs to it."""

    def __init__(self, folder: str, place: Path, query: rpq.Query) -> None:
        self.state, self.rows, self.log = place / "state", place / "rows", place / "log"
        window = ["--window", str(query.window.size), "--slide", str(query.window.slide)]
        files = ["--input", folder, "--output", str(self.rows), "--checkpoint", str(self.state)]
        self.words = ["spark", "stream", query.expression, *window, *files, "--semantics", query.semantics, "--once"]
        self.words += ["--partitions", "2", "--master", "local[2]"]

    def start(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "rpq.cli", *self.words]
        with self.log.open("a") as log:
            return subprocess.Popen(command, start_new_session=True, stderr=log)

    def has_begun(self, number: int) -> bool:
        return self._count("offsets") > number

    def _count(self, name: str) -> int:
        folder = self.state / name
        return sum(one.name.isdecimal() for one in folder.iterdir()) if folder.is_dir() else 0

    def kill_in_batch(self, number: int, delay: float) -> bool:
        """Run until that micro-batch has begun, wait so long, and kill everything; False if it ended before."""
        process = self.start()
        while process.poll() is None and not self.has_begun(number):
            time.sleep(0.01)
        time.sleep(delay)
        alive = process.poll() is None
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return alive


def crashed_and_uninterrupted(
    session, rpq_on_spark: Caller, prepared: str, query: rpq.Query, place: Path, kills: list[tuple[int, float]]
) -> None:
    """Kill a job at these micro-batches, let it go on to its end in the session of the tests, and compare what the sink
    holds with the engine's rows.
    """
    job = Job(prepared, place, query)
    killed = [job.kill_in_batch(number, delay) for number, delay in kills]
    assert any(killed), "no kill came in time"
    status, _, message = rpq_on_spark(*job.words)
    assert status == 0, message
    batches = [table(open_reader("edges", file)) for file in files_of(prepared)]
    assert rows_of(session.read.parquet(str(job.rows))) == local_rows([query], batches)
    records = partition_records(session, str(job.state))
    assert [one["version"] for one in records] == [len(batches)] * 2
    assert all(one["rebuilds"] >= 1 for one in records), "a new process began without the window"


def test_a_killed_stream_goes_on(session, rpq_on_spark, prepared, tmp_path):
    crashed_and_uninterrupted(session, rpq_on_spark, prepared["mathoverflow"], MATHOVERFLOW[0], tmp_path, [(1, 0.0)])


@pytest.mark.long
def test_a_stream_that_is_killed_again_and_again(session, rpq_on_spark, prepared, tmp_path):
    chooser = random.Random(1)
    name = chooser.choice(list(QUERIES))
    kills = [(number, chooser.random() * 3) for number in sorted(chooser.sample(range(4), 3))]
    crashed_and_uninterrupted(session, rpq_on_spark, prepared[name], QUERIES[name][0], tmp_path, kills)


@pytest.mark.long
def test_the_commands(raw, tmp_path):
    """Prepare and replay from the command line; what is wrong is a sentence."""

    def call(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "rpq.cli", "spark", *args, "--master", "local[2]"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    data, rows = str(tmp_path / "data"), str(tmp_path / "rows")
    paths, _ = raw["ldbc"]
    status, err = call("prepare", "--input", *paths, "--format", "ldbc", "--output", data)
    assert status == 0, err
    assert "1 lines, written to" in err and "Traceback" not in err
    window = ["--window", "1h", "--slide", "10m", "--partitions", "2"]
    status, err = call("replay", "likes/hasCreator", "--input", data, *window, "--output", rows)
    assert status == 0, err
    assert "rows added" in err
    status, err = call("prepare", "--input", *paths, "--format", "ldbc", "--output", data)
    assert status == 2 and "exists already" in err
