"""Acknowledged posts survive, whatever ends the server."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import random
import shutil
import signal
import stat
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import rpq
from rpq.run import record_log
from rpq.run.record_log import LogError, parse_log
from rpq.serve import storage as saving
from rpq.serve.engine_thread import EngineCall
from rpq.serve.requests import KeyReused, NotApplied, PostKey, QueryDefaults, StorageUnavailable
from rpq.serve.service import TuplePush
from rpq.serve.storage import (
    KIND,
    EngineOptions,
    JournalContent,
    JournalError,
    JournalName,
    LoadedEngine,
    Storage,
    TupleJournal,
    journal_in,
    read_tuple_journal,
)
from tests.services.served import Command, Served, Talk, alive_at_reload

PATH = {"expression": "a+", "window": 100_000, "slide": 10, "semantics": "explicit"}
KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"


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


def named(**fields: object) -> JournalName:
    return JournalName(**{"generation": 1, "after": 0, "run": "aa", **fields})


def test_records_are_read_as_they_were_written(tmp_path):
    path = str(tmp_path / "journal")
    name = named(after=3)
    journal = TupleJournal.create(path, name)
    first, second = batch(("x", "ü", "a", 1)), batch((1, 2, "b", 5), (3, 4, "b", 6))
    journal.write_tuples(4, first, {"files": ["x"], "tuples": 1})
    journal.synchronise()
    journal.write_query_change(5, {"registered": {"expression": "a"}, "start": "window"})
    journal.write_tuples(6, second)
    assert read_tuple_journal(path).position == 4
    journal.synchronise()
    content = read_tuple_journal(path)
    found = content.records
    assert [one.position for one in found] == [4, 5, 6] and content.position == 6
    assert found[0].tuples.to_pylist() == first.to_pylist() and found[0].details["progress"] == {"files": ["x"], "tuples": 1}
    assert found[1].details["registered"] == {"expression": "a"} and found[1].tuples is None
    assert found[2].tuples.to_pylist() == second.to_pylist()
    assert content.name == name and content.damage is None and content.dropped_bytes == 0
    assert journal.size == os.path.getsize(path)
    journal.close()
    again = TupleJournal.append(path, content)
    again.write_tuples(7, second)
    again.synchronise()
    again.close()
    assert [one.position for one in read_tuple_journal(path).records] == [4, 5, 6, 7]


# --- a journal that is damaged ---------------------------------------------------------------------------------------


class Saved:
    """A state that was saved, with a journal of five groups behind it, and what comes of it once it is changed."""

    def __init__(self, folder: Path) -> None:
        self.state, self.journal = folder / "state", folder / "state.journal"
        opened = self.storage()
        loaded = opened.load()
        self.ends = [self.journal.stat().st_size]
        for position in range(1, 6):
            if position == 1:
                fields = {"expression": "a", "window": 100, "semantics": "explicit"}
                opened.note_query_change(position, {"registered": fields, "start": "window"})
            else:
                opened.note_tuples(position, batch((f"v{position}", "w", "a", position)), None)
            opened.synchronise()
            self.ends.append(self.journal.stat().st_size)
        opened.close()
        assert loaded.state.position == 0
        self.content, self.checkpoint = self.journal.read_bytes(), self.state.read_bytes()
        self.groups = [self.content[first:last] for first, last in itertools.pairwise([0, *self.ends])]

    def storage(self, **options: object) -> Storage:
        made = EngineOptions(make=rpq.Engine, restore=rpq.Engine.restore)
        return Storage(str(self.state), made, **{"defaults": QueryDefaults(fields={}), **options})

    def whole_up_to(self, length: int) -> int:
        """The position up to which the first bytes of the journal go."""
        return sum(end <= length for end in self.ends) - 1

    def read(self, content: bytes) -> JournalContent:
        """Return the records, or the error, that the reader gives for another journal."""
        return journal_in(parse_log(bytes(content), KIND, path="FILE"), path="FILE")

    def load(self, content: bytes | None, **options: object) -> LoadedEngine:
        """Load with another journal, or none; an error has not touched it."""
        self.state.write_bytes(self.checkpoint)
        if content is None:
            self.journal.unlink(missing_ok=True)
        else:
            self.journal.write_bytes(content)
        storage = self.storage(**options)
        try:
            return storage.load()
        except JournalError:
            assert (self.journal.read_bytes() if self.journal.exists() else None) == content
            assert self.state.read_bytes() == self.checkpoint
            raise
        finally:
            storage.close()

    def refused(self, content: bytes | None, *messages: str) -> None:
        with pytest.raises(JournalError) as refused:
            self.load(content)
        for part in (str(self.journal), "move it away", *messages):
            assert part in str(refused.value)

    def loaded(self, content: bytes, position: int) -> None:
        """Load the journal, and check that it contains exactly what was saved up to a position."""
        loaded = self.load(content)
        assert loaded.state.position == position and loaded.state.tuples == max(0, position - 1)
        if position:
            answers = {source for source, _ in loaded.engine.answers("a").pairs()}
            assert answers == {f"v{number}" for number in range(2, position + 1)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("saved"))


def test_a_journal_that_breaks_off_is_read_up_to_there(saved):
    """At every byte; the reader alone is asked, but for some."""
    for length in range(saved.ends[0]):
        with pytest.raises(LogError, match="byte "):
            saved.read(saved.content[:length])
    for length in range(saved.ends[0], saved.ends[-1] + 1):
        found = saved.read(saved.content[:length])
        position = saved.whole_up_to(length)
        assert (found.position, found.dropped_bytes, found.damage) == (position, length - saved.ends[position], None)


def test_a_query_of_the_journal_is_what_it_was_whatever_the_defaults_are_now(saved):
    loaded = saved.load(saved.content, defaults=QueryDefaults(fields={"paths": "simple", "targets": ["w"]}))
    assert loaded.engine.queries == (rpq.Query("a", window=rpq.Window(size=100, slide=3), semantics="explicit"),)


def test_the_start_says_where_a_journal_breaks_off(saved, monkeypatch):
    messages = []
    monkeypatch.setattr("rpq.serve.storage.LOG.warning", lambda text, *values: messages.append(text % values))
    saved.loaded(saved.content[: saved.ends[4]], 4)
    assert messages == []
    saved.loaded(saved.content[: saved.ends[3] + 77], 3)
    message = f"{saved.journal} ends at position 3: a crash left 77 bytes behind it"
    assert [one.partition(",")[0] for one in messages] == [message]
    saved.refused(saved.content[: saved.ends[0] - 1], "its head, at byte 12, is incomplete")


def test_zeros_behind_a_place_are_what_a_loss_of_power_leaves(saved):
    for length in range(saved.ends[0], saved.ends[-1] + 1):
        found = saved.read(saved.content[:length] + bytes(1 + length % 600))
        assert found.damage is None and found.position == saved.whole_up_to(length)
    saved.loaded(saved.content[: saved.ends[3] + 90] + bytes(4096), 3)
    middle = saved.ends[2] + 10
    saved.refused(saved.content[:middle] + bytes(64) + saved.content[middle + 64 :], f"at byte {saved.ends[2]:,}")
    saved.refused(saved.content + bytes(30) + b"\1", f"at byte {saved.ends[-1]:,}")


def test_a_bit_that_is_flipped_is_seen(saved):
    """In every byte; the reader alone is asked, but for some."""
    for place in range(len(saved.content)):
        content = bytearray(saved.content)
        content[place] ^= 1 << place % 8
        if place < saved.ends[0]:
            with pytest.raises(LogError, match="byte "):
                saved.read(content)
        else:
            position = saved.whole_up_to(place)
            found = saved.read(content)
            assert found.position == position and f"at byte {saved.ends[position]:,} of" in str(found.damage)
    saved.refused(bytes(content), "byte ")


def test_records_that_are_missing_twice_there_or_moved_are_seen(saved):
    groups = saved.groups
    for number in range(1, len(groups)):
        before, one, behind = groups[:number], groups[number], groups[number + 1 :]
        changed = [[*before, one, one, *behind]]
        if behind:
            changed += [
                [*before, *behind],
                [*before, behind[0], one, *behind[1:]],
                [*before, one[: len(one) // 2], *behind],
                [*before, one[:-400], *behind],
                [*before, one[:20], one[-20:], *behind],
            ]
        else:  # this alone cannot be seen: it looks as if it was never there
            assert saved.read(b"".join(before)).damage is None
        for parts in changed:
            position = number if parts is changed[0] else number - 1
            found = saved.read(b"".join(parts))
            assert found.position == position and f"at byte {saved.ends[position]:,} of" in str(found.damage)
    message = "record 3 is in the place of record 2"
    saved.refused(b"".join([*groups[:2], *groups[3:]]), f"at byte {saved.ends[1]:,}", message)
    saved.refused(saved.content + saved.content, f"at byte {saved.ends[-1]:,}")


def test_a_journal_of_another_checkpoint_is_refused(saved, tmp_path):
    other = Saved(tmp_path)
    saved.refused(other.content, "does not belong to the checkpoint")
    saved.refused(saved.groups[0] + b"".join(other.groups[1:]), f"at byte {saved.ends[0]:,}")  # its records, under our head
    loaded = saved.load(saved.content)  # writes a checkpoint, whose journal is the next one
    assert loaded.state.position == 5 and loaded.state.generation == 2
    storage = saved.storage()
    storage.load()
    storage.note_tuples(6, batch(("v6", "w", "a", 6)), None)
    storage.synchronise()
    storage.close()
    later, checkpoint = saved.journal.read_bytes(), saved.state.read_bytes()
    saved.refused(later, "number 2, from position 5")  # an older checkpoint
    saved.journal.write_bytes(saved.content)
    saved.state.write_bytes(checkpoint)
    storage = saved.storage()
    with pytest.raises(JournalError, match="continues with journal number 2, from position 5 on; this is number 1"):
        storage.load()
    storage.close()


def test_without_its_journal_a_checkpoint_is_what_it_was(tmp_path):
    saved = Saved(tmp_path)
    run = saved.load(saved.content).state.run
    loaded = saved.load(None)
    assert loaded.is_resumed and loaded.state.position == 0
    assert loaded.state.run != run  # positions come again: whoever followed is told of a gap
    storage = saved.storage()  # and the checkpoint has a journal again
    assert storage.load().state.position == 0
    storage.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (bytes(4096), "it begins with"),
        (b"x\n", "is not a journal of `rpq serve`"),
        (KIND.magic + b"\x63\0\0\0", "of version 99"),
    ],
)
def test_what_is_no_journal_is_refused(saved, content, message):
    saved.refused(content, message)


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    about = {"version": 99, "run": "aa", "position": 7, "progress": None, "tuples": 1, "late": 0}
    rpq.Engine().save(tmp_path / "state", extra={"rpq serve": json.dumps(about)})
    with pytest.raises(rpq.RpqError, match="of version 99, and this release reads version 1"):
        Served(checkpoint=tmp_path / "state")


@pytest.mark.parametrize("step", ["the journal is made", "the checkpoint is written", "the journal gets its name"])
def test_ended_at_any_step_of_a_checkpoint_nothing_is_lost(tmp_path, monkeypatch, step):
    class Killed(BaseException):
        pass

    def killed(*args: object) -> None:
        raise Killed

    with Served(PATH, checkpoint=tmp_path / "state") as served:
        first = served.post(*tuples(5), key=KEY).json()
        storage = served.service.storage
        kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
        if step == "the journal is made":
            monkeypatch.setattr("os.unlink", killed)  # it stays
            monkeypatch.setattr("rpq.serve.storage.write_served_state", killed)
        elif step == "the checkpoint is written":
            monkeypatch.setattr(TupleJournal, "rename", killed)
        with pytest.raises(Killed) if step != "the journal gets its name" else contextlib.nullcontext():
            storage.save(served.service.engine, served.service._state())
        monkeypatch.undo()
        left = {path: path.read_bytes() for path in tmp_path.iterdir()}
        crash(served)
    assert left != kept
    for path in tmp_path.iterdir():
        path.unlink()
    for path, content in left.items():
        path.write_bytes(content)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 5 and served.service.position == 2
        assert not (tmp_path / "state.journal.new").exists() or step == "the journal is made"
        assert served.post(*tuples(5), key=KEY).json() == first and served.service.tuples == 5
        served.post(*tuples(1, first=5))
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 6


def test_two_servers_do_not_have_one_state(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "state")
    with Served(PATH, checkpoint=tmp_path / "state"):
        for name in ("state", "link"):
            with pytest.raises(rpq.RpqError, match="another run uses this checkpoint"):
                Served(PATH, checkpoint=tmp_path / name)


# --- a server of this process ----------------------------------------------------------------------------------------


def test_two_servers_do_not_have_one_state_without_the_lock_file_either(tmp_path):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        served.post(*tuples(1))
        (tmp_path / "state.lock").unlink()
        with pytest.raises(JournalError, match="another run or server uses this file"):
            Served(PATH, checkpoint=tmp_path / "state")
        assert served.post(*tuples(1, first=1)).status_code == 200
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 2


@pytest.mark.parametrize("name", ["state", "state.journal"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_nothing_is_acknowledged_once_a_file_is_removed_or_replaced(tmp_path, name, how):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert served.post(*tuples(1)).status_code == 200
        file = tmp_path / name
        if how == "replaced":
            shutil.copy(file, tmp_path / "copy")
            os.replace(tmp_path / "copy", file)
        else:
            file.unlink()
        for _ in range(2):
            refused = served.post(*tuples(1, first=1))
            assert refused.status_code == 503 and f"{name}: was removed or replaced" in refused.json()["error"]["message"]
        assert served.client.get("/readyz").status_code == 503
    assert served.service.failure is not None


def test_no_checkpoint_is_written_over_that_of_another_server(tmp_path):
    served = Served(PATH, checkpoint=tmp_path / "state")
    served.post(*tuples(1))
    (tmp_path / "state.lock").unlink()
    before = (tmp_path / "state").read_bytes()
    served.stop()
    assert (tmp_path / "state").read_bytes() == before and "state.lock: was removed" in served.service.failure


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
        assert served.service.replayed_tuples == 7 and served.service.run == run
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
        assert served.service.replayed_tuples == 0 and len(served.answers("made")) == 2
        with served.follow(header=last) as events:
            events.next("start")
            assert events.next("gap")["to"] == served.service.position


def test_answers_that_have_not_held_long_enough_go_on_waiting(tmp_path):
    state = tmp_path / "state"
    with Served(PATH, checkpoint=state) as served:
        assert served.register("a+", name="held", window=1000, slide=1, hold=10).status_code == 201
        served.post(("x", "y", "a", 1), ("u", "v", "a", 5))
        assert served.answers("held") == set()
        crash(served)
    told = set()
    for moment, row in ((11, ("x", "y")), (20, ("u", "v"))):  # behind the journal, and behind a checkpoint
        told.add(row)
        with Served(PATH, checkpoint=state) as served, served.follow("held") as events:
            events.next("start")
            served.post(("t", "t", "b", moment))
            assert events.rows(1) == [("held", "+", 11 if moment == 11 else 15, row)]
            assert served.answers("held") == told


def test_a_query_that_exceeds_its_budget_over_the_window_is_registered_and_saved(tmp_path):
    state: dict[str, Any] = {"checkpoint": tmp_path / "state", "keep": rpq.Window(size=1000, slide=1)}
    edges = [(f"{x}", f"{y}", label, 1) for label in "abc" for x in range(6) for y in range(6) if x != y]
    with Served(**state) as served:
        assert served.post(*edges).status_code == 200
        budget = {"paths": "simple", "simple_budget": 1}
        added = served.register("(a/b)*/c", window=1000, slide=10, name="hard", **budget)
        assert added.status_code == 201, added.text
        assert served.service.engine.set_aside("hard")
        answers = served.answers("hard")
        crash(served)
    with Served(**state) as served:
        assert served.service.position == 2 and served.answers("hard") == answers
        assert served.client.delete("/queries/hard").status_code == 204
        crash(served)
    with Served(**state) as served:
        assert served.client.get("/queries").json()["queries"] == []


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


# --- posts with a key -------------------------------------------------------------------------------------------------

DELIVERY = "service.Service._deliver"


def test_a_post_that_is_repeated_with_its_key_has_its_first_outcome(tmp_path):
    """In the same server, after a crash, from a checkpoint, and from a journal after a checkpoint."""
    posted = [*tuples(3), ("x", "late", "a", -200_000)]
    node = {"content": json.dumps({"node": "x", "risk": 4}), "headers": {"content-type": "application/json"}}
    node["headers"]["idempotency-key"] = "of a node"
    for number, ends_well in enumerate((False, False, True, True, False)):
        with Served(PATH, checkpoint=tmp_path / "state") as served:
            for _ in range(2):
                assert served.post(*posted, key=KEY).json() == {"tuples": 4, "late": 1, "time": 2, "position": 2}
                assert served.client.post("/nodes", **node).json() == {"records": 1, "time": 2, "position": 3}
            served.post(*tuples(1, first=7 + number))
            assert (served.service.tuples, served.service.position) == (5 + number, 4 + number)
            for other in (
                served.post(*tuples(2), key=KEY),
                served.post(*posted, key=KEY, stream="s"),
                served.post(*tuples(1), key="of a node"),
            ):
                assert other.status_code == 422 and other.json()["error"]["type"] == "KeyReused"
            if not ends_well:
                crash(served)


@pytest.mark.parametrize("key", ["", 256 * "x"])
def test_a_key_is_a_short_text(key):
    with Served(PATH) as served:
        assert served.post(*tuples(1), key=key).json()["error"]["field"] == "Idempotency-Key"
        assert served.client.get("/statistics").json()["tuples"] == 0


@pytest.mark.parametrize("place", ["storage.Storage.synchronise", "service.Service._acknowledge", DELIVERY])
def test_a_key_is_known_if_and_only_if_its_tuples_are(tmp_path, monkeypatch, place):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        monkeypatch.setattr(f"rpq.serve.{place}", bang)
        assert served.post(*tuples(3), key=KEY).status_code == 503
        monkeypatch.undo()
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        is_there = place == DELIVERY  # which is behind the journal
        assert served.service.tuples == 3 * is_there
        served.post(*tuples(1, first=9))
        assert served.post(*tuples(3), key=KEY).json()["position"] == (2 if is_there else 3)
        assert served.service.tuples == 4


def test_posts_of_one_key_that_come_together_are_applied_once(tmp_path, disk):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        def submit(number: int, key: PostKey) -> Future:
            job = TuplePush(batch((f"v{number}", "w", "a", 1), (f"x{number}", "w", "a", 1)), Future(), key=key)
            served.service.submit(job)
            return job.waiter

        for number, disk.journal in enumerate((0, errno.ENOSPC, 0)):
            gate = threading.Event()
            served.service.submit(EngineCall(lambda gate=gate: gate.wait(60), Future()))
            texts = [f"{number}d", f"{number + 10}d", f"{number}d", f"{number}e"]  # of a key and a digest
            keys = [PostKey(text[:-1], text[-1]) for text in texts]
            waiters = [submit(number, key) for key in keys]
            gate.set()
            if disk.journal:
                for waiter in waiters:
                    with pytest.raises(StorageUnavailable):
                        waiter.result(60)
                disk.journal = 0
                until_ready(served)
                assert submit(number, keys[0]).result(60).tuples == 2
            else:
                assert waiters[0].result(60) == waiters[2].result(60)
                with pytest.raises(KeyReused):
                    waiters[3].result(60)
        assert served.service.tuples == 2 * (2 + 1 + 2) and len(served.answers("a+")) == 6


def test_a_repeated_post_continues_where_the_first_was_refused(tmp_path):
    posted = [("r", "s", "a", 1), ("y", "x", "a", 1), ("s", "t", "a", 1)]
    with Served(PATH, max_rows=3, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", f"z{n}", "a", 1) for n in range(3)])
        for _ in range(2):
            refused = served.post(*posted, key=KEY)
            assert refused.status_code == 507 and refused.json()["error"]["applied"] == 1
            assert served.client.get("/statistics").json()["tuples"] == 4
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert served.post(*posted, key=KEY).json()["tuples"] == 3
        assert served.service.tuples == 6 and len(served.answers("a+")) == 10


def test_the_newest_keys_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "MAX_POSTS", 3)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        for number in range(5):
            served.post(*tuples(1, first=number), key=str(number))
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        positions = [served.post(*tuples(1, first=number), key=str(number)).json()["position"] for number in (2, 3, 4, 1, 2)]
        assert positions == [4, 5, 6, 7, 8]  # 1 was forgotten, and now has the place of 2


# --- a disk that cannot be written ------------------------------------------------------------------------------------


class Disk:
    """Lets writes of the journal, and of checkpoints, fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal = self.checkpoint = self.reading = 0
        """The number of the error; 0 for none."""
        self.written = b""
        write, save, read = record_log.write_through, saving.write_served_state, record_log.read_log

        def write_through(descriptor: int, offset: int, data: bytes) -> None:
            if self.journal:
                write(descriptor, offset, data[: len(data) // 2])
                self._fail(self.journal)
            write(descriptor, offset, data)

        def write_served_state(*given: object) -> None:
            self._fail(self.checkpoint)
            save(*given)

        def read_log(*given: object, **options: object) -> object:
            self._fail(self.reading)
            return read(*given, **options)

        monkeypatch.setattr(record_log, "write_through", write_through)
        monkeypatch.setattr(saving, "write_served_state", write_served_state)
        monkeypatch.setattr("rpq.serve.storage.read_log", read_log)
        monkeypatch.setattr(saving, "FIRST_RETRY", 0.05)
        monkeypatch.setattr(saving, "WRITE_RETRY", 0.0)
        self.messages: list[str] = []
        for level in ("error", "warning"):
            monkeypatch.setattr(saving.LOG, level, lambda text, *values, **_: self.messages.append(text % values))

    @staticmethod
    def _fail(number: int) -> None:
        if number:
            raise OSError(number, os.strerror(number))


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def until_ready(served: Served) -> None:
    end = time.monotonic() + 60
    while served.client.get("/readyz").status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EIO, 503)])
def test_a_full_disk_refuses_what_must_be_saved_and_nothing_else(tmp_path, disk, number, status):
    with Served(PATH, checkpoint=tmp_path / "state") as served, served.follow() as events:
        events.next("start")
        assert served.post(*tuples(3)).status_code == 200
        events.next("changes")
        before = served.client.get("/statistics").json()
        disk.journal = number
        for attempt in range(2):
            refused = served.post(*tuples(2, first=10))
            assert refused.status_code == status and int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["type"] == "StorageUnavailable"
            assert os.strerror(number) in refused.json()["error"]["message"], attempt
        for refused in (served.register("a", window=10), served.client.delete("/queries/a+")):
            assert refused.status_code == status and os.strerror(number) in refused.json()["error"]["message"]
        ready = served.client.get("/readyz")
        assert ready.status_code == 503 and os.strerror(number) in ready.json()["error"]["message"]
        assert served.client.get("/healthz").status_code == 200
        assert len(served.answers("a+")) == 3  # and nothing that was refused
        assert served.of("a+", "witness", value=["v1", "w1"]).status_code == 200
        now = served.client.get("/statistics").json()
        assert now["tuples"] == 3 and now["position"] == before["position"] and os.strerror(number) in now["storage"]
        assert now["failure"] is None and b"rpq_storage_unavailable 1.0" in served.client.get("/metrics").content
        disk.journal = 0
        until_ready(served)  # by itself
        assert served.post(*tuples(2, first=10)).json()["tuples"] == 2
        assert len(events.rows(2)) == 2  # those of the refused ones were not told
        assert served.client.get("/statistics").json()["storage"] is None
        begins, ends = disk.messages
        assert "cannot be written" in begins and "can be written again" in ends
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 5 and served.service.tuples == 5


def test_the_next_write_finds_out_that_there_is_room(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(saving, "FIRST_RETRY", 3600.0)
    monkeypatch.setattr(saving, "LAST_RETRY", 3600.0)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        disk.journal = errno.ENOSPC
        assert served.post(*tuples(1)).status_code == 507
        disk.journal = 0
        assert served.client.get("/readyz").status_code == 503
        assert served.post(*tuples(1)).status_code == 200
        assert served.client.get("/readyz").status_code == 200


def test_ended_while_the_disk_is_full_nothing_refused_is_there(tmp_path, disk):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        served.post(*tuples(3))
        disk.journal = disk.checkpoint = errno.ENOSPC
        assert served.post(*tuples(2, first=10)).status_code == 507
        served.stop()
        storage = served.service.storage
        assert "No space" in storage.outage.reason and "No space" in storage.checkpoint_outage.reason
    disk.journal = 0
    with Served(PATH, checkpoint=tmp_path / "state") as served:  # goes on, though there is no room for a checkpoint
        assert len(served.answers("a+")) == 3 and served.post(*tuples(1, first=20)).status_code == 200
        assert served.client.get("/readyz").status_code == 503
        disk.checkpoint = 0
        until_ready(served)


def test_a_checkpoint_that_cannot_be_written_is_tried_again(tmp_path, disk):
    with Served(PATH, checkpoint=tmp_path / "state", checkpoint_seconds=0.05) as served:
        disk.checkpoint = errno.ENOSPC
        assert served.post(*tuples(3)).status_code == 200
        end = time.monotonic() + 60
        while served.client.get("/readyz").status_code == 200 and time.monotonic() < end:
            time.sleep(0.02)
        assert "No space" in served.client.get("/readyz").json()["error"]["message"]
        assert served.post(*tuples(3, first=5)).status_code == 200  # the journal has it
        assert not (tmp_path / "state.journal.new").exists()
        disk.checkpoint = 0
        until_ready(served)
        assert read_tuple_journal(str(tmp_path / "state.journal")).position == served.service.position
        assert len(disk.messages) == 2, disk.messages
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 6


def test_a_disk_that_cannot_even_be_read_answers_once_it_can(tmp_path, disk):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        served.post(*tuples(3))
        disk.journal = disk.reading = errno.EIO
        disk.reading = errno.EIO
        assert served.post(*tuples(2, first=10)).status_code == 503
        refused = served.of("a+", "answers")  # it would tell what was refused
        assert refused.status_code == 503 and refused.json()["error"]["type"] == "StorageUnavailable"
        assert served.client.get("/queries").status_code == 503  # not an empty list
        assert served.client.get("/statistics").status_code == 200
        disk.journal = disk.reading = 0
        until_ready(served)
        assert len(served.answers("a+")) == 3


def test_an_engine_that_reached_a_limit_is_released_on_a_full_disk_too(tmp_path, disk, monkeypatch):
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        were_alive = alive_at_reload(served, monkeypatch)
        disk.journal = errno.ENOSPC
        assert served.post(("t", "u", "a", 2), ("y", "x", "a", 2)).status_code == 507
        assert were_alive[:1] == [False]
        disk.journal = 0
        until_ready(served)
        assert len(served.answers("a+")) == 10


def test_an_input_waits_for_the_disk_and_misses_nothing(tmp_path, disk):
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        disk.journal = errno.ENOSPC
        waiters = [Future() for _ in range(3)]
        for number, waiter in enumerate(waiters):
            progress = {"files": ["x"], "tuples": number + 1}
            given = batch((f"v{number}", "w", "a", number))
            served.service.submit(TuplePush(given, waiter, lambda rows, progress=progress: progress, waits_for_storage=True))
        assert served.post(*tuples(1, first=10)).status_code == 507
        assert not any(waiter.done() for waiter in waiters) and len(served.answers("a+")) == 0
        disk.journal = 0
        assert [waiter.result(60).tuples for waiter in waiters] == [1, 1, 1]
        assert len(served.answers("a+")) == 3 and served.service.progress == {"files": ["x"], "tuples": 3}
        disk.journal = errno.ENOSPC
        late = Future()
        served.service.submit(TuplePush(batch(("q", "w", "a", 9)), late, waits_for_storage=True))
        served.stop()
        with pytest.raises(StorageUnavailable):
            late.result(60)


def test_posts_and_reads_at_the_same_moment(tmp_path, disk):
    """Requests that come together are refused or answered together; those within the limit are not refused."""
    with Served(PATH, checkpoint=tmp_path / "state", max_rows=50) as served:
        disk.journal = errno.ENOSPC
        jobs = [TuplePush(batch((f"v{n}", "w", "a", n)), Future()) for n in range(3)]
        read = EngineCall(lambda: len(served.service.engine.answers("a+")), Future())
        served.service._loop.call_soon_threadsafe(lambda: [served.service.submit(job) for job in (*jobs[:2], read, jobs[2])])
        assert read.waiter.result(60) == 0
        for job in jobs:
            with pytest.raises(StorageUnavailable):
                job.waiter.result(60)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="files have no limit of size here")
def test_a_file_that_may_not_grow_is_a_disk_without_room(tmp_path):
    """Not injected: the system refuses to write."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert served.post(*tuples(100)).status_code == 200
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, before[1]))
            refused = served.post(*tuples(5000, first=1000))
            assert refused.status_code == 503 and "File too large" in refused.json()["error"]["message"]
            assert len(served.answers("a+")) == 100 and served.client.get("/readyz").status_code == 503
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        end = time.monotonic() + 60
        while served.post(*tuples(5000, first=1000)).status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        crash(served)
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert len(served.answers("a+")) == 5100 and served.service.tuples == 5100


# --- the engine's thread ---------------------------------------------------------------------------------------------


class Bang(BaseException):
    """No exception that anybody expects."""


def bang(*given: object, **options: object) -> None:
    raise Bang("bang")


FAULTS = {
    "in a push": lambda served: ("rpq.engine.engine.Engine.push", bang),
    "in the journal, an exception": lambda served: (
        "rpq.serve.storage.TupleJournal.write_tuples",
        raising(pa.ArrowInvalid("bang")),
    ),
    "on disk": lambda served: ("rpq.serve.storage.TupleJournal.synchronise", bang),
    "as changes are told": lambda served: ("rpq.serve.changes.ChangeHub.publish", raising(KeyError("bang"))),
    "as it is acknowledged": lambda served: ("rpq.serve.service.Service._acknowledge", bang),
    "between jobs": lambda served: ("rpq.serve.service.Service._is_time_to_save", bang),
    "in a checkpoint": lambda served: ("rpq.serve.storage.Storage.save", bang),
}


def raising(error: BaseException) -> Any:
    def call(*given: object, **options: object) -> None:
        raise error

    return call


@pytest.mark.parametrize("where", FAULTS)
def test_whatever_is_raised_in_the_engines_thread_nobody_waits_in_vain(tmp_path, monkeypatch, where):
    seconds = 0.05 if "between" in where or "checkpoint" in where else 3600
    with Served(PATH, checkpoint=tmp_path / "state", checkpoint_seconds=seconds) as served:
        served.client.timeout = 60
        assert served.post(*tuples(3)).status_code == 200
        name, fault = FAULTS[where](served)
        monkeypatch.setattr(name, fault)
        found: list[int] = []
        requests = [
            lambda: served.post(*tuples(1, first=5)),
            lambda: served.post(*tuples(1, first=6)),
            lambda: served.register("a", window=10, semantics="explicit"),
        ]
        threads = [threading.Thread(target=lambda ask=ask: found.append(ask().status_code)) for ask in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(found) == 3 and any(status >= 500 for status in found)) or seconds < 1
        end = time.monotonic() + 60
        while served.client.get("/readyz").status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        ready = served.client.get("/readyz").json()["error"]
        assert ready["type"] == "ServiceFailed" and "bang" in ready["message"]
        assert served.post(*tuples(1, first=7)).status_code == 503
        assert served.of("a+", "answers").status_code == 503
        assert served.client.get("/metrics").status_code in (200, 500, 503)
        acknowledged = 3 + found.count(200)
        monkeypatch.undo()
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        assert acknowledged <= len(served.answers("a+")) <= 5
        if where != "as changes are told":  # which is behind the journal
            assert len(served.answers("a+")) == acknowledged


def test_a_thread_that_has_ended_is_told_and_refuses(monkeypatch):
    with Served(PATH) as served:
        served.client.timeout = 60
        monkeypatch.setattr("rpq.serve.service.Service._fail", bang)  # nothing can be done about it any more
        monkeypatch.setattr("rpq.engine.engine.Engine.push", bang)
        monkeypatch.setattr("threading.excepthook", lambda arguments: None)
        assert served.post(*tuples(1)).status_code >= 500
        served.service._thread.join(60)
        for path in ("/healthz", "/readyz", "/queries/a+/answers", "/statistics"):
            assert served.client.get(path).status_code == 503, path
        assert served.post(*tuples(1)).status_code == 503
        monkeypatch.undo()


def test_posts_that_cannot_be_joined_are_pushed_one_by_one(monkeypatch):
    def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        if len(batches) > 1:
            raise pa.ArrowInvalid("they cannot")
        return batches[0]

    monkeypatch.setattr("rpq.serve.service.concatenate", joined)
    with Served(PATH) as served:
        jobs = [TuplePush(batch((f"v{n}", "w", "a", n)), Future()) for n in range(3)]
        gate = threading.Event()
        served.service.submit(EngineCall(lambda: gate.wait(60), Future()))
        for job in jobs:
            served.service.submit(job)
        gate.set()
        assert [job.waiter.result(60).tuples for job in jobs] == [1] * 3 and len(served.answers("a+")) == 3


def test_a_limit_is_told_with_the_tuple_of_its_post(tmp_path):
    """Posts that wait are pushed together; each client counts its own tuples."""
    with Served(PATH, max_rows=3, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", f"z{n}", "a", 1) for n in range(3)])
        jobs = [
            TuplePush(batch(("u", "v", "a", 1)), Future()),
            TuplePush(batch(("r", "s", "a", 1), ("y", "x", "a", 1)), Future()),
        ]
        gate = threading.Event()
        served.service.submit(EngineCall(lambda: gate.wait(60), Future()))
        for job in jobs:
            served.service.submit(job)
        gate.set()
        assert jobs[0].waiter.result(60).tuples == 1
        with pytest.raises(NotApplied) as refused:
            jobs[1].waiter.result(60)
        assert refused.value.applied == 1 and "tuple 1 of the batch would bring" in str(refused.value)
        assert ("r", "s") in served.answers("a+") and served.post(("p", "q", "a", 2)).status_code == 200


@pytest.mark.parametrize("error", [StopIteration("bang"), MemoryError("bang")])
def test_whatever_a_call_raises_its_request_is_answered(monkeypatch, error):
    with Served(PATH) as served:
        served.client.timeout = 60
        with monkeypatch.context() as patched:
            patched.setattr("rpq.engine.engine.Engine.answers", raising(error))
            refused = served.of("a+", "answers")
            assert refused.status_code == 500 and refused.json()["error"]["type"] == "InternalError"
        assert served.of("a+", "answers").status_code == 200 and served.client.get("/readyz").status_code == 200


# --- other states ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    state = tmp_path / "state"
    rpq.Engine().save(state)
    with pytest.raises(rpq.RpqError, match="not a checkpoint of `rpq serve`"):
        Served(checkpoint=state)
    (tmp_path / "other.journal").write_bytes(b"")
    with pytest.raises(rpq.RpqError, match="exists, but the checkpoint"):
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


@pytest.mark.ci
def test_killed_again_and_again_nothing_acknowledged_is_lost(tmp_path: Path):
    times = 3
    drawn = random.Random(int(os.environ.get("RPQ_SEED", "5")))
    options = [*QUERY, "--checkpoint", tmp_path / "state", "--checkpoint-every", "0.5s", "--quiet"]
    log = tmp_path / "log"
    acknowledged: list[tuple] = []
    waiting: list[tuple] = []
    queries = {"a/b*"}
    for turn in range(times):
        served = Command(*options, log=log)
        over = threading.Event()

        def produce(served: Command = served, over: threading.Event = over) -> None:
            """Post until it is killed; what was not acknowledged is posted again to the next one."""
            talk = Talk(served.url)
            while waiting or not over.is_set():
                number = len(acknowledged)
                times = range(number, number + 7)
                waiting[:] = waiting or [(f"s{drawn.randrange(50)}", f"t{n}", drawn.choice("ab"), n) for n in times]
                try:
                    assert talk.post(*waiting, key=str(number)).status_code == 200
                except httpx.HTTPError:
                    return
                acknowledged.extend(waiting)
                waiting.clear()

        producer = threading.Thread(target=produce)
        producer.start()
        name = f"made {len(queries)}"
        if served.register("a", window=1000, slide=10, name=name).status_code == 201:
            queries.add(name)
        time.sleep(drawn.uniform(0.3, 1.5))
        if turn < times - 1:
            served.kill()
        over.set()
        producer.join(60)
        served.kill()
        served.client.close()
    with Command(*options, log=log) as served:
        there = {one["name"] for one in served.client.get("/queries").json()["queries"]}
        assert queries <= there
        expected = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=1_000_000, slide=10)))
        expected.push_rows(acknowledged)
        answers = served.answers("a/b*")
        missing = expected.answers().pairs() - answers
        assert not missing and len(acknowledged) > 10 * times
        assert served.client.get("/statistics").json()["tuples"] == len(acknowledged)
        assert served.end() == 0


@pytest.mark.ci
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
    content = read_tuple_journal(str(tmp_path / "state.journal"))
    assert content.name.after == 2 and not content.records
    with Command(*options, log=tmp_path / "log") as served:
        assert served.answers("a/b*") == {("x", "y")}
        assert "continues at position 2" in (tmp_path / "log").read_text()
        assert served.end(signal.SIGINT) == 130
