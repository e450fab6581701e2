"""The saved state of a run over topics: the checkpoint, the journal of the rounds since then, and the lock on both.

Which rounds there are depends on when messages arrived.  So each round is written to the journal before the transaction
that carries its rows: a record (`rpq.files.record_log`) with its number and the offsets after it.  Pushing the tuples of
each partition up to these offsets, in the order of (timestamp, topic, partition, offset), replays the round.  After a
checkpoint the rounds before it are removed.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rpq.files.json_values import Damage, JsonValue
from rpq.files.record_log import LogError, LogKind, RecordLog, begins_with, read_log
from rpq.kafka.client import KafkaError, KafkaUsageError
from rpq.kafka.partition_merge import Place

if TYPE_CHECKING:
    from rpq.engine import Engine


class RunLock:
    """A lock on `FILE.lock`, where the system has file locks.  Raises `KafkaError` if another run holds it."""

    def __init__(self, checkpoint: str) -> None:
        self._file = None
        try:
            import fcntl
        except ImportError:  # then the broker fences the older run
            return
        self._file = os.open(f"{os.path.realpath(checkpoint)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise KafkaError(f"{checkpoint}: another run goes on from this checkpoint; end that one first") from None

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


KEY = "rpq kafka"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunPosition:
    """The position of a run at the time when its state was written.

    `run` identifies the run, to the broker and in the offsets that it commits; `round` is the last round in the state.
    `ends` and `fronts` are the offset and the largest timestamp of each partition.  `layouts` describe the values of each
    topic, `output` is the position of outputs other than topics, and `counts` are counts kept outside of the engine.
    """

    run: str
    round: int = 0
    ends: dict[Place, int] = field(default_factory=dict)
    fronts: dict[Place, int] = field(default_factory=dict)
    layouts: dict[str, Any] = field(default_factory=dict)
    output: Any = None
    counts: dict[str, int] = field(default_factory=dict)
    total_seconds: float = 0.0

    def to_text(self, identity: Mapping[str, Any]) -> str:
        """Serialize the position and the identity of the run."""
        return json.dumps(
            {
                "version": VERSION,
                "identity": dict(identity),
                "run": self.run,
                "round": self.round,
                "partitions": [[*place, end, self.fronts[place]] for place, end in sorted(self.ends.items())],
                "layouts": self.layouts,
                "output": self.output,
                "counts": self.counts,
                "total_seconds": self.total_seconds,
            }
        )


def parse_position(text: str | None, path: str) -> tuple[RunPosition, dict[str, Any]]:
    """Parse the position and the identity of a run from the text of a state.  Raises `KafkaError`."""
    if text is None:
        raise KafkaError(f"{path}: is no checkpoint of a run over topics of Kafka; name another file, or remove it")
    try:
        content = JsonValue.parsed(text, KEY)
        if "version" not in content or content["version"].whole() != VERSION:
            raise KafkaError(f"{path}: is no checkpoint of this version of `rpq run`; remove it to start anew")
        parts = [[value.value for value in part] for part in content["partitions"]]
        places = [Place(str(topic), int(number)) for topic, number, _, _ in parts]
        position = RunPosition(
            run=str(content["run"].value),
            round=content["round"].whole(0),
            ends=dict(zip(places, (int(end) for _, _, end, _ in parts), strict=True)),
            fronts=dict(zip(places, (int(front) for *_, front in parts), strict=True)),
            layouts=content["layouts"].value,
            output=content["output"].value,
            counts={name: value.whole(0) for name, value in content["counts"].items()},
            total_seconds=content["total_seconds"].number(),
        )
        return position, dict(content["identity"].value)
    except (Damage, ValueError, TypeError) as problem:
        raise KafkaError(f"{path}: is a damaged checkpoint: {problem}; remove it to start anew") from problem


class Round(NamedTuple):
    """A round: its number, and the offset after it of each partition that it advanced."""

    number: int
    ends: dict[Place, int]


KIND = LogKind(magic=b"rpqrun\0\0", noun="journal of `rpq run`", version=2)


class Journal:
    """A file of rounds of a run, created with given rounds; its content is on disk when `synchronise` returns."""

    def __init__(self, path: str, *, run: str, rounds: Iterable[Round] = ()) -> None:
        self.path = path
        self._run = run
        self._log = self._create_log(rounds)

    def _create_log(self, rounds: Iterable[Round]) -> RecordLog:
        records = [_record(number, ends) for number, ends in rounds]
        return RecordLog.create(self.path, KIND, {"run": self._run}, records)

    def write(self, number: int, ends: Mapping[Place, int]) -> None:
        """Add a round."""
        self._log.add(_record(number, ends))

    def synchronise(self) -> None:
        """Put all written rounds on disk.  Raises `OSError`."""
        self._log.synchronise()

    def restart(self) -> None:
        """Remove all rounds."""
        following = self._create_log(())
        self._log.close()
        self._log = following

    def close(self) -> None:
        self._log.close()


def _record(number: int, ends: Mapping[Place, int]) -> bytes:
    return json.dumps([number, [[*place, end] for place, end in ends.items()]], separators=(",", ":")).encode()


def read_journal(path: str, *, run: str) -> list[Round]:
    """Return the rounds of a run in a file, in order; none if there is no file, or it is empty.

    Rounds that a crash left incomplete are left out.  Raises `KafkaError` for a file that is damaged, of another run, or of
    a release with another format.
    """
    try:
        if not os.path.getsize(path):  # left by the previous release
            return []
        log = read_log(path, KIND)
        if log.damage is not None:
            raise log.damage
        if log.head.get("run") != run:
            raise KafkaError(f"{path}: is the journal of another run than the checkpoint beside it")
        found: list[Round] = []
        for place, record in log.records:
            number, ends = json.loads(bytes(record))
            if found and number != found[-1].number + 1:
                raise KafkaError(f"{path}: at byte {place}: round {number} follows round {found[-1].number}; it was changed")
            found.append(Round(int(number), {Place(str(topic), int(part)): int(end) for topic, part, end in ends}))
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise KafkaError(f"{path}: is a damaged journal of `rpq run`: {error}") from error
    except LogError as error:
        hint = ""
        if error.reason == "foreign" and begins_with(path, b"["):
            hint = "; if it is of the release before, start that once more and end it with SIGTERM, then start this one"
        raise KafkaError(f"{error}.  It was not touched{hint}") from error
    except OSError as error:
        raise KafkaError(f"{path}: cannot be read: {error.strerror or error}") from error
    return found


class CheckpointStore:
    """The checkpoint at a path, if any, with its journal and lock; `position` is the last one saved, or the initial one.

    `identity` describes the run, and `differences` compares an older identity with it.
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
        """Lock the checkpoint.  Raises `KafkaError` if another run has locked it."""
        if self.path is not None:
            self._lock = RunLock(self.path)

    def close(self) -> None:
        """Close the journal, and release the lock."""
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
        """Read the checkpoint, and return its engine; None if there is no checkpoint, or its engine had no tuple yet.

        Before the first tuple the type of vertices is unknown.  Raises `KafkaError` if the checkpoint is damaged, and
        `KafkaUsageError` if it is of another run.
        """
        if self.path is None or not os.path.exists(self.path) or self._restore is None:
            return None
        engine = self._restore(self.path)
        position, identity = parse_position(engine.extra.get(KEY), self.path)
        if found := self._differences(identity, self._identity):
            differing = "; ".join(found)
            raise KafkaUsageError(f"{self.path}: is the checkpoint of another run: {differing}.  Remove it to start anew.")
        self.position, self.resumed = position, True
        return engine if position.counts.get("tuples", 0) else None

    def begin_journal(self) -> None:
        """Create an empty journal."""
        self._journal = Journal(self._journal_path, run=self.position.run)

    def rounds_up_to(self, last: int) -> list[Round]:
        """Return the rounds after the checkpoint up to the last committed one; the journal continues after them.

        Raises `KafkaError` if the journal does not have all of them.
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

    def add_round(self, number: int, moved: Mapping[Place, int]) -> None:
        """Add a round to the journal."""
        if self._journal is not None:
            self._journal.write(number, moved)

    def synchronise(self) -> None:
        """Put the rounds of the journal on disk."""
        if self._journal is not None:
            self._journal.synchronise()

    def save(self, engine: Engine, position: RunPosition) -> None:
        """Write the checkpoint of an engine and its position, and remove the rounds before it from the journal."""
        assert self.path is not None
        self.position, self._saved = position, time.monotonic()
        engine.save(self.path, extra={KEY: position.to_text(self._identity)})
        if self._journal is not None:
            self._journal.restart()
