"""Telling a session whose driver is this process from one of Spark Connect, which has no access to what is needed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_classic(session: SparkSession) -> None:
    """Raise `PipelineError` for a session of Spark Connect."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise PipelineError(
            "this session is one of Spark Connect, where neither task slots nor checkpoints can be looked at: "
            "run the program with spark-submit, or in a session of rpq.spark.open_session(master=…)"
        )
