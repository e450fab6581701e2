"""Paths that are found once, in the present graph: pairs and paths are those of a query that was registered from the start.

semantics.md S18
"""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import restored, static_columns, static_of
from tests.engine.nodes.node_queries import Advance, Described, changes_of, push_together, told
from tests.engine.nodes.test_node_streams import EXPRESSIONS, VERTICES, drawn_batch, latest
from tests.reference_nodes import NodeEngine, PathOrder
from tests.twins import collect, examples

PLAIN = ("a", "a/b*", "^a/(a|b)+", "(a|^b){2,3}", "!(a)", "(!(b)|^c)+", "a*/(b|c)/^a*", "a?", "(a/b)+|c", "(a|b)*/a/(a|b)")
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
