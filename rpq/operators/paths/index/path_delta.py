"""Changes of the answers of paths, and answers as rows."""

from __future__ import annotations

import sys
from typing import NamedTuple, Self

import numpy as np

from rpq.rows.delta import Delta, IdRows

_ENDS = (1, 0) if sys.byteorder == "little" else (0, 1)  # where root and end lie in a pair
_END = (1 << 32) - 1


class PathDelta(Delta):
    """Pairs (int64, root << 32 | end) as rows of ids: (root, end), or (end, root) if `is_reversed`.

    With witnesses, the path of row r is `paths[path_ends[r - 1] : path_ends[r]]`, beginning with the last step from the
    root; a step is edge << 1 | against. `walk_lengths` (int64 a row), if any, are a third column (`rows_with_lengths`).
    """

    __slots__ = ("is_reversed", "pairs", "path_ends", "paths", "walk_lengths")

    def __init__(
        self,
        *,
        pairs: np.ndarray,
        paths: np.ndarray,
        path_ends: np.ndarray,
        is_reversed: bool = False,
        walk_lengths: np.ndarray | None = None,
        **events: np.ndarray,
    ) -> None:
        super().__init__(ids=None, is_lasting=False, **events)
        self.pairs = pairs
        self.paths = paths
        self.path_ends = path_ends
        self.is_reversed = is_reversed
        self.walk_lengths = walk_lengths

    @property
    def ids(self) -> IdRows:
        if self.walk_lengths is not None:
            return rows_with_lengths(self.pairs, self.walk_lengths, is_reversed=self.is_reversed)
        return rows_of_pairs(self.pairs, is_reversed=self.is_reversed)

    def __len__(self) -> int:
        return len(self.pairs)

    def as_lists(self) -> list[tuple[int, ...]]:
        if self.walk_lengths is not None:
            return super().as_lists()
        if self.is_reversed:
            return [(pair & _END, pair >> 32) for pair in self.pairs.tolist()]
        return [(pair >> 32, pair & _END) for pair in self.pairs.tolist()]

    def without_evictions(self, is_kept: np.ndarray, orders: np.ndarray) -> PathDelta:
        """Return the rows that a mask selects, with new `orders` of the events; rows that leave precede others there."""
        lengths = self.lengths()
        entering, order_of, times = (np.repeat(column, lengths) for column in (self.kinds > 0, orders, self.times))
        places = np.flatnonzero(is_kept)[np.lexsort((entering[is_kept], order_of[is_kept]))]
        order_of, kinds = order_of[places], np.where(entering[places], 1, -1).astype(np.int8)
        is_last = np.append((np.diff(order_of) != 0) | (np.diff(kinds) != 0), True)[: len(places)]
        paths, path_ends = self.paths, self.path_ends
        if len(path_ends):
            steps = np.zeros(len(self), np.int64)
            steps[entering] = np.diff(path_ends[entering], prepend=0)  # rows that enter stay in their order
            of_kept = np.repeat(is_kept, steps)
            paths, path_ends = paths[: len(of_kept)][of_kept], np.cumsum(steps[places])
        return PathDelta(
            pairs=self.pairs[places],
            times=times[places][is_last],
            ends=np.flatnonzero(is_last) + 1,
            kinds=kinds[is_last],
            orders=order_of[is_last],
            paths=paths,
            path_ends=path_ends,
            is_reversed=self.is_reversed,
            walk_lengths=None if self.walk_lengths is None else self.walk_lengths[places],
        )

    def _first_events(self, events: int, rows: int) -> Self:
        first = super()._first_events(events, rows)
        first.pairs, first.path_ends = self.pairs[:rows], self.path_ends[:rows]
        if self.walk_lengths is not None:
            first.walk_lengths = self.walk_lengths[:rows]
        return first


class PathSteps(NamedTuple):
    """The steps of a path, first to last."""

    steps: np.ndarray
    """int64: edge of the snapshot graph << 1 | against."""
    times: np.ndarray | None = None
    """int64: the timestamps of the edges, if they are in the order of time."""


def rows_of_pairs(pairs: np.ndarray, *, is_reversed: bool = False) -> IdRows:
    """Return pairs (int64, root << 32 | end) as rows (root, end), or (end, root) if `is_reversed`; a view."""
    return IdRows(pairs.view(np.int32).reshape(-1, 2), _ENDS[::-1] if is_reversed else _ENDS)


def rows_with_lengths(pairs: np.ndarray, lengths: np.ndarray, *, is_reversed: bool = False) -> IdRows:
    """Return pairs as rows with a third column, the length of a path as an id that no vertex has (`id_of_length`)."""
    rows = np.empty((len(pairs), 3), np.int32)
    rows[:, 0] = pairs >> 32
    rows[:, 1] = pairs & _END
    rows[:, 2] = -1 - lengths
    return IdRows(rows, (1, 0, 2) if is_reversed else (0, 1, 2))


def id_of_length(length: int) -> int:
    """Return the id of a length in rows; it is its own inverse.

    >>> id_of_length(3), id_of_length(-4)
    (-4, 3)
    """
    return -1 - length
