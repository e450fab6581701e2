"""The records of nodes of a replay: a data frame on the driver, and its order among the tuples of a task.

Facts of nodes never expire, so each task has all records: it takes in those before its part of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.text.edge_rules import label_names
from rpq.spark.columns import type_in_rows
from rpq.spark.errors import PipelineError
from rpq.stream.arrays.plain_columns import with_plain_columns
from rpq.stream.nodes.node_rows import LABELS_TYPE, record_rows, uniform_parts
from rpq.stream.nodes.node_table import NO_TIME, OWN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collect_nodes(nodes: DataFrame, *, vertex: str, unit: str, is_time: bool) -> pa.RecordBatch:
    """Return the records of a data frame, sorted by time, as rows of a batch (`rpq.stream.nodes.node_rows`).

    Its columns are node and optionally labels, op, timestamp, and properties.  Vertices are of the type `vertex`, and times,
    if the timestamps of edges are times (`is_time`), become integers in `unit`.  Raises `PipelineError`.
    """
    if "node" not in nodes.columns:
        raise PipelineError(f"nodes: there is no column node; found {', '.join(nodes.columns)}")
    table = nodes.toArrow().combine_chunks()
    batch = table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
    try:
        columns = dict(zip(batch.schema.names, with_plain_columns(batch).columns, strict=True))
        vertices = columns["node"].cast(pa.int64() if vertex == "bigint" else pa.string())
    except (pa.ArrowException, InputError) as error:
        raise PipelineError(f"nodes: {error}") from error
    times = pa.array(np.full(batch.num_rows, NO_TIME))
    if "timestamp" in columns:
        stamps = columns["timestamp"]
        if is_time != pa.types.is_temporal(stamps.type) and stamps.null_count < len(stamps):
            expected = "times, as those of edges" if is_time else "integers, as those of edges"
            raise PipelineError(f"nodes: column 'timestamp' is of type {stamps.type}; expected {expected}")
        if is_time:
            stamps = stamps.cast(pa.timestamp(unit, getattr(stamps.type, "tz", None)), safe=False)
        times = stamps.cast(pa.int64()).fill_null(NO_TIME)
    labels = columns.get("labels")
    if labels is not None:
        lists = [label_names(value) for value in labels.to_pylist()]
        if None in lists:
            raise PipelineError(f"nodes: column 'labels': {labels[lists.index(None)]} is no list of texts")
        labels = pa.array(lists, LABELS_TYPE)
    values = {name: column for name, column in columns.items() if name not in OWN_COLUMNS}
    rows = pa.record_batch(record_rows(vertices, times, labels=labels, ops=columns.get("op"), values=values))
    return rows.take(pa.array(np.argsort(times.to_numpy(), kind="stable")))


def property_types(nodes: DataFrame) -> dict[str, str]:
    """Return the types in rows of the properties of nodes in a data frame, by `Value.key`.  Raises `PipelineError`."""
    fields = (field for field in nodes.schema if field.name not in OWN_COLUMNS)
    return {f"@{field.name}": type_in_rows(field.dataType.simpleString(), field.name) for field in fields}


class RecordOrder:
    """The records of nodes among the tuples of a task, of which `before` is the largest time before the first.

    >>> rows = pa.record_batch(record_rows(pa.array(["x", "y"]), pa.array([1, 7]), values={"risk": pa.array([3, 4])}))
    >>> order = RecordOrder(rows, before=None)
    >>> [part.column("source").to_pylist() for part in order.among(pa.table({"source": ["u", "v"], "timestamp": [1, 5]}))]
    [['x'], ['u', 'v']]
    >>> [part.column("source").to_pylist() for part in order.until(None)]
    [['y']]
    """

    def __init__(self, rows: pa.RecordBatch | None, *, before: int | None) -> None:
        self._rows = rows
        self._times = np.zeros(0, np.int64) if rows is None else rows.column("timestamp").to_numpy()
        self._latest = NO_TIME if before is None else before
        self._done = 0

    def among(self, tuples: pa.Table) -> Iterator[pa.Table | pa.RecordBatch]:
        """Yield tuples in parts, with the records before and between them; a record comes before tuples of its time."""
        if not len(tuples):
            yield tuples
            return
        keys = np.maximum.accumulate(np.maximum(tuples["timestamp"].to_numpy(), self._latest))
        places = np.searchsorted(keys, self._times[self._done :])
        begin = 0
        for place in np.unique(places[places < len(tuples)]).tolist():
            if place > begin:
                yield tuples.slice(begin, place - begin)
            yield from self.until(int(keys[place]))
            begin = place
        yield tuples.slice(begin)
        self._latest = int(keys[-1])

    def until(self, time: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the records up to a time, or all others."""
        end = len(self._times) if time is None else int(np.searchsorted(self._times, time, side="right"))
        if self._rows is not None and end > self._done:
            begin, self._done = self._done, end
            yield from uniform_parts(self._rows.slice(begin, end - begin))
