"""URLs of tables in PostgreSQL: `postgresql://user@host/database?table=answers`.

Everything but `table` is libpq's: environment variables (`PGPASSWORD`), a file of passwords and services apply as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from rpq.errors import InputError

_SCHEMES = ("postgresql://", "postgres://")
_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<login>[^@/?#]*)@)?(?P<host>[^@/?#]*)(?:/(?P<database>[^@/?#]*))?", re.IGNORECASE
)
_SECRETS = ("password", "sslpassword")

POSITIONS = "rpq_positions"
"""The table with the positions of runs, in the schema of each table."""

MAX_BYTES = 63
"""The longest name in PostgreSQL, which cuts longer ones."""


@dataclass(frozen=True, kw_only=True)
class TableName:
    """A table of a database; `url` is that of the database, with the login, which no message or file may contain.

    >>> table = table_in("postgresql://ann:secret@db.example/shop?table=graph.reachable&sslmode=require")
    >>> table.label, table.sql
    ('postgresql://db.example/shop?table=graph.reachable', '"graph"."reachable"')
    >>> "secret" in repr(table)
    False
    """

    url: str = field(repr=False)
    place: str
    schema: str | None
    name: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """The name with its schema, as in the URL."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def label(self) -> str:
        """The URL without the login, for messages."""
        return f"{self.place}?table={self.text}"

    @property
    def identity(self) -> str:
        """A name of the table that stays the same when the database moves."""
        return f"postgresql:{self.text}"

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return self.sibling(self.name)

    def sibling(self, name: str) -> str:
        """Return the name in SQL of another table in the same schema."""
        return quote_name(name) if self.schema is None else f"{quote_name(self.schema)}.{quote_name(name)}"

    def without_secrets(self, message: object) -> str:
        """Return a message without the passwords of the URL."""
        text = str(message)
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


def is_table(text: str | None) -> bool:
    """Return whether a text is a URL of a table.

    >>> is_table("postgres://localhost/shop?table=answers"), is_table("answers.csv"), is_table(None)
    (True, False, False)
    """
    return text is not None and text.lower().startswith(_SCHEMES)


def table_in(url: str) -> TableName:
    """Parse the URL of a table.  Raises `InputError`, whose message has no password.

    >>> table_in("postgresql://localhost/shop")
    Traceback (most recent call last):
    ...
    rpq.errors.InputError: postgresql://localhost/shop: names no table; expected postgresql://…/shop?table=NAME
    """
    address, _, query = url.partition("?")
    found = _URL.fullmatch(address)
    if found is None:
        raise InputError(
            "postgresql://…: is not a URL of a database; expected postgresql://USER@HOST:PORT/DATABASE?table=NAME, where "
            "characters such as @, / and # of a user or a password are written %40, %2F and %23"
        )
    place = f"postgresql://{found['host']}/{found['database'] or ''}"
    parameters = _parameters(query)
    names = [unquote(value) for name, value in parameters if name == "table"]
    if not names:
        raise InputError(f"{place}: names no table; expected postgresql://…/{found['database'] or 'DATABASE'}?table=NAME")
    if len(names) > 1:
        raise InputError(f"{place}: names {len(names)} tables; expected one, table=NAME")
    schema, dot, name = names[0].rpartition(".")
    parts = [schema, name] if dot else [name]
    if not all(0 < len(part.encode()) <= MAX_BYTES and "\0" not in part and "." not in part for part in parts):
        raise InputError(
            f"{place}: {names[0]!r} is not a table's name; expected NAME or SCHEMA.NAME of at most {MAX_BYTES} bytes each"
        )
    if name == POSITIONS:
        raise InputError(f"{place}: {POSITIONS} is the table with the positions of runs; name another one")
    other_parameters = "&".join(f"{key}={value}" for key, value in parameters if key != "table")
    passwords = [(found["login"] or "").partition(":")[2], *(value for key, value in parameters if key in _SECRETS)]
    return TableName(
        url=f"{address}?{other_parameters}" if other_parameters else address,
        place=place,
        schema=schema or None,
        name=name,
        secrets=tuple({form for one in passwords if one for form in (one, unquote(one))}),
    )


def one_database(urls: Iterable[str]) -> list[TableName]:
    """Parse URLs of tables in one database.  Raises `InputError` for several: a transaction belongs to one of them."""
    found = [table_in(url) for url in urls]
    for one in found[1:]:
        if one.url != found[0].url:
            raise InputError(
                f"{one.label} and {found[0].label}: are URLs of different databases, but all rows of a run are written in "
                "one transaction: expected URLs that differ only in the table"
            )
    return found


def quote_name(name: str) -> str:
    """Return a name in quotes, as an identifier of SQL.

    >>> print(quote_name('my "x"'))
    "my ""x""\"
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _parameters(query: str) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return [(name, value) for name, _, value in pairs]
