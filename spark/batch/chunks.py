"""The chunks of a replay, which tasks evaluate independently: a stream is divided by time, and each chunk perhaps by roots.

    tuples → slices with their places and times → (driver) cuts → slices of each task → answer changes

A slice is a row of some thousand consecutive tuples, packed as an Arrow stream, so that Spark moves and sorts few rows.
Only the places and times of slices pass through the driver (`plan_chunks`).  `rpq.run.time_division` has the rule of cuts,
and of what a chunk takes in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.engine.engine import Engine
from rpq.language.hypercube import Share
from rpq.run.loop import push_part
from rpq.run.time_division import TimeDivision, TimeRange
from rpq.spark.batch.node_records import RecordOrder
from rpq.spark.columns import EdgeModel
from rpq.spark.division import EdgeDivision, label_readers, partition_keys, share_limit
from rpq.spark.envelopes import engine_tuples
from rpq.spark.jvm.hadoop_files import file_key
from rpq.spark.shipping import ShippedObject

if TYPE_CHECKING:
    from rpq.rows.changes import Changes

SLICE_ROWS = 1 << 13
"""The largest number of tuples in a slice.  It has at most one cut, and an engine is pushed a slice at a time."""
MAX_TAKEN_IN = 0.5
"""The largest number of tuples that all chunks take in, as a share of the stream."""

PLACE = ("file", "row")
TIMES = ("tuples", "latest", "cut", "time", "earlier")
_SLICES = pa.schema([("file", pa.string()), *((name, pa.int64()) for name in ("row", *TIMES)), ("edges", pa.binary())])
SLICES_SCHEMA = "file string, row bigint, " + "".join(f"{name} bigint, " for name in TIMES) + "edges binary"
"""The place of a slice; the number of its tuples, their largest time, the row before which it can be cut, the time of this
row and the largest time before it in the slice; and the tuples."""
PARTS_SCHEMA = "partition int, file string, row bigint, is_own boolean, edges binary"


class Slicer(ShippedObject):
    """A function for `mapInArrow` that turns tuples, in the order of the stream, into slices with their places.

    The order is by the file (`file_key`) and the row in the file, or in all tuples if they have no file.  `properties` are
    the names of properties and ids.  Tuples that no query reads are left out, except the last of a slice, which has its
    time: one that follows advances the time at least as far; and the first, since rows before the first edge have its time.
    They stay where tuples are out of order, and with `whole`.
    """

    def __init__(
        self, queries: Sequence[rpq.Query], properties: Sequence[str], division: TimeDivision | None, *, whole: bool
    ) -> None:
        self._readers = None if whole else label_readers(queries)
        self._properties = tuple(properties)
        self._division = division

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reads = lru_cache(1 << 16)(lambda label: any(reader.reads(label) for reader in self._readers or ()))
        for rows in _runs(batches):
            tuples = engine_tuples(pa.Table.from_batches([rows]), self._properties)
            times = tuples["timestamp"].to_numpy()
            if self._readers is not None and (np.diff(times) >= 0).all():
                labels = tuples["label"].combine_chunks().dictionary_encode()
                is_read = np.array([reads(label) for label in labels.dictionary.to_pylist()])[labels.indices.to_numpy()]
                is_read[[0, -1]] = True
                tuples, times = tuples.filter(pa.array(is_read)), times[is_read]
            cuts = np.zeros(0, np.int64) if self._division is None else self._division.cuts(times, before=None)
            cut = int(cuts[-1]) if len(cuts) else 0
            file = rows["file"][0].as_py()
            found = {
                "file": "" if file is None else file_key(file, is_encoded=True),
                "row": rows["row"][0].as_py(),
                "tuples": len(times),
                "latest": int(times.max()),
                "cut": cut,
                "time": int(times[cut]),
                "earlier": int(times[:cut].max()) if cut else None,
                "edges": _pack(tuples),
            }
            yield pa.RecordBatch.from_pylist([found], schema=_SLICES)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of a single file, and of at most `SLICE_ROWS` rows."""
    for batch in batches:
        ends = {*range(SLICE_ROWS, batch.num_rows, SLICE_ROWS), *pc.run_end_encode(batch["file"]).run_ends.to_pylist()}
        begin = 0
        for end in sorted(ends):
            yield batch.slice(begin, end - begin)
            begin = end


def _pack(tuples: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, tuples.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(tuples.combine_chunks())
    return bytes(out.getvalue())


def unpack_slice(edges: pa.Scalar) -> pa.Table:
    """Return the tuples of a slice, or of a part of one."""
    with pa.ipc.open_stream(edges.as_buffer()) as reader:
        tuples: pa.Table = reader.read_all()
    return tuples


class Chunk(NamedTuple):
    """A chunk: the largest time before the tuples that it takes in, and the times at its two cuts; None at the ends of the
    stream. `loads_at` is that of `TimeRange`."""

    number: int
    before: int | None
    begins_at: int | None
    ends_at: int | None
    loads_at: int | None = None


class Part(NamedTuple):
    """The part of a slice in a chunk: its own tuples are those from `begin` to `end`.

    It takes in the tuples before them if `takes_in`, from the first one on for which the largest time exceeds `above`.
    """

    chunk: int
    begin: int
    end: int
    takes_in: bool
    above: int | None


class _Cut(NamedTuple):
    """A cut before a tuple: its number in the stream, its slice and row, its time, and what the chunk behind it takes in."""

    place: int
    slice: int
    row: int
    time: int
    loads_at: int | None
    bound: int
    first: int  # the number of the first slice that is taken in
    taken_in: int


class ChunkPlan(NamedTuple):
    """The chunks of a stream, and for each slice the parts of chunks in it."""

    chunks: list[Chunk]
    parts: list[list[Part]]


def plan_chunks(
    slices: Sequence[Mapping[str, Any]], division: TimeDivision | None, *, most: int, max_taken_in: float = MAX_TAKEN_IN
) -> ChunkPlan:
    """Return as many chunks as take in at most `max_taken_in` of the stream, at most `most`, with about as many tuples each.

    `slices` have the names of `TIMES`, and are in the order of the stream.
    """
    latest = list(accumulate((one["latest"] for one in slices), max))
    places = [0, *accumulate(one["tuples"] for one in slices)]
    cuts = [] if division is None else list(_cuts(slices, latest, places, division))
    chosen: list[_Cut] = []
    for count in range(min(most, len(cuts) + 1), 1, -1):
        found = (bisect_left(cuts, (places[-1] * number // count,)) for number in range(1, count))
        chosen = [cuts[place] for place in sorted({*found} - {len(cuts)})]
        if sum(cut.taken_in for cut in chosen) <= max_taken_in * places[-1]:
            break
        chosen = []
    chunks = []
    parts: list[list[Part]] = [[] for _ in slices]
    for number, (cut, following) in enumerate(zip([None, *chosen], [*chosen, None], strict=True)):
        before = latest[cut.first - 1] if cut is not None and cut.first else None
        ends_at = None if following is None else following.time
        chunks.append(
            Chunk(number, before, None if cut is None else cut.time, ends_at, None if cut is None else cut.loads_at)
        )
        for place in range(0 if cut is None else cut.first, len(slices) if following is None else following.slice + 1):
            size = slices[place]["tuples"]
            begin = 0 if cut is None or place > cut.slice else size if place < cut.slice else cut.row
            end = following.row if following is not None and place == following.slice else size
            takes_in = cut is not None and place <= cut.slice
            above = cut.bound if cut is not None and place == cut.first else None
            parts[place].append(Part(number, begin, end, takes_in, above))
    return ChunkPlan(chunks, parts)


def _cuts(
    slices: Sequence[Mapping[str, Any]], latest: Sequence[int], places: Sequence[int], division: TimeDivision
) -> Iterator[_Cut]:
    """Yield the cuts of a stream, at most one in each slice; `latest` are the largest times up to the slices' ends."""
    for number, one in enumerate(slices):
        earlier = [*latest[max(0, number - 1) : number], *([] if one["earlier"] is None else [one["earlier"]])]
        if not earlier or not len(division.cuts(np.array([one["time"]]), before=max(earlier))):
            continue
        moment = {"time": one["time"], "before": max(earlier)}
        bound = division.lower_bound(**moment)
        first = bisect_right(latest, bound, hi=number)
        place = places[number] + one["cut"]
        yield _Cut(place, number, one["cut"], one["time"], division.loads_at(**moment), bound, first, place - places[first])


class Divider(ShippedObject):
    """A function for `mapInArrow` that turns slices into their parts in tasks: one for each chunk and share of roots.

    A partition is a chunk and a share, and has the number of the chunk, times the shares, plus that of the share.
    """

    def __init__(
        self, parts: Mapping[tuple[str, int], Sequence[Part]], keys: Sequence[int], shares: int, division: EdgeDivision
    ) -> None:
        self._parts = dict(parts)
        self._keys = tuple(keys)
        self._shares = shares
        self._division = division if division.is_divided else None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, row, edges in zip(batch["file"].to_pylist(), batch["row"].to_pylist(), batch["edges"], strict=True):
                tuples = unpack_slice(edges)
                for part in self._parts[file, row]:
                    begin = 0
                    if part.above is not None:
                        times = np.maximum.accumulate(tuples["timestamp"].to_numpy()[: part.begin])
                        begin = int(np.searchsorted(times, part.above, side="right"))
                    if part.takes_in:
                        yield self._of_shares(tuples.slice(begin, part.begin - begin), part.chunk, file, row, is_own=False)
                    if part.end > part.begin:
                        yield self._of_shares(
                            tuples.slice(part.begin, part.end - part.begin), part.chunk, file, row, is_own=True
                        )

    def _of_shares(self, tuples: pa.Table, chunk: int, file: str, row: int, *, is_own: bool) -> pa.RecordBatch:
        packed = [_pack(one) for one in self._divided(tuples)]
        packed *= self._shares // len(packed)
        keys = self._keys[chunk * self._shares : (chunk + 1) * self._shares]
        return pa.record_batch(
            {
                "partition": pa.array(keys, pa.int32()),
                "file": [file] * self._shares,
                "row": pa.array([row] * self._shares, pa.int64()),
                "is_own": [is_own] * self._shares,
                "edges": pa.array(packed, pa.binary()),
            }
        )

    def _divided(self, tuples: pa.Table) -> list[pa.Table]:
        """Return the tuples that each share gets, with the first and the last one; or one table if all get the same.

        Where tuples are out of order, all of them are needed: even a tuple that a share does not read advances the time.
        """
        if self._division is None or not len(tuples) or (np.diff(tuples["timestamp"].to_numpy()) < 0).any():
            return [tuples]
        return [tuples.take(pa.array(np.union1d(rows, [0, len(tuples) - 1]))) for rows in self._division.rows(tuples)]


class ChunkEngines(ShippedObject):
    """The evaluation of parts of slices, in tasks: answer changes of the queries.

    `chunks` are divided over some `shares` of roots each; `memory_limit` (bytes) applies to each task.  `sizes` are the
    numbers of edges by label, which shape the division of patterns.  `nodes` are records of nodes, which each task has.
    """

    def __init__(
        self,
        queries: Sequence[rpq.Query],
        chunks: Sequence[Chunk],
        *,
        shares: int,
        threads: int,
        memory_limit: int | None,
        edges: EdgeModel,
        sizes: Mapping[str, int],
        nodes: pa.RecordBatch | None = None,
    ) -> None:
        self.queries = tuple(queries)
        self.keys = partition_keys(len(chunks) * shares)
        self._tasks = {
            self.keys[number * shares + share]: (chunk, Share.of(share, shares, sizes))
            for number, chunk in enumerate(chunks)
            for share in range(shares)
        }
        self._threads = threads
        self._memory_limit = memory_limit
        self._edges = edges
        self._nodes = nodes

    def rows(self, changes: Changes) -> pa.Table:
        """Return answer changes as a table, in which properties have the types of their columns."""
        return self._edges.cast(changes.to_arrow())

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Changes]:
        """Yield the answer changes of rows (partition, …, is_own, edges), in which each partition is in order."""
        parts = (
            part
            for batch in batches
            for part in zip(batch["partition"].to_pylist(), batch["is_own"].to_pylist(), batch["edges"], strict=True)
        )
        for key, of_task in groupby(parts, key=itemgetter(0)):
            chunk, share = self._tasks[key]
            engine = self._engine(share)
            times = self._times(chunk, engine)
            order = RecordOrder(self._nodes, before=chunk.before)
            for is_own, some in groupby(of_task, key=itemgetter(1)):
                tuples = (part for _, _, edges in some for part in order.among(unpack_slice(edges)))
                if is_own:
                    for part in tuples:
                        yield push_part(engine, part)
                else:
                    times.begin(engine, chain(tuples, order.until(chunk.begins_at)))
            for part in order.until(chunk.ends_at):
                yield push_part(engine, part)
            yield times.end(engine)

    def _engine(self, share: Share) -> Engine:
        limit = share_limit(self._memory_limit, threads=self._threads)
        options: dict[str, Any] = {"threads": self._threads, "memory_limit": limit, **self._edges.engine_options}
        return Engine(*self.queries, share=share, **options)

    @staticmethod
    def _times(chunk: Chunk, engine: Engine) -> TimeRange:
        """Return the times of a chunk for a new engine; timestamps are integers, and columns have one type throughout."""
        facts = None
        if chunk.number:
            nothing = engine._facts()
            facts = replace(nothing, times=nothing.times.with_type(pa.int64()), time=chunk.before)
        return TimeRange(facts=facts, begins_at=chunk.begins_at, ends_at=chunk.ends_at, loads_at=chunk.loads_at)
