"""The papers' queries in the engine, over their streams: rows summed are pyoxigraph's answer at moments and at the end."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow.compute as pc
import pytest

import rpq
from rpq.stream.names.terms import read_literal
from rpq.workloads.sparql_queries import named_sparql, sparql_names
from tests.operators.relational.sparql_snapshots import Asked

NOT_COLUMNS = {"query", "timestamp", "op"}


class Summed:
    """The sum of all rows reported so far: each row with its count."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.rows: Counter = Counter()
        self.row_count = 0

    def add(self, changes: rpq.Changes) -> None:
        table = changes.to_arrow(self.query)
        self.row_count += table.num_rows
        columns = [name for name in table.column_names if name not in NOT_COLUMNS]
        sign = pc.if_else(pc.equal(table["op"], "+"), 1, -1)
        if not columns:
            self.rows[()] += pc.sum(sign).as_py() or 0
        else:
            sums = (
                table.select(columns)
                .append_column("sign of a row", sign)
                .group_by(columns)
                .aggregate([("sign of a row", "sum")])
            )
            for row, number in zip(sums.select(columns).to_pylist(), sums["sign of a row_sum"].to_pylist(), strict=True):
                self.rows[tuple(row.values())] += number
        assert not any(number < 0 for number in self.rows.values()), "a row left that had not come"
        self.rows = +self.rows


def run(name: str, *, edges: int, moments: int, seed: int) -> Summed:
    """Push a stream in batches of any size, and compare at moments between them, the end one of them."""
    question = Asked.of(named_sparql(name), edges=edges, seed=seed)
    query = rpq.Query(question.named.text, window=question.window, semantics="explicit", name=name)
    engine = rpq.Engine(query.in_unit(question.unit) if question.unit else query)
    if question.static is not None:
        engine.load_static(question.static)
    table, done, summed = question.tuples.table, 0, Summed(name)
    random = Random(seed)
    chosen = sorted(random.sample(range(1, edges), moments - 1)) + [edges]
    for moment in chosen:
        while done < moment:
            size = min(random.choice([1, 7, 300, edges]), moment - done)
            summed.add(engine.push(table.slice(done, size)))
            done += size
        wanted = alike(question.by_pyoxigraph(moment))
        assert alike(summed.rows) == wanted, moment
        assert alike(Counter(engine.answers(name))) == wanted, moment
    return summed


def alike(bag: Counter) -> Counter:
    """Rows as both write them: literals by their lexical form, and numbers but for their last digits."""
    found: Counter = Counter()
    for row, number in bag.items():
        found[tuple(map(_plain, row))] += number
    return found


def _plain(value: object) -> object:
    if value is None:
        return None
    literal = read_literal(str(value))
    text = str(value) if literal is None else literal.text
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


@pytest.mark.ci
@pytest.mark.parametrize("name", sparql_names())
def test_rows_come_to_the_answer_at_all_moments(name):
    assert run(name, edges=20_000, moments=3, seed=3).row_count
