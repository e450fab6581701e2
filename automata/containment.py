"""Which states accept all that another accepts, and what that says about simple paths.

[s] is the set of words that lead from state s to an accepting state, the *suffix language* of s. The arrays are those
of a trim `DFA`: every state but that of an empty language accepts something.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def suffix_containment(transitions: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the matrix, shape (states, states), that says [s] ⊇ [t] at (s, t).

    A word of [t] that is not in [s] is found in the product of the automaton with itself: walking it from (s, t) ends
    where only t accepts, or where only t has a next step (the automaton is trim, so that step leads to a word). These
    pairs are the start, and every pair with a step into one that is found is found too. Each pair is found once and
    its predecessors are looked at once for each symbol: O(states² · symbols) time and O(states²) memory.
    """
    states, columns = transitions.shape
    steps = (transitions >= 0).astype(np.float32)  # floats, because only these multiply fast
    only_t_steps = (1 - steps) @ steps.T > 0
    found = only_t_steps | (~accepting[:, None] & accepting[None, :])
    predecessors = [_Predecessors(transitions[:, column], states) for column in range(columns)]

    s, t = np.nonzero(found)
    while len(s):
        earlier = [_cross(inverse, s, t) for inverse in predecessors]
        codes = np.unique(np.concatenate([before_s * states + before_t for before_s, before_t in earlier]))
        s, t = np.divmod(codes, states)
        new = ~found[s, t]
        s, t = s[new], t[new]
        found[s, t] = True
    return ~found


def shrinks_to_simple_paths(
    transitions: NDArray[np.int32], accepting: NDArray[np.bool_], contains: NDArray[np.bool_]
) -> bool:
    """Does every walk that is an answer shrink to a simple path that is one, on every graph?

    It does if a cycle can always be left out: [s] ⊇ [t] for every s that a non-empty word reaches and every t that a
    non-empty word reaches from s, and [s0] ∪ {ε} ⊇ [t] for every t. The ε is there because a walk that is back at its
    first vertex in an accepting state is an answer (x, x), which simple paths never give. Steps against the direction
    of edges change nothing: what shrinks is the walk. O(states³) for the reachable pairs, all of them small.
    """
    reaches = reached_by_steps(transitions)
    if np.any(reaches[reaches[0]] & ~contains[reaches[0]]):
        return False
    # [s0] ∪ {ε} ⊇ [t] looks at one step by hand, since ε is no state's concern after it.
    for t in range(len(transitions)):
        for from_start, from_t in zip(transitions[0], transitions[t], strict=True):
            if from_t >= 0 and (from_start < 0 or not contains[from_start, from_t]):
                return False
    return True


class _Predecessors:
    """For one symbol the states with a step into each state: `states[starts[t] : starts[t] + counts[t]]`."""

    def __init__(self, next_state: NDArray[np.int32], states: int) -> None:
        sources = np.flatnonzero(next_state >= 0)
        targets = next_state[sources]
        self.states = sources[np.argsort(targets, kind="stable")]
        self.counts = np.bincount(targets, minlength=states)
        self.starts = np.cumsum(self.counts) - self.counts


def _cross(
    inverse: _Predecessors, s: NDArray[np.int64], t: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every predecessor of s[i] with every predecessor of t[i], for every i."""
    of_t = inverse.counts[t]
    sizes = inverse.counts[s] * of_t
    pair = np.repeat(np.arange(len(s)), sizes)
    inside = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    before_s = inverse.states[inverse.starts[s[pair]] + inside // of_t[pair]]
    before_t = inverse.states[inverse.starts[t[pair]] + inside % of_t[pair]]
    return before_s, before_t


def reached_by_steps(transitions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Shape (states, states): does a non-empty word lead from s to t?"""
    states = len(transitions)
    reaches = np.zeros((states, states), dtype=np.bool_)
    for s in range(states):
        row = transitions[s]
        reaches[s, row[row >= 0]] = True
    for middle in range(states):  # Warshall 1962
        reaches[reaches[:, middle]] |= reaches[middle]
    return reaches
