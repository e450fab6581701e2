"""A checkpointed run of graph patterns that is killed anywhere: the rows of one that was not.

semantics.md S7, patterns.md 2.15
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.test_cli_checkpoint import call, call_and_die, figures, make_stream, small_steps, unpacked
from tests.real import DATA

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")
_ = small_steps  # a fixture

CHAIN = "?x a ?y . ?y b ?z"
TOML = """
[[query]]
name = "chain"
query = "?x a ?y . ?y b ?z"
output = "{folder}/rows.csv"
[[query]]
name = "path"
query = "a/b"
output = "{folder}/path.jsonl"
[[query]]
name = "two"
query = "?x b ?y . ?y a ?z"
distinct = true
window = "count:12"
output = "{folder}/rows.csv"
"""


def command(folder: Path, name: str, *options: object) -> list[str]:
    arguments = [CHAIN, "--output", folder / name] if "--queries" not in options else []
    window = [] if "--window" in options else ["--window", 20, "--slide", 3]
    files = ["--input", folder / "edges.txt", "--late", folder / "late.csv", "--stats", folder / "stats.json"]
    return [str(arg) for arg in ["run", *arguments, *files, *window, "--semantics", "explicit", "--quiet", *options]]


def rows_in(path: Path) -> list[tuple[str, ...]]:
    """The rows, in their order but for those of one time."""
    if path.suffix == ".parquet":
        found = [tuple(map(str, row.values())) for row in pq.read_table(path).to_pylist()]
    elif ".jsonl" in path.name:
        found = [tuple(map(str, json.loads(line).values())) for line in unpacked(path).splitlines()]
    else:
        found = [tuple(line.split(",")) for line in unpacked(path).splitlines()[1:]]
    times = [int(row[-2]) for row in found]
    assert times == sorted(times)
    return sorted(found, key=lambda row: (int(row[-2]), row))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rows.csv.gz", ("--static", "{folder}/static.txt")),
        pytest.param("rows.csv", ("--window", "count:15", "--slide", 2), marks=pytest.mark.long),
        ("rows.csv", ("--queries", "{folder}/q.toml")),
    ],
    ids=["static", "count", "file"],
)
def test_rows_are_neither_lost_nor_doubled_wherever_a_run_is_killed(tmp_path, capfd, small_steps, name, options):
    for folder in (tmp_path / "whole", tmp_path / "killed"):
        folder.mkdir()
        make_stream(folder / "edges.txt", 200, seed=3)
        (folder / "static.txt").write_text("1 2 a\n3 4 b\n")
        (folder / "q.toml").write_text(TOML.format(folder=folder))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    before, after = (
        [str(option).format(folder=folder) for option in options] for folder in (whole, killed)
    )
    assert call(command(whole, name, *before)) == 0
    wanted = rows_in(whole / name)
    assert len(wanted) > 50

    args = command(killed, name, "--checkpoint", killed / "state", *after)
    chance = random.Random(f"{name} {options}")
    deaths, left = 0, 0
    latest = 120 if "--queries" in options else 40  # with more outputs more happens between two checkpoints
    while call_and_die(args, at_event=chance.randint(3, latest)):
        deaths += 1
        left += (killed / "state").exists()
    assert deaths >= 3 and left >= 2
    assert rows_in(killed / name) == wanted
    assert figures(killed) == figures(whole)
    assert (killed / "late.csv").read_text() == (whole / "late.csv").read_text()
    if "--queries" in options:
        assert rows_in(killed / "path.jsonl") == rows_in(whole / "path.jsonl")


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ((), ("--distinct",), "--distinct was not given, now True"),
        (("--select", "x,z"), ("--select", "z,x"), "--select was x z, now z x"),
        ((), ("--window", "count:9"), "--window was 20, now count:9; --slide was 3, now 1"),
        (("--static", "static.txt"), (), "(4a1b0b2d5b5bd7b6), now not given"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, capfd, monkeypatch, first, then, message):
    monkeypatch.chdir(tmp_path)
    make_stream(tmp_path / "edges.txt", 50, seed=3)
    Path("static.txt").write_text("1 2 a\n3 4 b\n")
    assert call(command(tmp_path, "rows.csv", "--checkpoint", "state", *first)) == 0
    capfd.readouterr()
    assert call(command(tmp_path, "rows.csv", "--checkpoint", "state", *then)) == 2
    stderr = capfd.readouterr().err
    assert message.replace("4a1b0b2d5b5bd7b6", stderr.partition("static.txt (")[2][:16]) in stderr, stderr
    if not first:  # What says the same in other words is no other run.
        same = ("--matching", "homomorphism", "--select", "x,y,z", "--report", "change")
        assert call(command(tmp_path, "rows.csv", "--checkpoint", "state", *same)) == 0


def test_edges_without_time_that_have_changed_are_told(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_stream(tmp_path / "edges.txt", 50, seed=3)
    Path("static.txt").write_text("1 2 a\n3 4 b\n")
    args = command(tmp_path, "rows.csv", "--checkpoint", "state", "--static", "static.txt")
    args[1] = "?x a ?y . ?y role ?z"
    Path("static.txt").write_text("1 2 role\n3 4 role\n")
    assert call(args) == 0
    whole = Path("rows.csv").read_text()
    capfd.readouterr()
    assert call([arg for arg in args if arg != "--quiet"]) == 0
    assert "warning" not in capfd.readouterr().err and Path("rows.csv").read_text() == whole  # they are in the state
    Path("static.txt").write_text("1 2 a\n3 4 a\n")
    capfd.readouterr()
    assert call(args) == 2 and "--static was " in capfd.readouterr().err


@pytest.mark.ci
@pytest.mark.skipif(not DATA.exists(), reason="the real streams are not here")
def test_a_real_run_that_is_killed(tmp_path):
    """Killed by the system, at moments drawn by chance: as soon as so much is written."""
    inputs = sorted((DATA / "stackoverflow").glob("*.txt.gz"))
    options = ["--format", "stackoverflow", "--drop-self-loops", "--window", "30d", "--slide", "1d", "--limit", "60000"]
    options += ["--semantics", "explicit", "--quiet"]
    arguments = ["run", "?x a2q ?y . ?y c2a ?z", "--input", *map(str, inputs), *options]
    start = [sys.executable, "-m", "rpq.cli", *arguments]
    whole, rows, state = tmp_path / "whole.csv", tmp_path / "rows.csv", tmp_path / "state"
    subprocess.run([*start, "--output", str(whole)], check=True, timeout=600)
    chance = random.Random(11)
    size = whole.stat().st_size
    args = [*start, "--output", str(rows), "--checkpoint", str(state)]
    resumed = 0
    for enough in sorted(chance.randrange(size // 10, size * 9 // 10) for _ in range(2)):
        running = subprocess.Popen(args)
        deadline = time.monotonic() + 300
        while running.poll() is None and not (rows.exists() and rows.stat().st_size >= enough):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert running.poll() is None, "it came to its end"
        time.sleep(chance.random() / 20)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        resumed += state.exists()
    assert resumed >= 1
    subprocess.run(args, check=True, timeout=600)
    found, wanted = (path.read_text().splitlines() for path in (rows, whole))
    assert len(wanted) > 10_000 and found[0] == wanted[0] == "x,y,z,timestamp,op"
    assert [line.split(",")[3] for line in found[1:]] == [line.split(",")[3] for line in wanted[1:]]
    assert sorted(found) == sorted(wanted)
