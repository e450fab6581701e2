"""The experiments at small scale: what must hold of what they write."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads import named_queries
from rpq.workloads.bench import command, measure, plots
from rpq.workloads.bench.command import EXPERIMENTS, bench
from rpq.workloads.bench.comparisons import query_sets
from rpq.workloads.bench.comparisons.query_sets import VARIED
from rpq.workloads.bench.end_to_end import http_server, latency
from rpq.workloads.bench.paper.deletes import PERCENT
from rpq.workloads.bench.paper.windows import FACTORS, expiry_of
from rpq.workloads.bench.streams import DATA_SETS, generate, load_files
from rpq.workloads.bench.versions import Verdict
from rpq.workloads.rivals import driver

ROOT = Path(__file__).parents[3]
SPEED = ("mathoverflow", "ldbc")  # tests of their own


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


@pytest.mark.long
def test_throughput_has_all_queries_of_all_data_sets(run):
    records = run("throughput")["records"]
    for name in ("yago", "ldbc", "stackoverflow"):
        assert [r["query"] for r in records if r["data"] == name] == named_queries.names(name)
    for record in records:
        assert record["tuples"] > 2_900 and record["relevant"] <= record["tuples"]
        assert record["push_p99_us"] >= record["push_p50_us"] > 0 and record["pushed"] == 8
        assert math.isclose(record["tuples_per_second"], record["tuples"] / record["engine_seconds"], rel_tol=1e-3)


def test_the_index_is_counted_as_the_engine_counts_it(run):
    (record,) = run("index", "--queries", "q2")["records"]
    stream = generate(DATA_SETS["stackoverflow"], edges=3_000, seed=1)
    peak = measure.find_peak(rpq.Query(record["expression"], window=stream.window), stream)
    assert (record["cells"], record["trees"]) == (peak.cells, peak.trees)


def test_windows_and_slides_are_swept(run):
    records = run("windows", "--queries", "Q1,Q2")["records"]
    assert len(records) == 2 * 2 * len(FACTORS)
    assert {record["window"] for record in records if record["sweep"] == "slide"} == {750}
    assert {record["slide"] for record in records if record["sweep"] == "window"} == {75}
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


def test_large_windows_have_the_papers_numbers_of_edges(run):
    result = run("large-windows", "--queries", "Q11", "--scale", 1e-4)
    assert [stream["tuples"] for stream in result["streams"]] == [4_000]
    windows = {record["window"] for record in result["records"] if record["sweep"] == "window"}
    assert windows == {500, 1_000, 1_500, 2_000}  # 5 to 20 million at scale 1


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


def test_moving_the_time_first_changes_no_rows():
    stream = generate(DATA_SETS["stackoverflow"], edges=4_000, seed=2)
    query = rpq.Query("a2q/c2a*", window=rpq.Window(size=5 * 86_400, slide=40_000))
    assert expiry_of(query, stream)["rows_added"] == measure.run_once(query, stream.batches()).rows_added


def test_automata_stay_small(run):
    records = run("automata")["records"]
    assert [record["size"] for record in records] == [*range(2, 21)]
    assert sum(record["queries"] for record in records) == 100


def test_states_are_those_of_gmarks_queries(run):
    result = run("states", "--scale", 0.1, edges=30_000)
    assert len(result["records"]) == 10
    assert sum(record["rows_added"] > 0 for record in result["records"]) >= 5


def test_deletes_grow(run):
    records = run("deletes", "--queries", "Q1,Q4")["records"]
    assert [record["percent"] for record in records] == [*PERCENT] * 2
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


def test_simple_paths_are_compared_with_walks(run):
    records = run("simple", "--queries", "Q1,Q2,Q11", edges=1_000)["records"]
    assert any(record["succeeded"] for record in records)


@pytest.mark.long
def test_sets_of_patterns_bring_the_same_rows_however_they_are_evaluated(run):
    result = run("queries", "--queries", "40,60", "--scale", 0.01, "--seconds", 0.3)
    records, everybody = result["records"], {"shared", "nothing shared", "INV", "INV+", "INC", "INC+"}
    assert all(result["checks"].values()) and len(result["checks"]) == 2
    by_figure = {}
    for record in records:
        by_figure.setdefault(record["figure"], []).append(record)
    assert {*by_figure} == {"12a", "12b", "12c", "12d", "12e", "13b", "14a", "14b", "curve", "concerned", "paths"}
    for figure in ("12a", "12b", "12c", "12d", "12e", "14a", "14b"):
        assert {record["algorithm"] for record in by_figure[figure]} == everybody
    grown = [record for record in by_figure["12a"] if record["algorithm"] == "shared"]
    updates = [record["updates"] for record in grown]
    assert len(updates) == 10 and updates == sorted(set(updates)) and updates[0] == 100
    assert grown[-1]["satisfied"] == 60 // 4 and grown[-1]["memory_mb"] > 0
    assert {record["length"] for record in by_figure["12d"]} == {3, 5, 7, 9}
    assert [record["queries"] for record in by_figure["curve"]] == [40, 60]
    assert [record["queries"] for record in by_figure["concerned"]] == [60]
    assert [record["registered"] for record in by_figure["13b"]] == [12, 24, 36, 48, 60]
    assert [record["selectivity"] for record in by_figure["12b"] if record["algorithm"] == "INC"] == [*VARIED["12b"][1]]
    (apart,) = [one for one in by_figure["12c"] if (one["queries"], one["algorithm"]) == (60, "nothing shared")]
    assert (apart["updates"] < 1_000) == (apart.get("ended") == "stopped after 0.025 s of CPU"), apart
    usual = [record for records in by_figure.values() for record in records if record["algorithm"] == "nothing shared"]
    usual = [{**one, "figure": ""} for one in usual if one["data"] == "ldbc" and one["queries"] == 60 and one["length"] == 5]
    usual = [one for one in usual if one["selectivity"] == 0.25 and one["overlap"] == 0.35]
    assert len(usual) == 5 and all(one == usual[0] for one in usual), "a set in five figures is measured once"
    _, shared, apart = by_figure["paths"]
    assert shared["rows"] == apart["rows"] and shared["satisfied"] == apart["satisfied"]


@pytest.mark.long
def test_sets_of_patterns_are_measured_where_a_run_ended(run, monkeypatch):
    options = ["--scale", 0.01, "--seconds", 0.3, "--only"]
    monkeypatch.setattr(query_sets, "commit_of_checkout", lambda: "0123abc")  # with a +, all is measured again
    register, run_engine = query_sets.Runs.register, query_sets._run_engine

    def fail(*_, **__):
        raise InterruptedError

    monkeypatch.setattr(query_sets.Runs, "register", fail)
    with pytest.raises(InterruptedError):
        run("queries", *options, "20,12c,13*")
    monkeypatch.setattr(query_sets.Runs, "register", register)
    monkeypatch.setattr(query_sets, "_run_engine", fail)
    result = run("queries", *options, "20,12c,13*", "--resume")
    shown = {"12a", "12b", "12c", "12d", "12e", "13b", "curve", "concerned"}  # the set of 12c is in the others too
    assert {record["figure"] for record in result["records"]} == shown
    assert result["complete"] is True and result["facts"]["left out: Neo4j"] == "java needs a JDK 17 and Maven"
    monkeypatch.setattr(query_sets, "_run_engine", run_engine)
    again = run("queries", *options, "20,12e", "--resume")
    assert len([record for record in again["records"] if record["figure"] == "12e"]) == 5 * 6
    kept = [record for record in again["records"] if record in result["records"]]
    assert kept == result["records"], "what --only leaves out stays"


def test_graphs_of_one_size_and_of_ten_times_that_have_a_figure_each(run):
    result = run("growth", "--queries", "30", "--scale", 0.001, "--seconds", 1.2)
    assert all(result["checks"].values()) and len(result["checks"]) == 2
    sizes = [stream["tuples"] for stream in result["streams"]]  # without the deletes that were generated
    assert 950 < sizes[0] <= 1_000 and 9_500 < sizes[1] <= 10_000 and sizes[2:] == [1_000, 1_000]
    shared = [record for record in result["records"] if record["algorithm"] == "shared"]
    figures = ("12f", "13a", "14a", "14c")
    ends = {figure: [record["updates"] for record in shared if record["figure"] == figure] for figure in figures}
    assert [len(one) for one in ends.values()] == [10, 40, 10, 10] and [one[-1] for one in ends.values()] == sizes
    others = {record["algorithm"] for record in result["records"] if record["figure"] == "12f"}
    assert others == {"shared", "nothing shared", "INV", "INV+", "INC", "INC+"}
    assert shared[9]["rows"] > 0 and shared[-1]["rows"] > 0
    assert result["facts"]["left out: Neo4j"] == "java needs a JDK 17 and Maven"


@pytest.mark.long
def test_latency_is_that_of_every_call(run):
    records = run("latency", "--scale", 0.004, edges=400_000)["records"]
    calls = {record["call"]: record for record in records}
    ways = ["stdin → stdout", *(["HTTP → SSE"] if http_server.is_there() else [])]
    by_pipes = {f"{way}, {load}" for way in ways for load in ("10,000/s", "full load")}
    assert {*latency.CALLS, "delete", "insert, names that come and go", "push, 1,000 rows", *by_pipes} == {*calls}
    for record in records:
        assert 0 < record["p50_us"] <= record["p99_us"] <= record["p999_us"] <= record["maximum_us"]
    assert calls["insert"]["calls"] > 20 and calls["insert"]["rows"] > 0
    assert calls["insert, names that come and go"]["calls"] == 4_000


def test_every_experiment_has_a_test_and_helps():
    ran = CliRunner().invoke(bench, ["--help"])
    assert all(name in ran.output for name in EXPERIMENTS) and "report" in ran.output
    tested = {"latency", "throughput", "index", "windows", "automata", "states", "deletes", "reevaluation", "simple"}
    tested |= {"versions", "patterns", "queries", "growth", "sparql", "spark", "spark-commands", "cliffs", "general-engines"}
    tested |= {"rsp-benchmarks", "graph-events", "stream-operators", "pattern-state"}
    tested |= {"large-windows", *SPEED}
    assert tested == {*EXPERIMENTS}
    assert CliRunner().invoke(bench, ["nothing"]).exit_code == 2


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


def test_all_experiments_have_the_options_of_the_command(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr("rpq.workloads.bench.machine.commit_of_checkout", lambda: "another")
    ran = SimpleNamespace(returncode=0)
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(run=lambda words, check: commands.append(words[3:]) or ran))
    place = ["--output", str(tmp_path)]
    sketch, kafka = ["--cold", "--sketch", str(tmp_path)], ["--kafka", "host:9092"]
    for options in ([], [*kafka, "--data", str(tmp_path), "--seconds", "2", *sketch]):
        assert CliRunner().invoke(bench, ["all", "--only", "latency", *place, *options]).exit_code == 0
    assert commands == [
        ["bench", "latency", *place, "--resume"],
        ["bench", "latency", *place, "--resume", "--data", str(tmp_path), "--seconds", "2.0", *sketch, *kafka],
    ]


def test_without_the_extra_there_is_no_plot_and_no_store(run, tmp_path, monkeypatch):
    import sys

    for name in ("matplotlib", "matplotlib.figure", "pyoxigraph"):
        monkeypatch.setitem(sys.modules, name, None)
    args = ["automata", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, args, catch_exceptions=False)
    assert ran.exit_code == 0 and "pip install 'matplotlib>=3.8'" in ran.output


def test_plots_of_nothing_are_drawn(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    plots.points(figure.subplots(), [{"x": 1, "y": None}], "x", "y", log_x=True)
    plots.decades(figure.axes[0])
    figure.savefig(tmp_path / "empty.png")


def test_a_graph_written_label_by_label_is_shuffled(tmp_path):
    lines = [f"{edge} {edge // 100} {edge + 1}\n" for edge in range(1_000)]
    (tmp_path / "social-graph.txt").write_text("".join(lines))
    stream = load_files(DATA_SETS["gmark"], tmp_path, scale=0.2)
    assert stream.table["timestamp"].to_pylist() == [*range(200)]
    assert len({*stream.table["label"].to_pylist()}) == 10 and "shuffled" in stream.origin
    assert (stream.window.size, stream.window.slide) == (50, 5)
