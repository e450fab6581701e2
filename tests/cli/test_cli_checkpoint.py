"""Going on after a crash: a run that is killed anywhere and started again gives the rows of one that was not.

semantics.md S7
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import signal
import stat
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpq.cli import main
from rpq.cli.checkpoint import differences, identity_of
from rpq.cli.request import RunSettings, read_request
from rpq.run import loop
from rpq.run.checkpoint import Checkpoint, CheckpointLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")

KILLED = 77


def make_stream(path: Path, count: int, seed: int) -> None:
    """Edges out of order, some late, some deleted, over many slides."""
    chance = random.Random(seed)
    with open(path, "w") as file:
        for number in range(count):
            time = number // 4 + chance.choice([0, 0, 0, -3, -25])
            op = chance.choice("++++-")
            print(chance.randrange(9), chance.randrange(9), chance.choice("ab"), time, op, file=file)


def command(folder: Path, name: str, *options: object) -> list[str]:
    files = {"--output": folder / name, "--late": folder / "late.csv", "--stats": folder / "stats.json"}
    args = [
        "run",
        "a/b*",
        "--input",
        folder / "edges.txt",
        "--window",
        20,
        "--slide",
        3,
        "--semantics",
        "explicit",
        "--quiet",
    ]
    return [str(arg) for arg in [*args, *(part for pair in files.items() for part in pair), *options]]


def call(args: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(args, prog_name="rpq")
    return ended.value.code or 0


def call_and_die(args: list[str], at_event: int) -> bool:
    """Run the command in a fork that dies, as by SIGKILL, at the n-th of the moments that matter; tell if it did."""
    child = os.fork()
    if not child:
        try:
            count_events(at_event)
            main(args, prog_name="rpq")
        except SystemExit as ended:
            os._exit(ended.code or 0)
        finally:
            os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), status
    return status == KILLED


def count_events(last: int) -> None:
    """Die before the n-th push, write, commit, rename or removal of a file."""
    seen = 0

    def counted(function):
        def wrapper(*args, **kwargs):
            nonlocal seen
            seen += 1
            if seen == last:
                os._exit(KILLED)
            return function(*args, **kwargs)

        return wrapper

    import http.client

    import rpq
    from rpq.cli.outputs import sinks

    for owner, names in (
        (rpq.Engine, ["push", "save"]),
        (sinks.TextSink, ["write", "position", "close", "_end_frame", "_hand_over"]),
        (sinks.ResumableParquet, ["write", "position", "close"]),
        (sinks, ["_write_frame"]),
        (http.client.HTTPConnection, ["request", "getresponse"]),
        (os, ["replace", "remove", "fsync", "fdatasync"]),
    ):
        for name in names:
            setattr(owner, name, counted(getattr(owner, name)))


def unpacked(path: Path) -> str:
    """The text of a file, compressed in any number of parts or not."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".zst":
        data = pa.CompressedInputStream(io.BytesIO(data), "zstd").read()
    return data.decode()


def read_rows(path: Path) -> list[tuple]:
    """The rows in their order, those of one time sorted."""
    if path.suffix == ".parquet":
        found = [tuple(map(str, row)) for row in zip(*pq.read_table(path).to_pydict().values())]
    elif ".jsonl" in path.name:
        found = [tuple(map(str, json.loads(line).values())) for line in unpacked(path).splitlines()]
    else:
        found = [tuple(row.values()) for row in csv.DictReader(io.StringIO(unpacked(path), newline=""))]
    times = [int(row[2]) for row in found]
    assert times == sorted(times)
    return sorted(found, key=lambda row: (int(row[2]), row))


def figures(folder: Path) -> dict:
    counted = (
        "tuples inserted refreshed deleted absent_deletes late rejected rows_added rows_removed answers_live edges_live"
    )
    stats = json.loads((folder / "stats.json").read_text())
    return {name: stats[name] for name in counted.split()}


@pytest.fixture
def small_steps(monkeypatch):
    """Checkpoints as often as they may be, slices of a few tuples."""
    monkeypatch.setattr(loop, "CHECKPOINT_SHARE", 1.0)
    monkeypatch.setattr(loop, "FIRST_SLICE", 16)
    monkeypatch.setattr(loop.Run, "slice_seconds", 0.0)
    monkeypatch.setattr(loop, "LEAST_SLICE", 16)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rows.csv.zst", ()),
        ("rows.jsonl", ("--witness",)),
        ("rows.parquet", ()),
    ],
)
def test_rows_are_neither_lost_nor_doubled_wherever_a_run_is_killed(tmp_path, capfd, small_steps, name, options):
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
        make_stream(tmp_path / folder / "edges.txt", 200, seed=3)
    assert call(command(tmp_path / "whole", name, *options)) == 0
    wanted = read_rows(tmp_path / "whole" / name)
    assert len(wanted) > 100

    killed = tmp_path / "killed"
    args = command(killed, name, "--checkpoint", killed / "state", *options)
    chance = random.Random(name)
    deaths, left = 0, 0
    while call_and_die(args, at_event=chance.randint(3, 40)):
        deaths += 1
        if (killed / "state").exists():
            left += 1
    assert deaths >= 3 and left >= 2
    ends = 2 if options == ("--witness",) else None  # any valid path will do
    compared = [row[:4] for row in wanted] if ends else wanted
    found = read_rows(killed / name)
    assert ([row[:4] for row in found] if ends else found) == compared
    assert figures(killed) == figures(tmp_path / "whole")
    assert (killed / "late.csv").read_text() == (tmp_path / "whole" / "late.csv").read_text()
    left_over = {path.name for path in killed.iterdir() if path.suffix != ".tmp"}  # a kill may leave a hidden one
    assert left_over == {"edges.txt", "late.csv", name, "state", "state.lock", "stats.json"}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("rows.parquet", 4),
        pytest.param("rows.parquet", 1, marks=pytest.mark.long),
        pytest.param("rows.csv.gz", 1, marks=pytest.mark.long),
    ],
)
def test_every_single_moment_to_die_at(tmp_path, capfd, small_steps, name, step):
    make_stream(tmp_path / "edges.txt", 30, seed=12)
    assert call(command(tmp_path, f"whole-{name}")) == 0
    wanted = read_rows(tmp_path / f"whole-{name}")
    args = command(tmp_path, name, "--checkpoint", tmp_path / "state")
    event, died = 0, True
    while died:
        event += step
        for left in (name, f"{name}.rows", "state"):
            (tmp_path / left).unlink(missing_ok=True)
        died = call_and_die(args, at_event=event)
        assert call(args) == 0
        assert read_rows(tmp_path / name) == wanted, event
    assert event > 20


def test_a_checkpoint_is_for_one_run_at_a_time(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 50, seed=3)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call([*args, "--limit", "20"]) == 0
    before = (tmp_path / "rows.csv").read_bytes()
    lock = CheckpointLock(str(tmp_path / "state"))
    assert call(args) == 1
    assert "another run uses this checkpoint" in capfd.readouterr().err
    assert (tmp_path / "rows.csv").read_bytes() == before
    lock.release()
    assert call(args) == 0
    assert (tmp_path / "rows.csv").read_bytes() != before


def test_a_run_without_its_lock_file_does_not_overwrite_the_checkpoint(tmp_path, capfd, monkeypatch):
    make_stream(tmp_path / "edges.txt", 50, seed=3)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call([*args, "--limit", "20"]) == 0
    before = (tmp_path / "state").read_bytes()
    restore = Checkpoint.read

    def read(checkpoint: Checkpoint) -> object:
        (tmp_path / "state.lock").unlink()
        return restore(checkpoint)

    monkeypatch.setattr(Checkpoint, "read", read)
    assert call(args) == 1
    assert "state.lock: was removed or replaced" in capfd.readouterr().err
    assert (tmp_path / "state").read_bytes() == before


def test_a_checkpoint_is_for_its_owner_alone_and_outputs_follow_the_umask(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 100, seed=3)
    before = os.umask(0o022)
    try:
        assert call(command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")) == 0
    finally:
        os.umask(before)
    expected = {"state": 0o600, "state.lock": 0o600, "rows.csv": 0o644, "stats.json": 0o644}
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in expected} == expected


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl.gz", "rows.parquet"])
def test_a_finished_run_goes_on_when_there_is_more_input(tmp_path, capfd, name):
    make_stream(tmp_path / "edges.txt", 200, seed=4)
    assert call(command(tmp_path, f"whole-{name}")) == 0
    args = command(tmp_path, name, "--checkpoint", tmp_path / "state")
    for limit in (150, 150, 151):
        assert call([*args, "--limit", str(limit)]) == 0
        assert figures(tmp_path)["tuples"] == limit
    assert call(args) == 0
    assert call(args) == 0
    assert read_rows(tmp_path / name) == read_rows(tmp_path / f"whole-{name}")
    assert json.loads((tmp_path / "stats.json").read_text())["resumed"] is True


@pytest.mark.parametrize("has_times", [True, False])
def test_a_run_goes_on_with_the_facts_of_nodes(tmp_path, capfd, has_times):
    make_stream(tmp_path / "edges.txt", 200, seed=4)
    chance = random.Random(5)
    lines = [f"{chance.randrange(9)},{chance.randrange(9)},{number // 3}\n" for number in range(150)]
    header = "node,risk,timestamp\n" if has_times else "node,risk,moment\n"
    (tmp_path / "nodes.csv").write_text(header + "".join(lines))
    nodes = ["--nodes", tmp_path / "nodes.csv"]
    checkpoint = ["--checkpoint", tmp_path / "state"]
    for name, options, limits in (("whole.csv", [], [200]), ("rows.csv", checkpoint, [70, 130, 200])):
        args = command(tmp_path, name, *nodes, *options)
        args[1] = "a/@[risk > 3]/(b/@[risk is not null])*"
        for limit in limits:
            assert call([*args, "--limit", str(limit)]) == 0
            assert figures(tmp_path)["tuples"] == limit
    assert json.loads((tmp_path / "stats.json").read_text())["node_records"] >= 148
    assert read_rows(tmp_path / "rows.csv") == read_rows(tmp_path / "whole.csv")
    (tmp_path / "nodes.csv").write_text(header + "".join(lines[1:]))
    assert call([*args, "--limit", "200"]) == 2 and "--nodes was" in capfd.readouterr().err


def test_an_input_error_can_be_mended_and_gone_on_from(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 100, seed=6)
    assert call(command(tmp_path, "whole.csv")) == 0
    lines = (tmp_path / "edges.txt").read_text().splitlines(keepends=True)
    (tmp_path / "edges.txt").write_text("".join([*lines[:60], "what is this\n", *lines[60:]]))
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call(args) == 1
    (tmp_path / "edges.txt").write_text("".join(lines))
    assert call(args) == 0
    assert read_rows(tmp_path / "rows.csv") == read_rows(tmp_path / "whole.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda args: [*args, "--window", "21"], "--window was 20, now 21"),
        (lambda args: [*args, "--source", "1", "2"], "--source was not given, now 1 2"),
        (lambda args: [*args, "--output", args[args.index("--output") + 1] + ".other.csv"], "--output was"),
        (lambda args: [*args, "--limit", "50"], "--limit is smaller"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, capfd, change, message):
    make_stream(tmp_path / "edges.txt", 100, seed=7)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    before = (tmp_path / "rows.csv").read_bytes()
    capfd.readouterr()
    assert call(change(args)) == 2
    assert message in capfd.readouterr().err
    assert (tmp_path / "rows.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "first", "second", "message"),
    [
        ("MATCH (x:Y)-[:a]->(z) RETURN x, z", [], ["--node-label", "b"], "--node-label was not given, now b"),
        (
            "MATCH (x)-[:a]->(z) WHERE x.risk > $least RETURN x, z",
            ["--param", "least=1"],
            ["--param", "least=two"],
            '--param least was 1, now "two"',
        ),
        ("REGISTER RSTREAM <r> AS ASK { ?x <a> ?y }", [], ["--report-empty"], "--report-empty was not given, now True"),
    ],
)
def test_a_text_that_is_read_or_reported_in_another_way_is_another_run(tmp_path, capfd, text, first, second, message):
    make_stream(tmp_path / "edges.txt", 20, seed=7)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    args[1] = text
    assert call([*args, *first]) == 0
    capfd.readouterr()
    assert call([*args, *second]) == 2
    assert message in capfd.readouterr().err


PATTERN, MATCH = "?x a ?y", "MATCH (x)-[:a]->(y) RETURN x, y"
OF_IDENTITY = [
    ("a", {"paths": "simple"}),
    ("a", {"simple_budget": 7}),
    ("a", {"on_budget": "set_aside"}),
    ("a", {"semantics": "explicit"}),
    ("a", {"sources": ("x",)}),
    ("a", {"targets": ("x",)}),
    ("a", {"witness": True}),
    ("a", {"drop_self_loops": True}),
    ("a", {"late": "late.csv"}),
    ("a", {"on_error": "skip"}),
    ("a", {"format": "jsonl"}),
    ("a", {"edges": "parallel"}),
    ("a", {"order": "increasing"}),
    (PATTERN, {"matching": "isomorphism"}),
    (PATTERN, {"filter": "?x <> ?y"}),
    (MATCH, {"language": "cypher"}),
    ("SELECT ?x { ?x <a> ?y }", {"report": "slide"}),
]


@pytest.mark.parametrize(("text", "option"), OF_IDENTITY, ids=[next(iter(option)) for _, option in OF_IDENTITY])
def test_an_option_that_changes_the_rows_makes_another_run(text, option):
    def identity(**options) -> dict:
        usual = {"expression": text, "window": "10", "slide": "1", "inputs": ("edges.txt",), "format": "edges"}
        request = read_request(RunSettings(**usual | options))
        return identity_of(request, request.queries(unit=None, integers=False))

    (name,) = option
    name = name.removesuffix("s") if name in ("sources", "targets") else name.replace("_", "-")
    assert any(one.startswith(f"--{name} was ") for one in differences(identity(), identity(**option)))


def test_another_input_is_refused(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 100, seed=8)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    make_stream(tmp_path / "edges.txt", 100, seed=9)
    assert call(args) == 2
    assert "it is another input" in capfd.readouterr().err


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 10, seed=8)
    (tmp_path / "state").write_text("something precious\n")
    assert call(command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")) == 1
    assert (tmp_path / "state").read_text() == "something precious\n"
    assert "state" in capfd.readouterr().err


def test_an_output_that_was_changed_is_refused(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 100, seed=10)
    args = command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    (tmp_path / "rows.csv").write_text("source,target,timestamp,op\n")
    assert call(args) == 1
    assert "it was changed" in capfd.readouterr().err


@pytest.mark.ci
def test_a_real_kill_in_the_middle_of_a_slow_stream(tmp_path, capfd):
    """One process, fed through a pipe and killed by the system; the next gets the stream from its beginning."""
    import subprocess
    import time

    name = "rows.csv.gz"
    make_stream(tmp_path / "edges.txt", 400, seed=11)
    assert call(command(tmp_path, f"whole-{name}")) == 0
    lines = (tmp_path / "edges.txt").read_bytes().splitlines(keepends=True)
    args = command(tmp_path, name, "--checkpoint", tmp_path / "state")
    args[args.index("--input") + 1] = "-"
    for fed, killed in ((150, True), (300, True), (400, False)):
        process = subprocess.Popen(
            [sys.executable, "-m", "rpq.cli", *args], stdin=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        before = (tmp_path / "state").stat().st_mtime_ns if (tmp_path / "state").exists() else 0
        process.stdin.write(b"".join(lines[:fed]))
        process.stdin.flush()
        if not killed:
            process.stdin.close()
            assert process.wait(60) == 0
            break
        deadline = time.monotonic() + 60
        while not (tmp_path / "state").exists() or (tmp_path / "state").stat().st_mtime_ns == before:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
    assert read_rows(tmp_path / name) == read_rows(tmp_path / f"whole-{name}")


QUERIES = """
[[query]]
name = "one"
query = "a/b*"
[[query]]
name = "two"
query = "(a|b)+"
window = 7
output = "OUT/two.parquet"
[[query]]
name = "three"
query = "b/a"
slide = 1
output = "OUT/shared.csv"
[[query]]
name = "four"
query = "a/^b"
output = "OUT/shared.csv"
"""


def command_of_queries(folder: Path, *options: object) -> list[str]:
    (folder / "queries.toml").write_text(QUERIES.replace("OUT", str(folder)))
    return ["run", "--queries", str(folder / "queries.toml"), *command(folder, "rows.csv", *options)[2:]]


def read_all(folder: Path) -> list[list[tuple]]:
    """Return the rows of three outputs; the time is the third column behind that of the query."""
    found = []
    for name in ("rows.csv", "two.parquet", "shared.csv"):
        if name.endswith(".csv"):
            with open(folder / name, newline="") as file:
                rows = [tuple(row.values()) for row in csv.DictReader(file)]
        else:
            rows = [tuple(map(str, row)) for row in zip(*pq.read_table(folder / name).to_pydict().values())]
        assert [int(row[3]) for row in rows] == sorted(int(row[3]) for row in rows)
        found.append(sorted(rows, key=lambda row: (int(row[3]), row)))
    return found


@pytest.mark.long
def test_many_queries_at_every_single_moment_to_die_at(tmp_path, capfd, small_steps):
    make_stream(tmp_path / "edges.txt", 30, seed=12)
    assert call(command_of_queries(tmp_path)) == 0
    wanted = read_all(tmp_path)
    args = command_of_queries(tmp_path, "--checkpoint", tmp_path / "state")
    event, died = 0, True
    while died:
        event += 1
        for left in ("rows.csv", "shared.csv", "two.parquet", "two.parquet.rows", "state"):
            (tmp_path / left).unlink(missing_ok=True)
        died = call_and_die(args, at_event=event)
        assert call(args) == 0
        assert read_all(tmp_path) == wanted, event
    assert event > 20


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('query = "b/a"', 'query = "b/b"', "query 'three': query was 'b/a', now 'b/b'"),
        ('name = "four"', 'name = "for"', "query 'four' is gone; query 'for' is new"),
        ("two.parquet", "other.parquet", "query 'two': output was"),
        ('[[query]]\nname = "four"', '[[query]]\nquery = "c"\n[[query]]\nname = "four"', "query 'c' is new"),
    ],
)
def test_a_changed_file_of_queries_is_refused(tmp_path, capfd, old, new, message):
    make_stream(tmp_path / "edges.txt", 100, seed=7)
    args = command_of_queries(tmp_path, "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    before = read_all(tmp_path)
    path = tmp_path / "queries.toml"
    path.write_text(path.read_text().replace(old, new))
    capfd.readouterr()
    assert call(args) == 2
    assert message in capfd.readouterr().err
    assert read_all(tmp_path) == before


def test_a_file_of_queries_may_say_the_same_in_another_way(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 100, seed=7)
    args = command_of_queries(tmp_path, "--checkpoint", tmp_path / "state")
    assert call([*args, "--limit", "50"]) == 0
    path = tmp_path / "queries.toml"
    first, *others = path.read_text().strip().split("[[query]]")[1:]
    path.write_text("[defaults]\nwindow = 20\n" + "".join(f"[[query]]{part}\n" for part in [*others, first]))
    assert call([*args, "--window", "19"]) == 0  # every query has a window now
    found = read_all(tmp_path)
    (tmp_path / "state").unlink()
    assert call(args) == 0
    assert read_all(tmp_path) == found


def test_the_checkpoint_of_one_query_is_not_that_of_many(tmp_path, capfd):
    make_stream(tmp_path / "edges.txt", 20, seed=7)
    args = command_of_queries(tmp_path, "--checkpoint", tmp_path / "state")
    assert call(args) == 0
    assert call([*command(tmp_path, "rows.csv", "--checkpoint", tmp_path / "state")]) == 2
    assert "another run: --queries was given, now not given.  Remove" in capfd.readouterr().err
