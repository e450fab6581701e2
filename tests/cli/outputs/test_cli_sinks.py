"""Outputs of other packages: found by scheme, resumed as their guarantee says, refused with a cause."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from rpq.run import loop
from tests.cli.test_cli_checkpoint import call_and_die, make_stream, small_steps  # noqa: F401
from tests.services.installed_sinks import install_sinks
from tests.twins import left_to_ci

PATH = ["a/b*", "--window", "20", "--slide", "3", "--semantics", "explicit"]


@pytest.fixture
def run(rpq, tmp_path, monkeypatch):
    """Call `rpq run` with the sinks of `installed_sinks`, in `tmp_path`."""
    install_sinks(tmp_path / "site", monkeypatch)
    monkeypatch.chdir(tmp_path)
    return lambda *args: rpq("run", *args)


def rows_of(path: Path, guarantee: str) -> list[dict]:
    """The rows that a sink has; of batches that were sent again, which must be the same, those of the first time."""
    if guarantee == "commit":
        return json.loads(path.read_text())["rows"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if guarantee != "key":
        return lines
    bodies: dict[str, list[dict]] = {}
    for line in lines:
        assert bodies.setdefault(line["key"], line["rows"]) == line["rows"] and len(line["rows"]) <= 3
    assert [int(key.partition("-")[2]) for key in bodies] == [*range(1, len(bodies) + 1)]
    assert len({key.partition("-")[0] for key in bodies}) == 1
    return [row for rows in bodies.values() for row in rows]


def bag(rows: list[dict]) -> Counter:
    return Counter(json.dumps(row) for row in rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")
@pytest.mark.parametrize("guarantee", ["key", *left_to_ci("commit", "rewind", "plain")])
@pytest.mark.usefixtures("small_steps")
def test_a_run_that_is_killed_and_resumed_keeps_the_guarantee(run, tmp_path, guarantee):
    make_stream(tmp_path / "edges.txt", 200, seed=3)
    assert run(*PATH, "--input", "edges.txt", "--output", "whole.jsonl", "--quiet")[0] == 0
    wanted = [json.loads(line) for line in Path("whole.jsonl").read_text().splitlines()]
    output = tmp_path / "rows"
    killed = ["run", *PATH, "--input", "edges.txt", "--checkpoint", "state", "--quiet"]
    killed += ["--output", f"{guarantee}://ann:secret@host{output}"]
    chance, deaths = random.Random(guarantee), 0
    while call_and_die(killed, at_event=chance.randint(10, 40)):
        deaths += 1
    assert deaths >= 2
    assert run(*killed[1:])[0] == 0  # there is nothing more
    found = rows_of(output, guarantee)
    if guarantee == "key":
        keys = [json.loads(line)["key"] for line in output.read_text().splitlines()]
        assert len(keys) > len({*keys})  # some were sent again
    if guarantee == "plain":
        assert not bag(wanted) - bag(found)
    else:
        assert len(wanted) > 100 and bag(found) == bag(wanted)
        assert [row["timestamp"] for row in found] == [row["timestamp"] for row in wanted]
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize("guarantee", ["key", "rewind"])
def test_queries_of_a_file_share_a_sink_or_have_their_own(run, tmp_path, monkeypatch, guarantee):
    monkeypatch.setattr(loop, "FIRST_SLICE", 16)
    make_stream(tmp_path / "edges.txt", 100, seed=1)
    for folder, of in (("sink", lambda name: f"{guarantee}://{tmp_path / 'sink' / name}"), ("files", None)):
        (tmp_path / folder).mkdir()
        text = "".join(
            f"[[query]]\nname = '{name}'\nquery = '{query}'\noutput = '{of(one) if of else f'{folder}/{one}.jsonl'}'\n"
            for name, query, one in (("ab", "a/b*", "one"), ("b", "b", "one"), ("xz", "?x a ?y . ?y b ?z", "two"))
        )
        Path(f"{folder}.toml").write_text(text)
        arguments = ["--queries", f"{folder}.toml", *PATH[1:], "--input", "edges.txt", "--checkpoint", f"{folder}.state"]
        for limit in (40, 100):  # the second run is resumed
            assert run(*arguments, "--limit", limit)[0] == 0
    for name in ("one", "two"):
        wanted = [json.loads(line) for line in Path(f"files/{name}.jsonl").read_text().splitlines()]
        lines = [json.loads(line) for line in Path(f"sink/{name}").read_text().splitlines()]
        found = [row for line in lines for row in line["rows"]] if guarantee == "key" else lines
        assert len(wanted) > 20 and bag(found) == bag(wanted)
        assert "query" in found[0]


def test_an_outbox_is_that_of_its_checkpoint(run, tmp_path):
    make_stream(tmp_path / "edges.txt", 50, seed=1)
    arguments = [*PATH, "--input", "edges.txt", "--output", f"key://{tmp_path / 'rows'}", "--checkpoint", "state"]
    assert run(*arguments)[0] == 0
    Path("state.outbox").rename("kept")
    status, _, err = run(*arguments)
    assert status == 1 and "state.outbox: is missing.  It has the batches since the checkpoint" in err
    Path("state").rename("state.kept")
    assert run(*arguments)[0] == 0
    Path("kept").replace("state.outbox")
    status, _, err = run(*arguments)
    assert status == 1 and "state.outbox: is the outbox of another run" in err


def test_errors_of_a_sink_have_its_url_without_the_login(run, tmp_path):
    Path("edges.txt").write_text("x y a 1\ny z b 2\n")
    arguments = [*PATH, "--input", "edges.txt", "--output"]
    for url, status, message in (
        ("plain://ann:secret@host/broken", 1, "plain://host/broken: the URL is broken"),
        (f"plain://ann:secret@host{tmp_path}/full", 1, "/full: ValueError: there is no room"),
        (f"plain://ann:secret@host{tmp_path}/no/such", 1, "/no/such: FileNotFoundError: "),
        ("missing://x", 2, "installed_sinks:Missing) cannot be loaded: AttributeError"),
        ("nats://x", 2, "URLs of nats:// are not written; expected the path of a file"),
    ):
        found, _, err = run(*arguments, url)
        assert found == status and message in err and "secret" not in err and "Traceback" not in err
    (tmp_path / "late").mkdir()
    status, _, err = run(*arguments, f"plain://{tmp_path}/late/rows", "--checkpoint", "state")
    assert status == 0 and "/late/rows: cannot take rows back (at least once).  A run that is resumed from state" in err
    assert "Installed sinks" in run("--help")[1] and "commit://" in run("--help")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "key:///rows", "--jobs", "2"], "--jobs writes rows to files, part by part"),
        (["--output", "rewind:///rows", "--jobs", "2"], "--jobs writes rows to files, part by part"),
        (["--output", "key:///rows", "--late", "late.csv"], "--late late.csv: key:///rows receives batches with keys"),
        (["--output", "key:///rows", "--replace"], "--replace applies to tables"),
    ],
)
def test_what_a_sink_cannot_serve_is_refused_by_name(run, options, message):
    Path("edges.txt").write_text("1 2 a 1\n")
    status, _, err = run(*PATH, "--input", "edges.txt", *options)
    assert status == 2 and message in err


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("commit:///one", "commit:///two"), "commit:///two: commit:///one stores rows and the position of the input"),
        (("key:///one", "rows.csv"), "rows.csv: key:///one receives batches with keys"),
        (("key:///one", "rewind:///two"), "rewind:///two: key:///one receives batches with keys"),
        (("key:///one", "postgresql:///shop?table=x"), "rows go to tables of a database or elsewhere, not both"),
    ],
)
def test_outputs_of_queries_share_a_guarantee(run, outputs, message):
    Path("edges.txt").write_text("1 2 a 1\n")
    entries = enumerate(outputs)
    text = "".join(f"[[query]]\nname = '{name}'\nquery = 'a'\noutput = '{output}'\n" for name, output in entries)
    Path("queries.toml").write_text(text)
    status, _, err = run("--queries", "queries.toml", *PATH[1:], "--input", "edges.txt")
    assert status == 2 and message in err
