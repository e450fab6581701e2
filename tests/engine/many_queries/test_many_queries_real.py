"""Many queries over a real stream tell what each would alone."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest

import rpq
from rpq.workloads.bench.streams import DATA_SETS, load_files
from rpq.workloads.generate.pattern_sets import query_set
from tests.real import DATA

FILES = DATA / "ldbc"
pytestmark = pytest.mark.skipif(not FILES.exists(), reason="the LDBC updates are not here")
DAY = 86_400_000
WINDOWS = (rpq.Window(size=10 * DAY, slide=DAY), rpq.Window(size=3 * DAY, slide=DAY // 2), rpq.UnboundedWindow())
PATHS = ("knows/likes*", "likes/hasCreator", "replyOf*/hasCreator", "(knows|likes)+")


def queries(edges: list[tuple[str, str, str]], count: int, seed: int) -> list[rpq.Query]:
    """Path queries from one vertex or to one, patterns as those of TriC's sets, and some of these in SPARQL."""
    chance = random.Random(seed)
    drawn = query_set(edges, count, seed=seed, length=3, selectivity=0.6)
    found = []
    for number, one in enumerate(islice(drawn, count)):
        options: dict[str, Any] = {"name": f"q{number}", "window": chance.choice(WINDOWS), "semantics": "explicit"}
        if number % 5 < 2:
            source, _, target = chance.choice(edges)
            ends: dict[str, Any] = chance.choice([{"sources": [source]}, {"targets": [target]}])
            found.append(rpq.Query(chance.choice(PATHS), **ends, **options))
        elif number % 5 == 2:
            names = enumerate(zip(one.vertices, one.is_constant, strict=True))
            terms = [f"<{name}>" if fixed else f"?x{place}" for place, (name, fixed) in names]
            body = " . ".join(f"{terms[x]} <{label}> {terms[y]}" for x, label, y in one.atoms)
            found_rows = " ".join(term for term in terms if term.startswith("?")) or None
            found.append(rpq.Query(f"SELECT {found_rows} {{ {body} }}" if found_rows else f"ASK {{ {body} }}", **options))
        else:
            text = one.text if "?" in one.text else f"?a {chance.choice(['knows', 'likes'])} {one.vertices[0]}"
            found.append(rpq.Query(text, **options))
    return found


def with_deletes(edges: list[Any], seed: int) -> list[Any]:
    """Every tenth edge is deleted some hundred tuples later."""
    chance = random.Random(seed)
    rows: list[Any] = []
    for place, (source, target, label, time) in enumerate(edges):
        rows.append((source, target, label, time, "+"))
        if place % 10 == 9:
            rows.append((*edges[max(0, place - chance.randint(0, 300))][:3], time, "-"))
    return rows


def check_against_each_alone(count: int, length: int) -> None:
    table = load_files(DATA_SETS["ldbc"], DATA).first(length).table
    edges = list(zip(*(table[name].to_pylist() for name in ("source", "target", "label", "timestamp")), strict=True))
    questions = queries([(source, label, target) for source, target, label, _ in edges], count, seed=3)
    rows = with_deletes(edges, seed=4)
    engine = rpq.Engine(*questions[: count // 2], keep=rpq.Window(size=10 * DAY, slide=DAY))
    late = questions[count // 2 :]
    middle = len(rows) // 2
    found: Counter[Any] = Counter()
    found.update(tuple(row) for row in engine.push_rows(rows[:middle]))
    late = [query for query in late if query.window.kind == "time"]
    first = Counter(tuple(row) for row in engine.register(late))
    found.update(tuple(row) for row in engine.push_rows(rows[middle:]))
    found_rows: Counter[Any] = Counter()
    told_first: Counter[Any] = Counter()
    for place, query in enumerate((*questions[: count // 2], *late)):
        alone = rpq.Engine(keep=rpq.Window(size=10 * DAY, slide=DAY)) if place >= count // 2 else rpq.Engine(query)
        found_rows.update(tuple(row) for row in alone.push_rows(rows[:middle]))
        if place >= count // 2:
            told_first.update(tuple(row) for row in alone.register(query))
        found_rows.update(tuple(row) for row in alone.push_rows(rows[middle:]))
    assert found == found_rows and first == told_first
    assert len({row[0] for row in found}) > count // 10 and len(found) > count


def test_fifty_queries_tell_what_fifty_engines_do() -> None:
    check_against_each_alone(50, 4_000)


@pytest.mark.long
def test_a_thousand_queries_tell_what_a_thousand_engines_do() -> None:
    check_against_each_alone(1_000, 20_000)
