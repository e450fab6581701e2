"""Taxi rides as three streams (Le-Phuoc 2016, section 2.1): pickups, dropoffs, and payments with the time of the pickup."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.rdf.taxi_trips import DATA, START, VOCABULARY
from rpq.workloads.generate.rdf.terms import EventTriples, cut, decimals, integers, moments, numbered_iris
from rpq.workloads.generate.sampling import power_law, uniform

STREAMS = f"{DATA}streams/"
_SECONDS_A_BLOCK = 6_000
_LONGEST = 3_600
_PAID_AFTER = 60
_TAXIS = 1_000
_TIME, _TAXI, _FARE, _RATING, _PAID = range(5)


def taxi_rides(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield one pickup per second, so that rides have different times: source, target, label, timestamp, stream, event."""
    done, first = 0, 0
    while done < edges:
        batch = cut(_block(first, first + _SECONDS_A_BLOCK, seed), done, edges)
        done, first = done + batch.num_rows, first + _SECONDS_A_BLOCK
        yield batch


def _block(first: int, last: int, seed: int) -> pa.RecordBatch:
    """Generate the events from second `first` to `last`, including those of rides that began earlier."""
    ride = np.arange(max(0, first - _LONGEST - _PAID_AFTER), last)
    seconds = 60 + power_law(uniform(seed, _TIME, ride), _LONGEST - 60, head=900, exponent=3.0)
    taxi = numbered_iris(f"{DATA}taxi/", power_law(uniform(seed, _TAXI, ride), _TAXIS, head=_TAXIS, exponent=2.0))
    named, paid = numbered_iris(f"{DATA}ride/", ride), numbered_iris(f"{DATA}transaction/", ride)
    ends = ride + seconds
    pays = ends + (uniform(seed, _PAID, ride) * _PAID_AFTER).astype(np.int64)
    fare = 250 + 50 * (seconds // 60 + (uniform(seed, _FARE, ride) * 10).astype(np.int64))
    rating = 100 + (uniform(seed, _RATING, ride) * 400).astype(np.int64)
    events = EventTriples(has_streams=True)

    def happens(which: int, when: np.ndarray, stream: str, *triples: tuple[pa.Array, str, pa.Array]) -> None:
        now = np.flatnonzero((when >= first) & (when < last))
        chosen = pa.array(now)
        events.add(
            ((when[now] - first) * 3 + which) * len(ride) + now,
            START + when[now],
            numbered_iris(f"{DATA}{stream}/", ride[now]),
            *((source.take(chosen), VOCABULARY + label, target.take(chosen)) for source, label, target in triples),
            stream=STREAMS + stream,
        )

    happens(0, ride, "pickup", (named, "taxi", taxi), (named, "pickupTime", moments(START + ride)))
    happens(
        1,
        ends,
        "dropoff",
        (named, "dropoffTime", moments(START + ends)),
        (named, "tripTime", integers(seconds)),
        (taxi, "rated", decimals(rating)),
    )
    happens(2, pays, "fare", (paid, "fare", decimals(fare)), (paid, "pickupTime", moments(START + ride)))
    return events.batch()
