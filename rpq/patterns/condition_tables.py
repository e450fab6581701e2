"""The arrays of conditions and of the dispatch of changes to seeds; `conditions.py` explains what they are for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Fields of a node, in `node`; node 0 is the condition that always holds.
FIRST_PARENT = 0  # first branch to it, chained through NEXT_PARENT; 0 none
PART = 1  # its branches, in `part`
PART_END = 2
FIRST_GROUP = 3  # first group of seeds that need it at the target, chained through NEXT_GROUP; 0 none
FIRST_HELD = 4  # first record of a vertex at which it holds, chained through NEXT_OF_NODE; 0 none
PARENTS_READ = 5  # a bit for each relation and side of its parents (`parent_bit`), and perhaps for some that went
GROUPS_READ = 6  # a bit for each relation of its groups (`group_bit`), likewise
MARK = 7  # the last edge for which it was seen to hold at the source
NODE = 8

# Fields of a branch, in `branch`; there is none 0.
BRANCH_RELATION = 0
BRANCH_SIDE = 1  # 0: edges lead from the vertex of the parent to that of the child; 1: the other way
CHILD = 2
NEXT_PARENT = 3
FIRST_USE = 4  # first part of a node that is this branch, chained through NEXT_USE; 0 none
USES = 5  # how many there are
BRANCH = 6

# Fields of a part of a node, in `part`; there is none 0.
OF_BRANCH = 0
OF_NODE = 1
NEXT_USE = 2
PREVIOUS_USE = 3
PART_FIELDS = 4

# Fields of a record, in `record`: a node holds at a vertex. There is none 0.
HELD_NODE = 0
HELD_VERTEX = 1
PLACE = 2  # of the node in `block`
NEXT_OF_NODE = 3
PREVIOUS_OF_NODE = 4
RECORD = 5

# Fields of a vertex, in `vertex`.
FIRST_BLOCK = 0  # first block of the nodes that hold there; 0 none
HELD_THERE = 1  # how many nodes hold there
VERTEX = 2

# A block of nodes that hold at a vertex, in `block`, as long as a cache line: thousands may be walked for an edge. There is
# none 0. The first of a vertex has as many as are left over, all others are full.
NEXT_BLOCK = 0
FIRST_NODE = 1
NODES_A_BLOCK = 15
BLOCK = 16

# Fields of a group of seeds, in `group`: they read one relation, and need one node at its targets. There is none 0.
GROUP_RELATION = 0
NEXT_GROUP = 1
FIRST_ENTRY = 2  # first entry, chained through NEXT_ENTRY
ENTRIES = 3
GROUP_TARGET = 4
GROUP = 5

# Fields of an entry of a group, in `entry`: seeds that also need one node at the source. There is none 0.
ENTRY_NODE = 0
ENTRY_SEED = 1  # the first, chained through ALIKE; -1 none
NEXT_ENTRY = 2
ENTRY_GROUP = 3
ENTRY = 4

# Fields of a frame of the walk, in `stack`.
AT_VERTEX = 0
AT_BRANCH = 1
ONLY = 2  # 1: of this branch alone, not of those behind it in the chain
AT_POSITION = 3  # -1: its list has not been opened
AT_END = 4
STACK = 5

# Fields of `state`.
COUNTERS = 0  # keys in `counter`
COUNTER_MASK = 1
HELDS = 2  # keys in `held`
HELD_MASK = 3
RECORDS = 4  # records given out (high water), record 0 included
RECORD_ROOM = 5
FREE_RECORD = 6  # first free record, chained through NEXT_OF_NODE
DEPTH = 7
STACK_ROOM = 8
PENDING = 9  # branches whose counters the changing edge itself changes, in `pending`
PENDING_AT = 10  # which of them is next
PENDING_ROOM = 11
COMES = 12  # 1: counters go up; 0 down
BUSY = 13  # 1: a change has begun and not come to its end
LIVE_RECORDS = 14
ENTRY_MASK = 15
CANDIDATES = 16  # seeds in `candidate`
AT_CANDIDATE = 17
CHOSEN = 18  # 1: the candidates are those of the changing edge
FILL_RECORD = 19  # where filling a new branch or node has come to
WORK = 20  # counters changed so far
ON = 21  # 1: seeds are found by what they need
TAKING_OUT = 22  # 1: the changing edge has been reported, and is being taken out
GONE_SOURCE = 23  # of the edge that is being taken out
GONE_TARGET = 24
GONE_RELATION = 25
GROUP_COUNT = 26  # groups given out (high water), group 0 included
FREE_GROUP = 27  # first free group, chained through NEXT_GROUP
ENTRY_COUNT = 28
FREE_ENTRY = 29
ENTRY_KEYS = 30  # keys in `entries`
BLOCKS = 31  # blocks given out (high water), block 0 included
BLOCK_ROOM = 32
FREE_BLOCK = 33  # first free block, chained through NEXT_BLOCK
MARKED = 34  # edges for which nodes were marked
CONDITION_STATE = 35


def parent_bit(relation: int, side: int) -> int:
    """The bit of a relation and a side in PARENTS_READ; others may have the same."""
    return 1 << (2 * relation + side) % 31


def group_bit(relation: int) -> int:
    """The bit of a relation in GROUPS_READ; others may have the same."""
    return 1 << relation % 31


class Conditions(NamedTuple):
    """All conditions, where they hold, and which seeds need them."""

    node: np.ndarray  # int32, NODE a node
    branch: np.ndarray  # int32, BRANCH a branch
    part: np.ndarray  # int32, PART_FIELDS a part
    counter: np.ndarray  # int64: branch << 32 | vertex, and how many neighbours satisfy its child
    held: np.ndarray  # int64: node << 32 | vertex, and its record (0: it does not hold any more)
    record: np.ndarray  # int32, RECORD a record
    vertex: np.ndarray  # int32, VERTEX a vertex
    block: np.ndarray  # int32, BLOCK a block
    stack: np.ndarray  # int64, STACK a frame
    pending: np.ndarray  # int64: branch << 32 | vertex
    group: np.ndarray  # int32, GROUP a group
    entry: np.ndarray  # int32, ENTRY an entry
    entries: np.ndarray  # int64: group << 32 | node, and the entry
    open_group: np.ndarray  # int32 a relation: its group of seeds that need nothing at the target; 0 none
    candidate: np.ndarray  # int32: seeds
    state: np.ndarray  # int64[CONDITION_STATE]
