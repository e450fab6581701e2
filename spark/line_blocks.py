"""Lines of text files, which Spark separates and decompresses, as blocks of bytes for the parsers of `rpq.readers.text`.

Spark passes the bytes of a line on unchanged, except for the line feed at its end.  It decides by the ending of a name how a
file is compressed, and `rpq run` by the first bytes of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.readers.parquet import ARROW_MAGIC, MAGIC
from rpq.readers.source import BYTE_ORDER_MARK, compression_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Piece(NamedTuple):
    """A piece of a file: the URI of the file, the place of the first byte, and whether the piece extends to the end."""

    file: str
    start: int
    is_last: bool


def line_rows(reader: Any, paths: str | list[str]) -> DataFrame:
    """Return the lines of text files, each with its piece, by a reader of data frames or of streams."""
    from pyspark.sql import functions as sql

    lines: DataFrame = reader.option("lineSep", "\n").text(paths)
    end = "_metadata.file_block_start + _metadata.file_block_length >= _metadata.file_size"
    return lines.select("value", "_metadata.file_path", "_metadata.file_block_start", sql.expr(end).alias("is_last"))


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Piece, Iterator[bytes]]]:
    """Yield the pieces of files in rows of `line_rows`, each with its lines as blocks of text without a byte order mark.

    Raises `InputError` for a file whose first bytes are not those of text.
    """
    for piece, runs in groupby(_runs(batches), lambda run: run[0]):
        yield piece, _blocks(piece, (lines for _, lines in runs))


def _blocks(piece: Piece, runs: Iterable[pa.Array]) -> Iterator[bytes]:
    is_first = piece.start == 0
    for lines in runs:
        data = _join_lines(lines)
        if is_first:
            check_is_text(piece.file, data)
            data = data.removeprefix(BYTE_ORDER_MARK)
        is_first = False
        yield data


def check_is_text(file: str, beginning: bytes) -> None:
    """Raise `InputError` if the first bytes of a file are those of another format, or of a compression.

    >>> check_is_text("edges.csv", b"BZh91AY")
    Traceback (most recent call last):
    rpq.errors.InputError: edges.csv: is compressed with bzip2; Spark needs a name that ends in .bz2
    """
    compression = compression_of(beginning)
    if compression is not None and file.endswith(compression.suffix):
        raise InputError(f"{file}: Spark does not read {compression.name}; compress the file with gzip", file=file)
    if compression is not None:
        what = f"is compressed with {compression.name}; Spark needs a name that ends in {compression.suffix}"
        raise InputError(f"{file}: {what}", file=file)
    for magic, name in ((MAGIC, "Parquet"), (ARROW_MAGIC, "an Arrow file")):
        # The first bytes of a text may be the same letters.
        if beginning.startswith(magic) and b"\0" in beginning[:64]:
            raise InputError(f"{file}: is {name}; expected lines of text", file=file)


def _join_lines(lines: pa.Array) -> bytes:
    """Return lines as one block of text, each with a line end."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines.cast(pa.binary()))
    return bytes(pc.binary_join(whole, b"\n")[0].as_buffer()) + b"\n"


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Piece, pa.Array]]:
    """Yield runs of consecutive lines of one piece."""
    for batch in batches:
        ends = pc.run_end_encode(batch["file_path"]).run_ends.to_pylist()
        ends = sorted({*ends, *pc.run_end_encode(batch["file_block_start"]).run_ends.to_pylist()})
        begin = 0
        for end in ends:
            path, start, is_last = (batch[name][begin].as_py() for name in ("file_path", "file_block_start", "is_last"))
            yield Piece(unquote(path), start, is_last), batch["value"].slice(begin, end - begin)
            begin = end
