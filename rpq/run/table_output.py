"""The sink (`rpq.Sink`) of a run whose answers are tables of a PostgreSQL database, kept equal to them.

A table has a row for each answer: its columns, how many `times` it holds, and the `timestamp` of the last change of that
number. The rows of a run are collected, and netted before they are committed: an answer that has come and gone since the
last commit is never written.

A transaction changes all tables of a run, and in the table `rpq_positions` beside them the number of the source's position
(`SliceSource.sequence`).  So rows and position are both in the database, or neither is.  A run that is resumed pushes again
what was committed after its checkpoint.  `rpq_positions` counts the transactions of a run: after a connection is lost in the
middle of a commit the number says whether it has happened, and of two runs over one table it stops one.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError, install_command
from rpq.run.loop import OutputError
from rpq.run.table_names import POSITIONS, TableName, quote_name, table_in
from rpq.stream.sinks import Sink

Found = TypeVar("Found")

LOG = logging.getLogger("rpq.run")

QUERY, TIMESTAMP, TIMES = "query", "timestamp", "times"

COMMIT_ROWS = 200_000
"""The number of rows that are committed without waiting."""

NET_ROWS = 1_000_000
"""The number of rows that are netted before there are more."""

START_SECONDS, RETRY_SECONDS = 10.0, 60.0
"""How long a run waits for a database that does not answer: when it begins, and later."""

OLDEST_SERVER = 150_000
"""PostgreSQL 15: unique indexes in which a null equals a null."""


@dataclass(frozen=True, kw_only=True)
class AnswerTable:
    """A table with the answers of some `queries`; `columns` identify an answer."""

    name: TableName
    columns: tuple[str, ...]
    queries: frozenset[str]


def answer_tables(outputs: Iterable[tuple[str, Sequence[str], str]], *, names_queries: bool) -> list[AnswerTable]:
    """Return the tables in which queries have their answers; each has a name, columns, and the URL of its table.

    If `names_queries`, an answer has the name of its query.  Raises `InputError` for URLs that name no table.

    >>> outputs = [("pairs", ("source", "target"), "postgresql:///shop?table=pairs")]
    >>> [table.columns for table in answer_tables(outputs, names_queries=True)]
    [('query', 'source', 'target')]
    """
    found: dict[str, AnswerTable] = {}
    for query, query_columns, url in outputs:
        name = table_in(url)
        before = found.get(name.identity)
        columns = (*((QUERY,) * names_queries), *query_columns)
        queries = frozenset({query}) | (before.queries if before is not None else frozenset())
        found[name.identity] = AnswerTable(name=name, columns=columns, queries=queries)
    return [*found.values()]


class GoneError(Exception):
    """A database that does not answer, or has ended a transaction that may be repeated; the message is the reason."""


class TableProgress(NamedTuple):
    """The progress of a run in a database: the number of its `transactions`, and of the position of its source."""

    transactions: int
    position: int


class Database(Protocol):
    """The calls of `TableSink` to a database, each one transaction.  All raise `GoneError` and `OutputError`."""

    def claim(self, run: str) -> None:
        """Begin a new run with empty tables, at the position 0."""

    def progress(self, run: str) -> TableProgress:
        """Return the progress of a run. Raises `OutputError` if the tables belong to another run."""

    def invalid_tuple(self, tuples: pa.RecordBatch) -> InputError | None:
        """Return an error for the first tuple with a value that the database cannot store, or None."""
        return None

    def apply(self, run: str, changes: Mapping[AnswerTable, pa.Table], *, after: int, position: int) -> None:
        """Change tables and the position in a transaction of the run that follows on `after` others.

        A table of changes has the columns of the answers, `timestamp`, and in `times` by how much their number changes.
        """

    def close(self) -> None:
        """Disconnect."""


class TableSink(Sink):
    """The sink of a run whose answers are kept in tables of a database.

    `label` names the database in messages.  While the database does not answer, `check` is called, which raises if the run
    must end.
    """

    guarantee = "commit"
    batch_rows = COMMIT_ROWS
    wants_terms = False

    def __init__(
        self,
        tables: Sequence[AnswerTable],
        database: Database,
        *,
        label: str,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = label
        self._run = ""
        self._tables, self._database = tuple(tables), database
        self._check = check
        self._waiting: dict[AnswerTable, list[pa.Table]] = {}
        self._rows = 0
        self._progress = TableProgress(0, 0)

    def begin(self, run: str, position: int | None) -> None:
        """Claim the tables for a new run, or find where that of a checkpoint stands."""
        self._run = run
        if position is None:
            self._retry(lambda: self._database.claim(run), START_SECONDS)
        else:
            self._progress = self._retry(lambda: self._database.progress(run), START_SECONDS)

    def last_commit(self) -> int:
        """Return the number of the position that the database has."""
        return self._progress.position

    def invalid_tuple(self, tuples: pa.RecordBatch) -> InputError | None:
        """Return an error for the first tuple with a value that the database cannot store, or None."""
        return self._database.invalid_tuple(tuples)

    def write(self, rows: pa.Table) -> None:
        """Collect rows."""
        for table in self._tables:
            own = rows.filter(pc.is_in(rows.column(QUERY), pa.array(sorted(table.queries), pa.string())))
            if own.num_rows:
                self._add(table, own)

    def _add(self, table: AnswerTable, rows: pa.Table) -> None:
        weights = pc.if_else(pc.equal(rows.column("op"), "+"), pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
        parts = self._waiting.setdefault(table, [])
        parts.append(rows.select([*table.columns, TIMESTAMP]).append_column(TIMES, weights))
        self._rows += rows.num_rows
        if self._rows >= NET_ROWS:
            self._waiting = {one: [net_changes(pieces, one.columns)] for one, pieces in self._waiting.items()}
            self._rows = 0

    def commit(self, number: int) -> None:
        """Commit all rows together with the number of a position."""
        changes = {table: net_changes(parts, table.columns) for table, parts in self._waiting.items()}
        following = TableProgress(self._progress.transactions + 1, number)
        attempts = iter((False,))
        self._retry(lambda: self._apply(changes, following, is_repeated=next(attempts, True)), RETRY_SECONDS)
        self._progress, self._waiting, self._rows = following, {}, 0

    def _apply(self, changes: Mapping[AnswerTable, pa.Table], following: TableProgress, *, is_repeated: bool) -> None:
        """Apply changes, unless the attempt before did: a connection may be lost between a commit and its answer."""
        if not is_repeated or self._database.progress(self._run) != following:
            self._database.apply(self._run, changes, after=following.transactions - 1, position=following.position)

    def close(self) -> None:
        """Disconnect."""
        self._database.close()

    def _retry(self, call: Callable[[], Found], seconds: float) -> Found:
        """Repeat a transaction while the database is away.  Raises `OutputError` after that many seconds."""
        until, wait, is_away = time.monotonic() + seconds, 0.05, False
        while True:
            try:
                found = call()
            except GoneError as gone:
                if time.monotonic() + wait > until:
                    raise OutputError(
                        f"{self.name}: has not answered for {seconds:g} seconds: {gone}.  Rows and position are those of "
                        "the last commit; with --checkpoint, the run continues from there when it is started again"
                    ) from gone
                self._check()
                if not is_away:
                    LOG.warning("%s: waiting for the database: %s", self.name, gone)
                is_away = True
                time.sleep(wait)
                wait = min(2 * wait, 0.5)
                continue
            if is_away:
                LOG.warning("%s: the database is back", self.name)
            return found


def net_changes(parts: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Return each row once, with the sum of its `times` and its largest `timestamp`.  O(rows).

    Rows whose times sum up to 0 stay: the time of the last change is theirs.

    >>> rows = pa.table({"x": ["a", "b", "a"], "timestamp": [1, 2, 3], "times": [1, 1, -1]})
    >>> net_changes([rows], ["x"]).sort_by("x").to_pylist()
    [{'x': 'a', 'timestamp': 3, 'times': 0}, {'x': 'b', 'timestamp': 2, 'times': 1}]
    """
    names = parts[0].column_names
    rows = pa.concat_tables(_with_equal_types(parts), promote_options="permissive")
    rows = _with_equal_zeros(rows).rename_columns(list(map(str, range(len(names)))))
    numbers = [str(names.index(key)) for key in keys]
    timestamp, times = (str(names.index(name)) for name in (TIMESTAMP, TIMES))
    grouped = rows.group_by(numbers).aggregate([(timestamp, "max"), (times, "sum")])
    return grouped.select([*numbers, f"{timestamp}_max", f"{times}_sum"]).rename_columns([*keys, TIMESTAMP, TIMES])


def _with_equal_zeros(rows: pa.Table) -> pa.Table:
    """Return rows in which -0.0 is 0.0 and all values that are no number are one, as they are for a database."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            numbers = pc.add(rows.column(place), pa.scalar(0.0, field.type))
            numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(float("nan"), field.type), numbers)
            rows = rows.set_column(place, field.name, numbers)
    return rows


def _with_equal_types(parts: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables in which a column without values has the type that it has in the other tables."""
    if all(part.schema.equals(parts[0].schema) for part in parts):
        return list(parts)
    types = {name: part.schema.field(name).type for part in parts for name in part.column_names if not _is_null(part, name)}
    return [
        pa.table({
            name: pa.nulls(part.num_rows, types[name]) if name in types and _is_null(part, name) else part.column(name)
            for name in part.column_names
        })
        for part in parts
    ]  # fmt: skip


def _is_null(rows: pa.Table, name: str) -> bool:
    return bool(rows.column(name).null_count == rows.num_rows)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------

_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "text"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "timestamp with time zone"),
    (pa.types.is_timestamp, "timestamp without time zone"),
)

_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
"""The first and the last day of PostgreSQL's dates, counted from 1970: in the years 4714 BC and 5,874,897."""

_TRANSIENT_STATES = re.compile(r"08...|57P0[1-5]|40001|40P01|53300|55P03")
"""Conditions after which a transaction is repeated: connections, a server that stops, conflicts with other transactions."""

_NOT_THERE = (
    "connection refused", "no such file or directory", "closed the connection", "connection reset", "no connection",
    "timeout", "timed out", "terminating", "starting up", "shutting down", "recovery", "too many", "connection slots",
    "accepting connections", "ssl syscall", "could not receive", "could not send", "broken pipe", "network is unreachable",
    "no route to host",
)  # fmt: skip
"""Texts that identify messages about lost connections, which have no condition code."""

_HINTS = {
    "54000": "; a row of the unique index over the answer's columns is too long (about 2,700 bytes): select other columns",
    "42501": "; the user needs to select, insert, update and delete in the table and in rpq_positions, or to create both",
}


class PostgresTables:
    """Tables of a PostgreSQL database for `TableSink`.

    `identity` describes the run, and `differences` compares that of a table with it.  `times` is the type of timestamps if
    they are no numbers.  With `replaces` a new run empties tables that have rows.
    """

    def __init__(
        self,
        tables: Sequence[AnswerTable],
        *,
        identity: Mapping[str, Any],
        differences: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]],
        times: pa.DataType | None = None,
        replaces: bool = False,
    ) -> None:
        # In one order, so that runs do not wait for one another in a circle.
        self._tables = sorted(tables, key=lambda table: table.name.sql)
        self._identity, self._differences = json.loads(json.dumps(identity)), differences
        self._times, self._replaces = times, replaces
        self._connection: Any = None
        self._schemas: dict[AnswerTable, pa.Schema] = {}
        self._selected: dict[AnswerTable, list[str]] = {}

    def claim(self, run: str) -> None:
        """Create missing tables, and empty those with rows or refuse them."""
        with self._transaction() as sql:
            sql.one("SELECT pg_advisory_xact_lock(hashtext('rpq_positions'))::text")
            for table in self._tables:
                positions = table.name.sibling(POSITIONS)
                if not sql.exists(positions):
                    sql.run(
                        f"CREATE TABLE {positions} (name text PRIMARY KEY, run text NOT NULL, transactions bigint NOT NULL, "
                        "position bigint NOT NULL, identity text NOT NULL, created bigint, "
                        "written timestamptz NOT NULL DEFAULT now())"
                    )
                before = sql.one(f"SELECT identity, created FROM {positions} WHERE name = $1 FOR UPDATE", table.name.name)
                created = None if before is None else before[1]
                if sql.exists(table.name.sql):
                    self._check_columns(sql, table)
                    if sql.one(f"SELECT 1 FROM {table.name.sql} LIMIT 1"):
                        self._clear_table(sql, table, before)
                else:
                    created = self._create(sql, table)
                sql.run(f"DELETE FROM {positions} WHERE name = $1", table.name.name)
                sql.run(
                    f"INSERT INTO {positions} (name, run, transactions, position, identity, created) "
                    f"VALUES ($1, $2, 0, 0, $3, {'NULL' if created is None else created})",
                    *(table.name.name, run, json.dumps(self._identity)),
                )

    def _create(self, sql: _Statements, table: AnswerTable) -> int:
        """Create a table, and return its oid.  Columns are texts until rows say better (`_fit`)."""
        time_type = "bigint" if self._times is None else _type_of(self._times)
        keys = ", ".join(map(quote_name, table.columns))
        columns = ", ".join(f"{quote_name(column)} text" for column in table.columns)
        name = table.name.sql
        sql.run(f"CREATE TABLE {name} ({columns}, {TIMESTAMP} {time_type}, {TIMES} bigint NOT NULL)")
        sql.run(f"CREATE UNIQUE INDEX ON {name} ({keys}) NULLS NOT DISTINCT")
        sql.run(f"CREATE INDEX ON {name} ({TIMES}) WHERE {TIMES} <= 0")  # with which answers that leave are found
        created = sql.one("SELECT to_regclass($1)::oid::bigint", name)
        assert created is not None
        return int(created[0])

    def _check_columns(self, sql: _Statements, table: AnswerTable) -> None:
        expected, found = {*table.columns, TIMESTAMP, TIMES}, sql.columns(table.name.sql)
        if found.keys() != expected:
            raise OutputError(
                f"{table.name.label}: has the columns {', '.join(found)}; expected "
                f"{', '.join([*table.columns, TIMESTAMP, TIMES])}.  Name another table; it is created if it does not exist"
            )
        unique = sql.all(
            "SELECT (SELECT string_agg(a.attname, chr(1) ORDER BY a.attname) FROM pg_attribute a "
            "WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) FROM pg_index i "
            "WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL "
            "AND (i.indnullsnotdistinct OR i.indisprimary) AND NOT 0 = ANY (i.indkey)",
            table.name.sql,
        )
        if sorted(table.columns) not in [sorted(str(names).split(chr(1))) for (names,) in unique]:
            keys = ", ".join(map(quote_name, table.columns))
            raise OutputError(
                f"{table.name.label}: has no unique index to find answers by; expected CREATE UNIQUE INDEX ON "
                f"{table.name.sql} ({keys}) NULLS NOT DISTINCT"
            )

    def _clear_table(self, sql: _Statements, table: AnswerTable, before: tuple[Any, ...] | None) -> None:
        if self._replaces:
            sql.run(f"DELETE FROM {table.name.sql}")  # readers see the rows until this is committed
            return
        what = "has rows, which no run has written"
        if before is not None:
            found = self._differences(json.loads(before[0]), self._identity)
            what = f"has the rows of another run ({'; '.join(found) or 'with the same options'})"
        raise OutputError(
            f"{table.name.label}: {what}, and this run begins anew, so that rows would be counted twice: expected the "
            "--checkpoint of that run, --replace, which empties the table, or another table"
        )

    def progress(self, run: str) -> TableProgress:
        """Return the progress of a run in all tables."""
        found = set()
        with self._transaction() as sql:
            for table in self._tables:
                positions = table.name.sibling(POSITIONS)
                row = None
                if sql.exists(positions) and sql.exists(table.name.sql):
                    row = sql.one(f"SELECT run, transactions, position FROM {positions} WHERE name = $1", table.name.name)
                if row is None or row[0] != run:
                    what = "was dropped, or never written by this run" if row is None else "was taken over by another run"
                    raise OutputError(
                        f"{table.name.label}: {what}; a checkpoint continues its own table.  Remove the checkpoint to start "
                        "anew (with --replace if the table has rows)"
                    )
                found.add(TableProgress(row[1], row[2]))
        if len(found) > 1:
            raise OutputError(
                f"{self._label}: the tables of this run are at different positions, so one of them was restored.  Remove "
                "the checkpoint, and start anew with --replace"
            )
        return found.pop()

    def invalid_tuple(self, tuples: pa.RecordBatch | pa.Table) -> InputError | None:
        """Return an error for the first tuple with a text or a time that PostgreSQL cannot store, or None."""
        rows = {name: pc.index(_is_invalid(tuples.column(name)), True).as_py() for name in tuples.schema.names}
        found = min(((row, name) for name, row in rows.items() if row >= 0), default=None)
        if found is None:
            return None
        row, name = found
        value = tuples.column(name)[row]
        if pa.types.is_temporal(value.type):
            what = f"{value.type} {value.value} is outside the years 4713 BC to 294,246 of times in PostgreSQL"
        else:
            what = f"{value.as_py()!r} contains the character NUL, which texts of PostgreSQL cannot contain"
        return InputError(f"row {row}: column {name}: {what}", row=row, column=name)

    def apply(self, run: str, changes: Mapping[AnswerTable, pa.Table], *, after: int, position: int) -> None:
        """Change tables, and count the transaction in all of them."""
        with self._transaction() as sql:
            for table in self._tables:
                counted = sql.one(
                    f"UPDATE {table.name.sibling(POSITIONS)} "
                    "SET transactions = transactions + 1, position = $1, written = now() "
                    "WHERE name = $2 AND run = $3 AND transactions = $4 RETURNING 1",
                    *(position, table.name.name, run, after),
                )
                if not counted:
                    raise OutputError(
                        f"{table.name.label}: another run has taken over the table; only one run at a time can use a table "
                        "and a checkpoint"
                    )
            for number, table in enumerate(self._tables):
                if table in changes:
                    self._change(sql, table, f"rpq_changes_{number}", changes[table])

    def _change(self, sql: _Statements, table: AnswerTable, temporary: str, changes: pa.Table) -> None:
        """Change a table: copy the changes into a temporary one, add their times, and delete rows that are in no answer."""
        if (invalid := self.invalid_tuple(changes)) is not None:  # from a static edge, or computed by a query
            raise OutputError(f"{table.name.label}: {str(invalid).removeprefix(f'row {invalid.row}: ')}")
        if self._schemas.get(table) != changes.schema:
            self._fit(sql, table, temporary, changes)
        name, names = table.name.sql, ", ".join(map(quote_name, changes.column_names))
        sql.copy(temporary, changes)
        sql.run(
            f"INSERT INTO {name} AS present ({names}) SELECT {', '.join(self._selected[table])} FROM pg_temp.{temporary} "
            f"ON CONFLICT ({', '.join(map(quote_name, table.columns))}) DO UPDATE "
            f"SET {TIMES} = present.{TIMES} + excluded.{TIMES}, {TIMESTAMP} = excluded.{TIMESTAMP}"
        )
        sql.run("SET LOCAL enable_seqscan = off")  # a table without statistics would be read as a whole
        if sql.one(f"SELECT 1 FROM {name} WHERE {TIMES} < 0 LIMIT 1"):
            raise OutputError(
                f"{table.name.label}: lacks rows that have to be removed, so another program changed it.  Remove the "
                "checkpoint, and start anew with --replace"
            )
        sql.run(f"DELETE FROM {name} WHERE {TIMES} <= 0")

    def _fit(self, sql: _Statements, table: AnswerTable, temporary: str, changes: pa.Table) -> None:
        """Make the temporary table for changes of these types, and give columns that never had a value their types."""
        types = {field.name: _type_of(field.type) for field in changes.schema}
        for field in changes.schema:
            if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
                raise OutputError(
                    f"{table.name.label}: the times of the column {field.name} have nanoseconds, and those of PostgreSQL "
                    "microseconds, so different answers would be equal; expected timestamps as numbers, or another output"
                )
        present = sql.columns(table.name.sql)
        is_own = sql.one(
            f"SELECT 1 FROM {table.name.sibling(POSITIONS)} WHERE name = $1 AND created = to_regclass($2)::oid::bigint",
            *(table.name.name, table.name.sql),
        )
        self._selected[table] = []
        for column, kind in types.items():
            selected = quote_name(column)
            if kind != present.get(column):
                if _is_null(changes, column):
                    selected = f"NULL::{present.get(column)}"
                elif is_own and not sql.one(f"SELECT 1 FROM {table.name.sql} WHERE {selected} IS NOT NULL LIMIT 1"):
                    sql.run(f"ALTER TABLE {table.name.sql} ALTER COLUMN {selected} TYPE {kind} USING NULL::{kind}")
                else:
                    raise OutputError(
                        f"{table.name.label}: the column {column} is of type {present.get(column)}, and the answers have "
                        f"values of type {kind}; expected a table with such a column, or a table that does not exist yet"
                    )
            self._selected[table].append(f"{selected}::numeric" if kind == "numeric" else selected)
        columns = ", ".join(
            f"{quote_name(column)} {'text' if kind == 'numeric' else kind}" for column, kind in types.items()
        )
        sql.run(f"DROP TABLE IF EXISTS pg_temp.{temporary}")
        sql.run(f"CREATE TEMPORARY TABLE {temporary} ({columns}) ON COMMIT DELETE ROWS")
        # A column without values may have some of the type of the table next time.
        if not any(_is_null(changes, column) for column in changes.column_names):
            self._schemas[table] = changes.schema

    # --- the connection --------------------------------------------------------------------------------------

    @property
    def _label(self) -> str:
        return self._tables[0].name.place

    @contextmanager
    def _transaction(self) -> Iterator[_Statements]:
        """Commit the statements of a block, or disconnect if one of them fails, which rolls them back."""
        driver = _driver()
        try:
            if self._connection is None:
                self._connection = driver.connect(self._tables[0].name.url)
                self._schemas = {}
                self._check_server()
            with self._connection.cursor() as cursor:
                yield _Statements(cursor)
            self._connection.commit()
        except driver.Error as error:
            self.close()
            raise self._describe_error(error) from error
        except BaseException:
            self.close()
            raise

    def _check_server(self) -> None:
        with self._connection.cursor() as cursor:
            server = _Statements(cursor).one(
                "SELECT current_setting('server_version_num')::bigint, version(), current_setting('server_encoding')"
            )
        if server is not None and server[0] < OLDEST_SERVER:
            raise OutputError(f"{self._label}: is {server[1].partition(' on ')[0]}; expected PostgreSQL 15 or newer")
        if server is not None and server[2] not in ("UTF8", "SQL_ASCII"):  # the driver converts no texts
            raise OutputError(f"{self._label}: the database has the encoding {server[2]}; expected a database in UTF8")

    def _describe_error(self, error: Any) -> GoneError | OutputError:
        """Return the error of a statement, or of a connection, without passwords."""
        condition, text = error.sqlstate, _message_of(self._tables[0].name.without_secrets(error))
        if condition is None:
            is_away = any(words in text.lower() for words in _NOT_THERE)
        else:
            is_away = _TRANSIENT_STATES.fullmatch(condition) is not None
        if is_away:
            return GoneError(text)
        return OutputError(f"{self._label}: {text}{_HINTS.get(condition, '')}")

    def close(self) -> None:
        """Disconnect; an open transaction is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except _driver().Error:
                pass  # it is lost already


class _Statements:
    """The statements of a transaction, through a cursor."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def run(self, statement: str, *values: Any) -> None:
        """Run a statement without rows."""
        self._cursor.execute(statement, values or None)

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        self._cursor.execute(statement, values or None)
        return list(map(tuple, self._cursor.fetchall()))

    def one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row of a statement, or None."""
        return next(iter(self.all(statement, *values)), None)

    def exists(self, name: str) -> bool:
        """Return whether there is a table with a quoted name."""
        return bool(self.all("SELECT 1 WHERE to_regclass($1) IS NOT NULL", name))

    def columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table with their types."""
        return dict(
            self.all(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                name,
            )
        )

    def copy(self, name: str, rows: pa.Table) -> None:
        """Copy rows into a temporary table, decimals as texts: some releases of the driver shift their point."""
        for place, field in enumerate(rows.schema):
            if pa.types.is_decimal(field.type):
                rows = rows.set_column(place, field.name, rows.column(place).cast(pa.string()))
        self._cursor.adbc_ingest(name, rows, mode="append", temporary=True)


def _driver() -> Any:
    """Import and return the driver.  Raises `OutputError` if it is not installed."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise OutputError(
            f"tables of PostgreSQL need the extra postgresql: {install_command('postgresql')} (adbc-driver-postgresql is "
            "not installed)"
        ) from error
    return dbapi


def _is_invalid(values: pa.Array | pa.ChunkedArray) -> pa.BooleanArray | pa.ChunkedArray:
    """Return which values PostgreSQL cannot store: texts with NUL, dates and times outside its calendar."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.match_substring(values, "\0")
    if pa.types.is_date32(kind):
        values, first, last = values.cast(pa.int32()), _FIRST_DAY, _LAST_DAY
    elif pa.types.is_timestamp(kind):
        per_second, most = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], 2**63 - 1
        # The driver counts microseconds from 1970 in 64 bits, which end before the times of PostgreSQL do.
        first, last = max(_FIRST_DAY * 86_400 * per_second, -most), min(most * per_second // 10**6, most)
    else:
        return pa.array([], pa.bool_())
    numbers = values.cast(pa.int64())
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))


def _type_of(kind: pa.DataType) -> str:
    """Return the type of PostgreSQL for one of Arrow.  Raises `OutputError` for a type without one."""
    for is_kind, name in _TYPES:
        if is_kind(kind):
            return name
    raise OutputError(f"values of the type {kind} have no type in PostgreSQL here; select other columns")


def _message_of(error: str) -> str:
    r"""Return what PostgreSQL says in an error of the driver.

    >>> _message_of("IO: [libpq] Failed to execute query 'SELECT 1': ERROR:  relation \"a\" does not exist\nLINE 1: …")
    'relation "a" does not exist'
    """
    found = re.search(r"(?:ERROR|FATAL):\s+(.*)", error)
    text = found[1] if found is not None else re.sub(r"^[A-Z_]+: (?:\[libpq\] )?(?:Failed to connect: )?", "", error)
    return " ".join(text.split())
