"""Time as a person means it: windows in durations, dates and times in and out; and what does not go together.

semantics.md S3
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rpq

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2020, 3, 1, 12)
HOUR = timedelta(hours=1)
DAYS = rpq.Window(size="2d", slide="1d")


def ask(window: rpq.Window = DAYS, **options: Any) -> rpq.Query:
    return rpq.Query("a/b*", **{"window": window, "name": "q", "semantics": "explicit", **options})


def two(*timestamps: Any) -> dict[str, Any]:
    return {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": list(timestamps)}


# --- windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "slide"),
    [
        ("30d", "1d"),
        ("2592000s", "24h"),
        (timedelta(days=30), timedelta(days=1)),
        (pd.Timedelta("30d"), pd.Timedelta(days=1)),
        ("30d", np.timedelta64(86_400 * 10**9, "ns")),
    ],
)
def test_ways_to_write_a_duration(size: Any, slide: Any) -> None:
    window = rpq.Window(size=size, slide=slide)
    assert window == rpq.Window(size="30d", slide="1d") and hash(window) == hash(rpq.Window(size="30d", slide="1d"))
    assert repr(window) == "Window(size='30d', slide='1d')"
    assert eval(repr(window), {"Window": rpq.Window}) == window
    assert window != rpq.Window(size=30, slide=1)
    assert window.in_unit("s") == rpq.Window(size=30 * 86_400, slide=86_400)


@pytest.mark.parametrize(
    ("size", "slide", "message"),
    [
        ("30", "1d", "no unit"),
        ("a while", "1d", "not a duration"),
        ("30d", 1, "both plain numbers or both durations"),
        ("0s", "1d", "size of a window must be positive"),
        ("1d", timedelta(-1), "slide of a window must be positive"),
        (np.timedelta64(1, "M"), "1d", "no fixed length"),
        (pd.NaT, "1d", "whole number of time units, or a duration"),
        ("0.5ns", "1ns", "no whole number"),
    ],
)
def test_what_is_no_duration(size: Any, slide: Any, message: str) -> None:
    with pytest.raises(rpq.QueryError, match=message):
        rpq.Window(size=size, slide=slide)


def test_a_window_that_the_unit_of_the_engine_cannot_hold() -> None:
    with pytest.raises(rpq.QueryError, match="1500ms, is no whole number of s; .*time_unit='ms'"):
        rpq.Engine(ask(rpq.Window(size="1.5s", slide="1ms")), time_unit="s")
    with pytest.raises(rpq.QueryError, match="200000d, does not fit into 64 bits in the unit ns; .*time_unit='us'"):
        rpq.Engine(ask(rpq.Window(size="200000d", slide="1d")))
    engine = rpq.Engine(ask(rpq.Window(size="200000d", slide="1000d")), time_unit="us")
    engine.push(two(datetime.datetime(1500, 1, 1), datetime.datetime(2000, 1, 1)))
    assert len(engine.answers()) == 2


# --- what comes back --------------------------------------------------------------------------------------


TYPES: list[tuple[Callable[[Any], Any], pa.DataType]] = [
    (lambda t: t, pa.timestamp("us")),
    (lambda t: t.replace(tzinfo=BERLIN), pa.timestamp("us", "Europe/Berlin")),
    (lambda t: t.replace(tzinfo=UTC), pa.timestamp("us", "UTC")),
    (lambda t: t.replace(tzinfo=datetime.timezone(timedelta(hours=5, minutes=30))), pa.timestamp("us", "+05:30")),
    (lambda t: np.datetime64(t, "s"), pa.timestamp("s")),
    (lambda t: np.datetime64(t, "ms"), pa.timestamp("ms")),
    (lambda t: np.datetime64(t, "ns") + np.timedelta64(7, "ns"), pa.timestamp("ns")),
    (lambda t: pd.Timestamp(t, tz=BERLIN).as_unit("ns") + pd.Timedelta(7, "ns"), pa.timestamp("ns", "Europe/Berlin")),
    (lambda t: t.date(), pa.date32()),
]


@pytest.mark.parametrize(("form", "type_"), TYPES, ids=[str(type_) for _, type_ in TYPES])
@pytest.mark.parametrize("container", [np.array, pa.array, "rows"])
def test_times_come_back_as_they_came(
    form: Callable[[Any], Any], type_: pa.DataType, container: Any, tmp_path: Path
) -> None:
    #  03-01 12h     03-02 12h          03-03      03-04
    #    a             b              a leaves
    first, second = form(NOON), form(NOON + timedelta(days=1))
    if container is pa.array:
        column: Any = pa.array([first, second], type_)
    else:
        column = container([first, second]) if container != "rows" else [first, second]
    question = ask(rpq.Window(size="35h", slide="1d"))
    engine = rpq.Engine(question)
    data = two() | {"timestamp": column}
    changes = engine.push_rows(zip(*data.values(), strict=True)) if container == "rows" else engine.push(data)
    found = changes.to_arrow()["timestamp"].type
    if container is pd.Series and pa.types.is_timestamp(type_):
        assert found.tz == type_.tz and pa.types.is_timestamp(found)
    else:
        assert found == type_
    assert [change.timestamp for change in changes] == [first, second]
    assert pa.table(changes).schema == changes.to_arrow().schema
    assert engine.time == second
    engine.save(tmp_path / "state")
    for one in (engine, rpq.Engine.restore(tmp_path / "state")):
        assert one.time == second
        assert one.queries == (question,)
        gone = one.advance(form(NOON + timedelta(days=2)))
        midnight = datetime.datetime(2020, 3, 3, tzinfo=UTC if getattr(type_, "tz", None) else None)
        expected = midnight.date() if type_ == pa.date32() else midnight
        assert [(change.op, change.timestamp) for change in gone] == [("-", expected), ("-", expected)]
        assert gone.to_arrow()["timestamp"].type == found
        assert one.time == form(NOON + timedelta(days=2))
        with pytest.raises(rpq.InputError, match="plain number"):
            one.insert("x", "y", "a", 5)


def test_integers_stay_integers(tmp_path: Path) -> None:
    engine = rpq.Engine(ask(rpq.Window(size="2d", slide="1d")), time_unit="s")
    changes = engine.push(two(0, 86_400))
    assert changes.to_arrow()["timestamp"].type == pa.int64()
    engine.save(tmp_path / "state")
    for one in (engine, rpq.Engine.restore(tmp_path / "state")):
        assert one.time == 86_400
        assert [change.timestamp for change in one.advance(2 * 86_400)] == [2 * 86_400] * 2


def test_conversion_floors_before_1970_as_well() -> None:
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    for given in ([before], pa.array([before]), np.array([before], "M8[ns]"), np.array([np.datetime64(before, "ps")])):
        engine = rpq.Engine(ask(rpq.Window(size="10s", slide="1s")), time_unit="s")
        engine.push(source=["x"], target=["y"], label=["a"], timestamp=given)
        assert engine.time == datetime.datetime(1969, 12, 31, 23, 59, 59)


def test_nanoseconds_decide() -> None:
    # Of 10 ns, moving by 1: what is 10 ns later finds nothing any more.
    start = np.datetime64("2020-01-01", "ns")
    for later, found in ((9, 2), (10, 0)):
        engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size="10ns", slide="1ns")))
        engine.push_rows([("x", "y", "a", start), ("y", "z", "b", start + np.timedelta64(later, "ns"))])
        assert len(engine.answers()) == found // 2


def test_units_that_arrow_lacks() -> None:
    for unit in ("Y", "M", "W", "D"):
        times = np.array(["2020-01-02", "2020-01-03"], f"M8[{unit}]")
        changes = rpq.Engine(ask(rpq.Window(size="900d", slide="1d"))).push(two() | {"timestamp": times})
        assert [change.timestamp for change in changes] == times.astype("M8[D]").tolist()
    for unit in ("h", "m", "25s", "10ms", "ps", "100ps"):
        times = np.array(["1970-01-02T10:00:00", "1970-01-02T11:00:00"], f"M8[{unit}]")
        changes = rpq.Engine(ask(rpq.Window(size="900d", slide="1d"))).push(two() | {"timestamp": times})
        assert [change.timestamp for change in changes] == times.astype("M8[us]").tolist()


def test_boundaries_that_the_unit_of_the_input_cannot_tell() -> None:
    #  seconds in, slides of half a second: an edge of 0 s leaves at 1.5 s
    engine = rpq.Engine(ask(rpq.Window(size="1.5s", slide="500ms")))
    start = np.datetime64("2020-01-01", "s")
    engine.push_rows([("x", "y", "a", start)])
    gone = engine.push_rows([("u", "v", "c", start + np.timedelta64(10, "s"))])
    assert gone.to_arrow()["timestamp"].type == pa.timestamp("ms")
    assert [change.timestamp for change in gone] == [datetime.datetime(2020, 1, 1, 0, 0, 1, 500_000)]
    #  dates in, slides of an hour
    engine = rpq.Engine(ask(rpq.Window(size="5h", slide="1h")))
    engine.push_rows([("x", "y", "a", datetime.date(2020, 1, 1))])
    gone = engine.push_rows([("u", "v", "c", datetime.date(2020, 1, 2))])
    assert [change.timestamp for change in gone] == [datetime.datetime(2020, 1, 1, 5)]


def test_later_times_in_a_finer_unit() -> None:
    engine = rpq.Engine(ask())
    assert engine.push_rows([("x", "y", "a", np.datetime64("2020-01-01T12", "s"))]).to_arrow()[
        "timestamp"
    ].type == pa.timestamp("s")
    changes = engine.push_rows([("x", "z", "a", np.datetime64("2020-01-01T12:00:00.000001", "us"))])
    assert changes.rows()[0].timestamp == datetime.datetime(2020, 1, 1, 12, 0, 0, 1)
    coarse = engine.push_rows([("x", "w", "a", np.datetime64("2020-01-02", "s"))])
    assert coarse.to_arrow()["timestamp"].type == pa.timestamp("us")


def test_times_beyond_those_of_python() -> None:
    far = np.datetime64("20000-01-01T00:00:00", "s")
    engine = rpq.Engine(ask(), time_unit="s")
    assert engine.push_rows([("x", "y", "a", far)]).rows()[0].timestamp == far == engine.time


def test_set_aside_roots_and_queries_that_come_too_early_tell_times() -> None:
    engine = rpq.Engine(ask())
    engine.push_rows([("x", "y", "a", NOON), ("y", "z", "c", NOON)])
    with pytest.raises(rpq.RegistrationError, match="from 2020-03-04 00:00:00 on") as caught:
        engine.register(rpq.Query("c", window=rpq.Window(size="2d", slide="1d")))
    assert caught.value.available_from == datetime.datetime(2020, 3, 4)
    added = engine.register(rpq.Query("a", window=rpq.Window(size="1d", slide="1d")))
    assert [change.timestamp for change in added] == [NOON]
    assert [query.window for query in engine.queries] == [DAYS, rpq.Window(size="1d", slide="1d")]
    engine = rpq.Engine(rpq.Query("a/b*/c", window=DAYS, paths="simple", simple_budget=3))
    batch = [
        ("x", "y", "a"),
        ("y", "u", "b"),
        ("u", "y", "c"),
        ("x", "v", "a"),
        ("v", "u", "b"),
        ("v", "w", "b"),
        ("w", "u", "b"),
    ]
    with pytest.raises(rpq.ConflictBudgetError, match="at time 2020-03-01 12:00:00") as budget:
        engine.push_rows([(*edge, NOON) for edge in batch])
    assert [report.timestamp for report in budget.value.changes.set_aside] == [NOON]


# --- what does not go together ------------------------------------------------------------------------------


def test_plain_windows_over_times() -> None:
    engine = rpq.Engine(ask(rpq.Window(size=30, slide=1)))
    for data in (two(NOON, NOON), pa.table(two(NOON, NOON)), pl.DataFrame(two(NOON, NOON)), two(NOON.date(), NOON.date())):
        with pytest.raises(rpq.InputError, match=r'Window\(size="30d", slide="1d"\).*time_unit="s"') as caught:
            engine.push(data)
        assert caught.value.column == "timestamp"
        assert (len(caught.value.changes), engine.time) == (0, None)
    with pytest.raises(rpq.InputError, match=r'the stream time: .*Window\(size="30d", slide="1d"\)'):
        engine.advance(NOON)
    assert len(engine.push(two(1, 2))) == 2
    with pytest.raises(rpq.InputError, match="times, and those before were plain numbers"):
        engine.push(two(NOON, NOON))


def test_durations_over_plain_numbers() -> None:
    engine = rpq.Engine(ask())
    for act in (lambda: engine.push(two(1, 2)), lambda: engine.insert("x", "y", "a", 1), lambda: engine.advance(1)):
        with pytest.raises(rpq.InputError, match=r'time_unit="s"\), or give windows in the same plain numbers'):
            act()
    assert engine.time is None
    assert len(engine.push(two(NOON, NOON))) == 2
    with pytest.raises(rpq.InputError, match="plain numbers, and those before were times"):
        engine.push(two(1, 2))


def test_plain_windows_and_durations_in_one_engine() -> None:
    plain, duration = ask(rpq.Window(size=3, slide=1), name="p"), ask()
    with pytest.raises(rpq.QueryError, match="window of query 'q' is in durations .*'p' in plain numbers"):
        rpq.Engine(plain, duration)
    engine = rpq.Engine(duration)
    with pytest.raises(rpq.QueryError, match="give both in durations"):
        engine.register(plain)
    assert engine.queries == (duration,)
    engine.push(two(NOON, NOON))
    engine.unregister("q")
    with pytest.raises(rpq.QueryError, match="timestamps of this stream are dates or times"):
        engine.register(plain)
    engine.register(duration, start="empty")
    numbers = rpq.Engine(plain)
    numbers.push(two(1, 2))
    numbers.unregister("p")
    with pytest.raises(rpq.QueryError, match="timestamps of this stream are plain numbers"):
        numbers.register(duration)
    both = rpq.Engine(plain, duration, time_unit="s")
    assert len(both.push(two(0, 2))) == 4
    assert {change.query for change in both.advance(100)} == {"p"}


def test_naive_and_aware() -> None:
    aware = NOON.replace(tzinfo=UTC)
    for unit in (None, "us"):
        for first, second in ((NOON, aware), (aware, NOON), (NOON.date(), aware), (np.datetime64(NOON), aware)):
            engine = rpq.Engine(ask(), time_unit=unit)  # type: ignore[arg-type]
            with pytest.raises(rpq.InputError, match=r"time zone.*replace\(tzinfo=datetime.UTC\)") as caught:
                engine.push(two(first, second))
            assert (caught.value.row, caught.value.column, len(caught.value.changes)) == (1, "timestamp", 1)
            for data in (two(second, second), pa.table(two(second, second))):
                with pytest.raises(rpq.InputError, match="time zone"):
                    engine.push(data)
            with pytest.raises(rpq.InputError, match="time zone"):
                engine.advance(second)
            assert engine.time == first


def test_zones_may_differ() -> None:
    engine = rpq.Engine(ask())
    aware = NOON.replace(tzinfo=BERLIN)
    changes = engine.push(two(aware, aware.astimezone(UTC) + HOUR))
    assert [str(change.timestamp) for change in changes] == ["2020-03-01 12:00:00+01:00", "2020-03-01 13:00:00+01:00"]
    with pytest.raises(rpq.InputError, match="time zone 'Mars/Olympus', which is not known"):
        rpq.Engine(ask()).push(
            two() | {"timestamp": pa.array([NOON, NOON]).cast(pa.int64()).view(pa.timestamp("us", "Mars/Olympus"))}
        )


def test_times_that_nanoseconds_do_not_reach() -> None:
    engine = rpq.Engine(ask())
    for far in (datetime.datetime(1500, 1, 1), datetime.datetime(2500, 1, 1), datetime.date(1, 1, 1), np.datetime64("3000")):
        with pytest.raises(rpq.InputError, match="time_unit='us'") as caught:
            rpq.Engine(ask()).push(two(NOON if isinstance(far, datetime.datetime) else NOON.date(), far))
        assert (caught.value.row, caught.value.column, len(caught.value.changes)) == (1, "timestamp", 1)
        with pytest.raises(rpq.InputError, match="time_unit='us'"):
            engine.advance(far)
    assert (
        len(rpq.Engine(ask(), time_unit="us").push(two(datetime.datetime(1500, 1, 1), datetime.datetime(1500, 1, 2)))) == 2
    )


def test_the_pushes_that_fail_teach_nothing() -> None:
    engine = rpq.Engine(ask(), time_unit="us")
    with pytest.raises(rpq.InputError):
        engine.push(two(NOON, NOON) | {"label": [1, 2]})
    with pytest.raises(rpq.InputError):
        engine.push(two(NOON, NOON) | {"label": pa.array([1, 2])})
    engine.push(two(NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)))


def test_spark_sees_windows_in_the_unit_of_its_timestamps() -> None:
    from rpq.spark.columns import queries_in_unit
    from rpq.spark.errors import PipelineError

    plain = ask(rpq.Window(size=30, slide=1))
    assert queries_in_unit([plain], None) == queries_in_unit([plain], "us") == (plain,)
    assert queries_in_unit([ask()], "ms")[0].window == rpq.Window(size=2 * 86_400_000, slide=86_400_000)
    with pytest.raises(PipelineError, match="'q' is in durations .*timestamps are plain numbers"):
        queries_in_unit([plain, ask()], None)


# --- without pandas -------------------------------------------------------------------------------------------


WITHOUT_PANDAS = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ImportError("pandas is not installed here")

sys.meta_path.insert(0, Refusing())
"""


def test_the_python_of_the_readme_runs_without_pandas() -> None:
    root = Path(__file__).parents[2]
    readme = (root / "README.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", readme, re.DOTALL).groups()
    code += """
import datetime
import rpq, numpy as np, datetime
query = rpq.Query("a", window=rpq.Window(size="2d", slide=np.timedelta64(1, "D")))
engine = rpq.Engine(query)
print(engine.push_rows([("x", "y", "a", np.datetime64("2020-01-01T00:00:00.000000007"))]).rows()[0].timestamp, engine.time)
engine = rpq.Engine(query)
print(engine.push_rows([("x", "y", "a", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))]).rows()[0].timestamp)
print(engine.time)
"""
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS + code], capture_output=True, text=True, cwd=root)
    assert done.stdout.split("\n") == [
        *shown.splitlines(),
        "2020-01-01T00:00:00.000000007 2020-01-01T00:00:00.000000007",
        "2020-01-01 00:00:00+00:00",
        "2020-01-01 00:00:00+00:00",
        "",
    ], done.stderr


# --- numbers and times in one stream ----------------------------------------------------------------------------------


def mixes() -> list[list[Any]]:
    noon, later = datetime.datetime(1970, 1, 1, 0, 0, 5), datetime.datetime(1970, 1, 1, 0, 0, 7, 999_999)
    aware = noon.replace(tzinfo=UTC)
    return [
        [4, noon, 6, later, 9],
        [noon, 6, later, 7, np.datetime64("1970-01-01T00:00:08", "ns")],
        [datetime.date(1970, 1, 1), 3, noon, pa.scalar(6), pd.Timestamp(later)],
        [4, aware, 6, noon, 9],
        [noon, 4, aware, 5, 6],
        [4, 5, None, noon, 9],
        [4, noon, "soon", aware, 9],
        [4, noon, 2**70, later, 9],
        [4, np.datetime64("1970-01-01T00:00:05", "ns"), datetime.datetime(9999, 12, 31), 9, 9],
        [4, noon, True, 5, 6],
        [None, noon, 4, 5, 6],
    ]


@pytest.mark.parametrize("number", range(len(mixes())))
@pytest.mark.parametrize("spoilt", [None, 3])
def test_the_cut_of_numbers_and_times_into_pushes_cannot_be_seen(number: int, spoilt: int | None) -> None:
    times = mixes()[number]
    edges = [(f"v{place}", f"v{place + 1}", "a" if place != spoilt else None, time) for place, time in enumerate(times)]

    def pushed(*cuts: int) -> tuple[list[Any], Any, bool]:
        """The rows, the stream time, and whether an error ended it, of pushing the rows in these pieces."""
        engine = rpq.Engine(rpq.Query("a/a*", window=rpq.Window(size=4, slide=2), semantics="explicit"), time_unit="s")
        rows: list[Any] = []
        for begin, end in zip((0, *cuts), (*cuts, len(edges)), strict=True):
            try:
                rows += engine.push_rows(edges[begin:end]).rows()
            except rpq.InputError as error:
                rows += error.changes.rows()
                return rows, engine.time, True
        return rows, engine.time, False

    whole = pushed()
    for cuts in ((1,), (2,), (3,), (4,), (1, 2, 3, 4)):
        rows, time, has_failed = pushed(*cuts)
        assert has_failed == whole[2]
        assert [seconds(row.timestamp) for row in rows] == [seconds(row.timestamp) for row in whole[0]]
        assert sorted(row[:3] + row[4:] for row in rows) == sorted(row[:3] + row[4:] for row in whole[0])
        assert seconds(time) == seconds(whole[1])


def seconds(time: Any) -> Any:
    """A stream time in seconds: what came first tells the type."""
    if isinstance(time, datetime.datetime):
        return int(time.replace(tzinfo=UTC).timestamp())
    return time if time is None or isinstance(time, int) else int(pd.Timestamp(time).timestamp())


def test_numbers_and_times_do_not_go_together_without_a_unit() -> None:
    for times in ([4, NOON], [NOON, 4]):
        engine = rpq.Engine(ask(DAYS if times[0] == NOON else rpq.Window(size=4, slide=2)))
        with pytest.raises(rpq.InputError, match="row 1: column 'timestamp': .* follows") as caught:
            engine.push(two(*times))
        assert len(caught.value.changes) == 1
