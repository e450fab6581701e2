"""Count windows, unbounded windows and static edges: examples worked by hand, registering, states, limits, errors."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import rpq
from rpq.language import kinds
from rpq.stream.json_values import JsonValue
from tests.twins import collect

TWO = rpq.CountWindow(size=2)
EVERY = rpq.UnboundedWindow()
TIME = rpq.Window(size=10, slide=10)

as_pattern_and_path = pytest.mark.parametrize("text", ["?x a ?y", "a"], ids=["pattern", "path"])


def push(engine: rpq.Engine, *tuples: str) -> list[str]:
    """Push tuples written "source target label timestamp", with " -" for a delete; rows as "+ x y @5"."""
    return shown(engine.push_rows([tuple_of(text) for text in tuples]))


def one_by_one(engine: rpq.Engine, *tuples: str) -> list[str]:
    """Push each tuple separately."""
    return [row for text in tuples for row in shown(engine.push_rows([tuple_of(text)]))]


def tuple_of(text: str) -> tuple:
    source, target, label, time, *op = text.split()
    return (source, target, label, int(time), *op)


def shown(changes: rpq.Changes) -> list[str]:
    queries = len({row[0] for row in changes.rows()}) > 1
    return [
        " ".join([*([row[0]] if queries else []), row[-1], *map(str, row[1:-2]), f"@{row[-2]}"]) for row in changes.rows()
    ]


def answers(engine: rpq.Engine, name: str | None = None) -> Counter:
    return Counter(" ".join(map(str, row)) for row in engine.answers(name))


def explicit(text: str, window: object, name: str = "", **options: object) -> rpq.Query:
    return rpq.Query(text, window=window, semantics="explicit", name=name, **options)


# --- count windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pushed", [push, one_by_one])
@as_pattern_and_path
def test_a_count_window_holds_the_last_inserts(text, pushed):
    #   n = 2            1     2        3             4
    #                    xy    yz       zw, xy out    wx, yz out
    stream = "x y a 1", "y z a 2", "z w a 3", "w x a 4"
    engine = rpq.Engine(explicit(text, TWO))
    assert pushed(engine, *stream) == ["+ x y @1", "+ y z @2", "- x y @3", "+ z w @3", "- y z @4", "+ w x @4"]
    engine = rpq.Engine(rpq.Query(text, window=TWO))
    assert pushed(engine, *stream) == ["+ x y @1", "+ y z @2", "+ z w @3", "+ w x @4"]
    assert answers(engine) == {"z w": 1, "w x": 1}
    assert shown(engine.advance(10**9)) == []  # it knows no time
    assert engine.statistics().edges_live == engine.statistics(text).edges_live == 2


@as_pattern_and_path
def test_a_step_moves_the_window_when_it_is_full(text):
    #   n = 3, m = 2: after N inserts it holds numbers > ⌊N/2⌋·2 − 3
    #   N    1    2    3    4         5     6
    #   out                 1 (a)           2, 3 (b, c)
    engine = rpq.Engine(explicit(text, rpq.CountWindow(size=3, step=2)))
    assert push(engine, "x a a 1", "x b a 2", "x c a 3") == ["+ x a @1", "+ x b @2", "+ x c @3"]
    assert push(engine, "x d a 4", "x e a 5") == ["- x a @4", "+ x d @4", "+ x e @5"]
    assert sorted(push(engine, "x f a 6")) == ["+ x f @6", "- x b @6", "- x c @6"]


@as_pattern_and_path
def test_a_refreshed_edge_gets_the_new_number_and_deletes_count_nothing(text):
    #   n = 2       1 xy    2 yz    3 xy again     - zw (absent)     4 zw: yz (2) is out, xy (3) stays
    engine = rpq.Engine(explicit(text, TWO))
    assert push(engine, "x y a 1", "y z a 2", "x y a 3") == ["+ x y @1", "+ y z @2"]
    assert push(engine, "z w a 4 -", "z w a 5") == ["- y z @5", "+ z w @5"]
    #   a delete makes no room: xy (3) goes, 5 evicts nothing
    assert push(engine, "x y a 6 -", "u v a 7") == ["- x y @6", "+ u v @7"]
    assert answers(engine) == {"z w": 1, "u v": 1}
    for figures in (engine.statistics(), engine.statistics(text)):
        counts = figures.inserted, figures.refreshed, figures.deleted, figures.absent_deletes
        assert counts == (4, 1, 1, 1)


@pytest.mark.parametrize("step", [1, 3])
@as_pattern_and_path
def test_an_insert_that_evicts_the_edge_that_it_refreshes_brings_no_rows(text, step):
    engine = rpq.Engine(explicit(text, rpq.CountWindow(size=1, step=step)))
    assert push(engine, "x y a 1") + push(engine, *["x y a 2"] * 7) == ["+ x y @1"]
    assert engine.statistics(text).refreshed == engine.statistics().refreshed == 7


def test_rows_of_an_eviction_and_its_insert_are_net():
    #   n = 3, shown as z:    1 x1 y a    2 y z b    3 u v c    4 x2 y a, and x1 y is out: z is there all the time
    stream = "x1 y a 1", "y z b 2", "u v b 3", "x2 y a 4", "x2 y a 5 -"
    for options in ({"select": ["z"]}, {"select": ["z"], "distinct": True}):
        for semantics in ("explicit", "implicit"):
            query = rpq.Query("?x a ?y . ?y b ?z", window=rpq.CountWindow(size=3), semantics=semantics, **options)
            assert push(rpq.Engine(query), *stream) == ["+ z @2", "- z @5"]
    #   a path from x to z over y or w:   1 xy  2 yz  3 xw  4 wz (xy out: the path over w holds, the other is gone)
    engine = rpq.Engine(explicit("a/b", rpq.CountWindow(size=3)))
    assert push(engine, "x y a 1", "y z b 2", "x w a 3") == ["+ x z @2"]
    assert push(engine, "w z b 4") == []
    assert push(engine, "w z b 5 -") == ["- x z @5"]


def test_rows_of_two_meanings_of_a_literal_are_net():
    #   n = 1: the literal "k" means the vertex "k" and the vertex k: x a "k" goes, x a k comes
    engine = rpq.Engine(explicit("""?x a '"k"'""", rpq.CountWindow(size=1)))
    assert push(engine, 'x "k" a 1', "x k a 2", "y k a 3") == ["+ x @1", "- x @3", "+ y @3"]


def test_implicit_is_silent_on_evictions_alone():
    #   n = 2       1 xy   2 yz   - yz: told     3 zw     4 wx: xy (1) went at 3, in silence
    for text, options in (("?x a ?y", {}), ("a", {}), ("?x a ?y", {"select": ["y", "x"], "distinct": True})):
        engine = rpq.Engine(rpq.Query(text, window=TWO, **options))
        rows = push(engine, "x y a 1", "y z a 2", "y z a 3 -", "z w a 4", "x y a 5 -")
        assert [row[0] for row in rows] == ["+", "+", "-", "+"]


def test_one_numbering_serves_all_atoms_and_all_labels_that_a_set_admits():
    #   n = 2 over {a, b}:    1 xy.a    2 yz.b    c: read by no atom     3 yw.b: xy.a is out
    engine = rpq.Engine(explicit("?x a ?y . ?y b ?z", TWO), explicit("a/b", TWO))
    assert Counter(push(engine, "x y a 1", "y z b 2", "u v c 3")) == {"?x a ?y . ?y b ?z + x y z @2": 1, "a/b + x z @2": 1}
    assert Counter(push(engine, "y w b 4")) == {"?x a ?y . ?y b ?z - x y z @4": 1, "a/b - x z @4": 1}
    #   !(a) admits every label but a, those never seen too
    engine = rpq.Engine(explicit("!(a)", TWO))
    assert push(engine, "x y b 1", "y z a 2", "y z c 3", "z w new 4") == ["+ x y @1", "+ y z @3", "- x y @4", "+ z w @4"]
    assert engine.statistics().edges_live == 2


def test_loops_are_numbered_where_paths_are_simple():
    #   n = 2: the loop xx takes a number, though it is no simple path
    for text in ("?x a ?y", "a"):
        engine = rpq.Engine(explicit(text, TWO, paths="simple"))
        assert push(engine, "x y a 1", "x x a 2", "y z a 3") == ["+ x y @1", "- x y @3", "+ y z @3"]
        assert engine.statistics(text).edges_live == 2


def test_the_time_boundary_that_an_insert_crosses_comes_before_its_eviction():
    #   W = β = 10 for one query, n = 1 for the other: at 20 xy leaves the one, then is evicted from the other
    engine = rpq.Engine(explicit("a", TIME, "time"), explicit("?x a ?y", rpq.CountWindow(size=1), "count"))
    assert push(engine, "x y a 1") == ["time + x y @1", "count + x y @1"]
    rows = push(engine, "y z a 25")
    assert rows[0] == "time - x y @20"
    assert sorted(rows[1:]) == ["count + y z @25", "count - x y @25", "time + y z @25"]


def test_simple_paths_that_take_too_long_in_a_count_window():
    window = rpq.CountWindow(size=30)
    options = {"paths": "simple", "simple_budget": 4, "on_budget": "set_aside"}
    query = explicit("a/b*/a", window, **options)
    for seed in range(8):
        engine, total, met = rpq.Engine(query), Counter(), 0
        for n in range(60):
            value = n * (2 * seed + 5) + n * n // 3
            changes = engine.push_rows([(value % 6, value // 6 % 6, "aabb"[value // 36 % 4], n)])
            assert all(report.timestamp == n for report in changes.set_aside)
            met += len(changes.set_aside)
            for row in changes.rows():
                total[row[1:3]] += 1 if row.op == "+" else -1
            assert +total == Counter(engine.answers()), f"seed {seed}, tuple {n}"
            engine._check()
        if met:
            return
    raise AssertionError("no root was set aside")


# --- unbounded windows ------------------------------------------------------------------------------------------------


@as_pattern_and_path
def test_an_unbounded_window_forgets_by_deletes_alone(text):
    engine = rpq.Engine(explicit(text, EVERY))
    assert push(engine, "x y a 1", "y z a 1000000", "z w a -5") == ["+ x y @1", "+ y z @1000000", "+ z w @1000000"]
    assert shown(engine.advance(10**18)) == []
    assert engine.statistics().late == engine.statistics(text).late == 0
    assert push(engine, "x y a 2 -") == [f"- x y @{10**18}"]
    assert push(engine, f"u v a {2**63 - 1}") == [f"+ u v @{2**63 - 1}"]
    assert answers(engine) == {"y z": 1, "z w": 1, "u v": 1}


def test_paths_in_an_unbounded_window_are_exact_under_deletes():
    engine = rpq.Engine(explicit("a+", EVERY))
    push(engine, *(f"{n} {n + 1} a {n}" for n in range(10)), "2 5 a 11")
    gone = [(s, 4) for s in range(4)] + [(3, t) for t in range(5, 11)]
    assert Counter(push(engine, "3 4 a 12 -")) == Counter(f"- {s} {t} @12" for s, t in gone)


# --- static edges -----------------------------------------------------------------------------------------------------


@as_pattern_and_path
def test_what_static_edges_bring_comes_before_the_first_tuple_with_its_time(text):
    for first, rows in (("u v c 7", []), ("y z a 7", ["+ y z @7"]), ("x y a 7", []), ("x y a 7 -", [])):
        for pushed in (push, one_by_one):
            engine = rpq.Engine(rpq.Query(text, window=TIME))
            engine.load_static([("x", "y", "a")])
            assert engine.time is None and answers(engine) == {}
            assert pushed(engine, first) == ["+ x y @7", *rows]
    engine = rpq.Engine(rpq.Query(text, window=TIME))
    engine.load_static([("x", "y", "a")])
    changes = engine.advance(-3)
    assert (shown(changes), changes.added) == (["+ x y @-3"], 1)
    assert shown(engine.advance(5)) == []
    #   a query that starts empty sees them too
    assert shown(engine.register(rpq.Query(text, window=TIME, name="r"), start="empty")) == ["+ x y @5"]


@pytest.mark.parametrize("window", [TIME, rpq.CountWindow(size=2), EVERY], ids=["time", "count", "unbounded"])
@as_pattern_and_path
def test_an_edge_that_is_static_and_in_the_window_is_there_once(text, window):
    #   static: x y a       W = β = 10      0        5 xy again     6 deleted in the window      never leaves
    engine = rpq.Engine(explicit(text, window))
    engine.load_static([("x", "y", "a"), ("x", "y", "a")])
    assert push(engine, "u v b 0", "x y a 5") == ["+ x y @0"]
    assert engine.statistics(text).edges_live == engine.statistics().edges_live == 1
    assert push(engine, "x y a 6 -", "x y a 7 -") == []
    figures = engine.statistics(text)
    counts = figures.inserted, figures.deleted, figures.absent_deletes, figures.answers_live, figures.edges_live
    assert counts == (1, 1, 1, 1, 0)
    assert push(engine, "x y a 8") == [] and shown(engine.advance(99)) == []
    assert answers(engine) == {"x y": 1}


def test_paths_run_across_static_edges_and_those_of_the_window():
    #   static: y a z        W = β = 10: x y a 1 leaves at 20
    for paths in ("walk", "simple"):
        engine = rpq.Engine(explicit("a+", TIME, paths=paths))
        engine.load_static([("y", "z", "a"), ("z", "z", "b")])
        assert Counter(push(engine, "x y a 1")) == {"+ y z @1": 1, "+ x y @1": 1, "+ x z @1": 1}
        assert Counter(shown(engine.advance(1000))) == {"- x y @20": 1, "- x z @20": 1}
        #   far beyond what a cell of a byte can hold, again and again
        for time in range(1000, 20_000, 1700):
            assert Counter(push(engine, f"x y a {time}"))[f"+ x z @{time}"] == 1
            engine._check()
        assert Counter(shown(engine.advance(10**15)))[f"- x z @{(time + 19) // 10 * 10}"] == 1
        assert answers(engine) == {"y z": 1}
        assert engine.witness("y", "z") == rpq.Path(vertices=("y", "z"), labels=("a",))


def test_deletes_leave_static_edges_in_the_index():
    engine = rpq.Engine(explicit("a/b", TIME))
    engine.load_static([("x", "y", "a")])
    assert push(engine, "y z b 1", "x y a 2", "x y a 3 -") == ["+ x z @1"]
    assert push(engine, "y z b 4 -") == ["- x z @4"]
    assert push(engine, "y w b 5", "w w c 6 -") == ["+ x w @5"]
    engine._check()


def test_simple_paths_in_doubt_over_static_edges_never_expire():
    #   a/b*/c from x: y is met twice on the walk x y w y z, so that the pair is in doubt
    engine = rpq.Engine(explicit("a/b*/c", rpq.Window(size=10, slide=1), paths="simple"))
    engine.load_static([("x", "y", "a"), ("y", "w", "b"), ("w", "y", "b"), ("y", "z", "c")])
    assert push(engine, "u v a 1") == ["+ x z @1"]
    for time in range(10, 1500, 50):
        assert push(engine, f"w x b {time}", f"u v a {time}") == []
        engine._check()
    engine.advance(10**12)
    assert answers(engine) == {"x z": 1}


def test_names_of_static_edges_are_kept_though_nobody_reads_them():
    engine = rpq.Engine(rpq.Query("a", window=TIME))
    engine.load_static([("x", "y", "unread"), ("k", "l", "a")])
    for n in range(2000):
        engine.insert(f"v{n}", f"v{n + 1}", "a", 20 * n)
    collect(engine)
    engine._check()
    assert engine.statistics().vertices_live == 6
    #   a query that comes in mid-stream finds them
    assert shown(engine.register(rpq.Query("?x unread ?y", window=TIME, name="r"))) == ["+ x y @39980"]


def test_static_edges_as_tables_and_again():
    engine = rpq.Engine(rpq.Query("a|b", window=TIME))
    engine.load_static({"source": ["x"], "target": ["y"], "label": ["a"]})
    engine.load_static(pa.table({"label": ["b"], "source": ["y"], "target": ["z"], "more": [1]}))
    engine.load_static([])
    assert sorted(push(engine, "u v c 1")) == ["+ x y @1", "+ y z @1"]
    engine = rpq.Engine(rpq.Query("a", window=TIME))
    engine.load_static([])
    assert engine.push_rows([(1, 2, "a", 1)]).added == 1


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("x", "y")], r"row 0: a static edge is \(source, target, label\), not"),
        ([("x", "y", "a"), "xya"], "row 1: a static edge is"),
        ([("x", "y", 3)], "row 0: column 'label'"),
        ([("x", "y", "a"), (1, 2, "a")], "row 1: column 'source'"),
        (7, "rows .source, target, label. or a table, not 7"),
        ({"source": ["x"], "target": ["y"]}, "no column 'label': static edges have the columns source, target, label"),
        ({"source": ["x"], "target": ["y"], "label": ["a"], "op": ["-"]}, "never deleted, and have no column 'op'"),
    ],
)
def test_static_edges_that_are_none(edges, message):
    engine = rpq.Engine(rpq.Query("a", window=TIME))
    with pytest.raises(rpq.InputError, match=message):
        engine.load_static(edges)
    assert push(engine, "u v a 1") == ["+ u v @1"]


def test_static_edges_come_before_the_first_tuple():
    engine = rpq.Engine(rpq.Query("a", window=TIME))
    engine.insert("x", "y", "a", 3)
    with pytest.raises(rpq.InputError, match="before the first tuple, and the stream time is 3 already"):
        engine.load_static([("x", "y", "a")])


# --- registering ------------------------------------------------------------------------------------------------------


def test_a_count_window_in_mid_stream_is_a_copy_of_one_like_it_or_empty():
    stream = "x y a 1", "y z b 2", "z w a 3"
    engine = rpq.Engine(rpq.Query("a|b", window=TWO))
    push(engine, *stream)
    #   the same labels, size and step: whatever kind of query it is
    assert Counter(shown(engine.register(explicit("?x b ?y . ?y a ?z", TWO, "copy")))) == {"+ y z w @3": 1}
    assert Counter(shown(engine.register(explicit("b/a", TWO, "path")))) == {"+ y w @3": 1}
    longer, slower = rpq.CountWindow(size=3), rpq.CountWindow(size=2, step=2)
    for text, window in (("a", TWO), ("a|b", longer), ("a|b", slower), ("!c", TWO)):
        with pytest.raises(rpq.RegistrationError, match="start=.empty.") as refused:
            engine.register(rpq.Query(text, window=window, name="other"))
        assert refused.value.available_from is None
    #   one that starts empty numbers from 1, and is no help for others
    assert shown(engine.register(explicit("?x a ?y", TWO, "empty"), start="empty")) == []
    with pytest.raises(rpq.RegistrationError):
        engine.register(explicit("?x a ?y", TWO, "another"))
    rows = push(engine, "u v a 4", "v w b 5", "w x a 6")
    assert [row for row in rows if row.startswith("empty")] == ["empty + u v @4", "empty + w x @6"]
    assert [row for row in rows if row.startswith("copy")] == ["copy - y z w @4", "copy + v w x @6"]
    #   the copy goes on where the first one was when that is gone
    engine.unregister("a|b")
    assert len(engine.register(rpq.Query("a|b", window=TWO, name="back")).rows()) == 2


def test_an_unbounded_window_in_mid_stream_needs_every_edge_that_ever_came():
    engine = rpq.Engine(rpq.Query("?x a ?y", window=EVERY))
    push(engine, "x y a 1", "y z b 2")
    assert shown(engine.register(rpq.Query("a+", window=EVERY, name="a"))) == ["+ x y @2"]
    with pytest.raises(rpq.RegistrationError, match="such as one with timestamp 2") as refused:
        engine.register(rpq.Query("b", window=EVERY, name="b"))
    assert refused.value.available_from is None
    assert shown(engine.register(rpq.Query("b", window=EVERY, name="b"), start="empty")) == []
    assert push(engine, "u v b 3") == ["+ u v @3"]


def test_what_a_count_window_evicts_is_lost():
    engine = rpq.Engine(rpq.Query("a", window=rpq.CountWindow(size=1)))
    push(engine, "x y a 5", "y z a 6")
    with pytest.raises(rpq.RegistrationError) as refused:
        engine.register(rpq.Query("a", window=rpq.Window(size=10, slide=1), name="time"))
    assert refused.value.available_from == 15
    with pytest.raises(rpq.RegistrationError):
        engine.register(rpq.Query("a", window=EVERY, name="every"))
    #   what it holds still is there for others
    assert shown(engine.register(rpq.Query("?x a ?y", window=rpq.Window(size=1, slide=1), name="short"))) == ["+ y z @6"]


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["?x a ?y . ?y a ?z", "a/a"])
def test_memory_is_bounded_by_the_count_window(text):
    engine = rpq.Engine(rpq.Query(text, window=rpq.CountWindow(size=100)), _capacity=64)

    def held(first: int) -> tuple[int, int, int]:
        for begin in range(first, first + 5_000, 500):
            engine.push_rows([(f"v{n}", f"v{n + 1}", "a", 1) for n in range(begin, begin + 500)], collect=False)
        engine._check()
        figures = engine.statistics()
        return figures.edges_live, figures.vertices_live, figures.index_bytes

    before, after = held(0), held(5_000)
    assert after[0] < 10_000 and after[1] < 10_000 and after[2] <= before[2] * 1.2
    collect(engine)
    assert engine.statistics().edges_live == 100 and engine.statistics().vertices_live == 101


# --- durations, writing down, states, errors ----------------------------------------------------------------------------


def test_windows_without_time_go_with_durations():
    day = timedelta(days=1)
    engine = rpq.Engine(
        rpq.Query("a", window=rpq.Window(size="1d", slide="1d"), name="day"), rpq.Query("a", window=TWO, name="two")
    )
    start = datetime(2024, 1, 1)
    rows = engine.push_rows([("x", "y", "a", start), ("y", "z", "a", start + 9 * day)]).rows()
    assert [row.query for row in rows] == ["day", "two", "day", "two"] and rows[-1].timestamp == start + 9 * day
    assert len(engine.answers("two")) == 2 and len(engine.answers("day")) == 1
    #   alone they take any timestamps
    assert rpq.Engine(rpq.Query("a", window=EVERY)).push_rows([("x", "y", "a", start)]).rows()[0].timestamp == start
    assert rpq.Engine(rpq.Query("a", window=TWO), time_unit="s").push_rows([("x", "y", "a", 5)]).added == 1


@pytest.mark.parametrize("window", [TIME, rpq.CountWindow(size=9, step=4), EVERY], ids=["time", "count", "unbounded"])
@as_pattern_and_path
def test_windows_are_written_down_and_read(text, window):
    query = rpq.Query(text, window=window)
    assert kinds.read_query(JsonValue(json.loads(json.dumps(kinds.query_json(query))))) == query
    assert pickle.loads(pickle.dumps(query)) == query
    assert query.over(TIME).window == TIME and rpq.Query(text, window=TIME).over(window) == query
    assert eval(repr(query), {"Query": rpq.Query, **vars(rpq)}) == query


@pytest.mark.parametrize("value", [0, True, 1.5, 2**60])
def test_sizes_and_steps_of_count_windows_are_whole_numbers(value):
    with pytest.raises(rpq.QueryError, match="the size of a count window is a"):
        rpq.CountWindow(size=value)
    with pytest.raises(rpq.QueryError, match="the step of a count window is a"):
        rpq.CountWindow(size=5, step=value)


def test_a_window_is_a_window():
    with pytest.raises(rpq.QueryError, match=r"rpq.CountWindow\(size=…, step=…\) or rpq.UnboundedWindow\(\), not 10"):
        rpq.Query("a", window=10)


def _busy() -> rpq.Engine:
    engine = rpq.Engine(
        explicit("a/b*", rpq.CountWindow(size=12, step=5), "count path"),
        explicit("?x a ?y . ?y b ?z", rpq.CountWindow(size=12, step=5), "count pattern"),
        explicit("(a|b)+", EVERY, "every path"),
        explicit("?x b ?y", EVERY, "every pattern"),
        explicit("a/b", TIME, "time"),
    )
    engine.load_static([("v1", "v2", "b"), ("s", "v3", "a"), ("s", "t", "c")])
    engine.push_rows([(f"v{n % 7}", f"v{n * 5 % 8}", "ab"[n % 2], n, "+-"[n % 9 == 8]) for n in range(60)])
    engine.register(explicit("b", rpq.CountWindow(size=3), "late"), start="empty")
    engine.register(explicit("?x b ?y", rpq.CountWindow(size=3), "later"), start="empty")
    engine.push_rows([(f"v{n % 7}", f"v{n * 3 % 8}", "ab"[n % 2], n) for n in range(60, 67)])
    return engine


@pytest.mark.parametrize("threads", [1, 2])
def test_saved_and_restored_it_goes_on_as_if_nothing_had_been(tmp_path, threads):
    engine = _busy()
    engine.save(tmp_path / "state")
    again = rpq.Engine.restore(tmp_path / "state", threads=threads)
    again._check()
    assert again.queries == engine.queries
    more = [(f"v{n % 7}", f"v{n * 2 % 9}", "ab"[n % 3 % 2], n // 2, "+-"[n % 7 == 6]) for n in range(130, 200)]
    for row in more:
        assert Counter(again.push_rows([row]).rows()) == Counter(engine.push_rows([row]).rows())
    for query in engine.queries:
        assert Counter(again.answers(query.name)) == Counter(engine.answers(query.name))
        figures, others = engine.statistics(query.name), again.statistics(query.name)
        for figure in ("inserted", "refreshed", "deleted", "late", "rows_added", "rows_removed", "edges_live"):
            assert getattr(figures, figure) == getattr(others, figure), (query, figure)
    assert "start" not in engine.extra
    #   whether it was whole is known as well
    with pytest.raises(rpq.RegistrationError):
        again.register(explicit("b", rpq.CountWindow(size=3), "copy"))
    assert again.register(explicit("a*/b", rpq.CountWindow(size=12, step=5), "copy")).rows()


def test_static_edges_that_wait_for_the_first_tuple_are_saved(tmp_path):
    engine = rpq.Engine(rpq.Query("a", window=TIME))
    engine.load_static([("x", "y", "a")])
    engine.save(tmp_path / "state")
    again = rpq.Engine.restore(tmp_path / "state")
    again.load_static([("y", "z", "a")])
    assert sorted(push(again, "u v c 4")) == ["+ x y @4", "+ y z @4"]
    again.save(tmp_path / "state")
    last = rpq.Engine.restore(tmp_path / "state")
    assert answers(last) == {"x y": 1, "y z": 1} and push(last, "x y a 5", "y z a 6 -") == []


def test_spark_refuses_windows_that_its_partitions_cannot_divide():
    pytest.importorskip("pyspark")
    from rpq.spark.columns import queries_in_unit
    from rpq.spark.errors import PipelineError

    for window in (TWO, EVERY):
        with pytest.raises(PipelineError, match=r"has .*Window\(.*Spark supports windows of time"):
            queries_in_unit([rpq.Query("a", window=window)], None)
