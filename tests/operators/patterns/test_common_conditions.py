"""Conditions that hold nearly everywhere are not stored, which is never seen in rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.operators.patterns.joins import condition_graph
from tests.twins import examples, tiny

TEXT = "?x likes ?m . ?m by ?p . ?p in land"


@pytest.fixture(autouse=True, scope="module")
def _little_room() -> Iterator[None]:
    """Make tables of conditions grow with few vertices."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(condition_graph, "_SMALLEST", 2)
        yield


def messages(first: int, end: int, country: str) -> list[tuple[str, str, str, int]]:
    """Return edges of messages that are liked, by twenty people of a country, one each second."""
    rows = []
    for number in range(first, end):
        person, message = f"{country} {number % 20}", f"m{number}"
        rows += [(person, country, "in", number), (message, person, "by", number), (person, message, "likes", number)]
    return rows


def index_bytes(country: str) -> int:
    engine = rpq.Engine(rpq.Query(TEXT, window=rpq.UnboundedWindow()), _sharing="always")
    engine.push_rows([("nobody", "land", "in", 0)])
    for first in range(0, 4000, 1000):
        engine.push_rows(messages(first, first + 1000, country), collect=False)
    return engine.statistics().index_bytes


def test_a_condition_that_holds_at_most_vertices_takes_no_memory() -> None:
    assert abs(index_bytes("land") - index_bytes("sea")) < 50_000


TEXTS = (
    "?x a ?y . ?y b 1",
    "?x a ?y . ?y b 1 . ?z c ?x",
    "?x a ?y . ?y b 1 . ?y c 2",
    "?x b 1 . ?x c 2 . ?w a ?x",
    "?x b 1 . ?y a ?x . ?y b 2",
    "1 b ?x . ?x a ?y . ?y c ?z",
    "?x a+ ?y . ?y b 1",
    "SELECT ?x ?n { ?x <a> ?y . ?y <b> <1> OPTIONAL { ?n <c> ?x } }",
)
tuples = st.tuples(
    st.integers(0, 9),
    st.sampled_from([1, 1, 2, 5, 8]),
    st.sampled_from("aabbc"),
    st.integers(-4, 3),
    st.sampled_from("++++-"),
)


@examples(50)
@given(st.lists(st.lists(tuples, min_size=1, max_size=25), min_size=2, max_size=6), st.sampled_from([1, 1, 2]), st.data())
def test_leaving_conditions_out_is_never_seen(batches: list[list[Any]], threads: int, data: st.DataObject) -> None:
    keep = rpq.Window(size=40, slide=1)
    shared, apart = tiny(2)(keep=keep, threads=threads, _sharing="always"), tiny(2)(keep=keep, _sharing="never")
    windows = st.sampled_from([keep, rpq.Window(size=12, slide=5), rpq.CountWindow(size=9)])
    time = number = 0
    live: list[str] = []
    for batch in batches:
        for text, window in data.draw(st.lists(st.tuples(st.sampled_from(TEXTS), windows), max_size=4)):
            if isinstance(window, rpq.Window) or batch is batches[0]:  # inserts were not numbered later
                query = rpq.Query(text, name=f"q{number}", window=window, semantics="explicit")
                number += 1
                live.append(query.name)
                assert Counter(shared.register(query).rows()) == Counter(apart.register(query).rows())
        gone = data.draw(st.lists(st.sampled_from(live), unique=True, max_size=2)) if live else []
        for engine in (shared, apart):
            engine.unregister(gone)
        live = [name for name in live if name not in gone]
        rows = []
        for source, target, label, step, op in batch:
            rows.append((source, target, label, max(0, time + step), op))
            time = max(time, rows[-1][3])
        assert Counter(shared.push_rows(rows).rows()) == Counter(apart.push_rows(rows).rows())
        shared._check()
        for name in live:
            assert Counter(shared.answers(name)) == Counter(apart.answers(name))
        if data.draw(st.integers(0, 2)) == 0:
            with tempfile.TemporaryDirectory() as folder:
                shared.save(Path(folder) / "state")
                shared = tiny(2).restore(Path(folder) / "state", threads=threads)
