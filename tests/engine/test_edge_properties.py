"""Properties of edges, and conditions on labels: the engine gives the rows and counts of the oracle.

semantics.md S15
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.reference_patterns import Variable
from tests.reference_properties import COUNTS, EdgeAtom, PropertyEngine, PropertyQuery, Row
from tests.twins import examples

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
        paths=draw(st.sampled_from(("walk", "walk", "simple"))),
    )


VERTICES = st.sampled_from("uvw")
PROPERTIES = st.fixed_dictionaries(
    {}, optional={"n": st.sampled_from((None, 0, 1, 2, 3)), "m": st.sampled_from((None, "x", "]"))}
)
TUPLES = st.tuples(
    VERTICES, st.sampled_from("aaabc"), VERTICES, st.sampled_from((0, 0, 0, 1, 1, 2, -1, -3, -8, 7)), PROPERTIES,
    st.sampled_from("++++-"),
)  # fmt: skip


def as_batch(rows: list[tuple], *, arrow: bool) -> object:
    """Return tuples as columns; properties that none of them has are missing."""
    names = sorted({name for *_, properties, _ in rows for name in properties})
    columns: dict[str, list] = {
        "source": [row[0] for row in rows],
        "label": [row[1] for row in rows],
        "target": [row[2] for row in rows],
        "timestamp": [row[3] for row in rows],
        "op": [row[5] for row in rows],
    }
    columns |= {name: [row[4].get(name) for row in rows] for name in names}
    types = {"n": pa.int64(), "m": pa.string(), "timestamp": pa.int64()}
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


def restored(engine: rpq.Engine, *, threads: int = 1) -> rpq.Engine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.state"
        engine.save(path)
        return rpq.Engine.restore(path, threads=threads)


@pytest.mark.parametrize("identity", ["triple", "parallel"])
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
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        rows = []
        for source, label, target, step, properties, op in data.draw(st.lists(TUPLES, min_size=1, max_size=6)):
            rows.append((source, label, target, time + step, properties, op))
            time = max(time, time + step)
        note(rows)
        expected: Counter = Counter()
        for source, label, target, timestamp, properties, op in rows:
            if op == "+":
                expected.update(oracle.insert(source, label, target, timestamp, **properties))
            else:
                expected.update(oracle.delete(source, label, target, timestamp))
        changes = engine.push(as_batch(rows, arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        check_counts(engine, oracle, queries)
        if data.draw(st.integers(0, 3)) == 0:
            engine = restored(engine, threads=data.draw(st.sampled_from((1, 2))))
            check_counts(engine, oracle, queries)
        if data.draw(st.booleans()):
            time += data.draw(st.sampled_from((0, 1, 5)))
            assert rows_of(engine.advance(time), queries) == Counter(oracle.advance(time))
            check_counts(engine, oracle, queries)


@pytest.mark.parametrize("identity", ["triple", "parallel"])
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
        paths=data.draw(st.sampled_from(("walk", "simple"))),
    )
    note([first.query, second.query])
    oracle = PropertyEngine(first.oracle, second.oracle, identity=identity)
    engine = rpq.Engine(first.query, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    running = [first]
    for source, label, target, step, properties, op in data.draw(st.lists(TUPLES, min_size=1, max_size=15)):
        time = 5 if oracle.time is None else oracle.time
        row = (source, label, target, time + step, properties, op)
        note(row)
        if op == "+":
            expected = oracle.insert(source, label, target, time + step, **properties)
        else:
            expected = oracle.delete(source, label, target, time + step)
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
