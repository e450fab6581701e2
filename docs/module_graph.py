"""Who imports whom: the floors of the project, what breaks their order, and a picture.

    python docs/module_graph.py [--root DIR] [--svg FILE] [--text FILE]

`FLOORS` is the one place where their order is written; `tests/test_imports.py` holds the project to it. Modules are read,
not imported, so that any checkout will do. One from before there were floors is drawn by its folders, in the order in
which the fewest imports point up.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

FLOORS = (
    "rpq.automata",
    "rpq.errors",
    "rpq.files",
    "rpq.compiled",
    "rpq.arrays",
    "rpq.stream",
    "rpq.results",
    "rpq.queries",
    "rpq.paths",
    "rpq.patterns",
    "rpq.sparql",
    "rpq.running",
    "rpq.state",
    "rpq.engine",
    "rpq.warmup",
    "rpq",
    "rpq.readers",
    "rpq.kafka",
    "rpq.cli",
    "rpq.serve",
    "rpq.workloads",
    "rpq.spark",
)
"""From the ground up: a module imports from its own floor and from those before it. `rpq` is `rpq/__init__.py` alone."""

ROOMS_OF_PATHS = ("rpq.paths.program", "rpq.paths.index", "rpq.paths.simple", "rpq.paths.path_query")
"""The same inside `rpq.paths`: the automaton as tables, the index over it, the judge of simple paths, a running query."""

SHARED_NAMES = frozenset({"__init__", "__main__", "errors", "cli", "command"})
"""What several modules may be called; every other name is that of one module."""

NOWHERE = "no floor"
TOP_FOLDERS = ("rpq", "automata", "spark", "workloads")

MARKS = ("<!-- modules -->", "<!-- /modules -->")

When = Literal["load", "call", "types", "name"]
"""When an import happens: as the module is loaded, in a call, for type checkers alone, or by its name as a string."""

IN_WORDS = {"load": "when loaded", "call": "in a function", "types": "for type checkers", "name": "by its name"}


@dataclass(frozen=True, kw_only=True)
class Module:
    """A file of Python, under the name by which it is imported."""

    name: str
    path: str
    lines: int

    @property
    def last_name(self) -> str:
        return Path(self.path).stem


@dataclass(frozen=True, kw_only=True)
class Import:
    """One statement by which the module `source` brings in the module `target`."""

    source: str
    target: str
    path: str
    line: int
    when: When

    @property
    def lazy(self) -> bool:
        return self.when != "load"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.source} → {self.target} ({IN_WORDS[self.when]})"


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """All that the floor `source` imports from the floor `target`: pairs of modules, those that are only lazy apart."""

    source: str
    target: str
    pairs: int
    lazy_pairs: int
    up: bool


@dataclass(frozen=True)
class Graph:
    """The modules of a checkout and their imports.

    - Where modules stand: `floors`, `floor`, `on_floor`, `arrows`
    - What breaks the order: `homeless`, `imports_up`, `circles`, `folder_circles`, `shared_names`
    """

    modules: dict[str, Module]
    imports: tuple[Import, ...]

    @cached_property
    def has_floors(self) -> bool:
        """Whether this tree is built by `FLOORS`, rather than one from before."""
        return any(name.startswith("rpq.compiled.") for name in self.modules)

    @cached_property
    def floors(self) -> tuple[str, ...]:
        """Those that have modules, from the ground up."""
        used = {self.floor(name) for name in self.modules}
        if self.has_floors:
            return tuple(floor for floor in (*FLOORS, NOWHERE) if floor in used)
        return _fewest_up(used, self._weights)

    def floor(self, name: str) -> str:
        """The floor on which a module stands, `NOWHERE` where there is none for it."""
        if not self.has_floors:
            return _folder(name, self.modules)
        fits = [floor for floor in FLOORS if name == floor or (floor != "rpq" and name.startswith(f"{floor}."))]
        return max(fits, key=len, default=NOWHERE)

    def on_floor(self, floor: str) -> list[Module]:
        return [module for name, module in sorted(self.modules.items()) if self.floor(name) == floor]

    @cached_property
    def _weights(self) -> dict[tuple[str, str], int]:
        """How many pairs of modules import one another from floor to floor."""
        weights: dict[tuple[str, str], int] = defaultdict(int)
        for source, target in {(found.source, found.target) for found in self.imports}:
            if self.floor(source) != self.floor(target):
                weights[self.floor(source), self.floor(target)] += 1
        return dict(weights)

    @cached_property
    def arrows(self) -> tuple[Arrow, ...]:
        """Between floors, from the top down."""
        at_load = {(found.source, found.target) for found in self.imports if not found.lazy}
        eager: dict[tuple[str, str], int] = defaultdict(int)
        for source, target in at_load:
            eager[self.floor(source), self.floor(target)] += 1
        height = {floor: number for number, floor in enumerate(self.floors)}
        ordered = sorted(self._weights.items(), key=lambda entry: (-height[entry[0][0]], -height[entry[0][1]]))
        return tuple(
            Arrow(source=a, target=b, pairs=pairs, lazy_pairs=pairs - eager[a, b], up=height[a] < height[b])
            for (a, b), pairs in ordered
        )

    def homeless(self) -> list[Module]:
        """Modules for which `FLOORS` has no floor."""
        return self.on_floor(NOWHERE) if self.has_floors else []

    def imports_up(self) -> list[Import]:
        """Every import of something that stands higher, lazy ones included: on another floor, or in `ROOMS_OF_PATHS`."""
        return [
            found
            for found in self.imports
            if _rises(self.floor(found.source), self.floor(found.target), self.floors)
            or _rises(_room(found.source), _room(found.target), ROOMS_OF_PATHS)
        ]

    def circles(self, *, lazy: bool = False) -> list[list[Import]]:
        """Modules that import one another, a shortest circle for each knot; with `lazy` also by imports that are late.

        What is late and a circle is no error to Python, and often the mark of two modules that are one.
        """
        edges: dict[str, dict[str, Import]] = defaultdict(dict)
        for found in self.imports:
            if lazy or not found.lazy:
                edges[found.source].setdefault(found.target, found)
        knots = knotted({source: set(targets) for source, targets in edges.items()})
        return [[edges[a][b] for a, b in _shortest_circle(knot, knot, edges)] for knot in knots]

    def folder_circles(self) -> list[list[Import]]:
        """Folders that import one another, or a folder and a module beside it; every kind of import counts.

        Of all that stands in one folder, each folder is looked at as one. The `__init__` of the folder itself, which
        passes on what is in it, is not; nor are modules alone, which `circles` has.
        """
        circles = []
        names = [name.split(".") for name in self.modules]
        for folder in sorted({".".join(parts[:end]) for parts in names for end in range(1, len(parts))}):
            edges: dict[str, dict[str, Import]] = defaultdict(dict)
            for found in self.imports:
                source, target = _below(folder, found.source), _below(folder, found.target)
                if source and target and source != target:
                    edges[source].setdefault(target, found)
            for knot in knotted({source: set(targets) for source, targets in edges.items()}):
                folders = {name for name in knot if name not in self.modules or self.modules[name].last_name == "__init__"}
                if folders:
                    circles.append([edges[a][b] for a, b in _shortest_circle(folders, knot, edges)])
        return circles

    def shared_names(self) -> dict[str, list[Module]]:
        """The modules that have their last name with others in common, but for the names that may be shared."""
        by_name: dict[str, list[Module]] = defaultdict(list)
        for module in self.modules.values():
            by_name[module.last_name].append(module)
        return {name: by_name[name] for name in sorted(by_name) if len(by_name[name]) > 1 and name not in SHARED_NAMES}


def read_graph(root: Path) -> Graph:
    """Read the checkout in the folder `root`; raise `SyntaxError` for a file that is no Python."""
    sources: dict[str, tuple[Module, ast.Module]] = {}
    for path in _files(root):
        name = _module_name(path)
        text = (root / path).read_text(encoding="utf-8")
        module = Module(name=name, path=path.as_posix(), lines=text.count("\n"))
        sources[name] = (module, ast.parse(text, filename=str(path)))
    modules = {name: module for name, (module, _) in sorted(sources.items())}
    imports: dict[Import, None] = {}
    for name, module in modules.items():
        for target, line, when in _targets(sources[name][1], module, modules):
            if target != name:
                imports[Import(source=name, target=target, path=module.path, line=line, when=when)] = None
    return Graph(modules, tuple(imports))


def knotted(edges: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node, each of which every node reaches every other."""
    reached = {node: _reachable(node, edges) for node in edges}
    knots = {
        frozenset(other for other in reach if node in reached.get(other, ()))
        for node, reach in reached.items()
        if node in reach
    }
    return sorted((set(knot) for knot in knots), key=min)


def _rises(source: str, target: str, order: tuple[str, ...]) -> bool:
    """Whether `target` comes after `source`; what the order does not have is nowhere."""
    return source in order and target in order and order.index(source) < order.index(target)


def _room(name: str) -> str:
    """Which of `ROOMS_OF_PATHS` a module is or is in; empty for none."""
    return next((room for room in ROOMS_OF_PATHS if f"{name}.".startswith(f"{room}.")), "")


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _shortest_circle(starts: set[str], knot: set[str], edges: dict[str, dict[str, Import]]) -> list[tuple[str, str]]:
    """The steps of a shortest way inside the knot from some node of `starts` back to it."""
    best: list[str] = []
    for start in sorted(starts):
        ways = [[start]]
        while ways and not (best and len(ways[0]) + 1 >= len(best)):
            longer = [[*way, node] for way in ways for node in sorted(edges[way[-1]]) if node in knot]
            if back := next((way for way in longer if way[-1] == start), None):
                best = back
                break
            # One way to each node is enough.
            ways = list({way[-1]: way for way in reversed(longer) if way[-1] not in way[:-1]}.values())
    return list(pairwise(best))


def _below(folder: str, name: str) -> str:
    """The child of `folder` that `name` is or is in; empty where it is elsewhere, or the folder itself."""
    if not name.startswith(f"{folder}."):
        return ""
    return f"{folder}.{name[len(folder) + 1 :].partition('.')[0]}"


def _folder(name: str, modules: dict[str, Module]) -> str:
    """The folder, at most two levels down, that a module stands in."""
    parts = name.split(".")
    in_folder = len(parts) > 2 or modules[name].last_name == "__init__"
    return ".".join(parts[:2] if in_folder else parts[:1])


def _fewest_up(floors: Iterable[str], weights: dict[tuple[str, str], int]) -> tuple[str, ...]:
    """The order from the ground up in which the fewest imports point up, those that do least far, and the rest not far.

    Finds the best order of each set of lowest floors: O(2^n · n²) for n floors.
    """
    names = sorted(floors)
    best: dict[frozenset[str], tuple[int, int, int, tuple[str, ...]]] = {frozenset(): (0, 0, 0, ())}
    for _ in names:
        longer: dict[frozenset[str], tuple[int, int, int, tuple[str, ...]]] = {}
        for lowest, (up, up_length, down_length, order) in best.items():
            for name in (name for name in names if name not in lowest):
                key = lowest | {name}
                higher = [other for other in names if other not in key]
                pointing_up = sum(weights.get((name, other), 0) for other in higher)
                rising = sum(weights.get((a, b), 0) for a in key for b in higher)
                falling = sum(weights.get((b, a), 0) for a in key for b in higher)
                candidate = (up + pointing_up, up_length + rising, down_length + falling, (*order, name))
                longer[key] = min(longer.get(key, candidate), candidate)
        best = longer
    return best[frozenset(names)][-1]


def _files(root: Path) -> Iterator[Path]:
    """The modules below `root`, what is behind the links in `rpq/` only where it is."""
    for top in TOP_FOLDERS:
        for folder, folders, files in os.walk(root / top, followlinks=False):
            folders.sort()
            yield from (Path(folder, file).relative_to(root) for file in sorted(files) if file.endswith(".py"))


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "rpq" else ("rpq", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(tree: ast.Module, module: Module, modules: dict[str, Module]) -> Iterator[tuple[str, int, When]]:
    """The modules of the project that a file imports, with line and moment."""
    by_name = any(isinstance(node, ast.Name) and node.id == "import_module" for node in ast.walk(tree))
    waiting: list[tuple[ast.AST, When]] = [(tree, "load")]
    while waiting:
        node, when = waiting.pop(0)
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from ((name, node.lineno, when) for name in _known(alias.name, modules))
            case ast.ImportFrom(names=names):
                origin = _origin(node, module)
                for alias in names:
                    known = _known(f"{origin}.{alias.name}", modules)
                    yield from ((name, node.lineno, when) for name in known)
            case ast.Constant(value=str(text)) if by_name and "." in text and text.partition(":")[0] in modules:
                yield text.partition(":")[0], node.lineno, "name"
            case ast.If(test=test) if _is_type_checking(test):
                waiting.extend((child, "types") for child in node.body)
                waiting.extend((child, when) for child in node.orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                waiting.extend((child, "call") for child in ast.iter_child_nodes(node))
            case _:
                waiting.extend((child, when) for child in ast.iter_child_nodes(node))


def _known(name: str, modules: dict[str, Module]) -> list[str]:
    """The module that `name` is or is in; a folder without `__init__` is none."""
    if not name.startswith("rpq"):
        return []
    return [found for found in (name, name.rpartition(".")[0]) if found in modules][:1]


def _origin(node: ast.ImportFrom, module: Module) -> str:
    """The module from which a statement imports, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.last_name == "__init__" else module.name.split(".")[:-1]
    parts = package[: len(package) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name | ast.Attribute) and ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def as_text(graph: Graph) -> str:
    """The graph in Markdown: floors, arrows, and what breaks the order."""
    arrows = graph.arrows
    below: dict[str, list[str]] = defaultdict(list)
    for arrow in arrows:
        below[arrow.source].append(f"{'**↑** ' if arrow.up else ''}{arrow.target} {arrow.pairs}")
    lines = [
        "| floor | modules | lines | longest | imports from (pairs of modules; ↑ stands higher) |",
        "|---|---:|---:|---|---|",
    ]
    for floor in reversed(graph.floors):
        modules = graph.on_floor(floor)
        longest = max(modules, key=lambda module: module.lines)
        count = sum(module.lines for module in modules)
        lines.append(
            f"| {floor} | {len(modules)} | {count:,} | {longest.last_name} {longest.lines} | {', '.join(below[floor])} |"
        )
    up, shared = graph.imports_up(), graph.shared_names()
    at_load, with_lazy = graph.circles(), graph.circles(lazy=True)
    pairs = {(found.source, found.target): found.lazy for found in sorted(graph.imports, key=lambda found: not found.lazy)}
    lines += [
        "",
        (
            f"{len(graph.modules)} modules, {sum(module.lines for module in graph.modules.values()):,} lines,"
            f" {len(pairs)} pairs of modules of which one imports the other ({sum(pairs.values())} only late: in a function,"
            " for type checkers, by name)."
        ),
        "",
        *_section("Statements whose import points up", [str(found) for found in up]),
        *_section("Circles of modules as they are loaded", _ways(at_load)),
        *_section("Circles of modules, late imports included", _ways(with_lazy)),
        *_section("Circles of folders, late imports included", _ways(graph.folder_circles())),
        *_section("Names that several modules have", [_shared(name, shared[name]) for name in shared]),
        *_section("Modules without a floor", [module.path for module in graph.homeless()]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return [f"{title}: none.", ""]
    return [f"{title}: {len(entries)}.", "", *(f"- {entry}" for entry in entries), ""]


def _ways(circles: list[list[Import]]) -> list[str]:
    """Circles in one line each; between folders the next step may begin in another module than the last one ended in."""
    texts = []
    for circle in circles:
        text = circle[0].source
        for before, step in zip([None, *circle], circle, strict=False):
            text += f", {step.source}" if before and before.target != step.source else ""
            text += f" → {step.target}"
        texts.append(text)
    return texts


def _shared(name: str, modules: list[Module]) -> str:
    return f"`{name}`: {', '.join(module.path for module in modules)}"


def between_marks(page: str, text: str) -> str:
    """The page with `text` in place of what stands between its marks; `text` alone where it has none."""
    head, opening, rest = page.partition(MARKS[0])
    _, closing, tail = rest.partition(MARKS[1])
    return f"{head}{opening}\n{text}{closing}{tail}" if closing else text


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw and describe who imports whom.")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout (default: this one)"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="where the picture goes")
    text_help = f"where the tables go, in a page between {MARKS[0]} and {MARKS[1]} (default: standard output)"
    parser.add_argument("--text", type=Path, metavar="FILE", help=text_help)
    arguments = parser.parse_args()
    graph = read_graph(arguments.root)
    if not graph.modules:
        parser.error(f"{arguments.root} has no modules in {', '.join(TOP_FOLDERS)}: name the folder that holds them")
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
