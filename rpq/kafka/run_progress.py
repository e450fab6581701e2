"""How far a run has come: the round that it is at, and where it stands in each partition."""

from __future__ import annotations

from collections.abc import Mapping

from rpq.kafka.partition_merge import LEAST, Place


class RunProgress:
    """Begins at a `round`, with the offset and the largest timestamp of each partition there.

    `uncommitted` are the partitions that rounds have moved since the last commit, and how far.
    """

    def __init__(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        self.round = number
        self.ends, self.fronts = dict(ends), dict(fronts)
        self.uncommitted: dict[Place, int] = {}

    def moved(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Those of these offsets that are not where the partitions stand."""
        return {place: end for place, end in ends.items() if end != self.ends[place]}

    def stand_at(self, number: int, ends: Mapping[Place, int], fronts: Mapping[Place, int]) -> None:
        """Stand behind a round."""
        self.round = number
        self.ends |= ends
        self.fronts |= {place: max(front, self.fronts[place]) for place, front in fronts.items()}

    def join(self, place: Place) -> None:
        """Take in a partition that is new."""
        self.ends[place], self.fronts[place] = 0, LEAST
