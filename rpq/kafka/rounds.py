"""How many tuples are pushed at once: so many that a round neither takes long nor brings more rows than are soon sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from rpq.errors import ConflictBudgetError, InputError, LimitError
from rpq.kafka.client import log_warning
from rpq.kafka.message_reader import BadMessage
from rpq.kafka.partition_merge import LEAST, MergedTuples, Place
from rpq.kafka.row_outputs import MAX_MESSAGES, RowOutputs
from rpq.kafka.topic_reader import RejectedTuple

if TYPE_CHECKING:
    from rpq.engine import Engine

FIRST_ROUND, LEAST_ROUND, MOST_ROUND = 4096, 16, 100_000
"""Tuples of a round: of the first, and of the smallest and largest that it may become."""

ROUND_SECONDS, ROUND_ROWS = 0.25, 1 << 18
"""Time that a round is meant to take, and rows that it is meant to bring, at most."""


class RoundSize:
    """Grows and shrinks with what rounds have taken; `most` is how many tuples the next one may have.

    >>> size = RoundSize()
    >>> size.update(size.most, rows=0, seconds=0.01)
    >>> size.most
    16384
    """

    def __init__(self) -> None:
        self.most = FIRST_ROUND

    def update(self, tuples: int, *, rows: int, seconds: float) -> None:
        """Note what a round of so many tuples has brought, and how long it took."""
        growth = min(ROUND_ROWS / max(rows, 1), ROUND_SECONDS / max(seconds, 1e-9), 4.0)
        if tuples and (growth < 1 or tuples >= self.most):
            self.most = min(MOST_ROUND, max(LEAST_ROUND, int(tuples * growth)))


class RunProgress:
    """Begins at a `round`, with the offset and the largest timestamp of each partition there.

    `uncommitted` are the partitions that rounds have moved since the last commit, and how far.
    """

    def __init__(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        self.round = number
        self.ends, self.fronts = dict(ends), dict(fronts)
        self.uncommitted: dict[Place, int] = {}

    def changed_ends(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Those of these offsets that are not where the partitions stand."""
        return {place: end for place, end in ends.items() if end != self.ends[place]}

    def advance(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        """Stand behind a round."""
        self.round = number
        self.ends |= ends
        self.fronts |= {place: max(front, self.fronts[place]) for place, front in fronts.items()}

    def add_partition(self, place: Place) -> None:
        """Take in a partition that is new."""
        self.ends[place], self.fronts[place] = 0, LEAST


class EngineStopped(Exception):
    """The engine does not take a tuple: `row` of the round, behind which nothing was pushed."""

    def __init__(self, error: InputError, row: int, rows: int) -> None:
        super().__init__(str(error))
        self.error, self.row, self.rows = error, row, rows


class EngineRounds:
    """Pushes rounds, and counts; the engine is made with the first tuple, which tells what vertices are.

    With `stops` a tuple that the engine does not take ends the run; `watch` sees all tuples.
    """

    def __init__(
        self,
        outputs: RowOutputs,
        *,
        make_engine: Callable[[], Engine],
        stops: bool,
        watch: Callable[[pa.RecordBatch], None],
    ) -> None:
        self.engine: Engine | None = None
        self.tuples = self.rejected = 0
        self.rejections: list[str] = []
        self._outputs = outputs
        self._make_engine = make_engine
        self._stops = stops
        self._watch = watch

    def push(self, released: MergedTuples, *, silently: bool = False) -> int:
        """Push all tuples that the engine takes; how many rows came of it.  Raises `EngineStopped` where it takes one not.

        `silently` sends nothing: it was sent before.
        """
        tuples = released.columns
        if tuples is None:
            return 0
        if not silently:
            self._watch(tuples)
        if self.engine is None:
            self.engine = self._make_engine()
        wanted = not silently and self._outputs.has_destination
        count = first = 0
        while tuples.num_rows:
            try:
                changes = self.engine.push(tuples, collect=wanted)
            except InputError as error:
                before = getattr(error, "changes", None)
                if before is not None and wanted:
                    count += self._outputs.send(before)
                if error.row is None:
                    raise
                row = first + error.row
                self.tuples += error.row
                bad = BadMessage(
                    RejectedTuple(released, row, tuples, error.row), str(error).removeprefix(f"row {error.row}: ")
                )
                if self._stops:
                    raise EngineStopped(InputError(f"{bad.place}: {bad.reason}"), row, count) from error
                if silently:
                    self.rejected += 1
                else:
                    self.reject(bad)
                tuples = tuples.slice(error.row + 1)
                first = row + 1
                continue
            except (LimitError, ConflictBudgetError) as error:
                if error.row is not None:
                    place = RejectedTuple(released, first + error.row, tuples, error.row)
                    error.args = (f"{BadMessage(place, '').place}: {str(error).removeprefix(f'row {error.row}: ')}",)
                raise
            self.tuples += tuples.num_rows
            if wanted:
                count += self._outputs.send(changes)
            break
        return count

    def reject(self, bad: BadMessage) -> None:
        """Count a message that is no tuple, tell of it, and send it where such go."""
        self.rejected += 1
        if len(self.rejections) < MAX_MESSAGES:
            self.rejections.append(f"{bad.place}: {bad.reason}")
        message = bad.message
        place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        log_warning("rejected", **place, reason=bad.reason)
        self._outputs.send_dead_letter(bad)
