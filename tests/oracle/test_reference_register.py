"""The oracle's registering on examples worked by hand, each derived from the drawing above it.

semantics.md S9
"""

import itertools
import random

import pytest

from tests.reference import INT64_MAX, ReferenceEngine, RegistrationRefused, Rejected
from tests.strategies.drawn import counted, explicit, push, query, shown


def test_before_the_first_tuple_any_query_can_be_registered():
    engine = ReferenceEngine(query("a", 5, 5, "p"))
    assert engine.register(query("a/b", 100, 1)) == []
    assert push(engine, "x y a 0", "y z b 50") == ["p + x y @0", "+ x z @50"]


def test_a_query_starts_from_the_content_of_its_window():
    #   p: a, W = 10, β = 5      3    6    | 10
    #                            xy   yz   |
    #   W = 5, β = 5 at 6: (0, ..) holds both; at 10: (5, ..) holds yz only
    engine = ReferenceEngine(query("a", 10, 5, "p"))
    push(engine, "x y a 3", "y z a 6")
    assert shown(engine.register(query("a+", 5, 5))) == ["+ x y @6", "+ x z @6", "+ y z @6"]
    engine.advance(10)
    assert shown(engine.register(query("a+", 5, 5, "r"))) == ["r + y z @10"]
    assert counted(engine, "r") == {"rows_added": 1, "answers_live": 1, "edges_live": 1}
    assert push(engine, "z w a 10") == ["p + z w @10", "+ y w @10", "+ z w @10", "r + y w @10", "r + z w @10"]


def test_refused_while_its_window_reaches_back_to_a_label_that_was_not_kept():
    #   p: a, W = 10, β = 5      4        6      14 | 15        b@4 leaves a window of 10 by 5 at 15 (14 -> 15)
    #                            yz.b !   xy.a      |
    engine = ReferenceEngine(query("a", 10, 5, "p"))
    push(engine, "y z b 4", "x y a 6")
    for time in (6, 14):
        engine.advance(time)
        with pytest.raises(RegistrationRefused, match="from 15 on") as refusal:
            engine.register(query("a|b", 10, 5))
        assert refusal.value.available_from == 15
        assert [q.name for q in engine.queries] == ["p"]
    engine.advance(15)
    assert shown(engine.register(query("a|b", 10, 5))) == ["+ x y @15"]


def test_the_youngest_lost_edge_decides():
    #   W = 10, β = 5: a@4 leaves at 15 (14), b@7 at 20 (17), c@9 is of no use
    engine = ReferenceEngine()
    push(engine, "x y a 4", "x y b 7", "x y b 6", "x y c 9")
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(query("a|b", 10, 5))
    assert refusal.value.available_from == 20
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(query("a", 10, 5))
    assert refusal.value.available_from == 15


def test_refused_while_its_window_reaches_back_behind_the_longest_window_so_far():
    #   p: a, W = 5, β = 5       1    7    | 10            | 15            xy leaves p at 10 (6), yz at 15 (12)
    #                            xy   yz   | xy lost       | yz lost
    #   W = 20, β = 10: at 10 and 20 the window is (-10, ..), (0, ..); at 30 it is (10, ..): both out (21, 27 -> 30)
    engine = ReferenceEngine(query("a", 5, 5, "p"))
    push(engine, "x y a 1", "y z a 7")
    for time in (10, 20, 29):
        engine.advance(time)
        with pytest.raises(RegistrationRefused) as refusal:
            engine.register(query("a", 20, 10))
        assert refusal.value.available_from == 30
    engine.advance(30)
    assert engine.register(query("a", 20, 10)) == []


def test_a_longer_window_is_welcome_while_nothing_is_lost():
    #   as before, at 7: xy and yz are both in the store; with the longer window it keeps them
    engine = ReferenceEngine(query("a", 5, 5, "p"))
    push(engine, "x y a 1", "y z a 7")
    assert shown(engine.register(query("a", 20, 10))) == ["+ x y @7", "+ y z @7"]
    engine.advance(20)
    assert engine.counts("p")["edges_live"] == 0
    assert engine.counts()["edges_live"] == 2
    assert engine.answers("q") == {("x", "y"), ("y", "z")}
    assert push(engine, "x y a 20") == ["p + x y @20"]  # an insert for p, a refresh for q and the engine
    assert (engine.counts("p")["inserted"], engine.counts("p")["refreshed"]) == (3, 0)
    assert (engine.counts("q")["inserted"], engine.counts("q")["refreshed"]) == (0, 1)
    assert (engine.counts()["inserted"], engine.counts()["refreshed"]) == (2, 1)


def test_refused_while_its_window_reaches_back_to_a_late_insert():
    #   p: a, W = β = 10: at 25 the window is (10, ..), so that 8 is late.  8 + 30 = 38 -> 40
    engine = ReferenceEngine(query("a", 10, 10, "p"))
    push(engine, "x y a 25", "u v a 8")
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(query("a", 30, 10))
    assert refusal.value.available_from == 40
    #   W = 15: (5, ..) would hold 8.  W = 12: (8, ..) would not
    with pytest.raises(RegistrationRefused):
        engine.register(query("a", 15, 10))
    assert shown(engine.register(query("a", 12, 10))) == ["+ x y @25"]


def test_deletes_and_unused_labels_are_no_loss():
    engine = ReferenceEngine(query("a", 10, 10, "p"))
    push(engine, "x y a 1", "x y a 2 -", "x y b 3 -", "x y c 4", "u v a 5")
    assert shown(engine.register(query("a|b", 100, 10))) == ["+ u v @5"]


def test_a_query_for_any_label_keeps_every_label():
    engine = ReferenceEngine(query("!()", 10, 10, "p"))
    push(engine, "x y a 1", "y z b 2")
    assert shown(engine.register(query("a/b"))) == ["+ x z @2"]
    assert shown(engine.register(query("b", name="r"))) == ["r + y z @2"]
    assert engine.edges("r") == {("y", "b", "z"): 2}
    #   !a keeps all labels but a
    engine = ReferenceEngine(query("!a", 10, 10, "p"))
    push(engine, "x y a 1", "y z b 2")
    assert shown(engine.register(query("b"))) == ["+ y z @2"]
    with pytest.raises(RegistrationRefused):
        engine.register(query("a/b", name="r"))


def test_the_engine_keeps_an_edge_as_long_as_any_query_needs_it_and_no_longer():
    #   p: a, W = 5, β = 5       long: a, W = 20, β = 5
    #   1    | 10 (leaves p)    12: long unregistered    | 25 (would leave long)
    engine = ReferenceEngine(query("a", 5, 5, "p"), query("a", 20, 5, "long"))
    push(engine, "x y a 1")
    engine.advance(12)
    assert shown(engine.register(query("a", 20, 5))) == ["+ x y @12"]
    engine.unregister("q")
    assert engine.counts()["edges_live"] == 1
    engine.unregister("long")
    assert engine.counts()["edges_live"] == 0
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(query("a", 20, 5))
    assert refusal.value.available_from == 25
    assert [q.name for q in engine.queries] == ["p"]


def test_a_label_is_kept_only_as_long_as_a_query_with_that_label_needs_it():
    #   p: a, W = 100      r: b, W = β = 10      b@1 leaves r at 20, and p has no use for it
    engine = ReferenceEngine(query("a", 100, 10, "p"), query("b", 10, 10, "r"))
    push(engine, "x y a 1", "y z b 1")
    engine.advance(20)
    assert engine.counts()["edges_live"] == 1
    with pytest.raises(RegistrationRefused):
        engine.register(query("a/b", 100, 10))
    assert shown(engine.register(query("a", 100, 10))) == ["+ x y @20"]


def test_a_query_that_starts_empty_knows_later_tuples_only():
    #   p: a, W = 20, β = 10     1    3   | start q empty |  4: yz.b   5: xy.a again   6: delete zw.a
    #                            xy.a zw.a|               |
    engine = ReferenceEngine(query("a", 20, 10, "p"))
    push(engine, "x y a 1", "z w a 3")
    with pytest.raises(RegistrationRefused):
        push(engine, "y z b 3")
        engine.register(explicit("a/b", 20, 10))
    assert engine.register(explicit("a/b", 20, 10), start="empty") == []
    assert push(engine, "y z b 4") == []
    assert push(engine, "x y a 2") == ["+ x z @4"]  # an insert for q, out of order; a refresh for p and the engine
    assert push(engine, "z w a 6 -") == ["p - z w @6"]  # absent for q
    verdicts = {"tuples": 3, "inserted": 2, "absent_deletes": 1}
    assert counted(engine, "q") == {**verdicts, "rows_added": 1, "answers_live": 1, "edges_live": 2}
    assert engine.edges("q") == {("y", "b", "z"): 4, ("x", "a", "y"): 2}
    assert (engine.counts()["refreshed"], engine.counts()["deleted"]) == (1, 1)
    #   with 2 and 4 the pair leaves at 30 (22, 24 -> 30)
    assert shown(engine.advance(30)) == ["- x z @30"]


def test_starting_empty_is_complete_once_the_window_has_moved_on():
    #   W = β = 10, registered at 4: complete from 20 (14 -> 20) on
    engine = ReferenceEngine(query("b", name="p"))
    push(engine, "x y a 4")
    with pytest.raises(RegistrationRefused, match="complete from 20 on"):
        engine.register(query("a"))
    engine.register(query("a"), start="empty")
    push(engine, "x y a 15")
    engine.advance(20)
    #   now q's label is kept, and another query can start from what q saw
    assert shown(engine.register(query("a", name="r"))) == ["r + x y @20"]


def test_names_are_used_once_and_unregistering_is_silent():
    engine = ReferenceEngine(explicit("a"))
    push(engine, "x y a 1")
    with pytest.raises(ValueError):
        engine.register(query("b"))
    with pytest.raises(ValueError):
        engine.register(query("b", name="r"), start="full")
    assert engine.unregister("q") is None
    assert engine.queries == ()
    assert counted(engine) == {"tuples": 1, "inserted": 1, "rows_added": 1}


def test_a_window_that_cannot_begin_now_is_rejected():
    engine = ReferenceEngine(query("a", name="p"))
    push(engine, f"x y a {INT64_MAX - 20}")
    with pytest.raises(Rejected):
        engine.register(query("a", size=21))
    assert len(engine.register(query("a", size=20))) == 1


def test_what_was_lost_is_never_missed():
    """A query registered mid-stream has the answers that it would have had from the start."""
    refused_before: list[int] = []
    for seed, late in itertools.product(range(40), (False, True)):
        chance = random.Random(seed)
        engine = ReferenceEngine(explicit("a", 3, 2, "short"), query("a|b/^b", 8, 3, "long"))
        new = explicit("a/b*", chance.choice([3, 6, 12]), chance.choice([1, 4]))
        oracle = ReferenceEngine(new)
        changed_at, asked_from = chance.randrange(5, 20), chance.randrange(5, 15)
        registered, refusals = False, 0
        for time in range(40):
            if time == changed_at:  # perhaps a label that nobody keeps for a while, and again
                engine.unregister(chance.choice(["short", "long"]))
            if time == changed_at + 3:
                engine.register(query("b", 20, 1, "again"), start="empty")
            label, op = chance.choice("aab"), chance.choice("+++-")
            row = (chance.randrange(3), chance.randrange(3), label, time - late * chance.randrange(6), op)
            engine.push(*row)
            oracle.push(*row)
            if not registered and time >= asked_from:
                try:
                    rows = engine.register(new)
                except RegistrationRefused as refusal:
                    assert refusal.available_from > engine.time
                    refusals += 1
                    continue
                registered = True
                refused_before.append(refusals)
                assert {(r.source, r.target) for r in rows} == oracle.answers()
            if registered:
                assert engine.edges("q") == oracle.edges()
                assert engine.answers("q") == oracle.answers()
    assert 0 in refused_before and max(refused_before) > 0  # both ways were taken
