"""A graph of few vertices whose edges come and go: a third of the tuples are deletes (Gergatsoulis, Damigos)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.batches import BLOCK, blocks
from rpq.workloads.generate.draws import power_law, uniform
from rpq.workloads.generate.rdf.term_columns import chosen, numbered

VOCABULARY = "http://example.org/changing#"
ENTITIES, HUBS, NEIGHBOURS = 200, 5, 5
_KIND, _ENTITY, _OTHER, _LAG = range(4)


def changing_graph(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Inserts, and deletes of what was inserted: source, target, label, timestamp (positions), delete, event."""
    for number in blocks(edges, BLOCK):
        is_delete = number % 3 == 2
        lag = power_law(uniform(seed, _LAG, number), 2_000, head=100, exponent=2.0)
        insert = np.where(is_delete, np.maximum(number // 3 - lag, 0) * 3 + lag % 2, number)
        source, label, target = _edge(insert, seed)
        yield pa.RecordBatch.from_pydict(
            {
                "source": source,
                "target": target,
                "label": label,
                "timestamp": number,
                "delete": is_delete,
                "event": numbered(f"{VOCABULARY}event", number),
            }
        )


def _edge(number: np.ndarray, seed: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The edge that is inserted at a position."""
    kind = (uniform(seed, _KIND, number) * 5).astype(np.int64)
    entity = (uniform(seed, _ENTITY, number) ** 2 * ENTITIES).astype(np.int64)
    chance = uniform(seed, _OTHER, number)
    hub = numbered(f"{VOCABULARY}h", (chance * HUBS).astype(np.int64))
    near = numbered(f"{VOCABULARY}e", (entity * 7 + (chance * NEIGHBOURS).astype(np.int64)) % ENTITIES)
    one = numbered(f"{VOCABULARY}e", entity)
    ends = pa.concat_arrays([hub, one, near])
    hubs, ones, nears = np.arange(3 * len(number)).reshape(3, -1)
    source = np.where(kind == 2, hubs, ones)
    target = np.select([kind == 2, kind >= 3], [ones, nears], hubs)
    label = chosen([VOCABULARY + name for name in ("p0", "p1", "p2", "p0", "p2")], kind)
    return ends.take(pa.array(source)), label, ends.take(pa.array(target))
