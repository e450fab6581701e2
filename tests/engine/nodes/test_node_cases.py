"""Streams of edges and records of nodes worked by hand: the engine gives the rows that are written beside them.

semantics.md S17
"""

from __future__ import annotations

import pytest

import rpq
from tests.engine.nodes.node_cases import CASES
from tests.engine.nodes.node_queries import Register, changes_of, rows_of, shown, steps_in


@pytest.mark.parametrize("capacity", [1, 16])
@pytest.mark.parametrize("name", CASES)
def test_cases(name, capacity):
    case = CASES[name]
    queries = [case.query]
    engine = rpq.Engine(case.query.query, edges=case.identity, _capacity=capacity)
    for step, expected in steps_in(case.steps, case.second):
        changes = changes_of(engine, step)
        queries += [case.second] if isinstance(step, Register) else []
        assert sorted(map(shown, rows_of(changes, queries).elements())) == expected, step
        engine._check()


def test_a_property_of_another_type_is_an_error():
    engine = rpq.Engine(rpq.Query("a/@[risk > 3]", window=rpq.Window(size=10, slide=1)))
    engine.insert("x", "y", "a", 1)
    engine.set_node("y", properties={"risk": 2})
    records = [{"node": "z", "risk": 5}, {"node": "y", "risk": "high"}, {"node": "y", "risk": 9}]
    with pytest.raises(rpq.InputError, match="risk.*'high'") as error:
        engine.push_nodes(records)
    assert (error.value.row, error.value.column, len(error.value.changes)) == (1, "risk", 0)
    assert engine.node("z").properties == {"risk": 5}  # the records before it are applied
    assert engine.set_node("y", properties={"risk": 4}).added == 1
