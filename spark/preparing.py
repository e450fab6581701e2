"""From raw files to a prepared data set: sorted Parquet with statistics, made by tasks.

    splits → staged rows (`_staged`) → edges sorted by time, in parts → statistics
                                     → bad lines (`_rejected`)

What passes through the driver is the list of splits and, of each, two counts.  The files are read by the tasks, so
every node must see them, and the data set's folder, under the same names.

A prepared data set is a folder of Parquet files, whose paths (and ages) in order are the stream in the order of its
timestamps (ties: order of the input), with the columns source, target, label, timestamp and op; `rpq run --input FOLDER`
reads it, and so does Spark.  Texts are dictionary-encoded.  With `vertices="ids"` source and target are numbers of 64
bits and `_vertices` says which name each stands for: a smaller data set and a faster engine, rows with numbers.
Beside the files are `_statistics.json` and, where lines were bad, `_rejected` (JSON lines: file, line, column, message,
text).  Names that begin with `_` are no part of the stream, for Spark and for `rpq`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.files.destinations import replacing
from rpq.spark.errors import PipelineError
from rpq.spark.split_reader import BAD, COUNTS, EDGE, SplitReader, describe, staged_schema
from rpq.spark.splits import SPLIT_BYTES, Split, splits_of
from rpq.spark.summing import statistics_of
from rpq.spark.text_formats import text_format_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATISTICS = "_statistics.json"
VERTICES = "_vertices"
REJECTED = "_rejected"
_STAGED = "_staged"
_COLUMNS = ("source", "target", "label", "timestamp", "op")


def prepare(
    spark: SparkSession,
    paths: Sequence[str],
    output: str,
    *,
    format: str = "edges",
    on_error: Literal["stop", "skip"] = "skip",
    vertices: Literal["text", "ids"] = "text",
    drop_self_loops: bool = False,
    partitions: int | None = None,
    rows_per_file: int = 0,
    split_bytes: int = SPLIT_BYTES,
) -> dict[str, Any]:
    """Write the tuples of `paths` as a prepared data set to the folder `output`; returns its statistics.

    Edges are sorted by time whatever the format, so a late line of an `edges` file is late no more.  With
    `on_error="stop"` the first bad line, in the order of the input, raises `InputError` and nothing is written.
    `partitions` is how many ranges of time are sorted at once, `rows_per_file` limits files (0: one a range).
    Raises `PipelineError` if the folder is there already.

    >>> from rpq.spark import open_session, prepare
    >>> files = ["sx-mathoverflow-a2q.txt.gz", "sx-mathoverflow-c2a.txt.gz"]
    >>> statistics = prepare(open_session(), files, "data", format="stackoverflow")  # doctest: +SKIP
    >>> statistics["time_unit"]  # doctest: +SKIP
    's'
    """
    if os.path.exists(output):
        raise PipelineError(f"{output}: exists already; remove it or choose another name")
    if not paths:
        raise PipelineError("no input: expected at least one file")
    if vertices not in ("text", "ids") or on_error not in ("stop", "skip"):
        raise PipelineError(f"vertices are 'text' or 'ids', on_error is 'stop' or 'skip', not {vertices!r}, {on_error!r}")
    layout = text_format_named(format)
    splits = splits_of([os.path.abspath(path) for path in paths], split_bytes=split_bytes)
    vertex, unit = _kind_of(splits, layout.time_unit)
    if layout.label is not None:
        for split in splits:
            layout.label(split.path)  # a name that tells none is an error now, not in a task
    try:
        os.makedirs(output)
        staged = _stage(spark, splits, format, vertex, os.path.join(output, _STAGED))
        offsets = _offsets(staged, splits)
        rejected = _keep_aside(staged, splits, offsets, os.path.join(output, REJECTED), on_error=on_error)
        edges = staged.where(f"kind = '{EDGE}'")
        if layout.by_position:
            edges = _numbered(edges, offsets)
        if drop_self_loops:
            edges = edges.where("source != target")
        if vertices == "ids":
            edges = _as_ids(edges, os.path.join(output, VERTICES))
        _write(edges, output, partitions=partitions, rows_per_file=rows_per_file)
        read = spark.read.schema(edges.select(*_COLUMNS).schema).parquet(output)
        statistics = {
            "format": format,
            "inputs": list(paths),
            "time_unit": unit,
            "vertices": vertices,
            "rejected": rejected,
            **statistics_of(read),
        }
        with replacing(os.path.join(output, STATISTICS)) as file:
            file.write((json.dumps(statistics, indent=2, ensure_ascii=False) + "\n").encode())
        shutil.rmtree(os.path.join(output, _STAGED))
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)  # it was not there before
        raise
    return statistics


def read_statistics(folder: str) -> dict[str, Any]:
    """The statistics of a prepared data set; empty if it has none."""
    path = os.path.join(folder, STATISTICS)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def _kind_of(splits: Sequence[Split], time_unit: str | None) -> tuple[str, str | None]:
    """The type of the vertices and the unit of the timestamps of all inputs."""
    from rpq.readers.parquet import ParquetInput

    kinds: dict[tuple[str, str | None], str] = {}
    for path in dict.fromkeys(split.path for split in splits if split.kind == "parquet"):
        one = ParquetInput(path)  # checks the columns
        kinds["string" if one.vertex_type == "text" else "bigint", one.time_unit] = path
    for split in splits:
        if split.kind != "parquet":
            kinds["string", time_unit] = split.path
    if len(kinds) > 1:
        raise InputError(
            "inputs that are read together must agree in the type of vertices and the unit of time: "
            + "; ".join(f"{path} has {vertex}, {unit or 'no unit'}" for (vertex, unit), path in kinds.items())
        )
    return next(iter(kinds), ("string", time_unit))


def _stage(spark: SparkSession, splits: Sequence[Split], format: str, vertex: str, folder: str) -> DataFrame:
    """Read every split in a task of its own, and keep what it gives: it is needed several times."""
    rows = [(number, describe(split)) for number, split in enumerate(splits)]
    # Parallelized as slices of one, so that there are as many tasks as splits.
    table = spark.sparkContext.parallelize(rows, max(1, len(rows))).toDF("split int, description string")
    parsed = table.mapInArrow(SplitReader(format, vertex), staged_schema(vertex))
    parsed.write.partitionBy("kind").parquet(folder)
    schema = staged_schema(vertex).removeprefix("kind string, ") + ", kind string"
    return spark.read.schema(schema).parquet(folder)


def _offsets(staged: DataFrame, splits: Sequence[Split]) -> DataFrame:
    """A row a split: the lines of its file and the data lines of all files before it."""
    counts = {row.split: row for row in staged.where(f"kind = '{COUNTS}'").select("split", "lines", "data_lines").collect()}
    rows, lines, data_lines, path = [], 0, 0, None
    for number, split in enumerate(splits):
        lines = lines if split.path == path else 0
        path = split.path
        rows.append((number, path, lines, data_lines))
        lines += counts[number].lines
        data_lines += counts[number].data_lines
    schema = "split int, file string, lines_before bigint, data_lines_before bigint"
    return staged.sparkSession.createDataFrame(rows, schema)


def _keep_aside(staged: DataFrame, splits: Sequence[Split], offsets: DataFrame, folder: str, *, on_error: str) -> int:
    """Write the bad lines with their places; how many they are."""
    from pyspark.sql import functions as sql

    bad = (
        staged.where(f"kind = '{BAD}'")
        .drop("lines")
        .join(sql.broadcast(offsets), "split")
        .select(
            "split",
            "row",
            "file",
            (sql.col("line") + sql.col("lines_before")).alias("line"),
            sql.col("field").alias("column"),
            "message",
            "text",
        )
        .orderBy("split", "line")
        .drop("split", "row")
    )
    count = int(bad.count())
    if count and on_error == "stop":
        first = bad.first()
        assert first is not None
        column = f"column '{first.column}': " if first.column else ""
        raise InputError(f"{first.file}:{first.line}: {column}{first.message}", file=first.file, line=first.line)
    if count:
        bad.write.json(folder)
    return count


def _numbered(edges: DataFrame, offsets: DataFrame) -> DataFrame:
    """Timestamps by position: the data lines before the split and those before the line in it."""
    from pyspark.sql import functions as sql

    place = sql.col("data_lines_before") + sql.col("ordinal")
    return edges.join(sql.broadcast(offsets), "split").withColumn("timestamp", place)


def _as_ids(edges: DataFrame, folder: str) -> DataFrame:
    """Numbers in place of names; the table of both is written first, as numbers are drawn only once."""
    from pyspark.sql import functions as sql

    session = edges.sparkSession
    names = edges.select(sql.col("source").alias("name")).union(edges.select("target")).distinct().orderBy("name")
    names.select(sql.monotonically_increasing_id().alias("id"), "name").write.parquet(folder)
    vertices = session.read.parquet(folder)
    for end in ("source", "target"):
        named = vertices.select(sql.col("id").alias(f"{end}_id"), sql.col("name").alias(end))
        edges = edges.join(named, end)
    return edges.drop("source", "target").withColumnsRenamed({"source_id": "source", "target_id": "target"})


def _write(edges: DataFrame, output: str, *, partitions: int | None, rows_per_file: int) -> None:
    """Sort by time, ties in the order of the input, and write; the n-th range of time goes to the n-th file."""
    order = ("timestamp", "split", "row")
    if partitions is None:
        ordered = edges.orderBy(*order)
    else:
        ordered = edges.repartitionByRange(partitions, *order).sortWithinPartitions(*order)
    writer = ordered.select(*_COLUMNS).write.mode("append").option("compression", "zstd")
    if rows_per_file:
        writer = writer.option("maxRecordsPerFile", rows_per_file)
    writer.parquet(output)
    # Who streams the folder reads its files by age: let that be the order of time.
    files = files_of(output)
    now = int(time.time())
    for age, file in enumerate(reversed(files)):
        os.utime(file, (now - age, now - age))


def files_of(folder: str) -> list[str]:
    """The Parquet files of a prepared data set, in the order of the stream."""
    return [split.path for split in splits_of([folder]) if split.start == 0]


def vertex_type(folder: str) -> str:
    """The type of the vertices of a data set, in Spark's words."""
    kind = pq.read_schema(splits_of([folder])[0].path).field("source").type
    return "bigint" if pa.types.is_integer(kind) else "string"
