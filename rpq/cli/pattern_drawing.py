"""Pictures of graph patterns: atoms are arrows between their terms, dashed for paths."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from rpq.cli.drawing import RADIUS, arrow, draw_graph, loop

if TYPE_CHECKING:
    from rpq.patterns.explanation import Explanation


def draw_pattern(explanation: Explanation, kind: str) -> bytes:
    """Return a picture, `kind` "svg" or "png"; raise `CannotDraw` where nothing that draws is installed."""
    return draw_graph(explanation.to_dot(), lambda figure: _fill_figure(figure, explanation), kind)


def _fill_figure(figure: Any, explanation: Explanation) -> None:
    """Terms on a circle, in the order of the text; several atoms between the same two bend away from each other."""
    places = circle_of(explanation.nodes)
    reach = max(max(map(abs, place)) for place in places.values()) + 0.9
    figure.set_size_inches(1.6 * reach + 0.8, 1.6 * reach + 0.8)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    drawn: Counter[frozenset[str]] = Counter()
    for atom in explanation.atoms:
        style = "dashed" if atom.kind == "path" else "solid"
        ends = frozenset((atom.subject, atom.object))
        if atom.subject == atom.object:
            loop(axes, places[atom.subject], atom.reads, style=style)
        else:
            bend = 0.25 * drawn[ends]
            arrow(axes, places[atom.subject], places[atom.object], atom.reads, bend=bend, shrink=(1.3, 1.3), style=style)
        drawn[ends] += 1
    for node, place in places.items():
        shape = "round" if node.startswith(("?", "_:")) else "square"
        box = {"boxstyle": f"{shape},pad=0.3", "facecolor": "white", "linestyle": ":" if node.startswith("_:") else "-"}
        axes.text(*place, node, ha="center", va="center", bbox=box, parse_math=False)


def circle_of(nodes: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Places on a circle that is wide enough; the first to the left."""
    if len(nodes) == 1:
        return {nodes[0]: (0.0, 0.0)}
    radius = max(1.0, len(nodes) * 6 * RADIUS / (2 * math.pi))
    angles = [math.pi - 2 * math.pi * number / len(nodes) for number in range(len(nodes))]
    return {
        node: (radius * math.cos(angle), radius * math.sin(angle)) for node, angle in zip(nodes, angles, strict=True)
    }
