"""Parameters of MATCH: the nodes that take their places in the syntax tree, and values that are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lark", reason="the extra match is not installed")

import rpq
from rpq.errors import MatchError, QueryError
from rpq.language.match.parameters import parameter_values, with_parameters
from rpq.language.match.syntax import parse
from rpq.language.match.tree import ListOf, Null
from rpq.language.where import Call, WhereConstant

WINDOW = rpq.Window(size=100, slide=1)
USER = {"id": "u1", "pair": [1, 2], "none": None, "tags": {"a b": "x"}}


def constant(value: Any) -> WhereConstant:
    return WhereConstant(value, column=18)


def replaced(written: str, **parameters: Any) -> Any:
    """Return the node of the value `written`, which begins at column 18."""
    tree = with_parameters(parse(f"MATCH (a) RETURN {written}"), parameter_values(parameters))
    return tree.queries[0].parts[0].projection.items[0].value


@pytest.mark.parametrize(
    ("value", "node"),
    [
        ("it's", constant("it's")),
        (True, constant(True)),
        (3, constant(3)),
        (2**70, constant(Decimal(2**70))),
        (-0.1, constant(Decimal("-0.1"))),
        (2.0, constant(Decimal("2.0"))),
        (Decimal("19.90"), constant(Decimal("19.9"))),
        (np.int64(3), constant(3)),
        (np.float64(0.5), constant(Decimal("0.5"))),
        (None, Null(column=18)),
        ((), ListOf((), column=18)),
        ([1, ["x"]], ListOf((constant(1), ListOf((constant("x"),), column=18)), column=18)),
        (datetime(2024, 3, 1, 10, tzinfo=UTC), Call("datetime", (constant("2024-03-01T10:00:00+00:00"),), column=18)),
        (date(2024, 3, 1), Call("date", (constant("2024-03-01"),), column=18)),
        (timedelta(hours=1, microseconds=5), Call("duration", (constant("PT3600.000005S"),), column=18)),
        ({"datetime": "2024-03-01"}, Call("datetime", (constant("2024-03-01"),), column=18)),
    ],
)
def test_a_value_takes_the_place_of_its_parameter(value, node):
    found = replaced("$x", x=value)
    assert found == node and type(getattr(found, "value", None)) is type(getattr(node, "value", None))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$user.id", "u1"),
        ("$user['id']", "u1"),
        ("$user.pair[0]", 1),
        ("$user.pair[-1]", 2),
        ("$user.tags.`a b`", "x"),
    ],
)
def test_keys_choose_an_element(written, value):
    assert replaced(written, user=USER) == constant(value)


def test_what_null_contains_is_null():
    assert replaced("$user.none.id", user=USER) == Null(column=18)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("$other", "there is no value for the parameter $other: pass parameters={'other': …} (--param other=…)"),
        ("$usr", "did you mean 'user'?"),
        ("$user", "the parameter $user is a mapping, which is no value: choose a key of it, as in $user.id"),
        ("$user.ids", "the parameter $user has no key 'ids'; did you mean 'id'?"),
        ("$user.id.x", "the parameter $user.id is a text, which has no key 'x'"),
        ("$user.pair.x", "the parameter $user.pair is a list, which has no key 'x'"),
        ("$user.pair[2]", "the parameter $user.pair has 2 elements, and [2] is none of them"),
        ("$users", "the parameter $users[0] is a mapping"),
    ],
)
def test_errors_point_to_the_parameter(written, message):
    with pytest.raises(MatchError) as caught:
        replaced(written, user=USER, **({"users": [USER]} if written == "$users" else {}))
    assert message in caught.value.message and caught.value.column == 18


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"x": 1, "lest": 2}, "the text has no $lest: its parameters are $least, $x; did you mean 'least'?"),
        ({"x": object()}, "x is <object object"),
        ({"x": {"a": [{1, 2}]}}, "x.a[0] is {1, 2} (set)"),
        ({"x": float("nan")}, "x is nan"),
        ({"x": Decimal("0.12345678901234567890123")}, "more digits than a float"),
        ({"x": "\ud800"}, "lone surrogate"),
        ({5: 1}, "names are texts, not 5 (int)"),
        ([1], "expected values by name"),
    ],
)
def test_parameters_that_are_refused(parameters, message):
    if isinstance(parameters, dict):
        parameters = {"least": 1, **parameters}
    with pytest.raises(QueryError, match="^parameters: ") as caught:
        rpq.Query("MATCH (a {id: $x}) WHERE a.risk > $least RETURN a", window=WINDOW, parameters=parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["a+", "?x a ?y", "ASK { ?x <a> ?y }"])
def test_other_notations_have_no_parameters(text):
    with pytest.raises(QueryError, match="parameters is an option of MATCH"):
        rpq.Query(text, window=WINDOW, parameters={"x": 1})


def test_a_query_has_a_copy_of_its_parameters():
    ids = ["a"]
    query, other = (
        rpq.Query("MATCH (a) WHERE a.id IN $ids RETURN a", window=WINDOW, parameters={"ids": ids}) for _ in range(2)
    )
    assert query == other and hash(query) == hash(other)
    ids.append("b")
    assert query.parameters == {"ids": ["a"]}


def test_parameters_stand_where_values_do():
    """They have the rows of the same text with literals."""
    text = (
        "MATCH (a {id: $from})-[e:T WHERE e.amount > $limits.least]->(b) WHERE b.id IN $to AND e.amount < $limits.most "
        "RETURN b, e.amount + $more AS n ORDER BY n DESC SKIP $skip LIMIT $limit"
    )
    values = {"from": "a", "limits": {"least": 1, "most": 9.5}, "to": ["b", "c"], "more": 100, "skip": 1, "limit": 1}
    query = rpq.Query(text, window=WINDOW, language="cypher", parameters=values)
    engine = rpq.Engine(query, edges="parallel")
    for number, target in enumerate("bcbcd", 1):
        engine.insert("a", target, "T", number, properties={"amount": 2 * number})
    assert list(map(tuple, engine.answers())) == [("b", 106)]
