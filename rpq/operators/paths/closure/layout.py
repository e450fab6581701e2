"""The memory layout of the index of bits.

Nearly all steps of the Δ index raise cells of pairs that are answers already, and these values are not needed until
edges leave. Here a pair of a root and a product node is one bit. Product nodes that reach each other are one
*component*, with one row of bits: the slots of the roots that reach it. An edge pushes only the bits that are new. After a
boundary on which edges leave, components and rows are computed anew from the edges in the window
(`components.py`), before the next insert or question.

* **Rows** have `WORDS` words of 64 roots, a multiple of eight, so that a step is whole cache lines.
* **Components** have numbers against the topological order: a step leads to a lower number. Only product nodes that a
  root reaches are in one. A node that is first reached later becomes a component of its own, with a number from
  `SETTLED` on.
* **Successors** of a settled component are in `next`, and those that an edge brought since then in a chain of `extra`.
  Those of a later component are found in the adjacency lists of the graph, which are those of the Δ index.
* **What an event removes** is in `lost`, with room from the first delete on, and in explicit windows (`loss.py`).
* `Table.row_of` has the component of a product node in place of its row; the table has no rows meanwhile.

Like those of the Δ index, kernels return codes and are called again with more memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# What a kernel returns besides the codes of the Δ index.
NEED_WORDS = 201
NEED_NODES = 202
NEED_COMPONENTS = 203
NEED_SUCCESSORS = 204
NEED_EXTRAS = 205
NEED_EARLIER = 206  # room to remember components and rows, which deletes and explicit windows need

# Fields of `Closure.fields`.
WORDS = 0  # words of a row
COMPONENTS = 1
SETTLED = 2  # components below have their successors in `next`
EXTRAS = 3  # entries of the chains
QUEUED = 4  # components that wait
FIRST = 5  # place of the first of them in the queue
STALE = 6  # 1: components have to be computed anew
NODE_CAPACITY = 7
COMPONENT_CAPACITY = 8
SUCCESSOR_CAPACITY = 9
EXTRA_CAPACITY = 10
NEEDED = 11  # components that the last computation found
PUSHED = 12  # words that inserts have pushed so far
COMPUTED = 13  # words that computations have joined so far
WALKED = 14  # links and nodes that computations have looked at so far
LEAVING = 15  # no edge that rows are due to leaves before this absolute slide
VISITED = 16  # product nodes that the present computation has met
FOUND = 17  # entries of `next`
STAGE = 18  # of computing components anew with rows for what is lost, as below
TOUCHED = 19  # entries of `touched`
KEEPS_EARLIER = 20  # 1: there is room for what was lost
UPWARD = 21  # the highest settled component that an edge from a lower or later one leads to, -1 none
BESIDE = 22  # accepting states of the automaton where there are several, or 0
LOST_COMPONENTS = 23  # entries of `lost_first` but one
NOW_BEFORE = 24  # NOW before the boundary that is being reported
FIELDS = 25

# Values of STAGE.
RESTING = 0
EARLIER = 1  # what was before has been copied
REPORTING = 2  # components are computed


class Closure(NamedTuple):
    """Components and their rows of bits."""

    rows: np.ndarray  # uint64, `WORDS` a component: the slots of the roots that reach it
    fresh: np.ndarray  # uint64, `WORDS` a component: the bits that it has not pushed on, from `low` to `high`
    low: np.ndarray  # int32 a component: first word of what it has to push
    high: np.ndarray  # int32 a component: word behind the last
    is_queued: np.ndarray  # uint8 a component
    queue: np.ndarray  # int32 a component: a ring of those that have something to push
    member_first: np.ndarray  # int32 a component + 1: its product nodes in `member`
    accepting: np.ndarray  # int32 a component: how many of them accept
    next_first: np.ndarray  # int32 a component: its successors in `next`
    next_end: np.ndarray  # int32 a component
    extra_head: np.ndarray  # int32 a component: its last successor that came since, in the two arrays of chains, or -1
    seen: np.ndarray  # int32 a component: the last one of which it was found to be a successor
    member: np.ndarray  # int64 a product node: vertex << 16 | state
    next: np.ndarray  # int32: components; while they are computed, from its end down a stack of those to come
    extra_next: np.ndarray  # int32: the entry before, or -1
    extra_to: np.ndarray  # int32: component
    node: np.ndarray  # int64 a visited product node, by number: vertex << 16 | state; scratch, as the following
    lowest: np.ndarray  # int32 a visited node: the lowest number that it is known to reach in its component
    waiting: np.ndarray  # int32: stack of visited nodes whose component is not known
    path: np.ndarray  # int32: visited nodes from the root of the search to the present one
    leave: np.ndarray  # int32 of each of these: the transition that is being followed
    place: np.ndarray  # int32 of each of these: the next link of this transition
    top: np.ndarray  # int32 of each of these: where the stack of successors ended when it was met
    touch: np.ndarray  # uint8 a component: what the present delete does to it (`loss.py`); 0 between events
    touched: np.ndarray  # int32: the components with a touch
    lost: np.ndarray  # uint64, `WORDS` a component: what an event took; length 0 until needed, as the following
    lost_member: np.ndarray  # int64 a product node: `member` before components were computed anew
    lost_first: np.ndarray  # int32 a component + 1: `member_first` before
    lost_beside: np.ndarray  # int32 a product node and accepting state: the component of that state of its vertex before
    new: np.ndarray  # uint64 a word: scratch
    roots: np.ndarray  # int64 a slot: scratch
    fields: np.ndarray  # int64[FIELDS]


_OF_COMPONENTS = (
    "low", "high", "is_queued", "queue", "member_first", "accepting", "next_first", "next_end", "extra_head", "seen",
    "touch", "touched",
)  # fmt: skip
_OF_NODES = ("member", "node", "lowest", "waiting", "path", "leave", "place", "top")
_OF_ROWS = ("rows", "fresh")


def new_closure(*, capacity: int, slots: int, accepting: int, keeps_earlier: bool) -> Closure:
    """Return an empty index of bits with room for `capacity` components and nodes, and for some slots.

    `accepting` is the number of accepting states. If it `keeps_earlier`, there is room for what an event removes.
    """
    words = words_for(slots)
    types: dict[str, type] = dict.fromkeys(("rows", "fresh", "lost", "new"), np.uint64)
    types |= dict.fromkeys(("is_queued", "touch"), np.uint8)
    types |= dict.fromkeys(("member", "lost_member", "node", "roots", "fields"), np.int64)
    arrays: dict[str, np.ndarray] = {name: np.zeros(0, types.get(name, np.int32)) for name in Closure._fields}
    arrays |= {name: np.zeros(capacity + 1, arrays[name].dtype) for name in (*_OF_COMPONENTS, *_OF_NODES)}
    arrays |= {name: np.zeros(capacity, np.int32) for name in ("next", "extra_next", "extra_to")}
    arrays |= {name: np.zeros(capacity * words, np.uint64) for name in _OF_ROWS}
    arrays |= {"new": np.zeros(words, np.uint64), "roots": np.zeros(64 * words, np.int64)}
    closure = Closure(**(arrays | {"fields": np.zeros(FIELDS, np.int64)}))
    closure.fields[WORDS] = words
    closure.fields[STALE] = 1
    closure.fields[UPWARD] = -1
    closure.fields[BESIDE] = accepting if accepting > 1 else 0
    return _with_earlier(_noted(closure)) if keeps_earlier else _noted(closure)


def words_for(slots: int) -> int:
    """Return the words of a row for so many slots, with some to spare.

    >>> words_for(0), words_for(600)
    (8, 16)
    """
    return 8 * ((slots + slots // 8 + 64 + 511) // 512)


def closure_bytes(closure: Closure) -> int:
    """Return the number of bytes held."""
    return sum(array.nbytes for array in closure)


def blocks_of_cells(closure: Closure) -> int:
    """Return how many blocks of 64 cells hold something where there are cells in place of the rows. O(rows)."""
    components, words = int(closure.fields[COMPONENTS]), int(closure.fields[WORDS])
    blocks = np.count_nonzero(closure.rows[: components * words].reshape(components, words), axis=1)
    return int(blocks @ np.diff(closure.member_first[: components + 1]))


def with_more(closure: Closure, code: int, slots: int) -> Closure:
    """Return the index of bits with more of the memory that a kernel lacked when it returned `code`."""
    fields = closure.fields
    if code == NEED_WORDS:
        return _with_words(closure, words_for(max(slots, 64 * int(fields[WORDS]))))
    if code == NEED_NODES:
        more = max(16, int(fields[NODE_CAPACITY]))
        longer = _longer(closure, (*_OF_NODES, *(("lost_member",) if fields[KEEPS_EARLIER] else ())), more)
        return _longer(longer, ("lost_beside",), more * int(fields[BESIDE])) if fields[KEEPS_EARLIER] else longer
    if code == NEED_COMPONENTS:
        room = int(fields[COMPONENT_CAPACITY])
        more = max(16, room // 2, int(fields[NEEDED]) * 5 // 4 - room)
        closure.queue[:room] = np.roll(closure.queue[:room], -int(fields[FIRST]))  # where the ring ends changes
        fields[FIRST] = 0
        wider = _longer(closure, (*_OF_COMPONENTS, *(("lost_first",) if fields[KEEPS_EARLIER] else ())), more)
        rows = (*_OF_ROWS, *(("lost",) if fields[KEEPS_EARLIER] else ()))
        return _longer(wider, rows, more * int(fields[WORDS]))
    if code == NEED_SUCCESSORS:
        return _longer(closure, ("next",), len(closure.next))
    if code == NEED_EXTRAS:
        return _longer(closure, ("extra_next", "extra_to"), len(closure.extra_to))
    if code == NEED_EARLIER:
        return _with_earlier(closure)
    raise AssertionError(f"a kernel returned {code}")


def _with_earlier(closure: Closure) -> Closure:
    closure.fields[KEEPS_EARLIER] = 1
    nodes = len(closure.member)
    return closure._replace(
        lost=np.zeros(len(closure.rows), np.uint64),
        lost_member=np.zeros(nodes, np.int64),
        lost_first=np.zeros(len(closure.member_first), np.int32),
        lost_beside=np.zeros(nodes * int(closure.fields[BESIDE]), np.int32),
    )


def _with_words(closure: Closure, words: int) -> Closure:
    """Return the same rows, `words` wide; nothing waits to be pushed."""
    before, room = int(closure.fields[WORDS]), int(closure.fields[COMPONENT_CAPACITY])
    rows = np.zeros((room, words), np.uint64)
    rows[:, :before] = closure.rows[: room * before].reshape(room, before)
    closure.fields[WORDS] = words
    return closure._replace(
        rows=rows.ravel(),
        fresh=np.zeros(room * words, np.uint64),
        lost=np.zeros(room * words if closure.fields[KEEPS_EARLIER] else 0, np.uint64),
        new=np.zeros(words, np.uint64),
        roots=np.zeros(64 * words, np.int64),
    )


def _longer(closure: Closure, names: tuple[str, ...], more: int) -> Closure:
    arrays = {name: getattr(closure, name) for name in names}
    longer = {name: np.concatenate([a, np.zeros(max(16, more), a.dtype)]) for name, a in arrays.items()}
    return _noted(closure._replace(**longer))


def _noted(closure: Closure) -> Closure:
    """Tell the kernels, which see pointers, how long the arrays are."""
    fields = closure.fields
    fields[NODE_CAPACITY] = len(closure.node) - 1
    words = int(fields[WORDS])
    fields[COMPONENT_CAPACITY] = min(len(closure.low) - 1, len(closure.rows) // words)
    fields[SUCCESSOR_CAPACITY] = len(closure.next)
    fields[EXTRA_CAPACITY] = len(closure.extra_to)
    return closure
