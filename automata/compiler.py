"""From a path expression to its minimal DFA, all the way."""

from __future__ import annotations

import numpy as np

from rpq.automata.dfa import DFA
from rpq.automata.errors import ExpressionError
from rpq.automata.expressions import Expression, SizeError
from rpq.automata.hopcroft import minimize
from rpq.automata.parser import parse
from rpq.automata.subsets import determinize
from rpq.automata.thompson import thompson


def compile(expression: str | Expression) -> DFA:
    """Compile a path expression into the minimal DFA of its language.

    Thompson construction, subset construction, Hopcroft minimisation; the result is canonical. A symbol that no path
    takes has no column, unless it is there to tell a label from the others (`b` in `!(b)`). An `ExpressionError` if the
    expression is not understood, or if its automaton is too large (the number of states can be exponential in the
    length of the expression, so there is a limit).

    >>> print(compile("a/!(b)?").to_text())
    state   a  b  (other)
    → 0     1  ·        ·
      1 *   2  ·        2
      2 *   ·  ·        ·
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    nfa = thompson(tree)
    try:
        table = minimize(determinize(nfa))
    except SizeError as error:
        text = expression if isinstance(expression, str) else str(expression)
        raise ExpressionError(str(error), 1, "a smaller expression", text) from None
    used = {nfa.alphabet[column] for column, targets in enumerate(zip(*table.next_state, strict=True)) if max(targets) >= 0}
    with_others = {symbol.inverse for symbol in used if symbol.label is None}
    kept = [
        column
        for column, symbol in enumerate(nfa.alphabet)
        if symbol in used or (symbol.label is not None and symbol.inverse in with_others)
    ]
    return DFA(
        symbols=tuple(nfa.alphabet[column] for column in kept),
        transitions=np.array([[row[column] for column in kept] for row in table.next_state], dtype=np.int32),
        accepting=np.array(table.accepting, dtype=np.bool_),
    )
