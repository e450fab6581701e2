"""The end from which the paths of a query are followed.

The index keeps a tree for each root, so the cost of a query is that of its roots; a restriction of the ends of paths saves
rows, not trees. The paths from x to y are those from y to x of the reversed expression. Therefore a query for few targets
has these as its roots, and its pairs are turned around where they leave the index.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from rpq.automata import DFA, ExpressionError, parse, reversal
from rpq.automata.expressions import SizeError
from rpq.language.options import Vertex
from rpq.language.query import Query, automaton_of
from rpq.operators.paths.program import CompiledExpression

_LARGER = 8
"""The largest ratio of the states of the reversed automaton to those of the automaton."""


class Way(NamedTuple):
    """The direction in which paths are followed: the automaton, the roots and the ends (None: all vertices).

    `is_reversed` is true if roots are the targets of answers.
    """

    dfa: DFA
    roots: Collection[Vertex] | None
    ends: Collection[Vertex] | None
    is_reversed: bool


def way_of(query: Query) -> Way:
    """Return the direction from the targets if these are fewer and the automaton allows it, otherwise from the sources.

    The automaton must not be much larger in that direction: that of `(a|b){9}/a/(a|b)*` has 11 states,
    that of its reversal 1,024. With simple paths it is also any conflict, in either direction: roots are then what has a
    budget and may be set aside, and an automaton can have conflicts (`^b*/^a`) where its reversal has none (`a/b*`).
    Paths in an order in time are followed in that order, and those with costs from their sources on, since floats are summed
    in that order.
    """
    forward = Way(query.dfa, query.sources, query.targets, False)
    is_directed = query.is_ordered or query.cost is not None
    if is_directed or query.targets is None or (query.sources is not None and len(query.sources) <= len(query.targets)):
        return forward
    dfa = _reversed_automaton(query.expression)
    if dfa is None:
        return forward
    if len(dfa.accepting) > _LARGER * len(query.dfa.accepting):
        return forward
    if query.paths != "walk" and (_has_conflicts(query.dfa) or _has_conflicts(dfa)):
        return forward
    return Way(dfa, query.targets, query.sources, True)


@lru_cache(maxsize=4096)
def _reversed_automaton(expression: str) -> DFA | None:
    """Return the automaton of the reversal, if there is one: thousands of queries may ask for that of one expression."""
    try:
        return automaton_of(str(reversal(parse(expression))))
    except (ExpressionError, SizeError):
        return None


def _has_conflicts(dfa: DFA) -> bool:
    return len(CompiledExpression(dfa).program.later_state) > 0
