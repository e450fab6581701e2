"""Cutting inputs into splits: pieces that tasks read independently, in the order of the input.

Plain text is cut at bytes (a line belongs to the split in which it begins), Parquet at row groups; a compressed
file is one split, as it can only be read from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers.parquet import is_parquet
from rpq.readers.source import BYTE_ORDER_MARK, Block, ByteSource, compression_of, count_lines

SPLIT_BYTES = 1 << 26
BLOCK_BYTES = 1 << 22
"""What a task parses at once."""

_PLACE_BITS = 40


def split_number(file: int, place: int) -> int:
    """A number that orders splits as the input has them: by the numbers of files, and where in its file a split begins.

    >>> split_number(0, 10**12) < split_number(1, 0) < split_number(1, 5)
    True
    """
    return file << _PLACE_BITS | place


def file_number(split: int) -> int:
    """The number of the file that a split is of.

    >>> file_number(split_number(7, 10**9))
    7
    """
    return split >> _PLACE_BITS


@dataclass(frozen=True, kw_only=True)
class Split:
    """A piece of a file: bytes `start` to `end` of a "text", a whole "compressed" one, or row groups `start` to `end` of
    "parquet".
    """

    path: str
    kind: str
    start: int = 0
    end: int = 0


def splits_of(paths: Sequence[str], *, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of all inputs, in order.  Reads no data but the footers of Parquet files."""
    found: list[Split] = []
    for path in paths:
        if os.path.isdir(path):
            for file in _parquet_files(path):
                found += _parquet(file)
        elif is_parquet(path):
            found += _parquet(path)
        else:
            size = ByteSource(path).size
            if size is None:
                raise InputError(f"{path}: is a pipe; tasks can only share files", file=path)
            with open(path, "rb") as opened:
                compression = compression_of(opened.read(16))
            if compression is not None:
                found.append(Split(path=path, kind="compressed"))
            else:
                starts = range(0, max(size, 1), split_bytes)
                found += [
                    Split(path=path, kind="text", start=start, end=min(start + split_bytes, size)) for start in starts
                ]
    return found


def blocks(split: Split) -> Iterator[tuple[int, Block]]:
    """The whole lines of a text or compressed split, each block with the place of its first byte in the text of the file.

    Lines are counted from 1 at the beginning of the split; a byte order mark does not count.
    """
    if split.kind == "compressed":
        place = 0
        for block in ByteSource(split.path).blocks(BLOCK_BYTES):
            yield place, block
            place += len(block.data)
        return
    with open(split.path, "rb") as file:
        mark = len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
        file.seek(max(mark, split.start - 1))
        if split.start > mark:
            file.readline()  # the line that begins in the split before, or only its end
        line = 1
        while (left := split.end - file.tell()) > 0:
            place = file.tell() - mark
            data = file.read(min(left, BLOCK_BYTES))
            if not data.endswith(b"\n"):
                data += file.readline()
            yield place, Block(data, line)
            line += count_lines(data)


def _parquet_files(folder: str) -> list[str]:
    root = Path(folder)
    found = sorted(
        str(file)
        for file in root.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(root).parts)
    )
    if not found:
        raise InputError(f"{folder}: the folder holds no .parquet file", file=folder)
    return found


def _parquet(path: str) -> list[Split]:
    try:
        groups = pq.read_metadata(path).num_row_groups
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}", file=path) from error
    return [Split(path=path, kind="parquet", start=group, end=group + 1) for group in range(groups)]
