"""The guard on the rows that one event may bring to one query."""

from __future__ import annotations

import sys

from rpq.errors import RowLimitError

MOST_ROWS = 10_000_000


class RowGuard:
    """How many rows one event may bring to one query, `limit`, and what it is to bring more.

    The evaluation counts what is told; a kind that can tell earlier that there will be too many raises `error` itself,
    so that they are not all found first.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.most = sys.maxsize if limit is None else limit
        self.row: int | None = 0
        """Of the push, at which the chunk begins; None while time alone moves."""

    def error(self, query: str, number: int, *, place: int) -> RowLimitError:
        """What it is when tuple `place` of the chunk brings so many rows to a query, or more."""
        row = None if self.row is None else self.row + place
        return self._error(query, number, row, "moving the time" if row is None else f"tuple {row} of the batch", _GO_ON)

    def refusal(self, query: str, number: int) -> RowLimitError:
        """What it is when a query would begin with so many rows, or more."""
        return self._error(query, number, None, "registering it", "It is not registered; the engine can be used on.")

    def _error(self, query: str, number: int, row: int | None, what: str, afterwards: str) -> RowLimitError:
        assert self.limit is not None
        return RowLimitError(
            f"query {query!r}: {what} would bring {number:,} rows at once, if not more; the limit is {self.limit:,}. "
            f"Restrict the query, take a smaller window, or raise max_rows. {afterwards}",
            query=query,
            row=row,
            number=number,
            limit=self.limit,
        )


_GO_ON = (
    "The rows of all tuples before are delivered, of this one none; the engine takes no further tuples: go on from a saved "
    "state with Engine.restore(…, max_rows=…)"
)
