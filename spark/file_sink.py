"""A folder of Parquet files that gets the rows of a stream, whose micro-batches come as the contents of files.

What Spark's own file sink promises holds: each micro-batch is in the folder once, as a whole, for readers that go by the
log of the folder (`rpq.spark.sink_log`), as Spark does.  For others its files appear one after the other; those of a
micro-batch that has to be done again are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq.spark import hadoop_files
from rpq.spark.edge_columns import time_again
from rpq.spark.errors import PipelineError
from rpq.spark.parquet_content import contents_writer
from rpq.spark.sink_log import SinkLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITING = "_writing"
"""The folder for files of the micro-batch that is being written."""


class FileSink:
    """What is called with each micro-batch and its number: for `foreachBatch`.

    `empty` is the schema of the rows, in the integers of times where these are times (`is_time`): a folder that gets no row
    at first has a file that says it.
    """

    def __init__(self, output: str, *, empty: str, is_time: bool) -> None:
        self._output = output
        self._empty = empty
        self._is_time = is_time
        self._log: SinkLog | None = None
        self._is_clean = False  # whether there are no files of a micro-batch that was not brought to its end

    def __call__(self, contents: DataFrame, number: int) -> None:
        session = contents.sparkSession
        if self._log is None:
            self._log = SinkLog(session, self._output)
        if number <= self._log.latest:
            # It was written, and the end of it was not told to the stream, of which the state is still to go on.
            contents.write.format("noop").mode("append").save()
            return
        writing = hadoop_files.inside(self._output, _WRITING)
        if not self._is_clean:
            hadoop_files.remove_matching(session, hadoop_files.inside(self._output, _file_name(number, "*")))
            hadoop_files.remove(session, writing)
        self._is_clean = False
        contents_writer(contents).text(writing)
        files = self._move(session, writing, ".txt", number)
        if not files and self._log.latest < 0:
            self._write_empty(session, writing)
            files = self._move(session, writing, ".parquet", number)
        hadoop_files.remove(session, writing)
        if not self._log.add(number, files):
            raise PipelineError(f"{self._output}: another stream writes to it, which has told of micro-batch {number}")
        self._is_clean = True

    def _move(self, session: SparkSession, writing: str, ending: str, number: int) -> list[object]:
        return hadoop_files.move_files(
            session, writing, self._output, ending, name=lambda place: _file_name(number, f"{place:05d}")
        )

    def _write_empty(self, session: SparkSession, writing: str) -> None:
        none = session.createDataFrame([], self._empty)
        if self._is_time:
            none = none.withColumn("timestamp", time_again("us"))
        none.write.mode("overwrite").parquet(writing)


def _file_name(batch: int, place: str) -> str:
    """The name of a file of a micro-batch, the same when that is done again."""
    return f"part-{batch:010d}-{place}.parquet"
