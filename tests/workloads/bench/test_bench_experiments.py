"""The experiments at small scale: what must hold of what they write."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads.bench import measure
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.paper.deletes import PERCENT
from rpq.workloads.bench.paper.windows import FACTORS
from rpq.workloads.bench.streams import DATA_SETS, generate
from rpq.workloads.bench.versions import Verdict
from rpq.workloads.rivals import driver

ROOT = Path(__file__).parents[3]
@pytest.fixture
def run(tmp_path):
    """Run an experiment on small generated streams; what its JSON holds."""

    def call(name: str, *args: object, edges: int = 3_000) -> dict:
        pytest.importorskip("matplotlib")
        options = ["--edges", edges, "--repeat", 1, "--sample", 8, "--seconds", 2, "--output", tmp_path, *args]
        ran = CliRunner().invoke(bench, [name, *map(str, options)], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
        result = json.loads((tmp_path / f"{name}.json").read_text())
        assert result["checks"] and all(result["checks"].values())
        assert {"commit", "numba", "calibration_ns_per_step", "date"} <= {*result["machine"]}
        assert result["settings"]["seed"] == 1 and result["paper"]
        return result

    return call


@pytest.fixture(autouse=True)
def no_build(monkeypatch):
    """No other engine is built by these tests."""

    def build(folder, command, *, needs, cache=None):
        raise driver.RivalError(f"{folder} needs {needs}")

    monkeypatch.setattr(driver, "build", build)


def test_a_tuple_that_is_timed_by_itself_is_inserted_or_deleted_without_a_table(monkeypatch):
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=10, slide=1), semantics="explicit"))
    monkeypatch.setattr(engine, "push", lambda *_, **__: pytest.fail("a table was pushed"))
    columns = {"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [1, 2], "op": ["+", "-"]}
    singly = measure.push_singly(engine, pa.table(columns), 2)
    assert singly.rows == 2 and len(singly.microseconds) == 2 and min(singly.microseconds) > 0
    assert engine.answers().pairs() == set()


def test_the_index_is_counted_as_the_engine_counts_it(run):
    (record,) = run("index", "--queries", "q2")["records"]
    stream = generate(DATA_SETS["stackoverflow"], edges=3_000, seed=1)
    peak = measure.find_peak(rpq.Query(record["expression"], window=stream.window), stream)
    assert (record["cells"], record["trees"]) == (peak.cells, peak.trees)


def test_windows_and_slides_are_swept(run):
    records = run("windows", "--queries", "Q1", edges=1_000)["records"]
    assert len(records) == 2 * len(FACTORS)
    assert {record["window"] for record in records if record["sweep"] == "slide"} == {250}
    assert {record["slide"] for record in records if record["sweep"] == "window"} == {25}
    assert all(0 < record["expiry_share"] < 1 for record in records)


@pytest.mark.long
def test_versions_take_turns(tmp_path, monkeypatch):
    # Both versions are this checkout, whose kernels are compiled, and not what may be installed beside it.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def call(*args: object) -> tuple[dict, str]:
        options = ["--other", sys.executable, "--edges", 2_000, "--output", tmp_path, *args]
        ran = CliRunner().invoke(bench, ["versions", *map(str, options)], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return json.loads((tmp_path / "versions.json").read_text()), ran.output

    some = "mathoverflow/Q1,P1,patterns/5000,sparql/JOIN,insert/Q2,start/import"
    result, output = call("--repeat", 1, "--only", some)
    assert all(result["checks"].values()) and "starting with the first turn" in output
    figures = {record["figure"]: record for record in result["records"]}
    assert [*figures] == [
        "mathoverflow/Q1", "patterns/P1", "patterns/5000", "patterns/5000 registering", "sparql/JOIN", "insert/Q2 median",
        "insert/Q2 p99", "start/import",
    ]  # fmt: skip
    for record in figures.values():
        assert record["low"] <= record["ratio"] <= record["high"] and record["before"] > 0 and record["turns"] == 1
    assert all(figures[name]["rows"] for name in ("mathoverflow/Q1", "patterns/5000", "sparql/JOIN"))
    lines = (tmp_path / "versions.turns.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "versions.turns.jsonl").write_text("".join(lines[:-1]) + lines[-1][:9])  # killed while it wrote
    again, output = call("--repeat", 2, "--only", "P1,start/imp*")
    assert "continuing after the turns" in output
    assert all(record["low"] <= record["ratio"] <= record["high"] for record in again["records"])
    turns = {record["figure"]: record["turns"] for record in again["records"]}
    assert turns["mathoverflow/Q1"] == 1 and turns["patterns/P1"] == turns["start/import"] == 2
    # Once each, since every run needs a process of its own.
    anew, output = call("--repeat", 1, "--only", "memory/P2", "--seed", 2)
    assert "starting with the first turn" in output
    figures = {record["figure"]: record for record in anew["records"]}
    assert [*figures] == ["memory/P2"] and all(anew["checks"].values())
    assert figures["memory/P2"]["rows"]
    for record in figures.values():
        assert record["before"] > 0 and record["turns"] == 1
        assert record["low"] == record["ratio"] == record["high"]


def test_versions_name_what_there_is(tmp_path):
    ran = CliRunner().invoke(bench, ["versions", "--output", str(tmp_path)])
    assert ran.exit_code == 1 and "--other" in ran.output
    ran = CliRunner().invoke(bench, ["versions", "--other", sys.executable, "--only", "P99", "--output", str(tmp_path)])
    assert ran.exit_code == 1 and "P99" in ran.output and "patterns/P1" in ran.output


def test_a_verdict_needs_ratios_that_agree():
    seven = [1.10, 1.11, 1.12, 1.13, 1.14, 1.15, 0.5]
    assert Verdict.of(seven).text == "slower"
    assert Verdict.of([1 / ratio for ratio in seven]).text == "faster"
    assert Verdict.of([1.0] * 5 + [2.0, 0.5]).text == "not slower"
    assert Verdict.of([1.0] * 4 + [1.2] * 3).text == "no verdict"
    assert Verdict.of([1.0] * 15 + [1.2] * 6).text == "not slower"
    assert Verdict.of([1.2]).text == "slower"


def test_automata_stay_small(run):
    records = run("automata")["records"]
    assert [record["size"] for record in records] == [*range(2, 21)]
    assert sum(record["queries"] for record in records) == 100


def test_deletes_grow(run):
    records = run("deletes", "--queries", "Q1", edges=1_500)["records"]
    assert [record["percent"] for record in records] == [*PERCENT]
    for record in records:
        if record["percent"]:
            inserted = record["relevant"] - record["deletes"]
            assert record["deletes"] < 2.5 * record["percent"] / 100 * inserted + 5


@pytest.mark.long
def test_baselines_agree_with_the_engine(run):
    pytest.importorskip("pyoxigraph")
    records = run("reevaluation", "--queries", "Q4,Q8", edges=1_500)["records"]
    assert len(records) == 2 * 2 * 2
    for record in records:
        assert record["sampled"] == 8 and record["evaluated"] >= 1 and record["compared"] >= 1
        assert math.isclose(record["throughput_ratio"], record["baseline_mean_us"] / record["push_mean_us"], rel_tol=1e-3)


def test_finbench_has_the_answers_of_duckdb(run):
    pytest.importorskip("duckdb")
    pytest.importorskip("lark")
    records = run("finbench", "--seconds", 0.2)["records"]
    assert [record["query"] for record in records] == ["CHAIN", "RING", "LOAN"] * 3
    assert all(record["evaluations"] > 1 and record["tuples_per_second"] > 0 for record in records)
    assert all(record["answers"] for record in records[-3:])


@pytest.mark.ci
def test_permissions_are_those_of_duckdb_and_of_a_search_by_hand(run):
    pytest.importorskip("duckdb")
    pytest.importorskip("lark")
    records = run("permissions", edges=1_000)["records"]
    *largest, check = [record for record in records if record["tuples"] == 10_000]
    lines = [(record["query"], record["online"]) for record in largest]
    assert lines == [("PATH", 20), ("PATH", 200), ("PATH", 500), ("MATCH", 200), ("SPARQL", 200)]
    assert all(record["answers"] and record["rows_a_change"] and record["change_p50_us"] > 0 for record in largest)
    assert check["check_p50_us"] > 0 and check["find_p50_us"] > 0


def test_an_own_algorithm_runs_beside_the_engine_until_its_time_is_up_or_its_rows_differ(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_paths.py").write_text("""
from rpq.workloads.baselines.rapq import RAPQ

class Forgetful(RAPQ):
    def delete(self, *edge):
        super().delete(*edge)
        return []
""")
    lines = ["x,y,a,1,+", "y,z,a,5,+", "x,z,a,0,+", "y,z,a,7,-", "y,z,a,30,+", "x,y,a,3,+"]  # in time, late and deleted
    Path("edges.csv").write_text("\n".join(["source,target,label,timestamp,op", *lines]))
    own_stream = ["a+", "--input", "edges.csv", "--window", "9", "--slide", "3"]
    readable = "rpq.workloads.baselines.rapq:RAPQ"

    def call(*options: str) -> tuple[int, str]:
        ran = CliRunner().invoke(bench, ["algorithm", *options])
        return ran.exit_code, ran.output

    assert call(readable, *own_stream)[0] == 0
    (record,) = json.loads(Path("results/algorithm.json").read_text())["records"]
    assert (record["tuples"], record["reached"], record["rows"]) == (6, 1, 5)
    code, output = call("own_paths:Forgetful", *own_stream)
    assert code == 1 and "1 are missing, such as ('y', 'z', 7, '-'); 0 are not the engine's" in output
    code, output = call(readable, "--edges", "2000", "--queries", "Q1", "--seconds", "0.001")
    assert code == 0
    records = json.loads(Path("results/algorithm.json").read_text())["records"]
    assert [record["data"] for record in records] == ["yago", "ldbc", "stackoverflow"]
    assert 0 < records[2]["reached"] < 1 and Path("results/algorithm.png").stat().st_size > 5_000
    assert call("own_paths:Nothing", *own_stream)[0] == call(readable, "a+", "--window", "9")[0] == 2


def test_queries_that_an_experiment_lacks_are_refused(tmp_path):
    pytest.importorskip("pyspark")
    options = ["general-engines", "--only", "Q99", "--edges", "1000", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, options)
    assert ran.exit_code == 1 and "--only Q99: general-engines has no such queries" in ran.output
    ran = CliRunner().invoke(bench, ["spark", "--only", "a/b", *options[3:]])
    assert ran.exit_code == 1 and "--only a/b: expected some of a2q" in ran.output
    ran = CliRunner().invoke(bench, ["growth", "--only", "15a", "--output", str(tmp_path)])
    assert ran.exit_code == 1 and "unknown figure '15A'" in ran.output and not [*tmp_path.iterdir()]


@pytest.mark.long
def test_all_experiments_continue_after_one_that_fails_and_after_an_interruption(tmp_path, monkeypatch):
    """`automata` takes a second; `ldbc` fails, because the folder has no such files."""
    monkeypatch.setattr("rpq.workloads.bench.machine.commit_of_checkout", lambda: "another")
    options = ["all", "--data", str(tmp_path), "--output", str(tmp_path), "--only"]
    ran = CliRunner().invoke(bench, [*options, "ldbc,automata"])
    assert ran.exit_code == 1 and "failed: ldbc" in ran.output
    result = json.loads((tmp_path / "automata.json").read_text())
    assert result["checks"] and all(result["checks"].values())
    result["machine"]["commit"] = "another"
    (tmp_path / "automata.json").write_text(json.dumps(result))
    ran = CliRunner().invoke(bench, [*options, "automata"])
    assert ran.exit_code == 0 and "automata: measured at another already" in ran.output
    (tmp_path / "automata.json").write_text(json.dumps(result | {"complete": False}))
    ran = CliRunner().invoke(bench, ["all", "--output", str(tmp_path), "--only", "automata"])  # generated
    assert ran.exit_code == 0 and "automata: done" in ran.output
    assert json.loads((tmp_path / "automata.json").read_text())["complete"] is True
    ran = CliRunner().invoke(bench, [*options, "nothing"])
    assert ran.exit_code == 2 and "no such experiment" in ran.output


def test_without_the_extra_there_is_no_plot_and_no_store(run, tmp_path, monkeypatch):
    import sys

    for name in ("matplotlib", "matplotlib.figure", "pyoxigraph"):
        monkeypatch.setitem(sys.modules, name, None)
    args = ["automata", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, args, catch_exceptions=False)
    assert ran.exit_code == 0 and "pip install 'matplotlib>=3.8'" in ran.output
