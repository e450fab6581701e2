"""The baselines INV, INV+, INC and INC+ of TriC (Zervakis et al., EDBT 2020, section 5), compiled: patterns over inserts.

A pattern is divided into *covering paths*. Each of its atoms has a materialized view: the edges with its label and its
constants. An update is looked up in an inverted index of atoms, which returns the patterns that it affects; for these
patterns, the views along each path are joined, and then the paths with one another.

- INV joins whole views, and reports the solutions that use the update
- INC joins a path that the update affects by starting from the update only
- INV+ and INC+ store the hash tables that joins build on views, and extend them with each update; INV and INC build one for
  each join, on the smaller input

Everything from the numbers of an update's ends and label to the numbers of solutions is in kernels over flat arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import mix
from rpq.compiled.kernel_cache import njit

Term = str
"""A variable, which begins with `?`, or a vertex."""
Atom = tuple[Term, str, Term]
Edge = tuple[str, str, str]
"""Source, label, target."""
View = tuple[int, int, int]
"""The label of an atom, and the constants at its ends, UNBOUND for variables; all as numbers."""
Row = tuple[str, ...]

VIEW, LABEL, SOURCE, TARGET = range(4)
"""The fields of an atom. A term is a vertex, or -1 - v for the variable v of its pattern."""
UNBOUND = -1
NESTED = 64
"""The number of pairs of rows up to which two inputs of a join are compared row by row."""



class PatternArrays(NamedTuple):
    """The patterns as arrays: offsets of the paths of each, of the atoms of each path, and of the readers of each view."""

    path: np.ndarray
    atom_start: np.ndarray
    path_variables: np.ndarray
    """The variables of each path, as bits."""
    atom: np.ndarray
    reader_start: np.ndarray
    reader: np.ndarray
    of_view: np.ndarray
    """The label of each view, and its constants, UNBOUND for variables."""
    view_chain: np.ndarray
    view_next: np.ndarray


class ViewStore(NamedTuple):
    """The materialized views, and with caching the hash tables on both ends of each.

    `place` has the offset, the size and the capacity of each view in `entry`. A `link` of a hash table has twice the number
    of its view, plus 1 where it is found by the target; the vertex at that end, the one at the other end, the next link.
    """

    place: np.ndarray
    entry: np.ndarray
    link: np.ndarray
    chain: np.ndarray
    used: np.ndarray
    """Entries and links in use."""


@dataclass(frozen=True)
class _RegisteredQuery:
    """A registered pattern: its name, its variables, and its covering paths."""

    name: str
    variables: tuple[Term, ...]
    paths: list[tuple[Atom, ...]]


class InvertedIndex:
    """An inverted index of patterns over a growing graph: INV, or INC if `incremental`; INV+ or INC+ if `caching`.

    >>> index = InvertedIndex(incremental=True, caching=True)
    >>> index.register("q", [("?x", "a", "?y"), ("?y", "b", "z")])
    >>> index.push([("u", "a", "v"), ("v", "b", "z")])
    [{}, {'q': {('u', 'v')}}]
    """

    def __init__(self, *, incremental: bool, caching: bool) -> None:
        self._incremental = incremental
        self._caching = caching
        self._queries: list[_RegisteredQuery] = []
        self._readers: dict[View, list[int]] = {}  # the inverted index
        self._vertices: dict[str, int] = {}
        self._labels: dict[str, int] = {}
        self._edges: set[Edge] = set()
        self._layout: PatternArrays | None = None
        self._store: ViewStore
        self._pool: np.ndarray
        self._head: np.ndarray
        self._asked: np.ndarray
        self._epoch = 0

    def register(self, name: str, atoms: Iterable[Atom]) -> None:
        """Index a pattern, which is possible only before the first edge. O(atoms²)."""
        assert self._layout is None, "patterns are registered before the first edge"
        different = tuple(dict.fromkeys(atoms))
        terms = dict.fromkeys(term for source, _, target in different for term in (source, target))
        variables = tuple(term for term in terms if _is_variable(term))
        for view in dict.fromkeys(map(self._view_of, different)):
            self._readers.setdefault(view, []).append(len(self._queries))
        self._queries.append(_RegisteredQuery(name, variables, covering_paths(different)))

    def push(self, edges: Sequence[Edge]) -> list[dict[str, set[Row]]]:
        """Insert edges; return for each the new solutions by pattern, as values of its variables in order."""
        if self._layout is None:
            self._layout = self._build_layout()
        solutions: list[dict[str, set[Row]]] = [{} for _ in edges]
        fresh: list[int] = []
        rows: list[tuple[int, int, int]] = []
        vertices, labels = self._vertices, self._labels
        for number, edge in enumerate(edges):
            if edge not in self._edges:
                self._edges.add(edge)
                source, label, target = edge
                source_id = vertices.setdefault(source, len(vertices))
                target_id = vertices.setdefault(target, len(vertices))
                rows.append((source_id, labels.setdefault(label, len(labels)), target_id))
                fresh.append(number)
        if len(vertices) > len(self._head):
            self._head = np.zeros((2 * len(vertices), 2), np.int64)
        inserted = np.array(rows, np.int64).reshape(-1, 3)
        self._store, found, self._pool, self._epoch = _push(
            self._store, self._layout, inserted, self._pool, self._head, self._epoch, self._asked, self._incremental,
            self._caching,
        )  # fmt: skip
        names = list(vertices) if len(found) else []
        for update, number, *values in found.tolist():
            query = self._queries[number]
            row = tuple(names[value] for value in values[: len(query.variables)])
            solutions[fresh[update]].setdefault(query.name, set()).add(row)
        return solutions

    @property
    def nbytes(self) -> int:
        """The bytes of the patterns, the views and their hash tables."""
        return sum(array.nbytes for array in (*(self._layout or ()), *self._store, self._pool, self._head, self._asked))

    def _view_of(self, atom: Atom) -> View:
        source, label, target = atom
        ends = [UNBOUND if _is_variable(term) else self._vertex(term) for term in (source, target)]
        return self._labels.setdefault(label, len(self._labels)), ends[0], ends[1]

    def _vertex(self, name: str) -> int:
        return self._vertices.setdefault(name, len(self._vertices))

    def _build_layout(self) -> PatternArrays:
        """Return the patterns as arrays, and allocate the arrays of the stream."""
        views = {view: number for number, view in enumerate(self._readers)}
        paths, starts, variables = [0], [0], list[int]()
        atoms: list[tuple[int, int, int, int]] = []
        for query in self._queries:
            numbers = {name: -1 - place for place, name in enumerate(query.variables)}
            for path in query.paths:
                bits = 0
                for atom in path:
                    view = self._view_of(atom)
                    ends = [numbers[term] if term in numbers else self._vertex(term) for term in (atom[0], atom[2])]
                    bits |= sum(1 << -1 - end for end in {*ends} if end < 0)
                    atoms.append((views[view], view[0], ends[0], ends[1]))
                starts.append(len(atoms))
                variables.append(bits)
            paths.append(len(starts) - 1)
        described = np.array(list(views), np.int64).reshape(-1, 3)
        chain, following = np.full(_power(2 * len(views)), -1, np.int64), np.full(len(views), -1, np.int64)
        for number, (label, source, target) in enumerate(views):
            slot = _slot(label + 1, source + 1, target + 1, chain)
            following[number], chain[slot] = chain[slot], number
        widest = max((len(query.variables) for query in self._queries), default=0)
        self._pool = np.empty((1024, max(1, widest)), np.int64)
        self._head = np.zeros((1024, 2), np.int64)
        self._asked = np.zeros((max(1, len(self._queries)), 2), np.int64)
        self._store = ViewStore(
            place=np.zeros((len(views), 3), np.int64),
            entry=np.empty((1024, 2), np.int64),
            link=np.empty((1024, 4), np.int64),
            chain=np.full(1024, -1, np.int64),
            used=np.zeros(2, np.int64),
        )
        readers = list(self._readers.values())
        return PatternArrays(
            path=np.array(paths, np.int64),
            atom_start=np.array(starts, np.int64),
            path_variables=np.array(variables, np.int64),
            atom=np.array(atoms, np.int64).reshape(-1, 4),
            reader_start=np.cumsum([0, *map(len, readers)]).astype(np.int64),
            reader=np.array([query for some in readers for query in some], np.int64),
            of_view=described,
            view_chain=chain,
            view_next=following,
        )


def covering_paths(atoms: Sequence[Atom]) -> list[tuple[Atom, ...]]:
    """Return directed paths that cover every atom: walks from each vertex until no unvisited atom follows.

    >>> covering_paths([("?x", "a", "?y"), ("?y", "b", "?z"), ("?w", "c", "?y")])
    [(('?x', 'a', '?y'), ('?y', 'b', '?z')), (('?w', 'c', '?y'), ('?y', 'b', '?z'))]
    """
    out: dict[Term, list[Atom]] = {}
    into = {target for _, _, target in atoms}
    for atom in atoms:
        out.setdefault(atom[0], []).append(atom)
    paths: list[tuple[Atom, ...]] = []
    covered: set[Atom] = set()
    starts = sorted(out, key=lambda term: term in into)  # first, vertices that no atom leads to
    for start in [term for term in starts for _ in out[term]]:
        path: list[Atom] = []
        visited, here = {start}, start
        while True:
            fresh = [atom for atom in out.get(here, ()) if atom not in covered and atom not in path]
            visited_before = [atom for atom in out.get(here, ()) if atom[2] not in visited]
            if not (fresh or (path and visited_before)):
                break
            path.append((fresh or visited_before)[0])
            here = path[-1][2]
            if here in visited:
                break
            visited.add(here)
        if any(atom not in covered for atom in path):
            paths.append(tuple(path))
            covered |= {*path}
    return paths


def _is_variable(term: Term) -> bool:
    return term.startswith("?")


@njit(cache=True, forceinline=True)
def _slot(first, second, third, chain):
    key = np.uint64(first) << np.uint64(40) ^ np.uint64(second) << np.uint64(20) ^ np.uint64(third)
    return np.int64(mix(key) & np.uint64(len(chain) - 1))


@njit(cache=True)
def _find_view(layout, label, source, target):
    found = layout.view_chain[_slot(label + 1, source + 1, target + 1, layout.view_chain)]
    while found >= 0:
        view = layout.of_view[found]
        if view[0] == label and view[1] == source and view[2] == target:
            return found
        found = layout.view_next[found]
    return found


@njit(cache=True)
def _grow(rows, size):
    """Return an array with at least `size` rows that begins with the given ones."""
    if size <= len(rows):
        return rows
    larger = np.empty((max(size, 2 * len(rows)), rows.shape[1]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


@njit(cache=True)
def _add_to_view(store, view, source, target, caching):
    """Add an edge to a view, and to its hash tables if they are kept; return the store with larger arrays."""
    place, entry, link, chain, used = store.place, store.entry, store.link, store.chain, store.used
    if place[view, 1] == place[view, 2]:
        start, size = place[view, 0], place[view, 1]
        place[view, 0], place[view, 2] = used[0], max(4, 2 * size)
        entry = _grow(entry, used[0] + place[view, 2])
        used[0] += place[view, 2]
        entry[place[view, 0] : place[view, 0] + size] = entry[start : start + size]
    at = place[view, 0] + place[view, 1]
    entry[at, 0], entry[at, 1] = source, target
    place[view, 1] += 1
    if caching:
        if used[1] + 2 > len(link):
            link = _grow(link, used[1] + 2)
            chain = np.full(_power(len(link)), -1, np.int64)
            for number in range(used[1]):
                slot = _slot(0, link[number, 0], link[number, 1], chain)
                link[number, 3] = chain[slot]
                chain[slot] = number
        for side in range(2):
            number, near, far = used[1], entry[at, side], entry[at, 1 - side]
            slot = _slot(0, 2 * view + side, near, chain)
            link[number, 0], link[number, 1], link[number, 2], link[number, 3] = 2 * view + side, near, far, chain[slot]
            chain[slot] = number
            used[1] += 1
    return ViewStore(place, entry, link, chain, used)


@njit(cache=True)
def _power(size):
    """Return the smallest power of two that is at least a number."""
    power = 1
    while power < size:
        power *= 2
    return power


@njit(cache=True)
def _bind(pool, row, term, vertex):
    """Bind a term in a row of the pool; return whether it can have this value."""
    if term >= 0:
        return term == vertex
    if pool[row, -1 - term] == UNBOUND:
        pool[row, -1 - term] = vertex
        return True
    return pool[row, -1 - term] == vertex


@njit(cache=True)
def _append_view(store, atom, pool, top):
    """Append all edges of an atom's view as rows; return the pool and its new end."""
    start, size = store.place[atom[VIEW], 0], store.place[atom[VIEW], 1]
    pool = _grow(pool, top + size + 1)
    for at in range(start, start + size):
        pool[top] = UNBOUND
        if _bind(pool, top, atom[SOURCE], store.entry[at, 0]) and _bind(pool, top, atom[TARGET], store.entry[at, 1]):
            top += 1
    return pool, top


@njit(cache=True)
def _seed(atom, source, label, target, pool, top):
    """Append the row of an atom bound to an edge, if the edge matches."""
    pool = _grow(pool, top + 1)
    pool[top] = UNBOUND
    if atom[LABEL] == label and _bind(pool, top, atom[SOURCE], source) and _bind(pool, top, atom[TARGET], target):
        top += 1
    return pool, top


@njit(cache=True)
def _append_extended(pool, row, far, vertex, top):
    """Append a row extended by the other end of an edge, if the end matches."""
    pool = _grow(pool, top + 1)
    pool[top] = pool[row]
    return pool, top + (1 if _bind(pool, top, far, vertex) else 0)


@njit(cache=True)
def _value(pool, row, term):
    return term if term >= 0 else pool[row, -1 - term]


@njit(cache=True)
def _join_atom(store, atom, forward, pool, base, top, caching, head, epoch):
    """Join the rows from `base` on with a view, at the atom's source if `forward`; the result takes their place.

    Without caching a hash table is built on the smaller input: `head` has one place for each vertex, valid in one epoch.
    """
    near, far, side = (atom[SOURCE], atom[TARGET], 0) if forward else (atom[TARGET], atom[SOURCE], 1)
    start, size, end = store.place[atom[VIEW], 0], store.place[atom[VIEW], 1], top
    if caching:
        for row in range(base, end):
            value = _value(pool, row, near)
            number = store.chain[_slot(0, 2 * atom[VIEW] + side, value, store.chain)]
            while number >= 0:
                if store.link[number, 0] == 2 * atom[VIEW] + side and store.link[number, 1] == value:
                    pool, top = _append_extended(pool, row, far, store.link[number, 2], top)
                number = store.link[number, 3]
    elif end - base <= size:
        following = np.empty(end - base, np.int64)
        for row in range(base, end):
            value = _value(pool, row, near)
            following[row - base] = head[value, 1] if head[value, 0] == epoch else -1
            head[value, 0], head[value, 1] = epoch, row
        for at in range(start, start + size):
            vertex = store.entry[at, side]
            row = head[vertex, 1] if head[vertex, 0] == epoch else -1
            while row >= 0:
                pool, top = _append_extended(pool, row, far, store.entry[at, 1 - side], top)
                row = following[row - base]
    else:
        following = np.empty(size, np.int64)
        for at in range(start, start + size):
            vertex = store.entry[at, side]
            following[at - start] = head[vertex, 1] if head[vertex, 0] == epoch else -1
            head[vertex, 0], head[vertex, 1] = epoch, at
        for row in range(base, end):
            value = _value(pool, row, near)
            at = head[value, 1] if head[value, 0] == epoch else -1
            while at >= 0:
                pool, top = _append_extended(pool, row, far, store.entry[at, 1 - side], top)
                at = following[at - start]
    pool[base : base + top - end] = pool[end:top].copy()
    return pool, base + top - end


@njit(cache=True)
def _join_path(store, layout, path, place, pool, base, top, caching, head, epoch):
    """Join rows of the atom at a place of a path with the atoms after it, and then with those before it."""
    first, last = layout.atom_start[path], layout.atom_start[path + 1]
    for number in range(first + place + 1, last):
        if top > base:
            epoch += 1
            pool, top = _join_atom(store, layout.atom[number], True, pool, base, top, caching, head, epoch)
    for number in range(first + place - 1, first - 1, -1):
        if top > base:
            epoch += 1
            pool, top = _join_atom(store, layout.atom[number], False, pool, base, top, caching, head, epoch)
    return pool, top, epoch


@njit(cache=True)
def _agree(pool, row, other, shared):
    for variable in range(pool.shape[1]):
        if shared >> variable & 1 and pool[row, variable] != pool[other, variable]:
            return False
    return True


@njit(cache=True)
def _hash_of(pool, row, shared):
    key = np.uint64(0)
    for variable in range(pool.shape[1]):
        if shared >> variable & 1:
            key = mix(key ^ np.uint64(pool[row, variable]))
    return key


@njit(cache=True)
def _append_merged(pool, row, other, top):
    pool = _grow(pool, top + 1)
    for variable in range(pool.shape[1]):
        pool[top, variable] = max(pool[row, variable], pool[other, variable])
    return pool, top + 1


@njit(cache=True)
def _join_paths(layout, first_path, ranges, pool, top):
    """Join the rows of all paths, the fewest first and then those that share variables; they are appended to the pool."""
    waiting = np.ones(len(ranges), np.bool_)
    sizes = ranges[:, 1] - ranges[:, 0]
    chosen = int(np.argmin(sizes))
    waiting[chosen] = False
    base, bound = top, layout.path_variables[first_path + chosen]
    pool = _grow(pool, top + sizes[chosen])
    pool[top : top + sizes[chosen]] = pool[ranges[chosen, 0] : ranges[chosen, 1]].copy()
    top += sizes[chosen]
    for _ in range(len(ranges) - 1):
        chosen, best = -1, 0
        for number in range(len(ranges)):
            if waiting[number]:
                shares = bound & layout.path_variables[first_path + number] != 0
                rank = sizes[number] + (0 if shares else 1 << 60)
                if chosen < 0 or rank < best:
                    chosen, best = number, rank
        waiting[chosen] = False
        low, high, end = ranges[chosen, 0], ranges[chosen, 1], top
        shared = bound & layout.path_variables[first_path + chosen]
        bound |= layout.path_variables[first_path + chosen]
        if (end - base) * (high - low) <= NESTED or shared == 0:
            for row in range(base, end):
                for other in range(low, high):
                    if _agree(pool, row, other, shared):
                        pool, top = _append_merged(pool, row, other, top)
        else:
            chain, following = np.full(_power(2 * (high - low)), -1, np.int64), np.empty(high - low, np.int64)
            for other in range(low, high):
                slot = np.int64(_hash_of(pool, other, shared) & np.uint64(len(chain) - 1))
                following[other - low] = chain[slot]
                chain[slot] = other
            for row in range(base, end):
                other = chain[np.int64(_hash_of(pool, row, shared) & np.uint64(len(chain) - 1))]
                while other >= 0:
                    if _agree(pool, row, other, shared):
                        pool, top = _append_merged(pool, row, other, top)
                    other = following[other - low]
        pool[base : base + top - end] = pool[end:top].copy()
        top = base + top - end
        if top == base:
            break
    return pool, base, top


@njit(cache=True)
def _is_image(pool, row, atom, source, label, target):
    """Return whether an atom is the edge under a binding."""
    return atom[LABEL] == label and _value(pool, row, atom[SOURCE]) == source and _value(pool, row, atom[TARGET]) == target


@njit(cache=True)
def _uses(layout, first, last, pool, row, source, label, target):
    """Return whether one of some atoms is the edge under a binding."""
    found = False
    for number in range(first, last):
        found |= _is_image(pool, row, layout.atom[number], source, label, target)
    return found


@njit(cache=True)
def _append_solution(out, found, update, query, pool, row):
    out = _grow(out, found + 1)
    out[found, 0], out[found, 1] = update, query
    out[found, 2:] = pool[row]
    return out, found + 1


@njit(cache=True)
def _solve(store, layout, query, update, edge, pool, out, found, caching, head, epoch):
    """Report the solutions of a pattern that use an edge, by joining whole views (INV)."""
    source, label, target = edge
    first, last = layout.path[query], layout.path[query + 1]
    ranges, top = np.empty((last - first, 2), np.int64), 0
    for path in range(first, last):
        base = top
        pool, top = _append_view(store, layout.atom[layout.atom_start[path]], pool, base)
        pool, top, epoch = _join_path(store, layout, path, 0, pool, base, top, caching, head, epoch)
        ranges[path - first, 0], ranges[path - first, 1] = base, top
        if top == base:
            return pool, out, found, epoch
    pool, base, top = _join_paths(layout, first, ranges, pool, top)
    for row in range(base, top):
        if _uses(layout, layout.atom_start[first], layout.atom_start[last], pool, row, source, label, target):
            out, found = _append_solution(out, found, update, query, pool, row)
    return pool, out, found, epoch


@njit(cache=True)
def _solve_from(store, layout, query, update, edge, pool, out, found, caching, head, epoch):
    """Report the solutions of a pattern that use an edge, by joining each path from the edge (INC)."""
    source, label, target = edge
    first, last = layout.path[query], layout.path[query + 1]
    whole, end = np.full((last - first, 2), -1, np.int64), 0
    ranges = np.empty_like(whole)
    for path in range(first, last):
        for place in range(layout.atom_start[path + 1] - layout.atom_start[path]):
            seed = layout.atom_start[path] + place
            own = end
            pool, top = _seed(layout.atom[seed], source, label, target, pool, own)
            pool, top, epoch = _join_path(store, layout, path, place, pool, own, top, caching, head, epoch)
            if top == own:
                continue
            end = top
            ranges[path - first, 0], ranges[path - first, 1] = own, top
            is_empty = False
            for other in range(first, last):
                if other != path and not is_empty:
                    if whole[other - first, 0] < 0:
                        pool, top = _append_view(store, layout.atom[layout.atom_start[other]], pool, end)
                        pool, top, epoch = _join_path(store, layout, other, 0, pool, end, top, caching, head, epoch)
                        whole[other - first, 0], whole[other - first, 1] = end, top
                        end = top
                    ranges[other - first] = whole[other - first]
                    is_empty = whole[other - first, 0] == whole[other - first, 1]
            if is_empty:
                continue
            pool, base, top = _join_paths(layout, first, ranges, pool, end)
            for row in range(base, top):
                if not _uses(layout, layout.atom_start[first], seed, pool, row, source, label, target):
                    out, found = _append_solution(out, found, update, query, pool, row)
    return pool, out, found, epoch


@njit(cache=True)
def _push(store, layout, edges, pool, head, epoch, asked, incremental, caching):
    """Insert edges; return the store, the solutions as rows (update, pattern, values of the variables), and the epoch."""
    out, found = np.empty((16, 2 + pool.shape[1]), np.int64), 0
    for update in range(len(edges)):
        source, label, target = edges[update]
        affected, epoch = 0, epoch + 1
        for way in range(4):
            view = _find_view(layout, label, source if way & 1 else UNBOUND, target if way & 2 else UNBOUND)
            if view < 0:
                continue
            store = _add_to_view(store, view, source, target, caching)
            for place in range(layout.reader_start[view], layout.reader_start[view + 1]):
                query = layout.reader[place]
                if asked[query, 1] != epoch:
                    asked[query, 1] = epoch
                    asked[affected, 0] = query
                    affected += 1
        for number in range(affected):
            query = asked[number, 0]
            is_possible = True
            for place in range(layout.atom_start[layout.path[query]], layout.atom_start[layout.path[query + 1]]):
                is_possible &= store.place[layout.atom[place, VIEW], 1] > 0
            if not is_possible:
                continue
            edge = (source, label, target)
            if incremental:
                pool, out, found, epoch = _solve_from(
                    store, layout, query, update, edge, pool, out, found, caching, head, epoch
                )
            else:
                pool, out, found, epoch = _solve(store, layout, query, update, edge, pool, out, found, caching, head, epoch)
    return store, out[:found], pool, epoch
