"""Prepared data sets as a data source of Spark: `spark.read.format("rpq").load(folder)`.

Unlike `spark.read.parquet`, this source returns the files in the order of the stream, one partition each, and on request
timestamps as times, according to the unit in the statistics.  Files are read in Python, through the file systems that Arrow
supports (local, s3, gs, …).

Spark imports this module in processes that only inspect the source, so Arrow is imported with the first folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rpq.files import STATISTICS
from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 16
_UNITS = ("s", "ms", "us")


class RpqDataSource(DataSource):
    """The tuples of a prepared data set (source, target, label, timestamp, op), one partition for each file, in order.

    With `option("times", "true")` timestamps are times, provided that the data set records their unit; otherwise they are
    numbers.

    >>> from rpq.spark import RpqDataSource, open_session
    >>> session = open_session()  # doctest: +SKIP
    >>> session.dataSource.register(RpqDataSource)  # doctest: +SKIP
    >>> session.read.format("rpq").option("times", "true").load("data").columns  # doctest: +SKIP
    ['source', 'target', 'label', 'timestamp', 'op']
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format, rpq.

        >>> from rpq.spark import RpqDataSource
        >>> RpqDataSource.name()  # doctest: +SKIP
        'rpq'
        """
        return "rpq"

    def schema(self) -> str:
        """Return the schema of the tuples, as Spark writes it.

        >>> from rpq.spark import RpqDataSource
        >>> RpqDataSource({"path": "data"}).schema()  # doctest: +SKIP
        'source string, target string, label string, timestamp bigint, op string'
        """
        folder = _Folder(self.options)
        vertex = "bigint" if folder.statistics["vertices"] == "ids" or folder.has_integers else "string"
        time = "timestamp" if folder.unit is not None else "bigint"
        return f"source {vertex}, target {vertex}, label string, timestamp {time}, op string"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the tuples.

        >>> from rpq.spark import RpqDataSource
        >>> RpqDataSource({"path": "data"}).reader(None).partitions()  # doctest: +SKIP
        [InputPartition(value='part-00000-….parquet')]
        """
        return _Reader(self.options)


class _Reader(DataSourceReader):
    """A reader of the files of a prepared data set."""

    def __init__(self, options: Any) -> None:
        self._options = dict(options)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(path) for path in _Folder(self._options).files]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow.parquet as pq

        folder = _Folder(self._options)
        with folder.system.open_input_file(partition.value) as file:
            for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
                yield folder.with_types(batch)


class _Folder:
    """A prepared data set, and the options with which it is read."""

    def __init__(self, options: Any) -> None:
        import pyarrow as pa
        from pyarrow import fs

        uri = options.get("path")
        if not uri:
            raise PipelineError('no data set: expected its folder, as in spark.read.format("rpq").load(folder)')
        try:
            self.system, path = fs.FileSystem.from_uri(uri) if ":" in uri else (fs.LocalFileSystem(), uri)
            self._path = path.rstrip("/")
            with self.system.open_input_file(f"{self._path}/{STATISTICS}") as file:
                self.statistics: dict[str, Any] = json.loads(file.read())
        except FileNotFoundError as error:
            raise PipelineError(f"{uri}: is not a prepared data set: it has no {STATISTICS}") from error
        except pa.ArrowInvalid as error:
            hint = "read it with spark.read.parquet, or pass it to rpq.spark.replay"
            raise PipelineError(f"{uri}: {error}; {hint}") from error
        time_unit = self.statistics.get("time_unit")
        has_times = str(options.get("times", "false")).lower() == "true"
        if has_times and time_unit not in _UNITS:
            raise PipelineError(f"{uri}: the unit of its timestamps is {time_unit or 'not known'}; leave out times")
        self.unit: str | None = time_unit if has_times else None

    @property
    def files(self) -> list[str]:
        """The files in the order of the stream."""
        from pyarrow import fs

        found = self.system.get_file_info(fs.FileSelector(self._path))
        return sorted(one.path for one in found if one.base_name.endswith(".parquet") and one.base_name[0] not in "._")

    @property
    def has_integers(self) -> bool:
        """True if vertices are integers, even though the data set was not prepared with ids."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = self.files
        if not files:
            return False
        with self.system.open_input_file(files[0]) as file:
            return bool(pa.types.is_integer(pq.read_schema(file).field("source").type))

    def with_types(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without dictionaries, and with times if the options request them."""
        import pyarrow as pa

        vertex = pa.int64() if pa.types.is_integer(batch.schema.field("source").type) else pa.string()
        types = {"source": vertex, "target": vertex, "label": pa.string(), "timestamp": pa.int64(), "op": pa.string()}
        arrays = {name: _without_dictionary(batch.column(name)).cast(kind) for name, kind in types.items()}
        if self.unit is not None:
            time = pa.timestamp(cast(Any, self.unit), "UTC")
            arrays["timestamp"] = arrays["timestamp"].cast(time).cast(pa.timestamp("us", "UTC"))
        return pa.RecordBatch.from_pydict(arrays)


def _without_dictionary(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
