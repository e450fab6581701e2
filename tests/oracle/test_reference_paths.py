"""The oracle's paths on examples worked by hand, each derived from the drawing above it.

semantics.md S1, S2, S12
"""

import random
import re

import pytest

from tests.reference import evaluate
from tests.strategies.drawn import graph, pairs
from tests.twins import scaled

#   x --a--> y --a--> z --b--> w
LINE = graph("x a y", "y a z", "z b w")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", "xy yz"),
        ("a/a", "xz"),
        ("a/b", "yw"),
        ("b/a", ""),
        ("a|b", "xy yz zw"),
        ("a+", "xy yz xz"),
        ("a*", "xy yz xz"),  # the empty path is no answer
        ("a?", "xy yz"),
        ("a?/b", "zw yw"),
        ("a*/b", "zw yw xw"),
        ("a*/b*", "xy yz xz zw yw xw"),
        ("(a/a)?/b?", "xz zw xw"),
        ("(a?/b?)*", "xy yz xz zw yw xw"),
        ("a{0}", ""),
        ("a{0}/b", "zw"),
        ("^a", "yx zy"),
        ("^(a/b)", "wy"),
        ("^b/^a", "wy"),
        ("^(a*)/b", "zw"),  # backwards by a, then b: no vertex left of z has a b
        ("b/^b", "zz"),
        ("(a|^b)+", "xy yz xz wz"),
        ("<a>/\"a\"", "xz"),
    ],
)
def test_expressions_on_a_line(expression, expected):
    assert evaluate(expression, LINE) == pairs(expected)


#   0 --a--> 1 --a--> 2 --a--> 3 --a--> 4
@pytest.mark.parametrize(
    ("expression", "distances"),
    [
        ("a{2}", {2}),
        ("a{2,3}", {2, 3}),
        ("a{3,}", {3, 4}),
        ("a{,2}", {1, 2}),
        ("(a/a)+", {2, 4}),
        ("(a?){3}", {1, 2, 3}),
    ],
)
def test_repetitions(expression, distances):
    line = [(i, "a", i + 1) for i in range(4)]
    assert evaluate(expression, line) == {(i, j) for i in range(5) for j in range(5) if j - i in distances}


#   x --a--> y          x --b--> z          x --c--> w
FORK = graph("x a y", "x b z", "x c w")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("!()", "xy xz xw"),  # any forward label
        ("!a", "xz xw"),
        ("!(a|b)", "xw"),
        ("!^b", "yx wx"),  # an inverse step that is not b, and no forward step
        ("!(a|^b)", "xz xw yx wx"),
        ("!(a|^a)", "xz xw zx wx"),
        ("^(!a)", "zx wx"),
        ("!d", "xy xz xw"),
    ],
)
def test_negated_sets_have_two_directions(expression, expected):
    assert evaluate(expression, FORK) == pairs(expected)


def test_cycles_and_loops_join_a_vertex_to_itself_by_walks_only():
    #   x --a--> y          z --a--> z
    #   x <--a-- y
    edges = graph("x a y", "y a x", "z a z")
    assert evaluate("a", edges) == pairs("xy yx zz")
    assert evaluate("a", edges, "simple") == pairs("xy yx")
    assert evaluate("a/a", edges) == pairs("xx yy zz")
    assert evaluate("a/a", edges, "simple") == set()
    assert evaluate("a*", edges) == pairs("xy yx xx yy zz")
    assert evaluate("a*", edges, "simple") == pairs("xy yx")


def test_siblings_by_inverse_steps():
    #   x <--a-- p --a--> y
    edges = graph("p a x", "p a y")
    assert evaluate("^a/a", edges) == pairs("xx xy yx yy")
    assert evaluate("^a/a", edges, "simple") == pairs("xy yx")
    assert evaluate("a/^a", edges) == pairs("pp")


def test_a_walk_may_visit_a_vertex_twice_where_a_simple_path_may_not():
    #   x --a--> y --b--> u          (a/b){2} from x: x y u v y, and y comes twice
    #            ^        |
    #            b        a
    #            +-- v <--+
    edges = graph("x a y", "y b u", "u a v", "v b y")
    assert evaluate("(a/b){2}", edges) == pairs("xy")
    assert evaluate("(a/b){2}", edges, "simple") == set()
    #   with x --a--> z --b--> u there is the simple path x z u v y
    edges += graph("x a z", "z b u")
    assert evaluate("(a/b){2}", edges, "simple") == pairs("xy")


def test_a_simple_path_may_have_to_be_a_detour():
    #   x --a--> y --b--> x is no way to z, as it comes back to x      a/b/c: walk x y x z
    #   x --c--> z
    edges = graph("x a y", "y b x", "x c z")
    assert evaluate("a/b/c", edges) == pairs("xz")
    assert evaluate("a/b/c", edges, "simple") == set()
    #   x --a--> y --b--> w --c--> z
    assert evaluate("a/b/c", [*edges, *graph("y b w", "w c z")], "simple") == pairs("xz")


def test_a_simple_cycle_comes_back_to_its_beginning_and_to_nothing_else():
    #   x --a--> y          z --a--> z
    #   x <--a-- y
    edges = graph("x a y", "y a x", "z a z")
    assert evaluate("a", edges, "simple_cycle") == pairs("xy yx zz")
    assert evaluate("a/a", edges, "simple_cycle") == pairs("xx yy")  # z z z visits z three times
    assert evaluate("a{3}", edges, "simple_cycle") == set()
    assert evaluate("a*", edges, "simple_cycle") == pairs("xy yx xx yy zz")


def test_a_cycle_through_a_vertex_twice_is_no_simple_cycle():
    #   x --a--> y --a--> u      x y u y x visits y twice; u and y have their own cycles
    #   x <--a-- y <--a-- u
    edges = graph("x a y", "y a x", "y a u", "u a y")
    assert evaluate("a{4}", edges, "simple_cycle") == set()
    assert evaluate("a{2}", edges, "simple_cycle") == pairs("xx yy uu xu ux")
    #   the same in two letters: no loop can be left out of x y u y x
    edges = graph("x a y", "y b u", "u a y", "y b x")
    assert evaluate("(a/b){2}", edges) == pairs("xx uu xu ux")
    assert evaluate("(a/b){2}", edges, "simple_cycle") == set()
    assert evaluate("a/b/a/b|c", [*edges, *graph("u a w", "w b x")], "simple_cycle") == pairs("xx uu")


def test_a_path_does_not_go_on_from_where_a_cycle_ends():
    #   x --a--> y --b--> x --c--> z: a/b comes back to x, and a/b/c is no way to z
    edges = graph("x a y", "y b x", "x c z")
    assert evaluate("a/b", edges, "simple_cycle") == pairs("xx")
    assert evaluate("a/b/c?", edges, "simple_cycle") == pairs("xx")
    assert evaluate("a/b/c", edges, "simple_cycle") == set()
    assert evaluate("c/a", [*edges, *graph("z a z")], "simple_cycle") == set()  # nor does it end in a loop


def test_an_edge_there_and_back_is_a_simple_cycle():
    #   x <--a-- p --a--> y      p x p and p y p by an edge and its inverse; a loop and its inverse are two visits too many
    edges = graph("p a x", "p a y", "z a z")
    assert evaluate("a/^a", edges, "simple_cycle") == pairs("pp")
    assert evaluate("^a/a", edges, "simple_cycle") == pairs("xx xy yx yy")
    assert evaluate("^a", edges, "simple_cycle") == pairs("xp yp zz")


def test_parallel_edges_of_two_labels_make_no_cycle():
    #   x --a--> y  and  x --b--> y
    edges = graph("x a y", "x b y")
    assert evaluate("a/b", edges, "simple_cycle") == set()
    assert evaluate("a/^b", edges, "simple_cycle") == pairs("xx")


PATTERNS = {  # the same language for Python's matcher: a step is its label's letter, a capital where it is inverse
    "a": "a",
    "a/b*": "ab*",
    "(a/b)+": "(ab)+",
    "a*/b*": "a*b*",
    "a{2,3}|b": "a{2,3}|b",
    "(a|b)/a?/b": "[ab]a?b",
    "!a/b": "bb",
    "^a/b": "Ab",
    "^(a/b+)": "B+A",
    "!()/a": "[ab]a",
    "!(a|^b)+": "[bA]+",
}


@pytest.mark.parametrize("paths", ["walk", "simple", "simple_cycle"])
@pytest.mark.parametrize("seed", range(scaled(8)))
def test_a_second_opinion_by_listing_paths_and_matching_their_words(seed, paths):
    chance = random.Random(seed)
    vertices = range(3) if paths == "walk" else range(4)
    edges = {(chance.choice(vertices), chance.choice("ab"), chance.choice(vertices)) for _ in range(5)}
    steps = {(s, label, t) for s, label, t in edges} | {(t, label.upper(), s) for s, label, t in edges}
    # A shortest walk visits a product node once: 3 vertices, and at most 2 states that can be entered again.
    listed = {((x,), "") for x in vertices}
    words = set()
    for _ in range({"walk": 7, "simple": 3, "simple_cycle": 4}[paths]):
        listed = {
            ((path[0], t) if paths == "walk" else (*path, t), word + letter)
            for path, word in listed
            for s, letter, t in steps
            if s == path[-1] and not (paths == "simple" and t in path)
            and not (paths == "simple_cycle" and (t in path[1:] or (len(path) > 1 and path[0] == path[-1])))
        }
        if paths == "walk":  # only what one of the patterns can begin with
            listed = {(path, word) for path, word in listed if re.fullmatch("[ab]*|[bA]*|B+A?", word)}
        words |= {(path[0], path[-1], word) for path, word in listed}
    for expression, pattern in PATTERNS.items():
        expected = {(x, y) for x, y, word in words if re.fullmatch(pattern, word)}
        assert evaluate(expression, edges, paths) == expected, expression
