"""Where a run stands, in one file: the engine's state, and how far input and outputs had come with it.

The file is replaced as a whole.  Everything it speaks of is on disk before it is: the order is outputs, checkpoint.  A
run that is killed between the two finds outputs longer than the checkpoint knows, and cuts them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rpq.cli.identity import differences
from rpq.errors import RpqError
from rpq.files.described import Damage, Described
from rpq.queries.protocol import MOST_ROWS

if TYPE_CHECKING:
    from rpq.engine import Engine

VERSION = 1
_KEY = "rpq run"


class CheckpointError(RpqError):
    """A checkpoint that a run cannot go on from."""


class AnotherRunError(CheckpointError):
    """A checkpoint of a run with other options, or over another input."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far a run has come: `tuples` of the input are consumed, of which `last` was the last one.

    `output` is the position of the output (see `rpq.cli.outputs.sinks`), by name where there are several, and `late_bytes`
    the length of the file of late tuples, None where there is no such output, or nothing in it yet.  `rejected` counts
    the tuples that the engine, not the reader, rejected.
    """

    tuples: int
    last: list[Any] | None
    output: Any
    late_bytes: int | None
    rejected: int
    total_seconds: float


@dataclass(frozen=True)
class Resumed:
    """A checkpoint that was found: where the run stood, and its engine."""

    position: Position
    engine: Engine


def write_checkpoint(path: str, engine: Engine, identity: dict[str, Any], position: Position) -> None:
    """Write the file, on disk when this returns; until then it is the one before."""
    content = {"version": VERSION, "identity": identity, "position": asdict(position)}
    engine.save(path, extra={_KEY: json.dumps(content)})


def read_checkpoint(
    path: str,
    identity: dict[str, Any],
    *,
    threads: int,
    memory_limit: int | None,
    witness: bool,
    max_rows: int | None = MOST_ROWS,
    unit: str | None = None,
    max_ahead: int | str | None = None,
) -> Resumed | None:
    """Return what stands in the file, None if there is no file; `AnotherRunError` if it is another run's.

    Raises `StateFormatError` for a file that is damaged, truncated, or something else.
    """
    import rpq

    if not os.path.exists(path):
        return None
    try:
        engine = rpq.Engine.restore(
            path, threads=threads, memory_limit=memory_limit, max_rows=max_rows, witness=witness, max_ahead=max_ahead
        )
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        content = Described.parsed(engine.extra.get(_KEY, "{}"), _KEY)
        if "version" not in content or content["version"].whole() != VERSION:
            raise CheckpointError(f"{path}: is no checkpoint of this version of `rpq run`; remove it to start anew")
        before = {name: option.value for name, option in content["identity"].items()}
        position = _position(content["position"])
    except Damage as problem:
        raise CheckpointError(f"{path}: is a damaged checkpoint: {problem}; remove it to start anew") from problem
    found = differences(before, identity, unit=unit)
    if found:
        raise AnotherRunError(
            f"{path}: is the checkpoint of another run: {'; '.join(found)}.  Remove it to start anew."
        )
    return Resumed(position, engine)


def _position(content: Described) -> Position:
    def length(value: Described) -> Any:
        if isinstance(value.value, dict):
            return {name: length(inside) for name, inside in value.items()}
        return None if value.is_none else value.whole(0)

    last = content["last"]
    return Position(
        tuples=content["tuples"].whole(0),
        last=None if last.is_none else [part.value for part in last],
        output=length(content["output"]),
        late_bytes=length(content["late_bytes"]),
        rejected=content["rejected"].whole(0),
        total_seconds=content["total_seconds"].number(),
    )
