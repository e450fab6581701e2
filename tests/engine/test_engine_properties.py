"""Properties that must not change the result stream: batches, threads, restoring, the order of queries, shares.

semantics.md S7
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import Tuple, chunk_sizes, examples, tiny

SEEDS = st.integers(0, 2**32)
Row = tuple  # query, source, target, timestamp, op


def queries(restricted: bool = False) -> list[rpq.Query]:
    ends = frozenset(range(5)) if restricted else None
    return [
        rpq.Query("a/b*", window=rpq.Window(size=20, slide=3), name="p", semantics="explicit"),
        rpq.Query("(a|^b)+", window=rpq.Window(size=7, slide=7), name="q", semantics="implicit", sources=ends),
        rpq.Query("!a/b", window=rpq.Window(size=40, slide=1), name="r", semantics="explicit", targets=ends),
    ]


def stream(seed: int, count: int = 120, vertices: int = 9, labels: str = "aabbc") -> list[Tuple]:
    """Tuples of every kind; some jumps empty every window."""
    chance = random.Random(seed)
    tuples: list[Tuple] = []
    time = chance.choice((0, -500, 10**12))
    for _ in range(count):
        time += chance.choice((0,) * 6 + (1, 1, 2, 5, 60))
        late = chance.choice((0,) * 8 + (1, 4, 30))
        if tuples and chance.random() < 0.2:
            source, target, label, *_ = chance.choice(tuples[-30:])
            op = "-"
        else:
            source, target, label = chance.randrange(vertices), chance.randrange(vertices), chance.choice(labels)
            op = "+"
        tuples.append((source, target, label, time - late, op))
    return tuples


def cut(tuples: Sequence[Tuple], chance: random.Random, pieces: int) -> list[Sequence[Tuple]]:
    places = sorted(chance.randrange(len(tuples) + 1) for _ in range(pieces - 1))
    return [tuples[begin:end] for begin, end in zip([0, *places], [*places, len(tuples)], strict=True)]


def in_time_order(rows: Sequence[Row]) -> dict[int, Counter[Row]]:
    """The rows of every timestamp; asserts that the timestamps are in order."""
    times = [row[3] for row in rows]
    assert times == sorted(times)
    grouped: dict[int, Counter[Row]] = {}
    for row in rows:
        grouped.setdefault(row[3], Counter())[row] += 1
    return grouped


def by_tuple(questions: Sequence[rpq.Query], tuples: Sequence[Tuple]) -> list[Row]:
    """The rows of an engine that gets one tuple at a time."""
    engine = rpq.Engine(*questions)
    return [tuple(row) for one in tuples for row in engine.push_rows([one])]


def same_moments(rows: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Return whether two streams differ only in the order within a timestamp, and change each pair in the same order."""

    def of_pairs(stream: Sequence[Row]) -> dict[tuple, list[tuple]]:
        changes: dict[tuple, list[tuple]] = {}
        for query, source, target, timestamp, op in stream:
            changes.setdefault((query, source, target), []).append((timestamp, op))
        return changes

    return in_time_order(rows) == in_time_order(expected) and of_pairs(rows) == of_pairs(expected)


@examples(25)
@given(SEEDS, st.integers(1, 9), st.sampled_from((2, 5, 16)))
def test_batches_are_invisible(seed: int, pieces: int, capacity: int) -> None:
    tuples = stream(seed)
    engine = tiny(capacity)(*queries())
    rows = [tuple(row) for batch in cut(tuples, random.Random(seed), pieces) for row in engine.push_rows(batch)]
    assert same_moments(rows, by_tuple(queries(), tuples))


@pytest.mark.parametrize("threads", [3])
@examples(15)
@given(seed=SEEDS)
def test_threads_are_invisible(threads: int, seed: int) -> None:
    tuples = stream(seed)
    one, several = tiny(4)(*queries(True)), tiny(4)(*queries(True), threads=threads)
    for batch in cut(tuples, random.Random(seed), 4):
        rows, threaded = one.push_rows(batch), several.push_rows(batch)
        assert same_moments(list(threaded), list(rows))
        assert (threaded.added, threaded.removed) == (rows.added, rows.removed)
        assert threaded.late_rows.tolist() == rows.late_rows.tolist()
    for name in "pqr":
        assert several.answers(name).pairs() == one.answers(name).pairs()


_STAR = "?x a ?y . ?x b ?z"


def test_names_of_the_next_chunk_get_ids_while_one_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes of many chunks, in which names and labels come and go: no id of the next chunk is given up meanwhile."""
    monkeypatch.setattr("rpq.engine.running.evaluation._LARGEST_CHUNK", 7)
    monkeypatch.setattr("rpq.engine.running.evaluation._SMALLEST_CHUNK", 5)
    labels = [f"d{i // 4}" if i % 4 == 3 else "abc"[i % 4] for i in range(1_200)]
    tuples = [
        (f"v{i // 3}", f"w{i * i % 11 + i // 60}", label, i // 4, "+-"[i % 13 == 12]) for i, label in enumerate(labels)
    ]
    query = rpq.Query(_STAR, window=rpq.Window(size=5, slide=2), semantics="explicit", name="q")
    path = rpq.Query("a/!(b)*", window=rpq.Window(size=5, slide=2), semantics="explicit", name="path")
    whole, parts = tiny(4)(query, path), tiny(4)(query, path, threads=2)
    for begin in range(0, len(tuples), 400):
        some = tuples[begin : begin + 400]
        assert Counter(parts.push_rows(some).rows()) == Counter(whole.push_rows(some).rows())
        parts._check()
    assert parts.statistics().vertices_live < 200 < len({name for row in tuples for name in row[:2]})


@examples(15)
@given(SEEDS, st.integers(1, 6), st.booleans())
def test_restoring_is_invisible(seed: int, pieces: int, texts: bool) -> None:
    tuples = stream(seed)
    if texts:
        tuples = [(f"ü{source}", " " if target == 3 else f"0{target}", *rest) for source, target, *rest in tuples]
    chance = random.Random(seed)
    questions = queries(restricted=not texts)
    engine: rpq.Engine = tiny(4)(*questions, threads=chance.randrange(1, 3))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.arrow"
        for batch in cut(tuples, chance, pieces):
            rows += [tuple(row) for row in engine.push_rows(batch)]
            before = engine.statistics()
            engine.save(path, extra={"place": str(len(rows))})
            engine = tiny(4).restore(path, threads=chance.randrange(1, 4))
            assert engine.extra == {"place": str(len(rows))}
            assert engine.queries == tuple(questions)
            after = engine.statistics()
            for name in ("tuples", "late", "irrelevant", "rows_added", "rows_removed", "answers_live", "edges_live"):
                assert getattr(after, name) == getattr(before, name)
            engine._check()
    assert same_moments(rows, by_tuple(questions, tuples))


@examples(10)
@given(SEEDS)
def test_the_order_of_queries_and_their_company_are_invisible(seed: int) -> None:
    tuples = stream(seed)
    together = rpq.Engine(*queries()[::-1]).push_rows(tuples)
    assert same_moments(list(together), by_tuple(queries(), tuples))
    for query in queries():
        alone = list(rpq.Engine(query).push_rows(tuples))
        assert same_moments(alone, [row for row in together if row.query == query.name])


@examples(10)
@given(SEEDS, st.integers(2, 4), st.data())
def test_shares_make_the_whole(seed: int, count: int, data: st.DataObject) -> None:
    tuples = stream(seed)
    rows: list[Row] = []
    roots: list[set] = []
    for number in range(count):
        # Workers need not have the same number of threads.
        engine = tiny(4)(*queries(True), share=(number, count), threads=data.draw(st.sampled_from((1, 2))))
        part = list(engine.push_rows(tuples))
        # The roots of the query for few targets are these.
        roots.append({(row.query, row.target if row.query == "r" else row.source) for row in part})
        rows += part
        assert engine.statistics().tuples == len(tuples)
    assert all(not one & other for i, one in enumerate(roots) for other in roots[:i])
    rows.sort(key=lambda row: row[3])
    whole = list(rpq.Engine(*queries(True)).push_rows(tuples))
    assert in_time_order(rows) == in_time_order(whole)


def test_a_restored_share_answers_for_the_same_roots(tmp_path: Path) -> None:
    tuples = stream(5, count=300, vertices=40)
    expected = list(rpq.Engine(*queries(), share=(1, 3)).push_rows(tuples))
    engine = rpq.Engine(*queries(), share=(1, 3), threads=2)
    rows = list(engine.push_rows(tuples[:150]))
    engine.save(tmp_path / "state")
    rows += rpq.Engine.restore(tmp_path / "state", threads=3).push_rows(tuples[150:])
    assert same_moments(rows, expected)


def test_chunks_are_invisible() -> None:
    # A push is applied in chunks, between which the engine collects: here more than ten.
    tuples = stream(3, count=6_000, vertices=300)
    whole = rpq.Engine(*queries()).push_rows(tuples)
    engine = rpq.Engine(*queries())
    parts = [row for begin in range(0, len(tuples), 777) for row in engine.push_rows(tuples[begin : begin + 777])]
    assert same_moments(list(whole), parts)
    assert (whole.added, whole.removed) == (sum(r.op == "+" for r in parts), sum(r.op == "-" for r in parts))
    counted = rpq.Engine(*queries()).push_rows(tuples, collect=False)
    assert (counted.added, counted.removed) == (whole.added, whole.removed)
    assert counted.late_rows.tolist() == whole.late_rows.tolist() != []
    assert counted.rows() == []


@pytest.mark.parametrize(
    ("text", "are_large"),
    [("a", True), ("a+", False), ("SELECT (COUNT(*) AS ?n) { ?x <a>/<b>* ?y }", False)],
    ids=["few rows", "many rows", "rows that no query reports"],
)
def test_chunks_grow_while_paths_have_few_rows(text: str, are_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpq.engine.running.evaluation._LARGEST_CHUNK", 400)
    monkeypatch.setattr("rpq.engine.running.evaluation._SMALLEST_CHUNK", 100)
    sizes = chunk_sizes(monkeypatch)
    tuples = [(number, number + 1, "a", number) for number in range(1_000)]
    tiny(4)(rpq.Query(text, window=rpq.Window(size=20, slide=1), name="q")).push_rows(tuples)
    assert sizes == ([100, 400, 400, 100] if are_large else [100] * 10)


def test_a_slice_of_a_table_is_what_it_shows() -> None:
    tuples = stream(4, count=200)
    names = ("source", "target", "label", "timestamp", "op")
    table = pa.table({name: [str(t[i]) if i < 2 else t[i] for t in tuples] for i, name in enumerate(names)})
    rows = rpq.Engine(*queries()).push(table).rows()
    engine = rpq.Engine(*queries())
    cuts = (0, 1, 33, 34, 120, 200)
    sliced = [row for begin, end in itertools.pairwise(cuts) for row in engine.push(table[begin:end])]
    assert same_moments(sliced, rows)
    chunked = pa.concat_tables([table[begin:end] for begin, end in itertools.pairwise(cuts)])
    coded = chunked.set_column(2, "label", chunked["label"].dictionary_encode())
    coded = coded.set_column(0, "source", coded["source"].cast(pa.large_string()))
    coded = coded.set_column(1, "target", coded["target"].dictionary_encode())
    assert same_moments(rpq.Engine(*queries()).push(coded).rows(), rows)
