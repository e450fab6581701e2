"""Longer streams through SPARQL: rows summed are what is found anew from the windows, at many moments; and what is held
is bounded by the window."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import rpq

WINDOW = rpq.Window(size=400, slide=10)


def stream(seed: int, count: int = 12_000):
    """Tuples of four labels between few hundred vertices, some late, some deletes of what was there."""
    random = Random(seed)
    known: list[tuple] = []
    for number in range(count):
        time = number // 4 - random.choice([0, 0, 0, 0, 5, 50])
        if known and random.random() < 0.15:
            yield (*random.choice(known[-500:]), max(time, 0), "-")
            continue
        target = str(random.randrange(-40, 40)) if random.random() < 0.5 else f"v{random.randrange(150)}"
        edge = (f"v{random.randrange(150)}", target, random.choice("abcd"))
        known.append(edge)
        yield (*edge, max(time, 0), "+")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) (AVG(?y) AS ?m) { ?x <a> ?y FILTER(?y > -50) } GROUP BY ?x",
        "SELECT ?x (AVG(?y) AS ?m) (MAX(?y) AS ?k) (COUNT(DISTINCT ?y) AS ?n) { ?x <a> ?y } GROUP BY ?x",
        "SELECT DISTINCT ?x ?z { ?x <a> ?y . ?y <b> ?z }",
        "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }",
        "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z FILTER(?z != ?x) } }",
        "SELECT ?x ?y { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }",
        "SELECT ?x ?y { ?x <a> ?y FILTER EXISTS { ?y <b> ?z } MINUS { ?x <c> ?u } }",
        "SELECT (COUNT(*) AS ?n) { { ?x <a> ?y } UNION { ?x <b> ?y } { ?y <c> ?z } UNION { ?y <d> ?z } }",
    ],
)
def test_rows_summed_are_the_answer(text):
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, semantics="explicit", name="q"))
    tuples = list(stream(len(text)))
    total: Counter = Counter()
    held = []
    for begin in range(0, len(tuples), 997):
        for row in engine.push_rows(tuples[begin : begin + 997]):
            total[row[1:-2]] += 1 if row[-1] == "+" else -1
        assert min(total.values(), default=0) >= 0
        total = +total
        assert total == Counter(engine.answers())
        engine._check()
        held.append(engine._evaluation.running.named("q").nbytes)
    assert max(held[6:]) < 3 * max(held[2:6]), held
