"""Queries that come and go for a long time: memory and cost stay what they were."""

from __future__ import annotations

import random
from typing import Any

import pytest

import rpq
from tests.calls import counted_calls

WINDOW = rpq.Window(size=1_000, slide=50)
BATCH = 10_000
CHANGED = 20
"""Queries that go, and that come, after each batch."""


def a_query(number: int, chance: random.Random, around: int) -> rpq.Query:
    """Return a query of any kind, usually with a constant that edges may have soon."""
    vertex = f"v{around + chance.randint(0, 3_000)}"
    options: dict[str, Any] = {"name": f"q{number}", "window": WINDOW}
    kind = number % 6
    if kind < 2:
        return rpq.Query(chance.choice(["a/b*", "b/c?"]), **{chance.choice(["sources", "targets"]): [vertex]}, **options)
    if kind == 2:
        return rpq.Query(f"?x a ?y . ?y b {vertex}", **options)
    if kind == 3:
        return rpq.Query(f"{vertex} a ?x . ?x b ?y . ?y c ?z", **options)
    if kind == 4:
        return rpq.Query(f"SELECT ?x ?y {{ <{vertex}> <a> ?x . ?x <c> ?y FILTER(?x != ?y) }}", **options)
    return rpq.Query(f"{vertex} a/b* ?x . ?x c ?y", **options)


def come_and_go(updates: int, queries: int) -> tuple[list[int], list[int], rpq.Engine]:
    """Return the calls of functions that each batch takes, the bytes held after it, and the engine."""
    chance = random.Random(7)
    engine = rpq.Engine(keep=WINDOW)
    waiting = [f"q{number}" for number in range(queries)]
    number = queries
    engine.register(a_query(one, chance, 0) for one in range(queries))
    work, sizes = [], []
    for batch in range(updates // BATCH):
        around = batch * 500  # names come and go as well
        columns: dict[str, Any] = {"source": [], "target": [], "label": [], "timestamp": [], "op": []}
        for place in range(BATCH):
            row = (
                f"v{around + chance.randint(0, 3_000)}",
                f"v{around + chance.randint(0, 3_000)}",
                "abc"[place % 3],
                batch * 1_000 + place // 10,
                "-" if place % 20 == 19 else "+",
            )
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        new = [a_query(number + one, chance, around + 500) for one in range(CHANGED)]
        gone, waiting = waiting[:CHANGED], waiting[CHANGED:]
        with counted_calls() as calls:
            engine.push(columns)
            engine.unregister(gone)
            engine.register(new)
        work.append(calls.count)
        sizes.append(engine.statistics().index_bytes)
        waiting += [query.name for query in new]
        number += CHANGED
    return work, sizes, engine


def check_that_nothing_grows(updates: int, queries: int) -> None:
    work, sizes, engine = come_and_go(updates, queries)
    quarter = len(sizes) // 4
    assert max(sizes[-quarter:]) <= 1.2 * max(sizes[quarter : 2 * quarter])
    early, late = (sorted(some)[len(some) // 2] for some in (work[quarter : 2 * quarter], work[-quarter:]))
    assert late <= 1.2 * early, (early, late)
    assert len(engine.queries) == queries
    engine._check()
    assert engine.statistics().rows_added > updates // 1_000
    engine.unregister([query.name for query in engine.queries])
    engine.advance(10**9)
    assert "0 edges of 0 vertices" in repr(engine)


@pytest.mark.ci
def test_memory_and_cost_stay_where_queries_come_and_go() -> None:
    check_that_nothing_grows(20 * BATCH, 120)


@pytest.mark.parametrize("first", ["a", "b"])
def test_what_a_query_alone_accepted_goes_with_it_whatever_the_order_of_labels(first: str) -> None:
    window = rpq.Window(size=100, slide=1)
    texts = {"some": '"s" a ?y', "all": "?x a ?y", "other": "?x b ?y"}
    engine = rpq.Engine(*(rpq.Query(text, window=window, name=name) for name, text in texts.items()))
    engine.push_rows([("x", "y", first, 1), ("s", "t", "a", 1), ("u", "v", "a", 2)])
    engine.unregister("all")
    with pytest.raises(rpq.RegistrationError, match="were not stored"):
        engine.register(rpq.Query("?x a ?y", window=window, name="again"))
