"""`rpq bench cliffs`: every line has a figure and a bound."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import cliffs
from rpq.workloads.bench.comparisons.cliffs import LINES


def _records(tmp_path, *options):
    options = ["--edges", 1_000, "--repeat", 1, "--output", tmp_path, *options]
    ran = CliRunner().invoke(bench, ["cliffs", *map(str, options)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return {record["name"]: record for record in json.loads((tmp_path / "cliffs.json").read_text())["records"]}


WITHOUT_BROKERS = [name for name, one in LINES.items() if not one.needs_brokers]
OF_EACH_KIND = [*{name.partition("-")[0]: name for name in reversed(WITHOUT_BROKERS)}.values()]
"""The first of the lines whose names begin with the same word."""


@pytest.mark.parametrize(
    "names",
    [pytest.param(OF_EACH_KIND, id="one of each kind", marks=pytest.mark.ci)]
    + [pytest.param(WITHOUT_BROKERS, id="all", marks=pytest.mark.long)],
)
def test_every_line_has_a_figure_and_a_bound(tmp_path, names):
    records = _records(tmp_path, "--only", ",".join(names))
    assert [*records] == [name for name in LINES if name in names]
    for record in records.values():
        # Some times are those beyond another run, which may be negative over the few tuples of this test.
        assert (record["measured"] > 0 or record["unit"].startswith(("ns/", "µs/"))) and record["bound"] > 0
        above, below = (record[one] for one in ("measured", "bound"))
        assert record["is_met"] == (above >= below if record["sense"] == "at least" else above <= below)


def test_a_line_that_needs_brokers_is_left_out_without_them(tmp_path):
    assert [*_records(tmp_path, "--only", "AVRO-TOPIC,MEMORY-HELD-PATTERN")] == ["MEMORY-HELD-PATTERN"]


def test_messages_go_from_a_topic_to_rows(kafka, tmp_path):
    (record,) = _records(tmp_path, "--only", "AVRO-TOPIC", "--kafka", kafka.broker.address).values()
    assert record["measured"] > 0


def test_unknown_lines_are_refused_with_a_hint(tmp_path):
    options = ["cliffs", "--only", "MIN-4000", "--edges", "1000", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, options)
    assert ran.exit_code == 1 and "unknown line 'MIN-4000'" in ran.output and "did you mean 'MIN-40000'" in ran.output
    assert not (tmp_path / "cliffs.json").exists()


class _InterruptedError(Exception):
    pass


def test_an_interrupted_run_is_resumed(tmp_path, monkeypatch):
    names = ["MIN-40000", "MEMORY-HELD-PATTERN", "MEMORY-HELD-SPARQL"]
    measured = []

    def measure_until(stop):
        def of_line(line):
            def record(settings):
                if line == stop:
                    raise _InterruptedError
                measured.append(line)
                return {"name": line, "measured": 2.0, "sense": "at most", "bound": 3.0, "is_met": True}

            return record

        for name in names:
            monkeypatch.setitem(LINES, name, SimpleNamespace(name=name, record=of_line(name), needs_brokers=False))

    measure_until(names[1])
    with pytest.raises(_InterruptedError):
        _records(tmp_path, "--only", ",".join(names))
    measure_until(None)
    assert [*_records(tmp_path, "--only", ",".join(names), "--resume")] == names
    assert measured == names  # each once

    monkeypatch.setattr(cliffs, "commit_of_checkout", lambda: "another")
    records = _records(tmp_path, "--only", names[0], "--resume")
    assert measured == [*names, names[0]] and records[names[0]]["commit"] == "another"
    assert records[names[1]]["commit"] != "another"
