"""SPARQL queries that share operators report what each alone would."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import collect, examples

WINDOW = rpq.Window(size=10, slide=3)
BODIES = (
    "SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }",
    "SELECT ?z ?x { ?x <a> ?y . ?y <b> ?z }",
    "SELECT DISTINCT ?x ?z { ?x <a> ?y . ?y <b> ?z }",
    "SELECT DISTINCT ?z ?x { ?x <a> ?y . ?y <b> ?z }",
    "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }",
    "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z FILTER(?z > ?x) } }",
    "SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?x } }",
    "SELECT ?x { ?x <a> ?y MINUS { ?x <b> ?y } }",
    "SELECT ?y (COUNT(?x) AS ?n) (MIN(?x) AS ?m) { ?x <a> ?y } GROUP BY ?y",
    "SELECT ?y (COUNT(?x) AS ?n) { ?x <a> ?y } GROUP BY ?y HAVING(COUNT(?x) > 1)",
    "SELECT (AVG(?y) AS ?n) { ?x <a> ?y }",
    "SELECT ?x ?z { ?x <a> ?z { SELECT ?z (SUM(?y) AS ?n) { ?y <b> ?z } GROUP BY ?z } }",
    "SELECT ?x ?n { ?x <a> ?y BIND(?y + 1 AS ?n) }",
    "SELECT ?x ?z { ?x <a> ?y BIND(?y + 1 AS ?z) ?z <b> ?w }",
    "SELECT ?x ?z { ?x <a> ?y . ?w <b> ?z FILTER(?y < ?z) }",
    "SELECT ?x { { ?x <a> ?y } UNION { ?y <b> ?x } }",
    "SELECT ?x ?y { ?x <a> ?y VALUES ?y { 1 2 } }",
    "SELECT ?x ?y { ?x <a>/<b>* ?y FILTER EXISTS { ?y <c> ?z } }",
    "SELECT ?x { <1> <a> ?x . ?x <b> <2> }",
    "ASK { ?x <a> ?y . ?y <b> ?x }",
    "CONSTRUCT { ?x <d> ?z } { ?x <a> ?y . ?y <b> ?z }",
)
COUNTED = (
    "tuples", "inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant", "rows_added", "rows_removed",
    "answers_live", "edges_live", "rows_waiting",
)  # fmt: skip

tuples = st.tuples(
    st.integers(0, 5), st.integers(0, 5), st.sampled_from("abc"), st.integers(-2, 8), st.sampled_from("++++-")
)


def renamed(text: str, names: str) -> str:
    """The query with other names of variables, which are in another alphabetical order."""
    known = dict(zip(dict.fromkeys(re.findall(r"\?([a-z]\d?)", text)), names, strict=False))
    return re.sub(r"\?([a-z]\d?)", lambda match: f"?{known[match[1]]}", text)


class Apart(rpq.Engine):
    """An engine whose queries share nothing, also after a restart."""

    def __init__(self, *queries: rpq.Query, **options: Any) -> None:
        super().__init__(*queries, _sharing="never", **options)


def restored(engine: rpq.Engine, threads: int) -> rpq.Engine:
    """The same engine after a restart."""
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        return type(engine).restore(Path(folder) / "state", threads=threads)


def row_counts(changes: Iterable[Any]) -> Counter[Any]:
    return Counter(map(tuple, changes))


@st.composite
def queries(draw: st.DrawFn, first: int = 0) -> list[rpq.Query]:
    """Few bodies, many of which differ in their columns, their names of variables and their heads alone."""
    bodies = draw(st.lists(st.sampled_from(BODIES), min_size=1, max_size=2))
    found = []
    for number in range(draw(st.integers(1, 4))):
        text = renamed(draw(st.sampled_from(bodies)), draw(st.sampled_from(["xyzwn", "edcba", "pzqoy"])))
        report: Any = draw(st.sampled_from(["change", "change", "slide", "time"]))
        window = WINDOW if report != "change" else draw(st.sampled_from([WINDOW, rpq.CountWindow(size=6, step=2)]))
        found.append(rpq.Query(text, name=f"q{first + number}", window=window, report=report))
    return found


@examples(25)
@given(st.data())
def test_sharing_operators_is_never_seen(data: st.DataObject) -> None:
    options: dict[str, Any] = {"keep": rpq.Window(size=14, slide=1), "threads": data.draw(st.sampled_from([1, 1, 2]))}
    options["_capacity"] = data.draw(st.sampled_from([1, 256]))
    options["share"] = data.draw(st.sampled_from([(0, 1), (0, 1), (0, 1)]))
    questions = data.draw(queries())
    shared, apart = (kind(*questions, **options) for kind in (rpq.Engine, Apart))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, 5)] * 2)))
    static = [(one, another, "ab"[(one + another) % 2]) for one, another in pairs]
    for engine in (shared, apart):
        engine.load_static(static)
    running = {query.name for query in questions}
    time = number = 0
    for batch in data.draw(st.lists(st.lists(tuples, max_size=12), min_size=1, max_size=5)):
        rows = []
        for source, target, label, step, op in batch:
            rows.append((source, target, label, time + step, op))
            time = max(time, time + step)
        for some in [rows] if data.draw(st.booleans()) else [[row] for row in rows]:
            assert row_counts(shared.push_rows(some)) == row_counts(apart.push_rows(some))
        shared._check()
        what = data.draw(st.sampled_from(["come", "go", "restore", "advance", "collect"]))
        if what == "come":
            number += 100
            more = [query for query in data.draw(queries(number)) if query.window.kind == "time"]
            start: Any = data.draw(st.sampled_from(["window", "window", "empty"]))
            assert row_counts(shared.register(more, start=start)) == row_counts(apart.register(more, start=start))
            running |= {query.name for query in more}
        elif what == "go" and running:
            gone = data.draw(st.lists(st.sampled_from(sorted(running)), unique=True))
            for engine in (shared, apart):
                engine.unregister(gone)
            running -= {*gone}
        elif what == "restore":
            threads = data.draw(st.sampled_from([1, 2]))
            shared, apart = (restored(engine, threads) for engine in (shared, apart))
        elif what == "advance":
            time += 5
            assert row_counts(shared.advance(time)) == row_counts(apart.advance(time))
        elif what == "collect":
            collect(shared)
        shared._check()
        for name in running:
            assert Counter(shared.answers(name)) == Counter(apart.answers(name))
            one, other = (engine.statistics(name) for engine in (shared, apart))
            assert [getattr(one, each) for each in COUNTED] == [getattr(other, each) for each in COUNTED], name
        assert shared.statistics().rows_added == apart.statistics().rows_added


@examples(30)
@given(st.lists(tuples, max_size=30), st.data())
def test_sharing_operators_is_not_seen_in_events_and_limits(rows: list[Any], data: st.DataObject) -> None:
    events: Any = data.draw(st.sampled_from(["window", "alone"]))
    questions = [query.over(rpq.UnboundedWindow()) if events == "alone" else query for query in data.draw(queries())]
    questions = [query for query in questions if query.report == "change" and query.window.kind != "count"]
    most = data.draw(st.sampled_from([None, 3, 6]))
    made: list[Any] = []
    time = 0
    for source, target, label, step, op in rows:
        time += abs(step)
        made.append((source, target, label, time, op, f"{len(made) // 3}"))
    names = ("source", "target", "label", "timestamp", "op", "event")
    columns = dict(zip(names, map(list, zip(*made, strict=True)), strict=False))
    outcomes = []
    for sharing in ("auto", "never"):
        engine = rpq.Engine(*questions, events=events, max_rows=most, _sharing=sharing)  # type: ignore[arg-type]
        try:
            outcomes.append((row_counts(engine.push(columns)) if made else None, None))
        except rpq.RowLimitError as error:
            assert error.changes is not None
            outcomes.append((row_counts(error.changes), str(error)))
    assert outcomes[0] == outcomes[1]


def test_operators_go_with_the_last_query() -> None:
    engine = rpq.Engine(
        rpq.Query("SELECT ?y (COUNT(?x) AS ?n) { ?x <a> ?y } GROUP BY ?y", name="one", window=WINDOW),
        rpq.Query("SELECT ?n ?b { { SELECT ?b (COUNT(?c) AS ?n) { ?c <a> ?b } GROUP BY ?b } }", name="two", window=WINDOW),
        _capacity=4,
    )
    found = row_counts(engine.push_rows([("u", "v", "a", 1), ("w", "v", "a", 2)]))
    assert found == row_counts(
        [("one", "v", 1, 1, "+"), ("two", 1, "v", 1, "+"), ("one", "v", 1, 2, "-"), ("two", 1, "v", 2, "-")]
        + [("one", "v", 2, 2, "+"), ("two", 2, "v", 2, "+")]
    )
    engine.unregister("one")
    assert row_counts(engine.push_rows([("u", "w", "a", 3)])) == row_counts([("two", 1, "w", 3, "+")])
    engine.unregister("two")
    engine._check()
    assert engine.statistics().edges_live == engine.statistics().index_cells == 0
