"""Count windows over edges with conditions, parallel edges and ids.

semantics.md S14
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import EXPRESSIONS, PATTERNS, Described, check_counts, check_stream, rows_of
from tests.reference_properties import (
    CountedQuery,
    PropertyEngine,
)
from tests.twins import examples


@examples(150)
@given(data=st.data())
def test_count_windows(data):
    """The last inserts, counted by label: replacements, deletes, evictions and saved states."""
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    size, slide = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    semantics = data.draw(st.sampled_from(("explicit", "implicit")))
    options = {"size": size, "slide": slide, "semantics": semantics, "paths": data.draw(st.sampled_from(("walk", "simple")))}
    described_query = Described("q", data.draw(st.sampled_from([*EXPRESSIONS[1:-1], *PATTERNS])), **options)
    described_query.query = described_query.query.over(rpq.CountWindow(size=size, step=slide))
    queries = [described_query]
    oracle = PropertyEngine(CountedQuery.of(described_query.oracle), identity=identity)
    engine = rpq.Engine(
        described_query.query,
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )

    def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
        check_counts(engine, oracle, queries)
        assert engine.queries[0].window == described_query.query.window
        assert Counter(map(tuple, engine.answers("q"))) == oracle.solutions("q")

    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check)


def counted(*rows: tuple, size: int = 2, edges: str = "triple", semantics: str = "implicit", **options) -> list[list[str]]:
    """Return the rows for each insert (source, target, label, amount) into a window of the last inserts."""
    query = rpq.Query("a[n > 1]/b", window=rpq.CountWindow(size=size), semantics=semantics)
    engine = rpq.Engine(query, edges=edges, **options)
    found = []
    for time, (source, target, label, amount) in enumerate(rows):
        changes = engine.insert(source, target, label, time, properties={"n": amount})
        found.append([f"{row.op} {row.source} {row.target}" for row in changes.rows()])
    return found


def test_what_a_count_window_evicts_leaves_in_silence_and_what_is_replaced_does_not():
    rows = ("x", "y", "a", 5), ("y", "z", "b", None), ("u", "v", "b", None)
    assert counted(*rows) == [[], ["+ x z"], []]
    assert counted(*rows, semantics="explicit") == [[], ["+ x z"], ["- x z"]]
    assert counted(*rows[:2], ("x", "y", "a", 1)) == [[], ["+ x z"], ["- x z"]]
    assert counted(*rows[:2], ("x", "y", "a", 1), edges="parallel", size=3) == [[], ["+ x z"], []]


def test_an_older_insert_renews_the_edge_that_a_count_window_holds():
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=2), semantics="explicit")
    engine = rpq.Engine(query)
    engine.push(source=["x"], target=["y"], label=["a"], timestamp=[5], n=[3])
    engine.push(source=["u"], target=["v"], label=["a"], timestamp=[5], n=[3])
    assert not engine.push(source=["x"], target=["y"], label=["a"], timestamp=[4], n=[0]).rows()
    changes = engine.push(source=["s"], target=["t"], label=["a"], timestamp=[6], n=[3])
    assert [(row.op, row.source) for row in changes.rows()] == [("-", "u"), ("+", "s")]
    assert sorted(source for source, _ in engine.answers()) == ["s", "x"]


@pytest.mark.parametrize("identity", ["triple", "parallel", "id"])
def test_a_count_window_that_comes_too_late_is_not_sent_from_one_start_to_the_other(identity):
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=2), name="one")
    engine = rpq.Engine(query, edges=identity)
    engine.insert("x", "y", "a", 1, properties={"n": 3}, edge="e" if identity == "id" else None)
    engine.unregister("one")
    with pytest.raises(rpq.RegistrationError, match="are not known, .*; register it before the first tuple$"):
        engine.register(query)
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"|was not stored'):
        engine.register(query, start="empty")


def test_count_windows_that_are_refused():
    near, far = rpq.CountWindow(size=2), rpq.CountWindow(size=3)
    with pytest.raises(rpq.QueryError, match="another query has another window or reads other labels"):
        rpq.Engine(rpq.Query("a[n > 1]", window=near), rpq.Query("a[n > 2]", window=far))
    with pytest.raises(rpq.QueryError, match="rows that leave such a window are always reported"):
        rpq.Engine(rpq.Query("a[n > 1]", window=near), events="window")
    engine = rpq.Engine(rpq.Query("a", window=near))
    with pytest.raises(rpq.QueryError, match="already counts inserts in .* register the two together"):
        engine.register(rpq.Query("a[n > 1]", window=near))
    engine = rpq.Engine(rpq.Query("a[n > 1]", window=near, name="one"))
    engine.insert("x", "y", "a", 1, properties={"n": 3})
    with pytest.raises(rpq.RegistrationError, match="which edges satisfy .* was not stored"):
        engine.register(rpq.Query("a[n > 2]", window=near, name="two"))
    with pytest.raises(rpq.RegistrationError, match='leave out start="empty"'):
        engine.register(rpq.Query("^a[n > 1]", window=near, name="two"), start="empty")
    assert engine.register(rpq.Query("^a[n > 1]", window=near, name="two")).added == 1


def test_names_of_ids_leave_with_a_count_window():
    query = rpq.Query("a[n > 1]", window=rpq.CountWindow(size=5))
    engine = rpq.Engine(query, edges="id", _capacity=4)
    for start in range(0, 2000, 100):
        ids = list(range(start, start + 100))
        vertices = [f"v{one}" for one in ids]
        engine.push(source=vertices, target=vertices, label=["a"] * 100, timestamp=ids, edge=ids, n=[2] * 100)
        engine._check()
    assert engine.statistics().vertices_live < 120
