"""Prepared data sets: the names of their parts, their statistics and their tuples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rpq.spark.errors import PipelineError
from rpq.spark.jvm import connect, hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATISTICS = "_statistics.json"
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


def edges_in(session: SparkSession, data: str) -> DataFrame:
    """Return the tuples of a data set, prepared or any folder of Parquet files with their columns.

    Files in subfolders are included; subfolders named `column=value` add a column.
    """
    reader = session.read
    if connect.is_connect(session):
        has_subfolders, names = True, list(file_sizes(session, data))
    else:
        has_subfolders = hadoop_files.is_folder(session, data)
        names = hadoop_files.list_names(session, data) if has_subfolders else []
    if has_subfolders and not any("=" in name for name in names):
        reader = reader.option("recursiveFileLookup", True)
    return reader.parquet(data)


def file_sizes(session: SparkSession, data: str) -> dict[str, int]:
    """Return the sizes in bytes of the files of a data set, by URI.  Raises `PipelineError` if there are none."""
    return connect.file_sizes(session, data) if connect.is_connect(session) else hadoop_files.file_sizes(session, data)
