"""Bytes from gzip files, pipes and standard input, whole or cut off."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rpq.errors import InputError
from rpq.readers import source
from rpq.readers.edges import open_edges
from rpq.readers.source import ByteSource

ROOT = Path(__file__).parents[2]


def lines(count: int) -> bytes:
    return b"".join(b"a%d b x %d\n" % (number * 7919 % 1000, number) for number in range(count))


def times(paths, **options) -> list[int]:
    reader = open_edges([str(path) for path in paths], **options)
    return [time for batch in reader for time in batch.columns["timestamp"].to_pylist()]


def test_a_truncated_gzip_delivers_what_precedes(tmp_path):
    path = tmp_path / "edges.gz"
    whole = gzip.compress(lines(20_000))
    path.write_bytes(whole[: len(whole) // 2])
    read: list[int] = []
    with pytest.raises(InputError, match="truncated") as caught:
        for batch in open_edges([str(path)], on_error="skip"):
            read += batch.columns["timestamp"].to_pylist()
    assert caught.value.file == str(path)
    assert 5_000 < len(read) < 15_000
    assert read == list(range(len(read)))


def test_a_damaged_gzip_is_an_input_error(tmp_path):
    path = tmp_path / "edges.gz"
    whole = bytearray(gzip.compress(lines(1000)))
    whole[-6] ^= 1  # the checksum
    path.write_bytes(whole)
    with pytest.raises(InputError, match="damaged"):
        times([path])
    path.write_bytes(gzip.compress(lines(3)) + b"rubbish")
    with pytest.raises(InputError, match="damaged"):
        times([path])


def test_what_cannot_be_opened_is_said_at_once(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file") as caught:
        open_edges([str(tmp_path / "missing")])
    assert caught.value.file == str(tmp_path / "missing")
    with pytest.raises(InputError, match="is a directory"):
        ByteSource(str(tmp_path))
    with pytest.raises(InputError, match="no input"):
        open_edges([])
    with pytest.raises(InputError, match="standard input can be read only once"):
        open_edges(["-", "-"])


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LONGEST_LINE", 10_000)
    path = tmp_path / "edges"
    path.write_bytes(b"a b x 1\n" + b"a" * 100_000)
    with pytest.raises(InputError, match=":2: the line is longer than"):
        times([path], batch_rows=10)


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_a_slow_pipe_delivers_what_it_has(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first_seen = threading.Event()

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as file:
            file.write(b"a b x 1\na b x 2\na b ")  # the last line is not complete yet
            assert first_seen.wait(10)
            file.write(b"x 3\n")

    feeder = threading.Thread(target=feed)
    feeder.start()
    reader = open_edges([str(pipe)])
    assert reader.bytes_total is None
    batches = iter(reader)
    begin = time.monotonic()
    assert next(batches).columns["timestamp"].to_pylist() == [1, 2]
    assert time.monotonic() - begin < 5
    first_seen.set()
    assert [row for batch in batches for row in batch.columns["timestamp"].to_pylist()] == [3]
    feeder.join()


def test_standard_input(tmp_path):
    code = (
        "from rpq.readers import open_reader\n"
        "for batch in open_reader('edges', '-'): print(batch.columns['timestamp'].to_pylist())"
    )
    (tmp_path / "edges").write_bytes(b"a b x 1\na b x 2\n")
    with open(tmp_path / "edges", "rb") as file:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True, stdin=file)
    assert done.stdout.split() == [b"[1,", b"2]"]
