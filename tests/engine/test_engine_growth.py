"""Everything that grows, wraps, saturates, is used again or is given back: reached on purpose, and seen to be.

semantics.md S3, S10
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rpq
from tests.calls import counted_calls
from tests.reference import evaluate
from tests.twins import Twins, collect, search, tiny


def query(expression: str, size: int = 100, slide: int = 1, **options) -> rpq.Query:
    return rpq.Query(expression, window=rpq.Window(size=size, slide=slide), name="q", **options)


class Window:
    """The edges that the window of a query holds, kept in the plainest way."""

    def __init__(self, question: rpq.Query) -> None:
        self.query = question
        self.time = -(2**63)
        self.edges: dict[tuple, int] = {}

    def push(self, tuples) -> None:
        bound = -(2**70)
        for source, target, label, timestamp, op in tuples:
            if timestamp > self.time:
                self.time = timestamp
                bound = self.query.window.lower_bound(self.time)
                self.edges = {edge: ts for edge, ts in self.edges.items() if ts > bound}
            bound = self.query.window.lower_bound(self.time)
            edge = (source, label, target)
            if op == "-":
                self.edges.pop(edge, None)
            elif timestamp > bound:
                self.edges[edge] = max(timestamp, self.edges.get(edge, timestamp))

    def answers(self) -> set:
        return search(self.query, self.edges)


def random_tuples(
    chance: random.Random, count: int, vertices: int, *, labels: str = "ab", deletes: float = 0.2, pace: int = 4
):
    """Tuples of which some are late or out of order, and some delete an edge that was inserted before."""
    inserted: list[tuple] = []
    for number in range(count):
        time = number // pace + chance.choice((0, 0, 0, 0, -1, -3, -40))
        if inserted and chance.random() < deletes:
            yield (*chance.choice(inserted), time, "-")
        else:
            edge = (chance.randrange(vertices), chance.randrange(vertices), chance.choice(labels))
            inserted.append(edge)
            yield (*edge, time, "+")


# --- what kernels ask for ---------------------------------------------------------------------------------


def test_much_comes_in_little_room() -> None:
    question = query("a/b*", size=20, slide=3, semantics="explicit")
    window = Window(question)
    plain, telling = tiny(2)(question), tiny(2)(question, threads=2, witness=True)
    tuples = list(random_tuples(random.Random(1), 4000, 2000, pace=100))
    for begin in range(0, len(tuples), 197):
        batch = tuples[begin : begin + 197]
        window.push(batch)
        rows = plain.push_rows(batch).rows()
        assert rows == sorted(rows, key=lambda r: r.timestamp)
        assert Counter(telling.push_rows(batch).rows()) == Counter(rows)
        assert plain.answers().pairs() == telling.answers().pairs() == window.answers()
    for engine in (plain, telling):
        engine._check()


# --- many roots: blocks and directories -----------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize("expression", ["a/b*", "(a/b)+"])
def test_hundreds_of_roots(expression: str) -> None:
    question = query(expression, size=30, slide=4, semantics="explicit")
    engine = tiny(8)(question)
    window = Window(question)
    answers: set = set()
    chance = random.Random(expression)
    tuples = list(random_tuples(chance, 2400, 400, deletes=0.1, pace=40))
    for begin in range(0, len(tuples), 300):
        batch = tuples[begin : begin + 300]
        window.push(batch)
        for change in engine.push_rows(batch):
            assert ((change.source, change.target) in answers) == (change.op == "-")
            answers ^= {(change.source, change.target)}
        assert engine.answers().pairs() == window.answers() == answers
    engine._check()


@pytest.mark.ci
@pytest.mark.parametrize("expression", ["a*/b*", "(a|^b)+"])
def test_dense_graphs(expression: str) -> None:
    question = query(expression, size=60, slide=7)
    engine, window = tiny(8)(question, threads=2), Window(question)
    tuples = list(random_tuples(random.Random(expression), 3000, 80, deletes=0.3, pace=12))
    window.push(tuples)
    engine.push_rows(tuples)
    assert engine.answers().pairs() == window.answers() == evaluate(expression, window.edges)
    engine._check()


def test_room_ahead_does_not_exceed_the_memory_limit() -> None:
    """A push needs little more memory than its edges, although it has many tuples that bring nothing new."""
    engine = rpq.Engine(_UNBOUNDED, memory_limit=12_000_000)
    engine.push(_repeated(20_000, times=10))
    assert engine.statistics().edges_live == 20_000


_UNBOUNDED = rpq.Query("?x a ?y . ?x b ?z", window=rpq.UnboundedWindow(), name="q")


def _repeated(count: int, *, times: int) -> pa.RecordBatch:
    """Return `_new_vertices(count)`, followed by the same edges again and again, one a moment."""
    new = _new_vertices(count)
    places = np.tile(np.arange(count), times)
    return new.take(pa.array(places)).set_column(3, "timestamp", pa.array(np.arange(len(places))))


def _new_vertices(count: int) -> pa.RecordBatch:
    """Return tuples whose vertices are all different, one a moment."""
    names = pa.array([f"x{number}" for number in range(2 * count)])
    labels = pa.array(["a", "b"] * (count // 2))
    columns = {"source": names[:count], "target": names[count:], "label": labels, "timestamp": np.arange(count)}
    return pa.record_batch(columns)


def test_slots_rows_and_vertices_are_used_again() -> None:
    question = query("a/b*", size=10, slide=1)
    engine, window = tiny(4)(question), Window(question)
    sizes = []
    for turn in range(60):
        first = turn * 50
        batch = [(first + i, first + i + 1, "ab"[i % 2], turn * 5, "+") for i in range(40)]
        batch.append((first, first + 1, "a", turn * 5, "-"))
        engine.push_rows(batch)
        window.push(batch)
        collect(engine)
        sizes.append((engine.statistics().index_bytes, engine.statistics().vertices_live))
        assert engine.answers().pairs() == window.answers()
    engine._check()
    assert sizes[-1] == sizes[10]


# --- cells -----------------------------------------------------------------------------------------------------


def cell_tuples(chance: random.Random, count: int, step: int):
    time = 0
    for _ in range(count):
        time += chance.choice((0, 0, 0, 1, 1, step // 9, step // 3, step))
        op = chance.choice("++++-")
        late = chance.choice((0, 0, step // 5, step, 2 * step))
        yield (chance.randrange(6), chance.randrange(6), chance.choice("ab"), time - late, op)


@pytest.mark.parametrize(
    "size",
    # Kernels for the wide cells of the last two are compiled for these tests alone.
    [248, 300, pytest.param(70_000, marks=pytest.mark.long), pytest.param(2**62, marks=pytest.mark.long)],
)
def test_windows_of_many_slides(size: int) -> None:
    twins = Twins(query("a/b*", size=size, semantics="explicit"), capacity=4)
    tuples = list(cell_tuples(random.Random(size), 240, min(size // 2, 2**40)))
    for begin in range(0, len(tuples), 8):
        twins.push(tuples[begin : begin + 8])
        twins.check()


def test_a_window_of_too_many_slides() -> None:
    with pytest.raises(rpq.QueryError, match="too many slides"):
        rpq.Engine(query("a", size=2**63 - 1, slide=1))


@pytest.mark.parametrize(("size", "pace"), [(100, 3), (300, 250)])
def test_the_base_of_the_cells_moves_with_what_is_alive(size: int, pace: int) -> None:
    twins = Twins(query("a/b*", size=size, semantics="explicit"), capacity=4)
    chance = random.Random(size)
    time = 0
    for turn in range(500 if size < 250 else 1100):
        time += chance.randrange(pace + 1)
        batch = [(chance.randrange(3), chance.randrange(3), chance.choice("aab"), time, chance.choice("+++-"))]
        twins.push(batch)
        if turn % 50 == 0:
            twins.check()


@pytest.mark.parametrize("time", [2**63 - 101, -(2**63) + 1])
def test_the_ends_of_time(time: int) -> None:
    twins = Twins(
        query("a/b*", size=100, slide=7, semantics="explicit"), rpq.Query("b", window=rpq.Window(size=3, slide=2**60))
    )
    twins.push(
        [("x", "y", "a", time - 1 if time > 0 else time, "+"), ("y", "z", "b", time, "+"), ("x", "y", "a", time, "-")]
    )
    twins.check()
    for step in (1, 50, 60, 200):
        if time + step <= 2**63 - 1 - 100:
            twins.push([("x", "y", "a", time + step, "+")])
            twins.check()
    twins.register(rpq.Query("b*", window=rpq.Window(size=60, slide=1), name="late"), "window")
    twins.check()


def test_from_one_end_of_time_to_the_other() -> None:
    for semantics in ("implicit", "explicit"):
        twins = Twins(query("a/b*", size=300, slide=1, semantics=semantics))
        twins.push([("x", "y", "a", -(2**63) + 1, "+"), ("y", "z", "b", -(2**63) + 1, "+")])
        twins.push([("x", "y", "a", 2**63 - 301, "+"), ("y", "w", "b", 2**63 - 301, "+")])
        twins.check()


# --- hop counts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 254, 256])
def test_a_chain_longer_than_hops_count(cut: int) -> None:
    #   0 --a--> 1 --a--> ... --a--> 400      in one slide; one edge goes
    question = query("a+", sources=[0, 100, 300])
    engine = tiny(16)(question, witness=True)
    engine.push_rows([(i, i + 1, "a", 1) for i in range(400)])
    path = engine.witness(0, 400)
    assert path is not None and path.vertices == tuple(range(401))
    rows = engine.delete(cut, cut + 1, "a", 1).rows()
    expected = {(x, y) for x in (0, 100, 300) for y in range(x + 1, 401) if y <= cut or x > cut}
    assert engine.answers().pairs() == expected
    assert len(rows) == 400 + 300 + 100 - len(expected)
    assert all(row.op == "-" for row in rows)
    engine._check()
    engine.insert(cut, cut + 1, "a", 1)
    assert len(engine.answers()) == 800
    engine._check()


def test_a_detour_replaces_a_long_chain() -> None:
    #   0 --a--> 1 ... --a--> 300 --a--> 301 ... 310     0 --a--> 300 of the same slide, added, then deleted again
    engine = tiny(16)(query("a+", sources=[0]), witness=True)
    engine.push_rows([(i, i + 1, "a", 1) for i in range(310)])
    engine.insert(0, 300, "a", 1)
    engine._check()
    assert engine.delete(299, 300, "a", 1).rows() == []
    engine._check()
    assert len(engine.delete(0, 300, "a", 1)) == 11
    engine._check()


@pytest.mark.parametrize("length", [255, 320])
def test_long_cycles(length: int) -> None:
    edges = [(i, (i + 1) % length, "a", 1) for i in range(length)]
    engine = tiny(16)(query("a+", sources=[0, 7]), witness=True)
    engine.push_rows(edges)
    assert engine.answers().pairs() == {(x, y) for x in (0, 7) for y in range(length)}
    engine.delete(length // 2, length // 2 + 1, "a", 1)
    assert engine.answers().pairs() == {(x, y) for x in (0, 7) for y in range(x + 1, length // 2 + 1)}
    engine._check()
    # Without its way in, a cycle must not hold itself up.
    engine.insert(-1, 100, "a", 1)
    engine.insert(length // 2, length // 2 + 1, "a", 1)
    engine._check()
    engine.push_rows([(0, 1, "a", 1, "-"), (7, 8, "a", 1, "-")])
    assert engine.answers().pairs() == search(
        query("a+", sources=[0, 7]), {(u, "a", v) for u, v, *_ in edges if u not in (0, 7)} | {(-1, "a", 100)}
    )
    engine._check()


def test_a_saturated_cycle_without_its_way_in() -> None:
    #   root --a--> 0 --b--> 1 ... --b--> 299 --b--> 0       the only edge from the root goes
    engine = tiny(16)(query("a/b*"))
    engine.push_rows([(-1, 0, "a", 1), *((i, (i + 1) % 300, "b", 1) for i in range(300))])
    assert len(engine.answers()) == 300
    assert len(engine.delete(-1, 0, "a", 1)) == 300
    assert len(engine.answers()) == 0
    engine._check()
    all_pairs = tiny(16)(query("b+"))
    all_pairs.push_rows([(i, (i + 1) % 300, "b", 1) for i in range(300)])
    assert len(all_pairs.answers()) == 300 * 300
    assert len(all_pairs.delete(17, 18, "b", 1)) == 300 * 300 - 300 * 299 // 2


# --- many automata -------------------------------------------------------------------------------------------------


# --- memory follows the window --------------------------------------------------------------------------------------

STREAM = textwrap.dedent(
    """
    import json, resource, sys
    import rpq

    batches = int(sys.argv[1])
    engine = rpq.Engine(
        rpq.Query("a/b*", window=rpq.Window(size=20, slide=1), name="q", semantics="explicit"), threads=1
    )
    for turn in range(batches):
        first = turn * 500
        rows = [(f"v{first + i}", f"v{first + i + 1}", "ab"[i % 3 > 0], turn, "+") for i in range(500)]
        rows += [(f"v{first + i}", f"v{first + i + 1}", "ab"[i % 3 > 0], turn, "-") for i in range(0, 500, 7)]
        engine.push_rows(rows)
    print(json.dumps({
        "vertices": engine.statistics().vertices_live,
        "edges": engine.statistics().edges_live,
        "index": engine.statistics().index_bytes,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }))
    """
)


def sizes(batches: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", STREAM, str(batches)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return json.loads(done.stdout)


@pytest.mark.ci
def test_memory_follows_the_window() -> None:
    short, long = sizes(100), sizes(1000)
    assert all(long[name] <= 1.1 * short[name] for name in short), (short, long)


PEAK = textwrap.dedent(
    """
    import gc, random, sys
    import rpq
    from rpq.compiled.arrays import reserve
    from rpq.engine.machine_memory import peak_memory_bytes
    case, limit = sys.argv[1], int(sys.argv[2])
    chance = random.Random(1)
    step = 500
    ring = "MATCH (x)-[e:t]->(y)-[f:t]->(z)-[g:t]->(x) WHERE f.amount < e.amount AND g.amount < f.amount RETURN "
    text = ring + "x, e.amount, f.amount, g.amount" if case == "matches" else "a+"

    def run():
        engine = rpq.Engine(
            rpq.Query(text, window=rpq.Window(size=10**6, slide=10), name="q"),
            edges="triple" if text == "a+" else "parallel",
            memory_limit=limit,
            max_rows=5_000 if case == "rows" else None,
        )
        for first in range(0, 20_000, step):
            names = range(first, first + step)
            times = [*names]
            if text == "a+":
                ends = [i + 1 for i in names]
                if case == "rows" and first == 4_000:
                    ends[0] = 0  # sixteen million pairs
                tuples = {"source": [*names], "target": ends, "label": ["a"] * step}
            else:
                source, target = ([0 if chance.random() < 0.4 else chance.randrange(200) for _ in names] for _ in range(2))
                amount = [chance.randrange(1000) for _ in names]
                tuples = {"source": source, "target": target, "label": ["t"] * step, "amount": amount}
            try:
                engine.push(tuples | {"timestamp": times})
            except rpq.errors.LimitError as error:
                return type(error).__name__

    run()  # which compiles the kernels
    gc.collect()
    reserve.rows.release_free()
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    idle = peak_memory_bytes()
    print(run(), peak_memory_bytes() - idle)
    """
)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is that of Linux, which can reset it")
@pytest.mark.parametrize("case", ["pairs", "rows", "matches", "groups"])
def test_the_process_stays_within_the_memory_limit(case: str) -> None:
    limit = 200 << 20
    done = subprocess.run(
        [sys.executable, "-c", PEAK, case, str(limit)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    error, peak = done.stdout.split()
    assert error == ("RowLimitError" if case == "rows" else "MemoryLimitError")
    assert 0.3 * limit < int(peak) <= 1.15 * limit


def test_thousands_of_queries_are_not_slower_than_as_many_engines():
    """A growing index once looked at all others: 143 seconds for what takes three."""
    window = rpq.Window(size=100, slide=10)
    rows = [(n % 17, (n * 7) % 19, "abc"[n % 3], n // 10) for n in range(300)]

    def work(count: int) -> int:
        engine = rpq.Engine(*(rpq.Query(f"{'abc'[i % 3]}/b*", name=f"q{i}", window=window) for i in range(count)))
        with counted_calls() as calls:
            engine.push_rows(rows)
        return calls.count

    work(1)  # what happens once
    few, many = (work(count) for count in (50, 400))
    assert many < 1.2 * 8 * few
