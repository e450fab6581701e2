"""The engine as a person meets it: what may be pushed, what comes back, and what an error says and leaves.

semantics.md S1
"""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rpq
from rpq import automata
from rpq.engine.state.sealed import HEADER_BYTES, seal
from rpq.engine.state.state_layout import STATE
from tests.services.environments import ROOT, run
from tests.twins import row

WINDOW = rpq.Window(size=10, slide=1)
COLUMNS = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": [1, 2]}
EXPECTED = [("q", "x", "y", 1, "+"), ("q", "x", "z", 2, "+")]


def ask(expression: str = "a/b*", **options: Any) -> rpq.Query:
    return rpq.Query(expression, **{"window": WINDOW, "name": "q", **options})


@pytest.fixture
def engine() -> rpq.Engine:
    return rpq.Engine(ask())


# --- what may be pushed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pa.table(COLUMNS),
        pa.record_batch(COLUMNS),
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS, index=[7, 7]),
        pd.DataFrame(COLUMNS).astype({"source": "string", "target": "category", "label": "category", "timestamp": "int32"}),
        COLUMNS,
        {name: np.array(column) for name, column in COLUMNS.items()},
        {name: tuple(column) for name, column in COLUMNS.items()},
        {name: pd.Series(column) for name, column in COLUMNS.items()},
        {name: pa.chunked_array([column[:1], column[1:]]) for name, column in COLUMNS.items()},
        pa.table(COLUMNS).cast(
            pa.schema(
                {"source": pa.large_string(), "target": pa.string(), "label": pa.large_string(), "timestamp": pa.uint64()}
            )
        ),
        pa.table({**COLUMNS, "source": pa.array(COLUMNS["source"], pa.string_view())}),
        pa.table({name: pa.array(c).dictionary_encode() if name != "timestamp" else c for name, c in COLUMNS.items()}),
        pa.table({**COLUMNS, "op": ["+", "+"]}),
        pa.table({**COLUMNS, "op": pa.array(["+", "+"]).dictionary_encode()}),
        pa.table({**COLUMNS, "delete": [False, False]}),
        pa.table({"weight": [0.5, 0.7], **COLUMNS}),
        pa.table(
            {
                name: pa.array(c, pa.string_view()) if name != "timestamp" else c
                for name, c in {**COLUMNS, "op": ["+", "+"]}.items()
            }
        ),
        {**COLUMNS, "source": pa.array(["w", "x", "y"])[1:]},
    ],
    ids=lambda data: type(data).__name__,
)
def test_forms_of_a_batch(engine: rpq.Engine, data: Any) -> None:
    assert [tuple(change) for change in engine.push(data)] == EXPECTED


def test_columns_by_keyword_rows_and_single_tuples(engine: rpq.Engine) -> None:
    assert engine.push(**COLUMNS).rows() == EXPECTED
    assert rpq.Engine(ask()).push_rows(zip(*COLUMNS.values(), strict=True)).rows() == EXPECTED
    assert rpq.Engine(ask()).push_rows([("x", "y", "a", 1, "+"), ["y", "z", "b", 2]]).rows() == EXPECTED
    one = rpq.Engine(ask())
    assert [*one.insert("x", "y", "a", 1), *one.insert("y", "z", "b", 2)] == EXPECTED
    assert one.delete("y", "z", "b", 3).rows() == [("q", "x", "z", 3, "-")]
    with pytest.raises(rpq.InputError, match="not as both"):
        engine.push(COLUMNS, **COLUMNS)


def test_a_reader_is_run_batch_by_batch(engine: rpq.Engine) -> None:
    table = pa.table(COLUMNS)
    assert [changes.rows() for changes in engine.run([table[:1], table[1:]])] == [EXPECTED[:1], EXPECTED[1:]]


def test_empty_batches(engine: rpq.Engine) -> None:
    for data in (pa.table(COLUMNS)[:0], {name: [] for name in COLUMNS}, pd.DataFrame(COLUMNS)[:0]):
        changes = engine.push(data)
        assert len(changes) == 0 and changes.rows() == []
        assert changes.to_arrow().num_rows == 0
    assert engine.push_rows([]).rows() == []
    assert engine.time is None
    assert len(engine.answers()) == 0
    assert engine.witness("x", "y") is None
    assert engine.push(COLUMNS).rows() == EXPECTED


@pytest.mark.parametrize(("unit", "seconds"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_the_unit_of_an_engine_is_that_of_its_plain_windows(unit: str, seconds: int) -> None:
    day = 86_400 * seconds
    question = ask(window=rpq.Window(size=2 * day, slide=day))
    moment = datetime.datetime(2020, 1, 1, 12, 0, 0, 999_999)
    for given in (
        [moment, moment],
        [moment.replace(tzinfo=datetime.UTC)] * 2,
        pd.Series([moment, moment]),
        pa.array([moment, moment], pa.timestamp("ns")),
    ):
        engine = rpq.Engine(question, time_unit=unit)
        changes = engine.push({**COLUMNS, "timestamp": given})
        # Finer times are floored to the unit.
        microsecond = seconds * 999_999 // 10**6 * (10**6 // seconds) if seconds < 10**6 else 999_999
        expected = moment.replace(microsecond=microsecond)
        zone = datetime.UTC if getattr(given[0], "tzinfo", None) else None
        assert {change.timestamp for change in changes} == {expected.replace(tzinfo=zone)}
    engine = rpq.Engine(question, time_unit=unit)
    engine.push({**COLUMNS, "timestamp": [datetime.date(1969, 12, 31)] * 2})
    assert engine.time == datetime.date(1969, 12, 31)
    engine.advance(datetime.date(1970, 1, 2))
    assert engine.time == datetime.date(1970, 1, 2)
    assert len(engine.answers()) == 0


# --- what comes back --------------------------------------------------------------------------------------


def test_changes_as_tables_and_rows(engine: rpq.Engine) -> None:
    changes = engine.push(COLUMNS)
    table = changes.to_arrow()
    text, number = pa.string(), pa.int64()
    assert table.schema == pa.schema({"query": text, "source": text, "target": text, "timestamp": number, "op": text})
    assert table.to_pylist()[1] == {"query": "q", "source": "x", "target": "z", "timestamp": 2, "op": "+"}
    frame = changes.to_pandas()
    assert list(frame.columns) == ["query", "source", "target", "timestamp", "op"]
    assert frame["timestamp"].dtype == np.int64
    assert list(changes) == changes.rows() == EXPECTED
    assert changes.rows()[0].target == "y"
    assert (len(changes), changes.added, changes.removed) == (2, 2, 0)
    assert "2 added" in repr(changes)
    answers = engine.answers()
    assert answers.to_arrow().schema == pa.schema({"source": text, "target": text})
    assert answers.pairs() == {("x", "y"), ("x", "z")}
    assert sorted(answers.to_pandas().itertuples(index=False, name=None)) == [("x", "y"), ("x", "z")]


def test_integer_vertices_stay_integers() -> None:
    engine = rpq.Engine(ask(), witness=True)
    changes = engine.push(
        source=np.array([-(2**63), 5], np.int64), target=[5, 2**63 - 1], label=["a", "b"], timestamp=[1, 2]
    )
    assert changes.to_arrow().schema.field("source").type == pa.int64()
    assert changes.to_pandas()["target"].dtype == np.int64
    assert [tuple(c)[1:3] for c in changes] == [(-(2**63), 5), (-(2**63), 2**63 - 1)]
    assert json.loads(changes.to_arrow(witness=True)["path"][1].as_py()) == [-(2**63), "a", 5, "b", 2**63 - 1]
    assert engine.answers().to_arrow().schema.field("target").type == pa.int64()
    assert engine.witness(-(2**63), 5) == rpq.Path((-(2**63), 5), ("a",))
    assert engine.witness("5", 5) is None
    small = rpq.Engine(ask())
    small.push(
        source=np.array([1], np.int8), target=np.array([2], np.uint32), label=["a"], timestamp=np.array([3], np.uint16)
    )
    assert small.answers().pairs() == {(1, 2)}


def test_texts_are_themselves(engine: rpq.Engine) -> None:
    texts = [" ", "7", "007", " 7", "ü", "u\u0308", "日本", "\x00", "a\nb", "x" * 100_000]
    engine.push(source=texts, target=texts[::-1], label=["a"] * len(texts), timestamp=[1] * len(texts))
    assert engine.answers().pairs() == set(zip(texts, texts[::-1], strict=True))
    assert engine.witness(" ", "x" * 100_000) is not None


def test_without_collecting_changes_are_counted() -> None:
    engine = rpq.Engine(ask(semantics="explicit"))
    changes = engine.push(COLUMNS, collect=False)
    assert (len(changes), changes.added, changes.rows()) == (2, 2, [])
    assert engine.statistics().rows_added == 2


def test_late_rows(engine: rpq.Engine) -> None:
    # window of 10, slide 1:   . . . [11 ............ 20]      at 20: 10 is late, 11 is not; c is irrelevant
    rows = [("x", "y", "a", 20), ("x", "z", "a", 10), ("x", "w", "a", 11), ("x", "y", "c", 1), ("x", "y", "a", 0)]
    assert engine.push_rows(rows).late_rows.tolist() == [1, 4]
    assert engine.push_rows([("x", "v", "a", 5)]).late_rows.tolist() == [0]
    statistics = engine.statistics()
    assert (statistics.late, statistics.irrelevant, statistics.inserted, statistics.tuples) == (3, 1, 2, 6)


def test_paths_need_an_engine_that_keeps_them(engine: rpq.Engine) -> None:
    changes = engine.push(COLUMNS)
    with pytest.raises(ValueError, match="witness=True"):
        changes.to_arrow(witness=True)


def test_paths_end_with_deletions_in_the_batch() -> None:
    engine = rpq.Engine(ask("a|^b"), witness=True)
    rows = [
        ("x", "y", "a", 1),
        ("u", "v", "b", 1),
        ("x", "y", "a", 2, "-"),
        ("x", "z", "a", 2),
        ("v", "u", "b", 3, "-"),
        ("u", "v", "b", 3, "-"),
    ]
    table = engine.push_rows(rows).to_arrow(witness=True)
    assert table["path"].to_pylist() == ['["x", "a", "y"]', '["v", "^b", "u"]', "", '["x", "a", "z"]', ""]


# --- queries ------------------------------------------------------------------------------------------------


def test_windows_are_checked() -> None:
    for size, slide in ((0, 1), (1, 0), (-1, 1), (1, -1), (2**63, 1), (1, 2**63), (1.0, 1), ("1", 1), (True, 1), (1, None)):
        with pytest.raises(rpq.QueryError, match="window"):
            rpq.Window(size=size, slide=slide)
    assert rpq.Window(size=np.int64(3), slide=np.uint8(2)) == rpq.Window(size=3, slide=2)
    assert hash(ask()) == hash(ask())


def test_queries_are_checked() -> None:
    for wrong in (
        {"window": 10},
        {"paths": "trail"},
        {"semantics": "both"},
        {"sources": "xy"},
        {"sources": 5},
        {"sources": [2**63]},
        {"name": 7},
        {"targets": [1.5]},
        {"sources": [True]},
        {"targets": [None]},
        {"simple_budget": 0},
        {"on_budget": "shrug"},
        {"window": None},
        {"window": "30d"},
        {"window": (30, 1)},
        {"window": rpq.Window},
        {"select": ["x"]},
    ):
        with pytest.raises(rpq.QueryError):
            ask(**wrong)
    with pytest.raises(ValueError, match="\\^"):
        ask("a/(b")
    with pytest.raises(rpq.QueryError, match="text"):
        ask(None)  # type: ignore[arg-type]
    for ends in ("sources", "targets"):
        with pytest.raises(rpq.QueryError, match=rf"{ends} .*'y\\udc80' has a lone surrogate at character 2"):
            ask(**{ends: ["x", "y\udc80"]})
    with pytest.raises(rpq.QueryError, match="name .*surrogate"):
        ask(name="\udc80")
    assert ask(sources=np.array([1, 2])).sources == frozenset({1, 2})
    assert ask(targets=pd.Series(["x"])).targets == frozenset({"x"})
    with pytest.raises(rpq.QueryError, match="Query"):
        rpq.Engine("a/b")  # type: ignore[arg-type]
    for threads in (0, 1.5, "2", True, None):
        with pytest.raises(rpq.QueryError, match="thread"):
            rpq.Engine(ask(), threads=threads)  # type: ignore[arg-type]
    with pytest.raises(rpq.QueryError, match="time_unit is one of s, ms, us, ns"):
        rpq.Engine(ask(), time_unit="m")  # type: ignore[arg-type]
    assert rpq.Engine(ask(), threads=np.int8(1)).push(COLUMNS).rows() == EXPECTED
    with pytest.raises(rpq.QueryError, match="share"):
        rpq.Engine(ask(), share=(2, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n", "the expression is empty"),
        ("a||b", "unexpected '|'"),
        ("SELECT ?x {", "line 1, column"),
        ("a/b", "the query has no window: pass one, as window=rpq.Window"),
        (None, "the expression of a query is text, not None"),
    ],
)
def test_a_query_without_a_window_says_what_is_wrong_with_its_text_first(text: Any, message: str) -> None:
    with pytest.raises(rpq.QueryError) as caught:
        rpq.Query(text)
    assert message in str(caught.value)


def test_an_expression_that_is_not_understood() -> None:
    with pytest.raises(rpq.ExpressionError) as caught:
        ask("a/(b")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (
        isinstance(error, rpq.QueryError) and isinstance(error, ValueError) and isinstance(error, automata.ExpressionError)
    )
    assert (error.column, error.expression) == (5, "a/(b")
    assert str(error) == str(caught.value) and str(error).splitlines()[1:] == ["  a/(b", "      ^"]


def test_names_of_queries(engine: rpq.Engine) -> None:
    assert rpq.Query("a/b", window=WINDOW).name == "a/b"
    with pytest.raises(rpq.QueryError, match="already"):
        engine.register(ask("b"))
    with pytest.raises(rpq.QueryError, match="already"):
        rpq.Engine(ask(), ask("b"))
    for call in (engine.answers, engine.statistics, engine.unregister, lambda name: engine.witness("x", "y", name)):
        with pytest.raises(rpq.QueryError, match="no query named 'r'.*'q'"):
            call("r")
    engine.register(ask("b", name="r"))
    with pytest.raises(rpq.QueryError, match="'q', 'r'"):
        engine.answers()
    engine.unregister("q")
    engine.unregister("r")
    assert engine.queries == ()
    assert engine.push(COLUMNS).rows() == []
    with pytest.raises(rpq.QueryError, match="none"):
        engine.answers()


def test_registering_while_the_stream_runs(engine: rpq.Engine) -> None:
    #  time     1    2                      5                        12
    #          x-a>y y-b>z  x-c>y          c is asked for           the c of 2 has left, and the c of 5
    engine.push(COLUMNS)
    engine.insert("x", "y", "c", 2)
    first = engine.register(ask("b", name="r", semantics="explicit"))
    assert first.rows() == [("r", "y", "z", 2, "+")]
    assert first.added == 1
    engine.advance(5)
    with pytest.raises(rpq.RegistrationError, match="from 12 on") as caught:
        engine.register(ask("c", name="s"))
    assert caught.value.available_from == 12
    assert 'start="empty"' in str(caught.value)
    assert engine.register(ask("c", name="s"), start="empty").rows() == []
    assert engine.insert("x", "y", "c", 5).rows() == [("s", "x", "y", 5, "+")]
    with pytest.raises(rpq.QueryError, match="start"):
        engine.register(ask("d", name="t"), start="now")  # type: ignore[arg-type]
    assert engine.advance(12).rows() == [("r", "y", "z", 12, "-")]
    engine.unregister("s")
    assert [query.name for query in engine.queries] == ["q", "r"]
    engine.advance(2**63 - 20)
    with pytest.raises(rpq.InputError, match="exceed 64 bits"):
        engine.register(ask("b", name="u", window=rpq.Window(size=100, slide=1)))
    assert [query.name for query in engine.queries] == ["q", "r"]


# --- memory ---------------------------------------------------------------------------------------------------


def dense(count: int) -> list[tuple[int, int, str, int]]:
    return [(7 * i % 61, 13 * i % 59, "a", i // 50) for i in range(count)]


DENSE_QUERIES = (ask("a/a*", semantics="explicit"), rpq.Query("a", window=WINDOW, name="small"))


@pytest.mark.parametrize(("threads", "limit", "collect"), [(1, 150_000, True), (1, 180_000, False), (3, 360_000, True)])
def test_the_memory_limit(threads: int, limit: int, collect: bool) -> None:
    engine = rpq.Engine(*DENSE_QUERIES, memory_limit=limit, threads=threads)
    tuples = dense(600)
    rows: list[rpq.Change] = []
    added = 0
    begin = 0
    with pytest.raises(rpq.MemoryLimitError) as caught:
        while begin < len(tuples):
            changes = engine.push_rows(tuples[begin : begin + 40], collect=collect)
            rows += changes
            added += changes.added
            begin += 40
    error = caught.value
    rows += error.changes
    assert error.query == "q"
    assert error.limit == limit < error.size
    assert "'q'" in str(error) and f"tuple {error.row} " in str(error) and f"{error.size:,}" in str(error)
    assert begin + error.row > 50
    expected = rpq.Engine(*DENSE_QUERIES).push_rows(tuples[: begin + error.row])
    assert added + error.changes.added == expected.added
    if collect:
        assert sorted(rows) == sorted(expected.rows())
    with pytest.raises(rpq.RpqError, match="middle of a tuple"):
        engine.insert(1, 2, "a", 100)


@pytest.mark.parametrize("text", ["a/a/a/a*", "a+", "?x a ?y . ?y a+ ?z", "?x a ?y . ?z a ?y"])
def test_nothing_remains_of_a_query_that_did_not_fit(text: str) -> None:
    rows = dense(450)
    first = ask("a+", sources=[7, 26])  # the trees of "a+" are shared
    outcomes = set()
    for share in (1.01, 1.1, 1.3, 1.7, 2.5, 50):
        engine, twin = rpq.Engine(first), rpq.Engine(first)
        for one in (engine, twin):
            one.push_rows(rows[:300])
        guard = engine._evaluation.guard
        guard.limit = int(share * guard.nbytes)
        try:
            engine.register(rpq.Query(text, window=WINDOW, name="large"))
            outcomes.add("registered")
        except rpq.MemoryLimitError:
            outcomes.add("refused")
            guard.limit = 1 << 40
            engine._check()
            assert sorted(map(row, engine.push_rows(rows[300:]))) == sorted(map(row, twin.push_rows(rows[300:])))
    assert outcomes == {"registered", "refused"}


# --- files ------------------------------------------------------------------------------------------------------


def test_an_engine_without_tuples_or_queries_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "state"
    rpq.Engine().save(path)
    assert rpq.Engine.restore(path).queries == ()
    rpq.Engine(ask(sources=["x", "007"], targets=[1, 2])).save(path)
    engine = rpq.Engine.restore(path)
    assert engine.queries == (ask(sources=["x", "007"], targets=[1, 2]),)
    assert engine.time is None
    engine.advance(5)
    engine.save(path, extra={"ü": "1"})
    engine = rpq.Engine.restore(str(path), witness=True)
    assert (engine.time, engine.extra) == (5, {"ü": "1"})
    engine.push_rows([("x", "y", "a", 6), ("x", "y", "a", 6, "-")])
    engine.unregister("q")
    engine.save(path)
    assert rpq.Engine.restore(path).statistics().deleted == 1
    assert [name.name for name in tmp_path.iterdir()] == ["state"]


def of_every_kind() -> list[Any]:
    window = rpq.Window(size=10, slide=2)
    return [
        rpq.Query("a/b*", window=window, semantics="explicit", name="explicit"),
        rpq.Query("a/^b*", window=window, paths="simple", targets=["2", 2], name="simple"),
        *(rpq.Query("?x a ?y . ?y b ?z", window=window, report=name, name=name) for name in ("change", "slide", "time")),
        rpq.Query("1 a/b* ?y . ?x a 2", window=window, report="slide", name="constants"),
        rpq.Query('"1" a ?y . ?y b ?z', window=rpq.CountWindow(size=10, step=2), matching="isomorphism", name="literal"),
        rpq.Query("SELECT * { VALUES ?v { <1> } <1> <a> ?y FILTER(?y > 1) }", window=window, report="slide", name="values"),
        rpq.Query("SELECT (SUM(?y) AS ?n) { ?x <a> ?y }", window=window, report="time", name="sum"),
        rpq.Query('ASK { ?x <a> "2" }', window=window, name="ask"),
        rpq.Query("REGISTER RSTREAM <r> AS SELECT * { ?x <a> ?y MINUS { ?x <b> <3> } }", window=window, name="r"),
        rpq.Query(
            "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT10S STEP PT2S] { ?x <a> ?y WINDOW <w> { ?y <b> ?z } }",
            window=window,
            report="slide",
            name="named",
        ),
    ]


@pytest.mark.parametrize(("vertices", "static"), [(pa.int64(), True), (pa.string(), False)])
def test_before_the_first_tuple_saving_decides_nothing_about_vertices(tmp_path: Path, vertices: pa.DataType, static: bool):
    rows = ["12a1", "23bs2", "14a3", "43b4", "52as4", "77a9", "31a9", "73bs9", "21b9"]
    named = pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])
    columns = {
        "source": named[0].cast(vertices),
        "target": named[1].cast(vertices),
        "label": [row[2] for row in rows],
        "timestamp": [int(row[-1]) for row in rows],
        "stream": ["s" if "s" in row else None for row in rows],
    }
    none = {name: pa.array([], kind) for name, kind in zip(columns, [pa.string()] * 3 + [pa.int64(), pa.string()])}

    def answered(engine: rpq.Engine) -> list[str]:
        return sorted(map(str, [*engine.push(columns).rows(), *engine.advance(40).rows()]))

    questions = of_every_kind()
    for queries in (questions, *([query] for query in questions if query.name in ("explicit", "r"))):
        engine, other = rpq.Engine(*queries, time_unit="s"), rpq.Engine(*queries, time_unit="s")
        if static:
            for one in (engine, other):
                one.load_static([(1, 7, "a"), (3, 7, "b")] if vertices == pa.int64() else [("1", "7", "a"), ("3", "7", "b")])
        other.save(tmp_path / "state")
        other = rpq.Engine.restore(tmp_path / "state")
        assert other.push(none).rows() == []
        other.save(tmp_path / "state")
        assert answered(rpq.Engine.restore(tmp_path / "state")) == answered(other) == answered(engine) != []


def test_what_is_no_state(tmp_path: Path, engine: rpq.Engine) -> None:
    engine.push(COLUMNS)
    path = tmp_path / "state"
    engine.save(path)
    whole = path.read_bytes()

    def refused(message: str, reason: str) -> None:
        with pytest.raises(rpq.StateFormatError, match=message) as raised:
            rpq.Engine.restore(path)
        assert raised.value.reason == reason
        assert str(path) in str(raised.value)

    for other in (b"", b"garbage", b"a,b\n" * 100):
        path.write_bytes(other)
        refused("not a saved state", "foreign")
    for length in (1, 10, HEADER_BYTES, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused("truncated", "truncated")
    for place in (0, 9, 13, 20, 38, HEADER_BYTES + 1, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        refused("damaged", "damaged")
    path.write_bytes(whole + b"x")
    refused("1 bytes follow", "damaged")
    path.write_bytes(seal(replace(STATE, version=99), [whole[HEADER_BYTES:]]) + whole[HEADER_BYTES:])
    refused("version 99 .* this release reads version 2", "version")
    path.write_bytes(whole)
    assert rpq.Engine.restore(path).answers().pairs() == {("x", "y"), ("x", "z")}
    with pytest.raises(FileNotFoundError):
        rpq.Engine.restore(tmp_path / "nothing")
    with pytest.raises(OSError):
        engine.save(tmp_path / "no" / "folder")


@pytest.mark.parametrize("extra", [{"place": 5}, {"place": None}, {5: "place"}, {"place": b"5"}])
def test_what_is_saved_beside_the_state_is_text(tmp_path: Path, engine: rpq.Engine, extra: dict) -> None:
    with pytest.raises(rpq.InputError, match=repr(next(iter(extra)))):
        engine.save(tmp_path / "state", extra=extra)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("attempt", [copy.copy, pickle.dumps])
def test_an_engine_is_not_copied_by_accident(engine: rpq.Engine, attempt: Any) -> None:
    engine.push(COLUMNS)
    with pytest.raises(rpq.RpqError, match="save"):
        attempt(engine)
    assert engine.answers().pairs() == {("x", "y"), ("x", "z")}


# --- importing ----------------------------------------------------------------------------------------------------


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys, rpq; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    loaded = set(done.stdout.split())
    assert "rpq" in loaded
    assert not loaded & {"pyspark", "matplotlib", "pandas", "numba", "pyarrow", "numpy", "llvmlite", "rdflib"}
    # These take milliseconds each, and only errors and texts of durations use them.
    assert not loaded & {"difflib", "fractions", "decimal"}


PATH_QUERIES = """
import sys, rpq

window = rpq.Window(size=10, slide=1)
for kind in (str, int):
    engine = rpq.Engine(rpq.Query("a/b*", window=window))
    rows = [(kind(number), kind(number * 7 % 50), "ab"[number % 2], number // 10) for number in range(100)]
    changes = engine.push_rows(rows)
    assert len(list(changes.rows())) == len(changes.to_arrow()) > 0
    inserted = engine.insert(kind(1), kind(2), "a", 11)
    assert len(list(inserted.rows())) == len(inserted.to_arrow()) > 0
    answers = engine.answers()
    assert len(answers.to_arrow()) and engine.witness(*next(iter(answers)))
    engine.statistics()
    engine.advance(30)
    rpq.warm_up(rpq.Query("a/b*", window=window), vertices="string" if kind is str else "int64")
needless = (
    "pandas", "numba.np.linalg", "rpq.operators.patterns", "rpq.operators.relational", "rpq.language.sparql",
    "numba.np.arrayobj", "rpq.engine.running.multigraph",
)
print([name for name in needless if name in sys.modules])
engine = rpq.Engine(rpq.Query("?x a ?y", window=window))
print(engine.push_rows([("x", "y", "a", 1)]).added, needless[3] in sys.modules)
engine.register(rpq.Query("SELECT ?x { ?x <a> ?y }", window=window, name="sparql"))
print(engine.push_rows([("x", "z", "a", 1)]).added)
"""


@pytest.mark.ci
def test_a_process_of_path_queries_imports_neither_pandas_nor_a_compiler_nor_other_kinds_of_queries() -> None:
    run(Path(sys.executable), "-c", PATH_QUERIES, cwd=ROOT)  # which compiles the kernels, if they are in no cache
    assert run(Path(sys.executable), "-c", PATH_QUERIES, cwd=ROOT).stdout == "[]\n1 False\n2\n"
