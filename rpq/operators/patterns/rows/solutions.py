"""Solutions of a pattern where they are not the rows of a single part.

A part without a common variable with others, or an atom without variables, changes on its own; the solutions are the
product of all parts (`rpq.operators.bags.product`). A meaning of a literal is one of several patterns whose solutions are
added up. Under DISTINCT a solution is present while any binding gives it. For a single part under DISTINCT, which is the
most common case, only the solutions are counted. `WaitingRows` has the rows of a pattern that cannot have solutions yet.

Under DISTINCT the report is net of an event, whatever the order and the signs of its changes. Otherwise what leaves is
reported before what enters; an event has both where an insert evicts edges of a count window, and is not netted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rpq.operators.bags.product import DistinctBag, Product
from rpq.rows.weighted_rows import WeightedRows

MAX_WAITING = 256
"""The maximal number of different rows; above it the tables of products are the better form."""

_BYTES_AN_ENTRY = 160


class PartPlace(NamedTuple):
    """The place of a part in a pattern: its meaning, and its number there."""

    meaning: int
    part: int


class WaitingRows:
    """The rows of the parts of one meaning while some part has none, with counts.

    Most patterns with several parts never have rows of all of them. Until then their rows are a few entries of plain
    dictionaries, in place of the tables from which products are formed.
    """

    def __init__(self, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray]) -> None:
        self.columns = [*columns]
        self._counts: list[dict[bytes, int]] = [{} for _ in columns]
        for part, some in enumerate(rows):
            self._add(part, some.astype(np.int32), [1] * len(some))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaitingRows) and (self.columns, self._counts) == (other.columns, other._counts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return _BYTES_AN_ENTRY * sum(map(len, self._counts))

    @property
    def are_many(self) -> bool:
        """True if there are so many rows that the tables of products are the better form."""
        return sum(map(len, self._counts)) > MAX_WAITING

    def still_wait(self, changes: Mapping[PartPlace, WeightedRows]) -> bool:
        """Return whether a part without rows gets none of these either, so that there is still no solution."""
        growing = {part for (_, part), rows in changes.items() if (rows.weights > 0).any()}
        return any(not counts and part not in growing for part, counts in enumerate(self._counts))

    def apply(self, changes: Mapping[PartPlace, WeightedRows]) -> None:
        """Add and remove rows of parts. O(rows)."""
        for (_, part), rows in changes.items():
            self._add(part, rows.rows, rows.weights.tolist())

    def _add(self, part: int, rows: np.ndarray, weights: Sequence[int]) -> None:
        counts, width, data = self._counts[part], rows.itemsize * rows.shape[1], rows.tobytes()
        for number, weight in enumerate(weights):
            row = data[number * width : (number + 1) * width]
            count = counts.get(row, 0) + weight
            if count:
                counts[row] = count
            else:
                del counts[row]

    def rows(self) -> list[np.ndarray]:
        """Return the rows of each part, int32 (row, column), each as often as it is counted."""
        rows = []
        for names, counts in zip(self.columns, self._counts, strict=True):
            data = b"".join(row * count for row, count in counts.items())
            rows.append(np.frombuffer(data, np.int32).reshape(sum(counts.values()), len(names)))
        return rows


class Solutions:
    """The solutions of a pattern, formed from the rows of the parts of its meanings.

    `meanings` and `most_parts` limit the number of meanings and of parts of each. `select` are the variables that are
    columns of a solution. With `isomorphism` values of different parts must be different; then all variables are
    columns of parts.
    """

    def __init__(self, *, select: Sequence[str], meanings: int, most_parts: int, distinct: bool, isomorphism: bool) -> None:
        self._select = tuple(select)
        self._meanings = meanings
        self._most_parts = most_parts
        self._distinct = distinct
        self._isomorphism = isomorphism
        self._operator: Product | DistinctBag | None = None
        self._columns: list[int] = []  # of the operator `DistinctBag`: those of the only part
        self._waiting: WaitingRows | None = None  # the rows of the only meaning, while one of its parts has none

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        waiting = 0 if self._waiting is None else self._waiting.nbytes
        return waiting if self._operator is None else self._operator.nbytes

    # --- meanings --------------------------------------------------------------------------------------------

    def put(
        self, meaning: int, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray], *, row_limit: int | None = None
    ) -> None:
        """Set the rows of a meaning's parts: for each part an int32 array (row, column).

        If these give more than `row_limit` solutions, under DISTINCT only somewhat more than `row_limit` are counted. After
        that only `answers`, which shows that there are too many, and `clear` may be called.
        """
        self.drop(meaning)
        lengths = [len(some) for some in rows]
        if self._operator is None and self._meanings == 1 and not all(lengths) and sum(lengths) <= MAX_WAITING:
            self._waiting = WaitingRows(columns, rows)
        else:
            self._load(meaning, columns, rows, row_limit)

    def _load(
        self, meaning: int, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray], row_limit: int | None = None
    ) -> None:
        self._waiting = None
        if self._operator is None:
            self._operator = self._new_operator(columns)
        if isinstance(self._operator, DistinctBag):
            self._operator.change(WeightedRows.insertion_of(rows[0]).select_columns(self._columns))
            return
        widths = [*map(len, columns)]
        all_widths = self._operator.widths
        assert widths == all_widths[: len(widths)] and not any(all_widths[len(widths) :]), "meanings differ in their parts"
        self._operator.load(meaning, rows, row_limit=row_limit)

    def _new_operator(self, columns: Sequence[Sequence[str]]) -> Product | DistinctBag:
        """Return the operator for parts with these columns: meanings differ in the number of conditions alone."""
        place = {name: (part, at) for part, names in enumerate(columns) for at, name in enumerate(names)}
        select = [place[name] for name in self._select]
        if self._distinct and self._meanings == 1 and len(columns) == 1:
            self._columns = [at for _, at in select]
            return DistinctBag(len(select))
        widths = [len(names) for names in columns] + [0] * (self._most_parts - len(columns))
        return Product(widths, select, meanings=self._meanings, distinct=self._distinct, differ=self._isomorphism)

    def clear(self) -> None:
        """Remove all meanings. O(1)."""
        self._waiting = self._operator = None

    def drop(self, meaning: int) -> None:
        """Remove a meaning."""
        self._waiting = None
        if isinstance(self._operator, DistinctBag) or (self._operator is not None and self._operator.meanings == [meaning]):
            self._operator = None
        elif self._operator is not None:
            self._operator.drop(meaning)

    # --- changes ---------------------------------------------------------------------------------------------

    def change(
        self, parts: Mapping[PartPlace, WeightedRows], *, silent: np.ndarray | None = None, row_limit: int | None = None
    ) -> WeightedRows:
        """Apply changes of parts; return the changes of the solutions.

        `silent` and `row_limit` are those of `Product.change`. O(rows + solutions).
        """
        if self._waiting is not None:
            if self._waiting.still_wait(parts):
                self._waiting.apply(parts)
                if self._waiting.are_many:
                    self._store_waiting_rows()
                return WeightedRows.empty(len(self._select))
            self._store_waiting_rows()
        assert self._operator is not None, "no meaning was put"
        if isinstance(self._operator, Product):
            return self._operator.change(parts.items(), silent=silent, row_limit=row_limit)
        (rows,) = parts.values()
        changes = self._operator.change(rows.select_columns(self._columns))
        return changes if silent is None else changes.select((changes.weights > 0) | ~silent[changes.events])

    def _store_waiting_rows(self) -> None:
        """Move waiting rows into an operator."""
        if self._waiting is not None:
            self._load(0, self._waiting.columns, self._waiting.rows())

    def answers(self, *, row_limit: int | None = None) -> np.ndarray:
        """Return the answer, a bag in which a row may be repeated. O(answer).

        If it has more than `row_limit` rows, only somewhat more than `row_limit` are returned.
        """
        if self._operator is None:
            return np.zeros((0, len(self._select)), np.int32)
        return self._operator.rows(row_limit=row_limit) if isinstance(self._operator, Product) else self._operator.rows()

    def check(self, columns: Mapping[int, Sequence[Sequence[str]]], rows: Mapping[int, Sequence[np.ndarray]]) -> None:
        """Assert that the counted rows are these: for each meaning those of each part. O(answers)."""
        again = Solutions(
            select=self._select,
            meanings=self._meanings,
            most_parts=self._most_parts,
            distinct=self._distinct,
            isomorphism=self._isomorphism,
        )
        for meaning, parts in rows.items():
            again.put(meaning, columns[meaning], parts)
        if self._waiting is not None:
            assert self._waiting == WaitingRows(columns[0], rows[0]), "other rows wait than there are"
            assert not all(map(len, rows[0])), "rows wait though no part is without"
            return
        again._store_waiting_rows()
        mine, others = self._operator, again._operator
        assert (mine is None) == (others is None), "the meanings differ"
        if mine is not None and others is not None:
            mine.check()
            for bag in range(len(mine.bags.bags.width)):
                counted, expected = (
                    Counter(dict(zip(map(tuple, some.tolist()), counts.tolist(), strict=True)))
                    for some, counts in (one.bags.rows(bag) for one in (mine, others))
                )
                assert counted == expected, f"bag {bag} has other rows than were counted"
