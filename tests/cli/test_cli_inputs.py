"""`rpq run` on inputs of all kinds: --columns, --label, --where, JSON lines, pipes, and what is told about them."""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import click
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rpq import ExpressionError, Query, QueryError, Window
from rpq.serve.command import serve
from rpq.spark.cli import spark
from tests.twins import left_to_ci

ROOT = Path(__file__).parents[2]
CSV = """user,item,ts,amount
ann,bob,2024-05-01T12:00:00Z,5
bob,cho,2024-05-01T12:00:10Z,1500
cho,dan,2024-05-01T14:00:20+02:00,2000
cho,eve,2024-05-01T12:00:30Z,n/a
"""
NAMES = ["--columns", "source=user,target=item,timestamp=ts", "--label", "follows"]
WINDOW = ["--window", "1h", "--slide", "1m"]
FAR_AHEAD = "node,timestamp\ny,1\nz,900\n"


@pytest.fixture
def run(rpq):
    """Call `rpq run`; return (exit status, lines of standard output, standard error)."""

    def call(*args: object) -> tuple[int, list[str], str]:
        status, out, err = rpq("run", *args)
        return status, out.splitlines()[1:], err

    return call


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "stream.csv.xz"
    path.write_bytes(lzma.compress(CSV.encode()))
    return path


def test_records_of_nodes_come_from_files_and_from_rules(run, tmp_path):
    edges, nodes, more = tmp_path / "edges.csv", tmp_path / "accounts.csv", tmp_path / "more.jsonl"
    edges.write_text("source,target,label,timestamp\nx,y,paid,1\ny,z,paid,2\nz,x,paid,6\n")
    nodes.write_text("account,kind,risk\ny,Account;New,4\nz,Account,1\n")
    more.write_text('{"node":"z","risk":5,"timestamp":4}\n{"node":"y","op":"-","timestamp":4}\n{"node":"?","op":"-"}\n')
    call = ["paid/@[:Account and risk > 3]", *["--window", "10", "--slide", "1", "--output", "-"]]
    names = ["--node-columns", "node=account,labels=kind"]
    status, rows, err = run(*call, "--input", edges, "--nodes", nodes, *names)
    assert (status, rows) == (0, ["x,y,1,+"]) and "nodes     2 records\n" in err
    nodes.write_text("node,labels,risk\ny,Account;New,4\nz,Account,1\n")
    status, rows, err = run(*call, "--input", edges, "--nodes", nodes, more)
    assert (status, rows) == (0, ["x,y,1,+", "y,z,4,+", "x,y,4,-"]) and "nodes     5 records: 1 absent\n" in err
    rules, events = tmp_path / "rules.toml", tmp_path / "events.jsonl"
    rules.write_text(
        "timestamp='t'\n[[edge]]\nlabel='paid'\nsource='from'\ntarget='to'\n"
        "[[node]]\nnode='account'\nlabels='Account'\nproperties={risk='risk'}\n"
    )
    events.write_text(
        '{"t":1,"from":"x","to":"y"}\n{"t":2,"account":"y","risk":4}\n{"t":3,"account":"z","risk":9}\n'
        '{"t":3,"from":"y","to":"z"}\n{"t":4,"account":"y","risk":null}\n'
    )
    status, rows, err = run(*call, "--input", events, "--edges-from", rules)
    assert (status, rows) == (0, ["x,y,2,+", "y,z,3,+", "x,y,4,-"]), err


@pytest.mark.parametrize(
    ("text", "options", "status", "message"),
    [
        ("node,op\ny,?\n", [], 1, "nodes.csv:2: column 'op': '?' is not an operation of a node"),
        ("node,risk\n,1\n", ["--on-error", "skip"], 0, "nodes.csv:2: column 'node': is missing"),
        (FAR_AHEAD, ["--max-ahead", "5"], 1, "at the record of time 900: node 'z': "),
        (FAR_AHEAD, ["--max-ahead", "5", "--on-error", "skip"], 0, "at the record of time 900: node 'z': "),
        ("risk\n1\n", [], 1, "nodes.csv:1: column 'node': is missing; found risk; give --node-columns node=NAME"),
        ("node\ny\n", ["--node-columns", "labels=kind"], 1, "column 'kind': is missing; found node"),
        ("node\ny\n", ["--node-columns", "risk=r"], 2, "--node-columns: 'risk' is not one of node"),
        ("node\ny\n", ["--events", "window"], 2, "--nodes: records of nodes are no part of an event"),
        ("node\ny\n", ["--nodes", "none.csv"], 2, "--nodes none.csv: there is no such file"),
    ],
)
def test_bad_records_of_nodes_are_told(run, tmp_path, text, options, status, message):
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("source,target,label,timestamp\nx,y,a,1\n")
    nodes.write_text(text)
    ended, _, err = run("a", "--input", edges, "--nodes", nodes, "--window", "10", "--slide", "1", *options)
    assert (ended, message in err) == (status, True), err
    assert ("rejected  1 lines" in err) == (not status)


def test_typed_records_of_nodes_have_one_type(run, tmp_path):
    edges, nodes = tmp_path / "edges.csv", [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    edges.write_text("source,target,label,timestamp\nx,y,a,1\n")
    for path, values in zip(nodes, ([1, 2], [None, "much"]), strict=True):
        pq.write_table(pa.table({"node": ["x", "y"], "risk": values}), path)
    status, _, err = run("a", "--input", edges, "--nodes", *nodes, "--window", "10", "--slide", "1")
    assert status == 1 and "b.parquet: node 'y': column 'risk': 'much' is a string" in err


def test_a_stream_with_names_times_and_a_condition_of_its_own(run, stream, tmp_path):
    stats = tmp_path / "stats.json"
    status, rows, err = run(
        "follows+",
        "--input",
        stream,
        *NAMES,
        *WINDOW,
        "--time-unit",
        "s",
        "--where",
        "amount > 1000",
        "--output",
        "-",
        "--stats",
        stats,
    )
    assert status == 0
    assert rows == ["bob,cho,1714564810,+", "cho,dan,1714564820,+", "bob,dan,1714564820,+"]
    assert "filtered  2 tuples, 1 of them because a value is missing or no number" in err
    figures = json.loads(stats.read_text())
    assert (figures["tuples"], figures["filtered"], figures["undecided"]) == (2, 2, 1)
    assert figures["time_unit"] == "s"
    assert figures["labels_never_seen"] == []


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--where", "amuont > 3"], 2, "--where: column 1: unknown column 'amuont'; did you mean 'amount'"),
        (["--where", "amount >"], 2, "  amount >\n          ^"),
        (["--where", "user > 3"], 2, "text is compared with a number"),
        (["--columns", "sorce=user"], 2, "--columns: 'sorce' is not a column of a tuple"),
        (["--format", "gmark"], 2, "the format gmark has fixed columns"),
    ],
)
def test_what_is_wrong_with_the_options(run, stream, options, status, message):
    found, _, err = run("follows", "--input", stream, *NAMES, *options, *WINDOW)
    assert found == status
    assert re.search(re.escape(message) if "\n" in message else message, err.replace("\r", ""))


def test_a_name_that_no_column_has(run, stream):
    status, _, err = run("follows", "--input", stream, "--columns", "source=usr", "--label", "x", *WINDOW)
    message = (
        "stream.csv.xz:1: the columns usr, target and timestamp are missing; expected usr, .* found user, item, ts, "
        "amount; give --columns source=user,target=item,timestamp=ts"
    )
    assert status == 1 and re.search(message, err.replace("\r", ""))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://b/k.csv", "URLs of s3:// are not read; copy it to a file, or pipe it in: aws s3 cp s3://b/k.csv - | rpq run"),
        ("https://x.org/k.parquet", "URLs of https:// are not read; copy it to a file, or pipe it in: curl -sS https://x.org"),
        ("mqtt://h/t", "URLs of mqtt:// are not read; copy it to a file, or pipe it in: mosquitto_sub -L mqtt://h/t | rpq"),
        ("ftp://h/k.nt", "URLs of ftp:// are not read; expected the path of a file, - for standard input, or kafka://"),
        ("file:///k.jsonl", "URLs of file:// are not read; give the path alone, /k.jsonl"),
    ],
)
@pytest.mark.parametrize("option", ["--input", "--static"])
def test_schemes_that_are_not_read_are_refused_as_such(run, stream, option, path, message):
    inputs = ["--input", stream, *NAMES] if option == "--static" else []
    status, _, err = run("follows", *inputs, option, path, *WINDOW, "--output", "-")
    assert status == (2 if option == "--static" else 1) and f"{path}: {message}" in err
    assert "no such file" not in err.lower()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a)-[e:follows]->(b)", "unexpected '('; expected MATCH, OPTIONAL, RETURN, UNWIND, WITH"),
        ("MATHC (a)-[e:follows]->(b) RETURN a", "unexpected 'MATHC'; did you mean 'MATCH'?"),
        ("SELCT ?x { ?x <follows> ?y }", "'^'; did you mean SELECT?"),
        ("SELECTT * { ?x <follows> ?y }", "'^'; did you mean SELECT?"),
        (
            "p1 spawned+/connected host",
            "or the end; for paths from or to a vertex, write a pattern with a variable, p1 spawned+/connected ?y or ?x "
            "spawned+/connected host, or the path alone with --source p1",
        ),
    ],
)
def test_texts_that_were_meant_otherwise_get_a_hint(run, stream, tmp_path, text, message):
    status, _, err = run(text, "--input", stream, *NAMES, *WINDOW, "--output", "-")
    assert status == 2 and message in err
    with pytest.raises((ExpressionError, QueryError), match=re.escape(message)):
        Query(text, window=Window(size=1, slide=1))


def test_a_missing_label_names_the_option(run, tmp_path):
    (tmp_path / "in.csv").write_text("source,target,timestamp\nx,y,1\n")
    status, _, err = run("a", "--input", tmp_path / "in.csv", "--window", "10", "--slide", "1", "--output", "-")
    assert status == 1 and "column 'label': is missing" in err and "give --label LABEL" in err


JSON = """{"source": 1, "target": 2, "label": "x", "timestamp": 5}
{"source": 2, "target": "3", "label": "x", "timestamp": 6}
{"source": 2, "target": 4, "label": "x", "timestamp": 7}
"""


@pytest.mark.parametrize("name", ["stream.jsonl", "stream.txt", *left_to_ci("-")])
def test_json_lines_with_integers(run, tmp_path, name):
    path = tmp_path / name
    if name != "-":
        path.write_text(JSON)
    options = ["--input", "-", "--format", "jsonl"] if name == "-" else ["--input", str(path)]
    command = ["x+", *options, "--window", "9", "--slide", "1", "--source", "1", "--output", "-"]

    def called(*more: str) -> tuple[int, list[str], str]:
        if name != "-":
            return run(*command, *more)
        words = [sys.executable, "-m", "rpq.cli", "run", *command, *more]
        done = subprocess.run(words, input=JSON, text=True, capture_output=True, cwd=ROOT, check=False)
        return done.returncode, done.stdout.split()[1:], done.stderr

    status, rows, err = called("--on-error", "skip")
    assert status == 0 and rows == ["1,2,5,+", "1,4,7,+"]
    assert ":2: column 'target': \"3\" is not an integer" in err
    status, rows, _ = called()
    assert status == 1
    assert rows == ["1,2,5,+"]


def test_a_label_that_no_tuple_has_is_told_at_the_end(run, tmp_path):
    path, stats = tmp_path / "edges", tmp_path / "stats.json"
    path.write_text("".join(f"a b {label} {time}\n" for time, label in enumerate(["a2q", "c2a", "c2q"])))
    options = ["--input", path, "--window", 9, "--slide", 1, "--stats", stats]
    status, _, err = run("a2qq/(c2a|!(zzz))", *options)
    assert status == 0
    assert "warning: no tuple has the label 'a2qq'; did you mean 'a2q'?\n" in err
    assert "warning: no tuple has the label 'zzz'\n" in err
    assert json.loads(stats.read_text())["labels_never_seen"] == ["a2qq", "zzz"]
    assert "warning" not in run("a2q/^c2a", *options)[2]
    assert "warning" not in run("a2qq", *options, "--quiet")[2]
    # What a condition leaves out is not there.
    assert "no tuple has the label 'a2q'" in run("a2q/c2a", *options, "--where", "label != 'a2q'")[2]
    assert "did you mean 'a2q'" not in run("a2qq/c2a", *options, "--where", "label != 'a2q'")[2]


def test_a_checkpoint_is_that_of_the_same_columns_and_condition(run, stream, tmp_path):
    options = ["follows", "--input", stream, *WINDOW, "--checkpoint", tmp_path / "state", "--output", tmp_path / "rows.csv"]
    where = ["--where", "amount > 1000"]
    assert run(*options, *NAMES, *where, "--limit", 1)[0] == 0
    for others, message in (
        ([*NAMES], "--where was amount > 1000, now not given"),
        ([*NAMES[:3], "likes", *where], "--label was follows, now likes"),
        (["--columns", "source=item,target=user,timestamp=ts", *NAMES[2:], *where], "--columns was"),
    ):
        status, _, err = run(*options, *others)
        assert status == 2
        assert message in err
    assert run(*options, *NAMES, *where)[0] == 0
    written = (tmp_path / "rows.csv").read_text().splitlines()[1:]
    assert [line.split(",")[:2] for line in written] == [["bob", "cho"], ["cho", "dan"]]


@pytest.mark.parametrize("way", ["file", "skip", "pipe"])
def test_all_missing_columns_are_named_before_windows_are_looked_at(run, tmp_path, way):
    path, line = tmp_path / "events.jsonl", json.dumps({"when": 1, "actor": {"id": "a", "parent": {"id": "b"}}}) + "\n"
    if way == "pipe":
        os.mkfifo(path)
        threading.Thread(target=path.write_text, args=(line,), daemon=True).start()
    else:
        path.write_text(line * 3)
    options = ["--on-error", "skip"] if way == "skip" else []
    status, _, err = run("a+", "--input", path, "--window", "1h", "--slide", "10m", *options)
    assert status == 1
    assert "the columns source, target, label and timestamp are missing" in err
    assert "give --columns source=actor.parent.id,target=actor.id,timestamp=when --label LABEL" in err
    assert "unit" not in err


def test_a_window_with_a_unit_is_refused_where_the_columns_are_there(run, tmp_path):
    path = tmp_path / "edges.jsonl"
    path.write_text(json.dumps({"source": "x", "target": "y", "label": "a", "timestamp": 1}) + "\n")
    status, _, err = run("a+", "--input", path, "--window", "1h", "--slide", "10m")
    assert (status, "--time-unit" in err) == (2, True)


RULES = """
timestamp = "ts"
[[edge]]
label = "spawned"
source = "parent.id"
target = "id"
[[edge]]
label = "reached"
source = "id"
target = "to.ip"
[edge.properties]
port = "to.port"
"""
EVENTS = [
    {"ts": "2024-05-01T12:00:00Z", "id": 2, "parent": {"id": 1}},
    {"ts": "2024-05-01T12:00:01Z", "id": 3, "parent": {"id": 2}, "to": {"ip": "10.0.0.1", "port": 443}},
    {"ts": "2024-05-01T12:00:02Z", "id": 3, "to": {"ip": "10.0.0.2", "port": 22}},
]


@pytest.fixture
def events(tmp_path):
    (tmp_path / "edges.toml").write_text(RULES)
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in EVENTS))
    return ["--input", path, "--edges-from", tmp_path / "edges.toml", *WINDOW]


def test_several_edges_of_one_record(run, events):
    status, rows, err = run("spawned+/reached[port = 22]", *events, "--output", "-")
    assert status == 0, err
    assert sorted(row.split(",")[:2] for row in rows) == [["1", "10.0.0.2"], ["2", "10.0.0.2"]]
    assert "tuples    4:" in err


def test_a_checkpoint_is_of_the_rules_that_made_its_edges(run, events, tmp_path):
    options = [*events, "--checkpoint", tmp_path / "run.state", "--output", tmp_path / "rows.csv"]
    assert run("spawned+", *options)[0] == 0
    assert run("spawned+", *options)[0] == 0
    (tmp_path / "edges.toml").write_text(RULES.replace("to.port", "to.other"))
    status, _, err = run("spawned+", *options)
    assert status == 2
    assert "is the checkpoint of another run: --edges-from was " in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "source=x"], "--columns: --edges-from names the columns and labels of edges"),
        (["--label", "x"], "--label: --edges-from names the columns"),
        (["--format", "yago"], "the format yago has fixed edges; rules make edges of records in edges and jsonl"),
    ],
)
def test_what_does_not_go_with_rules_is_refused(run, events, options, message):
    status, _, err = run("spawned+", *events, *options)
    assert (status, message in err) == (2, True), err


def test_rules_that_cannot_be_read_are_refused(run, events, tmp_path):
    (tmp_path / "edges.toml").write_text(RULES.replace("source", "sorce"))
    status, _, err = run("spawned+", *events)
    assert status == 2
    assert f"--edges-from {tmp_path}/edges.toml: edge 1 ('spawned'), key 'sorce': is not a key of an edge" in err
    (tmp_path / "edges.toml").unlink()
    assert "edges.toml: cannot be read: No such file" in run("spawned+", *events)[2]


def test_each_error_of_a_first_try_names_the_next_option(run, tmp_path):
    (tmp_path / "tx.csv").write_text("booked_at,sender,receiver,amount\n31.05.2024 10:00:00,a,b,9.50\n")
    options = ["?x (paid{2} in order) ?y", "--input", tmp_path / "tx.csv"]
    columns = "source=sender,target=receiver,timestamp=booked_at"
    for message, more in [
        (f"give --columns {columns} --label LABEL", []),
        ("--time-format '%d.%m.%Y %H:%M:%S'", ["--columns", columns, "--label", "paid"]),
        ("Missing option '--window': how long an edge counts, such as --window 1h", ["--time-format", "%d.%m.%Y %H:%M:%S"]),
        ("Missing option '--slide': the steps in which the window moves, such as --slide 1m", ["--window", "1h"]),
        ("use --edges parallel, where each insert is an edge, or --edges id", ["--slide", "1m"]),
    ]:
        options += more
        status, _, err = run(*options, "--output", "-")
        assert status in (1, 2) and message in err
    assert run(*options, "--output", "-", "--edges", "parallel")[0] == 0


def test_a_window_without_a_unit_over_times_with_one_is_noticed(run, tmp_path):
    (tmp_path / "times.csv").write_text("source,target,label,timestamp\na,b,x,2024-05-01\n")
    (tmp_path / "numbers.csv").write_text("source,target,label,timestamp\na,b,x,5\n")
    message = "--window 7 is 7 us, the unit of the times of this input; a duration has a unit, such as 7d or 1h"
    for name, window, slide, more, is_noticed in [
        ("times.csv", 7, 1, [], True),
        ("times.csv", "7d", "1d", [], False),
        ("times.csv", 7, 1, ["--time-unit", "us"], False),
        ("times.csv", 1_000_000, 100_000, [], False),
        ("numbers.csv", 7, 1, [], False),
    ]:
        options = ["--window", window, "--slide", slide, *more]
        status, _, err = run("x", "--input", tmp_path / name, *options, "--output", "-")
        assert status == 0 and (message in err) == is_noticed


def test_assignments_of_a_repeated_option_add_up(run, stream, tmp_path):
    options = ["--input", stream, "--label", "follows", *WINDOW]
    parts = ["--columns", "source=user", "--columns", "target=item,timestamp=ts"]
    outputs = [tmp_path / "one.csv", tmp_path / "parts.csv"]
    for output, columns in zip(outputs, (NAMES[:2], parts), strict=True):
        assert run(*columns, "follows", *options, "--output", output)[0] == 0
    assert outputs[0].read_text() == outputs[1].read_text() != ""
    status, _, err = run(*parts, "--columns", "source=item", "follows", *options, "--output", tmp_path / "no.csv")
    assert (status, "mapped twice: to 'user' and to 'item'" in err) == (2, True)


@pytest.mark.parametrize("command", [serve, *spark.commands.values()], ids=lambda command: command.name)
def test_options_of_assignments_can_be_repeated_in_other_commands(command):
    options = [option for option in command.params if "=" in (getattr(option, "metavar", None) or "")]
    for option in options:
        found = option.process_value(click.Context(command), ("a=1", "b=2"))
        assert found in ("a=1,b=2", ("a=1", "b=2"), {"a": 1, "b": 2})
