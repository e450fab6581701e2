"""Parquet files that appear in a folder as a streaming data frame of edges.

The first files determine the columns.  These are stored in the checkpoint, so that a stream that continues has the same
columns, whatever its folder contains by then.  Other files are read by Spark's own readers, with a schema, in a program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rpq.readers.column_names import ColumnNames
from rpq.spark.columns import has_usual_op
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.data_sets import lacks_op, with_op_of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "rpq-files.json"
FORMAT = 2

_MAX_FILE_AGE = "365d"
"""How much older than the newest file that was read a file may be when it appears; older ones are ignored.

By default Spark ignores files that are a week older, such as copies that keep the time of the original.  It has the names of
all files of this age in memory.
"""


class FileEdges(NamedTuple):
    """A stream of edges, or of records for rules, with the columns of the files.

    `first_edges` returns the files that are there as a data frame with these columns.  `schema` is that of the files as
    JSON, for `store_schema`.
    """

    edges: DataFrame
    first_edges: Callable[[], DataFrame]
    schema: Mapping[str, Any]


def file_edges(
    session: SparkSession,
    folder: str,
    *,
    names: ColumnNames | None = None,
    has_rules: bool = False,
    max_files: int = 1,
    checkpoint: str | None = None,
    is_begun: bool = False,
) -> FileEdges:
    """Return a stream of the Parquet files that appear in a folder, the oldest first.

    `names` are those of the columns.  With `has_rules` rows are records.  A stream that has begun (`is_begun`) has the
    columns that `store_schema` wrote to its `checkpoint`, if any.  Raises `PipelineError` for a folder without such files,
    unless the columns are stored.
    """
    from pyspark.sql.types import StructType

    if not hadoop_files.is_folder(session, folder):
        raise PipelineError(f"{folder}: there is no such folder")
    stored = _stored_schema(session, checkpoint) if checkpoint is not None and is_begun else None
    names_there = hadoop_files.list_names(session, folder)
    if stored is None and not any(name.endswith(".parquet") and name[0] not in "_." for name in names_there):
        raise PipelineError(f"{folder}: has no .parquet file yet; the first file determines the columns")
    schema = session.read.parquet(folder).schema if stored is None else StructType.fromJson(stored)
    later = session.readStream.option("maxFilesPerTrigger", max_files).option("maxFileAge", _MAX_FILE_AGE)
    if not has_rules and has_usual_op(names) and lacks_op(schema):
        edges = with_op_of_files(later, folder, schema)
    else:
        edges = later.schema(schema).parquet(folder)
    return FileEdges(edges, lambda: session.read.schema(schema).parquet(folder), schema.jsonValue())


def store_schema(session: SparkSession, checkpoint: str, schema: Mapping[str, Any]) -> None:
    """Write the schema of files to the checkpoint of a stream, unless it has it.

    Call it after the identity of the stream has been compared: the schema of a stream that is refused would remain.
    """
    if _stored_schema(session, checkpoint) != schema:
        content = {"format": FORMAT, "schema": schema}
        hadoop_files.write_text(session, hadoop_files.join(checkpoint, FILE), json.dumps(content) + "\n")


def _stored_schema(session: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    """Return the schema in a checkpoint, or None.  Raises `PipelineError` if it is damaged."""
    path = hadoop_files.join(checkpoint, FILE)
    text = hadoop_files.read_text(session, path)
    if text is None:
        return None
    try:
        content = json.loads(text)
        version, schema = content["format"], dict(content["schema"])
    except (ValueError, KeyError, TypeError) as problem:
        raise PipelineError(f"{path} is damaged: {problem}") from problem
    if version != FORMAT:
        raise PipelineError(f"{path} is of format {version}; this release reads format {FORMAT}")
    return schema
