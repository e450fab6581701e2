"""Sessions of Spark Connect, whose programs have no access to the JVM of the driver: their detection, and files.

A session of Connect reads with Spark's own readers what other sessions read through Hadoop's file systems (`hadoop_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONG_RANGE = 1 << 16


def is_connect(session: SparkSession) -> bool:
    """Return whether a session belongs to Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_classic(session: SparkSession, call: str = "this call", instead: str = "") -> None:
    """Raise `PipelineError` for a session of Spark Connect, in which `call` does not work; `instead` is the advice."""
    if is_connect(session):
        raise PipelineError(
            f"{call} works in the JVM of the driver, to which a session of Spark Connect has no access: "
            + (f"{instead}, or " if instead else "")
            + "run the program with spark-submit, or in a session of rpq.spark.open_session(master=…)"
        )


def slots_of_server(session: SparkSession) -> int:
    """Return the number of cores of a server, by the number of parts that it divides a range into.  This is a small job."""
    from pyspark.sql import functions as sql

    return max(1, session.range(_LONG_RANGE).select(sql.spark_partition_id()).distinct().count())


def file_sizes(session: SparkSession, uri: str) -> dict[str, int]:
    """Return the sizes in bytes of the files in a folder and its subfolders.  Raises `PipelineError` if there are none."""
    from pyspark.errors import AnalysisException

    files = session.read.format("binaryFile").option("recursiveFileLookup", True).load(uri).select("path", "length")
    try:
        found = {str(row["path"]): int(row["length"]) for row in files.collect()}
    except AnalysisException as missing:
        raise PipelineError(f"{uri}: there is no such file or folder: {str(missing).splitlines()[0]}") from missing
    if not found:
        raise PipelineError(f"{uri}: there is no such file, or a folder without files")
    return found


def read_text(session: SparkSession, uri: str) -> str | None:
    """Return the content of a small text file, or None if there is none.

    A task reads it in Python, because Spark's readers leave out files whose names begin with `_`.  None is also returned for
    file systems that Arrow does not support.
    """
    rows = session.range(1).mapInArrow(_TextReader(uri), "content string").collect()
    return None if rows[0][0] is None else str(rows[0][0])


class _TextReader:
    """A function for `mapInArrow` that returns the content of a text file in place of a row."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            content = [self._content()] * batch.num_rows
            yield pa.record_batch({"content": pa.array(content, pa.string())})

    def _content(self) -> str | None:
        try:
            system, path = fs.FileSystem.from_uri(self._uri) if ":" in self._uri else (fs.LocalFileSystem(), self._uri)
            with system.open_input_file(path) as file:
                return str(file.read(), "utf-8")
        except (pa.ArrowException, OSError):
            return None
