"""Expressions derived from an expression: the same paths without the empty one, and the same paths from their other end.

The empty path is never an answer, so a path composed of two answers is a *non-empty* word of the first expression followed
by a *non-empty* word of the second: `?x a* ?m . ?m b* ?y` joins the pairs of `a+/b+`, not those of `a*/b*`. A word without
edges is empty here, whether it has tests of vertices or not.
"""

from __future__ import annotations

from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    SizeError,
    VertexTest,
)


def accepts_empty(expression: Expression) -> bool:
    """Return whether the expression accepts a word without edges. O(size of the tree).

    >>> from rpq.automata import parse
    >>> [accepts_empty(parse(text)) for text in ["a*", "a*/b", "a{0}", "(a?){3}", "a?/@[t]"]]
    [True, False, True, True, True]
    """
    match expression:
        case Label() | NegatedSet():
            return False
        case VertexTest():
            return True
        case Inverse(inner):
            return accepts_empty(inner)
        case Concatenation(parts):
            return all(map(accepts_empty, parts))
        case Alternation(parts):
            return any(map(accepts_empty, parts))
        case Repetition(inner, minimum):
            return minimum == 0 or accepts_empty(inner)
    raise TypeError(f"{expression!r} is not a path expression")


def nonempty(expression: Expression) -> Expression | None:
    """Return an expression of the words that have an edge, or None if there are none (`a{0}`, `@[t]`).

    An expression without the empty word is returned unchanged. Raises a `SizeError` if the result is nested too deep.
    O(size of the tree · depth · longest concatenation).

    >>> from rpq.automata import parse
    >>> for text in ["a/b*", "a*", "a?", "(a?){3}", "a*/b*", "a{0}", "a?/@[t]/b?"]:
    ...     print(nonempty(parse(text)))
    a/b*
    a+
    a
    a{1,3}
    a+/b*|b+
    None
    a/@[t]/b?|@[t]/b
    """
    if not accepts_empty(expression):
        return expression
    match expression:
        case VertexTest():
            return None
        case Inverse(inner):
            rest = nonempty(inner)
            return None if rest is None else Inverse(rest)
        case Alternation(parts):
            return _alternate([nonempty(part) for part in parts])
        case Concatenation(parts):  # every part accepts the empty word; the cases differ in the first part that is not empty
            tests = [_tests(part) for part in parts]
            return _alternate(
                [
                    _concatenate([*filter(None, tests[:place])], nonempty(part), parts[place + 1 :])
                    for place, part in enumerate(parts)
                ]
            )
        case Repetition(inner, minimum, maximum) if minimum > 1 and _tests(inner) is not None:
            # An iteration without an edge is a test, between any two of the others.
            more = [] if maximum == minimum else [Repetition(inner, 0, None if maximum is None else maximum - minimum)]
            return nonempty(Concatenation((*[inner] * minimum, *more)))
        case Repetition(inner, _, maximum):
            return _repeat(inner, maximum)
    raise TypeError(f"{expression!r} is not a path expression")


def _tests(expression: Expression) -> Expression | None:
    """Return the words without edges of an expression that has some, which are tests; None if the empty word is one."""
    match expression:
        case VertexTest():
            return expression
        case Inverse(inner):
            return _tests(inner)
        case Repetition(inner, minimum):  # where one of the tests holds, repeating it says no more
            return None if minimum == 0 else _tests(inner)
        case Concatenation(parts):
            tests = [test for part in parts if (test := _tests(part))]
            return Concatenation(tuple(tests)) if len(tests) > 1 else tests[0] if tests else None
        case Alternation(parts):
            found = [_tests(part) for part in parts if accepts_empty(part)]
            return None if None in found else _alternate(found)
    raise TypeError(f"{expression!r} has no word without edges")


def _repeat(inner: Expression, maximum: int | None) -> Expression | None:
    """Return an expression of at least one non-empty word of `inner`, and at most `maximum` of them."""
    once = None if maximum == 0 else nonempty(inner)
    if once is None or maximum == 1:
        return once
    if isinstance(once, Repetition) and (once.minimum, once.maximum) == (1, None):
        return once
    try:
        return Repetition(once, 1, maximum)
    except SizeError:  # the non-empty words of `inner` may take more steps to write than `inner`
        rest = Repetition(inner, 0, None if maximum is None else maximum - 1)
        return Concatenation((once, rest))


def _alternate(parts: list[Expression | None]) -> Expression | None:
    found = list(dict.fromkeys(part for part in parts if part is not None))
    if len(found) < 2:
        return found[0] if found else None
    return Alternation(tuple(found))


def _concatenate(tests: list[Expression], first: Expression | None, rest: tuple[Expression, ...]) -> Expression | None:
    return first if first is None or not (tests or rest) else Concatenation((*tests, first, *rest))


def reversal(expression: Expression) -> Expression:
    """Return the expression of the paths from y to x, for the paths from x to y that the expression describes.

    Words are reversed and every step is inverted, which is the meaning of `^(…)`. Here the inverse is moved inward as far as
    possible, so that the text remains simple: the reversal of the reversal reads like the expression. Raises a `SizeError`
    if the inverses make the expression nested too deep. O(size of the tree).

    >>> from rpq.automata import parse
    >>> for text in ["a/^b*", "(a/b){2}|c+", "!(a|^b)/!()"]:
    ...     print(reversal(parse(text)))
    b*/^a
    (^b/^a){2}|^c+
    ^!()/!(b|^a)
    """
    match expression:
        case NegatedSet(members, condition) if members:
            return NegatedSet(tuple(member.reversed() for member in members), condition)
        case VertexTest():
            return expression
        case Label() | NegatedSet():  # no set means "any inverse step": `!()` means any forward step
            return Inverse(expression)
        case Inverse(inner):
            return inner
        case Concatenation(parts):
            return Concatenation(tuple(reversal(part) for part in reversed(parts)))
        case Alternation(parts):
            return Alternation(tuple(reversal(part) for part in parts))
        case Repetition(inner, minimum, maximum):
            turned = reversal(inner)
            if isinstance(turned, Inverse):  # `^a*` reads better than `(^a)*`, and means the same
                return Inverse(Repetition(turned.inner, minimum, maximum))
            return Repetition(turned, minimum, maximum)
    raise TypeError(f"{expression!r} is not a path expression")
