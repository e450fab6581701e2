"""Joins, left joins, EXISTS and NOT EXISTS by key.

In `MatchedRows` the rows of the left, those of the right if they are joined, and the keys are entries of row bags
(`rpq.operators.bags.row_bags`). The upper half of the count of a key is the number of rows of the right with that key,
the lower half the number of entries in its two lists: the rows of each side with that key. A deleted row stays in its
list until the list is read or the space is needed, since it often returns.

An event changes entries, and rows are joined as they change. At the end of the event, keys that got their first partner or
lost their last one add or remove all their rows of the left. Other changed rows of the left are added or removed alone,
according to whether their key has a partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.operators.bags.row_bags import NONE, RowBags, add, add_in_event, end_event, longer
from rpq.rows.weighted_rows import WeightedRows

Mode = Literal["join", "left join", "exists", "not exists"]

# The bags.
LEFT, RIGHT, KEY = range(3)


class MatchShape(Record):
    """The kind of match, and numbers of columns."""

    _fields_ = (
        ("joins", int64),  # 1: rows of both sides are joined
        ("lone", int64),  # 1: rows of the left without a partner are output; -1: those with one, without it
        ("left_width", int64),
        ("right_width", int64),
        ("keys", int64),
        ("more", int64),  # columns of the right that come behind those of the left
    )


_PARTNER = 32
"""Bits below the number of partners in the count of a key."""


class Matching(NamedTuple):
    """The description of a match: the parts that belong together, and their columns."""

    key_of: np.ndarray  # int32 an entry: the entry of its key; -1 it is in no list
    head: np.ndarray  # int32, two an entry: of a key the first row of the left, and of the right
    next: np.ndarray  # int32 an entry, in the list of its key
    previous: np.ndarray  # int32 an entry
    left_keys: np.ndarray  # int32: places of the key in rows of the left
    right_keys: np.ndarray  # int32
    more: np.ndarray  # int32: places in rows of the right
    shape: MatchShape


class MatchedRows:
    """The rows of two sides, matched by key, and the result of an operator over them. Amortised O(input + output)."""

    def __init__(
        self,
        mode: Mode,
        *,
        left_width: int,
        right_width: int,
        left_keys: Sequence[int],
        right_keys: Sequence[int],
        more: Sequence[int],
    ) -> None:
        joins = mode in ("join", "left join")
        self.width = left_width + (len(more) if joins else 0)
        self._widths = [left_width, right_width if joins else 0, len(left_keys)]
        lone = {"join": 0, "left join": 1, "exists": -1, "not exists": 1}[mode]
        self._shape = MatchShape(joins, lone, left_width, right_width, len(left_keys), len(more) if joins else 0)
        self._columns = [np.array(places, np.int32) for places in (left_keys, right_keys, more)]
        self.clear()

    def clear(self) -> None:
        """Remove everything."""
        self._bags = RowBags(self._widths)
        key_of, head, following, previous = (np.zeros(0, np.int32) for _ in range(4))
        left_keys, right_keys, more = self._columns
        self._matching = Matching(key_of, head, following, previous, left_keys, right_keys, more, self._shape)
        self._grow_arrays()

    def _grow_arrays(self) -> None:
        """Grow the arrays of lists to the number of entries."""
        matching, room = self._matching, self._bags.bags.fields.room
        more = room - len(matching.key_of)
        if more > 0:
            none, heads = np.full(more, NONE, np.int32), np.full(2 * more, NONE, np.int32)
            self._matching = matching._replace(
                key_of=np.concatenate([matching.key_of, none]),
                head=np.concatenate([matching.head, heads]),
                next=np.concatenate([matching.next, none]),
                previous=np.concatenate([matching.previous, none]),
            )
        self._view = view(self._matching)

    def change(self, left: WeightedRows, right: WeightedRows) -> WeightedRows:
        """Apply changes of both sides and return the change of the result."""
        fields = self._bags.bags.fields
        needed = 2 * (len(left) + len(right))
        if fields.used - fields.free + needed > fields.room:
            unlink_gone(self._bags.view, self._view)
            self._bags.make_room(needed)
            self._grow_arrays()
        rows, weights, events, count = change_matched(
            self._bags.view,
            self._view,
            np.ascontiguousarray(left.rows).reshape(-1),
            left.weights,
            left.events,
            np.ascontiguousarray(right.rows).reshape(-1),
            right.weights,
            right.events,
        )
        return WeightedRows(rows[: count * self.width].reshape(count, self.width), weights[:count], events[:count])

    @property
    def entries(self) -> int:
        """The number of stored rows, and keys."""
        return int(self._bags.bags.entry_count.sum())

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._bags.nbytes + sum(array.nbytes for array in self._matching[:4])

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows, with duplicates. O(entries)."""
        return self._bags.ids()

    def check(self) -> None:
        """Assert that rows hang in the lists of their keys, and keys are counted as they should be. O(entries)."""
        self._bags.check()
        bags, matching = self._bags.bags, self._matching
        stride = bags.fields.stride
        table = bags.rows.reshape(-1, stride)
        linked = np.zeros(len(matching.key_of), np.int64)
        for entry in np.flatnonzero(matching.key_of != NONE).tolist():
            side, key = int(bags.bag[entry]), int(matching.key_of[entry])
            linked[key] += 1
            places = matching.left_keys if side == LEFT else matching.right_keys
            assert (table[entry, places] == table[key, : len(places)]).all(), "a row is in the list of another key"
            before = int(matching.previous[entry])
            assert (matching.head[2 * key + side] if before == NONE else matching.next[before]) == entry, "a list is broken"
        for side in (LEFT, RIGHT):
            places = np.flatnonzero((bags.bag == side) & (bags.counts != 0))
            assert (matching.key_of[places] != NONE).all(), "a row is in the list of no key"
        for key in np.flatnonzero(bags.bag == KEY).tolist():
            assert bags.counts[key] & 0xFFFFFFFF == linked[key], "a key has another count of rows"
            if self._shape.joins:
                mine = (matching.key_of == key) & (bags.bag == RIGHT)
                assert bags.counts[key] >> _PARTNER == bags.counts[mine].sum(), "a key has another count of partners"


@njit(cache=True, nogil=True, forceinline=True)
def _link(matching, entry, key, side):
    following = np.int64(matching.head[2 * key + side])
    matching.key_of[entry] = key
    matching.next[entry] = following
    matching.previous[entry] = NONE
    if following != NONE:
        matching.previous[following] = entry
    matching.head[2 * key + side] = entry


@njit(cache=True, nogil=True)
def _unlink(bags, matching, entry):
    key = np.int64(matching.key_of[entry])
    before, following = np.int64(matching.previous[entry]), np.int64(matching.next[entry])
    if before != NONE:
        matching.next[before] = following
    else:
        matching.head[2 * key + bags.bag[entry]] = following
    if following != NONE:
        matching.previous[following] = before
    matching.key_of[entry] = NONE
    add(bags, KEY, bags.rows, key * bags.fields.stride, np.int64(-1))


@njit(cache=True, nogil=True)
def unlink_gone(bags, matching):
    """Unlink rows with a count of 0 from the lists of their keys."""
    for entry in range(bags.fields.used):
        if matching.key_of[entry] != NONE and bags.counts[entry] == 0:
            _unlink(bags, matching, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _has_turned(bags, key):
    """Return whether a key had a partner before the event and has none, or the other way round."""
    return bags.prior_count[key] != NONE and (bags.prior_count[key] >> _PARTNER != 0) != (bags.counts[key] >> _PARTNER != 0)


@njit(cache=True, nogil=True)
def change_matched(bags, matching, lefts, left_weights, left_events, rights, right_weights, right_events):
    """Apply changes of both sides; return (rows, weights, events, number) of the changes of the result."""
    shape = matching.shape
    joins, lone, keys, more = shape.joins != 0, shape.lone, shape.keys, shape.more
    left_width, right_width, stride = shape.left_width, shape.right_width, bags.fields.stride
    width = left_width + more
    left_count, right_count = len(left_weights), len(right_weights)
    room = left_count + right_count + 16
    rows, weights, events = np.empty(room * max(width, 1), np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    keyed = np.empty(max(keys, 1), np.int32)
    i = j = 0
    # The changes of the left before `i` and of the right before `j` are applied, and the changes of the result that they
    # cause, `size` of them, written. All are of earlier events, which have ended.
    while i < left_count or j < right_count:
        if i == left_count:
            event = right_events[j]
        elif j == right_count:
            event = left_events[i]
        else:
            event = min(left_events[i], right_events[j])
        # The left is as before the event, so pairs of two changed rows are formed once, with the left below.
        while j < right_count and right_events[j] == event:
            at, weight = j * right_width, right_weights[j]
            for column in range(keys):
                keyed[column] = rights[at + matching.right_keys[column]]
            key = add_in_event(bags, KEY, keyed, 0, weight << _PARTNER)
            if joins:
                entry = add_in_event(bags, RIGHT, rights, at, weight)
                if matching.key_of[entry] == NONE:
                    add_in_event(bags, KEY, keyed, 0, np.int64(1))
                    _link(matching, entry, key, RIGHT)
                other = np.int64(matching.head[2 * key + LEFT])
                while other != NONE:
                    following = np.int64(matching.next[other])
                    if bags.counts[other] != 0:
                        if size == len(weights):
                            rows, weights, events = longer(rows, len(rows)), longer(weights, size), longer(events, size)
                        for column in range(left_width):
                            rows[size * width + column] = bags.rows[other * stride + column]
                        for column in range(more):
                            rows[size * width + left_width + column] = rights[at + matching.more[column]]
                        weights[size] = weight * bags.counts[other]
                        events[size] = event
                        size += 1
                    elif bags.prior_count[other] == NONE:
                        _unlink(bags, matching, other)
                    other = following
            j += 1
        # The right is as after the event.
        while i < left_count and left_events[i] == event:
            at, weight = i * left_width, left_weights[i]
            entry = add_in_event(bags, LEFT, lefts, at, weight)
            key = np.int64(matching.key_of[entry])
            if key == NONE:
                for column in range(keys):
                    keyed[column] = lefts[at + matching.left_keys[column]]
                key = add_in_event(bags, KEY, keyed, 0, np.int64(1))
                _link(matching, entry, key, LEFT)
            if joins:
                other = np.int64(matching.head[2 * key + RIGHT])
                while other != NONE:
                    following = np.int64(matching.next[other])
                    if bags.counts[other] != 0:
                        if size == len(weights):
                            rows, weights, events = longer(rows, len(rows)), longer(weights, size), longer(events, size)
                        for column in range(left_width):
                            rows[size * width + column] = lefts[at + column]
                        for column in range(more):
                            rows[size * width + left_width + column] = bags.rows[other * stride + matching.more[column]]
                        weights[size] = weight * bags.counts[other]
                        events[size] = event
                        size += 1
                    elif bags.prior_count[other] == NONE:
                        _unlink(bags, matching, other)
                    other = following
            i += 1
        if lone != 0:
            # All rows of a key that turned are written when the key is met; other rows of the left one by one.
            for place in range(bags.fields.changed):
                entry = np.int64(bags.changed_entries[place])
                side = np.int64(bags.bag[entry])
                if side == KEY and _has_turned(bags, entry):
                    has = bags.counts[entry] >> _PARTNER != 0
                    entry = np.int64(matching.head[2 * entry + LEFT])
                elif side == LEFT and not _has_turned(bags, np.int64(matching.key_of[entry])):
                    has = bags.counts[matching.key_of[entry]] >> _PARTNER != 0
                    if has == (lone > 0):
                        continue  # it is output joined with its partners, or not at all
                else:
                    continue
                while entry != NONE:
                    before = bags.counts[entry] if bags.prior_count[entry] == NONE else bags.prior_count[entry]
                    after = bags.counts[entry]
                    if side == KEY:
                        # The key turned: its rows leave the output, or enter it.
                        difference = -before if has == (lone > 0) else after
                    else:
                        difference = after - before
                    if difference != 0:
                        if size == len(weights):
                            rows, weights, events = longer(rows, len(rows)), longer(weights, size), longer(events, size)
                        for column in range(left_width):
                            rows[size * width + column] = bags.rows[entry * stride + column]
                        for column in range(left_width, width):
                            rows[size * width + column] = NONE
                        weights[size] = difference
                        events[size] = event
                        size += 1
                    if side == LEFT:
                        break
                    entry = np.int64(matching.next[entry])
        end_event(bags)
    return rows, weights, events, size
