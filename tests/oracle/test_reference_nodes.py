"""The oracle of nodes that carry facts, on examples worked by hand."""

from __future__ import annotations

import pytest

from tests.engine.nodes.node_cases import CASES
from tests.engine.nodes.node_queries import shown, steps_in, told
from tests.reference_nodes import NodeEngine, NodeTable


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    case = CASES[name]
    oracle = NodeEngine(case.query.oracle, identity=case.identity)
    for step, expected in steps_in(case.steps, case.second):
        assert sorted(map(shown, told(oracle, step))) == expected, step


def test_verdicts_on_records():
    table = NodeTable()
    assert table.record("x", 5, "-") == "absent"
    assert table.record("x", 5) == "applied"  # names no fact
    assert table.record("x", 5, labels=["A"], risk=3) == "applied"
    assert table.record("x", 4, risk=9) == "stale"
    assert table.record("x", 4, risk=9, kind="k") == "applied"  # the kind is set, the risk is not
    assert table.record("x", 4, "-") == "applied"  # takes the kind away
    assert table.record("x", 4, "-") == "applied"  # takes nothing, but a record that names no fact is never stale
    assert table.record("x", 4, "=", labels=["A"]) == "stale"
    assert set(table.facts["x"]) == {":A", "risk"}
