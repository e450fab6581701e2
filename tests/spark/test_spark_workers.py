"""Spark's workers without a JVM: they report what they have, and evaluate their share of a replay.

semantics.md S7
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

from pyspark import SparkFiles, cloudpickle

import rpq
from rpq.spark import check_workers
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


