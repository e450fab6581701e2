"""The memory layout of an index of lengths or costs, in addition to that of the Δ index, and the meaning of its cells.

The table of the Δ index has a cell for each product node (v, t) and root x. Here the cell encodes the number of edges of the
shortest walk from x to (v, t): `zero - 1` for one edge, `zero - 2` for two, and 0 if there is no walk. A larger cell is
nearer to the root, so a row operation is again a maximum:

    row(v, t) = max(row(v, t), row(u, s) - 1)        for an edge (u, l, v) with δ(s, l) = t

A cell does not depend on when edges leave. The slides of edges, in `Graph.expiry`, are at most `ceiling`, and cells are
above it. So a cell counts as alive at every current slide, and the Δ index can manage rows, blocks and slots as it does for
slides. A walk that is too long for the cells makes them wider (`NEED_WIDER`).

* **Costs**: an edge takes away its `weight` in place of 1. Cells are of 64 bits. They are `zero` minus the sum of integers,
  or minus the bits of the sum of floats, which are in the order of the floats because none is negative. A sum of floats is
  rounded at each step; since rounding preserves the order, the smallest sum to a vertex comes from the smallest ones to its
  predecessors. `compiled.arrays.lanes` has the operations, by the type of `weight`.
* **Insert**: raise the cells to which the edge leads, and push those that grew, the nearest first, until nothing changes. An
  edge that is refreshed changes no length. The order saves work, but is not needed: costs within one bucket have none.
* **Loss**, by a delete or of all edges that leave at one boundary: a cell is *supported* by a predecessor that is nearer to
  the root, and from which an edge makes it what it is. Check the cells that a lost edge may have supported, the nearest
  first. Remove a cell without a support, and check the cells that it may have supported in turn (Even and Shiloach 1981, and
  Ramalingam and Reps 1996, for 64 roots at a time). Then fill the cells that were removed from their remaining predecessors,
  and push those that grew. The cost is that of the cells whose length changes, and of their in-edges.
* **Rows**: `Table.hops` has each cell as it was last reported. Rows of the table that have changed since then are noted. At
  the end of a tuple or a boundary, the differences are reported: first all old lengths, then all new ones. With costs they
  are at the end of an event, since a tuple that replaces an edge is two links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.views import Record, int64

NEED_WIDER = 48
"""The code that a kernel returns if a length does not fit into a cell. The `NEED_…` codes of the Δ index are smaller."""
TOO_LARGE = 49
"""The code that a kernel returns if the cost of an answer does not fit into a cell."""


class LengthState(Record):
    """The progress of the current change."""

    _fields_ = (
        ("zero", int64),  # the cell of the empty walk, which no table has
        ("lowest", int64),  # the smallest cell of a walk
        ("too_large", int64),  # the cell of a cost that does not fit: `lowest` for integers, else none
        ("rank_shift", int64),  # bits of the distance from `zero` by which cells of one bucket of the queue may differ
        ("rank_first", int64),  # the distance, in these units, of the cells of the first bucket
        ("stage", int64),  # the stage of the current change
        ("changed_rows", int64),  # entries of `LengthChanges.changed_rows`
        ("place", int64),  # the entry of `changed_rows` to report next
        ("block", int64),  # the block of its row to report next
        ("has_events", int64),  # whether `LengthChanges.first` has the events of the tuples of the chunk
        ("waiting_order", int64),  # the place of the event whose rows wait for its end, -1 for none
        ("waiting_time", int64),  # the time of that event
        ("searches", int64),  # searches for a witness so far
    )


# Values of `fields.stage`: the next step for the current tuple or boundary.
NOTHING = 0
FILLING = 1  # fill the cells that were removed
PUSHING = 2  # push the cells that grew
OLD_ROWS = 3  # report the old lengths
NEW_ROWS = 4  # report the new lengths
PATHS_OF_ROWS = 5  # write a path for each row
RECORDING = 6  # record the cells as reported


class LengthChanges(NamedTuple):
    """The rows of the table that have changed since the last report, and the lengths of the pairs in the output."""

    changed_blocks: np.ndarray  # uint64 a row: bit i for the block numbers equal to i modulo 64
    changed_rows: np.ndarray  # int32 a row: the rows of accepting states with such a bit
    length: np.ndarray  # int64 a row of the output: a length, or a cost as an integer
    first: np.ndarray  # int64 a tuple of the chunk: the first tuple of its event
    searched: np.ndarray  # int64 a row: the last search for a witness that came to it
    weight: np.ndarray  # int64 or float64 an edge, for costs; int8 for lengths, of no use
    fields: LengthState


def new_progress(rows: int, pairs: int) -> LengthChanges:
    """Return an empty progress of lengths with room for these numbers of rows of the table and of the output."""
    return LengthChanges(
        changed_blocks=np.zeros(rows, np.uint64),
        changed_rows=np.zeros(rows, np.int32),
        length=np.zeros(pairs, np.int64),
        first=np.zeros(1, np.int64),
        searched=np.zeros(rows, np.int64),
        weight=np.zeros(1, np.int8),
        fields=LengthState(too_large=-1, rank_first=1, waiting_order=-1),
    )


def with_room(progress: LengthChanges, rows: int, pairs: int) -> LengthChanges:
    """Return a progress with room for these numbers of rows of the table and of the output, the same object if it has it."""
    more, more_pairs = rows - len(progress.changed_blocks), pairs - len(progress.length)
    if more <= 0 and more_pairs <= 0:
        return progress
    return progress._replace(
        changed_blocks=lengthen(progress.changed_blocks, more),
        changed_rows=lengthen(progress.changed_rows, more),
        length=lengthen(progress.length, more_pairs),
        searched=lengthen(progress.searched, more),
    )
