"""Pushes of a hundred tuples: the calls of Python that each costs, and rows that do not depend on how they were made."""

from __future__ import annotations

import datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

import rpq
from rpq.engine.running import evaluation
from tests.calls import counted_calls
from tests.twins import examples

WINDOW = rpq.Window(size=10, slide=2)
FRIENDS = (
    "SELECT ?friend ?post FROM NAMED WINDOW <posted> ON <posts> [RANGE PT5S] "
    "WHERE { WINDOW <posted> { ?friend <creator_of> ?post } ?user <knows> ?friend . ?user <account_of> <p1> }"
)


def slide_of_posts(number: int) -> pa.RecordBatch:
    """Return 130 triples of a tenth of a second, of which some are posts of a friend."""
    places = range(130)
    labels = ["creator_of", "title", "likes", "tag", "place"]
    names = [f"posts {number} {place}" for place in places]
    return pa.record_batch(
        {
            "source": [f"u{place % 40}" for place in places],
            "target": names,
            "label": [labels[place % len(labels)] for place in places],
            "timestamp": pa.array([100 * number + place % 100 for place in places]),
            "stream": ["posts" if place % 3 else "likes" for place in places],
        }
    )


def test_the_calls_of_a_push_are_few() -> None:
    engine = rpq.Engine(rpq.Query(FRIENDS, name="q", semantics="explicit"), time_unit="ms")
    engine.load_static([("u", "u0", "knows"), ("u", "p1", "account_of")])
    for number in range(60):  # until the window is full, and ids come again
        engine.push(slide_of_posts(number)).to_arrow()
    counts = []
    for number in range(60, 70):
        batch = slide_of_posts(number)
        with counted_calls() as calls:
            rows = engine.push(batch).to_arrow()
        counts.append(calls.count)
        assert len(rows)
    assert sorted(counts)[5] < 600


def test_the_calls_of_an_insert_are_few() -> None:
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y b ?z", name="q", window=rpq.Window(size=200, slide=50)))
    counts, rows = [], 0
    for number in range(500):
        edge = str(number % 30), str(7 * number % 31), "ab"[number % 2]
        with counted_calls() as calls:
            changes = engine.insert(*edge, number)
        counts.append(calls.count)
        rows += changes.added
    assert rows > 100
    assert sorted(counts[300:])[100] < 175


QUESTIONS = {
    "path": "a/b*",
    "pattern": "?x a ?y . ?y b ?z",
    "sparql": "SELECT ?x ?y { ?x <a> ?z . ?z <b> ?y }",
    "renamed": "SELECT (?z AS ?m) ?x { ?x <a> ?z . ?z <b> ?y }",
    "unbound": "SELECT ?x ?y { ?x <a> ?z OPTIONAL { ?z <b> ?y } }",
    "counts": "SELECT ?y (COUNT(*) AS ?n) (MAX(?x) AS ?most) { ?x <a> ?y } GROUP BY ?y",
    # Vertices, numbers that groups compute, a term of the query, and unbound variables.
    "mixed": """SELECT ?x ?y (AVG(STRLEN(STR(?x))) AS ?mean) (SAMPLE(?word) AS ?some)
        { ?x <a> ?y OPTIONAL { ?y <b> ?z BIND("word" AS ?word) } } GROUP BY ?x ?y""",
    # Lists and values that only the columns of a result can hold, of edges without properties.
    "match": "MATCH (x)-[:a]->(y) RETURN y, collect(x) AS xs, CASE WHEN count(*) > 1 THEN 2.5 END AS half",
}
COLUMNS = ("source", "target", "label", "timestamp", "op")
BATCHES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("ab"), st.integers(0, 3), st.sampled_from("+++-")),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=5,
)


def results(changes: rpq.Changes) -> list[Any]:
    """Return everything that changes give, in every form."""
    tables = [changes.to_arrow(name) for name in changes._queries.names]
    if changes._queries.common_schema is not None:
        tables.append(changes.to_arrow())
    tables += [*changes.tables(), *changes.tables(terms=True)]
    return [
        sorted(map(repr, changes.rows())),
        changes.added,
        changes.removed,
        len(changes),
        [(table.schema.names, table.schema.types, sorted(map(repr, table.to_pylist()))) for table in tables],
    ]


@given(
    BATCHES,
    st.lists(st.sampled_from(sorted(QUESTIONS)), min_size=1, max_size=2, unique=True),
    st.sampled_from(["integers", "texts"]),
    st.sampled_from(["numbers", "times"]),
    st.sampled_from([{}, {"semantics": "explicit"}, {"report": "slide"}]),
)
@example([[(1, 2, "a", 1, "+")]], ["match"], "texts", "numbers", {})
@examples(50)
def test_few_rows_are_those_that_columns_have(
    batches: list[Any], names: list[str], kind: str, clock: str, options: dict[str, Any]
) -> None:
    window = WINDOW if clock == "numbers" else rpq.Window(size="10s", slide="2s")
    start = datetime.datetime(2026, 1, 1)
    options = {} if "path" in names and "report" in options else options
    queries = [
        rpq.Query(QUESTIONS[name], window=window, name=name, language="cypher" if name == "match" else None, **options)
        for name in names
    ]
    both = [rpq.Engine(*queries), rpq.Engine(*queries)]
    time = 0
    for batch in batches:
        rows: list[Any] = []
        for source, target, label, more, op in batch:
            time += more
            ends = (source, target) if kind == "integers" else (f"v{source}", f"v{target}")
            rows.append((*ends, label, time if clock == "numbers" else start + datetime.timedelta(seconds=time), op))
        columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        found = []
        for engine, few in zip(both, (evaluation.FEW_OF_CHUNK, 0), strict=True):
            with patch.object(evaluation, "FEW_OF_CHUNK", few):
                found.append(results(engine._push(columns, collect=True)))
        assert found[0] == found[1]


@given(
    st.lists(
        st.tuples(st.sampled_from(["list", "array", "dictionary"]), st.lists(st.integers(0, 5), min_size=1, max_size=9)),
        min_size=1,
        max_size=20,
    ),
    st.booleans(),
)
@examples(50)
def test_labels_and_streams_mean_the_same_in_every_layout(pushes: list[tuple[str, list[int]]], are_many: bool) -> None:
    """Labels are forgotten here, and their ids given to others; with many streams these are looked up another way."""
    window = rpq.Window(size=9, slide=1)
    of_stream = "SELECT ?x ?y FROM NAMED WINDOW <w> ON <s1> [RANGE 9] { WINDOW <w> { ?x <l1> ?y } }"
    queries = [rpq.Query("SELECT ?x ?y { ?x <l0> ?y }", window=window, name="all"), rpq.Query(of_stream, window=window)]
    both = [rpq.Engine(*queries, _capacity=1), rpq.Engine(*queries, _capacity=1)]
    time = 0
    for layout, numbers in pushes:
        time += 3
        columns = {
            "source": [f"v{number}" for number in numbers],
            "target": [f"w{time}" for _ in numbers],
            "label": [f"l{number}" if number < 3 else f"l{number} {time} {at}" for at, number in enumerate(numbers)],
            "stream": [f"s{number % 2}" if number < 4 or not are_many else f"s{time} {number}" for number in numbers],
        }
        laid_out: dict[str, Any] = columns
        if layout != "list":
            laid_out = {name: pa.array(column) for name, column in columns.items()}
        if layout == "dictionary":
            laid_out |= {name: laid_out[name].dictionary_encode() for name in ("label", "stream")}
        stamps = [time] * len(numbers)
        one = both[0].push({**laid_out, "timestamp": stamps})
        others = [
            both[1].push({**{name: column[at : at + 1] for name, column in columns.items()}, "timestamp": [time]})
            for at in range(len(numbers))
        ]
        assert sorted(map(repr, one)) == sorted(repr(row) for other in others for row in other)
        both[0]._check()
    assert both[0].answers("all").pairs() == both[1].answers("all").pairs()


OF_BATCHES = [
    "SELECT ?x ?y { ?x <a> ?z . ?z <b> ?y }",
    "SELECT ?x { ?x <c> <v1> . <v2> <c> ?x }",
    "SELECT ?x { ?x <d> ?x }",
    "SELECT ?x ?y FROM NAMED WINDOW <w> ON <s> [RANGE 9] { WINDOW <w> { ?x <a> ?y . ?y <c> <é> } }",
]
NAMES = ["v1", "v2", "é", "v" * 9, "w" * 17]
PROBLEMS = [b"", b"\xff", None]


@given(
    st.lists(
        st.lists(
            st.tuples(*[st.sampled_from(NAMES)] * 2, st.sampled_from("abcde"), st.integers(-9, 3), st.sampled_from("stu")),
            min_size=1,
            max_size=9,
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from(OF_BATCHES), min_size=1, max_size=3, unique=True),
    st.none() | st.tuples(st.integers(0, 3), st.integers(0, 8), st.sampled_from(PROBLEMS)),
    st.booleans(),
    st.integers(0, 2),
)
@examples(60)
def test_a_small_batch_means_what_a_table_of_any_kind_does(
    pushes: list[list[Any]], texts: list[str], problem: tuple[int, int, Any] | None, have_streams: bool, sliced: int
) -> None:
    """Names that are missing, empty or no UTF-8 are in the last push, in a column with the number that `problem` gives."""
    queries = [rpq.Query(text, window=rpq.Window(size=9, slide=2), name=f"q{text}") for text in texts]
    one, other = (rpq.Engine(*queries, _capacity=1) for _ in range(2))
    time = 0
    for number, rows in enumerate(pushes):
        columns: list[list[Any]] = [[row[place].encode() for row in rows] for place in (0, 1, 2, 4)]
        if problem is not None and number == len(pushes) - 1:
            column, row, text = problem
            columns[column][row % len(rows)] = text
        stamps = [time + row[3] for row in rows]
        time += 4
        names = ["source", "target", "label", "stream"][: 4 if have_streams else 3]
        arrays = [pa.array([b"-"] * sliced + column, pa.binary()).view(pa.string()) for column in columns[: len(names)]]
        batch = pa.record_batch([*arrays, pa.array([0] * sliced + stamps)], [*names, "timestamp"]).slice(sliced)
        found = []
        for engine, data in ((one, batch), (other, pa.Table.from_batches([batch]))):
            try:
                changes, error = engine.push(data), None
            except rpq.InputError as refused:
                changes, error = refused.changes, (refused.row, str(refused))
            engine._check()
            found.append((sorted(map(repr, changes)), changes.late_rows.tolist(), engine.time, error))
        assert found[0] == found[1]
    assert one.statistics().tuples == other.statistics().tuples
    for query in queries:
        assert one.answers(query.name).pairs() == other.answers(query.name).pairs()
