"""Patterns, windows, tuples and rows as short text, for the examples that are drawn and worked by hand."""

from tests.reference_pattern_stream import PatternQuestion, PatternReference, Row, Window
from tests.reference_patterns import Atom, Blank, Constant, Pattern, Term, Variable


def term(text: str) -> Term:
    if text.startswith("?"):
        return Variable(text[1:])
    return Blank(text[2:]) if text.startswith("_:") else Constant(text)


def pattern(text: str, **options) -> Pattern:
    """Atoms written "?x a/b* ?y . ?y c constant in w", the window only where it is not the default one."""
    atoms = []
    for part in text.split(" . "):
        subject, expression, target, *window = part.split()
        atoms.append(Atom(term(subject), expression, term(target), *window[1:]))
    return Pattern(atoms=tuple(atoms), **options)


def window(text: str) -> Window:
    """A window written "10", "10/5", "count 3", "count 10/5", "unbounded", each perhaps with " on s"."""
    text, _, stream = text.partition(" on ")
    kind, _, extent = text.rpartition(" ") if text != "unbounded" else (text, "", "0")
    size, _, slide = extent.partition("/")
    alone = size if not kind else "1"  # a time window tumbles, a count window moves with every insert
    return Window(kind=kind or "time", size=int(size), slide=int(slide or alone), stream=stream or None)


def question(
    text: str, default: str | None = "10", name: str = "q", windows: dict | None = None, **options
) -> PatternQuestion:
    """A question over a default window and named ones; options of the pattern and of the question alike."""
    own = {key: options.pop(key) for key in ("semantics", "report") if key in options}
    return PatternQuestion(
        name=name,
        pattern=pattern(text, **options),
        window=None if default is None else window(default),
        windows={key: window(extent) for key, extent in (windows or {}).items()},
        **own,
    )


def explicit(
    text: str, default: str | None = "10", name: str = "q", windows: dict | None = None, **options
) -> PatternQuestion:
    return question(text, default, name, windows, semantics="explicit", **options)


def shown(rows: list[Row]) -> list[str]:
    """Write rows as "+ x y @5", led by the query's name unless that is q."""
    return [
        " ".join([*([] if row.query == "q" else [row.query]), row.op, *map(str, row.values), f"@{row.timestamp}"])
        for row in rows
    ]


def push(engine: PatternReference, *tuples: str) -> list[str]:
    """Push tuples written "source target label timestamp", with " -" for a delete and " on s" for a stream."""
    rows = []
    for text in tuples:
        text, _, stream = text.partition(" on ")
        source, target, label, timestamp, *op = text.split()
        rows += engine.push(source, target, label, int(timestamp), *(op or "+"), stream or None)
    return shown(rows)


def counted(engine: PatternReference, name: str | None = None) -> dict[str, int]:
    return {key: count for key, count in engine.counts(name).items() if count}


def edges(engine: PatternReference, name: str | None = None, graph: str | None = None) -> list[str]:
    """The edges of a graph of a query (of the only one, of the default graph), as "xy.a@1", static ones as "xy.a"."""
    times = engine.graphs(name)[graph]
    return sorted(f"{s}{t}.{label}" + ("" if time is None else f"@{time}") for (s, label, t), time in times.items())


def solved(text: str, *edges: str, **options) -> dict[str, int]:
    """Solutions of a pattern over edges written "x a y", as "x y" -> how often they come."""
    graph = [tuple(edge.split()) for edge in edges]
    return {" ".join(values): count for values, count in pattern(text, **options).solutions({None: graph}).items()}
