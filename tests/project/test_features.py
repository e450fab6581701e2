"""tests/FEATURES.md names every feature of the README's and the docs' tables, each with a test that plain `pytest` runs.

Test files are parsed, not collected, so that this takes a moment.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from rpq.cli import main

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "FEATURES.md"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = "Tables that are not of features"
"""The heading in the list under which they stand."""
LEFT_OUT = {"ci", "long", "skip"}
"""Marks of tests that plain `pytest` does not run."""

# --- tables ----------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table of a text: the heading of second level above it, and its cells without those of the first line."""

    section: str
    head: str
    rows: list[list[str]]
    is_filled_in: bool
    """Whether a command writes it, as it does those of measurements."""


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables(text: str) -> Iterator[Table]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    section, above = "", ""
    for block in re.split(r"\n(?!\|)|(?<!\|)\n", text):
        lines = block.splitlines()
        if block.startswith("## "):
            section = block.removeprefix("## ").strip()
        elif block.startswith("|") and len(lines) > 1 and re.fullmatch(r"[-:| ]+", lines[1]):
            is_filled_in = above.startswith("<!-- ")
            yield Table(section, cells(lines[0])[0], [cells(line) for line in lines[2:]], is_filled_in)
        above = block


def missing(listed: str, documents: dict[str, str]) -> list[str]:
    """Say what of the documents' tables the list lacks, and what it has that they have not."""
    found: dict[tuple[str, str], set[str]] = {}
    for name, text in documents.items():
        for table in tables(text):
            if not table.is_filled_in:
                found.setdefault((name, table.head), set()).update(row[0] for row in table.rows)
    named: dict[tuple[str, str], set[str]] = {}
    others: set[tuple[str, str]] = set()
    for table in tables(listed):
        if table.section == OTHERS:
            others |= {(row[0], row[1]) for row in table.rows}
        elif table.section in documents:
            named.setdefault((table.section, table.head), set()).update(row[0] for row in table.rows)
    faults = [f"{name}: the table of {head!r} is neither of features nor named as one that is not"
              for name, head in found.keys() - named.keys() - others]  # fmt: skip
    faults += [f"{name}: there is no table of {head!r}" for name, head in (named.keys() | others) - found.keys()]
    faults += [f"{name}: the table of {head!r} is said to be of features and not" for name, head in named.keys() & others]
    for name, head in found.keys() & named.keys():
        wanted, given = found[name, head], named[name, head]
        faults += [f"{name}: no test is named for {feature!r} of the table of {head!r}" for feature in wanted - given]
        faults += [f"{name}: {feature!r} is not in the table of {head!r}" for feature in given - wanted]
    return sorted(faults)


def nodes(listed: str) -> list[str]:
    """The tests that the list names, as pytest would be told of them; a cell that names none is returned as it is."""
    last = [row[-1] for table in tables(listed) if table.section != OTHERS for row in table.rows]
    return [cell.strip("`") for cell in last]


# --- tests -----------------------------------------------------------------------------------------------------------


class Module:
    """The definitions at the top level of a file of tests."""

    def __init__(self, root: Path, path: str) -> None:
        self.root = root
        self.path = path
        self.tree = ast.parse((root / path).read_text(encoding="utf-8"))
        self.names: dict[str, ast.expr | ast.FunctionDef] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self.names[node.name] = node
            elif isinstance(node, ast.Assign):
                self.names.update((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
                self.names[node.target.id] = node.value
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                file = f"{str(node.module).replace('.', '/')}.py"
                self.imported.update((one.asname or one.name, (file, one.name)) for one in node.names)

    def find(self, name: str) -> tuple[Module, ast.expr | ast.FunctionDef] | None:
        """Return the definition of a name, and the module that contains it."""
        if name in self.names:
            return self, self.names[name]
        if name in self.imported:
            file, imported_name = self.imported[name]
            return module(self.root, file).find(imported_name)
        return None

    def marks(self, node: ast.expr | None) -> set[str]:
        """The marks that an expression always has: one or a list of them, a call, a name."""
        if isinstance(node, ast.Attribute):
            return {node.attr} if ast.unparse(node.value) == "pytest.mark" else set()
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) == "pytest.mark.parametrize":
                return self.parameters(next((one.value for one in node.keywords if one.arg == "argvalues"), node.args[-1]))
            return self.marks(node.func)
        if isinstance(node, ast.List | ast.Tuple):
            return set().union(*map(self.marks, node.elts))
        if isinstance(node, ast.IfExp):
            return self.marks(node.body) & self.marks(node.orelse)
        if isinstance(node, ast.Name) and (found := self.find(node.id)) and isinstance(found[1], ast.expr):
            return found[0].marks(found[1])
        return set()

    def parameters(self, node: ast.expr) -> set[str]:
        """Marks of which each of the parameters has one, as the plain ones have none."""
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            each = [self.parameters(one.value) if isinstance(one, ast.Starred) else self._of_one(one) for one in node.elts]
            return set().union(*each) if all(each) else set()
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._of_one(node.elt)
        if isinstance(node, ast.Name) and (found := self.find(node.id)) and isinstance(found[1], ast.expr):
            return found[0].parameters(found[1])
        return set()

    def _of_one(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param":
            return self.marks(next((one.value for one in node.keywords if one.arg == "marks"), None)) & LEFT_OUT
        return set()

    def fixtures(self, test: ast.FunctionDef) -> set[str]:
        """All fixtures that a test uses, those of its fixtures too."""
        common = module(self.root, "tests/conftest.py")
        used: set[str] = set()
        waiting = [(self, one) for one in arguments(test)]
        for place in (self, common):
            waiting += [(place, name) for name, one in place.names.items()
                        if any("autouse=True" in decorator for decorator in decorators(one))]  # fmt: skip
        while waiting:
            place, name = waiting.pop()
            used.add(name)
            found = place.find(name) or common.find(name)
            if found and any(one.startswith("pytest.fixture") for one in decorators(found[1])):
                waiting += [(found[0], one) for one in arguments(found[1]) if one not in used]
        return used


def arguments(function: ast.AST) -> list[str]:
    named = [one.arg for one in function.args.args] if isinstance(function, ast.FunctionDef) else []
    for decorator in getattr(function, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.usefixtures":
            named += [ast.literal_eval(one) for one in decorator.args]
    return named


def decorators(function: ast.AST) -> list[str]:
    return [ast.unparse(one) for one in getattr(function, "decorator_list", ())]


@cache
def module(root: Path, path: str) -> Module:
    return Module(root, path)


def fault(node: str, root: Path = ROOT) -> str | None:
    """Say why a plain run of pytest has no such test, or None where it has."""
    path, _, name = node.partition("::")
    if not re.fullmatch(r"(tests/(\w+/)*test_\w+|rpq/[\w/]+)\.py::[\w.]+", node):
        return f"{node!r} is not written tests/test_x.py::test_name or rpq/x.py::rpq.x.name"
    if not (root / path).is_file():
        return f"{node}: there is no such file"
    if path.startswith("rpq/"):
        return _fault_of_doctest(node, path, name, root)
    place = module(root, path)
    test = place.names.get(name)
    if not isinstance(test, ast.FunctionDef) or not name.startswith("test_"):
        return f"{node}: there is no such test"
    if path.endswith("_real.py"):
        return f"{node}: is skipped where the real data are not"
    if any(isinstance(one, ast.keyword) and one.arg == "allow_module_level" for one in ast.walk(place.tree)):
        return f"{node}: is skipped with all of its file where something is missing"
    marks = place.marks(place.names.get("pytestmark")).union(*map(place.marks, test.decorator_list)) & LEFT_OUT  # type: ignore[arg-type]
    if marks:
        return f"{node}: is marked {', '.join(sorted(marks))}"
    heavy = place.fixtures(test) & ast.literal_eval(module(root, "tests/conftest.py").names["HEAVY"])  # type: ignore[arg-type]
    return f"{node}: is marked ci, since it uses {', '.join(sorted(heavy))}" if heavy else None


def _fault_of_doctest(node: str, path: str, name: str, root: Path) -> str | None:
    within = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if name != within and not name.startswith(f"{within}."):
        return f"{node}: a doctest of this file has a name that begins with {within}"
    found: ast.AST | None = module(root, path).tree
    for part in name.removeprefix(within).split(".")[1:]:
        body = getattr(found, "body", ())
        found = next((one for one in body if getattr(one, "name", None) == part), None)
    if not isinstance(found, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{node}: there is no such name"
    lines = re.findall(r"^\s*>>> (.*)$", ast.get_docstring(found) or "", re.MULTILINE)
    if all("+SKIP" in line or line.startswith(("import ", "from ")) for line in lines):
        return f"{node}: has no example that is run"
    return None


# --- the list --------------------------------------------------------------------------------------------------------


def test_each_feature_of_the_tables_is_in_the_list() -> None:
    documents = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    faults = missing(LIST.read_text(encoding="utf-8"), documents)
    assert not faults, "\n".join(faults)


def test_each_test_of_the_list_is_there_and_unmarked() -> None:
    named = nodes(LIST.read_text(encoding="utf-8"))
    assert len(named) > 150
    faults = [message for node in dict.fromkeys(named) if (message := fault(node))]
    assert not faults, "\n".join(faults)


def test_each_command_and_each_format_is_in_the_list() -> None:
    text = LIST.read_text(encoding="utf-8")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    commands = main.list_commands(click.Context(main))
    features = "\n".join(row[0] for table in tables(text) if table.section != OTHERS for row in table.rows)
    lacking = [name for name in commands if f"`rpq {name}" not in features]
    lacking += [name for name in groups["rpq.formats"] if f"`--format {name}`" not in features]
    assert lacking == []


# --- the check -------------------------------------------------------------------------------------------------------

PAGE = """
| what | is |
|---|---|
| `a \\| b` | this |
| c | that |

<!-- bench x columns=a -->
| figure | s |
|---|---:|
| d | 1 |

```
| no | table |
|---|---|
| e | f |
```
## Further
| word | meaning |
|---|---|
| g | h |
"""
COMPLETE = f"""
## page.md

| what | test |
|---|---|
| `a \\| b` | `tests/test_one.py::test_a` |
| c | `tests/test_one.py::test_c` |

## {OTHERS}

| document | first cell | what it is |
|---|---|---|
| page.md | word | words |
"""


def test_a_list_that_is_complete_has_no_fault() -> None:
    assert missing(COMPLETE, {"page.md": PAGE}) == []
    assert nodes(COMPLETE) == ["tests/test_one.py::test_a", "tests/test_one.py::test_c"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| c | `tests/test_one.py::test_c` |\n", "", "no test is named for 'c'"),
        ("| c |", "| cc |", "'cc' is not in the table of 'what'"),
        ("| page.md | word | words |\n", "", "the table of 'word' is neither"),
        ("| page.md | word |", "| page.md | name |", "there is no table of 'name'"),
        ("| page.md | word |", "| page.md | what | both |\n| page.md | word |", "to be of features and not"),
        ("## page.md", "## elsewhere.md", "the table of 'what' is neither"),
    ],
)
def test_what_the_list_lacks_is_told(old: str, new: str, message: str) -> None:
    assert old in COMPLETE
    assert any(message in one for one in missing(COMPLETE.replace(old, new, 1), {"page.md": PAGE}))


SMALL = {
    "tests/conftest.py": """
import pytest
HEAVY = {"broker"}
@pytest.fixture
def broker(): ...
@pytest.fixture
def topics(broker): ...
@pytest.fixture
def light(): ...
""",
    "tests/others.py": """
import pytest
@pytest.fixture
def followed(topics): ...
slow = pytest.mark.long
""",
    "tests/test_small.py": """
import pytest
from tests.others import followed, slow
MARKED = [pytest.param(1, marks=pytest.mark.ci), pytest.param(2, marks=[pytest.mark.long])]
def test_plain(light): ...
@pytest.mark.skipif(False, reason="another system")
def test_elsewhere(): ...
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_some_are_marked(n): ...
@pytest.mark.parametrize("n", [pytest.param(n, marks=[pytest.mark.ci] if n else []) for n in (0, 1)])
def test_some_may_be_marked(n): ...
@pytest.mark.ci
def test_marked(): ...
@slow
def test_marked_by_name(): ...
@pytest.mark.skip(reason="broken")
def test_skipped(): ...
@pytest.mark.parametrize("n", MARKED)
def test_all_are_marked(n): ...
@pytest.mark.parametrize("n", [*(pytest.param(n, marks=pytest.mark.long) for n in range(3))])
def test_all_drawn_are_marked(n): ...
def test_heavy(broker): ...
def test_heavy_by_another_fixture(followed): ...
@pytest.mark.usefixtures("topics")
def test_heavy_unnamed(): ...
def helper(): ...
""",
    "tests/test_all_marked.py": "import pytest\npytestmark = [pytest.mark.ci]\ndef test_it(): ...\n",
    "tests/test_data_real.py": "def test_it(): ...\n",
    "tests/test_java.py": "import pytest\npytest.skip('no Java', allow_module_level=True)\ndef test_it(): ...\n",
    "rpq/module.py": '''
class One:
    def run(self):
        """Run.

        >>> 1 + 1
        2
        """
    def read(self):
        """Read.

        >>> import rpq
        >>> rpq.read()  # doctest: +SKIP
        """
    def bare(self):
        """Do nothing."""
''',
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("small")
    for name, text in SMALL.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", ["plain", "elsewhere", "some_are_marked", "some_may_be_marked"])
def test_an_unmarked_test_has_no_fault(small: Path, name: str) -> None:
    assert fault(f"tests/test_small.py::test_{name}", small) is None


def test_a_doctest_that_is_run_has_no_fault(small: Path) -> None:
    assert fault("rpq/module.py::rpq.module.One.run", small) is None


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("tests/test_small.py::test_marked", "is marked ci"),
        ("tests/test_small.py::test_marked_by_name", "is marked long"),
        ("tests/test_small.py::test_skipped", "is marked skip"),
        ("tests/test_small.py::test_all_are_marked", "is marked ci, long"),
        ("tests/test_small.py::test_all_drawn_are_marked", "is marked long"),
        ("tests/test_small.py::test_heavy", "it uses broker"),
        ("tests/test_small.py::test_heavy_by_another_fixture", "it uses broker"),
        ("tests/test_small.py::test_heavy_unnamed", "it uses broker"),
        ("tests/test_all_marked.py::test_it", "is marked ci"),
        ("tests/test_data_real.py::test_it", "skipped where the real data are not"),
        ("tests/test_java.py::test_it", "skipped with all of its file"),
        ("tests/test_small.py::test_nothing", "no such test"),
        ("tests/test_small.py::helper", "no such test"),
        ("tests/test_none.py::test_it", "no such file"),
        ("some words", "is not written"),
        ("", "is not written"),
        ("rpq/module.py::rpq.other.One.run", "begins with rpq.module"),
        ("rpq/module.py::rpq.module.One.walk", "no such name"),
        ("rpq/module.py::rpq.module.One.read", "no example that is run"),
        ("rpq/module.py::rpq.module.One.bare", "no example that is run"),
    ],
)
def test_a_test_that_is_not_run_is_told(small: Path, node: str, message: str) -> None:
    assert message in (fault(node, small) or "no fault")
