"""Rows held for a time: an answer enters when it has held without a break for a span, and leaves as it would have left.

A row of a time t is *full* at t + span, which is a boundary of its own: behind a boundary of a window at that moment, and
before the tuple that reaches it. Until then it waits here. What leaves takes the youngest of the equal rows: one that waits
is dropped, and otherwise one that was told leaves. With reports the rows are those of the reports, and a moment is over,
like a report, when the stream time is later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rpq.compiled.arrays.hashing import first_candidate, id_at, new_table, next_candidate, put
from rpq.compiled.kernel_cache import njit
from rpq.engine.running.reports import Reports
from rpq.language.protocol import Guard, ReportContent
from rpq.rows.delta import Delta, ids_of_columns
from rpq.rows.weighted_rows import WeightedRows, as_changes, concatenate, hash_row, is_same_row, merge
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.window import INT64_MAX

_LEAST_ROOM = 64
_LARGEST_COUNT = 2**56
_EARLIEST = np.int64(-(2**63))
_NONE = np.zeros(0, np.int64)


class HeldRows:
    """The rows of one query that wait until they are full, in the order of their times.

    With `reports` its changes are those of the reports. Only the `content` of what is told becomes rows. `texts_of` returns
    the texts of ids, if not all of them are ids of vertices.
    """

    def __init__(
        self,
        span: int,
        *,
        columns: int,
        guard: Guard,
        content: ReportContent = "changes",
        texts_of: Callable[[np.ndarray], Sequence[str | None]] | None = None,
        reports: Reports | None = None,
    ) -> None:
        self.reports = reports
        self._span = span
        self._columns = columns
        self._guard = guard
        self._told_kind = {"changes": 0, "enter": 1, "leave": -1}[content]
        self._texts_of = texts_of
        self.rows = np.zeros(2, np.int64)
        """The numbers of rows added and removed that were told so far."""
        self._set_room(0)

    def _set_room(self, room: int) -> None:
        """Replace all arrays by empty ones with room for some rows."""
        self._values = np.empty((room, self._columns), np.int32)
        self._since = np.empty(room, np.int64)
        self._earlier = np.empty(room, np.int32)  # the equal row before that waited, too, -1 for none
        self._is_broken = np.zeros(room, np.uint8)
        self._table = new_table(room)  # of equal rows the last one that may wait
        self._range = np.zeros(2, np.int64)  # the first row that waits, and the end; between them some are broken

    @property
    def next_time(self) -> int | None:
        """The next time at which a row may be full; None if no row waits."""
        first, end = self._range.tolist()
        return int(self._since[first]) + self._span if first < end else None

    def boundary(self, time: int) -> int:
        """Return the time of the first report that is made after a stream time, the largest integer without reports."""
        return INT64_MAX if self.reports is None else self.reports.boundary(time)

    # --- changes -------------------------------------------------------------------------------------------------

    def take(self, deltas: Sequence[Delta], times: np.ndarray, is_boundary: np.ndarray | None = None) -> Delta | None:
        """Apply the changes of a chunk. Return those that are told, None if there are none.

        `times` are the largest timestamps up to each of its tuples; those that `is_boundary` marks are no tuples but
        boundaries of a window. Amortised O(rows + events). Raises `MemoryLimitError`.
        """
        if self.reports is not None:
            report = self.reports.take(deltas, times)
            deltas = [] if report is None else [report]
        if not len(times):
            return None
        if not deltas and ((moment := self.next_time) is None or moment > times[-1]):
            return None
        if len(deltas) > 1:
            events, changes = as_changes(deltas)
            deltas = [merge(changes).delta(events[:, 0], events[:, 1])]
        delta = deltas[0] if deltas else WeightedRows.empty(self._columns).delta(_NONE, _NONE)
        # A moment is over before a tuple of its time, but behind a boundary, or a report, of its time.
        over = times - 1 if self.reports is not None else times if is_boundary is None else times - is_boundary
        values, order = delta.ids
        if order != (*range(self._columns),):
            values = values[:, list(order)]
        first, end = self._make_room(len(delta))
        last = max(int(over[-1]) - self._span, int(_EARLIEST))
        most = len(delta) + int(np.searchsorted(self._since[first:end], last, "right"))
        told = np.empty((most, self._columns), np.int32)
        ends, kinds, told_times, orders = (np.empty(most, kind) for kind in (np.int64, np.int8, np.int64, np.int64))
        runs = hold(
            (self._values.reshape(-1), self._since, self._earlier, self._is_broken, self._table, self._range),
            np.ascontiguousarray(values).reshape(-1),
            tuple(map(np.ascontiguousarray, (delta.ends, delta.kinds, delta.times, delta.orders))),
            told.reshape(-1),
            (ends, kinds, told_times, orders),
            over,
            self._columns,
            self._span,
            self._told_kind,
        )
        if not runs:
            return None
        found = Delta(
            ids=ids_of_columns(told[: ends[runs - 1]]),
            times=told_times[:runs],
            ends=ends[:runs],
            kinds=kinds[:runs],
            orders=orders[:runs],
            is_lasting=True,
        )
        self.rows += found.counts()
        return found

    def _make_room(self, more: int) -> tuple[int, int]:
        """Make room for more rows, and return the range of those that wait. Raises `MemoryLimitError`."""
        first, end = self._range.tolist()
        if end + more >= len(self._since):  # one place is for comparisons
            rows, since = self._waiting()
            room = max(2 * (len(since) + more), _LEAST_ROOM)
            self._guard(room * self._bytes_per_row, 0)
            self._set_room(room)
            self._enter(rows, since)
            first, end = 0, len(since)
        return first, end

    def _enter(self, rows: np.ndarray, since: np.ndarray) -> None:
        """Enter rows that wait, in the order of their times, into empty arrays."""
        self._values[: len(rows)] = rows
        self._since[: len(since)] = since
        self._range[1] = len(since)
        link(self._values.reshape(-1), self._earlier, self._table, self._range, self._columns)

    def _places(self) -> np.ndarray:
        """Return the places of the rows that wait."""
        first, end = self._range.tolist()
        return first + np.flatnonzero(self._is_broken[first:end] == 0)

    def _waiting(self) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the rows that wait, int32 (row, column), and of their times."""
        places = self._places()
        return self._values[places], self._since[places]

    # --- waiting rows --------------------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """The number of rows that wait, also for a report."""
        return len(self._places()) + (self.reports.waiting_count if self.reports else 0)

    def told_count(self, answers: int) -> int:
        """Return the number of rows that were told and did not leave, of a number of present answers."""
        pending = int(self.reports.waiting().weights.sum()) if self.reports else 0
        return answers - pending - len(self._places())

    def told(self, answers: np.ndarray) -> np.ndarray:
        """Return the rows that were told and did not leave, of the present answers (int32). O(rows log rows)."""
        waiting = [WeightedRows.insertion_of(self._waiting()[0]), *([self.reports.waiting()] if self.reports else [])]
        removed = (WeightedRows(some.rows, -some.weights, np.zeros(len(some), np.int64)) for some in waiting)
        found = concatenate([WeightedRows.insertion_of(answers), *removed]).consolidate()
        # Only in a damaged state, of which all checksums are right, rows that wait are no answers.
        return np.repeat(found.rows, np.maximum(found.weights, 0), axis=0)

    @property
    def _bytes_per_row(self) -> int:
        return 4 * self._columns + 8 + 4 + 1 + 3 * 4  # with the table

    @property
    def nbytes(self) -> int:
        """The number of bytes of the rows that wait."""
        return len(self._since) * self._bytes_per_row + (self.reports.nbytes if self.reports else 0)

    def vertices(self) -> np.ndarray:
        """Return the ids in rows that wait."""
        ids = self._waiting()[0].reshape(-1)
        return ids if self.reports is None else np.concatenate([ids, self.reports.vertices()])

    def _check(self) -> None:
        """Assert that rows are in the order of their times, and that the last of equal rows leads to all that wait."""
        first, end = self._range.tolist()
        assert (np.diff(self._since[first:end]) >= 0).all(), "rows that wait are out of order"
        rows, _ = self._waiting()
        found = 0
        for last in (self._table[self._table > 0] - 1).tolist():
            while last >= first and not self._is_broken[last]:
                found, last = found + 1, int(self._earlier[last])
        assert found == len(rows), "a row that waits is not found by its values"

    # --- saving and restoring ------------------------------------------------------------------------------------

    def to_state(self, vertices: VertexDictionary) -> dict[str, Any]:
        """Return waiting rows and the counts of told ones as JSON values; vertices by their names."""
        rows, since = self._waiting()
        used, places = np.unique(rows, return_inverse=True)
        saved = {
            "told": self.rows.tolist(),
            "names": vertices.names_of(used).to_pylist() if self._texts_of is None else self._texts_of(used),
            "rows": places.reshape(-1, self._columns).tolist() if self._columns else [[]] * len(since),
            "since": since.tolist(),
        }
        return saved if self.reports is None else saved | {"report": self.reports.to_state(vertices)}

    def restore(self, saved: JsonValue, ids: np.ndarray, *, time: int | None) -> None:
        """Continue from the output of `to_state` at a stream time; `ids` are those of its names. Raises `Damage`."""
        self.rows[:] = [count.integer(0, _LARGEST_COUNT) for count in saved["told"].tuple_of(2)]
        last = len(ids) - 1
        places = [[place.integer(0, last) for place in row.tuple_of(self._columns)] for row in saved["rows"]]
        since = np.array([moment.integer() for moment in saved["since"].tuple_of(len(places))], np.int64)
        if len(since) and (time is None or since[-1] > time or (np.diff(since) < 0).any()):
            raise Damage("rows that wait until they have held are out of order")
        self._make_room(len(since))
        self._enter(ids[np.array(places, np.int64).reshape(len(places), self._columns)].astype(np.int32), since)


# --- kernels -----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def hold(held, values, changes, told, runs, over, width, span, told_kind):
    """Apply changes to rows that wait, and write the rows that are told, with their runs. Return the number of runs.

    `over` has for each tuple the last moment that is over before it. A change of a boundary follows all earlier moments.
    """
    rows, since, earlier, is_broken, table, waiting = held
    ends, kinds, times, orders = changes
    entries = len(table)
    first, end = waiting[0], waiting[1]
    row = count = tuple_ = written = np.int64(0)
    # Of the changes before `event`, all rows up to `row` are applied. Rows from `first` to `end` are not full, and wait
    # unless they are broken. `written` rows are told in `count` runs; the last that was full was so before `tuple_`.
    for event in range(len(ends) + 1):
        is_end = event == len(ends)
        if is_end:
            limit = over[len(over) - 1]
        else:
            limit = over[orders[event] >> 1] if orders[event] & 1 else times[event] - 1
        while first < end and limit >= _EARLIEST + span and since[first] <= limit - span:
            if not is_broken[first] and told_kind >= 0:
                moment = since[first] + span
                while over[tuple_] < moment:
                    tuple_ += 1
                count = _tell(told, runs, written, count, rows, first, width, 1, moment, 2 * tuple_)
                written += 1
            first += 1
        while not is_end and row < ends[event]:
            for column in range(width):
                rows[end * width + column] = values[row * width + column]
            row += 1
            place = first_candidate(table, entries, hash_row(rows, end * width, width))
            while place >= 0 and not is_same_row(rows, id_at(table, place), end, width):
                place = next_candidate(table, entries, place)
            last = id_at(table, place) if place >= 0 else np.int64(-1)
            waits = last >= first and not is_broken[last]
            if kinds[event] > 0:
                since[end] = times[event]
                is_broken[end] = 0
                earlier[end] = last if waits else -1
                if place >= 0:
                    table[place] = end + 1
                else:
                    put(table, place, end)
                end += 1
            elif waits:
                is_broken[last] = 1
                if earlier[last] >= 0:
                    table[place] = earlier[last] + 1
            elif told_kind <= 0:
                count = _tell(told, runs, written, count, rows, end, width, -1, times[event], orders[event])
                written += 1
    waiting[0], waiting[1] = first, end
    return count


@njit(cache=True, nogil=True, forceinline=True)
def _tell(told, runs, written, count, rows, row, width, kind, time, order):
    """Write a row, and its run unless it continues the last one. Return the number of runs."""
    ends, kinds, times, orders = runs
    for column in range(width):
        told[written * width + column] = rows[row * width + column]
    last = count - 1
    if count == 0 or kinds[last] != kind or times[last] != time or orders[last] != order:
        kinds[count] = kind
        times[count] = time
        orders[count] = order
        count += 1
    ends[count - 1] = written + 1
    return count


@njit(cache=True, nogil=True)
def link(rows, earlier, table, waiting, width):
    """Enter the rows before the end of those that wait, none of them broken, into an empty table."""
    entries = len(table)
    for row in range(waiting[1]):
        place = first_candidate(table, entries, hash_row(rows, row * width, width))
        while place >= 0 and not is_same_row(rows, id_at(table, place), row, width):
            place = next_candidate(table, entries, place)
        earlier[row] = id_at(table, place) if place >= 0 else np.int64(-1)
        if place >= 0:
            table[place] = row + 1
        else:
            put(table, place, row)
