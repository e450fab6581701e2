"""Patterns, windows, tuples and rows as short text, for the examples that are drawn and worked by hand."""

from tests.reference_pattern_stream import PatternQuestion, Window
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
