"""Tuples that wait for earlier ones that may still come: a delay for what is out of order.

The watermark is the latest timestamp that has come, less the delay.  Tuples up to it are applied, in the order of time
whichever micro-batch brought them; the others wait in the state, as envelopes.  The latest always waits, so that the
watermark needs no place of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from rpq.spark.envelopes import ROWS, Tuples, unpack
from rpq.spark.packed import packed


class Places(Protocol):
    """Where envelopes wait, by their numbers."""

    def read_all(self) -> list[bytes]: ...

    def replace_all(self, envelopes: Sequence[bytes]) -> None: ...


def passed(envelopes: Sequence[bytes], waiting: Places, *, max_delay: int) -> tuple[Tuples, int]:
    """The tuples that are to be applied now, and how many have come; the others wait from now on. O(tuples that wait)."""
    before = waiting.read_all()
    tuples = unpack([*envelopes, *before])
    come = len(tuples) - sum(len(unpack([one])) for one in before)
    stamps = tuples.table["timestamp"].to_numpy()
    cut = int(stamps.searchsorted(stamps[-1] - max_delay, "right"))
    rest = tuples.table.slice(cut)
    waiting.replace_all([_packed(rest.slice(start, ROWS)) for start in range(0, len(rest), ROWS)])
    return Tuples(table=tuples.table.slice(0, cut), dropped=tuples.dropped, tick=tuples.tick), come


def _packed(table: pa.Table) -> bytes:
    return packed(table.combine_chunks())
