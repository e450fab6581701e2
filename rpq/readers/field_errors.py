"""What is wrong with a line of text, and how a message shows a value."""

from __future__ import annotations


class FieldError(Exception):
    """What is wrong with a line: `message`, and the `column` (None where it is the line as a whole)."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def shown(value: str | bytes) -> str:
    """A value as a message shows it: quoted, and cut where it is long."""
    if len(value) <= 60:
        return repr(value)
    return repr(value[:57]) + "..."
