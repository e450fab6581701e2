"""Which edges a share has to see: all of paths, and of a question around one vertex those of its own vertices.

Where a column is the centre of a pattern or of a question in SPARQL (`Query.centre`), a row is made of edges at the vertex
that it has there, and the share that has this vertex answers for it.  The others need not see these edges.  Everything else
is answered by every share as a whole, and only its rows are divided (`rpq.spark.divided`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import rpq
from rpq.queries.protocol import Division
from rpq.stream.vertices import VertexDictionary

_ENDS = ("source", "target")


class OwnEdges:
    """Picks the edges that a share has to see for some queries.

    >>> query = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1))
    >>> edges = pa.table({"source": ["u", "w"], "target": ["v", "v"], "label": ["a", "a"]})
    >>> [len(OwnEdges([query], share=(number, 2)).of(edges)) for number in (0, 1)]
    [1, 1]
    """

    def __init__(self, queries: Sequence[rpq.Query], *, share: tuple[int, int]) -> None:
        self._division = Division(1, share)
        self._whole: list[rpq.Query] = []
        self._at: dict[str, set[str]] = {"source": set(), "target": set()}
        for query in queries:
            if query.centre is None:
                self._whole.append(query)
            else:
                self._at["source"] |= query.centre.sources
                self._at["target"] |= query.centre.targets
        self.are_all = share[1] == 1 or len(self._whole) == len(queries)

    def of(self, tuples: pa.Table) -> pa.Table:
        """The tuples that matter to the share. O(tuples)."""
        if self.are_all or not len(tuples):
            return tuples
        labels = tuples["label"].combine_chunks().dictionary_encode()
        names, codes = labels.dictionary.to_pylist(), labels.indices.to_numpy()
        needed = np.array([any(query.reads(name) for query in self._whole) for name in names], bool)[codes]
        for end in _ENDS:
            asked = np.array([name in self._at[end] for name in names], bool)[codes]
            if asked.any():
                needed |= asked & self._own(tuples[end].combine_chunks())
        return tuples if needed.all() else tuples.filter(pa.array(needed))

    def in_order(self, tuples: pa.Table, time: int | None) -> tuple[pa.Table, int | None]:
        """The same of tuples that come at stream time `time`, and the time after all of them where some are left out.

        Where they are out of order all are given: one that matters to nobody here moves the time for the next.
        """
        if self.are_all or not len(tuples):
            return tuples, None
        stamps = tuples["timestamp"].to_numpy()
        if (time is not None and stamps[0] < time) or (np.diff(stamps) < 0).any():
            return tuples, None
        own = self.of(tuples)
        return own, None if len(own) == len(tuples) else int(stamps[-1])

    def _own(self, names: pa.Array) -> np.ndarray:
        """Which names are those of the share's vertices."""
        encoded = names.dictionary_encode()
        vertices = VertexDictionary()
        distinct = encoded.dictionary
        distinct = distinct.cast(pa.int64() if pa.types.is_integer(distinct.type) else pa.string())
        ids, _ = vertices.intern(distinct, np.ones(len(distinct), np.uint8))
        (own,) = self._division.owned(vertices.hashes(ids))
        found: np.ndarray = own[encoded.indices.to_numpy()]
        return found
