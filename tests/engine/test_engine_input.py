"""Invalid input: the error names row and column and has the changes of the rows before it, and the engine goes on.

semantics.md S12, S13
"""

from __future__ import annotations

import datetime
from decimal import Decimal
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
        ("target", ""),
        ("timestamp", None),
        ("op", None),
        ("op", ""),
        ("source", 7),
        ("target", 7),
        ("target", b"z"),
        ("source", "\ud800"),
        ("timestamp", "3"),
        ("timestamp", datetime.datetime(2020, 1, 1)),
        ("timestamp", 2**63),
        ("timestamp", -(2**63)),
        ("source", Decimal(7)),
        ("source", np.bool_(False)),
        ("source", np.array(["x"])),
        ("target", pd.NA),
        ("label", "\udc80"),
        ("op", True),
        ("timestamp", np.datetime64("NaT")),
        ("timestamp", np.timedelta64(3, "s")),
        ("timestamp", True),
        ("timestamp", 10**5000),
        ("timestamp", np.uint64(2**63)),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else type(value).__name__,
)
@pytest.mark.parametrize("place", [0, 3])
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
        (pa.table({"a": [1]}), "source", "no column 'source', 'target', 'label', 'timestamp': tuples have"),
        (None, "source", "no column 'source'"),
        ({**COLUMNS, "timestamp": pa.array([1.0, 2.0])}, "timestamp", "double"),
        ({**COLUMNS, "timestamp": np.array([1.0, 2.0])}, "timestamp", "double"),
        ({**COLUMNS, "source": pa.array([1.0, 2.0])}, "source", "double"),
        ({**COLUMNS, "source": [True, False]}, "source", "bool"),
        ({**COLUMNS, "source": [1, 2]}, "target", "integers or text"),
        ({**COLUMNS, "label": pa.array([1, 2])}, "label", "labels are text"),
        ({**COLUMNS, "label": pa.array([1, 2]).dictionary_encode()}, "label", "labels are text"),
        ({**COLUMNS, "delete": [0, 1]}, "delete", "true or false"),
        ({**COLUMNS, "delete": pa.array([0, 1])}, "delete", "true or false"),
        ({**COLUMNS, "op": ["+", "-"], "delete": [False, True]}, "delete", "'op' and 'delete'"),
        ({**COLUMNS, "op": pa.array([1, 2])}, "op", "'-' deletes"),
        ({**COLUMNS, "source": np.array(["x", "y"], "S1")}, "source", "binary"),
        ({**COLUMNS, "source": np.array([1j, 2j])}, "source", "complex128"),
        ({**COLUMNS, "source": np.array([["x", "y"]])}, "source", "2 dimensions"),
        ({**COLUMNS, "source": np.array("x")}, "source", "0 dimensions"),
        ({**COLUMNS, "source": np.array([True, False])}, "source", "bool"),
        ({**COLUMNS, "source": pa.array([["x"], ["y"]])}, "source", "list"),
        ({**COLUMNS, "source": pa.array(["x", "y"], pa.large_binary())}, "source", "binary"),
        ({**COLUMNS, "source": pa.array([1, 2], pa.decimal128(5))}, "source", "decimal"),
        ({**COLUMNS, "source": "xy"}, "source", "is a str, not"),
        ({**COLUMNS, "source": b"xy"}, "source", "is a bytes, not"),
        ({**COLUMNS, "source": {"x", "y"}}, "source", "is a set, not"),
        ({**COLUMNS, "source": 5}, "source", "not iterable"),
        ({**COLUMNS, "source": pa.array([b"\xff", b"x"]).view(pa.string())}, "source", "UTF8"),
        ({**COLUMNS, "label": pa.array([b"\xff", b"x"]).view(pa.string())}, "label", "UTF8"),
        ({**COLUMNS, "timestamp": pa.array([1, 2], pa.duration("s"))}, "timestamp", "duration"),
        ({**COLUMNS, "timestamp": np.array([1, 2], "m8[s]")}, "timestamp", "duration"),
        ({**COLUMNS, "timestamp": pa.array([1, 2], pa.time32("s"))}, "timestamp", "time32"),
        ({**COLUMNS, "timestamp": pd.Series([1, None])}, "timestamp", "double"),
        (
            pa.Table.from_arrays([pa.array(c) for c in (*COLUMNS.values(), [1, 2])], [*COLUMNS, "source"]),
            "source",
            "'source' stands 2 times",
        ),
        (
            pa.record_batch([*map(pa.array, COLUMNS.values()), *[pa.array(["+", "+"])] * 2], [*COLUMNS, "op", "op"]),
            "op",
            "'op' stands 2 times",
        ),
        (pd.concat([pd.DataFrame(COLUMNS), pd.DataFrame({"label": ["a", "b"]})], axis=1), "label", "'label' stands 2 times"),
        (pa.chunked_array([[1, 2]]), None, "cannot be read as a table"),
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
    without = coded.cast(pa.string()).fill_null("?").dictionary_encode()  # nowhere an operation
    for data, column in (
        ({**COLUMNS, "label": coded}, "label"),
        ({**COLUMNS, "source": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))}, "source"),
        ({**COLUMNS, "op": without}, "op"),
        ({**COLUMNS, "timestamp": pa.array([1, 2**63], pa.uint64())}, "timestamp"),
        (pd.DataFrame({**COLUMNS, "source": ["x", 1]}), "source"),
        (pd.DataFrame({**COLUMNS, "target": ["y", float("nan")]}), "target"),
        ({**COLUMNS, "target": np.array(["y", 7], object)}, "target"),
        ({**COLUMNS, "target": np.ma.array(["y", "z"], mask=[0, 1])}, "target"),
        ({**COLUMNS, "timestamp": np.ma.array([1, 2], mask=[0, 1])}, "timestamp"),
        ({**COLUMNS, "op": np.array(["+", "x"])}, "op"),
        ({**COLUMNS, "op": pa.array(["+", None], pa.string_view())}, "op"),
        ({**COLUMNS, "delete": [False, None]}, "delete"),
        ({**COLUMNS, "delete": pa.array([False, None])}, "delete"),
        ({**COLUMNS, "label": pa.array(["a", None], pa.large_string())}, "label"),
        (pd.DataFrame({**COLUMNS, "label": ["a", None]}), "label"),
        (pd.DataFrame({**COLUMNS, "timestamp": pd.array([1, None], "Int64")}), "timestamp"),
    ):
        with pytest.raises(rpq.InputError) as caught:
            rpq.Engine(ask()).push(data)
        assert caught.value.column == column
        if data.get("op") is not without:
            assert caught.value.row == 1
            assert caught.value.changes.rows() == EXPECTED[:1]
    unsigned = {**COLUMNS, "source": pa.array([1, 2**64 - 1], pa.uint64()), "target": [1, 2]}
    for data, column in ((unsigned, "source"), ({**unsigned, "source": [1, 2], "target": unsigned["source"]}, "target")):
        with pytest.raises(rpq.InputError, match="18446744073709551615 does not fit into 64 bits") as caught:
            rpq.Engine(ask()).push(data)
        assert (caught.value.row, caught.value.column) == (1, column)
        assert caught.value.changes.rows() == [("q", 1, 1, 1, "+")]


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


class Odd:
    """A value that cannot be hashed, compared, measured, iterated over or shown."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


@pytest.mark.parametrize("column", ["source", "target", "label", "timestamp", "op", "delete"])
def test_a_value_that_cannot_even_be_shown(column: str) -> None:
    data = {**COLUMNS, column: [COLUMNS[column][0] if column in COLUMNS else {"op": "+", "delete": False}[column], Odd()]}
    with pytest.raises(rpq.InputError, match="Odd") as caught:
        rpq.Engine(ask()).push(data)
    assert (caught.value.row, caught.value.column) == (1, column)
    assert caught.value.changes.rows() == EXPECTED[:1]
    assert len(str(caught.value)) < 300


def test_single_tuples_are_looked_at_as_closely(engine: rpq.Engine) -> None:
    engine.push(COLUMNS)
    broken = pa.array([b"\xff"]).view(pa.string())
    for column, value, batch in [
        ("source", None, pa.record_batch({"source": broken, "target": ["y"], "label": ["a"], "timestamp": [3]})),
        ("op", np.array(["+", "-"]), None),
        ("op", Odd(), None),
        ("timestamp", datetime.datetime(2020, 1, 1), None),
        ("timestamp", np.bool_(True), None),
        ("label", ["a"], None),
        ("target", 7, None),
    ]:
        row = {"source": "x", "target": "y", "label": "a", "timestamp": 3, "op": "+", column: value}
        with pytest.raises(rpq.InputError) as caught:
            engine.push(batch) if batch is not None else engine.push_rows([tuple(row.values())])
        assert caught.value.column == column
        engine._check()
    durations = rpq.Engine(ask().over(rpq.Window(size="1d", slide="1h")))
    for _ in range(2):
        with pytest.raises(rpq.InputError, match="plain numbers"):
            durations.insert("x", "y", "a", 3)
        durations.insert("x", "y", "a", datetime.datetime(2020, 1, 1))


def test_values_of_numpy_in_rows() -> None:
    rows = [(np.str_("x"), "y", np.str_("a"), np.int64(1), np.str_("+")), ("y", np.str_("z"), "b", np.uint8(2))]
    assert rpq.Engine(ask()).push_rows(rows).rows() == EXPECTED
    assert rpq.Engine(ask()).push_rows(
        [(np.int8(1), np.uint64(2), "a", 1), (2, pa.scalar(3), "b", pa.scalar(2))]
    ).rows() == [
        ("q", 1, 2, 1, "+"),
        ("q", 1, 3, 2, "+"),
    ]


def test_further_columns_are_not_looked_at() -> None:
    odd: dict[Any, Any] = {"weight": Odd(), 7: [[1], "x"], None: None, ("a", 1): b"", "time": [1, 2, 3]}
    assert rpq.Engine(ask()).push({**odd, **COLUMNS}).rows() == EXPECTED


def test_rows_that_are_no_iterable(engine: rpq.Engine) -> None:
    with pytest.raises(rpq.InputError, match="rows are an iterable"):
        engine.push_rows(5)  # type: ignore[arg-type]
    for row in (b"abcd", {1: 2, 3: 4}, {1, 2, 3, 4}):
        with pytest.raises(rpq.InputError, match="row 0: a tuple is"):
            engine.push_rows([row])  # type: ignore[list-item]


def test_names_that_no_vertex_can_have(engine: rpq.Engine) -> None:
    engine.push(COLUMNS)
    assert engine.witness("\ud800", "y") is None
    assert engine.restore_root("\ud800").rows() == []
