"""What Arrow takes for a file that can be written and no more."""

from __future__ import annotations


class ArrowFile:
    """The rest of a file, for a class that has a `write`: nothing to flush or to close, no reading, no going back."""

    closed = False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
