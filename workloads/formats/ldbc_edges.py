"""The format `ldbc`: update streams of the LDBC Social Network Benchmark, raw or as edges.

A file is **raw** if its first line has a `|` and no tab: the update streams of SNB Interactive v1, whose events
become edges (`rpq.workloads.formats.ldbc_events`).  Otherwise it is a **list of edges**, tabs between `source`, `target`,
`label`, `timestamp` and optionally `op` (`+` or `-`), with a header or in this order.

Timestamps are milliseconds.  All inputs together are sorted stably by time: ties keep the order of the files, then of
the lines, then of the edges of an event.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.readers import Format, TextFormat
from rpq.readers.edges import detect
from rpq.readers.fields import FieldError
from rpq.readers.inputs import BATCH_ROWS, InputsReader
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


TEXT = TextFormat(detect=detect_ldbc, time_unit="ms")


def open_ldbc(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open update streams, raw files and lists of edges mixed as they come, as one stream in time order."""
    return TEXT.open(paths, combine=sorted_files, on_error=on_error, batch_rows=batch_rows)


LDBC = Format(name="ldbc", open=open_ldbc, text=TEXT)
