"""Deterministic automata: the `DFA` that queries run, containment between its states, and its text and Graphviz forms.

[s] is the set of words that lead from state s to an accepting state, the *suffix language* of s. The arrays of
`suffix_containment` and `shrinks_to_simple_paths` are those of a trim `DFA`: every state accepts some word, except the
single state of an empty language.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rpq.automata.errors import terminal_cells
from rpq.automata.symbols import ConditionLabel, LabelSymbol, Symbol


def suffix_containment(transitions: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the matrix, shape (states, states), whose entry at (s, t) is whether [s] ⊇ [t].

    A word of [t] that is not in [s] is found in the product of the automaton with itself: from (s, t) it leads to a pair in
    which only t accepts, or only t has a next step (the automaton is trim, so that step leads to a word). The search starts
    at these pairs, and adds every pair with a step into a pair that was found. Each pair is found once, and its predecessors
    are computed once for each symbol: O(states² · symbols) time and O(states²) memory.
    """
    states, columns = transitions.shape
    steps = (transitions >= 0).astype(np.float32)  # floats, because only matrices of floats multiply fast
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
    """Return whether, on every graph, every walk that gives an answer can be shortened to a simple path with this answer.

    This is the case if a cycle can always be left out: [s] ⊇ [t] for every s that a non-empty word reaches and every t that
    a non-empty word reaches from s, and [s0] ∪ {ε} ⊇ [t] for every t. The ε is needed because a walk that returns to its
    first vertex in an accepting state gives an answer (x, x), which simple paths never give. Steps against the direction
    of edges make no difference, because the argument is about walks. O(states³) for the reachable pairs, with a small
    constant.
    """
    reaches = reachability(transitions)
    if np.any(reaches[reaches[0]] & ~contains[reaches[0]]):
        return False
    # [s0] ∪ {ε} ⊇ [t] is checked separately for the first step, since ε matters only before it.
    for t in range(len(transitions)):
        for from_start, from_t in zip(transitions[0], transitions[t], strict=True):
            if from_t >= 0 and (from_start < 0 or not contains[from_start, from_t]):
                return False
    return True


class _Predecessors:
    """The states with a step of one symbol into each state t: `states[starts[t] : starts[t] + counts[t]]`."""

    def __init__(self, next_state: NDArray[np.int32], states: int) -> None:
        sources = np.flatnonzero(next_state >= 0)
        targets = next_state[sources]
        self.states = sources[np.argsort(targets, kind="stable")]
        self.counts = np.bincount(targets, minlength=states)
        self.starts = np.cumsum(self.counts) - self.counts


def _cross(
    inverse: _Predecessors, s: NDArray[np.int64], t: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every predecessor of s[i] with every predecessor of t[i], for every i."""
    of_t = inverse.counts[t]
    sizes = inverse.counts[s] * of_t
    pair = np.repeat(np.arange(len(s)), sizes)
    inside = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    before_s = inverse.states[inverse.starts[s[pair]] + inside // of_t[pair]]
    before_t = inverse.states[inverse.starts[t[pair]] + inside % of_t[pair]]
    return before_s, before_t


def reachability(transitions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return the matrix, shape (states, states), whose entry at (s, t) is whether a non-empty word leads from s to t."""
    states = len(transitions)
    reaches = np.zeros((states, states), dtype=np.bool_)
    for s in range(states):
        row = transitions[s]
        reaches[s, row[row >= 0]] = True
    for middle in range(states):  # Warshall 1962
        reaches[reaches[:, middle]] |= reaches[middle]
    return reaches


_WIDEST_TABLE = 100


def write_text(symbols: tuple[Symbol, ...], transitions: NDArray[np.int32], accepting: NDArray[np.bool_]) -> str:
    """Write the table; if the labels are too long for a table, columns have numbers that a legend explains."""
    names = [str(symbol) for symbol in symbols]
    headers = names
    if sum(terminal_cells(name) + 2 for name in names) > _WIDEST_TABLE:
        headers = [f"#{column}" for column in range(len(names))]
    rows = [["state ", *headers]]
    for state, (row, accepts) in enumerate(zip(transitions, accepting, strict=True)):
        mark = f"{'→' if state == 0 else ' '} {state} {'*' if accepts else ' '}"
        rows.append([mark, *("·" if target < 0 else str(target) for target in row)])
    widths = [max(map(terminal_cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first + " " * (widths[0] - terminal_cells(first))]
        cells += [" " * (width - terminal_cells(cell)) + cell for width, cell in zip(widths[1:], rest, strict=True)]
        lines.append("  ".join(cells).rstrip())
    if headers is not names:
        lines += ["", *(f"{header} = {name}" for header, name in zip(headers, names, strict=True))]
    return "\n".join(lines)


def write_dot(name: str, symbols: tuple[Symbol, ...], transitions: NDArray[np.int32], accepting: NDArray[np.bool_]) -> str:
    """Write the automaton as a Graphviz graph: an arrow points to the start, accepting states are double circles."""
    lines = [
        f"digraph {_quote(name)} {{",
        "  rankdir=LR;",
        "  node [shape=circle];",
        '  start [shape=none, label=""];',
    ]
    lines += [f"  {state} [shape=doublecircle];" for state, accepts in enumerate(accepting) if accepts]
    lines.append("  start -> 0;")
    labels = edge_labels(symbols, transitions)
    lines += [f"  {state} -> {target} [label={_quote(label)}];" for (state, target), label in labels.items()]
    lines.append("}")
    return "\n".join(lines) + "\n"


def edge_labels(symbols: tuple[Symbol, ...], transitions: NDArray[np.int32]) -> dict[tuple[int, int], str]:
    """Return the arrows of a drawing as pairs of states, by the first of the two, each with all its labels."""
    labels: dict[tuple[int, int], list[str]] = {}
    for state, row in enumerate(transitions):
        for column, target in enumerate(row):
            if target >= 0:
                labels.setdefault((state, int(target)), []).append(str(symbols[column]))
    return {ends: "|".join(words) for ends, words in labels.items()}


def state_positions(transitions: NDArray[np.int32]) -> list[tuple[float, float]]:
    """Return (x, y) of each state in a drawing: x is its distance from the start; states of one distance are stacked."""
    distance = {0: 0}
    queue = [0]
    for state in queue:
        for target in transitions[state]:
            if target >= 0 and int(target) not in distance:
                distance[int(target)] = distance[state] + 1
                queue.append(int(target))
    columns: dict[int, list[int]] = {}
    for state in queue:
        columns.setdefault(distance[state], []).append(state)
    places = [(0.0, 0.0)] * len(transitions)
    for x, states in columns.items():
        for row, state in enumerate(states):
            places[state] = (float(x), (len(states) - 1) / 2 - row)
    return places


def _quote(text: str) -> str:
    """Quote a text as a DOT string, in which backslashes begin escapes and & begins an HTML entity."""
    return '"' + text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, kw_only=True, eq=False)
class DFA:
    """A deterministic automaton over the steps of a path; state 0 is the start.

    `rpq.automata.compile` returns automata that are minimal, numbered breadth-first, and *trim*, which means that every
    state can be reached and accepts some word (except the start of an empty language, which is then the only state). Two
    DFAs are equal if they accept the same words.

    - Words: `accepts`, `accepts_empty`, `is_empty`, `==`
    - Table: `symbols`, `transitions`, `accepting`, `column`
    - Suffix languages: `contains`, `simple_equals_walk`
    - Display: `to_text`, `to_dot`

    A DFA and its arrays are immutable, so threads can share it.

    >>> from rpq.automata import compile
    >>> dfa = compile("a/b*")
    >>> dfa.transitions
    array([[ 1, -1],
           [-1,  1]], dtype=int32)
    >>> dfa.accepting
    array([False,  True])
    """

    symbols: tuple[Symbol, ...]
    """The alphabet: forward before inverse, labels by code point, "any other label" last in its direction."""
    transitions: NDArray[np.int32]
    """Shape (states, symbols): the next state, -1 for none."""
    accepting: NDArray[np.bool_]
    """Shape (states,)."""

    def __post_init__(self) -> None:
        transitions = np.array(self.transitions, dtype=np.int32)
        accepting = np.array(self.accepting, dtype=np.bool_)
        if accepting.ndim != 1 or not len(accepting):
            raise ValueError("a DFA has at least a start state")
        if transitions.shape != (len(accepting), len(self.symbols)):
            raise ValueError(f"transitions must have the shape {(len(accepting), len(self.symbols))}")
        if transitions.size and not (transitions.min() >= -1 and transitions.max() < len(accepting)):
            raise ValueError("transitions must lead to a state or be -1")
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("a symbol has one column")
        for name, array in (("transitions", transitions), ("accepting", accepting)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def column(self, label: LabelSymbol | None, inverse: bool = False) -> int:
        """Return the column of a step, otherwise the column of the other labels in its direction, otherwise -1. O(1).

        The other labels of a label with a condition are those with the same condition.

        >>> from rpq.automata import compile
        >>> dfa = compile("!(a|b)")
        >>> dfa.column("b"), dfa.column("c"), dfa.column("c", inverse=True)
        (1, 2, -1)
        """
        columns = self._columns
        inverse = bool(inverse)
        other: LabelSymbol | None = None
        if isinstance(label, ConditionLabel):  # those of other kinds have no other labels
            other = ConditionLabel(None, label.condition) if type(label) is ConditionLabel else label
        return columns.get(Symbol(label, inverse), columns.get(Symbol(other, inverse), -1))

    @property
    def labels(self) -> frozenset[LabelSymbol]:
        """The labels that the expression names, with their conditions.

        >>> from rpq.automata import compile
        >>> sorted(compile("a/!(b)").labels)
        ['a', 'b']
        """
        return frozenset(symbol.label for symbol in self.symbols if symbol.label is not None and not symbol.is_other)

    @property
    def conditions_of_others(self) -> frozenset[str]:
        """The conditions with which labels occur that the expression does not name.

        >>> from rpq.automata import compile
        >>> sorted(compile("a[n > 1]/!b[n > 2]").conditions_of_others)
        ['n > 2']
        """
        return frozenset(
            symbol.label.condition
            for symbol in self.symbols
            if isinstance(symbol.label, ConditionLabel) and symbol.is_other
        )

    def is_relevant(self, label: LabelSymbol) -> bool:
        """Return whether the label occurs in a word of the language, in either direction. O(states).

        >>> from rpq.automata import compile
        >>> dfa = compile("!(a|^b)")
        >>> [dfa.is_relevant(label) for label in "abc"]
        [True, True, True]
        >>> [compile("!(a)").is_relevant(label) for label in "ab"]
        [False, True]
        """
        columns = (self.column(label, False), self.column(label, True))
        return any(bool((self.transitions[:, column] >= 0).any()) for column in columns if column >= 0)

    def is_only_at_ends(self, column: int) -> tuple[bool, bool] | None:
        """Return of the steps of a column whether each is the first of every word that has it, and whether each is the last.

        None where no word has the step. O(1), and O(states · symbols) the first time.

        >>> from rpq.automata import compile
        >>> dfa = compile("a/b*/c")
        >>> [dfa.is_only_at_ends(dfa.column(label)) for label in "abc"]
        [(True, False), (False, False), (False, True)]
        """
        if column not in self._only_at_ends:
            states = np.flatnonzero(self.transitions[:, column] >= 0)
            behind = self.transitions[states, column]
            only_first = not states.any() and not (self.transitions == 0).any()
            found = (only_first, not (self.transitions[behind] >= 0).any()) if len(states) else None
            self._only_at_ends[column] = found
        return self._only_at_ends[column]

    def accepts(self, word: Iterable[tuple[LabelSymbol, bool]]) -> bool:
        """Return whether the language contains a word, a sequence of (label, inverse). O(length).

        >>> from rpq.automata import compile
        >>> compile("a/^b").accepts([("a", False), ("b", True)])
        True
        """
        state = 0
        for label, inverse in word:
            column = self.column(label, inverse)
            state = int(self.transitions[state, column]) if column >= 0 else -1
            if state < 0:
                return False
        return bool(self.accepting[state])

    @property
    def accepts_empty(self) -> bool:
        """True if the empty word is in the language.

        >>> from rpq.automata import compile
        >>> compile("a*").accepts_empty, compile("a+").accepts_empty
        (True, False)
        """
        return bool(self.accepting[0])

    @property
    def is_empty(self) -> bool:
        """True if the language contains no word, not even the empty word.

        >>> from rpq.automata import compile
        >>> compile("a").is_empty  # SPARQL has no expression without any path
        False
        """
        return not self.accepting.any()

    def __eq__(self, other: object) -> bool:
        """Return whether both accept the same words, even if their alphabets differ. O(states · symbols of both).

        >>> from rpq.automata import compile
        >>> compile("a|!(a|b)|b") == compile("!()")
        True
        """
        if not isinstance(other, DFA):
            return NotImplemented
        # A label in neither alphabet has the column of "other", if there is one, so these symbols are sufficient.
        steps = [(self.column(*symbol), other.column(*symbol)) for symbol in {*self.symbols, *other.symbols}]
        # Follow the same words in both. Both are trim, so a step that exists in only one leads to a word that only this
        # one accepts.
        seen = {(0, 0)}
        pending = [(0, 0)]
        while pending:
            mine, theirs = pending.pop()
            if self.accepting[mine] != other.accepting[theirs]:
                return False
            for my_column, their_column in steps:
                my_next = int(self.transitions[mine, my_column]) if my_column >= 0 else -1
                their_next = int(other.transitions[theirs, their_column]) if their_column >= 0 else -1
                if (my_next < 0) != (their_next < 0):
                    return False
                if my_next >= 0 and (my_next, their_next) not in seen:
                    seen.add((my_next, their_next))
                    pending.append((my_next, their_next))
        return True

    __hash__ = None  # type: ignore[assignment]  # a hash that follows the language would cost as much as ==

    @cached_property
    def contains(self) -> NDArray[np.bool_]:
        """Shape (states, states): `contains[s, t]` is whether s accepts all words that t accepts.

        The matrix is computed on first access, in O(states² · symbols).

        >>> from rpq.automata import compile
        >>> compile("a/b*").contains  # from state 1, b*; from state 0, a/b*
        array([[ True, False],
               [False,  True]])
        """
        matrix = suffix_containment(self.transitions, self.accepting)
        matrix.flags.writeable = False
        return matrix

    @cached_property
    def simple_equals_walk(self) -> bool:
        """True if simple paths give the answers of walks, except for the pairs (x, x), on every graph.

        This is the containment property of the paper (Pacaci et al. 2020, section on simple paths); see also
        `rpq.automata.dfa.shrinks_to_simple_paths`.

        >>> from rpq.automata import compile
        >>> [compile(text).simple_equals_walk for text in ("a*", "(a|b|c)+", "a/b*")]
        [True, True, False]
        """
        return shrinks_to_simple_paths(self.transitions, self.accepting, self.contains)

    def to_text(self) -> str:
        """Write the table as text: `→` marks the start, `*` an accepting state, `·` a missing step.

        >>> from rpq.automata import compile
        >>> print(compile("a/^b*").to_text())
        state   a  ^b
        → 0     1   ·
          1 *   ·   1
        """
        return write_text(self.symbols, self.transitions, self.accepting)

    def to_dot(self, name: str = "dfa") -> str:
        """Write the automaton in Graphviz's DOT language, with one edge for all symbols between two states.

        >>> from rpq.automata import compile
        >>> print(compile("a").to_dot(name="one_step").splitlines()[0])
        digraph "one_step" {
        """
        return write_dot(name, self.symbols, self.transitions, self.accepting)

    @cached_property
    def _only_at_ends(self) -> dict[int, tuple[bool, bool] | None]:
        return {}

    @cached_property
    def _columns(self) -> dict[Symbol, int]:
        return {symbol: column for column, symbol in enumerate(self.symbols)}
