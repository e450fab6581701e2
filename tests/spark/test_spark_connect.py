"""A session of Spark Connect: replays, SQL and streams by `foreachBatch` have the rows of an engine, the rest is refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")
pytest.importorskip("grpc_status", reason="Spark Connect's packages are not installed")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import rpq
from rpq.spark import RpqDataSource, changes, check_workers, prepare, register_functions, replay, replay_to, rescale
from rpq.spark import rpq_changes, stream_to
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import SETTINGS

folder, rows = json.loads(sys.stdin.read())
builder = SparkSession.builder.remote("local[2]")
for name, value in {**SETTINGS, "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder + "/lake"}.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
assert type(session).__module__.startswith("pyspark.sql.connect")
window = rpq.Window(size=40, slide=5)
query = rpq.Query("a/b*", window=window, semantics="explicit")
schema = "source string, target string, label string, timestamp bigint, op string"
edges = session.createDataFrame([tuple(row) for row in rows], schema)

def rows_of(frame):
    return [list(row) for row in frame.collect()]

found = {"frame": rows_of(replay(session, edges, query))}
found["transformed"] = rows_of(edges.transform(changes(query, partitions=3)))
in_seconds = rpq.Query("a/b*", window=rpq.Window(size="40s", slide="5s"), semantics="explicit", name="a/b*")
found["files"] = rows_of(replay(session, folder + "/data", in_seconds))
found["subfolders"] = rows_of(replay(session, folder + "/by_label", query))
session.dataSource.register(RpqDataSource)
loaded = session.read.format("rpq").option("times", "true").load(folder + "/data")
found["loaded"] = [loaded.dtypes[3][1], loaded.count()]
register_functions(session)
edges.createOrReplaceTempView("edges")
found["sql"] = rows_of(session.sql("SELECT * FROM rpq_changes(TABLE(edges), 'a/b*', 40, 5, semantics => 'explicit')"))

stream = session.readStream.schema(edges.schema).parquet(folder + "/data/*.parquet")
place = folder + "/rows"
writer = rpq_changes(stream, query, partitions=2).writeStream.option("checkpointLocation", folder + "/state")
writer = writer.foreachBatch(lambda batch, number: batch.write.mode("append").parquet(place))
writer.trigger(availableNow=True).start().awaitTermination()
found["streamed"] = rows_of(session.read.parquet(place))
refused = {
    "prepare": lambda: prepare(session, folder + "/data", folder + "/prepared"),
    "replay_to": lambda: replay_to(session, edges, folder + "/written", query),
    "stream_to": lambda: stream_to(stream, folder + "/written", query, checkpoint=folder + "/other"),
    "checkpoint=…": lambda: rpq_changes(stream, query, checkpoint=folder + "/other"),
    "rescale": lambda: rescale(session, folder + "/state", partitions=3),
    "check_workers": lambda: check_workers(session, query),
    "missing": lambda: replay(session, folder + "/nowhere", query),
}
found["errors"] = {}
for name, call in refused.items():
    try:
        call()
    except PipelineError as error:
        found["errors"][name] = str(error)
print(json.dumps(found))
session.stop()
"""


NAMES = ("source", "target", "label", "timestamp", "op")


@pytest.mark.long
def test_a_session_of_spark_connect(tmp_path: Path):
    chance = random.Random(3)
    rows = [
        (f"v{n % 7}", f"v{n * n % 11}", chance.choice("aab"), n, "-" if chance.random() < 0.1 else "+") for n in range(120)
    ]
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(NAMES)})
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "part-0.parquet")
    (tmp_path / "data" / "_statistics.json").write_text(json.dumps({"time_unit": "s", "vertices": "text"}))
    pq.write_to_dataset(table, tmp_path / "by_label", partition_cols=["label"])
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([str(tmp_path), rows]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    query = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
    expected = Counter(map(tuple, rpq.Engine(query).push_rows(rows).rows()))
    assert expected.total() > 50
    for name in ("frame", "transformed", "files", "sql", "streamed"):
        assert Counter(map(tuple, found[name])) == expected, name
    assert found["loaded"] == ["timestamp", len(rows)]
    by_label = sorted(rows, key=lambda row: row[2])  # files are read in the order of their names
    assert Counter(map(tuple, found["subfolders"])) == Counter(map(tuple, rpq.Engine(query).push_rows(by_label).rows()))
    errors = found["errors"]
    assert "there is no such file or folder" in errors.pop("missing")
    for name, message in errors.items():
        assert message.startswith(f"{name} works in the JVM of the driver, to which a session of Spark Connect has no")
    assert "replay(…).write.parquet(…)" in errors["replay_to"]
    assert "foreachBatch" in errors["stream_to"]
    assert len(errors) == 6
