"""The exceptions of the engine: all derive from `RpqError`."""

from __future__ import annotations


class RpqError(Exception):
    """The base of every error that this package raises on purpose."""


class InputError(RpqError):
    """Input that is not what it should be: says what is wrong, where, and what would be right.

    `file`, `line` (counted from 1), `column` (its name) and `row` (counted from 0, in a pushed batch or in a
    typed file) are None where they do not apply.  `str()` of the error is the message alone, place included.
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
