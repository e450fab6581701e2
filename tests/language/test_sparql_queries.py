"""The papers' queries in SPARQL: they are read as they stand."""

from __future__ import annotations

import pytest

from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS
from rpq.workloads.named_queries import UnknownQueryError
from rpq.workloads.sparql_queries import named_sparql, named_text
from tests.operators.relational.sparql_snapshots import Asked

EXPECTED = {  # name: columns (or what it is), windows
    "CONNECTED": ("x y z", ""),
    "GROUND": ("ask", ""),
    "LOOSE": ("x y", ""),
    "STAR": ("x", ""),
    "LS-Q1": ("post1 user post2", ""),
    "LS-Q2": ("post person1 person2", ""),
    "LS-Q3": ("post1 user user2", ""),
    "LSB-Q1": ("o", "RANGE 1s STEP one unit"),
    "LSB-Q2": ("post", "RANGE 1s STEP one unit"),
    "LSB-Q3": ("friend post", "RANGE 5s STEP one unit"),
    "LSB-Q4": ("post1 post2 tag", "RANGE 15s STEP one unit"),
    "LSB-Q5": ("friend1 friend2 photo", "RANGE 100ms STEP one unit, RANGE 1m STEP one unit"),
    "LSB-Q6": ("user friend post channel", "RANGE 1m STEP one unit, RANGE 100ms STEP one unit"),
    "LSB-Q10": ("friend item", "RANGE 5s STEP one unit, RANGE 5s STEP one unit"),
    "NY-Q1": ("trip tripType tripdis", ""),
    "NY-Q2": ("trip amount info", ""),
    "NY-Q3": ("trip pickupdt", ""),
    "SNB-Q1": ("post creator loc", ""),
    "SNB-Q2": ("forum meh interest", ""),
    "SNB-Q3": ("post creator id", ""),
    "SR-Q1": ("sensor value uom", "RANGE 1h STEP 1h"),
    "SR-Q4": ("sensor averageWindSpeed averageTemperature", "RANGE 1h STEP 10m"),
    "SR-Q5": ("construct", "RANGE 3h STEP 10m"),
    "SR-Q8": ("minTemperature maxTemperature", "RANGE 1d STEP 1d"),
    "SR-Q10": ("lat long alt", "RANGE 1d STEP one unit"),
    "TAXI-AVERAGE": ("taxi average", "RANGE 1h STEP 10m"),
    "TAXI-DISTINCT": ("taxi", "RANGE 2h STEP 10m, RANGE 1h STEP 10m"),
    "TAXI-JOIN": ("taxi ride fare tripTime", "RANGE 1h STEP 10m, RANGE 2h STEP 10m, RANGE 1h STEP 10m"),
    "TAXI-MIN": ("taxi shortest", "RANGE 2h STEP 10m, RANGE 1h STEP 10m"),
    "TAXI-NEGATION": ("ride taxi", "RANGE 2h STEP 10m, RANGE 2h STEP 10m"),
    "TAXI-RATE": ("taxi hourlyRate", "COUNT 1000 STEP 1, RANGE 2h STEP one unit, RANGE 1h STEP one unit"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_query_is_read_as_it_stands(name):
    named = named_sparql(name)
    named_query = Asked.of(named, edges=100)
    shape, windows = EXPECTED[name]
    question = named_query.question
    assert (" ".join(question.columns) or question.form) == shape
    assert ", ".join(str(one.extent) for one in question.windows) == windows
    assert not question.warnings
    assert named.stream in RDF_KINDS and named.source and all(named.differences)
    # A query without windows of its own needs a default one, and no other does.
    assert bool(named.window) == (not question.windows)
    assert (named_query.window is None) == bool(question.windows)


def test_queries_are_found_by_name_and_stream():
    assert named_text("sr-q1", "sensors").startswith("# SR-Q1: ")
    with pytest.raises(UnknownQueryError, match="did you mean 'SNB-Q3'"):
        named_sparql("SNBQ3")
    with pytest.raises(UnknownQueryError, match="NY-Q1 cannot run over social: it is a query over taxi"):
        named_text("NY-Q1", "social")
