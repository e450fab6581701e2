"""Answers that are reported when they have held for a time (`hold`), of queries of every kind.

semantics.md S19
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.engine.kinds.test_query_kinds import per_event
from tests.engine.test_time_division import QUERIES, batch_of, streams
from tests.reference_hold import HeldAnswers, Row
from tests.twins import collect, examples, parts_of, tiny

MORE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *QUERIES,
    ("(a|b)+", {"cost": "w"}, {}),
    ("(a|b)+", {"cost": "w"}, {"edges": "parallel"}),
    ("(a|b)+", {"select": ["source", "target", "length"], "order": "increasing"}, {"edges": "parallel"}),
    ("?x a ?y . ?y b ?z", {"select": ["x"]}, {}),
    ("?x a ?y . ?y b ?z", {"select": ["x", "z"], "distinct": True, "matching": "isomorphism"}, {}),
    ("?x ?e:a ?y . ?x ?f:b ?z", {"select": ["x", "e.w", "f.w"], "filter": "?e.w < 7"}, {}),
    ("ASK { ?x <a>/<b> ?y }", {}, {}),
    ("SELECT ?x ?y { ?x <a> ?y OPTIONAL { ?y <b> ?z } }", {}, {}),
    ("SELECT ?y { ?x <a> ?y } ORDER BY ?x LIMIT 2", {}, {}),
    ("REGISTER ISTREAM <r> AS SELECT ?x { ?x <a> ?y }", {}, {}),
    ("REGISTER DSTREAM <r> AS SELECT ?x { ?x <a> ?y }", {}, {}),
    ("MATCH (x)-[e:a]->(y) RETURN x, sum(e.w) AS n", {}, {}),
    ("MATCH (x)-[e:a WHERE e.w > 1]->(y)-[f:b]->(z) RETURN x, e.w, z", {"language": "cypher"}, {"edges": "parallel"}),
    ("MATCH ANY (x)-[:a]->+(y) RETURN x, y", {}, {}),
]


def content_of(query: rpq.Query) -> str:
    """The ops that a query reports."""
    return {"REGISTER ISTREAM": "+", "REGISTER DSTREAM": "-"}.get(query.expression[:16], "+-")


STATICS = pa.table({"source": ["u", "v"], "target": ["v", "w"], "label": ["a", "b"], "w": [4, 1]})


class Held:
    """A query with `hold`: what it has to tell, from the rows of the query without it in an engine of its own."""

    def __init__(self, text: str, options: dict[str, Any], engine: dict[str, Any], hold: int) -> None:
        self.query = rpq.Query(text, hold=hold, **options)
        options = {"semantics": "explicit", **options}
        self.kind = text
        if "REGISTER" in text:  # its reports with all changes
            text, options = text.partition("AS ")[2], {**options, "report": "slide"}
        plain = rpq.Query(text, **{**options, "name": self.query.name})
        self.has_reports = getattr(self.query, "report", "change") != "change"
        self.plain = rpq.Engine(plain, **engine)
        self.engine_options = engine
        self.begin()

    def begin(self) -> None:
        """Forget what was told."""
        self.answers = HeldAnswers(self.query.hold, has_reports=self.has_reports)
        self.rows: list[Row] = []

    def register(self) -> None:
        """Begin in mid-stream: what is there starts now, or with the next report."""
        self.begin()
        rows = [(*row, self.plain.time, "+") for row in map(tuple, self.plain.answers())]
        self.tell(self.answers.change(rows))

    def push(self, one: dict[str, Any]) -> None:
        """Apply one tuple."""
        time = one["timestamp"]
        boundaries = self.plain.advance(time) if self.plain.time is None or time > self.plain.time else ()
        self.tell(self.answers.advance(time, [tuple(row)[1:] for row in boundaries]))
        rows = self.plain.push(batch_of([one], self.plain))
        self.tell(self.answers.change([tuple(row)[1:] for row in rows]))

    def advance(self, time: int) -> None:
        """Move the time."""
        self.tell(self.answers.advance(time, [tuple(row)[1:] for row in self.plain.advance(time)]))

    def tell(self, rows: list[Row]) -> None:
        self.rows += [row for row in rows if row[-1] in content_of(self.query)]


@st.composite
def windows(draw: st.DrawFn, text: str, options: dict[str, Any]) -> rpq.Window | rpq.CountWindow | rpq.UnboundedWindow:
    kinds = ["time", "time", "time", "count", "unbounded"] if "WINDOW" not in text and "REGISTER" not in text else ["time"]
    kind = draw(st.sampled_from(["time"] if "report" in options else kinds))
    if kind == "count":
        return rpq.CountWindow(size=draw(st.integers(1, 9)), step=draw(st.integers(1, 3)))
    if kind == "unbounded":
        return rpq.UnboundedWindow()
    return rpq.Window(size=draw(st.sampled_from([5, 10, 17, 30])), slide=draw(st.sampled_from([1, 3, 7, 10])))


@st.composite
def held_queries(draw: st.DrawFn, most: int = 3) -> list[Held]:
    """Queries with `hold` for one engine."""
    first = draw(st.sampled_from(MORE))
    others = [one for one in MORE if one[2] == first[2]]
    made = []
    for number, (text, options, engine) in enumerate([first, *draw(st.lists(st.sampled_from(others), max_size=most - 1))]):
        options = {name: value for name, value in options.items() if name != "semantics"}
        if text.startswith("?x") and not engine and not options and draw(st.booleans()):
            options["report"] = draw(st.sampled_from(["slide", "time"]))
        window = draw(windows(text, options))
        hold = draw(st.sampled_from([1, 1, 2, 3, 5, 7, 10, 20, 45]))
        try:
            made.append(Held(text, {**options, "window": window, "name": f"q{number}"}, engine, hold))
        except rpq.QueryError:
            continue
    return made


def compare(engine: rpq.Engine, held: list[Held], found: dict[str, list[Row]]) -> None:
    """Compare rows, answers and figures."""
    for one in held:
        name = one.query.name
        assert per_event(found[name]) == per_event(one.rows)
        told = Counter(+one.answers.told)
        assert Counter(map(tuple, engine.answers(name))) == told
        assert Counter(map(tuple, (row for part in parts_of(engine, name, 2) for row in part))) == told
        figures = engine.statistics(name)
        assert (figures.rows_added, figures.rows_removed) == tuple(sum(row[-1] == op for row in one.rows) for op in "+-")
        assert figures.answers_live == told.total()
        if not one.has_reports:
            assert figures.rows_waiting == len(one.answers.waiting)


@examples(1000)
@given(
    held=held_queries(), tuples=streams(), size=st.integers(1, 8), threads=st.integers(1, 3),
    capacity=st.sampled_from([2, 256]), moves=st.sampled_from(["", "", "save", "advance", "collect", "register"]),
    plain=st.booleans(), statics=st.booleans(),
)  # fmt: skip
def test_rows_are_told_when_they_have_held(held, tuples, size, threads, capacity, moves, plain, statics):
    if not held:
        return
    options = {**held[0].engine_options, "threads": threads}
    queries = [one.query for one in held]
    beside = [rpq.Query("(a|b)+", window=rpq.Window(size=10, slide=3), name="beside")] if plain else []
    try:
        engine = tiny(capacity)(*queries, *beside, **options)
        for one in (engine, *(one.plain for one in held)) if statics and "edges" not in options else ():
            one.load_static(STATICS)
    except rpq.QueryError:  # windows that cannot be together, or static edges beside these
        return
    found: dict[str, list[Row]] = {one.name: [] for one in queries}

    def take(changes: rpq.Changes) -> None:
        assert [row.timestamp for row in changes.rows()] == sorted(row.timestamp for row in changes.rows())
        for row in changes.rows():
            if row[0] != "beside":
                found[row[0]].append(tuple(row)[1:])

    for begin in range(0, len(tuples), size):
        batch = tuples[begin : begin + size]
        for one in held:
            for row in batch:
                one.push(row)
        take(engine.push(batch_of(batch, engine)))
        engine._check()
        compare(engine, held, found)
        if moves == "advance":
            time = engine.time + begin % 23
            for one in held:
                one.advance(time)
            take(engine.advance(time))
        elif moves == "collect":
            collect(engine)
        elif moves == "register" and not held[0].has_reports and begin % 3 == 0:
            name = held[0].query.name
            engine.unregister(name)
            try:
                changes = engine.register(queries[0])
            except rpq.RegistrationError:  # no other query keeps its edges
                held, queries = held[1:], queries[1:]
                if not held:
                    return
            else:
                assert not changes.rows()
                held[0].register()
                found[name] = []
        elif moves == "save":
            with tempfile.TemporaryDirectory() as folder:
                engine.save(Path(folder) / "state")
                engine = type(engine).restore(Path(folder) / "state", threads=threads)
        compare(engine, held, found)
    for one in held:
        event(f"{one.kind}: {'told' if one.rows else 'nothing'}")


@examples(200)
@given(held=held_queries(most=1), tuples=streams(), shares=st.integers(2, 3))
def test_shares_divide_the_rows(held, tuples, shares):
    for one in held:
        found: list[Row] = []
        for share in range(shares):
            engine = rpq.Engine(one.query, share=(share, shares), **one.engine_options)
            found += [tuple(row)[1:] for row in engine.push(batch_of(tuples, engine)).rows()]
        for row in tuples:
            one.push(row)
        assert Counter(found) == Counter(one.rows)


# --- cases by hand -----------------------------------------------------------------------------------------------

W, BETA = 20, 10
TICK = ("t", "t", "tick", 0)
CASES: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]], list[str]]] = {  # options, tuples, rows
    "a unit before its time": ({"hold": 5}, [("x", "y", "a", 1), ("x", "y", "a", 5, "-"), ("t", "t", "a", 9)], []),
    "exactly at its time": ({"hold": 5}, [("x", "y", "a", 1), ("x", "y", "a", 6, "-")], ["+xy@6", "-xy@6"]),
    "at a slide boundary": ({"hold": 15}, [("x", "y", "a", 5), ("t", "u", "a", 30)], ["+xy@20", "-xy@30"]),
    "before a slide boundary": (  # it comes at 15 by a late edge, and leaves at 30
        {"hold": 15}, [("t", "t", "b", 15), ("x", "y", "a", 9), ("t", "t", "b", 40)], [],
    ),
    "a late edge": ({"hold": 5}, [("t", "t", "b", 8), ("x", "y", "a", 2), ("t", "t", "b", 13)], ["+xy@13"]),
    "back at the same time": (
        {"hold": 5},
        [("x", "y", "a", 1), ("x", "y", "a", 3, "-"), ("x", "y", "a", 3), ("t", "t", "b", 7), ("t", "t", "b", 8)],
        ["+xy@8"],
    ),
    "back at a boundary": (  # told, and away and back at 30
        {"hold": 5}, [("x", "y", "a", 1), ("x", "y", "a", 30), ("t", "t", "b", 34), ("t", "t", "b", 36)],
        ["+xy@6", "-xy@30", "+xy@35"],
    ),
    "longer than the window": ({"hold": 50}, [("x", "y", "a", 1), ("t", "t", "b", 90)], []),
    "longer than the window, with a new edge in time": (
        {"hold": 50}, [("x", "y", "a", time) for time in range(1, 70, 9)], ["+xy@51"],
    ),
    "several in one gap": (
        {"hold": 2}, [("x", "y", "a", 1), ("u", "v", "a", 2), ("t", "t", "b", 60)], ["+xy@3", "+uv@4", "-uv@30", "-xy@30"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("pieces", ["one by one", "a batch", "restored"])
@pytest.mark.parametrize("case", CASES)
def test_cases_by_hand(case, pieces, tmp_path):
    options, tuples, expected = CASES[case]
    query = rpq.Query("a", window=rpq.Window(size=W, slide=BETA), **options)
    engine, rows = rpq.Engine(query), []
    for part in [tuples] if pieces == "a batch" else [[one] for one in tuples]:
        rows += engine.push_rows(part).rows()
        if pieces == "restored":
            engine.save(tmp_path / "state")
            engine = rpq.Engine.restore(tmp_path / "state")
    found = [f"{row.op}{row.source}{row.target}@{row.timestamp}" for row in rows if row.source != "t"]
    assert found == expected or sorted(found) == sorted(expected)


def test_of_equal_rows_the_youngest_breaks():
    query = rpq.Query("?x a ?y", window=rpq.Window(size=W, slide=BETA), select=["x"], hold=5)
    engine = rpq.Engine(query)
    assert not engine.push_rows([("x", "y", "a", 1), ("x", "z", "a", 4), ("x", "y", "a", 5, "-")]).rows()
    assert [tuple(row)[1:] for row in engine.push_rows([("t", "u", "b", 9)]).rows()] == [("x", 6, "+")]
    assert [tuple(row)[1:] for row in engine.push_rows([("x", "z", "a", 9, "-")]).rows()] == [("x", 9, "-")]


def test_an_aggregate_that_changes_is_another_row():
    query = rpq.Query("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }", window=rpq.Window(size=W, slide=BETA), hold=3)
    engine = rpq.Engine(query)
    rows = engine.push_rows([("x", "y", "a", 1), ("x", "z", "a", 3), ("t", "u", "b", 6), ("x", "w", "a", 7)]).rows()
    assert [tuple(row)[1:] for row in rows] == [(2, 6, "+"), (2, 7, "-")]
    assert "hold         3" in str(engine.explain())


def test_records_of_nodes_break_rows_and_move_the_time():
    engine = rpq.Engine(rpq.Query("a/@[risk > 3]", window=rpq.Window(size=W, slide=BETA), hold=5))
    engine.push_rows([("x", "y", "a", 1)])
    records = ((4, 2), (1, 5), (4, 6), (5, 11))
    changes = [engine.set_node("y", properties={"risk": risk}, timestamp=time) for risk, time in records]
    assert [[tuple(row)[1:] for row in one.rows()] for one in changes] == [[], [], [], [("x", "y", 11, "+")]]


def test_with_reports_a_row_is_told_like_a_report():
    query = rpq.Query("?x a ?y", window=rpq.Window(size=W, slide=BETA), report="slide", hold=10)
    engine = rpq.Engine(query)
    tuples = [("x", "y", "a", 1), ("u", "v", "a", 2), ("t", "t", "b", 15), ("u", "v", "a", 16, "-")]
    assert not engine.push_rows(tuples).rows()
    assert engine.statistics().rows_waiting == 3  # two since the report of 10, and a row - until that of 20
    assert not engine.push_rows([("t", "t", "b", 20)]).rows()
    assert [tuple(row)[1:] for row in engine.flush().rows()] == [("x", "y", 20, "+")]
    assert [tuple(row)[1:] for row in engine.push_rows([("t", "t", "b", 21)]).rows()] == [("x", "y", 20, "+")]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["a/b", "?p a ?q . ?q b ?r", "MATCH (p)-[:a]->()-[:b]->(r) RETURN DISTINCT p, r"])
def test_witnesses_are_those_of_the_moment_at_which_a_row_is_told(text, threads):
    tuples = [
        ("x", "y", "a", 1), ("y", "z", "b", 2), ("x", "w", "a", 4), ("w", "z", "b", 4), ("y", "z", "b", 5, "-"),
        ("w", "z", "b", 9, "-"), ("x", "y", "a", 11), ("y", "z", "b", 12), ("t", "t", "c", 25),
    ]  # fmt: skip
    query = rpq.Query(text, window=rpq.Window(size=10, slide=5), hold=5)
    for parts in [tuples], [[one] for one in tuples]:
        engine = rpq.Engine(query, threads=threads, witness=True)
        paths = [path for part in parts for path in engine.push_rows(part).to_arrow(witness=True)["path"].to_pylist()]
        assert [('"w"' in path, '"y"' in path) for path in paths if path] == [(True, False), (False, True)]


@pytest.mark.parametrize(("hold", "time"), [("6h", dt.datetime(2024, 1, 2, 6)), ("2d", dt.date(2024, 1, 4))])
def test_rows_of_dates_have_times_where_the_moment_is_one(hold, time):
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size="9d", slide="1d"), hold=hold))
    rows = engine.push_rows([("x", "y", "a", dt.date(2024, 1, 2)), ("t", "t", "b", dt.date(2024, 1, 5))]).rows()
    assert [row.timestamp for row in rows] == [time]


def test_what_is_refused():
    window = rpq.Window(size=W, slide=BETA)
    for options, message in (
        ({"hold": 0}, "longer than 0"),
        ({"hold": -1}, "from 0 on"),
        ({"hold": "soon"}, "hold"),
        ({"hold": 5, "semantics": "implicit"}, "explicit"),
    ):
        with pytest.raises(rpq.QueryError, match=message):
            rpq.Query("a", window=window, **options)
    with pytest.raises(rpq.QueryError, match="RSTREAM"):
        rpq.Query("REGISTER RSTREAM <r> AS SELECT ?x { ?x <a> ?y }", window=window, hold=5)
    with pytest.raises(rpq.QueryError, match="hold"):
        rpq.Engine(rpq.Query("a", window=rpq.UnboundedWindow(), hold=5), events="alone")
