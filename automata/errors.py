"""The exception of this package: an invalid expression, with a pointer to the column of the error."""

from __future__ import annotations

import unicodedata

_CONTEXT = 60  # characters shown on either side of the pointer


class ExpressionError(ValueError):
    """An expression is invalid or too large; `str` shows the expression with a pointer to the column of the error.

    `column` counts characters from 1 (one past the end if the text ends too early), and `expected` describes the text that
    is valid there. If the expression has several lines, `str` shows only the line of the error, and counts columns from
    the beginning of this line.

    >>> print(ExpressionError("unexpected '|'", 4, "a name", "a/b||c"))
    column 4: unexpected '|'; expected a name
      a/b||c
         ^
    """

    def __init__(self, message: str, column: int, expected: str, expression: str) -> None:
        super().__init__(message, column, expected, expression)  # all arguments, so that the error can be pickled
        self.message = message
        self.column = column
        self.expected = expected
        self.expression = expression

    def __str__(self) -> str:
        lines = self.expression[: self.column - 1].split("\n")
        text = lines[-1] + self.expression[self.column - 1 :].split("\n")[0]
        place = len(lines[-1]) + 1
        line = f"line {len(lines)}, " if "\n" in self.expression else ""
        summary = f"{line}column {place}: {self.message}; expected {self.expected}"
        return f"{summary}\n{pointer_lines(text, place)}"


class ConditionError(ValueError):
    """The text of a condition on a label is invalid; `column` counts its characters from 1.

    >>> ConditionError("the condition is empty", 1).column
    1
    """

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message, column)
        self.message = message
        self.column = column


def pointer_lines(line: str, column: int) -> str:
    """Return two lines: the text around a column of a line, counted from 1, and a pointer to the column.

    >>> print(pointer_lines("a/b||c", 5))
      a/b||c
          ^
    """
    start = max(0, column - 1 - _CONTEXT)
    end = column - 1 + _CONTEXT
    before = ("…" if start else "") + _one_line(line[start : column - 1])
    after = _one_line(line[column - 1 : end]) + ("…" if end < len(line) else "")
    return f"  {before}{after}\n  {' ' * terminal_cells(before)}^"


def terminal_cells(text: str) -> int:
    """Return the width of the text in terminal cells: two for a wide character, none for a combining mark.

    >>> terminal_cells("名前"), terminal_cells("e\\N{COMBINING ACUTE ACCENT}")
    (4, 1)
    """
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
