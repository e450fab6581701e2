"""Inputs that Spark reads, from any location, as staged rows (`rpq.spark.batch.splits`).

Text arrives as lines, which Spark separates and decompresses; Parquet files and data frames arrive as rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rpq.readers.source import BYTE_ORDER_MARK, LineBlock, count_lines
from rpq.readers.text.textfile import line_error
from rpq.spark.batch.splits import (
    BAD,
    COUNTS,
    EDGE,
    LONGEST_TEXT,
    Head,
    LineOptions,
    Part,
    check_rows,
    find_head,
    parse_blocks,
    split_number,
    stage_parts,
    staged_schema,
)
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.hadoop_files import path_of
from rpq.spark.line_blocks import check_is_text, line_rows, pieces_of
from rpq.spark.record_edges import RecordReader, record_rows, records_in
from rpq.spark.shipping import ShippedObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.spark.columns import EdgeColumns

_FIRST_BYTES = 1 << 16
_MAX_HEAD_BYTES = 1 << 24
"""The number of inflated bytes of a file that are searched for a line that determines its layout."""


def stage_lines(session: SparkSession, files: Mapping[str, int], lines: LineOptions) -> tuple[DataFrame, dict[str, str]]:
    """Return the lines of text files (URI → number) as staged rows, and the kind of times in each file (`Head.times`)."""
    beginnings = {uri: read_beginning(session, uri, lines) for uri in files}
    times = {uri: find_head([LineBlock(beginning, 1)], lines).times for uri, beginning in beginnings.items()}
    placed = line_rows(session.read, list(files))
    by_place = {path_of(uri): (files[uri], beginning) for uri, beginning in beginnings.items()}
    return placed.mapInArrow(LineReader(lines, by_place), staged_schema("string")), times


class LineReader(ShippedObject):
    """A function for `mapInArrow` that turns lines, each with its file and its piece, into staged rows.

    `beginnings` maps the path of each file to its number and to the beginning of its text that determines its layout.
    """

    def __init__(self, lines: LineOptions, beginnings: Mapping[str, tuple[int, bytes]]) -> None:
        self._lines = lines
        self._beginnings = dict(beginnings)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        format = self._lines.layout
        for piece, texts in pieces_of(batches):
            number, beginning = self._beginnings[path_of(piece.file)]
            head = find_head([LineBlock(beginning, 1)], self._lines)
            label = format.label(piece.file) if format.label else None
            before = None if head.detected is None else 0 if piece.start else count_lines(beginning[: head.size])
            beginnings = _blocks_with_head(texts, before)
            yield from stage_parts(
                parse_blocks(beginnings, head, format, label=label, divided_file=None if piece.is_last else piece.file),
                split=split_number(number, piece.start),
                vertex="string",
            )


def _blocks_with_head(texts: Iterable[bytes], head_lines: int | None) -> Iterator[tuple[LineBlock, int]]:
    """Yield blocks of lines, each with the number of its bytes in the head of the file, or all bytes if there is no head."""
    line, left = 1, head_lines or 0
    for data in texts:
        cut = len(data) if head_lines is None else 0
        while left and cut < len(data):
            cut = data.index(b"\n", cut) + 1
            left -= 1
        yield LineBlock(data, line), cut
        line += count_lines(data)


def read_beginning(session: SparkSession, uri: str, options: LineOptions) -> bytes:
    """Return the inflated beginning of a file, up to the lines that determine its layout and whether it has times."""
    count = _FIRST_BYTES
    while True:
        data = hadoop_files.first_bytes(session, uri, count).removeprefix(BYTE_ORDER_MARK)
        check_is_text(uri, data)
        is_whole = len(data) < count - len(BYTE_ORDER_MARK)
        lines = data if is_whole else data[: data.rfind(b"\n") + 1]
        head = find_head([LineBlock(lines, 1)], options) if lines else Head(detected=None, size=0)
        if head.detected is not None:
            return _through_first_time(lines, head, options)
        if is_whole or count >= _MAX_HEAD_BYTES:
            if (options.names or options.rules) and head.problem is not None:
                raise line_error(uri, head.problem)
            return b""
        count *= 16


def _through_first_time(lines: bytes, head: Head, options: LineOptions) -> bytes:
    """Return the lines of a head and the first line after it; if timestamps are times, all lines through the first time."""
    end = lines.find(b"\n", head.size) + 1 or len(lines)
    while (
        head.times != "integers" and end < len(lines) and find_head([LineBlock(lines[:end], 1)], options).times == "integers"
    ):
        end = lines.find(b"\n", end) + 1 or len(lines)
    return lines[:end]


_PLACES = ("file", "row")


def _record_parts(edges: RecordReader, rows: pa.RecordBatch, first: int) -> Iterator[Part]:
    """Yield the edges and the bad records of a batch, whose first row is number `first` of its file."""
    records = records_in(rows)
    columns, places, errors = edges.tuples(records)
    if len(places):
        yield EDGE, columns
    if errors:
        bad = sorted(errors)
        texts = records.take(pa.array(bad)).to_pylist()
        yield (
            BAD,
            {
                "line": pa.array([first + place for place in bad], pa.int64()),
                "field": pa.array([errors[place].column for place in bad], pa.string()),
                "message": pa.array([errors[place].message for place in bad], pa.string()),
                "text": pa.array([json.dumps(one, default=str)[:LONGEST_TEXT] for one in texts], pa.string()),
            },
        )


def stage_frame(columns: EdgeColumns, *, files: Mapping[str, int] | None = None) -> DataFrame:
    """Return tuples as staged rows, ordered by file (path → number) and row, or without files in the order of arrival."""
    rows = columns.tuples if files is not None else columns.tuples.drop(*_PLACES)
    return rows.mapInArrow(RowReader(columns.vertex, files), staged_schema(columns.vertex))


def stage_records(frame: DataFrame, edges: RecordReader, *, files: Mapping[str, int] | None = None) -> DataFrame:
    """Return the edges of the rows of a data frame as staged rows, in the order of `stage_frame`."""
    rows = record_rows(frame, edges, sequence=None, with_place=files is not None)
    return rows.mapInArrow(RowReader("string", files, edges), staged_schema("string"))


class RowReader(ShippedObject):
    """A function for `mapInArrow` that turns tuples into staged rows, or with `edges` records."""

    def __init__(self, vertex: str, files: Mapping[str, int] | None, edges: RecordReader | None = None) -> None:
        self._vertex = vertex
        self._files = None if files is None else dict(files)
        self._edges = edges

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        row_counts: Counter[int] = Counter()
        for split, runs in groupby(self._runs(batches, row_counts), lambda run: run[0]):
            for _, first, rows in runs:
                if self._edges is None:
                    parts, number = check_rows(rows, first), first
                else:
                    parts, number = _record_parts(self._edges, rows, first), first * self._edges.most_edges
                yield from stage_parts(parts, split=split, vertex=self._vertex, first=number)
        for split, count in row_counts.items():
            counts = {"lines": pa.array([0]), "data_lines": pa.array([count])}
            yield from stage_parts([(COUNTS, counts)], split=split, vertex=self._vertex)

    def _runs(self, batches: Iterable[pa.RecordBatch], counts: Counter[int]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Yield runs of consecutive rows of one split, each with the number of the split and of its first row."""
        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            if not batch.num_rows:
                continue
            if self._files is None:
                split = split_number(task.partitionId() if task else 0, 0)
                yield split, counts[split], batch
                counts[split] += batch.num_rows
                continue
            begin = 0
            for end in pc.run_end_encode(batch["file"]).run_ends.to_pylist():
                split = split_number(self._files[path_of(batch["file"][begin].as_py(), is_encoded=True)], 0)
                rows = batch.slice(begin, end - begin)
                yield split, rows["row"][0].as_py(), rows.drop_columns(list(_PLACES))
                counts[split] += end - begin
                begin = end
