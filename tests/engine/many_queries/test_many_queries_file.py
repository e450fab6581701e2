"""Files of many queries, and the time that one more query takes where there are many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rpq
from tests.calls import counted_calls

WINDOW = rpq.Window(size=100, slide=10)


def entry(number: int) -> dict[str, object]:
    """Return an entry of a kind that users have, with a constant of its own."""
    if number % 3 == 0:
        return {"name": f"q{number}", "query": "a/b*", "sources": [f"v{number}"], "output": "paths.csv"}
    if number % 3 == 1:
        return {"name": f"q{number}", "query": f"?x a ?y . ?y b v{number}"}
    return {"name": f"q{number}", "query": f"v{number} a ?x . ?x b ?y"}


def write(path: Path, count: int) -> Path:
    path.write_text("".join(json.dumps(entry(number)) + "\n" for number in range(count)))
    return path


def calls_a_query(folder: Path, count: int) -> float:
    """Return the calls of functions that reading a file and registering its queries take, for each query."""
    path = write(folder / f"{count}.jsonl", count)
    with counted_calls() as calls:
        queries = rpq.read_queries(path, window=100, slide=10)
        engine = rpq.Engine(keep=WINDOW)
        engine.register(queries)
    assert len(engine.queries) == count
    return calls.count / count


@pytest.mark.ci
def test_reading_and_registering_many_takes_as_long_a_query_as_few(tmp_path: Path) -> None:
    calls_a_query(tmp_path, 30)  # what happens once
    few, many = calls_a_query(tmp_path, 300), calls_a_query(tmp_path, 3_000)
    assert many < 1.2 * few, (few, many)


@pytest.mark.ci
def test_one_query_comes_and_goes_quickly_among_many(tmp_path: Path) -> None:
    queries = rpq.read_queries(write(tmp_path / "q.jsonl", 5_100), window=100, slide=10)
    medians = []
    for others in (500, 5_000):
        engine = rpq.Engine(keep=WINDOW)
        engine.register(queries[:others])
        engine.push_rows([(f"v{place % 97}", f"v{place * 7 % 89}", "ab"[place % 2], place) for place in range(300)])
        calls: dict[str, list[int]] = {"register": [], "unregister": []}
        for query in queries[5_000:]:
            with counted_calls() as counted:
                engine.register(query)
            calls["register"].append(counted.count)
        for query in queries[5_000:]:
            with counted_calls() as counted:
                engine.unregister(query.name)
            calls["unregister"].append(counted.count)
        assert len(engine.queries) == others
        medians.append([sorted(some)[50] for some in calls.values()])  # now and then a table is made anew
    assert all(many <= 1.5 * few for few, many in zip(*medians, strict=True)), medians
