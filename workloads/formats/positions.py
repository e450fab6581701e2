"""Streams without times: a line's timestamp is its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rpq.readers.text.textfile import TextFile


def numbered(files: Sequence[TextFile]) -> Iterator[pa.RecordBatch]:
    """Combine files by reading them one after the other; the lines of all together are numbered from 0.

    A line that is rejected takes its number, a blank line or a comment has none.
    """
    position = 0
    for file in files:
        file.first_position = position
        yield from file
        position = file.next_position
