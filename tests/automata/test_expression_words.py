"""The oracle of the automata's tests: random expressions, and the words they describe by plain enumeration.

`words` says what an expression means with sets of words and nothing else. The other files of this
family import it.
"""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from rpq.automata import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition, Symbol

Word = tuple[Symbol, ...]

NAMED = ("a", "b")
OTHER = "z"  # a label that no random expression names
STEPS = tuple(Symbol(label, inverse) for label in (*NAMED, OTHER) for inverse in (False, True))


def words(expression: Expression, length: int) -> set[Word]:
    """The words of at most `length` steps out of STEPS that the expression describes."""
    match expression:
        case Label(name):
            return {(Symbol(name),)} if length else set()
        case NegatedSet(members):
            forward = not members or any(not member.inverse for member in members)
            inverse = any(member.inverse for member in members)
            taken = [step for step in STEPS if (inverse if step.inverse else forward) and step not in members]
            return {(step,) for step in taken} if length else set()
        case Inverse(inner):
            return {tuple(Symbol(s.label, not s.inverse) for s in reversed(word)) for word in words(inner, length)}
        case Alternation(parts):
            return set().union(*(words(part, length) for part in parts))
        case Concatenation(parts):
            found: set[Word] = {()}
            for part in parts:
                found = joined(found, words(part, length), length)
            return found
        case Repetition(inner, minimum, maximum):
            # More than `minimum + length` rounds find nothing new: each either adds a step or is empty.
            once = words(inner, length)
            rounds = minimum + length if maximum is None else maximum
            power: set[Word] = {()}
            total: set[Word] = set()
            for number in range(rounds + 1):
                if number >= minimum:
                    total |= power
                power = joined(power, once, length)
            return total
    raise TypeError(expression)


def joined(first: set[Word], second: set[Word], length: int) -> set[Word]:
    return {u + v for u in first for v in second if len(u) + len(v) <= length}


def all_words(length: int) -> list[Word]:
    return [word for n in range(length + 1) for word in product(STEPS, repeat=n)]


def expressions(
    leaves: int = 5, labels: st.SearchStrategy[str] | None = None, more: st.SearchStrategy[Expression] | None = None
) -> st.SearchStrategy[Expression]:
    """Random expressions, all operators, at most about `leaves` labels (those of NAMED), negated sets, and of `more`."""
    labels = st.sampled_from(NAMED) if labels is None else labels
    symbols = st.builds(Symbol, labels, st.booleans())
    leaf = st.builds(Label, labels) | st.builds(NegatedSet, st.lists(symbols, max_size=3).map(tuple))
    leaf = leaf if more is None else leaf | more
    bounds = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 2)).map(
        lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
    )

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return (
            st.builds(Inverse, inner)
            | st.builds(Concatenation, several)
            | st.builds(Alternation, several)
            | st.builds(lambda node, pair: Repetition(node, *pair), inner, bounds)
            | st.builds(Repetition, inner, st.just(0), st.none())
        )

    return st.recursive(leaf, extend, max_leaves=leaves)
