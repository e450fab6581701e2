"""Products of bags of rows, and DISTINCT.

`Product` combines parts, each with a bag of rows: a changed row of a part is combined with all rows of the other parts, and
each combination is a row of the product as often as the product of the counts says. The rows are stored as parts and not
multiplied out. A product may have several *meanings*, each with parts of its own, whose products are added up. Under
DISTINCT bag 0 counts the rows of the product. `DistinctBag` is the same for a single part, whose rows need not be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, bound, int64, view
from rpq.operators.bags.row_bags import NONE, RowBags, add, add_all, add_in_event, empty, end_event
from rpq.rows.weighted_rows import WeightedRows

# The codes of `change_parts`: finished, or what lacks room.
DONE, NEED_ENTRIES, NEED_ROWS = range(3)

INT64_MAX = np.iinfo(np.int64).max


class ProductState(Record):
    """The progress of forming rows, and their limits."""

    _fields_ = (
        ("at", int64),  # the change at which it is
        ("is_applied", int64),  # 1: that change is applied, and what is left is the end of its event
        ("columns", int64),  # of the output
        ("distinct", int64),
        ("differ", int64),  # 1: values of different parts must be different
        ("max_parts", int64),
        ("needed", int64),  # entries or rows for which there is no room
        ("written", int64),  # changes of the output so far
        ("weight", int64),  # the sum of the sizes of their weights
        ("reports", int64),  # 0: rows are only counted
        ("most", int64),  # limit of an event, which has one sign: after one more row all ends, for good; -1 no limit
        ("enough_weight", int64),  # weight at which it stops
        ("turned_rows", int64),  # under DISTINCT, how many rows the event has added or removed so far
        ("has_stopped", int64),  # 1: under DISTINCT it has stopped, and the rows so far are to be written
    )


class Parts(NamedTuple):
    """The state of forming rows. Part p of meaning m has bag 1 + m * `state.max_parts` + p."""

    parts: np.ndarray  # int32 a meaning: number of its parts; 0 it has no rows
    select: np.ndarray  # int32, two a column: part, and place in its rows
    row: np.ndarray  # int32: the row that is being formed
    at: np.ndarray  # int32 a part: its entry in the combination; -1 none
    state: ProductState


class ProductChanges(NamedTuple):
    """Changes of the output."""

    rows: np.ndarray  # int32
    weights: np.ndarray  # int64
    events: np.ndarray  # int64


_bound_kernels: dict[Any, Any] = {}
"""Bound kernels, shared by all products, since their arguments have the same types."""


class Product:
    """The sum of the products of the parts of `meanings`, or the set of its rows if `distinct`.

    `widths` are the numbers of columns of the parts of a meaning, which may also have fewer parts. `select` are the columns
    of the output: part, and place in its rows. With `differ` values of different parts must be different.

    On bags: Ω1 × … × Ωn, with the product of the counts. A change of one part is combined with the current rows of the
    others, so while one part is empty there is no output.
    """

    def __init__(
        self,
        widths: Sequence[int],
        select: Sequence[tuple[int, int]],
        *,
        meanings: int = 1,
        distinct: bool = False,
        differ: bool = False,
    ) -> None:
        self.widths = [*widths]
        self.width = len(select)
        self._distinct = distinct
        state = ProductState(columns=len(select), max_parts=max(1, len(widths)), distinct=distinct, differ=differ)
        self._parts = Parts(
            parts=np.zeros(meanings, np.int32),
            select=np.array(select, np.int32).reshape(-1),
            row=np.zeros(len(select), np.int32),
            at=np.full(max(1, len(widths)), NONE, np.int32),
            state=state,
        )
        self._parts_view = view(self._parts)
        self.clear()

    def clear(self) -> None:
        """Remove all meanings."""
        self.bags = RowBags([self.width if self._distinct else 0, *self.widths * len(self._parts.parts)])
        self._parts.parts[:] = 0

    def _bag(self, meaning: int, part: int) -> int:
        return 1 + meaning * self._parts.state.max_parts + part

    # --- meanings --------------------------------------------------------------------------------------------

    def load(self, meaning: int, rows: Sequence[np.ndarray], *, row_limit: int | None = None) -> None:
        """Set the rows of the parts of a meaning that is absent: for each part an int32 array (row, column).

        Where these make more than `row_limit` rows, under DISTINCT only somewhat more than `row_limit` are counted; after
        that only `rows`, which shows that there are so many, and `clear` may be called.
        """
        self._parts.parts[meaning] = len(rows)
        for part, some in enumerate(rows[:-1]):
            at = np.zeros(1, np.int64)
            values = np.ascontiguousarray(some).reshape(-1)
            while not self._call(add_all, self._bag(meaning, part), values, at, len(some)):
                self.bags.make_room(1)
        self._change([((meaning, len(rows) - 1), WeightedRows.insertion_of(rows[-1]))], None, row_limit, reports=False)

    @property
    def meanings(self) -> list[int]:
        """The meanings that are present."""
        return np.flatnonzero(self._parts.parts).tolist()

    def drop(self, meaning: int) -> None:
        """Remove a meaning. O(its rows)."""
        if not self._parts.parts[meaning]:
            return
        last = int(self._parts.parts[meaning]) - 1
        rows, counts = self.bags.rows(self._bag(meaning, last))
        removed = WeightedRows(rows, -counts, np.zeros(len(rows), np.int64))
        self._change([((meaning, last), removed)], None, None, reports=False)
        for part in range(last + 1):
            self._call(empty, self._bag(meaning, part))
        self._parts.parts[meaning] = 0

    # --- changes ---------------------------------------------------------------------------------------------

    def change(
        self,
        changes: Iterable[tuple[tuple[int, int], WeightedRows]],
        *,
        silent: np.ndarray | None = None,
        row_limit: int | None = None,
    ) -> WeightedRows:
        """Apply changes of parts, each after its meaning and part; return the changes of the output.

        With `silent` (a boolean for each event) deletions in these events are applied but not returned. With `row_limit`
        all changes of an event must be of one sign: of an event with more rows only somewhat more than `row_limit` are
        returned, and nothing after it; then the state is of no further use. Under DISTINCT the output is net of each event,
        deletions first. O(changes + output).
        """
        output = self._change(changes, silent, row_limit, reports=True)
        count = self._parts.state.written
        rows = output.rows[: count * self.width].reshape(count, self.width)
        return WeightedRows(rows, output.weights[:count], output.events[:count])

    def _change(
        self,
        changes: Iterable[tuple[tuple[int, int], WeightedRows]],
        silent: np.ndarray | None,
        row_limit: int | None,
        *,
        reports: bool,
    ) -> ProductChanges:
        state = self._parts.state
        state.at = state.is_applied = state.written = state.weight = state.has_stopped = 0
        state.reports, state.most = reports, -1 if row_limit is None else row_limit
        some = [(self._bag(*place), rows) for place, rows in changes if len(rows)]
        output = self._room(sum([len(rows) for _, rows in some]) if reports else 0)
        if not some:
            return output
        places, begin = [], 0
        for _, rows in some:
            width = rows.rows.shape[1]
            places.append(begin + width * np.arange(len(rows)))
            begin += rows.rows.size
        values = np.concatenate([rows.rows.reshape(-1) for _, rows in some])
        weights, events = (np.concatenate([getattr(rows, name) for _, rows in some]) for name in ("weights", "events"))
        bags = np.repeat([bag for bag, _ in some], [len(rows) for _, rows in some])
        inputs = [np.concatenate(places), bags, weights, events]
        if len(some) > 1:  # what leaves in an event comes first, so that less is formed that leaves again
            order = np.argsort(2 * events + (weights > 0), kind="stable")
            inputs = [array[order] for array in inputs]
        is_silent = np.zeros(len(weights), bool) if silent is None else silent[inputs[-1]]
        while True:
            code = self._call(change_parts, output, values, *inputs, is_silent, len(output.weights))
            if code == DONE:
                return output
            needed = state.needed
            if code == NEED_ENTRIES:
                self.bags.make_room(needed)
            else:
                more = self._room(2 * state.written + needed)
                for new, old in zip(more, output, strict=True):
                    new[: len(old)] = old
                output = more

    def rows(self, *, row_limit: int | None = None) -> np.ndarray:
        """Return the output, (row, column), each row as often as it occurs. O(output).

        Where it has more than `row_limit` rows, only somewhat more than `row_limit` are returned.
        """
        if self._distinct:
            return self.bags.rows(0)[0]
        state = self._parts.state
        room = sum(int(self._call(count_all, meaning)) for meaning in self.meanings)
        output = self._room(room if row_limit is None else min(room, row_limit + 1))
        state.written = state.weight = 0
        state.enough_weight = INT64_MAX if row_limit is None else row_limit + 1
        for meaning in self.meanings:
            self._call(write_all, output, meaning)
        count = state.written
        return np.repeat(output.rows[: count * self.width].reshape(count, self.width), output.weights[:count], axis=0)

    def _room(self, rows: int) -> ProductChanges:
        return ProductChanges(np.empty(rows * self.width, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int64))

    def _call(self, kernel: Any, *arguments: Any) -> Any:
        own = (self.bags.view,) if kernel in (add_all, empty) else (self.bags.view, self._parts_view)
        ready = _bound_kernels.get(kernel)
        if ready is None:
            ready = _bound_kernels[kernel] = bound(kernel, *own, *arguments)
        return ready(*own, *arguments)

    # --- sizes -----------------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        """The number of different rows of all parts."""
        return int(self.bags.bags.entry_count[1:].sum())

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self.bags.nbytes

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows, with duplicates. O(entries)."""
        return self.bags.ids()

    def check(self) -> None:
        """Assert the invariants."""
        self.bags.check()


class DistinctBag:
    """The set of the rows of a bag: a row enters when its count becomes positive, and leaves when it becomes 0.

    An event in which it does both changes nothing. Amortised O(changes).
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.clear()

    def clear(self) -> None:
        """Remove everything."""
        self.bags = RowBags([self._width])
        self._empty_rows = 0  # how often the row without columns comes

    def change(self, changes: WeightedRows) -> WeightedRows:
        """Apply changes and return the rows that entered or left, net of each event, those that left first."""
        if not self._width:
            changes = self._emptiness_changes(changes)
        count, width = len(changes), self._width
        fields = self.bags.bags.fields
        if fields.used - fields.free + count > fields.room:
            self.bags.make_room(count)
        rows, weights, events, written = change_distinct(
            self.bags.view, np.ascontiguousarray(changes.rows).reshape(-1), changes.weights, changes.events, width
        )
        return WeightedRows(rows[: written * width].reshape(written, width), weights[:written], events[:written])

    def _emptiness_changes(self, changes: WeightedRows) -> WeightedRows:
        """Return the changes of the row without columns summed up between the events in which it enters or leaves."""
        if not len(changes):
            return changes
        ends = np.flatnonzero(np.append(changes.events[1:] != changes.events[:-1], True))
        counts = self._empty_rows + np.cumsum(changes.weights)[ends]
        is_there = counts > 0
        turns = is_there != np.append(self._empty_rows > 0, is_there[:-1])
        turns[-1] = True
        weights = np.diff(counts[turns], prepend=self._empty_rows)
        self._empty_rows = int(counts[-1])
        places = ends[turns][weights != 0]
        return WeightedRows(changes.rows[places], weights[weights != 0], changes.events[places])

    def rows(self) -> np.ndarray:
        """Return the rows, (row, column). O(entries)."""
        return self.bags.rows(0)[0]

    @property
    def entries(self) -> int:
        """The number of different rows."""
        return int(self.bags.bags.entry_count.sum())

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self.bags.nbytes

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows, with duplicates. O(entries)."""
        return self.bags.ids()

    def check(self) -> None:
        """Assert the invariants."""
        self.bags.check()
        if not self._width:
            assert self.bags.rows(0)[1].tolist() == [self._empty_rows] * (self._empty_rows > 0), "rows are miscounted"


@njit(cache=True, nogil=True, forceinline=True)
def _bag(parts, meaning, part):
    return 1 + meaning * parts.state.max_parts + part


@njit(cache=True, nogil=True)
def _combinations(bags, parts, meaning, part):
    """Return how many combinations a row of a part can bring; with no part, how many there are."""
    count = np.int64(1)
    for other in range(parts.parts[meaning]):
        if other != part:
            count *= bags.entry_count[_bag(parts, meaning, other)]
    return count


@njit(cache=True, nogil=True, forceinline=True)
def _are_different(bags, first, width, second, second_width):
    for i in range(width):
        for j in range(second_width):
            if bags.rows[first + i] == bags.rows[second + j]:
                return False
    return True


@njit(cache=True, nogil=True)
def _is_apart(bags, parts, meaning):
    """Return whether no value of one part is a value of another."""
    stride = bags.fields.stride
    for one in range(parts.parts[meaning]):
        width = np.int64(bags.width[_bag(parts, meaning, one)])
        for other in range(one):
            other_width = np.int64(bags.width[_bag(parts, meaning, other)])
            if not _are_different(bags, parts.at[one] * stride, width, parts.at[other] * stride, other_width):
                return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _is_limited(state, is_reported):
    """Return whether more than `state.most` rows are too many: silent ones do not count while others are reported."""
    return state.most >= 0 and (is_reported or state.reports == 0)


@njit(cache=True, nogil=True)
def _combine(bags, parts, output, meaning, part, amount, event, is_reported):
    """Enter all combinations with the entry `at[part]` (without a part: all), each `amount` times its count."""
    state, number = parts.state, np.int64(parts.parts[meaning])
    stride, columns = bags.fields.stride, state.columns
    for other in range(number):
        if other != part:
            parts.at[other] = bags.first_entry[_bag(parts, meaning, other)]
            if parts.at[other] == NONE:
                return
    # `parts.at` is the next combination, and all before it are done. The last part turns fastest.
    while True:
        if state.differ == 0 or _is_apart(bags, parts, meaning):
            weight = np.int64(amount)
            for other in range(number):
                if other != part:
                    weight *= bags.counts[parts.at[other]]
            for column in range(columns):
                entry = np.int64(parts.at[parts.select[2 * column]])
                parts.row[column] = bags.rows[entry * stride + parts.select[2 * column + 1]]
            if state.distinct != 0:
                entry = add_in_event(bags, 0, parts.row, 0, weight)
                state.turned_rows += (bags.counts[entry] == weight) != (bags.counts[entry] == 0)  # it came or went
                if _is_limited(state, is_reported) and state.turned_rows > state.most:
                    state.has_stopped = 1
                    return
            elif is_reported:
                left = state.enough_weight - state.weight
                _write(parts, output, min(weight, left) if weight > 0 else max(weight, -left), event)
                if state.weight >= state.enough_weight:
                    return
        turning = np.int64(number - 1)
        # The parts after `turning`, except `part`, are back at their first entry.
        while turning >= 0:
            if turning != part:
                parts.at[turning] = bags.next[parts.at[turning]]
                if parts.at[turning] != NONE:
                    break
                parts.at[turning] = bags.first_entry[_bag(parts, meaning, turning)]
            turning -= 1
        if turning < 0:
            return


@njit(cache=True, nogil=True, forceinline=True)
def _write(parts, output, weight, event):
    """Write the current row."""
    state = parts.state
    at = state.written * state.columns
    for column in range(state.columns):
        output.rows[at + column] = parts.row[column]
    output.weights[state.written] = weight
    output.events[state.written] = event
    state.written += 1
    state.weight += abs(weight)


@njit(cache=True, nogil=True)
def _write_changed_rows(bags, rows, weights, events, at, width, event, removes, adds):
    """Write the rows that an event has removed from the set of rows with a count, then those that it has added.

    Writes from place `at` on; return the place behind.
    """
    stride = bags.fields.stride
    for sign in (-1, 1):
        if not (removes if sign < 0 else adds):
            continue
        for i in range(bags.fields.changed):
            entry = np.int64(bags.changed_entries[i])
            was, is_there = bags.prior_count[entry] > 0, bags.counts[entry] > 0
            if was != is_there and is_there == (sign > 0):
                for column in range(width):
                    rows[at * width + column] = bags.rows[entry * stride + column]
                weights[at] = sign
                events[at] = event
                at += 1
    return at


@njit(cache=True, nogil=True)
def change_parts(bags, parts, output, values, places, numbers, weights, events, is_silent, room):
    """Apply changes of parts, from where it stopped; there is room for `room` changes of the output.

    `numbers` are the bags of the changes, `places` those of their first values.
    """
    state, fields = parts.state, bags.fields
    count = len(weights)
    # The changes before `state.at` are done. Room is checked before a change is applied, and again before its event ends;
    # `is_applied` prevents a call that resumes from applying it twice.
    while state.at < count:
        i = state.at
        event, weight = events[i], weights[i]
        if state.is_applied == 0:
            meaning, part = (numbers[i] - 1) // state.max_parts, (numbers[i] - 1) % state.max_parts
            is_reported = state.reports != 0 and (weight > 0 or not is_silent[i])
            if i == 0 or events[i - 1] != event:
                is_limited = state.most >= 0 and state.distinct == 0
                state.enough_weight = state.weight + state.most + 1 if is_limited else INT64_MAX
                state.turned_rows = 0
            needed = _combinations(bags, parts, meaning, part)
            if state.distinct != 0 or not is_reported:
                if _is_limited(state, is_reported):
                    needed = min(needed, state.most + 1 - state.turned_rows)  # a new entry is a new row
                state.needed = 1 + (needed if state.distinct != 0 else 0)
            else:
                needed = min(needed, state.enough_weight - state.weight)
                state.needed = needed
                if state.written + needed > room:
                    return np.int64(NEED_ROWS)
                state.needed = 1
            if fields.used - fields.free + state.needed > fields.room:
                return np.int64(NEED_ENTRIES)
            parts.at[part] = add(bags, numbers[i], values, places[i], weight)
            if state.distinct != 0 or is_reported:
                _combine(bags, parts, output, meaning, part, weight, event, is_reported)
            state.is_applied = 1
            if state.weight >= state.enough_weight:
                return np.int64(DONE)
        is_over = state.has_stopped != 0 or i + 1 == count or events[i + 1] != event
        if is_over and fields.changed != 0:
            if state.reports != 0:
                if state.written + fields.changed > room:
                    state.needed = fields.changed
                    return np.int64(NEED_ROWS)
                state.written = _write_changed_rows(
                    bags, output.rows, output.weights, output.events, state.written, state.columns, event,
                    not is_silent[i], True,
                )  # fmt: skip
            end_event(bags)
        if state.has_stopped != 0:
            return np.int64(DONE)
        state.at = i + 1
        state.is_applied = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def write_all(bags, parts, output, meaning):
    """Write all rows of a meaning with their counts, up to a weight of `ENOUGH_WEIGHT`. There must be room."""
    if parts.state.weight < parts.state.enough_weight:
        _combine(bags, parts, output, meaning, np.int64(NONE), np.int64(1), np.int64(0), True)


@njit(cache=True, nogil=True)
def count_all(bags, parts, meaning):
    """Return an upper bound of the number of different combinations of a meaning."""
    return _combinations(bags, parts, meaning, np.int64(NONE))


@njit(cache=True, nogil=True)
def change_distinct(bags, changes, change_weights, change_events, width):
    """Apply changes; return (rows, weights, events, number) of the rows that appeared or disappeared."""
    count = len(change_weights)
    rows, weights, events = np.empty(count * width, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    written = 0
    removes = adds = False
    # Earlier events have ended. `removes` and `adds` say which signs the changes before `i` in its event have.
    for i in range(count):
        add_in_event(bags, 0, changes, i * width, change_weights[i])
        removes |= change_weights[i] < 0
        adds |= change_weights[i] > 0
        if i + 1 < count and change_events[i + 1] == change_events[i]:
            continue
        written = _write_changed_rows(bags, rows, weights, events, written, width, change_events[i], removes, adds)
        removes = adds = False
        end_event(bags)
    return rows, weights, events, written
