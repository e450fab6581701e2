"""What Python calls: each kernel takes the arrays of an index and works on pointers to them."""

import numpy as np
from numba import njit

from rpq.index import apply, expiry, report, witness
from rpq.index.layout import view_chunk, view_index


@njit(cache=True, nogil=True)
def apply_chunk(index, chunk):
    """Apply the tuples of a chunk; DONE, or what Python must do before the next call."""
    return apply.apply_tuples(view_index(index), view_chunk(chunk), len(chunk.timestamp))


@njit(cache=True, nogil=True)
def load_edges(index, chunk, slides):
    """Enter the edges of a chunk with these relative slides; codes as `apply_chunk`."""
    return apply.load_tuples(view_index(index), view_chunk(chunk), slides, len(slides))


@njit(cache=True, nogil=True)
def write_paths(index):
    """Write the witnesses of the current event; codes as `apply_chunk`."""
    return apply.write_paths(view_index(index))


@njit(cache=True, nogil=True)
def end_event(index, time, kind, order):
    """End the current event."""
    apply.end_event(view_index(index), time, kind, order)


@njit(cache=True, nogil=True)
def start_clock(index, time):
    """Set the stream time for the first time."""
    apply.start_clock(view_index(index), time)


@njit(cache=True, nogil=True)
def cross(index, slide):
    """Make an absolute slide the current one."""
    expiry.cross(view_index(index), slide)


@njit(cache=True, nogil=True)
def sweep(index):
    """Collect what is dead."""
    expiry.sweep(view_index(index))


@njit(cache=True, nogil=True)
def expiring_pairs(index, now):
    """(relative slides, pairs) of the answers that die up to `now`."""
    return expiry.expiring_pairs(view_index(index), now)


@njit(cache=True, nogil=True)
def count_live(index):
    """(live cells, answers)."""
    return report.count_live(view_index(index))


@njit(cache=True, nogil=True)
def live_pairs(index):
    """The current answers."""
    return report.live_pairs(view_index(index))


@njit(cache=True, nogil=True)
def walk_back(index, source, target):
    """The steps of a witness, last first: (their number or -1, steps)."""
    return witness.walk_back(view_index(index), source, target, np.empty(64, np.int64))
