"""Joins, left joins, EXISTS and NOT EXISTS by value: rows meet if a comparison between a value of each side holds.

In `ValueMatches` the rows of each side are found by key and value: they hang at the nodes of `value_trees`.

An event changes the right side, then the left side. What the change of a value on the right can concern is found by search:
the rows whose number of partners differs lie between the bounds of the values that come and go, and those that gain their
first partner or lose their last one lie between the bounds of the outermost values before and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.operators.bags.matching import LEFT, RIGHT, Mode
from rpq.operators.bags.row_bags import NONE, RowBags, add, find, longer
from rpq.operators.bags.value_trees import (
    DURATION,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NO_VALUE,
    SIGNS,
    TREE,
    MatchArrays,
    TreeValues,
    ValueMatchShape,
    bound_of,
    compare,
    delete_node,
    end_of_kinds,
    find_value,
    first_kind,
    first_partner,
    insert_value,
    leftmost,
    mirror,
    next_partner,
    rightmost,
)
from rpq.rows.weighted_rows import WeightedRows

ValueMode = Mode | Literal["rows"]
"""The kinds of matching; `rows` returns each row of the left as often as it has partners."""

_OF_ENTRIES = {"node_of": NONE, "next": NONE, "previous": NONE, "root": NONE, "running_weight": 0}
_OF_NODES = {
    "kind": NONE,
    "high": 0,
    "low": 0,
    "real": 0,
    "tree": NONE,
    "parent": NONE,
    "lower_child": NONE,
    "upper_child": NONE,
    "smaller": NONE,
    "greater": NONE,
    "head": NONE,
    "total": 0,
    "pending": 0,
    "free_nodes": NONE,
}
_UNTOUCHED = 0
_HAD_NO_PARTNER = 1
_HAD_PARTNER = 2
"""The values of `MatchArrays.pending` for a node that an event may give its first partner, or rob of its last one."""


class ValueMatches:
    """The rows of two sides, matched by key and by a comparison of values, and the result of an operator over them."""

    def __init__(
        self,
        mode: ValueMode,
        sign: str,
        *,
        left_width: int,
        right_width: int,
        left_keys: Sequence[int],
        right_keys: Sequence[int],
        more: Sequence[int],
    ) -> None:
        joins = mode in ("join", "left join")
        self.width = left_width + (len(more) if joins else 0)
        self._keys = len(left_keys)
        self._widths = [left_width, right_width if joins else 0, self._keys + 2]
        lone = {"join": 0, "rows": 0, "left join": 1, "exists": -1, "not exists": 1}[mode]
        of_more = len(more) if joins else 0
        self._shape = (joins, lone, left_width, right_width, self._keys, of_more, SIGNS.index(sign))
        self._columns = [np.array(places, np.int32) for places in (left_keys, right_keys, more)]
        self.clear()

    def clear(self) -> None:
        """Remove everything."""
        self._bags = RowBags(self._widths)
        left_keys, right_keys, more = self._columns
        empty: dict[str, Any] = {name: np.zeros(0, _dtype(name)) for name in MatchArrays._fields}
        own = {"left_keys": left_keys, "right_keys": right_keys, "more": more}
        tree_row, shape = np.zeros(self._keys + 2, np.int32), ValueMatchShape(*self._shape)
        self._matching = MatchArrays(**{**empty, **own, "tree_row": tree_row, "shape": shape})
        self._grow_arrays(16)

    def _grow_arrays(self, nodes: int) -> None:
        """Grow the arrays to the number of entries of the bags, and to a number of nodes."""
        matching = self._matching
        room = self._bags.bags.fields.room
        matching = lengthen_fields(matching, room - len(matching.node_of), **_OF_ENTRIES)
        matching = lengthen_fields(matching, nodes - len(matching.kind), **_OF_NODES)
        node_count = 4 * len(matching.kind) + room  # a change of the right touches two nodes of each of three kinds
        self._matching = lengthen_fields(matching, node_count - len(matching.touched_nodes), touched_nodes=NONE)
        self._view = view(self._matching)
        self.nbytes = self._bags.nbytes + sum(array.nbytes for array in self._matching)
        """The number of bytes held."""

    def change(
        self, left: WeightedRows, left_values: TreeValues, right: WeightedRows, right_values: TreeValues
    ) -> WeightedRows:
        """Apply net changes of both sides, with their values, and return the change of the result."""
        fields, shape = self._bags.bags.fields, self._matching.shape
        count = len(left) + len(right)
        has_room = fields.used - fields.free + 2 * count <= fields.room
        nodes = shape.nodes - shape.free_nodes + count
        if not has_room or nodes > len(self._matching.kind):
            if not has_room:
                self._bags.make_room(2 * count)
            self._grow_arrays(max(nodes, 2 * len(self._matching.kind)) if nodes > len(self._matching.kind) else 0)
        rows, weights, events, size = apply_value_changes(
            self._bags.view,
            self._view,
            np.ascontiguousarray(left.rows).reshape(-1),
            left.weights,
            left.events,
            *left_values.arrays(),
            np.ascontiguousarray(right.rows).reshape(-1),
            right.weights,
            right.events,
            *right_values.arrays(),
        )
        return WeightedRows(rows[: size * self.width].reshape(size, self.width), weights[:size], events[:size])

    # --- values ----------------------------------------------------------------------------------------------

    def stored_values(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """Return `high` and `low` of the nodes of a kind, with duplicates. O(nodes)."""
        are_of_kind = self._matching.kind == kind
        return self._matching.high[are_of_kind], self._matching.low[are_of_kind]

    def replace(self, kind: int, high: np.ndarray, low: np.ndarray) -> None:
        """Replace what `stored` returned by values in the same order."""
        are_of_kind = self._matching.kind == kind
        self._matching.high[are_of_kind], self._matching.low[are_of_kind] = high, low

    # --- stored rows -----------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        """The number of stored rows, and values."""
        return int(self._bags.bags.entry_count[:TREE].sum() + self._bags.bags.total[TREE])

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows and keys, with duplicates. O(entries)."""
        keys = self._bags.rows(TREE)[0][:, : self._keys]
        return np.concatenate([rows.reshape(-1) for rows in (self._bags.rows(LEFT)[0], self._bags.rows(RIGHT)[0], keys)])

    def check(self) -> None:
        """Assert that trees are in order, and that each row is in the list of the node that counts it. O(entries)."""
        self._bags.check()
        bags, matching, shape = self._bags.bags, self._matching, self._matching.shape
        table = bags.rows.reshape(-1, bags.fields.stride)
        nodes = 0
        for tree in np.flatnonzero((bags.bag == TREE) & (bags.counts != 0)).tolist():
            kind, side = table[tree, self._keys : self._keys + 2].tolist()
            node, smaller, number = int(matching.root[tree]), NONE, 0
            assert matching.parent[node] == NONE, "a root has a parent"
            while matching.lower_child[node] != NONE:
                node = int(matching.lower_child[node])
            while node != NONE:
                number += 1
                assert (matching.kind[node], matching.tree[node]) == (kind, tree), "a node stands in another tree"
                assert matching.smaller[node] == smaller, "nodes are linked one way only"
                for child in (int(matching.lower_child[node]), int(matching.upper_child[node])):
                    assert child == NONE or matching.parent[child] == node, "a child has another parent"
                if smaller != NONE:
                    values = [getattr(matching, name)[smaller] for name in ("kind", "high", "low", "real")]
                    assert compare(self._view, *values, node) == -1, "values are out of order"
                assert matching.total[node] > 0 and matching.pending[node] == 0, "an event was not settled"
                rows = np.flatnonzero((matching.node_of == node) & (bags.bag == side) & (bags.counts != 0))
                listed, entry = [], int(matching.head[node])
                while entry != NONE:
                    listed.append(entry)
                    entry = int(matching.next[entry])
                if side == LEFT or shape.joins:
                    assert sorted(listed) == rows.tolist(), "a node lists other rows than it has"
                    assert bags.counts[rows].sum() == matching.total[node], "a node is miscounted"
                smaller, node = node, int(matching.greater[node])
            assert number == bags.counts[tree], "a tree is miscounted"
            nodes += number
        assert nodes == shape.nodes - shape.free_nodes == (matching.kind != NONE).sum(), "nodes are lost"
        places = np.flatnonzero((bags.bag == LEFT) & (bags.counts != 0))
        assert (matching.node_of[places] != NONE).all(), "a row is in the list of no value"


def _dtype(name: str) -> type:
    if name in ("high", "low", "total", "pending", "running_weight"):
        return np.int64
    return np.float64 if name == "real" else np.int32


# --- rows at values ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _read_key(matching, rows, at, side):
    """Write the key of a row of a side as that of a tree."""
    for column in range(matching.shape.keys):
        place = matching.left_keys[column] if side == LEFT else matching.right_keys[column]
        matching.tree_row[column] = rows[at + place]


@njit(cache=True, nogil=True, forceinline=True)
def _tree_of(bags, matching, kind, side):
    """Return the tree of the key that was read, or NONE."""
    keys = matching.shape.keys
    matching.tree_row[keys] = kind
    matching.tree_row[keys + 1] = side
    return find(bags, TREE, matching.tree_row, 0)


@njit(cache=True, nogil=True)
def _change_value(bags, matching, kind, high, low, real, side, weight):
    """Add to the rows of a value of the key that was read, and return its node, which may then have none."""
    tree = _tree_of(bags, matching, kind, side)
    if tree == NONE:
        tree = add(bags, TREE, matching.tree_row, 0, np.int64(1))
        add(bags, TREE, matching.tree_row, 0, np.int64(-1))
    node = find_value(matching, tree, kind, high, low, real)
    if node == NONE:
        node = insert_value(bags, matching, tree, kind, high, low, real)
    matching.total[node] += weight
    return node


@njit(cache=True, nogil=True)
def _change_row(bags, matching, bag, rows, at, weight, node):
    """Add to the count of a row, which hangs at a node while it has one."""
    entry = add(bags, bag, rows, at, weight)
    if bags.counts[entry] == weight:
        following = np.int64(matching.head[node])
        matching.node_of[entry] = node
        matching.next[entry] = following
        matching.previous[entry] = NONE
        if following != NONE:
            matching.previous[following] = entry
        matching.head[node] = entry
    elif bags.counts[entry] == 0:
        before, following = np.int64(matching.previous[entry]), np.int64(matching.next[entry])
        if before != NONE:
            matching.next[before] = following
        else:
            matching.head[node] = following
        if following != NONE:
            matching.previous[following] = before
        matching.node_of[entry] = NONE


@njit(cache=True, nogil=True)
def _has_partner(bags, matching, sign, kind, high, low, real):
    """Return whether a value of the left, of the key that was read, has a partner."""
    for other in range(first_kind(kind), end_of_kinds(kind)):
        tree = _tree_of(bags, matching, other, RIGHT)
        if tree != NONE and first_partner(matching, tree, sign, kind, high, low, real) != NONE:
            return True
    return False


# --- rows without a partner, or with one -----------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _node_has_partner(bags, matching, node):
    return _has_partner(
        bags,
        matching,
        matching.shape.sign,
        np.int64(matching.kind[node]),
        matching.high[node],
        matching.low[node],
        matching.real[node],
    )


@njit(cache=True, nogil=True)
def _mark(bags, matching, node):
    """Remember whether a node of the left has a partner, unless an earlier change of the event has."""
    if matching.pending[node] == _UNTOUCHED:
        has = _node_has_partner(bags, matching, node)
        matching.pending[node] = _HAD_PARTNER if has else _HAD_NO_PARTNER
        matching.touched_nodes[matching.shape.touched] = node
        matching.shape.touched += 1


@njit(cache=True, nogil=True)
def _mark_concerned(bags, matching, kind, high, low, real, weight):
    """Mark the nodes of the left that a change of the count of a value on the right can concern."""
    tree = _tree_of(bags, matching, kind, RIGHT)
    node = np.int64(NONE) if tree == NONE else find_value(matching, tree, kind, high, low, real)
    if node != NONE and matching.total[node] + weight != 0:
        return  # it stays
    sign = matching.shape.sign
    mirrored = mirror(sign)
    is_ordered = sign != EQUAL and kind != DURATION
    outer = np.int64(NONE)  # the outermost value before it comes or goes
    if is_ordered and tree != NONE and matching.root[tree] != NONE:
        looks_up = sign in (LESS, LESS_EQUAL)
        outer = rightmost(matching, tree) if looks_up else leftmost(matching, tree)
        if node == NONE:
            comparison = compare(matching, kind, high, low, real, outer)
            if comparison == (-1 if looks_up else 1):
                return
        elif node != outer:
            return
        else:
            outer = np.int64(matching.smaller[node] if looks_up else matching.greater[node])
    for other in range(first_kind(kind), end_of_kinds(kind)):
        lefts = _tree_of(bags, matching, other, LEFT)
        if lefts == NONE or matching.root[lefts] == NONE:
            continue
        if not is_ordered:
            one = first_partner(matching, lefts, mirrored, kind, high, low, real)
            while one != NONE:
                _mark(bags, matching, one)
                one = next_partner(matching, mirrored, kind, high, low, real, one)
            continue
        one = bound_of(matching, lefts, mirrored, kind, high, low, real)
        if outer == NONE:
            end = np.int64(NONE)
        else:
            end = bound_of(matching, lefts, mirrored, kind, matching.high[outer], matching.low[outer], matching.real[outer])
        if mirrored in (GREATER, GREATER_EQUAL):  # prefixes, of which that of the outer value is shorter
            one, end = (leftmost(matching, lefts) if outer == NONE else end), one
        # The nodes from `one` to before `end` are partners of the value, but not of the outer one.
        while one != end:
            _mark(bags, matching, one)
            one = np.int64(matching.greater[one])


# --- rows as often as they have partners -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count_partners(bags, matching, kind, high, low, real, weight):
    """Add a change of a value on the right to the bounds of its partners on the left."""
    shape = matching.shape
    mirrored = mirror(shape.sign)
    # In a tree, the partners of a node change by `running_weight` and the `pending` of all nodes up to and including it.
    for other in range(first_kind(kind), end_of_kinds(kind)):
        tree = _tree_of(bags, matching, other, LEFT)
        if tree == NONE or matching.root[tree] == NONE:
            continue
        bound = bound_of(matching, tree, mirrored, kind, high, low, real)
        if mirrored in (GREATER, GREATER_EQUAL):
            matching.running_weight[tree] += weight
            first = leftmost(matching, tree)
            matching.touched_nodes[shape.touched] = first
            shape.touched += 1
            weight_at = -weight
        else:
            weight_at = weight
        if bound != NONE:
            matching.pending[bound] += weight_at
            matching.touched_nodes[shape.touched] = bound
            shape.touched += 1


@njit(cache=True, nogil=True)
def _is_behind(matching, one, other):
    """Return whether a node is in a later tree than another, or at a later place of the same."""
    if matching.tree[one] != matching.tree[other]:
        return matching.tree[one] > matching.tree[other]
    kind = np.int64(matching.kind[one])
    return compare(matching, kind, matching.high[one], matching.low[one], matching.real[one], other) > 0


@njit(cache=True, nogil=True)
def _sort(matching, count):
    """Sort the nodes that were touched (Shell 1959, with the gaps of Knuth 1973). O(count^1.5)."""
    touched = matching.touched_nodes
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        # The nodes before `i` are in order among those whose distance is a multiple of `gap`.
        for i in range(gap, count):
            node, j = np.int64(touched[i]), i
            while j >= gap and _is_behind(matching, np.int64(touched[j - gap]), node):
                touched[j] = touched[j - gap]
                j -= gap
            touched[j] = node
        gap //= 3


# --- output ----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def apply_value_changes(
    bags,
    matching,
    lefts,
    left_weights,
    left_events,
    left_kinds,
    left_high,
    left_low,
    left_reals,
    rights,
    right_weights,
    right_events,
    right_kinds,
    right_high,
    right_low,
    right_reals,
):
    """Apply net changes of both sides; return (rows, weights, events, number) of the changes of the result."""
    shape = matching.shape
    joins, lone, more, sign = shape.joins != 0, shape.lone, shape.more, shape.sign
    left_width, right_width, stride = shape.left_width, shape.right_width, bags.fields.stride
    mirrored, width = mirror(sign), left_width + more
    left_count, right_count = len(left_weights), len(right_weights)
    room = left_count + right_count + 16
    rows, weights, events = np.empty(room * max(width, 1), np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    i = j = 0
    # The changes of the left before `i` and of the right before `j` are applied, and the changes of the result that they
    # cause, `size` of them, written. All are of earlier events; no node is touched or without rows.
    while i < left_count or j < right_count:
        if i == left_count:
            event = right_events[j]
        elif j == right_count:
            event = left_events[i]
        else:
            event = min(left_events[i], right_events[j])
        begin = j
        while j < right_count and right_events[j] == event:
            j += 1
        # What is inserted comes first: a value that replaces the outermost one then concerns what lies between them.
        for is_deleted in range(2):
            for place in range(begin, j):
                weight, kind = right_weights[place], np.int64(right_kinds[place])
                if kind == NO_VALUE or (weight < 0) != (is_deleted == 1):
                    continue
                high, low, real = right_high[place], right_low[place], right_reals[place]
                at = place * right_width
                _read_key(matching, rights, at, RIGHT)
                if lone != 0:
                    _mark_concerned(bags, matching, kind, high, low, real, weight)
                elif not joins and sign != EQUAL and kind != DURATION:
                    _count_partners(bags, matching, kind, high, low, real, weight)
                if joins or (lone == 0 and (sign == EQUAL or kind == DURATION)):
                    for other in range(first_kind(kind), end_of_kinds(kind)):
                        tree = _tree_of(bags, matching, other, LEFT)
                        node = np.int64(NONE)
                        if tree != NONE:
                            node = first_partner(matching, tree, mirrored, kind, high, low, real)
                        while node != NONE:
                            entry = np.int64(matching.head[node])
                            while entry != NONE:
                                if size == len(weights):
                                    rows, weights = longer(rows, len(rows)), longer(weights, size)
                                    events = longer(events, size)
                                for column in range(left_width):
                                    rows[size * width + column] = bags.rows[entry * stride + column]
                                for column in range(more):
                                    rows[size * width + left_width + column] = rights[at + matching.more[column]]
                                weights[size] = weight * bags.counts[entry]
                                events[size] = event
                                size += 1
                                entry = np.int64(matching.next[entry])
                            node = next_partner(matching, mirrored, kind, high, low, real, node)
                node = _change_value(bags, matching, kind, high, low, real, RIGHT, weight)
                if joins:
                    _change_row(bags, matching, RIGHT, rights, at, weight, node)
                if matching.total[node] == 0:
                    delete_node(bags, matching, node)
        touched = shape.touched
        if lone == 0 and touched > 0:
            _sort(matching, touched)
        # The touched nodes before `place` are done. With `lone` 0, the rows of a node, and those up to the next touched one,
        # gain as many partners as `running_weight` of the tree plus `pending` of the node.
        for place in range(touched):
            node = np.int64(matching.touched_nodes[place])
            tree, until, factor = np.int64(matching.tree[node]), np.int64(NONE), np.int64(0)
            if lone == 0:
                if place > 0 and matching.touched_nodes[place - 1] == node:
                    continue  # it was touched several times
                after = place + 1
                while after < touched and matching.touched_nodes[after] == node:
                    after += 1
                matching.running_weight[tree] += matching.pending[node]
                matching.pending[node] = 0
                factor = matching.running_weight[tree]
                if after < touched and matching.tree[matching.touched_nodes[after]] == tree:
                    until = np.int64(matching.touched_nodes[after])
                else:
                    matching.running_weight[tree] = 0
                if factor == 0:
                    continue
            else:
                had = matching.pending[node] == _HAD_PARTNER
                matching.pending[node] = _UNTOUCHED
                for column in range(shape.keys):
                    matching.tree_row[column] = bags.rows[tree * stride + column]
                has = _node_has_partner(bags, matching, node)
                if has == had:
                    continue
                factor = np.int64(-1 if has == (lone > 0) else 1)
                until = np.int64(matching.greater[node])
            while node != until:
                entry = np.int64(matching.head[node])
                while entry != NONE:
                    if size == len(weights):
                        rows, weights, events = longer(rows, len(rows)), longer(weights, size), longer(events, size)
                    for column in range(left_width):
                        rows[size * width + column] = bags.rows[entry * stride + column]
                    for column in range(left_width, width):
                        rows[size * width + column] = NONE
                    weights[size] = factor * bags.counts[entry]
                    events[size] = event
                    size += 1
                    entry = np.int64(matching.next[entry])
                node = np.int64(matching.greater[node])
        shape.touched = 0
        # The right is as after the event; its changes met the left as before the event.
        while i < left_count and left_events[i] == event:
            weight, kind, at = left_weights[i], np.int64(left_kinds[i]), i * left_width
            high, low, real = left_high[i], left_low[i], left_reals[i]
            factor = np.int64(0)  # how often the row is output without columns of the right
            if kind == NO_VALUE:
                factor = np.int64(1 if lone > 0 else 0)
            else:
                _read_key(matching, lefts, at, LEFT)
                if lone != 0:
                    has = _has_partner(bags, matching, sign, kind, high, low, real)
                    factor = np.int64(1 if has == (lone < 0) else 0)
                if lone == 0 or joins:
                    for other in range(first_kind(kind), end_of_kinds(kind)):
                        tree = _tree_of(bags, matching, other, RIGHT)
                        node = np.int64(NONE)
                        if tree != NONE:
                            node = first_partner(matching, tree, sign, kind, high, low, real)
                        while node != NONE:
                            if not joins:
                                factor += matching.total[node]
                            entry = np.int64(matching.head[node])
                            while entry != NONE:
                                if size == len(weights):
                                    rows, weights = longer(rows, len(rows)), longer(weights, size)
                                    events = longer(events, size)
                                for column in range(left_width):
                                    rows[size * width + column] = lefts[at + column]
                                for column in range(more):
                                    rows[size * width + left_width + column] = bags.rows[
                                        entry * stride + matching.more[column]
                                    ]
                                weights[size] = weight * bags.counts[entry]
                                events[size] = event
                                size += 1
                                entry = np.int64(matching.next[entry])
                            node = next_partner(matching, sign, kind, high, low, real, node)
                node = _change_value(bags, matching, kind, high, low, real, LEFT, weight)
                _change_row(bags, matching, LEFT, lefts, at, weight, node)
                if matching.total[node] == 0:
                    delete_node(bags, matching, node)
            if factor != 0:
                if size == len(weights):
                    rows, weights, events = longer(rows, len(rows)), longer(weights, size), longer(events, size)
                for column in range(left_width):
                    rows[size * width + column] = lefts[at + column]
                for column in range(left_width, width):
                    rows[size * width + column] = NONE
                weights[size] = weight * factor
                events[size] = event
                size += 1
            i += 1
    return rows, weights, events, size
