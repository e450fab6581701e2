"""Permissions without an engine: a search by hand over dictionaries, and a recursive query in SQL."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from rpq.workloads.generate.permissions import RIGHTS

Edge = tuple[str, str, str]
"""Source, label, target."""


def edges_in(tables: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[Edge]:
    """Yield the edges of tables of tuples."""
    for table in tables:
        yield from zip(*(table[name].to_pylist() for name in ("source", "label", "target")), strict=True)


class Dictionaries:
    """A dictionary of sets for each relation, searched breadth first."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._after: dict[str, defaultdict[str, set[str]]] = {
            relation: defaultdict(set) for relation in ("member", "rights", "blocked", "parent", "content")
        }
        for source, label, target in edges:
            self._after["rights" if label in RIGHTS else label][source].add(target)
            if label == "parent":
                self._after["content"][target].add(source)

    def documents(self, user: str, *, is_excluding: bool) -> set[str]:
        """Return what a user may see."""
        groups = self._reach({user}, "member")
        found = self._of_groups(groups, "rights")
        return found - self._of_groups(groups, "blocked") if is_excluding else found

    def check(self, user: str, document: str) -> bool:
        """Return whether a user may see a document, by a search from both ends."""
        around = self._reach({document}, "parent")
        rights = self._after["rights"]
        return any(not around.isdisjoint(rights.get(group, ())) for group in self._reach({user}, "member"))

    def _of_groups(self, groups: set[str], relation: str) -> set[str]:
        return self._reach(set().union(*(self._after[relation].get(group, ()) for group in groups)), "content")

    def _reach(self, found: set[str], relation: str) -> set[str]:
        after, border = self._after[relation], found
        while border:
            border = set().union(*(after.get(one, ()) for one in border)) - found
            found = found | border
        return found


class Tables:
    """A table of DuckDB for each relation, and a recursive query, in one thread. Raises `ImportError` without DuckDB."""

    def __init__(self, table: pa.Table) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.register("tuples", table)
        for relation, labels in [("rights", RIGHTS), *((one, (one,)) for one in ("member", "parent", "blocked"))]:
            chosen = " OR ".join(f"label = '{label}'" for label in labels)
            self._connection.execute(f"CREATE TABLE {relation} AS SELECT source, target FROM tuples WHERE {chosen}")

    def documents(self, users: Sequence[str], *, is_excluding: bool) -> tuple[float, list[tuple[str, str]]]:
        """Return the CPU seconds of the query for some users, and its rows."""
        self._connection.register("online", pa.table({"name": users}))
        step = (
            "{0} AS (SELECT groups.u, {1}.target AS d FROM groups JOIN {1} ON source = g "
            "UNION SELECT {0}.u, parent.source FROM {0} JOIN parent ON parent.target = d)"
        )
        excluded = ", " + step.format("never", "blocked") if is_excluding else ""
        started = time.process_time()
        rows = self._connection.execute(
            "WITH RECURSIVE groups AS (SELECT name AS u, name AS g FROM online UNION SELECT u, target FROM groups "
            f"JOIN member ON source = g), {step.format('seen', 'rights')}{excluded} SELECT u, d FROM seen"
            + (" EXCEPT SELECT u, d FROM never" if is_excluding else "")
        ).fetchnumpy()
        return time.process_time() - started, list(zip(rows["u"].tolist(), rows["d"].tolist(), strict=True))
