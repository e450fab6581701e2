"""Lines put together of constants and columns of texts, row by row.

All texts are laid side by side first, with sixteen bytes behind the last of them: so a piece is mostly one load and one
store, what is too much being overwritten by the next piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.compiled.vector_copy import VECTOR, copy_vector


def joined_lines(pieces: Sequence[str | pa.Array]) -> bytes:
    """For each row the pieces in their order: a constant as it is, of a column (text without nulls) the text of the row.

    O(bytes).

    >>> joined_lines(["<", pa.array(["a", "b"]), ", ", pa.array(["x", ""]), ">\\n"])
    b'<a, x>\\n<b, >\\n'
    """
    columns = [piece.cast(pa.large_string()) for piece in pieces if not isinstance(piece, str)]
    constants = [""]
    for piece in pieces:
        if isinstance(piece, str):
            constants[-1] += piece
        else:
            constants.append("")
    count = len(columns[0])
    offsets = np.empty((len(columns), count + 1), np.int64)
    texts: list[np.ndarray] = []
    begin = 0
    for number, column in enumerate(columns):
        own = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + count + 1]
        np.add(own, begin - own[0], out=offsets[number])
        if own[-1] > own[0]:
            texts.append(np.frombuffer(column.buffers()[2], np.uint8)[own[0] : own[-1]])
        begin += int(own[-1] - own[0])
    beside, ends = _side_by_side(constants)
    lines = np.empty(begin + count * int(ends[-1]) + VECTOR, np.uint8)
    written = _join(beside, ends, np.concatenate([*texts, np.zeros(VECTOR, np.uint8)]), offsets, lines)
    return lines[:written].tobytes()


def _side_by_side(constants: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Constants as bytes, with room behind them, and where each ends."""
    encoded = [constant.encode() for constant in constants]
    return np.frombuffer(b"".join(encoded) + bytes(VECTOR), np.uint8), np.cumsum([0, *map(len, encoded)])


@njit(cache=True, nogil=True)
def _put(target, at, source, start, end):
    """Copy bytes, and more behind them; where the next ones go."""
    written = at
    while start < end:
        copy_vector(target, np.uint64(written), source, np.uint64(start))
        written += VECTOR
        start += VECTOR
    return written - (start - end)


@njit(cache=True, nogil=True)
def _join(constants, ends, texts, offsets, lines):
    columns = offsets.shape[0]
    written = np.int64(0)
    for row in range(offsets.shape[1] - 1):
        for column in range(columns):
            written = _put(lines, written, constants, ends[column], ends[column + 1])
            written = _put(lines, written, texts, offsets[column, row], offsets[column, row + 1])
        written = _put(lines, written, constants, ends[columns], ends[columns + 1])
    return written
