"""Tests of vertices in path expressions: the automaton's letters find the pairs that the expression describes.

The oracle evaluates an expression on a graph as a relation, operator by operator, and knows no automaton and no letter.
semantics.md S17, semantics-patterns.md P15
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rpq import automata
from rpq.automata import (
    DFA,
    Alternation,
    Concatenation,
    ConditionLabel,
    Expression,
    ExpressionError,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    VertexTest,
    nonempty,
    parse,
    reversal,
)
from rpq.automata.symbols import StepTests
from rpq.automata.transforms import accepts_empty
from tests.automata.test_expression_words import NAMED, OTHER, expressions

VERTICES = range(4)
TESTS = ("p", "q")
CONDITIONS = ("c", "d")

Pairs = set[tuple[int, int]]


class Edge(NamedTuple):
    source: int
    label: str
    target: int
    conditions: frozenset[str]


class Graph(NamedTuple):
    edges: list[Edge]
    holds: dict[str, set[int]]


def relation(node: Expression, graph: Graph) -> tuple[Pairs, Pairs]:
    """The pairs of the expression's paths without an edge, and of those with one."""
    match node:
        case Label(ConditionLabel(label, condition)):
            return set(), {(e.source, e.target) for e in graph.edges if e.label == label and condition in e.conditions}
        case Label(label):
            return set(), {(e.source, e.target) for e in graph.edges if e.label == label}
        case NegatedSet(members, condition):
            found = set()
            for edge in graph.edges:
                for inverse in node.directions:
                    excluded = {member.label for member in members if member.inverse == inverse}
                    if edge.label not in excluded and (condition is None or condition in edge.conditions):
                        found.add((edge.target, edge.source) if inverse else (edge.source, edge.target))
            return set(), found
        case VertexTest(test):
            return {(v, v) for v in graph.holds[test]}, set()
        case Inverse(inner):
            empty, full = relation(inner, graph)
            return empty, {(y, x) for x, y in full}
        case Alternation(parts):
            found = [relation(part, graph) for part in parts]
            return set().union(*(empty for empty, _ in found)), set().union(*(full for _, full in found))
        case Concatenation(parts):
            total = one()
            for part in parts:
                total = joined(total, relation(part, graph))
            return total
        case Repetition(inner, minimum, maximum):
            once, power, total = relation(inner, graph), one(), (set(), set())
            # After minimum + vertices * 2 rounds all reachable pairs of both kinds have been found.
            for number in range((minimum + 2 * len(VERTICES) if maximum is None else maximum) + 1):
                if number >= minimum:
                    total = (total[0] | power[0], total[1] | power[1])
                power = joined(power, once)
            return total
    raise TypeError(node)


def one() -> tuple[Pairs, Pairs]:
    return {(v, v) for v in VERTICES}, set()


def joined(first: tuple[Pairs, Pairs], second: tuple[Pairs, Pairs]) -> tuple[Pairs, Pairs]:
    def join(left: Pairs, right: Pairs) -> Pairs:
        return {(x, z) for x, y in left for y2, z in right if y == y2}

    (e, f), (g, h) = first, second
    return join(e, g), join(e, h) | join(f, g) | join(f, h)


def answers(dfa: DFA, graph: Graph, start: int = 0) -> Pairs:
    """The pairs of the automaton's non-empty words from a state, where a graph has an edge for each letter that holds."""
    steps: dict[int, list[tuple[int, int]]] = {v: [] for v in VERTICES}
    conditions = {label.condition for label in dfa.labels if isinstance(label, ConditionLabel)} | dfa.conditions_of_others
    for edge in graph.edges:
        labels = [edge.label]
        for condition in conditions:
            needed = StepTests.of(condition)
            if (
                (not needed.edge or needed.edge in edge.conditions)
                and all(edge.source in graph.holds[test] for test in needed.source)
                and all(edge.target in graph.holds[test] for test in needed.target)
            ):
                labels.append(ConditionLabel(edge.label, condition))
        for label in labels:
            steps[edge.source].append((dfa.column(label), edge.target))
            steps[edge.target].append((dfa.column(label, inverse=True), edge.source))
    found = set()
    for root in VERTICES:
        seen = set()
        pending = [(root, start)]
        while pending:
            vertex, state = pending.pop()
            for column, reached in steps[vertex]:
                after = int(dfa.transitions[state, column]) if column >= 0 else -1
                if after >= 0 and (reached, after) not in seen:
                    seen.add((reached, after))
                    pending.append((reached, after))
        found |= {(root, vertex) for vertex, state in seen if dfa.accepting[state]}
    return found


graphs = st.builds(
    Graph,
    st.lists(
        st.builds(
            Edge,
            st.sampled_from(VERTICES),
            st.sampled_from((*NAMED, OTHER)),
            st.sampled_from(VERTICES),
            st.frozensets(st.sampled_from(CONDITIONS)),
        ),
        max_size=7,
    ),
    st.fixed_dictionaries({test: st.sets(st.sampled_from(VERTICES)) for test in TESTS}),
)
tests = st.builds(VertexTest, st.sampled_from(TESTS))
conditions = st.sampled_from(CONDITIONS)
trees = expressions(
    leaves=6,
    more=tests
    | tests
    | st.builds(lambda label, c: Label(ConditionLabel(label, c)), st.sampled_from(NAMED), conditions)
    | st.builds(lambda node, c: NegatedSet((automata.Symbol(node),), c), st.sampled_from(NAMED), conditions),
)


def compiled(tree: Expression) -> DFA:
    try:
        return automata.compile(tree)
    except ExpressionError as error:  # too large
        assume("a smaller" not in error.expected)
        raise


@given(trees, graphs)
@settings(deadline=None, max_examples=300)
def test_letters_find_the_pairs_of_paths_with_an_edge(tree: Expression, graph: Graph) -> None:
    dfa = compiled(tree)
    assert answers(dfa, graph) == relation(tree, graph)[1]
    assert parse(str(tree)) == tree
    for s, t in zip(*dfa.contains.nonzero(), strict=True):
        assert answers(dfa, graph, s) >= answers(dfa, graph, t)


@given(trees, graphs)
@settings(deadline=None)
def test_derived_expressions_have_the_same_pairs(tree: Expression, graph: Graph) -> None:
    pairs = relation(tree, graph)[1]
    walks = nonempty(tree)
    assert (set() if walks is None else relation(walks, graph)[1]) == pairs
    assert walks is None or not accepts_empty(walks)
    assert walks is None or compiled(walks).labels <= compiled(tree).labels
    turned = reversal(tree)
    assert relation(turned, graph)[1] == {(y, x) for x, y in pairs}
    assert compiled(turned).labels == compiled(tree).labels


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("a/@[t]/b", "a @[t]/b"),
        ("^(@[t]/a)", "^(@[t]/a)"),
        ("(a/@[t])+", "a/@[t]"),
        ("@[t]/a+", "a @[t]/a"),
        ("a?/@[t]", "a/@[t]"),
        ("@[t]?/a", "a"),
        ("a/@[t]/@[u]/@[t]", "a/@[t]/@[u]"),
        ("!(a)/@[t]", "a/@[t] (other)/@[t]"),
        ("@[t]/!(a|^b)[n]", "@[t]/a[n] @[t]/(other)[n] ^(b[n]/@[t]) ^((other)[n]/@[t])"),
        ("@[t]", ""),
    ],
)
def test_letters(text: str, letters: str) -> None:
    assert " ".join(map(str, automata.compile(text).symbols)) == letters


def test_too_many_letters_are_an_error() -> None:
    pair = "/".join(f"(@[{2 * n}]|@[{2 * n + 1}])" for n in range(6))
    with pytest.raises(ExpressionError, match="different steps"):
        automata.compile(f"{pair}/a/{pair}")


@pytest.mark.parametrize(("text", "column"), [("a/@/b", 4), ("a/@[t", 4), ("@[t][n > 1]", 5), ("a@[t]", 2)])
def test_error(text: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == column
