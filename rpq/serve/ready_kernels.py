"""Kernels of queries that come later: compiled, or loaded, beside the engine, which goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from rpq.cli.reporting import compile_kernels, kernels_of
from rpq.queries.query import Query
from rpq.sparql.query import SparqlQuery

MOST_KNOWN = 10_000


class ReadyKernels:
    """Sees to it that the engine finds what a query needs; one query at a time."""

    def __init__(self, *, threads: int = 1, state: bool = False) -> None:
        self._threads = threads
        self._state = state
        self._lock = threading.Lock()
        self._known: set[Hashable] = set()

    def see_to(self, query: Query, *, integers: bool = False, witness: bool = False) -> None:
        """Compile what is not compiled yet; seconds or more the first time ever, nothing the second time."""
        kind = (kernels_of(query), integers, witness, query.expression if isinstance(query, SparqlQuery) else None)
        if kind in self._known:
            return
        with self._lock:
            if kind in self._known:
                return
            compile_kernels(
                [query], integers=integers, threads=self._threads, witness=witness, state=self._state, quiet=True
            )
            if len(self._known) < MOST_KNOWN:
                self._known.add(kind)
