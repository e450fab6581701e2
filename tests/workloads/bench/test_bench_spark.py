"""`rpq bench spark` and `spark-commands`: a share, micro-batches, each part once; a model of whole commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow.parquet as pq

import rpq
from rpq.spark.benchmark import measure, processor_seconds
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import spark_commands, spark_speed
from rpq.workloads.bench.streams import DATA_SETS, generate


def test_what_a_share_costs(tmp_path):
    stream = generate(DATA_SETS["stackoverflow"], edges=3_000, seed=1)
    place = stream.table.column_names.index("label")
    # As a real stream has them.
    labels = stream.table["label"].dictionary_encode()
    pq.write_table(stream.table.set_column(place, "label", labels), tmp_path / "raw.parquet")
    window = {"size": stream.window.size, "slide": stream.window.slide}
    query = {"expression": "a2q/c2a*", "name": "q", **window}
    found = [*measure({"what": "shares", "raw": tmp_path / "raw.parquet", "queries": [query], "counts": [1, 2, 1000],
                        "repeat": 1})]  # fmt: skip
    whole = rpq.Engine(rpq.Query("a2q/c2a*", window=stream.window))
    rows = len(whole.push(stream.table).rows())
    alone, half, bare, carried = found
    assert alone["rows"] == rows > half["rows"] > bare["rows"] and alone["tuples"] == len(stream)
    assert all(one["cpu_seconds"] > 0 and one["engine_bytes"] > 0 for one in found[:3])
    assert 0 < carried["log_tuples"] <= carried["kept"] < carried["tuples"] == len(stream) and carried["log_bytes"] > 0
    seconds = processor_seconds()
    assert seconds is None or seconds > 0


def test_micro_batches_are_of_the_tuples_that_the_query_reads():
    stream = generate(DATA_SETS["stackoverflow"], edges=3_000, seed=1)
    made = [*spark_speed._batches(stream, 1_000, 8)]
    assert [len(table) for table in made] == [1_000] * 8
    assert [table["timestamp"][0].as_py() for table in made] == [1_000 * number for number in range(8)]
    assert {label for table in made for label in table["label"].to_pylist()} == {"a2q", "c2a"}
    first, last = (set(made[place]["source"].to_pylist()) for place in (0, -1))
    assert not first & last, "the stream comes again under other names"


def made_up(line: spark_commands.Line) -> dict:
    """A command that takes what the model says: 7 s for a session or 9 for a driver, 5 s for an executor, and so on."""
    edges, rows = round(500_000 * spark_commands.JOBS[line.job].part), 10 ** (2 + int(line.job))
    own = 1 + edges * 2e-6 + rows * 1e-7
    start = 5 * line.executors + (9 if line.executors else 7)
    cpu = own if line.threads else own - 1 + start + line.shares * edges * 2e-7
    return {"name": line.name, "command": "", "query": "", "days": 1, "edges": edges, "rows": rows, "cpu_seconds": cpu,
            "seconds": 20.0 if line.executors else 2.0}  # fmt: skip


def test_the_model_is_fitted_to_half_of_the_commands_and_compared_with_all():
    stream = generate(DATA_SETS["stackoverflow"], edges=30, seed=1)
    commands = [(line, made_up(line)) for line in spark_commands.LINES]
    outcome = spark_commands._outcome(commands, stream)
    assert all(outcome.checks.values())
    terms = [outcome.facts[f"{name}_seconds"] for name in spark_commands.TERMS]
    assert terms[0] == pytest.approx(7, rel=0.05) and terms[2] == pytest.approx(5, rel=0.05)
    replays = [one for one in outcome.records if "deviation" in one]
    assert len(replays) == len(spark_commands.LINES) - 2 * len(spark_commands.JOBS)
    assert sum(one["is_fitted"] for one in replays) == len(replays) / 2
    assert all(abs(one["deviation"]) < 0.02 for one in replays)
    machines = [one for one in outcome.records if "edges_to_win" in one]
    two, four, eight = (one["edges_to_win"] for one in machines[-3:])
    assert two > four > eight > 0
    commands[-1][1]["rows"] += 1
    commands[-1][1]["cpu_seconds"] *= 2
    other = spark_commands._outcome(commands, stream)
    assert not all(other.checks.values()) and "missed" in [*other.facts.values()][-1]
    assert not spark_commands._outcome(commands[:-5], stream).facts, "fewer lines than twice the terms"


@pytest.mark.ci
@pytest.mark.long
def test_cold_commands_are_measured_once_and_resumed(tmp_path, monkeypatch):
    try:
        check_java()
    except PipelineError as missing:
        pytest.skip(str(missing))
    lines = (spark_commands.Line(job="2", threads=1), spark_commands.Line(job="2", shares=2))
    monkeypatch.setattr(spark_commands, "LINES", lines)
    monkeypatch.setattr(spark_commands, "commit_of_checkout", lambda: "0123abc")  # with a +, all is measured again
    words = ["spark-commands", "--edges", "20000", "--output", str(tmp_path), "--resume"]
    for _ in range(2):
        ran = CliRunner().invoke(bench, words, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
    assert "1 of 2" not in ran.output, "it is measured again"
    result = json.loads((tmp_path / "spark-commands.json").read_text())
    alone, replayed = result["records"]
    assert alone["rows"] == replayed["rows"] > 0 and all(result["checks"].values())
    assert replayed["cpu_seconds"] > alone["cpu_seconds"] > 0


def measured(folder: Path, *options: object) -> dict[str, list[dict]]:
    """Run the experiment; return its records by what they are of."""
    try:
        check_java()
    except PipelineError as missing:
        pytest.skip(str(missing))
    ran = CliRunner().invoke(
        bench, ["spark", "--repeat", "1", "--output", str(folder), *map(str, options)], catch_exceptions=False
    )
    assert ran.exit_code == 0, ran.output
    result = json.loads((folder / "spark.json").read_text())
    assert all(result["checks"].values()) and len(result["facts"]) == 5
    by_kind: dict[str, list] = {}
    for record in result["records"]:
        by_kind.setdefault(record["what"], []).append(record)
    assert all(record["rows"] > 0 and record["times_run"] > 0 for record in by_kind["replay"])
    assert {record["tuples"] for record in by_kind["micro-batch"]} == {1_000}
    assert all(2_500 <= record["window_edges"] <= 3_300 for record in by_kind["micro-batch"]), by_kind["micro-batch"]
    speeds = [record["replay_edges_per_second"] for record in by_kind["model"][:7]]
    assert speeds == sorted(speeds)
    assert (folder / "spark.png").stat().st_size > 5_000
    return by_kind


@pytest.mark.long
def test_each_part_once(session, rpq_on_spark, tmp_path, monkeypatch):
    """One query, one measured replay, one micro-batch after those that fill the window, in the session of the tests."""
    sizes = {"WARMUP_REPLAYS": 0, "UNMEASURED": 3, "MEASURED": 1, "SHARES": (1, 2, 1000)}
    for name, value in sizes.items():
        monkeypatch.setattr(spark_speed, name, value)

    def measured_here(part, what, **task):
        place = {"data": part._data, "raw": part._raw, "folder": str(part._folder), "queries": part._queries}
        return [*measure({"what": what, **place, **task})]

    def timed_here(command):
        if "-m" in command:
            status, _, said = rpq_on_spark(*command[command.index("rpq.cli") + 1 :])
            assert status == 0, said
        return 1.0, 1.0

    # Outside of tests, and in the longer test, each of these is a process with a JVM of its own.
    monkeypatch.setattr(spark_speed._Bench, "_session", measured_here)
    monkeypatch.setattr(spark_speed, "_time_command", timed_here)
    monkeypatch.setattr("rpq.spark.jvm.session.open_session", lambda **_: session)
    monkeypatch.setattr(type(session), "stop", lambda _: None)
    by_kind = measured(tmp_path, "--edges", 8_000, "--scale", 0.01, "--queries", "a2q/c2a*")
    assert {name: len(some) for name, some in by_kind.items()} == {
        "replay": 2, "cold command": 1, "micro-batch": 1, "small micro-batch": 1, "share": 3, "model": 7
    }  # fmt: skip


@pytest.mark.long
def test_all_of_it_on_a_small_stream(tmp_path):
    by_kind = measured(tmp_path, "--edges", 300_000, "--scale", 0.01)
    assert {name: len(some) for name, some in by_kind.items()} == {
        "replay": 4, "cold command": 1, "micro-batch": 5, "small micro-batch": 5, "share": 10, "model": 14
    }  # fmt: skip
