"""`rpq bench mathoverflow` and `ldbc` at small scale: what must hold of their records."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads.bench import measure
from rpq.workloads.bench.command import bench
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


def test_missing_files_are_named(tmp_path):
    with pytest.raises(StreamError, match="sx-"):
        load_files(DATA_SETS["stackoverflow"], tmp_path)
    status, out = run("mathoverflow", "--data", tmp_path, "--output", tmp_path)
    assert status == 1 and "no files" in out


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
