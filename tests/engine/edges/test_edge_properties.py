"""Properties of edges, and conditions on labels: the engine gives the rows and counts of the oracle.

semantics.md S14
"""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq.engine.running.condition_sets import FEW
from rpq.stream.arrays.properties import LOOSE_METADATA
from tests.calls import counted_calls
from tests.engine.edges.edge_streams import (
    CONDITION,
    WINDOW,
    Described,
    apply,
    as_batch,
    check_counts,
    check_shares,
    check_stream,
    described,
    drawn_events,
    drawn_tuples,
    push_one,
    restored,
    rows_of,
)
from tests.reference_properties import (
    Loose,
    PropertyEngine,
    Row,
    holds,
)
from tests.twins import examples


@examples(200)
@given(data=st.data())
def test_random_streams(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 3)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(
        *(one.query for one in queries),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )
    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check_counts)


@examples(100)
@given(data=st.data())
def test_random_streams_of_single_tuples(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 3)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    threads = data.draw(st.sampled_from((1, 1, 2)))
    witness = data.draw(st.sampled_from((False, False, True)))
    engine = rpq.Engine(*(one.query for one in queries), edges=identity, threads=threads, witness=witness, _capacity=1)
    for row in drawn_tuples(data, identity, 5, most=20):
        note(row)
        expected = Counter(apply(oracle, row))
        assert rows_of(push_one(engine, row), queries) == expected
        check_counts(engine, oracle, queries)
        if data.draw(st.integers(0, 9)) == 0:
            engine = restored(engine, threads=data.draw(st.sampled_from((1, 2))))


@examples(100)
@given(data=st.data())
def test_queries_that_come_and_go(data):
    """A query that reads what another reads begins with the solutions of its window, and goes on like the oracle's."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    first = data.draw(described("first"))
    second = Described(
        "second",
        data.draw(st.just(first.what)),
        size=first.oracle.size,
        slide=first.oracle.slide,
        semantics=data.draw(st.sampled_from(("explicit", "implicit"))),
        paths=data.draw(st.sampled_from(("walk", "simple", "simple_cycle"))),
    )
    note([first.query, second.query])
    oracle = PropertyEngine(first.oracle, second.oracle, identity=identity)
    engine = rpq.Engine(first.query, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    running = [first]
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        expected = apply(oracle, row)
        names = [one.query.name for one in running]
        changes = engine.push(as_batch([row], arrow=False))
        assert rows_of(changes, running) == Counter(row for row in expected if row.query in names)
        engine._check()
        come_or_go = data.draw(st.sampled_from(("stay", "stay", "come", "go")))
        if come_or_go == "come" and second not in running:
            running.append(second)
            solutions = oracle.solutions("second")
            expected = Counter({Row("second", values, oracle.time, "+"): count for values, count in solutions.items()})
            assert rows_of(engine.register(second.query), running) == expected
            engine._check()
        if come_or_go == "go" and second in running:
            running.remove(second)
            engine.unregister("second")
            engine._check()


@examples(100)
@given(data=st.data())
def test_queries_without_conditions_come_where_a_window_of_edges_is_kept(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    text = data.draw(st.sampled_from(("b", "a/b", "(a|c)+", "!(a)", "^b/c*")))
    first = data.draw(described("first"))
    second = Described(
        "second",
        text,
        size=data.draw(st.integers(1, 12)),
        slide=data.draw(st.integers(1, 4)),
        semantics=data.draw(st.sampled_from(("explicit", "implicit"))),
        paths="walk",
    )
    note([first.query, second.query])
    oracle = PropertyEngine(first.oracle, second.oracle, identity=identity)
    engine = rpq.Engine(first.query, keep=rpq.Window(size=16, slide=1), edges=identity, _capacity=1)
    running = [first]
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        names = [one.query.name for one in running]
        expected = Counter(change for change in apply(oracle, row) if change.query in names)
        is_single = data.draw(st.booleans())
        changes = push_one(engine, row) if is_single else engine.push(as_batch([row], arrow=False))
        assert rows_of(changes, running) == expected
        engine._check()
        if second not in running and data.draw(st.integers(0, 4)) == 0:
            running.append(second)
            solutions = oracle.solutions("second")
            expected = Counter({Row("second", values, oracle.time, "+"): count for values, count in solutions.items()})
            assert rows_of(engine.register(second.query), running) == expected
            engine._check()


@examples(100)
@given(data=st.data())
def test_queries_with_other_conditions_come_where_no_edge_of_their_window_is_unknown(data):
    """Such a query is refused, or begins with the solutions of its window and goes on like the oracle's."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    first, second = data.draw(described("first")), data.draw(described("second"))
    note([first.query, second.query])
    oracle = PropertyEngine(first.oracle, second.oracle, identity=identity)
    engine = rpq.Engine(first.query, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    running = [first]
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        expected = apply(oracle, row)
        names = [one.query.name for one in running]
        changes = engine.push(as_batch([row], arrow=False))
        assert rows_of(changes, running) == Counter(row for row in expected if row.query in names)
        engine._check()
        if second not in running and data.draw(st.booleans()):
            solutions = oracle.solutions("second")
            try:
                begun = engine.register(second.query)
            except rpq.RegistrationError as refused:
                assert refused.available_from is None or refused.available_from > oracle.time
            else:
                running.append(second)
                expected = Counter({Row("second", values, oracle.time, "+"): count for values, count in solutions.items()})
                assert rows_of(begun, running) == expected
            if second not in running and data.draw(st.booleans()):
                engine = restored(engine)
            engine._check()


@examples(100)
@given(data=st.data())
def test_events_of_several_tuples(data):
    """The rows of an event are the net rows of its tuples, at the largest of their timestamps."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(*(one.query for one in queries), edges=identity, events="window", _capacity=1)
    time = 5
    for _ in range(data.draw(st.integers(1, 4))):
        columns, expected, time = drawn_events(data, oracle, identity, time)
        note(columns)
        assert rows_of(engine.push(columns), queries) == expected
        engine._check()
        if data.draw(st.integers(0, 3)) == 0:
            engine = restored(engine)


def test_each_event_by_itself_may_have_properties():
    query = rpq.Query("a[n > 1 and timestamp > 6]/b", window=rpq.UnboundedWindow(), name="q")
    for identity in ("triple", "parallel", "id"):
        engine = rpq.Engine(query, events="alone", edges=identity)
        given = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "n": [5, None], "edge": ["e", "f"]}
        assert engine.push({**given, "timestamp": [5, 6]}, event=True).added == 0
        rows = engine.push(pa.table({**given, "timestamp": [7, 6]}), event=True).rows()
        assert [(row.source, row.target, row.timestamp) for row in rows] == [("x", "z", 7)]
        assert engine.push({**given, "timestamp": [7, 8]}).added == 0  # each tuple is an event
        engine._check()


# --- the examples of the oracle that are worked by hand -----------------------------------------------------


@pytest.mark.parametrize("kind", ["int", "float"])
@examples(50)
@given(data=st.data())
def test_conditions_that_are_found_by_search(kind, data):
    numbers = st.integers(-5, 5) if kind == "int" else st.floats(-5, 5, width=16) | st.just(math.nan)
    signs = st.sampled_from(("<", "<=", ">", ">=", "=", "!="))
    constants = st.integers(-5, 5) if kind == "int" else st.integers(-5, 5) | st.floats(-5, 5, width=16)
    conditions = sorted({f"n {data.draw(signs)} {data.draw(constants)!r}" for _ in range(2 * FEW)})
    window = rpq.Window(size=10, slide=1)
    engine = rpq.Engine(*(rpq.Query(f"a[{one}]", window=window, name=one) for one in conditions), edges="parallel")
    values = data.draw(st.lists(st.none() | numbers, min_size=1, max_size=20))
    ends = [f"v{place}" for place in range(len(values))]
    column = pa.array(values, pa.int64() if kind == "int" else pa.float64(), from_pandas=False)
    changes = engine.push(source=ends, target=ends, label=["a"] * len(values), timestamp=[1] * len(values), n=column)
    pairs = [(one, end, value) for one in conditions for end, value in zip(ends, values, strict=True)]
    expected = {(one, end) for one, end, value in pairs if holds(one, {"n": value})}
    assert {(row.query, row.source) for row in changes.rows()} == expected


NUMBERS = {
    "int": st.integers(-5, 5) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "float": st.floats(-5, 5, width=16) | st.sampled_from([0.1, 0.3, 19.99, 2.0**53, 2.0**63, 1e300, math.inf, math.nan]),
    "decimal": st.decimals(-5, 5, places=2) | st.sampled_from([Decimal("0.1"), Decimal("19.99"), Decimal(2**53 + 1)]),
    "loose": st.sampled_from(
        ["0.1", "0.10", "19.99", " 5", "+3", "x", "", "1,500.00", "9007199254740993.0", "9007199254740992", "1e400"]
        + ["1e-400", "-1e400", "1" * 30, "1" * 29 + "2", str(2**63 - 1), "-9223372036854775808.5", "nan", "true"]
    ).map(Loose),
}
TYPES = {"int": pa.int64(), "float": pa.float64(), "decimal": pa.decimal128(20, 3), "loose": pa.string()}
CONSTANTS = ["0.1", "19.99", "-1234.56", "5", "3.0", "0.01", "9007199254740992", "9007199254740993.0", "9223372036854775807"]
CONSTANTS += ["9223372036854775808", "-9223372036854775808", "1e400", "-1e-400", "1" * 30, "2e3", "0", "-0.5", "1e-77"]
COMPARISONS = ["n {sign} {one}", "n {sign} m", "n + {two} {sign} {one}", "n between {one} and {two}", "n in ({one}, {two})"]
COMPARISONS += ["n * {one} {sign} {two}", "n - m {sign} {one}", "{one} * {two} {sign} n", "n / {one} < {two}"]


@examples(1000)
@given(data=st.data(), count=st.integers(1, 5))
def test_numbers_are_exact(data, count):
    kinds = {name: data.draw(st.sampled_from(sorted(NUMBERS))) for name in "nm"}
    forms = [*COMPARISONS, *(["n % 3 {sign} {two}"] if kinds["n"] != "float" else [])]
    text = data.draw(st.sampled_from(forms)).format(
        sign=data.draw(st.sampled_from(("<", "<=", ">", ">=", "=", "!="))),
        one=data.draw(st.sampled_from(CONSTANTS)),
        two=data.draw(st.sampled_from([*CONSTANTS, "n", "m", "m"])),
    )
    columns, fields, ends = [], [], [f"v{place}" for place in range(count)]
    for name, kind in kinds.items():
        columns.append(data.draw(st.lists(st.none() | NUMBERS[kind], min_size=count, max_size=count)))
        fields.append(pa.field(name, TYPES[kind], metadata=LOOSE_METADATA if kind == "loose" else None))
    stream = pa.table({"source": ends, "target": ends, "label": ["a"] * count, "timestamp": [1] * count})
    for field, column in zip(fields, columns, strict=True):
        stream = stream.append_column(field, pa.array(column, field.type, from_pandas=False))
    engine = rpq.Engine(rpq.Query(f"a[{text}]", window=rpq.Window(size=10, slide=1)), edges="parallel")
    expected = {end for end, n, m in zip(ends, *columns, strict=True) if holds(text, {"n": n, "m": m})}
    assert {row.source for row in engine.push(stream).rows()} == expected


@pytest.mark.parametrize("column", [[-7, 7], [Decimal("-7.0"), Decimal("7.0")]], ids=["int", "decimal"])
def test_a_remainder_has_the_sign_of_the_divisor(column):
    engine = rpq.Engine(rpq.Query("a[n % 3 = 2 or n % -3 = -2]", window=WINDOW))
    changes = engine.push(source=["v", "w"], target=["v", "w"], label=["a", "a"], timestamp=[1, 1], n=column)
    assert [row.source for row in changes.rows()] == ["v", "w"]


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("(a|b)[n > 1]", 6, "one behind each label"),
        ("a+[n > 1]", 3, "one behind each label"),
        ("!(a[n > 1]|b)", 4, "one condition behind the set"),
        ("a[]", 3, "empty"),
        ("a[n > 1", 2, "'['"),
        ("a[n >]", 6, "expected"),
        ("a[label = 'x']", 3, "no property"),
        ("/".join(f"a[n > {number}]" for number in range(13)), 1, "13 conditions"),
    ],
)
def test_expressions_that_are_refused(expression, column, message):
    with pytest.raises(rpq.ExpressionError, match=re.escape(message)) as raised:
        rpq.Query(expression, window=WINDOW)
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rpq.Engine(CONDITION, edges="ids"), "'triple', 'parallel' or 'id'"),
    ],
    ids=["identity"],
)
def test_what_does_not_go_with_conditions_is_refused(make, message):
    with pytest.raises(rpq.QueryError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (rpq.Query("a+", window=WINDOW, order="increasing"), {}, "paths in time order.*leave out the order"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {"identity": "parallel"}, r"selects \?e,.*leave it out"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {}, r"selects \?e, and on Spark an edge without an id"),
        (CONDITION, {"identity": "ids"}, "'triple', 'parallel' or 'id'"),
        (CONDITION, {}, r"source, label and target, with its properties \(n\).*sequence=.*identity='parallel'"),
        (rpq.Query("a+", window=WINDOW), {"identity": "id"}, "the edge with its id, and .*sequence="),
    ],
)
def test_streams_on_spark_refuse_what_they_cannot_tell(query, options, message):
    """Before they look at a session or at data, of which there are none here."""
    pytest.importorskip("pyspark")
    from rpq.spark import rpq_changes, stream_to
    from rpq.spark.errors import PipelineError

    for run in (
        lambda: rpq_changes(None, query, **options),
        lambda: stream_to(None, "rows", query, checkpoint="state", **options),
    ):
        with pytest.raises(PipelineError, match=message):
            run()


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (rpq.Query("a+", window=WINDOW, order="increasing"), {}, "paths in time order.*leave out the order"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {"edges": "parallel"}, r"selects \?e,.*has no number.*ids"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {}, r"selects \?e, and on Spark an edge without an id"),
        (CONDITION, {"edges": "ids"}, "'triple', 'parallel' or 'id'"),
    ],
)
def test_replays_refuse_what_they_cannot_tell(query, options, message):
    """Before they look at a session or at data, of which there are none here."""
    pytest.importorskip("pyspark")
    from rpq.spark import replay
    from rpq.spark.errors import PipelineError

    with pytest.raises(PipelineError, match=message):
        replay(None, "data", query, **options)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a[n > 1]", [], "has conditions on edges.*leave out the brackets"),
        ("?x ?e:a ?y", [], r"binds edges to variables \(\?e:a\).*leave out the edge variables"),
        ("?x a ?y", ["--filter", "?x <> ?y"], "has a filter.*write the filter in SPARQL, as FILTER"),
    ],
)
def test_commands_of_spark_refuse_values_of_edges(text, options, message, tmp_path):
    """Before Java starts, of which these tests need none."""
    pytest.importorskip("pyspark")
    from rpq.spark.cli import spark

    options = [*options, "--window", "10", "--slide", "5", "--output", str(tmp_path / "rows")]
    topics = ["--input", "kafka://localhost:1/edges", "--checkpoint", str(tmp_path / "state")]
    for command, data in (("replay", ["--input", str(tmp_path)]), ("stream", topics)):
        result = CliRunner().invoke(spark, [command, text, *options, *data])
        assert result.exit_code == 2 and re.search(message, result.output.replace("\n", " ")), result.output


def test_a_query_whose_properties_were_not_kept_is_refused():
    engine = rpq.Engine(rpq.Query("a", window=WINDOW))
    engine.insert("x", "y", "a", 1)
    with pytest.raises(rpq.RegistrationError, match="properties of edges were not stored"):
        engine.register(CONDITION)
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1)
    for text in ("a[m > 1]", "a[n > 2]", "!b[n > 1]"):
        with pytest.raises(rpq.RegistrationError, match="was not stored"):
            engine.register(rpq.Query(text, window=WINDOW))
    with pytest.raises(rpq.RegistrationError, match="leave out"):
        engine.register(rpq.Query("a[n > 1]", window=WINDOW), start="empty")
    assert engine.register(rpq.Query("a[1 < n]", window=WINDOW)).added == 0
    parallel = rpq.Engine(CONDITION, edges="parallel")
    parallel.insert("x", "y", "a", 1, properties={"m": 5})
    with pytest.raises(rpq.RegistrationError, match="empty"):
        parallel.register(rpq.Query("a[m > 1]", window=WINDOW))
    assert parallel.register(rpq.Query("a[m > 1]", window=WINDOW), start="empty").added == 0
    assert parallel.insert("x", "z", "a", 2, properties={"m": 5}).added == 1


def test_a_condition_can_be_had_when_the_edges_have_left_that_were_not_evaluated():
    window = rpq.Window(size=10, slide=5)
    engine = rpq.Engine(rpq.Query("a[n > 1]/b", window=rpq.Window(size=40, slide=5)))
    engine.push_rows([("x", "y", "a", 12), ("y", "z", "b", 17)])
    late = rpq.Query("a[n > 2]", window=window, name="late")
    with pytest.raises(rpq.RegistrationError, match=r"from 25 on, if no more edges with these labels come") as refused:
        engine.register(late)
    assert refused.value.available_from == 25
    assert "empty" not in str(refused.value)  # which is refused, too
    with pytest.raises(rpq.RegistrationError, match="before the first tuple") as refused:
        engine.register(rpq.Query("a[n > 2]", window=rpq.UnboundedWindow(), name="late"))
    assert refused.value.available_from is None
    engine.register(rpq.Query("c[n > 2]", window=window, name="other"))  # no edge has that label
    engine.advance(24)
    with pytest.raises(rpq.RegistrationError, match="from 25 on"):
        engine.register(late)
    engine.advance(25)
    assert engine.register(late).added == 0
    assert engine.insert("x", "y", "a", 26, properties={"n": 3}).added == 2
    engine._check()


def test_an_engine_says_start_empty_only_where_it_takes_it():
    cases = (("id", "c", False), ("parallel", "c", True), ("triple", "c", True), ("triple", "c[n > 1]", False))
    for identity, text, is_named in cases:
        first = rpq.Query("a[n > 1]", window=rpq.Window(size=10, slide=5))
        engine = rpq.Engine(first, edges=identity)
        ids = {"edge": "e"} if identity == "id" else {}
        engine.insert("x", "y", "c", 12, **ids)
        with pytest.raises(rpq.RegistrationError) as refused:
            engine.register(rpq.Query(text, window=rpq.Window(size=10, slide=5), name="late"))
        assert ('start="empty"' in str(refused.value)) == is_named
        assert refused.value.available_from == 25


def test_an_engine_goes_on_after_a_query_was_refused():
    engine = rpq.Engine(rpq.Query("b", window=rpq.CountWindow(size=3), name="counted"))
    with pytest.raises(rpq.QueryError, match="register the two together"):
        engine.register(CONDITION)
    engine.register(rpq.Query("c", window=rpq.CountWindow(size=3)))
    assert engine.insert("x", "y", "b", 1).added == 1
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1, properties={"n": 5})
    with pytest.raises(rpq.QueryError, match="was not stored"):
        engine.register(rpq.Query("a[n = 'x']", window=WINDOW))
    with pytest.raises(rpq.QueryError, match="another query has another window"):
        engine.register(rpq.Query("b", window=rpq.CountWindow(size=3)), start="empty")
    assert engine.insert("y", "z", "b", 2).added == 1
    engine = rpq.Engine(CONDITION, edges="parallel")
    engine.insert("x", "y", "a", 1, properties={"n": 5})
    with pytest.raises(rpq.QueryError, match=r"the condition \[n = 'x'\] does not fit"):
        engine.register(rpq.Query("a[n = 'x']", window=WINDOW), start="empty")
    assert engine.insert("y", "z", "b", 2).added == 1
    engine._check()


# --- shares ---------------------------------------------------------------------------------------------------


@examples(100)
@given(data=st.data())
def test_shares_have_the_rows_between_them(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    check_shares(data, identity, queries, rows_of)


def test_values_of_each_type_are_restored():
    """A witness tells after a restart the values of before it."""
    condition = " or ".join(f"{name} is not null" for name in "bdfistn")
    engine = rpq.Engine(rpq.Query(f"a[{condition}]", window=WINDOW, name="q"), edges="id", witness=True)
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    columns = {
        "b": pa.array([True, None]),
        "d": pa.array([Decimal("1.50"), None]),
        "f": pa.array([None, 2.5]),
        "i": pa.array([2**62, None]),
        "s": pa.array(["ü", None]),
        "t": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "n": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns")),
    }
    ends = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 2], "edge": [7, 8]}
    engine.push(pa.table({**ends, **columns}))
    values = [engine.witness(*answer).properties for answer in (("x", "y"), ("y", "z"))]
    assert values[0][0].keys() == {*"bdistn"} and values[1] == ({"f": 2.5},)
    again = restored(restored(engine, witness=True), witness=True)
    assert [again.witness(*answer).properties for answer in (("x", "y"), ("y", "z"))] == values
    assert engine.witness("x", "y").to_json() == again.witness("x", "y").to_json()


@pytest.mark.parametrize("identity", ["parallel"])
def test_explain_tells_the_identity_of_edges_and_the_conditions_of_relations(identity):
    pattern = rpq.Query("?x a[n > 1] ?y . ?y b ?z", window=WINDOW, name="pattern")
    engine = rpq.Engine(CONDITION, pattern, edges=identity)
    assert f"\nedges        {identity}: " in str(engine.explain("q"))
    explained = engine.explain("pattern")
    assert f"\nedges        {identity}: " in str(explained)
    assert [relation.name for relation in explained.relations][:2] == ["a[n > 1]", "b"]
    assert explained.to_dict()["identity"].startswith(identity)
    assert "edges  " not in str(rpq.Engine(rpq.Query("a", window=WINDOW)).explain())


def push(engine: rpq.Engine, **columns) -> rpq.Changes:
    count = len(next(iter(columns.values())))
    ends = [f"v{number}" for number in range(count)]
    return engine.push(source=ends, target=ends, label=["a"] * count, timestamp=[1] * count, **columns)


@pytest.mark.parametrize("identity", ["parallel"])
def test_edges_that_no_query_reads_take_no_room(identity):
    window = rpq.UnboundedWindow()
    engine = rpq.Engine(*(rpq.Query(f"a[n > {n}]", window=window, name=str(n)) for n in range(3)), edges=identity)

    def push(label: str, time: int, count: int) -> rpq.Changes:
        names = [f"{label}{number}" for number in range(count)]
        return engine.push(
            {"source": names, "target": names, "label": [label] * count, "timestamp": [time] * count, "n": [9] * count}
        )

    push("a", 1, 10)
    before = engine.statistics().index_bytes
    assert not len(push("b", 2, 20_000)) and engine.statistics().index_bytes == before
    # Each of these is an edge of three relations, for which there is no room yet.
    assert len(push("a", 3, 3_000)) == 3 * (3_000 - 10)
    assert all(len(engine.answers(name)) == 3_000 for name in "012")
    engine._check()


def test_a_value_of_another_type_ends_the_push_at_its_row():
    engine = rpq.Engine(rpq.Query("a[n > 1]", window=WINDOW))
    message = "row 1: column 'n': 'much' is a string, and the values before are of type int"
    with pytest.raises(rpq.InputError, match=message) as bad:
        push(engine, n=[5, "much", 7])
    assert bad.value.changes.added == 1
    with pytest.raises(rpq.InputError, match="row 0: column 'n': 2.5 is a float"):
        push(engine, n=pa.array([2.5]))
    with pytest.raises(rpq.InputError, match="column 'n' is of type binary"):
        push(engine, n=pa.array([b"x"]))
    assert push(engine, n=pa.array([3], pa.int8())).added == 0  # v0 was inserted by the first push
    assert push(engine, m=[3]).removed == 1  # a missing column is null


def test_a_number_that_is_compared_with_text_is_refused():
    engine = rpq.Engine(rpq.Query("a[n > 1]", window=WINDOW))
    with pytest.raises(rpq.InputError, match=r"the condition \[n > 1\] .*column 'n' is of type string"):
        push(engine, n=["5"])
    assert push(engine, n=[5]).added == 1


def test_properties_of_one_insert_have_no_names_of_columns():
    engine = rpq.Engine(CONDITION)
    with pytest.raises(rpq.InputError, match="'label' is a column of tuples"):
        engine.insert("x", "y", "a", 1, properties={"label": "b"})


def test_an_index_that_is_built_anew_asks_for_memory_in_the_name_of_its_tuple():
    """The first delete loads more edges than its chunk has tuples."""
    engine = rpq.Engine(rpq.Query("(a|a[n is null])+/b", window=WINDOW), _capacity=1)
    count = 50
    ends = {"source": [f"s{number}" for number in range(count)], "target": ["t"] * count, "label": ["a"] * count}
    assert engine.push({**ends, "timestamp": [1] * count}).added == 0
    assert engine.insert("t", "u", "b", 1).added == count
    assert engine.insert("s0", "t", "a", 1, properties={"n": 1}).removed == 0  # two edges of one tuple, one of which goes
    assert engine.delete("s0", "t", "a", 1).removed == 1


# --- what is no property ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([5, "much"], 1),
        ([5, 2**70], 1),
        ([*[5] * 40_000, "much"], 40_000),  # which took minutes
        (np.array([5, "much"], object), 1),
        (pd.Series([5, "much"], dtype="category"), 1),
        (np.array([1j, 2]), None),
        (7, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_no_property_is_refused(values: Any, row: int | None) -> None:
    count = len(values) if hasattr(values, "__len__") else 2
    engine = rpq.Engine(rpq.Query("a[amount > 1]", window=rpq.Window(size=10, slide=1)))
    columns = {"source": ["x"] * count, "target": ["y"] * count, "label": ["a"] * count, "timestamp": [1] * count}
    forms: list[Any] = [columns | {"amount": values}]
    if isinstance(values, (list, pd.Series)):
        forms.append(pd.DataFrame(forms[0]))
    for data in forms:
        with pytest.raises(rpq.InputError, match="column 'amount'") as found:
            engine.push(data)
        assert (found.value.column, found.value.row) == ("amount", row)
        assert len(found.value.changes or ()) == (1 if row and isinstance(values, (list, pd.Series, np.ndarray)) else 0)
        engine = rpq.Engine(*engine.queries)


def test_values_are_properties_in_any_container() -> None:
    window = rpq.Window(size=10, slide=1)
    columns = {"source": [*"xyz"], "target": [*"xyz"], "label": [*"aaa"], "timestamp": [1, 2, 3]}
    for values in (
        [5, None, 0.5],
        [5, pd.NA, 0.5],
        (5, None, 0.5),
        pd.Series([5, None, 0.5]),
        pd.Series([5, None, 0.5], dtype=object),
        pd.Series([5, np.nan, 0.5], dtype=object),
        pd.Series([5, pd.NA, 0.5], dtype=object),
        pd.Series([5, None, 0.5], dtype=pd.CategoricalDtype(pd.Index([0.5, 5], dtype=object))),
        pd.Categorical([5, None, 0.5], categories=pd.Index([0.5, 5], dtype=object)),
        pd.Index([5, np.nan, 0.5], dtype=object),
        np.array([5, None, 0.5], object),
        pl.Series([5.0, None, 0.5]),
        pa.array([5, None, 0.5]),
        pa.chunked_array([[5.0, None], [0.5]]),
    ):
        for data in (columns | {"amount": values}, pd.DataFrame(columns | {"amount": list(values)})):
            if isinstance(data, pd.DataFrame) and isinstance(values, (pa.Array, pa.ChunkedArray)):
                continue  # pandas makes objects of Arrow's scalars
            engine = rpq.Engine(rpq.Query("a[amount > 1]", window=window), rpq.Query("a[amount is null]", window=window))
            found = [change.source for change in engine.push(data).rows()]
            assert found == ["x", "y"], (type(values), type(data))


def test_a_column_of_pandas_is_not_read_value_by_value() -> None:
    count = 30_000
    columns: dict[str, Any] = {name: [name] * count for name in ("source", "target", "label")}
    columns |= {"timestamp": np.arange(count), "kind": pd.Series([None, "good"] * (count // 2), dtype=object)}
    engine = rpq.Engine(rpq.Query("label[kind = 'good']", window=rpq.UnboundedWindow()))
    for data in (columns, pd.DataFrame(columns)):
        with counted_calls() as calls:
            engine.push(data)
        assert len(engine.answers()) == 1
        columns["timestamp"] = columns["timestamp"] + count
    assert calls.count < 0.2 * count
