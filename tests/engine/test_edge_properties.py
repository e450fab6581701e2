"""Properties of edges, and conditions on labels: the engine gives the rows and counts of the oracle.

semantics.md S14
"""

from __future__ import annotations

import itertools
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq.engine.running.condition_sets import FEW
from tests.oracle import test_reference_properties as worked
from tests.reference_patterns import Variable
from tests.reference_properties import (
    COUNTS,
    CountedQuery,
    CountedStaticQuery,
    Edge,
    EdgeAtom,
    PropertyEngine,
    PropertyQuery,
    Row,
    StaticQuery,
    holds,
    pairs,
)
from tests.twins import examples, left_to_ci

X, Y, Z = map(Variable, "xyz")

EXPRESSIONS = (
    "a",
    "a[n > 1]",
    "a[n > 1]/b",
    "a[n > 1]+",
    "(a[n > 2]|b)+",
    "a[n > 1]/b*/a[n > 2]",
    "a/^a[n < 2]",
    "^a[m = 'x']/b[n >= 1]*",
    "a[n > 1]/a[1 < n]/a",
    "a[m = ']' or n is null]|b[n in (1, 2)]",
    "(a[n between 1 and 2]/b[not n > 1])+",
    "a[timestamp > 6]/b[timestamp > n]",
    "!(a)[n > 1]",
    "!()[n > 1]/!a",
    "!(a|^b)[m = 'x' or n is null]",
    "(!a[n > 0]|a[n > 2])+",
    "a[n > 1]*/!(a|b)",
)
PATTERNS = (
    ((X, "a[n > 1]", Y), (Y, "b", Z)),
    ((X, "a[n > 1]", Y), (Y, "a[n > 2]", Z)),
    ((X, "a", Y), (X, "a[m = 'x']", Y)),
    ((X, "^b[n > 0]", Y), (X, "a[n > 1]+", Z)),
    ((X, "!(a)[n > 1]", Y), (Y, "b[n is null]", X)),
    ((X, "a[n > 1]/b", Y), (Y, "a", Z)),
)


class Described:
    """The query of the oracle and that of the engine."""

    def __init__(self, name: str, what: object, **options) -> None:
        self.what = what
        window = rpq.Window(size=options["size"], slide=options["slide"])
        semantics = options["semantics"]
        if isinstance(what, str):
            self.oracle = PropertyQuery.path(what, name=name, **options)
            self.query = rpq.Query(what, window=window, semantics=semantics, paths=options["paths"], name=name)
        else:
            names = tuple(name for name in "xyz" if any(Variable(name) in (s, o) for s, _, o in what))
            self.oracle = PropertyQuery(name=name, atoms=tuple(EdgeAtom(*atom) for atom in what), select=names, **options)
            text = " . ".join(f"?{subject.name} {expression} ?{object_.name}" for subject, expression, object_ in what)
            self.query = rpq.Query(text, window=window, semantics=semantics, paths=options["paths"], name=name)


@st.composite
def described(draw, name: str) -> Described:
    return Described(
        name,
        draw(st.sampled_from(EXPRESSIONS) | st.sampled_from(PATTERNS)),
        size=draw(st.integers(1, 9)),
        slide=draw(st.integers(1, 4)),
        semantics=draw(st.sampled_from(("explicit", "implicit"))),
        paths=draw(st.sampled_from(("walk", "walk", "simple", "simple_cycle"))),
    )


VERTICES = st.sampled_from("uvw")
PROPERTIES = st.fixed_dictionaries(
    {}, optional={"n": st.sampled_from((None, 0, 1, 2, 3)), "m": st.sampled_from((None, "x", "]"))}
)
TUPLES = st.tuples(
    VERTICES, st.sampled_from("aaabc"), VERTICES, st.sampled_from((0, 0, 0, 1, 1, 2, -1, -3, -8, 7)), PROPERTIES,
    st.sampled_from("++++-"), st.sampled_from((None, "e", "e", "f", "g", "h")),
)  # fmt: skip
"""The last value is the id of the edge, where edges have one; an insert then has some."""

NOTHING = None, None, None
"""In place of source, label and target of a delete with an id."""


def drawn_tuples(data, identity: str, time: int, *, most: int) -> list[tuple]:
    """Return tuples, each with its timestamp in place of a step."""
    rows = []
    for source, label, target, step, properties, op, edge in data.draw(st.lists(TUPLES, min_size=1, max_size=most)):
        edge = None if identity != "id" else edge or (None if op == "-" else "e")
        has_ends = op == "+" or edge is None or data.draw(st.booleans())
        ends = (source, label, target) if has_ends else NOTHING
        rows.append((*ends, time + step, properties, op, edge))
        time = max(time, time + step)
    return rows


def drawn_events(data, oracle: PropertyEngine, identity: str, time: int) -> tuple[dict, Counter, int]:
    """Return the columns of some events, the rows of the oracle, and the time after them."""
    batch, expected, number = [], Counter(), 0
    for _ in range(data.draw(st.integers(1, 3))):
        rows = drawn_tuples(data, identity, time, most=4)
        at = max(row[3] for row in rows)
        time, number = max(time, at), number + 1
        batch += [(*row, number) for row in rows]
        expected.update(oracle.advance(at))
        net: Counter = Counter()
        for row in rows:
            for change in apply(oracle, (*row[:3], at, *row[4:])):
                net[change._replace(op="+")] += 1 if change.op == "+" else -1
        expected.update({change: count for change, count in net.items() if count > 0})
        expected.update({change._replace(op="-"): -count for change, count in net.items() if count < 0})
    return {**as_batch([row[:7] for row in batch], arrow=False), "event": [row[7] for row in batch]}, expected, time


def apply(oracle: PropertyEngine, row: tuple) -> list[Row]:
    """Return the rows of the oracle for a tuple."""
    source, label, target, timestamp, properties, op, edge = row
    if op == "+":
        return oracle.insert(source, label, target, timestamp, edge, **properties)
    return oracle.delete(source, label, target, timestamp, edge)


def push_one(engine: rpq.Engine, row: tuple) -> rpq.Changes:
    """Push a tuple alone."""
    source, label, target, timestamp, properties, op, edge = row
    if op == "+":
        return engine.insert(source, target, label, timestamp, edge=edge, properties=properties)
    return engine.delete(source, target, label, timestamp, edge=edge)


def as_batch(rows: list[tuple], *, arrow: bool) -> object:
    """Return tuples as columns; properties that none of them has are missing."""
    names = sorted({name for row in rows for name in row[4]})
    columns: dict[str, list] = {
        "source": [row[0] for row in rows],
        "label": [row[1] for row in rows],
        "target": [row[2] for row in rows],
        "timestamp": [row[3] for row in rows],
        "op": [row[5] for row in rows],
    }
    if any(row[6] is not None for row in rows):
        columns["edge"] = [row[6] for row in rows]
    columns |= {name: [row[4].get(name) for row in rows] for name in names}
    types = {"n": pa.int64(), "m": pa.string(), "timestamp": pa.int64(), "source": pa.string(), "target": pa.string()}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()}) if arrow else columns


def rows_of(changes: rpq.Changes, queries: list[Described]) -> Counter:
    columns = {one.query.name: one.query.columns for one in queries}
    return Counter(
        Row(row.query, tuple(getattr(row, name) for name in columns[row.query]), row.timestamp, row.op)
        for row in changes.rows()
    )


def check_counts(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
    engine._check()
    for one in queries:
        figures = engine.statistics(one.query.name)
        assert {count: getattr(figures, count) for count in COUNTS} == oracle.counts(one.query.name)


def restored(engine: rpq.Engine, *, threads: int = 1, witness: bool = False) -> rpq.Engine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.state"
        engine.save(path)
        return rpq.Engine.restore(path, threads=threads, witness=witness)


def check_stream(
    data,
    identity: str,
    engine: rpq.Engine,
    oracle: PropertyEngine,
    queries: list,
    *,
    rows_of: Callable[[rpq.Changes, list], Counter],
    check: Callable[[rpq.Engine, PropertyEngine, list], None],
    threads: tuple[int, ...] = (1, 2),
) -> None:
    """Push drawn batches, save, restore and let time pass: rows, and what `check` compares, are those of the oracle."""
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        rows = drawn_tuples(data, identity, time, most=6)
        time = max(time, *(row[3] for row in rows))
        note(rows)
        expected: Counter = Counter()
        for row in rows:
            if oracle.time is None:  # what static edges bring is an event before the first tuple
                oracle.advance(row[3])
                for running in oracle._running:
                    expected.update(running.rows(row[3]))
            expected.update(apply(oracle, row))
        changes = engine.push(as_batch(rows, arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        check(engine, oracle, queries)
        if data.draw(st.integers(0, 3)) == 0:
            engine = restored(engine, threads=data.draw(st.sampled_from(threads)))
            check(engine, oracle, queries)
        if data.draw(st.booleans()):
            time += data.draw(st.sampled_from((0, 1, 5)))
            assert rows_of(engine.advance(time), queries) == Counter(oracle.advance(time))
            check(engine, oracle, queries)


@pytest.mark.parametrize("identity", ["parallel", "id", *left_to_ci("triple")])
@examples(200)
@given(data=st.data())
def test_random_streams(identity, data):
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


@pytest.mark.parametrize("identity", ["parallel", "id", *left_to_ci("triple")])
@examples(200)
@given(data=st.data())
def test_random_streams_of_single_tuples(identity, data):
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


def test_a_witness_after_a_tuple_of_fewer_edges_than_one_before():
    window = rpq.Window(size=9, slide=1)
    queries = [rpq.Query("a", window=window), rpq.Query("?x a[n > 1]/b ?y . ?y a ?z", window=window, name="pattern")]
    engine = rpq.Engine(*queries, edges="id", witness=True, _capacity=1)
    # The last tuple replaces an edge and its derived labels, and its witness is the first that needs supports.
    rows = [("u", "u", "a", "e", 0), ("w", "u", "b", "e", 0), ("u", "u", "a", "f", 0), ("u", "w", "a", "f", 2)]
    for source, target, label, edge, number in rows:
        changes = engine.insert(source, target, label, 5, edge=edge, properties={"n": number})
        engine._check()
    walks = ['[["u", "a", 5, {"n": 2}, "w", "b", 5, {"n": 0}, "u"], ["u", "a", 5, {"n": 2}, "w"]]']
    assert changes.to_arrow("pattern", witness=True)["path"].to_pylist() == walks


@pytest.mark.parametrize("identity", ["triple", "parallel"])
def test_a_single_tuple_takes_no_detour_over_tables(identity, monkeypatch):
    queries = [rpq.Query(text, window=rpq.Window(size=9, slide=1)) for text in ("a[n > 1]/b", "b+", "a")]
    single, batch = (rpq.Engine(*queries, edges=identity) for _ in range(2))
    first = {"source": ["v"], "target": ["w"], "label": ["a"], "timestamp": [0], "n": [2.5], "m": ["text"]}
    for engine in (single, batch):
        assert engine.push(first).added == 1
    tuples = [("x", "y", "a", 1, 2), ("y", "z", "b", 2, None), ("x", "y", "a", 3, 0.5), ("u", "y", "c", 4, "unread")]
    expected = [
        batch.push({"source": [u], "target": [v], "label": [label], "timestamp": [time], "n": [n if label == "a" else None]})
        for u, v, label, time, n in tuples
    ]
    expected.append(batch.push(source=["x"], target=["y"], label=["a"], timestamp=[5], op=["-"]))
    with monkeypatch.context() as patch:
        patch.setattr(single, "_push", None)
        found = [
            single.insert(u, v, label, time, properties={"n": n} if label == "a" else {"other": n})
            for u, v, label, time, n in tuples
        ]
        found.append(single.delete("x", "y", "a", 5))
    assert [sorted(changes.rows()) for changes in found] == [sorted(changes.rows()) for changes in expected]
    assert sum(map(len, found)) >= 4
    for engine in (single, batch):
        engine._check()
    for query in queries:
        left, right = (engine.statistics(query.name) for engine in (single, batch))
        assert {count: getattr(left, count) for count in COUNTS} == {count: getattr(right, count) for count in COUNTS}
    with pytest.raises(rpq.InputError, match="'n'"):
        single.insert("x", "y", "a", 6, properties={"n": "no number"})


@pytest.mark.parametrize("witness", [False, True])
def test_a_single_tuple_with_an_id_takes_no_detour_over_tables(witness, monkeypatch):
    queries = [rpq.Query(text, window=rpq.Window(size=9, slide=1)) for text in ("a[n > 1 and m = 'é']/b", "b+", "a")]
    single, batch = (rpq.Engine(*queries, edges="id", witness=witness, _capacity=1) for _ in range(2))
    rows = [
        ("ü", "a", "y", 1, {"n": 2, "m": "é"}, "+", "e"),
        ("y", "b", "z", 2, {}, "+", "ß"),
        ("ü", "c", "y", 3, {"n": 2}, "+", "e"),
        ("ü", "a", "y", 4, {"n": 3, "m": "é"}, "+", "f"),
        (*NOTHING, 5, {}, "-", "ß"),
        (*NOTHING, 5, {}, "-", "unknown"),
        ("ü", "a", "y", 6, {}, "-", None),
    ]
    for engine in (single, batch):
        engine.push(as_batch([("v", "a", "w", 0, {"n": 2, "m": "x"}, "+", "d")], arrow=False))
    expected = [batch.push(as_batch([row], arrow=False)) for row in rows]
    with monkeypatch.context() as patch:
        patch.setattr(single, "_push", None)
        found = [push_one(single, row) for row in rows]
    assert [sorted(changes.rows()) for changes in found] == [sorted(changes.rows()) for changes in expected]
    if witness:
        paths = [[changes.to_arrow(witness=True).to_pylist() for changes in several] for several in (found, expected)]
        assert paths[0] == paths[1]
    assert sum(map(len, found)) >= 6
    for engine in (single, batch):
        engine._check()
    for bad in (7, "", "\ud800", True, None):
        with pytest.raises(rpq.InputError, match="edge"):
            single.insert("x", "y", "a", 6, edge=bad, properties={"n": 1})
    assert not single.delete("x", "y", "a", 6)


@pytest.mark.parametrize("identity", ["id", *left_to_ci("triple", "parallel")])
@examples(100)
@given(data=st.data())
def test_queries_that_come_and_go(identity, data):
    """A query that reads what another reads begins with the solutions of its window, and goes on like the oracle's."""
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


@pytest.mark.parametrize("identity", ["parallel", "triple", *left_to_ci("id")])
@examples(150)
@given(data=st.data())
def test_queries_without_conditions_come_where_a_window_of_edges_is_kept(identity, data):
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


@pytest.mark.parametrize("identity", ["id", *left_to_ci("triple", "parallel")])
@examples(150)
@given(data=st.data())
def test_queries_with_other_conditions_come_where_no_edge_of_their_window_is_unknown(identity, data):
    """Such a query is refused, or begins with the solutions of its window and goes on like the oracle's."""
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


@pytest.mark.parametrize("identity", ["id", *left_to_ci("triple", "parallel")])
@examples(100)
@given(data=st.data())
def test_events_of_several_tuples(identity, data):
    """The rows of an event are the net rows of its tuples, at the largest of their timestamps."""
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


class Worked:
    """An engine with the calls of the oracle."""

    def __init__(self, *queries: PropertyQuery, identity: str = "triple") -> None:
        self._queries = [_query_of(query) for query in queries]
        self._engine = rpq.Engine(*self._queries, edges=identity, _capacity=1)

    def insert(self, source, label, target, timestamp, key=None, **properties) -> list[Row]:
        return self._rows(self._engine.insert(source, target, label, timestamp, edge=key, properties=properties))

    def delete(self, source, label, target, timestamp, key=None) -> list[Row]:
        return self._rows(self._engine.delete(source, target, label, timestamp, edge=key))

    def advance(self, time: int) -> list[Row]:
        return self._rows(self._engine.advance(time))

    def counts(self, name: str) -> dict[str, int]:
        figures = self._engine.statistics(name)
        return {count: getattr(figures, count) for count in COUNTS}

    def _rows(self, changes: rpq.Changes) -> list[Row]:
        self._engine._check()
        found = [Row(row.query, (row.source, row.target), row.timestamp, row.op) for row in changes.rows()]
        return sorted(found, key=lambda row: (row.timestamp, row.op != "-", repr(row.values)))


def _query_of(query: PropertyQuery) -> rpq.Query:
    (atom,) = query.atoms
    window = rpq.Window(size=query.size, slide=query.slide)
    return rpq.Query(atom.expression, window=window, semantics=query.semantics, paths=query.paths, name=query.name)


def pairs_of_engine(expression: str, edges: list) -> set[tuple[str, str]]:
    """Return what `pairs` of the oracle returns, by an engine over parallel edges."""
    engine = rpq.Engine(rpq.Query(expression, window=rpq.UnboundedWindow()), edges="parallel")
    for edge in edges:
        engine.insert(edge.source, edge.target, edge.label, edge.timestamp, properties=edge.properties)
    return set(engine.answers())


@pytest.mark.parametrize(
    "example",
    [
        worked.test_brackets_bind_to_the_step_before_them,
        worked.test_a_negated_set_with_brackets,
        worked.test_a_replacement_moves_an_edge_out_of_a_predicate,
        worked.test_an_older_version_changes_nothing,
        worked.test_a_late_version_is_dropped_before_it_could_replace,
        worked.test_the_properties_of_the_younger_edge_hold_until_it_expires,
        worked.test_parallel_edges_are_edges_of_their_own,
        worked.test_a_delete_without_an_id_removes_all_parallel_edges_and_counts_once,
        worked.test_a_delete_by_id_ignores_its_ends,
        worked.test_an_edge_with_the_same_id_may_have_other_ends_and_another_label,
        worked.test_an_edge_with_a_label_that_is_not_read_keeps_its_id,
    ],
    ids=lambda example: example.__name__.removeprefix("test_"),
)
def test_worked_examples(example, monkeypatch):
    monkeypatch.setattr(worked, "PropertyEngine", Worked)
    monkeypatch.setattr(worked, "pairs", pairs_of_engine)
    example()


@pytest.mark.parametrize(("condition", "values", "expected"), worked.test_conditions_have_three_values.pytestmark[0].args[1])
def test_conditions_have_three_values(condition, values, expected):
    engine = rpq.Engine(rpq.Query(f"a[{condition}]", window=rpq.Window(size=10, slide=1)))
    properties = {name: value for name, value in values.items() if name != "timestamp"}
    assert engine.insert("x", "y", "a", values.get("timestamp", 1), properties=properties).added == expected


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
    changes = engine.push(
        source=ends, target=ends, label=["a"] * len(values), timestamp=[1] * len(values), n=column
    )
    pairs = [(one, end, value) for one in conditions for end, value in zip(ends, values, strict=True)]
    expected = {(one, end) for one, end, value in pairs if holds(one, {"n": value})}
    assert {(row.query, row.source) for row in changes.rows()} == expected


# --- what is refused ----------------------------------------------------------------------------------------

WINDOW = rpq.Window(size=10, slide=5)
CONDITION = rpq.Query("a[n > 1]/b", window=WINDOW, name="q")


@pytest.mark.parametrize(
    ("expression", "column", "said"),
    [
        ("(a|b)[n > 1]", 6, "one behind each label"),
        ("a+[n > 1]", 3, "one behind each label"),
        ("!(a[n > 1]|b)", 4, "one condition behind the set"),
        ("a[n > 1", 2, "'['"),
        ("a[]", 3, "empty"),
        ("a[n >]", 6, "expected"),
        ("a[label = 'x']", 3, "no property"),
        ("a[5]", 3, "a number"),
        ("/".join(f"a[n > {number}]" for number in range(13)), 1, "13 conditions"),
    ],
)
def test_expressions_that_are_refused(expression, column, said):
    with pytest.raises(rpq.ExpressionError, match=re.escape(said)) as raised:
        rpq.Query(expression, window=WINDOW)
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rpq.Engine(CONDITION, edges="ids"), "'triple', 'parallel' or 'id'"),
    ],
    ids=["identity"],
)
def test_what_does_not_go_with_conditions_is_refused(make, said):
    with pytest.raises(rpq.QueryError, match=re.escape(said)):
        make()


ON_SPARK = {
    "a[n > 1]": (None, "has conditions on edges.*leave out the brackets"),
    "?x a[n > 1] ?y": (None, "has conditions on edges.*leave out the brackets"),
    "?x ?e:a ?y": (None, r"binds edges to variables \(\?e:a\).*leave out the edge variables"),
    "?x a ?y": ("?x <> ?y", "has a filter.*write the filter in SPARQL, as FILTER"),
}


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        (rpq.Query("a+", window=WINDOW, order="increasing"), {}, "paths in time order.*leave out the order"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {"identity": "parallel"}, r"selects \?e,.*leave it out"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e.timestamp"]), {}, r"selects \?e.timestamp,"),
        (CONDITION, {"identity": "ids"}, "'triple', 'parallel' or 'id'"),
        (CONDITION, {}, r"source, label and target, with its properties \(n\).*sequence=.*identity='parallel'"),
        (rpq.Query("a+", window=WINDOW), {"identity": "id"}, "the edge with its id, and .*sequence="),
    ],
)
def test_streams_on_spark_refuse_what_they_cannot_tell(query, options, said):
    """Before they look at a session or at data, of which there are none here."""
    pytest.importorskip("pyspark")
    from rpq.spark import rpq_changes, stream_to
    from rpq.spark.errors import PipelineError

    for run in (
        lambda: rpq_changes(None, query, **options),
        lambda: stream_to(None, "rows", query, checkpoint="state", **options),
    ):
        with pytest.raises(PipelineError, match=said):
            run()


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        (rpq.Query("a+", window=WINDOW, order="increasing"), {}, "paths in time order.*leave out the order"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]), {"edges": "parallel"}, r"selects \?e,.*leave it out"),
        (rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e.timestamp"]), {}, r"selects \?e.timestamp,"),
        (CONDITION, {"edges": "ids"}, "'triple', 'parallel' or 'id'"),
    ],
)
def test_replays_refuse_what_they_cannot_tell(query, options, said):
    """Before they look at a session or at data, of which there are none here."""
    pytest.importorskip("pyspark")
    from rpq.spark import replay
    from rpq.spark.errors import PipelineError

    with pytest.raises(PipelineError, match=said):
        replay(None, "data", query, **options)


@pytest.mark.parametrize("text", ON_SPARK)
@pytest.mark.parametrize("is_in_file", [False, True])
def test_commands_of_spark_refuse_values_of_edges(text, is_in_file, tmp_path):
    """Before Java starts, of which these tests need none."""
    from rpq.spark.cli import spark

    condition, said = ON_SPARK[text]
    (tmp_path / "queries.toml").write_text(
        f"[[query]]\nname = 'q'\nquery = {text!r}\n" + (f"filter = {condition!r}\n" if condition else "")
    )
    queries = ["--queries", str(tmp_path / "queries.toml")] if is_in_file else [text]
    given = ["--filter", condition] if condition and not is_in_file else []
    paths = ["--input", str(tmp_path), "--output", str(tmp_path / "rows")]
    options = [*queries, *given, "--window", "10", "--slide", "5", *paths]
    stream = ["--checkpoint", str(tmp_path / "state"), "--files", "csv"]
    for command, more in (("replay", []), ("stream", stream), ("stream", [*stream[:2], "--input", "kafka://broker/topic"])):
        result = CliRunner().invoke(spark, [command, *options, *more])
        assert result.exit_code == 2
        output = result.output.replace("\n", " ")
        assert re.search(said, output), output
        assert f"query {'q' if is_in_file else text!r} " in output


def static_engine(**options) -> rpq.Engine:
    engine = rpq.Engine(**options)
    engine.load_static([("x", "y", "a")])
    return engine


def test_a_query_whose_properties_were_not_kept_is_refused():
    engine = rpq.Engine(rpq.Query("a", window=WINDOW))
    engine.insert("x", "y", "a", 1)
    with pytest.raises(rpq.RegistrationError, match="properties of edges were not kept"):
        engine.register(CONDITION)
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1)
    for text in ("a[m > 1]", "a[n > 2]", "!b[n > 1]"):
        with pytest.raises(rpq.RegistrationError, match="was not kept"):
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
    for identity, text, said in cases:
        first = rpq.Query("a[n > 1]", window=rpq.Window(size=10, slide=5))
        engine = rpq.Engine(first, edges=identity)
        ids = {"edge": "e"} if identity == "id" else {}
        engine.insert("x", "y", "c", 12, **ids)
        with pytest.raises(rpq.RegistrationError) as refused:
            engine.register(rpq.Query(text, window=rpq.Window(size=10, slide=5), name="late"))
        assert ('start="empty"' in str(refused.value)) == said
        assert refused.value.available_from == 25


def test_an_engine_goes_on_after_a_query_was_refused():
    engine = rpq.Engine(rpq.Query("b", window=rpq.CountWindow(size=3), name="counted"))
    with pytest.raises(rpq.QueryError, match="register the two together"):
        engine.register(CONDITION)
    engine.register(rpq.Query("c", window=rpq.CountWindow(size=3)))
    assert engine.insert("x", "y", "b", 1).added == 1
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1, properties={"n": 5})
    with pytest.raises(rpq.QueryError, match="was not kept"):
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


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
@examples(60)
@given(data=st.data())
def test_shares_have_the_rows_between_them(identity, data):
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    check_shares(data, identity, queries, rows_of)


def check_shares(data, identity: str, queries: list, rows_of) -> None:
    """Check that engines with a share each have the rows and answers of the oracle between them, and none twice."""
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    shares = data.draw(st.integers(2, 3))
    engines = [
        rpq.Engine(*(one.query for one in queries), edges=identity, share=(number, shares), _capacity=1)
        for number in range(shares)
    ]
    time = 5
    for _ in range(data.draw(st.integers(1, 3))):
        rows = drawn_tuples(data, identity, time, most=6)
        note(rows)
        time = max(time, *(row[3] for row in rows))
        expected: Counter = Counter()
        for row in rows:
            expected.update(apply(oracle, row))
        batch = as_batch(rows, arrow=False)
        found: Counter = Counter()
        for engine in engines:
            found.update(rows_of(engine.push(batch), queries))
            engine._check()
        assert found == expected
        for one in queries:
            answers = sum(len(engine.answers(one.query.name)) for engine in engines)
            assert answers == oracle.solutions(one.query.name).total()
        if data.draw(st.integers(0, 2)) == 0:
            engines = [restored(engine) for engine in engines]


# --- static edges -------------------------------------------------------------------------------------------

STATIC_EXPRESSIONS = (
    *EXPRESSIONS,
    "a[n is null]",
    "a[n is null]/b[m is null or n > 1]*",
    "!(b)[timestamp is null]",
    "a[not n > 1]+",
)


STATIC_EDGES = st.lists(st.tuples(VERTICES, VERTICES, st.sampled_from("aabc"), PROPERTIES), min_size=1, max_size=3)
STATIC_EDGES_WITH_IDS = st.lists(
    st.tuples(VERTICES, VERTICES, st.sampled_from("aabc"), PROPERTIES, st.sampled_from("efi")), min_size=1, max_size=3
)


def static_columns(edges: list[tuple]) -> dict[str, list]:
    """Return static edges, which have been drawn, as columns."""
    columns = {name: [one[place] for one in edges] for place, name in enumerate(("source", "target", "label"))}
    if edges and len(edges[0]) > 4:
        columns["edge"] = [one[4] for one in edges]
    return columns | {name: [one[3].get(name) for one in edges] for name in "nm" if any(name in one[3] for one in edges)}


def static_of(edges: list[tuple], identity: str = "parallel") -> tuple[Edge, ...]:
    """Return static edges, which have been drawn, as the oracle has them: their keys are -1, -2, …, or ids, or triples."""

    def key_of(number: int, one: tuple) -> object:
        return (one[0], one[2], one[1]) if identity == "triple" else one[4] if len(one) > 4 else -number

    return tuple(Edge(key_of(number, one), one[0], one[2], one[1], None, one[3]) for number, one in enumerate(edges, 1))


@pytest.mark.parametrize("identity", ["triple", "parallel", "id", "static ids"])
@examples(150)
@given(data=st.data())
def test_static_edges(identity, data):
    """Static edges have no timestamp, may have values, and an edge of the window hides the one with its identity.

    Where some may be hidden, the queries have one window.
    """
    drawn = STATIC_EDGES_WITH_IDS if identity == "static ids" else STATIC_EDGES
    hides = identity in ("triple", "static ids")
    identity = "id" if identity == "static ids" else identity
    bare = [(*one[:3], {}) for one in data.draw(st.just([]) | STATIC_EDGES)]
    edges = data.draw(drawn)
    static = static_of([*bare, *edges], identity)
    queries: list = []
    for number in range(data.draw(st.integers(1, 2))):
        one = data.draw(described(f"q{number}"))
        options = {name: getattr(one.oracle, name) for name in ("size", "slide", "semantics", "paths")}
        if hides and queries:
            options |= {"size": queries[0].oracle.size, "slide": queries[0].oracle.slide}
        what = data.draw(st.sampled_from(STATIC_EXPRESSIONS)) if isinstance(one.what, str) else one.what
        one = Described(one.query.name, what, **options)
        one.oracle = StaticQuery.of(one.oracle, static)
        queries.append(one)
    note([one.query for one in queries])
    note(static)
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    if bare:
        engine.load_static([one[:3] for one in bare])
    for one in queries:
        engine.register(one.query)
    engine.load_static(static_columns(edges))
    if data.draw(st.booleans()):
        engine = restored(engine)

    def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
        check_counts(engine, oracle, queries)
        for one in queries:
            for answer in engine.answers(one.query.name):
                assert engine.witness(*answer, query=one.query.name) is not None

    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check, threads=(1,))


def test_static_edges_whose_values_were_not_kept_are_refused():
    """Values are kept that some query reads when the edges are loaded; also after a restart no query can read others."""
    engine = rpq.Engine(CONDITION, edges="parallel")
    edges = {"source": ["x", "x"], "target": ["y", "w"], "label": ["a", "a"]}
    engine.load_static({**edges, "n": [5, 0], "m": [5, 5]})
    engine.load_static({**edges, "n": [0, 0]})
    for state in (engine, restored(engine)):
        with pytest.raises(rpq.RegistrationError, match="the values of m of static edges were not kept"):
            state.register(rpq.Query("a[m > 1]", window=WINDOW, name="late"))
        state.register(rpq.Query("a[n < 1]", window=WINDOW, name="zero"))
        assert state.insert("y", "z", "b", 2).added == 2 + 1
        assert sorted(state.answers("zero")) == [("x", "w"), ("x", "y")]
        assert state.witness("x", "z", query=CONDITION.name).labels == ("a", "b")
    with pytest.raises(rpq.InputError, match="'much' is a string"):
        rpq.Engine(CONDITION, edges="parallel").load_static({**edges, "n": [5, "much"]})


@pytest.mark.parametrize("identity", ["triple", "parallel"])
def test_static_edges_with_ids_are_refused(identity):
    edges = {"source": ["x"], "target": ["y"], "label": ["a"], "edge": ["t1"]}
    with pytest.raises(rpq.InputError, match="static edges have ids where the edges of the stream have some: leave"):
        rpq.Engine(edges=identity).load_static(edges)


def test_ids_of_static_edges_are_of_one_kind_and_none_is_missing():
    edges = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"]}
    engine = rpq.Engine(edges="id")
    with pytest.raises(rpq.InputError, match="edge"):
        engine.load_static({**edges, "edge": ["t1", None]})
    engine.load_static({**edges, "edge": ["t1", "t2"]})
    with pytest.raises(rpq.InputError, match="edge"):
        engine.load_static({**edges, "edge": [1, 2]})
    with pytest.raises(rpq.InputError, match="edge"):
        engine.insert("x", "y", "a", 1, edge=5)


def test_queries_that_do_not_go_with_hidden_static_edges_are_refused():
    edges = {"source": ["x"], "target": ["y"], "label": ["a"], "n": [5]}
    other = rpq.Query("a[n > 2]", window=rpq.Window(size=3, slide=1), name="other")
    engine = rpq.Engine(CONDITION, other)
    with pytest.raises(rpq.QueryError, match="hides the static edge .* another query has another window"):
        engine.load_static(edges)
    assert engine.insert("x", "y", "a", 1, properties={"n": 5}).added == 1  # it goes on without static edges
    engine = rpq.Engine(CONDITION)
    engine.load_static(edges)
    with pytest.raises(rpq.QueryError, match="edges of the window hide static edges; .* another window"):
        engine.register(other)
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"'):
        engine.insert("x", "y", "a", 1, properties={"n": 5})
        engine.register(rpq.Query("a[n > 1]", window=WINDOW, name="late"), start="empty")
    with pytest.raises(rpq.QueryError, match="events of several tuples"):
        rpq.Engine(CONDITION, events="window").load_static(edges)
    engine = rpq.Engine(rpq.Query("b[n > 1]", window=WINDOW))
    engine.load_static({"source": ["x"], "target": ["y"], "label": ["a"]})
    engine.insert("x", "y", "b", 1)
    with pytest.raises(rpq.RegistrationError, match="before the first tuple"):
        engine.register(rpq.Query("a[n is null]", window=WINDOW, name="late"))


def test_static_edges_that_came_before_the_first_condition():
    """Queries that run begin again where a condition comes to them, before the first tuple."""
    for columns in ({}, {"n": [5, 5]}):
        engine = rpq.Engine(rpq.Query("a", window=WINDOW, name="plain"))
        engine.load_static({"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], **columns})
        late = rpq.Query("a[n is null]+", window=WINDOW, name="late")
        if columns:
            with pytest.raises(rpq.RegistrationError, match="the values of n of static edges were not kept"):
                engine.register(late)
        else:
            engine.register(late)
        rows = Counter((row.query, row.op) for row in engine.insert("x", "y", "a", 1, properties={"n": 5}).rows())
        assert rows == ({("plain", "+"): 2} if columns else {("plain", "+"): 2, ("late", "+"): 3, ("late", "-"): 2})
        assert Counter((row.query, row.op) for row in engine.advance(100).rows()) == (
            {} if columns else {("late", "+"): 2}
        )
        engine._check()


def test_a_query_that_comes_later_reads_static_edges_under_its_condition():
    engine = static_engine(edges="parallel")
    engine.register(rpq.Query("b[n is null]", window=WINDOW, name="first"))
    engine.insert("u", "v", "b", 1, properties={"n": 5})
    late = rpq.Query("a[m is null]/b[m is null]?", window=WINDOW, name="late")
    assert [(row.source, row.target) for row in engine.register(late, start="empty").rows()] == [("x", "y")]
    rows = engine.insert("y", "z", "b", 2).rows()
    assert [(row.source, row.target) for row in rows if row.query == "late"] == [("x", "z")]
    engine._check()


@pytest.mark.parametrize("comes_first", [True, False])
def test_static_edges_under_a_condition_make_room_for_themselves(comes_first):
    ends = [("u", "v", "a"), ("v", "u", "a")]
    engine = rpq.Engine(rpq.Query("a", window=WINDOW, name="plain"), edges="parallel", _capacity=1)
    if comes_first:
        engine.load_static(ends)
    engine.register(rpq.Query("a[n is null]|b", window=WINDOW, name="condition"))
    if not comes_first:
        engine.load_static(ends)
    rows = engine.insert("w", "v", "b", 1, properties={"n": 5}).rows()
    assert sum(row.query == "condition" for row in rows) == 3
    engine._check()


# --- witnesses ----------------------------------------------------------------------------------------------


def steps_of(witness: rpq.Path | rpq.Witness, expressions: list[str]) -> list[tuple[str, list[rpq.Step]]]:
    """Return for each path the expression that it spells, and its edges."""
    if isinstance(witness, rpq.Witness):
        return [(expression, [*atom.steps]) for expression, atom in zip(expressions, witness.atoms, strict=True)]
    of_edges = witness.properties or (None,) * len(witness.labels)
    assert len(witness.labels) == len(witness.timestamps) == len(of_edges) == len(witness.vertices) - 1
    steps = []
    walked = zip(witness.vertices[:-1], witness.labels, witness.vertices[1:], witness.timestamps, of_edges, strict=True)
    for first, label, last, time, properties in walked:
        against = label.startswith("^")
        source, target = (last, first) if against else (first, last)
        steps.append(rpq.Step(
            source=source, label=label.lstrip("^"), target=target, timestamp=time, against=against, properties=properties
        ))  # fmt: skip
    return [(expressions[0], steps)]


def check_witness(one: Described, row: tuple, witness: rpq.Path | rpq.Witness, edges: list, read: set[str]) -> None:
    """Check that each step is an edge of the snapshot, with its time and its values, and that together they give the row."""
    expressions = [one.what] if isinstance(one.what, str) else [expression for _, expression, _ in one.what]
    for expression, steps in steps_of(witness, expressions):
        walked = []
        for step in steps:
            described = [
                edge
                for edge in edges
                if (edge.source, edge.label, edge.target, edge.timestamp)
                == (step.source, step.label, step.target, step.timestamp)
            ]
            values = step.properties or {}
            fitting = [
                edge
                for edge in described
                if {name: value for name, value in edge.properties.items() if name in read and value is not None} == values
            ]
            assert fitting, f"{step} is no edge with {values}: {described}"
            walked.append(fitting[0])
        ends = steps[0].ends[0], steps[-1].ends[1]
        assert all(before.ends[1] == after.ends[0] for before, after in itertools.pairwise(steps))
        assert ends in pairs(expression, walked, one.oracle.paths)
        if one.oracle.paths == "simple" and len(expressions) == 1:
            visited = [steps[0].ends[0], *(step.ends[1] for step in steps)]
            assert len({*visited}) == len(visited)
        if isinstance(one.what, str):
            assert ends == row


@pytest.mark.parametrize("identity", ["id", *left_to_ci("triple", "parallel")])
@examples(150)
@given(data=st.data())
def test_witnesses_are_paths_of_the_snapshot(identity, data):
    """Each edge of a witness is there at that moment, with its own label and its values, and satisfies the conditions."""
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    text = " ".join(one.query.expression if isinstance(one.what, str) else str(one.what) for one in queries)
    read = {name for name in "nm" if re.search(rf"\b{name}\b", text)}
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    options = {"edges": identity, "witness": True, "_capacity": data.draw(st.sampled_from((1, 16)))}
    engine = rpq.Engine(*(one.query for one in queries), **options)
    batched = rpq.Engine(*(one.query for one in queries), **options)
    by_name = {one.query.name: one for one in queries}
    rows = drawn_tuples(data, identity, 5, most=20)
    note(rows)
    witnesses: list = []
    for row in rows:
        expected = Counter(apply(oracle, row))
        changes = engine.push(as_batch([row], arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        engine._check()
        held = {one.query.name: [*one.edges.values()] for one in oracle._running}
        for name, one in by_name.items():
            for change in changes.to_arrow(name, witness=True).to_pylist():
                answer = tuple(change[column] for column in one.query.columns)
                witnesses.append((name, answer, change["op"], change["path"]))
                assert (change["path"] in (None, "")) == (change["op"] == "-")
                if change["op"] == "+":
                    witness = engine.witness(*answer, query=name)
                    check_witness(one, answer, witness, held[name], read)
                    assert json.loads(change["path"]) == json.loads(witness.to_json())
            for answer in engine.answers(name):
                check_witness(one, tuple(answer), engine.witness(*answer, query=name), held[name], read)
        if data.draw(st.integers(0, 5)) == 0:
            engine = restored(engine, witness=True)
            for name, one in by_name.items():
                for answer in engine.answers(name):
                    check_witness(one, tuple(answer), engine.witness(*answer, query=name), held[name], read)
    changes = batched.push(as_batch(rows, arrow=False))
    found = [
        (name, tuple(change[column] for column in one.query.columns), change["op"], change["path"])
        for name, one in by_name.items()
        for change in changes.to_arrow(name, witness=True).to_pylist()
    ]
    assert Counter(map(repr, found)) == Counter(map(repr, witnesses))


def test_a_witness_has_the_labels_and_the_values_of_its_edges():
    pattern = rpq.Query("?x a[n > 1] ?y . ?y ^b+ ?z", window=WINDOW, name="pattern")
    engine = rpq.Engine(rpq.Query("a[n > 1]/^b", window=WINDOW, name="q"), pattern, witness=True)
    engine.insert("x", "y", "a", 1, properties={"n": 5, "m": "unread"})
    changes = engine.insert("z", "y", "b", 2)
    assert changes.to_arrow("q", witness=True)["path"].to_pylist() == ['["x", "a", {"n": 5}, "y", "^b", {}, "z"]']
    path = engine.witness("x", "z", query="q")
    assert (path.labels, path.timestamps, path.properties) == (("a", "^b"), (1, 2), ({"n": 5}, {}))
    witness = engine.witness("x", "y", "z", query="pattern")
    assert [step.label for atom in witness.atoms for step in atom.steps] == ["a", "b"]
    assert str(witness.atoms[0]) == "?x a[n > 1] ?y: x -a-> y @1 {n: 5}"
    assert json.loads(witness.to_json()) == [["x", "a", 1, {"n": 5}, "y"], ["y", "^b", 2, {}, "z"]]


def test_a_witness_has_no_values_where_none_are_kept():
    """Only an engine whose rows have witnesses keeps them; one that begins to knows those of older edges not."""
    engine = rpq.Engine(CONDITION)
    engine.insert("x", "y", "a", 1, properties={"n": 5})
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        continued = rpq.Engine.restore(Path(folder) / "state", witness=True)
    for one in (engine, continued):
        one.insert("y", "z", "b", 2)
    path = engine.witness("x", "z")
    assert (path.labels, path.timestamps, path.properties) == (("a", "b"), (1, 2), ())
    assert continued.witness("x", "z").properties == (None, {})
    assert restored(continued, witness=True).witness("x", "z").properties == (None, {})
    assert restored(continued).witness("x", "z").properties == ()
    plain = rpq.Engine(rpq.Query("a", window=WINDOW), edges="parallel", witness=True)
    changes = plain.insert("x", "y", "a", 1)
    assert changes.to_arrow(witness=True)["path"].to_pylist() == ['["x", "a", "y"]']


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
def test_values_of_each_type_are_restored(identity):
    """A witness tells after a restart what it told before it."""
    condition = " or ".join(f"{name} is not null" for name in "bdfistn")
    engine = rpq.Engine(rpq.Query(f"a[{condition}]", window=WINDOW, name="q"), edges=identity, witness=True)
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
    ids = {"edge": [7, 8]} if identity == "id" else {}
    ends = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 2]}
    engine.push(pa.table({**ends, **ids, **columns}))
    told = [engine.witness(*answer).properties for answer in (("x", "y"), ("y", "z"))]
    assert told[0][0].keys() == {*"bdistn"} and told[1] == ({"f": 2.5},)
    again = restored(restored(engine, witness=True), witness=True)
    assert [again.witness(*answer).properties for answer in (("x", "y"), ("y", "z"))] == told
    assert engine.witness("x", "y").to_json() == again.witness("x", "y").to_json()


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
def test_explain_tells_the_identity_of_edges_and_the_conditions_of_relations(identity):
    pattern = rpq.Query("?x a[n > 1] ?y . ?y b ?z", window=WINDOW, name="pattern")
    engine = rpq.Engine(CONDITION, pattern, edges=identity)
    assert f"\nedges        {identity}: " in str(engine.explain("q"))
    explained = engine.explain("pattern")
    assert f"\nedges        {identity}: " in str(explained)
    assert [relation.name for relation in explained.relations][:2] == ["a[n > 1]", "b"]
    assert explained.to_dict()["identity"].startswith(identity)
    assert "edges  " not in str(rpq.Engine(rpq.Query("a", window=WINDOW)).explain())


def test_values_leave_with_their_edges():
    for identity in ("triple", "parallel", "id"):
        engine = rpq.Engine(CONDITION, edges=identity, witness=True, _capacity=4)
        for time in range(500):
            edge = {"edge": time} if identity == "id" else {}
            engine.insert(f"v{time}", f"v{time + 1}", "ab"[time % 2], time, properties={"n": time}, **edge)
        assert len(engine._evaluation.multigraph.kept_values) < 100


# --- bad input ----------------------------------------------------------------------------------------------


def by_id(*queries: rpq.Query, **options) -> rpq.Engine:
    return rpq.Engine(*(queries or (rpq.Query("a", window=WINDOW),)), edges="id", **options)


@pytest.mark.parametrize(
    ("columns", "row", "said"),
    [
        ({"edge": ["e", None], "op": "++"}, 1, "an insert needs one"),
        ({"op": "-+"}, 1, "an insert needs one"),
        ({"edge": ["e", ""], "op": "++"}, 1, "is empty"),
        ({"edge": ["e", 7], "op": "++"}, 1, "ids of edges are of type string"),
        ({"edge": [7, 2**70], "op": "++"}, 1, "does not fit into 64 bits"),
        ({"edge": [1.5, 2.5], "op": "++"}, 0, "ids of edges are integers of 64 bits or text"),
        ({"edge": pa.array(["e", ""]), "op": "++"}, 1, "is empty"),
        ({"edge": pa.array([3, 2**63], pa.uint64()), "op": "++"}, 1, "does not fit into 64 bits"),
        ({"edge": pa.array([3, None]), "op": "++"}, 1, "an insert needs one"),
        ({"edge": [None, "e"], "op": "--", "source": [None, None]}, 0, "column 'source'"),
    ],
)
def test_ids_that_are_refused(columns, row, said):
    engine = by_id()
    given = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "a"], "timestamp": [1, 1]} | columns
    with pytest.raises(rpq.InputError, match=re.escape(said)) as bad:
        engine.push({**given, "op": list(columns["op"])})
    assert bad.value.row == row
    assert bad.value.changes.added == (columns["op"][0] == "+") * row
    engine._check()
    edge = 1 if engine._evaluation.multigraph.by_id.names.kind == "int64" else "new"
    assert engine.insert("u", "v", "a", 2, edge=edge).added == 1


def test_the_kind_of_ids_is_that_of_the_first():
    engine = by_id()
    engine.insert("x", "y", "a", 1, edge=7)
    for other in ("7", pa.array(["7"])):
        given = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}
        with pytest.raises(rpq.InputError, match="row 0: column 'edge': '7' is string in a stream whose"):
            engine.push({**given, "edge": [other] if isinstance(other, str) else other})
    assert restored(engine).delete(None, None, None, 1, edge=7).removed == 1
    empty = restored(by_id())
    assert empty.delete(None, None, None, 1, edge="e").removed == 0
    assert empty.insert(1, 2, "a", 1, edge="e").added == 1  # a delete by id says nothing of vertices


def test_ids_need_an_engine_whose_edges_have_them():
    engine = rpq.Engine(rpq.Query("a", window=WINDOW))
    with pytest.raises(rpq.InputError, match='edges="id"'):
        engine.insert("x", "y", "a", 1, edge="e")
    with pytest.raises(rpq.InputError, match='edges="id"'):
        engine.delete(None, None, None, 1, edge="e")
    assert engine.push(source=["x"], target=["y"], label=["a"], timestamp=[1], edge=["e"]).added == 1  # a further column


def test_ids_and_names_leave_with_their_edges():
    engine = by_id(_capacity=4)
    for time in range(0, 900, 3):
        engine.push(source=[f"s{time}"], target=[f"t{time}"], label=["ac"[time % 2]], timestamp=[time], edge=[f"e{time}"])
    engine._check()
    edges = engine._evaluation.multigraph.by_id
    assert edges.names.live <= 64
    assert engine._evaluation.vertices.live <= 64
    for time in range(900, 1600):  # one edge that moves leaves no groups behind
        engine.insert(f"s{time}", "t", "a", time, edge="e")
    assert len(edges._arrays.source) <= 128
    assert engine.statistics().edges_live == 1


def test_many_parallel_edges_by_id():
    """Deleting the younger ones brings the older ones back, and each delete finds what is left at once."""
    engine = by_id(rpq.Query("a[n > 1]", window=rpq.UnboundedWindow(), name="q"))
    count = 20_000
    same = {"source": ["x"] * count, "target": ["y"] * count, "label": ["a"] * count}
    numbers = list(range(count))
    assert engine.push({**same, "timestamp": numbers, "edge": numbers, "n": [2] * count}).added == 1
    ids = {"edge": numbers[:0:-1], "op": ["-"] * (count - 1), "timestamp": [count] * (count - 1)}
    nothing = [None] * (count - 1)
    assert engine.push({"source": nothing, "target": nothing, "label": nothing, **ids}).removed == 0
    assert engine.delete(None, None, None, count, edge=0).removed == 1
    engine._check()


def test_a_query_that_would_need_forgotten_edges_is_refused():
    """That an edge got another label is to be known as long as its older versions may come."""
    engine = by_id(rpq.Query("a", window=rpq.Window(size=10, slide=5)))
    engine.insert("x", "y", "a", 1, edge="e")
    engine.insert("x", "y", "c", 5, edge="e")
    engine.insert("u", "v", "a", 30, edge="f")
    with pytest.raises(rpq.RegistrationError, match="were forgotten") as refused:
        engine.register(rpq.Query("a", window=rpq.Window(size=40, slide=5), name="late"))
    assert refused.value.available_from == 45
    with pytest.raises(rpq.RegistrationError, match="among them"):
        engine.register(rpq.Query("a", window=rpq.UnboundedWindow(), name="late"))
    with pytest.raises(rpq.RegistrationError, match="leave out start"):
        engine.register(rpq.Query("a", window=rpq.Window(size=10, slide=5), name="late"), start="empty")
    assert engine.register(rpq.Query("a", window=rpq.Window(size=10, slide=5), name="late")).added == 1


def push(engine: rpq.Engine, **columns) -> rpq.Changes:
    count = len(next(iter(columns.values())))
    ends = [f"v{number}" for number in range(count)]
    return engine.push(source=ends, target=ends, label=["a"] * count, timestamp=[1] * count, **columns)


def test_a_value_of_another_type_ends_the_push_at_its_row():
    engine = rpq.Engine(rpq.Query("a[n > 1]", window=WINDOW))
    said = "row 1: column 'n': 'much' is a string, and the values before are of type int"
    with pytest.raises(rpq.InputError, match=said) as bad:
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
    with pytest.raises(rpq.InputError, match="'label' is no property"):
        engine.insert("x", "y", "a", 1, properties={"label": "b"})


def test_deletes_by_id_alone_fit_any_vertices():
    nothing = pa.nulls(1, pa.string())
    engine = by_id()
    engine.insert(1, 2, "a", 1, edge="e")
    delete = {"source": nothing, "target": nothing, "label": nothing, "timestamp": [2], "op": ["-"], "edge": ["e"]}
    assert engine.push(pa.table(delete)).removed == 1
    assert engine.push({**delete, "source": [None]}).removed == 0


def test_an_index_that_is_built_anew_asks_for_memory_in_the_name_of_its_tuple():
    """The first delete loads more edges than its chunk has tuples."""
    engine = rpq.Engine(rpq.Query("(a|a[n is null])+/b", window=WINDOW), _capacity=1)
    count = 50
    ends = {"source": [f"s{number}" for number in range(count)], "target": ["t"] * count, "label": ["a"] * count}
    assert engine.push({**ends, "timestamp": [1] * count}).added == 0
    assert engine.insert("t", "u", "b", 1).added == count
    assert engine.insert("s0", "t", "a", 1, properties={"n": 1}).removed == 0  # two edges of one tuple, one of which goes
    assert engine.delete("s0", "t", "a", 1).removed == 1


# --- count windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["id", *left_to_ci("triple", "parallel")])
@examples(150)
@given(data=st.data())
def test_count_windows(identity, data):
    """The last inserts, counted by label: replacements, deletes, evictions and saved states."""
    size, slide = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    semantics = data.draw(st.sampled_from(("explicit", "implicit")))
    options = {"size": size, "slide": slide, "semantics": semantics, "paths": data.draw(st.sampled_from(("walk", "simple")))}
    described_query = Described("q", data.draw(st.sampled_from([*EXPRESSIONS[1:-1], *PATTERNS])), **options)
    described_query.query = described_query.query.over(rpq.CountWindow(size=size, step=slide))
    queries = [described_query]
    oracle = PropertyEngine(CountedQuery.of(described_query.oracle), identity=identity)
    engine = rpq.Engine(
        described_query.query,
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )

    def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
        check_counts(engine, oracle, queries)
        assert engine.queries[0].window == described_query.query.window
        assert Counter(map(tuple, engine.answers("q"))) == oracle.solutions("q")

    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check)


@pytest.mark.parametrize("identity", ["triple", "id"])
@examples(100)
@given(data=st.data())
def test_static_edges_beside_count_windows(identity, data):
    """What is evicted brings back the static edge that it hid."""
    size, slide = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    semantics = data.draw(st.sampled_from(("explicit", "implicit")))
    options = {"size": size, "slide": slide, "semantics": semantics, "paths": "walk"}
    one = Described("q", data.draw(st.sampled_from([*EXPRESSIONS[1:-1], *PATTERNS])), **options)
    one.query = one.query.over(rpq.CountWindow(size=size, step=slide))
    edges = data.draw(STATIC_EDGES_WITH_IDS if identity == "id" else STATIC_EDGES)
    one.oracle = CountedStaticQuery.of(StaticQuery.of(one.oracle, static_of(edges, identity)))
    note((one.query, edges))
    oracle = PropertyEngine(one.oracle, identity=identity)
    engine = rpq.Engine(one.query, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    engine.load_static(static_columns(edges))

    def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
        check_counts(engine, oracle, queries)
        assert Counter(map(tuple, engine.answers("q"))) == oracle.solutions("q")

    check_stream(data, identity, engine, oracle, [one], rows_of=rows_of, check=check, threads=(1,))


def counted(*rows: tuple, size: int = 2, edges: str = "triple", semantics: str = "implicit", **options) -> list[list[str]]:
    """Return the rows for each insert (source, target, label, amount) into a window of the last inserts."""
    query = rpq.Query("a[n > 1]/b", window=rpq.CountWindow(size=size), semantics=semantics)
    engine = rpq.Engine(query, edges=edges, **options)
    found = []
    for time, (source, target, label, amount) in enumerate(rows):
        changes = engine.insert(source, target, label, time, properties={"n": amount})
        found.append([f"{row.op} {row.source} {row.target}" for row in changes.rows()])
    return found


def test_hidden_static_edges_are_saved_again_when_the_last_query_is_gone(tmp_path):
    engine = rpq.Engine(rpq.Query("a[n > 1]/b", window=rpq.CountWindow(size=3)), edges="id", _capacity=1)
    engine.load_static({"source": ["u", "v"], "target": ["v", "w"], "label": ["a", "a"], "n": [1, 2], "edge": [1, 2]})
    for number in (1, 2):
        engine.insert("x", "y", "b", number, edge=number)
    engine.unregister(engine.queries[0].name)
    for number in range(3):
        engine.save(tmp_path / "state")
        engine = rpq.Engine.restore(tmp_path / "state")
        engine.insert("x", "y", "b", 3 + number, edge=3 + number)
        engine._check()


def test_what_a_count_window_evicts_leaves_in_silence_and_what_is_replaced_does_not():
    rows = ("x", "y", "a", 5), ("y", "z", "b", None), ("u", "v", "b", None)
    assert counted(*rows) == [[], ["+ x z"], []]
    assert counted(*rows, semantics="explicit") == [[], ["+ x z"], ["- x z"]]
    assert counted(*rows[:2], ("x", "y", "a", 1)) == [[], ["+ x z"], ["- x z"]]
    assert counted(*rows[:2], ("x", "y", "a", 1), edges="parallel", size=3) == [[], ["+ x z"], []]


def test_an_older_insert_renews_the_edge_that_a_count_window_holds():
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=2), semantics="explicit")
    engine = rpq.Engine(query)
    engine.push(source=["x"], target=["y"], label=["a"], timestamp=[5], n=[3])
    engine.push(source=["u"], target=["v"], label=["a"], timestamp=[5], n=[3])
    assert not engine.push(source=["x"], target=["y"], label=["a"], timestamp=[4], n=[0]).rows()
    changes = engine.push(source=["s"], target=["t"], label=["a"], timestamp=[6], n=[3])
    assert [(row.op, row.source) for row in changes.rows()] == [("-", "u"), ("+", "s")]
    assert sorted(source for source, _ in engine.answers()) == ["s", "x"]


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
def test_a_count_window_that_comes_too_late_is_not_sent_from_one_start_to_the_other(identity):
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=2), name="one")
    engine = rpq.Engine(query, edges=identity)
    engine.insert("x", "y", "a", 1, properties={"n": 3}, edge="e" if identity == "id" else None)
    engine.unregister("one")
    with pytest.raises(rpq.RegistrationError, match="is not known, .*; register it before the first tuple$"):
        engine.register(query)
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"|was not kept'):
        engine.register(query, start="empty")


def test_count_windows_that_are_refused():
    near, far = rpq.CountWindow(size=2), rpq.CountWindow(size=3)
    with pytest.raises(rpq.QueryError, match="another query has another window or reads other labels"):
        rpq.Engine(rpq.Query("a[n > 1]", window=near), rpq.Query("a[n > 2]", window=far))
    with pytest.raises(rpq.QueryError, match="where events have several tuples rows that leave it are reported"):
        rpq.Engine(rpq.Query("a[n > 1]", window=near), events="window")
    engine = rpq.Engine(rpq.Query("a", window=near))
    with pytest.raises(rpq.QueryError, match="already counts inserts in .* register the two together"):
        engine.register(rpq.Query("a[n > 1]", window=near))
    engine = rpq.Engine(rpq.Query("a[n > 1]", window=near, name="one"))
    engine.insert("x", "y", "a", 1, properties={"n": 3})
    with pytest.raises(rpq.RegistrationError, match="which edges satisfy .* was not kept"):
        engine.register(rpq.Query("a[n > 2]", window=near, name="two"))
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"'):
        engine.register(rpq.Query("^a[n > 1]", window=near, name="two"), start="empty")
    assert engine.register(rpq.Query("^a[n > 1]", window=near, name="two")).added == 1


def test_names_of_ids_leave_with_a_count_window():
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=5))
    engine = rpq.Engine(query, edges="id", _capacity=4)
    for start in range(0, 2000, 100):
        ids = list(range(start, start + 100))
        vertices = [f"v{one}" for one in ids]
        engine.push(source=vertices, target=vertices, label=["a"] * 100, timestamp=ids, edge=ids, n=[2] * 100)
        engine._check()
    assert engine._evaluation.multigraph.by_id.names.live < 120
    assert engine._evaluation.vertices.live < 120


@pytest.mark.parametrize("expression", ["a", "^a"])
@pytest.mark.parametrize("window", [rpq.Window(size=5, slide=1), rpq.CountWindow(size=1)])
def test_a_static_edge_that_the_window_no_longer_holds_has_no_timestamp(expression, window):
    queries = rpq.Query(expression, window=window, name="q"), rpq.Query("b", window=rpq.Window(size=100, slide=1))
    engine = rpq.Engine(*queries)
    engine.load_static([("x", "y", "a")])
    engine.insert("x", "y", "a", 1)
    ends = ("x", "y") if expression == "a" else ("y", "x")
    assert engine.witness(*ends, query="q").timestamps == (1,)
    engine.insert("s", "t", "a", 20)
    assert engine.witness(*ends, query="q").timestamps == (None,)
