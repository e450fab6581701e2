"""Trees that come and go as a whole, where not every vertex is a root.

The adjacency lists hold all edges in the window, whoever is a root. So the tree of a vertex that becomes one later is
raised from them, and has the cells that it would have had.
"""

import numpy as np

from rpq.arrays.lanes import LANES
from rpq.compiled.kernel_cache import njit
from rpq.paths.index.conflicts import forget_new_doubt
from rpq.paths.index.insert import fixpoint, raise_root
from rpq.paths.index.layout import DONE, FREE_SLOTS, JUDGED, NOW, ROWS, SLOTS
from rpq.paths.index.rows import ONE, ZERO, block_count, dequeue, nth_block, slide_of
from rpq.paths.program import CLASSES


@njit(cache=True, nogil=True)
def grow_trees(index, roots, count):
    """Raise the trees of some roots from their first edges, to the fixpoint; codes as `apply_chunk`."""
    program, out = index.program, index.graph.out
    classes = program.sizes[CLASSES]
    for i in range(count):
        root = np.int64(roots[i])
        for transition_class in range(classes):
            state = np.int64(program.start_target[transition_class])
            if state < 0:
                continue
            links = root * classes + transition_class
            for place in range(out.start[links], out.start[links] + np.int64(out.length[links])):
                link = out.entries[place]
                slide = slide_of(index.graph, link)
                if slide > index.state[NOW]:
                    code = raise_root(index, root, link >> 32, state, slide)
                    if code != DONE:
                        return code
    return fixpoint(index)


@njit(cache=True, nogil=True)
def drop_trees(index, mask):
    """Clear the cells of the roots in `mask` (uint64 a block number), and what waits to be pushed; their slots are free."""
    table, fields = index.table, index.state
    while dequeue(index.queue, fields) >= 0:
        pass
    if index.settings[JUDGED]:
        forget_new_doubt(index)
    for row in range(fields[ROWS]):
        if table.node[row] < 0:
            continue
        table.pending[row] = ZERO
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = mask[number]
            if lanes == ZERO:
                continue
            for lane in range(LANES):
                if (lanes >> np.uint64(lane)) & ONE != ZERO:
                    table.values[block * LANES + lane] = 0
            if index.settings[JUDGED]:
                table.doubt[block] &= ~lanes
    for slot in range(fields[SLOTS] - 1, -1, -1):
        vertex = np.int64(table.slot_vertex[slot])
        if vertex >= 0 and (mask[slot >> 6] >> np.uint64(slot & 63)) & ONE != ZERO:
            table.slot_of[vertex] = -1
            table.slot_vertex[slot] = -1
            table.free_slots[fields[FREE_SLOTS]] = slot
            fields[FREE_SLOTS] += 1
