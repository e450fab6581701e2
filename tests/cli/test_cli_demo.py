"""`rpq demo` and the stream that it makes."""

from __future__ import annotations

import csv
import re
import shlex
import sys

import pytest

import rpq as library
from rpq.cli import main
from rpq.readers import open_reader
from rpq.workloads.demo import demo
from rpq.workloads.generate.interactions import DAY, Interactions, generate_interactions


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
