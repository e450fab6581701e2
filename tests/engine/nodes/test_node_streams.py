"""Random streams of edges and records of nodes: the engine gives the rows of the oracle.

semantics.md S17, semantics-patterns.md P15
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, note, reject
from hypothesis import strategies as st

import rpq
from rpq.errors import InputError
from tests.calls import counted_calls
from tests.engine.edges.edge_streams import restored, static_columns, static_of
from tests.engine.nodes.node_queries import (
    Advance,
    Described,
    EdgeStep,
    NodeStep,
    Step,
    answers_of,
    changes_of,
    push_together,
    rows_of,
    told,
)
from tests.reference_nodes import NodeEngine, PathOrder
from tests.reference_properties import Row
from tests.twins import examples

EXPRESSIONS = (
    "a/@[risk > 2]",
    "(a/@[risk > 2])+",
    "(a/@[risk > 2])+/b",
    "@[:A]/a",
    "@[:A]/(a|b)+/@[!:B]",
    "a/@[risk is null]/b",
    "^(a/@[:A|B])/b",
    "(a[n > 1]/@[risk > 1])+|b",
    "a?/@[:A]/b*",
    "(@[risk > 1]/a/@[kind = 'x']|b)+",
    "!(b)/@[:A]",
    "(!()/@[risk <= 2])+",
    "(!(a|^b)/@[risk <= 2])+",
    "a/@[risk > 1 and kind = 'x']/^a",
    "(a/@[id = 'v'])*/b",
    "@[:A]/a{1,2}/@[:A&B]",
    "(a|@[:A]){2}",
    "a/(@[risk > 2]|b)/a",
    "a[n > 1]/@[not risk > 2]/@[:A]/b[n is null]",
)
PATTERNS = (
    # text, columns, filter
    ("?x[risk > 2] a ?y", "x y", None),
    ("?x a ?y[:A] . ?y b ?z", "x y z", None),
    ("?x ?e:a ?y", "x y y.risk", None),
    ("?x ?e:a[n > 1] ?y[:A]", "x e.n y.kind", "?e.n >= ?y.risk"),
    ("?x a+ ?y[:A]", "x y y.risk", None),
    ("?x (a/@[:A])+ ?y . ?y b u[risk > 1]", "x y", None),
    ("?x[:A]", "x", None),
    ("?x[risk > 1]", "x x.risk x.kind", None),
    ("?x[:A] . ?y a ?z", "x y z", None),
    ("u[:A] a ?y", "y", None),
    ("?x a ?x[risk > 1]", "x x.risk", None),
    ("?x a ?y . ?y[risk > 2]", "x y", None),
    ("?x a ?y", "x.risk y.risk", "?x.risk < ?y.risk"),
    ("?x[:A] a ?y . ?x[:B] b ?z", "x y z", None),
    ("?x[!:A] a _:y[risk > 1] . _:y b ?z", "x z z.kind", None),
    ("?x @[:A]/a ?y . ?y a/@[risk > 2] ?z", "x z", "?x.kind <> ?z.kind or ?z.risk > 3"),
    ("?x ?e:a[n > 1] ?y . ?y ?f:b ?z[risk is null]", "x e.n f.n z.risk", None),
    ("?x ?e:a ?y . ?x ?f:b ?y", "x y.risk", "?e.n < ?y.risk"),
    ("?x[:A] a+ ?y . ?y[:B] b+ ?z", "x z", None),
    ("u[risk > 1] a+ ?y[:A]", "y y.kind", None),
)
MATCHES = (
    # text, meaning, columns, filter
    ("MATCH (a:A)-[:a]->(b) RETURN a, b", "?a[:A] ?e:a ?b", "a b", None),
    (
        "MATCH (a {kind: 'x'})-[e:a WHERE e.n > 1]->(b WHERE b.risk > 2) RETURN a, b, b.risk",
        "?a[kind = 'x'] ?e:a[n > 1] ?b[risk > 2]",
        "a b b.risk",
        None,
    ),
    ("MATCH (a:A) RETURN a", "?a[:A]", "a", None),
    ("MATCH (a) RETURN a, a.risk", "?a", "a a.risk", None),
    ("MATCH (a)-[:a]->(b) RETURN b, labels(a)", "?a ?e:a ?b", "b a.labels", None),
    ("MATCH (a:A&B)-[:a]->(b:!A) RETURN a, b", "?a[:A&B] ?e:a ?b[!:A]", "a b", None),
    ("MATCH (a)-[:a]->(b) WHERE a.risk < b.risk AND a:A RETURN a, b", "?a[:A] ?e:a ?b", "a b", "?a.risk < ?b.risk"),
    (
        "MATCH ANY (a)((x:A)-[:a]->(y WHERE y.risk > 2))+(b) RETURN a, b",
        "?a (@[:A]/a/@[risk > 2])+ ?b",
        "a b",
        None,
    ),
    ("MATCH (a)-[:a]->(b:A|B) RETURN DISTINCT a, b.kind", "?a ?e:a ?b[:A|B]", "a b.kind", None),
)

VERTICES = st.sampled_from("uvw")
EDGE_PROPERTIES = st.fixed_dictionaries({}, optional={"n": st.sampled_from((None, 0, 1, 2, 3))})
NODE_PROPERTIES = st.fixed_dictionaries(
    {}, optional={"risk": st.sampled_from((None, 0, 1, 2, 3, 4)), "kind": st.sampled_from((None, "x", "y"))}
)
STEPS = st.sampled_from((0, 0, 0, 1, 1, 2, -1, -3, -8, 7))
EDGES = st.tuples(
    VERTICES, st.sampled_from("aaabbc"), VERTICES, STEPS, EDGE_PROPERTIES, st.sampled_from("++++-"), st.sampled_from("efgh")
)
RECORDS = st.tuples(
    st.sampled_from("uvws"),
    st.none() | STEPS,
    st.sampled_from("+++++==-"),
    st.sampled_from(((), (), ("A",), ("B",), ("A", "B"))),
    NODE_PROPERTIES,
)


@st.composite
def path_queries(draw, name: str, identity: str, **options) -> Described:
    """A path expression of any kind of path: walks, simple ones, ordered ones, or the lengths of walks, in order or not."""
    kind = draw(st.sampled_from(("walk", "walk", "simple", "simple_cycle", "length", "order", "length in order")))
    semantics = draw(st.sampled_from(("explicit", "implicit")))
    if "length" in kind and options.get("window") != "count":
        options |= {"select": "source target length"}
        semantics = "explicit"
    if "order" in kind and identity != "triple":
        gap, span = draw(st.sampled_from(((None, None), (None, None), (2, None), (None, 4), (3, 5))))
        options["order"] = PathOrder(draw(st.booleans()), gap, span)
    if draw(st.integers(0, 5)) == 0:
        options["sources"] = frozenset("uv")
    return Described(
        draw(st.sampled_from(EXPRESSIONS)),
        name=name,
        semantics=semantics,
        paths=kind if kind.startswith("simple") else "walk",
        **{**sizes(draw), **options},
    )


@st.composite
def patterns(draw, name: str, identity: str, **options) -> Described:
    """A pattern with tests, and properties of nodes in columns and filters."""
    text, select, condition = draw(st.sampled_from(PATTERNS))
    return Described(
        text,
        name=name,
        select=select,
        filter=condition,
        semantics=draw(st.sampled_from(("explicit", "implicit"))),
        paths=draw(st.sampled_from(("walk", "walk", "walk", "simple_cycle"))),
        distinct=draw(st.integers(0, 3)) == 0,
        **{**sizes(draw), **options},
    )


@st.composite
def matches(draw, name: str, identity: str, **options) -> Described:
    """A query in the notation of MATCH."""
    text, meaning, select, condition = draw(st.sampled_from(MATCHES))
    is_explicit = "!:" in text or ":!" in text or "labels(" in text
    return Described(
        meaning,
        name=name,
        match=text,
        select=select,
        filter=condition,
        semantics="explicit" if is_explicit else draw(st.sampled_from(("explicit", "implicit"))),
        node_label=None if "((x:A)" in text else draw(st.sampled_from(("type", None))),  # inside a path records alone decide
        distinct="DISTINCT" in text,
        **{**sizes(draw), **options},
    )


def sizes(draw) -> dict[str, int]:
    return {"size": draw(st.integers(1, 9)), "slide": draw(st.integers(1, 4))}


def drawn_batch(data, identity: str, time: int, *, has_types: bool = False) -> list[Step]:
    """Return tuples, or records, each with its timestamp."""
    steps: list[Step] = []
    if data.draw(st.booleans()):
        for node, step, op, labels, properties in data.draw(st.lists(RECORDS, min_size=1, max_size=5)):
            at = None if step is None else time + step
            time = max(time, at or time)
            is_bare = op == "-"
            steps.append(NodeStep(node, at, op, () if is_bare else labels, {} if is_bare else properties))
        return steps
    for source, label, target, step, properties, op, edge in data.draw(st.lists(EDGES, min_size=1, max_size=6)):
        if has_types and label == "c":
            label, target = "type", data.draw(st.sampled_from("AB"))
        steps.append(EdgeStep(source, label, target, time + step, properties, op, edge if identity == "id" else None))
        time = max(time, time + step)
    return steps


def latest(steps: list[Step], time: int) -> int:
    return max([time, *(step.timestamp for step in steps if step.timestamp is not None)])


def pushed(data, engine: rpq.Engine, steps: list[Step], queries: list[Described]) -> Counter[Row]:
    """Push steps of one kind, together or one by one, and return the rows."""
    if data.draw(st.integers(0, 2)) == 0:
        found: Counter[Row] = Counter()
        for step in steps:
            found.update(rows_of(changes_of(engine, step), queries))
        return found
    return rows_of(push_together(engine, steps, arrow=data.draw(st.booleans())), queries)


def check(engine: rpq.Engine, oracle: NodeEngine, queries: list[Described]) -> None:
    engine._check()
    for one in queries:
        assert answers_of(engine, one) == oracle.solutions(one.query.name)
    figures = engine.statistics()
    counted = (figures.node_records, figures.node_stale, figures.node_absent)
    assert counted == tuple(oracle.node_counts[name] for name in ("records", "stale", "absent"))


def check_stream(
    data,
    identity: str,
    engines: list[rpq.Engine],
    oracle: NodeEngine,
    queries: list[Described],
    *,
    draw_batch: Callable[..., list[Step]] = drawn_batch,
    **options: Any,
) -> None:
    """Push drawn batches, save, restore and let time pass: the engines, shares of one if several, agree with the oracle."""
    time = 5
    for _ in range(data.draw(st.integers(1, 7))):
        if data.draw(st.integers(0, 4)) == 0:
            steps: list[Step] = [Advance(time + data.draw(st.sampled_from((0, 1, 5))))]
        else:
            steps = draw_batch(data, identity, time, **options)
        time = latest(steps, time)
        note(steps)
        expected = Counter(itertools.chain.from_iterable(told(oracle, step) for step in steps))
        found: Counter[Row] = Counter()
        for engine in engines:
            is_time = isinstance(steps[0], Advance)
            try:
                found.update(rows_of(engine.advance(time), queries) if is_time else pushed(data, engine, steps, queries))
            except InputError as error:
                if "push a record before the first tuple" not in str(error):
                    raise
                reject()  # edges that a query on labels reads once there are records were not kept
        assert found == expected
        if len(engines) == 1:
            check(engines[0], oracle, queries)
        if data.draw(st.integers(0, 4)) == 0:
            engines = [restored(engine, threads=data.draw(st.sampled_from((1, 2)))) for engine in engines]
            note("restored")


def check_queries(data, draw_query, *, has_types: bool = False, most: int = 3, **options) -> None:
    """Check one or several queries that are drawn over a drawn stream."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    number = data.draw(st.integers(1, most))
    queries = [data.draw(draw_query(f"q{place}", identity, **options)) for place in range(number)]
    note([one.query for one in queries])
    oracle = NodeEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(
        *(one.query for one in queries),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )
    check_stream(data, identity, [engine], oracle, queries, has_types=has_types)


@examples(200)
@given(data=st.data())
def test_paths(data):
    check_queries(data, path_queries)


@examples(200)
@given(data=st.data())
def test_patterns(data):
    check_queries(data, patterns)


@examples(200)
@given(data=st.data())
def test_matches(data):
    check_queries(data, matches, has_types=True)


@examples(100)
@given(data=st.data())
def test_count_windows(data):
    check_queries(data, data.draw(st.sampled_from((path_queries, patterns))), most=1, window="count")


@examples(100)
@given(data=st.data())
def test_reports(data):
    check_queries(data, patterns, report=data.draw(st.sampled_from(("slide", "time"))))


@examples(100)
@given(data=st.data())
def test_static_edges(data):
    """Static edges, under an identity by which the edges of a window hide none of them."""
    edges = data.draw(st.lists(st.tuples(VERTICES, VERTICES, st.sampled_from("ab"), st.just({})), min_size=1, max_size=3))
    queries = [data.draw(patterns("q", "parallel").filter(lambda query: "@[" not in query.text))]
    note([queries[0].query, edges])
    static = static_of(edges)
    object.__setattr__(queries[0].oracle, "static", static)
    oracle = NodeEngine(*(one.oracle for one in queries), identity="parallel")
    engine = rpq.Engine(queries[0].query, edges="parallel", _capacity=data.draw(st.sampled_from((1, 16))))
    engine.load_static(static_columns(edges))
    check_stream(data, "parallel", [engine], oracle, queries)


@examples(100)
@given(data=st.data())
def test_shares(data):
    """Shares have all rows between them, and none twice."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    query = data.draw(st.sampled_from((path_queries, patterns)))
    queries = [data.draw(query(f"q{place}", identity)) for place in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    oracle = NodeEngine(*(one.oracle for one in queries), identity=identity)
    count = data.draw(st.integers(2, 3))
    engines = [
        rpq.Engine(*(one.query for one in queries), edges=identity, share=(number, count), _capacity=1)
        for number in range(count)
    ]
    check_stream(data, identity, engines, oracle, queries)


@examples(100)
@given(data=st.data())
def test_queries_that_come(data):
    """A query that comes begins with the answers that the table and the window give, or is refused until it can."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    extent = {"size": data.draw(st.integers(1, 9)), "slide": data.draw(st.integers(1, 4))}
    query = data.draw(st.sampled_from((path_queries, patterns)))
    running = [Described("!()[n is null or n >= 0]", name="q0", **extent), data.draw(query("q1", identity, **extent))]
    second = data.draw(query("q2", identity, **extent))
    if data.draw(st.booleans()):  # a query that reads what the other one does
        second = running[1].named("q2")
    note([one.query for one in (*running, second)])
    oracle = NodeEngine(*(one.oracle for one in running), identity=identity)
    engine = rpq.Engine(*(one.query for one in running), edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        steps = drawn_batch(data, identity, time, has_types=False)
        time = latest(steps, time)
        note(steps)
        expected = Counter(itertools.chain.from_iterable(told(oracle, step) for step in steps))
        assert pushed(data, engine, steps, running) == expected
        check(engine, oracle, running)
        if second not in running and data.draw(st.booleans()):
            try:
                changes = engine.register(second.query)
            except rpq.RegistrationError as refused:
                assert refused.available_from is None or refused.available_from > oracle.time
                assert second.oracle.atoms != running[1].oracle.atoms
                continue
            note("registered")
            running.append(second)
            assert rows_of(changes, running) == Counter(oracle.register(second.oracle))
            check(engine, oracle, running)


def test_a_query_registered_again_reads_the_facts_of_now() -> None:
    window = rpq.Window(size=10, slide=1)
    queries = [
        rpq.Query("a/@[risk > 3]", window=window, name="path"),
        rpq.Query("?x a ?y[risk is null]", window=window, name="test"),
        rpq.Query("?x a ?y", window=window, select=["y", "y.risk"], name="value"),
    ]
    engine = rpq.Engine(*queries, rpq.Query("a|b", window=window, name="kept"), _capacity=1)
    engine.insert("x", "y", "a", 1)
    engine.set_node("y", properties={"risk": 5})
    engine.unregister([query.name for query in queries])
    engine.set_node("y", properties={"risk": None})
    engine.set_node("z", properties={"risk": 9})
    engine.insert("y", "z", "a", 2)
    engine._check()
    again = engine.register(queries)
    engine._check()
    assert {tuple(row) for row in again.rows()} == {
        ("path", "y", "z", 2, "+"),
        ("test", "x", "y", 2, "+"),
        ("value", "y", None, 2, "+"),
        ("value", "z", 9, 2, "+"),
    }


def test_a_record_does_not_walk_over_parallel_edges_in_python() -> None:
    """Under an order in time a record reads the parallel edges of its vertex."""
    work = []
    for count in (100, 3_000):
        query = rpq.Query("a/@[risk > 3]/a", window=rpq.Window(size=10_000, slide=1), order="increasing")
        engine = rpq.Engine(query, edges="parallel")
        engine.push_rows([(number % 10, number * 7 % 11, "a", number) for number in range(count)])
        for risk in (5, 1):  # the first time loads kernels
            engine.set_node(1, properties={"risk": risk})
        with counted_calls() as calls:
            engine.set_node(1, properties={"risk": 5})
        work.append(calls.count)
    assert work[1] < 1.5 * work[0]
