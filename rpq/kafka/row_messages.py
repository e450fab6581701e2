"""Rows as messages: the key is the query and its binding, the value the row as an object of JSON.

    ["a2q/c2a","ann","bob"]  →  {"source": "ann", "target": "bob", "timestamp": 25, "op": "+"}

With upsert a row that leaves is a tombstone, a key without a value: a compacted topic then holds the current answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rpq.files.lines import array_pieces, json_cells, object_pieces
from rpq.kafka.sent_messages import Messages
from rpq.results.joined_lines import joined_lines

QUERY = "query"
NOT_IN_KEYS = frozenset({"timestamp", "op", "path"})


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where the rows of a query go: a topic, and the columns of the values."""

    topic: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RowMessages:
    """Makes messages of rows; `destinations` by the names of queries, of which others are dropped."""

    destinations: Mapping[str, Destination]
    upsert: bool = False

    def of(self, rows: pa.Table) -> list[tuple[str, Messages]]:
        """The messages of a table of rows with a column `query`, by topic, in the order of the rows."""
        if not rows.num_rows:
            return []
        names = pc.unique(rows.column(QUERY)).to_pylist()
        wanted = {name: self.destinations[name] for name in names if name in self.destinations}
        if not wanted:
            return []
        kinds = set(wanted.values())
        if len(wanted) == len(names) and len(kinds) == 1:
            (only,) = kinds
            return [(only.topic, self._messages(rows, only.columns))]
        # Rows of several queries that share a topic keep their order there.
        found = []
        for kind in dict.fromkeys(wanted.values()):
            theirs = pa.array([name for name, one in wanted.items() if one == kind])
            part = rows.filter(pc.is_in(rows.column(QUERY), value_set=theirs))
            found.append((kind.topic, self._messages(part, kind.columns)))
        return found

    def _messages(self, rows: pa.Table, columns: Sequence[str]) -> Messages:
        binding = [name for name in rows.column_names if name not in NOT_IN_KEYS]
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        for batch in rows.combine_chunks().to_batches():
            cells = {name: json_cells(batch.column(name)) for name in {*binding, *columns}}
            keys += _lines(array_pieces(cells[name] for name in binding))
            values += _lines(object_pieces(columns, (cells[name] for name in columns)))
        if self.upsert:
            leaves = pc.equal(rows.column("op"), "-").to_pylist()
            values = [None if is_gone else value for is_gone, value in zip(leaves, values, strict=True)]
        return Messages(keys, values)


def _lines(pieces: Sequence[str | pa.Array]) -> list[bytes]:
    return joined_lines(pieces).split(b"\n")[:-1]
