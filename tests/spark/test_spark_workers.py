"""Spark's workers without a JVM: they report what they have, and evaluate their share of a replay.

semantics.md S7
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import SparkFiles, cloudpickle

import rpq
from rpq.readers import open_reader
from rpq.spark import check_workers
from rpq.spark.batch.replay import FilePacker, ReplayShare, RowBatches, check_query_columns
from rpq.spark.batch.splits import cut_splits
from rpq.spark.columns import EdgeModel, edge_model
from rpq.spark.division import EdgeDivision, label_readers, partition_keys
from rpq.spark.envelopes import PROPERTY, Divider, PlacedPacker, numbered_property, unpack
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import shipped_files
from rpq.spark.jvm.session import share_count
from rpq.spark.jvm.shipped_files import add_package, equip_driver
from rpq.spark.workers import probe
from tests.services.environments import ROOT

Task = Callable[[Iterable[int]], Iterable[Any]]


class Context(SimpleNamespace):
    """A context to which nothing was shipped."""

    master = "spark://host:7077"
    pythonExec = sys.executable  # noqa: N815  # PySpark's names


def played(executor: Callable[[Task, Iterable[int]], Iterable[Any]]) -> SimpleNamespace:
    """A session with two task slots, all of whose tasks are run by `executor`."""

    def parallelize(values: Iterable[int], slots: int) -> SimpleNamespace:
        return SimpleNamespace(mapPartitions=lambda task: SimpleNamespace(collect=lambda: list(executor(task, values))))

    profiles = SimpleNamespace(defaultResourceProfile=lambda: None)
    java = SimpleNamespace(maxNumConcurrentTasks=lambda profile: 2, resourceProfileManager=lambda: profiles)
    spark = SimpleNamespace(sc=lambda: java)
    context = Context(defaultParallelism=64, parallelize=parallelize, _jsc=spark, environment={})
    return SimpleNamespace(conf={}, sparkContext=context)


SHIPPED = """
import pickle, sys

task, tasks = pickle.load(sys.stdin.buffer)
found = list(task(tasks))

import rpq

sys.stdout.buffer.write(pickle.dumps((found, rpq.__file__)))
"""
"""The script of a separate Python that is sent a task."""


def test_executors_find_the_package_in_a_wheel_that_is_shipped(tmp_path: Path) -> None:
    wheel = tmp_path / "streaming_rpq-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for folder, _, names in os.walk(ROOT / "rpq", followlinks=True):
            for path in (Path(folder, name) for name in names if name.endswith(".py")):
                archive.write(path, path.relative_to(ROOT))
    loaded = []

    def executor(task: Task, values: Iterable[int]) -> Iterable[Any]:
        """Spark puts what is shipped first in the path."""
        code = f"import sys; sys.path.insert(0, {str(wheel)!r})\n{SHIPPED}"
        sent = cloudpickle.dumps((task, list(values)))
        done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, cwd=tmp_path, check=True)
        found, file = pickle.loads(done.stdout)
        loaded.append(file)
        return found

    assert str(check_workers(played(executor))) == "1 worker on 1 machine ready"
    assert loaded == [f"{wheel}/rpq/__init__.py"]


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what was shipped, which is empty at first."""
    folder = tmp_path_factory.mktemp("shipped")
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(folder))
    return folder


def test_python_on_the_driver_finds_what_was_shipped(shipped: Path) -> None:
    """It gets the environment of workers alone."""
    for name in ("one.zip", "data.csv"):
        (shipped / name).touch()
    session = played(lambda task, values: task(values))
    context = session.sparkContext
    context.environment = {"PYTHONPATH": "/of/executors"}
    for _ in range(2):
        equip_driver(session)
        assert context.environment["PYTHONPATH"].split(os.pathsep) == [str(shipped / "one.zip"), "/of/executors"]


def test_a_wheel_is_shipped_under_a_name_from_which_workers_import(tmp_path: Path) -> None:
    (tmp_path / "some-1.0-py3-none-any.whl").write_bytes(b"content")
    added: list[str] = []
    context: Any = SimpleNamespace(addPyFile=added.append)
    add_package(context, str(tmp_path / "some-1.0-py3-none-any.whl"))
    assert Path(added[0]).name == "some-1.0-py3-none-any.zip" and Path(added[0]).read_bytes() == b"content"


def test_the_driver_runs_the_python_of_an_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a link in its working folder, unless the environment is there already, or none was shipped."""
    (tmp_path / "unpacked" / "env" / "bin").mkdir(parents=True)
    (tmp_path / "unpacked" / "env" / "bin" / "python").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "unpacked"))
    at_end: list[Callable[[], None]] = []
    register = lambda function, *values: at_end.append(partial(function, *values))  # noqa: E731
    monkeypatch.setattr(shipped_files.atexit, "register", register)
    monkeypatch.chdir(tmp_path / "empty")
    Path("env").symlink_to(tmp_path / "gone")  # of a driver that was killed
    session = played(lambda task, values: task(values))
    session.sparkContext.pythonExec = "./env/bin/python"
    for _ in range(2):
        equip_driver(session)
        assert Path("env/bin/python").exists() and len(at_end) == 1
    at_end[0]()
    assert not [*Path().iterdir()]
    Path("env/bin").mkdir(parents=True)
    Path("env/bin/python").touch()
    equip_driver(session)
    assert not Path("env").is_symlink() and len(at_end) == 1
    session.sparkContext.pythonExec = "other/bin/python"
    with pytest.raises(PipelineError, match=r"workers run other/bin/python, .* --archives FILE#other, or unpack it there"):
        equip_driver(session)
    session.sparkContext.pythonExec = "python3"  # on the PATH
    equip_driver(session)


def test_slots_are_the_cores_of_executors() -> None:
    """Not `spark.default.parallelism`, except while there are no executors."""
    session = played(lambda task, values: task(values))
    assert share_count(session, None) == 2
    assert share_count(session, 5) == 5
    session.sparkContext._jsc.sc().maxNumConcurrentTasks = lambda profile: 0
    assert share_count(session, None) == 64


def test_executors_need_what_the_driver_has_by_a_wheel_an_archive_or_an_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = played(lambda task, values: task(values))
    assert str(check_workers(here)) == "1 worker on 1 machine ready"
    other = played(lambda task, values: [{**report, "rpq": "0.0.1"} for report in task(values)])
    with pytest.raises(PipelineError, match=rf"has streaming-rpq 0\.0\.1, the driver {rpq.__version__}; ship the package"):
        check_workers(other)
    monkeypatch.setitem(sys.modules, "numba", None)
    (report,) = probe.probe([0])
    assert "numba" in report["problem"]
    with pytest.raises(PipelineError, match=r"cannot run queries: .*numba.*--py-files .*--archives.* or in an image"):
        check_workers(here)


def tasks(
    placed: list[pa.RecordBatch], queries: list[rpq.Query], keys: list[int], *, whole: bool = False
) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """Return a function that returns the arguments which Spark gives the task of a partition."""
    division = EdgeDivision(queries, len(keys), whole=whole)
    divided = [*Divider(division.rows, keys)(placed)] if division.is_divided else []

    def task(key: int) -> Iterator[pa.RecordBatch]:
        if division.is_divided:
            yield from (one.filter(pc.equal(one["partition"], key)) for one in divided)
            return
        for one in placed:
            yield pa.record_batch({"partition": pa.array([key] * len(one), pa.int32()), "edges": one["edges"]})

    return task


@pytest.mark.parametrize("edges", ["triple", "parallel", "id"])
@pytest.mark.parametrize("count", [1, 3])
def test_shares_of_a_replay_are_the_rows_of_the_engine(count: int, edges: Literal["triple", "parallel", "id"]) -> None:
    """Each share has all tuples that some query reads, in envelopes with their places."""
    chance, time = random.Random(7), 0
    rows = []
    for _ in range(300):
        time += chance.choice((0, 0, 1, 3))
        ends = chance.choice("vwxyz"), chance.choice("vwxyz")
        rows.append((*ends, chance.choice("aabbc"), time, chance.choice("++++-"), chance.randrange(40)))
    window = rpq.Window(size=20, slide=5)
    queries = [rpq.Query("a/b*", window=window, semantics="explicit"), rpq.Query("(a|b)+", window=window)]
    if edges != "triple":
        queries = [
            rpq.Query("a/b*", window=window, semantics="explicit", order="increasing", max_gap=9),
            rpq.Query("(a|b)+", window=window, order="non_decreasing"),
        ]
    check_query_columns(queries, edges, "on Spark")
    names, has_ids = ("source", "target", "label", "timestamp", "op", numbered_property(0)), edges == "id"
    batch = pa.record_batch(dict(zip(names, map(list, zip(*rows)))))
    batch = batch if has_ids else batch.drop_columns(names[5])
    packer = PlacedPacker(None if has_ids else label_readers(queries), ["edge"] * has_ids)
    placed = [*packer(batch.slice(start, 70) for start in range(0, len(rows), 70))]
    keys = partition_keys(count)
    numbers = {key: number for number, key in enumerate(keys)}
    share = ReplayShare(queries, numbers=numbers, threads=1, memory_limit=None, edges=EdgeModel(identity=edges))

    task = tasks(placed, queries, keys, whole=has_ids)
    shares = [[tuple(row.values()) for made in RowBatches(share)(task(key)) for row in made.to_pylist()] for key in keys]
    assert all(shares)
    whole = rpq.Engine(*queries, edges=edges).push(pa.table(batch).rename_columns([*names[:5], *["edge"] * has_ids]))
    assert Counter(row for found in shares for row in found) == Counter(map(tuple, whole.rows()))


def test_files_are_in_the_order_in_which_a_folder_is_read(tmp_path: Path) -> None:
    """Not in that of their URIs, in which some characters have codes, and `-` and `.` come before `/`."""
    names = ["a/1", "a-b/1", "a.b/1", "a b", "a!b", "z", "ä"]
    query = rpq.Query("a", window=rpq.Window(size=1, slide=1))
    as_rows, as_files = [], []
    for name in sorted(names, reverse=True):
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        edge = {"source": [name], "target": ["y"], "label": ["a"], "timestamp": [1], "op": ["+"]}
        pq.write_table(pa.table(edge), file)
        as_rows.append(pa.record_batch({**edge, "file": [file.as_uri()], "row": [0]}))
        as_files.append(pa.record_batch({"path": [f"file:{file}"], "content": [file.read_bytes()]}))
    expected = [row["source"] for one in open_reader("edges", str(tmp_path)) for row in one.columns.to_pylist()]
    for packer, batches in ((PlacedPacker([query]), as_rows), (FilePacker([query], "string"), as_files)):
        placed = sorted((row["file"], row["edges"]) for batch in packer(batches) for row in batch.to_pylist())
        assert [unpack([edges]).table["source"][0].as_py() for _, edges in placed] == expected
    splits = [split.path.removeprefix(f"{tmp_path}/").removesuffix(".parquet") for split in cut_splits([str(tmp_path)])]
    assert splits == expected


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


@pytest.mark.parametrize("name", VALUE_QUERIES)
def test_shares_of_a_replay_have_properties_of_edges(name: str) -> None:
    """They are further columns of envelopes, and the rows of all shares are those of one engine."""
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
    columns = {one: pa.array(values, types.get(one)) for one, values in zip(names, map(list, zip(*rows)))}
    packed = pa.table({PROPERTY * (one in types) + one: column for one, column in columns.items()})
    placed = [*PlacedPacker(label_readers(queries))(packed.to_batches(max_chunksize=70))]
    keys = partition_keys(4 if "triangle" in name else 2)
    share = ReplayShare(
        queries,
        numbers={key: number for number, key in enumerate(keys)},
        threads=1,
        memory_limit=None,
        edges=edge_model(queries, identity, time_unit=None, properties={"n": "bigint", "d": "decimal(7,2)"}),
    )

    task = tasks(placed, queries, keys)
    shares = [[tuple(row.values()) for made in RowBatches(share)(task(key)) for row in made.to_pylist()] for key in keys]
    assert any(shares)
    assert len([*filter(None, shares)]) > 1 or name == "values alone"
    whole = rpq.Engine(*queries, edges=identity).push(pa.table(columns))
    assert Counter(row for found in shares for row in found) == Counter(map(tuple, whole.rows()))
