"""The exceptions of the engine: all derive from `RpqError`; and what those say that miss another package."""

from __future__ import annotations

import re
import shlex
from typing import Any, Literal

from rpq.automata.errors import ExpressionError as _ExpressionError
from rpq.automata.errors import pointer_lines


class RpqError(Exception):
    """The base of every error that this package raises on purpose."""


class ThreadsWarning(UserWarning):
    """The threads of an engine do not divide the work of some of its queries."""


class InputError(RpqError):
    """Input that is not what it should be: says what is wrong, where, and what would be right.

    `file`, `line` (counted from 1), `column` (its name) and `row` (counted from 0, in a pushed batch or in a
    typed file) are None where they do not apply; nor does `changes`, the answer changes of the tuples before, which an
    engine attaches.  `str()` of the error is the message alone, place included.
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
    """The expression of a query is not understood, or too large: a `ValueError` that points to the column.

    `column` counts characters from 1, `expected` says what could have stood there, `expression` is the whole.

    >>> import rpq
    >>> try:
    ...     rpq.Query("a/b||c", window=rpq.Window(size=30, slide=1))
    ... except rpq.ExpressionError as error:
    ...     print(error.column, error.message)
    5 unexpected '|'
    """


class SparqlError(QueryError):
    """A query in SPARQL is not understood, or asks for what is refused; `str` shows it with a pointer to the place.

    `line` and `column` count from 1, the column in characters; both are None where the error has no one place. `expected`
    says what could have stood there, or what to write instead; `text` is the whole query.

    >>> print(SparqlError("ORDER BY is refused", text="SELECT ?x { ?x <a> ?y }\\nORDER BY ?x", line=2, column=1))
    line 2, column 1: ORDER BY is refused
      ORDER BY ?x
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
        told = self.message if self.expected is None else f"{self.message}; expected {self.expected}"
        if self.line is None or self.column is None:
            return told
        # Whatever ends a line, the pointer stands below its place.
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return f"line {self.line}, column {self.column}: {told}\n{pointer_lines(lines[self.line - 1], self.column)}"


class RegistrationError(QueryError):
    """The window of a new query reaches back to edges that were not kept.

    `available_from` is the stream time from which the query can be registered with all that its window holds, as the
    timestamps of the stream: an integer, or a date or time. It is None where time does not help: in an unbounded window an
    edge that was lost is missing for ever, and what a count window would hold is known only beside one like it.
    """

    def __init__(self, message: str, *, available_from: Any) -> None:
        super().__init__(message)
        self.available_from = available_from


class LimitError(RpqError):
    """A tuple asks for more than an engine may take: `MemoryLimitError` or `RowLimitError`."""

    row: int | None
    changes: Any


class MemoryLimitError(LimitError):
    """The engine would grow past its memory limit.

    `query` is the name of the query whose index grew, `row` the number of the tuple in the pushed batch,
    `size` the bytes that it would have needed, `limit` the bytes allowed. `changes` are the answer changes of the
    tuples before it. The engine takes no further tuples.
    """

    def __init__(self, message: str, *, query: str, row: int, size: int, limit: int) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.size = size
        self.limit = limit
        self.changes: Any = None


class RowLimitError(LimitError):
    """One event would bring more rows to a query than the engine's `max_rows`.

    `query` is the name of the query, `row` the number of the tuple in the pushed batch (None where no tuple but a time, or
    its being registered, brought them), `number` the rows that were counted before it was stopped, `limit` the rows allowed.
    `changes` are the answer changes of all tuples before; of this one there are none, for any query. The engine takes no
    further tuples: go on from a saved state. A query that would begin with too many is refused, and the engine can be used
    on.
    """

    def __init__(self, message: str, *, query: str, row: int | None, number: int, limit: int) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.number = number
        self.limit = limit
        self.changes: Any = None


class ConflictBudgetError(RpqError):
    """Simple paths: the search for one root took more than the budget, and the root was set aside.

    `query` is the name of the query, `root` the vertex, `row` the number of the tuple in the pushed batch (None where no
    tuple but a time brought it), `size` the nodes expanded, `budget` what was allowed. Every tuple of the batch was
    applied, to every other root exactly; `changes` has all rows, among them those with which the root's answers left.
    The engine can be used on.
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
    """A file (or a record in the state of a pipeline) that an engine cannot go on from.

    `reason` tells why: it is "foreign" (no saved state at all), "truncated", "damaged", or of another "version" of the
    format.
    """

    def __init__(self, message: str, *, reason: Literal["foreign", "truncated", "damaged", "version"]) -> None:
        super().__init__(message)
        self.reason = reason


def install_command(extra: str) -> str:
    """Return the command that installs what an extra of this package brings.

    It names the packages themselves, since where this one was installed from, a checkout or a file, is not known.

    >>> install_command("plot")
    "pip install 'matplotlib>=3.8'"
    """
    from importlib.metadata import PackageNotFoundError

    try:
        needed = _needed_by(extra)
    except PackageNotFoundError:  # the files alone are here: a checkout on the path, or an archive that Spark shipped
        needed = []
    # An installation from before there was this extra does not know it either.
    return f"pip install {shlex.join(needed)}" if needed else f"pip install '.[{extra}]' in a checkout of streaming-rpq"


def _needed_by(extra: str) -> list[str]:
    """Return what an extra requires, with the extras that it consists of, in the words of pip."""
    from importlib.metadata import requires

    found: list[str] = []
    for requirement in requires("streaming-rpq") or ():
        needed, _, marker = requirement.partition(";")
        if not re.search(rf"""\bextra == ["']{re.escape(extra)}["']""", marker):
            continue
        of_ours = re.fullmatch(r"streaming-rpq\[(.*)\]", needed.strip())
        if of_ours is not None:
            found += [one for name in of_ours[1].split(",") for one in _needed_by(name.strip())]
            continue
        rest = re.sub(r"""(\s*and\s*)?\bextra == ["'][^"']*["']""", "", marker).strip()
        found.append(f"{needed.strip()}; {rest}" if rest else needed.strip())
    return [*dict.fromkeys(found)]
