"""The order in which a run took its messages, since its checkpoint: what makes it possible to take them so again.

A round is what was pushed to the engine at once: all messages between two places of each partition, in the order of
(timestamp, topic, partition, offset).  Which rounds there are depends on when messages came; so each is written down, before
the transaction that carries its rows: one line a round, its number and the offsets behind it.  After a checkpoint the
rounds before it are forgotten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from rpq.files.destinations import private, replacing
from rpq.kafka.client_settings import KafkaError
from rpq.kafka.partition_merge import Place


class Round(NamedTuple):
    """A round by its number, and how far it brought the partitions that it moved."""

    number: int
    ends: dict[Place, int]


class Journal:
    """A file of rounds; what stands in it is on disk when `synchronise` returns."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "ab", opener=private)  # noqa: SIM115 - open as long as the run is
        self._is_synchronised = True

    def write(self, number: int, ends: Mapping[Place, int]) -> None:
        """Add a round."""
        entry = [number, [[*place, end] for place, end in ends.items()]]
        self._file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        self._is_synchronised = False

    def synchronise(self) -> None:
        """Put on disk what was written."""
        if not self._is_synchronised:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._is_synchronised = True

    def restart(self, rounds: list[Round] | None = None) -> None:
        """Forget all rounds but these."""
        self._file.close()
        with replacing(self.path, is_private=True) as file:
            for number, ends in rounds or ():
                entry = [number, [[*place, end] for place, end in ends.items()]]
                file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        self._file = open(self.path, "ab", opener=private)  # noqa: SIM115
        self._is_synchronised = True

    def close(self) -> None:
        self._file.close()


def read_journal(path: str) -> list[Round]:
    """The rounds in a file, in their order; a last line that was not written to its end is not there."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KafkaError(f"{path}: cannot be read: {error.strerror or error}") from error
    found: list[Round] = []
    lines = content.split(b"\n")
    for line_number, line in enumerate(lines[:-1], 1):
        try:
            number, ends = json.loads(line)
            found.append(Round(int(number), {Place(str(topic), int(part)): int(end) for topic, part, end in ends}))
        except (ValueError, TypeError) as error:
            raise KafkaError(f"{path}:{line_number}: is no journal of `rpq run`; it was damaged or changed") from error
    return found
