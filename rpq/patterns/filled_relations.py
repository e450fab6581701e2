"""How a relation comes by the edges of a window that it is to hold, or is seen to hold them already."""

from __future__ import annotations

import numpy as np

from rpq.files.json_values import Damage
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.shared_relations import Content
from rpq.patterns.verdicts import NOT_HELD
from rpq.stream.chunk import Chunk

BYTES_AN_EDGE = 100
"""About what an edge takes: its record, its entries in the hash table and in two lists."""


def fill(
    host: PatternHost, content: Content, chunk: Chunk, mine: np.ndarray, slides: np.ndarray, *, is_checked: bool, query: str
) -> None:
    """Let a relation have those edges of a chunk that are `mine` and of its label; one that has edges keeps them.

    `slides` are those at which the edges leave. With `is_checked` an other content is an error. Raises `MemoryLimitError`,
    `Damage`. O(edges).
    """
    store, number = host.store, host.relations[content]
    is_empty = not store.edges_held(number)
    if not (is_empty or is_checked):
        return
    mine = mine & (chunk.label == host.relations.label_id(content.name))
    if content.loopless:
        mine &= chunk.source != chunk.target
    source, target, expires = chunk.source[mine], chunk.target[mine], slides[mine]
    if is_empty:
        host.ask_for(BYTES_AN_EDGE * len(source))
        store.fill_relation(number, source, target, chunk.timestamp[mine], expires)
    elif store.edges_held(number) != len(source) or (store.expiries(number, source, target, NOT_HELD) != expires).any():
        raise Damage(f"query {query!r} holds other edges than one that has the same")
