"""What the kernels delivered of one chunk: runs of rows, put together by the part of a pattern that they are of.

Kernels write runs as changes come: the rows that one changing edge brings to one part. A piece is a full output, or the
last of a chunk. Here they become, for each part, runs one after the other with their values side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns import tables
from rpq.patterns.tables import RUN, RUN_ORDER, RUN_QUERY, RUN_ROWS, RUN_SIGN, RUN_TIME, RUN_VALUES, Output


class PartRows(NamedTuple):
    """The rows of one part: `runs` of them in order, and their `values`, row by row."""

    runs: np.ndarray  # int64 (run, RUN)
    values: np.ndarray  # int32

    @property
    def row_count(self) -> int:
        """Rows of all runs."""
        return int(self.runs[:, RUN_ROWS].sum())

    def before(self, order: int) -> PartRows:
        """Those of the events before a place in the order of the chunk."""
        runs = self.runs[: int(np.searchsorted(self.runs[:, RUN_ORDER], order))]
        rows = self.row_count
        width = len(self.values) // rows if rows else 0
        return PartRows(runs, self.values[: width * int(runs[:, RUN_ROWS].sum())])

    def rows(self, columns: int) -> list[tuple[int, ...]]:
        """The rows as tuples."""
        if columns == 0:
            return [()] * self.row_count
        return list(map(tuple, self.values.reshape(-1, columns).tolist()))


class Delivered:
    """The pieces of a chunk."""

    def __init__(self) -> None:
        self._pieces: list[tuple[np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(runs.nbytes + values.nbytes for runs, values in self._pieces)

    @property
    def row_count(self) -> int:
        """Rows of all pieces. O(pieces)."""
        return sum(int(runs[:, RUN_ROWS].sum()) for runs, _ in self._pieces)

    def clear(self) -> None:
        """Forget all of them."""
        self._pieces.clear()

    def take(self, output: Output) -> None:
        """Keep a copy of what is in the output."""
        runs = output.runs[: output.state[tables.RUNS] * RUN].reshape(-1, RUN).copy()
        if runs[-1, RUN_ROWS] == 0:  # the last one may have come to nothing
            runs = runs[:-1]
        if len(runs):
            self._pieces.append((runs, output.values[: output.state[tables.VALUES]].copy()))

    def rows_of_event(self, order: int, time: int, is_own: np.ndarray | None) -> dict[int, int]:
        """How many rows of the last event, which is this one, there are so far of each part; those of a share alone.

        `is_own` tells which first values a row may have. O(pieces of the event, and their rows where there is `is_own`).
        """
        found: dict[int, int] = {}
        for runs, values in reversed(self._pieces):
            mine = np.flatnonzero((runs[:, RUN_ORDER] == order) & (runs[:, RUN_TIME] == time))
            if not len(mine):
                break
            for run in mine.tolist():
                part, rows = int(runs[run, RUN_QUERY]), int(runs[run, RUN_ROWS])
                if is_own is not None:
                    end = int(runs[run + 1, RUN_VALUES]) if run + 1 < len(runs) else len(values)
                    first = int(runs[run, RUN_VALUES])
                    if end > first:  # a part without columns belongs to every share
                        rows = int(is_own[values[first : end : (end - first) // rows]].sum())
                found[part] = found.get(part, 0) + rows
        return found

    def by_part(self) -> dict[int, PartRows]:
        """The rows by the number of the part. O(values + runs log runs)."""
        pieces: dict[int, list[PartRows]] = {}
        for runs, values in self._pieces:
            first = int(runs[0, RUN_QUERY])
            if len(runs) == 1 or (runs[:, RUN_QUERY] == first).all():
                pieces.setdefault(first, []).append(PartRows(runs, values))
                continue
            # Where the values of each run end: they were written without gaps.
            ends = np.append(runs[1:, RUN_VALUES], len(values))
            order = np.argsort(runs[:, RUN_QUERY], kind="stable")
            runs, ends = runs[order], ends[order]
            values = _gathered(values, runs[:, RUN_VALUES].copy(), ends)
            widths = ends - runs[:, RUN_VALUES]
            borders = np.flatnonzero(np.diff(runs[:, RUN_QUERY])) + 1
            for begin, end in zip([0, *borders.tolist()], [*borders.tolist(), len(runs)], strict=True):
                at = int(widths[:begin].sum())
                mine = PartRows(runs[begin:end], values[at : at + int(widths[begin:end].sum())])
                pieces.setdefault(int(runs[begin, RUN_QUERY]), []).append(mine)
        return {part: found[0] if len(found) == 1 else _joined(found) for part, found in pieces.items()}


def _joined(found: list[PartRows]) -> PartRows:
    return PartRows(np.concatenate([one.runs for one in found]), np.concatenate([one.values for one in found]))


def events_of(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last run of each event, and where the rows of each event end. Runs of one event lie side by side."""
    if len(runs) == 1:
        return runs, runs[:, RUN_ROWS]
    keys = runs[:, [RUN_ORDER, RUN_TIME, RUN_SIGN]]
    is_last = np.ones(len(runs), bool)
    is_last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
    return runs[is_last], np.cumsum(runs[:, RUN_ROWS])[is_last]


@njit(cache=True, nogil=True)
def _gathered(values, begins, ends):
    """The values of runs, one run after the other."""
    found = np.empty(len(values), np.int32)
    at = 0
    for run in range(len(begins)):
        for i in range(begins[run], ends[run]):
            found[at] = values[i]
            at += 1
    return found
