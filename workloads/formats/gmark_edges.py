"""The format `gmark`: graphs as the gMark generator writes them.

Lines `source label target`, three integers separated by blanks.  They stay text: vertex `93400`, label `15`.
Timestamps are positions: the lines are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.readers import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, InputsReader
from rpq.readers.text.line_layout import Layout
from rpq.readers.text.textfile import TextFile, always
from rpq.workloads.formats.positions import numbered

LAYOUT = Layout(separator=" ", fields=("source", "label", "target"), integers=True)
TEXT = TextFormat(detect=always(LAYOUT), by_position=True)


def open_gmark(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open gMark graphs, in the order of their lines."""
    return TEXT.open(paths, combine=numbered, on_error=on_error, batch_rows=batch_rows)


GMARK = Format(name="gmark", open=open_gmark, text=TEXT)
