"""What was acknowledged is there again, whatever ends the server."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import threading
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import rpq
from rpq.serve.tuple_journal import JournalError, TupleJournal, read_tuple_journal
from tests.served import Command, Served, lines

PATH = {"expression": "a+", "window": 100_000, "slide": 10, "semantics": "explicit"}


def tuples(count: int, *, first: int = 0) -> list[tuple[str, str, str, int]]:
    return [(f"v{number}", f"w{number}", "a", number) for number in range(first, first + count)]


def batch(*rows: tuple) -> pa.RecordBatch:
    names = ("source", "target", "label", "timestamp")
    columns = [pa.array(column) for column in zip(*rows)]
    columns[2] = columns[2].dictionary_encode()
    return pa.RecordBatch.from_arrays(columns, names)


def crash(served: Served) -> None:
    """End a server of this process without its last checkpoint."""
    served.service.failure = "killed"
    served.stop()


# --- the file --------------------------------------------------------------------------------------------------------


def test_records_are_read_as_they_were_written(tmp_path):
    path = str(tmp_path / "journal")
    journal = TupleJournal(path, run="aa", after=3)
    first, second = batch(("x", "ü", "a", 1)), batch((1, 2, "b", 5), (3, 4, "b", 6))
    journal.write_tuples(4, first, {"files": ["x"], "tuples": 1})
    journal.write_done(5, {"registered": {"expression": "a"}, "start": "window"})
    journal.write_tuples(6, second)
    journal.synchronise()
    found = list(read_tuple_journal(path, run="aa", after=3))
    assert [one.position for one in found] == [4, 5, 6]
    assert found[0].tuples.to_pylist() == first.to_pylist() and found[0].done["progress"] == {"files": ["x"], "tuples": 1}
    assert found[1].done["registered"] == {"expression": "a"} and found[1].tuples is None
    assert found[2].tuples.to_pylist() == second.to_pylist()
    assert [one.position for one in read_tuple_journal(path, run="aa", after=5)] == [6]
    assert journal.bytes == os.path.getsize(path)
    journal.restart(run="aa", after=6)
    assert list(read_tuple_journal(path, run="aa", after=6)) == []
    journal.close()


def test_a_record_that_was_not_written_to_its_end_is_not_there(tmp_path):
    path = tmp_path / "journal"
    journal = TupleJournal(str(path), run="aa", after=0)
    ends = []
    for position in (1, 2, 3):
        journal.write_tuples(position, batch((str(position), "y", "a", position)))
        journal.synchronise()
        ends.append(path.stat().st_size)
    journal.close()
    whole = path.read_bytes()
    for length in range(ends[0], len(whole)):
        path.write_bytes(whole[:length])
        found = [one.position for one in read_tuple_journal(str(path), run="aa", after=0)]
        assert found == [position for position, end in zip((1, 2, 3), ends) if end <= length]
    damaged = bytearray(whole)
    damaged[ends[1] - 5] ^= 0xFF
    path.write_bytes(damaged)
    assert [one.position for one in read_tuple_journal(str(path), run="aa", after=0)] == [1]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "no journal"), (b"x\n", "no journal"), (b'{"version": 99, "run": "aa", "after": 0}\n', "another version")],
)
def test_what_is_no_journal_is_refused(tmp_path, content, said):
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=said):
        list(read_tuple_journal(str(path), run="aa", after=0))


def test_a_journal_of_another_run_is_refused(tmp_path):
    path = str(tmp_path / "journal")
    TupleJournal(path, run="aa", after=7).close()
    for run, after in (("bb", 7), ("aa", 6)):
        with pytest.raises(JournalError, match="does not belong"):
            list(read_tuple_journal(path, run=run, after=after))


# --- a server of this process ----------------------------------------------------------------------------------------


def test_a_server_goes_on_with_its_tuples_its_queries_and_its_positions(tmp_path):
    state = tmp_path / "state"
    with Served(PATH, checkpoint=state, keep=rpq.Window(size=1000, slide=1)) as served:
        assert served.register("SELECT ?x { ?x <a> ?y }", window="count:3", name="sparql").status_code == 201
        served.post(*tuples(5))
        assert served.register("a/b", window=50, name="made", semantics="explicit").status_code == 201
        assert served.register("b", window=50, name="dropped").status_code == 201
        served.client.delete("/queries/dropped")
        served.post(("w4", "z", "b", 6), ("v0", "w0", "a", 7, "-"))
        before = served.client.get("/queries").json()
        position = served.client.get("/statistics").json()["position"]
        answers = {name: served.answers(name) for name in ("a+", "made", "sparql")}
        run = served.service.run
        with served.follow() as events:
            events.next("start")
            last = events.id
        crash(served)
    with Served(PATH, checkpoint=state) as served:
        assert served.service.replayed == 7 and served.service.run == run
        assert served.client.get("/queries").json() == before
        assert {name: served.answers(name) for name in answers} == answers
        figures = served.client.get("/statistics").json()
        assert figures["position"] == position and figures["tuples"] == 7
        assert served.register("c", window=1000, slide=1, name="kept").status_code == 201  # the window is kept still
        with served.follow(header=last) as events:  # nothing was missed
            events.next("start")
            served.post(("w4", "q", "b", 8))
            assert ("made", "+", 8, ("v4", "q")) in events.rows(1)
    with Served(PATH, checkpoint=state) as served:  # which ended well
        assert served.service.replayed == 0 and len(served.answers("made")) == 2
        with served.follow(header=last) as events:
            events.next("start")
            assert events.next("gap")["to"] == served.service.position


def test_a_checkpoint_is_written_now_and_then_and_shortens_the_journal(tmp_path):
    state = tmp_path / "state"
    journal = tmp_path / "state.journal"
    with Served(PATH, checkpoint=state, checkpoint_seconds=0.2) as served:
        empty = journal.stat().st_size
        for number in range(5):
            served.post(*tuples(100, first=100 * number))
        end = time.monotonic() + 600
        while journal.stat().st_size > empty + 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert journal.stat().st_size <= empty + 2
        assert served.client.get("/statistics").json()["tuples"] == 500
        served.post(*tuples(1, first=1000))
        crash(served)
    with Served(PATH, checkpoint=state) as served:
        assert len(served.answers("a+")) == 501


@pytest.mark.parametrize("when", ["after the checkpoint", "before it"])
def test_killed_between_checkpoint_and_journal(tmp_path, when):
    state, journal = tmp_path / "state", tmp_path / "state.journal"
    with Served(PATH, checkpoint=state) as served:
        served.post(*tuples(10), ("v1", "w1", "a", 20, "-"))
        kept = journal.read_bytes()
        if when == "before it":
            crash(served)
    if when == "after the checkpoint":  # it is there, and the journal still has what it has
        journal.write_bytes(kept)
    with Served(PATH, checkpoint=state) as served:
        assert len(served.answers("a+")) == 9 and served.client.get("/statistics").json()["tuples"] == 11


def test_a_journal_that_cannot_be_written_acknowledges_nothing(tmp_path, monkeypatch):
    with Served(PATH, checkpoint=tmp_path / "state") as served, served.follow() as events:
        events.next("start")
        assert served.post(*tuples(1)).status_code == 200
        events.next("changes")

        def full(*args: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(served.service._journal, "synchronise", full)
        refused = served.post(*tuples(1, first=1))
        assert refused.status_code == 503 and "No space left" in refused.json()["error"]["message"]
        assert served.post(*tuples(1, first=2)).status_code == 503
        assert served.client.get("/readyz").status_code == 503
        assert served.client.get("/statistics").json()["failure"]
        monkeypatch.undo()
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert ("v0", "w0") in served.answers("a+") and ("v2", "w2") not in served.answers("a+")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    state = tmp_path / "state"
    rpq.Engine().save(state)
    with pytest.raises(rpq.RpqError, match="no checkpoint of `rpq serve`"):
        Served(checkpoint=state)
    (tmp_path / "other.journal").write_bytes(b"")
    with pytest.raises(rpq.RpqError, match="but not the checkpoint"):
        Served(checkpoint=tmp_path / "other")


@pytest.mark.skipif(os.name == "nt", reason="modes of another kind")
def test_what_is_saved_is_for_its_owner_alone(tmp_path):
    state = tmp_path / "state"
    with Served(checkpoint=state) as served:
        served.register("a", window=100, slide=10)
        served.post(("x", "y", "a", 1))
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert files == {"state": 0o600, "state.journal": 0o600, "state.lock": 0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    state.chmod(0o640)  # what an owner decides stays
    with Served(checkpoint=state):
        assert stat.S_IMODE(state.stat().st_mode) == 0o640


# --- the command, killed ---------------------------------------------------------------------------------------------

QUERY = ["a/b*", "--window", "1000000", "--slide", "10", "--semantics", "explicit"]


def test_killed_five_times_nothing_acknowledged_is_lost(tmp_path: Path):
    drawn = random.Random(int(os.environ.get("RPQ_SEED", "5")))
    options = [*QUERY, "--checkpoint", tmp_path / "state", "--checkpoint-every", "0.5s", "--quiet"]
    log = tmp_path / "log"
    acknowledged: list[tuple] = []
    queries = {"a/b*"}
    number = 0
    for _ in range(5):
        served = Command(*options, log=log)
        over = threading.Event()

        def produce(served: Command = served, over: threading.Event = over) -> None:
            """Post until it is killed; what was not acknowledged is posted again to the next one."""
            nonlocal number
            client = httpx.Client(base_url=served.url, timeout=60)
            while not over.is_set():
                some = [(f"s{drawn.randrange(50)}", f"t{n}", drawn.choice("ab"), n) for n in range(number, number + 7)]
                try:
                    response = client.post("/tuples", content=lines(*some), headers={"content-type": "application/x-ndjson"})
                except httpx.HTTPError:
                    return
                if response.status_code == 200:
                    acknowledged.extend(some)
                number += 7

        producer = threading.Thread(target=produce)
        producer.start()
        name = f"made {len(queries)}"
        if served.register("a", window=1000, slide=10, name=name).status_code == 201:
            queries.add(name)
        time.sleep(drawn.uniform(0.3, 1.5))
        served.kill()
        over.set()
        producer.join(60)
        served.client.close()
    with Command(*options, log=log) as served:
        there = {one["name"] for one in served.client.get("/queries").json()["queries"]}
        assert queries <= there
        expected = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=1_000_000, slide=10)))
        expected.push_rows(acknowledged)
        answers = served.answers("a/b*")
        missing = expected.answers().pairs() - answers
        assert not missing and len(acknowledged) > 50
        figures = served.client.get("/statistics").json()
        # What was not acknowledged may be there, once: it was on its way when the server was killed.
        assert len(acknowledged) <= figures["tuples"] <= len(acknowledged) + 5 * 7
        assert served.end() == 0


def test_sigterm_ends_it_well(tmp_path: Path):
    options = [*QUERY, "--checkpoint", tmp_path / "state", "--checkpoint-every", "1h"]
    with Command(*options, log=tmp_path / "log") as served:
        events = served.follow()
        events.next("start")
        served.post(("x", "y", "a", 1))
        events.next("changes")
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert events.next("end") == {"reason": "the server is stopping"}
        assert served.process.wait(60) == 0 and time.monotonic() - began < 30
    head = json.loads((tmp_path / "state.journal").read_bytes().split(b"\n")[0])
    assert head["after"] == 2 and (tmp_path / "state.journal").read_bytes().count(b"\n") == 1
    with Command(*options, log=tmp_path / "log") as served:
        assert served.answers("a/b*") == {("x", "y")}
        assert "goes on at position 2" in (tmp_path / "log").read_text()
        assert served.end(signal.SIGINT) == 130
