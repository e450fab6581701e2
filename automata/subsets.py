"""From a non-deterministic to a deterministic automaton: the subset construction.

A state of the result is the set of NFA states that a word can lead to (Rabin and Scott 1959, *Finite automata and their
decision problems*). NFA states without steps of their own tell nothing apart and are left out of the sets, but for the
final one.
"""

from __future__ import annotations

from dataclasses import dataclass

from rpq.automata.expressions import SizeError
from rpq.automata.thompson import NFA

MAXIMUM_STATES = 2000
"""Sets that are made before an expression is given up: their number can be exponential in its size."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A deterministic automaton as plain lists; state 0 is the start."""

    next_state: list[list[int]]
    """For every state, for every symbol of the alphabet, the next state; -1 for none."""
    accepting: list[bool]


def determinize(nfa: NFA) -> Table:
    """Make the sets that can be reached; the result is complete, the empty set being a state that accepts nothing.

    O(sets · NFA states · alphabet), where the sets may be as many as 2^NFA states; `SizeError` above `MAXIMUM_STATES`.
    """
    width = len(nfa.alphabet)
    closures: dict[int, frozenset[int]] = {}

    def closure(state: int) -> frozenset[int]:
        if state not in closures:
            closures[state] = _closure(nfa, state)
        return closures[state]

    start = closure(nfa.start)
    number = {start: 0}
    subsets = [start]
    rows: list[list[int]] = []
    for subset in subsets:  # grows while it is walked
        targets: list[set[int]] = [set() for _ in range(width)]
        for state in subset:
            for column, target in nfa.moves[state]:
                targets[column].add(target)
        row = []
        for reached in targets:
            following = frozenset().union(*map(closure, reached))
            if following not in number:
                if len(subsets) == MAXIMUM_STATES:
                    raise SizeError(f"the expression needs an automaton of more than {MAXIMUM_STATES:,} states")
                number[following] = len(subsets)
                subsets.append(following)
            row.append(number[following])
        rows.append(row)
    return Table(next_state=rows, accepting=[nfa.final in subset for subset in subsets])


def _closure(nfa: NFA, state: int) -> frozenset[int]:
    """The states that are reached from one without a step."""
    reached = {state}
    pending = [state]
    while pending:
        for following in nfa.epsilon[pending.pop()]:
            if following not in reached:
                reached.add(following)
                pending.append(following)
    return frozenset(inner for inner in reached if nfa.moves[inner] or inner == nfa.final)
