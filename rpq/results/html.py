"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

LENGTH = 80  # characters of a value that are shown


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: int = 0) -> str:
    """An HTML table; names and values are text, whatever they look like. `more` tells how many rows are left out.

    >>> table("2 rows", ["vertex"], [["<b>"]], more=1)
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
