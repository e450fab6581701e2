"""Times in other notations than ISO 8601 (`--time-format`), and vertices that are numbers and text (`--vertices text`).

semantics.md S13
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from math import floor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers import ColumnNames, EdgeRules, open_reader
from rpq.readers.source import LineBlock
from rpq.readers.text.jsonlines import JsonLayout, JsonLines, parse_exact
from rpq.stream.arrays.fields import check_time_format, format_hint, times_of
from rpq.stream.durations import NANOSECONDS
from tests.twins import examples

RULES = '[[edge]]\nlabel = "l"\nsource = "source"\ntarget = "target"\ntimestamp = "timestamp"\n'
EPOCH = ColumnNames(time_format="epoch")
TEXT = ColumnNames(text_vertices=True)


def written(tmp_path, text: str) -> str:
    path = tmp_path / "stream"
    path.write_text(text)
    return str(path)


def lines(*objects: dict) -> str:
    return "".join(json.dumps({"source": "x", "target": "y", "label": "a", "timestamp": 1, **one}) + "\n" for one in objects)


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.columns.to_pylist()]


def column(reader, name: str) -> list:
    return [row[name] for row in rows(reader)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_seconds_are_numbers_or_text_with_a_fraction_or_without(tmp_path, unit):
    times = [1591367999.305988, "1591367999.305988", 1591367999, "-0.5", 2.5e3, "1e2"]
    path = written(tmp_path, lines(*({"timestamp": time} for time in times)))
    reader = open_reader("jsonl", path, columns=EPOCH, time_unit=unit)
    factor = 10**9 // NANOSECONDS[unit]
    exact = [Fraction("1591367999.305988"), Fraction("1591367999.305988"), 1591367999, Fraction("-0.5"), 2500, 100]
    assert column(reader, "timestamp") == [floor(time * factor) for time in exact]
    assert reader.time_unit == unit
    fields = written(tmp_path, "source,target,label,timestamp\n" + "".join(f"x,y,a,{time}\n" for time in times))
    assert column(open_reader("edges", fields, columns=EPOCH, time_unit=unit), "timestamp") == [
        floor(time * factor) for time in exact
    ]


@given(st.lists(st.tuples(st.sampled_from(["", "-", "+"]), st.integers(0, 10**12), st.text("0123456789", max_size=12))))
def test_seconds_are_rounded_down(parts):
    texts = [f"{sign}{whole}.{part}" if part else f"{sign}{whole}" for sign, whole, part in parts]
    for unit in ("s", "ms", "us"):
        found = times_of(pa.array(texts, pa.string()), kind="epoch", unit=unit)
        assert found.to_pylist() == [floor(Fraction(text) * (10**9 // NANOSECONDS[unit])) for text in texts]


def test_seconds_that_do_not_fit_or_are_none_are_bad(tmp_path):
    bad = [True, "soon", "", "9e18", 1e300, "12,5", None]
    path = written(tmp_path, lines({}, *({"timestamp": time} for time in bad), {}))
    reader = open_reader("jsonl", path, columns=EPOCH, on_error="skip")
    assert column(reader, "timestamp") == [10**6, 10**6]
    assert reader.rejected == len(bad)
    assert "\"soon\" is not a time of --time-format epoch" in reader.rejections[1].replace("'soon'", '"soon"')


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("%d/%m/%Y %I:%M %p", "24/12/2024 03:10 PM", datetime(2024, 12, 24, 15, 10, tzinfo=UTC)),
        ("%m/%d/%Y", "12/24/2024", datetime(2024, 12, 24, tzinfo=UTC)),
        ("%d.%m.%Y %H:%M:%S.%f", "24.12.2024 15:10:00.25", datetime(2024, 12, 24, 15, 10, 0, 250_000, tzinfo=UTC)),
        ("%b %d %Y %H:%M:%S %z", "Dec 24 2024 15:10:00 +0100", datetime(2024, 12, 24, 14, 10, tzinfo=UTC)),
    ],
)
def test_times_have_the_format_that_is_given(tmp_path, format, text, expected):
    columns = ColumnNames(time_format=format)
    wanted = [round(expected.timestamp() * 10**6)]
    for content in (lines({"timestamp": text}), f"source,target,label,timestamp\nx,y,a,{text}\n"):
        path = written(tmp_path, content)
        assert column(open_reader("edges", path, columns=columns), "timestamp") == wanted
    path = written(tmp_path, lines({"timestamp": text}, {"timestamp": "2024-12-24"}))
    with pytest.raises(InputError, match=":2: column 'timestamp': '2024-12-24' is not a time of --time-format"):
        rows(open_reader("edges", path, columns=columns))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("24/12/2024", "; --time-format '%d/%m/%Y' reads it"),
        ("12/24/2024 3:10:09", "; --time-format '%m/%d/%Y %H:%M:%S' reads it"),
        ("4.12.2024 03:10PM", "; --time-format '%d.%m.%Y %I:%M%p' reads it with the day first, '%m.%d.%Y %I:%M%p' with the"),
        ("2024-05-01 03:10:00 PM", "; --time-format '%Y-%m-%d %I:%M:%S %p' reads it"),
        ("1591367999.3", "; --time-format epoch reads seconds with a fraction"),
    ],
)
def test_other_notations_are_refused_with_the_option_that_reads_them(tmp_path, text, hint):
    for content in (lines({"timestamp": text}), f"source,target,label,timestamp\nx,y,a,{text}\n"):
        with pytest.raises(InputError) as caught:
            rows(open_reader("edges", written(tmp_path, content)))
        assert hint in str(caught.value)
    after = lines({"timestamp": "2024-05-01"}, {"timestamp": text})
    with pytest.raises(InputError) as caught:
        rows(open_reader("edges", written(tmp_path, after)))
    assert hint in str(caught.value)
    option = hint.partition("--time-format ")[2].partition(" reads")[0].strip("'")
    columns, path = ColumnNames(time_format=check_time_format(option)), written(tmp_path, lines({"timestamp": text}))
    assert len(column(open_reader("edges", path, columns=columns), "timestamp")) == 1


def test_what_is_no_time_has_no_hint():
    assert [format_hint(text) for text in ("soon", "99/99/2024", "12", "2024-05-01")] == [""] * 4


@pytest.mark.parametrize(("format", "message"), [("%q", "bad directive"), ("%H:%M", "has no year"), ("iso", "has no year")])
def test_what_is_no_format_is_refused(rpq, format, message):
    status, _, err = rpq("run", "a", "--window", 1, "--slide", 1, "--input", "-", "--time-format", format)
    assert status == 2
    assert message in err.decode() if isinstance(err, bytes) else message in err


def test_vertices_may_be_numbers_and_text(tmp_path):
    path = written(tmp_path, lines({"source": 5}, {"target": 5}, {"source": 2**70, "target": "007"}))
    assert [(row["source"], row["target"]) for row in rows(open_reader("jsonl", path, columns=TEXT))] == [
        ("5", "y"),
        ("x", "5"),
        (str(2**70), "007"),
    ]
    bad = written(tmp_path, lines({"source": 5}, {"source": 2.5}))
    with pytest.raises(InputError, match="2: column 'source': 2.5 is not text; expected a name in quotes or an integer"):
        rows(open_reader("jsonl", bad, columns=TEXT))
    table = pa.table({"source": [1], "target": ["b"], "label": ["a"], "timestamp": [1]})
    pq.write_table(table, tmp_path / "mixed.parquet")
    assert column(open_reader("edges", tmp_path / "mixed.parquet", columns=TEXT), "source") == ["1"]
    with pytest.raises(InputError, match="--vertices text makes numbers texts"):
        open_reader("edges", tmp_path / "mixed.parquet")


@pytest.mark.parametrize(
    ("format", "times", "expected"),
    [
        ("epoch", pa.array([1.5, 2.0, None, 3.25]), [1500, 2000, 3250]),
        ("epoch", pa.array(["1.5", "soon", "2", "3.25"]), [1500, 2000, 3250]),
        ("epoch", pa.array([1, 2, 3, 4]), [1000, 2000, 3000, 4000]),
        ("%d/%m/%Y", pa.array(["02/01/1970", "03/01/1970", "", "x"]).dictionary_encode(), [86_400_000, 2 * 86_400_000]),
    ],
)
def test_columns_of_parquet_have_formats(tmp_path, format, times, expected):
    names = pa.array(["x"] * 4)
    pq.write_table(pa.table({"source": names, "target": names, "label": names, "timestamp": times}), tmp_path / "t.parquet")
    columns, rules = ColumnNames(time_format=format), EdgeRules.parse(RULES, file="e.toml")
    reader = open_reader("edges", tmp_path / "t.parquet", columns=columns, time_unit="ms", on_error="skip")
    assert (reader.time_unit, column(reader, "timestamp")) == ("ms", expected)
    assert reader.rejected == 4 - len(expected)
    of_rules = open_reader("edges", tmp_path / "t.parquet", columns=columns, time_unit="ms", on_error="skip", rules=rules)
    assert (of_rules.time_unit, column(of_rules, "timestamp"), of_rules.rejected) == ("ms", expected, reader.rejected)
    if reader.rejected:
        with pytest.raises(InputError, match="row [12] .counted from 0.: column 'timestamp': .*is (null|not a time|empty)"):
            rows(open_reader("edges", tmp_path / "t.parquet", columns=columns))


def test_typed_times_have_no_format(tmp_path):
    table = pa.table({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": pa.array([1], pa.timestamp("ms"))})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'timestamp' has the type timestamp\[ms\]; expected text for --time-format epoch"):
        open_reader("edges", tmp_path / "t.parquet", columns=EPOCH)


@pytest.mark.parametrize("text", ["24 Dec 2024", "2024/12/24 10:00"])
@pytest.mark.parametrize("before", ["", "x,y,a,1\n", "x,y,a,2024-05-01\n"])
def test_a_notation_without_a_suggestion_gets_the_option_in_any_line(tmp_path, text, before):
    path = written(tmp_path, f"source,target,label,timestamp\n{before}x,y,a,{text}\n")
    with pytest.raises(InputError, match="--time-format describes times in other notations"):
        rows(open_reader("edges", path))


TIMES = st.sampled_from([0, 5, -3, 1.5, 1591367999.305988, "7", "7.25", "-1.5", "x", None, True, 2**53 + 1, 1e17, 1e-9])
VERTICES = st.sampled_from(["a", "5", 5, 5, 7, 2**64, "", None, 2.5, True])
NAMES = ColumnNames(time_format="epoch", text_vertices=True)


@examples(500)
@given(st.lists(st.tuples(TIMES, VERTICES, VERTICES), min_size=1, max_size=4), st.booleans())
def test_the_quick_way_reads_what_the_exact_way_reads(found, has_one_type):
    if has_one_type:
        found = [one for one in found if [type(value) for value in one] == [type(value) for value in found[0]]]
    data = lines(*({"timestamp": time, "source": source, "target": target} for time, source, target in found)).encode()
    layout = JsonLayout(names=NAMES, time_unit="us")
    quick = JsonLines(layout)._parse_plain(data)
    exact = parse_exact(LineBlock(data, 1), layout, stop=False)
    if quick is not None:
        assert exact.errors == []
        assert {name: array.to_pylist() for name, array in quick.columns.items() if name != "stream"} == {
            name: array.to_pylist() for name, array in exact.columns.items() if name != "stream"
        }
