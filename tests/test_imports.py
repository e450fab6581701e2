"""Imports point one way: what stands on a floor knows the floors below it, and no module or folder goes in circles.

That `import rpq` loads nothing heavy is tested in `test_engine_api.py`, the same of the command in `test_cli_explain.py` and
of `rpq.spark` in `test_spark_prepare.py`.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "module_graph.py"


def load_script() -> ModuleType:
    """The script that draws the graph, as a module."""
    specification = importlib.util.spec_from_file_location("module_graph", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look there for their annotations
    specification.loader.exec_module(module)
    return module


module_graph = load_script()


def listed(found) -> str:
    """One line each, circles with their imports indented."""
    lines = ["\n    ".join(["circle:", *map(str, one)]) if isinstance(one, list) else str(one) for one in found]
    return "\n" + "\n".join(lines)


@pytest.fixture(scope="module")
def graph():
    return module_graph.read_graph(ROOT)


def test_every_module_has_a_floor(graph):
    assert graph.has_floors
    homeless = [module.path for module in graph.homeless()]
    assert not homeless, "move these, or name their floor in FLOORS in docs/module_graph.py:" + listed(homeless)


def test_the_floors_are_those_that_exist(graph):
    missing = {*module_graph.FLOORS} - {*graph.floors}
    assert not missing, f"FLOORS in docs/module_graph.py names what is not there: {missing}"
    rooms = [
        room for room in module_graph.ROOMS_OF_PATHS if not any(f"{name}.".startswith(f"{room}.") for name in graph.modules)
    ]
    assert not rooms, f"ROOMS_OF_PATHS in docs/module_graph.py names what is not there: {rooms}"


def test_no_import_points_up(graph):
    up = [f"{one}, from {graph.floor(one.source)} up to {graph.floor(one.target)}" for one in graph.imports_up()]
    assert not up, "a module knows its own floor and those below it (FLOORS in docs/module_graph.py):" + listed(up)


def test_no_modules_import_one_another_in_a_circle(graph):
    circles = graph.circles()
    assert not circles, listed(circles)


def test_no_folders_import_one_another_in_a_circle(graph):
    circles = graph.folder_circles()
    assert not circles, listed(circles)


def test_a_name_is_that_of_one_module(graph):
    shared = graph.shared_names()
    assert not shared, listed(f"{name}: {', '.join(module.path for module in shared[name])}" for name in shared)


def test_expressions_know_nothing_of_the_engine(graph):
    found = [
        one for one in graph.imports if one.source.startswith("rpq.automata") and not one.target.startswith("rpq.automata")
    ]
    assert not found, listed(found)


def test_the_package_knows_neither_spark_nor_workloads(graph):
    above = ("rpq.spark", "rpq.workloads")
    found = [one for one in graph.imports if one.target.startswith(above) and not one.source.startswith(above)]
    assert not found, listed(found)


# --- the script itself, on small trees ----------------------------------------------------------------------------


def made(folder: Path, files: dict[str, str]) -> Path:
    """A checkout with these files, and what makes it one with floors."""
    for name, content in {"rpq/compiled/kernel_cache.py": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def read(folder: Path, files: dict[str, str]):
    return module_graph.read_graph(made(folder, files))


SOUND = {
    "automata/parser.py": "import re\n",
    "rpq/stream/window.py": "from rpq.automata import parser\nfrom rpq.compiled.kernel_cache import njit\n",
    "rpq/paths/program.py": "import rpq.stream.window\n",
    "rpq/paths/index/delta.py": "from rpq.paths.program import tables\n",
    "rpq/engine.py": "def start():\n    from rpq.paths.index import delta\n",
    "spark/session.py": "from rpq.engine import start\n",
}


def test_a_sound_tree_is_sound(tmp_path):
    graph = read(tmp_path, SOUND)
    found = {(one.source, one.target, one.line, one.when) for one in graph.imports}
    assert found == {
        ("rpq.stream.window", "rpq.automata.parser", 1, "load"),
        ("rpq.stream.window", "rpq.compiled.kernel_cache", 2, "load"),
        ("rpq.paths.program", "rpq.stream.window", 1, "load"),
        ("rpq.paths.index.delta", "rpq.paths.program", 1, "load"),
        ("rpq.engine", "rpq.paths.index.delta", 2, "call"),
        ("rpq.spark.session", "rpq.engine", 1, "load"),
    }
    assert graph.floors == ("rpq.automata", "rpq.compiled", "rpq.stream", "rpq.paths", "rpq.engine", "rpq.spark")
    for rule in (graph.homeless, graph.imports_up, graph.circles, graph.folder_circles, graph.shared_names):
        assert not rule(), rule


@pytest.mark.parametrize(
    ("statement", "line", "when"),
    [
        ("from rpq.engine import start", 1, "when loaded"),
        ("import re, rpq.engine", 1, "when loaded"),
        ("from rpq import engine", 1, "when loaded"),
        ("from .. import engine", 1, "when loaded"),
        ("from ..engine import start", 1, "when loaded"),
        ("try:\n    import rpq.engine\nexcept ImportError:\n    pass", 2, "when loaded"),
        ("def f():\n    if 1:\n        import rpq.engine as e", 3, "in a function"),
        ("class A:\n    async def f(self):\n        from rpq.engine import start", 3, "in a function"),
        ("import typing\nif typing.TYPE_CHECKING:\n    from rpq.engine import start", 3, "for type checkers"),
        (
            "from importlib import import_module\nHOMES = {'start': 'rpq.engine'}\nimport_module(HOMES['start'])",
            2,
            "by its name",
        ),
        ("from importlib import import_module\nimport_module('rpq.engine:start')", 2, "by its name"),
    ],
)
def test_an_arrow_up_is_named(tmp_path, statement, line, when):
    graph = read(tmp_path, {**SOUND, "rpq/stream/values.py": f"{statement}\n"})
    assert [str(one) for one in graph.imports_up()] == [
        f"rpq/stream/values.py:{line}: rpq.stream.values → rpq.engine ({when})"
    ]
    assert [(arrow.source, arrow.target) for arrow in graph.arrows if arrow.up] == [("rpq.stream", "rpq.engine")]


def test_a_type_checker_s_else_is_loaded(tmp_path):
    text = "if TYPE_CHECKING:\n    pass\nelse:\n    import rpq.engine\n"
    assert [one.when for one in read(tmp_path, {**SOUND, "rpq/stream/values.py": text}).imports_up()] == ["load"]


def test_an_arrow_up_inside_paths_is_named(tmp_path):
    graph = read(tmp_path, {**SOUND, "rpq/paths/program.py": "from rpq.paths.index import delta\n"})
    assert listed(graph.imports_up()) == "\nrpq/paths/program.py:1: rpq.paths.program → rpq.paths.index.delta (when loaded)"


def test_circles_are_named_with_their_imports(tmp_path):
    graph = read(
        tmp_path,
        {
            "rpq/stream/first.py": "import rpq.stream.second\nimport rpq.stream.third\n",
            "rpq/stream/second.py": "import rpq.stream.third\n",
            "rpq/stream/third.py": "\nfrom rpq.stream import first\n",
            "rpq/files/one.py": "def f():\n    import rpq.files.other\n",
            "rpq/files/other.py": "import rpq.files.one\n",
        },
    )
    assert listed(graph.circles()).splitlines()[1:] == [
        "circle:",
        "    rpq/stream/first.py:2: rpq.stream.first → rpq.stream.third (when loaded)",
        "    rpq/stream/third.py:2: rpq.stream.third → rpq.stream.first (when loaded)",
    ]
    assert [{one.source for one in circle} for circle in graph.circles(lazy=True)] == [
        {"rpq.files.one", "rpq.files.other"},
        {"rpq.stream.first", "rpq.stream.third"},
    ]
    assert graph.folder_circles() == [] == graph.imports_up()


def test_circles_of_folders_need_no_circle_of_modules(tmp_path):
    graph = read(
        tmp_path,
        {
            "rpq/readers/__init__.py": "import rpq.readers.text.lines\n",
            "rpq/readers/text/lines.py": "from rpq.readers.kinds import Kind\n",
            "rpq/readers/text/loose.py": "import rpq.readers\n",
            "rpq/readers/kinds.py": "def f():\n    import rpq.readers.text.loose\n",
        },
    )
    assert graph.circles() == [] and graph.imports_up() == []
    (circle,) = graph.folder_circles()
    assert {str(one) for one in circle} == {
        "rpq/readers/text/lines.py:1: rpq.readers.text.lines → rpq.readers.kinds (when loaded)",
        "rpq/readers/kinds.py:2: rpq.readers.kinds → rpq.readers.text.loose (in a function)",
    }


def test_a_circle_of_folders_goes_through_a_folder(tmp_path):
    graph = read(
        tmp_path,
        {
            "rpq/cli/a.py": "def f():\n    import rpq.cli.b\n",
            "rpq/cli/b.py": "import rpq.cli.a, rpq.cli.outputs.deep.sink\n",
            "rpq/cli/outputs/deep/sink.py": "import rpq.cli.outputs.plain.sheet\ndef f():\n    import rpq.cli.a\n",
            "rpq/cli/outputs/plain/sheet.py": "def f():\n    import rpq.cli.outputs.deep.sink\n",
        },
    )
    assert [[one.source for one in circle] for circle in graph.folder_circles()] == [
        ["rpq.cli.outputs.deep.sink", "rpq.cli.a", "rpq.cli.b"],
        ["rpq.cli.outputs.deep.sink", "rpq.cli.outputs.plain.sheet"],
    ]


def test_a_name_that_stands_twice_is_named_but_for_those_that_may(tmp_path):
    files = [f"{folder}/{name}.py" for folder in ("rpq/cli", "spark") for name in ("__init__", "errors", "cli", "command")]
    graph = read(tmp_path, dict.fromkeys([*files, "rpq/readers/layout.py", "spark/layout.py"], ""))
    assert {name: [module.path for module in found] for name, found in graph.shared_names().items()} == {
        "layout": ["rpq/readers/layout.py", "spark/layout.py"]
    }


def test_a_module_without_a_floor_is_named(tmp_path):
    graph = read(
        tmp_path, {**SOUND, "rpq/stray.py": "", "rpq/enginery/part.py": "", "rpq/__init__.py": "import rpq.stray\n"}
    )
    assert [module.path for module in graph.homeless()] == ["rpq/enginery/part.py", "rpq/stray.py"]


def test_links_are_not_followed(tmp_path):
    made(tmp_path, {"automata/parser.py": "", "rpq/engine.py": ""})
    (tmp_path / "rpq" / "automata").symlink_to("../automata", target_is_directory=True)
    graph = module_graph.read_graph(tmp_path)
    assert {module.path for module in graph.modules.values()} == {
        "automata/parser.py",
        "rpq/engine.py",
        "rpq/compiled/kernel_cache.py",
    }
    assert "rpq.automata.parser" in graph.modules


def test_a_tree_without_floors_is_told_by_its_folders(tmp_path):
    files = {
        "rpq/engine.py": "import rpq.index.delta\nimport rpq.index.rows\n",
        "rpq/index/delta.py": "import rpq.window\n",
        "rpq/index/rows.py": "",
        "rpq/window.py": "import rpq.automata.parser, rpq.index.rows\n",
        "automata/parser.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = module_graph.read_graph(tmp_path)
    assert graph.floors == ("rpq.automata", "rpq.index", "rpq")
    assert [str(one) for one in graph.imports_up()] == ["rpq/index/delta.py:1: rpq.index.delta → rpq.window (when loaded)"]
    assert len(graph.folder_circles()) == 1


def test_the_script_draws_and_tells(tmp_path):
    root = made(tmp_path / "checkout", {"rpq/engine.py": "", "rpq/stream/<odd>.py": "import rpq.engine\n"})
    drawing, page = tmp_path / "graph.svg", tmp_path / "page.md"
    page.write_text("Above\n<!-- modules -->\nold\n<!-- /modules -->\nbelow\n")
    command = [sys.executable, str(SCRIPT), "--root", str(root), "--svg", str(drawing), "--text", str(page)]
    subprocess.run(command, check=True, cwd=tmp_path)
    title = "rpq.stream imports rpq.engine; pairs of modules: 1, of these only late: 0"
    shown = {element.text for element in ElementTree.parse(drawing).iter() if element.text}
    assert {title, "<odd>", "engine", "kernel_cache", "1 import points up", "no circle of modules"} <= shown
    text = page.read_text()
    assert text.startswith("Above\n<!-- modules -->\n| floor |") and text.endswith("\n<!-- /modules -->\nbelow\n")
    assert "- rpq/stream/<odd>.py:1: rpq.stream.<odd> → rpq.engine (when loaded)\n" in text and "\nold\n" not in text


def test_a_folder_without_modules_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "has no modules in rpq, automata, spark, workloads" in done.stderr


def test_tests_name_each_other_as_they_are_found() -> None:
    """A module of tests that cannot be imported would be left out in silence, as one whose doctests need an extra."""
    stems = {path.stem for path in (ROOT / "tests").glob("*.py")}
    for path in sorted((ROOT / "tests").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not stems.intersection(name.partition(".")[0] for name in named), (path.name, named)
