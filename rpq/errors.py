"""The exceptions of the engine, which all derive from `RpqError`, and the command for installing a missing package."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from rpq.automata.errors import ExpressionError as _ExpressionError
from rpq.automata.errors import pointer_lines


class RpqError(Exception):
    """The base class of all errors that this package raises on purpose."""


class InputError(RpqError):
    """Invalid input; the message contains the problem, its place, and the expected input.

    `file`, `line` (counted from 1), `column` (its name) and `row` (counted from 0, in a pushed batch or in a typed file)
    are None if they do not apply.  An engine sets `changes` to the answer changes of the tuples before the error; otherwise
    it is None.  `str()` of the error is the message, which includes the place.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.row = row
        self.changes: Any = None


class QueryError(RpqError):
    """A query that cannot be evaluated: its expression, its window or its options."""


class ExpressionError(_ExpressionError, QueryError):
    """The expression of a query cannot be parsed, or is too large: a `ValueError` that points to the column.

    `column` counts characters from 1, `expected` lists valid tokens at that place, `expression` is the whole text.

    >>> import rpq
    >>> try:
    ...     rpq.Query("a/b||c", window=rpq.Window(size=30, slide=1))
    ... except rpq.ExpressionError as error:
    ...     print(error.column, error.message)
    5 unexpected '|'
    """


class QueryTextError(QueryError):
    """The text of a query cannot be parsed, or has a refused construct; `str` shows it with a pointer to the place.

    `line` and `column` count from 1, the column in characters; both are None if the error has no single place. `expected`
    lists valid tokens at that place or an alternative; `text` is the whole query.

    >>> print(QueryTextError("unexpected 'LIMIT'", text="SELECT ?x { ?x <a> ?y }\\nLIMIT ?x", line=2, column=1))
    line 2, column 1: unexpected 'LIMIT'
      LIMIT ?x
      ^
    """

    def __init__(
        self, message: str, *, text: str, line: int | None = None, column: int | None = None, expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.line = line
        self.column = column
        self.expected = expected

    def __str__(self) -> str:
        message = self.message if self.expected is None else f"{self.message}; expected {self.expected}"
        if self.line is None or self.column is None:
            return message
        # Every kind of line end counts, so that the pointer is below its place.
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return f"line {self.line}, column {self.column}: {message}\n{pointer_lines(lines[self.line - 1], self.column)}"


class SparqlError(QueryTextError):
    """A query in SPARQL cannot be parsed, or uses a refused construct."""


class MatchError(QueryTextError):
    """A MATCH text cannot be parsed, or uses a refused construct."""


class WhereError(RpqError):
    """A condition that cannot be parsed, or does not fit the input; `str` shows it with a pointer to the place.

    `column` counts the characters of the condition from 1.

    >>> print(WhereError("unexpected '>'", 5, "a > > 1"))
    --where: column 5: unexpected '>'
      a > > 1
          ^
    """

    def __init__(self, message: str, column: int, text: str) -> None:
        one_line = re.sub(r"\s", " ", text)
        super().__init__(f"--where: column {column}: {message}\n  {one_line}\n  {' ' * (column - 1)}^")
        self.message = message
        self.column = column
        self.text = text


class RegistrationError(QueryError):
    """The window of a new query extends back to edges that were not kept.

    `available_from` is the stream time from which the query can be registered with its complete window, in the form of the
    timestamps of the stream: an integer, or a date or time. It is None if waiting does not help: an unbounded window never
    recovers a lost edge, and the content of a count window is known only if another query has the same window.
    """

    def __init__(self, message: str, *, available_from: Any) -> None:
        super().__init__(message)
        self.available_from = available_from


class LimitError(RpqError):
    """A tuple exceeds what an engine allows: `MemoryLimitError`, `RowLimitError`, `PushLimitError` or `SumLimitError`."""

    row: int | None
    changes: Any


class MemoryLimitError(LimitError):
    """The engine would exceed its memory limit.

    `query` is the name of the query whose index grew, `row` the number of the tuple in the pushed batch,
    `size` the bytes that the index needed, `limit` the bytes allowed. `changes` are the answer changes of the
    tuples before that tuple. The engine accepts no further tuples.
    """

    def __init__(self, message: str, *, query: str, row: int, size: int, limit: int) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.size = size
        self.limit = limit
        self.changes: Any = None


class RowLimitError(LimitError):
    """One event would produce more rows for a query than the engine's `max_rows`.

    `query` is the name of the query, `row` the number of the tuple in the pushed batch (None if an advance of time or the
    registration of the query caused the error), `number` the rows counted until the engine stopped, `limit` the rows
    allowed. `changes` are the answer changes of all tuples before that event; the event itself has no changes, for any
    query. The engine accepts no further tuples: continue from a saved state. If the registration of a query, or `flush`,
    causes the error, the query is refused, or nothing told, and the engine remains usable.
    """

    def __init__(self, message: str, *, query: str, row: int | None, number: int, limit: int) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.number = number
        self.limit = limit
        self.changes: Any = None


class PushLimitError(LimitError):
    """A push took longer than the engine's `push_limit`, or another thread interrupted it.

    `query` is the name of the query that was being evaluated, `row` the number of the tuple in the pushed batch, `limit` the
    seconds allowed, None if the push was interrupted. `changes` are the answer changes of the tuples before that tuple; the
    tuple itself has no changes, for any query. The engine accepts no further tuples: continue from a saved state. If the
    registration of a query causes the error, the query is refused and the engine remains usable.
    """

    def __init__(self, message: str, *, query: str, row: int, limit: float | None) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.limit = limit
        self.changes: Any = None


class FindLimitError(RpqError):
    """`Engine.find` or `check` would look at more edges than its `max_edges`, the `limit`. The engine remains usable."""

    def __init__(self, message: str, *, limit: int | None) -> None:
        super().__init__(message)
        self.limit = limit


class SumLimitError(LimitError):
    """The cost of an answer does not fit into 64 bits: a sum of integers, or of decimals in units of their last digit. Or a
    shortest path in order of time has too many edges to count (tens of thousands).

    `query` is the name of the query, `row` the number of the tuple in the pushed batch. `changes` are the answer changes of
    the tuples before that tuple. The engine accepts no further tuples: continue from a saved state.
    """

    def __init__(self, query: str, row: int, *, is_length: bool = False) -> None:
        problem = (
            "shortest path with too many edges to count. Bound their number, as in a{1,20}, or leave out the length"
            if is_length
            else "cost that does not fit into 64 bits. Restrict the values of edges with a condition, as in "
            "a[amount < 1000], or write them as floats"
        )
        super().__init__(f"query {query!r}: tuple {row} of the batch makes a {problem}")
        self.query = query
        self.row = row
        self.changes: Any = None


class ConflictBudgetError(RpqError):
    """The search for simple paths from one root exceeded the budget, and the root was set aside.

    `query` is the name of the query, `root` the vertex, `row` the number of the tuple in the pushed batch (None if an
    advance of time caused the search), `size` the number of expanded nodes, `budget` the number allowed. Every tuple of the
    batch was applied, with exact results for every other root; `changes` has all rows, including those with which the root's
    answers left. The engine remains usable.
    """

    def __init__(
        self, message: str, *, query: str, root: int | str, row: int | None, size: int, budget: int
    ) -> None:
        super().__init__(message)
        self.query = query
        self.root = root
        self.row = row
        self.size = size
        self.budget = budget
        self.changes: Any = None


class StateFormatError(RpqError):
    """A file (or a record in the state of a pipeline) from which an engine cannot continue.

    `reason` is "foreign" (not a saved state), "truncated", "damaged", or "version" (another version of the
    format).
    """

    def __init__(self, message: str, *, reason: Literal["foreign", "truncated", "damaged", "version"]) -> None:
        super().__init__(message)
        self.reason = reason


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra of this package.

    The command lists the packages themselves, because the origin of this installation (a checkout or a file) is unknown.

    >>> install_command("plot")
    "pip install 'matplotlib>=3.8'"
    """
    from importlib.metadata import PackageNotFoundError

    try:
        requirements = _requirements_of(extra)
    except PackageNotFoundError:  # there is no metadata in a checkout on the path, or in an archive that Spark distributes
        requirements = []
    # An installation that predates the extra lacks its metadata, too.
    if requirements:
        return f"pip install {shlex.join(requirements)}"
    return f"pip install '.[{extra}]' in a checkout of streaming-rpq"


def _requirements_of(extra: str) -> list[str]:
    """Return the requirements of an extra, including those of the extras that it contains, in pip's notation."""
    from importlib.metadata import requires

    found: list[str] = []
    for requirement in requires("streaming-rpq") or ():
        package, _, marker = requirement.partition(";")
        if not re.search(rf"""\bextra == ["']{re.escape(extra)}["']""", marker):
            continue
        of_ours = re.fullmatch(r"streaming-rpq\[(.*)\]", package.strip())
        if of_ours is not None:
            found += [one for name in of_ours[1].split(",") for one in _requirements_of(name.strip())]
            continue
        rest = re.sub(r"""(\s*and\s*)?\bextra == ["'][^"']*["']""", "", marker).strip()
        found.append(f"{package.strip()}; {rest}" if rest else package.strip())
    return [*dict.fromkeys(found)]


def did_you_mean(name: str, candidates: Sequence[str]) -> str:
    """Return a hint with the known name that is closest to an unknown one, or an empty text if none is close.

    >>> did_you_mean("usr", ["user", "item"]), did_you_mean("x", [])
    ("; did you mean 'user'?", '')
    """
    import difflib  # only errors use it

    close = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
