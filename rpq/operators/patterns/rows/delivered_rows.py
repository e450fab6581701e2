"""The rows that kernels delivered for one chunk, as a delta for each part of a pattern.

Kernels write runs as changes come: the rows that one changing edge brings to one part. A piece is a full output, or the
last of a chunk. `DeliveredRows` turns them into a `Delta` for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise

import numpy as np

from rpq.compiled.arrays import reserve
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.tables import (
    RUN_ORDER,
    RUN_QUERY,
    RUN_ROWS,
    RUN_SIGN,
    RUN_TIME,
    RUN_VALUES,
    FoundRows,
    run_table,
)
from rpq.rows.delta import Delta, ids_of_columns

_FEW_VALUES = 4096
"""The number of values up to which a copy is cheaper than new memory for the next chunk."""
_BLOCK = 1 << 20
"""The number of values from which memory does not double but gets a block more, of a size that rows of tables take, too."""


class DeliveredRows:
    """The rows of a chunk. Memory that is not given away with them is reused for the next chunk."""

    def __init__(self) -> None:
        self._values = np.empty(0, np.int32)  # the last block
        self._begin = 0  # the number of values in the blocks before it
        self._full_blocks: list[np.ndarray] = []  # these blocks
        self._count = 0
        self._expected_values = 0  # expected values, from the last chunk whose memory was given away
        self._runs: list[np.ndarray] = []
        self._bytes_of_runs = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._values.nbytes + 4 * self._begin + self._bytes_of_runs

    @property
    def value_count(self) -> int:
        """The number of values of all rows."""
        return self._count

    @property
    def row_count(self) -> int:
        """The number of rows of all pieces. O(pieces)."""
        return sum(int(runs[:, RUN_ROWS].sum()) for runs in self._runs)

    def clear(self) -> None:
        """Remove all rows."""
        self._runs.clear()
        self._full_blocks.clear()
        self._count = self._begin = self._bytes_of_runs = 0

    def append(self, output: FoundRows, *, parts: Collection[int] | None = None) -> None:
        """Copy the rows of the output; if `parts` is given, only the rows of these parts, and counts of the others."""
        runs = run_table(output.runs[: output.state.runs]).copy()
        if runs[-1, RUN_ROWS] == 0:  # the last run may have no rows
            runs = runs[:-1]
        if not len(runs):
            return
        values = output.values[: output.state.values]
        if parts is not None:
            values = _select_parts(runs, values, parts)
        self._append(runs, values)

    def _append(self, runs: np.ndarray, values: np.ndarray) -> None:
        end = self._count + len(values)
        if end - self._begin > len(self._values):
            self._make_room(len(values))
        self._values[self._count - self._begin : end - self._begin] = values
        if self._count:
            runs[:, RUN_VALUES] += self._count
        self._runs.append(runs)
        self._bytes_of_runs += runs.nbytes
        self._count = end

    def _make_room(self, count: int) -> None:
        """Make room for `count` more values, side by side: in a larger block, or in one more."""
        filled = self._values[: self._count - self._begin]
        if self._count >= _BLOCK:
            self._full_blocks.append(filled)
            self._begin = self._count
            self._values = reserve.rows.take(4 * max(count, _BLOCK)).view(np.int32)
            return
        self._values = reserve.rows.take(4 * max(2 * (self._count + count), self._expected_values)).view(np.int32)
        self._values[: self._count] = filled

    def _between(self, first: int, end: int) -> np.ndarray:
        """Return values that were delivered at once. O(blocks behind)."""
        begin, block = self._begin, self._values
        for before in reversed(self._full_blocks):
            if first >= begin:
                break
            begin -= len(before)
            block = before
        return block[first - begin : end - begin]

    def _all_values(self) -> np.ndarray:
        """Return the values of all blocks side by side, and leave the blocks to others."""
        if not self._full_blocks:
            return self._values[: self._count]
        blocks, self._full_blocks = [*self._full_blocks, self._values[: self._count - self._begin]], []
        values = reserve.rows.take(4 * self._count).view(np.int32)[: self._count]
        np.concatenate(blocks, out=values)
        return values

    def rows_of_event(
        self, order: int, time: int, are_own: Callable[[int, np.ndarray], np.ndarray] | None
    ) -> dict[int, int]:
        """Return the number of rows that the last event, which is this one, has so far for each part.

        With `are_own`, which says for a part and its rows (row, column) which ones are this share's, only these are counted.
        O(pieces of the event, and their rows with `are_own`).
        """
        counts: dict[int, int] = {}
        behind = self._count
        for runs in reversed(self._runs):
            mine = np.flatnonzero((runs[:, RUN_ORDER] == order) & (runs[:, RUN_TIME] == time))
            if not len(mine):
                break
            for run in mine.tolist():
                part, rows = int(runs[run, RUN_QUERY]), int(runs[run, RUN_ROWS])
                if are_own is not None:
                    end = int(runs[run + 1, RUN_VALUES]) if run + 1 < len(runs) else behind
                    first = int(runs[run, RUN_VALUES])
                    if end > first:  # a part without columns belongs to every share
                        rows = int(are_own(part, self._between(first, end).reshape(rows, -1)).sum())
                counts[part] = counts.get(part, 0) + rows
            behind = int(runs[0, RUN_VALUES])
        return counts

    def by_part(self) -> dict[int, Delta]:
        """Return the rows by the number of the part, and remove them here. O(values + runs log runs).

        The deltas of parts whose rows were only counted have no columns.
        """
        if not self._runs:
            return {}
        runs, values = self._all_runs(), self._all_values()
        self.clear()
        return self._give_away(runs, values)

    def take_before(self, order: int) -> dict[int, Delta]:
        """Return the rows of events before a place in the order of the chunk as `by_part` does, and remove them here.

        O(1) if there are none, otherwise like `by_part`.
        """
        if not self._runs or self._runs[0][0, RUN_ORDER] >= order:
            return {}
        runs, values = self._all_runs(), self._all_values()
        cut = int(np.searchsorted(runs[:, RUN_ORDER], order))
        begin = int(runs[cut, RUN_VALUES]) if cut < len(runs) else len(values)
        later_runs, later_values = runs[cut:].copy(), values[begin:].copy()
        self.clear()
        found = self._give_away(runs[:cut], values[:begin])
        if len(later_runs):
            later_runs[:, RUN_VALUES] -= begin
            self._append(later_runs, later_values)
        return found

    def _all_runs(self) -> np.ndarray:
        return self._runs[0] if len(self._runs) == 1 else np.concatenate(self._runs)

    def _give_away(self, runs: np.ndarray, values: np.ndarray) -> dict[int, Delta]:
        """Return rows that were removed here by the number of the part."""
        first, count = int(runs[0, RUN_QUERY]), len(values)
        if len(runs) == 1 or (runs[:, RUN_QUERY] == first).all():
            if count <= _FEW_VALUES:
                return {first: _delta_of(runs, values.copy())}
            self._values, self._expected_values = np.empty(0, np.int32), count + min(count // 4, _BLOCK)
            return {first: _delta_of(runs, values)}
        runs, values, cuts = _group_by_part(runs, np.argsort(runs[:, RUN_QUERY], kind="stable"), values)
        return {
            part: _delta_of(runs[begin:end], values[at:until])
            for (part, begin, at), (_, end, until) in pairwise(cuts.tolist())
        }


def _select_parts(runs: np.ndarray, values: np.ndarray, parts: Collection[int]) -> np.ndarray:
    """Return the values of the runs of some parts; the places in all runs are changed to fit."""
    if not parts:
        runs[:, RUN_VALUES] = 0
        return values[:0]
    lengths = np.diff(runs[:, RUN_VALUES], append=len(values))  # they were written without gaps
    is_kept = np.isin(runs[:, RUN_QUERY], [*parts])
    values = values[np.repeat(is_kept, lengths)]
    lengths[~is_kept] = 0
    runs[:, RUN_VALUES] = np.cumsum(lengths) - lengths
    return values


def _delta_of(runs: np.ndarray, values: np.ndarray) -> Delta:
    """Return the rows of runs of one part, in which those of one event are adjacent, as a delta."""
    if len(runs) == 1:
        ends = runs[:, RUN_ROWS]
    else:
        last, ends = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
        events = _end_events(runs, last, ends)
        runs, ends = runs[last[:events]], ends[:events]
    rows = int(ends[-1])
    return Delta(
        ids=ids_of_columns(values.reshape(rows, len(values) // rows)),
        times=runs[:, RUN_TIME],
        ends=ends,
        kinds=runs[:, RUN_SIGN].astype(np.int8),
        orders=runs[:, RUN_ORDER],
        is_lasting=True,
    )


@njit(cache=True, nogil=True)
def _end_events(runs, last, ends):
    """Write the last run of each event and where its rows end; return the number of events."""
    count = 0
    rows = np.int64(0)
    # `rows` is the number of rows of the runs before `i`; the events that end before `i`, `count` of them, are written.
    for i in range(len(runs)):
        rows += runs[i, RUN_ROWS]
        if (
            i + 1 == len(runs)
            or runs[i, RUN_ORDER] != runs[i + 1, RUN_ORDER]
            or runs[i, RUN_TIME] != runs[i + 1, RUN_TIME]
            or runs[i, RUN_SIGN] != runs[i + 1, RUN_SIGN]
        ):
            last[count] = i
            ends[count] = rows
            count += 1
    return count


@njit(cache=True, nogil=True)
def _group_by_part(runs, order, values):
    """Return runs in an `order` by part, their values, and the (part, first run, first value) of parts and of their end.

    The values were written without gaps, in the order of the runs.
    """
    count = len(order)
    grouped, found = np.empty_like(runs), np.empty(len(values), np.int32)
    cuts = np.empty((count + 1, 3), np.int64)
    parts = at = 0
    # The runs before `i` are written with their values, `at` of them, and the beginnings of their parts, `parts` of them.
    for i in range(count):
        run = order[i]
        if i == 0 or runs[run, RUN_QUERY] != grouped[i - 1, RUN_QUERY]:
            cuts[parts, 0], cuts[parts, 1], cuts[parts, 2] = runs[run, RUN_QUERY], i, at
            parts += 1
        for column in range(runs.shape[1]):
            grouped[i, column] = runs[run, column]
        end = runs[run + 1, RUN_VALUES] if run + 1 < count else len(values)
        for place in range(runs[run, RUN_VALUES], end):
            found[at] = values[place]
            at += 1
    cuts[parts, 0], cuts[parts, 1], cuts[parts, 2] = -1, count, at
    return grouped, found, cuts[: parts + 1]
