"""Which labels of the queries no tuple of the input ever had: mostly they are misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rpq.readers.column_names import did_you_mean

if TYPE_CHECKING:
    from rpq.queries.query import Query
    from rpq.readers import Batch

SHOWN = 20
"""So many labels have a message each: thousands of queries may have thousands."""

HINTS = 1000
"""So many labels of the input are kept, to say which one was meant."""


class LabelsSeen:
    """Watches the tuples of a run for the labels of its queries.

    O(rows) with a small constant a batch, nothing once all labels have been seen.  Memory: the labels of the queries,
    and `HINTS` of the input.
    """

    def __init__(self, queries: Iterable[Query]) -> None:
        self._unseen = {label: None for query in queries for label in sorted(query.named_labels)}
        self._others: dict[str, None] = {}
        self._is_empty = True

    def observed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass batches on, having looked at their labels."""
        for batch in batches:
            self.see(batch.columns)
            yield batch

    def see(self, tuples: pa.RecordBatch) -> None:
        """Look at some tuples."""
        self._is_empty = False
        self.look_at(tuples.column("label"))

    @property
    def never_seen(self) -> list[str]:
        """The labels that no tuple had so far, by query."""
        return list(self._unseen)

    def warnings(self) -> list[str]:
        """A message for each of the first `SHOWN` of them; none where there was no tuple at all."""
        if self._is_empty:
            return []
        known = list(self._others)
        labels = list(self._unseen)
        messages = [f"no tuple has the label {label!r}{did_you_mean(label, known)}" for label in labels[:SHOWN]]
        return [*messages, f"no tuple has {len(labels) - SHOWN:,} more of the labels"] if len(labels) > SHOWN else messages

    def look_at(self, labels: pa.Array) -> None:
        """See the labels of some edges."""
        if not self._unseen:
            return
        if not pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_encode()
        names = labels.dictionary
        counts = np.bincount(labels.indices.to_numpy(zero_copy_only=False), minlength=len(names))
        for name in names.take(pa.array(np.flatnonzero(counts))).to_pylist():  # others were left out with their tuples
            self._unseen.pop(name, None)
            if len(self._others) < HINTS:
                self._others[name] = None
