"""Joins by value: rows that only a comparison joins, in filters, OPTIONAL and EXISTS, against brute force and the oracle."""

from __future__ import annotations

import math
import operator
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.language.pattern import Variable
from rpq.language.sparql.values.operators import COMPARISONS
from rpq.language.sparql.values.typed_values import DECIMAL_UNIT, NoValue, Number
from rpq.operators.relational.joins import FormulaComparison, ValueMatchNode
from rpq.operators.relational.nodes import LeafNode
from rpq.operators.relational.values import compared_values, value_order
from rpq.operators.relational.values.formula_columns import amount_of
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import WeightedRows
from tests.operators.relational.sparql_twins import Twins, warnings_of_rdflib
from tests.reference_pattern_stream import Window
from tests.reference_sparql_parser import parse
from tests.reference_sparql_stream import question
from tests.twins import examples

XSD = "http://www.w3.org/2001/XMLSchema#"
SIGNS = ["=", "<", "<=", ">", ">="]


def typed(text: str, name: str) -> str:
    return f'"{text}"^^<{XSD}{name}>'


TERMS = [
    *("1", "2", "10", "1.0", "1.5", "1e0", "01", "a", "b", "", "_:x", "_:y"),
    *('"a"', '"b"', '"a"@en', '"a"@de', '"1"', '"x"^^<urn:unknown>', '"y"^^<urn:unknown>'),
    *(typed("1", "integer"), typed("0.1", "decimal"), typed("0.1", "double"), typed("0.1", "float"), typed("1", "float")),
    *(typed("9007199254740993", "integer"), typed("9007199254740992", "integer"), typed("9007199254740992", "double")),
    *(typed("16777217", "integer"), typed("16777216", "float"), typed("NaN", "double"), typed("INF", "double")),
    *(typed("true", "boolean"), typed("false", "boolean"), typed("maybe", "boolean"), typed("P1D", "duration")),
    *(typed(f"2024-01-01T{text}", "dateTime") for text in ("00:00:00", "00:00:00Z", "20:00:00", "10:00:00+10:00")),
    *(typed(text, "date") for text in ("2024-01-01", "2024-01-01Z", "2024-02-01")),
]
"""Terms of every kind, with equal values among those of different types."""


def is_true(sign: str, left: str, right: str) -> bool:
    try:
        return COMPARISONS[sign](left, right)
    except NoValue:
        return False


def brute_force(kind: str, sign: str, left: Counter, right: Counter) -> Counter:
    """The answer, a bag of rows (key, value, name), or of (key, value, name, value, name)."""
    found: Counter = Counter()
    for row, count in left.items():
        partners = [
            (other, number)
            for other, number in right.items()
            if row[0] == other[0] and None not in (row[1], other[1]) and is_true(sign, row[1], other[1])
        ]
        if kind in ("join", "left join"):
            for other, number in partners:
                found[(*row, *other[1:])] += count * number
            if kind == "left join" and not partners:
                found[*row, None, None] += count
        elif kind == "rows":
            found[row] += count * sum(number for _, number in partners)
        elif bool(partners) == (kind == "exists"):
            found[row] += count
    return +found


@pytest.fixture(params=[(1, 0), (value_order.GAP, 1_000)], ids=["no gaps", "gaps"])
def few_labels(request, monkeypatch):
    """Without gaps, labels are replaced when a value comes between two others; those without rows are removed at once."""
    gap, least_garbage = request.param
    monkeypatch.setattr(value_order, "GAP", gap)
    monkeypatch.setattr(compared_values, "_LEAST_GARBAGE", least_garbage)


@pytest.mark.usefixtures("few_labels")
@pytest.mark.parametrize("kind", ["join", "rows", "left join", "exists", "not exists"])
@examples(25)
@given(st.sampled_from(SIGNS), st.data())
def test_a_join_by_value_changes_with_its_sides(kind: str, sign: str, data: st.DataObject):
    terms = TermIds()
    left_leaf = LeafNode(["key", "u", "x"], "")
    right_leaf = LeafNode(["key", "v", "y"], "")
    for leaf in (left_leaf, right_leaf):
        leaf.sure = frozenset({"key", leaf.columns[2]})
    comparison = FormulaComparison(sign, Variable("u"), Variable("v"))
    node = ValueMatchNode(kind, left_leaf, right_leaf, comparison, terms)
    node.begin()
    sides, answer = [Counter(), Counter()], Counter()
    numbers = st.integers(0, 9).map(str) | st.sampled_from("abcdefgh")
    pool = data.draw(st.lists(numbers | st.sampled_from([None, *TERMS]), min_size=2, max_size=6))
    change = st.tuples(
        st.booleans(), st.sampled_from([0, 0, 1]), st.sampled_from(pool), st.integers(0, 1), st.sampled_from([1, 1, 2, -1])
    )
    chunks = st.lists(st.lists(st.lists(change, min_size=2, max_size=8), max_size=3), min_size=2, max_size=5)
    for events in data.draw(chunks):
        found: list = [[], []]
        after = []
        for event, changes in enumerate(events):
            for is_right, key, term, name, weight in changes:
                row = (f"k{key}", term, f"n{name}")
                if sides[is_right][row] + weight >= 0:
                    sides[is_right][row] += weight
                    found[is_right].append((event, tuple(map(terms.intern, row)), weight))
            after.append(brute_force(kind, sign, +sides[0], +sides[1]))
        output = node.change(*(WeightedRows.from_changes(mine, 3) for mine in found))
        node._check()
        for event, expected in enumerate(after):
            for number, row, weight in output.changes():
                if number == event:
                    answer[tuple(map(terms.text, row))] += weight
            assert +answer == expected and all(count >= 0 for count in answer.values())
    stored = node.begin()
    assert not len(stored) and node.entries == 0


@given(st.lists(st.integers(-(2**127), 2**127 - 1) | st.integers(-(10**20), 10**20).map(lambda cents: cents * 10**16)))
def test_exact_numbers_are_promoted_to_the_nearest_double(numbers: list[int]):
    numbers = [units for units in numbers if abs(units) < 2**127]
    amounts = [amount_of(Number("decimal", Fraction(units, DECIMAL_UNIT))) for units in numbers]
    high, low = (np.array([one[place] for one in amounts], np.int64) for place in (1, 2))
    reals = np.zeros(len(numbers))
    compared_values.nearest_doubles_of_exact(high, low, np.ones(len(numbers), bool), reals)
    for units, real in zip(numbers, reals.tolist(), strict=True):
        if not math.isnan(real):
            assert real == units / DECIMAL_UNIT
        else:
            digits = str(abs(units))
            assert int(digits.rstrip("0")) >= 2**53 or len(digits) - len(digits.rstrip("0")) > 18


TEMPLATES = {
    "above the mean": "SELECT ?r ?f { { SELECT (AVG(?g) AS ?m) { ?q <b> ?g } } ?r <a> ?f FILTER(?f SIGN ?m * 1.5) }",
    "latest of each": (
        "SELECT ?r ?f { { SELECT ?r (MAX(?g) AS ?m) { ?r <b> ?g } GROUP BY ?r } ?r <a> ?f FILTER(?f SIGN ?m) }"
    ),
    "two parts": "SELECT ?x ?y { ?x <a> ?f . ?y <b> ?g FILTER(?g SIGN ?f && ?x != ?y) }",
    "three parts": "SELECT ?x ?z { ?x <a> ?f . ?y <b> ?g . ?z <c> ?h FILTER(?f SIGN ?g) FILTER(?h SIGN ?g) }",
    "optional of the same": "SELECT * { ?x <a> ?f OPTIONAL { ?x <b> ?g FILTER(?g SIGN ?f && ?g != 3) } }",
    "not exists": "SELECT ?x { ?x <a> ?f FILTER NOT EXISTS { ?y <b> ?g FILTER(?g SIGN ?f) } }",
    "exists of the same": "SELECT ?x { ?x <a> ?f FILTER EXISTS { ?x <b> ?g FILTER(?g SIGN ?f && ?g != 3) } }",
    "minus": "SELECT ?x { ?x <a> ?f MINUS { ?x <b> ?g . ?y <c> ?h FILTER(?g SIGN ?h) } }",
    "an optional value": "SELECT ?x ?y { ?x <a> ?e OPTIONAL { ?x <b> ?f } ?y <c> ?g FILTER(?f SIGN ?g) }",
    "counted": "SELECT ?f (COUNT(*) AS ?n) { ?x <a> ?f . ?y <b> ?g FILTER(?f SIGN ?g) } GROUP BY ?f",
}
VALUES = ["1", "2", "3", "4.5", "3e0", "x"]
steps = st.tuples(
    st.sampled_from([0, 0, 1, 1, 2, 7]),
    st.sampled_from([0, 0, 0, 2, 9]),
    st.tuples(st.sampled_from(["p", "q", "r"]), st.sampled_from("abc"), st.sampled_from(VALUES)),
    st.sampled_from("+++-"),
)


@st.composite
def streams(draw: st.DrawFn) -> list:
    time, tuples = 20, []
    for ahead, behind, (source, label, target), op in draw(st.lists(steps, min_size=5, max_size=30)):
        time += ahead
        tuples.append((source, target, label, time - behind, op, None))
    return tuples


@warnings_of_rdflib
@pytest.mark.parametrize("name", TEMPLATES)
@examples(25)
@given(st.sampled_from(SIGNS), streams(), st.integers(1, 30), st.sampled_from(["change", "slide"]), st.integers(0, 30))
def test_queries_with_joins_by_value_equal_the_oracle(name, sign, tuples, cut, report, restored):
    text = TEMPLATES[name].replace("SIGN", sign)
    twins = Twins(question(parse(text), Window(kind="time", size=12, slide=4), name="q", report=report))
    for place in range(0, len(tuples), cut):
        twins.push(tuples[place : place + cut])
        if place <= restored < place + cut:
            twins.restore()
    twins.advance(tuples[-1][3] + 20)
    twins.compare_counts()


@pytest.mark.parametrize("select", ["?x ?y", "?x", "?y"])
def test_each_sign_compares_the_sides_as_they_are_written(select):
    compare = dict(zip(SIGNS, [operator.eq, operator.lt, operator.le, operator.gt, operator.ge], strict=True))
    texts = {f"SELECT {select} {{ ?x <a> ?f . ?y <b> ?g FILTER(?g {sign} ?f) }}": sign for sign in SIGNS}
    engine = rpq.Engine(*(rpq.Query(text, window=rpq.Window(size=10, slide=1)) for text in texts))
    engine.push_rows([(f"{letter}{value}", str(value), label, 1) for letter, label in ("xa", "yb") for value in range(3)])
    for text, sign in texts.items():
        pairs = [{"?x": f"x{f}", "?y": f"y{g}"} for f in range(3) for g in range(3) if compare[sign](g, f)]
        assert Counter(engine.answers(text)) == Counter(tuple(pair[name] for name in select.split()) for pair in pairs), sign


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEMPLATES["two parts"].replace("SIGN", "="), "(search by value)"),
        (TEMPLATES["not exists"].replace("SIGN", ">"), "not exists on ?f < ?g (search in order)"),
    ],
)
def test_explain_shows_how_partners_are_found(text, expected):
    assert expected in str(rpq.Engine(rpq.Query(text, window=rpq.Window(size=10, slide=1))).explain())
