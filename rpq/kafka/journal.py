"""The order in which a run took its messages, since its checkpoint: what makes it possible to take them so again.

A round is what was pushed to the engine at once: all messages between two places of each partition, in the order of
(timestamp, topic, partition, offset).  Which rounds there are depends on when messages came; so each is written down, before
the transaction that carries its rows: a record (`rpq.files.record_log`) a round, its number and the offsets behind it.
After a checkpoint the rounds before it are forgotten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rpq.files.record_log import LogError, LogKind, RecordLog, begins_with, read_log
from rpq.kafka.client_settings import KafkaError
from rpq.kafka.partition_merge import Place


class Round(NamedTuple):
    """A round by its number, and how far it brought the partitions that it moved."""

    number: int
    ends: dict[Place, int]


KIND = LogKind(magic=b"rpqrun\0\0", noun="journal of `rpq run`", version=2)


class Journal:
    """A file of rounds of a run, begun anew with some; what stands in it is on disk when `synchronise` returns."""

    def __init__(self, path: str, *, run: str, rounds: Iterable[Round] = ()) -> None:
        self.path = path
        self._run = run
        self._log = self._begun(rounds)

    def _begun(self, rounds: Iterable[Round]) -> RecordLog:
        records = [_record(number, ends) for number, ends in rounds]
        return RecordLog.create(self.path, KIND, {"run": self._run}, records)

    def write(self, number: int, ends: Mapping[Place, int]) -> None:
        """Add a round."""
        self._log.add(_record(number, ends))

    def synchronise(self) -> None:
        """Put on disk what was written.  Raises `OSError`."""
        self._log.synchronise()

    def restart(self) -> None:
        """Forget all rounds."""
        following = self._begun(())
        self._log.close()
        self._log = following

    def close(self) -> None:
        self._log.close()


def _record(number: int, ends: Mapping[Place, int]) -> bytes:
    return json.dumps([number, [[*place, end] for place, end in ends.items()]], separators=(",", ":")).encode()


def read_journal(path: str, *, run: str) -> list[Round]:
    """The rounds of a run in a file, in their order; none where there is no file, or it is empty.

    Rounds that a crash left incomplete are not there.  Raises `KafkaError` for a file that is damaged, of another run, or
    of a release that wrote them otherwise.
    """
    try:
        if not os.path.getsize(path):  # as the release before leaves it
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
