"""The table of speed on MathOverflow: dense windows, where the index decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Experiment, Outcome, Record, Say, Settings
from rpq.workloads.bench.speed import COLUMNS, HOW, measure_speed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure(settings: Settings, say: Say) -> Outcome:
    """The eight queries of the table of others."""
    return measure_speed("stackoverflow", "mathoverflow", settings, say)


def plot(figure: Figure, records: list[Record]) -> None:
    """Seconds a query, ours beside those of others, on a logarithmic axis."""
    axes = figure.subplots()
    systems = {
        "this engine": "engine_seconds",
        "sketch (C++)": "sketch_seconds",
        "LM-SRPQ (C++)": "LM-SRPQ_seconds",
        "S-PATH (C++; bars at 150 s: more)": "S-PATH_seconds",
    }
    present = {name: key for name, key in systems.items() if any(record.get(key) for record in records)}
    width = 0.8 / len(present)
    for number, (name, key) in enumerate(present.items()):
        values = [record.get(key) or 0.0 for record in records]
        heights = [150.0 if isinstance(value, str) else value for value in values]
        places = [place + (number - (len(present) - 1) / 2) * width for place in range(len(records))]
        axes.bar(places, heights, width, label=name)
    plots.decades(axes)
    axes.set_xticks(range(len(records)), [record["expression"] for record in records], rotation=20)
    axes.set_ylabel("engine seconds")
    axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="mathoverflow",
    title="MathOverflow: 390,441 edges, window 30 days, slide 1 day",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    plot=plot,
)
