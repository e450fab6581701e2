"""Paths in time order: the engine gives the rows, counts and witnesses of the oracle.

semantics.md S15
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq import automata
from rpq.language.conditions import parse_expression
from rpq.language.query import PAIR_AND_LENGTH
from tests.engine.edges.edge_streams import apply, as_batch, check_counts, drawn_events, drawn_tuples, restored, rows_of
from tests.reference_order import OrderedAtom, OrderEngine, OrderQuery, PathOrder
from tests.reference_patterns import Constant, Term, Variable
from tests.reference_properties import EdgeAtom, Row
from tests.twins import collect, examples

X, Y, Z = map(Variable, "xyz")

EXPRESSIONS = (
    "a",
    "a+",
    "a/b",
    "a/b*",
    "a/b/a",
    "(a|b)+",
    "a/^a",
    "^a/b",
    "(a/^b)+",
    "^(a/b)|a",
    "a/a",
    "a?/b?/a?",
    "a[n > 1]+",
    "a[n > 1]/b",
    "(a[n > 1]|b)+",
    "!(a)/!b",
    "(a|^a)+",
)
ORDERED = OrderedAtom(X, "", Y, PathOrder())
PATTERNS = (
    (ORDERED._replace(expression="a+"), EdgeAtom(Y, "b", Z)),
    (ORDERED._replace(expression="a/b"), ORDERED._replace(expression="a+", subject=Y, object=Z)),
    (ORDERED._replace(expression="(a|b)+"), EdgeAtom(Y, "a[n > 1]", X)),
    (ORDERED._replace(expression="a/a"), EdgeAtom(X, "a/a", Z)),
    (ORDERED._replace(expression="a+", object=X),),
    (ORDERED._replace(expression="a/b*", subject=Constant("u")), EdgeAtom(Y, "b", Z)),
    (ORDERED._replace(expression="(a|b)+", object=Constant("v")),),
    (ORDERED._replace(expression="b+"), EdgeAtom(X, "a", Z)),
    (ORDERED._replace(expression="(a|^b)+"), EdgeAtom(X, "a", Constant("w"))),
)


def written(term: Term) -> str:
    """Return a term as a pattern writes it."""
    return f"?{term.name}" if isinstance(term, Variable) else str(term.value)


def words(order: PathOrder) -> str:
    """Return an order as a pattern writes it."""
    text = "in order" if order.strict else "in non-decreasing order"
    text += "" if order.span is None else f" within {order.span}"
    return text + ("" if order.gap is None else f" gap {order.gap}")


class Described:
    """The query of the oracle and that of the engine."""

    def __init__(self, name: str, what: object, order: PathOrder, **options) -> None:
        self.what, self.order = what, order
        size, step = options["size"], options["slide"]
        is_counted = options.get("window") == "count"
        window = rpq.CountWindow(size=size, step=step) if is_counted else rpq.Window(size=size, slide=step)
        shared = {"window": window, "name": name, "semantics": options["semantics"]}
        if isinstance(what, str):
            self.oracle = OrderQuery.path(what, order=order, name=name, **options)
            self.query = rpq.Query(
                what,
                **shared,
                order="increasing" if order.strict else "non_decreasing",
                max_gap=order.gap,
                max_span=order.span,
                sources=options.get("sources"),
                targets=options.get("targets"),
                select=PAIR_AND_LENGTH if options.get("has_length") else None,
            )
            return
        atoms = tuple(atom._replace(order=order) if isinstance(atom, OrderedAtom) else atom for atom in what)
        names = tuple(one for one in "xyz" if any(Variable(one) in (atom.subject, atom.object) for atom in atoms))
        self.oracle = OrderQuery(name=name, atoms=atoms, select=names, **options)
        reads = [f"({one.expression} {words(order)})" if isinstance(one, OrderedAtom) else one.expression for one in atoms]
        parts = zip(atoms, reads, strict=True)
        text = " . ".join(f"{written(atom.subject)} {read} {written(atom.object)}" for atom, read in parts)
        self.query = rpq.Query(text, **shared)


@st.composite
def orders(draw) -> PathOrder:
    bound = st.none() | st.integers(0, 6)
    return PathOrder(draw(st.booleans()), draw(bound), draw(bound))


def has_conditions(what: object) -> bool:
    """Return whether an expression, or an atom of a pattern, has brackets."""
    return "[" in what if isinstance(what, str) else any("[" in atom.expression for atom in what)


def needs_own_engine(one: Described, identity: str) -> bool:
    """Return whether a query has a count window that all queries of its engine have to have."""
    return one.oracle.window == "count" and (identity == "id" or has_conditions(one.what))


@st.composite
def described(draw, name: str, *, patterns: bool = True, counted: bool = False, events: bool = False) -> Described:
    """Draw a query; with `counted` its window may be one of count, which with `events` of several tuples is explicit."""
    what = draw(st.sampled_from(EXPRESSIONS) | st.sampled_from(PATTERNS) if patterns else st.sampled_from(EXPRESSIONS))
    ends = st.sampled_from((None, None, frozenset("u"), frozenset("vw")))
    options = {"sources": draw(ends), "targets": draw(ends)} if isinstance(what, str) else {}
    if counted and draw(st.booleans()):
        options["window"] = "count"
    if isinstance(what, str) and draw(st.booleans()):
        options["has_length"] = True
    is_explicit = (events and "window" in options) or "has_length" in options
    semantics = ("explicit",) if is_explicit else ("explicit", "implicit")
    return Described(
        name,
        what,
        draw(orders()),
        size=draw(st.integers(1, 12)),
        slide=draw(st.integers(1, 4)),
        semantics=draw(st.sampled_from(semantics)),
        **options,
    )


@st.composite
def together(draw, identity: str) -> list[Described]:
    """Draw a query or two for one engine."""
    queries = [draw(described(f"q{number}", counted=True)) for number in range(draw(st.integers(1, 2)))]
    alone = [one for one in queries if needs_own_engine(one, identity)]
    return alone[:1] or queries


def check_witnesses(engine: rpq.Engine, oracle: OrderEngine, queries: list[Described]) -> None:
    """Assert that each answer of a path query has a witness that spells a word, in order, over edges of the window."""
    for one in queries:
        if not isinstance(one.what, str):
            continue
        edges = {(edge.source, edge.label, edge.target, edge.timestamp) for edge in oracle.edges(one.query.name)}
        for source, target, *length in engine.answers(one.query.name):
            path = engine.witness(source, target, *length, query=one.query.name)
            assert (path.vertices[0], path.vertices[-1]) == (source, target)
            assert not length or len(path.labels) == length[0], f"{path} has not the fewest edges"
            assert one.order.admits(path.timestamps), path
            steps = zip(path.vertices[:-1], path.labels, path.vertices[1:], path.timestamps, strict=True)
            for u, label, v, time in steps:
                edge = (v, label[1:], u, time) if label.startswith("^") else (u, label, v, time)
                assert edge in edges, f"{path} walks {edge}, which is not there"
            if "[" not in one.what:
                word = [(label.lstrip("^"), label.startswith("^")) for label in path.labels]
                assert automata.compile(parse_expression(one.what)).accepts(word), path


@examples(200)
@given(data=st.data())
def test_random_streams(data):
    identity = data.draw(st.sampled_from(("parallel", "id")))
    queries = data.draw(together(identity))
    note([one.query for one in queries])
    oracle = OrderEngine(*(one.oracle for one in queries), identity=identity)
    # A query without an order beside them.
    beside = rpq.Query("a/b", window=rpq.Window(size=3, slide=1), name="beside")
    engine = rpq.Engine(
        *(one.query for one in queries),
        *([beside] if not needs_own_engine(queries[0], identity) and data.draw(st.booleans()) else []),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))) if all(isinstance(one.what, str) for one in queries) else 1,
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        rows = drawn_tuples(data, identity, time, most=6)
        time = max(time, *(row[3] for row in rows))
        note(rows)
        expected: Counter = Counter()
        for row in rows:
            expected.update(apply(oracle, row))
        changes = engine.push(as_batch(rows, arrow=data.draw(st.booleans())))
        assert rows_of(changes, queries) == expected
        check_counts(engine, oracle, queries)
        if data.draw(st.integers(0, 3)) == 0:
            engine = restored(engine)
            check_counts(engine, oracle, queries)
        if data.draw(st.booleans()):
            check_witnesses(engine, oracle, queries)
        if data.draw(st.booleans()):
            time += data.draw(st.sampled_from((0, 1, 5)))
            assert rows_of(engine.advance(time), queries) == Counter(oracle.advance(time))
            check_counts(engine, oracle, queries)


@examples(100)
@given(data=st.data())
def test_random_streams_of_single_tuples(data):
    """Tuples that come by themselves, for which no table is made."""
    queries = data.draw(together("parallel"))
    note([one.query for one in queries])
    oracle = OrderEngine(*(one.oracle for one in queries), identity="parallel")
    engine = rpq.Engine(*(one.query for one in queries), edges="parallel", _capacity=1)
    for source, label, target, timestamp, properties, op, _ in drawn_tuples(data, "parallel", 5, most=20):
        note((source, label, target, timestamp, properties, op))
        if op == "+":
            expected = oracle.insert(source, label, target, timestamp, None, **properties)
            changes = engine.insert(source, target, label, timestamp, properties=properties)
        else:
            expected = oracle.delete(source, label, target, timestamp, None)
            changes = engine.delete(source, target, label, timestamp)
        assert rows_of(changes, queries) == Counter(expected)
        check_counts(engine, oracle, queries)
        if data.draw(st.integers(0, 9)) == 0:
            engine = restored(engine)


@examples(60)
@given(data=st.data())
def test_queries_that_come_and_go(data):
    """A query that reads what another reads begins with the solutions of its window, and goes on like the oracle's.

    The other one needs an order only if each insert is an edge of its own and no window is decided for all.
    """
    identity = data.draw(st.sampled_from(("parallel", "id")))
    first = data.draw(described("first", patterns=False, counted=True))
    options = {"size": first.oracle.size, "slide": first.oracle.slide, "semantics": "explicit"}
    options["window"] = first.oracle.window
    second = Described("second", first.what, data.draw(orders()), **options)
    note([first.query, second.query])
    oracle = OrderEngine(first.oracle, second.oracle, identity=identity)
    is_ordered = not (identity == "id" or needs_own_engine(first, identity)) or data.draw(st.booleans())
    unordered = rpq.Query(first.what, window=first.query.window, name="beside", semantics="explicit")
    began = first.query if is_ordered else unordered
    engine = rpq.Engine(began, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    running = [first] if is_ordered else []
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


@examples(60)
@given(data=st.data())
def test_a_query_comes_when_its_window_has_no_edge_that_was_not_kept(data):
    """Where no query with an order reads its labels, one is refused until the edges have left, and exact from then on."""
    identity = data.draw(st.sampled_from(("parallel", "id")))
    described_query = data.draw(described("q"))
    note(described_query.query)
    oracle = OrderEngine(described_query.oracle, identity=identity)
    beside = rpq.Query("(a|b)+", window=rpq.Window(size=30, slide=1), name="beside")  # reads them without an order
    engine = rpq.Engine(beside, edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    here = False
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        expected = apply(oracle, row)
        changes = engine.push(as_batch([row], arrow=False))
        if here:
            assert rows_of(changes, [described_query]) == Counter(expected)
        elif data.draw(st.booleans()):
            solutions = oracle.solutions("q")
            try:
                changes = engine.register(described_query.query)
            except rpq.RegistrationError as refused:
                assert refused.available_from is None or refused.available_from > oracle.time
            else:
                here = True
                found = {Row("q", values, oracle.time, "+"): count for values, count in solutions.items()}
                assert rows_of(changes, [described_query]) == Counter(found)
        engine._check()


@examples(80)
@given(data=st.data())
def test_a_query_that_begins_empty_holds_what_comes_from_then_on(data):
    """In mid-stream with `start="empty"`, beside queries that know all, and restored from a state."""
    without = described("late", counted=True).filter(lambda one: not needs_own_engine(one, "parallel"))
    others = described("other", counted=True).filter(lambda one: not needs_own_engine(one, "parallel"))
    late, others = data.draw(without), [data.draw(others)] if data.draw(st.booleans()) else []
    note([one.query for one in (late, *others)])
    oracle = OrderEngine(*(one.oracle for one in others), identity="parallel")
    own = OrderEngine(late.oracle, identity="parallel")
    engine = rpq.Engine(*(one.query for one in others), edges="parallel", _capacity=data.draw(st.sampled_from((1, 16))))
    known, running = data.draw(st.integers(0, 8)), list(others)
    for place, row in enumerate(drawn_tuples(data, "parallel", 5, most=20)):
        note(row)
        expected = Counter(apply(oracle, row) if others else [])
        if place == known:
            assert not engine.register(late.query, start="empty").rows()
            if engine.time is not None:
                own.advance(engine.time)
            running.append(late)
        if place >= known:
            expected.update(apply(own, row))
        assert rows_of(engine.push(as_batch([row], arrow=False)), running) == expected
        engine._check()
        if place >= known:
            assert {*engine.answers("late")} == {*own.solutions("late")}
            check_witnesses(engine, own, [late])
        if data.draw(st.integers(0, 5)) == 0:
            engine = restored(engine)
            engine._check()


def test_a_query_that_begins_empty_keeps_edges_with_conditions_when_it_is_restored():
    engine = rpq.Engine(edges="parallel")
    tuples = {"source": ["u"], "label": ["a"], "target": ["v"], "timestamp": [5], "n": [2]}
    engine.push(tuples)
    late = rpq.Query("a[n > 1]+", window=rpq.Window(size=1, slide=1), name="late", order="increasing")
    engine.register(late, start="empty")
    assert list(restored(engine).answers("late")) == []
    engine.push(tuples)
    assert list(restored(engine).answers("late")) == [("u", "v")]


@examples(60)
@given(data=st.data())
def test_shares_have_the_rows_together(data):
    """Each share answers for its part of the roots, or of the rows of a pattern; all see all tuples."""
    identity = data.draw(st.sampled_from(("parallel", "id")))
    queries = [data.draw(described("q", counted=True, events=True))]
    note([one.query for one in queries])
    count = data.draw(st.sampled_from((2, 3)))
    oracle = OrderEngine(*(one.oracle for one in queries), identity=identity)
    threads = data.draw(st.sampled_from((1, 2))) if isinstance(queries[0].what, str) else 1
    settings = {"edges": identity, "threads": threads, "_capacity": 1}
    engines = [rpq.Engine(*(one.query for one in queries), share=(number, count), **settings) for number in range(count)]
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        expected = Counter(apply(oracle, row))
        parts = [rows_of(engine.push(as_batch([row], arrow=False)), queries) for engine in engines]
        assert sum(parts, Counter()) == expected
        for engine in engines:
            engine._check()
        if data.draw(st.integers(0, 5)) == 0:
            engines = [restored(engine) for engine in engines]
    answers = [set(engine.answers("q")) for engine in engines]
    assert set().union(*answers) == set(oracle.solutions("q")) and sum(map(len, answers)) == len(set().union(*answers))


@examples(60)
@given(data=st.data())
def test_events_of_several_tuples(data):
    """The rows of an event are the net rows of its tuples, which all have the largest of their timestamps."""
    identity = data.draw(st.sampled_from(("parallel", "id")))
    queries = [data.draw(described("q", counted=True, events=True))]
    note([one.query for one in queries])
    oracle = OrderEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(*(one.query for one in queries), edges=identity, events="window", _capacity=1)
    time = 5
    for _ in range(data.draw(st.integers(1, 4))):
        columns, expected, time = drawn_events(data, oracle, identity, time)
        note(columns)
        assert rows_of(engine.push(columns), queries) == expected
        engine._check()


# --- the examples of the oracle that are worked by hand -----------------------------------------------------


# --- what is refused, and how a query is told ---------------------------------------------------------------

WINDOW = rpq.Window(size=10, slide=5)
QUERY = rpq.Query("a+", window=WINDOW, name="q", order="increasing")
ORDERED_COUNT = rpq.Query("a+", window=rpq.CountWindow(size=3), name="o", order="increasing")
COUNT = rpq.Query("a+", window=rpq.CountWindow(size=3), name="c")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rpq.Engine(QUERY), 'edges="parallel"'),
        (lambda: rpq.Engine(rpq.Query("?x (a+ in order) ?y", window=WINDOW)), 'edges="parallel"'),
        (lambda: rpq.Query("?x (a+ in order) ?y", window=WINDOW, paths="simple"), 'paths="simple"'),
        (lambda: rpq.Engine(ORDERED_COUNT, QUERY, edges="id"), "another window"),
        (lambda: rpq.Engine(ORDERED_COUNT, COUNT, edges="parallel"), "query 'c' in an engine"),
        (lambda: rpq.Engine(ORDERED_COUNT, edges="parallel").register(COUNT), "an engine of its own"),
        (lambda: rpq.Engine(COUNT, edges="parallel").register(ORDERED_COUNT), "number inserts by themselves"),
        (lambda: rpq.Engine(COUNT, QUERY, edges="parallel"), "another window"),
    ],
)
def test_what_does_not_go_with_an_order_is_refused(make, message):
    with pytest.raises(rpq.QueryError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("text", ["?x (a+ in order) ?y . ?y ?e:b ?z", "?x (a[n > 0]/b? in order) ?y . ?x ?e:a ?z"])
def test_shares_of_patterns_with_edge_variables_are_the_rows_of_one_engine(text):
    chance = random.Random(5)
    edges = {name: [chance.choice("uvwxy") for _ in range(200)] for name in ("source", "target")}
    edges |= {"label": [chance.choice("ab") for _ in range(200)], "timestamp": [number // 3 for number in range(200)]}
    edges |= {"n": [chance.choice((None, 0, 1)) for _ in range(200)], "op": [chance.choice("+++-") for _ in range(200)]}

    def rows(share):
        query = rpq.Query(text, window=WINDOW, select=["x", "y", "e", "z"], semantics="explicit", name="q")
        engine = rpq.Engine(query, edges="parallel", share=share, _capacity=1)
        found = engine.push(edges).rows()
        engine._check()
        return found

    parts = [rows((number, 3)) for number in range(3)]
    assert sum(map(len, parts)) > 100 and Counter(chain.from_iterable(parts)) == Counter(rows((0, 1)))


def test_a_query_in_mid_stream_needs_edges_that_were_kept():
    engine = rpq.Engine(rpq.Query("a", window=WINDOW), edges="parallel")
    engine.insert("x", "y", "a", 1)
    with pytest.raises(rpq.RegistrationError, match="the timestamps of parallel edges were not stored") as refused:
        engine.register(QUERY)
    assert refused.value.available_from == 15
    engine.insert("x", "y", "b", 14)
    with pytest.raises(rpq.RegistrationError):
        engine.register(QUERY)
    engine.advance(15)
    assert engine.register(QUERY).added == 0
    engine.insert("y", "z", "a", 16)
    assert engine.insert("z", "w", "a", 17).added == 3  # of "a" one, of the other query two
    engine._check()
    engine = rpq.Engine(QUERY, edges="parallel")
    engine.insert("x", "y", "a", 1)
    assert engine.register(rpq.Query("a", window=WINDOW, order="non_decreasing", name="other")).added == 1
    engine = rpq.Engine(QUERY, edges="id")
    engine.insert("x", "y", "a", 1, edge="e1")
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"'):
        engine.register(rpq.Query("a/a", window=WINDOW, order="increasing"), start="empty")


@pytest.mark.parametrize("window", [rpq.CountWindow(size=9), WINDOW])
@pytest.mark.parametrize("order", [None, "increasing"])
def test_a_query_in_mid_stream_finds_each_edge_with_an_id(window, order):
    engine = rpq.Engine(rpq.Query("a+", window=window, order=order), edges="id")
    engine.insert("x", "y", "a", 2, edge="e")
    engine.insert("y", "z", "a", 3, edge="f")
    engine.insert("x", "y", "a", 4, edge="g")  # parallel to the first, and too late for the second
    late = rpq.Query("a/a", window=window, order="increasing", name="late")
    assert engine.register(late).added == 1
    engine = restored(engine)
    removed = engine.insert("x", "y", "a", 5, edge="e").rows()  # the edge comes too late now
    assert [(row.source, row.target) for row in removed if row.query == "late"] == [("x", "z")]
    engine._check()


def test_durations_in_a_pattern_are_restored(tmp_path):
    text = "?x (a+ in order within 2h gap 1h) ?y"
    query = rpq.Query(text, window=rpq.Window(size="30d", slide="1d"))
    engine = rpq.Engine(query, edges="parallel", time_unit="s")
    engine.insert("x", "y", "a", 0)
    engine.insert("y", "z", "a", 3600)
    engine.save(tmp_path / "engine.state")
    engine = rpq.Engine.restore(tmp_path / "engine.state")
    assert engine.queries == (query,) or list(engine.queries) == [query]
    assert engine.insert("z", "v", "a", 7200).added == 3
    assert engine.insert("z", "w", "a", 7201).added == 1  # a gap of an hour and a second
    assert engine.insert("v", "w", "a", 7300).added == 2  # x to w would take longer than two hours


def test_chains_with_an_order_are_never_one_expression():
    text = "?x (a+ in order) ?m . ?m (b+ in order) ?y"
    query = rpq.Query(text, window=WINDOW, select=["x", "y"], distinct=True)
    engine = rpq.Engine(query, edges="parallel")
    engine.insert("x", "m", "a", 5)
    assert engine.insert("m", "y", "b", 3).added == 1  # each of the two paths is in order
    assert "(a+ in order)" in str(engine.explain())
    witness = engine.witness("x", "y")
    assert [step.timestamp for atom in witness.atoms for step in atom.steps] == [5, 3]


@pytest.mark.parametrize("gap", ["", " gap 9"])
def test_a_constant_end_has_a_tree_of_its_own_alone(gap):
    """Paths from a constant are followed from it, also where the constant comes in mid-stream."""
    window = rpq.Window(size=50, slide=1)
    engine = rpq.Engine(rpq.Query(f"v0 (a+ in order{gap}) ?y", window=window, name="of 0"), edges="parallel", _capacity=1)
    engine.push_rows([(f"v{i}", f"v{i + 1}", "a", i) for i in range(9)])

    def trees() -> int:
        (found,) = [one.trees for one in engine.explain("of 3").relations if one.trees is not None]
        return found

    assert len(engine.answers("of 0")) == 9
    engine.register(rpq.Query(f"v3 (a+ in order{gap}) ?y", window=window, name="of 3"))
    assert len(engine.answers("of 3")) == 6 and trees() == 2
    assert engine.insert("v9", "v3", "a", 9).added == 1  # v3 comes back to itself
    assert len(engine.answers("of 0")) == 9 and len(engine.answers("of 3")) == 7
    engine.unregister("of 0")
    collect(engine)
    engine._check()
    engine.push_rows([("v3", "v4", "a", 9), ("v3", "v8", "a", 3)])
    engine._check()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("?x a+ in order ?y", 7, "an order in time behind an expression"),
        ("?x (a in order)+ ?y", 16, "an operator behind an order in time"),
        ("?x ^(a in order) ?y", 8, "an order in time inside an expression"),
        ("?x ?e:(a in order) ?y", 7, "an edge variable before a path in time order"),
        ("?x (a in order gap 1h within 2h) ?y", 23, "'within' behind 'gap'"),
        ("?x (a in order gap 1y) ?y", 20, "the unknown unit 'y'"),
        ("?x (a in order soon) ?y", 16, "unexpected 's'"),
    ],
)
def test_errors_point_to_the_place(text, column, message):
    with pytest.raises(rpq.ExpressionError, match=re.escape(message)) as raised:
        rpq.Query(text, window=WINDOW)
    assert raised.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        "?x (a[n > 1]/^b in non-decreasing order within 6h gap 90m) ?y",
        "?x ((a|b)+ in order gap 5) ?x",
        "?x (in in order) in",
    ],
)
def test_the_text_of_a_pattern_comes_back(text):
    (atom,) = rpq.Query(text, window=WINDOW).pattern.atoms
    assert str(atom) == text
