"""The division of work over shares: keys of partitions, edges of a share, and the memory of its engine.

**Keys.**  The keys of the root partitions are chosen so that Spark's shuffle puts each partition into a task of its own.
Spark sends a key to the task hash(key) mod tasks.  With the keys 0, 1, 2, … some tasks would get two partitions and others
none, so the key of the n-th partition is a number whose hash leads to the n-th task, if there are as many tasks
(`spark.sql.shuffle.partitions`) as partitions.  With another number of tasks the result is the same, but less balanced.
The keys depend on the number of partitions alone, so a restart finds its state again.

**Edges.**  A share has to see all edges of paths.  Patterns and queries in SPARQL are divided by hypercube shares
(`rpq.language.hypercube`): a share is a cell of a grid over variables of the query, and sees the edges of this cell.  If no
variable divides a query, every share evaluates it as a whole, and only the rows are divided.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

import rpq
from rpq.engine.machine_memory import default_limit
from rpq.language.hypercube import Hypercube, Share
from rpq.language.query import PatternQuery
from rpq.language.readings import LabelSet, has_conditions, readings_of
from rpq.language.sparql.query import SparqlQuery
from rpq.spark.envelopes import LabelReader
from rpq.spark.errors import PipelineError
from rpq.spark.shipping import ShippedObject
from rpq.stream.names.stream_labels import text_of

if TYPE_CHECKING:
    from rpq.engine.engine import Engine

_SEED = 42
_WORD = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Return Spark's hash of an int: Murmur3 with 32 bits and the seed 42, signed.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    key = _rotate_left((value & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotate_left(_SEED ^ key, 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= 4  # bytes
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def partition_keys(count: int) -> list[int]:
    """Return a key for each of `count` partitions, the n-th of which goes to the n-th of as many tasks.

    >>> [spark_hash(key) % 3 for key in partition_keys(3)]
    [0, 1, 2]
    """
    keys: dict[int, int] = {}
    value = 0
    while len(keys) < count:
        keys.setdefault(spark_hash(value) % count, value)
        value += 1
    return [keys[task] for task in range(count)]


def _rotate_left(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


_ENDS = ("source", "target")


class _PlainLabels(NamedTuple):
    """The labels that a query reads, whatever the conditions on them."""

    labels: LabelSet

    def reads(self, label: str) -> bool:
        """Return whether edges with a label can matter to the query."""
        return self.labels.has(label)


def label_readers(queries: Sequence[rpq.Query]) -> list[LabelReader]:
    """Return for each query an object whose `reads` tests whether it reads a label of tuples, with a condition or without.

    >>> query = rpq.Query("a[n > 1]", window=rpq.Window(size=10, slide=1))
    >>> query.reads("a"), label_readers([query])[0].reads("a")
    (False, True)
    """
    found: list[LabelReader] = []
    for query in queries:
        if has_conditions(query):
            found += [_PlainLabels(reading.labels.plain) for reading in readings_of(query)]
        else:
            found.append(query)
    return found


class OwnEdges:
    """A filter of the edges that a share has to see for some queries.

    >>> query = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1))
    >>> edges = pa.table({"source": ["u", "w"], "target": ["v", "v"], "label": ["a", "a"]})
    >>> [len(OwnEdges([query], share=Share(number, 2)).select(edges)) for number in (0, 1)]
    [1, 1]
    """

    def __init__(self, queries: Sequence[rpq.Query], *, share: Share, whole: bool = False) -> None:
        """With `whole` the share sees all edges: if edges have ids, an insert elsewhere may replace one of its edges."""
        undivided = [query for query in queries if query.hypercube is None or not query.hypercube.is_divided]
        self._whole = label_readers(undivided)
        self._reads: dict[str, set[_Ends]] = {}
        self._cubes: list[Hypercube] = []
        for query in queries:
            if query not in undivided:
                assert query.hypercube is not None
                self._add(query.hypercube, share)
        self.sees_all_edges = whole or share.total == 1 or len(undivided) == len(queries)

    def _add(self, cube: Hypercube, share: Share) -> None:
        """Add the edges of the share's cell."""
        coordinates = cube.grid(share.total, share.sizes).coordinates(share.number)
        if coordinates is None:
            return
        self._cubes.append(cube)
        for read in cube.reads:
            ends = _Ends(*(None if end is None else coordinates.get(end) for end in read[1:]))
            self._reads.setdefault(read.label, set()).add(ends)

    def _is_whole(self, label: str) -> bool:
        """Return whether the share sees all edges of a label, because of an undivided query or of a path."""
        return any(query.reads(label) for query in self._whole) or any(cube.is_in_every_cell(label) for cube in self._cubes)

    def select(self, tuples: pa.Table) -> pa.Table:
        """Return the tuples that matter to the share. O(tuples)."""
        if self.sees_all_edges or not len(tuples):
            return tuples
        labels = tuples["label"].combine_chunks().dictionary_encode()
        names, codes = labels.dictionary.to_pylist(), labels.indices.to_numpy()
        is_whole = [self._is_whole(name) for name in names]
        needed = np.array(is_whole, bool)[codes]
        divided = [self._reads.get(name, set()) if not whole else set() for name, whole in zip(names, is_whole, strict=True)]
        hashes = {end: _hashes(tuples[end].combine_chunks()) for end in _ENDS} if any(divided) else {}
        for code, reads in enumerate(divided):
            if reads:
                of_label = np.flatnonzero(codes == code)
                needed[of_label] = _are_in(reads, *(hashes[end][of_label] for end in _ENDS))
        return tuples if needed.all() else tuples.filter(pa.array(needed))

    def select_in_order(self, tuples: pa.Table, time: int | None) -> tuple[pa.Table, int | None]:
        """Return the tuples that matter, of those that arrive at stream time `time`, and the time after all of them.

        The time is None if no tuple is left out.  If tuples are out of order, all of them are returned, because even a tuple
        that no query of the share reads advances the time for the next tuple.
        """
        if self.sees_all_edges or not len(tuples):
            return tuples, None
        stamps = tuples["timestamp"].to_numpy()
        if (time is not None and stamps[0] < time) or (np.diff(stamps) < 0).any():
            return tuples, None
        own = self.select(tuples)
        return own, None if len(own) == len(tuples) else int(stamps[-1])


def check_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of edges by label, sorted.  Raises `PipelineError` for a size that is not a number.

    >>> check_sizes({"b": 7, "a": 1_000})
    {'a': 1000, 'b': 7}
    """
    for label, size in sizes.items():
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
            raise PipelineError(f"sizes: {label!r} is {size!r}; expected the number of its edges, a whole number from 0 on")
    return {str(label): int(size) for label, size in sorted(sizes.items())}


def counted_labels(queries: Sequence[rpq.Query], shares: int) -> list[str]:
    """Return the labels whose numbers of edges shape the division of the queries.

    >>> window = rpq.Window(size=10, slide=1)
    >>> texts = ("?x a ?y . ?y a ?z . ?z a ?x", "?x a ?y . ?y b ?z . ?z c ?x")
    >>> [counted_labels([rpq.Query(text, window=window)], 8) for text in texts]
    [[], ['a', 'b', 'c']]
    """
    cubes = [query.hypercube for query in queries if shares > 1]
    labels = [{read.label for read in cube.reads} for cube in cubes if cube is not None]
    return sorted(set[str]().union(*(of_query for of_query in labels if len(of_query) > 1)))


class EdgeDivision(ShippedObject):
    """The division of edges over the shares of some queries: the selections of all `OwnEdges`, computed at once.

    >>> query = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1))
    >>> edges = pa.table({"source": ["u", "w", "u"], "target": ["v", "v", "w"], "label": ["a", "a", "b"]})
    >>> [rows.tolist() for rows in EdgeDivision([query], 2).rows(edges)]
    [[0], [1]]
    """

    def __init__(
        self, queries: Sequence[rpq.Query], shares: int, sizes: Mapping[str, int] | None = None, *, whole: bool = False
    ) -> None:
        """`sizes` are the numbers of edges by label; with `whole` every share gets all edges, as with `OwnEdges`."""
        cubes = [query.hypercube for query in queries]
        undivided = [one for one, cube in zip(queries, cubes, strict=True) if cube is None or not cube.is_divided]
        label_sizes = Share.of(0, shares, sizes or {}).sizes
        self._shares = shares
        self._whole = label_readers(undivided)
        self._grids = [cube.grid(shares, label_sizes) for cube in cubes if cube is not None and cube.is_divided]
        self.is_divided = shares > 1 and not whole and len(undivided) < len(queries)
        """True if some share may get fewer edges than all."""

    def rows(self, tuples: pa.Table) -> list[np.ndarray]:
        """Return the rows of a table of edges that each share gets, in order. O(copies · log copies)."""
        labels = tuples["label"].combine_chunks().dictionary_encode()
        codes = labels.indices.to_numpy()
        hashes = {end: _hashes(tuples[end].combine_chunks()) for end in _ENDS}
        places: list[np.ndarray] = []  # share · rows + row
        for code, label in enumerate(labels.dictionary.to_pylist()):
            of_label = np.flatnonzero(codes == code)
            if any(query.reads(label) for query in self._whole):
                places.append((np.arange(self._shares)[:, None] * len(tuples) + of_label).reshape(-1))
                continue
            ends = [hashes[end][of_label] for end in _ENDS]
            for grid in self._grids:
                for row, cell in grid.cells_of(label, *ends):
                    places.append((cell * len(tuples) + of_label[row]).reshape(-1))
        found = np.unique(np.concatenate([np.zeros(0, np.int64), *places]))
        shares, rows = np.divmod(found, max(len(tuples), 1))
        return np.split(rows, np.searchsorted(shares, np.arange(1, self._shares)))


class _Ends(NamedTuple):
    """The coordinates (number, count) of a cell at the ends of an edge; None at an end that no dimension divides."""

    source: tuple[int, int] | None
    target: tuple[int, int] | None


def _are_in(reads: Iterable[_Ends], sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return which edges, by the hashes of their ends, belong to a cell because of one of several atoms."""
    found = np.zeros(len(sources), bool)
    for read in reads:
        is_read = np.ones(len(sources), bool)
        for coordinate, hashes in zip(read, (sources, targets), strict=True):
            if coordinate is not None:
                is_read &= hashes % np.uint64(coordinate[1]) == coordinate[0]
        found |= is_read
    return found


def _hashes(names: pa.Array) -> np.ndarray:
    """Return the hashes of the names of vertices, by which shares divide them."""
    from rpq.stream.names.vertices import VertexDictionary  # with kernels, which need Numba

    encoded = names.dictionary_encode()
    vertices = VertexDictionary()
    distinct = encoded.dictionary
    distinct = distinct.cast(pa.int64() if pa.types.is_integer(distinct.type) else pa.string())
    ids, _ = vertices.intern(distinct, np.ones(len(distinct), np.uint8))
    found: np.ndarray = vertices.hashes(ids)[encoded.indices.to_numpy()]
    return found


def describe_division(query: rpq.Query, *, shares: int | None = None, sizes: Mapping[str, int] | None = None) -> str:
    """Return a description of how the work of a query is divided over shares, or of why it is not.

    Path queries are divided by the roots of their trees; patterns and queries in SPARQL by the cells of a grid over their
    variables (`Query.hypercube`).  Of all other queries only the rows are divided, by one column.  With the number of
    shares, and perhaps the sizes of labels, the grid is shown.

    >>> import rpq
    >>> window = rpq.Window(size=10, slide=1)
    >>> print(describe_division(rpq.Query("?x a ?y . ?y b ?z", window=window)))
    divided by ?y: a share sees only the edges at its own vertices
    >>> print(describe_division(rpq.Query("?x a ?y . ?y a ?z . ?z a ?x", window=window), shares=64))
    divided by ?x, ?y, ?z into 4 × 4 × 4 = 64 cells: a share sees only the edges of its cell; each edge of a is in up to 12
    """
    if (warning := division_warning(query)) is not None:
        return warning.removeprefix(f"query {query.name!r} is ")
    cube = query.hypercube
    if cube is None:
        return "divided by the roots of the trees of its paths: a share sees all edges that the query reads"
    if shares == 1:
        return "one share evaluates it as a whole"
    grid = cube.grid(_SOME_SHARES if shares is None else shares, Share.of(0, 1, sizes or {}).sizes)
    names = ", ".join(f"?{name}" for name in grid.dimensions)
    everywhere = ", and all edges of its paths" if cube.paths.named or cube.paths.has_others else ""
    if not cube.is_divided:
        return f"divided by {names}, where its paths begin: a share sees all edges that the query reads"
    if shares is None:
        is_centre = len(grid.dimensions) == 1 and not everywhere and all(grid.copies(one.label) == 1 for one in cube.reads)
        own = "the edges at its own vertices" if is_centre else f"the edges of its cell{everywhere}"
        return f"divided by {names}: a share sees only {own}"
    counts = " × ".join(map(str, grid.dimensions.values()))
    cells = f"{counts} = {grid.cells}" if len(grid.dimensions) > 1 else counts
    copies = {label: grid.copies(label) for label in dict.fromkeys(one.label for one in cube.reads)}
    copies |= {label: grid.cells for label in sorted(map(text_of, cube.paths.plain.named)) if cube.is_in_every_cell(label)}
    replicated = ", ".join(
        f"each edge of {label} is in {'one' if number == 1 else 'all' if number == grid.cells else f'up to {number}'}"
        for label, number in copies.items()
    )
    return f"divided by {names} into {cells} cells: a share sees only the edges of its cell; {replicated}"


_SOME_SHARES = 64
"""The number of shares for which a division is described if their number is not known."""


def division_warning(query: rpq.Query) -> str | None:
    """Return a warning about a query whose work every share does as a whole, or None if the work is divided.

    >>> import rpq
    >>> division_warning(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1))) is None
    True
    """
    cube = query.hypercube
    if not isinstance(query, (PatternQuery, SparqlQuery)) or (cube is not None and (cube.is_divided or _has_roots(cube))):
        return None
    by = "the first share outputs its rows" if cube is None else f"its rows are divided by ?{cube.columns[0][0]}"
    return (
        f"query {query.name!r} is not divided, as {_undivided_reason(query)}: every share evaluates all of it, and {by}; "
        "more shares do not make it faster"
    )


def _has_roots(cube: Hypercube) -> bool:
    """Return whether the roots of a path are divided."""
    return not {name for name, _ in cube.columns}.isdisjoint(cube.roots)


def _undivided_reason(query: PatternQuery | SparqlQuery) -> str:
    if isinstance(query, SparqlQuery):
        return "no column divides the edges that it reads"
    if query.hypercube is None:
        return "no column is a vertex: select a variable of vertices to divide the work"
    return f"it has a path ({query.pattern.path_expressions[0]}) and no other edge with a column at an end"


def share_limit(memory_limit: int | None, *, threads: int, shares: int = 1) -> int:
    """Return the memory limit of a share in bytes: `memory_limit`, or if it is None, the share's part of the memory.

    Workers do not know of one another.  A share therefore gets the part of its threads in all cores, applied to the 70 % of
    the machine's memory that engines may use; with more `shares` on this machine than cores, the part is smaller.
    """
    if memory_limit is not None:
        return memory_limit
    return default_limit() * min(threads, _cores()) // max(_cores(), shares * threads)


def engine_bytes(engine: Engine) -> int:
    """Return the number of bytes that an engine occupies. O(queries)."""
    return engine._evaluation.guard.nbytes


def set_memory_limit(engine: Engine, limit: int) -> None:
    """Set the number of bytes up to which an engine may grow."""
    engine._evaluation.guard.limit = limit


def _cores() -> int:
    return os.cpu_count() or 1
