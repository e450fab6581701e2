"""The time of the report in a query that calls NOW(): which reports pass, and the ids of their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rpq.language.sparql.values.moments import date_time_of
from rpq.operators.relational.nodes import ReportTimeNode
from rpq.operators.relational.values.term_ids import TermIds
from rpq.stream.durations import NANOSECONDS
from rpq.stream.names.terms import XSD, literal_text
from rpq.stream.stream_time import report_boundaries, report_times

_REPORTS_AT_ONCE = 1024
"""The number of reports with one step that are evaluated together when time passes."""


class PassedReports(NamedTuple):
    """Times of consecutive reports with the ids of NOW() in them. `end` is after these times and before later ones."""

    times: np.ndarray
    ids: list[int]
    end: int


class ReportClock:
    """The time of the report that covers the present, as NOW() has it in a network.

    It is a dateTime in UTC if the unit of the stream's time is known, otherwise the time as an integer.
    """

    def __init__(self, node: ReportTimeNode, steps: Sequence[int], terms: TermIds, unit: str | None) -> None:
        self.node = node
        self.steps = steps
        self._terms = terms
        self._ticks = None if unit is None else 10**9 // NANOSECONDS[unit]
        self._time: int | None = None

    @property
    def id(self) -> int | None:
        """The id of the time, or None before the first tuple."""
        return None if self._time is None else self._id_of(self._time)

    def set(self, time: int) -> None:
        """Begin at a stream time."""
        self._time = int(report_times(np.array([time]), self.steps)[0])
        self.node.set(self.id)

    def advance_to(self, time: int | None, latest: int) -> Iterator[PassedReports]:
        """Yield the reports that begin up to a stream time, several at once. The last ones cover all times up to
        `latest`."""
        last = self._time if time is None else int(report_times(np.array([time]), self.steps)[0])
        if last is None:
            return
        end = last if self._time is None else self._time + 1
        while True:
            first, end = end, min(end + _REPORTS_AT_ONCE * min(self.steps), last + 1)
            is_last = end > last
            times = report_boundaries(first, end, self.steps) if first < end else np.zeros(0, np.int64)
            if is_last and first <= last and times[-1:].tolist() != [last]:  # behind the last multiple in 64 bits
                times = np.append(times, last)
            if len(times):
                self._time = int(times[-1])
            yield PassedReports(times, [*map(self._id_of, times.tolist())], max(end, latest + 1) if is_last else end)
            if is_last:
                return

    def _id_of(self, time: int) -> int:
        if self._ticks is None:
            return self._terms.intern(literal_text(str(time), f"{XSD}integer"))
        text = date_time_of(time, self._ticks)
        return self._terms.intern(None if text is None else literal_text(text, f"{XSD}dateTime"))
