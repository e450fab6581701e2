"""Roots whose simple paths take too long to find: the budget, and the treatment of a root that exceeds it.

The budget is the number of nodes expanded for one root in one tuple or at one boundary. A root that exceeds it is *set
aside*: all of its answers, in doubt or not, leave with `-` rows (also under implicit window semantics, except for answers
that expire at that boundary), and it has no answers until its conflicts are gone or it is restored. It returns, with `+`
rows, at the delete or the boundary that removes its last conflict. The state file names the roots that are set aside. It
does not contain the paths: a restored engine searches them again, without a budget, and may find others. Near the budget, it
may therefore set a root aside that the saved engine would not have set aside, or the reverse.

The kernels set a root aside immediately (`IndexTable.suspended_roots`) and mark it as *overdrawn*. This module reports its
rows, records the root, and clears the mark, all within the same tuple or boundary.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq.language.protocol import Overrun
from rpq.operators.paths.index import conflicts, kernels, layout
from rpq.operators.paths.index.judging import JudgedIndex
from rpq.operators.paths.index.layout import Index, IndexTable
from rpq.operators.paths.simple import judge
from rpq.operators.paths.simple.certificates import BLOCKED
from rpq.operators.paths.simple.known_paths import KnownPaths


class AsideRoots:
    """The roots of an index that are set aside. `sizes` maps each to the number of nodes at which it was set aside.

    `overruns` are the roots that have exceeded the budget since the list was last emptied, `waiting` those that the next
    load sets aside.
    """

    def __init__(self, index: JudgedIndex, known_paths: KnownPaths, rows: EventRows) -> None:
        self._index = index
        self._known_paths = known_paths
        self._rows = rows
        self.sizes: dict[int, int] = {}
        self.overruns: list[Overrun] = []
        self.waiting: dict[int, int] = {}

    def set_waiting_aside(self) -> None:
        """Set aside the waiting roots that meet a conflict, without rows."""
        table = self._index.index.table
        meeting = {root: size for root, size in self.waiting.items() if holds_root(table, table.conflicted_roots, root)}
        self.waiting = {}
        table.suspended_roots[:] |= mask_of(table, meeting)
        self.sizes.update(meeting)

    def restore(self, root: int) -> np.ndarray | None:
        """Restore a root that is set aside. Return the pairs that the table answers for it, or None if it was not set
        aside."""
        if self.sizes.pop(root, None) is None:
            return None
        table = self._index.index.table
        mask = mask_of(table, [root])
        table.suspended_roots[:] &= ~mask
        return judge.pairs_of(self._index.view, mask)

    def restore_clean(self, order: int, time: int | None = None) -> None:
        """Restore the roots that no longer meet a conflict, with an event of that order."""
        if not self.sizes:
            return
        table, view = self._index.index.table, self._index.view
        found = np.zeros_like(table.suspended_roots)
        conflicts.live_conflicts(view, found)
        # These include the bits of roots whose slots a sweep has just released.
        clean = table.suspended_roots & ~found
        for root in [r for r in self.sizes if slot_of(table, r) < 0 or holds_root(table, clean, r)]:
            del self.sizes[root]
        if clean.any():
            release(self._index.index, clean)
            conflicts.drop_doubt(view, clean)
            self._rows.append(judge.pairs_of(view, clean))
            self._rows.end(1, order, time)

    # --- roots that the kernels found to be over the budget --------------------------------------------------

    def overdrawn_roots(self) -> list[int]:
        """Return the roots that exceeded the budget at this tuple or boundary."""
        return self._known_paths.certificates.overdrawn_root[: self._known_paths.fields.overdrawn].tolist()

    def lost_answers(self, *, inserted: bool) -> np.ndarray:
        """Return the answers that the roots had before this tuple or boundary and that the current event has to remove.

        Answers that the event already removes and answers that have expired are omitted.
        """
        roots = self.overdrawn_roots()
        if not roots:
            return np.zeros(0, np.int64)
        certificates = self._known_paths.certificates
        mine = self._known_paths.of_roots(roots)
        answers = mine & (certificates.slide != BLOCKED)
        if inserted:
            answers &= certificates.answer_stamp < certificates.fields.stamp
        pairs = judge.pairs_of(self._index.view, mask_of(self._index.index.table, roots))
        certain = pairs[~np.isin(pairs, certificates.key[mine])]
        if inserted:
            certain = certain[~np.isin(certain, self._rows.pairs())]
        return np.concatenate([certificates.key[answers], certain])

    def drop_rows(self) -> None:
        """Remove the rows of overdrawn roots from the current event."""
        roots = self.overdrawn_roots()
        if roots:
            self._rows.retain(~np.isin(self._rows.pairs() >> 32, roots))

    def note(self, place: int, time: int | None = None) -> None:
        """Record that the overdrawn roots are set aside, and forget their paths. The event belongs to a tuple of the chunk
        or to a boundary."""
        roots = self.overdrawn_roots()
        if not roots:
            return
        sizes = self._known_paths.certificates.overdrawn_work[: len(roots)].tolist()
        self.sizes.update(zip(roots, sizes, strict=True))
        when = self._index.state.time if time is None else time
        self.overruns += [Overrun(place, root, when, size) for root, size in zip(roots, sizes, strict=True)]
        self._known_paths.forget(self._known_paths.of_roots(roots))
        table = self._index.index.table
        table.blocked_roots[:] &= ~mask_of(table, roots)
        self._known_paths.fields.overdrawn = 0


# --- the rows of the current event, from which a judge removes rows and to which it adds others ----------
#
# A kernel that reports answers leaves its event open: the rows are in the output of the index from EVENT_OUT to OUT. They
# become an event, with a time and a kind, when it is ended.


class EventRows:
    """The rows of the current event of an index."""

    def __init__(self, index: JudgedIndex) -> None:
        self._index = index

    def pairs(self) -> np.ndarray:
        """Return the pairs, source << 32 | target, as a view of the output."""
        index = self._index.index
        return index.output.pairs[index.state.event_out : index.state.out]

    def retain(self, mask: np.ndarray) -> None:
        """Keep only the rows at which `mask` (boolean) is true."""
        pairs, state = self.pairs(), self._index.state
        rows = pairs[mask]
        pairs[: len(rows)] = rows
        state.out = state.event_out + len(rows)

    def append(self, pairs: np.ndarray) -> None:
        """Add rows."""
        state = self._index.state
        while state.out + len(pairs) > len(self._index.index.output.pairs):
            self._index.provide(layout.NEED_OUTPUT)
        start = state.out
        self._index.index.output.pairs[start : start + len(pairs)] = pairs
        state.out = start + len(pairs)

    def end(self, kind: int, order: int, time: int | None = None) -> None:
        """End the event of a kind (1: added, -1: removed), at the tuple or at a boundary, with witnesses if the index has
        them."""
        index, state = self._index, self._index.state
        if state.events + 2 > len(index.index.output.event_time):
            index.provide(layout.NEED_OUTPUT)
        if index.index.settings.witness and kind > 0:
            index.write_paths(state.event_out)
        kernels.end_event(index.view, state.time if time is None else time, kind, order)


# --- sets of roots as masks: a bit for each slot, in one uint64 a block number, as `IndexTable.conflicted_roots` -------


def slot_of(table: IndexTable, root: int) -> int:
    """Return the slot of a root, or -1."""
    return int(table.slot_of[root])


def holds_root(table: IndexTable, mask: np.ndarray, root: int) -> bool:
    """Return whether a root has a slot and is in a mask."""
    slot = slot_of(table, root)
    return slot >= 0 and bool(int(mask[slot >> 6]) >> (slot & 63) & 1)


def mask_of(table: IndexTable, roots: Iterable[int]) -> np.ndarray:
    """Return the mask of the roots that have a slot."""
    mask = np.zeros_like(table.conflicted_roots)
    for root in roots:
        slot = slot_of(table, root)
        if slot >= 0:
            mask[slot >> 6] |= np.uint64(1 << (slot & 63))
    return mask


def roots_in(table: IndexTable, mask: np.ndarray) -> set[int]:
    """Return the roots in a mask. O(slots)."""
    slots = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    return set(table.slot_vertex[slots].tolist())


def count(mask: np.ndarray) -> int:
    """Return the number of roots in a mask. O(slots)."""
    return int(np.unpackbits(mask.view(np.uint8)).sum())


def release(index: Index, roots: np.ndarray) -> None:
    """Remove the conflicts of the roots in a mask."""
    table = index.table
    for mask in (table.conflicted_roots, table.suspended_roots, table.blocked_roots):
        mask &= ~roots
    index.state.conflicted = count(table.conflicted_roots)
