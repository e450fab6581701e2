"""Pictures of automata and patterns: by Graphviz where its program `dot` is installed, else by matplotlib."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rpq.errors import install_command

if TYPE_CHECKING:
    from rpq import automata

RADIUS = 0.22


class CannotDraw(Exception):
    """Neither Graphviz nor matplotlib is there."""


def draw(dfa: automata.DFA, kind: str) -> bytes:
    """Return a picture, `kind` "svg" or "png"; raise `CannotDraw` where nothing that draws is installed."""
    return draw_graph(dfa.to_dot(), lambda figure: fill_figure(figure, dfa), kind)


def draw_graph(dot: str, fill: Callable[[Any], None], kind: str) -> bytes:
    """A picture of what Graphviz draws of a text, or what `fill` puts into a figure of matplotlib."""
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run([program, f"-T{kind}"], input=dot.encode(), capture_output=True, check=False)
        if done.returncode:
            raise CannotDraw(f"Graphviz failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CannotDraw(
            f"no picture: it needs Graphviz (its program `dot`) or matplotlib ({install_command('plot')}); "
            "--dot FILE writes it for Graphviz"
        ) from error
    figure = Figure()
    fill(figure)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=150)
    return out.getvalue()


def fill_figure(figure: Any, dfa: automata.DFA) -> None:
    """Draw an automaton into an empty figure."""
    places = layers(dfa)
    width = 1 + max(x for x, _ in places)
    height = 1 + max(abs(y) for _, y in places) * 2
    figure.set_size_inches(1.6 * width + 0.8, 1.4 * height + 0.4)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-0.9, width - 0.3)
    axes.set_ylim(-height / 2 - 0.4, height / 2 + 0.4)
    for state, place in enumerate(places):
        circle(axes, place, RADIUS)
        if dfa.accepting[state]:
            circle(axes, place, RADIUS * 0.8)
        axes.text(*place, str(state), ha="center", va="center")
    x, y = places[0]
    arrow(axes, (x - 3 * RADIUS, y), (x, y), "", bend=0.0, shrink=(0, 1))
    for (state, target), label in edges(dfa).items():
        if state == target:
            loop(axes, places[state], label)
        else:
            (x, _), (u, _) = places[state], places[target]
            bend = 0.25 if u - x != 1 or (target, state) in edges(dfa) else 0.0
            arrow(axes, places[state], places[target], label, bend=bend)


def layers(dfa: automata.DFA) -> list[tuple[float, float]]:
    """A place for each state: to the right by its distance from the start, those of one distance below each other."""
    distance = {0: 0}
    queue = [0]
    for state in queue:
        for target in dfa.transitions[state]:
            if target >= 0 and int(target) not in distance:
                distance[int(target)] = distance[state] + 1
                queue.append(int(target))
    columns: dict[int, list[int]] = {}
    for state in queue:
        columns.setdefault(distance[state], []).append(state)
    places = [(0.0, 0.0)] * len(dfa.accepting)
    for x, states in columns.items():
        for row, state in enumerate(states):
            places[state] = (float(x), (len(states) - 1) / 2 - row)
    return places


def edges(dfa: automata.DFA) -> dict[tuple[int, int], str]:
    """The arrows of the drawing, each with all its labels."""
    labels: dict[tuple[int, int], list[str]] = {}
    for state, row in enumerate(dfa.transitions):
        for column, target in enumerate(row):
            if target >= 0:
                labels.setdefault((state, int(target)), []).append(str(dfa.symbols[column]))
    return {ends: "|".join(words) for ends, words in labels.items()}


def circle(axes: Any, place: tuple[float, float], radius: float) -> None:
    """A circle."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, radius, fill=False))


def arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    label: str,
    *,
    bend: float,
    shrink: tuple[float, float] = (1, 1),
    style: str = "solid",
) -> None:
    """An arrow with a label beside it; `shrink` says how many radii of its ends are left free."""
    from matplotlib.patches import FancyArrowPatch

    length = math.dist(start, end)
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    ends = [
        (point[0] + sign * RADIUS * near * along[0], point[1] + sign * RADIUS * near * along[1])
        for point, sign, near in ((start, 1, shrink[0]), (end, -1, shrink[1]))
    ]
    axes.add_patch(
        FancyArrowPatch(
            ends[0], ends[1], arrowstyle="-|>", mutation_scale=12, color="black", connectionstyle=f"arc3,rad={-bend}",
            linestyle=style,
        )
    )
    middle = [(start[axis] + end[axis]) / 2 for axis in (0, 1)]
    off = bend * length / 2 + 0.1
    axes.text(
        middle[0] - along[1] * off,
        middle[1] + along[0] * off,
        label,
        ha="center",
        va="center",
        fontsize=9,
        parse_math=False,
    )


def loop(axes: Any, place: tuple[float, float], label: str, *, style: str = "solid") -> None:
    """An arrow from a place to itself, above it."""
    from matplotlib.patches import FancyArrowPatch

    x, y = place
    ends = [(x - RADIUS * 0.6, y + RADIUS * 0.8), (x + RADIUS * 0.6, y + RADIUS * 0.8)]
    axes.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color="black", connectionstyle="arc3,rad=-1.6")
    )
    axes.text(x, y + RADIUS * 2.6, label, ha="center", va="center", fontsize=9, parse_math=False)
