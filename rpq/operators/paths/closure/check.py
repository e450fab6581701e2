"""The invariants of the index of bits, for the tests: plain Python, slow, obvious."""

from __future__ import annotations

from rpq.operators.paths.closure.layout import Closure
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.check import edges_of, free_slots
from rpq.operators.paths.index.layout import Index

Node = tuple[int, int]


def check_closure(index: Index, closure: Closure) -> None:
    """Assert that each product node that a root reaches is in a component whose row contains exactly the roots that reach
    it."""
    fields, table = closure.fields, index.table
    states, words = index.program.sizes.states, fields.words
    assert not fields.stale, "components are not those of the window"
    assert not fields.queue_length, "bits wait to be pushed between tuples"
    assert index.state.rows == 0, "there are rows beside the bits"
    assert index.state.slots <= 64 * words, "a slot lies beyond the rows"
    assert not fields.stage, "an event is half done"
    reached = _reaching_roots(index)
    found: dict[Node, set[int]] = {}
    count = 0
    for component in range(fields.components):
        first, end = closure.member_first[component : component + 2].tolist()
        assert end > first, f"component {component} is empty"
        assert component < fields.settled or end == first + 1, f"component {component} came later and is no single node"
        nodes = [(node >> 16, node & layout.STATE_BITS) for node in closure.member[first:end].tolist()]
        accepting = sum(int(index.program.accepting[state]) for _, state in nodes)
        assert closure.accepting_nodes[component] == accepting, f"component {component} miscounts its accepting nodes"
        assert not closure.is_queued[component], f"component {component} waits between tuples"
        row = closure.rows[component * words : (component + 1) * words].tolist()
        slots = {64 * word + bit for word, bits in enumerate(row) for bit in range(64) if bits >> bit & 1}
        assert not closure.touch[component], f"component {component} has lost bits between tuples"
        count += len(nodes)
        for vertex, state in nodes:
            assert table.row_of[vertex * states + state] == component, f"node {vertex, state} is not of its component"
            if slots:  # a delete may leave a component that no root reaches
                found[vertex, state] = slots
    assert (table.row_of >= 0).sum() == count, "a node has a component that does not have it"
    assert found == reached, "rows are not those of the window"
    if index.state.backward:
        mirrored = {(v, c, u, link): slide for (u, c, v, link), slide in edges_of(index, index.graph.out).items()}
        assert edges_of(index, index.graph.into) == mirrored, "in-edges are not the out-edges turned round"
    used = [slot for slot in range(index.state.slots) if table.slot_vertex[slot] >= 0]
    assert sorted(used + free_slots(index)) == list(range(index.state.slots)), "slots leak or are shared"


def _reaching_roots(index: Index) -> dict[Node, set[int]]:
    """Return the slots of the roots that reach each product node."""
    program, table = index.program, index.table
    leaving: dict[tuple[int, int], list[int]] = {}
    for u, transition_class, v, _ in edges_of(index, index.graph.out):
        leaving.setdefault((u, transition_class), []).append(v)
    reached: dict[Node, set[int]] = {}
    for (root, transition_class), targets in leaving.items():
        first = int(program.start_target[transition_class])
        if first < 0 or not table.is_root[root]:
            continue
        slot = int(table.slot_of[root])
        assert slot >= 0 and table.slot_vertex[slot] == root, f"root {root} has no slot"
        waiting = [(v, first) for v in targets]
        while waiting:
            vertex, state = node = waiting.pop()
            if slot in reached.setdefault(node, set()):
                continue
            reached[node].add(slot)
            for leave in range(program.leave_first[state], program.leave_first[state + 1]):
                following = leaving.get((vertex, int(program.leave_class[leave])), [])
                waiting += [(v, int(program.leave_target[leave])) for v in following]
    return reached
