"""The generators by name: each is a function (edges, seed) → batches of source, target, label, timestamp[, delete].

Short generators are defined here, longer generators in separate modules:

* `like_taxi`: taxi rides in a city. A ride has edges from a vehicle to both places (`pickup`, `dropoff`), an edge between
  these places (`ride`), and an edge to the driver (`driver`). Few places have most rides. The names of vehicles begin with
  v, of drivers with d, of places with z; timestamps are seconds.
* `like_biogrid`: interactions between proteins, with one label and few vertices, so every tuple concerns every query. Few
  proteins have most interactions. Timestamps are positions.
* The streams of the cookbook, with planted answers; timestamps are seconds. See `use_cases.py`.
* `like_yago`: facts like those of YAGO 2s, with a hundred labels between types; timestamps are positions. See `facts.py`.
* `like_gmark`: graphs of a gMark schema, with independent edges; timestamps are positions. gMark generates a whole graph
  relation by relation; here the relations are mixed as in a shuffled graph, edge by edge, in bounded memory. The ends of
  the k-th edge of a relation follow its distributions: a side that is not zipfian cycles through its vertices in a fixed
  random order, so all have the same degree (exactly for gMark's uniform 1 to 1, otherwise in the mean); a zipfian side is
  drawn by rank. Vertices are numbers, with a range for each type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.facts import like_yago
from rpq.workloads.generate.interactions import like_stackoverflow
from rpq.workloads.generate.ldbc_updates import like_ldbc
from rpq.workloads.generate.rdf.rdf_streams import rdf_stream
from rpq.workloads.generate.sampling import BLOCK, blocks, permute, power_law, uniform, vertex_names
from rpq.workloads.generate.use_cases import USE_CASES
from rpq.workloads.gmark.schema import SOCIAL, Distribution, Schema

LABELS = ("pickup", "dropoff", "ride", "driver")
START = 1_357_000_000
RIDES_AN_HOUR = 20_000
_VEHICLE, _FROM, _TO, _DRIVER = range(4)
_RIDE = len(LABELS)


def like_taxi(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate `edges` tuples in order of time (seconds), four for each ride."""
    places = max(50, edges // 4)
    vehicles = max(10, edges // 100)
    for position in blocks(edges, BLOCK):
        ride, part = position // _RIDE, position % _RIDE
        vehicle = np.floor(uniform(seed, _VEHICLE, ride) * vehicles).astype(np.int64)
        begin = power_law(uniform(seed, _FROM, ride), places, head=20, exponent=1.4)
        end = power_law(uniform(seed, _TO, ride), places, head=20, exponent=1.4)
        shift = np.floor(uniform(seed, _DRIVER, ride) * 3).astype(np.int64)
        source = np.where(part == 2, begin, vehicle)
        target = np.choose(part, [begin, end, end, vehicle * 3 + shift])
        kinds = pa.array(["v", "z", "d"])
        yield pa.record_batch(
            {
                "source": vertex_names(kinds.take(pa.array(np.where(part == 2, 1, 0))), source),
                "target": vertex_names(kinds.take(pa.array(np.where(part == 3, 2, 1))), target),
                "label": pa.array(LABELS).take(pa.array(part)),
                "timestamp": pa.array(START + ride * 3600 // RIDES_AN_HOUR),
            }
        )


LABEL = "interacts"
EDGES_A_PROTEIN = 6
_ONE, _OTHER = range(2)


def like_biogrid(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate `edges` tuples, some of which repeat an edge."""
    proteins = max(20, edges // EDGES_A_PROTEIN)
    for position in blocks(edges, BLOCK):
        ends = [power_law(uniform(seed, purpose, position), proteins, head=30, exponent=1.3) for purpose in (_ONE, _OTHER)]
        yield pa.record_batch(
            {
                "source": vertex_names("g", ends[0]),
                "target": vertex_names("g", np.where(ends[0] == ends[1], (ends[1] + 1) % proteins, ends[1])),
                "label": pa.array([LABEL]).take(pa.array(np.zeros(len(position), np.int64))),
                "timestamp": pa.array(position),
            }
        )


_RELATION, _ENDS = 0, 10


def like_gmark(*, edges: int, seed: int, schema: Schema = SOCIAL) -> Iterator[pa.RecordBatch]:
    """Generate a graph of the schema with `edges` edges; labels are those of the schema, and vertices are text."""
    size = schema.vertices_for(edges)
    counts = {name: max(1, round(part * size)) for name, part in schema.types.items()}
    starts = dict(zip(counts, np.concatenate([[0], np.cumsum([*counts.values()])]).tolist(), strict=False))
    weights = np.array([r.count(counts[r.source], counts[r.target]) for r in schema.relations])
    shares = np.cumsum(weights / weights.sum())[:-1]
    labels = pa.array([relation.label for relation in schema.relations])
    drawn = np.zeros(len(weights), np.int64)
    for number in blocks(edges, BLOCK):
        relation = np.searchsorted(shares, uniform(seed, _RELATION, number), side="right")
        source, target = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
        for place in np.unique(relation):
            rows = np.flatnonzero(relation == place)
            kth = drawn[place] + np.arange(len(rows))
            drawn[place] += len(rows)
            of = schema.relations[place]
            purpose = _ENDS + 2 * int(place)
            source[rows] = starts[of.source] + _ends(kth, counts[of.source], of.outgoing, seed, purpose)
            target[rows] = starts[of.target] + _ends(kth, counts[of.target], of.incoming, seed, purpose + 1)
        yield pa.RecordBatch.from_pydict(
            {
                "source": pa.array(source).cast(pa.string()),
                "target": pa.array(target).cast(pa.string()),
                "label": labels.take(pa.array(relation)),
                "timestamp": number,
            }
        )


def _ends(kth: np.ndarray, size: int, side: Distribution, seed: int, purpose: int) -> np.ndarray:
    """Draw the vertices of a type at one end of a relation; degrees of exponent α are ranks of exponent 1 + 1 / (α − 1)."""
    if side.kind != "zipfian":
        return permute(kth, size, seed, purpose)
    steepness = 1 + 1 / max(side.exponent - 1, 0.1)
    ranks = power_law(uniform(seed, purpose, kth), float(size), head=max(1.0, size * 0.02), exponent=steepness)
    return permute(ranks, size, seed, purpose)


KINDS: Mapping[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    "stackoverflow": like_stackoverflow,
    "ldbc": like_ldbc,
    "yago": like_yago,
    "gmark": like_gmark,
    "rdf": rdf_stream,
    "taxi": like_taxi,
    "biogrid": like_biogrid,
    **{name: case.stream for name, case in USE_CASES.items()},
}
