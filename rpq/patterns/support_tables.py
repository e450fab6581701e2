"""Which patterns have support lists, and the tables that `support_lists.py` walks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.views import view
from rpq.patterns import tables
from rpq.patterns.plan import Part
from rpq.patterns.relation import RelationStore
from rpq.patterns.support_lists import fill_support
from rpq.patterns.tables import BITS, IN, NONE, OUT, SUPPORT_FIELDS


class Header(NamedTuple):
    """Where a list's header is in a vertex record: its offset, that of its word of bits, its bit."""

    cell: int
    word: int
    bit: int


class Tree(NamedTuple):
    """The support lists of one part: of atom `tree[i]` of the pattern they are those of atom `first + i` in the tables."""

    part: Part
    atoms: tuple[int, ...]
    first: int
    headers: tuple[tuple[Header, Header], ...]

    def header(self, atom: int, end: int) -> Header | None:
        """The header of an atom's list at an end; None where the atom has none."""
        return self.headers[self.atoms.index(atom)][end] if atom in self.atoms else None

    def bits(self, variable: str, *, but: int | None = None) -> dict[int, int]:
        """Word -> the bits of all lists at a variable, but those of one atom."""
        found: dict[int, int] = {}
        for number, atom in enumerate(self.atoms):
            for end, term in enumerate((self.part.atoms[atom].source, self.part.atoms[atom].target)):
                if term == variable and atom != but:
                    header = self.headers[number][end]
                    found[header.word] = found.get(header.word, 0) | header.bit
        return found


def spanning_tree(part: Part) -> tuple[int, ...]:
    """Atoms that join all variables of a part without a cycle: those that join what those before them do not."""
    group = {name: name for name in part.variables}
    tree = []
    for number, (source, _, target) in enumerate(part.atoms):
        if isinstance(source, str) and isinstance(target, str) and group[source] != group[target]:
            tree.append(number)
            old, new = group[target], group[source]
            group = {name: new if held == old else held for name, held in group.items()}
    return tuple(tree)


def can_have_supports(part: Part) -> bool:
    """Whether the bits of a part's lists fit in one word, and there are lists at all."""
    return len(part.atoms) > 1 and 0 < 2 * len(spanning_tree(part)) <= BITS


class SupportTables:
    """The trees of a store."""

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
            self.store.have_supports(first + len(atoms))
        self._trees.append(tree)
        self._write()
        self._fill(tree)
        return tree

    def take_work(self, tree: Tree) -> int:
        """Changes of the lists of a tree since it was asked last."""
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
        """Put all trees into the tables."""
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
                    row[tables.SUPPORT_AWAY + end] = sum(tree.bits(variable, but=atom).values())
                    row[tables.SUPPORT_PLACE + end] = 2 * (tree.first + number) + end
                    row[tables.SUPPORT_LINK + end] = len(links)
                    for other, held in enumerate(tree.atoms):
                        ends = part.atoms[held].source, part.atoms[held].target
                        if held != atom and variable in ends:
                            links.append(2 * (tree.first + other) + ends.index(variable))
                    row[tables.SUPPORT_LINK_END + end] = len(links)
        self.store.relations = self.store.relations._replace(support_link=np.array(links or [0], np.int64))

    def _fill(self, tree: Tree) -> None:
        """Make the lists of a tree from the edges that are there: each when all that it depends on are made."""
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
