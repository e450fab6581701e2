"""Stream readers: from files, pipes and Parquet to batches of columns.

`open_reader` is the way in.  A format is a factory `(paths, *, on_error, batch_rows) -> Reader` that an installed
package offers under the entry point group `rpq.formats`; `edges` lives here, the formats of data sets elsewhere.

    bytes (source) → lines (layout, parsing) → columns (textfile, parquet) → one stream (merge, inputs) → a part of it
    (selecting)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE, Batch, Reader
from rpq.readers.edges import open_edges
from rpq.readers.inputs import BATCH_ROWS
from rpq.readers.selecting import Limited, Skipped, WithoutSelfLoops

__all__ = ["BATCH_ROWS", "LABEL_TYPE", "Batch", "Reader", "formats", "open_reader"]

GROUP = "rpq.formats"


def formats() -> list[str]:
    """The names of the formats that can be read, in alphabetical order."""
    return sorted({"edges", *entry_points(group=GROUP).names})


def open_reader(
    format: str,
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    on_error: str = "stop",
    limit: int | None = None,
    drop_self_loops: bool = False,
    skip: int = 0,
    batch_rows: int = BATCH_ROWS,
) -> Reader:
    """Open inputs of a format as one stream of tuples, to be read once.

    `paths` are files, or `-` for standard input.  `on_error="stop"` raises `InputError` at the first bad line, after
    everything before it was handed over; `"skip"` leaves bad lines out and counts them in `rejected` (which counts by
    blocks: with a `limit`, bad lines shortly behind it may be among them).  Then, in this order: `limit` keeps the
    first tuples as they are read, `drop_self_loops` leaves out edges from a vertex to itself, and `skip` passes over
    the first tuples of the rest, to go on where an earlier reading ended.

    Raises `InputError` for an unknown format, a missing file, or inputs that do not fit together.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    names = [os.fspath(path) for path in several]
    reader = _factory(format)(names, on_error=on_error, batch_rows=batch_rows)
    if limit is not None:
        reader = Limited(reader, limit)
    if drop_self_loops:
        reader = WithoutSelfLoops(reader)
    return Skipped(reader, skip) if skip else reader


def _factory(format: str) -> Callable[..., Reader]:
    if format == "edges":  # known without an installed package
        return open_edges
    found = entry_points(group=GROUP, name=format)
    if not found:
        known = formats()
        close = difflib.get_close_matches(format, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"unknown format {format!r}: expected one of {', '.join(known)}{hint}")
    factory: Callable[..., Reader] = next(iter(found)).load()
    return factory
