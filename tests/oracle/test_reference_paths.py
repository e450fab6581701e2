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
        ("a/a", "xz"),
        ("a/b", "yw"),
        ("a|b", "xy yz zw"),
        ("a*", "xy yz xz"),  # the empty path is no answer
        ("a*/b", "zw yw xw"),
        ("a*/b*", "xy yz xz zw yw xw"),
        ("(a/a)?/b?", "xz zw xw"),
        ("(a?/b?)*", "xy yz xz zw yw xw"),
        ("a{0}/b", "zw"),
        ("^b/^a", "wy"),
        ("^(a*)/b", "zw"),  # backwards by a, then b: no vertex left of z has a b
        ("b/^b", "zz"),
        ("(a|^b)+", "xy yz xz wz"),
        ('<a>/"a"', "xz"),
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
        ("a{,2}", {1, 2}),
        ("(a/a)+", {2, 4}),
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
        ("!^b", "yx wx"),  # an inverse step that is not b, and no forward step
        ("!(a|^b)", "xz xw yx wx"),
        ("!(a|^a)", "xz xw zx wx"),
        ("^(!a)", "zx wx"),
    ],
)
def test_negated_sets_have_two_directions(expression, expected):
    assert evaluate(expression, FORK) == pairs(expected)


def test_an_edge_there_and_back_is_a_simple_cycle():
    #   x <--a-- p --a--> y      p x p and p y p by an edge and its inverse; a loop and its inverse are two visits too many
    edges = graph("p a x", "p a y", "z a z")
    assert evaluate("a/^a", edges, "simple_cycle") == pairs("pp")
    assert evaluate("^a/a", edges, "simple_cycle") == pairs("xx xy yx yy")
    assert evaluate("^a", edges, "simple_cycle") == pairs("xp yp zz")


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
            if s == path[-1]
            and not (paths == "simple" and t in path)
            and not (paths == "simple_cycle" and (t in path[1:] or (len(path) > 1 and path[0] == path[-1])))
        }
        if paths == "walk":  # only what one of the patterns can begin with
            listed = {(path, word) for path, word in listed if re.fullmatch("[ab]*|[bA]*|B+A?", word)}
        words |= {(path[0], path[-1], word) for path, word in listed}
    for expression, pattern in PATTERNS.items():
        expected = {(x, y) for x, y, word in words if re.fullmatch(pattern, word)}
        assert evaluate(expression, edges, paths) == expected, expression
