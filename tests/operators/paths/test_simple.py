"""Simple paths by hand: each rule in a graph small enough to draw, with the rows that must come.

semantics.md S2
"""

from __future__ import annotations

import random
from dataclasses import asdict

import pytest

import rpq
from tests.twins import Twins


def engine(expression: str, *, size: int = 10, slide: int = 1, paths: str = "simple", **options) -> rpq.Engine:
    query = rpq.Query(expression, window=rpq.Window(size=size, slide=slide), name="q", paths=paths, **options)
    return rpq.Engine(query, witness=True)


def rows(changes: rpq.Changes) -> list[str]:
    """The rows as texts like "+xy", sorted."""
    return sorted(f"{row.op}{row.source}{row.target}" for row in changes.rows())


def figures(engine: rpq.Engine) -> dict[str, int]:
    return asdict(engine.statistics())


def counts(engine: rpq.Engine) -> dict[str, int]:
    """Count the work that the part of a tree without conflicts must not cause."""
    return {name: figures(engine)[name] for name in ("conflicted_roots", "pairs_in_doubt", "searches")}


def test_no_path_comes_back_to_its_root() -> None:
    # x --a--> y --a--> x: under walks (x, x) and (y, y) as well.
    e = engine("a+")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "x", "a", 1)])) == ["+xy", "+yx"]
    assert rows(e.insert("x", "x", "a", 2)) == []


def test_a_simple_cycle_comes_back_to_its_root_and_goes_no_further() -> None:
    #   x --a--> y --a--> x        y --a--> u --a--> y        x --a--> x
    e = engine("a+", paths="simple_cycle")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "x", "a", 1)])) == ["+xx", "+xy", "+yx", "+yy"]
    assert rows(e.push_rows([("y", "u", "a", 2), ("u", "y", "a", 2)])) == ["+uu", "+ux", "+uy", "+xu", "+yu"]
    assert e.witness("u", "u").vertices == ("u", "y", "u")
    assert rows(e.insert("x", "x", "a", 3)) == []  # it has a cycle
    assert rows(e.delete("y", "x", "a", 4)) == ["-ux", "-yx"]
    assert e.witness("x", "x").vertices == ("x", "x")
    assert rows(e.delete("x", "x", "a", 5)) == ["-xx"]
    e = engine("a/a", paths="simple_cycle")
    assert rows(e.push_rows([("x", "x", "a", 1), ("x", "y", "a", 1)])) == []  # x x x, and x x y, visit x too often
    e = engine("a/b/c", paths="simple_cycle")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "x", "b", 1), ("x", "z", "c", 1)])) == []


def test_a_cycle_in_doubt_is_searched_and_leaves_with_its_edges() -> None:
    #   x --a--> y --b--> u --a--> y --b--> x: y comes twice        u --a--> w --b--> x comes at 2, with a way around y
    e = engine("(a/b){2}", paths="simple_cycle", semantics="explicit")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "a", 1), ("y", "x", "b", 1)])) == []
    assert figures(e)["conflicted_roots"] > 0
    assert rows(e.push_rows([("u", "w", "a", 2), ("w", "x", "b", 2)])) == ["+uu", "+xx"]
    assert e.witness("x", "x").vertices == ("x", "y", "u", "w", "x")
    e._check()
    assert rows(e.delete("w", "x", "b", 3)) == ["-uu", "-xx"]
    assert rows(e.insert("w", "x", "b", 3)) == ["+uu", "+xx"]
    assert rows(e.advance(11)) == ["-uu", "-xx"]
    e._check()


@pytest.mark.parametrize("expression", ["^a", "a/b*", "(a|b)+"])
def test_cycles_without_conflicts_cost_no_search(expression: str) -> None:
    query = rpq.Query(expression, window=rpq.Window(size=20, slide=1), name="q", paths="simple_cycle")
    twins = Twins(query, capacity=2, witness=True)
    draw = random.Random(3)
    met = 0
    for time in range(60):
        twins.push([(draw.randrange(3), draw.randrange(3), draw.choice("ab"), time, draw.choice("+++-"))])
        twins.check()
        met += sum(x == y for x, y in twins.engine.answers().pairs())
    assert met > 10
    assert twins.engine.statistics().searches == 0


def test_the_budget_is_that_of_cycles_too() -> None:
    e = engine("(a/b){2}", paths="simple_cycle", simple_budget=1, on_budget="set_aside")
    stream = [("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "a", 1), ("y", "x", "b", 1)]
    aside = [one.root for one in e.push_rows(stream).set_aside]
    assert "x" in aside and "x" in e.set_aside()


def test_a_walk_through_the_root_is_no_conflict() -> None:
    # x --a--> y --b--> x --b--> z: the only walk from x to z comes back to x.
    e = engine("a/b*")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "x", "b", 1), ("x", "z", "b", 1)])) == ["+xy"]
    assert rows(e.insert("y", "z", "b", 2)) == ["+xz"]
    assert e.statistics().conflicts == e.statistics().searches == 0


def test_a_pair_whose_only_walk_visits_its_end_twice_is_blocked_until_another_way_opens() -> None:
    #   x --a--> y --b--> u --c--> y       x --a--> v --b--> u
    e = engine("a/b*/c")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "c", 1)])) == []
    assert figures(e)["conflicted_roots"] == 1
    assert rows(e.insert("x", "v", "a", 2)) == []
    assert rows(e.insert("v", "u", "b", 3)) == ["+xy"]
    assert e.witness("x", "y").vertices == ("x", "v", "u", "y")


def test_a_root_that_meets_its_first_conflict_keeps_its_answers_without_a_row() -> None:
    #   x --a--> y --b--> z --c--> w, then z --c--> y
    e = engine("a/b*/c")
    assert rows(e.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1), ("z", "w", "c", 1)])) == ["+xw"]
    assert rows(e.insert("z", "y", "c", 2)) == []
    assert figures(e)["conflicted_roots"] == 1
    assert e.answers().pairs() == {("x", "w")}


def test_what_no_conflict_reaches_costs_no_search_not_even_at_a_delete_or_when_it_expires() -> None:
    #   x --a--> y --b--> u --c--> y     y is visited after a and after a/b/c: (x, y) is in doubt, and blocked
    #            y --b--> z --c--> w     z and w are reached before any conflict
    e = engine("a/b*/c", semantics="explicit")
    assert rows(e.push_rows([("x", "y", "a", 4), ("y", "u", "b", 4), ("u", "y", "c", 4)])) == []
    assert counts(e) == {"conflicted_roots": 1, "pairs_in_doubt": 1, "searches": 1}
    assert rows(e.push_rows([("y", "z", "b", 4), ("z", "w", "c", 3), ("z", "v", "c", 4)])) == ["+xv", "+xw"]
    assert e.witness("x", "w").vertices == ("x", "y", "z", "w")
    assert rows(e.delete("z", "v", "c", 4)) == ["-xv"]
    assert rows(e.insert("u", "v", "c", 4)) == ["+xv"]
    changes = e.advance(14)
    assert [(r.op, r.target, r.timestamp) for r in changes] == [("-", "w", 13), ("-", "v", 14)]
    assert counts(e) == {"conflicted_roots": 0, "pairs_in_doubt": 0, "searches": 1}


def test_two_ways_to_a_vertex_are_no_conflict_without_a_cycle_that_fits() -> None:
    #   x --a--> w, x --a--> y --b--> w     w after a and after a/b; but with b no walk comes back to where a led it
    for expression in ("a/b/c*", "a/b/c"):
        e = engine(expression)
        e.push_rows([("x", "w", "a", 1), ("x", "y", "a", 1), ("y", "w", "b", 1), ("w", "z", "c", 1)])
        assert ("x", "z") in e.answers().pairs()
        assert counts(e) == {"conflicted_roots": 0, "pairs_in_doubt": 0, "searches": 0}
        # Unless b is an edge from w to itself.
        e.insert("w", "w", "b", 2)
        assert figures(e)["conflicted_roots"] == 1 and figures(e)["pairs_in_doubt"] > 0
        assert ("x", "z") in e.answers().pairs()


def test_doubt_goes_on_along_the_edges() -> None:
    #   x --a--> y --b--> u --c--> y     y after a, and after a/b/c
    #            y --c--> v --c--> w     in doubt with y: only walks lead there, that visit y twice
    #                     u --c--> t     reached before the conflict, as u is
    e = engine("a/b/c*")
    found = e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "t", "c", 1)])
    assert rows(found) == ["+xt", "+xu"]
    assert rows(e.push_rows([("u", "y", "c", 1), ("y", "v", "c", 1), ("v", "w", "c", 1)])) == []
    assert figures(e)["conflicted_roots"] == 1 and figures(e)["pairs_in_doubt"] == 3
    assert e.answers().pairs() == {("x", "u"), ("x", "t")}
    # A way past y: what is in doubt has a path now.
    assert rows(e.insert("u", "v", "c", 2)) == ["+xv", "+xw"]
    assert figures(e)["pairs_in_doubt"] == 3


def test_an_answer_that_comes_into_doubt_is_searched_and_the_others_of_its_root_are_not() -> None:
    #   x --a--> p --b--> q --c--> w, v     then x --a--> w: w is visited after a, and after a/b/c
    e = engine("a/b*/c", semantics="explicit")
    found = e.push_rows([("x", "p", "a", 1), ("p", "q", "b", 1), ("q", "w", "c", 1), ("q", "v", "c", 1)])
    assert rows(found) == ["+xv", "+xw"]
    assert counts(e) == {"conflicted_roots": 0, "pairs_in_doubt": 0, "searches": 0}
    assert rows(e.insert("x", "w", "a", 2)) == []
    assert counts(e) == {"conflicted_roots": 1, "pairs_in_doubt": 1, "searches": 1}
    assert rows(e.delete("q", "v", "c", 2)) == ["-xv"]
    assert figures(e)["searches"] == 1
    assert rows(e.delete("q", "w", "c", 2)) == ["-xw"]


@pytest.mark.parametrize("semantics", ["implicit", "explicit"])
def test_a_pair_that_leaves_doubt_leaves_once(semantics) -> None:
    #   x --a--> u --a--> w                        w after aa: no doubt
    #            u --a--> r --a--> u --a--> w      u after a and after aaa, so w after aaaa, and r too, are in doubt
    e = engine("a{2,4}", semantics=semantics)
    assert rows(e.push_rows([("x", "u", "a", 4), ("u", "w", "a", 4)])) == ["+xw"]
    assert rows(e.push_rows([("u", "r", "a", 4), ("r", "u", "a", 4)])) == ["+rw", "+xr"]
    assert e.statistics().pairs_in_doubt == 3, "(x, u), (x, w), (x, r)"
    assert rows(e.delete("r", "u", "a", 4)) == ["-rw"]
    assert e.answers().pairs() == {("x", "w"), ("x", "r")} and e.statistics().answers_live == 2
    assert e.witness("x", "w").vertices == ("x", "u", "w")
    assert rows(e.advance(14)) == (["-xr", "-xw"] if semantics == "explicit" else [])
    assert e.answers().pairs() == set()


def test_example_of_the_paper_what_was_pruned_is_found_when_a_conflict_comes() -> None:
    # The course of example 4.2, for (a/b)+: states 1 (after a) and 2 (after b) are in conflict.
    #
    #   x --a--> c --b--> d --a--> v            v in state 1, by the way that comes first
    #   x --a--> s --b--> t --a--> v            … and again: with markings, v is marked and this path is pruned at it
    #   v --b--> w --a--> u                     below v
    #   u --b--> c                              the conflict: c is on the first way in state 1, and here in state 2
    e = engine("(a/b)+")
    first = [("x", "c", "a", 1), ("c", "d", "b", 1), ("d", "v", "a", 1), ("v", "w", "b", 1), ("w", "u", "a", 1)]
    assert rows(e.push_rows(first)) == ["+dw", "+xd", "+xw"]
    assert rows(e.push_rows([("x", "s", "a", 2), ("s", "t", "b", 2), ("t", "v", "a", 2)])) == ["+tw", "+xt"]
    assert figures(e)["conflicts"] == 0
    assert rows(e.insert("u", "c", "b", 3)) == ["+dc", "+tc", "+wc", "+xc"]
    assert figures(e)["conflicted_roots"] > 0
    assert e.witness("x", "c").vertices == ("x", "s", "t", "v", "w", "u", "c"), "the path that was pruned"
    # Without it there is a walk, and no simple path.
    assert rows(e.delete("s", "t", "b", 3)) == ["-xc", "-xt"]


@pytest.mark.parametrize("semantics", ["implicit", "explicit"])
def test_a_path_that_expires_is_replaced_or_its_pair_leaves_at_that_boundary(semantics) -> None:
    #   x --a--> y --b--> u --c--> y   always;   x --a--> v --b--> u at 1 and x --a--> w --b--> u at 3
    e = engine("a/b*/c", size=10, semantics=semantics)
    e.push_rows([("x", "v", "a", 1), ("v", "u", "b", 1), ("x", "w", "a", 3), ("w", "u", "b", 3)])
    assert rows(e.push_rows([("x", "y", "a", 5), ("y", "u", "b", 5), ("u", "y", "c", 5)])) == ["+xy"]
    assert rows(e.advance(12)) == []
    assert e.witness("x", "y").vertices == ("x", "w", "u", "y")
    changes = e.advance(14)
    assert [(r.op, r.source, r.target, r.timestamp) for r in changes] == (
        [("-", "x", "y", 13)] if semantics == "explicit" else []
    )
    assert e.answers().pairs() == set(), "the walk is still there, but no simple path"


def test_a_deleted_edge_breaks_the_paths_over_it() -> None:
    e = engine("a/b*/c")
    e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "c", 1)])
    e.push_rows([("x", "v", "a", 1), ("v", "u", "b", 1), ("x", "w", "a", 1), ("w", "u", "b", 1)])
    assert ("x", "y") in e.answers().pairs()
    middle = e.witness("x", "y").vertices[1]
    assert rows(e.delete("x", middle, "a", 2)) == [], "another path takes its place"
    other = e.witness("x", "y").vertices[1]
    assert {middle, other} == {"v", "w"}
    assert rows(e.delete(other, "u", "b", 2)) == ["-xy"], "the walk through y is no simple path"


def test_a_root_is_clean_again_when_the_window_has_moved_past_its_conflicts() -> None:
    e = engine("a/b*/c", size=5)
    e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "c", 1)])
    assert figures(e)["conflicted_roots"] == 1
    e.push_rows([("x", "v", "a", 5), ("v", "u", "b", 5), ("u", "z", "c", 5)])
    e.advance(6)
    assert figures(e)["conflicted_roots"] == 0
    assert e.answers().pairs() == {("x", "z")}


@pytest.mark.parametrize("expression", ["a*", "(a|b|c)+", "a/b*", "a*/b*", "a?/b*", "(a|b)/c*", "a/b*/c*"])
def test_queries_whose_automaton_has_no_conflict_cost_no_search(expression: str) -> None:
    import itertools

    e = engine(expression)
    edges = [(x, y, label, 1) for x, y in itertools.product("uvw", repeat=2) for label in "abc"]
    e.push_rows(edges)
    walk = rpq.Engine(rpq.Query(expression, window=rpq.Window(size=10, slide=1)))
    walk.push_rows(edges)
    if e.queries[0].dfa.simple_equals_walk:
        assert e.answers().pairs() == {(x, y) for x, y in walk.answers().pairs() if x != y}
    assert e.statistics().searches == 0


def test_witnesses_of_roots_without_conflicts_are_simple_too() -> None:
    # (a|b)+ in two states: the walk of the index may go round a cycle, which is left out.
    e = engine("(a/b?)+")
    e.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1), ("z", "y", "a", 1), ("y", "w", "a", 1), ("w", "x", "b", 1)])
    for source, target in e.answers().pairs():
        vertices = e.witness(source, target).vertices
        assert len(set(vertices)) == len(vertices)


def test_the_budget_names_tuple_root_and_size_and_the_engine_goes_on() -> None:
    e = engine("a/b*/c", simple_budget=3)
    batch = [("x", "y", "a", 1), ("y", "u", "b", 1), ("o", "p", "a", 1), ("u", "y", "c", 1), ("p", "q", "c", 1)]
    with pytest.raises(rpq.ConflictBudgetError) as caught:
        e.push_rows([*batch, ("x", "v", "a", 2), ("v", "u", "b", 2), ("v", "w", "b", 2), ("w", "u", "b", 2)])
    error = caught.value
    assert (error.query, error.root, error.budget) == ("q", "x", 3)
    assert error.row is not None and error.size > 3
    assert "+oq" in rows(error.changes), "every other root is answered"
    assert e.set_aside() == ["x"]
    assert e.statistics().roots_set_aside == 1


def test_a_root_that_is_set_aside_leaves_and_comes_back(tmp_path) -> None:
    #   x --a--> y --b--> u --c--> y, u --c--> z: the conflict; the rest makes the search for (x, y) long.
    e = engine("a/b*/c", size=10, simple_budget=3, on_budget="set_aside", semantics="explicit")
    assert rows(e.push_rows([("x", "v", "a", 3), ("v", "u", "b", 3), ("u", "z", "c", 3)])) == ["+xz"]
    changes = e.push_rows([("x", "y", "a", 1), ("y", "u", "b", 2), ("u", "y", "c", 3)])
    many = [(f"n{i}", f"n{j}", "b", 3) for i in range(5) for j in range(5) if i != j]
    changes = [changes, e.push_rows([("x", "n0", "a", 3), *many, ("n4", "k", "b", 3), ("k", "n3", "c", 3)])]
    report = [r for c in changes for r in c.set_aside]
    assert [r.root for r in report] == ["x"]
    assert not {pair for pair in e.answers().pairs() if pair[0] == "x"}
    e.save(tmp_path / "state")
    e = rpq.Engine.restore(tmp_path / "state", witness=True)
    assert e.set_aside() == ["x"]
    assert e.restore_root("nobody").rows() == []
    # At 14 nothing is left; what is in the window then answers again.
    e.push_rows([("x", "s", "a", 12), ("s", "t", "c", 12)])
    back = e.advance(14)
    assert rows(back) == ["+xt"] and e.set_aside() == []


def test_blocks_may_move_while_their_cells_come_into_doubt() -> None:
    chance = random.Random(354)
    rows = []
    for time in range(400):
        source = chance.randrange(100)
        target = (source + chance.choice([1, 2, -1])) % 100 if chance.random() < 0.6 else chance.randrange(8)
        rows.append((source, target, chance.choice("abc"), time))
    query = rpq.Query("(a/!b)*", window=rpq.Window(size=300, slide=10), paths="simple")
    engine = rpq.Engine(query, _capacity=16)
    assert engine.push_rows(rows).added > 200
    engine._check()
