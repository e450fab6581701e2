"""Which rows of two bags agree: a key that both bind, and columns in which one of them may be unbound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from rpq.sparql.network.delta_bags import UNBOUND, Row
from rpq.sparql.network.matched_rows import MatchedRows, Mode
from rpq.sparql.network.nodes import Node

Key = Any
"""Of a row: an id, or a tuple of ids."""


class Agreement:
    """How rows of a left and a right operator agree on the variables that they share.

    What both bind for sure is a key. `same` are columns that must be equal even where they are unbound: they tell which
    row of an outer group a row is about. In others (`is_loose`) what is unbound agrees with everything.
    """

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        shared = [name for name in left.columns if name in right.columns]
        key = [name for name in shared if name in same or (name in left.sure and name in right.sure)]
        loose = [name for name in shared if name not in key]
        self.key = tuple(key)
        self.loose = tuple(loose)
        self.key_of_left = _taker([left.columns.index(name) for name in key])
        self.key_of_right = _taker([right.columns.index(name) for name in key])
        self._loose = [(left.columns.index(name), right.columns.index(name)) for name in loose]
        self._key_places = [left.columns.index(name) for name in key], [right.columns.index(name) for name in key]
        self._widths = left.width, right.width
        self._more = [place for place, name in enumerate(right.columns) if name not in shared]
        self.columns = (*left.columns, *(right.columns[place] for place in self._more))
        self.sure = left.sure | right.sure

    def matched(self, mode: Mode) -> MatchedRows:
        """What keeps the rows that agree, by kernels: where a key decides."""
        assert not self._loose
        left_keys, right_keys = self._key_places
        left_width, right_width = self._widths
        return MatchedRows(
            mode,
            left_width=left_width,
            right_width=right_width,
            left_keys=left_keys,
            right_keys=right_keys,
            more=self._more,
        )

    @property
    def is_loose(self) -> bool:
        """Whether rows with one key may disagree."""
        return bool(self._loose)

    def agree(self, left: Row, right: Row) -> bool:
        """Whether rows with one key agree in the other columns."""
        for mine, other in self._loose:
            if left[mine] != right[other] and left[mine] != UNBOUND and right[other] != UNBOUND:
                return False
        return True

    def joined(self, left: Row, right: Row) -> Row:
        """The row that two rows make that agree."""
        row = left + tuple([right[place] for place in self._more])
        if self._loose:
            values = list(row)
            for mine, other in self._loose:
                if values[mine] == UNBOUND:
                    values[mine] = right[other]
            row = tuple(values)
        return row

    def alone(self, left: Row) -> Row:
        """A row of the left with nothing on the right."""
        return left + (UNBOUND,) * len(self._more)


def _taker(places: Sequence[int]) -> Callable[[Row], Key]:
    if not places:
        return lambda row: ()
    return itemgetter(*places)
