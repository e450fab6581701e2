"""Columns by other names, a label for all edges, and timestamps that are times."""

from __future__ import annotations

import datetime
import json
import os
import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers import ColumnNames, open_reader
from rpq.stream.arrays.fields import check_time, times_of
from tests.twins import examples

NAMES = "source=user,target=item,timestamp=ts,label=kind,op=change"


@pytest.fixture
def rows(tmp_path):
    """The tuples of a text, as lists."""

    def read(text: str, columns: str | None = None, label: str | None = None, name: str = "edges.csv", **options):
        path = tmp_path / name
        path.write_text(text)
        reader = open_reader("edges", path, columns=ColumnNames.parse(columns, label=label), **options)
        return [list(row.values()) for batch in reader for row in batch.columns.to_pylist()]

    return read


@pytest.mark.parametrize("separator", [",", "\t", " "])
def test_columns_have_the_names_that_are_given(rows, separator):
    text = "kind,ts,user,other,item,change\nlikes,3,ann,?,bob,-\n".replace(",", separator)
    assert rows(text, NAMES) == [["ann", "bob", "likes", 3, True]]


@pytest.mark.parametrize(
    "text", ["source,timestamp,target\na,1,b\n", "a b 1\n", "a\tb\t1\n", '{"source":"a","target":"b","timestamp":1}\n']
)
def test_a_label_for_all_edges(rows, text):
    assert rows(text, label="follows") == [["a", "b", "follows", 1]]


def test_a_label_goes_before_the_column_that_is_called_so(rows):
    assert rows("source,target,label,timestamp\na,b,y,1\n", label="x") == [["a", "b", "x", 1]]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_missing_column_is_told_with_those_that_are_there(rows, on_error):
    message = r"edges.csv:1: column 'usr': is missing; expected usr, .* found user, item, ts; did you mean 'user'\?"
    with pytest.raises(InputError, match=message):
        rows("user,item,ts\na,b,1\n", "source=usr,target=item,timestamp=ts", label="x", on_error=on_error)
    with pytest.raises(InputError, match=r"column 'usr': is missing; .* found user, target, timestamp; did you mean 'user'"):
        rows('{"user": "a", "target": "b", "timestamp": 1}\n', "source=usr", label="x", on_error=on_error)


DOORS = ("CSV", "JSON lines", "Parquet")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("user,item,ts", {}, "the columns source, target, label and timestamp are missing;"),
        ("user,item,ts", {}, "give --columns source=user,target=item,timestamp=ts --label LABEL"),
        ("from,to,label,ts,amount", {}, "give --columns source=from,target=to,timestamp=ts"),
        ("target,label,userId,created_at", {}, "give --columns source=userId,timestamp=created_at"),
        ("user,item,ts", {"columns": "source=user,target=item,timestamp=ts"}, "give --label LABEL"),
        ("source,target,timestamp,type", {}, "give --columns label=type"),
        ("src,dst,at", {"columns": "source=source", "label": "x"}, "give --columns source=src,target=dst,timestamp=at"),
        ("user name,item,ts", {"label": "x"}, "give --columns 'source=user name,target=item,timestamp=ts'"),
    ],
)
def test_all_missing_columns_are_told_with_the_options_that_name_them(tmp_path, rows, door, names, options, message):
    values = {name: 1 if name in ("ts", "at", "timestamp", "created_at") else "a" for name in names.split(",")}
    columns, label = options.get("columns"), options.get("label")
    with pytest.raises(InputError) as caught:
        if door == "CSV":
            rows(f"{names}\n{','.join(map(str, values.values()))}\n", columns, label=label)
        elif door == "JSON lines":
            rows(json.dumps(values) + "\n", columns, label=label)
        else:
            pq.write_table(pa.table({name: [value] for name, value in values.items()}), tmp_path / "edges")
            open_reader("edges", tmp_path / "edges", columns=ColumnNames.parse(columns, label=label))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("user;item;ts\na;b;1\n", "; this line contains semicolons: use commas or tabs instead"),
        ("user|item|ts\na|b|1\n", "; this line contains bars: use commas or tabs instead"),
        ('[{"user": "a", "item": "b", "ts": 1},\n', "; this line is a part of a JSON document: write one object per line"),
        ('{\n"user": "a"\n}\n', "; this line is a part of a JSON document: write one object per line"),
        ("PK\x03\x04\x14\0", "a ZIP archive, as a workbook of Excel is: save the sheet as CSV, or unpack the archive"),
        ("u\0s\0e\0r\0,\0i\0t\0e\0m\0\n\0", "; this line contains zero bytes, as in UTF-16: convert the file to UTF-8"),
    ],
)
def test_another_kind_of_text_is_told_of_before_names_of_columns(rows, text, hint):
    with pytest.raises(InputError) as caught:
        rows(text, "source=user,target=item,timestamp=ts", label="x")
    assert str(caught.value).endswith(hint)


def test_a_column_that_is_there_twice_is_told(rows):
    with pytest.raises(InputError, match="column 'user': occurs twice in the header"):
        rows("user,user,target,timestamp\n", "source=user", label="x")
    with pytest.raises(InputError, match="edges.csv:1: column 'user': occurs twice in the object"):
        rows('{"user": "a", "user": "b", "target": "c", "timestamp": 1}\n', "source=user", label="x")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("source=user,target=user", "edges.csv:1: column 'user': is both source and target; .* each needs one of its own"),
        ("source=target", "column 'target': is both source and target"),
        ("stream=label", "column 'label': is both label and stream"),
    ],
)
def test_a_field_is_one_column_alone(rows, columns, message):
    text = "user,source,target,label,timestamp\nu,v,w,a,1\n"
    with pytest.raises(InputError, match=message):
        rows(text, columns)


@pytest.mark.parametrize(
    ("columns", "label", "message"),
    [
        ("source", None, "'source' is not COLUMN=NAME"),
        ("sorce=user", None, "'sorce' is not a column of a tuple.* did you mean 'source'"),
        ("source=a,source=b", None, "'source' is mapped twice"),
        ("label=kind", "x", "use one of the two"),
        (None, "", "the label is empty"),
    ],
)
def test_what_is_wrong_with_the_names(columns, label, message):
    with pytest.raises(InputError, match=message):
        ColumnNames.parse(columns, label=label)


def test_parquet_has_the_names_too(tmp_path):
    path = tmp_path / "edges.parquet"
    table = {"user": [1, 2], "item": [2, None], "ts": [5, 6], "change": ["+", "-"]}
    pq.write_table(pa.table(table), path)
    columns = ColumnNames.parse("source=user,target=item,timestamp=ts,op=change", label="x")
    reader = open_reader("edges", path, columns=columns, on_error="skip")
    assert [batch.columns.to_pylist() for batch in reader] == [
        [{"source": 1, "target": 2, "label": "x", "timestamp": 5, "delete": False}]
    ]
    assert reader.rejections == [f"{path}: row 1 (counted from 0): column 'item': is null; expected a value"]
    with pytest.raises(InputError, match="column 'itm' is missing; expected .* did you mean 'item'"):
        open_reader("edges", path, columns=ColumnNames.parse("source=user,target=itm,timestamp=ts", label="x"))


def test_formats_with_columns_of_their_own_take_no_names(tmp_path):
    (tmp_path / "a-b.txt").write_text("1 2 3\n")
    with pytest.raises(InputError, match="the format gmark has fixed columns"):
        open_reader("gmark", tmp_path / "a-b.txt", columns=ColumnNames.parse("source=a"))


TIMES = "source,target,label,timestamp\na,b,x,2024-05-01T12:00:00Z\na,b,x,2024-05-01 14:00:00.5+02:00\n"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("s", [1714564800, 1714564800]), ("ms", [1714564800000, 1714564800500]), (None, [1714564800000000, 1714564800500000])],
)
@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_times_become_integers_in_the_unit(tmp_path, unit, expected, batch_rows):
    path = tmp_path / "edges.csv"
    path.write_text(TIMES)
    reader = open_reader("edges", path, time_unit=unit, batch_rows=batch_rows)
    assert reader.time_unit == (unit or "us")
    assert [time for batch in reader for time in batch.columns["timestamp"].to_pylist()] == expected


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("2024-05-01T12:00:00Z", "2024-05-01T12:00:00", "has no zone, but the times before have one"),
        ("2024-05-01T12:00:00", "2024-05-01T12:00:00+02:00", "has a zone, but the times before have none"),
        ("2024-05-01T12:00:00", "2024-05-01T25:00:00", "is not a time; expected one such as 2024-05-01T12:00:00"),
        ("2024-05-01T12:00:00", "17", "'17' is not a time"),
        ("17", "2024-05-01", "is a time, where integers are expected"),
        ("2024-05-01", "", "is empty; expected a time"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_times_of_a_file_are_all_alike(rows, first, second, message, batch_rows):
    text = f"a,b,x,{first}\na,b,x,{second}\n"
    with pytest.raises(InputError, match=f"edges.csv:2: column 'timestamp': .*{message}"):
        rows(text, batch_rows=batch_rows)
    assert len(rows(text, batch_rows=batch_rows, on_error="skip")) == 1


def test_files_agree_in_their_times(tmp_path):
    for name, time in (("zone", "2024-05-01T12:00Z"), ("naive", "2024-05-01"), ("number", "17")):
        (tmp_path / name).write_text(f"a b x {time}\n")
    with pytest.raises(InputError, match="naive: its times have no zone, but those of .*zone have one"):
        open_reader("edges", [tmp_path / "zone", tmp_path / "naive"])
    with pytest.raises(InputError, match="timestamps are numbers without a unit, but in us in"):
        open_reader("edges", [tmp_path / "zone", tmp_path / "number"])


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
@pytest.mark.parametrize("lines", [TIMES, TIMES.split("\n", 1)[1]])
def test_times_through_a_pipe_need_their_unit(tmp_path, lines):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read(unit: str | None) -> list[int]:
        feeder = threading.Thread(target=pipe.write_text, args=(lines,))
        feeder.start()
        try:
            reader = open_reader("edges", pipe, time_unit=unit)
            return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]
        finally:
            feeder.join()

    assert read("s") == [1714564800, 1714564800]
    with pytest.raises(InputError, match="the times of a pipe need a time unit"):
        read(None)


moments = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
zones = st.none() | st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)).map(
    lambda one: datetime.timezone(datetime.timedelta(minutes=one // datetime.timedelta(minutes=1)))
)


@examples(1000)
@given(moment=moments, zone=zones, separator=st.sampled_from("T "), unit=st.sampled_from(["s", "ms", "us"]))
def test_times_are_those_of_python(moment, zone, separator, unit):
    moment = moment.replace(tzinfo=zone)
    text = moment.isoformat(separator)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=None if zone is None else datetime.UTC)
    size = {
        "s": datetime.timedelta(seconds=1),
        "ms": datetime.timedelta(milliseconds=1),
        "us": datetime.timedelta(microseconds=1),
    }
    kind = "naive" if zone is None else "aware"
    expected = (moment - epoch) // size[unit]
    assert check_time(text, "timestamp", kind=kind, unit=unit) == expected
    assert times_of(pa.array([text, text]), kind=kind, unit=unit).to_pylist() == [expected, expected]
