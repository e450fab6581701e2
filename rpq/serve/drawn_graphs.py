"""Small graphs as SVG that a page can take in as it is: in the page's colour, without styles and scripts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

SCALE = 80.0
"""Pixels of one unit of places."""

RADIUS, HEIGHT, LETTER, FONT = 18.0, 30.0, 8.0, 14
MARGIN = 24.0
LONGEST = 40
"""Letters of a label, at most."""

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
"""Controls, among them those that change the direction of writing, and separators of lines."""

UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f"
    "\uffa0\ufff0-\ufff8\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""What is drawn as nothing in spite of its category: fillers, selectors, the blank of Braille, and what XML refuses."""


class Part(NamedTuple):
    """A piece of a text as it is drawn: as it is, or an escape for one letter that could not be seen."""

    text: str
    is_escape: bool


@dataclass(frozen=True)
class Node:
    """A node at a place; the second number grows upwards."""

    text: str
    x: float
    y: float
    shape: Literal["circle", "double", "round", "box"]
    is_start: bool = False

    @property
    def shown(self) -> list[Part]:
        return _parts(self.text)

    @property
    def reach(self) -> tuple[float, float]:
        """Half of its width and of its height."""
        if self.shape in ("circle", "double"):
            return RADIUS, RADIUS
        return max(RADIUS, _length(self.shown) * LETTER / 2 + 8), HEIGHT / 2

    @property
    def place(self) -> tuple[float, float]:
        return self.x * SCALE, -self.y * SCALE


@dataclass(frozen=True)
class Arrow:
    """An arrow between two nodes by their numbers."""

    start: int
    end: int
    text: str
    is_dashed: bool = False


def drawn(nodes: Sequence[Node], arrows: Sequence[Arrow], *, title: str) -> str:
    """The picture; what nodes and arrows say is text in it, whatever it looks like.

    >>> picture = drawn([Node("<b>", 0, 0, "box")], [], title="one")
    >>> "&lt;b&gt;" in picture, "<b>" in picture
    (True, False)

    Nothing in a name is invisible, or changes the direction of what is beside it:

    >>> "‹U+202E›" in drawn([Node("\u202ebob", 0, 0, "box")], [], title="one")
    True
    """
    places = [node.place for node in nodes]
    together = Counter(frozenset((arrow.start, arrow.end)) for arrow in arrows)
    seen: Counter[frozenset[int]] = Counter()
    shapes: list[str] = []
    xs = [x + sign * (node.reach[0] + 14) for node, (x, _) in zip(nodes, places, strict=True) for sign in (-1, 1)]
    ys = [y + sign * (node.reach[1] + 14) for node, (_, y) in zip(nodes, places, strict=True) for sign in (-1, 1)]
    for arrow in arrows:
        ends = frozenset((arrow.start, arrow.end))
        number, seen[ends] = seen[ends], seen[ends] + 1
        if arrow.start == arrow.end:
            path, label = _loop(nodes[arrow.start], number)
        else:
            bend = _bend(arrow, nodes, number, together[ends])
            path, label = _curve(nodes[arrow.start], nodes[arrow.end], bend)
        dashes = ' stroke-dasharray="5 4"' if arrow.is_dashed else ""
        shapes.append(f'<path d="{path}" fill="none" stroke="currentColor"{dashes} marker-end="url(#rpq-{title}-tip)"/>')
        text = _parts(arrow.text)
        shapes.append(_text(label[0], label[1], text, "rpq-label", size=FONT - 2))
        half = _length(text) * LETTER / 2
        xs += [label[0] - half, label[0] + half]
        ys += [label[1] - 14, label[1] + 8]
    for node in nodes:
        shapes += _node(node, title)
        if node.is_start:
            xs.append(node.place[0] - RADIUS - 40)
    left, top = min(xs, default=0) - MARGIN, min(ys, default=0) - MARGIN
    width, height = max(xs, default=0) + MARGIN - left, max(ys, default=0) + MARGIN - top
    tip = (
        f'<defs><marker id="rpq-{title}-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={quoteattr(title)} class="rpq-drawing">'
        f"{tip}{''.join(shapes)}</svg>"
    )


def _parts(text: str) -> list[Part]:
    """A name with escapes for what could not be seen in it, as the page writes names; cut where it is long."""
    if not text:
        return [Part("‹empty›", True)]
    parts = [
        Part(f"‹U+{ord(letter):04X}›", True) if _is_unseen(text, at) else Part(letter, False)
        for at, letter in enumerate(text[: LONGEST + 1])
    ]
    return parts if len(text) <= LONGEST else [*parts[: LONGEST - 1], Part("…", False)]


def _is_unseen(text: str, at: int) -> bool:
    """Whether a letter is drawn as nothing; a blank is at the ends of a text and beside another one."""
    letter = text[at]
    if letter == " ":
        return at in (0, len(text) - 1) or text[at - 1] == " "
    category = unicodedata.category(letter)
    return category in UNSEEN_CATEGORIES or category == "Zs" or UNSEEN.match(letter) is not None


def _length(parts: list[Part]) -> int:
    return sum(len(part.text) for part in parts)


def _text(x: float, y: float, parts: list[Part], kind: str, *, size: int = FONT) -> str:
    written = "".join(
        f'<tspan class="rpq-escape" font-style="italic">{part.text}</tspan>' if part.is_escape else escape(part.text)
        for part in parts
    )
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central" font-size="{size}" '
        f'font-family="system-ui, sans-serif" fill="currentColor" unicode-bidi="isolate" class="{kind}">{written}</text>'
    )


def _node(node: Node, title: str) -> list[str]:
    x, y = node.place
    half, high = node.reach
    common = 'fill="none" stroke="currentColor" class="rpq-node"'
    shapes = []
    if node.shape in ("circle", "double"):
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" {common}/>')
        if node.shape == "double":
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS - 4}" {common}/>')
    else:
        corner = HEIGHT / 2 if node.shape == "round" else 2
        place = f'x="{x - half:.1f}" y="{y - high:.1f}" width="{2 * half:.1f}" height="{2 * high:.1f}"'
        shapes.append(f'<rect {place} rx="{corner}" {common}/>')
    if node.is_start:
        path = f"M{x - half - 36:.1f} {y:.1f}L{x - half - 2:.1f} {y:.1f}"
        shapes.append(f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#rpq-{title}-tip)"/>')
    shapes.append(_text(x, y, node.shown, "rpq-name"))
    return shapes


def _bend(arrow: Arrow, nodes: Sequence[Node], number: int, together: int) -> float:
    """How far an arrow leaves the straight line: where several join two nodes, or others lie between."""
    start, end = nodes[arrow.start], nodes[arrow.end]
    sign = 1 if arrow.start < arrow.end else -1
    if together > 1:
        return 0.22 * (number + 1) if sign > 0 or number else 0.22
    lies_between = any(
        node is not start and node is not end and abs(node.y - start.y) < 0.3 and abs(node.y - end.y) < 0.3
        and min(start.x, end.x) < node.x < max(start.x, end.x)
        for node in nodes
    )  # fmt: skip
    return 0.35 if lies_between else 0.0


def _curve(start: Node, end: Node, bend: float) -> tuple[str, tuple[float, float]]:
    """The path of an arrow from rim to rim, and where its label stands."""
    (x1, y1), (x2, y2) = start.place, end.place
    length = math.dist((x1, y1), (x2, y2)) or 1.0
    across = ((y2 - y1) / length, -(x2 - x1) / length)
    middle = ((x1 + x2) / 2 + across[0] * bend * length, (y1 + y2) / 2 + across[1] * bend * length)
    first, last = _rim(start, middle), _rim(end, middle)
    path = f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {last[0]:.1f} {last[1]:.1f}"
    top = tuple(0.25 * a + 0.5 * b + 0.25 * c for a, b, c in zip((x1, y1), middle, (x2, y2), strict=True))
    return path, (top[0] + across[0] * 12, top[1] + across[1] * 12)


def _rim(node: Node, towards: tuple[float, float]) -> tuple[float, float]:
    """Where the line to a point leaves a node."""
    x, y = node.place
    dx, dy = towards[0] - x, towards[1] - y
    length = math.hypot(dx, dy) or 1.0
    half, high = node.reach
    if node.shape in ("circle", "double"):
        reach = RADIUS
    else:
        reach = min(half * length / abs(dx) if dx else math.inf, high * length / abs(dy) if dy else math.inf)
    reach += 2
    return x + dx / length * reach, y + dy / length * reach


def _loop(node: Node, number: int) -> tuple[str, tuple[float, float]]:
    """An arrow from a node to itself, above it."""
    x, y = node.place
    _, high = node.reach
    rise = 46 + 20 * number
    top = y - high - rise
    path = f"M{x - 9:.1f} {y - high:.1f}C{x - 30:.1f} {top:.1f} {x + 30:.1f} {top:.1f} {x + 9:.1f} {y - high - 1:.1f}"
    return path, (x, y - high - rise * 0.75 - 10)
