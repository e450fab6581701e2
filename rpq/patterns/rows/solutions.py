"""Solutions of a pattern where they are not the rows of a single part.

A part without a common variable with others, or an atom without variables, changes on its own; the solutions are the
product of all parts. A meaning of a literal is one of several patterns whose solutions are added up. Under DISTINCT a
solution is present while any binding gives it. Stored are the bag of each part's rows, and under DISTINCT the count of
each solution: the product is formed where something is reported. For a single part under DISTINCT, which is the most
common case, only the solutions are counted.

Under DISTINCT the report is net of an event, whatever the order and the signs of its changes. Otherwise what leaves is
reported before what enters; an event has both where an insert evicts edges of a count window, and is not netted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rpq.compiled.views import bound, view
from rpq.patterns import tables
from rpq.patterns.rows import products
from rpq.patterns.rows.delivered import MOST_WAITING, PartRows, Place, WaitingRows
from rpq.patterns.rows.products import Products, SolutionChanges
from rpq.patterns.rows.row_bags import RowBags, add_all, empty

_bound_kernels: dict[Any, Any] = {}
"""Bound kernels, shared by all queries, since their arguments have the same types."""


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
        self._row_bags: RowBags | None = None
        self._waiting: WaitingRows | None = None  # the rows of the only meaning, while one of its parts has none

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        waiting = 0 if self._waiting is None else self._waiting.nbytes
        return waiting if self._row_bags is None else self._row_bags.nbytes

    @property
    def _bags(self) -> RowBags:
        assert self._row_bags is not None, "no meaning was put"
        return self._row_bags

    def _set_columns(self, columns: Sequence[Sequence[str]]) -> None:
        """Set the columns of the parts: meanings differ in the number of conditions where constants are equal."""
        widths = [len(names) for names in columns] + [0] * (self._most_parts - len(columns))
        if self._row_bags is not None:
            assert self._bags.bags.width[1 : 1 + len(widths)].tolist() == widths, "meanings differ in their parts"
            return
        place = {name: (part, at) for part, names in enumerate(columns) for at, name in enumerate(names)}
        self._row_bags = RowBags([len(self._select), *widths * self._meanings])
        state = np.zeros(products.STATE, np.int64)
        state[products.COLUMNS] = len(self._select)
        state[products.DISTINCT], state[products.DIFFER] = self._distinct, self._isomorphism
        state[products.MOST_PARTS] = self._most_parts
        state[products.KEEPS] = len(columns) > 1 or self._meanings > 1 or not self._distinct
        self._products = Products(
            parts=np.zeros(self._meanings, np.int32),
            select=np.array([place[name] for name in self._select], np.int32).reshape(-1),
            solution=np.zeros(len(self._select), np.int32),
            at=np.full(self._most_parts, -1, np.int32),
            state=state,
        )
        self._products_view = view(self._products)

    def _bag(self, meaning: int, part: int) -> int:
        return 1 + meaning * int(self._products.state[products.MOST_PARTS]) + part

    # --- meanings --------------------------------------------------------------------------------------------

    def put(
        self, meaning: int, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray], *, most: int | None = None
    ) -> None:
        """Set the rows of a meaning's parts: for each part an int32 array (row, column).

        Where these make more than `most` solutions, under DISTINCT only somewhat more than `most` are counted; after that
        only `answers`, which shows that there are so many, and `clear` may be called.
        """
        self.drop(meaning)
        lengths = [len(some) for some in rows]
        if self._row_bags is None and self._meanings == 1 and not all(lengths) and sum(lengths) <= MOST_WAITING:
            self._waiting = WaitingRows(columns, rows)
            return
        self._put(meaning, columns, rows, most)

    def _put(
        self, meaning: int, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray], most: int | None = None
    ) -> None:
        self._waiting = None
        self._set_columns(columns)
        self._products.parts[meaning] = len(columns)
        for part, some in enumerate(rows[:-1]):
            at = np.zeros(1, np.int64)
            values = np.ascontiguousarray(some).reshape(-1)
            while not self._call(add_all, self._bag(meaning, part), values, at, len(some)):
                self._bags.make_room(1)
        self._change_silently(meaning, len(columns) - 1, rows[-1], 1, most=most)

    def clear(self) -> None:
        """Remove all meanings. O(1)."""
        self._waiting = None
        if self._row_bags is not None:
            self._row_bags = None
            self._products.parts[:] = 0

    def drop(self, meaning: int) -> None:
        """Remove a meaning."""
        self._waiting = None
        if self._row_bags is None or not self._products.parts[meaning]:
            return
        if np.count_nonzero(self._products.parts) == 1:
            self.clear()
            return
        last = int(self._products.parts[meaning]) - 1
        rows, counts = self._bags.rows(self._bag(meaning, last))
        self._change_silently(meaning, last, np.repeat(rows, counts, axis=0), -1)
        for part in range(last + 1):
            self._call(empty, self._bag(meaning, part))
        self._products.parts[meaning] = 0

    # --- changes ---------------------------------------------------------------------------------------------

    def change(
        self, part_rows: Mapping[Place, PartRows], *, explicit: bool, most: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add and remove rows of parts, by meaning and part; return the changed solutions, and their events.

        An event is (order, time, sign, end of its rows). Unless `explicit`, solutions that leave at a boundary are not
        reported. With `most` all rows of an event must be of one sign: of an event with more solutions only somewhat more
        than `most` are reported, and nothing after it; then the state is of no further use. O(rows + solutions).
        """
        if self._waiting is not None:
            if self._waiting.still_wait(part_rows):
                self._waiting.take(part_rows)
                if self._waiting.are_many:
                    self._store_waiting_rows()
                return self._nothing
            self._store_waiting_rows()
        runs, begin = [], 0
        for (meaning, part), (changed, values) in part_rows.items():
            rows = changed[:, tables.RUN_ROWS]
            widths = rows * int(self._bags.bags.width[self._bag(meaning, part)])
            run = np.empty((len(changed), products.RUN), np.int64)
            run[:, : products.MEANING] = changed[:, [tables.RUN_ORDER, tables.RUN_TIME, tables.RUN_SIGN]]
            run[:, products.MEANING], run[:, products.PART] = meaning, part
            run[:, products.BEGIN], run[:, products.ROWS] = begin + np.cumsum(widths) - widths, rows
            runs.append(run)
            begin += len(values)
        table = np.concatenate(runs)
        if len(runs) > 1:
            # In an event with both signs what leaves comes first.
            table = table[np.lexsort((table[:, products.SIGN], table[:, products.TIME], table[:, products.ORDER]))]
        values = np.concatenate([values for _, values in part_rows.values()]) if len(part_rows) > 1 else values
        state = self._products.state
        state[products.MOST] = -1 if most is None else most
        output = self._change(table, values, tells=True, explicit=explicit)
        rows = output.rows.reshape(-1, len(self._select))[: state[products.ROWS_TOLD]]
        return rows, output.events.reshape(-1, products.EVENT)[: state[products.EVENTS_TOLD]]

    @property
    def _nothing(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((0, len(self._select)), np.int32), np.zeros((0, products.EVENT), np.int64)

    def _store_waiting_rows(self) -> None:
        """Move waiting rows into bags."""
        if self._waiting is not None:
            self._put(0, self._waiting.columns, self._waiting.rows())

    def _change_silently(
        self, meaning: int, part: int, rows: np.ndarray, sign: int, *, most: int | None = None
    ) -> None:
        """Add rows of a part that are present already, or remove them with their meaning, without a report."""
        self._products.state[products.MOST] = -1 if most is None else most
        run = np.array([[1, 0, sign, meaning, part, 0, len(rows)]], np.int64)
        self._change(run, np.ascontiguousarray(rows).reshape(-1), tells=False, explicit=True)

    def _change(self, runs: np.ndarray, values: np.ndarray, *, tells: bool, explicit: bool) -> SolutionChanges:
        state = self._products.state
        state[[products.AT_RUN, products.AT_ROW, products.ROWS_TOLD, products.EVENTS_TOLD, products.STOPPED]] = 0
        state[products.TELLS], state[products.EXPLICIT] = tells, explicit
        output = self._room(int(runs[:, products.ROWS].sum()) if tells else 0, 2 * len(runs) if tells else 0)
        while True:
            code = self._call(products.change_parts, output, runs.reshape(-1), len(runs), values, self._rows_of(output))
            if code == products.DONE:
                return output
            needed = int(state[products.NEEDED])
            if code == products.NEED_ENTRIES:
                self._bags.make_room(needed)
            else:
                more = self._room(2 * int(state[products.ROWS_TOLD]) + needed, 0)
                more.rows[: len(output.rows)] = output.rows
                output = more._replace(events=output.events)

    def answers(self, *, most: int | None = None) -> np.ndarray:
        """Return the answer, a bag in which a row may be repeated. O(answer).

        Where it has more than `most` rows, only somewhat more than `most` are returned.
        """
        if self._row_bags is None:
            return np.zeros((0, len(self._select)), np.int32)
        if self._distinct:
            return self._row_bags.rows(0)[0]
        state = self._products.state
        present = [meaning for meaning in range(self._meanings) if self._products.parts[meaning]]
        room = sum(int(self._call(products.count_all, meaning)) for meaning in present)
        room = room if most is None else min(room, most + 1)
        state[products.ENOUGH] = room
        output = self._room(room, 0)
        state[products.ROWS_TOLD] = 0
        for meaning in present:
            self._call(products.tell_all, output, meaning)
        return output.rows.reshape(-1, len(self._select))[: state[products.ROWS_TOLD]]

    def _room(self, rows: int, events: int) -> SolutionChanges:
        return SolutionChanges(np.empty(rows * len(self._select), np.int32), np.empty(events * products.EVENT, np.int64))

    def _rows_of(self, output: SolutionChanges) -> int:
        return len(output.rows) // len(self._select)

    def _call(self, kernel: Any, *arguments: Any) -> Any:
        own = (self._bags.view,) if kernel in (add_all, empty) else (self._bags.view, self._products_view)
        ready = _bound_kernels.get(kernel)
        if ready is None:
            ready = _bound_kernels[kernel] = bound(kernel, *own, *arguments)
        return ready(*own, *arguments)

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
        assert (self._row_bags is None) == (again._row_bags is None), "the meanings differ"
        if self._row_bags is not None:
            self._row_bags.check()
            for bag in range(len(self._bags.bags.width)):
                held, wanted = (
                    Counter(dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True)))
                    for found, counts in (bags.rows(bag) for bags in (self._bags, again._bags))
                )
                assert held == wanted, f"bag {bag} has other rows than were counted"
