"""Rounds through the engine: tuples that go in at once, the rows that come of them, and what the engine does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from rpq.errors import ConflictBudgetError, InputError, LimitError
from rpq.kafka.message_tuples import Bad
from rpq.kafka.partition_merge import Released
from rpq.kafka.row_outputs import MESSAGES_TOLD, RowOutputs
from rpq.kafka.run_events import warn
from rpq.kafka.topic_input import RejectedTuple

if TYPE_CHECKING:
    from rpq.engine import Engine


class Stopped(Exception):
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

    def push(self, released: Released, *, silently: bool = False) -> int:
        """Push all tuples that the engine takes; how many rows came of it.  Raises `Stopped` where it takes one not.

        `silently` sends nothing: it was sent before.
        """
        tuples = released.columns
        if tuples is None:
            return 0
        if not silently:
            self._watch(tuples)
        if self.engine is None:
            self.engine = self._make_engine()
        wanted = not silently and self._outputs.are_wanted
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
                bad = Bad(RejectedTuple(released, row, tuples, error.row), str(error).removeprefix(f"row {error.row}: "))
                if self._stops:
                    raise Stopped(InputError(f"{bad.place}: {bad.reason}"), row, count) from error
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
                    error.args = (f"{Bad(place, '').place}: {str(error).removeprefix(f'row {error.row}: ')}",)
                raise
            self.tuples += tuples.num_rows
            if wanted:
                count += self._outputs.send(changes)
            break
        return count

    def reject(self, bad: Bad) -> None:
        """Count a message that is no tuple, tell of it, and send it where such go."""
        self.rejected += 1
        if len(self.rejections) < MESSAGES_TOLD:
            self.rejections.append(f"{bad.place}: {bad.reason}")
        message = bad.message
        place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        warn("rejected", **place, reason=bad.reason)
        self._outputs.set_apart(bad)
