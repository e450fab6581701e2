"""A stream like taxi rides in a city: each ride is an edge from where somebody got in to where they got out, and more.

A ride brings edges of a vehicle to both places (`pickup`, `dropoff`), one between these (`ride`), and one to who
drives it (`driver`). Few places have most rides. Vehicles are v…, drivers d…, places z…; timestamps are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.batches import BLOCK, blocks, named
from rpq.workloads.generate.draws import power_law, uniform

LABELS = ("pickup", "dropoff", "ride", "driver")
START = 1_357_000_000
RIDES_AN_HOUR = 20_000
_VEHICLE, _FROM, _TO, _DRIVER = range(4)
_RIDE = len(LABELS)


def like_taxi(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """That many tuples in order of time (seconds), four of each ride."""
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
                "source": named(kinds.take(pa.array(np.where(part == 2, 1, 0))), source),
                "target": named(kinds.take(pa.array(np.where(part == 3, 2, 1))), target),
                "label": pa.array(LABELS).take(pa.array(part)),
                "timestamp": pa.array(START + ride * 3600 // RIDES_AN_HOUR),
            }
        )
