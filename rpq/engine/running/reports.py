"""Reports: the rows of a query at certain moments only, as the net difference to the report before.

A change at a time c belongs to the report of the first boundary b ≥ c of the query's windows (report="slide"), or of c
itself (report="time"). The report is made at the first tuple with a later time, before the changes of that tuple. Until then
its rows wait here. They may outlive the edges that made them, so their vertices keep their ids (`vertices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rpq.language.protocol import Guard, ReportContent
from rpq.rows.blocks import EMPTY, WHOLE
from rpq.rows.delta import Delta, ids_of_columns
from rpq.rows.typed_columns import Texts
from rpq.rows.weighted_rows import UNBOUND, WeightedRows, concatenate
from rpq.stream.json_values import Damage, JsonValue
from rpq.stream.names.vertices import VertexDictionary
from rpq.stream.stream_time import report_boundaries, report_boundary, report_times

_FEW = 1024
"""The number of waiting rows up to which they are never netted before their report."""
_LARGEST_COUNT = 2**56


class Reports:
    """The rows of one query that wait for their report: changes whose events are the times of the reports."""

    def __init__(
        self,
        steps: Sequence[int],
        *,
        columns: int,
        guard: Guard,
        content: ReportContent = "changes",
        texts: Texts | None = None,
        report_empty: bool = False,
    ) -> None:
        self._content = content
        self._report_empty = report_empty
        """True if a whole answer that is empty is a row without values."""
        self._texts = texts
        self._whole = WeightedRows.empty(columns)
        """The answer at the last report, where reports are whole answers."""
        self._time: int | None = None
        self._guard = guard
        self._granted_bytes = 0  # bytes that the guard knows of
        self._steps = steps
        """The numbers of which the times of reports are multiples, each time of at least one."""
        self._columns = columns
        self._pieces: list[WeightedRows] = []
        self._raw = 0  # rows in all pieces
        self._netted_rows = 0  # rows in the first piece, when it was the only one
        self._due_time = 0  # when waiting rows are reported, if there are any
        self.rows = np.zeros(2, np.int64)
        """The numbers of rows added and removed that were reported so far."""

    def due(self, times: np.ndarray) -> np.ndarray:
        """Return the times of the reports that cover changes at `times`."""
        return report_times(times, self._steps)

    def boundary(self, time: int) -> int:
        """Return the time of the first report that is made after a stream time."""
        return report_boundary(time, self._steps)

    def take(
        self, deltas: Sequence[Delta], times: np.ndarray, is_boundary: np.ndarray | None = None
    ) -> Delta | None:
        """Queue the changes of a chunk. Return the reports that are due within it, None if there are none.

        `times` are the largest timestamps up to each of its tuples. Deltas are of one query: all its workers'.
        O(rows) if nothing is reported, amortised; otherwise O(rows log rows), including the waiting rows. Raises
        `MemoryLimitError`.
        """
        for delta in deltas:
            lengths = delta.lengths()
            due = np.repeat(self.due(delta.times), lengths)
            weights = np.repeat(delta.kinds.astype(np.int64), lengths)
            if not len(due):
                continue
            if not self._raw:
                self._due_time = int(due.min())
            values, order = delta.ids
            rows = values.copy() if order == (*range(len(order)),) else values[:, list(order)]  # values are its worker's own
            self._pieces.append(WeightedRows(rows, weights, due))
            self._raw += len(due)
            self._due_time = min(self._due_time, int(due.min()))
        if self._content == "whole" and len(times):
            return self._take_whole(times)
        if not self._raw or not len(times):
            return None
        self._request_memory()
        if times[-1] <= self._due_time:
            self._net_if_large()
            return None
        changes = self._net()
        place = np.searchsorted(times, changes.events, "right")
        is_due = place < len(times)
        self._replace(changes.select(~is_due))
        return self._report(changes, is_due, place)

    def _request_memory(self) -> None:
        """Request twice the memory in use from the guard if it has not granted that much. Raises `MemoryLimitError`."""
        if self.nbytes > self._granted_bytes:
            self._guard(self.nbytes, 0)
            self._granted_bytes = 2 * self.nbytes

    def _take_whole(self, times: np.ndarray) -> Delta | None:
        """Return the whole answer at each boundary that is passed, whether or not it has changed since the last one."""
        self._request_memory()
        before = int(times[0]) if self._time is None else self._time
        self._time = last = max(before, int(times[-1]))
        boundary = report_boundary(before, self._steps)
        if boundary >= last:
            self._net_if_large()
            return None
        answers: list[tuple[np.ndarray, np.ndarray]] = []
        """Boundaries with the same answer, and its rows; without rows it is empty."""
        while boundary < last:
            if self._raw and self._due_time <= boundary:
                changes = self._net()
                is_due = changes.events <= boundary
                whole = concatenate([self._whole, changes.select(is_due)])
                self._whole = WeightedRows(whole.rows, whole.weights, np.zeros(len(whole), np.int64)).consolidate()
                self._replace(changes.select(~is_due))
            if len(self._whole):
                answers.append((np.array([boundary]), np.repeat(self._whole.rows, self._whole.weights, axis=0)))
                boundary = report_boundary(boundary + 1, self._steps)
                continue
            until = min(last, max(boundary + 1, self._due_time)) if self._raw else last  # the answer is empty
            if self._report_empty:
                answers.append((self._boundaries(boundary, until), self._whole.rows))
            boundary = report_boundary(until, self._steps)
        if not answers:
            return None
        boundaries = np.concatenate([some for some, _ in answers])
        nothing = np.full((1, self._columns), UNBOUND, np.int32)
        rows = [answer if len(answer) else np.repeat(nothing, len(some), axis=0) for some, answer in answers]
        lengths = [[len(answer)] if len(answer) else [1] * len(some) for some, answer in answers]
        kinds = [np.full(len(some), WHOLE if len(answer) else EMPTY, np.int8) for some, answer in answers]
        delta = Delta(
            ids=ids_of_columns(np.concatenate(rows)),
            times=boundaries,
            ends=np.cumsum(np.concatenate(lengths).astype(np.int64)),
            kinds=np.concatenate(kinds),
            orders=2 * np.searchsorted(times, boundaries, "right"),
        )
        self.rows += delta.counts()
        return delta

    def _boundaries(self, first: int, end: int) -> np.ndarray:
        """Return the times of reports that are at least `first` and before `end`. Raises `MemoryLimitError`."""
        count = sum((end - first) // step + 1 for step in self._steps)
        self._guard(count * (4 * self._columns + 40), 0)
        return report_boundaries(first, end, self._steps)

    def _net(self) -> WeightedRows:
        """Return the waiting rows in the order of time, each row of a report once."""
        if len(self._pieces) == 1 and self._raw == self._netted_rows:
            return self._pieces[0]
        changes = concatenate(self._pieces).consolidate()
        self._replace(changes)
        return changes

    def _net_if_large(self) -> None:
        if self._raw > 2 * self._netted_rows + _FEW:
            self._net()

    def _replace(self, changes: WeightedRows) -> None:
        """Replace the waiting rows by changes in which each row of a report occurs once."""
        self._raw = self._netted_rows = len(changes)
        self._pieces = [changes] if self._raw else []
        self._due_time = int(changes.events[0]) if self._raw else 0

    def _report(self, changes: WeightedRows, is_due: np.ndarray, place: np.ndarray) -> Delta | None:
        """Return changes as a delta: of each report the rows that leave before those that enter."""
        if self._content != "changes":
            is_due = is_due & ((changes.weights > 0) == (self._content == "enter"))
        order = np.lexsort((changes.weights > 0, changes.events))
        order = order[is_due[order]]
        changes, place = changes.select(order), place[order]
        if not len(changes):
            return None
        number = np.zeros(len(changes), np.int64)
        np.cumsum(changes.events[1:] != changes.events[:-1], out=number[1:])
        firsts = np.flatnonzero(np.diff(number, prepend=-1))
        reported = WeightedRows(changes.rows, changes.weights, number)
        delta = reported.delta(2 * place[firsts], changes.events[firsts])
        self.rows += delta.counts()
        return delta

    # --- waiting rows ----------------------------------------------------------------------------------------

    def waiting(self) -> WeightedRows:
        """Return the waiting rows, each of a report once."""
        return self._net() if self._raw else WeightedRows.empty(self._columns)

    @property
    def waiting_count(self) -> int:
        """The number of waiting rows, net."""
        return int(np.abs(self._net().weights).sum()) if self._raw else 0

    @property
    def nbytes(self) -> int:
        """The number of bytes of the waiting rows, twice, because sorting copies them."""
        return 2 * (self._raw + len(self._whole)) * (4 * self._columns + 16)

    def vertices(self) -> np.ndarray:
        """Return the ids of the vertices of rows that wait. O(rows log rows)."""
        waiting = [self._whole.rows, *([self._net().rows] if self._raw else [])]
        return np.unique(np.concatenate(waiting)) if any(map(len, waiting)) else np.zeros(0, np.int32)

    # --- saving and restoring --------------------------------------------------------------------------------

    def to_state(self, vertices: VertexDictionary) -> dict[str, Any]:
        """Return waiting rows and the counts of reported ones as JSON values; vertices by their names."""
        net, whole = self.waiting(), self._whole
        used, places = np.unique(np.concatenate([net.rows, whole.rows]), return_inverse=True)
        rows = places.reshape(-1, self._columns) if self._columns else np.zeros((len(net) + len(whole), 0), np.int64)
        saved = {
            "told": self.rows.tolist(),
            "names": vertices.names_of(used).to_pylist() if self._texts is None else self._texts.texts(used),
            "rows": rows[: len(net)].tolist(),
            "weights": net.weights.tolist(),
        }
        if self._content == "whole":
            saved["whole"] = {"rows": rows[len(net) :].tolist(), "weights": whole.weights.tolist()}
        return saved

    @staticmethod
    def saved_names(saved: JsonValue) -> list[int | str]:
        """Return the vertices of rows that waited. Raises `Damage`."""
        return [name.vertex() for name in saved["names"]]

    @staticmethod
    def saved_texts(saved: JsonValue) -> list[str | None]:
        """Return the terms of waiting rows; None is an unbound variable. Raises `Damage`."""
        return [None if name.is_none else name.unicode() for name in saved["names"]]

    def restore(self, saved: JsonValue, ids: np.ndarray, *, time: int | None) -> None:
        """Continue from the output of `to_state` at a stream time; `ids` are those of its names. Raises `Damage`."""
        self.rows[:] = [count.integer(0, _LARGEST_COUNT) for count in saved["told"].tuple_of(2)]
        rows, weights = self._read_rows(saved, ids)
        if len(rows) and time is None:
            raise Damage("rows wait for a report before the first tuple")
        self._time = time
        due = self.due(np.full(len(rows), 0 if time is None else time, np.int64))
        self._replace(WeightedRows(rows, weights, due))
        if self._content == "whole":
            rows, weights = self._read_rows(saved["whole"], ids)
            if (weights < 0).any():
                raise Damage("a row of the previous answer has a count below one")
            self._whole = WeightedRows(rows, weights, np.zeros(len(rows), np.int64))

    def _read_rows(self, saved: JsonValue, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of ids, and their weights. Raises `Damage`."""
        last = len(ids) - 1
        rows = [[place.integer(0, last) for place in row.tuple_of(self._columns)] for row in saved["rows"]]
        weights = [weight.integer(-_LARGEST_COUNT, _LARGEST_COUNT) for weight in saved["weights"].tuple_of(len(rows))]
        if len({*map(tuple, rows)}) < len(rows) or 0 in weights:
            raise Damage("a row waits for a report twice, or has the count 0")
        return ids[np.array(rows, np.int64).reshape(len(rows), self._columns)].astype(np.int32), np.array(weights, np.int64)
