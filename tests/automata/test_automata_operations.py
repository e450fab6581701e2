"""Expressions made of expressions: the reversal, the non-empty words, one after the other.

semantics.md S12
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rpq import automata
from rpq.automata import Concatenation, Expression, Inverse, Label, Repetition, nonempty, parse, reversal
from rpq.automata.expressions import MAXIMUM_DEPTH, SizeError
from rpq.automata.transforms import accepts_empty
from tests.automata.test_expression_words import Word, expressions, words


def turned(word: Word) -> Word:
    return tuple(step.reversed() for step in reversed(word))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "^a"),
        ("a/^b*", "b*/^a"),
        ("(a|b)/c+", "^c+/(^a|^b)"),
        ("(a/b){2,3}", "(^b/^a){2,3}"),
        ("^(a/b)", "a/b"),
        ("!(a|^b)", "!(b|^a)"),
        ("!()", "^!()"),
        ("<http://a/b>/'x y'", '^"x y"/^<http://a/b>'),
    ],
)
def test_reversals_by_hand(text: str, expected: str) -> None:
    assert str(reversal(parse(text))) == expected


@given(expressions())
@settings(deadline=None)
def test_the_reversal_has_the_words_turned_around(tree: Expression) -> None:
    back = reversal(tree)
    assert words(back, 4) == {turned(word) for word in words(tree, 4)}
    assert parse(str(back)) == back


@given(expressions())
@settings(deadline=None)
def test_twice_reversed_is_the_same_language(tree: Expression) -> None:
    assert automata.compile(reversal(reversal(tree))) == automata.compile(tree)
    assert automata.compile(reversal(tree)) == automata.compile(Inverse(tree))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a*", "a+"),
        ("a{,4}", "a{1,4}"),
        ("(a?){2,3}", "a{1,3}"),
        ("(a?){2,}", "a+"),
        ("(a*)*", "a+"),
        ("a*|b", "a+|b"),
        ("a*/b*", "a+/b*|b+"),
        ("a*/b?/c", "a*/b?/c"),
        ("a?/b?/c?", "a/b?/c?|b/c?|c"),
        ("(a?/b?){,450}", "(a/b?|b)/(a?/b?){,449}"),  # written once more, it would have too many steps
        ("a{0}", None),
        ("(a{0})*|b{0}/c{0}", None),
    ],
)
def test_non_empty_words_by_hand(text: str, expected: str | None) -> None:
    found = nonempty(parse(text))
    assert (None if found is None else str(found)) == expected


@given(expressions())
@settings(deadline=None)
def test_non_empty_words_are_all_but_the_empty_one(tree: Expression) -> None:
    expected = words(tree, 4) - {()}
    assert accepts_empty(tree) == (() in words(tree, 0))
    found = nonempty(tree)
    if found is None:
        assert not expected
        return
    assert words(found, 4) == expected
    assert parse(str(found)) == found
    assert not automata.compile(found).accepts_empty


@given(expressions(leaves=3), expressions(leaves=3))
@settings(deadline=None)
def test_a_concatenation_has_the_words_of_both_one_after_the_other(first: Expression, second: Expression) -> None:
    both = Concatenation((first, second))
    expected = {u + v for u in words(first, 3) for v in words(second, 3) if len(u) + len(v) <= 3}
    assert words(both, 3) == expected
    assert parse(str(both)) == both
    dfa = automata.compile(both)
    assert all(dfa.accepts(word) for word in expected)
    left, right = nonempty(first), nonempty(second)
    if left is not None and right is not None:
        found = words(Concatenation((left, right)), 3)
        assert found == {u + v for u in words(first, 3) for v in words(second, 3) if u and v and len(u) + len(v) <= 3}


def test_what_gets_too_deep_is_refused() -> None:
    tree: Expression = Concatenation((Label("a"), Label("b")))
    while tree.depth < MAXIMUM_DEPTH:
        tree = Repetition(tree, 1, None)
    with pytest.raises(SizeError, match="nested more than 100 levels deep"):
        reversal(tree)  # ^a and ^b are a level more
    assert reversal(tree.inner).depth == MAXIMUM_DEPTH
