"""The rows that kernels delivered for one chunk, grouped by the part of a pattern.

Kernels write runs as changes come: the rows that one changing edge brings to one part. A piece is a full output, or the
last of a chunk. `DeliveredRows` turns them, for each part, into consecutive runs with adjacent values. `WaitingRows` has the
rows of a pattern that cannot have solutions yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rpq.arrays import reserve
from rpq.compiled.kernel_cache import njit
from rpq.patterns import tables
from rpq.patterns.tables import RUN, RUN_ORDER, RUN_QUERY, RUN_ROWS, RUN_SIGN, RUN_TIME, RUN_VALUES, Output


class Place(NamedTuple):
    """The place of a part in a pattern: its meaning, and its number there."""

    meaning: int
    part: int


class PartRows(NamedTuple):
    """The rows of one part: `runs` of them in order, and their `values`, row by row; empty where they were only counted."""

    runs: np.ndarray  # int64 (run, RUN)
    values: np.ndarray  # int32

    @classmethod
    def empty(cls) -> PartRows:
        """Return an object without rows."""
        return cls(np.zeros((0, RUN), np.int64), np.zeros(0, np.int32))

    @property
    def row_count(self) -> int:
        """The number of rows of all runs."""
        return int(self.runs[:, RUN_ROWS].sum())

    def before(self, order: int) -> PartRows:
        """Return the rows of the events before a place in the order of the chunk."""
        runs = self.runs[: int(np.searchsorted(self.runs[:, RUN_ORDER], order))]
        rows = self.row_count
        width = len(self.values) // rows if rows else 0
        return PartRows(runs, self.values[: width * int(runs[:, RUN_ROWS].sum())])


class DeliveredRows:
    """The rows of a chunk. Memory that is not given away with them is reused for the next chunk."""

    def __init__(self) -> None:
        self._values = np.empty(0, np.int32)
        self._count = 0
        self._expected = 0  # expected values, from the last chunk whose memory was given away
        self._runs: list[np.ndarray] = []
        self._bytes_of_runs = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._values.nbytes + self._bytes_of_runs

    @property
    def row_count(self) -> int:
        """The number of rows of all pieces. O(pieces)."""
        return sum(int(runs[:, RUN_ROWS].sum()) for runs in self._runs)

    def clear(self) -> None:
        """Forget all rows."""
        self._runs.clear()
        self._count = self._bytes_of_runs = 0

    def take(self, output: Output, *, parts: Collection[int] | None = None) -> None:
        """Copy the rows of the output; if `parts` is given, only the rows of these parts, and counts of the others."""
        runs = output.runs[: output.state[tables.RUNS] * RUN].reshape(-1, RUN).copy()
        if runs[-1, RUN_ROWS] == 0:  # the last run may have no rows
            runs = runs[:-1]
        if not len(runs):
            return
        found = output.values[: output.state[tables.VALUES]]
        if parts is not None:
            found = _of_parts(runs, found, parts)
        end = self._count + len(found)
        if end > len(self._values):
            room = max(2 * end, self._expected)
            values = reserve.rows.take(4 * room).view(np.int32)
            values[: self._count] = self._values[: self._count]
            self._values = values
        self._values[self._count : end] = found
        runs[:, RUN_VALUES] += self._count
        self._runs.append(runs)
        self._bytes_of_runs += runs.nbytes
        self._count = end

    def rows_of_event(
        self, order: int, time: int, is_own: np.ndarray | None, share_columns: Mapping[int, int]
    ) -> dict[int, int]:
        """Return how many rows the last event, which is this one, has so far for each part.

        With `is_own`, which says for each vertex whether it belongs to this share, only the share's rows are counted: those
        with such a vertex in the part's column of `share_columns`. O(pieces of the event, and their rows with `is_own`).
        """
        found: dict[int, int] = {}
        behind = self._count
        for runs in reversed(self._runs):
            mine = np.flatnonzero((runs[:, RUN_ORDER] == order) & (runs[:, RUN_TIME] == time))
            if not len(mine):
                break
            for run in mine.tolist():
                part, rows = int(runs[run, RUN_QUERY]), int(runs[run, RUN_ROWS])
                if is_own is not None:
                    end = int(runs[run + 1, RUN_VALUES]) if run + 1 < len(runs) else behind
                    first = int(runs[run, RUN_VALUES])
                    if end > first:  # a part without columns belongs to every share
                        decisive = self._values[first + share_columns[part] : end : (end - first) // rows]
                        rows = int(is_own[decisive].sum())
                found[part] = found.get(part, 0) + rows
            behind = int(runs[0, RUN_VALUES])
        return found

    def by_part(self) -> dict[int, PartRows]:
        """Return the rows by the number of the part, and forget them here. O(values + runs log runs)."""
        if not self._runs:
            return {}
        runs = self._runs[0] if len(self._runs) == 1 else np.concatenate(self._runs)
        values, count = self._values, self._count
        self.clear()
        first = int(runs[0, RUN_QUERY])
        if len(runs) == 1 or (runs[:, RUN_QUERY] == first).all():
            self._values, self._expected = np.empty(0, np.int32), count + count // 4
            return {first: PartRows(runs, values[:count])}
        # The ends of the values of runs: they were written without gaps.
        ends = np.append(runs[1:, RUN_VALUES], count)
        order = np.argsort(runs[:, RUN_QUERY], kind="stable")
        runs, ends = runs[order], ends[order]
        begins = runs[:, RUN_VALUES].copy()
        values = _gathered(values[:count], begins, ends)
        cuts = [0, *(np.flatnonzero(np.diff(runs[:, RUN_QUERY])) + 1).tolist(), len(runs)]
        places = np.append(0, np.cumsum(ends - begins))[cuts].tolist()
        return {
            int(runs[begin, RUN_QUERY]): PartRows(runs[begin:end], values[at:until])
            for (begin, end), (at, until) in zip(pairwise(cuts), pairwise(places), strict=True)
        }


def _of_parts(runs: np.ndarray, values: np.ndarray, parts: Collection[int]) -> np.ndarray:
    """Return the values of the runs of some parts; the places in all runs are changed to fit."""
    if not parts:
        runs[:, RUN_VALUES] = 0
        return values[:0]
    begins, ends = runs[:, RUN_VALUES].copy(), np.append(runs[1:, RUN_VALUES], len(values))
    is_left_out = np.isin(runs[:, RUN_QUERY], [*parts], invert=True)
    ends[is_left_out] = begins[is_left_out]
    lengths = ends - begins
    runs[:, RUN_VALUES] = np.cumsum(lengths) - lengths
    return _gathered(values, begins, ends)[: lengths.sum()]


def events_of(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last run of each event, and where the rows of each event end. Runs of one event must be adjacent."""
    if len(runs) == 1:
        return runs, runs[:, RUN_ROWS]
    last, ends = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
    count = _end_events(runs, last, ends)
    return runs[last[:count]], ends[:count]


@njit(cache=True, nogil=True)
def _end_events(runs, last, ends):
    """Write the last run of each event and where its rows end; return the number of events."""
    count = 0
    rows = np.int64(0)
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
def _gathered(values, begins, ends):
    """Return the values of runs, one run after the other."""
    found = np.empty(len(values), np.int32)
    at = 0
    for run in range(len(begins)):
        for i in range(begins[run], ends[run]):
            found[at] = values[i]
            at += 1
    return found


MOST_WAITING = 256
"""The maximal number of different rows; above it the tables of products are the better form."""

_BYTES_AN_ENTRY = 160


class WaitingRows:
    """The rows of the parts of one meaning while some part has none, with counts.

    Most patterns with several parts never have rows of all of them. Until then their rows are a few entries of plain
    dictionaries, in place of the tables from which products are formed.
    """

    def __init__(self, columns: Sequence[Sequence[str]], rows: Sequence[np.ndarray]) -> None:
        self.columns = [*columns]
        self._counts: list[dict[bytes, int]] = [{} for _ in columns]
        for part, some in enumerate(rows):
            self._add(part, some.astype(np.int32), [1] * len(some))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaitingRows) and (self.columns, self._counts) == (other.columns, other._counts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return _BYTES_AN_ENTRY * sum(map(len, self._counts))

    @property
    def are_many(self) -> bool:
        """Whether the tables of products would be the better form."""
        return sum(map(len, self._counts)) > MOST_WAITING

    def still_wait(self, part_rows: Mapping[Place, PartRows]) -> bool:
        """Return whether a part without rows gets none of these either, so that there is still no solution."""
        growing = {part for (_, part), (runs, _) in part_rows.items() if (runs[:, tables.RUN_SIGN] > 0).any()}
        return any(not counts and part not in growing for part, counts in enumerate(self._counts))

    def take(self, part_rows: Mapping[Place, PartRows]) -> None:
        """Add and remove rows of parts. O(rows)."""
        for (_, part), (runs, values) in part_rows.items():
            signs = np.repeat(runs[:, tables.RUN_SIGN], runs[:, tables.RUN_ROWS]).tolist()
            self._add(part, values.reshape(len(signs), len(self.columns[part])), signs)

    def _add(self, part: int, rows: np.ndarray, signs: Sequence[int]) -> None:
        counts, width, data = self._counts[part], rows.itemsize * rows.shape[1], rows.tobytes()
        for number, sign in enumerate(signs):
            row = data[number * width : (number + 1) * width]
            count = counts.get(row, 0) + sign
            if count:
                counts[row] = count
            else:
                del counts[row]

    def rows(self) -> list[np.ndarray]:
        """Return the rows of each part, int32 (row, column), each as often as it is counted."""
        found = []
        for names, counts in zip(self.columns, self._counts, strict=True):
            data = b"".join(row * count for row, count in counts.items())
            found.append(np.frombuffer(data, np.int32).reshape(sum(counts.values()), len(names)))
        return found
