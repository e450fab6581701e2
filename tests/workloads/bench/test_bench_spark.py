"""`rpq bench spark` and `spark-commands`: a share, micro-batches, each part once; a model of whole commands."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow.parquet as pq

import rpq
from rpq.spark.benchmark import measure, processor_seconds
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
    counts = {"what": "chunks", "raw": tmp_path / "raw.parquet", "queries": [query], "counts": [1, 2], "repeat": 1}
    one, two = measure(counts)
    assert (one["chunks"], one["taken_in"], two["chunks"]) == (1, 0, 2) and two["taken_in"] > 0 < one["cpu_seconds"]
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


def made_up(line: spark_commands.CommandLine) -> dict:
    """A command that takes what the model says: 7 s for a session or 9 for a driver, 5 s for an executor, and so on."""
    edges, rows = round(500_000 * spark_commands.JOBS[line.job].part), 10 ** (2 + int(line.job))
    own = 1 + edges * 2e-6 + rows * 1e-7
    start = 5 * line.executors + (9 if line.executors else 7)
    cpu = own - 1 + start + edges * 2e-7 if line.tasks else own
    return {"name": line.name, "command": "", "query": "", "days": 1, "edges": edges, "rows": rows, "cpu_seconds": cpu,
            "seconds": 20.0 if line.executors else 2.0}  # fmt: skip


def test_the_model_is_fitted_to_half_of_the_commands_and_compared_with_all():
    stream = generate(DATA_SETS["stackoverflow"], edges=30, seed=1)
    commands = [(line, made_up(line)) for line in spark_commands.LINES]
    outcome = spark_commands._outcome(commands, stream)
    assert all(outcome.checks.values())
    session, executor = (outcome.facts[f"{name}_seconds"] for name in ("session", "executor"))
    assert session == pytest.approx(7, rel=0.05) and executor == pytest.approx(5, rel=0.05)
    replays = [one for one in outcome.records if "deviation" in one]
    assert len(replays) == len(spark_commands.LINES) - len(spark_commands.JOBS)
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
