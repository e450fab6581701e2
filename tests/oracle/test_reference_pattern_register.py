"""The oracle's registering of patterns (2.15) on examples worked by hand, each derived from the drawing above it."""

import pytest

from tests.reference import INT64_MAX, Rejected
from tests.reference_pattern_stream import PatternReference, RegistrationRefused
from tests.strategies.drawn_patterns import counted, edges, explicit, push, question, shown

CHAIN = "?x a ?y . ?y b ?z"


def test_a_pattern_starts_from_the_content_of_its_windows():
    #   p: a and b, W = 20, β = 10      1     12     | q, W = β = 10, and w, W = 20, β = 10, at 21: (10, ..), (0, ..)
    #                                   xy.a  yz.b   |
    engine = PatternReference(question(CHAIN, "20/10", "p"))
    push(engine, "x y a 1", "y z b 12")
    engine.advance(21)
    assert shown(engine.register(explicit(CHAIN))) == []
    across = explicit("?x a ?y in w . ?y b ?z", name="r", windows={"w": "20/10"})
    assert shown(engine.register(across)) == ["r + x y z @21"]
    assert counted(engine, "r") == {"rows_added": 1, "answers_live": 1, "edges_live": 2}
    assert shown(engine.advance(30)) == ["r - x y z @30"]


def test_an_edge_is_handed_on_with_the_larger_of_its_times():
    #   p: W = 20, β = 10       18   25    7 out of order, inside (0, ..)      q, W = β = 10, at 25: (10, ..)
    engine = PatternReference(question("?x a ?y", "20/10", "p"))
    push(engine, "x y a 18", "y z a 25", "x y a 7")
    assert shown(engine.register(question("?x a ?y"))) == ["+ x y @25", "+ y z @25"]
    assert edges(engine, "q") == ["xy.a@18", "yz.a@25"]


def test_refused_while_a_window_reaches_back_to_what_was_not_kept():
    #   p: a, W = β = 10       4 yz.b !    8 xy.a     | 20 xy.a out of p
    #   b@4 leaves a window of 10 by 10 at 20 (14), one of 30 by 10 at 40 (34); a@8 that one at 40 (38)
    engine = PatternReference(question("?x a ?y", name="p"))
    push(engine, "y z b 4", "x y a 8")
    for windows, until in (({"w": "10"}, 20), ({"w": "30/10"}, 40)):
        with pytest.raises(RegistrationRefused, match=f"from {until} on") as refusal:
            engine.register(question("?x a ?y . ?y b ?z in w", windows=windows))
        assert refusal.value.available_from == until
    engine.advance(20)
    assert shown(engine.register(question("?x a ?y . ?y b ?z in w", windows={"w": "10"}))) == []
    #   the latest of several windows counts
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(question("?x a ?y in v . ?y b ?z in w", None, "r", windows={"v": "40/10", "w": "30/10"}))
    assert refusal.value.available_from == 50
    assert push(engine, "x y a 20", "y z b 20") == ["p + x y @20", "+ x y z @20"]


def test_edges_that_cannot_match_the_constants_are_lost_for_others():
    #   1 passed by        W = β = 10: it leaves at 20
    engine = PatternReference(question("?x a k", name="p"))
    push(engine, "x y a 1", "x k a 1")
    with pytest.raises(RegistrationRefused) as refused:
        engine.register(question("?x a ?y"))
    assert refused.value.available_from == 20
    assert shown(engine.register(question("k a ?y . ?x a k", name="more"), start="empty")) == []
    engine.advance(20)
    assert shown(engine.register(question("?x a ?y"))) == []


def test_streams_are_kept_apart():
    #   merged keeps nothing for a window on s, and s nothing for the merged one
    engine = PatternReference(question("?x a ?y", "10 on s", "p"))
    push(engine, "x y a 1 on s", "y z a 2 on s")
    assert shown(engine.register(question("?x a ?y", "10 on s"))) == ["+ x y @2", "+ y z @2"]
    assert engine.register(question("?x a ?y", "10 on t", "t")) == []  # nothing of t was ever lost
    with pytest.raises(RegistrationRefused):
        engine.register(question("?x a ?y", "10", "merged"))
    #   what s alone kept is lost with its last query, though the merged window still has it
    engine = PatternReference(question("?x a ?y", "10", "merged"), question("?x a ?y", "10 on s", "p"))
    push(engine, "x y a 1 on s")
    assert counted(engine)["edges_live"] == 2
    engine.unregister("p")
    assert counted(engine)["edges_live"] == 1
    with pytest.raises(RegistrationRefused):
        engine.register(question("?x a ?y", "10 on s"))


def test_a_count_window_is_refused_unless_one_like_it_runs():
    #   p: n = 2 over a       1 xy   2 yz   3 zw: xy is out
    engine = PatternReference(explicit("?x a ?y", "count 2", "p"))
    push(engine, "x y a 1", "y z a 2", "z w a 3")
    like = explicit("?x a/^a ?y", "count 2")  # the same label, another pattern
    assert shown(engine.register(like)) == ["+ y y @3", "+ z z @3"]
    assert push(engine, "w x a 4") == ["p - y z @4", "p + w x @4", "- y y @4", "+ w w @4"]  # numbered alike
    for other in ("count 3", "count 2/2", "count 2 on s"):
        with pytest.raises(RegistrationRefused, match="start='empty'") as refusal:
            engine.register(explicit("?x a ?y", other, "r"))
        assert refusal.value.available_from is None
    with pytest.raises(RegistrationRefused):
        engine.register(explicit("?x a|b ?y", "count 2", "r"))
    #   empty it numbers from 1
    assert engine.register(explicit("?x a ?y", "count 2/2", "r"), start="empty") == []
    assert push(engine, "x x a 5")[-1] == "r + x x @5"
    #   which helps nobody else, as it does not hold w x
    with pytest.raises(RegistrationRefused):
        engine.register(explicit("?x a ?y", "count 2/2", "u"))
    #   before the first tuple every window is whole, and before it nothing is refused
    engine = PatternReference()
    assert engine.register(explicit("?x a ?y", "count 2")) == []


def test_what_a_count_window_evicts_is_lost():
    #   p: n = 1     1 xy    2 yz: xy (1) lost, which a window of 10 by 10 holds until 20
    engine = PatternReference(question("?x a ?y", "count 1", "p"))
    push(engine, "x y a 1")
    assert shown(engine.register(question("?x a ?y", name="r"))) == ["r + x y @1"]
    engine.unregister("r")
    push(engine, "y z a 2")
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(question("?x a ?y"))
    assert refusal.value.available_from == 20
    assert counted(engine)["edges_live"] == 1


def test_an_unbounded_window_is_refused_once_an_edge_was_lost():
    engine = PatternReference(question("?x a ?y", name="p"))
    push(engine, "x y a 1", "x y c 2", "x y a 3 -", "y z a 4")
    assert shown(engine.register(question("?x a ?y", "unbounded"))) == ["+ y z @4"]
    engine.advance(100)  # q keeps it
    assert shown(engine.register(question("?x a ?y", "unbounded", "r"))) == ["r + y z @100"]
    engine.unregister("q")
    engine.unregister("r")
    with pytest.raises(RegistrationRefused) as refusal:
        engine.register(question("?x a ?y", "unbounded"))
    assert refusal.value.available_from is None
    with pytest.raises(RegistrationRefused):
        engine.register(question("?x c ?y", "unbounded"))
    assert engine.register(question("?x d ?y", "unbounded")) == []
    assert shown(engine.register(question("?x a ?y", name="w"))) == []  # a time window may


def test_a_pattern_that_starts_empty_knows_later_tuples_only():
    engine = PatternReference(question(CHAIN, name="p"), static=[("u", "a", "y")])
    assert push(engine, "x y a 1") == []
    assert engine.register(explicit(CHAIN), start="empty") == []
    assert push(engine, "y z b 2") == ["p + u y z @2", "p + x y z @2", "+ u y z @2"]
    assert push(engine, "x y a 2") == ["+ x y z @2"]  # a refresh for p and the engine
    assert (counted(engine, "q")["inserted"], counted(engine)["refreshed"]) == (2, 1)
    assert push(engine, "x y a 3 -") == ["p - x y z @3", "- x y z @3"]


def test_names_are_used_once_and_unregistering_is_silent():
    engine = PatternReference(explicit("?x a ?y"))
    push(engine, "x y a 1")
    with pytest.raises(ValueError):
        engine.register(explicit("?x b ?y"))
    with pytest.raises(ValueError):
        engine.register(explicit("?x b ?y", name="r"), start="all")
    assert engine.unregister("q") is None
    assert counted(engine) == {"tuples": 1, "inserted": 1, "rows_added": 1}
    with pytest.raises(Rejected):
        engine.register(question("?x a ?y", str(INT64_MAX)))
