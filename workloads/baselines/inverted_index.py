"""The baselines INV, INV+, INC and INC+ of TriC (Zervakis et al., EDBT 2020, section 5): many patterns over inserted edges.

A pattern is divided into *covering paths*. Each of its atoms has a materialized view: the edges with its label and its
constants. An update is looked up in an inverted index of atoms, which returns the patterns that it affects; for these
patterns, the views along each path are joined, and then the paths with one another.

- INV joins whole views, and reports the solutions that use the update
- INC joins a path that the update affects by starting from the update only
- INV+ and INC+ store the hash tables that joins build on views, and extend them with each update
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Term = str
"""A variable, which begins with `?`, or a vertex."""
Atom = tuple[Term, str, Term]
Edge = tuple[str, str, str]
"""Source, label, target."""
View = tuple[str, str | None, str | None]
"""The label of an atom, and the constants at its ends, None for variables."""
Binding = dict[Term, str]
Row = tuple[str, ...]


@dataclass
class _RegisteredQuery:
    """A registered pattern: its atoms, its variables, and its covering paths."""

    atoms: tuple[Atom, ...]
    variables: tuple[Term, ...]
    paths: list[tuple[Atom, ...]]


@dataclass
class _Tables:
    """Hash tables of a view, by the sources and by the targets of its edges."""

    by_source: dict[str, list[str]] = field(default_factory=dict)
    by_target: dict[str, list[str]] = field(default_factory=dict)

    def add(self, source: str, target: str) -> None:
        self.by_source.setdefault(source, []).append(target)
        self.by_target.setdefault(target, []).append(source)


class InvertedIndex:
    """An inverted index of patterns over a growing graph: INV, or INC if `incremental`; INV+ or INC+ if `caching`.

    >>> index = InvertedIndex(incremental=True, caching=True)
    >>> index.register("q", [("?x", "a", "?y"), ("?y", "b", "z")])
    >>> index.insert(("u", "a", "v")), index.insert(("v", "b", "z"))
    ({}, {'q': {('u', 'v')}})
    """

    def __init__(self, *, incremental: bool, caching: bool) -> None:
        self._incremental = incremental
        self._caching = caching
        self._queries: dict[str, _RegisteredQuery] = {}
        self._readers: dict[View, list[str]] = {}  # the inverted index
        self._views: dict[View, list[tuple[str, str]]] = {}
        self._tables: dict[View, _Tables] = {}
        self._edges: set[Edge] = set()

    def register(self, name: str, atoms: Iterable[Atom]) -> None:
        """Index a pattern, which is possible only before the first edge. O(atoms²)."""
        different = tuple(dict.fromkeys(atoms))
        terms = dict.fromkeys(term for source, _, target in different for term in (source, target))
        variables = tuple(term for term in terms if _is_variable(term))
        self._queries[name] = _RegisteredQuery(different, variables, covering_paths(different))
        for view in dict.fromkeys(map(_view_of, different)):
            self._readers.setdefault(view, []).append(name)
            self._views.setdefault(view, [])
            self._tables.setdefault(view, _Tables())

    def insert(self, edge: Edge) -> dict[str, set[Row]]:
        """Insert an edge; return the new solutions by pattern, as values of its variables in order."""
        if edge in self._edges:
            return {}
        self._edges.add(edge)
        source, label, target = edge
        affected: dict[str, None] = {}
        for view in ((label, s, t) for s in (source, None) for t in (target, None)):
            if view in self._views:
                self._views[view].append((source, target))
                if self._caching:
                    self._tables[view].add(source, target)
                affected |= dict.fromkeys(self._readers[view])
        found = {}
        for name in affected:
            query = self._queries[name]
            if all(self._views[_view_of(atom)] for atom in query.atoms) and (rows := self._solutions(query, edge)):
                found[name] = rows
        return found

    def _solutions(self, query: _RegisteredQuery, edge: Edge) -> set[Row]:
        """Compute the solutions of a pattern that use an edge."""
        if not self._incremental:
            results = []
            for path in query.paths:
                results.append(self._join(path, self._whole(path[0]), 0))
                if not results[-1]:
                    return set()
            return {
                tuple(binding[name] for name in query.variables)
                for binding in _join_rows(results)
                if any(_image(atom, binding) == edge for atom in query.atoms)
            }
        found: set[Row] = set()
        whole: dict[int, list[Binding]] = {}
        for number, path in enumerate(query.paths):
            for place, atom in enumerate(path):
                first = _bind({}, atom, edge[0], edge[2]) if edge[1] == atom[1] else None
                own = [] if first is None else self._join(path, [first], place)
                if not own:
                    continue
                results = [own]
                for other, others in enumerate(query.paths):
                    if other != number:
                        if other not in whole:
                            whole[other] = self._join(others, self._whole(others[0]), 0)
                        results.append(whole[other])
                found |= {tuple(binding[name] for name in query.variables) for binding in _join_rows(results)}
        return found

    def _whole(self, atom: Atom) -> list[Binding]:
        """Return all edges of an atom's view."""
        bindings = (_bind({}, atom, source, target) for source, target in self._views[_view_of(atom)])
        return [binding for binding in bindings if binding is not None]

    def _join(self, path: Sequence[Atom], rows: list[Binding], place: int) -> list[Binding]:
        """Join rows of the atom at a place of a path with the views after this place, and then with the views before it."""
        ways = [(number, True) for number in range(place + 1, len(path))]
        ways += [(number, False) for number in range(place - 1, -1, -1)]
        for number, forward in ways:
            if not rows:
                return []
            atom = path[number]
            near = atom[0] if forward else atom[2]
            table = self._table(_view_of(atom), forward)
            joined = []
            for row in rows:
                value = row.get(near, near)
                for other in table.get(value, ()):
                    ends = (value, other) if forward else (other, value)
                    if (binding := _bind(row, atom, *ends)) is not None:
                        joined.append(binding)
            rows = joined
        return rows

    def _table(self, view: View, forward: bool) -> dict[str, list[str]]:
        """Return the hash table of a view, from the cache or newly built."""
        tables = self._tables[view]
        if not self._caching:
            tables = _Tables()
            for source, target in self._views[view]:
                tables.add(source, target)
        return tables.by_source if forward else tables.by_target


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
            known = [atom for atom in out.get(here, ()) if atom[2] not in visited]
            if not (fresh or (path and known)):
                break
            path.append((fresh or known)[0])
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


def _view_of(atom: Atom) -> View:
    source, label, target = atom
    return label, None if _is_variable(source) else source, None if _is_variable(target) else target


def _bind(row: Binding, atom: Atom, source: str, target: str) -> Binding | None:
    """Bind the ends of an atom to those of an edge; return the row, or None if they do not match."""
    found = dict(row)
    for term, value in ((atom[0], source), (atom[2], target)):
        if (found.setdefault(term, value) if _is_variable(term) else term) != value:
            return None
    return found


def _image(atom: Atom, binding: Binding) -> Edge:
    return binding.get(atom[0], atom[0]), atom[1], binding.get(atom[2], atom[2])


def _join_rows(results: list[list[Binding]]) -> list[Binding]:
    """Join the rows of several paths by their common variables."""
    rows, *others = sorted(results, key=len)
    while others:
        if not rows:
            return []
        bound = rows[0].keys()
        others.sort(key=lambda some: (not some or not (some[0].keys() & bound), len(some)))
        some = others.pop(0)
        shared = sorted(bound & some[0].keys()) if some else []
        table: dict[Row, list[Binding]] = {}
        for row in some:
            table.setdefault(tuple(row[name] for name in shared), []).append(row)
        rows = [row | other for row in rows for other in table.get(tuple(row[name] for name in shared), ())]
    return rows
