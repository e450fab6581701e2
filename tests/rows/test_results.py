"""Results in the forms that other libraries take: the Arrow PyCapsule interface, sets of pairs, texts, notebooks."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.rows.column_kernels import lexical_forms
from rpq.stream.names.terms import lexical_form
from tests.twins import examples

WINDOW = rpq.Window(size=10, slide=1)
ROWS = [("x", "y", "a", 1), ("y", "z", "b", 2), ("y", "z", "b", 3, "-")]


def ask(**options: Any) -> rpq.Query:
    return rpq.Query("a/b*", **{"window": WINDOW, "name": "q", **options})


@pytest.fixture
def engine() -> rpq.Engine:
    return rpq.Engine(ask())


def test_polars_takes_changes_and_answers(engine: rpq.Engine) -> None:
    polars = pytest.importorskip("polars")
    changes = engine.push_rows(ROWS)
    frame = polars.DataFrame(changes)
    assert frame.rows() == [tuple(change) for change in changes]
    assert polars.DataFrame(changes).equals(frame), "it can be read again"
    assert polars.DataFrame(engine.answers()).rows() == [("x", "y")]
    times = rpq.Engine(ask(window=rpq.Window(size="1d", slide="1h")))
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    assert polars.DataFrame(times.insert("x", "y", "a", noon))["timestamp"].to_list() == [noon]


def test_duckdb_takes_changes_and_answers(engine: rpq.Engine) -> None:
    duckdb = pytest.importorskip("duckdb")
    changes = engine.push_rows(ROWS)
    answers = engine.answers()  # noqa: F841
    assert duckdb.sql("select * from changes").fetchall() == [tuple(change) for change in changes]
    assert duckdb.sql("select op, count(*) from changes group by op order by op").fetchall() == [("+", 2), ("-", 1)]
    assert duckdb.sql("select source, target from answers").fetchall() == [("x", "y")]


def test_arrow_and_pandas_take_changes_and_answers(engine: rpq.Engine) -> None:
    changes = engine.push_rows(ROWS)
    assert pa.table(changes).equals(changes.to_arrow())
    assert pa.schema(changes) == changes.to_arrow().schema
    assert pa.RecordBatchReader.from_stream(changes).read_all().equals(changes.to_arrow())
    assert pa.table(engine.answers()).equals(engine.answers().to_arrow())
    assert pa.schema(engine.answers()) == engine.answers().to_arrow().schema
    if hasattr(pd.DataFrame, "from_arrow"):  # pandas 3
        assert pd.DataFrame.from_arrow(changes).equals(changes.to_pandas())
    nothing = rpq.Engine(ask()).push_rows([])
    assert pa.table(nothing).num_rows == 0


def test_what_one_engine_found_is_the_stream_of_another(engine: rpq.Engine) -> None:
    changes = engine.push_rows(ROWS)
    table = pa.table(changes).append_column("label", pa.array(["found"] * len(changes)))
    second = rpq.Engine(rpq.Query("found", window=WINDOW, name="again"))
    assert [change[1:] for change in second.push(table)] == [change[1:] for change in changes]


def test_answers_are_a_collection(engine: rpq.Engine) -> None:
    engine.push_rows(ROWS[:2])
    answers = engine.answers()
    assert sorted(answers) == [("x", "y"), ("x", "z")]
    assert len(answers) == len(list(answers)) == 2
    assert ("x", "y") in answers and ("y", "x") not in answers
    for other in (("x",), ("x", "y", "z"), ["x", "y"], "xy", None, ("x", ["y"]), ("x", np.array(["y", "z"]))):
        assert other not in answers
    engine.delete("y", "z", "b", 3)
    assert ("x", "z") in answers, "they are those of that moment"
    pairs = answers.pairs()
    pairs.clear()
    assert len(answers.pairs()) == 2
    numbers = rpq.Engine(ask())
    numbers.insert(1, 2, "a", 1)
    assert (1, 2) in numbers.answers() and ("1", "2") not in numbers.answers()


def test_texts(engine: rpq.Engine) -> None:
    assert repr(engine) == "<Engine: 1 query ('q'), time None, 0 edges of 0 vertices held>"
    changes = engine.push_rows(ROWS[:2])
    assert repr(changes) == "<Changes: 2 added, 0 removed: ('q', 'x', 'y', 1, '+'), ('q', 'x', 'z', 2, '+')>"
    assert repr(engine) == "<Engine: 1 query ('q'), time 2, 2 edges of 3 vertices held>"
    assert repr(engine.answers()) == "<Answers: 2 pairs: ('x', 'y'), ('x', 'z')>"
    assert repr(engine.push_rows(ROWS[:2], collect=False)) == "<Changes: 0 added, 0 removed>"
    assert repr(engine.insert("x", "y", "a", -20)) == "<Changes: 0 added, 0 removed, 1 late>"
    many = engine.push(source=np.arange(5000).astype(str), target=["y"] * 5000, label=["a"] * 5000, timestamp=[5] * 5000)
    assert repr(many).startswith("<Changes: 10,000 added, 0 removed: ('q', '0', 'y', 5, '+')") and repr(many).endswith(
        ", …>"
    )
    assert len(repr(many)) < 200 and len(repr(engine.answers())) < 200
    assert repr(rpq.Window(size=30, slide=1)) == "Window(size=30, slide=1)"
    assert repr(ask()) == "Query('a/b*', window=Window(size=10, slide=1), name='q')"
    query = rpq.Query("a", window=rpq.Window(size="30d", slide="1h"), paths="simple", targets=["x"])
    assert repr(query) == "Query('a', window=Window(size='30d', slide='1h'), paths='simple', targets={'x'})"
    assert eval(repr(query), vars(rpq)) == query
    assert len(repr(rpq.Query("a", window=WINDOW, sources=range(100_000)))) < 200
    statistics = repr(engine.statistics())
    assert statistics.startswith("Statistics(tuples=5005, ") and "roots_set_aside" not in statistics


@pytest.mark.parametrize(("digits", "size"), [(20, 1), (5000, 2)])
def test_counts_stand_beside_values_that_are_larger_than_any_count(digits: int, size: int) -> None:
    text = "SELECT ?x (STR(?x) AS ?t) (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x"
    engine = rpq.Engine(rpq.Query(text, window=rpq.Window(size=10, slide=1), name="q"))
    large = "9" * digits
    tuples = [(large, "y", "a", 1), ("x", large, "a", 1)]
    found = [row for i in range(0, 2, size) for row in engine.push_rows(tuples[i : i + size]).rows()]
    assert [tuple(row)[1:-2] for row in found] == [(large, large, 1), ("x", "x", 1)]
    assert sorted(engine.answers()) == [(large, large, 1), ("x", "x", 1)]


PARTS = ['"', "a", "^^<", "<", ">", "^", "@", "en", "-", "é", "\\", "\n", "n", "u0041", '"1"']


@given(st.lists(st.none() | st.lists(st.sampled_from(PARTS), max_size=7)))
@examples(300)
def test_lexical_forms_of_many_terms_are_those_of_each(pieces: list[list[str] | None]) -> None:
    terms = [None if some is None else "".join(some) for some in pieces]
    forms = lexical_forms(pa.array(terms, pa.string()))
    if forms is None:
        assert not any(terms) or any("\\u" in term for term in terms if term)
        return
    forms.validate(full=True)
    assert forms.to_pylist() == [None if term is None else lexical_form(term) for term in terms]


def test_tables_in_a_notebook() -> None:
    evil = "<script>alert('x')</script>"
    engine = rpq.Engine(rpq.Query("a", window=WINDOW, name=f"{evil}&"))
    changes = engine.push_rows([(f"{evil}{i}", "y" * 500, "a", 1) for i in range(30)])
    for shown in (changes, engine.answers(), engine, engine.statistics()):
        page = shown._repr_html_()
        assert page.startswith("<table>") and "<script" not in page and "y" * 81 not in page and len(page) < 10_000
    assert "&lt;script&gt;" in changes._repr_html_() and "… 20 more" in changes._repr_html_()
