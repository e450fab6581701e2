"""The reversal of an expression: its paths, told from their other end."""

from __future__ import annotations

from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
)


def reversal(expression: Expression) -> Expression:
    """Return the expression of the paths from y to x, for the paths from x to y that the expression describes.

    Its words are reversed and every step is turned around, which is what `^(…)` means; here the inverse is written out as
    far in as it goes, so that the text stays plain: the reversal of the reversal reads like the expression. A `SizeError`
    where the inverses make the expression nested too deep. O(size of the tree).

    >>> from rpq.automata import parse
    >>> for text in ["a/^b*", "(a/b){2}|c+", "!(a|^b)/!()"]:
    ...     print(reversal(parse(text)))
    b*/^a
    (^b/^a){2}|^c+
    ^!()/!(b|^a)
    """
    match expression:
        case NegatedSet(members) if members:
            return NegatedSet(tuple(member.reversed() for member in members))
        case Label() | NegatedSet():  # there is no set for "any inverse step": `!()` is about forward ones
            return Inverse(expression)
        case Inverse(inner):
            return inner
        case Concatenation(parts):
            return Concatenation(tuple(reversal(part) for part in reversed(parts)))
        case Alternation(parts):
            return Alternation(tuple(reversal(part) for part in parts))
        case Repetition(inner, minimum, maximum):
            turned = reversal(inner)
            if isinstance(turned, Inverse):  # `^a*` reads better than `(^a)*`, and is the same
                return Inverse(Repetition(turned.inner, minimum, maximum))
            return Repetition(turned, minimum, maximum)
    raise TypeError(f"{expression!r} is not a path expression")
