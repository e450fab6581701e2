"""Taxi trips as in the data of New York's taxis (Gillani et al. 2016): an event is a trip, a graph of 24 triples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.rdf.terms import (
    RDF_TYPE,
    EventTriples,
    choose_terms,
    cut,
    decimals,
    integers,
    moments,
    numbered_iris,
    plain_literals,
)
from rpq.workloads.generate.sampling import BLOCK, blocks, daily_times, power_law, uniform

VOCABULARY = "http://example.org/taxi#"
DATA = "http://example.org/taxi/"
START = 1_356_998_400
"""2013-01-01 00:00, in seconds."""

TRIPS_A_DAY = 480_000
TRIPLES = 24
_TAXIS, _DRIVERS = 13_000, 33_000
_TYPES = [f"{VOCABULARY}{name}" for name in ("StandardRate", "JFK", "Newark", "Nassau", "NegotiatedFare")]
_PAYMENTS = [f"{VOCABULARY}{name}" for name in ("Card", "Cash", "NoCharge", "Dispute")]
_TAXI, _DRIVER, _TIME, _SPEED, _TYPE, _TIP, _PAY, _PEOPLE, _FROM, _TO = range(10)


def taxi_trips(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield trips by their start, complete except for the last: source, target, label, timestamp (seconds), event."""
    trips = -(-edges // TRIPLES)
    done = 0
    for number in blocks(trips, BLOCK // TRIPLES):
        batch = cut(_block(number, trips, seed), done, edges)
        done += batch.num_rows
        yield batch


def _block(number: np.ndarray, trips: int, seed: int) -> pa.RecordBatch:
    began = daily_times(number / trips, days=max(trips / TRIPS_A_DAY, 1e-3), growth=0, start=START)
    seconds = 120 + power_law(uniform(seed, _TIME, number), 7_000, head=900, exponent=3.0)
    miles = (seconds * (0.15 + 0.5 * uniform(seed, _SPEED, number))).astype(np.int64)
    fare = 250 + 50 * (miles // 20 + seconds // 60 // 2)
    tip = (fare * 0.3 * uniform(seed, _TIP, number)).astype(np.int64)
    surcharge, tolls = np.where(number % 3 == 0, 50, 0), np.where(miles > 1_500, 533, 0)
    rate = np.where(uniform(seed, _TYPE, number) < 0.9, 0, number % len(_TYPES))
    trip, info, fares = (numbered_iris(f"{DATA}{kind}/", number) for kind in ("trip", "info", "fare"))
    begins, ends = (numbered_iris(f"{DATA}{kind}/", number) for kind in ("pickup", "dropoff"))

    def place(purpose: int, about: int) -> pa.Array:
        spread = uniform(seed, purpose, number * 2 + (about > 0)) ** 2
        return decimals(about + (np.sign(about) * 30 * spread).astype(np.int64))

    events = EventTriples()
    events.add(
        number,
        began,
        numbered_iris(f"{DATA}event/", number),
        (trip, RDF_TYPE, choose_terms(_TYPES, rate)),
        *(
            (trip, VOCABULARY + name, value)
            for name, value in {
                "trip_distance": decimals(miles),
                "pickup_datetime": moments(began),
                "dropoff_datetime": moments(began + seconds),
                "mta_tax": decimals(np.full(len(number), 50)),
                "trip_time_in_secs": integers(seconds),
                "passenger_count": integers(1 + (uniform(seed, _PEOPLE, number) ** 3 * 6).astype(np.int64)),
                "hasTaxiInfo": info,
                "hasPickupLoc": begins,
                "hasDropoffLoc": ends,
                "hasFareInfo": fares,
            }.items()
        ),
        (info, VOCABULARY + "hasMedallion", numbered_iris(f"{DATA}taxi/", _draw(seed, _TAXI, number, _TAXIS))),
        (info, VOCABULARY + "hasHack_license", numbered_iris(f"{DATA}driver/", _draw(seed, _DRIVER, number, _DRIVERS))),
        (info, VOCABULARY + "hasVendor_id", plain_literals(choose_terms(["CMT", "VTS"], number))),
        (begins, VOCABULARY + "hasPickupLat", place(_FROM, 4060)),
        (begins, VOCABULARY + "hasPickupLong", place(_FROM, -7400)),
        (ends, VOCABULARY + "hasDropoffLat", place(_TO, 4060)),
        (ends, VOCABULARY + "hasDropoffLong", place(_TO, -7400)),
        (fares, VOCABULARY + "hasFare_amount", decimals(fare)),
        (fares, VOCABULARY + "hasSurcharge", decimals(surcharge)),
        (fares, VOCABULARY + "hasTip_amount", decimals(tip)),
        (fares, VOCABULARY + "hasTolls_amount", decimals(tolls)),
        (fares, VOCABULARY + "hasTotal_amount", decimals(fare + surcharge + tip + tolls + 50)),
        (
            fares,
            VOCABULARY + "hasPayment_type",
            choose_terms(_PAYMENTS, (uniform(seed, _PAY, number) ** 3 * 4).astype(np.int64)),
        ),
    )
    return events.batch()


def _draw(seed: int, purpose: int, number: np.ndarray, count: int) -> np.ndarray:
    """Draw numbers below `count`; small numbers are more frequent."""
    return power_law(uniform(seed, purpose, number), count, head=count / 2, exponent=2.0)
