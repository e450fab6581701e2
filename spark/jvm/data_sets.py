"""Prepared data sets: the names of their parts, their statistics and their tuples."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpq.files import STATISTICS
from rpq.readers.column_names import ColumnNames
from rpq.readers.parquet import is_parquet
from rpq.spark.errors import PipelineError, plain_message
from rpq.spark.jvm import connect, hadoop_files
from rpq.stream.arrays.fields import DELETE, FieldError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

VERTICES = "_vertices"


def statistics_in(session: SparkSession, data: str) -> dict[str, Any]:
    """Return the statistics of the prepared data set at a URI, or an empty dictionary if it has none."""
    uri = hadoop_files.join(data, STATISTICS)
    text = connect.read_text(session, uri) if connect.is_connect(session) else hadoop_files.read_text(session, uri)
    if text is None:
        return {}
    try:
        content: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise PipelineError(f"{data}/{STATISTICS}: is not JSON: {error}") from error
    return content


def edges_in(session: SparkSession, data: str, *, has_op: bool = False) -> DataFrame:
    """Return the tuples of a prepared data set, or of any folder of Parquet files with the same columns.

    Files in subfolders are included; subfolders named `column=value` add a column.  With `has_op` the column op is that of
    each file (`with_op_of_files`).  Raises `PipelineError` if there are no files, or if Spark cannot read the columns from
    them.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    reader = session.read
    if connect.is_connect(session):
        files = list(connect.file_sizes(session, data))
        has_subfolders, names = True, files
    else:
        files = hadoop_files.list_files(session, data)
        has_subfolders = hadoop_files.is_folder(session, data)
        names = hadoop_files.list_names(session, data) if has_subfolders else []
    if has_subfolders and not any("=" in name for name in names):
        reader = reader.option("recursiveFileLookup", True)
    try:
        edges = reader.parquet(data)
        return with_op_of_files(reader, data, edges.schema) if has_op and lacks_op(edges.schema) else edges
    except (PySparkException, Py4JJavaError) as error:
        files = hadoop_files.list_files(session, data)
        raise PipelineError(f"{data}: {plain_message(error)}{_hint(data, files)}") from error


def lacks_op(schema: StructType) -> bool:
    """Return whether Parquet files with this schema, which is that of one of them, may have a column op or delete beside it.

    Spark ignores columns that the schema lacks, so deletes would be read as inserts.
    """
    return not {name.lower() for name in schema.names} & {"op", DELETE}


def check_deletes(columns: Sequence[str], names: ColumnNames) -> None:
    """Raise `PipelineError` if the columns of data include Debezium's column of deletes, which is not read as one."""
    try:
        names.deletes_not_read(columns)
    except FieldError as error:
        raise PipelineError(
            f"column {error.column!r} says which rows are deletes of Debezium, each of which would be read as an insert; "
            f"columns='delete={error.column}' (--columns delete={error.column}) reads them"
        ) from error


def with_op_of_files(reader: Any, data: str, schema: StructType) -> DataFrame:
    """Return the tuples of Parquet files, by a reader of data frames or of streams, with the column op of each file.

    The schema lacks op and delete.  All tuples of a file that has neither are inserts.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql import types

    check_deletes(schema.names, ColumnNames())
    further = [types.StructField("op", types.StringType()), types.StructField(DELETE, types.BooleanType())]
    edges: DataFrame = reader.schema(types.StructType([*schema.fields, *further])).parquet(data)
    return edges.withColumn("op", sql.coalesce("op", sql.when(sql.col(DELETE), "-").otherwise("+"))).drop(DELETE)


def check_op_column(edges: DataFrame) -> None:
    """Raise `PipelineError` if a data frame lacks the column op or delete of its files, as its given schema leaves it out.

    Spark reads no other columns than those of the schema, so each delete would be an insert.  The first Parquet or ORC file
    tells; a session of Spark Connect does not have the plan.  A column that the data frame has dropped is accepted.
    """
    from pyspark.errors import AnalysisException

    session = edges.sparkSession
    if connect.is_connect(session):
        return
    leaves: Any = edges._jdf.queryExecution().analyzed().collectLeaves()
    for leaf in map(leaves.apply, range(leaves.size())):
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelation":
            form, path = leaf.dataSource().className().lower(), leaf.dataSource().options().get("path")
            paths = [path.get()] if path.isDefined() else []
        elif kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            form, paths = leaf.relation().fileFormat().toString().lower(), list(edges.inputFiles()[:1])
        else:
            continue
        if form not in ("parquet", "orc") or not paths:
            continue
        try:
            there = session.read.format(form).load(paths[0]).columns
        except AnalysisException:  # there is no file yet
            continue
        if unread := [name for name in ("op", DELETE) if name in there and name not in leaf.schema().fieldNames()]:
            raise PipelineError(
                f"column {unread[0]!r} of {paths[0]} says which tuples are deletes, and the schema of the data frame lacks "
                f"it, so each delete would be read as an insert: add {unread[0]} to the schema"
            )


def local_files(path: str) -> list[str] | None:
    """Return the files and folders of this machine to which a path refers, or None if only Hadoop has its wildcards."""
    if os.path.exists(path):
        return [path]
    return None if any(one in path for one in "{}\\") else glob.glob(path)


def check_local_data(paths: Sequence[str]) -> None:
    """Raise `PipelineError` unless the files of these paths on this machine are Parquet, as those of a data set."""
    for path in paths:
        files = sorted(_visible_files(path))
        if not files:
            raise PipelineError(f"{path}: the folder contains no files")
        for file in files:
            if not is_parquet(file):
                raise PipelineError(f"{file}: is not a Parquet file{_hint(path, [file])}")


def _visible_files(path: str) -> list[str]:
    """Return a file, or the files below a folder that Spark reads."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [os.path.join(folder, name) for name in names if not name.startswith(("_", "."))]
    return found


def _hint(data: str, files: Sequence[str]) -> str:
    """Return advice about files that cannot be read: prepare them, unless their names are those of Parquet files."""
    if all(".parquet" in file for file in files):
        return ""
    return (
        "; expected a data set, or other Parquet files with its columns. Files of lines are prepared first: "
        f"rpq spark prepare --input {data} --output DATA_SET"
    )
