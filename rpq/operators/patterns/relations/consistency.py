"""The structural invariants of relations, for the tests: in plain Python, slow and simple."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rpq.compiled.views import view
from rpq.operators.patterns import tables
from rpq.operators.patterns.relations.edges import find_labelled, hash_of
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.relations.wheel import LEVELS, NEVER, SLOTS_A_LEVEL, SLOTS_A_WINDOW
from rpq.operators.patterns.tables import BITS, IN, NO_LABEL, NONE, OUT, Relations
from rpq.stream.edges.outcomes import NOT_HELD


def check(store: RelationStore) -> None:
    """Assert that records, lists, hash table and wheels hold exactly the edges of the store. O(everything)."""
    relations = store.relations
    edges = _edges(relations)
    _check_table(relations, edges)
    _check_lists(relations, edges)
    _check_wheels(relations, edges)


def pairs_of(store: RelationStore, relation: int) -> set[tuple[int, int]]:
    """Return the edges of a relation: their sources and targets. O(edges of all relations)."""
    return {(source, target) for number, source, target, _ in _edges(store.relations).values() if number == relation}


_Edges = dict[int, tuple[int, int, int, int]]
"""By their numbers: relation, source, target, and label."""


def _edges(relations: Relations) -> _Edges:
    """Return the edges; assert that all other edges are free."""
    state = relations.state
    records = relations.edge
    assert len(records) == state.edge_room, "the kernels have another edge capacity than the array"
    free, at = set(), state.free_edge
    while at:
        assert at not in free, f"edge {at} is free twice"
        free.add(at)
        at = int(records["next"][at])
    found = {}
    for edge in range(1, state.edges):
        relation = int(records["relation"][edge])
        assert (relation == NONE) == (edge in free), f"edge {edge} of relation {relation} is free or not"
        if relation != NONE:
            label = int(records["place"][edge, OUT]) if relations.relation["has_labels"][relation] else NO_LABEL
            assert (label >= 0) == relations.relation["has_labels"][relation], f"edge {edge} has the label {label}"
            found[edge] = relation, int(records["source"][edge]), int(records["target"][edge]), label
    assert len(set(found.values())) == len(found), "an edge is there twice"
    assert state.live_edges == len(found), f"{len(found)} edges, {state.live_edges} counted"
    for number, fields in enumerate(relations.relation):
        count = sum(relation == number for relation, *_ in found.values())
        counted = int(fields["edges"])
        assert counted == count, f"relation {number} has {count} edges, {counted} counted"
        expires = records["expires"]
        mine = [edge for edge, (relation, *_) in found.items() if relation == number]
        alone = [edge for edge in mine if expires[edge] == NOT_HELD]
        assert all(records["is_static"][edge] for edge in alone), "an edge that is not static is in no window"
        assert fields["static_alone"] == len(alone), f"relation {number}: {len(alone)} edges are static alone"
    return found


def _check_table(relations: Relations, edges: _Edges) -> None:
    entries = [int(entry) for entry in relations.table if entry]
    assert sorted(entry & tables.LOW for entry in entries) == sorted(edges), "the hash table has other edges"
    assert 2 * len(entries) <= len(relations.table), "the hash table is too full"
    for entry in entries:
        edge = entry & tables.LOW
        assert entry >> 32 == hash_of(*edges[edge]), f"edge {edge} has another hash in the table"
        assert find_labelled(view(relations), *edges[edge]) == edge, f"edge {edge} is not found"


def _check_lists(relations: Relations, edges: _Edges) -> None:
    """Assert that the lists of relations' sides and support lists are correct, and fill the arena without gaps."""
    state = relations.state
    assert state.arena == state.stride * state.vertices, "the arena is not behind the records"
    regions = []
    for size_class in range(tables.CLASSES):
        start = int(relations.free[size_class])
        while start != NONE:
            regions.append((start, size_class, "nobody"))
            start = int(relations.lists[state.arena + start])
    for number, fields in enumerate(relations.relation):
        for side in (OUT, IN):
            header = tuple(int(fields[name][side]) for name in ("cell", "word", "bit"))
            if header[0] != NONE:
                expected = _entries(edges, number, side, lambda vertex: True)
                regions += _check_header(relations, header, expected, relations.edge["place"][:, side])
    support_place = relations.support_place.reshape(len(relations.edge), -1)
    for atom in _supported_atoms(relations):
        fields = relations.support[atom]
        for end in (0, 1):
            header = int(fields["cell"][end]), int(fields["word"]), int(fields["bit"][end])
            away, word = int(fields["other_bits"][1 - end]), header[1]

            def is_supported(vertex: int, away: int = away, word: int = word) -> bool:
                return int(relations.lists[vertex * state.stride + word]) & away == away

            expected = _entries(edges, int(fields["relation"]), end, is_supported)
            regions += _check_header(relations, header, expected, support_place[:, fields["place"][end]])
    at = 0
    for start, size_class, owner in sorted(regions):
        assert start == at, f"the region of {owner} begins at {start}, the one before it ends at {at}"
        at = start + (1 << size_class)
    assert at == state.arena_top, f"regions end at {at}, the arena was given out up to {state.arena_top}"


def _supported_atoms(relations: Relations) -> list[int]:
    found = []
    for fields in relations.relation:
        atom = int(fields["first_support"])
        while atom != NONE:
            found.append(atom)
            atom = int(relations.support["next"][atom])
    return found


def _entries(
    edges: _Edges, number: int, side: int, is_supported: Callable[[int], bool]
) -> dict[int, list[tuple[int, int]]]:
    """Return a mapping from vertex to its neighbours on one side of a relation, with their edges."""
    found: dict[int, list[tuple[int, int]]] = {}
    for edge, (relation, source, target, _) in edges.items():
        near, far = (source, target) if side == OUT else (target, source)
        if relation == number and is_supported(far):
            found.setdefault(near, []).append((far, edge))
    return found


def _check_header(
    relations: Relations, header: tuple[int, ...], expected: dict[int, list[tuple[int, int]]], places: np.ndarray
) -> list[tuple[int, int, str]]:
    """Assert that the lists under a header hold the expected entries, at the places in the edges; return their regions."""
    cell, word, bit = header
    assert cell % (BITS + 1) == bit.bit_length(), f"header {cell} has bit {bit}"
    assert word == cell - cell % (BITS + 1), f"header {cell} has word {word}"
    stride, arena = relations.state.stride, relations.state.arena
    regions = []
    for vertex in range(relations.state.vertices):
        value = int(relations.lists[vertex * stride + cell])
        listed = [value] if value > 0 else []
        if value < 0:
            region, length = (~value >> 32) * 2, ~value & tables.LENGTH
            size_class = (~value >> tables.CLASS_SHIFT) & tables.CLASS
            regions.append((region, size_class, f"vertex {vertex}, header {cell}"))
            assert 0 < length <= 1 << size_class, f"a list of {length} in a region of class {size_class}"
            listed = [int(entry) for entry in relations.lists[arena + region : arena + region + length]]
        entries = [(entry >> 32, entry & tables.LOW) for entry in listed]
        assert sorted(entries) == sorted(expected.get(vertex, [])), f"vertex {vertex} has another list under header {cell}"
        for place, (_, edge) in enumerate(entries):
            assert places[edge] == place, f"edge {edge} is at {place} under header {cell}, not where it says"
        has_bit = int(relations.lists[vertex * stride + word]) & bit != 0
        assert has_bit == bool(entries), f"vertex {vertex} has the bit of header {cell} or not"
    return regions


def _check_wheels(relations: Relations, edges: _Edges) -> None:
    records = relations.edge
    waiting = {edge for edge in edges if records["expires"][edge] not in (NEVER, NOT_HELD)}
    for number, fields in enumerate(relations.window):
        if fields["kind"] == tables.UNBOUNDED:
            continue
        cursor, first = int(fields["cursor"]), int(fields["first_slot"])
        for slot in range(first, first + SLOTS_A_WINDOW):
            before, edge = -1 - slot, int(relations.slots[slot])
            while edge:
                expires = int(records["expires"][edge])
                level = next(n for n in range(LEVELS) if n == LEVELS - 1 or expires >> 8 * (n + 1) == cursor >> 8 * (n + 1))
                place = (expires >> 8 * level) + (128 if level == LEVELS - 1 else 0)
                assert slot - first == level * SLOTS_A_LEVEL + place % SLOTS_A_LEVEL, f"edge {edge} waits in slot {slot}"
                assert expires >= max(cursor, int(fields["earliest"])), f"edge {edge} should have left at {expires}"
                assert relations.relation["window"][edges[edge][0]] == number, f"edge {edge} is of another window"
                assert records["previous"][edge] == before, f"edge {edge} comes after {before}"
                waiting.remove(edge)
                before, edge = edge, int(records["next"][edge])
    assert not waiting, f"edges {waiting} never leave"
