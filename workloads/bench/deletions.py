"""Generated deletes for a stream without deletes.

After each insert into the window, with the given probability, an edge drawn uniformly from the window is deleted at stream
time τ (Pacaci et al. 2020, section 5: consumed edges are inserted again as negative tuples).  At τ, after expiry, the window
contains the distinct edges with a label that the query uses, each with its largest timestamp.  An insert that is irrelevant
or late changes nothing and draws nothing.

The coins are functions of a counter, not of a stateful generator: the n-th insert has the n-th coin, regardless of batch
boundaries and library versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

_INT64_MAX = 2**63 - 1
_NEVER = 2**64
_EDGE, _PLACE, _EXPIRY = range(3)

Edge = tuple[Any, str, Any]


class Deletions:
    """A generator of deletes, which are added to a stream batch by batch.

    `size` and `slide` are those of the window, in the stream's time unit; `is_relevant` returns whether the query uses a
    label; `percent` is between 0 and 100.  Memory: the window, including deleted edges.  Time: about 3 µs per tuple.

    >>> columns = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 2]}
    >>> deletions = Deletions(size=10, slide=1, percent=100, seed=7, is_relevant=lambda label: True)
    >>> for row in zip(*deletions.extend(pa.RecordBatch.from_pydict(columns)).to_pydict().values()):
    ...     print(*row)
    x y a 1 False
    x y a 1 True
    y z a 2 False
    y z a 2 True
    """

    def __init__(self, *, size: int, slide: int, percent: float, seed: int, is_relevant: Callable[[str], bool]) -> None:
        self._size = size
        self._slide = slide
        self._threshold = int(percent / 100 * 2**53)
        self._seed = seed % 2**64
        self._is_relevant = is_relevant
        self._inserts = 0
        self._time: int | None = None
        self._places: dict[
            Edge, list[Any]
        ] = {}  # edge → [edge, its position in the window, the slide at which it expires]
        self._window: list[list[Any]] = []  # the same entries in arbitrary order, so that one can be drawn
        self._entries_by_slide: dict[int, list[list[Any]]] = {}  # entries that may expire at a slide, deleted ones too
        self._next_slide = _NEVER  # the earliest slide at which an edge expires

    def extend(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the tuples of a batch with each delete after the insert that drew it, and with a column `delete`."""
        timestamps = batch.column("timestamp").to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        deletes = (
            batch.column("delete").to_numpy(zero_copy_only=False)
            if "delete" in batch.schema.names
            else np.zeros(len(timestamps), dtype=bool)
        )
        times = (
            np.maximum.accumulate(timestamps)
            if self._time is None
            else np.maximum(np.maximum.accumulate(timestamps), self._time)
        )
        drawn = self._draw(batch, timestamps, times, deletes)
        if len(timestamps):
            self._time = int(times[-1])
        columns = {name: batch.column(name) for name in ("source", "target", "label", "timestamp")}
        if pa.types.is_dictionary(columns["label"].type):
            columns["label"] = columns["label"].dictionary_decode()
        columns["delete"] = pa.array(deletes)
        if not drawn:
            return pa.RecordBatch.from_pydict(columns)
        behind = np.array([row for row, _ in drawn], dtype=np.int64)
        edges = [edge for _, edge in drawn]
        added = {
            "source": pa.array([edge[0] for edge in edges], columns["source"].type),
            "target": pa.array([edge[2] for edge in edges], columns["target"].type),
            "label": pa.array([edge[1] for edge in edges], columns["label"].type),
            "timestamp": pa.array(times[behind]),
            "delete": pa.array(np.ones(len(edges), dtype=bool)),
        }
        order = np.argsort(np.concatenate([np.arange(len(timestamps)), behind]), kind="stable")
        return pa.RecordBatch.from_pydict(
            {name: pa.concat_arrays([columns[name], added[name]]).take(pa.array(order)) for name in columns}
        )

    def _draw(
        self, batch: pa.RecordBatch, timestamps: np.ndarray, times: np.ndarray, deletes: np.ndarray
    ) -> list[tuple[int, Edge]]:
        """Add the rows of a batch to the window; return the edges that are deleted, each with the row before it."""
        labels = batch.column("label")
        if not pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_encode()
        names = labels.dictionary.to_pylist()
        codes = labels.indices.to_numpy(zero_copy_only=False)
        relevant = np.array([self._is_relevant(name) for name in names], dtype=bool)[codes]
        fits = timestamps <= _INT64_MAX - self._size  # the engine rejects other timestamps
        if not fits.all():
            # A rejected tuple does not advance the time, so only the other timestamps count.
            valid_times = np.where(fits, timestamps, np.iinfo(np.int64).min)
            np.maximum.accumulate(valid_times, out=times)
            if self._time is not None:
                np.maximum(times, self._time, out=times)
        slides = times // self._slide
        expiries = -((-(np.where(fits, timestamps, 0) + self._size)) // self._slide)
        useful = relevant & fits & (deletes | (expiries > slides))
        rows = np.flatnonzero(useful)
        coins, draws = self._numbers(np.cumsum(~deletes[rows]))
        drawn: list[tuple[int, Edge]] = []
        places, window, leaving, next_slide = self._places, self._window, self._entries_by_slide, self._next_slide
        for row, source, target, code, slide, expiry, delete, coin, draw in zip(
            rows.tolist(),
            batch.column("source").take(pa.array(rows)).to_pylist(),
            batch.column("target").take(pa.array(rows)).to_pylist(),
            codes[rows].tolist(),
            slides[rows].tolist(),
            expiries[rows].tolist(),
            deletes[rows].tolist(),
            (coins < self._threshold).tolist(),
            draws.tolist(),
            strict=True,
        ):
            if slide >= next_slide:
                next_slide = self._expire(slide)
            edge = (source, names[code], target)
            entry = places.get(edge)
            if delete:
                if entry is not None:
                    self._remove(entry)
                continue
            if entry is None:
                entry = places[edge] = [edge, len(window), expiry]
                window.append(entry)
            elif entry[_EXPIRY] < expiry:
                entry[_EXPIRY] = expiry
            else:
                expiry = None
            if expiry is not None:
                if expiry in leaving:
                    leaving[expiry].append(entry)
                else:
                    leaving[expiry] = [entry]
                    next_slide = min(next_slide, expiry)
            if coin:
                entry = window[draw * len(window) >> 53]
                self._remove(entry)
                drawn.append((row, entry[_EDGE]))
        self._next_slide = next_slide
        self._inserts += int((~deletes[rows]).sum())
        return drawn

    def _numbers(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coin of each insert and the number that draws its edge, both of 53 bits; ranks count from 1."""
        counters = (np.uint64(self._inserts) + ranks.astype(np.uint64)) * np.uint64(2)
        return _splitmix(self._seed, counters), _splitmix(self._seed, counters + np.uint64(1))

    def _remove(self, entry: list[Any]) -> None:
        """Remove an edge from the window, and move the last edge of the window to its position."""
        edge, place, _ = entry
        del self._places[edge]
        last = self._window.pop()
        if last is not entry:
            self._window[place] = last
            last[_PLACE] = place
        entry[_EXPIRY] = _NEVER

    def _expire(self, slide: int) -> int:
        """Remove the edges that expire up to a slide; return the next slide at which an edge expires."""
        for expiry in sorted(expiry for expiry in self._entries_by_slide if expiry <= slide):
            for entry in self._entries_by_slide.pop(expiry):
                if entry[_EXPIRY] == expiry:
                    self._remove(entry)
        return min(self._entries_by_slide, default=_NEVER)


def _splitmix(seed: int, counters: np.ndarray) -> np.ndarray:
    """Return a pseudo-random 53-bit number for each counter (splitmix64; Steele, Lea, Flood 2014)."""
    values = counters * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return ((values ^ (values >> np.uint64(31))) >> np.uint64(11)).astype(np.int64)
