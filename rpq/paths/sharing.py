"""Queries that share trees: which may, and the worker that stands for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from rpq.automata import DFA
from rpq.paths.direction import Way
from rpq.paths.index.delta_index import DeltaIndex, PathDelta
from rpq.paths.program import Compiled
from rpq.queries.protocol import Resources
from rpq.queries.query import Query
from rpq.results.delta import Delta


def shared_key(query: Query, way: Way, resources: Resources) -> Hashable | None:
    """Return the key of a query's trees, which queries with equal keys share; None where it has trees of its own."""
    if resources.sharing == "never" or resources.witness or resources.is_late:
        return None
    if query.paths == "simple" and len(Compiled(way.dfa).program.later_state):
        return None  # in doubt
    ends = None if way.ends is None else frozenset(way.ends)
    numbered = query.label_set if query.window.kind == "count" else None
    return words_of(way.dfa), way.turned, query.window, query.semantics, query.paths, ends, numbered


class Trees(Protocol):
    """The protocol of trees whose rows are dealt out to several queries."""

    def rows_by_query(self, delta: PathDelta) -> list[tuple[int, Delta]]:
        """Return the rows of an index by query."""

    def sweep(self) -> None:
        """Drop trees without readers."""

    def _check(self) -> None:
        """Assert the invariants."""


class Sharer:
    """An index whose rows are dealt out to the queries that share it: a worker for all of them."""

    def __init__(self, trees: Trees, index: DeltaIndex) -> None:
        self._trees = trees
        self._index = index
        self.apply = index.apply

    @property
    def has_rows(self) -> bool:
        """Whether the index has reported any."""
        return self._index.has_rows

    def deltas(self, *, before: int | None = None) -> list[tuple[int, Delta]]:
        """Return the rows of the last call, or those `before` a tuple of it, behind the numbers of their queries."""
        return self._trees.rows_by_query(self._index.delta(before=before))

    def advance(self, time: int) -> list[tuple[int, Delta]]:
        """Move the stream time without a tuple."""
        return self._trees.rows_by_query(self._index.advance(time))

    def sweep(self) -> None:
        """Release everything that has left the window, or that has no reader."""
        self._trees.sweep()
        self._index.sweep()

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._index.nbytes

    def _check(self) -> None:
        """Assert the invariants."""
        self._index._check()
        self._trees._check()


def words_of(dfa: DFA) -> Hashable:
    """Return the minimal automaton as a value: equal for expressions with the same non-empty words. O(its size).

    Whether the start accepts says something only where a word leads back to it: the empty path is no answer.
    """
    columns = [(*symbol, *dfa.transitions[:, column].tolist()) for column, symbol in enumerate(dfa.symbols)]
    begin = 0 if (dfa.transitions == 0).any() else 1
    return tuple(sorted(columns, key=repr)), begin, tuple(dfa.accepting[begin:].tolist())
