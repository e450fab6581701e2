"""A database in memory for tests of tables: it fails where a test says, and asserts that rows and position fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa

from rpq.run.loop import OutputError
from rpq.run.table_output import AnswerTable, Database, GoneError, TableProgress


class MemoryDatabase(Database):
    """Tables by their names: for each answer how often it holds, and since when.

    `fails` is called at each transaction, once before it and once when it is complete, and may raise an error.
    """

    def __init__(self, fails: Callable[[], None] = lambda: None) -> None:
        self.tables: dict[str, dict[tuple, tuple[int, object]]] = {}
        self.run: str | None = None
        self.at = TableProgress(0, 0)
        self.fails = fails

    def claim(self, run: str) -> None:
        self.fails()
        self.tables, self.run, self.at = {}, run, TableProgress(0, 0)
        self.fails()

    def progress(self, run: str) -> TableProgress:
        self.fails()
        if run != self.run:
            raise OutputError("another run")
        return self.at

    def apply(self, run: str, changes: Mapping[AnswerTable, pa.Table], *, after: int, position: int) -> None:
        self.fails()
        assert run == self.run and after == self.at.transactions and position >= self.at.position
        for table, rows in changes.items():
            found = dict(self.tables.get(table.name.text, {}))
            assert len({*zip(*(rows.column(name).to_pylist() for name in table.columns))}) == rows.num_rows
            for row in rows.to_pylist():
                key = tuple(row[name] for name in table.columns)
                times = found.pop(key, (0, None))[0] + row["times"]
                assert times >= 0
                if times:
                    found[key] = times, row["timestamp"]
            self.tables[table.name.text] = found
        self.at = TableProgress(after + 1, position)
        self.fails()

    def close(self) -> None:
        return

    def answers(self, table: str) -> Counter[tuple]:
        """The answers in a table as a bag."""
        return Counter({key: times for key, (times, _) in self.tables.get(table, {}).items()})


__all__ = ["GoneError", "MemoryDatabase"]
