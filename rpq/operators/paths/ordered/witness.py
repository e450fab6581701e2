"""A path that answers a pair, found on the timeline.

The table has the slide at which the answer leaves. This determines the slide of the first edge of the path or, if edges
leave by number, which edges can be on the path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import Index
from rpq.operators.paths.index.path_delta import PathSteps
from rpq.operators.paths.index.rows import cell_at
from rpq.operators.paths.ordered.timeline import Timeline


class ParallelTimes(NamedTuple):
    """Edges with their timestamps, including parallel edges, the oldest first."""

    time: np.ndarray  # int64
    slide: np.ndarray  # int64: the absolute slide at which it leaves the window
    source: np.ndarray  # int32
    target: np.ndarray  # int32
    label: np.ndarray  # int32
    edge: np.ndarray  # int32: the edge of the snapshot graph


@njit(cache=True, nogil=True)
def expiry_of_answer(index, root, vertex, states):
    """Return the relative slide up to which (root, vertex) is an answer by some accepting states, or 0 if it is not."""
    table = index.table
    slot, latest = np.int64(table.slot_of[root]), np.int64(0)
    if slot < 0:
        return latest
    for state in states:
        cell = cell_at(index, vertex, np.int64(state), slot)
        if cell >= 0:
            latest = max(latest, np.int64(table.values[cell]))
    return latest if latest > index.state.now else np.int64(0)


def find_path(
    index: Index, timeline: Timeline, edges: ParallelTimes, source: int, target: int, *, ends: np.ndarray, expiry: int
) -> PathSteps | None:
    """Return the steps of a path to some accepting states, `ends`, that lasts up to the relative slide `expiry`, or None if
    there is none.

    The first edge of the path is the latest possible one, and the path arrives as early as it can after this edge.
    O(edges · states) for each time, in the slide of the first edge, at which the source has an edge.
    """
    leaves = np.minimum(edges.slide - index.state.base, index.settings.ceiling)
    if timeline.fields.in_order:
        may_begin = leaves == expiry
    else:
        edges = ParallelTimes(*(column[leaves >= expiry] for column in edges))
        may_begin = np.ones(len(edges.time), bool)
    program = index.program
    states = program.sizes.states
    strict, gap, span = bool(timeline.fields.strict), timeline.fields.gap, timeline.fields.span
    times = edges.time.tolist()
    sources, targets, labels = edges.source.tolist(), edges.target.tolist(), edges.label.tolist()
    accepting = frozenset(ends.tolist())
    moves = {label: _moves(index, label) for label in set(labels)}
    is_start = may_begin & ((edges.source == source) | (edges.target == source))
    starts = sorted({*edges.time[is_start].tolist()}, reverse=True)
    for begin in starts:
        # The steps that arrive at each node, the latest last, as (time, edge, against, the step before or None).
        arrivals: dict[int, list[tuple[int, int, int, object]]] = {}
        low = int(np.searchsorted(edges.time, begin))
        while low < len(times) and (times[low] - begin <= span):
            high = low
            while high < len(times) and times[high] == times[low]:
                high += 1
            now = times[low]
            news = True
            while news:
                news = False
                for i in range(low, high):
                    for against, (start, steps) in enumerate(moves[labels[i]]):
                        u, v = (targets[i], sources[i]) if against else (sources[i], targets[i])
                        offers: list[tuple[int, object]] = []
                        if start >= 0 and u == source and now == begin and may_begin[i]:
                            offers.append((start, None))
                        for before, after in steps:
                            earlier = arrivals.get(u * states + before, [])
                            fit = [one for one in earlier if (one[0] < now if strict else True) and now - one[0] <= gap]
                            if fit:
                                offers.append((after, fit[-1]))
                        for state, previous in offers:
                            here = arrivals.setdefault(v * states + state, [])
                            if here and here[-1][0] == now:
                                continue
                            here.append((now, i, against, previous))
                            news = True
                            if state in accepting and v == target:
                                return _collect_steps(here[-1], edges)
                news = news and not strict
            low = high
    return None


def _moves(index: Index, label: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return for a step along an edge and against it the state after the start, and the pairs of states."""
    program = index.program
    found: list[tuple[int, list[tuple[int, int]]]] = []
    for classes in (program.forward, program.inverse):
        one = int(classes[label])
        if one < 0:
            found.append((-1, []))
            continue
        steps = range(int(program.step_first[one]), int(program.step_first[one + 1]))
        pairs = [(int(program.step_source[step]), int(program.step_target[step])) for step in steps]
        found.append((int(program.start_target[one]), pairs))
    return found


def _collect_steps(last: tuple[int, int, int, object], edges: ParallelTimes) -> PathSteps:
    steps: list[int] = []
    times: list[int] = []
    one: object = last
    while isinstance(one, tuple):
        time, place, against, one = one
        steps.append(int(edges.edge[place]) << 1 | against)
        times.append(time)
    return PathSteps(np.array(steps[::-1], np.int64), np.array(times[::-1], np.int64))
