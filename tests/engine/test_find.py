"""Paths that are found once, in the present graph: pairs and paths are those of a query that was registered from the start.

semantics.md S18
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import restored, static_columns, static_of
from tests.engine.nodes.node_queries import Advance, Described, changes_of, push_together, told
from tests.engine.nodes.test_node_streams import EXPRESSIONS, VERTICES, drawn_batch, latest
from tests.reference_nodes import NodeEngine, PathOrder
from tests.twins import collect, examples

PLAIN = ("a", "a/b*", "^a/(a|b)+", "(a|^b){2,3}", "!(a)", "(!(b)|^c)+", "a*/(b|c)/^a*", "a?", "(a/b)+|c", "(a|b)*/a/(a|b)")
CONDITIONS = (
    *(text for text in EXPRESSIONS if "[n" in text),
    "(a[n > 1]|b)+",
    "a[n is null]/^a[n >= 2]",
    "!(b)[n = 2]/a?",
    "a[n > 1 and timestamp > 6]",
)
NAMES = "uvwsz"


def assert_found(engine: rpq.Engine, oracle: NodeEngine, one: Described, sources, targets) -> None:
    """Assert that find and check have the answers of the oracle, with paths over live edges that spell a word."""
    name = one.query.name
    options = {option: getattr(one.query, option) for option in ("order", "max_gap", "max_span")}
    expected = {
        (x, y)
        for x, y in oracle.solutions(name)
        if (sources is None or x in sources) and (targets is None or y in targets)
    }
    found = engine.find(one.text, source=sources, target=targets, witness=True, **options)
    assert Counter(found) == Counter(expected)
    assert not found.is_cut
    for pair, path in zip(found, found.paths, strict=True):
        assert_spells(oracle, one, path, pair)
    if expected:
        limit = 1 + len(expected) // 2
        cut = engine.find(one.text, source=sources, target=targets, limit=limit, **options)
        assert (len(cut), len({*cut} & expected), cut.is_cut) == (limit, limit, limit < len(expected))
    for pair in itertools.product(sources or NAMES, targets or NAMES):
        path = engine.check(one.text, *pair, **options)
        assert (path is not None) == (pair in expected)
        if path is not None:
            assert_spells(oracle, one, path, pair)


def assert_spells(oracle: NodeEngine, one: Described, path: rpq.Path, pair: tuple[str, str]) -> None:
    """Assert that a path joins a pair, and that its edges alone have it as an answer."""
    assert (path.vertices[0], path.vertices[-1]) == pair
    (running,) = (running for running in oracle._running if running.query.name == one.query.name)
    steps = set()
    for u, label, v in zip(path.vertices, path.labels, path.vertices[1:], strict=False):
        steps.add((v, label[1:], u) if label.startswith("^") else (u, label, v))
    edges = [edge for edge in running.edges.values() if (edge.source, edge.label, edge.target) in steps]
    assert pair in running.query.solutions(edges)


def drawn_ends(data) -> tuple[list[str] | None, list[str] | None]:
    ends = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
    sources = data.draw(st.none() | ends)
    return sources, data.draw(ends if sources is None else st.none() | ends)


def drawn_engine(data, **options) -> rpq.Engine:
    options["threads"], options["_capacity"] = data.draw(st.sampled_from(((1, 1), (1, 2), (2, 16))))
    return rpq.Engine(**options)


def check_stream(data, engine: rpq.Engine, oracle: NodeEngine, asked: list[Described], identity: str) -> None:
    """Push drawn batches, and ask in between."""
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        steps = drawn_batch(data, identity, time)
        if data.draw(st.integers(0, 4)) == 0:
            steps = [Advance(time + data.draw(st.sampled_from((0, 1, 5))))]
        time = latest(steps, time)
        note(steps)
        for step in steps:
            told(oracle, step)
        if isinstance(steps[0], Advance):
            changes_of(engine, steps[0])
        else:
            push_together(engine, steps)
        if data.draw(st.booleans()):
            collect(engine)
        if data.draw(st.booleans()):
            for one in asked:
                assert_found(engine, oracle, one, *drawn_ends(data))
            engine._check()
        if data.draw(st.integers(0, 4)) == 0:
            engine = restored(engine, threads=1)
    for one in asked:
        assert_found(engine, oracle, one, *drawn_ends(data))


@examples(200)
@given(data=st.data())
def test_find_in_the_window_that_is_kept(data):
    """Expressions with and without tests of nodes, and no registered query, or some."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    size, slide = data.draw(st.sampled_from(((10**6, 1), (9, 3), (4, 1))))
    keep = rpq.UnboundedWindow() if size > 9 else rpq.Window(size=size, slide=slide)
    texts = [text for text in (*PLAIN, *EXPRESSIONS) if "[n" not in text]
    asked = [
        Described(text, name=f"q{place}", size=size, slide=slide)
        for place, text in enumerate(data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3)))
    ]
    note([one.query for one in asked])
    oracle = NodeEngine(*(one.oracle for one in asked), identity=identity)
    running = [rpq.Query("(a|c)+", window=rpq.Window(size=3, slide=1))] if data.draw(st.booleans()) else []
    engine = drawn_engine(data, edges=identity, keep=keep)
    for query in running:
        engine.register(query)
    check_stream(data, engine, oracle, asked, identity)


@examples(100)
@given(data=st.data())
def test_find_what_registered_queries_read(data):
    """Conditions on edges too, which registered queries have."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    texts = data.draw(st.lists(st.sampled_from((*PLAIN, *EXPRESSIONS)), min_size=1, max_size=3, unique=True))
    asked = [Described(text, name=f"q{place}", size=9, slide=3) for place, text in enumerate(texts)]
    note([one.query for one in asked])
    oracle = NodeEngine(*(one.oracle for one in asked), identity=identity)
    engine = rpq.Engine(*(one.query for one in asked), edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    check_stream(data, engine, oracle, asked, identity)


@examples(150)
@given(data=st.data())
def test_find_asks_conditions_of_the_properties_that_are_stored(data):
    identity = data.draw(st.sampled_from(("triple", "id")))
    size, slide = data.draw(st.sampled_from(((10**6, 1), (9, 3), (4, 1))))
    texts = data.draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3, unique=True))
    asked = [Described(text, name=f"q{place}", size=size, slide=slide) for place, text in enumerate(texts)]
    note([one.query for one in asked])
    oracle = NodeEngine(*(one.oracle for one in asked), identity=identity)
    keep = rpq.UnboundedWindow() if size > 9 else rpq.Window(size=size, slide=slide)
    engine = drawn_engine(data, edges=identity, keep=keep, edge_properties=["n"])
    if data.draw(st.booleans()):  # a registered query has one of the conditions, over a smaller window
        engine.register(rpq.Query("a[n > 1]", window=rpq.Window(size=3, slide=1)))
    check_stream(data, engine, oracle, asked, identity)


@examples(200)
@given(data=st.data())
def test_find_in_time_order(data):
    identity = data.draw(st.sampled_from(("parallel", "id")))
    texts = data.draw(st.lists(st.sampled_from((*PLAIN, *EXPRESSIONS)), min_size=1, max_size=3))
    asked = []
    for place, text in enumerate(texts):
        bounds = data.draw(st.sampled_from(((None, None), (2, None), (None, 4), (3, 5))))
        order = PathOrder(data.draw(st.booleans()), *bounds)
        asked.append(Described(text, name=f"q{place}", size=9, slide=3, order=order))
    note([one.query for one in asked])
    oracle = NodeEngine(*(one.oracle for one in asked), identity=identity)
    # Without conditions, versions of edges with ids are all edges that are needed.
    is_kept = identity == "id" and not any("[n" in text for text in texts) and data.draw(st.booleans())
    queries = () if is_kept else [one.query for one in asked]
    keep = rpq.Window(size=9, slide=3) if is_kept else None
    engine = rpq.Engine(*queries, edges=identity, keep=keep, _capacity=data.draw(st.sampled_from((1, 16))))
    check_stream(data, engine, oracle, asked, identity)


@examples(100)
@given(data=st.data())
def test_find_over_static_edges(data):
    edges = data.draw(st.lists(st.tuples(VERTICES, VERTICES, st.sampled_from("abc"), st.just({})), min_size=1, max_size=4))
    asked = [Described(data.draw(st.sampled_from(PLAIN)), size=9, slide=3)]
    object.__setattr__(asked[0].oracle, "static", static_of(edges))
    note([asked[0].query, edges])
    oracle = NodeEngine(asked[0].oracle, identity="triple")
    engine = drawn_engine(data, keep=rpq.Window(size=9, slide=3))
    engine.load_static(static_columns(edges))
    found = engine.find("a|b|c", source=[*NAMES])
    assert {*found} == {(source, target) for source, target, *_ in edges}
    oracle.insert("s", "d", "s", 1)
    engine.insert("s", "s", "d", 1)
    for _ in range(data.draw(st.integers(1, 6))):
        source, target = data.draw(VERTICES), data.draw(VERTICES)
        label, time, op = data.draw(st.sampled_from("abc")), data.draw(st.integers(1, 30)), data.draw(st.sampled_from("++-"))
        (oracle.insert if op == "+" else oracle.delete)(source, label, target, time)
        (engine.insert if op == "+" else engine.delete)(source, target, label, time)
        assert {*engine.find(asked[0].text, source=[*NAMES])} == {*oracle.solutions("q")}
        engine._check()


def engine_of(*tuples: str, **options) -> rpq.Engine:
    """An engine that was pushed tuples written "source target label timestamp"."""
    engine = rpq.Engine(**{"keep": rpq.Window(size=10, slide=1), **options})
    engine.push_rows([(*text.split()[:3], int(text.split()[3])) for text in tuples])
    return engine


def test_find_over_a_window_that_is_named():
    engine = engine_of("x y a 1", "y z a 8")
    small = rpq.Window(size=5, slide=1)
    assert {*engine.find("a+", source="x")} == {("x", "y"), ("x", "z")}
    assert (engine.check("a", "x", "y", window=small), [*engine.find("a", target="z", window=small)]) == (None, [("y", "z")])
    with pytest.raises(rpq.RegistrationError, match="edges that were not stored") as refused:
        engine_of("x y a 1", "y z a 20").find("a", source="x", window=rpq.UnboundedWindow())
    assert refused.value.available_from is None


def test_find_over_a_count_window():
    query = rpq.Query("a|b", window=rpq.CountWindow(size=2))
    engine = rpq.Engine(query, static=[("w", "x", "a")])
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1), ("z", "u", "a", 1), ("y", "z", "b", 2, "-")])
    assert {*engine.find("a|b", source=["w", "x", "y", "z"])} == {*engine.answers()} == {("w", "x"), ("z", "u")}
    with pytest.raises(rpq.RegistrationError, match="edges that were not stored"):
        engine.find("a", source="x")


def test_what_is_not_stored_is_an_error_that_says_how_to_store_it():
    window = rpq.Window(size=10, slide=1)
    engine = rpq.Engine(rpq.Query("a", window=window))
    engine.push_rows([("x", "y", "a", 1), ("x", "y", "b", 1)])
    assert len(engine.find("a", source="x")) == 1
    with pytest.raises(rpq.RegistrationError, match=r"rpq.Engine\(keep=") as refused:
        engine.find("a|b", source="x")
    assert refused.value.available_from == 11
    with pytest.raises(rpq.RegistrationError, match="no query read any"):
        engine.check("a[n > 1]", "x", "y")
    with pytest.raises(rpq.RegistrationError, match="edge_properties="):
        engine_of("x y a 1", edge_properties=["m"]).check("a[n > 1]", "x", "y")
    with pytest.raises(rpq.QueryError, match="edge_properties are stored"):
        rpq.Engine(edges="parallel", edge_properties=["n"])
    with pytest.raises(rpq.QueryError, match="collection of names"):
        rpq.Engine(edge_properties="amount")
    engine.advance(11)
    assert len(engine.find("a|b", source="x")) == 0
    engine.register(rpq.Query("b", window=rpq.Window(size=5, slide=1)))
    with pytest.raises(rpq.QueryError, match="different windows"):
        engine.find("a", source="x")
    with pytest.raises(rpq.QueryError, match="no edges are stored"):
        rpq.Engine().find("a", source="x")
    with pytest.raises(rpq.QueryError, match="alone"):
        rpq.Engine(rpq.Query("a", window=window), events="alone").find("a", source="x")
    with pytest.raises(rpq.QueryError, match="edges=\"parallel\""):
        engine_of("x y a 1").find("a+", source="x", order="increasing")
    engine = engine_of(edges="parallel")
    assert len(engine.find("a+", source="x", order="increasing")) == 0
    engine.insert("x", "y", "a", 1)
    with pytest.raises(rpq.RegistrationError, match="parallel edges were not stored"):
        engine.find("a+", source="x", order="increasing")
    counting = rpq.Engine(rpq.Query("a", window=rpq.CountWindow(size=2)), edges="parallel")
    with pytest.raises(rpq.QueryError, match="windows of time"):
        counting.find("a+", source="x", order="increasing")


def test_edges_that_queries_pass_by_are_not_stored():
    """An expression is known, and then an edge comes that no query accepts."""
    engine = rpq.Engine(rpq.Query("?x a y", window=rpq.Window(size=10, slide=1)))
    engine.push_rows([("x", "y", "a", 1)])
    assert len(engine.find("a", source="x")) == 1
    engine.push_rows([("x", "z", "a", 2)])
    with pytest.raises(rpq.RegistrationError):
        engine.find("a", source="x")


def test_an_unknown_name_has_no_paths():
    engine = engine_of("x y a 1")
    for name in ("", "z", 7, "\ud800"):
        assert (len(engine.find("a", source=name)), engine.check("a", name, "y")) == (0, None)
        assert len(engine.find("a", source=["x"], target=[name])) == 0
    assert len(engine.find("a", source=[])) == 0
    assert len(engine.find("a", source=["x", "x"], target=["y", "y", ""])) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass source="),
        ({"source": "x", "limit": 0}, "limit is a whole number"),
        ({"source": "x", "max_edges": 1.5}, "max_edges is a whole number"),
        ({"source": [None]}, "names of vertices"),
        ({"source": "x", "max_gap": 3}, "max_gap"),
        ({"source": "x", "expression": "a/"}, "ends too early"),
        ({"source": "x", "expression": "?x a ?y"}, "unexpected"),
    ],
)
def test_errors_of_find(options, message):
    with pytest.raises(rpq.QueryError, match=message):
        engine_of("x y a 1").find(**{"expression": "a", **options})


def test_a_search_ends_at_its_limit_on_edges():
    engine = engine_of(*(f"x y{number} a 1" for number in range(100)))
    with pytest.raises(rpq.FindLimitError, match="more than 50 edges") as error:
        engine.find("a", source="x", max_edges=50)
    assert error.value.limit == 50
    assert engine.check("a", "x", "y7", max_edges=3) is not None, "the other end has one edge"
    assert len(engine.find("a", source="x", max_edges=100)) == 100


def test_a_hub_costs_nothing_where_the_other_end_has_few_edges():
    """Its members are not looked at, from either side."""
    members = [f"u{number} hub member 1" for number in range(1000)]
    engine = engine_of(*members, "hub doc viewer 1", "hub secret editor 1")
    for expression in ("member*/viewer", "^viewer/^member"):
        ends = ("u7", "doc") if expression[0] == "m" else ("doc", "u7")
        assert engine.check(expression, *ends, max_edges=10) is not None
    assert engine.check("member/viewer", "u7", "secret", max_edges=10) is None


def test_nothing_is_built_anew_after_a_tuple():
    """What a search adds to the lists of edges are those that came since the last one."""
    engine = engine_of(*(f"x{number} y a 1" for number in range(1000)))
    engine.find("a", source="x1")
    links, linked = engine._finder.search.links, []
    link = links._link
    links._link = lambda *arguments: linked.append(arguments[-2:]) or link(*arguments)
    engine.insert("x1", "z", "a", 2)
    assert len(engine.find("a", source="x1")) == 2
    assert linked == [(1000, 1001)], "the edge with this id alone"
    letters = [known.letters for known in engine._finder._known.values()]
    engine.insert("x1", "w", "a", 2)
    assert len(engine.find("a", source="x1")) == 3
    assert [known.letters for known in engine._finder._known.values()] == letters


def test_room_that_a_large_search_took_is_released():
    engine = engine_of(*(f"x{number} x{number + 1} a 1" for number in range(200_000)), keep=rpq.UnboundedWindow())
    engine.find("a", source="x1")
    before = engine._finder.nbytes
    assert len(engine.find("a+", source="x0")) == 200_000
    assert engine._finder.nbytes > before + 1_000_000
    engine.find("a", source="x1")
    assert engine._finder.nbytes < before + 5_000_000


def test_only_the_latest_expressions_are_kept():
    engine = engine_of("x y a 1")
    for number in range(600):
        engine.find(f"a|b{number}", source="x")
    assert len(engine._finder._known) <= 256


def test_finds_between_the_tuples_change_no_rows():
    query = rpq.Query("(a|b)+", window=rpq.Window(size=5, slide=2), semantics="explicit")
    rows = [(f"v{number * 7 % 11}", f"v{number * 5 % 11}", "ab"[number % 2], number // 3) for number in range(300)]
    quiet, asked = rpq.Engine(query, _capacity=4), rpq.Engine(query, _capacity=4)
    for row in rows:
        changes = asked.insert(*row).rows()
        assert sorted(changes) == sorted(quiet.insert(*row).rows())
        asked.find("a/^b*", source=[row[0], "v3"], witness=True)
        asked._check()


def test_paths_have_the_times_and_the_facts_of_the_stream():
    window = rpq.Window(size="10d", slide="1d")
    engine = rpq.Engine(keep=window)
    engine.push(source=["x"], target=["y"], label=["a"], timestamp=[datetime.date(2026, 1, 1)])
    engine.set_node("y", labels=["A"], properties={"risk": 4})
    path = engine.check("a/@[:A]/@[risk > 3]", "x", "y")
    assert path.facts == (("y", {"risk": 4, "labels": ["A"]}),)
    assert path.timestamps == (datetime.date(2026, 1, 1),)
    engine.set_node("y", properties={"risk": 2})
    assert engine.check("a/@[:A]/@[risk > 3]", "x", "y") is None


def test_keep_may_be_unbounded_and_is_saved(tmp_path):
    engine = engine_of("x y a 1", "y z a 1000000", keep=rpq.UnboundedWindow())
    engine.save(tmp_path / "state")
    for one in (engine, rpq.Engine.restore(tmp_path / "state")):
        assert {*one.find("a+", source="x")} == {("x", "y"), ("x", "z")}
        assert one.register(rpq.Query("a", window=rpq.UnboundedWindow())).added == 2
    with pytest.raises(rpq.QueryError, match="keep is a window of time"):
        rpq.Engine(keep=rpq.CountWindow(size=3))
