"""Support lists: for an atom and an end, a vertex's neighbours that are themselves supported further on.

The delta join does much futile work where atoms lead through hubs to a rare condition: of a thousand neighbours only one
leads on, and look-ahead checks only the next atom. So for the atoms of a spanning tree of a pattern, and for both ends, each
vertex gets the list of those neighbours that have, at their own variable, a non-empty list for every other atom of the tree
there. The length of such a list is the counter of the dynamic Yannakakis algorithm (Idris et al. 2017). With a list in place
of a counter, the join visits only neighbours that lead on.

The lists are stored in vertex records like the lists of relations. Those of one pattern have their bits in one word, so one
comparison shows whether a vertex is supported by all atoms but one. The join uses them through the same tables.

A change spreads as long as lists become empty or cease to be empty. An edge is added to (or removed from) one atom after the
other; atoms of the same relation whose turn has not come do not see it yet (or still see it). The walk has a stack of its
own, with one frame a variable, so that adding can stop when the arena is full. Each entry is added or removed once for each
time its neighbour gains or loses support: at worst the degree of a hub, at each change of its support.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.plan import Component, spanning_tree
from rpq.operators.patterns.relations.adjacency import add_at, place_of, remove_at, reserve_at, span
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import BITS, DONE, IN, LOW, NEED_ARENA, NONE, OUT

# The progress on an atom, in `support_stage`.
_NOT_BEGUN = 0
_ENDS = 4  # + 1: the other atoms support the source, + 2: they support the target


@njit(cache=True, nogil=True, forceinline=True)
def _is_supported(relations, atom, end, vertex, extra_bit):
    """Return whether all lists at an end's variable, except that of the atom, are non-empty. `extra_bit` counts as set."""
    support = relations.support[atom]
    bits = relations.lists[place_of(relations, vertex, support.word)] | extra_bit
    return bits & support.other_bits[end] == support.other_bits[end]


@njit(cache=True, nogil=True, forceinline=True)
def _place_in_list(relations, support, end, edge):
    """Return the index in `support_place` of the place of an edge in an atom's lists at one end."""
    return edge * relations.state.places + support.place[end]


@njit(cache=True, nogil=True, forceinline=True)
def _change_list(relations, atom, end, vertex, neighbour, edge, enters):
    """Add an edge to an atom's list of a vertex (`enters`), or remove it.

    Return 1 if the list was empty before or is empty now, 0 if not, -1 without room.
    """
    support, places = relations.support[atom], relations.support_place
    cell, word = place_of(relations, vertex, support.cell[end]), place_of(relations, vertex, support.word)
    at = _place_in_list(relations, support, end, edge)
    support.work += 1
    if enters:
        if not reserve_at(relations, cell):
            return np.int64(-1)
        was_empty = relations.lists[cell] == 0
        places[at] = add_at(relations, cell, word, support.bit[end], neighbour << 32 | edge)
        return np.int64(1 if was_empty else 0)
    place = np.int64(places[at])
    moved, remaining = remove_at(relations, cell, word, support.bit[end], place)
    if moved != 0:
        places[_place_in_list(relations, support, end, moved & LOW)] = place
    return np.int64(1 if remaining == 0 else 0)


@njit(cache=True, nogil=True, forceinline=True)
def _descend(relations, atom, end, vertex):
    """Push a frame for the lists that depend on a list which became empty or ceased to be empty."""
    support, frame = relations.support[atom], relations.support_stack[relations.state.support_depth]
    relations.state.support_depth += 1
    frame.link = support.link[end]
    frame.link_end = support.link_end[end]
    frame.position = frame.end = 0
    frame.vertex = vertex
    frame.bit = support.bit[end]


@njit(cache=True, nogil=True)
def _spread(relations, current, edge, enters):
    """Change the lists that depend on changed lists, through the whole tree. Return DONE or NEED_ARENA."""
    state = relations.state
    # The stack is all that is left: a frame stands for the entries from `position` to `end` of the link before `link`, and
    # for the links from `link` on. Without room the entry at `position` has not changed a list, so the call resumes with it.
    while state.support_depth > 0:
        frame = relations.support_stack[state.support_depth - 1]
        vertex = frame.vertex
        if frame.position < frame.end:
            entry = relations.lists[frame.position]
            link = relations.support_link[frame.link - 1]
            atom, end = link >> 1, link & 1
            # The changing edge is in its relation. If it enters, an atom whose turn has not come must not see it; if it
            # leaves, an atom whose turn has come must not see it.
            if entry & LOW != edge or (atom <= current if enters else atom > current):
                changed = _change_list(relations, atom, 1 - end, entry >> 32, vertex, entry & LOW, enters)
                if changed < 0:
                    return np.int64(NEED_ARENA)
                if changed > 0:
                    frame.position += 1
                    _descend(relations, atom, 1 - end, entry >> 32)
                    continue
            frame.position += 1
        elif frame.link < frame.link_end:
            link = relations.support_link[frame.link]
            frame.link += 1
            atom, end = link >> 1, link & 1
            extra_bit = np.int64(0) if enters else frame.bit
            if _is_supported(relations, atom, end, vertex, extra_bit):
                relation = relations.relation[relations.support[atom].relation]
                frame.position, frame.end = span(relations, vertex, relation.cell[end])
        else:
            state.support_depth -= 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def change_supports(relations, edge, enters):
    """Change the support lists for an edge that has entered its relation (`enters`) or is about to leave it.

    Return DONE or, only if the edge enters, NEED_ARENA.
    """
    state, changing = relations.state, relations.edge[edge]
    source, target = changing.source, changing.target
    if state.support_atom < 0:
        state.support_atom = relations.relation[changing.relation].first_support
        state.support_stage = _NOT_BEGUN
        state.support_depth = 0
    # The atoms before `support_atom`, and the lists that depend on theirs, have changed. Once this one has begun,
    # `support_stage` has a bit for each of its lists still to change; what depends on the others is done or on the stack.
    while state.support_atom >= 0:
        atom = state.support_atom
        code = _spread(relations, atom, edge, enters)
        if code != DONE:
            return code
        if state.support_stage == _NOT_BEGUN:
            ends = np.int64(_ENDS)
            if _is_supported(relations, atom, 0, source, np.int64(0)):
                ends += 1
            if _is_supported(relations, atom, 1, target, np.int64(0)):
                ends += 2
            state.support_stage = ends
        ends = state.support_stage
        if ends & 1:
            changed = _change_list(relations, atom, 1, target, source, edge, enters)
            if changed < 0:
                return np.int64(NEED_ARENA)
            state.support_stage = ends & ~1
            if changed > 0:
                _descend(relations, atom, 1, target)
            continue
        if ends & 2:
            changed = _change_list(relations, atom, 0, source, target, edge, enters)
            if changed < 0:
                return np.int64(NEED_ARENA)
            state.support_stage = ends & ~2
            if changed > 0:
                _descend(relations, atom, 0, source)
            continue
        state.support_atom = relations.support[atom].next
        state.support_stage = _NOT_BEGUN
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def fill_support(relations, atom, end):
    """Fill an atom's lists at one end. The lists that they depend on must have been filled.

    Return False without room; the caller must then clear the lists.
    """
    relation = relations.support[atom].relation
    for number in range(1, relations.state.edges):
        edge = relations.edge[number]
        if edge.relation == relation:
            near, far = edge.source, edge.target
            if end == IN:
                near, far = far, near
            is_supported = _is_supported(relations, atom, 1 - end, far, np.int64(0))
            if is_supported and _change_list(relations, atom, end, near, far, number, True) < 0:
                return False
    return True


class ListHeader(NamedTuple):
    """The place of a list's header in a vertex record: its offset, the offset of its word of bits, and its bit."""

    cell: int
    word: int
    bit: int


class Tree(NamedTuple):
    """The support lists of one part. Atom `atoms[i]` of the part has the lists of number `first + i` in the tables."""

    part: Component
    atoms: tuple[int, ...]
    first: int
    headers: tuple[tuple[ListHeader, ListHeader], ...]

    def header(self, atom: int, end: int) -> ListHeader | None:
        """Return the header of an atom's list at an end, or None if the atom has no list."""
        return self.headers[self.atoms.index(atom)][end] if atom in self.atoms else None

    def bits(self, variable: str, *, except_atom: int | None = None) -> dict[int, int]:
        """Return the bits, by word, of all lists at a variable except those of `except_atom`."""
        found: dict[int, int] = {}
        for number, atom in enumerate(self.atoms):
            for end, term in enumerate((self.part.atoms[atom].source, self.part.atoms[atom].target)):
                if term == variable and atom != except_atom:
                    header = self.headers[number][end]
                    found[header.word] = found.get(header.word, 0) | header.bit
        return found


def can_have_supports(part: Component) -> bool:
    """Return whether a part has a spanning tree, and the bits of its lists fit into one word."""
    return len(part.atoms) > 1 and 0 < 2 * len(spanning_tree(part)) <= BITS


class SupportTables:
    """The support lists of all parts of a store."""

    def __init__(self, store: RelationStore) -> None:
        self.store = store
        self._trees: list[Tree] = []
        self._free: dict[int, list[Tree]] = {}

    def add(self, part: Component) -> Tree:
        """Maintain support lists for a part from now on. Return its tree. O(its atoms × (edges + vertices))."""
        atoms = spanning_tree(part)
        for atom in atoms:
            for side in (OUT, IN):
                self.store.add_side(part.atoms[atom].relation, side)
        if self._free.get(len(atoms)):
            old = self._free[len(atoms)].pop()
            tree = old._replace(part=part, atoms=atoms)
        else:
            first = len(self.store.relations.support)
            headers = [ListHeader(*header) for header in self.store.add_headers(2 * len(atoms))]
            pairs = tuple(zip(headers[::2], headers[1::2], strict=True))
            tree = Tree(part, atoms, first, pairs)
            self.store.make_room_for_supports(first + len(atoms))
        self._trees.append(tree)
        self._write()
        self._fill(tree)
        return tree

    def pop_work(self, tree: Tree) -> int:
        """Return how often the lists of a tree have changed since the last call."""
        counts = self.store.relations.support["work"][tree.first : tree.first + len(tree.atoms)]
        work = int(counts.sum())
        counts[:] = 0
        return work

    def remove(self, tree: Tree) -> None:
        """Remove the support lists of a tree. O(its lists + vertices)."""
        self._trees.remove(tree)
        self.store.clear_headers([header for pair in tree.headers for header in pair])
        self._free.setdefault(len(tree.atoms), []).append(tree)
        self._write()

    def _write(self) -> None:
        """Write all trees into the tables."""
        first_support = self.store.relations.relation["first_support"]
        first_support[:] = NONE
        links: list[int] = []
        for tree in self._trees:
            part = tree.part
            # An edge must be added to the atoms of its relation in ascending order, and chains grow at their heads.
            for number, atom in reversed(list(enumerate(tree.atoms))):
                source, relation, target = part.atoms[atom]
                support = self.store.relations.support[tree.first + number]
                support["next"] = first_support[relation]
                first_support[relation] = tree.first + number
                support["relation"] = relation
                for end, variable in enumerate((source, target)):
                    assert isinstance(variable, str)
                    header = tree.headers[number][end]
                    support["cell"][end], support["word"], support["bit"][end] = header
                    support["other_bits"][end] = sum(tree.bits(variable, except_atom=atom).values())
                    support["place"][end] = 2 * (tree.first + number) + end
                    support["link"][end] = len(links)
                    for other, member in enumerate(tree.atoms):
                        ends = part.atoms[member].source, part.atoms[member].target
                        if member != atom and variable in ends:
                            links.append(2 * (tree.first + other) + ends.index(variable))
                    support["link_end"][end] = len(links)
        self.store.relations = self.store.relations._replace(support_link=np.array(links or [0], np.int64))

    def _fill(self, tree: Tree) -> None:
        """Fill the lists of a tree from the present edges, each list after those that it depends on."""
        unfilled = [(number, end) for number in range(len(tree.atoms)) for end in (0, 1)]
        while unfilled:
            for number, end in unfilled:
                atom = tree.part.atoms[tree.atoms[number]]
                far = (atom.target, atom.source)[end]
                # The list depends on those of the other atoms at the variable of its far end.
                dependencies = {
                    (other, side)
                    for other, member in enumerate(tree.atoms)
                    for side, term in enumerate((tree.part.atoms[member].source, tree.part.atoms[member].target))
                    if other != number and term == far
                }
                if not dependencies & set(unfilled):
                    break
            else:
                raise AssertionError("a tree has a cycle")
            unfilled.remove((number, end))
            while not fill_support(view(self.store.relations), tree.first + number, end):
                self.store.clear_headers([tree.headers[number][end]])
                self.store.grow(tables.NEED_ARENA)
