"""A stream of observations of weather stations as in SRBench's data, and static triples with the places of stations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.rdf.terms import RDF_TYPE, EventTriples, choose_terms, cut, decimals, moments, numbered_iris
from rpq.workloads.generate.sampling import BLOCK, uniform

OWL, WEATHER = (f"http://knoesis.wright.edu/ssw/ont/{name}.owl#" for name in ("sensor-observation", "weather"))
GEO, TIME = "http://www.w3.org/2003/01/geo/wgs84_pos#", "http://www.w3.org/2006/time#"
DATA = "http://knoesis.wright.edu/ssw/"
OBSERVATIONS = "http://www.cwi.nl/SRBench/observations"
START = 1_220_227_200
"""2008-09-01 00:00, in seconds; there is an observation every second."""

SENSORS = 300
_UNITS = {"temperature": "fahrenheit", "wind": "milesPerHour", "rain": "centimeters", "snow": "centimeters"}
_CLASSES = {
    "temperature": ("TemperatureObservation",),
    "wind": ("WindObservation", "WindSpeedObservation"),
    "rain": ("RainfallObservation",),
    "snow": ("SnowfallObservation",),
    "humidity": ("HumidityObservation",),
}
_PROPERTIES = {
    "temperature": "_AirTemperature",
    "wind": "_WindSpeed",
    "rain": "_Rainfall",
    "snow": "_Snowfall",
    "humidity": "_RelativeHumidity",
}
_ROUND = ("temperature", "wind", "rain", "snow")
_VALUE = 0


def weather_sensors(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield observations, station by station: source, target, label, timestamp (seconds), stream, event."""
    done, first = 0, 0
    while done < edges:
        last = first + BLOCK // 10
        batch = cut(_block(np.arange(first, last), seed), done, edges)
        done, first = done + batch.num_rows, last
        yield batch


def weather_stations(*, seed: int) -> pa.RecordBatch:
    """Return the places of the stations, independent of the seed: source, target, label."""
    number = np.arange(SENSORS)
    sensor, place = numbered_iris(f"{DATA}System_", number), numbered_iris(f"{DATA}point_", number)
    triples = (
        (sensor, OWL + "processLocation", place),
        (place, GEO + "lat", decimals(4_000 + number * 2, "float")),
        (place, GEO + "long", decimals(number % 20 * 50 - 11_100, "float")),
        (place, GEO + "alt", decimals(120_300 + number % 50 * 1_000, "float")),
    )
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.concat_arrays([source for source, _, _ in triples]),
            "target": pa.concat_arrays([target for _, _, target in triples]),
            "label": pa.concat_arrays([pa.repeat(pa.scalar(label), SENSORS) for _, label, _ in triples]),
        }
    )


def _block(number: np.ndarray, seed: int) -> pa.RecordBatch:
    station, turn = number % SENSORS, number // SENSORS % len(_ROUND)
    is_cold = station % 5 == 0
    kind = np.array(_ROUND)[turn]
    kind = np.where((kind == "snow") & ~is_cold, "humidity", kind)
    chance = uniform(seed, _VALUE, number)
    events = EventTriples(has_streams=True)
    for name, classes in _CLASSES.items():
        is_kind = kind == name
        ones = number[is_kind]
        observation, result = (numbered_iris(f"{DATA}{what}_", ones) for what in ("Observation", "MeasureData"))
        instant, sensor = numbered_iris(f"{DATA}Instant_", ones), numbered_iris(f"{DATA}System_", station[is_kind])
        unit = WEATHER + _UNITS.get(name, "percent")
        events.add(
            ones,
            START + ones,
            numbered_iris(f"{DATA}event/", ones),
            *((observation, RDF_TYPE, WEATHER + one) for one in classes),
            (observation, OWL + "procedure", sensor),
            (sensor, OWL + "generatedObservation", observation),
            (observation, OWL + "observedProperty", WEATHER + _PROPERTIES[name]),
            (observation, OWL + "samplingTime", instant),
            (instant, TIME + "inXSDDateTime", moments(START + ones)),
            (observation, OWL + "result", result),
            (result, OWL + "floatValue", decimals(_measurement(name, station[is_kind], chance[is_kind]), "float")),
            (result, OWL + "uom", choose_terms([unit], ones)),
            stream=OBSERVATIONS,
        )
    return events.batch()


def _measurement(name: str, station: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return hundredths of a unit: stations whose number ends in 0 have blizzards, those in 5 snow without wind."""
    cents = (chance * 1_000).astype(np.int64)
    if name == "temperature":
        return np.where(station % 5 == 0, 1_500, 2_800 + station % 7 * 500) + cents
    if name == "wind":
        return np.where(station % 10 == 0, 4_500, 500) + cents * 2
    return cents // 10 * 10
