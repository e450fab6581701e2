"""The memory layout of relations, plans and conditions.

**Relations.** A relation is the edges of one label under one window. Observation 1: what a join asks of a vertex, it
asks of several relations at a time (is there an `a` out of it, and a `b` into it?), so the data of all relations about
a vertex is adjacent. Observation 2: most lists have one entry (a message has one creator). Observation 3: a
plan walks some relations in one direction only.

* `lists` begins with a *record* a vertex: a word of bits, then 62 *headers*, and again. There is a header for each
  side of a relation that some plan walks (a side that nobody walks is not kept); a new one is added at the end, so
  the places of headers never change. The bit of a header says that it is not empty: whether a vertex has all of a set of
  lists is one load and one comparison. A header is 0 (nothing), positive (the one entry of a list of length one), or
  `~(region / 2 << 32 | size class << 27 | length)`. Regions, in sizes of powers of two, follow the records in the
  same array, in the *arena*; their place is relative to its beginning, so records can become longer and more.
* An *entry* is `neighbour << 32 | edge`. Removal swaps with the last entry.
* `edge` holds a record of twelve integers of 32 bits an edge: ends, relation, its place in both lists, previous and
  next in the order of expiry; `long` is the same memory in integers of 64 bits, for its timestamp and the slide at
  which it expires. Edge 0 is never given out. A static edge stays when it enters and leaves its window.
* `table` is one hash table for the edges of all relations, with linear probing: `hash << 32 | edge`, 0 empty. It
  serves the refresh of an edge and the probes of joins. Growing it and closing gaps look at no edge.
* `slots` are the first edges of the timing wheels (`relations/wheel.py`), one wheel a window.
* `support` and the following arrays are for support lists (`joins/supports.py`), whose headers are in the records as well.

An edge that enters or leaves costs O(1), amortised: lists grow by doubling. A vertex costs 8 bytes for each side
that is walked and for the bits; an edge 48, some 16 to 32 in the hash table, and 8 to 16 in each list longer than
one.

**Plans.** The plans of all patterns lie in one set of tables, so that one kernel interprets them all. A pattern
has a *seed* for each of its atoms: an edge of that atom's relation is bound to it. A seed has `steps`, each of which binds
a variable; a step has `reaches`, the atoms through which the variable is reached from bound ones: the one with the
shortest list proposes, the others are probed. `tests` compare or probe what is bound already.

Kernels take views (`rpq/compiled/views.py`): fields are pointers. They never allocate; where something is full they return a
`NEED_…` code with everything consistent, Python enlarges it, and the same call goes on where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# What a kernel returns: finished, or what Python must do before it goes on.
DONE = 0
NEED_EDGES = 1
NEED_ARENA = 2
NEED_TABLE = 3
NEED_OUTPUT = 4
NEED_CONDITIONS = 5

LOW = (1 << 32) - 1
BITS = 62
"""The number of headers whose emptiness one word of a vertex record tells."""
LENGTH = (1 << 27) - 1
CLASS_SHIFT = 27
CLASS = 31
CLASSES = 28
OUT, IN = 0, 1
NONE = -1

# Fields of an edge, in `edge`.
SOURCE = 0
TARGET = 1
RELATION = 2
PLACE = 3  # in the list of its source; + 1: of its target
PREVIOUS = 5  # in its slot; -1 - slot for the first, 0 in none
NEXT = 6
STATIC = 7  # 1: it stays when it leaves its window
EDGE = 12
# Fields of an edge, in `long`.
TIME = 4
EXPIRES = 5
EDGE_LONG = 6
ABSENT_FROM_WINDOW = np.iinfo(np.int64).min
"""The value of EXPIRES and TIME of a static edge that its window does not hold."""

# Fields of `Relations.state`.
STRIDE = 0  # words of a vertex record
SIDES_KEPT = 1
ARENA = 2  # place in `lists` at which the arena begins
ARENA_TOP = 3  # words of the arena given out (high water)
ARENA_ROOM = 4
EDGES = 5  # edges given out (high water), edge 0 included
EDGE_ROOM = 6
FREE_EDGE = 7  # first free edge, chained through NEXT
LIVE = 8  # number of edges
MASK = 9  # entries of the hash table - 1
NEXT_BOUNDARY = 10  # stream time at which the next slide of some time window begins
WINDOWS = 11
VERTICES = 12  # number of vertex records
HAS_TIME = 13
STREAM_TIME = 14
COUNT_WINDOWS = 15  # number of count windows
PLACES = 16  # columns of `support_place`
SUPPORT_AT = 17  # support lists: the atom whose lists are being changed; -1 none
SUPPORT_STAGE = 18  # progress on that atom
SUPPORT_DEPTH = 19  # frames of the walk
RELATION_STATE = 20

# Fields of a relation, in `relation`.
WINDOW = 0
CELL = 1  # offset of its header in a vertex record; + 1: of the other side; -1 not kept
WORD = 3  # offset of the word with its bit; + 1
BIT = 5  # the bit; + 1
SEED = 7  # first seed of plans that read it, chained through NEXT_SEED; -1 none
LOOPLESS = 8  # 1: an edge from a vertex to itself is not in it
EDGES_HELD = 9
SUPPORT = 10  # first atom with support lists that reads it, chained through SUPPORT_NEXT; -1 none
STATIC_ALONE = 11  # number of its edges that are static and outside its window
COUNTED = 12  # outcomes of the tuples with its label: inserted, refreshed, deleted, absent, late
RELATION_FIELDS = 17

# Fields of an atom with support lists, in `support`; those with an end have one of the source and, + 1, one of the target.
SUPPORT_NEXT = 0
SUPPORT_RELATION = 1
SUPPORT_WORD = 2  # offset of the word of all bits of the pattern
SUPPORT_CELL = 3  # offset of the header of the end's list
SUPPORT_BIT = 5
SUPPORT_AWAY = 7  # bits of the other lists at that end's variable
SUPPORT_LINK = 9  # the other atoms at that end's variable, in `support_link`
SUPPORT_LINK_END = 11
SUPPORT_PLACE = 13  # column of `support_place`
SUPPORT_WORK = 15  # entries added or removed so far
SUPPORT_FIELDS = 16

# Fields of a frame of the walk that changes support lists, in `support_stack`.
LINK = 0
LINK_END = 1
WALK_POSITION = 2
WALK_END = 3
WALK_VERTEX = 4
WALK_OWN = 5  # bit of the list that changed
SUPPORT_FRAME = 6

# Fields of a window, in `window`.
KIND = 0
SIZE = 1
SLIDE = 2
CURSOR = 3  # the first slide whose edges have not been expired
EARLIEST = 4  # no edge expires before this slide
NUMBER = 5  # count windows: inserts so far
FIRST_SLOT = 6
REACHES_FROM = 7  # edges with timestamps from here …
REACHES_TO = 8  # … to here …
REACHES = 9  # … expire at this slide
WINDOW_FIELDS = 10
TIME_WINDOW, COUNT_WINDOW, UNBOUNDED = range(3)

# Fields of `Plans.seed`.
NEXT_SEED = 0
QUERY = 1
FROM = 2  # slot of the variable that the source is bound to
TO = 3
IS_FROM = 4  # the source must be this vertex (a constant); -1 any
IS_TO = 5
SAME = 6  # 1: source and target must be one vertex (a repeated variable)
TESTS = 7
TESTS_END = 8
STEPS = 9
STEPS_END = 10
LOOKS = 11
LOOKS_END = 12
FIXED = 13  # values of constants, in `fixed`: (slot, vertex)
FIXED_END = 14
COLUMNS = 15  # the first slots are the columns of a row
EXPLICIT = 16  # 1: expiry is reported
LOOKED = 17  # values looked at that gave no row by themselves, so far
WRITTEN = 18  # rows written so far
PREVIOUS_SEED = 19  # in the chain of the relation
ALIKE = 20  # the next seed that needs the same conditions; -1 none
ALIKE_BEFORE = 21
SEED_ENTRY = 22  # its entry, in `entry` of the conditions
SEED_RELATION = 23
NEEDS_SOURCE = 24  # the node that must hold at the source
NEEDS_TARGET = 25
SEED_FIELDS = 26

# Fields of `Plans.step`.
BINDS = 0
REACH = 1
REACH_END = 2
NEEDS = 3  # bits that a vertex must have, in word NEEDS_WORD
NEEDS_WORD = 4
MORE = 5  # further words, in `look`
MORE_END = 6
PROBES = 7  # tests, in `test`
PROBES_END = 8
PLAIN = 9  # 1: every entry of the one list gives a value
CONDITION = 10  # the node that must hold at a value; 0 holds everywhere
STEP_FIELDS = 11

# Fields of `Plans.reach`: an atom with one bound end.
REACH_RELATION = 0
REACH_SLOT = 1  # of its bound end
REACH_SIDE = 2  # the list of the bound end that is walked
REACH_CELL = 3  # its header
BEFORE_CHANGE = 4  # 1: must not use the changing edge
REACH_FIELDS = 5

# Fields of `Plans.test`: both ends of an atom are bound, or two slots must differ.
TEST_RELATION = 0  # -1: the slots must differ
TEST_FROM = 1
TEST_TO = 2
TEST_BEFORE = 3
TEST_FIELDS = 4

# Fields of `Plans.look`: the vertex at a slot must have bits.
LOOK_SLOT = 0
LOOK_WORD = 1
LOOK_BITS = 2
LOOK_FIELDS = 3

# Fields of a frame of the enumeration, in `Plans.frame`.
POSITION = 0
END = 1
PROPOSER = 2
FRAME = 3

# Fields of `Plans.state`.
AT_SEED = 0  # seed that is being enumerated, or is next; -1 all are done
AT_STEP = 1  # its step; -1 it has not begun
AT_EDGE = 2  # the changing edge; 0 none
TUPLE = 3
PHASE = 4
READ = 5  # which of the relations that a tuple changes is next
ORDER = 6  # 2 * tuple + 1, or 2 * tuple for a boundary before it
EVENT_TIME = 7
SIGN = 8
INSERTED = 9
REFRESHED = 10
DELETED = 11
ABSENT = 12
LATE = 13
EXPIRED = 14
STAGE = 15  # progress of an insert in a count window
ENTERING = 16  # what is still to change for an edge that entered, + 1: support lists, + 2: conditions
AT_ANSWER = 17  # the next edge when all answers are enumerated
CHANGE = 18  # next event of derived changes
CHANGES = 19  # number of these events
CHANGE_ORDER = 20  # the order of the next event, beyond all tuples if there is none
CHANGE_PAIR = 21  # next pair of that event
DERIVING = 22  # 1: the changing edge is a pair of that event
STARTED = 23  # cycle counter at the beginning of the current tuple; 0 not begun, or no relation reads it
TIMED = 24  # tuples for which `Changes.spent` has the ticks spent before
ANSWER_PLACE = 25  # place of the next edge in the list of the vertex of record AT_ANSWER
PLAN_STATE = 26

# Values of `Plans.state[PHASE]`.
CROSSING, EVICTING, LEAVING, CHANGING = range(4)
# Values of `Plans.state[STAGE]`: the insert waits for its number; it has its number, and the edges that it evicts leave.
UNNUMBERED, NUMBERED = range(2)

SLOTS = 96
"""Room for the variables and constants of a connected part, at most 33 + 32, and for a whole vector behind them."""

# Fields of `Output.state`.
VALUES = 0
VALUE_ROOM = 1
RUNS = 2
RUN_ROOM = 3
OUTPUT_STATE = 4

# Fields of a run: rows of one query and one event.
RUN_QUERY = 0
RUN_ORDER = 1
RUN_TIME = 2
RUN_SIGN = 3
RUN_VALUES = 4  # its first value
RUN_ROWS = 5
RUN = 6


class Relations(NamedTuple):
    """All relations of an engine."""

    lists: np.ndarray  # int64: vertex records, then the arena
    edge: np.ndarray  # int32, EDGE an edge
    long: np.ndarray  # int64: the same memory
    table: np.ndarray  # int64: hash << 32 | edge
    slots: np.ndarray  # int32: first edges of the timing wheels
    free: np.ndarray  # int64 a size class: first free region, chained through its first word; -1 none
    relation: np.ndarray  # int64, RELATION_FIELDS a relation
    window: np.ndarray  # int64, WINDOW_FIELDS a window
    reader_first: np.ndarray  # int32 a label + 1: the relations that its edges belong to, in `reader`
    reader: np.ndarray  # int32
    numbered_first: np.ndarray  # int32 a label + 1: the count windows that number its inserts, in `numbered`
    numbered: np.ndarray  # int32
    support: np.ndarray  # int64, SUPPORT_FIELDS an atom
    support_link: np.ndarray  # int64: 2 * atom + end
    support_place: np.ndarray  # int32, PLACES an edge: its place in support lists
    support_stack: np.ndarray  # int64: frames
    state: np.ndarray  # int64[RELATION_STATE]


class Plans(NamedTuple):
    """All plans, and the state of the enumeration."""

    seed: np.ndarray  # int64, SEED_FIELDS a seed
    step: np.ndarray  # int64, STEP_FIELDS a step
    reach: np.ndarray  # int64
    test: np.ndarray  # int64
    look: np.ndarray  # int64
    fixed: np.ndarray  # int64: slot, vertex
    binding: np.ndarray  # int32[SLOTS]: the vertex a slot is bound to
    frame: np.ndarray  # int64, FRAME a step of the current seed
    latency: np.ndarray  # int64[LATENCY_BUCKETS]: tuples that some relation reads, by the ticks that they took
    conditions: Conditions  # shared by all plans
    state: np.ndarray  # int64[PLAN_STATE]


class Output(NamedTuple):
    """Rows found so far: the values of a run's rows are adjacent, row by row."""

    values: np.ndarray  # int32; with room for a whole vector after the last value
    runs: np.ndarray  # int64, RUN a run
    state: np.ndarray  # int64[OUTPUT_STATE]


class Changes(NamedTuple):
    """Changes of derived relations in a chunk: ordered events, each of which adds edges to a relation or removes them."""

    order: np.ndarray  # int64 an event: 2 * tuple + 1, or 2 * tuple for a boundary before it
    time: np.ndarray  # int64
    sign: np.ndarray  # int8: 1 the edges enter, -1 they leave
    relation: np.ndarray  # int32
    first: np.ndarray  # int64: first of its edges, in `pairs`
    end: np.ndarray  # int64
    pairs: np.ndarray  # int64: source << 32 | target
    spent: np.ndarray  # int64 a tuple: ticks spent in the indexes of paths


_NO_EVENTS = np.zeros(0, np.int64)
NO_CHANGES = Changes(
    order=_NO_EVENTS,
    time=_NO_EVENTS,
    sign=np.zeros(0, np.int8),
    relation=np.zeros(0, np.int32),
    first=_NO_EVENTS,
    end=_NO_EVENTS,
    pairs=_NO_EVENTS,
    spent=_NO_EVENTS,
)
"""No change of any derived relation."""


class Tuples(NamedTuple):
    """A chunk of the stream, in ids."""

    source: np.ndarray  # int32 vertex
    target: np.ndarray  # int32
    label: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8


# Fields of a node, in `node`; node 0 is the condition that always holds.
FIRST_PARENT = 0  # first branch to it, chained through NEXT_PARENT; 0 none
PART = 1  # its branches, in `part`
PART_END = 2
FIRST_GROUP = 3  # first group of seeds that need it at the target, chained through NEXT_GROUP; 0 none
FIRST_HELD = 4  # first record of a vertex at which it holds, chained through NEXT_OF_NODE; 0 none
PARENTS_READ = 5  # a bit for each relation and side of its parents (`parent_bit`), and perhaps for removed ones
GROUPS_READ = 6  # a bit for each relation of its groups (`group_bit`), likewise
MARK = 7  # mark of the last edge at whose source it holds
NODE = 8

# Fields of a branch, in `branch`; number 0 is not used.
BRANCH_RELATION = 0
BRANCH_SIDE = 1  # 0: edges lead from the vertex of the parent to that of the child; 1: the other way
CHILD = 2
NEXT_PARENT = 3
FIRST_USE = 4  # first part of a node that is this branch, chained through NEXT_USE; 0 none
USES = 5  # number of these
BRANCH = 6

# Fields of a part of a node, in `part`; number 0 is not used.
OF_BRANCH = 0
OF_NODE = 1
NEXT_USE = 2
PREVIOUS_USE = 3
PART_FIELDS = 4

# Fields of a record, in `record`: a node holds at a vertex. Number 0 is not used.
HELD_NODE = 0
HELD_VERTEX = 1
BLOCK_PLACE = 2  # of the node in `block`
NEXT_OF_NODE = 3
PREVIOUS_OF_NODE = 4
RECORD = 5

# Fields of a vertex, in `vertex`.
FIRST_BLOCK = 0  # first block of the nodes that hold there; 0 none
HELD_THERE = 1  # number of nodes that hold there
VERTEX = 2

# A block of nodes that hold at a vertex, in `block`, as long as a cache line: thousands may be walked for an edge. There is
# no block 0. The first block of a vertex has the remainder, all others are full.
NEXT_BLOCK = 0
FIRST_NODE = 1
NODES_A_BLOCK = 15
BLOCK = 16

# Fields of a group of seeds, in `group`: they read one relation, and need one node at its targets. Number 0 is not used.
GROUP_RELATION = 0
NEXT_GROUP = 1
FIRST_ENTRY = 2  # first entry, chained through NEXT_ENTRY
ENTRIES = 3
GROUP_TARGET = 4
GROUP = 5

# Fields of an entry of a group, in `entry`: seeds that also need one node at the source. Number 0 is not used.
ENTRY_NODE = 0
ENTRY_SEED = 1  # the first, chained through ALIKE; -1 none
NEXT_ENTRY = 2
ENTRY_GROUP = 3
ENTRY = 4

# Fields of a frame of the walk, in `stack`.
AT_VERTEX = 0
AT_BRANCH = 1
ONLY = 2  # 1: for this branch alone, not for those after it in the chain
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
PENDING_AT = 10  # next of these
PENDING_ROOM = 11
COMES = 12  # 1: counters go up; 0 down
BUSY = 13  # 1: a change has begun and has not finished
LIVE_RECORDS = 14
ENTRY_MASK = 15
CANDIDATES = 16  # seeds in `candidate`
AT_CANDIDATE = 17
CHOSEN = 18  # 1: the candidates are those of the changing edge
FILL_RECORD = 19  # progress of filling a new branch or node
WORK = 20  # counters changed so far
ON = 21  # 1: seeds are found by the nodes that they need
TAKING_OUT = 22  # 1: the changing edge has been reported, and is being removed
GONE_SOURCE = 23  # source of the edge that is being removed
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
MARKED = 34  # number of edges for which nodes were marked
CONDITION_STATE = 35


def parent_bit(relation: int, side: int) -> int:
    """Return the bit of a relation and a side in PARENTS_READ; others may have the same bit."""
    return 1 << (2 * relation + side) % 31


def group_bit(relation: int) -> int:
    """Return the bit of a relation in GROUPS_READ; others may have the same bit."""
    return 1 << relation % 31


class Conditions(NamedTuple):
    """All conditions, where they hold, and which seeds need them."""

    node: np.ndarray  # int32, NODE a node
    branch: np.ndarray  # int32, BRANCH a branch
    part: np.ndarray  # int32, PART_FIELDS a part
    counter: np.ndarray  # int64: branch << 32 | vertex, and how many neighbours satisfy its child
    held: np.ndarray  # int64: node << 32 | vertex, and its record (0: it no longer holds)
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
