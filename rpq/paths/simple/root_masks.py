"""Sets of roots as masks: a bit for each slot, in one uint64 a block number, as `Table.conflicted` and its like are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq.paths.index import layout
from rpq.paths.index.layout import Index, Table


def slot_of(table: Table, root: int) -> int:
    """The slot of a root, or -1."""
    return int(table.slot_of[root])


def holds_root(table: Table, mask: np.ndarray, root: int) -> bool:
    """Whether a root has a slot and is in a mask."""
    slot = slot_of(table, root)
    return slot >= 0 and bool(int(mask[slot >> 6]) >> (slot & 63) & 1)


def mask_of(table: Table, roots: Iterable[int]) -> np.ndarray:
    """Those of some roots that have a slot."""
    mask = np.zeros_like(table.conflicted)
    for root in roots:
        slot = slot_of(table, root)
        if slot >= 0:
            mask[slot >> 6] |= np.uint64(1 << (slot & 63))
    return mask


def roots_in(table: Table, mask: np.ndarray) -> set[int]:
    """The roots that a mask holds. O(slots)."""
    slots = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    return set(table.slot_vertex[slots].tolist())


def count(mask: np.ndarray) -> int:
    """How many there are. O(slots)."""
    return int(np.unpackbits(mask.view(np.uint8)).sum())


def release(index: Index, roots: np.ndarray) -> None:
    """Let the roots of a mask be free of conflicts."""
    table = index.table
    for mask in (table.conflicted, table.suspended, table.blocked):
        mask &= ~roots
    index.state[layout.CONFLICTED] = count(table.conflicted)
