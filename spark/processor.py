"""The stateful processor: one root partition of the queries, from micro-batch to micro-batch.

In the state is the window, as a log (`rpq.spark.window_log`), and a record of figures.  The engine with its index is a
cache in the Python worker.  Workers are handed out as they are free, so a worker may never have seen this partition,
or may have missed its last micro-batches, or may hold the outcome of an attempt that failed.  Therefore each
micro-batch writes a new random token into the state and the cache keeps the token that it belongs to: an engine whose
token the state never had is never used.  One whose token the state had some micro-batches ago catches up with the
tuples since; where there is none, the engine is built again from the window.
"""

from __future__ import annotations

import json
import secrets
import time as clock
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import rpq
from rpq.program import Compiled
from rpq.spark.envelopes import unpack
from rpq.spark.errors import PipelineError
from rpq.spark.window_log import WindowLog

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

FORMAT = 1
"""Version of what is in the state; a checkpoint of another one is refused."""

PUSHED_ROWS = 1 << 14
"""Tuples pushed at once: their answer changes are in memory together."""

FRAME_ROWS = 1 << 16
"""Answer changes handed to Spark at once."""

REMEMBERED = 64
"""Earlier versions from which an engine can catch up."""

CACHED_ENGINES = 8
"""Engines that a worker keeps at most; the one used longest ago goes."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The figures of a partition beside the window.

    `stream` tells this state from any other, `token` its versions from one another.  `history` (JSON) has the tokens
    of the last versions and the `order` at which the log stood, `parts` (JSON) is that of `WindowLog`.  `hits` counts
    how often the cache held the engine, `catch_ups` how often one of an earlier version, `rebuilds` how often none.
    """

    format: int = FORMAT
    identity: str
    stream: str
    token: str
    version: int = 0
    time: int = 0
    order: int = 0
    tuples: int = 0
    late: int = 0
    hits: int = 0
    catch_ups: int = 0
    rebuilds: int = 0
    catch_up_seconds: float = 0.0
    rebuild_seconds: float = 0.0
    engine_seconds: float = 0.0
    history: str = "[]"
    parts: str = "{}"


_SQL_TYPES = {"int": "bigint", "float": "double", "str": "string"}
RECORD_SCHEMA = ", ".join(f"{field.name} {_SQL_TYPES[str(field.type)]}" for field in fields(Record))


class EngineCache:
    """Engines by stream, each with the token of the state that it stands for."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[str, rpq.Engine]] = OrderedDict()

    def take(self, stream: str) -> tuple[str, rpq.Engine] | None:
        """What is kept of a stream; it leaves the cache, so that no one sees an engine that failed half-way."""
        return self._held.pop(stream, None)

    def put(self, stream: str, token: str, engine: rpq.Engine) -> None:
        """Keep an engine."""
        self._held[stream] = (token, engine)
        while len(self._held) > CACHED_ENGINES:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()


cache = EngineCache()
"""The cache of this worker process."""


class AnswerChanges(StatefulProcessor):
    """Takes envelopes of edges, gives answer changes; the key is that of a root partition.

    `numbers` are the numbers of the partitions by their keys.
    """

    def __init__(self, queries: Sequence[rpq.Query], *, numbers: Mapping[int, int], memory_limit: int | None) -> None:
        self._queries = tuple(queries)
        self._numbers = dict(numbers)
        self._memory_limit = memory_limit
        self._identity = identity_of(self._queries, len(self._numbers))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._record = handle.getValueState("record", RECORD_SCHEMA)
        self._window = handle.getMapState("window", "bucket bigint, part bigint", "tuples binary")
        compiled = [Compiled(query.dfa) for query in self._queries]
        self._is_relevant = lambda label: any(one.is_relevant(label) for one in compiled)

    def handleInputRows(self, key: Any, rows: Iterable[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Apply a micro-batch."""
        envelopes = [envelope for frame in rows for envelope in frame["edges"]]
        if not envelopes:
            return
        tuples = unpack(envelopes)
        record = self._read_record()
        log = WindowLog(
            chunks=_Chunks(self._window),
            queries=self._queries,
            parts={int(bucket): parts for bucket, parts in json.loads(record.parts).items()},
            order=record.order,
        )
        engine, record = self._engine(self._numbers[int(key[0])], log, record)
        late = []
        seconds = 0.0
        for start in range(0, len(tuples), PUSHED_ROWS):
            started = clock.perf_counter()
            changes = engine.push(tuples.slice(start, PUSHED_ROWS))
            seconds += clock.perf_counter() - started
            late.append(changes.late_rows + start)
            yield from _frames(changes.to_arrow())
        late_rows = np.concatenate(late)
        assert engine.time is not None
        token = secrets.token_hex(8)
        log.append(self._worth_keeping(tuples, late_rows), time=engine.time)
        record = replace(
            record,
            token=token,
            version=record.version + 1,
            time=engine.time,
            order=log.order,
            tuples=record.tuples + len(tuples),
            late=record.late + len(late_rows),
            engine_seconds=record.engine_seconds + seconds,
            history=json.dumps([*json.loads(record.history), (token, log.order)][-REMEMBERED:]),
            parts=json.dumps(log.parts),
        )
        self._record.update(tuple(asdict(record).values()))
        cache.put(record.stream, record.token, engine)

    def close(self) -> None:
        """Nothing to close: what is cached stays."""

    def _read_record(self) -> Record:
        found = self._record.get() if self._record.exists() else None
        if found is None:
            return Record(identity=self._identity, stream=secrets.token_hex(8), token="")
        record = Record(**dict(zip((field.name for field in fields(Record)), tuple(found), strict=True)))
        if record.format != FORMAT:
            raise PipelineError(f"the checkpoint has state of format {record.format}; this release reads format {FORMAT}")
        if record.identity != self._identity:
            raise PipelineError(
                f"the checkpoint belongs to {record.identity}, not to {self._identity}; "
                "start with a new checkpoint, or with the queries and partitions of this one"
            )
        return record

    def _engine(self, number: int, log: WindowLog, record: Record) -> tuple[rpq.Engine, Record]:
        """An engine that stands where the state does, and the record with how it was come by."""
        started = clock.perf_counter()
        held = cache.take(record.stream)
        if held is not None and held[0] == record.token:
            return held[1], replace(record, hits=record.hits + 1)
        order = dict(json.loads(record.history)).get(held[0]) if held is not None else None
        if held is not None and order is not None:
            engine = held[1]
            missed = log.since(order)
            if missed is not None:
                engine.push(missed, collect=False)
            engine.advance(record.time)
            seconds = record.catch_up_seconds + clock.perf_counter() - started
            return engine, replace(record, catch_ups=record.catch_ups + 1, catch_up_seconds=seconds)
        engine = rpq.Engine(*self._queries, share=(number, len(self._numbers)), memory_limit=self._memory_limit)
        if not record.version:
            return engine, record
        engine.advance(record.time)
        edges = log.edges(time=record.time)
        if edges is not None:
            # The youngest first, so that each cell of the index gets its final value at once.
            engine.push(edges, collect=False)
        seconds = record.rebuild_seconds + clock.perf_counter() - started
        return engine, replace(record, rebuilds=record.rebuilds + 1, rebuild_seconds=seconds)

    def _worth_keeping(self, tuples: pa.Table, late_rows: np.ndarray) -> pa.Table:
        """The tuples without those that no query knows the label of and those that came too late."""
        labels = tuples["label"].combine_chunks().dictionary_encode()
        relevant = np.array([self._is_relevant(label) for label in labels.dictionary.to_pylist()], bool)
        kept = relevant[labels.indices.to_numpy()]
        kept[late_rows] = False
        return tuples.filter(pa.array(kept))


def identity_of(queries: Sequence[rpq.Query], partitions: int) -> str:
    """What must be the same for a checkpoint to be gone on with, as text."""
    described = []
    for query in queries:
        ends = {
            name: sorted(map(repr, value)) for name in ("sources", "targets") if (value := getattr(query, name)) is not None
        }
        described.append(
            {
                "name": query.name,
                "expression": query.expression,
                "window": {"size": query.window.size, "slide": query.window.slide},
                "paths": query.paths,
                "semantics": query.semantics,
                **ends,
            }
        )
    return json.dumps({"queries": described, "partitions": partitions})


class _Chunks:
    """The parts of a window log in a map state."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def read(self, bucket: int, part: int) -> bytes:
        value = self._state.getValue((bucket, part))
        if value is None:
            raise PipelineError(f"the state lacks part {part} of bucket {bucket} of the window")
        return bytes(value[0])

    def write(self, bucket: int, part: int, data: bytes) -> None:
        self._state.updateValue((bucket, part), (data,))

    def remove(self, bucket: int, part: int) -> None:
        self._state.removeKey((bucket, part))


def _frames(changes: pa.Table) -> Iterator[pd.DataFrame]:
    """Rows as frames of Python objects, equal texts of a frame being one: Spark takes no Arrow-backed columns."""
    for start in range(0, len(changes), FRAME_ROWS):
        yield changes.slice(start, FRAME_ROWS).to_pandas()
