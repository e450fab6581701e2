"""From the tree of an expression to a non-deterministic automaton: Thompson's construction.

Every operator becomes two new states, a start and an end, around the automata of its operands (Thompson 1968, *Regular
expression search algorithm*). Two things are ours: an inverse is pushed down to the labels while the tree is walked
(`^(a/b)` is `^b/^a`), and a negated set becomes one edge for each symbol of the alphabet that it lets through.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(kw_only=True)
class NFA:
    """A non-deterministic automaton with one start and one final state, both given by number."""

    alphabet: tuple[Symbol, ...]
    epsilon: list[list[int]] = field(default_factory=list)
    """For every state the states that are reached without a step."""
    moves: list[list[tuple[int, int]]] = field(default_factory=list)
    """For every state its steps: (position in the alphabet, next state)."""
    start: int = 0
    final: int = 0


def alphabet_of(expression: Expression) -> tuple[Symbol, ...]:
    """Return the symbols that an automaton of the expression has to tell apart, sorted. O(size of the tree · log).

    These are the labels it names, in the direction of the step (inverses resolved), and for each direction in which a
    negated set can step one symbol for all other labels.

    >>> print(*alphabet_of(Concatenation((Label("a"), Inverse(NegatedSet((Symbol("b"),)))))))
    a ^b ^(other)
    """
    symbols: set[Symbol] = set()
    pending = [(expression, False)]
    while pending:
        node, inverted = pending.pop()
        match node:
            case Label(name):
                symbols.add(Symbol(name, inverted))
            case NegatedSet(members):
                symbols.update(Symbol(member.label, member.inverse ^ inverted) for member in members)
                symbols.update(Symbol(None, inverse ^ inverted) for inverse in node.directions)
            case Inverse(inner):
                pending.append((inner, not inverted))
            case Repetition(inner):
                pending.append((inner, inverted))
            case Concatenation(parts) | Alternation(parts):
                pending.extend((part, inverted) for part in parts)
    return tuple(sorted(symbols, key=Symbol.sort_key))


def thompson(expression: Expression) -> NFA:
    """Build the automaton of an expression. O(steps written out · alphabet)."""
    builder = _Builder(alphabet_of(expression))
    builder.nfa.start, builder.nfa.final = builder.build(expression, inverted=False)
    return builder.nfa


class _Builder:
    """Adds to one NFA, fragment by fragment; a fragment is its start and its end."""

    def __init__(self, alphabet: tuple[Symbol, ...]) -> None:
        self.nfa = NFA(alphabet=alphabet)
        self._column = {symbol: column for column, symbol in enumerate(alphabet)}

    def build(self, node: Expression, *, inverted: bool) -> tuple[int, int]:
        match node:
            case Label(name):
                return self._step([Symbol(name, inverted)])
            case NegatedSet():
                return self._step(self._let_through(node, inverted))
            case Inverse(inner):
                return self.build(inner, inverted=not inverted)
            case Concatenation(parts):
                return self._concatenation(parts[::-1] if inverted else parts, inverted)
            case Alternation(parts):
                return self._alternation(parts, inverted)
            case Repetition():
                return self._repetition(node, inverted)
        raise TypeError(f"{node!r} is not a path expression")

    def _step(self, symbols: list[Symbol]) -> tuple[int, int]:
        start, end = self._state(), self._state()
        self.nfa.moves[start].extend((self._column[symbol], end) for symbol in symbols)
        return start, end

    def _let_through(self, node: NegatedSet, inverted: bool) -> list[Symbol]:
        """The symbols that a negated set accepts: "other" always, and every label that is named elsewhere only."""
        directions = {inverse ^ inverted for inverse in node.directions}
        forbidden = {Symbol(member.label, member.inverse ^ inverted) for member in node.members}
        return [symbol for symbol in self.nfa.alphabet if symbol.inverse in directions and symbol not in forbidden]

    def _concatenation(self, parts: tuple[Expression, ...], inverted: bool) -> tuple[int, int]:
        start = end = self._state()
        for part in parts:
            end = self._append(end, part, inverted)
        return start, end

    def _alternation(self, parts: tuple[Expression, ...], inverted: bool) -> tuple[int, int]:
        start, end = self._state(), self._state()
        for part in parts:
            self._link(self._append(start, part, inverted), end)
        return start, end

    def _repetition(self, node: Repetition, inverted: bool) -> tuple[int, int]:
        """`minimum` copies in a row, then others each of which may be the last; without a maximum the last one is a loop.

        So the copy of `+` is the one that loops: were it written again behind a first one, nested ones would double.
        """
        start = end = self._state()
        for _ in range(node.minimum - (node.maximum is None and node.minimum > 0)):
            end = self._append(end, node.inner, inverted)
        if node.maximum is None:
            loop, after = self._state(), self._state()
            self._link(end, loop)
            last = self._append(loop, node.inner, inverted)
            self._link(last, loop)
            self._link(last if node.minimum else loop, after)
            return start, after
        after = self._state()
        for _ in range(node.maximum - node.minimum):
            self._link(end, after)
            end = self._append(end, node.inner, inverted)
        self._link(end, after)
        return start, after

    def _append(self, before: int, node: Expression, inverted: bool) -> int:
        """Build a fragment that begins at the state `before`; return its end."""
        start, end = self.build(node, inverted=inverted)
        self._link(before, start)
        return end

    def _state(self) -> int:
        self.nfa.epsilon.append([])
        self.nfa.moves.append([])
        return len(self.nfa.moves) - 1

    def _link(self, source: int, target: int) -> None:
        self.nfa.epsilon[source].append(target)
