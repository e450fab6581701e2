"""Triples with a variable as predicate over many labels, which come and go, against the oracle; and by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from tests.operators.relational.sparql_twins import Tuple, Twins, query_of, warnings_of_rdflib
from tests.reference_sparql_parser import parse
from tests.reference_sparql_stream import SparqlQuestion, question
from tests.reference_sparql_syntax import write
from tests.strategies.pattern_strategies import any_window
from tests.twins import examples, tiny

pytestmark = warnings_of_rdflib

LABELS = [f"urn:l{number}" for number in range(40)]
VERTICES = ["urn:x", "urn:y", "urn:z", *LABELS[:3]]
"""Some labels are vertices too."""
BODIES = [
    "?s ?p ?o",
    "?s ?p ?s",
    "?s ?s ?o",
    "<urn:x> ?p ?o",
    "?s ?p <urn:l1>",
    "<urn:x> ?p <urn:y>",
    "?s ?p ?o . ?o ?p ?s",
    "?s ?p ?o . ?o ?q ?r FILTER(?p != ?q)",
    "?s ?p ?o . ?p ?q ?r",
    "?s ?p ?o . ?s <urn:l1> ?r",
    "?s ?p ?o . ?o (<urn:l0>|<urn:l2>)+ ?r",
    "?s ?p ?o OPTIONAL { ?o ?p ?r }",
    "?s ?p ?o FILTER NOT EXISTS { ?o ?q ?s }",
    "WINDOW <urn:w> { ?s ?p ?o } ?o ?p ?r",
    "WINDOW <urn:w> { ?s ?p ?o . ?o ?q ?s } MINUS { ?s ?q ?r }",
    "VALUES ?p { <urn:l1> <urn:l2> <urn:l30> } ?s ?p ?o",
    "{ ?s ?p ?o } UNION { WINDOW <urn:w> { ?o ?p ?s } }",
    "?s ?p ?o . ?o !() ?r",
    "?s !() ?o OPTIONAL { ?o ?p ?s }",
    "?s !() ?o FILTER NOT EXISTS { ?o !()? ?s }",
    "?s ^!() ?o MINUS { ?s ?p ?s }",
    "WINDOW <urn:w> { ?s !() ?s } ?s ?p ?o",
    "?s !() ?o . ?o !() ?r . ?r ?p ?s",
    "?s ?p ?o FILTER(?s != ?o) { <urn:x> !() ?o } UNION { ?o !() ?s . ?r <urn:l1> ?q }",
]
HEADS = [
    "SELECT ?p",
    "SELECT ?s ?p ?o",
    "SELECT ?o",
    "SELECT DISTINCT ?p",
    "SELECT (COUNT(?p) AS ?n)",
    "ASK",
    "CONSTRUCT { ?o ?p ?s }",
]


@st.composite
def questions(draw: st.DrawFn, name: str = "q") -> SparqlQuestion:
    """A query with variables as predicates over windows of every kind."""
    body = draw(st.sampled_from(BODIES))
    query = parse(f"{draw(st.sampled_from(HEADS))} FROM NAMED WINDOW <urn:w> [RANGE 5] WHERE {{ {body} }}")
    query = replace(query, windows={"urn:w": draw(any_window())} if "WINDOW" in body else {})
    default = draw(any_window().filter(lambda window: window.stream is None))
    return question(query, default, name=name)


@st.composite
def streams(draw: st.DrawFn) -> list[Tuple]:
    """Tuples over many labels, of which a few are used at a time; in order and late, with deletes, some of a stream."""
    time, tuples = 20, []
    vertices = st.sampled_from(VERTICES)
    for first in draw(st.lists(st.integers(0, len(LABELS) - 6), min_size=2, max_size=4)):
        for _ in range(draw(st.integers(2, 8))):
            time += draw(st.sampled_from([0, 0, 1, 1, 2, 7]))
            label = LABELS[first + draw(st.integers(0, 5))]
            late, op = draw(st.sampled_from([0, 0, 0, 2, 9])), draw(st.sampled_from("+++-"))
            if op == "-" and tuples and draw(st.booleans()):
                source, target, label, *_ = draw(st.sampled_from(tuples))
            else:
                source, target = draw(vertices), draw(vertices)
            tuples.append((source, target, label, time - late, op, draw(st.sampled_from([None, None, "s"]))))
    return tuples


static_edges = st.lists(
    st.tuples(st.sampled_from(VERTICES), st.sampled_from(LABELS), st.sampled_from(VERTICES)), max_size=4, unique=True
)


@examples(30)
@given(questions(), questions("r"), streams(), st.integers(1, 9), static_edges, st.data())
def test_rows_over_many_labels_are_those_of_the_oracle(question, other, tuples, size, static, data):
    note(f"{write(question.query)} over {question.window}; {write(other.query)} over {other.window}")
    twins = Twins(question, static=static, capacity=1, threads=data.draw(st.sampled_from([1, 1, 2])))
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        match data.draw(st.sampled_from(["", "", "restore", "come and go"])):
            case "restore":
                twins.restore()
            case "come and go" if other.name in twins.questions:
                twins.engine.unregister(other.name)
                twins.reference.unregister(other.name)
                del twins.questions[other.name]
            case "come and go":
                twins.register(other, data.draw(st.sampled_from(["window", "empty"])))
    twins.advance(tuples[-1][3] + 30)
    twins.compare_counts()


@examples(20)
@given(questions(), streams(), st.integers(0, 20))
def test_shares_have_the_rows_over_many_labels_together(question, tuples, place):
    whole = tiny(2)(query_of(question), time_unit="s")
    shares = [tiny(2)(query_of(question), time_unit="s", share=(number, 3)) for number in range(3)]
    names = ("source", "target", "label", "timestamp", "op", "stream")
    for some in filter(None, (tuples[:place], tuples[place:])):
        batch = dict(zip(names, map(list, zip(*some, strict=True)), strict=True))
        expected = Counter(whole.push(batch).rows())
        assert sum((Counter(one.push(batch).rows()) for one in shares), Counter()) == expected


def rows_of(query: str, changes: rpq.Changes) -> list:
    return [row for row in changes.rows() if row.query == query]


WINDOW = rpq.Window(size=3_000, slide=1_000)


def test_thousands_of_labels_are_one_relation():
    everything = rpq.Query("SELECT ?s ?p ?o { ?s ?p ?o }", window=WINDOW, semantics="explicit", name="all")
    engine = rpq.Engine(everything, rpq.Query("SELECT ?s { ?s <l7> ?o }", window=WINDOW, name="one"))
    expected: Counter = Counter()
    for begin in range(0, 6_000, 1_500):
        numbers = range(begin, begin + 1_500)
        batch = {
            "source": [f"s{number % 50}" for number in numbers],
            "target": [f"o{number % 70}" for number in numbers],
            "label": [f"l{number * 7 % 4_000}" for number in numbers],
            "timestamp": [*numbers],
        }
        for row in rows_of("all", engine.push(batch)):
            expected[(row.s, row.p, row.o)] += 1 if row.op == "+" else -1
        assert +expected == Counter(engine.answers("all"))
    assert len({row[1] for row in engine.answers("all")}) > 2_000
    engine._check()


def test_a_relation_of_all_labels_is_there_only_while_a_query_reads_it():
    engine = rpq.Engine(rpq.Query("SELECT ?s { ?s <a> ?o . ?o <b> ?r }", window=WINDOW, name="others"))
    everything = rpq.Query("SELECT ?p { ?s ?p ?o }", window=WINDOW, name="all")
    tuples = [("x", "y", label, time) for time, label in enumerate("abcd")]
    engine.push_rows(tuples)
    stored = engine.statistics().edges_live
    for _ in range(3):
        engine.register(everything, start="empty")
        assert [row.p for row in rows_of("all", engine.push_rows([("x", "z", "c", 5)]))] == ["c"]
        assert engine.statistics().edges_live == stored + 1
        engine.unregister("all")
        assert engine.statistics().edges_live == stored
    # A relation whose lists are kept is not used again for labels, nor the other way round.
    engine.register(everything, start="empty")
    engine.unregister("others")
    engine.register(rpq.Query("SELECT ?s ?p ?r { ?s ?p ?o . ?o ?p ?r }", window=WINDOW, name="more"), start="empty")
    engine._check()
    assert [tuple(row)[1:4] for row in rows_of("more", engine.push_rows([("z", "x", "c", 6)]))] == []
    assert [tuple(row)[1:4] for row in rows_of("more", engine.push_rows([("x", "w", "c", 7)]))] == [("z", "c", "w")]
    engine._check()


def test_pairs_of_any_label_are_those_of_the_relation_of_all_labels():
    #   x →a y, x →b y and z →a y: two pairs, three edges; one of the two edges of a pair takes nothing with it
    texts = {"all": "?s ?p ?o", "pairs": "?s !() ?o", "turned": "?o ^!() ?s", "both": "?s !()? ?o . ?o ?p ?r"}
    engine = rpq.Engine(*(rpq.Query(f"SELECT ?s ?o {{ {body} }}", window=WINDOW, name=name) for name, body in texts.items()))
    engine.push_rows([("x", "y", "a", 0), ("x", "y", "b", 0), ("z", "y", "a", 0)])
    assert sorted(engine.answers("all")) == [("x", "y"), ("x", "y"), ("z", "y")]
    assert sorted(engine.answers("pairs")) == sorted(engine.answers("turned")) == [("x", "y"), ("z", "y")]
    rows = engine.push_rows([("x", "y", "a", 1, "-"), ("z", "y", "a", 1, "-")]).rows()
    assert [(row.query, row.s, row.o) for row in rows if row.query in ("pairs", "turned")] == [
        ("pairs", "z", "y"),
        ("turned", "z", "y"),
    ]
    engine._check()


def test_an_id_of_a_label_that_is_given_to_another_label_does_not_confuse_edges():
    query = rpq.Query("SELECT ?p { ?s ?p ?o }", window=rpq.Window(size=10, slide=1), semantics="explicit", name="q")
    engine = tiny(1)(query)
    for time in range(0, 200, 4):
        rows = engine.push_rows([("x", "y", f"l{time}", time), ("x", "y", f"k{time}", time + 1)]).rows()
        assert [row.p for row in rows if row.op == "+"] == [f"l{time}", f"k{time}"]
        inside = {f"{name}{begin}" for begin in range(max(0, time - 8), time + 1, 4) for name in "lk"}
        assert {row[0] for row in engine.answers("q")} == inside
        engine._check()
