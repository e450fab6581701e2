"""The papers' queries in SPARQL: they are read as they stand, have answers on their streams, and all oracles agree."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from rpq.stream.names.terms import is_literal, read_literal
from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS
from rpq.workloads.named_queries import UnknownQueryError
from rpq.workloads.sparql_queries import named_sparql, named_text, sparql_names
from tests.language.sparql_libraries import by_pyoxigraph as query_by_pyoxigraph
from tests.language.sparql_libraries import by_rdflib
from tests.operators.relational.sparql_snapshots import Asked, Edge
from tests.reference_sparql import Evaluation
from tests.reference_sparql_checks import check
from tests.reference_sparql_parser import parse
from tests.reference_sparql_values import STANDARD

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
TUPLES = 20_000


def test_there_is_what_was_promised_and_no_more():
    assert {*sparql_names()} == {*EXPECTED}
    assert sparql_names("linked-stream")[-2:] == ["LSB-Q6", "LSB-Q10"]


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


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within rdflib
def test_all_oracles_agree_on_a_small_snapshot(name):
    """The bags of brute force, rdflib and pyoxigraph are those of pyoxigraph on the text with its windows taken out."""
    named = named_sparql(name)
    sizes = {"sensors": 12_000, "changing": 2_000, "LS-Q2": 1_400, "SNB-Q3": 1_400, "LSB-Q4": 1_700}
    named_query = Asked.of(named, edges=sizes.get(name, sizes.get(named.stream, 700)))
    query = parse(named.text, unit=Fraction(1, 1_000) if named_query.unit == "ms" else 1)
    check(query)
    graphs = {
        window: [edge for edge in edges if _is_kept(named.stream, edge)]
        for window, edges in named_query.graphs(len(named_query.tuples.edges)).items()
    }
    found = Evaluation(query, graphs, STANDARD).answer()
    assert near(found) == near(named_query.answer_on(graphs)) == near(query_by_pyoxigraph(query, graphs))
    assert near(found) == near(by_rdflib(query, graphs))
    assert found or name in ("GROUND", "LOOSE")  # rare among few edges


def _is_kept(stream: str, edge: Edge) -> bool:
    """Few of the edges: brute force reads them all for each binding."""
    ends = [end for end in (edge[0], edge[2]) if not is_literal(end)]
    numbers = [int(digits) for end in ends if (digits := end[len(end.rstrip("0123456789")) :])]
    if stream == "sensors":  # of every 21st station
        return all(number % 300 % 21 == 0 for number in numbers)
    if stream == "linked-stream" and "/sib/post" not in edge[2] and "/sib/photo" not in edge[2]:
        users = [end for end in ends if "/user/" in end or "/forum/" in end or "/person/" in end]
        return all(int(end[len(end.rstrip("0123456789")) :]) >= 970 for end in users)
    return True


def near(bag: Counter) -> Counter:
    """A bag with numbers that are equal but for their last digits made equal."""
    found: Counter = Counter()
    for row, number in bag.items():
        found[tuple(map(_rounded, row))] += number
    return found


def _rounded(term: str | None) -> str | None:
    literal = None if term is None else read_literal(term)
    if literal is None or literal.datatype.rpartition("#")[2] not in ("integer", "decimal", "float", "double"):
        return term
    return f"{float(literal.text):.6g}"


def test_queries_are_found_by_name_and_stream():
    assert named_text("sr-q1", "sensors").startswith("# SR-Q1: ")
    with pytest.raises(UnknownQueryError, match="did you mean 'SNB-Q3'"):
        named_sparql("SNBQ3")
    with pytest.raises(UnknownQueryError, match="NY-Q1 cannot run over social: it is a query over taxi"):
        named_text("NY-Q1", "social")
