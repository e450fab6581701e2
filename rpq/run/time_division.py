"""The division of a replay by time: chunks of a stream that engines evaluate independently.

An engine evaluates a chunk after it has *taken in* what the windows need of the tuples before: they are applied to the graph
alone, and then queries load their windows, without rows. Its rows are then those that one engine has for the tuples of the
chunk. Let M be the largest time of the tuples before a place.

- A cut stands before a tuple whose time t exceeds M; with reports, where a boundary that is common to all queries with
  reports lies from M on and before t. So it is never inside an event, and no report is divided.
- The chunk before the cut ends by advancing to t: what expires and is reported until then is in its rows.
- The next chunk takes in, in order of arrival, the tuples from the first one on for which M exceeds the lower bounds of all
  windows at t (with reports, at M: the reports that are due by t read the windows before). It may begin earlier. Then it
  advances to t. Deletes and late tuples count whatever their timestamp.

Where a query holds rows for a time, the chunk needs since when its answers have held: queries load their windows at a moment
that is earlier than t by this time, with reports by a slide more, and the rows from then to the cut are left out. What was
there at that moment is full at the cut, if it is still there.

A chunk takes in all records of nodes before the cut as well, because facts of nodes never expire.

An engine that begins in the middle of the stream needs facts of the whole prefix: the types of columns, the largest time
and the number of inserts (`Engine._facts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.errors import QueryError
from rpq.language.readings import readings_of, report_windows_of
from rpq.run.loop import push_part
from rpq.stream.nodes.node_rows import are_timeless, uniform_parts
from rpq.stream.stream_time import EARLIEST, report_steps, timestamps_as_integers
from rpq.stream.window import INT64_MAX, CountWindow, UnboundedWindow

if TYPE_CHECKING:
    from rpq.engine.engine import Engine, StreamFacts
    from rpq.rows.changes import Changes
    from rpq.stream.window import Window


class TimeDivision:
    """Where a stream can be cut for some queries, and what the chunk behind a cut takes in.

    Windows are in the integers of the stream. Raises `QueryError` for a query that time does not divide.

    >>> import rpq
    >>> division = TimeDivision([rpq.Query("a/b", window=rpq.Window(size=10, slide=5))])
    >>> times = np.array([1, 7, 6, 7, 23])
    >>> division.cuts(times, before=1).tolist()
    [1, 4]
    >>> division.lower_bound(time=23, before=7)
    10
    """

    def __init__(self, queries: Sequence[object]) -> None:
        self._windows: list[Window] = []
        self._held = 0  # the longest time before a cut that matters to rows that are held
        steps = set()
        for query in queries:
            name = getattr(query, "name", "")
            for window in (reading.window for reading in readings_of(query) if not reading.is_of_facts):
                if isinstance(window, UnboundedWindow):
                    raise QueryError(f"query {name!r}: time does not divide an unbounded window; use threads instead")
                if isinstance(window, CountWindow):
                    raise QueryError(f"query {name!r}: time does not divide a window by count; use threads instead")
                self._windows.append(window)
            if getattr(query, "on_budget", "error") == "set_aside":
                raise QueryError(f"query {name!r}: roots that are set aside stay so, whatever the time; use threads instead")
            report: Any = getattr(query, "report", "change")
            own_steps = () if report == "change" else report_steps(report, report_windows_of(query))
            steps |= {*own_steps[:1]}
            if (hold := getattr(query, "hold", None)) is not None:
                self._held = max(self._held, hold + max(own_steps, default=0))
        self._step = lcm(*steps) if steps else None

    def cuts(self, times: np.ndarray, *, before: int | None) -> np.ndarray:
        """Return the places of tuples, ascending, before which a cut can stand.

        `times` are those of consecutive tuples (int64), and `before` is the largest time before them, None for the first
        tuples of the stream, before which there is no cut. O(tuples).
        """
        if not len(times):
            return np.zeros(0, np.int64)
        largest = np.maximum.accumulate(times)
        earlier = np.concatenate([[times[0] if before is None else before], largest[:-1]])
        if before is not None:
            earlier = np.maximum(earlier, before)
        can_cut = times > earlier
        if self._step is not None:
            can_cut &= (times - 1) // self._step > (earlier - 1) // self._step
        return np.flatnonzero(can_cut)

    def lower_bound(self, *, time: int, before: int) -> int:
        """Return the time above which the largest time must be where the chunk behind a cut begins to take in tuples.

        `time` is that of the tuple behind the cut, and `before` the largest time before it.
        """
        moment = self._moment(time, before)
        return min((window.lower_bound(moment) for window in self._windows), default=moment)

    def _moment(self, time: int, before: int) -> int:
        moment = time if self._step is None else before
        return max(min(moment, time - self._held), EARLIEST) if self._held else moment

    def loads_at(self, *, time: int, before: int) -> int | None:
        """Return the time at which queries load their windows; None if they do so behind all tuples that are taken in."""
        return self._moment(time, before) if self._held else None


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """The times at the two cuts of a chunk, and what an engine knows of the stream before the tuples that it takes in."""

    facts: StreamFacts | None  # None for the first chunk, which takes in nothing
    begins_at: int | None
    ends_at: int | None  # None for the last chunk
    loads_at: int | None = None
    """The time of `TimeDivision.loads_at`."""

    def begin(self, engine: Engine, taken_in: Iterable[Any]) -> None:
        """Prepare a new engine for the tuples of the chunk: take in those that its windows need of the stream before."""
        if self.facts is None:
            return
        parts = (part for tuples in taken_in for part in uniform_parts(tuples))
        later: list[Any] = []
        with engine._evaluation.graph_only():
            has_begun = False
            for part in parts:
                if not has_begun and not are_timeless(part):  # records before the first time stay earlier than all
                    engine._begin_after(self.facts)
                    has_begun = True
                place = self._place_of_load(part, engine)
                push_part(engine, part.slice(0, place), collect=False)
                if place < part.num_rows:
                    later.append(part.slice(place))
                    break
            if not has_begun:
                engine._begin_after(self.facts)
            if engine._now is not None:
                engine._advance_to(self.loads_at)
        for part in chain(later, parts):
            push_part(engine, part, collect=False)
        engine._advance_to(self.begins_at)

    def _place_of_load(self, part: Any, engine: Engine) -> int:
        """Return the place of the first row of a part that is behind the time at which queries load their windows."""
        if self.loads_at is None:
            return int(part.num_rows)
        column = part["timestamp"]
        stamps = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        times, _ = timestamps_as_integers(stamps, engine._times, INT64_MAX, [])
        is_later = times > self.loads_at
        return int(np.argmax(is_later)) if is_later.any() else len(times)

    def end(self, engine: Engine) -> Changes:
        """Return the changes that are due after the tuples of the chunk, up to its end."""
        return engine._advance_to(self.ends_at)
