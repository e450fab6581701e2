"""The format `stackoverflow`: the temporal networks of Stack Exchange sites as SNAP publishes them.

Lines `SRC DST UNIXTIME`, separated by blanks; one file a kind of interaction, which the name tells: the label of
`sx-mathoverflow-a2q.txt.gz` is `a2q`.  Timestamps are seconds.  The files are not perfectly sorted: all lines
together are sorted stably by time (ties: the order of the files, then of the lines).

Source: https://snap.stanford.edu/data/sx-stackoverflow.html (Paranjape, Benson, Leskovec, WSDM 2017).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rpq.errors import InputError
from rpq.readers import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, InputsReader
from rpq.readers.source import STANDARD_INPUT
from rpq.readers.text.line_layout import Layout
from rpq.readers.text.textfile import TextFile, always
from rpq.workloads.formats.sorting import sorted_files

LAYOUT = Layout(separator=" ", fields=("source", "target", "timestamp"))


def label_of(path: str) -> str:
    """Return the label that a file's name tells: what follows the last `-`, without the extensions.

    >>> label_of("data/sx-mathoverflow-c2q.txt.gz")
    'c2q'
    """
    stem = os.path.basename(path).split(".", 1)[0]
    label = stem.rpartition("-")[2]
    if path == STANDARD_INPUT or not label:
        name = "<stdin>" if path == STANDARD_INPUT else path
        raise InputError(
            f"{name}: the name does not tell the label; expected a file such as sx-mathoverflow-a2q.txt.gz",
            file=name,
            column="label",
        )
    return label


TEXT = TextFormat(detect=always(LAYOUT), label=label_of, time_unit="s")


def open_stackoverflow(
    paths: Sequence[str], *, on_error: str = "stop", batch_rows: int = BATCH_ROWS
) -> InputsReader[TextFile]:
    """Open Stack Exchange files, each with the label that its name tells, as one stream in time order."""
    return TEXT.open(paths, combine=sorted_files, on_error=on_error, batch_rows=batch_rows)


STACKOVERFLOW = Format(name="stackoverflow", open=open_stackoverflow, text=TEXT)
