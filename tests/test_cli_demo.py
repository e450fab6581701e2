"""`rpq demo` and the stream that it makes."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

from rpq.cli import main
from rpq.readers import open_reader
from rpq.workloads.demo import demo
from rpq.workloads.generate.interactions import DAY, LABELS, START, Interactions, generate_interactions


@pytest.fixture
def call(capfd):
    def run(command, args: list[object], **options) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            command([str(arg) for arg in args], **options)
        out, err = capfd.readouterr()
        return ended.value.code or 0, out, err

    return run


def test_the_demo_shows_answers_and_what_to_try_next_works(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = call(demo, ["--edges", 2000, "--output", "demo.tsv"], prog_name="rpq demo")
    assert status == 0, err
    assert re.search(r"u\d+ ─a2q→ u\d+ ─c2a→ u\d+", out)
    suggestions = [line.strip() for line in out.splitlines() if line.strip().startswith(("rpq run '", "rpq explain"))]
    assert len(suggestions) == 3
    for line in suggestions:
        args = shlex.split(line.partition("   ")[0].partition("|  head")[0].removesuffix("| head"))[1:]
        status, _, err = call(main, args, prog_name="rpq")
        assert status == 0, err
    assert len((tmp_path / "rows.csv").read_text().splitlines()) > 100


@pytest.mark.parametrize("name", ["stream.tsv", "stream.csv", "stream.parquet"])
def test_the_stream_can_be_kept_and_read(call, tmp_path, name):
    path = tmp_path / name
    assert call(demo, ["--edges", 300, "--seed", 4, "--output", path], prog_name="rpq demo")[0] == 0
    (batch,) = open_reader("edges", [str(path)])
    wanted = generate_interactions(Interactions(edges=300, seed=4))
    for column in wanted.column_names:
        assert batch.columns[column].to_pylist() == wanted[column].to_pylist()


def test_another_ending_is_refused(call, tmp_path):
    status, _, err = call(demo, ["--edges", 300, "--output", tmp_path / "stream.txt"], prog_name="rpq demo")
    assert status == 2 and ".tsv, .csv or .parquet" in err


def test_streams_look_like_interactions():
    stream = generate_interactions(Interactions(edges=20_000))
    assert stream.equals(generate_interactions(Interactions(edges=20_000)))
    assert not stream.equals(generate_interactions(Interactions(edges=20_000, seed=2)))
    times = stream["timestamp"].to_numpy()
    assert (np.diff(times) >= 0).all() and START <= times[0] and times[-1] < START + 120 * DAY
    source, target = stream["source"].to_numpy(), stream["target"].to_numpy()
    assert (source != target).all()
    assert set(stream["label"].unique().to_pylist()) == set(LABELS)
    _, counts = np.unique(source, return_counts=True)
    assert len(counts) > 1000 and np.sort(counts)[-15:].sum() > 0.1 * len(source)  # a hundredth does a tenth
    assert generate_interactions(Interactions(edges=0)).num_rows == 0
