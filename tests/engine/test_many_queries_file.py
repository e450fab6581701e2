"""Files of many queries, and the time that one more query takes where there are many."""

from __future__ import annotations

import gc
import json
import time
import weakref
from pathlib import Path

import pytest

import rpq
from rpq.language.pattern import Pattern
from rpq.language.query import PatternQuery

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


def microseconds_a_query(folder: Path, count: int) -> float:
    """Processor time of reading a file and registering what it asks, for each query."""
    path = write(folder / f"{count}.jsonl", count)
    begun = time.process_time()
    queries = rpq.read_queries(path, window=100, slide=10)
    engine = rpq.Engine(keep=WINDOW)
    engine.register(queries)
    taken = time.process_time() - begun
    assert len(engine.queries) == count
    return taken / count * 1e6


@pytest.mark.ci
def test_reading_and_registering_many_takes_as_long_a_query_as_few(tmp_path: Path) -> None:
    microseconds_a_query(tmp_path, 30)  # what happens once
    few, many = microseconds_a_query(tmp_path, 600), microseconds_a_query(tmp_path, 6_000)
    assert many < 2.5 * few + 100, (few, many)


@pytest.mark.long
def test_a_hundred_thousand_lines_are_read_and_registered(tmp_path: Path) -> None:
    assert microseconds_a_query(tmp_path, 100_000) < 1_500


@pytest.mark.ci
def test_one_query_comes_and_goes_quickly_among_many(tmp_path: Path) -> None:
    questions = rpq.read_queries(write(tmp_path / "q.jsonl", 5_100), window=100, slide=10)
    engine = rpq.Engine(keep=WINDOW)
    engine.register(questions[:5_000])
    engine.push_rows([(f"v{place % 97}", f"v{place * 7 % 89}", "ab"[place % 2], place) for place in range(300)])
    register, unregister = [], []
    for query in questions[5_000:]:
        begun = time.process_time()
        engine.register(query)
        register.append(time.process_time() - begun)
    for query in questions[5_000:]:
        begun = time.process_time()
        engine.unregister(query.name)
        unregister.append(time.process_time() - begun)
    # The medians: now and then a table is made anew. A machine that does other things besides has twice the time.
    assert sorted(register)[50] < 2e-3 and sorted(unregister)[50] < 2e-3, (sorted(register)[50], sorted(unregister)[50])
    assert len(engine.queries) == 5_000


def test_a_pattern_is_read_once_for_all_who_have_it_and_let_go_with_them() -> None:
    text = "?left knows ?right . ?right likes nobody"
    one, another = (rpq.Query(text, name=name, window=WINDOW) for name in "xy")
    assert isinstance(one, PatternQuery) and isinstance(another, PatternQuery)
    assert one.pattern is another.pattern and Pattern.read(text, ["left"]).columns == ("left",)
    known = weakref.ref(one.pattern)
    del one, another
    gc.collect()
    assert known() is None
    for wrong in (["nobody"], "left", 7, [7], [["left"]]):
        with pytest.raises(rpq.QueryError, match="select"):
            Pattern.read(text, wrong)  # type: ignore[arg-type]
