"""Fewest states: Hopcroft's partition refinement, then the states that accept nothing go.

J. E. Hopcroft 1971, *An n log n algorithm for minimizing states in a finite automaton*; the names are those of
T. Knuutila 2001, *Re-describing an algorithm by Hopcroft*, which is the one to read beside this file.

A partition of the states is *stable* with respect to a splitter (a block B and a symbol a) if no block has both states
that a leads into B and states that it does not. Starting from accepting and other states, blocks are split until the
partition is stable with respect to every splitter; then its blocks are the states of the minimal automaton. When a
block is split, only the smaller half has to wait as a splitter (stability under the whole and under one half gives
stability under the other), so a state takes part in at most log n splitters for each symbol.
"""

from __future__ import annotations

from rpq.automata.subsets import Table


def minimize(table: Table) -> Table:
    """Return the smallest automaton of the language of a complete one; steps after which nothing is accepted are gone.

    States are numbered as a breadth-first search from the start finds them, symbols in order: equal languages over the
    same alphabet give equal tables. Only the start may accept nothing (then it is the only state). O(k n log n) for n
    states and k symbols.
    """
    block_of = equivalent_blocks(table)
    representative: dict[int, int] = {}
    for state, block in enumerate(block_of):
        representative.setdefault(block, state)
    alive = _accepting_something(table)

    number = {block_of[0]: 0}
    order = [block_of[0]]
    rows: list[list[int]] = []
    for block in order:  # grows while it is walked
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
    return Table(next_state=rows, accepting=[table.accepting[representative[block]] for block in order])


def equivalent_blocks(table: Table) -> list[int]:
    """Return for every state of a complete automaton its block: two states share one if they accept the same words.

    O(k n log n).

    >>> equivalent_blocks(Table(next_state=[[1], [2], [1]], accepting=[False, True, False]))
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
                # Where the old block was waiting, both halves have to.
                splitters.add((new if (block, other) in splitters else smaller, other))
    return block_of


def _accepting_something(table: Table) -> set[int]:
    """The states from which some word is accepted. O(k n)."""
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
