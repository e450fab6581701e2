"""The flat tables of a DFA, which kernels walk.

Two things change on the way. Symbols with equal columns become one *class*, so that `a|b|c` costs what `a` costs
and adjacency lists are kept a class, not a label. And a start state with incoming transitions gets a copy that
has none: the root's own node is then never entered, needs no row, and (x, x) is a cell like any other.

Where a path may end at its root but not go on from it (`paths="simple_cycle"`), there is one more state, the *closing
state*: each transition into an accepting state has a twin into it, and nothing leads out of it. Kernels take the twin where
a step comes back to the root, and the other one everywhere else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import rpq.automata as automata
from rpq.automata.dfa import reachability, suffix_containment
from rpq.automata.symbols import LabelSymbol
from rpq.compiled.views import Record, int64


class ProgramSizes(Record):
    """The sizes of the automaton."""

    _fields_ = (
        ("classes", int64),  # transition classes
        ("states", int64),
        ("accepting", int64),  # accepting states
        ("closing", int64),  # the state of paths that end at their root, -1 none
    )


class Program(NamedTuple):
    """The automaton as flat tables; state 0 is the start and is never entered."""

    sizes: ProgramSizes
    step_first: np.ndarray  # int32 a class + 1: its steps s -> t with s > 0 in step_source, step_target
    step_source: np.ndarray
    step_target: np.ndarray
    start_target: np.ndarray  # int32 a class: δ(0, class) or -1; not the closing state
    leave_first: np.ndarray  # int32 a state + 1: its transitions in leave_class, leave_target, a twin behind the other
    leave_class: np.ndarray
    leave_target: np.ndarray
    enter_first: np.ndarray  # int32 a state + 1: the transitions into it in enter_class, enter_source
    enter_class: np.ndarray
    enter_source: np.ndarray
    accepting: np.ndarray  # uint8 a state
    accepting_states: np.ndarray  # int32
    forward: np.ndarray  # int16 a label id: class of a step along such an edge, -1 none
    inverse: np.ndarray  # int16 a label id: class of a step against it
    earlier_first: np.ndarray  # int32 a step of states s * states + t, + 1: `program.conflicts`, in earlier_state
    earlier_state: np.ndarray  # int32
    earlier_loop: np.ndarray  # uint8 a step s * states + t: t makes a conflict after s
    later_first: np.ndarray  # int32 a state + 1: the states that make a conflict after it, in later_state
    later_state: np.ndarray  # int32


class CompiledExpression:
    """The tables of a query, and the classes of labels, which become known one by one.

    If `closes`, paths may end at their root, in a closing state.
    """

    def __init__(self, dfa: automata.DFA, *, closes: bool = False) -> None:
        self._dfa = dfa
        transitions, accepting = _with_fresh_start(dfa)
        columns, class_of_column = np.unique(transitions, axis=1, return_inverse=True)
        class_of_column = np.asarray(class_of_column).reshape(-1)
        useful = [c for c in range(columns.shape[1]) if (columns[:, c] >= 0).any()]
        renumbered = {old: new for new, old in enumerate(useful)}
        self._class_of_column = [renumbered.get(int(c), -1) for c in class_of_column]
        self.table = columns[:, useful].astype(np.int32)
        """States by classes: the next state, -1 none."""
        self.accepting = accepting
        self.program = _flatten(self.table, accepting, closes=closes)

    def classes_of(self, label: LabelSymbol | None) -> tuple[int, int]:
        """Return the classes of a step along and of a step against an edge of that label; -1 where it leads nowhere.

        None is a label that the query does not see: that of another stream.
        """
        if label is None:
            return -1, -1
        columns = (self._dfa.column(label, False), self._dfa.column(label, True))
        forward, inverse = (self._class_of_column[c] if c >= 0 else -1 for c in columns)
        return forward, inverse


def _with_fresh_start(dfa: automata.DFA) -> tuple[np.ndarray, np.ndarray]:
    transitions, accepting = np.array(dfa.transitions), np.array(dfa.accepting)
    if not (transitions == 0).any():
        return transitions, accepting
    # The old start moves to the end; the new one, state 0, has its transitions out and none in.
    moved = np.where(transitions == 0, len(transitions), transitions)
    return np.vstack([moved, moved[0]]), np.append(accepting, accepting[0])


def _flatten(table: np.ndarray, accepting: np.ndarray, *, closes: bool) -> Program:
    states, classes = table.shape
    conflicts, earlier_first, earlier_state = _conflicts(table, accepting, states + closes)
    accepts = accepting.astype(np.uint8)
    # The empty path is never an answer, so whether the start accepts does not matter.
    accepts[0] = 0
    targets = [[_targets(int(table[s, c]), accepts, closes=closes) for c in range(classes)] for s in range(states)]
    steps = [[(s, t) for s in range(1, states) for t in targets[s][c]] for c in range(classes)]
    leaves = [[(c, t) for c in range(classes) for t in targets[s][c]] for s in range(states)]
    enters = [[(c, s) for c in range(classes) for s in range(states) if t in targets[s][c]] for t in range(states + closes)]
    if closes:
        leaves.append([])
        accepts = np.append(accepts, np.uint8(1))
    step_first, step_source, step_target = _flatten_pairs(steps)
    leave_first, leave_class, leave_target = _flatten_pairs(leaves)
    enter_first, enter_class, enter_source = _flatten_pairs(enters)
    later_first, later_state, _ = _flatten_pairs([[(int(t), 0) for t in np.flatnonzero(row)] for row in conflicts])
    return Program(
        sizes=ProgramSizes(classes, states + closes, accepts.sum(), states if closes else -1),
        step_first=step_first,
        step_source=step_source,
        step_target=step_target,
        start_target=np.array([table[0, c] for c in range(classes)], np.int32),
        leave_first=leave_first,
        leave_class=leave_class,
        leave_target=leave_target,
        enter_first=enter_first,
        enter_class=enter_class,
        enter_source=enter_source,
        accepting=accepts,
        accepting_states=np.flatnonzero(accepts).astype(np.int32),
        forward=np.full(0, -1, np.int16),
        inverse=np.full(0, -1, np.int16),
        earlier_first=earlier_first,
        earlier_state=earlier_state,
        earlier_loop=conflicts.astype(np.uint8).ravel(),
        later_first=later_first,
        later_state=later_state,
    )


def _targets(state: int, accepts: np.ndarray, *, closes: bool) -> list[int]:
    """Return where a transition into a state (-1: none) leads: there, and if it accepts to the closing state."""
    if state < 0:
        return []
    return [state, len(accepts)] if closes and accepts[state] else [state]


def _conflicts(table: np.ndarray, accepting: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which states t make a conflict after which r, and after which states a step can be the last to one.

    The arrays are for `count` states; those beyond the table make no conflicts.
    The first is an array at (r, t); the second, `earlier_first` and `earlier_state`, has for each step s -> t the states r.

    t makes a conflict after r if a non-empty word leads from r to t and [r] ⊉ [t]. A walk that visits a vertex in r and
    comes back to it with the step s -> t, from another vertex, has spelt a non-empty word from r to s before.
    """
    states = len(table)
    reaches = reachability(table)
    conflicts = reaches & ~suffix_containment(table, accepting)
    conflicts[0] = False  # the root is not visited again
    steps = np.arange(states)[:, None] * states + table
    steps = np.unique(steps[(table >= 0) & (np.arange(states) > 0)[:, None]])
    sources, targets = np.divmod(steps, states)
    earlier = conflicts.T[targets] & reaches.T[sources]
    first = np.zeros(count * count + 1, np.int32)
    first[sources * count + targets + 1] = earlier.sum(axis=1)
    padded = np.zeros((count, count), bool)
    padded[:states, :states] = conflicts
    return padded, np.cumsum(first, dtype=np.int32), np.nonzero(earlier)[1].astype(np.int32)


def _flatten_pairs(lists: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lists of pairs as (first, left, right): list i is first[i] : first[i + 1] of the two."""
    first = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(pairs) for pairs in lists], out=first[1:])
    flat = [pair for pairs in lists for pair in pairs]
    return first, np.array([p[0] for p in flat], np.int32), np.array([p[1] for p in flat], np.int32)
