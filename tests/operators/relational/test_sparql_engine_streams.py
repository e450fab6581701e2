"""Longer streams through SPARQL: rows summed are what is found anew from the windows, at many moments; and what is held
is bounded by the window."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import rpq

WINDOW = rpq.Window(size=80, slide=10)


def stream(seed: int, count: int = 2_400):
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
        "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z FILTER(?z != ?x) } }",
        "SELECT ?x ?y { ?x <a> ?y FILTER EXISTS { ?y <b> ?z } MINUS { ?x <c> ?u } }",
        "SELECT (COUNT(*) AS ?n) { { ?x <a> ?y } UNION { ?x <b> ?y } { ?y <c> ?z } UNION { ?y <d> ?z } }",
    ],
)
def test_rows_summed_are_the_answer(text):
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, semantics="explicit", name="q"))
    tuples = list(stream(len(text)))
    total: Counter = Counter()
    sums = []
    for begin in range(0, len(tuples), 199):
        for row in engine.push_rows(tuples[begin : begin + 499]):
            total[row[1:-2]] += 1 if row[-1] == "+" else -1
        assert min(total.values(), default=0) >= 0
        total = +total
        assert total == Counter(engine.answers())
        engine._check()
        sums.append(engine.statistics("q").index_bytes)
    assert max(sums[6:]) < 3 * max(sums[2:6]), sums


def test_a_computed_term_keeps_its_id_when_the_vertex_of_that_name_leaves_every_window():
    text = 'SELECT DISTINCT ?x ?t { ?x <a> ?y BIND(IRI(CONCAT("v", SUBSTR(STR(?y), 2))) AS ?t) }'
    query = rpq.Query(text, window=rpq.Window(size=300, slide=1), semantics="explicit", name="q")
    engine = rpq.Engine(query, rpq.Query("b", window=rpq.Window(size=10, slide=1), name="p"), _capacity=16)
    engine.push_rows([("v", "w", "b", 1)])
    rows = engine.push_rows([("x", "y", "a", 2)]).rows()
    for time in range(3, 200):  # so many vertices that ids are used again
        engine.push_rows([(f"s{time} {number}", f"t{time} {number}", "b", time) for number in range(5)])
    rows += [row for row in engine.advance(1000).rows() if row.query == "q"]
    assert [tuple(row)[1:] for row in rows] == [("x", "v", 2, "+"), ("x", "v", 302, "-")]
