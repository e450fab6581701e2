"""Streams of edges and records of nodes worked by hand: the engine gives the rows that are written beside them.

semantics.md S17
"""

from __future__ import annotations

import pytest

import rpq
from tests.engine.nodes.node_cases import CASES
from tests.engine.nodes.node_queries import changes_of, rows_of, shown, steps_in


@pytest.mark.parametrize("capacity", [1, 16])
@pytest.mark.parametrize("name", CASES)
def test_cases(name, capacity):
    case = CASES[name]
    queries = [case.query, *filter(None, [case.second])]
    engine = rpq.Engine(case.query.query, edges=case.identity, _capacity=capacity)
    for step, expected in steps_in(case.steps, case.second):
        changes = changes_of(engine, step)
        assert sorted(map(shown, rows_of(changes, queries).elements())) == expected, step
        engine._check()
