"""The state of a stream that goes on with other shares or other queries (`rpq.spark.rescaling`): what new shares begin with.

Every share has the same window in its state, so that of one is all that others need, however many they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.engine import Engine
from rpq.files.sealed import damaged
from rpq.spark.packed import TUPLES, packed, unpacked
from rpq.spark.shipped import Shipped
from rpq.spark.window_log import MemoryChunks, WindowLog
from rpq.stream.stream_time import windows_of
from rpq.stream.window import Window

_COLUMNS = ("source", "target", "label", "timestamp")
_NAME = "the window that moves to other shares"


@dataclass(frozen=True, kw_only=True)
class MovedState(Shipped):
    """The state of one share: its window as a packed table (None: it is empty), and what waits; and figures of its record.

    `identity` is that of the records whose place it takes. `reach` is the window that had the longest memory before, and
    `added` are the queries that are new: they answer from what is there.
    """

    identity: str
    tuples: bytes | None
    waiting: tuple[bytes, ...]
    version: int
    time: int
    came: int
    late: int
    reach: Window
    added: tuple[rpq.Query, ...]

    @classmethod
    def of(
        cls,
        log: WindowLog,
        *,
        waiting: Sequence[bytes],
        figures: Mapping[str, int],
        identity: str,
        added: Sequence[rpq.Query],
    ) -> MovedState:
        """What is in a log at the time that the figures of its share tell. Raises `StateFormatError` if it is damaged."""
        time = figures["time"]
        edges = log.edges(time=time)
        windows = (window for query in log.queries for window in windows_of(query) if isinstance(window, Window))
        return cls(
            identity=identity,
            tuples=None if edges is None or not len(edges) else packed(edges.sort_by("timestamp").combine_chunks()),
            waiting=tuple(waiting),
            version=figures["version"],
            time=time,
            came=figures["tuples"],
            late=figures["late"],
            reach=min(windows, key=lambda window: window.lower_bound(time)),
            added=tuple(added),
        )

    def edges(self) -> pa.Table | None:
        """The window: the edges of the snapshot graph, the oldest first; None if there are none."""
        return None if self.tuples is None else unpacked(self.tuples, columns=_COLUMNS, name=_NAME)

    def log(self, chunks: MemoryChunks, queries: Sequence[rpq.Query]) -> WindowLog:
        """The window as the log that these queries keep, written to `chunks`."""
        log = WindowLog(chunks=chunks, queries=queries)
        edges = self.edges()
        if edges is not None:
            labels = edges["label"].unique().to_pylist()
            read = [label for label in labels if any(query.reads(label) for query in queries)]
            edges = edges.filter(pc.is_in(edges["label"], pa.array(read, edges["label"].type)))
        if edges is not None and len(edges):
            log.append(edges.append_column("delete", pa.array([False] * len(edges))), time=self.time)
        return log

    def first_rows(self, *, share: tuple[int, int], threads: int, memory_limit: int) -> pa.Table | None:
        """The rows with which the new queries begin in a share, as `Engine.register` gives them; None without any."""
        if not self.added:
            return None
        engine = Engine(keep=self.reach, share=share, threads=threads, memory_limit=memory_limit)
        engine.advance(self.time)
        edges = self.edges()
        if edges is not None:
            try:
                engine.push(edges, collect=False)
            except rpq.InputError as problem:
                raise damaged(TUPLES, _NAME, str(problem)) from problem
        return engine.register(self.added).to_arrow()
