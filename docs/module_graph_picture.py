"""The module graph as an SVG: floors above one another, with their modules, and arrows for imports between floors.

Arrows are on the right, from each floor to the floors from which it imports. The picture has its own background, light or
dark according to the reader's setting.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from module_graph import Arrow, Graph, Module

WIDTH = 1120
MARGIN = 24
RIGHT_FOR_ARROWS = 250
NAME_WIDTH = 158
CHIP_HEIGHT = 21
GAP = 6
BETWEEN_FLOORS = 15
CHARACTER = 6.63
"""The width of a letter in the names of modules, which are in a monospaced font."""

LONG_FILE = 500
"""The number of lines at which the bar of a file is as long as its box."""

WORTH_A_NUMBER = 3
"""The number of pairs of modules from which on an arrow is labelled with the number."""

STYLE = """
  svg { --back: #fbfbfd; --edge: #d9dce3; --text: #1f2430; --soft: #697184; --box: #ffffff;
        --band: 93%; --strong: 50%; --line: 46%; }
  @media (prefers-color-scheme: dark) {
    svg { --back: #14171f; --edge: #2b303c; --text: #e4e8f0; --soft: #98a1b5; --box: #1c212c;
          --band: 16%; --strong: 34%; --line: 66%; } }
  text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--text); }
  .module { font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .folder { font-style: italic; fill: var(--soft); }
  .soft { fill: var(--soft); font-size: 11px; } .size { font-size: 10px; }
  .count { font-size: 10px; font-weight: 600; paint-order: stroke; stroke: var(--back); stroke-width: 3px; }
  .box { fill: var(--box); stroke: var(--edge); }
  .arrow { fill: none; opacity: .6; } .head { stroke: none; opacity: .9; }
  g.way:hover .arrow { opacity: 1; } g.way:hover .count { font-size: 13px; }
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A floor in the picture."""

    floor: str
    hue: int
    top: float
    height: float
    content: str


@dataclass(frozen=True, kw_only=True)
class Port:
    """The points at which arrows meet a floor: pixels below its top, by the floor at their other end."""

    out: dict[str, float]
    into: dict[str, float]


def picture(graph: Graph) -> str:
    """Return the drawing of a graph."""
    left, right = MARGIN, WIDTH - RIGHT_FOR_ARROWS
    rows: dict[str, Row] = {}
    top = 72.0
    floors = tuple(reversed(graph.floors))
    for number, floor in enumerate(floors):
        content, height = _chips(graph.on_floor(floor), floor, left + NAME_WIDTH, right - 10)
        height = max(height, 46.0, _height_of_ports(floor, graph.arrows))
        hue = round(285 - 250 * number / max(len(floors) - 1, 1)) % 360
        rows[floor] = Row(floor=floor, hue=hue, top=top, height=height, content=content)
        top += height + BETWEEN_FLOORS
    body = [_heading(graph), *(_floor(graph, row, left, right) for row in rows.values())]
    body += _arrows(graph.arrows, rows, right, WIDTH - MARGIN - right)
    body.append(_legend(top + 12))
    height = round(top + 44)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    back = f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="12" fill="var(--back)" stroke="var(--edge)"/>'
    return "\n".join([head, "<title>Imports between modules</title>", f"<style>{STYLE}</style>", back, *body, "</svg>\n"])


def _heading(graph: Graph) -> str:
    lines = sum(module.lines for module in graph.modules.values())
    return "\n".join(
        [
            f'<text x="{MARGIN}" y="38" font-size="20" font-weight="650">Imports between modules</text>',
            (
                f'<text x="{MARGIN}" y="57" class="soft">{len(graph.modules)} modules, {lines:,} lines, '
                f"{graph.pairs} imports of one module by another; modules that users call are at the top</text>"
            ),
        ]
    )


def _chips(modules: list[Module], floor: str, left: float, right: float) -> tuple[str, float]:
    """Return the boxes of the modules of a floor from y = 0, with separate lines for each folder, and their height."""
    x, y, drawn = left, 10.0, []
    for folder, inside in groupby(sorted(modules, key=lambda module: _place(module, floor)), lambda m: _place(m, floor)[0]):
        if x > left:
            x, y = left, y + CHIP_HEIGHT + GAP
        if folder:
            drawn.append(f'<text class="module folder" x="{x:.1f}" y="{y + 14.5:.1f}">{escape(folder)}/</text>')
            x += (len(folder) + 2) * CHARACTER
        indent = x
        for module in inside:
            width = len(module.last_name) * CHARACTER + 14
            if x + width > right:
                x, y = indent, y + CHIP_HEIGHT + GAP
            bar = (width - 8) * min(module.lines / LONG_FILE, 1)
            drawn.append(
                f"<g><title>{escape(module.name)}: {module.lines} lines</title>"
                f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
                f' height="{CHIP_HEIGHT}" rx="4"/>'
                f'<rect class="bar" x="{x + 4:.1f}" y="{y + CHIP_HEIGHT - 4:.1f}" width="{bar:.1f}" height="2" rx="1"/>'
                f'<text class="module" x="{x + 7:.1f}" y="{y + 13.5:.1f}">{escape(module.last_name)}</text></g>'
            )
            x += width + GAP
    return "\n".join(drawn), y + CHIP_HEIGHT + 10


def _place(module: Module, floor: str) -> tuple[str, str]:
    """Return the folder of a module inside its floor, and the name of the module."""
    inside = module.name.removeprefix(floor).lstrip(".").split(".")
    folders = inside if module.last_name == "__init__" else inside[:-1]
    return "/".join(filter(None, folders)), module.last_name


def _floor(graph: Graph, row: Row, left: float, right: float) -> str:
    modules = graph.on_floor(row.floor)
    lines = sum(module.lines for module in modules)
    count = f"{len(modules)} modules" if len(modules) > 1 else "1 module"
    line = f"hsl({row.hue} 55% var(--line))"
    return "\n".join(
        [
            f'<g transform="translate(0 {row.top:.1f})" style="--own: {line}">',
            (
                f'<rect x="{left}" width="{right - left}" height="{row.height:.1f}" rx="8"'
                f' style="fill: hsl({row.hue} var(--strong) var(--band)); stroke: var(--own); stroke-opacity: .55"/>'
            ),
            f'<rect x="{left}" y="8" width="4" height="{row.height - 16:.1f}" rx="2" style="fill: var(--own)"/>',
            f'<text x="{left + 14}" y="24" font-size="13.5" font-weight="650">{escape(row.floor)}</text>',
            f'<text x="{left + 14}" y="39" class="soft size">{count} · {lines:,} lines</text>',
            row.content.replace('class="bar"', 'style="fill: var(--own)"'),
            "</g>",
        ]
    )


def _thickness(pairs: int) -> float:
    return 0.7 + 0.6 * math.sqrt(pairs)


def _height_of_ports(floor: str, arrows: Sequence[Arrow]) -> float:
    """Return the height that the arrows of a floor need."""
    return sum(_thickness(arrow.pairs) + 2.5 for arrow in arrows if floor in (arrow.source, arrow.target)) + 12


def _ports(row: Row, arrows: list[Arrow], rank: Callable[[str], int]) -> Port:
    """Place the ends of arrows so that the arrows nest.

    From above, incoming arrows are first, the nearest first, followed by outgoing arrows, the farthest first.
    """
    into = [arrow for arrow in arrows if arrow.target == row.floor]
    out = [arrow for arrow in arrows if arrow.source == row.floor]
    into.sort(key=lambda arrow: abs(rank(arrow.source) - rank(row.floor)))
    out.sort(key=lambda arrow: abs(rank(arrow.target) - rank(row.floor)), reverse=True)
    ordered = [*into, *out]
    free = row.height - 10 - sum(_thickness(arrow.pairs) for arrow in ordered)
    space = min(free / (len(ordered) + 1), 9.0)
    used = sum(_thickness(arrow.pairs) for arrow in ordered) + space * (len(ordered) + 1)
    y, port = (row.height - used) / 2 + space, Port(out={}, into={})
    for arrow in ordered:
        y += _thickness(arrow.pairs) / 2
        if arrow.target == row.floor:
            port.into[arrow.source] = row.top + y
        else:
            port.out[arrow.target] = row.top + y
        y += _thickness(arrow.pairs) / 2 + space
    return port


def _arrows(arrows: Sequence[Arrow], rows: dict[str, Row], edge: float, room: float) -> list[str]:
    """Return arrows as curves on the right of the floors, from and to x = `edge`, at most `room` wide."""
    order = list(rows)
    by_floor: dict[str, list[Arrow]] = defaultdict(list)
    for arrow in arrows:
        by_floor[arrow.source].append(arrow)
        by_floor[arrow.target].append(arrow)
    ports = {floor: _ports(rows[floor], by_floor[floor], order.index) for floor in by_floor}
    ends = {arrow: (ports[arrow.source].out[arrow.target], ports[arrow.target].into[arrow.source]) for arrow in arrows}
    farthest = max((abs(b - a) for a, b in ends.values()), default=1.0)
    drawn = []
    for arrow in sorted(arrows, key=lambda arrow: -abs(ends[arrow][0] - ends[arrow][1])):
        start, end = ends[arrow]
        # A curve extends three quarters as far as its control points.
        reach = (26 + (room - 34) * (abs(end - start) / farthest) ** 0.75) / 0.75
        colour = f"hsl({rows[arrow.source].hue} 60% var(--line))"
        thick = _thickness(arrow.pairs)
        head = 4 + thick * 0.8
        tip = edge + head
        label = f"{arrow.source} imports {arrow.target}; pairs of modules: {arrow.pairs}"
        x, y = edge + 0.75 * reach, (start + end) / 2 + 3.5
        number = (
            f'<text class="count" x="{x:.1f}" y="{y:.1f}" text-anchor="middle" style="fill: {colour}">{arrow.pairs}</text>'
        )
        number = number if arrow.pairs >= WORTH_A_NUMBER else ""
        drawn.append(
            f'<g class="way"><title>{escape(label)}</title>'
            f'<path class="arrow" d="M{edge:.1f} {start:.1f}C{edge + reach:.1f} {start:.1f} {edge + reach:.1f}'
            f' {end:.1f} {tip:.1f} {end:.1f}" style="stroke: {colour}" stroke-width="{thick:.1f}"/>'
            f'<path class="head" d="M{edge:.1f} {end:.1f}l{head * 1.3:.1f} {-head * 0.75:.1f}v{head * 1.5:.1f}z"'
            f' style="fill: {colour}"/>'
            f"{number}</g>"
        )
    return drawn


def _legend(y: float) -> str:
    entries = [
        (
            (
                '<rect class="box" width="26" height="14" rx="3"/>'
                '<rect x="4" y="9.5" width="13" height="2" style="fill: var(--soft)"/>'
            ),
            f"bar: length of the file (full: {LONG_FILE} lines)",
        ),
        ('<path d="M0 7h26" class="arrow" style="stroke: var(--soft)" stroke-width="4"/>', "number: pairs of modules"),
    ]
    x, drawn = float(MARGIN), []
    for sign, text in entries:
        drawn.append(f'<g transform="translate({x:.0f} {y:.0f})">{sign}<text x="33" y="11" class="soft">{text}</text></g>')
        x += 33 + len(text) * 5.6 + 22
    return "\n".join(drawn)
