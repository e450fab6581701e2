"""ORDER BY with LIMIT and OFFSET: the rows at some positions of an order, as changes of membership.

On bags: Slice(OrderBy(Ω, C), offset, limit) (§18.5). All rows of the input are stored, and no two different ones have the
same position: they are ordered by the values of the conditions, then by the terms of the columns. Kernels maintain the rows
at the positions (`rpq.operators.relational.values.ordered_rows`). If they meet computed numbers that they cannot compare,
the stored rows also have the texts of these as terms from then on, the order of which is exact (`values.value_order`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from rpq.operators.relational.nodes import Node, places_of
from rpq.operators.relational.values.ordered_rows import OrderedRows
from rpq.operators.relational.values.term_ids import FIRST_NUMBER, TermIds
from rpq.rows.weighted_rows import WeightedRows


class SliceNode(Node):
    """The rows of the input from position `offset` on, at most `limit` of them, with these columns.

    `order` are columns of the input, each ascending or, with True, descending. O(1) per change behind the positions,
    O(offset + limit) per event that changes rows at the positions or before them; O(rows) memory.
    """

    def __init__(
        self,
        inner: Node,
        columns: Sequence[str],
        order: Sequence[tuple[str, bool]],
        offset: int,
        limit: int | None,
        terms: TermIds,
    ) -> None:
        super().__init__(columns, inner.sure, inner)
        self._places = places_of(columns, inner.columns)
        self._order = [(inner.columns.index(name), is_descending) for name, is_descending in order]
        self._first, self._end = offset, None if limit is None else offset + limit
        self._terms = terms
        self._compared = sorted({*self._places, *(place for place, _ in self._order)})
        self._text = [f"?{name}{' descending' if is_descending else ''}" for name, is_descending in order]
        self.begin()

    @property
    def parameters(self) -> Hashable:
        return tuple(self._places), tuple(self._order), self._first, self._end

    def begin(self) -> WeightedRows:
        self._begin_rows(with_texts=False)
        return WeightedRows.empty(self.width)

    def _begin_rows(self, *, with_texts: bool) -> None:
        """Remove all rows. Those that follow may have further columns `with_texts`: the compared ones, without numbers."""
        self._has_texts, width = with_texts, self.inputs[0].width
        of_texts = {place: width + number for number, place in enumerate(self._compared)} if with_texts else {}
        self._rows = OrderedRows(
            width + len(of_texts),
            self._order,
            self._places,
            self._terms,
            first=self._first,
            end=self._end,
            compared=of_texts,
        )

    def _with_texts(self, change: WeightedRows) -> WeightedRows:
        """Return changes with the columns that the stored rows have."""
        if not self._has_texts:
            return change
        ids = change.rows[:, self._compared]
        are_numbers = ids >= FIRST_NUMBER
        ids[are_numbers] = [self._terms.intern(text) for text in self._terms.texts(ids[are_numbers])]
        return change.with_rows(np.column_stack([change.rows, ids]))

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        result = self._rows.change(self._with_texts(change))
        if result is None:
            done = change.select(np.arange(len(change)) < self._rows.applied)
            rows, counts = self._rows.rows()
            nothing = np.zeros(len(rows) + len(done), np.int64)
            before = WeightedRows(
                np.concatenate([rows, done.rows]), np.concatenate([counts, -done.weights]), nothing
            ).consolidate()
            self._begin_rows(with_texts=True)
            self._rows.change(self._with_texts(before))
            result = self._rows.change(self._with_texts(change))
            assert result is not None, "terms can be compared"
        return result

    def discard_ids(self, new_ids: np.ndarray) -> None:
        self._rows.order.discard_ids(new_ids)

    @property
    def entries(self) -> int:
        return self._rows.entries

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._rows.ids()

    def describe(self) -> str:
        until = "" if self._end is None else f" to {self._end:,}"
        order = f" ordered by {', '.join(self._text)}" if self._text else ""
        return f"rows {self._first + 1:,}{until or ' on'}{order}"

    def describe_state(self) -> str:
        return "all rows in their order"

    def _check(self) -> None:
        self._rows.check()
