"""Compressed inputs: recognised by what they hold, whole, in several members, cut off or damaged."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import threading

import pyarrow as pa
import pytest

from rpq.errors import InputError
from rpq.readers import open_reader


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
NAMES = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
ALL = pytest.mark.parametrize("suffix", COMPRESS)


def lines(count: int) -> bytes:
    return b"".join(
        b"v%d w%d x %d\n" % (number * 7919 % 100_003, number * 104_729 % 99_991, number) for number in range(count)
    )


def times(path, format="edges", **options) -> list[int]:
    return [time for batch in open_reader(format, path, **options) for time in batch.columns["timestamp"].to_pylist()]


@ALL
@pytest.mark.parametrize("named", [True, False])
def test_compression_is_recognised_whatever_the_name_and_may_have_several_members(tmp_path, suffix, named):
    data, compress = lines(200), COMPRESS[suffix]
    path = tmp_path / (f"edges.txt.{suffix}" if named else "edges.txt")
    padding = bytes(8) if suffix in ("gz", "xz") else b""
    path.write_bytes(compress(data[:900]) + compress(b"") + compress(data[900:]) + padding)
    reader = open_reader("edges", path, batch_rows=1 if named else 1 << 17)
    assert [time for batch in reader for time in batch.columns["timestamp"].to_pylist()] == list(range(200))
    assert reader.bytes_read == reader.bytes_total == path.stat().st_size


@pytest.mark.parametrize(
    ("format", "name", "text", "suffix"),
    [
        ("jsonl", "stream.jsonl", b'{"source":"a","target":"b","label":"x","timestamp":3}\n', "gz"),
        ("stackoverflow", "sx-a2q.txt", b"1 2 3\n", "zst"),
        ("ldbc", "updates.csv", b"3|0|8|5|6|1\n", "xz"),
        ("yago", "facts.tsv", b"<i>\t<a>\t<b>\t<c>\t\n", "bz2"),
        ("gmark", "graph.txt", b"1 2 3\n", "gz"),
    ],
)
def test_every_text_format_may_be_compressed(tmp_path, suffix, format, name, text):
    path = tmp_path / f"{name}.{suffix}"
    path.write_bytes(COMPRESS[suffix](text))
    assert times(path, format) == [0 if format in ("yago", "gmark") else 3]


@pytest.mark.ci
@ALL
@pytest.mark.parametrize("share", [0.7, 1])
def test_a_truncated_file_is_named_after_all_that_precedes_was_delivered(tmp_path, suffix, share):
    path = tmp_path / f"edges.{suffix}"
    data = lines(100_000)
    whole = COMPRESS[suffix](data)
    path.write_bytes(whole[: int(len(whole) * share) - 1])
    read: list[int] = []
    with pytest.raises(InputError, match=f"{path}: the {NAMES[suffix]} file is truncated: it ends too early") as caught:
        for batch in open_reader("edges", path, on_error="skip"):
            read += batch.columns["timestamp"].to_pylist()
    assert caught.value.file == str(path)
    assert read == list(range(len(read)))
    # bzip2 hands out blocks of 900 kB, xz and the others much less.
    assert len(read) > 100_000 * share - 60_000


@ALL
def test_a_damaged_file_is_named(tmp_path, suffix):
    path = tmp_path / f"edges.{suffix}"
    path.write_bytes(COMPRESS[suffix](lines(1000)) + b"rubbish")
    with pytest.raises(InputError, match=f"the {NAMES[suffix]} file is damaged"):
        times(path)


@ALL
def test_a_name_that_promises_too_much(tmp_path, suffix):
    path = tmp_path / f"edges.{suffix}"
    path.write_bytes(b"a b x 1\n")
    with pytest.raises(InputError, match=f"is not a {NAMES[suffix]} file, as its name says"):
        times(path)
    other = "gz" if suffix != "gz" else "xz"
    path.write_bytes(COMPRESS[other](b"a b x 1\n"))
    with pytest.raises(InputError, match=f"as its name says, but {NAMES[other]}"):
        times(path)


def test_text_that_begins_like_a_compressed_file_is_text(tmp_path):
    path = tmp_path / "edges"
    path.write_bytes(b"BZ b x 1\n")
    assert times(path) == [1]


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
@ALL
def test_a_compressed_pipe_in_small_pieces(tmp_path, suffix):
    pipe = tmp_path / f"pipe.{suffix}"
    os.mkfifo(pipe)
    data = COMPRESS[suffix](lines(200))

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as file:
            file.writelines(data[start : start + 100] for start in range(0, len(data), 100))

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert times(pipe, batch_rows=3) == list(range(200))
    feeder.join()
