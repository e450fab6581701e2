"""What is kept of a run: the checkpoint, the journal of the rounds since, and the lock that lets one run have them."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rpq.kafka.client_settings import KafkaError, KafkaUsageError
from rpq.kafka.journal import Journal, Round, read_journal
from rpq.kafka.partition_merge import Place
from rpq.kafka.run_lock import RunLock
from rpq.kafka.run_position import KEY, RunPosition, position_in

if TYPE_CHECKING:
    from rpq.engine import Engine


class KeptState:
    """The checkpoint at a path, where there is one; `position` is where the run stood at the last, or where it begins.

    `identity` is what the run is, `differences` what an older identity differs in from it.
    """

    def __init__(
        self,
        path: str | None,
        *,
        restore: Callable[[str], Engine] | None,
        identity: Mapping[str, Any],
        differences: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]],
    ) -> None:
        self.path = path
        self.position = RunPosition(run=uuid.uuid4().hex[:16])
        self.resumed = False
        self._restore = restore
        self._identity = dict(identity)
        self._differences = differences
        self._lock: RunLock | None = None
        self._journal: Journal | None = None
        self._saved: float | None = None

    def lock(self) -> None:
        """Let no other run have it; raises `KafkaError` where one does."""
        if self.path is not None:
            self._lock = RunLock(self.path)

    def close(self) -> None:
        """Let another run have it."""
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def age(self) -> float | None:
        """Seconds since the checkpoint was written; None without one."""
        return None if self._saved is None else time.monotonic() - self._saved

    # --- at the beginning ------------------------------------------------------------------------------------

    def resume(self) -> Engine | None:
        """The engine of the checkpoint, if there is one and it has had a tuple; before, it is not known what vertices are.

        Raises `KafkaError` where the checkpoint is damaged, `KafkaUsageError` where it is another run's.
        """
        if self.path is None or not os.path.exists(self.path) or self._restore is None:
            return None
        engine = self._restore(self.path)
        position, identity = position_in(engine.extra.get(KEY), self.path)
        if found := self._differences(identity, self._identity):
            differing = "; ".join(found)
            raise KafkaUsageError(f"{self.path}: is the checkpoint of another run: {differing}.  Remove it to start anew.")
        self.position, self.resumed = position, True
        return engine if position.counts.get("tuples", 0) else None

    def begin_journal(self) -> None:
        """Begin a journal in which there is no round."""
        self._journal = Journal(self._journal_path, run=self.position.run)

    def rounds_up_to(self, last: int) -> list[Round]:
        """The rounds since the checkpoint up to the last that was committed; the journal goes on behind them.

        Raises `KafkaError` where the journal does not tell them all.
        """
        path, first = self._journal_path, self.position.round + 1
        rounds = [one for one in read_journal(path, run=self.position.run) if first <= one.number <= last]
        if [one.number for one in rounds] != [*range(first, last + 1)]:
            raise KafkaError(
                f"{path}: does not tell the order of the rounds {first} to {last}, which were committed since the "
                "checkpoint; it was lost or changed.  Remove the checkpoint to start anew"
            )
        self._journal = Journal(path, run=self.position.run, rounds=rounds)
        return rounds

    @property
    def _journal_path(self) -> str:
        assert self.path is not None
        return f"{self.path}.journal"

    # --- as it goes on ---------------------------------------------------------------------------------------

    def note(self, number: int, moved: Mapping[Place, int]) -> None:
        """Write a round into the journal."""
        if self._journal is not None:
            self._journal.write(number, moved)

    def synchronise(self) -> None:
        """See to it that the rounds that were noted are on disk."""
        if self._journal is not None:
            self._journal.synchronise()

    def save(self, engine: Engine, position: RunPosition) -> None:
        """Write the checkpoint, in which the engine stands at a position, and forget the rounds before it."""
        assert self.path is not None
        self.position, self._saved = position, time.monotonic()
        engine.save(self.path, extra={KEY: position.to_text(self._identity)})
        if self._journal is not None:
            self._journal.restart()
