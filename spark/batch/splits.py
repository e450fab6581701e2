"""Splits of inputs as staged rows: what tasks make of the lines and rows that Spark reads, in the order of the input.

Plain text is divided at bytes by Spark (a line belongs to the split in which it begins); a compressed file is one split.  A
record with quotes may have several lines, and a file in which a record lies in two splits is refused: a task cannot know
whether its split begins in a record.

Reading converts every line to tuples or a bad line, and counts the lines of every split.  These three kinds of rows form one
staged data set, in separate folders.  The place of a line in its file and, in formats by position, in the stream is computed
afterwards, from the counts of the splits before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers import TextFormat, formats
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import EDGES
from rpq.readers.format_registry import format_by_name
from rpq.readers.source import LineBlock, count_lines
from rpq.readers.text.detection import Detection, line_layout, with_times
from rpq.readers.text.edge_rules import EdgeRules, RecordParser
from rpq.readers.text.line_layout import LineLayout
from rpq.readers.text.parsing import LineError, LineParser, Rows
from rpq.readers.text.quotes import unfinished_record, whole_records
from rpq.readers.text.textfile import DetectedFormat, detect_block
from rpq.spark.errors import PipelineError
from rpq.stream.arrays.fields import DEFAULT_UNIT, DELETE
from rpq.stream.arrays.plain_columns import with_plain_columns
from rpq.stream.arrays.values import booleans_of_text

_PLACE_BITS = 40


def split_number(file: int, place: int) -> int:
    """Return a number that sorts splits in the order of the input: by file number, and by start within the file.

    >>> split_number(0, 10**12) < split_number(1, 0) < split_number(1, 5)
    True
    """
    return file << _PLACE_BITS | place


def file_number(split: int) -> int:
    """Return the number of the file of a split.

    >>> file_number(split_number(7, 10**9))
    7
    """
    return split >> _PLACE_BITS


def find_text_format(name: str) -> TextFormat:
    """Return the layout of the lines of a format; raise `PipelineError` if the format is unknown or has no such layout."""
    text = format_by_name(name).text if name in formats() else None
    if text is not None:
        return text
    readable = ", ".join(one for one in formats() if format_by_name(one).text is not None)
    if name in formats():
        raise PipelineError(
            f"the format {name!r} does not define the layout of its lines, so tasks cannot share one of its files: "
            f"expected one of {readable}"
        )
    raise PipelineError(f"unknown format {name!r}: expected one of {readable}")


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """Options for reading lines: the name of the format, the names of columns, and the unit that times are converted to.

    `names` and `time_unit` apply to the format edges, the only format in which columns may have other names, and times.
    So do `rules`, which make edges of each line, a record: JSON, or fields below a header.

    >>> lines = LineOptions(format="edges", names=ColumnNames.parse("source=user,target=item", label="likes"))
    >>> lines.layout.detect(b"when,user,timestamp,item").parser.layout.fields
    ('', 'source', 'timestamp', 'target')
    """

    format: str
    names: ColumnNames | None = None
    time_unit: str | None = None
    rules: EdgeRules | None = None

    @property
    def layout(self) -> TextFormat:
        """The layout of the lines.  Raises `PipelineError` for an unknown format, or one whose columns cannot be renamed."""
        if self.rules is not None:
            if self.format != EDGES.name:
                raise PipelineError(
                    f"edges_from applies to Parquet, data frames and the format {EDGES.name!r}, JSON lines included, not to "
                    f"{self.format!r}"
                )
            return TextFormat(detect=Detection(columns=ColumnNames(), rules=self.rules, time_unit=self.unit))
        layout = find_text_format(self.format)
        if self.format == EDGES.name and not self.names:
            return replace(layout, detect=lambda line: _detect_layout(line, ColumnNames()))
        if not self.names:
            return layout
        if self.format != EDGES.name:
            raise PipelineError(
                f"columns and label apply to Parquet, data frames and the format {EDGES.name!r}, not to {self.format!r}, "
                "whose columns are fixed"
            )
        names, constant = self.names, self.names.constant_label
        return replace(
            layout,
            detect=lambda line: _detect_layout(line, names),
            label=None if constant is None else lambda path: constant,
        )

    @property
    def unit(self) -> str | None:
        """The unit that times in the lines are converted to; None if lines of the format have no times."""
        return (self.time_unit or DEFAULT_UNIT) if self.format == EDGES.name else None


def _detect_layout(line: bytes, names: ColumnNames) -> DetectedFormat:
    layout, header = line_layout(line, names)
    names.deletes_not_read(header)  # raises an error for deletes that would be read as inserts
    return DetectedFormat(parser=LineParser(layout), is_header=bool(header), quoted=layout if layout.has_quotes else None)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The beginning of a file: the layout of the rest, and the number of bytes before it, header and bad lines included.

    `detected` is None if no line determines a layout; `problem` is then the error in the first line.
    """

    detected: DetectedFormat | None
    size: int
    problem: LineError | None = None

    @property
    def times(self) -> str:
        """The kind of the timestamps: "integers", or times without ("naive") or with ("aware") a time zone."""
        parser = None if self.detected is None else self.detected.parser
        if isinstance(parser, RecordParser):
            return parser.reader.times or "integers"
        return parser.layout.times if isinstance(parser, LineParser) else "integers"


def find_head(blocks: Iterable[LineBlock], lines: LineOptions) -> Head:
    """Return the head of a file that consists of these blocks; the first block decides whether timestamps are times."""
    format = lines.layout
    size = 0
    problems: list[LineError] = []
    for block in blocks:
        detected, rest = detect_block(block, format.detect, problems.append)
        size += len(block.data)
        if detected is not None:
            return Head(detected=_with_times(detected, rest, lines.unit), size=size - len(rest.data))
    return Head(detected=None, size=size, problem=problems[0] if problems else None)


def _with_times(detected: DetectedFormat, block: LineBlock, unit: str | None) -> DetectedFormat:
    """Return the layout with a parser of times if the timestamps in a block are times, otherwise unchanged."""
    if isinstance(detected.parser, RecordParser):
        list(detected.parser.parse(block, stop=False))  # its reader remembers what the first timestamp is
    if unit is None or not isinstance(detected.parser, LineParser):
        return detected
    layout = with_times(detected.parser.layout, block, unit=unit)
    if layout is None or layout.times == "integers":
        return detected
    return replace(detected, parser=LineParser(layout))


EDGE, BAD, COUNTS = "edge", "bad", "counts"
LONGEST_TEXT = 10_000
"""The number of characters of a bad line that are stored."""

Part = tuple[str, dict[str, pa.Array]]
"""Rows of one kind (`EDGE`, `BAD` or `COUNTS`), as columns."""

_STRING, _LONG = pa.string(), pa.int64()


def staged_schema(vertex: str) -> str:
    """Return the schema of staged rows as Spark writes it; `vertex` is "string" or "bigint".

    `split` (`split_number`) and `row` sort edges and bad lines in the order of the input.  An edge has `ordinal`, the place
    of its line among the data lines of its split; a bad line has `line`, counted from 1 in its split (in Parquet: the row in
    the file, from 0); counts have `lines` and `data_lines`.
    """
    return (
        f"kind string, split bigint, row bigint, source {vertex}, target {vertex}, label string, timestamp bigint, "
        "op string, ordinal bigint, line bigint, field string, message string, text string, lines bigint, "
        "data_lines bigint"
    )


def _arrow_schema(vertex: str) -> pa.Schema:
    types = {"string": _STRING, "bigint": _LONG}
    return pa.schema([(name, types[kind]) for name, kind in (one.split() for one in staged_schema(vertex).split(", "))])


def stage_parts(parts: Iterable[Part], *, split: int, vertex: str, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the parts of a split as staged rows, numbered from `first` on."""
    schema = _arrow_schema(vertex)
    for kind, columns in _with_row_numbers(parts, first):
        size = len(next(iter(columns.values())))
        full = {
            **columns,
            "kind": pa.array([kind] * size, _STRING),
            "split": pa.array(np.full(size, split, np.int64)),
        }
        arrays = [
            full[field.name].cast(field.type) if field.name in full else pa.nulls(size, field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_row_numbers(parts: Iterable[Part], row: int) -> Iterator[Part]:
    """Yield parts with the numbers of their rows within the split, from `row` on."""
    for kind, columns in parts:
        size = len(next(iter(columns.values())))
        yield kind, {**columns, "row": pa.array(np.arange(row, row + size))}
        row += size


def _check_end(found: Iterator[LineBlock], layout: LineLayout, file: str) -> Iterator[LineBlock]:
    """Yield blocks of whole records.  Raises `InputError` if the last record ends after them, in the next split."""
    last = b""
    for block in found:
        yield block
        last = block.data
    if b'"' in last and unfinished_record(last, None, layout):
        raise InputError(
            f"{file}: a field in quotes has several lines, or a quote is not closed, and the file is divided there; "
            "compress the file with gzip, because such a file is not divided",
            file=file,
        )


def parse_blocks(
    beginnings: Iterable[tuple[LineBlock, int]],
    head: Head,
    format: TextFormat,
    *,
    label: str | None,
    divided_file: str | None = None,
) -> Iterator[Part]:
    """Yield the parts of a split, given blocks with the number of bytes in each that belong to the head of the file.

    `divided_file` is the file of a split that is not its last.  Raises `InputError` if a record extends behind the split.
    """
    lines = data_lines = 0
    of_head: list[Part] = []

    def blocks_after_head() -> Iterator[LineBlock]:
        nonlocal lines, data_lines
        for whole, cut in beginnings:
            lines = whole.line - 1 + count_lines(whole.data) + (not whole.data.endswith(b"\n"))
            skipped = LineBlock(whole.data[:cut], whole.line)
            errors: list[LineError] = []
            detect_block(skipped, format.detect, errors.append)  # bad lines before the one that determines the layout
            data_lines += len(errors)
            if errors:
                of_head.append((BAD, _bad_lines(errors, whole)))
            if cut < len(whole.data):
                yield LineBlock(whole.data[cut:], whole.line + count_lines(skipped.data))

    detected, found = head.detected, blocks_after_head()
    if detected is not None and detected.quoted is not None:
        found = whole_records(found, detected.quoted)  # a record of several lines may begin in one block and end in the next
        if divided_file is not None:
            found = _check_end(found, detected.quoted, divided_file)
    for block in found:
        yield from of_head
        of_head.clear()
        if detected is None:
            continue
        for rows in detected.parser.parse(block, stop=False):
            if len(rows):
                yield EDGE, _edges(rows, label, data_lines)
            if rows.errors:
                yield BAD, _bad_lines(rows.errors, block)
            data_lines += rows.data_lines
    yield from of_head
    yield COUNTS, {"lines": pa.array([lines]), "data_lines": pa.array([data_lines])}


def _edges(rows: Rows, label: str | None, first: int) -> dict[str, pa.Array]:
    size = len(rows)
    columns = {name: rows.columns[name] for name in ("source", "target")}
    columns["label"] = rows.columns["label"] if label is None else pa.array([label] * size, _STRING)
    if "timestamp" in rows.columns:
        columns["timestamp"] = rows.columns["timestamp"]
    else:
        ordinals = np.arange(size) if rows.ordinals is None else rows.ordinals
        columns["ordinal"] = pa.array(ordinals + first, _LONG)
    columns["op"] = _ops(rows.columns.get("delete"), size)
    return columns


def _ops(delete: pa.Array | None, size: int) -> pa.Array:
    if delete is None:
        return pa.array(["+"] * size, _STRING)
    return pc.if_else(delete, "-", "+")


def _bad_lines(errors: list[LineError], block: LineBlock) -> dict[str, pa.Array]:
    texts = block.data.split(b"\n")
    return {
        "line": pa.array([bad.line for bad in errors], _LONG),
        "field": pa.array([bad.error.column for bad in errors], _STRING),
        "message": pa.array([bad.error.message for bad in errors], _STRING),
        "text": pa.array([texts[bad.line - block.line].decode(errors="replace")[:LONGEST_TEXT] for bad in errors], _STRING),
    }


def check_rows(batch: pa.RecordBatch, row: int) -> Iterator[Part]:
    """Yield the edges and the bad rows of a batch with the columns of tuples, whose first row is number `row` of its file.

    A row is bad if it has a null, an empty name, a number of more than 63 bits, an unknown op, or text in delete that is
    neither true nor false.
    """
    batch = with_plain_columns(batch)
    columns = {name: _plain_column(batch.column(name), name) for name in batch.schema.names}
    reasons = np.full(batch.num_rows, "", object)
    for name, column in columns.items():
        wrong = column.is_null()
        if pa.types.is_string(column.type):
            unfit = pc.invert(pc.is_in(column, pa.array(["+", "-"]))) if name == "op" else pc.equal(column, "")
            wrong = pc.or_(wrong, pc.fill_null(unfit, True))
        reasons[wrong.to_numpy(zero_copy_only=False) & (reasons == "")] = name
    bad = reasons != ""
    if not bad.all():
        good = pa.array(~bad)
        edges = {name: column.filter(good) for name, column in columns.items()}
        yield EDGE, {"op": _ops(edges.pop(DELETE, None), int((~bad).sum())), **edges}
    if bad.any():
        places = np.flatnonzero(bad)
        rows = batch.take(pa.array(places)).to_pylist()
        yield (
            BAD,
            {
                "line": pa.array(places + row),
                "field": pa.array(reasons[places].tolist(), _STRING),
                "message": pa.array(["is null, empty, too large or no operation; expected a value"] * len(places), _STRING),
                "text": pa.array([json.dumps(one, default=str)[:LONGEST_TEXT] for one in rows], _STRING),
            },
        )


def _plain_column(column: pa.Array, name: str) -> pa.Array:
    """Return a column as text or int64; times become numbers in their unit, dates seconds, as in `rpq.readers.parquet`.

    Unsigned numbers that do not fit into int64 become null.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if name == "timestamp" and pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    if name == DELETE:
        return booleans_of_text(column) if column.type == _STRING else column
    if column.type == pa.uint64():
        column = pc.if_else(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), pa.scalar(None, pa.uint64()), column)
    return column.cast(_STRING if column.type == _STRING else _LONG)
