"""A running query whose conjunctions are parts of `PatternHost`: what patterns and SPARQL queries have in common.

That is the membership in the host, counts and figures, the roots of its paths that are set aside, and saving and restoring.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rpq.errors import ConflictBudgetError
from rpq.language.hypercube import cell_of
from rpq.language.protocol import Figures, Overrun, Resources, RunningQuery
from rpq.operators.paths.path_query import latency_json, read_aside_roots, read_latency, set_aside_error
from rpq.operators.patterns.pattern_host import Member, PatternHost
from rpq.operators.patterns.read_relations import ReadRelations, WindowedReads
from rpq.operators.patterns.relations.path_relations import PathContent
from rpq.operators.patterns.relations.shared_relations import RelationKey
from rpq.rows.changes import SetAside
from rpq.rows.delta import Delta
from rpq.stream.edges.outcomes import OUTCOMES
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.json_values import Damage, JsonValue

_LARGEST_COUNT = 2**56


class HostedQuery(RunningQuery, Member):
    """A query that the host of patterns evaluates. A subclass sets `_names` and calls `_start` last in its `__init__`."""

    _relations: ReadRelations | WindowedReads
    _names: Sequence[str]
    """The names of the vertices that the query names."""

    question: Any  # a query of the subclass's kind, with attributes for its report and the kind of its paths

    def __init__(self, question: Any, resources: Resources) -> None:
        self.question = question
        self.report = question.report
        self._host: PatternHost = resources.host
        self._graph: SnapshotGraph | None = None
        self._rows = np.zeros(2, np.int64)
        self._cell = cell_of(question, resources.share)
        """The cell whose rows are this share's; None where the first share has all."""
        self._is_first_share = resources.share.number == 0
        self._origin = self._host.new_origin() if resources.is_late else 0

    def _start(self) -> None:
        """Enter the host."""
        self._host.members[self.question.name] = self
        self._host.invalidate_size(self.question.name)
        self._host.constants.acquire(self.question.name, self._names)
        try:
            self._enter()
        except BaseException:
            self._leave_host()
            raise

    @abstractmethod
    def _enter(self) -> None:
        """Take relations with the edges since `_origin`, and install plans."""

    @abstractmethod
    def _withdraw(self) -> None:
        """Remove plans and release relations."""

    def leave(self) -> None:
        """Release relations and plans."""
        self._withdraw()
        self._leave_host()

    def _leave_host(self) -> None:
        self._host.release_constants(self.question.name, self._names)
        del self._host.members[self.question.name]
        self._host.invalidate_sizes()

    @property
    def contents(self) -> set[RelationKey | PathContent]:
        """The contents of its relations."""
        return self._relations.contents

    # --- results ---------------------------------------------------------------------------------------------

    def _count_rows(self, delta: Delta) -> Delta:
        """Add a reported delta to the counts of rows, and return it."""
        if len(delta.ends) == 1:
            self._rows[0 if delta.kinds[0] > 0 else 1] += delta.ends[0]
        else:
            self._rows += delta.counts()
        return delta

    def rows(self) -> np.ndarray:
        return self._rows.copy()

    def _latency(self) -> np.ndarray:
        """Return the histogram of ticks of tuples since the query was registered.

        It covers tuples that any query of the host reads: the work of a tuple is that of all of them.
        """
        latency: np.ndarray = self._host.latency - self._latency_before
        return latency

    def _begin_latency(self) -> None:
        self._latency_before = self._host.latency_now()

    def _figures(self, *, answers: int, edges: int, cells: int) -> Figures:
        added, removed = self._rows.tolist()
        return Figures(
            counts=tuple(self._relations.counts),
            added=added,
            removed=removed,
            answers=answers,
            edges=edges,
            cells=cells,
            nbytes=self._host.nbytes // len(self._host.members),
            latency=self._latency(),
        )

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        return any(relation.index.may_overrun for relation in self._relations.path_relations)

    def pop_overruns(self) -> list[Overrun]:
        relations = self._relations.path_relations
        return [overrun for relation in relations for overrun in relation.pop_overruns(self.question.name)]

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        return set_aside_error(self.question, report)

    def set_aside(self) -> list[int]:
        return sorted({root for relation in self._relations.path_relations for root in relation.index.aside_roots})

    # --- saving and restoring --------------------------------------------------------------------------------

    def to_state(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        relations = self._relations.path_relations
        return {
            "counters": dict(zip(OUTCOMES, self._relations.counts, strict=True)),
            "rows": self._rows.tolist(),
            "latency": latency_json(self._latency()),
            "set_aside": [[(name_of(root), size) for root, size in one.index.aside_roots.items()] for one in relations],
        }

    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        counters = saved["counters"]
        counts = [counters[name].integer(0, _LARGEST_COUNT) for name in OUTCOMES]
        rows = [count.integer(0, _LARGEST_COUNT) for count in saved["rows"].tuple_of(2)]
        latency = read_latency(saved["latency"])
        relations = self._relations.path_relations
        aside = [read_aside_roots(roots, id_of) for roots in saved["set_aside"].tuple_of(len(relations))]
        for relation, roots in zip(relations, aside, strict=True):
            if not relation.is_loaded:
                relation.index.set_aside(roots)
        load()
        relations = self._relations.path_relations
        if any(relation.index.aside_roots.keys() != roots.keys() for relation, roots in zip(relations, aside, strict=True)):
            raise Damage("a root is set aside that meets no conflict")
        self._relations.set_counts(counts)
        self._latency_before = self._host.latency - latency
        self._rows[:] = rows
