"""The compilation of a path expression to its minimal DFA: Thompson's construction, subset construction, minimisation.

**Thompson's construction** (`thompson`) turns the tree of an expression into a non-deterministic automaton. Every operator
becomes two new states, a start and an end, around the automata of its operands (Thompson 1968, *Regular expression search
algorithm*). Two extensions: an inverse is pushed down to the labels while the tree is traversed (`^(a/b)` is `^b/^a`), and
a negated set becomes one edge for each symbol of the alphabet that it accepts.

A test of a vertex is a link without a step that has a guard. `remove_tests` makes it part of the letters beside it: all
tests between two steps are put at the begin of the second (those behind the last step at its end), or all at the end of the
first, whichever makes fewer letters. So a letter is an edge with a label that satisfies a condition, between vertices that
satisfy tests. Some letters imply others (`@[t]/a` implies `a`), and everything that follows takes letters as independent
all the same, as it does with conditions: a graph has an edge for each letter that holds, so a word that an automaton
accepts is a path, and containment between languages is containment of answers, whichever tests hold. Letters that imply
others can only hide a containment, never feign one. A cycle can be left out of a path as well, since a letter says of a
vertex what the snapshot says of it, whatever the path does before and after.

**The subset construction** (`determinize`) makes the automaton deterministic. A state of the result is the set of NFA states
that a word can lead to (Rabin and Scott 1959, *Finite automata and their decision problems*). NFA states without steps of
their own do not distinguish sets and are left out, except for the final state.

**Minimisation** (`minimize`) is Hopcroft's partition refinement, after which the states that accept nothing are removed.
J. E. Hopcroft 1971, *An n log n algorithm for minimizing states in a finite automaton*; the names are those of T. Knuutila
2001, *Re-describing an algorithm by Hopcroft*, which is recommended reading for this module.

A partition of the states is *stable* with respect to a splitter (a block B and a symbol a) if no block contains both states
from which a leads into B and states from which it does not. Starting from the accepting and the other states, blocks are
split until the partition is stable with respect to every splitter; then its blocks are the states of the minimal automaton.
When a block is split, only the smaller half is added as a splitter (stability under the whole and under one half implies
stability under the other), so a state is in at most log n splitters for each symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from rpq.automata.dfa import DFA
from rpq.automata.errors import ExpressionError
from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    SizeError,
    VertexTest,
)
from rpq.automata.parser import parse
from rpq.automata.symbols import ConditionLabel, StepTests, Symbol, condition_of


@dataclass(kw_only=True)
class NFA:
    """A non-deterministic automaton with one start and one final state, both identified by number."""

    alphabet: tuple[Symbol, ...]
    epsilon: list[list[int]] = field(default_factory=list)
    """For every state, the states reached without a step."""
    moves: list[list[tuple[int, int]]] = field(default_factory=list)
    """For every state, its steps: (position in the alphabet, next state)."""
    tests: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    """For states before a test, the test and the state reached without a step where it holds."""
    start: int = 0
    final: int = 0


def alphabet_of(expression: Expression) -> tuple[Symbol, ...]:
    """Return the symbols that an automaton of the expression must distinguish, sorted. O(size of the tree · log).

    These are the labels in the expression, in the direction of the step (inverses resolved), and one symbol for all other
    labels in each direction in which a negated set can step.

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
                symbols.update(node.symbol_of(Symbol(member.label, member.inverse ^ inverted)) for member in members)
                symbols.update(node.symbol_of(Symbol(None, inverse ^ inverted)) for inverse in node.directions)
            case Inverse(inner):
                pending.append((inner, not inverted))
            case Repetition(inner):
                pending.append((inner, inverted))
            case Concatenation(parts) | Alternation(parts):
                pending.extend((part, inverted) for part in parts)
    return tuple(sorted(symbols, key=Symbol.sort_key))


def thompson(expression: Expression) -> NFA:
    """Build the automaton of an expression, with tests of vertices apart. O(expanded steps · alphabet)."""
    builder = _Builder(alphabet_of(expression))
    builder.nfa.start, builder.nfa.final = builder.build(expression, inverted=False)
    return builder.nfa


class _Builder:
    """A builder of one NFA from fragments; a fragment is represented by its start and its end."""

    def __init__(self, alphabet: tuple[Symbol, ...]) -> None:
        self.nfa = NFA(alphabet=alphabet)
        self._column = {symbol: column for column, symbol in enumerate(alphabet)}

    def build(self, node: Expression, *, inverted: bool) -> tuple[int, int]:
        match node:
            case Label(name):
                return self._step([Symbol(name, inverted)])
            case NegatedSet():
                return self._step(self._accepted_symbols(node, inverted))
            case VertexTest(test):
                start, end = self._state(), self._state()
                self.nfa.tests[start] = [(test, end)]
                return start, end
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

    def _accepted_symbols(self, node: NegatedSet, inverted: bool) -> list[Symbol]:
        """Return the symbols that a negated set accepts: "other", and every label that is not in the set.

        Both have the condition of the set, or none if it has none.
        """
        directions = {inverse ^ inverted for inverse in node.directions}
        forbidden = {node.symbol_of(Symbol(member.label, member.inverse ^ inverted)) for member in node.members}
        return [
            symbol
            for symbol in self.nfa.alphabet
            if symbol.inverse in directions and condition_of(symbol) == node.condition and symbol not in forbidden
        ]

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
        """Build `minimum` copies in a row, then optional copies up to `maximum`; without a maximum the last copy is a loop.

        The single copy of `+` is therefore the loop: a loop after a separate first copy would double nested repetitions.
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


_Guards: TypeAlias = set[frozenset[str]]
"""The minimal sets of tests under which a state is reached: one of them has to hold."""

MAXIMUM_LETTERS = 500
"""The largest number of letters that tests may make: `(@[p]|@[q])/(@[r]|@[s])/a` has four."""


def remove_tests(nfa: NFA) -> NFA:
    """Return an automaton whose letters have the tests. Words without an edge that have tests are left out.

    A test between two steps is put at the begin of the second. Raises `SizeError` for more than `MAXIMUM_LETTERS` letters.

    >>> print(*remove_tests(thompson(parse("a/@[p]?/@[q]/!(b)"))).alphabet, sep=", ")
    a, @[q]/a, @[q]/b, @[q]/(other)
    """
    nothing = frozenset[str]()
    final = len(nfa.moves)
    guards = {state: _guards(nfa, state) for state in {nfa.start, *(end for row in nfa.moves for _, end in row)}}
    steps: list[tuple[int, int, frozenset[str], frozenset[str], int]] = []
    found = NFA(alphabet=(), epsilon=[[] for _ in range(final + 1)], start=nfa.start, final=final)
    for state, reached in guards.items():
        if nothing in reached.get(nfa.final, ()):
            found.epsilon[state].append(final)
        for before, tests in reached.items():
            for column, end in nfa.moves[before]:
                behind = [(nothing, end), *((last, final) for last in guards[end].get(nfa.final, ()) if last)]
                steps += [(state, column, first, last, target) for first in tests for last, target in behind]

    symbols = {_with_tests(nfa.alphabet[column], first, last) for _, column, first, last, _ in steps}
    # A label that the alphabet tells from the other labels is told from them with their tests as well.
    others = {(column, first, last) for _, column, first, last, _ in steps if nfa.alphabet[column].is_other}
    for column, first, last in others:
        one = nfa.alphabet[column]
        alike = [s for s in nfa.alphabet if s.inverse == one.inverse and condition_of(s) == condition_of(one)]
        symbols.update(_with_tests(symbol, first, last) for symbol in alike)
    if len(symbols) > MAXIMUM_LETTERS:
        raise SizeError(f"the tests of the expression make more than {MAXIMUM_LETTERS} different steps")

    found.alphabet = tuple(sorted(symbols, key=Symbol.sort_key))
    columns = {symbol: column for column, symbol in enumerate(found.alphabet)}
    found.moves = [[] for _ in range(final + 1)]
    for state, column, first, last, target in steps:
        found.moves[state].append((columns[_with_tests(nfa.alphabet[column], first, last)], target))
    return found


def _turned(nfa: NFA) -> NFA:
    """Return the automaton of the same paths from their other end."""
    symbols = [symbol.reversed() for symbol in nfa.alphabet]
    alphabet = tuple(sorted(symbols, key=Symbol.sort_key))
    columns = [alphabet.index(symbol) for symbol in symbols]
    states = range(len(nfa.moves))
    found = NFA(alphabet=alphabet, start=nfa.final, final=nfa.start)
    found.epsilon, found.moves = [[] for _ in states], [[] for _ in states]
    for state in states:
        for after in nfa.epsilon[state]:
            found.epsilon[after].append(state)
        for column, after in nfa.moves[state]:
            found.moves[after].append((columns[column], state))
        for test, after in nfa.tests.get(state, ()):
            found.tests.setdefault(after, []).append((test, state))
    return found


def _guards(nfa: NFA, state: int) -> dict[int, _Guards]:
    """Return the states that are reached from a state without a step, with the minimal sets of tests that hold then."""
    reached: dict[int, _Guards] = {state: {frozenset()}}
    pending = [(state, frozenset[str]())]
    while pending:
        before, tests = pending.pop()
        if tests not in reached[before]:
            continue  # a smaller set was found in the meantime
        following = [(after, tests) for after in nfa.epsilon[before]]
        following += [(after, tests | {test}) for test, after in nfa.tests.get(before, ())]
        for after, needed in following:
            known = reached.setdefault(after, set())
            if not any(one <= needed for one in known):
                known.difference_update([one for one in known if needed < one])
                known.add(needed)
                pending.append((after, needed))
    return reached


def _with_tests(symbol: Symbol, first: frozenset[str], last: frozenset[str]) -> Symbol:
    """Return a symbol with tests of the vertex at which the step begins and of that at which it ends."""
    if not (first or last):
        return symbol
    source, target = (last, first) if symbol.inverse else (first, last)
    condition = StepTests(condition_of(symbol) or "", tuple(source), tuple(target)).condition
    if isinstance(symbol.label, ConditionLabel):
        return Symbol(replace(symbol.label, condition=condition), symbol.inverse)
    return Symbol(ConditionLabel(symbol.label, condition), symbol.inverse)


MAXIMUM_STATES = 2000
"""The largest number of sets of an expression, since the number can be exponential in the size of the expression."""


@dataclass(frozen=True, kw_only=True)
class AutomatonTable:
    """A deterministic automaton as plain lists; state 0 is the start."""

    next_state: list[list[int]]
    """The next state for every state and every symbol of the alphabet; -1 for none."""
    accepting: list[bool]


def determinize(nfa: NFA) -> AutomatonTable:
    """Compute the reachable sets; the result is complete, with the empty set as a state that accepts nothing.

    Raises `SizeError` for more than `MAXIMUM_STATES` sets, of which there can be 2^NFA states.
    O(sets · NFA states · alphabet).
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
    for subset in subsets:  # grows during the loop
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
    return AutomatonTable(next_state=rows, accepting=[nfa.final in subset for subset in subsets])


def _closure(nfa: NFA, state: int) -> frozenset[int]:
    """Return the states that are reached from a state without a step."""
    reached = {state}
    pending = [state]
    while pending:
        for following in nfa.epsilon[pending.pop()]:
            if following not in reached:
                reached.add(following)
                pending.append(following)
    return frozenset(inner for inner in reached if nfa.moves[inner] or inner == nfa.final)


def minimize(table: AutomatonTable) -> AutomatonTable:
    """Return the smallest automaton of the language of a complete automaton, without steps after which nothing is accepted.

    States are numbered in the order of a breadth-first search from the start, with symbols in order: equal languages over
    the same alphabet have equal tables. Only the start may accept nothing; it is then the only state. O(k n log n) for n
    states and k symbols.
    """
    block_of = equivalent_blocks(table)
    representative: dict[int, int] = {}
    for state, block in enumerate(block_of):
        representative.setdefault(block, state)
    alive = _live_states(table)

    number = {block_of[0]: 0}
    order = [block_of[0]]
    rows: list[list[int]] = []
    for block in order:  # grows during the loop
        row = []
        for target in table.next_state[representative[block]]:
            if target not in alive:
                row.append(-1)
                continue
            following = block_of[target]
            if following not in number:
                number[following] = len(order)
                order.append(following)
            row.append(number[following])
        rows.append(row)
    return AutomatonTable(next_state=rows, accepting=[table.accepting[representative[block]] for block in order])


def equivalent_blocks(table: AutomatonTable) -> list[int]:
    """Return the block of every state of a complete automaton: two states have the same block if they accept the same words.

    O(k n log n).

    >>> equivalent_blocks(AutomatonTable(next_state=[[1], [2], [1]], accepting=[False, True, False]))
    [1, 0, 1]
    """
    states = range(len(table.next_state))
    symbols = range(len(table.next_state[0]))
    predecessors: list[list[list[int]]] = [[[] for _ in states] for _ in symbols]
    for state in states:
        for symbol in symbols:
            predecessors[symbol][table.next_state[state][symbol]].append(state)

    accepting = {state for state in states if table.accepting[state]}
    blocks = [block for block in (accepting, set(states) - accepting) if block]
    block_of = [0 if state in blocks[0] else 1 for state in states]
    smaller = min(range(len(blocks)), key=lambda block: len(blocks[block]))
    splitters = {(smaller, symbol) for symbol in symbols}  # the waiting set

    while splitters:
        splitter, symbol = splitters.pop()
        touched: dict[int, set[int]] = {}
        for state in blocks[splitter]:
            for predecessor in predecessors[symbol][state]:
                touched.setdefault(block_of[predecessor], set()).add(predecessor)
        for block, inside in touched.items():
            if len(inside) == len(blocks[block]):
                continue  # the whole block leads into the splitter: stable
            new = len(blocks)
            blocks[block] -= inside
            blocks.append(inside)
            for state in inside:
                block_of[state] = new
            smaller = min(block, new, key=lambda half: len(blocks[half]))
            for other in symbols:
                # If the old block was a splitter, both halves must be splitters.
                splitters.add((new if (block, other) in splitters else smaller, other))
    return block_of


def _live_states(table: AutomatonTable) -> set[int]:
    """Return the states from which some word is accepted. O(k n)."""
    predecessors: list[set[int]] = [set() for _ in table.next_state]
    for state, row in enumerate(table.next_state):
        for target in row:
            predecessors[target].add(state)
    alive = {state for state, accepts in enumerate(table.accepting) if accepts}
    pending = list(alive)
    while pending:
        for state in predecessors[pending.pop()]:
            if state not in alive:
                alive.add(state)
                pending.append(state)
    return alive


def compile(expression: str | Expression) -> DFA:
    """Compile a path expression into the minimal DFA of its language.

    Thompson construction, subset construction, Hopcroft minimisation; the result is canonical. A symbol that is on no path
    has no column, unless it distinguishes a label from the other labels (`b` in `!(b)`). Raises an `ExpressionError` if the
    expression is invalid, or if its automaton is too large (the number of states can be exponential in the length of the
    expression, so there is a limit).

    >>> print(compile("a/!(b)?").to_text())
    state   a  b  (other)
    → 0     1  ·        ·
      1 *   2  ·        2
      2 *   ·  ·        ·
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    try:
        nfa = thompson(tree)
        if not nfa.tests:
            return _dfa(nfa)
        # Both ways of the reversal are these two turned around, so it has the same letters.
        return min(_dfa(remove_tests(nfa)), _dfa(_turned(remove_tests(_turned(nfa)))), key=_letters)
    except SizeError as error:
        text = expression if isinstance(expression, str) else str(expression)
        raise ExpressionError(str(error), 1, "a smaller expression", text) from None


def _letters(dfa: DFA) -> tuple[int, list[str]]:
    """Return the number of labels of an automaton with their conditions, and their texts."""
    labels = {symbol.label for symbol in dfa.symbols}
    return len(labels), sorted(map(str, labels))


def _dfa(nfa: NFA) -> DFA:
    """Return the minimal automaton of a non-deterministic one without tests. Raises `SizeError`."""
    table = minimize(determinize(nfa))
    used = {nfa.alphabet[column] for column, targets in enumerate(zip(*table.next_state, strict=True)) if max(targets) >= 0}
    with_others = {(symbol.inverse, condition_of(symbol)) for symbol in used if symbol.is_other}
    columns = [
        column
        for column, symbol in enumerate(nfa.alphabet)
        if symbol in used or (not symbol.is_other and (symbol.inverse, condition_of(symbol)) in with_others)
    ]
    return DFA(
        symbols=tuple(nfa.alphabet[column] for column in columns),
        transitions=np.array([[row[column] for column in columns] for row in table.next_state], dtype=np.int32),
        accepting=np.array(table.accepting, dtype=np.bool_),
    )
