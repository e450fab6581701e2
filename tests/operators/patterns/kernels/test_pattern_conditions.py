"""Shared conditions: never seen in the rows, and always what follows from the edges."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from rpq.operators.patterns.joins import condition_graph
from rpq.operators.patterns.joins.plan import Atom, plan_pattern
from rpq.operators.patterns.relations import relation
from tests.operators.patterns.kernels.test_pattern_kernels import LABELS, VERTICES, Runner, patterns, streams, windows
from tests.twins import examples


@st.composite
def anchored(draw: st.DrawFn, relations: int) -> list[Atom]:
    """A tree of a few atoms with constants, or one with an atom more."""
    size = draw(st.integers(1, 4))
    vertex = st.integers(0, VERTICES - 1)
    terms = [draw(vertex) if draw(st.integers(0, 2)) == 0 else f"?{place}" for place in range(size + 1)]
    atoms = []
    for place in range(size):
        ends = terms[draw(st.integers(0, place))], terms[place + 1]
        source, target = ends if draw(st.booleans()) else ends[::-1]
        atoms.append(Atom(source, draw(st.integers(0, relations - 1)), target))
    if draw(st.integers(0, 3)) == 0:
        atoms.append(Atom(draw(st.sampled_from(terms)), draw(st.integers(0, relations - 1)), draw(st.sampled_from(terms))))
    return atoms


@pytest.mark.ci
@examples(750, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_conditions_follow_the_edges_and_are_never_seen(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condition_graph, "_SMALLEST", 2)
        patch.setattr(relation, "_SMALL_ROOM", 4)
        patch.setattr(relation, "_LARGE_ROOM", 8)
        follow_the_edges(data)


def follow_the_edges(data: st.DataObject) -> None:
    held = data.draw(st.lists(windows, min_size=1, max_size=2))
    runner = Runner(held)
    runner.tables.sharing = "always"
    relations = LABELS * len(held)
    query = 0
    tuples = data.draw(streams())
    while tuples:
        if data.draw(st.integers(0, 9)) == 0:
            runner.tables.sharing = data.draw(st.sampled_from(["always", "never"]))
        for _ in range(data.draw(st.integers(0, 3))):
            if data.draw(st.integers(0, 3)) == 0:
                atoms, select, isomorphism, explicit = data.draw(patterns(relations))
            else:
                atoms, select, isomorphism, explicit = data.draw(anchored(relations)), None, False, data.draw(st.booleans())
            if all(not isinstance(term, str) for atom in atoms for term in (atom.source, atom.target)):
                continue
            for part in plan_pattern(atoms, select=select, isomorphism=isomorphism).parts:
                runner.add(query, part, explicit, isomorphism)
                query += 1
        for _ in range(data.draw(st.integers(0, 2))):
            if runner.queries:
                runner.remove(data.draw(st.sampled_from(sorted(runner.queries))))
        if runner.queries and data.draw(st.integers(0, 3)) == 0:
            runner.tables.support(data.draw(st.sampled_from(sorted(runner.queries))), data.draw(st.booleans()))
        length = data.draw(st.integers(1, 12))
        runner.apply(tuples[:length])
        runner.tables.graph._check()
        event(f"left out: {bool(runner.tables.graph.excluded_branches())}")
        tuples = tuples[length:]
    runner.tables.sharing = "always"
    for query in [*runner.queries]:
        runner.remove(query)
    graph = runner.tables.graph
    assert graph.sizes == (0, 0)
    graph._check()


def test_equal_parts_of_patterns_are_one_condition() -> None:
    runner = Runner([])
    graph = runner.tables.graph
    window = runner.store.add_window("unbounded")
    relations = [runner.store.add_relation(window) for _ in range(3)]
    runner.tables.sharing = "always"
    chain = [Atom("?x", relations[0], "?y"), Atom("?y", relations[1], 7)]
    (part,) = plan_pattern(chain).parts
    runner.tables.add(0, part, explicit=False)
    # the constant; what leads to it; and x, from which y is seen
    assert graph.sizes == (2, 1)
    (longer,) = plan_pattern([*chain, Atom("?z", relations[2], "?x")]).parts
    runner.tables.add(1, longer, explicit=False)
    assert graph.sizes == (3, 2)
    runner.tables.remove(0)
    assert graph.sizes == (3, 2)
    runner.tables.remove(1)
    assert graph.sizes == (0, 0)
