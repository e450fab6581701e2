"""The tests of the W3C in the engine: the data as a stream in any order, with deletes of what is not in it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import rpq
from rpq.rows.typed_columns import kinds_of
from rpq.stream.names.terms import read_literal
from tests.language.w3c_sparql import Case, agree, edges, expected, kept_cases, listed
from tests.reference import Edge

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("folder", listed())
def test_rows_come_to_what_the_suite_expects(folder):
    faults = {}
    for case in kept_cases(folder, evaluated=True):
        if case.result is None:
            continue
        if (found := fault(case, seed=len(case.name))) is not None:
            faults[case.name] = found
    assert not faults


def fault(case: Case, *, seed: int) -> str | None:
    query = rpq.Query(case.text, window=rpq.UnboundedWindow(), semantics="explicit", name="q")
    engine, rows = rpq.Engine(query), Counter()
    for name, own in case.named_graphs.items():
        engine.load_static([(source, target, label) for source, label, target in own], graph=name)
    steps = stream(edges(*case.default_graph), Random(seed))
    tuples = [
        (source, target, label, time, "-" if delete else "+")
        for time, (delete, (source, label, target)) in enumerate(steps, 1)
    ]
    cut = seed % (len(tuples) + 1)
    for changes in (engine.push_rows(tuples[:cut]), engine.push_rows(tuples[cut:]), engine.advance(len(tuples) + 1)):
        for row in changes:
            rows[tuple(row)[1:-2]] += 1 if row.op == "+" else -1
    rows = +rows
    wanted = expected(case)
    if isinstance(wanted, bool):
        found = bool(rows)
    elif isinstance(wanted, set):
        found = set(rows)
    else:
        kinds = dict(zip(query.columns, kinds_of(query.columns), strict=True))
        wanted = Counter(
            {frozenset((name, plain(term, kinds[name])) for name, term in row): number for row, number in wanted.items()}
        )
        found = Counter()
        for row, number in rows.items():
            named = zip(query.columns, row, strict=True)
            found[frozenset((name, plain(value, kinds[name])) for name, value in named if value is not None)] += number
    return None if agree(found, wanted) else f"{found}\n  where it should be\n  {wanted}"


def stream(data: list[Edge], random: Random) -> list[tuple[bool, Edge]]:
    """The data in any order, some of it twice or away for a while, among deletes of what is not in it."""
    steps: list[tuple[bool, Edge]] = [(False, edge) for edge in data]
    random.shuffle(steps)
    ends = [end for edge in data for end in (edge[0], edge[2])]
    for _ in range(len(data)):
        edge = random.choice(data)
        other = (random.choice(data)[0], random.choice(data)[1], random.choice(ends))
        if other not in data:
            steps.insert(random.randint(0, len(steps)), (True, other))
        if random.random() < 0.3:
            steps.insert(random.randint(0, len(steps)), (False, edge))
        if random.random() < 0.3:  # gone, and back at some time later
            place = random.randint(0, len(steps))
            steps.insert(place, (True, edge))
            steps.insert(random.randint(place + 1, len(steps)), (False, edge))
    return steps


def plain(value: object, kind: str) -> str:
    """A value as it can be compared: of a computed one the lexical form is all that rows tell."""
    if kind == "vertex":
        return str(value)
    literal = read_literal(str(value))
    text = str(value) if literal is None else literal.text
    try:
        return f'"{float(text):.12g}"'
    except ValueError:
        return f'"{text}"'
