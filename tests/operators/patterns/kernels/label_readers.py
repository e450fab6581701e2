"""Labels that relations of a store read, as the host of patterns sets them."""

from __future__ import annotations

from collections.abc import Sequence

from rpq.operators.patterns import tables
from rpq.operators.patterns.relations.relation import LabelReaders, RelationStore


def readers_of(store: RelationStore, relations: Sequence[int]) -> LabelReaders:
    """Return the readers of a label that are these relations, and those of their windows that number inserts."""
    windows = [int(store.relations.relation["window"][relation]) for relation in relations]
    kinds = store.relations.window["kind"]
    return LabelReaders(relations, [window for window in windows if kinds[window] == tables.COUNT_WINDOW])
