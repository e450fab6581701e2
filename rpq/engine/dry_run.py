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

    It is made after some tuples that were applied one by one, so that copies do not dominate the run time. Set `copy` to
    None when the engine changes otherwise than by `push`. It counts toward the memory limit of the engine, and there is none
    if that is too small.
    """

    def __init__(self, *, least: int) -> None:
        self._least = least
        self._single_tuples = 0
        self.copy: Evaluation | None = None

    def ends(
        self, evaluation: Evaluation, tuples: Columns, copy_of: Callable[[int], Evaluation]
    ) -> np.ndarray | None:
        """Return the `ends` of `Evaluation.push` for tuples that are pushed next; None if there is no copy.

        `copy_of` returns an independent evaluation with the same state and a limit on memory, without witnesses.
        """
        copy, self.copy = self.copy, None  # which an error would leave midway
        # One tuple needs no copy, and a copy may exceed a budget at other tuples.
        if len(tuples) < 2 or not evaluation.needs_ends(tuples) or evaluation.running.queries_with_budget:
            return None
        guard = evaluation.guard
        room = guard.limit - guard.nbytes
        if copy is None or copy.guard.nbytes > room or not _have_equal_types(copy, evaluation):
            self._single_tuples += len(tuples)
            if self._single_tuples < self._least + evaluation.graph.edge_count // _EDGES_PER_TUPLE:
                return None
            self._single_tuples = 0
            try:
                copy = copy_of(room)
            except LimitError:
                return None
        own = copy.guard
        own.change_limit(room)
        own.push_limit = guard.push_limit
        if guard.deadline[0] != INTERRUPTED:
            own.start_clock(is_limited=True)
        ends, failure = copy.find_ends(tuples)
        if failure is None:
            self.copy = copy
        elif isinstance(failure, PushLimitError):
            # The engine is interrupted in the same way, at a tuple before which it has applied all.
            own.deadline[0] = INTERRUPTED if failure.limit is None else 0
        return ends


def _have_equal_types(copy: Evaluation, evaluation: Evaluation) -> bool:
    """Return whether a copy knows the types of properties and timestamps, which are learnt before tuples are applied."""
    if copy.multigraph is None or evaluation.multigraph is None:
        return copy.multigraph is evaluation.multigraph
    one, other = copy.multigraph.sets, evaluation.multigraph.sets
    return (one.types.names, one.time_unit, one.is_timed) == (other.types.names, other.time_unit, other.is_timed)
