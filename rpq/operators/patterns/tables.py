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
* `edge` holds 48 bytes an edge: ends, relation, its place in both lists, previous and next in the order of expiry, its
  timestamp and the slide at which it expires. Edge 0 is never given out. A static edge stays when it enters and leaves
  its window. A relation may also have the edges of all labels, with the label as a third column, a number. No plan walks its
  lists, so its edges have their label where others have their place in a list.
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

Kernels take views (`rpq/compiled/views.py`): fields are pointers, to numbers or to the records below. They never allocate;
where something is full they return a `NEED_…` code with everything consistent, Python enlarges it, and the same call goes on
where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from rpq.compiled.views import Record, float64, int32, int64

# What a kernel returns: finished, or what Python must do before it goes on.
DONE = 0
NEED_EDGES = 1
NEED_ARENA = 2
NEED_TABLE = 3
NEED_OUTPUT = 4
NEED_CONDITIONS = 5
NEED_TIME = 6  # the deadline has passed

LOW = (1 << 32) - 1
BITS = 62
"""The number of headers for which one word of a vertex record has a bit each: whether the list is empty."""
LENGTH = (1 << 27) - 1
CLASS_SHIFT = 27
CLASS = 31
CLASSES = 28
OUT, IN = 0, 1
NONE = -1
NO_LABEL = -1
"""In place of the label of an edge, where all edges of the relation have one label."""


class RelationEdge(Record):
    """An edge of a relation."""

    _fields_ = (
        ("source", int32),
        ("target", int32),
        ("relation", int32),  # -1: the edge is free
        ("place", int32 * 2),  # in the list of its source, and in that of its target; or its label, and nothing
        ("previous", int32),  # in its slot; -1 - slot for the first, 0 in none
        ("next", int32),
        ("is_static", int32),  # 1: it stays when it leaves its window
        ("time", int64),
        ("expires", int64),  # the slide; NOT_HELD, as is `time`, if its window does not hold the static edge
    )


class Relation(Record):
    """A relation. Arrays of two have a number for each side: `OUT`, `IN`."""

    _fields_ = (
        ("window", int64),
        ("cell", int64 * 2),  # offset of its header in a vertex record; -1 not kept
        ("word", int64 * 2),  # offset of the word with its bit
        ("bit", int64 * 2),
        ("first_seed", int64),  # of the plans that read it, chained through `SeedRecord.next`; -1 none
        ("is_loopless", int64),  # 1: an edge from a vertex to itself is not in it
        ("has_labels", int64),  # 1: it has the edges of all labels, with their labels, and no lists
        ("edges", int64),  # number of its edges
        ("first_support", int64),  # first atom with support lists that reads it, chained through `Support.next`; -1 none
        ("static_alone", int64),  # number of its edges that are static and outside its window
        ("outcomes", int64 * 6),  # number of tuples with its label, by `Outcome`
    )


# Values of `WindowRecord.kind`.
TIME_WINDOW, COUNT_WINDOW, UNBOUNDED = range(3)


class WindowRecord(Record):
    """A window."""

    _fields_ = (
        ("kind", int64),
        ("size", int64),
        ("slide", int64),
        ("cursor", int64),  # the first slide whose edges have not been expired
        ("earliest", int64),  # no edge expires before this slide
        ("number", int64),  # count windows: inserts so far
        ("first_slot", int64),
        ("reaches_from", int64),  # edges with timestamps from here …
        ("reaches_to", int64),  # … to here …
        ("reaches", int64),  # … expire at this slide
    )


class Support(Record):
    """An atom with support lists. Arrays of two have a number for each of its ends: the source, the target."""

    _fields_ = (
        ("next", int64),
        ("relation", int64),
        ("word", int64),  # offset of the word of all bits of the pattern
        ("cell", int64 * 2),  # offset of the header of the end's list
        ("bit", int64 * 2),
        ("other_bits", int64 * 2),  # bits of the other lists at that end's variable
        ("link", int64 * 2),  # the other atoms at that end's variable, in `support_link`
        ("link_end", int64 * 2),
        ("place", int64 * 2),  # column of `support_place`
        ("work", int64),  # entries added or removed so far
    )


class SupportFrame(Record):
    """A frame of the walk that changes support lists."""

    _fields_ = (
        ("link", int64),
        ("link_end", int64),
        ("position", int64),
        ("end", int64),
        ("vertex", int64),
        ("bit", int64),  # bit of the list that changed
    )


class RelationState(Record):
    """The sizes of the arrays of relations, and the stream time."""

    _fields_ = (
        ("stride", int64),  # words of a vertex record
        ("sides_stored", int64),
        ("arena", int64),  # place in `lists` at which the arena begins
        ("arena_top", int64),  # words of the arena given out (high water)
        ("arena_room", int64),
        ("edges", int64),  # edges given out (high water), edge 0 included
        ("edge_room", int64),
        ("free_edge", int64),  # first free edge, chained through `next`
        ("live_edges", int64),  # number of edges
        ("mask", int64),  # entries of the hash table - 1
        ("next_boundary", int64),  # stream time at which the next slide of some time window begins
        ("windows", int64),
        ("vertices", int64),  # number of vertex records
        ("has_time", int64),
        ("stream_time", int64),
        ("count_windows", int64),  # number of count windows
        ("places", int64),  # columns of `support_place`
        ("support_atom", int64),  # support lists: the atom whose lists are being changed; -1 none
        ("support_stage", int64),  # progress on that atom
        ("support_depth", int64),  # frames of the walk
    )


class SeedRecord(Record):
    """A seed: an atom of a pattern to which a changing edge is bound."""

    _fields_ = (
        ("next", int64),  # in the chain of the relation; -1 none
        ("previous", int64),
        ("query", int64),
        ("relation", int64),
        ("source_slot", int64),  # slot of the variable that the source is bound to
        ("target_slot", int64),
        ("label_slot", int64),  # slot of the variable that the label is bound to; -1 none
        ("source", int64),  # the source must be this vertex (a constant); -1 any
        ("target", int64),
        ("is_loop", int64),  # 1: source and target must be one vertex (a repeated variable)
        ("tests", int64),
        ("tests_end", int64),
        ("steps", int64),
        ("steps_end", int64),
        ("looks", int64),
        ("looks_end", int64),
        ("constants", int64),  # in `constant`
        ("constants_end", int64),
        ("columns", int64),  # the first slots are the columns of a row
        ("is_explicit", int64),  # 1: expiry is reported
        ("visited_values", int64),  # values examined so far that gave no row by themselves
        ("written_rows", int64),  # rows written so far
        ("next_alike", int64),  # the next seed that needs the same conditions; -1 none
        ("previous_alike", int64),
        ("entry", int64),  # its entry, in `entry` of the conditions
        ("needs_source", int64),  # the node that must hold at the source
        ("needs_target", int64),
        ("compares", int64),  # comparisons of values of edges, in `comparison`
        ("compares_end", int64),
    )


class StepRecord(Record):
    """A step of a seed: it binds a variable."""

    _fields_ = (
        ("binds", int64),  # slot of the variable
        ("reach", int64),
        ("reach_end", int64),
        ("needs", int64),  # bits that a vertex must have, in word `needs_word`
        ("needs_word", int64),
        ("more", int64),  # further words, in `look`
        ("more_end", int64),
        ("probes", int64),  # tests, in `test`
        ("probes_end", int64),
        ("is_plain", int64),  # 1: every entry of the one list gives a value
        ("condition", int64),  # the node that must hold at a value; 0 holds everywhere
        ("compares", int64),  # comparisons of values of edges, in `comparison`
        ("compares_end", int64),
    )


class ReachRecord(Record):
    """An atom with one bound end."""

    _fields_ = (
        ("relation", int64),
        ("slot", int64),  # of its bound end
        ("side", int64),  # the list of the bound end that is walked
        ("cell", int64),  # its header
        ("before_change", int64),  # 1: must not use the changing edge
    )


class TestRecord(Record):
    """An atom both of whose ends are bound, or two slots that must differ."""

    _fields_ = (
        ("relation", int64),  # -1: the slots must differ
        ("source_slot", int64),
        ("target_slot", int64),
        ("before_change", int64),
    )


class ComparisonRecord(Record):
    """A comparison of values: the sum of its terms, in `term`, is at most 0, up to rounding."""

    _fields_ = (("terms", int64), ("terms_end", int64))


class TermRecord(Record):
    """A factor of a number of the edge at a slot, or of 1."""

    _fields_ = (
        ("slot", int64),  # -1: a constant
        ("column", int64),  # of `numbers`
        ("factor", float64 * 1),
    )


class LookRecord(Record):
    """The bits that the vertex at a slot must have."""

    _fields_ = (("slot", int64), ("word", int64), ("bits", int64))


class ConstantSlot(Record):
    """A constant, and the slot that is bound to it."""

    _fields_ = (("slot", int64), ("vertex", int64))


class SearchFrame(Record):
    """A frame of the enumeration: the place in the list of the atom that proposes."""

    _fields_ = (("position", int64), ("end", int64), ("proposer", int64))


# Values of `PlanState.phase`.
CROSSING, EVICTING, LEAVING, CHANGING = range(4)
# Values of `PlanState.stage`: the insert waits for its number; it has its number, and the edges that it evicts leave.
UNNUMBERED, NUMBERED = range(2)


class PlanState(Record):
    """The state of the enumeration, and counts."""

    _fields_ = (
        ("seed", int64),  # seed that is being enumerated, or is next; -1 all are done
        ("step", int64),  # its step; -1 it has not begun
        ("edge", int64),  # the changing edge; 0 none
        ("tuple", int64),
        ("phase", int64),
        ("reader", int64),  # which of the relations that a tuple changes is next
        ("order", int64),  # 2 * tuple + 1, or 2 * tuple for a boundary before it
        ("event_time", int64),
        ("sign", int64),
        ("outcomes", int64 * 6),  # number of tuples, by `Outcome`
        ("expired_edges", int64),
        ("stage", int64),  # progress of an insert in a count window
        ("insert_stages", int64),  # what must still change for an edge that entered, + 1: support lists, + 2: conditions
        ("answer", int64),  # the next edge when all answers are enumerated, or the next record of a vertex
        ("answer_place", int64),  # place of the next edge in the list of the vertex of that record
        ("change", int64),  # next event of derived changes
        ("changes", int64),  # number of these events
        ("change_order", int64),  # the order of the next event, beyond all tuples if there is none
        ("change_pair", int64),  # next pair of that event
        ("is_derived", int64),  # 1: the changing edge is a pair of that event
        ("tuple_start", int64),  # cycle counter at the beginning of the current tuple; 0 not begun, or no relation reads it
        ("number_columns", int64),  # of `numbers`
        ("timed_tuples", int64),  # tuples for which `DerivedChanges.ticks` has the ticks taken before
    )


SLOTS = 96
"""Room for the variables and constants of a connected part, at most 33 + 32, and for a whole vector behind them."""


class RunRecord(Record):
    """A run of the output: rows of one query and one event."""

    _fields_ = (
        ("query", int64),
        ("order", int64),
        ("time", int64),
        ("sign", int64),
        ("values", int64),  # its first value
        ("rows", int64),
    )


RUN_QUERY, RUN_ORDER, RUN_TIME, RUN_SIGN, RUN_VALUES, RUN_ROWS = range(6)
"""The columns of `run_table`."""
RUN = 6


def run_table(runs: np.ndarray) -> np.ndarray:
    """Return runs as a table of integers over the same memory, with a column for each field."""
    return runs.view(np.int64).reshape(-1, RUN)


class OutputState(Record):
    """The sizes of the output."""

    _fields_ = (
        ("values", int64),
        ("value_room", int64),
        ("runs", int64),
        ("run_room", int64),
        ("overwritten_values", int64),  # values overwritten by others, because nobody reads them
        ("overwrite_limit", int64),  # the number of these from which the output counts as full
    )


class Relations(NamedTuple):
    """All relations of an engine."""

    lists: np.ndarray  # int64: vertex records, then the arena
    edge: np.ndarray  # Edge
    table: np.ndarray  # int64: hash << 32 | edge
    slots: np.ndarray  # int32: first edges of the timing wheels
    free: np.ndarray  # int64 a size class: first free region, chained through its first word; -1 none
    relation: np.ndarray  # Relation
    window: np.ndarray  # Window
    reader_first: np.ndarray  # int32 a label + 1: the relations that its edges belong to, in `reader`
    reader: np.ndarray  # int32
    count_window_first: np.ndarray  # int32 a label + 1: the count windows that number its inserts, in `count_window`
    count_window: np.ndarray  # int32
    label_number: np.ndarray  # int32 a label: its number in relations of all labels; NO_LABEL where these do not read it
    support: np.ndarray  # Support
    support_link: np.ndarray  # int64: 2 * atom + end
    support_place: np.ndarray  # int32, `places` an edge: its place in support lists
    support_stack: np.ndarray  # SupportFrame
    state: RelationState


class Plans(NamedTuple):
    """All plans, and the state of the enumeration."""

    seed: np.ndarray  # Seed
    step: np.ndarray  # Step
    reach: np.ndarray  # Reach
    test: np.ndarray  # Test
    look: np.ndarray  # Look
    comparison: np.ndarray  # Comparison
    term: np.ndarray  # Term
    numbers: np.ndarray  # float64: those of edges that terms read, `number_columns` a vertex; NaN where there is none
    constant: np.ndarray  # ConstantSlot
    binding: np.ndarray  # int32[SLOTS]: the vertex a slot is bound to
    frame: np.ndarray  # Frame, one a step of the current seed
    latency: np.ndarray  # int64[LATENCY_BUCKETS]: tuples that some relation reads, by the ticks that they took
    conditions: Conditions  # shared by all plans
    state: PlanState
    deadline: np.ndarray  # int64[1]: the tick after which kernels return NEED_TIME


class FoundRows(NamedTuple):
    """Rows found so far: the values of a run's rows are adjacent, row by row."""

    values: np.ndarray  # int32; with room for a whole vector after the last value
    runs: np.ndarray  # Run
    state: OutputState


class DerivedChanges(NamedTuple):
    """Changes of derived relations in a chunk: ordered events, each of which adds edges to a relation or removes them."""

    order: np.ndarray  # int64 an event: 2 * tuple + 1, or 2 * tuple for a boundary before it
    time: np.ndarray  # int64
    sign: np.ndarray  # int8: 1 the edges enter, -1 they leave
    relation: np.ndarray  # int32
    first: np.ndarray  # int64: first of its edges, in `pairs`
    end: np.ndarray  # int64
    pairs: np.ndarray  # int64: source << 32 | target
    ticks: np.ndarray  # int64 a tuple: the ticks that it took in the indexes of paths


_NO_EVENTS = np.zeros(0, np.int64)
NO_CHANGES = DerivedChanges(
    order=_NO_EVENTS,
    time=_NO_EVENTS,
    sign=np.zeros(0, np.int8),
    relation=np.zeros(0, np.int32),
    first=_NO_EVENTS,
    end=_NO_EVENTS,
    pairs=_NO_EVENTS,
    ticks=_NO_EVENTS,
)
"""No change of any derived relation."""


class ChunkTuples(NamedTuple):
    """A chunk of the stream, in ids."""

    source: np.ndarray  # int32 vertex
    target: np.ndarray  # int32
    label: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8


class ConditionNode(Record):
    """A node; node 0 is the condition that always holds."""

    _fields_ = (
        ("first_parent", int32),  # first branch to it, chained through `next_parent`; 0 none
        ("part", int32),  # its branches, in `part`, if there are several
        ("part_end", int32),
        ("first_group", int32),  # first group of seeds that need it at the target, chained through `next`; 0 none
        ("first_record", int32),  # of the vertices at which it holds, chained through `next`; 0 none
        ("parents_read", int32),  # a bit for each relation and side of its parents (`parent_bit`), perhaps of removed ones
        ("groups_read", int32),  # a bit for each relation of its groups (`group_bit`), likewise
        ("mark", int32),  # mark of the last edge at whose source it holds
    )


class Branch(Record):
    """A branch; number 0 is not used."""

    _fields_ = (
        ("relation", int32),
        ("side", int32),  # 0: edges lead from the vertex of the parent to that of the child; 1: the other way
        ("child", int32),
        ("next_parent", int32),
        ("node", int32),  # the node that has this branch alone
        ("first_use", int32),  # first part of another node that is this branch, chained through `next_use`; 0 none
        ("uses", int32),  # number of these
    )


class NodePart(Record):
    """A part of a node of several branches; number 0 is not used."""

    _fields_ = (("branch", int32), ("node", int32), ("next_use", int32), ("previous_use", int32))


class NodeRecord(Record):
    """A record of a vertex at which a node holds; number 0 is not used."""

    _fields_ = (
        ("node", int32),
        ("vertex", int32),
        ("place", int32),  # of the node in `block`
        ("next", int32),  # of the same node
        ("previous", int32),
        ("neighbours", int32),  # at which the child of the node's branch holds, where the node has one branch
    )


class VertexNodes(Record):
    """The nodes that hold at a vertex."""

    _fields_ = (
        ("first_block", int32),  # 0 none
        ("count", int32),  # number of nodes
    )


class SeedGroup(Record):
    """A group of seeds, which read one relation and need one node at its targets; number 0 is not used."""

    _fields_ = (
        ("relation", int32),
        ("next", int32),
        ("first_entry", int32),  # chained through `next`
        ("entries", int32),  # number of these
        ("target", int32),  # the node
    )


class Entry(Record):
    """An entry of a group: seeds that also need one node at the source; number 0 is not used."""

    _fields_ = (
        ("node", int32),
        ("seed", int32),  # the first, chained through `next_alike`; -1 none
        ("next", int32),
        ("group", int32),
    )


class ConditionFrame(Record):
    """A frame of the walk that changes counts."""

    _fields_ = (
        ("vertex", int64),
        ("branch", int64),
        ("is_single", int64),  # 1: for this branch alone, not for those after it in the chain
        ("position", int64),  # -1: its list has not been opened
        ("end", int64),
    )


class ConditionState(Record):
    """The sizes of the arrays of conditions, and the state of a change."""

    _fields_ = (
        ("table_used", int64),  # full entries of `record_table`, including those of removed records
        ("table_room", int64),  # entries that may be full
        ("table_entries", int64),
        ("table_bits", int64),  # bits of an entry that contain the number of a record
        ("records", int64),  # records given out (high water), record 0 included
        ("record_room", int64),
        ("free_record", int64),  # first free record, chained through `next`
        ("depth", int64),
        ("stack_room", int64),
        ("pending", int64),  # branches whose counts the changing edge itself changes, in `pending`
        ("next_pending", int64),  # next of these
        ("pending_room", int64),
        ("is_increase", int64),  # 1: counts are increased; 0: decreased
        ("is_busy", int64),  # 1: a change has begun and has not finished
        ("entry_mask", int64),
        ("candidates", int64),  # seeds in `candidate`
        ("next_candidate", int64),
        ("has_candidates", int64),  # 1: the candidates are those of the changing edge
        ("fill_record", int64),  # progress of filling a new branch or node
        ("work", int64),  # counts changed so far
        ("is_enabled", int64),  # 1: seeds are found by the nodes that they need
        ("is_removal", int64),  # 1: the changing edge has been reported, and is being removed
        ("gone_source", int64),  # source of the edge that is being removed
        ("gone_target", int64),
        ("gone_relation", int64),
        ("groups", int64),  # groups given out (high water), group 0 included
        ("free_group", int64),  # first free group, chained through `next`
        ("entries", int64),  # entries given out
        ("free_entry", int64),
        ("entry_keys", int64),  # keys in `entries`
        ("blocks", int64),  # blocks given out (high water), block 0 included
        ("block_room", int64),
        ("free_block", int64),  # first free block, chained through its first number
        ("marked_edges", int64),  # number of edges for which nodes were marked
    )


# A block of nodes that hold at a vertex, in `block`, is as long as a cache line: thousands may be walked for an edge. Its
# first number is the next block, the others are nodes. There is no block 0. The first block of a vertex has the remainder,
# all others are full. A place in `block` that is a multiple of BLOCK is no node's.
BLOCK = 16
NODES_A_BLOCK = BLOCK - 1


@register_jitable
def parent_bit(relation: int, side: int) -> int:
    """Return the bit of a relation and a side in `parents_read`; others may have the same bit."""
    return 1 << (2 * relation + side) % 31


@register_jitable
def group_bit(relation: int) -> int:
    """Return the bit of a relation in `groups_read`; others may have the same bit."""
    return 1 << relation % 31


class Conditions(NamedTuple):
    """All conditions, where they hold, and which seeds need them."""

    node: np.ndarray  # Node
    branch: np.ndarray  # Branch
    part: np.ndarray  # NodePart
    record_table: np.ndarray  # uint32: table of the records by node and vertex (`tagged_hashing.py`)
    record: np.ndarray  # NodeRecord
    vertex: np.ndarray  # VertexNodes
    block: np.ndarray  # int32, BLOCK a block
    stack: np.ndarray  # ConditionFrame
    pending: np.ndarray  # int64: branch << 32 | vertex
    group: np.ndarray  # Group
    entry: np.ndarray  # Entry
    entries: np.ndarray  # int64: group << 32 | node, and the entry
    open_group: np.ndarray  # int32 a relation: its group of seeds that need nothing at the target; 0 none
    candidate: np.ndarray  # int32: seeds
    state: ConditionState
