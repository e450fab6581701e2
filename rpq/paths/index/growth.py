"""The arrays of a Δ index: made empty, made longer, emptied again. What they hold is explained in `layout.py`.

Every function takes an `Index` and returns the one that replaces it; arrays that need no change are shared.
"""

from __future__ import annotations

import numpy as np

from rpq.arrays.lanes import LANES
from rpq.arrays.lists import Lists, grown, lists_bytes, new_lists, with_count
from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.paths.index import layout
from rpq.paths.index.layout import Graph, Index, Output, Queue, Table
from rpq.paths.program import CLASSES, STATES, Program

_NEVER = np.iinfo(np.int64).max


def new_index(program: Program, settings: np.ndarray, cell: np.dtype, *, supports: bool, capacity: int) -> Index:
    """An index without vertices and edges, with `capacity` rows and blocks; `supports` keeps hop counts and in-edges."""
    witness, judged = bool(settings[layout.WITNESS]), bool(settings[layout.JUDGED])
    state = np.zeros(layout.STATE_FIELDS, np.int64)
    state[layout.QUEUED] = -1
    state[layout.BLOCKS] = 1  # block 0 means none
    state[layout.NEXT_BOUNDARY] = _NEVER
    return Index(
        program=program,
        graph=Graph(
            expiry=np.zeros(0, cell),
            within=np.zeros(0, cell),
            linked=np.zeros(0, np.uint8),
            out=new_lists(0, capacity),
            into=new_lists(0, capacity if supports else 0),
        ),
        table=Table(
            values=_aligned(capacity * LANES, cell),
            hops=_aligned(capacity * LANES if supports else 0, np.dtype(np.uint8)),
            suspect=np.zeros(capacity if supports else 0, np.uint64),
            taken_out=np.zeros(capacity if supports else 0, np.uint64),
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
            free_regions=np.full(layout.REGION_CLASSES, -1, np.int32),
            chain=np.zeros(capacity, np.int32),
            free_slots=np.zeros(0, np.int32),
            conflicted=np.zeros(1, np.uint64),
            suspended=np.zeros(1, np.uint64),
            blocked=np.zeros(1, np.uint64),
        ),
        queue=Queue(
            head=np.full(layout.BUCKETS, -1, np.int32),
            next=np.zeros(capacity, np.int32),
            previous=np.zeros(capacity, np.int32),
            rank=np.full(capacity, -1, np.int16),
            number=np.zeros(2, np.int64),
            block=np.zeros(2, np.int64),
            suspects=np.zeros(capacity if supports else 0, np.int64),
            depleted=np.zeros(capacity if supports else 0, np.int64),
            to_search=np.zeros(capacity if judged else 0, np.int64),
        ),
        output=Output(
            pairs=np.zeros(max(2 * LANES, capacity), np.int64),
            event_time=np.zeros(capacity, np.int64),
            event_end=np.zeros(capacity, np.int64),
            event_kind=np.zeros(capacity, np.int8),
            event_tuple=np.zeros(capacity, np.int64),
            paths=np.zeros(capacity if witness else 0, np.int64),
            path_end=np.zeros(max(2 * LANES, capacity) if witness else 0, np.int64),
        ),
        state=state,
        settings=settings,
        latency=np.zeros(LATENCY_BUCKETS, np.int64),
        spent=np.zeros(0, np.int64),
    )


def index_bytes(index: Index) -> int:
    """Bytes held."""
    parts = (*index.table, *index.graph, *index.queue, *index.output)
    return sum(lists_bytes(part) if isinstance(part, Lists) else part.nbytes for part in parts)


def note_capacities(index: Index) -> None:
    """Tell the kernels, which see pointers, how long the arrays are."""
    state = index.state
    state[layout.VERTICES] = len(index.table.slot_of)
    state[layout.EDGES] = len(index.graph.expiry)
    state[layout.ROW_CAPACITY] = len(index.table.node)
    state[layout.BLOCK_CAPACITY] = len(index.table.values) // LANES
    state[layout.OUT_CAPACITY] = len(index.output.pairs)
    state[layout.EVENT_CAPACITY] = len(index.output.event_time)
    state[layout.PATH_CAPACITY] = len(index.output.paths)
    state[layout.PATH_END_CAPACITY] = len(index.output.path_end)
    state[layout.SUPPORTS] = len(index.table.hops) > 0
    state[layout.STATICS] = len(index.graph.within) > 0


def with_room(index: Index, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> Index:
    """Vertex and edge ids up to these numbers may be used; the same object where they could be before."""
    graph, table, queue = index.graph, index.table, index.queue
    classes, states = (int(index.program.sizes[field]) for field in (CLASSES, STATES))
    fit = vertices <= len(table.slot_of) and edges <= len(graph.expiry)
    if fit and is_root is table.is_root and is_target is table.is_target:
        return index
    if edges > len(graph.expiry):
        more = edges - len(graph.expiry)
        within = _longer(graph.within, more if len(graph.within) else 0, 0)
        graph = graph._replace(expiry=_longer(graph.expiry, more, 0), within=within, linked=_longer(graph.linked, more, 0))
    if vertices > len(table.slot_of):
        more = vertices - len(table.slot_of)
        graph = graph._replace(
            out=with_count(graph.out, vertices * classes), into=with_count(graph.into, vertices * classes)
        )
        numbers = layout.block_numbers(vertices)
        table = table._replace(
            row_of=_longer(table.row_of, more * states, -1),
            slot_of=_longer(table.slot_of, more, -1),
            slot_vertex=_longer(table.slot_vertex, more, -1),
            conflicted=_longer(table.conflicted, numbers - len(table.conflicted), 0),
            suspended=_longer(table.suspended, numbers - len(table.suspended), 0),
            blocked=_longer(table.blocked, numbers - len(table.blocked), 0),
            free_slots=_longer(table.free_slots, more, -1),
        )
        queue = queue._replace(number=np.zeros(numbers, np.int64), block=np.zeros(numbers, np.int64))
    table = table._replace(is_root=is_root, is_target=is_target)
    return index._replace(graph=graph, table=table, queue=queue)


def without_cells(index: Index, edges: int) -> Index:
    """The same memory without edges and trees, and with supports; its lists have room for so many edges."""
    graph, table, state = index.graph, index.table, index.state
    for field in (layout.SLOTS, layout.FREE_SLOTS, layout.ROWS, layout.FREE_ROWS):
        state[field] = 0
    state[layout.BLOCKS] = 1
    blocks = len(table.values) // LANES
    room = max(16, 2 * edges)
    return index._replace(
        graph=Graph(
            expiry=np.zeros_like(graph.expiry),
            within=graph.within,
            linked=np.zeros_like(graph.linked),
            out=new_lists(len(graph.out.start), room),
            into=new_lists(len(graph.into.start), room),
        ),
        table=table._replace(
            hops=_aligned(blocks * LANES, np.dtype(np.uint8)),
            suspect=np.zeros(blocks, np.uint64),
            taken_out=np.zeros(blocks, np.uint64),
            row_of=np.full_like(table.row_of, -1),
            node=np.full_like(table.node, -1),
            directory=new_lists(len(table.node), len(table.directory.entries)),
            pending=np.zeros_like(table.pending),
            span=np.zeros_like(table.span),
            free_regions=np.full_like(table.free_regions, -1),
            slot_of=np.full_like(table.slot_of, -1),
            slot_vertex=np.full_like(table.slot_vertex, -1),
        ),
        queue=index.queue._replace(suspects=np.zeros(blocks, np.int64), depleted=np.zeros(blocks, np.int64)),
    )


def with_more(index: Index, code: int) -> Index:
    """The index with half as much again of what a kernel was missing when it returned `code`, a `layout.NEED_`…."""
    if code == layout.NEED_LINKS:
        return _with_links(index)
    if code == layout.NEED_ROWS:
        return _with_rows(index)
    if code == layout.NEED_BLOCKS:
        return _with_blocks(index)
    if code == layout.NEED_DIRECTORY:
        numbers = 2 * (int(index.state[layout.SLOTS]) // LANES + 1)
        return index._replace(table=index.table._replace(directory=grown(index.table.directory, 64 + 2 * numbers)))
    if code == layout.NEED_OUTPUT:
        return _with_output(index)
    if code == layout.NEED_PATHS:
        return _with_paths(index)
    raise AssertionError(f"a kernel returned {code}")


def _with_links(index: Index) -> Index:
    graph = index.graph
    room = max(64, 4 * int(max(graph.out.length.max(), graph.into.length.max(initial=0))))
    into = grown(graph.into, room) if len(graph.into.entries) else graph.into
    return index._replace(graph=graph._replace(out=grown(graph.out, room), into=into))


def _with_rows(index: Index) -> Index:
    table, queue = index.table, index.queue
    more = max(16, len(table.node) // 2)
    return index._replace(
        table=table._replace(
            node=_longer(table.node, more, -1),
            low=_longer(table.low, more, _NEVER),
            directory=with_count(table.directory, len(table.node) + more),
            pending=_longer(table.pending, more, 0),
            base=_longer(table.base, more, 0),
            span=_longer(table.span, more, 0),
            free_rows=_longer(table.free_rows, more, 0),
        ),
        queue=queue._replace(
            next=_longer(queue.next, more, -1),
            previous=_longer(queue.previous, more, -1),
            rank=_longer(queue.rank, more, -1),
        ),
    )


def _with_blocks(index: Index) -> Index:
    table, queue = index.table, index.queue
    held = len(table.values) // LANES
    # Enough for the largest region, of one and a half times all block numbers, that a row may ask for.
    more = max(16, held // 2, 2 * (int(index.state[layout.SLOTS]) // LANES + 1))
    with_supports = more if len(table.hops) else 0
    with_doubt = more if index.settings[layout.JUDGED] else 0
    hops = table.hops
    if with_supports:
        hops = _aligned((held + more) * LANES, hops.dtype, hops)
    return index._replace(
        table=table._replace(
            values=_aligned((held + more) * LANES, table.values.dtype, table.values),
            hops=hops,
            suspect=_longer(table.suspect, with_supports, 0),
            taken_out=_longer(table.taken_out, with_supports, 0),
            doubt=_longer(table.doubt, with_doubt, 0),
            new_doubt=_longer(table.new_doubt, with_doubt, 0),
            chain=_longer(table.chain, more, -1),
        ),
        queue=queue._replace(
            suspects=_longer(queue.suspects, with_supports, 0),
            depleted=_longer(queue.depleted, with_supports, 0),
            to_search=_longer(queue.to_search, with_doubt, 0),
        ),
    )


def _with_output(index: Index) -> Index:
    output = index.output
    rows, events = len(output.pairs), len(output.event_time)
    paths = rows if len(output.path_end) else 0
    return index._replace(
        output=output._replace(
            pairs=_longer(output.pairs, rows // 2 + LANES, 0),
            event_time=_longer(output.event_time, events // 2 + 16, 0),
            event_end=_longer(output.event_end, events // 2 + 16, 0),
            event_kind=_longer(output.event_kind, events // 2 + 16, 0),
            event_tuple=_longer(output.event_tuple, events // 2 + 16, 0),
            path_end=_longer(output.path_end, paths // 2 + LANES if paths else 0, 0),
        )
    )


def _with_paths(index: Index) -> Index:
    output = index.output
    return index._replace(
        output=output._replace(
            paths=_longer(output.paths, max(256, len(output.paths)), 0),
            path_end=_longer(output.path_end, max(0, len(output.pairs) - len(output.path_end)), 0),
        )
    )


def _longer(array: np.ndarray, more: int, fill: int) -> np.ndarray:
    return np.concatenate([array, np.full(more, fill, array.dtype)]) if more else array


def _aligned(count: int, dtype: np.dtype, content: np.ndarray | None = None) -> np.ndarray:
    """`count` cells that start at a cache line, so that a block of bytes is one; untouched beyond the content."""
    raw = np.empty(count * dtype.itemsize + LANES, np.uint8)
    offset = -raw.ctypes.data % LANES
    array = raw[offset : offset + count * dtype.itemsize].view(dtype)
    if content is not None:
        array[: len(content)] = content
    return array
