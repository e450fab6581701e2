"""Random streams of edges with properties, and their rows and counts beside the oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st

import rpq
from tests.reference_patterns import Variable
from tests.reference_properties import (
    COUNTS,
    Edge,
    EdgeAtom,
    PropertyEngine,
    PropertyQuery,
    Row,
)

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
    kinds = {pa.int64(): ("n", "amount", "timestamp"), pa.string(): ("m", "note", "source", "target")}
    types = {"rate": pa.float64()} | {name: kind for kind, named in kinds.items() for name in named}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()}) if arrow else columns


def rows_of(changes: rpq.Changes, queries: list[Described]) -> Counter:
    columns = {one.query.name: one.query.columns for one in queries}
    return Counter(
        Row(row.query, tuple(getattr(row, name) for name in columns[row.query]), row.timestamp, row.op)
        for row in changes.rows()
        if row.query in columns
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
        return type(engine).restore(path, threads=threads, witness=witness)


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


WINDOW = rpq.Window(size=10, slide=5)
CONDITION = rpq.Query("a[n > 1]/b", window=WINDOW, name="q")


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


STATIC_EDGES = st.lists(st.tuples(VERTICES, VERTICES, st.sampled_from("aabc"), PROPERTIES), min_size=1, max_size=3)
STATIC_EDGES_WITH_IDS = st.lists(
    st.tuples(VERTICES, VERTICES, st.sampled_from("aabc"), PROPERTIES, st.sampled_from("efi")), min_size=1, max_size=3
)


def static_columns(edges: list[tuple]) -> dict[str, list]:
    """Return static edges, which have been drawn, as columns."""
    columns = {name: [one[place] for one in edges] for place, name in enumerate(("source", "target", "label"))}
    if edges and len(edges[0]) > 4:
        columns["edge"] = [one[4] for one in edges]
    names = dict.fromkeys(name for one in edges for name in one[3])
    return columns | {name: [one[3].get(name) for one in edges] for name in names}


def static_of(edges: list[tuple], identity: str = "parallel") -> tuple[Edge, ...]:
    """Return static edges, which have been drawn, as the oracle has them: their keys are -1, -2, …, or ids, or triples."""

    def key_of(number: int, one: tuple) -> object:
        return (one[0], one[2], one[1]) if identity == "triple" else one[4] if len(one) > 4 else -number

    return tuple(Edge(key_of(number, one), one[0], one[2], one[1], None, one[3]) for number, one in enumerate(edges, 1))
