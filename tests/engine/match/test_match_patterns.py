"""MATCH texts beside the same queries in the pattern notation: the rows of every chunk of a stream are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import rpq
from tests.engine.match.test_match import PHASES, SIZE, table
from tests.strategies.drawn_match import VERTICES, edge_streams
from tests.twins import examples

pytest.importorskip("lark", reason="the extra match is not installed")


@dataclass(frozen=True)
class Written:
    """A part of a query in both notations."""

    match: str
    pattern: str


@dataclass(frozen=True)
class TwoTexts:
    """A query in both notations, with the options that the pattern needs for what MATCH has in its text."""

    match: str
    pattern: str
    select: tuple[str, ...]
    filter: str | None
    distinct: bool


LABEL_TEXTS = {
    ":T": "T",
    ":T|S": "(T|S)",
    ":!T": "!(T|type)",
    "": "!(type)",
    ":%": "!(type)",
    ":type": "type",
}
QUANTIFIERS = {"+": "+", "{1,2}": "{1,2}", "{2}": "{2}", "{2,}": "{2,}", "{2,3}": "{2,3}"}
DIRECTIONS = {"right": ("-[", "]->"), "left": ("<-[", "]-"), "either": ("-[", "]-")}


def stepped(label: str, condition: str, direction: str) -> str:
    """Return the expression of a step; conditions stand behind single labels."""
    labels = label.strip("()").split("|") if label.startswith("(") else [label]
    forward = [f"{one}{condition}" for one in labels]
    backward = [f"^{one}{condition}" for one in labels]
    return "|".join([*(forward if direction != "left" else ()), *(backward if direction != "right" else ())])


@st.composite
def paths(draw: st.DrawFn, nodes: Sequence[str], variable: str) -> Written:
    """Draw a path of one step between two nodes: an edge with a variable, or a quantified one behind ANY."""
    start, end = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
    label, direction = draw(st.sampled_from([*LABEL_TEXTS, ":T", ":T"])), draw(st.sampled_from([*DIRECTIONS]))
    quantifier = draw(st.sampled_from(["", "", "", *QUANTIFIERS]))
    limit = draw(st.integers(1, 4))
    condition, bracket = draw(
        st.sampled_from(
            [
                ("", ""),
                (f" WHERE {variable}.amount >= {limit}", f"[amount >= {limit}]"),
                (f" {{amount: {limit}}}", f"[amount == {limit}]"),
                (
                    f" WHERE {variable}.amount IS NULL OR {variable}.amount < {limit}",
                    f"[amount is null or amount < {limit}]",
                ),
                (f" WHERE {variable}.timestamp > {5 * limit}", f"[timestamp > {5 * limit}]"),
            ]
        )
    )
    left, right = DIRECTIONS[direction]
    step = stepped(LABEL_TEXTS[label], bracket, direction)
    named, of_end = f"({start})", f"({end})"
    atoms = ""
    if draw(st.integers(0, 3)) == 3:
        kind = draw(st.sampled_from("AB"))
        named, atoms = f"({start}:{kind})", f" . ?{start} type {kind}"
    source, target = f"?{start}", f"?{end}"
    if end != start and draw(st.integers(0, 5)) == 5:
        fixed = draw(st.sampled_from(VERTICES))
        of_end, target = f"({{id: '{fixed}'}})", fixed
    edge = f"{left}{variable}{label}{condition}{right}{quantifier}"
    prefix = draw(st.sampled_from(["ANY ", "ANY SHORTEST ", "ANY WALK "])) if quantifier else ""
    if quantifier:
        return Written(f"{prefix}{named}{edge}{of_end}", f"{source} ({step}){quantifier} {target}{atoms}")
    return Written(f"{named}{edge}{of_end}", f"{source} ?{variable}:{step} {target}{atoms}")


@st.composite
def queries(draw: st.DrawFn) -> TwoTexts:
    """Draw a query."""
    parts = [draw(paths("abc", variable)) for variable in "efg"[: draw(st.integers(1, 3))]]
    pattern = " . ".join(part.pattern for part in parts)
    nodes = [name for name in "abc" if f"?{name} " in f"{pattern} "]
    edges = [name for name in "efg" if f"?{name}:" in pattern]
    wanted: list[Written] = []
    for _ in range(draw(st.integers(0, 2))):
        kinds = ["id"] + ["nodes"] * (len(nodes) > 1) + ["amount", "null"] * bool(edges) + ["edges"] * (len(edges) > 1)
        match draw(st.sampled_from(kinds)):
            case "id":
                node, fixed = draw(st.sampled_from(nodes)), draw(st.sampled_from(VERTICES))
                wanted.append(Written(f"{node}.id <> '{fixed}'", f"?{node} <> '{fixed}'"))
            case "nodes":
                one, other = draw(st.permutations(nodes))[:2]
                wanted.append(Written(f"{one} <> {other}", f"?{one} <> ?{other}"))
            case "amount":
                edge, limit = draw(st.sampled_from(edges)), draw(st.integers(1, 4))
                wanted.append(Written(f"{edge}.amount + 1 > {limit}", f"?{edge}.amount + 1 > {limit}"))
            case "null":
                edge = draw(st.sampled_from(edges))
                wanted.append(Written(f"NOT {edge}.amount IS NULL", f"not (?{edge}.amount is null)"))
            case "edges":
                one, other = draw(st.permutations(edges))[:2]
                what = draw(st.sampled_from(["amount", "timestamp"]))
                sign = draw(st.sampled_from(["<", "<=", "<>"]))
                wanted.append(Written(f"{one}.{what} {sign} {other}.{what}", f"?{one}.{what} {sign} ?{other}.{what}"))
    values = [*nodes, *(f"{edge}.{what}" for edge in edges for what in ("amount", "timestamp"))]
    select = tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=4, unique=True)))
    distinct = draw(st.booleans())
    clauses = [part.match for part in parts]
    text = " MATCH ".join(clauses) if draw(st.booleans()) else ", ".join(clauses)
    where = " WHERE " + " AND ".join(one.match for one in wanted) if wanted else ""
    return TwoTexts(
        f"MATCH {text}{where} RETURN {'DISTINCT ' * distinct}{', '.join(select)}",
        pattern,
        select,
        " and ".join(one.pattern for one in wanted) or None,
        distinct,
    )


def check(both: TwoTexts, stream: list[tuple[Any, ...]], identity: str, semantics: str, chunk: int) -> None:
    """Check that the two queries have equal changes and answers after each chunk."""
    options: dict[str, Any] = {"window": rpq.Window(size=SIZE, slide=1), "semantics": semantics}
    match = rpq.Query(both.match, name="match", **options)
    pattern = rpq.Query(
        both.pattern, name="pattern", select=both.select, filter=both.filter, distinct=both.distinct, language="pattern",
        **options,
    )  # fmt: skip
    engine = rpq.Engine(match, pattern, edges=identity)
    for first in range(0, len(stream), chunk):
        changes = engine.push(table(stream[first : first + chunk]))
        engine._check()
        tables = (changes.to_arrow(name).drop_columns("query").to_pydict() for name in ("match", "pattern"))
        of_match, of_pattern = (Counter(zip(*columns.values(), strict=True)) for columns in tables)
        assert of_match == of_pattern, both
        found = Counter(map(tuple, engine.answers("match")))
        assert found == Counter(map(tuple, engine.answers("pattern"))), both


@examples(300, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    queries(), edge_streams(), st.sampled_from(["parallel", "parallel", "triple"]),
    st.sampled_from(["explicit", "implicit"]), st.integers(1, 5),
)  # fmt: skip
def test_rows_are_those_of_the_pattern(both, stream, identity, semantics, chunk):
    check(both, stream, identity, semantics, chunk)


@pytest.mark.ci
@examples(500, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    queries(), edge_streams(size=40), st.sampled_from(["parallel", "parallel", "triple"]),
    st.sampled_from(["explicit", "implicit"]), st.integers(1, 7),
)  # fmt: skip
def test_rows_are_those_of_the_pattern_on_longer_streams(both, stream, identity, semantics, chunk):
    check(both, stream, identity, semantics, chunk)
