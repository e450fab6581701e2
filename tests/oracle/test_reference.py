"""The oracle's time, rows and counts on examples worked by hand, each derived from the drawing above it.

semantics.md S3, S4, S5, S6, S11
"""

import random

import pytest

from tests.reference import INT64_MAX, INT64_MIN, ReferenceEngine, Rejected
from tests.strategies.drawn import counted, explicit, push, query, shown

# --- time: S3 ------------------------------------------------------------------------------------------------------


def test_the_window_moves_at_multiples_of_the_slide_even_if_its_size_is_none():
    #   W = 30, β = 7       5 + 30 = 35 = 5·7        6 + 30 = 36 -> 6·7 = 42
    #   5   6                                  35              42
    #   xy  yz   ...                           xy leaves       yz leaves
    assert query("a", 30, 7).lower_bound(40) == 5
    engine = ReferenceEngine(explicit("a", 30, 7))
    assert push(engine, "x y a 5", "y z a 6") == ["+ x y @5", "+ y z @6"]
    assert shown(engine.advance(34)) == []
    assert shown(engine.advance(35)) == ["- x y @35"]
    assert shown(engine.advance(41)) == []
    assert shown(engine.advance(42)) == ["- y z @42"]


def test_a_window_may_be_shorter_than_its_slide():
    #   W = 3, β = 10: until 9 the window is (-3, ..), until 19 it is (7, ..), until 29 (17, ..)
    #   5   8  | 10     12        | 20
    #   xy  yz | xy out  7? late  | yz, and wv of 9, out
    #                    9? inside
    engine = ReferenceEngine(explicit("a", 3, 10))
    assert push(engine, "x y a 5", "y z a 8") == ["+ x y @5", "+ y z @8"]
    assert push(engine, "x x b 12") == ["- x y @10"]  # an irrelevant tuple moves time, too
    assert push(engine, "w v a 7") == []
    assert push(engine, "w v a 9") == ["+ w v @12"]
    assert engine.counts()["late"] == 1
    assert shown(engine.advance(20)) == ["- w v @20", "- y z @20"]


def test_negative_timestamps_are_divided_downwards():
    #   W = β = 10        -11 + 10 = -1 -> 0        -7 + 10 = 3 -> 10
    #   -11  | -10  -7      | 0           | 10
    #   xy   |      yz      | xy leaves   | yz leaves
    engine = ReferenceEngine(explicit("a"))
    assert push(engine, "x y a -11", "y z a -7") == ["+ x y @-11", "+ y z @-7"]
    assert shown(engine.advance(-1)) == []
    assert shown(engine.advance(0)) == ["- x y @0"]
    assert shown(engine.advance(9)) == []
    assert shown(engine.advance(10)) == ["- y z @10"]


def test_an_edge_on_a_boundary_is_gone_one_window_later():
    #   W = β = 10: at -10 the window is (-20, ..), at 0 it is (-10, ..)
    engine = ReferenceEngine(explicit("a"))
    assert push(engine, "x y a -10") == ["+ x y @-10"]
    assert shown(engine.advance(0)) == ["- x y @0"]


def test_the_first_tuple_crosses_nothing_and_the_clock_starts_with_it():
    engine = ReferenceEngine(explicit("a", 10, 3))
    assert engine.time is None
    assert push(engine, "x y a 1000") == ["+ x y @1000"]
    assert engine.time == 1000
    #   slides count from 0, not from 1000: 1010 -> 337·3 = 1011
    assert shown(engine.advance(1010)) == []
    assert shown(engine.advance(1011)) == ["- x y @1011"]


def test_a_jump_over_many_slides_takes_each_boundary_in_its_turn():
    #   W = 5, β = 1        0   2   3      5          7          8                     10¹²
    #                       xy  yz  zw     xy leaves  yz leaves  zw leaves             xy
    engine = ReferenceEngine(explicit("a+", 5, 1))
    assert push(engine, "x y a 0", "y z a 2") == ["+ x y @0", "+ x z @2", "+ y z @2"]
    assert push(engine, "z w a 3") == ["+ x w @3", "+ y w @3", "+ z w @3"]
    later = 10**12
    assert push(engine, f"x y a {later}") == [
        *["- x w @5", "- x y @5", "- x z @5"],
        *["- y w @7", "- y z @7"],
        *["- z w @8"],
        f"+ x y @{later}",
    ]


def test_every_tuple_moves_time_whatever_becomes_of_it():
    #   W = β = 10: xy at 1 leaves at 20 (11 -> 20)
    for tuple_at_20 in ("u v b 20", "u v a 20 -"):  # irrelevant, absent delete
        engine = ReferenceEngine(explicit("a"))
        assert push(engine, "x y a 1") == ["+ x y @1"]
        assert push(engine, tuple_at_20) == ["- x y @20"]
        assert engine.time == 20


def test_time_never_goes_back():
    engine = ReferenceEngine(query("a"))
    push(engine, "x y a 25")
    engine.advance(3)
    push(engine, "x y a 24", "x y a 1", "x y b 2", "x y a 3 -")
    assert engine.time == 25


def test_advance_may_set_the_clock():
    #   at 25 the window is (10, ..)
    engine = ReferenceEngine(query("a"))
    assert engine.advance(25) == []
    assert push(engine, "x y a 10") == []
    assert push(engine, "x y a 11") == ["+ x y @25"]


@pytest.mark.parametrize("text", ["u v a {} +", "u v a {} -", "u v unused {} +"])
def test_a_rejected_tuple_moves_and_counts_nothing(text):
    #   the largest timestamp plus 10 that is an int64 is INT64_MAX - 10
    engine = ReferenceEngine(explicit("a", name="q"), explicit("b", 7, name="short"))
    push(engine, "x y a 1")
    before = engine.counts()
    for timestamp in (INT64_MAX - 9, INT64_MAX, INT64_MAX + 1, INT64_MIN - 1):
        with pytest.raises(Rejected):
            push(engine, text.format(timestamp))
    with pytest.raises(Rejected):
        engine.advance(INT64_MAX - 9)
    with pytest.raises(Rejected):
        engine.push("x", "y", "a", 30, "?")
    assert (engine.time, engine.counts(), engine.answers("q")) == (1, before, {("x", "y")})
    assert push(engine, text.format(INT64_MAX - 10))[0] == "- x y @20"
    assert engine.time == INT64_MAX - 10


def test_the_smallest_timestamp_is_a_timestamp():
    engine = ReferenceEngine(explicit("a"))
    push(engine, f"x y a {INT64_MIN}")
    #   -2⁶³ + 10 = …798: the next multiple of 10 is …790
    assert shown(engine.advance(0)) == ["- x y @-9223372036854775790"]


# --- inserts and deletes: S4, S5 ----------------------------------------------------------------------------------


def test_an_edge_keeps_the_larger_of_its_timestamps():
    #   W = 10, β = 5       4   8   3 (out of order)     15 (4 or 3 would leave)    20 (8 leaves: 18 -> 20)
    engine = ReferenceEngine(explicit("a", 10, 5))
    assert push(engine, "x y a 4", "x y a 8", "x y a 3") == ["+ x y @4"]
    assert engine.edges() == {("x", "a", "y"): 8}
    assert engine.counts()["refreshed"] == 2
    assert shown(engine.advance(19)) == []
    assert shown(engine.advance(20)) == ["- x y @20"]


def test_parallel_edges_with_other_labels_are_other_edges():
    engine = ReferenceEngine(explicit("a|b"))
    assert push(engine, "x y a 1", "x y b 2", "y x a 3") == ["+ x y @1", "+ y x @3"]
    assert push(engine, "x y a 4 -") == []
    assert push(engine, "x y b 5 -") == ["- x y @5"]
    assert engine.counts()["inserted"] == 3


def test_an_edge_out_of_order_inside_the_window_counts_and_its_row_carries_the_stream_time():
    #   W = 10, β = 5       8: y -b-> z       then 3: x -a-> y       15: xy leaves
    engine = ReferenceEngine(explicit("a/b", 10, 5))
    assert push(engine, "y z b 8") == []
    assert push(engine, "x y a 3") == ["+ x z @8"]
    assert shown(engine.advance(15)) == ["- x z @15"]


def test_an_insert_outside_the_window_is_late():
    #   W = β = 10: at 25 the window is (10, ..)
    engine = ReferenceEngine(query("a"))
    assert push(engine, "x y a 25", "y z a 10", "z w a 11") == ["+ x y @25", "+ z w @25"]
    assert counted(engine)["late"] == 1
    #   late by its own timestamp, although the edge is there with a younger one
    push(engine, "x y a 10")
    assert counted(engine)["late"] == 2
    assert engine.edges()["x", "a", "y"] == 25


def test_a_delete_takes_an_edge_away_however_often_it_came_and_whatever_its_timestamp():
    #   arrival:  +8  +9  +7   -(2)   -9   +9
    engine = ReferenceEngine(query("a"))
    assert push(engine, "x y a 8", "x y a 9", "x y a 7") == ["+ x y @8"]
    assert push(engine, "x y a 2 -") == ["- x y @9"]
    assert push(engine, "x y a 9 -") == []
    assert push(engine, "x y a 9") == ["+ x y @9"]
    expected = {"tuples": 6, "inserted": 2, "refreshed": 2, "deleted": 1, "absent_deletes": 1}
    assert counted(engine) == {**expected, "rows_added": 2, "rows_removed": 1, "answers_live": 1, "edges_live": 1}


def test_a_delete_older_than_the_window_still_deletes():
    #   W = β = 10: at 25 the window is (10, ..); the delete says 3
    engine = ReferenceEngine(query("a"))
    assert push(engine, "x y a 25", "x y a 3 -") == ["+ x y @25", "- x y @25"]


# --- rows: S6 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("semantics", "second", "expected"),
    [
        #   W = β = 10       0           10
        #                    +xy         boundary, then the tuple
        ("implicit", "x y a 10", ["+ x y @0", "+ x y @10"]),
        ("explicit", "x y a 10", ["+ x y @0", "- x y @10", "+ x y @10"]),
        ("implicit", "x y a 10 -", ["+ x y @0"]),
        ("explicit", "x y a 10 -", ["+ x y @0", "- x y @10"]),
    ],
)
def test_the_example_of_the_contract(semantics, second, expected):
    engine = ReferenceEngine(query("a", semantics=semantics))
    assert push(engine, "x y a 0", second) == expected
    assert engine.counts()["absent_deletes"] == ("-" in second)


def test_a_pair_with_two_paths_leaves_with_the_later_one():
    #   W = β = 10      x --a@1--> y --b@2--> z        1 and 2 leave at 20 (11, 12 -> 20)
    #                   x --a@12-> w --b@13-> z        12 and 13 leave at 30 (22, 23 -> 30)
    engine = ReferenceEngine(explicit("a/b"))
    assert push(engine, "x y a 1", "y z b 2") == ["+ x z @2"]
    assert push(engine, "x w a 12", "w z b 13") == []
    assert shown(engine.advance(29)) == []
    assert shown(engine.advance(30)) == ["- x z @30"]


def test_a_refresh_in_time_keeps_a_pair_without_a_word():
    #   W = 10, β = 5: xy at 1 leaves at 15, refreshed at 14 it leaves at 25
    for semantics in ("implicit", "explicit"):
        engine = ReferenceEngine(query("a", 10, 5, semantics=semantics))
        assert push(engine, "x y a 1", "x y a 14") == ["+ x y @1"]
        assert shown(engine.advance(24)) == []
        assert engine.answers() == {("x", "y")}
        engine.advance(25)
        assert engine.answers() == set()


def test_implicit_windows_forget_in_silence_but_deletes_are_told():
    #   W = β = 10      x --a@1--> y --b@12--> z       a leaves at 20, b at 30
    engine = ReferenceEngine(query("a/b"))
    assert push(engine, "x y a 1", "y z b 12") == ["+ x z @12"]
    assert push(engine, "u u b 20") == []
    assert engine.answers() == set()
    assert push(engine, "y z b 21 -") == []  # the pair had left already
    assert push(engine, "y z b 22", "x y a 23") == ["+ x z @23"]
    assert push(engine, "y z b 24 -") == ["- x z @24"]


def test_only_the_difference_of_a_tuple_is_told():
    #   deleting y --a--> z:  x --a--> y --a--> z, but also x --a--> z
    engine = ReferenceEngine(explicit("a+"))
    assert push(engine, "x y a 1", "y z a 2", "x z a 3") == ["+ x y @1", "+ x z @2", "+ y z @2"]
    assert push(engine, "y z a 4 -") == ["- y z @4"]


def test_explicit_rows_add_up_to_the_answer():
    engine = ReferenceEngine(explicit("a/b*", 7, 3))
    chance = random.Random(5)
    total: dict[tuple, int] = {}
    for time in range(60):
        rows = engine.push(chance.randrange(4), chance.randrange(4), chance.choice("ab"), time, chance.choice("+++-"))
        for row in rows:
            pair = (row.source, row.target)
            total[pair] = total.get(pair, 0) + (1 if row.op == "+" else -1)
        assert {pair for pair, count in total.items() if count} == engine.answers()
        assert set(total.values()) <= {0, 1}


def test_sources_and_targets_restrict_the_answer():
    #   x --a--> y --a--> z
    engine = ReferenceEngine(
        query("a+", name="from", sources=frozenset("x")),
        query("a+", name="to", targets=frozenset("z")),
        query("a+", name="both", sources=frozenset("x"), targets=frozenset("z")),
    )
    assert push(engine, "x y a 1") == ["from + x y @1"]
    assert push(engine, "y z a 2") == ["from + x z @2", "to + x z @2", "to + y z @2", "both + x z @2"]


@pytest.mark.parametrize("paths", ["walk", "simple", "simple_cycle"])
def test_the_running_example_of_the_paper(paths):
    # Figures 1 to 3 and examples 3.1, 3.2, 4.2: our text of the paper lost its labels and times; this stream fits
    # what is said of it. W = 15, β = 1, (follows/mentions)+
    #
    #         follows@13         mentions@4
    #       x ----------> y -----------------> u        y comes again behind v: x y u v y is a walk,
    #       |             ^                  ^ |        x z u v y is the simple path of example 4.2
    #       |follows@6    |mentions@18       | |follows@9
    #       v             +------ v <--------|-+
    #       z -------------------------------+
    #                  mentions@14
    engine = ReferenceEngine(explicit("(follows/mentions)+", 15, 1, paths=paths))
    assert push(engine, "y u mentions 4", "x z follows 6", "u v follows 9") == []
    assert push(engine, "x y follows 13") == ["+ x u @13"]
    assert push(engine, "z u mentions 14") == []
    assert push(engine, "v y mentions 18") == ["+ u y @18", "+ x y @18"]
    #   19: y -> u leaves, x still reaches u by z.  21: x -> z leaves.  24: u -> v leaves
    assert shown(engine.advance(20)) == []
    assert shown(engine.advance(23)) == ["- x u @21", "- x y @21"]
    assert shown(engine.advance(24)) == ["- u y @24"]


def test_the_running_example_without_the_detour():
    #   as above without z --mentions--> u: only the walk x y u v y leads from x to y
    stream = ["y u mentions 4", "x z follows 6", "u v follows 9", "x y follows 13", "v y mentions 18"]
    walk = ReferenceEngine(query("(follows/mentions)+", 15, 1))
    assert push(walk, *stream) == ["+ x u @13", "+ u y @18", "+ x y @18"]
    simple = ReferenceEngine(query("(follows/mentions)+", 15, 1, paths="simple"))
    assert push(simple, *stream) == ["+ x u @13", "+ u y @18"]


def test_a_simple_path_comes_and_goes_with_its_detour():
    #   a/b/c, W = β = 10        x --a@1--> y --b@2--> x --c@3--> z      is no simple path
    #                            y --b@11-> w --c@12-> z                 x y w z is one, until 20 (a@1 leaves)
    engine = ReferenceEngine(explicit("a/b/c", paths="simple"))
    assert push(engine, "x y a 1", "y x b 2", "x z c 3", "y w b 11") == []
    assert push(engine, "w z c 12") == ["+ x z @12"]
    assert push(engine, "w z c 13 -", "w z c 14") == ["- x z @13", "+ x z @14"]
    assert shown(engine.advance(20)) == ["- x z @20"]


# --- several queries, counts: S4, S11 -----------------------------------------------------------------------------


def test_several_queries_each_with_its_window():
    #   p: a    W = 10, β = 10:  window at 21 is (10, ..)
    #   q: a|b  W = 20, β = 5:   window at 21 is (0, ..)
    #
    #        2    4    | 20            21         then at 21, late for one or both:  9, 1, 0
    #        xy.a yz.b | xy leaves p   xw.a
    engine = ReferenceEngine(explicit("a", 10, 10, "p"), explicit("a|b", 20, 5))
    assert push(engine, "x y a 2", "y z b 4") == ["p + x y @2", "+ x y @2", "+ y z @4"]
    assert push(engine, "x w a 21") == ["p - x y @20", "p + x w @21", "+ x w @21"]
    assert push(engine, "u v a 9") == ["+ u v @21"]  # late for p only: the engine has inserted it
    assert push(engine, "x y a 1") == []  # late for p, a refresh for q and the engine
    assert push(engine, "t u a 0") == []  # late for both
    assert push(engine, "x y c 21", "x y c 0") == []  # irrelevant, before the question of late
    assert push(engine, "u v a 21 -") == ["- u v @21"]  # p never had it
    assert push(engine, "u v a 21 -") == []
    rows = {"rows_added": 2, "rows_removed": 1, "answers_live": 1, "edges_live": 1}
    verdicts = {"inserted": 2, "absent_deletes": 2, "late": 3, "irrelevant": 3}
    assert counted(engine, "p") == {"tuples": 10, **verdicts, **rows}
    verdicts = {"inserted": 4, "refreshed": 1, "deleted": 1, "absent_deletes": 1, "late": 1, "irrelevant": 2}
    rows = {"rows_added": 4, "rows_removed": 1, "answers_live": 3, "edges_live": 3}
    assert counted(engine, "q") == {"tuples": 10, **verdicts, **rows}
    rows = {"rows_added": 6, "rows_removed": 2, "answers_live": 4, "edges_live": 3}
    assert counted(engine) == {"tuples": 10, **verdicts, **rows}
    #   boundaries of both in time order: q loses 2 and 4 at 25 (22, 24 -> 25) and 21 at 45 (41 -> 45), p 21 at 40
    assert shown(engine.advance(100)) == ["- x y @25", "- y z @25", "p - x w @40", "- x w @45"]
    assert engine.counts()["edges_live"] == 0


def test_without_a_query_every_tuple_is_irrelevant():
    engine = ReferenceEngine()
    assert push(engine, "x y a 1", "x y a 2 -") == []
    assert counted(engine) == {"tuples": 2, "irrelevant": 2}
    assert engine.time == 2


@pytest.mark.parametrize(
    ("expression", "label", "used"),
    [
        ("a/b", "c", False),
        ("^a", "a", True),
        ("a{0}/b", "a", False),  # no word has an a
        ("!a", "a", False),
        ("!a", "b", True),
        ("!(a|^b)", "a", True),  # as an inverse step
        ("!(a|^b)", "b", True),  # as a forward step
        ("!(a|^a)", "a", False),
        ("!()", "a", True),
        ("^(!a|c)*", "a", False),
    ],
)
def test_labels_that_no_word_has_are_irrelevant(expression, label, used):
    engine = ReferenceEngine(query(expression))
    push(engine, f"x y {label} 1")
    assert counted(engine)["inserted" if used else "irrelevant"] == 1
