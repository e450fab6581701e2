"""Answers that are read in parts: all kinds of queries, and a stream that moves between two parts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import rpq
from tests.twins import collect, parts_of, tiny

WINDOW = rpq.Window(size=30, slide=3)
QUERIES = {
    "path": rpq.Query("a/b*", window=WINDOW),
    "all paths": rpq.Query("(a|b)*", window=WINDOW),
    "to few targets": rpq.Query("(a|b)+", window=WINDOW, name="to few targets", targets=["1", "2"]),
    "simple paths": rpq.Query("(a/b)+", window=WINDOW, name="simple paths", paths="simple"),
    "lengths": rpq.Query("(a|b)+", window=WINDOW, name="lengths", select=("source", "target", "length")),
    "pattern": rpq.Query("?x a ?y . ?y b+ ?z", window=WINDOW),
    "bag": rpq.Query("?x a ?y . ?y b ?z", window=WINDOW, select=("x",)),
    "counts": rpq.Query("SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x", window=WINDOW),
    "ASK": rpq.Query("ASK { ?x <a> ?y }", window=WINDOW),
    "same trees": rpq.Query("(a|b)*", window=WINDOW, name="same trees", sources=["3", "4", "none"]),
}
IN_ORDER = rpq.Query("(a|b)+", window=WINDOW, order="increasing")


def rows_of(random_: random.Random, begin: int, count: int) -> list[tuple[str, str, str, int, str]]:
    times = sorted(begin + random_.randrange(20) for _ in range(count))
    vertices = [str(number) for number in range(9)]
    return [
        (random_.choice(vertices), random_.choice(vertices), random_.choice("ab"), time, random_.choice("++++-"))
        for time in times
    ]


@pytest.mark.parametrize("queries", [[*QUERIES.values()], [IN_ORDER]], ids=["triples", "in an order"])
def test_parts_of_each_kind_of_query(queries: list[rpq.Query]) -> None:
    random_ = random.Random(1)
    engine = tiny(4)(*queries, edges="parallel" if queries == [IN_ORDER] else "triple")
    for begin in range(0, 100, 20):
        engine.push_rows(rows_of(random_, begin, 25))
        for query in queries:
            answers = Counter(engine.answers(query.name))
            for limit in (1, 3, 1000):
                parts = parts_of(engine, query.name, limit)
                assert Counter(row for part in parts for row in part) == answers, query
            assert engine.statistics(query.name).answers_live == answers.total()


@pytest.mark.parametrize("kind", ["path", "all paths", "bits", "simple paths", "pattern", "bag"])
def test_an_answer_that_holds_throughout_is_in_exactly_one_part(kind: str) -> None:
    random_ = random.Random(kind)
    query = QUERIES["all paths" if kind == "bits" else kind]
    engine = tiny(4)(query)
    for begin in range(0, 200, 20):
        engine.push_rows(rows_of(random_, begin, 20))
        if kind == "bits":
            engine._evaluation.running.find(None).indexes[0].use_bits()
        seen: Counter[tuple[str, ...]] = Counter()
        least = most = Counter(engine.answers())
        for number, part in enumerate(parts_of(engine, query.name, 2)):
            seen.update(part)
            if number % 3 == 0:
                engine.push_rows(rows_of(random_, begin + 20, 1))
                collect(engine)
                least, most = least & Counter(engine.answers()), most | Counter(engine.answers())
        assert all(count <= seen[row] <= most[row] for row, count in least.items())


def test_refused_options_of_parts() -> None:
    engine = rpq.Engine(rpq.Query("a", window=WINDOW, name="p"), rpq.Query("?x a ?y", window=WINDOW, name="q"))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 1)])
    cursor = engine.answers("p", limit=1).cursor
    assert len(engine.answers("p", after=cursor)) == 1
    for wrong in (engine.answers("q", limit=1).cursor, f"1{cursor}", f"-{cursor}", f"{cursor}.ü", "", "7"):
        with pytest.raises(rpq.InputError, match="no cursor of this query"):
            engine.answers("p", after=wrong)
    with pytest.raises(rpq.QueryError, match="of path queries"):
        engine.answers("q", source="x")
    with pytest.raises(rpq.QueryError, match="limit"):
        engine.answers("p", limit=0)
    assert list(engine.answers("p", target="y", after=cursor)) == []  # all of these precede it
    assert len(engine.answers("p", source="nobody")) == len(engine.answers("p", source="x", target="nobody")) == 0
