"""Tuples that are too far ahead of the stream time are bad tuples: refused by name, and they move nothing.

semantics.md S3, S13
"""

from __future__ import annotations

import datetime
import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rpq
from rpq.cli.inputs import open_input
from rpq.cli.request import RunSettings
from rpq.readers import open_reader
from rpq.serve.feeds import FileFeed, Playback
from tests.commands import Caller
from tests.services.served import Command, Served
from tests.twins import scaled

WINDOW = rpq.Window(size=10, slide=1)
FAR = 1_700_000_000_000
NOON = datetime.datetime(2026, 1, 1, 12)


def engine(**options: Any) -> rpq.Engine:
    return rpq.Engine(rpq.Query("a+", window=WINDOW, name="q", semantics="explicit"), **options)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["+", "-"])
@pytest.mark.parametrize("label", ["a", "a label of no query"])
def test_a_tuple_too_far_ahead_moves_nothing(op: str, label: str) -> None:
    running, bad = engine(max_ahead=50), ("y", "z", label, 61, op)
    running.push_rows([("x", "y", "a", 10), ("x", "y", "a", 11)])
    for push in (
        lambda: (running.insert if op == "+" else running.delete)("y", "z", label, 62),
        lambda: running.push_rows([("y", "z", label, 62, op)]),
        lambda: running.push(pa.table({"source": ["y"], "target": ["z"], "label": [label], "timestamp": [62], "op": [op]})),
    ):
        with pytest.raises(rpq.InputError, match="row 0: column 'timestamp': 62 is further ahead .* time, 11") as refused:
            push()
        error = refused.value
        assert (error.row, error.column, len(error.changes), running.time) == (0, "timestamp", 0, 11)
    assert sorted(running.answers()) == [("x", "y")]
    running.push_rows([bad])
    assert running.time == 61
    running._check()


def test_what_comes_before_it_in_a_batch_is_applied_and_moves_the_time() -> None:
    running = engine(max_ahead=50)
    rows = [("x", "y", "a", 10), ("p", "q", "b", 55), ("y", "z", "a", 105), ("z", "w", "a", 156), ("z", "w", "a", 120)]
    with pytest.raises(rpq.InputError, match=r"row 3: .* 156 is further ahead of the .* 105, .*\(50\)") as caught:
        running.push_rows(rows)
    assert (caught.value.row, running.time) == (3, 105)
    assert caught.value.changes.rows() == engine().push_rows(rows[:3]).rows()
    with pytest.raises(rpq.InputError, match="row 1: column 'label'"):  # the first of several mistakes
        running.push_rows([("x", "y", "a", 106), ("x", "y", None, 107), ("x", "y", "a", FAR)])
    with pytest.raises(rpq.InputError, match="row 0: column 'timestamp'"):
        running.push_rows([("x", "y", "a", FAR), ("x", "y", None, 107)])


def test_there_is_nothing_to_be_ahead_of_before_the_first_tuple() -> None:
    for first in (FAR, -FAR):
        running = engine(max_ahead=1)
        running.insert("x", "y", "a", first)
        assert running.time == first
    assert engine(max_ahead=1).push_rows([("x", "y", "a", FAR), ("x", "z", "a", 3)]).late_rows.tolist() == [1]


def test_the_time_can_be_moved_by_order() -> None:
    running = engine(max_ahead=5)
    running.insert("x", "y", "a", 1)
    running.advance(FAR)
    assert running.insert("x", "y", "a", FAR + 5).added == 1


def test_it_is_off_unless_it_is_said_and_can_be_changed() -> None:
    running = engine()
    assert running.max_ahead is None
    running.push_rows([("x", "y", "a", 1), ("x", "y", "a", FAR)])
    running.max_ahead = 3
    with pytest.raises(rpq.InputError):
        running.insert("x", "y", "a", FAR + 4)
    with pytest.raises(rpq.QueryError):
        running.max_ahead = "soon"
    assert running.max_ahead == 3
    running.max_ahead = None
    running.insert("x", "y", "a", FAR + 4)


def test_the_edges_of_64_bits() -> None:
    most = 2**63 - 11
    running = engine(max_ahead=2**63 - 1)
    running.push_rows([("x", "y", "a", -(2**63) + 1), ("x", "y", "a", -2)])
    with pytest.raises(rpq.InputError, match="further ahead"):
        rpq.Engine(rpq.Query("a", window=WINDOW), max_ahead=2**63 - 1).push_rows(
            [("x", "y", "a", -(2**63) + 1), ("x", "y", "a", most)]
        )
    running.insert("x", "y", "a", most)
    assert running.time == most
    running.insert("x", "y", "a", most)


# --- limits that follow the windows, and of time ---------------------------------------------------------------------


def test_a_multiple_of_the_longest_window_of_the_queries_that_run() -> None:
    running = rpq.Engine(max_ahead="10x")
    running.push_rows([("x", "y", "a", 0), ("x", "y", "a", 10**6)])  # nobody has a window
    running.register(rpq.Query("b", window=rpq.UnboundedWindow()), start="empty")
    running.register(rpq.Query("c", window=rpq.CountWindow(size=3)), start="empty")
    running.insert("x", "y", "a", 2 * 10**6)
    running.register(rpq.Query("a", window=WINDOW), start="empty")
    now = 2 * 10**6
    with pytest.raises(rpq.InputError, match=r"\(100, 10 times the longest window\)"):
        running.insert("x", "y", "a", now + 101)
    running.register(rpq.Query("a+", window=rpq.Window(size=100, slide=1)), start="empty")
    running.insert("x", "y", "a", now + 101)
    running.unregister("a+")
    with pytest.raises(rpq.InputError):
        running.insert("x", "y", "a", now + 202)
    running.unregister("a")
    running.insert("x", "y", "a", now + 10**6)


def test_what_is_kept_counts_among_the_windows() -> None:
    running = rpq.Engine(keep=rpq.Window(size=100, slide=1), max_ahead="2x")
    running.insert("x", "y", "a", 1)
    with pytest.raises(rpq.InputError, match="200, 2 times"):
        running.insert("x", "y", "a", 202)


@pytest.mark.parametrize(
    ("unit", "limit"), [(None, "1h"), ("s", datetime.timedelta(hours=1)), ("ms", np.timedelta64(1, "h"))]
)
def test_durations_go_with_dates_and_times(unit: Any, limit: Any) -> None:
    hours = rpq.Query("a", window=rpq.Window(size="1h", slide="1m"))
    running = rpq.Engine(hours, time_unit=unit, max_ahead=limit)
    running.insert("x", "y", "a", NOON)
    running.insert("x", "y", "a", NOON + datetime.timedelta(hours=1))
    with pytest.raises(rpq.InputError, match=r"2026-01-01 14:00:01\S* is further ahead .* 2026-01-01 13.*\(1h\)"):
        running.insert("x", "y", "a", NOON + datetime.timedelta(hours=2, seconds=1))
    with pytest.raises(rpq.InputError, match="further ahead"):
        running.push({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": pa.array([2**33], pa.timestamp("s"))})
    multiple = rpq.Engine(hours, time_unit=unit, max_ahead="2x")
    multiple.insert("x", "y", "a", NOON)
    with pytest.raises(rpq.InputError, match=r"\(2h, 2 times the longest window\)"):
        multiple.insert("x", "y", "a", NOON + datetime.timedelta(hours=2, seconds=1))


def test_plain_numbers_with_a_unit() -> None:
    running = rpq.Engine(rpq.Query("a", window=rpq.Window(size="1h", slide="1m")), time_unit="s", max_ahead="1h")
    running.push_rows([("x", "y", "a", 0), ("x", "y", "a", 3600)])
    with pytest.raises(rpq.InputError, match=r"7201 is further ahead of the stream time, 3600, .*\(1h\)"):
        running.insert("x", "y", "a", 7201)


@pytest.mark.parametrize("given", [0, True, 1.5, "0x", "-1h", "soon", 2**63])
def test_what_is_no_limit(given: Any) -> None:
    with pytest.raises(rpq.QueryError, match="max_ahead"):
        engine(max_ahead=given)


def test_limits_that_do_not_go_with_the_stream() -> None:
    durations = rpq.Query("a", window=rpq.Window(size="1h", slide="1m"), name="durations")
    with pytest.raises(rpq.QueryError, match="max_ahead is a duration .* plain numbers"):
        engine(max_ahead="1h")
    with pytest.raises(rpq.QueryError, match="max_ahead is a plain number .* dates or times"):
        rpq.Engine(durations, max_ahead=5)
    with pytest.raises(rpq.QueryError, match="no whole number of the stream's unit, s"):
        rpq.Engine(durations, time_unit="s", max_ahead="1500ms")
    late = rpq.Engine(max_ahead=5)
    with pytest.raises(rpq.QueryError, match="max_ahead is a plain number"):
        late.register(durations)
    assert late.queries == ()
    everything = rpq.Query("a", window=rpq.UnboundedWindow())
    for limit, stamp in (("1h", 5), (5, NOON)):
        for call in ("insert", "advance"):
            running = rpq.Engine(everything, max_ahead=limit)
            with pytest.raises(rpq.InputError, match="max_ahead"):
                running.advance(stamp) if call == "advance" else running.insert("x", "y", "a", stamp)
            assert running.time is None


# --- states, events, threads, batches --------------------------------------------------------------------------------


def test_a_restored_engine_goes_on_at_its_time(tmp_path: Path) -> None:
    running = engine(max_ahead=50)
    running.insert("x", "y", "a", 1000)
    running.save(tmp_path / "state")
    assert rpq.Engine.restore(tmp_path / "state").max_ahead is None
    restored = rpq.Engine.restore(tmp_path / "state", max_ahead=50)
    for call in (restored.insert, restored.delete):
        with pytest.raises(rpq.InputError, match="1051 is further ahead of the stream time, 1000"):
            call("x", "y", "a", 1051)
    assert restored.insert("x", "y", "a", 1050).added == 1


@pytest.mark.parametrize("mode", ["window", "alone"])
def test_an_event_is_refused_as_a_whole(mode: Any) -> None:
    window = rpq.UnboundedWindow() if mode == "alone" else WINDOW
    running = rpq.Engine(rpq.Query("a+", window=window, name="q"), events=mode, max_ahead=50)
    names = ("source", "target", "label", "timestamp", "event")
    rows = [
        ("x", "y", "a", 1, "e"),
        ("y", "z", "a", 2, "e"),
        ("p", "q", "a", 40, "f"),
        ("q", "r", "a", 60, "f"),
        ("s", "t", "a", 3, "g"),
    ]
    table = pa.table([*map(pa.array, zip(*rows, strict=True))], names)
    with pytest.raises(rpq.InputError, match="row 3: .* 60 is further ahead of the stream time, 2") as caught:
        running.push(table)
    assert caught.value.changes.added == 3 and running.time == 2
    assert running.push(table.slice(4)).added == 1


@pytest.mark.parametrize("seed", range(scaled(10)))
def test_the_cut_into_batches_plays_no_part(seed: int) -> None:
    chance, threads = random.Random(seed), 1 + seed % 2
    limit = chance.choice([1, 7, 30])
    time, rows = chance.choice([0, -(2**62), 2**62]), []
    for _ in range(60):
        time += chance.choice([0, 0, 1, 2, 3])
        far = chance.choice([0] * 8 + [limit, limit + 1, 40, 10**12, -5])
        rows.append((chance.choice("xyz"), chance.choice("xyz"), chance.choice("aab"), time + far, chance.choice("+++-")))
    now, good = None, []
    for row in rows:  # what the rule says, tuple by tuple
        if now is None or row[3] - now <= limit:
            good.append(row)
            now = row[3] if now is None else max(now, row[3])
    expected = engine().push_rows(good)
    for cut in (1, 7, len(rows)):
        for form in ("rows", "arrow"):
            running, found, refused = engine(max_ahead=limit, threads=threads), [], 0
            for start in range(0, len(rows), cut):
                part = rows[start : start + cut]
                while part:
                    try:
                        found += _pushed(running, part, form)
                        break
                    except rpq.InputError as error:
                        assert error.row is not None
                        found += error.changes.rows()
                        part, refused = part[error.row + 1 :], refused + 1
            ordered = list if threads == 1 else sorted  # of several threads the rows of one tuple have no order
            assert ordered(found) == ordered(expected.rows()) and refused == len(rows) - len(good) and running.time == now
            running._check()


def _pushed(running: rpq.Engine, rows: list[tuple[Any, ...]], form: str) -> list[Any]:
    if form == "rows":
        return running.push_rows(rows).rows()
    names = ["source", "target", "label", "timestamp", "op"]
    return running.push(pa.table([pa.array(column) for column in zip(*rows, strict=True)], names)).rows()


def test_rows_behind_it_teach_nothing_about_time() -> None:
    hours = rpq.Query("a", window=rpq.Window(size="1h", slide="1m"))
    running = rpq.Engine(hours, max_ahead="1h")
    with pytest.raises(rpq.InputError) as caught:
        running.push_rows([("x", "y", "a", NOON), ("x", "z", "a", np.datetime64("2100-01-01T00:00:00.000000001"))])
    assert caught.value.changes.to_arrow().schema.field("timestamp").type == pa.timestamp("us")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(f"source,target,label,timestamp\nx,y,a,1\ny,z,a,2\nq,r,a,{FAR}\nz,w,a,3\n")
    return path


def test_a_run_stops_at_it_or_leaves_it_out(rpq: Caller, edges: Path, tmp_path: Path) -> None:
    arguments = ("run", "a+", "--input", edges, "--window", "10", "--slide", "1", "--output", "-")
    arguments += ("--stats", tmp_path / "s.json")
    status, out, err = rpq(*arguments, "--max-ahead", "1000x")
    assert status == 1 and out.splitlines()[1:] == ["x,y,1,+", "y,z,2,+", "x,z,2,+"]
    assert f"at the tuple q r a {FAR}" in err and "further ahead of the stream time, 2, than max_ahead allows (10000" in err
    for limit in ("1000x", "500"):
        status, out, err = rpq(*arguments, "--max-ahead", limit, "--on-error", "skip")
        assert status == 0 and "z,w,3,+" in out and f"rejected: at the tuple q r a {FAR}" in err
        figures = json.loads((tmp_path / "s.json").read_text())
        assert (figures["rejected"], figures["late"], figures["tuples"]) == (1, 0, 3)
    for free in ((), ("--max-ahead", "none")):
        status, out, _ = rpq(*arguments, *free)
        assert status == 0 and "z,w,3,+" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-ahead", "soon"), "is not a duration"),
        (("--max-ahead", "0"), "must be positive"),
        (("--max-ahead", "1d"), "--time-unit says the unit"),
    ],
)
def test_options_that_cannot_be(rpq: Caller, edges: Path, options: tuple[str, ...], message: str) -> None:
    status, _, err = rpq("run", "a+", "--input", edges, "--window", "10", "--slide", "1", *options)
    assert status == 2 and message in " ".join(err.split())


def test_a_checkpoint_knows_the_limit(rpq: Caller, edges: Path, tmp_path: Path) -> None:
    arguments = ["run", "a+", "--input", edges, "--window", "10s", "--slide", "1s", "--time-unit", "s"]
    arguments += ["--output", tmp_path / "o.csv", "--checkpoint", tmp_path / "state", "--on-error", "skip"]
    assert rpq(*arguments, "--max-ahead", "1d", "--limit", "2")[0] == 0
    status, _, err = rpq(*arguments, "--max-ahead", "2d")
    assert status == 2 and "--max-ahead was 1d, now 2d" in err
    assert rpq(*arguments, "--max-ahead", "1d")[0] == 0
    assert (tmp_path / "o.csv").read_text().count("w") == 3 and str(FAR) not in (tmp_path / "o.csv").read_text()


# --- the server ------------------------------------------------------------------------------------------------------

QUERY = {"expression": "a+", "window": "10", "slide": "1", "name": "q"}


def test_a_post_is_refused_from_it_on(tmp_path: Path) -> None:
    with Served(QUERY, max_ahead="1000x", checkpoint=tmp_path / "state") as served:
        served.post(("x", "y", "a", 1))
        answer = served.post(("y", "z", "a", 2), ("q", "r", "a", FAR), ("z", "w", "a", 3))
        error = answer.json()["error"]
        assert (answer.status_code, error["applied"], error["row"], error["field"]) == (422, 1, 1, "timestamp")
        assert f"row 1: column 'timestamp': {FAR} is further ahead of the stream time, 2" in error["message"]
        assert served.post(("z", "w", "a", 10_002)).json()["time"] == 10_002
        wide = served.register("b", window=100, slide=1, name="wide")
        assert wide.status_code == 201 and served.post(("z", "w", "a", 110_002)).status_code == 200
    with Served(QUERY, max_ahead=1, checkpoint=tmp_path / "state") as served:
        assert served.post(("z", "w", "a", 110_004)).status_code == 422


def test_what_was_acknowledged_comes_again_whatever_the_limit_is_now(tmp_path: Path) -> None:
    with Served(QUERY, checkpoint=tmp_path / "state") as served:
        before = (tmp_path / "state").read_bytes()
        served.post(("x", "y", "a", 1), ("x", "y", "a", FAR))
        journal = (tmp_path / "state.journal").read_bytes()
    (tmp_path / "state").write_bytes(before)
    (tmp_path / "state.journal").write_bytes(journal)
    with Served(QUERY, max_ahead="1000x", checkpoint=tmp_path / "state") as served:
        assert served.service.replayed_tuples == 2 and served.service.engine.time == FAR
        assert served.post(("x", "y", "a", 2 * FAR)).status_code == 422


def test_the_command_has_a_limit_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    with Command("a+", "--window", "10", "--slide", "1", log=tmp_path / "log") as served:
        assert served.post(("x", "y", "a", 1), ("x", "y", "a", 10_001)).status_code == 200
        assert served.post(("x", "y", "a", 20_002)).status_code == 422
        assert served.end() == 0


@pytest.mark.parametrize("speed", [None])
def test_playback_does_not_wait_for_it(speed: float | None, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr("rpq.serve.feeds.LOG.warning", lambda text, *values: warnings.append(text % values))
    opened = open_input(RunSettings(inputs=(str(edges),), format="edges", on_error="skip"))
    with Served(QUERY, max_ahead="1000x") as served:
        playback = Playback(speed=speed, time_unit=None)
        feed = FileFeed(served.service, opened.reader, playback, on_error="skip")
        feed.start()
        assert feed.has_ended.wait(60)
        assert feed.error is None and feed.rejected == 1
        (rejected,) = warnings
        assert rejected.startswith("rejected: at the tuple ") and f" a {FAR}" in rejected.partition(": column")[0]
        assert served.answers("q") == {(x, y) for x, y in combinations("xyzw", 2)}
        assert playback.model().time < FAR


def test_nothing_behind_a_refused_tuple_of_a_file_is_applied_or_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpq.serve.feeds.PART_ROWS", 4)
    path = tmp_path / "edges.txt"
    times = [*range(1, 7), FAR, *range(7, 20)]
    path.write_text("".join(f"v{number} w{number} a {time}\n" for number, time in enumerate(times)))
    for on_error, tuples in (("stop", 6), ("stop", 6), ("skip", 19)):
        with Served(QUERY, max_ahead="1000x", checkpoint=tmp_path / "state") as served:
            reader, playback = open_reader("edges", path), Playback(speed=None, time_unit=None)
            feed = FileFeed(served.service, reader, playback, on_error=on_error, paths=[str(path)])
            feed.start()
            assert feed.has_ended.wait(60)
            feed.stop()
            assert served.service.tuples == tuples and feed.rejected == (on_error == "skip")
            assert (feed.error is None) == (on_error == "skip")


# --- topics ----------------------------------------------------------------------------------------------------------


def test_a_message_too_far_ahead_is_a_bad_one(kafka: Any, request: pytest.FixtureRequest) -> None:
    from rpq import run_topics

    read, written, letters = kafka.new(), kafka.new(), kafka.new()
    times = [1, 2, FAR, 3]
    kafka.send(read, [{"source": f"s{time}", "target": "t", "label": "a", "timestamp": time} for time in times])
    query = rpq.Query("a", window=WINDOW)
    common = {"input": kafka.uri(read), "output": kafka.uri(written), "until_end": True}
    with pytest.raises(rpq.InputError, match=f"{read}/0 at offset 2: .* further ahead of the stream time, 2"):
        run_topics(query, **common, max_ahead="1000x")
    figures = run_topics(query, **common, max_ahead=100, on_error=kafka.uri(letters))
    assert (figures.rejected, len(kafka.rows(letters)), len(kafka.rows(written))) == (1, 1, 5)
    call = request.getfixturevalue("rpq")
    window = ("--window", "10s", "--slide", "1s", "--time-unit", "s")
    arguments = ("run", "a", "--input", kafka.uri(read), *window, "--until-end")
    status, _, err = call(*arguments, "--max-ahead", "1d", "--on-error", "skip")
    assert status == 0 and f"{read}/0 at offset 2" in err and "than max_ahead allows (1d)" in err
    status, _, err = call(*arguments, "--max-ahead", "1d")
    assert status == 1 and "further ahead of the stream time, 2" in err
