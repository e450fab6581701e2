"""Suffix-language containment, and the promise about simple paths that rests on it, held against brute force.

semantics.md S2
"""

from __future__ import annotations

from collections import deque
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpq import automata
from rpq.automata import DFA, Expression, Symbol
from tests.automata.test_expression_words import STEPS, Word, expressions
from tests.twins import examples

Edge = tuple[int, str, int]
Pairs = set[tuple[int, int]]


def successor(dfa: DFA, state: int, step: Symbol) -> int:
    column = dfa.column(*step)
    return int(dfa.transitions[state, column]) if column >= 0 else -1


def neighbours(edges: list[Edge], vertex: int) -> list[tuple[Symbol, int]]:
    out = [(Symbol(label, False), v) for u, label, v in edges if u == vertex]
    return out + [(Symbol(label, True), u) for u, label, v in edges if v == vertex]


def walk_answers(dfa: DFA, edges: list[Edge]) -> Pairs:
    """Pairs with a non-empty walk that spells a word: a search of the product graph from every vertex."""
    answers = set()
    for root in {vertex for u, _, v in edges for vertex in (u, v)}:
        reached: Pairs = set()
        pending = [(root, 0)]
        while pending:
            vertex, state = pending.pop()
            for step, following in neighbours(edges, vertex):
                node = (following, successor(dfa, state, step))
                if node[1] >= 0 and node not in reached:
                    reached.add(node)
                    pending.append(node)
        answers |= {(root, vertex) for vertex, state in reached if dfa.accepting[state]}
    return answers


def simple_answers(dfa: DFA, edges: list[Edge]) -> Pairs:
    """Pairs with a path that spells a word and visits no vertex twice: every such path is tried."""
    answers = set()

    def extend(path: list[int], state: int) -> None:
        for step, following in neighbours(edges, path[-1]):
            after = successor(dfa, state, step)
            if after >= 0 and following not in path:
                if dfa.accepting[after]:
                    answers.add((path[0], following))
                extend([*path, following], after)

    for root in {vertex for u, _, v in edges for vertex in (u, v)}:
        extend([root], 0)
    return answers


def missing_word(dfa: DFA, s: int, t: int) -> Word | None:
    """The shortest word of [t] that is not in [s], by a search of the pairs."""
    pending: deque[tuple[int, int, Word]] = deque([(s, t, ())])
    seen = {(s, t)}
    while pending:
        s, t, word = pending.popleft()
        if dfa.accepting[t] and not (s >= 0 and dfa.accepting[s]):
            return word
        for step in STEPS:
            pair = (successor(dfa, s, step) if s >= 0 else -1, successor(dfa, t, step))
            if pair[1] >= 0 and pair not in seen:
                seen.add(pair)
                pending.append((*pair, (*word, step)))
    return None


@given(expressions())
@settings(deadline=None)
def test_contains_is_that_no_word_is_missing(tree: Expression) -> None:
    dfa = automata.compile(tree)
    for s, t in product(range(len(dfa.accepting)), repeat=2):
        assert dfa.contains[s, t] == (missing_word(dfa, s, t) is None)


# Simple paths


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a*", True),  # the eleven queries of the paper
        ("a/b*", False),
        ("(a|b|c)*", True),
        ("a/b*/c", False),
        ("a*/b*", True),
        ("a?/b*", True),
        ("(a|b)/c*", False),
        ("a+", True),
        ("a/a", False),
        ("a{,3}", True),
        ("^a+", True),
        ("(a|^a)*", True),
        ("!(a)*", True),
        ("a/!()*", False),
        ("a|c|b/a?/c?", False),  # only the start is in conflict: it has no a/c
        ("a|a/c|c|b/a?/c?", True),
    ],
)
def test_property(text: str, holds: bool) -> None:
    assert automata.compile(text).simple_equals_walk is holds


graphs = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "z"]), st.integers(0, 3)), min_size=1, max_size=8)


@given(expressions(leaves=4).map(automata.compile).filter(lambda dfa: dfa.simple_equals_walk), graphs)
@examples(400)
def test_where_the_property_holds_simple_answers_are_walk_answers(dfa: DFA, edges: list[Edge]) -> None:
    assert simple_answers(dfa, edges) == {(x, y) for x, y in walk_answers(dfa, edges) if x != y}


def shortest_words(dfa: DFA, start: int) -> dict[int, Word]:
    """For every state that a non-empty word reaches from one, the shortest such word."""
    found: dict[int, Word] = {}
    pending: deque[tuple[int, Word]] = deque([(start, ())])
    while pending:
        state, word = pending.popleft()
        for step in STEPS:
            following = successor(dfa, state, step)
            if following >= 0 and following not in found:
                found[following] = (*word, step)
                pending.append((following, found[following]))
    return found


def lassos(dfa: DFA) -> list[tuple[list[Edge], int, int]]:
    """For every conflict a graph that shows it, with the ends of a walk that no simple path replaces.

    x ──▶ ── ▶ v ──▶ ── ▶ y      the walk goes from x to v in state s, round the loop at v into state t,
              ╱ ╲                and on to y with a word of [t] that is not in [s]
              ╲▶╱
    """
    graphs = []
    prefixes: list[tuple[int, Word]] = [(0, ()), *shortest_words(dfa, 0).items()]
    for s, prefix in prefixes:
        for t, loop in shortest_words(dfa, s).items():
            rest = missing_word(dfa, s, t) if prefix else missing_nonempty(dfa, s, t)  # without both: only (x, x)
            if rest is None:
                continue
            v, after_loop, end_of_walk = len(prefix), len(prefix + loop), len(prefix + loop + rest)
            edges: list[Edge] = []
            for position, (label, inverse) in enumerate(prefix + loop + rest):
                ends = (v if end == after_loop else end for end in (position, position + 1))
                source, target = reversed([*ends]) if inverse else ends
                edges.append((source, str(label), target))
            graphs.append((edges, 0, end_of_walk if rest else v))
    return graphs


def missing_nonempty(dfa: DFA, s: int, t: int) -> Word | None:
    """Return the result of `missing_word` without the empty word."""
    for step in STEPS:
        after = successor(dfa, t, step)
        if after >= 0:
            rest = missing_word(dfa, successor(dfa, s, step), after)
            if rest is not None:
                return (step, *rest)
    return None


@given(expressions(leaves=4))
@examples(400)
def test_where_the_property_fails_some_graph_shows_it(tree: Expression) -> None:
    dfa = automata.compile(tree)
    conflicts = lassos(dfa)
    assert dfa.simple_equals_walk == (not conflicts)
    for edges, x, y in conflicts[:5]:
        assert x != y
        assert (x, y) in walk_answers(dfa, edges)
        assert (x, y) not in simple_answers(dfa, edges)
