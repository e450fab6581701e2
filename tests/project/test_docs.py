"""Documentation: pages build strictly from this checkout alone, what they show runs, what they name is there."""

from __future__ import annotations

import ast
import doctest
import html
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest

import rpq
import rpq.readers
import rpq.spark
from rpq.operators.relational.nodes import LeafNode
from rpq.rows.weighted_rows import WeightedRows
from tests.commands import Caller, commands_in
from tests.services.installed_sources import path_with_source_of_contributing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


BY_PAGE = [(path, BLOCK.findall(read(path))) for path in PAGES]
WITH_PYTHON = [path for path, blocks in BY_PAGE if any(language == "python" for language, _ in blocks)]
WITH_COMMANDS = [path for path, blocks in BY_PAGE if any(re.search(r"^rpq ", block, re.MULTILINE) for _, block in blocks)]


def without_code(text: str) -> str:
    """Markdown without its blocks of code and the code in its lines, where brackets are not links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


# --- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("material", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONIOENCODING": "utf-8"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


class Loaded(HTMLParser):
    """The resources that a browser loads for a page, and the names of its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.places: set[str] = set()
        self.feed(read(page))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.places.add(given.get("id") or "")
        if tag in ("script", "img", "iframe", "video", "source", "object", "embed"):
            self.addresses += [given.get("src") or "", given.get("data") or ""]
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.addresses.append(given.get("href") or "")


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        for address in Loaded(page).addresses:
            assert not re.match(r"(\w+:)?//", address), (page.name, address)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", read(sheet)), sheet
    for page in pages:  # for these Material would ask another host, when the page is opened
        text = read(page)
        assert 'data-md-component="source"' not in text and 'class="mermaid"' not in text, page


def public_names() -> Iterator[str]:
    for module in (rpq, rpq.readers, rpq.spark):
        for name in module.__all__:
            yield f"{module.__name__}.{name}"
    for name in rpq.__all__:
        one = getattr(rpq, name)
        if isinstance(one, type):
            for member, value in vars(one).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
                    yield f"rpq.{name}.{member}"


def test_every_public_name_is_on_a_page(site: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    shown = Loaded(site / "api.html").places | Loaded(site / "spark.html").places
    missing = {name for name in public_names() if name not in shown}
    assert not missing


def commands() -> Iterator[tuple[str, click.Command]]:
    from rpq.cli import main

    waiting: list[tuple[str, click.Command]] = [("rpq", main)]
    while waiting:
        name, command = waiting.pop()
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            waiting += [(f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)]


def test_every_command_is_shown_with_what_its_help_says(site: Path) -> None:
    page = read(site / "command.html")
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())
    found = list(commands())
    assert len(found) > 15
    for name, command in found:
        assert f'id="{name.replace(" ", "-")}"' in page
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in shown
                assert " ".join((parameter.help or "").split()) in shown, (name, parameter.opts)


def test_examples_in_docstrings_are_blocks_of_code(site: Path) -> None:
    text = read(site / "api.html")
    assert not re.search(r"<blockquote>|<p>&gt;&gt;&gt;", text)
    assert "lower_bound" in text


# --- what they show --------------------------------------------------------------------------------------------------


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


def test_the_semantics_have_an_example_for_every_section() -> None:
    sections = re.split(r"^## ", read(DOCS / "semantics.md"), flags=re.MULTILINE)[1:17]
    assert [section.split()[0] for section in sections] == [f"S{number}" for number in range(1, 17)]
    for section in sections:
        assert ">>>" in section, section.splitlines()[0]


OF_SERVERS = ("kafka", "serving")
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
    if page.stem not in OF_SERVERS
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


# --- what they name --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_every_link_into_the_repository_leads_somewhere(text: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)", without_code(read(text))):
        target = text.parent / link if link else text
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", read(target), re.MULTILINE)
            assert anchor[1:] in [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles], link


def test_the_page_on_sparql_has_all_that_is_refused() -> None:
    from rpq.language.sparql.syntax.source_text import REFUSED

    table = read(DOCS / "sparql.md").split("| refused |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| ([^|]*?) \|", table, re.MULTILINE)
    names = [row.replace("`<graph>`", "").replace("(…)", "").strip("` ") for row in rows]
    assert not set(REFUSED) - set(names)


FOR_DEVELOPERS = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "workloads/results/README.md", "rpq/operators/paths/index/TUNING.md")),
    *(DOCS / name for name in ("architecture.md", "kernels.md", "glossary.md", "papers.md")),
]


@pytest.mark.parametrize("text", FOR_DEVELOPERS, ids=lambda path: path.name)
def test_every_file_that_is_named_is_there(text: Path) -> None:
    """Files of an example to be made are named as `weblog`; what is named as a command is not looked for."""
    named = re.findall(r"`((?:rpq|tests|docs|spark|workloads|automata|examples)/[\w./*]*)`", read(text))
    assert named or text.name == "TUNING.md"
    missing = {path for path in named if "weblog" not in path and not list(ROOT.glob(path))}
    assert not missing


@pytest.mark.parametrize("text", FOR_DEVELOPERS, ids=lambda path: path.name)
def test_every_name_of_the_code_is_there(text: Path) -> None:
    """Names with a capital, a dot or an underscore, but for `block_steps`, the example of a counter to be made."""
    named = set(re.findall(r"`([A-Za-z_][\w.]*)`", read(text)))
    named = {name.rsplit(".")[-1] for name in named if re.search(r"[A-Z._]", name)} - {"block_steps", "md", "json", "png"}
    folders = ("rpq", "automata", "spark", "workloads", "tests", "docs")
    sources = [read(path) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert not named - {*re.findall(r"\w+", "\n".join([*sources, read(ROOT / "pyproject.toml")]))}


@pytest.mark.parametrize("text", FOR_DEVELOPERS, ids=lambda path: path.name)
def test_every_name_is_in_the_file_or_class_that_is_named_with_it(text: Path) -> None:
    """`name` in `file.py`, `name` (`file.py`), and `Class.member`, but for names of the examples to be made."""
    placed = re.findall(r"`([\w.]+)(?:\(\))?`,?(?: of `\w+`,)?\s+(?:in|\()\s*`((?:\w+/)+\w+\.py)`", read(text))
    placed += re.findall(r"`([\w.]+)(?:\(\))?` \(\[`((?:\w+/)+\w+\.py)`\]", read(text))
    missing = [(name, file) for name, file in placed if name.split(".")[-1] not in defined_in(read(ROOT / file))[0]]
    assert not missing
    named = re.findall(r"`([A-Z]\w*)\.(\w+)`", read(text))
    classes: dict[str, set[str]] = {}
    for source in map(read, (ROOT / "rpq").rglob("*.py")):
        if any(f"\nclass {name}" in source for name, _ in named):
            for name, members in defined_in(source)[1].items():
                classes.setdefault(name, set()).update(members)
    assert not [(name, member) for name, member in named if name in classes and member not in classes[name]]
    if text.name in ("CONTRIBUTING.md", "architecture.md"):
        assert len(placed) > 2 and len(named) > 4 * (text.name == "architecture.md")


def defined_in(source: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names that a module defines, and those that each of its classes does."""

    def names_in(tree: ast.AST) -> set[str]:
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
        return found

    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return names_in(tree), {node.name: names_in(node) for node in classes}


PACKAGES = sorted(
    path.parent for top in ("automata", "rpq", "spark", "workloads") for path in (ROOT / top).rglob("__init__.py")
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_docstring_of_a_package_names_its_modules(package: Path) -> None:
    """All of them, and by the names that they have; the floors of the architecture stand for the modules of `rpq`."""
    docstring = ast.get_docstring(ast.parse(read(package / "__init__.py"))) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    modules |= {path.parent.name for path in package.glob("*/__init__.py")}
    if package != ROOT / "rpq":
        assert not modules - {*re.findall(r"\w+", docstring)}
    near = {path.stem for path in [*package.parent.iterdir(), *package.parent.parent.iterdir()]} | modules
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                near.add(node.name)
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    extras = {*project["optional-dependencies"], *(name for names in project["entry-points"].values() for name in names)}
    named = {name for name in re.findall(r"`([a-z_]+)(?:\.\w+)*`", docstring) if name not in ("rpq", "ready")}
    assert not named - near - extras
    assert all(is_defined(name) for name in re.findall(r"`(rpq(?:\.\w+)+)`", docstring))


def is_defined(name: str) -> bool:
    """Return whether a dotted name is that of a module, or of something in a module or package."""
    place = ROOT.joinpath(*name.split("."))
    if place.is_dir() or place.with_suffix(".py").exists():
        return True
    home = place.parent / "__init__.py" if place.parent.is_dir() else place.parent.with_suffix(".py")
    return home.exists() and place.name in re.findall(r"\w+", read(home))


def test_the_floors_of_the_architecture_are_those_that_imports_are_held_to() -> None:
    contracts = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract["id"] == "floors")
    table = read(DOCS / "architecture.md").split("| floor |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `rpq\.([\w.]+)` \|", table, re.MULTILINE) == floors


def test_the_format_of_contributing_can_be_read(tmp_path: Path) -> None:
    text = read(ROOT / "CONTRIBUTING.md")
    names: dict[str, object] = {}
    exec(textwrap.dedent(dict(BLOCK.findall(text))["python"]), names)
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
def test_the_source_of_contributing_is_installed_killed_and_resumed(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": path_with_source_of_contributing(tmp_path / "site")}
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


def test_the_counter_of_contributing_is_a_figure(tmp_path: Path) -> None:
    """The field and the way up, in a copy of the package."""
    section = read(ROOT / "CONTRIBUTING.md").split("\n## A counter\n")[1].split("\n## ")[0]
    (field,) = re.findall(r"Add `(block_steps: int = 0)` to `Statistics` in `([\w/.]+)`", section)
    (way_up,) = re.findall(r"in `([\w/.]+)`, names it in `further`:\n   `\{…\} (\| \{.*?\})`, with\n   `(.*?)`", section)
    shutil.copytree(ROOT / "rpq", tmp_path / "rpq", ignore=shutil.ignore_patterns("__pycache__", "spark", "workloads"))
    statistics, query = tmp_path / field[1], tmp_path / way_up[0]
    last = "    rows_waiting: int = 0\n"
    assert read(statistics).count(last) == 1
    statistics.write_text(read(statistics).replace(last, f"{last}    {field[0]}\n"), encoding="utf-8")
    further = "further={name: self._figure(name) for name in _OF_DOUBT}"
    assert read(query).count(further) == 1
    changed = read(query).replace(further, f"{further} {way_up[1]}")
    query.write_text(changed.replace("\nfrom rpq.", f"\n{way_up[2]}\nfrom rpq.", 1), encoding="utf-8")
    script = """
import rpq
engine = rpq.Engine(*(rpq.Query(text, window=rpq.Window(size=9, slide=1)) for text in ("a/b", "c")), threads=2)
engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2), ("u", "y", "a", 2)])
print(rpq.__file__, *(engine.statistics(name).block_steps for name in ("a/b", "c", None)))
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr
    file, *counts = run.stdout.split()
    assert file.startswith(str(tmp_path))
    assert int(counts[0]) == int(counts[2]) > 0 == int(counts[1])


def operator_of_contributing() -> Any:
    """Return the class of the example."""
    block = dict(BLOCK.findall(read(ROOT / "CONTRIBUTING.md")))["py"]
    names: dict[str, Any] = {"Counter": Counter, "Node": LeafNode.__base__, "Row": tuple, "WeightedRows": WeightedRows}
    exec(textwrap.dedent(block), names)
    return names["AtLeastNode"]


def test_the_operator_of_contributing_has_the_rows_that_its_docstring_says() -> None:
    node = operator_of_contributing()(LeafNode(["x", "y"], ""), 2)
    chance = random.Random(0)
    rows: Counter[tuple[int, int]] = Counter()
    output: Counter[tuple[int, int]] = Counter()
    node.begin()
    for _ in range(300):
        changes = []
        for event in range(3):
            for _ in range(4):
                row = (chance.randrange(3), chance.randrange(3))
                weight = 1 if not rows[row] or chance.random() < 0.5 else -1
                rows[row] += weight
                changes.append((event, row, weight))
        for _, row, weight in node.change(WeightedRows.of(changes, 2)).changes():
            output[row] += weight
        node._check()
        assert {*output.elements()} == {row for row, count in rows.items() if count >= 2}
        assert set(output.values()) <= {0, 1}
        assert node.entries == len(+rows) and {*node.ids()} == {id for row in +rows for id in row}


def test_the_operator_of_contributing_is_told_of_rows_that_expire(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the place of DISTINCT in a query with implicit windows, over batches and deletes, saved and restored."""
    from rpq.operators.relational import planning

    class Twice(operator_of_contributing()):  # type: ignore[misc]
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


def test_commands_of_contributing_name_what_there_is() -> None:
    text = read(ROOT / "CONTRIBUTING.md")
    summary = dict(BLOCK.findall(text))["sh"]
    paths = re.findall(r" (tests/[\w/]+(?:\.py)?|\.ci/\w+)", summary)
    assert len(paths) > 4
    for path in paths:
        assert (ROOT / path).exists(), path


PAPERS = {
    "SIGMOD 2020": {"Definition": 18, "Algorithm": 8, "Figure": 11, "Table": 4},
    "DEBS 2016": {"Definition": 4, "Problem": 2, "Theorem": 2, "Algorithm": 3, "Figure": 5, "Table": 2},
    "Linked data": {"Definition": 13, "Lemma": 3, "Algorithm": 4, "Figure": 2},
    "EDBT 2020": {"Figure": 14},
    "Web Semantics 2016": {"Algorithm": 8, "Figure": 13, "Table": 2},
}
"""How many of each the papers have, section by section of the page."""


def test_the_page_on_papers_has_everything_that_they_number() -> None:
    sections = read(DOCS / "papers.md").split("\n## ")[1:]
    assert len(sections) == len(PAPERS)
    for section, numbered in zip(sections, PAPERS.values(), strict=True):
        first_cells = " ".join(re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE))
        for kind, most in numbered.items():
            places = re.findall(rf"{kind}s? (\d+(?:, \d+)*(?: to \d+)?)", first_cells)
            found: set[int] = set()
            for place in places:
                numbers = [int(number) for number in re.findall(r"\d+", place)]
                found |= {*range(numbers[0], numbers[-1] + 1)} if "to" in place else {*numbers}
            assert not {*range(1, most + 1)} - found, (kind, section.splitlines()[0])


def test_commands_and_queries_of_the_page_on_papers_are_there() -> None:
    from rpq.workloads.bench.command import EXPERIMENTS
    from rpq.workloads.generate.generators import KINDS
    from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS
    from rpq.workloads.named_queries import TEMPLATES
    from rpq.workloads.sparql_queries import sparql_names

    text = read(DOCS / "papers.md")
    commands = re.findall(r"`rpq (\w+) ?([\w-]*)", text)
    known = {"bench": {*EXPERIMENTS, "NAME"}, "generate": {*KINDS, "rdf", "queries"}}
    assert len(commands) > 20
    assert not [command for command in commands if command[1] not in known.get(command[0], {command[1]})]
    assert not {*re.findall(r"rpq generate rdf --kind ([\w-]+)", text)} - {*RDF_KINDS}
    missing = [name for name in (*TEMPLATES, *sparql_names()) if not re.search(rf"\b{name}\b", text)]
    assert not missing


def sections_in(text: str) -> set[str]:
    return set(re.findall(r"\bS\d+\b", text))


def test_the_table_of_the_semantics_says_what_the_tests_say() -> None:
    table = re.findall(r"^\| (S\d+) [^|]*\| ([^|]*) \|$", read(DOCS / "semantics.md"), re.MULTILINE)
    assert [section for section, _ in table] == [f"S{number}" for number in range(1, 17)]
    by_table = {(name, section) for section, names in table for name in re.findall(r"`(\w+)`", names)}
    by_tests = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        docstring = ast.get_docstring(ast.parse(read(path))) or ""
        for line in re.findall(r"^semantics\.md (S.*)$", docstring, re.MULTILINE):
            by_tests |= {(path.stem, section) for section in sections_in(line)}
    assert by_table == by_tests


def test_the_changelog_begins_with_what_is_not_released_or_with_this_version() -> None:
    first = re.search(r"^## \[([^]]+)\]", read(ROOT / "CHANGELOG.md"), re.MULTILINE)[1]
    assert first in ("Unreleased", rpq.__version__)
    assert f"## [{rpq.__version__}]" in read(ROOT / "CHANGELOG.md")
