"""Graph patterns as users ask them: examples by hand, options, errors, limits."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

import rpq
from tests.twins import collect, tiny

W = rpq.Window(size=10, slide=1)
CHAIN = "?x a ?y . ?y b ?z"


def short(changes: rpq.Changes) -> list[tuple]:
    return [tuple(row)[1:] for row in changes.rows()]


# --- examples worked by hand ------------------------------------------------------------------------------------------


def test_a_chain():
    #   time  1        2        4        11                 12
    #         x a y    y b z    y b z-   (x a y leaves)
    engine = rpq.Engine(rpq.Query(CHAIN, window=W))
    assert short(engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2)])) == [("x", "y", "z", 2, "+")]
    assert engine.answers().to_arrow().to_pylist() == [{"x": "x", "y": "y", "z": "z"}]
    assert short(engine.delete("y", "z", "b", 4)) == [("x", "y", "z", 4, "-")]
    assert short(engine.insert("y", "w", "b", 5)) == [("x", "y", "w", 5, "+")]
    assert short(engine.advance(11)) == [] and len(engine.answers()) == 0


def test_rows_of_a_boundary_are_explicit_where_asked():
    engine = rpq.Engine(rpq.Query(CHAIN, window=rpq.Window(size=10, slide=5), semantics="explicit"))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 7)])
    assert short(engine.insert("q", "q", "c", 14)) == []
    assert short(engine.insert("q", "q", "c", 29)) == [("x", "y", "z", 15, "-")]


def test_a_solution_comes_as_often_as_there_are_bindings_and_once_where_distinct():
    bag = rpq.Query(CHAIN, window=W, select=("x",), name="bag")
    once = replace(bag, distinct=True, name="once")
    engine = rpq.Engine(bag, once)
    changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2), ("y", "w", "b", 2), ("y", "z", "b", 3, "-")])
    assert [tuple(row) for row in changes.rows()] == [
        ("bag", "x", 2, "+"),
        ("once", "x", 2, "+"),
        ("bag", "x", 2, "+"),
        ("bag", "x", 3, "-"),
    ]
    assert short(engine.delete("y", "w", "b", 4)) == [("x", 4, "-"), ("x", 4, "-")]


def test_isomorphism_keeps_values_apart():
    tuples = [("x", "y", "a", 1), ("y", "x", "a", 1), ("y", "z", "a", 1)]
    engine = rpq.Engine(
        rpq.Query("?u a ?v . ?v a ?w", window=W, name="any"),
        rpq.Query("?u a ?v . ?v a ?w", window=W, name="apart", matching="isomorphism"),
        rpq.Query("?u a ?v . z ^a ?w", window=W, name="parts", matching="isomorphism"),
    )
    engine.push_rows(tuples)
    assert sorted(engine.answers("any")) == [("x", "y", "x"), ("x", "y", "z"), ("y", "x", "y")]
    assert sorted(engine.answers("apart")) == [("x", "y", "z")]
    assert sorted(engine.answers("parts")) == []


def test_parts_without_a_common_variable_are_multiplied_and_ground_atoms_are_conditions():
    engine = rpq.Engine(rpq.Query("?x a ?y . ?u b ?v . p c q", window=W, select=("x", "u")))
    assert engine.push_rows([("x", "y", "a", 1), ("u", "v", "b", 1), ("w", "v", "b", 1)]).rows() == []
    assert Counter(short(engine.insert("p", "q", "c", 2))) == Counter([("x", "u", 2, "+"), ("x", "w", 2, "+")])
    assert Counter(short(engine.delete("x", "y", "a", 3))) == Counter([("x", "u", 3, "-"), ("x", "w", 3, "-")])


def test_a_constant_is_found_again_after_its_name_was_gone():
    engine = tiny(2)(rpq.Query("?x a bob", window=W, semantics="explicit"))
    assert engine.insert("x", "bob", "a", 1).added == 1
    assert engine.advance(20).removed == 1
    collect(engine)
    assert engine.statistics().vertices_live == 0
    # Other names have its id now.
    assert engine.push_rows([(f"u{n}", f"v{n}", "a", 21) for n in range(5)]).rows() == []
    engine._check()
    assert short(engine.insert("y", "bob", "a", 22)) == [("y", 22, "+")]


def test_a_constant_that_has_another_id_keeps_it_when_its_old_one_is_given_away():
    # More constants than names come at a time, so each new name is looked up among them.
    engine = tiny(2)(rpq.Query("?x a bob", window=W), rpq.Query("p b q . r b s . t b ?u", window=W, name="other"))
    engine.push_rows([("v0", "v1", "a", 1)])
    engine.insert("x", "bob", "a", 1)
    engine.advance(20)
    collect(engine)
    found = []
    for number in range(4):  # bob comes back, each time after another number of names
        for other in range(number):
            engine.insert(f"w{number}{other}", f"z{number}{other}", "a", 30 * (number + 1))
        engine.insert("y", "bob", "a", 30 * (number + 1))
        for other in range(5):
            engine.insert(f"later{other}", f"last{other}", "a", 30 * (number + 1))
        found.append(engine.insert("z", "bob", "a", 30 * (number + 1)).rows())
        engine._check()
        engine.advance(30 * (number + 1) + 20)
        collect(engine)
    assert [[tuple(row)[1:2] for row in rows] for rows in found] == [[("z",)]] * 4


def test_constants_in_a_stream_of_integers():
    engine = rpq.Engine(rpq.Query("?x a 30", window=W), rpq.Query("""?x a '"30"'""", window=W, name="literal"))
    assert Counter(engine.push_rows([(1, 30, "a", 1), (1, 3, "a", 1)]).rows()) == Counter(
        [("?x a 30", 1, 1, "+"), ("literal", 1, 1, "+")]
    )


def test_a_literal_means_the_vertex_with_its_text_too():
    engine = rpq.Engine(rpq.Query("""?p age '"30"^^<int>'""", window=W))
    tuples = [("ann", "30", "age", 1), ("ann", '"30"^^<int>', "age", 2), ("bob", '"30"', "age", 3)]
    assert short(engine.push_rows(tuples)) == [("ann", 1, "+"), ("ann", 2, "+")]


def test_a_literal_that_means_what_another_constant_names():
    """One of the two meanings of the literal has one atom less."""
    engine = tiny(2)(rpq.Query("?x a ?x . 0 a 0 . 0 a '\"0\"'", window=W))
    engine.push_rows([("0", "0", "a", 1), ("x", "x", "a", 1)])
    assert sorted(engine.answers()) == [("0",), ("x",)]
    engine.insert("0", '"0"', "a", 2)
    assert sorted(engine.answers()) == [("0",), ("0",), ("x",), ("x",)]
    assert engine.delete("0", "0", "a", 3).removed == 4
    engine._check()


def test_registered_in_mid_stream_it_begins_with_its_answer():
    engine = rpq.Engine(rpq.Query("(a|b)+", window=W, name="path"))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 2)])
    assert short(engine.register(rpq.Query(CHAIN, window=W))) == [("x", "y", "z", 2, "+")]
    with pytest.raises(rpq.RegistrationError):
        engine.insert("x", "y", "c", 3)
        engine.register(rpq.Query("?x c ?y", window=W))
    assert engine.register(rpq.Query("?x c ?y", window=W), start="empty").rows() == []
    assert engine.insert("x", "z", "c", 3).added == 1


def test_queries_with_the_same_columns_need_not_find_them_in_the_same_order():
    some = ["?source a ?target", "?target ^a ?source", "?source b ?y . ?source a ?target"]
    some.append("?y b ?target . ?source a ?target")
    questions = [rpq.Query("a", window=W), *(rpq.Query(text, window=W, select=("source", "target")) for text in some)]
    texts = [query.name for query in questions]
    engine = rpq.Engine(*questions)
    changes = engine.push_rows([("s", "x", "b", 1), ("x", "t", "b", 1), ("s", "t", "a", 2), ("x", "t", "a", 2)])
    wanted = Counter([(text, "s", "t", 2, "+") for text in texts] + [(text, "x", "t", 2, "+") for text in texts])
    assert Counter(map(tuple, changes.rows())) == wanted
    (table,) = changes.tables()
    assert table == changes.to_arrow() and Counter(tuple(row.values()) for row in table.to_pylist()) == wanted
    for text in texts:
        assert sorted(engine.answers(text)) == [("s", "t"), ("x", "t")]


def test_a_table_for_each_kind_of_columns():
    engine = rpq.Engine(*(rpq.Query(text, window=W) for text in ("a", "?x a ?y", "?x b ?y")))
    path, patterns = engine.push_rows([("s", "t", "a", 1), ("s", "t", "b", 2), ("t", "s", "a", 3)]).tables()
    assert [tuple(row.values()) for row in path.to_pylist()] == [("a", "s", "t", 1, "+"), ("a", "t", "s", 3, "+")]
    assert patterns.column_names == ["query", "x", "y", "timestamp", "op"]
    assert [tuple(row.values()) for row in patterns.to_pylist()] == [
        ("?x a ?y", "s", "t", 1, "+"),
        ("?x b ?y", "s", "t", 2, "+"),
        ("?x a ?y", "t", "s", 3, "+"),
    ]


def test_dates_durations_and_tables():
    window = rpq.Window(size="2d", slide="1d")
    engine = rpq.Engine(rpq.Query(CHAIN, window=window, name="q"), rpq.Query("a", window=window))
    import datetime

    days = [datetime.date(2026, 1, day) for day in (1, 2)]
    changes = engine.push(source=["x", "y"], target=["y", "z"], label=["a", "b"], timestamp=days)
    assert changes.to_arrow("q").to_pylist() == [
        {"query": "q", "x": "x", "y": "y", "z": "z", "timestamp": days[1], "op": "+"}
    ]
    with pytest.raises(rpq.QueryError, match="different columns"):
        changes.to_arrow()
    with pytest.raises(rpq.QueryError, match="no query named 'other'"):
        changes.to_arrow("other")


def test_counts():
    engine = rpq.Engine(rpq.Query(CHAIN, window=W, name="q"), rpq.Query("c", window=W))
    engine.push_rows(
        [("x", "y", "a", 20), ("x", "y", "a", 21), ("x", "y", "a", 5), ("x", "y", "c", 21), ("x", "y", "a", 22, "-")]
    )
    engine.delete("x", "y", "a", 22)
    figures = engine.statistics("q")
    assert (figures.inserted, figures.refreshed, figures.late, figures.irrelevant) == (1, 1, 1, 1)
    assert (figures.deleted, figures.absent_deletes, figures.tuples) == (1, 1, 6)


def test_the_time_of_single_tuples_is_counted_and_kept(tmp_path):
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y b ?z", window=rpq.Window(size=10, slide=1)))
    engine.push_rows([("v", "w", "c", 1)])
    assert engine.statistics().latency_p99_us == 0
    engine.push_rows([(f"{n}", f"{n + 1}", "ab"[n % 2], n) for n in range(100)])
    found = engine.statistics()
    assert 0 < found.latency_p50_us <= found.latency_p99_us < 1e6
    engine.save(tmp_path / "state")
    engine = rpq.Engine.restore(tmp_path / "state")
    assert engine.statistics().latency_p99_us == found.latency_p99_us
    engine.register(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=1)))
    assert engine.statistics("?x a ?y").latency_p50_us == 0
    engine.insert("x", "y", "a", 100)
    assert engine.statistics("?x a ?y").latency_p50_us > 0


# --- the question -----------------------------------------------------------------------------------------------------


def test_a_pattern_is_a_query_and_paths_stay_what_they_are():
    pattern, path = rpq.Query(CHAIN, window=W, select=["z", "x"]), rpq.Query("a/b?", window=W)
    assert isinstance(pattern, rpq.Query) and type(path) is rpq.Query
    assert pattern.columns == ("z", "x") and path.columns == ("source", "target")
    assert pattern.name == CHAIN and pattern.labels == {"a", "b"}
    for query in (pattern, path):
        assert pickle.loads(pickle.dumps(query)) == copy.copy(query) == copy.deepcopy(query) == query
        assert query.over(rpq.Window(size=3, slide=1)).over(W) == query and hash(query) == hash(copy.copy(query))
        assert eval(repr(query), {"Query": rpq.Query, "Window": rpq.Window}) == query
    assert replace(pattern, distinct=True).distinct


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("?x a b+ ?y", {}, "column 7"),
        ("?x a ?y . ?y", {}, "column 13: the pattern ends too early|column 13"),
        ("u a v . v b _:w", {}, "has no variable.*ASK"),
        (" . ".join(["?x a ?y"] * 33), {}, "too many atoms"),
        (CHAIN, {"select": ["xx"]}, "no variable 'xx'; did you mean 'x'"),
        (CHAIN, {"select": "x"}, "collection"),
        (CHAIN, {"select": []}, "at least one column"),
        (CHAIN, {"select": ["x", "x"]}, "twice"),
        ("?x a _:b", {"select": ["b"]}, "blank node"),
        ("?query a ?y", {}, "column called query"),
        (CHAIN, {"on_budget": "set_aside"}, "on_budget"),
        (CHAIN, {"distinct": 1}, "distinct"),
        (CHAIN, {"sources": ["x"]}, "sources is an option of path queries"),
        (CHAIN, {"matching": "monomorphism"}, "homomorphism"),
        (CHAIN, {"report": "slide", "semantics": "implicit"}, "are explicit"),
        (CHAIN, {"report": "hour"}, "report: expected one of change, slide, time"),
    ],
)
def test_what_is_refused(text, options, message):
    with pytest.raises(rpq.QueryError, match=message):
        rpq.Query(text, window=W, **options)


@pytest.mark.parametrize("text", ["a/b", CHAIN, "SELECT ?x { ?x <a> ?y }", "MATCH (x)-[:a]->(y) RETURN x"])
def test_options_with_their_defaults_apply_to_every_notation(text):
    defaults = {"distinct": False, "matching": "homomorphism", "report": "change", "on_budget": "error", "sources": None}
    assert rpq.Query(text, window=W, **defaults) == rpq.Query(text, window=W)


def test_too_many_literals():
    pattern = " . ".join(f"""?x a '"{n}"'""" for n in range(7))
    with pytest.raises(rpq.QueryError, match="7 places with a literal"):
        rpq.Engine(rpq.Query(pattern, window=W))


def test_the_longest_patterns_are_joined():
    engine = rpq.Engine(rpq.Query(" . ".join(f"?x{n} a ?x{n + 1}" for n in range(32)), window=W, name="q"))
    rows = engine.push_rows([(n, n + 1, "a", 1) for n in range(33)]).rows()
    assert sorted(map(tuple, rows)) == [("q", *range(first, first + 33), 1, "+") for first in (0, 1)]


def test_the_memory_limit_ends_a_push_with_the_rows_before():
    query = rpq.Query(CHAIN, window=rpq.Window(size=10**6, slide=1))
    tuples = [(n % 50, 50 + n % 7, "a", n) if n % 2 else (50 + n % 7, n, "b", n) for n in range(60_000)]
    with pytest.raises(rpq.MemoryLimitError) as caught:
        rpq.Engine(query, memory_limit=8_000_000).push_rows(tuples)
    error = caught.value
    assert error.query == query.name and 0 < error.row < len(tuples)
    wanted = rpq.Engine(query).push_rows(tuples[: error.row])
    assert error.changes.added == wanted.added
    assert error.changes.to_arrow().equals(wanted.to_arrow())


SMALL = """
import rpq
W = rpq.Window(size=6, slide=2)
queries = [
    rpq.Query("?x a ?y . ?y b ?z", window=W, semantics="explicit", name="chain"),
    rpq.Query("?x a ?y . u b ?v", window=W, distinct=True, select=["x"], name="parts"),
    rpq.Query("?x a/b* ?y . ?y b ?z", window=W, semantics="explicit", name="path"),
    rpq.Query("u a ?x . ?x a+ ?y", window=W, semantics="explicit", name="from few"),
]
engine = rpq.Engine(*queries, _capacity=2)
names = "uvw"
changes = engine.push_rows([(names[n % 3], names[n * 2 % 3], "ab"[n % 2], n // 2, "+-"[n % 5 == 4]) for n in range(40)])
engine._check()
print([tuple(row) for row in changes.rows()], sorted(engine.answers("chain")), engine.register(
    rpq.Query("?x b ?y", window=W, name="late")).rows())
"""


@pytest.mark.ci
def test_the_same_without_compiling():
    outputs = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", SMALL],
            env={"NUMBA_DISABLE_JIT": disabled, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] and "'chain'" in outputs[0] and "'path'" in outputs[0] and "'from few'" in outputs[0]
