"""Where a run over topics stands, as a text that is kept with the engine's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rpq.files.described import Damage, Described
from rpq.kafka.client_settings import KafkaError
from rpq.kafka.partition_merge import Place

KEY = "rpq kafka"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunPosition:
    """How far a run has come when its state was written.

    `run` names it, in the offsets that it commits and to the broker; `round` is the last round in the state.  `ends` and
    `fronts` are the offset and the largest timestamp of each partition.  `layouts` tell how the values of a topic are laid
    out, `output` where other outputs than topics stand, `counts` what was counted beside the engine.
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
        """This, and what the run is."""
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


def position_in(text: str | None, path: str) -> tuple[RunPosition, dict[str, Any]]:
    """The position in a state's text, and what the run was; raises `KafkaError` where there is none."""
    if text is None:
        raise KafkaError(f"{path}: is no checkpoint of a run over topics of Kafka; name another file, or remove it")
    try:
        content = Described.parsed(text, KEY)
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
