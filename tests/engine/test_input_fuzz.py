"""Whatever is pushed, in whatever container: rows, or an error of this package, and an engine that goes on.

What an error leaves is held against the oracle: the tuples before the row that it names are applied, no others; and each
of them is what a column may hold, while the row that is named is not, by a judgement that shares no code with the engine.

semantics.md S13
"""

from __future__ import annotations

import collections
import datetime
import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.reference import ReferenceEngine
from tests.twins import assert_rows, examples, reference_query, row

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = datetime.datetime(2020, 1, 1)
NAMES = ("source", "target", "label", "timestamp", "op")

PLAIN_ODD: list[Any] = [
    *(None, math.nan, 1.5, True, Decimal(1), b"x", "x", "y", 7, 2**63, -(2**63), 2**70),
    *(10**400, "\ud800", (1,), 1j, "+", object, ..., uuid.UUID(int=1), datetime.time(1)),
    *(np.bool_(True), np.int8(3), np.uint64(2**64 - 1), np.float32(2), np.str_("x")),
    *(pd.NA, pd.NaT, pa.scalar(1), pa.scalar("x"), pa.scalar(None), datetime.timedelta(1)),
    *(np.timedelta64(1, "s"), np.datetime64("NaT"), np.datetime64("2020-01-01T00:00:03.5")),
    *(np.datetime64("2020", "Y"), np.datetime64("2020-01-01T00:00:05", "ns")),
    *(MOMENT, MOMENT.replace(tzinfo=BERLIN), MOMENT.date(), pd.Timestamp(MOMENT, unit="ns")),
    *(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23)),
]
ODD: list[Callable[[], Any]] = [
    list,
    dict,
    object,
    lambda: np.array(1),
    lambda: np.array([1, 2]),
    lambda: {"x"},
]
odd = st.sampled_from(PLAIN_ODD) | st.sampled_from(ODD).map(lambda make: make())


def seconds(zone: datetime.tzinfo | None) -> st.SearchStrategy[Any]:
    return st.integers(0, 25_000).map(lambda n: MOMENT.replace(tzinfo=zone) + datetime.timedelta(milliseconds=n))


TIMES = {
    "numbers": st.integers(0, 25),
    "naive": seconds(None),
    "aware": seconds(BERLIN) | seconds(datetime.UTC),
    "numpy": seconds(None).map(lambda moment: np.datetime64(moment, "ms")),
}
VERTICES = {"int64": st.integers(1, 5), "string": st.sampled_from("xyzuv")}


class Once:
    """An object that can be iterated over, and nothing else."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


LISTS = [
    list,
    tuple,
    collections.deque,
    Once,
    lambda values: np.fromiter(values, object, len(values)),
    lambda v: pd.Series(v, dtype=object),
]
ARRAYS: list[Callable[[list[Any]], Any]] = [
    np.array,
    pa.array,
    pd.Series,
    pd.Index,
    pl.Series,
    lambda values: pa.array(values).dictionary_encode(),
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: pa.array(values, pa.string_view()),
    lambda values: pa.array(values, pa.large_string()).dictionary_encode(),
    lambda values: pa.array(values, pa.uint64()),
    lambda values: pa.array(values, pa.int8()),
    lambda values: pa.array(values, pa.timestamp("s", "America/New_York")),
    lambda values: pa.array(values, pa.float64()),
    lambda values: pa.RunEndEncodedArray.from_arrays(range(1, len(values) + 1), values),
    lambda values: pd.Series(values, dtype="category"),
    lambda values: np.array(values, ">i8"),
    lambda values: np.array(values, "M8[m]"),
    lambda values: np.array(values, "S"),
    lambda values: np.array([values, values]),
    lambda values: pa.array([values] * len(values)),
]
NO_COLUMN: list[Callable[[list[Any]], Any]] = [
    str,
    repr,
    lambda _: b"abc",
    lambda _: None,
    lambda _: 5,
    lambda v: dict.fromkeys(range(len(v))),
    lambda v: v[:-1],
]


@st.composite
def pushed(draw: st.DrawFn, time: str) -> dict[str, list[Any]]:
    """Values of each column, most of them as they should be."""
    count = draw(st.integers(0, 8))
    vertex = VERTICES[draw(st.sampled_from(sorted(VERTICES)))]
    good = {
        "source": vertex,
        "target": vertex,
        "label": st.sampled_from("aab"),
        "timestamp": TIMES[draw(st.sampled_from([time] * 4 + sorted(TIMES)))],
        "op": st.sampled_from("+++-"),
    }
    values = {name: draw(st.lists(good[name], min_size=count, max_size=count)) for name in NAMES}
    for _ in range(draw(st.integers(0, 2)) if count else 0):
        values[draw(st.sampled_from(NAMES))][draw(st.integers(0, count - 1))] = draw(odd)
    return values


def contained(column: Any) -> list[Any] | None:
    """Return the values of a column; None if the object is no column."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.to_pylist()
    if isinstance(column, Once):
        return column.values
    if isinstance(column, pl.Series):
        return column.to_list()
    if isinstance(column, (str, bytes, dict)) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) != 1:
        return None
    return list(column)


def vertex_kind(value: Any) -> str | None:
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, str):
        return "string" if not any("\ud800" <= character <= "\udfff" for character in value) else None
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, (int, np.integer)):
        return None
    return "int64" if -(2**63) <= value < 2**63 else None


def instant(value: Any) -> tuple[str, int] | None:
    """The kind of a timestamp (number, naive, aware), and the number or the nanoseconds since 1970."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else ("naive", pd.Timestamp(value).as_unit("ns").value)
    if isinstance(value, pd.Timestamp):
        return ("naive" if value.tz is None else "aware"), value.as_unit("ns").value
    if isinstance(value, datetime.datetime):
        since = MOMENT.replace(year=1970, tzinfo=None if value.tzinfo is None else datetime.UTC)
        return ("naive" if value.tzinfo is None else "aware"), (value - since) // datetime.timedelta(microseconds=1) * 1000
    if isinstance(value, datetime.date):
        return "naive", (value - datetime.date(1970, 1, 1)).days * 86_400 * 10**9
    return ("number", int(value)) if vertex_kind(value) == "int64" else None


class Twin:
    """An engine and the oracle, whose time is in nanoseconds, or seconds."""

    def __init__(self, time: str, unit: str | None) -> None:
        plain = rpq.Window(size=10, slide=3)
        durations = time != "numbers" and unit is None
        window = rpq.Window(size="10s", slide="3s") if durations else plain
        query = rpq.Query("a/b*", window=window, name="q", semantics="explicit")
        self.engine = rpq.Engine(query, time_unit=unit, _capacity=8)  # type: ignore[arg-type]
        self.per = 1 if durations else 10**9
        self.oracle = ReferenceEngine(reference_query(query))
        self.latest = 2**63 - 1 - query.window.size
        self.kind: str | None = None
        self.times: set[str] = set()
        self.unit = unit

    def number(self, value: Any) -> int | None:
        """A timestamp as the engine should understand it, None where it should not."""
        known = instant(value)
        if known is None:
            return None
        kind, number = known
        if self.unit is None and (kind == "number") != (self.per == 10**9):
            return None
        if kind != "number":
            number //= self.per
        return number if -(2**63) < number <= self.latest else None

    def is_good(self, tuple_: tuple[Any, ...]) -> bool:
        """Return whether the row is a well-formed tuple after those that were applied."""
        source, target, label, timestamp, op = tuple_
        kinds = {vertex_kind(source), vertex_kind(target)}
        if (
            None in kinds
            or len(kinds | {self.kind} - {None}) > 1
            or vertex_kind(label) != "string"
            or self.number(timestamp) is None
        ):
            return False
        time = instant(timestamp)
        assert time is not None
        mixed = {"naive", "aware"} <= self.times | {time[0]}
        return not mixed and isinstance(op, (str, pa.StringScalar)) and str(op) in ("+", "-")

    def apply(self, tuples: list[tuple[Any, ...]]) -> list[list[Any]]:
        """The rows that the oracle has for them."""
        groups = []
        for source, target, label, timestamp, op in tuples:
            assert self.is_good((source, target, label, timestamp, op)), "the engine took what it should not"
            number, time = self.number(timestamp), instant(timestamp)
            assert number is not None and time is not None
            self.kind = vertex_kind(source)
            self.times.add(time[0])
            ends = [str(end) if self.kind == "string" else int(as_python(end)) for end in (source, target)]
            groups.append(self.oracle.push(*ends, str(label), number, str(op)))
        return groups

    def compare(self, changes: rpq.Changes, groups: list[list[Any]]) -> None:
        found = [row(change) for change in changes.rows()]
        expected_kind = "number" if self.engine._times.is_of_numbers else "time"
        if expected_kind == "time":
            found = [one._replace(timestamp=self.number(one.timestamp)) for one in found]
        assert_rows(found, groups)
        assert self.engine.answers().pairs() == self.oracle.answers("q")
        self.engine._check()


def as_python(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


@pytest.mark.parametrize(
    ("time", "unit"),
    [("numbers", None), ("naive", None), ("aware", None), ("numpy", None), ("naive", "s"), ("numbers", "s")],
)
@pytest.mark.filterwarnings("ignore:no explicit representation of timezones")
@examples(60)
@given(data=st.data())
def test_anything_may_be_pushed(time: str, unit: str | None, data: st.DataObject) -> None:
    twin = Twin(time, unit)
    for _ in range(data.draw(st.integers(1, 3))):
        values = data.draw(pushed(time))
        how = data.draw(st.sampled_from(["rows", "mapping", "arrow", "pandas", "polars"]))
        if how == "rows":
            given_: Any = list(zip(*values.values(), strict=True))
            push = twin.engine.push_rows
        else:
            given_ = {name: draw_column(data, column) for name, column in values.items()}
            push = twin.engine.push
        is_risky = any(crashes_arrow(column) for column in values.values())
        if how == "pandas" or (how in ("arrow", "polars") and not is_risky):
            form: Callable[[Any], Any] = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}[how]
            try:
                table = form(given_)
                for name in NAMES:
                    contained(table[name])
            except Exception:  # what is no table, or does not give its values back, is pushed as the mapping that it was
                pass
            else:
                given_ = table
        tuples = tuples_of(given_)
        try:
            changes = push(given_)
        except rpq.InputError as error:
            assert error.changes is not None and str(error)
            count = error.row or 0
            assert tuples is not None or count == 0
            good = (tuples or [])[:count]
            twin.compare(error.changes, twin.apply(good))
            if error.row is not None and tuples is not None:
                assert error.column in (*NAMES, None)
                mixed = count == 0 and len({vertex_kind(one) for pair in tuples for one in pair[:2]}) > 1
                assert mixed or not twin.is_good(tuples[count]), f"{error} of {tuples[count]}"
            continue
        if tuples is not None:
            twin.compare(changes, twin.apply(tuples))
        else:
            break  # an iterator, of which nothing is left to compare with
        twin.engine._check()


def draw_column(data: st.DataObject, values: list[Any]) -> Any:
    make = data.draw(st.sampled_from([*LISTS * 3, *ARRAYS * 2, *NO_COLUMN]))
    if make in ARRAYS and crashes_arrow(values):
        return pd.Series(values, dtype="category")  # which the engine has to examine before Arrow does
    try:
        column = make(values)
        contained(column)
    except Exception:  # numpy, Arrow, pandas or polars do not make this of such values, or do not give them back
        return values
    return column


def crashes_arrow(values: list[Any]) -> bool:
    """Whether Arrow, and polars, which calls it, end the process at a list: another scalar of NumPy follows a time of it."""
    kinds = {type(value) for value in values}
    return np.datetime64 in kinds and len([kind for kind in kinds if issubclass(kind, np.generic)]) > 1


def tuples_of(given_: Any) -> list[tuple[Any, ...]] | None:
    """The rows of what is pushed, None where it has none."""
    if isinstance(given_, list):
        return given_
    columns = {name: contained(given_[name]) for name in NAMES}
    if any(column is None for column in columns.values()) or len({len(column or ()) for column in columns.values()}) != 1:
        return None
    return list(zip(*columns.values(), strict=True))  # type: ignore[arg-type]


MIXED = [np.datetime64("2020-01-01T00:00:05", "ms"), np.int8(3)]


@pytest.mark.parametrize("name", ["source", "timestamp", "edge", "amount"])
@pytest.mark.parametrize("make", [list, lambda v: np.array(v, object), pd.Series, pd.Categorical])
def test_times_of_numpy_among_its_other_scalars_are_refused(name: str, make: Callable[[list[Any]], Any]) -> None:
    """Arrow ends the process at such a list."""
    engine = rpq.Engine(rpq.Query("a[amount > 1]", window=rpq.Window(size="10s", slide="3s")), edges="id")
    columns: dict[str, Any] = {
        "source": ["x", "y"],
        "target": ["y", "z"],
        "label": ["a", "a"],
        "timestamp": [MOMENT, MOMENT],
        "op": ["+", "+"],
        "edge": ["e", "f"],
        "amount": [2, 3],
    } | {name: make(MIXED)}
    frames = [pd.DataFrame(columns | {name: of_frame(MIXED)}) for of_frame in (list, pd.Categorical)]
    for data in (columns, *frames):
        with pytest.raises(rpq.InputError) as found:
            engine.push(data)
        assert found.value.column == name
