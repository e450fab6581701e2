"""`rpq run --events`: tuples that come as one, through every reader, slice by slice, and over a checkpoint."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rpq as library
from rpq.readers import open_reader
from rpq.readers.batch import Batch, align_to_events
from rpq.readers.column_names import ColumnNames
from rpq.run import loop
from rpq.stream.arrays.event_grouping import whole_events
from tests.commands import Caller

CHAIN = "?x a ?y . ?y b ?z"
COUNTS = "SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x"
HEADER = ["source", "target", "label", "timestamp", "op", "event"]


@pytest.fixture
def rpq(capfdbinary):
    return Caller(capfdbinary)


def stream(events: int = 120, seed: int = 3) -> list[list[Any]]:
    """Events of one to nine tuples, with deletes in them; some tuples are of none."""
    chance = random.Random(seed)
    found: list[list[Any]] = []
    for number in range(events):
        name = None if chance.random() < 0.1 else f"e{number}"
        for _ in range(1 if name is None else chance.randint(1, 9)):
            ends = chance.choice("stuvw"), chance.choice("stuvw")
            found.append([*ends, chance.choice("ab"), number // 2 + chance.choice((0, 0, -1)), chance.choice("+++-"), name])
    return found


def expected(text: str, tuples: list[list[Any]], mode: str, window: Any) -> list[tuple[str, ...]]:
    """The rows of an engine that is given event by event."""
    engine = library.Engine(library.Query(text, window=window), events=mode)
    rows: list[tuple[str, ...]] = []
    begin = 0
    while begin < len(tuples):
        end = begin + 1
        while end < len(tuples) and tuples[end][5] is not None and tuples[end][5] == tuples[begin][5]:
            end += 1
        columns = dict(zip(HEADER[:5], map(list, zip(*(one[:5] for one in tuples[begin:end]), strict=True)), strict=True))
        found = sorted(tuple(map(str, row[1:])) for row in engine.push(columns, event=True).rows())
        rows += found
        begin = end
    return rows


def rows_of(text: str) -> list[tuple[str, ...]]:
    """Rows in the order of time, those of a moment sorted."""
    _, *rows = csv.reader(text.splitlines())
    assert [int(row[-2]) for row in rows] == sorted(int(row[-2]) for row in rows)
    return sorted(map(tuple, rows), key=lambda row: (int(row[-2]), row))


def by_time(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return sorted(rows, key=lambda row: (int(row[-2]), row))


def written(path: Path, tuples: list[list[Any]], event: str = "event") -> Path:
    """Tuples as a file in the format that its ending names."""
    names = [*HEADER[:5], event]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *([one if one is not None else "" for one in row] for row in tuples)])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in tuples))
    else:
        pq.write_table(pa.table(dict(zip(names, map(list, zip(*tuples, strict=True)), strict=True))), path)
    return path


WINDOW = ("--window", 10, "--slide", 3)


@pytest.mark.parametrize(("name", "text"), [("edges.csv", CHAIN), ("edges.jsonl", "a/b*"), ("edges.parquet", COUNTS)])
def test_rows_are_net_of_events_whatever_the_format(rpq, tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(loop, "FIRST_SLICE", 5)
    monkeypatch.setattr(loop, "LEAST_SLICE", 3)
    tuples = stream()
    path = written(tmp_path / name, tuples)
    status, out, err = rpq("run", text, "--events", "window", "--input", path, *WINDOW, "--output", "-", "--quiet")
    wanted = expected(text, tuples, "window", library.Window(size=10, slide=3))
    assert status == 0, err
    assert rows_of(out) == by_time(wanted) and len(wanted) > 20
    alone = rpq("run", text, "--input", path, *WINDOW, "--output", "-", "--quiet")[1]
    assert rows_of(alone) != rows_of(out), "without --events each tuple is one"


@pytest.mark.parametrize("text", [CHAIN, "a/b"])
def test_each_event_alone_needs_no_window(rpq, tmp_path, monkeypatch, text):
    monkeypatch.setattr(loop, "FIRST_SLICE", 4)
    tuples = stream()
    path = written(tmp_path / "edges.csv", tuples, "ride")
    run = ("run", text, "--events", "alone", "--columns", "event=ride", "--input", path, "--output", "-")
    status, out, err = rpq(*run)
    assert status == 0 and "window unbounded" in err, err
    wanted = expected(text, tuples, "alone", library.UnboundedWindow())
    assert rows_of(out) == by_time(wanted) and len(wanted) > 10
    assert {row[-1] for row in rows_of(out)} == {"+"}


def test_an_event_of_rdf_is_a_graph(rpq, tmp_path):
    quads = "".join(
        f"<{source}> <{label}> <{target}> <e{graph}> .\n".replace("<", "<urn:x:")
        for source, label, target, graph in [("p", "a", "q", 1), ("q", "b", "r", 1), ("q", "b", "s", 2), ("p", "a", "q", 3)]
    )
    path = tmp_path / "events.nq"
    path.write_text(quads)
    text = "SELECT ?x ?z { ?x <urn:x:a>/<urn:x:b> ?z }"
    of_rdf = ("--format", "rdf", "--rdf-time", "graph-position", "--input", path, "--output", "-", "--quiet")
    assert rpq("run", text, "--events", "alone", *of_rdf)[1].splitlines() == ["x,z,timestamp,op", "urn:x:p,urn:x:r,1,+"]
    rows = rpq("run", text, "--events", "window", "--window", "count:3", *of_rdf)[1].splitlines()[1:]
    assert rows == ["urn:x:p,urn:x:r,1,+", "urn:x:p,urn:x:s,2,+"]


def test_what_a_generator_makes_is_answered_event_by_event(rpq, tmp_path):
    """Files of several blocks: an event goes over their ends."""
    path = tmp_path / "taxi.csv"
    assert rpq("generate", "rdf", "--edges", 24_000, "--output", path, "--seed", 5)[0] == 0
    run = ("run", "--query", "NY-Q1", "--dataset", "taxi", "--events", "alone", "--input", path)
    status, out, err = rpq(*run, "--output", "-")
    assert status == 0, err
    rows = rows_of(out)
    trips = {row[0] for row in rows}
    assert len(rows) == len(trips) == 1_000  # 24 triples each
    assert "1,000 added, 0 removed" in err


def test_static_edges_are_there_beside_each_event(rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("static.csv").write_text("source,target,label\nq,admin,role\n")
    Path("edges.csv").write_text("source,target,label,timestamp,event\np,q,a,1,g\nr,q,a,2,h\n")
    run = ("run", "?x a ?y . ?y role ?z", "--events", "alone", "--static", "static.csv", "--input", "edges.csv")
    assert rpq(*run, "--output", "-", "--quiet")[1].splitlines()[1:] == ["p,q,admin,1,+", "r,q,admin,2,+"]


# --- where an event goes on in another batch -------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet"])
def test_batches_are_cut_at_the_ends_of_events(tmp_path, name, rows):
    tuples = stream(40)
    path = written(tmp_path / name, tuples)
    columns = ColumnNames(has_events=True)
    reader = open_reader("edges", [str(path)], columns=columns, batch_rows=rows)
    batches = list(align_to_events(iter(reader)))
    read = [(row["source"], row["timestamp"], row["event"]) for batch in batches for row in batch.columns.to_pylist()]
    assert read == [(one[0], one[3], one[5]) for one in tuples]
    ends = Counter(event for batch in batches for event in {row["event"] for row in batch.columns.to_pylist()} - {None})
    assert set(ends.values()) == {1}, "no event is in two batches"
    assert all(isinstance(batch, Batch) and batch.bytes_read for batch in batches)


def test_what_is_deleted_may_be_told_by_some_batches_alone():
    first = pa.table({"event": ["g"], "source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]})
    second = first.append_column("delete", pa.array([True])).append_column("other", pa.array(["?"]))
    (table,) = whole_events([first, second])
    assert table["delete"].to_pylist() == [False, True]
    (table,) = whole_events([second, first])
    assert table["delete"].to_pylist() == [True, False]
    engine = library.Engine(library.Query("a", window=library.UnboundedWindow()), events="window")
    assert [row for changes in engine.run([first, second]) for row in changes.rows()] == []


# --- going on, and what is wrong -------------------------------------------------------------------------------------


def test_a_run_goes_on_between_events(rpq, tmp_path, monkeypatch):
    """A run that a bad line ends in the middle of an event stands in front of that event."""
    mode, other = "window", "alone"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "FIRST_SLICE", 6)
    tuples = stream()
    written(tmp_path / "edges.csv", tuples)
    whole = Path("edges.csv").read_text().splitlines()
    middle = next(row for row in range(300, 600) if tuples[row - 1][5] == tuples[row][5] == tuples[row + 1][5])
    run = ("run", CHAIN, "--events", mode, "--input", "edges.csv", *WINDOW, "--output", "rows.csv", "--quiet")
    run = (*run, "--checkpoint", "state")
    Path("edges.csv").write_text("\n".join([*whole[: middle + 1], "this is no tuple", *whole[middle + 1 :]]) + "\n")
    status, _, err = rpq(*run)
    assert status == 1 and f"edges.csv:{middle + 2}" in err
    some = len(Path("rows.csv").read_text().splitlines())
    Path("edges.csv").write_text("\n".join(whole) + "\n")
    assert rpq(*run)[0] == 0
    wanted = expected(CHAIN, tuples, mode, library.Window(size=10, slide=3))
    assert rows_of(Path("rows.csv").read_text()) == by_time(wanted) and 5 < some < len(wanted)
    run = ("run", CHAIN, "--events", other, "--input", "edges.csv", "--output", "rows.csv")
    status, _, err = rpq(*run, "--checkpoint", "state")
    assert status == 2 and f"--events was {mode}, now {other}" in err


def test_of_an_event_with_a_bad_tuple_nothing_is_taken(rpq, tmp_path):
    path = tmp_path / "edges.csv"
    late = 2**63 - 2  # above what a window of this size can hold
    rows = [("p", "q", 1, "g"), ("r", "q", 2, "h"), ("s", "q", late, "h"), ("t", "q", 3, "h"), ("u", "q", 4, "i")]
    path.write_text("source,target,label,timestamp,event\n" + "".join(f"{s},{t},a,{when},{e}\n" for s, t, when, e in rows))
    run = ("run", "?x a ?y", "--events", "window", "--input", path, *WINDOW, "--output", "-")
    status, out, err = rpq(*run, "--on-error", "skip")
    assert status == 0 and [row[0] for row in rows_of(out)] == ["p", "u"], err
    assert "its event of 3 tuples is left out" in err and "rejected  3 lines" in err
    status, out, err = rpq(*run)
    assert status == 1 and [row[0] for row in rows_of(out)] == ["p"] and f"s q a {late}" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--events", "together", *WINDOW), "'together' is not one of 'window', 'alone'"),
        (("--events", "alone", *WINDOW), "--window 10: each event is evaluated by itself"),
        (("--events", "window"), "Missing option '--window'"),
        (("--events", "window", *WINDOW, "--witness", "--output", "x.csv"), "--witness: the rows of events have no witness"),
        (("--events", "window", *WINDOW, "--columns", "event=ride"), "column 'ride': is missing"),
        (("--columns", "event=label", *WINDOW), "'event' is a column of tuples in events"),
        (("--events", "window", *WINDOW, "--format", "stackoverflow"), "tuples of the format stackoverflow have no events"),
        (
            ("--events", "window", *WINDOW, "--format", "rdf", "--rdf-graph", "stream"),
            "in RDF each graph is an event, and --rdf-graph stream makes it a stream",
        ),
    ],
)
def test_what_does_not_go_with_events_is_refused(rpq, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("source,target,label,timestamp,event\np,q,a,1,g\n")
    status, _, err = rpq("run", "?x a ?y", "--input", "edges.csv", *arguments)
    assert status in (1, 2) and message in re.sub(r"\s+", " ", err)


@pytest.mark.parametrize("content", ["source,target,label,timestamp\np,q,a,1\n", "p q a 1\n"])
def test_an_input_without_events_is_refused(rpq, tmp_path, content):
    path = tmp_path / "edges.csv"
    path.write_text(content)
    status, _, err = rpq("run", "?x a ?y", "--input", path, "--events", "window", *WINDOW)
    assert status == 1 and "missing; expected source, target, label, timestamp, event and optionally op" in err


def test_topics_have_no_events(rpq):
    run = ("run", "a", "--input", "kafka://localhost/edges", "--events", "window", *WINDOW)
    status, _, err = rpq(*run)
    assert status == 2 and "--events applies to files, not to topics" in err


def test_integers_of_json_are_events_too(rpq, tmp_path):
    path = tmp_path / "edges.jsonl"
    lines = [("p", "+", 7), ("p", "-", 7), ("q", "+", 7), ("r", "+", "8"), ("r", "-", None)]
    path.write_text(
        "".join(
            json.dumps({"source": s, "target": "t", "label": "a", "timestamp": 1, "op": op, "event": e}) + "\n"
            for s, op, e in lines
        )
    )
    out = rpq("run", "?x a ?y", "--input", path, "--events", "window", *WINDOW, "--output", "-", "--quiet")[1]
    assert out.splitlines()[1:] == ["q,t,1,+", "r,t,1,+", "r,t,1,-"]
    path.write_text(path.read_text().replace('"event": 7', '"event": 7.5'))
    status, _, err = rpq("run", "?x a ?y", "--input", path, "--events", "window", *WINDOW)
    assert status == 1 and "7.5 is not text; expected the identifier of an event" in err


RECORDS = """
timestamp = "at"
[[edge]]
label = "a"
source = "from"
target = "via"
[[edge]]
label = "b"
source = "via"
target = "to"
op = "op"
"""


def records(count: int = 80, seed: int = 5) -> list[dict[str, Any]]:
    """Records with one edge or two, some of which delete the second; every third is of the same trip as the one before."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        ends: dict[str, Any] = {name: chance.choice("stuvw") for name in ("from", "via", "to")}
        if number % 5 == 0:
            ends["to"] = None
        found.append({**ends, "at": number // 2, "op": chance.choice("++-"), "trip": f"t{number // 3}"})
    return found


def edges_of_records(made: list[dict[str, Any]], *, by_trip: bool) -> list[list[Any]]:
    """The tuples of records, with their event."""
    found = []
    for number, one in enumerate(made):
        event = one["trip"] if by_trip else f"r{number}"
        found.append([one["from"], one["via"], "a", one["at"], "+", event])
        if one["to"] is not None:
            found.append([one["via"], one["to"], "b", one["at"], one["op"], event])
    return found


@pytest.mark.parametrize(
    ("name", "by_trip", "mode"),
    [("records.csv", False, "window"), ("records.jsonl", True, "alone"), ("records.parquet", True, "window")],
)
def test_a_record_of_several_edges_is_an_event(rpq, tmp_path, monkeypatch, name, by_trip, mode):
    monkeypatch.setattr(loop, "FIRST_SLICE", 5)
    monkeypatch.setattr(loop, "LEAST_SLICE", 3)
    made = records()
    (tmp_path / "edges.toml").write_text(("event = 'trip'\n" if by_trip else "") + RECORDS)
    path = tmp_path / name
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(made), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in made))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(made[0]), *(one.values() for one in made)])  # None is empty
    of_mode = WINDOW if mode == "window" else ()
    run = ("run", CHAIN, "--events", mode, *of_mode, "--input", path, "--edges-from", tmp_path / "edges.toml")
    status, out, err = rpq(*run, "--output", "-", "--quiet")
    window = library.Window(size=10, slide=3) if mode == "window" else library.UnboundedWindow()
    wanted = expected(CHAIN, edges_of_records(made, by_trip=by_trip), mode, window)
    assert status == 0, err
    assert rows_of(out) == by_time(wanted) and len(wanted) > 10


def test_an_event_of_rules_needs_events(rpq, tmp_path):
    (tmp_path / "edges.toml").write_text("event = 'trip'\n" + RECORDS)
    (tmp_path / "records.jsonl").write_text(json.dumps(records(1)[0]) + "\n")
    run = ("run", "a/b", *WINDOW, "--input", tmp_path / "records.jsonl", "--edges-from", tmp_path / "edges.toml")
    status, _, err = rpq(*run)
    assert status == 2 and "edge 1 ('a'), key 'event': is set, but events are not enabled; expected --events" in err
