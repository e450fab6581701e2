"""Tuples in text that is held in memory, such as the body of a request: read as files are."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rpq.readers.column_names import ColumnNames
from rpq.readers.source import BYTE_ORDER_MARK, Block
from rpq.readers.text.detection import Detection
from rpq.readers.text.textfile import TextFile


class HeldText:
    """Bytes in place of a file; `name` is what messages call it."""

    def __init__(self, data: bytes, *, name: str) -> None:
        self.name = name
        self.position = len(data)
        self.size: int | None = len(data)
        self._data = data.removeprefix(BYTE_ORDER_MARK)

    def blocks(self, size: int) -> Iterator[Block]:
        """All of it, whatever the size."""
        if self._data:
            yield Block(self._data, 1)


def read_held(
    data: bytes, *, name: str, only_json: bool, time_unit: str | None = None, columns: ColumnNames | None = None
) -> tuple[list[pa.RecordBatch], list[str]]:
    """Read all tuples of a text, JSON lines or lines of fields with or without a header, and what there is to warn of.

    Times in text need a `time_unit`, as those of a pipe do.  Raises `InputError` at a bad line.

    >>> batches, _ = read_held(b"x,y,a,1\\n", name="the body", only_json=False)
    >>> [batch.to_pylist() for batch in batches]
    [[{'source': 'x', 'target': 'y', 'label': 'a', 'timestamp': 1}]]
    """
    detection = Detection(columns=columns or ColumnNames(fixed=True), only_json=only_json, time_unit=time_unit)
    text = TextFile(HeldText(data, name=name), detect=detection)
    return list(text), text.warnings
