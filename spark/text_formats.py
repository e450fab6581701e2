"""The text formats as tasks read them, which share a file and so have to know where its first lines end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rpq.readers import TextFormat, formats
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import EDGES
from rpq.readers.fields import DEFAULT_UNIT
from rpq.readers.format_registry import format_by_name
from rpq.readers.source import Block, ByteSource
from rpq.readers.text.detection import line_layout, with_times
from rpq.readers.text.parsing import LineError, LineParser
from rpq.readers.text.textfile import DetectedFormat, detect_block
from rpq.spark.errors import PipelineError
from rpq.spark.splits import BLOCK_BYTES


def text_format_named(name: str) -> TextFormat:
    """How the lines of a format are laid out; raises `PipelineError` for an unknown one, and one that does not say it."""
    text = format_by_name(name).text if name in formats() else None
    if text is not None:
        return text
    readable = ", ".join(known for known in formats() if format_by_name(known).text is not None)
    if name in formats():
        raise PipelineError(
            f"the format {name!r} does not say how its lines are laid out, so that tasks cannot share a file of it: "
            f"expected one of {readable}"
        )
    raise PipelineError(f"unknown format {name!r}: expected one of {readable}")


@dataclass(frozen=True, kw_only=True)
class Lines:
    """How lines are to be read: their format by its name, what its columns are called, what times in them become.

    `names` and `time_unit` are for the format edges, the only one in which lines may have other names and times.

    >>> lines = Lines(format="edges", names=ColumnNames.parse("source=user,target=item", label="likes"))
    >>> lines.layout.detect(b"when,user,timestamp,item").parser.layout.fields
    ('', 'source', 'timestamp', 'target')
    """

    format: str
    names: ColumnNames | None = None
    time_unit: str | None = None

    @property
    def layout(self) -> TextFormat:
        """How the lines are laid out.  Raises `PipelineError` for a format that is unknown, or cannot have such names."""
        layout = text_format_named(self.format)
        if not self.names:
            return layout
        if self.format != EDGES.name:
            raise PipelineError(
                f"columns and label are for Parquet, data frames and the format {EDGES.name!r}, not for {self.format!r}, "
                "the columns of which are known"
            )
        names, constant = self.names, self.names.constant_label
        return replace(
            layout, detect=lambda line: _detected(line, names), label=None if constant is None else lambda path: constant
        )

    @property
    def unit(self) -> str | None:
        """What times in the lines become; None where lines have none."""
        return (self.time_unit or DEFAULT_UNIT) if self.format == EDGES.name else None


def _detected(line: bytes, names: ColumnNames) -> DetectedFormat:
    layout, header = line_layout(line, names)
    return DetectedFormat(parser=LineParser(layout), is_header=bool(header), quoted=layout if layout.has_quotes else None)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The beginning of a file: how the rest is read, and how many bytes precede it, header and bad lines included.

    `detected` is None where no line tells; `problem` then says why the first one does not.
    """

    detected: DetectedFormat | None
    size: int
    problem: LineError | None = None

    @property
    def times(self) -> str:
        """What timestamps are: "integers", or times, "naive" or "aware" of a zone."""
        parser = None if self.detected is None else self.detected.parser
        return parser.layout.times if isinstance(parser, LineParser) else "integers"


def head_of(path: str, lines: Lines) -> Head:
    """Read as much of a file as it takes to know how it is laid out, usually a line or two."""
    return head_in(ByteSource(path).blocks(BLOCK_BYTES), lines)


def head_in(blocks: Iterable[Block], lines: Lines) -> Head:
    """The head of a file that consists of these blocks; the first one tells whether timestamps are times."""
    format = lines.layout
    size = 0
    problems: list[LineError] = []
    for block in blocks:
        detected, rest = detect_block(block, format.detect, problems.append)
        size += len(block.data)
        if detected is not None:
            return Head(detected=_with_times(detected, rest, lines.unit), size=size - len(rest.data))
    return Head(detected=None, size=size, problem=problems[0] if problems else None)


def _with_times(detected: DetectedFormat, block: Block, unit: str | None) -> DetectedFormat:
    """The same, where timestamps are times as one that reads these."""
    if unit is None or not isinstance(detected.parser, LineParser):
        return detected
    layout = with_times(detected.parser.layout, block, unit=unit)
    if layout is None or layout.times == "integers":
        return detected
    return replace(detected, parser=LineParser(layout))
