"""Reports: what a query tells at certain moments only, as the net difference to the report before.

What happens at a time c belongs to the report of the first boundary b ≥ c of the query's window (report="slide"), or of c
itself (report="time"), and the report is told when the stream time first exceeds that: at the tuple that does so, before
whatever that tuple brings. Until then its rows wait here, as a bag with weights. They outlive the edges that made
them, so their vertices keep their ids (`vertices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rpq.files.described import Damage, Described
from rpq.queries.protocol import Guard
from rpq.results.delta import Delta, IdRows
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
        """Each row once a report, those that come to nothing left out; in order of time. O(rows log rows)."""
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
        """These rows."""
        return _Net(self.ids[chosen], self.weights[chosen], self.due[chosen])


class Reports:
    """The rows of one query that wait for their report."""

    def __init__(self, report: Literal["slide", "time"], *, slide: int, columns: int, guard: Guard) -> None:
        self._guard = guard
        self._granted = 0  # bytes that the guard knows of
        self._step = slide if report == "slide" else 1
        self._columns = columns
        self._waiting: list[_Net] = []
        self._raw = 0  # rows in all pieces
        self._netted = 0  # rows in the first piece, when it was the only one
        self._due = 0  # when what waits is told, if something does
        self.rows = np.zeros(2, np.int64)
        """Rows added and removed that were told so far."""

    def due(self, times: np.ndarray) -> np.ndarray:
        """The times of the reports that tell of what happens at some times."""
        into = times % self._step
        floor = times - into
        late = floor > INT64_MAX - self._step  # no stream time exceeds what is beyond 64 bits
        return np.where(into == 0, times, np.where(late, INT64_MAX, floor + np.where(late, 0, self._step)))

    def take(self, deltas: Sequence[Delta], times: np.ndarray) -> Delta | None:
        """Let what a chunk brought wait; what is told in it, if anything.

        `times` are the largest timestamps up to each of its tuples. Deltas are of one query: all its workers'.
        O(rows) where nothing is told, amortised; else O(rows log rows), those that waited included. Raises
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
        return self._told(everything.where(is_told), place[is_told])

    def _net(self) -> _Net:
        """What waits, each row once."""
        if len(self._waiting) == 1 and self._raw == self._netted:
            return self._waiting[0]
        net = _Net(*(np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True))).netted()
        self._keep(net)
        return net

    def _keep(self, net: _Net) -> None:
        self._raw = self._netted = len(net.weights)
        self._waiting = [net] if self._raw else []
        self._due = int(net.due[0]) if self._raw else 0

    def _told(self, net: _Net, place: np.ndarray) -> Delta | None:
        """Rows as a delta: of each report those that leave before those that enter."""
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
        """Rows that wait, net."""
        return int(np.abs(self._net().weights).sum()) if self._raw else 0

    @property
    def nbytes(self) -> int:
        """Bytes held: what waits, and as much again while it is sorted."""
        return 2 * self._raw * (4 * self._columns + 16)

    def vertices(self) -> np.ndarray:
        """The ids of the vertices of rows that wait. O(rows log rows)."""
        return np.unique(self._net().ids) if self._raw else np.zeros(0, np.int32)

    # --- to go on later --------------------------------------------------------------------------------------

    def saved(self, vertices: VertexDictionary) -> dict[str, Any]:
        """What waits, and what was told, as JSON values; vertices by their names."""
        net = self._net() if self._raw else _Net(np.zeros((0, self._columns), np.int32), *np.zeros((2, 0), np.int64))
        used, places = np.unique(net.ids, return_inverse=True)
        return {
            "told": self.rows.tolist(),
            "names": vertices.names_of(used).to_pylist(),
            "rows": places.reshape(net.ids.shape).tolist(),
            "weights": net.weights.tolist(),
        }

    @staticmethod
    def saved_names(saved: Described) -> list[int | str]:
        """The vertices of rows that waited. Raises `Damage`."""
        return [name.vertex() for name in saved["names"]]

    def restore(self, saved: Described, ids: np.ndarray, *, time: int | None) -> None:
        """Go on from what `saved` gave at a stream time; `ids` are those of its names. Raises `Damage`."""
        self.rows[:] = [count.whole(0, _LARGEST_COUNT) for count in saved["told"].tuple_of(2)]
        most = len(ids) - 1
        rows = [[place.whole(0, most) for place in row.tuple_of(self._columns)] for row in saved["rows"]]
        weights = [weight.whole(-_LARGEST_COUNT, _LARGEST_COUNT) for weight in saved["weights"].tuple_of(len(rows))]
        if rows and time is None:
            raise Damage("rows wait for a report before the first tuple")
        if len({*map(tuple, rows)}) < len(rows) or 0 in weights:
            raise Damage("a row waits for a report twice, or not at all")
        due = self.due(np.full(len(rows), 0 if time is None else time, np.int64))
        self._keep(_Net(ids[np.array(rows, np.int64).reshape(-1, self._columns)], np.array(weights, np.int64), due))
