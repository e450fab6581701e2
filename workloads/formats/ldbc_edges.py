"""The format `ldbc`: update streams of the LDBC Social Network Benchmark, raw or as edges.

A file is **raw** if its first line has a `|` and no tab: the update streams of SNB Interactive v1, whose events
become edges (`rpq.workloads.formats.ldbc_events`).  Otherwise it is a **list of edges**, tabs between `source`, `target`,
`label`, `timestamp` and optionally `op` (`+` or `-`), with a header or in this order.

Timestamps are milliseconds.  All inputs together are sorted stably by time: ties keep the order of the files, then of
the lines, then of the edges of an event.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.readers.edges import detect
from rpq.readers.inputs import BATCH_ROWS, InputsReader, check_arguments
from rpq.readers.text.line_layout import FieldError
from rpq.readers.text.textfile import Detected, TextFile
from rpq.workloads.formats.ldbc_events import EventParser
from rpq.workloads.formats.sorting import sorted_files


def detect_ldbc(line: bytes) -> Detected:
    """Tell from its first line whether a file is raw or a list of edges; raise `FieldError` if it is neither."""
    if b"|" in line and b"\t" not in line:
        return Detected(parser=EventParser())
    try:
        return detect(line, separators=("\t",))
    except FieldError as error:
        if error.column:
            raise
        raise FieldError(
            "is neither an event (time|dependency time|event type|...) nor an edge or a header "
            "(source, target, label, timestamp and optionally op, separated by tabs)"
        ) from error


def open_ldbc(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open update streams, raw files and lists of edges mixed as they come, as one stream in time order."""
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    files = [
        TextFile(path, detect=detect_ldbc, on_error=on_error, batch_rows=batch_rows, time_unit="ms") for path in paths
    ]
    return InputsReader(files, combine=sorted_files, batch_rows=batch_rows)
