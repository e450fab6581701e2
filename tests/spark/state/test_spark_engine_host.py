"""The process that keeps the engines of a share while workers come and go: a cache, whose loss changes no row.

semantics.md S7
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.streaming.tws_tester import TwsTester

import rpq
from rpq.engine.machine_memory import default_limit
from rpq.language.hypercube import Share
from rpq.spark.division import engine_bytes, partition_keys, share_limit
from rpq.spark.envelopes import pack
from rpq.spark.errors import PipelineError
from rpq.spark.shipping import ShippedObject
from rpq.spark.stream import engine_host
from rpq.spark.stream.engine_host import connect_engine, error_parts, restore_error
from rpq.spark.stream.packed_rows import PackedRows, pack_rows, row_frames
from rpq.spark.stream.processor import AnswerChanges, PartitionRecord, fields
from rpq.spark.stream.share_engine import PUSHED_ROWS, EngineCache, LocalEngine, ShareSpec
from tests.spark.state.share_rows import changes_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="engines have processes of their own on Linux alone")

QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5))


@pytest.fixture
def parent():
    """Start a process in place of the one that starts Spark's workers."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def folder(tmp_path, monkeypatch, parent) -> Path:
    """Return the folder in which workers find the process; this process is a worker."""
    monkeypatch.setattr(engine_host, "_folder", lambda: str(tmp_path))
    monkeypatch.setattr(engine_host, "_parent", lambda: parent.pid)
    return tmp_path


def hosts(parent: int) -> list[int]:
    """The processes that keep engines for the workers of one."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"rpq.spark.stream.engine_host" in words and str(parent).encode() in words:
                found.append(int(entry.name))
    return found


def wait_for_end(parent: int) -> None:
    deadline = time.monotonic() + 20
    while hosts(parent):
        assert time.monotonic() < deadline, "a process for engines does not end"
        time.sleep(0.05)


def share_spec(*queries: rpq.Query, number: int = 0, memory_limit: int | None = None, packing=pack_rows) -> ShareSpec:
    queries = queries or (QUERY,)
    return ShareSpec(queries=queries, share=Share(number, 2), threads=1, memory_limit=memory_limit, packing=packing)


def tuples(batch: int, *, count: int = 60) -> pa.Table:
    """Return the tuples of a micro-batch, as an engine takes them."""
    chooser = random.Random(batch)
    rows = []
    for place in range(count):
        ends = f"v{chooser.randrange(9)}", f"v{chooser.randrange(9)}"
        rows.append((*ends, chooser.choice("ab"), 30 * batch + place // 2, place % 7 == 6))
    names = ("source", "target", "label", "timestamp", "delete")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def rows_of(engine, batch: int) -> Counter:
    return changes_in(pd.concat(row_frames(engine.apply(tuples(batch), None))))


class TellsLimit(ShippedObject):
    """Packs the memory limit of the process."""

    def __call__(self, changes):
        (engine,) = (one for one in gc.get_objects() if isinstance(one, LocalEngine))
        yield PackedRows(str(engine._limit).encode(), 0)


class NoSpace(ShippedObject):
    """Packs nothing: there is no space left."""

    def __call__(self, changes):
        raise OSError(28, "no space left")


class Slow(ShippedObject):
    """Takes its time, and packs nothing."""

    def __call__(self, changes):
        self.path.write_text(self.path.read_text() + "x")
        time.sleep(0.2)
        return iter(())


class OfAnotherRelease(ShippedObject):
    """An object that another release of this package has packed."""

    def __getstate__(self):
        return {"_packed_by": "0.0.1"}


class Partitions:
    """All shares of a query, each under a tester."""

    def __init__(self, partitions: int = 2) -> None:
        self.keys = partition_keys(partitions)
        numbers = {key: number for number, key in enumerate(self.keys)}
        processors = {key: AnswerChanges([QUERY], numbers=numbers, memory_limit=None, counts=True) for key in self.keys}
        self.testers = {key: TwsTester(one) for key, one in processors.items()}

    def push(self, batch: int) -> Counter:
        table = tuples(batch)
        op = pa.array(np.where(table["delete"].to_numpy(zero_copy_only=False), "-", "+"))
        (record,) = table.drop_columns(["delete"]).append_column("op", op).combine_chunks().to_batches()
        envelopes = pd.DataFrame({"edges": [one["edges"][0].as_py() for one in pack([record])]})
        return sum((changes_in(tester.testInPandas(key, envelopes)) for key, tester in self.testers.items()), Counter())

    def figures(self) -> Counter:
        """Return how the engines of all shares were obtained: kept, updated or rebuilt."""
        names = [field.name for field in fields(PartitionRecord)]
        records = [dict(zip(names, one.peekValueState("record", key), strict=True)) for key, one in self.testers.items()]
        return sum((Counter({name: one[name] for name in ("hits", "catch_ups", "rebuilds")}) for one in records), Counter())


def local_rows(engine: rpq.Engine, batch: int) -> Counter:
    ordered = tuples(batch).to_pylist()
    ordered.sort(key=lambda row: (row["timestamp"], not row["delete"]))
    return Counter(tuple(row) for row in engine.push(pa.Table.from_pylist(ordered)).rows())


@pytest.mark.ci
def test_rows_are_those_of_the_engine_whatever_becomes_of_the_process(folder, parent):
    chooser, parts, engine = random.Random(3), Partitions(), rpq.Engine(QUERY)
    killed = 0
    for batch in range(12):
        assert parts.push(batch) == local_rows(engine, batch)
        assert len(hosts(parent.pid)) == 2, "one a share"
        if batch in (3, 4, 8):
            os.kill(chooser.choice(hosts(parent.pid)), signal.SIGKILL)
            killed += 1
    assert parts.figures() == Counter(hits=2 * 11 - killed, rebuilds=killed)


def test_another_worker_finds_the_engine(folder):
    with connect_engine(share_spec(), EngineCache()) as first:
        assert first.take("stream", ["x"]) is None
        first.build(None, None)
        rows = rows_of(first, 0)
        assert first.outcome.time == 29 and first.store("stream", "one") > 0
    whole = rpq.Engine(QUERY, share=(0, 2))
    assert rows == Counter(tuple(row) for row in whole.push(tuples(0)).rows())
    with connect_engine(share_spec(), EngineCache()) as second:
        assert second.take("another", ["one"]) is None
        assert second.take("stream", ["two", "one"]) == "one"
        whole.push(tuples(1))
        second.catch_up(tuples(1), whole.time)
        assert rows_of(second, 2) == Counter(tuple(row) for row in whole.push(tuples(2)).rows())
        second.store("stream", "three")
    with connect_engine(share_spec(), EngineCache()) as third:
        assert third.take("stream", ["one"]) is None, "it is at another version"
    with connect_engine(share_spec(rpq.Query("b", window=QUERY.window)), EngineCache()) as other:
        other.build(None, None)
        assert {row[0] for row in rows_of(other, 0)} == {"b"}, "what is asked is told anew"


@pytest.mark.ci
def test_an_engine_of_other_options_is_not_taken(folder):
    """Options determine rows, although the states of engines with different options are equal."""

    def query(budget: int) -> rpq.Query:
        return rpq.Query("a/b*", window=QUERY.window, paths="simple", simple_budget=budget, name="q")

    with connect_engine(share_spec(query(3)), EngineCache()) as first:
        first.build(None, None)
        first.store("stream", "one")
    with connect_engine(share_spec(query(4)), EngineCache()) as second:
        assert second.take("stream", ["one"]) is None
        second.build(None, None)
        second.store("stream", "two")
    with connect_engine(share_spec(query(4)), EngineCache()) as third:
        assert third.take("stream", ["two"]) == "two"


def test_engines_in_use_are_counted():
    """Two calls at once have one limit."""
    cache, limit = EngineCache(), 10_000_000
    engines = [LocalEngine(share_spec(memory_limit=limit), cache) for _ in range(2)]
    for batch in range(3):
        for engine in engines:
            if not batch:
                engine.build(None, None)
            rows_of(engine, batch)
    first, second = (engine_bytes(one._engine) for one in engines)
    assert cache.nbytes == first + second
    assert engines[1]._engine._evaluation.guard.limit == limit - first
    engines[1].store("stream", "one")
    assert cache.nbytes == first + second
    del engines[0], engine
    assert cache.nbytes == second, "one that failed half-way is gone"


def test_shares_beyond_the_cores_have_less_each(folder, monkeypatch):
    whole = default_limit()
    cores = os.cpu_count() or 1
    assert share_limit(None, threads=1) == share_limit(None, threads=1, shares=cores) == whole // cores
    assert share_limit(None, threads=1, shares=4 * cores) == whole // (4 * cores)
    assert share_limit(None, threads=2 * cores, shares=1) == whole // 2
    assert share_limit(99, threads=1, shares=4 * cores) == 99
    for number in range(1, 4 * cores):
        (folder / f"rpq-engines-{number}.json").write_text("")
    with connect_engine(share_spec(packing=TellsLimit()), EngineCache()) as engine:
        engine.build(None, None)
        (metrics,) = engine.apply(tuples(0), None)
    assert metrics.rows == str(whole // (4 * cores)).encode()


def test_one_that_was_not_kept_is_gone(folder):
    with connect_engine(share_spec(), EngineCache()) as first:
        first.build(None, None)
        rows_of(first, 0)
        first.store("stream", "one")
    with pytest.raises(KeyError), connect_engine(share_spec(), EngineCache()) as failed:
        assert failed.take("stream", ["one"]) == "one"
        raise KeyError("the task fails")
    with connect_engine(share_spec(), EngineCache()) as next_one:
        assert next_one.take("stream", ["one"]) is None


@pytest.mark.ci
def test_errors_are_what_they_are(folder):
    small = share_spec(rpq.Query("a*", window=rpq.Window(size=9999, slide=1)), memory_limit=20_000)
    with connect_engine(small, EngineCache()) as engine:
        engine.build(None, None)
        with pytest.raises(rpq.MemoryLimitError) as caught:
            for batch in range(200):
                list(engine.apply(tuples(batch), None))
        assert caught.value.query == "a*" and caught.value.limit <= 20_000 < caught.value.size
        with pytest.raises(RuntimeError, match="AttributeError: .*'nonsense'"):
            engine._call("nonsense")
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        with pytest.raises(rpq.InputError, match="column 'target'"):
            list(engine.apply(tuples(0).drop_columns(["target"]), None))
        with pytest.raises(rpq.StateFormatError, match="the window in the state") as damage:
            engine.build(tuples(0).drop_columns(["target"]), 3)
        assert damage.value.reason == "damaged"


def test_errors_come_through_whole():
    errors = [
        rpq.InputError("where", file="f", line=3, column="c", row=7),
        rpq.RowLimitError("many", query="q", row=4, number=5, limit=2),
        rpq.MemoryLimitError("much", query="q", row=1, size=3, limit=2),
        PipelineError("it"),
    ]
    for error in errors:
        again = restore_error(*error_parts(error))
        assert type(again) is type(error) and str(again) == str(error)
        assert again.__dict__ == error.__dict__
    text = str(restore_error(*error_parts(ZeroDivisionError("by nothing"))))
    assert text.endswith("ZeroDivisionError: by nothing\n")


@pytest.mark.ci
def test_one_that_ends_in_a_call_is_told_of(folder, parent):
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        (host,) = hosts(parent.pid)
        os.kill(host, signal.SIGKILL)
        with pytest.raises(PipelineError, match="has ended; the next task of the share rebuilds the engine"):
            rows_of(engine, 0)
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        assert rows_of(engine, 0)


@pytest.mark.ci
def test_it_ends_with_what_started_it(folder, parent):
    for number in range(2):
        with connect_engine(share_spec(number=number), EngineCache()) as engine:
            engine.build(None, None)
    assert len(hosts(parent.pid)) == 2
    assert {path.name for path in folder.iterdir()} == {"rpq-engines-0.json", "rpq-engines-1.json"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    parent.communicate(b"\n")
    wait_for_end(parent.pid)


def address_of(folder: Path) -> str:
    """Return the address at which the process of the first share listens."""
    return "\0" + json.loads((folder / "rpq-engines-0.json").read_text())["address"]


def calls_as_nobody(address: str) -> None:
    """Ends with 3 where the other end hangs up."""
    os.setuid(65534)
    try:
        Client(address, family="AF_UNIX").recv()
    except EOFError:
        os._exit(3)


@pytest.mark.ci
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_nobody_else_is_served(folder):
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        engine.store("stream", "one")
    stranger = multiprocessing.get_context("fork").Process(target=calls_as_nobody, args=(address_of(folder),))
    stranger.start()
    stranger.join(60)
    assert stranger.exitcode == 3
    with connect_engine(share_spec(), EngineCache()) as engine:
        assert engine.take("stream", ["one"]) == "one", "it serves on"


@pytest.mark.ci
def test_what_others_listen_to_is_left_alone(folder, monkeypatch, parent):
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
    found = [os.getuid() + 1, os.getuid()]
    monkeypatch.setattr(engine_host, "peer_user", lambda connection: found.pop(0))
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
    assert len(hosts(parent.pid)) == 2 and not found


def test_those_that_say_nothing_keep_nobody_waiting(folder):
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        engine.store("stream", "one")
    with Client(address_of(folder), family="AF_UNIX"), connect_engine(share_spec(), EngineCache()) as engine:
        assert engine.take("stream", ["one"]) == "one"


@pytest.mark.ci
def test_an_error_of_files_is_told_like_others(folder, parent):
    with connect_engine(share_spec(packing=NoSpace()), EngineCache()) as engine:
        engine.build(None, None)
        with pytest.raises(RuntimeError, match=r"OSError: \[Errno 28\] no space left"):
            rows_of(engine, 0)


def test_what_it_cannot_read_is_told(folder):
    with (
        pytest.raises(PipelineError, match=r"streaming-rpq .* the driver has 0\.0\.1"),
        connect_engine(share_spec(packing=OfAnotherRelease()), EngineCache()),
    ):
        pass
    with connect_engine(share_spec(), EngineCache()) as engine:
        engine.build(None, None)
        assert rows_of(engine, 0), "it serves on"


@pytest.mark.ci
def test_a_call_ends_with_who_called(folder, tmp_path):
    """Not at its own end, which would be long after."""
    slices, packed = 20, tmp_path / "packed"

    def slow() -> Slow:
        made = Slow()
        made.path = packed
        return made

    packed.write_text("")
    with connect_engine(share_spec(packing=slow()), EngineCache()) as engine:
        engine.build(None, None)
        engine._send(pickle.dumps(("apply", (tuples(0, count=slices * PUSHED_ROWS), None))))
        while not packed.read_text():
            time.sleep(0.01)
    time.sleep(1)
    done = packed.read_text()
    time.sleep(1)
    assert packed.read_text() == done and len(done) < slices


@pytest.mark.long
def test_what_a_file_says_may_be_wrong(folder, parent):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    nobody = f'{{"address": "rpq-none", "parent": {parent.pid}}}'
    for content in ("", "{", nobody, f'{{"address": "rpq-none", "parent": {ended.pid}}}', '{"address": 3}', "[]"):
        (folder / "rpq-engines-0.json").write_text(content)
        with connect_engine(share_spec(), EngineCache()) as engine:
            engine.build(None, None)
            assert rows_of(engine, 0)
    assert len(hosts(parent.pid)) == 6


def test_one_that_does_not_start_is_told_of(folder, monkeypatch):
    monkeypatch.setattr(engine_host.sys, "executable", "/bin/false")
    refusal = pytest.raises(PipelineError, match="does not start: it ended with status 1")
    with refusal, connect_engine(share_spec(), EngineCache()):
        pass


@pytest.fixture
def java() -> None:
    """Skip the test where Spark cannot start."""
    from rpq.spark.jvm.session import check_java

    try:
        check_java()
    except PipelineError as missing:
        pytest.skip(str(missing))


@pytest.mark.long
def test_on_spark_workers_come_and_go(java, session, tmp_path):
    """Every micro-batch finds its engines, a stream that is started again too; if they are lost they are built again."""
    import rpq.spark as pipeline

    engine, wanted, found = rpq.Engine(QUERY), Counter(), []

    def go_on(*batches: int) -> None:
        for batch in batches:
            table = tuples(batch)
            op = np.where(table["delete"].to_numpy(zero_copy_only=False), "-", "+")
            incoming.mkdir(exist_ok=True)
            pq.write_table(table.drop_columns(["delete"]).append_column("op", pa.array(op)), incoming / f"{batch}.parquet")
            os.utime(incoming / f"{batch}.parquet", (10**9 + batch,) * 2)
            wanted.update(local_rows(engine, batch))
        schema = session.read.parquet(str(incoming)).schema
        edges = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(incoming))
        writer = pipeline.stream_to(edges, str(tmp_path / "rows"), QUERY, checkpoint=str(tmp_path / "state"))
        stream = writer.trigger(availableNow=True).start()
        stream.awaitTermination()
        metrics = [one.observedMetrics["rpq"].asDict() for one in stream.recentProgress if one.numInputRows]
        found.extend((one["hits"], one["rebuilds"]) for one in metrics)

    incoming = tmp_path / "in"
    started_by = session.sparkContext._gateway.proc.pid
    go_on(0, 1)
    go_on(2)
    mine = [host for daemon in children(started_by) for host in hosts(daemon)]
    assert len(mine) >= 2  # one a share; those of other tests' streams, too
    for host in mine:
        os.kill(host, signal.SIGKILL)
    go_on(3, 4)
    assert found == [(0, 0), (2, 0), (2, 0), (0, 2), (2, 0)]
    rows = session.read.parquet(str(tmp_path / "rows")).collect()
    assert Counter(map(tuple, rows)) == wanted


def children(parent: int) -> list[int]:
    """The processes that one has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
