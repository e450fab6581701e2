"""Whether the timestamps of lines are integers or times: the first one that is either of them decides for its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rpq.readers.field_errors import FieldError
from rpq.readers.source import Block
from rpq.readers.text.line_layout import INTEGER, Layout, split_line
from rpq.readers.text.parsing import LineParser, Rows, data_records
from rpq.readers.times import time_kind


def with_times(layout: Layout, block: Block, *, unit: str) -> Layout | None:
    """The layout as the first timestamp of the block tells it; None if no line tells.

    >>> line = Layout(separator=",", fields=("source", "target", "timestamp"))
    >>> with_times(line, Block(b"a,b,2024-05-01T12:00Z", 1), unit="s").times
    'aware'
    """
    if "timestamp" not in layout.fields:
        return layout
    place = layout.fields.index("timestamp")
    for _, line in data_records(block, layout):
        try:
            texts = split_line(line, layout.separator, quotes=layout.quotes)
        except FieldError:
            continue
        text = texts[place].strip(" \t") if len(texts) in layout.widths else ""
        if INTEGER.fullmatch(text):
            return layout
        kind = time_kind(text)
        if kind is not None:
            return replace(layout, times=kind, time_unit=unit)
    return None


class FirstTimes:
    """Reads the lines of a pipe, whose layout is known but for the kind of its timestamps."""

    def __init__(self, layout: Layout, *, unit: str) -> None:
        self.layout = layout
        self._unit = unit
        self._parser: LineParser | None = None

    def parse(self, block: Block, *, stop: bool) -> Iterator[Rows]:
        if self._parser is None:
            layout = with_times(self.layout, block, unit=self._unit)
            self._parser = None if layout is None else LineParser(layout)
        return (self._parser or LineParser(self.layout)).parse(block, stop=stop)
