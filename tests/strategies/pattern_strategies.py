"""Random graphs, patterns, windows and streams of every kind, small enough that all of them happen to meet."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import strategies as st

from tests.reference_pattern_stream import PatternQuestion, Window
from tests.reference_patterns import Atom, Blank, Constant, Pattern, Variable

VERTICES = ["0", "1", "2", '"0"']  # the last a literal, of which "0" is the lexical form
LABELS = ["a", "b", "c"]
EDGE_EXPRESSIONS = ["a", "b", "^a"]
PATH_EXPRESSIONS = ["a+", "a/b*", "(a|^b)+", "!b", "!(a|^b)", "b{1,2}", "a/^a", "(a/b)+", "a*/b*"]

Tuple = tuple[str, str, str, int, str, str | None]  # source, target, label, timestamp, op, stream

edges = st.tuples(st.sampled_from(VERTICES), st.sampled_from(LABELS[:2]), st.sampled_from(VERTICES))
_all_edges = list(itertools.product(VERTICES, LABELS[:2], VERTICES))
graphs = st.lists(edges, max_size=10, unique=True) | st.lists(edges, max_size=30).map(
    lambda gone: [edge for edge in _all_edges if edge not in gone]
)


@st.composite
def patterns(draw: st.DrawFn, windows: tuple[str | None, ...] = (None,), most: int = 4) -> Pattern:
    """Up to `most` atoms of any shape over these windows, with one variable at least."""
    variables = [Variable(name) for name in "xyzw"[: draw(st.integers(1, 4))]]
    others = [Blank("x"), Blank("n"), Constant("0"), Constant("1"), Constant('"0"')]
    terms = st.sampled_from(variables * 4 + others)
    expressions = st.one_of(st.sampled_from(EDGE_EXPRESSIONS), st.sampled_from(EDGE_EXPRESSIONS + PATH_EXPRESSIONS))
    first = Atom(variables[0], draw(expressions), draw(terms), draw(st.sampled_from(windows)))
    rest = st.lists(st.builds(Atom, terms, expressions, terms, st.sampled_from(windows)), max_size=most - 1)
    atoms = tuple(draw(st.permutations([first, *draw(rest)])))
    names = Pattern(atoms=atoms).variables
    return Pattern(
        atoms=atoms,
        select=draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)),
        distinct=draw(st.booleans()),
        matching=draw(st.sampled_from(["homomorphism", "homomorphism", "isomorphism"])),
        paths=draw(st.sampled_from(["walk", "walk", "simple", "simple_cycle"])),
    )


@st.composite
def any_window(draw: st.DrawFn, kinds: tuple[str, ...] = ("time", "time", "count", "unbounded")) -> Window:
    kind = draw(st.sampled_from(kinds))
    stream = draw(st.sampled_from([None, None, "s"]))
    if kind == "unbounded":
        return Window(kind="unbounded", stream=stream)
    size, slide = (12, 5) if kind == "time" else (4, 3)
    return Window(kind=kind, size=draw(st.integers(1, size)), slide=draw(st.integers(1, slide)), stream=stream)


@st.composite
def questions(draw: st.DrawFn, name: str = "q", report: str = "change", most: int = 3) -> PatternQuestion:
    """A pattern over a default window, perhaps absent, and a window w; explicit."""
    default = st.just(None) | any_window() if report == "change" else any_window(kinds=("time",))
    return PatternQuestion(
        name=name,
        pattern=draw(patterns(windows=(None, "w"), most=most)),
        window=draw(default),
        windows={"w": draw(any_window())},
        semantics="explicit",
        report=report,
    )


@st.composite
def alike(draw: st.DrawFn, question: PatternQuestion, name: str) -> PatternQuestion:
    """The same question under another name, perhaps over longer windows of time."""
    longer = st.integers(0, 6)

    def perhaps_longer(window: Window) -> Window:
        return replace(window, size=window.size + draw(longer)) if window.kind == "time" else window

    return replace(
        question,
        name=name,
        window=question.window and perhaps_longer(question.window),
        windows={key: perhaps_longer(window) for key, window in question.windows.items()},
    )


@st.composite
def streams(draw: st.DrawFn, shortest: int = 6, longest: int = 25) -> list[Tuple]:
    """Tuples in order and not, again and again, with deletes; some of streams with a name."""
    tuples: list[Tuple] = []
    time = draw(st.integers(-15, 15))
    steps = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 4, 13]),  # how far the time moves
        st.sampled_from([0, 0, 0, 0, 1, 3, 9]),  # how late the tuple is
        edges | st.tuples(st.just("0"), st.sampled_from(LABELS), st.just("1")),
        st.sampled_from("+++-"),
        st.sampled_from([None, "s", "t"]),
    )
    for ahead, behind, (source, label, target), op, stream in draw(st.lists(steps, min_size=shortest, max_size=longest)):
        time += ahead
        tuples.append((source, target, label, time - behind, op, stream))
    return tuples
