"""The format `yago`: facts in the TSV layout of YAGO 2s.

Lines `<id> <subject> <predicate> <object> value`, separated by tabs; id and value are not read, and value may be
missing.  Timestamps are positions: the lines are numbered from 0.  Angle brackets around subjects, predicates and
objects are dropped: `<Karl_Marx>` is the vertex `Karl_Marx`, `<created>` the label `created`; other text, such as
`"1786-01-01"^^xsd:date` or `rdf:type`, stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.readers import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, InputsReader
from rpq.readers.text.line_layout import Layout
from rpq.readers.text.textfile import TextFile, always
from rpq.workloads.formats.positions import numbered

LAYOUT = Layout(separator="\t", fields=("", "source", "label", "target", ""), optional=1, brackets=True)
TEXT = TextFormat(detect=always(LAYOUT), by_position=True)


def open_yago(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open YAGO facts, in the order of their lines."""
    return TEXT.open(paths, combine=numbered, on_error=on_error, batch_rows=batch_rows)


YAGO = Format(name="yago", open=open_yago, text=TEXT)
