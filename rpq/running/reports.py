"""Reports: the rows of a query at certain moments only, as the net difference to the report before.

What happens at a time c belongs to the report of the first boundary b ≥ c of the query's window (report="slide"), or of c
itself (report="time"), and the report is made when the stream time first exceeds that: at the tuple that does so, before
whatever that tuple brings. Until then its rows wait here, as a bag with weights. They outlive the edges that made
them, so their vertices keep their ids (`vertices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rpq.files.json_values import Damage, JsonValue
from rpq.queries.protocol import Guard, ReportContent
from rpq.results.blocks import WHOLE
from rpq.results.delta import Delta, IdRows
from rpq.results.typed_columns import Texts
from rpq.stream.vertices import VertexDictionary
from rpq.stream.window import INT64_MAX

_FEW = 1024
"""Rows that wait, not netted, whatever there is else."""
_LARGEST_COUNT = 2**56


class _Net(NamedTuple):
    """Rows with how often they come (or, negative, go), and the time of the report that tells of them."""

    ids: np.ndarray  # int32 (row, column)
    weights: np.ndarray  # int64
    due: np.ndarray  # int64

    def netted(self) -> _Net:
        """Return each row once a report, those that come to nothing left out; in order of time. O(rows log rows)."""
        ids, weights, due = self
        if not len(weights):
            return self
        keys = [*(ids[:, column] for column in reversed(range(ids.shape[1]))), due]
        order = np.lexsort(keys)
        ids, weights, due = ids[order], weights[order], due[order]
        is_first = np.ones(len(weights), bool)
        is_first[1:] = (due[1:] != due[:-1]) | (ids[1:] != ids[:-1]).any(axis=1)
        firsts = np.flatnonzero(is_first)
        sums = np.add.reduceat(weights, firsts)
        some = sums != 0
        return _Net(ids[firsts[some]], sums[some], due[firsts[some]])

    def where(self, chosen: np.ndarray) -> _Net:
        """Return the chosen rows."""
        return _Net(self.ids[chosen], self.weights[chosen], self.due[chosen])


class Reports:
    """The rows of one query that wait for their report."""

    def __init__(
        self,
        report: Literal["slide", "time"],
        *,
        slide: int,
        columns: int,
        guard: Guard,
        content: ReportContent = "changes",
        texts: Texts | None = None,
    ) -> None:
        self._content = content
        self._texts = texts
        self._whole = _Net(np.zeros((0, columns), np.int32), *np.zeros((2, 0), np.int64))
        """The answer at the last report, where reports are whole answers."""
        self._time: int | None = None
        self._guard = guard
        self._granted = 0  # bytes that the guard knows of
        self._step = slide if report == "slide" else 1
        self._columns = columns
        self._waiting: list[_Net] = []
        self._raw = 0  # rows in all pieces
        self._netted = 0  # rows in the first piece, when it was the only one
        self._due = 0  # when waiting rows are reported, if there are any
        self.rows = np.zeros(2, np.int64)
        """The numbers of rows added and removed that were reported so far."""

    def due(self, times: np.ndarray) -> np.ndarray:
        """Return the times of the reports that tell of what happens at some times."""
        into = times % self._step
        floor = times - into
        late = floor > INT64_MAX - self._step  # no stream time exceeds what is beyond 64 bits
        return np.where(into == 0, times, np.where(late, INT64_MAX, floor + np.where(late, 0, self._step)))

    def take(self, deltas: Sequence[Delta], times: np.ndarray) -> Delta | None:
        """Queue what a chunk brought; return what is reported in it, if anything.

        `times` are the largest timestamps up to each of its tuples. Deltas are of one query: all its workers'.
        O(rows) where nothing is reported, amortised; else O(rows log rows), those that waited included. Raises
        `MemoryLimitError`.
        """
        for delta in deltas:
            lengths = delta.lengths()
            due = np.repeat(self.due(delta.times), lengths)
            weights = np.repeat(delta.kinds.astype(np.int64), lengths)
            if not len(due):
                continue
            if not self._raw:
                self._due = int(due.min())
            values, order = delta.ids
            ids = values.copy() if order == (*range(len(order)),) else values[:, list(order)]  # values are its worker's own
            self._waiting.append(_Net(ids, weights, due))
            self._raw += len(due)
            self._due = min(self._due, int(due.min()))
        if self._content == "whole" and len(times):
            return self._take_whole(times)
        if not self._raw or not len(times):
            return None
        if self.nbytes > self._granted:
            self._granted = 2 * self.nbytes
            self._guard(self._granted + self._granted // 4, 0)
        if times[-1] <= self._due:
            if self._raw > 2 * self._netted + _FEW:
                self._net()
            return None
        everything = self._net()
        place = np.searchsorted(times, everything.due, "right")
        is_told = place < len(times)
        self._keep(everything.where(~is_told))
        return self._delta_of(everything, is_told, place)

    def _take_whole(self, times: np.ndarray) -> Delta | None:
        """Return the whole answer at each boundary that is passed, whether or not it has changed since the last one."""
        if self.nbytes > self._granted:
            self._granted = 2 * self.nbytes
            self._guard(self._granted + self._granted // 4, 0)
        before = int(times[0]) if self._time is None else self._time
        self._time = last = max(before, int(times[-1]))
        first = before + -before % self._step
        if first >= last:
            if self._raw > 2 * self._netted + _FEW:
                self._net()
            return None
        told = []
        for boundary in range(first, last, self._step):
            if self._raw and self._due <= boundary:
                net = self._net()
                is_due = net.due <= boundary
                both = [self._whole, net.where(is_due)]
                whole = _Net(*(np.concatenate(arrays) for arrays in zip(*both, strict=True)))
                self._whole = whole._replace(due=np.zeros(len(whole.due), np.int64)).netted()
                self._keep(net.where(~is_due))
            if len(self._whole.weights):
                told.append((boundary, int(np.searchsorted(times, boundary, "right")), self._whole))
        if not told:
            return None
        counts = [int(net.weights.sum()) for _, _, net in told]
        delta = Delta(
            ids=IdRows(
                np.concatenate([np.repeat(net.ids, net.weights, axis=0) for _, _, net in told]), (*range(self._columns),)
            ),
            times=np.array([boundary for boundary, _, _ in told], np.int64),
            ends=np.cumsum(counts),
            kinds=np.full(len(told), WHOLE, np.int8),
            orders=2 * np.array([place for _, place, _ in told], np.int64),
        )
        self.rows += delta.counts()
        return delta

    def _net(self) -> _Net:
        """Return what waits, each row once."""
        if len(self._waiting) == 1 and self._raw == self._netted:
            return self._waiting[0]
        net = _Net(*(np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True))).netted()
        self._keep(net)
        return net

    def _keep(self, net: _Net) -> None:
        self._raw = self._netted = len(net.weights)
        self._waiting = [net] if self._raw else []
        self._due = int(net.due[0]) if self._raw else 0

    def _delta_of(self, net: _Net, is_told: np.ndarray, place: np.ndarray) -> Delta | None:
        """Return rows as a delta: of each report those that leave before those that enter."""
        if self._content != "changes":
            is_told = is_told & ((net.weights > 0) == (self._content == "enter"))
        net, place = net.where(is_told), place[is_told]
        if not len(net.weights):
            return None
        kinds = np.sign(net.weights).astype(np.int8)
        order = np.lexsort((kinds, net.due))
        counts, kinds = np.abs(net.weights)[order], kinds[order]
        due, place = net.due[order], place[order]
        is_last = np.ones(len(kinds), bool)
        is_last[:-1] = (due[1:] != due[:-1]) | (kinds[1:] != kinds[:-1])
        delta = Delta(
            ids=IdRows(np.repeat(net.ids[order], counts, axis=0), (*range(self._columns),)),
            times=due[is_last],
            ends=np.cumsum(counts)[is_last],
            kinds=kinds[is_last],
            orders=2 * place[is_last],
        )
        self.rows += delta.counts()
        return delta

    # --- what waits ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of waiting rows, net."""
        return int(np.abs(self._net().weights).sum()) if self._raw else 0

    @property
    def nbytes(self) -> int:
        """The number of bytes held: what waits, and as much again while it is sorted."""
        return 2 * (self._raw + len(self._whole.weights)) * (4 * self._columns + 16)

    def vertices(self) -> np.ndarray:
        """Return the ids of the vertices of rows that wait. O(rows log rows)."""
        waiting = [self._whole.ids, *([self._net().ids] if self._raw else [])]
        return np.unique(np.concatenate(waiting)) if any(map(len, waiting)) else np.zeros(0, np.int32)

    # --- to go on later --------------------------------------------------------------------------------------

    def saved(self, vertices: VertexDictionary) -> dict[str, Any]:
        """Return waiting rows and the counts of reported ones as JSON values; vertices by their names."""
        nothing = _Net(np.zeros((0, self._columns), np.int32), *np.zeros((2, 0), np.int64))
        net, whole = self._net() if self._raw else nothing, self._whole
        used, places = np.unique(np.concatenate([net.ids, whole.ids]), return_inverse=True)
        rows = places.reshape(-1, self._columns) if self._columns else np.zeros((len(net.ids) + len(whole.ids), 0), np.int64)
        saved = {
            "told": self.rows.tolist(),
            "names": vertices.names_of(used).to_pylist() if self._texts is None else self._texts(used),
            "rows": rows[: len(net.ids)].tolist(),
            "weights": net.weights.tolist(),
        }
        if self._content == "whole":
            saved["whole"] = {"rows": rows[len(net.ids) :].tolist(), "weights": whole.weights.tolist()}
        return saved

    @staticmethod
    def saved_names(saved: JsonValue) -> list[int | str]:
        """Return the vertices of rows that waited. Raises `Damage`."""
        return [name.vertex() for name in saved["names"]]

    @staticmethod
    def saved_texts(saved: JsonValue) -> list[str | None]:
        """Return the terms of rows that waited, None for what is unbound. Raises `Damage`."""
        return [None if name.is_none else name.unicode() for name in saved["names"]]

    def restore(self, saved: JsonValue, ids: np.ndarray, *, time: int | None) -> None:
        """Go on from what `saved` gave at a stream time; `ids` are those of its names. Raises `Damage`."""
        self.rows[:] = [count.whole(0, _LARGEST_COUNT) for count in saved["told"].tuple_of(2)]
        rows, weights = self._read_rows(saved, ids)
        if len(rows) and time is None:
            raise Damage("rows wait for a report before the first tuple")
        self._time = time
        self._keep(_Net(rows, weights, self.due(np.full(len(rows), 0 if time is None else time, np.int64))))
        if self._content == "whole":
            rows, weights = self._read_rows(saved["whole"], ids)
            if (weights < 0).any():
                raise Damage("a row of a whole answer is there less than once")
            self._whole = _Net(rows, weights, np.zeros(len(rows), np.int64))

    def _read_rows(self, saved: JsonValue, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of ids, and their weights. Raises `Damage`."""
        most = len(ids) - 1
        rows = [[place.whole(0, most) for place in row.tuple_of(self._columns)] for row in saved["rows"]]
        weights = [weight.whole(-_LARGEST_COUNT, _LARGEST_COUNT) for weight in saved["weights"].tuple_of(len(rows))]
        if len({*map(tuple, rows)}) < len(rows) or 0 in weights:
            raise Damage("a row waits for a report twice, or not at all")
        return ids[np.array(rows, np.int64).reshape(len(rows), self._columns)].astype(np.int32), np.array(weights, np.int64)
