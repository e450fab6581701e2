"""What a server's checkpoint says beside the engine's state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rpq.errors import RpqError
from rpq.files.json_values import Damage, JsonValue

if TYPE_CHECKING:
    from rpq.engine import Engine

KEY = "rpq serve"
VERSION = 2


class ServedStateError(RpqError):
    """A checkpoint that a server cannot go on from."""


@dataclass(frozen=True, kw_only=True)
class ServedState:
    """`run` tells whose the positions are; `progress` is how far an input had come, as the input tells it.

    `journal` is the identity of the journal that goes on from here, and `generation` its number; a checkpoint of version 1
    does not know it.
    """

    run: str
    position: int
    progress: Any = None
    tuples: int = 0
    late: int = 0
    journal: str | None = None
    generation: int = 0


def write_served_state(engine: Engine, path: str, state: ServedState) -> None:
    """Write the checkpoint, on disk when this returns; until then it is the one before."""
    engine.save(path, extra={KEY: json.dumps({"version": VERSION, **asdict(state)})})


def read_served_state(engine: Engine, path: str) -> ServedState:
    """What stands in the checkpoint of which an engine was restored.  Raises `ServedStateError`."""
    text = engine.extra.get(KEY)
    if text is None:
        raise ServedStateError(f"{path}: is no checkpoint of `rpq serve`; name another file, or move it away")
    try:
        content = JsonValue.parsed(text, KEY)
        version = content["version"].whole()
        if version not in (1, VERSION):
            raise ServedStateError(f"{path}: is no checkpoint of this version of `rpq serve`; move it away to start anew")
        return ServedState(
            run=content["run"].text(),
            position=content["position"].whole(0),
            progress=content["progress"].value,
            tuples=content["tuples"].whole(0),
            late=content["late"].whole(0),
            journal=None if version == 1 else content["journal"].text(),
            generation=0 if version == 1 else content["generation"].whole(0),
        )
    except Damage as problem:
        raise ServedStateError(f"{path}: is a damaged checkpoint: {problem}; move it away to start anew") from problem
