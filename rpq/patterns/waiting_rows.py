"""The rows of a pattern's parts while some part has none, so that the pattern has no solution.

Most patterns with several parts never have rows of all of them. Until then their rows are a few entries of plain
dictionaries, in place of the tables that products are formed from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rpq.patterns import tables
from rpq.patterns.delivered import PartRows
from rpq.patterns.pattern_host import Place

MOST = 256
"""From more different rows on the tables of products are the better place."""

_BYTES_AN_ENTRY = 160


class WaitingRows:
    """The rows of the parts of one meaning: of each part, how often each row is there."""

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
        """Bytes held, roughly."""
        return _BYTES_AN_ENTRY * sum(map(len, self._counts))

    @property
    def are_many(self) -> bool:
        """Whether they should wait no longer in this form."""
        return sum(map(len, self._counts)) > MOST

    def still_wait(self, found: Mapping[Place, PartRows]) -> bool:
        """Whether there is a part without rows that gets none of these, whichever comes first."""
        growing = {part for (_, part), (runs, _) in found.items() if (runs[:, tables.RUN_SIGN] > 0).any()}
        return any(not counts and part not in growing for part, counts in enumerate(self._counts))

    def take(self, found: Mapping[Place, PartRows]) -> None:
        """Let rows of parts come or go. O(rows)."""
        for (_, part), (runs, values) in found.items():
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
        """The rows of each part, int32 (row, column); a row that is there several times comes so often."""
        found = []
        for names, counts in zip(self.columns, self._counts, strict=True):
            data = b"".join(row * count for row, count in counts.items())
            found.append(np.frombuffer(data, np.int32).reshape(sum(counts.values()), len(names)))
        return found
