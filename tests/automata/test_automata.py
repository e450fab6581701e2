"""The DFA of an expression: its language, its size, its table, equality, and how it looks.

semantics.md S12
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interegular.fsm import FSM, Alphabet, epsilon

from rpq import automata
from rpq.automata import (
    DFA,
    Alternation,
    Concatenation,
    Expression,
    ExpressionError,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    Symbol,
)
from rpq.automata.compiler import AutomatonTable, equivalent_blocks, thompson
from tests.automata.test_expression_words import STEPS, all_words, expressions, words
from tests.reference import is_relevant
from tests.twins import examples

ALPHABET = Alphabet.from_groups(*({step} for step in STEPS))


def interegular_of(node: Expression, inverted: bool = False) -> FSM:
    """The language over STEPS, put together by interegular's own operations."""
    match node:
        case Label(name):
            return one_of([Symbol(name, inverted)])
        case NegatedSet(members):
            taken = {member.inverse for member in members} or {False}
            allowed = [step for step in STEPS if step.inverse in taken and step not in members]
            return one_of([Symbol(step.label, step.inverse ^ inverted) for step in allowed])
        case Inverse(inner):
            return interegular_of(inner, not inverted)
        case Alternation(parts):
            return FSM.union(*(interegular_of(part, inverted) for part in parts)).reduce()
        case Concatenation(parts):
            ordered = parts[::-1] if inverted else parts
            return FSM.concatenate(*(interegular_of(part, inverted) for part in ordered)).reduce()
        case Repetition(inner, minimum, maximum):
            once = interegular_of(inner, inverted)
            least = once * minimum
            rest = beginning_once(once).star() if maximum is None else (once | epsilon(ALPHABET)) * (maximum - minimum)
            return FSM.concatenate(least, rest).reduce()
    raise TypeError(node)


def beginning_once(machine: FSM) -> FSM:
    """The same language, with a start to which nothing leads back: else interegular accepts too much of a star."""
    start = max(machine.states) + 1
    moves = {**machine.map, start: machine.map.get(machine.initial, {})}
    finals = machine.finals | {start} if machine.initial in machine.finals else machine.finals
    return FSM(machine.alphabet, machine.states | {start}, start, finals, moves)


def test_a_star_of_what_comes_back_to_its_start() -> None:
    tree = Repetition(Concatenation((Repetition(Label("a"), 0, None), Label("b"))), 0, None)
    assert interegular_from(automata.compile(tree), 0).equivalent(interegular_of(tree))


def one_of(steps: list[Symbol]) -> FSM:
    return FSM(ALPHABET, {0, 1}, 0, {1}, {0: {ALPHABET[step]: 1 for step in steps}, 1: {}})


def interegular_from(dfa: DFA, start: int) -> FSM:
    """The suffix language of a state of ours."""
    states = range(len(dfa.accepting))
    moves: dict[int, dict[int, int]] = {state: {} for state in states}
    for state in states:
        for step in STEPS:
            column = dfa.column(*step)
            if column >= 0 and dfa.transitions[state, column] >= 0:
                moves[state][ALPHABET[step]] = int(dfa.transitions[state, column])
    return FSM(ALPHABET, set(states), start, {state for state in states if dfa.accepting[state]}, moves)


def check_structure(dfa: DFA) -> None:
    """Assert the invariants of a compiled table."""
    states, columns = dfa.transitions.shape
    assert dfa.transitions.dtype == np.int32 and dfa.accepting.dtype == np.bool_
    assert dfa.accepting.shape == (states,) and len(dfa.symbols) == columns
    assert list(dfa.symbols) == sorted(set(dfa.symbols), key=Symbol.sort_key)
    # Numbered breadth-first, symbols in order; this also says that every state is reached.
    order = [0]
    for state in order:
        order += [t for t in dict.fromkeys(dfa.transitions[state].tolist()) if t >= 0 and t not in order]
    assert order == list(range(states))
    # No dead states.
    alive = set(np.flatnonzero(dfa.accepting))
    for _ in range(states):
        alive |= {s for s in range(states) if alive & set(dfa.transitions[s].tolist())}
    assert alive == set(range(states))
    # A column without steps is only there to tell its label from the others.
    for symbol, column in zip(dfa.symbols, dfa.transitions.T):
        assert column.max() >= 0 or (symbol.label is not None and Symbol(None, symbol.inverse) in dfa.symbols)


@given(expressions())
@settings(deadline=None)
def test_language_is_that_of_the_expression(tree: Expression) -> None:
    dfa = automata.compile(tree)
    check_structure(dfa)
    assert {word for word in all_words(4) if dfa.accepts(word)} == words(tree, 4)
    assert dfa.accepts_empty == (() in words(tree, 0))
    assert not dfa.is_empty


@given(expressions(leaves=4))
@examples(200)
def test_language_and_size_agree_with_interegular(tree: Expression) -> None:
    dfa = automata.compile(tree)
    reference = interegular_of(tree).reduce()
    assert interegular_from(dfa, 0).equivalent(reference)
    live = sum(reference.islive(state) for state in reference.states)
    assert len(dfa.accepting) == live


@given(expressions(leaves=4))
@examples(200)
def test_all_states_differ(tree: Expression) -> None:
    dfa = automata.compile(tree)
    for s, t in combinations(range(min(len(dfa.accepting), 8)), 2):
        assert not interegular_from(dfa, s).equivalent(interegular_from(dfa, t))


def refined(table: AutomatonTable) -> list[int]:
    """Moore's way to the blocks: split by the blocks of all next states, until nothing changes."""
    block_of = [int(accepts) for accepts in table.accepting]
    while True:
        views = [(block_of[s], *(block_of[t] for t in row)) for s, row in enumerate(table.next_state)]
        finer = [sorted(set(views)).index(view) for view in views]
        if len(set(finer)) == len(set(block_of)):
            return finer
        block_of = finer


@st.composite
def tables(draw: st.DrawFn) -> AutomatonTable:
    """Complete automata that no expression need describe; a few long chains, which take many splits."""
    size = draw(st.integers(1, 12))
    state = st.integers(0, size - 1)
    rows = [[draw(state), draw(st.just((s + 1) % size) | state)] for s in range(size)]
    return AutomatonTable(next_state=rows, accepting=[draw(st.booleans()) for _ in range(size)])


@given(tables())
@examples(500)
def test_hopcroft_finds_the_blocks_of_moore(table: AutomatonTable) -> None:
    ours, theirs = equivalent_blocks(table), refined(table)
    assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("a*", 1),
        ("(a|b)*/a/(a|b){3}", 16),  # the classic: 2^(3+1)
        ("(a?){7}", 8),
        ("(a*)*", 1),
        ("a/b|c/b", 3),
    ],
)
def test_number_of_states(text: str, states: int) -> None:
    assert len(automata.compile(text).accepting) == states


# Classes of "other" labels


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("a|!(b)", ["a", "z"], ["b"]),
        ("a/!(b)", ["a a", "a z"], ["a b", "a ^a", "z a"]),
        ("!(a|^b)", ["b", "z", "^a", "^z"], ["a", "^b"]),
        ("!()", ["a", "z"], ["^a", "^z", ""]),
        ("^!(a|^b)", ["^b", "^z", "a", "z"], ["^a", "b"]),
        ("a/b|!a/c", ["a b", "z c", "b c"], ["a c", "z b"]),
    ],
)
def test_negated_sets(text: str, yes: list[str], no: list[str]) -> None:
    dfa = automata.compile(text)
    for words_of, expected in ((yes, True), (no, False)):
        for word in words_of:
            steps = [(step.lstrip("^"), step.startswith("^")) for step in word.split()]
            assert dfa.accepts(steps) is expected, word


def test_columns() -> None:
    dfa = automata.compile("a/!(b)/^c")
    assert dfa.symbols == (Symbol("a"), Symbol("b"), Symbol(None), Symbol("c", True))
    assert [dfa.column(label, False) for label in ("a", "b", "c", "z")] == [0, 1, 2, 2]
    assert [dfa.column(label, True) for label in ("a", "c", "z")] == [-1, 3, -1]
    assert dfa.column(None) == 2
    assert dfa.transitions[1].tolist() == [2, -1, 2, -1]


# Equality

LAWS = [
    ("(X|Y)*", "(X*/Y*)*"),
    ("^(X/Y)", "^Y/^X"),
    ("X{2,4}", "X/X/X?/X?"),
    ("X{2,}", "X/X/X*"),
    ("X{,3}", "(X?){3}"),
    ("^X*", "(^X)*"),
    ("(X/Y)*/X", "X/(Y/X)*"),
]


@given(expressions(leaves=2), expressions(leaves=2))
@examples(125)
def test_laws(x: Expression, y: Expression) -> None:
    for law in LAWS:
        left, right = (automata.compile(side.replace("X", f"({x})").replace("Y", f"({y})")) for side in law)
        assert left == right, law


@given(expressions(leaves=2), expressions(leaves=2))
@examples(300)
def test_equality_is_equality_of_languages(x: Expression, y: Expression) -> None:
    first, second = automata.compile(x), automata.compile(y)
    equal = interegular_from(first, 0).equivalent(interegular_from(second, 0))
    assert (first == second) is equal
    assert (first != second) is not equal


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("a|!a", "!()", True),  # different alphabets
        ("a|b|!(a|b)", "!c|c", True),
        ("!a", "!b", False),
        ("!()", "!()|^!()", False),
        ("a{0}", "(!b){0}", True),
        ("<knows>", '"knows"', True),
    ],
)
def test_equality(left: str, right: str, equal: bool) -> None:
    assert (automata.compile(left) == automata.compile(right)) is equal


def test_equality_with_the_empty_language_and_with_other_things() -> None:
    nothing = DFA(symbols=(), transitions=np.zeros((1, 0), np.int32), accepting=np.zeros(1, np.bool_))
    also_nothing = DFA(symbols=(Symbol("a"),), transitions=np.array([[-1]], np.int32), accepting=np.array([False]))
    assert nothing.is_empty and not nothing.accepts_empty and not nothing.accepts([("a", False)])
    assert nothing == also_nothing
    assert nothing != automata.compile("a{0}")
    assert nothing.contains.tolist() == [[True]] and nothing.simple_equals_walk
    assert nothing != "a"


# The object


def test_arrays_cannot_be_changed() -> None:
    dfa = automata.compile("a/b")
    for array in (dfa.transitions, dfa.accepting, dfa.contains):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("symbols", "transitions", "accepting"),
    [
        ((Symbol("a"),), [[1]], [True]),  # no state 1
        ((Symbol("a"),), [[0, 0]], [True]),  # two columns
        ((Symbol("a"), Symbol("a")), [[0, 0]], [True]),
    ],
)
def test_a_table_that_is_none_is_refused(symbols: tuple[Symbol, ...], transitions: list, accepting: list) -> None:
    with pytest.raises(ValueError):
        DFA(symbols=symbols, transitions=np.array(transitions), accepting=np.array(accepting))


# Limits and speed


@pytest.mark.parametrize("text", ["(a|b)*/a/(a|b){20}", "a{1000}/b{1000}"])
def test_too_many_states_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError, match="more than 2,000 states") as caught:
        automata.compile(text)
    assert caught.value.column == 1


@pytest.mark.parametrize("quantifier", ["+", "{0,}"])
def test_nested_loops_are_written_once(quantifier: str) -> None:
    text = "a"
    for _ in range(40):
        text = f"({text}){quantifier}"
    assert len(thompson(automata.parse(text)).moves) < 40 * 6
    assert automata.compile(text) == automata.compile(f"a{quantifier}")


# To look at


def test_to_text() -> None:
    assert automata.compile("a/(^b|!(a|c))*").to_text().splitlines() == [
        "state   a  c  (other)  ^b",
        "→ 0     1  ·        ·   ·",
        "  1 *   ·  ·        1   1",
    ]


def test_to_dot() -> None:
    assert automata.compile("(a|^b)+").to_dot('my "q"').splitlines() == [
        'digraph "my \\"q\\"" {',
        "  rankdir=LR;",
        "  node [shape=circle];",
        '  start [shape=none, label=""];',
        "  1 [shape=doublecircle];",
        "  start -> 0;",
        '  0 -> 1 [label="a|^b"];',
        '  1 -> 1 [label="a|^b"];',
        "}",
    ]


@given(expression=expressions(), data=st.data())
def test_a_label_is_relevant_if_some_word_has_it_in_either_direction(expression, data) -> None:
    dfa = automata.compile(expression)
    label = data.draw(st.sampled_from([*sorted(dfa.labels), "a", "b", "never named"]))
    assert dfa.is_relevant(label) is is_relevant(expression, label)
