"""SPARQL queries, graphs and rows as short text, for the examples that are drawn and worked by hand."""

from __future__ import annotations

from tests.reference import Edge
from tests.reference_pattern_stream import Row
from tests.reference_sparql import SparqlPattern
from tests.reference_sparql_checks import check
from tests.reference_sparql_parser import parse
from tests.reference_sparql_stream import SparqlReference


def edge(text: str) -> Edge:
    """An edge written "x a y", where the target may be a literal with blanks."""
    source, label, target = text.split(" ", 2)
    return source, label, target


def written(values: tuple) -> str:
    return " ".join("-" if value is None else str(value) for value in values)


def solved(text: str, *edges: str, paths: str = "walk", **windows: tuple[str, ...]) -> dict[str, int]:
    """Rows of a query over edges, as they are shown, an unbound value as "-" -> how often they come."""
    query = parse(text)
    check(query)
    pattern = SparqlPattern(query=query, paths=paths)
    graphs = {None: map(edge, edges), **{name: map(edge, own) for name, own in windows.items()}}
    found: dict[str, int] = {}
    for solution, number in pattern.solutions({name: list(own) for name, own in graphs.items()}).items():
        row = written(pattern.shown(solution))
        found[row] = found.get(row, 0) + number
    return found


def push(engine: SparqlReference, *tuples: str) -> list[str]:
    """Push tuples written "source target label timestamp", with " -" for a delete and " on s" for a stream."""
    rows = []
    for text in tuples:
        text, _, stream = text.partition(" on ")
        source, target, label, timestamp, *op = text.split()
        rows += engine.push(source, target, label, int(timestamp), *(op or "+"), stream or None)
    return shown(engine, rows)


def shown(engine: SparqlReference, rows: list[Row]) -> list[str]:
    """Write rows as "+ x y @5", led by the query's name unless that is q."""
    found = []
    for row in rows:
        values = written(engine._running[row.query].question.pattern.shown(row.values))
        found.append(" ".join(filter(None, ["" if row.query == "q" else row.query, row.op, values, f"@{row.timestamp}"])))
    return found
