"""Inputs of other packages: found by scheme, read in every form, resumed as their guarantee says, refused with a cause."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from rpq.run import loop
from tests.cli.test_cli_checkpoint import call_and_die, read_rows
from tests.services.installed_sources import BATCHES, POSITIONS, install, install_all
from tests.twins import left_to_ci

QUERY = ["a/b*", "--window", 20, "--slide", 3, "--semantics", "explicit"]
CUT = ["source", "target", "label", "timestamp", "op"]
RULES = """
timestamp = "at"
[[edge]]
label = "a"
source = "who"
target = "what"
when = "label = 'a'"
[[edge]]
label = "b"
source = "what"
target = "who"
"""


@pytest.fixture
def run(rpq, tmp_path, monkeypatch):
    """Call `rpq run` with the sources of `installed_sources`; whatever it does not print is in `tmp_path`."""
    install_all(tmp_path / "site", monkeypatch)
    POSITIONS.clear()
    return lambda *args: rpq("run", *args)


@pytest.fixture
def small_steps(monkeypatch):
    """Checkpoints as often as they may be, slices of a few tuples."""
    monkeypatch.setattr(loop, "CHECKPOINT_SHARE", 1.0)
    monkeypatch.setattr(loop, "FIRST_SLICE", 16)
    monkeypatch.setattr(loop.Run, "slice_seconds", 0.0)
    monkeypatch.setattr(loop, "LEAST_SLICE", 16)


def stream(count: int, seed: int) -> list[tuple]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        time = number // 4 + chance.choice([0, 0, 0, -3, -25])
        found.append((chance.randrange(1, 9), chance.randrange(1, 9), chance.choice("ab"), time, chance.choice("++++-")))
    return found


def parts(rows: list, seed: int) -> list[list]:
    """Cut rows into batches of many sizes."""
    chance, cut, found = random.Random(seed), 0, []
    while cut < len(rows):
        size = chance.choice([1, 2, 7, 30])
        found.append(rows[cut : cut + size])
        cut += size
    return found


def as_csv(rows: list[tuple], header: list[str] | None = None) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in [*([header] if header else []), *rows]).encode()


def as_json(rows: list[tuple], names: list[str]) -> bytes:
    return "".join(json.dumps(dict(zip(names, row, strict=False))) + "\n" for row in rows).encode()


def as_table(rows: list[tuple]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(dict(zip(CUT, map(list, zip(*rows, strict=True)), strict=True)))


def figures(path: Path) -> dict:
    stats = json.loads(path.read_text())
    return {name: stats[name] for name in ("tuples", "inserted", "late", "rejected", "filtered", "rows_added", "edges_live")}


FORMS = {
    "header": ("rewind", as_csv, ["--columns", "timestamp=at"]),
    "again": ("replay", as_csv, []),
    "json": ("rewind", lambda rows: as_json(rows, CUT), ["--format", "jsonl"]),
    "edges": ("rewind-edges", as_table, []),
    "bad": ("rewind", lambda rows: as_csv([row if row[0] != 3 else ("bad",) for row in rows]), ["--on-error", "skip"]),
    "rules": ("rewind", lambda rows: as_json(rows, ["who", "what", "label", "at"]), ["--edges-from"]),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")
@pytest.mark.parametrize("form", ["header", *left_to_ci("again", "json", "edges", "bad", "rules")])
def test_a_run_that_is_killed_and_resumed_has_the_rows_of_one_that_was_not(run, small_steps, tmp_path, form):
    scheme, write, options = FORMS[form]
    if options == ["--edges-from"]:
        (tmp_path / "rules.toml").write_text(RULES)
        options = ["--edges-from", tmp_path / "rules.toml"]
    rows = stream(120, seed=3)
    batches = [write(part) for part in parts(rows, seed=5)]
    if form == "header":
        batches[0] = as_csv(parts(rows, seed=5)[0], header=["source", "target", "label", "at", "op"])
    BATCHES["whole"] = BATCHES["killed"] = batches
    if isinstance(batches[0], bytes):
        (tmp_path / "file").write_bytes(b"".join(batches))
        whole = tmp_path / "file"
    else:
        whole = f"{scheme}://whole"
    args = [*QUERY, *options, "--quiet"]
    assert run(*args, "--input", whole, "--output", tmp_path / "whole.csv", "--stats", tmp_path / "whole.json")[0] == 0
    resumed = [*args, "--input", f"{scheme}://killed", "--output", tmp_path / "rows.csv", "--stats", tmp_path / "stats.json"]
    resumed = ["run", *map(str, [*resumed, "--checkpoint", tmp_path / "state"])]
    chance, deaths = random.Random(form), 0
    while call_and_die(resumed, at_event=chance.randint(20, 40)):
        deaths += 1
    assert deaths >= 1
    assert run(*resumed[1:])[0] == 0  # there is nothing more
    if scheme == "replay":
        assert POSITIONS[-1] is None
    else:
        assert POSITIONS[-1]["batch"] >= len(batches) - 1
    found, wanted = read_rows(tmp_path / "rows.csv"), read_rows(tmp_path / "whole.csv")
    assert len(wanted) > 20 and found == wanted
    assert figures(tmp_path / "stats.json") == figures(tmp_path / "whole.json")


def test_a_source_that_cannot_be_read_again_goes_on_with_what_comes(run, tmp_path):
    options = [*QUERY[:5], "--input", "live://one", "--output", tmp_path / "rows.csv", "--stats", tmp_path / "stats.json"]
    options += ["--checkpoint", tmp_path / "state"]
    BATCHES["one"] = [b"from,to,label,timestamp\nx,y,a,1\n", b"bad\ny,z,b,2\n", OSError("the broker is away")]
    columns = ["--columns", "source=from,target=to", "--on-error", "skip"]
    status, _, err = run(*options, *columns)
    assert status == 1 and "live://one: OSError: the broker is away" in err
    assert "live://one: cannot be read again." in err and "those since the checkpoint are lost (at most once)." in err
    BATCHES["one"] = [b"y,w,b,3\n", b"bad\n"]  # without a header
    status, _, err = run(*options, *columns)
    assert status == 0 and "Traceback" not in err
    rows = [line.split(",")[:3] for line in (tmp_path / "rows.csv").read_text().splitlines()[1:]]
    assert rows == [["x", "y", "1"], ["x", "z", "2"], ["x", "w", "3"]]
    assert figures(tmp_path / "stats.json")["tuples"] == 3 and figures(tmp_path / "stats.json")["rejected"] == 2
    assert "at most once" not in run(*options, *columns, "--quiet")[2]
    message = "cannot be read again, and a run over several inputs"
    assert message in run(*options, *columns, "--input", "rewind://one")[2]
    assert "cannot be read again, and a run over RDF" in run(*options, "--format", "rdf")[2]


def test_standard_input_begins_again_from_its_beginning(run, tmp_path):
    lines = b"".join(b"%d,%d,a,%d\n" % (number, number + 1, number) for number in range(9))
    for count in (4, 9):
        reading, writing = os.pipe()
        os.write(writing, b"".join(lines.splitlines(keepends=True)[:count]))
        os.close(writing)
        before = os.dup(0)
        os.dup2(reading, 0)
        try:
            files = ["--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state"]
            assert run("a", "--window", 9, "--slide", 1, "--input", "-", *files)[0] == 0
        finally:
            os.dup2(before, 0)
            for descriptor in (before, reading):
                os.close(descriptor)
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 10


def test_several_inputs_are_merged_by_their_times(run, tmp_path):
    threads = 2
    rows = sorted(stream(120, seed=8), key=lambda row: row[3])
    (tmp_path / "all").write_bytes(as_csv(rows))
    (tmp_path / "file").write_bytes(as_csv(rows[1::3]))
    BATCHES["one"] = [as_csv(part) for part in parts(rows[::3], seed=1)]
    BATCHES["two"] = [as_csv(part) for part in parts(rows[2::3], seed=2)]
    args = [*QUERY, "--quiet", "--threads", threads, "--output"]
    assert run(*args, tmp_path / "whole.csv", "--input", tmp_path / "all")[0] == 0
    inputs = ["--input", "rewind://one", tmp_path / "file", "replay://two", "--checkpoint", tmp_path / "state"]
    # In each limit the run is resumed, and the inputs are read again from their beginnings.
    for limit in (50, 1000):
        assert run(*args, tmp_path / "rows.csv", *inputs, "--limit", limit)[0] == 0
    assert set(POSITIONS) == {None}
    found, wanted = (sorted((tmp_path / name).read_text().splitlines()) for name in ("rows.csv", "whole.csv"))
    assert len(wanted) > 20 and {row.rsplit(",", 1)[0] for row in found} == {row.rsplit(",", 1)[0] for row in wanted}


def test_a_limit_holds_over_resumed_runs_and_at_once(run, tmp_path):
    BATCHES["one"] = [as_csv(part) for part in parts(stream(60, seed=2), seed=3)]
    options = [*QUERY, "--input", "rewind://one", "--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state"]
    for limit in (10, 25, 99):
        assert run(*options, "--limit", limit, "--stats", tmp_path / "stats.json")[0] == 0
        assert figures(tmp_path / "stats.json")["tuples"] == min(limit, 60)
        assert json.loads((tmp_path / "stats.json").read_text())["ended"] == ("limit" if limit < 60 else "end of input")


def test_edges_have_columns_of_any_name_ids_properties_and_integers_as_vertices(run, tmp_path):
    table = {"a": [1, 2, 3], "b": [2, 3, 4], "at": [1, 2, 3], "amount": [10, 20, 30]}
    BATCHES["one"] = [pa.RecordBatch.from_pydict(table).slice(place, 1) for place in range(3)]
    args = ["--columns", "source=a,target=b,timestamp=at", "--label", "paid", "--window", 10, "--slide", 1, "--output", "-"]
    query = "?x ?e:paid ?y . ?y ?f:paid ?z"
    status, out, err = run(query, "--filter", "?f.amount > 25", "--select", "?x,?z", *args, "--input", "rewind-edges://one")
    assert status == 0, err
    assert out.splitlines() == ["x,z,timestamp,op", "2,4,3,+"]
    options = ["--input", "seconds://one", "--time-unit", "s", "--where", "amount < 30"]
    status, out, err = run("paid", "--source", 2, *args, *options)
    assert status == 0, err
    assert out.splitlines()[1:] == ["2,3,2,+"]
    status, out, err = run("paid", "--source", 9, *args, "--input", "rewind-edges://one", "--quiet")
    assert (status, out.splitlines()[1:], err) == (0, [], "")


def test_bad_edges_and_other_columns_are_named_with_their_place(run, tmp_path):
    good = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}
    batch = pa.RecordBatch.from_pydict
    BATCHES["null"] = [batch(good), batch(good | {"source": pa.array([None], pa.string())}), batch(good)]
    BATCHES["other"] = [batch(good), batch(good | {"amount": [1]})]
    BATCHES["lacks"] = [batch({"source": ["x"], "ziel": ["y"], "label": ["a"], "timestamp": [1]})]
    BATCHES["dates"] = [batch(good | {"timestamp": pa.array([1], pa.timestamp("ms"))})]
    BATCHES["text"] = [b"x,y,a,1\n"]
    end = ["--window", 10, "--slide", 1, "--output", "-"]
    for name, message in {
        "null": "rewind-edges://null: row 1 (counted from 0): column 'source'",
        "other": "rewind-edges://other: its columns were source string",
        "lacks": "rewind-edges://lacks: column 'target' is missing; expected source, target, label",
        "dates": "rewind-edges://dates: its timestamps are in ms, but its source declares no unit",
        "text": "rewind-edges://text: TypeError: edges are bytes; expected a RecordBatch of Arrow",
    }.items():
        status, out, err = run("a", "--input", f"rewind-edges://{name}", *end)
        assert status == 1 and message in err, err
    status, out, _ = run("a", "--input", "rewind-edges://null", *end, "--on-error", "skip")
    assert status == 0 and len(out.splitlines()) == 2
    BATCHES["table"] = [batch(good)]
    assert "records are RecordBatch; expected bytes" in run("a", "--input", "rewind://table", *end)[2]
    edges = ["a", "--input", "rewind-edges://null", *end]
    assert "delivers edges, not text; leave out --format jsonl" in run(*edges, "--format", "jsonl")[2]
    assert "is for files only; a source is read as edges, jsonl" in run(*edges, "--format", "gmark")[2]


def test_a_stream_and_parameters_belong_to_a_url_and_a_login_stays_out_of_messages(run, tmp_path):
    BATCHES["one"] = [b"x,y,a,1\n", OSError("gone")]
    options = ["--window", 10, "--slide", 1, "--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state"]
    stats = tmp_path / "stats.json"
    status, _, err = run("a", "--input", "s=REWIND://ann:secret@one/t?qos=1", *options, "--stats", stats)
    assert status == 1 and "REWIND://one/t?qos=1: OSError: gone" in err
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file()) and "secret" not in err
    BATCHES["one"][1:] = [b"y,z,a,2\n"]
    assert run("a", "--input", "s=REWIND://bob:other@one/t?qos=1", *options)[0] == 0
    assert "another run: --input was" in run("a", "--input", "REWIND://bob:other@one/t?qos=1", *options)[2]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "nosource://x",
            "of of-tests 1.0 (tests.services.installed_sources:NoSource) is not a source: expected a class with a method",
        ),
        ("vague://x", "installed_sources:Vague): guarantee is 'mostly'; expected one of 'rewind', 'replay', 'none'"),
        (
            "missing://x",
            "installed_sources:Missing) cannot be loaded: AttributeError: module 'tests.services.installed_sources'",
        ),
        ("away://x", "away:// of others 1.0 (nothing_of_this_name:Source) cannot be loaded: ModuleNotFoundError: No"),
        ("live://unknown", "live://unknown: KeyError: 'unknown'"),
        ("twice://x", "several packages have a source for twice://: "),
        ("amqp://h/q?a=b", "URLs of amqp:// are not read; expected the path of a file, - for standard input, or kafka://BROKER"),
        ("mqtt://h/t?qos=1", "| rpq run … --input -; or install a package with a source for mqtt (entry point rpq.sources)"),
    ],
)
def test_a_source_that_cannot_be_used_is_named_with_its_cause(run, tmp_path, monkeypatch, url, message):
    install(tmp_path / "others", monkeypatch, {"away": "nothing_of_this_name:Source", "twice": "x:One"}, name="others")
    install(tmp_path / "more", monkeypatch, {"twice": "x:Two"}, name="more")
    status, _, err = run("a", "--input", url, "--window", 10, "--slide", 1, "--output", "-")
    assert status in (1, 2) and message in err and "Traceback" not in err and "o such file" not in err


def test_edges_without_time_come_from_no_source(run, tmp_path):
    BATCHES["one"] = [b"x,y,a,1\n"]
    options = ["--window", 10, "--slide", 1, "--output", "-"]
    status, _, err = run("a", "--input", "rewind://one", "--static", "rewind://one", *options)
    assert status == 2 and "--static rewind://one: URLs of rewind:// are not read; sources are read with --input of" in err
