"""The rows of several queries on their way to the outputs of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from rpq.cli.outputs.sinks import QUERY_COLUMN, Sink
from rpq.results.typed_columns import without_terms


class QueryOutputs:
    """Divides rows over sinks by the query that they are of; `wants_terms` if one of these does.

    `sinks` have keys, `destinations` name the key for each query that has an output; the rows of others are dropped.  A
    sink that queries share gets their rows in time order.  The position is that of each sink, by key.
    """

    def __init__(self, sinks: Mapping[str, Sink], destinations: Mapping[str, str]) -> None:
        self._sinks = dict(sinks)
        numbers = {key: number for number, key in enumerate(self._sinks)}
        self._numbers = {query: numbers[key] for query, key in destinations.items()}
        self.wants_terms = any(sink.wants_terms for sink in self._sinks.values())

    @property
    def sinks(self) -> list[Sink]:
        """The outputs, each of which is closed or discarded for itself."""
        return list(self._sinks.values())

    def write(self, rows: pa.Table) -> None:
        """Write each row to its output. O(rows · log of the outputs that get any)."""
        if not rows.num_rows:
            return
        queries = rows.column(QUERY_COLUMN).combine_chunks().dictionary_encode()
        number = np.array([self._numbers.get(name, -1) for name in queries.dictionary.to_pylist()])
        output = number[queries.indices.to_numpy(zero_copy_only=False)]
        order = np.argsort(output, kind="stable")
        wanted, first = np.unique(output[order], return_index=True)
        sinks = self.sinks
        for number, start, end in zip(wanted.tolist(), first.tolist(), [*first[1:].tolist(), len(order)], strict=True):
            if number >= 0:
                own = rows if end - start == len(order) else rows.take(pa.array(order[start:end]))
                sinks[number].write(own if sinks[number].wants_terms else without_terms(own))

    def commit(self) -> dict[str, int | None]:
        """Put everything on disk; the positions by key."""
        return {key: sink.commit() for key, sink in self._sinks.items()}
