"""The structural invariants of relations, for the tests: plain Python, slow, obvious."""

from __future__ import annotations

from rpq.patterns import tables
from rpq.patterns.edge_table import find, hash_of
from rpq.patterns.relation import RelationStore
from rpq.patterns.tables import BITS, IN, NONE, OUT, Relations
from rpq.patterns.wheel import LEVELS, NEVER, SLOTS_A_LEVEL, SLOTS_A_WINDOW
from rpq.views import view


def check(store: RelationStore) -> None:
    """Assert that records, lists, hash table and wheels hold exactly the edges that are there. O(everything)."""
    held = store.relations
    edges = _edges(held)
    _check_table(held, edges)
    _check_lists(held, edges)
    _check_wheels(held, edges)


def _edges(held: Relations) -> dict[int, tuple[int, int, int]]:
    """Edge -> (relation, source, target); asserts that all others are free."""
    state = held.state
    records = held.edge.reshape(-1, tables.EDGE)
    assert len(records) == state[tables.EDGE_ROOM], "the kernels are told another number of edges than there are"
    free, at = set(), int(state[tables.FREE_EDGE])
    while at:
        assert at not in free, f"edge {at} is free twice"
        free.add(at)
        at = int(records[at, tables.NEXT])
    found = {}
    for edge in range(1, int(state[tables.EDGES])):
        relation = int(records[edge, tables.RELATION])
        assert (relation == NONE) == (edge in free), f"edge {edge} of relation {relation} is free or not"
        if relation != NONE:
            found[edge] = relation, int(records[edge, tables.SOURCE]), int(records[edge, tables.TARGET])
    assert len(set(found.values())) == len(found), "an edge is there twice"
    assert state[tables.LIVE] == len(found), f"{len(found)} edges, {state[tables.LIVE]} counted"
    for number, fields in enumerate(held.relation.reshape(-1, tables.RELATION_FIELDS)):
        count = sum(relation == number for relation, _, _ in found.values())
        assert fields[tables.EDGES_HELD] == count, f"relation {number} has {count} edges, {fields[tables.EDGES_HELD]} counted"
    return found


def _check_table(held: Relations, edges: dict[int, tuple[int, int, int]]) -> None:
    entries = [int(entry) for entry in held.table if entry]
    assert sorted(entry & tables.LOW for entry in entries) == sorted(edges), "the hash table has other edges"
    assert 2 * len(entries) <= len(held.table), "the hash table is too full"
    for entry in entries:
        edge = entry & tables.LOW
        assert entry >> 32 == hash_of(*edges[edge]), f"edge {edge} has another hash in the table"
        assert find(view(held), *edges[edge]) == edge, f"edge {edge} is not found"


def _check_lists(held: Relations, edges: dict[int, tuple[int, int, int]]) -> None:
    state, records = held.state, held.edge.reshape(-1, tables.EDGE)
    stride, vertices, arena = (int(state[i]) for i in (tables.STRIDE, tables.VERTICES, tables.ARENA))
    assert arena == stride * vertices, "the arena does not begin behind the records"
    regions = []
    for size_class in range(tables.CLASSES):
        start = int(held.free[size_class])
        while start != NONE:
            regions.append((start, size_class, "free"))
            start = int(held.lists[arena + start])
    kept = 0
    for number, fields in enumerate(held.relation.reshape(-1, tables.RELATION_FIELDS)):
        for side in (OUT, IN):
            cell, word, bit = (int(fields[field + side]) for field in (tables.CELL, tables.WORD, tables.BIT))
            if cell == NONE:
                continue
            kept += 1
            assert cell % (BITS + 1) == bit.bit_length(), f"header {cell} has bit {bit}"
            assert word == cell - cell % (BITS + 1), f"header {cell} has word {word}"
            wanted: dict[int, set[tuple[int, int]]] = {}
            for edge, (relation, source, target) in edges.items():
                if relation == number:
                    near, far = (source, target) if side == OUT else (target, source)
                    wanted.setdefault(near, set()).add((far, edge))
            for vertex in range(vertices):
                header = int(held.lists[vertex * stride + cell])
                listed = [header] if header > 0 else []
                if header < 0:
                    region, size_class, length = (~header >> 32) * 2, (~header >> tables.CLASS_SHIFT) & tables.CLASS, ~header & tables.LENGTH
                    regions.append((region, size_class, f"vertex {vertex}, header {cell}"))
                    assert 0 < length <= 1 << size_class, f"a list of {length} in a region of class {size_class}"
                    listed = [int(entry) for entry in held.lists[arena + region : arena + region + length]]
                entries = [(entry >> 32, entry & tables.LOW) for entry in listed]
                assert sorted(entries) == sorted(wanted.get(vertex, ())), f"vertex {vertex} has another list of relation {number}"
                for place, (_, edge) in enumerate(entries):
                    assert records[edge, tables.PLACE + side] == place, f"edge {edge} is at {place}, not where it says"
                has_bit = int(held.lists[vertex * stride + word]) & bit != 0
                assert has_bit == bool(entries), f"vertex {vertex} has a bit of relation {number} or not"
    assert kept == state[tables.SIDES_KEPT], "sides are kept that are not counted"
    end = 0
    for start, size_class, owner in sorted(regions):
        assert start == end, f"the region of {owner} begins at {start}, the one before it ends at {end}"
        end = start + (1 << size_class)
    assert end == state[tables.ARENA_TOP], f"regions end at {end}, the arena was given out up to {state[tables.ARENA_TOP]}"


def _check_wheels(held: Relations, edges: dict[int, tuple[int, int, int]]) -> None:
    records, long = held.edge.reshape(-1, tables.EDGE), held.long.reshape(-1, tables.EDGE_LONG)
    relation_fields = held.relation.reshape(-1, tables.RELATION_FIELDS)
    waiting = {edge for edge in edges if long[edge, tables.EXPIRES] != NEVER}
    for number, fields in enumerate(held.window.reshape(-1, tables.WINDOW_FIELDS)):
        if fields[tables.KIND] == tables.UNBOUNDED:
            continue
        cursor, first = int(fields[tables.CURSOR]), int(fields[tables.FIRST_SLOT])
        for slot in range(first, first + SLOTS_A_WINDOW):
            before, edge = -1 - slot, int(held.slots[slot])
            while edge:
                expires = int(long[edge, tables.EXPIRES])
                level = next(n for n in range(LEVELS) if n == LEVELS - 1 or expires >> 8 * (n + 1) == cursor >> 8 * (n + 1))
                place = (expires >> 8 * level) + (128 if level == LEVELS - 1 else 0)
                assert slot - first == level * SLOTS_A_LEVEL + place % SLOTS_A_LEVEL, f"edge {edge} waits in slot {slot}"
                assert expires >= max(cursor, int(fields[tables.EARLIEST])), f"edge {edge} should have left at {expires}"
                assert relation_fields[edges[edge][0], tables.WINDOW] == number, f"edge {edge} is of another window"
                assert records[edge, tables.PREVIOUS] == before, f"edge {edge} comes after {before}"
                waiting.remove(edge)
                before, edge = edge, int(records[edge, tables.NEXT])
    assert not waiting, f"edges {waiting} never leave"
