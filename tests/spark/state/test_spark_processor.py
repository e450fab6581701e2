"""The stateful processor under Spark's tester, without a JVM: the rows of the local engine, whatever the workers do.

A "worker" is a cache of engines.  Micro-batches go to workers at random, so that a worker has seen all of a partition's
micro-batches, or missed the last ones, or never saw any, or holds the outcome of an attempt that Spark threw away.

semantics.md S7
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")
pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="the extra spark is not installed")
pa = pytest.importorskip("pyarrow")

from pyspark.sql.streaming.tws_tester import TwsTester  # noqa: E402

import rpq  # noqa: E402
from rpq.spark.columns import edge_model, queries_in_unit, row_schema  # noqa: E402
from rpq.spark.division import describe_division, division_warning, label_readers, partition_keys  # noqa: E402
from rpq.spark.envelopes import Packer, numbered_property, pack  # noqa: E402
from rpq.spark.errors import PipelineError  # noqa: E402
from rpq.spark.stream import processor  # noqa: E402
from rpq.spark.stream.processor import FORMAT, AnswerChanges, EngineCache, PartitionRecord, fields  # noqa: E402
from rpq.spark.stream.stream_identity import check_missing_edges, check_supported  # noqa: E402
from rpq.spark.stream.window_log import MemoryChunks, MovedState, WindowLog, bucket_width  # noqa: E402
from tests.spark.state.share_rows import changes_in  # noqa: E402
from tests.twins import examples, scaled  # noqa: E402

Row = tuple[Any, Any, str, int, str]


def envelopes(rows: list[Row], sequence: list[int] | None = None) -> Any:
    """A micro-batch as a processor gets it."""
    source, target, label, timestamp, op = (list(column) for column in zip(*rows, strict=True))
    columns = {"source": source, "target": target, "label": label, "timestamp": pa.array(timestamp, pa.int64()), "op": op}
    if sequence is not None:
        columns["sequence"] = pa.array(sequence, pa.int64())
    half = len(rows) // 2
    batch = pa.record_batch(columns)
    packed = [envelope for part in (batch[:half], batch[half:]) for envelope in pack([part])]
    return pd.DataFrame({"edges": [envelope["edges"][0].as_py() for envelope in packed]})


def in_order(rows: list[Row], sequence: list[int] | None = None) -> list[Row]:
    """The order in which a micro-batch is applied."""
    places = sequence if sequence is not None else [0] * len(rows)
    ranked = sorted(zip(rows, places, strict=True), key=lambda one: (one[0][3], one[1], one[0][4] == "+"))
    return [row for row, _ in ranked]


class Partitions:
    """All partitions of some queries, each under a tester, and workers that come and go."""

    def __init__(self, *queries: rpq.Query, partitions: int = 1, sizes: dict[str, int] | None = None) -> None:
        self.keys = partition_keys(partitions)
        numbers = {key: number for number, key in enumerate(self.keys)}
        options = {"numbers": numbers, "memory_limit": None, "sizes": sizes}
        self.testers = {key: TwsTester(AnswerChanges(queries, **options)) for key in self.keys}
        self.workers: dict[str, EngineCache] = {}

    def push(self, rows: list[Row], worker: str = "one", sequence: list[int] | None = None) -> Counter:
        """Apply a micro-batch in a worker and return its changes."""
        processor.cache = self.workers.setdefault(worker, EngineCache())
        found: Counter = Counter()
        for key, tester in self.testers.items():
            found.update(changes_in(tester.testInPandas(key, envelopes(rows, sequence))))
        return found

    def fail(self, rows: list[Row], worker: str) -> None:
        """Make a worker fail at a micro-batch: the state stays as it was."""
        states = {key: copy.deepcopy(self._states(tester)) for key, tester in self.testers.items()}
        self.push(rows, worker)
        for key, tester in self.testers.items():
            for state, before in zip(self._handles(tester), states[key], strict=True):
                state.state = before

    def record(self, key: int | None = None) -> PartitionRecord:
        key = self.keys[0] if key is None else key
        names = [field.name for field in fields(PartitionRecord)]
        return PartitionRecord(**dict(zip(names, self.testers[key].peekValueState("record", key), strict=True)))

    def chunks(self) -> dict:
        return self.testers[self.keys[0]].peekMapState("window", self.keys[0])

    @staticmethod
    def _handles(tester: TwsTester) -> list:
        return [*tester.handle.value_states.values(), *tester.handle.map_states.values()]

    def _states(self, tester: TwsTester) -> list:
        return [handle.state for handle in self._handles(tester)]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch):
    """Leave the module's cache as it was."""
    monkeypatch.setattr(processor, "cache", EngineCache())


def query(expression: str = "a/b*", *, size: int = 10, slide: int = 3, **options: Any) -> rpq.Query:
    return rpq.Query(expression, window=rpq.Window(size=size, slide=slide), **options)


STEPS = st.sampled_from((0,) * 8 + (1,) * 6 + (2, 3, -1, -2, -5, -9, -20, 5, 17, 90))


@st.composite
def streams(draw: Any, vertices: tuple) -> list[list[Row]]:
    """Micro-batches of a stream with deletes (of what is there, mostly), late and out-of-order tuples."""
    time, batches, there = draw(st.sampled_from((0, -40, 10**9))), [], []
    for _ in range(draw(st.integers(2, 6))):
        batch = []
        for _ in range(draw(st.sampled_from((1, 2, 4, 8)))):
            timestamp = time + draw(STEPS)
            time = max(time, timestamp)
            if there and draw(st.integers(0, 4)) == 0:
                batch.append((*draw(st.sampled_from(there)), timestamp, "-"))
                continue
            edge = (draw(st.sampled_from(vertices)), draw(st.sampled_from(vertices)), draw(st.sampled_from("aaabbcz")))
            there.append(edge)
            batch.append((*edge, timestamp, "+"))
        batches.append(batch)
    return batches


@st.composite
def several_queries(draw: Any, vertices: tuple) -> list[rpq.Query]:
    made = []
    for number in range(draw(st.sampled_from((1, 1, 2)))):
        expression = draw(st.sampled_from(("a", "a/b*", "(a|b|c)+", "a*/b*", "a/^b", "!(a)/b?", "(a/a)+", "a/b*/a")))
        size, slide = draw(st.sampled_from(((1, 1), (10, 3), (4, 7), (100, 1), (30, 30))))
        semantics = draw(st.sampled_from(("explicit", "explicit", "implicit")))
        paths = draw(st.sampled_from(("walk", "walk", "simple", "simple_cycle")))
        targets = draw(st.sampled_from((None, None, vertices[:3])))
        options = {"semantics": semantics, "paths": paths, "targets": targets, "name": f"q{number}"}
        made.append(query(expression, size=size, slide=slide, **options))
    return made


@pytest.mark.parametrize("vertices", [(0, 1, -7, 2**40, 5), ("x", "y", "007", "7", "ü")], ids=["integers", "texts"])
def test_random_streams(vertices: tuple):
    @examples(25)
    @given(data=st.data(), batches=streams(vertices), partitions=st.sampled_from((1, 2, 5)))
    def check(data: Any, batches: list[list[Row]], partitions: int) -> None:
        queries = data.draw(several_queries(vertices))
        parts = Partitions(*queries, partitions=partitions)
        engine = rpq.Engine(*queries)
        late = 0
        for number, batch in enumerate(batches):
            worker = data.draw(st.sampled_from(("one", "one", "two", "three", f"new {number}")))
            if data.draw(st.integers(0, 4)) == 0:
                parts.fail(data.draw(st.sampled_from(batches)), worker)
            changes = engine.push_rows(in_order(batch))
            late += len(changes.late_rows)
            assert parts.push(batch, worker) == Counter(changes.rows())
        record = parts.record()
        assert record.time == engine.time
        assert record.late == late
        assert record.tuples == sum(map(len, batches))

    check()


PATTERNS = (
    "?x a ?y",
    "?x a ?y . ?y b ?z",
    "?x a ?y . ?y a ?x",
    "?y ^a ?x . ?y b _:z",
    "?x a ?x",
    "?x a ?y . ?z b ?z",
    "?x a ?y . <{v}> b ?y",
    "?x a ?y . ?y b ?z . ?z c ?x",
)


@st.composite
def several_patterns(draw: Any, vertices: tuple) -> list[rpq.Query]:
    made, select = [], draw(st.sampled_from((("x",), ("y", "x"))))
    fitting = [text for text in PATTERNS if "?y" in text or "y" not in select]
    for number in range(draw(st.sampled_from((1, 1, 2)))):
        size, slide = draw(st.sampled_from(((1, 1), (10, 3), (4, 7), (100, 1), (30, 30))))
        text = draw(st.sampled_from(fitting)).format(v=draw(st.sampled_from(vertices)))
        made.append(
            query(
                text,
                size=size,
                slide=slide,
                semantics=draw(st.sampled_from(("explicit", "explicit", "implicit"))),
                select=select,
                distinct=draw(st.booleans()),
                matching=draw(st.sampled_from(("homomorphism", "isomorphism"))),
                name=f"q{number}",
            )
        )
    return made


@pytest.mark.parametrize("vertices", [(0, 1, 7, 2**40, 5), ("x", "y", "007", "7", "ü")], ids=["integers", "texts"])
def test_random_streams_of_patterns(vertices: tuple):
    """The rows of the local engine, which those of patterns are divided from by the first vertex of a binding."""

    @examples(25)
    @given(data=st.data(), batches=streams(vertices), partitions=st.sampled_from((1, 2, 5)))
    def check(data: Any, batches: list[list[Row]], partitions: int) -> None:
        queries = data.draw(several_patterns(vertices))
        sizes = data.draw(st.sampled_from((None, None, {"a": 1, "b": 100}, {"a": 100, "b": 3, "c": 1})))
        parts = Partitions(*queries, partitions=partitions, sizes=sizes)
        engine = rpq.Engine(*queries)
        for number, batch in enumerate(batches):
            worker = data.draw(st.sampled_from(("one", "one", "two", "three", f"new {number}")))
            if data.draw(st.integers(0, 4)) == 0:
                parts.fail(data.draw(st.sampled_from(batches)), worker)
            wanted = Counter(
                tuple(row.values()) for table in engine.push_rows(in_order(batch)).tables() for row in table.to_pylist()
            )
            assert parts.push(batch, worker) == wanted
        assert parts.record().time == engine.time

    check()


def test_a_query_in_sparql():
    """Counts are integers, what is unbound is null, and a window that the text declares is in the state as long as it is."""
    pytest.importorskip("rdflib")
    text = """SELECT ?x (COUNT(?y) AS ?n) (MAX(?z) AS ?last)
    FROM NAMED WINDOW <long> [RANGE PT50S STEP PT5S]
    WHERE { ?x <a> ?y OPTIONAL { WINDOW <long> { ?y <b> ?z } } } GROUP BY ?x"""
    question = rpq.Query(text, window=rpq.Window(size=10, slide=5), semantics="explicit", name="counted").in_unit("s")
    assert row_schema([question], "bigint").startswith("query string, x bigint, n bigint, last ")
    chooser, time = random.Random(3), 0
    parts, engine = Partitions(question, partitions=2), rpq.Engine(question, time_unit="s")
    for number in range(25):
        batch = []
        for _ in range(6):
            time += chooser.randrange(3)
            ends = str(chooser.randrange(4)), str(chooser.randrange(4))
            batch.append((*ends, chooser.choice("aab"), time, chooser.choice("+++-")))
        wanted = Counter(
            tuple(row.values()) for table in engine.push_rows(in_order(batch)).tables() for row in table.to_pylist()
        )
        assert parts.push(batch, chooser.choice(("one", "two", f"new {number}"))) == wanted


def test_a_query_in_match():
    """Where inserts replace edges, a text that reads no values of edges binds none, and streams take it."""
    pytest.importorskip("lark", reason="the extra match is not installed")
    text = """MATCH (x)-[:a]->(y), ANY (y)-[:b]->{1,2}(z) WHERE NOT EXISTS { (z)-[:a]->(x) }
    RETURN x, z, count(*) AS n"""
    question = rpq.Query(text, window=rpq.Window(size=10, slide=5), semantics="explicit", name="counted")
    assert row_schema([question], "bigint").startswith("query string, x bigint, z bigint, n bigint, ")
    chooser, time, rows = random.Random(3), 0, 0
    parts, engine = Partitions(question, partitions=2), rpq.Engine(question)
    for number in range(25):
        batch = []
        for _ in range(6):
            time += chooser.randrange(3)
            ends = str(chooser.randrange(4)), str(chooser.randrange(4))
            batch.append((*ends, chooser.choice("aab"), time, chooser.choice("+++-")))
        wanted = Counter(
            tuple(row.values()) for table in engine.push_rows(in_order(batch)).tables() for row in table.to_pylist()
        )
        assert parts.push(batch, chooser.choice(("one", "two", f"new {number}"))) == wanted
        rows += wanted.total()
    assert rows > 20


def test_what_a_match_text_reads_of_edges():
    """Properties of edges are columns; an edge itself has no name that all shares know."""
    pytest.importorskip("lark", reason="the extra match is not installed")
    window = rpq.Window(size=10, slide=5)
    question = rpq.Query("MATCH (x)-[e:a]->(y) RETURN x, e.amount", window=window)
    check_supported([question], "parallel")
    model = edge_model([question], "parallel", "string", time_unit=None, properties={"amount": "bigint"})
    assert model.columns == ("amount",)


@pytest.mark.parametrize(
    "text",
    [
        "?x a ?y . ?y b ?z . ?z c ?x",
        "SELECT ?y ?x (COUNT(*) AS ?n) { ?y <a> ?x . ?x <b> ?z FILTER NOT EXISTS { ?x <a> ?x } } GROUP BY ?y ?x",
    ],
)
def test_a_share_has_the_edges_of_its_cell(monkeypatch, text: str):
    """It pushes and stores no others; the rows of all are those of the whole engine, times and all."""
    if text.startswith("SELECT"):
        pytest.importorskip("rdflib")
    star = query(text, size=20, semantics="explicit", name="star")
    pushed: list[int] = []
    push = rpq.Engine.push

    def counted(engine: rpq.Engine, tuples: Any, **options: Any) -> Any:
        pushed.append(len(tuples))
        return push(engine, tuples, **options)

    chooser, time = random.Random(5), 0
    parts, alone, engine = Partitions(star, partitions=4), Partitions(star, partitions=1), rpq.Engine(star)
    for number in range(12):
        batch = []
        for _ in range(40):
            time += chooser.random() < 0.4
            ends = f"v{chooser.randrange(60)}", f"v{chooser.randrange(60)}"
            delay = 30 if number % 5 == 4 and chooser.random() < 0.1 else 0
            batch.append((*ends, chooser.choice("abc"), time - delay, chooser.choice("+++-")))
        tables = engine.push_rows(in_order(batch)).tables()
        wanted = Counter(tuple(row.values()) for table in tables for row in table.to_pylist())
        with monkeypatch.context() as patched:
            patched.setattr(rpq.Engine, "push", counted)
            assert parts.push(batch, chooser.choice(("one", "one", f"new {number}"))) == wanted
        alone.push(batch, "alone")
    assert division_warning(star) is None
    assert sum(pushed) < 0.8 * 4 * 12 * 40, "every share saw nearly everything"
    assert stored_tuples(parts) < 0.8 * 4 * stored_tuples(alone), "every share stores nearly everything"


def stored_tuples(parts: Partitions) -> int:
    """The tuples in the logs of all shares."""
    return sum(rows for key in parts.keys for some in parts.record(key).log_parts().values() for rows, _ in some)


def test_the_command_explains_a_division_by_sizes():
    """A label may contain commas and equals signs; what is no number is refused before Spark starts."""
    from click.testing import CliRunner

    from rpq.spark.cli import spark

    texts = ["explain", "?x <a,b=c> ?y . ?y likes ?z", "--select", "x,z", "--partitions", "12"]
    for sizes, division in (
        ([], "divided by ?x, ?z into 4 × 3 = 12 cells"),
        (["--sizes", "a,b=c=5,likes=4000"], "divided by ?z into 12 cells"),
        (["--sizes", "likes=5,a,b=c=4000"], "divided by ?x into 12 cells"),
    ):
        assert division in CliRunner().invoke(spark, [*texts, *sizes], catch_exceptions=False).output
    for sizes in ("", "likes", "likes=-3", "likes=4,", "likes=4,b"):
        refused = CliRunner().invoke(spark, [*texts, "--sizes", sizes])
        assert refused.exit_code == 2, sizes
        assert f"'{sizes}': expected numbers by label" in refused.output


def test_what_spark_cannot_divide_is_said():
    chain = query("?x a ?y . ?y b ?z")
    assert describe_division(chain) == "divided by ?y: a share sees only the edges at its own vertices"
    by_roots = "divided by the roots of the trees of its paths: a share sees all edges that the query reads"
    assert describe_division(query("a/b*")) == by_roots
    ends = query(chain.name, select=("x", "z"))
    assert describe_division(ends) == "divided by ?x, ?z: a share sees only the edges of its cell"
    assert describe_division(ends, shares=13) == (
        "divided by ?x, ?z into 4 × 3 = 12 cells: a share sees only the edges of its cell; each edge of a is in up to 3, "
        "each edge of b is in up to 4"
    )
    assert describe_division(ends, shares=13, sizes={"a": 9, "b": 900}).startswith("divided by ?z into 13 cells")
    assert describe_division(ends, shares=1) == "one share evaluates it as a whole"
    with_path = describe_division(query("?x a ?y . ?y b+ ?z"), shares=3)
    assert with_path.endswith("each edge of a is in one, each edge of b is in all")
    beginning = "divided by ?x, where its paths begin: a share sees all edges that the query reads"
    assert describe_division(query("?x a+ ?y"), shares=4) == describe_division(query("?x a* ?y")) == beginning
    assert "of its cell, and all edges of its paths" in describe_division(query("?x a ?y . ?y b+ ?z"))
    ends_alone = query("?x a+ ?y", select=["y"])
    assert "it has a path (a+) and no other edge with a column" in str(division_warning(ends_alone))
    assert "no column is a vertex: select a variable" in str(division_warning(query("?x ?e:a ?y", select=["e.n"])))
    pytest.importorskip("rdflib")
    question = "SELECT ?x WHERE { ?x <a>+ ?y . ?y <b> ?z }"
    warning = division_warning(rpq.Query(question, window=rpq.Window(size=10, slide=5), name="s"))
    assert warning is not None and "every share evaluates all of it, and its rows are divided by ?x" in warning
    named = rpq.Query("SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT10S] { WINDOW <w> { ?x <a> ?y } }", name="n")
    with pytest.raises(PipelineError, match="reads only the stream 's'"):
        queries_in_unit([named], "s")
    with pytest.raises(PipelineError, match="Spark supports windows of time"):
        queries_in_unit([rpq.Query("a", window=rpq.UnboundedWindow())], None)
    for text in ("(a/@[risk > 1])+", "?x[:A] a ?y"):
        with pytest.raises(PipelineError, match="reads facts of nodes, of which streams on Spark have no records"):
            queries_in_unit([query(text)], None)


@pytest.mark.ci
def test_longer_streams():
    chooser = random.Random(2)
    queries = [query("a/b*", size=60, slide=7, semantics="explicit"), query("(a|b)+", size=25, slide=5)]
    queries += [query("a/b*/c", size=25, slide=5, paths="simple")]
    queries += [query("(a/b)+/c?", size=25, slide=5, paths="simple_cycle")]
    parts, engine, time = Partitions(*queries, partitions=2), rpq.Engine(*queries), 0
    for _ in range(40):
        batch = []
        for _ in range(chooser.randrange(1, 40)):
            time += chooser.random() < 0.3
            ends = chooser.randrange(12), chooser.randrange(12)
            batch.append((*ends, chooser.choice("abc"), time - chooser.choice((0, 0, 0, 5, 80)), chooser.choice("++++-")))
        worker = chooser.choice(("one", "one", "two", "three"))
        assert parts.push(batch, worker) == Counter(engine.push_rows(in_order(batch)).rows())
    record = parts.record()
    assert min(record.hits, record.catch_ups, record.rebuilds) > 0
    assert record.rebuilds == 2  # by the two workers that did not begin
    parts_of = {int(bucket): held for bucket, held in json.loads(record.parts).items()}
    kept = WindowLog(chunks=MemoryChunks(), queries=queries, parts=parts_of)
    assert kept.rows < 2 * 80 * 15  # what a window and a bucket hold, not the stream
    assert len(parts.chunks()) == sum(map(len, kept.parts.values()))


def test_late_tuples_and_boundaries():
    """Window 10, slide 5, three micro-batches:

    time      0 1 2 . . 5 . . . . 10 . 12 . . 15
    first       a
    second                            a           (boundary 10 lets nothing expire: 1 > 0)
    third     b(late at 12: 0 ≤ 0)           a    (boundary 15: the first a leaves, 1 ≤ 5)
    """
    parts = Partitions(query("a|b", size=10, slide=5, semantics="explicit"))
    assert parts.push([("x", "y", "a", 1, "+")]) == Counter([rpq.Change("a|b", "x", "y", 1, "+")])
    parts.push([("y", "z", "a", 12, "+")])
    assert parts.push([("u", "v", "b", 0, "+"), ("v", "w", "a", 15, "+")]) == Counter(
        [rpq.Change("a|b", "x", "y", 15, "-"), rpq.Change("a|b", "v", "w", 15, "+")]
    )
    assert parts.record().late == 1


def test_ties_without_a_sequence_are_deletes_first():
    parts = Partitions(query("a"))
    parts.push([("x", "y", "a", 1, "+")])
    rows = parts.push([("x", "y", "a", 2, "+"), ("x", "y", "a", 2, "-")])
    assert rows == Counter([rpq.Change("a", "x", "y", 2, "-"), rpq.Change("a", "x", "y", 2, "+")])
    assert parts.push([("x", "y", "a", 2, "+")]) == Counter()  # it is there


def test_ties_with_a_sequence():
    parts = Partitions(query("a"))
    parts.push([("x", "y", "a", 1, "+")], sequence=[0])
    rows = parts.push([("x", "y", "a", 2, "-"), ("x", "y", "a", 2, "+")], sequence=[2, 1])
    assert rows == Counter([rpq.Change("a", "x", "y", 2, "-")])
    assert parts.push([("x", "y", "a", 2, "+")], sequence=[3]) == Counter([rpq.Change("a", "x", "y", 2, "+")])


def test_the_outcome_of_a_failed_attempt_is_never_used():
    parts = Partitions(query("a/b*"))
    parts.push([("x", "y", "a", 1, "+")])
    parts.fail([("y", "wrong", "b", 2, "+"), ("x", "y", "a", 2, "-")], "one")
    assert parts.push([("y", "z", "b", 2, "+")], "one") == Counter([rpq.Change("a/b*", "x", "z", 2, "+")])
    assert parts.record().rebuilds == 1


def test_a_stale_engine_catches_up_over_deletes_and_time():
    parts = Partitions(query("a/b*", semantics="explicit"))
    parts.push([("x", "y", "a", 1, "+"), ("y", "z", "b", 1, "+")], "stale")
    parts.push([("y", "z", "b", 2, "-")], "other")
    parts.push([("y", "w", "b", 5, "+"), ("n", "o", "irrelevant", 9, "+")], "other")
    assert parts.push([("w", "v", "b", 9, "+")], "stale") == Counter([rpq.Change("a/b*", "x", "v", 9, "+")])
    record = parts.record()
    assert (record.rebuilds, record.catch_ups) == (1, 1)


def test_state_holds_the_window_and_not_the_stream():
    one = query("a", size=1000, slide=10)
    parts = Partitions(one)
    for number in range(70):
        parts.push([(number % 7, number % 11, "a", 50 * number, "+"), (1, 2, "unused", 50 * number, "+")], "one")
    assert len(parts.chunks()) <= 1000 / 50 + 2
    assert len(parts.record().history) < 5000


def test_many_small_batches_make_few_parts():
    parts = Partitions(query("a", size=64_000, slide=1))
    assert bucket_width([query("a", size=64_000, slide=1)]) == 1000
    for number in range(40):
        parts.push([(number, number + 1, "a", 0, "+")])
    assert len(parts.chunks()) <= 6


def test_a_checkpoint_of_another_query_is_refused():
    parts = Partitions(query("a"))
    parts.push([("x", "y", "a", 1, "+")])
    (key,) = parts.keys
    other = AnswerChanges([query("b")], numbers={key: 0}, memory_limit=None)
    other.init(parts.testers[key].handle)
    parts.testers[key].processor = other
    with pytest.raises(PipelineError, match="start with a new checkpoint"):
        parts.push([("x", "y", "a", 2, "+")])


def test_a_state_of_another_format_is_refused():
    parts = Partitions(query("a"))
    parts.push([("x", "y", "a", 1, "+")])
    (key,) = parts.keys
    held = parts.testers[key].peekValueState("record", key)
    parts.testers[key].updateValueState("record", key, (FORMAT + 1, *held[1:]))
    with pytest.raises(PipelineError, match=f"format {FORMAT + 1}"):
        parts.push([("x", "y", "a", 2, "+")])


@pytest.mark.parametrize(("column", "value"), [("op", "?"), ("source", None), ("timestamp", None)])
def test_bad_tuples_are_named(column: str, value: object):
    columns = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1], "op": ["+"], column: [value]}
    with pytest.raises(rpq.InputError, match=f"column '{column}'"):
        list(pack([pa.record_batch(columns)]))


@pytest.mark.parametrize("partitions", [1, 3])
def test_tuples_that_nothing_reads_do_not_travel_and_move_the_time(partitions: int):
    """Window 10, slide 5; the c at 16 is a tick, with which x-a-y leaves at the boundary 15:

    time     1 . . . 5 . . . . 10 . . . . 15 16
    first    a       c
    second                                   c
    """
    question = query("a/b*", size=10, slide=5, semantics="explicit")
    parts = Partitions(question, partitions=partitions)

    def packed_for(rows: list[Row]) -> Any:
        source, target, label, timestamp, op = (list(column) for column in zip(*rows, strict=True))
        columns = {"source": source, "target": target, "label": label, "op": op}
        batch = pa.record_batch({**columns, "timestamp": pa.array(timestamp, pa.int64())})
        return [one["edges"][0].as_py() for one in pack([batch], [question])]

    irrelevant = [("p", f"q{number}", "c", 5, "+") for number in range(1000)]
    (small,) = packed_for([("x", "y", "a", 1, "+"), *irrelevant])
    assert len(small) < 2000 < len(envelopes(irrelevant)["edges"][0])
    found: Counter = Counter()
    for rows in ([("x", "y", "a", 1, "+"), *irrelevant], [("p", "q", "c", 16, "+")]):
        for key, tester in parts.testers.items():
            found.update(changes_in(tester.testInPandas(key, pd.DataFrame({"edges": packed_for(rows)}))))
    assert found == Counter([rpq.Change("a/b*", "x", "y", 1, "+"), rpq.Change("a/b*", "x", "y", 15, "-")])
    record = parts.record()
    assert (record.time, record.tuples, record.late) == (16, 1002, 0)


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_random_streams_without_what_nothing_reads(seed: int):
    """Any cut into micro-batches, out of order too: the rows of an engine that sees every tuple."""
    chooser = random.Random(seed)
    queries = [query("a/b*", size=30, slide=7, semantics="explicit"), query("!(c|a)", size=9, slide=4)]
    engine, keys, time = rpq.Engine(*queries), partition_keys(2), 0
    numbers = {key: number for number, key in enumerate(keys)}
    testers = {key: TwsTester(AnswerChanges(queries, numbers=numbers, memory_limit=None)) for key in keys}
    for _ in range(30):
        batch = []
        for _ in range(chooser.randrange(1, 12)):
            time += chooser.random() < 0.5
            ends = chooser.randrange(5), chooser.randrange(5)
            batch.append((*ends, chooser.choice("abccc"), time - chooser.choice((0, 0, 3, 40)), chooser.choice("+++-")))
        source, target, label, timestamp, op = (list(column) for column in zip(*batch, strict=True))
        columns = {"source": source, "target": target, "label": label, "timestamp": timestamp, "op": op}
        packed = [one["edges"][0].as_py() for one in pack([pa.record_batch(columns)], queries)]
        found: Counter = Counter()
        for key, tester in testers.items():
            found.update(changes_in(tester.testInPandas(key, pd.DataFrame({"edges": packed}))))
        assert found == Counter(engine.push_rows(in_order(batch)).rows())
        assert testers[keys[0]].peekValueState("record", keys[0])[5] == engine.time


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_tuples_wait_for_earlier_ones(seed: int):
    """With a delay as large as the disorder the rows are those of the sorted stream, but for what still waits."""
    chooser, delay = random.Random(seed), 6
    questions = [query("a/b*", size=30, slide=7, semantics="explicit"), query("(a|c)+", size=9, slide=4)]
    rows = []
    for number in range(150):
        ends = chooser.randrange(6), chooser.randrange(6)
        rows.append((*ends, chooser.choice("abcz"), number // 3, chooser.choice("+++-")))
    shuffled = [row for _, row in sorted((row[3] + chooser.random() * delay, row) for row in rows)]
    numbers = {key: number for number, key in enumerate(partition_keys(2))}
    options = {"numbers": numbers, "memory_limit": None, "max_delay": delay}
    testers = {key: TwsTester(AnswerChanges(questions, **options)) for key in numbers}
    found: Counter = Counter()
    begin = come = 0
    while begin < len(shuffled):
        end = begin + chooser.randrange(1, 12)
        packed = envelopes(shuffled[begin:end], [rows.index(row) for row in shuffled[begin:end]])
        for key, tester in testers.items():
            found.update(changes_in(tester.testInPandas(key, packed)))
        come += len(shuffled[begin:end])
        begin = end
    watermark = max(row[3] for row in rows) - delay
    applied = [row for row in rows if row[3] <= watermark]
    applied.sort(key=lambda row: (row[3], rows.index(row), row[4] == "+"))
    assert found == Counter(rpq.Engine(*questions).push_rows(applied).rows())
    assert come == 150
    key = next(iter(testers))
    assert sum(len(unpacked_rows(one)) for one in testers[key].peekMapState("waiting", key).values()) == 150 - len(applied)


def unpacked_rows(value: tuple[bytes]) -> Any:
    from rpq.spark.envelopes import unpack

    return unpack([value[0]])


def test_a_bad_tuple_is_told_with_its_place():
    columns = {"source": ["x", "y"], "target": ["y", None], "label": ["a", "a"], "timestamp": [1, 2], "op": ["+", "+"]}
    places = {"file": ["s3a://bucket/in/7.parquet"] * 2, "row": [40, 41]}
    with pytest.raises(rpq.InputError, match=r"s3a://bucket/in/7\.parquet: row 42: column 'target': .*source 'y'"):
        list(pack([pa.record_batch(columns | places)]))


@pytest.mark.parametrize("column", ["target", "label"])
def test_text_that_is_not_utf8_is_told(column: str):
    binary = pa.array([b"a", b"M\xfcller"], pa.binary())
    text = pa.StringArray.from_buffers(2, *binary.buffers()[1:])  # as Spark's text, which may have any bytes
    columns = {"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [1, 2], "op": ["+", "+"]}
    with pytest.raises(rpq.InputError, match=rf"column '{column}': b'M\\xfcller' is not UTF-8 text \(the tuple: source 'x'"):
        list(pack([pa.record_batch({**columns, column: text})]))


def test_partitions_have_tasks_of_their_own():
    from rpq.spark.division import spark_hash

    for count in (1, 2, 5, 16, 200):
        assert [spark_hash(key) % count for key in partition_keys(count)] == list(range(count))


LENGTHS = ("source", "target", "length")
VALUE_QUERIES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "triple": [
        ("a[n > 1]/b*", {}),
        ("(a|b[n <= 2])+", {"semantics": "implicit"}),
        ("?x a[n > 1] ?y . ?y b ?z", {"select": ("x", "y")}),
        ("?x ?e:a ?y", {"select": ("x", "e.n")}),
        ("?x ?e:a ?y", {"select": ("y", "e.timestamp")}),
        ("a[n > 0]/b*", {"select": LENGTHS}),
        ("(a|b)+", {"select": LENGTHS}),
    ],
    "parallel": [
        ("a[n > 1]/b*", {}),
        ("(a|b)+", {"order": "increasing"}),
        ("a/(a|b)*", {"select": LENGTHS}),
        ("a[n > 0]/(a|b)", {"order": "non_decreasing", "max_gap": 4, "semantics": "implicit"}),
        ("?x ?e:a ?y . ?y ?f:(a|b) ?z", {"select": ("x", "y"), "filter": "?f.n >= ?e.n and ?x <> ?z"}),
        ("?x ?e:a ?y . ?y ?f:b ?z", {"select": ("x", "e.timestamp", "f.timestamp")}),
    ],
    "id": [
        ("a[n > 1]/b*", {}),
        ("(a|b)+", {"order": "increasing", "max_span": 6, "semantics": "implicit"}),
        ("?x a[n > 1] ?y . ?y b ?z", {"select": ("x", "y"), "distinct": True}),
        ("!(a)/b?", {}),
        ("?x ?e:(a|b) ?y", {"select": ("x", "e", "e.timestamp")}),
        ("?x ?e:a ?y . ?y ?f:b ?z", {"select": ("e", "f", "z")}),
    ],
}


@st.composite
def streams_with_values(draw: Any) -> list[list[tuple]]:
    """Micro-batches of a stream of (source, target, label, timestamp, op, n, edge, sequence)."""
    time, batches, there, sequences = 0, [], [], 0
    for _ in range(draw(st.integers(2, 6))):
        batch = []
        for _ in range(draw(st.sampled_from((1, 2, 4, 8)))):
            timestamp = time + draw(STEPS)
            time = max(time, timestamp)
            sequences += draw(st.sampled_from((0, 1, 1, 1)))
            values = draw(st.sampled_from((None, 0, 1, 2, 3))), draw(st.sampled_from("ijklm"))
            if there and draw(st.integers(0, 4)) == 0:
                ends, named = draw(st.sampled_from(there)), draw(st.sampled_from((None, "i", "j")))
                batch.append((*ends, timestamp, "-", values[0], named, sequences))
                continue
            edge = (draw(st.sampled_from("vwxy")), draw(st.sampled_from("vwxy")), draw(st.sampled_from("aaabbcz")))
            there.append(edge)
            batch.append((*edge, timestamp, "+", *values, sequences))
        batches.append(draw(st.permutations(batch)))
    return batches


class ValuePartitions(Partitions):
    """All partitions of queries that read values of edges."""

    def __init__(self, *queries: rpq.Query, partitions: int, identity: Any, delay: int = 0) -> None:
        self.model = edge_model(queries, identity, "string", time_unit=None, properties={"n": "bigint", "edge": "string"})
        self.delay = delay
        self.workers: dict[str, EngineCache] = {}
        self._begin(queries, partitions)

    def _begin(self, queries: Sequence[rpq.Query], partitions: int, moved: MovedState | None = None) -> None:
        self.queries, self.keys = queries, partition_keys(partitions)
        self.readers = None if self.model.has_ids or self.delay else label_readers(queries)
        numbers = {key: number for number, key in enumerate(self.keys)}
        state = None if moved is None else SimpleNamespace(value=moved)
        options = {"numbers": numbers, "memory_limit": None, "edges": self.model, "max_delay": self.delay, "moved": state}
        self.testers = {key: TwsTester(AnswerChanges(queries, **options)) for key in self.keys}

    def rescale(self, *added: rpq.Query, partitions: int) -> None:
        """Go on with other shares and further queries, as the driver lets it."""
        (key, tester), record = next(iter(self.testers.items())), self.record()
        logs = []
        for one, its_tester in self.testers.items():
            chunks = MemoryChunks({place: data for place, (data,) in its_tester.peekMapState("window", one).items()})
            its = self.record(one)
            logs.append(
                WindowLog(chunks=chunks, queries=self.queries, model=self.model, parts=its.log_parts(), order=its.order)
            )
        check_missing_edges(added, self.queries, time=record.time)
        moved = MovedState.from_logs(
            logs,
            waiting=[data for (data,) in tester.peekMapState("waiting", key).values()] if self.delay else [],
            figures={name: getattr(record, name) for name in ("version", "time", "tuples", "late")},
            identity=record.identity,
            added=added,
        )
        self._begin([*self.queries, *added], partitions, moved)

    def push(self, rows: list[tuple], worker: str = "one", sequence: Any = None) -> Counter:
        processor.cache = self.workers.setdefault(worker, EngineCache())
        found: Counter = Counter()
        for key, tester in self.testers.items():
            # Each share gets the parts of a micro-batch in an order of its own.
            parts = [rows[place::2] for place in (key % 2, 1 - key % 2)]
            frames = [self._batch(part) for part in parts if part]
            packed = [one["edges"][0].as_py() for part in frames for one in Packer(self.readers, self.model.columns)([part])]
            found.update(changes_in(tester.testInPandas(key, pd.DataFrame({"edges": packed}))))
        return found

    def _batch(self, rows: list[tuple]) -> Any:
        columns = tuples_with_values(rows)
        there = [*(name for name in columns.column_names if name not in ("n", "edge")), *self.model.columns]
        names = {name: numbered_property(place) for place, name in enumerate(self.model.columns)}
        (batch,) = columns.select(there).rename_columns([names.get(name, name) for name in there]).to_batches()
        return batch


def tuples_with_values(rows: list[tuple]) -> Any:
    names = ("source", "target", "label", "timestamp", "op", "n", "edge", "sequence")
    types = {"timestamp": pa.int64(), "n": pa.int64(), "edge": pa.string(), "sequence": pa.int64()}
    columns = zip(names, map(list, zip(*rows, strict=True)), strict=True)
    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns})


def in_order_of_values(rows: list[tuple], *, has_ids: bool) -> list[tuple]:
    """The order in which a micro-batch is applied: by sequence, and tuples of one sequence by their values."""

    def key(row: tuple) -> tuple:
        source, target, label, timestamp, op, n, edge, sequence = row
        ranks = [(value is None, value or 0) for value in ([edge, n] if has_ids else [n])]
        return (timestamp, sequence, op == "+", *ranks, label, target, source)

    return sorted(rows, key=key)


@pytest.mark.parametrize("identity", VALUE_QUERIES)
def test_random_streams_of_values(identity: Any):
    """Rows are those of the engine, whichever worker has which engine, and in whichever order tuples reach a share.

    So they are with other shares and one more query, without values, in mid-stream.
    """

    @examples(25)
    @given(data=st.data(), batches=streams_with_values(), partitions=st.sampled_from((1, 2)))
    def check(data: Any, batches: list[list[tuple]], partitions: int) -> None:
        size, slide = data.draw(st.sampled_from(((1, 1), (10, 3), (4, 7), (100, 1), (30, 30))))
        described = data.draw(st.sampled_from(VALUE_QUERIES[identity]))
        asked = [query(described[0], size=size, slide=slide, **{"semantics": "explicit", **described[1], "name": "q"})]
        further = [query("b/a?", size=10, slide=3, name="other")] if asked[0].columns == ("source", "target") else []
        parts = ValuePartitions(*asked, partitions=partitions, identity=identity)
        # Edges that `keep` retains are not late where edges have neither an identity nor properties.
        keep = rpq.Window(size=300, slide=1) if further else None
        engine = rpq.Engine(*asked, edges=identity, keep=keep)
        late = 0
        for number, batch in enumerate(batches):
            worker = data.draw(st.sampled_from(("one", "one", "two", "three", f"new {number}")))
            first: Counter = Counter()
            if number and data.draw(st.integers(0, 3)) == 0:
                try:
                    parts.rescale(*further, partitions=data.draw(st.sampled_from((1, 2, 5))))
                except PipelineError as error:
                    assert "its window would contain edges" in str(error)
                else:
                    if further:
                        first = Counter(map(tuple, engine.register(further).rows()))
                    further = []
            if data.draw(st.integers(0, 4)) == 0:
                parts.fail(data.draw(st.sampled_from(batches)), worker)
            tuples = tuples_with_values(in_order_of_values(batch, has_ids=identity == "id")).drop_columns(["sequence"])
            changes = engine.push(tuples if identity == "id" else tuples.drop_columns(["edge"]))
            late += len(changes.late_rows)
            assert parts.push(batch, worker) == first + Counter(
                tuple(row.values()) for table in changes.tables() for row in table.to_pylist()
            )
        record = parts.record()
        assert (record.time, record.late, record.tuples) == (engine.time, late, sum(map(len, batches)))

    check()


def test_a_delete_with_an_id_needs_no_names():
    asked = query("a/b*", size=10, slide=1, semantics="explicit", name="q")
    inserts = [("x", "y", "a", 1, "+", None, "i", 1), ("y", "z", "b", 2, "+", None, "j", 2)]
    rows = [*inserts, (None, None, None, 3, "-", None, "j", 3), (None, None, None, 4, "-", None, "i", 4)]
    parts, engine = ValuePartitions(asked, partitions=2, identity="id"), rpq.Engine(asked, edges="id")
    changes = engine.push(tuples_with_values(rows).drop_columns(["n", "sequence"]))
    expected = Counter(tuple(row.values()) for table in changes.tables() for row in table.to_pylist())
    assert expected.total() == 4
    assert parts.push(rows) == expected
    assert parts.push(inserts[:1], worker="another").total() == 1  # its engine is built from the log
    with pytest.raises(rpq.InputError, match="column 'source': a tuple has no source"):
        parts.push([(None, "y", "a", 5, "-", None, None, 5)])


def test_parts_of_a_window_have_a_largest_size(monkeypatch):
    """Also if a single bucket has the whole window, whatever micro-batches bring."""
    monkeypatch.setattr("rpq.spark.stream.window_log.PART_ROWS", 8)
    log = WindowLog(chunks=MemoryChunks(), queries=[query("a", size=100, slide=100)])
    for start, end in (*((n, n + 3) for n in range(0, 60, 3)), (60, 80)):
        names = [f"v{n}" for n in range(start, end)]
        edges = {"source": names, "target": names, "label": ["a"] * len(names), "timestamp": list(range(start, end))}
        log.append(pa.table({**edges, "delete": [False] * len(names)}), time=end - 1)
    (parts,) = log.parts.values()
    assert sum(rows for rows, _ in parts) == 80 and max(rows for rows, _ in parts) <= 8
    assert [row["timestamp"] for row in log.window(time=79).to_pylist()] == list(range(80))


def test_tuples_with_long_names_have_smaller_envelopes(monkeypatch):
    monkeypatch.setattr("rpq.spark.envelopes.BYTES", 1000)
    edge = {"source": ["x" * 600], "target": ["y" * 600], "label": ["a"], "timestamp": [1], "op": ["+"]}
    assert [len(packed) for packed in pack([pa.record_batch(edge)] * 3)] == [1, 1, 1]
    monkeypatch.undo()
    assert [len(packed) for packed in pack([pa.record_batch(edge)] * 3)] == [1]
