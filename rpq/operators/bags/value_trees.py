"""Trees of values, for joins by value: all values of one side, key and kind are the nodes of one tree.

A tree is a treap (Seidel and Aragon 1996) whose nodes are also linked in order. A value that is searched for is compared
with the nodes of each kind that is comparable with its own. Along a tree, the result of such a comparison falls from 1 to -1
(it may be `NO_ORDER` in between), so partners are a prefix, a suffix or a range. Only durations are compared one by one, as
they are ordered in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import mix
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64
from rpq.operators.bags.matching import MatchShape
from rpq.operators.bags.row_bags import NONE, add

TREE = 2
"""The bag of trees, whose rows are a key, the kind of the values and the side. A tree is counted once for each node."""

# Kinds of values. Others, of which each is comparable with itself alone, follow `TEXT`.
NO_VALUE = -1
EXACT, DOUBLE, FLOAT = range(3)
MOMENT = 3  # of three types, with a zone and without
BOOLEAN, DURATION, TERM, TEXT = range(9, 13)

_NUMBERS = 3
_WIDEST_ZONE = 14 * 3600

NO_ORDER = 2
"""The comparison of two values that have no order and are not equal."""

SIGNS = ("=", "<", "<=", ">", ">=")
EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(5)


class ValueMatchShape(Record):
    """The kind of match, numbers of columns, and the nodes."""

    _fields_ = (
        *MatchShape._fields_,
        ("sign", int64),
        ("nodes", int64),  # nodes given out so far (high water)
        ("free_nodes", int64),  # nodes in the stack of free ones
        ("touched", int64),  # entries of `touched_nodes`
    )


_SIGN_BIT = np.int64(-(2**63))
"""The sign bit, which converts a signed comparison to an unsigned one."""


@dataclass(frozen=True, slots=True)
class TreeValues:
    """Values that are compared. Of a kind, they are ordered by `reals` if they are inexact, else by (`high`, `low`).

    Exact numbers are 128 bits, moments have seconds as `high`. The real of a number is the double that it is promoted to.
    """

    kinds: np.ndarray  # int32
    high: np.ndarray  # int64
    low: np.ndarray  # int64; of exact numbers unsigned
    reals: np.ndarray  # float64

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays, in the order in which kernels read them."""
        return [*map(np.ascontiguousarray, (self.kinds, self.high, self.low, self.reals))]


class MatchArrays(NamedTuple):
    """The arrays of the trees of both sides."""

    node_of: np.ndarray  # int32 an entry of a row: its node
    next: np.ndarray  # int32 an entry of a row, in the list of its node
    previous: np.ndarray  # int32
    root: np.ndarray  # int32 an entry of a tree
    running_weight: np.ndarray  # int64 an entry of a tree: weights of partners of its first node
    kind: np.ndarray  # int32 a node
    high: np.ndarray  # int64 a node
    low: np.ndarray  # int64 a node
    real: np.ndarray  # float64 a node
    tree: np.ndarray  # int32 a node: the entry of its tree
    parent: np.ndarray  # int32 a node
    lower_child: np.ndarray  # int32 a node: the child with smaller values
    upper_child: np.ndarray  # int32 a node: the child with greater values
    smaller: np.ndarray  # int32 a node: the one before it in order
    greater: np.ndarray  # int32 a node: the one behind it in order
    head: np.ndarray  # int32 a node: its first row
    total: np.ndarray  # int64 a node: its rows
    pending: np.ndarray  # int64 a node: what it adds to the partners from here on, or whether it had one
    free_nodes: np.ndarray  # int32, stack
    touched_nodes: np.ndarray  # int32: nodes of the left that the event touched
    left_keys: np.ndarray  # int32: places of the key in rows of the left
    right_keys: np.ndarray  # int32
    more: np.ndarray  # int32: places in rows of the right
    tree_row: np.ndarray  # int32: the row of a tree
    shape: ValueMatchShape


# --- values ----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _order(one, other):
    return np.int64(-1) if one < other else np.int64(1) if one > other else np.int64(0)


@njit(cache=True, nogil=True)
def compare(matching, kind, high, low, real, node):
    """Return how a value compares with that of a node: -1 if it is smaller, 0, 1, or `NO_ORDER`."""
    other = np.int64(matching.kind[node])
    if kind == other:
        if kind in (DOUBLE, FLOAT):
            return _order(real, matching.real[node])
        if high != matching.high[node]:
            return _order(high, matching.high[node])
        if kind == EXACT:
            return _order(low ^ _SIGN_BIT, matching.low[node] ^ _SIGN_BIT)
        return _order(low, matching.low[node])
    if kind < _NUMBERS and other < _NUMBERS:
        another = matching.real[node]
        if kind == EXACT and other == FLOAT:
            real = np.float64(np.float32(real))
        elif kind == FLOAT and other == EXACT:
            another = np.float64(np.float32(another))
        return _order(real, another)
    # moments of one type, of which one has no zone
    ahead = matching.high[node] - high
    if ahead > _WIDEST_ZONE or (ahead == _WIDEST_ZONE and matching.low[node] > low):
        return np.int64(-1)
    if ahead < -_WIDEST_ZONE or (ahead == -_WIDEST_ZONE and matching.low[node] < low):
        return np.int64(1)
    return np.int64(NO_ORDER)


@njit(cache=True, nogil=True, forceinline=True)
def _compare_in_part(matching, high, low, node):
    """Return how a duration compares with that of a node: both have months and seconds."""
    if high == matching.high[node]:
        return _order(low, matching.low[node])
    return _order(high, matching.high[node]) if low == matching.low[node] else np.int64(NO_ORDER)


@njit(cache=True, nogil=True, forceinline=True)
def _accepts(sign, comparison):
    """Return whether `u sign v` holds of two values that compare so."""
    if comparison == 0:
        return sign in (EQUAL, LESS_EQUAL, GREATER_EQUAL)
    if comparison == -1:
        return sign in (LESS, LESS_EQUAL)
    return comparison == 1 and sign in (GREATER, GREATER_EQUAL)


@njit(cache=True, nogil=True, forceinline=True)
def _is_scanned(sign, kind):
    """Return whether values of a kind must be compared one by one."""
    return kind == DURATION and sign != EQUAL


@njit(cache=True, nogil=True, forceinline=True)
def _is_partner(matching, sign, kind, high, low, real, node):
    if _is_scanned(sign, kind):
        return _accepts(sign, _compare_in_part(matching, high, low, node))
    return _accepts(sign, compare(matching, kind, high, low, real, node))


@njit(cache=True, nogil=True, forceinline=True)
def mirror(sign):
    """Return the comparison of v and u that holds if `u sign v` does."""
    if sign in (LESS, LESS_EQUAL):
        return sign + 2
    return sign if sign == EQUAL else sign - 2


@njit(cache=True, nogil=True, forceinline=True)
def first_kind(kind):
    """Return the first one of the kinds that are comparable with a kind."""
    if kind < _NUMBERS:
        return np.int64(0)
    return kind - (kind - MOMENT) % 2 if kind < BOOLEAN else kind


@njit(cache=True, nogil=True, forceinline=True)
def end_of_kinds(kind):
    """Return the number behind the last of the kinds that are comparable with a kind."""
    if kind < _NUMBERS:
        return np.int64(_NUMBERS)
    return first_kind(kind) + 2 if kind < BOOLEAN else kind + 1


# --- trees -----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def leftmost(matching, tree):
    """Return the node with the smallest value of a tree, or NONE."""
    node = np.int64(matching.root[tree])
    if node != NONE:
        while matching.lower_child[node] != NONE:
            node = np.int64(matching.lower_child[node])
    return node


@njit(cache=True, nogil=True, forceinline=True)
def rightmost(matching, tree):
    """Return the node with the greatest value of a tree, or NONE."""
    node = np.int64(matching.root[tree])
    if node != NONE:
        while matching.upper_child[node] != NONE:
            node = np.int64(matching.upper_child[node])
    return node


@njit(cache=True, nogil=True)
def bound_of(matching, tree, sign, kind, high, low, real):
    """Return the node behind the prefix of partners, or the first one of a suffix or a range; NONE is behind all."""
    node, found = np.int64(matching.root[tree]), np.int64(NONE)
    # The bound is in the subtree of `node`, or it is `found`.
    while node != NONE:
        comparison = compare(matching, kind, high, low, real, node)
        if sign in (GREATER, GREATER_EQUAL):
            is_before = _accepts(sign, comparison)
        elif sign == LESS:
            is_before = comparison != -1
        else:
            is_before = comparison == 1 or comparison == NO_ORDER
        if is_before:
            node = np.int64(matching.upper_child[node])
        else:
            found = node
            node = np.int64(matching.lower_child[node])
    return found


@njit(cache=True, nogil=True, forceinline=True)
def first_partner(matching, tree, sign, kind, high, low, real):
    """Return the first node whose value v satisfies `value sign v`, or NONE."""
    if matching.root[tree] == NONE:
        return np.int64(NONE)
    if sign in (GREATER, GREATER_EQUAL) or _is_scanned(sign, kind):
        node = leftmost(matching, tree)
    else:
        node = bound_of(matching, tree, sign, kind, high, low, real)
    # The nodes before `node` are no partners. Where values are in order, the first node decides.
    while node != NONE and not _is_partner(matching, sign, kind, high, low, real, node):
        if not _is_scanned(sign, kind):
            return np.int64(NONE)
        node = np.int64(matching.greater[node])
    return node


@njit(cache=True, nogil=True, forceinline=True)
def next_partner(matching, sign, kind, high, low, real, node):
    """Return the partner behind a partner in order, or NONE."""
    node = np.int64(matching.greater[node])
    if sign in (LESS, LESS_EQUAL) and kind != DURATION:
        return node  # it is in a suffix
    while node != NONE and not _is_partner(matching, sign, kind, high, low, real, node):
        if not _is_scanned(sign, kind):
            return np.int64(NONE)
        node = np.int64(matching.greater[node])
    return node


@njit(cache=True, nogil=True, forceinline=True)
def _rises(matching, node, parent):
    """Return whether a node stands above its parent in a treap."""
    return mix(np.uint64(node + 1)) > mix(np.uint64(parent + 1))


@njit(cache=True, nogil=True)
def _raise(matching, node):
    """Exchange a node with its parent; the order stays."""
    parent = np.int64(matching.parent[node])
    above = np.int64(matching.parent[parent])
    if matching.lower_child[parent] == node:
        child = np.int64(matching.upper_child[node])
        matching.lower_child[parent] = child
        matching.upper_child[node] = parent
    else:
        child = np.int64(matching.lower_child[node])
        matching.upper_child[parent] = child
        matching.lower_child[node] = parent
    if child != NONE:
        matching.parent[child] = parent
    matching.parent[parent] = node
    matching.parent[node] = above
    if above == NONE:
        matching.root[matching.tree[node]] = node
    elif matching.lower_child[above] == parent:
        matching.lower_child[above] = node
    else:
        matching.upper_child[above] = node


@njit(cache=True, nogil=True, forceinline=True)
def find_value(matching, tree, kind, high, low, real):
    """Return the node of a value in the tree of its own kind, or NONE."""
    node = np.int64(matching.root[tree])
    while node != NONE:
        comparison = compare(matching, kind, high, low, real, node)
        if comparison == 0:
            break
        node = np.int64(matching.lower_child[node] if comparison < 0 else matching.upper_child[node])
    return node


@njit(cache=True, nogil=True)
def insert_value(bags, matching, tree, kind, high, low, real):
    """Insert a value that its tree does not have, and return its node."""
    shape = matching.shape
    if shape.free_nodes > 0:
        shape.free_nodes -= 1
        node = np.int64(matching.free_nodes[shape.free_nodes])
    else:
        node = shape.nodes
        shape.nodes += 1
    parent, smaller, greater = np.int64(NONE), np.int64(NONE), np.int64(NONE)
    other = np.int64(matching.root[tree])
    # The value is between `smaller` and `greater`, and so is the subtree of `other`, with nothing else between them.
    while other != NONE:
        parent = other
        if compare(matching, kind, high, low, real, other) < 0:
            greater = other
            other = np.int64(matching.lower_child[other])
        else:
            smaller = other
            other = np.int64(matching.upper_child[other])
    matching.kind[node] = kind
    matching.high[node] = high
    matching.low[node] = low
    matching.real[node] = real
    matching.tree[node] = tree
    matching.parent[node] = parent
    matching.lower_child[node] = NONE
    matching.upper_child[node] = NONE
    matching.head[node] = NONE
    matching.total[node] = 0
    matching.smaller[node] = smaller
    matching.greater[node] = greater
    if smaller != NONE:
        matching.greater[smaller] = node
    if greater != NONE:
        matching.smaller[greater] = node
    if parent == NONE:
        matching.root[tree] = node
    elif parent == greater:
        matching.lower_child[parent] = node
    else:
        matching.upper_child[parent] = node
    # The values are in order, and only `node` may stand below a node above which it belongs.
    while matching.parent[node] != NONE and _rises(matching, node, np.int64(matching.parent[node])):
        _raise(matching, node)
    add(bags, TREE, bags.rows, tree * bags.fields.stride, np.int64(1))
    return node


@njit(cache=True, nogil=True)
def delete_node(bags, matching, node):
    """Remove a node without rows."""
    shape, tree = matching.shape, np.int64(matching.tree[node])
    # The values are in order, and without `node` every node stands where it belongs. `node` sinks until it is a leaf.
    while True:
        one, other = np.int64(matching.lower_child[node]), np.int64(matching.upper_child[node])
        if one == NONE and other == NONE:
            break
        if one == NONE or (other != NONE and _rises(matching, other, one)):
            one = other
        _raise(matching, one)
    parent = np.int64(matching.parent[node])
    if parent == NONE:
        matching.root[tree] = NONE
    elif matching.lower_child[parent] == node:
        matching.lower_child[parent] = NONE
    else:
        matching.upper_child[parent] = NONE
    smaller, greater = np.int64(matching.smaller[node]), np.int64(matching.greater[node])
    if smaller != NONE:
        matching.greater[smaller] = greater
    if greater != NONE:
        matching.smaller[greater] = smaller
    matching.kind[node] = NONE
    matching.free_nodes[shape.free_nodes] = node
    shape.free_nodes += 1
    add(bags, TREE, bags.rows, tree * bags.fields.stride, np.int64(-1))
