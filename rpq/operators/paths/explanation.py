"""The explanation of a path expression: its tree, its minimal automaton, and what holds for its paths on every graph."""

from __future__ import annotations

from rpq import automata
from rpq.operators.paths.program import CompiledExpression


def explain_expression(tree: automata.Expression, dfa: automata.DFA, *, options: list[str] | None = None) -> str:
    """Describe an expression and its automaton in lines of text; `options` are further lines about the query."""
    states = len(dfa.accepting)
    return "\n".join(
        [
            f"expression   {tree}",
            "language     a path expression",
            *(options or []),
            "",
            *_outline(tree),
            "",
            f"minimal automaton: {states} state{'s' * (states != 1)}, → starts, * accepts",
            "",
            dfa.to_text(),
            "",
            *_remarks(dfa),
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
    return lines
