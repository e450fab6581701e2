"""A sink that writes the micro-batches of a stream, which arrive as the contents of files, to a folder of Parquet files.

The sink gives the guarantees of Spark's own file sink: for readers that use the log of the folder (`SinkLog`), as Spark
does, each micro-batch is in the folder once and as a whole.  Every attempt at a micro-batch writes files of its own, and the
log decides which attempt counts if two drivers write at the same time, for example because one was considered dead.  Readers
that only list files see the files of a micro-batch appear one after the other, and see the files of a failed attempt until a
later attempt has succeeded.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rpq.spark.columns import timestamps_as_times
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.parquet_content import contents_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITING = "_writing-"
"""The beginning of the name of the folder with the files that an attempt is writing."""


def check_same_stream(session: SparkSession, output: str, checkpoint: str) -> None:
    """Raise `PipelineError` if a folder has the rows of a stream other than that of a checkpoint.

    Otherwise the log of the folder would show the micro-batches of the new stream as already written.
    """
    if hadoop_files.exists(session, hadoop_files.join(checkpoint, "offsets")):
        return
    if hadoop_files.exists(session, hadoop_files.join(output, FOLDER)) and SinkLog(session, output).latest >= 0:
        raise PipelineError(
            f"{output}: has the rows of another stream, and {checkpoint} is a new checkpoint: choose another folder, or use "
            "the checkpoint of these rows"
        )


class FileSink:
    """A function for `foreachBatch`, called with each micro-batch and its number.

    `empty` is the schema of the rows, with integers in place of times if these are times (`is_time`).  If the first
    micro-batch has no rows, the sink writes a file without rows that has this schema.
    """

    def __init__(self, output: str, *, empty: str, is_time: bool) -> None:
        self._output = output
        self._empty = empty
        self._is_time = is_time
        self._log: SinkLog | None = None
        self._is_clean = False  # whether no files of unfinished attempts are left

    def __call__(self, contents: DataFrame, number: int) -> None:
        session = contents.sparkSession
        if self._log is None:
            self._log = SinkLog(session, self._output)
        latest = self._log.latest
        if number < latest:
            raise PipelineError(
                f"{self._output}: has micro-batches up to {latest}, but the next one is number {number}: the folder belongs "
                "to another checkpoint, or the checkpoint is an old copy"
            )
        if number == latest:
            self._tidy(session, number, self._log.names(number))
            # The files are written, but the stream has not committed the micro-batch, so its state must still advance.
            contents.write.format("noop").mode("append").save()
            return
        is_clean, self._is_clean = self._is_clean, False
        attempt = secrets.token_hex(4)
        writing = hadoop_files.join(self._output, _WRITING + attempt)

        def name(place: int) -> str:
            return f"{_beginning(number)}{place:05d}-{attempt}.parquet"

        try:
            contents_writer(contents).text(writing)
            files = hadoop_files.move_files(session, writing, self._output, ".txt", name=name)
            if not files and latest < 0:
                self._write_empty(session, writing)
                files = hadoop_files.move_files(session, writing, self._output, ".parquet", name=name)
        finally:
            hadoop_files.remove(session, writing)
        if not self._log.add(number, files):
            hadoop_files.remove_matching(session, self._output, lambda one: one.endswith(f"-{attempt}.parquet"))
            raise PipelineError(f"{self._output}: another stream writes to it and has committed micro-batch {number}")
        if not is_clean:
            self._tidy(session, number, {str(file.getPath().getName()) for file in files})
        self._is_clean = True

    def _tidy(self, session: SparkSession, number: int, names: Collection[str]) -> None:
        """Remove the files of other attempts at a micro-batch, whose valid files are `names`."""
        hadoop_files.remove_matching(
            session,
            self._output,
            lambda one: one.startswith(_WRITING) or (one.startswith(_beginning(number)) and one not in names),
        )

    def _write_empty(self, session: SparkSession, writing: str) -> None:
        none = session.createDataFrame([], self._empty)
        if self._is_time:
            none = none.withColumn("timestamp", timestamps_as_times("us"))
        none.write.mode("overwrite").parquet(writing)


def _beginning(batch: int) -> str:
    """Return the beginning of the names of the files of a micro-batch, which no other files have."""
    return f"part-{batch:010d}-"


FOLDER = "_spark_metadata"


class SinkLog:
    """The log of Spark's file sink: the files of each micro-batch in a folder, from which readers learn the valid files.

    The log is created with its first micro-batch.
    """

    def __init__(self, session: SparkSession, output: str) -> None:
        from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]

        java: Any = session._jvm
        streaming = java.org.apache.spark.sql.execution.streaming
        # Spark 4.0 has the classes one package higher.
        self._sinks = streaming if isinstance(streaming.FileStreamSinkLog, JavaClass) else streaming.sinks
        self._gateway: Any = session.sparkContext._gateway
        folder = hadoop_files.join(output, FOLDER)
        self._log = self._sinks.FileStreamSinkLog(1, session._jsparkSession, folder, java.scala.Option.empty())

    @property
    def latest(self) -> int:
        """The number of the last micro-batch in the log, or -1 if the log is empty."""
        latest = self._log.getLatestBatchId()
        return int(latest.get()) if latest.isDefined() else -1

    def names(self, number: int) -> set[str]:
        """Return the names of the files of a micro-batch, or of all up to it; the set is empty if it is not in the log."""
        files = self._log.get(number)
        return {str(file.path()).rsplit("/", 1)[-1] for file in files.get()} if files.isDefined() else set()

    def add(self, number: int, files: Sequence[Any] = ()) -> bool:
        """Add a micro-batch with its files (Hadoop statuses); return False if the log has the micro-batch already."""
        statuses = self._gateway.new_array(self._sinks.SinkFileStatus, len(files))
        for place, file in enumerate(files):
            statuses[place] = self._sinks.SinkFileStatus.apply(file)
        return bool(self._log.add(number, statuses))
