"""Aggregates of groups under inserts and deletes, beside a brute force over what is in the group."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rpq.language.pattern import Variable
from rpq.language.sparql.algebra import Aggregate
from rpq.language.sparql.values.aggregates import Extremum, accumulator
from rpq.language.sparql.values.functions import text_of
from rpq.language.sparql.values.operators import order_key
from rpq.language.sparql.values.typed_values import NoValue, Number, value_of
from rpq.stream.names.terms import LIST_TYPE, XSD, lexical_form, literal_text
from tests.twins import examples

TERMS = [
    "7", "007", "-3", "0.5", "1e100", "-1e100", "1e0", ".1", "bob", "alice", "http://e/a", "_:b", "9223372036854775807",
    '"a"', '"a"@en', '"2"^^<http://u>', "INF", *(
        literal_text(text, XSD + type_) for text, type_ in (
            ("1", "integer"), ("01", "integer"), ("2.50", "decimal"), ("0.000000000000000001", "decimal"), ("0.1", "float"),
            ("INF", "double"), ("-INF", "double"), ("NaN", "double"), ("x", "integer"), ("true", "boolean"),
            ("2020-01-01", "date"), ("2020-01-01T00:00:00Z", "dateTime"), ("5e-324", "double"),
        )
    ),
]  # fmt: skip
NUMBERS = [term for term in TERMS if term[0] in "-.0123456789" or "XMLSchema#d" in term or "XMLSchema#i" in term]
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")


VALUES = [*(
    literal_text(f"{key}\0{other}\0{item}")
    for key in ("", "a", "a\x01", "ab", "\u00e9", "\ue000", "\U0001f600", '"\\\n')
    for other in ("1", "12")
    for item in ('"x"', '"\\\\"', '"\u00e9\\n"', "1", "{}")
), None]  # fmt: skip
"""Values of COLLECT with two keys."""


def collected(values: list[str | None], *, is_distinct: bool) -> str:
    """Return the COLLECT of these values, computed from scratch."""
    items = [row[-1] for row in sorted(lexical_form(one).split("\0") for one in values if one is not None)]
    return literal_text(f"[{','.join(dict.fromkeys(items) if is_distinct else items)}]", LIST_TYPE)


def brute_force(function: str, values: list[str | None]) -> str | None:
    """Return the aggregate of these values, computed from scratch."""
    bound = [one for one in values if one is not None]
    if function == "COUNT":
        return literal_text(str(len(bound)), XSD + "integer")
    if function in ("MIN", "MAX", "SAMPLE"):
        if not bound or (function != "SAMPLE" and len(bound) < len(values)):
            return None
        return (max if function == "MAX" else min)(bound, key=order_key)
    if function == "GROUP_CONCAT":
        if len(bound) < len(values) or "_:b" in bound:
            return None
        return literal_text(" ".join(text_of(one) for one in sorted(bound, key=order_key)))
    numbers = []
    for one in values:
        try:
            found = value_of(one) if one is not None else None
        except NoValue:
            found = None
        if not isinstance(found, Number):
            return None
        numbers.append(found)
    if not numbers:
        return literal_text("0", XSD + "integer")
    types = {one.type for one in numbers}
    type_ = next(one for one in ("double", "float", "decimal", "integer") if one in types)
    type_ = "decimal" if function == "AVG" and type_ == "integer" else type_
    infinite = [float(one.amount) for one in numbers if not math.isfinite(one.amount)]
    if infinite:
        total = sum(infinite)
        return literal_text("NaN" if total != total else "INF" if total > 0 else "-INF", XSD + type_)
    exact = sum((Fraction(one.amount) for one in numbers), Fraction(0)) / (len(numbers) if function == "AVG" else 1)
    if type_ in ("integer", "decimal"):
        units = round(exact * 10**18)
        if not -(2**127) <= units < 2**127 or (type_ == "integer" and not -(2**63) <= exact < 2**63):
            return None
        text = f"{abs(units) // 10**18}.{abs(units) % 10**18:018d}".rstrip("0").rstrip(".")
        return literal_text(("-" if units < 0 else "") + text, XSD + type_)
    return f"near {float(exact)}"


def is_said(result: str | None, expected: str | None) -> bool:
    if expected is None or not expected.startswith("near"):
        return result == expected
    found = value_of(result) if result is not None else None
    # Floats of 32 bits are rounded to them.
    return isinstance(found, Number) and (
        found.amount == float(expected[5:])
        or (found.type == "float" and found.amount == pytest.approx(float(expected[5:]), rel=1e-7))
    )


class Group(RuleBasedStateMachine):
    """All aggregates of a group whose solutions come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulators = {
            (function, is_distinct): accumulator(Aggregate(function, Variable("x"), is_distinct))
            for function in FUNCTIONS
            for is_distinct in (False, True)
        }
        self.values: list[str | None] = []

    @rule(value=st.sampled_from(NUMBERS) | st.sampled_from([*TERMS, None]))
    def insert(self, value):
        self.values.append(value)
        for one in self.accumulators.values():
            one.insert(value)

    @rule(place=st.integers(0, 10**6))
    def delete(self, place):
        if self.values:
            value = self.values.pop(place % len(self.values))
            for one in self.accumulators.values():
                one.delete(value)

    @rule()
    def delete_what_is_no_number(self):
        for value in [one for one in self.values if one not in NUMBERS]:
            self.values.remove(value)
            for one in self.accumulators.values():
                one.delete(value)

    @invariant()
    def every_aggregate_is_that_of_what_is_there(self):
        for (function, is_distinct), one in self.accumulators.items():
            values = list(dict.fromkeys(self.values)) if is_distinct else self.values
            expected = brute_force(function, values)
            assert is_said(one.result(), expected), (function, is_distinct, values, one.result(), expected)
            if isinstance(one, Extremum):
                one._check()


Group.TestCase.settings = examples(200, stateful_step_count=40)
TestGroup = Group.TestCase


@pytest.mark.parametrize("is_distinct", [False, True])
@given(changes=st.lists(st.tuples(st.sampled_from(VALUES), st.booleans()), max_size=40))
@examples(20)
def test_a_list_has_the_values_of_the_group_in_order(is_distinct, changes):
    running = accumulator(Aggregate("COLLECT", Variable("x"), is_distinct))
    values: list[str | None] = []
    assert running.result() == '"[]"^^<urn:x-rpq:list>'
    for value, deletes in changes:
        if deletes and values:
            value = values.pop(len(values) // 2)
            running.delete(value)
        else:
            values.append(value)
            running.insert(value)
        assert running.result() == collected(values, is_distinct=is_distinct)


def results(function: str, *values: str | None, is_distinct: bool = False) -> str | None:
    running = accumulator(Aggregate(function, Variable("x"), is_distinct))
    for value in values:
        running.insert(value)
    return running.result()


def typed(text: str, type_: str) -> str:
    return literal_text(text, XSD + type_)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("COUNT", (), typed("0", "integer")),
        ("COUNT", ("a", None, "a"), typed("2", "integer")),
        ("SUM", (), typed("0", "integer")),
        ("AVG", (), typed("0", "integer")),
        ("MIN", (), None),
        ("SAMPLE", (None,), None),
        ("SUM", ("1", "2"), typed("3", "integer")),
        ("SUM", ("1", "0.5"), typed("1.5", "decimal")),
        ("SUM", ("1", "0.5", "1e0"), typed("2.5", "double")),
        ("SUM", ("0.1",) * 10, typed("1", "decimal")),
        ("SUM", ("1e-1",) * 10, typed("1", "double")),  # 0.9999999999999999 when each step is rounded
        ("SUM", ("1e16", "1", "-1e16"), typed("1", "double")),
        ("SUM", ("9223372036854775807", "1", "-1"), typed("9223372036854775807", "integer")),
        ("SUM", ("9223372036854775807", "1"), None),
        ("SUM", ("9223372036854775807", "1", "0.0"), typed("9223372036854775808", "decimal")),
        ("SUM", ("1", "bob"), None),
        ("SUM", ("1", None), None),
        ("SUM", (typed("INF", "double"), typed("-INF", "double")), typed("NaN", "double")),
        ("SUM", (typed("1e308", "double"), typed("1e308", "double")), typed("INF", "double")),
        ("SUM", (typed("16777216", "float"), "1"), typed("1.6777216E7", "float")),
        ("AVG", ("1", "2"), typed("1.5", "decimal")),
        ("AVG", ("1", "1", "2"), typed("1.333333333333333333", "decimal")),
        ("AVG", ("1e0", "2"), typed("1.5", "double")),
        ("AVG", (typed("1e308", "double"), typed("1e308", "double")), typed("1.0E308", "double")),
        ("MIN", ("10", "9", "bob"), "9"),
        ("MAX", ("10", "9", "bob", "alice"), "bob"),
        ("MIN", ("bob", "alice", '"aa"'), '"aa"'),
        ("MIN", ("7", "07", "007"), "007"),
        ("MAX", ("7", "07", "007"), "7"),
        ("MIN", ("7", typed("NaN", "double")), "7"),
        ("MAX", ("7", typed("NaN", "double"), typed("INF", "double")), typed("NaN", "double")),
        ("MIN", ("7", None), None),
        ("SAMPLE", ("7", None, "6"), "6"),
        ("MIN", ("7", "_:b"), "_:b"),
        ("MAX", ("bob", typed("true", "boolean"), typed("2020-01-01", "date"), '"z"^^<http://u>'), '"z"^^<http://u>'),
    ],
)
def test_an_aggregate_has_its_value(function, values, expected):
    assert results(function, *values) == expected


def test_distinct_goes_by_term():
    assert results("COUNT", "7", "007", "7", is_distinct=True) == typed("2", "integer")
    assert results("SUM", "7", "007", "7", is_distinct=True) == typed("14", "integer")


def test_count_of_solutions():
    running = accumulator(Aggregate("COUNT", None, is_distinct=True))
    for solution in (("a", None), ("a", None), ("a", "b")):
        running.insert(solution)
    assert running.result() == typed("2", "integer")
    running.delete(("a", None))
    assert running.result() == typed("2", "integer")
    running.delete(("a", None))
    assert running.result() == typed("1", "integer")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.randoms())
def test_neither_order_nor_what_went_can_be_seen_in_a_sum(amounts, random):
    running = accumulator(Aggregate("SUM", Variable("x"), is_distinct=False))
    terms = [typed(repr(amount), "double") for amount in amounts]
    gone = [typed(repr(random.uniform(-1e300, 1e300)), "double") for _ in range(5)]
    for term in [*gone, *random.sample(terms, len(terms))]:
        running.insert(term)
    for term in gone:
        running.delete(term)
    assert running.result() == results("SUM", *terms)
    found = value_of(running.result())
    total = sum(map(Fraction, amounts), Fraction(0))
    try:
        exact = float(total)
    except OverflowError:  # nor is there a float of that size that a sign could be taken of
        exact = math.inf if total > 0 else -math.inf
    assert isinstance(found, Number) and found.amount == exact


def test_an_extremum_forgets_what_has_gone():
    extremum = Extremum()
    extremum.insert("0")
    for number in range(1, 200):
        extremum.insert(str(number))
        extremum.delete(str(number))
    assert len(extremum._heap) <= 40
    extremum._check()
    assert extremum.result() == "0"
