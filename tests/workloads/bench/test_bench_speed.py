"""`rpq bench mathoverflow` and `ldbc` at small scale: what must hold of their records."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads.bench import measure
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import path_speed
from rpq.workloads.bench.experiment import figures_of_others
from rpq.workloads.bench.streams import DATA_SETS, StreamError, load_files
from rpq.workloads.generate.interactions import Interactions, generate_interactions


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files like SNAP's and like LDBC's updates, small."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "stackoverflow").mkdir()
    rows = generate_interactions(Interactions(edges=3_000, users=200, days=60)).to_pylist()
    for label in ("a2q", "c2a", "c2q"):
        lines = [f"{r['source']} {r['target']} {r['timestamp']}\n" for r in rows if r["label"] == label]
        (folder / "stackoverflow" / f"sx-small-{label}.txt").write_text("".join(lines))
    lines = ["source\ttarget\tlabel\ttimestamp\top\n"]
    for place in range(600):
        label = ("likes", "replyOf", "knows")[place % 3]
        time, op = place * 7_200_000, "-" if place % 50 == 49 else "+"
        lines.append(f"p{place % 40}\tp{place * 7 % 40}\t{label}\t{time}\t{op}\n")
    (folder / "small-updates.tsv").write_text("".join(lines))
    return folder


def run(*args: object) -> tuple[int, str]:
    ran = CliRunner().invoke(bench, [str(arg) for arg in args], catch_exceptions=False)
    return ran.exit_code, ran.output


@pytest.mark.long
def test_the_table_of_speed_has_every_figure(data, tmp_path):
    status, out = run(
        "mathoverflow", "--data", data, "--scale", 0.9, "--repeat", 1, "--queries", "Q1,Q2", "--output", tmp_path
    )
    assert status == 0, out
    result = json.loads((tmp_path / "mathoverflow.json").read_text())
    assert [record["query"] for record in result["records"]] == ["Q1", "Q2"]
    assert all(result["checks"].values())
    assert result["machine"]["calibration_ns_per_step"] > 0 and result["machine"]["cores"] > 0
    (stream,) = result["streams"]
    assert stream["tuples"] == 2_700 and stream["window"] == 30 * 86_400
    for record in result["records"]:
        assert record["rows_added"] > 0 and record["engine_seconds"] > 0
        assert record["two_threads_rows"] == record["rows_added"]
        assert record["deletes_rows_removed"] > 0 and record["first_delete_ms"] > 0
        assert record["peak_cells"] > 0 and record["bytes_per_cell"] > 0
        assert record["resident_mb"] > 0 and record["latency_p99_us"] >= record["latency_p50_us"] > 0
        assert "rows_as_expected" not in record  # the figures of others are for the whole of another stream
    assert "a2q/c2a*" in out and (tmp_path / "mathoverflow.json").exists()


@pytest.mark.long
def test_ldbc_runs_on_insertions_only(data, tmp_path):
    status, out = run("ldbc", "--data", data, "--scale", 0.5, "--repeat", 1, "--queries", "Q2", "--output", tmp_path)
    assert status == 0, out
    (record,) = json.loads((tmp_path / "ldbc.json").read_text())["records"]
    assert record["expression"] == "likes/replyOf*" and record["rows_removed"] == 0
    assert record["tuples"] == 294  # half of 600, an op in 50 of which is a delete


def test_missing_files_are_named(tmp_path):
    with pytest.raises(StreamError, match="sx-"):
        load_files(DATA_SETS["stackoverflow"], tmp_path)
    status, out = run("mathoverflow", "--data", tmp_path, "--output", tmp_path)
    assert status == 1 and "no files" in out


def test_figures_of_others_name_their_source():
    for name in ("mathoverflow", "ldbc"):
        assert "Measured" in figures_of_others(name)["source"]
    queries = figures_of_others("mathoverflow")["queries"]
    assert len(queries) == 8 and queries[0]["rows"] == 5_211_348
    assert path_speed.figure_text(queries[-1]["seconds"]["S-PATH"]) == "> 150"


def test_the_peak_is_the_fullest_of_the_looks(data):
    stream = load_files(DATA_SETS["stackoverflow"], data)
    query = rpq.Query("a2q/c2a*", window=stream.window)
    peak = measure.find_peak(query, stream, samples=30)
    engine = rpq.Engine(query)
    for batch in stream.first(peak.tuple).batches():
        engine.push(batch, collect=False)
    assert engine.statistics().index_cells == peak.cells > 0


def test_rows_do_not_depend_on_how_a_run_is_measured(data):
    stream = load_files(DATA_SETS["stackoverflow"], data)
    query = rpq.Query("a2q/c2a*", window=stream.window)
    whole = measure.run_once(query, stream.batches())
    by_slide = measure.run_once(query, (batch for _, batch in measure.slides(stream, query.window)))
    assert whole.rows_added == by_slide.rows_added and whole.tuples == by_slide.tuples == len(stream)


def test_deletes_are_those_of_the_command_line(data):
    stream = load_files(DATA_SETS["stackoverflow"], data)
    query = rpq.Query("a2q*", window=stream.window)
    deleting = measure.with_deletes(query, stream, 10, seed=3)
    deletes = sum(deleting.table["delete"].to_pylist())
    relevant = stream.table["label"].to_pylist().count("a2q")
    assert 0.06 * relevant < deletes < 0.14 * relevant
    assert measure.with_deletes(query, stream, 0, seed=3) is stream
