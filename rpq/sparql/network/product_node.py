"""The product of operators without a common column, more than two: kept as parts, not multiplied out.

On bags: Ω1 × … × Ωn, each row as often as the product of the counts. A change of one part is multiplied with what the others
are just then, so while one of them is empty (a condition that does not hold, a part without a binding) nothing is told, and
what is held is the sum of the parts, not the product of those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq.patterns.rows.row_bags import FREE, ROOM, USED, RowBags
from rpq.sparql.network.delta_bags import DeltaBag, nothing
from rpq.sparql.network.multiplied_rows import change_product
from rpq.sparql.network.nodes import Node


class ProductNode(Node):
    """The product of `parts`, no two of which have a column in common."""

    def __init__(self, *parts: Node) -> None:
        columns = [name for part in parts for name in part.columns]
        assert len({*columns}) == len(columns), columns
        super().__init__(columns, frozenset().union(*(part.sure for part in parts)), *parts)
        self._widths = np.array([part.width for part in parts], np.int64)
        self._bags = RowBags(self._widths.tolist())

    def begin(self) -> DeltaBag:
        self._bags = RowBags(self._widths.tolist())
        return nothing(self.width)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        events = np.concatenate([change.events for change in changes])
        if not len(events):
            return nothing(self.width)
        order = np.argsort(events, kind="stable")
        lengths = [len(change) for change in changes]
        parts = np.repeat(np.arange(len(changes)), lengths)
        begins = np.cumsum([0, *(change.rows.size for change in changes)])
        places = np.concatenate([
            begin + int(width) * np.arange(length)
            for begin, width, length in zip(begins, self._widths, lengths, strict=False)
        ])  # fmt: skip
        fields = self._bags.bags.fields
        if fields[USED] - fields[FREE] + len(events) > fields[ROOM]:
            self._bags.make_room(len(events))
        rows, weights, told_events, count = change_product(
            self._bags.view,
            np.concatenate([change.rows.reshape(-1) for change in changes]).astype(np.int32),
            parts[order],
            places[order],
            np.concatenate([change.weights for change in changes])[order],
            events[order],
            self._widths,
        )
        return DeltaBag(rows[: count * self.width].reshape(count, self.width), weights[:count], told_events[:count])

    @property
    def entries(self) -> int:
        return int(self._bags.bags.different.sum())

    @property
    def nbytes(self) -> int:
        return self._bags.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        return np.concatenate([self._bags.rows(part)[0].reshape(-1) for part in range(len(self.inputs))])

    def told(self) -> str:
        return "product"

    def keeps(self) -> str:
        return "all parts"

    def _check(self) -> None:
        self._bags.check()
