"""What must not be pushed: the error names row and column, holds the changes of what came before, and the engine goes on."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rpq

WINDOW = rpq.Window(size=10, slide=1)
COLUMNS = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": [1, 2]}
EXPECTED = [("q", "x", "y", 1, "+"), ("q", "x", "z", 2, "+")]


def ask() -> rpq.Query:
    return rpq.Query("a/b*", window=WINDOW, name="q")


@pytest.fixture
def engine() -> rpq.Engine:
    return rpq.Engine(ask())


#   row      0               1               2               3
GOOD = [("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "b", 3), ("w", "v", "b", 4)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("source", None),
        ("target", None),
        ("label", None),
        ("timestamp", None),
        ("op", None),
        ("op", "*"),
        ("op", ""),
        ("op", 1),
        ("source", 7),
        ("target", 7),
        ("source", 7.5),
        ("target", b"z"),
        ("source", "\ud800"),
        ("label", 7),
        ("timestamp", 3.0),
        ("timestamp", "3"),
        ("timestamp", datetime.datetime(2020, 1, 1)),
        ("timestamp", 2**63),
        ("timestamp", 2**63 - 10),
        ("timestamp", -(2**63)),
        ("timestamp", -(2**63) - 1),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 3])
def test_a_bad_value_ends_the_batch_there(column: str, value: Any, place: int) -> None:
    engine = rpq.Engine(ask())
    names = ("source", "target", "label", "timestamp", "op")
    rows = [dict(zip(names, (*good, "+"), strict=True)) for good in GOOD]
    rows[place][column] = value
    with pytest.raises(rpq.InputError) as caught:
        engine.push_rows([tuple(r.values()) for r in rows])
    error = caught.value
    if place == 0 and error.row != 0:
        # Of a column that begins with another type either value may be called the bad one.
        assert error.row in (None, 1)
        assert len(error.changes) == (error.row or 0)
        return
    assert (error.row, error.column) == (place, column)
    assert f"row {place}" in str(error) and repr(column) in str(error)
    expected = rpq.Engine(ask()).push_rows(GOOD[:place]).rows()
    assert error.changes.rows() == expected
    # The engine goes on.
    assert [*expected, *engine.push_rows(GOOD[place:])] == rpq.Engine(ask()).push_rows(GOOD).rows()
    engine._check()


def test_a_row_that_is_none(engine: rpq.Engine) -> None:
    for number, bad in enumerate([("x", "y", "a"), ("x", "y", "a", 1, "+", 0), "xyab", None, 7]):
        with pytest.raises(rpq.InputError, match="row 1: a tuple is") as caught:
            engine.push_rows([(f"r{number}", "y", "a", 1), bad, ("no", "more", "a", 1)])
        assert caught.value.row == 1
        assert caught.value.changes.rows() == [("q", f"r{number}", "y", 1, "+")]


def test_the_first_of_several_mistakes_is_told(engine: rpq.Engine) -> None:
    with pytest.raises(rpq.InputError) as caught:
        engine.push_rows([GOOD[0], ("x", None, "a", 1), (7, "y", None, 1), ("x", "y", "a", 1, "?")])
    assert (caught.value.row, caught.value.column) == (1, "target")


@pytest.mark.parametrize(
    ("data", "column", "message"),
    [
        ({name: c for name, c in COLUMNS.items() if name != "label"}, "label", "no column 'label'"),
        (pa.table({"a": [1]}), "source", "source, target, label, timestamp"),
        (None, "source", "no column 'source'"),
        ({**COLUMNS, "timestamp": pa.array([1.0, 2.0])}, "timestamp", "double"),
        ({**COLUMNS, "timestamp": np.array([1.0, 2.0])}, "timestamp", "double"),
        ({**COLUMNS, "source": pa.array([1.0, 2.0])}, "source", "double"),
        ({**COLUMNS, "source": [True, False]}, "source", "bool"),
        ({**COLUMNS, "source": [1, 2]}, "target", "integers or text"),
        ({**COLUMNS, "source": pa.array([1, 2**64 - 1], pa.uint64()), "target": [1, 2]}, "source", "64 bits"),
        ({**COLUMNS, "label": pa.array([1, 2])}, "label", "labels are text"),
        ({**COLUMNS, "label": pa.array([1, 2]).dictionary_encode()}, "label", "labels are text"),
        ({**COLUMNS, "delete": [0, 1]}, "delete", "true or false"),
        ({**COLUMNS, "source": ["x"]}, None, "length"),
        ([("x", "y", "a", 1)], None, "list"),
        ("text", None, "str"),
    ],
)
def test_tables_that_are_none(engine: rpq.Engine, data: Any, column: str | None, message: str) -> None:
    with pytest.raises(rpq.InputError, match=message) as caught:
        engine.push(data)
    assert caught.value.column == column
    assert caught.value.changes.rows() == []
    assert engine.push(COLUMNS).rows() == EXPECTED


def test_mistakes_in_typed_columns(engine: rpq.Engine) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for data, column in (
        ({**COLUMNS, "label": coded}, "label"),
        ({**COLUMNS, "source": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))}, "source"),
        ({**COLUMNS, "op": coded.cast(pa.string()).fill_null("?").dictionary_encode()}, "op"),
        ({**COLUMNS, "timestamp": pa.array([1, 2**63], pa.uint64())}, "timestamp"),
        (pd.DataFrame({**COLUMNS, "source": ["x", 1]}), "source"),
        (pd.DataFrame({**COLUMNS, "label": ["a", None]}), "label"),
        (pd.DataFrame({**COLUMNS, "timestamp": pd.array([1, None], "Int64")}), "timestamp"),
    ):
        with pytest.raises(rpq.InputError) as caught:
            rpq.Engine(ask()).push(data)
        assert caught.value.column == column
        if column != "op":
            assert caught.value.row == 1
            assert caught.value.changes.rows() == EXPECTED[:1]


def test_times_that_do_not_fit_their_unit() -> None:
    engine = rpq.Engine(ask(), time_unit="ns")
    with pytest.raises(rpq.InputError, match="unit ns") as caught:
        engine.push({**COLUMNS, "timestamp": [datetime.datetime(2020, 1, 1), datetime.datetime(1, 1, 1)]})
    assert (caught.value.row, caught.value.column) == (1, "timestamp")
    assert len(caught.value.changes) == 1


def test_one_engine_takes_integers_or_text(engine: rpq.Engine) -> None:
    engine.push(COLUMNS)
    with pytest.raises(rpq.InputError, match="int64 in a stream whose vertices are of type string") as caught:
        engine.insert(1, 2, "a", 3)
    assert (caught.value.column, len(caught.value.changes)) == ("source", 0)
    assert engine.insert("1", "2", "a", 3).rows() == [("q", "1", "2", 3, "+")]


@pytest.mark.parametrize("time", [1.5, "1", None, 2**63, 2**63 - 10, -(2**63)])
def test_times_to_which_nothing_advances(engine: rpq.Engine, time: Any) -> None:
    engine.push(COLUMNS)
    with pytest.raises(rpq.InputError, match="stream time"):
        engine.advance(time)
    assert engine.time == 2
    engine.advance(2**63 - 11)
    assert len(engine.answers()) == 0
