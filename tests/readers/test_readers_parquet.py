"""Parquet as input: typed columns keep their type.

semantics.md S12
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers.edges import open_edges
from rpq.readers.parquet import is_parquet

WRITES_VIEWS = pytest.mark.skipif(int(pa.__version__.partition(".")[0]) < 21, reason="this Arrow writes no views to Parquet")


@pytest.fixture
def stored(tmp_path):
    """Write columns to a Parquet file (more than one row group) and return its path."""

    def write(name="edges.parquet", **columns) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, row_group_size=2)
        return str(path)

    return write


def columns(**changes) -> dict:
    return {
        "source": ["a", "b", "a"],
        "target": ["b", "c", "a"],
        "label": ["x", "y", "x"],
        "timestamp": [3, 1, 2],
    } | changes


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.columns.to_pylist()]


def test_rows_keep_their_order_and_integers_their_type(stored):
    path = stored(
        **columns(source=[1, 2, 3], target=pa.array([4, 5, 6], pa.uint16()), op=["+", "-", "+"], more=[0, 0, 0])
    )
    reader = open_edges([path])
    assert rows(reader) == [
        {"source": 1, "target": 4, "label": "x", "timestamp": 3, "delete": False},
        {"source": 2, "target": 5, "label": "y", "timestamp": 1, "delete": True},
        {"source": 3, "target": 6, "label": "x", "timestamp": 2, "delete": False},
    ]
    assert reader.time_unit is None
    assert reader.bytes_read == pytest.approx(reader.bytes_total, abs=1)
    (batch, *_) = open_edges([path])
    assert batch.columns.schema.field("source").type == batch.columns.schema.field("target").type == pa.int64()


@pytest.mark.parametrize(
    "names",
    [
        pa.array(["a", "007", "é"]),
        pa.array(["a", "007", "é"], pa.large_string()),
        pa.array(["a", "007", "é"]).dictionary_encode(),
        pa.array(["a", "007", "é"]).cast(pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=lambda names: str(names.type),
)
def test_text_comes_in_many_types(stored, names):
    path = stored(**columns(source=names, label=names))
    for batch in open_edges([path]):
        assert batch.columns.schema.field("source").type == pa.string()
        assert batch.columns.schema.field("label").type == pa.dictionary(pa.int32(), pa.string())
    assert [(row["source"], row["label"]) for row in rows(open_edges([path]))] == [
        ("a", "a"),
        ("007", "007"),
        ("é", "é"),
    ]


@pytest.mark.parametrize(
    ("type_", "unit", "values"),
    [
        (pa.timestamp("s"), "ms", [-1000, 0, 5000]),  # Parquet has no seconds: they are stored as milliseconds
        (pa.timestamp("ms", tz="UTC"), "ms", [-1, 0, 5]),
        (pa.timestamp("us"), "us", [-1, 0, 5]),
        (pa.timestamp("ns"), "ns", [-1, 0, 5]),
        (pa.int32(), None, [-1, 0, 5]),
    ],
)
def test_timestamps_become_integers_of_their_unit(stored, type_, unit, values):
    stamps = pa.array([-1, 0, 5], pa.int64() if unit else pa.int32()).cast(type_)
    reader = open_edges([stored(**columns(timestamp=stamps))])
    assert reader.time_unit == unit
    assert [row["timestamp"] for row in rows(reader)] == values


def test_a_prepared_folder_knows_the_unit_of_its_timestamps(stored, tmp_path):
    """As `rpq spark prepare` records it; a window may then be a duration."""
    stored("data/0.parquet", **columns())
    folder = str(tmp_path / "data")
    assert open_edges([folder]).time_unit is None
    record = tmp_path / "data" / "_statistics.json"
    for content, unit in (('{"time_unit": "s"}', "s"), ('{"time_unit": null}', None), ("{}", None), ("[]", None)):
        record.write_text(content)
        assert open_edges([folder]).time_unit == unit
    for content, message in (('{"time_unit": "years"}', "time_unit is 'years'; expected"), ("{", "not readable as JSON")):
        record.write_text(content)
        with pytest.raises(InputError, match=message):
            open_edges([folder])


@pytest.mark.parametrize(
    ("change", "column", "message"),
    [
        ({"source": ["a", "b", None]}, "source", "is null"),
        ({"target": ["a", "b", ""]}, "target", "is empty"),
        ({"label": ["a", "b", None]}, "label", "is null"),
        ({"label": ["a", "b", ""]}, "label", "is empty"),
        ({"timestamp": [1, 2, None]}, "timestamp", "is null"),
        ({"timestamp": pa.array([1, 2, 2**63], pa.uint64())}, "timestamp", "does not fit 64 bits"),
        ({"op": ["+", "-", "x"]}, "op", "'x' is not an operation"),
        ({"op": ["+", "-", None]}, "op", "None is not an operation"),
        ({"source": [1, 2, None], "target": [1, 2, 3]}, "source", "is null"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 1 << 17])
def test_a_bad_row_is_placed_and_everything_before_it_is_delivered(stored, change, column, message, batch_rows):
    path = stored(**columns(**change))
    delivered = 0
    with pytest.raises(InputError, match=message) as caught:
        for batch in open_edges([path], batch_rows=batch_rows):
            delivered += len(batch)
    assert delivered == 2
    assert (caught.value.file, caught.value.row, caught.value.column) == (path, 2, column)
    reader = open_edges([path], on_error="skip", batch_rows=batch_rows)
    assert len(rows(reader)) == 2
    assert reader.rejected == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": [1.5, 2.5, 3.5]}, "column 'source' has the type double; expected integers or text"),
        ({"source": [1, 2, 3]}, "vertices must be all integers or all text"),
        ({"label": [1, 2, 3]}, "column 'label' has the type int64; expected text"),
        ({"timestamp": [1.5, 2.5, 3.5]}, "column 'timestamp' has the type double; expected integers, timestamps or text"),
        ({"source": pa.array([16 * b"a"] * 3, pa.binary(16))}, "expected integers or text; convert bytes to text"),
        ({"op": [True, False, True]}, "column 'op' has the type bool; expected text"),
    ],
)
def test_columns_of_a_wrong_type_are_refused_before_the_reading(stored, change, message):
    with pytest.raises(InputError, match=message):
        open_edges([stored(**columns(**change))])


def test_times_in_text_are_read_as_in_csv(stored):
    path = stored(**columns(timestamp=["2024-05-01T12:00:00Z", " 2024-05-01T14:00:01+02:00", "24/12/2024"]))
    reader = open_edges([path], time_unit="s", on_error="skip")
    assert ([row["timestamp"] for row in rows(reader)], reader.time_unit) == ([1714564800, 1714564801], "s")
    with pytest.raises(InputError, match=r"row 2 .*'24/12/2024' is not a time; .*--time-format '%d/%m/%Y'"):
        rows(open_edges([path]))
    mixed = stored("mixed.parquet", **columns(timestamp=["2024-05-01", None, "2024-05-01T12:00Z"]))
    reader = open_edges([mixed], on_error="skip")
    assert len(rows(reader)) == 1 and "has a zone, but the times before have none" in reader.rejections[1]


@pytest.mark.parametrize("in_folder", [False, True])
def test_files_with_timestamps_of_several_units_are_read_in_the_finest(stored, in_folder):
    units = {"a": pa.timestamp("us", "UTC"), "b": pa.timestamp("ns", "UTC"), "c": pa.date32()}
    paths = [
        stored(f"in/{name}.parquet", **columns(timestamp=pa.array([1, 2, 3], type_))) for name, type_ in units.items()
    ]
    reader = open_edges([str(Path(paths[0]).parent)] if in_folder else paths)
    found = {row["timestamp"] for row in rows(reader)}
    days = {86_400 * 10**9 * day for day in (1, 2, 3)}
    assert (found, reader.time_unit) == ({1000, 2000, 3000, 1, 2, 3} | days, "ns")


def test_inputs_must_agree_on_vertices_and_units(stored, tmp_path):
    numbers = stored("numbers", **columns(source=[1, 2, 3], target=[1, 2, 3]))
    timed = stored("timed", **columns(timestamp=pa.array([1, 2, 3], pa.timestamp("us"))))
    text = tmp_path / "text"
    text.write_text("a b x 1\n")
    with pytest.raises(InputError, match="vertices are text, but integers in"):
        open_edges([numbers, str(text)])
    with pytest.raises(InputError, match="timestamps are numbers without a unit, but in us in"):
        open_edges([timed, str(text)])


def test_a_folder_is_its_files_in_order(stored, tmp_path):
    stored("set/part-2.parquet", **columns(timestamp=[4, 5, 6]))
    stored("set/part-1.parquet", **columns(timestamp=[1, 2, 3]))
    (tmp_path / "set" / "_SUCCESS").touch()
    stored("set/_temporary.parquet", source=[1])
    assert [row["timestamp"] for row in rows(open_edges([str(tmp_path / "set")]))] == [1, 2, 3, 4, 5, 6]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no .parquet file"):
        open_edges([str(tmp_path / "empty")])
    (tmp_path / "empty" / "b.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="b.parquet: .*is empty"):
        open_edges([str(tmp_path / "empty")])


def test_the_content_decides_what_is_parquet(stored, tmp_path):
    assert is_parquet(stored("edges.txt", **columns()))
    text = tmp_path / "text.parquet"
    text.write_text("PAR1 b x 1\n")
    assert not is_parquet(str(text))
    assert rows(open_edges([str(text)]))[0]["source"] == "PAR1"


def test_a_damaged_file_is_an_input_error(stored, tmp_path):
    data = bytearray(Path(stored(**columns())).read_bytes())
    data[-12:-4] = b"\xff" * 8
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        rows(open_edges([str(tmp_path / "bad")]))


def views(texts: list) -> pa.Array:
    return pa.array(texts, pa.string_view())


@WRITES_VIEWS
def test_views_of_text_are_text(stored):
    path = stored(
        source=views(["a", "a name of more than twelve bytes"]),
        target=views(["b", "c"]),
        label=views(["x", "y"]),
        timestamp=[1, 2],
        op=views(["+", "-"]),
    )
    assert [list(row.values()) for row in rows(open_edges([path]))] == [
        ["a", "b", "x", 1, False],
        ["a name of more than twelve bytes", "c", "y", 2, True],
    ]


@pytest.mark.parametrize("type_", [pytest.param(pa.binary_view(), marks=WRITES_VIEWS), pa.binary(), pa.list_(pa.string())])
def test_columns_that_hold_no_names_are_told(stored, type_):
    values = [["a"], ["b"]] if pa.types.is_list(type_) else [b"a", b"b"]
    with pytest.raises(InputError, match="column 'source' has the type .*; expected integers or text"):
        path = stored(**columns(source=pa.array(values, type_), target=["b", "c"], label=["x", "y"], timestamp=[1, 2]))
        open_edges([path])


@pytest.mark.parametrize("name", ["edges.parquet", "edges.arrow"])
@pytest.mark.parametrize("kept", [0, 40, -10])
def test_a_file_that_is_empty_or_cut_off_is_named(tmp_path, name, kept):
    path = tmp_path / name
    table = pa.table(columns())
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    path.write_bytes(path.read_bytes()[:kept])
    reason = "truncated: the footer" if kept else "is empty"
    with pytest.raises(InputError, match=f"{path}: .*{reason}") as caught:
        open_edges([str(path)])
    assert caught.value.file == str(path)


@pytest.mark.parametrize("name", ["edges.parquet", "edges.arrow"])
def test_names_of_columns_that_are_no_text_are_damage(tmp_path, name):
    path = tmp_path / name
    table = pa.table({**columns(), "user": [{"surname": 1}] * 3})
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"surname", b"sur\xffame"))
    with pytest.raises(InputError, match=rf"{path}: is damaged: b'sur\\xffame', the name of a column, is not UTF-8"):
        open_edges([str(path)])


@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_arrow_files_are_read_too(tmp_path, batch_rows):
    path = tmp_path / "edges.feather"
    table = pa.table({**columns(), "further": [1, 2, 3]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    expected = tmp_path / "edges.parquet"
    pq.write_table(table, expected)
    reader = open_edges([str(path)], batch_rows=batch_rows)
    assert rows(reader) == rows(open_edges([str(expected)]))
    assert reader.bytes_read == path.stat().st_size
