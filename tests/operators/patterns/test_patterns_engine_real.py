"""Graph patterns in the engine on real streams: the counts that four published engines agree on, in one engine."""

from __future__ import annotations

import pytest

import rpq
from tests.operators.patterns.kernels.test_pattern_kernels_real import DAY, LDBC, MATHOVERFLOW, ldbc, mathoverflow
from tests.real import DATA

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")

LARGEST = max(MATHOVERFLOW, key=lambda pattern: MATHOVERFLOW[pattern][0])


@pytest.mark.parametrize(
    ("stream", "patterns", "days", "day"),
    [
        (mathoverflow, {pattern: counts for pattern, counts in MATHOVERFLOW.items() if pattern != LARGEST}, 30, DAY),
        (ldbc, LDBC, 10, 1000 * DAY),
    ],
    ids=["mathoverflow", "ldbc"],
)
def test_as_many_rows_enter_and_leave(stream, patterns, days, day):
    tuples, labels = stream()
    window = rpq.Window(size=days * day, slide=day)
    engine = rpq.Engine(*(rpq.Query(pattern, window=window, semantics="explicit") for pattern in patterns))
    named = [labels[label] for label in tuples.label.tolist()]
    engine.push(source=tuples.source, target=tuples.target, label=named, timestamp=tuples.timestamp, collect=False)
    figures = {query: engine.statistics(query) for query in patterns}
    assert {query: (one.rows_added, one.rows_removed) for query, one in figures.items()} == patterns
    assert all(one.answers_live == one.rows_added - one.rows_removed for one in figures.values())
