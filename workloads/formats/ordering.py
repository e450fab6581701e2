"""The order of the lines of several files: sorted by time, or numbered if the lines have no time.

A small stream is sorted in memory, a large stream through sorted runs on disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rpq.readers.inputs import BATCH_ROWS, Input, concatenate_inputs, merge_by_heads, order_rows
from rpq.readers.text.textfile import TextFile

RUN_ROWS = 1 << 22
"""The number of rows that are sorted in memory at once, some hundred megabytes; more are written to disk as sorted runs."""


def sort_by_time(batches: Iterable[pa.RecordBatch], *, run_rows: int = RUN_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of their timestamps; rows with equal timestamps keep their order.

    All rows are read before the first row is returned.  O(n log n), less if the input is nearly sorted; the memory is that
    of a run, and of a batch of each run during the merge.
    """
    run: list[pa.RecordBatch] = []
    rows = 0
    with tempfile.TemporaryDirectory(prefix="rpq-sort-") as folder:
        runs: list[Path] = []
        for batch in batches:
            run.append(batch)
            rows += batch.num_rows
            if rows >= run_rows:
                runs.append(Path(folder) / f"{len(runs)}.arrows")
                _write(runs[-1], _sort(run))
                run, rows = [], 0
        last = _slices(_sort(run)) if run else iter(())
        del run
        # A run is sorted by time, so merging by heads is merging by time.
        yield from merge_by_heads([*map(_read, runs), last]) if runs else last


def sort_files(files: Sequence[Input]) -> Iterator[pa.RecordBatch]:
    """Combine files by sorting all their rows by time; ties keep the order of the files, then of the lines."""
    return sort_by_time(concatenate_inputs(files))


def _sort(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    times = np.concatenate([batch.column("timestamp").to_numpy() for batch in batches])
    return order_rows(batches, times)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def _write(path: Path, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(path, batch.schema) as writer:
        for part in _slices(batch):
            writer.write_batch(part)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def number_lines(files: Sequence[TextFile]) -> Iterator[pa.RecordBatch]:
    """Combine files by reading them one after the other; the lines of all files together are numbered from 0.

    A rejected line has a number; blank lines and comments do not.
    """
    position = 0
    for file in files:
        file.first_position = position
        yield from file
        position = file.next_position
