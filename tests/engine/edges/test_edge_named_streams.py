"""Conditions on edges and edge variables beside named streams: the rows and counts of both are those of their oracles.

semantics.md S14
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges import edge_streams, test_edge_variables
from tests.engine.edges.edge_streams import apply, as_batch, drawn_tuples
from tests.reference import COUNTS
from tests.reference_pattern_stream import PatternQuestion, PatternReference, Window
from tests.reference_patterns import ALL
from tests.reference_properties import PropertyEngine
from tests.stream.test_windowed_streams import questions, windowed_pattern
from tests.twins import collect, examples

ELSEWHERE = rpq.Query("elsewhere[n > 1]", window=rpq.Window(size=1, slide=1))
"""A query of an engine that reads properties; no edge of these streams has its label."""


class Accepting(PatternQuestion):
    """A question for which no edge is passed by, as none is where edges have properties."""

    def accepts(self, label):
        return {ALL} if super().accepts(label) else set()


def without_counts(question: PatternQuestion) -> Accepting:
    """Return a question with windows of time in place of count windows."""

    def of_time(window: Window | None) -> Window | None:
        return replace(window, kind="time") if window is not None and window.kind == "count" else window

    given = {each.name: getattr(question, each.name) for each in fields(question)}
    windows = {name: of_time(window) for name, window in question.windows.items()}
    return Accepting(**given | {"window": of_time(question.window), "windows": windows})


class Twins:
    """An engine with queries of both kinds, and an oracle of each."""

    def __init__(self, data, identity: str, described, rows_of) -> None:
        draw, numbers = data.draw, range(data.draw(st.integers(0, 2)))
        self.merged = [draw(described(f"q{number}")) for number in numbers]
        self.named = [without_counts(draw(questions(f"s{number}"))) for number in range(draw(st.integers(1, 2)))]
        self.identity, self.rows_of_merged = identity, rows_of
        self.properties = PropertyEngine(*(one.oracle for one in self.merged), identity=identity)
        self.patterns = PatternReference(*self.named)
        note([one.query for one in self.merged])
        note([windowed_pattern(question) for question in self.named])
        self.engine = rpq.Engine(
            *map(windowed_pattern, self.named),
            *(one.query for one in self.merged),
            ELSEWHERE,
            edges=identity,
            threads=draw(st.sampled_from((1, 1, 2))),
            _capacity=draw(st.sampled_from((1, 2, 16))),
        )

    def push(self, rows: list[tuple], streams: list[str | None]) -> None:
        """Push tuples that have these streams."""
        expected: Counter = Counter()
        for row, stream in zip(rows, streams, strict=True):
            source, label, target, timestamp, _, op, _ = row
            expected.update(apply(self.properties, row))
            expected.update(map(tuple, self.patterns.push(source, target, label, timestamp, op, stream)))
        self.compare(self.engine.push({**as_batch(rows, arrow=False), "stream": streams}), expected)

    def advance(self, time: int) -> None:
        expected = Counter(self.properties.advance(time)) + Counter(map(tuple, self.patterns.advance(time)))
        self.compare(self.engine.advance(time), expected)

    def restore(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "engine.state"
            self.engine.save(path)
            self.engine = rpq.Engine.restore(path)
        self.compare(None, Counter())

    def compare(self, changes: rpq.Changes | None, expected: Counter) -> None:
        found: Counter = Counter()
        if changes is not None:
            names = {question.name for question in self.named}
            found.update((one[0], tuple(one[1:-2]), one[-2], one[-1]) for one in changes.rows() if one[0] in names)
            found += self.rows_of_merged(changes, self.merged)
        assert found == Counter({tuple(row): count for row, count in expected.items()})
        self.engine._check()
        for one in self.merged:
            name = one.query.name
            wanted = self.properties.counts(name)
            assert {count: self.counts(name)[count] for count in wanted} == wanted
        for question in self.named:
            name = question.name
            assert self.counts(name) == self.in_identity(self.patterns.counts(name))
            assert Counter(self.engine.answers(name)) == self.patterns.answer(name)
        if not self.merged:
            assert self.counts() == self.in_identity(self.patterns.counts())

    def counts(self, name: str | None = None) -> dict[str, int]:
        figures = self.engine.statistics(name)
        return {count: getattr(figures, count) for count in COUNTS}

    def in_identity(self, counts: dict[str, int]) -> dict[str, int]:
        """Return counts of an oracle whose inserts replace edges: where they do not, each is an edge of its own."""
        counts = {count: counts[count] for count in COUNTS}
        if self.identity == "parallel":
            counts["inserted"], counts["refreshed"] = counts["inserted"] + counts["refreshed"], 0
        return counts


def described_variables(identity: str):
    return lambda name: test_edge_variables.described(name, identity)


KINDS = {
    "conditions": (lambda identity: edge_streams.described, edge_streams.rows_of),
    "variables": (described_variables, test_edge_variables.rows_of),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(data=st.data())
def test_random_streams(kind, data):
    identity = data.draw(st.sampled_from(("triple", "parallel")))
    described, rows_of = KINDS[kind]
    twins = Twins(data, identity, described(identity), rows_of)
    time = 5
    for _ in range(data.draw(st.integers(1, 5))):
        rows = drawn_tuples(data, identity, time, most=6)
        streams = data.draw(st.lists(st.sampled_from((None, "s", "t")), min_size=len(rows), max_size=len(rows)))
        note((rows, streams))
        time = max(time, *(row[3] for row in rows))
        twins.push(rows, streams)
        match data.draw(st.sampled_from(("", "", "restore", "advance", "collect"))):
            case "restore":
                twins.restore()
            case "advance":
                time += data.draw(st.sampled_from((0, 1, 5)))
                twins.advance(time)
            case "collect":
                collect(twins.engine)
                twins.compare(None, Counter())


# --- by hand ----------------------------------------------------------------------------------------------------------

WINDOW = rpq.Window(size=10, slide=1)
LARGE = rpq.Query("pays[amount > 1000]", window=WINDOW, name="large")


def on(stream: str, name: str = "named", extent: str = "RANGE 10 STEP 1") -> rpq.Query:
    text = f"SELECT ?x ?y FROM NAMED WINDOW <w> ON <{stream}> [{extent}] WHERE {{ WINDOW <w> {{ ?x <pays> ?y }} }}"
    return rpq.Query(text, name=name)


def pay(engine: rpq.Engine, time: int, stream: str | None, amount: int | None = None, *, op: str = "+") -> list[str]:
    """Return the rows of a tuple from x to y, each as a query and an op."""
    tuple_ = {"source": ["x"], "target": ["y"], "label": ["pays"], "timestamp": [time], "op": [op]}
    return sorted(row[0] + row[-1] for row in engine.push(**tuple_, stream=[stream], amount=[amount]).rows())


@pytest.mark.parametrize("identity", ["triple", "parallel"])
def test_a_delete_in_a_stream_takes_the_edge_from_it_and_from_the_merged_stream(identity):
    engine = rpq.Engine(on("s"), on("t", "other"), LARGE, edges=identity)
    assert pay(engine, 1, "s", 1500) == ["large+", "named+"]
    assert pay(engine, 2, "t", 1200) == ["other+"]
    assert pay(engine, 3, "s", op="-") == ["large-", "named-"]
    assert pay(engine, 4, None, 1300) == ["large+"]
    assert pay(engine, 5, "t", 7) == (["large-"] if identity == "triple" else [])
    assert [engine.statistics(name).tuples for name in ("named", "other", "large")] == [5, 5, 5]
    assert [engine.statistics(name).irrelevant for name in ("named", "other", "large")] == [3, 3, 0]


def test_a_condition_comes_to_an_engine_with_a_query_on_a_stream():
    engine = rpq.Engine(on("s"))
    engine.register(LARGE)
    assert pay(engine, 1, "s", 1500) == ["large+", "named+"]
    engine.register(on("s", "again"))
    engine.unregister("large")
    assert pay(engine, 2, "s", op="-") == ["again-", "named-"]


def test_several_windows_of_the_merged_stream_beside_edges_with_ids():
    """An edge with an id is replaced in all windows at once, also one that only the longer window holds."""
    text = """SELECT ?x ?z FROM NAMED WINDOW <short> [RANGE 3 STEP 1] FROM NAMED WINDOW <long> [RANGE 20 STEP 1]
    WHERE { WINDOW <long> { ?x <pays> ?y } WINDOW <short> { ?y <owns> ?z } }"""
    engine = rpq.Engine(rpq.Query(text, name="q"), edges="id")
    engine.insert("x", "y", "pays", 1, edge="p")
    assert engine.insert("y", "z", "owns", 6, edge="o").added == 1
    assert engine.insert("v", "y", "pays", 7, edge="p").rows() == [("q", "x", "z", 7, "-"), ("q", "v", "z", 7, "+")]
    assert engine.statistics("q").refreshed == 1
    engine.advance(9)
    assert not engine.answers("q")


@pytest.mark.parametrize(
    ("queries", "options", "message"),
    [
        ([on("s")], {"edges": "id"}, "in named streams (ON, windows in SPARQL) edges have no ids"),
        ([on("s", extent="COUNT 3"), LARGE], {}, "named streams need windows of time"),
        ([on("s"), replace(LARGE, window=rpq.CountWindow(size=3))], {}, "another query has another window"),
    ],
    ids=["ids", "count window", "beside a count window"],
)
def test_what_does_not_go_with_named_streams_is_refused(queries, options, message):
    with pytest.raises(rpq.QueryError, match=re.escape(message)):
        rpq.Engine(*queries, **options)


def test_static_edges_that_edges_of_the_window_hide_are_refused_beside_a_named_stream():
    engine = rpq.Engine(on("s"), LARGE)
    with pytest.raises(rpq.QueryError, match=r"'named' with static edges: .*cannot be combined with named streams \(ON\)"):
        engine.load_static({"source": ["x"], "target": ["y"], "label": ["pays"], "amount": [1500]})
    assert pay(engine, 1, "s", 1500) == ["large+", "named+"]
