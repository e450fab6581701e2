"""The streams of RDF by kind, their static triples, and a changing graph.

The changing graph has few vertices, and a third of its tuples are deletes (Gergatsoulis, Damigos).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.workloads.generate.rdf.linked_stream import (
    LIKED_PHOTOS,
    LIKED_POSTS,
    PHOTOS,
    POSTS,
    linked_people,
    linked_stream,
)
from rpq.workloads.generate.rdf.social_network import social_network
from rpq.workloads.generate.rdf.taxi_rides import STREAMS, taxi_rides
from rpq.workloads.generate.rdf.taxi_trips import taxi_trips
from rpq.workloads.generate.rdf.terms import choose_terms, numbered_iris
from rpq.workloads.generate.rdf.weather_sensors import OBSERVATIONS, weather_sensors, weather_stations
from rpq.workloads.generate.sampling import BLOCK, blocks, power_law, uniform

VOCABULARY = "http://example.org/changing#"
ENTITIES, HUBS, NEIGHBOURS = 200, 5, 5
_KIND, _ENTITY, _OTHER, _LAG = range(4)


def changing_graph(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate inserts, and deletes of inserted edges: source, target, label, timestamp (positions), delete, event."""
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
                "event": numbered_iris(f"{VOCABULARY}event", number),
            }
        )


def _edge(number: np.ndarray, seed: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the edge that is inserted at a position."""
    kind = (uniform(seed, _KIND, number) * 5).astype(np.int64)
    entity = (uniform(seed, _ENTITY, number) ** 2 * ENTITIES).astype(np.int64)
    chance = uniform(seed, _OTHER, number)
    hub = numbered_iris(f"{VOCABULARY}h", (chance * HUBS).astype(np.int64))
    near = numbered_iris(f"{VOCABULARY}e", (entity * 7 + (chance * NEIGHBOURS).astype(np.int64)) % ENTITIES)
    one = numbered_iris(f"{VOCABULARY}e", entity)
    ends = pa.concat_arrays([hub, one, near])
    hubs, ones, nears = np.arange(3 * len(number)).reshape(3, -1)
    source = np.where(kind == 2, hubs, ones)
    target = np.select([kind == 2, kind >= 3], [ones, nears], hubs)
    label = choose_terms([VOCABULARY + name for name in ("p0", "p1", "p2", "p0", "p2")], kind)
    return ends.take(pa.array(source)), label, ends.take(pa.array(target))


class NoSuchStreamError(ValueError):
    """An unknown name of a stream of some kind."""


@dataclass(frozen=True, kw_only=True)
class RdfKind:
    """A kind of stream: functions for its batches and its static triples, if any, and the unit of its times.

    `streams` contains the IRIs of the streams that its tuples belong to, or nothing if they belong only to the merged
    stream. `unit` is None if times are positions.
    """

    make: Callable[..., Iterator[pa.RecordBatch]]
    streams: tuple[str, ...] = ()
    static: Callable[..., pa.RecordBatch] | None = None
    unit: str | None = "s"


RDF_KINDS: Mapping[str, RdfKind] = {
    "taxi": RdfKind(make=taxi_trips),
    "rides": RdfKind(make=taxi_rides, streams=tuple(STREAMS + name for name in ("pickup", "dropoff", "fare"))),
    "social": RdfKind(make=social_network),
    "linked-stream": RdfKind(
        make=linked_stream, streams=(POSTS, LIKED_POSTS, PHOTOS, LIKED_PHOTOS), static=linked_people, unit="ms"
    ),
    "sensors": RdfKind(make=weather_sensors, streams=(OBSERVATIONS,), static=weather_stations),
    "changing": RdfKind(make=changing_graph, unit=None),
}


def rdf_stream(*, edges: int, seed: int, kind: str = "taxi", stream: str | None = None) -> Iterator[pa.RecordBatch]:
    """Generate `edges` triples of a kind of stream, in order of time.

    With `stream`, an IRI or its last part, only the triples of this stream are returned. Raises `NoSuchStreamError` for a
    stream that the kind does not have.
    """
    stream_kind = RDF_KINDS[kind]
    batches = stream_kind.make(edges=edges, seed=seed)
    if stream is None:
        return batches
    names = {name.rpartition("/")[2]: name for name in stream_kind.streams}
    if not names:
        raise NoSuchStreamError(f"{kind} is one stream without a name")
    if stream not in names and stream not in stream_kind.streams:
        raise NoSuchStreamError(f"{kind} has no stream {stream!r}: expected one of {', '.join(sorted(names))}")
    name = names.get(stream, stream)
    return (batch.filter(pc.equal(batch.column("stream"), name)).drop_columns(["stream"]) for batch in batches)
