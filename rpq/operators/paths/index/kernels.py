"""The kernels that Python calls, with views of an index and of a chunk."""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index import apply, expiry, insert, rows, witness


@njit(cache=True, nogil=True)
def apply_chunk(index, chunk, count):
    """Apply the tuples of a chunk. Return DONE, or a code for what Python must do before the next call."""
    return apply.apply_tuples(index, chunk, count)


@njit(cache=True, nogil=True)
def load_edges(index, chunk, slides):
    """Insert the edges of a chunk with these relative slides. Returns codes as `apply_chunk` does."""
    return apply.load_tuples(index, chunk, slides, len(slides))


@njit(cache=True, nogil=True)
def write_paths(index):
    """Write the witnesses of the current event. Returns codes as `apply_chunk` does."""
    return apply.write_paths(index)


@njit(cache=True, nogil=True)
def end_event(index, time, kind, order):
    """End the current event."""
    rows.end_event(index, time, kind, order)


@njit(cache=True, nogil=True)
def advance(index, time):
    """Advance the stream time. Returns codes as `apply_chunk` does."""
    return apply.move_clock(index, time, np.int64(0))


@njit(cache=True, nogil=True)
def cross(index, slide, order):
    """Advance to an absolute slide. Returns codes as `apply_chunk` does."""
    return apply.cross_to(index, slide, order)


@njit(cache=True, nogil=True)
def settle(index):
    """Push the pending blocks until nothing changes. Returns codes as `apply_chunk` does."""
    return insert.fixpoint(index)


@njit(cache=True, nogil=True)
def grow_trees(index, vertices):
    """Build the trees of vertices that become roots. Returns codes as `apply_chunk` does."""
    return insert.grow_trees(index, vertices, len(vertices))


@njit(cache=True, nogil=True)
def drop_trees(index, mask):
    """Clear the trees of the roots in a mask with a bit for each slot."""
    insert.drop_trees(index, mask)


@njit(cache=True, nogil=True)
def sweep(index):
    """Release all dead cells and edges."""
    expiry.sweep(index)


@njit(cache=True, nogil=True)
def walk_back(index, source, target):
    """Return the steps of a witness, last first: (their number or -1, steps)."""
    return witness.walk_back(index, source, target, np.empty(64, np.int64))


@njit(cache=True, nogil=True)
def erase_loops(target, steps, length):
    """Turn the steps of `walk_back` into a simple path. Return the number of its steps."""
    return witness.erase_loops(target, steps, length)
