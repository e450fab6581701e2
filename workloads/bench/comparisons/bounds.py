"""Lines of a table, each one figure with its bound.

A line is a function with the decorator `line`. It receives the settings and returns a `Figure`: what it measured, and the
bound if this depends on the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench.experiment import Column, Record, Settings
from rpq.workloads.bench.streams import Stream

_LEAST_WINDOW = 1_000


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure, and its bound if the bound depends on the run; otherwise the bound of the line applies."""

    figure: float
    bound: float | None = None


@dataclass(frozen=True, kw_only=True)
class BoundLine:
    """A line of the table. A figure is `at least` or `at most` its bound."""

    name: str
    what: str
    unit: str
    sense: Literal["at least", "at most"]
    bound: float | None
    measure: Callable[[Settings], Figure]
    needs_brokers: bool = False
    """True if it is measured with brokers of Kafka alone."""

    def record(self, settings: Settings) -> Record:
        """Measure, and return the record of this line."""
        reading = self.measure(settings)
        bound = self.bound if reading.bound is None else reading.bound
        assert bound is not None, f"{self.name} has no bound"
        is_met = reading.figure >= bound if self.sense == "at least" else reading.figure <= bound
        return {
            "name": self.name,
            "what": self.what,
            "measured": reading.figure,
            "sense": self.sense,
            "bound": bound,
            "unit": self.unit,
            "is_met": is_met,
        }


LINES: dict[str, BoundLine] = {}
"""The lines by their names, in the order of the table."""


def line(
    name: str,
    what: str,
    *,
    unit: str = "tuples/s",
    sense: Literal["at least", "at most"] = "at least",
    bound: float | None = None,
    needs_brokers: bool = False,
) -> Callable[[Callable[[Settings], Figure]], Callable[[Settings], Figure]]:
    """Return a decorator that adds a function to the table as a line. Names are in capitals, as `--only` reads them."""

    def add(measure: Callable[[Settings], Figure]) -> Callable[[Settings], Figure]:
        assert name == name.upper() and name not in LINES, name
        LINES[name] = BoundLine(
            name=name, what=what, unit=unit, sense=sense, bound=bound, measure=measure, needs_brokers=needs_brokers
        )
        return measure

    return add


def window_of(settings: Settings, edges: int) -> int:
    """Return the number of edges in the window of a line, which is `edges` with the default settings."""
    return max(_LEAST_WINDOW, round(edges * settings.scale * settings.edges / 1_000_000))


def tuples_per_second(text: str, stream: Stream, settings: Settings) -> float:
    """Return tuples per CPU second, of the fastest of several runs in fresh engines with warm kernels."""
    query = rpq.Query(text, window=stream.window, semantics="explicit", name="line")
    (runs,) = measuring.run_in_turn(query, [(stream, 1)], repeat=settings.repeat)
    return len(stream) / min(run.cpu_seconds for run in runs)


COLUMNS = (
    Column(key="name", heading="line"),
    Column(key="what", heading="what"),
    Column(key="measured", heading="measured", format=",.4g"),
    Column(key="sense", heading=""),
    Column(key="bound", heading="bound", format=",.4g"),
    Column(key="unit", heading="unit"),
    Column(key="is_met", heading="met"),
)
