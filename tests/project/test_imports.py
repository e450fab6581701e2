"""Imports point one way, as the contracts of import-linter in `pyproject.toml` say.

That `import rpq` loads nothing heavy is tested in `test_engine_api.py`, the same of the command in `test_cli_explain.py` and
of `rpq.spark` in `test_spark_prepare.py`.
"""

from __future__ import annotations

import ast
import shutil
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "module_graph.py"
UP = "rpq.stream is not allowed to import rpq.engine"


def lint(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[int, str]:
    """Run `lint-imports` over the checkout in `folder`; return its exit status and what it prints."""
    cli = pytest.importorskip("importlinter.cli")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "rpq", raising=False)  # where it is would be taken from there
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # this one disables all other loggers, for good
    ran = CliRunner().invoke(cli.lint_imports_command, ["--no-cache"])
    return ran.exit_code, ran.output


def test_imports_keep_the_contracts(monkeypatch):
    status, output = lint(monkeypatch, ROOT)
    assert status == 0, output


@pytest.mark.parametrize(
    ("module", "statement", "broken"),
    [
        ("rpq/stream/arrays/values.py", "from rpq.engine import start", UP),
        ("rpq/stream/arrays/values.py", "def f():\n    from ...engine import start", UP),
        ("rpq/stream/arrays/values.py", "if TYPE_CHECKING:\n    import rpq.engine", UP),
        ("rpq/operators/paths/program.py", "import rpq.operators.paths.index", "program is not allowed to import"),
        ("rpq/operators/bags/__init__.py", "import rpq.operators.paths", "bags is not allowed to import"),
        ("rpq/language/query/__init__.py", "import rpq.language.sparql", "query is not allowed to import"),
        ("rpq/stream/window.py", "import rpq.stream.arrays.values", "No cycles are allowed in rpq.stream"),
        ("rpq/stray.py", "", "rpq.stray"),
    ],
)
def test_what_breaks_a_contract_is_named(monkeypatch, tmp_path, module, statement, broken):
    floors = contract("floors")["layers"]
    texts = {f"rpq/{floor}/__init__.py": "" for floor in floors} | {"rpq/__init__.py": ""}
    folders = ("rpq/engine", "rpq/language", "rpq/operators", "rpq/operators/paths", "rpq/stream")
    for folder in folders:
        name = folder.rpartition("/")[2]
        rooms = [room for layer in contract(name)["layers"] for room in layer.split(" | ")]
        texts |= {f"{folder}/{room}/__init__.py": "" for room in rooms}
    texts |= {"rpq/operators/paths/program.py": ""}
    del texts["rpq/operators/paths/program/__init__.py"]
    texts |= {"rpq/stream/window.py": "", "rpq/stream/arrays/values.py": "import rpq.stream.window\n"}
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    settings = (tmp_path / "pyproject.toml").read_text()
    # What a contract leaves out must be there.
    (tmp_path / "pyproject.toml").write_text(settings.replace("ignore_imports", "# ignore_imports"))
    with monkeypatch.context() as patched:
        assert lint(patched, tmp_path)[0] == 0
    with (tmp_path / module).open("a") as file:
        file.write(f"{statement}\n")
    status, output = lint(monkeypatch, tmp_path)
    assert status == 1 and broken in output, output


def contract(name: str) -> dict:
    """Return a contract by its identifier."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = (one for one in settings["tool"]["importlinter"]["contracts"] if one["id"] == name)
    return found


def test_the_script_draws_and_tells(monkeypatch, tmp_path):
    pytest.importorskip("grimp")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import module_graph

    drawing, page = tmp_path / "graph.svg", tmp_path / "page.md"
    page.write_text("Above\n<!-- modules -->\nold\n<!-- /modules -->\nbelow\n")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--svg", str(drawing), "--text", str(page)])
    module_graph.main()
    shown = {element.text for element in ElementTree.parse(drawing).iter() if element.text}
    graph = module_graph.read_graph(ROOT)
    (arrow,) = (one for one in graph.arrows if (one.source, one.target) == ("rpq.stream", "rpq.errors"))
    assert {f"rpq.stream imports rpq.errors; pairs of modules: {arrow.pairs}", "window", "rpq.automata"} <= shown
    text = page.read_text()
    assert text.startswith("Above\n<!-- modules -->\n| floor |") and text.endswith("\n<!-- /modules -->\nbelow\n")
    assert "\nold\n" not in text
    order = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| rpq")]
    assert order == [f"| {floor}" for floor in reversed(graph.floors)]


@pytest.mark.ci
def test_tests_name_each_other_as_they_are_found() -> None:
    """A module of tests that cannot be imported would be left out in silence, as one whose doctests need an extra."""
    stems = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not stems.intersection(name.partition(".")[0] for name in named), (path.name, named)
