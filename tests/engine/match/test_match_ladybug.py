"""Queries in MATCH against ladybug, an embedded database that reads Cypher, on the snapshots of streams.

Ladybug matches by homomorphism along walks, as GQL does here by default; its quantifiers are `*1..2`, and it has neither
conditions inside edges nor sets of labels of nodes. Over snapshots of 200 edges it loses or invents rows of some texts with
three edges and an EXISTS, or with an edge from a vertex to itself (release 0.22); where the two differ, brute force decides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import rpq
from tests.engine.match.test_match import Snapshots, table
from tests.twins import scaled

ladybug = pytest.importorskip("ladybug")


@dataclass
class TwoTexts:
    """A query for both engines; under RETURN DISTINCT rows are compared as sets."""

    ours: str
    theirs: str


def drawn(random: Random, *, longest: int = 9) -> TwoTexts:
    """Draw a query whose path has at most so many edges: the database enumerates all walks."""
    is_distinct = random.random() < 0.6
    nodes, edges, length = ["a"], [], 0
    ours, theirs = ["(a)"], ["(a:N)"]
    for number in range(random.randint(1, 3)):
        node = random.choice([*nodes, f"b{number}"])
        label = random.choice(["T", "S", "T|S"])
        left, right = random.choice([("-[", "]->"), ("<-[", "]-"), *([("-[", "]-")] if is_distinct else [])])
        if is_distinct and random.random() < 0.4:
            least, most = random.choice([(1, 2), (2, 3), (2, 2), (1, 3)])
            length += most
            ours.append(f"{left}:{label}{right}{{{least},{most}}}({node})")
            theirs.append(f"{left}:{label}*{least}..{most}{right}({node}:N)")
        else:
            length += 1
            edge = f"e{number}"
            edges.append(edge)
            inside = random.choice(["", "", " {amount: 2}"])
            ours.append(f"{left}{edge}:{label}{inside}{right}({node})")
            theirs.append(f"{left}{edge}:{label}{inside}{right}({node}:N)")
        if node not in nodes:
            nodes.append(node)
    if length > longest:
        return drawn(random, longest=longest)
    conditions = []
    for _ in range(random.randint(0, 2)):
        kinds = ["name", "names"] + ["amount", "null"] * bool(edges) + ["amounts"] * (len(edges) > 1)
        match random.choice(kinds):
            case "name":
                conditions.append(f"{random.choice(nodes)}.id <> '{random.choice('uvwxyz')}'")
            case "names":
                conditions.append(f"{random.choice(nodes)}.id IN ['u', 'v', 'w']")
            case "amount":
                conditions.append(f"({random.choice(edges)}.amount * 2 >= {random.randint(1, 9)} OR a.id = 'u')")
            case "null":
                conditions.append(f"{random.choice(edges)}.amount IS NOT NULL")
            case "amounts":
                one, other = random.sample(edges, 2)
                conditions.append(f"{one}.amount + 1 > {other}.amount")
    exists = random.choice(["", "", "EXISTS", "NOT EXISTS"])
    end = random.choice(nodes)
    if exists:
        limit = f" WHERE x.amount > {random.choice([*(f'{edge}.amount' for edge in edges), '2'])}"
        conditions.append(f"{exists} {{ MATCH ({end})-[x:T]->(y%N){limit} }}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    optional = ""
    if random.random() < 0.3:
        optional = f" OPTIONAL MATCH ({random.choice(nodes)})-[o:S]->(m%N)" + random.choice(["", " WHERE o.amount > 2"])
    if random.random() < 0.3 and edges:
        amount = f"{random.choice(edges)}.amount"
        returned = (
            f"a.id AS n, count(*) AS c, sum({amount}) AS s, min({amount}) AS l, max({amount}) AS h, avg({amount}) AS v"
        )
        if is_distinct:
            return drawn(random, longest=longest)
    else:
        items = [f"{node}.id AS {node}" for node in nodes] + [f"{edge}.amount AS {edge}" for edge in edges[:1]]
        items += ["m.id AS m", "o.amount AS o"] if optional else []
        returned = ("DISTINCT " if is_distinct else "") + ", ".join(items)

    def text(parts: list[str], label: str) -> str:
        return f"MATCH {''.join(parts)}{where}{optional} RETURN {returned}".replace("%N", label)

    return TwoTexts(text(ours, ""), text(theirs, ":N"))


def stream(random: Random, size: int, vertices: str) -> list[tuple[Any, ...]]:
    """Draw tuples in order of time, some of them deletes."""
    time, rows = 1, []
    for _ in range(size):
        time += random.randint(0, 1)
        amount = random.choice([None, 1, 2, 3, 4, 5])
        ends = random.choice(vertices), random.choice("TTS"), random.choice(vertices)
        rows.append((*ends, time, amount, "-" if random.random() < 0.1 else "+"))
    return rows


class Database:
    """A snapshot in ladybug."""

    def __init__(self, vertices: str) -> None:
        self._connection = ladybug.Connection(ladybug.Database(":memory:"))
        self._connection.execute("CREATE NODE TABLE N(id STRING, PRIMARY KEY(id))")
        for label in "TS":
            self._connection.execute(f"CREATE REL TABLE {label}(FROM N TO N, amount INT64)")
        for name in vertices:
            self._connection.execute("CREATE (:N {id: $name})", {"name": name})

    def load(self, edges: Any) -> None:
        """Replace the edges."""
        for label in "TS":
            self._connection.execute(f"MATCH (:N)-[e:{label}]->(:N) DELETE e")
        for edge in edges:
            amount = "" if edge.amount is None else f" {{amount: {edge.amount}}}"
            ends = {"one": edge.source, "other": edge.target}
            made = f"MATCH (x:N), (y:N) WHERE x.id = $one AND y.id = $other CREATE (x)-[:{edge.label}{amount}]->(y)"
            self._connection.execute(made, ends)

    def rows(self, text: str) -> Counter[tuple[Any, ...]]:
        """Return the rows of a query."""
        return Counter(map(tuple, self._connection.execute(text).get_all()))


def check(
    seed: int, *, queries: int, size: int, moments: int, window: int, vertices: str = "uvwxyz", longest: int = 9
) -> int:
    """Compare several queries at moments of a stream; return how many rows were compared."""
    random = Random(seed)
    texts = [drawn(random, longest=longest) for _ in range(queries)]
    questions = [
        rpq.Query(one.ours, window=rpq.Window(size=window, slide=1), name=f"q{number}", semantics="explicit")
        for number, one in enumerate(texts)
    ]
    engine, snapshots = rpq.Engine(*questions, edges="parallel"), Snapshots("parallel", size=window)
    database, rows, compared = Database(vertices), stream(random, size, vertices), 0
    step = -(-size // moments)
    for first in range(0, size, step):
        engine.push(table(rows[first : first + step]))
        for row in rows[first : first + step]:
            edges = snapshots.take(row)
        database.load(edges)
        for number, one in enumerate(texts):
            mine, theirs = Counter(map(tuple, engine.answers(f"q{number}"))), database.rows(one.theirs)
            assert mine == theirs, (seed, one.ours, one.theirs, edges)
            compared += mine.total()
    return compared


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_answers_are_those_of_a_database(seed):
    assert check(seed, queries=8, size=24, moments=3, window=14)
