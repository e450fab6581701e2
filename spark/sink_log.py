"""The log of a file sink of Spark's: which files of a folder each micro-batch has, by which readers know the whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpq.spark import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "_spark_metadata"


class SinkLog:
    """The log of a folder; made where there is none when the first micro-batch is told."""

    def __init__(self, session: SparkSession, output: str) -> None:
        java: Any = session._jvm
        self._sinks = java.org.apache.spark.sql.execution.streaming.sinks
        self._gateway: Any = session.sparkContext._gateway
        folder = hadoop_files.inside(output, FOLDER)
        self._log = self._sinks.FileStreamSinkLog(1, session._jsparkSession, folder, java.scala.Option.empty())

    @property
    def latest(self) -> int:
        """The last micro-batch that it knows; -1 where it knows none."""
        told = self._log.getLatestBatchId()
        return int(told.get()) if told.isDefined() else -1

    def names(self, number: int) -> set[str]:
        """The names of the files of a micro-batch, or of all up to it; of one that it does not know, none."""
        told = self._log.get(number)
        return {str(file.path()).rsplit("/", 1)[-1] for file in told.get()} if told.isDefined() else set()

    def add(self, number: int, files: Sequence[Any] = ()) -> bool:
        """Tell which files (Hadoop's statuses) a micro-batch has; whether nobody had told of it."""
        told = self._gateway.new_array(self._sinks.SinkFileStatus, len(files))
        for place, file in enumerate(files):
            told[place] = self._sinks.SinkFileStatus.apply(file)
        return bool(self._log.add(number, told))
