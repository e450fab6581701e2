"""A cluster whose executors lack this package: it is shipped, and what does not fit is said in one sentence at the start.

The cluster is Spark's own for tests: a master and workers as processes of this machine, each executor with a Python that has
the dependencies alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
from rpq.compiled import kernel_cache
from rpq.readers import open_reader
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from tests.services.environments import ROOT, copied_kernels, environment, site_packages

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
WINDOW = ["--window", "40", "--slide", "5", "--semantics", "explicit"]

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of each JVM, which ends before its second compiler and a collector with threads of its own would pay."""


@dataclass(frozen=True)
class Cluster:
    """The place of a cluster of Spark's own for tests, its Python, and the empty folder in which commands run."""

    home: Path
    python: Path
    caches: Path
    folder: Path

    def call(
        self, *arguments: object, workers: int = 2, cores: int = 1, python: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `rpq spark …` on the cluster; `python` is that of the workers, empty for the command's own choice."""
        command = [sys.executable, "-m", "rpq.cli", "spark", *map(str, arguments), *self._options(workers, cores)]
        variables = self._variables(python)
        return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, cwd=self.folder)

    def start(self, *arguments: object, workers: int = 2) -> subprocess.Popen[bytes]:
        """The same as a process in a session of its own, which can be killed with all that belongs to it."""
        command = [sys.executable, "-m", "rpq.cli", "spark", *map(str, arguments), *self._options(workers)]
        variables, ignored = self._variables(None), subprocess.DEVNULL
        return subprocess.Popen(command, env=variables, cwd=self.folder, start_new_session=True, stderr=ignored)

    def submit(self, program: str, *arguments: object, py_files: Path) -> subprocess.CompletedProcess[str]:
        """Run a program with `spark-submit --py-files`; its driver has the Python of the workers."""
        command = [str(self.home / "bin" / "spark-submit"), *self._options(1), "--py-files", str(py_files)]
        (self.folder / "program.py").write_text(program)
        command += [str(self.folder / "program.py"), *map(str, arguments)]
        variables = self._variables(None)
        return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, cwd=self.folder)

    def _options(self, workers: int, cores: int = 1) -> list[str]:
        settings = [f"spark.executorEnv.XDG_CACHE_HOME={self.caches}", "spark.executor.memory=600m"]
        settings += [f"spark.executor.extraJavaOptions={BRIEF_JVM}"]
        master = f"local-cluster[{workers},{cores},2048]"
        return ["--master", master, *(word for one in settings for word in ("--conf", one))]

    def _variables(self, python: str | None) -> dict[str, str]:
        """Return the environment, in which nothing leads workers to the package of the driver."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        variables |= {"SPARK_HOME": str(self.home), "SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(self.caches)}
        variables["SPARK_SUBMIT_OPTS"] = BRIEF_JVM
        chosen = str(self.python) if python is None else python
        return variables | ({"PYSPARK_PYTHON": chosen} if chosen else {})


@pytest.fixture(scope="module")
def cluster(wheel: Path, tmp_path_factory) -> Cluster:
    """Executors with the dependencies and a cache of kernels, and not this package."""
    import pyspark

    folder = tmp_path_factory.mktemp("cluster")
    home, caches = folder / "spark", folder / "caches"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    if (compiled := ROOT / "__pycache__" / "rpq").is_dir():  # else they are compiled, which takes minutes
        shutil.copytree(compiled, caches / "streaming-rpq" / f"shipped-{wheel.stem}")
    (folder / "empty").mkdir()
    return Cluster(home=home, python=environment(folder / "venv", extra="spark"), caches=caches, folder=folder / "empty")


@pytest.fixture(scope="module")
def archive(cluster: Cluster, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the package and its kernels, packed; the dependencies stay where they are."""
    folder = tmp_path_factory.mktemp("archive")
    shutil.copytree(cluster.python.parents[1], folder / "env", symlinks=True, ignore=shutil.ignore_patterns("dependencies"))
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site_packages(folder / "env" / "bin" / "python"))
    copied_kernels(site_packages(folder / "env" / "bin" / "python"))
    with tarfile.open(folder / "env.tar.gz", "w:gz", compresslevel=1) as packed:
        packed.add(folder / "env", ".")
    return folder / "env.tar.gz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small stream with deletes, in three files."""
    (tmp_path / "data").mkdir()
    for number in range(3):
        rows = [(f"v{n % 7}", f"v{n * n % 11}", "aabc"[n % 4], n // 3, "-" if n % 9 == 8 else "+") for n in range(900)]
        some = rows[number * 300 : number * 300 + 300]
        names = ["source", "target", "label", "timestamp", "op"]
        written = pa.Table.from_arrays([pa.array(column) for column in zip(*some, strict=True)], names=names)
        pq.write_table(written, tmp_path / "data" / f"{number}.parquet")
        os.utime(tmp_path / "data" / f"{number}.parquet", (10**9 + number,) * 2)
    return tmp_path / "data"


def rows_in(folder: Path) -> Counter:
    return Counter(tuple(row.values()) for row in pq.read_table(folder).to_pylist())


def local_rows(data: Path) -> Counter:
    found: Counter = Counter()
    for changes in rpq.Engine(QUERY).run(open_reader("edges", str(data))):
        found.update(map(tuple, changes.rows()))
    return found


@pytest.mark.long
def test_a_wheel_that_was_shipped(cluster, wheel, data, tmp_path):
    """Two machines of one core: two shares, whatever Spark's parallelism, and the rows of the local engine."""
    done = cluster.call(
        "replay", QUERY.expression, *WINDOW, "--input", data, "--output", tmp_path / "rows", "--py-files", wheel,
        "--conf", "spark.default.parallelism=64",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rows_in(tmp_path / "rows") == local_rows(data)
    assert len([*(tmp_path / "rows").glob("*.parquet")]) == 2
    assert "by 2 shares" in done.stderr
    assert not [*(tmp_path / "rows").glob("*.txt")]


@pytest.mark.long
def test_a_stream_by_an_archive_of_the_environment(cluster, archive, data, tmp_path):
    """Executors unpack it into their working folders, and the command makes it available in its own, for a time."""
    places = ["--input", data, "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state"]
    done = cluster.call(
        "stream", QUERY.expression, *WINDOW, *places, "--archives", f"{archive}#env", "--once", workers=1, python=""
    )
    assert done.returncode == 0, done.stderr
    assert rows_in(tmp_path / "rows") == local_rows(data)
    assert not [*cluster.folder.iterdir()]


PROGRAM = """
import sys

import rpq
from pyspark.sql import SparkSession
from rpq.spark import check_workers, replay_to
from rpq.spark.jvm.session import SETTINGS

data, folder = sys.argv[1:]
session = SparkSession.builder.config(map=SETTINGS | {"spark.sql.shuffle.partitions": "2"}).getOrCreate()
query = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
print(rpq.__file__, check_workers(session, query), flush=True)
replay_to(session, data, folder + "/replayed", query, partitions=2)
"""
"""A program with a session of its own, which replays a stream."""


def test_a_program_that_was_submitted_with_the_package(cluster, wheel, data, tmp_path):
    """Neither its driver nor its executors have the package, which is shipped as a zip file."""
    shipped = Path(shutil.copy(wheel, cluster.caches / f"{wheel.stem}.zip"))
    done = cluster.submit(PROGRAM, data, tmp_path, py_files=shipped)
    (cluster.folder / "program.py").unlink()
    assert done.returncode == 0, done.stderr
    assert f"{shipped.name}/rpq/__init__.py" in done.stdout and "on 1 machine ready" in done.stdout
    assert rows_in(tmp_path / "replayed") == local_rows(data)


def processes_of(session: int, what: str) -> list[int]:
    """The processes of a session whose command holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            place = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            if place == session and what in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                found.append(int(entry.name))
    return sorted(found)


def commits(state: Path) -> int:
    """Return the number of finished micro-batches in a checkpoint."""
    folder = state / "commits"
    return len([one for one in folder.iterdir() if one.name.isdigit()]) if folder.is_dir() else 0


VICTIMS = {
    "driver": "rpq.cli",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark",
    "engines": "rpq.spark.stream.engine_host",
}
"""Parts of the commands of processes that are killed: of workers their daemon, or one of them."""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_nine_kills_lose_nothing_and_double_nothing(cluster, wheel, tmp_path):
    """The driver, an executor, a Python worker and a process for engines are killed while files keep arriving.

    Each comes at a random moment after a micro-batch was committed since the one before, so that there is something to lose.
    """
    chooser = random.Random(1)
    victims = [*VICTIMS, *VICTIMS, chooser.choice([*VICTIMS])]
    chooser.shuffle(victims)
    incoming = tmp_path / "in"
    incoming.mkdir()
    engine, wanted, number = rpq.Engine(QUERY), Counter(), 0

    def arrives() -> None:
        nonlocal number
        rows = [(f"v{n % 7}", f"v{n * n % 11}", "aabc"[n % 4], n // 3) for n in range(number * 60, number * 60 + 60)]
        table = pa.Table.from_arrays(
            [pa.array(column) for column in zip(*rows, strict=True)], names=["source", "target", "label", "timestamp"]
        )
        pq.write_table(table, tmp_path / "written.parquet")
        os.utime(tmp_path / "written.parquet", (10**9 + number,) * 2)
        (tmp_path / "written.parquet").rename(incoming / f"{number:03}.parquet")
        wanted.update(map(tuple, engine.push(table).rows()))
        number += 1

    arrives()
    places = ["--input", incoming, "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state"]
    words = ["stream", QUERY.expression, *WINDOW, *places, "--py-files", wheel]
    job, kills, committed, deadline = cluster.start(*words), Counter(), 0, time.monotonic() + 2400
    try:
        while victims and time.monotonic() < deadline:
            for _ in range(3):
                arrives()
            while commits(tmp_path / "state") <= committed and job.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(chooser.random() * 3)
            committed = commits(tmp_path / "state")
            victim = victims[-1]
            found = processes_of(job.pid, VICTIMS[victim])
            if victim == "worker":
                found = [one for one in found if "daemon" in Path(f"/proc/{one}/cmdline").read_text()]
            if victim == "driver" and found:
                os.killpg(job.pid, signal.SIGKILL)
            elif found:
                os.kill(chooser.choice(found), signal.SIGKILL)
            if found:
                kills[victims.pop()] += 1
            if job.poll() is not None or (victim == "driver" and found):
                job.wait()
                job = cluster.start(*words)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert not victims and len(kills) == len(VICTIMS), kills
    assert commits(tmp_path / "state") >= 4  # a kill in a micro-batch lets it be done again
    done = cluster.call(*words, "--once")
    assert done.returncode == 0, done.stderr
    logs = (tmp_path / "rows" / "_spark_metadata").iterdir()
    paths = [json.loads(line)["path"] for log in logs if log.name[0] != "." for line in log.read_text().splitlines()[1:]]
    found = Counter(
        tuple(row.values())
        for path in {one.removeprefix("file://") for one in paths}
        for row in pq.read_table(path).to_pylist()
    )
    assert found == wanted


@pytest.mark.long
def test_executors_without_the_package(cluster, data, tmp_path):
    done = cluster.call("replay", QUERY.expression, *WINDOW, "--input", data, "--output", tmp_path / "rows", workers=1)
    assert done.returncode != 0
    assert "cannot run queries: ModuleNotFoundError: No module named 'rpq'; ship the package with --py-files" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "rows").exists()


@pytest.mark.long
def test_executors_with_another_release(cluster, wheel, data, tmp_path):
    other = tmp_path / "streaming_rpq-99.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "rpq/__init__.py":
                content = content.replace(f'__version__ = "{rpq.__version__}"'.encode(), b'__version__ = "99.0"')
                assert b"99.0" in content
            new.writestr(name, content)
    files = ["--input", data, "--output", tmp_path / "rows", "--py-files", other]
    done = cluster.call("replay", QUERY.expression, *WINDOW, *files, workers=1)
    assert done.returncode != 0
    assert f"has streaming-rpq 99.0, the driver {rpq.__version__}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_page_on_clusters_is_followed_to_the_letter(tmp_path):
    """A standalone master and two workers on this machine: a data set, a replay, a stream, the end."""
    page = (ROOT / "docs" / "spark-cluster.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    variables = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    try:
        command = ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path, check=False)
    finally:
        for number in (tmp_path / "processes").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGTERM)
    assert done.returncode == 0, done.stderr
    assert "by 2 shares" in done.stderr and "Traceback" not in done.stderr
    assert rows_in(tmp_path / "replayed") == rows_in(tmp_path / "streamed")


def test_every_folder_says_that_it_is_a_package():
    """In an archive Python 3.11 finds no others."""
    folders = {path.parent for name in ("rpq", "automata", "spark", "workloads") for path in (ROOT / name).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_kernels_of_a_shipped_wheel_are_found_wherever_it_lies(monkeypatch, tmp_path):
    """Spark puts it into another folder each time, and beside it nothing can be written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", "")
    found = []
    for folder in ("userFiles-1", "userFiles-2"):
        archive = tmp_path / folder / "streaming_rpq-1.0-py3-none-any.whl"
        archive.parent.mkdir()
        archive.write_bytes(b"PK")
        monkeypatch.setattr(kernel_cache, "PACKAGE", archive / "rpq")
        kernel_cache.places.cache_clear()
        place = kernel_cache.writable_place(f"{archive}/rpq/operators/paths/index/kernels.py")
        found.append(place.directory)
    kernel_cache.places.cache_clear()
    shipped = tmp_path / "caches/streaming-rpq/shipped-streaming_rpq-1.0-py3-none-any"
    assert found[0] == found[1] == shipped / "operators/paths/index"


def test_kernels_of_a_wheel_that_was_found_from_the_working_folder_are_kept(wheel, tmp_path):
    """Workers of a stream find the wheel in this way; otherwise each of their processes would compile."""
    shutil.copy(wheel, tmp_path)
    code = f"""
import sys
sys.path.insert(0, "./{wheel.name}")
from rpq.compiled.kernel_cache import writable_place
from rpq.stream.edges import snapshot
kernel = next(one for one in vars(snapshot).values() if hasattr(one, "py_func"))
assert kernel.py_func.__code__.co_filename.startswith("./"), kernel.py_func.__code__.co_filename
print(writable_place(kernel.py_func.__code__.co_filename).directory)
"""
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "caches"), "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=variables, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(f"{tmp_path}/caches/streaming-rpq/shipped-{wheel.stem}/")


def test_what_another_release_packed_says_so(monkeypatch):
    import pickle

    from rpq.spark.envelopes import Packer

    packed = pickle.dumps(Packer([QUERY]))
    pickle.loads(packed)
    monkeypatch.setattr(rpq, "__version__", "99.0")
    with pytest.raises(PipelineError, match=r"has streaming-rpq 99\.0, the driver has .*--py-files"):
        pickle.loads(packed)
