"""The table of speed on LDBC's updates: sparse streams, where the edge itself is the cost."""

from __future__ import annotations

from rpq.workloads.bench.experiment import Experiment, Outcome, Say, Settings
from rpq.workloads.bench.speed import COLUMNS, HOW, measure_speed


def measure(settings: Settings, say: Say) -> Outcome:
    """The six queries of the table of others, over the insertions."""
    return measure_speed("ldbc", "ldbc", settings, say)


EXPERIMENT = Experiment(
    name="ldbc",
    title="LDBC updates, insertions only: 403,518 edges, window 10 days, slide 1 day",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
)
