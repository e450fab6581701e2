"""The expressions of edge variables: single steps along edges with certain labels and properties, in some direction."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rpq.automata.expressions import Alternation, Expression, Inverse, Label, NegatedSet
from rpq.automata.symbols import ConditionLabel
from rpq.language.conditions import condition_of, parse_expression
from rpq.stream.names.stream_labels import EdgeEnd

ALWAYS = ""
"""The condition that every edge satisfies."""


class _Side(NamedTuple):
    """The edges that one alternative of a step walks in one direction; `labels` are excluded where it is `negated`."""

    labels: frozenset[str]
    negated: bool
    inverse: bool
    condition: str


@dataclass(frozen=True)
class EdgeStep:
    """An expression of one step: a label, `^`, `|` or a negated set, with conditions.

    >>> step = step_of("a[n > 1]|^!b")
    >>> step.conditions_on("a"), step.conditions_on("b")
    (('n > 1', ''), (None, None))
    """

    text: str
    sides: tuple[_Side, ...]

    def conditions_on(self, label: str) -> tuple[str | None, str | None]:
        """Return the conditions under which an edge with a label is walked forward, and against its direction.

        `ALWAYS` admits every edge with the label, None no edge.
        """
        found: list[str | None] = []
        for inverse in (False, True):
            sides = [side for side in self.sides if side.inverse == inverse]
            mine = {side.condition for side in sides if (label in side.labels) != side.negated}
            if not mine:
                found.append(None)
            elif ALWAYS in mine:
                found.append(ALWAYS)
            else:
                found.append(next(iter(mine)) if len(mine) == 1 else condition_of(_any(sorted(mine))).text)
        return found[0], found[1]

    @property
    def labels(self) -> frozenset[str]:
        """The labels that it names, whether edges with these labels are walked or those with others."""
        return frozenset().union(*(side.labels for side in self.sides))

    def walks(self, label: str) -> bool:
        """Return whether it may walk edges with a label, whatever their properties."""
        return self.conditions_on(label) != (None, None)

    @property
    def conditions(self) -> frozenset[str]:
        """All conditions on labels that it may have."""
        other = max(self.labels, default="") + "?"  # a label that it does not name
        found = {condition for label in {*self.labels, other} for condition in self.conditions_on(label)}
        return frozenset(condition for condition in found if condition)


def _any(conditions: Sequence[str]) -> str:
    return " or ".join(f"({condition})" for condition in conditions)


@functools.lru_cache(maxsize=4096)
def step_of(text: str) -> EdgeStep:
    """Parse an expression of one step. Raises `ExpressionError`, and `ValueError` where its paths may be longer."""
    tree = parse_expression(text)
    return EdgeStep(text, tuple(_sides(tree, inverse=False)))


def labels_of_end(end: EdgeEnd) -> frozenset[str]:
    """Return the labels that the expression of an edge variable names.

    >>> sorted(labels_of_end(EdgeEnd("a|!(b)[n > 1]", "subject")))
    ['a', 'b']
    """
    return step_of(end.label or "").labels


def is_one_step(tree: Expression) -> bool:
    """Return whether all paths of an expression are single edges, judged by the form of the expression.

    >>> [is_one_step(parse_expression(text)) for text in ("a[n > 1]", "^(a|!b)", "a/b", "a?")]
    [True, True, False, False]
    """
    try:
        _sides(tree, inverse=False)
    except ValueError:
        return False
    return True


def _sides(tree: Expression, *, inverse: bool) -> list[_Side]:
    match tree:
        case Label(ConditionLabel(label, condition)):
            return [_Side(frozenset({label or ""}), False, inverse, condition)]
        case Label(name):
            return [_Side(frozenset({str(name)}), False, inverse, ALWAYS)]
        case Inverse(inner):
            return _sides(inner, inverse=not inverse)
        case Alternation(parts):
            return [side for part in parts for side in _sides(part, inverse=inverse)]
        case NegatedSet(members, condition):
            return [
                _Side(
                    frozenset(str(member.label) for member in members if member.inverse == direction),
                    True,
                    inverse != direction,
                    condition or ALWAYS,
                )
                for direction in tree.directions
            ]
    raise ValueError("the paths of the expression may have other lengths than one")
