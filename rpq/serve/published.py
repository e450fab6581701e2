"""The changes of one push as followers get them: encoded once, when the first of them needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.files.table_formats import json_arrays
from rpq.results.changes import Changes
from rpq.serve.json_values import json_text, json_value

PART_ROWS = 1000
"""Rows of one event, at most: those of a large push come in several."""

FEW_ROWS = 64
"""So few rows are written one by one; more of them column by column."""

Wanted = frozenset[str] | None
"""Whose changes somebody wants: queries by name, or None for all."""


class Published:
    """The changes of the push with this number; `time` is the stream time behind it, `run` whose numbers these are."""

    def __init__(self, changes: Changes, *, position: int, time: Any, run: str) -> None:
        self.position = position
        self.rows = len(changes)
        self._changes: Changes | None = changes
        self._head = b'{"position":%d,"time":%s,"changes":[' % (position, json_text(json_value(time)))
        self._run = run
        self._lock = threading.Lock()
        self._lines: tuple[list[bytes], np.ndarray | None, list[str]] | None = None
        self._parts: dict[Wanted, list[bytes]] = {}

    def id_of(self, part: int, parts: int) -> str:
        """What tells a part from others: a number with the part, the last one with the number alone."""
        return f"{self.position}-{self._run}" if part == parts else f"{self.position}.{part}-{self._run}"

    def is_encoded(self, wanted: Wanted) -> bool:
        """Whether `parts` costs nothing."""
        return wanted in self._parts or self.rows <= FEW_ROWS

    def parts(self, wanted: Wanted) -> list[bytes]:
        """The events of those who want these queries, as text of server-sent events; none where nothing is theirs.

        O(rows), the first time; may be called from any thread.
        """
        found = self._parts.get(wanted)
        if found is None:
            with self._lock:
                found = self._parts.get(wanted)
                if found is None:
                    found = self._parts[wanted] = self._encoded(wanted)
        return found

    def _encoded(self, wanted: Wanted) -> list[bytes]:
        if self._lines is None:
            assert self._changes is not None
            self._lines = _lines_of(self._changes)
            self._changes = None
        lines, numbers, names = self._lines
        if wanted is not None and numbers is None:
            lines = lines if names[0] in wanted else []
        elif wanted is not None and numbers is not None:
            of_them = np.array([name in wanted for name in names])
            lines = [lines[place] for place in np.flatnonzero(of_them[numbers]).tolist()]
        count = -(-len(lines) // PART_ROWS)
        return [
            b"id: %s\nevent: changes\ndata: %s%s]}\n\n"
            % (self.id_of(part, count).encode(), self._head, b",".join(lines[(part - 1) * PART_ROWS : part * PART_ROWS]))
            for part in range(1, count + 1)
        ]


def _lines_of(changes: Changes) -> tuple[list[bytes], np.ndarray | None, list[str]]:
    """Each row as an object of JSON, in the order of time; of which query each is, by numbers of names (None: the first)."""
    if len(changes) <= FEW_ROWS:
        return _one_by_one(changes)
    tables = [table for table in changes.tables() if table.num_rows]
    if not all(map(_is_plain, tables)):
        return _one_by_one(changes)
    names = sorted({name for table in tables for name in pc.unique(table["query"]).to_pylist()})
    lines = [line for table in tables for line in _lines_of_table(table)]
    if len(names) == 1:
        return lines, None, names
    numbers = np.concatenate([pc.index_in(table["query"], pa.array(names)).to_numpy() for table in tables])
    if len(tables) > 1:
        times = np.concatenate([table["timestamp"].to_numpy() for table in tables])
        order = np.argsort(times, kind="stable")
        lines, numbers = [lines[place] for place in order.tolist()], numbers[order]
    return lines, numbers, names


def _one_by_one(changes: Changes) -> tuple[list[bytes], np.ndarray | None, list[str]]:
    rows = changes.rows()
    places: dict[str, int] = {}
    numbers = [places.setdefault(row[0], len(places)) for row in rows]
    lines = [
        json_text(
            {
                "query": row[0],
                "op": row[-1],
                "timestamp": json_value(row[-2]),
                "values": [json_value(value) for value in row[1:-2]],
            }
        )
        for row in rows
    ]
    return lines, None if len(places) == 1 else np.array(numbers, np.int64), [*places]


def _is_plain(table: pa.Table) -> bool:
    """Whether all values are integers and texts."""
    return all(pa.types.is_integer(field.type) or pa.types.is_string(field.type) for field in table.schema)


def _lines_of_table(table: pa.Table) -> Iterable[bytes]:
    columns = table.column_names
    beside = b"".join(buffer.to_pybytes() for buffer in json_arrays(table.select(["query", "op", "timestamp"])))
    values = b"".join(buffer.to_pybytes() for buffer in json_arrays(table.select(columns[1:-2])))
    if len(columns) == 3:  # an ASK has no columns
        values = b"[]\n" * table.num_rows
    for one, of_it in zip(beside.splitlines(), values.splitlines(), strict=True):
        query, op, timestamp = _cut(one)
        yield b'{"query":%s,"op":%s,"timestamp":%s,"values":%s}' % (query, op, timestamp, of_it)


def _cut(line: bytes) -> tuple[bytes, bytes, bytes]:
    """The three values of `["name","+",7]`, whatever stands in the name."""
    rest, _, timestamp = line[1:-1].rpartition(b",")
    query, _, op = rest.rpartition(b",")
    return query, op, timestamp
