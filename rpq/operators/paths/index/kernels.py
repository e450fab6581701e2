"""The kernels of an index of cells that Python calls, with views of an index and of a chunk.

Those that return a code also take the view `own` of what another kind of index has besides (`tuples.py`).
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index import witness
from rpq.operators.paths.index.apply import advance, apply_chunk, cross_to, load_edges, write_paths
from rpq.operators.paths.index.expiry import sweep
from rpq.operators.paths.index.insert import drop_trees, fixpoint, grow_trees
from rpq.operators.paths.index.rows import end_event
from rpq.operators.paths.index.witness import erase_loops

__all__ = [
    "advance",
    "apply_chunk",
    "cross",
    "drop_trees",
    "end_event",
    "erase_loops",
    "grow_trees",
    "load_edges",
    "settle",
    "sweep",
    "walk_back",
    "write_paths",
]


@njit(cache=True, nogil=True)
def cross(index, own, slide, order):
    """Advance to an absolute slide. Returns codes as `apply_chunk` does."""
    return cross_to(index, slide, order)


@njit(cache=True, nogil=True)
def settle(index, own):
    """Push the pending blocks until nothing changes. Returns codes as `apply_chunk` does."""
    return fixpoint(index)


@njit(cache=True, nogil=True)
def walk_back(index, source, target):
    """Return the steps of a witness, last first: (their number or -1, steps)."""
    return witness.walk_back(index, source, target, np.empty(64, np.int64))
