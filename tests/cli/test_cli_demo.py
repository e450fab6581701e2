"""`rpq demo` and the stream that it makes."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rpq as library
from rpq.cli import main
from rpq.readers import open_reader
from rpq.workloads.demo import demo
from rpq.workloads.generate.interactions import DAY, LABELS, START, Interactions, generate_interactions


def test_the_demo_shows_answers_and_what_to_try_next_works(rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = rpq("--edges", 2000, "--output", "demo.tsv", command=demo, name="rpq demo")
    assert status == 0, err
    assert re.search(r"u\d+ ─a2q→ u\d+ ─c2a→ u\d+", out)
    suggestions = [line.strip() for line in out.splitlines() if line.strip().startswith(("rpq run '", "rpq explain"))]
    assert len(suggestions) == 3
    for line in suggestions:
        args = shlex.split(line.partition("   ")[0].partition("|  head")[0].removesuffix("| head"))[1:]
        status, _, err = rpq(*args)
        assert status == 0, err
    assert len((tmp_path / "rows.csv").read_text().splitlines()) > 100


def test_the_demo_shows_rows_of_a_pattern_that_are_in_the_stream(rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = rpq("--edges", 5000, "--seed", 3, "--output", "demo.tsv", command=demo, name="rpq demo")
    assert status == 0, err
    assert "?critic a2q ?asker . ?rival a2q ?asker . ?critic c2a ?rival" in out
    table = [line for line in out.split("Its latest rows")[1].splitlines() if line.startswith(("│", "┃"))]
    header, *shown = ([cell.strip() for cell in re.split("[│┃]", line)[1:5]] for line in table)
    assert header == ["timestamp", "critic", "asker", "rival"]
    assert 1 <= len(shown) <= 8
    with open("demo.tsv", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        stream = [(row["source"], row["label"], row["target"], int(row["timestamp"])) for row in rows]
    for text, critic, asker, rival in shown:
        now = int(text)
        inside = {(u, label, v) for u, label, v, time in stream if now // DAY * DAY - 10 * DAY < time <= now}
        needed = {(critic, "a2q", asker), (rival, "a2q", asker), (critic, "c2a", rival)}
        assert needed <= inside
        assert any(time == now and (u, label, v) in needed for u, label, v, time in stream)


@pytest.mark.parametrize("name", ["stream.tsv", "stream.csv", "stream.parquet"])
def test_the_stream_can_be_kept_and_read(rpq, tmp_path, name):
    path = tmp_path / name
    assert rpq("--edges", 300, "--seed", 4, "--output", path, command=demo, name="rpq demo")[0] == 0
    (batch,) = open_reader("edges", [str(path)])
    wanted = generate_interactions(Interactions(edges=300, seed=4))
    for column in wanted.column_names:
        assert batch.columns[column].to_pylist() == wanted[column].to_pylist()


def test_the_page_plays_a_stream_back_over_which_each_query_has_answers(rpq, monkeypatch):
    pytest.importorskip("rpq.serve.command", reason="the extra serve is not installed")

    def played_back(args, **_):
        assert args[0] == "serve"
        options = dict(zip(args[1::2], args[2::2]))
        assert options["--port"] == "4711" and float(options["--playback-speed"]) > 0
        engine = library.Engine(*library.read_queries(options["--queries"]), time_unit=options["--time-unit"])
        (batch,) = open_reader("edges", [options["--input"]])
        engine.push(batch.columns, collect=False)
        answers = [engine.statistics(query.name).rows_added for query in engine.queries]
        assert len(batch.columns) == 20_000 and len(answers) == 3 and min(answers) > 10, answers
        sys.exit(130)  # as after Ctrl-C

    monkeypatch.setattr(main, "main", played_back)
    status, out, err = rpq("--page", "--port", 4711, command=demo, name="rpq demo")
    assert status == 0, err
    assert "http://127.0.0.1:4711/" in out + err


def test_another_ending_is_refused(rpq, tmp_path):
    status, _, err = rpq("--edges", 300, "--output", tmp_path / "stream.txt", command=demo, name="rpq demo")
    assert status == 2 and "expected a name that ends in .tsv, .csv" in err


def test_streams_look_like_interactions():
    stream = generate_interactions(Interactions(edges=20_000))
    assert stream.equals(generate_interactions(Interactions(edges=20_000)))
    assert not stream.equals(generate_interactions(Interactions(edges=20_000, seed=2)))
    times = stream["timestamp"].to_numpy()
    assert (np.diff(times) >= 0).all() and times[0] >= START and times[-1] < START + 120 * DAY
    source, target = stream["source"].to_numpy(), stream["target"].to_numpy()
    assert (source != target).all()
    assert set(stream["label"].unique().to_pylist()) == set(LABELS)
    _, counts = np.unique(source, return_counts=True)
    assert len(counts) > 1000 and np.sort(counts)[-15:].sum() > 0.1 * len(source)  # a hundredth does a tenth
    assert generate_interactions(Interactions(edges=0)).num_rows == 0


ROOT = Path(__file__).parents[2]


def ways_to_call(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Ways to call the command: the arguments, and how its suggestions begin."""
    script = Path(sys.executable).with_name("rpq")
    ways = {"module": ([sys.executable, "-m", "rpq.cli"], f"{shlex.quote(sys.executable)} -m rpq.cli ")}
    if script.exists():
        linked = folder / "bin with blanks" / "rpq"
        linked.parent.mkdir()
        linked.symlink_to(script)
        ways |= {"path": ([str(linked)], f"'{linked}' "), "name": (["rpq"], "rpq ")}
    return ways


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="pastes into a POSIX shell")
@pytest.mark.parametrize(
    ("way", "output"),
    [
        ("path", "it's mine.csv"),
        pytest.param("module", None, marks=pytest.mark.long),
        pytest.param("name", "-x.parquet", marks=pytest.mark.long),
        pytest.param("path", None, marks=pytest.mark.long),
        pytest.param("name", None, marks=pytest.mark.long),
    ],
)
def test_what_is_suggested_can_be_pasted_and_gives_the_rows_that_were_shown(tmp_path, way, output):
    ways = ways_to_call(tmp_path)
    if way not in ways:
        pytest.skip("there is no script rpq beside this Python")
    command, begin = ways[way]
    folder = tmp_path / "clean folder"
    folder.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent) if way == "name" else "", "/usr/bin", "/bin"]).strip(os.pathsep)
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "PYTHONPATH": str(ROOT)}

    def run(command, **options):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, **options)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        return done.stdout

    shown = run([*command, "demo", "--edges", "3000", "--seed", "5", *([f"--output={output}"] if output else [])])
    assert [path.name for path in folder.iterdir()] == ([output] if output else [])
    wanted = {tuple(cell.strip() for cell in line.split("│")[1:5]) for line in shown.splitlines() if "→ u" in line}
    count = int(re.search(r"^([\d,]+) rows, one whenever a pair", shown, re.MULTILINE)[1].replace(",", ""))
    suggested = [line.strip() for line in shown.splitlines() if line.strip().startswith(begin)]
    assert len(wanted) > 3 and len(suggested) == (4 if output else 5)

    run(suggested[0], shell=True)
    with open(folder / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == count
    drawn = {(row["timestamp"], row["source"], row["target"], drawing(json.loads(row["path"]))) for row in rows}
    assert wanted <= drawn
    assert len(run(suggested[1], shell=True).splitlines()) == 10
    for line in suggested[2:]:
        assert len(run(line, shell=True)) > 200
    if output is None:
        assert (folder / "demo.tsv").read_text().count("\n") == 3001


def drawing(path: list[str]) -> str:
    return " ".join([path[0], *(f"─{label}→ {vertex}" for label, vertex in zip(path[1::2], path[2::2], strict=True))])
