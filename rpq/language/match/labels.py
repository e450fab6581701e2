"""Sets of labels of edges in MATCH, and the path expressions that read edges with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rpq.automata.symbols import write_name
from rpq.language.match.syntax import Direction, LabelTree, Quantifier


@dataclass(frozen=True)
class EdgeLabels:
    """The labels in `names`, or with `is_negated` all but these."""

    names: frozenset[str]
    is_negated: bool

    def __or__(self, other: EdgeLabels) -> EdgeLabels:
        match self.is_negated, other.is_negated:
            case False, False:
                return EdgeLabels(self.names | other.names, False)
            case True, True:
                return EdgeLabels(self.names & other.names, True)
            case True, False:
                return EdgeLabels(self.names - other.names, True)
        return EdgeLabels(other.names - self.names, True)

    def __and__(self, other: EdgeLabels) -> EdgeLabels:
        match self.is_negated, other.is_negated:
            case False, False:
                return EdgeLabels(self.names & other.names, False)
            case True, True:
                return EdgeLabels(self.names | other.names, True)
            case True, False:
                return EdgeLabels(other.names - self.names, False)
        return EdgeLabels(self.names - other.names, False)

    @property
    def is_empty(self) -> bool:
        """True if the set contains no label."""
        return not self.names and not self.is_negated

    def overlaps(self, other: EdgeLabels) -> bool:
        """Return whether the two sets have a label in common."""
        return not (self & other).is_empty


def edge_labels(tree: LabelTree | None, node_label: str) -> EdgeLabels:
    """Return the labels of an edge pattern. Without an expression these are all labels except `node_label`.

    >>> edge_labels(LabelTree("!", parts=(LabelTree("name", "a"),)), "type") == EdgeLabels(frozenset({"a", "type"}), True)
    True
    """
    if tree is None or tree.operator == "%":
        return EdgeLabels(frozenset({node_label}), True)
    if tree.operator == "name":
        return EdgeLabels(frozenset({tree.name}), False)
    parts = [edge_labels(part, node_label) for part in tree.parts]
    found = parts[0]
    if tree.operator == "!":
        if found.is_negated:
            return EdgeLabels(found.names - {node_label}, False)
        return EdgeLabels(found.names | {node_label}, True)
    for part in parts[1:]:
        found = found | part if tree.operator == "|" else found & part
    return found


def step_text(labels: EdgeLabels, direction: Direction, condition: str = "") -> str:
    """Return the path expression for one edge with one of some labels, which satisfies a condition.

    >>> step_text(EdgeLabels(frozenset("ab"), False), "left", "n > 1"), step_text(EdgeLabels(frozenset("a"), True), "right")
    ('^a[n > 1]|^b[n > 1]', '!(a)')
    """
    behind = f"[{condition}]" if condition else ""
    names = [write_name(name) for name in sorted(labels.names)]
    steps = [f"!({'|'.join(names)}){behind}"] if labels.is_negated else [name + behind for name in names]
    forward = [] if direction == "left" else steps
    return "|".join([*forward, *([] if direction == "right" else ["^" + step for step in steps])])


def repeated_text(step: str, quantifier: Quantifier | None) -> str:
    """Return a path expression that repeats another one.

    >>> repeated_text("a|b", Quantifier(1, 3, "{1,3}", 0)), repeated_text("a", None)
    ('(a|b){1,3}', '(a)')
    """
    if quantifier is None:
        return f"({step})"
    least, most = quantifier.least, quantifier.most
    if most is None and least == 1:
        return f"({step})+"
    return f"({step}){{{least}}}" if least == most else f"({step}){{{least},{'' if most is None else most}}}"


def chain_text(steps: Sequence[str]) -> str:
    """Return the path expression of a sequence of steps."""
    return "/".join(steps)
