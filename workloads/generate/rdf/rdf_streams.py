"""The streams of RDF by kind, and what does not change beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rpq.workloads.generate.rdf.changing_graph import changing_graph
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
from rpq.workloads.generate.rdf.weather_sensors import OBSERVATIONS, weather_sensors, weather_stations


class NoSuchStreamError(ValueError):
    """A name of a stream that a kind does not have."""


@dataclass(frozen=True, kw_only=True)
class RdfKind:
    """A kind of stream: its batches, its static triples if it has some, the unit of its times (None: positions).

    `streams` are the IRIs of the streams that its tuples belong to, none if they belong to the merged stream alone.
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
    """That many triples of a kind of stream, in order of time; of them only those of `stream`, an IRI or its
    last part, where it is given.

    Raises `NoSuchStreamError` for a stream that the kind does not have.
    """
    known = RDF_KINDS[kind]
    batches = known.make(edges=edges, seed=seed)
    if stream is None:
        return batches
    names = {name.rpartition("/")[2]: name for name in known.streams}
    if not names:
        raise NoSuchStreamError(f"{kind} is one stream without a name")
    if stream not in names and stream not in known.streams:
        raise NoSuchStreamError(f"{kind} has no stream {stream!r}: expected one of {', '.join(sorted(names))}")
    name = names.get(stream, stream)
    return (batch.filter(pc.equal(batch.column("stream"), name)).drop_columns(["stream"]) for batch in batches)
