"""The explanation of a path expression: its tree, its minimal automaton, and what holds for its paths on every graph.

`Drawing` is what is drawn of a query: the states of an automaton here, the terms of a pattern in `patterns.explanation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import rpq.automata as automata
from rpq.automata.dfa import edge_labels, state_positions
from rpq.automata.symbols import StepTests, condition_of
from rpq.operators.paths.program import CompiledExpression


class DrawnNode(NamedTuple):
    """A node of a drawing, at a place whose second coordinate grows upwards."""

    text: str
    place: tuple[float, float]
    shape: Literal["circle", "double", "round", "box"]


class DrawnArrow(NamedTuple):
    """An arrow between two nodes, given by their numbers."""

    start: int
    end: int
    text: str
    is_dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The nodes and arrows that are drawn of a query. The first node of an automaton is its start."""

    kind: Literal["automaton", "pattern"]
    nodes: tuple[DrawnNode, ...]
    arrows: tuple[DrawnArrow, ...]


@dataclass(frozen=True, kw_only=True)
class ExpressionExplanation:
    """The meaning of a path expression, and its automaton; `str` is for people.

    >>> from rpq import Query, Window
    >>> query = Query("a+", window=Window(size=10, slide=1))
    >>> explanation = ExpressionExplanation(tree=automata.parse("a+"), dfa=query.dfa)
    >>> print(*str(explanation).splitlines()[:2], sep="\\n")
    expression   a+
    language     a path expression
    >>> [arrow.text for arrow in explanation.drawing().arrows]
    ['a', 'a']
    """

    tree: automata.Expression
    dfa: automata.DFA
    options: tuple[str, ...] = ()
    """Lines about the query besides its expression."""
    identity: str = ""
    """When two inserts are the same edge; empty if that is not shown."""

    def to_dot(self) -> str:
        """Return the automaton in Graphviz's language."""
        return self.dfa.to_dot()

    def drawing(self, *, most_arrows: int | None = None) -> Drawing | None:
        """Return the drawing of the automaton, or None if it has more arrows than `most_arrows`."""
        labels = edge_labels(self.dfa.symbols, self.dfa.transitions)
        if most_arrows is not None and len(labels) > most_arrows:
            return None
        places = state_positions(self.dfa.transitions)
        nodes = (
            DrawnNode(str(state), place, "double" if accepts else "circle")
            for state, (place, accepts) in enumerate(zip(places, self.dfa.accepting, strict=True))
        )
        arrows = (DrawnArrow(start, end, label) for (start, end), label in labels.items())
        return Drawing(kind="automaton", nodes=tuple(nodes), arrows=tuple(arrows))

    def __str__(self) -> str:
        states = len(self.dfa.accepting)
        return "\n".join(
            [
                f"expression   {self.tree}",
                "language     a path expression",
                *self.options,
                *([f"edges        {self.identity}"] if self.identity else []),
                "",
                *_outline(self.tree),
                "",
                f"minimal automaton: {states} state{'s' * (states != 1)}, → starts, * accepts",
                "",
                self.dfa.to_text(),
                "",
                *_remarks(self.dfa),
            ]
        )


def _outline(tree: automata.Expression, depth: int = 1) -> list[str]:
    """Return the tree of an expression, one line for each node.

    >>> print("\\n".join(_outline(automata.parse("a/b{2,}"))))
      Concatenation
        Label a
        Repetition 2 to any number of times
          Label b
    """
    kind, indent = type(tree).__name__, "  " * depth
    parts = getattr(tree, "parts", None) or ((tree.inner,) if hasattr(tree, "inner") else ())
    if not parts:
        detail = f" {tree}"
    elif isinstance(tree, automata.Repetition):
        maximum = "any number of" if tree.maximum is None else tree.maximum
        detail = f" {tree.minimum} to {maximum} times"
    else:
        detail = ""
    return [f"{indent}{kind}{detail}", *(line for part in parts for line in _outline(part, depth + 1))]


def _remarks(dfa: automata.DFA) -> list[str]:
    lines = ["no path matches: the language is empty"] if dfa.is_empty else []
    if dfa.accepts_empty:
        lines.append("empty word       accepted, but the empty path is never an answer: (x, x) needs a cycle")
    else:
        lines.append("empty word       not accepted")
    if dfa.simple_equals_walk:
        lines.append("simple = walk    yes, on every graph: simple paths give the pairs of walks without the pairs (x, x),")
        lines.append("                 and with simple cycles these too")
    else:
        lines.append("simple = walk    no: on some graphs a pair is joined by a walk, but by no simple path")
    if len(CompiledExpression(dfa).program.later_state):
        in_doubt = "pairs that a conflict puts in doubt need a search each"
        lines.append(f"conflicts        possible: with --paths simple or simple_cycle, {in_doubt}")
    else:
        lines.append("conflicts        none on any graph: simple paths cost what walks cost")
    steps = [StepTests.of(condition) for symbol in dfa.symbols if (condition := condition_of(symbol)) is not None]
    if any(step.source or step.target for step in steps):
        lines.append("tests            of the ends of steps, on the records at the time of a row, whatever those of edges")
    return lines
