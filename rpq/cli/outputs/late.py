"""The file that late tuples go to, in the format `edges`, so that it can be read again."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.cli.outputs.sinks import TextSink, destination
from rpq.files.compression import FRAMES

COLUMNS = ("source", "target", "label", "timestamp", "op")


class LateFile:
    """Late tuples as CSV with a header, compressed if the name says so; `grows` and `position` as in `open_sink`.

    It goes on at a position, commits, closes and is discarded as a sink.
    """

    def __init__(self, path: str, *, grows: bool = False, position: int | None = None) -> None:
        ending = os.path.splitext(path)[1].lower()
        file = destination(path, grows=grows, position=position)
        self.sink = TextSink(file, COLUMNS, packed=ending if ending in FRAMES else "", position=position)

    def write(self, tuples: pa.RecordBatch, late: np.ndarray) -> None:
        """Write the tuples of a pushed batch with these row numbers."""
        if not len(late):
            return
        rows = tuples.take(pa.array(late, pa.int64()))
        deletes = rows.column("delete") if "delete" in rows.schema.names else pa.array([False] * len(late))
        columns = [rows.column(name) for name in COLUMNS[:-1]]
        self.sink.write(pa.Table.from_arrays([*columns, pc.if_else(deletes, "-", "+")], names=list(COLUMNS)))
