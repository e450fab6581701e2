"""Sets of labels: those that are named, or all but those."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Self


class LabelSet(NamedTuple):
    """The labels that are `named`, or with `others` all but those. Equal sets are equal, however they were written.

    >>> LabelSet.of("ab", lambda label: label != "a")
    LabelSet(named=frozenset({'a'}), others=True)
    """

    named: frozenset[str]
    others: bool

    @classmethod
    def of(cls, named: Iterable[str], reads: Callable[[str], bool]) -> Self:
        """The labels that something `reads`, to which all that it does not name are the same. O(named)."""
        known = frozenset(named)
        others = reads(max(known, default="") + "?")  # which is none of them
        return cls(frozenset(label for label in known if reads(label) != others), others)

    def has(self, label: str) -> bool:
        """Whether a label is one of them."""
        return (label in self.named) != self.others
