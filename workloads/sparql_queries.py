"""SPARQL queries from publications, by name, with the streams and windows over which they run; the texts are in `queries/`.

A file begins with comments: the question of the query, its source, the stream of `rpq generate rdf --kind` for the query,
its default window (two durations, `unbounded`, or `none` if its text declares all windows), and the differences from the
published text. `named_sparql(name)` is the entry point.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rpq.workloads.named_queries import UnknownQueryError

_FIELDS = ("From", "Stream", "Window", "Changed")


@dataclass(frozen=True, kw_only=True)
class NamedSparql:
    """A query and the fields of its file.

    `stream` is a kind of `rpq generate rdf`. `window` is the size and the slide of the default window as on the command
    line, ("unbounded",), or () if the query needs none. `differences` lists those between `text` and the publication.
    """

    name: str
    about: str
    source: str
    stream: str
    window: tuple[str, ...]
    differences: tuple[str, ...]
    text: str


def sparql_names(stream: str | None = None) -> list[str]:
    """Return the names of all queries, or of the queries over one kind of stream.

    >>> sparql_names("taxi")
    ['NY-Q1', 'NY-Q2', 'NY-Q3']
    """
    return [name for name, query in _queries().items() if stream in (None, query.stream)]


def named_sparql(name: str) -> NamedSparql:
    """Return a query by its name. Raises `UnknownQueryError`.

    >>> named_sparql("ny-q1").window
    ('10m', '1m')
    """
    queries = _queries()
    if name.upper() not in queries:
        close = difflib.get_close_matches(name.upper(), queries, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownQueryError(f"unknown query {name!r}: expected one of {', '.join(queries)}{hint}")
    return queries[name.upper()]


def named_text(name: str, stream: str) -> str:
    """Return the text of a query for `--query NAME --dataset STREAM`. Raises `UnknownQueryError`.

    >>> named_text("LS-Q1", "social").splitlines()[0]
    '# LS-Q1: two posts of one user.'
    """
    query = named_sparql(name)
    if query.stream != stream:
        raise UnknownQueryError(f"{name} cannot run over {stream}: it is a query over {query.stream}")
    return query.text


@cache
def _queries() -> Mapping[str, NamedSparql]:
    folder = files("rpq.workloads").joinpath("queries")
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".rq")]
    found = [_read(text) for text in texts]
    return {query.name: query for query in sorted(found, key=lambda query: _place(query.name))}


def _read(text: str) -> NamedSparql:
    """Read a query file: its text, and the fields of its first comments."""
    header: dict[str, list[str]] = {field: [] for field in _FIELDS}
    first, *others = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    name, about = first.split(": ", 1)
    for line in others:
        field, value = line.split(": ", 1)
        header[field].append(value)
    (source,), (stream,), (window,) = header["From"], header["Stream"], header["Window"]
    return NamedSparql(
        name=name,
        about=about,
        source=source,
        stream=stream,
        window=() if window == "none" else tuple(window.split()),
        differences=tuple(header["Changed"]),
        text=text,
    )


def _place(name: str) -> tuple[str, int, str]:
    """Return a sort key that places Q10 after Q9."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0), name
