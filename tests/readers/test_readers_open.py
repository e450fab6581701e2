"""`open_reader`: formats by name, and parts of a stream."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from rpq.errors import InputError
from rpq.readers import ColumnNames, format_registry, formats, open_reader, parse_where
from rpq.spark.batch.prepare import prepare
from rpq.spark.errors import PipelineError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def installed(monkeypatch):
    """The entry points of the project, as if it were installed."""
    declared = tomllib.loads(PROJECT.read_text())["project"]["entry-points"][format_registry.GROUP]
    group = format_registry.GROUP
    points = metadata.EntryPoints(metadata.EntryPoint(name, value, group) for name, value in declared.items())
    monkeypatch.setattr(format_registry, "entry_points", points.select)


@pytest.fixture
def path(tmp_path):
    # time     1    2    3    4    5    6
    # loop          o         o
    file = tmp_path / "edges"
    file.write_text("a b x 1\na a x 2\na b x 3\nb b x 4 -\na c x 5\nbad\nc a x 6\n")
    return file


def times(reader) -> list[int]:
    return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]


def test_every_declared_format_opens(installed, tmp_path):
    samples = {
        "edges": "a b x 1\n",
        "rdf": "<a:s> <a:p> <a:o> .\n",
        "jsonl": '{"source": 1, "target": 2, "label": "x", "timestamp": 3}\n',
        "stackoverflow": "1 2 3\n",
        "ldbc": "1|0|8|5|6|1\n",
        "yago": "<i>\t<a>\t<b>\t<c>\t\n",
        "gmark": "1 2 3\n",
    }
    assert formats() == sorted(samples)
    for name, text in samples.items():
        file = tmp_path / f"{name}-label.txt"
        file.write_text(text)
        assert sum(map(len, open_reader(name, [file]))) == 1


def test_an_unknown_format_is_answered_with_the_known_ones(installed):
    with pytest.raises(
        InputError, match="unknown format 'yagoo': expected one of edges, gmark, .* did you mean 'yago'"
    ):
        open_reader("yagoo", ["x"])


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"limit": 4}, [1, 2, 3, 4]),
        ({"limit": 0}, []),
        ({"limit": 99}, [1, 2, 3, 4, 5, 6]),
        ({"drop_self_loops": True}, [1, 3, 5, 6]),
        ({"drop_self_loops": True, "limit": 4}, [1, 3]),
    ],
)
def test_limit_comes_before_self_loops(path, options, expected, batch_rows):
    reader = open_reader("edges", [path], on_error="skip", batch_rows=batch_rows, **options)
    assert times(reader) == expected
    assert reader.time_unit is None
    assert reader.bytes_total == path.stat().st_size


def test_with_a_limit_the_bad_line_behind_it_is_not_reached(path):
    assert times(open_reader("edges", path, limit=5)) == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match=":6: "):
        times(open_reader("edges", path, limit=6))


@pytest.mark.parametrize("options", [{"limit": -1}, {"on_error": "ignore"}, {"batch_rows": 0}])
def test_wrong_arguments_are_refused(path, options):
    with pytest.raises(ValueError, match="expected"):
        open_reader("edges", path, **options)


def test_another_package_has_a_format(monkeypatch, tmp_path):
    module = tmp_path / "another_package.py"
    module.write_text(
        "from rpq.readers import Format\n"
        "from rpq.readers.edges import open_edges\n"
        "def open_pairs(paths, *, on_error, batch_rows):\n"
        "    return open_edges(paths, on_error=on_error, batch_rows=batch_rows)\n"
        "PAIRS = Format(name='pairs', open=open_pairs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = metadata.EntryPoints([metadata.EntryPoint("pairs", "another_package:PAIRS", format_registry.GROUP)])
    monkeypatch.setattr(format_registry, "entry_points", points.select)
    file = tmp_path / "edges.txt"
    file.write_text("a b x 1\nb c x 2\n")
    assert formats() == ["edges", "jsonl", "pairs", "rdf"]
    assert times(open_reader("pairs", file, where=parse_where("timestamp > 1"), limit=5)) == [2]
    with pytest.raises(InputError, match="the format pairs has fixed columns"):
        open_reader("pairs", file, columns=ColumnNames.parse("source=from"))


def test_spark_says_that_it_cannot_read_a_format_without_lines(installed, tmp_path):
    file = tmp_path / "edges.jsonl"
    file.write_text('{"source": 1, "target": 2, "label": "x", "timestamp": 3}\n')
    known = ", ".join(name for name in formats() if name not in ("jsonl", "rdf"))
    with pytest.raises(
        PipelineError, match=f"^the format 'jsonl' does not define the layout of its lines.*: expected one of {known}"
    ):
        prepare(None, [str(file)], str(tmp_path / "out"), format="jsonl")
    with pytest.raises(PipelineError, match="^unknown format 'json': expected one of " + known):
        prepare(None, [str(file)], str(tmp_path / "out"), format="json")
