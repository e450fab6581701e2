"""Draw the imports between modules, by floors, and write them as a table.

    python docs/module_graph.py [--root DIR] [--svg FILE] [--text FILE]

The floors and their order are those of `[tool.importlinter]` in `pyproject.toml`, which `lint-imports` enforces. grimp
analyses the modules without importing them, so the script works for any checkout with this table.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import grimp

PACKAGE = "rpq"
MARKS = ("<!-- modules -->", "<!-- /modules -->")


@dataclass(frozen=True, kw_only=True)
class Module:
    """A Python file, with the name by which it is imported."""

    name: str
    is_package: bool
    lines: int

    @property
    def last_name(self) -> str:
        return "__init__" if self.is_package else self.name.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """The imports of the floor `source` from the floor `target`, as a number of pairs of modules."""

    source: str
    target: str
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The modules of a checkout, their floors from the lowest up, and the arrows between floors from the top down."""

    modules: dict[str, Module]
    floors: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    pairs: int

    def on_floor(self, floor: str) -> list[Module]:
        """Return the modules of a floor, by name."""
        return [module for name, module in sorted(self.modules.items()) if floor_of(name) == floor]


def floor_of(name: str) -> str:
    """Return the floor of a module: the first folder or module below the package.

    >>> floor_of("rpq.operators.paths.index.rows"), floor_of("rpq")
    ('rpq.operators.paths', 'rpq')
    """
    return ".".join(name.split(".")[:2])


def read_floors(root: Path) -> tuple[str, ...]:
    """Return the floors of a checkout, from the lowest up; the package's own module is above the floors that it exports."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "floors")
    floors = [f"{PACKAGE}.{layer}" for layer in reversed(layers)]
    floors.insert(floors.index(f"{PACKAGE}.readers"), PACKAGE)
    return tuple(floors)


def read_graph(root: Path) -> Graph:
    """Read the checkout in the folder `root`."""
    sys.path.insert(0, str(root))
    try:
        imports = grimp.build_graph(PACKAGE, cache_dir=None)
    finally:
        sys.path.remove(str(root))
    modules = {}
    for name in imports.modules:
        path = root.joinpath(*name.split("."))
        is_package = path.is_dir()
        source = path / "__init__.py" if is_package else path.with_suffix(".py")
        lines = source.read_text(encoding="utf-8").count("\n") if source.exists() else 0
        modules[name] = Module(name=name, is_package=is_package, lines=lines)
    pairs = [(source, target) for source in modules for target in imports.find_modules_directly_imported_by(source)]
    weights: dict[tuple[str, str], int] = defaultdict(int)
    for source, target in pairs:
        if floor_of(source) != floor_of(target):
            weights[floor_of(source), floor_of(target)] += 1
    floors = read_floors(root)
    ordered = sorted(weights, key=lambda ends: tuple(-floors.index(floor) for floor in ends))
    arrows = tuple(Arrow(source=source, target=target, pairs=weights[source, target]) for source, target in ordered)
    return Graph(modules=modules, floors=floors, arrows=arrows, pairs=len(pairs))


def as_text(graph: Graph) -> str:
    """Return the graph in Markdown: a line for each floor, and the sums."""
    below: dict[str, list[str]] = defaultdict(list)
    for arrow in graph.arrows:
        below[arrow.source].append(f"{arrow.target} {arrow.pairs}")
    lines = ["| floor | modules | lines | longest | imports from (pairs of modules) |", "|---|---:|---:|---|---|"]
    for floor in reversed(graph.floors):
        modules = graph.on_floor(floor)
        longest = max(modules, key=lambda module: module.lines)
        count = sum(module.lines for module in modules)
        sources = ", ".join(below[floor])
        lines.append(f"| {floor} | {len(modules)} | {count:,} | {longest.last_name} {longest.lines} | {sources} |")
    total = sum(module.lines for module in graph.modules.values())
    lines += [
        "",
        (
            f"{len(graph.modules)} modules, {total:,} lines, {graph.pairs} imports of one module by another,"
            f" {len(graph.arrows)} arrows between floors."
        ),
    ]
    return "\n".join(lines) + "\n"


def between_marks(page: str, text: str) -> str:
    """Return the page with `text` between its marks, or only `text` if the page has no marks."""
    head, opening, rest = page.partition(MARKS[0])
    _, closing, tail = rest.partition(MARKS[1])
    return f"{head}{opening}\n{text}{closing}{tail}" if closing else text


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Draw and tabulate the imports between modules.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here, help="the checkout (default: this one)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="file for the picture")
    text_help = f"file for the table, in a page between {MARKS[0]} and {MARKS[1]} (default: standard output)"
    parser.add_argument("--text", type=Path, metavar="FILE", help=text_help)
    arguments = parser.parse_args()
    if not (arguments.root / PACKAGE / "__init__.py").exists():
        parser.error(f"{arguments.root} has no package {PACKAGE}")
    graph = read_graph(arguments.root)
    if arguments.svg:
        from module_graph_picture import picture

        arguments.svg.write_text(picture(graph), encoding="utf-8")
    if arguments.text:
        before = arguments.text.read_text(encoding="utf-8") if arguments.text.exists() else ""
        arguments.text.write_text(between_marks(before, as_text(graph)), encoding="utf-8")
    elif not arguments.svg:
        print(as_text(graph), end="")


if __name__ == "__main__":
    main()
