"""The figures of TriC's experiments, and the curve of cost against how many queries there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rpq.workloads.bench.experiment import Record
from rpq.workloads.bench.plots import legend_above, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """One of the figures: what is drawn against what."""

    figure: str
    title: str
    x: str
    x_label: str
    y: str = "update_us"
    y_label: str = "µs an update"
    is_log_x: bool = False


PANELS = (
    Panel("12a", "12(a): LDBC, as the graph grows", "updates", "edges"),
    Panel("12b", "12(b): LDBC, queries satisfied", "selectivity", "σ"),
    Panel("12c", "12(c): LDBC, size of the set", "queries", "queries"),
    Panel("12d", "12(d): LDBC, size of a query", "length", "ℓ"),
    Panel("12e", "12(e): LDBC, overlap", "overlap", "o"),
    Panel("12f", "12(f): LDBC, up to 1 M edges", "updates", "edges"),
    Panel("13a", "13(a): LDBC, up to 10 M edges", "updates", "edges"),
    Panel("13b", "13(b): LDBC, registering 1,000 more", "queries", "queries", "register_us", "µs a query"),
    Panel("13c", "13(c): memory", "data", "", "memory_mb", "MB"),
    Panel("14a", "14(a): taxi", "updates", "edges"),
    Panel("14b", "14(b): one label", "updates", "edges"),
    Panel("curve", "cost of an update by queries registered", "queries", "queries", is_log_x=True),
    Panel("concerned", "the same, all but 5,000 about another graph", "queries", "queries", is_log_x=True),
)
_COLUMNS = 5
GROWING = ("12a", "12f", "13a", "14a", "14b")
"""Figures that follow one set through its stream: a point for each piece of it."""
_WITH_MEMORY = ("12a", "14a", "14b")


def plot(figure: Figure, records: list[Record]) -> None:
    """A panel for each figure of which there are records."""
    panels = [(panel, chosen) for panel in PANELS if (chosen := records_of(panel, records))]
    if not panels:
        return
    rows = -(-len(panels) // _COLUMNS)
    figure.set_size_inches(3.6 * min(len(panels), _COLUMNS), 3.4 * rows)
    all_axes = figure.subplots(rows, min(len(panels), _COLUMNS), squeeze=False).ravel()
    for axes, (panel, chosen) in zip(all_axes, panels, strict=False):
        _draw(axes, panel, chosen)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    legend_above(figure)


def records_of(panel: Panel, records: list[Record]) -> list[dict[str, Any]]:
    """The records that a panel shows.

    >>> records = [{"figure": "12a", "data": "ldbc", "memory_mb": 3}, {"figure": "12a", "data": "ldbc", "memory_mb": None}]
    >>> len(records_of(PANELS[0], records)), len(records_of(PANELS[8], records))
    (0, 1)
    """
    if panel.figure == "13c":  # what is held at the end, on each stream
        chosen = [one for one in records if one["figure"] in _WITH_MEMORY]
    else:
        chosen = [one for one in records if one["figure"] == panel.figure]
    return [one for one in chosen if one.get(panel.y) is not None]


def _draw(axes: Axes, panel: Panel, records: list[dict[str, Any]]) -> None:
    if panel.figure == "13c":
        algorithms = list(dict.fromkeys(one["algorithm"] for one in records))
        for place, algorithm in enumerate(algorithms):
            mine = [one for one in records if one["algorithm"] == algorithm]
            at = [number + place * 0.8 / len(algorithms) for number in range(len(mine))]
            axes.bar(at, [one[panel.y] for one in mine], 0.8 / len(algorithms), label=algorithm)
        streams = list(dict.fromkeys(one["data"] for one in records))
        axes.set_xticks(range(len(streams)), streams)
    else:
        lines(axes, records, panel.x, panel.y, by="algorithm")
        axes.set_yscale("log")
    if panel.is_log_x:
        axes.set_xscale("log")
    axes.set_title(panel.title, fontsize="small")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.tick_params(labelsize="small")
