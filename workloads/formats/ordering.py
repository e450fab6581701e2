"""The order of the lines of several files: sorted by time, or numbered where the lines have no time.

A stream is sorted in memory while it is small, and through sorted runs on disk when it is not.
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
"""Rows that are sorted in memory at once, some hundred megabytes; more go to disk as sorted runs."""


def sort_by_time(batches: Iterable[pa.RecordBatch], *, run_rows: int = RUN_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of their timestamps; equal ones keep their order.

    Reads everything before the first row comes out.  O(n log n), less where the input is nearly sorted; memory: a run
    (and a batch of each run, while they are merged).
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
        # A run is sorted, so its rows stand at their own timestamps: merging by heads is merging by time.
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
    """Combine files by reading them one after the other; the lines of all together are numbered from 0.

    A line that is rejected takes its number, a blank line or a comment has none.
    """
    position = 0
    for file in files:
        file.first_position = position
        yield from file
        position = file.next_position
