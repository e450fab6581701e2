"""The structural invariants of the index, for the tests: plain Python, slow, obvious."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rpq.compiled.arrays.lanes import LANES, SATURATED
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.layout import POINTER, Index
from rpq.operators.paths.index.rows import region_size


def _entries(lists: Any, i: int) -> list[int]:
    start = int(lists.start[i])
    return [int(e) for e in lists.entries[start : start + int(lists.length[i])]]


def free_slots(index: Index) -> list[int]:
    """Return the slots that are free."""
    found, following = [], index.state.free_slot
    while following:
        found.append(following - 1)
        following = -1 - int(index.table.slot_vertex[following - 1])
    return found


def stored_cells(index: Index, *, foreign_blocks: Sequence[int] = ()) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return the live cells as (vertex, state, slot) -> (value, hops), and assert that rows and blocks are stored correctly.

    `foreign_blocks` belong to other structures.
    """
    table, state = index.table, index.state
    states = index.program.sizes.states
    now = state.now
    used_blocks: list[int] = [*foreign_blocks]
    cells = {}
    free_rows = set(table.free_rows[: state.free_rows].tolist())
    for row in range(state.rows):
        if table.node[row] < 0:
            assert row in free_rows, f"row {row} is neither free nor a node"
            continue
        assert row not in free_rows, f"row {row} is free and a node"
        vertex, node_state = int(table.node[row]) >> 16, int(table.node[row]) & layout.STATE_BITS
        assert table.row_of[vertex * states + node_state] == row, f"row {row} is not the row of its node"
        assert index.queue.rank[row] == -1, f"row {row} waits in the queue between tuples"
        if table.span[row] > 0:
            assert table.directory.length[row] == 0, f"row {row} is dense and has a directory"
            assert table.span[row] <= len(index.queue.number), f"row {row} has more blocks than the scratch has room for"
            blocks = list(enumerate(range(int(table.base[row]), int(table.base[row]) + int(table.span[row]))))
        else:
            blocks = [(entry >> 32, entry & POINTER) for entry in _entries(table.directory, row)]
        numbers = [number for number, _ in blocks]
        assert numbers == sorted(set(numbers)), f"the directory of row {row} is not sorted: {numbers}"
        assert not table.pending[row], f"row {row} has pending blocks between tuples"
        for number, block in blocks:
            used_blocks.append(block)
            for lane, value in enumerate(table.values[block * LANES : (block + 1) * LANES].tolist()):
                if value > now:
                    hops = int(table.hops[block * LANES + lane]) if len(table.hops) else SATURATED
                    assert value >= table.low[row], f"row {row} holds {value} below its bound {table.low[row]}"
                    slot = number * LANES + lane
                    assert table.slot_vertex[slot] >= 0, f"a live cell of slot {slot}, which is free"
                    cells[vertex, node_state, slot] = (value, hops)
    free_blocks: list[int] = []
    for region_class in range(layout.REGION_CLASSES):
        block = int(table.free_regions[region_class])
        while block >= 0:
            free_blocks += range(block, block + region_size(region_class))
            block = int(table.chain[block])
    assert sorted(used_blocks + free_blocks) == list(range(1, state.blocks)), "blocks leak or are shared"
    assert (table.row_of >= 0).sum() + len(free_rows) == state.rows, "rows leak"
    return cells


def edges_of(index: Index, lists: Any) -> dict[tuple[int, int, int, int], int]:
    """Return the edges in the window as (vertex, class, other vertex, edge << 1 | against) -> slide."""
    classes = index.program.sizes.classes
    found = {}
    for i in range(len(lists.start)):
        for link in _entries(lists, i):
            edge = (link >> 1) & POINTER
            assert index.graph.is_linked[edge], f"edge {edge} is listed but not linked"
            slide = int(index.graph.expiry[edge])
            if slide > index.state.now:
                key = (i // classes, i % classes, link >> 32, link & 0xFFFFFFFF)
                assert key not in found, f"link {key} is listed twice"
                found[key] = slide
    return found


def _bottlenecks(index: Index, edges: Any) -> dict[tuple[int, int, int], int]:
    """Return the value that every cell must have: the largest over paths of the smallest slide of an edge."""
    program = index.program
    best: dict[tuple[int, int, int], int] = {}

    def offer(key, value, waiting):
        if index.settings.simple:
            comes_back = index.table.slot_vertex[key[2]] == key[0]
            if comes_back != (key[1] == program.sizes.closing):
                return  # a walk returns to its root only in the closing state
        if value > best.get(key, 0):
            best[key] = value
            waiting.append(key)

    waiting: list[tuple[int, int, int]] = []
    for (u, c, v, _), slide in edges.items():
        if program.start_target[c] >= 0 and index.table.is_root[u]:
            state = int(program.start_target[c])
            if u == v and index.settings.simple:
                if program.sizes.closing < 0 or not program.accepting[state]:
                    continue
                state = program.sizes.closing
            slot = int(index.table.slot_of[u])
            assert slot >= 0, f"root {u} has no slot"
            assert index.table.slot_vertex[slot] == u, f"slot {slot} is not the slot of {u}"
            offer((v, state, slot), slide, waiting)
    outgoing: dict[int, list[tuple[int, int, int]]] = {}
    for (u, c, v, _), slide in edges.items():
        outgoing.setdefault(u, []).append((c, v, slide))
    while waiting:
        u, s, slot = waiting.pop()
        for c, v, slide in outgoing.get(u, []):
            for leave in range(program.leave_first[s], program.leave_first[s + 1]):
                if program.leave_class[leave] == c:
                    offer((v, int(program.leave_target[leave]), slot), min(best[u, s, slot], slide), waiting)
    return best


def doubted_cells(index: Index) -> set[tuple[int, int, int]]:
    """Return (vertex, state, slot) of the cells in doubt."""
    found = set()
    for vertex, state, number, block in _blocks(index):
        bits = int(index.table.doubt[block])
        found |= {(vertex, state, number * LANES + lane) for lane in range(LANES) if bits >> lane & 1}
    return found


def _blocks(index: Index) -> Iterator[tuple[int, int, int, int]]:
    """Yield (vertex, state, block number, block) of the blocks of all rows."""
    table = index.table
    for row in range(index.state.rows):
        if table.node[row] < 0:
            continue
        if table.span[row] > 0:
            blocks = list(enumerate(range(int(table.base[row]), int(table.base[row]) + int(table.span[row]))))
        else:
            blocks = [(entry >> 32, entry & POINTER) for entry in _entries(table.directory, row)]
        for number, block in blocks:
            yield int(table.node[row]) >> 16, int(table.node[row]) & layout.STATE_BITS, number, block


def _check_doubt(index: Index, cells: Any, edges: Any) -> None:
    program, table = index.program, index.table
    doubted = doubted_cells(index)
    assert doubted <= set(cells), f"dead cells are in doubt: {doubted - set(cells)}"
    roots = table.conflicted_roots
    conflicted = {slot for slot in range(64 * len(roots)) if int(roots[slot >> 6]) >> (slot & 63) & 1}
    assert len(conflicted) == index.state.conflicted, "roots with conflicts are not counted"
    assert not (table.suspended_roots & ~table.conflicted_roots).any(), "a root is suspended and has no conflicts"
    assert {slot for _, _, slot in doubted} <= conflicted, "a root has cells in doubt and no conflict"
    at: dict[int, list[tuple[int, int]]] = {}
    for v, t, slot in cells:
        at.setdefault(v, []).append((t, slot))
    for u, c, v, _ in edges:
        for s, slot, t in [(state, root, t) for state, root in at.get(u, []) for t in _steps(program, state, c)]:
            if (v, t, slot) not in cells or (v, t, slot) in doubted:
                continue
            assert (u, s, slot) not in doubted, f"doubt stops at {(u, s, slot)} -> {(v, t)}"
            step = s * program.sizes.states + t
            earlier = program.earlier_state[program.earlier_first[step] : program.earlier_first[step + 1]].tolist()
            earlier += [s] if u == v and program.earlier_loop[step] else []
            assert not [r for r in earlier if (v, r, slot) in cells], f"a conflict at {(v, t, slot)} makes no doubt"


def _steps(program: Any, state: int, transition_class: int) -> list[int]:
    leaves = range(program.leave_first[state], program.leave_first[state + 1])
    return [int(program.leave_target[leave]) for leave in leaves if program.leave_class[leave] == transition_class]


def check_index(index: Index) -> None:
    """Assert that storage is consistent, that every cell is the bottleneck of its paths, that supports found it, and
    that doubt is closed."""
    state, table, program = index.state, index.table, index.program
    assert state.phase == layout.IDLE, "a tuple is half done"
    assert (index.queue.head == -1).all(), "the queue is not empty"
    cells = stored_cells(index)
    edges = edges_of(index, index.graph.out)
    expected = _bottlenecks(index, edges)
    assert {key: value for key, (value, _) in cells.items()} == expected, "cells are not the bottlenecks"
    used = [slot for slot in range(state.slots) if table.slot_vertex[slot] >= 0]
    free = free_slots(index)
    assert sorted(used + free) == list(range(state.slots)), "slots leak or are shared"
    if not len(table.hops):
        return
    if len(table.doubt):
        _check_doubt(index, cells, edges)
    backwards = edges_of(index, index.graph.into)
    mirrored = {(v, c, u, link): slide for (u, c, v, link), slide in edges.items()}
    assert backwards == mirrored, "in-edges are not the out-edges turned round"
    assert not table.suspect[: state.blocks].any(), "a cell is suspect between tuples"
    assert not table.removed_cells[: state.blocks].any(), "a cell is noted as removed between tuples"
    if len(table.new_doubt):
        blocks = [block for *_, block in _blocks(index)]  # a free block may have been released in the middle of a tuple
        assert not table.new_doubt[blocks].any(), "a cell is noted as newly doubted between tuples"
    arriving: dict[int, list[tuple[int, int, int]]] = {}
    for (w, c, v, _), slide in edges.items():
        arriving.setdefault(v, []).append((w, c, slide))
    for (v, t, slot), (value, hops) in cells.items():
        if hops == SATURATED:
            continue
        supported = False
        for w, c, slide in arriving[v]:
            if slide < value:
                continue
            first = int(program.start_target[c])
            closes = t == program.sizes.closing and first >= 0 and program.accepting[first] and w == v
            if (first == t or closes) and table.slot_of[w] == slot:
                supported = True
            for step in range(program.step_first[c], program.step_first[c + 1]):
                if program.step_target[step] == t:
                    support, support_hops = cells.get((w, int(program.step_source[step]), slot), (0, 0))
                    supported |= support > value or (support == value and support_hops < hops)
        assert supported, f"cell {(v, t, slot)} = {(value, hops)} has no support"
