"""Backups: copies of the checkpoint, which other servers continue."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import rpq
from rpq.serve import storage as saving
from rpq.serve.engine_thread import EngineCall
from tests.commands import Caller
from tests.services.served import Served

PATH = {"expression": "a/b*", "window": 100_000, "slide": 10, "semantics": "explicit"}


def tuples(first: int, last: int) -> list[tuple[str, str, str, int]]:
    return [(f"v{7 * n % 40}", f"v{n % 40}", "ab"[n % 2], n) for n in range(first, last)]


def answers_to(posted: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    engine = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=100_000, slide=10), semantics="explicit"))
    engine.push_rows(posted)
    return {*engine.answers()}


def test_a_server_continues_with_a_backup_that_was_written_while_edges_came(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    with Served(PATH, checkpoint=tmp_path / "state", backups=tmp_path / "backups") as served:
        acknowledged = [0]
        is_over = threading.Event()

        def produce() -> None:
            while not is_over.is_set():
                first = acknowledged[-1]
                assert served.post(*tuples(first, first + 5), key=str(first)).status_code == 200
                acknowledged.append(first + 5)

        producer = threading.Thread(target=produce)
        producer.start()
        written = []
        for _ in range(4):
            before = acknowledged[-1]
            response = served.client.post("/checkpoint")
            assert response.status_code == 201, response.text
            written.append((before, response.json(), acknowledged[-1] + 5))
        is_over.set()
        producer.join(60)
        again = [served.client.post("/checkpoint").json() for _ in range(2)]
        assert again[0]["position"] == again[1]["position"]  # there was nothing to save
        written.append((acknowledged[-1], again[1], acknowledged[-1]))
        served.service.failure = "killed"
    assert {path.name for path in (tmp_path / "backups").iterdir()} >= {about["name"] for _, about, _ in written}
    for at_least, about, at_most in written:
        copy = tmp_path / "backups" / about["name"]
        assert copy.stat().st_size == about["bytes"] and copy.stat().st_mode & 0o777 == 0o600
        shutil.copy(copy, tmp_path / "restored")
        with Served(PATH, checkpoint=tmp_path / "restored") as restored:
            count = restored.service.tuples
            assert at_least <= count <= at_most and restored.service.position == about["position"]
            assert restored.answers("a/b*") == answers_to(tuples(0, count))
            for first in range(max(0, count - 5), count + 10, 5):  # the first one is known by its key
                assert restored.post(*tuples(first, first + 5), key=str(first)).status_code == 200
            assert restored.service.tuples == count + 10
            assert restored.answers("a/b*") == answers_to(tuples(0, count + 10))
            restored.service.failure = "killed"
        with Served(PATH, checkpoint=tmp_path / "restored") as restored:
            assert restored.service.tuples == count + 10
        for name in ("restored", "restored.journal"):
            (tmp_path / name).unlink()


@pytest.mark.parametrize("where", ["the checkpoint", "the copy"])
def test_of_a_backup_that_fails_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    (tmp_path / "backups").mkdir()
    with Served(PATH, checkpoint=tmp_path / "state", backups=tmp_path / "backups") as served:
        served.post(*tuples(0, 5))

        def fail(*files: Any, **options: Any) -> None:
            if where == "the copy":
                files[1].write(files[0].read(1000))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            if where == "the copy":
                patched.setattr(saving.shutil, "copyfileobj", fail)
            else:
                patched.setattr(saving, "write_served_state", fail)
            refused = served.client.post("/checkpoint")
            assert refused.status_code == 507 and "no backup was written" in refused.json()["error"]["message"]
            assert not any((tmp_path / "backups").iterdir())
        assert served.post(*tuples(5, 10)).status_code == 200
        assert served.client.post("/checkpoint").status_code == 201


def test_what_cannot_be_saved_is_in_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples that are posted in the same moment, before the backup, and cannot be written to the journal."""
    (tmp_path / "backups").mkdir()
    with Served(PATH, checkpoint=tmp_path / "state", backups=tmp_path / "backups") as served:
        served.post(*tuples(0, 5))
        synchronise = saving.TupleJournal.synchronise

        def fail(self: saving.TupleJournal) -> None:
            if self.waiting_bytes:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            synchronise(self)

        has_begun, gate = threading.Event(), threading.Event()
        served.service.submit(EngineCall(lambda: (has_begun.set(), gate.wait(60)), Future()))
        assert has_begun.wait(60)
        monkeypatch.setattr(saving.TupleJournal, "synchronise", fail)
        found: list[int] = []
        threads = []
        for waiting, ask in enumerate((lambda: served.post(*tuples(5, 10)), lambda: served.client.post("/checkpoint")), 1):
            threads.append(threading.Thread(target=lambda ask=ask: found.append(ask().status_code)))
            threads[-1].start()
            end = time.monotonic() + 60
            while served.service._jobs.qsize() < waiting:
                assert time.monotonic() < end
                time.sleep(0.01)
        gate.set()
        for thread in threads:
            thread.join(60)
        assert sorted(found) == [201, 503]
    (copy,) = (tmp_path / "backups").iterdir()
    with Served(PATH, checkpoint=copy) as restored:
        assert restored.service.tuples == 5


def test_a_server_without_a_folder_for_backups_says_so(rpq: Caller, tmp_path: Path) -> None:
    with Served(PATH, checkpoint=tmp_path / "state") as served:
        refused = served.client.post("/checkpoint")
        assert refused.status_code == 404 and "--backup DIR" in refused.json()["error"]["message"]
    for options, message in (
        (("--backup", tmp_path), "--backup needs --checkpoint"),
        (("--backup", tmp_path / "state", "--checkpoint", tmp_path / "state"), "is not a folder"),
    ):
        status, _, said = rpq("serve", *options, "--port", 0)
        assert status == 2 and message in said
