"""Edges that no query accepts are passed by: what is stored and counted, and what can be registered afterwards."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import PatternTwins, query_of, streams
from tests.operators.relational.sparql_twins import Twins, warnings_of_rdflib
from tests.reference_pattern_stream import PatternQuestion, Window
from tests.reference_patterns import Atom, Constant, Pattern, Variable
from tests.reference_sparql_stream import question
from tests.twins import collect, examples, tiny


@st.composite
def questions(draw: st.DrawFn, name: str = "q") -> PatternQuestion:
    """Patterns most of whose atoms have a constant or join a variable with itself, over windows without a count."""
    x, y = Variable("x"), Variable("y")
    constants = [Constant("0"), Constant("1"), Constant('"0"')]
    pairs = [(x, x), (x, y), (y, x), *itertools.product([x], constants), *itertools.product(constants, [x, *constants])]
    atom = st.builds(
        lambda ends, expression: Atom(ends[0], expression, ends[1]),
        st.sampled_from(pairs),
        st.sampled_from(["a", "b", "^a", "a", "b", "a/b*", "a/b", "a*/^b", "!(c)", "(a|^b)/a?", "a{2}/b"]),
    )
    first = Atom(x, draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(constants)))
    window = draw(st.sampled_from([Window(kind="unbounded"), Window(size=9, slide=4), Window(size=30, slide=5)]))
    atoms = tuple(draw(st.permutations([first, *draw(st.lists(atom, max_size=2))])))
    return PatternQuestion(
        name=name,
        pattern=Pattern(atoms=atoms, paths=draw(st.sampled_from(["walk", "walk", "simple"]))),
        window=window,
        semantics=draw(st.sampled_from(["implicit", "explicit"])),
    )


STATIC = st.lists(st.tuples(st.sampled_from("012"), st.sampled_from("ab"), st.sampled_from("012")), max_size=3)


@given(data=st.data(), question=questions(), other=questions("other"), static=STATIC, tuples=streams)
@examples(60)
def test_the_oracle_agrees_through_queries_that_come_and_go(data, question, other, static, tuples):
    twins = PatternTwins(question, other, capacity=data.draw(st.sampled_from([1, 4])), static=static)
    twins.live_through(data.draw, [question, other, data.draw(questions())], tuples)


@given(data=st.data(), question=questions(), tuples=streams)
@examples(40)
def test_rows_do_not_depend_on_what_others_accept_nor_on_batches_and_shares(data, question, tuples):
    query = query_of(replace(question, semantics="explicit"))
    everything = rpq.Query("?x a ?y . ?x b ?z", name="everything", window=rpq.UnboundedWindow())
    alone, beside, single = tiny(2)(query), tiny(2)(query, everything), tiny(2)(query)
    shares = [tiny(2)(query, share=(number, 2)) for number in range(2)]
    for begin in range(0, len(tuples), 7):
        batch = tuples[begin : begin + 7]
        rows = Counter(alone.push_rows(batch).rows())
        assert rows == Counter(row for row in beside.push_rows(batch).rows() if row.query == query.name)
        assert rows == sum((Counter(share.push_rows(batch).rows()) for share in shares), Counter())
        one_by_one: Counter = Counter()
        for source, target, label, time, op in batch:
            change = single.insert if op == "+" else single.delete
            one_by_one += Counter(change(source, target, label, time).rows())
        assert rows == one_by_one
        for engine in (alone, beside, single, *shares):
            engine._check()
    figures = [engine.statistics() for engine in (alone, single, *shares)]
    for count in ("inserted", "refreshed", "deleted", "absent_deletes", "late", "passed_by", "irrelevant", "edges_live"):
        assert len({getattr(one, count) for one in figures}) == 1, count
    assert beside.statistics().passed_by == 0


@pytest.mark.parametrize("vertices", [2, 5, 9])
def test_an_edge_that_is_passed_by_makes_no_vertex_a_root(vertices):
    x, y = Variable("x"), Variable("y")
    loops = Pattern(atoms=(Atom(x, "b", x), Atom(x, "a+", y)))
    twins = PatternTwins(PatternQuestion(name="q", pattern=loops, window=Window(size=99, slide=1)))
    ring = [(str(i), str((i + 1) % vertices), "a", 1, "+") for i in range(vertices)]
    twins.push(ring)
    twins.push([("1", "0", "b", 2, "+"), ("0", "0", "b", 2, "+")])
    twins.push(ring)


@pytest.mark.parametrize(
    ("vertices", "text"),
    [(int, "?x a 7 . ?x b 8"), (str, "7 ^a ?x . 8 ^b ?x"), (str, "SELECT ?x { ?x <a> <7> . ?x <b> <8> }")],
)
def test_what_is_held_is_bounded_by_what_is_accepted(vertices, text):
    engine = rpq.Engine(rpq.Query(text, name="q", window=rpq.UnboundedWindow()))
    for begin in range(0, 20_000, 5_000):
        numbers = np.arange(begin, begin + 5_000)
        ends = [pa.array(list(map(vertices, ids.tolist()))) for ids in (numbers + 10_000, numbers % 1000)]
        engine.push({"source": ends[0], "target": ends[1], "label": ["a"] * 5_000, "timestamp": numbers})
    figures = engine.statistics()
    assert (figures.inserted, figures.passed_by, figures.edges_live, figures.vertices_live) == (20, 19_980, 20, 21)
    engine._check()


@pytest.mark.parametrize(("window", "threads"), [(rpq.Window(size=10**6, slide=10), 2)])
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("h7 ^a/b ?x", 303),  # three edges to h7, and all of b
        ("?x (a|b) h7", 6),
        ("?x a+ h7", 300),
        ("SELECT ?x ?p { ?x ?p <h7> }", 6),
        ("SELECT ?x { ?x !(<a>|<c>) <h7> }", 3),
    ],
)
def test_paths_store_what_can_begin_or_end_at_their_constants(text, stored, window, threads):
    tuples = [(f"s{i}", f"h{i % 100}", label, i) for i in range(300) for label in "ab"]
    everything = rpq.Query("?x a ?y . ?x b ?z", name="everything", window=window)
    query = rpq.Query(text, name="q", window=window, semantics="explicit")
    rows = []
    for others in ([], [everything]):
        engine = tiny(4)(query, *others, threads=threads)
        rows.append([row for row in engine.push_rows(tuples).rows() if row.query == "q"])
        if not others:
            figures = engine.statistics()
            assert (figures.edges_live, figures.passed_by + figures.irrelevant) == (stored, 600 - stored)
        engine._check()
        assert engine.push_rows([(*tuple_[:3], 1_000, "-") for tuple_ in tuples]).removed >= len(rows[-1])
        assert engine.statistics().edges_live == 0
        engine._check()
    assert sorted(rows[0]) == sorted(rows[1])


def test_explanations_say_what_is_stored():
    window = rpq.UnboundedWindow()
    engine = rpq.Engine(rpq.Query("?x a h7 . ?x b ?y", name="q", window=window))
    engine.insert("x", "h7", "a", 1)
    assert "a: read by atom 1, 1 edge; only edges from any vertex to h7 are stored" in str(engine.explain())
    engine.register(rpq.Query("SELECT ?x { ?x <a> <h8> }", name="s", window=window), start="empty")
    assert engine.explain("q").relations[0].accepts == ("any vertex to h7", "any vertex to h8")
    assert engine.explain("s").stored == (("a", ("any vertex to h7", "any vertex to h8")),)
    engine.register(rpq.Query("?x a+ ?y", name="path", window=window), start="empty")
    assert engine.explain("q").relations[0].accepts == engine.explain("s").stored == ()


def test_states_remember_what_was_passed_by(tmp_path):
    def query(name: str, text: str = "?x a h7") -> rpq.Query:
        return rpq.Query(text, name=name, window=rpq.UnboundedWindow())

    engine = rpq.Engine(query("q"), query("gone", "?x a h8"))
    engine.push_rows([("x", "h7", "a", 1), ("y", "h8", "a", 2), ("z", "h9", "a", 3)])
    engine.unregister("gone")
    engine.save(tmp_path / "state")
    restored = rpq.Engine.restore(tmp_path / "state")
    counts = ("tuples", "inserted", "passed_by", "edges_live")
    assert all(getattr(restored.statistics(), count) == getattr(engine.statistics(), count) for count in counts)
    for one in (engine, restored):
        assert one.register(query("same")).added == 1
        for lost in ("h8", "h9"):  # the edge to h8 was dropped with the query that accepted it
            with pytest.raises(rpq.RegistrationError):
                one.register(query("lost", f"?x a {lost}"))
        assert one.delete("y", "h8", "a", 4).removed == 0 and one.delete("x", "h7", "a", 4).removed == 2
        figures = one.statistics()
        assert (figures.inserted, figures.passed_by, figures.absent_deletes, figures.edges_live) == (2, 1, 1, 0)
        one._check()


@pytest.mark.parametrize("threads", [2])
@pytest.mark.parametrize("text", ["?x a h8", "SELECT ?x { ?x <a> <h8> . ?x <b> ?y }", "h8 ^a ?x . ?x b* ?y"])
def test_edges_are_dropped_with_the_last_query_that_accepts_them(text, threads):
    window = rpq.UnboundedWindow()
    queries = [rpq.Query(query, name=query, window=window) for query in ("?x a h7", "?x a h7 . ?x b+ ?y", text)]
    engine = tiny(4)(*queries, threads=threads)
    engine.push_rows([(f"x{number}", f"h{number % 10}", "a", number) for number in range(100)])
    before = engine.statistics()
    assert (before.inserted, before.edges_live, before.vertices_live) == (20, 20, 22)
    engine.unregister(text)
    engine._check()
    collect(engine)
    after, query = engine.statistics(), engine.statistics("?x a h7")
    assert (after.inserted, after.deleted, after.edges_live, after.vertices_live) == (20, 0, 10, 11)
    assert (query.inserted, query.deleted, query.edges_live, query.passed_by) == (20, 0, 10, 80)
    assert engine.push_rows([("x8", "h8", "a", 100), ("x7", "h7", "a", 100, "-")]).removed == 1
    engine._check()


def test_a_query_that_also_reads_other_labels_goes_on_accepting_what_it_needs():
    x, y = Variable("x"), Variable("y")
    window = Window(size=30, slide=4)
    loops = Pattern(atoms=(Atom(x, "!b", Constant("1")), Atom(x, "b", x)))
    edges = Pattern(atoms=(Atom(x, "b", y),))
    twins = PatternTwins(
        PatternQuestion(name="loops", pattern=loops, window=window),
        PatternQuestion(name="edges", pattern=edges, window=window),
    )
    twins.push([("0", "2", "b", 1, "+"), ("0", "0", "b", 1, "+")])
    twins.unregister("edges")
    twins.push([("0", "2", "b", 2, "+"), ("2", "2", "b", 2, "+"), ("0", "1", "c", 2, "+")])
    assert (twins.engine.statistics().edges_live, twins.engine.statistics().passed_by) == (3, 1)


def test_a_kept_window_and_labels_that_nothing_reads_any_more_pass_nothing_by():
    window = rpq.Window(size=10, slide=1)
    engine = rpq.Engine(rpq.Query("?x a h7", name="q", window=window), keep=window)
    engine.push_rows([("x", "h8", "a", 1), ("x", "h7", "a", 1)])
    assert engine.statistics().passed_by == 0 and engine.register(rpq.Query("?x a ?y", window=window)).added == 2
    engine = rpq.Engine(rpq.Query("?x a h7", name="q", window=window))
    engine.push_rows([("x", "h8", "a", 1), ("x", "h7", "a", 1)])
    engine.unregister("q")
    engine.push_rows([("x", "h9", "a", 2)])
    assert (engine.statistics().passed_by, engine.statistics().irrelevant, engine.statistics().edges_live) == (1, 1, 0)
    engine.advance(20)
    assert engine.register(rpq.Query("?x a h8", name="q", window=window)).added == 0
    engine.push_rows([("x", "h7", "a", 21), ("x", "h8", "a", 21)])
    assert (engine.statistics().passed_by, engine.statistics().edges_live) == (2, 1)
    engine._check()


def test_vertices_of_another_type_are_refused_as_ever():
    """A push of the wrong type is bad input, whether or not the filter has met the right one."""
    for vertices, others in (((1, 7), ("x", "7")), (("x", "7"), (1, 7))):
        engine = rpq.Engine(rpq.Query("?x a 7", name="q", window=rpq.UnboundedWindow()))
        assert engine.push_rows([(*vertices, "a", 1)]).added == 1
        with pytest.raises(rpq.InputError, match="one engine takes integers or text"):
            engine.push_rows([(*others, "a", 2)])
        assert engine.push_rows([(*reversed(vertices), "a", 3), (*vertices, "a", 4)]).added == 0
        assert (engine.statistics().passed_by, engine.statistics().refreshed) == (1, 1)


SPARQL = {
    "both": "SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT9S STEP PT4S] { ?x <a> <0> WINDOW <w> { ?x <b> <1> } }",
    "merged": "SELECT ?x ?y { <0> <a> ?x OPTIONAL { ?y <b> ?y } }",
    "named": "SELECT ?x FROM NAMED WINDOW <w> ON <s> [UNBOUNDED] { WINDOW <w> { ?x <a> <1> } }",
    "path": "SELECT DISTINCT ?y { <1> <b> ?x . ?x <c>* ?y }",
    "step": "SELECT ?x FROM NAMED WINDOW <w> ON <s> [UNBOUNDED] { WINDOW <w> { <0> !(<c>) ?x } }",
    "predicate": "SELECT ?x ?p FROM NAMED WINDOW <w> ON <s> [RANGE PT9S STEP PT4S] { ?x ?p <2> WINDOW <w> { ?x !<b> <1> } }",
    "count": "SELECT ?x FROM NAMED WINDOW <w> [COUNT 3] { WINDOW <w> { ?x <b> <2> } }",
}
STEPS = st.tuples(
    st.sampled_from([0, 1, 1, 5]),
    st.sampled_from([0, 0, 0, 7]),
    st.tuples(*(st.sampled_from(some) for some in ("012", "aabbc", "012"))),
    st.sampled_from("+++-"),
    st.sampled_from([None, "s", "s", "t"]),
)


@warnings_of_rdflib
@given(
    names=st.permutations([*SPARQL]),
    batches=st.lists(st.lists(STEPS, min_size=1, max_size=12), min_size=3, max_size=6),
    choices=st.lists(st.sampled_from(["leave", "window", "empty", "restore"]), min_size=6, max_size=6),
)
@examples(60)
def test_streams_and_sparql_agree_with_the_oracle_while_queries_come_and_go(names, batches, choices):
    questions = [question(SPARQL[name], Window(kind="unbounded"), name=name) for name in names]
    twins = Twins(*questions[:3])
    time = 20
    for steps, choice in zip(batches, choices, strict=False):
        tuples = []
        for ahead, behind, (source, label, target), op, stream in steps:
            time += ahead
            tuples.append((source, target, label, time - behind, op, stream))
        twins.push(tuples)
        twins.compare_counts()
        gone = [one for one in questions if one.name not in twins.questions]
        if choice == "leave" and len(twins.questions) > 1:
            name = next(iter(twins.questions))
            twins.engine.unregister(name)
            twins.reference.unregister(name)
            del twins.questions[name]
        elif choice in ("window", "empty") and gone:
            twins.register(gone[0], choice)
        elif choice == "restore":
            twins.restore()
        twins.compare([], [])
        twins.compare_counts()
