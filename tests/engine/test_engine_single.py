"""One tuple at a time gives what batches give: by insert and delete, in a list of one, in a record batch of one row.

semantics.md S4, S5, S7
"""

import random

import pyarrow as pa
import pytest

import rpq

WINDOW = rpq.Window(size=20, slide=4)
QUERIES = {
    "walks": [rpq.Query("a/b*", window=WINDOW, semantics="explicit")],
    "restricted": [rpq.Query("a/b*", window=WINDOW, sources=["v1", "v2"], targets=["v3", "v4", "v5"])],
    "simple": [rpq.Query("a/b*/c", window=WINDOW, paths="simple", semantics="explicit")],
    "several": [
        rpq.Query("(a|b)+", window=WINDOW, name="one", semantics="explicit"),
        rpq.Query("a/^c", window=rpq.Window(size=7, slide=1), name="two"),
    ],
    "patterns": [
        rpq.Query("?x a ?y . ?y b ?z . ?z c ?w", window=WINDOW, name="chain", semantics="explicit"),
        rpq.Query("?x a ?y . ?y a ?x", window=rpq.Window(size=7, slide=1), name="cycle"),
        rpq.Query("a/b*", window=WINDOW, name="path", semantics="explicit"),
    ],
    "sparql": [
        rpq.Query("SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x", window=WINDOW, name="n", semantics="explicit"),
        rpq.Query("SELECT DISTINCT ?x ?z { ?x <a> ?y . ?y <b> ?z }", window=WINDOW, name="join", semantics="explicit"),
        rpq.Query(
            "SELECT ?x (MIN(?y) AS ?l) (COUNT(DISTINCT ?z) AS ?n) { ?x <a> ?y OPTIONAL { ?y <b> ?z } } GROUP BY ?x",
            window=WINDOW,
            name="least",
            semantics="explicit",
        ),
        rpq.Query(
            "SELECT ?x ?z { ?x <a> ?y OPTIONAL { ?z <c> ?u FILTER(?u > ?y) } }",
            window=WINDOW,
            name="values",
            semantics="explicit",
        ),
    ],
}


def stream(seed: int, count: int, vertices: int = 9) -> list[tuple[str, str, str, int, str]]:
    """Tuples with deletes, some late, some out of order, some with a label that no query uses."""
    rng = random.Random(seed)
    return [
        (
            f"v{rng.randrange(vertices)}",
            f"v{rng.randrange(vertices)}",
            rng.choice("aabbcz"),
            number // 3 - rng.choice([0, 0, 0, 1, 2, 30]),
            rng.choice("++++-"),
        )
        for number in range(count)
    ]


def one_by_one(engine: rpq.Engine, tuples: list[tuple[str, str, str, int, str]]) -> list[rpq.Change]:
    """Return the engine's changes for each tuple, pushed in every way in which a single one can be."""
    rows: list[rpq.Change] = []
    for number, (source, target, label, timestamp, op) in enumerate(tuples):
        way = number % 4
        if way == 0:
            changes = (engine.insert if op == "+" else engine.delete)(source, target, label, timestamp)
        elif way == 1:
            changes = engine.push_rows([(source, target, label, timestamp, op)])
        else:
            columns = {"source": [source], "target": [target], "label": [label], "timestamp": [timestamp], "op": [op]}
            changes = engine.push(columns if way == 2 else pa.RecordBatch.from_pydict(columns))
        in_tables = sum(table.num_rows for table in changes.tables())
        assert len(changes) == len(changes.rows()) == in_tables == changes.added + changes.removed
        rows += sorted(changes.rows(), key=lambda row: (row.timestamp, row.op, repr(row)))
        engine._check()
    return rows


@pytest.mark.parametrize(("kind", "threads"), [*((kind, 1) for kind in QUERIES), ("walks", 2), ("patterns", 2)])
def test_single_tuples_give_the_rows_of_a_batch(kind: str, threads: int) -> None:
    tuples = stream(seed=2, count=300)
    single, batch = (rpq.Engine(*QUERIES[kind], threads=threads, _capacity=1) for _ in range(2))
    rows = one_by_one(single, tuples)
    expected = batch.push_rows(tuples).rows()
    assert sorted(rows, key=repr) == sorted(expected, key=repr) and len(rows) > 5
    assert [row.timestamp for row in rows] == [row.timestamp for row in expected]
    for query in QUERIES[kind]:
        assert single.answers(query.name).pairs() == batch.answers(query.name).pairs()
    left, right = single.statistics(), batch.statistics()
    for count in ("tuples", "inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant", "rows_added"):
        assert getattr(left, count) == getattr(right, count), count


def test_integers_singly() -> None:
    single, batch = (rpq.Engine(rpq.Query("a+", window=WINDOW), _capacity=1) for _ in range(2))
    tuples = [(int(s[1:]) - 4, int(t[1:]) * 2**58, label, time, op) for s, t, label, time, op in stream(seed=2, count=200)]
    assert sorted(one_by_one(single, tuples)) == sorted(batch.push_rows(tuples).rows())


@pytest.mark.parametrize(("has_integers", "terms"), [(False, True), (True, False)], ids=["text", "integers"])
def test_columns_of_terms_singly(has_integers: bool, terms: bool) -> None:
    window = rpq.Window(size="20s", slide="4s")
    questions = [
        rpq.Query("SELECT ?x ?z (STR(?y) AS ?s) { ?x <a> ?y OPTIONAL { ?y <b> ?z } }", window=window, name="optional"),
        rpq.Query("SELECT (COUNT(*) AS ?n) (AVG(?y) AS ?m) { ?x <a> ?y }", window=window, name="one group"),
        rpq.Query("REGISTER RSTREAM <r> AS SELECT ?x { ?x <a> ?y }", window=window, name="whole"),
        rpq.Query("?x a ?y . ?y b ?z", window=window, name="pattern"),
    ]
    single, batch = (rpq.Engine(*questions, time_unit="s", _capacity=1) for _ in range(2))
    tuples = [one for one in stream(seed=9, count=100) if one[3] >= 0]
    if has_integers:
        tuples = [(int(s[1:]), int(t[1:]), label, time, op) for s, t, label, time, op in tuples]
    found = []
    for source, target, label, timestamp, op in tuples:
        changes = (single.insert if op == "+" else single.delete)(source, target, label, timestamp)
        found += [row for table in changes.tables(terms=terms) for row in table.to_pylist()]
    single._check()
    expected = [row for table in batch.push_rows(tuples).tables(terms=terms) for row in table.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert {row["op"] for row in found} == {"+", "-", "="} and len({row["query"] for row in found}) == 4


def test_only_so_many_names_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpq.stream.names.vertices._MAX_REMEMBERED", 5)
    test_single_tuples_give_the_rows_of_a_batch("patterns", 1)


def test_many_rows_of_one_tuple() -> None:
    engine = rpq.Engine(rpq.Query("a/a", window=WINDOW))
    for number in range(300):
        engine.insert(f"s{number}", "hub", "a", 0)
    changes = engine.insert("hub", "end", "a", 1)
    assert sorted(changes.rows()) == sorted(rpq.Change("a/a", f"s{n}", "end", 1, "+") for n in range(300))


def test_a_witness_comes_with_single_tuples_too() -> None:
    engine = rpq.Engine(rpq.Query("a/b", window=WINDOW), witness=True)
    engine.insert("x", 'y "quoted"', "a", 0)
    table = engine.insert('y "quoted"', "ż", "b", 0).to_arrow(witness=True)
    assert table["path"].to_pylist() == [rpq.Path(("x", 'y "quoted"', "ż"), ("a", "b")).to_json()]


@pytest.mark.parametrize(
    "values",
    [
        ("x\ud800", "y", "a", 3),
        ("x", "y", "\ud800", 3),
        ("x", 4, "a", 3),
        ("x", "y", "a", 2**63),
        ("x", "y", None, 3),
        ("x", "y", "a", True),
    ],
)
def test_what_is_not_well_formed_changes_nothing(values: tuple) -> None:
    engine = rpq.Engine(rpq.Query("a", window=WINDOW))
    engine.insert("x", "y", "a", 1)
    with pytest.raises(rpq.InputError):
        engine.insert(*values)
    engine._check()
    assert engine.statistics().tuples == 1 and engine.answers().pairs() == {("x", "y")}
    assert engine.insert("y", "x", "a", 2).rows() == [rpq.Change("a", "y", "x", 2, "+")]


def test_the_memory_limit_ends_a_single_tuple() -> None:
    engine = rpq.Engine(rpq.Query("a*", window=WINDOW), memory_limit=2_000_000)
    with pytest.raises(rpq.MemoryLimitError) as caught:
        for number in range(10**6):
            engine.insert(f"v{number % 997}", f"v{number * 7 % 991}", "a", 0)
    assert caught.value.row == 0 and caught.value.changes.rows() == []
    with pytest.raises(rpq.RpqError, match="middle of a tuple"):
        engine.insert("x", "y", "a", 0)
