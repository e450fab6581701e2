"""Files of tuples as they are, through Spark to the tasks, which read them with Arrow.

Spark reads Parquet into rows, beside each the name of its file, and makes columns of them again for Python: more than a
microsecond a tuple.  A file whose columns are those of tuples goes as bytes instead.  One task takes it whole, so large ones
go as rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rpq.errors import InputError
from rpq.readers.column_names import DELETE
from rpq.spark import hadoop_files
from rpq.spark.envelopes import PLACED_SCHEMA, ROWS, Reader, packed_with_place
from rpq.spark.shipped import Shipped
from rpq.stream.plain_columns import TEXT, TEXTS, plain_type, with_plain_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES = 1 << 26
"""A larger file is not taken as a whole: it is in memory three times for a moment."""

_TUPLE = {"source": None, "target": None, "label": "string", "timestamp": "bigint", "op": "string"}
_ARROW = {"bigint": pa.int64(), "string": pa.string()}


def vertex_of_tuples(edges: DataFrame) -> str | None:
    """The type of the vertices where a data frame has the columns of tuples in their types, and nothing else; else None."""
    kinds = {field.name: field.dataType.simpleString() for field in edges.schema}
    vertex = kinds.get("source")
    is_plain = vertex in _ARROW and kinds == {name: kind or vertex for name, kind in _TUPLE.items()}
    return vertex if is_plain else None


def are_whole(session: SparkSession, data: str) -> bool:
    """Whether the files at a URI tell all by themselves, not by names of folders (`label=a`), and none is large."""
    sizes = hadoop_files.sizes(session, data)
    return max(sizes.values()) <= MOST_BYTES and not any("=" in uri for uri in sizes)


def packed_files(session: SparkSession, data: str, vertex: str, queries: Sequence[Reader]) -> DataFrame:
    """The tuples of the Parquet files at a URI, vertices of a type, as placed envelopes (`PlacedPacker`)."""
    files = session.read.format("binaryFile").option("recursiveFileLookup", True).load(data)
    return files.select("path", "content").mapInArrow(FilePacker(queries, vertex), PLACED_SCHEMA)


class FilePacker(Shipped):
    """What a task runs: whole Parquet files become envelopes with their places.  For `mapInArrow`."""

    def __init__(self, queries: Sequence[Reader], vertex: str) -> None:
        self._queries = tuple(queries)
        self._types = {name: _ARROW[kind or vertex] for name, kind in _TUPLE.items()}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
                tuples = self._tuples(path, pa.BufferReader(content.as_buffer()))
                yield from packed_with_place(tuples, path, self._queries)

    def _tuples(self, path: str, content: pa.BufferReader) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(content) as file:
                self._check(path, file.schema_arrow)
                for batch in file.iter_batches(batch_size=ROWS, columns=list(self._types)):
                    tuples = pa.Table.from_batches([with_plain_columns(batch)]).select(list(self._types))
                    yield tuples.cast(pa.schema(list(self._types.items())))
        except (pa.ArrowInvalid, OSError) as problem:
            raise InputError(f"{path}: cannot be read as Parquet: {problem}", file=path) from problem

    def _check(self, path: str, schema: pa.Schema) -> None:
        """Raise `InputError` where a file has other columns than the one that Spark looked at."""
        if DELETE in schema.names:
            raise InputError(f"{path}: column {DELETE!r} is there, which other files have not", file=path, column=DELETE)
        for name, kind in self._types.items():
            place = schema.get_field_index(name)
            found = None if place < 0 else schema.field(place).type
            if found is None or not _holds(found, kind):
                has = "is missing" if found is None else f"is of type {found}"
                raise InputError(f"{path}: column {name!r} {has}; other files have {kind}", file=path, column=name)


def _holds(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a column of a type has integers, or text, as `kind` says."""
    found = plain_type(found)
    return bool(pa.types.is_integer(found)) if kind == pa.int64() else found in (TEXT, TEXTS)
