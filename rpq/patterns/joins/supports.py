"""Support lists: for an atom and an end, a vertex's neighbours that are themselves supported further on.

The delta join searches in vain through a tree that leads through hubs to a rare condition: of a thousand neighbours one
leads on, and look-ahead sees one atom far. So for atoms that make up a spanning tree of a pattern, and for both ends,
each vertex gets the list of those neighbours that have, at their own variable, a non-empty list for every other atom
of the tree there. The length of such a list is the counter of the dynamic Yannakakis algorithm (Idris et al. 2017);
with a list in place of a counter, the join walks only what leads somewhere.

The lists lie in vertex records like the lists of relations, all those of a pattern under the bits of one word: whether a
vertex is supported but for one atom is one comparison. The join uses them through the same tables.

A change spreads while lists become empty or cease to be. An edge is added to (or removed from) one atom after the
other; atoms of the same relation whose turn has not come do not see it yet (or any more). The walk has a stack of its
own, one frame a variable, so that adding can stop where the arena is full. Each entry is added and removed once for
each time its neighbour gains or loses support: at worst the degree of a hub, at each flip.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.patterns import tables
from rpq.patterns.joins.plan import Part, spanning_tree
from rpq.patterns.relations.adjacency import add_at, remove_at, reserve_at, span
from rpq.patterns.relations.relation import RelationStore
from rpq.patterns.tables import (
    ARENA,
    BITS,
    CELL,
    DONE,
    EDGE,
    EDGES,
    IN,
    LINK,
    LINK_END,
    LOW,
    NEED_ARENA,
    NONE,
    OUT,
    PLACES,
    RELATION,
    RELATION_FIELDS,
    SOURCE,
    STRIDE,
    SUPPORT,
    SUPPORT_AT,
    SUPPORT_AWAY,
    SUPPORT_BIT,
    SUPPORT_CELL,
    SUPPORT_DEPTH,
    SUPPORT_FIELDS,
    SUPPORT_FRAME,
    SUPPORT_LINK,
    SUPPORT_LINK_END,
    SUPPORT_NEXT,
    SUPPORT_PLACE,
    SUPPORT_RELATION,
    SUPPORT_STAGE,
    SUPPORT_WORD,
    SUPPORT_WORK,
    TARGET,
    WALK_END,
    WALK_OWN,
    WALK_POSITION,
    WALK_VERTEX,
)

# The progress on an atom, in SUPPORT_STAGE.
_NOTHING = 0
_ASKED = 4  # + 1: the source is supported away from the atom, + 2: the target


@njit(cache=True, nogil=True, forceinline=True)
def _is_supported(relations, atom, end, vertex, own):
    """Return whether all lists at an end's variable but the atom's own are non-empty; the bit `own` counts as set."""
    away = relations.support[atom * SUPPORT_FIELDS + SUPPORT_AWAY + end]
    word = vertex * relations.state[STRIDE] + relations.support[atom * SUPPORT_FIELDS + SUPPORT_WORD]
    return (relations.lists[word] | own) & away == away


@njit(cache=True, nogil=True, forceinline=True)
def _change_list(relations, atom, end, vertex, neighbour, edge, comes):
    """Add an edge to an atom's list of a vertex, or remove it.

    Returns 1 if the list was or became empty, 0 if not, -1 without room.
    """
    base = atom * SUPPORT_FIELDS
    support, places = relations.support, relations.support_place
    record = vertex * relations.state[STRIDE]
    cell, word = record + support[base + SUPPORT_CELL + end], record + support[base + SUPPORT_WORD]
    bit = support[base + SUPPORT_BIT + end]
    column = support[base + SUPPORT_PLACE + end]
    stride = relations.state[PLACES]
    support[base + SUPPORT_WORK] += 1
    if comes:
        if not reserve_at(relations, cell):
            return np.int64(-1)
        first = relations.lists[cell] == 0
        places[edge * stride + column] = add_at(relations, cell, word, bit, neighbour << 32 | edge)
        return np.int64(1 if first else 0)
    place = np.int64(places[edge * stride + column])
    moved, left = remove_at(relations, cell, word, bit, place)
    if moved != 0:
        places[(moved & LOW) * stride + column] = place
    return np.int64(1 if left == 0 else 0)


@njit(cache=True, nogil=True, forceinline=True)
def _descend(relations, atom, end, vertex):
    """Push a frame for the lists that depend on one which became empty or ceased to be."""
    stack, base = relations.support_stack, atom * SUPPORT_FIELDS
    frame = relations.state[SUPPORT_DEPTH] * SUPPORT_FRAME
    relations.state[SUPPORT_DEPTH] += 1
    stack[frame + LINK] = relations.support[base + SUPPORT_LINK + end]
    stack[frame + LINK_END] = relations.support[base + SUPPORT_LINK_END + end]
    stack[frame + WALK_POSITION] = stack[frame + WALK_END] = 0
    stack[frame + WALK_VERTEX] = vertex
    stack[frame + WALK_OWN] = relations.support[base + SUPPORT_BIT + end]


@njit(cache=True, nogil=True)
def _spread(relations, current, edge, comes):
    """Change the lists that depend on those that changed, through the whole tree; return DONE or NEED_ARENA."""
    stack, support, state = relations.support_stack, relations.support, relations.state
    while state[SUPPORT_DEPTH] > 0:
        frame = (state[SUPPORT_DEPTH] - 1) * SUPPORT_FRAME
        vertex = stack[frame + WALK_VERTEX]
        if stack[frame + WALK_POSITION] < stack[frame + WALK_END]:
            entry = relations.lists[stack[frame + WALK_POSITION]]
            link = relations.support_link[stack[frame + LINK] - 1]
            atom, end = link >> 1, link & 1
            # The changing edge is in its relation: an atom whose turn has not come must not see it yet, and when it goes
            # one whose turn has come must not see it any more.
            if entry & LOW != edge or (atom <= current if comes else atom > current):
                changed = _change_list(relations, atom, 1 - end, entry >> 32, vertex, entry & LOW, comes)
                if changed < 0:
                    return np.int64(NEED_ARENA)
                if changed > 0:
                    stack[frame + WALK_POSITION] += 1
                    _descend(relations, atom, 1 - end, entry >> 32)
                    continue
            stack[frame + WALK_POSITION] += 1
        elif stack[frame + LINK] < stack[frame + LINK_END]:
            link = relations.support_link[stack[frame + LINK]]
            stack[frame + LINK] += 1
            atom, end = link >> 1, link & 1
            own = np.int64(0) if comes else stack[frame + WALK_OWN]
            if _is_supported(relations, atom, end, vertex, own):
                relation = support[atom * SUPPORT_FIELDS + SUPPORT_RELATION]
                cell = vertex * state[STRIDE] + relations.relation[relation * RELATION_FIELDS + CELL + end]
                stack[frame + WALK_POSITION], stack[frame + WALK_END] = span(relations.lists, state[ARENA], cell)
        else:
            state[SUPPORT_DEPTH] -= 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def change_supports(relations, edge, comes):
    """Change the support lists for an edge that entered its relation or is about to leave it.

    Returns DONE, or NEED_ARENA, which happens only if the edge enters.
    """
    state, support = relations.state, relations.support
    source = np.int64(relations.edge[edge * EDGE + SOURCE])
    target = np.int64(relations.edge[edge * EDGE + TARGET])
    if state[SUPPORT_AT] < 0:
        relation = np.int64(relations.edge[edge * EDGE + RELATION])
        state[SUPPORT_AT] = relations.relation[relation * RELATION_FIELDS + SUPPORT]
        state[SUPPORT_STAGE] = _NOTHING
        state[SUPPORT_DEPTH] = 0
    while state[SUPPORT_AT] >= 0:
        atom = state[SUPPORT_AT]
        code = _spread(relations, atom, edge, comes)
        if code != DONE:
            return code
        if state[SUPPORT_STAGE] == _NOTHING:
            asked = np.int64(_ASKED)
            if _is_supported(relations, atom, 0, source, np.int64(0)):
                asked += 1
            if _is_supported(relations, atom, 1, target, np.int64(0)):
                asked += 2
            state[SUPPORT_STAGE] = asked
        asked = state[SUPPORT_STAGE]
        if asked & 1:
            changed = _change_list(relations, atom, 1, target, source, edge, comes)
            if changed < 0:
                return np.int64(NEED_ARENA)
            state[SUPPORT_STAGE] = asked & ~1
            if changed > 0:
                _descend(relations, atom, 1, target)
            continue
        if asked & 2:
            changed = _change_list(relations, atom, 0, source, target, edge, comes)
            if changed < 0:
                return np.int64(NEED_ARENA)
            state[SUPPORT_STAGE] = asked & ~2
            if changed > 0:
                _descend(relations, atom, 0, source)
            continue
        state[SUPPORT_AT] = support[atom * SUPPORT_FIELDS + SUPPORT_NEXT]
        state[SUPPORT_STAGE] = _NOTHING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def fill_support(relations, atom, end):
    """Fill an atom's lists at one end, after the lists that they depend on.

    Returns False without room; the lists are to be cleared then.
    """
    edges = relations.edge
    relation = relations.support[atom * SUPPORT_FIELDS + SUPPORT_RELATION]
    for edge in range(1, relations.state[EDGES]):
        if edges[edge * EDGE + RELATION] == relation:
            near, far = np.int64(edges[edge * EDGE + SOURCE + end]), np.int64(edges[edge * EDGE + TARGET - end])
            supported = _is_supported(relations, atom, 1 - end, far, np.int64(0))
            if supported and _change_list(relations, atom, end, near, far, edge, True) < 0:
                return False
    return True


class Header(NamedTuple):
    """The place of a list's header in a vertex record: its offset, the offset of its word of bits, and its bit."""

    cell: int
    word: int
    bit: int


class Tree(NamedTuple):
    """The support lists of one part: atom `atoms[i]` of the pattern has the lists of atom `first + i` in the tables."""

    part: Part
    atoms: tuple[int, ...]
    first: int
    headers: tuple[tuple[Header, Header], ...]

    def header(self, atom: int, end: int) -> Header | None:
        """Return the header of an atom's list at an end, or None if the atom has no list."""
        return self.headers[self.atoms.index(atom)][end] if atom in self.atoms else None

    def bits(self, variable: str, *, except_atom: int | None = None) -> dict[int, int]:
        """Return by word the bits of all lists at a variable, except those of `except_atom`."""
        found: dict[int, int] = {}
        for number, atom in enumerate(self.atoms):
            for end, term in enumerate((self.part.atoms[atom].source, self.part.atoms[atom].target)):
                if term == variable and atom != except_atom:
                    header = self.headers[number][end]
                    found[header.word] = found.get(header.word, 0) | header.bit
        return found


def can_have_supports(part: Part) -> bool:
    """Return whether a part has lists at all, and their bits fit into one word."""
    return len(part.atoms) > 1 and 0 < 2 * len(spanning_tree(part)) <= BITS


class SupportTables:
    """The support lists of all parts of a store."""

    def __init__(self, store: RelationStore) -> None:
        self.store = store
        self._trees: list[Tree] = []
        self._free: dict[int, list[Tree]] = {}

    def add(self, part: Part) -> Tree:
        """Keep support lists for a part from now on. O(its atoms × (edges + vertices))."""
        atoms = spanning_tree(part)
        for atom in atoms:
            for side in (OUT, IN):
                self.store.keep_side(part.atoms[atom].relation, side)
        if self._free.get(len(atoms)):
            old = self._free[len(atoms)].pop()
            tree = old._replace(part=part, atoms=atoms)
        else:
            first = len(self.store.relations.support) // SUPPORT_FIELDS
            headers = [Header(*header) for header in self.store.take_headers(2 * len(atoms))]
            pairs = tuple(zip(headers[::2], headers[1::2], strict=True))
            tree = Tree(part, atoms, first, pairs)
            self.store.make_room_for_supports(first + len(atoms))
        self._trees.append(tree)
        self._write()
        self._fill(tree)
        return tree

    def take_work(self, tree: Tree) -> int:
        """Return how often the lists of a tree have changed since this was last called."""
        rows = self.store.relations.support[tree.first * SUPPORT_FIELDS :][: len(tree.atoms) * SUPPORT_FIELDS]
        work = int(rows[tables.SUPPORT_WORK :: SUPPORT_FIELDS].sum())
        rows[tables.SUPPORT_WORK :: SUPPORT_FIELDS] = 0
        return work

    def remove(self, tree: Tree) -> None:
        """Drop the support lists of a tree. O(its lists + vertices)."""
        self._trees.remove(tree)
        self.store.clear_headers([header for pair in tree.headers for header in pair])
        self._free.setdefault(len(tree.atoms), []).append(tree)
        self._write()

    def _write(self) -> None:
        """Write all trees into the tables."""
        relation_fields = self.store.relations.relation
        relation_fields[tables.SUPPORT :: tables.RELATION_FIELDS] = NONE
        support = self.store.relations.support
        links: list[int] = []
        for tree in self._trees:
            part = tree.part
            # An edge is added to the atoms of its relation in ascending order: chains are extended at their heads.
            for number, atom in reversed(list(enumerate(tree.atoms))):
                source, relation, target = part.atoms[atom]
                row = support[(tree.first + number) * SUPPORT_FIELDS :][:SUPPORT_FIELDS]
                chain = relation * tables.RELATION_FIELDS + tables.SUPPORT
                row[tables.SUPPORT_NEXT] = relation_fields[chain]
                relation_fields[chain] = tree.first + number
                row[tables.SUPPORT_RELATION] = relation
                for end, variable in enumerate((source, target)):
                    assert isinstance(variable, str)
                    header = tree.headers[number][end]
                    row[tables.SUPPORT_CELL + end], row[tables.SUPPORT_WORD], row[tables.SUPPORT_BIT + end] = header
                    row[tables.SUPPORT_AWAY + end] = sum(tree.bits(variable, except_atom=atom).values())
                    row[tables.SUPPORT_PLACE + end] = 2 * (tree.first + number) + end
                    row[tables.SUPPORT_LINK + end] = len(links)
                    for other, held in enumerate(tree.atoms):
                        ends = part.atoms[held].source, part.atoms[held].target
                        if held != atom and variable in ends:
                            links.append(2 * (tree.first + other) + ends.index(variable))
                    row[tables.SUPPORT_LINK_END + end] = len(links)
        self.store.relations = self.store.relations._replace(support_link=np.array(links or [0], np.int64))

    def _fill(self, tree: Tree) -> None:
        """Fill the lists of a tree from the edges that are present, each list after those that it depends on."""
        waiting = [(number, end) for number in range(len(tree.atoms)) for end in (0, 1)]
        while waiting:
            for number, end in waiting:
                atom = tree.part.atoms[tree.atoms[number]]
                far = (atom.target, atom.source)[end]
                # It depends on the lists of the other atoms at its far end: theirs at that very variable.
                asked = {
                    (other, side)
                    for other, held in enumerate(tree.atoms)
                    for side, term in enumerate((tree.part.atoms[held].source, tree.part.atoms[held].target))
                    if other != number and term == far
                }
                if not asked & set(waiting):
                    break
            else:
                raise AssertionError("a tree has a cycle")
            waiting.remove((number, end))
            while not fill_support(view(self.store.relations), tree.first + number, end):
                self.store.clear_headers([tree.headers[number][end]])
                self.store.grow(tables.NEED_ARENA)
