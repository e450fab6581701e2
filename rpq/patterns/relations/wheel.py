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
from rpq.patterns.tables import (
    CURSOR,
    EARLIEST,
    EDGE,
    EDGE_LONG,
    EXPIRES,
    FIRST_SLOT,
    KIND,
    NEXT,
    PREVIOUS,
    REACHES,
    REACHES_FROM,
    REACHES_TO,
    SIZE,
    SLIDE,
    UNBOUNDED,
    WINDOW_FIELDS,
)

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
    fields = relations.window
    base = window * WINDOW_FIELDS
    if fields[base + REACHES_FROM] <= time <= fields[base + REACHES_TO]:
        return fields[base + REACHES]
    if fields[base + KIND] == UNBOUNDED:
        return np.int64(NEVER)
    size, slide = fields[base + SIZE], fields[base + SLIDE]
    expires = (time + size - 1) // slide + 1
    # Nearly all edges are of the youngest slide: the division is done once for it.
    if expires > fields[base + REACHES] or fields[base + REACHES_TO] < fields[base + REACHES_FROM]:
        fields[base + REACHES] = expires
        fields[base + REACHES_FROM] = (expires - 1) * slide - size + 1
        fields[base + REACHES_TO] = expires * slide - size
    return expires


@njit(cache=True, nogil=True, forceinline=True)
def link(relations, window, edge):
    """Put an edge into the slot of its slide."""
    edges, slots = relations.edge, relations.slots
    base = window * WINDOW_FIELDS
    expires = relations.long[edge * EDGE_LONG + EXPIRES]
    if expires == NEVER:
        edges[edge * EDGE + PREVIOUS] = 0
        edges[edge * EDGE + NEXT] = 0
        return
    cursor = relations.window[base + CURSOR]
    level = np.int64(0)
    differing = (expires ^ cursor) >> 8
    while differing != 0 and level < LEVELS - 1:  # a shift keeps the sign of a negative number
        level += 1
        differing >>= 8
    slot = relations.window[base + FIRST_SLOT] + _slot_at(level, expires)
    first = np.int64(slots[slot])
    edges[edge * EDGE + PREVIOUS] = -1 - slot
    edges[edge * EDGE + NEXT] = first
    if first != 0:
        edges[first * EDGE + PREVIOUS] = edge
    slots[slot] = edge
    relations.window[base + EARLIEST] = min(relations.window[base + EARLIEST], expires)


@njit(cache=True, nogil=True, forceinline=True)
def unlink(relations, edge):
    """Remove an edge from its slot."""
    edges = relations.edge
    previous = np.int64(edges[edge * EDGE + PREVIOUS])
    following = np.int64(edges[edge * EDGE + NEXT])
    if previous < 0:
        relations.slots[-1 - previous] = following
    elif previous > 0:
        edges[previous * EDGE + NEXT] = following
    if following != 0:
        edges[following * EDGE + PREVIOUS] = previous


@njit(cache=True, nogil=True)
def _move(relations, window, slide):
    """Move the cursor to a slide before which nothing is left to expire."""
    base = window * WINDOW_FIELDS
    old = relations.window[base + CURSOR]
    relations.window[base + CURSOR] = slide
    for above in range(LEVELS - 1):
        level = np.int64(LEVELS - 1 - above)
        if slide >> (level << 3) != old >> (level << 3):
            slot = relations.window[base + FIRST_SLOT] + _slot_at(level, slide)
            edge = np.int64(relations.slots[slot])
            relations.slots[slot] = 0
            while edge != 0:
                following = np.int64(relations.edge[edge * EDGE + NEXT])
                link(relations, window, edge)
                edge = following


@njit(cache=True, nogil=True)
def _candidate(relations, window):
    """Return the first slide from the cursor on at which an edge may expire, and the level at which it was found."""
    base = window * WINDOW_FIELDS
    cursor, first = relations.window[base + CURSOR], relations.window[base + FIRST_SLOT]
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
    base = window * WINDOW_FIELDS
    fields = relations.window
    while fields[base + CURSOR] <= limit:
        if fields[base + EARLIEST] > limit:
            _move(relations, window, limit + 1)
            break
        slide, level = _candidate(relations, window)
        fields[base + EARLIEST] = slide
        if slide > limit:
            continue
        if level == 0:
            fields[base + CURSOR] = slide
            return slide
        _move(relations, window, slide)
    return np.int64(NEVER)


@njit(cache=True, nogil=True, forceinline=True)
def first_edge(relations, window):
    """Return an edge that expires at the cursor's slide, or 0."""
    base = window * WINDOW_FIELDS
    slot = _slot_at(np.int64(0), relations.window[base + CURSOR])
    return np.int64(relations.slots[relations.window[base + FIRST_SLOT] + slot])
