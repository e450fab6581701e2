"""The order of expiry: a timing wheel for each window (Varghese and Lauck 1987, hierarchical timing wheels).

Edges that leave at the same slide boundary form a list, in a slot. The slots for the slides of the current 256 are level
0; level 1 has a slot for each of the following 256 × 256, and so on: eight levels of 256 slots hold any slide. An
edge whose slide differs from the cursor, the first slide not yet expired, in byte n and in none above is at level
n. When the cursor enters the range of a slot of a higher level, the edges of the slot are distributed to lower levels: an
edge moves at most eight times, and hardly ever with fewer than 256 slides in a window. Late edges need no special
treatment, and a refresh within a slide changes nothing.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.tables import UNBOUNDED

LEVELS = 8
SLOTS_A_LEVEL = 256
SLOTS_A_WINDOW = LEVELS * SLOTS_A_LEVEL
NEVER = np.iinfo(np.int64).max


@njit(cache=True, nogil=True, forceinline=True)
def _slot_at(level, slide):
    """Return the slot of a level to which a slide belongs; at the top level negative slides come first."""
    return level << 8 | (((slide >> (level << 3)) + (128 if level == 7 else 0)) & 255)


@njit(cache=True, nogil=True, forceinline=True)
def slide_after(relations, window, time):
    """Return the slide at which an edge with a timestamp (or number) leaves a window."""
    fields = relations.window[window]
    if fields.reaches_from <= time <= fields.reaches_to:
        return fields.reaches
    if fields.kind == UNBOUNDED:
        return np.int64(NEVER)
    size, slide = fields.size, fields.slide
    expires = (time + size - 1) // slide + 1
    # Nearly all edges are of the youngest slide: the division is done once for it.
    if expires > fields.reaches or fields.reaches_to < fields.reaches_from:
        fields.reaches = expires
        fields.reaches_from = (expires - 1) * slide - size + 1
        fields.reaches_to = expires * slide - size
    return expires


@njit(cache=True, nogil=True, forceinline=True)
def link(relations, window, edge):
    """Put an edge into the slot of its slide."""
    slots, fields, record = relations.slots, relations.window[window], relations.edge[edge]
    expires = record.expires
    if expires == NEVER:
        record.previous = 0
        record.next = 0
        return
    level = np.int64(0)
    differing = (expires ^ fields.cursor) >> 8
    # `differing` has the bytes above `level` in which the slide and the cursor differ.
    while differing != 0 and level < LEVELS - 1:  # a shift keeps the sign of a negative number
        level += 1
        differing >>= 8
    slot = fields.first_slot + _slot_at(level, expires)
    first = np.int64(slots[slot])
    record.previous = -1 - slot
    record.next = first
    if first != 0:
        relations.edge[first].previous = edge
    slots[slot] = edge
    fields.earliest = min(fields.earliest, expires)


@njit(cache=True, nogil=True, forceinline=True)
def unlink(relations, edge):
    """Remove an edge from its slot."""
    previous, following = relations.edge[edge].previous, relations.edge[edge].next
    if previous < 0:
        relations.slots[-1 - previous] = following
    elif previous > 0:
        relations.edge[previous].next = following
    if following != 0:
        relations.edge[following].previous = previous


@njit(cache=True, nogil=True)
def _move(relations, window, slide):
    """Move the cursor to a slide before which nothing is left to expire."""
    fields = relations.window[window]
    old = fields.cursor
    fields.cursor = slide
    # The slots that the cursor enters at higher levels are empty now: their edges agree with it there and were put lower.
    for above in range(LEVELS - 1):
        level = np.int64(LEVELS - 1 - above)
        if slide >> (level << 3) != old >> (level << 3):
            slot = fields.first_slot + _slot_at(level, slide)
            edge = np.int64(relations.slots[slot])
            relations.slots[slot] = 0
            while edge != 0:
                following = relations.edge[edge].next
                link(relations, window, edge)
                edge = following


@njit(cache=True, nogil=True)
def _candidate(relations, window):
    """Return the first slide from the cursor on at which an edge may expire, and the level at which it was found."""
    fields = relations.window[window]
    cursor, first = fields.cursor, fields.first_slot
    # The slots of lower levels from the cursor on are empty, so the first edges to expire are at this level or above.
    for level in range(LEVELS):
        shift = np.int64(level) << 3
        at = _slot_at(np.int64(level), cursor)
        # The cursor's own slot has been distributed, except at level 0.
        for slot in range(at if level == 0 else at + 1, (level + 1) << 8):
            if relations.slots[first + slot] != 0:
                return ((cursor >> shift) + (slot - at)) << shift, level
    return np.int64(NEVER), 0


@njit(cache=True, nogil=True)
def next_slide(relations, window, limit):
    """Return the first slide up to `limit` at which edges expire, and set the cursor to it.

    Returns NEVER if there is none, with the cursor past the limit.
    """
    fields = relations.window[window]
    # No edge expires before the cursor, nor before `earliest`.
    while fields.cursor <= limit:
        if fields.earliest > limit:
            _move(relations, window, limit + 1)
            break
        slide, level = _candidate(relations, window)
        fields.earliest = slide
        if slide > limit:
            continue
        if level == 0:
            fields.cursor = slide
            return slide
        _move(relations, window, slide)
    return np.int64(NEVER)


@njit(cache=True, nogil=True, forceinline=True)
def first_edge(relations, window):
    """Return an edge that expires at the cursor's slide, or 0."""
    fields = relations.window[window]
    slot = _slot_at(np.int64(0), fields.cursor)
    return np.int64(relations.slots[fields.first_slot + slot])
