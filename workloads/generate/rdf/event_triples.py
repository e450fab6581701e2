"""Events of a few triples each, put together to batches in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Term: TypeAlias = "pa.Array | str"
"""A term for each event, or one for all."""

Triple: TypeAlias = tuple[Term, str, Term]
"""Subject, predicate, object."""


@dataclass
class EventTriples:
    """The events of a block: added kind by kind, they come out in order of their keys, each whole.

    `has_streams` tells whether tuples carry the name of a stream.
    """

    has_streams: bool = False
    _columns: dict[str, list[pa.Array]] = field(default_factory=dict)
    _keys: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        key: np.ndarray,
        time: np.ndarray,
        event: pa.Array,
        *triples: Triple,
        stream: str | None = None,
    ) -> None:
        """Add an event for each of the keys, which are unique within a block, with its time, its IRI and its triples."""
        count = len(key)
        for place, (source, label, target) in enumerate(triples):
            self._put("source", _column(source, count))
            self._put("target", _column(target, count))
            self._put("label", _column(label, count))
            self._put("timestamp", pa.array(time, pa.int64()))
            if self.has_streams:
                self._put("stream", _column(str(stream), count))
            self._put("event", event)
            self._keys.append(np.stack([key, np.full(count, place)]))

    def batch(self) -> pa.RecordBatch:
        """What was added, in order. O(n log n)."""
        keys = np.concatenate(self._keys, axis=1)
        order = pa.array(np.lexsort((keys[1], keys[0])))
        return pa.RecordBatch.from_pydict(
            {name: pa.concat_arrays(parts).take(order) for name, parts in self._columns.items()}
        )

    def _put(self, name: str, values: pa.Array) -> None:
        self._columns.setdefault(name, []).append(values)


def _column(term: Term, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(term), count) if isinstance(term, str) else pc.cast(term, pa.string())


def cut(batch: pa.RecordBatch, done: int, edges: int) -> pa.RecordBatch:
    """A batch without what goes beyond the length of its stream, of which that many tuples are done."""
    return batch.slice(0, edges - done) if done + batch.num_rows > edges else batch
