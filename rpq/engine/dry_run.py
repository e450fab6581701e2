"""Dry runs of pushes in a copy of an engine with witnesses, which show where rows enter.

Most kinds of queries find a witness in the graph after a chunk, so the chunk has to end with the tuple that brings the row.
A copy of the engine without witnesses applies each push first, in large chunks: its rows say where those of the engine end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rpq.compiled.cycle_counter import INTERRUPTED
from rpq.engine.running.evaluation import Evaluation
from rpq.errors import LimitError, PushLimitError
from rpq.stream.columns import Columns

_EDGES_PER_TUPLE = 16
"""To copy so many edges of the window takes less time than a chunk of one tuple."""


class DryRun:
    """The copy of an engine with witnesses that applies each push first.

    It is made for a push of several tuples, after some that were applied one by one, so that copies do not dominate the run
    time. `drop` it when the engine changes otherwise than by tuples and time. It counts toward the memory limit of the
    engine, and there is none if that is too small.
    """

    def __init__(self, *, least: int) -> None:
        self._least = least
        self._single_tuples = 0
        self._copy: Evaluation | None = None

    def drop(self) -> None:
        """Forget the copy."""
        self._copy = None

    def ends(self, evaluation: Evaluation, tuples: Columns, copy_of: Callable[[], Evaluation]) -> np.ndarray | None:
        """Return the `ends` of `Evaluation.push` for tuples that are pushed next; None if there is no copy.

        `copy_of` returns an independent evaluation with the same state, without witnesses.
        """
        if not evaluation.needs_ends(tuples) or evaluation.running.queries_with_budget:
            self.drop()  # a copy may exceed a budget at other tuples
            return None
        if self._copy is None:
            self._single_tuples += len(tuples)
            if self._single_tuples < self._least + evaluation.graph.edge_count // _EDGES_PER_TUPLE:
                return None
            self._single_tuples = 0
            try:
                self._copy = copy_of()
            except LimitError:
                return None
        copy, self._copy = self._copy, None  # which an error leaves midway
        guard, own = evaluation.guard, copy.guard
        own.limit, own.push_limit = guard.limit - guard.nbytes, guard.push_limit
        own.start_clock(is_limited=True)
        ends, failure = copy.find_ends(tuples)
        if failure is None:
            self._copy = copy
        elif isinstance(failure, PushLimitError):
            # The engine is interrupted in the same way, at a tuple before which it has applied all.
            own.deadline[0] = INTERRUPTED if failure.limit is None else 0
        return ends

    def follow(self, apply: Callable[[Evaluation], object]) -> None:
        """Apply to the copy what was applied to the engine."""
        copy, self._copy = self._copy, None
        if copy is None:
            return
        try:
            apply(copy)
        except LimitError:
            return
        if not copy.midway:
            self._copy = copy
