"""Which judge the index of a query needs: the one place that looks at which paths a query is about."""

from __future__ import annotations

from rpq.paths.index.judging import Judge
from rpq.paths.index.no_doubt import NoDoubt
from rpq.paths.program import Program
from rpq.paths.simple.simple_judge import SimpleJudge
from rpq.queries.query import Query


def judge_for(query: Query, program: Program, *, room: int) -> Judge:
    """A new judge, for one index; one that searches only where the automaton has states in conflict.

    `room` is for how many more pairs in doubt at least there is room after each growth.
    """
    if query.paths == "walk":
        return NoDoubt()
    if not len(program.later_state):
        return NoDoubt(walks_return=False)
    return SimpleJudge(budget=query.simple_budget, room=room)
