"""The letters of a path's word: a step along an edge with some label, or against it."""

from __future__ import annotations

from typing import NamedTuple

from rpq.automata.names import write_name


class Symbol(NamedTuple):
    """One step of a path: a label, and whether the edge is taken against its direction.

    In the alphabet of a DFA the label `None` stands for every label that the alphabet does not name in that direction.

    >>> print(Symbol("knows"), Symbol("knows", inverse=True), Symbol(None), Symbol(None, inverse=True))
    knows ^knows (other) ^(other)
    """

    label: str | None
    inverse: bool = False

    def __str__(self) -> str:
        name = "(other)" if self.label is None else write_name(self.label)  # no name is written with parentheses
        return "^" + name if self.inverse else name

    def reversed(self) -> Symbol:
        """Return the same label in the other direction.

        >>> print(Symbol("knows").reversed())
        ^knows
        """
        return Symbol(self.label, not self.inverse)

    def sort_key(self) -> tuple[bool, bool, str]:
        """Order of an alphabet: forward before inverse, "other" last in its direction, labels by code point.

        >>> print(*sorted([Symbol(None), Symbol("b", inverse=True), Symbol("c"), Symbol("a")], key=Symbol.sort_key))
        a c (other) ^b
        """
        return (self.inverse, self.label is None, self.label or "")
