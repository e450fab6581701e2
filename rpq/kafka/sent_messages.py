"""Messages on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Messages:
    """Messages side by side, in order: the key and the value of each (None: a tombstone), and its headers if any has some.

    Columns, since a million objects cost more than what is in them.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[list[tuple[str, Any]]] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, end: int) -> Messages:
        """Those from one place to another."""
        headers = None if self.headers is None else self.headers[start:end]
        return Messages(self.keys[start:end], self.values[start:end], headers)
