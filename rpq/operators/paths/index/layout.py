"""The memory layout of the Δ index.

Observation 1: only the expiry slide of a node matters, not its timestamp, because all edges of one slide leave the window
together. Observation 2: trees that contain the same node do the same work. So the spanning trees of Pacaci et al. (2020,
section 3) are stored by node in place of by root, as a table: row = product node (v, t), column = root, cell = the expiry
slide up to which the root reaches the node. An edge (u, l, v) with δ(s, l) = t is one row operation:

    row(v, t) = max(row(v, t), min(row(u, s), slide(edge)))

and the cells that grew are pushed along the out-edges of v, until nothing changes.

* **Cells** are bytes (wider where the window has more than 248 slides), relative to `state.base`, an absolute slide that
  advances from time to time (`_rebase` of `expiry.py`). A cell at or below `state.now` is dead, which is the same as absent:
  crossing a slide boundary costs one addition. A sweep every few slides releases the blocks without a live cell.
* **Columns** are slots: a vertex gets the lowest free slot when an edge makes it a root, and returns it when none of its
  first edges is in the window. A slot is 64 * block number + lane. `columns.py` assigns others if rows then have far fewer
  blocks.
* **Rows** are cut into blocks of 64 columns. A row that holds more than a third of all block numbers is
  *dense*: its blocks lie side by side in one region, block number i at `base + i`, and a lookup is an addition.
  Any other row stores only its blocks that are not empty, listed in its directory as sorted entries
  `block number << 32 | block`. So a row with one root costs one block and eight bytes of directory, a row with most
  of them no directory at all, and no row more than three times the memory of a list. Block 0 is never assigned.
* **The start state** has no incoming transitions (`program.py` ensures that), so the root's own node needs no row: an edge
  out of s0 sets one cell.
* **Supports** are maintained from the first delete on; until then, `hops` is empty (`delete.py`).
* **Queue**: a row has a word of pending bits, one for the block numbers that are equal modulo 64. Rows with pending blocks
  wait in 256 buckets by the largest slide that may be pending. The row with the largest slide is pushed first, which saves a
  quarter of the steps of first-in-first-out.

Vertices and edges are the ids of the engine's snapshot graph. The index has its own adjacency lists, by
(vertex, column of the automaton), and its own expiry slide for every edge, so several queries with
different windows, and several partitions of the roots of one, can share a snapshot graph.

Kernels take a view of the index (`views.py`), in which every array is a pointer. They never allocate. If an array is full, a
kernel returns a `NEED_…` code and leaves everything consistent; Python enlarges the array and calls the kernel again, which
resumes. `docs/kernels.md` explains how kernels are read and written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.arrays.lists import Lists, lists_bytes, lists_with_room, new_lists, with_count
from rpq.compiled.cycle_counter import LATENCY_BUCKETS, new_deadline
from rpq.compiled.growth import request
from rpq.compiled.views import Record, int64
from rpq.operators.paths.program import Program

# Codes that a kernel returns: it is done, or what Python must do before the next call.
DONE = 0
NEED_LINKS = 1
NEED_ROWS = 2
NEED_BLOCKS = 3
NEED_DIRECTORY = 4
NEED_OUTPUT = 5
NEED_SUPPORTS = 6
NEED_PATHS = 7
NEED_JUDGE = 8  # simple paths: the tuple may change an answer in doubt
NEED_CROSSING = 9  # simple paths: a boundary may change an answer in doubt
NEED_TIME = 10  # the deadline has passed


class IndexState(Record):
    """The progress of the index, counts, and the lengths of the arrays."""

    _fields_ = (
        ("base", int64),  # absolute slide of cell value 0
        ("now", int64),  # current slide, relative to `base`
        ("next_boundary", int64),  # stream time at which the next slide begins
        ("tuple", int64),  # next tuple of the chunk
        ("phase", int64),  # the phase of that tuple
        ("slots", int64),  # slots assigned so far (high water mark)
        ("free_slot", int64),  # the next free slot + 1, 0 for none; `IndexTable.slot_vertex` leads to the others
        ("rows", int64),
        ("free_rows", int64),
        ("blocks", int64),
        ("top_bucket", int64),  # highest bucket that may hold a row, -1 none
        ("out", int64),  # rows in the output buffer
        ("events", int64),  # events in the output buffer
        ("depleted", int64),  # entries of `Queue.depleted_blocks`
        ("to_search", int64),  # entries of `Queue.to_search`
        ("last_sweep", int64),  # absolute slide of the last sweep
        ("tuple_start", int64),  # cycle counter when the current tuple began
        ("edge_slide", int64),  # INSERTING: the relative expiry slide of the current edge
        ("next_lost", int64),  # LOSING: the entry of `Queue.depleted_blocks` to report next
        ("next_path", int64),  # WITNESSING: the row of the output that gets its path next
        ("paths", int64),  # entries in the path buffer
        ("added", int64),
        ("removed", int64),
        ("outcomes", int64 * 7),  # the number of tuples with each outcome (`rpq.stream.edges.outcomes`), in seven fields
        ("time", int64),  # stream time, if `has_time`
        ("has_time", int64),  # 0 before the first tuple
        ("quiet", int64),  # 1: do not report answers (a rebuild)
        ("event_out", int64),  # rows in the output buffer when the current event began
        ("steps", int64),  # block steps so far
        ("vertices", int64),  # the capacities of the arrays
        ("edges", int64),
        ("row_capacity", int64),
        ("block_capacity", int64),
        ("out_capacity", int64),
        ("event_capacity", int64),
        ("path_capacity", int64),
        ("path_end_capacity", int64),
        ("supports", int64),  # 1: hop counts and in-edges are maintained
        ("conflicted", int64),  # simple paths: roots in `IndexTable.conflicted_roots`
        ("conflicts", int64),  # simple paths: how often a root was added to them
        ("is_new_edge", int64),  # 1: the current insert brought an edge that was not in the window
        ("last_sweep_inserts", int64),  # the number of inserts at the last sweep
        ("statics", int64),  # 1: there are static edges, and `Graph.window_expiry`
        ("timed_tuples", int64),  # the number of tuples of a chunk whose ticks are added to `Index.ticks`
        ("backward", int64),  # 1: in-edges are maintained
        ("next_slide", int64),  # NEED_CROSSING: the absolute slide to advance to
        ("next_order", int64),  # NEED_CROSSING: the place of its events in the chunk
        ("clock", int64),  # what moves the window, if the time does not: the number of the last insert, or always 0
        ("numbered", int64),  # tuples of the chunk that were numbered
        ("was_inside", int64),  # 1: the window held the edge of the current insert before this moved the window
    )


class IndexSettings(Record):
    """The window and the kind of paths."""

    _fields_ = (
        ("size", int64),
        ("slide", int64),  # the time, or number of inserts, for which a unit of cells stands
        ("step", int64),  # these units between two boundaries: 1 unless cells tell times
        ("range", int64),  # largest expiry slide of an edge, relative to the current slide
        ("ceiling", int64),  # largest value of a cell that expires; the next one, of static edges, never expires
        ("rank_shift", int64),  # cell value to bucket
        ("explicit", int64),
        ("sweep_every", int64),  # slides
        ("witness", int64),
        ("simple", int64),  # 1: no walk continues from its root, or ends there unless the program has a closing state
        ("judged", int64),  # simple paths, and the automaton has states in conflict
        ("unlisted", int64),  # 1: edges are in no adjacency lists, and the index has a sweep of its own
        ("moved_by", int64),  # what moves the window
        ("marks", int64),  # 1: `IndexTable.hops` marks the state with which a pair was reported (`ordered/layers.py`)
    )


# Values of `IndexSettings.moved_by`.
BY_TIME = 0
BY_INSERTS = 1  # a count window
BY_NOTHING = 2  # an unbounded window


# Values of `IndexState.phase`: the next step for the current tuple.
IDLE = 0  # nothing
INSERTING = 1  # raise the cells to which the edge leads
REFILLING = 2  # push the cells that were filled after a delete
LOSING = 3  # report the pairs that the delete removed
WITNESSING = 4  # write a path for each new row
JUDGING = 5  # simple paths: judge the pairs in doubt

# Masks of packed integers.
POINTER = (1 << 31) - 1  # the edge of a link shifted by one, the block of a directory entry
STATE_BITS = (1 << 16) - 1  # the state of a node
LOW_HALF = (1 << 32) - 1  # the second of two numbers
REGION_CLASSES = 60
BUCKETS = 256


class Graph(NamedTuple):
    """The part of the snapshot graph that this index walks."""

    expiry: np.ndarray  # cell type an edge: its expiry slide, 0 once deleted, `ceiling` + 1 if it is static
    window_expiry: np.ndarray  # cell type an edge: the expiry slide in the window if it is also static; length 0 if none is
    is_linked: np.ndarray  # uint8 an edge: 1 while adjacency lists name it
    out: Lists  # vertex * classes + class -> target << 32 | edge << 1 | against
    into: Lists  # the same from the target; empty until supports are maintained, or the index of bits gets a delete


class IndexTable(NamedTuple):
    """The rows, blocks and slots of the table."""

    values: np.ndarray  # cell type, 64 a block
    hops: np.ndarray  # uint8, 64 a block; length 0 until supports are maintained; of lengths: the reported cells, or marks
    suspect: np.ndarray  # uint64 a block: suspect cells; length 0 likewise
    removed_cells: np.ndarray  # uint64 a block: cells that the current delete took out; length 0 likewise
    doubt: np.ndarray  # uint64 a block: cells in doubt (see `conflicts.py`); length 0 where nothing is judged
    new_doubt: np.ndarray  # uint64 a block: accepting cells that the current insert put in doubt; length 0 likewise
    row_of: np.ndarray  # int32 vertex * states + state -> row or -1
    node: np.ndarray  # int64 a row: vertex << 16 | state, -1 free
    low: np.ndarray  # int64 a row: no live cell is below
    pending: np.ndarray  # uint64 a row: bit i for the block numbers equal to i modulo 64
    base: np.ndarray  # int64 a row: first block of its region, if it is dense
    span: np.ndarray  # int32 a row: blocks in its region, 0 if it is not dense
    directory: Lists  # row -> its blocks, if it is not dense
    slot_of: np.ndarray  # int32 a vertex, -1 none
    slot_vertex: np.ndarray  # int32 a slot: its vertex, or for a free slot -1 - (the next free slot + 1), with 0 for none
    is_root: np.ndarray  # uint8 a vertex: may be a root (source restriction, partition)
    is_target: np.ndarray  # uint8 a vertex: answers may end here
    free_rows: np.ndarray  # int32, stack
    free_regions: np.ndarray  # int32 a region class: first free region, chained through `chain`
    chain: np.ndarray  # int32 a block: next free region of the same class, -1 none
    conflicted_roots: np.ndarray  # uint64 a block number: roots that have met a conflict (see `rpq/operators/paths/simple`)
    suspended_roots: np.ndarray  # uint64 a block number: those of them that are set aside, and have no answers
    blocked_roots: np.ndarray  # uint64 a block number: those that have pairs in doubt without a simple path


class Queue(NamedTuple):
    """Rows with pending blocks, and scratch memory for the blocks of the row that is being pushed."""

    head: np.ndarray  # int32 a bucket: first row or -1
    next: np.ndarray  # int32 a row
    previous: np.ndarray  # int32 a row: -1 - bucket for the first
    rank: np.ndarray  # int16 a row: its bucket, -1 not queued
    number: np.ndarray  # int64 a block number: scratch
    block: np.ndarray  # int64 a block number: scratch
    suspects: np.ndarray  # int64 a block: stack of row << 32 | block number with suspect cells
    depleted_blocks: np.ndarray  # int64 a block: row << 32 | block number with cells in `IndexTable.removed_cells`
    to_search: np.ndarray  # int64 a block: row << 32 | block number with cells in `IndexTable.new_doubt`


class PairChanges(NamedTuple):
    """The changes of answers, in the order in which they are found."""

    pairs: np.ndarray  # int64: source vertex << 32 | target vertex
    event_time: np.ndarray  # int64 an event
    event_end: np.ndarray  # int64 an event: rows up to here
    event_kind: np.ndarray  # int8 an event: 1 added, -1 removed
    event_tuple: np.ndarray  # int64 an event: 2 * number of the tuple in the chunk + 1; a boundary before it: 2 * number
    paths: np.ndarray  # int64: steps of witnesses, edge << 1 | against, last step first
    path_end: np.ndarray  # int64 a row (only with witnesses): its path ends here


class Index(NamedTuple):
    """All arrays that the kernels of the index need."""

    program: Program
    graph: Graph
    table: IndexTable
    queue: Queue
    output: PairChanges
    numbered: np.ndarray  # uint8 a label: 1 if a count window numbers inserts with it
    state: IndexState
    settings: IndexSettings
    latency: np.ndarray  # int64[LATENCY_BUCKETS]: tuples by cycles
    ticks: np.ndarray  # int64 a tuple of a chunk: the ticks that it took so far, to which the index adds its own
    deadline: np.ndarray  # int64[1]: the tick after which kernels return NEED_TIME, shared by the whole engine


def block_numbers(vertices: int) -> int:
    """Return the number of block numbers that a row may have. A dense row has room for up to one and a half times as
    many."""
    return 3 * (vertices // 64 + 1) // 2 + 1


# --- the arrays made empty, made longer, emptied again ------------------------------------------------------
#
# Every function takes an `Index` and returns the one that replaces it, which shares the arrays that do not change.

_NEVER = np.iinfo(np.int64).max


def new_index(program: Program, settings: IndexSettings, cell: np.dtype, *, supports: bool, capacity: int) -> Index:
    """Return an empty index with room for `capacity` rows and blocks, and with `supports` also for hop counts and
    in-edges."""
    witness, judged = bool(settings.witness), bool(settings.judged)
    state = IndexState()
    state.top_bucket = -1
    state.blocks = 1  # block 0 represents no block
    state.next_boundary = _NEVER
    return Index(
        program=program,
        graph=Graph(
            expiry=np.zeros(0, cell),
            window_expiry=np.zeros(0, cell),
            is_linked=np.zeros(0, np.uint8),
            out=new_lists(0, capacity),
            into=new_lists(0, capacity if supports else 0),
        ),
        table=IndexTable(
            values=_aligned_cells(capacity * LANES, cell),
            hops=_aligned_cells(capacity * LANES if supports else 0, np.dtype(np.uint8)),
            suspect=np.zeros(capacity if supports else 0, np.uint64),
            removed_cells=np.zeros(capacity if supports else 0, np.uint64),
            doubt=np.zeros(capacity if judged else 0, np.uint64),
            new_doubt=np.zeros(capacity if judged else 0, np.uint64),
            row_of=np.zeros(0, np.int32),
            node=np.full(capacity, -1, np.int64),
            low=np.full(capacity, _NEVER, np.int64),
            pending=np.zeros(capacity, np.uint64),
            base=np.zeros(capacity, np.int64),
            span=np.zeros(capacity, np.int32),
            directory=new_lists(capacity, capacity),
            slot_of=np.zeros(0, np.int32),
            slot_vertex=np.zeros(0, np.int32),
            is_root=np.zeros(0, np.uint8),
            is_target=np.zeros(0, np.uint8),
            free_rows=np.zeros(capacity, np.int32),
            free_regions=np.full(REGION_CLASSES, -1, np.int32),
            chain=np.zeros(capacity, np.int32),
            conflicted_roots=np.zeros(1, np.uint64),
            suspended_roots=np.zeros(1, np.uint64),
            blocked_roots=np.zeros(1, np.uint64),
        ),
        queue=Queue(
            head=np.full(BUCKETS, -1, np.int32),
            next=np.zeros(capacity, np.int32),
            previous=np.zeros(capacity, np.int32),
            rank=np.full(capacity, -1, np.int16),
            number=np.zeros(2, np.int64),
            block=np.zeros(2, np.int64),
            suspects=np.zeros(capacity if supports else 0, np.int64),
            depleted_blocks=np.zeros(capacity if supports else 0, np.int64),
            to_search=np.zeros(capacity if judged else 0, np.int64),
        ),
        output=PairChanges(
            pairs=np.zeros(max(2 * LANES, capacity), np.int64),
            event_time=np.zeros(capacity, np.int64),
            event_end=np.zeros(capacity, np.int64),
            event_kind=np.zeros(capacity, np.int8),
            event_tuple=np.zeros(capacity, np.int64),
            paths=np.zeros(capacity if witness else 0, np.int64),
            path_end=np.zeros(max(2 * LANES, capacity) if witness else 0, np.int64),
        ),
        numbered=np.zeros(0, np.uint8),
        state=state,
        settings=settings,
        latency=np.zeros(LATENCY_BUCKETS, np.int64),
        ticks=np.zeros(0, np.int64),
        deadline=new_deadline(),
    )


def index_bytes(index: Index) -> int:
    """Return the number of bytes held."""
    parts = (*index.table, *index.graph, *index.queue, *index.output)
    return sum(lists_bytes(part) if isinstance(part, Lists) else part.nbytes for part in parts)


def note_capacities(index: Index) -> None:
    """Store the lengths of the arrays for kernels, which see only pointers."""
    state = index.state
    state.vertices = len(index.table.slot_of)
    state.edges = len(index.graph.expiry)
    state.row_capacity = len(index.table.node)
    state.block_capacity = len(index.table.values) // LANES
    state.out_capacity = len(index.output.pairs)
    state.event_capacity = len(index.output.event_time)
    state.path_capacity = len(index.output.paths)
    state.path_end_capacity = len(index.output.path_end)
    state.supports = len(index.table.hops) > 0
    state.backward = len(index.graph.into.entries) > 0
    state.statics = len(index.graph.window_expiry) > 0


def with_room(index: Index, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> Index:
    """Return an index with room for vertex and edge ids up to these numbers; the same object if it has room."""
    graph, table, queue = index.graph, index.table, index.queue
    classes, states = index.program.sizes.classes, index.program.sizes.states
    fit = vertices <= len(table.slot_of) and edges <= len(graph.expiry)
    if fit and is_root is table.is_root and is_target is table.is_target:
        return index
    if edges > len(graph.expiry):
        more = edges - len(graph.expiry)
        graph = graph._replace(
            expiry=lengthen(graph.expiry, more),
            window_expiry=lengthen(graph.window_expiry, more if len(graph.window_expiry) else 0),
            is_linked=lengthen(graph.is_linked, more),
        )
    if vertices > len(table.slot_of):
        more = vertices - len(table.slot_of)
        into = with_count(graph.into, vertices * classes) if len(graph.into.entries) else graph.into
        graph = graph._replace(out=with_count(graph.out, vertices * classes), into=into)
        numbers = block_numbers(vertices)
        table = table._replace(
            row_of=lengthen(table.row_of, more * states, -1),
            slot_of=lengthen(table.slot_of, more, -1),
            slot_vertex=lengthen(table.slot_vertex, more, -1),
            conflicted_roots=lengthen(table.conflicted_roots, numbers - len(table.conflicted_roots)),
            suspended_roots=lengthen(table.suspended_roots, numbers - len(table.suspended_roots)),
            blocked_roots=lengthen(table.blocked_roots, numbers - len(table.blocked_roots)),
        )
        queue = queue._replace(number=np.zeros(numbers, np.int64), block=np.zeros(numbers, np.int64))
    table = table._replace(is_root=is_root, is_target=is_target)
    return index._replace(graph=graph, table=table, queue=queue)


def without_cells(index: Index, edges: int) -> Index:
    """Return an index that reuses the memory, without edges and trees, but with supports and room for `edges` edges in its
    lists."""
    graph, table, state = index.graph, index.table, index.state
    state.slots = state.free_slot = state.rows = state.free_rows = 0
    state.blocks = 1
    blocks = len(table.values) // LANES
    room = max(16, 2 * edges)
    return index._replace(
        graph=Graph(
            expiry=np.zeros_like(graph.expiry),
            window_expiry=graph.window_expiry,
            is_linked=np.zeros_like(graph.is_linked),
            out=new_lists(len(graph.out.start), room),
            into=new_lists(len(graph.out.start), room),
        ),
        table=table._replace(
            hops=_aligned_cells(blocks * LANES, np.dtype(np.uint8)),
            suspect=np.zeros(blocks, np.uint64),
            removed_cells=np.zeros(blocks, np.uint64),
            row_of=np.full_like(table.row_of, -1),
            node=np.full_like(table.node, -1),
            directory=new_lists(len(table.node), len(table.directory.entries)),
            pending=np.zeros_like(table.pending),
            span=np.zeros_like(table.span),
            free_regions=np.full_like(table.free_regions, -1),
            slot_of=np.full_like(table.slot_of, -1),
            slot_vertex=np.full_like(table.slot_vertex, -1),
        ),
        queue=index.queue._replace(suspects=np.zeros(blocks, np.int64), depleted_blocks=np.zeros(blocks, np.int64)),
    )


def with_in_edges(index: Index, room: int) -> Index:
    """Return an index with empty lists of in-edges that have room for this number of entries."""
    return index._replace(graph=index.graph._replace(into=new_lists(len(index.graph.out.start), room)))


def without_rows(index: Index, capacity: int, *, supports: bool = False) -> Index:
    """Return an index with the same edges and slots, but without rows, and with room for `capacity` rows, with `supports`
    also for hop counts."""
    state = index.state
    empty = new_index(index.program, index.settings, index.table.values.dtype, supports=supports, capacity=capacity)
    state.rows = state.free_rows = 0
    state.blocks = 1
    of_vertices = ("slot_of", "slot_vertex", "is_root", "is_target", "conflicted_roots", "suspended_roots", "blocked_roots")
    shared = {name: getattr(index.table, name) for name in of_vertices}
    row_of = np.full_like(index.table.row_of, -1)
    return index._replace(
        table=empty.table._replace(row_of=row_of, **shared),
        queue=empty.queue._replace(number=index.queue.number, block=index.queue.block),
    )


def with_more_memory(index: Index, code: int) -> Index:
    """Return the index with half as much again of the memory that a kernel lacked when it returned `code`, a `NEED_`…."""
    if code == NEED_LINKS:
        return _with_links(index)
    if code == NEED_ROWS:
        return _with_rows(index)
    if code == NEED_BLOCKS:
        return _with_blocks(index)
    if code == NEED_DIRECTORY:
        numbers = 2 * (int(index.state.slots) // LANES + 1)
        return index._replace(table=index.table._replace(directory=lists_with_room(index.table.directory, 64 + 2 * numbers)))
    if code == NEED_OUTPUT:
        return _with_output(index)
    if code == NEED_PATHS:
        return _with_paths(index)
    raise AssertionError(f"a kernel returned {code}")


def _with_links(index: Index) -> Index:
    graph = index.graph
    room = max(64, 4 * int(max(graph.out.length.max(), graph.into.length.max(initial=0))))
    into = lists_with_room(graph.into, room) if len(graph.into.entries) else graph.into
    return index._replace(graph=graph._replace(out=lists_with_room(graph.out, room), into=into))


def _with_rows(index: Index) -> Index:
    table, queue = index.table, index.queue
    more = max(16, len(table.node) // 2)
    return index._replace(
        table=table._replace(
            node=lengthen(table.node, more, -1),
            low=lengthen(table.low, more, _NEVER),
            directory=with_count(table.directory, len(table.node) + more),
            pending=lengthen(table.pending, more),
            base=lengthen(table.base, more),
            span=lengthen(table.span, more),
            free_rows=lengthen(table.free_rows, more),
        ),
        queue=queue._replace(
            next=lengthen(queue.next, more, -1),
            previous=lengthen(queue.previous, more, -1),
            rank=lengthen(queue.rank, more, -1),
        ),
    )


def _with_blocks(index: Index) -> Index:
    table, queue = index.table, index.queue
    blocks = len(table.values) // LANES
    # Enough for the largest region, of one and a half times all block numbers, that a row may ask for.
    more = max(16, blocks // 2, 2 * (int(index.state.slots) // LANES + 1))
    with_supports = more if len(table.hops) else 0
    with_doubt = more if index.settings.judged else 0
    hops = table.hops
    if with_supports:
        hops = _aligned_cells((blocks + more) * LANES, hops.dtype, hops)
    return index._replace(
        table=table._replace(
            values=_aligned_cells((blocks + more) * LANES, table.values.dtype, table.values),
            hops=hops,
            suspect=lengthen(table.suspect, with_supports),
            removed_cells=lengthen(table.removed_cells, with_supports),
            doubt=lengthen(table.doubt, with_doubt),
            new_doubt=lengthen(table.new_doubt, with_doubt),
            chain=lengthen(table.chain, more, -1),
        ),
        queue=queue._replace(
            suspects=lengthen(queue.suspects, with_supports),
            depleted_blocks=lengthen(queue.depleted_blocks, with_supports),
            to_search=lengthen(queue.to_search, with_doubt),
        ),
    )


def _with_output(index: Index) -> Index:
    output = index.output
    rows, events = len(output.pairs), len(output.event_time)
    paths = rows if len(output.path_end) else 0
    return index._replace(
        output=output._replace(
            pairs=lengthen(output.pairs, rows // 2 + LANES),
            event_time=lengthen(output.event_time, events // 2 + 16),
            event_end=lengthen(output.event_end, events // 2 + 16),
            event_kind=lengthen(output.event_kind, events // 2 + 16),
            event_tuple=lengthen(output.event_tuple, events // 2 + 16),
            path_end=lengthen(output.path_end, paths // 2 + LANES if paths else 0),
        )
    )


def _with_paths(index: Index) -> Index:
    output = index.output
    return index._replace(
        output=output._replace(
            paths=lengthen(output.paths, max(256, len(output.paths))),
            path_end=lengthen(output.path_end, max(0, len(output.pairs) - len(output.path_end))),
        )
    )


def _aligned_cells(count: int, dtype: np.dtype, content: np.ndarray | None = None) -> np.ndarray:
    """Return `count` cells that start at a cache line, so that a block of bytes is one cache line. Cells beyond the content
    are uninitialised."""
    request(count * dtype.itemsize)
    raw = np.empty(count * dtype.itemsize + LANES, np.uint8)
    offset = -raw.ctypes.data % LANES
    array = raw[offset : offset + count * dtype.itemsize].view(dtype)
    if content is not None:
        array[: len(content)] = content
    return array
