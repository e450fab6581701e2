"""Rivals: the driver with a rival written here, the questions in SPARQL and SQL, and (long) all rivals on a small stream."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest
from click.testing import CliRunner

import rpq
from rpq.workloads.bench import measure
from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import general_engines
from rpq.workloads.bench.streams import Stream
from rpq.workloads.rivals import driver
from rpq.workloads.rivals.driver import AnswersDifferError, RivalError, SlideState
from rpq.workloads.rivals.questions import LABELS
from rpq.workloads.rivals.stores import slides

FAKE = """
import sys, time
for line in open(sys.argv[1]):
    print(line, end="", flush=True)
    if line.startswith("sleep"):
        time.sleep(60)
    if line.startswith("fail"):
        sys.exit("out of luck")
"""


@pytest.fixture
def fake(tmp_path):
    """A rival that prints its file of changes."""

    def run(text: str, **limits: float) -> driver.RivalRun:
        file = tmp_path / "script"
        file.write_text(text)
        return driver.run([sys.executable, "-c", FAKE, "{changes}"], file, **{"seconds": 30.0} | limits)

    return run


def reading(slide, answers=1, checksum=7, seconds=0.5) -> SlideState:
    return SlideState(slide=slide, seconds=seconds, answers=answers, checksum=checksum)


def test_the_readings_of_a_rival_are_read(fake):
    run = fake("ready\n3\t0.5\t1\t7\n5\t0.75\t2\t18446744073709551615\n")
    assert run.problem is None
    assert run.readings == [reading(3), reading(5, 2, 2**64 - 1, 0.75)]


def test_a_rival_is_stopped_after_its_seconds_of_cpu(fake):
    run = fake("ready\n3\t0.5\t1\t7\n4\t31\t1\t7\nsleep\n")
    assert run.problem == "stopped after 30 s of CPU"
    assert [one.slide for one in run.readings] == [3, 4]


def test_a_slide_that_does_not_end_and_a_start_that_does_not_are_stopped_by_the_clock(fake):
    run = fake("ready\n3\t0.5\t1\t7\nsleep", seconds=0.5, start_seconds=30.0)
    assert run.readings == [reading(3)]  # the rival says "sleep" without an end of line: what is cut off is no reading
    assert run.problem == "stopped after 1.5 s on the clock"
    run = fake("sleep", start_seconds=0.2)
    assert (run.readings, run.problem) == ([], "stopped after 0.2 s before it was ready")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ready\n3\t0.5\t1\n", "expected slide, seconds, answers, checksum"),
        ("ready\n3\t0.5\t1\t7\nfail\n", "printed 'fail"),
        ("fail\n", "failed: out of luck"),
    ],
)
def test_a_rival_that_fails_says_why(fake, text, message):
    with pytest.raises(RivalError, match=message):
        fake(text)


def test_answers_are_compared_at_each_slide():
    ours = {one.slide: one for one in (reading(3, seconds=0.1), reading(4, 2, 9), reading(5))}
    assert driver.compare("fake", [], ours) is None
    assert driver.compare("fake", [reading(3)], ours) == (reading(3), ours[3])
    for wrong in (reading(4, 2, 8), reading(4, 3, 9)):
        with pytest.raises(AnswersDifferError, match="at the end of slide 4; this engine has 2, checksum 9"):
            driver.compare("fake", [reading(3), wrong, reading(5)], ours)


def test_a_rival_whose_tool_is_missing_says_what_it_needs(tmp_path):
    with pytest.raises(RivalError, match="java needs a JDK 17 and Maven: no-such-tool is not on the path"):
        driver.build("java", ["no-such-tool"], needs="a JDK 17 and Maven", cache=tmp_path)


def test_a_rival_is_built_once_outside_the_checkout_and_a_failed_build_is_tried_again(tmp_path):
    script = "import pathlib; assert pathlib.Path('pom.xml').exists(); pathlib.Path('runs').open('a').write('x')"
    folders = {driver.build("java", [sys.executable, "-c", script], needs="", cache=tmp_path) for _ in range(2)}
    (folder,) = folders
    assert (folder / "runs").read_text() == "x" and folder.is_relative_to(tmp_path)
    with pytest.raises(RivalError, match="no luck"):
        driver.build("differential", [sys.executable, "-c", "raise SystemExit('no luck')"], needs="", cache=tmp_path)
    again = driver.build("differential", [sys.executable, "-c", ""], needs="", cache=tmp_path)
    assert (again / "built").exists() and (again / "Cargo.toml").exists()


def small_stream() -> Stream:
    """A slide of 10, a window of 25; an edge comes again, one leaves and comes back in a slide, one has another label."""
    rows = [
        (0, 1, "a2q", 3), (1, 2, "c2a", 4), (1, 3, "other", 5), (0, 1, "a2q", 12), (1, 2, "c2a", 31), (2, 0, "c2q", 32),
        (5, 6, "a2q", 90),
    ]  # fmt: skip
    names = ("source", "target", "label", "timestamp")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    return Stream(name="small", queries="stackoverflow", table=table, window=rpq.Window(size=25, slide=10), origin="")


def write_small_changes(path) -> None:
    stream = small_stream()
    driver.write_changes(measure.slides(stream, stream.window), stream.window, LABELS, path)


def test_the_file_of_changes_is_the_window_at_the_ends_of_slides(tmp_path):
    """
    time     3 4    12    31 32      90
    (0,a,1)  +------+----------|             (0,1) at 12 leaves at 40
    (1,b,2)    +-------|  +-------|          (1,2) at 4 leaves at 30, in whose slide it comes back: no change
    """
    write_small_changes(tmp_path / "changes")
    found = [(slide, set(removed), set(added)) for slide, removed, added in slides(tmp_path / "changes")]
    assert found == [
        (0, set(), {(0, 0, 1), (1, 1, 2)}),
        (3, set(), {(2, 2, 0)}),
        (9, {(0, 0, 1), (1, 1, 2), (2, 2, 0)}, {(5, 0, 6)}),
    ]


@pytest.mark.long
def test_python_rivals_and_the_engine_agree_and_a_missing_tool_leaves_a_rival_out(tmp_path, monkeypatch):
    """A stream of a generator through `rpq bench general-engines`: closures, of all labels too, a chain and a pattern."""
    for package in ("duckdb", "ladybug", "pyoxigraph"):
        pytest.importorskip(package)

    def no_build(folder, command, *, needs, cache=None):
        raise RivalError(f"{folder} needs {needs}")

    monkeypatch.setattr(driver, "build", no_build)
    options = ["--edges", "1000", "--only", "Q2,Q4,Q11,P5", "--seconds", "20", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, ["general-engines", *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    result = json.loads((tmp_path / "general-engines.json").read_text())
    assert {(one["query"], one["rival"]) for one in result["records"]} == {
        (query, rival) for query in ("Q2", "Q4", "Q11", "P5") for rival in ("DuckDB", "ladybug", "pyoxigraph")
    }
    assert all(one["agree"] and one["slides"] == one["all_slides"] and one["problem"] is None for one in result["records"])
    ratios = [one["ratio"] for one in result["records"]]
    assert ratios == sorted(ratios)
    assert result["facts"]["left out: Jena"] == "java needs a JDK 17 and Maven"


def test_answers_that_differ_fail_the_command_and_have_no_ratio(tmp_path, monkeypatch):
    wrong = driver.RivalRun(readings=[reading(0, 10**9)], problem=None)
    monkeypatch.setattr(driver, "build", lambda *arguments, **options: tmp_path)
    monkeypatch.setattr(driver, "run", lambda *arguments, **options: wrong)
    monkeypatch.setattr(general_engines, "engine_readings", lambda *arguments: [reading(0)])
    options = ["--edges", "1000", "--only", "Q1", "--output", str(tmp_path)]
    ran = CliRunner().invoke(bench, ["general-engines", *options])
    assert ran.exit_code == 1 and "answers are equal at the end of each slide" in ran.output
    result = json.loads((tmp_path / "general-engines.json").read_text())
    assert all(one["agree"] is False and "ratio" not in one for one in result["records"])
