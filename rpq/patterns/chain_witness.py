"""The witness of a chain of atoms that is evaluated as one path: where its walk goes from one atom to the next.

The walk spells a word of the concatenation of the atoms' non-empty words. Wherever it can be cut into such words, there is a
path for each atom, and the vertices between them are values of the variables that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rpq import automata
from rpq.automata.dfa import DFA
from rpq.patterns.chains import Chain
from rpq.patterns.witnessed import Step

_State = tuple[int, int]
"""The number of an atom, and the state of its automaton."""


def cut(chain: Chain, walk: Sequence[Step]) -> list[tuple[Step, ...]]:
    """The steps of a walk of a chain, for each of its atoms in the order of the walk, told from subject to object.

    O(steps · states of all automata).
    """
    automatons = [automata.compile(automata.nonempty(link.expression) or link.expression) for link in chain.links]
    ends = [0, *_ends(automatons, walk)]
    pieces = [walk[begin:end] for begin, end in pairwise(ends)]
    return [
        tuple(replace(step, against=not step.against) for step in reversed(piece)) if link.is_backwards else tuple(piece)
        for link, piece in zip(chain.links, pieces, strict=True)
    ]


def _ends(automatons: Sequence[DFA], walk: Sequence[Step]) -> list[int]:
    """How many steps of the walk there are when each automaton has read its word."""
    # For each number of steps, the states that these can lead to, and from which each was first reached.
    reached: list[dict[_State, _State]] = [{(0, 0): (0, 0)}]
    for step in walk:
        following: dict[_State, _State] = {}
        for number, state in reached[-1]:
            dfa = automatons[number]
            column = dfa.column(step.label, step.against)
            after = int(dfa.transitions[state, column]) if column >= 0 else -1
            if after >= 0:
                following.setdefault((number, after), (number, state))
                if dfa.accepting[after] and number + 1 < len(automatons):
                    following.setdefault((number + 1, 0), (number, state))
        reached.append(following)
    last = len(automatons) - 1
    at = next(state for state in reached[-1] if state[0] == last and automatons[last].accepting[state[1]])
    ends = [len(walk)]
    for steps in range(len(walk), 0, -1):
        before = reached[steps][at]
        if before[0] < at[0]:
            ends.append(steps)
        at = before
    return ends[::-1]
