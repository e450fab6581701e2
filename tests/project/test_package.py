"""The installed package: only `rpq`, whatever else is called automata, spark or workloads."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rpq
from rpq.errors import install_command
from tests.services.environments import (
    ALL_LOADED,
    ROOT,
    built,
    copied_kernels,
    environment,
    pip,
    run,
    site_packages,
    with_kernels,
)

NAMES = ("automata", "spark", "workloads")
FOREIGN = 'raise ImportError("a stranger\'s file was imported")\n'

EVERYTHING = """
import json, os, pkgutil, sys
from importlib.util import find_spec
import rpq
for found in pkgutil.walk_packages(rpq.__path__, "rpq."):
    if not found.name.endswith("__main__"):
        try:
            __import__(found.name)
        except ImportError as error:
            extras = {"pyspark", "pandas", "matplotlib", "msgspec", "pyoxigraph", "starlette", "uvicorn"}
            extras |= {"bytewax", "h11", "httpx2", "quixstreams"}
            if (error.name or "").partition(".")[0] not in extras:
                raise
files = {}
for name, module in list(sys.modules.items()):
    if getattr(module, "__file__", None):
        files.setdefault(os.path.realpath(module.__file__), set()).add(module.__name__)
ours = {path: sorted(names) for path, names in files.items() if os.path.realpath(os.path.dirname(rpq.__file__)) in path}
outside = [name for name in ("automata", "spark", "workloads") if find_spec(name)]
print(json.dumps({"ours": ours, "twice": [n for n in files.values() if len(n) > 1], "outside": outside}, default=sorted))
"""


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Return the Python of an environment in which the wheel is installed."""
    return with_kernels(environment(tmp_path_factory.mktemp("environment") / "venv", wheel))


@pytest.fixture(scope="module")
def unpacked(checkout, tmp_path_factory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    script = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    tools = environment(folder / "tools", "setuptools>=77")
    run(tools, "-c", script, cwd=checkout)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as file:
        (record,) = (name for name in file.namelist() if name.endswith("/RECORD"))
        return sorted(line.partition(",")[0] for line in file.read(record).decode().splitlines())


def test_the_wheel_brings_one_name(wheel):
    names = contents(wheel)
    assert {name.partition("/")[0] for name in names} == {"rpq", f"streaming_rpq-{rpq.__version__}.dist-info"}
    assert {"rpq/py.typed", "rpq/spark/jvm/session.py", "rpq/workloads/queries/taxi-join.rq"} <= {*names}
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "rpq" / "serve" / "page").rglob("*.*")}
    assert "rpq/serve/page/index.html" in page and page <= {*names}
    in_checkout = {str(p.relative_to(ROOT)) for name in ("rpq", *NAMES) for p in (ROOT / name).rglob("*.py")}
    expected = {name if name.startswith("rpq/") else f"rpq/{name}" for name in in_checkout}
    experiments = tuple(f"rpq/workloads/{name}/" for name in ("baselines", "bench", "results", "rivals"))
    expected = {name for name in expected if not name.startswith(experiments)}
    assert not [name for name in names if name.startswith(experiments)]
    assert expected == {name for name in names if name.endswith(".py")}


def test_no_file_is_loaded_under_two_names(python, tmp_path):
    content = json.loads(run(python, "-c", EVERYTHING, cwd=tmp_path).stdout)
    assert content["twice"] == [] and content["outside"] == []
    assert len(content["ours"]) > 100 and all(names[0].startswith("rpq") for names in content["ours"].values())


@pytest.mark.ci
def test_in_a_checkout_no_file_is_loaded_under_two_names():
    content = json.loads(run(Path(sys.executable), "-c", EVERYTHING, cwd=ROOT).stdout)
    assert content["twice"] == []


@pytest.mark.parametrize(
    "order", [("automata-lib", "rpq"), pytest.param(("rpq", "automata-lib"), marks=pytest.mark.long)], ids=" first, ".join
)
def test_beside_automata_lib_both_work(wheel, tmp_path, order):
    python = environment(tmp_path / "venv")
    for name in order:
        # Its dependencies are not needed to see who owns the name.
        pip("install", "--quiet", *(["--no-deps", name] if name != "rpq" else [wheel]), python=python)
    script = "import automata, rpq, rpq.automata; print(automata.__file__); print(rpq.automata.__file__)"
    theirs, ours = run(python, "-c", script, cwd=tmp_path).stdout.splitlines()
    assert theirs.endswith("site-packages/automata/__init__.py") and ours.endswith("site-packages/rpq/automata/__init__.py")
    assert "a/b" in run(python, "-m", "rpq.cli", "explain", "a/b", cwd=tmp_path).stdout
    assert "a2q" in run(with_kernels(python), "-m", "rpq.cli", "demo", "--edges", 300, cwd=tmp_path).stdout


def test_files_of_the_user_with_the_same_names_disturb_nothing(python, tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(FOREIGN)
    (tmp_path / "edges.tsv").write_text("source\ttarget\tlabel\ttimestamp\nx\ty\ta\t1\ny\tz\tb\t2\n")
    arguments = ["run", "a/b", "--input", "edges.tsv", "--window", "10", "--slide", "1", "--output", "-", "--quiet"]
    for command in (["-m", "rpq.cli"], [python.parent / "rpq"]):
        out = run(python, *command, *arguments, cwd=tmp_path).stdout
        assert out.splitlines()[1:] == ["x,z,2,+"], out
        run(python, *command, "explain", "a/b*", cwd=tmp_path)
        assert "from a checkout" in run(python, *command, "bench", "--help", cwd=tmp_path).stdout
        run(python, *command, "spark", "--help", cwd=tmp_path)
    script = "import rpq, rpq.automata, rpq.spark, rpq.workloads.named_queries\n"
    script += "rpq.Engine(rpq.Query('a/b', window=rpq.Window(size=9, slide=1)))"
    run(python, "-c", script, cwd=tmp_path)


@pytest.mark.long
def test_installed_then_run_then_installed_as_editable(checkout, wheel, tmp_path):
    python = environment(tmp_path / "venv", wheel)
    run(
        python, "-c", "from rpq.compiled.cycle_counter import ticks_per_second; ticks_per_second()", cwd=tmp_path
    )  # compiles a kernel
    assert list((tmp_path / "venv").rglob("*.nbc"))
    where = "import rpq, rpq.workloads.named_queries; print(rpq.__file__); print(len(rpq.__path__))"
    assert "site-packages" in run(python, "-c", where, cwd=tmp_path).stdout
    source = shutil.copytree(checkout, tmp_path / "source", symlinks=True)
    pip("install", "--quiet", "--editable", source, python=python)
    file, paths = run(python, "-c", where, cwd=tmp_path).stdout.splitlines()
    assert Path(file) == source / "rpq" / "__init__.py" and paths == "1"
    assert not list((tmp_path / "venv").glob("lib/python*/site-packages/rpq"))
    run(python, "-m", "rpq.cli", "explain", "a", cwd=tmp_path)
    assert json.loads(run(python, "-c", EVERYTHING, cwd=tmp_path).stdout)["twice"] == []


@pytest.mark.long
def test_a_type_checker_finds_every_module(python, wheel, tmp_path):
    pytest.importorskip("mypy")
    files = [name.removesuffix(".py").removesuffix("/__init__") for name in contents(wheel) if name.endswith(".py")]
    (tmp_path / "all.py").write_text("".join(f"import {file.replace('/', '.')}\n" for file in files))
    command = [sys.executable, "-m", "mypy", "--python-executable", python, "--follow-imports", "silent", "all.py"]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.long
def test_a_wheel_of_the_source_distribution_is_that_of_the_checkout(unpacked, wheel, tmp_path):
    assert contents(built(unpacked, tmp_path)) == contents(wheel)


def test_the_source_distribution_has_everything_that_is_committed(unpacked):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    missing = [name for name in listed.stdout.splitlines() if (ROOT / name).exists() and not (unpacked / name).exists()]
    assert missing == [".gitignore"]
    assert (unpacked / "rpq" / "automata").is_symlink()


@pytest.mark.long
def test_tests_pass_from_the_source_distribution(unpacked):
    copied_kernels(unpacked)
    names = ("automata/test_automata", "project/test_readme", "cli/test_cli_explain", "workloads/bench/test_bench_report")
    some = [f"tests/{name}.py" for name in names]
    # What Spark does with the README is seen in the checkout.
    command = [sys.executable, "-m", "pytest", "-q", *some, "rpq/stream/window.py", "-k", "not spark"]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


def test_the_version_is_said_in_one_place(python, wheel, tmp_path):
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    metadata = "from importlib.metadata import version; import rpq; print(version('streaming-rpq'), rpq.__version__)"
    assert run(python, "-c", metadata, cwd=tmp_path).stdout.split() == [rpq.__version__] * 2
    assert run(python, "-m", "rpq.cli", "--version", cwd=tmp_path).stdout == f"rpq {rpq.__version__}\n"
    assert wheel.name == f"streaming_rpq-{rpq.__version__}-py3-none-any.whl"


def test_the_metadata_tells_where_the_project_is_and_what_it_runs_on(wheel):
    with zipfile.ZipFile(wheel) as file:
        text = file.read(f"streaming_rpq-{rpq.__version__}.dist-info/METADATA").decode()
    for minor in range(11, 15):
        assert f"Classifier: Programming Language :: Python :: 3.{minor}\n" in text
    assert "Project-URL: Repository, https://github.com/" in text and "Keywords: " in text


def released(checkout: Path, dist: Path, *processors: str) -> list[Path]:
    """Return what `.ci/release` built, and ran in an empty environment: a demo, a query, a MATCH, a server."""
    command = [checkout / ".ci" / "release", dist, *processors]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(dist.iterdir())


@pytest.mark.long
def test_a_release_runs_in_an_empty_environment(checkout, tmp_path):
    names = [path.name for path in released(checkout, tmp_path / "dist")]
    assert names == [f"streaming_rpq-{rpq.__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz")]


@pytest.mark.long
def test_a_wheel_with_kernels_compiles_nothing_and_asks_for_the_numba_that_compiled_it(checkout, tmp_path):
    from packaging.tags import sys_tags

    from rpq.compiled.processors import common_names_here

    (wheel,) = released(checkout, tmp_path / "dist", common_names_here()[0])
    tag = next(sys_tags())
    assert wheel.name.startswith(f"streaming_rpq-{rpq.__version__}-{tag.interpreter}-{tag.abi}-")
    assert "linux_" not in wheel.name.replace("manylinux_", "")  # which a registry would refuse
    kernels = {name for name in contents(wheel) if name.startswith("__pycache__/rpq/")}
    assert len(kernels) > 500 and all(name.endswith(".nbc") for name in kernels)
    assert {name.partition("/")[0] for name in contents(wheel)} - {"__pycache__"} == {
        "rpq",
        f"streaming_rpq-{rpq.__version__}.dist-info",
    }

    python = environment(tmp_path / "venv", wheel, extra="sparql")
    script = "from importlib.metadata import *; print(version('numba'), *requires('streaming-rpq'))"
    numba, *required = run(python, "-c", script, cwd=tmp_path).stdout.split()
    assert f"numba=={numba}" in required
    nowhere = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "caches")}
    demo = run(python, "-m", "rpq.cli", "demo", cwd=tmp_path, env=nowhere)
    assert "a2q" in demo.stdout and "compiling kernels" not in demo.stderr
    assert run(python, "-c", ALL_LOADED, cwd=tmp_path, env=nowhere).stdout == "None\n"
    site = site_packages(python)
    assert {str(path.relative_to(site)) for path in site.glob("__pycache__/rpq/**/*.nbc")} == kernels
    assert not list((tmp_path / "caches").rglob("*.nbc"))
    pip("uninstall", "--quiet", "--yes", "streaming-rpq", python=python)
    assert not os.path.exists(site / "rpq") and not list(site.rglob("*.nbc"))


@pytest.mark.parametrize(
    "extra", ["bench", "bench-kafka", "kafka", "match", "mcp", "plot", "rdf", "serve", "spark", "spark-connect", "sparql"]
)
def test_what_is_missing_is_installed_by_a_command_that_names_the_packages_themselves(extra):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def needed(name: str) -> set[str]:
        ours = {one for one in map(Requirement, extras[name]) if one.name == "streaming-rpq"}
        return {line for line in extras[name] if Requirement(line) not in ours}.union(
            *(needed(part) for one in ours for part in one.extras)
        )

    words = shlex.split(install_command(extra))
    assert words[:2] == ["pip", "install"] and {*map(Requirement, words[2:])} == {*map(Requirement, needed(extra))}


def test_without_metadata_the_command_is_that_of_a_checkout(monkeypatch):
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", nothing)
    assert install_command("kafka") == "pip install '.[kafka]' in a checkout of streaming-rpq"


RUN = "rpq run --window 9 --slide 1"
CHECKOUT = "cd checkout;"  # where experiments are
DECODED = """
from types import SimpleNamespace
import fastavro, io, json
from confluent_kafka.schema_registry import Schema
from rpq.kafka.schema_registry import SchemaRegistry
registry = SchemaRegistry("mock://registry")
schema = json.dumps({"type": "record", "name": "edge", "fields": [{"name": "source", "type": "string"}]})
number = registry.client.register_schema("edges", Schema(schema, "AVRO"))
data = io.BytesIO()
fastavro.schemaless_writer(data, json.loads(schema), {"source": "x"})
message = SimpleNamespace(headers=lambda: None, key=lambda: None)
print(registry.decode_values([message], [bytes([0]) + number.to_bytes(4) + data.getvalue()]))
"""
CONNECTED = """
import rpq
from pyspark.sql import SparkSession
from rpq.spark import replay
from rpq.spark.jvm.session import SETTINGS
builder = SparkSession.builder.remote("local[1]")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
edges = session.createDataFrame([("x", "y", "a", 1)], "source string, target string, label string, timestamp bigint")
print(replay(session, edges, rpq.Query("a", window=rpq.Window(size=9, slide=1))).collect())
session.stop()
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
COMMANDS = {
    "avro": (f"python -c '{DECODED}'", '{"source":"x"}'),
    "bench": (f"{CHECKOUT} python -m rpq.cli bench automata --output $OLDPWD/results; ls $OLDPWD/results", "automata.png"),
    "bench-kafka": (
        f"{CHECKOUT} python -c 'from rpq.workloads.baselines import two_hops_bytewax, two_hops_quix' && echo imported",
        "imported",
    ),
    "docs": ("cd checkout; mkdocs build --strict --site-dir $OLDPWD/site; ls $OLDPWD/site", "index.html"),
    "kafka": (
        f"{RUN} a --input kafka://here/edges --output kafka://here/rows --kafka-config broker.conf --until-end",
        "there is no topic 'edges'",
    ),
    "match": (f"{RUN} 'MATCH (x)-[:a]->(y)-[:b]->(z) RETURN x, min(z)' --input edges.csv --output -", "x,z,2,+"),
    "mcp": (f"echo '{json.dumps(INITIALIZE)}' | rpq mcp", '"serverInfo":{"name":"rpq"'),
    "plot": ("PATH=$(dirname $(command -v rpq)) rpq explain a/b --png drawing.png; ls", "drawing.png"),
    "postgresql": (
        f"{RUN} a --semantics explicit --input edges.csv --output postgresql://127.0.0.1:1/x?table=y",
        "Connection refused",
    ),
    "rdf": (f"{RUN} '<e:a>' --format rdf --rdf-time e:time --input edges.trig --output -", "e:x,e:y,1,+"),
    "serve": ("timeout -s INT 20 rpq serve --port 0", "serving at http://127.0.0.1:"),
    "spark": (
        "rpq spark prepare --input edges.csv --output data && rpq spark replay a/b --window 9 --slide 1 --input data "
        "--output rows",
        "1 rows added",
    ),
    "spark-connect": (f"python -c '{CONNECTED}'", "source='x', target='y', timestamp=1"),
    "sparql": (f"{RUN} 'SELECT ?x ?z {{ ?x <a> ?y . ?y <b> ?z }}' --input edges.csv --output -", "x,z,2,+"),
    "test": ("cd checkout; python -m pytest -q tests/automata/test_automata.py", " passed"),
}
"""A typical command of each extra, and a part of what it prints."""


@pytest.mark.parametrize(
    "extra", [pytest.param(extra, marks=pytest.mark.ci if extra == "match" else pytest.mark.long) for extra in COMMANDS]
)
def test_an_extra_needs_no_other(extra, wheel, checkout, tmp_path):
    python = with_kernels(environment(tmp_path / "venv", f"{wheel}[{extra}]"))
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp\nx,y,a,1\ny,z,b,2\n")
    (tmp_path / "edges.trig").write_text("<e:g> <e:time> 1 . <e:g> { <e:x> <e:a> <e:y> }")
    (tmp_path / "broker.conf").write_text("test.mock.num.brokers=1\n")
    (tmp_path / "checkout").symlink_to(checkout)
    command, expected = COMMANDS[extra]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RPQ"))}
    path = f"{python.parent}:/usr/local/bin:/usr/bin:/bin"
    shown = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=variables | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert expected in shown.stdout + shown.stderr and "Traceback" not in shown.stderr, shown.stdout + shown.stderr
