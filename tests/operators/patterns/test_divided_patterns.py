"""Patterns that the threads of one engine divide: rows, answers, counts and witnesses are those of one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from rpq.operators.patterns import pattern_host
from rpq.operators.patterns.divided_query import DividedQuery
from tests.operators.patterns.pattern_twins import PatternTwins, long_streams, query_of, questions, streams
from tests.stream.test_events import columns_of, in_events, over_windows
from tests.twins import examples, tiny

pytestmark = pytest.mark.filterwarnings("ignore::rpq.errors.ThreadsWarning")

W = rpq.Window(size=20, slide=3)
STAR, CHAIN = "?x a ?y . ?x b ?z", "?x a ?y . ?y b ?z . ?z c ?w"
TUPLES = [(f"v{i * i % 7}", f"v{i * 3 % 5}", "abc"[i % 3], i // 4, "+-"[i % 13 == 12]) for i in range(400)]


@pytest.fixture(autouse=True)
def _divide_at_once() -> Iterator[None]:
    """Every pattern that can be divided is, after its first chunk at the latest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pattern_host, "WORTH_DIVIDING", 0.0)
        yield


def lanes_of(engine: rpq.Engine) -> int:
    """Return how many threads divide the only query."""
    (running,) = engine._evaluation.running
    return len(running.lanes) if isinstance(running, DividedQuery) else 1


@examples(80)
@given(over_windows("q"), streams, st.integers(2, 6), st.integers(1, 20), st.integers(2, 3))
def test_rows_answers_and_counts(question, tuples, size, ahead, threads):
    twins = PatternTwins(question, threads=threads)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.advance(twins.engine.time + ahead)
    event(f"threads: {lanes_of(twins.engine)}")


@examples(60)
@given(st.data(), over_windows("one"), over_windows("two"), streams, st.integers(2, 3))
def test_everything_that_can_happen(data, one, two, tuples, threads):
    """Queries come and go, the engine is saved, and restored with another number of threads; in any order."""
    twins = PatternTwins(one, threads=threads)
    twins.live_through(data.draw, [one, two], tuples)


@examples(30)
@given(questions("one"), questions("two"), long_streams, st.integers(2, 3))
def test_beside_other_queries(one, two, tuples, threads):
    twins = PatternTwins(one, two, threads=threads)
    for begin in range(0, len(tuples), 7):
        twins.push(tuples[begin : begin + 7])
    twins.unregister("two")
    twins.save_and_restore(threads=1)


@examples(60)
@given(questions(paths=False), streams, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(2, 3))
def test_rows_are_net_of_events_whichever_thread_they_come_from(question, tuples, lengths, threads):
    """A solution may enter in one thread and leave in another within one event."""
    engines = [tiny(2)(query_of(question), events="window", threads=count) for count in (1, threads)]
    events = in_events(tuples, lengths)
    for begin in range(0, len(events), 3):
        columns = columns_of(events[begin : begin + 3], streams=False)
        expected, found = [Counter(engine.push(columns).rows()) for engine in engines]
        assert found == expected
        assert Counter(engines[1].answers()) == Counter(engines[0].answers())
    counts = [(figures.rows_added, figures.rows_removed) for figures in (engine.statistics() for engine in engines)]
    assert counts[0] == counts[1]
    event(f"threads: {lanes_of(engines[1])}")


def test_a_row_that_enters_and_leaves_in_one_event_is_no_row_whichever_threads_bring_it():
    engine = tiny(2)(rpq.Query(CHAIN, window=W, semantics="explicit", name="q"), events="window", threads=2)
    engine.push_rows(TUPLES[:100])
    assert lanes_of(engine) == 2
    engine.push_rows([edge for i in range(20) for edge in ((f"y{i}", f"z{i}", "b", 30), (f"z{i}", f"w{i}", "c", 30))])
    for i in range(20):
        columns = {"source": [f"x{i}", f"z{i}"], "target": [f"y{i}", f"w{i}"], "label": ["a", "c"], "timestamp": [30, 30]}
        assert engine.push({**columns, "op": ["+", "-"]}, event=True).rows() == []


@examples(40)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 2, st.sampled_from("abc"), st.integers(0, 9)), min_size=8, max_size=40))
def test_edges_that_move_take_their_rows_along(moves):
    """An edge with an id leaves and enters in one event: of two edges, which may belong to two threads."""
    query = rpq.Query(CHAIN, window=W, semantics="explicit", name="q")
    whole, parts = tiny(2)(query, edges="id"), tiny(2)(query, edges="id", threads=2)
    for begin in range(0, len(moves), 10):
        source, target, label, edge = map(list, zip(*moves[begin : begin + 10], strict=True))
        columns = {"source": source, "target": target, "label": label, "edge": edge, "timestamp": [begin] * len(edge)}
        assert Counter(parts.push(columns).rows()) == Counter(whole.push(columns).rows())
    assert lanes_of(parts) == 2


@pytest.mark.parametrize(
    ("pattern", "options", "by"),
    [
        (STAR, {}, "the values of ?x"),
        (CHAIN, {}, "the edges that change"),
        (CHAIN, {"window": rpq.CountWindow(size=60, step=7)}, "the edges that change"),
        (CHAIN, {"window": rpq.Window(size=600, slide=1)}, "the edges that change"),
        (CHAIN, {"select": ("x", "z"), "distinct": True}, "the values of two variables"),
    ],
)
def test_divided_patterns_have_the_rows_of_one_thread(pattern, options, by):
    query = rpq.Query(pattern, **{"window": W} | options, semantics="explicit", name="q")
    whole, parts = tiny(4)(query), tiny(4)(query, threads=2)
    for begin in range(0, len(TUPLES), 100):
        some = [(*row[:3], row[3] + begin, row[4]) for row in TUPLES[begin : begin + 100]]
        assert Counter(parts.push_rows(some).rows()) == Counter(whole.push_rows(some).rows())
    assert lanes_of(parts) == 2
    running = parts._evaluation.running.find("q")
    assert all(len(lane.answers()[0].values) for lane in running.lanes), "one thread has all answers"
    assert Counter(parts.answers()) == Counter(whole.answers())
    assert f"threads      2, which divide it by {by}\n" in str(running.explain())
    for answer in [*whole.answers()][:20]:
        assert parts.witness(*answer) == whole.witness(*answer) is not None
    assert parts.statistics().edges_live == whole.statistics().edges_live


_PAIRS = [(f"s{i}", f"t{i}", label, 1) for i in range(9) for label in "ab"]
_MIDDLES = [edge for i in range(9) for edge in (("x", f"y{i}", "b", 1), (f"y{i}", "z", "c", 1))]


@pytest.mark.parametrize(
    ("pattern", "tuples"),
    [(STAR, [*_PAIRS, ("late", "late", "a", 100)]), (CHAIN, [*_MIDDLES, ("s", "x", "a", 1), ("late", "x", "a", 2)])],
)
def test_the_guard_on_rows_counts_those_of_all_threads(pattern, tuples):
    """One event has nine rows, some of them in each thread."""
    query = rpq.Query(pattern, window=W, semantics="explicit", name="q")
    errors = []
    for threads in (1, 2, 3):
        engine = rpq.Engine(query, threads=threads, max_rows=8)
        before = engine.push_rows(tuples[:10]).rows()
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.push_rows(tuples[10:])
        errors.append((caught.value.row, caught.value.number, Counter([*before, *caught.value.changes.rows()])))
    assert errors[0] == errors[1] == errors[2]
    assert errors[0][:2] == (8, 9)


def test_single_tuples_find_room_in_all_threads():
    """Threads divide a pattern after a push; then single tuples bring vertices."""
    query = rpq.Query(CHAIN, window=rpq.UnboundedWindow(), name="q")
    whole, parts = rpq.Engine(query), rpq.Engine(query, threads=2)
    chain = [(f"v{i}", f"v{i + 1}", "abc"[i % 3], 1) for i in range(900)]
    assert Counter(parts.push_rows(chain).rows()) == Counter(whole.push_rows(chain).rows())
    assert lanes_of(parts) == 2
    for i in range(300):
        single = f"w{i}", f"w{i + 1}", "abc"[i % 3], 2
        assert parts.insert(*single).rows() == whole.insert(*single).rows()
    parts._check()
    assert {*parts.answers()} == {*whole.answers()}


def test_a_memory_limit_is_kept_by_all_threads():
    query = rpq.Query(STAR, window=rpq.UnboundedWindow(), name="q")
    engine = rpq.Engine(query, threads=2, memory_limit=2_000_000)
    with pytest.raises(rpq.MemoryLimitError):
        for begin in range(0, 200_000, 2_000):
            engine.push_rows([(f"s{i}", f"t{i}", "ab"[i % 2], i) for i in range(begin, begin + 2_000)], collect=False)


def test_names_of_the_next_chunk_get_ids_while_one_is_applied(monkeypatch):
    """Pushes of many chunks, in which names and labels come and go: no id of the next chunk is given up meanwhile."""
    monkeypatch.setattr("rpq.engine.running.evaluation._LARGEST_CHUNK", 7)
    monkeypatch.setattr("rpq.engine.running.evaluation._SMALLEST_CHUNK", 5)
    labels = [f"d{i // 4}" if i % 4 == 3 else "abc"[i % 4] for i in range(1_200)]
    tuples = [
        (f"v{i // 3}", f"w{i * i % 11 + i // 60}", label, i // 4, "+-"[i % 13 == 12]) for i, label in enumerate(labels)
    ]
    query = rpq.Query(STAR, window=rpq.Window(size=5, slide=2), semantics="explicit", name="q")
    path = rpq.Query("a/!(b)*", window=rpq.Window(size=5, slide=2), semantics="explicit", name="path")
    whole, parts = tiny(4)(query, path), tiny(4)(query, path, threads=2)
    for begin in range(0, len(tuples), 400):
        some = tuples[begin : begin + 400]
        assert Counter(parts.push_rows(some).rows()) == Counter(whole.push_rows(some).rows())
        parts._check()
    assert len(parts._evaluation.labels) < 250 < len({*labels})
    assert parts.statistics().vertices_live < 200 < len({name for row in tuples for name in row[:2]})


def test_a_failure_takes_back_the_names_of_the_next_chunk(monkeypatch):
    monkeypatch.setattr("rpq.engine.running.evaluation._LARGEST_CHUNK", 4)
    monkeypatch.setattr("rpq.engine.running.evaluation._SMALLEST_CHUNK", 4)
    engine = rpq.Engine(rpq.Query(STAR, window=W, name="q"), threads=2, max_rows=2)
    tuples = [*(("x", f"y{i}", "a", 1) for i in range(3)), ("x", "z", "b", 1), *((f"n{i}", "m", "a", 1) for i in range(4))]
    with pytest.raises(rpq.RowLimitError):
        engine.push_rows(tuples)
    assert engine._evaluation.vertices.id_of("n0") == -1


@pytest.mark.parametrize("others", [[], ["a/b*"]])
def test_the_graph_takes_a_chunk_while_threads_apply_it(monkeypatch, others):
    """Rows, outcomes and the graph are those of one thread, whether the graph comes first (a path, new names) or not."""
    monkeypatch.setattr("rpq.engine.running.evaluation._LARGEST_CHUNK", 16)
    monkeypatch.setattr("rpq.engine.running.evaluation._SMALLEST_CHUNK", 8)
    text = "SELECT ?x ?y ?z { ?x <a> ?y . ?x <b> ?z }"
    queries = [rpq.Query(one, window=W, semantics="explicit", name=one) for one in (text, STAR, *others)]
    whole, parts = tiny(4)(*queries), tiny(4)(*queries, threads=2)
    are_known = []
    apply = pattern_host.PatternHost.apply

    def noted(host, chunk, tuples, edges, details):
        are_known.append(details.has_edge_ids)
        apply(host, chunk, tuples, edges, details)

    for begin in range(0, len(TUPLES), 100):
        some = [(*row[:3], row[3] - 40 * (row[3] % 7 == 6), row[4]) for row in TUPLES[begin : begin + 100]]  # some are late
        expected = Counter(whole.push_rows(some).rows())
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(pattern_host.PatternHost, "apply", noted)
            assert Counter(parts.push_rows(some).rows()) == expected
        parts._check()
    assert {*are_known} == ({True} if others else {True, False})
    for query in queries:
        counts = [engine.statistics(query.name) for engine in (whole, parts)]
        names = ("inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant")
        expected, found = [[getattr(one, name) for name in names] for one in counts]
        assert found == expected
        assert 0 not in expected, query.name
