"""What an operator is while it runs: told how its inputs change, it tells how its own bag does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from rpq.sparql.network.delta_bags import DeltaBag, nothing

BYTES_AN_ENTRY = 200
"""About what a row takes in a dictionary of Python's."""


class Node(ABC):
    """An operator over the bags of its `inputs`.

    `sure` are those of its columns that no row leaves unbound.
    """

    def __init__(self, columns: Sequence[str], sure: Collection[str], *inputs: Node) -> None:
        self.columns = tuple(columns)
        self.sure = frozenset(sure) & frozenset(self.columns)
        self.inputs = inputs

    @property
    def width(self) -> int:
        """How many columns it has."""
        return len(self.columns)

    def begin(self) -> DeltaBag:
        """Hold nothing; the bag that there is of empty inputs."""
        return nothing(self.width)

    @abstractmethod
    def change(self, *changes: DeltaBag) -> DeltaBag:
        """How its bag changes when those of its inputs do."""

    def forget(self, fresh: np.ndarray) -> None:
        """These ids are given to other terms."""
        return

    # --- what it holds ---------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        """Rows, or values of groups, that it holds. O(1), or O(entries)."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes that it holds: of arrays as they are, of entries in dictionaries about that."""
        return BYTES_AN_ENTRY * self.entries

    def ids(self) -> Iterable[int] | np.ndarray:
        """The ids in what it holds. O(entries)."""
        return ()

    def told(self) -> str:
        """What it does, in a line."""
        return type(self).__name__.removesuffix("Node").lower()

    def keeps(self) -> str:
        """What it holds, in words; empty for nothing."""
        return ""

    def _place(self, name: str) -> int:
        """The place of a column; -1 where there is none."""
        return self.columns.index(name) if name in self.columns else -1


def places_of(names: Iterable[str], columns: Sequence[str]) -> list[int]:
    """Where names stand among columns; -1 for those that do not."""
    return [columns.index(name) if name in columns else -1 for name in names]
