"""Other shares and other queries in the middle of a stream on Spark: the rows of a local engine that registers them there.

semantics.md S7, S9
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")
pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="the extra spark is not installed")
pa = pytest.importorskip("pyarrow")

from types import SimpleNamespace  # noqa: E402

from pyspark.sql.streaming.tws_tester import TwsTester  # noqa: E402

import rpq  # noqa: E402
from rpq.spark.division import partition_keys  # noqa: E402
from rpq.spark.envelopes import pack  # noqa: E402
from rpq.spark.errors import PipelineError  # noqa: E402
from rpq.spark.shipping import MAX_INLINE_BYTES, ship_value  # noqa: E402
from rpq.spark.stream import processor  # noqa: E402
from rpq.spark.stream.processor import AnswerChanges, EngineCache, state_identity, validate_record  # noqa: E402
from rpq.spark.stream.rescale import rescale  # noqa: E402
from rpq.spark.stream.stream_identity import check_missing_edges  # noqa: E402
from rpq.spark.stream.window_log import MemoryChunks, MovedState, WindowLog  # noqa: E402
from tests.spark.state.share_rows import changes_in  # noqa: E402
from tests.twins import examples  # noqa: E402

Row = tuple[Any, Any, str, int, str]


def query(expression: str = "a/b*", *, size: int = 10, slide: int = 3, **options: Any) -> rpq.Query:
    return rpq.Query(expression, window=rpq.Window(size=size, slide=slide), **options)


def in_order(rows: list[Row]) -> list[Row]:
    """The order in which a micro-batch is applied."""
    return sorted(rows, key=lambda row: (row[3], row[4] == "+"))


class Stream:
    """The shares of a stream, each under a tester, which may go on as other shares."""

    def __init__(self, *queries: rpq.Query, shares: int, delay: int = 0, sizes: dict[str, int] | None = None) -> None:
        self.queries, self.delay, self.sizes = queries, delay, sizes
        self.testers: dict[int, TwsTester] = {}
        self._begin(shares, None)

    def _begin(self, shares: int, moved: MovedState | None) -> None:
        self.keys = partition_keys(shares)
        self._retired = {key: tester for key, tester in self.testers.items() if key not in self.keys}
        numbers = {key: number for number, key in enumerate(self.keys)}
        before = self.testers
        content = None if moved is None else SimpleNamespace(value=moved)
        options = {"numbers": numbers, "memory_limit": None, "max_delay": self.delay, "moved": content, "sizes": self.sizes}
        self.testers = {key: TwsTester(AnswerChanges(self.queries, **options)) for key in self.keys}
        for key, tester in [*self.testers.items(), *self._retired.items()]:
            if key in before and key in self.keys:
                for kind in ("value_states", "map_states"):
                    for name, state in getattr(tester.handle, kind).items():
                        state.state = getattr(before[key].handle, kind)[name].state

    def rescale(self, *queries: rpq.Query, shares: int, sizes: dict[str, int] | None = None) -> None:
        """Go on with others, as the driver lets it."""
        key = next(iter(self.testers))
        tester = self.testers[key]
        record = validate_record(tuple(tester.peekValueState("record", key)))
        logs = [self._log(one) for one in self.testers]
        added = [one for one in queries if one not in self.queries]
        check_missing_edges(added, self.queries, time=record.time)
        moved = MovedState.from_logs(
            logs,
            waiting=[data for (data,) in tester.peekMapState("waiting", key).values()] if self.delay else [],
            figures={name: getattr(record, name) for name in ("version", "time", "tuples", "late")},
            identity=state_identity(self.queries, len(self.keys), sizes=self.sizes),
            added=added,
        )
        self.queries, self.sizes = queries, sizes
        self._begin(shares, moved)

    def _log(self, key: int) -> WindowLog:
        tester = self.testers[key]
        record = validate_record(tuple(tester.peekValueState("record", key)))
        chunks = MemoryChunks({place: data for place, (data,) in tester.peekMapState("window", key).items()})
        return WindowLog(chunks=chunks, queries=self.queries, parts=record.log_parts(), order=record.order)

    def push(self, rows: list[Row]) -> Counter:
        """The answer changes of a micro-batch."""
        source, target, label, timestamp, op = (list(column) for column in zip(*rows, strict=True))
        columns = {"source": source, "target": target, "label": label, "timestamp": pa.array(timestamp, pa.int64())}
        (envelope,) = pack([pa.record_batch({**columns, "op": op})], None if self.delay else self.queries)
        frame = pd.DataFrame({"edges": [envelope["edges"][0].as_py()]})
        found: Counter = Counter()
        for key, tester in self.testers.items():
            found.update(changes_in(tester.testInPandas(key, frame)))
        return found


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    """Leave the module's cache as it was."""
    monkeypatch.setattr(processor, "cache", EngineCache())


TRIANGLE = "?source a ?y . ?y a ?target . ?target b ?source"
EXPRESSIONS = ("a", "a/b*", "(a|b|c)+", "a*/b*", "!(a)/b?", "?source a ?y . ?y b ?target", "a/b*/a", TRIANGLE)


SIZES = st.sampled_from((None, {"a": 1, "b": 50}, {"a": 50, "b": 1}))


@st.composite
def questions(draw: Any) -> list[rpq.Query]:
    made = []
    for expression in draw(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3, unique=True)):
        size, slide = draw(st.sampled_from(((10, 3), (4, 7), (100, 1), (30, 30))))
        select = {"select": ("source", "target"), "distinct": draw(st.booleans())} if expression.startswith("?") else {}
        semantics = draw(st.sampled_from(("explicit", "explicit", "implicit")))
        made.append(query(expression, size=size, slide=slide, semantics=semantics, name=expression, **select))
    return made


@st.composite
def batches(draw: Any) -> list[list[Row]]:
    time, made = 0, []
    for _ in range(draw(st.integers(2, 6))):
        rows = []
        for _ in range(draw(st.sampled_from((2, 4, 8)))):
            time += draw(st.sampled_from((0, 0, 0, 1, 1, 2, 5, 17)))
            ends = draw(st.sampled_from("vwxy")), draw(st.sampled_from("vwxy"))
            stamp = time - draw(st.sampled_from((0, 0, 0, 0, 2, 9, 50)))
            rows.append((*ends, draw(st.sampled_from("aaabbcz")), stamp, draw(st.sampled_from("++++-"))))
        made.append(rows)
    return made


@pytest.mark.ci
def test_random_moves():
    """Whenever, to whatever number of shares, with whatever queries new, gone and as they were."""
    moves = 0

    @examples(200)
    @given(data=st.data(), stream=batches(), queries=questions(), shares=st.sampled_from((1, 2, 5)))
    def check(data: Any, stream: list[list[Row]], queries: list[rpq.Query], shares: int) -> None:
        nonlocal moves
        # What a stream has kept, an engine may have let go with the query that goes; one that keeps all answers in any case.
        parts, engine = Stream(*queries, shares=shares), rpq.Engine(*queries, keep=rpq.Window(size=300, slide=1))
        for number, batch in enumerate(stream):
            wanted: Counter = Counter()
            if number and data.draw(st.booleans()):
                others = data.draw(questions())
                stay = [one for one in queries if data.draw(st.booleans())]
                following = [*stay, *(one for one in others if one.name not in {each.name for each in stay})] or queries
                try:
                    parts.rescale(*following, shares=data.draw(st.sampled_from((1, 2, 5))), sizes=data.draw(SIZES))
                except PipelineError:
                    pass
                else:
                    moves += 1
                    if gone := [one.name for one in queries if one not in following]:
                        engine.unregister(gone)
                    if fresh := [one for one in following if one not in queries]:
                        wanted.update(engine.register(fresh).rows())
                    queries = following
            wanted.update(engine.push_rows(in_order(batch)).rows())
            assert parts.push(batch) == wanted

    check()
    assert moves


def test_what_waits_moves_too():
    parts, engine = Stream(query("a/b"), shares=2, delay=5), rpq.Engine(query("a/b"))
    assert parts.push([("x", "y", "a", 1, "+"), ("p", "q", "a", 8, "+")]) == Counter()
    engine.push_rows([("x", "y", "a", 1, "+")])
    parts.rescale(query("a/b"), shares=5)
    assert parts.push([("y", "z", "b", 2, "+"), ("q", "r", "b", 9, "+")]) == Counter(
        engine.push_rows([("y", "z", "b", 2, "+")]).rows()
    )
    assert parts.push([("u", "v", "z", 20, "+")]) == Counter(
        engine.push_rows([("p", "q", "a", 8, "+"), ("q", "r", "b", 9, "+")]).rows()
    )


def test_a_large_state_is_broadcast_and_missed_only_when_it_is_asked_for():
    """The driver looks at a processor in a worker to which nothing is broadcast."""

    class Broadcast:
        """A broadcast value that is pickled like Spark's: with its number, by which a worker finds it."""

        value = "the state"

        def __reduce__(self) -> tuple[Any, ...]:
            pickled.append(self)
            return print, (7,)

    pickled: list[Broadcast] = []
    session = SimpleNamespace(sparkContext=SimpleNamespace(broadcast=lambda value: Broadcast()))
    assert pickle.loads(pickle.dumps(ship_value(session, "small"))).value == "small"
    large = ship_value(session, "x" * (MAX_INLINE_BYTES + 1))
    assert large.value == "the state"
    arrived = pickle.loads(pickle.loads(pickle.dumps([pickle.dumps(large)]))[0])
    assert len(pickled) == 1
    with pytest.raises(Exception, match="7"):
        arrived.value  # noqa: B018
    registry = __import__("pyspark.core.broadcast", fromlist=["x"])._broadcastRegistry
    registry[7] = SimpleNamespace(value="the state")
    try:
        assert pickle.loads(pickle.dumps(arrived)).value == "the state"
    finally:
        del registry[7]


def test_windows_that_the_stream_did_not_keep():
    before = [query("a/b*", size=10, slide=5), query("a", size=100, slide=5)]
    check_missing_edges([query("a+", size=100, slide=5)], before, time=12)
    check_missing_edges([query("a/b", size=9, slide=1), query("b", size=10, slide=5)], before, time=12)
    with pytest.raises(PipelineError, match=r"'a/c'.*that no query has read \(label 'c'\)"):
        check_missing_edges([query("a/c", size=5, slide=1)], before, time=12)
    with pytest.raises(PipelineError, match=r"'!a'.*\(labels that no query names\)"):
        check_missing_edges([query("!a", size=5, slide=1)], before, time=12)
    with pytest.raises(PipelineError, match=r"edges from -9 on \(label 'b'\), and the stream.* has them from 1 on"):
        check_missing_edges([query("a/b", size=20, slide=5)], before, time=12)


def test_the_state_of_shares_that_are_no_more_goes():
    """With the first micro-batch; what has none yet begins with the window."""
    keys = partition_keys(2)
    stream = Stream(query("a/b"), shares=2)
    stream.push([("x", "y", "a", 1, "+")])
    old = stream.testers[keys[1]]
    retiring = TwsTester(AnswerChanges([query("a/b")], numbers={-7: 0}, memory_limit=None))
    for kind in ("value_states", "map_states"):
        for name, state in getattr(retiring.handle, kind).items():
            state.state = getattr(old.handle, kind)[name].state
    (envelope,) = pack([pa.record_batch({"source": ["y"], "target": ["z"], "label": ["b"], "timestamp": [2], "op": ["+"]})])
    assert retiring.testInPandas(keys[1], pd.DataFrame({"edges": [envelope["edges"][0].as_py()]})).empty
    assert retiring.peekValueState("record", keys[1]) is None
    assert not retiring.peekMapState("window", keys[1])
    assert json.loads(state_identity(stream.queries, 2))["partitions"] == 2


def test_queries_that_a_stream_cannot_have_are_refused_before_anything_is_read():
    """There is no session, and nobody looks for the checkpoint."""
    unsupported = rpq.Query("a", window=rpq.Window(size=5, slide=1), paths="simple", on_budget="set_aside", name="q")
    with pytest.raises(PipelineError, match="set_aside"):
        rescale(None, "nowhere", unsupported)
    with pytest.raises(PipelineError, match="since when answers hold"):
        rescale(None, "nowhere", query("a", hold=5))


def test_queries_that_read_values_or_the_order_of_edges_are_not_added():
    before = [query("a[n > 1]/b"), query("a+", order="increasing")]
    check_missing_edges([query("a/b?")], before, time=12)
    for added, what in (
        (query("a[n > 1]"), "values of edges"),
        (query("?x ?e:a ?y", select=("x",)), "values of edges"),
        (query("a/b", order="increasing"), "the order of edges"),
    ):
        with pytest.raises(PipelineError, match=f"reads {what}, which the state may not have in full. Start a new stream"):
            check_missing_edges([added], before, time=12)
