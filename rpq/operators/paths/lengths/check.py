"""The structural invariants of an index of lengths, for the tests: plain Python, slow, obvious."""

from __future__ import annotations

from rpq.operators.paths.index import layout
from rpq.operators.paths.index.check import edges_of, stored_cells
from rpq.operators.paths.index.layout import Index
from rpq.operators.paths.lengths.progress import CHANGED, NOTHING, PLACE, STAGE, TOP, Progress


def check_lengths(index: Index, progress: Progress) -> None:
    """Assert that storage is consistent, that every cell is the length of a shortest walk, and that it was reported."""
    state, table, program = index.state, index.table, index.program
    top = int(progress.fields[TOP])
    assert state[layout.PHASE] == layout.IDLE, "a tuple is half done"
    assert progress.fields[STAGE] == NOTHING and not progress.fields[[CHANGED, PLACE]].any(), "a change is half done"
    assert not progress.changed.any(), "a row of the table is noted as changed between tuples"
    assert (index.queue.head == -1).all(), "the queue is not empty"
    blocks = int(state[layout.BLOCKS])
    assert not table.suspect[:blocks].any(), "a cell waits to be looked at between tuples"
    assert not table.taken_out[:blocks].any(), "a cell is noted as taken out between tuples"
    cells = stored_cells(index)
    assert all(value > index.settings[layout.CEILING] for value, _ in cells.values()), "a cell is no length"
    unreported = {key for key, (value, reported) in cells.items() if program.accepting[key[1]] and reported != value}
    assert not unreported, f"lengths differ from those that were reported, at {unreported}"
    edges = edges_of(index, index.graph.out)
    mirrored = {(v, c, u, link): slide for (u, c, v, link), slide in edges.items()}
    assert edges_of(index, index.graph.into) == mirrored, "in-edges are not the out-edges turned round"
    found = {key: top + 1 - value for key, (value, _) in cells.items()}
    assert found == _shortest(index, edges), "cells are not the lengths"


def _shortest(index: Index, edges: dict[tuple[int, int, int, int], int]) -> dict[tuple[int, int, int], int]:
    """Return the length of a shortest walk to each (vertex, state) from each root, by its slot."""
    program, table = index.program, index.table
    outgoing: dict[int, list[tuple[int, int]]] = {}
    layer: set[tuple[int, int, int]] = set()
    for u, c, v, _ in edges:
        outgoing.setdefault(u, []).append((c, v))
        if program.start_target[c] >= 0 and table.is_root[u]:
            assert table.slot_of[u] >= 0, f"root {u} has no slot"
            layer.add((v, int(program.start_target[c]), int(table.slot_of[u])))
    found: dict[tuple[int, int, int], int] = {}
    length = 1
    while layer:
        found |= dict.fromkeys(layer, length)
        length += 1
        layer = {
            (v, int(program.leave_target[leave]), slot)
            for u, s, slot in layer
            for c, v in outgoing.get(u, [])
            for leave in range(program.leave_first[s], program.leave_first[s + 1])
            if program.leave_class[leave] == c
        } - found.keys()
    return found
