"""The limit on the time of a push: what is delivered before the tuple that takes too long, and how to go on without it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import rpq
from rpq.operators.paths.index.delta_index import DeltaIndex

W = rpq.Window(size=400, slide=20)
HARD = rpq.Query("a/(b/a)+", window=rpq.Window(size=100_000, slide=100), paths="simple", name="hard")
QUERIES = {
    "simple": rpq.Query("a/(b/a)+", window=rpq.Window(size=100, slide=20), paths="simple"),
    "bits": rpq.Query("(a|b|c)+", window=W, semantics="explicit"),
    "path in a pattern": rpq.Query("?x a+ ?y . ?y b ?z", window=W),
}


def edges(count: int, *, vertices: int, seed: int = 1, labels: str = "ab") -> list[tuple[str, str, str, int]]:
    """Return inserts between random vertices, one a moment."""
    chosen = random.Random(seed)
    ends = [(f"v{chosen.randrange(vertices)}", f"v{chosen.randrange(vertices)}") for _ in range(count)]
    return [(*pair, chosen.choice(labels), time) for time, pair in enumerate(ends)]


def by_tuple(changes: rpq.Changes) -> Counter[tuple]:
    return Counter(map(tuple, changes.rows()))


def test_tuple_that_takes_too_long_is_refused_as_a_whole():
    tuples = edges(1600, vertices=200)
    other = rpq.Query("a", window=HARD.window, name="other")
    engine = rpq.Engine(HARD, other, push_limit=0.3)
    with pytest.raises(rpq.PushLimitError, match="query 'hard': tuple [0-9]+ of the batch") as caught:
        engine.push_rows(tuples)
    error = caught.value
    assert (error.query, error.limit) == ("hard", 0.3) and 100 < error.row < 600
    expected = rpq.Engine(HARD, other).push_rows(tuples[: error.row])
    assert by_tuple(error.changes) == by_tuple(expected)
    with pytest.raises(rpq.RpqError, match="accepts no further tuples"):
        engine.insert("x", "y", "a", 2000)


def test_registration_that_takes_too_long_is_refused_and_nothing_else():
    engine = rpq.Engine(rpq.Query("a|b", window=HARD.window, name="other"), push_limit=0.3)
    engine.push_rows(edges(1600, vertices=200)[:700])
    with pytest.raises(rpq.PushLimitError, match="query 'hard'"):
        engine.register(HARD)
    assert [query.name for query in engine.queries] == ["other"]
    assert engine.insert("x", "y", "a", 1600).added == 1


@pytest.mark.parametrize("kind", QUERIES)
def test_interrupted_pushes_have_the_rows_of_one_that_is_not(kind, tmp_path):
    """The engine is interrupted at a random moment, restored, and goes on with the tuple at which it was interrupted."""
    chosen = random.Random(kind)
    tuples = edges(1000, vertices=60, seed=7, labels="abc")
    tuples[500::50] = [(*tuples[place - 30][:3], tuples[place][3], "-") for place in range(500, 1000, 50)]
    whole = by_tuple(rpq.Engine(QUERIES[kind]).push_rows(tuples))
    engine, state = rpq.Engine(QUERIES[kind]), Path(tmp_path / "state")
    engine.save(state)
    first = interruptions = 0
    found: Counter[tuple] = Counter()
    while first < len(tuples):
        limits = [1e-4, 1e-3, 1e-2] if interruptions else [1e-4]  # the whole stream takes 10 ms on a fast machine
        engine.push_limit = chosen.choice(limits) if interruptions < 12 else None
        try:
            found += by_tuple(engine.push_rows(tuples[first:]))
            break
        except rpq.PushLimitError as error:
            interruptions += 1
            found += by_tuple(error.changes)
            engine = rpq.Engine.restore(state)
            assert by_tuple(engine.push_rows(tuples[first : first + error.row])) == by_tuple(error.changes)
            first += error.row
            if first < len(tuples):
                found += by_tuple(engine.push_rows(tuples[first : first + 1]))
                first += 1
            engine._check()
            engine.save(state)
    assert found == whole and interruptions > 0


def test_first_delete_that_takes_too_long_keeps_the_rows_before_it(monkeypatch):
    """At the first delete a path enters its edges again, with counts of their supports."""
    tuples: list[tuple] = [*edges(300, vertices=60, labels="abc")]
    tuples.append((*next(one for one in tuples[::-1] if one[2] == "a")[:3], 300, "-"))
    load = DeltaIndex._load

    def refuse(index, *arguments, **options):
        load(index, *arguments, **options)
        if index._place_of_load is not None:
            raise rpq.PushLimitError("too long", query="q", row=index._place_of_load, limit=1)

    monkeypatch.setattr(DeltaIndex, "_load", refuse)
    with pytest.raises(rpq.PushLimitError) as caught:
        rpq.Engine(QUERIES["path in a pattern"]).push_rows(tuples)
    assert caught.value.row == 300
    monkeypatch.undo()
    assert by_tuple(caught.value.changes) == by_tuple(rpq.Engine(QUERIES["path in a pattern"]).push_rows(tuples[:300]))
