"""Property paths: what of a path is joins and unions of atoms, and what is one atom with a path expression.

As in section 18.2.2 of the standard a sequence is a join through a variable of its own, an inverse turns its ends around,
and an alternative is a union: bags. Closures, negated sets, and sequences with a part that may be empty are path atoms:
sets of pairs, joined by a path that is not empty. Under simple paths nothing is taken apart, or a path would not be simple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
)
from rpq.automata.symbols import Symbol
from rpq.queries.pattern import Atom, Blank, Term
from rpq.sparql.algebra import Conjunction, Operator, WindowAtom, joined, united

_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def path_expression(node: Any, label_of: Callable[[Any], str], refuse: Callable[[str, Any], Exception]) -> Expression:
    """The expression that a path of the parse tree is. Raises `SizeError`, and what `refuse` makes."""

    def read(node: Any) -> Expression:
        name = getattr(node, "name", None)
        if name == "PathAlternative":
            return _of_parts(Alternation, [read(part) for part in node.part])
        if name == "PathSequence":
            return _of_parts(Concatenation, [read(part) for part in node.part])
        if name == "PathEltOrInverse":
            return Inverse(read(node.part))
        if name == "PathElt":
            inner = read(node.part)
            return inner if node.mod is None else Repetition(inner, *_QUANTIFIERS[node.mod])
        if name == "PathNegatedPropertySet":
            return NegatedSet(tuple(member(part) for part in node.part or ()))
        if name == "DistinctPath":
            raise refuse("DISTINCT in a path", node)
        return Label(label_of(node))

    def member(node: Any) -> Symbol:
        if getattr(node, "name", None) == "InversePath":
            return Symbol(label_of(node.part), inverse=True)
        return Symbol(label_of(node))

    return read(node)


def accepts_empty(expression: Expression) -> bool:
    """Whether the empty word is in the language of an expression.

    >>> from rpq.automata import parse
    >>> [accepts_empty(parse(text)) for text in ("a*/b?", "a/b*", "a|b*", "^(a?)", "!a")]
    [True, False, True, True, False]
    """
    match expression:
        case Inverse(inner):
            return accepts_empty(inner)
        case Concatenation(parts):
            return all(map(accepts_empty, parts))
        case Alternation(parts):
            return any(map(accepts_empty, parts))
        case Repetition(inner, minimum):
            return minimum == 0 or accepts_empty(inner)
        case _:
            return False


def atoms_of_path(
    subject: Term, expression: Expression, object_: Term, *, window: str | None, fresh: Callable[[], Blank], whole: bool
) -> Operator:
    """What is asked by a path between two terms: a conjunction of atoms, or unions of these; `whole` keeps it in one atom.

    >>> from rpq.automata import parse
    >>> from rpq.queries.pattern import Variable
    >>> names = iter("123")
    >>> asked = atoms_of_path(
    ...     Variable("x"), parse("a/^b"), Variable("y"), window=None, fresh=lambda: Blank(next(names)), whole=False
    ... )
    >>> [str(one.atom) for one in asked.atoms]
    ['?x a _:1', '?y b _:1']
    """

    def asked(subject: Term, expression: Expression, object_: Term) -> Operator:
        if isinstance(expression, Inverse) and (not whole or isinstance(expression.inner, Label)):
            return asked(object_, expression.inner, subject)
        if not whole and isinstance(expression, Alternation):
            return united(*(asked(subject, part, object_) for part in expression.parts))
        if not whole and isinstance(expression, Concatenation) and not any(map(accepts_empty, expression.parts)):
            inner = [fresh() for _ in expression.parts[1:]]
            ends = [subject, *inner, object_]
            return joined(
                *(asked(start, part, end) for start, part, end in zip(ends, expression.parts, ends[1:], strict=False))
            )
        return Conjunction((WindowAtom(Atom(subject, expression, object_), window),))

    return asked(subject, expression, object_)


def _of_parts(kind: type[Alternation] | type[Concatenation], parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))
