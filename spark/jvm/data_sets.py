"""Prepared data sets: the names of their parts, their statistics and their tuples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATISTICS = "_statistics.json"
VERTICES = "_vertices"


def statistics_in(session: SparkSession, data: str) -> dict[str, Any]:
    """Return the statistics of the prepared data set at a URI, or an empty dictionary if it has none."""
    text = hadoop_files.read_text(session, hadoop_files.join(data, STATISTICS))
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
    if hadoop_files.is_folder(session, data) and not any("=" in name for name in hadoop_files.list_names(session, data)):
        reader = reader.option("recursiveFileLookup", True)
    return reader.parquet(data)
