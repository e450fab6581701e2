"""Streams without times: a line's timestamp is its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rpq.readers.inputs import InputsReader, check_arguments
from rpq.readers.text.line_layout import Layout
from rpq.readers.text.textfile import TextFile, always


def open_by_position(paths: Sequence[str], layout: Layout, *, on_error: str, batch_rows: int) -> InputsReader[TextFile]:
    """Open files one after the other; the lines of all together are numbered from 0.

    A line that is rejected takes its number, a blank line or a comment has none.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    files = [TextFile(path, detect=always(layout), on_error=on_error, batch_rows=batch_rows) for path in paths]
    return InputsReader(files, combine=_numbered, batch_rows=batch_rows)


def _numbered(files: Sequence[TextFile]) -> Iterator[pa.RecordBatch]:
    position = 0
    for file in files:
        file.first_position = position
        yield from file
        position = file.next_position
