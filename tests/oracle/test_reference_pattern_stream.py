"""The oracle's windows, rows and counts of patterns on examples worked by hand, each derived from its drawing."""

import pytest

from tests.reference import INT64_MAX, Rejected
from tests.reference_pattern_stream import PatternReference, RegistrationRefused, TooManyRows
from tests.strategies.drawn_patterns import counted, edges, explicit, push, question, shown

CHAIN = "?x a ?y . ?y b ?z"


# --- rows: 2.2, 2.6 --------------------------------------------------------------------------------------------------


def test_a_chain_enters_with_its_last_edge_and_leaves_with_its_first():
    #   W = β = 10       1     12         | 20 (xy.a leaves: 11 -> 20)
    #                    xy.a  yz.b       |
    for make, gone in ((explicit, ["- x y z @20"]), (question, [])):
        engine = PatternReference(make(CHAIN))
        assert push(engine, "x y a 1", "y z b 12") == ["+ x y z @12"]
        assert shown(engine.advance(19)) == []
        assert shown(engine.advance(20)) == gone
        assert engine.answer() == {}


def test_a_delete_is_told_in_implicit_windows_too():
    #   y -b-> z, w: the delete of xy takes both
    engine = PatternReference(question(CHAIN))
    assert push(engine, "x y a 1", "y z b 2", "y w b 3") == ["+ x y z @2", "+ x y w @3"]
    assert push(engine, "x y a 4 -") == ["- x y w @4", "- x y z @4"]
    assert push(engine, "x y a 5") == ["+ x y w @5", "+ x y z @5"]


def test_rows_come_as_often_as_bindings_do():
    #   x -a-> y1, y2      y1, y2 -b-> z
    stream = ("x y1 a 1", "x y2 a 1", "y1 z b 2", "y2 z b 3", "y1 z b 4 -", "y2 z b 5 -")
    engine = PatternReference(question(CHAIN, select=("x", "z")))
    assert push(engine, *stream) == ["+ x z @2", "+ x z @3", "- x z @4", "- x z @5"]
    engine = PatternReference(question(CHAIN, select=("x", "z"), distinct=True))
    assert push(engine, *stream) == ["+ x z @2", "- x z @5"]
    #   one edge that brings two bindings brings two rows
    engine = PatternReference(question(CHAIN, select=("z",)))
    assert push(engine, "x1 y a 1", "x2 y a 1", "y z b 2") == ["+ z @2", "+ z @2"]
    assert engine.answer() == {("z",): 2}


def test_one_edge_may_fill_several_atoms():
    #   ?x a ?y . ?y a ?z      x -a-> x fills both, and joins x -a-> y
    engine = PatternReference(question("?x a ?y . ?y a ?z"))
    assert push(engine, "x x a 1") == ["+ x x x @1"]
    assert push(engine, "x y a 2") == ["+ x x y @2"]
    assert push(engine, "x x a 3 -") == ["- x x x @3", "- x x y @3"]


def test_a_pair_with_a_second_path_stays_and_brings_no_row():
    #   ?x a+ ?y . ?y b ?z:   x -a@1-> w -a@2-> y -b@3-> z, and x -a@12-> y
    #   W = β = 10: at 20 1 to 3 leave, so that b@14 decides what is left
    engine = PatternReference(explicit("?x a+ ?y . ?y b ?z"))
    assert push(engine, "x w a 1", "w y a 2", "y z b 3") == ["+ w y z @3", "+ x y z @3"]
    assert push(engine, "x y a 12", "y z b 14") == []
    assert shown(engine.advance(20)) == ["- w y z @20"]
    assert shown(engine.advance(30)) == ["- x y z @30"]


def test_under_distinct_a_solution_leaves_with_its_last_binding():
    #   W = β = 10      x -a@1-> y1 -b@2-> z       x -a@12-> y2 -b@13-> z
    #   at 20 the first binding leaves, at 21 a delete takes the second: told, as the solution leaves now
    text, options = CHAIN, {"select": ("x", "z"), "distinct": True}
    stream = ("x y1 a 1", "y1 z b 2", "x y2 a 12", "y2 z b 13", "x y2 a 21 -")
    for make in (question, explicit):
        assert push(PatternReference(make(text, **options)), *stream) == ["+ x z @2", "- x z @21"]
    #   without DISTINCT the first binding leaves for itself, silently only in the implicit window
    options = {"select": ("x", "z")}
    assert push(PatternReference(question(text, **options)), *stream) == ["+ x z @2", "+ x z @13", "- x z @21"]
    expected = ["+ x z @2", "+ x z @13", "- x z @20", "- x z @21"]
    assert push(PatternReference(explicit(text, **options)), *stream) == expected


def test_isomorphism_ground_atoms_and_products_in_a_stream():
    engine = PatternReference(
        question("?x a ?y . ?y a ?z", name="iso", matching="isomorphism"),
        question("?x a ?y . g b h", name="ground"),
        question("?x a ?y . ?u b ?v", name="product"),
    )
    assert push(engine, "x y a 1", "y x a 2") == []
    assert push(engine, "y z a 3") == ["iso + x y z @3"]
    every = ["x y", "y x", "y z"]
    assert push(engine, "g h b 4") == [f"ground + {xy} @4" for xy in every] + [f"product + {xy} g h @4" for xy in every]
    assert push(engine, "y z a 5 -", "g h b 6 -") == [
        *["iso - x y z @5", "ground - y z @5", "product - y z g h @5"],
        *["ground - x y @6", "ground - y x @6", "product - x y g h @6", "product - y x g h @6"],
    ]


# --- late, out of order, duplicates, counts: 2.3, 2.15 ---------------------------------------------------------------


def test_late_out_of_order_duplicates_and_deletes():
    #   W = 10, β = 5       at 18 the window is (5, ..)
    #   7     18    5 late   6 inside   7 again   6 refreshed by 12   -    - absent   c irrelevant
    engine = PatternReference(question("?x a ?y", "10/5"))
    stream = "x y a 7", "y z a 18", "u v a 5", "u w a 6", "x y a 7", "u w a 12", "x y a 1 -", "x y a 2 -", "x y c 1"
    assert push(engine, *stream) == ["+ x y @7", "+ y z @18", "+ u w @18", "- x y @18"]
    verdicts = {"inserted": 3, "late": 1, "refreshed": 2, "deleted": 1, "absent_deletes": 1, "irrelevant": 1}
    expected = {"tuples": 9, **verdicts, "rows_added": 3, "rows_removed": 1, "answers_live": 2, "edges_live": 2}
    assert counted(engine) == counted(engine, "q") == expected
    assert edges(engine) == ["uw.a@12", "yz.a@18"]
    assert shown(engine.advance(25)) == []  # 12 + 10 = 22 -> 25
    assert engine.answer() == {("y", "z"): 1}


def test_an_edge_that_no_atom_accepts_is_passed_by_and_late_before_that():
    engine = PatternReference(question("?x a k"))
    assert push(engine, "x y a 11", "x k a 12", "x y a 13 -", "x y b 13", "x y a 0", "x y a 14") == ["+ x @12"]
    assert counted(engine, "q") == {
        "tuples": 6, "inserted": 1, "absent_deletes": 1, "late": 1, "passed_by": 2, "irrelevant": 1, "rows_added": 1,
        "answers_live": 1, "edges_live": 1,
    }  # fmt: skip


def test_an_edge_that_was_passed_by_is_lost_for_those_that_need_it_and_for_no_others():
    engine = PatternReference(question("?x a k", "unbounded"))
    push(engine, "x k a 1", "x l a 2")
    engine.register(question("?x a k . ?x a k", "unbounded", name="same"))
    engine.register(question("x a k . ?x a k", "unbounded", name="narrower"))
    for text in ("?x a l", "x a ?y", "?x a ?y", "?x a+ ?y"):
        with pytest.raises(RegistrationRefused):
            engine.register(question(text, "unbounded", name="other"))
    engine.register(question("?x a l", "unbounded", name="late"), start="empty")
    assert push(engine, "y l a 3") == ["late + y @3"]
    engine.unregister("late")  # what it alone accepted goes with it
    assert push(engine, "z l a 4") == [] and counted(engine)["passed_by"] == 2 and counted(engine)["edges_live"] == 1
    with pytest.raises(RegistrationRefused):
        engine.register(question("?x a l", "unbounded", name="later"))


def test_late_is_late_for_every_window_that_could_read_it():
    #   default: a, W = β = 10        w: a and b, W = 20, β = 10        at 25: (10, ..) and (0, ..)
    #   25     8: late for the default one alone    0: late for both    b@8: the default one does not read it
    engine = PatternReference(question("?x a ?y . ?y a|b ?z in w", windows={"w": "20/10"}))
    assert push(engine, "x y a 25", "y z a 8") == ["+ x y z @25"]
    assert push(engine, "y x a 0", "y w b 8") == ["+ x y w @25"]
    assert push(engine, "y x b 0") == []
    rows = {"rows_added": 2, "answers_live": 2, "edges_live": 3}
    assert counted(engine) == {"tuples": 5, "inserted": 3, "late": 2, **rows}
    #   to refresh in one window what another refuses is a refresh
    assert push(engine, "y z a 9") == []
    assert counted(engine)["refreshed"] == 1
    #   ... even if it comes new into another one
    assert push(engine, "y z a 26") == []
    assert edges(engine) == ["xy.a@25", "yz.a@26"] and edges(engine, graph="w")[-1] == "yz.a@26"
    assert (counted(engine, "q")["inserted"], counted(engine, "q")["refreshed"]) == (3, 2)
    #   a count window refuses nothing
    engine = PatternReference(question("?x a ?y . ?y a ?z in w", windows={"w": "count 5"}))
    assert push(engine, "x y a 25", "y z a 8") == ["+ x y z @25"]
    assert "late" not in counted(engine)


def test_a_declared_window_that_no_atom_reads_takes_nothing():
    engine = PatternReference(question("?x a ?y", windows={"w": "unbounded"}))
    push(engine, "x y a 25", "x y a 10", "x y b 25")
    assert counted(engine)["late"] == counted(engine)["irrelevant"] == 1
    assert engine.graphs()["w"] == {}
    with pytest.raises(Rejected, match="w"):
        question("?x a ?y in w")


def test_boundaries_of_several_windows_in_the_order_of_time():
    #   default: W = β = 10       w: W = 7, β = 4         ?x a ?y (default) . ?y b ?z (w)
    #   x y a 1 leaves at 20 (11)        y z b 2 at 12 (9)     y w b 13 at 20 (20): one event with xy
    engine = PatternReference(explicit("?x a ?y . ?y b ?z in w", windows={"w": "7/4"}))
    assert push(engine, "x y a 1", "y z b 2", "y w b 13") == ["+ x y z @2", "- x y z @12", "+ x y w @13"]
    assert shown(engine.advance(19)) == []
    assert shown(engine.advance(20)) == ["- x y w @20"]
    #   two queries: each its events, in the order of time
    engine = PatternReference(explicit("?x a ?y", "3", "p"), explicit("?x a ?y", "4", "r"))
    push(engine, "x y a 1")
    assert shown(engine.advance(99)) == ["p - x y @6", "r - x y @8"]


def test_negative_times_and_a_window_shorter_than_its_slide():
    #   W = 3, β = 10: -8 leaves at 0 (-5 -> 0), 1 at 10 (4), 9 at 20 (12)
    engine = PatternReference(explicit("?x a ?y", "3/10"))
    assert push(engine, "x y a -8", "y z a 1", "z w a 9") == ["+ x y @-8", "- x y @0", "+ y z @1", "+ z w @9"]
    assert shown(engine.advance(20)) == ["- y z @10", "- z w @20"]


def test_a_rejected_tuple_moves_and_counts_nothing():
    engine = PatternReference(question("?x a ?y in w", None, windows={"w": "10"}))
    push(engine, "x y a 1")
    before = engine.counts()
    for time in (INT64_MAX - 9, INT64_MAX + 1, -INT64_MAX - 2):
        with pytest.raises(Rejected):
            push(engine, f"x y c {time}")
    with pytest.raises(Rejected):
        engine.push("x", "y", "a", 5, "=")
    assert (engine.time, engine.counts()) == (1, before)
    push(engine, f"x y c {INT64_MAX - 10}")
    #   a count window adds nothing to a time
    assert push(PatternReference(question("?x a ?y", "count 10")), f"x y a {INT64_MAX}") == [f"+ x y @{INT64_MAX}"]


# --- count and unbounded windows: 2.3 --------------------------------------------------------------------------------


def test_a_count_window_holds_the_last_inserts():
    #   n = 2            1     2        3             4
    #                    xy    yz       zw, xy out    wx, yz out
    stream = "x y a 1", "y z a 2", "z w a 3", "w x a 4"
    engine = PatternReference(explicit("?x a ?y", "count 2"))
    assert push(engine, *stream) == ["+ x y @1", "+ y z @2", "- x y @3", "+ z w @3", "- y z @4", "+ w x @4"]
    engine = PatternReference(question("?x a ?y", "count 2"))
    assert push(engine, *stream) == ["+ x y @1", "+ y z @2", "+ z w @3", "+ w x @4"]
    assert engine.answer() == {("z", "w"): 1, ("w", "x"): 1}
    assert shown(engine.advance(10**9)) == []  # it knows no time
    assert counted(engine)["edges_live"] == 2


def test_a_count_window_with_a_step_moves_when_the_step_is_full():
    #   n = 3, m = 2: after N inserts it holds numbers > ⌊N/2⌋·2 − 3
    #   N      1    2    3     4         5     6
    #   bound  -3   -1   -1    1         1     3
    #   out                    1 (xa)          2, 3 (xb, xc)
    engine = PatternReference(explicit("x a ?y", "count 3/2"))
    assert push(engine, "x a a 1", "x b a 2", "x c a 3") == ["+ a @1", "+ b @2", "+ c @3"]
    assert push(engine, "x d a 4", "x e a 5") == ["- a @4", "+ d @4", "+ e @5"]
    assert push(engine, "x f a 6") == ["- b @6", "- c @6", "+ f @6"]


def test_a_refreshed_edge_gets_the_new_number_and_deletes_count_nothing():
    #   n = 2       1 xy    2 yz    3 xy again     - zw (absent)     4 zw: yz (2) is out, xy (3) stays
    engine = PatternReference(explicit("?x a ?y", "count 2"))
    assert push(engine, "x y a 1", "y z a 2", "x y a 3") == ["+ x y @1", "+ y z @2"]
    assert push(engine, "z w a 4 -") == []
    assert push(engine, "z w a 5") == ["- y z @5", "+ z w @5"]
    #   a delete makes no room: 3 (xy) goes, 5 pushes out only what is older than 4
    assert push(engine, "x y a 6 -", "u v a 7") == ["- x y @6", "+ u v @7"]
    assert engine.answer() == {("z", "w"): 1, ("u", "v"): 1}
    verdicts = {"inserted": 4, "refreshed": 1, "deleted": 1, "absent_deletes": 1}
    assert {key: counted(engine)[key] for key in verdicts} == verdicts


def test_an_insert_that_evicts_the_edge_that_it_refreshes_brings_no_rows():
    #   n = 1       1 xy       2 xy: number 1 is out, and comes as 2
    engine = PatternReference(explicit("?x a ?y", "count 1"))
    assert push(engine, "x y a 1", "x y a 2", "x y a 1") == ["+ x y @1"]
    assert edges(engine) == ["xy.a@2"]  # the larger time, out of order or not


def test_an_eviction_and_its_insert_are_one_event():
    #   n = 2, shown as z:    1 x1 y a    2 y z b    3 y z b: x1 y is out    4 x2 y a: y z (3) stays
    engine = PatternReference(explicit(CHAIN, "count 2", select=("z",)))
    assert push(engine, "x1 y a 1", "y z b 2") == ["+ z @2"]
    assert push(engine, "y z b 3") == ["- z @3"]  # a refresh moves the window
    assert push(engine, "x2 y a 4") == ["+ z @4"]
    #   the insert brings the solution that the eviction takes: nothing is told
    #   n = 3, shown as z:    1 x1 y a    2 y z b    3 u v c    4 x2 y a, and x1 y is out
    engine = PatternReference(explicit("?x a ?y . ?y b|c ?z", "count 3", select=("z",)))
    assert push(engine, "x1 y a 1", "y z b 2", "u v c 3") == ["+ z @2"]
    assert push(engine, "x2 y a 4") == []


def test_implicit_count_windows_are_silent_on_evictions_alone():
    #   n = 2       1 xy   2 yz   - yz: told     3 zw     4 wx: xy (1) went at 3, in silence
    engine = PatternReference(question("?x a ?y", "count 2"))
    assert push(engine, "x y a 1", "y z a 2", "y z a 3 -") == ["+ x y @1", "+ y z @2", "- y z @3"]
    assert push(engine, "z w a 4") == ["+ z w @4"]
    assert push(engine, "x y a 5 -") == []  # absent: it had been evicted


def test_one_numbering_serves_all_atoms_of_a_window():
    #   n = 2 over {a, b}:    1 xy.a    2 yz.b    c: met by no atom     3 yw.b: xy.a is out
    engine = PatternReference(explicit(CHAIN, "count 2"))
    assert push(engine, "x y a 1", "y z b 2", "u v c 3") == ["+ x y z @2"]
    assert push(engine, "y w b 4") == ["- x y z @4"]
    #   !(a) meets every label but a, those never seen too
    engine = PatternReference(explicit("?x !(a) ?y", "count 2"))
    assert push(engine, "x y b 1", "y z a 2", "y z c 3", "z w new 4") == ["+ x y @1", "+ y z @3", "- x y @4", "+ z w @4"]
    #   atoms over another window number for themselves
    engine = PatternReference(explicit("?x a ?y . ?y b ?z in w", "count 1", windows={"w": "count 1"}))
    assert push(engine, "x y a 1", "y z b 2", "y w b 3") == ["+ x y z @2", "- x y z @3", "+ x y w @3"]


def test_the_time_boundary_that_an_insert_crosses_is_an_event_before_its_eviction():
    #   default: a, W = β = 10       w: b, n = 1
    #   1      2           | 20: xy.a leaves |  20 y w b: evicts yz.b, xy.a is gone already
    engine = PatternReference(explicit("?x a ?y . ?y b ?z in w", windows={"w": "count 1"}))
    assert push(engine, "x y a 1", "y z b 2", "y w b 20") == ["+ x y z @2", "- x y z @20"]
    assert push(engine, "x y a 20") == ["+ x y w @20"]
    #   the eviction alone takes what the boundary left
    assert push(engine, "y z b 21") == ["- x y w @21", "+ x y z @21"]


def test_an_unbounded_window_forgets_by_deletes_alone():
    engine = PatternReference(explicit("?x a ?y", "unbounded"))
    assert push(engine, "x y a 1", "y z a 1000000", "z w a -5") == ["+ x y @1", "+ y z @1000000", "+ z w @1000000"]
    assert "late" not in counted(engine)
    assert push(engine, "x y a 2 -") == ["- x y @1000000"]


# --- streams: 2.4 ----------------------------------------------------------------------------------------------------


def test_a_window_on_a_stream_reads_that_stream_alone():
    #   s: x y a          t: y z a          without a name: z w a
    stream = ("x y a 1 on s", "y z a 2 on t", "z w a 3")
    assert push(PatternReference(question("?x a ?y", "10 on s")), *stream) == ["+ x y @1"]
    assert push(PatternReference(question("?x a ?y", "10 on t")), *stream) == ["+ y z @2"]
    assert push(PatternReference(question("?x a ?y", "10 on u")), *stream) == []
    assert push(PatternReference(question("?x a ?y", "10")), *stream) == ["+ x y @1", "+ y z @2", "+ z w @3"]
    engine = PatternReference(question("?x a ?y . ?y a ?z in t", "10 on s", windows={"t": "10 on t"}))
    assert push(engine, *stream) == ["+ x y z @2"]
    assert counted(engine)["irrelevant"] == 1


def test_names_play_no_part_in_the_merged_stream():
    #   x y a comes on s and on t; the merged window has one edge, and the delete on t removes it
    engine = PatternReference(
        explicit("?x a ?y", "10", "merged"), explicit("?x a ?y", "10 on s", "s"), explicit("?x a ?y", "10 on t", "t")
    )
    assert push(engine, "x y a 1 on s") == ["merged + x y @1", "s + x y @1"]
    assert push(engine, "x y a 2 on t") == ["t + x y @2"]
    assert push(engine, "x y a 3 - on t") == ["merged - x y @3", "t - x y @3"]
    assert engine.answer("s") == {("x", "y"): 1}
    #   a delete without a name removes it from the merged stream alone
    assert push(engine, "x y a 4 on t", "x y a 5 -") == ["merged + x y @4", "t + x y @4", "merged - x y @5"]
    assert engine.answer("s") == engine.answer("t") == {("x", "y"): 1}
    assert counted(engine, "s")["irrelevant"] == 4
    assert counted(engine, "merged")["refreshed"] == 1


def test_a_count_window_on_a_stream_numbers_that_stream():
    #   n = 1 on s:     1 xy    (t: yz)    2 zw
    engine = PatternReference(explicit("?x a ?y", "count 1 on s"))
    assert push(engine, "x y a 1 on s", "y z a 2 on t", "y z a 3") == ["+ x y @1"]
    assert push(engine, "z w a 4 on s") == ["- x y @4", "+ z w @4"]


# --- static edges: 2.5, 2.7 ------------------------------------------------------------------------------------------

STATIC = [("k", "role", "moderator")]


def test_static_edges_never_leave_and_do_not_move_time():
    #   ?x role moderator . ?x a ?y       W = β = 10: k y a 1 leaves at 20 (11)
    engine = PatternReference(explicit("?x role moderator . ?x a ?y"), static=STATIC)
    assert engine.time is None
    assert push(engine, "k y a 1", "j y a 2") == ["+ k y @1"]
    assert shown(engine.advance(1000)) == ["- k y @20"]
    assert push(engine, "k z a 1000") == ["+ k z @1000"]
    assert edges(engine) == ["kmoderator.role", "kz.a@1000"]
    assert counted(engine)["edges_live"] == 1


def test_paths_run_across_static_edges_and_those_of_the_window():
    engine = PatternReference(explicit("?x a+ ?y . ?y b ?y"), static=[("y", "a", "z"), ("z", "b", "z")])
    assert push(engine, "u v b 1") == ["+ y z @1"]
    assert push(engine, "x y a 1") == ["+ x z @1"]


def test_an_edge_that_is_static_and_in_the_window_is_there_once():
    #   static: x y a       W = β = 10      0        5 xy again     6 deleted in the window      never leaves
    engine = PatternReference(explicit("?x a ?y"), static=[("x", "a", "y"), ("x", "a", "y")])
    assert push(engine, "u v b 0", "x y a 5") == ["+ x y @0"]
    assert edges(engine) == ["xy.a@5"]
    assert push(engine, "x y a 6 -", "x y a 7 -") == []
    assert edges(engine) == ["xy.a"]
    counts = {key: counted(engine)[key] for key in ("inserted", "deleted", "absent_deletes", "answers_live")}
    assert counts == {"inserted": 1, "deleted": 1, "absent_deletes": 1, "answers_live": 1}
    assert push(engine, "x y a 8") == [] and shown(engine.advance(99)) == []


def test_a_named_window_reads_no_static_edges_and_without_a_default_window_they_are_the_default_graph():
    named = explicit("?x a ?y in w", None, windows={"w": "10"})
    engine = PatternReference(named, static=[("x", "a", "y")])
    assert push(engine, "y z a 1") == ["+ y z @1"]
    both = explicit("?x a ?y . ?y a ?z in w", None, windows={"w": "10"})
    engine = PatternReference(both, static=[("x", "a", "y"), ("y", "a", "x")])
    assert push(engine, "y z a 1", "u x a 2", "x w a 3") == ["+ x y z @1", "+ y x w @3"]
    #   an atom over static edges alone: no tuple is relevant to it
    engine = PatternReference(explicit("?x a ?y", None), static=[("x", "a", "y")])
    assert push(engine, "y z a 1") == ["+ x y @1"]
    assert counted(engine)["irrelevant"] == 1


def test_what_holds_before_the_first_tuple_is_an_event_of_its_own():
    #   static: x y a.    the first tuple, whatever it is, or advance brings it with its time
    for first, rows in (("u v c 7", []), ("y z a 7", ["+ y z @7"]), ("x y a 7", []), ("x y a 7 -", [])):
        engine = PatternReference(question("?x a ?y"), static=[("x", "a", "y")])
        assert engine.answer() == {}
        assert push(engine, first) == ["+ x y @7", *rows]
    engine = PatternReference(question("?x a ?y"))
    engine.load_static([("x", "a", "y")])
    assert shown(engine.advance(-3)) == ["+ x y @-3"]
    assert shown(engine.advance(5)) == []
    assert shown(engine.register(question("?x a ?y", name="r"), start="empty")) == ["r + x y @5"]
    with pytest.raises(Rejected):
        engine.load_static([("x", "a", "z")])


# --- reports: 2.9 ----------------------------------------------------------------------------------------------------


def test_reports_of_slides_tell_of_exactly_one_window():
    #   W = 10, β = 5: a report at b has (b − 10, b]
    #   1   4   5  | 6         7  -yz | 12: reports 10       | 15: no boundary exceeded (15 is not > 15)
    #   xy  yz  zw | report 5  zw     | wx                   |
    engine = PatternReference(question("?x a ?y", "10/5", report="slide"))
    assert push(engine, "x y a 1", "y z a 4", "z w a 5") == []
    assert push(engine, "z w a 6") == ["+ x y @5", "+ y z @5", "+ z w @5"]
    assert push(engine, "y z a 7 -", "w x a 12") == ["- y z @10"]
    assert push(engine, "u v a 15") == []
    #   16: report 15: (5, 15] has zw (6), wx (12), uv (15), and xy (1) is out: its boundary was 15
    assert push(engine, "u u a 16") == ["- x y @15", "+ u v @15", "+ w x @15"]
    assert engine.answer() == {("z", "w"): 1, ("w", "x"): 1, ("u", "v"): 1, ("u", "u"): 1}
    #   advance brings one report a boundary: 20: zw (6) out, uu in; 25: wx (12) and uv (15); 30: uu (16)
    assert shown(engine.advance(30)) == ["- z w @20", "+ u u @20", "- u v @25", "- w x @25"]
    assert shown(engine.advance(31)) == ["- u u @30"]
    assert counted(engine)["rows_added"] == counted(engine)["rows_removed"] == 6


def test_what_came_and_went_between_two_reports_is_not_told():
    engine = PatternReference(question("?x a ?y", "10/5", report="slide"))
    assert push(engine, "x y a 1", "x y a 2 -", "y z a 3", "y z a 3 -", "y z a 4", "u v b 6") == ["+ y z @5"]
    #   a jump: xy at 6 is reported at 10, leaves at 20 (16): reported at 20; yz (4) leaves at 15
    assert push(engine, "x y a 6", "u v b 1000000000000") == ["+ x y @10", "- y z @15", "- x y @20"]


def test_a_late_edge_belongs_to_the_next_report():
    #   W = β = 10: at 12 report 10 is out; 9 comes late but inside (0, ..): with report 20 it has left already
    engine = PatternReference(question("?x a ?y", report="slide"))
    assert push(engine, "x y a 12", "y z a 9", "u v b 21") == ["+ x y @20"]
    #   W = 20, β = 10: it stays until 30
    engine = PatternReference(question("?x a ?y", "20/10", report="slide"))
    assert push(engine, "x y a 12", "y z a 9", "u v b 21") == ["+ x y @20", "+ y z @20"]


def test_reports_of_time_make_one_event_of_one_moment():
    #   W = β = 10      1             2                   20                        21       30         31
    #                   +xy +yz −xy   +zw +wx (of 1)      all leave, zw comes back   report   zw leaves  report
    engine = PatternReference(question("?x a ?y", report="time"))
    assert push(engine, "x y a 1", "y z a 1", "x y a 1 -") == []
    assert push(engine, "z w a 2") == ["+ y z @1"]
    assert push(engine, "w x a 1") == []
    assert push(engine, "z w a 20") == ["+ w x @2", "+ z w @2"]
    assert shown(engine.advance(20)) == []
    assert shown(engine.advance(21)) == ["- w x @20", "- y z @20"]
    assert shown(engine.advance(30)) == []
    assert shown(engine.advance(31)) == ["- z w @30"]
    #   a boundary between two tuples is a moment too: xy of 1 leaves at 20, told of before 25
    engine = PatternReference(question("?x a ?y", report="time"))
    assert push(engine, "x y a 1", "y z a 25", "u v b 26") == ["+ x y @1", "- x y @20", "+ y z @25"]


def test_a_report_sees_other_windows_as_they_are_at_its_boundary():
    #   default: W = β = 10      w: W = 4, β = 1     ?x a ?y . ?y b ?z in w
    #   1     8                  | report 10: yz (8) is in w      | 12: yz leaves w, xy is left until 20
    chain = question("?x a ?y . ?y b ?z in w", windows={"w": "4/1"}, report="slide")
    engine = PatternReference(chain)
    assert push(engine, "x y a 1", "y z b 8", "u v c 11") == ["+ x y z @10"]
    assert shown(engine.advance(20)) == []
    assert shown(engine.advance(21)) == ["- x y z @20"]


def test_what_holds_before_the_first_tuple_or_at_a_registration_waits_for_the_first_report():
    engine = PatternReference(question("?x a ?y", report="slide"), static=[("x", "a", "y")])
    assert push(engine, "y z a 7") == []
    assert push(engine, "u v b 12") == ["+ x y @10", "+ y z @10"]
    assert engine.register(question("?x a ?y", name="r", report="slide")) == []
    assert engine.register(question("?x a ?y", name="t", report="time")) == []
    #   t at 12, the moment of its registration; y z (7) leaves all at 20
    assert shown(engine.advance(21)) == ["t + x y @12", "t + y z @12", "- y z @20", "r + x y @20", "t - y z @20"]


def test_reports_are_explicit_and_need_a_time_window_as_the_default_one():
    for default, named in ((None, "count 3"), ("count 3", "10"), ("unbounded", "10")):
        with pytest.raises(Rejected, match="time window"):
            question("?x a ?y in w", default, windows={"w": named}, report="slide")
    assert question("?x a ?y in w", None, windows={"w": "10"}, report="slide").reports_at(11) == 20
    with pytest.raises(Rejected, match="explicit"):
        question("?x a ?y", report="time", semantics="implicit")
    assert not explicit("?x a ?y", report="time").is_implicit
    assert question("?x a ?y").is_implicit


# --- the guard on rows: 2.15 -------------------------------------------------------------------------------------------


def test_of_a_tuple_that_brings_too_many_rows_nothing_happens():
    #   static: y -b-> z1, z2, z3        W = β = 10: w v a of 1 leaves at 20
    #   1     22 brings 3 rows to q, after the boundary 20: neither q nor p has seen it
    static = [("y", "b", f"z{i}") for i in range(3)]
    engine = PatternReference(explicit("?x a ?y", name="p"), question(CHAIN), static=static, row_limit=2)
    assert push(engine, "w v a 1") == ["p + w v @1"]
    before = engine.counts(), engine.graphs("q"), engine.time
    with pytest.raises(TooManyRows, match="query 'q': 3 rows"):
        push(engine, "x y a 22")
    assert (engine.counts(), engine.graphs("q"), engine.time) == before
    assert push(engine, "x v a 22") == ["p - w v @20", "p + x v @22"]
    #   a registration is refused, and the engine goes on
    with pytest.raises(TooManyRows):
        engine.register(question("?x b ?y", name="r"))
    assert push(engine, "x v a 23 -") == ["p - x v @23"]
    #   silent rows are none
    engine = PatternReference(question("?x a ?y . ?z a ?w", "count 2"), row_limit=4)
    assert len(push(engine, "x y a 1", "y z a 2")) == 4
    assert len(push(engine, "z w a 3")) == 3
