"""Rows in an order, and the rows at some positions: kernels.

A counted bag (`rpq.operators.bags.row_bags`) has the rows. The *front* is a sorted list of its first entries: all entries up
to the last position that matters (`NEEDED` rows), and some more. The other entries, the *rest*, are not sorted, because most
changes concern them: a row that enters is compared with the last entry of the front. When the front has fewer rows than are
needed, the smallest entries of the rest are moved there, found by a partial quicksort, and so many that this is rare.

Rows are compared column by column: by the labels of terms (`rpq.operators.relational.values.value_order`) or, if a query
computed both of two numbers, by the numbers. If kernels cannot compare two numbers, they set `UNSURE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.operators.bags.row_bags import NONE, RowBags, add_in_event, end_event, prefetch_entry, prefetch_place
from rpq.operators.relational.values.number_ids import DECIMAL, INTEGER, integer_in_units
from rpq.operators.relational.values.term_ids import FIRST_NUMBER, TermIds
from rpq.operators.relational.values.value_order import ValueOrder, compare_terms
from rpq.rows.weighted_rows import UNBOUND, WeightedRows


class PositionState(Record):
    """The entries of front and rest, and the positions that are output."""

    _fields_ = (
        ("front", int64),  # entries of the front
        ("front_rows", int64),  # their rows
        ("needed", int64),  # rows that the front must have, unless there are no others
        ("first", int64),  # the first position that is output
        ("end", int64),  # the position behind the last one that is output; `NO_END`: none
        ("spare", int64),  # entries beside those needed that the front gets when it is filled
        ("rest", int64),  # entries of the rest
        ("compared", int64),  # columns that are compared
        ("values", int64),  # the first of these are compared by value, the others by term
        ("width", int64),  # columns of the output
        ("unsure", int64),  # 1 if two numbers could not be compared
    )


NO_END = np.iinfo(np.int64).max
_MOST = 2**40
"""More rows than there can be, in place of any larger position."""
_SPARE = 64
"""The least number of entries beyond the needed ones that the front gets when it is filled."""
_SHORT = 12
"""The number of entries up to which they are sorted by insertion."""
_AHEAD = 8
"""The number of changes between a prefetch and the use of the memory, at least."""
_PARTS = 128
"""The number of parts that may wait to be sorted."""
_CLEAR = 1e-12
"""The relative difference of numbers of different kinds from which on their doubles decide the order."""
_NOT_COMPARABLE = 2
_LOWEST = np.int64(-(2**63))


class Positions(NamedTuple):
    """The order of the entries of a bag."""

    front: np.ndarray  # int32: entries, sorted
    is_front: np.ndarray  # int8 an entry
    output: np.ndarray  # int64 an entry: how many of its rows are at the positions
    departed: np.ndarray  # int32: entries that left the front in this event
    buffer: np.ndarray  # int32: entries that are being sorted
    ends: np.ndarray  # int64: ends of the parts of the buffer that wait to be sorted
    places: np.ndarray  # int32: columns in the order in which they are compared
    signs: np.ndarray  # int8 of these: -1 descending
    columns: np.ndarray  # int32: columns of the output
    fields: PositionState


class ComputedNumbers(NamedTuple):
    """The numbers that a query computed, as in `number_ids.Numbers`."""

    high: np.ndarray  # int64
    low: np.ndarray  # int64
    real: np.ndarray  # float64, the same bits
    kind: np.ndarray  # int8


class OrderedRows:
    """The rows of a bag at positions `first` … `end` of an order, as changes of membership.

    `order` are the columns that are compared by value, each ascending or, with True, descending; `columns` are those of the
    output, which are compared after these by term. `compared` has columns that are compared in place of others. A change is
    O(1), or O(front) if it concerns the front, whose entries are those needed and O(√rows) others; filling it is O(rows),
    once in that many changes of the front.
    """

    def __init__(
        self,
        width: int,
        order: Sequence[tuple[int, bool]],
        columns: Sequence[int],
        terms: TermIds,
        *,
        first: int,
        end: int | None,
        compared: Mapping[int, int] | None = None,
    ) -> None:
        self._bags = RowBags([width])
        self._terms = terms
        self.order = ValueOrder(terms)
        self._width = width
        moved = compared or {}
        places = [moved.get(place, place) for place in (*(place for place, _ in order), *columns)]
        signs = [*(-1 if is_descending else 1 for _, is_descending in order), *([1] * len(columns))]
        self._compared = sorted({*places})
        fields = PositionState()
        fields.first = min(first, _MOST)
        fields.end = NO_END if end is None else min(end, _MOST)
        fields.needed = fields.first if end is None else fields.end
        fields.compared, fields.values, fields.width = len(places), len(order), len(columns)
        nothing = np.zeros(0, np.int32)
        self._positions = Positions(
            front=nothing,
            is_front=np.zeros(0, np.int8),
            output=np.zeros(0, np.int64),
            departed=nothing,
            buffer=nothing,
            ends=np.zeros(_PARTS, np.int64),
            places=np.array(places, np.int32),
            signs=np.array(signs, np.int8),
            columns=np.array(columns, np.int32),
            fields=fields,
        )
        self._view = view(self._positions)
        self._numbers: ComputedNumbers | None = None
        self.applied = 0
        """The number of changes that the last call applied."""

    def change(self, change: WeightedRows) -> WeightedRows | None:
        """Return the change of the rows at the positions that changes of the bag cause.

        Return None if kernels cannot compare some of these rows. Then the bag has the first `applied` changes, and only
        `rows` may be called.
        """
        count, width = len(change), len(self._positions.columns)
        self._make_room(count)
        rows = np.ascontiguousarray(change.rows)
        self._include(rows)
        weights, events = np.ascontiguousarray(change.weights), np.ascontiguousarray(change.events)
        fields, different = self._positions.fields, self.entries
        fields.spare = _SPARE + int(4 * (different + count) ** 0.5)
        numbers = self._view_of_numbers()
        outputs = []
        self.applied = 0
        at = np.zeros(2, np.int64)  # the next change, and the rows that were written
        room = 4 * count
        while at[0] < count:
            room += 2 * int(fields.front + min(fields.needed + fields.spare, different + count))
            written = np.empty((room, width), np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
            at[1] = 0
            change_positions(
                self._view, self._bags.view, self.order.view, numbers, rows.reshape(-1), weights, events, at, room,
                written[0].reshape(-1), *written[1:],
            )  # fmt: skip
            self.applied = int(at[0])
            if fields.unsure:
                return None
            if at[1]:
                outputs.append(tuple(array[: at[1]] for array in written))
        if not outputs:
            return WeightedRows.empty(width)
        columns = zip(*outputs, strict=True)
        return WeightedRows(*(np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in columns))

    def _include(self, rows: np.ndarray) -> None:
        """Assign labels to the terms of rows; numbers have no labels."""
        for place in self._compared:
            ids = rows[:, place]
            if len(ids) and ids.max() >= FIRST_NUMBER:
                ids = ids[ids < FIRST_NUMBER]
            self.order.include(np.ascontiguousarray(ids))

    def _view_of_numbers(self) -> object:
        of_terms = self._terms.computed_numbers
        if self._numbers is None or self._numbers.high is not of_terms.high:
            self._numbers = ComputedNumbers(of_terms.high, of_terms.low, of_terms.low.view(np.float64), of_terms.kinds)
            self._numbers_view = view(self._numbers)
        return self._numbers_view

    def _make_room(self, changes: int) -> None:
        self._bags.reserve(changes)
        positions, room = self._positions, len(self._bags.bags.counts)
        more = room - len(positions.front)
        if more > 0:
            names = ("front", "is_front", "output", "departed", "buffer")
            longer: dict[str, Any] = {name: lengthen(getattr(positions, name), more) for name in names}
            self._positions = positions._replace(**longer)
            self._view = view(self._positions)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the bag, (row, column), and how often each occurs. O(entries)."""
        return self._bags.rows(0)

    @property
    def entries(self) -> int:
        """The number of distinct rows."""
        return int(self._bags.bags.entry_count[0])

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._bags.nbytes + sum(array.nbytes for array in self._positions) + self.order.nbytes

    def ids(self) -> np.ndarray:
        """Return the ids in the rows, with duplicates. O(entries)."""
        return self._bags.ids()

    def check(self) -> None:
        """Assert that the front has the first entries, in order, and that their rows at the positions are output."""
        self._bags.check()
        bags, positions, fields = self._bags.bags, self._positions, self._positions.fields
        present = np.flatnonzero((bags.bag != NONE) & (bags.counts != 0))
        front = positions.front[: fields.front]
        assert sorted(front.tolist()) == np.flatnonzero(positions.is_front).tolist(), "an entry does not know where it is"
        assert np.isin(front, present).all(), "the front has a row that is not there"
        assert fields.front_rows == bags.counts[front].sum(), "rows of the front are miscounted"
        assert fields.front_rows >= fields.needed or len(front) == len(present), "the front is too short"
        views = self._view, self._bags.view, self.order.view, self._view_of_numbers()
        for one, other in pairwise(front.tolist()):
            assert compare_entries(*views, one, other) <= 0, "the front is out of order"
        for other in present[positions.is_front[present] == 0].tolist():
            assert not len(front) or compare_entries(*views, int(front[-1]), other) <= 0, "a row should be in the front"
        expected, at = np.zeros(len(positions.output), np.int64), 0
        if fields.end == NO_END:
            expected[present] = bags.counts[present]
        for entry in front.tolist():
            count = int(bags.counts[entry])
            expected[entry] = max(0, min(at + count, fields.end) - max(at, fields.first))
            at += count
        assert (positions.output == expected).all(), "other rows are output than those at the positions"


# --- comparisons -----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _order(one, other):
    return np.int64(-1) if one < other else np.int64(1) if one > other else np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def _order_unsigned(one, other):
    return _order(one ^ _LOWEST, other ^ _LOWEST)


@njit(cache=True, nogil=True, forceinline=True)
def _compare_decimals(high, low, other_high, other_low):
    return _order(high, other_high) if high != other_high else _order_unsigned(low, other_low)


@njit(cache=True, nogil=True, forceinline=True)
def _nearly(numbers, place):
    """Return a double near a number."""
    kind, high, low = np.int64(numbers.kind[place]), numbers.high[place], numbers.low[place]
    if kind == INTEGER:
        return np.float64(low)
    if kind == DECIMAL:
        unsigned = np.float64(low) + (18446744073709551616.0 if low < 0 else 0.0)
        return (np.float64(high) * 18446744073709551616.0 + unsigned) / 1e18
    return numbers.real[place]


@njit(cache=True, nogil=True)
def _compare_numbers(numbers, one, other):
    """Return how numbers at two places compare by value, or `_NOT_COMPARABLE`."""
    kind, other_kind = np.int64(numbers.kind[one]), np.int64(numbers.kind[other])
    high, low = numbers.high[one], numbers.low[one]
    other_high, other_low = numbers.high[other], numbers.low[other]
    if kind == INTEGER and other_kind == INTEGER:
        return _order(low, other_low)
    if kind <= DECIMAL and other_kind <= DECIMAL:
        if (kind == INTEGER and low == _LOWEST) or (other_kind == INTEGER and other_low == _LOWEST):
            return np.int64(_NOT_COMPARABLE)
        if kind == INTEGER:
            high, low = integer_in_units(low)
        elif other_kind == INTEGER:
            other_high, other_low = integer_in_units(other_low)
        return _compare_decimals(high, low, other_high, other_low)
    real, other_real = _nearly(numbers, one), _nearly(numbers, other)
    if real != real or other_real != other_real:  # NaN is behind all others
        return _order(1 if real != real else 0, 1 if other_real != other_real else 0)
    if kind > DECIMAL and other_kind > DECIMAL:
        return _order(real, other_real)
    if abs(real - other_real) > _CLEAR * max(abs(real), abs(other_real)):
        return _order(real, other_real)
    return np.int64(_NOT_COMPARABLE)


@njit(cache=True, nogil=True)
def compare_entries(positions, bags, labels, numbers, one, other):
    """Return how the rows of two entries compare: -1 if the first is before the other, 0 or 1."""
    fields = positions.fields
    begin, other_begin = one * bags.fields.stride, other * bags.fields.stride
    # The columns before are equal, or `unsure` is set since their numbers could not be compared.
    for column in range(fields.compared):
        place = np.int64(positions.places[column])
        term, other_term = np.int64(bags.rows[begin + place]), np.int64(bags.rows[other_begin + place])
        if term == other_term:
            continue
        if term == UNBOUND or other_term == UNBOUND:
            order = _order(term, other_term)
        elif term < FIRST_NUMBER and other_term < FIRST_NUMBER:
            order = compare_terms(labels, term, other_term, column < fields.values)
        else:
            order = np.int64(_NOT_COMPARABLE)
            if term >= FIRST_NUMBER and other_term >= FIRST_NUMBER:
                order = _compare_numbers(numbers, term - FIRST_NUMBER, other_term - FIRST_NUMBER)
            if order == _NOT_COMPARABLE or (order == 0 and column >= fields.values):
                fields.unsure = 1
                order = np.int64(0)
        if order != 0:
            return order * np.int64(positions.signs[column])
    return np.int64(0)


# --- the front -------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _place_of(positions, bags, labels, numbers, entry):
    """Return the place of the first entry of the front that is not before an entry."""
    low, high = np.int64(0), positions.fields.front
    while low < high:
        middle = (low + high) // 2
        if compare_entries(positions, bags, labels, numbers, np.int64(positions.front[middle]), entry) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _sort_smallest(positions, bags, labels, numbers, count, size):
    """Move the `size` smallest of the first `count` entries of the buffer to its beginning, in order: quicksort (Hoare
    1962)."""
    buffer = positions.buffer
    begin, end, parts = np.int64(0), np.int64(count), np.int64(0)
    # The `begin` smallest entries are in order. No entry before `end` is greater than one from there on, and the same holds
    # of each end on the stack.
    while begin < size:
        while end - begin > _SHORT and parts < _PARTS:
            pivot = np.int64(buffer[(begin + end - 1) // 2])
            left, right = begin, end - 1
            # The entries from `begin` to before `left` are not greater than the pivot, those after `right` to before `end`
            # not smaller.
            while True:
                while compare_entries(positions, bags, labels, numbers, np.int64(buffer[left]), pivot) < 0:
                    left += 1
                while compare_entries(positions, bags, labels, numbers, pivot, np.int64(buffer[right])) < 0:
                    right -= 1
                if left >= right:
                    break
                entry = buffer[left]
                buffer[left] = buffer[right]
                buffer[right] = entry
                left += 1
                right -= 1
            positions.ends[parts] = end
            parts += 1
            end = right + 1
        for place in range(begin + 1, end):
            entry, at = np.int64(buffer[place]), np.int64(place)
            while at > begin and compare_entries(positions, bags, labels, numbers, entry, np.int64(buffer[at - 1])) < 0:
                buffer[at] = buffer[at - 1]
                at -= 1
            buffer[at] = entry
        begin = end
        if parts == 0:
            return
        parts -= 1
        end = positions.ends[parts]


@njit(cache=True, nogil=True)
def _fill_front(positions, bags, labels, numbers):
    """Move the first entries of the rest to the front, which is too short."""
    fields = positions.fields
    count, entry = np.int64(0), np.int64(bags.first_entry[0])
    while entry != NONE:
        if positions.is_front[entry] == 0:
            positions.buffer[count] = entry
            count += 1
        entry = np.int64(bags.next[entry])
    size = min(count, fields.needed - fields.front_rows + fields.spare)  # an entry has one row at least
    _sort_smallest(positions, bags, labels, numbers, count, size)
    for i in range(size):
        entry = np.int64(positions.buffer[i])
        positions.front[fields.front] = entry
        positions.is_front[entry] = 1
        fields.front += 1
        fields.front_rows += bags.counts[entry]
    fields.rest -= size


@njit(cache=True, nogil=True)
def _enter(positions, bags, labels, numbers, entry):
    """Add an entry that now has rows. Return its place in the front, or -1."""
    fields, front = positions.fields, positions.front
    size = fields.front
    if fields.rest > 0 or fields.needed == 0:
        is_behind = size == 0
        if not is_behind:
            last = np.int64(front[size - 1])
            is_behind = compare_entries(positions, bags, labels, numbers, entry, last) >= 0
        if is_behind:
            fields.rest += 1
            return np.int64(-1)
    place = _place_of(positions, bags, labels, numbers, entry)
    for at in range(size, place, -1):
        front[at] = front[at - 1]
    front[place] = entry
    positions.is_front[entry] = 1
    fields.front += 1
    fields.front_rows += bags.counts[entry]
    return place


@njit(cache=True, nogil=True)
def _leave(positions, bags, labels, numbers, entry):
    """Remove an entry of the front that no longer has rows. Return its place."""
    fields, front = positions.fields, positions.front
    place = _place_of(positions, bags, labels, numbers, entry)
    while front[place] != entry and place + 1 < fields.front:  # among rows that compare equal
        place += 1
    if front[place] != entry:  # some numbers could not be compared
        place = np.int64(0)
        while front[place] != entry:
            place += 1
    fields.front -= 1
    for at in range(place, fields.front):
        front[at] = front[at + 1]
    positions.is_front[entry] = 0
    fields.front_rows -= bags.prior_count[entry]
    return place


@njit(cache=True, nogil=True, forceinline=True)
def _write_change(positions, bags, entry, output_count, event, at, rows, weights, events):
    """Write the change of the number of output rows of an entry."""
    change = output_count - positions.output[entry]
    if change == 0:
        return
    positions.output[entry] = output_count
    width, begin = positions.fields.width, entry * bags.fields.stride
    for column in range(width):
        rows[at[1] * width + column] = bags.rows[begin + np.int64(positions.columns[column])]
    weights[at[1]] = change
    events[at[1]] = event
    at[1] += 1


@njit(cache=True, nogil=True)
def _end_event(positions, bags, labels, numbers, event, at, rows, weights, events):
    """End an event: move the entries that it changed, and write the changes of the rows at the positions."""
    fields, front = positions.fields, positions.front
    touched = fields.needed  # the first place of the front that changed, of those that matter
    changed, departed = bags.fields.changed, np.int64(0)
    # `front`, `front_rows` and `rest` are as if the changed entries from `i` on had their counts before the event.
    for i in range(changed):
        entry = np.int64(bags.changed_entries[i])
        had, count = bags.prior_count[entry], bags.counts[entry]
        if (had > 0) == (count > 0):
            if had != count and positions.is_front[entry] != 0:
                fields.front_rows += count - had
                touched = np.int64(0)
        elif count > 0:
            place = _enter(positions, bags, labels, numbers, entry)
            if place >= 0:
                touched = min(touched, place)
        elif positions.is_front[entry] != 0:
            touched = min(touched, _leave(positions, bags, labels, numbers, entry))
        else:
            fields.rest -= 1
    if fields.front_rows < fields.needed and fields.rest > 0:
        touched = min(touched, fields.front)
        _fill_front(positions, bags, labels, numbers)
    if fields.front > fields.needed + 2 * fields.spare:
        while fields.front > fields.needed + fields.spare:
            fields.front -= 1
            entry = np.int64(front[fields.front])
            fields.front_rows -= bags.counts[entry]
            positions.is_front[entry] = 0
            fields.rest += 1
            positions.departed[departed] = entry
            departed += 1
    first, end = fields.first, fields.end
    walked = np.int64(0)
    if touched < fields.needed:
        walked = min(fields.front, fields.needed + changed)  # an entry has moved by at most so many positions
        position = np.int64(0)
        # `position` is the number of rows of the entries before `place`: the position of its first row.
        for place in range(walked):
            entry = np.int64(front[place])
            behind = position + bags.counts[entry]
            output_count = max(np.int64(0), min(behind, end) - max(position, first))
            _write_change(positions, bags, entry, output_count, event, at, rows, weights, events)
            positions.is_front[entry] = 2
            position = behind
    # The entries that were walked are written and marked by 2. All others are behind the rows that are needed: without an
    # end all their rows are output, otherwise none.
    for i in range(changed + departed):
        entry = np.int64(bags.changed_entries[i] if i < changed else positions.departed[i - changed])
        if walked == 0 and i < changed and bags.prior_count[entry] == bags.counts[entry]:
            continue  # its rows left and returned in this event, which changes nothing at the positions
        if positions.is_front[entry] != 2:
            output_count = bags.counts[entry] if end == NO_END else np.int64(0)
            _write_change(positions, bags, entry, output_count, event, at, rows, weights, events)
    for place in range(walked):
        positions.is_front[np.int64(front[place])] = 1
    end_event(bags)


@njit(cache=True, nogil=True)
def change_positions(positions, bags, labels, numbers, changes, of_changes, of_events, at, room, rows, weights, events):
    """Apply changes from number `at[0]` on, event by event, and write the changes of the rows at the positions (`at[1]`).

    Return before an event for whose rows there may be no room, and after an event with numbers that cannot be compared.
    """
    fields, width, count = positions.fields, np.int64(bags.width[0]), len(of_changes)
    # The events before change `at[0]` have ended, and their changes are written. An event begins only if there is room for
    # its rows, so the call resumes with it.
    while at[0] < count:
        begin = end = at[0]
        while end < count and of_events[end] == of_events[begin]:
            end += 1
        front = fields.front + min(fields.needed + fields.spare, bags.entry_count[0] + end - begin)
        if at[1] + 2 * front + 2 * (end - begin) > room:
            return
        for i in range(begin, end):
            if i + 2 * _AHEAD < count:
                prefetch_place(bags, 0, changes, (i + 2 * _AHEAD) * width)
            if i + _AHEAD < count:
                prefetch_entry(bags, 0, changes, (i + _AHEAD) * width)
            add_in_event(bags, 0, changes, i * width, of_changes[i])
        _end_event(positions, bags, labels, numbers, of_events[begin], at, rows, weights, events)
        at[0] = end
        if fields.unsure != 0:
            return
