"""Path atoms in graph patterns: examples by hand, which trees are grown and for whom, limits, and random streams."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import PatternTwins, by_event, long_streams, query_of, rows_of, streams
from tests.reference_pattern_stream import PatternQuestion, Window
from tests.reference_patterns import Atom, Constant, Pattern, Variable
from tests.strategies import pattern_strategies
from tests.stream.test_windows_random import KINDS, statics, windows
from tests.twins import collect, examples, tiny

W = rpq.Window(size=10, slide=1)


def short(changes: rpq.Changes) -> list[tuple]:
    return [tuple(row)[1:] for row in changes.rows()]


def trees_of(engine: rpq.Engine) -> int:
    """The number of trees that the paths of a query grow."""
    return sum(relation.trees or 0 for relation in engine.explain().relations)


# --- examples worked by hand ------------------------------------------------------------------------------------------


def test_a_path_and_an_edge():
    #   time  1        2        3        4        5          11                  12
    #         x a y    y b z    z c w    y c q    y b z -    (x a y leaves)
    engine = rpq.Engine(rpq.Query("?x a/b* ?y . ?y c ?z", window=W, semantics="explicit"))
    assert short(engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "c", 3)])) == [("x", "z", "w", 3, "+")]
    assert short(engine.insert("y", "q", "c", 4)) == [("x", "y", "q", 4, "+")]
    assert short(engine.delete("y", "z", "b", 5)) == [("x", "z", "w", 5, "-")]
    assert short(engine.advance(12)) == [("x", "y", "q", 11, "-")]
    engine._check()


def test_what_expires_is_silent_where_the_query_is_implicit():
    engine = rpq.Engine(rpq.Query("?x a+ ?y . ?y c ?z", window=W))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2), ("z", "w", "c", 3)])
    assert sorted(engine.answers()) == [("x", "z", "w"), ("y", "z", "w")]
    assert short(engine.advance(11)) == [] and sorted(engine.answers()) == [("y", "z", "w")]
    assert short(engine.delete("y", "z", "a", 11)) == [("y", "z", "w", 11, "-")]


def test_a_moment_is_one_event_of_edges_and_pairs():
    engine = rpq.Engine(rpq.Query("?x a+ ?y . ?y c ?z", window=W, semantics="explicit", select=("x",), distinct=True))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "c", 1), ("y", "w", "c", 1), ("x", "v", "a", 1), ("v", "z", "c", 2)])
    assert short(engine.insert("o", "o", "o", 30)) == [("x", 11, "-")]


def test_the_same_variable_twice_a_ground_path_and_parts():
    engine = rpq.Engine(rpq.Query("?x a+ ?x . p b/c* q . ?u c ?v", window=W, select=("x", "u")))
    assert short(engine.push_rows([("x", "y", "a", 1), ("y", "x", "a", 1), ("p", "q", "b", 2)])) == []
    assert Counter(short(engine.insert("u", "v", "c", 3))) == Counter([("x", "u", 3, "+"), ("y", "u", 3, "+")])
    assert Counter(short(engine.delete("p", "q", "b", 4))) == Counter([("x", "u", 4, "-"), ("y", "u", 4, "-")])


def test_the_empty_path_joins_nothing():
    engine = rpq.Engine(rpq.Query("?x a* ?y . ?y b? ?z", window=W), rpq.Query("?x a{0} ?y", window=W, name="none"))
    assert short(engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1)])) == [("x", "y", "z", 1, "+")]
    assert len(engine.answers("none")) == 0


def test_labels_that_are_not_named():
    query = rpq.Query("?x !a ?y . ?y a ?z", window=W)
    assert query.labels is None and query.reads("a") and query.reads("whatever")
    engine = tiny(2)(query)
    assert short(engine.push_rows([("x", "y", "new", 1), ("y", "z", "a", 2)])) == [("x", "y", "z", 2, "+")]
    assert engine.statistics("?x !a ?y . ?y a ?z").irrelevant == 0


def test_simple_paths():
    tuples = [("x", "y", "a", 1), ("y", "x", "b", 1), ("x", "z", "b", 1), ("z", "z", "c", 1)]
    walk = rpq.Query("?x a/b+ ?y . ?y c ?z", window=W, name="walk")
    engine = rpq.Engine(walk, replace(walk, paths="simple", name="simple"))
    engine.push_rows(tuples)
    assert sorted(engine.answers("walk")) == [("x", "z", "z")] and sorted(engine.answers("simple")) == []


def test_simple_cycles():
    #   x --a--> y --b--> x        y --a--> u --b--> y        z --c--> z
    #   (a/b){2} from y: none, as every way back to x or y visits one of them twice
    tuples = [("x", "y", "a", 1), ("y", "x", "b", 1), ("y", "u", "a", 1), ("u", "y", "b", 1)]
    tuples += [("z", "z", "c", 1), ("x", "z", "d", 1)]
    texts = ("?x a/b ?x", "?x (b/a){2} ?x", "?x b/a ?x . ?x (b|d) ?z", "?z c ?z", "?x d ?z . ?z ?e:c ?z")
    queries = [rpq.Query(text, window=W, paths="simple_cycle", name=text) for text in texts]
    engine = rpq.Engine(*queries)
    engine.push_rows(tuples)
    engine._check()
    assert [sorted(engine.answers(text)) for text in texts] == [
        [("x",), ("y",)],
        [],
        [("u", "y"), ("y", "x")],
        [("z",)],
        [("x", "z")],
    ]
    assert [query.warnings for query in queries] == [()] * len(texts)
    (cycle,) = engine.witness("x", query="?x a/b ?x").atoms
    assert [(step.source, step.label, step.target) for step in cycle.steps] == [("x", "a", "y"), ("y", "b", "x")]
    engine.delete("y", "x", "b", 2)
    assert sorted(engine.answers("?x a/b ?x")) == [("y",)]


def test_a_literal_at_both_ends_may_be_two_vertices_of_a_simple_path():
    literal = rpq.Query("""?x b ?y . '"30"' a+ '"30"'""", window=W, paths="simple")
    assert literal.warnings == ()
    engine = rpq.Engine(literal)
    assert len(engine.push_rows([("x", "y", "b", 1), ("30", '"30"', "a", 1)]).rows()) == 1
    (warning,) = rpq.Query("?x b ?y . 30 a+ 30", window=W, paths="simple").warnings
    assert warning.startswith("30 a+ 30 never matches")


# --- windows of count, unbounded ones, and static edges ---------------------------------------------------------------


def test_one_numbering_serves_paths_and_edges():
    #   number  1        2        3        4 (z q d)         5
    #           x a y    y b z    z c w    (d is not read)   y b q: x a y leaves at the fourth insert that is read
    engine = tiny(2)(rpq.Query("?x a/b* ?y . ?y c ?z", window=rpq.CountWindow(size=3), semantics="explicit"))
    tuples = [("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "c", 3), ("z", "q", "d", 9), ("y", "q", "b", 4)]
    assert [short(engine.push_rows([one])) for one in tuples] == [
        [], [], [("x", "z", "w", 3, "+")], [], [("x", "z", "w", 9, "-")]
    ]  # fmt: skip
    engine._check()
    assert engine.statistics().edges_live == 3 and engine.statistics().irrelevant == 1


def test_an_eviction_and_its_insert_are_one_event_of_paths():
    count = rpq.CountWindow(size=2)
    engine = tiny(2)(rpq.Query("?x (a|b)+ ?y . ?x a|b ?y", window=count, semantics="explicit"))
    assert short(engine.push_rows([("x", "y", "a", 1), ("z", "y", "a", 2)])) == [("x", "y", 1, "+"), ("z", "y", 2, "+")]
    # By another edge the pair goes on: no rows; refreshed, the edge evicts the older one.
    assert short(engine.insert("x", "y", "b", 3)) == []
    assert short(engine.insert("x", "y", "b", 4)) == [("z", "y", 4, "-")]
    assert short(engine.insert("x", "y", "b", 5)) == []
    implicit = tiny(2)(rpq.Query("?x (a|b)+ ?y . ?x a|b ?y", window=count))
    assert implicit.push_rows([("x", "y", "a", 1), ("z", "y", "a", 2), ("q", "q", "b", 3)]).removed == 0
    assert short(implicit.delete("q", "q", "b", 4)) == [("q", "q", 4, "-")]


def test_a_path_in_an_unbounded_window_goes_by_a_delete_alone():
    engine = tiny(2)(rpq.Query("?x a/b* ?y . ?y c ?z", window=rpq.UnboundedWindow()))
    engine.push_rows([("x", "y", "a", 10**9), ("z", "w", "c", 1)])
    assert short(engine.insert("y", "z", "b", -5)) == [("x", "z", "w", 10**9, "+")]
    assert short(engine.advance(10**12)) == []
    assert short(engine.delete("x", "y", "a", 7)) == [("x", "z", "w", 10**12, "-")]


@pytest.mark.parametrize("window", [W, rpq.CountWindow(size=1), rpq.UnboundedWindow()], ids=lambda window: window.kind)
def test_paths_run_across_the_window_and_static_edges(window):
    engine = tiny(2)(rpq.Query("?x a/b* ?y . ?y c ?z", window=window, semantics="explicit"))
    engine.load_static([("x", "y", "a"), ("y", "v", "b"), ("v", "w", "c"), ("z", "w", "c")])
    rows = short(engine.insert("y", "z", "b", 2))
    assert rows == [("x", "v", "w", 2, "+"), ("x", "z", "w", 2, "+")]
    witness = engine.witness("x", "z", "w")
    assert str(witness.atoms[0]) == "?x a/b* ?y: x -a-> y -b-> z @2" and witness.atoms[1].steps[0].timestamp is None
    assert engine.statistics().edges_live == 1
    # What is static and in the window stays when the window lets go of it.
    assert short(engine.insert("x", "y", "a", 3)) == ([("x", "z", "w", 3, "-")] if window.kind == "count" else [])
    assert engine.witness("x", "v", "w").atoms[0].steps[0].timestamp == 3
    assert short(engine.delete("x", "y", "a", 4)) == [] and min(engine.answers()) == ("x", "v", "w")
    assert engine.witness("x", "v", "w").atoms[0].steps[0].timestamp is None
    engine._check()


def test_static_edges_bind_where_paths_begin():
    engine = tiny(2)(rpq.Query("?x role boss . ?x a+ ?y", window=W, semantics="explicit"))
    engine.load_static([("3", "boss", "role"), ("3", "4", "a")])
    assert Counter(short(engine.push_rows([(f"{n}", f"{n + 1}", "a", 1) for n in range(3, 6)]))) == Counter(
        ("3", f"{n}", 1, "+") for n in range(4, 7)
    )
    assert trees_of(engine) == 1
    assert short(engine.advance(20)) == [("3", "5", 11, "-"), ("3", "6", 11, "-")]


def test_registered_in_mid_stream_over_a_count_window_and_static_edges():
    count = rpq.CountWindow(size=3)
    first = rpq.Query("?x a+ ?y . ?y b ?z", window=count, name="first")
    engine = tiny(2)(first)
    engine.load_static([("0", "1", "a")])
    engine.push_rows([("1", "2", "a", 1), ("2", "3", "b", 1), ("2", "4", "b", 1), ("2", "5", "b", 1)])
    like = engine.register(replace(first, name="like"))
    assert short(like) == []  # the first edge was evicted
    engine.insert("1", "2", "a", 2)
    assert len(engine.answers("like")) == len(engine.answers("first")) == 4
    with pytest.raises(rpq.RegistrationError, match="counts the same labels"):
        engine.register(replace(rpq.Query("?x a+ ?y . ?y a ?z", window=count), name="other"))
    empty = rpq.Query("?x a+ ?y . ?y a ?z", window=count, name="empty")
    assert engine.register(empty, start="empty").rows() == []
    assert [row[:3] for row in short(engine.insert("1", "5", "a", 3)) if row[2] == "5"] == [("0", "1", "5")]
    engine._check()


# --- which trees are grown --------------------------------------------------------------------------------------------


def test_a_constant_at_either_end_is_one_tree():
    tuples = [(f"{n}", f"{n + 1}", "a", 1) for n in range(20)]
    for text, count in [("3 a+ ?y", 17), ("?y a+ 3", 3), ("?y a+ 3 . ?y a 1", 1)]:
        engine = tiny(2)(rpq.Query(text, window=W))
        engine.push_rows(tuples)
        assert trees_of(engine) == 1 and len(engine.answers()) == count, text
        engine._check()


def test_a_variable_that_an_edge_binds_to_few_vertices():
    engine = tiny(2)(rpq.Query("?x role boss . ?x a+ ?y", window=W, semantics="explicit"))
    engine.push_rows([(f"{n}", f"{n + 1}", "a", 3) for n in range(6)])
    assert trees_of(engine) == 0
    # Bound after the path was there, out of order: the whole tree of the vertex is made.
    assert Counter(short(engine.insert("2", "boss", "role", 1))) == Counter(("2", f"{n}", 3, "+") for n in range(3, 7))
    assert trees_of(engine) == 1
    assert short(engine.insert("6", "7", "a", 4)) == [("2", "7", 4, "+")]
    engine._check()
    # Bound no more: the tree goes when the engine collects.
    assert len(short(engine.delete("2", "boss", "role", 5))) == 5
    collect(engine)
    assert trees_of(engine) == 0
    engine._check()
    assert len(short(engine.insert("5", "boss", "role", 6))) == 2


def test_a_variable_that_an_edge_binds_without_a_constant():
    engine = tiny(2)(rpq.Query("?x role ?what . ?x a+ ?y", window=W, semantics="explicit"))
    engine.load_static([("4", "guard", "role")])
    engine.push_rows([(f"{n}", f"{n + 1}", "a", 3) for n in range(6)])
    assert trees_of(engine) == 1
    assert Counter(short(engine.insert("2", "boss", "role", 1))) == Counter(
        ("2", "boss", f"{n}", 3, "+") for n in range(3, 7)
    )
    assert trees_of(engine) == 2
    engine.advance(12)
    collect(engine)
    assert trees_of(engine) == 1
    engine._check()


def test_a_constant_that_comes_back_after_its_name_was_gone():
    engine = tiny(2)(rpq.Query("bob a+ ?y", window=W, semantics="explicit"))
    for time in (1, 50):
        assert engine.push_rows([("bob", "x", "a", time), ("x", "y", "a", time)]).added == 2
        assert engine.advance(time + 20).removed == 2
        collect(engine)
        assert engine.statistics().vertices_live == 0
        assert engine.push_rows([(f"u{n}", f"v{n}", "a", time + 21) for n in range(5)]).rows() == []
        engine._check()


def test_a_literal_is_two_roots():
    engine = rpq.Engine(rpq.Query("""'"30"' a+ ?y""", window=W))
    tuples = [("30", "x", "a", 1), ('"30"', "y", "a", 1), ("x", "y", "a", 2), ("z", "y", "a", 2)]
    assert Counter(short(engine.push_rows(tuples))) == Counter([("x", 1, "+"), ("y", 1, "+"), ("y", 2, "+")])
    assert trees_of(engine) == 2


# --- limits, errors, states -------------------------------------------------------------------------------------------


def test_registered_where_edges_were_lost():
    engine = rpq.Engine(rpq.Query("a", window=W))
    engine.push_rows([("x", "y", "a", 1), ("x", "y", "b", 2)])
    for text in ("?x a/b* ?y", "?x !a ?y"):
        with pytest.raises(rpq.RegistrationError):
            engine.register(rpq.Query(text, window=W))
    late = rpq.Query("?x a/b* ?y", window=W, name="late")
    assert engine.register(late, start="empty").rows() == []
    rows = short(engine.push_rows([("y", "z", "b", 3), ("x", "y", "a", 3)]))
    assert Counter(rows) == Counter([("x", "y", 3, "+"), ("x", "z", 3, "+")])


def test_the_memory_limit_ends_a_push_with_the_rows_before():
    query = rpq.Query("?x a+ ?y . ?y b ?z", window=rpq.Window(size=10**6, slide=10), semantics="explicit")
    tuples = [(n % 101, n * 7 % 103, "aab"[n % 3], n) for n in range(30_000)]
    with pytest.raises(rpq.MemoryLimitError) as caught:
        rpq.Engine(query, memory_limit=4_000_000).push_rows(tuples)
    error = caught.value
    assert error.query == query.name and 0 < error.row < len(tuples)
    wanted = rpq.Engine(query).push_rows(tuples[: error.row])
    assert error.changes.added == wanted.added > 0
    assert error.changes.to_arrow().equals(wanted.to_arrow())


CONFLICTED = [(f"{n}", f"{m}", "b", 1) for n in range(7) for m in range(7) if n != m]


def test_a_root_whose_simple_paths_take_too_long(tmp_path):
    query = rpq.Query("?x a/b*/c ?y . ?y d ?z", window=W, paths="simple", simple_budget=2, semantics="explicit")
    engine = tiny(2)(query)
    with pytest.raises(rpq.ConflictBudgetError, match="Raise simple_budget$") as caught:
        engine.push_rows([("x", "0", "a", 1), *CONFLICTED, ("6", "w", "b", 1), ("w", "3", "c", 1), ("3", "v", "d", 1)])
    assert caught.value.root == "x" and caught.value.query == query.name
    assert engine.set_aside() == ["x"]
    engine._check()
    engine.save(tmp_path / "state")
    again = tiny(2).restore(tmp_path / "state")
    assert again.set_aside() == ["x"] and again.queries[0].simple_budget == 2
    for one in (engine, again):
        assert sorted(one.answers()) == []
        one._check()
    assert by_event(rows_of(engine.advance(30))) == by_event(rows_of(again.advance(30)))
    assert engine.set_aside() == again.set_aside() == []


def test_a_query_that_began_empty_goes_on_from_a_state(tmp_path):
    engine = tiny(2)(rpq.Query("?x a+ ?y", window=W, semantics="explicit", name="first"))
    engine.push_rows([(f"{n}", f"{n + 1}", "a", 1) for n in range(60)])
    late = rpq.Query("3 a+ ?y", window=W, semantics="explicit", name="late")
    assert engine.register(late, start="empty").rows() == []
    assert engine.push_rows([(f"{n}", f"{n + 1}", "a", 2) for n in range(3, 50)]).added == 47
    engine.save(tmp_path / "state")
    again = tiny(2).restore(tmp_path / "state")
    for one in (engine, again):
        one._check()
        assert len(one.answers("late")) == 47
        assert Counter(row.op for row in one.delete("30", "31", "a", 3).rows() if row.query == "late") == {"-": 20}


def test_figures():
    other = rpq.Query("?x c+ ?y", window=W, name="other")
    engine = rpq.Engine(rpq.Query("?x a/b* ?y . ?y b ?z", window=W, name="q"), other)
    engine.push_rows([("x", "y", "a", 20), ("y", "z", "b", 20), ("y", "z", "b", 21), ("y", "z", "b", 5)])
    engine.insert("y", "z", "c", 21)
    engine.push_rows([("y", "z", "b", 22, "-"), ("y", "z", "b", 22, "-"), ("z", "w", "b", 22)])
    figures = engine.statistics("q")
    assert (figures.inserted, figures.refreshed, figures.late, figures.irrelevant) == (3, 1, 1, 1)
    assert (figures.deleted, figures.absent_deletes, figures.tuples) == (1, 1, 8)
    assert figures.edges_live == 2 and figures.index_cells >= 2
    assert engine.statistics("other").irrelevant == 7


def test_tuples_that_only_paths_read_are_timed():
    engine = rpq.Engine(rpq.Query("?x a+ ?y . ?y b+ ?z . ?z c ?u", window=W, name="q"))
    for first in range(0, 60, 10):
        engine.push_rows([(n, n + 1, "ab"[n % 2], 1) for n in range(first, first + 10)], collect=False)
    assert 0 < engine.statistics("q").latency_p50_us <= engine.statistics("q").latency_p99_us


# --- random streams ---------------------------------------------------------------------------------------------------

PATHS = st.sampled_from([text for text in pattern_strategies.PATH_EXPRESSIONS if text != "b{1,2}"])
X, Y, Z = map(Variable, "xyz")
long_windows = st.builds(Window, size=st.integers(12, 60), slide=st.integers(1, 5))
CONSTANTS = st.sampled_from([Constant("0"), Constant("1"), Constant('"0"')])


@st.composite
def restricted(draw: st.DrawFn, name: str = "q") -> PatternQuestion:
    """Patterns whose paths begin or end at constants, or at variables that an edge binds to few vertices."""
    binders = [Atom(X, "a", draw(CONSTANTS)), Atom(draw(CONSTANTS), "b", X), Atom(X, "^a", draw(CONSTANTS)), Atom(X, "b", Z)]
    ends = st.sampled_from([X, X, X, Y]) | CONSTANTS
    paths = [Atom(draw(ends), draw(PATHS), draw(ends)) for _ in range(draw(st.integers(1, 2)))]
    bound = draw(st.lists(st.sampled_from(binders), max_size=2, unique=True))
    atoms = draw(st.permutations([*paths, *bound, Atom(X, "b", Z)]))
    return PatternQuestion(
        name=name,
        pattern=Pattern(atoms=tuple(atoms), paths=draw(st.sampled_from(["walk", "walk", "simple", "simple_cycle"]))),
        window=draw(st.sampled_from(("time", *KINDS)).flatmap(windows) | long_windows),
        semantics=draw(st.sampled_from(["implicit", "explicit"])),
    )


@pytest.mark.ci
@examples(150)
@given(restricted(), streams, statics, st.integers(1, 6), st.integers(1, 20), st.sampled_from((2, 16)))
def test_restricted_roots(question, tuples, static, size, ahead, capacity):
    twins = PatternTwins(question, capacity=capacity, static=static)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        twins.collect()
    twins.advance(twins.engine.time + ahead)
    event(f"rows: {min(twins.engine.statistics().rows_added, 20)}")


@pytest.mark.ci
@examples(100)
@given(st.data(), restricted("one"), streams, statics)
def test_queries_that_share_an_index_come_and_go(data, question, tuples, static):
    """All read the same paths over one window, from other roots."""
    path = next(atom for atom in question.pattern.atoms if atom.expression in pattern_strategies.PATH_EXPRESSIONS)
    others = [(X, Y), (Constant("0"), Y), (Constant("1"), X), (X, Constant('"0"'))]
    twins = PatternTwins(question, static=static)
    waiting = list(tuples)
    for number in range(data.draw(st.integers(3, 8))):
        match data.draw(st.sampled_from(["push", "register", "register", "leave", "restore", "collect", "advance"])):
            case "push":
                twins.push(waiting[:5])
                waiting = waiting[5:]
            case "register":
                subject, object_ = data.draw(st.sampled_from(others))
                atoms = Atom(subject, path.expression, object_), Atom(X, "b", Z)
                other = replace(question, name=f"q{number}", pattern=replace(question.pattern, atoms=atoms))
                twins.register(other, data.draw(st.sampled_from(["window", "window", "empty"])))
            case "leave" if len(twins.questions) > 1:
                twins.unregister(data.draw(st.sampled_from(sorted(twins.questions))))
            case "restore":
                twins.save_and_restore()
            case "collect":
                twins.collect()
            case "advance":
                twins.advance((twins.engine.time or 0) + data.draw(st.integers(0, 9)))
    twins.push(waiting)


@examples(40)
@given(restricted("one"), restricted("two"), long_streams)
def test_sharing_is_not_seen(one, two, tuples):
    two = replace(two, window=one.window, pattern=replace(two.pattern, paths=one.pattern.paths))
    together = tiny(2)(query_of(one), query_of(two)).push_rows(tuples).rows()
    for query in (query_of(one), query_of(two)):
        alone = tiny(2)(query).push_rows(tuples)
        assert by_event(alone.rows()) == by_event([row for row in together if row.query == query.name])


# --- roots that are set aside, against a path query -------------------------------------------------------------------


def calmly(change):
    """Return the parts of a change that must agree, also if a root exceeds its budget."""
    try:
        return change()
    except rpq.ConflictBudgetError as error:
        return error.changes


def told_of(name: str, changes: rpq.Changes) -> Counter:
    return Counter((tuple(row)[1:-2], row.timestamp, row.op) for row in changes.rows() if row.query == name)


@pytest.mark.ci
@pytest.mark.parametrize("window", [rpq.Window(size=6, slide=1), rpq.CountWindow(size=14)], ids=lambda window: window.kind)
def test_a_root_that_is_restored_has_the_rows_that_a_path_query_has(window):
    options = {"window": window, "semantics": "explicit", "paths": "simple", "simple_budget": 3}
    path = rpq.Query("a/b*/c", name="pairs", **options)
    happened: Counter = Counter()
    for seed in range(12):
        draw = random.Random(seed)
        joined = rpq.Query("?x a/b*/c ?y . ?y b ?z", name="joined", **options)
        edges = rpq.Query("?y b ?z", name="edges", **options)
        alone, engine = tiny(2)(path), tiny(2)(rpq.Query("?x a/b*/c ?y", name="pairs", **options), joined, edges)
        total: Counter = Counter()
        time = 0
        for _ in range(60):
            time += draw.choice((0, 0, 0, 0, 1, 1, 2))
            aside = engine.set_aside("pairs")
            is_restored = bool(aside) and draw.random() < 0.2
            if is_restored:
                change = lambda one, aside=aside: one.restore_root(min(aside), "pairs")  # noqa: E731
            else:
                step = (draw.randrange(5), draw.randrange(5), draw.choice("aabbc"), time, draw.choice("+++++-"))
                change = lambda one, step=step: one.push_rows([step])  # noqa: E731
            wanted, found = (calmly(lambda one=one, change=change: change(one)) for one in (alone, engine))
            assert told_of("pairs", found) == told_of("pairs", wanted)
            assert {*engine.set_aside("pairs")} == {*engine.set_aside("joined")} == {*alone.set_aside()}
            for values, _, op in told_of("joined", found).elements():
                total[values] += 1 if op == "+" else -1
            assert +total == Counter(engine.answers("joined")) and min(total.values(), default=0) >= 0
            pairs, targets = set(engine.answers("pairs")), list(engine.answers("edges"))
            assert pairs == set(alone.answers())
            if window.kind == "time":  # the edges alone are not the inserts that the others number
                wanted_rows = [(x, y, z) for x, y in pairs for v, z in targets if v == y]
                assert Counter(engine.answers("joined")) == Counter(wanted_rows)
                happened["joined"] += len(pairs)
            engine._check()
            happened["restored"] += is_restored and found.added > 0
            happened["set aside"] += len(engine.set_aside("pairs")) > len(aside)
    assert happened["restored"] and happened["set aside"] and (happened["joined"] or window.kind != "time")


def test_what_a_restored_root_brings_waits_for_a_report():
    options = {"window": rpq.Window(size=6, slide=2), "paths": "simple", "simple_budget": 3}
    restored = 0
    for seed in range(4):
        draw = random.Random(seed)
        slide = rpq.Query("?x a/b*/c ?y", name="slide", report="slide", **options)
        engine = tiny(2)(slide, rpq.Query("?x a/b*/c ?y", name="change", semantics="explicit", **options))
        total: Counter = Counter()
        for time in range(0, 80, 2):
            found = []
            for _ in range(3):
                step = (draw.randrange(5), draw.randrange(5), draw.choice("aabbc"), time, draw.choice("+++++-"))
                found.append(calmly(lambda step=step: engine.push_rows([step])))
            for root in engine.set_aside("slide"):
                back = calmly(lambda root=root: engine.restore_root(root, "slide"))
                assert not told_of("slide", back)
                restored += sum(told_of("change", back).values())
            wanted = Counter(engine.answers("slide"))
            # The report of this boundary comes once the time is past it.
            found.append(calmly(lambda time=time: engine.advance(time + 1)))
            for values, _, op in (row for changes in found for row in told_of("slide", changes).elements()):
                total[values] += 1 if op == "+" else -1
            assert +total == wanted
    assert restored
