"""The kernels that apply tuples to the snapshot graph, and say what became of each."""

import numpy as np

from rpq.arrays.hashing import id_at
from rpq.compiled.kernel_cache import njit
from rpq.stream.counted import delete_from_windows, is_counted, number_insert
from rpq.stream.edge_store import HOLDERS, LONG_AGO, NEVER, TABLE, advance, insert, key_hash, prefetch_edge_of, probe

# What became of a tuple.
INSERTED, REFRESHED, DELETED, ABSENT_DELETE, LATE, IRRELEVANT = range(6)
OUTCOMES = 6

AHEAD = 12
"""Tuples ahead for which memory is asked."""
CACHED = 1 << 17
"""Entries of a table that is in a cache anyway, where asking ahead only costs."""


@njit(cache=True, nogil=True, forceinline=True)
def _resolve_tuple(edges, horizons, counted, chunk, i):
    """Apply a tuple, to whose time the graph has moved."""
    time = chunk.timestamp[i]
    label = np.int64(chunk.label[i])
    group = np.int64(horizons.group[label])
    horizon = horizons.horizon[group]
    chunk.edge[i] = -1
    if horizon == NEVER:
        result = IRRELEVANT
        if not chunk.delete[i]:
            horizons.lost[label] = max(horizons.lost[label], time)
    elif chunk.delete[i]:
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        place = probe(edges, key_hash(u, label, v), u, label, v)
        edge = id_at(edges.table, place) if place >= 0 else np.int64(-1)
        if edge >= 0 and (edges.timestamp[edge] > horizon or edges.held[edge] & HOLDERS != 0):
            edges.timestamp[edge] = LONG_AGO
            if edges.held[edge] & HOLDERS != 0:
                delete_from_windows(edges, counted, group, edge)
            chunk.edge[i] = edge
            result = DELETED
        else:
            result = ABSENT_DELETE
    elif time <= horizon and not is_counted(counted, group):
        result = LATE
        horizons.lost[label] = max(horizons.lost[label], time)
    else:
        edge, present = insert(edges, horizons, np.int64(chunk.source[i]), np.int64(chunk.target[i]), label, time)
        chunk.edge[i] = edge
        result = REFRESHED if present else INSERTED
        if is_counted(counted, group):
            number_insert(edges, horizons, counted, group, edge)
    return result


@njit(cache=True, nogil=True)
def resolve(edges, horizons, counted, chunk, count, outcome, outcomes):
    looks_ahead = edges.fields[TABLE] > CACHED
    for i in range(count):
        if looks_ahead and i + AHEAD < count and chunk.source[i + AHEAD] >= 0:
            later = i + AHEAD
            source, target = np.int64(chunk.source[later]), np.int64(chunk.target[later])
            prefetch_edge_of(edges, source, np.int64(chunk.label[later]), target)
        advance(edges, horizons, chunk.timestamp[i])
        result = _resolve_tuple(edges, horizons, counted, chunk, i)
        outcome[i] = result
        outcomes[result] += 1


@njit(cache=True, nogil=True)
def _holds(edges, horizons, u, label, v):
    """Whether an edge is in any window."""
    place = probe(edges, key_hash(u, label, v), u, label, v)
    if place < 0:
        return False
    edge = id_at(edges.table, place)
    horizon = horizons.horizon[np.int64(horizons.group[label])]
    return edges.timestamp[edge] > horizon or edges.held[edge] & HOLDERS != 0


@njit(cache=True, nogil=True)
def resolve_with_streams(edges, horizons, counted, chunk, named, is_named, count, outcome, outcomes):
    for i in range(count):
        advance(edges, horizons, chunk.timestamp[i])
        result = _resolve_tuple(edges, horizons, counted, chunk, i)
        if not is_named[i]:
            named.edge[i] = chunk.edge[i]
        else:
            of_stream = _resolve_tuple(edges, horizons, counted, named, i)
            if result == LATE and of_stream == INSERTED:
                # The merged stream refuses it, and may have a younger one all the same.
                u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
                result = REFRESHED if _holds(edges, horizons, u, np.int64(chunk.label[i]), v) else INSERTED
            elif result in (IRRELEVANT, LATE, ABSENT_DELETE):
                result = result if of_stream == IRRELEVANT else of_stream
            elif result == INSERTED and of_stream == REFRESHED:
                result = of_stream
            elif result == INSERTED and of_stream == LATE:
                u, v = np.int64(named.source[i]), np.int64(named.target[i])
                result = REFRESHED if _holds(edges, horizons, u, np.int64(named.label[i]), v) else INSERTED
        outcome[i] = result
        outcomes[result] += 1
