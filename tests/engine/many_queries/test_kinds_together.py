"""Queries of all kinds in one engine: each has the rows and answers that it has alone, with each event pushed by itself.

Paths, with lengths and in time order, patterns with edge variables, SPARQL with named windows and reports, and MATCH share
one graph, whatever the identity of edges, with conditions, deletes by id, streams with a name, events of several tuples,
threads, restores, and queries that come and go. Other tests compare each kind with its oracle.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges import edge_streams, test_edge_variables
from tests.engine.time_order import test_order
from tests.operators.patterns import pattern_twins
from tests.strategies.drawn_match import match_queries
from tests.twins import examples

pytestmark = pytest.mark.filterwarnings("ignore:2 threads do not divide")

INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
NUMBERS = [f'"1"{INTEGER}', f'"2"{INTEGER}', '"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>', "2.5", "1", "x"]
PATHS = ("a+", "a/b*", "(a|b|c)+", "(a|^b)+/num", "a*/b*", "!a/b?", "(a/b){1,3}", "a[n > 1]+/b")
SPARQL = (
    "SELECT ?x (SUM(?y) AS ?s) (COUNT(*) AS ?c) { ?x <num> ?y } GROUP BY ?x",
    "SELECT ?x (AVG(?y) AS ?s) (MIN(?y) AS ?i) (MAX(?z) AS ?c) { ?x <num> ?y OPTIONAL { ?x <a> ?z } } GROUP BY ?x",
    "SELECT ?x ?y { ?x <a> ?y } ORDER BY ?y LIMIT 2 OFFSET 1",
    "SELECT ?x ?n { ?x <num> ?n OPTIONAL { ?x <a> ?y FILTER(?n > 1) } } ORDER BY DESC(?n) ?x LIMIT 2",
    "SELECT ?x ?n ?m { ?x <num> ?n . ?y <num> ?m FILTER(?n < ?m) "
    "FILTER NOT EXISTS { ?y <a> ?x . ?x <num> ?k FILTER(?k >= ?m) } }",
    "SELECT ?x ?n { ?x <num> ?n MINUS { ?x <a> ?y . ?y <b> ?x } }",
    "SELECT ?x ?y ?n { ?x <a> ?y OPTIONAL { ?y <num> ?n FILTER(?n != 2) } }",
    "SELECT ?x (COUNT(DISTINCT ?y) AS ?c) { ?x (<a>|<b>)+ ?y } GROUP BY ?x ORDER BY DESC(?c) ?x LIMIT 1",
    "SELECT ?p (COUNT(*) AS ?c) { ?s ?p ?o } GROUP BY ?p",
    "SELECT ?x ?z { ?x <a> ?y { SELECT ?y ?z { ?y <b> ?z } ORDER BY ?z LIMIT 1 } }",
    "ASK { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?x } }",
    "CONSTRUCT { ?y <inv> ?x } { ?x <a>+ ?y FILTER(?x != ?y) }",
)
REPORTS = (
    "REGISTER RSTREAM <r> AS SELECT ?x (COUNT(?y) AS ?c) { ?x <a> ?y } GROUP BY ?x",
    "REGISTER ISTREAM <r> AS SELECT ?x ?y { ?x <a> ?y }",
    "REGISTER DSTREAM <r> AS SELECT ?x ?y { ?x <a>/<b> ?y }",
    "SELECT ?x ?y FROM NAMED WINDOW <w> ON <s> [RANGE PT5S STEP PT2S] FROM NAMED WINDOW <v> [COUNT 3 STEP 2] "
    "WHERE { WINDOW <w> { ?x <a> ?y } WINDOW <v> { ?y <b> ?z } }",
    "SELECT ?x (MAX(?n) AS ?m) FROM NAMED WINDOW <w> ON <t> [RANGE PT7S] FROM NAMED WINDOW <v> ON <s> [RANGE PT3S] "
    "WHERE { WINDOW <w> { ?x <num> ?n } OPTIONAL { WINDOW <v> { ?x <a> ?y } } } GROUP BY ?x",
)
"""Queries with times of their own."""
MATCHES = (
    "MATCH (x)-[e:a WHERE e.n > 1]->(y)-[f:b]->(z) WHERE f.timestamp >= e.timestamp "
    "RETURN x, z, sum(f.n) AS s, max(e.n) AS k",
    "MATCH (x)-[e:a]->(y) WHERE NOT EXISTS { (y)-[f:b]->(x) WHERE f.n > e.n } RETURN x, y, e.n",
    "MATCH (x)-[e:a]->(y) OPTIONAL MATCH (y)-[f:b WHERE f.n IS NOT NULL]->(z) RETURN x, z, f.n, avg(e.n) AS q",
    "MATCH ANY (x)-[q:a WHERE q.n > 1]->+(y), (y)-[e:b]->(z) RETURN x, y, count(DISTINCT e.n) AS c",
    "MATCH DIFFERENT EDGES (x)-[e:a]-(y)-[f:a]-(z) RETURN x, z, e.n, f.n",
)
OTHER_NAMES = ((":T", ":a"), ("|T", "|a"), ("!T", "!a"), (":S", ":b"), ("|S", "|b"), ("amount", "n"), ("note", "m"))
"""Of labels and properties in texts of MATCH that are drawn."""

time_windows = st.builds(lambda size, slide: rpq.Window(size=size, slide=slide), st.integers(1, 12), st.integers(1, 5))
windows = (
    time_windows
    | time_windows
    | st.builds(lambda step, more: rpq.CountWindow(size=step + more, step=step), st.integers(1, 3), st.integers(0, 4))
    | st.just(rpq.UnboundedWindow())
)
semantics = st.sampled_from(("explicit", "implicit"))


@st.composite
def queries(draw: st.DrawFn, name: str, identity: str) -> rpq.Query:
    kinds = ["path", "path", "length", "conditions", "edges", "pattern", "sparql", "sparql", "report", "match", "drawn"]
    match draw(st.sampled_from(kinds + ["order"] * (identity != "triple"))):
        case "path":
            ends = st.none() | st.just({"u", "v"})
            text, paths = draw(st.sampled_from(PATHS)), draw(st.sampled_from(("walk", "walk", "simple")))
            options = {"semantics": draw(semantics), "sources": draw(ends), "targets": draw(ends), "paths": paths}
            return rpq.Query(text, window=draw(windows), name=name, **options)
        case "length":
            return rpq.Query(
                draw(st.sampled_from(PATHS)), window=draw(windows), name=name, select=["source", "target", "length"]
            )
        case "conditions":
            return draw(edge_streams.described(name)).query
        case "edges":
            return draw(test_edge_variables.described(name, identity)).query
        case "order":
            what, order = draw(st.sampled_from(test_order.EXPRESSIONS + test_order.PATTERNS)), draw(test_order.orders())
            sizes = {"size": draw(st.integers(1, 9)), "slide": draw(st.integers(1, 4))}
            if isinstance(what, str) and draw(st.booleans()):
                return test_order.Described(name, what, order, semantics="explicit", has_length=True, **sizes).query
            return test_order.Described(name, what, order, semantics=draw(semantics), **sizes).query
        case "pattern":
            return pattern_twins.query_of(draw(pattern_twins.questions(name)))
        case "sparql":
            report = draw(st.sampled_from(("change", "change", "slide", "time")))
            window = draw(windows if report == "change" else time_windows)
            return rpq.Query(draw(st.sampled_from(SPARQL)), window=window, name=name, report=report)
        case "report":
            return rpq.Query(draw(st.sampled_from(REPORTS)), window=draw(time_windows), name=name)
        case "match":
            return rpq.Query(draw(st.sampled_from(MATCHES)), window=draw(windows), name=name)
    language = draw(st.sampled_from(("gql", "cypher")))
    drawn = draw(match_queries(dialect=language, is_numbered=identity != "triple"))
    text = drawn.text
    for old, new in OTHER_NAMES:
        text = text.replace(old, new)
    try:
        return rpq.Query(text, window=draw(windows), name=name, language=language, parameters=drawn.parameters)
    except rpq.QueryError:
        return rpq.Query(draw(st.sampled_from(MATCHES)), window=draw(windows), name=name)


def edges_of(label: str) -> st.SearchStrategy[tuple[str, str, str]]:
    vertices = st.sampled_from(["u", "u", "v", "v", "w", "0", "1", "A"])
    targets = {"num": st.sampled_from(NUMBERS), "type": st.sampled_from("AB")}
    return st.tuples(vertices, targets.get(label, vertices), st.just(label))


steps = st.tuples(
    st.sampled_from((0, 0, 0, 1, 1, 2, 4, 9)),  # how far the time moves
    st.sampled_from((0, 0, 0, 0, 0, 1, 2, 6)),  # how late the tuple is
    st.one_of(*map(edges_of, ("a", "a", "a", "b", "b", "c", "num", "type"))),
    st.sampled_from("++++-"),
    st.sampled_from((None, 0, 1, 2, 3)),
    st.sampled_from((None, "x", "]")),
    st.sampled_from((None, "s", "t")),
    st.sampled_from("efghij"),
    st.booleans(),  # whether a new event begins
)


@st.composite
def streams(draw: st.DrawFn, identity: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    time, event = draw(st.integers(-5, 5)), 0
    for ahead, late, (source, target, label), op, number, text, stream, edge, begins in draw(
        st.lists(steps, min_size=8, max_size=40)
    ):
        time, event = time + ahead, event + begins
        row = {"source": source, "target": target, "label": label, "timestamp": time - late, "op": op}
        row |= {"n": number, "m": text, "stream": stream, "event": event}
        rows.append(row | ({"edge": None if op == "-" and text is None else edge} if identity == "id" else {}))
    return rows


def columns_of(rows: list[dict[str, Any]], *, events: bool) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0] if events or name != "event"}


def by_query(changes: rpq.Changes) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in changes.rows():
        found.setdefault(row.query, []).append(as_compared(row[1:]))
    return found


def as_compared(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


def answers_of(engine: rpq.Engine, name: str) -> Counter:
    return Counter(map(as_compared, engine.answers(name)))


def restored(engine: rpq.Engine, threads: int) -> rpq.Engine:
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        return rpq.Engine.restore(Path(folder) / "state", threads=threads)


@pytest.mark.ci
@examples(150)
@given(data=st.data())
def test_each_query_has_the_rows_that_it_has_alone(data: st.DataObject) -> None:
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    events = data.draw(st.sampled_from((None, None, "window")))
    options: dict[str, Any] = {"edges": identity, "events": events, "time_unit": "s"}
    drawn = [data.draw(queries(f"q{number}", identity)) for number in range(data.draw(st.integers(2, 4)))]
    note(drawn)
    asked, alone = [], {}
    for query in drawn:
        with suppress(rpq.QueryError):  # of such edges or events, it cannot be asked over a count window
            alone[query.name] = rpq.Engine(query, **options)
            asked.append(query)
    threads = st.sampled_from((1, 1, 2))
    late = asked.pop() if len(asked) > 1 and data.draw(st.booleans()) else None
    try:
        engine = rpq.Engine(*asked, threads=data.draw(threads), _capacity=data.draw(st.sampled_from((1, 256))), **options)
    except rpq.QueryError:  # queries over count windows of different labels with conditions
        assume(False)
    running = {query.name for query in asked}

    def check(changes: rpq.Changes, expected: dict[str, list[tuple[Any, ...]]]) -> None:
        found = by_query(changes)
        for name in running:
            rows = found.get(name, [])
            assert Counter(rows) == Counter(expected.get(name, [])), name
            assert [row[-2] for row in rows] == sorted(row[-2] for row in rows)
            assert answers_of(engine, name) == answers_of(alone[name], name)
        engine._check()

    stream = data.draw(streams(identity))
    groups = [[row] for row in stream]
    if events is not None:
        groups = [list(group) for _, group in groupby(stream, key=lambda row: row["event"])]
    while groups:
        size = data.draw(st.sampled_from((1, 2, 5, 9, 30)))
        batch, groups = groups[:size], groups[size:]
        note(batch)
        changes = engine.push(columns_of([*chain(*batch)], events=events is not None))
        expected: dict[str, list[tuple[Any, ...]]] = {}
        for group in batch:
            for name, one in alone.items():
                expected.setdefault(name, []).extend(
                    by_query(one.push(columns_of(group, events=events is not None))).get(name, [])
                )
        check(changes, expected)
        match data.draw(st.sampled_from(("", "", "restore", "advance", "register", "unregister"))):
            case "restore":
                engine = restored(engine, data.draw(threads))
            case "advance":
                time = engine.time + data.draw(st.sampled_from((0, 1, 3, 20)))
                moved = {name: by_query(one.advance(time)).get(name, []) for name, one in alone.items()}
                check(engine.advance(time), moved)
            case "register" if late is not None and getattr(late, "report", "change") == "change":
                try:
                    engine.register(late)
                except (rpq.RegistrationError, rpq.QueryError):  # it reads what was lost
                    continue
                running.add(late.name)
                assert answers_of(engine, late.name) == answers_of(alone[late.name], late.name)
                late = None
            case "unregister" if len(running) > 1:
                name = data.draw(st.sampled_from(sorted(running)))
                running.discard(name)
                engine.unregister(name)
