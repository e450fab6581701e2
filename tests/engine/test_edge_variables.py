"""Edge variables, filters and selected values of edges: the engine gives the rows and counts of the oracle.

semantics-patterns.md, Edge variables
"""

from __future__ import annotations

import math
import re
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.test_edge_properties import TUPLES, as_batch, restored
from tests.reference_patterns import Constant, Variable
from tests.reference_properties import COUNTS, EdgeAtom, PropertyEngine, PropertyQuery, Row
from tests.twins import examples

PATTERNS = (
    # text, columns, filter
    ("?x ?e:a ?y", "x y e.n", None),
    ("?x ?e:a[n > 1] ?y", "x e.timestamp", None),
    ("?x ?e:a ?y . ?y ?f:a ?z", "x z e.n f.m", None),
    ("?x ?e:a ?y . ?y ?f:a ?z", "x z f.n", "?f.timestamp > ?e.timestamp and ?f.n >= 0.5 * ?e.n"),
    ("?x ?e:a ?y . ?y ?f:b ?z", "x e.timestamp", "?f.timestamp - ?e.timestamp between 0 and 3"),
    ("?x ?e:^a ?y", "x y e.n", None),
    ("?x ?e:(a|^a) ?y", "x y e.m", None),
    ("?x ?e:(a[n > 1]|^b|a[m = 'x']) ?y", "x y e.n", "?e.n is not null"),
    ("?x ?e:!(a|^b) ?y", "x e.timestamp", None),
    ("?x ?e:!(b)[n > 0] ?x", "x e.n", None),
    ("?x ?e:a ?y . ?x ?f:a ?y", "x y", "?e <> ?f"),
    ("?x ?e:a ?y . ?y ?f:(a|^a) ?x", "x e.n f.n", "?e = ?f or ?e.n < ?f.n"),
    ("?x ?e:a ?y . ?x a ?y", "x e.n", None),
    ("?x ?e:a ?y . ?y a[n > 1]+ ?z", "x z e.n", "?x <> ?z"),
    ("?x ?e:a u", "x e.n", "?e.m in ('x', ']')"),
    ("?x ?e:a ?y . ?z ?f:b ?w", "e.n f.n", "?e.n = ?f.n and ?x <> ?w"),
    ("?x a ?y . ?y b ?z", "x z", "?x <> ?z and not ?y in (?x, 'u')"),
    ("?x ?e:a _:y . _:y ?f:a ?z", "e.n", "?e.timestamp <= ?f.timestamp"),
)
NUMBERED = (
    ("?x ?e:a ?y", "x e", None),
    ("?x ?e:a ?y . ?y ?f:a ?z", "e f", "?f.timestamp >= ?e.timestamp"),
    ("?x ?e:(a|^a) ?y . ?x ?f:a ?y", "x e f.n", "?e <> ?f"),
)


def atoms_of(text: str) -> tuple[EdgeAtom, ...]:
    """Return the atoms of a pattern of this file, as the oracle has them; a blank node is a variable that nobody selects."""

    def term(name: str) -> object:
        return Variable(name.removeprefix("?").removeprefix("_:")) if name[0] in "?_" else Constant(name)

    found = []
    for atom in text.split(" . "):
        subject, rest = atom.split(" ", 1)
        path, object_ = rest.rsplit(" ", 1)
        named = re.fullmatch(r"\?(\w+):(.*)", path)
        found.append(EdgeAtom(term(subject), named[2] if named else path, term(object_), named[1] if named else None))
    return tuple(found)


class Described:
    """The query of the oracle and that of the engine."""

    def __init__(self, name: str, what: tuple[str, str, str | None], **options) -> None:
        text, select, condition = what
        names = tuple(select.split())
        oracle = {**options, "filter": condition}
        self.oracle = PropertyQuery(name=name, atoms=atoms_of(text), select=names, **oracle)
        window = rpq.Window(size=options.pop("size"), slide=options.pop("slide"))
        self.query = rpq.Query(text, window=window, select=names, filter=condition, name=name, **options)


@st.composite
def described(draw, name: str, identity: str) -> Described:
    patterns = st.sampled_from(PATTERNS)
    return Described(
        name,
        draw(patterns if identity == "triple" else patterns | st.sampled_from(NUMBERED)),
        size=draw(st.integers(1, 9)),
        slide=draw(st.integers(1, 4)),
        semantics=draw(st.sampled_from(("explicit", "implicit"))),
        paths=draw(st.sampled_from(("walk", "walk", "simple"))),
        distinct=draw(st.booleans()),
    )


def value_of(column: str, value: object) -> object:
    """Return a value of a row as the oracle tells it: with its type."""
    if "." not in column:
        return value
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value)
    return (type(value).__name__, value)


def rows_of(changes: rpq.Changes, queries: list[Described]) -> Counter:
    found: Counter = Counter()
    for one in queries:
        columns = one.query.columns
        table = changes.to_arrow(one.query.name)
        cells = [[value_of(name, value) for value in table[name].to_pylist()] for name in columns]
        ends = zip(*cells, table["timestamp"].to_pylist(), table["op"].to_pylist(), strict=True)
        found.update(Row(one.query.name, row[:-2], *row[-2:]) for row in ends)
    return found


def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
    engine._check()
    for one in queries:
        figures = engine.statistics(one.query.name)
        assert {count: getattr(figures, count) for count in COUNTS} == oracle.counts(one.query.name)
        answers = Counter(tuple(map(value_of, one.query.columns, row)) for row in engine.answers(one.query.name))
        assert answers == oracle.solutions(one.query.name)


@pytest.mark.parametrize("identity", ["triple", "parallel"])
@examples(200)
@given(data=st.data())
def test_random_streams(identity, data):
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 3)))]
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
        check(engine, oracle, queries)
        if data.draw(st.integers(0, 3)) == 0:
            engine = restored(engine, threads=data.draw(st.sampled_from((1, 2))))
            check(engine, oracle, queries)
        if data.draw(st.booleans()):
            time += data.draw(st.sampled_from((0, 1, 5)))
            assert rows_of(engine.advance(time), queries) == Counter(oracle.advance(time))
            check(engine, oracle, queries)
