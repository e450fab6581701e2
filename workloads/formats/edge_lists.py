"""The formats `stackoverflow`, `yago` and `gmark`: data sets whose lines are one edge each.

* `stackoverflow`: the temporal networks of Stack Exchange sites as SNAP publishes them.  Lines `SRC DST UNIXTIME`, separated
  by blanks; there is one file for each kind of interaction, and its name contains the label: the label of
  `sx-mathoverflow-a2q.txt.gz` is `a2q`.  Timestamps are seconds.  The files are not perfectly sorted, so all lines together
  are sorted stably by time (ties: the order of the files, then of the lines).
  Source: https://snap.stanford.edu/data/sx-stackoverflow.html (Paranjape, Benson, Leskovec, WSDM 2017).
* `yago`: facts in the layout of YAGO 2s.  Lines `<id> <subject> <predicate> <object> value`, separated by tabs; id and
  value are not read, and value may be missing.  Timestamps are positions: the lines are numbered from 0.  Angle brackets
  around subjects, predicates and objects are dropped: `<Karl_Marx>` is the vertex `Karl_Marx`, `<created>` the label
  `created`; other text, such as `"1786-01-01"^^xsd:date` or `rdf:type`, is not changed.
* `gmark`: graphs as the gMark generator writes them.  Lines `source label target`, three integers separated by blanks, which
  are read as text: vertex `93400`, label `15`.  Timestamps are positions: the lines are numbered from 0.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rpq.errors import InputError
from rpq.readers import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, InputsReader
from rpq.readers.source import STANDARD_INPUT
from rpq.readers.text.line_layout import LineLayout
from rpq.readers.text.textfile import TextFile, fixed_layout
from rpq.workloads.formats.ordering import number_lines, sort_files

STACKOVERFLOW_LAYOUT = LineLayout(separator=" ", fields=("source", "target", "timestamp"))


def label_of(path: str) -> str:
    """Return the label in a file's name: the part after the last `-`, without the extensions.

    >>> label_of("data/sx-mathoverflow-c2q.txt.gz")
    'c2q'
    """
    stem = os.path.basename(path).split(".", 1)[0]
    label = stem.rpartition("-")[2]
    if path == STANDARD_INPUT or not label:
        name = "<stdin>" if path == STANDARD_INPUT else path
        raise InputError(
            f"{name}: the name does not contain the label; expected a file such as sx-mathoverflow-a2q.txt.gz",
            file=name,
            column="label",
        )
    return label


STACKOVERFLOW_TEXT = TextFormat(detect=fixed_layout(STACKOVERFLOW_LAYOUT), label=label_of, time_unit="s")


def open_stackoverflow(
    paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS
) -> InputsReader[TextFile]:
    """Open Stack Exchange files, each with the label in its name, as one stream in time order."""
    return STACKOVERFLOW_TEXT.open(paths, combine=sort_files, on_error=on_error, batch_rows=batch_rows)


STACKOVERFLOW = Format(name="stackoverflow", open=open_stackoverflow, text=STACKOVERFLOW_TEXT)


YAGO_LAYOUT = LineLayout(separator="\t", fields=("", "source", "label", "target", ""), optional=1, brackets=True)
YAGO_TEXT = TextFormat(detect=fixed_layout(YAGO_LAYOUT), by_position=True)


def open_yago(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open YAGO facts, in the order of their lines."""
    return YAGO_TEXT.open(paths, combine=number_lines, on_error=on_error, batch_rows=batch_rows)


YAGO = Format(name="yago", open=open_yago, text=YAGO_TEXT)


GMARK_LAYOUT = LineLayout(separator=" ", fields=("source", "label", "target"), integers=True)
GMARK_TEXT = TextFormat(detect=fixed_layout(GMARK_LAYOUT), by_position=True)


def open_gmark(paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS) -> InputsReader[TextFile]:
    """Open gMark graphs, in the order of their lines."""
    return GMARK_TEXT.open(paths, combine=number_lines, on_error=on_error, batch_rows=batch_rows)


GMARK = Format(name="gmark", open=open_gmark, text=GMARK_TEXT)
