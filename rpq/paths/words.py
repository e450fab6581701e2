"""What expressions have in common that spell the same words."""

from __future__ import annotations

from collections.abc import Hashable

from rpq.automata import DFA


def words_of(dfa: DFA) -> Hashable:
    """The minimal automaton as a value: equal for expressions with the same non-empty words. O(its size).

    Whether the start accepts says something only where a word leads back to it: the empty path is no answer.
    """
    columns = [(*symbol, *dfa.transitions[:, column].tolist()) for column, symbol in enumerate(dfa.symbols)]
    begin = 0 if (dfa.transitions == 0).any() else 1
    return tuple(sorted(columns, key=repr)), begin, tuple(dfa.accepting[begin:].tolist())
