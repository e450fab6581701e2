"""A text file as an input: blocks are parsed, and bad lines raise an error or are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.language.predicate import Predicate, UntypedColumn
from rpq.readers.batch import LABEL_TYPE, left_after_condition, node_columns, selection_mask
from rpq.readers.inputs import BATCH_ROWS, REJECTION_MESSAGES
from rpq.readers.source import ByteSource, LineBlock
from rpq.readers.text.line_layout import LineLayout, is_ignored
from rpq.readers.text.parsing import BlockParser, LineError, LineParser, PaddedValues, Rows
from rpq.readers.text.quotes import whole_records
from rpq.stream.arrays.fields import FieldError
from rpq.stream.arrays.properties import LOOSE_METADATA

BEGINNING_BYTES = 1 << 16
"""The number of bytes at the beginning of a file that detection reads."""

BYTES_A_LINE = 24
"""A low estimate of the length of a line in bytes, so that a block has about as many rows as a batch."""


@dataclass(frozen=True, kw_only=True)
class DetectedFormat:
    """The result of detection: how to read a file, and whether its first data line is a header.

    `quoted` is the layout of lines with quoted fields, which can span several lines.  `predicate` selects tuples, and
    `warnings` are about columns that may have another meaning.
    """

    parser: BlockParser
    is_header: bool = False
    quoted: LineLayout | None = None
    predicate: Predicate | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """The columns of `Rows` with the properties of edges, by the names of the properties."""
    warnings: Sequence[str] = ()


Detect = Callable[[bytes], DetectedFormat]
"""A function that detects the format from the first data line; raises `FieldError` if it cannot."""


def fixed_layout(layout: LineLayout) -> Detect:
    """Return a detection function for a format whose files all have the same layout."""
    return lambda line: DetectedFormat(parser=LineParser(layout))


class TextSource(Protocol):
    """The blocks of a text."""

    name: str
    position: int
    size: int | None

    def blocks(self, size: int) -> Iterator[LineBlock]: ...


class TextFile:
    """The tuples of a text file, in the order of its lines; a source of blocks can replace the path.

    `label` is the label of all edges of a file whose lines have none.  If the lines have no timestamp, the timestamp of a
    tuple is the number of its line among the data lines (including rejected lines, without blank lines and comments),
    counted from `first_position`; after the iteration `next_position` is the number of the next line.

    With `on_error="stop"` a bad line raises `InputError` after the tuples before it; with `"skip"` it is counted in
    `rejected`.  A file that cannot be read any further (a truncated gzip) raises in either case.  Tuples that the
    condition excludes are counted in `filtered`, and also in `undecided` if the condition is null.
    """

    def __init__(
        self,
        path: str | TextSource,
        *,
        detect: Detect,
        on_error: str = "stop",
        batch_rows: int = BATCH_ROWS,
        time_unit: str | None = None,
        label: str | None = None,
    ) -> None:
        self._source: TextSource = ByteSource(path) if isinstance(path, str) else path
        self._detect = detect
        self._stop = on_error == "stop"
        self._block_bytes = max(64, batch_rows * BYTES_A_LINE)
        self._label = label
        self.name = self._source.name
        self.bytes_total = self._source.size
        self.time_unit = time_unit
        self.rejected = 0
        self.rejections: list[str] = []
        self._warnings: Sequence[str] = ()
        self._padded = PaddedValues()
        self.filtered = 0
        self.undecided = 0
        self.first_position = 0
        self.next_position = 0

    @property
    def warnings(self) -> list[str]:
        padded = self._padded.warning
        return [f"{self.name}: {warning}" for warning in (*self._warnings, *([padded] if padded else []))]

    @property
    def bytes_read(self) -> int:
        return self._source.position

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.next_position = self.first_position
        blocks = self._source.blocks(self._block_bytes)
        detected, block = None, None
        while detected is None:
            block = next(blocks, None)
            if block is None:
                return
            detected, block = self._detect_block(block)
        assert block is not None
        self._warnings = detected.warnings
        rest = chain([block], blocks) if block.data else blocks
        for block in rest if detected.quoted is None else whole_records(rest, detected.quoted):
            for rows in detected.parser.parse(block, stop=self._stop):
                if len(rows):
                    if detected.quoted is not None and not detected.quoted.trim:
                        self._padded.count(rows.columns)
                    batch = self._batch(rows, detected)
                    if batch.num_rows:
                        yield batch
                self.next_position += rows.data_lines
                for bad in rows.errors:
                    self._reject(bad)

    def _detect_block(self, block: LineBlock) -> tuple[DetectedFormat | None, LineBlock]:
        def reject(bad: LineError) -> None:
            self._reject(bad)
            self.next_position += 1

        return detect_block(block, self._detect, reject)

    def _batch(self, rows: Rows, detected: DetectedFormat) -> pa.RecordBatch:
        columns = dict(rows.columns)
        count = len(rows)
        if self._label is not None:
            indices = pa.array(np.zeros(count, np.int32))
            columns["label"] = pa.DictionaryArray.from_arrays(indices, pa.array([self._label], LABEL_TYPE.value_type))
        if "timestamp" not in columns:
            ordinals = np.arange(count, dtype=np.int64) if rows.ordinals is None else rows.ordinals
            columns["timestamp"] = pa.array(ordinals + self.next_position)
        names: list[str] = [name for name in ("source", "target", "label", "timestamp", "delete") if name in columns]
        if "stream" in columns and columns["stream"].null_count < count:
            names.append("stream")
        if "event" in columns:
            names.append("event")
        fields = [pa.field(name, columns[name].type) for name in names]
        arrays = [columns[name] for name in names]
        for name, column in detected.properties.items():
            arrays.append(UntypedColumn(columns[column]).texts())
            fields.append(pa.field(name, pa.string(), metadata=LOOSE_METADATA))
        for node_field, column in node_columns(columns, loose=True):
            arrays.append(column)
            fields.append(node_field)
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        if detected.predicate is None:
            return batch
        mask, undecided = selection_mask(detected.predicate, columns, batch)
        selected = int(np.count_nonzero(mask))
        self.filtered += count - selected
        self.undecided += undecided
        return batch if selected == count else left_after_condition(batch, mask)

    def _reject(self, bad: LineError) -> None:
        if self._stop:
            raise line_error(self.name, bad)
        self.rejected += 1
        if len(self.rejections) < REJECTION_MESSAGES:
            self.rejections.append(str(line_error(self.name, bad)))


def detect_block(
    block: LineBlock, detect: Detect, reject: Callable[[LineError], None]
) -> tuple[DetectedFormat | None, LineBlock]:
    """Detect at the first data line how to read a file. Return the format and the rest of the block."""
    start, line = 0, block.line
    while start < len(block.data):
        end = block.data.find(b"\n", start) + 1 or len(block.data)
        text = block.data[start:end].removesuffix(b"\n").removesuffix(b"\r")
        if not is_ignored(text):
            try:
                detected = detect(text)
            except FieldError as error:
                reject(LineError(line=line, error=error))
            else:
                if detected.is_header:
                    return detected, LineBlock(block.data[end:], line + 1)
                return detected, LineBlock(block.data[start:], line)
        start, line = end, line + 1
    return None, block


def detect_file(
    path: str | TextSource, detect: Detect, reject: Callable[[LineError], None]
) -> tuple[DetectedFormat, LineBlock] | None:
    """Detect how to read a file. Return the format and some thousand lines, or None if detection fails."""
    try:
        source = ByteSource(path) if isinstance(path, str) else path
        for block in source.blocks(BEGINNING_BYTES):
            detected, rest = detect_block(block, detect, reject)
            return None if detected is None else (detected, rest)
    except InputError:
        pass
    return None


def line_error(name: str, bad: LineError) -> InputError:
    """Return the error for a bad line, in the wording of every text format: `FILE:LINE: column 'X': MESSAGE`."""
    column = bad.error.column
    place = f"{name}:{bad.line}: " + (f"column '{column}': " if column else "")
    return InputError(place + bad.error.message, file=name, line=bad.line, column=column)
