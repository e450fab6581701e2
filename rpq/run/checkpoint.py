"""Checkpoints of runs: the state of the engine, the positions of source and sink, and the identity of the run.

The identity is what must be the same for a run to resume from a checkpoint.

The file is replaced as a whole.  Everything it refers to is on disk before it: outputs are written first, then the
checkpoint.  If a run is killed between the two, the outputs are longer than the checkpoint says, and the next run truncates
them, or, with transactions, replays what was committed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rpq.errors import RpqError
from rpq.files.locks import check_in_place, try_lock
from rpq.stream.json_values import Damage, JsonValue

if TYPE_CHECKING:
    from rpq.engine.engine import Engine

VERSION = 1

Identity = Mapping[str, Any]


class CheckpointError(RpqError):
    """A checkpoint from which a run cannot resume."""


class AnotherRunError(CheckpointError):
    """A checkpoint of a run with other options, or over another input."""


class CheckpointLock:
    """A lock on `FILE.lock`, if system and disk have locks.  Raises `CheckpointError` if another process holds it."""

    def __init__(self, checkpoint: str) -> None:
        self.path = f"{os.path.realpath(checkpoint)}.lock"
        self._descriptor: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not try_lock(self._descriptor):
            self.release()
            raise CheckpointError(f"{checkpoint}: another run uses this checkpoint; end that one first")

    def check(self) -> None:
        """Raise `ReplacedFileError` if the file was removed, so that another run may use the checkpoint."""
        if self._descriptor is not None:
            check_in_place(self._descriptor, self.path)

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a run, between two slices.

    `source` and `sink` are their positions, in their own terms, or None at the beginning.  `tuples` counts the tuples that
    the engine accepted, and `rejected` those that were left out.  `total_seconds` is the time that the run took.
    """

    source: Any = None
    sink: Any = None
    tuples: int = 0
    rejected: int = 0
    total_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PositionFormat:
    """The fields of a position in a checkpoint.

    `key` names them in the engine's state.  `encode` returns the fields of a position as JSON values, and `decode` the
    position of such fields; it may raise `Damage`, `ValueError` and `TypeError`.  `foreign` is the message for a state
    without the key.
    """

    key: str
    encode: Callable[[Position], dict[str, Any]]
    decode: Callable[[JsonValue], Position]
    foreign: str = "is not a checkpoint of `rpq run`; remove it to start anew"


class Checkpoint:
    """The checkpoint of a run at a path.

    `identity` describes the run, and `differences` compares an older identity with it.  `restore` returns the engine of a
    file.
    """

    def __init__(
        self,
        path: str,
        form: PositionFormat,
        *,
        identity: Identity,
        differences: Callable[[Identity, Identity], list[str]],
        restore: Callable[[str], Engine],
    ) -> None:
        self.path = path
        self._form = form
        self._identity = dict(identity)
        self._differences = differences
        self._restore = restore
        self._written_at: float | None = None
        self._lock: CheckpointLock | None = None

    def lock(self) -> None:
        """Lock the checkpoint until `release`.  Raises `CheckpointError` if another run uses it, and `OSError`."""
        self._lock = CheckpointLock(self.path)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def age(self) -> float | None:
        """Seconds since the checkpoint was written; None if this run has not written it."""
        return None if self._written_at is None else time.monotonic() - self._written_at

    def read(self) -> tuple[Engine, Position] | None:
        """Return the engine and the position of the run, or None if there is no file.

        Raises `AnotherRunError` for the checkpoint of another run, `CheckpointError` for a damaged one, and
        `StateFormatError` for a file that is no saved state.
        """
        path = self.path
        if not os.path.exists(path):
            return None
        try:
            engine = self._restore(path)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
        text = engine.extra.get(self._form.key)
        if text is None:
            raise CheckpointError(f"{path}: {self._form.foreign}")
        try:
            content = JsonValue.parse(text, self._form.key)
            if (version := content["version"].integer()) != VERSION:
                raise CheckpointError(
                    f"{path}: is a checkpoint of version {version}, and this release reads version {VERSION}; remove it to "
                    "start anew"
                )
            before = {name: option.value for name, option in content["identity"].items()}
            position = self._form.decode(content)
        except (Damage, ValueError, TypeError) as problem:
            raise CheckpointError(f"{path}: is a damaged checkpoint: {problem}; remove it to start anew") from problem
        if found := self._differences(before, self._identity):
            raise AnotherRunError(f"{path}: is the checkpoint of another run: {'; '.join(found)}.  Remove it to start anew.")
        return engine, position

    def write(self, engine: Engine, position: Position) -> None:
        """Write the checkpoint.  It is on disk when this returns; until then the file has its previous content.

        Raises `ReplacedFileError` if another run may use the checkpoint now.
        """
        if self._lock is not None:
            self._lock.check()
        content = {"version": VERSION, "identity": self._identity, **self._form.encode(position)}
        engine.save(self.path, extra={self._form.key: json.dumps(content)})
        self._written_at = time.monotonic()
