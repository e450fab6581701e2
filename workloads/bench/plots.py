"""Plots of records: panels, bars, lines, points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpq.workloads.bench.experiment import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(figure: Figure, count: int) -> list[Axes]:
    """Return axes side by side."""
    figure.set_size_inches(max(6.0, 4.8 * count), 4.2)
    return list(figure.subplots(1, count, squeeze=False)[0])


def values(records: Sequence[Record], key: str) -> list[Any]:
    """Return the different values of a key, in the order of the records.

    >>> values([{"x": 2}, {"x": 1}, {"x": 2}], "x")
    [2, 1]
    """
    return list(dict.fromkeys(record[key] for record in records))


def bars(axes: Axes, records: Sequence[Record], x: str, y: str, *, label: str) -> None:
    """Draw a bar for each record."""
    axes.bar([str(record[x]) for record in records], [record[y] or 0 for record in records], label=label)
    axes.set_ylabel(label)
    axes.tick_params(axis="x", labelsize="small")


def reached(axes: Axes, bars: Sequence[tuple[float, float, float]]) -> None:
    """Write the part of its stream that a baseline reached above each of its bars: (place, height, part)."""
    for place, height, part in bars:
        text = f"{part:.1%}" if part < 0.1 else f"{part:.0%}"
        axes.annotate(text, (place, height), (0, 2), textcoords="offset points", ha="center", fontsize=6, rotation=90)


def decades(axes: Axes) -> None:
    """Make the y axis logarithmic, from one power of ten to another, so that bars have a meaningful base."""
    heights = [patch.get_height() for patch in axes.patches]  # type: ignore[attr-defined]
    heights = [height for height in heights if height > 0]
    axes.set_yscale("log")
    if heights:
        low, high = math.floor(math.log10(min(heights))), math.ceil(math.log10(max(heights)))
        axes.set_ylim(10.0**low * 0.9, 10.0 ** max(high, low + 1))


def lines(axes: Axes, records: Sequence[Record], x: str, y: str, *, by: str) -> None:
    """Draw a line for each value of `by`, with points in the order of x."""
    for name in values(records, by):
        chosen = sorted((r for r in records if r[by] == name and r[y] is not None), key=lambda r: r[x])
        axes.plot([r[x] for r in chosen], [r[y] for r in chosen], "o-", markersize=3, label=str(name))


def points(axes: Axes, records: Sequence[Record], x: str, y: str, *, log_x: bool = False) -> None:
    """Draw a point for each record that has both values, y on a logarithmic axis."""
    chosen = [record for record in records if record[x] and record[y]]
    axes.plot([record[x] for record in chosen], [record[y] for record in chosen], "o", markersize=4, alpha=0.7)
    if chosen:
        axes.set_yscale("log")
        axes.set_xscale("log" if log_x else "linear")


def legend_above(figure: Figure) -> None:
    """Draw one legend for all axes of a figure, above them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(11, len(labels)), fontsize="small")
