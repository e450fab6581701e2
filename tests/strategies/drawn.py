"""Graphs, tuples and rows as short text, for the examples that are drawn and worked by hand."""

from tests.reference import ReferenceEngine, ReferenceQuery, Row


def query(expression, size=10, slide=10, name="q", **options):
    return ReferenceQuery(name=name, expression=expression, size=size, slide=slide, **options)


def explicit(expression, size=10, slide=10, name="q", **options):
    return query(expression, size, slide, name, semantics="explicit", **options)


def shown(rows: list[Row]) -> list[str]:
    """Write rows as "+ x y @5", led by the query's name unless that is q."""
    return [f"{'' if r.query == 'q' else r.query + ' '}{r.op} {r.source} {r.target} @{r.timestamp}" for r in rows]


def push(engine: ReferenceEngine, *tuples: str) -> list[str]:
    """Push tuples written "source target label timestamp [op]"."""
    rows = []
    for text in tuples:
        source, target, label, timestamp, *op = text.split()
        rows += engine.push(source, target, label, int(timestamp), *op)
    return shown(rows)


def counted(engine: ReferenceEngine, name: str | None = None) -> dict[str, int]:
    return {key: count for key, count in engine.counts(name).items() if count}


def graph(*edges: str) -> list[tuple[str, str, str]]:
    """Edges written "x a y": from x to y with label a."""
    return [tuple(edge.split()) for edge in edges]


def pairs(text: str) -> set[tuple[str, str]]:
    """Pairs of one-letter vertices written "xy yz"."""
    return {(pair[0], pair[1]) for pair in text.split()}
