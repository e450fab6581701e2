"""Edge variables, filters and selected values of edges: the engine gives the rows and counts of the oracle.

semantics.md S14, semantics-patterns.md P14
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq.language.readings import properties_of
from tests.engine.edges.edge_streams import (
    STATIC_EDGES,
    STATIC_EDGES_WITH_IDS,
    apply,
    as_batch,
    check_shares,
    check_stream,
    drawn_events,
    drawn_tuples,
    push_one,
    restored,
    static_columns,
    static_of,
)
from tests.reference_patterns import Atom, Constant, Variable, extended
from tests.reference_properties import (
    COUNTS,
    CountedQuery,
    Edge,
    EdgeAtom,
    PropertyEngine,
    PropertyQuery,
    Row,
    StaticQuery,
    pairs,
)
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
    (
        "?x ?e:a ?y . ?y ?f:a ?z . ?z ?g:(a|^b) ?x",
        "x y z e.n g.n",
        "?f.n between 0.5 * ?e.n and 1.5 * ?e.n + 1 and ?g.timestamp - ?f.timestamp >= 0 and ?g.n = ?f.n",
    ),
    ("?x ?e:a ?y . ?x ?f:b ?y", "x e.n f.n", "abs(?e.n - ?f.n) <= 1 and ?e.timestamp > 3 and ?e.m < ?f.m"),
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
        paths=draw(st.sampled_from(("walk", "walk", "simple", "simple_cycle"))),
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


@examples(200)
@given(data=st.data())
def test_random_streams(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 3)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(
        *(one.query for one in queries),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )
    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check)


@examples(100)
@given(data=st.data())
def test_count_windows(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    one = data.draw(described("q", identity))
    one.oracle = CountedQuery.of(one.oracle)
    one.query = one.query.over(rpq.CountWindow(size=one.oracle.size, step=one.oracle.slide))
    oracle = PropertyEngine(one.oracle, identity=identity)
    engine = rpq.Engine(one.query, edges=identity, _capacity=data.draw(st.sampled_from((1, 2, 16))))
    check_stream(data, identity, engine, oracle, [one], rows_of=rows_of, check=check, threads=(1,))


@examples(120)
@given(data=st.data())
def test_random_streams_of_single_tuples(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 3)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(*(one.query for one in queries), edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    for row in drawn_tuples(data, identity, 5, most=12):
        note(row)
        expected = Counter(apply(oracle, row))
        assert rows_of(push_one(engine, row), queries) == expected
        check(engine, oracle, queries)


@examples(100)
@given(data=st.data())
def test_events_of_several_tuples(data):
    """The rows of an event are the net rows of its tuples, and the timestamp of its edges is the largest of theirs."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 2)))]
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


@examples(100)
@given(data=st.data())
def test_shares_have_the_rows_between_them(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    check_shares(data, identity, queries, rows_of)


# --- static edges -------------------------------------------------------------------------------------------


@examples(150)
@given(data=st.data())
def test_static_edges(data):
    """They are bound like others, each as often as it was loaded, unless an edge of the window hides them.

    Their timestamp is null.
    """
    identity = data.draw(st.sampled_from(("triple", "parallel", "id", "static ids")))
    hides, have_ids = identity in ("triple", "static ids"), identity == "static ids"
    identity = "id" if have_ids else identity
    static = data.draw(STATIC_EDGES_WITH_IDS if have_ids else STATIC_EDGES)
    queries: list = []
    for number in range(data.draw(st.integers(1, 2))):
        # The id that is selected of static edges without one is null.
        numbered = "triple" if identity == "id" and not have_ids else identity
        one = data.draw(described(f"q{number}", numbered))
        if hides and queries:  # one window is decided for all
            one.query = one.query.over(queries[0].query.window)
            one.oracle = replace(one.oracle, size=queries[0].oracle.size, slide=queries[0].oracle.slide)
        one.oracle = StaticQuery.of(one.oracle, static_of(static, identity))
        queries.append(one)
    note([one.query for one in queries])
    note(static)
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(
        *(one.query for one in queries),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 2))),
        _capacity=data.draw(st.sampled_from((1, 16))),
    )
    cut = data.draw(st.integers(0, len(static)))
    for some in (static[:cut], static[cut:]):
        engine.load_static(static_columns(some))
    if data.draw(st.booleans()):
        engine = restored(engine)
    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check, threads=(1,))


def test_static_edges_have_numbers_below_zero_and_no_time():
    edges = {"source": ["u", "u"], "target": ["v", "v"], "label": ["a", "a"], "n": [5, 6]}
    select = ["x", "e", "e.n", "e.timestamp"]
    query = rpq.Query("?x ?e:a ?y", window=HOURS, select=select, name="q", distinct=True)
    moment = datetime(2024, 5, 6)
    for identity, first, second, id_of_edge in (("parallel", -1, -2, 1), ("id", None, None, "tx")):
        engine = rpq.Engine(query, edges=identity, witness=True)
        engine.load_static(edges)
        ids = {"edge": ["tx"]} if identity == "id" else {}
        changes = engine.push(source=["w"], target=["v"], label=["a"], timestamp=[moment], n=[7], **ids)
        rows = [("u", first, 5, None), ("u", second, 6, None), ("w", id_of_edge, 7, moment)]
        found = [tuple(row[name] for name in select) for row in changes.to_arrow("q").to_pylist()]
        assert sorted(found, key=lambda row: row[2]) == rows
        for state in (engine, restored(engine, witness=True)):
            assert sorted(state.answers(), key=lambda row: row[2]) == rows
            for row in rows:
                ((step,),) = (atom.steps for atom in state.witness(*row).atoms)
                assert (step.source, step.target, step.timestamp) == (row[0], "v", row[3])
            late = rpq.Query("?x ?e:a[n > 5] ?y", window=HOURS, select=["e.n"], name="late")
            with pytest.raises(rpq.RegistrationError, match="was not stored"):
                state.register(late)


# --- witnesses ----------------------------------------------------------------------------------------------


def check_witness(one: Described, answer: tuple, witness: rpq.Witness, edges: list[Edge], *, numbered: bool) -> None:
    """Check that each step is an edge of the snapshot, with its time and values, and that together they give the answer."""
    binding, chosen = frozenset(), {}
    for atom, found in zip(one.oracle.atoms, witness.atoms, strict=True):
        walked = []
        for step in found.steps:
            ends = step.source, step.label, step.target, step.timestamp
            same = [edge for edge in edges if (edge.source, edge.label, edge.target, edge.timestamp) == ends]
            if atom.edge is not None and numbered:
                same = [edge for edge in same if edge.key == witness[atom.edge]]
            values = step.properties or {}
            fitting = [edge for edge in same if values.items() <= edge.properties.items()]
            assert fitting, f"{step} is no edge with {values}: {same}"
            # Of parallel edges a path has the youngest; here any other is as good.
            walked.append(fitting[-1])
        ends = found.steps[0].ends[0], found.steps[-1].ends[1]
        assert ends in pairs(atom.expression, walked, one.oracle.paths)
        if atom.edge is not None:
            (chosen[atom.edge],) = walked
        binding = extended(binding, Atom(atom.subject, "", atom.object), ends)
        assert binding is not None
    bound = {name.lstrip("?_:"): value for name, value in witness.binding}
    for term, vertex in binding:
        assert isinstance(term, Constant) or bound[term.name] == vertex
    assert one.oracle.solution(binding, chosen) == tuple(map(value_of, one.query.columns, answer))


@examples(120)
@given(data=st.data())
def test_witnesses_are_bindings_of_the_snapshot(data):
    """They bind edges of that moment so that the filter holds and the selected values are those of the row."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}", identity)) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    threads = data.draw(st.sampled_from((1, 1, 2)))
    options = {"edges": identity, "witness": True, "threads": threads, "_capacity": data.draw(st.sampled_from((1, 16)))}
    engine = rpq.Engine(*(one.query for one in queries), **options)
    numbered = identity != "triple"

    def check_answers() -> None:
        for one in queries:
            for answer in engine.answers(one.query.name):
                witness = engine.witness(*answer, query=one.query.name)
                check_witness(one, tuple(answer), witness, present[one.query.name], numbered=numbered)

    rows = drawn_tuples(data, identity, 5, most=12)
    note(rows)
    for row in rows:
        expected = Counter(apply(oracle, row))
        changes = engine.push(as_batch([row], arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        engine._check()
        present = {one.query.name: [*one.edges.values()] for one in oracle._running}
        for one in queries:
            for change in changes.to_arrow(one.query.name, witness=True).to_pylist():
                assert (change["path"] in (None, "")) == (change["op"] == "-")
        check_answers()
        if data.draw(st.integers(0, 5)) == 0:
            engine = restored(engine, witness=True)
            check_answers()


def test_a_witness_names_the_edges_of_its_variables():
    query = rpq.Query(
        CHAIN, window=HOURS, filter="?f.n >= ?e.n and ?f.timestamp > ?e.timestamp", select=["x", "f.n", "f.timestamp"]
    )
    engine = rpq.Engine(query, edges="parallel", time_unit="s", witness=True)
    changes = pushed(engine, ("u", "v", 0), ("v", "w", 5), ("v", "w", 7), n=[2, 1, 3], m=["unread"] * 3)
    assert changes.to_arrow(witness=True)["path"].to_pylist() == [
        '[["u", "a", 0, {"n": 2}, "v"], ["v", "a", 7, {"n": 3}, "w"]]'
    ]
    witness = engine.witness("u", 3, 7)
    assert witness.binding == (("?x", "u"), ("?e", 1), ("?y", "v"), ("?f", 3), ("?z", "w"))
    assert str(witness.atoms[1]) == "?y ?f:a ?z: v -a-> w @7 {n: 3}"
    assert engine.witness("u", "3", "7") == witness  # as a request of a server has them
    for other in (("u", 1, 5), ("u", 3, 5), ("v", 3, 7), ("q", 3, 7), ("u", "much", 7), ("u", 3, "noon"), ("u", None, 7)):
        assert engine.witness(*other) is None


def test_witnesses_of_walks_against_edges_and_of_loops():
    engine = rpq.Engine(
        rpq.Query("?x ?e:^a ?y", window=WINDOW, select=["x", "y"], name="inverse"),
        rpq.Query("?x ?e:(a[n > 1]|^a[n < 3]) ?y", window=WINDOW, select=["x", "e.n"], name="both"),
    )
    pushed(engine, ("u", "v", 1), ("w", "w", 2), ("z", "z", 3), n=[2, 1, 5])

    def step(query: str, *answer: object) -> str:
        return str(engine.witness(*answer, query=query).atoms[0].steps[0])

    assert [step("inverse", *ends) for ends in (("v", "u"), ("w", "w"))] == ["v <-a- u @1", "w <-a- w @2"]
    answers = (("u", 2), ("v", 2), ("w", 1), ("z", 5))
    expected = ["u -a-> v @1", "v <-a- u @1", "w <-a- w @2", "z -a-> z @3"]
    assert [step("both", *answer) for answer in answers] == expected


# --- single rules -------------------------------------------------------------------------------------------

WINDOW = rpq.Window(size=10, slide=5)
HOURS = rpq.Window(size="1h", slide="1m")
CHAIN = "?x ?e:a ?y . ?y ?f:a ?z"


def shown(changes: rpq.Changes) -> list[tuple]:
    return sorted(tuple(row[1:]) for row in changes.rows())


def pushed(engine: rpq.Engine, *edges: tuple, **columns: list) -> rpq.Changes:
    source, target, timestamp = map(list, zip(*edges, strict=True))
    return engine.push(source=source, target=target, label=["a"] * len(edges), timestamp=timestamp, **columns)


def test_isomorphism_does_not_concern_edges():
    """As a filter that keeps all pairs of vertices and constants apart."""
    edges = [("u", "v", 1), ("v", "u", 1), ("v", "w", 2), ("v", "v", 2), ("u", "v", 3), ("w", "c", 3), ("v", "c", 3)]
    text = "?x ?e:a ?y . ?x ?f:a ?y . ?y a ?z . ?z a c"
    apart = " and ".join(f"?{one} <> ?{other}" for one, other in ("xy", "xz", "yz"))
    first = rpq.Query(text, window=WINDOW, matching="isomorphism", select=["x", "y", "z", "e", "f"], name="q")
    apart += " and not ?x = 'c' and ?y <> 'c' and ?z <> 'c'"
    second = rpq.Query(text, window=WINDOW, filter=apart, select=first.select)
    one, other = (rpq.Engine(query, edges="parallel") for query in (first, second))
    assert shown(pushed(one, *edges)) == shown(pushed(other, *edges))
    assert len(one.answers()) == 4


def test_selected_values_keep_their_types():
    select = ["e.b", "e.i", "e.f", "e.d", "e.s", "e.t"]
    table = pa.table({
        "source": ["x"], "target": ["y"], "label": ["a"], "timestamp": pa.array([1], pa.timestamp("s")),
        "b": [True], "i": pa.array([7], pa.int8()), "f": [-0.0], "d": pa.array(["1.50"]).cast(pa.decimal128(5, 2)),
        "s": ["0x"], "t": pa.array([5], pa.timestamp("ms", "UTC")),
    })  # fmt: skip
    query = rpq.Query("?x ?e:a ?y", window=HOURS, select=[*select, "e.timestamp"], name="q", distinct=True)
    engine = rpq.Engine(query, edges="parallel")
    rows = engine.push(table).to_arrow("q")
    types = [pa.bool_(), pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.string(), pa.timestamp("ms", "UTC")]
    assert [rows.schema.field(name).type for name in select] == types
    assert rows["e.timestamp"].type == rows["timestamp"].type
    (row,) = rows.to_pylist()
    assert {name: row[name] for name in select[:2]} == {"e.b": True, "e.i": 7}
    assert math.copysign(1, row["e.f"]) == 1
    assert (str(row["e.d"]), row["e.s"], row["e.t"].microsecond) == ("1.50", "0x", 5000)
    again = restored(engine)
    assert list(again.answers()) == list(engine.answers())


@pytest.mark.parametrize("kind", ["int", "text"])
def test_vertices_in_filters(kind):
    """Vertices of an integer stream are numbers; texts are numbers where a number is compared, and themselves otherwise."""
    names = {"int": [7, 10, 9], "text": ["7", "10", "007"]}[kind]
    engine = rpq.Engine(
        rpq.Query("?x a ?y", window=WINDOW, filter="?x < ?y and ?x < 8 and ?x <> ?y", name="q"),
        rpq.Query("?x a ?y", window=WINDOW, filter="?x = ?y or ?x in (?y)", name="same"),
    )
    source, target = [names[0], names[0], names[1]], [names[1], names[2], names[0]]
    changes = engine.push(source=source, target=target, label=["a"] * 3, timestamp=[1] * 3)
    expected = {"int": {(7, 10), (7, 9)}, "text": {("7", "10")}}[kind]
    assert {(row.x, row.y) for row in changes.rows() if row.query == "q"} == expected
    assert not [row for row in changes.rows() if row.query == "same"]


def test_durations():
    query = rpq.Query(CHAIN, window=HOURS, filter="?f.timestamp - ?e.timestamp between '1s' and '10m'", select=["e", "f"])
    engine = rpq.Engine(query, edges="parallel", time_unit="s")
    assert [row[1:3] for row in pushed(engine, ("u", "v", 0), ("v", "w", 600), ("v", "w", 601)).rows()] == [(1, 2)]
    for text in ("a[timestamp - due > '1m']", "a[due + '1m' < timestamp]", "a[(timestamp - due) / 2 > '30s']"):
        engine = rpq.Engine(rpq.Query(text, window=HOURS))
        times = pa.array([60, 71], pa.timestamp("s"))
        due = pa.array([0, 10_000_000], pa.timestamp("us"))
        changes = engine.push(source=["u", "v"], target=["w", "w"], label=["a", "a"], timestamp=times, due=due)
        assert [row.source for row in changes.rows()] == ["v"], text
    plain = rpq.Engine(query.over(WINDOW), edges="parallel")
    with pytest.raises(rpq.InputError, match="the times of this input are plain numbers"):
        pushed(plain, ("u", "v", 0))


@pytest.mark.parametrize(
    "filter",
    [
        "?e.n + 1e20 - 1e20 < ?f.n",
        "?e.n * 1e-300 <= ?f.n * 0",
        "0.1 * ?e.n >= ?f.n",
        "?e.n * 10 - ?e.n * 10 <= ?f.n",
        "?f.timestamp - ?e.timestamp <= '1ms' and abs(?e.n) <= abs(?f.n)",
    ],
)
def test_a_join_checks_a_filter_as_it_is_written(filter):
    """The join sums up floats, but refuses nothing because of their rounding; it does not check disjunctions."""
    window = rpq.Window(size=100, slide=100)
    numbers = [7.0, 5.0, 1e-300, 0.3, 3.0, -math.inf, 1e308, math.nan, None, 0.1 * 7]
    count = len(numbers)
    edges = {"source": ["p", "q"] * count, "target": ["q", "r"] * count, "label": ["a", "b"] * count}
    engines = []
    for text in (filter, f"({filter}) or ?e.n = 0.125"):
        query = rpq.Query("?x ?e:a ?y . ?y ?f:b ?z", window=window, filter=text, select=["e", "f"])
        engine = rpq.Engine(query, edges="parallel", time_unit="ms")
        engine.push(edges | {"timestamp": [*range(2 * count)], "n": [one for one in numbers for _ in "ab"]})
        engines.append(engine)
    assert sorted(engines[0].answers()) == sorted(engines[1].answers())


@pytest.mark.parametrize("language", ["pattern", "gql"])
def test_the_join_checks_values_as_soon_as_it_binds_their_edges(language):
    """A hub with edges of all amounts makes a product, of which each edge looks at those of its own amount."""
    window, count = rpq.Window(size=1_000, slide=1_000), 40
    if language == "pattern":
        filter = "?f.n between 0.95 * ?e.n and 1.05 * ?e.n and ?g.n between 0.95 * ?f.n and 1.05 * ?f.n"
        query = rpq.Query("?x ?e:a ?y . ?y ?f:a ?z . ?z ?g:a ?x", window=window, filter=filter, select=["x", "e.n"])
    else:
        filter = "f.n > 0.95 * e.n AND f.n < 1.05 * e.n AND g.n > 0.95 * f.n AND g.n < 1.05 * f.n"
        query = rpq.Query(f"MATCH (x)-[e:a]->(y)-[f:a]->(z)-[g:a]->(x) WHERE {filter} RETURN x, e.n", window=window)
    engine = rpq.Engine(query, edges="parallel")
    amounts = [2**number for number in range(count)]
    loops = {"source": ["hub"] * count, "target": ["hub"] * count, "label": ["a"] * count}
    engine.push(loops | {"timestamp": [*range(count)], "n": amounts})
    assert sorted(engine.answers()) == [("hub", amount) for amount in amounts]
    (host,) = engine._evaluation.running.hosts
    (part,) = host.tables.queries()
    looks, rows = map(sum, zip(*host.tables.work_of(part).values(), strict=True))
    assert rows == count
    assert looks < 4 * count**2


def test_queries_that_come_in_mid_stream():
    first = rpq.Query(CHAIN, window=WINDOW, select=["e.n", "f.n"], name="first")
    engine = rpq.Engine(first, edges="parallel")
    pushed(engine, ("u", "v", 1), ("v", "w", 2), n=[1, 2], m=[3, 4])
    second = rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e.n", "e"], name="second")
    assert shown(engine.register(second)) == [(1, 1, 2, "+"), (2, 2, 2, "+")]
    for label, value, message in (("a", "m", "the values of m were not stored"), ("!c", "n", "was not stored")):
        with pytest.raises(rpq.RegistrationError, match=message):
            engine.register(rpq.Query(f"?x ?e:{label} ?y", window=WINDOW, select=[f"e.{value}"], name="third"))
    third = rpq.Query("?x ?e:a[m > 4] ?y", window=WINDOW, select=["e.m"], name="third")
    assert not engine.register(third, start="empty").rows()
    changes = pushed(engine, ("w", "u", 3), n=[None], m=[5])
    assert [tuple(row[1:]) for row in changes.rows() if row.query == "third"] == [(5, 3, "+")]
    engine.unregister("first")
    engine._check()
    assert [tuple(row[1:]) for row in pushed(engine, ("w", "u", 4), n=[9], m=[0]).rows()] == [(9, 4, 4, "+")]


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
def test_edges_that_a_kept_window_has_of_an_earlier_query_refuse_a_later_one(identity):
    """Their changes in the meantime are not known: here one of them was deleted."""
    window, number = rpq.Window(size=9, slide=1), {"edge": 2} if identity == "id" else {}
    plain = rpq.Query("b", window=window, name="plain")
    query = rpq.Query("?x ?e:b ?y", window=window, select=["x", "y", "e.n"], name="query")
    engine = rpq.Engine(plain, query, edges=identity, keep=rpq.Window(size=16, slide=1))
    engine.insert("v", "w", "b", 9, properties={"n": 2}, **number)
    engine.unregister("query")
    engine.delete("v", "w", "b", 9, **number)
    with pytest.raises(rpq.RegistrationError, match="from 18 on") as refusal:
        engine.register(query)
    engine.advance(refusal.value.available_from)
    assert not engine.register(query).rows()
    engine._check()


@pytest.mark.parametrize("identity", ["triple", "id"])
def test_a_kept_window_does_not_go_with_static_edges_that_may_be_hidden(identity):
    query = rpq.Query("?x ?e:b ?y", window=WINDOW, select=["x", "y", "e.n"], name="query")
    engine = rpq.Engine(query, edges=identity, keep=rpq.Window(size=16, slide=1))
    edges = {"source": ["v"], "target": ["w"], "label": ["b"], **({"edge": [1]} if identity == "id" else {})}
    with pytest.raises(rpq.QueryError, match="keep, which is another window"):
        engine.load_static(edges)


def test_edges_that_no_query_binds_any_longer_leave_a_count_window():
    """Their vertices have been released, and may be those of other edges."""
    window = rpq.CountWindow(size=2, step=2)
    first = rpq.Query("?x ?e:a ?y", window=window, select=["e.n"], name="first")
    second = rpq.Query("?x ?e:a[timestamp > 6] ?y", window=window, select=["x", "y"], name="second", semantics="explicit")
    engine = rpq.Engine(first, second, _capacity=1)
    for source, target, time in (("w", "w", 1), ("y", "v", 2), ("w", "y", 9)):
        engine.insert(source, target, "a", time, properties={"n": 0})
    engine.unregister("first")
    changes = engine.insert("y", "w", "a", 15)  # evicts the first two
    assert [tuple(row)[1:] for row in changes.rows()] == [("y", "w", 15, "+")]
    assert sorted(map(tuple, engine.answers("second"))) == [("w", "y"), ("y", "w")]
    engine._check()


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_ids_are_selected_and_replaced(kind):
    """A replacement with another label, other ends or another value is one event; one of no selected value brings no row."""
    one, other = {"integer": (7, 9), "text": ("07", "7")}[kind]
    query = rpq.Query("?x ?e:(a|b) ?y", window=WINDOW, select=["x", "e", "e.n"], semantics="explicit", name="q")
    engine = rpq.Engine(query, edges="id")

    def insert(source: str, label: str, time: int, edge: object, n: int) -> list[tuple]:
        return shown(engine.insert(source, "y", label, time, edge=edge, properties={"n": n}))

    first = engine.push(source=["u"], target=["y"], label=["a"], timestamp=[1], edge=[one], n=[1])
    assert first.to_arrow("q").schema.field("e").type == {"integer": pa.int64(), "text": pa.string()}[kind]
    assert insert("u", "a", 1, other, 1) == [("u", other, 1, 1, "+")]
    assert insert("u", "b", 2, one, 1) == []
    assert insert("v", "b", 2, one, 1) == [("u", one, 1, 2, "-"), ("v", one, 1, 2, "+")]
    assert insert("v", "b", 3, one, 2) == [("v", one, 1, 3, "-"), ("v", one, 2, 3, "+")]
    assert insert("v", "b", 2, one, 5) == []  # older than the edge that is held
    assert insert("v", "c", 4, one, 2) == [("v", one, 2, 4, "-")]
    assert insert("v", "a", 4, one, 2) == [("v", one, 2, 4, "+")]
    again = restored(engine)
    assert sorted(again.answers("q")) == sorted([("u", other, 1), ("v", one, 2)])
    assert shown(again.delete("v", "y", "a", 5)) == [("v", one, 2, 5, "-")]  # all edges with these ends
    assert shown(again.advance(15)) == [("u", other, 1, 15, "-")]
    assert shown(engine.delete(None, None, None, 5, edge=other)) == [("u", other, 1, 5, "-")]
    for state in (engine, again):
        state._check()


def test_edges_with_equal_ends_differ_by_their_ids():
    filters = {"same": "?e = ?f", "differ": "?e <> ?f"}
    text = "?x ?e:a ?y . ?x ?f:a ?y"
    queries = [rpq.Query(text, window=WINDOW, filter=one, select=["e", "f"], name=name) for name, one in filters.items()]
    engine = rpq.Engine(*queries, edges="id", _capacity=1)
    pushed(engine, ("u", "v", 1), ("u", "v", 1), ("u", "v", 2), edge=["p", "q", "p"])
    for state in (engine, restored(engine)):
        assert sorted(state.answers("same")) == [("p", "p"), ("q", "q")]
        assert sorted(state.answers("differ")) == [("p", "q"), ("q", "p")]


def test_names_of_ids_are_forgotten_with_their_edges():
    """Ids that come once each are as many as the window has, so that their numbers are given out again and again."""
    query = rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"], semantics="explicit", name="q")
    engine = rpq.Engine(query, edges="id", _capacity=1)
    counts: Counter = Counter()
    for time in range(60):
        for name, _, op in shown(pushed(engine, ("u", "v", time), edge=[f"e{time}"])):
            counts[name] += 1 if op == "+" else -1
        engine._check()
    expected = {f"e{time}" for time in range(60) if time > 55 - 10}
    assert {name for name, count in counts.items() if count} == expected == {name for (name,) in engine.answers("q")}


def test_rows_that_wait_for_a_report_are_saved():
    query = rpq.Query("?x ?e:a ?y", window=WINDOW, select=["x", "e.n"], report="slide")
    engine = rpq.Engine(query)
    pushed(engine, ("u", "v", 1), ("v", "5", 2), n=[5, 6])
    pushed(engine, ("u", "v", 3), n=[7])
    again = restored(engine)
    assert shown(again.advance(6)) == shown(engine.advance(6)) == [("u", 7, 5, "+"), ("v", 6, 5, "+")]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("?x ?e:a/b ?y", {}, "a/b is no single step"),
        ("?x ?e:a ?y . ?y ?e:a ?z", {}, "binds an edge in two atoms"),
        ("?x ?e:a ?e", {}, "and a vertex too"),
        ("?x ?e:a ?y . ?e.n a ?x", {"select": ["e.n"]}, "rename the variable"),
        ("?x ?e:a ?y", {"select": ["e.label"]}, "'label' is no property"),
        ("?x ?e:a ?y", {"select": ["x.labels"]}, "'labels' is no property of a node"),
        ("?x ?e:a ?y . ?x.n a ?x", {"select": ["x.n"]}, "rename the variable"),
        ("?x ?e:a ?y", {"filter": "?e > 5"}, "?e is an edge"),
        ("?x ?e:a ?y", {"filter": "?e = ?x"}, "an edge is compared with a vertex"),
        ("?x ?e:a ?y", {"filter": "?g.n > 1"}, "no variable ?g"),
        ("?x ?e:a ?y", {"filter": "n > 1"}, "values are named by variables"),
        ("?x ?e:a ?y", {"filter": 5}, "is text, not 5"),
        ("?x ?e:a ?y", {"filter": "?e.n > 'x' + 1"}, "text is not a number"),
        ("?x ?e:a '\"u\"'", {"matching": "isomorphism"}, "no literal constants"),
        ("a/b", {"filter": "?x = 1"}, "is an option of graph patterns"),
    ],
)
def test_what_is_refused(text, options, message):
    with pytest.raises(rpq.QueryError, match=re.escape(message)):
        rpq.Query(text, **{"window": WINDOW, **options})


def test_what_an_engine_refuses():
    with pytest.raises(rpq.QueryError, match="has no number where inserts replace edges"):
        rpq.Engine(rpq.Query("?x ?e:a ?y", window=WINDOW, select=["e"]))
    engine = rpq.Engine(rpq.Query("?x ?e:a ?y", window=WINDOW, filter="?e.n > 'x'", name="q"))
    with pytest.raises(rpq.InputError, match="a number is compared with text.*column 'n' is of type int"):
        pushed(engine, ("u", "v", 1), n=[5])
    assert pushed(engine, ("u", "v", 1), n=["y"]).added == 1
    assert engine.witness("v", "u") is None


def test_the_properties_of_a_query_are_those_of_conditions_columns_and_filter():
    """These are the columns that a server and a run over topics read of their input."""
    text = "?x ?e:!(b)[n > 1]|^a[m > timestamp] ?y . ?y a[k > 1]+ ?z"
    query = rpq.Query(text, window=WINDOW, select=["e.s", "e.timestamp"], filter="?e.t > ?e.timestamp")
    assert properties_of(query) == {*"nmkst"}


def test_decimals_of_one_property_have_the_digits_of_all():
    query = rpq.Query("?x ?e:a ?y", window=WINDOW, select=["x", "e.d"], filter="?e.d <> 7", semantics="explicit", name="q")
    engine = rpq.Engine(query)

    def kind_and_rows(values: object) -> tuple[pa.DataType, list[tuple]]:
        given = {"source": ["u", "w"], "target": ["v", "v"], "label": ["a", "a"], "timestamp": [1, 1], "d": values}
        table = engine.push(given).to_arrow("q")
        return table.schema.field("e.d").type, sorted((row["x"], row["e.d"], row["op"]) for row in table.to_pylist())

    short, long = Decimal("1.5"), Decimal("1234.125")
    rows = [("u", short, "+"), ("w", short, "+")]
    assert kind_and_rows(pa.array([short, short], pa.decimal128(5, 2))) == (pa.decimal128(5, 2), rows)
    rows = [("u", short, "-"), ("u", long, "+"), ("w", Decimal("0.1"), "+"), ("w", short, "-")]
    assert kind_and_rows([long, Decimal("0.1")]) == (pa.decimal128(7, 3), rows)
    assert kind_and_rows(pa.array(["1234.1250", "0.100"]).cast(pa.decimal128(38, 4))) == (pa.decimal128(38, 4), [])
    again = restored(engine)
    assert sorted(again.answers("q")) == sorted(engine.answers("q")) == [("u", long), ("w", Decimal("0.1"))]
    assert kind_and_rows(pa.array([short, None], pa.decimal256(76, 42)))[0] == pa.decimal256(76, 42)
    tiny = Decimal("1e-60")
    with pytest.raises(rpq.InputError, match=r"row 1: column 'd': Decimal\('1E-60'\) is beyond the values before"):
        kind_and_rows(pa.array([short, tiny], pa.decimal256(61, 60)))
    assert sorted(engine.answers("q")) == [("u", short)]  # of the null the filter is null
    engine._check()


@pytest.mark.parametrize(
    ("texts", "static", "edges"),
    [
        (["?x ?e:a ?y . ?y (a+ in order) ?z"], [], ["u a v 5"]),
        (["?x ?e:a ?y", "b"], ["u a v"], ["u b v 0", "v b w 1", "w b u 2"]),
        (["?x ?e:a ?y . ?y ((a|b)+ in order within 4 gap 2) ?z", "a"], [], ["u a v 20", "v b v 29"]),
    ],
    ids=["order", "as many static edges as links", "links of edges that have left"],
)
@pytest.mark.parametrize("identity", ["id"])
def test_links_of_bound_edges_survive_states(texts, static, edges, identity):
    windows = rpq.Window(size=6, slide=2), rpq.Window(size=12, slide=2)
    queries = [rpq.Query(text, window=window, name=text) for text, window in zip(texts, windows)]
    engine = rpq.Engine(*queries, edges=identity, _capacity=1)
    for source, label, target in map(str.split, static):
        engine.load_static([(source, target, label)])

    def insert(engine, place, text):
        source, label, target, time = text.split()
        known = {"edge": str(place)} if identity == "id" else {}
        return engine.insert(source, target, label, int(time), **known).rows()

    for place, text in enumerate(edges):
        insert(engine, place, text)
    again = restored(engine)
    again._check()
    for query in queries:
        assert set(again.answers(query.name)) == set(engine.answers(query.name))
    for place, text in enumerate(["v a w 30", "w b u 31", "u a v 31"], len(edges)):
        assert insert(again, place, text) == insert(engine, place, text)
        again._check()


@pytest.mark.parametrize("is_match", [False, True], ids=["pattern", "MATCH"])
def test_memory_does_not_grow_with_what_a_filter_drops(is_match):
    count, least = 140, 139 / 2
    ring = [*zip("xyz", "efg", "yzx")]
    if is_match:  # the join cannot check a quotient
        text = "MATCH (x)-[e:a]->(y)-[f:a]->(z)-[g:a]->(x) WHERE e.d / f.d >= 69.5 AND g.d >= 1 "
        text += "RETURN e.d AS e, f.d AS f, g.d AS g"
        query = rpq.Query(text, window=WINDOW, name="q")
    else:
        text = " . ".join(f"?{one} ?{edge}:a ?{other}" for one, edge, other in ring)
        query = rpq.Query(
            text, window=WINDOW, name="q", filter="?e.d / ?f.d >= 69.5 and ?g.d >= 1", select=["e.d", "f.d", "g.d"]
        )
    engine = rpq.Engine(query, edges="parallel", memory_limit=150_000_000)
    loops = {"source": ["v"] * count, "target": ["v"] * count, "label": ["a"] * count, "timestamp": [1] * count}
    rows = engine.push(loops | {"d": [float(value) for value in range(count)]}).to_arrow("q")
    found = sorted(zip(*(rows[name].to_pylist() for name in query.columns), strict=True))
    numbers = range(count)
    assert found == [(e, f, g) for e in numbers for f in numbers[1:] if e / f >= least for g in numbers[1:]]


@pytest.mark.parametrize("semantics", ["implicit", "explicit"])
def test_bindings_that_expire_silently_are_not_searched_for(semantics):
    query = rpq.Query("?x ?e:a ?y . ?y ?f:a ?x", window=WINDOW, filter="?e.d <= ?f.d", semantics=semantics, name="q")
    engine = rpq.Engine(query, edges="parallel")
    engine.push({"source": ["v"] * 9, "target": ["v"] * 9, "label": ["a"] * 9, "timestamp": [1] * 9, "d": [*range(9)]})
    (host,) = engine._evaluation.running.hosts
    before = host.tables.plans.seed["written_rows"].sum()
    engine.advance(1000)
    assert (host.tables.plans.seed["written_rows"].sum() > before) == (semantics == "explicit")
