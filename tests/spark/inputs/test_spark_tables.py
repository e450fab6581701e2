"""Tables of Delta and Iceberg by their names in the session's catalog: prepared, replayed, streamed.

Their jars come from a package registry, by coordinates; where these cannot be had, or are for another Spark, tests are
skipped and say so.  The oldest Spark that we run on is installed beside the newest, in an environment of its own.
`test_spark_end_to_end.py` does the same with Spark's own catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import rpq
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from tests.services.environments import environment, pip

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

RELEASE = "4.2"
"""Of Spark, the newest for which there are jars."""

DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
UNFIT = ("unresolved dependency", "NoClassDefFound", "NoSuchMethod", "NoSuchField", "AbstractMethod", "IncompatibleClass")
"""Words of errors where jars cannot be had, or are not for this Spark: the newest of Iceberg are for Spark 4.1."""

PROGRAM = """
import json, sys
import rpq
from rpq.spark import open_session, prepare, replay, rpq_changes

name, format, folder, settings, rows = json.loads(sys.stdin.read())
session = open_session(master="local[2]", partitions=2, settings=settings)
schema = "source string, target string, label string, timestamp bigint, op string"
made = session.createDataFrame([tuple(row) for row in rows], schema).coalesce(1)
made.writeTo(name).using(format).create()
query = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
found = {"prepared": prepare(session, session.table(name), folder + "/data")["tuples"]}
found["replayed"] = [list(row) for row in replay(session, session.table(name), query).collect()]
changes = rpq_changes(session.readStream.table(name), query)
writer = changes.writeStream.format("parquet").option("checkpointLocation", folder + "/state").trigger(availableNow=True)
writer.start(folder + "/rows").awaitTermination()
found["streamed"] = [list(row) for row in session.read.parquet(folder + "/rows").collect()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """A Python with the release of Spark that the jars are for."""
    if version("pyspark").startswith(f"{RELEASE}."):
        return Path(sys.executable)
    found = environment(tmp_path_factory.mktemp("spark") / "venv", extra="spark")
    for link in (found.parents[1] / "dependencies").iterdir():
        if link.name.startswith(("pyspark", "py4j")):
            link.unlink()
    pip("install", "--quiet", f"pyspark=={RELEASE}.*", python=found)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("name", "format", "settings"), [("edges", "delta", DELTA), ("lake.db.edges", "iceberg", ICEBERG)])
def test_a_table_of_the_catalog(python: Path, tmp_path: Path, name: str, format: str, settings: dict[str, str]):
    rows = [(f"v{n % 7}", f"v{n * n % 11}", "aab"[n % 3], n, "-" if n % 9 == 8 else "+") for n in range(300)]
    placed = {"spark.sql.warehouse.dir": str(tmp_path / "lake"), "spark.jars.ivy": str(tmp_path / "ivy")}
    if format == "iceberg":
        placed["spark.sql.catalog.lake.warehouse"] = str(tmp_path / "lake")
    arguments = json.dumps([name, format, str(tmp_path), settings | placed, rows])
    command = [str(python), "-c", PROGRAM]
    path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        input=arguments,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode and any(word in done.stderr for word in UNFIT):
        reasons = [line for line in done.stderr.splitlines() if any(word in line for word in UNFIT)]
        pytest.skip(f"{settings['spark.jars.packages']}: {reasons[0].strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    query = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
    expected = Counter(map(tuple, rpq.Engine(query).push_rows(rows).rows()))
    assert found["prepared"] == len(rows)
    assert Counter(map(tuple, found["replayed"])) == expected
    assert Counter(map(tuple, found["streamed"])) == expected
