"""The baselines against each other and against the engine."""

from __future__ import annotations

import random
import time
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.workloads import named_queries
from rpq.workloads.baselines.rapq import RAPQ
from rpq.workloads.baselines.reevaluation import BaselineProcess, InsertedEdges, ProductSearch, TimeIsUpError
from rpq.workloads.baselines.simple_trees import SimpleTrees
from rpq.workloads.baselines.spanning_trees import SpanningTrees, numbered_columns
from tests.reference import ReferenceEngine, ReferenceQuery
from tests.twins import examples

STEPS = st.sampled_from((0, 0, 0, 1, 1, 2, 5, 12, -1, -3, -20))
"""Times from a tuple to the next, also of edges that are late or out of order."""


def random_edges(seed: int, count: int = 25) -> list[tuple[str, str, str]]:
    chance = random.Random(seed)
    return [(chance.choice("uvwxyz"), chance.choice("abc"), chance.choice("uvwxyz")) for _ in range(count)]


def engine_pairs(expression: str, edges: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    engine = rpq.Engine(rpq.Query(expression, window=rpq.Window(size=10, slide=1)))
    engine.push_rows([(source, target, label, 1) for source, label, target in edges])
    return engine.answers().pairs()


@pytest.mark.ci
@pytest.mark.parametrize("expression", [named_queries.TEMPLATES["Q7"], "a/^b*", "!a/b", "^(a|b)+"])
def test_the_search_finds_the_engines_answers(expression):
    for seed in range(5):
        edges = random_edges(seed)
        search = ProductSearch(expression)
        search.change(edges, [])
        wanted = engine_pairs(expression, edges)
        assert search.pairs() == wanted and search.count() == len(wanted)
        gone = edges[::2]
        search.change([], gone)
        assert search.pairs() == engine_pairs(expression, [edge for edge in edges if edge not in gone])


@pytest.mark.parametrize("name", ["Q1", "Q4", "Q9"])
def test_the_store_finds_the_engines_answers_and_zero_length_ones(name):
    pytest.importorskip("pyoxigraph")
    from rpq.workloads.baselines.reevaluation import SparqlStore

    for seed in range(2):
        edges = random_edges(seed, 12)
        store = SparqlStore(named_queries.TEMPLATES[name], ("a", "b", "c"))
        store.change(edges, [])
        pairs = store.pairs()
        wanted = engine_pairs(named_queries.TEMPLATES[name], edges)
        query = rpq.Query(named_queries.TEMPLATES[name], window=rpq.Window(size=1, slide=1))
        assert store.count() == len(pairs)
        if query.dfa.accepts_empty:
            vertices = {end for source, _, target in edges for end in (source, target)}
            assert pairs == wanted | {(vertex, vertex) for vertex in vertices}
        else:
            assert pairs == wanted


@pytest.mark.ci
@pytest.mark.parametrize("name", named_queries.TEMPLATES)
def test_the_published_algorithm_reports_the_engines_rows(name):
    """With few vertices, so that nodes are cut and hung on again, records grow and return, and deletes meet edges."""
    chance = random.Random(name)
    for vertices, tuples, size, slide in ((4, 300, 9, 3), (7, 300, 20, 1), (60, 3000, 40, 7)):
        window = rpq.Window(size=size, slide=slide)
        times = sorted(chance.randrange(-20, tuples // 3) for _ in range(tuples))
        columns = {
            "source": [chance.randrange(vertices) for _ in times],
            "target": [chance.randrange(vertices) for _ in times],
            "label": [chance.choice("abcd") for _ in times],
            "timestamp": times,
            "delete": [chance.random() < 0.1 for _ in times],
        }
        table = pa.table(columns)
        engine = rpq.Engine(rpq.Query(named_queries.TEMPLATES[name], window=window))
        numbered, count, labels = numbered_columns(table)
        trees = SpanningTrees(named_queries.TEMPLATES[name], window, vertices=count, labels=labels, tuples=tuples)
        done = 0
        while done < tuples:
            size = chance.randrange(1, 40)
            wanted = engine.push(table.slice(done, size), collect=False)
            before, lost = trees.pairs, trees.lost
            trees.push(*(column[done : done + size] for column in numbered))
            assert (trees.pairs - before, trees.lost - lost) == (wanted.added, wanted.removed)
            done += size
        assert trees.nodes >= len(engine.answers().pairs()) / len(engine.queries[0].dfa.accepting)


@examples(300)
@given(
    st.sampled_from([*named_queries.TEMPLATES.values(), "(a/b)+", "!a/b*", "a?/(b|c){2}"]),
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.tuples(STEPS, *[st.integers(0, 4)] * 2, st.sampled_from("aabbcd"), st.sampled_from("+++-")), max_size=40),
)
def test_the_readable_algorithm_has_the_rows_of_the_oracle(expression, size, slide, tuples):
    oracle = ReferenceEngine(ReferenceQuery(name="q", expression=expression, size=size, slide=slide))
    algorithm = RAPQ(expression, rpq.Window(size=size, slide=slide))
    oracle.advance(0)
    for step, source, target, label, op in tuples:
        timestamp = oracle.time + step
        wanted = oracle.push(source, target, label, timestamp, op)
        algorithm.advance(oracle.time)
        change = algorithm.insert if op == "+" else algorithm.delete
        rows = change(source, target, label, timestamp)
        assert sorted(rows) == sorted((row.source, row.target) for row in wanted)
        assert {row.op for row in wanted} <= {op}
        nodes = {(x, v) for x, tree in algorithm.trees.items() for v, t in tree if t >= 0 and algorithm.dfa.accepting[t]}
        assert nodes == oracle.answers()


def test_the_readable_algorithm_refuses_inverse_steps():
    with pytest.raises(ValueError, match="inverse"):
        RAPQ("a/^b", rpq.Window(size=1, slide=1))


@pytest.mark.parametrize(("as_published", "found"), [(True, 0), (False, 1)])
def test_the_published_algorithm_of_simple_paths_misses_a_pair_behind_a_cycle(as_published, found):
    """(r, x) by r -a-> w -b-> v -c-> x; the cycle between v and w leaves a mark at w, where this path is pruned."""
    stream = [("r", "a", "x"), ("x", "b", "v"), ("v", "b", "w"), ("w", "b", "v"), ("v", "c", "x"), ("r", "a", "w")]
    window = rpq.Window(size=100, slide=100)
    engine = rpq.Engine(rpq.Query("a/b*/c", window=window, paths="simple"))
    trees = SimpleTrees("a/b*/c", window, vertices=4, labels=["a", "b", "c"], tuples=6, as_published=as_published)
    for place, (source, label, target) in enumerate(stream):
        engine.insert(source, target, label, place)
        ends = ("rxvw".index(source), "rxvw".index(target))
        trees.push(*(np.array([number]) for number in (*ends, "abc".index(label), place)))
    assert engine.answers().pairs() == {("r", "x")}
    assert trees.pairs == found


def test_the_published_algorithm_of_simple_paths_ends_after_its_steps_and_refuses_deletes():
    trees = SimpleTrees("a+", rpq.Window(size=9, slide=3), vertices=2, labels=["a"], tuples=2)
    one = np.array([0])
    trees.push(one, one + 1, one, one)
    with pytest.raises(ValueError, match="deletes"):
        trees.push(one, one + 1, one, one, np.array([True]))
    trees.push(one + 1, one, one, one, steps=1)
    assert trees.is_exhausted


def test_the_window_is_the_engines():
    chance = random.Random(4)
    window = rpq.Window(size=13, slide=4)
    edges, engine = InsertedEdges(window), rpq.Engine(rpq.Query("!(none)", window=window))
    time = -20
    present: set[tuple[str, str, str]] = set()
    for _ in range(400):
        time += chance.choice((0, 0, 1, 1, 2, 9))
        (edge,) = random_edges(chance.randrange(50), 1)
        is_new, left = edges.insert(edge, time)
        assert is_new == (edge not in present - {*left})
        present = (present - {*left}) | {edge}
        engine.insert(edge[0], edge[2], edge[1], time)
        assert {*edges} == present and engine.statistics().edges_live == len(edges)


@pytest.mark.ci
def test_a_baseline_is_ended_when_its_time_is_up():
    with BaselineProcess(partial(ProductSearch, "a/b*")) as search:
        search.change([("x", "a", "y")], [])
        assert search.evaluate([("y", "b", "z")], [], seconds=60) > 0
        assert search.pairs(seconds=60) == {("x", "y"), ("x", "z")}
    with BaselineProcess(partial(ProductSearch, "a/b*")) as search:
        started = time.perf_counter()
        with pytest.raises(TimeIsUpError, match=r"not done in 0\.001 s"):
            search.evaluate([], [], seconds=0.001)
        assert time.perf_counter() - started < 20
