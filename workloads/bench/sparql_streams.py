"""The streams and questions of the table of SPARQL: an average by group, joins, what is beside a join, and taxi trips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.rdf.rdf_streams import rdf_stream
from rpq.workloads.generate.rdf.taxi_trips import VOCABULARY
from rpq.workloads.generate.rdf.term_columns import RDF_TYPE, chosen, integers, numbered
from rpq.workloads.sparql_queries import named_sparql

SLIDES = 100
"""Slides of a window."""

EDGES_A_GROUP = 10
_AWAY = 1_000
"""How far apart the partners of a join come, in thirds of tuples."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question of the table: its text, its stream by the number of edges in a window, the same in SQL, its goal.

    `goal` is in tuples a second, `beside` the question whose seconds its own are compared with, at most `most` times.
    """

    name: str
    about: str
    text: str
    stream: Callable[[int, int], Stream]
    sql: str
    goal: float | None = None
    beside: str | None = None
    most: float | None = None


def _averages(window: int, seed: int) -> Stream:
    number = np.arange(2 * window)
    groups = max(2, window // EDGES_A_GROUP)
    # Each group once in as many tuples as there are groups, in another order each time.
    group = (number * 7_919 + number // groups * (seed * 31 + 17)) % groups if groups % 7_919 else number % groups
    value = integers(number // groups % 1_000)
    return _stream("averages", window, numbered("urn:group:", group), chosen(["urn:rated"], number), value)


def _threes(window: int, seed: int) -> Stream:
    number = np.arange(2 * window)
    label = number % 3
    key = numbered("urn:x:", number // 3 + _away(window) * (2 - label) + seed * 10**9)
    return _stream("threes", window, key, chosen(["urn:a", "urn:b", "urn:c"], label), numbered("urn:y:", number))


def _pairs(window: int, seed: int) -> Stream:
    """Every key has an `a`; every other one a `b` too."""
    number = np.arange(2 * window)
    turn = number % 3
    key = number // 3 * 2 + np.where(turn == 1, 1, 0) + np.where(turn == 2, 0, 2 * _away(window))
    label = chosen(["urn:a", "urn:a", "urn:b"], turn)
    return _stream("pairs", window, numbered("urn:x:", key + seed * 10**9), label, numbered("urn:y:", number))


def _away(window: int) -> int:
    return min(_AWAY, window // 12)


def _stream(name: str, window: int, source: pa.Array, label: pa.Array, target: pa.Array) -> Stream:
    table = pa.table({"source": source, "target": target, "label": label, "timestamp": np.arange(len(source))})
    size = rpq.Window(size=window, slide=max(1, window // SLIDES))
    return Stream(name=name, queries="", table=table, window=size, origin="made for this table")


def _taxi(window: int, seed: int) -> Stream:
    table = pa.Table.from_batches(rdf_stream(edges=2 * window, seed=seed, kind="taxi")).combine_chunks()
    span = max(SLIDES, (table["timestamp"][-1].as_py() - table["timestamp"][0].as_py()) // 2)
    origin = f"rpq generate rdf --kind taxi --edges {2 * window} --seed {seed}"
    size = rpq.Window(size=span, slide=max(1, span // SLIDES))
    return Stream(name="taxi", queries="", table=table, window=size, origin=origin)


def _joined(columns: str, atoms: list[tuple[str, str, str]]) -> str:
    """SQL of a pattern whose atoms share their subject: (label, name of the object) after the first by its subject."""
    first, *others = [f"(SELECT source, target FROM tuples WHERE label = '{label}') {alias}" for alias, label, _ in atoms]
    return f"SELECT {columns} FROM {first} " + " ".join(f"JOIN {other} USING (source)" for other in others)


_A, _B = (f"(SELECT source, target FROM tuples WHERE label = 'urn:{one}') {one}" for one in "ab")
_TRIP = [
    ("t", RDF_TYPE, "tripType"),
    *((name[0] + str(place), VOCABULARY + name, name) for place, name in enumerate(
        ("trip_distance", "pickup_datetime", "dropoff_datetime", "mta_tax", "trip_time_in_secs")
    )),
]  # fmt: skip

QUESTIONS = (
    Asked(
        name="AVG",
        about="an average by group",
        text="SELECT ?group (AVG(?value) AS ?average) { ?group <urn:rated> ?value } GROUP BY ?group",
        stream=_averages,
        sql="SELECT source, avg(CAST(split_part(target, '\"', 2) AS BIGINT)) FROM tuples GROUP BY source",
        goal=1e6,
    ),
    Asked(
        name="JOIN-3",
        about="a three-way join, a partner in each of the others",
        text="SELECT ?x ?a ?b ?c { ?x <urn:a> ?a . ?x <urn:b> ?b . ?x <urn:c> ?c }",
        stream=_threes,
        sql=_joined("source, a.target, b.target, c.target", [(one, f"urn:{one}", one) for one in "abc"]),
        goal=5e5,
    ),
    Asked(
        name="JOIN",
        about="a join, for the two below",
        text="SELECT ?x ?a ?b { ?x <urn:a> ?a . ?x <urn:b> ?b }",
        stream=_pairs,
        sql=_joined("source, a.target, b.target", [(one, f"urn:{one}", one) for one in "ab"]),
    ),
    Asked(
        name="NOT-EXISTS",
        about="what has no partner",
        text="SELECT ?x ?a { ?x <urn:a> ?a FILTER NOT EXISTS { ?x <urn:b> ?b } }",
        stream=_pairs,
        sql=f"SELECT source, target FROM {_A} ANTI JOIN {_B} USING (source)",
        beside="JOIN",
        most=3.0,
    ),
    Asked(
        name="OPTIONAL",
        about="with its partner if it has one",
        text="SELECT ?x ?a ?b { ?x <urn:a> ?a OPTIONAL { ?x <urn:b> ?b } }",
        stream=_pairs,
        sql=f"SELECT source, a.target, b.target FROM {_A} LEFT JOIN {_B} USING (source)",
        beside="JOIN",
        most=3.0,
    ),
    Asked(
        name="NY-Q1",
        about="taxi trips, events of 24 triples",
        text=named_sparql("NY-Q1").text,
        stream=_taxi,
        sql=_joined("source, t.target, t0.target", _TRIP),
        goal=24e5,
    ),
)
