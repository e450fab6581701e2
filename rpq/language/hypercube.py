"""Hypercube shares: how shares divide a query, and which share has which edges and rows (Afrati and Ullman 2010).

The shares are the cells of a grid, whose dimensions are variables of the query. A vertex has a coordinate in each dimension,
which its name determines. An edge that the atom `?x a ?y` reads belongs to the cells with the coordinate of its source in
the dimension of ?x and that of its target in the dimension of ?y; dimensions of other variables replicate it. A solution
belongs to the one cell with the coordinates of all its values, and this cell has all edges of the solution. So every cell
joins its own edges alone, and keeps the rows that belong to it.

The counts of a grid are those for which a share has the fewest edges. If a variable occurs in every atom, this is one
dimension, and no edge is replicated. A triangle over 64 shares has four coordinates in each of three dimensions, and each
of its atoms replicates an edge four times. Path atoms need the edges of their labels in all cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rpq.automata.transforms import accepts_empty
from rpq.language.pattern import Atom, Variable
from rpq.language.readings import LabelSet
from rpq.stream.names.stream_labels import text_of

if TYPE_CHECKING:
    # The command prints its help without NumPy, which takes longer to import than all of its own modules.
    import numpy as np


class Share(NamedTuple):
    """A share: its number, and the total number of shares.

    `sizes` are the numbers of edges by label, if they are known. All shares of a stream have the same sizes.
    """

    number: int = 0
    total: int = 1
    sizes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, number: int, total: int, sizes: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> Share:
        """Return a share whose sizes are sorted by label.

        >>> Share.of(0, 4, {"b": 7, "a": 5})
        Share(number=0, total=4, sizes=(('a', 5), ('b', 7)))
        """
        return cls(number, total, tuple(sorted(dict(sizes).items())))


class Coordinate(NamedTuple):
    """The number of a cell in the dimension of a column, in which there are `total` cells."""

    column: int
    total: int
    number: int


_NO_LABELS = LabelSet(frozenset(), others=False)
Cell = tuple[Coordinate, ...]
"""The coordinates of a share, in the dimensions with more than one; all of them hold for its rows."""
NOWHERE: Cell = (Coordinate(0, 1, 1),)
"""A cell without rows: that of a share outside the grid."""


class EdgeRead(NamedTuple):
    """The edges of a label that an atom reads, and the variables at their ends; None where there is no variable."""

    label: str
    source: str | None
    target: str | None


@dataclass(frozen=True, kw_only=True)
class Hypercube:
    """The possible divisions of a query by hypercube shares.

    `columns` are the variables that can be dimensions, each with its place in rows; `reads` the edges that atoms read, and
    `paths` the labels of which every cell needs all edges. A path counts as much as the edges of an atom.

    >>> triangle = [EdgeRead("a", *ends) for ends in ("xy", "yz", "zx")]
    >>> cube = Hypercube(columns=(("x", 0), ("y", 1), ("z", 2)), reads=tuple(triangle))
    >>> [cube.grid(shares).counts for shares in (1, 4, 8, 64)]
    [(1, 1, 1), (2, 2, 1), (2, 2, 2), (4, 4, 4)]
    """

    columns: tuple[tuple[str, int], ...]
    reads: tuple[EdgeRead, ...] = ()
    paths: LabelSet = _NO_LABELS
    roots: tuple[str, ...] = ()
    """The variables at which paths begin: a cell grows only trees with its coordinate there."""

    @property
    def is_divided(self) -> bool:
        """True if shares can have fewer than all edges; otherwise only rows are divided, and the roots of paths, if any."""
        names = {name for name, _ in self.columns}
        return any(not names.isdisjoint(read[1:]) and not self.is_in_every_cell(read.label) for read in self.reads)

    def grid(self, count: int, sizes: Sequence[tuple[str, int]] = ()) -> Grid:
        """Return the grid for a number of shares, with the fewest edges in a share, where labels have these sizes.

        A label whose size is not known counts like the average of the others. O(shares · log shares · columns³).
        """
        return _grid(self, count, tuple(sizes))

    def is_in_every_cell(self, label: str) -> bool:
        """Return whether every cell needs all edges of a label."""
        return self.paths.plain.has(label)


@lru_cache(maxsize=1024)
def _grid(cube: Hypercube, count: int, sizes: tuple[tuple[str, int], ...]) -> Grid:
    size_of_label = dict(sizes)
    labels = list(dict.fromkeys(read.label for read in cube.reads))
    known_sizes = [size_of_label[label] for label in labels if label in size_of_label]
    usual = sum(known_sizes) / max(len(known_sizes), 1) or 1
    place = {name: number for number, (name, _) in enumerate(cube.columns)}
    incident = {
        label: [{place[end] for end in read[1:] if end in place} for read in cube.reads if read.label == label]
        for label in labels
    }
    weights: list[tuple[float, Sequence[set[int]]]]
    weights = [(size_of_label.get(label, usual), incident[label]) for label in labels]
    weights += [(usual, [{place[name]}]) for name in cube.roots if name in place]
    return Grid(cube=cube, counts=_best_counts(len(cube.columns), weights, count))


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of a hypercube, with the number of coordinates in each dimension."""

    cube: Hypercube
    counts: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells, at most the number of shares."""
        return prod(self.counts)

    @cached_property
    def dimensions(self) -> dict[str, int]:
        """The variables with more than one coordinate, and how many they have."""
        return {name: count for (name, _), count in zip(self.cube.columns, self.counts, strict=True) if count > 1}

    def cell(self, share: int) -> Cell:
        """Return the coordinates of a share, the first dimension varying fastest.

        >>> cube = Hypercube(columns=(("x", 0), ("y", 2)), reads=(EdgeRead("a", "x", None), EdgeRead("b", "y", None)))
        >>> grid = cube.grid(5)
        >>> grid.cell(3), grid.cell(4) == NOWHERE
        ((Coordinate(column=0, total=2, number=1), Coordinate(column=2, total=2, number=1)), True)
        """
        if share >= self.cells:
            return NOWHERE
        found = []
        for (_, column), count in zip(self.cube.columns, self.counts, strict=True):
            share, number = divmod(share, count)
            if count > 1:
                found.append(Coordinate(column, count, number))
        return tuple(found)

    def coordinates(self, share: int) -> dict[str, tuple[int, int]] | None:
        """Return the coordinate of a share by variable, as (number, count); None for a share outside the grid."""
        if share >= self.cells:
            return None
        return {name: (one.number, one.total) for name, one in zip(self.dimensions, self.cell(share), strict=True)}

    def cells_of(
        self, label: str, sources: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (rows, cells) of edges of a label, by the hashes of their ends: a cell for each row, once for each atom.

        An edge may be in one cell several times, because of several atoms.
        """
        import numpy as np

        if self.cube.is_in_every_cell(label):
            places, cells = np.meshgrid(np.arange(len(sources)), np.arange(self.cells), indexing="ij")
            yield places, cells
            return
        strides = dict(zip((name for name, _ in self.cube.columns), np.cumprod([1, *self.counts]).tolist(), strict=False))
        for read in self.cube.reads:
            if read.label != label:
                continue
            ends = [(name, of) for name, of in zip(read[1:], (sources, targets), strict=True) if name in self.dimensions]
            offsets: np.ndarray = np.zeros(1, np.int64)
            for name, count in self.dimensions.items():
                if all(name != end for end, _ in ends):
                    offsets = (offsets[:, None] + np.arange(count) * strides[name]).reshape(-1)
            coordinates = [(name, (of % np.uint64(self.dimensions[name])).astype(np.int64)) for name, of in ends]
            rows: np.ndarray = np.arange(len(sources))
            if len(ends) == 2 and ends[0][0] == ends[1][0]:
                rows = np.flatnonzero(coordinates[0][1] == coordinates[1][1])
                coordinates = coordinates[:1]
            first = sum((strides[name] * of[rows] for name, of in coordinates), np.zeros(len(rows), np.int64))
            yield np.broadcast_to(rows[:, None], (len(rows), len(offsets))), first[:, None] + offsets

    def copies(self, label: str) -> int:
        """Return the largest number of cells to which an edge of a label can belong.

        >>> [Hypercube(columns=(("x", 0),), reads=(EdgeRead("a", "x", "y"),)).grid(6).copies(label) for label in "ab"]
        [1, 0]
        """
        if self.cube.is_in_every_cell(label):
            return self.cells
        found = sum(
            self.cells // prod(self.dimensions.get(end, 1) for end in {read.source, read.target} if end is not None)
            for read in {*self.cube.reads}
            if read.label == label
        )
        return min(found, self.cells)


def undivided(name: str, column: int, *, roots: tuple[str, ...] = ()) -> Hypercube:
    """Return how shares divide the rows of a query by a column, and trees at these `roots`: each has all edges.

    >>> undivided("x", 0).grid(6).dimensions, undivided("x", 0).is_divided
    ({'x': 6}, False)
    """
    return Hypercube(columns=((name, column),), paths=LabelSet(frozenset(), others=True), roots=roots)


def reads_of(atoms: Iterable[Atom]) -> tuple[tuple[EdgeRead, ...], tuple[Atom, ...]]:
    """Return the edges that atoms read, each once, with labels as tuples have them, and the atoms that are no such edges.

    >>> from rpq.language.pattern import parse_pattern
    >>> reads_of(parse_pattern("?x ^a h7 . ?x b+ ?y"))[0]
    (EdgeRead(label='a', source=None, target='x'),)
    """
    reads: dict[EdgeRead, None] = {}
    others: list[Atom] = []
    for atom in atoms:
        edge = replace(atom, variable=None).edge
        if edge is None:
            others.append(atom)
        else:
            source, target = (end.name if isinstance(end, Variable) else None for end in edge[::2])
            reads[EdgeRead(text_of(edge[1]), source, target)] = None
    return tuple(reads), tuple(others)


def roots_of(paths: Iterable[Atom]) -> tuple[str, ...]:
    """Return the subject of each path atom that is a variable, with repetitions."""
    return tuple(atom.subject.name for atom in paths if isinstance(atom.subject, Variable))


def has_bare_path(atoms: Sequence[Atom]) -> bool:
    """Return whether a path without steps may match at a vertex that no other atom binds.

    >>> from rpq.language.pattern import parse_pattern
    >>> [has_bare_path(parse_pattern(text)) for text in ("?x a* ?y", "?x a* ?y . ?y b ?z")]
    [True, False]
    """
    bare = [atom for atom in atoms if accepts_empty(atom.expression)]
    bound = {end for atom in atoms if atom not in bare for end in (atom.subject, atom.object)}
    return any(bound.isdisjoint((atom.subject, atom.object)) for atom in bare)


class _Divisible(Protocol):
    """The part of a query that its division depends on."""

    @property
    def hypercube(self) -> Hypercube | None: ...


def cell_of(query: _Divisible, share: Share) -> Cell | None:
    """Return the cell that a share has of the rows of a query; None where the first share has all of them.

    >>> import rpq
    >>> query = rpq.Query("?x a ?y . ?y b ?z", window=rpq.Window(size=1, slide=1))
    >>> cell_of(query, Share(2, 3))
    (Coordinate(column=1, total=3, number=2),)
    """
    if share.total == 1:
        return ()
    cube = query.hypercube
    return None if cube is None else cube.grid(share.total, share.sizes).cell(share.number)


# --- counts -------------------------------------------------------------------------------------------------

_Weights = Sequence[tuple[float, Sequence[set[int]]]]
"""For each label the number of its edges, and the dimensions at the ends of each atom that reads it."""


def _best_counts(dimensions: int, weights: _Weights, shares: int) -> tuple[int, ...]:
    """Return the counts with a product of at most `shares` for which a cell has the fewest edges.

    Ties are broken by the most cells, then the fewest dimensions, then the first variables. Up to three dimensions are
    searched in full. Of more dimensions, each three are searched in turn while the others are fixed, until the counts no
    longer improve.
    """
    import numpy as np

    counts: np.ndarray = np.ones(dimensions, np.int64)
    if shares == 1 or not dimensions:
        return tuple(counts.tolist())
    best = _rank(counts[None], weights)
    improved = True
    while improved:
        improved = False
        for chosen in combinations(range(dimensions), min(3, dimensions)):
            other_cells = int(np.prod(np.delete(counts, chosen)))
            some = _products(len(chosen), shares // other_cells)
            found = np.repeat(counts[None], len(some), axis=0)
            found[:, chosen] = some
            ranks = _rank(found, weights)
            first = np.lexsort(ranks.T[::-1])[0]
            if tuple(ranks[first]) < tuple(best[0]):
                best, counts, improved = ranks[first : first + 1], found[first], True
    return tuple(counts.tolist())


@lru_cache(maxsize=64)
def _products(factors: int, limit: int) -> np.ndarray:
    """Return all tuples of factors with a product of at most `limit`."""
    import numpy as np

    found: np.ndarray = np.arange(1, limit + 1)[:, None]
    for _ in range(factors - 1):
        room = limit // found.prod(axis=1)
        place = np.repeat(np.arange(len(found)), room)
        last = np.arange(len(place)) - np.repeat(np.cumsum(room) - room, room) + 1
        found = np.column_stack([found[place], last])
    return found


def _rank(counts: np.ndarray, weights: _Weights) -> np.ndarray:
    """Return the criteria that each row of counts should minimize, the most important one first: (row, criterion)."""
    import numpy as np

    load = np.zeros(len(counts))
    for size, atoms in weights:
        absent = np.ones(len(counts))
        for ends in atoms:
            absent *= 1 - 1 / counts[:, sorted(ends)].prod(axis=1)
        load += size * (1 - absent)
    total = sum(size for size, _ in weights) or 1
    return np.column_stack([np.round(load / total, 9), -counts.prod(axis=1), (counts > 1).sum(axis=1), -counts])
