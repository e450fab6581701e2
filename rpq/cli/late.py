"""The file that late tuples go to, in the format `edges`, so that it can be read again."""

from __future__ import annotations

from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.sinks import SinkError, csv_lines, reopen, synchronise

COLUMNS = ("source", "target", "label", "timestamp", "op")


class LateFile:
    """Late tuples as CSV with a header; `position` goes on behind that many bytes of an existing file."""

    def __init__(self, path: str, *, position: int | None = None) -> None:
        try:
            self._file: IO[bytes] = open(path, "wb") if position is None else reopen(path, position)
        except OSError as error:
            raise SinkError(f"{path}: cannot be written: {error.strerror or error}") from error
        if position is None:
            self._file.write((",".join(COLUMNS) + "\n").encode())
            self._file.flush()

    def write(self, tuples: pa.RecordBatch, late: np.ndarray) -> None:
        """Write the tuples of a pushed batch with these row numbers."""
        if not len(late):
            return
        rows = tuples.take(pa.array(late, pa.int64()))
        deletes = rows.column("delete") if "delete" in rows.schema.names else pa.array([False] * len(late))
        columns = [rows.column(name) for name in COLUMNS[:-1]]
        for lines in csv_lines(pa.Table.from_arrays([*columns, pc.if_else(deletes, "-", "+")], names=list(COLUMNS))):
            self._file.write(lines)
        self._file.flush()

    def commit(self) -> int:
        synchronise(self._file)
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
