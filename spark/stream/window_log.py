"""The window as a log of tuples, which is the state of a partition in Spark between two micro-batches.

The state does not contain the index, which is large when pickled and can be built from the window.  It does not contain the
snapshot graph either, because one micro-batch would change edges all over it.  Instead, the state contains the log of the
tuples from which the graph results, divided into *buckets* of time:

* An insert is in the bucket of its own timestamp, a delete in the bucket of the stream time at which it arrived.  Each
  tuple has a number, `order`, in the order of application.
* The snapshot graph maps every edge to the largest timestamp among its inserts with a larger `order` than its last delete,
  and to the properties that came with it; among equal timestamps the largest `order` determines which insert counts.  An
  insert that refreshes an edge is one more insert.  Parallel edges are all these inserts.
* Where edges have ids, an insert replaces an edge whatever its ends, and a delete without an id removes the edges that have
  its ends at that moment.  There the window is the whole log, which is applied again, deletes included.
* An engine of a version whose log had n tuples catches up with the tuples whose `order` is n or more, in this order.
* A bucket all of whose timestamps have left the longest window is dropped as a whole.  A delete is dropped no sooner than
  any insert that it undoes, because no such insert can be younger than the stream time at which the delete arrived.

A bucket is stored in *parts*, one for each micro-batch that wrote to it, as packed tables
(`rpq.spark.envelopes`).  A new part absorbs the parts before it that have at most twice its rows, so a bucket has
O(log rows) parts and each tuple is written O(log micro-batches) times, however many micro-batches write to a bucket.
A bucket may have the whole window, but a part, which is one value of the state, has at most `PART_ROWS` rows.

A share stores the edges that it needs (`rpq.spark.division.OwnEdges`): all edges of paths, and the edges of patterns in its
cell.  A share that has an edge has all tuples of the edge.  When a stream moves to other shares or other queries
(`rpq.spark.stream.rescale`), the windows of all former shares are merged, and each new share takes its edges (`MovedState`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.engine.engine import Engine
from rpq.engine.state.sealed import damage_error
from rpq.language.hypercube import Share
from rpq.language.query import Query
from rpq.language.readings import is_ordered
from rpq.spark.columns import TRIPLES, EdgeModel
from rpq.spark.division import OwnEdges, label_readers
from rpq.spark.envelopes import PROPERTY, TUPLES, engine_columns, envelope_columns, pack_table, unpack_table
from rpq.spark.shipping import ShippedObject
from rpq.stream.stream_time import windows_of
from rpq.stream.window import Window

BUCKETS = 64
"""The largest number of buckets of a window; there are fewer if its slides are longer."""

PART_ROWS = 1 << 20
"""The largest number of rows of a part, some tens of megabytes, of which the JVM has several copies."""

_EDGE = ("source", "target", "label")
_COLUMNS = (*_EDGE, "timestamp", "delete", "order")


class Chunks(Protocol):
    """A store of parts: (bucket, part) → bytes."""

    def read(self, bucket: int, part: int) -> bytes: ...

    def write(self, bucket: int, part: int, data: bytes) -> None: ...

    def remove(self, bucket: int, part: int) -> None: ...


def bucket_width(queries: Sequence[Query]) -> int:
    """Return the time that a bucket spans: a slide of the longest window, or a sixty-fourth of the window if longer."""
    longest = max(_windows(queries), key=lambda window: window.size)
    return max(longest.slide, -(-longest.size // BUCKETS))


def _windows(queries: Sequence[Query]) -> list[Window]:
    """Return all windows over which queries read edges; all are of time (`rpq.spark.columns.queries_in_unit`)."""
    return [window for query in queries for window in windows_of(query) if isinstance(window, Window)]


@dataclass
class WindowLog:
    """The log of a window, stored in `chunks`; `parts` maps buckets to the number of rows and the last `order` of each part.

    Only the properties of edges in `model` are stored.

    >>> import rpq
    >>> query = rpq.Query("a", window=rpq.Window(size=10, slide=5))
    >>> log = WindowLog(chunks=MemoryChunks(), queries=[query])
    >>> rows = pa.table({"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [1, 2]})
    >>> log.append(rows.append_column("delete", [[False, True]]), time=2)
    >>> log.append(rows.slice(1).append_column("delete", [[False]]), time=2)
    >>> log.window(time=2).to_pylist()
    [{'source': 'x', 'target': 'y', 'label': 'a', 'timestamp': 2, 'delete': False}]
    """

    chunks: Chunks
    queries: Sequence[Query]
    model: EdgeModel = TRIPLES
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    order: int = 0

    def __post_init__(self) -> None:
        self._width = bucket_width(self.queries)

    @property
    def rows(self) -> int:
        """The number of tuples in the log."""
        return sum(rows for parts in self.parts.values() for rows, _ in parts)

    def append(self, tuples: pa.Table, *, time: int) -> None:
        """Append applied tuples, in the columns of an engine, after which the stream time is `time`."""
        stamps = tuples["timestamp"].to_numpy()
        is_delete = tuples["delete"].to_numpy(zero_copy_only=False)
        tuples = envelope_columns(tuples, self.model.columns)
        tuples = tuples.append_column("order", pa.array(np.arange(self.order, self.order + len(tuples))))
        self.order += len(tuples)
        buckets = np.where(is_delete, time, stamps) // self._width
        for bucket in np.unique(buckets).tolist():
            if not self._is_expired(bucket, time):
                own = tuples.filter(pa.array(buckets == bucket))
                for start in range(0, len(own), PART_ROWS):
                    self._write(bucket, own.slice(start, PART_ROWS))
        for bucket in [bucket for bucket in self.parts if self._is_expired(bucket, time)]:
            for part in range(len(self.parts.pop(bucket))):
                self.chunks.remove(bucket, part)

    def window(self, *, time: int) -> pa.Table | None:
        """Return tuples that give the window at stream time `time` in this order, or None if it is empty.

        They are inserts, the oldest first, of which an edge may have several; where edges have ids, all tuples of the log.
        """
        if self.model.has_ids:
            return self.tuples_since(0)
        log = self._read(0)
        if log is None:
            return None
        inserts = log.filter(pc.invert(log["delete"])).filter(pc.field("timestamp") > self._lower_bound(time))
        deletes = log.filter(log["delete"])
        if len(deletes):
            last = deletes.group_by(_EDGE).aggregate([("order", "max")])
            pairs = inserts.select([*_EDGE, "order"]).join(last, list(_EDGE), join_type="inner")
            undone = pairs.filter(pc.less(pairs["order"], pairs["order_max"]))["order"]
            inserts = inserts.filter(pc.invert(pc.is_in(inserts["order"], undone.combine_chunks())))
        return engine_columns(inserts.sort_by([("timestamp", "ascending"), ("order", "ascending")]))

    def tuples_since(self, order: int) -> pa.Table | None:
        """Return the tuples of the log from `order` on, in their order, or None if there are none."""
        log = self._read(order)
        if log is None:
            return None
        return engine_columns(log.filter(pc.field("order") >= order).sort_by("order"))

    def _read(self, order: int) -> pa.Table | None:
        """Return the parts whose last tuple has at least this `order`, or None."""
        tables = [
            self._part(bucket, part)
            for bucket, parts in self.parts.items()
            for part, (_, last) in enumerate(parts)
            if last >= order
        ]
        return pa.concat_tables(tables) if tables else None

    def _part(self, bucket: int, part: int) -> pa.Table:
        """Return a part.  Raises `StateFormatError` if it differs from the part that was written."""
        name = f"part {part} of bucket {bucket} of the window"
        columns = (*_COLUMNS, *(PROPERTY + one for one in self.model.columns))
        table = unpack_table(self.chunks.read(bucket, part), columns=columns, name=name)
        rows, last = self.parts[bucket][part]
        orders = table["order"].to_numpy()
        if len(table) != rows or orders[-1] != last or orders.min() < 0 or (np.diff(orders) <= 0).any():
            raise damage_error(TUPLES, name, f"it does not contain the {rows:,} tuples up to number {last:,}")
        inserts = ~table["delete"].to_numpy(zero_copy_only=False)
        if (table["timestamp"].to_numpy()[inserts] // self._width != bucket).any():
            raise damage_error(TUPLES, name, "it contains tuples of another bucket")
        return table

    def _write(self, bucket: int, tuples: pa.Table) -> None:
        parts = self.parts.setdefault(bucket, [])
        target, rows = len(parts), len(tuples)
        while target and parts[target - 1][0] <= 2 * rows and parts[target - 1][0] + rows <= PART_ROWS:
            target -= 1
            rows += parts[target][0]
        absorbed = [self._part(bucket, part) for part in range(target, len(parts))]
        for part in range(target + 1, len(parts)):
            self.chunks.remove(bucket, part)
        self.chunks.write(bucket, target, pack_table(pa.concat_tables([*absorbed, tuples])))
        parts[target:] = [(rows, tuples["order"][-1].as_py())]

    def _lower_bound(self, time: int) -> int:
        return min(window.lower_bound(time) for window in _windows(self.queries))

    def _is_expired(self, bucket: int, time: int) -> bool:
        return (bucket + 1) * self._width - 1 <= self._lower_bound(time)


class MemoryChunks(dict[tuple[int, int], bytes]):
    """A store of parts in memory."""

    def read(self, bucket: int, part: int) -> bytes:
        return self[bucket, part]

    def write(self, bucket: int, part: int, data: bytes) -> None:
        self[bucket, part] = data

    def remove(self, bucket: int, part: int) -> None:
        del self[bucket, part]


_TUPLE_COLUMNS = (*_EDGE, "timestamp", "delete")
_NAME = "the window that moves to other shares"


@dataclass(frozen=True, kw_only=True)
class MovedState(ShippedObject):
    """The state of all shares: the window as a packed table (None if empty), and waiting envelopes and figures of one share.

    `identity` is the identity of the replaced records.  `reach` is the former window that reached back farthest.  `added`
    contains the new queries, which begin with answers over the window.  `model` is that of the former queries.
    """

    identity: str
    tuples: bytes | None
    waiting: tuple[bytes, ...]
    version: int
    time: int
    tuple_count: int
    late: int
    reach: Window
    added: tuple[rpq.Query, ...]
    model: EdgeModel = TRIPLES

    @classmethod
    def from_logs(
        cls,
        logs: Sequence[WindowLog],
        *,
        waiting: Sequence[bytes],
        figures: Mapping[str, int],
        identity: str,
        added: Sequence[rpq.Query],
    ) -> MovedState:
        """Return the state in the logs of all shares at the time in `figures`, those of one share.

        Raises `StateFormatError` if a log is damaged.
        """
        time, log = figures["time"], logs[0]
        # If edges have ids, every share has all edges.
        tuples = _merge([one.window(time=time) for one in (logs[:1] if log.model.has_ids else logs)])
        if tuples is not None:
            tuples = envelope_columns(tuples, log.model.columns).combine_chunks()
        windows = (window for query in log.queries for window in windows_of(query) if isinstance(window, Window))
        return cls(
            identity=identity,
            tuples=None if tuples is None or not len(tuples) else pack_table(tuples),
            waiting=tuple(waiting),
            version=figures["version"],
            time=time,
            tuple_count=figures["tuples"],
            late=figures["late"],
            reach=min(windows, key=lambda window: window.lower_bound(time)),
            added=tuple(added),
            model=log.model,
        )

    def window(self) -> pa.Table | None:
        """Return the tuples that give the window (`WindowLog.window`), or None if it is empty."""
        if self.tuples is None:
            return None
        return engine_columns(unpack_table(self.tuples, columns=_TUPLE_COLUMNS, name=_NAME))

    def log(
        self, chunks: MemoryChunks, queries: Sequence[rpq.Query], own: OwnEdges, model: EdgeModel = TRIPLES
    ) -> WindowLog:
        """Write the edges of a share in the window to `chunks` as a log for `queries`, and return the log."""
        log = WindowLog(chunks=chunks, queries=queries, model=model)
        tuples = self.window()
        if tuples is not None and not model.has_ids:
            labels, readers = tuples["label"].unique().to_pylist(), label_readers(queries)
            read = [label for label in labels if any(query.reads(label) for query in readers)]
            tuples = tuples.filter(pc.is_in(tuples["label"], pa.array(read, tuples["label"].type)))
        tuples = None if tuples is None else own.select(tuples)
        if tuples is not None and len(tuples):
            log.append(tuples, time=self.time)
        return log

    def first_rows(self, *, share: Share, threads: int, memory_limit: int) -> pa.Table | None:
        """Return the first rows of the new queries in a share (`Engine.register`), or None without new queries."""
        if not self.added:
            return None
        # A new query binds no edges, so of parallel edges it needs only the youngest: its answers are those over triples.
        model = replace(self.model, identity="triple") if self.model.identity == "parallel" else self.model
        engine = Engine(keep=self.reach, share=share, threads=threads, memory_limit=memory_limit, **model.engine_options)
        try:
            push_window(engine, self.window(), time=self.time)
        except rpq.InputError as problem:
            raise damage_error(TUPLES, _NAME, str(problem)) from problem
        return engine.register(self.added).to_arrow()


def _merge(windows: Sequence[pa.Table | None]) -> pa.Table | None:
    """Merge the windows of all shares, taking each edge from the first share that has it; return tuples, oldest first."""
    found: pa.Table | None = None
    for window in windows:
        if window is None or found is None:
            found = window if found is None else found
            continue
        rows = window.select(_EDGE).append_column("row", pa.array(range(len(window)), pa.int64()))
        merged_edges = found.select(_EDGE).group_by(_EDGE).aggregate([])
        missing = rows.join(merged_edges, list(_EDGE), join_type="left anti")["row"].combine_chunks()
        found = pa.concat_tables([found, window.take(missing.sort())])
    if found is None or len(windows) == 1:
        return found
    # Sorting leaves tuples of one timestamp in their order.
    return found.take(pa.array(np.argsort(found["timestamp"].to_numpy(), kind="stable")))


def push_window(engine: Engine, tuples: pa.Table | None, *, time: int) -> None:
    """Push the tuples that give a window (`WindowLog.window`) at stream time `time` to a new engine, without its rows."""
    if tuples is None:
        engine.advance(time)
    elif engine.edges == "id" or any(map(is_ordered, engine.queries)):
        engine.push(tuples, collect=False)
        engine.advance(time)
    else:
        # The youngest edges come first, so that each cell of the index gets its final value at once.  Those of one timestamp
        # stay in their order, because the last one counts.
        engine.advance(time)
        engine.push(tuples.sort_by([("timestamp", "descending")]), collect=False)
