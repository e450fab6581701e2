"""The edges of a label that an atom accepts, by their ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Ends(NamedTuple):
    """The edges of a label with a source, with a target, with both, or all; with `is_loop` those from a vertex to itself."""

    source: str | None
    target: str | None
    is_loop: bool = False

    @property
    def wider(self) -> tuple[Ends, ...]:
        """Itself, and all other ends that accept the same edges and more.

        >>> [str(one) for one in Ends("x", "y").wider]
        ['x to y', 'x to any vertex', 'any vertex to y', 'any vertex to any vertex']
        """
        found = [Ends(source, target) for source in {self.source: 0, None: 0} for target in {self.target: 0, None: 0}]
        is_loop = self.is_loop or (self.source is not None and self.source == self.target)
        return (*found, Ends(None, None, is_loop=True)) if is_loop else tuple(found)

    def __str__(self) -> str:
        if self.is_loop:
            return "any vertex to itself"
        return " to ".join("any vertex" if end is None else end for end in (self.source, self.target))


ALL = Ends(None, None)
"""All edges of a label."""


def ends_texts(ends: Collection[Ends]) -> tuple[str, ...]:
    """Return which edges are accepted, in words and sorted; nothing where all are.

    >>> ends_texts([Ends(None, "h7"), Ends("x", None)]), ends_texts([ALL, Ends("x", None)])
    (('any vertex to h7', 'x to any vertex'), ())
    """
    return () if ALL in ends else tuple(sorted(map(str, ends)))
