"""`rpq run` and its files: what is refused, what is put in place when, what is left of a run that fails.

Real processes where signals, links, devices and full disks are concerned.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
RUN = ["run", "a+", "--window", "10", "--slide", "1"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, devices and signals of another kind")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to stand in, with `edges.txt`."""
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("x y a 1\ny z a 2\n")
    return tmp_path


def process(*args: object, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "rpq.cli", *map(str, args)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, **options)


def unpacked(path: str | Path) -> str:
    """The text of an output."""
    data = Path(path).read_bytes()
    if str(path).endswith(".gz"):
        data = gzip.decompress(data)
    if str(path).endswith(".zst"):
        data = pa.CompressedInputStream(io.BytesIO(data), "zstd").read()
    return data.decode()


def read_rows(path: str | Path) -> list[tuple]:
    """The rows of an output of any kind, (source, target, timestamp, op)."""
    if str(path).endswith(".parquet"):
        found = pq.read_table(path).to_pylist()
    elif ".jsonl" in str(path):
        found = [json.loads(line) for line in unpacked(path).splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(unpacked(path), newline="")))
    return sorted((row["source"], row["target"], int(row["timestamp"]), row["op"]) for row in found)


ROWS = [("x", "y", 1, "+"), ("x", "z", 2, "+"), ("y", "z", 2, "+")]


def test_a_witness_is_json_in_json_lines_and_null_where_there_is_none(rpq, here):
    Path("edges.csv").write_text('source,target,label,timestamp,op\nx,"y""z",a,1,+\nx,"y""z",a,2,-\n')
    for name in ("rows.jsonl", "rows.csv"):
        assert rpq(*RUN, "--input", "edges.csv", "--output", name, "--witness", "--quiet")[0] == 0
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [(row["path"], row["path_times"]) for row in rows] == [(["x", "a", 'y"z'], [1]), (None, None)]
    with open("rows.csv", newline="") as file:
        found = [(row["path"], row["path_times"]) for row in csv.DictReader(file)]
    assert found == [(json.dumps(rows[0]["path"]), "[1]"), ("", "")]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_times_of_a_witness_are_those_of_the_output(rpq, here, name):
    """The edge of the first row comes again, in the same batch: what it had then is told."""
    edges = (f"{ends},a,2024-03-01T10:00:0{second}Z" for ends, second in (("x,y", 0), ("y,z", 5), ("x,y", 7)))
    Path("edges.csv").write_text("\n".join(("source,target,label,timestamp", *edges)))
    arguments = "run", "a/a", "--input", "edges.csv", "--window", "1h", "--slide", "1m", "--output", name, "--witness"
    assert rpq(*arguments, "--times", "iso", "--quiet")[0] == 0
    if name == "rows.parquet":
        (row,) = pq.read_table(name).to_pylist()
        assert [time.isoformat()[:19] for time in row["path_times"]] == ["2024-03-01T10:00:00", "2024-03-01T10:00:05"]
        return
    text = Path(name).read_text()
    expected = '["2024-03-01T10:00:00.000000Z", "2024-03-01T10:00:05.000000Z"]'
    assert (expected if name == "rows.jsonl" else expected.replace('"', '""')) in text


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl.gz", "rows.parquet"])
def test_messages_are_a_column_of_files(rpq, here, name):
    Path("edges.csv").write_text('x,"y ""1""",a,1\n')
    options = ["--message", "{source} reached {target} {{{op}}} at {timestamp}, {query}", "--witness"]
    assert rpq(*RUN, "--input", "edges.csv", "--output", name, *options, "--quiet")[0] == 0
    if name.endswith(".parquet"):
        (row,) = pq.read_table(name).to_pylist()
    else:
        lines = unpacked(name).splitlines()
        (row,) = map(json.loads, lines) if ".jsonl" in name else csv.DictReader(lines)
    assert row["message"] == 'x reached y "1" {+} at 1, a+' and list(row)[-3:] == ["path", "path_times", "message"]


def test_messages_are_the_lines_of_standard_output(rpq, here):
    one = '[[query]]\nname = "n"\nquery = "a"\noutput = "-"'
    other = '[[query]]\nname = "m"\nquery = "?x a ?y"\noutput = "m.csv"'
    Path("queries.toml").write_text(f"{one}\n{other}\n")
    of_run = ["--window", "10", "--slide", "1", "--input", "edges.txt", "--quiet"]
    status, out, _ = rpq("run", "--queries", "queries.toml", *of_run, "--message", "{query}: {op}")
    assert (status, out) == (0, "n: +\nn: +\n")
    assert Path("m.csv").read_text() == "query,x,y,timestamp,op,message\nm,x,y,1,+,m: +\nm,y,z,2,+,m: +\n"


@pytest.mark.parametrize(
    ("text", "output", "reason"),
    [
        ("{sorce}", "-", "there is no column 'sorce'; the columns of the rows are query, source, target, timestamp, op"),
        ("{source:>9}", "-", "expected the name of a column alone"),
        ("{source", "-", "expected '}'"),
        ("{}", "-", "there is no column ''"),
        ("{source}", "rows.nq", "has no such column; expected -, .csv"),
    ],
)
def test_messages_that_cannot_be_written_are_refused_before_the_run(rpq, here, text, output, reason):
    status, out, err = rpq(*RUN, "--input", "edges.txt", "--message", text, "--output", output)
    assert (status, out) == (2, "") and "--message" in err and reason in err and not os.path.exists(output)


@pytest.mark.parametrize(
    ("name", "unit", "fraction"),
    [("rows.csv", "s", ""), ("rows.jsonl", "ns", ".250000000"), ("rows.parquet", "ms", ".250")],
)
def test_times_are_written_as_they_came_in(rpq, here, name, unit, fraction):
    """Rows are edges again: read as such, they have the same times."""
    began = f"2024-03-01T10:00:00{fraction}Z"
    Path("edges.csv").write_text(f"source,target,label,timestamp\nx,y,a,{began}\nx,z,a,2024-02-01T00:00:00Z\n")
    run = ["run", "a+", "--input", "edges.csv", "--window", "1h", "--slide", "1h", "--time-unit", unit, "--times", "iso"]
    assert rpq(*run, "--semantics", "explicit", "--late", "late.csv", "--output", name, "--quiet")[0] == 0
    if name.endswith(".parquet"):
        column = pq.read_table(name).column("timestamp")  # Parquet's coarsest unit is the millisecond
        times = column.cast(pa.timestamp(unit, "UTC"))
        assert [text.as_py() for text in times.cast(pa.string())] == [began.replace("T", " ")]
    else:
        lines = Path(name).read_text().splitlines()
        found = list(csv.DictReader(lines)) if name.endswith(".csv") else [json.loads(line) for line in lines]
        assert [row["timestamp"] for row in found] == [began]
    late = list(csv.DictReader(Path("late.csv").read_text().splitlines()))
    assert [row["timestamp"] for row in late] == [f"2024-02-01T00:00:00{fraction.replace('25', '00')}Z"]
    if name.endswith(".parquet"):
        return
    assert rpq("run", "a+", "--input", name, "--label", "a", "--window", "1h", "--slide", "1h", "--time-unit", unit,
               *(["--format", "jsonl"] if "json" in name else []), "--output", "again.csv", "--quiet")[0] == 0  # fmt: skip
    wanted = pa.scalar(began.removesuffix("Z").replace("T", " ")).cast(pa.timestamp(unit)).value
    assert [int(row["timestamp"]) for row in csv.DictReader(Path("again.csv").read_text().splitlines())] == [wanted]


def test_times_are_refused_without_a_unit_and_in_formats_of_rdf(rpq, here):
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--times", "iso")
    assert status == 2 and "expected --time-unit" in err
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--times", "iso", "--time-unit", "s", "--output", "rows.nq")
    assert status == 2 and "expected .csv, .jsonl or .parquet" in err


def test_times_of_a_run_in_parts_are_those_of_a_whole_one(rpq, here):
    Path("edges.csv").write_text("x,y,a,2024-03-01T10:00:00Z\ny,z,a,2024-03-01T11:00:00Z\nz,x,a,2024-03-01T11:30:00Z\n")
    run = ["run", "a+", "--input", "edges.csv", "--window", "2h", "--slide", "1m", "--semantics", "explicit", "--quiet"]
    of_part = ["--checkpoint", "state", "--output", "parts.jsonl"]
    for limit in (1, 3):
        assert rpq(*run, "--times", "iso", *of_part, "--limit", limit)[0] == 0
    assert rpq(*run, "--times", "iso", "--output", "whole.jsonl")[0] == 0
    parts, whole = (Path(name).read_text().splitlines() for name in ("parts.jsonl", "whole.jsonl"))
    assert sorted(parts) == sorted(whole) and len(whole) == 9
    status, _, err = rpq(*run, *of_part)
    assert status == 2 and "--times was iso, now not given" in err


@pytest.mark.parametrize(
    ("name", "program"), [("rows.csv.gz", ["gzip", "-dc"]), ("rows.csv.zst", ["zstd", "-dc"])], ids=["gzip", "zstd"]
)
def test_the_usual_programs_read_what_was_compressed_in_parts(rpq, here, name, program):
    """With a checkpoint a run ends a part, which the next one goes on behind."""
    import shutil

    if shutil.which(program[0]) is None:
        pytest.skip(f"no {program[0]}")
    for limit in (1, 2):
        assert rpq(*RUN, "--input", "edges.txt", "--output", name, "--checkpoint", "state", "--limit", limit)[0] == 0
    text = subprocess.run([*program, name], capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[0] == "source,target,timestamp,op" and len(text.splitlines()) == 4
    assert unpacked(name) == text


CONFLICTS = {
    "--output": ["--output", "{}.csv", "--input", "edges.csv"],
    "--stats": ["--stats", "{}.csv", "--input", "edges.csv"],
    "--late": ["--late", "{}.csv", "--input", "edges.csv"],
    "--checkpoint": ["--checkpoint", "{}.csv", "--input", "edges.csv"],
    "--output and --stats": ["--output", "{}.csv", "--stats", "edges.csv", "--input", "other.csv"],
    "--output and --late": ["--output", "edges.csv", "--late", "{}.csv", "--input", "other.csv"],
    "--late and --checkpoint": ["--late", "edges.csv", "--checkpoint", "{}.csv", "--input", "other.csv"],
}


@pytest.mark.parametrize(
    ("args", "spelling"),
    [*((args, "soft") for args in CONFLICTS.values()), *((CONFLICTS["--output"], one) for one in ("./edges", "hard"))],
)
def test_one_file_for_two_purposes_is_refused_and_stays(rpq, here, args, spelling):
    for name in ("edges.csv", "other.csv"):
        Path(name).write_text("x,y,a,1\n")
    os.link("edges.csv", "hard.csv")
    Path("soft.csv").symlink_to("edges.csv")
    Path("folder").mkdir()
    status, out, err = rpq(*RUN, *(part.format(spelling) for part in args))
    assert (status, out) == (2, "")
    assert "are the same file" in err and all(part in err for part in args if part.startswith("--") and part != "--input")
    assert f"{spelling}.csv" in err
    assert Path("edges.csv").read_text() == Path("other.csv").read_text() == "x,y,a,1\n"
    assert sorted(os.listdir()) == ["edges.csv", "edges.txt", "folder", "hard.csv", "other.csv", "soft.csv"]


def test_outputs_that_are_not_there_yet_can_be_one_file_too(rpq, here):
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--output", "new.csv", "--stats", here / "new.csv")
    assert status == 2 and "--output new.csv and --stats" in err
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--output", "-", "--stats", "-")
    assert status == 2 and "are the same file" in err
    status, _, err = rpq(
        *RUN, "--input", "edges.txt", "--output", "r.parquet", "--checkpoint", "state", "--late", "r.parquet.rows"
    )
    assert status == 2 and "are the same file" in err
    assert os.listdir() == ["edges.txt"]


def test_an_output_among_the_files_of_an_input_folder_is_refused(rpq, here):
    pq.write_table(pa.table({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}), "edges.parquet")
    before = Path("edges.parquet").read_bytes()
    for name in ("edges.parquet", "rows.parquet"):
        status, _, err = rpq(*RUN, "--input", ".", "--output", name)
        assert status == 2 and f"--output {name}" in err and "--input ." in err
    assert Path("edges.parquet").read_bytes() == before


def test_standard_output_that_goes_to_the_input_is_refused(here):
    with open("edges.txt", "ab") as out:
        done = process(*RUN, "--input", "edges.txt", "--output", "-", stdout=out)
        err = done.communicate(timeout=PATIENCE)[1].decode()
    assert done.returncode == 2 and "are the same file" in err
    assert Path("edges.txt").read_text() == "x y a 1\ny z a 2\n"


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--output", "nowhere/f.csv", "there is no folder"), ("--late", "folder.csv", "is a folder"),
        ("--stats", "edges.txt/f.csv", "Not a directory"), ("--checkpoint", "nowhere/f.csv", "there is no folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_noticed_before_the_run(rpq, here, option, name, message):
    """The input is missing, too: that nobody gets to."""
    Path("folder.csv").mkdir()
    status, out, err = rpq(*RUN, "--input", "missing.txt", option, name)
    assert (status, out) == (2, "") and f"{name}: " in err and message in err
    assert sorted(os.listdir()) == ["edges.txt", "folder.csv"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl.zst", "rows.parquet"])
def test_a_run_that_comes_to_nothing_leaves_what_was_there(rpq, here, name):
    Path("edges.txt").write_text("what is this\nx y a 1\n")
    for before in (None, b"precious"):
        if before is not None:
            Path(name).write_bytes(before)
        for checkpoint in ((), ("--checkpoint", "state")):
            assert rpq(*RUN, "--input", "edges.txt", "--output", name, "--late", "late.csv", *checkpoint)[0] == 1
            assert set(os.listdir()) - {"state", "state.lock"} == {"edges.txt"} | ({name} if before else set())
            Path("state").unlink(missing_ok=True)
    assert Path(name).read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl.zst", "rows.parquet"])
def test_the_rows_before_a_bad_line_are_put_in_place(rpq, here, name):
    Path(name).write_bytes(b"before")
    Path(name).chmod(0o600)
    Path("edges.txt").write_text("x y a 1\ny z a 2\nwhat is this\nz w a 3\n")
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--output", name, "--quiet")
    assert status == 1 and "edges.txt:3" in err
    assert read_rows(name) == ROWS
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    assert sorted(os.listdir()) == sorted(["edges.txt", name])


@pytest.mark.ci
def test_the_file_before_stays_until_the_run_is_done(here):
    Path("rows.csv").write_text("precious\n")
    Path("edges.txt").write_text("".join(f"x{i} y a {i}\n" for i in range(300_000)))
    running = process(*RUN, "--input", "edges.txt", "--output", "rows.csv", "--quiet")
    while running.poll() is None:
        text = Path("rows.csv").read_text()
        assert text == "precious\n" or text.count("\n") == 300_001
        time.sleep(0.02)
    assert running.returncode == 0, running.stderr.read()
    assert Path("rows.csv").read_text().count("\n") == 300_001
    running.communicate()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("rows.csv", signal.SIGINT, marks=pytest.mark.long),
        ("rows.jsonl.zst", signal.SIGINT),
        ("rows.parquet", signal.SIGTERM),
        ("rows.csv", signal.SIGKILL),
    ],
)
def test_a_run_over_files_that_is_interrupted_leaves_whole_files_and_no_others(here, name, number):
    """Killed outright, it leaves what was there."""
    Path(name).write_bytes(b"precious")
    Path("edges.txt").write_text("".join(f"x{i} y{i % 7} a {i // 100}\n" for i in range(1_500_000)))
    running = process(*RUN, "--input", "edges.txt", "--output", name, "--stats", "stats.json", "--quiet")
    deadline = time.monotonic() + PATIENCE
    before: frozenset[str] = frozenset()
    while not before & (now := open_beside(running.pid)):
        assert time.monotonic() < deadline and running.poll() is None
        before = now  # there at two looks it is the output; whether a file can be made is tried in microseconds
        time.sleep(0.05)
    time.sleep(0.1)
    running.send_signal(number)
    err = running.communicate(timeout=PATIENCE)[1].decode()
    left = set(os.listdir()) - {"edges.txt", "stats.json"}
    if number == signal.SIGKILL:
        assert Path(name).read_bytes() == b"precious"
    else:
        assert running.returncode == 128 + number, err
        json.loads(Path("stats.json").read_text())
        if Path(name).read_bytes() != b"precious":
            assert 0 < len(read_rows(name)) <= 1_500_000
    assert left == {name}


def open_beside(pid: int) -> frozenset[str]:
    """The files of this folder that a process has open, but its input; Linux shows them."""
    folder = Path(f"/proc/{pid}/fd")
    if not folder.is_dir():
        pytest.skip("the system does not show what a process has open")
    paths = set()
    for number in os.listdir(folder):
        with suppress(OSError):  # closed by now
            paths.add(os.readlink(folder / number))
    return frozenset(path for path in paths if path.startswith(os.getcwd()) and not path.endswith("edges.txt"))


def test_links_devices_and_fifos_stay_what_they_are(rpq, here):
    for name in ("rows.csv", "stats.json", "late.csv"):
        Path(f"real-{name}").write_text("before")
        Path(name).symlink_to(f"real-{name}")
    files = ["--output", "rows.csv", "--stats", "stats.json", "--late", "late.csv"]
    assert rpq(*RUN, "--input", "edges.txt", *files)[0] == 0
    assert read_rows("real-rows.csv") == ROWS and json.loads(Path("real-stats.json").read_text())["tuples"] == 2
    assert Path("real-late.csv").read_text() == "source,target,label,timestamp,op\n"
    assert all(Path(name).is_symlink() for name in ("rows.csv", "stats.json", "late.csv"))
    null = ["--output", "/dev/null", "--stats", "/dev/null", "--late", "/dev/null"]
    assert rpq(*RUN, "--input", "edges.txt", *null)[0] == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_is_no_regular_file_cannot_be_gone_on_with(rpq, here):
    Path("rows.csv").symlink_to("/dev/null")
    for args in (["--output", "rows.csv"], ["--output", "/dev/null"], ["--late", "/dev/null"], ["--late", "-"]):
        status, _, err = rpq(*RUN, "--input", "edges.txt", "--checkpoint", "state", *args)
        assert status == 2 and "is not a regular file" in err
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--checkpoint", "/dev/null")
    assert status == 2 and "is not a regular file" in err
    status, _, err = rpq(*RUN, "--input", "edges.txt", "--output", "edges.txt/rows")
    assert status == 2 and "expected a name that ends in" in err


@pytest.mark.ci
@pytest.mark.parametrize("option", ["--output", "--stats"])
def test_a_fifo_takes_what_a_file_would(here, option):
    os.mkfifo("fifo")
    running = process(*RUN, "--input", "edges.txt", option, "fifo", "--quiet")
    with open("fifo") as fifo:
        text = fifo.read()
    assert running.wait(PATIENCE) == 0
    running.communicate()
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    assert len(text.splitlines()) == 4 if option == "--output" else json.loads(text)["tuples"] == 2


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")


@pytest.mark.ci
@needs_full
@pytest.mark.parametrize("name", ["rows.csv.zst", "rows.parquet"])
def test_a_full_device_is_named(here, name):
    Path(name).symlink_to("/dev/full")
    done = process(*RUN, "--input", "edges.txt", "--output", name, "--quiet")
    err = done.communicate(timeout=PATIENCE)[1].decode()
    assert done.returncode == 1
    assert err == f"Error: {name}: cannot be written: No space left on device\n"


def test_commands_that_write_other_files_refuse_what_cannot_be_written(rpq, here):
    for args in (
        ["explain", "a", "--dot", "nowhere/a.dot"],
        ["generate", "stackoverflow", "--edges", 10, "--output", "nowhere/a.tsv"],
        ["demo", "--edges", 100, "--output", "nowhere/a.tsv"],
    ):
        status, out, err = rpq(*args)
        assert (status, out) == (2, "") and "cannot be" in err, err
    status, _, err = rpq("explain", "a", "--dot", "a", "--svg", "./a")
    assert status == 2 and "are the same file" in err


@pytest.fixture
def tiny(tmp_path):
    """A disk of 256 kB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("may not mount a disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("file", "rows.csv"),
        ("stdin", "rows.jsonl.zst"),
        ("checkpoint", "rows.jsonl.zst"),
        ("checkpoint", "rows.parquet"),
    ],
)
def test_a_full_disk_leaves_what_was_there_or_whole_rows(here, tiny, name, how):
    import random

    chance = random.Random(5)
    Path("edges.txt").write_text("".join(f"{chance.randbytes(30).hex()} {i} a {i // 9}\n" for i in range(20_000)))
    output = tiny / name
    output.write_bytes(b"precious")
    options = ["--checkpoint", "state"] if how == "checkpoint" else []
    with open("edges.txt", "rb") as edges:
        source = "-" if how == "stdin" else "edges.txt"
        done = process(*RUN, "--input", source, "--output", output, "--quiet", *options, stdin=edges)
        err = done.communicate(timeout=PATIENCE)[1].decode()
    assert done.returncode == 1 and f"{output}" in err and "No space left on device" in err and "Traceback" not in err
    assert "Exception" not in err
    left = set(os.listdir(tiny))
    assert left <= ({name, f"{name}.rows"} if how == "checkpoint" else {name})
    if how == "file" or name.endswith(".parquet"):
        assert output.read_bytes() == b"precious"
    elif output.exists():
        assert 0 < len(read_rows(output)) < 20_000
    if how == "checkpoint":  # where there is room again, the run continues
        subprocess.run(["mount", "-o", "remount,size=64m", tiny], check=True)
        done = process(*RUN, "--input", "edges.txt", "--output", output, "--quiet", *options)
        assert done.communicate(timeout=PATIENCE)[1] == b"" and done.returncode == 0
        sources = sorted(line.split()[0] for line in Path("edges.txt").read_text().splitlines())
        assert [row[0] for row in read_rows(output)] == sources


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_times_that_iso_8601_cannot_write_are_numbers(rpq, here, name):
    """A timestamp in the wrong unit does not end a run in its middle, nor become a day that never was."""
    far = (-(2**62), -62_167_219_201, -62_167_219_200, 253_402_300_799, 253_402_300_800, 2**62)
    Path("edges.csv").write_text("".join(f"x,y{number},a,{time}\n" for number, time in enumerate(far)))
    options = "--window", "1s", "--slide", "1s", "--time-unit", "s", "--times", "iso", "--output", name, "--witness"
    status, _, err = rpq("run", "a", "--input", "edges.csv", *options, "--quiet")
    if name == "rows.parquet":
        assert status == 1 and "rows.parquet: cannot store a timestamp" in err and "(without --times)" in err
        assert name not in os.listdir()
        return
    assert status == 0
    lines = Path(name).read_text().splitlines()
    rows = list(map(json.loads, lines) if name == "rows.jsonl" else csv.DictReader(lines))
    texts = [str(far[0]), str(far[1]), "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", str(far[4]), str(far[5])]
    assert [row["timestamp"] for row in rows] == texts
    times = [row["path_times"] if name == "rows.jsonl" else json.loads(row["path_times"]) for row in rows]
    assert times == [[text] for text in texts]
