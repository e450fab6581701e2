"""Text wherever Spark reads it: its lines, which Spark cuts and inflates, as staged rows (`rpq.spark.batch.splits`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rpq.readers.source import BYTE_ORDER_MARK, Block, count_lines
from rpq.readers.text.textfile import line_error
from rpq.spark.batch.splits import (
    COUNTS,
    Head,
    LineOptions,
    check_rows,
    find_head,
    parse_blocks,
    split_number,
    stage_parts,
    staged_schema,
)
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.hadoop_files import path_of
from rpq.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.spark.columns import EdgeColumns

_FIRST_BYTES = 1 << 16
_MAX_HEAD_BYTES = 1 << 24
"""So much of a file, inflated, is looked at before it is held to have no line that tells its layout."""


def stage_lines(session: SparkSession, files: Mapping[str, int], lines: LineOptions) -> tuple[DataFrame, dict[str, str]]:
    """The lines of text files (URI → number of the file) as staged rows, and what timestamps are in each (`Head.times`)."""
    beginnings = {uri: read_beginning(session, uri, lines) for uri in files}
    times = {uri: find_head([Block(beginning, 1)], lines).times for uri, beginning in beginnings.items()}
    placed = session.read.option("lineSep", "\n").text(list(files))
    placed = placed.select("value", "_metadata.file_path", "_metadata.file_block_start")
    by_place = {path_of(uri): (files[uri], beginning) for uri, beginning in beginnings.items()}
    return placed.mapInArrow(LineReader(lines, by_place), staged_schema("string")), times


class LineReader(Shipped):
    """What a task runs: takes lines with the files and the blocks that they are of, gives staged rows.  For `mapInArrow`.

    `beginnings` has of each file, by its place, its number and as much of its beginning as tells its layout.
    """

    def __init__(self, lines: LineOptions, beginnings: Mapping[str, tuple[int, bytes]]) -> None:
        self._lines = lines
        self._beginnings = dict(beginnings)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        format = self._lines.layout
        for (name, start), runs in groupby(_runs(batches), lambda run: run[0]):
            number, beginning = self._beginnings[path_of(name, is_encoded=True)]
            head = find_head([Block(beginning, 1)], self._lines)
            label = format.label(name) if format.label else None
            before = None if head.detected is None else 0 if start else count_lines(beginning[: head.size])
            beginnings = _blocks_with_head((lines for _, lines in runs), before)
            yield from stage_parts(
                parse_blocks(beginnings, head, format, label=label), split=split_number(number, start), vertex="string"
            )


def _blocks_with_head(runs: Iterable[pa.Array], head_lines: int | None) -> Iterator[tuple[Block, int]]:
    """Blocks of lines, each with how many of its bytes belong to the head of the file: with None all do."""
    line, left = 1, head_lines or 0
    for lines in runs:
        data = _join_lines(lines)
        if line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        cut = len(data) if head_lines is None else 0
        while left and cut < len(data):
            cut = data.index(b"\n", cut) + 1
            left -= 1
        yield Block(data, line), cut
        line += len(lines)


def _join_lines(lines: pa.Array) -> bytes:
    """Lines as a block of text; each ends."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.cast(pa.binary()))
    return bytes(pc.binary_join(whole, b"\n")[0].as_buffer()) + b"\n"


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int], pa.Array]]:
    """Consecutive lines of one block of one file, with these."""
    for batch in batches:
        ends = pc.run_end_encode(batch["file_path"]).run_ends.to_pylist()
        ends = sorted({*ends, *pc.run_end_encode(batch["file_block_start"]).run_ends.to_pylist()})
        begin = 0
        for end in ends:
            key = batch["file_path"][begin].as_py(), batch["file_block_start"][begin].as_py()
            yield key, batch["value"].slice(begin, end - begin)
            begin = end


def read_beginning(session: SparkSession, uri: str, asked: LineOptions) -> bytes:
    """The beginning of a file through the lines that tell its layout and whether it has times, inflated."""
    count = _FIRST_BYTES
    while True:
        data = hadoop_files.first_bytes(session, uri, count).removeprefix(BYTE_ORDER_MARK)
        is_whole = len(data) < count - len(BYTE_ORDER_MARK)
        lines = data if is_whole else data[: data.rfind(b"\n") + 1]
        head = find_head([Block(lines, 1)], asked) if lines else Head(detected=None, size=0)
        if head.detected is not None:
            return _through_first_time(lines, head, asked)
        if is_whole or count >= _MAX_HEAD_BYTES:
            if asked.names and head.problem is not None:
                raise line_error(uri, head.problem)
            return b""
        count *= 16


def _through_first_time(lines: bytes, head: Head, asked: LineOptions) -> bytes:
    """The lines of a head and the first one behind it; where that tells no time, but a later one does, through that."""
    end = lines.find(b"\n", head.size) + 1 or len(lines)
    while head.times != "integers" and end < len(lines) and find_head([Block(lines[:end], 1)], asked).times == "integers":
        end = lines.find(b"\n", end) + 1 or len(lines)
    return lines[:end]


_PLACES = ("file", "row")


def stage_frame(columns: EdgeColumns, *, files: Mapping[str, int] | None = None) -> DataFrame:
    """Tuples as staged rows in the order of files (place → number) and of the rows in them; without files, as they come."""
    rows = columns.tuples if files is not None else columns.tuples.drop(*_PLACES)
    return rows.mapInArrow(RowReader(columns.vertex, files), staged_schema(columns.vertex))


class RowReader(Shipped):
    """What a task runs: takes tuples, gives staged rows.  For `mapInArrow`."""

    def __init__(self, vertex: str, files: Mapping[str, int] | None) -> None:
        self._vertex = vertex
        self._files = None if files is None else dict(files)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen: Counter[int] = Counter()
        for split, runs in groupby(self._runs(batches, seen), lambda run: run[0]):
            for _, first, rows in runs:
                yield from stage_parts(check_rows(rows, first), split=split, vertex=self._vertex, first=first)
        for split, count in seen.items():
            counts = {"lines": pa.array([0]), "data_lines": pa.array([count])}
            yield from stage_parts([(COUNTS, counts)], split=split, vertex=self._vertex)

    def _runs(self, batches: Iterable[pa.RecordBatch], seen: Counter[int]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Consecutive rows of one split, with its number and that of the first of them."""
        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            if not batch.num_rows:
                continue
            if self._files is None:
                split = split_number(task.partitionId() if task else 0, 0)
                yield split, seen[split], batch
                seen[split] += batch.num_rows
                continue
            begin = 0
            for end in pc.run_end_encode(batch["file"]).run_ends.to_pylist():
                split = split_number(self._files[path_of(batch["file"][begin].as_py(), is_encoded=True)], 0)
                rows = batch.slice(begin, end - begin)
                yield split, rows["row"][0].as_py(), rows.drop_columns(list(_PLACES))
                seen[split] += end - begin
                begin = end
