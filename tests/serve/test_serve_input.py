"""Files as a server's input: played at a speed, gone on with after a restart; the command and its options."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rpq.cli import group, run_parts
from rpq.readers import open_reader
from rpq.serve import models, serving
from rpq.serve.feeds import FileFeed, Playback
from tests.services.installed_sources import path_with_example
from tests.services.served import Command, Served


def edges(path: Path, count: int, *, every: int = 1) -> Path:
    path.write_text("source,target,label,timestamp\n" + "".join(f"v{n},w{n},a,{n * every}\n" for n in range(count)))
    return path


def until(holds, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- the speed -------------------------------------------------------------------------------------------------------


def test_at_full_speed_all_is_due():
    playback = Playback(speed=None, time_unit="s")
    assert playback.due(np.array([5, 3, 900])) == 3
    assert playback.model() == models.Playback(state="playing", speed=None, time=900)
    playback.end()
    assert playback.model().state == "ended"


def test_tuples_are_due_at_their_time():
    playback = Playback(speed=1000.0, time_unit="ms")  # a million units a second
    times = np.array([0, 5, 2, 200_000, 400_000])
    began = time.monotonic()
    done = []
    while len(done) < len(times):
        count = playback.due(times[len(done) :])
        done += [time.monotonic() - began] * count
    assert done[3] >= 0.19 and done[4] >= 0.39


def test_records_of_nodes_of_an_input_and_of_posts_go_on_after_a_restart(tmp_path):
    rules, events = tmp_path / "rules.toml", tmp_path / "events.jsonl"
    rules.write_text(
        "[[edge]]\nlabel='a'\nsource='from'\ntarget='to'\ntimestamp='t'\n[[node]]\nnode='account'\nproperties={risk='risk'}\n"
    )
    lines = ['{"account":"y","risk":4}\n', '{"t":1,"from":"x","to":"y"}\n', '{"account":"z","risk":9}\n']
    lines += ['{"t":2,"from":"y","to":"z"}\n', '{"account":"y","risk":null}\n']
    query = "a/@[risk > 3]"
    for count, expected in ((2, {("x", "y")}), (4, {("x", "y"), ("y", "z")}), (5, {("y", "z")})):
        events.write_text("".join(lines[:count]))
        arguments = [query, "--window", "10", "--slide", "1", "--semantics", "explicit", "--input", str(events)]
        options = ["--edges-from", str(rules), "--checkpoint", str(tmp_path / "state"), "--playback-speed", "1000000"]
        with Command(*arguments, *options, log=tmp_path / "log") as served:
            until(lambda: served.answers(query) == expected)
            assert served.end() == 0


def test_it_pauses_and_changes_its_speed():
    playback = Playback(speed=1.0, time_unit=None)
    playback.change({"state": "paused"})
    assert playback.model().state == "paused"
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(playback.due(np.array([0, 1_000_000]))))
    thread.start()
    time.sleep(0.1)
    assert not found
    playback.change({"state": "playing", "speed": 1e12})
    thread.join(30)
    assert found[0] >= 1
    assert playback.due(np.array([1_000_000])) == 1
    playback.stop()
    assert playback.due(np.array([2**60])) in (0, 1)


@pytest.mark.parametrize(
    "fields",
    [{}, [], {"speed": 0}, {"speed": -1}, {"speed": "x"}, {"speed": True}, {"state": "ended"}, {"volume": 3}, {"state": 0}],
)
def test_what_is_no_speed_is_refused(fields):
    with pytest.raises(models.FieldsError):
        Playback(speed=None, time_unit=None).change(fields)


# --- the command -----------------------------------------------------------------------------------------------------

QUERY = ["a+", "--window", "100000", "--slide", "10", "--semantics", "explicit"]


@pytest.mark.ci
def test_a_file_is_played_paused_and_hurried(tmp_path):
    path = edges(tmp_path / "edges.csv", 1000)
    with Command(*QUERY, "--input", path, "--playback-speed", "20", log=tmp_path / "log") as served:
        assert served.client.get("/playback").json()["speed"] == 20.0
        until(lambda: served.client.get("/statistics").json()["tuples"] > 5)
        paused = served.client.post("/playback", json={"state": "paused"}).json()
        assert paused["state"] == "paused" and paused["time"] < 900
        time.sleep(0.3)
        before = served.client.get("/statistics").json()["tuples"]
        time.sleep(0.5)
        assert served.client.get("/statistics").json()["tuples"] == before < 900
        served.post(("extra", "one", "a", 5))  # posts go on
        assert ("extra", "one") in served.answers("a+")
        assert served.client.post("/playback", json={"speed": 0}).status_code == 422
        hurried = served.client.post("/playback", json={"state": "playing", "speed": None}).json()
        assert hurried["state"] in ("playing", "ended") and hurried["speed"] is None
        until(lambda: served.client.get("/playback").json()["state"] == "ended")
        assert len(served.answers("a+")) == 1001
        assert served.end() == 0


@pytest.mark.ci
def test_a_file_is_gone_on_with_behind_what_there_is(tmp_path):
    path = edges(tmp_path / "edges.csv", 6_000)
    options = [*QUERY, "--input", path, "--checkpoint", tmp_path / "state", "--checkpoint-every", "0.3s"]
    with Command(*options, "--playback-speed", "2000", log=tmp_path / "log") as served:
        until(lambda: served.client.get("/statistics").json()["tuples"] > 1000)
        served.kill()
    with Command(*options, log=tmp_path / "log") as served:
        until(lambda: served.client.get("/playback").json()["state"] == "ended")
        assert served.client.get("/statistics").json()["tuples"] == 6_000
        assert len(served.answers("a+")) == 6_000
        assert served.end() == 0


def test_a_file_that_has_become_another_one_is_not_gone_on_with(tmp_path):
    def read(path: Path) -> tuple[int, str | None]:
        query = {"expression": "a", "window": 100_000, "slide": 10}
        with Served(query, checkpoint=tmp_path / "state") as served:
            playback = Playback(speed=None, time_unit=None)
            feed = FileFeed(served.service, open_reader("edges", path), playback, paths=[str(path)])
            feed.start()
            assert feed.has_ended.wait(60)
            feed.stop()
            return served.service.tuples, feed.error

    path = tmp_path / "edges.csv"
    assert read(edges(path, 10)) == (10, None)
    for count, every, reason in ((5, 1, "it has only 5"), (12, 2, "and tuple 10 is ['v9', 'w9', 'a', 18, '+']")):
        tuples, error = read(edges(path, count, every=every))
        assert tuples == 10 and error is not None and reason in error
    assert read(edges(path, 12)) == (12, None)


@pytest.mark.ci
def test_standard_input_is_read_as_it_comes(tmp_path):
    with Command(*QUERY, "--input", "-", "--format", "jsonl", log=tmp_path / "log") as served:
        served.process.stdin.write(b'{"source":"x","target":"y","label":"a","timestamp":1}\n')
        served.process.stdin.flush()
        until(lambda: served.answers("a+") == {("x", "y")})
        served.process.stdin.write(b'{"source":"y","target":"z","label":"a","timestamp":2}\n')
        served.process.stdin.flush()
        until(lambda: len(served.answers("a+")) == 3)
        assert served.end() == 0


@pytest.mark.ci
def test_an_installed_source_is_followed_and_gone_on_with_behind_what_there_is(tmp_path):
    path = edges(tmp_path / "edges.csv", 2_000)
    python_path = path_with_example(tmp_path / "site", "source")
    options = [*QUERY, "--input", f"follow://{path}", "--checkpoint", tmp_path / "state", "--checkpoint-every", "0.3s"]
    with Command(*options, log=tmp_path / "log", PYTHONPATH=python_path) as served:
        until(lambda: served.client.get("/statistics").json()["tuples"] == 2_000)
        until((tmp_path / "state").exists)
        served.kill()
    with path.open("a") as file:
        file.write("v2000,w2000,a,2000\n")
    with Command(*options, log=tmp_path / "log", PYTHONPATH=python_path) as served:
        until(lambda: served.client.get("/statistics").json()["tuples"] == 2_001)
        assert len(served.answers("a+")) == 2_001
        assert served.end() == 0  # although the source waits for more
    assert "reading the input has ended" not in (tmp_path / "log").read_text()


@pytest.mark.ci
def test_queries_of_a_file_with_the_options_behind_them(tmp_path):
    path = tmp_path / "queries.toml"
    path.write_text(
        '[[query]]\nname = "one"\nquery = "a+"\nwindow = "1h"\n'
        '[[query]]\nname = "two"\nquery = "?x a ?y"\nreport = "slide"\n'
        '[[query]]\nname = "three"\nquery = "a"\nwindow = "unbounded"\nsemantics = "implicit"\n'
    )
    options = ["--queries", path, "--window", "2h", "--slide", "1m", "--time-unit", "s", "--checkpoint", tmp_path / "state"]
    options += ["--semantics", "explicit"]
    for _ in range(2):  # the second time they are there already
        with Command(*options, log=tmp_path / "log") as served:
            found = {one["name"]: one for one in served.client.get("/queries").json()["queries"]}
            assert (found["one"]["window"], found["one"]["slide"]) == ("1h", "1m")
            assert (found["two"]["window"], found["two"]["report"], found["two"]["semantics"]) == ("2h", "slide", "explicit")
            assert found["one"]["semantics"] == "explicit"
            assert (found["three"]["window"], found["three"]["semantics"]) == ("unbounded", "implicit")
            assert served.end() == 0


@pytest.mark.ci
def test_the_token_comes_from_the_environment_and_is_nowhere_else(tmp_path):
    headers = {"authorization": "Bearer t0ken"}
    with Command("a+", "--window", "10", log=tmp_path / "log", headers=headers, RPQ_TOKEN="read=other t0ken") as served:
        assert served.client.get("/queries").status_code == 200
        assert served.client.get("/queries", headers={"authorization": ""}).status_code == 401
        assert b"t0ken" not in Path(f"/proc/{served.process.pid}/cmdline").read_bytes()
        served.end()
    assert "t0ken" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["a/b||c", "--window", "10"], "unexpected '|'"),
        (["a", "--window", "soon"], "soon"),
        (["a"], "window"),
        (["a", "--window", "30d"], "--time-unit"),
        (["--keep", "30d"], "--time-unit"),
        (["--keep", "count:10"], "a time window"),
        (["a", "a", "--window", "10"], "already"),
        (["--input", "nothing.csv"], "nothing.csv"),
        (["--token", " "], "--token"),
        (["--port", "70000"], "70000"),
        (["--host", "999.1.2.3"], "cannot be served at"),
        (["--playback-speed", "0"], "not a speed"),
        (["--queries", "nothing.toml"], "nothing.toml"),
        (["a", "--queries", "nothing.toml"], "--queries"),
        (["--query-file", "nothing.rq"], "--query-file nothing.rq: cannot be read"),
        (["--query-file", __file__, "--window", "10"], f"--query-file {__file__}: "),
        (["--max-connections", "0"], "--max-connections"),
        (["--idle-timeout", "soon"], "--idle-timeout"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message, rpq, monkeypatch):
    code, _, stderr = rpq("serve", *options, *(() if "--port" in options else ("--port", 0)))
    assert code in (1, 2), stderr
    assert message in stderr and "Traceback" not in stderr


@pytest.mark.parametrize(
    ("options", "expected", "message"),
    [
        (["--host", "0.0.0.0"], 2, "--open"),
        (["--host", "::"], 2, "--open"),
        (["--host", ""], 2, "--open"),
        (["--host", "0"], 2, "--open"),
        (["--host", "192.0.2.1"], 2, "no token"),
        (["--host", "192.0.2.1", "--token", "t"], 1, "cannot be served at"),  # a token is enough; the address is no one's
        (["--host", "192.0.2.1", "--open"], 1, "cannot be served at"),
        (["--host", "0.0.0.0", "--token", "t", "--open"], 2, "leave out one"),
        (["--host", "999.1.2.3"], 1, "cannot be served at"),
        (["--tls-cert", "cert.pem"], 2, "--tls-cert needs --tls-key"),
        (["--tls-key", "key.pem"], 2, "--tls-key needs --tls-cert"),
        (["--tls-cert", "no.pem", "--tls-key", "key.pem"], 1, "no.pem: cannot be read"),
    ],
)
def test_who_is_let_in_from_outside_is_said(options, expected, message, rpq, monkeypatch):
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    code, _, stderr = rpq("serve", *options, "--port", 0)
    assert code == expected and message in stderr, stderr


def test_a_checkpoint_that_cannot_be_gone_on_from_is_no_usage_error(rpq, tmp_path, monkeypatch):
    (tmp_path / "state").write_text("something precious")
    code, _, stderr = rpq("serve", "--checkpoint", tmp_path / "state", "--port", 0)
    assert code == 1 and "state" in stderr


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [
        ("serve", serving, "compile_kernels"),
        ("serve", serving, "run_server"),
        ("run", group, "import_module"),
        ("run", run_parts, "compile_kernels"),
        ("explain", group, "import_module"),
    ],
)
def test_ctrl_c_ends_with_130_at_any_time(rpq, tmp_path, monkeypatch, command, module, name):
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    Path("edges").write_text("x y a 1\n")
    monkeypatch.setattr(module, name, interrupted)
    windows = ["--window", 10, "--slide", 1]
    options = {"serve": [*windows, "--port", 0], "run": [*windows, "--input", "edges"], "explain": []}
    code, _, stderr = rpq(command, "a", *options[command])
    assert code == 130 and "Traceback" not in stderr


@pytest.mark.ci
def test_another_query_of_the_same_name_is_no_silent_change(tmp_path):
    state = tmp_path / "state"
    with Command("a+", "--window", "10", "--checkpoint", state, log=tmp_path / "log") as served:
        served.end()
    with pytest.raises(AssertionError, match="another query named 'a\\+'"):
        Command("a+", "--window", "20", "--checkpoint", state, log=tmp_path / "log")


@pytest.mark.ci
def test_posted_records_become_edges_by_rules(tmp_path):
    (tmp_path / "edges.toml").write_text(
        'timestamp = "ts"\n[[edge]]\nlabel = "a"\nsource = "from.id"\ntarget = "to.id"\n'
        '[[edge]]\nlabel = "b"\nsource = "to.id"\ntarget = "host"\nwhen = "host is not null"\n'
    )
    options = ["a/b", "--window", "10", "--edges-from", tmp_path / "edges.toml"]
    with Command(*options, log=tmp_path / "log") as served:
        body = '{"ts":1,"from":{"id":1},"to":{"id":2},"host":"h"}\n{"ts":2,"from":{"id":3},"to":{"id":2}}\n'
        headers = {"content-type": "application/x-ndjson"}
        assert served.client.post("/tuples", content=body, headers=headers).json()["tuples"] == 3
        assert served.answers("a/b") == {("1", "h"), ("3", "h")}
        refused = served.client.post("/tuples", content='{"ts":1,"host":"h"}', headers=headers)
        assert refused.status_code == 422
        assert "column 'to.id': is missing" in refused.text


@pytest.mark.ci
def test_posts_have_the_format_of_times_and_the_vertices_of_the_options(tmp_path):
    options = ["a+", "--window", "10", "--time-unit", "s", "--time-format", "epoch", "--vertices", "text"]
    with Command(*options, log=tmp_path / "log") as served:
        body = '{"source":"x","target":5,"label":"a","timestamp":1.5}\n'
        served.client.post("/tuples", content=body, headers={"content-type": "application/x-ndjson"}).raise_for_status()
        assert served.answers("a+") == {("x", "5")}


@pytest.mark.long
def test_a_server_goes_on_with_the_unit_of_its_checkpoint(tmp_path):
    """Times in ISO 8601 become numbers in this unit: in another one they would be late, or far ahead."""
    options, log = ["a+", "--window", "1h", "--slide", "1m"], tmp_path / "log"
    checkpoint = ["--checkpoint", tmp_path / "state"]
    with Command(*options, "--time-unit", "ms", *checkpoint, log=log) as served:
        assert served.post(("x", "y", "a", "2023-11-14T22:13:20Z")).json()["time"] == 1_700_000_000_000
        assert served.end() == 0
    for others, shown in (([*options, "--time-unit", "s"], "--time-unit s"), ([], "no --time-unit")):
        with pytest.raises(AssertionError, match=f"of a server with --time-unit ms, and this one has {shown}: expected"):
            Command(*others, *checkpoint, log=log)
    with Command(*options, "--time-unit", "ms", *checkpoint, log=log) as served:
        assert served.answers("a+") == {("x", "y")}


def test_a_server_without_queries_finds_paths_over_edges_with_the_properties_that_it_stores(tmp_path):
    options = ["--keep", "unbounded", "--checkpoint", tmp_path / "state"]
    row = {"source": "x", "target": "y", "label": "pays", "timestamp": 1, "amount": 7}
    asked = {"source": "x", "target": "y", "expression": "pays[amount > 5]"}
    with Command(*options, "--edge-properties", "amount, rate", log=tmp_path / "log") as served:
        assert served.client.post("/tuples", json=[row]).status_code == 200
        assert served.client.get("/check", params=asked).json()["path"][0]["label"] == "pays"
        assert served.end() == 0
    with Command(*options, log=tmp_path / "log") as served:
        assert served.client.get("/check", params=asked).json()["path"][0]["label"] == "pays"
        assert served.client.get("/check", params={**asked, "expression": "pays[amount > 7]"}).json()["path"] is None
        assert served.end() == 0
    with pytest.raises(AssertionError, match="--edge-properties rate: the checkpoint stores amount,rate: expected the same"):
        Command(*options, "--edge-properties", "rate", log=tmp_path / "log")


@pytest.mark.long
def test_a_window_that_the_checkpoint_does_not_store_is_named(tmp_path):
    options = ["a+", "--window", "1h", "--slide", "1m", "--time-unit", "s", "--checkpoint", tmp_path / "state"]
    with Command(*options, "--keep", "2h", log=tmp_path / "log") as served:
        assert served.post(("x", "y", "a", 1)).status_code == 200 and served.end() == 0
    for number, (keep, warning) in enumerate((
        (["--keep", "120m"], None),
        (["--keep", "3h"], "--keep 3h has no effect"),
        ([], "there is no --keep"),
    )):
        log = tmp_path / f"log{number}"
        with Command(*options, *keep, log=log) as served:
            assert served.end() == 0
        whole = f"warning: {warning}: the checkpoint, with which the server continues, stores the edges of 2h\n"
        assert whole in log.read_text() if warning else "keep" not in log.read_text()
