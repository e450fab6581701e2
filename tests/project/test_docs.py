"""Documentation: the site builds strictly and loads nothing from elsewhere; examples run, and links lead somewhere."""

from __future__ import annotations

import doctest
import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rpq
from rpq.operators.relational.nodes import LeafNode
from rpq.rows.weighted_rows import WeightedRows
from tests.commands import Caller, commands_in
from tests.services.installed_sources import path_with_example

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


BY_PAGE = [(path, BLOCK.findall(read(path))) for path in PAGES]
RUNNING = [(path, blocks) for path, blocks in BY_PAGE if path.stem != "extending"]  # whose blocks are files to be made
WITH_PYTHON = [path for path, blocks in RUNNING if any(language == "python" for language, _ in blocks)]
WITH_COMMANDS = [path for path, blocks in RUNNING if any(re.search(r"^rpq ", block, re.MULTILINE) for _, block in blocks)]
EXTENDING = read(DOCS / "extending.md")


def without_code(text: str) -> str:
    """Markdown without its blocks of code and the code in its lines, where brackets are not links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


@pytest.mark.ci
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for needed in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(needed, reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONIOENCODING": "utf-8"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        foreign = r"<(?:script|img|iframe)[^>]+src=[\"']?(?:\w+:)?//|<link[^>]+stylesheet[^>]+//"
        assert not re.search(foreign, read(page)), page
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", read(sheet)), sheet


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_every_block_of_python_runs_and_gives_what_the_page_says(page: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    text = read(page)
    names: dict[str, object] = {"__name__": "page"}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF)
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, block.start()) + 1
        if ">>>" in block[1]:
            test = doctest.DocTestParser().get_doctest(block[1], names, page.name, str(page), line)
            messages: list[str] = []
            runner.run(test, out=messages.append, clear_globs=False)
            names.update(test.globs)
            assert not messages, "".join(messages)
        else:
            exec(compile("\n" * line + block[1], str(page), "exec"), names)


ELSEWHERE = ("kafka", "serving", "own-data")
"""Pages whose commands need a server, or a checkout, and run in other tests."""
QUICK = ("many-queries", "rdf", "kernels")
SLOW = ("spark", "guide-patterns")
"""Pages whose commands take longest. Those on Spark start a JVM each, and CI runs the same commands of the README in one."""
PASTED = [
    pytest.param(
        page,
        marks=[] if page.stem in QUICK else [pytest.mark.ci, *[pytest.mark.long] * (page.stem in SLOW)],
        id=page.stem,
    )
    for page in WITH_COMMANDS
    if page.stem not in ELSEWHERE
]


@pytest.mark.parametrize("page", PASTED)
def test_every_command_works_as_it_is_pasted(page: Path, tmp_path: Path, rpq: Caller, monkeypatch) -> None:
    """By a shell, or in this process where a block consists of commands `rpq` alone, but for those that start a JVM."""
    monkeypatch.chdir(tmp_path)
    if page.stem == "spark":
        pytest.importorskip("pyspark", reason="the extra spark is not installed")
        from rpq.spark.errors import PipelineError
        from rpq.spark.jvm.session import check_java

        try:
            check_java()
        except PipelineError as missing:
            pytest.skip(str(missing))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "rpq"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rpq.cli "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    for language, block in dict(BY_PAGE)[page]:
        if language == "sh" and re.search(r"^rpq ", block, re.MULTILINE):
            alone = None if page.stem in SLOW else commands_in(block)
            for words in alone or ():
                status, _, messages = rpq(*words)
                assert status == 0, (words, messages)
                assert "Traceback" not in messages
            if alone is None:
                ran = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block],
                    cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
                )  # fmt: skip
                assert ran.returncode == 0, block + ran.stderr
                assert "Traceback" not in ran.stderr
            for output in re.findall(r"--output ([^-\s]\S*)", block):  # "-" is standard output
                assert (tmp_path / output).exists(), output


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_every_link_into_the_repository_leads_somewhere(text: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)", without_code(read(text))):
        target = text.parent / link if link else text
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", read(target), re.MULTILINE)
            assert anchor[1:] in [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles], link


def test_the_format_of_the_guide_can_be_read(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(textwrap.dedent(dict(BLOCK.findall(EXTENDING))["python"]), names)
    for name, lines in (("one", "1 ann get /x\n5 bob get /y\n"), ("two", "3 cho put /z\n")):
        (tmp_path / name).write_text(lines)
    reader = names["open_weblog"]([str(tmp_path / "one"), str(tmp_path / "two")])  # type: ignore[operator]
    rows = [row for batch in reader for row in batch.columns.to_pylist()]
    assert [(row["timestamp"], row["source"], row["label"], row["target"]) for row in rows] == [
        (1, "ann", "get", "/x"),
        (3, "cho", "put", "/z"),
        (5, "bob", "get", "/y"),
    ]
    assert reader.time_unit == "s"


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="kills as a signal")
def test_the_source_of_the_guide_is_installed_killed_and_resumed(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": path_with_example(tmp_path / "site", "source")}
    log, rows, state = (tmp_path / name for name in ("edges.csv", "rows.csv", "run.state"))
    command = [sys.executable, "-m", "rpq.cli", "run", "a+", "--window", "10", "--slide", "1", "--quiet"]
    command += ["--checkpoint", str(state), "--output", str(rows), "--input"]

    log.write_text("source,target,label,timestamp\n")
    with subprocess.Popen([*command, f"follow://{log}"], env=environment, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            for number in range(3):
                with log.open("a") as file:
                    file.write(f"v{number},v{number + 1},a,{10 * number}\n")
                end = time.monotonic() + 60
                while not rows.exists() or len(read(rows).splitlines()) < number + 2 or not state.exists():
                    assert process.poll() is None and time.monotonic() < end
                    time.sleep(0.02)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    with log.open("a") as file:
        file.write("v3,v4,a,30\nv4,v5,a,31\nnot whole")
    again = [*command, f"follow://{log}?until-end"]
    # Parameters are a part of the URL: this is another input than the one of the checkpoint.
    assert "is the checkpoint of another run: --input was" in subprocess.run(
        again, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    ).stderr
    with subprocess.Popen([*command, f"follow://{log}"], env=environment, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while len(read(rows).splitlines()) < 7:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    pairs = [line.split(",")[:3] for line in read(rows).splitlines()[1:]]
    assert pairs[:3] == [[f"v{number}", f"v{number + 1}", str(10 * number)] for number in range(3)]
    assert sorted(pairs[3:]) == [["v3", "v4", "30"], ["v3", "v5", "31"], ["v4", "v5", "31"]]


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="kills as a signal")
def test_the_sink_of_the_guide_is_installed_killed_and_resumed_and_has_each_row_once(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": path_with_example(tmp_path / "site", "sink")}
    edges = [b"v%d,v%d,a,%d\n" % (number, number + 1, number // 9) for number in range(400)]
    command = [sys.executable, "-m", "rpq.cli", "run", "a+", "--window", "10", "--slide", "1", "--quiet", "--input", "-"]
    stored = [*command, "--output", f"sqlite://{tmp_path}/rows.db", "--checkpoint", str(tmp_path / "state")]

    def rows(what: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
            return database.execute(f"SELECT {what}").fetchall()

    for killed_at in (100, 250):
        with subprocess.Popen(stored, env=environment, cwd=tmp_path, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            for number, edge in enumerate(edges[:killed_at]):
                process.stdin.write(edge)
                if number % 20 == 0:
                    process.stdin.flush()
            process.stdin.flush()
            end = time.monotonic() + 60
            while not (tmp_path / "state").exists() or (rows("max(number) FROM commits")[0][0] or 0) < killed_at - 20:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    for arguments in (stored, [*command, "--output", str(tmp_path / "rows.jsonl")]):
        subprocess.run(arguments, env=environment, cwd=tmp_path, input=b"".join(edges), check=True)
    ((run, number),) = rows("run, number FROM commits")
    assert number == len(edges)
    wanted = sorted(json.dumps(json.loads(line)) for line in read(tmp_path / "rows.jsonl").splitlines())
    assert len(wanted) > 1000 and sorted(rows("run, row FROM rows")) == [(run, row) for row in wanted]


def operator_of_the_guide() -> Any:
    """Return the class of the example."""
    block = dict(BLOCK.findall(EXTENDING))["py"]
    names: dict[str, Any] = {"Counter": Counter, "Node": LeafNode.__base__, "Row": tuple, "WeightedRows": WeightedRows}
    exec(textwrap.dedent(block), names)
    return names["AtLeastNode"]


def test_the_operator_of_the_guide_follows_inserts_expiry_and_deletes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the place of DISTINCT in a query with implicit windows, over batches and deletes, saved and restored."""
    from rpq.operators.relational import planning

    class Twice(operator_of_the_guide()):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            super().__init__(inner, 2)

    monkeypatch.setattr(planning, "DistinctNode", Twice)
    query = rpq.Query("SELECT DISTINCT ?x { ?x <a> ?y }", window=rpq.Window(size=6, slide=1), name="q")
    assert query.semantics == "implicit"
    engine = rpq.Engine(query)
    chance = random.Random(0)
    edges: dict[tuple[str, str], int] = {}  # with their timestamps
    now, entered = 10, 0

    def answer() -> set[str]:
        counts = Counter(source for (source, _), timestamp in edges.items() if timestamp > now - 6)
        return {source for source, count in counts.items() if count >= 2}

    for number in range(80):
        tuples, expected = [], []
        for _ in range(chance.randrange(1, 5)):
            now += chance.choice([0, 0, 1, 4])
            edge, op = (chance.choice("uv"), chance.choice("xyz")), chance.choice("+++-")
            before = answer()
            edges.pop(edge, None)
            if op == "+":
                edges[edge] = now
            expected += [(source, now, op) for source in before ^ answer()]
            tuples.append((*edge, "a", now, op))
        assert [(source, at, op) for _, source, at, op in map(tuple, engine.push_rows(tuples).rows())] == expected
        engine._check()
        entered += sum(op == "+" for _, _, op in expected)
        if number == 40:
            engine.save(tmp_path / "state")
            engine = rpq.Engine.restore(tmp_path / "state")
    assert entered > 20
    assert re.search(r"^  twice +keeps rows: \d+ now$", engine.explain("q").operators, re.MULTILINE)
