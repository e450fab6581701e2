"""The answers of a query at one moment, and small HTML tables for notebooks."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rpq.errors import InputError
from rpq.rows.delta import Position

if TYPE_CHECKING:
    import pandas

LENGTH = 80  # characters of a value that are shown


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: int = 0) -> str:
    """Return an HTML table with escaped names and values; `more` is the number of rows that are left out.

    >>> html_table("2 rows", ["vertex"], [["<b>"]], more=1)
    '<table><caption>2 rows</caption><thead><tr><th>vertex</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr>\
<tr><td colspan="1">… 1 more</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = ["".join(f"<td>{escape(_short(value))}</td>" for value in row) for row in rows]
    if more:
        body.append(f'<td colspan="{len(columns)}">… {more:,} more</td>')
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"


def cursor_of(position: Position, key: bytes) -> str:
    """Return a position in the answers of a query as a text, signed with the query's key.

    >>> position_of(cursor_of((7, 0, 1), b"secret"), b"secret")
    (7, 0, 1)
    """
    text = ".".join(map(str, position))
    return f"{text}.{_signature(text, key)}"


def _signature(text: str, key: bytes) -> str:
    return hmac.digest(key, text.encode(errors="replace"), "sha256").hex()[:16]


def position_of(cursor: str, key: bytes) -> Position:
    """Return the position that `cursor_of` wrote with this key. Raises `InputError`."""
    if isinstance(cursor, str):
        # Only the numbers of a cursor that is signed are read, so they are ids.
        text, _, signature = cursor.rpartition(".")
        expected = _signature(text, key).encode()
        if hmac.compare_digest(expected, signature.encode(errors="replace")):
            return tuple(map(int, text.split(".")))
    raise InputError(
        f"after: {cursor!r} is no cursor of this query since it was registered or the engine was restored; begin without it",
        column="after",
    )


_SHOWN = 3  # rows in a repr
_SHOWN_IN_HTML = 10
_PAIR = ("source", "target")

Answer = tuple[int | str | None, ...]


class Answers:
    """The answers at one moment; those of a path query are pairs (source, target).

    If `limit` cut them off, `cursor` is where the rest begins, for the option `after` of `Engine.answers`.

    - Tuples: iteration, `in` (the first time O(answers), then O(1)), `len`, `pairs`
    - Columns: `to_arrow`, `to_pandas`; polars, DuckDB, pandas and other libraries with the Arrow PyCapsule interface take
      the object itself

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
    >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
    3
    >>> answers = engine.answers()
    >>> len(answers), ("x", "z") in answers, sorted(answers)
    (3, True, [('x', 'y'), ('x', 'z'), ('y', 'z')])
    """

    cursor: str | None
    """The place behind the last row; None if there are no more answers."""

    def __init__(
        self, columns: Sequence[str], values: Sequence[pa.Array], *, count: int, cursor: str | None = None
    ) -> None:
        self._columns = tuple(columns)
        self._values = tuple(values)
        self._count = count
        self.cursor = cursor

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        first = ", ".join(map(str, self._first(_SHOWN)))
        more = ", …" if len(self) > _SHOWN else ""
        noun = "pair" if self._columns == _PAIR else "answer"
        kind, plural = type(self).__name__, "" if len(self) == 1 else "s"
        return f"<{kind}: {len(self):,} {noun}{plural}{f': {first}{more}' if first else ''}>"

    def _repr_html_(self) -> str:
        rows = self._first(_SHOWN_IN_HTML)
        return html_table(f"{len(self):,} answers", self._columns, rows, more=len(self) - len(rows))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._first(self._count))

    def __contains__(self, answer: object) -> bool:
        is_row = isinstance(answer, tuple) and all(one is None or isinstance(one, (int, str)) for one in answer)
        return is_row and answer in self._set

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns of the query, such as source and target.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> engine.answers().to_arrow().sort_by("source").column("source").to_pylist()
        ['x', 'x', 'y']
        """
        return pa.table(dict(zip(self._columns, self._values, strict=True)))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the answers as a pandas frame.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> engine.answers().to_pandas().columns.tolist()
        ['source', 'target']
        """
        return self.to_arrow().to_pandas()

    def pairs(self) -> set[Answer]:
        """Return the answers as a set of pairs.

        >>> import rpq
        >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)]).added
        3
        >>> ("x", "z") in engine.answers().pairs()
        True
        """
        return set(self._set)

    @cached_property
    def _set(self) -> frozenset[Answer]:
        return frozenset(self)

    def _first(self, count: int) -> list[Answer]:
        if not self._values:
            return [()] * min(count, self._count)
        return list(zip(*(column[:count].to_pylist() for column in self._values), strict=True))


class Found(Answers):
    """The pairs that `Engine.find` found.

    `is_cut` is true if a `limit` left some out. `paths` has a path for each pair, in their order; None unless paths were
    asked for.
    """

    def __init__(
        self,
        columns: Sequence[str],
        values: Sequence[pa.Array],
        *,
        count: int,
        is_cut: bool = False,
        paths: tuple[Any, ...] | None = None,
    ) -> None:
        super().__init__(columns, values, count=count)
        self.is_cut = is_cut
        self.paths = paths
