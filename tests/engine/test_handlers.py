"""Functions that are called with the rows of queries."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

import rpq

WINDOW = rpq.Window(size=10, slide=1)


def query_named(text: str, name: str, **options: Any) -> rpq.Query:
    return rpq.Query(text, name=name, window=WINDOW, semantics="explicit", **options)


def test_each_handler_is_told_the_rows_of_its_query() -> None:
    queries = [query_named("a/b*", f"from {one}", sources=[one]) for one in range(3)]
    engine = rpq.Engine(*queries, query_named("?x a ?y . ?y b ?z", "pattern"), query_named("b", "nobody's"))
    found: dict[str, list[Any]] = {"0": [], "pattern": [], "both": [], "all": []}
    engine.on_change(found["0"].extend, query="from 0")
    engine.on_change(found["pattern"].extend, query="pattern")
    engine.on_change(found["both"].extend, query=["from 0", "from 2"])
    engine.on_change(found["all"].append)
    rows = list(engine.push_rows([(0, 1, "a", 1), (2, 1, "a", 1), (1, 5, "b", 2)]))
    rows += engine.insert(1, 6, "b", 3)
    rows += engine.delete(0, 1, "a", 4)
    rows += engine.advance(30)
    assert len(rows) == 24
    assert found["0"] == [row for row in rows if row.query == "from 0"]
    assert found["pattern"] == [row for row in rows if row.query == "pattern"]
    assert sorted(found["both"]) == sorted(row for row in rows if row.query in ("from 0", "from 2"))
    assert sorted(map(repr, chain.from_iterable(found["all"]))) == sorted(map(repr, rows))
    assert all(len({row.query for row in some}) == 1 for some in found["all"])


def test_a_handler_that_comes_with_a_query_is_told_its_first_rows_and_goes_with_it() -> None:
    engine = rpq.Engine(keep=WINDOW)
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    found: list[Any] = []
    engine.register([query_named("a", "one"), query_named("a+", "other")], handler=found.extend)
    assert [row.query for row in found] == ["one", "one", "other", "other", "other"]
    engine.unregister("one")
    engine.register(query_named("a", "one"))
    assert len(found) == 5
    engine.insert("p", "q", "a", 3)
    assert [row.query for row in found[5:]] == ["other"]
    with pytest.raises(rpq.QueryError, match="no query named 'none'"):
        engine.on_change(found.extend, query="none")
    with pytest.raises(rpq.QueryError, match="a handler is a function"):
        engine.on_change("print")  # type: ignore[arg-type]
    with pytest.raises(rpq.QueryError, match="a handler is a function"):
        engine.register(query_named("a", "third"), handler=3)  # type: ignore[arg-type]
    assert [query.name for query in engine.queries] == ["other", "one"]


def test_rows_are_told_though_they_are_not_kept() -> None:
    engine = rpq.Engine(query_named("a", "one"))
    found: list[Any] = []
    engine.on_change(found.extend, query="one")
    changes = engine.push(source=["x", "y"], target=["y", "z"], label=["a", "a"], timestamp=[1, 2], collect=False)
    assert (changes.added, changes.rows()) == (2, []) and len(found) == 2
    changes = engine.push(source=["p"], target=["q"], label=["a"], timestamp=[3], collect=False)
    assert (changes.added, changes.rows()) == (1, []) and len(found) == 3


def test_a_handler_may_use_the_engine() -> None:
    engine = rpq.Engine(query_named("a", "edges"), keep=WINDOW)
    received: list[tuple[str, Any, Any]] = []

    def follow(rows: list[rpq.Change]) -> None:
        for row in rows:
            received.append((row.query, row.source, row.target))
            name = f"from {row.target}"
            if row.query == "edges" and name not in [query.name for query in engine.queries]:
                engine.register(query_named("a+", name, sources=[row.target]), handler=follow)
            elif row.query != "edges" and row.target == "z":
                engine.unregister(row.query)

    engine.on_change(follow, query="edges")
    engine.insert("x", "y", "a", 1)
    engine.insert("y", "z", "a", 2)
    engine.insert("z", "w", "a", 3)
    edges = [("edges", "x", "y"), ("edges", "y", "z"), ("edges", "z", "w")]
    assert sorted(received) == sorted([*edges, ("from y", "y", "z"), ("from z", "z", "w")])
    assert [query.name for query in engine.queries] == ["edges", "from z", "from w"]


def test_what_a_handler_raises_comes_when_all_were_called() -> None:
    engine = rpq.Engine(query_named("a", "one"), query_named("a", "two"))
    found: list[Any] = []

    def fail(rows: list[rpq.Change]) -> None:
        raise ValueError(rows[0].query)

    engine.on_change(fail)
    engine.on_change(found.extend, query="two")
    with pytest.raises(ValueError, match="one"):
        engine.insert("x", "y", "a", 1)
    assert len(found) == 1
    assert engine.statistics().inserted == 1
    with pytest.raises(ValueError, match="one"):
        engine.push_rows([("x", "z", "a", 2), ("y", "z", "a", 2)])
    assert len(found) == 3


def test_the_rows_before_a_bad_tuple_are_told() -> None:
    engine = rpq.Engine(query_named("a", "one"))
    found: list[Any] = []
    engine.on_change(found.extend, query="one")
    with pytest.raises(rpq.InputError):
        engine.push_rows([("x", "y", "a", 1), ("x", "y", "a", "never")])
    assert len(found) == 1
