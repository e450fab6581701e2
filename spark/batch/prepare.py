"""Preparing raw files as a data set: sorted Parquet with statistics, written by tasks.

    splits → staged rows (`_staged`) → edges sorted by time, in parts → statistics
                                     → bad lines (`_rejected`)

Only the names of files and two counts for each split (`rpq.spark.batch.splits`) pass through the driver.  Spark reads the
inputs, from any location that it supports (`rpq.spark.batch.spark_inputs`).

A prepared data set is a folder of Parquet files with the columns source, target, label, timestamp and op.  The files, in the
order of their paths (and ages), contain the stream in the order of its timestamps, ties in the order of the input.  Both
`rpq run --input FOLDER` and Spark read it.  Text is dictionary-encoded.  With `vertices="ids"`, source and target are 64-bit
integers and `_vertices` maps them to names: the data set is smaller, the engine faster, and rows contain numbers.  The
folder also has `_statistics.json` and, if lines were bad, `_rejected` (JSON lines: file, line, column, message, text).
Neither Spark nor `rpq` reads files whose names begin with `_` as part of the stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rpq.errors import InputError
from rpq.files import STATISTICS
from rpq.spark.batch.spark_inputs import stage_frame, stage_lines, stage_records
from rpq.spark.batch.splits import BAD, COUNTS, EDGE, LineOptions, file_number, find_text_format
from rpq.spark.columns import UNITS, edge_columns, has_usual_op, parse_column_names
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.data_sets import VERTICES, edges_in
from rpq.spark.jvm.session import describe_jobs
from rpq.spark.record_edges import record_edges, rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


REJECTED = "_rejected"
_STAGED = "_staged"
_COLUMNS = ("source", "target", "label", "timestamp", "op")


def prepare(
    spark: SparkSession,
    data: str | Sequence[str] | DataFrame,
    output: str,
    *,
    format: str = "edges",
    on_error: Literal["stop", "skip"] = "skip",
    vertices: Literal["text", "ids"] = "text",
    drop_self_loops: bool = False,
    partitions: int | None = None,
    rows_per_file: int = 0,
    columns: str | None = None,
    label: str | None = None,
    time_unit: str | None = None,
    edges_from: str | None = None,
) -> dict[str, Any]:
    """Write the tuples of `data` as a prepared data set to the folder `output`, and return its statistics.

    `data` is one or more URIs of files or folders that Spark can read, with or without wildcards, or a data frame with the
    columns of edges, as for `rpq_changes`.  Parquet, data frames and the format edges may have other names for the columns,
    specified by `columns` and `label` as for `rpq run`; `edges_from` is a file of rules in place of both, which make several
    edges of each row, or line of JSON or below a header.  Folders of Parquet files may have columns in their names
    (`label=a2q`).  Edges are sorted by time whatever the format, so no line of an `edges` file is late; ties keep the order
    of the input.  Timestamps that are times are converted to numbers in `time_unit` (s, ms, us; by default us).

    With `on_error="stop"` the first bad line, in the order of the input, raises `InputError` and nothing is written.
    `partitions` is the number of time ranges that are sorted at once, and `rows_per_file` limits the rows of a file (0: one
    file per range).  Raises `PipelineError` if the folder exists already, and for unsuitable data or options.  To use the
    data set in Spark, read it with `format("rpq")`, or pass its folder to `replay`.

    >>> from rpq.spark import open_session, prepare
    >>> files = ["sx-mathoverflow-a2q.txt.gz", "sx-mathoverflow-c2a.txt.gz"]
    >>> statistics = prepare(open_session(), files, "data", format="stackoverflow")  # doctest: +SKIP
    >>> statistics["time_unit"]  # doctest: +SKIP
    's'
    """
    if vertices not in ("text", "ids") or on_error not in ("stop", "skip"):
        raise PipelineError(f"vertices are 'text' or 'ids', on_error is 'stop' or 'skip', not {vertices!r}, {on_error!r}")
    rules = rules_of(edges_from, columns, label)
    lines = LineOptions(format=format, names=parse_column_names(columns, label), time_unit=time_unit, rules=rules)
    layout = find_text_format(format) if rules is None else lines.layout
    check_classic(spark, "prepare", "pass a data frame of edges to replay")
    if hadoop_files.exists(spark, output):
        raise PipelineError(f"{output}: exists already; remove it or choose another name")
    paths: list[str] = []
    if isinstance(data, Sequence):
        paths = [data] if isinstance(data, str) else [*data]
        source = _source_of_files(spark, paths, lines)
    else:
        source = _source_of_frame(data, lines)
    try:
        with describe_jobs(spark, "reading the input"):
            staged = _stage(spark, source, hadoop_files.join(output, _STAGED))
        with describe_jobs(spark, "collecting bad lines"):
            offsets = _offsets(staged, source.files)
            rejected = _write_rejected(staged, offsets, hadoop_files.join(output, REJECTED), on_error=on_error)
        edges = staged.where(f"kind = '{EDGE}'")
        if layout.by_position and source.has_lines:
            edges = _with_positions(edges, offsets)
        if drop_self_loops:
            edges = edges.where("source != target")
        if vertices == "ids":
            with describe_jobs(spark, "numbering the vertices"):
                edges = _with_ids(edges, hadoop_files.join(output, VERTICES))
        with describe_jobs(spark, "sorting the edges by time"):
            _write(edges, output, partitions=partitions, rows_per_file=rows_per_file)
        read = spark.read.schema(edges.select(*_COLUMNS).schema).parquet(output)
        with describe_jobs(spark, "counting tuples, vertices and edges"):
            counted = compute_statistics(read)
        statistics = {
            "format": format,
            "inputs": paths,
            "time_unit": source.unit,
            "vertices": vertices,
            "rejected": rejected,
            **counted,
        }
        text = json.dumps(statistics, indent=2, ensure_ascii=False) + "\n"
        hadoop_files.write_text(spark, hadoop_files.join(output, STATISTICS), text)
        hadoop_files.remove(spark, hadoop_files.join(output, _STAGED))
    except BaseException:
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
            hadoop_files.remove(spark, output)  # it did not exist before
        raise
    return statistics


class _Source(NamedTuple):
    """The input as staged rows, which are not evaluated yet."""

    staged_rows: DataFrame
    files: tuple[str, ...]
    unit: str | None
    has_lines: bool


def _source_of_frame(frame: DataFrame, lines: LineOptions) -> _Source:
    """Return the rows of a data frame as a source."""
    unit = lines.time_unit or "us"
    if lines.rules is not None:
        edges, _ = record_edges(frame, lines.rules, time_unit=unit)
        return _Source(stage_records(frame, edges), (), edges.unit if edges.is_time else lines.time_unit, False)
    columns = edge_columns(frame, sequence=None, time_unit=unit, names=lines.names)
    return _Source(stage_frame(columns), (), unit if columns.is_time else lines.time_unit, False)


def _source_of_files(spark: SparkSession, paths: Sequence[str], lines: LineOptions) -> _Source:
    """Return a source of files.  Raises `InputError` if the files cannot be read together."""
    if not paths:
        raise PipelineError("no input: expected at least one file")
    kinds: dict[tuple[str, str | None], str] = {}
    times: dict[str, str] = {}  # a path for each kind of times in text files (`Head.times`)
    files: list[str] = []
    parts: list[DataFrame] = []
    has_lines = False
    layout = lines.layout
    for path in paths:
        found = hadoop_files.list_files(spark, path)
        numbers = {uri: len(files) + number for number, uri in enumerate(found)}
        if all(uri.endswith(".parquet") for uri in found):
            unit = lines.time_unit if lines.time_unit in UNITS else "us"
            places = {hadoop_files.path_of(uri): number for uri, number in numbers.items()}
            frame = edges_in(spark, path, has_op=lines.rules is None and has_usual_op(lines.names))
            if lines.rules is not None:
                edges, _ = record_edges(frame, lines.rules, time_unit=unit)
                kinds["string", unit if edges.is_time else lines.time_unit] = path
                parts.append(stage_records(frame, edges, files=places))
            else:
                rows = edge_columns(frame, sequence=None, time_unit=unit, names=lines.names)
                kinds[rows.vertex, unit if rows.is_time else lines.time_unit] = path
                parts.append(stage_frame(rows, files=places))
        else:
            if layout.label is not None:
                for uri in found:
                    layout.label(uri)  # a file name without a label is an error now, not in a task
            part, found_in = stage_lines(spark, numbers, lines)
            kinds["string", _unit_of_text(lines, found_in, times)] = path
            parts.append(part)
            has_lines = True
        files += [hadoop_files.path_of(uri) if uri.startswith("file:") else uri for uri in found]
    if len(kinds) > 1:
        raise InputError(
            "inputs that are read together must agree in the type of vertices and the unit of time: "
            + "; ".join(f"{path} has {vertex}, {unit or 'no unit'}" for (vertex, unit), path in kinds.items())
        )
    staged = parts[0]
    for part in parts[1:]:
        staged = staged.unionByName(part)
    ((_, unit_of_all),) = kinds
    return _Source(staged, tuple(files), unit_of_all, has_lines)


def _unit_of_text(lines: LineOptions, kind_of_path: Mapping[str, str], times: dict[str, str]) -> str | None:
    """Return the unit of the timestamps of text files, given the kind of times (`Head.times`) of each.

    `times` collects a path for each kind over all inputs.  Raises `InputError` if some times have a zone and others none.
    """
    times.update({kind: path for path, kind in kind_of_path.items()})
    if "naive" in times and "aware" in times:
        raise InputError(
            f"{times['naive']}: its times have no zone, but those of {times['aware']} have one; inputs that are read "
            "together must agree",
            file=times["naive"],
            column="timestamp",
        )
    kinds = {kind != "integers" for kind in kind_of_path.values()}
    if len(kinds) > 1:
        some = {kind != "integers": path for path, kind in kind_of_path.items()}
        raise InputError(
            f"inputs that are read together must agree: {some[True]} has times, {some[False]} numbers",
            file=some[False],
            column="timestamp",
        )
    return lines.unit if kinds == {True} else lines.layout.time_unit


def _stage(spark: SparkSession, source: _Source, folder: str) -> DataFrame:
    """Read the source once and write its staged rows to a folder, from which they are read several times."""
    source.staged_rows.write.partitionBy("kind").parquet(folder)
    columns = [field for field in source.staged_rows.schema.fields if field.name != "kind"]
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns)
    return spark.read.schema(f"{schema}, kind string").parquet(folder)


def _offsets(staged: DataFrame, files: Sequence[str]) -> DataFrame:
    """Return, for each split, the number of lines before it in its file and of data lines before it in all files."""
    counted = staged.where(f"kind = '{COUNTS}'").groupBy("split").sum("lines", "data_lines").collect()
    rows, lines, data_lines, number = [], 0, 0, None
    for split, its_lines, its_data_lines in sorted(map(tuple, counted)):
        lines = lines if file_number(split) == number else 0
        number = file_number(split)
        rows.append((split, files[number] if files else None, lines, data_lines))
        lines += its_lines
        data_lines += its_data_lines
    schema = "split bigint, file string, lines_before bigint, data_lines_before bigint"
    return staged.sparkSession.createDataFrame(rows, schema)


def _write_rejected(staged: DataFrame, offsets: DataFrame, folder: str, *, on_error: str) -> int:
    """Write the bad lines with their places, and return their number.

    With `on_error` "stop" the first bad line raises `InputError` instead.
    """
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
        where = f"{first.file}:{first.line}" if first.file else f"row {first.line + 1} of a partition"
        raise InputError(f"{where}: {column}{first.message}", file=first.file, line=first.line)
    if count:
        bad.write.json(folder)
    return count


def _with_positions(edges: DataFrame, offsets: DataFrame) -> DataFrame:
    """Set timestamps by position: the number of data lines before the split plus those before the line in its split."""
    from pyspark.sql import functions as sql

    place = sql.col("data_lines_before") + sql.col("ordinal")
    return edges.join(sql.broadcast(offsets), "split").withColumn("timestamp", place)


def _with_ids(edges: DataFrame, folder: str) -> DataFrame:
    """Replace names by numbers.  The table that maps them is written first, so that numbers are assigned only once."""
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
    """Sort edges by time, ties in the order of the input, and write them, the n-th range of time to the n-th file."""
    order = ("timestamp", "split", "row")
    if partitions is None:
        ordered = edges.orderBy(*order)
    else:
        ordered = edges.repartitionByRange(partitions, *order).sortWithinPartitions(*order)
    writer = ordered.select(*_COLUMNS).write.mode("append").option("compression", "zstd")
    if rows_per_file:
        writer = writer.option("maxRecordsPerFile", rows_per_file)
    writer.parquet(output)
    # A stream over the folder reads files by age, which must therefore be the order of time.
    session = edges.sparkSession
    hadoop_files.set_ages(session, [uri for uri in hadoop_files.list_files(session, output) if uri.endswith(".parquet")])


def compute_statistics(edges: DataFrame) -> dict[str, Any]:
    """Return the statistics of edges (source, target, label, timestamp, op) as JSON values.

    `duplicates` counts inserts of an edge (source, label, target) that was inserted before; `repeated_tuples` counts those
    duplicates that have the same timestamp too.  `span` is the first and the last timestamp.
    """
    from pyspark.sql import functions as sql

    is_insert = sql.col("op") == "+"
    labels = [
        row.asDict()
        for row in edges.groupBy("label")
        .agg(
            sql.count("*").alias("tuples"),
            sql.sum((~is_insert).cast("long")).alias("deletes"),
            sql.sum((sql.col("source") == sql.col("target")).cast("long")).alias("self_loops"),
            sql.min("timestamp").alias("first"),
            sql.max("timestamp").alias("last"),
        )
        .orderBy("label")
        .collect()
    ]
    edge = ("source", "target", "label")
    same = edges.where(is_insert).groupBy(*edge, "timestamp").count()
    inserts = (
        same.groupBy(*edge)
        .agg(sql.sum("count").alias("inserts"), sql.sum(sql.col("count") - 1).alias("repeated"))
        .agg(
            sql.count("*").alias("edges"),
            sql.coalesce(sql.sum(sql.col("inserts") - 1), sql.lit(0)).alias("duplicates"),
            sql.coalesce(sql.sum("repeated"), sql.lit(0)).alias("repeated"),
        )
        .first()
    )
    assert inserts is not None
    vertices = edges.select("source").union(edges.select("target")).distinct().count()
    return {
        "tuples": sum(one["tuples"] for one in labels),
        "deletes": sum(one["deletes"] for one in labels),
        "edges": inserts["edges"],
        "vertices_count": vertices,
        "duplicates": inserts["duplicates"],
        "repeated_tuples": inserts["repeated"],
        "self_loops": sum(one["self_loops"] for one in labels),
        "span": [min(one["first"] for one in labels), max(one["last"] for one in labels)] if labels else None,
        "labels": {
            one["label"]: {
                "tuples": one["tuples"],
                "deletes": one["deletes"],
                "self_loops": one["self_loops"],
                "span": [one["first"], one["last"]],
            }
            for one in labels
        },
    }
