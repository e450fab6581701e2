"""Values of MATCH: what expressions give, in which order values are, and the types of their columns."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.language.match.syntax import parse
from rpq.language.match.tree import SortItem
from rpq.language.match.values.computation import Computation, read_value, term_of
from rpq.language.match.values.operations import sort_key
from rpq.language.match.values.value_types import result_type
from rpq.language.pattern import Variable
from rpq.language.sparql.algebra import FunctionCall
from rpq.language.sparql.algebra_text import formula_text
from rpq.language.sparql.values.formula_values import evaluator
from rpq.language.sparql.values.moments import Duration, Moment
from rpq.language.sparql.values.typed_values import NoValue
from rpq.rows.typed_columns import column_values, terms_to_values
from rpq.stream.names.list_terms import EdgeRef, Loose, Vertex, VertexName, decode_list, display_list, encode_list
from rpq.stream.names.terms import XSD, lexical_form, literal_text

NAN = math.nan


def tree_of(text: str) -> Any:
    """Return the tree of a value as it is written in RETURN."""
    return parse(f"MATCH (a) RETURN {text} AS v").queries[0].parts[-1].projection.items[0].value


def computation(text: str, inputs: dict[str, Any], **options: Any) -> Computation:
    kinds = {Vertex: "vertex", VertexName: "name", EdgeRef: "edge"}
    of_inputs = tuple((name, kinds.get(type(value), "value")) for name, value in inputs.items())
    return Computation(tree_of(text), of_inputs, options.pop("dialect", "cypher"), **options)


def evaluate(text: str, dialect: str = "cypher", **inputs: Any) -> Any:
    """Return the value of a text for values of its names; `__` in the name of an input is a point."""
    named = {name.replace("__", "."): value for name, value in inputs.items()}
    terms = [None if value is None else term_of(value) for value in named.values()]
    try:
        return read_value(computation(text, named, dialect=dialect)(*terms))
    except NoValue:
        return None


def shown(value: Any) -> Any:
    """Return a value with times and durations as texts."""
    literal = lexical_form(term_of(value)) if isinstance(value, (Moment, Duration)) else value
    return tuple(map(shown, value)) if isinstance(value, tuple) else literal


def check(text: str, expected: Any, dialect: str = "cypher", **inputs: Any) -> None:
    found = shown(evaluate(text, dialect, **inputs))
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
    else:
        assert (type(found), found) == (type(expected), expected)


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 / 2.5", 2.8),
        ("1 / 0", None),
        ("1.5 / 0", None),
        ("1 % 0", None),
        ("2 ^ 3", 8.0),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("9223372036854775807 + 1", None),
        ("-9223372036854775807 - 2", None),
        ("9223372036854775807 * 2", None),
        ("'a' + 'b'", "ab"),
        ("'a' + 1", "a1"),
        ("1.5 + 'a'", "1.5a"),
        ("'a' + true", None),
        ("'a' - 'b'", None),
        ("[1] + [2, 'x']", (1, 2, "x")),
        ("[1] + 2", (1, 2)),
        ("0 + [1]", (0, 1)),
        ("1 + null", None),
        ("null + 'a'", None),
        ("-(3)", -3),
    ],
)
def test_arithmetic(text: str, expected: Any) -> None:
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("7 / 2", 3.5), ("-7 % 2", 1), ("4 / 2", 2.0), ("1 / 0", None), ("n / 2", 3.5)]
)
def test_gql_divides_to_fractions(text: str, expected: Any) -> None:
    check(text, expected, "gql", n=7)


def test_decimals_are_exact_and_floats_are_not() -> None:
    check("d + 1", Decimal("1.1"), d=Decimal("0.1"))
    check("d * 3", Decimal("0.3"), d=Decimal("0.1"))
    check("d * 0.5", Decimal("0.05"), d=Decimal("0.1"))
    check("d = 0.1", True, d=Decimal("0.1"))
    check("d = x", False, d=Decimal("0.1"), x=0.1)
    check("x = 0.1", True, x=0.1)
    check("n + x", 2.5, n=2, x=0.5)
    check("n > 9007199254740992.0", True, n=2**53 + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 = 1.0", True),
        ("1 = '1'", False),
        ("1 <> '1'", True),
        ("1 < '1'", None),
        ("true < 1", None),
        ("'a' < 'b'", True),
        ("false < true", True),
        ("null = null", None),
        ("null <> 1", None),
        ("null IS NULL", True),
        ("1 IS NOT NULL", True),
        ("[1, 2] = [1, 2]", True),
        ("[1, null] = [1, 2]", None),
        ("[1, null] = [2, null]", False),
        ("[1] = [1, null]", False),
        ("[1, 2] < [1, 3]", True),
        ("[1] < [1, 0]", True),
        ("[null] < [1]", None),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("sqrt(-1) = sqrt(-1)", False),
        ("sqrt(-1) <> sqrt(-1)", True),
        ("sqrt(-1) < 1", False),
    ],
)
def test_comparisons(text: str, expected: Any) -> None:
    check(text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 IN [1, null]", True),
        ("2 IN [1, null]", None),
        ("2 IN [1, 3]", False),
        ("null IN [1]", None),
        ("null IN []", False),
        ("1 IN null", None),
        ("[1] IN [[1], 2]", True),
        ("NOT 1 IN [2]", True),
    ],
)
def test_in(text: str, expected: Any) -> None:
    check(text, expected)
    check(text.replace("[1, null]", "xs").replace("[1, 3]", "ys"), expected, xs=(1, None), ys=(1, 3))


@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_logic_of_three_values(left: bool | None, right: bool | None) -> None:
    both = False if False in (left, right) else None if None in (left, right) else True
    either = True if True in (left, right) else None if None in (left, right) else False
    check("p AND q", both, p=left, q=right)
    check("p OR q", either, p=left, q=right)
    check("p XOR q", None if None in (left, right) else left != right, p=left, q=right)
    check("NOT p", None if left is None else not left, p=left)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN n > 2 THEN 'many' WHEN n > 0 THEN 'few' ELSE 'none' END", "many"),
        ("CASE WHEN n < 2 THEN 'few' END", None),
        ("CASE WHEN null THEN 1 ELSE 2 END", 2),
        ("CASE n WHEN 1 THEN 'one' WHEN 3.0 THEN 'three' END", "three"),
        ("CASE n WHEN '3' THEN 1 ELSE 2 END", 2),
        ("CASE null WHEN null THEN 1 ELSE 2 END", 2),
    ],
)
def test_case(text: str, expected: Any) -> None:
    check(text, expected, n=3)


# --- loose values, vertices, edges -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 12", True),
        ("x = '12'", True),
        ("x + 1", 13),
        ("x + '!'", "12!"),
        ("x * 0.5", 6.0),
        ("x + y", 19),
        ("x < y", False),
        ("w + x", "n/a12"),
        ("w + 1", None),
        ("w = 5", None),
        ("w < 'o'", True),
        ("x = true", None),
        ("t = true", True),
        ("t AND true", True),
        ("toUpper(w)", "N/A"),
        ("size(x)", 2),
        ("toInteger(x) / 5", 2),
        ("x IN [12]", True),
        ("x", Loose("12")),
        ("empty IS NULL", True),
    ],
)
def test_loose_values(text: str, expected: Any) -> None:
    named = {"x": Loose("12"), "y": Loose("7"), "w": Loose("n/a"), "t": Loose("True"), "empty": Loose("")}
    check(text, expected, **named)


def test_vertices_and_edges_have_the_order_of_names() -> None:
    nine, ten, bob = Vertex("9"), Vertex("10"), Vertex("bob")
    check("a < b", True, a=nine, b=ten)
    check("a < b", True, a=ten, b=bob)
    check("a = b", False, a=Vertex("007"), b=Vertex("7"))
    check("a = b", False, a=nine, b=9)
    check("a < b", None, a=nine, b=10)
    check("a < b", True, a=VertexName("9"), b=VertexName("10"))
    check("a = b", False, a=VertexName("007"), b=VertexName("7"))
    check("a > 9", True, a=VertexName("10"))
    check("e < f", True, e=EdgeRef("9"), f=EdgeRef("10"))
    assert evaluate("CASE WHEN n > 0 THEN a END", n=1, a=bob) == Loose("bob")  # the term is the name
    check("[a, 1]", (bob, 1), a=bob)
    check("size([x IN [a, b] WHERE x <> a])", 1, a=bob, b=ten)


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xs[0]", 1),
        ("xs[-1]", 4),
        ("xs[4]", None),
        ("xs[null]", None),
        ("xs[1..3]", (2, 3)),
        ("xs[..2]", (1, 2)),
        ("xs[-2..]", (3, 4)),
        ("xs[..-1]", (1, 2, 3)),
        ("xs[1..null]", None),
        ("xs[3..1]", ()),
        ("head(xs)", 1),
        ("last(xs)", 4),
        ("tail(xs)", (2, 3, 4)),
        ("head([])", None),
        ("size(xs)", 4),
        ("reverse(xs)", (4, 3, 2, 1)),
        ("range(1, 7, 3)", (1, 4, 7)),
        ("range(3, 1, -1)", (3, 2, 1)),
        ("range(2, 1)", ()),
        ("range(1, 5, 0)", None),
        ("[x IN xs WHERE x % 2 = 0 | x * 10]", (20, 40)),
        ("[x IN xs WHERE x > 2]", (3, 4)),
        ("[x IN xs | [y IN xs WHERE y < x | x + y]]", ((), (3,), (4, 5), (5, 6, 7))),
        ("[x IN null | x]", None),
        ("reduce(total = 0, x IN xs | total + x)", 10),
        ("reduce(text = '', x IN xs | text + x)", "1234"),
        ("reduce(n = 9223372036854775807, x IN xs | n + x)", None),
        ("reduce(n = 0, x IN null | n + x)", None),
        ("all(x IN xs WHERE x > 0)", True),
        ("all(x IN ys WHERE x > 0)", None),
        ("all(x IN ys WHERE x > 1)", False),
        ("any(x IN ys WHERE x > 3)", True),
        ("any(x IN ys WHERE x > 4)", None),
        ("none(x IN xs WHERE x > 4)", True),
        ("single(x IN xs WHERE x > 3)", True),
        ("single(x IN xs WHERE x > 2)", False),
        ("single(x IN ys WHERE x > 3)", None),
        ("single(x IN [] WHERE true)", False),
    ],
)
def test_lists(text: str, expected: Any) -> None:
    check(text, expected, xs=(1, 2, 3, 4), ys=(1, 2, 3, 4, None))


def test_a_variable_of_a_list_hides_an_input_inside_it_alone() -> None:
    check("[x IN [1, 2] | x] + x", (1, 2, 9), x=9)


# --- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(-3)", 3),
        ("abs(-2.5)", 2.5),
        ("sign(-0.1)", -1),
        ("ceil(1.1)", 2.0),
        ("floor(-1.1)", -2.0),
        ("round(2.5)", 3.0),
        ("round(-1.5)", -1.0),
        ("round(3.14159, 2)", 3.14),
        ("round(-1.55, 1)", -1.6),
        ("round(1.249, 1, 'UP')", 1.3),
        ("sqrt(16)", 4.0),
        ("sqrt(-1)", NAN),
        ("log(0)", -math.inf),
        ("exp(0)", 1.0),
        ("pi()", math.pi),
        ("isNaN(sqrt(-1))", True),
        ("toInteger('42')", 42),
        ("toInteger('4.9')", 4),
        ("toInteger(-4.9)", -4),
        ("toInteger('x')", None),
        ("toInteger('1e30')", None),
        ("toFloat('1.5')", 1.5),
        ("toFloat(2)", 2.0),
        ("toString(1.5)", "1.5"),
        ("toString(true)", "true"),
        ("toBoolean('TRUE')", True),
        ("toBoolean('x')", None),
        ("toUpper('aé')", "AÉ"),
        ("trim('  a ')", "a"),
        ("replace('aXbX', 'X', '-')", "a-b-"),
        ("substring('hello', 1, 3)", "ell"),
        ("substring('hello', 3)", "lo"),
        ("left('hello', 2)", "he"),
        ("right('hello', 2)", "lo"),
        ("right('hello', 0)", ""),
        ("split('a,b,,c', ',')", ("a", "b", "", "c")),
        ("reverse('abc')", "cba"),
        ("size('aé')", 2),
        ("size(3)", None),
        ("'hello' STARTS WITH 'he'", True),
        ("'hello' ENDS WITH 'lo'", True),
        ("'hello' CONTAINS 'x'", False),
        ("'hello' CONTAINS null", None),
        ("1 CONTAINS '1'", None),
        ("'hello' =~ 'h.*'", True),
        ("'hello' =~ 'ell'", False),
        ("'HELLO' =~ '(?i)hello'", True),
        ("toUpper(5)", None),
        ("coalesce(null, 2, 3)", 2),
        ("coalesce(null, null)", None),
        ("nullIf(1, 1)", None),
        ("nullIf(1, 2)", 1),
        ("isEmpty('')", True),
        ("isEmpty([1])", False),
    ],
)
def test_functions(text: str, expected: Any) -> None:
    check(text, expected)


def test_a_match_with_an_invalid_regular_expression_is_null() -> None:
    check("s =~ '(a'", None, s="a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date('2024-02-29')", "2024-02-29"),
        ("date('2023-02-29')", None),
        ("date(t)", "2024-05-01"),
        ("datetime('2024-05-01T12:00')", "2024-05-01T12:00:00Z"),
        ("datetime('2024-05-01T12:00:00+02:00')", "2024-05-01T12:00:00+02:00"),
        ("localdatetime('2024-05-01T12:00:00.5')", "2024-05-01T12:00:00.5"),
        ("datetime({epochSeconds: 60})", "1970-01-01T00:01:00Z"),
        ("datetime({epochMillis: 1500})", "1970-01-01T00:00:01.5Z"),
        ("date({year: 2024, month: 3})", "2024-03-01"),
        ("duration('P1DT2H')", "P1DT2H"),
        ("duration({days: 1, hours: 2})", "P1DT2H"),
        ("duration({weeks: 1, milliseconds: 500})", "P7DT0.5S"),
        ("t + duration({hours: 13})", "2024-05-02T01:00:00Z"),
        ("t - duration('P1M')", "2024-04-01T12:00:00Z"),
        ("date('2024-01-31') + duration({months: 1})", "2024-02-29"),
        ("t + '10m'", "2024-05-01T12:10:00Z"),
        ("t - datetime('2024-05-01T10:30:00Z')", "PT1H30M"),
        ("datetime('2024-05-01T10:30:00Z') - t", "-PT1H30M"),
        ("t - datetime('2024-05-01T10:30:00Z') > duration({hours: 1})", True),
        ("t - datetime('2024-05-01T10:30:00Z') < '10m'", False),
        ("duration({hours: 1}) * 2", "PT2H"),
        ("duration({hours: 1}) / duration({minutes: 20})", 3.0),
        ("t.year * 100 + t.month", 202405),
        ("t.hour", 12),
        ("t.epochSeconds", 1714564800),
        ("[x IN [t] | x.day]", (1,)),
        ("(t - datetime('2024-05-01T10:30:00Z')).minutes", 90),
        ("t = datetime('2024-05-01T14:00:00+02:00')", True),
        ("t > date('2024-05-01')", True),
        ("t > '2024-05-01'", True),
        ("t > 'soon'", None),
        ("t = 1", False),
        ("toString(t)", "2024-05-01T12:00:00Z"),
    ],
)
def test_times(text: str, expected: Any) -> None:
    check(text, expected, t=read_value(literal_text("2024-05-01T12:00:00Z", XSD + "dateTime")))


# --- encodings -------------------------------------------------------------------------------------------------------


def test_a_condition_gives_its_truth_or_none() -> None:
    holds = computation("x > 3", {"x": 1}, encoding="truth")
    assert [holds(term_of(value)) for value in (4, 3)] == [term_of(True), term_of(False)]
    for unfit in (None, "a"):
        with pytest.raises(NoValue):
            holds(None if unfit is None else term_of(unfit))
    with pytest.raises(NoValue):
        computation("x", {"x": 1}, encoding="truth")(term_of(1))


def test_items_of_a_list_have_their_keys_before_them() -> None:
    values = [3, None, "b", Vertex("bob"), "a", 1.5, (1,)]
    items = []
    for value in values:
        item = computation("x", {"x": value}, encoding="item")
        if value is None:
            with pytest.raises(NoValue):
                item(None)
        else:
            items.append(lexical_form(item(term_of(value))))
    joined = ",".join(item.rpartition("\0")[2] for item in sorted(items))
    assert decode_list(f"[{joined}]") == (Vertex("bob"), (1,), "a", "b", 1.5, 3)


def test_items_have_the_order_of_order_by() -> None:
    rows = [(1, "b"), (2, "a"), (2, "ab"), (None, "c"), (3, "a")]
    order = (SortItem(tree_of("n"), True), SortItem(tree_of("s"), False))
    item = computation("s", {"n": 1, "s": "a"}, encoding="item", order=order)
    texts = [lexical_form(item(None if n is None else term_of(n), term_of(s))) for n, s in rows]
    assert [text.rpartition("\0")[2] for text in sorted(texts)] == ['"c"', '"a"', '"a"', '"ab"', '"b"']
    by_text = computation("s", {"s": "a"}, encoding="item", order=(SortItem(tree_of("s"), True),))
    texts = [lexical_form(by_text(term_of(s))) for s in ("a", "ab", "", "b", "é", "\U0001f600")]
    assert [text.rpartition("\0")[2] for text in sorted(texts)] == ['"\U0001f600"', '"é"', '"b"', '"ab"', '"a"', '""']


def test_computations_stand_in_place_of_the_names_of_functions() -> None:
    both = computation("x + y > 3 OR x IS NULL", {"x": 1, "y": 1})
    call = FunctionCall(both, (Variable("one"), Variable("other")))
    evaluate_call = evaluator(call)
    assert evaluate_call({"one": term_of(2), "other": term_of(2)}) == term_of(True)
    assert evaluate_call({"other": term_of(2)}) == term_of(True)
    with pytest.raises(NoValue):
        evaluate_call({"one": term_of(2)})
    assert formula_text(call) == "x + y > 3 OR x IS NULL"
    assert formula_text(FunctionCall("!", (call,))) == "!(x + y > 3 OR x IS NULL)"


def test_equal_computations_are_those_with_equal_texts() -> None:
    one, other = (computation(text, {"x": 1}) for text in ("x+1", "x  +  1"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != computation("x + 1.5", {"x": 1})
    assert one != computation("x + true", {"x": 1})
    assert one != computation("x + 1", {"x": 1}, dialect="gql")
    one(term_of(1))
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "text",
    [
        "a.x + 1 * (2 - b)",
        "(a + b) * c ^ 2",
        "NOT (x = 1 OR y IS NOT NULL) AND z IN [1, 'it\\'s']",
        "CASE x WHEN 1 THEN 'one' ELSE null END",
        "[x IN xs WHERE x > 1 | x * 2][0..-1]",
        "reduce(s = 0, x IN xs | s + x)",
        "all(x IN xs WHERE x STARTS WITH 'a')",
        "duration({days: 3})",
        "coalesce(head(xs), -1)",
    ],
)
def test_texts_of_values_can_be_read_again(text: str) -> None:
    written = str(Computation(tree_of(text), (), "cypher"))
    assert str(Computation(tree_of(written), (), "cypher")) == written
    assert Computation(tree_of(written), (), "cypher") == Computation(tree_of(text), (), "cypher")


# --- the order of all values -----------------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    st.sampled_from([0, 0.1, Decimal("0.1"), 1, 1.0, Decimal(1), -2.5, 2**53, 2.0**53, math.inf, -math.inf]),
)
texts = st.text(st.sampled_from('ab\0\1\2é\U0001f600"\\+!~'), max_size=4)
times = st.sampled_from(["2024-05-01", "1969-12-31"]).map(lambda day: read_value(literal_text(day, XSD + "date")))
scalars = st.one_of(
    st.none(), st.booleans(), numbers, texts, times, texts.filter(bool).map(Loose), st.builds(Vertex, texts),
    st.builds(EdgeRef, texts),
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def _rank(value: Any) -> int:
    if value is None:
        return 10
    if isinstance(value, bool):
        return 7
    if isinstance(value, (int, float, Decimal)):
        return 9 if value != value else 8
    return [Vertex, EdgeRef, tuple, Moment, str, Loose].index(type(value))


def _reference(one: Any, other: Any) -> int:
    """Compare two values: -1, 0 or 1; loose values, which are texts here, are as texts."""
    if isinstance(one, Loose):
        one = one.text
    if isinstance(other, Loose):
        other = other.text
    first, second = _rank(one), _rank(other)
    if first != second:
        return -1 if first < second else 1
    if isinstance(one, tuple):
        for pair in zip(one, other, strict=False):
            if (found := _reference(*pair)) != 0:
                return found
        return (len(one) > len(other)) - (len(one) < len(other))
    if one is None or first == 9:
        return 0
    if first == 8:
        kinds = [int, Decimal, float]
        same = (kinds.index(type(one)) > kinds.index(type(other))) - (kinds.index(type(one)) < kinds.index(type(other)))
        return (one > other) - (one < other) or same
    if first == 3:
        one, other = one.instant, other.instant
    elif not isinstance(one, (str, bool)):
        one, other = (getattr(value, "name", None) or getattr(value, "identity", "") for value in (one, other))
    return (one > other) - (one < other)


@given(values, values)
def test_keys_sort_as_values_do(one: Any, other: Any) -> None:
    keys = sort_key(one), sort_key(other)
    assert "\0" not in keys[0] + keys[1]
    assert (keys[0] > keys[1]) - (keys[0] < keys[1]) == _reference(one, other)


def test_names_sort_as_vertices_do() -> None:
    names = ["-3", "9", "10", "1e3", '"a"', "a", "ab", "b"]
    assert sorted(map(Vertex, reversed(names)), key=sort_key) == [*map(Vertex, names)]
    assert len({sort_key(Vertex(name)) for name in ("7", "07", "7.0")}) == 3
    loose = map(Loose, ["10", "9", "a", "1.0", "1"])
    assert [one.text for one in sorted(loose, key=sort_key)] == ["a", "1", "1.0", "9", "10"]


# --- terms and columns -----------------------------------------------------------------------------------------------


@given(values)
def test_values_survive_as_terms_and_in_lists(value: Any) -> None:
    def same(one: Any, other: Any) -> bool:
        if isinstance(one, tuple):
            return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
        return type(one) is type(other) and (one == other or (one != one and other != other))

    found = read_value(term_of((value,)))
    assert same(found, (value,))
    if value is not None and not isinstance(value, (Vertex, EdgeRef, Loose)):
        assert same(read_value(term_of(value)), value)


def test_lists_are_shown_with_plain_values() -> None:
    day = read_value(literal_text("2024-05-01", XSD + "date"))
    term = term_of((1, 2.0, Vertex("bob"), day, Decimal("0.50"), (None, True), Loose("x")))
    assert display_list(term) == [1, 2.0, "bob", "2024-05-01", Decimal("0.50"), [None, True], "x"]
    assert encode_list([]) == '"[]"^^<urn:x-rpq:list>'
    assert column_values([term, None], pa.string()).to_pylist() == [
        '[1, 2.0, "bob", "2024-05-01", 0.50, [null, true], "x"]', None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 2], pa.int64(), [1, None, 2]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([True, None], pa.bool_(), [True, None]),
        (["a", 1], pa.string(), ["a", "1"]),
        ([Decimal("1.5")], pa.decimal128(38, 2), [Decimal("1.50")]),
        ([(1, 2), (), None], pa.list_(pa.int64()), [[1, 2], [], None]),
        ([(Vertex("7"), None)], pa.list_(pa.int64()), [[7, None]]),
        ([(1, "a", 2.5)], pa.list_(pa.string()), [["1", "a", "2.5"]]),
        ([((1,), (2, 3)), (None,)], pa.list_(pa.list_(pa.int64())), [[[1], [2, 3]], [None]]),
    ],
)
def test_columns_have_the_values_of_terms(values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    terms = [None if value is None else term_of(value) for value in values]
    assert column_values(terms, kind).to_pylist() == expected
    many = pa.array(terms * 20, pa.string())
    assert terms_to_values(many, "result", pa.string(), value=kind).to_pylist() == expected * 20


def test_columns_of_times_have_their_unit() -> None:
    texts = ["2024-05-01T12:00:00.123456789Z", "2024-05-01T14:00:00+02:00", "2024-05-01T12:00:00", "1969-12-31T23:59:59.5"]
    terms = [*(literal_text(text, XSD + "dateTime") for text in texts), literal_text("1970-01-02", XSD + "date")]
    expected = {"s": [1714564800] * 3 + [-1, 86_400], "ms": [1714564800123] + [1714564800000] * 2 + [-500, 86_400_000]}
    for unit, numbers in expected.items():
        assert column_values(terms, pa.timestamp(unit)).cast(pa.int64()).to_pylist() == numbers
        assert column_values(terms, pa.timestamp(unit, "UTC")).cast(pa.int64()).to_pylist() == numbers


TYPES = {
    "n": pa.int64(),
    "x": pa.float64(),
    "d": pa.decimal128(38, 2),
    "s": pa.string(),
    "t": pa.timestamp("ms", "UTC"),
    "v": pa.int64(),
    "ns": pa.list_(pa.int64()),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + 1", "int64"),
        ("n / 2", "int64"),
        ("n / 2.5", "double"),
        ("n + x", "double"),
        ("n + 0.5", "double"),
        ("n + d", "decimal128(38, 2)"),
        ("d * d", "decimal128(38, 4)"),
        ("n > 1 AND s = 'a'", "bool"),
        ("s + 1", "string"),
        ("s * 2", "double"),
        ("t - t", "string"),
        ("t + duration({days: 1})", "timestamp[ms, tz=UTC]"),
        ("t + '10m'", "timestamp[ms, tz=UTC]"),
        ("t.year", "int64"),
        ("date(t)", "timestamp[s]"),
        ("CASE WHEN true THEN n ELSE x END", "double"),
        ("CASE WHEN true THEN n ELSE s END", "string"),
        ("CASE WHEN true THEN n END", "int64"),
        ("coalesce(null, n)", "int64"),
        ("null", "None"),
        ("[]", "list<item: string>"),
        ("[n, x]", "list<item: double>"),
        ("[v]", "list<item: int64>"),
        ("ns[0]", "int64"),
        ("ns[1..]", "list<item: int64>"),
        ("ns + n", "list<item: int64>"),
        ("[i IN ns | i > 1]", "list<item: bool>"),
        ("head(ns) * 2", "int64"),
        ("reduce(r = 0, i IN ns | r + i * x)", "double"),
        ("size(s)", "int64"),
        ("split(s, ',')", "list<item: string>"),
        ("abs(n)", "int64"),
        ("round(d, 1)", "decimal128(38, 2)"),
        ("floor(n)", "double"),
        ("later + 1", "int64"),
        ("coalesce(later, 1)", "int64"),
        ("later = 1", "bool"),
    ],
)
def test_result_types(text: str, expected: str) -> None:
    assert str(result_type(tree_of(text), TYPES.get)) == expected
