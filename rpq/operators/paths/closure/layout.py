"""The memory layout of the index of bits.

Nearly all steps of the Δ index raise cells of pairs that are answers already, and nothing reads the raised values before
edges leave. Here a pair of a root and a product node is one bit. Product nodes that reach each other are one *component*,
with one row of bits: the slots of the roots that reach it. An edge pushes only the bits that are new. After a boundary at
which edges leave, components and rows are recomputed from the edges in the window (`components.py`), before the next insert
or query of the index.

* **Rows** have `fields.words` words of 64 roots, a multiple of eight, so that a step is whole cache lines.
* **Components** are numbered in reverse topological order: a step leads to a lower number. Only product nodes that a root
  reaches are in a component. A node that is first reached after the computation becomes a component of its own, with a
  number from `fields.settled` on.
* **Successors** of a settled component are in `successor`, and those that edges have added since then in a chain of
  `extra_to`. The successors of a later component are found in the adjacency lists of the Δ index.
* **What an event removes** is in `lost_bits`, which has room from the first delete on, and always in explicit windows
  (`loss.py`).
* `Table.row_of` contains the component of a product node in place of its row; the table has no rows while there are bits.

Like those of the Δ index, kernels return codes and are called again with more memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.growth import request
from rpq.compiled.views import Record, int64

# Codes that kernels return besides those of the Δ index.
NEED_WORDS = 201
NEED_NODES = 202
NEED_COMPONENTS = 203
NEED_SUCCESSORS = 204
NEED_EXTRAS = 205
NEED_EARLIER = 206  # room to remember components and rows, which deletes and explicit windows need


class ClosureState(Record):
    """The progress of the index of bits, counts, and the lengths of the arrays."""

    _fields_ = (
        ("words", int64),  # words of a row
        ("components", int64),
        ("settled", int64),  # components below have their successors in `successor`
        ("extras", int64),  # entries of the chains
        ("queue_length", int64),  # components that wait
        ("queue_head", int64),  # place of the first of them in the queue
        ("stale", int64),  # 1: components have to be recomputed
        ("node_capacity", int64),
        ("component_capacity", int64),
        ("successor_capacity", int64),
        ("extra_capacity", int64),
        ("found_components", int64),  # number of components that the last computation found
        ("pushed_words", int64),  # words that inserts have pushed so far
        ("joined_words", int64),  # words that computations have joined so far
        ("walked_links", int64),  # links and nodes that computations have looked at so far
        ("earliest_expiry", int64),  # no edge that rows depend on leaves before this absolute slide
        ("visited_nodes", int64),  # product nodes that the current computation has visited
        ("successors", int64),  # entries of `successor`
        ("stage", int64),  # of computing components anew with rows for what is lost, as below
        ("touched_count", int64),  # entries of `touched_components`
        ("keeps_earlier", int64),  # 1: there is room for what was lost
        ("upward", int64),  # the highest settled component that an edge from a lower or later one leads to, -1 none
        ("accepting_states", int64),  # accepting states of the automaton where there are several, or 0
        ("lost_components", int64),  # entries of `lost_member_first` but one
        ("old_now", int64),  # `now` of the Δ index before the boundary that is being reported
    )


# Values of `ClosureState.stage`.
STAGE_IDLE = 0
STAGE_COPIED = 1  # the old components and rows have been copied
STAGE_COMPUTED = 2  # the new components have been computed


class Closure(NamedTuple):
    """Components and their rows of bits."""

    rows: np.ndarray  # uint64, `fields.words` a component: the slots of the roots that reach it
    pending: np.ndarray  # uint64, `fields.words` a component: the bits that it has not pushed yet, from `low` to `high`
    low: np.ndarray  # int32 a component: the first word that it has to push
    high: np.ndarray  # int32 a component: the word after the last one to push
    is_queued: np.ndarray  # uint8 a component
    queue: np.ndarray  # int32 a component: a ring of those that have something to push
    member_first: np.ndarray  # int32 a component + 1: its product nodes in `member`
    accepting_nodes: np.ndarray  # int32 a component: how many of them accept
    successor_first: np.ndarray  # int32 a component: its successors in `successor`
    successor_end: np.ndarray  # int32 a component
    extra_head: np.ndarray  # int32 a component: its last successor since the computation, in the two arrays of chains, or -1
    last_predecessor: np.ndarray  # int32 a component: the component of which it was last found to be a successor
    member: np.ndarray  # int64 a product node: vertex << 16 | state
    successor: np.ndarray  # int32: components; during the computation, also a stack, from the end of the array down
    extra_next: np.ndarray  # int32: the previous entry of the chain, or -1
    extra_to: np.ndarray  # int32: component
    node: np.ndarray  # int64 a visited product node, by number: vertex << 16 | state; scratch, like the next ones
    lowest: np.ndarray  # int32 a visited node: the lowest number that it is known to reach in its component
    node_stack: np.ndarray  # int32: stack of visited nodes whose component is not known
    path: np.ndarray  # int32: visited nodes from the root of the search to the present one
    leave: np.ndarray  # int32 for each of these: the transition that is being followed
    place: np.ndarray  # int32 for each of these: the next link of this transition
    top: np.ndarray  # int32 for each of these: the end of the stack of successors when the node was first visited
    touch: np.ndarray  # uint8 a component: the effect of the current delete on it (`loss.py`); 0 between events
    touched_components: np.ndarray  # int32: the components whose `touch` is not 0
    lost_bits: np.ndarray  # uint64, as `rows`: the bits that an event removed; empty until needed, like the next 3
    lost_member: np.ndarray  # int64 a product node: `member` before the recomputation
    lost_member_first: np.ndarray  # int32 a component + 1: `member_first` before the recomputation
    lost_component: np.ndarray  # int32 a product node and accepting state: the component of its vertex in that state before
    scratch: np.ndarray  # uint64 a word
    roots: np.ndarray  # int64 a slot: scratch
    fields: ClosureState


_OF_COMPONENTS = (
    "low", "high", "is_queued", "queue", "member_first", "accepting_nodes", "successor_first", "successor_end", "extra_head",
    "last_predecessor", "touch", "touched_components",
)  # fmt: skip
_OF_NODES = ("member", "node", "lowest", "node_stack", "path", "leave", "place", "top")
_OF_ROWS = ("rows", "pending")


def new_closure(*, capacity: int, slots: int, accepting: int, keeps_earlier: bool) -> Closure:
    """Return an empty index of bits with room for `capacity` components and nodes.

    `accepting` is the number of accepting states. With `keeps_earlier`, there is room for what an event removes.
    """
    words = words_for(slots)
    types: dict[str, type] = dict.fromkeys(("rows", "pending", "lost_bits", "scratch"), np.uint64)
    types |= dict.fromkeys(("is_queued", "touch"), np.uint8)
    types |= dict.fromkeys(("member", "lost_member", "node", "roots"), np.int64)
    arrays: dict[str, Any] = {name: np.zeros(0, types.get(name, np.int32)) for name in Closure._fields}
    arrays |= {name: np.zeros(capacity + 1, arrays[name].dtype) for name in (*_OF_COMPONENTS, *_OF_NODES)}
    arrays |= {name: np.zeros(capacity, np.int32) for name in ("successor", "extra_next", "extra_to")}
    arrays |= {name: np.zeros(capacity * words, np.uint64) for name in _OF_ROWS}
    arrays |= {"scratch": np.zeros(words, np.uint64), "roots": np.zeros(64 * words, np.int64)}
    closure = Closure(**(arrays | {"fields": ClosureState()}))
    closure.fields.words = words
    closure.fields.stale = 1
    closure.fields.upward = -1
    closure.fields.accepting_states = accepting if accepting > 1 else 0
    return _with_earlier(_note_capacities(closure)) if keeps_earlier else _note_capacities(closure)


def words_for(slots: int) -> int:
    """Return the number of words in a row for this number of slots, with some to spare.

    >>> words_for(0), words_for(600)
    (8, 16)
    """
    return 8 * ((slots + slots // 8 + 64 + 511) // 512)


def closure_bytes(closure: Closure) -> int:
    """Return the number of bytes held."""
    return sum(array.nbytes for array in closure)


def blocks_of_cells(closure: Closure) -> int:
    """Return the number of blocks of 64 cells that the rows would occupy as cells. O(rows)."""
    components, words = closure.fields.components, closure.fields.words
    blocks = np.count_nonzero(closure.rows[: components * words].reshape(components, words), axis=1)
    return int(blocks @ np.diff(closure.member_first[: components + 1]))


def with_more_memory(closure: Closure, code: int, slots: int) -> Closure:
    """Return the index of bits with more of the memory that a kernel lacked when it returned `code`."""
    fields = closure.fields
    if code == NEED_WORDS:
        return _with_words(closure, words_for(max(slots, 64 * fields.words)))
    if code == NEED_NODES:
        more = max(16, fields.node_capacity)
        longer = _longer(closure, (*_OF_NODES, *(("lost_member",) if fields.keeps_earlier else ())), more)
        if not fields.keeps_earlier:
            return longer
        return _longer(longer, ("lost_component",), more * fields.accepting_states)
    if code == NEED_COMPONENTS:
        room = fields.component_capacity
        more = max(16, room // 2, fields.found_components * 5 // 4 - room)
        closure.queue[:room] = np.roll(closure.queue[:room], -fields.queue_head)  # the end of the ring changes
        fields.queue_head = 0
        wider = _longer(closure, (*_OF_COMPONENTS, *(("lost_member_first",) if fields.keeps_earlier else ())), more)
        rows = (*_OF_ROWS, *(("lost_bits",) if fields.keeps_earlier else ()))
        return _longer(wider, rows, more * fields.words)
    if code == NEED_SUCCESSORS:
        return _longer(closure, ("successor",), len(closure.successor))
    if code == NEED_EXTRAS:
        return _longer(closure, ("extra_next", "extra_to"), len(closure.extra_to))
    if code == NEED_EARLIER:
        return _with_earlier(closure)
    raise AssertionError(f"a kernel returned {code}")


def _with_earlier(closure: Closure) -> Closure:
    nodes = len(closure.member)
    request(closure.rows.nbytes + closure.member.nbytes + closure.member_first.nbytes)
    closure.fields.keeps_earlier = 1
    return closure._replace(
        lost_bits=np.zeros(len(closure.rows), np.uint64),
        lost_member=np.zeros(nodes, np.int64),
        lost_member_first=np.zeros(len(closure.member_first), np.int32),
        lost_component=np.zeros(nodes * closure.fields.accepting_states, np.int32),
    )


def _with_words(closure: Closure, words: int) -> Closure:
    """Return the same rows with `words` words each. No words may be waiting to be pushed."""
    old_words, room = closure.fields.words, closure.fields.component_capacity
    request(8 * room * words * (3 if closure.fields.keeps_earlier else 2))
    rows = np.zeros((room, words), np.uint64)
    rows[:, :old_words] = closure.rows[: room * old_words].reshape(room, old_words)
    closure.fields.words = words
    return closure._replace(
        rows=rows.ravel(),
        pending=np.zeros(room * words, np.uint64),
        lost_bits=np.zeros(room * words if closure.fields.keeps_earlier else 0, np.uint64),
        scratch=np.zeros(words, np.uint64),
        roots=np.zeros(64 * words, np.int64),
    )


def _longer(closure: Closure, names: tuple[str, ...], more: int) -> Closure:
    arrays = {name: getattr(closure, name) for name in names}
    longer: dict[str, Any] = {name: lengthen(array, max(16, more)) for name, array in arrays.items()}
    return _note_capacities(closure._replace(**longer))


def _note_capacities(closure: Closure) -> Closure:
    """Store the lengths of the arrays for kernels, which see only pointers."""
    fields = closure.fields
    fields.node_capacity = len(closure.node) - 1
    words = fields.words
    fields.component_capacity = min(len(closure.low) - 1, len(closure.rows) // words)
    fields.successor_capacity = len(closure.successor)
    fields.extra_capacity = len(closure.extra_to)
    return closure
