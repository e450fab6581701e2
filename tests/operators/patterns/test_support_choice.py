"""The choice of support lists: measurements decide, and a trial that failed is repeated later."""

from __future__ import annotations

from types import SimpleNamespace

from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.live_patterns import ENTRY, SHORTEST, SupportChoice
from rpq.operators.patterns.joins.plan_tables import Work


class Measured:
    """Tables of one query that looks at so many values a change, and with lists changes so many of their entries."""

    def __init__(self) -> None:
        self.changes = 0
        self.store = SimpleNamespace(relations=SimpleNamespace(state=tables.RelationState()))
        self.is_supported = False
        self.trials = 0
        self.choice = SupportChoice(self)  # type: ignore[arg-type]

    def queries_at_work(self) -> set[int]:
        return {0}

    def is_linked(self, query: int) -> bool:
        return True

    def has_supports(self, query: int) -> bool:
        return self.is_supported

    def support(self, query: int, keep: bool) -> bool:
        self.trials += keep
        self.is_supported = keep
        return True

    def take_work(self, query: int) -> Work:
        looks, entries = (0, self.entries) if self.is_supported else (self.looks, 0)
        return Work(looks=looks * SHORTEST, rows=0, entries=entries * SHORTEST)

    def live(self, *, looks: int, entries: int, periods: int = 1) -> None:
        self.looks, self.entries = looks, entries
        for _ in range(periods):
            self.changes += SHORTEST
            self.choice.review()


def test_lists_that_at_least_halve_the_work_are_kept():
    query = Measured()
    query.live(looks=100, entries=2, periods=2)
    assert query.is_supported and query.trials == 1
    assert "kept" in query.choice.why(0)


def test_a_trial_that_failed_is_repeated_ever_less_often():
    query = Measured()
    query.live(looks=100, entries=100 // ENTRY, periods=300)
    assert not query.is_supported and 5 <= query.trials <= 8
    assert "tried, and given up" in query.choice.why(0)


def test_a_trial_that_failed_is_repeated_at_once_when_a_hub_has_grown():
    query = Measured()
    query.live(looks=100, entries=100 // ENTRY, periods=200)
    failed = query.trials
    query.live(looks=150, entries=100 // ENTRY)
    assert query.trials == failed
    query.live(looks=900, entries=100 // ENTRY, periods=2)
    assert query.is_supported and query.trials == failed + 1
