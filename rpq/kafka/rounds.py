"""Rounds of a run over topics: tuples that are pushed into the engine at once, their number, and the position after them."""

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
"""The number of tuples in the first round, and in the smallest and the largest."""

ROUND_SECONDS, ROUND_ROWS = 0.25, 1 << 18
"""The targets for the time of a round, and for the number of its rows."""


class RoundSize:
    """The size of rounds, which adapts to their time and rows; `most` is the largest number of tuples in the next one.

    >>> size = RoundSize()
    >>> size.update(size.most, rows=0, seconds=0.01)
    >>> size.most
    16384
    """

    def __init__(self) -> None:
        self.most = FIRST_ROUND

    def update(self, tuples: int, *, rows: int, seconds: float) -> None:
        """Record the rows and the time of a round of so many tuples."""
        growth = min(ROUND_ROWS / max(rows, 1), ROUND_SECONDS / max(seconds, 1e-9), 4.0)
        if tuples and (growth < 1 or tuples >= self.most):
            self.most = min(MOST_ROUND, max(LEAST_ROUND, int(tuples * growth)))


class RunProgress:
    """The position of a run: the last `round`, and the offset and the largest timestamp of each partition after it.

    `uncommitted` has the offsets of the partitions that rounds have advanced since the last commit.
    """

    def __init__(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        self.round = number
        self.ends, self.fronts = dict(ends), dict(fronts)
        self.uncommitted: dict[Place, int] = {}

    def changed_ends(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Return those of these offsets that differ from the current ones."""
        return {place: end for place, end in ends.items() if end != self.ends[place]}

    def advance(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        """Move the position to the end of a round."""
        self.round = number
        self.ends |= ends
        self.fronts |= {place: max(front, self.fronts[place]) for place, front in fronts.items()}

    def add_partition(self, place: Place) -> None:
        """Add a new partition."""
        self.ends[place], self.fronts[place] = 0, LEAST


class EngineStopped(Exception):
    """A tuple that the engine rejects, in `row` of the round; no later tuple was pushed."""

    def __init__(self, error: InputError, row: int, rows: int) -> None:
        super().__init__(str(error))
        self.error, self.row, self.rows = error, row, rows


class EngineRounds:
    """The engine of a run, which is created at the first tuple, when the type of vertices is known, and its counts.

    With `stops` a tuple that the engine rejects ends the run; `watch` is called with all tuples.
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
        """Push a round, and return the number of rows.  Raises `EngineStopped` for a tuple that the engine rejects.

        With `silently` rows are not sent: they were sent before.
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
        """Count and log a message that is no tuple, and send it to the topic of dead letters."""
        self.rejected += 1
        if len(self.rejections) < MAX_MESSAGES:
            self.rejections.append(f"{bad.place}: {bad.reason}")
        message = bad.message
        place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        log_warning("rejected", **place, reason=bad.reason)
        self._outputs.send_dead_letter(bad)
