"""Static edges beside conditions, identities and windows that hide them.

semantics.md S14
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import (
    CONDITION,
    EXPRESSIONS,
    PATTERNS,
    STATIC_EDGES,
    STATIC_EDGES_WITH_IDS,
    WINDOW,
    Described,
    check_counts,
    check_stream,
    described,
    restored,
    rows_of,
    static_columns,
    static_of,
)
from tests.reference_properties import (
    CountedStaticQuery,
    PropertyEngine,
    StaticQuery,
)
from tests.twins import collect, examples


def static_engine(**options) -> rpq.Engine:
    engine = rpq.Engine(**options)
    engine.load_static([("x", "y", "a")])
    return engine


STATIC_EXPRESSIONS = (
    *EXPRESSIONS,
    "a[n is null]",
    "a[n is null]/b[m is null or n > 1]*",
    "!(b)[timestamp is null]",
    "a[not n > 1]+",
)


@examples(200)
@given(data=st.data())
def test_static_edges(data):
    """Static edges have no timestamp, may have values, and an edge of the window hides the one with its identity.

    Where some may be hidden, the queries have one window.
    """
    identity = data.draw(st.sampled_from(("triple", "parallel", "id", "static ids")))
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
        with pytest.raises(rpq.RegistrationError, match="the values of m of static edges were not stored"):
            state.register(rpq.Query("a[m > 1]", window=WINDOW, name="late"))
        state.register(rpq.Query("a[n < 1]", window=WINDOW, name="zero"))
        assert state.insert("y", "z", "b", 2).added == 2 + 1
        assert sorted(state.answers("zero")) == [("x", "w"), ("x", "y")]
        assert state.witness("x", "z", query=CONDITION.name).labels == ("a", "b")
    with pytest.raises(rpq.InputError, match="'much' is a string"):
        rpq.Engine(CONDITION, edges="parallel").load_static({**edges, "n": [5, "much"]})


def test_a_column_of_nulls_of_static_edges_loses_no_values():
    """The edges that follow may be hidden, so that queries begin again; their property had no value that could be lost."""
    query = rpq.Query("?x ?e:a ?y", window=WINDOW, select=["x", "y", "e.n"], semantics="explicit", name="q")
    engine = rpq.Engine(query)
    engine.load_static({"source": ["u"], "target": ["v"], "label": ["b"], "n": [None]})
    engine.load_static({"source": ["v", "u"], "target": ["w", "w"], "label": ["a", "a"], "n": [None, 7]})
    assert engine.insert("w", "w", "b", 1).added == 2
    assert sorted(engine.answers("q")) == [("u", "w", 7), ("v", "w", None)]


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
            with pytest.raises(rpq.RegistrationError, match="the values of n of static edges were not stored"):
                engine.register(late)
        else:
            engine.register(late)
        rows = Counter((row.query, row.op) for row in engine.insert("x", "y", "a", 1, properties={"n": 5}).rows())
        assert rows == ({("plain", "+"): 2} if columns else {("plain", "+"): 2, ("late", "+"): 3, ("late", "-"): 2})
        assert Counter((row.query, row.op) for row in engine.advance(100).rows()) == ({} if columns else {("late", "+"): 2})
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


@examples(120)
@given(data=st.data())
def test_static_edges_beside_count_windows(data):
    """An edge that is evicted brings back the static edge that it hid."""
    identity = data.draw(st.sampled_from(("triple", "id")))
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


@pytest.mark.parametrize("window", [rpq.Window(size=10, slide=5), rpq.UnboundedWindow()])
@pytest.mark.parametrize("is_restored", [False, True])
def test_an_older_insert_does_not_shorten_the_time_for_which_an_edge_hides(window, is_restored):
    engine = rpq.Engine(rpq.Query("a[n > 5]/b", window=window, semantics="explicit"), _capacity=1)
    engine.load_static({"source": ["x"], "target": ["y"], "label": ["a"], "n": [9]})
    engine.insert("y", "z", "b", 9)
    assert engine.insert("x", "y", "a", 9, properties={"n": 1}).removed == 1
    assert not engine.insert("x", "y", "a", 3, properties={"n": 8}).rows()
    engine = restored(engine) if is_restored else engine
    assert not engine.advance(15).rows()  # the edge with timestamp 9 is still there
    engine.insert("y", "w", "b", 16)
    assert [row.target for row in engine.advance(20).rows()] == (["w"] if window.kind == "time" else [])
    engine._check()


@pytest.mark.parametrize("window", [rpq.Window(size=5, slide=1), rpq.CountWindow(size=1, step=1)])
def test_sets_of_conditions_are_collected_while_a_static_edge_is_hidden(window):
    queries = [rpq.Query(f"a[n {sign} 1]", window=window, name=sign, semantics="explicit") for sign in "><"]
    engine = rpq.Engine(*queries)
    engine.load_static({"source": ["x"], "target": ["y"], "label": ["a"], "n": [5]})
    engine.insert("u", "v", "a", 1, properties={"n": 0})
    engine.insert("x", "y", "a", 1, properties={"n": 0})
    engine._evaluation.multigraph._sets_after_collect = 0
    collect(engine)
    engine.insert("v", "w", "a", 9, properties={"n": 0})
    assert list(engine.answers(">")) == [("x", "y")]
    engine._check()


def test_a_late_insert_of_an_edge_with_an_id_is_one_for_the_readers_of_that_edge():
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=6, slide=1)), edges="id")
    engine.load_static({"source": ["u"], "target": ["w"], "label": ["a"], "edge": ["e"]})
    engine.insert("x", "y", "a", 20, edge="g")
    engine.insert("x", "y", "b", 13, edge="g")  # a label that no query reads
    assert (engine.statistics().late, engine.statistics().irrelevant) == (1, 0)
    assert engine.delete(None, None, None, 20, edge="g").removed == 1
    engine._check()
