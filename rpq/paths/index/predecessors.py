"""The walk over the edges into a product node: deletes, conflicts, witnesses and searches look back along it.

    edge = in_edges(index, vertex, state)
    while True:
        edge = next_in_edge(index, vertex, state, edge, now)
        if edge.link < 0:
            break
        ...

gives, transition by transition, every edge that lasts beyond a slide, and the product node that it comes from. The record
is taken apart when the kernels are inlined: it costs nothing (`TUNING.md`). Needs the `into` lists.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.paths.index.rows import slide_of
from rpq.paths.program import CLASSES


class InEdge(NamedTuple):
    """An edge into a product node, and how far the walk over all of them has come."""

    link: int  # source << 32 | edge << 1 | against; -1: there is no further one
    source: int
    source_state: int  # 0: the source is the root itself, which has no row
    slide: int  # the relative expiry slide of the edge
    transition: int  # place in `Program.enter_source`
    next: int  # place of the next link of this transition
    left: int  # links of this transition that are left
    direction: int  # 1: in the order in which the edges came, -1: the latest first


@njit(cache=True, nogil=True, forceinline=True)
def in_edges(index, vertex, state, direction=1):
    """A walk over the edges into a product node, before the first."""
    before = np.int64(index.program.enter_first[state]) - 1
    zero = np.int64(0)
    return InEdge(np.int64(-1), zero, zero, zero, before, zero, zero, np.int64(direction))


@njit(cache=True, nogil=True, forceinline=True)
def next_in_edge(index, vertex, state, edge, above):
    """The next edge that lasts beyond slide `above`."""
    program, graph = index.program, index.graph
    transition, place, left, source_state = edge.transition, edge.next, edge.left, edge.source_state
    while True:
        while left > 0:
            link = graph.into.entries[place]
            place += edge.direction
            left -= 1
            slide = slide_of(graph, link)
            if slide > above:
                return InEdge(link, link >> 32, source_state, slide, transition, place, left, edge.direction)
        transition += 1
        if transition >= program.enter_first[state + 1]:
            zero = np.int64(0)
            return InEdge(np.int64(-1), zero, zero, zero, transition, zero, zero, edge.direction)
        source_state = np.int64(program.enter_source[transition])
        links = vertex * program.sizes[CLASSES] + program.enter_class[transition]
        left = np.int64(graph.into.length[links])
        place = graph.into.start[links] + (left - 1 if edge.direction < 0 else 0)


@njit(cache=True, nogil=True, forceinline=True)
def past_transition(edge):
    """The walk behind the other edges of the present transition."""
    return InEdge(
        edge.link, edge.source, edge.source_state, edge.slide, edge.transition, edge.next, np.int64(0), edge.direction
    )
